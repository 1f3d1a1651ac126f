"""Integer programmes are solved to the last digit, and malformed ones are refused."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import numpy as np
import pytest

from armtriage import Constraints, Knapsack
from armtriage.decisions import constraints


def test_a_knapsack_is_solved_to_the_last_digit() -> None:
    # The second best decision is worth 1e-9 less.
    bag = Knapsack([1.0, 1.0, 1.0, 2.0], 2.0)
    assert bag.maximise([0.1, 0.3, 0.3, 0.6 + 1e-9]).tolist() == [3]
    assert bag.maximise([0.1, 0.3, 0.3, 0.6 - 1e-9]).tolist() == [1, 2]
    assert bag.maximise([1e-30, 3e-30, 3e-30, 5e-30]).tolist() == [1, 2]


@pytest.mark.parametrize("kind", ["whole", "tens", "real", "equal"])
def test_a_knapsack_answers_as_integer_programming_does(kind: str) -> None:
    """Dynamic programming and branch and bound against HiGHS on the same constraint, with and without forced arms."""
    rng = np.random.default_rng(3)
    for _ in range(12):
        n = int(rng.integers(2, 14))
        loads = {
            "whole": rng.integers(0, 9, n),
            "tens": 10 * rng.integers(1, 30, n),
            "real": rng.random(n),
            "equal": np.full(n, 0.1),
        }[kind]
        capacity = max(float(loads.min()), float(loads.sum()) * rng.random())
        bag, milp = Knapsack(loads, capacity), Constraints(loads[None], -np.inf, capacity)
        assert bag.size == milp.size
        weights = rng.normal(size=n).round(1) if kind == "equal" else rng.normal(size=n)
        order = rng.permutation(n)
        for marks in (
            {},
            {"include": order[:1]},
            {"exclude": order[:2]},
            {"include": order[:2], "exclude": order[2:3]},
        ):
            mine, theirs = bag.maximise(weights, **marks), milp.maximise(weights, **marks)
            assert (mine is None) == (theirs is None)
            if mine is not None:
                assert weights[mine].sum() == pytest.approx(weights[theirs].sum(), abs=1e-9)
                assert mine in bag
            # These solve as many programmes as there are arms: where no arm is marked, and where both kinds are.
            for each in ("maximise_each_including", "maximise_each_excluding") if len(marks) != 1 else ():
                found, expected = getattr(bag, each)(weights, **marks), getattr(milp, each)(weights, **marks)
                np.testing.assert_allclose(found, expected, atol=1e-9)


def test_a_knapsack_leaves_long_searches_to_integer_programming() -> None:
    """Items of equal value for load, which leave branch and bound no bound to cut with."""
    loads = 1.0 + 1e-3 * np.random.default_rng(5).random(40)
    bag = Knapsack(loads, float(loads[:13].sum()))
    found = bag.maximise(loads)
    assert loads[found].sum() <= bag.capacity + 1e-6
    assert loads[found].sum() >= loads[:13].sum() - 1e-6


def test_a_knapsack_too_large_to_count() -> None:
    assert Knapsack(np.ones(40), 20).count() is None
    with pytest.raises(ValueError, match="more decisions than can be listed"):
        iter(Knapsack(np.ones(40), 20))


@pytest.mark.parametrize(
    ("make", "message"),
    [
        (lambda: Knapsack([], 1), "weights must be a non-empty list of numbers"),
        (lambda: Knapsack([1, np.nan], 1), "weights must be finite and from 0, got nan for arm 1"),
        (lambda: Knapsack([1, -2], 1), "weights must be finite and from 0, got -2 for arm 1"),
        (lambda: Knapsack([3, 2], 1), "capacity must be at least 2, the smallest of weights, got 1.0"),
        (lambda: Knapsack([3, 2], np.inf), "capacity must be a finite number from 0, got inf"),
        (lambda: Constraints([[1, 1]], 3, 4), "lower and upper must allow a decision that has an arm, got no decision"),
        (lambda: Constraints([[1, 1]], 0, 0), "got no decision but the empty one"),
        (lambda: Constraints([[1, 1]], 2, 1), "lower must be at most upper, got 2.0 and 1.0 for row 0"),
        (lambda: Constraints([[1, 1]], np.nan, 1), "lower must hold no nan, got nan"),
        (lambda: Constraints([[1, 1]], "a", 1), "lower must be a number or a list of numbers, got 'a'"),
        (lambda: Constraints([[1, 1]], 0, [1, 2]), r"upper must be a number or have shape \(1,\), got \(2,\)"),
        (lambda: Constraints([1, 1], 0, 1), r"matrix must have shape \(m, K\) with m and K from 1, got \(2,\)"),
        (lambda: Constraints([[1, np.inf]], 0, 1), "matrix must be finite, got inf"),
        (lambda: Constraints([["a"]], 0, 1), "matrix must hold real numbers, got <U1"),
    ],
)
def test_malformed_families_are_refused(make: Callable[[], Any], message: str) -> None:
    with pytest.raises((TypeError, ValueError), match=message):
        make()


def test_highs_answers_where_branch_and_bound_gives_up(monkeypatch: pytest.MonkeyPatch) -> None:
    rng = np.random.default_rng(3)
    matrix = (rng.random((6, 30)) < 0.3).astype(float)
    sets = Constraints(matrix, -np.inf, 2)
    questions = [rng.random(30) for _ in range(4)]
    answers = [sets.maximise(one, include=[3]).tolist() for one in questions]
    monkeypatch.setattr(constraints, "_WORK", 0)
    assert answers == [sets.maximise(one, include=[3]).tolist() for one in questions]
    monkeypatch.setattr(constraints, "_DENSE", 0)
    large = Constraints(matrix, -np.inf, 2)
    assert large._dense is None
    assert answers == [large.maximise(one, include=[3]).tolist() for one in questions]
