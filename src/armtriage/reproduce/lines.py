"""Lines through some environments of an experiment: the power by which regret grows, fitted, judged and drawn."""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from typing import Any, Literal

import numpy as np
import polars

from armtriage import plots
from armtriage.experiments import Results
from armtriage.experiments.statistics import slope_interval
from armtriage.reproduce.study import LEVEL, Chart, Finding, chart, finding, measured
from armtriage.simulation.comparison import short

__all__ = [
    "ROOM",
    "above_bound",
    "along_worst",
    "below_bound",
    "line",
    "line_chart",
    "power_finding",
    "powers",
    "printed_bound",
    "steepness",
    "worst",
]

ROOM = 0.05
"""How far a fitted power may lie from the predicted one, beyond its interval: rates leave out logarithms."""
_WIDEST = 1.0  # an interval of a power that is wider than this tells no theorem from another


def line(results: Results, name: str, at: Mapping[str, float]) -> polars.DataFrame:
    """Return mean regrets as `Results.scaling` does, for the environments in `at`, with the numbers that it gives them.

    Examples
    --------
    >>> from armtriage import Experiment
    >>> places = {"few": "random:n_arms=4,budget=2", "many": "random:n_arms=8,budget=2"}
    >>> results = Experiment(places, ["random"], horizon=100, replications=4, seed=7).run()
    >>> line(results, "arms not chosen", {"few": 2, "many": 6}).columns
    ['policy', 'environment', 'arms not chosen', 'mean', 'low', 'high', 'runs']
    """
    place = polars.col("environment")
    number = place.replace_strict(dict(at), default=None, return_dtype=polars.Float64)
    table = results.summary(level=LEVEL).with_columns(number.alias(name)).drop_nulls(name)
    order = place.replace_strict({label: rank for rank, label in enumerate(at)})
    table = table.sort(order, maintain_order=True)
    return table.select("policy", "environment", name, "mean", "low", "high", "runs")


def worst(results: Results, parameter: str) -> polars.DataFrame:
    """Return for each policy and each value of a parameter the gap with the largest mean regret.

    A minimax rate is about the gap at which a policy loses most, whichever that is. `inside` is whether a smaller and
    a larger gap were tried: if not, a worse one may lie beyond.

    Examples
    --------
    >>> from armtriage import Experiment
    >>> pairs = {"instance": "hidden_pairs", "n_arms": 8, "budget": [2, 4], "gap": [0.1, 0.2, 0.3]}
    >>> results = Experiment([pairs], ["greedy"], horizon=100, replications=4, seed=7).run()
    >>> worst(results, "environment.budget").columns
    ['policy', 'environment', 'environment.budget', 'mean', 'low', 'high', 'runs', 'gap', 'inside']
    """
    gap, along = polars.col("environment.gap"), ("policy", parameter)
    table = results.summary(level=LEVEL).with_columns(
        gap=gap, inside=(gap > gap.min().over(along)) & (gap < gap.max().over(along))
    )
    most = table.filter(polars.col("mean") == polars.col("mean").max().over(along))
    order = {one.label: place for place, one in enumerate(results.manifest.policies)}
    kept = most.unique(along, keep="first").sort(polars.col("policy").replace_strict(order), parameter)
    return kept.select("policy", "environment", parameter, "mean", "low", "high", "runs", "gap", "inside")


def along_worst(
    results: Results,
    name: str,
    parameter: str,
    points: Sequence[Any],
    unit: Callable[[Any], float],
    bounds: Callable[[str, Any], Mapping[str, Any]],
) -> tuple[polars.DataFrame, polars.DataFrame]:
    """Return the regrets at the worst gaps with their bounds, and the powers of both.

    Parameters
    ----------
    results : Results
        Of several gaps at each point of a line.
    name, parameter : str
        What grows along the line, as a field of the points and as a column of the results.
    points : sequence of NamedTuple
        The points of the line.
    unit : callable
        Takes a point and returns the unit of its gaps, of which `factor` is the multiple.
    bounds : callable
        Takes a policy and a point, and returns numbers by name, among them `upper`.
    """
    places = {getattr(point, name): point for point in points}
    table = worst(results, parameter)
    at = [places[value] for value in table[parameter]]
    made = [
        point._asdict() | {"factor": gap / unit(point)} | {**bounds(policy, point)}
        for policy, point, gap in zip(table["policy"], at, table["gap"], strict=True)
    ]
    whole = polars.concat([table.drop(parameter), polars.DataFrame(made, infer_schema_length=None)], how="horizontal")
    rows = [
        {"policy": part["policy"][0], "inside": part["inside"].all(), "whole": _steepness_of(part, name)}
        for part in whole.partition_by("policy", maintain_order=True)
    ]
    more = polars.DataFrame(rows, schema_overrides={"whole": polars.Float64})
    fitted = powers(results, whole, name).join(more, on="policy", maintain_order="left")
    fields = [*at[0]._fields]
    kept = ("mean", "low", "high", "runs", "gap", "factor", "inside")
    others = [one for one in made[0] if one not in (*fields, "factor")]
    return whole.select("policy", *fields, *kept, *others), fitted.with_columns(parameter=polars.lit(name))


def _steepness_of(part: polars.DataFrame, name: str) -> float | None:
    known = part.drop_nulls("upper")
    return steepness(dict(known.select(name, "upper").iter_rows())) if known.height > 1 else None


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
    >>> pairs = {"instance": "hidden_pairs", "n_arms": 8, "budget": [2, 4], "gap": [0.1, 0.2, 0.3]}
    >>> results = Experiment([pairs], ["greedy"], horizon=100, replications=4, seed=7).run()
    >>> powers(results, worst(results, "environment.budget"), "environment.budget").columns
    ['policy', 'slope', 'low', 'high', 'points']
    """
    ends = results.regret.filter(polars.col("round") == polars.col("horizon"))
    luck = dict(results.runs.filter(polars.col("replication") == 0).select("environment", "environment_seed").rows())
    rows = []
    for part in points.partition_by("policy", maintain_order=True):
        policy, labels = part["policy"][0], part["environment"].to_list()
        runs = [ends.filter((ends["environment"] == label) & (ends["policy"] == policy)) for label in labels]
        values, numbers = ([one[name].to_numpy() for one in runs] for name in ("regret", "replication"))
        slope, low, high = slope_interval(part[parameter], values, numbers, [luck[one] for one in labels], LEVEL)
        rows.append({"policy": policy, "slope": slope, "low": low, "high": high, "points": part.height})
    nowhere = [float("inf"), float("-inf"), float("nan")]
    return polars.DataFrame(rows).with_columns(polars.col("slope", "low", "high").replace(nowhere, None))


def steepness(bound: Mapping[float, float]) -> float:
    """Return the power of a bound along a line, logarithms and all.

    Examples
    --------
    >>> round(steepness({10.0: 1.0, 100.0: 10.0, 1000.0: 100.0}), 6)
    1.0
    """
    return float(np.polyfit(np.log(list(bound)), np.log(list(bound.values())), 1)[0])


def power_finding(
    claim: str,
    source: str,
    row: Mapping[str, Any],
    predicted: float,
    *,
    whole: float | None = None,
    side: Literal["equal", "at most", "at least"] = "equal",
    why: str = "",
    known: bool = True,
) -> Finding:
    """Return the finding about a fitted power; it agrees if its interval, widened by `ROOM`, holds the predicted one.

    Parameters
    ----------
    claim, source : str
        See `Finding`.
    row : mapping
        Of `powers` or `Results.slopes`: slope, low and high.
    predicted : float
        The power of the theorem.
    whole : float, optional
        The power by which the bound itself grows over the same points, with the logarithms and the smaller terms that a
        rate leaves out; what lies between the two agrees as well.
    side : {"equal", "at most", "at least"}
        Whether the theorem has the power itself, or bounds it.
    why : str
        The reason, if one is known, in case they disagree or nothing is known: a sentence.
    known : bool
        Whether the size of the study lets the power be seen at all.

    Examples
    --------
    >>> row = {"slope": 0.61, "low": 0.6, "high": 0.62}
    >>> found = power_finding("grows as sqrt(T)", "Theorem 3", row, 0.5, whole=0.52)
    >>> found.agrees, found.predicted, found.verdict
    (False, 'power 0.50, or 0.52 with all terms', 'Does not agree: the power is larger by 0.09.')
    """
    least, most = (predicted, predicted) if whole is None else (min(predicted, whole), max(predicted, whole))
    aim = f"power {predicted:.2f}" if side == "equal" else f"power {side} {predicted:.2f}"
    aim += "" if f"{least:.2f}" == f"{most:.2f}" else f", or {whole:.2f} with all terms"
    said = claim, source, aim, f"power {measured(row, 'slope', lambda one: f'{one:.2f}')}"
    slope, low, high = row["slope"], row["low"], row["high"]
    if not known:
        return _because(finding(*said, None, "too little is seen at this size"), why)
    if slope is None or low is None or high is None or high - low > _WIDEST:
        return finding(*said, None, "the interval is too wide at this size")
    low, high = low - ROOM, high + ROOM
    if low > most:
        if side == "at least":
            return finding(*said, True, "more than the theorem says")
        return _because(finding(*said, False, f"the power is larger by {slope - most:.2f}"), why)
    if high < least:
        if side == "at most":
            return finding(*said, True, "less than the theorem says")
        return _because(finding(*said, False, f"the power is smaller by {least - slope:.2f}"), why)
    if least < slope < most:
        return finding(*said, True, "the power lies between the two")
    return finding(*said, True, f"the power is off by {max(slope - most, least - slope):.2f}")


def _because(found: Finding, why: str) -> Finding:
    return found._replace(verdict=f"{found.verdict} {why}") if why else found


def below_bound(claim: str, source: str, rows: Sequence[Mapping[str, Any]], column: str = "mean") -> Finding:
    """Return whether regrets stay below their upper bounds, and how many of these are above `most`, if there is one.

    Examples
    --------
    >>> row = {"policy": "a", "mean": 4.0, "low": 3.0, "high": 5.0, "upper": 8.0, "most": 6.0}
    >>> below_bound("regret is bounded", "Theorem 3", [row]).verdict
    'Agrees: at most 0.5 times the bound, which is vacuous in 1 of 1 places.'
    """
    near = max(rows, key=lambda row: row[column] / row["upper"])
    ratio = near[column] / near["upper"]
    empty = sum(row["upper"] >= row.get("most", np.inf) for row in rows)
    because = f"at most {ratio:.2g} times the bound"
    because += f", which is vacuous in {empty} of {len(rows)} places" if empty else ""
    seen = measured(near) if column == "mean" else f"{short(near[column])} in the worst run"
    return finding(
        claim, source, f"at most {short(near['upper'])} there", f"{seen}, {near['policy']}", ratio <= 1.0, because
    )


def above_bound(claim: str, source: str, rows: Sequence[Mapping[str, Any]]) -> Finding:
    """Return whether means stay above their lower bounds.

    Examples
    --------
    >>> row = {"policy": "a", "mean": 4.0, "low": 3.0, "high": 5.0, "lower": 2.0}
    >>> above_bound("everybody loses", "Theorem 2", [row]).verdict
    'Agrees: at least 2 times the bound.'
    """
    near = min(rows, key=lambda row: row["mean"] / row["lower"])
    holds = (near["mean"] if near["high"] is None else near["high"]) >= near["lower"]
    said = f"at least {short(near['lower'])} there", f"{measured(near)}, {near['policy']}"
    return finding(claim, source, *said, holds, f"at least {near['mean'] / near['lower']:.2g} times the bound")


def printed_bound(source: str, rows: Sequence[Mapping[str, Any]]) -> Finding:
    """Return whether the printed constants say anything: whether `printed` is below `most` anywhere.

    Examples
    --------
    >>> printed_bound("Theorem 1, as printed", [{"printed": 30.0, "most": 10.0}]).verdict
    'Says nothing: vacuous in all places.'
    """
    least = min(row["printed"] / row["most"] for row in rows)
    said = "the bound with its printed constants says something at these sizes", source
    below = "below what any policy can lose" if least < 1.0 else "vacuous in all places"
    return finding(*said, "less than S T", f"{short(least)} times S T or more", least < 1.0 or None, below)


def line_chart(
    results: Results,
    name: str,
    caption: str,
    points: polars.DataFrame,
    parameter: str,
    slopes: polars.DataFrame | None = None,
    *,
    bounds: Mapping[str, Callable[[Any], float | None]] | None = None,
    ceiling: Callable[[Any], float] | None = None,
    order: Sequence[str] | None = None,
    y: str | None = None,
) -> Chart:
    """Draw the rows of a table against a parameter, with fitted powers and bounds."""
    ax = plots.scaling(
        points.select("policy", parameter, "mean", "low", "high", "runs"),
        slopes,
        bounds=bounds,
        ceiling=ceiling,
        level=LEVEL,
        order=order,
    )
    if y is not None:
        ax.set_ylabel(y)
    return chart(results, ax, name, caption, points["runs"])
