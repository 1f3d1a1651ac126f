"""SpanningTrees: the sets of edges that connect all nodes of a network without a cycle."""

from __future__ import annotations

from typing import Any

import numpy as np
from numpy.typing import ArrayLike, NDArray

from armtriage._arguments import LARGEST, check_count, check_pairs
from armtriage.decisions.compiled import CompiledOracle, by_node, collect
from armtriage.decisions.sets import DecisionSet, Marks, frozen
from armtriage.kernels.jit import kernel
from armtriage.kernels.order import best_member
from armtriage.kernels.record import Floats, Ints, Record

_FORCED = 1e300
"""More than any weight: arms that a tree must have come first, those that it must not have last."""


@kernel
def _root(above: Ints, node: int) -> int:
    while above[node] != node:
        above[node] = above[above[node]]
        node = above[node]
    return node


class Network(Record, frozen=True):
    """What `heaviest_tree` needs: m edges between n nodes."""

    tails: Ints  # (m,)
    heads: Ints
    starts: Ints  # (n + 1,) where the edges of each node begin
    near: Ints  # (2m,) in these edges


def network_of(edges: Ints, n_nodes: int) -> Network:
    """Return the edges, ordered by node as well."""
    tails, heads = edges.T.copy()
    starts, place = by_node(edges.ravel(), n_nodes)
    return Network(tails, heads, starts, place // 2)


@kernel
def _find(first: Ints, second: Ints, values: Floats, best: Ints, most: Floats) -> None:
    """Find the best edge of every part, of equals the first: edges stand in the order of their arms."""
    most[:] = -np.inf
    for i in range(values.size):
        a, b, value = first[i], second[i], values[i]
        if value > most[a]:
            most[a], best[a] = value, i
        if value > most[b]:
            most[b], best[b] = value, i


@kernel
def _merge(first: Ints, second: Ints, order: Ints, best: Ints, labels: Ints, chosen: NDArray[np.bool_]) -> int:
    """Choose the best edge of every part (Boruvka), and label each part by the new one it belongs to; return how many.

    The edges in `order` join the parts `first` and `second`.
    """
    for part in range(best.size):
        i = best[part]
        chosen[order[i]] = True
        other = first[i] + second[i] - part
        # Two parts may choose the same edge: the smaller is the root.
        labels[part] = part if best[other] == i and part < other else other
    for part in range(best.size):
        labels[part] = _root(labels, part)
    parts = 0
    for part in range(best.size):
        best[part] = parts
        parts += labels[part] == part
    for part in range(best.size):
        labels[part] = best[labels[part]]
    return parts


@kernel
def heaviest_tree(network: Network, weights: Floats, marks: Marks, chosen: NDArray[np.bool_]) -> bool:
    """Choose the edges of the heaviest tree that obeys the marks, without sorting them; False if there is none."""
    n_parts, n = network.starts.size - 1, weights.size
    best, labels, most = np.empty(n_parts, np.int64), np.empty(n_parts, np.int64), np.empty(n_parts)
    first, second, order, values = network.tails.copy(), network.heads.copy(), np.arange(n), weights.copy()
    for e in range(n):
        if marks[e] != 0:
            values[e] = marks[e] * _FORCED
    for node in range(n_parts):
        best[node] = best_member(values, network.near[network.starts[node] : network.starts[node + 1]])
    while True:
        n_parts = _merge(first, second, order, best[:n_parts], labels, chosen)
        if n_parts == 1:
            break
        left = 0
        for i in range(n):
            a, b = labels[first[i]], labels[second[i]]
            first[left], second[left], order[left], values[left] = a, b, order[i], values[i]
            left += a != b
        n = left
        _find(first[:n], second[:n], values[:n], best, most[:n_parts])
    for e in range(weights.size):
        if (marks[e] == 1 and not chosen[e]) or (marks[e] == -1 and chosen[e]):
            return False
    return True


@kernel
def _hang(network: Network, chosen: NDArray[np.bool_]) -> tuple[Ints, Ints, Ints]:
    """Hang the tree from node 0: each node's parent, the edge to it, and its depth."""
    n_nodes = network.starts.size - 1
    parent, link = np.full(n_nodes, -1, np.int64), np.full(n_nodes, -1, np.int64)
    depth, queue = np.zeros(n_nodes, np.int64), np.zeros(n_nodes, np.int64)
    last = 1
    for place in range(n_nodes):
        node = queue[place]
        for e in network.near[network.starts[node] : network.starts[node + 1]]:
            if chosen[e] and e != link[node]:
                child = network.tails[e] + network.heads[e] - node
                parent[child], link[child], depth[child] = node, e, depth[node] + 1
                queue[last] = child
                last += 1
    return parent, link, depth


@kernel
def _swaps(network: Network, weights: Floats, marks: Marks, chosen: NDArray[np.bool_]) -> tuple[Floats, Floats]:
    """Return the lightest edge that each outside the tree may replace, and the best substitute of each inside."""
    parent, link, depth = _hang(network, chosen)
    lightest = np.full(chosen.size, np.inf)
    substitute = np.full(chosen.size, -np.inf)
    for e in range(chosen.size):
        if chosen[e] or marks[e] != 0:
            continue
        first, second = network.tails[e], network.heads[e]
        while first != second:
            if depth[first] < depth[second]:
                first, second = second, first
            other = link[first]
            if marks[other] == 0:
                lightest[e] = min(lightest[e], weights[other])
                substitute[other] = max(substitute[other], weights[e])
            first = parent[first]
    return lightest, substitute


class Trees(Record):
    """What `best_tree` needs."""

    network: Network
    marks: Marks
    chosen: NDArray[np.bool_]
    offset: float


@kernel
def best_tree(oracle: Trees, weights: Floats, arms: Ints) -> int:
    """Write the edges of the heaviest tree."""
    oracle.chosen[:] = False
    heaviest_tree(oracle.network, weights, oracle.marks, oracle.chosen)
    return collect(oracle.chosen, arms)


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
        from scipy.sparse import csr_array
        from scipy.sparse.csgraph import connected_components

        self.n_nodes = check_count("n_nodes", n_nodes, 2, LARGEST)
        self.edges = frozen(check_pairs(edges, self.n_nodes, self.n_nodes))
        loops = np.flatnonzero(self.edges[:, 0] == self.edges[:, 1])
        if loops.size:
            raise ValueError(f"edges must join two different nodes, got {tuple(self.edges[loops[0]].tolist())}")
        super().__init__(len(self.edges), self.n_nodes - 1)
        self._network = network_of(self.edges, self.n_nodes)
        joined = csr_array((np.ones(self.n_arms), self.edges.T), (self.n_nodes, self.n_nodes))
        if connected_components(joined, directed=False)[0] > 1:
            raise ValueError(f"edges must connect all {self.n_nodes} nodes, got a network in several parts")

    def _tree(self, weights: Floats, marks: Marks) -> NDArray[np.bool_] | None:
        chosen = np.zeros(self.n_arms, np.bool_)
        return chosen if heaviest_tree(self._network, weights, marks, chosen) else None

    def _maximise(self, weights: Floats, marks: Marks) -> Ints | None:
        chosen = self._tree(weights, marks)
        return None if chosen is None else np.flatnonzero(chosen)

    def _exchange(self, weights: Floats, marks: Marks) -> tuple[Floats, Floats]:
        chosen = self._tree(weights, marks)
        if chosen is None:
            return np.full(self.n_arms, -np.inf), np.full(self.n_arms, -np.inf)
        lightest, substitute = _swaps(self._network, weights, marks, chosen)
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

    def _compiled(self, offset: float) -> CompiledOracle:
        marks, chosen = np.zeros(self.n_arms, np.int8), np.zeros(self.n_arms, np.bool_)
        return CompiledOracle(Trees(self._network, marks, chosen, offset), best_tree)
