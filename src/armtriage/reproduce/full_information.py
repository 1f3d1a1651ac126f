"""Full information: S sqrt(T) at the worst gap, where nothing needs exploring and greedy play is best."""

from __future__ import annotations

import math
from collections.abc import Mapping
from typing import TYPE_CHECKING, Any, NamedTuple

import numpy as np

from armtriage import plots
from armtriage.experiment import Experiment
from armtriage.plots._style import short
from armtriage.reproduce._policies import GREEDY, PAPER, TIGHT, UCB, chosen
from armtriage.reproduce._worst import worst, worst_powers
from armtriage.reproduce.study import LEVEL, SEED, Chart, Finding, Report, Size, Study, chart, power_finding, spread
from armtriage.results import Results
from armtriage.theory.graph_bounds import minimax_upper, ucb_full_information_upper
from armtriage.theory.lower_bounds import minimax_lower

if TYPE_CHECKING:
    import polars

__all__ = ["STUDY", "findings"]

_FACTORS = (0.5, 1.0, 1.4, 2.0, 4.0, 8.0, 9.5, 11.3, 13.5)
"""Gaps that are tried, in units of 1 / sqrt(T)."""
_POWERS = {"T": 0.5, "S": 1.0}


class _Sizes(NamedTuple):
    horizons: tuple[int, ...]
    budgets: tuple[int, ...]
    budget: int  # of the horizons
    horizon: int  # of the budgets
    factors: tuple[float, ...]
    runs: int


_SIZES: dict[Size, _Sizes] = {
    "tiny": _Sizes((1000, 2000), (2, 4), 2, 1000, (0.5, 1.4, 8.0, 13.5), 2),
    "quick": _Sizes((1000, 4000, 16_000), (16, 32, 64), 32, 4000, _FACTORS, 8),
    "full": _Sizes((1000, 4000, 16_000, 64_000), (16, 32, 64, 128), 32, 4000, _FACTORS, 32),
}


def _experiments(size: Size) -> dict[str, Experiment]:
    own = _SIZES[size]
    lines = {"T": [(own.budget, one) for one in own.horizons], "S": [(one, own.horizon) for one in own.budgets]}
    return {
        name: Experiment(
            [_instance(*point, own.factors) for point in points],
            chosen(TIGHT, PAPER, UCB, GREEDY),
            horizon=1,
            name=f"full-information-{name}",
            replications=own.runs,
            seed=SEED,
            checkpoints=1,
            redraw=True,
        )
        for name, points in lines.items()
    }


def _instance(budget: int, horizon: int, factors: tuple[float, ...]) -> dict[str, Any]:
    sizes = {"n_arms": 2 * budget, "budget": budget, "horizon": horizon}
    gaps = [factor / math.sqrt(horizon) for factor in factors]
    return {"instance": "hidden_pairs", "graph": "full_information", **sizes, "gap": gaps}


def _report(results: Mapping[str, Results], size: Size) -> Report:
    import polars

    parameters = {"T": "horizon", "S": "environment.budget"}
    tables, powers = {}, []
    for name, parameter in parameters.items():
        table = worst(results[name], parameter)
        fitted = worst_powers(results[name], table, parameter)
        tables[name] = _with_bounds(table.rename({parameter: name}), size)
        ours = [_power_of_bound(policy, tables[name], name) for policy in fitted["policy"]]
        powers.append(fitted.with_columns(parameter=polars.lit(name), bound=polars.Series(ours)))
    tables["powers"] = polars.concat(powers)
    tables["against-greedy"] = polars.concat([_against_greedy(one) for one in results.values()])
    charts = [_chart(results[name], tables[name], tables["powers"], name) for name in parameters]
    return Report(_paragraphs(tables), findings(tables), charts, tables)


def _with_bounds(table: polars.DataFrame, size: Size) -> polars.DataFrame:
    """Return the table with S, T and the bounds."""
    import polars

    own = _SIZES[size]
    other = {"S": own.horizon} if "S" in table.columns else {"T": own.budget}
    names = ("T",) if "S" in table.columns else ("S",)
    table = table.with_columns(polars.lit(value).alias(name) for name, value in zip(names, other.values(), strict=True))
    bounds = [_bounds(row["policy"], row["S"], row["T"]) for row in table.iter_rows(named=True)]
    table = table.with_columns(polars.Series(name, [one[name] for one in bounds]) for name in bounds[0])
    table = table.with_columns(factor=polars.col("gap") * polars.col("T").sqrt())
    return table.select("policy", "S", "T", "gap", "factor", "inside", "mean", "low", "high", "runs", *bounds[0])


def _bounds(policy: str, budget: int, horizon: int) -> dict[str, float | None]:
    """Return the bound for a policy, and what every policy must lose at some gap."""
    sizes: dict[str, Any] = {"n_arms": 2 * budget, "budget": budget, "horizon": horizon}
    if policy in (UCB, GREEDY):
        upper = ucb_full_information_upper(**sizes).value
    else:
        rule = {"benchmark": "printed", "interval": "printed"} if policy == PAPER else {}
        upper = minimax_upper(**sizes, alpha=1, undirected=True, **rule).value
    return {"upper": upper, "lower": minimax_lower(**sizes, alpha=1).value, "most": float(budget * horizon)}


def _power_of_bound(policy: str, table: polars.DataFrame, name: str) -> float:
    own = table.filter(table["policy"] == policy)
    return float(np.polyfit(np.log(own[name].to_numpy()), np.log(own["upper"].to_numpy()), 1)[0])


def _against_greedy(results: Results) -> polars.DataFrame:
    """Return in how many runs a policy loses exactly what greedy loses, and the largest difference of a run."""
    import polars

    about = {"S": polars.col("environment.budget"), "T": polars.col("horizon"), "gap": polars.col("environment.gap")}
    runs = results.regret.with_columns(**about)
    wide = runs.pivot("policy", index=["S", "T", "gap", "replication"], values="regret")
    made = []
    for policy in (TIGHT, PAPER, UCB):
        apart = polars.col(policy) - polars.col(GREEDY)
        said = {"same": (apart == 0.0).sum(), "runs": polars.len(), "least": apart.min(), "most": apart.max()}
        made.append(wide.group_by("S", "T", "gap", maintain_order=True).agg(policy=polars.lit(policy), **said))
    return polars.concat(made)


def findings(tables: Mapping[str, polars.DataFrame]) -> list[Finding]:
    """Return what the tables say of full information."""
    made = []
    for row in tables["powers"].filter(tables["powers"]["policy"] != GREEDY).iter_rows(named=True):
        claim = f"{row['policy']}: worst regret grows with {row['parameter']} as S√T"
        why = "" if row["inside"] else "The worst gap may lie beyond those that were tried."
        source = "Appendix, UCB with full information" if row["policy"] == UCB else "Theorem 3, α = 1"
        rule: dict[str, Any] = {"whole": row["bound"], "known": row["inside"], "why": why}
        made.append(power_finding(claim, source, row, _POWERS[row["parameter"]], **rule))
    rows = [row for name in _POWERS for row in tables[name].iter_rows(named=True)]
    return [*made, _alike(tables["against-greedy"]), _upper(rows), _lower(rows)]


def _alike(table: polars.DataFrame) -> Finding:
    """Return whether UCB loses what greedy loses, run by run."""
    own = table.filter(table["policy"] == UCB)
    same, runs = own["same"].sum(), own["runs"].sum()
    verdict = "Agrees: no run differs." if same == runs else f"Does not agree: {runs - same} runs differ."
    claim = "UCB plays as greedy does, since all arms have the same count"
    said = claim, "Appendix, UCB with full information", "the same regret in every run"
    return Finding(*said, f"in {same} of {runs} runs", verdict, same == runs)


def _upper(rows: list[dict[str, Any]]) -> Finding:
    worst_ = max(rows, key=lambda row: row["mean"] / row["upper"])
    ratio = worst_["mean"] / worst_["upper"]
    empty = sum(row["upper"] >= row["most"] for row in rows)
    verdict = f"{'Agrees' if ratio <= 1.0 else 'Does not agree'}: at most {ratio:.2g} times the bound"
    verdict += f", which is vacuous in {empty} of {len(rows)} places." if empty else "."
    predicted, measured = f"at most {short(worst_['upper'])} there", f"{spread(worst_)}, {worst_['policy']}"
    claim = "each policy stays below its bound, also at the worst gap"
    return Finding(claim, "Theorem 3 and Appendix, repaired", predicted, measured, verdict, ratio <= 1.0)


def _lower(rows: list[dict[str, Any]]) -> Finding:
    least = min(rows, key=lambda row: row["mean"] / row["lower"])
    ratio = least["mean"] / least["lower"]
    holds = least["high"] is None or least["high"] >= least["lower"]
    verdict = f"{'Agrees' if holds else 'Does not agree'}: at least {ratio:.1f} times the bound."
    predicted, measured = f"at least {short(least['lower'])} there", f"{spread(least)}, {least['policy']}"
    claim = "every policy loses order S√T at some gap, whatever is revealed"
    return Finding(claim, "Theorem 2 (L2)", predicted, measured, verdict, holds)


def _paragraphs(tables: Mapping[str, polars.DataFrame]) -> list[str]:
    table, against = tables["T"], tables["against-greedy"]
    means = {policy: table.filter(table["policy"] == policy) for policy in (GREEDY, PAPER)}
    ratio = means[PAPER]["mean"].to_numpy() / means[GREEDY]["mean"].to_numpy()
    gaps = [f"{part['factor'].min():.1f} to {part['factor'].max():.1f} for {name}" for name, part in means.items()]
    tight = against.filter(against["policy"] == TIGHT)
    same, runs, least, most = tight["same"].sum(), tight["runs"].sum(), tight["least"].min(), tight["most"].max()
    others = "" if same == runs else f", and in the others between {short(least)} and {short(most)} more"  # type: ignore[arg-type]
    return [
        "Every round reveals all arms, α = 1. The arms are S pairs, of which one each is better by Δ; which one is drawn anew "
        "in every run. The worst of several Δ counts, for each policy its own. There is nothing to explore, and whoever "
        "plays the best averages does well. UCB does, since its widths are all the same. So does tight elimination, which "
        "fills its slots by average and only keeps out what it has eliminated: it loses exactly what greedy loses in "
        f"{same} of {runs} runs{others}.",
        f"Elimination as printed gives one slot a round to a look that nobody needs, at the first arm that is active. It loses "
        f"{ratio.min():.1f} to {ratio.max():.1f} times as much as greedy along T. In units of 1/√T the worst gaps are "
        f"{' and '.join(gaps)}.",
    ]


def _chart(results: Results, table: polars.DataFrame, powers: polars.DataFrame, name: str) -> Chart:
    """Draw the lines; that of greedy is UCB's as well."""
    shown = table.filter(table["policy"].is_in([TIGHT, PAPER, GREEDY]))
    rows = {row[name]: row for row in table.iter_rows(named=True)}
    place = {value: (row["S"], row["T"]) for value, row in rows.items()}
    ax = plots.scaling(
        shown.select("policy", name, "mean", "low", "high", "runs"),
        powers.filter(powers["parameter"] == name),
        bounds={
            "Theorem 3, tight": lambda value: _bounds(TIGHT, *place[value])["upper"],
            "appendix, UCB": lambda value: _bounds(UCB, *place[value])["upper"],
            "Theorem 2 (L2)": lambda value: rows[value]["lower"],
        },
        ceiling=lambda value: rows[value]["most"],
        level=LEVEL,
    )
    ax.set_ylabel("regret at the worst gap")
    caption = f"Full information: regret at each policy's worst gap against {name}; predicted power {_POWERS[name]}. UCB plays as greedy does."
    return chart(results, ax, f"full-information-{name}", caption, shown["runs"])


STUDY = Study("full-information", "Full information: S√T", _experiments, _report)
