"""Worlds in their own units: ranges other than [0, 1], and costs instead of rewards."""

from __future__ import annotations

from itertools import combinations
from typing import Any

import networkx as nx
import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

from armtriage import Explicit, FeedbackGraph, LinearEnvironment, Paths, ReplayEnvironment, StochasticEnvironment

LAWS = ("bernoulli", "deterministic", "uniform", "beta")
MEANS = np.linspace(0.05, 0.95, 6)
ARMS = np.arange(6)


@pytest.mark.parametrize("reward", LAWS)
def test_a_world_of_costs_is_the_mirror_of_one_of_rewards(reward: str) -> None:
    rewards = StochasticEnvironment(MEANS, 6, reward, seed=3)
    costs = StochasticEnvironment(10 - 8 * MEANS, 6, reward, seed=3, reward_range=(2, 10), direction="minimize")
    for t in range(20):
        np.testing.assert_allclose(costs.rewards(t, ARMS), 10 - 8 * rewards.rewards(t, ARMS), rtol=1e-12)
    for arms in combinations(range(6), 2):
        assert costs.regret(arms) == pytest.approx(8 * rewards.regret(arms), abs=1e-12)
    assert costs.regret([4, 5]) == 0.0


@pytest.mark.parametrize("reward", LAWS)
def test_a_range_stretches_rewards(reward: str) -> None:
    unit = StochasticEnvironment(MEANS, 6, reward, seed=3)
    euros = StochasticEnvironment(50 * MEANS - 20, 6, reward, seed=3, reward_range=(-20, 30))
    np.testing.assert_allclose(euros.rewards(4, ARMS), 50 * unit.rewards(4, ARMS) - 20, rtol=1e-12, atol=1e-12)
    assert euros.regret([0, 5]) == pytest.approx(50 * unit.regret([0, 5]))


@given(
    st.floats(-1e3, 1e3),
    st.floats(1e-3, 1e4),
    st.sampled_from(["maximize", "minimize"]),
    st.sampled_from(LAWS),
)
def test_rewards_never_leave_their_range_and_coins_show_its_ends(
    low: float, width: float, direction: str, reward: str
) -> None:
    high = low + width
    means = np.clip(low + width * np.array([0.0, 0.3, 0.7, 1.0]), low, high)
    env = StochasticEnvironment(means, 4, reward, seed=1, reward_range=(low, high), direction=direction)
    drawn = np.array([env.rewards(t, range(4)) for t in range(30)])
    assert drawn.min() >= low
    assert drawn.max() <= high
    if reward == "bernoulli":
        assert set(drawn.ravel()) == {low, high}


def test_the_least_cost_decides_where_decisions_differ_in_size() -> None:
    rng = np.random.default_rng(2)
    menus = Explicit([[0, 1, 2], [3], [1, 4], [2, 5], [0, 3, 4, 5]])
    means = rng.uniform(3, 9, 6)
    env = StochasticEnvironment(means, 6, decisions=menus, reward_range=(3, 9), direction="minimize")
    least = min(means[arms].sum() for arms in menus)
    for arms in menus:
        assert env.regret(arms) == pytest.approx(means[arms].sum() - least, abs=1e-12)
    assert env.regret(menus.maximise(-means)) == 0.0


def test_regret_on_a_network_with_cycles_is_against_the_cheapest_route() -> None:
    streets = Paths.from_networkx(nx.grid_2d_graph(3, 3), (0, 0), (2, 2))
    means = np.random.default_rng(3).uniform(1, 5, streets.n_arms)
    env = StochasticEnvironment(means, 12, decisions=streets, reward_range=(1, 5), direction="minimize", seed=1)
    least = min(means[arms].sum() for arms in streets)
    assert max(abs(env.regret(arms) - means[arms].sum() + least) for arms in streets) < 1e-12
    with pytest.raises(ValueError, match="direction must be 'minimize' and reward_range from 0 for a network"):
        StochasticEnvironment(means, 12, decisions=streets, reward_range=(1, 5))


def test_replayed_costs_are_compared_with_the_cheapest_decision_in_hindsight() -> None:
    outcomes = np.random.default_rng(4).uniform(5, 20, (40, 5))
    env = ReplayEnvironment(outcomes, 5, reward_range=(5, 20), direction="minimize")
    best = np.sort(np.argsort(outcomes.mean(axis=0))[:2])
    assert env.regret(best) == 0.0
    assert env.regret([0, 1]) == pytest.approx(outcomes[:, :2].sum(1).mean() - outcomes[:, best].sum(1).mean())
    assert repr(env) == "ReplayEnvironment(40 rounds, 5 arms, reward_range=(5.0, 20.0), direction='minimize')"
    with pytest.raises(ValueError, match=r"outcomes must lie in \[6, 20\], got 5\..* in round"):
        ReplayEnvironment(outcomes, 5, reward_range=(6, 20))


@pytest.mark.parametrize("reward", ["binary", "uniform", "deterministic"])
def test_linear_costs_are_the_mirror_of_linear_rewards(reward: str) -> None:
    theta = np.array([0.5, -0.25, 0.125])
    unit = LinearEnvironment(theta, "cube", 6, reward, seed=3)
    costs = LinearEnvironment(-16 * theta, "cube", 6, reward, seed=3, reward_range=(-16, 16), direction="minimize")
    for t in range(10):
        assert np.array_equal(costs.contexts(t), unit.contexts(t))
        np.testing.assert_allclose(costs.means(t), costs.contexts(t) @ costs.theta, atol=1e-12)
        np.testing.assert_allclose(costs.rewards(t, ARMS), -16 * unit.rewards(t, ARMS), rtol=1e-12)
        assert costs.regret(t, [0, 3]) == pytest.approx(16 * unit.regret(t, [0, 3]))
    assert costs.noise_scale == pytest.approx(16 * unit.noise_scale)


def test_units_are_shown_where_they_are_not_the_usual_ones() -> None:
    env = StochasticEnvironment([4.0], 1, reward_range=(2, 8), direction="minimize", seed=5)
    units = "reward_range=(2.0, 8.0), direction='minimize'"
    assert repr(env) == f"StochasticEnvironment(1 arms, reward='bernoulli', {units}, seed=5)"


@pytest.mark.parametrize(
    ("change", "message"),
    [
        ({"means": [0.5, 3]}, r"means must lie in \[1, 4\], got 0.5 for arm 0"),
        ({"reward_range": (4, 1)}, r"reward_range must be two finite numbers, the smaller first, got \(4, 1\)"),
        ({"reward_range": 3}, "reward_range must be two finite numbers"),
        ({"direction": "down"}, "direction must be one of maximize, minimize, got 'down'"),
    ],
)
def test_bad_units_are_refused(change: dict[str, Any], message: str) -> None:
    with pytest.raises((TypeError, ValueError), match=message):
        StochasticEnvironment(
            **{"means": [2, 3], "graph": FeedbackGraph.semi_bandit(2), "reward_range": (1, 4)} | change
        )


@pytest.mark.parametrize(
    ("change", "message"),
    [
        ({"reward_range": (0, 2)}, r"reward_range must be \(-r, r\) for linear rewards, got \(0, 2\)"),
        ({"reward_range": (-0.5, 0.5)}, "theta must be finite with norm at most 0.5, got norm 0.6"),
        ({"direction": 1}, "direction must be one of maximize, minimize, got 1"),
    ],
)
def test_bad_units_of_linear_rewards_are_refused(change: dict[str, Any], message: str) -> None:
    with pytest.raises(ValueError, match=message):
        LinearEnvironment([0.6, 0.0], "cube", 3, **change)
