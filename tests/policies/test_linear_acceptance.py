"""What GuardedLinear must reach beside others, on means over several worlds; minutes, so `make test-long` plays it."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import numpy as np
import pytest

from armtriage import (
    C2UCB,
    GuardedLinear,
    LinearEnvironment,
    LinearThompsonSampling,
    StochasticEnvironment,
    ThompsonSampling,
    random_linear,
    random_slates,
    simulate,
)

pytestmark = pytest.mark.long
RUNS = 8


def regret(kind: Any, worlds: list[Any], budget: int, horizon: int, **options: Any) -> float:
    """The mean over worlds that differ in everything."""
    lost = []
    for seed, env in enumerate(worlds):
        policy = kind(env.n_arms, env.dimension, budget, seed=seed, reward_range=env.reward_range, **options)
        lost.append(simulate(policy, env, horizon=horizon, checkpoints=[horizon], workers=1).regret[0, -1])
    return float(np.mean(lost))


def worlds_of(make: Callable[[int], LinearEnvironment]) -> list[LinearEnvironment]:
    return [make(seed) for seed in range(1, RUNS + 1)]


def test_sphere() -> None:
    worlds = worlds_of(lambda seed: random_linear(100, 10, seed=seed))
    mine, optimism = (regret(kind, worlds, 5, 20_000) for kind in (GuardedLinear, C2UCB))
    assert mine <= 260.0
    assert mine <= 1.15 * optimism


def test_fixed_contexts() -> None:
    worlds = worlds_of(lambda seed: random_slates("fixed", 100, 10, seed=seed))
    mine, sampling = (regret(kind, worlds, 5, 20_000) for kind in (GuardedLinear, LinearThompsonSampling))
    assert mine <= 520.0
    assert mine < sampling


def test_one_hot_clicks_are_no_worse_than_without_contexts() -> None:
    worlds = worlds_of(lambda seed: random_slates("one_hot", 40, 40, seed=seed))
    longest = worlds[0].norm_bound
    mine = regret(GuardedLinear, worlds, 5, 5000, norm_bound=longest)
    plain = []
    for seed, env in enumerate(worlds):
        world = StochasticEnvironment(env.theta, 40, seed=seed)
        plain.append(simulate(ThompsonSampling(40, 5, seed=seed), world, horizon=5000, workers=1).regret[0, -1])
    assert mine <= 480.0
    assert mine <= 1.1 * float(np.mean(plain))


def test_rare_clicks() -> None:
    worlds = worlds_of(lambda seed: random_slates("clicks", 100, 20, seed=seed))
    assert regret(GuardedLinear, worlds, 5, 10_000) <= 200.0


@pytest.mark.parametrize(("horizon", "quiet", "most"), [(8000, False, 3500.0), (4000, True, 50.0)])
def test_certificates_are_tight_where_contexts_are_fresh(horizon: int, quiet: bool, most: float) -> None:
    noise: dict[str, Any] = {"norm": 0.9, "reward": "uniform", "half_width": 0.1} if quiet else {}
    env = random_linear(50, 10, seed=1, **noise)
    policy = GuardedLinear(50, 10, 5, noise_scale=env.noise_scale, seed=7)
    trace = simulate(policy, env, horizon=horizon, replications=2, certificate=True, workers=1)
    assert trace.certificate is not None
    assert np.all(trace.certificate[:, -1] <= most)
    assert np.all(trace.regret <= trace.certificate)


def test_no_round_is_forced_where_nothing_is_wrong() -> None:
    for family, (n_arms, dimension, budget) in {
        "cube": (60, 30, 10),
        "fixed": (150, 15, 3),
        "few": (20, 30, 3),
    }.items():
        env = random_slates(family, n_arms, dimension, seed=1)
        policy = GuardedLinear(n_arms, dimension, budget, seed=7)
        for t in range(2000):
            decision = policy.ask(env.contexts(t))
            policy.tell(decision, env.rewards(t, decision.arms))
        assert policy.account.forced_rounds == 0
