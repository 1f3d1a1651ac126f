"""Minimax rates: sqrt(alpha S T) in each of its variables, at the gap that is worst for each policy."""

from __future__ import annotations

import math
from collections.abc import Mapping
from typing import TYPE_CHECKING, Any, NamedTuple

import numpy as np

from armtriage import plots
from armtriage.experiment import Experiment
from armtriage.plots._style import short
from armtriage.reproduce._policies import PAPER, TIGHT, UCB, chosen
from armtriage.reproduce._worst import worst, worst_powers
from armtriage.reproduce.study import LEVEL, SEED, Chart, Finding, Report, Size, Study, chart, power_finding, spread
from armtriage.results import Results
from armtriage.theory.graph_bounds import minimax_upper
from armtriage.theory.lower_bounds import minimax_lower

if TYPE_CHECKING:
    import polars

__all__ = ["STUDY", "findings"]

_PROOF = 1.0 / 64.0
"""The gap of the lower bound's proof, in units of sqrt(alpha / (S T))."""
_FACTORS = (2.8, 3.4, 4.0, 4.4, 4.8, 5.2, 5.7, 6.7, 8.0, 8.7, 9.5, 10.4, 11.3, 13.5)
"""Gaps that are tried, in the same units: small enough to be hidden for all of T, to large enough to be found."""


class _Line(NamedTuple):
    """A parameter, how the paper calls it, what changes with it, and by which power regret should grow."""

    parameter: str
    letter: str
    power: float
    points: tuple[tuple[int, int, int], ...]  # alpha, S, T

    @property
    def title(self) -> str:
        """What stays the same, in words."""
        alpha, budget, horizon = self.points[0]
        fixed = {"T": f"α = {alpha}, S = {budget}", "S": f"α = {alpha // budget} S, T = {short(horizon)}"}
        return fixed.get(self.letter, f"S = {budget}, T = {short(horizon)}")


class _Sizes(NamedTuple):
    horizons: tuple[int, ...]
    budgets: tuple[int, ...]
    alphas: tuple[int, ...]
    short: int
    long: int
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
        "T": _Line("horizon", "T", 0.5, tuple((32, 4, one) for one in own.horizons)),
        "S": _Line("environment.budget", "S", 1.0, tuple((8 * one, one, own.short) for one in own.budgets)),
        "alpha": _Line("environment.n_arms", "α", 0.5, tuple((one, 2, own.long) for one in own.alphas)),
    }


def _experiments(size: Size) -> dict[str, Experiment]:
    own = _SIZES[size]
    made = {}
    for name, line in _lines(size).items():
        factors = (_PROOF, *own.factors) if name == "T" else own.factors
        made[name] = Experiment(
            [_instance(*point, factors) for point in line.points],
            chosen(TIGHT, PAPER, UCB),
            horizon=1,
            name=f"minimax-rates-{name}",
            replications=own.runs,
            seed=SEED,
            checkpoints=1,
            redraw=True,
        )
    return made


def _instance(alpha: int, budget: int, horizon: int, factors: tuple[float, ...]) -> dict[str, Any]:
    unit = math.sqrt(alpha / (budget * horizon))
    sizes = {"n_arms": alpha, "budget": budget, "horizon": horizon, "gap": [factor * unit for factor in factors]}
    return {"instance": "hidden_parts", "graph": "semi_bandit", **sizes}


def _report(results: Mapping[str, Results], size: Size) -> Report:
    import polars

    lines, tables, powers = _lines(size), {}, []
    for name, line in lines.items():
        table = worst(results[name], line.parameter)
        tables[name] = _with_bounds(table, line)
        fitted = worst_powers(results[name], table, line.parameter)
        ours = [_power_of_bound(policy, line) for policy in fitted["policy"]]
        about = {
            "parameter": polars.lit(line.letter),
            "predicted": polars.lit(line.power),
            "bound": polars.Series(ours),
        }
        powers.append(fitted.with_columns(**about))
    tables["powers"] = polars.concat(powers)
    tables["gap-of-the-proof"] = _proof(results["T"])
    charts = [_chart(results[name], line, tables[name], tables["powers"]) for name, line in lines.items()]
    return Report(_paragraphs(tables), findings(tables), charts, tables)


def _with_bounds(table: polars.DataFrame, line: _Line) -> polars.DataFrame:
    """Return the table with alpha, S and T, the gap in units of sqrt(alpha / (S T)), what guessing loses, and bounds."""
    import polars

    places = dict(zip((_value(line, point) for point in line.points), line.points, strict=True))
    points = [places[value] for value in table[line.parameter]]
    columns = [
        polars.Series(name, values) for name, values in zip(("alpha", "S", "T"), zip(*points, strict=True), strict=True)
    ]
    bounds = [_bounds(policy, *point) for policy, point in zip(table["policy"], points, strict=True)]
    columns += [polars.Series(name, [one[name] for one in bounds]) for name in bounds[0]]
    alpha, budget, horizon = (polars.col(name) for name in ("alpha", "S", "T"))
    guessing = budget * horizon * polars.col("gap") * (1.0 - 1.0 / (alpha // budget))
    table = table.with_columns(columns).with_columns(
        factor=polars.col("gap") / (alpha / (budget * horizon)).sqrt(), share=polars.col("mean") / guessing
    )
    about = ("policy", "alpha", "S", "T", "gap", "factor", "inside", "mean", "low", "high", "runs", "share")
    return table.select(*about, *bounds[0])


def _value(line: _Line, point: tuple[int, int, int]) -> int:
    return point[("environment.n_arms", "environment.budget", "horizon").index(line.parameter)]


def _bounds(policy: str, alpha: int, budget: int, horizon: int) -> dict[str, float | None]:
    sizes: dict[str, Any] = {"n_arms": alpha, "budget": budget, "alpha": alpha, "horizon": horizon}
    rule = {"benchmark": "printed", "interval": "printed"} if policy == PAPER else {}
    upper = None if policy == UCB else minimax_upper(**sizes, undirected=True, **rule).value
    printed = minimax_upper(**sizes, undirected=True, constants="printed").value
    return {"upper": upper, "printed": printed, "lower": minimax_lower(**sizes).value, "most": budget * horizon}


def _power_of_bound(policy: str, line: _Line) -> float | None:
    """Return by which power the upper bound itself grows along a line, logarithms and all."""
    bounds = [_bounds(policy, *point)["upper"] for point in line.points]
    if policy == UCB:
        return None
    values = [_value(line, point) for point in line.points]
    return float(np.polyfit(np.log(values), np.log(np.array(bounds, np.float64)), 1)[0])


def _proof(results: Results) -> polars.DataFrame:
    """Return the regret at the gap of the proof, as a share of what guessing loses."""
    import polars

    table = results.summary(level=LEVEL)
    size, budget, rounds = (polars.col(name) for name in ("environment.n_arms", "environment.budget", "horizon"))
    unit, gap = (size / (budget * rounds)).sqrt(), polars.col("environment.gap")
    guessing = budget * rounds * gap * (1.0 - 1.0 / (size // budget))
    table = table.filter(gap < 2.0 * _PROOF * unit)
    return table.select("policy", "horizon", *(polars.col(name) / guessing for name in ("mean", "low", "high")), "runs")


def findings(tables: Mapping[str, polars.DataFrame]) -> list[Finding]:
    """Return what the tables say of the rate of Theorem 3."""
    made = []
    for row in tables["powers"].filter(tables["powers"]["policy"] != UCB).iter_rows(named=True):
        with_ = " (α = 8S)" if row["parameter"] == "S" else ""
        claim = f"{row['policy']}: worst regret grows with {row['parameter']}{with_} as √(αST)"
        why = "The more arms, the later the last of them is told apart, at the same gap."
        why = why if row["inside"] else "The worst gap may lie beyond those that were tried."
        rule = {"whole": row["bound"], "known": row["inside"], "why": why}
        made.append(power_finding(claim, "Theorem 3", row, row["predicted"], **rule))
    rows = [row for name in ("T", "S", "alpha") for row in tables[name].iter_rows(named=True)]
    return [*made, _upper(rows), _lower(rows), _hidden(tables["gap-of-the-proof"])]


def _upper(rows: list[dict[str, Any]]) -> Finding:
    ours = [row for row in rows if row["policy"] != UCB]
    worst_ = max(ours, key=lambda row: row["mean"] / row["upper"])
    ratio = worst_["mean"] / worst_["upper"]
    empty, printed = (sum(row[name] >= row["most"] for row in ours) for name in ("upper", "printed"))
    verdict = f"{'Agrees' if ratio <= 1 else 'Does not agree'}: at most {ratio:.2g} times the bound."
    verdict += f" It is vacuous in {empty} of {len(ours)} places, and in {printed} with the printed constants."
    claim = "elimination stays below the bound, also at the worst gap"
    measured = f"{spread(worst_)}, {worst_['policy']}"
    predicted = f"at most {short(worst_['upper'])} there"
    return Finding(claim, "Theorem 3, repaired constants", predicted, measured, verdict, ratio <= 1)


def _lower(rows: list[dict[str, Any]]) -> Finding:
    least = min(rows, key=lambda row: row["mean"] / row["lower"])
    ratio = least["mean"] / least["lower"]
    verdict = f"{'Agrees' if ratio >= 1 else 'Does not agree'}: at least {ratio:.0f} times the bound."
    claim = "every policy loses order √(αST) at some gap"
    measured = f"{spread(least)}, {least['policy']}"
    return Finding(
        claim, "lower bound that it cites", f"at least {short(least['lower'])} there", measured, verdict, ratio >= 1
    )


def _hidden(table: polars.DataFrame) -> Finding:
    """Return whether anybody does better than guessing at the gap of the proof."""
    least = min(table.iter_rows(named=True), key=lambda row: row["mean"])
    told = least["high"] is not None and least["high"] < 1.0
    verdict = "Agrees: at this gap nothing can be learned, and any power would be the instance's own."
    if told:
        verdict = f"Does not agree: {least['policy']} loses {100 * (1 - least['mean']):.1f}% less than guessing."
    claim = "at the gap of the lower bound's proof, √(α/(ST))/64, nobody does better than guessing"
    measured = f"least share of it: {least['mean']:.3f} ({least['low']:.3f} to {least['high']:.3f}), {least['policy']}"
    return Finding(claim, "proof of the lower bound", "1 times what guessing loses", measured, verdict, not told)


def _paragraphs(tables: Mapping[str, polars.DataFrame]) -> list[str]:
    import polars

    rows = polars.concat([tables[name] for name in ("T", "S", "alpha")])
    said = []
    for policy in (TIGHT, PAPER, UCB):
        part = rows.filter(rows["policy"] == policy)
        said.append(
            f"{part['factor'].min():.1f} to {part['factor'].max():.1f} for {policy}, which loses "
            f"{100 * part['share'].min():.0f} to {100 * part['share'].max():.0f}% of what guessing loses there"
        )
    means = {policy: rows.filter(rows["policy"] == policy)["mean"].to_numpy() for policy in (TIGHT, PAPER, UCB)}
    return [
        "No arm reveals another, so α = K. The arms are S bandits of α/S arms each; one arm of each is better by Δ, and "
        "which one is drawn anew in every run. A minimax rate is about the worst Δ. Regret is therefore measured at "
        "several, fixed multiples of √(α/(ST)), and the largest of the mean regrets is kept, for each policy its own. Theorem 3 "
        "has √(αST) + S√T; here α is 8S or more, so that the first part is the larger one, and full information has the "
        "other.",
        f"In units of √(α/(ST)) the worst gaps are {'; '.join(said)}. Elimination guesses until it knows: its worst gap is "
        "that which it finds out just before the end.",
        f"UCB, whose failure needs other graphs, loses less here: tight elimination loses {(means[TIGHT] / means[UCB]).min():.1f} "
        f"to {(means[TIGHT] / means[UCB]).max():.1f} times as much, elimination as printed "
        f"{(means[PAPER] / means[UCB]).min():.1f} to {(means[PAPER] / means[UCB]).max():.1f} times.",
    ]


def _chart(results: Results, line: _Line, table: polars.DataFrame, powers: polars.DataFrame) -> Chart:
    letter = line.letter if line.letter in table.columns else "alpha"
    places = {_value(line, point): point for point in line.points}
    ax = plots.scaling(
        table.select("policy", letter, "mean", "low", "high", "runs"),
        powers.filter(powers["parameter"] == line.letter),
        bounds={
            "Theorem 3, tight": lambda value: _bounds(TIGHT, *places[value])["upper"],
            "Theorem 3, repaired": lambda value: _bounds(PAPER, *places[value])["upper"],
            "lower bound": lambda value: _bounds(UCB, *places[value])["lower"],
        },
        ceiling=lambda value: places[value][1] * places[value][2],
        level=LEVEL,
    )
    ax.set_xlabel(line.letter)
    ax.set_ylabel("regret at the worst gap")
    caption = (
        f"Regret at each policy's worst gap against {line.letter}, with {line.title}; predicted power {line.power}."
    )
    return chart(results, ax, f"minimax-rates-{letter}", caption, table["runs"])


STUDY = Study("minimax-rates", "The worst gap: √(αST)", _experiments, _report)
