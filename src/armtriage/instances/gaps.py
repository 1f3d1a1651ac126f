"""Instances with one gap: good arms all alike, others too; on any graph, or behind bad arms that reveal many."""

from __future__ import annotations

import numpy as np
from numpy.typing import NDArray

from armtriage._arguments import check_count, check_flag
from armtriage.environments import StochasticEnvironment
from armtriage.graphs.feedback import FeedbackGraph
from armtriage.graphs.layout import LIMIT, check_real
from armtriage.kernels.random import check_seed

__all__ = ["gap_instance", "revealing_hubs"]


def gap_instance(
    graph: FeedbackGraph,
    budget: int,
    gap: float,
    *,
    mean: float = 0.5,
    spread: bool = False,
    seed: int | None = None,
) -> StochasticEnvironment:
    """Return Bernoulli arms of which S are better than all others, by the same gap.

    It serves to see how regret and certificates depend on the gap alone. Since the good arms are the first ones, or
    evenly spread, it also shows what a graph is worth: of S cliques of equal size, either one is the best decision,
    or each has one good arm.

    Parameters
    ----------
    graph : FeedbackGraph
        Which arms a chosen arm reveals.
    budget : int
        S, the number of arms in a decision, and of good arms.
    gap : float
        How much better the good arms are, above 0 and at most 1 - mean.
    mean : float
        Mean of the other arms.
    spread : bool
        Spread the good arms evenly, one in each S-th part of the arms; by default they are the first.
    seed : int, optional
        Fixes the rewards; None draws a fresh one.

    Examples
    --------
    >>> gap_instance(FeedbackGraph.cliques([3, 3]), 2, 0.2).means
    array([0.7, 0.7, 0.5, 0.5, 0.5, 0.5])
    >>> gap_instance(FeedbackGraph.cliques([3, 3]), 2, 0.2, spread=True).means
    array([0.7, 0.5, 0.5, 0.7, 0.5, 0.5])
    """
    if not isinstance(graph, FeedbackGraph):
        raise TypeError(f"graph must be a FeedbackGraph, got {type(graph).__name__}")
    budget = check_count("budget", budget, 1, graph.n_arms)
    places = np.arange(budget)
    good = places * graph.n_arms // budget if check_flag("spread", spread) else places
    return StochasticEnvironment(_means(graph.n_arms, good, mean, gap), graph, seed=seed)


def revealing_hubs(
    n_arms: int,
    n_hubs: int,
    budget: int,
    gap: float,
    *,
    hub_mean: float = 0.1,
    mean: float = 0.5,
    seed: int | None = None,
) -> StochasticEnvironment:
    """Return Bernoulli arms behind hubs: bad arms, each of which reveals its share of all others.

    It serves to see whether a policy pays for information. A hub is never worth playing for its reward, so a policy
    that looks at rewards alone explores the others one by one; a pull of each hub shows them all. One hub makes a
    star.

    Parameters
    ----------
    n_arms : int
        K, hubs included; they come first.
    n_hubs : int
        How many hubs there are; the other arms reveal only themselves.
    budget : int
        S, the number of arms in a decision, and of good arms, which lie at random among those that are no hubs.
    gap : float
        How much better the good arms are than the others, above 0 and at most 1 - mean.
    hub_mean : float
        Mean of the hubs, at most `mean`.
    mean : float
        Mean of the other arms.
    seed : int, optional
        Fixes which arms are good, and the rewards; None draws a fresh one.

    Examples
    --------
    >>> env = revealing_hubs(8, 2, 2, 0.3, seed=7)
    >>> env.means
    array([0.1, 0.1, 0.5, 0.5, 0.5, 0.8, 0.8, 0.5])
    >>> env.graph.revealed_by([0])
    array([0, 2, 3, 4])
    """
    budget = check_count("budget", budget, 1, LIMIT)
    n_arms = check_count("n_arms", n_arms, budget + 1, LIMIT)
    n_hubs = check_count("n_hubs", n_hubs, 1, n_arms - budget)
    mean = check_real("mean", mean, 1.0)
    hub_mean = check_real("hub_mean", hub_mean, mean)
    seed = check_seed(seed)
    others = np.arange(n_hubs, n_arms)
    good = np.random.default_rng(seed).choice(others, budget, replace=False)
    means = _means(n_arms, good, mean, gap)
    means[:n_hubs] = hub_mean
    edges = [(hub, arm) for hub, share in enumerate(np.array_split(others, n_hubs)) for arm in share.tolist()]
    return StochasticEnvironment(means, FeedbackGraph.from_edges(n_arms, edges), seed=seed)


def _means(n_arms: int, good: NDArray[np.int64], mean: float, gap: float) -> NDArray[np.float64]:
    """Return the means, the good arms being better by the gap."""
    mean = check_real("mean", mean, 1.0)
    gap = check_real("gap", gap, 1.0 - mean)
    if gap == 0.0:
        raise ValueError("gap must be above 0, got 0.0")
    means = np.full(n_arms, mean)
    means[good] = mean + gap
    return means
