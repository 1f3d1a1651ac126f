"""Minimax rates, at the gap that is worst for each policy: sqrt(alpha S T), and S sqrt(T) with full information."""

from __future__ import annotations

import math
from collections.abc import Sequence
from typing import Any, ClassVar

import polars

from armtriage.experiments import Results
from armtriage.reproduce.figures import lines
from armtriage.reproduce.judges import PRINTED, above_bound, below_bound, power, printed_bound
from armtriage.reproduce.lines import fitted, with_each, worst
from armtriage.reproduce.policies import GREEDY, PAPER, TIGHT, UCB, chosen, rules
from armtriage.reproduce.study import LEVEL, Chart, Claim, Played, Row, Rows, Scale, Study, Tables, Verdict, of, plan
from armtriage.simulation.comparison import short
from armtriage.theory import minimax_lower, minimax_upper, ucb_full_information_upper

_POWERS = {"T": 0.5, "S": 1.0, "alpha": 0.5}
"""By which power of what grows along a line regret is predicted to grow, at the worst gap."""
_BEYOND = "The worst gap may lie beyond those that were tried"
_ALPHA, _S, _T, _GAP = (polars.col(name) for name in ("alpha", "S", "T", "gap"))


_PROOF = 1.0 / 64.0
"""The gap of the lower bound's proof, in units of sqrt(alpha / (S T))."""
_FACTORS = (2.8, 3.4, 4.0, 4.4, 4.8, 5.2, 5.7, 6.7, 8.0, 8.7, 9.5, 10.4, 11.3, 13.5)
"""Gaps that are tried, in the same units: small enough to be hidden for all of T, to large enough to be found."""
_ALONG = ("along-alpha", "along-S", "along-T")
_GUESSING = _S * _T * _GAP * (1.0 - 1.0 / (_ALPHA // _S))
"""What is lost by guessing which arm of each part is the better one."""


def _grows(row: Row) -> str:
    beside = " (alpha = 8 S)" if row["parameter"] == "S" else ""
    return f"{row['policy']}: worst regret grows with {row['parameter']}{beside} as sqrt(alpha S T)"


def _why_steeper(row: Row) -> str:
    return "The more arms, the later the last of them is told apart, at the same gap" if row["inside"] else _BEYOND


def _hidden(rows: Rows) -> Verdict:
    """Return whether any policy does better than guessing at the gap of the proof."""
    least = min(rows, key=lambda row: row["mean"])
    better = least["high"] is not None and least["high"] < 1.0
    because = "nothing can be learned there, and any power would be the instance's own"
    if better:
        because = f"{least['policy']} loses {100 * (1 - least['mean']):.1f}% less than guessing"
    said = f"least share of it: {least['mean']:.3f} ({least['low']:.3f} to {least['high']:.3f}), {least['policy']}"
    return Verdict("1 times what guessing loses", said, not better, because)


class MinimaxRates(Study):
    """The rate sqrt(alpha S T) in each of its variables."""

    name, title = "minimax-rates", "The worst gap: sqrt(alpha S T)"
    # T is `short` along S, and `long` along alpha.
    sizes: ClassVar = {
        "tiny": Scale(T=(4000, 8000), S=(1, 2), alpha=(8, 16), short=4000, long=8000, factors=(4.0, 8.0, 13.5), runs=2),
        "quick": Scale(T=(4000, 16_000, 64_000), S=(4, 8, 16, 32), alpha=(32, 64, 128),
                       short=8000, long=32_000, factors=_FACTORS, runs=8),
        "full": Scale(T=(4000, 16_000, 64_000, 256_000), S=(4, 8, 16, 32, 64), alpha=(32, 64, 128, 256),
                      short=16_000, long=64_000, factors=_FACTORS, runs=32),
    }  # fmt: skip
    undrawn: tuple[str, ...] = ()
    world: ClassVar = {"instance": "hidden_parts", "graph": "semi_bandit"}
    policies: tuple[str, ...] = (TIGHT, PAPER, UCB)
    columns: ClassVar = {"alpha": "environment.n_arms", "S": "environment.budget", "T": "horizon"}
    unit = (_ALPHA / (_S * _T)).sqrt()
    """What gaps are multiples of."""
    drawn: ClassVar = {
        "Theorem 3, tight": (TIGHT, "upper"),
        "Theorem 3, repaired": (PAPER, "upper"),
        "lower bound": (UCB, "lower"),
    }
    claims: ClassVar[Sequence[Claim]] = (
        Claim("powers", _grows, "Theorem 3", power(known=lambda row: row["inside"], why=_why_steeper),
              ("parameter", "policy"), ~of(UCB)),
        Claim(_ALONG, "elimination stays below the bound, also at the worst gap", "Theorem 3, repaired constants",
              below_bound, where=~of(UCB)),
        Claim(_ALONG, "every policy loses order sqrt(alpha S T) at some gap", "lower bound that the paper cites",
              above_bound),
        Claim(_ALONG, PRINTED, "Theorem 3, as printed", printed_bound, where=~of(UCB)),
        Claim("gap-of-the-proof", "at the gap of the lower bound's proof, sqrt(alpha / (S T)) / 64, no policy does "
              "better than guessing", "its proof", _hidden),
    )  # fmt: skip

    def plans(self) -> dict[str, dict[str, Any]]:
        made = {}
        for name, points in self.points().items():
            sizes = [{"n_arms": K, "budget": S, "horizon": T, "gap": self.gaps(name, K, S, T)} for K, S, T in points]
            worlds = [{**self.world, **one} for one in sizes]
            made[name] = plan(worlds, chosen(*self.policies), 1, self.scale.runs, redraw=True)
        return made

    def points(self) -> dict[str, list[tuple[int, int, int]]]:
        """Return numbers of arms, slots and rounds, by what grows along them."""
        return {
            "T": [(32, 4, one) for one in self.scale.T],
            "S": [(8 * one, one, self.scale.short) for one in self.scale.S],
            "alpha": [(one, 2, self.scale.long) for one in self.scale.alpha],
        }

    def gaps(self, name: str, K: int, S: int, T: int) -> list[float]:
        factors = (_PROOF, *self.scale.factors) if name == "T" else self.scale.factors
        return [factor * math.sqrt(K / (S * T)) for factor in factors]

    def bounds(self, row: Row) -> dict[str, float | None]:
        sizes: dict[str, Any] = {"n_arms": row["alpha"], "budget": row["S"], "alpha": row["alpha"], "horizon": row["T"]}
        upper = None if row["policy"] == UCB else minimax_upper(**sizes, undirected=True, **rules(row["policy"])).value
        printed = minimax_upper(**sizes, undirected=True, constants="printed").value
        lower, most = minimax_lower(**sizes).value, float(row["S"] * row["T"])
        return {"upper": upper, "printed": printed, "lower": lower, "most": most}

    def tables(self, results: Played) -> Tables:
        tables = self.along(results)
        share = polars.col("mean") / _GUESSING
        tables |= {name: tables[name].with_columns(share=share) for name in _ALONG}
        return {**tables, "gap-of-the-proof": self._at_the_proof(results["T"])}

    def along(self, results: Played) -> dict[str, polars.DataFrame]:
        """Return the regrets at the worst gaps along each line with their bounds, and the powers of both."""
        tables, slopes = {}, []
        for name, one in results.items():
            points = worst(one, name, self.columns).with_columns(factor=_GAP / self.unit)
            points = with_each(points, self.bounds)
            slopes.append(fitted(one, points, name, _POWERS[name], polars.col("inside").all()))
            tables[f"along-{name}"] = points.drop("environment")
        return {**tables, "powers": polars.concat(slopes)}

    def _at_the_proof(self, results: Results) -> polars.DataFrame:
        """Return the regret at the gap of the proof, as a share of what guessing loses."""
        about = {name: polars.col(one) for name, one in (*self.columns.items(), ("gap", "environment.gap"))}
        table = results.summary(level=LEVEL).with_columns(**about).filter(2.0 * _PROOF * self.unit > _GAP)
        ends = (polars.col(name) / _GUESSING for name in ("mean", "low", "high"))
        return table.select("policy", "horizon", *ends, "runs")

    def charts(self, results: Played, tables: Tables) -> list[Chart]:
        made, powers = [], tables["powers"]
        for name in results:
            caption = f"Regret at each policy's worst gap against {name}{self.caption(name)}"
            shown: Any = {"bounds": self.drawn, "without": self.undrawn, "y": "regret at the worst gap"}
            made.append(lines(f"{self.name}-{name}", caption, tables[f"along-{name}"], name, powers, **shown))
        return made

    def caption(self, name: str) -> str:
        fixed = {"T": "alpha = 32, S = 4", "S": f"alpha = 8 S, T = {short(self.scale.short)}"}
        rest = fixed.get(name, f"S = 2, T = {short(self.scale.long)}")
        return f", with {rest}; predicted power {_POWERS[name]}."

    def paragraphs(self, tables: Tables) -> list[str]:
        rows = polars.concat([tables[name] for name in _ALONG])
        said, means = [], {}
        for policy in self.policies:
            part = rows.filter(rows["policy"] == policy)
            factors, shares = part["factor"].to_numpy(), part["share"].to_numpy()
            means[policy] = part["mean"].to_numpy()
            said.append(
                f"{factors.min():.1f} to {factors.max():.1f} for {policy}, which loses {100 * shares.min():.0f} to "
                f"{100 * shares.max():.0f}% of what guessing loses there"
            )
        tight, printed = (means[policy] / means[UCB] for policy in (TIGHT, PAPER))
        return [
            "No arm reveals another, so alpha = K. The arms are S bandits of alpha / S arms each, of which one arm is "
            "better by a gap; which one is drawn again for every run. A minimax rate is about the worst gap. Regret is "
            "therefore measured at several, fixed multiples of sqrt(alpha / (S T)), and the largest mean is kept, for "
            "each policy its own. Theorem 3 has sqrt(alpha S T) + S sqrt(T). Here alpha is 8 S or more, so that the "
            "first part is the larger one; full information shows the other.",
            f"In units of sqrt(alpha / (S T)) the worst gaps are {'; '.join(said)}. Elimination guesses until it "
            "knows: its worst gap is the one that it finds out just before the end.",
            f"UCB, whose failure needs other graphs, loses less here: tight elimination loses {tight.min():.1f} to "
            f"{tight.max():.1f} times as much, elimination as printed {printed.min():.1f} to {printed.max():.1f}.",
        ]


_FULL, _APPENDIX = ("along-T", "along-S"), "appendix, UCB with full information"


def _as_greedy(rows: Rows) -> Verdict:
    same, runs = (sum(row[name] for row in rows) for name in ("same", "runs"))
    because = "no run differs" if same == runs else f"{runs - same} runs differ"
    return Verdict("the same regret in every run", f"in {same} of {runs} runs", same == runs, because)


class FullInformation(MinimaxRates):
    """The rate S sqrt(T), where nothing needs exploring."""

    name, title = "full-information", "Full information: S sqrt(T)"
    # The horizons have one budget, and the budgets one horizon. Gaps are tried in units of 1 / sqrt(T).
    sizes: ClassVar = {
        "tiny": Scale(T=(1000, 2000), S=(2, 4), budget=2, horizon=1000, factors=(0.5, 1.4, 8.0, 13.5), runs=2),
        "quick": Scale(T=(1000, 4000, 16_000), S=(16, 32, 64), budget=32, horizon=4000,
                       factors=(0.5, 1.0, 1.4, 2.0, 8.0, 9.5, 13.5), runs=8),
        "full": Scale(T=(1000, 4000, 16_000, 64_000), S=(16, 32, 64, 128), budget=32, horizon=4000,
                      factors=(0.5, 1.0, 1.4, 2.0, 8.0, 9.5, 13.5), runs=16),
    }  # fmt: skip
    undrawn = (UCB,)
    world: ClassVar = {"instance": "hidden_pairs", "graph": "full_information"}
    policies = (TIGHT, PAPER, UCB, GREEDY)
    columns: ClassVar = {"S": "environment.budget", "T": "horizon"}
    unit = 1.0 / _T.sqrt()
    drawn: ClassVar = {
        "Theorem 3, tight": (TIGHT, "upper"),
        "appendix, UCB": (UCB, "upper"),
        "Theorem 2 (L2)": (UCB, "lower"),
    }
    claims = (
        Claim("powers", "{policy}: worst regret grows with {parameter} as S sqrt(T)",
              lambda row: _APPENDIX if row["policy"] == UCB else "Theorem 3, alpha = 1",
              power(known=lambda row: row["inside"], why=lambda row: "" if row["inside"] else _BEYOND),
              ("parameter", "policy"), ~of(GREEDY)),
        Claim(_FULL, "each policy stays below its bound, also at the worst gap", "Theorem 3 and appendix, repaired",
              below_bound),
        Claim(_FULL, "every policy loses order S sqrt(T) at some gap, whatever is revealed", "Theorem 2 (L2)",
              above_bound),
        Claim("against-greedy", "UCB plays as greedy does, since all arms have the same count", _APPENDIX, _as_greedy,
              where=of(UCB)),
    )  # fmt: skip

    def points(self) -> dict[str, list[tuple[int, int, int]]]:
        budget, horizon = self.scale.budget, self.scale.horizon
        return {
            "T": [(2 * budget, budget, one) for one in self.scale.T],
            "S": [(2 * one, one, horizon) for one in self.scale.S],
        }

    def gaps(self, name: str, K: int, S: int, T: int) -> list[float]:
        return [factor / math.sqrt(T) for factor in self.scale.factors]

    def bounds(self, row: Row) -> dict[str, float | None]:
        sizes: dict[str, Any] = {"n_arms": 2 * row["S"], "budget": row["S"], "horizon": row["T"]}
        if row["policy"] in (UCB, GREEDY):
            upper = ucb_full_information_upper(**sizes).value
        else:
            upper = minimax_upper(**sizes, alpha=1, undirected=True, **rules(row["policy"])).value
        return {"upper": upper, "lower": minimax_lower(**sizes, alpha=1).value, "most": float(row["S"] * row["T"])}

    def tables(self, results: Played) -> Tables:
        against = polars.concat([self._against_greedy(one) for one in results.values()])
        return {**self.along(results), "against-greedy": against}

    def _against_greedy(self, results: Results) -> polars.DataFrame:
        """Return in how many runs a policy loses exactly what greedy loses, and by how much others differ."""
        about = {name: polars.col(one) for name, one in (*self.columns.items(), ("gap", "environment.gap"))}
        runs = results.regret.with_columns(**about)
        wide = runs.pivot("policy", index=["S", "T", "gap", "replication"], values="regret")
        made = []
        for policy in (TIGHT, PAPER, UCB):
            apart = polars.col(policy) - polars.col(GREEDY)
            said = {"same": (apart == 0.0).sum(), "runs": polars.len(), "least": apart.min(), "most": apart.max()}
            made.append(wide.group_by("S", "T", "gap", maintain_order=True).agg(policy=polars.lit(policy), **said))
        return polars.concat(made)

    def caption(self, name: str) -> str:
        return f"; predicted power {_POWERS[name]}. UCB plays as greedy does."

    def paragraphs(self, tables: Tables) -> list[str]:
        table, against = tables["along-T"], tables["against-greedy"]
        greedy, printed = (table.filter(table["policy"] == policy) for policy in (GREEDY, PAPER))
        ratio = printed["mean"].to_numpy() / greedy["mean"].to_numpy()
        gaps = [
            f"{min(part['factor'].to_list()):.1f} to {max(part['factor'].to_list()):.1f} for {part['policy'][0]}"
            for part in (greedy, printed)
        ]
        tight = against.filter(against["policy"] == TIGHT)
        same, runs, least, most = (tight[name].to_numpy() for name in ("same", "runs", "least", "most"))
        others = f", and in the others between {short(least.min())} and {short(most.max())} more"
        return [
            "Every round reveals all arms: alpha = 1. The arms are S pairs, of which one each is better by a gap; "
            "which one is drawn again for every run. The worst of several gaps counts, for each policy its own. There "
            "is nothing to explore, and playing the best averages does well. UCB does, since its widths are all the "
            "same. So does tight elimination, which fills its slots by average and only keeps out what it has "
            f"eliminated: it loses exactly what greedy loses in {same.sum()} of {runs.sum()} runs"
            f"{'' if same.sum() == runs.sum() else others}.",
            "Elimination as printed spends one slot of every round on a look that is not needed, at the first arm that "
            f"is active. At the worst gap it loses {ratio.min():.2f} to {ratio.max():.2f} times what greedy loses "
            f"along T. In units of 1 / sqrt(T) the worst gaps are {' and '.join(gaps)}.",
        ]
