"""Full information: S sqrt(T) at the worst gap, where nothing needs exploring."""

from __future__ import annotations

import math
from collections.abc import Mapping
from typing import Any, NamedTuple

import polars

from armtriage.experiments import Results
from armtriage.reproduce.lines import above_bound, along_worst, below_bound, line_chart, power_finding
from armtriage.reproduce.policies import GREEDY, ORDER, PAPER, TIGHT, UCB, chosen, rules
from armtriage.reproduce.study import Chart, Finding, Scale, Study, Tables, finding
from armtriage.simulation.comparison import short
from armtriage.theory import minimax_lower, minimax_upper, ucb_full_information_upper

__all__ = ["STUDY", "findings"]

_FACTORS = (0.5, 1.0, 1.4, 2.0, 8.0, 9.5, 13.5)
"""Gaps that are tried, in units of 1 / sqrt(T)."""
_LINES = {"T": ("horizon", 0.5), "S": ("environment.budget", 1.0)}
"""What grows along a line: the column that has it, and the power of regret that is predicted."""
_APPENDIX = "appendix, UCB with full information"
# The horizons have one budget, and the budgets one horizon.
_SIZES = {
    "tiny": Scale(T=(1000, 2000), S=(2, 4), budget=2, horizon=1000, factors=(0.5, 1.4, 8.0, 13.5), runs=2),
    "quick": Scale(T=(1000, 4000, 16_000), S=(16, 32, 64), budget=32, horizon=4000, factors=_FACTORS, runs=8),
    "full": Scale(
        T=(1000, 4000, 16_000, 64_000), S=(16, 32, 64, 128), budget=32, horizon=4000, factors=_FACTORS, runs=16
    ),
}


class _Point(NamedTuple):
    S: int
    T: int


def _points(scale: Scale) -> dict[str, list[_Point]]:
    return {"T": [_Point(scale.budget, one) for one in scale.T], "S": [_Point(one, scale.horizon) for one in scale.S]}


def _plans(scale: Scale) -> dict[str, dict[str, Any]]:
    shared = {"policies": chosen(TIGHT, PAPER, UCB, GREEDY), "horizon": 1, "replications": scale.runs}
    shared |= {"checkpoints": 1, "redraw": True}
    return {
        name: {"environments": [_instance(point, scale.factors) for point in points], **shared}
        for name, points in _points(scale).items()
    }


def _instance(point: _Point, factors: tuple[float, ...]) -> dict[str, Any]:
    sizes = {"n_arms": 2 * point.S, "budget": point.S, "horizon": point.T}
    gaps = [factor / math.sqrt(point.T) for factor in factors]
    return {"instance": "hidden_pairs", "graph": "full_information", **sizes, "gap": gaps}


def _tables(results: Mapping[str, Results], scale: Scale) -> Tables:
    tables, powers = {}, []
    for name, points in _points(scale).items():
        table, fitted = along_worst(
            results[name], name, _LINES[name][0], points, lambda point: 1.0 / math.sqrt(point.T), _bounds
        )
        tables[f"along-{name}"] = table
        powers.append(fitted)
    against = polars.concat([_against_greedy(one) for one in results.values()])
    return {**tables, "powers": polars.concat(powers), "against-greedy": against}


def _bounds(policy: str, point: _Point) -> dict[str, Any]:
    """Return the bound for a policy, and what every policy must lose at some gap."""
    sizes: dict[str, Any] = {"n_arms": 2 * point.S, "budget": point.S, "horizon": point.T}
    if policy in (UCB, GREEDY):
        upper = ucb_full_information_upper(**sizes)
    else:
        upper = minimax_upper(**sizes, alpha=1, undirected=True, **rules(policy))
    return {"upper": upper.value, "lower": minimax_lower(**sizes, alpha=1).value, "most": float(point.S * point.T)}


def _against_greedy(results: Results) -> polars.DataFrame:
    """Return in how many runs a policy loses exactly what greedy loses, and by how much others differ."""
    about = {"S": polars.col("environment.budget"), "T": polars.col("horizon"), "gap": polars.col("environment.gap")}
    runs = results.regret.with_columns(**about)
    wide = runs.pivot("policy", index=["S", "T", "gap", "replication"], values="regret")
    made = []
    for policy in (TIGHT, PAPER, UCB):
        apart = polars.col(policy) - polars.col(GREEDY)
        said = {"same": (apart == 0.0).sum(), "runs": polars.len(), "least": apart.min(), "most": apart.max()}
        made.append(wide.group_by("S", "T", "gap", maintain_order=True).agg(policy=polars.lit(policy), **said))
    return polars.concat(made)


def findings(tables: Tables) -> list[Finding]:
    """Return what the tables say of full information."""
    made, powers = [], tables["powers"]
    for row in powers.filter(powers["policy"] != GREEDY).iter_rows(named=True):
        claim = f"{row['policy']}: worst regret grows with {row['parameter']} as S sqrt(T)"
        why = "" if row["inside"] else "The worst gap may lie beyond those that were tried."
        source = _APPENDIX if row["policy"] == UCB else "Theorem 3, alpha = 1"
        rule: dict[str, Any] = {"whole": row["whole"], "known": row["inside"], "why": why}
        made.append(power_finding(claim, source, row, _LINES[row["parameter"]][1], **rule))
    rows = [row for name in _LINES for row in tables[f"along-{name}"].iter_rows(named=True)]
    claim = "each policy stays below its bound, also at the worst gap"
    made.append(below_bound(claim, "Theorem 3 and appendix, repaired", rows))
    claim = "every policy loses order S sqrt(T) at some gap, whatever is revealed"
    made.append(above_bound(claim, "Theorem 2 (L2)", rows))
    same, runs = _alike(tables["against-greedy"], UCB)
    said = "UCB plays as greedy does, since all arms have the same count", _APPENDIX, "the same regret in every run"
    because = "no run differs" if same == runs else f"{runs - same} runs differ"
    return [*made, finding(*said, f"in {same} of {runs} runs", same == runs, because)]


def _alike(table: polars.DataFrame, policy: str) -> tuple[int, int]:
    """Return in how many runs a policy loses what greedy loses, and how many there are."""
    own = table.filter(table["policy"] == policy)
    return sum(own["same"].to_list()), sum(own["runs"].to_list())


def _paragraphs(tables: Tables, scale: Scale) -> list[str]:
    table, against = tables["along-T"], tables["against-greedy"]
    means = {policy: table.filter(table["policy"] == policy) for policy in (GREEDY, PAPER)}
    factors = {policy: part["factor"].to_numpy() for policy, part in means.items()}
    ratio = means[PAPER]["mean"].to_numpy() / means[GREEDY]["mean"].to_numpy()
    gaps = [f"{one.min():.1f} to {one.max():.1f} for {policy}" for policy, one in factors.items()]
    same, runs = _alike(against, TIGHT)
    tight = against.filter(against["policy"] == TIGHT)
    least, most = min(tight["least"].to_list()), max(tight["most"].to_list())
    others = "" if same == runs else f", and in the others between {short(least)} and {short(most)} more"
    return [
        "Every round reveals all arms: alpha = 1. The arms are S pairs, of which one each is better by a gap; which "
        "one is drawn anew in every run. The worst of several gaps counts, for each policy its own. There is "
        "nothing to explore, and whoever plays the best averages does well. UCB does, since its widths are all the "
        "same. So does tight elimination, which fills its slots by average and only keeps out what it has "
        f"eliminated: it loses exactly what greedy loses in {same} of {runs} runs{others}.",
        "Elimination as printed spends one slot of every round on a look that nobody needs, at the first arm that is "
        f"active. At the worst gap it loses {ratio.min():.2f} to {ratio.max():.2f} times as much as greedy along T. "
        f"In units of 1 / sqrt(T) the worst gaps are {' and '.join(gaps)}.",
    ]


def _charts(results: Mapping[str, Results], tables: Tables, scale: Scale) -> list[Chart]:
    return [_chart(results[name], name, points, tables) for name, points in _points(scale).items()]


def _chart(results: Results, name: str, points: list[_Point], tables: Tables) -> Chart:
    """Draw the lines; that of greedy is UCB's as well."""
    table, powers = tables[f"along-{name}"], tables["powers"]
    places = {getattr(point, name): point for point in points}
    return line_chart(
        results,
        f"full-information-{name}",
        f"Regret at each policy's worst gap against {name}; predicted power {_LINES[name][1]}. UCB plays as greedy "
        "does.",
        table.filter(table["policy"].is_in([TIGHT, PAPER, GREEDY])),
        name,
        powers.filter(powers["parameter"] == name),
        bounds={
            "Theorem 3, tight": lambda value: _bounds(TIGHT, places[value])["upper"],
            "appendix, UCB": lambda value: _bounds(UCB, places[value])["upper"],
            "Theorem 2 (L2)": lambda value: _bounds(UCB, places[value])["lower"],
        },
        ceiling=lambda value: _bounds(UCB, places[value])["most"],
        order=ORDER,
        y="regret at the worst gap",
    )


STUDY = Study(
    "full-information", "Full information: S sqrt(T)", _SIZES, _plans, _tables, findings, _paragraphs, _charts
)
