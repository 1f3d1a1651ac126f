"""Random arms: on any graph, over any set of decisions, with contexts; and the graphs and sets that have names."""

from __future__ import annotations

from collections.abc import Callable, Mapping
from types import MappingProxyType
from typing import Any, TypeVar

import numpy as np

from armtriage._arguments import LARGEST, as_number, check_choice, check_count, check_kind, check_number, check_whole
from armtriage.decisions import DecisionSet, Knapsack, Matchings, PartitionMatroid, Paths, SpanningTrees
from armtriage.environments import LinearEnvironment, StochasticEnvironment
from armtriage.graphs import FeedbackGraph
from armtriage.instances.counterexamples import two_hubs
from armtriage.kernels.random import check_seed, stream

_LARGEST_TOURNAMENT = 10_000
"""The most arms of a tournament, which has an edge for each pair of them."""
_MOST = 10**7
"""The most arms that a family by name can have."""
Builder = TypeVar("Builder", bound=Callable[..., Any])


def named(*builders: Builder) -> Mapping[str, Builder]:
    """Return what builds instances by the names of the functions."""
    return MappingProxyType({one.__name__.removeprefix("_"): one for one in builders})


def random_bernoulli(
    graph: FeedbackGraph,
    *,
    low: float = 0.0,
    high: float = 1.0,
    reward: str = "bernoulli",
    seed: int | None = None,
) -> StochasticEnvironment:
    """Return arms whose means are uniform in [low, high], on any graph.

    Parameters
    ----------
    graph : FeedbackGraph
        Which arms a chosen arm reveals.
    low, high : float
        The range of the means, inside [0, 1].
    reward : str
        Law of the rewards; see `armtriage.StochasticEnvironment`.
    seed : int, optional
        Fixes the means and the rewards; None draws a fresh one.

    Examples
    --------
    >>> env = random_bernoulli(FeedbackGraph.semi_bandit(3), low=0.4, high=0.6, seed=7)
    >>> env.means.round(3)
    array([0.525, 0.579, 0.555])
    """
    check_kind("graph", graph, FeedbackGraph)
    low, high = as_number("low", low), as_number("high", high)
    if not 0.0 <= low <= high <= 1.0:
        raise ValueError(f"low and high must satisfy 0 <= low <= high <= 1, got {low!r} and {high!r}")
    seed = check_seed(seed)
    means = np.random.default_rng(seed).uniform(low, high, graph.n_arms)
    return StochasticEnvironment(means, graph, reward, seed=seed)


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
    check_kind("decisions", decisions, DecisionSet)
    graph = FeedbackGraph.semi_bandit(decisions.n_arms) if graph is None else graph
    env = random_bernoulli(graph, low=low, high=high, seed=seed)
    return StochasticEnvironment(env.means, graph, seed=env.seed, decisions=decisions)


def random_linear(
    n_arms: int,
    dimension: int,
    *,
    norm: float = 1.0,
    contexts: str = "sphere",
    reward: str = "binary",
    half_width: float | None = None,
    noise: str = "independent",
    seed: int | None = None,
) -> LinearEnvironment:
    """Return arms with new contexts each round, and a theta of random direction.

    An ordinary instance: on it, what a policy does well or badly follows from no construction.

    Parameters
    ----------
    n_arms : int
        K, the number of arms.
    dimension : int
        d, the length of a context.
    norm : float
        Norm of theta, from 0 to 1. With contexts on the sphere no mean exceeds it; most are about ``norm / sqrt(d)``.
    contexts : {"sphere", "cube"}
        How contexts are drawn; see `armtriage.LinearEnvironment`.
    reward, half_width, noise
        Law of the rewards; see `armtriage.LinearEnvironment`. Uniform rewards need a norm below 1.
    seed : int, optional
        Fixes theta, the contexts and the rewards; None draws a fresh one.

    Examples
    --------
    >>> env = random_linear(10, 3, norm=0.5, seed=7)
    >>> env.theta.round(3)
    array([ 0.002,  0.368, -0.338])
    """
    dimension = check_count("dimension", dimension, 1)
    norm = check_number("norm", norm)
    if norm > 1.0:
        raise ValueError(f"norm must be a number from 0 to 1, got {norm!r}")
    if reward == "uniform" and norm == 1.0:
        raise ValueError("norm must be below 1 to leave room for uniform rewards in [-1, 1], got 1.0")
    contexts = check_choice("contexts", contexts, ("sphere", "cube"))
    seed = check_seed(seed)
    direction = np.random.default_rng(seed).standard_normal(dimension)
    theta = direction * (norm / float(np.linalg.norm(direction)))
    return LinearEnvironment(theta, contexts, n_arms, reward, half_width=half_width, noise=noise, seed=seed)


def _cliques(*, n_arms: int, size: int) -> FeedbackGraph:
    """Return cliques of this size; the last one takes what is left."""
    n = check_whole("n_arms", n_arms, 1, LARGEST)
    each = check_whole("size", size, 1, n)
    return FeedbackGraph.cliques([each] * (n // each) + [n % each] * (n % each > 0))


def _star(*, n_arms: int, undirected: bool = True) -> FeedbackGraph:
    """Return the graph in which arm 0 reveals all, and by default all reveal arm 0."""
    n = check_whole("n_arms", n_arms, 1, LARGEST)
    return FeedbackGraph.from_edges(n, [(0, arm) for arm in range(1, n)], undirected=undirected)


def _erdos_renyi(*, n_arms: int, p: float, directed: bool = True, seed: int | None = None) -> FeedbackGraph:
    """Return `FeedbackGraph.erdos_renyi`, with its seed behind the options of the family, as everywhere here."""
    return FeedbackGraph.erdos_renyi(n_arms, p, seed, directed=directed)


def _tournament(*, n_arms: int, seed: int | None = None) -> FeedbackGraph:
    """Return the graph in which of any two arms a random one reveals the other."""
    n = check_whole("n_arms", n_arms, 1, _LARGEST_TOURNAMENT)
    one, other = np.triu_indices(n, 1)
    turned = np.random.default_rng(check_seed(seed)).random(one.size) < 0.5
    return FeedbackGraph.from_edges(n, np.column_stack([np.where(turned, other, one), np.where(turned, one, other)]))


GRAPHS: Mapping[str, Callable[..., FeedbackGraph]] = named(
    _cliques, _erdos_renyi, FeedbackGraph.full_information, FeedbackGraph.semi_bandit, _star, FeedbackGraph.threshold,
    _tournament, two_hubs,
)  # fmt: skip
"""Graph families by name; each builder takes keyword arguments, `n_arms` first of all."""


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


def _grid(*, rows: int, columns: int) -> Paths:
    """Return the routes from one corner of a grid to the other that only lead on."""
    rows, columns = check_count("rows", rows, 1, _MOST), check_count("columns", columns, 1, _MOST)
    if rows * columns > _MOST // 2 or rows * columns < 2:
        raise ValueError(f"rows times columns must lie from 2 to {_MOST // 2}, got {rows * columns}")
    nodes = np.arange(rows * columns).reshape(rows, columns)
    down = np.column_stack([nodes[:-1].ravel(), nodes[1:].ravel()])
    right = np.column_stack([nodes[:, :-1].ravel(), nodes[:, 1:].ravel()])
    edges = np.concatenate([down, right])
    order = np.lexsort((edges[:, 1], edges[:, 0]))
    return Paths(rows * columns, edges[order], source=0, target=rows * columns - 1)


def _knapsack(*, items: int, capacity: int, lightest: int = 5, heaviest: int = 30, seed: int | None = None) -> Knapsack:
    """Return the bags of items of random whole weights that keep to a capacity."""
    n = check_count("items", items, 1, _MOST)
    least, most = check_count("lightest", lightest, 0), check_count("heaviest", heaviest, 1)
    if least > most:
        raise ValueError(f"lightest must be at most heaviest, got {least} and {most}")
    rng = np.random.default_rng(int(stream(check_seed(seed), "weights")))
    return Knapsack(rng.integers(least, most, n, endpoint=True), check_count("capacity", capacity, most))


FAMILIES: Mapping[str, Callable[..., DecisionSet]] = named(_assignment, _categories, _grid, _knapsack, _routing, _tree)
"""Sets of decisions by name; each builder takes keyword arguments."""
