"""The folder of an experiment: its manifest, a Parquet file for each cell, and a log of every play.

::

    experiment.json          what the experiment is; replaced as a whole
    cells/<id>.parquet       the table of a cell, which it names; it appears only when it is whole
    runs/<run>.jsonl         one line for each play, appended before the table appears; each process has its own file

Nothing is ever written twice by different processes, so several can share a folder, and folders can be merged by
copying their files together.
"""

from __future__ import annotations

import json
import os
import secrets
import warnings
from collections.abc import Iterable, Mapping, Sequence
from contextlib import suppress
from datetime import datetime, timedelta
from pathlib import Path
from typing import TYPE_CHECKING, Any, Self

import numpy as np

from armtriage._files import HOST, sweep, write_whole
from armtriage.errors import DamagedFile, ExperimentError
from armtriage.experiments.cells import Cell, Outcome, table_digest
from armtriage.experiments.manifest import Manifest

if TYPE_CHECKING:
    import polars

_MANIFEST = "experiment.json"
_NEEDED = {"cell", "started", "digest", "error"}
_TEXTS = ("digest", "error", "environment_key", "policy_key", "host", "engine")
_NUMBERS = ("seconds", "count", "n_arms")


class Folder:
    """Where the cells of an experiment are kept.

    Parameters
    ----------
    path : path
        The folder; it need not be there until `begin`.

    Examples
    --------
    >>> Folder("nowhere").records()
    []
    """

    def __init__(self, path: str | os.PathLike[str]) -> None:
        self.path = Path(path)
        self._safe = 0
        self._log: int | None = None

    def manifest(self) -> Manifest:
        """Return the manifest.

        Raises
        ------
        FileNotFoundError
            If there is none, so that nothing was ever run in this folder.
        DamagedFile
            If it is not the manifest of an experiment.
        """
        place = self.path / _MANIFEST
        try:
            return Manifest.from_json(json.loads(place.read_text(encoding="utf-8")))
        except FileNotFoundError:
            raise FileNotFoundError(f"{self.path} is no folder of an experiment: it has no {_MANIFEST}") from None
        except (KeyError, TypeError, ValueError) as error:
            raise DamagedFile(f"{place} is not the manifest of an experiment: {error!s:.500}") from error
        except RecursionError:
            raise DamagedFile(f"{place} is not the manifest of an experiment: it is nested too deeply") from None

    def begin(self, manifest: Manifest) -> None:
        """Make the folder ready for the cells of an experiment; refuse that of another one."""
        place = self.path / _MANIFEST
        if place.exists() and (there := self.manifest()).name != manifest.name:
            say = f"{self.path} holds the experiment {there.name!r}, and this one is {manifest.name!r}"
            raise ValueError(f"{say}: give it another folder, or the same name")
        text = json.dumps(manifest.to_json(), indent=1, ensure_ascii=False).encode()
        try:
            for part in ("cells", "runs"):
                (self.path / part).mkdir(parents=True, exist_ok=True)
            for folder in (self.path, self.path / "cells"):
                sweep(folder)
            if not place.exists() or place.read_bytes() != text:
                write_whole(place, text, durable=False)
        except OSError as error:
            raise self._no_room(error) from error

    def ids(self) -> set[str]:
        """Return the cells that have a file, of this experiment or of what it was before."""
        with suppress(FileNotFoundError), os.scandir(self.path / "cells") as entries:
            return {one.name.removesuffix(".parquet") for one in entries if one.name.endswith(".parquet")}
        return set()

    def place(self, cell: Cell) -> Path:
        """Return the file of a cell's table."""
        return self.path / "cells" / f"{cell.id}.parquet"

    def records(self) -> list[dict[str, Any]]:
        """Return the records of all plays, in the order they began.

        A line that is none is skipped: a killed process may leave half of one, and the file may have been edited.
        """
        found = []
        for log in (self.path / "runs").glob("*.jsonl"):
            for line in log.read_bytes().splitlines():
                with suppress(ValueError, RecursionError):
                    record = json.loads(line)
                    if _is_record(record):
                        found.append(record)
        return sorted(found, key=lambda record: str(record["started"]))

    def whole(self, cells: Iterable[Cell], records: Iterable[Mapping[str, Any]] | None = None) -> set[str]:
        """Return which of the cells are there, and as they were written; of damaged files it warns.

        Parameters
        ----------
        cells : iterable of Cell
            The cells that are looked for.
        records : iterable of mapping, optional
            What `records` returns, if it is at hand.
        """
        there = self.ids()
        sums: dict[str, set[str]] = {}
        for record in self.records() if records is None else records:
            sums.setdefault(record["cell"], set()).add(record["digest"])
        found, damaged = set(), []
        for cell in cells:
            if cell.id in there:
                known = sums.get(cell.id, set()) - {None}
                if _is_whole(self.place(cell), cell, known):
                    found.add(cell.id)
                else:
                    damaged.append(self.place(cell).name)
        if damaged:
            warnings.warn(f"{len(damaged)} damaged files count as missing: {', '.join(damaged[:3])}", stacklevel=2)
        self._safe = len(found)
        return found

    def keep(self, cell: Cell, outcome: Outcome) -> None:
        """Keep the record of a play, then the table if there is one.

        Raises
        ------
        ExperimentError
            If it cannot be written; nothing half-written is left then.
        """
        line = json.dumps(outcome.record, separators=(",", ":")).encode() + b"\n"
        try:
            if self._log is None:
                name = f"{HOST}-{os.getpid()}-{secrets.token_hex(4)}.jsonl"
                self._log = os.open(self.path / "runs" / name, os.O_WRONLY | os.O_CREAT | os.O_APPEND | _BINARY, 0o666)
            _write(self._log, line)
            if outcome.table:
                write_whole(self.place(cell), outcome.table, durable=False)
                self._safe += 1
        except OSError as error:
            raise self._no_room(error) from error

    def close(self) -> None:
        """Close the log."""
        if self._log is not None:
            os.close(self._log)
            self._log = None

    def __enter__(self) -> Self:
        return self

    def __exit__(self, *_: object) -> None:
        self.close()

    def _no_room(self, error: OSError) -> ExperimentError:
        say = f"cannot write to {self.path}: {error.strerror or error}"
        return ExperimentError(f"{say}; {self._safe} finished cells are safe, and running it again goes on from them")


_BINARY: int = getattr(os, "O_BINARY", 0)


def _write(file: int, content: bytes) -> None:
    """Write all of it: the system may take less at a time, and says why only when it takes nothing."""
    rest = memoryview(content)
    while rest:
        rest = rest[os.write(file, rest) :]


def _is_whole(place: Path, cell: Cell, sums: set[str]) -> bool:
    """Whether it is the table of the cell: as it was written or, without a record of that, as far as one can tell."""
    try:
        return table_digest(place.read_bytes()) in sums if sums else _names_its_cell(place, cell)
    except OSError:
        return False


def _names_its_cell(place: Path, cell: Cell) -> bool:
    import polars

    if tables_of([place], [cell]) is None:
        return False
    table = polars.scan_parquet(place)
    named = table.select("cell").unique().collect()["cell"] if tuple(table.collect_schema()) == cell.columns else ()
    return list(named) == [cell.id]


def tables_of(places: list[Path], cells: Sequence[Cell]) -> polars.DataFrame | None:
    """Return the tables of cells one after another, if each is as long as its cell says and of the right numbers."""
    import polars

    whole, real = polars.Int64(), polars.Float64()
    kinds = {"replication": whole, "round": whole, "regret": real, "committed_at": whole}
    kinds |= {"certificate": real} if cells[0].certificate else {}
    rounds = [cell.rounds for cell in cells]
    numbers = np.concatenate([np.repeat(one.replications, at.size) for one, at in zip(cells, rounds, strict=True)])
    points = np.concatenate([np.tile(at, one.count) for one, at in zip(cells, rounds, strict=True)])
    try:
        tables = polars.scan_parquet(places)
        # The number of rows is known before any is unpacked.
        if tables.select(polars.len()).collect().item() != numbers.size:
            return None
        table = tables.select(*kinds).collect()
    except (polars.exceptions.PolarsError, polars.exceptions.PanicException, OSError):
        return None
    same = np.array_equal(table["replication"], numbers) and np.array_equal(table["round"], points)
    return table if same and table.schema == kinds and not sum(table.null_count().row(0)) else None


def _is_record(record: Any) -> bool:
    """Whether a line of a log is the record of a play, with what tables are made of as they expect it."""
    if not isinstance(record, dict) or not record.keys() >= _NEEDED:
        return False
    json.dumps(record, ensure_ascii=False).encode()  # refuses half a character, which no table can hold
    started, versions, numbers = record["started"], record.get("versions", {}), [record.get(one) for one in _NUMBERS]
    return (
        isinstance(record["cell"], str)
        and isinstance(started, str)
        and datetime.fromisoformat(started).utcoffset() == timedelta(0)
        and all(one is None or isinstance(one, str) for one in map(record.get, _TEXTS))
        and isinstance(versions, dict)
        and all(isinstance(one, str) for one in versions.values())
        and all(one is None or (isinstance(one, int | float) and 0 <= one <= 2**53) for one in numbers)
    )
