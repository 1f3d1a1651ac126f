"""Sets of arms: few bytes, one object for sets that are alike, and files that hold each once."""

from __future__ import annotations

import copy
import gc
import pickle
import tracemalloc
from typing import Any

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

from armtriage import DamagedFile, FeedbackGraph, GuardedThompson, Policy, ThompsonSampling
from armtriage._files import pack_archive
from armtriage.decisions import ArmSet, pack_sets, unpack_sets

SETS = st.sets(st.integers(0, 300), min_size=1).map(lambda arms: np.array(sorted(arms), np.int64))


@given(st.lists(st.none() | SETS, max_size=6))
def test_sets_are_what_they_were_made_of(several: list[Any]) -> None:
    sets = [None if one is None else ArmSet.of(one) for one in several]
    again = unpack_sets(pack_sets(sets), 301)
    for arms, one, other in zip(several, sets, again, strict=True):
        assert one is other
        if one is not None:
            assert one.arms.tolist() == arms.tolist()
            assert one.arms.dtype == np.int64
            assert one.size == arms.size
            assert ArmSet.of(arms.copy()) is one
            assert pickle.loads(pickle.dumps(one)) is one
            assert copy.deepcopy(one) is one


def test_a_few_of_many_arms_are_listed_and_others_are_bits() -> None:
    assert len(ArmSet.of(np.array([7, 10**6]))._kept) == 8
    assert len(ArmSet.of(np.arange(1, 10**5))._kept) == 12_500


@pytest.mark.parametrize(
    ("change", "said"),
    [
        ({"set_of": [1, 0]}, "too many or few"),
        ({"set_of": [0]}, "as many as open decisions"),
        ({"set_bytes": [0]}, "one or more for each"),
        ({"set_bytes": [2]}, "too many or few"),
        ({"set_bits": [2]}, "bits, or numbers of 4 bytes"),
        ({"set_bits": [0]}, "bits, or numbers of 4 bytes"),
        ({"sets": np.array([0], np.uint8)}, "must rise from 0 to 4"),
        ({"sets": np.array([7], np.uint8)}, "must rise from 0 to 4"),
        ({"sets": np.array([0b00011000], np.uint8)}, "must be eligible"),
        ({"sets": [1]}, "list of numbers"),
    ],
)
def test_forged_sets_are_refused(change: dict[str, Any], said: str) -> None:
    policy = ThompsonSampling(5, budget=2, seed=7)
    for _ in range(2):
        policy.record([0, 2], eligible=[0, 1, 2])
    header, arrays = policy._contents()
    wrong = {f"open.{name}": np.array(value) for name, value in change.items()}
    with pytest.raises(DamagedFile, match=said):
        Policy.from_bytes(pack_archive(header, arrays | wrong))


def test_files_of_before_list_the_arms_of_each_decision() -> None:
    policy = GuardedThompson(FeedbackGraph.cliques([2, 4]), budget=2, seed=7)
    for some in ([0, 1, 2], [3, 4], [0, 1, 2]):
        policy.ask(eligible=some)
    header, arrays = policy._contents()
    old = {name: array for name, array in arrays.items() if not name.startswith("open.set")}
    old["open.eligible_sizes"] = np.array([3, 2, 3])
    old["open.eligible"] = np.array([0, 1, 2, 3, 4, 0, 1, 2])
    loaded = Policy.from_bytes(pack_archive(header, old))
    assert loaded.digest() == policy.digest() == Policy.from_bytes(policy.to_bytes()).digest()
    assert [one.eligible.tolist() for one in loaded.open_decisions if one.eligible is not None] == [
        [0, 1, 2],
        [3, 4],
        [0, 1, 2],
    ]


def test_open_decisions_share_what_was_eligible() -> None:
    policy = ThompsonSampling(10_000, budget=5, seed=7)
    mask = np.ones(10_000, np.bool_)
    mask[1] = False
    policy.ask(eligible=mask)
    gc.collect()
    tracemalloc.start()
    try:
        before = tracemalloc.get_traced_memory()[0]
        for _ in range(100):
            policy.ask(eligible=mask.copy())
        each = (tracemalloc.get_traced_memory()[0] - before) / 100
    finally:
        tracemalloc.stop()
    assert each < 2000
    first, last = policy.open_decisions[0], policy.open_decisions[-1]
    assert first.among is last.among
    assert last.eligible is not None
    assert last.eligible.tolist() == np.flatnonzero(mask).tolist()
    _, arrays = policy._contents()
    assert sum(array.nbytes for name, array in arrays.items() if name.startswith("open.")) < 20_000
