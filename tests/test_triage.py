"""One look at the intervals of a set of arms decides what looking again and again would."""

from __future__ import annotations

from typing import Any

import numpy as np
import pytest

from armtriage.triage import Triage, triage_among

Box = tuple[np.ndarray, np.ndarray]


def boxes(trials: int, most: int, seed: int) -> list[tuple[Box, int, np.random.Generator]]:
    """Random intervals and budgets; every other one on a coarse grid, with ties and ends that meet."""
    rng = np.random.default_rng(seed)
    found = []
    for trial in range(trials):
        n = int(rng.integers(1, most))
        grid = int(rng.integers(1, 12)) if trial % 2 else 10**6
        ends = np.sort(rng.integers(0, grid + 1, (n, 2)), axis=1) / grid
        found.append(((ends[:, 0], ends[:, 1]), int(rng.integers(1, n + 1)), rng))
    return found


def until_nothing_changes(lower: Any, upper: Any, arms: Any, budget: int) -> list[set[int]]:
    """The twin: confirm and eliminate by the free slots and the arms that are left, again and again."""
    confirmed: set[int] = set()
    eliminated: set[int] = set()
    left = set(arms)
    while len(left) > budget - len(confirmed):
        free = budget - len(confirmed)
        highs = sorted((upper[a] for a in left), reverse=True)
        lows = sorted((lower[a] for a in left), reverse=True)
        up = {a for a in left if lower[a] > highs[free]}
        out = {a for a in left - up if free and upper[a] < lows[free - 1]}
        if not up | out:
            return [confirmed, left, eliminated]
        confirmed, eliminated, left = confirmed | up, eliminated | out, left - up - out
    return [confirmed | left, set(), eliminated]


def as_sets(triage: Triage) -> list[set[int]]:
    return [set(arms.tolist()) for arms in triage]


def test_one_look_decides_what_many_do() -> None:
    decided = 0
    for (lower, upper), budget, _ in boxes(30_000, 12, seed=1):
        arms = np.arange(lower.size)
        found = as_sets(triage_among(lower, upper, arms, budget))
        assert found == until_nothing_changes(lower.tolist(), upper.tolist(), arms.tolist(), budget)
        decided += bool(found[0] and found[1] and found[2])
    assert decided > 1_000  # states in which all three sets have arms


def test_elimination_is_inherited_by_larger_sets_and_confirmation_by_smaller_ones() -> None:
    inherited = 0
    for (lower, upper), budget, rng in boxes(20_000, 10, seed=2):
        arms = np.arange(lower.size)
        some = np.flatnonzero(rng.random(lower.size) < 0.7)
        few, all_ = (triage_among(lower, upper, one, budget) for one in (some, arms))
        assert set(few.eliminated) <= set(all_.eliminated)
        assert set(all_.confirmed) & set(some) <= set(few.confirmed)
        inherited += few.eliminated.size + len(set(all_.confirmed) & set(some))
    assert inherited > 20_000


def test_arms_are_called_by_their_numbers_in_order() -> None:
    lower, upper = np.array([0.0, 0.8, 0.1, 0.4, 0.0]), np.array([1.0, 0.9, 0.2, 0.6, 0.5])
    found = triage_among(lower, upper, np.array([1, 2, 3, 4]), 2)
    assert [arms.tolist() for arms in found] == [[1], [3, 4], [2]]
    assert all(arms.dtype == np.int64 for arms in found)


@pytest.mark.parametrize("size", [0, 1, 2, 3])
def test_arms_that_all_fit_are_confirmed(size: int) -> None:
    arms = np.arange(size)
    found = triage_among(np.zeros(4), np.ones(4), arms, 3)
    assert [one.tolist() for one in found] == [arms.tolist(), [], []]
    found.confirmed[:] = 9
    assert arms.tolist() == list(range(size))
