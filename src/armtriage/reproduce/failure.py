"""UCB's failure on cliques of look-alikes: with deterministic and shared noise, and its end with independent noise."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

import polars

from armtriage.experiments import Results
from armtriage.experiments.statistics import slope_interval
from armtriage.reproduce.lines import line_chart, power_finding, steepness
from armtriage.reproduce.policies import ORDER, PAPER, THOMPSON, TIGHT, UCB, chosen
from armtriage.reproduce.study import LEVEL, Chart, Finding, Scale, Study, Tables, finding, times, told
from armtriage.simulation.comparison import short
from armtriage.theory import minimax_upper, ucb_lower

__all__ = ["STUDY", "findings"]

_NOISES = ("deterministic", "shared", "independent")
_ALIKE = _NOISES[:2]
_SAME = 0.01  # how far ratios may be apart to count as the same
# The horizons are played with the budget in the middle.
_SIZES = {
    "tiny": Scale(budgets=(2, 4), horizon=2000, middle=4, horizons=(2000, 8000), runs=2),
    "quick": Scale(budgets=(4, 8, 16, 32), horizon=5000, middle=16, horizons=(5000, 20_000, 80_000), runs=8),
    "full": Scale(budgets=(4, 8, 16, 32, 64), horizon=20_000, middle=16, horizons=(20_000, 80_000, 320_000), runs=16),
}


def _plans(scale: Scale) -> dict[str, dict[str, Any]]:
    def cliques(budget: int, noise: Any) -> dict[str, Any]:
        return {"instance": "ucb_failure", "budget": budget, "alpha": budget, "noise": noise}

    return {
        "budgets": {
            "environments": [cliques(one, list(_NOISES)) for one in scale.budgets],
            "policies": chosen(UCB, PAPER, TIGHT, THOMPSON),
            "horizon": scale.horizon,
            "replications": scale.runs,
            "checkpoints": 1,
        },
        "horizons": {
            "environments": [cliques(scale.middle, "deterministic")],
            "policies": chosen(UCB, PAPER, TIGHT),
            "horizon": scale.horizons,
            "replications": 2,
            "checkpoints": 1,
        },
    }


def _tables(results: Mapping[str, Results], scale: Scale) -> Tables:
    budgets = results["budgets"]
    regrets = budgets.summary(level=LEVEL).rename({"environment.noise": "noise", "environment.budget": "S"})
    powers = budgets.slopes("environment.budget", by=["environment.noise"], level=LEVEL)
    return {
        "regret": regrets.select("noise", "S", "policy", "horizon", "mean", "low", "high", "runs"),
        "powers": powers.rename({"environment.noise": "noise"}),
        "ratios": _ratios(budgets),
        "ratio-powers": polars.concat([_ratio_powers(budgets, policy) for policy in (PAPER, TIGHT)]),
        "ratios-by-horizon": _ratios(results["horizons"]),
        "lower-bound": _lower_bounds(regrets),
    }


def _ratios(results: Results) -> polars.DataFrame:
    """Return UCB's regret as a multiple of each elimination's."""
    made = []
    for base in (PAPER, TIGHT):
        table = results.differences(base, level=LEVEL)
        named = table.filter(table["policy"] == UCB).with_columns(against=polars.lit(base))
        about = {"noise": "environment.noise", "S": "environment.budget"}
        made.append(named.select("horizon", "against", "runs", "ratio", "ratio_low", "ratio_high", **about))
    return polars.concat(made)


def _ratio_powers(results: Results, base: str) -> polars.DataFrame:
    """Return by which power of S the ratio of UCB's regret to a policy's grows.

    The values whose mean is the ratio carry the errors of both means over to it, to first order.
    """
    rows = []
    for noise in _NOISES:
        at, values, numbers = [], [], []
        for part in results.regret.filter(results.regret["environment.noise"] == noise).partition_by(
            "environment", maintain_order=True
        ):
            above, below = (part.filter(part["policy"] == one).sort("replication") for one in (UCB, base))
            one, other = above["regret"].to_numpy(), below["regret"].to_numpy()
            at.append(part["environment.budget"][0])
            values.append(one.mean() / other.mean() * (1.0 + one / one.mean() - other / other.mean()))
            numbers.append(above["replication"].to_numpy())
        slope, low, high = slope_interval(at, values, numbers, at, LEVEL)
        rows.append({"noise": noise, "against": base, "slope": slope, "low": low, "high": high})
    return polars.DataFrame(rows)


def _lower_bounds(regrets: polars.DataFrame) -> polars.DataFrame:
    """Return UCB's regret beside the bound of Theorem 4, printed and repaired, where rewards are deterministic."""
    table = regrets.filter((regrets["policy"] == UCB) & (regrets["noise"] == "deterministic"))
    rows = table.select("S", "horizon").rows()
    bounds = {name: [_bound(size, horizon, name) for size, horizon in rows] for name in ("repaired", "printed")}
    return table.select("S", "horizon", "mean", "low", "high").with_columns(
        polars.Series(name, values, polars.Float64) for name, values in bounds.items()
    )


def _bound(budget: int, horizon: int, constants: str = "repaired") -> float | None:
    sizes: dict[str, Any] = {"n_arms": budget**2, "budget": budget, "alpha": budget, "horizon": horizon}
    value: float | None = ucb_lower(**sizes, constants=constants).value
    return value


def findings(tables: Tables) -> list[Finding]:
    """Return what the tables say of Theorem 4."""
    powers, ratios = tables["ratio-powers"], tables["ratios"]
    made, whole = [_lower(tables["lower-bound"])], _power_of_bound(tables["lower-bound"])
    for noise in _ALIKE:
        row = _row(tables["powers"], noise=noise, policy=UCB)
        claim = f"UCB's regret grows as S sqrt(alpha), with alpha = S; {noise} rewards"
        made.append(power_finding(claim, "Theorem 4", row, 1.5, whole=whole))
    for noise in _ALIKE:
        for against in (PAPER, TIGHT):
            claim = f"UCB loses sqrt(S) times as much as {against}, or more; {noise} rewards"
            row = _row(powers, noise=noise, against=against)
            made.append(power_finding(claim, "Theorems 3 and 4", row, 0.5, side="at least"))
    made += [_crossing(ratios, noise) for noise in _NOISES]
    return [*made, _same(tables["ratios-by-horizon"])]


def _power_of_bound(table: polars.DataFrame) -> float | None:
    """Return by which power of S the bound itself grows, with all its terms."""
    known = table.drop_nulls("repaired")
    return steepness(dict(known.select("S", "repaired").iter_rows())) if known.height > 1 else None


def _row(table: polars.DataFrame, **values: Any) -> dict[str, Any]:
    rows = [row for row in table.iter_rows(named=True) if all(row[name] == one for name, one in values.items())]
    return rows[-1]


def _lower(table: polars.DataFrame) -> Finding:
    rows = table.drop_nulls("repaired").to_dicts()
    said = "UCB loses at least a constant times L S sqrt(alpha T); deterministic rewards", "Theorem 4"
    if not rows:
        return finding(*said, "no bound", "none", None, "the bound needs T >= alpha L^2")
    least, most = (edge(row["mean"] / row["repaired"] for row in rows) for edge in (min, max))
    printed = min(row["mean"] / row["printed"] for row in rows)
    because = f"at least {least:.2f} times the bound, and {printed:.1f} times the printed one"
    seen = f"{least:.2f} to {most:.2f} times, for S = {rows[0]['S']} to {rows[-1]['S']}"
    return finding(*said, "1 times the bound, or more", seen, least >= 1.0, because)


def _crossing(ratios: polars.DataFrame, noise: str) -> Finding:
    """Return from which S on UCB loses more than tight elimination, if at all."""
    rows = [row for row in ratios.iter_rows(named=True) if row["noise"] == noise and row["against"] == TIGHT]
    last, wanted = rows[-1], noise in _ALIKE
    below = [place for place, row in enumerate(rows) if row["ratio"] <= 1.0]
    held = rows[below[-1] + 1 :] if below else rows
    fails = bool(held) and told(last) is True
    because = f"from S = {held[0]['S']} on, UCB loses more" if fails else f"UCB loses less, up to S = {last['S']}"
    said = (
        "UCB loses more than elimination, tight" if wanted else "with noise of its own in every arm UCB does not fail"
    )
    source = "Theorem 4" if wanted else "not in the paper"
    predicted = "more than once its regret" if wanted else "less than once its regret"
    seen = f"{times(last)} at S = {last['S']}"
    return finding(f"{said}; {noise} rewards", source, predicted, seen, fails == wanted, because)


def _same(table: polars.DataFrame) -> Finding:
    rows = table.filter(table["against"] == PAPER).sort("horizon").to_dicts()
    ends = [row["ratio"] for row in rows]
    apart = max(ends) / min(ends) - 1.0
    claim = f"UCB's regret over that of {PAPER} does not depend on T; deterministic rewards"
    predicted = f"the same ratio for T = {short(rows[0]['horizon'])} to {short(rows[-1]['horizon'])}"
    seen = ", ".join(f"{one:.3f}" for one in ends)
    return finding(claim, "Theorems 3 and 4", predicted, seen, apart <= _SAME, f"they differ by {100 * apart:.2g}%")


def _paragraphs(tables: Tables, scale: Scale) -> list[str]:
    regret, powers = tables["regret"], tables["powers"]
    largest, horizon = max(regret["S"].to_list()), regret["horizon"][0]
    means = {
        (noise, policy): _row(regret, noise=noise, S=largest, policy=policy)["mean"]
        for noise in _NOISES
        for policy in (TIGHT, THOMPSON)
    }
    less = [f"{means[noise, TIGHT] / means[noise, THOMPSON]:.1f} times with {noise} rewards" for noise in _NOISES]
    slopes = [_row(powers, noise="deterministic", policy=policy)["slope"] for policy in (PAPER, TIGHT)]
    return [
        "S cliques of S arms each: an arm reveals its clique, and all arms of a clique have the same mean. One "
        "clique is best. Where rewards inside a clique are equal, deterministic or drawn once for all, UCB gives "
        "its arms equal indices and spends all S slots on one clique, where a single arm would show as much. T is "
        f"{short(horizon)}; the gaps of the instance follow T.",
        "Elimination is promised sqrt(alpha S T) + S sqrt(T), of power 1 in S; on this instance it grows with "
        f"powers {slopes[0]:.2f} as printed and {slopes[1]:.2f} if tight, deterministic rewards. With noise of its "
        "own in every arm, equal means no longer give equal indices, and UCB does not fail.",
        "Thompson sampling, which draws its indices, does not fail in any of the three: at "
        f"S = {largest} tight elimination loses more than it, {', '.join(less)}.",
    ]


def _charts(results: Mapping[str, Results], tables: Tables, scale: Scale) -> list[Chart]:
    return [_chart(results["budgets"], noise, tables, scale.horizon) for noise in _NOISES]


def _chart(results: Results, noise: str, tables: Tables, horizon: int) -> Chart:
    table, powers = (tables[name].filter(tables[name]["noise"] == noise) for name in ("regret", "powers"))
    upper: dict[str, Any] = {"undirected": True, "horizon": horizon}
    return line_chart(
        results,
        f"ucb-failure-{noise}",
        f"Regret against S = alpha on cliques of look-alikes, with {noise} rewards.",
        table,
        "S",
        powers.select("policy", "slope", "low", "high"),
        bounds={
            "Theorem 4, for UCB": lambda S: _bound(S, horizon) if noise == "deterministic" else None,
            "Theorem 3, tight": lambda S: minimax_upper(n_arms=S * S, budget=S, alpha=S, **upper).value,
        },
        ceiling=lambda S: S * horizon,
        order=ORDER,
    )


STUDY = Study(
    "ucb-failure", "Where UCB fails: cliques of look-alikes", _SIZES, _plans, _tables, findings, _paragraphs, _charts
)
