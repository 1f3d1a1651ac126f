"""What the guard makes of proposers that lose, round by round, and how often certificates fail over many short runs."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

import numpy as np

from armtriage.environments import StochasticEnvironment
from armtriage.experiments.tables import EXACT
from armtriage.graphs.feedback import FeedbackGraph
from armtriage.instances import gap_instance
from armtriage.policies import Greedy, Guard, GuardedThompson
from armtriage.reproduce.study import SEED
from armtriage.simulation.simulate import simulate

if TYPE_CHECKING:
    import polars

__all__ = ["DELTA", "FACTOR", "PROPOSERS", "coverage", "hostile"]

DELTA = 0.05
FACTOR = 0.25  # a small budget, so that the guard has to step in soon
PROPOSERS = ("saboteur", "greedy")
_ARMS, _BUDGET = 8, 2
_MEANS = {
    "Bernoulli near 1/2": [0.6, 0.6, 0.5, 0.5, 0.5, 0.5],
    "small means": [0.05, 0.04, 0.02, 0.01, 0.01, 0.0],
    "Beta rewards": [0.6, 0.55, 0.5, 0.45, 0.4, 0.4],
    "uniform rewards": [0.6, 0.55, 0.5, 0.45, 0.4, 0.4],
    "shared noise": [0.6, 0.6, 0.5, 0.5, 0.5, 0.5],
}


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


def coverage(horizon: int, runs: int) -> polars.DataFrame:
    """Return in how many runs a best arm is eliminated, or more is lost than a certificate says, a row an instance.

    Examples
    --------
    >>> coverage(100, 2).columns
    ['environment', 'horizon', 'runs', 'eliminated', 'exceeded', 'either']
    """
    import polars

    rows = []
    for name, env in _worlds().items():
        policy = GuardedThompson(env.graph, _BUDGET, delta=DELTA, seed=SEED)
        trace = simulate(policy, env, horizon=horizon, replications=runs, checkpoints=20, certificate=DELTA)
        assert trace.certificate is not None
        assert trace.triage is not None
        best = np.argsort(-env.means, kind="stable")[:_BUDGET]
        out = np.array([np.isin(best, log.arms[~log.confirmed]).any() for log in trace.triage])
        over = (trace.regret > trace.certificate + EXACT * trace.rounds).any(axis=1)
        counts = {"eliminated": int(out.sum()), "exceeded": int(over.sum()), "either": int((out | over).sum())}
        rows.append({"environment": name, "horizon": horizon, "runs": runs, **counts})
    return polars.DataFrame(rows)


def hostile(name: str, horizon: int, runs: int) -> polars.DataFrame:
    """Return what a proposer loses inside a guard and alone, at rounds on a log scale, a row a round of a run.

    The saboteur always proposes the worst arms. Greedy plays the largest means so far, and may be stuck for ever.

    Examples
    --------
    >>> hostile("saboteur", 10, 1).columns
    ['proposer', 'run', 'round', 'alone', 'regret', 'forced', 'allowed', 'forced_rounds']
    """
    import polars

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
        guard = Guard(proposer, env.graph, _BUDGET, delta=DELTA, factor=FACTOR, seed=SEED + run)
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
