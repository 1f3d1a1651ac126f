"""CombinatorialUCB: Algorithm 2 of the paper."""

from __future__ import annotations

import math
from typing import Unpack

from armtriage._arguments import check_horizon, check_number, check_probability
from armtriage.graphs.feedback import FeedbackGraph
from armtriage.kernels.jit import kernel
from armtriage.kernels.record import Record
from armtriage.policies.evidence import Evidence
from armtriage.policies.index.shortlist import (
    IndexPolicy,
    Shortlist,
    place,
    rank,
    rate,
    shorten,
    take_unseen,
    write_indices,
)
from armtriage.policies.options import Options
from armtriage.policies.request import Kernels, Request


class Params(Record, frozen=True):
    """Parameters of the kernels."""

    width: float


@kernel
def choose(params: Params, evidence: Evidence, own: Shortlist, request: Request) -> bool:
    """Fill `arms` with the candidates of largest index; never committed."""
    taken = take_unseen(evidence, own, request)
    if taken < request.size:
        while not rank(evidence, own, request, taken, params.width):
            shorten(evidence, own, request, request.size - taken, params.width)
    return False


@kernel
def believe(params: Params, evidence: Evidence, own: Shortlist, request: Request) -> None:
    """Write the indices of the arms chosen."""
    write_indices(own, request, params.width)


class CombinatorialUCB(IndexPolicy):
    """Algorithm 2: play the S arms of largest ``mean + width / sqrt(count)``, ties to the smallest arm.

    Use it to show what the paper proves about UCB: O(sqrt(KST)) up to logarithms under semi-bandit feedback, but
    Omega(width S sqrt(alpha T)) on cliques whose arms behave alike, where `CombinatorialElimination` does not fail.
    With noise of its own in every arm it does well there too.

    Parameters
    ----------
    graph, names, seed, reward_range, direction, sleepers_seen, cap, logging_floor, floor_arms
        See `armtriage.Policy`.
    budget : int
        How many arms a decision has (S in the paper), from 1 to ``graph.n_arms``.
    horizon : int, optional
        Number of rounds; needed unless `width` is given.
    delta : float
        Probability with which the intervals may fail.
    width : float, optional
        L in the paper; by default sqrt(ln(2KT/delta)).

    References
    ----------
    Wen, Han, Zhou (2025), Optimal arm elimination algorithms for combinatorial bandits, Algorithm 2, Theorem 4.

    Examples
    --------
    >>> from armtriage import FeedbackGraph
    >>> policy = CombinatorialUCB(FeedbackGraph.semi_bandit(4), budget=2, horizon=1000)
    >>> round(policy.width, 4)
    3.6868
    """

    kernels = Kernels(choose, rate, believe, place)

    def __init__(
        self,
        graph: FeedbackGraph | int,
        budget: int,
        *,
        horizon: int | None = None,
        delta: float = 0.01,
        width: float | None = None,
        **options: Unpack[Options],
    ) -> None:
        super().__init__(graph, budget, **options)
        self.horizon = check_horizon(horizon)
        self.delta = check_probability("delta", delta)
        if width is None:
            if self.horizon is None:
                raise ValueError("horizon or width must be given, got None for both")
            width = math.sqrt(math.log(2 * self.n_arms * self.horizon / self.delta))
        self.width = check_number("width", width)

    def params(self) -> Params:
        """Return the parameters of the kernels."""
        return Params(self.width)
