"""Policies over sets of decisions far too large to list: what a round costs, and what it loses."""

from __future__ import annotations

import time
from collections.abc import Mapping
from typing import NamedTuple

from armtriage import ConstrainedElimination, FeedbackGraph, Policy, StochasticEnvironment, random_constrained
from armtriage.instances import FAMILIES

__all__ = ["ROUNDS", "SETS", "Run", "effort", "instance", "play"]

ROUNDS = 500
SETS: Mapping[str, tuple[str, Mapping[str, int]]] = {
    "30 x 30 matchings": ("assignment", {"left": 30, "right": 30}),
    "trees of 200 nodes, 2,000 edges": ("tree", {"nodes": 200, "edges": 2_000, "seed": 1}),
    "paths, 5,020 edges": ("routing", {"layers": 51, "width": 10}),
    "slates of 1,000 from 100,000": ("categories", {"groups": 1_000, "size": 100}),
}


class Run(NamedTuple):
    """What a policy took and lost: CPU seconds to ask and tell in a mean round and the longest one, and the regret."""

    seconds: float
    longest: float
    regret: float


def instance(what: str, graph: FeedbackGraph | None = None) -> StochasticEnvironment:
    """Return random arms over one of `SETS`; by default an arm reveals itself alone."""
    family, options = SETS[what]
    return random_constrained(FAMILIES[family](**options), graph=graph, seed=1)


def play(policy: Policy, env: StochasticEnvironment, rounds: int) -> Run:
    """Ask and tell, and take the time of the policy alone: some of its questions are asked when it is told."""
    assert env.decisions is not None
    best = env.decisions.maximise(env.means)
    spent, regret = [], 0.0
    for number in range(rounds):
        began = time.thread_time()
        decision = policy.ask()
        asked = time.thread_time()
        rewards = env.rewards(number, decision.revealed)
        again = time.thread_time()
        policy.tell(decision, rewards)
        spent.append(time.thread_time() - again + asked - began)
        regret += float(env.means[best].sum() - env.means[decision.arms].sum())
    return Run(sum(spent) / rounds, max(spent), regret)


def effort(policy: ConstrainedElimination, run: Run) -> str:
    """Say what was asked of the oracle, and what came of it."""
    calls, questions = policy.oracle_calls / ROUNDS, policy.oracle_batches / ROUNDS
    decided = policy.n_arms - policy.triage.active.size
    longest = f"longest {run.longest * 1e3:,.0f} ms"
    return f"{longest}; {calls:,.1f} oracle calls a round in {questions:.2f} questions; {decided:,} arms decided"
