"""read_log: the store of a service as a log, of which one may ask what another policy would have earned."""

from __future__ import annotations

import asyncio
import tempfile
import weakref
from collections.abc import Sequence
from pathlib import Path
from typing import TYPE_CHECKING

if TYPE_CHECKING:
    from armtriage.logs import SlateLog
    from armtriage.service.parquet import State
    from armtriage.service.stores import PolicyRow, Store

_PAGE = 20_000  # decisions that are in memory at a time
_SQLITE = b"SQLite format 3\0"


def is_store(address: str) -> bool:
    """Return whether this is the address of a store, and not a log or a table.

    Examples
    --------
    >>> is_store("postgresql://localhost/decisions"), is_store("clicks.csv")
    (True, False)
    """
    if "://" in address:
        return True
    path = Path(address)
    if not path.is_file():
        return False
    with path.open("rb") as file:
        return file.read(len(_SQLITE)) == _SQLITE


def read_log(store: str, policy: str | None = None) -> SlateLog:
    """Return the decisions of a policy that a service has stored, with what it has learnt from them.

    A server may go on with its work meanwhile; the log ends where it stands now. It needs the extras ``serve`` and
    ``logs``, and room on the disk for a copy, which is deleted with the log.

    Parameters
    ----------
    store : str
        A file, ``sqlite:///FILE`` or ``postgresql://...``.
    policy : str, optional
        Its name; it may be left out where there is one only.
    """
    return asyncio.run(_read(store, policy))


async def _read(address: str, name: str | None) -> SlateLog:
    # They need the extras `serve` and `logs`, which a client does not.
    from armtriage.logs import SlateLog
    from armtriage.service.loop import load
    from armtriage.service.parquet import State
    from armtriage.service.stores import open_store

    store = open_store(address, owned=False, create=False)
    await store.open()
    try:
        row = _chosen(await store.policies(), name)
        state = await load(store, row)
        if state.contextual:
            raise ValueError(f"policy must be one without contexts, on which rewards depend, got {row.name!r}")
        if state.recipe.ordered and not state.recipe.cascade:
            raise ValueError(f"policy must be one without positions, on which rewards depend, got {row.name!r}")
        folder = tempfile.TemporaryDirectory(prefix="armtriage-")
        try:
            await _copy(store, row, State.of(state), Path(folder.name))
            log = await asyncio.to_thread(SlateLog.read, folder.name)
        except BaseException:
            folder.cleanup()
            raise
        weakref.finalize(log, folder.cleanup)
        return log
    finally:
        await store.close()


def _chosen(rows: Sequence[PolicyRow], name: str | None) -> PolicyRow:
    names = [row.name for row in rows]
    if name is None and len(rows) == 1:
        return rows[0]
    if name is None or name not in names:
        raise ValueError(f"policy must be one of the store's, {', '.join(names) or 'which has none'}, got {name!r}")
    return rows[names.index(name)]


async def _copy(store: Store, row: PolicyRow, state: State, folder: Path) -> None:
    """Write the decisions to files, page by page; at least one, which may be empty."""
    from armtriage.service.parquet import page, write

    after = -1
    for place in range(1 + state.head):
        found = await page(store, row, state, after, _PAGE)
        if found.height or not place:
            (folder / f"{place:08d}.parquet").write_bytes(await asyncio.to_thread(write, found, row, state))
        if not found.height:
            return
        after = found["number"][-1]
