"""The compiled loops: one machine code for all problems."""

from __future__ import annotations

import numpy as np
import pytest

from armtriage import FeedbackGraph, LinearEnvironment, ReplayEnvironment, StochasticEnvironment, simulate
from armtriage.simulation.loop import linear_loop
from armtriage.simulation.slates import slate_loop
from conftest import POLICIES, PROBLEMS, SIMPLE, with_face

COMPILED = [name for name in with_face("arms", SIMPLE) if POLICIES[name].in_loop]
SHAPES = [(1, 1, 1), (5, 1, 2), (5, 3, 1), (4, 2, 4), (4, 9, 3), (40, 5, 7), (3, 70, 2)]


@pytest.mark.parametrize("name", COMPILED)
def test_loop_is_compiled_once_for_all_problems(name: str) -> None:
    graphs = [
        FeedbackGraph.semi_bandit(1),
        FeedbackGraph.semi_bandit(300),
        FeedbackGraph.full_information(5),
        FeedbackGraph.threshold(6),
        FeedbackGraph.erdos_renyi(90, 0.9, seed=1),
        FeedbackGraph.from_edges(7, []),
    ]
    before = slate_loop.cache_info().misses
    for graph in graphs:
        policy = POLICIES[name].make(graph=graph, budget=min(2, graph.n_arms))
        groups, means = np.zeros(graph.n_arms, int), np.full(graph.n_arms, 0.5)
        for env in (
            StochasticEnvironment(means, graph, seed=5),
            StochasticEnvironment(means, graph, "beta", noise_groups=groups, seed=1),
            ReplayEnvironment(np.ones((30, graph.n_arms)), graph),
        ):
            simulate(policy, env, horizon=30, replications=2, record_decisions=graph.n_arms < 10)
    assert slate_loop.cache_info().misses <= before + 1


@pytest.mark.parametrize("name", [name for name in with_face("arms") if name.startswith(("tight", "paper", "Guarded"))])
def test_loop_is_compiled_once_for_all_variants(name: str) -> None:
    before = slate_loop.cache_info().misses
    kind, env = POLICIES[name].kind, PROBLEMS["arms"].environment
    for policy in (kind(env.graph, 3), POLICIES[name].make(reward_range=(-1, 3))):
        simulate(policy, env, horizon=30)
    assert slate_loop.cache_info().misses <= before + 1


@pytest.mark.parametrize("name", with_face("contexts", SIMPLE))
def test_loop_with_contexts_is_compiled_once_for_all_worlds(name: str) -> None:
    before = linear_loop.cache_info().misses
    rows = np.random.default_rng(0).uniform(-0.5, 0.5, (20, 6, 3))
    for contexts in ("sphere", "cube", rows[0], rows, lambda number, replication: rows[(number + replication) % 20]):
        for reward in ("binary", "uniform", "deterministic"):
            env = LinearEnvironment([0.7, -0.4, 0.3], contexts, 6, reward, noise="shared", seed=3)
            policy = POLICIES[name].make()
            simulate(policy, env, horizon=20, replications=2, record_decisions=reward == "binary")
            simulate(POLICIES[name].make(context_bound=3.0, reward_range=(-1, 2)), env, horizon=20)
    for n_arms, dimension, budget in SHAPES:
        policy = POLICIES[name].make(n_arms=n_arms, dimension=dimension, budget=budget)
        simulate(policy, LinearEnvironment(0.8 * np.eye(dimension)[0], "cube", n_arms, seed=3), horizon=20)
    assert linear_loop.cache_info().misses <= before + 1
