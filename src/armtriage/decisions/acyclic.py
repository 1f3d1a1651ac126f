"""Routes through a network without cycles: a dynamic programme finds the best, whatever the signs of the weights."""

from __future__ import annotations

import numpy as np
from numpy.typing import NDArray

from armtriage.decisions.compiled import CompiledOracle, by_node
from armtriage.decisions.sets import Marks
from armtriage.kernels.jit import kernel
from armtriage.kernels.order import sort_arms
from armtriage.kernels.record import Floats, Ints, Record


def rank_nodes(edges: Ints, n_nodes: int) -> tuple[Ints, int]:
    """Return a topological rank of each node, and how many have one: fewer than all if there is a cycle."""
    starts, order = by_node(edges[:, 0], n_nodes)
    ranks = np.full(n_nodes, -1, np.int64)
    return ranks, _rank(np.bincount(edges[:, 1], minlength=n_nodes), starts, edges[order, 1], ranks)


@kernel
def _rank(missing: Ints, starts: Ints, heads: Ints, ranks: Ints) -> int:
    """Write the ranks of nodes that miss so many arcs, and return how many have one; `missing` is used up."""
    queue = np.empty(ranks.size, np.int64)
    last = 0
    for node in range(ranks.size):
        if missing[node] == 0:
            queue[last] = node
            last += 1
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
    return last


@kernel
def forward(weights: Floats, order: Ints, tails: Ints, starts: Ints, source: int, values: Floats, last: Ints) -> None:
    """Write the best value of a path from the source to each rank, and the last arm of that path.

    The arms ``order[starts[r]:starts[r + 1]]`` lead to rank r, each from the rank in `tails`.
    """
    values[:] = -np.inf
    values[source] = 0.0
    for head in range(values.size):
        best, arm = values[head], -1
        first, n = starts[head], starts[head + 1] - starts[head]
        near, entering = tails[first : first + n], order[first : first + n]
        for i in range(n):
            value = values[near[i]] + weights[entering[i]]
            more = value > best
            best, arm = (value if more else best), (entering[i] if more else arm)
        values[head], last[head] = best, arm


@kernel
def _walk(last: Ints, ends: Ints, source: int, node: int, path: Ints) -> int:
    """Write the arms of the path to a node that ends with its `last` arm, from the source on; return how many."""
    n = 0
    while node != source:
        path[n] = last[node]
        node = ends[last[node], 0]
        n += 1
    path[:n] = path[:n][::-1].copy()
    return n


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


class Routes(Record):
    """What `best_route` needs."""

    ends: Ints
    order: Ints
    tails: Ints
    starts: Ints
    values: Floats
    last: Ints
    source: int
    target: int
    offset: float


@kernel
def best_route(oracle: Routes, weights: Floats, arms: Ints) -> int:
    """Write the arms of the heaviest path."""
    last = oracle.last
    forward(weights, oracle.order, oracle.tails, oracle.starts, oracle.source, oracle.values, last)
    n = _walk(last, oracle.ends, oracle.source, oracle.target, arms)
    sort_arms(arms[:n])  # they are mostly numbered along the way
    return n


class AcyclicRoutes:
    """The routes of a network whose nodes have ranks, with an arc from a lower to a higher rank for each used arm."""

    def __init__(self, ends: Ints, used: NDArray[np.bool_], n_nodes: int, source: int, target: int) -> None:
        self.n_nodes = n_nodes
        self._ends, self._used, self._from, self._to = ends, used, source, target
        # Arms that lead to the same node stand together, those from a lower rank first.
        order = np.lexsort((ends[:, 0], ends[:, 1]))
        self._order = order[used[order]]
        self._tails = np.ascontiguousarray(ends[self._order, 0])
        self._starts = np.searchsorted(ends[self._order, 1], np.arange(n_nodes + 1))

    def longest(self) -> int:
        """Return the number of arms of the longest route."""
        path = self._best(np.ones(self._used.size), self._used, np.empty(self.n_nodes))
        assert path is not None
        return int(path.size)

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
        last = np.empty(self.n_nodes, np.int64)
        open_ = np.where(allowed, weights, -np.inf)
        forward(open_, self._order, self._tails, self._starts, self._from, values, last)
        if values[self._to] == -np.inf:
            return None
        path = np.empty(self.n_nodes, np.int64)
        return path[: _walk(last, self._ends, self._from, self._to, path)]

    def maximise(self, weights: Floats, marks: Marks) -> Ints | None:
        """Return the arms, ascending, of a heaviest route that obeys the marks."""
        allowed = self._open(marks)
        path = None if allowed is None else self._best(weights, allowed, np.empty(self.n_nodes))
        return None if path is None else np.sort(path)

    def exchange(self, weights: Floats, marks: Marks) -> tuple[Floats, Floats]:
        """Return the best values with each arm and without it."""
        nothing = np.full(self._used.size, -np.inf)
        allowed = self._open(marks)
        if allowed is None:
            return nothing, nothing
        before, after = np.empty(self.n_nodes), np.empty(self.n_nodes)
        path = self._best(weights, allowed, before)
        if path is None:
            return nothing, nothing
        _backward(weights, allowed, self._order, self._ends, self._to, after)
        through = np.where(allowed, before[self._ends[:, 0]] + weights + after[self._ends[:, 1]], -np.inf)
        without = np.full(self._used.size, weights[path].sum())
        _detours(through, self._ends, path, self._ends[path, 0], without)
        return through, without

    def compiled(self, offset: float) -> CompiledOracle:
        """Return the oracle for compiled code."""
        network = self._ends, self._order, self._tails, self._starts
        values, last = np.zeros(self.n_nodes), np.zeros(self.n_nodes, np.int64)
        return CompiledOracle(Routes(*network, values, last, self._from, self._to, offset), best_route)

    def count(self) -> int:
        """Return the exact number of routes."""
        ways = [0] * self.n_nodes
        ways[self._from] = 1
        for tail, head in self._ends[self._order].tolist():
            ways[head] += ways[tail]
        return ways[self._to]

    def listed(self) -> list[tuple[int, ...]]:
        """Return all routes."""
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
