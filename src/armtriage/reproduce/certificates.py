"""Certificates and the guard: how often they fail, how far above the truth they are, and hostile proposers."""

from __future__ import annotations

from typing import Any, ClassVar

import numpy as np
import polars

from armtriage.environments import StochasticEnvironment
from armtriage.graphs.feedback import FeedbackGraph
from armtriage.instances import gap_instance
from armtriage.policies import Greedy, Guard, GuardedThompson
from armtriage.reproduce.figures import curves, lines
from armtriage.reproduce.judges import times
from armtriage.reproduce.lines import RATIO
from armtriage.reproduce.policies import GUARDED, SHADOW, THOMPSON, TIGHT, UCB, chosen
from armtriage.reproduce.study import LEVEL, SEED, Chart, Claim, Played, Rows, Scale, Study, Tables, Verdict, plan
from armtriage.simulation import Trace, simulate

_SOURCE = "this library"
_DELTA = 0.05
_FACTOR = 0.25  # a small budget, so that the guard has to step in soon
_ARMS, _BUDGET = 8, 2
_EXACT = 1e-9  # of the rounds, by which rounding may put a regret above its certificate
_WORLDS: dict[str, tuple[list[float], dict[str, Any]]] = {
    "Bernoulli near 1/2": ([0.6, 0.6, 0.5, 0.5, 0.5, 0.5], {}),
    "small means": ([0.05, 0.04, 0.02, 0.01, 0.01, 0.0], {}),
    "Beta rewards": ([0.6, 0.55, 0.5, 0.45, 0.4, 0.4], {"reward": "beta", "concentration": 2.0}),
    "uniform rewards": ([0.6, 0.55, 0.5, 0.45, 0.4, 0.4], {"reward": "uniform"}),
    "shared noise": ([0.6, 0.6, 0.5, 0.5, 0.5, 0.5], {"noise_groups": [0, 0, 1, 1, 2, 2]}),
}
"""Small instances with rewards of many kinds: their means, and the rest of them."""


def _share(failures: int, runs: int) -> tuple[float, float]:
    """Return the ends of the exact interval for the probability of a failure."""
    from scipy.stats import binomtest

    ends = binomtest(failures, runs).proportion_ci(LEVEL, "exact")
    return float(ends.low), float(ends.high)


def _covered(rows: Rows) -> Verdict:
    failures, runs = (sum(row[name] for row in rows) for name in ("either", "runs"))
    low, high = _share(failures, runs)
    seen = f"in {failures:,} of {runs:,} runs: {100 * failures / runs:.2g}% ({100 * low:.2g}% to {100 * high:.2g}%)"
    said = f"in at most {100 * _DELTA:g}% of runs", seen
    if low > _DELTA:
        return Verdict(*said, False, "it happens more often")
    if high >= _DELTA:
        return Verdict(*said, None, f"{runs:,} runs cannot show less than {100 * high:.2g}%")
    return Verdict(*said, True, f"the whole exact interval is below {100 * _DELTA:g}%")


def _tight(rows: Rows) -> Verdict:
    """Return by how much a policy's certificates overstate what it lost, and whether any is below it."""
    rounds = [row["round"] for row in rows]
    first, last = ([row for row in rows if row["round"] == edge(rounds)] for edge in (min, max))
    over, runs = (sum(row[name] for row in last) for name in ("exceeded", "runs"))
    seen = [
        f"{times(row)} after {row['round']:,} rounds, {row['environment']}, "
        f"{'none' if before['ratio'] is None else '{ratio:.2f} times'.format_map(before)} after {before['round']:,}"
        for row, before in zip(last, first, strict=True)
    ]
    said = f"at least 1 in {1 - _DELTA:.0%} of runs", "; ".join(seen)
    if _share(over, runs)[0] > _DELTA:
        return Verdict(*said, False, f"{over} of {runs} runs lost more than certified")
    if over > _DELTA * runs:
        return Verdict(*said, None, f"{over} of {runs} runs lost more, by chance perhaps")
    return Verdict(*said, True, f"{over} of {runs} runs lost more than certified at any checkpoint")


def _kept(rows: Rows) -> Verdict:
    """Return whether regret is within the budget and the loss of elimination rounds, at all times and in all runs."""
    rounds = max(row["round"] for row in rows)
    ends = [row for row in rows if row["round"] == rounds]
    most = max(row["regret"] / (row["allowed"] + row["forced"]) for row in rows)
    broken = {row["run"] for row in rows if row["regret"] > (row["allowed"] + row["forced"]) * (1.0 + 1e-9)}
    forced, lost, alone = (np.mean([row[name] for row in ends]) for name in ("forced_rounds", "regret", "alone"))
    seen = f"at most {most:.2f} times; {100 * forced / rounds:.2g}% of rounds forced; regret {lost:.4g}, and "
    seen += f"{alone:.4g} without the guard"
    more = len(broken) > _DELTA * len(ends)
    because = f"{len(broken)} of {len(ends)} runs lost more{'' if more else ', at any time'}"
    return Verdict(f"at most 1 times, in {1 - _DELTA:.0%} of runs", seen, not more, because)


class Certificates(Study):
    """Certificates of all policies, and the guard around any proposer."""

    name, title = "certificates", "Certificates, and hostile proposers inside the guard"
    # Certificates are held against the truth after the rounds in `points`. The many short runs, and those with hostile
    # proposers, have rounds and numbers of their own.
    sizes: ClassVar = {
        "tiny": Scale(points=(50, 200), runs=2, covered=(100, 4), hostile=(100, 2)),
        "quick": Scale(points=(100, 1000, 10_000), runs=6, covered=(500, 60), hostile=(1500, 4)),
        "full": Scale(points=(1000, 10_000, 100_000), runs=16, covered=(2000, 500), hostile=(5000, 16)),
    }
    claims = (
        Claim("coverage", "a best arm is eliminated, or more is lost than certified at any time, rarely; delta = "
              f"{_DELTA}", _SOURCE, _covered),
        Claim("tightness", "{policy}: the certificate over the regret", _SOURCE, _tight, "policy"),
        Claim("hostile", "{proposer} inside the guard: regret within its budget and the loss of elimination rounds, "
              f"factor {_FACTOR}", _SOURCE, _kept, "proposer"),
    )  # fmt: skip

    def plans(self) -> dict[str, dict[str, Any]]:
        points, arms = self.scale.points, {"n_arms": 100, "budget": 10}
        places: dict[str, Any] = {
            "random means": {"instance": "random", **arms},
            "gap 0.1": {"instance": "gap_instance", **arms, "gap": 0.1},
        }
        policies = chosen(GUARDED, THOMPSON, TIGHT, UCB) | {SHADOW: {"policy": "guarded_thompson", "mode": "shadow"}}
        rest = {"checkpoints": points, "redraw": True, "block": 2, "certificate": _DELTA}
        return {"tightness": plan(places, policies, points[-1], self.scale.runs, **rest)}

    def tables(self, results: Played) -> Tables:
        kept = ("environment", "policy", "round", "runs", "certificate", *RATIO, "exceeded")
        at = [results["tightness"].certificates(level=LEVEL, at=point) for point in self.scale.points]
        return {
            "coverage": _coverage(*self.scale.covered),
            "tightness": polars.concat(at).select(kept),
            "hostile": polars.concat([_hostile(name, *self.scale.hostile) for name in ("saboteur", "greedy")]),
        }

    def charts(self, results: Played, tables: Tables) -> list[Chart]:
        made = []
        table = tables["tightness"].rename(dict(zip(RATIO, ("mean", "low", "high"), strict=True)) | {"round": "rounds"})
        for place in ("random means", "gap 0.1"):
            own = table.filter(table["environment"] == place).drop_nulls(["mean", "low", "high"])
            name, caption = (
                f"certificates-{place.split()[0]}",
                f"How many times the regret its certificate is, {place}.",
            )
            made.append(lines(name, caption, own, "rounds", y="certificate as a multiple of the regret"))
        caption = f"A saboteur and greedy play, alone and inside the guard with factor {_FACTOR}; bands of the mean."
        return [*made, curves("certificates-hostile", caption, _traces(tables["hostile"]))]

    def paragraphs(self, tables: Tables) -> list[str]:
        short_runs = tables["coverage"]
        return [
            "A certificate bounds what was lost so far, from pulls and rewards alone. It may fail in a share delta of "
            f"all runs, over all rounds together. It is tried in {sum(short_runs['runs'].to_list()):,} runs of "
            f"{self.scale.covered[0]:,} rounds on {short_runs.height} small instances: "
            f"{', '.join(short_runs['environment'])}. What can be told from that many runs is the exact binomial "
            "interval.",
            "How far certificates are above the truth is measured on 100 arms and 10 slots, up to "
            f"{self.scale.points[-1]:,} rounds. A policy that observes all arms often has tight ones; a policy that "
            "stops looking at bad arms, as Thompson sampling does, knows less about what it lost, though it lost less.",
            "Last, two proposers that should not be followed are put inside a guard: a saboteur that always proposes "
            "the worst arms, and the greedy one that never explores. The bound is proved for any.",
        ]


def _coverage(horizon: int, runs: int) -> polars.DataFrame:
    """Return in how many runs a best arm is eliminated, or more is lost than a certificate says.

    Examples
    --------
    >>> _coverage(100, 2).columns
    ['environment', 'horizon', 'runs', 'eliminated', 'exceeded', 'either']
    """
    graphs, rows = [FeedbackGraph.semi_bandit(6), FeedbackGraph.cliques([2, 2, 2])], []
    for place, (name, (means, given)) in enumerate(_WORLDS.items()):
        env = StochasticEnvironment(means, graphs[place % 2], seed=SEED + place, **given)
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


def _traces(table: polars.DataFrame) -> dict[str, Trace]:
    """Return what the proposers lose inside the guard and alone, and the bound for the saboteur."""
    bound = table.with_columns(bound=table["allowed"] + table["forced"])
    shown = [
        ("saboteur", "alone"),
        ("saboteur", "regret"),
        ("greedy", "alone"),
        ("greedy", "regret"),
        ("saboteur", "bound"),
    ]
    labels = ("saboteur", "saboteur, guarded", "greedy", "greedy, guarded", "bound, saboteur")
    made = {}
    for label, (proposer, column) in zip(labels, shown, strict=True):
        own = bound.filter(bound["proposer"] == proposer).sort("run", "round")
        runs, rounds = own["run"].n_unique(), own["round"].unique().sort().to_numpy()
        values = own[column].to_numpy().reshape(runs, -1)
        made[label] = Trace(rounds, values, np.full(runs, -1), None, None, label, 0, SEED, None)
    return made
