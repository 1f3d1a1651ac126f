"""Rows of the tables of results: a mean, a comparison with a baseline, each with what can be told from its runs."""

from __future__ import annotations

import math
from collections.abc import Mapping, Sequence
from typing import TYPE_CHECKING, Any, NamedTuple

import numpy as np
from numpy.typing import NDArray

from armtriage.experiments.statistics import mean_interval, ratio_interval
from armtriage.experiments.tables import Runs

if TYPE_CHECKING:
    import polars

__all__ = ["EXACT", "Sample", "beside", "certificate_row", "difference_row", "mean_row", "sample"]

EXACT = 1e-9
"""What a sum of floating-point numbers may be off by, a round."""


class Sample(NamedTuple):
    """The regrets and certificates of one pair at one round, with their replications."""

    round: int
    replications: NDArray[np.int64]
    regret: NDArray[np.float64]
    certificate: NDArray[np.float64] | None = None


def sample(runs: Runs, at: int | None, environment: str) -> Sample:
    """Return the regrets after that many rounds, by default the most."""
    column = runs.rounds.size - 1 if at is None else int(np.searchsorted(runs.rounds, at))
    if at is not None and at not in runs.rounds:
        near = " and ".join(str(one) for one in runs.rounds[max(column - 1, 0) : column + 1])
        where = f"in {environment!r} the nearest are {near}"
        raise ValueError(f"at must be a round at which the regret was kept, got {at}; {where}")
    kept = None if runs.certificate is None else runs.certificate[:, column]
    return Sample(int(runs.rounds[column]), runs.replications, runs.regret[:, column], kept)


def mean_row(own: Sample | None, level: float, interval: str) -> dict[str, Any]:
    """Return the mean, with its interval."""
    if own is None:
        return {"runs": 0}
    low, high = mean_interval(own.regret, level, interval)
    spread = float(own.regret.std(ddof=1)) if own.regret.size > 1 else None
    about = {"round": own.round, "runs": own.regret.size, "mean": float(own.regret.mean())}
    kept = {} if own.certificate is None else {"certificate": float(own.certificate.mean())}
    return {**about, "low": low, "high": high, "std": spread, **kept}


def certificate_row(own: Sample | None, runs: Runs | None, level: float, interval: str) -> dict[str, Any]:
    """Return the mean certificate, how many times the mean regret that is, and how many runs lost more than theirs."""
    if own is None or runs is None or own.certificate is None or runs.certificate is None:
        return {"runs": 0}
    low, high = ratio_interval(own.certificate, own.regret, level, interval)
    mean, lost = float(own.certificate.mean()), float(own.regret.mean())
    return {
        "round": own.round,
        "runs": own.regret.size,
        "certificate": mean,
        "ratio": mean / lost if lost > 0.0 else None,
        "ratio_low": low,
        "ratio_high": high,
        "exceeded": int((runs.regret > runs.certificate + EXACT * runs.rounds).any(axis=1).sum()),
    }


def difference_row(own: Sample | None, base: Sample | None, level: float, interval: str) -> dict[str, Any]:
    """Return what the replications that both have tell."""
    if own is None or base is None:
        return {"runs": 0}
    both, here, there = np.intersect1d(own.replications, base.replications, return_indices=True)
    if not both.size:
        return {"runs": 0}
    values, others = own.regret[here], base.regret[there]
    low, high = mean_interval(values - others, level, interval)
    ratio_low, ratio_high = ratio_interval(values, others, level, interval)
    return {
        "round": own.round,
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
