"""The worst of several gaps: a minimax rate is about the gap at which a policy loses most, whichever that is."""

from __future__ import annotations

from typing import TYPE_CHECKING

from armtriage._experiments.statistics import slope_interval
from armtriage.reproduce.study import LEVEL
from armtriage.results import Results

if TYPE_CHECKING:
    import polars

__all__ = ["worst", "worst_powers"]


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


def worst_powers(results: Results, table: polars.DataFrame, parameter: str) -> polars.DataFrame:
    """Return the slopes of the lines through the rows of `worst`, as `Results.slopes` does.

    Examples
    --------
    >>> from armtriage import Experiment
    >>> pairs = {"instance": "hidden_pairs", "n_arms": 8, "budget": [2, 4], "gap": [0.1, 0.2, 0.3]}
    >>> results = Experiment([pairs], ["greedy"], horizon=100, replications=4, seed=7).run()
    >>> table = worst(results, "environment.budget")
    >>> worst_powers(results, table, "environment.budget").columns
    ['policy', 'slope', 'low', 'high', 'points', 'inside']
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
        row = {"policy": policy, "slope": slope, "low": low, "high": high}
        rows.append({**row, "points": part.height, "inside": bool(part["inside"].all())})
    nowhere = [float("inf"), float("-inf"), float("nan")]
    return polars.DataFrame(rows).with_columns(polars.col("slope", "low", "high").replace(nowhere, None))
