"""Random instances follow their seed, and the graphs by name are what they are called."""

import numpy as np
import pytest

from armtriage import FeedbackGraph, LinearEnvironment
from armtriage.instances import GRAPHS, random_bernoulli, random_linear


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


def test_random_tournaments():
    graph = GRAPHS["tournament"](n_arms=40, seed=3)
    matrix = graph.to_sparse().toarray()
    assert np.array_equal(matrix ^ matrix.T, ~np.eye(40, dtype=bool))
    assert graph == GRAPHS["tournament"](n_arms=40, seed=3) != GRAPHS["tournament"](n_arms=40, seed=4)
    # 780 fair coins: off by more than 100 with probability below 1e-11.
    assert abs(int(np.triu(matrix, 1).sum()) - 390) < 100
    assert GRAPHS["tournament"](n_arms=1).n_arms == 1
    with pytest.raises(ValueError, match="n_arms must be a whole number from 1 to 10000, got 10001"):
        GRAPHS["tournament"](n_arms=10_001)


def test_random_theta_comes_from_the_seed():
    env = random_linear(6, 4, norm=0.7, seed=11)
    direction = np.random.default_rng(11).standard_normal(4)
    assert env.theta == pytest.approx(0.7 * direction / np.linalg.norm(direction))
    assert (env.n_arms, env.dimension, env.seed, env.reward, env.noise) == (6, 4, 11, "binary", "independent")
    assert np.linalg.norm(env.contexts(3), axis=1) == pytest.approx(np.ones(6))
    assert random_linear(6, 4).seed != random_linear(6, 4).seed
    assert not random_linear(6, 4, norm=0.0).means(0).any()


def test_random_directions_favour_no_coordinate():
    thetas = np.array([random_linear(1, 3, seed=seed).theta for seed in range(600)])
    assert np.linalg.norm(thetas, axis=1) == pytest.approx(np.ones(600))
    assert thetas.mean(axis=0) == pytest.approx(np.zeros(3), abs=0.1)
    assert (thetas**2).mean(axis=0) == pytest.approx(np.full(3, 1 / 3), abs=0.05)


def test_random_takes_every_option_of_the_environment():
    env = random_linear(5, 2, norm=0.5, contexts="cube", reward="uniform", half_width=0.25, noise="shared", seed=2)
    same = LinearEnvironment(env.theta, "cube", 5, "uniform", half_width=0.25, noise="shared", seed=2)
    assert np.array_equal(env.contexts(7, 1), same.contexts(7, 1))
    assert np.array_equal(env.rewards(7, np.arange(5), 1), same.rewards(7, np.arange(5), 1))
    assert random_linear(5, 2, norm=0.5, reward="uniform").half_width == pytest.approx(0.5)


@pytest.mark.parametrize(
    ("options", "error", "says"),
    [
        ({"norm": 1.1}, ValueError, "norm must be a number from 0 to 1, got 1.1"),
        ({"norm": -0.1}, ValueError, "norm must be .* from 0, got -0.1"),
        ({"norm": float("nan")}, ValueError, "norm must be .* got nan"),
        ({"norm": "1"}, TypeError, "norm must be .* got '1'"),
        ({"reward": "uniform"}, ValueError, "norm must be below 1 to leave room for uniform rewards"),
        ({"reward": "gamma"}, ValueError, "reward must be one of .*, got 'gamma'"),
        ({"contexts": "ball"}, ValueError, "contexts must be one of sphere, cube, got 'ball'"),
        ({"noise": "loud"}, ValueError, "noise must be one of independent, shared, got 'loud'"),
        ({"half_width": 0.1}, ValueError, "half_width is for reward='uniform'"),
        ({"dimension": 0}, ValueError, "dimension must be a whole number from 1, got 0"),
        ({"n_arms": 0}, ValueError, "n_arms must be a whole number from 1"),
        ({"seed": -1}, ValueError, "seed must be"),
    ],
)
def test_random_linear_refuses(options, error, says):
    with pytest.raises(error, match=says):
        random_linear(**{"n_arms": 3, "dimension": 2, **options})
