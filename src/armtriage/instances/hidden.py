"""Instances of the lower bounds under graph feedback: better arms that hide among others which look the same."""

from __future__ import annotations

import math

import numpy as np
from numpy.typing import ArrayLike, NDArray

from armtriage._arguments import LONGEST, check_arms, check_count
from armtriage.environments import StochasticEnvironment
from armtriage.graphs.feedback import FeedbackGraph
from armtriage.graphs.layout import check_real
from armtriage.kernels.random import check_seed

__all__ = ["hidden_arm", "hidden_pairs", "hidden_parts"]

_BASE = 0.25
"""The mean of an arm among which a better one hides."""


def hidden_arm(
    graph: FeedbackGraph,
    budget: int,
    *,
    independent: ArrayLike,
    gap: float,
    hidden: int = 0,
    seed: int | None = None,
) -> StochasticEnvironment:
    """Return a member of the family of bound (L1) of Theorem 2: one arm may be better than it seems.

    Of the independent arms the first S - 1 have mean 1 and the next 1/4 + gap, which makes these S the best decision;
    the others have 1/4, and all further arms 0. In each other member of the family one of the arms with 1/4 has
    1/4 + 2 gap. To know, a policy must look at each of them, and it sees one only by playing it, or an arm that is
    worth nothing. `armtriage.theory.gap_lower` is what every policy loses on one of the members.

    Parameters
    ----------
    graph : FeedbackGraph
        Which arms a chosen arm reveals.
    budget : int
        S, the number of arms in a decision.
    independent : array_like of int
        2S or more arms that do not reveal each other; see `armtriage.theory.independent_set`. The command line takes
        the largest such set that this finds.
    gap : float
        How much better the S-th best arm is than the next, above 0 and at most 1/4.
    hidden : int
        Which member: 0 has no hidden arm, i = 1, 2, ... has it at place S + i of `independent`, counted from 1.
    seed : int, optional
        Fixes the rewards; None draws a fresh one.

    References
    ----------
    Wen, Han, Zhou (2025), Optimal arm elimination algorithms for combinatorial bandits, Theorem 2.

    Examples
    --------
    >>> graph = FeedbackGraph.cliques([2, 1, 1, 1])
    >>> hidden_arm(graph, 2, independent=[0, 2, 3, 4], gap=0.1).means
    array([1.  , 0.  , 0.35, 0.25, 0.25])
    >>> hidden_arm(graph, 2, independent=[0, 2, 3, 4], gap=0.1, hidden=2).means
    array([1.  , 0.  , 0.35, 0.25, 0.45])
    """
    graph, budget = _check(graph, budget)
    arms = _independent(graph, budget, independent)
    gap = _check_gap(gap, 0.25)
    hidden = check_count("hidden", hidden, 0, arms.size - budget)
    means = np.zeros(graph.n_arms)
    means[arms] = _BASE
    means[arms[: budget - 1]] = 1.0
    means[arms[budget - 1]] = _BASE + gap
    if hidden:
        means[arms[budget - 1 + hidden]] = _BASE + 2.0 * gap
    return StochasticEnvironment(means, graph, seed=seed)


def hidden_pairs(
    graph: FeedbackGraph,
    budget: int,
    *,
    gap: float,
    good: ArrayLike | None = None,
    seed: int | None = None,
) -> StochasticEnvironment:
    """Return a member of the family of bound (L2) of Theorem 2: S pairs of arms, of which one each is better.

    Arms 2j and 2j + 1 are pair j = 0, ..., S - 1; the good one has mean 1/4 + gap and the other 1/4. All further arms
    have 0. The bound, `armtriage.theory.full_information_lower`, holds on average over the family, even on a graph that
    tells everything.

    Parameters
    ----------
    graph : FeedbackGraph
        Which arms a chosen arm reveals; of at least 2S arms.
    budget : int
        S, the number of arms in a decision.
    gap : float
        How much better the good arms are, above 0 and at most 1/2.
    good : array_like of {0, 1}, optional
        Which arm of each pair is the good one; by default drawn from the seed.
    seed : int, optional
        Fixes the good arms and the rewards; None draws a fresh one.

    References
    ----------
    Wen, Han, Zhou (2025), Optimal arm elimination algorithms for combinatorial bandits, Theorem 2.

    Examples
    --------
    >>> hidden_pairs(FeedbackGraph.full_information(5), 2, gap=0.1, good=[0, 1]).means
    array([0.35, 0.25, 0.25, 0.35, 0.  ])
    """
    graph, budget = _check(graph, budget)
    if graph.n_arms < 2 * budget:
        raise ValueError(f"graph must have at least 2 * budget = {2 * budget} arms, got {graph.n_arms}")
    gap, seed = _check_gap(gap, 0.5), check_seed(seed)
    places = np.random.default_rng(seed).integers(0, 2, budget) if good is None else check_arms(good, 2, "good")
    if places.size != budget:
        raise ValueError(f"good must have an entry for each of the {budget} pairs, got {places.size}")
    means = np.zeros(graph.n_arms)
    means[: 2 * budget] = _BASE
    means[2 * np.arange(budget) + places] += gap
    return StochasticEnvironment(means, graph, seed=seed)


def hidden_parts(
    graph: FeedbackGraph,
    budget: int,
    *,
    independent: ArrayLike,
    horizon: int,
    gap: float | None = None,
    seed: int | None = None,
) -> StochasticEnvironment:
    """Return S bandits at once, of alpha / S arms each, for the minimax rate sqrt(alpha S T).

    The independent arms are cut into S parts of equal size. A random arm of each part has mean 1/4 + gap and the others
    1/4; all other arms have 0. `armtriage.theory.minimax_lower` is what every policy loses on average for the worst
    gap. The paper cites this rate, from Theorem 1.3 of Wen (2025); the parts, the base mean of 1/4 and the gap of
    ``sqrt(alpha / (S T)) / 64`` are our reading of how it uses that theorem.

    Parameters
    ----------
    graph : FeedbackGraph
        Which arms a chosen arm reveals.
    budget : int
        S, the number of arms in a decision.
    independent : array_like of int
        2S or more arms that do not reveal each other, alpha in number; see `armtriage.theory.independent_set`. What is
        left over after S equal parts has mean 0.
    horizon : int
        T, the rounds that the instance is made for; at least alpha^3 / S unless the gap is given. For fewer rounds it
        pays to play arms that are worth nothing and reveal all.
    gap : float, optional
        How much better the good arms are, above 0 and at most 3/4.
    seed : int, optional
        Fixes the good arms and the rewards; None draws a fresh one.

    Examples
    --------
    >>> env = hidden_parts(FeedbackGraph.semi_bandit(7), 2, independent=range(7), horizon=1000, gap=0.1, seed=7)
    >>> env.means
    array([0.25, 0.25, 0.35, 0.25, 0.35, 0.25, 0.  ])
    """
    graph, budget = _check(graph, budget)
    arms = _independent(graph, budget, independent)
    horizon, seed = check_count("horizon", horizon, 1, LONGEST), check_seed(seed)
    if gap is None:
        if budget * horizon < arms.size**3:
            least = -(-(arms.size**3) // budget)
            raise ValueError(f"horizon must be at least alpha^3 / budget = {least} if no gap is given, got {horizon}")
        gap = math.sqrt(arms.size / (budget * horizon)) / 64.0
    gap = _check_gap(gap, 0.75)
    size = arms.size // budget
    parts = arms[: size * budget].reshape(budget, size)
    means = np.zeros(graph.n_arms)
    means[parts] = _BASE
    means[parts[np.arange(budget), np.random.default_rng(seed).integers(0, size, budget)]] += gap
    return StochasticEnvironment(means, graph, seed=seed)


def _check(graph: FeedbackGraph, budget: int) -> tuple[FeedbackGraph, int]:
    if not isinstance(graph, FeedbackGraph):
        raise TypeError(f"graph must be a FeedbackGraph, got {type(graph).__name__}")
    return graph, check_count("budget", budget, 1, graph.n_arms)


def _check_gap(gap: float, most: float) -> float:
    number = check_real("gap", gap, most)
    if number == 0.0:
        raise ValueError(f"gap must lie above 0 and be at most {most}, got {gap!r}")
    return number


def _independent(graph: FeedbackGraph, budget: int, independent: ArrayLike) -> NDArray[np.int64]:
    """Return the arms, which must be 2S or more and not reveal each other."""
    arms = check_arms(independent, graph.n_arms, "independent")
    if arms.size < 2 * budget:
        raise ValueError(f"independent must have at least 2 * budget = {2 * budget} arms, got {arms.size}")
    if np.unique(arms).size != arms.size:
        raise ValueError(f"independent must name each arm once, got {independent!r:.100}")
    inside = np.zeros(graph.n_arms, np.bool_)
    inside[arms] = True
    start, stop, indptr, indices = graph.arrays
    before = np.append(0, np.cumsum(inside))
    shown = before[stop[arms]] - before[start[arms]]
    listed = np.append(0, np.cumsum(inside[indices]))
    shown += listed[indptr[arms + 1]] - listed[indptr[arms]]
    if (shown > 1).any():
        arm = int(arms[np.argmax(shown > 1)])
        raise ValueError(f"independent must name arms that do not reveal each other, got {arm}, which reveals others")
    return arms
