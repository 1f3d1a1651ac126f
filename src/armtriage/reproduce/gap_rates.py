"""Gap rates: regret that stops growing once the arms are told apart, and is proportional to 1 / gap."""

from __future__ import annotations

from collections.abc import Mapping
from typing import TYPE_CHECKING, Any, NamedTuple

from armtriage import plots
from armtriage.experiments.experiment import Experiment
from armtriage.experiments.results import Results
from armtriage.plots._style import short
from armtriage.reproduce._policies import ORDER, PAPER, THOMPSON, TIGHT, UCB, chosen, rules
from armtriage.reproduce._worst import line_powers
from armtriage.reproduce.study import LEVEL, SEED, Chart, Finding, Report, Size, Study, chart, power_finding, spread
from armtriage.theory import gap_lower, gap_upper

if TYPE_CHECKING:
    import polars

__all__ = ["STUDY", "findings"]

_DELTA = 0.01  # the default of all policies


class _Sizes(NamedTuple):
    n_arms: int
    budget: int
    gap: float  # of the horizons
    horizons: tuple[int, ...]
    played: tuple[int, ...]  # horizons of policies that never commit, and play all their rounds
    gaps: tuple[float, ...]
    long: int  # the horizon of the gaps
    runs: int
    gap_runs: int


_LONG = (10**5, 10**6, 10**7, 10**8)
_SIZES: dict[Size, _Sizes] = {
    "tiny": _Sizes(8, 2, 0.25, _LONG[:2], (10**4, 10**5), (0.25, 0.2), 10**6, 2, 2),
    "quick": _Sizes(20, 4, 0.2, _LONG, (10**4, 10**5), (0.04, 0.02, 0.01), 10**8, 16, 16),
    "full": _Sizes(20, 4, 0.2, _LONG, (10**5, 10**6, 10**7), (0.04, 0.02, 0.01, 0.005), 10**9, 64, 32),
}


def _experiments(size: Size) -> dict[str, Experiment]:
    own = _SIZES[size]
    arms = {"instance": "hidden_arm", "graph": "semi_bandit", "n_arms": own.n_arms, "budget": own.budget}
    plans: dict[str, dict[str, Any]] = {
        "horizons": {"policies": chosen(TIGHT, PAPER), "horizon": own.horizons, "replications": own.runs},
        "indices": {"policies": chosen(UCB, THOMPSON), "horizon": own.played, "replications": min(own.runs, 8)},
        "gaps": {"policies": chosen(TIGHT, PAPER), "horizon": own.long, "replications": own.gap_runs},
    }
    gaps = {"horizons": own.gap, "indices": own.gap, "gaps": list(own.gaps)}
    shared: dict[str, Any] = {"seed": SEED, "checkpoints": 61, "block": 2}
    return {
        name: Experiment([{**arms, "gap": gaps[name]}], **plan, name=f"gap-rates-{name}", **shared)
        for name, plan in plans.items()
    }


def _report(results: Mapping[str, Results], size: Size) -> Report:
    import polars

    tables = {
        "horizons": polars.concat([_regrets(results[name], size) for name in ("horizons", "indices")]),
        "gaps": _regrets(results["gaps"], size),
        "powers-of-log": _powers_of_log(results["horizons"], size),
        "powers-of-gap": results["gaps"].slopes("environment.gap", level=LEVEL),
    }
    charts = [_against_horizon(results["horizons"], tables, size), _against_gap(results["gaps"], tables, size)]
    return Report(_paragraphs(tables, size), findings(tables), charts, tables)


def _regrets(results: Results, size: Size) -> polars.DataFrame:
    """Return mean regrets with the largest of a run, what share came late, who committed when, and the bounds."""
    import polars

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
    bounds = [_bounds(size, row["policy"], row["horizon"], row["gap"]) for row in table.iter_rows(named=True)]
    table = table.with_columns(polars.Series(name, [one[name] for one in bounds]) for name in bounds[0])
    kept = ("policy", "horizon", "gap", "mean", "low", "high", "runs", "largest", "late", "committed", "last_commit")
    return table.select(*kept, *bounds[0])


def _bounds(size: Size, policy: str, horizon: int, gap: float) -> dict[str, Any]:
    """Return what Theorems 1 and 2 say: for each policy its own upper bound, and the printed one."""
    own = _SIZES[size]
    sizes: dict[str, Any] = {"n_arms": own.n_arms, "budget": own.budget, "alpha": own.n_arms}
    sizes |= {"horizon": horizon, "gap": gap}
    upper = gap_upper(**sizes, undirected=True, **rules(policy)).value if policy in (TIGHT, PAPER) else None
    printed = gap_upper(**sizes, undirected=True, constants="printed").value
    return {"upper": upper, "printed": printed, "lower": gap_lower(**sizes).value, "most": float(own.budget * horizon)}


def _powers_of_log(results: Results, size: Size) -> polars.DataFrame:
    """Return by which power of ln(2 K T / delta) the regret grows."""
    import polars

    logarithm = (2.0 * _SIZES[size].n_arms / _DELTA * polars.col("horizon")).log()
    return line_powers(results, results.summary(level=LEVEL).with_columns(logarithm=logarithm), "logarithm")


def findings(tables: Mapping[str, polars.DataFrame]) -> list[Finding]:
    """Return what the tables say of Theorems 1 and 2."""
    horizons, gaps = tables["horizons"], tables["gaps"]
    made = [_flat(horizons, policy) for policy in (TIGHT, PAPER)]
    for row in tables["powers-of-log"].iter_rows(named=True):
        claim = f"{row['policy']}: regret grows with T no faster than ln(2 K T / delta)"
        made.append(power_finding(claim, "Theorem 1", row, 1.0, side="at most"))
    for row in tables["powers-of-gap"].iter_rows(named=True):
        why = "Part of the regret, that of the arms with mean 1, is the same at every gap."
        why = why if row["slope"] is not None and row["slope"] > -1.0 else ""
        made.append(power_finding(f"{row['policy']}: regret grows as 1 / gap", "Theorem 1", row, -1.0, why=why))
    return [*made, *(_below(gaps, policy) for policy in (TIGHT, PAPER)), _printed(gaps), _above(gaps)]


def _flat(table: polars.DataFrame, policy: str) -> Finding:
    row = table.filter(table["policy"] == policy).sort("horizon").row(-1, named=True)
    tenth, late = short(row["horizon"] / 10), f"{100 * row['late']:.2g}%"
    flat = row["late"] == 0.0
    verdict = f"Does not agree: {late} of the regret came after round {tenth}."
    if flat:
        verdict = f"Agrees: the last run committed in round {row['last_commit']:,}, and lost nothing after it."
    measured = f"{late} of it; {row['committed']} of {row['runs']} runs committed"
    claim = f"{policy}: regret stops growing, T = {short(row['horizon'])}"
    return Finding(claim, "Theorem 1", f"none of it after round {tenth}", measured, verdict, flat)


def _below(table: polars.DataFrame, policy: str) -> Finding:
    """Return whether all runs stay below the upper bound with constants that hold."""
    rows = table.filter(table["policy"] == policy).to_dicts()
    near, empty = max(row["largest"] / row["upper"] for row in rows), sum(row["upper"] >= row["most"] for row in rows)
    verdict = f"{'Agrees' if near <= 1.0 else 'Does not agree'}: the bound is {1.0 / near:.2g} times the worst run"
    verdict += f", and vacuous at {empty} of {len(rows)} gaps." if empty else "."
    said = f"{policy}: every run stays below the bound, at {len(rows)} gaps", "Theorem 1, repaired constants"
    return Finding(*said, "at most 1 times the bound", f"at most {near:.2g} times the bound", verdict, near <= 1.0)


def _printed(table: polars.DataFrame) -> Finding:
    """Return whether the printed constants say anything."""
    least = min(row["printed"] / row["most"] for row in table.iter_rows(named=True))
    verdict = "Agrees: below what any policy can lose." if least < 1.0 else "Says nothing: vacuous at every gap."
    said = "the bound with its printed constants says something at these sizes", "Theorem 1, as printed"
    return Finding(*said, "less than S T", f"{short(least)} times S T or more", verdict, True if least < 1.0 else None)


def _above(table: polars.DataFrame) -> Finding:
    """Return how the regret compares with the lower bound, which is for one instance of a family that this is in."""
    row = min(table.iter_rows(named=True), key=lambda one: one["mean"] / one["lower"])
    holds = row["mean"] >= row["lower"]
    verdict = "Says nothing: on another instance of the family it must lose more."
    if holds:
        verdict = f"Agrees: elimination loses at least {row['mean'] / row['lower']:.2g} times the bound."
    measured = f"{spread(row)} at a gap of {row['gap']:.3g}, {row['policy']}"
    claim = "some instance of the family costs every policy order (alpha / gap) ln(T)"
    return Finding(claim, "Theorem 2 (L1)", f"at least {short(row['lower'])} there", measured, verdict, holds or None)


def _paragraphs(tables: Mapping[str, polars.DataFrame], size: Size) -> list[str]:
    own, horizons = _SIZES[size], tables["horizons"]
    ends = horizons.sort("horizon").group_by("policy", maintain_order=True).last()
    late = {row["policy"]: row for row in ends.iter_rows(named=True)}
    same = horizons.filter(horizons["horizon"] == own.horizons[0])
    regret = {row["policy"]: row["mean"] for row in same.iter_rows(named=True)}
    best = min(regret, key=lambda policy: regret[policy])
    return [
        f"The instance is that of the lower bound (L1). No arm reveals another; {own.budget - 1} of {own.n_arms} "
        f"arms have mean 1, the next 1/4 + gap and all others 1/4; S is {own.budget}. Once elimination has told them "
        "apart it commits, and loses nothing more, however long it goes on. The tight variant has intervals that "
        "hold at all times, so that its regret does not depend on T; those of the paper are made for T, and grow "
        "with ln(T).",
        f"Policies with an index go on exploring: UCB has {100 * late[UCB]['late']:.0f}% of its regret after the "
        f"first tenth of {short(late[UCB]['horizon'])} rounds, and Thompson sampling "
        f"{100 * late[THOMPSON]['late']:.0f}%. Yet after {short(own.horizons[0])} rounds {best} has lost least, "
        f"{short(regret[best])}; tight elimination has lost {regret[TIGHT] / regret[best]:.1f} times that, and "
        f"elimination as printed {regret[PAPER] / regret[best]:.1f} times.",
    ]


def _against_horizon(results: Results, tables: Mapping[str, polars.DataFrame], size: Size) -> Chart:
    own, table = _SIZES[size], tables["horizons"]
    ax = plots.scaling(
        table.select("policy", "horizon", "mean", "low", "high", "runs"),
        bounds={
            "Theorem 1, tight": lambda T: _bounds(size, TIGHT, T, own.gap)["upper"],
            "Theorem 1, repaired": lambda T: _bounds(size, PAPER, T, own.gap)["upper"],
            "Theorem 2": lambda T: _bounds(size, TIGHT, T, own.gap)["lower"],
        },
        ceiling=lambda T: own.budget * T,
        level=LEVEL,
        order=ORDER,
    )
    ax.set_xlabel("T")
    caption = (
        f"Regret at the end against T, with a gap of {own.gap}. Elimination commits: its lines are flat but for ln(T)."
    )
    return chart(results, ax, "gap-rates-T", caption, table["runs"])


def _against_gap(results: Results, tables: Mapping[str, polars.DataFrame], size: Size) -> Chart:
    own, table = _SIZES[size], tables["gaps"]
    ax = plots.scaling(
        table.select("policy", "gap", "mean", "low", "high", "runs"),
        tables["powers-of-gap"],
        bounds={
            "Theorem 1, tight": lambda gap: _bounds(size, TIGHT, own.long, gap)["upper"],
            "Theorem 1, repaired": lambda gap: _bounds(size, PAPER, own.long, gap)["upper"],
            "Theorem 1, printed": lambda gap: _bounds(size, PAPER, own.long, gap)["printed"],
            "Theorem 2": lambda gap: _bounds(size, TIGHT, own.long, gap)["lower"],
        },
        ceiling=lambda gap: own.budget * own.long,
        level=LEVEL,
        order=ORDER,
    )
    caption = f"Regret at the end against the gap, after {short(own.long)} rounds; predicted power -1."
    return chart(results, ax, "gap-rates-gap", caption, table["runs"])


STUDY = Study("gap-rates", "Gaps: flat in T, and proportional to 1 / gap", _experiments, _report)
