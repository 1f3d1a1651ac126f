"""Rates under graph feedback: 1 / gap, sqrt(alpha S T) and S sqrt(T) at the worst gap, and where UCB fails."""

from __future__ import annotations

import math
from collections.abc import Sequence
from functools import partial
from typing import Any, ClassVar

import polars

from armtriage._numbers import short
from armtriage.experiments import Results
from armtriage.experiments.statistics import slope_interval
from armtriage.reproduce.figures import lines
from armtriage.reproduce.judges import (
    PRINTED,
    above_bound,
    below_bound,
    from_times,
    guessing,
    power,
    printed_bound,
    times,
    told,
)
from armtriage.reproduce.lines import against, fitted, powers, steepness, with_each, worst
from armtriage.reproduce.policies import GREEDY, PAPER, THOMPSON, TIGHT, UCB, chosen, rules
from armtriage.reproduce.study import LEVEL, Chart, Claim, Played, Row, Rows, Scale, Study, Tables, Verdict, of, plan
from armtriage.theory import gap_lower, gap_upper, minimax_lower, minimax_upper, ucb_full_information_upper, ucb_lower

_DELTA = 0.01  # the default of all policies
_LONG = (10**5, 10**6, 10**7, 10**8)
_LONGEST = polars.col("horizon") == polars.col("horizon").max().over("policy")


def _flat(rows: Rows) -> Verdict:
    """Return whether nothing is lost after the first tenth of the rounds."""
    (row,) = rows
    tenth, late = short(row["horizon"] / 10), f"{100 * row['late']:.2g}%"
    flat = row["late"] == 0.0
    because = f"{late} of the regret came after round {tenth}"
    if flat:
        because = f"the last run committed in round {row['last_commit']:,}, and lost nothing after it"
    said = f"{late} of it; {row['committed']} of {row['runs']} runs committed"
    return Verdict(f"none of it after round {tenth}", said, flat, because)


def _same_part(row: Row) -> str:
    less = row["slope"] is not None and row["slope"] > -1.0
    return "Part of the regret, that of the arms with mean 1, is the same at every gap" if less else ""


class GapRates(Study):
    """Theorems 1 and 2: regret that stops growing once the arms are told apart, and is proportional to 1 / gap.

    The instance is that of the lower bound (L1). No arm reveals another; all but one of the S best of {n_arms} arms
    have mean 1, the last of these 1/4 + gap and all others 1/4; S is {budget}. Once elimination has told them apart it
    commits, and loses nothing more, however long it goes on; policies with an index go on exploring. The tight variant
    has intervals that hold at all times, so that its regret does not depend on T; those of the paper are made for T,
    and grow with ln(T).
    """

    name, title = "gap-rates", "Gaps: flat in T, and proportional to 1 / gap"
    # The horizons have one gap, and the gaps one long horizon. Policies with an index never commit.
    sizes: ClassVar = {
        "tiny": Scale(n_arms=8, budget=2, gap=0.25, horizons=_LONG[:2], played=(10**4, 10**5),
                      gaps=(0.25, 0.2), long=10**6, runs=2, gap_runs=2),
        "quick": Scale(n_arms=20, budget=4, gap=0.2, horizons=_LONG, played=(10**4, 10**5),
                       gaps=(0.04, 0.02, 0.01), long=10**8, runs=16, gap_runs=16),
        "full": Scale(n_arms=20, budget=4, gap=0.2, horizons=_LONG, played=(10**5, 10**6, 10**7),
                      gaps=(0.04, 0.02, 0.01, 0.005), long=10**9, runs=64, gap_runs=32),
    }  # fmt: skip
    claims = (
        Claim("horizons", lambda row: f"{row['policy']}: regret stops growing, T = {short(row['horizon'])}",
              "Theorem 1", _flat, "policy", of(TIGHT, PAPER) & _LONGEST),
        Claim("powers-of-log", "{policy}: regret grows with T no faster than ln(2 K T / delta)", "Theorem 1",
              power(1.0, side="at most"), "policy"),
        Claim("powers-of-gap", "{policy}: regret grows as 1 / gap", "Theorem 1",
              power(-1.0, why=_same_part), "policy"),
        Claim("gaps", "{policy}: every run stays below the bound, at {places} gaps", "Theorem 1, repaired constants",
              partial(below_bound, column="largest"), "policy"),
        Claim("gaps", PRINTED, "Theorem 1, as printed", printed_bound),
        # On another instance of the family more must be lost.
        Claim("gaps", "some instance of the family costs every policy order (alpha / gap) ln(T)", "Theorem 2 (L1)",
              partial(above_bound, sure=False)),
    )  # fmt: skip

    def plans(self) -> dict[str, dict[str, Any]]:
        scale, rest = self.scale, {"checkpoints": 61, "block": 2}
        arms = {"instance": "hidden_arm", "graph": "semi_bandit", "n_arms": scale.n_arms, "budget": scale.budget}
        one, several = [{**arms, "gap": scale.gap}], [{**arms, "gap": list(scale.gaps)}]
        committing, playing = chosen(TIGHT, PAPER), chosen(UCB, THOMPSON)
        return {
            "horizons": plan(one, committing, scale.horizons, scale.runs, **rest),
            "indices": plan(one, playing, scale.played, min(scale.runs, 8), **rest),
            "gaps": plan(several, committing, scale.long, scale.gap_runs, **rest),
        }

    def tables(self, results: Played) -> Tables:
        horizons = results["horizons"]
        logarithm = (2.0 * self.scale.n_arms / _DELTA * polars.col("horizon")).log()
        by_logarithm = horizons.summary(level=LEVEL).with_columns(logarithm=logarithm)
        return {
            "horizons": polars.concat([self._regrets(results[name]) for name in ("horizons", "indices")]),
            "gaps": self._regrets(results["gaps"]),
            "powers-of-log": powers(horizons, by_logarithm, "logarithm"),
            "powers-of-gap": results["gaps"].slopes("environment.gap", level=LEVEL),
        }

    def _regrets(self, results: Results) -> polars.DataFrame:
        """Return mean regrets with the largest of a run, what share came late, who committed when, and the bounds."""
        line = ["environment", "policy"]
        regret, early = polars.col("regret"), polars.col("round") <= polars.col("horizon") / 10
        runs = results.regret.group_by([*line, "replication"])
        ends = runs.agg(early=regret.filter(early).last(), end=regret.last()).group_by(line)
        late = ends.agg(largest=polars.col("end").max(), late=1.0 - polars.col("early").sum() / polars.col("end").sum())
        committed = polars.col("committed_at")
        commits = results.runs.group_by(line).agg(committed=committed.count(), last_commit=committed.max())
        table = results.summary(level=LEVEL).join(late, on=line, maintain_order="left")
        table = table.join(commits, on=line, maintain_order="left").rename({"environment.gap": "gap"})
        kept = ("policy", "horizon", "gap", "mean", "low", "high", "runs", *late.columns[2:], *commits.columns[2:])
        return with_each(table.select(kept), self._bounds)

    def _bounds(self, row: Row) -> dict[str, Any]:
        """Return what Theorems 1 and 2 say: for each policy its own upper bound, and the printed one."""
        sizes: dict[str, Any] = {"n_arms": self.scale.n_arms, "budget": self.scale.budget, "alpha": self.scale.n_arms}
        sizes |= {"horizon": row["horizon"], "gap": row["gap"]}
        ours = row["policy"] in (TIGHT, PAPER)
        upper = gap_upper(**sizes, undirected=True, **rules(row["policy"])).value if ours else None
        most = float(self.scale.budget * row["horizon"])

        def printed(times: float) -> float:
            longer = {**sizes, "horizon": round(times * row["horizon"])}
            return float(gap_upper(**longer, undirected=True, constants="printed").value)

        from_ = from_times(lambda times: printed(times) / (times * most))
        lower = gap_lower(**sizes).value
        return {"upper": upper, "printed": printed(1.0), "lower": lower, "most": most, "from_times": from_}

    def charts(self, results: Played, tables: Tables) -> list[Chart]:
        both = {"Theorem 1, tight": (TIGHT, "upper"), "Theorem 1, repaired": (PAPER, "upper")}
        printed, lower = {"Theorem 1, printed": (PAPER, "printed")}, {"Theorem 2": (TIGHT, "lower")}
        flat = f"Regret at the end against T, with a gap of {self.scale.gap}."
        flat += " Elimination commits: its lines are flat but for ln(T)."
        steep = f"Regret at the end against the gap, after {short(self.scale.long)} rounds; predicted power -1."
        horizons, slopes = tables["horizons"].rename({"horizon": "T"}), tables["powers-of-gap"]
        return [
            lines("gap-rates-T", flat, horizons, "T", bounds=both | lower),
            lines("gap-rates-gap", steep, tables["gaps"], "gap", slopes, bounds=both | printed | lower),
        ]


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


class MinimaxRates(Study):
    """The rate sqrt(alpha S T) in each of its variables, at the gap that is worst for each policy.

    No arm reveals another, so alpha = K. The arms are S bandits of alpha / S arms each, of which one arm is better by a
    gap; which one is drawn again for every run. A minimax rate is about the worst gap. Regret is therefore measured at
    several, fixed multiples of sqrt(alpha / (S T)), and the largest mean is kept, for each policy its own. Theorem 3
    has sqrt(alpha S T) + S sqrt(T). Here alpha is 8 S or more, so that the first part is the larger one; full
    information shows the other.

    Elimination guesses until it knows: its worst gap is the one that it finds out just before the end. UCB, whose
    failure needs other graphs, loses less here.
    """

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
              "better than guessing", "its proof", guessing),
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
        lower, most = minimax_lower(**sizes).value, float(row["S"] * row["T"])

        def printed(times: float) -> float:
            longer = {**sizes, "horizon": round(times * row["T"])}
            return float(minimax_upper(**longer, undirected=True, constants="printed").value)

        from_ = from_times(lambda times: printed(times) / (times * most))
        return {"upper": upper, "printed": printed(1.0), "lower": lower, "most": most, "from_times": from_}

    def tables(self, results: Played) -> Tables:
        return {**self.along(results), "gap-of-the-proof": self._at_the_proof(results["T"])}

    def along(self, results: Played) -> dict[str, polars.DataFrame]:
        """Return the regrets at the worst gaps along each line with their bounds, and the powers of both."""
        tables, slopes = {}, []
        for name, one in results.items():
            points = worst(one, name, self.columns).with_columns(factor=_GAP / self.unit)
            points = with_each(points, self.bounds)
            slopes.append(fitted(one, points, name, _POWERS[name], polars.col("inside").all()))
            tables[f"along-{name}"] = points.drop("environment")
        return {**tables, "powers": polars.concat(slopes)}

    def by_gap(self, table: polars.DataFrame) -> polars.DataFrame:
        """Return a table of results with what varies in columns of short names."""
        about = {**self.columns, "gap": "environment.gap"}
        return table.with_columns(**{name: polars.col(one) for name, one in about.items()})

    def _at_the_proof(self, results: Results) -> polars.DataFrame:
        """Return the regret at the gap of the proof, as a share of what guessing loses."""
        table = self.by_gap(results.summary(level=LEVEL)).filter(2.0 * _PROOF * self.unit > _GAP)
        ends = (polars.col(name) / _GUESSING for name in ("mean", "low", "high"))
        return table.select("policy", "horizon", *ends, "runs")

    def charts(self, results: Played, tables: Tables) -> list[Chart]:
        made, powers = [], tables["powers"]
        for name in results:
            caption = f"Regret at each policy's worst gap against {name}; predicted power {_POWERS[name]}."
            shown: Any = {"bounds": self.drawn, "without": self.undrawn, "y": "regret at the worst gap"}
            made.append(lines(f"{self.name}-{name}", caption, tables[f"along-{name}"], name, powers, **shown))
        return made


_FULL, _APPENDIX = ("along-T", "along-S"), "appendix, UCB with full information"


def _as_greedy(rows: Rows) -> Verdict:
    same, runs = (sum(row[name] for row in rows) for name in ("same", "runs"))
    because = "no run differs" if same == runs else f"{runs - same} runs differ"
    return Verdict("the same regret in every run", f"in {same} of {runs} runs", same == runs, because)


class FullInformation(MinimaxRates):
    """The rate S sqrt(T), where nothing needs exploring.

    Every round reveals all arms: alpha = 1. The arms are S pairs, of which one each is better by a gap; which one is
    drawn again for every run. The worst of several gaps counts, for each policy its own. There is nothing to explore,
    and playing the best averages does well. UCB does, since its widths are all the same. So does tight elimination,
    which fills its slots by average and only keeps out what it has eliminated. Elimination as printed spends one slot
    of every round on a look that is not needed, at the first arm that is active.
    """

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
        Claim("against-greedy", "UCB plays as greedy does, since all arms have the same count", _APPENDIX, _as_greedy),
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
        """Return in how many runs UCB loses exactly what greedy loses."""
        index = ["S", "T", "gap"]
        wide = self.by_gap(results.regret).pivot("policy", index=[*index, "replication"], values="regret")
        same = polars.col(UCB) == polars.col(GREEDY)
        return wide.group_by(index, maintain_order=True).agg(same=same.sum(), runs=polars.len())


_NOISES = ("deterministic", "shared", "independent")
_ALIKE, _BESIDE_TIGHT = polars.col("noise").is_in(_NOISES[:2]), polars.col("against") == TIGHT
_SAME = 0.01  # how far ratios may be apart to count as the same
_NAMES = {"noise": "environment.noise", "S": "environment.budget"}


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
    """Theorem 4: cliques of look-alikes, with deterministic and shared noise, and with independent noise.

    S cliques of S arms each: an arm reveals its clique, and all arms of a clique have the same mean. One clique is
    best. Where rewards inside a clique are equal, deterministic or drawn once for all, UCB gives its arms equal indices
    and spends all S slots on one clique, where a single arm would show as much. T is {horizon:,}; the gaps of the
    instance follow T. Elimination is promised sqrt(alpha S T) + S sqrt(T), of power 1 in S.

    With noise of its own in every arm, equal means no longer give equal indices, and UCB does not fail. Thompson
    sampling, which draws its indices, does not fail in any of the three.
    """

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
        Claim("regret", "UCB loses at least a constant times L S sqrt(alpha T); deterministic rewards",
              "Theorem 4", above_bound, where=of(UCB) & (polars.col("noise") == "deterministic")),
        Claim("powers", "UCB's regret grows as S sqrt(alpha), with alpha = S; {noise} rewards", "Theorem 4",
              power(1.5), "noise", of(UCB) & _ALIKE),
        Claim("ratio-powers", "UCB loses sqrt(S) times as much as {against}, or more; {noise} rewards",
              "Theorems 3 and 4", power(0.5, side="at least"), ("noise", "against"), _ALIKE),
        Claim("ratios", "UCB loses more than elimination, tight; {noise} rewards", "Theorem 4",
              _crossing, "noise", _ALIKE & _BESIDE_TIGHT),
        Claim("ratios", "with noise of its own in every arm UCB does not fail; {noise} rewards", "not in the paper",
              _crossing, "noise", ~_ALIKE & _BESIDE_TIGHT),
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
        regrets = with_each(regrets.select("noise", "S", "policy", "horizon", "mean", "low", "high", "runs"), _bounds)
        whole = polars.lit(steepness(regrets.filter(of(UCB)), "S", "lower"), polars.Float64)
        powers = budgets.slopes("environment.budget", by=["environment.noise"], level=LEVEL)
        return {
            "regret": regrets,
            "powers": powers.rename({"environment.noise": "noise"}).with_columns(whole=whole),
            "ratios": _ratios(budgets),
            "ratio-powers": _ratio_powers(budgets),
            "ratios-by-horizon": _ratios(results["horizons"]),
        }

    def charts(self, results: Played, tables: Tables) -> list[Chart]:
        made, bounds = [], {"Theorem 4, for UCB": (UCB, "lower"), "Theorem 3, tight": (TIGHT, "upper")}
        for noise in _NOISES:
            table, powers = (tables[name].filter(tables[name]["noise"] == noise) for name in ("regret", "powers"))
            caption = f"Regret against S = alpha on cliques of look-alikes, with {noise} rewards."
            made.append(lines(f"ucb-failure-{noise}", caption, table, "S", powers, bounds=bounds))
        return made


def _bounds(row: Row) -> dict[str, float | None]:
    """Return the bounds of Theorem 4, which is about deterministic rewards, and of Theorem 3."""
    size: dict[str, Any] = {"n_arms": row["S"] ** 2, "budget": row["S"], "alpha": row["S"], "horizon": row["horizon"]}
    lower = ucb_lower(**size).value if row["noise"] == "deterministic" else None
    upper = minimax_upper(**size, undirected=True).value
    return {"lower": lower, "upper": upper, "most": float(row["S"] * row["horizon"])}


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
