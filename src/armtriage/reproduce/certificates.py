"""Certificates and the guard: how often they fail, how far above the truth they are, and who proposes matters not."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import TYPE_CHECKING, Any, NamedTuple

import numpy as np

from armtriage import plots
from armtriage.experiments.experiment import Experiment
from armtriage.experiments.results import Results
from armtriage.reproduce._hostile import DELTA, FACTOR, PROPOSERS, coverage, hostile
from armtriage.reproduce._policies import GUARDED, ORDER, THOMPSON, TIGHT, UCB, chosen
from armtriage.reproduce.study import LEVEL, SEED, Chart, Finding, Report, Size, Study, chart, times
from armtriage.simulation.trace import Trace

if TYPE_CHECKING:
    import polars

__all__ = ["STUDY", "findings"]

SHADOW = "guarded Thompson, shadow"
_SOURCE = "this library"


class _Sizes(NamedTuple):
    points: tuple[int, ...]  # rounds at which certificates are held against the truth
    runs: int
    covered: tuple[int, int]  # rounds of the many short runs, and how many of each instance
    hostile: tuple[int, int]  # rounds and runs with hostile proposers


_SIZES: dict[Size, _Sizes] = {
    "tiny": _Sizes((50, 200), 2, (100, 4), (100, 2)),
    "quick": _Sizes((100, 1000, 10_000), 6, (500, 60), (1500, 4)),
    "full": _Sizes((1000, 10_000, 100_000), 16, (2000, 500), (5000, 16)),
}


def _experiments(size: Size) -> dict[str, Experiment]:
    own = _SIZES[size]
    arms: dict[str, Any] = {"n_arms": 100, "budget": 10}
    places = {
        "random means": {"instance": "random", **arms},
        "gap 0.1": {"instance": "gap_instance", **arms, "gap": 0.1},
    }
    policies = chosen(GUARDED, THOMPSON, TIGHT, UCB) | {SHADOW: {"policy": "guarded_thompson", "mode": "shadow"}}
    return {
        "tightness": Experiment(
            places,
            policies,
            horizon=own.points[-1],
            replications=own.runs,
            seed=SEED,
            name="certificates",
            checkpoints=own.points,
            redraw=True,
            block=2,
            certificate=DELTA,
        )
    }


def _report(results: Mapping[str, Results], size: Size) -> Report:
    import polars

    own, tightness = _SIZES[size], results["tightness"]
    tables = {
        "coverage": coverage(*own.covered),
        "tightness": _tightness(tightness, own.points),
        "hostile": polars.concat([hostile(name, *own.hostile) for name in PROPOSERS]),
    }
    charts = [_ratio_chart(tightness, tables["tightness"], one) for one in ("random means", "gap 0.1")]
    charts.append(_hostile_chart(tightness, tables["hostile"]))
    return Report(_paragraphs(tables), findings(tables), charts, tables)


def _tightness(results: Results, points: Sequence[int]) -> polars.DataFrame:
    """Return how many times the regret the certificate is, for each policy and number of rounds."""
    import polars

    kept = ("environment", "policy", "round", "runs", "certificate", "ratio", "ratio_low", "ratio_high", "exceeded")
    return polars.concat([results.certificates(level=LEVEL, at=at).select(kept) for at in points])


def findings(tables: Mapping[str, polars.DataFrame]) -> list[Finding]:
    """Return whether certificates hold, how tight they are, and whether the guard keeps its bound."""
    tight = tables["tightness"].partition_by("policy", maintain_order=True)
    hostile_runs = tables["hostile"].partition_by("proposer", maintain_order=True)
    return [_covered(tables["coverage"]), *map(_tight, tight), *map(_kept, hostile_runs)]


def _share(failures: int, runs: int) -> tuple[float, float]:
    """Return the ends of the exact interval for the probability of a failure."""
    from scipy.stats import binomtest

    ends = binomtest(failures, runs).proportion_ci(LEVEL, "exact")
    return float(ends.low), float(ends.high)


def _covered(table: polars.DataFrame) -> Finding:
    failures, runs = int(table["either"].sum()), int(table["runs"].sum())
    low, high = _share(failures, runs)
    measured = f"in {failures:,} of {runs:,} runs: {100 * failures / runs:.2g}% ({100 * low:.2g}% to {100 * high:.2g}%)"
    claim = f"a best arm is eliminated, or more is lost than certified at any time, rarely; delta = {DELTA}"
    said = claim, _SOURCE, f"in at most {100 * DELTA:g}% of runs", measured
    if low > DELTA:
        return Finding(*said, "Does not agree: it happens more often.", False)
    if high >= DELTA:
        return Finding(*said, f"Says nothing: {runs:,} runs cannot show less than {100 * high:.2g}%.", None)
    return Finding(*said, f"Agrees: the whole exact interval is below {100 * DELTA:g}%.", True)


def _tight(table: polars.DataFrame) -> Finding:
    """Return by how much a policy's certificates overstate what it lost, and whether any is below it."""
    last = table.filter(table["round"] == table["round"].max()).to_dicts()
    first = table.filter(table["round"] == table["round"].min()).to_dicts()
    over, runs = sum(row["exceeded"] for row in last), sum(row["runs"] for row in last)
    measured = "; ".join(
        f"{times(row)} after {row['round']:,} rounds, {row['environment']}, {_times(before['ratio'])} after "
        f"{before['round']:,}"
        for row, before in zip(last, first, strict=True)
    )
    said = f"{last[0]['policy']}: the certificate over the regret", _SOURCE, f"at least 1 in {1 - DELTA:.0%} of runs"
    if _share(over, runs)[0] > DELTA:
        return Finding(*said, measured, f"Does not agree: {over} of {runs} runs lost more than certified.", False)
    if over > DELTA * runs:
        return Finding(*said, measured, f"Says nothing: {over} of {runs} runs lost more, by chance perhaps.", None)
    return Finding(*said, measured, f"Agrees: {over} of {runs} runs lost more than certified at any checkpoint.", True)


def _times(ratio: float | None) -> str:
    return "none" if ratio is None else f"{ratio:.2f} times"


def _kept(table: polars.DataFrame) -> Finding:
    """Return whether regret is within the budget and the loss of elimination rounds, at all times and in all runs."""
    name, rounds = table["proposer"][0], int(table["round"].max())  # type: ignore[arg-type]
    ends = table.filter(table["round"] == rounds)
    shares = (table["regret"] / (table["allowed"] + table["forced"])).to_numpy()
    broken = table.filter(table["regret"] > (table["allowed"] + table["forced"]) * (1.0 + 1e-9))["run"].n_unique()
    stepped = float(np.mean(ends["forced_rounds"].to_numpy() / rounds))
    lost, alone = (float(np.mean(ends[one].to_numpy())) for one in ("regret", "alone"))
    measured = (
        f"at most {shares.max():.2f} times; {100 * stepped:.2g}% of rounds forced; regret {lost:.4g}, and "
        f"{alone:.4g} without the guard"
    )
    claim = f"{name} inside the guard: regret within its budget and the loss of elimination rounds, factor {FACTOR}"
    runs = ends.height
    said = claim, _SOURCE, f"at most 1 times, in {1 - DELTA:.0%} of runs", measured
    if broken > DELTA * runs:
        return Finding(*said, f"Does not agree: {broken} of {runs} runs lost more.", False)
    return Finding(*said, f"Agrees: {broken} of {runs} runs lost more, at any time.", True)


def _paragraphs(tables: Mapping[str, polars.DataFrame]) -> list[str]:
    short_runs, longest = tables["coverage"], max(tables["tightness"]["round"].to_list())
    runs, rounds = int(short_runs["runs"].sum()), short_runs["horizon"][0]
    return [
        "A certificate bounds what was lost so far, from pulls and rewards alone. It may fail in a share delta of all "
        f"runs, over all rounds together. It is tried in {runs:,} runs of {rounds:,} rounds on "
        f"{short_runs.height} small instances: {', '.join(short_runs['environment'])}. What can be told from that many "
        "runs is the exact binomial interval.",
        f"How far certificates are above the truth is measured on 100 arms and 10 slots, up to "
        f"{longest:,} rounds. A policy that observes all arms often has tight ones; a policy that stops "
        "looking at bad arms, as Thompson sampling does, knows less about what it lost, though it lost less.",
        "Last, two proposers that nobody should follow are put inside a guard: a saboteur that always proposes the "
        "worst arms, and the greedy one that never explores. The bound is proved for any.",
    ]


def _ratio_chart(results: Results, table: polars.DataFrame, place: str) -> Chart:
    own = table.filter(table["environment"] == place).drop_nulls(["ratio", "ratio_low", "ratio_high"])
    names = {"rounds": "round", "mean": "ratio", "low": "ratio_low", "high": "ratio_high"}
    ax = plots.scaling(own.select("policy", "runs", **names), parameter="rounds", level=LEVEL, order=ORDER)
    ax.set_ylabel("certificate as a multiple of the regret")
    caption = f"How many times the regret its certificate is, {place}."
    return chart(results, ax, f"certificates-{place.split()[0]}", caption, own["runs"])


def _hostile_chart(results: Results, table: polars.DataFrame) -> Chart:
    """Draw what the proposers lose inside the guard and alone."""
    traces = {}
    for part in table.partition_by("proposer", maintain_order=True):
        for label, column in ((part["proposer"][0], "alone"), (f"{part['proposer'][0]}, guarded", "regret")):
            traces[label] = _trace(part, column, label)
    saboteur = table.filter(table["proposer"] == PROPOSERS[0])
    bound = saboteur.with_columns(bound=saboteur["allowed"] + saboteur["forced"])
    traces["bound, saboteur"] = _trace(bound, "bound", "bound")
    ax = plots.regret_curves(traces, level=LEVEL)
    caption = (
        f"Proposers that nobody should follow, alone and inside the guard with factor {FACTOR}; bands of the mean."
    )
    return chart(results, ax, "certificates-hostile", caption, [int(table["run"].n_unique())])


def _trace(table: polars.DataFrame, column: str, label: str) -> Trace:
    runs = table["run"].n_unique()
    values = table.sort("run", "round")[column].to_numpy().reshape(runs, -1)
    rounds = table["round"].unique().sort().to_numpy()
    return Trace(rounds, values, np.full(runs, -1), None, None, label, 0, SEED, None)


STUDY = Study("certificates", "Certificates, and hostile proposers inside the guard", _experiments, _report)
