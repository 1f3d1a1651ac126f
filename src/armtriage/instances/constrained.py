"""Instances with decision sets: a lower bound, one on which Thompson sampling, and two on which the paper fails."""

from __future__ import annotations

import numpy as np

from armtriage._arguments import LARGEST, check_between, check_flag, check_whole
from armtriage.decisions import Explicit
from armtriage.environments import StochasticEnvironment
from armtriage.graphs import FeedbackGraph


def partition(
    n_arms: int, budget: int, *, gap: float, shared: bool = True, seed: int | None = None
) -> StochasticEnvironment:
    """Return K/S disjoint decisions of S arms, on which no policy loses less than of order K S ln(T) / gap.

    The arms of the first decision have mean 1/2, all others 1/2 - gap/S. Each arm reveals itself. The lower bound needs
    the arms of a decision to share one draw in each round; with independent arms smaller regret is possible.

    Parameters
    ----------
    n_arms : int
        K, a multiple of `budget`, from twice its value.
    budget : int
        S, the number of arms in a decision.
    gap : float
        How much worse than the best decision the others are, above 0 and at most S/2.
    shared : bool
        Whether the arms of a decision share one draw in each round.
    seed : int, optional
        Fixes the rewards; None draws a fresh one.

    References
    ----------
    Kveton, Wen, Ashkan, Szepesvari (2015), Tight regret bounds for stochastic combinatorial semi-bandits,
    Proposition 1.

    Examples
    --------
    >>> env = partition(6, 2, gap=0.2, seed=7)
    >>> env.means
    array([0.5, 0.5, 0.4, 0.4, 0.4, 0.4])
    >>> env.rewards(0, range(6))
    array([1., 1., 0., 0., 1., 1.])
    """
    budget = check_whole("budget", budget, 1, LARGEST)
    n_arms = check_whole("n_arms", n_arms, 1, LARGEST)
    if n_arms % budget or n_arms == budget:
        raise ValueError(f"n_arms must be a multiple of budget, {2 * budget} or more, got {n_arms}")
    gap = check_between("gap", gap, budget / 2, positive=True)
    block = np.arange(n_arms) // budget
    return StochasticEnvironment(
        np.where(block == 0, 0.5, 0.5 - gap / budget),
        FeedbackGraph.semi_bandit(n_arms),
        noise_groups=block if check_flag("shared", shared) else None,
        seed=seed,
        decisions=Explicit(np.arange(n_arms).reshape(-1, budget)),
    )


def long_decisions(
    size: int, *, best: float = 0.9, other: float = 0.7, seed: int | None = None
) -> StochasticEnvironment:
    """Return two disjoint decisions of many arms, between which Thompson sampling may never find to the better.

    The draws of a decision's arms are independent, so their sum hardly leaves its mean. A better decision that was
    played too rarely to be known has draws around half its size, and once that is less than the worse one's mean, of
    order exp(size) rounds pass before it is drawn as the best.

    Parameters
    ----------
    size : int
        How many arms each decision has.
    best, other : float
        The means of the arms of the second decision and of the first, the larger first.
    seed : int, optional
        Fixes the rewards; None draws a fresh one.

    References
    ----------
    Zhang, Combes (2021), On the suboptimality of Thompson sampling in high dimensions.

    Examples
    --------
    >>> long_decisions(2).means
    array([0.7, 0.7, 0.9, 0.9])
    """
    size = check_whole("size", size, 1, LARGEST // 2)
    best, other = check_between("best", best, 1.0), check_between("other", other, 1.0)
    if best <= other:
        raise ValueError(f"best must be above other, got {best!r} and {other!r}")
    return StochasticEnvironment(
        np.repeat([other, best], size),
        FeedbackGraph.semi_bandit(2 * size),
        seed=seed,
        decisions=Explicit(np.arange(2 * size).reshape(2, size)),
    )


def hub_family(
    *, best: float = 0.9, other: float = 0.5, hub: float = 0.0, seed: int | None = None
) -> StochasticEnvironment:
    """Return three decisions, of which a bad one reveals everything: the printed Algorithm 5 plays it for ever.

    The decisions are {0, 1}, {2, 3} and {4, 5}; arm 0 reveals all arms, the others themselves. The printed algorithm
    takes its covers from the whole family. {0, 1} is the smallest cover of anything, also after it was eliminated, and
    also when {2, 3} alone is left.

    Parameters
    ----------
    best, other, hub : float
        The means of arms 2 and 3, 4 and 5, 0 and 1, from the largest to the smallest, in [0, 1].
    seed : int, optional
        Fixes the rewards; None draws a fresh one.

    Examples
    --------
    >>> env = hub_family()
    >>> round(env.regret([0, 1]), 6), env.regret([2, 3])
    (1.8, 0.0)
    """
    means = [check_between(name, value, 1.0) for name, value in (("best", best), ("other", other), ("hub", hub))]
    if not means[0] > means[1] > means[2]:
        raise ValueError(f"best, other and hub must fall, got {best!r}, {other!r} and {hub!r}")
    return StochasticEnvironment(
        np.repeat([means[2], means[0], means[1]], 2),
        FeedbackGraph.from_edges(6, [(0, arm) for arm in range(1, 6)]),
        seed=seed,
        decisions=Explicit([[0, 1], [2, 3], [4, 5]]),
    )


def star(
    n_leaves: int, *, gap: float = 0.2, best: float = 0.9, centre: float = 0.0, seed: int | None = None
) -> StochasticEnvironment:
    """Return single arms, of which a bad one reveals all others.

    One decision, the centre, covers everything, but it is a bad one, and what good decisions reveal is themselves.
    The printed regret bound counts covers from the whole family: it allows ln(T) / gap here, where no policy can do
    with less than `n_leaves` times that, unless it pays for the centre.

    Parameters
    ----------
    n_leaves : int
        The number of other arms, from 2; arm 1 is the best.
    gap : float
        How much worse the other leaves are, above 0 and at most `best`.
    best, centre : float
        The means of arm 1 and of arm 0, in [0, 1], the latter below all leaves.
    seed : int, optional
        Fixes the rewards; None draws a fresh one.

    Examples
    --------
    >>> star(3).means.round(2)
    array([0. , 0.9, 0.7, 0.7])
    """
    n = check_whole("n_leaves", n_leaves, 2, LARGEST - 1)
    best = check_between("best", best, 1.0)
    gap = check_between("gap", gap, best, positive=True)
    means = np.full(n + 1, best - gap)
    means[0], means[1] = check_between("centre", centre, 1.0), best
    if means[0] >= means[2]:
        raise ValueError(f"centre must lie below best - gap = {means[2]}, got {centre!r}")
    return StochasticEnvironment(
        means,
        FeedbackGraph.from_edges(n + 1, [(0, leaf) for leaf in range(1, n + 1)]),
        seed=seed,
        decisions=Explicit(np.arange(n + 1)[:, np.newaxis]),
    )
