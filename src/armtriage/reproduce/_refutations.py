"""What refutes lemmas of the paper without an experiment: a graph, a state, ties of indices, and audits of runs."""

from __future__ import annotations

import math
from collections.abc import Sequence
from typing import TYPE_CHECKING, Any

import numpy as np
from numpy.typing import NDArray

from armtriage.environments import LinearEnvironment, StochasticEnvironment
from armtriage.graphs.feedback import FeedbackGraph
from armtriage.instances import three_arms, two_hubs, ucb_failure
from armtriage.policies import CombinatorialElimination, CombinatorialUCB, HierarchicalElimination
from armtriage.reproduce.study import SEED
from armtriage.simulation.simulate import simulate
from armtriage.theory import audit, domination_number, greedy_dominating_set, independence_number
from armtriage.theory.audit import slack_rule

if TYPE_CHECKING:
    import polars

__all__ = ["COUNTS", "KEPT", "PAPER", "REPAIRED", "audits", "greedy_picks", "index_ties", "three_arms_of_a_stage"]

PAPER, REPAIRED = "elimination, as printed", "elimination, repaired"
COUNTS, KEPT = "confirmed arms have N observations", "(A) best arms stay in question"
"""Two claims of the paper, by their names in an audit."""


def greedy_picks(sizes: Sequence[int]) -> polars.DataFrame:
    """Return how many arms the greedy of Algorithm 1 picks to see all of two hubs, and what the lemma allows."""
    import polars

    rows = []
    for n in sizes:
        graph = two_hubs(n)
        enough, alpha = domination_number(graph).upper, independence_number(graph).upper
        about = {"arms": n, "picks": greedy_dominating_set(graph).size, "enough": enough}
        rows.append({**about, "lemma": (1.0 + math.log(n)) * enough, "independent": alpha})
    return polars.DataFrame(rows)


def three_arms_of_a_stage() -> polars.DataFrame:
    """Return three arms in a stage, all intervals of which hold, and who leaves by which rule."""
    import polars

    state = three_arms()
    out = {}
    for name, printed in ((PAPER, True), (REPAIRED, False)):
        _, out[name] = slack_rule(state.estimates, state.widths, state.budget, state.stage, printed=printed)
    best = np.argsort(np.argsort(-state.means)) < state.budget
    holds = np.abs(state.estimates - state.means) <= state.widths
    about = {"arm": np.arange(3), "mean": state.means, "estimate": state.estimates, "width": state.widths}
    return polars.DataFrame({**about, "holds": holds, "best": best, **out})


def index_ties(cliques: int, horizon: int, budget: int = 4, width: float = 3.0) -> dict[str, Any]:
    """Return in how many rounds two cliques of UCB's failure have the same largest index, and are played together."""
    env = ucb_failure(budget, cliques, horizon=horizon, width=width, seed=SEED)
    policy = CombinatorialUCB(env.graph, budget, width=width, seed=SEED)
    decisions = simulate(policy, env, horizon=horizon, record_decisions=True, checkpoints=1).decisions
    assert decisions is not None
    played = decisions[0] // budget
    counts = np.zeros(cliques)
    tied = 0
    for row in played:
        if counts.all():
            index = np.sort(env.means[::budget] + width / np.sqrt(counts))
            tied += bool(index[-1] - index[-2] < 1e-12)
        counts[np.unique(row)] += 1
    mixed = int((played != played[:, :1]).any(axis=1).sum())
    return {"cliques": cliques, "horizon": horizon, "tied": tied, "mixed": mixed}


class _Forced(LinearEnvironment):
    """Rewards that are possible, though unlikely: nearly a width too little for arm 1, too much for arm 2."""

    def rewards(self, round: int, arms: Any, replication: int = 0) -> NDArray[np.float64]:
        pay: NDArray[np.float64] = np.array([0.97, -0.2375, 0.2375])
        return pay[np.asarray(arms, np.int64)]


def audits(run: bool) -> list[dict[str, Any]]:
    """Return what audits say of two claims that are known to fail; the longer one, of three arms, only if `run`."""
    # Arms 1 and 2 are seen in every round; when the others leave, N jumps over the count of the confirmed arm 0.
    graph = FeedbackGraph.from_edges(6, [(one, other) for one in range(6) for other in (1, 2)])
    env = StochasticEnvironment([1, 1 / 3, 1 / 3, 0, 0, 0], graph, "deterministic", seed=SEED)
    counting = CombinatorialElimination(graph, 2, variant="paper", horizon=800, delta=0.9, seed=SEED)
    found = {(PAPER, COUNTS): audit(counting, env, horizon=800)}
    rounds = 2157
    contexts = np.tile(np.eye(3), (rounds, 1, 1))
    # In the last round the first context is short: small width, and an estimate below the third arm's upper end.
    contexts[-1] = np.diag([0.35 / 0.97, 0.97, 0.97])
    forced = _Forced([0.97, 0.001, -0.001], contexts, seed=SEED)
    for label, variant in ((PAPER, "paper"), (REPAIRED, "repaired")) if run else ():
        policy = HierarchicalElimination(3, 3, 2, horizon=6000, variant=variant, seed=SEED)
        found[label, KEPT] = audit(policy, forced, horizon=rounds)
    rows = []
    for (label, name), one in found.items():
        claim = one[name]
        about = {key: getattr(claim, key) for key in ("status", "checked", "violations", "round", "detail")}
        rows.append({"policy": label, "claim": name, **about, "failures": one.failures})
    return rows
