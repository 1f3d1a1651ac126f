import numpy as np
import pytest

from armtriage import FeedbackGraph
from armtriage.instances import GRAPHS, NOISES, random_bernoulli, ucb_failure


def test_random_means_come_from_the_seed():
    graph = FeedbackGraph.cliques([3, 4])
    env = random_bernoulli(graph, low=0.2, high=0.6, seed=11)
    assert np.array_equal(env.means, np.random.default_rng(11).uniform(0.2, 0.6, 7))
    assert env.seed == 11
    assert env.graph == graph
    assert env.reward == "bernoulli"
    assert random_bernoulli(graph).seed != random_bernoulli(graph).seed


@pytest.mark.parametrize(
    ("options", "error", "says"),
    [
        (
            {"low": 0.7, "high": 0.6},
            ValueError,
            "low and high must satisfy 0 <= low <= high <= 1, got 0.7 and 0.6",
        ),
        ({"low": -0.1}, ValueError, "low and high .* got -0.1"),
        ({"high": float("nan")}, ValueError, "low and high .* nan"),
        ({"high": "1"}, TypeError, "high must be a number, got '1'"),
        ({"reward": "cauchy"}, ValueError, "reward must be one of .* got 'cauchy'"),
        ({"seed": -1}, ValueError, "seed must be"),
    ],
)
def test_random_refuses(options, error, says):
    with pytest.raises(error, match=says):
        random_bernoulli(FeedbackGraph.semi_bandit(2), **options)


def test_random_needs_a_graph():
    with pytest.raises(TypeError, match="graph must be a FeedbackGraph, got int"):
        random_bernoulli(3)


def test_failure_means_by_hand():
    # L = 6, alpha = 4, T = 900: D = 6 sqrt(4 / 3600) = 0.2 and e = 6 / sqrt(16 * 900) = 0.05.
    env = ucb_failure(2, 4, horizon=900, width=6.0, n_arms=10)
    assert env.means == pytest.approx([0.7, 0.7, 0.45, 0.45, 0.4, 0.4, 0.35, 0.35, 0.0, 0.0])
    assert env.graph == FeedbackGraph.cliques([2, 2, 2, 4])
    assert env.reward == "deterministic"
    assert env.regret([0, 1]) == 0.0
    assert env.regret([2, 3]) == pytest.approx(0.5)


def test_failure_width_is_the_policys_own():
    from armtriage import CombinatorialUCB

    env = ucb_failure(4, 4, horizon=5000, delta=0.05)
    width = CombinatorialUCB(env.graph, 4, horizon=5000, delta=0.05).width
    assert env.means[0] == pytest.approx(0.5 + width * np.sqrt(4 / 20_000))


@pytest.mark.parametrize("alpha", [2, 3, 50])
def test_failure_means_reach_the_ends_at_the_least_horizon(alpha):
    env = ucb_failure(1, alpha, horizon=alpha * 9, width=3.0)
    assert env.means[0] == pytest.approx(1.0)
    assert env.means.min() >= 0.0


@pytest.mark.parametrize(
    ("arguments", "options", "says"),
    [
        ((2, 1), {}, "alpha must be a whole number from 2"),
        ((0, 2), {}, "budget must be a whole number from 1"),
        ((2, 3), {"n_arms": 5}, r"n_arms must be at least budget \* alpha = 6, got 5"),
        ((2, 3), {"noise": "loud"}, "noise must be one of deterministic, shared, independent, got 'loud'"),
        ((2, 3), {"width": 0.0}, "width must be a positive number, got 0.0"),
        ((2, 3), {"width": float("inf")}, "width must be a positive number, got inf"),
        ((2, 3), {"delta": 1.0}, "delta must be a number strictly between 0 and 1, got 1.0"),
        (
            (2, 3),
            {"horizon": 26, "width": 3.0},
            r"horizon must be at least alpha \* width\*\*2 = 27 .* got 26",
        ),
        ((2, 3), {"horizon": 0}, "horizon must be a whole number from 1"),
    ],
)
def test_failure_refuses(arguments, options, says):
    with pytest.raises(ValueError, match=says):
        ucb_failure(*arguments, **{"horizon": 10_000, **options})


def _rewards(noise, rounds=2000):
    env = ucb_failure(3, 3, horizon=10_000, noise=noise, seed=5)
    return env, np.array([env.rewards(t, np.arange(9)) for t in range(rounds)]).reshape(rounds, 3, 3)


def test_deterministic_rewards_are_the_means():
    env, rewards = _rewards("deterministic", 3)
    assert np.array_equal(rewards.reshape(3, 9), np.tile(env.means, (3, 1)))


def test_shared_noise_is_equal_inside_a_clique_and_not_across():
    env, rewards = _rewards("shared")
    assert np.all(rewards == rewards[:, :, :1])
    assert abs(np.corrcoef(rewards[:, 0, 0], rewards[:, 1, 0])[0, 1]) < 0.1
    assert rewards.mean(axis=0).ravel() == pytest.approx(env.means, abs=0.05)


def test_independent_noise_differs_inside_a_clique():
    env, rewards = _rewards("independent")
    assert set(np.unique(rewards)) == {0.0, 1.0}
    assert abs(np.corrcoef(rewards[:, 0, 0], rewards[:, 0, 1])[0, 1]) < 0.1
    assert rewards.mean(axis=0).ravel() == pytest.approx(env.means, abs=0.05)


def test_every_noise_is_known():
    assert {ucb_failure(1, 2, horizon=100, noise=noise, width=1.0).n_arms for noise in NOISES} == {2}


def test_graph_families():
    assert GRAPHS["semi_bandit"](n_arms=3) == FeedbackGraph.semi_bandit(3)
    assert GRAPHS["full_information"](n_arms=3) == FeedbackGraph.full_information(3)
    assert GRAPHS["cliques"](n_arms=7, size=3) == FeedbackGraph.cliques([3, 3, 1])
    assert GRAPHS["cliques"](n_arms=6, size=3) == FeedbackGraph.cliques([3, 3])
    assert GRAPHS["threshold"](n_arms=4, direction="down") == FeedbackGraph.threshold(4, "down")
    assert GRAPHS["erdos_renyi"](n_arms=9, p=0.3, seed=2) == FeedbackGraph.erdos_renyi(9, 0.3, 2)
    star = GRAPHS["star"](n_arms=4)
    assert star.revealed_by(0).tolist() == [0, 1, 2, 3]
    assert star.revealed_by(2).tolist() == [0, 2]
    assert GRAPHS["star"](n_arms=4, undirected=False).revealed_by(2).tolist() == [2]
    assert GRAPHS["star"](n_arms=1).n_arms == 1
    with pytest.raises(ValueError, match="size must be a whole number from 1 to 4, got 5"):
        GRAPHS["cliques"](n_arms=4, size=5)
