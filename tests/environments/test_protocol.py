"""Environments follow the protocol, and anybody's environment that does is played like them."""

from __future__ import annotations

import warnings
from typing import Any

import numpy as np
import pytest

from armtriage import (
    CombinatorialElimination,
    CombUCB1,
    Environment,
    FeedbackGraph,
    Greedy,
    ReplayEnvironment,
    StochasticEnvironment,
    ThompsonSampling,
    simulate,
)

ONE = FeedbackGraph.semi_bandit(1)
SIX = FeedbackGraph.cliques([2, 1, 3])


@pytest.mark.parametrize("env", [StochasticEnvironment([0.5], ONE, seed=5), ReplayEnvironment([[0.5]], ONE)], ids=str)
def test_environments_follow_the_protocol(env: Any) -> None:
    assert isinstance(env, Environment)


def own_class() -> type:
    """A new class each time, since a kind of environment is warned of once."""

    class Own:
        def __init__(self, inner: StochasticEnvironment) -> None:
            self.inner, self.n_arms, self.graph = inner, inner.n_arms, inner.graph

        def rewards(self, round: int, arms: np.ndarray, replication: int = 0) -> np.ndarray:
            return self.inner.rewards(round, arms, replication)

        def regret(self, arms: np.ndarray) -> float:
            return self.inner.regret(arms)

    return Own


def inner_environment() -> StochasticEnvironment:
    return StochasticEnvironment(np.linspace(0.1, 0.9, 6), SIX, seed=2)


@pytest.mark.parametrize("kind", [CombUCB1, ThompsonSampling, CombinatorialElimination, Greedy])
@pytest.mark.parametrize("fact", ["regret", "decisions"])
def test_own_environment_gives_what_the_compiled_path_gives(fact: str, kind: Any) -> None:
    inner, policy = inner_environment(), kind(SIX, budget=2, seed=3)
    arguments: dict[str, Any] = {"horizon": 150, "replications": 2, "record_decisions": True}
    with pytest.warns(UserWarning, match="Own is not compiled"):
        slow = simulate(policy, own_class()(inner), **arguments)
    assert getattr(slow, fact) == pytest.approx(getattr(simulate(policy, inner, **arguments), fact), abs=1e-9)


def test_own_environment_logs_the_triage_of_the_compiled_path() -> None:
    inner, policy = inner_environment(), CombinatorialElimination(SIX, budget=2, seed=3)
    with pytest.warns(UserWarning, match="Own is not compiled"):
        slow = simulate(policy, own_class()(inner), horizon=400)
    fast = simulate(policy, inner, horizon=400)
    assert [part.tolist() for part in slow.triage[0]] == [part.tolist() for part in fast.triage[0]]


def test_own_environment_is_warned_of_once() -> None:
    env, policy = own_class()(inner_environment()), CombUCB1(SIX, budget=2)
    with warnings.catch_warnings(record=True) as caught:
        warnings.simplefilter("always")
        for _ in range(3):
            simulate(policy, env, horizon=5, replications=2)
    assert len(caught) == 1


def test_warning_points_at_the_line_that_called_simulate() -> None:
    with warnings.catch_warnings(record=True) as caught:
        warnings.simplefilter("always")
        simulate(CombUCB1(SIX, budget=2), own_class()(inner_environment()), horizon=5)
    assert caught[0].filename == __file__
