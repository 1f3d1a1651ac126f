"""Tables of regret: along a line of instances with the power by which it grows, at the worst gap, and as ratios."""

from __future__ import annotations

from collections.abc import Callable, Mapping

import numpy as np
import polars

from armtriage.experiments import Results
from armtriage.experiments.statistics import slope_interval
from armtriage.reproduce.study import LEVEL, Row

RATIO = ("ratio", "ratio_low", "ratio_high")
"""The columns of `Results.differences` that have a ratio of regrets with its interval."""
Lines = Mapping[str, Mapping[str, float]]
"""For each parameter the environments along which it alone changes, and its values."""


def against(results: Results, other: str, policy: str | None = None, *, level: float = LEVEL) -> polars.DataFrame:
    """Return the regret of each policy, or of one, as a multiple of that of another one.

    Examples
    --------
    >>> from armtriage import Experiment
    >>> place = ["random:n_arms=4,budget=2"]
    >>> results = Experiment(place, ["greedy", "random"], horizon=100, replications=4, seed=7).run()
    >>> against(results, "random").columns
    ['environment', 'policy', 'horizon', 'runs', 'difference', 'ratio', 'ratio_low', 'ratio_high', 'better', 'against']
    """
    table = results.differences(other, level=level)
    if policy is not None:
        table = table.filter(table["policy"] == policy)
    kept = ("environment", "policy", "horizon", "runs", "difference", *RATIO, "better")
    return table.select(*kept, against=polars.lit(other))


def against_best(results: Results, without: str | None = None) -> polars.DataFrame:
    """Return mean regrets, each as a multiple of the least in its environment, or of the least of all but one policy.

    Examples
    --------
    >>> from armtriage import Experiment
    >>> place = ["random:n_arms=4,budget=2"]
    >>> results = Experiment(place, ["greedy", "random"], horizon=100, replications=4, seed=7).run()
    >>> against_best(results).select("policy", "best").rows()
    [('greedy', 'greedy'), ('random', 'greedy')]
    """
    made, names = [], ["environment", "policy"]
    for part in results.summary(level=LEVEL).partition_by("environment", maintain_order=True):
        best = part.filter(polars.col("policy") != (without or "")).sort("mean")["policy"][0]
        table = part.join(against(results, best).select(*names, *RATIO), on=names, how="left", maintain_order="left")
        made.append(table.with_columns(polars.col("ratio").fill_null(1.0), best=polars.lit(best)))
    return polars.concat(made).select(*names, "horizon", "mean", "low", "high", "runs", *RATIO, "best")


def with_each(table: polars.DataFrame, make: Callable[[Row], Row]) -> polars.DataFrame:
    """Return the table with what `make` returns for each row in further columns.

    Examples
    --------
    >>> with_each(polars.DataFrame({"T": [1, 2]}), lambda row: {"most": 5 * row["T"]}).rows()
    [(1, 5), (2, 10)]
    """
    made = polars.DataFrame([make(row) for row in table.iter_rows(named=True)], infer_schema_length=None)
    unknown = [name for name, kind in made.schema.items() if kind == polars.Null]
    return table.hstack(made.cast(dict.fromkeys(unknown, polars.Float64)))


def line(table: polars.DataFrame, name: str, at: Mapping[str, float]) -> polars.DataFrame:
    """Return the rows of the environments in `at`, in its order, with the numbers that it gives them.

    Examples
    --------
    >>> table = polars.DataFrame({"environment": ["few", "many", "other"]})
    >>> line(table, "arms", {"many": 6, "few": 2}).rows()
    [('many', 6.0), ('few', 2.0)]
    """
    place = polars.col("environment")
    own = table.filter(place.is_in(list(at)))
    own = own.with_columns(place.replace_strict(dict(at), return_dtype=polars.Float64).alias(name))
    return own.sort(place.replace_strict({label: rank for rank, label in enumerate(at)}), maintain_order=True)


def worst(results: Results, parameter: str, sizes: Mapping[str, str]) -> polars.DataFrame:
    """Return for each policy and each value of a parameter the gap with the largest mean regret.

    A minimax rate is about the gap at which a policy loses most, whichever that is. `inside` is whether a smaller and
    a larger gap were tried: if not, a worse one may lie beyond. The parameter is one of `sizes`, columns by new names.

    Examples
    --------
    >>> from armtriage import Experiment
    >>> pairs = {"instance": "hidden_pairs", "n_arms": 8, "budget": [2, 4], "gap": [0.1, 0.2, 0.3]}
    >>> results = Experiment([pairs], ["greedy"], horizon=100, replications=4, seed=7).run()
    >>> worst(results, "S", {"S": "environment.budget"}).columns
    ['environment', 'policy', 'S', 'mean', 'low', 'high', 'runs', 'gap', 'inside']
    """
    gap, along = polars.col("environment.gap"), ("policy", parameter)
    table = results.summary(level=LEVEL).with_columns(gap=gap, **{key: polars.col(one) for key, one in sizes.items()})
    table = table.with_columns(inside=(gap > gap.min().over(along)) & (gap < gap.max().over(along)))
    most = table.filter(polars.col("mean") == polars.col("mean").max().over(along))
    order = {one.label: place for place, one in enumerate(results.manifest.policies)}
    kept = most.unique(along, keep="first").sort(polars.col("policy").replace_strict(order), parameter)
    return kept.select("environment", "policy", *sizes, "mean", "low", "high", "runs", "gap", "inside")


def powers(results: Results, points: polars.DataFrame, parameter: str) -> polars.DataFrame:
    """Return the slopes of the lines through the rows of a table, as `Results.slopes` does.

    Parameters
    ----------
    results : Results
        What the table was made of.
    points : DataFrame
        Columns policy, environment and the parameter; each row is a point.
    parameter : str
        Any column of numbers above 0.

    Examples
    --------
    >>> from armtriage import Experiment
    >>> places = {"few": "random:n_arms=4,budget=2", "many": "random:n_arms=8,budget=2"}
    >>> results = Experiment(places, ["random"], horizon=100, replications=4, seed=7).run()
    >>> powers(results, line(results.summary(), "arms not chosen", {"few": 2, "many": 6}), "arms not chosen").columns
    ['policy', 'slope', 'low', 'high', 'points']
    """
    ends = results.regret.filter(polars.col("round") == polars.col("horizon"))
    seeds = dict(results.runs.filter(polars.col("replication") == 0).select("environment", "environment_seed").rows())
    rows = []
    for part in points.partition_by("policy", maintain_order=True):
        policy, labels = part["policy"][0], part["environment"].to_list()
        runs = [ends.filter((ends["environment"] == label) & (ends["policy"] == policy)) for label in labels]
        values, numbers = ([one[name].to_numpy() for one in runs] for name in ("regret", "replication"))
        slope, low, high = slope_interval(part[parameter], values, numbers, [seeds[one] for one in labels], LEVEL)
        rows.append({"policy": policy, "slope": slope, "low": low, "high": high, "points": part.height})
    nowhere = [float("inf"), float("-inf"), float("nan")]
    return polars.DataFrame(rows).with_columns(polars.col("slope", "low", "high").replace(nowhere, None))


def fitted(
    results: Results, points: polars.DataFrame, parameter: str, predicted: float, *more: polars.Expr
) -> polars.DataFrame:
    """Return `powers` beside the predicted one, that of the bound `upper`, and `more` of all points of a policy."""
    about = points.group_by("policy", maintain_order=True).agg(*more)
    wholes = [steepness(part, parameter) for part in points.partition_by("policy", maintain_order=True)]
    about = about.with_columns(polars.Series("whole", wholes, polars.Float64))
    table = powers(results, points, parameter).join(about, on="policy", maintain_order="left")
    return table.with_columns(parameter=polars.lit(parameter), predicted=predicted)


def along(
    results: Results, points: polars.DataFrame, lines: Lines, predicted: Mapping[str, float], *more: polars.Expr
) -> polars.DataFrame:
    """Return `fitted` along each of several lines; the power of a bound counts where it is above the predicted one."""
    made = [fitted(results, line(points, name, lines[name]), name, predicted[name], *more) for name in lines]
    return polars.concat(made).with_columns(whole=polars.max_horizontal("whole", "predicted"))


def steepness(points: polars.DataFrame, parameter: str, bound: str = "upper") -> float | None:
    """Return the power of a bound along a line, logarithms and all; None where it is known at one point or none.

    Examples
    --------
    >>> table = polars.DataFrame({"T": [10.0, 100.0, 1000.0], "upper": [1.0, 10.0, 100.0]})
    >>> round(steepness(table, "T"), 6)
    1.0
    """
    known = points.drop_nulls(bound)
    if known.height < 2:
        return None
    return float(np.polyfit(np.log(known[parameter].to_numpy()), np.log(known[bound].to_numpy()), 1)[0])
