"""What a policy wrote, it can load, whatever was done before; and nothing is done after which it could not go on."""

from __future__ import annotations

from typing import Any

import numpy as np
import pytest

from armtriage import (
    C2UCB,
    ConstrainedElimination,
    DamagedFile,
    DecisionSet,
    Explicit,
    Greedy,
    Guard,
    GuardedLinear,
    GuardedThompson,
    Knapsack,
    PartitionMatroid,
    Policy,
    ThompsonSampling,
)
from armtriage._files import pack_archive
from conftest import POLICIES, used, with_face

PAIRS = Explicit([[0, 1], [2, 3]])
UNEVEN = Explicit([[0], [1, 2]])
RETIRING = [name for name in (*with_face("arms"), *with_face("contexts")) if "-" not in name and name != "paper"]


def reload(policy: Policy) -> Policy:
    loaded = Policy.from_bytes(policy.to_bytes())
    assert loaded.digest() == policy.digest()
    return loaded


@pytest.mark.parametrize("told", [True, False])
def test_elimination_that_was_first_asked_among_eligible_arms(told: bool) -> None:
    policy: Any = ConstrainedElimination(3, PartitionMatroid([0, 1, 1], 1), seed=7)
    for _ in range(3):
        decision = policy.ask(eligible=[0, 1])
        policy.tell(decision, dict.fromkeys(decision.arms.tolist(), 1.0) if told else {})
        loaded = reload(policy)
    assert loaded.ask().arms.tolist() == policy.ask().arms.tolist()


@pytest.mark.parametrize("eligible", [None, [0, 1], [1, 2]])
@pytest.mark.parametrize("make", [
    lambda: GuardedThompson(3, decisions=UNEVEN, seed=7),
    lambda: Guard(ThompsonSampling(3, decisions=UNEVEN), 3, decisions=UNEVEN, seed=7),
])  # fmt: skip
def test_guards_of_recorded_decisions_of_any_size(make: Any, eligible: list[int] | None) -> None:
    policy = make()
    arms = [1, 2] if eligible == [1, 2] else [0]
    for _ in range(4):
        policy.tell(policy.record(arms, eligible=eligible), [0.5] * len(arms))
        reload(policy)
        policy.record([1, 2])
        policy = reload(policy)
    assert policy.certificate().rounds == 8


@pytest.mark.parametrize("name", RETIRING)
def test_nothing_is_asked_where_all_arms_are_retired(name: str) -> None:
    policy = used(name)
    policy.retire_arms(range(policy.n_arms))
    given = () if POLICIES[name].face == "arms" else (np.zeros((policy.n_arms, 3)),)
    before = policy.digest()
    for call in (policy.ask, lambda *rows: policy.record([0], *rows)):
        with pytest.raises(ValueError, match=f"all {policy.n_arms} arms are retired: restore or add some"):
            call(*given)
    assert policy.digest() == before
    loaded: Any = reload(policy)
    if not given:
        assert loaded.certificate().rounds == policy.asked
    loaded.restore_arms([1])
    assert loaded.ask(*given).arms.tolist() == [1]


@pytest.mark.parametrize("kind", [ThompsonSampling, GuardedThompson, ConstrainedElimination])
@pytest.mark.parametrize(("decisions", "gone"), [(PAIRS, [0, 2]), (PartitionMatroid([0, 0, 1], 1), [0, 1])])
def test_a_decision_is_left_by_whatever_is_retired(kind: Any, decisions: DecisionSet, gone: list[int]) -> None:
    policy = kind(decisions.n_arms, decisions=decisions, seed=7)
    before = policy.digest()
    with pytest.raises(
        ValueError, match=rf"arms must leave a decision of {type(decisions).__name__}.*, got \[{gone[0]}"
    ):
        policy.retire_arms(gone)
    assert policy.digest() == before
    policy.retire_arms(gone[:1])
    with pytest.raises(ValueError, match=rf"got \[{gone[1]}\] beside 1 retired ones"):
        policy.retire_arms(gone[1:])
    policy.tell(policy.ask(), {})
    assert reload(policy).certificate().rounds == 1


def test_an_empty_decision_may_be_left() -> None:
    policy = GuardedThompson(2, decisions=Knapsack([1.0, 2.0], capacity=3.0), seed=7)
    policy.retire_arms([0, 1])
    assert policy.arms.retired.all()


@pytest.mark.parametrize("retired", [0, 1])
def test_a_certain_decision_is_not_certified_once_an_arm_of_it_is_retired(retired: int) -> None:
    policy = GuardedThompson(3, decisions=Explicit([[2], [2, 0], [1, 2]]), seed=7)
    for _ in range(300):
        decision = policy.ask()
        policy.tell(decision, [0.9 if arm < 2 else 0.1 for arm in decision.arms.tolist()])
    policy.retire_arms([retired])
    assert retired not in policy.certificate().next_decision
    policy.retire_arms([1 - retired])
    assert policy.certificate().next_decision.tolist() == [2]


def test_two_nested_decisions_of_which_one_is_retired() -> None:
    policy = GuardedThompson(2, decisions=Explicit([[1], [1, 0]]), seed=7)
    policy.ask_many(4)
    policy.retire_arms([0])
    assert policy.certificate().next_decision.tolist() == [1]


@pytest.mark.parametrize(
    "policy",
    [
        C2UCB(3, dimension=2, budget=1, seed=7),
        GuardedLinear(3, dimension=2, budget=1, seed=7),
        ConstrainedElimination(3, PartitionMatroid([0, 1, 1], 1), seed=7),
    ],
)
def test_rows_of_a_policy_that_has_none_are_refused(policy: Policy) -> None:
    header, arrays = policy._contents()
    for other, part, said in (
        (None, "rows.", "keeps no rows of arms"),
        (Greedy(3, budget=1, seed=7), "evidence.", "keeps no evidence"),
    ):
        rows = {"rows.pulls": np.zeros(3, np.int64)}
        if other is not None:
            other.ask(eligible=[0])
            rows = {name: array for name, array in other._contents()[1].items() if name.startswith(part)}
        with pytest.raises(DamagedFile, match=said):
            Policy.from_bytes(pack_archive(header, arrays | rows))
