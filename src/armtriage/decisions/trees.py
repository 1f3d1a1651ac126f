"""SpanningTrees: the sets of edges that connect all nodes of a network without a cycle."""

from __future__ import annotations

from typing import Any

import numpy as np
from numpy.typing import ArrayLike, NDArray

from armtriage._arguments import check_count
from armtriage.decisions._forms import Floats, Ints, Marks, check_pairs
from armtriage.decisions._kruskal import kruskal, swaps
from armtriage.decisions.sets import DecisionSet

__all__ = ["SpanningTrees"]


class SpanningTrees(DecisionSet):
    """The spanning trees of a connected network; the arms are its edges.

    Ties go to the smallest arm. Parallel edges are different arms.

    Parameters
    ----------
    n_nodes : int
        The number of nodes, which are 0 to ``n_nodes - 1``.
    edges : array_like of shape (m, 2)
        The two ends of each edge; edge number a is arm a.

    Examples
    --------
    >>> trees = SpanningTrees(3, [(0, 1), (1, 2), (0, 2)])
    >>> trees.maximise([0.5, 0.9, 0.7])
    array([1, 2])
    >>> trees.count()
    3
    """

    def __init__(self, n_nodes: int, edges: ArrayLike) -> None:
        self.n_nodes = check_count("n_nodes", n_nodes, 2, 2**31 - 1)
        self.edges = check_pairs(edges, self.n_nodes, self.n_nodes)
        loops = np.flatnonzero(self.edges[:, 0] == self.edges[:, 1])
        if loops.size:
            raise ValueError(f"edges must join two different nodes, got {tuple(self.edges[loops[0]].tolist())}")
        super().__init__(len(self.edges), self.n_nodes - 1)
        if self._tree(np.zeros(self.n_arms), np.zeros(self.n_arms, np.int8)) is None:
            raise ValueError(f"edges must connect all {self.n_nodes} nodes, got a network in several parts")

    def _tree(self, weights: Floats, marks: Marks) -> NDArray[np.bool_] | None:
        chosen = np.zeros(self.n_arms, np.bool_)
        order = np.argsort(-weights, kind="stable")
        return chosen if kruskal(self.edges, order, marks, self.n_nodes, chosen) else None

    def _maximise(self, weights: Floats, marks: Marks) -> Ints | None:
        chosen = self._tree(weights, marks)
        return None if chosen is None else np.flatnonzero(chosen)

    def _exchange(self, weights: Floats, marks: Marks) -> tuple[Floats, Floats]:
        chosen = self._tree(weights, marks)
        if chosen is None:
            return np.full(self.n_arms, -np.inf), np.full(self.n_arms, -np.inf)
        lightest, substitute = swaps(weights, marks, self.edges, chosen, self.n_nodes)
        best = weights[chosen].sum()
        return np.where(chosen, best, best - lightest + weights), np.where(chosen, best - weights + substitute, best)

    def count(self) -> int:
        """Return the exact number of trees, by Kirchhoff's theorem in whole numbers; cubic in the nodes."""
        n = self.n_nodes
        laplacian = np.zeros((n, n), np.int64)
        np.add.at(laplacian, (self.edges[:, 0], self.edges[:, 1]), -1)
        laplacian += laplacian.T
        laplacian -= np.diag(laplacian.sum(axis=0))
        # Bareiss elimination of a principal minor: each division is exact, and no leading minor is 0.
        rest = laplacian[1:, 1:].astype(object)
        before = 1
        while len(rest) > 1:
            pivot = rest[0, 0]
            rest = (rest[1:, 1:] * pivot - np.outer(rest[1:, 0], rest[0, 1:])) // before
            before = pivot
        return int(rest[0, 0])

    def _arguments(self) -> dict[str, Any]:
        return {"n_nodes": self.n_nodes, "edges": self.edges}
