"""Order statistics for kernels; every order is total, since ties go to the smaller arm."""

from __future__ import annotations

import numpy as np
from numpy.typing import NDArray

from armtriage._jit import inlined, kernel

__all__ = ["kth_largest", "top_first"]


@inlined
def _before(value: float, arm: int, other_value: float, other_arm: int) -> bool:
    return (value > other_value) | ((value == other_value) & (arm < other_arm))


@inlined
def _order_pair(values: NDArray[np.float64], arms: NDArray[np.int64], i: int, j: int) -> None:
    if _before(values[j], arms[j], values[i], arms[i]):
        values[i], values[j] = values[j], values[i]
        arms[i], arms[j] = arms[j], arms[i]


@kernel
def top_first(values: NDArray[np.float64], arms: NDArray[np.int64], n: int, k: int) -> None:
    """Reorder the first n pairs so that the k of largest value lead, in any order (quickselect)."""
    low, high = 0, n
    while low < k < high:
        # The median of three goes last, as the pivot.
        middle, last = (low + high) >> 1, high - 1
        _order_pair(values, arms, low, middle)
        _order_pair(values, arms, low, last)
        _order_pair(values, arms, last, middle)
        pivot_value, pivot_arm = values[last], arms[last]
        place = low
        # Every pair is swapped, whether it must or not: a branch here could not be predicted.
        for i in range(low, last):
            value, arm = values[i], arms[i]
            values[i], arms[i] = values[place], arms[place]
            values[place], arms[place] = value, arm
            place += _before(value, arm, pivot_value, pivot_arm)
        values[last], arms[last] = values[place], arms[place]
        values[place], arms[place] = pivot_value, pivot_arm
        if place < k:
            low = place + 1
        else:
            high = place


@kernel
def kth_largest(values: NDArray[np.float64], n: int, k: int) -> float:
    """Return the k-th largest of the first n values, which are reordered; -inf if there are fewer than k."""
    if k > n:
        return -np.inf
    low, high = 0, n - 1
    while low < high:
        pivot = values[(low + high) >> 1]
        i, j = low, high
        while i <= j:
            while values[i] > pivot:
                i += 1
            while pivot > values[j]:
                j -= 1
            if i <= j:
                values[i], values[j] = values[j], values[i]
                i += 1
                j -= 1
        if k - 1 <= j:
            high = j
        elif k - 1 >= i:
            low = i
        else:
            break
    return values[k - 1]  # type: ignore[no-any-return]
