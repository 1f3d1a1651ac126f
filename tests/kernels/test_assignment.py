"""Assignments cost what those of SciPy do, at any shape, with pairs that are not allowed, and with ties."""

from __future__ import annotations

import numpy as np
import pytest
from numpy.typing import NDArray
from scipy.optimize import linear_sum_assignment

from armtriage.kernels.assignment import assign

SHAPES = [(1, 1), (1, 6), (3, 3), (4, 7), (8, 20), (12, 12)]


def own(costs: NDArray[np.float64]) -> NDArray[np.int64] | None:
    columns = np.empty(len(costs), np.int64)
    return columns if assign(costs, columns) else None


def their_cost(costs: NDArray[np.float64]) -> float:
    try:
        return float(costs[linear_sum_assignment(costs)].sum())
    except ValueError:  # there is none
        return np.inf


@pytest.mark.plain
@pytest.mark.parametrize("shape", SHAPES, ids=str)
@pytest.mark.parametrize("kind", ["any", "ties", "large", "some pairs"])
def test_the_cost_is_that_of_scipy(shape: tuple[int, int], kind: str) -> None:
    rng = np.random.default_rng(3)
    found = 0
    for _ in range(30):
        costs = rng.normal(size=shape)
        if kind == "ties":
            costs = rng.integers(-1, 2, shape).astype(float)
        elif kind == "large":
            costs *= 10.0 ** rng.integers(-6, 9, shape)
        elif kind == "some pairs":
            costs[rng.random(shape) < 0.6] = np.inf
        columns = own(costs)
        if columns is None:
            assert their_cost(costs) == np.inf
            continue
        found += 1
        assert np.unique(columns).size == len(columns)
        cost = costs[np.arange(len(columns)), columns].sum()
        assert cost == pytest.approx(their_cost(costs), rel=1e-12, abs=1e-9 * np.abs(costs[np.isfinite(costs)]).max())
    assert found > 0


def test_ties_are_broken_in_one_way() -> None:
    np.testing.assert_array_equal(own(np.zeros((3, 5))), [0, 1, 2])
    costs = np.random.default_rng(1).integers(0, 3, (9, 9)).astype(float)
    np.testing.assert_array_equal(own(costs), own(costs.copy()))


def test_no_assignment_is_said() -> None:
    assert own(np.array([[1.0, np.inf], [2.0, np.inf]])) is None
