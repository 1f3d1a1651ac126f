"""Oracles for compiled code give the answers of `maximise`, ties included."""

from __future__ import annotations

from typing import Any

import numpy as np
import pytest

from armtriage import (
    Constraints,
    DecisionSet,
    Explicit,
    Knapsack,
    Matchings,
    PartitionMatroid,
    Paths,
    SpanningTrees,
    TopS,
)
from armtriage.decisions.compiled import compiled_oracle, has_compiled_oracle
from armtriage.instances import FAMILIES

SETS: dict[str, DecisionSet] = {
    "slates": PartitionMatroid([0, 1, 0, 2, 1, 0, 2, 2], [2, 1, 1]),
    "top": TopS(9, budget=4),
    "matchings": Matchings(3, 4),
    "some pairs": Matchings(5, 4, [(i, j) for i in range(5) for j in range(4) if (i + j) % 3], size=3),
    "one of each": PartitionMatroid([0, 1, 0, 2, 1, 0, 2, 2], 1),
    "trees": FAMILIES["tree"](nodes=7, edges=14, seed=3),
    "large trees": FAMILIES["tree"](nodes=40, edges=90, seed=3),
    "doubled edges": SpanningTrees(4, [(1, 0), (0, 1), (2, 1), (1, 2), (3, 2), (0, 3), (2, 3)]),
    "chain": SpanningTrees(30, [(i, i + 1) for i in range(29)] + [(29, 0)]),
    "routes": FAMILIES["routing"](layers=3, width=3),
    "roads in any order": Paths(5, [(3, 4), (0, 2), (2, 3), (0, 3), (1, 4), (2, 4), (0, 1), (2, 1)], 0, 4),
    "list": Explicit([[0, 1], [2], [1, 2, 3], [0, 3]]),
    "bags": Knapsack([3, 4, 5, 2, 0], 8),
}


@pytest.mark.parametrize("name", SETS)
def test_answers_are_those_of_maximise(name: str) -> None:
    decisions, rng = SETS[name], np.random.default_rng(5)
    oracle = compiled_oracle(decisions, 0.0)
    assert oracle is not None
    arms = np.zeros(decisions.size, np.int64)
    for number in range(60):
        # Coarse weights make ties, of which both must break the same way.
        weights = (
            rng.normal(size=decisions.n_arms) if number % 2 else rng.integers(-1, 3, decisions.n_arms).astype(float)
        )
        n = oracle.best(oracle.record, weights, arms)
        np.testing.assert_array_equal(arms[:n], decisions.maximise(weights))


class Own(SpanningTrees):
    """A family of somebody's own, whose oracle may be another one."""


@pytest.mark.parametrize(
    "decisions",
    [Constraints([[1, 1]], 1, 1), Knapsack([0.5, 0.7], 1.0), Own(3, [(0, 1), (1, 2), (0, 2)])],
    ids=["constraints", "real weights", "own"],
)
def test_other_families_are_asked_from_python(decisions: Any) -> None:
    assert not has_compiled_oracle(decisions)
    assert compiled_oracle(decisions, 0.0) is None
