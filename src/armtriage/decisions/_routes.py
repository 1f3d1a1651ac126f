"""Heaviest paths over nodes in topological order, and the ways around each arm of one."""

from __future__ import annotations

import numpy as np
from numpy.typing import NDArray

from armtriage.decisions._forms import Floats, Ints
from armtriage.kernels.jit import kernel

__all__ = ["backward", "detours", "forward", "rank_nodes", "walk"]


@kernel
def rank_nodes(edges: Ints, n_nodes: int) -> tuple[Ints, int]:
    """Return a topological rank of each node, and how many have one: fewer than all if there is a cycle."""
    missing = np.zeros(n_nodes, np.int64)
    starts = np.zeros(n_nodes + 2, np.int64)
    for e in range(len(edges)):
        missing[edges[e, 1]] += 1
        starts[edges[e, 0] + 2] += 1
    starts = np.cumsum(starts)
    heads = np.empty(len(edges), np.int64)
    for e in range(len(edges)):
        heads[starts[edges[e, 0] + 1]] = edges[e, 1]
        starts[edges[e, 0] + 1] += 1
    queue = np.empty(n_nodes, np.int64)
    last = 0
    for node in range(n_nodes):
        if missing[node] == 0:
            queue[last] = node
            last += 1
    ranks = np.full(n_nodes, -1, np.int64)
    place = 0
    while place < last:
        node = queue[place]
        ranks[node] = place
        place += 1
        for head in heads[starts[node] : starts[node + 1]]:
            missing[head] -= 1
            if missing[head] == 0:
                queue[last] = head
                last += 1
    return ranks, last


@kernel
def forward(weights: Floats, open_: NDArray[np.bool_], order: Ints, ends: Ints, source: int, values: Floats) -> Ints:
    """Write the best value of a path from the source to each rank; return the last arm of that path."""
    values[:] = -np.inf
    values[source] = 0.0
    last = np.full(values.size, -1, np.int64)
    for e in order:
        if open_[e]:
            value = values[ends[e, 0]] + weights[e]
            if value > values[ends[e, 1]]:
                values[ends[e, 1]] = value
                last[ends[e, 1]] = e
    return last


@kernel
def walk(last: Ints, ends: Ints, source: int, target: int) -> Ints:
    """Return the arms of the path that ends with the `last` arms, from source to target."""
    path = np.empty(last.size, np.int64)
    place = last.size
    while target != source:
        place -= 1
        path[place] = last[target]
        target = ends[last[target], 0]
    return path[place:]


@kernel
def backward(weights: Floats, open_: NDArray[np.bool_], order: Ints, ends: Ints, target: int, values: Floats) -> None:
    """Write the best value of a path from each rank to the target."""
    values[:] = -np.inf
    values[target] = 0.0
    for i in range(order.size - 1, -1, -1):
        e = order[i]
        if open_[e]:
            values[ends[e, 0]] = max(values[ends[e, 0]], weights[e] + values[ends[e, 1]])


@kernel
def detours(through: Floats, ends: Ints, path: Ints, tails: Ints, values: Floats) -> None:
    """Write, for each arm of the path, the best value of a path without it.

    A path without that arm crosses the cut just behind the arm's tail, in rank, by another arm.
    """
    for a in path:
        values[a] = -np.inf
    for e in range(through.size):
        for i in range(np.searchsorted(tails, ends[e, 0]), tails.size):
            if tails[i] >= ends[e, 1]:
                break
            if path[i] != e:
                values[path[i]] = max(values[path[i]], through[e])
