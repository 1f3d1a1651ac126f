"""Order statistics for kernels; every order is total, since ties go to the smaller arm."""

from __future__ import annotations

import numpy as np
from numpy.typing import NDArray

from armtriage._jit import inlined, kernel

__all__ = ["kth_largest", "top_first"]


@inlined
def _before(value: float, arm: int, other_value: float, other_arm: int) -> bool:
    return value > other_value or (value == other_value and arm < other_arm)


@inlined
def _swap(values: NDArray[np.float64], arms: NDArray[np.int64], i: int, j: int) -> None:
    values[i], values[j] = values[j], values[i]
    arms[i], arms[j] = arms[j], arms[i]


@kernel
def top_first(values: NDArray[np.float64], arms: NDArray[np.int64], n: int, k: int) -> None:
    """Reorder the first n pairs so that the k of largest value lead, in any order (Hoare's selection)."""
    low, high = 0, n - 1
    while low < high and low < k:
        middle = (low + high) >> 1
        if _before(values[middle], arms[middle], values[low], arms[low]):
            _swap(values, arms, middle, low)
        if _before(values[high], arms[high], values[low], arms[low]):
            _swap(values, arms, high, low)
        if _before(values[high], arms[high], values[middle], arms[middle]):
            _swap(values, arms, high, middle)
        pivot_value, pivot_arm = values[middle], arms[middle]
        i, j = low, high
        while i <= j:
            while _before(values[i], arms[i], pivot_value, pivot_arm):
                i += 1
            while _before(pivot_value, pivot_arm, values[j], arms[j]):
                j -= 1
            if i <= j:
                _swap(values, arms, i, j)
                i += 1
                j -= 1
        if k - 1 <= j:
            high = j
        elif k - 1 >= i:
            low = i
        else:
            return


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
