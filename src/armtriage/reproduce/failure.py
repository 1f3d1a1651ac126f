"""UCB's failure on cliques of look-alikes: with deterministic and shared noise, and its end with independent noise."""

from __future__ import annotations

from typing import Any, ClassVar

import polars

from armtriage.experiments import Results
from armtriage.experiments.statistics import slope_interval
from armtriage.reproduce.figures import lines
from armtriage.reproduce.judges import power, times, told
from armtriage.reproduce.lines import against, steepness, with_each
from armtriage.reproduce.policies import PAPER, THOMPSON, TIGHT, UCB, chosen
from armtriage.reproduce.study import LEVEL, Chart, Claim, Played, Row, Rows, Scale, Study, Tables, Verdict, of, plan
from armtriage.simulation.comparison import short
from armtriage.theory import minimax_upper, ucb_lower

_NOISES = ("deterministic", "shared", "independent")
_ALIKE = polars.col("noise").is_in(_NOISES[:2])
_SAME = 0.01  # how far ratios may be apart to count as the same
_NAMES = {"noise": "environment.noise", "S": "environment.budget"}


def _lower(rows: Rows) -> Verdict:
    if not rows:
        return Verdict("no bound", "none", None, "the bound needs T >= alpha L^2")
    least, most = (edge(row["mean"] / row["repaired"] for row in rows) for edge in (min, max))
    printed = min(row["mean"] / row["printed"] for row in rows)
    because = f"at least {least:.2f} times the bound, and {printed:.1f} times the printed one"
    seen = f"{least:.2f} to {most:.2f} times, for S = {rows[0]['S']} to {rows[-1]['S']}"
    return Verdict("1 times the bound, or more", seen, least >= 1.0, because)


def _crossing(rows: Rows) -> Verdict:
    """Return from which S on UCB loses more than tight elimination, if at all."""
    last, wanted = rows[-1], rows[-1]["noise"] != "independent"
    below = [place for place, row in enumerate(rows) if row["ratio"] <= 1.0]
    held = rows[below[-1] + 1 :] if below else rows
    fails = bool(held) and told(last) is True
    because = f"from S = {held[0]['S']} on, UCB loses more" if fails else f"UCB loses less, up to S = {last['S']}"
    predicted = f"{'more' if wanted else 'less'} than once its regret"
    return Verdict(predicted, f"{times(last)} at S = {last['S']}", fails == wanted, because)


def _same(rows: Rows) -> Verdict:
    ends = [row["ratio"] for row in rows]
    apart = max(ends) / min(ends) - 1.0
    predicted = f"the same ratio for T = {short(rows[0]['horizon'])} to {short(rows[-1]['horizon'])}"
    seen = ", ".join(f"{one:.3f}" for one in ends)
    return Verdict(predicted, seen, apart <= _SAME, f"they differ by {100 * apart:.2g}%")


class Failure(Study):
    """Theorem 4."""

    name, title = "ucb-failure", "Where UCB fails: cliques of look-alikes"
    # The horizons are played with the budget in the middle.
    sizes: ClassVar = {
        "tiny": Scale(budgets=(2, 4), horizon=2000, middle=4, horizons=(2000, 8000), runs=2),
        "quick": Scale(budgets=(4, 8, 16, 32), horizon=5000, middle=16, horizons=(5000, 20_000, 80_000), runs=8),
        "full": Scale(
            budgets=(4, 8, 16, 32, 64), horizon=20_000, middle=16, horizons=(20_000, 80_000, 320_000), runs=16
        ),
    }
    claims = (
        Claim("lower-bound", "UCB loses at least a constant times L S sqrt(alpha T); deterministic rewards",
              "Theorem 4", _lower, where=polars.col("repaired").is_not_null()),
        Claim("powers", "UCB's regret grows as S sqrt(alpha), with alpha = S; {noise} rewards", "Theorem 4",
              power(1.5), "noise", of(UCB) & _ALIKE),
        Claim("ratio-powers", "UCB loses sqrt(S) times as much as {against}, or more; {noise} rewards",
              "Theorems 3 and 4", power(0.5, side="at least"), ("noise", "against"), _ALIKE),
        Claim("ratios", "UCB loses more than elimination, tight; {noise} rewards", "Theorem 4",
              _crossing, "noise", _ALIKE & (polars.col("against") == TIGHT)),
        Claim("ratios", "with noise of its own in every arm UCB does not fail; {noise} rewards", "not in the paper",
              _crossing, "noise", ~_ALIKE & (polars.col("against") == TIGHT)),
        Claim("ratios-by-horizon", "UCB's regret over that of {against} does not depend on T; deterministic rewards",
              "Theorems 3 and 4", _same, where=polars.col("against") == PAPER),
    )  # fmt: skip

    def plans(self) -> dict[str, dict[str, Any]]:
        scale = self.scale

        def cliques(budget: int, noise: Any) -> dict[str, Any]:
            return {"instance": "ucb_failure", "budget": budget, "alpha": budget, "noise": noise}

        budgets = [cliques(one, list(_NOISES)) for one in scale.budgets]
        middle = [cliques(scale.middle, "deterministic")]
        return {
            "budgets": plan(budgets, chosen(UCB, PAPER, TIGHT, THOMPSON), scale.horizon, scale.runs),
            "horizons": plan(middle, chosen(UCB, PAPER, TIGHT), scale.horizons, 2),
        }

    def tables(self, results: Played) -> Tables:
        budgets = results["budgets"]
        regrets = budgets.summary(level=LEVEL).rename({old: new for new, old in _NAMES.items()})
        regrets = regrets.select("noise", "S", "policy", "horizon", "mean", "low", "high", "runs")
        regrets = with_each(regrets, _bounds)
        lower = regrets.filter(of(UCB) & (regrets["noise"] == "deterministic"))
        whole = polars.lit(steepness(lower, "S", "repaired"), polars.Float64)
        powers = budgets.slopes("environment.budget", by=["environment.noise"], level=LEVEL)
        return {
            "regret": regrets.drop("repaired", "printed"),
            "powers": powers.rename({"environment.noise": "noise"}).with_columns(whole=whole),
            "ratios": _ratios(budgets),
            "ratio-powers": _ratio_powers(budgets),
            "ratios-by-horizon": _ratios(results["horizons"]),
            "lower-bound": lower.select("S", "horizon", "mean", "low", "high", "repaired", "printed"),
        }

    def charts(self, results: Played, tables: Tables) -> list[Chart]:
        made, bounds = [], {"Theorem 4, for UCB": (UCB, "lower"), "Theorem 3, tight": (TIGHT, "upper")}
        for noise in _NOISES:
            table, powers = (tables[name].filter(tables[name]["noise"] == noise) for name in ("regret", "powers"))
            caption = f"Regret against S = alpha on cliques of look-alikes, with {noise} rewards."
            made.append(lines(f"ucb-failure-{noise}", caption, table, "S", powers, bounds=bounds))
        return made

    def paragraphs(self, tables: Tables) -> list[str]:
        regret, powers = tables["regret"], tables["powers"]
        largest = max(self.scale.budgets)
        means = {(row["noise"], row["policy"]): row["mean"] for row in regret.filter(regret["S"] == largest).to_dicts()}
        less = [f"{means[one, TIGHT] / means[one, THOMPSON]:.1f} times with {one} rewards" for one in _NOISES]
        plain = powers.filter(powers["noise"] == "deterministic")
        slopes = dict(plain.select("policy", "slope").iter_rows())
        return [
            "S cliques of S arms each: an arm reveals its clique, and all arms of a clique have the same mean. One "
            "clique is best. Where rewards inside a clique are equal, deterministic or drawn once for all, UCB gives "
            "its arms equal indices and spends all S slots on one clique, where a single arm would show as much. T is "
            f"{short(self.scale.horizon)}; the gaps of the instance follow T.",
            "Elimination is promised sqrt(alpha S T) + S sqrt(T), of power 1 in S; on this instance it grows with "
            f"powers {slopes[PAPER]:.2f} as printed and {slopes[TIGHT]:.2f} if tight, deterministic rewards. With "
            "noise of its own in every arm, equal means no longer give equal indices, and UCB does not fail.",
            "Thompson sampling, which draws its indices, does not fail in any of the three: at "
            f"S = {largest} tight elimination loses more than it, {', '.join(less)}.",
        ]


def _bounds(row: Row) -> dict[str, float | None]:
    """Return the bounds of Theorem 4, repaired and printed, and of Theorem 3; `lower` is drawn where it holds."""
    size: dict[str, Any] = {"n_arms": row["S"] ** 2, "budget": row["S"], "alpha": row["S"], "horizon": row["horizon"]}
    repaired, printed = (ucb_lower(**size, constants=one).value for one in ("repaired", "printed"))
    made = {"repaired": repaired, "printed": printed, "lower": repaired if row["noise"] == "deterministic" else None}
    return {**made, "upper": minimax_upper(**size, undirected=True).value, "most": float(row["S"] * row["horizon"])}


def _ratios(results: Results) -> polars.DataFrame:
    """Return UCB's regret as a multiple of each elimination's."""
    own = results.summary().select("environment", **_NAMES).unique("environment")
    table = polars.concat([against(results, base, UCB) for base in (PAPER, TIGHT)])
    return table.join(own, on="environment", maintain_order="left").drop("environment")


def _ratio_powers(results: Results) -> polars.DataFrame:
    """Return by which power of S the ratio of UCB's regret to that of each elimination grows.

    The values whose mean is the ratio carry the errors of both means over to it, to first order.
    """
    rows = []
    for (noise,), line in results.regret.group_by("environment.noise", maintain_order=True):
        for base in (PAPER, TIGHT):
            at, values, numbers = [], [], []
            for part in line.partition_by("environment", maintain_order=True):
                above, below = (part.filter(part["policy"] == policy).sort("replication") for policy in (UCB, base))
                one, other = above["regret"].to_numpy(), below["regret"].to_numpy()
                at.append(part["environment.budget"][0])
                values.append(one.mean() / other.mean() * (1.0 + one / one.mean() - other / other.mean()))
                numbers.append(above["replication"].to_numpy())
            slope, low, high = slope_interval(at, values, numbers, at, LEVEL)
            rows.append({"noise": noise, "against": base, "slope": slope, "low": low, "high": high})
    return polars.DataFrame(rows)
