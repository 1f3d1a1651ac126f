"""What can be said about independent sets by looking at neighbours only: reductions and cliques."""

from __future__ import annotations

import numpy as np
from numpy.typing import NDArray

from armtriage.kernels.jit import kernel

__all__ = ["OPEN", "OUT", "TAKEN", "cover_by_cliques", "cover_edges", "peel", "position"]

Ints = NDArray[np.int64]
SmallInts = NDArray[np.int32]
Marks = NDArray[np.uint8]
OPEN, TAKEN, OUT = range(3)


@kernel
def position(indptr: Ints, indices: SmallInts, node: int, other: int) -> int:
    """Return where `other` stands among the neighbours of `node`, or -1."""
    low, end = indptr[node], indptr[node + 1]
    high = end
    while low < high:
        middle = (low + high) >> 1
        if indices[middle] < other:
            low = middle + 1
        else:
            high = middle
    return low if low < end and indices[low] == other else -1


@kernel
def peel(indptr: Ints, indices: SmallInts, status: Marks, steps: int) -> None:
    """Decide nodes that some largest independent set takes or leaves out, until none is obvious or steps run out.

    A node goes if another one's closed neighbourhood lies within its own: swapping them never hurts. A node that
    has nobody left is taken. This takes the leaves of trees and one node of each clique that no other edge enters.
    """
    n = status.size
    degree = np.zeros(n, np.int64)
    stack, listed = np.empty(n, np.int64), np.zeros(n, np.uint8)
    top = 0
    for node in range(n - 1, -1, -1):
        if status[node] == OPEN:
            for e in range(indptr[node], indptr[node + 1]):
                degree[node] += status[indices[e]] == OPEN
            stack[top] = node
            listed[node] = 1
            top += 1
    while top > 0 and steps > 0:
        top -= 1
        node = stack[top]
        listed[node] = 0
        if status[node] != OPEN:
            continue
        for e in range(indptr[node], indptr[node + 1]):
            other = indices[e]
            steps -= 1
            if status[other] != OPEN or degree[other] < degree[node]:
                continue
            within = True
            for f in range(indptr[node], indptr[node + 1]):
                third = indices[f]
                if third != other and status[third] == OPEN:
                    steps -= 1
                    if position(indptr, indices, other, third) < 0:
                        within = False
                        break
            if within:
                status[other] = OUT
                for f in range(indptr[other], indptr[other + 1]):
                    third = indices[f]
                    degree[third] -= 1
                    if status[third] == OPEN and listed[third] == 0:
                        stack[top] = third
                        listed[third] = 1
                        top += 1
        if degree[node] == 0:
            status[node] = TAKEN


@kernel
def cover_by_cliques(indptr: Ints, indices: SmallInts) -> int:
    """Return how many cliques hold all nodes; each node joins the largest one that takes it."""
    n = indptr.size - 1
    clique, size = np.full(n, -1, np.int64), np.zeros(n, np.int64)
    met = np.zeros(n, np.int64)
    count = 0
    for node in range(n):
        best = -1
        for e in range(indptr[node], indptr[node + 1]):
            c = clique[indices[e]]
            if c >= 0:
                met[c] += 1
                if met[c] == size[c] and (best < 0 or size[c] > size[best]):
                    best = c
        for e in range(indptr[node], indptr[node + 1]):
            if clique[indices[e]] >= 0:
                met[clique[indices[e]]] = 0
        if best < 0:
            best = count
            count += 1
        clique[node] = best
        size[best] += 1
    return count


@kernel
def cover_edges(indptr: Ints, indices: SmallInts) -> tuple[SmallInts, Ints]:
    """Return cliques that hold all edges: their nodes, one clique after another, and where each begins."""
    n, room = indptr.size - 1, 2 * indices.size
    covered = np.zeros(indices.size, np.uint8)
    nodes, starts = np.empty(room, np.int32), np.zeros(indices.size // 2 + 1, np.int64)
    pool = np.empty(n, np.int32)
    count, filled, bare = 0, 0, indices.size // 2
    for u in range(n):
        for e in range(indptr[u], indptr[u + 1]):
            v = indices[e]
            if v < u or covered[e] > 0:
                continue
            first = filled
            nodes[filled], nodes[filled + 1] = u, v
            filled += 2
            m = 0
            for f in range(indptr[u], indptr[u + 1]):
                if position(indptr, indices, v, indices[f]) >= 0:
                    pool[m] = indices[f]
                    m += 1
            # Every edge that is still bare keeps room for a clique of its own.
            while m > 0 and filled + 2 * bare < room:
                w = pool[m - 1]
                nodes[filled] = w
                filled += 1
                kept = 0
                for i in range(m - 1):
                    if position(indptr, indices, w, pool[i]) >= 0:
                        pool[kept] = pool[i]
                        kept += 1
                m = kept
            for i in range(first, filled):
                for j in range(first, filled):
                    if i != j:
                        place = position(indptr, indices, nodes[i], nodes[j])
                        bare -= (covered[place] == 0) & (i < j)
                        covered[place] = 1
            count += 1
            starts[count] = filled
    return nodes[:filled], starts[: count + 1]
