"""Paths: the routes from one node of an acyclic network to another."""

from __future__ import annotations

from typing import Any

import numpy as np
from numpy.typing import ArrayLike, NDArray

from armtriage._arguments import check_count
from armtriage.decisions._forms import Floats, Ints, Marks, check_pairs
from armtriage.decisions._routes import backward, detours, forward, rank_nodes, walk
from armtriage.decisions.sets import DecisionSet

__all__ = ["Paths"]


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
        self.n_nodes = check_count("n_nodes", n_nodes, 2, 2**31 - 1)
        self.edges = check_pairs(edges, self.n_nodes, self.n_nodes)
        self.source = check_count("source", source, 0, self.n_nodes - 1)
        self.target = check_count("target", target, 0, self.n_nodes - 1)
        if self.source == self.target:
            raise ValueError(f"target must differ from source, got {self.target} for both")
        ranks, ranked = rank_nodes(self.edges, self.n_nodes)
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
        last = forward(weights, allowed, self._order, self._ends, self._from, values)
        if values[self._to] == -np.inf:
            return None
        return walk(last, self._ends, self._from, self._to)

    def _values(self, weights: Floats, allowed: NDArray[np.bool_]) -> tuple[Floats, Ints | None]:
        """Return the best value of a path through each arm, and the best path."""
        before, after = np.empty(self.n_nodes), np.empty(self.n_nodes)
        path = self._best(weights, allowed, before)
        backward(weights, allowed, self._order, self._ends, self._to, after)
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
        detours(through, self._ends, path, self._ends[path, 0], without)
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
