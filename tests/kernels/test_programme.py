"""Branch and bound on a tableau: the best 0/1 vector, against all of them and against HiGHS."""

from __future__ import annotations

import itertools

import numpy as np
import pytest
from scipy.optimize import Bounds, LinearConstraint, milp

from armtriage.kernels.programme import FOUND, GAVE_UP, NONE, best_binary

KINDS = ("packing", "covering", "equal", "mixed", "real", "ties")


def problem(number: int) -> tuple[np.ndarray, ...]:
    """Weights, ends of the variables, and rows with their limits."""
    rng, kind = np.random.default_rng(number), KINDS[number % len(KINDS)]
    m, n = int(rng.integers(1, 6)), int(rng.integers(1, 10))
    weights, matrix = rng.uniform(-0.5, 1.0, n), (rng.random((m, n)) < 0.5).astype(float)
    lower, upper = np.full(m, -np.inf), rng.integers(0, 4, m).astype(float)
    if kind == "covering":
        lower, upper = rng.integers(0, 3, m).astype(float), np.full(m, np.inf)
    elif kind == "equal":
        lower = upper
    elif kind == "mixed":
        matrix = rng.integers(-3, 4, (m, n)) / 3.0
        lower = upper - rng.integers(0, 3, m)
    elif kind == "real":
        matrix = rng.normal(size=(m, n))
        matrix /= np.abs(matrix).max(axis=1, keepdims=True)
        upper = rng.uniform(0.0, 1.0, m)
    elif kind == "ties":
        weights, matrix[-1] = rng.integers(-1, 3, n) / 2.0, matrix[0]
    low = (rng.random(n) < 0.1).astype(float)
    return weights, low, np.maximum(low, rng.random(n) < 0.9), matrix, lower, upper


def best_of_all(weights, low, high, matrix, lower, upper):
    """The largest weight of any vector that is allowed, None without one."""
    x = np.array(list(itertools.product((0.0, 1.0), repeat=weights.size)))
    sums = x @ matrix.T
    allowed = ((x >= low) & (x <= high)).all(axis=1)
    allowed &= ((sums >= lower - 1e-9) & (sums <= upper + 1e-9)).all(axis=1)
    return (x @ weights)[allowed].max() if allowed.any() else None


@pytest.mark.plain
@pytest.mark.parametrize("first", range(0, 240, 60))
def test_nothing_is_better_than_the_answer(first: int) -> None:
    none = 0
    for number in range(first, first + 60):
        weights, low, high, matrix, lower, upper = problem(number)
        best = best_of_all(weights, low, high, matrix, lower, upper)
        status, chosen = best_binary(weights, low, high, matrix, lower, upper, 10**7)
        assert status == (NONE if best is None else FOUND), number
        none += best is None
        if best is not None:
            assert weights[chosen].sum() == pytest.approx(best, abs=1e-9), number
            assert ((chosen >= low) & (chosen <= high)).all()
            sums = matrix @ chosen
            assert ((sums >= lower - 1e-8) & (sums <= upper + 1e-8)).all()
    assert 0 < none < 40


@pytest.mark.parametrize("alike", [False, True])
def test_it_agrees_with_highs_at_sizes_that_cannot_be_listed(alike: bool) -> None:
    rng = np.random.default_rng(4)
    matrix, most = (rng.random((12, 60)) < 0.3).astype(float), np.full(12, 3.0)
    weights = np.full(60, 0.8) + 1e-3 * rng.random(60) if alike else rng.random(60)
    status, chosen = best_binary(weights, np.zeros(60), np.ones(60), matrix, np.full(12, -np.inf), most, 10**9)
    answer = milp(
        -weights, integrality=np.ones(60), bounds=Bounds(0, 1), constraints=LinearConstraint(matrix, -np.inf, most)
    )
    assert status == FOUND
    assert (matrix @ chosen <= most).all()
    assert weights[chosen].sum() >= -answer.fun - 1e-6


def test_it_gives_up_after_its_work_and_not_before() -> None:
    rng = np.random.default_rng(4)
    matrix, most = (rng.random((20, 100)) < 0.3).astype(float), np.full(20, 3.0)
    rules = np.full(100, 0.8), np.zeros(100), np.ones(100), matrix, np.full(20, -np.inf), most
    assert best_binary(*rules, 10_000)[0] == GAVE_UP
    assert best_binary(*rules, 10**9)[0] == FOUND
