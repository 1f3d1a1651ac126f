"""Full information: S sqrt(T) at the worst gap, where nothing needs exploring."""

from __future__ import annotations

import math
from collections.abc import Mapping
from typing import TYPE_CHECKING, Any, NamedTuple

from armtriage import plots
from armtriage.experiments.experiment import Experiment
from armtriage.experiments.results import Results
from armtriage.plots._style import short
from armtriage.reproduce._fits import steepness
from armtriage.reproduce._policies import GREEDY, ORDER, PAPER, TIGHT, UCB, chosen, rules
from armtriage.reproduce._worst import above_bound, below_bound, inside, line_powers, worst
from armtriage.reproduce.study import LEVEL, SEED, Chart, Finding, Report, Size, Study, chart, power_finding
from armtriage.theory import minimax_lower, minimax_upper, ucb_full_information_upper

if TYPE_CHECKING:
    import polars

__all__ = ["STUDY", "findings"]

_FACTORS = (0.5, 1.0, 1.4, 2.0, 8.0, 9.5, 13.5)
"""Gaps that are tried, in units of 1 / sqrt(T)."""
_POWERS = {"T": 0.5, "S": 1.0}
_APPENDIX = "appendix, UCB with full information"


class _Sizes(NamedTuple):
    horizons: tuple[int, ...]
    budgets: tuple[int, ...]
    budget: int  # of the horizons
    horizon: int  # of the budgets
    factors: tuple[float, ...]
    runs: int

    def points(self, name: str) -> list[tuple[int, int]]:
        """Return S and T along a line."""
        if name == "T":
            return [(self.budget, one) for one in self.horizons]
        return [(one, self.horizon) for one in self.budgets]


_SIZES: dict[Size, _Sizes] = {
    "tiny": _Sizes((1000, 2000), (2, 4), 2, 1000, (0.5, 1.4, 8.0, 13.5), 2),
    "quick": _Sizes((1000, 4000, 16_000), (16, 32, 64), 32, 4000, _FACTORS, 8),
    "full": _Sizes((1000, 4000, 16_000, 64_000), (16, 32, 64, 128), 32, 4000, _FACTORS, 16),
}


def _experiments(size: Size) -> dict[str, Experiment]:
    own = _SIZES[size]
    return {
        name: Experiment(
            [_instance(*point, own.factors) for point in own.points(name)],
            chosen(TIGHT, PAPER, UCB, GREEDY),
            horizon=1,
            name=f"full-information-{name}",
            replications=own.runs,
            seed=SEED,
            checkpoints=1,
            redraw=True,
        )
        for name in _POWERS
    }


def _instance(budget: int, horizon: int, factors: tuple[float, ...]) -> dict[str, Any]:
    sizes = {"n_arms": 2 * budget, "budget": budget, "horizon": horizon}
    gaps = [factor / math.sqrt(horizon) for factor in factors]
    return {"instance": "hidden_pairs", "graph": "full_information", **sizes, "gap": gaps}


def _report(results: Mapping[str, Results], size: Size) -> Report:
    import polars

    tables, powers = {}, []
    for name, parameter in {"T": "horizon", "S": "environment.budget"}.items():
        table = worst(results[name], parameter)
        tables[f"along-{name}"] = _with_bounds(table.rename({parameter: name}), name, _SIZES[size])
        fitted = line_powers(results[name], table, parameter)
        whole = polars.Series(
            "whole", [_power_of_bound(policy, tables[f"along-{name}"], name) for policy in fitted["policy"]]
        )
        fitted = fitted.join(inside(table), on="policy", maintain_order="left")
        powers.append(fitted.with_columns(whole, parameter=polars.lit(name)))
    tables["powers"] = polars.concat(powers)
    tables["against-greedy"] = polars.concat([_against_greedy(one) for one in results.values()])
    charts = [_chart(results[name], name, tables) for name in _POWERS]
    return Report(_paragraphs(tables), findings(tables), charts, tables)


def _with_bounds(table: polars.DataFrame, name: str, own: _Sizes) -> polars.DataFrame:
    """Return the table with S, T, gaps in units of 1 / sqrt(T), and bounds."""
    import polars

    points = {point[name == "T"]: point for point in own.points(name)}
    places = [points[value] for value in table[name]]
    bounds = [_bounds(policy, *place) for policy, place in zip(table["policy"], places, strict=True)]
    added = {"S": [budget for budget, _ in places], "T": [horizon for _, horizon in places]}
    added |= {key: [one[key] for one in bounds] for key in bounds[0]}
    table = table.with_columns(polars.Series(key, values) for key, values in added.items())
    factor = (polars.col("gap") * polars.col("T").sqrt()).alias("factor")
    return table.select("policy", "S", "T", "mean", "low", "high", "runs", "gap", factor, "inside", *bounds[0])


def _bounds(policy: str, budget: int, horizon: int) -> dict[str, Any]:
    """Return the bound for a policy, and what every policy must lose at some gap."""
    sizes: dict[str, Any] = {"n_arms": 2 * budget, "budget": budget, "horizon": horizon}
    if policy in (UCB, GREEDY):
        upper = ucb_full_information_upper(**sizes)
    else:
        upper = minimax_upper(**sizes, alpha=1, undirected=True, **rules(policy))
    return {"upper": upper.value, "lower": minimax_lower(**sizes, alpha=1).value, "most": float(budget * horizon)}


def _power_of_bound(policy: str, table: polars.DataFrame, name: str) -> float:
    own = table.filter(table["policy"] == policy)
    return steepness(dict(own.select(name, "upper").iter_rows()))


def _against_greedy(results: Results) -> polars.DataFrame:
    """Return in how many runs a policy loses exactly what greedy loses, and by how much others differ."""
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
    made, powers = [], tables["powers"]
    for row in powers.filter(powers["policy"] != GREEDY).iter_rows(named=True):
        claim = f"{row['policy']}: worst regret grows with {row['parameter']} as S sqrt(T)"
        why = "" if row["inside"] else "The worst gap may lie beyond those that were tried."
        source = _APPENDIX if row["policy"] == UCB else "Theorem 3, alpha = 1"
        rule: dict[str, Any] = {"whole": row["whole"], "known": row["inside"], "why": why}
        made.append(power_finding(claim, source, row, _POWERS[row["parameter"]], **rule))
    rows = [row for name in _POWERS for row in tables[f"along-{name}"].iter_rows(named=True)]
    claim = "each policy stays below its bound, also at the worst gap"
    made.append(below_bound(claim, "Theorem 3 and appendix, repaired", rows))
    claim = "every policy loses order S sqrt(T) at some gap, whatever is revealed"
    made.append(above_bound(claim, "Theorem 2 (L2)", rows))
    return [*made, _alike(tables["against-greedy"])]


def _alike(table: polars.DataFrame) -> Finding:
    """Return whether UCB loses what greedy loses, run by run."""
    own = table.filter(table["policy"] == UCB)
    same, runs = sum(own["same"].to_list()), sum(own["runs"].to_list())
    verdict = "Agrees: no run differs." if same == runs else f"Does not agree: {runs - same} runs differ."
    said = "UCB plays as greedy does, since all arms have the same count", _APPENDIX, "the same regret in every run"
    return Finding(*said, f"in {same} of {runs} runs", verdict, same == runs)


def _paragraphs(tables: Mapping[str, polars.DataFrame]) -> list[str]:
    table, against = tables["along-T"], tables["against-greedy"]
    means = {policy: table.filter(table["policy"] == policy) for policy in (GREEDY, PAPER)}
    factors = {policy: part["factor"].to_numpy() for policy, part in means.items()}
    ratio = means[PAPER]["mean"].to_numpy() / means[GREEDY]["mean"].to_numpy()
    gaps = [f"{one.min():.1f} to {one.max():.1f} for {policy}" for policy, one in factors.items()]
    tight = against.filter(against["policy"] == TIGHT)
    same, runs = sum(tight["same"].to_list()), sum(tight["runs"].to_list())
    least, most = min(tight["least"].to_list()), max(tight["most"].to_list())
    others = "" if same == runs else f", and in the others between {short(least)} and {short(most)} more"
    return [
        "Every round reveals all arms: alpha = 1. The arms are S pairs, of which one each is better by a gap; which "
        "one is drawn anew in every run. The worst of several gaps counts, for each policy its own. There is "
        "nothing to explore, and whoever plays the best averages does well. UCB does, since its widths are all the "
        "same. So does tight elimination, which fills its slots by average and only keeps out what it has "
        f"eliminated: it loses exactly what greedy loses in {same} of {runs} runs{others}.",
        "Elimination as printed gives one slot a round to a look that nobody needs, at the first arm that is "
        f"active. At the worst gap it loses {ratio.min():.2f} to {ratio.max():.2f} times as much as greedy along T. "
        f"In units of 1 / sqrt(T) the worst gaps are {' and '.join(gaps)}.",
    ]


def _chart(results: Results, name: str, tables: Mapping[str, polars.DataFrame]) -> Chart:
    """Draw the lines; that of greedy is UCB's as well."""
    table, powers = tables[f"along-{name}"], tables["powers"]
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
        order=ORDER,
    )
    ax.set_ylabel("regret at the worst gap")
    caption = (
        f"Regret at each policy's worst gap against {name}; predicted power {_POWERS[name]}. UCB plays as greedy does."
    )
    return chart(results, ax, f"full-information-{name}", caption, shown["runs"])


STUDY = Study("full-information", "Full information: S sqrt(T)", _experiments, _report)
