"""From the files of an experiment to arrays and tables: runs, plays, options as columns, and rows of statistics."""

from __future__ import annotations

import json
import math
from collections.abc import Iterator, Mapping, Sequence
from datetime import datetime
from typing import TYPE_CHECKING, Any, NamedTuple

import numpy as np

from armtriage.errors import DamagedFile
from armtriage.experiments.cells import Cell
from armtriage.experiments.folder import Folder, tables_of
from armtriage.experiments.manifest import Manifest
from armtriage.experiments.statistics import mean_interval, ratio_interval
from armtriage.kernels.record import Floats, Ints

if TYPE_CHECKING:
    import polars

EXACT = 1e-9
"""What a sum of floating-point numbers may be off by, per round."""
_FILES = 200  # read at once; some systems open no more
_PLAY = (
    "environment", "policy", "replication", "cell", "committed_at", "seconds", "rounds_per_second",
    "environment_seed", "policy_seed", "seed", "version", "code", "python", "numpy", "numba", "scipy", "polars",
    "host", "engine", "started", "error",
)  # fmt: skip
_Records = Mapping[str, Mapping[str, Any]]


class Runs(NamedTuple):
    """Finished runs of a policy in an environment: regret and certificates have a row for each run.

    Their columns are the checkpoints, `rounds`.
    """

    rounds: Ints
    replications: Ints
    regret: Floats
    committed_at: Ints
    n_arms: int
    certificate: Floats | None = None

    def at(self, rounds: int | None, environment: str) -> Runs:
        """Return the runs at one checkpoint, by default the last."""
        column = self.rounds.size - 1 if rounds is None else int(np.searchsorted(self.rounds, rounds))
        if rounds is not None and rounds not in self.rounds:
            near = " and ".join(str(one) for one in self.rounds[max(column - 1, 0) : column + 1])
            where = f"in {environment!r} the nearest are {near}"
            raise ValueError(f"at must be a round at which the regret was kept, got {rounds}; {where}")
        one = slice(column, column + 1)
        kept = None if self.certificate is None else self.certificate[:, one]
        return self._replace(rounds=self.rounds[one], regret=self.regret[:, one], certificate=kept)


def read_runs(folder: Folder, cells: Sequence[Cell], played: _Records) -> Iterator[Runs]:
    """Return the runs of each cell; many files are read at once, which takes a fraction of the time.

    Raises
    ------
    DamagedFile
        If a table is not that of its cell, whatever the logs say of it.
    """
    for first in range(0, len(cells), _FILES):
        some = cells[first : first + _FILES]
        table = _read(folder, some)
        ends = np.cumsum([cell.count * cell.rounds.size for cell in some])[:-1]
        regret, committed = (np.split(table[name].to_numpy(), ends) for name in ("regret", "committed_at"))
        kept = np.split(table["certificate"].to_numpy(), ends) if some[0].certificate else None
        for place, cell in enumerate(some):
            rounds = cell.rounds
            yield Runs(
                rounds,
                np.array(cell.replications),
                regret[place].reshape(cell.count, rounds.size),
                committed[place][:: rounds.size],
                played.get(cell.id, {}).get("n_arms") or 0,
                None if kept is None else kept[place].reshape(cell.count, rounds.size),
            )


def _read(folder: Folder, cells: Sequence[Cell]) -> polars.DataFrame:
    """Return the tables of cells one after another; if they are not all right, refuse the first that is not."""
    import polars

    places = [folder.place(cell) for cell in cells]
    if (table := tables_of(places, cells)) is not None:
        return table
    if len(cells) > 1:
        return polars.concat([_read(folder, [cell]) for cell in cells])
    raise DamagedFile(f"{places[0]} is not the table of its cell: remove it, and run the experiment again")


def joined(parts: Sequence[Runs]) -> Runs | None:
    """Return the runs of several cells of one pair together; None if there are none."""
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


def plays_table(cells: Sequence[Cell], runs: Mapping[str, Runs], played: _Records) -> polars.DataFrame:
    """Return one row for each run, also of failed ones; what has no record is null."""
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


def options_table(manifest: Manifest) -> polars.DataFrame:
    """Return one row for each pair: the labels and options of its environment and policy; null where it has none."""
    import polars

    environments = [
        {"horizon": one.horizon, "environment.instance": one.what} | _flat("environment", one.options)
        for one in manifest.environments
    ]
    policies = [{"policy.policy": one.what} | _flat("policy", one.options) for one in manifest.policies]
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
    if float in kinds and kinds <= {int, float} and all(map(_fits, (one for one in values if type(one) is int))):
        return polars.Series(name, [None if value is None else float(value) for value in values], polars.Float64)
    texts = [value if value is None or isinstance(value, str) else json.dumps(value) for value in values]
    return polars.Series(name, texts, polars.String)


def _fits(value: int) -> bool:
    return -(2**63) <= value < 2**63


def mean_row(own: Runs | None, level: float, interval: str) -> dict[str, Any]:
    """Return the mean regret at a checkpoint, with its interval."""
    if own is None:
        return {"runs": 0}
    regret = own.regret[:, 0]
    low, high = mean_interval(regret, level, interval)
    spread = float(regret.std(ddof=1)) if regret.size > 1 else None
    about = {"round": int(own.rounds[0]), "runs": regret.size, "mean": float(regret.mean())}
    kept = {} if own.certificate is None else {"certificate": float(own.certificate.mean())}
    return {**about, "low": low, "high": high, "std": spread, **kept}


def certificate_row(own: Runs | None, runs: Runs | None, level: float, interval: str) -> dict[str, Any]:
    """Return the mean certificate at a checkpoint, its ratio to the mean regret, and how many runs ever exceeded it."""
    if own is None or runs is None or own.certificate is None or runs.certificate is None:
        return {"runs": 0}
    low, high = ratio_interval(own.certificate[:, 0], own.regret[:, 0], level, interval)
    mean, lost = float(own.certificate.mean()), float(own.regret.mean())
    return {
        "round": int(own.rounds[0]),
        "runs": own.regret.size,
        "certificate": mean,
        "ratio": mean / lost if lost > 0.0 else None,
        "ratio_low": low,
        "ratio_high": high,
        "exceeded": int((runs.regret > runs.certificate + EXACT * runs.rounds).any(axis=1).sum()),
    }


def difference_row(own: Runs | None, base: Runs | None, level: float, interval: str) -> dict[str, Any]:
    """Return the difference and the ratio of two policies at a checkpoint, over the replications that both have."""
    if own is None or base is None:
        return {"runs": 0}
    both, here, there = np.intersect1d(own.replications, base.replications, return_indices=True)
    if not both.size:
        return {"runs": 0}
    values, others = own.regret[here, 0], base.regret[there, 0]
    low, high = mean_interval(values - others, level, interval)
    ratio_low, ratio_high = ratio_interval(values, others, level, interval)
    return {
        "round": int(own.rounds[0]),
        "runs": both.size,
        "difference": float((values - others).mean()),
        "low": low,
        "high": high,
        "better": float((values < others).mean()),
        "ratio": float(values.mean() / others.mean()) if others.mean() > 0.0 else None,
        "ratio_low": ratio_low,
        "ratio_high": ratio_high,
    }


def beside(table: polars.DataFrame, rows: Sequence[Mapping[str, Any]], *names: str) -> polars.DataFrame:
    """Return the table with the columns of the rows; what is not finite becomes null."""
    import polars

    columns = []
    for name in names:
        values = [row.get(name) for row in rows]
        whole = name in ("round", "runs", "points", "exceeded")
        finite = [value if value is not None and math.isfinite(value) else None for value in values]
        columns.append(polars.Series(name, finite, polars.Int64 if whole else polars.Float64))
    return table.with_columns(columns)
