"""The heaviest spanning tree, and which of its edges could make room for another."""

from __future__ import annotations

import numpy as np
from numpy.typing import NDArray

from armtriage.decisions._forms import Floats, Ints, Marks
from armtriage.kernels.jit import kernel

__all__ = ["kruskal", "swaps"]


@kernel
def _root(above: Ints, node: int) -> int:
    while above[node] != node:
        above[node] = above[above[node]]
        node = above[node]
    return node


@kernel
def kruskal(edges: Ints, order: Ints, marks: Marks, n_nodes: int, chosen: NDArray[np.bool_]) -> bool:
    """Choose the edges of a tree: those marked 1, then the first in `order` that join two parts."""
    above = np.arange(n_nodes)
    joined = 1
    for e in range(marks.size):
        if marks[e] == 1:
            first = _root(above, edges[e, 0])
            second = _root(above, edges[e, 1])
            if first == second:
                return False
            above[first] = second
            chosen[e] = True
            joined += 1
    for e in order:
        if joined == n_nodes:
            break
        if marks[e] == 0:
            first = _root(above, edges[e, 0])
            second = _root(above, edges[e, 1])
            if first != second:
                above[first] = second
                chosen[e] = True
                joined += 1
    return joined == n_nodes


@kernel
def _hang(edges: Ints, chosen: NDArray[np.bool_], n_nodes: int) -> tuple[Ints, Ints, Ints]:
    """Hang the tree from node 0: each node's parent, the edge to it, and its depth."""
    starts = np.zeros(n_nodes + 2, np.int64)
    for e in range(chosen.size):
        if chosen[e]:
            starts[edges[e, 0] + 2] += 1
            starts[edges[e, 1] + 2] += 1
    starts = np.cumsum(starts)
    near = np.empty(2 * n_nodes - 2, np.int64)
    for e in range(chosen.size):
        if chosen[e]:
            for side in range(2):
                near[starts[edges[e, side] + 1]] = e
                starts[edges[e, side] + 1] += 1
    parent = np.full(n_nodes, -1, np.int64)
    link = np.full(n_nodes, -1, np.int64)
    depth = np.zeros(n_nodes, np.int64)
    queue = np.zeros(n_nodes, np.int64)
    last = 1
    for place in range(n_nodes):
        node = queue[place]
        for e in near[starts[node] : starts[node + 1]]:
            if e != link[node]:
                child = edges[e, 0] + edges[e, 1] - node
                parent[child], link[child], depth[child] = node, e, depth[node] + 1
                queue[last] = child
                last += 1
    return parent, link, depth


@kernel
def swaps(weights: Floats, marks: Marks, edges: Ints, chosen: NDArray[np.bool_], n_nodes: int) -> tuple[Floats, Floats]:
    """Return the lightest edge that each outside the tree may replace, and the best substitute of each inside."""
    parent, link, depth = _hang(edges, chosen, n_nodes)
    lightest = np.full(chosen.size, np.inf)
    substitute = np.full(chosen.size, -np.inf)
    for e in range(chosen.size):
        if chosen[e] or marks[e] != 0:
            continue
        first = edges[e, 0]
        second = edges[e, 1]
        while first != second:
            if depth[first] < depth[second]:
                first, second = second, first
            other = link[first]
            if marks[other] == 0:
                lightest[e] = min(lightest[e], weights[other])
                substitute[other] = max(substitute[other], weights[e])
            first = parent[first]
    return lightest, substitute
