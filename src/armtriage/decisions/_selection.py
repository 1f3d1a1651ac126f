"""The best arms of each group, and what swapping one would cost."""

from __future__ import annotations

import numpy as np
from numpy.typing import NDArray

from armtriage.decisions._forms import Floats, Ints, Marks
from armtriage.kernels.jit import kernel

__all__ = ["select", "swap"]


@kernel
def _place(values: Floats, rank: int) -> None:
    """Rearrange the values such that none before `rank` is larger and none behind it smaller: Hoare's selection.

    NumPy's own takes ten seconds to compile.
    """
    low, high = 0, values.size - 1
    while low < high:
        pivot = values[(low + high) // 2]
        i, j = low, high
        while i <= j:
            while values[i] < pivot:
                i += 1
            while values[j] > pivot:
                j -= 1
            if i <= j:
                values[i], values[j] = values[j], values[i]
                i += 1
                j -= 1
        if rank <= j:
            high = j
        elif rank >= i:
            low = i
        else:
            break


@kernel
def select(
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
            _place(values[:free], free - need)
            worst[g] = values[free - need]
        for value in values[: free - need]:
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
def swap(
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
