"""Spanning trees are found exactly, and malformed networks are refused."""

from __future__ import annotations

from collections.abc import Callable
from itertools import combinations
from typing import Any

import networkx as nx
import numpy as np
import pytest

from armtriage import SpanningTrees
from decisions.spot_check import spot_check


def test_a_tree_of_two_thousand_edges() -> None:
    graph = nx.gnm_random_graph(200, 2000, seed=5)
    edges = np.array(graph.edges)
    weights = np.random.default_rng(5).normal(size=2000)
    trees = SpanningTrees(200, edges)
    for (i, j), weight in zip(edges, weights, strict=True):
        graph.edges[i, j]["weight"] = weight
    tree = nx.maximum_spanning_tree(graph)
    assert {tuple(edges[arm]) for arm in trees.maximise(weights)} == {tuple(sorted(edge)) for edge in tree.edges}
    spot_check(trees, weights, 5)


def test_what_was_given_can_change_without_harm() -> None:
    edges = np.array([(0, 1), (1, 2), (0, 2)])
    trees = SpanningTrees(3, edges)
    edges[:] = 0
    assert trees.count() == 3
    with pytest.raises(ValueError, match="read-only"):
        trees.edges[0] = 0


def test_the_complete_graph_has_as_many_trees_as_cayley_says() -> None:
    complete = SpanningTrees(20, list(combinations(range(20), 2)))
    assert complete.count() == 20**18


@pytest.mark.parametrize(
    ("make", "message"),
    [
        (lambda: SpanningTrees(1, [(0, 0)]), "n_nodes must be a whole number from 2, got 1"),
        (lambda: SpanningTrees(3, [(0, 1), (2, 2)]), r"edges must join two different nodes, got \(2, 2\)"),
        (lambda: SpanningTrees(3, [(0, 1)]), "edges must connect all 3 nodes, got a network in several parts"),
        (lambda: SpanningTrees(3, [(0, 1), (1, -1)]), r"edges must be pairs from \(0, 0\) to \(2, 2\), got \(1, -1\)"),
        (lambda: SpanningTrees(3, [(0.0, 1.0)]), "edges must be pairs of whole numbers, got float64"),
        (lambda: SpanningTrees(3, 5), "edges must be pairs of whole numbers, got 5"),
        (lambda: SpanningTrees(3, [(0, 1), (1,)]), "edges must be pairs of whole numbers"),
    ],
)
def test_malformed_families_are_refused(make: Callable[[], Any], message: str) -> None:
    with pytest.raises((TypeError, ValueError), match=message):
        make()
