"""Gap rates: regret that stops growing once the arms are told apart, and is proportional to 1 / gap."""

from __future__ import annotations

from functools import partial
from typing import Any, ClassVar

import polars

from armtriage.experiments import Results
from armtriage.reproduce.figures import lines
from armtriage.reproduce.judges import PRINTED, below_bound, measured, power, printed_bound
from armtriage.reproduce.lines import powers, with_each
from armtriage.reproduce.policies import PAPER, THOMPSON, TIGHT, UCB, chosen, rules
from armtriage.reproduce.study import LEVEL, Chart, Claim, Played, Row, Rows, Scale, Study, Tables, Verdict, of, plan
from armtriage.simulation.comparison import short
from armtriage.theory import gap_lower, gap_upper

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


def _above(rows: Rows) -> Verdict:
    """Return how the regret compares with the lower bound, which is for one instance of a family that this is in."""
    row = min(rows, key=lambda one: one["mean"] / one["lower"])
    holds, ratio = row["mean"] >= row["lower"], row["mean"] / row["lower"]
    because = f"elimination loses at least {ratio:.2g} times the bound"
    because = because if holds else "on another instance of the family it must lose more"
    said = f"{measured(row)} at a gap of {row['gap']:.3g}, {row['policy']}"
    return Verdict(f"at least {short(row['lower'])} there", said, holds or None, because)


def _same_part(row: Row) -> str:
    less = row["slope"] is not None and row["slope"] > -1.0
    return "Part of the regret, that of the arms with mean 1, is the same at every gap" if less else ""


class GapRates(Study):
    """Theorems 1 and 2."""

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
        Claim("gaps", "some instance of the family costs every policy order (alpha / gap) ln(T)", "Theorem 2 (L1)",
              _above),
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
        printed = gap_upper(**sizes, undirected=True, constants="printed").value
        most = float(self.scale.budget * row["horizon"])
        return {"upper": upper, "printed": printed, "lower": gap_lower(**sizes).value, "most": most}

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

    def paragraphs(self, tables: Tables) -> list[str]:
        horizons, scale = tables["horizons"], self.scale
        ends = horizons.sort("horizon").group_by("policy", maintain_order=True).last()
        late = {policy: f"{100 * share:.0f}%" for policy, share in ends.select("policy", "late").iter_rows()}
        same = horizons.filter(horizons["horizon"] == scale.horizons[0])
        regret = dict(same.select("policy", "mean").iter_rows())
        best = min(regret, key=lambda policy: regret[policy])
        return [
            f"The instance is that of the lower bound (L1). No arm reveals another; {scale.budget - 1} of "
            f"{scale.n_arms} arms have mean 1, the next 1/4 + gap and all others 1/4; S is {scale.budget}. Once "
            "elimination has told them apart it commits, and loses nothing more, however long it goes on. The tight "
            "variant has intervals that hold at all times, so that its regret does not depend on T; those of the paper "
            "are made for T, and grow with ln(T).",
            f"Policies with an index go on exploring: UCB has {late[UCB]} of its regret after the first tenth of "
            f"{short(scale.played[-1])} rounds, and Thompson sampling {late[THOMPSON]}. Yet after "
            f"{short(scale.horizons[0])} rounds {best} has lost least, {short(regret[best])}; tight elimination has "
            f"lost {regret[TIGHT] / regret[best]:.1f} times that, and elimination as printed "
            f"{regret[PAPER] / regret[best]:.1f} times.",
        ]
