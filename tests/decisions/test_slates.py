"""Slates are found exactly, at any size, and malformed ones are refused."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import numpy as np
import pytest

from armtriage import PartitionMatroid, TopS
from armtriage.kernels.jit import JIT
from decisions.spot_check import spot_check


def test_a_partition_of_a_hundred_thousand_arms() -> None:
    rng = np.random.default_rng(7)
    n_arms = 100_000 if JIT else 2000
    groups = rng.permutation(np.arange(n_arms) // 100)
    weights = rng.normal(size=n_arms)
    slates = PartitionMatroid(groups, 3)
    order = np.lexsort((-weights, groups))
    assert slates.maximise(weights).tolist() == sorted(order[np.arange(n_arms) % 100 < 3].tolist())
    spot_check(slates, weights, 7)
    spot_check(TopS(n_arms, 50), weights, 7)


def test_one_capacity_stands_for_all_groups() -> None:
    assert PartitionMatroid([0, 1, 0, 1], 1) == PartitionMatroid([0, 1, 0, 1], [1, 1])


def test_the_count_of_slates_is_a_binomial() -> None:
    assert TopS(100, 50).count() == 100891344545564193334812497256


@pytest.mark.parametrize(
    ("make", "message"),
    [
        (lambda: TopS(0, 1), "n_arms must be a whole number from 1, got 0"),
        (lambda: TopS(3, 4), "budget must be at most 3, got 4"),
        (lambda: TopS(3, True), "budget must be a whole number from 1, got True"),
        (lambda: PartitionMatroid([], 1), "groups must be a non-empty list of whole numbers"),
        (lambda: PartitionMatroid([0.5], 1), "groups must be a non-empty list of whole numbers"),
        (lambda: PartitionMatroid([0, -1], 1), "groups must be whole numbers from 0, got -1"),
        (lambda: PartitionMatroid([0, 2], [1, 1]), r"groups must lie in 0\.\.1, as capacities has it, got 2"),
        (lambda: PartitionMatroid([0, 2], 1), r"capacities must lie in 0\.\.0 for group 1, of 0 arms, got 1"),
        (lambda: PartitionMatroid([0, 0], [-1]), r"capacities must lie in 0\.\.2 for group 0, of 2 arms, got -1"),
        (lambda: PartitionMatroid([0, 0], [0.5]), "capacities must be a whole number or a list of them"),
        (lambda: PartitionMatroid([0, 0], 0), "capacities must let a decision have an arm, got 0"),
    ],
)
def test_malformed_families_are_refused(make: Callable[[], Any], message: str) -> None:
    with pytest.raises((TypeError, ValueError), match=message):
        make()
