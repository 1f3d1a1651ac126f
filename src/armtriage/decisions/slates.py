"""Slates: the best arms of one pool, or a fixed number of arms from each of several groups."""

from __future__ import annotations

from itertools import chain, combinations, product
from math import comb, prod
from typing import Any

import numpy as np
from numpy.typing import ArrayLike, NDArray

from armtriage._arguments import LARGEST, check_count
from armtriage.decisions.compiled import CompiledOracle, collect
from armtriage.decisions.sets import DecisionSet, Marks, frozen
from armtriage.kernels.jit import kernel
from armtriage.kernels.order import best_member, kth_largest
from armtriage.kernels.record import Floats, Ints, Record


@kernel
def _select_one(
    weights: Floats, marks: Marks, members: Ints, g: int, chosen: NDArray[np.bool_], worst: Floats, spare: Floats
) -> bool:
    """Choose the best arm of a group in one pass, if none is required and one is allowed."""
    best, first, second = -1, -np.inf, -np.inf
    for arm in members:
        if marks[arm] == 1:
            return False
        if marks[arm] == 0:
            weight = weights[arm]
            if weight > first or best < 0:
                best, first, second = arm, weight, first
            elif weight > second:
                second = weight
    if best < 0:
        return False
    chosen[best] = True
    worst[g], spare[g] = first, second
    return True


@kernel
def _select(
    weights: Floats,
    marks: Marks,
    members: Ints,
    starts: Ints,
    capacities: Ints,
    chosen: NDArray[np.bool_],
    worst: Floats,
    spare: Floats,
) -> bool:
    """Choose the best arms of each group; note the worst free one chosen and the best free one left."""
    values = np.empty(members.size)
    for g in range(capacities.size):
        need = capacities[g]
        if need == 1 and _select_one(weights, marks, members[starts[g] : starts[g + 1]], g, chosen, worst, spare):
            continue
        free = 0
        for arm in members[starts[g] : starts[g + 1]]:
            if marks[arm] == 1:
                chosen[arm] = True
                need -= 1
            elif marks[arm] == 0:
                values[free] = weights[arm]
                free += 1
        if need < 0 or need > free:
            return False
        worst[g], spare[g] = np.inf, -np.inf
        if need > 0:
            worst[g] = kth_largest(values, free, need)  # this puts the best `need` first
        for value in values[need:free]:
            spare[g] = max(spare[g], value)
        above = 0
        for value in values[:free]:
            above += value > worst[g]
        ties = need - above
        for arm in members[starts[g] : starts[g + 1]]:
            if marks[arm] == 0 and weights[arm] >= worst[g]:
                if weights[arm] > worst[g]:
                    chosen[arm] = True
                elif ties > 0:
                    chosen[arm] = True
                    ties -= 1
    return True


@kernel
def _swap(
    weights: Floats, groups: Ints, chosen: NDArray[np.bool_], worst: Floats, spare: Floats, best: float
) -> tuple[Floats, Floats]:
    """Return the best values with each arm, in the place of the worst chosen, and without it, for the best left."""
    inside = np.full(weights.size, best)
    outside = np.full(weights.size, best)
    for arm in range(weights.size):
        if chosen[arm]:
            outside[arm] = best - weights[arm] + spare[groups[arm]]
        else:
            inside[arm] = best - worst[groups[arm]] + weights[arm]
    return inside, outside


class Slates(Record):
    """What `best_slate` needs."""

    marks: Marks  # (K,) zeros: nothing is forced
    members: Ints
    starts: Ints
    capacities: Ints
    chosen: NDArray[np.bool_]
    worst: Floats
    spare: Floats
    single: bool  # whether every group has a capacity of 1
    offset: float


@kernel
def best_slate(oracle: Slates, weights: Floats, arms: Ints) -> int:
    """Write the best arms of each group."""
    oracle.chosen[:] = False
    if oracle.single:
        for g in range(oracle.capacities.size):
            oracle.chosen[best_member(weights, oracle.members[oracle.starts[g] : oracle.starts[g + 1]])] = True
        return collect(oracle.chosen, arms)
    _select(
        weights,
        oracle.marks,
        oracle.members,
        oracle.starts,
        oracle.capacities,
        oracle.chosen,
        oracle.worst,
        oracle.spare,
    )
    return collect(oracle.chosen, arms)


class PartitionMatroid(DecisionSet):
    """Slates with a fixed number of arms from each group, such as one item from each category.

    A decision takes exactly the capacity from each group, so that all decisions have the same size: these are the
    bases of the partition matroid. Ties go to the smallest arm.

    Parameters
    ----------
    groups : array_like of int
        The group of each arm, from 0.
    capacities : int or array_like of int
        How many arms to take from each group; one number stands for all groups.

    Examples
    --------
    >>> slates = PartitionMatroid([0, 0, 0, 1, 1], capacities=[2, 1])
    >>> slates.maximise([0.1, 0.5, 0.3, 0.9, 0.8])
    array([1, 2, 3])
    >>> slates.size, slates.count()
    (3, 6)
    """

    def __init__(self, groups: ArrayLike, capacities: ArrayLike) -> None:
        labels, limits = np.asarray(groups), np.asarray(capacities)
        if labels.ndim != 1 or not labels.size or labels.dtype.kind not in "iu":
            raise ValueError(f"groups must be a non-empty list of whole numbers, one for each arm, got {groups!r}")
        if limits.dtype.kind not in "iu" or limits.ndim > 1:
            raise ValueError(f"capacities must be a whole number or a list of them, got {capacities!r}")
        if labels.min() < 0:
            raise ValueError(f"groups must be whole numbers from 0, got {labels.min()}")
        if not limits.ndim:
            limits = np.full(labels.max() + 1, limits)
        if labels.max() >= limits.size:
            raise ValueError(f"groups must lie in 0..{limits.size - 1}, as capacities has it, got {labels.max()}")
        sizes = np.bincount(labels, minlength=limits.size)
        wrong = np.flatnonzero((limits < 0) | (limits > sizes))
        if wrong.size:
            g = wrong[0]
            raise ValueError(f"capacities must lie in 0..{sizes[g]} for group {g}, of {sizes[g]} arms, got {limits[g]}")
        if not limits.any():
            raise ValueError(f"capacities must let a decision have an arm, got {capacities!r}")
        super().__init__(labels.size, int(limits.sum()))
        self.groups = frozen(labels.astype(np.int64))
        self.capacities = frozen(limits.astype(np.int64))
        self._members = np.argsort(self.groups, kind="stable")
        self._starts = np.append(0, np.cumsum(sizes))

    def _choose(self, weights: Floats, marks: Marks) -> tuple[NDArray[np.bool_], Floats, Floats] | None:
        chosen = np.zeros(self.n_arms, np.bool_)
        worst, spare = np.empty(self.capacities.size), np.empty(self.capacities.size)
        done = _select(weights, marks, self._members, self._starts, self.capacities, chosen, worst, spare)
        return (chosen, worst, spare) if done else None

    def _maximise(self, weights: Floats, marks: Marks) -> Ints | None:
        found = self._choose(weights, marks)
        return None if found is None else np.flatnonzero(found[0])

    def _exchange(self, weights: Floats, marks: Marks) -> tuple[Floats, Floats]:
        found = self._choose(weights, marks)
        if found is None:
            return np.full(self.n_arms, -np.inf), np.full(self.n_arms, -np.inf)
        chosen, worst, spare = found
        return _swap(weights, self.groups, chosen, worst, spare, float(weights[chosen].sum()))

    def count(self) -> int:
        """Return the exact number of decisions."""
        return prod(map(comb, np.diff(self._starts).tolist(), self.capacities.tolist()))

    def _list(self) -> list[tuple[int, ...]]:
        blocks = np.split(self._members, self._starts[1:-1])
        picks = [combinations(b.tolist(), c) for b, c in zip(blocks, self.capacities.tolist(), strict=True)]
        return [tuple(sorted(chain(*parts))) for parts in product(*picks)]

    def _arguments(self) -> dict[str, Any]:
        return {"groups": self.groups, "capacities": self.capacities}

    def _compiled(self, offset: float) -> CompiledOracle:
        marks, chosen = np.zeros(self.n_arms, np.int8), np.zeros(self.n_arms, np.bool_)
        worst, spare = np.zeros((2, self.capacities.size))
        single = bool((self.capacities == 1).all())
        own = self._members, self._starts, self.capacities, chosen, worst, spare
        return CompiledOracle(Slates(marks, *own, single, offset), best_slate)


class TopS(PartitionMatroid):
    """All sets of `budget` arms: the unconstrained problem.

    Parameters
    ----------
    n_arms : int
        The number of arms.
    budget : int
        How many arms a decision has, from 1 to `n_arms`.

    Examples
    --------
    >>> pairs = TopS(4, budget=2)
    >>> pairs.maximise([0.2, 0.9, 0.4, 0.9])
    array([1, 3])
    >>> pairs.count()
    6
    """

    def __init__(self, n_arms: int, budget: int) -> None:
        arms = check_count("n_arms", n_arms, 1, LARGEST)
        self.budget = check_count("budget", budget, 1, arms)
        super().__init__(np.zeros(arms, np.int64), [self.budget])

    def _arguments(self) -> dict[str, Any]:
        return {"n_arms": self.n_arms, "budget": self.budget}

    _compiled = PartitionMatroid._compiled
