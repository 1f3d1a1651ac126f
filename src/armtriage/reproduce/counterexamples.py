"""Counterexamples: where the printed algorithms or their lemmas fail, and that the repairs do not."""

from __future__ import annotations

import math
from collections.abc import Mapping
from typing import TYPE_CHECKING, Any

from armtriage import plots
from armtriage.experiments.experiment import Experiment
from armtriage.experiments.results import Results
from armtriage.experiments.statistics import mean_interval
from armtriage.instances import hub_family, star
from armtriage.plots._style import short
from armtriage.reproduce._refutations import (
    COUNTS,
    KEPT,
    PAPER,
    REPAIRED,
    audits,
    greedy_picks,
    index_ties,
    three_arms_of_a_stage,
)
from armtriage.reproduce.study import LEVEL, SEED, Chart, Finding, Report, Size, Study, chart, spread
from armtriage.theory import constrained_upper, cover_number, gap

if TYPE_CHECKING:
    import polars

__all__ = ["STUDY", "findings"]

ORACLE = "elimination by oracle"
_POLICIES: dict[str, Any] = {
    PAPER: {"policy": "constrained", "variant": "paper"},
    REPAIRED: {"policy": "constrained", "variant": "repaired"},
    ORACLE: {"policy": "constrained"},
}
_WORLDS: dict[str, dict[str, Any]] = {
    "hub family": {"instance": "hub_family"},
    "star": {"instance": "star", "n_leaves": 5, "gap": 0.5},
}
_LINEAR = 0.45  # of all regret in the second half of the rounds: from here on it grows like the rounds
_SIZES: dict[Size, dict[str, Any]] = {
    "tiny": {"horizon": 1500, "runs": 2, "arms": (23, 53), "run": False},
    "quick": {"horizon": 3000, "runs": 3, "arms": (23, 53, 103, 203), "run": True},
    "full": {"horizon": 10_000, "runs": 4, "arms": (23, 53, 103, 203, 403, 803), "run": True},
}


def _experiments(size: Size) -> dict[str, Experiment]:
    horizon, runs, *_ = _SIZES[size].values()
    shared: dict[str, Any] = {"horizon": horizon, "replications": runs, "seed": SEED, "block": 1}
    points = sorted({max(1, horizon * share // 40) for share in (1, 2, 4, 8, 14, 20, 28, 40)})
    return {"forever": Experiment(_WORLDS, _POLICIES, name="counterexamples", checkpoints=points, **shared)}


def _report(results: Mapping[str, Results], size: Size) -> Report:
    import polars

    forever = results["forever"]
    tables = {
        "forever": _halves(forever),
        "greedy": greedy_picks(_SIZES[size]["arms"]),
        "three arms": three_arms_of_a_stage(),
        "ties": polars.DataFrame([index_ties(9, 3600), index_ties(9, 3601)]),
        "audits": polars.DataFrame(audits(_SIZES[size]["run"])),
    }
    return Report(_paragraphs(), findings(tables), _charts(forever), tables)


def _halves(results: Results) -> polars.DataFrame:
    """Return what is lost in the second half of the rounds, and the printed bound on all of it."""
    import polars

    worlds = {"hub family": hub_family(seed=SEED), "star": star(5, gap=0.5, seed=SEED)}
    rows = []
    for (place, policy), part in results.regret.group_by("environment", "policy", maintain_order=True):
        env, horizon = worlds[str(place)], part["horizon"][0]
        half, whole = (
            part.filter(part["round"] == end).sort("replication")["regret"] for end in (horizon // 2, horizon)
        )
        low, high = (end if math.isfinite(end) else None for end in mean_interval(whole - half, LEVEL))
        assert env.decisions is not None
        bound = constrained_upper(
            n_arms=env.n_arms,
            budget=env.decisions.size,
            cover=cover_number(env.decisions, env.graph),
            horizon=horizon,
            gap=gap(env),
            constants="printed",
        )
        about = {"environment": place, "policy": policy, "horizon": horizon, "runs": whole.len()}
        lost = {"mean": (whole - half).mean(), "low": low, "high": high}
        rows.append({**about, "regret": whole.mean(), **lost, "bound": float(bound.value)})
    return polars.DataFrame(rows, schema_overrides={"low": polars.Float64, "high": polars.Float64})


def findings(tables: Mapping[str, polars.DataFrame]) -> list[Finding]:
    """Return what the tables say of the claims that the counterexamples are made against."""
    forever = [finding for row in tables["forever"].iter_rows(named=True) for finding in _forever(row)]
    arms = [_three_arms(tables["three arms"], label) for label in (PAPER, REPAIRED)]
    runs = [_audited(row) for row in tables["audits"].iter_rows(named=True)]
    return [*forever, *arms, *runs, _lemma(tables["greedy"]), _tied(tables["ties"])]


def _forever(row: Mapping[str, Any]) -> list[Finding]:
    place, policy, half = row["environment"], row["policy"], row["horizon"] // 2
    verdict, agrees = "Says nothing at this size: they have not ended yet.", None
    if row["mean"] == 0.0:
        verdict, agrees = "Agrees: nothing is lost any more.", True
    elif row["mean"] >= _LINEAR * row["regret"]:
        verdict, agrees = f"Does not agree: {row['mean'] / half:.2g} is lost in every round, for ever.", False
    measured = f"{spread(row)} in the last {half:,} rounds"
    made = [Finding(f"{policy}: losses end, on the {place}", "Theorem 7", "0 in the end", measured, verdict, agrees)]
    if policy == PAPER:
        holds = row["regret"] <= row["bound"]
        times = row["regret"] / row["bound"]
        verdict = (
            "Agrees." if holds else f"Does not agree: it is exceeded {times:.1f} times, and more with every round."
        )
        claim = f"{policy}: regret is below the printed bound, kappa = 1, on the {place}"
        made += [Finding(claim, "Theorem 7", f"at most {short(row['bound'])}", short(row["regret"]), verdict, holds)]
    return made


def _three_arms(state: polars.DataFrame, label: str) -> Finding:
    """Return whether one of the best arms leaves though all intervals hold."""
    lost = state.filter(state["best"] & state[label])["arm"].to_list()
    claim = f"{label}: no arm among the best leaves while intervals hold, three arms in a stage"
    said = claim, "lemma of Algorithm 3, (A)", "none leaves", f"arm {lost[0]} leaves" if lost else "none leaves"
    if not state["holds"].all():
        return Finding(*said, "Says nothing: an interval fails.", None)
    return Finding(*said, "Does not agree: (A) is false." if lost else "Agrees.", not lost)


def _audited(row: Mapping[str, Any]) -> Finding:
    source = {COUNTS: "Lemma 2, proof", KEPT: "lemma of Algorithm 3, (A)"}[row["claim"]]
    said = f"{row['policy']}: {row['claim']}, in a run", source, "never violated"
    if row["status"] == "not applicable" or row["failures"]:
        return Finding(*said, "nothing to check", "Says nothing: it did not come up while intervals held.", None)
    measured = f"violated {row['violations']:,} times in {row['checked']:,}"
    if row["violations"]:
        detail = f", {row['detail']}" if row["detail"] else ""
        return Finding(*said, measured, f"Does not agree: first in round {row['round']:,}{detail}.", False)
    return Finding(*said, measured, "Agrees.", True)


def _lemma(table: polars.DataFrame) -> Finding:
    row = table.sort("arms").row(-1, named=True)
    holds = row["picks"] <= row["lemma"]
    measured = f"{row['picks']:,} picks for {row['arms']:,} arms, of which {row['enough']} would be enough"
    verdict = "Agrees." if holds else f"Does not agree: {row['picks'] / row['lemma']:.1f} times as many."
    if row["picks"] <= row["independent"]:
        verdict += f" The repair, at most alpha = {row['independent']:,}, holds."
    claim = "the greedy of Algorithm 1 covers all arms with few picks, two hubs"
    return Finding(claim, "greedy lemma", f"at most {row['lemma']:.1f} picks", measured, verdict, holds)


def _tied(table: polars.DataFrame) -> Finding:
    row = table.sort("tied").row(-1, named=True)
    measured = f"equal in {row['tied']} of {row['horizon']:,} rounds, with {row['cliques']} cliques"
    verdict = "Agrees." if not row["tied"] else "Does not agree, "
    if row["tied"]:
        kept = "and harmless: with ties to the smallest arm" if not row["mixed"] else "and it matters:"
        verdict += f"{kept} {row['mixed']} decisions mix cliques."
    claim = "cliques of different means never have the same index under UCB"
    return Finding(claim, "Theorem 4, proof", "never equal", measured, verdict, not row["tied"])


def _paragraphs() -> list[str]:
    return [
        "Algorithm 5 as printed takes its covers from all decisions, also from those that it has eliminated. In the "
        "hub family a bad decision reveals everything, on the star the centre does. Both are the smallest cover of "
        "whatever is left, and are played for ever. With covers from the active decisions losses end.",
        "The other counterexamples are against lemmas. They change proofs and, but for the benchmark of Algorithm 3, "
        "no algorithm.",
    ]


def _charts(results: Results) -> list[Chart]:
    charts = []
    for place in _WORLDS:
        ax = plots.regret_curves(results.traces(place), level=LEVEL)
        name = f"forever-{place.split()[0]}"
        charts.append(chart(results, ax, name, f"Regret over the rounds, {place}: as printed, losses never end."))
    return charts


STUDY = Study("counterexamples", "Counterexamples: printed against repaired", _experiments, _report)
