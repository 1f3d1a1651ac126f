"""The worst of several gaps: a minimax rate is about the gap at which a policy loses most, whichever that is."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import TYPE_CHECKING, Any

from armtriage.experiments.results import Results
from armtriage.experiments.statistics import slope_interval
from armtriage.plots._style import short
from armtriage.reproduce.study import LEVEL, Finding, spread

if TYPE_CHECKING:
    import polars

__all__ = ["above_bound", "below_bound", "inside", "line_powers", "worst"]


def worst(results: Results, parameter: str) -> polars.DataFrame:
    """Return for each policy and each value of a parameter the gap with the largest mean regret.

    `inside` is whether a smaller and a larger gap were tried: if not, a worse one may lie beyond.

    Examples
    --------
    >>> from armtriage import Experiment
    >>> pairs = {"instance": "hidden_pairs", "n_arms": 8, "budget": [2, 4], "gap": [0.1, 0.2, 0.3]}
    >>> results = Experiment([pairs], ["greedy"], horizon=100, replications=4, seed=7).run()
    >>> worst(results, "environment.budget").columns
    ['policy', 'environment.budget', 'mean', 'low', 'high', 'runs', 'gap', 'inside', 'environment']
    """
    import polars

    gap, line = polars.col("environment.gap"), ("policy", parameter)
    table = results.summary(level=LEVEL).with_columns(
        gap=gap, inside=(gap > gap.min().over(line)) & (gap < gap.max().over(line))
    )
    most = table.filter(polars.col("mean") == polars.col("mean").max().over(line))
    order = {one.label: place for place, one in enumerate(results.manifest.policies)}
    kept = most.unique(line, keep="first").sort(polars.col("policy").replace_strict(order), parameter)
    return kept.select(*line, "mean", "low", "high", "runs", "gap", "inside", "environment")


def inside(table: polars.DataFrame) -> polars.DataFrame:
    """Return for each policy whether all its rows of `worst` are inside the gaps that were tried."""
    import polars

    return table.group_by("policy").agg(polars.col("inside").all())


def line_powers(results: Results, table: polars.DataFrame, parameter: str) -> polars.DataFrame:
    """Return the slopes of the lines through the rows of a table, as `Results.slopes` does.

    Parameters
    ----------
    results : Results
        What the table was made of.
    table : DataFrame
        Columns policy, environment and the parameter; a row a point.
    parameter : str
        Any column of numbers above 0.

    Examples
    --------
    >>> from armtriage import Experiment
    >>> pairs = {"instance": "hidden_pairs", "n_arms": 8, "budget": [2, 4], "gap": [0.1, 0.2, 0.3]}
    >>> results = Experiment([pairs], ["greedy"], horizon=100, replications=4, seed=7).run()
    >>> line_powers(results, worst(results, "environment.budget"), "environment.budget").columns
    ['policy', 'slope', 'low', 'high', 'points']
    """
    import polars

    ends = results.regret.filter(polars.col("round") == polars.col("horizon"))
    luck = dict(results.runs.filter(polars.col("replication") == 0).select("environment", "environment_seed").rows())
    rows = []
    for part in table.partition_by("policy", maintain_order=True):
        policy, labels = part["policy"][0], part["environment"].to_list()
        runs = [ends.filter((ends["environment"] == label) & (ends["policy"] == policy)) for label in labels]
        values, numbers = ([one[name].to_numpy() for one in runs] for name in ("regret", "replication"))
        seeds = [luck[label] for label in labels]
        slope, low, high = slope_interval(part[parameter], values, numbers, seeds, LEVEL)
        rows.append({"policy": policy, "slope": slope, "low": low, "high": high, "points": part.height})
    nowhere = [float("inf"), float("-inf"), float("nan")]
    return polars.DataFrame(rows).with_columns(polars.col("slope", "low", "high").replace(nowhere, None))


def below_bound(claim: str, source: str, rows: Sequence[Mapping[str, Any]]) -> Finding:
    """Return whether means stay below their upper bounds, and how many of these are above `most`.

    Examples
    --------
    >>> row = {"policy": "a", "mean": 4.0, "low": 3.0, "high": 5.0, "upper": 8.0, "most": 6.0}
    >>> below_bound("regret is bounded", "Theorem 3", [row]).verdict
    'Agrees: at most 0.5 times the bound, which is vacuous in 1 of 1 places.'
    """
    near = max(rows, key=lambda row: row["mean"] / row["upper"])
    ratio, empty = near["mean"] / near["upper"], sum(row["upper"] >= row["most"] for row in rows)
    verdict = f"{'Agrees' if ratio <= 1.0 else 'Does not agree'}: at most {ratio:.2g} times the bound"
    verdict += f", which is vacuous in {empty} of {len(rows)} places." if empty else "."
    said = f"at most {short(near['upper'])} there", f"{spread(near)}, {near['policy']}"
    return Finding(claim, source, *said, verdict, ratio <= 1.0)


def above_bound(claim: str, source: str, rows: Sequence[Mapping[str, Any]]) -> Finding:
    """Return whether means stay above their lower bounds.

    Examples
    --------
    >>> row = {"policy": "a", "mean": 4.0, "low": 3.0, "high": 5.0, "lower": 2.0}
    >>> above_bound("everybody loses", "Theorem 2", [row]).verdict
    'Agrees: at least 2 times the bound.'
    """
    near = min(rows, key=lambda row: row["mean"] / row["lower"])
    holds = near["mean"] >= near["lower"] if near["high"] is None else near["high"] >= near["lower"]
    verdict = f"{'Agrees' if holds else 'Does not agree'}: at least {near['mean'] / near['lower']:.2g} times the bound."
    said = f"at least {short(near['lower'])} there", f"{spread(near)}, {near['policy']}"
    return Finding(claim, source, *said, verdict, holds)
