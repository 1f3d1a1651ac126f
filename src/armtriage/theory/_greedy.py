"""The two greedy covers: the paper's, which picks among the arms not yet seen, and Chvatal's, which picks among all."""

from __future__ import annotations

import numpy as np
from numpy.typing import NDArray

from armtriage.graphs.feedback import GraphArrays
from armtriage.kernels.jit import kernel
from armtriage.policies.elimination.layers import MEMBERS, WAITING, Layer, cover, next_pick, open_layer

__all__ = ["cover_chvatal", "cover_printed"]

Ints = NDArray[np.int64]
Marks = NDArray[np.uint8]
_SHIFT = 8


@kernel
def cover_printed(layer: Layer, graph: GraphArrays, picks: Ints) -> int:
    """Write the picks of the policy's first layer in their order; return how many."""
    layer = borrowed(layer)
    for arm in range(picks.size):
        layer.members[arm] = arm
        layer.waiting[arm] = 1
        layer.crowd[arm >> _SHIFT] += 1
    layer.whole[MEMBERS] = picks.size
    layer.whole[WAITING] = picks.size
    open_layer(layer, graph)
    nothing = np.zeros(0)
    count = 0
    arm = next_pick(layer, graph, nothing)
    while arm >= 0:
        cover(layer, graph, arm)
        picks[count] = arm
        count += 1
        arm = next_pick(layer, graph, nothing)
    return count


@kernel
def _gain(sets: GraphArrays, one: int, missing: Marks, crowd: Ints) -> int:
    """Return how much of what is missing is in a set."""
    gain = 0
    arm, stop = int(sets.start[one]), int(sets.stop[one])
    while arm < stop:
        end = ((arm >> _SHIFT) + 1) << _SHIFT
        if end - arm == 1 << _SHIFT and end <= stop:
            gain += crowd[arm >> _SHIFT]
        else:
            end = min(end, stop)
            for a in range(arm, end):
                gain += int(missing[a])
        arm = end
    for e in range(sets.indptr[one], sets.indptr[one + 1]):
        gain += int(missing[sets.indices[e]])
    return gain


@kernel
def _found(missing: Marks, crowd: Ints, arm: int) -> int:
    if missing[arm] == 0:
        return 0
    missing[arm] = 0
    crowd[arm >> _SHIFT] -= 1
    return 1


@kernel
def _sink(heap: Ints, size: int, place: int) -> None:
    """Move a key down to where it belongs; the smallest key is on top."""
    key = heap[place]
    while 2 * place + 1 < size:
        child = 2 * place + 1
        child += child + 1 < size and heap[child + 1] < heap[child]
        if heap[child] >= key:
            break
        heap[place] = heap[child]
        place = child
    heap[place] = key


@kernel
def cover_chvatal(sets: GraphArrays, missing: Marks) -> Ints:
    """Return sets that hold all that is missing, each the one that holds most of what then still is; ties to the first.

    What a set adds only falls, so only the set on top of the heap is counted anew. `missing` is used up; what no set
    holds stays.
    """
    n = sets.start.size
    crowd, before = np.zeros((missing.size >> _SHIFT) + 1, np.int64), np.zeros(missing.size + 1, np.int64)
    for arm in range(missing.size):
        crowd[arm >> _SHIFT] += missing[arm]
        before[arm + 1] = before[arm] + missing[arm]
    total = before[missing.size]
    # A key holds what a set lacks of the most and its number, such that the smallest key is the best set.
    most = missing.size
    heap, picks = np.empty(n, np.int64), np.empty(n, np.int64)
    for one in range(n):
        gain = before[sets.stop[one]] - before[sets.start[one]]
        for e in range(sets.indptr[one], sets.indptr[one + 1]):
            gain += missing[sets.indices[e]]
        heap[one] = (most - gain) * n + one
    for place in range(n // 2 - 1, -1, -1):
        _sink(heap, n, place)
    count = 0
    while total > 0 and heap[0] // n < most:
        one = heap[0] % n
        key = (most - _gain(sets, one, missing, crowd)) * n + one
        if key == heap[0]:
            picks[count] = one
            count += 1
            arm, stop = int(sets.start[one]), int(sets.stop[one])
            while arm < stop:
                if crowd[arm >> _SHIFT] == 0:
                    arm = ((arm >> _SHIFT) + 1) << _SHIFT
                else:
                    total -= _found(missing, crowd, arm)
                    arm += 1
            for e in range(sets.indptr[one], sets.indptr[one + 1]):
                total -= _found(missing, crowd, sets.indices[e])
            key = most * n + one
        heap[0] = key
        _sink(heap, n, 0)
    return picks[:count].copy()
