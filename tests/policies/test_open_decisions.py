"""Decisions that are open: arms that come meanwhile, the order of their rewards, and when they are closed."""

from __future__ import annotations

from typing import Any

import pytest

from armtriage import FeedbackGraph, Policy
from conftest import POLICIES, with_face

CHANGING = [name for name in with_face("arms") if not name.startswith("paper")]


@pytest.mark.parametrize("edges", [False, True])
@pytest.mark.parametrize("parts", [False, True])
@pytest.mark.parametrize("name", [name for name in CHANGING if "-" not in name])
def test_rewards_of_a_decision_are_learned_though_an_arm_came_meanwhile(name: str, parts: bool, edges: bool) -> None:
    policies = [POLICIES[name].make(graph=FeedbackGraph.semi_bandit(4), budget=2) for _ in range(2)]
    for policy, looks in zip(policies, (True, False), strict=True):
        first, second = policy.ask(), policy.ask()
        policy.add_arms(1, shows={4: [0]} if edges else None)
        if looks:
            assert policy.tally.counts.tolist() == [0] * 5
        policy.tell(first, {int(first.arms[0]): 1.0}, last=not parts)
        policy.close(second, default=0)
        if parts:
            policy.close(first)
        assert policy.tally.counts.sum() == 3
        assert Policy.from_bytes(policy.to_bytes()).digest() == policy.digest()
    assert policies[0].digest() == policies[1].digest()


@pytest.mark.parametrize("name", ["ThompsonSampling", "tight", "Guard"])
def test_arms_that_are_refused_change_nothing(name: str) -> None:
    policy: Any = POLICIES[name].make()
    policy.tell(policy.ask(), {})
    before = policy.digest()
    for wrong in ({"names": ["jam"]}, {"names": 1, "shows": {0: [1]}}, {"names": 0}):
        with pytest.raises(ValueError, match=r"names|new arms"):
            policy.add_arms(**wrong)
    assert policy.digest() == before
