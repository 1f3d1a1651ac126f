"""Knapsack: the sets of arms that fit into a capacity."""

from __future__ import annotations

from typing import Any, Self

import numpy as np
from numpy.typing import ArrayLike

from armtriage._arguments import check_number
from armtriage.decisions._forms import frozen
from armtriage.decisions.constraints import Constraints
from armtriage.decisions.sets import DecisionSet

__all__ = ["Knapsack"]


class Knapsack(Constraints):
    """The sets of arms, the empty one among them, whose weights sum to at most a capacity.

    Parameters
    ----------
    weights : array_like
        What each arm takes of the capacity, from 0; not to be confused with the weights that `maximise` is given.
    capacity : float
        What a decision may take in all.

    Examples
    --------
    >>> bag = Knapsack([3.0, 4.0, 5.0], capacity=8.0)
    >>> bag.maximise([0.5, 0.6, 0.9])
    array([0, 2])
    >>> bag.count(), bag.size
    (6, 2)
    """

    def __init__(self, weights: ArrayLike, capacity: float) -> None:
        loads = np.asarray(weights)
        if loads.dtype.kind not in "biuf" or loads.ndim != 1 or not loads.size:
            raise ValueError(f"weights must be a non-empty list of numbers, one for each arm, got {weights!r}")
        bad = np.flatnonzero(~((loads >= 0) & (loads < np.inf)))
        if bad.size:
            raise ValueError(f"weights must be finite and from 0, got {loads[bad[0]]} for arm {bad[0]}")
        self.weights = frozen(loads.astype(np.float64))
        self.capacity = check_number("capacity", capacity)
        if loads.min() > self.capacity:
            raise ValueError(f"capacity must be at least {loads.min()}, the smallest of weights, got {self.capacity}")
        super().__init__(self.weights[None], -np.inf, self.capacity)

    def _arguments(self) -> dict[str, Any]:
        return {"weights": self.weights, "capacity": self.capacity}

    @classmethod
    def _of(cls, arguments: dict[str, Any]) -> Self:
        return cls(**arguments)

    def __repr__(self) -> str:
        return DecisionSet.__repr__(self)
