"""Decisions that are open: arms that come meanwhile, the order of their rewards, and when they are closed."""

from __future__ import annotations

import logging
from typing import Any

import numpy as np
import pytest

from armtriage import (
    CombUCB1,
    DamagedFile,
    FeedbackGraph,
    Guard,
    GuardedThompson,
    Policy,
    StochasticEnvironment,
    ThompsonSampling,
    simulate,
)
from armtriage._files import pack_archive
from conftest import POLICIES, ask, with_face

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


def test_a_list_has_the_order_in_which_a_decision_was_recorded() -> None:
    policy = ThompsonSampling(5, budget=3, seed=7)
    decision = policy.record([4, 0, 2])
    assert decision.arms.tolist() == [0, 2, 4]
    assert decision.revealed.tolist() == decision.to_dict()["revealed"] == [4, 0, 2]
    loaded = Policy.from_bytes(policy.to_bytes())
    assert loaded.digest() == policy.digest()
    for one in (policy, loaded):
        one.tell(decision.number, [0.4, 0.1, 0.2])
        assert one.tally.sums.tolist() == [0.1, 0.0, 0.2, 0.0, 0.4]
    assert policy.digest() == loaded.digest()


def test_the_order_of_a_record_changes_nothing_else() -> None:
    one, other = (GuardedThompson(5, budget=2, seed=7) for _ in range(2))
    for policy, order in ((one, [3, 1]), (other, [1, 3])):
        policy.tell(policy.record(order), {1: 1, 3: 0.5})
        policy.close(policy.record(order), default=0)
    assert one.digest() == other.digest()


def test_recorded_arms_come_first_in_what_they_reveal() -> None:
    graph = FeedbackGraph.cliques([3, 2])
    policy = CombUCB1(graph, budget=2)
    decision = policy.record([4, 1], eligible=[0, 1, 3, 4])
    assert decision.revealed.tolist() == [4, 1, 0, 3]
    Policy.from_bytes(policy.to_bytes()).tell(0, [0.4, 0.1, 0.0, 0.3])
    policy.tell(decision, {3: 0.3, 4: 0.4}, last=False)
    policy.close(decision, default=0)
    assert policy.tally.sums.tolist() == [0.0, 0.0, 0.0, 0.3, 0.4]


@pytest.mark.parametrize("name", ["C2UCB", "GuardedLinear", "hierarchical"])
def test_contexts_keep_the_order_of_a_record_too(name: str) -> None:
    rows = np.random.default_rng(7).normal(size=(6, 3)) / 9
    one, other = POLICIES[name].make(), POLICIES[name].make()
    one.tell(one.record([5, 2], rows), [0.5, -0.25])
    other.tell(other.record([2, 5], rows), {2: -0.25, 5: 0.5})
    assert one.digest() == other.digest()


@pytest.mark.parametrize(
    ("change", "said"),
    [
        ({"orders": [3, 2]}, "orders must be of the arms of their decisions"),
        ({"orders": [3]}, "too long or short"),
        ({"ordered": [1]}, "orders are of open decisions only"),
        ({"ordered": [0, 0], "orders": [3, 1, 3, 1]}, "must rise"),
    ],
)
def test_forged_orders_are_refused(change: dict[str, list[int]], said: str) -> None:
    policy = ThompsonSampling(5, budget=2, seed=7)
    policy.record([3, 1])
    header, arrays = policy._contents()
    wrong = {f"open.{name}": np.array(value) for name, value in change.items()}
    with pytest.raises(DamagedFile, match=said):
        Policy.from_bytes(pack_archive(header, arrays | wrong))


def test_named_rewards_are_told_by_name_or_beside_names() -> None:
    policy = GuardedThompson(3, budget=2, names=["tea", "milk", "rum"], seed=7)
    decision = policy.record(["rum", "tea"])
    with pytest.raises(TypeError, match=r"rewards must be \{name: reward\} where the arms have names.*got \[1, 0\]"):
        policy.tell(decision, [1, 0])
    policy.tell(decision, [1, 0], arms=["rum", "tea"])
    assert policy.tally.sums.tolist() == [0.0, 0.0, 1.0]
    assert policy.tally.counts.tolist() == [1, 0, 1]
    part = policy.record(["milk", "tea"])
    policy.tell(part, np.array([0.5]), arms=["milk"], last=False)
    policy.tell(part, np.array([0.25]), arms=part.names[:1])
    assert policy.tally.sums.tolist() == [0.25, 0.5, 1.0]


def test_rewards_of_numbered_arms_may_say_whose_they_are() -> None:
    policy = ThompsonSampling(4, budget=2, seed=7)
    policy.tell(policy.record([1, 3]), [0.3, 0.1], arms=np.array([3, 1]))
    assert policy.tally.sums.tolist() == [0.0, 0.1, 0.0, 0.3]


def test_named_arms_are_simulated() -> None:
    class Own(ThompsonSampling):
        def _select(self, number: int) -> Any:
            return super()._select(number)

    world = StochasticEnvironment([0.2, 0.8], 2, seed=7)
    assert simulate(Own(2, 1, names=["tea", "milk"], seed=7), world, horizon=20).regret.shape[-1]


def test_nothing_happens_to_what_is_closed() -> None:
    page = GuardedThompson(4, budget=2, names=["a", "b", "c", "d"], seed=7)
    older, visit, late = page.ask_many(3)
    for name in visit.names:
        page.tell(visit, {name: 1}, last=False)
    page.tell(late, {})
    before = page.digest()
    for one in (visit, visit.number, late):
        page.close(one, default=0)
        page.close(one)
    assert page.digest() == before
    assert page.close_before(3, default=0) == 1
    page.close(older, default=0)
    page.close(visit, default=0)
    assert page.close_before(3) == 0
    assert page.tally.counts.sum() == 4
    assert page.tally.sums.sum() == 2.0


@pytest.mark.parametrize("default", [None, 0.0, 0.5])
@pytest.mark.parametrize("name", ["ThompsonSampling", "tight", "GuardedThompson", "Guard", "C2UCB", "GuardedLinear"])
def test_closing_is_telling_what_is_filled_in_or_nothing(name: str, default: float | None) -> None:
    one, other = POLICIES[name].make(), POLICIES[name].make()
    for policy in (one, other):
        for number in range(6):
            decision = ask(policy, POLICIES[name].environment, number)
            policy.tell(decision, {int(decision.arms[0]): 0.25} if number == 2 else {}, last=False)
    assert one.close_before(6, default=default) == 6
    for decision in other.open_decisions:
        rest = [arm for arm in decision.revealed.tolist() if decision.number != 2 or arm != decision.arms[0]]
        other.tell(decision, {} if default is None else dict.fromkeys(rest, default))
    for policy in (one, other) if default == 0.0 else ():
        # Zeros that are told say how long zeros take, and those that are filled in do not.
        policy._delays = None
    assert one.digest() == other.digest()


def test_decisions_that_are_complete_are_settled_in_time_that_is_linear() -> None:
    policy = ThompsonSampling(3, budget=1, seed=7)
    decisions = policy.ask_many(3000)
    policy.tell(decisions[-1], {int(decisions[-1].arms[0]): 1}, last=False)
    loaded = Policy.from_bytes(policy.to_bytes())
    for one in (policy, loaded):
        assert one.close_before(2000, default=0) == 2000
        assert one._oldest == 2000
        assert one.close_before(3000) == 999
        assert not one.open_decisions
        assert one.tally.counts.sum() == 2001


@pytest.mark.parametrize("proposer", [None, ThompsonSampling])
def test_a_guard_warns_once_in_each_silence_in_which_its_budget_is_used_up(
    proposer: Any, caplog: pytest.LogCaptureFixture
) -> None:
    graph = FeedbackGraph.semi_bandit(5)
    policy: Any = GuardedThompson(graph, budget=2, seed=7)
    if proposer is not None:
        policy = Guard(proposer(graph, budget=2, seed=7), graph, budget=2, seed=7)
    caplog.set_level(logging.WARNING, "armtriage")

    def warned() -> list[str]:
        said = [one.getMessage() for one in caplog.records if "the guard's budget is used up" in one.getMessage()]
        caplog.clear()
        return said

    silent = [policy.ask() for _ in range(4 * 1024 + 1)]
    forced = policy.account.forced_rounds
    assert forced > 3 * 1024
    (said,) = warned()
    assert f"{type(policy).__name__}: " in said
    assert "of the last 1024 decisions are rounds of elimination, and all of them are open" in said
    loaded = Policy.from_bytes(policy.to_bytes())
    loaded.ask_many(1024)
    (said,) = warned()  # which counts from where it was loaded
    assert int(said.split()[1]) <= 1024
    for decision in silent:  # rewards are back: the budget is free again
        policy.tell(decision, (decision.arms >= 3).astype(float))
    for _ in range(2 * 1024):
        policy.tell(policy.ask(), [1.0, 1.0])
    assert policy.account.forced_rounds == forced
    assert warned() == []


def test_a_guard_does_not_warn_where_rewards_come_late_or_nothing_is_forced(caplog: pytest.LogCaptureFixture) -> None:
    late, able = GuardedThompson(5, budget=2, seed=7), GuardedThompson(300, budget=2, seed=7)
    caplog.set_level(logging.WARNING, "armtriage")
    waiting = []
    for _ in range(4 * 1024):
        waiting.append(late.ask())
        able.ask()
        if len(waiting) > 1000:
            decision = waiting.pop(0)
            late.tell(decision, (decision.arms >= 3).astype(float))
    assert late.account.forced_rounds > 512
    assert able.account.forced_rounds == 0
    assert not any("used up" in one.getMessage() for one in caplog.records)
