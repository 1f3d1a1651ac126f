"""Instances without contexts: random arms on any graph, and the cliques of look-alikes on which UCB fails."""

from __future__ import annotations

import math
from collections.abc import Callable, Mapping
from numbers import Real
from types import MappingProxyType
from typing import Any

import numpy as np

from armtriage.environments import StochasticEnvironment
from armtriage.graphs.feedback import FeedbackGraph
from armtriage.graphs.layout import LIMIT, check_whole
from armtriage.instances.counterexamples import two_hubs
from armtriage.kernels.random import check_seed

__all__ = ["GRAPHS", "NOISES", "random_bernoulli", "ucb_failure"]

NOISES = ("deterministic", "shared", "independent")
_LARGEST_TOURNAMENT = 10_000


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
    if not isinstance(graph, FeedbackGraph):
        raise TypeError(f"graph must be a FeedbackGraph, got {type(graph).__name__}")
    low, high = _number("low", low), _number("high", high)
    if not 0.0 <= low <= high <= 1.0:
        raise ValueError(f"low and high must satisfy 0 <= low <= high <= 1, got {low!r} and {high!r}")
    seed = check_seed(seed)
    means = np.random.default_rng(seed).uniform(low, high, graph.n_arms)
    return StochasticEnvironment(means, graph, reward, seed=seed)


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
        Rewards that equal their means, Bernoulli rewards with one draw for a clique, or one for an arm.
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
    budget = check_whole("budget", budget, 1, LIMIT)
    alpha = check_whole("alpha", alpha, 2, LIMIT)
    horizon = check_whole("horizon", horizon, 1, 2**62)
    n_arms = budget * alpha if n_arms is None else check_whole("n_arms", n_arms, 1, LIMIT)
    if n_arms < budget * alpha:
        raise ValueError(f"n_arms must be at least budget * alpha = {budget * alpha}, got {n_arms}")
    if noise not in NOISES:
        raise ValueError(f"noise must be one of {', '.join(NOISES)}, got {noise!r}")
    if width is None:
        delta = _number("delta", delta)
        if not 0.0 < delta < 1.0:
            raise ValueError(f"delta must be a number strictly between 0 and 1, got {delta!r}")
        width = math.sqrt(math.log(2 * n_arms * horizon / delta))
    width = _number("width", width)
    if not (math.isfinite(width) and width > 0):
        raise ValueError(f"width must be a positive number, got {width!r}")
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


def _cliques(*, n_arms: int, size: int) -> FeedbackGraph:
    """Return cliques of this size; the last one takes what is left."""
    n = check_whole("n_arms", n_arms, 1, LIMIT)
    each = check_whole("size", size, 1, n)
    return FeedbackGraph.cliques([each] * (n // each) + [n % each] * (n % each > 0))


def _star(*, n_arms: int, undirected: bool = True) -> FeedbackGraph:
    """Return the graph in which arm 0 reveals all, and by default all reveal arm 0."""
    n = check_whole("n_arms", n_arms, 1, LIMIT)
    return FeedbackGraph.from_edges(n, [(0, arm) for arm in range(1, n)], undirected=undirected)


def _semi_bandit(*, n_arms: int) -> FeedbackGraph:
    return FeedbackGraph.semi_bandit(n_arms)


def _full_information(*, n_arms: int) -> FeedbackGraph:
    return FeedbackGraph.full_information(n_arms)


def _threshold(*, n_arms: int, direction: str = "up") -> FeedbackGraph:
    return FeedbackGraph.threshold(n_arms, direction)


def _erdos_renyi(*, n_arms: int, p: float, directed: bool = True, seed: int | None = None) -> FeedbackGraph:
    return FeedbackGraph.erdos_renyi(n_arms, p, seed, directed=directed)


def _tournament(*, n_arms: int, seed: int | None = None) -> FeedbackGraph:
    """Return the graph in which of any two arms a random one reveals the other."""
    n = check_whole("n_arms", n_arms, 1, _LARGEST_TOURNAMENT)
    one, other = np.triu_indices(n, 1)
    turned = np.random.default_rng(check_seed(seed)).random(one.size) < 0.5
    return FeedbackGraph.from_edges(n, np.column_stack([np.where(turned, other, one), np.where(turned, one, other)]))


def _two_hubs(*, n_arms: int) -> FeedbackGraph:
    return two_hubs(n_arms)


GRAPHS: Mapping[str, Callable[..., FeedbackGraph]] = MappingProxyType(
    {
        "cliques": _cliques,
        "erdos_renyi": _erdos_renyi,
        "full_information": _full_information,
        "semi_bandit": _semi_bandit,
        "star": _star,
        "threshold": _threshold,
        "tournament": _tournament,
        "two_hubs": _two_hubs,
    }
)
"""Graph families by name; each builder takes keyword arguments, `n_arms` first of all."""


def _number(name: str, value: Any) -> float:
    if isinstance(value, bool) or not isinstance(value, Real):
        raise TypeError(f"{name} must be a number, got {value!r}")
    return float(value)
