"""What the folder of an experiment holds, as arrays and tables."""

from __future__ import annotations

import json
from collections.abc import Iterator, Mapping, Sequence
from datetime import datetime
from typing import TYPE_CHECKING, Any, NamedTuple

import numpy as np
from numpy.typing import NDArray

from armtriage.experiments.cells import Cell
from armtriage.experiments.folder import Folder, Manifest

if TYPE_CHECKING:
    import polars

__all__ = ["Kept", "Runs", "configurations", "read"]

_FILES = 200  # read at once; some systems open no more
_PLAY = (
    "environment", "policy", "replication", "cell", "committed_at", "seconds", "rounds_per_second",
    "environment_seed", "policy_seed", "seed", "version", "code", "python", "numpy", "numba", "scipy", "polars",
    "host", "engine", "started", "error",
)  # fmt: skip
_Records = Mapping[str, Mapping[str, Any]]


class Runs(NamedTuple):
    """Finished runs of a policy in an environment: a row of regret (and certificates) a run, a column a checkpoint."""

    rounds: NDArray[np.int64]
    replications: NDArray[np.int64]
    regret: NDArray[np.float64]
    committed_at: NDArray[np.int64]
    n_arms: int
    certificate: NDArray[np.float64] | None = None


class Kept(NamedTuple):
    """What a folder holds of its experiment: the runs of each pair of the manifest, and all plays as a table."""

    manifest: Manifest
    pairs: tuple[Runs | None, ...]
    plays: polars.DataFrame
    missing: int
    failed: int
    stale: int


def read(folder: Folder) -> Kept:
    """Return what a folder holds of its experiment."""
    manifest, records = folder.manifest(), folder.records()
    cells = manifest.cells
    whole = folder.whole(cells, records)
    latest = {record["cell"]: record for record in records}
    failed = {name: record for name, record in latest.items() if record["error"] and name not in whole}
    played = {record["cell"]: record for record in records if not record["error"]} | failed
    there = [cell for cell in cells if cell.id in whole]
    runs = {cell.id: one for cell, one in zip(there, _runs(folder, there, played), strict=True)}
    known = [cell for cell in cells if cell.id in runs or cell.id in failed]
    blocks = len(cells) // len(manifest.pairs)
    groups = (cells[first : first + blocks] for first in range(0, len(cells), blocks))
    return Kept(
        manifest,
        tuple(_joined([runs[cell.id] for cell in group if cell.id in runs]) for group in groups),
        _plays(known, runs, played),
        missing=len(cells) - len(known),
        failed=len(known) - len(runs),
        stale=len(folder.ids() - {cell.id for cell in cells}),
    )


def _runs(folder: Folder, cells: Sequence[Cell], played: _Records) -> Iterator[Runs]:
    """Return the runs of each cell; many files are read at once, which takes a fraction of the time."""
    import polars

    for first in range(0, len(cells), _FILES):
        some = cells[first : first + _FILES]
        table = polars.read_parquet([folder.place(cell) for cell in some], include_file_paths="file")
        ends = np.cumsum(table["file"].rle().struct.field("len").to_numpy())
        rounds, replications, regret, committed = (
            np.split(table[name].to_numpy(), ends[:-1]) for name in ("round", "replication", "regret", "committed_at")
        )
        kept = np.split(table["certificate"].to_numpy(), ends[:-1]) if some[0].certificate else None
        for place, cell in enumerate(some):
            points = rounds[place].size // cell.count
            yield Runs(
                rounds[place][:points],
                replications[place][::points],
                regret[place].reshape(cell.count, points),
                committed[place][::points],
                played.get(cell.id, {}).get("n_arms") or 0,
                None if kept is None else kept[place].reshape(cell.count, points),
            )


def _joined(parts: Sequence[Runs]) -> Runs | None:
    if not parts:
        return None
    return Runs(
        parts[0].rounds.copy(),
        np.concatenate([part.replications for part in parts]),
        np.concatenate([part.regret for part in parts]),
        np.concatenate([part.committed_at for part in parts]),
        max(part.n_arms for part in parts),
        np.concatenate(kept) if (kept := [one for part in parts if (one := part.certificate) is not None]) else None,
    )


def _plays(cells: Sequence[Cell], runs: Mapping[str, Runs], played: _Records) -> polars.DataFrame:
    """Return a row a run, also of failed ones; what has no record is null."""
    import polars

    columns: dict[str, list[Any]] = {name: [] for name in _PLAY}
    for cell in cells:
        record = played.get(cell.id, {})
        seconds, started, versions = record.get("seconds"), record.get("started"), record.get("versions", {})
        shared = {
            **record,
            **versions,
            "environment": cell.environment.label,
            "policy": cell.policy.label,
            "cell": cell.id,
            "seconds": None if seconds is None else seconds / cell.count,
            "rounds_per_second": cell.environment.horizon * cell.count / seconds if seconds else None,
            "policy_seed": cell.policy_seed,
            "seed": cell.root,
            "version": versions.get("armtriage"),
            "code": cell.code,
            "started": None if started is None else datetime.fromisoformat(started),
        }
        own = {
            "replication": cell.replications,
            "committed_at": runs[cell.id].committed_at.tolist() if cell.id in runs else [-1] * cell.count,
            "environment_seed": [cell.environment_seed(number) for number in cell.replications],
        }
        for name, values in columns.items():
            values += own[name] if name in own else [shared.get(name)] * cell.count
    types: dict[str, Any] = dict.fromkeys(_PLAY, polars.String) | {"started": polars.Datetime("us", "UTC")}
    types |= dict.fromkeys(("replication", "committed_at"), polars.Int64)
    types |= dict.fromkeys(("seconds", "rounds_per_second"), polars.Float64)
    for name in ("environment_seed", "policy_seed", "seed"):
        if all(map(_fits, columns[name])):
            types[name] = polars.Int64
        else:
            columns[name] = [str(seed) for seed in columns[name]]
    never = polars.when(polars.col("committed_at") >= 0).then("committed_at")
    return polars.DataFrame(columns, types).with_columns(never)


def configurations(manifest: Manifest) -> polars.DataFrame:
    """Return a row a pair: the labels and options of its environment and policy, null where one has no such option."""
    import polars

    environments = [
        {"horizon": one.horizon, "environment.instance": one.instance} | _flat("environment", one.options)
        for one in manifest.environments
    ]
    policies = [{"policy.policy": one.policy} | _flat("policy", one.options) for one in manifest.policies]
    names = dict.fromkeys(name for one in (*environments, *policies) for name in one)
    labels = {
        "environment": [manifest.environments[one].label for one, _ in manifest.pairs],
        "policy": [manifest.policies[one].label for _, one in manifest.pairs],
    }
    rows = [environments[environment] | policies[policy] for environment, policy in manifest.pairs]
    options = [_column(name, [row.get(name) for row in rows]) for name in names]
    return polars.DataFrame(labels).with_columns(options)


def _flat(name: str, options: Mapping[str, Any]) -> dict[str, Any]:
    """Return options by their names with dots, those of tables within too."""
    made: dict[str, Any] = {}
    for key, value in options.items():
        made |= _flat(f"{name}.{key}", value) if isinstance(value, Mapping) else {f"{name}.{key}": value}
    return made


def _column(name: str, values: Sequence[Any]) -> polars.Series:
    """Return values as numbers if all are, as truth values if all are, else as text."""
    import polars

    kinds = {type(value) for value in values if value is not None}
    if kinds == {bool}:
        return polars.Series(name, values, polars.Boolean)
    if kinds == {int} and all(value is None or _fits(value) for value in values):
        return polars.Series(name, values, polars.Int64)
    if float in kinds and kinds <= {int, float}:
        return polars.Series(name, [None if value is None else float(value) for value in values], polars.Float64)
    texts = [value if value is None or isinstance(value, str) else json.dumps(value) for value in values]
    return polars.Series(name, texts, polars.String)


def _fits(value: int) -> bool:
    return -(2**63) <= value < 2**63
