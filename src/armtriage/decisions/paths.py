"""Paths: the routes from one node of an acyclic network to another."""

from __future__ import annotations

from typing import Any

import numpy as np
from numpy.typing import ArrayLike, NDArray

from armtriage._arguments import LARGEST, check_count, check_pairs
from armtriage.decisions.sets import DecisionSet, Floats, Ints, Marks, frozen
from armtriage.kernels.jit import kernel

__all__ = ["Paths"]


@kernel
def _rank_nodes(edges: Ints, n_nodes: int) -> tuple[Ints, int]:
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
def _forward(weights: Floats, open_: NDArray[np.bool_], order: Ints, ends: Ints, source: int, values: Floats) -> Ints:
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
def _walk(last: Ints, ends: Ints, source: int, target: int) -> Ints:
    """Return the arms of the path that ends with the `last` arms, from source to target."""
    path = np.empty(last.size, np.int64)
    place = last.size
    while target != source:
        place -= 1
        path[place] = last[target]
        target = ends[last[target], 0]
    return path[place:]


@kernel
def _backward(weights: Floats, open_: NDArray[np.bool_], order: Ints, ends: Ints, target: int, values: Floats) -> None:
    """Write the best value of a path from each rank to the target."""
    values[:] = -np.inf
    values[target] = 0.0
    for i in range(order.size - 1, -1, -1):
        e = order[i]
        if open_[e]:
            values[ends[e, 0]] = max(values[ends[e, 0]], weights[e] + values[ends[e, 1]])


@kernel
def _detours(through: Floats, ends: Ints, path: Ints, tails: Ints, values: Floats) -> None:
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


class Paths(DecisionSet):
    """The paths from a source to a target in a network without cycles; the arms are its edges.

    The best path is the heaviest: for lengths or delays, which one wants small, give their negatives as weights.
    Parallel edges are different arms. Edges on no such path are arms that no decision contains.

    Parameters
    ----------
    n_nodes : int
        The number of nodes, which are 0 to ``n_nodes - 1``.
    edges : array_like of shape (m, 2)
        From which node to which each edge leads; edge number a is arm a.
    source, target : int
        Where each path begins and ends.

    Examples
    --------
    >>> routes = Paths(4, [(0, 1), (0, 2), (1, 3), (2, 3), (1, 2)], source=0, target=3)
    >>> routes.maximise([-1.0, -5.0, -9.0, -2.0, -1.0])
    array([0, 3, 4])
    >>> routes.count(), routes.size
    (3, 3)
    """

    def __init__(self, n_nodes: int, edges: ArrayLike, source: int, target: int) -> None:
        self.n_nodes = check_count("n_nodes", n_nodes, 2, LARGEST)
        self.edges = frozen(check_pairs(edges, self.n_nodes, self.n_nodes))
        self.source = check_count("source", source, 0, self.n_nodes - 1)
        self.target = check_count("target", target, 0, self.n_nodes - 1)
        if self.source == self.target:
            raise ValueError(f"target must differ from source, got {self.target} for both")
        ranks, ranked = _rank_nodes(self.edges, self.n_nodes)
        if ranked < self.n_nodes:
            raise ValueError(f"edges must have no cycle, got one through some of nodes {_few(ranks)}")
        self._ends = ranks[self.edges]
        self._order = np.argsort(self._ends[:, 0], kind="stable")
        self._from, self._to = int(ranks[self.source]), int(ranks[self.target])
        n_arms = len(self.edges)
        through, longest = self._values(np.ones(n_arms), np.ones(n_arms, np.bool_))
        if longest is None:
            raise ValueError(f"edges must lead from source {self.source} to target {self.target}, got no such path")
        super().__init__(n_arms, longest.size)
        self._used = through > -np.inf

    def _open(self, marks: Marks) -> NDArray[np.bool_] | None:
        """Return which arms a path may use: one that must use an arm crosses the cut behind its tail only there."""
        allowed = self._used & (marks >= 0)
        for arm in np.flatnonzero(marks == 1):
            if not allowed[arm]:
                return None
            cut = self._ends[arm, 0]
            allowed &= (self._ends[:, 0] > cut) | (self._ends[:, 1] <= cut)
            allowed[arm] = True
        return allowed

    def _best(self, weights: Floats, allowed: NDArray[np.bool_], values: Floats) -> Ints | None:
        """Return the arms of the best path in its order, and write the value of getting anywhere."""
        last = _forward(weights, allowed, self._order, self._ends, self._from, values)
        if values[self._to] == -np.inf:
            return None
        return _walk(last, self._ends, self._from, self._to)

    def _values(self, weights: Floats, allowed: NDArray[np.bool_]) -> tuple[Floats, Ints | None]:
        """Return the best value of a path through each arm, and the best path."""
        before, after = np.empty(self.n_nodes), np.empty(self.n_nodes)
        path = self._best(weights, allowed, before)
        _backward(weights, allowed, self._order, self._ends, self._to, after)
        through = before[self._ends[:, 0]] + weights + after[self._ends[:, 1]]
        return np.where(allowed, through, -np.inf), path

    def _maximise(self, weights: Floats, marks: Marks) -> Ints | None:
        allowed = self._open(marks)
        path = None if allowed is None else self._best(weights, allowed, np.empty(self.n_nodes))
        return None if path is None else np.sort(path)

    def _exchange(self, weights: Floats, marks: Marks) -> tuple[Floats, Floats]:
        nothing = np.full(self.n_arms, -np.inf)
        allowed = self._open(marks)
        if allowed is None:
            return nothing, nothing
        through, path = self._values(weights, allowed)
        if path is None:
            return nothing, nothing
        without = np.full(self.n_arms, weights[path].sum())
        _detours(through, self._ends, path, self._ends[path, 0], without)
        return through, without

    def count(self) -> int:
        """Return the exact number of paths."""
        ways = [0] * self.n_nodes
        ways[self._from] = 1
        for tail, head in self._ends[self._order].tolist():
            ways[head] += ways[tail]
        return ways[self._to]

    def _list(self) -> list[tuple[int, ...]]:
        leaving: dict[int, list[tuple[int, int]]] = {}
        for arm in np.flatnonzero(self._used).tolist():
            leaving.setdefault(int(self._ends[arm, 0]), []).append((arm, int(self._ends[arm, 1])))
        found = []
        partial: list[tuple[int, tuple[int, ...]]] = [(self._from, ())]
        while partial:
            node, arms = partial.pop()
            if node == self._to:
                found.append(tuple(sorted(arms)))
            else:
                partial += [(head, (*arms, arm)) for arm, head in leaving[node]]
        return found

    def _arguments(self) -> dict[str, Any]:
        return {"n_nodes": self.n_nodes, "edges": self.edges, "source": self.source, "target": self.target}


def _few(ranks: Ints) -> str:
    nodes = np.flatnonzero(ranks < 0)
    return ", ".join(map(str, nodes[:5])) + (", ..." if nodes.size > 5 else "")
