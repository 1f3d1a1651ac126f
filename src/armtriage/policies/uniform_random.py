"""UniformRandom: learn nothing."""

from __future__ import annotations

from typing import Any

import numpy as np

from armtriage.kernels.jit import kernel
from armtriage.kernels.order import top_first
from armtriage.kernels.random import uniform
from armtriage.kernels.record import Floats, Ints, Record
from armtriage.policies.evidence import Evidence
from armtriage.policies.facts import require
from armtriage.policies.request import ALL, Kernels, Request, learn_nothing, list_candidates, luck_of
from armtriage.policies.slate import SlatePolicy


class Params(Record, frozen=True):
    """Parameters of the kernels."""

    budget: int


class Order(Record):
    """All arms in some order, whose first part is shuffled in each round of all arms."""

    facts = ("order",)
    order: Ints
    keys: Floats  # scratch


@kernel
def choose(params: Params, evidence: Evidence, own: Order, request: Request) -> bool:
    """Fill `arms` with a uniformly random set of candidates; never committed."""
    luck, n, size = luck_of(request), request.n, request.size
    if request.epoch == ALL:
        # The first steps of a Fisher-Yates shuffle.
        for i in range(size):
            j = i + int(uniform(luck, i) * (n - i))
            own.order[i], own.order[j] = own.order[j], own.order[i]
            request.arms[i] = own.order[i]
        return False
    list_candidates(evidence, request)
    for i in range(n):
        own.keys[i] = uniform(luck, request.among[i])
    top_first(own.keys, request.among, n, size)
    for i in range(size):
        request.arms[i] = request.among[i]
    request.listed = 0
    return False


@kernel
def believe(params: Params, evidence: Evidence, own: Order, request: Request) -> None:
    """Hold all arms for equal."""
    request.beliefs[:] = 0.0


class UniformRandom(SlatePolicy):
    """Play S arms at random, each set with the same probability.

    Use it as the floor of a comparison, or to collect a log without bias. Its regret grows linearly.

    Parameters
    ----------
    graph, names, seed, reward_range, direction, sleepers_seen, cap, logging_floor, floor_arms
        See `armtriage.Policy`.
    budget : int
        How many arms a decision has (S in the paper), from 1 to ``graph.n_arms``.
    decisions : None
        Not taken: sets of decisions are for other policies.

    Examples
    --------
    >>> from armtriage import FeedbackGraph
    >>> UniformRandom(FeedbackGraph.semi_bandit(5), budget=2, seed=7).ask().arms.size
    2
    """

    kernels = Kernels(choose, learn_nothing, believe)

    def params(self) -> Params:
        """Return the parameters of the kernels."""
        return Params(self.budget)

    def new_own(self, evidence: Evidence) -> Order:
        """Return the arms in their own order."""
        return Order(np.arange(evidence.n_arms), np.zeros(evidence.n_arms))

    def renewed_own(self, old: Any) -> Order:
        """Return the same order, with arms that were added behind the others."""
        own = self.new_own(self._evidence)
        own.order[: old.order.size] = old.order
        return own

    def _check_own(self) -> None:
        require(np.sort(self._own.order) == np.arange(self.n_arms), "order must have every arm once")
