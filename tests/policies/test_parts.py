"""Rewards in parts: what is told before a decision is closed, and what waits for it."""

from __future__ import annotations

from typing import Any

import numpy as np
import pytest

from armtriage import (
    C2UCB,
    AlreadyTold,
    CombinatorialElimination,
    Guard,
    GuardedThompson,
    Policy,
    ThompsonSampling,
    confidence_interval,
)
from conftest import POLICIES, ask, each_kind, every_policy


def rewards_of(entry: Any, decision: Any) -> dict[int, float]:
    values = entry.environment.rewards(decision.number, decision.revealed, 0)
    return dict(zip(decision.revealed.tolist(), np.asarray(values).tolist(), strict=True))


WHOLE = [name for name in POLICIES if not name.startswith("GuardedLinear")]
"""Those that learn nothing else from the same rewards one by one; `GuardedLinear` fits its ridge anew in between."""


@pytest.mark.parametrize("name", WHOLE)
def test_parts_are_the_whole_when_a_decision_is_closed(name: str) -> None:
    entry = POLICIES[name]
    whole, parts = entry.make(), entry.make()
    for number in range(40):
        decisions = ask(whole, entry.environment, number), ask(parts, entry.environment, number)
        assert decisions[0].arms.tolist() == decisions[1].arms.tolist()
        told = rewards_of(entry, decisions[0])
        whole.tell(decisions[0], told)
        for arm in sorted(told, key=lambda one: one * 7 % 5):
            parts.tell(decisions[1], {arm: told[arm]}, last=False)
        assert not parts.open_decisions, "all rewards are there"
    np.testing.assert_allclose(parts.tally.sums, whole.tally.sums)
    assert parts.tally.counts.tolist() == whole.tally.counts.tolist()


@every_policy
def test_a_policy_saved_between_two_parts_goes_on(name: str) -> None:
    entry = POLICIES[name]
    policy = entry.make()
    for number in range(30):
        decision = ask(policy, entry.environment, number)
        told = rewards_of(entry, decision)
        if number % 3 == 0 and len(told) > 1:
            arm = next(iter(told))
            policy.tell(decision, {arm: told[arm]}, last=False)
        else:
            policy.tell(decision, told)
    assert len(policy.open_decisions) >= 5
    loaded = Policy.from_bytes(policy.to_bytes())
    assert loaded.digest() == policy.digest()
    assert policy.unsound() == loaded.unsound() == ""
    frozen, before = policy.freeze(), policy.digest()
    for both in (policy, loaded):
        both.close_before(15, default=entry.environment.rewards(0, np.array([0]), 0)[0])
        both.close_before(30)
        assert not both.open_decisions
    decisions = [ask(both, entry.environment, 30).arms.tolist() for both in (policy, loaded)]
    assert decisions[0] == decisions[1]
    assert loaded.digest() == policy.digest()
    # What was frozen is still what it was, though the policy went on.
    assert Policy.from_bytes(frozen()).digest() == before != policy.digest()


@each_kind
def test_each_arm_is_told_once(name: str) -> None:
    entry = POLICIES[name]
    policy = entry.make()
    decision = ask(policy, entry.environment, 0)
    told = rewards_of(entry, decision)
    if len(told) < 2:
        pytest.skip("the first decision shows one arm")
    arm = next(iter(told))
    policy.tell(decision, {arm: told[arm]}, last=False)
    before = policy.digest()
    with pytest.raises(AlreadyTold, match=rf"arm {arm} of decision 0"):
        policy.tell(decision, told)
    with pytest.raises(AlreadyTold, match=rf"arm {arm} of decision 0"):
        policy.tell(decision, {arm: told[arm]}, last=False)
    assert policy.digest() == before
    del told[arm]
    policy.tell(decision, told)
    with pytest.raises(AlreadyTold, match="decision 0 has been told"):
        policy.tell(decision, told)


def test_samplers_learn_at_once_and_intervals_wait() -> None:
    for kind in (ThompsonSampling, GuardedThompson):
        policy = kind(2, budget=2, seed=7)
        open_ones = policy.ask_many(200)
        for decision in open_ones:
            policy.tell(decision, {1: 1.0}, last=False)
        draws = [policy.ask().ranked[0] for _ in range(20)]
        assert draws == [1] * 20, kind
        assert policy.tally.counts.tolist() == [0, 0]
        assert policy.certificate().least_observed == 0
        for decision in open_ones:
            policy.tell(decision, {0: 0.0})
        assert policy.tally.counts.tolist() == [200, 200]
        assert policy.tally.sums.tolist() == [0.0, 200.0]


def test_elimination_waits_for_the_close() -> None:
    policy = CombinatorialElimination(2, budget=1, seed=7)
    for _ in range(400):
        decision = policy.ask()
        policy.tell(decision, {}, last=False)
    assert policy.triage.active.size == 2
    for decision in policy.open_decisions:
        policy.close(decision, default=float(decision.arms[0]))
    assert policy.triage.confirmed.tolist() == [1]


def test_what_is_given_up_or_filled() -> None:
    policy = GuardedThompson(3, budget=3, reward_range=(-1.0, 1.0), seed=7)
    filled, lost, late = policy.ask_many(3)
    policy.tell(filled, {0: 1.0}, last=False)
    policy.close(filled, default=-1.0)
    assert policy.tally.counts.tolist() == [1, 1, 1]
    assert policy.tally.sums.tolist() == [1.0, 0.0, 0.0]
    policy.close(lost)
    assert policy.tally.counts.tolist() == [1, 1, 1]
    assert policy.close_before(3, default=1.0) == 1
    assert policy.tally.sums.tolist() == [2.0, 1.0, 1.0]
    with pytest.raises(AlreadyTold):
        policy.tell(late, {})


def test_a_guard_lets_its_proposer_learn_at_once() -> None:
    policy = Guard(ThompsonSampling(3, 1, seed=7), 3, 1, seed=7)
    for _ in range(30):
        decision = policy.ask()
        policy.tell(decision, {int(decision.arms[0]): 1.0}, last=False)
    assert policy.tally.counts.sum() == 30, "a decision of one arm is complete"
    other = Guard(lambda number: [0, 1], 3, 2, seed=7)
    decision = other.ask()
    other.tell(decision, {0: 1.0}, last=False)
    assert other.tally.counts.tolist() == [0, 0, 0]
    other.close(decision)
    assert other.tally.counts.tolist() == [1, 0, 0]


def test_contexts_are_kept_for_what_is_still_to_come() -> None:
    rows = np.eye(3)
    policy, whole = (C2UCB(3, dimension=3, budget=2) for _ in range(2))
    for one in (policy, whole):
        one.ask(rows)
    policy.tell(0, {1: 0.5}, last=False)
    policy.tell(0, {0: -0.5}, last=False)
    whole.tell(0, [-0.5, 0.5])
    assert policy.ask(rows).arms.tolist() == whole.ask(rows).arms.tolist()


def misses(by_age: bool, seed: int) -> bool:
    """Whether an interval ever misses its mean, where clicks come at once and their absence is known after 60 rounds.

    Decisions are closed when they are 60 rounds old, whatever has come; or, as those do who tell a click at once and
    its absence at the time-out, as soon as the reward is known.
    """
    rng, policy, means = np.random.default_rng(seed), ThompsonSampling(2, budget=1, seed=seed), np.array([0.5, 0.4])
    for number in range(300):
        arm = int(policy.ask().arms[0])
        if rng.random() < means[arm]:
            policy.tell(number, {arm: 1.0}, last=not by_age)
        policy.close_before(max(0, number - 60), default=0.0)
        low, high = confidence_interval(policy.tally.counts, policy.tally.sums, n_arms=2, delta=0.01)
        if np.any((low > means) | (high < means)):
            return True
    return False


def test_closing_by_age_keeps_the_promise_that_early_clicks_break() -> None:
    """At a rate of 1 percent, more than 3 misses in 40 runs happen with probability below 1e-3."""
    assert sum(misses(False, seed) for seed in range(40)) == 40
    assert sum(misses(True, seed) for seed in range(40)) <= 3


def test_what_is_complete_waits_for_older_decisions() -> None:
    policy = ThompsonSampling(2, budget=1, seed=7)
    first, second, third = policy.ask_many(3)
    policy.tell(second, {int(second.arms[0]): 1.0}, last=False)
    assert [one.number for one in policy.open_decisions] == [0, 2]
    assert policy.tally.counts.sum() == 0
    with pytest.raises(AlreadyTold):
        policy.tell(second, [1.0])
    loaded = Policy.from_bytes(policy.to_bytes())
    for both in (policy, loaded):
        both.close(0, default=0.0)
        assert both.tally.counts.sum() == 2
        assert [one.number for one in both.open_decisions] == [2]
    assert loaded.digest() == policy.digest()
    assert first.number == 0
    assert third.number == 2


def test_what_is_complete_is_still_so_after_a_forgotten_arm_and_a_restart() -> None:
    policy = ThompsonSampling(3, budget=2, seed=7)
    policy.record([0, 1])
    policy.record([1, 2])
    policy.tell(1, {1: 1.0, 2: 0.0}, last=False)
    policy.retire_arms([2])
    policy.restore_arms([2], forget=True)
    loaded = Policy.from_bytes(policy.to_bytes())
    for both in (policy, loaded):
        assert [one.number for one in both.open_decisions] == [0]
        both.close(0, default=0.0)
        assert both.tally.counts.tolist() == [1, 2, 0]
    assert loaded.digest() == policy.digest()


def test_any_number_of_decisions_may_wait_for_an_older_one() -> None:
    policy = ThompsonSampling(3, budget=1, seed=7)
    first, *others = policy.ask_many(3000)
    for decision in others:
        policy.tell(decision, [1.0], last=False)
    assert policy.tally.counts.sum() == 0
    policy.tell(first, [1.0], last=False)
    assert not policy.open_decisions
    assert policy.tally.counts.sum() == 3000
