"""Arguments of policies as scikit-learn has them: read, changed before the first decision, cloned."""

from __future__ import annotations

from typing import Any

import numpy as np
import pytest

from armtriage import CombUCB1, ContextualPolicy, FeedbackGraph, GuardedLinear, Matchings, ThompsonSampling
from conftest import POLICIES, every_policy


def asked(policy: Any, times: int) -> list[list[int]]:
    """Return the decisions of a policy to which rewards come that say what was chosen."""
    made = []
    for number in range(times):
        if isinstance(policy, ContextualPolicy):
            rows = np.random.default_rng(number).uniform(-0.4, 0.4, (policy.n_arms, policy.dimension))
            decision = policy.ask(rows)
        else:
            decision = policy.ask()
        policy.tell(decision, (decision.revealed % 3) / 2)
        made.append(decision.arms.tolist())
    return made


@pytest.mark.thorough  # imports scikit-learn, which takes longer than the other tests of this file
@every_policy
def test_a_clone_has_the_arguments_and_nothing_of_what_was_learned(name: str) -> None:
    base = pytest.importorskip("sklearn.base", reason="scikit-learn is not installed")
    policy = POLICIES[name].make()
    first = asked(policy, 5)
    clone = base.clone(policy)
    assert type(clone) is type(policy)
    assert (clone.asked, policy.asked) == (0, 5)
    assert list(clone.get_params()) == list(policy.get_params())
    assert {key: repr(one) for key, one in clone.get_params().items() if key != "proposer"} == {
        key: repr(one) for key, one in policy.get_params().items() if key != "proposer"
    }
    assert asked(clone, 5) == first


@every_policy
def test_arguments_that_are_set_are_those_of_the_constructor(name: str) -> None:
    policy = POLICIES[name].make(seed=3)
    assert policy.set_params(seed=11) is policy
    assert asked(policy, 5) == asked(POLICIES[name].make(seed=11), 5)


def test_a_graph_or_its_size_can_be_set() -> None:
    policy = CombUCB1(5, budget=2, seed=7).set_params(graph=FeedbackGraph.full_information(4), exploration=0.5)
    assert (policy.n_arms, policy.exploration, policy.ask().revealed.tolist()) == (4, 0.5, [0, 1, 2, 3])
    assert CombUCB1(5, budget=2).set_params(graph=9).n_arms == 9
    plans = Matchings(2, 2)
    assert ThompsonSampling(4, budget=2).set_params(budget=None, decisions=plans).decisions is plans


def test_what_is_refused_changes_nothing() -> None:
    policy = GuardedLinear(4, dimension=3, budget=2, seed=7)
    before = policy.digest()
    with pytest.raises(ValueError, match=r"'budgets' is no argument of GuardedLinear, which takes .*budget"):
        policy.set_params(budgets=3)
    with pytest.raises(ValueError, match="delta must be"):
        policy.set_params(delta=2.0)
    assert policy.digest() == before
    policy.ask(np.eye(4, 3))
    with pytest.raises(ValueError, match=r"before the first decision, this policy has made 1: .*fresh"):
        policy.set_params(delta=0.1)
    assert policy.config["delta"] == 0.01
