"""Worlds as environments of Gymnasium: its own checker, our rewards, and what is refused."""

from __future__ import annotations

import doctest
import importlib.util
from typing import Any

import numpy as np
import pytest

from armtriage import (
    FeedbackGraph,
    LinearEnvironment,
    StochasticEnvironment,
    TopS,
    gym_environment,
    random_bernoulli,
)

needed = pytest.mark.skipif(importlib.util.find_spec("gymnasium") is None, reason="gymnasium is not installed")


@needed
@pytest.mark.filterwarnings("ignore")  # the checker advises
def test_the_checker_of_gymnasium_finds_nothing() -> None:
    from gymnasium.utils.env_checker import check_env

    check_env(
        gym_environment(random_bernoulli(FeedbackGraph.cliques([3, 3]), seed=7), budget=2), skip_render_check=True
    )


@needed
def test_steps_are_rounds_of_the_world() -> None:
    graph = FeedbackGraph.from_edges(4, [(0, 1)])
    world = StochasticEnvironment([2.0, 6.0, 8.0, 9.0], graph, reward_range=(0, 10), direction="minimize", seed=7)
    env = gym_environment(world, budget=2, horizon=3)
    env.reset(seed=5)
    for number in range(3):
        seen, earned, terminated, truncated, info = env.step([1.0, 0.0, 1.0, 0.5])
        rewards = world.rewards(number, [0, 1, 2], 5)
        assert seen["seen"].tolist() == [1, 1, 1, 0]
        assert seen["rewards"].tolist() == [*rewards, 0.0]
        assert earned == -(rewards[0] + rewards[2])
        assert (terminated, truncated) == (False, number == 2)
        assert (info["arms"].tolist(), info["regret"]) == ([0, 2], world.regret([0, 2]))
    env.reset()
    assert env.step(np.ones(4))[0]["rewards"][0] == world.rewards(0, [0], 6)[0]
    with pytest.raises(ValueError, match="action must be a score for each of the 4 arms"):
        env.step([1.0, 2.0])


@needed
def test_the_example_of_the_docstring_runs() -> None:
    text = (gym_environment.__doc__ or "").replace("# doctest: +SKIP", "")
    test = doctest.DocTestParser().get_doctest(text, {}, "gym_environment", None, 0)
    assert doctest.DocTestRunner(optionflags=doctest.NORMALIZE_WHITESPACE).run(test).failed == 0


@pytest.mark.parametrize(
    ("world", "error"),
    [
        (StochasticEnvironment([0.5] * 3, 3, decisions=TopS(3, 2)), ValueError),
        (LinearEnvironment([0.7, -0.4], "cube", 6, seed=3), TypeError),
        (None, TypeError),
    ],
)
def test_other_worlds_are_refused(world: Any, error: type[Exception]) -> None:
    with pytest.raises(error, match="environment must"):
        gym_environment(world, budget=2)
