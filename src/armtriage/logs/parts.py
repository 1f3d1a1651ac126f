"""Tables in a folder, as Parquet files that are each whole or not there at all. Only `logs` reads and writes them."""

from __future__ import annotations

import io
import secrets
import time
import warnings
from collections.abc import Mapping
from pathlib import Path
from types import ModuleType
from typing import TYPE_CHECKING, Any

import numpy as np
from numpy.typing import NDArray

from armtriage._files import sweep, write_whole
from armtriage.errors import DamagedFile

if TYPE_CHECKING:
    from polars import DataFrame, Series

_PART = 65_536  # rows after which a part is complete, and another begins


def require_polars() -> ModuleType:
    """Return polars, or raise an ImportError that says what to do where it is missing."""
    try:
        import polars
    except ImportError as error:
        raise ImportError("logs need polars: pip install 'armtriage[logs]'") from error
    return polars


def parts_of(folder: Path) -> list[Path]:
    """Return the parts of a table, oldest first."""
    return sorted(path for path in folder.glob("*.parquet") if not path.name.startswith("."))


def whole_parts(folder: Path) -> list[Path]:
    """Return the parts that can be read: a torn last one is left out with a warning, any other raises `DamagedFile`."""
    parts = parts_of(folder)
    for path in parts:
        if not _is_whole(path):
            if path != parts[-1]:
                raise DamagedFile(f"{path} is damaged: it is no whole Parquet file, and later ones follow it")
            # A copy or a disk may tear what was written whole.
            warnings.warn(f"{path} is torn: its rows are left out", RuntimeWarning, stacklevel=3)
            return parts[:-1]
    return parts


def _is_whole(path: Path) -> bool:
    """Whether a file begins and ends as Parquet does."""
    with path.open("rb") as file:
        first, size = file.read(4), file.seek(0, 2)
        if size < 12:
            return False
        file.seek(size - 8)
        length, last = int.from_bytes(file.read(4), "little"), file.read(4)
    return first == last == b"PAR1" and length + 12 <= size


class PartWriter:
    """Adds rows to a table. What was written stays, whenever the process is killed.

    The last part is written again with more rows until it is long enough, so that many small additions do not leave
    many small files. Its name says when it was begun; several processes may add to one table.

    Examples
    --------
    >>> import tempfile
    >>> pl = require_polars()
    >>> with tempfile.TemporaryDirectory() as folder:
    ...     writer = PartWriter(Path(folder, "numbers"), {"about": "an example"})
    ...     writer.add(pl.DataFrame({"n": [1, 2]}))
    ...     writer.add(pl.DataFrame({"n": [3]}))
    ...     [pl.read_parquet(path)["n"].to_list() for path in whole_parts(Path(folder, "numbers"))]
    [[1, 2, 3]]
    """

    def __init__(self, folder: Path, metadata: Mapping[str, str]) -> None:
        self._folder, self._metadata = folder, dict(metadata)
        self._path: Path | None = None
        self._rows: DataFrame | None = None

    def add(self, rows: DataFrame) -> None:
        """Write rows, and wait until they are on the disk."""
        if not rows.height:
            return
        if self._path is None:
            self._folder.mkdir(exist_ok=True)
            sweep(self._folder)
            self._path = self._folder / f"{time.time_ns():020d}-{secrets.token_hex(4)}.parquet"
        whole = rows if self._rows is None else require_polars().concat([self._rows, rows])
        buffer = io.BytesIO()
        whole.write_parquet(buffer, metadata=self._metadata)
        write_whole(self._path, buffer.getbuffer(), durable=True)
        self._rows = whole
        if whole.height >= _PART:
            self._path = self._rows = None


def list_column(name: str, values: NDArray[Any], sizes: NDArray[np.int64], kind: Any) -> Series:
    """Return a column of lists of so many values each: no list where there are none, and null for nan.

    Examples
    --------
    >>> pl = require_polars()
    >>> list_column("arms", np.array([4, 7, 5]), np.array([2, 0, 1]), pl.Int32).to_list()
    [[4, 7], None, [5]]
    """
    pl = require_polars()
    some = np.flatnonzero(sizes)
    if not some.size:
        empty: Series = pl.Series(name, [None] * sizes.size, dtype=pl.List(kind))
        return empty
    flat = pl.Series(name, values, dtype=kind)
    if values.dtype.kind == "f":
        flat = flat.fill_nan(None)
    rows = pl.DataFrame({"row": np.repeat(np.arange(sizes.size), sizes), name: flat})
    lists: Series = rows.group_by("row", maintain_order=True).agg(name)[name]
    if some.size == sizes.size:
        return lists
    places = np.full(sizes.size, -1)
    places[some] = np.arange(some.size)
    index = pl.Series(places)
    return lists.gather(index.set(index < 0, None)).alias(name)
