"""Order statistics and the inner product for kernels; every order is total, since ties go to the smaller arm."""

from __future__ import annotations

import numpy as np

from armtriage.kernels.jit import JIT, Instruction, bind, inlined, kernel, unbound
from armtriage.kernels.record import Floats, Ints

_LEFT = 8  # so few pairs more than are wanted are taken out one by one


@kernel
def _before(value: float, arm: int, other_value: float, other_arm: int) -> bool:
    return (value > other_value) | ((value == other_value) & (arm < other_arm))


first_of_eight = unbound


def _rank_few(values: Floats, arms: Ints, n: int, ranked: Ints) -> None:
    """Write the places of the first n pairs, largest value first; no branch here could be predicted.

    Every pair is compared with all others, which for few takes less than to move them. Values are finite, and there is
    room for a multiple of eight, where those behind are overwritten.
    """
    whole = (n + 7) & -8
    for i in range(n, whole):
        values[i] = -np.inf
    for i in range(n):
        rank = 0
        for place in range(0, whole, 8):
            rank += first_of_eight(values, arms, place, values[i], arms[i])
        ranked[rank] = i


if JIT:
    rank_few = bind(_rank_few, "rank_few", first_of_eight=Instruction("first_of_eight"))

else:

    def first_of_eight(values: Floats, arms: Ints, place: int, value: float, arm: int) -> int:
        """Return how many of the eight pairs from a place on come before a pair."""
        pairs = zip(values[place : place + 8].tolist(), arms[place : place + 8].tolist(), strict=True)
        return sum(_before(*pair, value, arm) for pair in pairs)

    rank_few = _rank_few


@kernel
def _order_pair(values: Floats, arms: Ints, i: int, j: int) -> None:
    if _before(values[j], arms[j], values[i], arms[i]):
        values[i], values[j] = values[j], values[i]
        arms[i], arms[j] = arms[j], arms[i]


@kernel
@inlined
def _last_of(values: Floats, arms: Ints, n: int) -> int:
    """Return the place of the pair that comes last among the first n; no branch here could be predicted."""
    place, value, arm = 0, values[0], arms[0]
    for i in range(1, n):
        later = _before(value, arm, values[i], arms[i])
        place, value, arm = (i if later else place), (values[i] if later else value), (arms[i] if later else arm)
    return place


@kernel
def top_first(values: Floats, arms: Ints, n: int, k: int) -> None:
    """Reorder the first n pairs so that the k of largest value lead, in any order (quickselect)."""
    low, high = 0, n
    while k < high <= k + _LEFT:
        high -= 1
        last = _last_of(values, arms, high + 1)
        values[last], values[high] = values[high], values[last]
        arms[last], arms[high] = arms[high], arms[last]
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
def kth_largest(values: Floats, n: int, k: int) -> float:
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


@kernel
def best_arms(values: Floats, scratch: Floats, arms: Ints) -> None:
    """Fill `arms` with the arms of largest value, ascending; `scratch` is as long as `values`.

    One pass with a level that rises finds the least value among them: few of many arms are looked at twice.
    """
    k, room = arms.size, min(values.size, max(4 * arms.size, 64))
    n, level = 0, -np.inf
    for arm in range(values.size):
        if (values[arm] > level) | (n < k):
            scratch[n] = values[arm]
            n += 1
            if n == room:
                level = kth_largest(scratch, n, k)  # this puts the k largest first
                n = k
    level = kth_largest(scratch, n, k)
    ties = k
    for i in range(k):
        ties -= scratch[i] > level
    n = 0
    for arm in range(values.size):
        if values[arm] > level or (values[arm] == level and ties > 0):
            arms[n] = arm
            n += 1
            ties -= values[arm] == level


@kernel
def best_member(values: Floats, members: Ints) -> int:
    """Return the member of largest value, the first of equals; no branch here could be predicted."""
    best, most = members[0], values[members[0]]
    for arm in members[1:]:
        more = values[arm] > most
        best, most = (arm if more else best), (values[arm] if more else most)
    return best  # type: ignore[no-any-return]


@kernel
def sort_pairs(values: Floats, arms: Ints, n: int) -> None:
    """Sort the first n pairs, largest value first (merge sort from runs of eight)."""
    for first in range(0, n, 8):
        for i in range(first + 1, min(first + 8, n)):
            value, arm, j = values[i], arms[i], i
            while j > first and _before(value, arm, values[j - 1], arms[j - 1]):
                values[j], arms[j] = values[j - 1], arms[j - 1]
                j -= 1
            values[j], arms[j] = value, arm
    if n <= 8:
        return
    other_values, other_arms = np.empty(n), np.empty(n, np.int64)
    width = 8
    while width < n:
        for first in range(0, n, 2 * width):
            middle, last = min(first + width, n), min(first + 2 * width, n)
            i, j = first, middle
            for place in range(first, last):
                left = j >= last or (i < middle and _before(values[i], arms[i], values[j], arms[j]))
                source = i if left else j
                other_values[place], other_arms[place] = values[source], arms[source]
                i += left
                j += not left
        for i in range(n):
            values[i], arms[i] = other_values[i], other_arms[i]
        width *= 2


@kernel
def sort_arms(arms: Ints) -> None:
    """Sort arms, smallest first (Shell's sort: every ask compiles it, and a merge sort takes half a second)."""
    gap = 1
    while 3 * gap < arms.size:
        gap = 3 * gap + 1
    while gap > 0:
        for i in range(gap, arms.size):
            arm, j = arms[i], i
            while j >= gap and arms[j - gap] > arm:
                arms[j] = arms[j - gap]
                j -= gap
            arms[j] = arm
        gap //= 3


@kernel
def inner(left: Floats, right: Floats) -> float:
    """Return the inner product of two vectors, in four sums: one alone would wait for each addition."""
    a, b, c, d = 0.0, 0.0, 0.0, 0.0
    fours = left.size - left.size % 4
    for j in range(0, fours, 4):
        a += left[j] * right[j]
        b += left[j + 1] * right[j + 1]
        c += left[j + 2] * right[j + 2]
        d += left[j + 3] * right[j + 3]
    for j in range(fours, left.size):
        a += left[j] * right[j]
    return (a + b) + (c + d)
