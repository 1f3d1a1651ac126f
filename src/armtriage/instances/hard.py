"""Instances that are hard on any graph: cliques on which UCB fails, better arms that hide, and one gap for all."""

from __future__ import annotations

import math

import numpy as np
from numpy.typing import ArrayLike

from armtriage._arguments import (
    LARGEST,
    LONGEST,
    check_arms,
    check_between,
    check_choice,
    check_count,
    check_flag,
    check_kind,
    check_number,
    check_probability,
    check_whole,
)
from armtriage.environments import StochasticEnvironment
from armtriage.graphs import FeedbackGraph
from armtriage.kernels.random import check_seed
from armtriage.kernels.record import Floats, Ints

NOISES = ("deterministic", "shared", "independent")
_BASE = 0.25
"""The mean of an arm among which a better one hides."""


def ucb_failure(
    budget: int,
    alpha: int,
    *,
    horizon: int,
    n_arms: int | None = None,
    width: float | None = None,
    delta: float = 0.01,
    noise: str = "deterministic",
    seed: int | None = None,
) -> StochasticEnvironment:
    """Return the cliques on which `CombinatorialUCB` has regret Omega(L S sqrt(alpha T)).

    There are alpha - 1 cliques of S arms and a last one of the rest. All arms of clique k = 1, 2, ...
    have mean ``1/2 + [k = 1] D - (k - 1) e`` with ``D = L sqrt(alpha / (4 T))`` and
    ``e = L / sqrt(4 alpha T)``, so the first clique is the best decision; arms of the last clique beyond S
    have mean 0. UCB gives equal indices to equal arms, and spends whole decisions on one clique where a
    single arm would show as much.

    The failure needs observations that are identical inside a clique, as they are with deterministic or
    shared noise. With noise of its own in every arm the indices differ, UCB spreads over the cliques by
    itself, and does not fail.

    Parameters
    ----------
    budget : int
        S, the number of arms in a decision.
    alpha : int
        Number of cliques, at least 2.
    horizon : int
        T, the rounds that the instance is made for; at least ``alpha L**2``, so that means lie in [0, 1].
    n_arms : int, optional
        K, at least ``budget * alpha``, which is the default.
    width : float, optional
        L, the width of the policy that is to fail; by default ``sqrt(ln(2 K T / delta))``, its own default.
    delta : float
        The delta of that policy.
    noise : {"deterministic", "shared", "independent"}
        Rewards that equal their means, Bernoulli rewards with one draw for each clique, or with one for each arm.
    seed : int, optional
        Fixes the rewards; None draws a fresh one.

    References
    ----------
    Wen, Han, Zhou (2025), Optimal arm elimination algorithms for combinatorial bandits, Theorem 4.

    Examples
    --------
    >>> env = ucb_failure(2, 3, horizon=1200, width=4.0)
    >>> env.means.round(4)
    array([0.6   , 0.6   , 0.4667, 0.4667, 0.4333, 0.4333])
    """
    budget = check_whole("budget", budget, 1, LARGEST)
    alpha = check_whole("alpha", alpha, 2, LARGEST)
    horizon = check_whole("horizon", horizon, 1, 2**62)
    n_arms = budget * alpha if n_arms is None else check_whole("n_arms", n_arms, 1, LARGEST)
    if n_arms < budget * alpha:
        raise ValueError(f"n_arms must be at least budget * alpha = {budget * alpha}, got {n_arms}")
    check_choice("noise", noise, NOISES)
    if width is None:
        width = math.sqrt(math.log(2 * n_arms * horizon / check_probability("delta", delta)))
    width = check_number("width", width, positive=True)
    # This keeps the best mean at most 1, and by (alpha - 1)**2 / alpha < alpha the least one at least 0.
    if horizon < alpha * width**2:
        least = math.ceil(alpha * width**2)
        raise ValueError(f"horizon must be at least alpha * width**2 = {least} to keep means in [0, 1], got {horizon}")

    sizes = [budget] * (alpha - 1) + [n_arms - budget * (alpha - 1)]
    clique = np.repeat(np.arange(alpha), sizes)
    means = 0.5 - clique * (width / math.sqrt(4 * alpha * horizon))
    means[clique == 0] += width * math.sqrt(alpha / (4 * horizon))
    means[budget * alpha :] = 0.0
    return StochasticEnvironment(
        means,
        FeedbackGraph.cliques(sizes),
        "deterministic" if noise == "deterministic" else "bernoulli",
        noise_groups=clique if noise == "shared" else None,
        seed=seed,
    )


def hidden_arm(
    graph: FeedbackGraph, budget: int, *, independent: ArrayLike, gap: float, hidden: int = 0, seed: int | None = None
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
        the set that this finds at once, with a `time_limit` of 0: the same on every machine.
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
    budget = _check_budget(graph, budget)
    arms = _independent(graph, budget, independent)
    gap = check_between("gap", gap, 0.25, positive=True)
    hidden = check_count("hidden", hidden, 0, arms.size - budget)
    means = np.zeros(graph.n_arms)
    means[arms] = _BASE
    means[arms[: budget - 1]] = 1.0
    means[arms[budget - 1]] = _BASE + gap
    if hidden:
        means[arms[budget - 1 + hidden]] = _BASE + 2.0 * gap
    return StochasticEnvironment(means, graph, seed=seed)


def hidden_pairs(
    graph: FeedbackGraph, budget: int, *, gap: float, good: ArrayLike | None = None, seed: int | None = None
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
    budget = _check_budget(graph, budget)
    if graph.n_arms < 2 * budget:
        raise ValueError(f"graph must have at least 2 * budget = {2 * budget} arms, got {graph.n_arms}")
    gap, seed = check_between("gap", gap, 0.5, positive=True), check_seed(seed)
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
    budget = _check_budget(graph, budget)
    arms = _independent(graph, budget, independent)
    horizon, seed = check_count("horizon", horizon, 1, LONGEST), check_seed(seed)
    if gap is None:
        if budget * horizon < arms.size**3:
            least = -(-(arms.size**3) // budget)
            raise ValueError(f"horizon must be at least alpha^3 / budget = {least} if no gap is given, got {horizon}")
        gap = math.sqrt(arms.size / (budget * horizon)) / 64.0
    gap = check_between("gap", gap, 0.75, positive=True)
    size = arms.size // budget
    parts = arms[: size * budget].reshape(budget, size)
    means = np.zeros(graph.n_arms)
    means[parts] = _BASE
    means[parts[np.arange(budget), np.random.default_rng(seed).integers(0, size, budget)]] += gap
    return StochasticEnvironment(means, graph, seed=seed)


def gap_instance(
    graph: FeedbackGraph, budget: int, gap: float, *, mean: float = 0.5, spread: bool = False, seed: int | None = None
) -> StochasticEnvironment:
    """Return Bernoulli arms of which S are better than all others, by the same gap.

    It shows how regret and certificates depend on the gap alone. Since the good arms are the first ones, or
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
    budget = _check_budget(graph, budget)
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

    It shows whether a policy pays for information. A hub is never worth playing for its reward, so a policy
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
    budget = check_count("budget", budget, 1, LARGEST)
    n_arms = check_count("n_arms", n_arms, budget + 1, LARGEST)
    n_hubs = check_count("n_hubs", n_hubs, 1, n_arms - budget)
    mean = check_between("mean", mean, 1.0)
    hub_mean = check_between("hub_mean", hub_mean, mean)
    seed = check_seed(seed)
    others = np.arange(n_hubs, n_arms)
    good = np.random.default_rng(seed).choice(others, budget, replace=False)
    means = _means(n_arms, good, mean, gap)
    means[:n_hubs] = hub_mean
    edges = [(hub, arm) for hub, share in enumerate(np.array_split(others, n_hubs)) for arm in share.tolist()]
    return StochasticEnvironment(means, FeedbackGraph.from_edges(n_arms, edges), seed=seed)


def _check_budget(graph: FeedbackGraph, budget: int) -> int:
    return check_count("budget", budget, 1, check_kind("graph", graph, FeedbackGraph).n_arms)


def _independent(graph: FeedbackGraph, budget: int, independent: ArrayLike) -> Ints:
    """Return the arms, which must be 2S or more and not reveal each other."""
    arms = check_arms(independent, graph.n_arms, "independent", once=True)
    if arms.size < 2 * budget:
        raise ValueError(f"independent must have at least 2 * budget = {2 * budget} arms, got {arms.size}")
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


def _means(n_arms: int, good: Ints, mean: float, gap: float) -> Floats:
    """Return the means, the good arms being better by the gap."""
    mean = check_between("mean", mean, 1.0)
    gap = check_between("gap", gap, 1.0 - mean)
    if gap == 0.0:
        raise ValueError("gap must be above 0, got 0.0")
    means = np.full(n_arms, mean)
    means[good] = mean + gap
    return means
