"""Lines through some environments of an experiment, against any number that they have."""

from __future__ import annotations

from collections.abc import Mapping
from typing import TYPE_CHECKING, Any

import numpy as np

from armtriage.experiments.results import Results
from armtriage.experiments.statistics import slope_interval
from armtriage.reproduce.study import LEVEL, ROOM, Finding, power

if TYPE_CHECKING:
    import polars

__all__ = ["between", "line", "powers", "steepness"]

_WIDEST = 1.0  # an interval of a power that is wider than this tells no theorem from another


def line(results: Results, name: str, at: Mapping[str, float]) -> polars.DataFrame:
    """Return mean regrets as `Results.scaling` does, for the environments in `at`, with the numbers that it gives them.

    Examples
    --------
    >>> from armtriage import Experiment
    >>> places = {"few": "random:n_arms=4,budget=2", "many": "random:n_arms=8,budget=2"}
    >>> results = Experiment(places, ["random"], horizon=100, replications=4, seed=7).run()
    >>> line(results, "arms not chosen", {"few": 2, "many": 6}).columns
    ['policy', 'arms not chosen', 'mean', 'low', 'high', 'runs']
    """
    import polars

    number = polars.col("environment").replace_strict(dict(at), default=None, return_dtype=polars.Float64)
    table = results.summary(level=LEVEL).with_columns(number.alias(name)).drop_nulls(name)
    return table.select("policy", name, "mean", "low", "high", "runs")


def powers(results: Results, at: Mapping[str, float]) -> polars.DataFrame:
    """Return the slopes of the lines as `Results.slopes` does; environments must not share their luck.

    Examples
    --------
    >>> from armtriage import Experiment
    >>> places = {"short": "random:n_arms=4,budget=2,horizon=10", "long": "random:n_arms=4,budget=2,horizon=1000"}
    >>> results = Experiment(places, ["random"], horizon=100, replications=4, seed=7).run()
    >>> powers(results, {"short": 10, "long": 1000}).columns
    ['policy', 'slope', 'low', 'high', 'points']
    """
    import polars

    ends = results.regret.filter(polars.col("round") == polars.col("horizon"))
    rows = []
    for policy in ends["policy"].unique(maintain_order=True):
        runs = [ends.filter((ends["environment"] == label) & (ends["policy"] == policy)) for label in at]
        numbers = slope_interval(
            list(at.values()), [one["regret"] for one in runs], [one["replication"] for one in runs], list(at), LEVEL
        )
        slope, low, high = (float(one) if np.isfinite(one) else None for one in numbers)
        rows.append({"policy": policy, "slope": slope, "low": low, "high": high, "points": len(at)})
    return polars.DataFrame(rows, schema_overrides=dict.fromkeys(("slope", "low", "high"), polars.Float64))


def steepness(bound: Mapping[float, float]) -> float:
    """Return the power of a bound along a line, logarithms and all.

    Examples
    --------
    >>> round(steepness({10.0: 1.0, 100.0: 10.0, 1000.0: 100.0}), 6)
    1.0
    """
    return float(np.polyfit(np.log(list(bound)), np.log(list(bound.values())), 1)[0])


def between(claim: str, source: str, row: Mapping[str, Any], *, known: bool = True, why: str = "") -> Finding:
    """Return the finding about a fitted power that theory puts between `least` and `most` of the row.

    Parameters
    ----------
    claim, source : str
        See `Finding`.
    row : mapping
        Of `powers`, with `least` and `most` besides.
    known : bool
        Whether the size of the study lets the power be seen at all.
    why : str
        The reason if it does not, or if they disagree: a sentence.

    Examples
    --------
    >>> row = {"slope": 0.55, "low": 0.54, "high": 0.56, "least": 0.5, "most": 0.62}
    >>> between("grows as sqrt(T)", "Theorem 5", row).agrees
    True
    >>> between("grows as sqrt(T)", "Theorem 5", {**row, "low": 0.7, "slope": 0.71, "high": 0.72}).verdict
    'Does not agree: the power is larger by 0.09.'
    """
    least, most = row["least"], row["most"]
    aim = f"{least:.2f}" if f"{most:.2f}" == f"{least:.2f}" else f"{least:.2f} to {most:.2f}, with logarithms"
    said = (claim, source, f"power {aim}", f"power {power(row)}")
    reason = f" {why}" if why else ""
    low, high = row["low"], row["high"]
    if not known:
        return Finding(*said, f"Says nothing at this size.{reason}", None)
    if row["slope"] is None or low is None or high is None or high - low > _WIDEST:
        return Finding(*said, "Says nothing at this size: the interval is too wide.", None)
    if low - ROOM > most:
        return Finding(*said, f"Does not agree: the power is larger by {row['slope'] - most:.2f}.{reason}", False)
    if high + ROOM < least:
        return Finding(*said, f"Does not agree: the power is smaller by {least - row['slope']:.2f}.{reason}", False)
    return Finding(*said, "Agrees.", True)
