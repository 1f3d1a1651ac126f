"""Minimax rates: sqrt(alpha S T) in each of its variables, at the gap that is worst for each policy."""

from __future__ import annotations

import math
from collections.abc import Mapping
from typing import TYPE_CHECKING, Any, NamedTuple

from armtriage import plots
from armtriage.experiments.experiment import Experiment
from armtriage.experiments.results import Results
from armtriage.plots._style import short
from armtriage.reproduce._fits import steepness
from armtriage.reproduce._policies import ORDER, PAPER, TIGHT, UCB, chosen, rules
from armtriage.reproduce._worst import above_bound, below_bound, inside, line_powers, worst
from armtriage.reproduce.study import LEVEL, SEED, Chart, Finding, Report, Size, Study, chart, power_finding
from armtriage.theory import minimax_lower, minimax_upper

if TYPE_CHECKING:
    import polars

__all__ = ["STUDY", "findings"]

_PROOF = 1.0 / 64.0
"""The gap of the lower bound's proof, in units of sqrt(alpha / (S T))."""
_FACTORS = (2.8, 3.4, 4.0, 4.4, 4.8, 5.2, 5.7, 6.7, 8.0, 8.7, 9.5, 10.4, 11.3, 13.5)
"""Gaps that are tried, in the same units: small enough to be hidden for all of T, to large enough to be found."""


class _Point(NamedTuple):
    alpha: int
    S: int
    T: int


class _Line(NamedTuple):
    """Points along which one of the three grows, the column that has it, and the power of regret that is predicted."""

    parameter: str
    power: float
    points: tuple[_Point, ...]


class _Sizes(NamedTuple):
    horizons: tuple[int, ...]
    budgets: tuple[int, ...]
    alphas: tuple[int, ...]
    short: int  # T of the budgets
    long: int  # T of the alphas
    factors: tuple[float, ...]
    runs: int


_SIZES: dict[Size, _Sizes] = {
    "tiny": _Sizes((4000, 8000), (1, 2), (8, 16), 4000, 8000, (4.0, 8.0, 13.5), 2),
    "quick": _Sizes((4000, 16_000, 64_000), (4, 8, 16, 32), (32, 64, 128), 8000, 32_000, _FACTORS, 8),
    "full": _Sizes(
        (4000, 16_000, 64_000, 256_000), (4, 8, 16, 32, 64), (32, 64, 128, 256), 16_000, 64_000, _FACTORS, 32
    ),
}


def _lines(size: Size) -> dict[str, _Line]:
    own = _SIZES[size]
    return {
        "T": _Line("horizon", 0.5, tuple(_Point(32, 4, one) for one in own.horizons)),
        "S": _Line("environment.budget", 1.0, tuple(_Point(8 * one, one, own.short) for one in own.budgets)),
        "alpha": _Line("environment.n_arms", 0.5, tuple(_Point(one, 2, own.long) for one in own.alphas)),
    }


def _experiments(size: Size) -> dict[str, Experiment]:
    own = _SIZES[size]
    return {
        name: Experiment(
            [_instance(point, (_PROOF, *own.factors) if name == "T" else own.factors) for point in line.points],
            chosen(TIGHT, PAPER, UCB),
            horizon=1,
            name=f"minimax-rates-{name}",
            replications=own.runs,
            seed=SEED,
            checkpoints=1,
            redraw=True,
        )
        for name, line in _lines(size).items()
    }


def _instance(point: _Point, factors: tuple[float, ...]) -> dict[str, Any]:
    unit = math.sqrt(point.alpha / (point.S * point.T))
    sizes = {"n_arms": point.alpha, "budget": point.S, "horizon": point.T, "gap": [factor * unit for factor in factors]}
    return {"instance": "hidden_parts", "graph": "semi_bandit", **sizes}


def _report(results: Mapping[str, Results], size: Size) -> Report:
    import polars

    lines, tables, powers = _lines(size), {}, []
    for name, line in lines.items():
        table = worst(results[name], line.parameter)
        tables[f"along-{name}"] = _with_bounds(table.rename({line.parameter: name}), name, line)
        fitted = line_powers(results[name], table, line.parameter)
        whole = polars.Series("whole", [_power_of_bound(policy, name, line) for policy in fitted["policy"]])
        aim = {"parameter": polars.lit(name), "predicted": polars.lit(line.power)}
        powers.append(fitted.join(inside(table), on="policy", maintain_order="left").with_columns(whole, **aim))
    tables["powers"] = polars.concat(powers)
    tables["gap-of-the-proof"] = _at_the_proof(results["T"])
    charts = [_chart(results[name], name, line, tables) for name, line in lines.items()]
    return Report(_paragraphs(tables), findings(tables), charts, tables)


def _with_bounds(table: polars.DataFrame, name: str, line: _Line) -> polars.DataFrame:
    """Return the table with alpha, S and T, gaps in units of sqrt(alpha / (S T)), shares of guessing, and bounds."""
    import polars

    places = {getattr(point, name): point for point in line.points}
    points = [places[value] for value in table[name]]
    bounds = [_bounds(policy, point) for policy, point in zip(table["policy"], points, strict=True)]
    added = {key: [getattr(point, key) for point in points] for key in _Point._fields}
    added |= {key: [one[key] for one in bounds] for key in bounds[0]}
    table = table.with_columns(polars.Series(key, values) for key, values in added.items())
    alpha, budget, rounds, gap = (polars.col(key) for key in (*_Point._fields, "gap"))
    factor, share = gap / (alpha / (budget * rounds)).sqrt(), polars.col("mean") / _guessing(alpha, budget, rounds, gap)
    about = ("mean", "low", "high", "runs", "gap", factor.alias("factor"), "inside", share.alias("share"))
    return table.select("policy", *_Point._fields, *about, *bounds[0])


def _guessing(alpha: polars.Expr, budget: polars.Expr, rounds: polars.Expr, gap: polars.Expr) -> polars.Expr:
    """Return what is lost by whoever guesses which arm of each part is the better one."""
    return budget * rounds * gap * (1.0 - 1.0 / (alpha // budget))


def _bounds(policy: str, point: _Point) -> dict[str, Any]:
    sizes: dict[str, Any] = {"n_arms": point.alpha, "budget": point.S, "alpha": point.alpha, "horizon": point.T}
    upper = minimax_upper(**sizes, undirected=True, **rules(policy)).value if policy != UCB else None
    printed = minimax_upper(**sizes, undirected=True, constants="printed").value
    most = float(point.S * point.T)
    return {"upper": upper, "printed": printed, "lower": minimax_lower(**sizes).value, "most": most}


def _power_of_bound(policy: str, name: str, line: _Line) -> float | None:
    """Return by which power the upper bound itself grows along a line, logarithms and all."""
    if policy == UCB:
        return None
    return steepness({getattr(point, name): _bounds(policy, point)["upper"] for point in line.points})


def _at_the_proof(results: Results) -> polars.DataFrame:
    """Return the regret at the gap of the proof, as a share of what guessing loses."""
    import polars

    names = ("environment.n_arms", "environment.budget", "horizon", "environment.gap")
    alpha, budget, rounds, gap = (polars.col(name) for name in names)
    guessing = _guessing(alpha, budget, rounds, gap)
    table = results.summary(level=LEVEL).filter(gap < 2.0 * _PROOF * (alpha / (budget * rounds)).sqrt())
    return table.select("policy", "horizon", *(polars.col(name) / guessing for name in ("mean", "low", "high")), "runs")


def findings(tables: Mapping[str, polars.DataFrame]) -> list[Finding]:
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
    return [*made, _printed(ours), _hidden(tables["gap-of-the-proof"])]


def _printed(rows: list[dict[str, Any]]) -> Finding:
    """Return whether the printed constants say anything."""
    least = min(row["printed"] / row["most"] for row in rows)
    verdict = "Agrees: below what any policy can lose." if least < 1.0 else "Says nothing: vacuous in all places."
    said = "the bound with its printed constants says something at these sizes", "Theorem 3, as printed"
    return Finding(*said, "less than S T", f"{short(least)} times S T or more", verdict, True if least < 1.0 else None)


def _hidden(table: polars.DataFrame) -> Finding:
    """Return whether anybody does better than guessing at the gap of the proof."""
    least = min(table.iter_rows(named=True), key=lambda row: row["mean"])
    told = least["high"] is not None and least["high"] < 1.0
    verdict = "Agrees: nothing can be learned there, and any power would be the instance's own."
    if told:
        verdict = f"Does not agree: {least['policy']} loses {100 * (1 - least['mean']):.1f}% less than guessing."
    claim = "at the gap of the lower bound's proof, sqrt(alpha / (S T)) / 64, nobody does better than guessing"
    measured = f"least share of it: {least['mean']:.3f} ({least['low']:.3f} to {least['high']:.3f}), {least['policy']}"
    return Finding(claim, "its proof", "1 times what guessing loses", measured, verdict, not told)


def _paragraphs(tables: Mapping[str, polars.DataFrame]) -> list[str]:
    import polars

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


def _chart(results: Results, name: str, line: _Line, tables: Mapping[str, polars.DataFrame]) -> Chart:
    table, powers = tables[f"along-{name}"], tables["powers"]
    places = {getattr(point, name): point for point in line.points}
    ax = plots.scaling(
        table.select("policy", name, "mean", "low", "high", "runs"),
        powers.filter(powers["parameter"] == name),
        bounds={
            "Theorem 3, tight": lambda value: _bounds(TIGHT, places[value])["upper"],
            "Theorem 3, repaired": lambda value: _bounds(PAPER, places[value])["upper"],
            "lower bound": lambda value: _bounds(UCB, places[value])["lower"],
        },
        ceiling=lambda value: places[value].S * places[value].T,
        level=LEVEL,
        order=ORDER,
    )
    ax.set_ylabel("regret at the worst gap")
    first = line.points[0]
    others = {
        "T": f"alpha = {first.alpha}, S = {first.S}",
        "S": f"alpha = {first.alpha // first.S} S, T = {short(first.T)}",
    }
    fixed = others.get(name, f"S = {first.S}, T = {short(first.T)}")
    caption = f"Regret at each policy's worst gap against {name}, with {fixed}; predicted power {line.power}."
    return chart(results, ax, f"minimax-rates-{name}", caption, table["runs"])


STUDY = Study("minimax-rates", "The worst gap: sqrt(alpha S T)", _experiments, _report)
