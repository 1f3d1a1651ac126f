"""Policies over sets of decisions far too large to list: what a round costs, and what it loses."""

from __future__ import annotations

import time
from collections.abc import Mapping
from typing import Any, NamedTuple

import numpy as np
from numpy.typing import NDArray

from armtriage import (
    ConstrainedElimination,
    FeedbackGraph,
    Policy,
    StochasticEnvironment,
    random_constrained,
    simulate,
)
from armtriage.decisions.compiled import compiled_oracle
from armtriage.instances import FAMILIES
from armtriage.kernels.jit import bind

__all__ = ["LARGE", "ROUNDS", "SETS", "SMALL", "Run", "Simulated", "effort", "instance", "play", "simulated"]

ROUNDS = 500
SETS: Mapping[str, tuple[str, Mapping[str, int]]] = {
    "30 x 30 matchings": ("assignment", {"left": 30, "right": 30}),
    "trees of 200 nodes, 2,000 edges": ("tree", {"nodes": 200, "edges": 2_000, "seed": 1}),
    "paths, 5,020 edges": ("routing", {"layers": 51, "width": 10}),
    "slates of 1,000 from 100,000": ("categories", {"groups": 1_000, "size": 100}),
}

Sets = Mapping[str, tuple[str, Mapping[str, int]]]
SMALL: Sets = {
    "slates, 8 groups of 9": ("categories", {"groups": 8, "size": 9}),
    "matchings 8 x 20": ("assignment", {"left": 8, "right": 20}),
    "trees, 24 nodes, 90 edges": ("tree", {"nodes": 24, "edges": 90, "seed": 1}),
    "routes on a 9 x 5 grid": ("grid", {"rows": 9, "columns": 5}),
    "bags of 45 items": ("knapsack", {"items": 45, "capacity": 120, "seed": 1}),
}
LARGE: Sets = {
    "slates, 100 groups of 20": ("categories", {"groups": 100, "size": 20}),
    **{what: SETS[what] for what in list(SETS)[:3]},
}
"""Families that `simulate` plays in compiled code."""


class Run(NamedTuple):
    """What a policy took and lost: CPU seconds to ask and tell in a mean round and the longest one, and the regret."""

    seconds: float
    longest: float
    regret: float


class Simulated(NamedTuple):
    """CPU seconds of a round: simulated, asked and told from Python, and what one question to the oracle takes."""

    compiled: float
    asked: float
    oracle: float


def instance(what: str, graph: FeedbackGraph | None = None) -> StochasticEnvironment:
    """Return random arms over one of the sets; by default an arm reveals itself alone."""
    family, options = {**SMALL, **LARGE, **SETS}[what]
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


def _answer(oracle: Any, weights: NDArray[np.float64], arms: NDArray[np.int64]) -> int:
    """Stand for an oracle, which `bind` puts here."""
    raise NotImplementedError


def _ask_all(oracle: Any, weights: NDArray[np.float64], arms: NDArray[np.int64]) -> None:
    """Ask about each row of weights, in compiled code."""
    for i in range(len(weights)):
        _answer(oracle, weights[i], arms)


def simulated(policy: Policy, env: StochasticEnvironment, rounds: int) -> Simulated:
    """Play the same rounds in both ways, in turns, and take the least of three times each."""
    assert env.decisions is not None
    oracle = compiled_oracle(env.decisions, 0.0)
    assert oracle is not None
    weights, arms = np.random.default_rng(1).random((200, env.n_arms)), np.zeros(env.decisions.size, np.int64)
    ask_all = bind(_ask_all, f"ask_all_{oracle.best.__name__}", _answer=oracle.best)
    simulate(policy, env, horizon=5, workers=1)
    ask_all(oracle.record, weights[:1], arms)
    compiled, asked, asking = [], [], []
    for _ in range(3):
        began = time.thread_time()
        simulate(policy, env, horizon=rounds, workers=1, checkpoints=1)
        compiled.append((time.thread_time() - began) / rounds)
        fresh = policy.fresh()
        began = time.thread_time()
        for number in range(rounds):
            decision = fresh.ask()
            fresh.tell(decision, env.rewards(number, decision.revealed))
        asked.append((time.thread_time() - began) / rounds)
        began = time.thread_time()
        ask_all(oracle.record, weights, arms)
        asking.append((time.thread_time() - began) / len(weights))
    return Simulated(min(compiled), min(asked), min(asking))
