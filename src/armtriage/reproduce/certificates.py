"""Certificates and the guard: how often they fail, how far above the truth they are, and hostile proposers."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import Any

import numpy as np
import polars

from armtriage import plots
from armtriage.environments import StochasticEnvironment
from armtriage.experiments import Results
from armtriage.graphs.feedback import FeedbackGraph
from armtriage.instances import gap_instance
from armtriage.policies import Greedy, Guard, GuardedThompson
from armtriage.reproduce.lines import line_chart
from armtriage.reproduce.policies import GUARDED, ORDER, THOMPSON, TIGHT, UCB, chosen
from armtriage.reproduce.study import LEVEL, SEED, Chart, Finding, Scale, Study, Tables, chart, finding, times
from armtriage.simulation import Trace, simulate

__all__ = ["STUDY", "findings"]

_SHADOW = "guarded Thompson, shadow"
_SOURCE = "this library"
_DELTA = 0.05
_FACTOR = 0.25  # a small budget, so that the guard has to step in soon
_PROPOSERS = ("saboteur", "greedy")
_ARMS, _BUDGET = 8, 2
_EXACT = 1e-9  # of the rounds, by which rounding may put a regret above its certificate
_MEANS = {
    "Bernoulli near 1/2": [0.6, 0.6, 0.5, 0.5, 0.5, 0.5],
    "small means": [0.05, 0.04, 0.02, 0.01, 0.01, 0.0],
    "Beta rewards": [0.6, 0.55, 0.5, 0.45, 0.4, 0.4],
    "uniform rewards": [0.6, 0.55, 0.5, 0.45, 0.4, 0.4],
    "shared noise": [0.6, 0.6, 0.5, 0.5, 0.5, 0.5],
}
# Certificates are held against the truth after the rounds in `points`. The many short runs, and those with hostile
# proposers, have rounds and numbers of their own.
_SIZES = {
    "tiny": Scale(points=(50, 200), runs=2, covered=(100, 4), hostile=(100, 2)),
    "quick": Scale(points=(100, 1000, 10_000), runs=6, covered=(500, 60), hostile=(1500, 4)),
    "full": Scale(points=(1000, 10_000, 100_000), runs=16, covered=(2000, 500), hostile=(5000, 16)),
}


def _plans(scale: Scale) -> dict[str, dict[str, Any]]:
    arms: dict[str, Any] = {"n_arms": 100, "budget": 10}
    places = {
        "random means": {"instance": "random", **arms},
        "gap 0.1": {"instance": "gap_instance", **arms, "gap": 0.1},
    }
    shadow = {_SHADOW: {"policy": "guarded_thompson", "mode": "shadow"}}
    rounds = {"horizon": scale.points[-1], "checkpoints": scale.points, "replications": scale.runs}
    rules = {"redraw": True, "block": 2, "certificate": _DELTA}
    policies = chosen(GUARDED, THOMPSON, TIGHT, UCB) | shadow
    return {"tightness": {"environments": places, "policies": policies, **rounds, **rules}}


def _tables(results: Mapping[str, Results], scale: Scale) -> Tables:
    return {
        "coverage": _coverage(*scale.covered),
        "tightness": _tightness(results["tightness"], scale.points),
        "hostile": polars.concat([_hostile(name, *scale.hostile) for name in _PROPOSERS]),
    }


def _tightness(results: Results, points: Sequence[int]) -> polars.DataFrame:
    """Return how many times the regret the certificate is, for each policy and number of rounds."""
    kept = ("environment", "policy", "round", "runs", "certificate", "ratio", "ratio_low", "ratio_high", "exceeded")
    return polars.concat([results.certificates(level=LEVEL, at=at).select(kept) for at in points])


def _worlds() -> dict[str, StochasticEnvironment]:
    """Return small instances with rewards of many kinds."""
    graphs = [FeedbackGraph.semi_bandit(6), FeedbackGraph.cliques([2, 2, 2])]
    given: dict[str, dict[str, Any]] = {
        "Beta rewards": {"reward": "beta", "concentration": 2.0},
        "uniform rewards": {"reward": "uniform"},
        "shared noise": {"noise_groups": [0, 0, 1, 1, 2, 2]},
    }
    return {
        name: StochasticEnvironment(means, graphs[place % 2], seed=SEED + place, **given.get(name, {}))
        for place, (name, means) in enumerate(_MEANS.items())
    }


def _coverage(horizon: int, runs: int) -> polars.DataFrame:
    """Return in how many runs a best arm is eliminated, or more is lost than a certificate says.

    Examples
    --------
    >>> _coverage(100, 2).columns
    ['environment', 'horizon', 'runs', 'eliminated', 'exceeded', 'either']
    """
    rows = []
    for name, env in _worlds().items():
        policy = GuardedThompson(env.graph, _BUDGET, delta=_DELTA, seed=SEED)
        trace = simulate(policy, env, horizon=horizon, replications=runs, checkpoints=20, certificate=_DELTA)
        assert trace.certificate is not None
        assert trace.triage is not None
        best = np.argsort(-env.means, kind="stable")[:_BUDGET]
        out = np.array([np.isin(best, log.arms[~log.confirmed]).any() for log in trace.triage])
        over = (trace.regret > trace.certificate + _EXACT * trace.rounds).any(axis=1)
        counts = {"eliminated": int(out.sum()), "exceeded": int(over.sum()), "either": int((out | over).sum())}
        rows.append({"environment": name, "horizon": horizon, "runs": runs, **counts})
    return polars.DataFrame(rows)


def _hostile(name: str, horizon: int, runs: int) -> polars.DataFrame:
    """Return what a proposer loses inside a guard and alone, at rounds on a log scale, run by run.

    The saboteur always proposes the worst arms. Greedy plays the largest means so far, and may be stuck for ever.

    Examples
    --------
    >>> _hostile("saboteur", 10, 1).columns
    ['proposer', 'run', 'round', 'alone', 'regret', 'forced', 'allowed', 'forced_rounds']
    """
    points = np.unique(np.geomspace(1, horizon, 40).astype(np.int64)).tolist()
    rows = []
    for run in range(runs):
        env = gap_instance(FeedbackGraph.semi_bandit(_ARMS), _BUDGET, 0.3, seed=SEED + run)
        worst = np.arange(_ARMS - _BUDGET, _ARMS)
        greedy = Greedy(env.graph, _BUDGET, seed=SEED + run)
        alone = simulate(greedy, env, horizon=horizon, checkpoints=points).regret[0].tolist()
        if name == "saboteur":
            alone = [point * env.regret(worst) for point in points]
        proposer: Any = greedy if name == "greedy" else lambda number, worst=worst: worst
        guard = Guard(proposer, env.graph, _BUDGET, delta=_DELTA, factor=_FACTOR, seed=SEED + run)
        kept, regret, forced = dict(zip(points, alone, strict=True)), 0.0, 0.0
        for number in range(horizon):
            before = guard.account.forced_rounds
            decision = guard.ask()
            loss = env.regret(decision.arms)
            regret += loss
            forced += loss if guard.account.forced_rounds > before else 0.0
            guard.tell(decision, env.rewards(number, decision.revealed))
            if number + 1 in kept:
                about = {"proposer": name, "run": run, "round": number + 1, "alone": kept[number + 1]}
                book = guard.account
                own = {"allowed": book.allowed, "forced_rounds": book.forced_rounds}
                rows.append({**about, "regret": regret, "forced": forced, **own})
    return polars.DataFrame(rows)


def findings(tables: Tables) -> list[Finding]:
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
    seen = f"in {failures:,} of {runs:,} runs: {100 * failures / runs:.2g}% ({100 * low:.2g}% to {100 * high:.2g}%)"
    claim = f"a best arm is eliminated, or more is lost than certified at any time, rarely; delta = {_DELTA}"
    said = claim, _SOURCE, f"in at most {100 * _DELTA:g}% of runs", seen
    if low > _DELTA:
        return finding(*said, False, "it happens more often")
    if high >= _DELTA:
        return finding(*said, None, f"{runs:,} runs cannot show less than {100 * high:.2g}%")
    return finding(*said, True, f"the whole exact interval is below {100 * _DELTA:g}%")


def _tight(table: polars.DataFrame) -> Finding:
    """Return by how much a policy's certificates overstate what it lost, and whether any is below it."""
    last = table.filter(table["round"] == table["round"].max()).to_dicts()
    first = table.filter(table["round"] == table["round"].min()).to_dicts()
    over, runs = sum(row["exceeded"] for row in last), sum(row["runs"] for row in last)
    seen = "; ".join(
        f"{times(row)} after {row['round']:,} rounds, {row['environment']}, {_times(before['ratio'])} after "
        f"{before['round']:,}"
        for row, before in zip(last, first, strict=True)
    )
    claim = f"{last[0]['policy']}: the certificate over the regret"
    said = claim, _SOURCE, f"at least 1 in {1 - _DELTA:.0%} of runs", seen
    if _share(over, runs)[0] > _DELTA:
        return finding(*said, False, f"{over} of {runs} runs lost more than certified")
    if over > _DELTA * runs:
        return finding(*said, None, f"{over} of {runs} runs lost more, by chance perhaps")
    return finding(*said, True, f"{over} of {runs} runs lost more than certified at any checkpoint")


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
    seen = (
        f"at most {shares.max():.2f} times; {100 * stepped:.2g}% of rounds forced; regret {lost:.4g}, and "
        f"{alone:.4g} without the guard"
    )
    claim = f"{name} inside the guard: regret within its budget and the loss of elimination rounds, factor {_FACTOR}"
    runs = ends.height
    said = claim, _SOURCE, f"at most 1 times, in {1 - _DELTA:.0%} of runs", seen
    if broken > _DELTA * runs:
        return finding(*said, False, f"{broken} of {runs} runs lost more")
    return finding(*said, True, f"{broken} of {runs} runs lost more, at any time")


def _paragraphs(tables: Tables, scale: Scale) -> list[str]:
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


def _charts(results: Mapping[str, Results], tables: Tables, scale: Scale) -> list[Chart]:
    tightness = results["tightness"]
    charts = [_ratio_chart(tightness, tables["tightness"], one) for one in ("random means", "gap 0.1")]
    return [*charts, _hostile_chart(tightness, tables["hostile"])]


def _ratio_chart(results: Results, table: polars.DataFrame, place: str) -> Chart:
    own = table.filter(table["environment"] == place).drop_nulls(["ratio", "ratio_low", "ratio_high"])
    names = {"rounds": "round", "mean": "ratio", "low": "ratio_low", "high": "ratio_high"}
    caption = f"How many times the regret its certificate is, {place}."
    points = own.select("policy", "runs", **names)
    y = "certificate as a multiple of the regret"
    return line_chart(results, f"certificates-{place.split()[0]}", caption, points, "rounds", order=ORDER, y=y)


def _hostile_chart(results: Results, table: polars.DataFrame) -> Chart:
    """Draw what the proposers lose inside the guard and alone."""
    traces = {}
    for part in table.partition_by("proposer", maintain_order=True):
        for label, column in ((part["proposer"][0], "alone"), (f"{part['proposer'][0]}, guarded", "regret")):
            traces[label] = _trace(part, column, label)
    saboteur = table.filter(table["proposer"] == _PROPOSERS[0])
    bound = saboteur.with_columns(bound=saboteur["allowed"] + saboteur["forced"])
    traces["bound, saboteur"] = _trace(bound, "bound", "bound")
    ax = plots.regret_curves(traces, level=LEVEL)
    caption = (
        f"Proposers that nobody should follow, alone and inside the guard with factor {_FACTOR}; bands of the mean."
    )
    return chart(results, ax, "certificates-hostile", caption, [int(table["run"].n_unique())])


def _trace(table: polars.DataFrame, column: str, label: str) -> Trace:
    runs = table["run"].n_unique()
    values = table.sort("run", "round")[column].to_numpy().reshape(runs, -1)
    rounds = table["round"].unique().sort().to_numpy()
    return Trace(rounds, values, np.full(runs, -1), None, None, label, 0, SEED, None)


STUDY = Study(
    "certificates",
    "Certificates, and hostile proposers inside the guard",
    _SIZES,
    _plans,
    _tables,
    findings,
    _paragraphs,
    _charts,
)
