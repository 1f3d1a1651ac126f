"""Minimax rates: sqrt(alpha S T) in each of its variables, at the gap that is worst for each policy."""

from __future__ import annotations

import math
from collections.abc import Mapping
from typing import Any, NamedTuple

import polars

from armtriage.experiments import Results
from armtriage.reproduce.lines import above_bound, along_worst, below_bound, line_chart, power_finding, printed_bound
from armtriage.reproduce.policies import ORDER, PAPER, TIGHT, UCB, chosen, rules
from armtriage.reproduce.study import LEVEL, Chart, Finding, Scale, Study, Tables, finding
from armtriage.simulation.comparison import short
from armtriage.theory import minimax_lower, minimax_upper

__all__ = ["STUDY", "findings"]

_PROOF = 1.0 / 64.0
"""The gap of the lower bound's proof, in units of sqrt(alpha / (S T))."""
_FACTORS = (2.8, 3.4, 4.0, 4.4, 4.8, 5.2, 5.7, 6.7, 8.0, 8.7, 9.5, 10.4, 11.3, 13.5)
"""Gaps that are tried, in the same units: small enough to be hidden for all of T, to large enough to be found."""
_LINES = {"T": ("horizon", 0.5), "S": ("environment.budget", 1.0), "alpha": ("environment.n_arms", 0.5)}
"""What grows along a line: the column that has it, and the power of regret that is predicted."""
# T is `short` along S, and `long` along alpha.
_SIZES = {
    "tiny": Scale(T=(4000, 8000), S=(1, 2), alpha=(8, 16), short=4000, long=8000, factors=(4.0, 8.0, 13.5), runs=2),
    "quick": Scale(
        T=(4000, 16_000, 64_000), S=(4, 8, 16, 32), alpha=(32, 64, 128),
        short=8000, long=32_000, factors=_FACTORS, runs=8,
    ),
    "full": Scale(
        T=(4000, 16_000, 64_000, 256_000), S=(4, 8, 16, 32, 64), alpha=(32, 64, 128, 256),
        short=16_000, long=64_000, factors=_FACTORS, runs=32,
    ),
}  # fmt: skip


class _Point(NamedTuple):
    alpha: int
    S: int
    T: int


def _unit(point: _Point) -> float:
    return math.sqrt(point.alpha / (point.S * point.T))


def _points(scale: Scale) -> dict[str, list[_Point]]:
    return {
        "T": [_Point(32, 4, one) for one in scale.T],
        "S": [_Point(8 * one, one, scale.short) for one in scale.S],
        "alpha": [_Point(one, 2, scale.long) for one in scale.alpha],
    }


def _plans(scale: Scale) -> dict[str, dict[str, Any]]:
    shared = {"policies": chosen(TIGHT, PAPER, UCB), "horizon": 1, "replications": scale.runs}
    shared |= {"checkpoints": 1, "redraw": True}
    gaps = {name: (_PROOF, *scale.factors) if name == "T" else scale.factors for name in _LINES}
    return {
        name: {"environments": [_instance(point, gaps[name]) for point in points], **shared}
        for name, points in _points(scale).items()
    }


def _instance(point: _Point, factors: tuple[float, ...]) -> dict[str, Any]:
    sizes = {"n_arms": point.alpha, "budget": point.S, "horizon": point.T}
    gaps = [factor * _unit(point) for factor in factors]
    return {"instance": "hidden_parts", "graph": "semi_bandit", **sizes, "gap": gaps}


def _tables(results: Mapping[str, Results], scale: Scale) -> Tables:
    tables, powers = {}, []
    alpha, budget, rounds, gap = (polars.col(key) for key in (*_Point._fields, "gap"))
    share = polars.col("mean") / _guessing(alpha, budget, rounds, gap)
    for name, points in _points(scale).items():
        parameter, power = _LINES[name]
        table, fitted = along_worst(results[name], name, parameter, points, _unit, _bounds)
        tables[f"along-{name}"] = table.with_columns(share=share)
        powers.append(fitted.with_columns(predicted=polars.lit(power)))
    return {**tables, "powers": polars.concat(powers), "gap-of-the-proof": _at_the_proof(results["T"])}


def _guessing(alpha: polars.Expr, budget: polars.Expr, rounds: polars.Expr, gap: polars.Expr) -> polars.Expr:
    """Return what is lost by whoever guesses which arm of each part is the better one."""
    return budget * rounds * gap * (1.0 - 1.0 / (alpha // budget))


def _bounds(policy: str, point: _Point) -> dict[str, Any]:
    sizes: dict[str, Any] = {"n_arms": point.alpha, "budget": point.S, "alpha": point.alpha, "horizon": point.T}
    upper = minimax_upper(**sizes, undirected=True, **rules(policy)).value if policy != UCB else None
    printed = minimax_upper(**sizes, undirected=True, constants="printed").value
    most = float(point.S * point.T)
    return {"upper": upper, "printed": printed, "lower": minimax_lower(**sizes).value, "most": most}


def _at_the_proof(results: Results) -> polars.DataFrame:
    """Return the regret at the gap of the proof, as a share of what guessing loses."""
    names = ("environment.n_arms", "environment.budget", "horizon", "environment.gap")
    alpha, budget, rounds, gap = (polars.col(name) for name in names)
    guessing = _guessing(alpha, budget, rounds, gap)
    table = results.summary(level=LEVEL).filter(gap < 2.0 * _PROOF * (alpha / (budget * rounds)).sqrt())
    return table.select("policy", "horizon", *(polars.col(name) / guessing for name in ("mean", "low", "high")), "runs")


def findings(tables: Tables) -> list[Finding]:
    """Return what the tables say of the rate of Theorem 3."""
    made, powers = [], tables["powers"]
    for row in powers.filter(powers["policy"] != UCB).iter_rows(named=True):
        beside = " (alpha = 8 S)" if row["parameter"] == "S" else ""
        claim = f"{row['policy']}: worst regret grows with {row['parameter']}{beside} as sqrt(alpha S T)"
        why = "The more arms, the later the last of them is told apart, at the same gap."
        why = why if row["inside"] else "The worst gap may lie beyond those that were tried."
        rule: dict[str, Any] = {"whole": row["whole"], "known": row["inside"], "why": why}
        made.append(power_finding(claim, "Theorem 3", row, row["predicted"], **rule))
    rows = [row for name in _Point._fields for row in tables[f"along-{name}"].iter_rows(named=True)]
    ours = [row for row in rows if row["policy"] != UCB]
    claims = (
        "elimination stays below the bound, also at the worst gap",
        "every policy loses order sqrt(alpha S T) at some gap",
    )
    made.append(below_bound(claims[0], "Theorem 3, repaired constants", ours))
    made.append(above_bound(claims[1], "lower bound that the paper cites", rows))
    return [*made, printed_bound("Theorem 3, as printed", ours), _hidden(tables["gap-of-the-proof"])]


def _hidden(table: polars.DataFrame) -> Finding:
    """Return whether anybody does better than guessing at the gap of the proof."""
    least = min(table.iter_rows(named=True), key=lambda row: row["mean"])
    better = least["high"] is not None and least["high"] < 1.0
    because = "nothing can be learned there, and any power would be the instance's own"
    if better:
        because = f"{least['policy']} loses {100 * (1 - least['mean']):.1f}% less than guessing"
    claim = "at the gap of the lower bound's proof, sqrt(alpha / (S T)) / 64, nobody does better than guessing"
    said = f"least share of it: {least['mean']:.3f} ({least['low']:.3f} to {least['high']:.3f}), {least['policy']}"
    return finding(claim, "its proof", "1 times what guessing loses", said, not better, because)


def _paragraphs(tables: Tables, scale: Scale) -> list[str]:
    rows = polars.concat([tables[f"along-{name}"] for name in _Point._fields])
    parts = {policy: rows.filter(rows["policy"] == policy) for policy in (TIGHT, PAPER, UCB)}
    factors = {policy: part["factor"].to_numpy() for policy, part in parts.items()}
    shares = {policy: 100 * part["share"].to_numpy() for policy, part in parts.items()}
    said = [
        f"{factors[policy].min():.1f} to {factors[policy].max():.1f} for {policy}, which loses "
        f"{shares[policy].min():.0f} to {shares[policy].max():.0f}% of what guessing loses there"
        for policy in parts
    ]
    ratio = {policy: parts[policy]["mean"].to_numpy() / parts[UCB]["mean"].to_numpy() for policy in (TIGHT, PAPER)}
    return [
        "No arm reveals another, so alpha = K. The arms are S bandits of alpha / S arms each, of which one arm is "
        "better by a gap; which one is drawn anew in every run. A minimax rate is about the worst gap. Regret is "
        "therefore measured at several, fixed multiples of sqrt(alpha / (S T)), and the largest mean is kept, for "
        "each policy its own. Theorem 3 has sqrt(alpha S T) + S sqrt(T). Here alpha is 8 S or more, so that the "
        "first part is the larger one; full information shows the other.",
        f"In units of sqrt(alpha / (S T)) the worst gaps are {'; '.join(said)}. Elimination guesses until it knows: "
        "its worst gap is the one that it finds out just before the end.",
        f"UCB, whose failure needs other graphs, loses less here: tight elimination loses {ratio[TIGHT].min():.1f} to "
        f"{ratio[TIGHT].max():.1f} times as much, elimination as printed {ratio[PAPER].min():.1f} to "
        f"{ratio[PAPER].max():.1f} times.",
    ]


def _charts(results: Mapping[str, Results], tables: Tables, scale: Scale) -> list[Chart]:
    return [_chart(results[name], name, points, tables) for name, points in _points(scale).items()]


def _chart(results: Results, name: str, points: list[_Point], tables: Tables) -> Chart:
    places, powers, first = {getattr(point, name): point for point in points}, tables["powers"], points[0]
    others = {"T": f"alpha = {first.alpha}, S = {first.S}", "S": f"alpha = 8 S, T = {short(first.T)}"}
    fixed = others.get(name, f"S = {first.S}, T = {short(first.T)}")
    return line_chart(
        results,
        f"minimax-rates-{name}",
        f"Regret at each policy's worst gap against {name}, with {fixed}; predicted power {_LINES[name][1]}.",
        tables[f"along-{name}"],
        name,
        powers.filter(powers["parameter"] == name),
        bounds={
            "Theorem 3, tight": lambda value: _bounds(TIGHT, places[value])["upper"],
            "Theorem 3, repaired": lambda value: _bounds(PAPER, places[value])["upper"],
            "lower bound": lambda value: _bounds(UCB, places[value])["lower"],
        },
        ceiling=lambda value: places[value].S * places[value].T,
        order=ORDER,
        y="regret at the worst gap",
    )


STUDY = Study(
    "minimax-rates", "The worst gap: sqrt(alpha S T)", _SIZES, _plans, _tables, findings, _paragraphs, _charts
)
