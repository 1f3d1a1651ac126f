"""Random arms over a set of decisions: assignments, routes, trees, slates by category, or any other."""

from __future__ import annotations

from collections.abc import Callable, Mapping
from types import MappingProxyType

import numpy as np

from armtriage._arguments import check_count
from armtriage.decisions import DecisionSet, Matchings, PartitionMatroid, Paths, SpanningTrees
from armtriage.environments import StochasticEnvironment
from armtriage.graphs.feedback import FeedbackGraph
from armtriage.instances.graph import random_bernoulli
from armtriage.kernels.random import check_seed, stream

__all__ = ["FAMILIES", "random_constrained"]

_MOST = 10**7
"""The most arms that a family by name can have."""


def random_constrained(
    decisions: DecisionSet,
    *,
    low: float = 0.0,
    high: float = 1.0,
    graph: FeedbackGraph | None = None,
    seed: int | None = None,
) -> StochasticEnvironment:
    """Return arms whose means are uniform in [low, high], over any set of decisions.

    Parameters
    ----------
    decisions : DecisionSet
        Which decisions are allowed.
    low, high : float
        The range of the means, inside [0, 1].
    graph : FeedbackGraph, optional
        Which arms a chosen arm reveals; by default itself alone.
    seed : int, optional
        Fixes the means and the rewards; None draws a fresh one.

    Examples
    --------
    >>> from armtriage import Matchings
    >>> env = random_constrained(Matchings(2, 2), low=0.4, high=0.6, seed=7)
    >>> env.means.round(3)
    array([0.525, 0.579, 0.555, 0.445])
    >>> env.regret([1, 2]), round(env.regret([0, 3]), 3)
    (0.0, 0.165)
    """
    if not isinstance(decisions, DecisionSet):
        raise TypeError(f"decisions must be a DecisionSet, got {type(decisions).__name__}")
    graph = FeedbackGraph.semi_bandit(decisions.n_arms) if graph is None else graph
    env = random_bernoulli(graph, low=low, high=high, seed=seed)
    return StochasticEnvironment(env.means, graph, seed=env.seed, decisions=decisions)


def _assignment(*, left: int, right: int) -> Matchings:
    """Return the ways to give each of the fewer nodes one of the others."""
    return Matchings(left, right)


def _routing(*, layers: int, width: int) -> Paths:
    """Return the routes from a source through some layers of nodes, each joined to the next, to a target."""
    layers, width = check_count("layers", layers, 1, _MOST), check_count("width", width, 1, _MOST)
    n_arms = 2 * width + (layers - 1) * width**2
    if n_arms > _MOST:
        raise ValueError(f"layers and width must make at most {_MOST} edges, got {n_arms}")
    nodes = np.arange(1, layers * width + 1).reshape(layers, width)
    target = layers * width + 1
    between = np.stack(np.broadcast_arrays(nodes[:-1, :, np.newaxis], nodes[1:, np.newaxis, :]), axis=-1)
    first = np.column_stack([np.zeros(width, np.int64), nodes[0]])
    last = np.column_stack([nodes[-1], np.full(width, target)])
    return Paths(target + 1, np.concatenate([first, between.reshape(-1, 2), last]), source=0, target=target)


def _tree(*, nodes: int, edges: int, seed: int | None = None) -> SpanningTrees:
    """Return the spanning trees of a random connected network: a random tree, and random edges besides."""
    n = check_count("nodes", nodes, 2, _MOST)
    most = min(n * (n - 1) // 2, _MOST)
    m = check_count("edges", edges, 0, most)
    if m < n - 1:
        raise ValueError(f"edges must be at least nodes - 1 = {n - 1}, got {m}")
    # Not the stream of the means, which are drawn from the seed itself.
    rng = np.random.default_rng(int(stream(check_seed(seed), "network")))
    label, upper = rng.permutation(n), np.arange(1, n)
    joined = np.sort(label[np.column_stack([(rng.random(n - 1) * upper).astype(np.int64), upper])], axis=1)
    tree = joined[:, 1] * (joined[:, 1] - 1) // 2 + joined[:, 0]
    # Pair (i, j) with i < j is number j (j - 1) / 2 + i. Of m pairs at most n - 1 are in the tree.
    drawn = rng.choice(n * (n - 1) // 2, m, replace=False)
    number = np.concatenate([tree, drawn[~np.isin(drawn, tree)][: m - n + 1]])
    j = ((1.0 + np.sqrt(1.0 + 8.0 * number)) / 2.0).astype(np.int64)
    return SpanningTrees(n, np.column_stack([number - j * (j - 1) // 2, j]))


def _categories(*, groups: int, size: int, capacity: int = 1) -> PartitionMatroid:
    """Return the slates of `capacity` items from each of `groups` categories of `size` items."""
    groups, size = check_count("groups", groups, 1, _MOST), check_count("size", size, 1, _MOST)
    if groups * size > _MOST:
        raise ValueError(f"groups times size must be at most {_MOST}, got {groups * size}")
    check_count("capacity", capacity, 1, size)
    return PartitionMatroid(np.repeat(np.arange(groups), size), capacity)


FAMILIES: Mapping[str, Callable[..., DecisionSet]] = MappingProxyType(
    {"assignment": _assignment, "categories": _categories, "routing": _routing, "tree": _tree}
)
"""Sets of decisions by name; each builder takes keyword arguments."""
