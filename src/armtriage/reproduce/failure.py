"""UCB's failure on cliques of look-alikes: with deterministic and shared noise, and its end with independent noise."""

from __future__ import annotations

from collections.abc import Mapping
from typing import TYPE_CHECKING, Any, NamedTuple

from armtriage import plots
from armtriage.experiments.experiment import Experiment
from armtriage.experiments.results import Results
from armtriage.experiments.statistics import slope_interval
from armtriage.plots._style import short
from armtriage.reproduce._fits import steepness
from armtriage.reproduce._policies import ORDER, PAPER, THOMPSON, TIGHT, UCB, chosen
from armtriage.reproduce.study import (
    LEVEL,
    SEED,
    Chart,
    Finding,
    Report,
    Size,
    Study,
    chart,
    power_finding,
    times,
)
from armtriage.theory import minimax_upper, ucb_lower

if TYPE_CHECKING:
    import polars

__all__ = ["STUDY", "findings"]

_NOISES = ("deterministic", "shared", "independent")
_ALIKE = _NOISES[:2]
_SAME = 0.01  # how far ratios may be apart to count as the same


class _Sizes(NamedTuple):
    budgets: tuple[int, ...]
    horizon: int
    middle: int  # the budget of the horizons
    horizons: tuple[int, ...]
    runs: int


_SIZES: dict[Size, _Sizes] = {
    "tiny": _Sizes((2, 4), 2000, 4, (2000, 8000), 2),
    "quick": _Sizes((4, 8, 16, 32), 5000, 16, (5000, 20_000, 80_000), 8),
    "full": _Sizes((4, 8, 16, 32, 64), 20_000, 16, (20_000, 80_000, 320_000), 16),
}


def _experiments(size: Size) -> dict[str, Experiment]:
    own = _SIZES[size]
    cliques = [{"instance": "ucb_failure", "budget": one, "alpha": one, "noise": list(_NOISES)} for one in own.budgets]
    middle = {"instance": "ucb_failure", "budget": own.middle, "alpha": own.middle, "noise": "deterministic"}
    shared: dict[str, Any] = {"seed": SEED, "checkpoints": 1}
    return {
        "budgets": Experiment(
            cliques,
            chosen(UCB, PAPER, TIGHT, THOMPSON),
            horizon=own.horizon,
            name="ucb-failure-budgets",
            replications=own.runs,
            **shared,
        ),
        "horizons": Experiment(
            [middle],
            chosen(UCB, PAPER, TIGHT),
            horizon=own.horizons,
            name="ucb-failure-horizons",
            replications=2,
            **shared,
        ),
    }


def _report(results: Mapping[str, Results], size: Size) -> Report:
    import polars

    budgets = results["budgets"]
    regrets = budgets.summary(level=LEVEL).rename({"environment.noise": "noise", "environment.budget": "S"})
    by = ["environment.noise"]
    powers = budgets.slopes("environment.budget", by=by, level=LEVEL).rename({"environment.noise": "noise"})
    tables = {
        "regret": regrets.select("noise", "S", "policy", "horizon", "mean", "low", "high", "runs"),
        "powers": powers,
        "ratios": _ratios(budgets),
        "ratio-powers": polars.concat([_ratio_powers(budgets, policy) for policy in (PAPER, TIGHT)]),
        "ratios-by-horizon": _ratios(results["horizons"]),
        "lower-bound": _lower_bounds(regrets),
    }
    charts = [_chart(budgets, noise, tables) for noise in _NOISES]
    return Report(_paragraphs(tables), findings(tables), charts, tables)


def _ratios(results: Results) -> polars.DataFrame:
    """Return UCB's regret as a multiple of each elimination's."""
    import polars

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
    import polars

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
    import polars

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


def findings(tables: Mapping[str, polars.DataFrame]) -> list[Finding]:
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
            made.append(
                power_finding(
                    claim, "Theorems 3 and 4", _row(powers, noise=noise, against=against), 0.5, side="at least"
                )
            )
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
        return Finding(*said, "no bound", "none", "Says nothing at this size: needs T >= alpha L^2.", None)
    least, most = (edge(row["mean"] / row["repaired"] for row in rows) for edge in (min, max))
    printed = min(row["mean"] / row["printed"] for row in rows)
    verdict = f"{'Agrees' if least >= 1.0 else 'Does not agree'}: at least {least:.2f} times the bound"
    verdict += f", and {printed:.1f} times the printed one."
    measured = f"{least:.2f} to {most:.2f} times, for S = {rows[0]['S']} to {rows[-1]['S']}"
    return Finding(*said, "1 times the bound, or more", measured, verdict, least >= 1.0)


def _crossing(ratios: polars.DataFrame, noise: str) -> Finding:
    """Return from which S on UCB loses more than tight elimination, if at all."""
    rows = [row for row in ratios.iter_rows(named=True) if row["noise"] == noise and row["against"] == TIGHT]
    last, wanted = rows[-1], noise in _ALIKE
    worse = [row["S"] for row in rows if row["ratio"] > 1.0]
    held = [one for one in worse if all(row["ratio"] > 1.0 for row in rows if row["S"] >= one)]
    fails = bool(held) and last["ratio_low"] is not None and last["ratio_low"] > 1.0
    verdict = f"from S = {held[0]} on, UCB loses more" if fails else f"UCB loses less, up to S = {last['S']}"
    verdict = f"{'Agrees' if fails == wanted else 'Does not agree'}: {verdict}."
    said = (
        "UCB loses more than elimination, tight" if wanted else "with noise of its own in every arm UCB does not fail"
    )
    source = "Theorem 4" if wanted else "not in the paper"
    predicted = "more than once its regret" if wanted else "less than once its regret"
    return Finding(
        f"{said}; {noise} rewards", source, predicted, f"{times(last)} at S = {last['S']}", verdict, fails == wanted
    )


def _same(table: polars.DataFrame) -> Finding:
    rows = table.filter(table["against"] == PAPER).sort("horizon").to_dicts()
    ends = [row["ratio"] for row in rows]
    apart = max(ends) / min(ends) - 1.0
    same = apart <= _SAME
    measured = ", ".join(f"{one:.3f}" for one in ends)
    verdict = f"{'Agrees' if same else 'Does not agree'}: they differ by {100 * apart:.2g}%."
    claim = f"UCB's regret over that of {PAPER} does not depend on T; deterministic rewards"
    predicted = f"the same ratio for T = {short(rows[0]['horizon'])} to {short(rows[-1]['horizon'])}"
    return Finding(claim, "Theorems 3 and 4", predicted, measured, verdict, same)


def _paragraphs(tables: Mapping[str, polars.DataFrame]) -> list[str]:
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


def _chart(results: Results, noise: str, tables: Mapping[str, polars.DataFrame]) -> Chart:
    table, powers = (tables[name].filter(tables[name]["noise"] == noise) for name in ("regret", "powers"))
    horizon = table["horizon"][0]
    upper: dict[str, Any] = {"undirected": True, "horizon": horizon}
    ax = plots.scaling(
        table.select("policy", "S", "mean", "low", "high", "runs"),
        powers.select("policy", "slope", "low", "high"),
        bounds={
            "Theorem 4, for UCB": lambda S: _bound(S, horizon) if noise == "deterministic" else None,
            "Theorem 3, tight": lambda S: minimax_upper(n_arms=S * S, budget=S, alpha=S, **upper).value,
        },
        ceiling=lambda S: S * horizon,
        level=LEVEL,
        order=ORDER,
    )
    caption = f"Regret against S = alpha on cliques of look-alikes, with {noise} rewards."
    return chart(results, ax, f"ucb-failure-{noise}", caption, table["runs"])


STUDY = Study("ucb-failure", "Where UCB fails: cliques of look-alikes", _experiments, _report)
