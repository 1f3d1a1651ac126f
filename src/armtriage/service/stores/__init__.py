"""The stores: one SQLite file for one server, or a PostgreSQL database for many."""

from __future__ import annotations

from armtriage.service.stores.sqlite import SqliteStore
from armtriage.service.stores.store import Group, KeyRow, PolicyGone, PolicyRow, Snapshot, Store, StoreError, Write

__all__ = [
    "Group",
    "KeyRow",
    "PolicyGone",
    "PolicyRow",
    "Snapshot",
    "SqliteStore",
    "Store",
    "StoreError",
    "Write",
    "open_store",
]


def open_store(address: str, *, owned: bool = True, create: bool = True) -> Store:
    """Return the store at ``sqlite:///FILE``, a path, or ``postgresql://...``; it is not opened yet.

    A file that is not there is made only with `create`.

    Examples
    --------
    >>> open_store("sqlite:///decisions.db").path.name
    'decisions.db'
    """
    scheme, found, rest = address.partition("://")
    if not found:
        return SqliteStore(address, owned=owned, create=create)
    if scheme == "sqlite":
        return SqliteStore(rest.removeprefix("/"), owned=owned, create=create)
    if scheme in ("postgresql", "postgres"):
        from armtriage.service.stores.postgres import PostgresStore

        return PostgresStore(address)
    raise ValueError(f"store must be a file, sqlite:///FILE or postgresql://..., got {scheme}://...")
