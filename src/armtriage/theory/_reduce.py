"""What can be said about a smallest cover by comparing two sets, or two things that they hold."""

from __future__ import annotations

import numpy as np
from numpy.typing import NDArray

from armtriage.kernels.jit import kernel
from armtriage.theory._peel import OPEN, OUT, TAKEN, position

__all__ = ["fair_price", "reduce_cover"]

Ints = NDArray[np.int64]
SmallInts = NDArray[np.int32]
Marks = NDArray[np.uint8]


@kernel
def _rarest(indptr: Ints, indices: SmallInts, status: Marks, count: Ints, node: int) -> int:
    """Return the open node next to this one that has the fewest open nodes next to it, or -1."""
    rarest = -1
    for e in range(indptr[node], indptr[node + 1]):
        other = indices[e]
        if status[other] == OPEN and (rarest < 0 or count[other] < count[rarest]):
            rarest = other
    return rarest


@kernel
def _within(indptr: Ints, indices: SmallInts, status: Marks, node: int, other: int) -> bool:
    """Return whether all open nodes next to `node` are next to `other`."""
    for e in range(indptr[node], indptr[node + 1]):
        if status[indices[e]] == OPEN and position(indptr, indices, other, indices[e]) < 0:
            return False
    return True


@kernel
def reduce_cover(indptr: Ints, indices: SmallInts, n_sets: int, status: Marks, steps: int) -> None:
    """Decide sets that some smallest cover takes or leaves out, until none is obvious or the steps run out.

    The first `n_sets` nodes of the graph are the sets, the others the things, and a set is next to what it holds. A set
    goes if another one holds all that it does. A thing goes, since it comes for nothing, if all sets that hold some
    other thing hold it, too. A set is taken if it alone holds a thing, and nothing else any more.
    """
    n = status.size
    count = np.diff(indptr)
    stack, listed = np.arange(n), np.ones(n, np.uint8)
    gone = np.empty(n, np.int64)
    top = n
    while top > 0 and steps > 0:
        top -= 1
        node = stack[top]
        listed[node] = 0
        if status[node] != OPEN:
            continue
        is_set, n_gone = node < n_sets, 0
        rarest = _rarest(indptr, indices, status, count, node)
        steps -= indptr[node + 1] - indptr[node] + 1
        if rarest < 0:
            status[node] = OUT
            continue
        for e in range(indptr[rarest], indptr[rarest + 1]):
            other = indices[e]
            steps -= 1
            if status[other] != OPEN or other == node or count[other] < count[node]:
                continue
            steps -= count[node]
            if _within(indptr, indices, status, node, other):
                gone[n_gone] = node if is_set else other
                n_gone += 1
                if is_set:
                    break
        for i in range(n_gone):
            status[gone[i]] = OUT
            for e in range(indptr[gone[i]], indptr[gone[i] + 1]):
                other = indices[e]
                count[other] -= 1
                if status[other] == OPEN and listed[other] == 0:
                    stack[top] = other
                    listed[other] = 1
                    top += 1
        if not is_set and count[node] == 1 and count[rarest] == 1:
            status[node] = OUT
            status[rarest] = TAKEN


@kernel
def fair_price(indptr: Ints, indices: SmallInts, n_sets: int) -> float:
    """Return what the things pay together if those in a set never pay over 1: no cover has fewer sets.

    Each pays its share of the largest set that holds it; then, those in few sets first, what is left to pay.
    """
    n = indptr.size - 1
    left, count = np.ones(n), np.diff(indptr)
    total = 0.0
    for thing in range(n_sets, n):
        largest = 1
        for e in range(indptr[thing], indptr[thing + 1]):
            largest = max(largest, count[indices[e]])
        total += 1.0 / largest
        for e in range(indptr[thing], indptr[thing + 1]):
            left[indices[e]] -= 1.0 / largest
    for thing in n_sets + np.argsort(count[n_sets:], kind="mergesort"):
        more = 1.0
        for e in range(indptr[thing], indptr[thing + 1]):
            more = min(more, left[indices[e]])
        more = max(more, 0.0)
        total += more
        for e in range(indptr[thing], indptr[thing + 1]):
            left[indices[e]] -= more
    return total
