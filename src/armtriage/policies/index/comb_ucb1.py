"""CombUCB1: the index policy that practitioners reach for first."""

from __future__ import annotations

import math
from typing import Unpack

from armtriage._arguments import check_number
from armtriage.graphs.feedback import FeedbackGraph
from armtriage.kernels.jit import inlined, kernel
from armtriage.kernels.record import Floats, Record
from armtriage.policies.evidence import Evidence
from armtriage.policies.index.shortlist import (
    IndexPolicy,
    Shortlist,
    lifetime,
    lift_unseen,
    place,
    rank,
    rate,
    shorten,
    take_unseen,
    write_indices,
)
from armtriage.policies.options import SetOptions
from armtriage.policies.request import Kernels, Request


class Params(Record, frozen=True):
    """Parameters of the kernels."""

    exploration: float
    memory: float  # decisions whose rewards count


@kernel
@inlined
def scale(params: Params, number: int) -> float:
    """Return sqrt(c ln t) for t = number + 1, or for as many decisions as count."""
    return math.sqrt(params.exploration * math.log(min(number, params.memory) + 1.0))


@kernel
@inlined
def choose(params: Params, evidence: Evidence, own: Shortlist, request: Request) -> bool:
    """Fill `arms` with the candidates of largest index; never committed."""
    taken = take_unseen(evidence, own, request)
    if taken < request.size:
        current = scale(params, request.number)
        while not rank(evidence, own, request, taken, current):
            end = scale(params, request.number + lifetime(own, request))
            shorten(evidence, own, request, request.size - taken, end)
    return False


@kernel
def weigh(params: Params, evidence: Evidence, own: Shortlist, request: Request, offset: float, weights: Floats) -> None:
    """Write the index of every arm."""
    current = scale(params, request.number)
    for arm in range(weights.size):
        weights[arm] = own.means[arm] + current * own.radii[arm] + offset
    lift_unseen(evidence, own, request.arms.size, weights)


@kernel
def believe(params: Params, evidence: Evidence, own: Shortlist, request: Request) -> None:
    """Write the indices of the arms chosen."""
    write_indices(own, request, scale(params, request.number))


class CombUCB1(IndexPolicy):
    """Play the S arms, or the decision, of largest ``mean + sqrt(exploration * ln t / count)``; learn all that shows.

    Use it as the plain baseline for semi-bandit feedback: no horizon, no tuning. It guarantees O(KS ln T / gap)
    and O(sqrt(KST ln T)) regret there, but can fail on cliques of look-alikes (see `CombinatorialUCB`).

    Parameters
    ----------
    graph, budget, decisions, names, seed, reward_range, direction, sleepers_seen, cap, logging_floor, floor_arms
        See `armtriage.Policy`.
    exploration : float
        The constant under the root; 1.5 is the published one.
    forget : {"alarm"}, float or int, optional
        With ``"alarm"`` the policy watches for drift and, when a mean has changed, forgets what it knows of all arms;
        now and then it looks at an arm that it would not play. A float in (0, 1) is a discount of what was told with
        each decision, a whole number a window: only rewards of so many last decisions count. Nothing is then certified.
        See ``docs/when-the-world-changes.md``.

    References
    ----------
    Kveton, Wen, Ashkan, Szepesvari (2015), Tight regret bounds for stochastic combinatorial semi-bandits,
    Algorithm 1.

    Examples
    --------
    >>> from armtriage import FeedbackGraph
    >>> policy = CombUCB1(FeedbackGraph.semi_bandit(4), budget=2)
    >>> policy.ask().arms, policy.ask().arms
    (array([0, 1]), array([2, 3]))
    >>> from armtriage import Matchings
    >>> pairs = CombUCB1(FeedbackGraph.semi_bandit(4), decisions=Matchings(2, 2))
    >>> pairs.ask().arms, pairs.ask().arms
    (array([0, 3]), array([1, 2]))
    """

    kernels = Kernels(choose, rate, believe, place, weigh)

    def __init__(
        self,
        graph: FeedbackGraph | int,
        budget: int | None = None,
        *,
        exploration: float = 1.5,
        forget: str | float | None = None,
        **options: Unpack[SetOptions],
    ) -> None:
        super().__init__(graph, budget, **options)
        self.exploration = check_number("exploration", exploration)
        self.forget = self._check_forget(forget)

    def params(self) -> Params:
        """Return the parameters of the kernels."""
        return Params(self.exploration, self._memory)
