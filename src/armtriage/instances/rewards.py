"""Arms whose rewards are no coins, and arms whose rates are small: by law of rewards, and by law of rates."""

from __future__ import annotations

from statistics import NormalDist

import numpy as np

from armtriage._arguments import check_choice, check_kind, check_number
from armtriage.environments import StochasticEnvironment
from armtriage.graphs import FeedbackGraph
from armtriage.kernels.random import check_seed
from armtriage.kernels.record import Floats, Ints

_SIZE = 1024  # equally likely rewards of each arm, the quantiles of its law
REWARD_LAWS = (
    *("coins", "beta 2", "beta 10", "beta 100", "uniform 0.2", "uniform 0.05", "two points"),
    *("lognormal", "jackpots", "quiet best", "quiet others"),
)
"""The laws that `random_rewards` knows; the last three have a best part whose law is another."""
RATE_LAWS = ("beta", "needles", "lognormal", "one gap")
"""The laws of means that `random_rates` knows."""


def random_rewards(
    graph: FeedbackGraph, *, law: str = "beta 10", best: int = 10, seed: int | None = None
) -> StochasticEnvironment:
    """Return arms with means uniform in [0.3, 0.7] and rewards of a law; the best arms may have one of their own.

    Parameters
    ----------
    graph : FeedbackGraph
        Which arms a chosen arm reveals.
    law : str
        ``"coins"``; ``"beta c"`` of concentration 2, 10 or 100; ``"uniform h"``, up to h = 0.2 or 0.05 around the mean;
        ``"two points"``, 0.2 around it; ``"lognormal"``, 1 less a waiting time cut off at 1; ``"jackpots"``: the
        `best` arms pay 0.3, or 1 once in ten times, the others 0.35 up to 0.01; ``"quiet best"``: these pay 0.37 up to
        0.01 among coins of 0.35; ``"quiet others"``: they are coins of 0.37, and the others pay 0.35 up to 0.01.
    best : int
        How many arms the last three laws make the best.
    seed : int, optional
        Fixes the means and the rewards; None draws a fresh one.

    Examples
    --------
    >>> env = random_rewards(FeedbackGraph.semi_bandit(4), law="uniform 0.05", seed=7)
    >>> (abs(env.rewards(0, range(4)) - env.means) <= 0.05).all()
    np.True_
    """
    check_kind("graph", graph, FeedbackGraph)
    check_choice("law", law, REWARD_LAWS)
    seed = check_seed(seed)
    rng, n = np.random.default_rng(seed), graph.n_arms
    u = (np.arange(_SIZE)[:, None] + 0.5) / _SIZE
    means = rng.uniform(0.3, 0.7, n)
    kind, _, size = law.partition(" ")
    if law in ("jackpots", "quiet best", "quiet others"):
        chosen = rng.permutation(n)[: min(best, n)]
        outcomes = _with_best(law, u, n, chosen)
    elif kind == "coins":
        return StochasticEnvironment(means, graph, seed=seed)
    elif kind == "beta":
        return StochasticEnvironment(means, graph, "beta", concentration=float(size), seed=seed)
    elif kind == "uniform":
        outcomes = means + float(size) * (2.0 * u - 1.0)
    elif kind == "two":
        outcomes = means + np.where(u < 0.5, -0.2, 0.2)
    else:
        middle, spread = rng.uniform(0.1, 0.5, n), rng.uniform(0.3, 0.8, n)
        z = np.array([NormalDist().inv_cdf(one) for one in u[:, 0]])[:, None]
        outcomes = 1.0 - np.minimum(middle * np.exp(spread * z), 1.0)
    return StochasticEnvironment.from_outcomes(outcomes, graph, seed=seed)


def _with_best(law: str, u: Floats, n: int, chosen: Ints) -> Floats:
    quiet = 0.02 * (u - 0.5)
    if law == "quiet best":
        outcomes = np.repeat((u < 0.35).astype(np.float64), n, axis=1)
        outcomes[:, chosen] = 0.37 + quiet
    else:
        outcomes = np.repeat(0.35 + quiet, n, axis=1)
        outcomes[:, chosen] = np.where(u < 0.9, 0.3, 1.0) if law == "jackpots" else u < 0.37
    return outcomes


def random_rates(
    graph: FeedbackGraph, *, rate: float = 0.05, law: str = "beta", seed: int | None = None
) -> StochasticEnvironment:
    """Return arms with rewards of 0 and 1 whose means are about `rate`.

    Parameters
    ----------
    graph : FeedbackGraph
        Which arms a chosen arm reveals.
    rate : float
        The size of the means, above 0 and up to 0.5.
    law : {"beta", "needles", "lognormal", "one gap"}
        Of the means: Beta with this mean and parameters of sum 20; 0.4 times the rate but for one arm in a hundred,
        three at least, of eight times the rate; lognormal around it with a deviation of 0.7; or the rate, and 1.25
        times that for one arm in ten.
    seed : int, optional
        Fixes the means and the rewards; None draws a fresh one.

    Examples
    --------
    >>> env = random_rates(FeedbackGraph.semi_bandit(300), rate=0.01, law="needles", seed=7)
    >>> np.unique(env.means, return_counts=True)
    (array([0.004, 0.08 ]), array([297,   3]))
    """
    check_kind("graph", graph, FeedbackGraph)
    check_choice("law", law, RATE_LAWS)
    rate = check_number("rate", rate, positive=True)
    if rate > 0.5:
        raise ValueError(f"rate must be at most 0.5, got {rate!r}")
    seed = check_seed(seed)
    rng, n = np.random.default_rng(seed), graph.n_arms
    if law == "beta":
        means = rng.beta(20.0 * rate, 20.0 * (1.0 - rate), n)
    elif law == "needles":
        means = np.full(n, 0.4 * rate)
        means[rng.permutation(n)[: max(3, n // 100)]] = min(0.9, 8.0 * rate)
    elif law == "lognormal":
        means = np.minimum(rate * np.exp(0.7 * rng.standard_normal(n)), 0.98)
    else:
        means = np.full(n, rate)
        means[rng.permutation(n)[: max(1, n // 10)]] *= 1.25
    return StochasticEnvironment(means, graph, seed=seed)
