"""Families and instances with decision sets are what they say."""

from __future__ import annotations

from collections.abc import Callable
from math import comb
from typing import Any

import numpy as np
import pytest

from armtriage import long_decisions
from armtriage.instances import FAMILIES


def test_long_decisions_differ_in_all_arms() -> None:
    env = long_decisions(4, best=0.8, other=0.5, seed=1)
    assert env.decisions is not None
    assert [one.tolist() for one in env.decisions] == [[0, 1, 2, 3], [4, 5, 6, 7]]
    assert env.regret([0, 1, 2, 3]) == pytest.approx(1.2)
    assert env.regret([4, 5, 6, 7]) == 0.0


def test_routes_of_a_grid_only_lead_on() -> None:
    routes = FAMILIES["grid"](rows=4, columns=3)
    assert routes.count() == comb(5, 2)
    assert routes.size == 5
    assert routes.n_arms == 4 * 2 + 3 * 3


def test_bags_have_random_weights_in_their_range() -> None:
    bag: Any = FAMILIES["knapsack"](items=50, capacity=60, lightest=7, heaviest=9, seed=3)
    assert set(np.unique(bag.weights)) == {7.0, 8.0, 9.0}
    assert bag == FAMILIES["knapsack"](items=50, capacity=60, lightest=7, heaviest=9, seed=3)
    assert bag != FAMILIES["knapsack"](items=50, capacity=60, lightest=7, heaviest=9, seed=4)


@pytest.mark.parametrize(
    ("make", "says"),
    [
        (lambda: long_decisions(0), "size must be"),
        (lambda: long_decisions(2, best=0.5, other=0.5), "best must be above other, got 0.5 and 0.5"),
        (lambda: FAMILIES["grid"](rows=1, columns=1), "rows times columns must lie from 2 to 5000000, got 1"),
        (
            lambda: FAMILIES["knapsack"](items=3, capacity=9, lightest=9, heaviest=8),
            "lightest must be at most heaviest",
        ),
        (lambda: FAMILIES["knapsack"](items=3, capacity=9), "capacity must be at least 30, got 9|capacity must"),
    ],
)
def test_bad_options_are_refused(make: Callable[[], Any], says: str) -> None:
    with pytest.raises(ValueError, match=says):
        make()
