"""Gap rates: regret that stops growing once the arms are told apart, and is proportional to 1 / gap."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

import polars

from armtriage.experiments import Results
from armtriage.reproduce.lines import below_bound, line_chart, power_finding, powers, printed_bound
from armtriage.reproduce.policies import ORDER, PAPER, THOMPSON, TIGHT, UCB, chosen, rules
from armtriage.reproduce.study import LEVEL, Chart, Finding, Scale, Study, Tables, finding, measured
from armtriage.simulation.comparison import short
from armtriage.theory import gap_lower, gap_upper

__all__ = ["STUDY", "findings"]

_DELTA = 0.01  # the default of all policies
_LONG = (10**5, 10**6, 10**7, 10**8)
# The horizons have one gap, and the gaps one long horizon. Policies with an index never commit, and play all rounds.
_SIZES = {
    "tiny": Scale(
        n_arms=8, budget=2, gap=0.25, horizons=_LONG[:2], played=(10**4, 10**5),
        gaps=(0.25, 0.2), long=10**6, runs=2, gap_runs=2,
    ),
    "quick": Scale(
        n_arms=20, budget=4, gap=0.2, horizons=_LONG, played=(10**4, 10**5),
        gaps=(0.04, 0.02, 0.01), long=10**8, runs=16, gap_runs=16,
    ),
    "full": Scale(
        n_arms=20, budget=4, gap=0.2, horizons=_LONG, played=(10**5, 10**6, 10**7),
        gaps=(0.04, 0.02, 0.01, 0.005), long=10**9, runs=64, gap_runs=32,
    ),
}  # fmt: skip


def _plans(scale: Scale) -> dict[str, dict[str, Any]]:
    arms = {"instance": "hidden_arm", "graph": "semi_bandit", "n_arms": scale.n_arms, "budget": scale.budget}
    shared = {"environments": [{**arms, "gap": scale.gap}], "checkpoints": 61, "block": 2}
    committing, playing = chosen(TIGHT, PAPER), chosen(UCB, THOMPSON)
    gaps = {"environments": [{**arms, "gap": list(scale.gaps)}], "horizon": scale.long, "replications": scale.gap_runs}
    return {
        "horizons": {**shared, "policies": committing, "horizon": scale.horizons, "replications": scale.runs},
        "indices": {**shared, "policies": playing, "horizon": scale.played, "replications": min(scale.runs, 8)},
        "gaps": {**shared, "policies": committing, **gaps},
    }


def _tables(results: Mapping[str, Results], scale: Scale) -> Tables:
    horizons = results["horizons"]
    logarithm = (2.0 * scale.n_arms / _DELTA * polars.col("horizon")).log()
    by_logarithm = horizons.summary(level=LEVEL).with_columns(logarithm=logarithm)
    return {
        "horizons": polars.concat([_regrets(results[name], scale) for name in ("horizons", "indices")]),
        "gaps": _regrets(results["gaps"], scale),
        "powers-of-log": powers(horizons, by_logarithm, "logarithm"),
        "powers-of-gap": results["gaps"].slopes("environment.gap", level=LEVEL),
    }


def _regrets(results: Results, scale: Scale) -> polars.DataFrame:
    """Return mean regrets with the largest of a run, what share came late, who committed when, and the bounds."""
    line = ["environment", "policy"]
    regret, early = results.regret, polars.col("round") <= polars.col("horizon") / 10
    before = regret.filter(early).group_by([*line, "replication"]).agg(early=polars.col("regret").last())
    after = regret.group_by([*line, "replication"]).agg(end=polars.col("regret").last())
    late = 1.0 - polars.col("early").sum() / polars.col("end").sum()
    shares = after.join(before, on=[*line, "replication"]).group_by(line)
    committed = polars.col("committed_at")
    commits = results.runs.group_by(line).agg(committed=committed.count(), last_commit=committed.max())
    table = results.summary(level=LEVEL).join(
        shares.agg(late=late, largest=polars.col("end").max()), on=line, maintain_order="left"
    )
    table = table.join(commits, on=line, maintain_order="left").rename({"environment.gap": "gap"})
    bounds = [_bounds(scale, row["policy"], row["horizon"], row["gap"]) for row in table.iter_rows(named=True)]
    table = table.with_columns(polars.Series(name, [one[name] for one in bounds]) for name in bounds[0])
    kept = ("policy", "horizon", "gap", "mean", "low", "high", "runs", "largest", "late", "committed", "last_commit")
    return table.select(*kept, *bounds[0])


def _bounds(scale: Scale, policy: str, horizon: int, gap: float) -> dict[str, Any]:
    """Return what Theorems 1 and 2 say: for each policy its own upper bound, and the printed one."""
    sizes: dict[str, Any] = {"n_arms": scale.n_arms, "budget": scale.budget, "alpha": scale.n_arms}
    sizes |= {"horizon": horizon, "gap": gap}
    upper = gap_upper(**sizes, undirected=True, **rules(policy)).value if policy in (TIGHT, PAPER) else None
    printed = gap_upper(**sizes, undirected=True, constants="printed").value
    most = float(scale.budget * horizon)
    return {"upper": upper, "printed": printed, "lower": gap_lower(**sizes).value, "most": most}


def findings(tables: Tables) -> list[Finding]:
    """Return what the tables say of Theorems 1 and 2."""
    gaps = tables["gaps"]
    made = [_flat(tables["horizons"], policy) for policy in (TIGHT, PAPER)]
    for row in tables["powers-of-log"].iter_rows(named=True):
        claim = f"{row['policy']}: regret grows with T no faster than ln(2 K T / delta)"
        made.append(power_finding(claim, "Theorem 1", row, 1.0, side="at most"))
    for row in tables["powers-of-gap"].iter_rows(named=True):
        why = "Part of the regret, that of the arms with mean 1, is the same at every gap."
        why = why if row["slope"] is not None and row["slope"] > -1.0 else ""
        made.append(power_finding(f"{row['policy']}: regret grows as 1 / gap", "Theorem 1", row, -1.0, why=why))
    for policy in (TIGHT, PAPER):
        rows = gaps.filter(gaps["policy"] == policy).to_dicts()
        claim = f"{policy}: every run stays below the bound, at {len(rows)} gaps"
        made.append(below_bound(claim, "Theorem 1, repaired constants", rows, "largest"))
    return [*made, printed_bound("Theorem 1, as printed", gaps.to_dicts()), _above(gaps)]


def _flat(table: polars.DataFrame, policy: str) -> Finding:
    row = table.filter(table["policy"] == policy).sort("horizon").row(-1, named=True)
    tenth, late = short(row["horizon"] / 10), f"{100 * row['late']:.2g}%"
    flat = row["late"] == 0.0
    because = f"{late} of the regret came after round {tenth}"
    if flat:
        because = f"the last run committed in round {row['last_commit']:,}, and lost nothing after it"
    said = f"{late} of it; {row['committed']} of {row['runs']} runs committed"
    claim = f"{policy}: regret stops growing, T = {short(row['horizon'])}"
    return finding(claim, "Theorem 1", f"none of it after round {tenth}", said, flat, because)


def _above(table: polars.DataFrame) -> Finding:
    """Return how the regret compares with the lower bound, which is for one instance of a family that this is in."""
    row = min(table.iter_rows(named=True), key=lambda one: one["mean"] / one["lower"])
    holds = row["mean"] >= row["lower"]
    because = "on another instance of the family it must lose more"
    if holds:
        because = f"elimination loses at least {row['mean'] / row['lower']:.2g} times the bound"
    said = f"{measured(row)} at a gap of {row['gap']:.3g}, {row['policy']}"
    claim = "some instance of the family costs every policy order (alpha / gap) ln(T)"
    return finding(claim, "Theorem 2 (L1)", f"at least {short(row['lower'])} there", said, holds or None, because)


def _paragraphs(tables: Tables, scale: Scale) -> list[str]:
    horizons = tables["horizons"]
    ends = horizons.sort("horizon").group_by("policy", maintain_order=True).last()
    late = {row["policy"]: row for row in ends.iter_rows(named=True)}
    same = horizons.filter(horizons["horizon"] == scale.horizons[0])
    regret = {row["policy"]: row["mean"] for row in same.iter_rows(named=True)}
    best = min(regret, key=lambda policy: regret[policy])
    return [
        f"The instance is that of the lower bound (L1). No arm reveals another; {scale.budget - 1} of {scale.n_arms} "
        f"arms have mean 1, the next 1/4 + gap and all others 1/4; S is {scale.budget}. Once elimination has told them "
        "apart it commits, and loses nothing more, however long it goes on. The tight variant has intervals that "
        "hold at all times, so that its regret does not depend on T; those of the paper are made for T, and grow "
        "with ln(T).",
        f"Policies with an index go on exploring: UCB has {100 * late[UCB]['late']:.0f}% of its regret after the "
        f"first tenth of {short(late[UCB]['horizon'])} rounds, and Thompson sampling "
        f"{100 * late[THOMPSON]['late']:.0f}%. Yet after {short(scale.horizons[0])} rounds {best} has lost least, "
        f"{short(regret[best])}; tight elimination has lost {regret[TIGHT] / regret[best]:.1f} times that, and "
        f"elimination as printed {regret[PAPER] / regret[best]:.1f} times.",
    ]


def _charts(results: Mapping[str, Results], tables: Tables, scale: Scale) -> list[Chart]:
    return [
        line_chart(
            results["horizons"],
            "gap-rates-T",
            f"Regret at the end against T, with a gap of {scale.gap}. Elimination commits: its lines are flat but for "
            "ln(T).",
            tables["horizons"].rename({"horizon": "T"}),
            "T",
            bounds={
                "Theorem 1, tight": lambda T: _bounds(scale, TIGHT, T, scale.gap)["upper"],
                "Theorem 1, repaired": lambda T: _bounds(scale, PAPER, T, scale.gap)["upper"],
                "Theorem 2": lambda T: _bounds(scale, TIGHT, T, scale.gap)["lower"],
            },
            ceiling=lambda T: scale.budget * T,
            order=ORDER,
        ),
        line_chart(
            results["gaps"],
            "gap-rates-gap",
            f"Regret at the end against the gap, after {short(scale.long)} rounds; predicted power -1.",
            tables["gaps"],
            "gap",
            tables["powers-of-gap"],
            bounds={
                "Theorem 1, tight": lambda gap: _bounds(scale, TIGHT, scale.long, gap)["upper"],
                "Theorem 1, repaired": lambda gap: _bounds(scale, PAPER, scale.long, gap)["upper"],
                "Theorem 1, printed": lambda gap: _bounds(scale, PAPER, scale.long, gap)["printed"],
                "Theorem 2": lambda gap: _bounds(scale, TIGHT, scale.long, gap)["lower"],
            },
            ceiling=lambda gap: scale.budget * scale.long,
            order=ORDER,
        ),
    ]


STUDY = Study(
    "gap-rates",
    "Gaps: flat in T, and proportional to 1 / gap",
    _SIZES,
    _plans,
    _tables,
    findings,
    _paragraphs,
    _charts,
)
