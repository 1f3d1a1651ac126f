"""Costs in theory: gaps and audits take them as they are, and bounds, which are for rewards in [0, 1], refuse them."""

from __future__ import annotations

from typing import Any

import numpy as np
import pytest

from armtriage import (
    CombinatorialElimination,
    ConstrainedElimination,
    Explicit,
    HierarchicalElimination,
    LinearEnvironment,
    StochasticEnvironment,
)
from armtriage.theory import audit, bounds_for, gap

COSTS: dict[str, Any] = {"reward_range": (2.0, 10.0), "direction": "minimize"}
MEANS = np.array([2.5, 9.5, 4.0, 3.0, 6.0, 8.0])


def test_the_gap_of_costs_is_between_the_cheapest() -> None:
    assert gap(StochasticEnvironment(MEANS, 6, **COSTS), budget=2) == 1.0
    menus = Explicit([[0, 1], [2, 3, 4], [5], [4]])
    assert gap(StochasticEnvironment(MEANS, 6, decisions=menus, **COSTS)) == 2.0


def test_a_run_with_costs_keeps_what_the_lemmas_say() -> None:
    world = StochasticEnvironment(MEANS, 6, seed=2, **COSTS)
    assert audit(CombinatorialElimination(6, 2, seed=1, **COSTS), world, horizon=800).ok
    menus = Explicit([[0, 1], [2, 3, 4], [5], [4]])
    world = StochasticEnvironment(MEANS, 6, seed=2, decisions=menus, **COSTS)
    assert audit(ConstrainedElimination(6, menus, seed=1, **COSTS), world, horizon=300).ok
    units: dict[str, Any] = {"reward_range": (-4.0, 4.0), "direction": "minimize"}
    linear = LinearEnvironment([3.0, 1.0, -0.5], "cube", 6, seed=3, **units)
    assert audit(HierarchicalElimination(6, 3, 2, horizon=100, seed=1, **units), linear, horizon=100).ok


@pytest.mark.parametrize(
    "world",
    [
        StochasticEnvironment(MEANS, 6, **COSTS),
        StochasticEnvironment([0.5, 0.4, 0.3], 3, direction="minimize"),
        LinearEnvironment([0.5], "cube", 4, reward_range=(-2, 2)),
    ],
)
def test_bounds_are_for_rewards_on_the_unit_scale(world: Any) -> None:
    with pytest.raises(ValueError, match=r"environment must have rewards in .* to maximize, as the bounds, got"):
        bounds_for(world, 2, horizon=1000)
