"""A page that is read from the top: clicks fall with the place, or the first click is the last."""

from __future__ import annotations

from typing import Any

import numpy as np
from numpy.typing import ArrayLike

from armtriage._arguments import as_numbers, check_arms, check_count, check_each
from armtriage.decisions import Decision
from armtriage.environments.protocol import cached_stream
from armtriage.graphs.feedback import FeedbackGraph
from armtriage.kernels.random import check_seed, row_of, uniform
from armtriage.kernels.record import Floats, Ints


class PageEnvironment:
    """Items on a page whose places are not alike; wherever arms are given, they are given from the top.

    With `weights`, an item of rate theta gets a click in place l with probability ``weights[l] * theta``, and regret is
    in clicks. Without, it is a cascade: a visitor looks from the top, each item that is looked at attracts with its
    rate, and the first that does ends the visit; regret is in pages without a click. `simulate` plays it by ask and
    tell: it shows ``decision.ranked``, and tells clicks, or the first one (`Policy.tell_cascade`).

    Parameters
    ----------
    rates : array_like
        How often each item is clicked at the top, in [0, 1].
    weights : array_like, optional
        What the places count for, from 1 at the top falling, above 0; by default it is a cascade.
    seed : int, optional
        Fixes all clicks; None draws a fresh one, kept in `seed`.

    Examples
    --------
    >>> page = PageEnvironment([0.5, 0.4, 0.1], weights=[1.0, 0.5], seed=7)
    >>> round(page.regret([1, 0]), 6)  # in the wrong order
    0.05
    >>> page.rewards(0, [0, 1])
    array([1., 0.])
    >>> round(PageEnvironment([0.5, 0.4, 0.1], seed=7).regret([0, 2]), 6)
    0.15
    """

    def __init__(self, rates: ArrayLike, weights: ArrayLike | None = None, seed: int | None = None) -> None:
        self.rates = np.array(as_numbers("rates", rates), dtype=np.float64)
        if self.rates.ndim != 1 or not self.rates.size:
            raise ValueError(f"rates must be a number for each item, got shape {self.rates.shape}")
        check_each("rates", self.rates, (self.rates >= 0.0) & (self.rates <= 1.0), "lie in [0, 1]")
        self.weights = None if weights is None else check_weights("weights", weights)
        self.graph = FeedbackGraph.semi_bandit(self.rates.size)
        self.seed = check_seed(seed)

    @property
    def n_arms(self) -> int:
        """Number of items."""
        return self.graph.n_arms

    def rewards(self, round: int, arms: ArrayLike, replication: int = 0) -> Floats:
        """Return the clicks on items, which are shown from the top; in a cascade, those after the first are unseen."""
        order = self._page(arms)
        luck = row_of(cached_stream(self.seed, "reward", check_count("replication", replication)), round)
        coins = np.array([uniform(luck, arm) for arm in order.tolist()])
        if self.weights is not None:
            return np.where(coins < self.weights[: order.size] * self.rates[order], 1.0, 0.0)
        clicks = coins < self.rates[order]
        return np.where(clicks & (np.cumsum(clicks) == 1), 1.0, 0.0)

    def regret(self, arms: ArrayLike) -> float:
        """Return what a page loses in expectation against the best one of its size."""
        order = self._page(arms)
        best = np.sort(self.rates)[::-1][: order.size]
        return self._worth(best) - self._worth(self.rates[order])

    def _worth(self, rates: Floats) -> float:
        if self.weights is not None:
            return float(self.weights[: rates.size] @ rates)
        return float(1.0 - np.prod(1.0 - rates))

    def _page(self, arms: ArrayLike) -> Ints:
        order = check_arms(arms, self.n_arms, once=True)
        if self.weights is not None and order.size > self.weights.size:
            raise ValueError(f"arms must be at most {self.weights.size}, one for each place, got {order.size}")
        return order

    def play(self, policy: Any, decision: Decision, round: int, replication: int = 0) -> None:
        """Show a decision in the order of `ranked`, and tell its policy what came of it."""
        order = decision.ranked_arms
        clicks = self.rewards(round, order, replication)
        if self.weights is None:
            policy.tell_cascade(decision, decision.ranked[int(np.argmax(clicks))] if clicks.any() else None)
        else:
            by_arm = dict(zip(order.tolist(), clicks.tolist(), strict=True))
            policy.tell_revealed(decision, [by_arm[arm] for arm in decision.revealed.tolist()])

    def __repr__(self) -> str:
        kind = "cascade" if self.weights is None else f"weights={self.weights.tolist()}"
        return f"PageEnvironment({self.n_arms} items, {kind}, seed={self.seed})"


def check_weights(name: str, value: ArrayLike, size: int | None = None) -> Floats:
    """Return the weights of places, `size` of them, if they may be such.

    Examples
    --------
    >>> check_weights("positions", [1, 0.6, 0.4], 3)
    array([1. , 0.6, 0.4])
    """
    found = np.array(as_numbers(name, value), dtype=np.float64)
    good = found.ndim == 1 and found.size and (size is None or found.size == size)
    if not good or found[0] != 1.0 or not (np.diff(found) <= 0.0).all() or not found[-1] > 0.0:
        count = "" if size is None else f"{size} "
        raise ValueError(f"{name} must be {count}weights from 1 falling, above 0, got {value!r:.100}")
    return found
