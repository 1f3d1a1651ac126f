"""KLUCB: the index policy whose intervals fit rewards of 0 and 1, and follow the variance of others."""

from __future__ import annotations

import math
from typing import Unpack

import numpy as np

from armtriage._arguments import check_number
from armtriage.graphs.feedback import FeedbackGraph
from armtriage.intervals import kl_index
from armtriage.kernels.jit import kernel
from armtriage.kernels.record import Floats, Record
from armtriage.policies.evidence import Evidence, counted
from armtriage.policies.index.shortlist import IndexPolicy, Shortlist, lift_unseen, place, rate, take_top, take_unseen
from armtriage.policies.options import SetOptions
from armtriage.policies.request import ALL, Kernels, Request, list_candidates


class Params(Record, frozen=True):
    """Parameters of the kernels."""

    log_log: float
    memory: float  # decisions whose rewards count


@kernel
def exploration(params: Params, number: int) -> float:
    """Return f(t) = ln t + c ln ln t for t = number + 1, and 0 where that is negative or undefined.

    Where rewards fade, t is no more than the decisions that count.
    """
    if number < 1:
        return 0.0
    log = math.log(min(number, params.memory) + 1.0)
    return max(0.0, log + params.log_log * math.log(log))


@kernel
def _index(evidence: Evidence, own: Shortlist, arm: int, bonus: float) -> float:
    """Return the index of an arm, which is infinite if nothing is known of it."""
    count = counted(evidence, arm)
    return kl_index(count, own.means[arm], evidence.between[arm], bonus) if count > 0.0 else np.inf


@kernel
def _keep(evidence: Evidence, own: Shortlist, request: Request, level: float, bonus: float) -> int:
    """Collect the candidates whose index reaches `level`; Pinsker's inequality rules most out before it is computed."""
    m, pinsker = 0, math.sqrt(0.5 * bonus)
    list_candidates(evidence, request)
    for i in range(request.n):
        arm = request.among[i]
        if own.means[arm] + pinsker * own.radii[arm] >= level - 1e-9:
            own.kept[m], own.kept_values[m] = arm, _index(evidence, own, arm, bonus)
            m += own.kept_values[m] >= level
    return m


@kernel
def choose(params: Params, evidence: Evidence, own: Shortlist, request: Request) -> bool:
    """Fill `arms` with the candidates of largest index; never committed."""
    taken = take_unseen(evidence, own, request)
    k, which = request.size - taken, int(request.epoch != ALL)
    if k > 0:
        bonus = exploration(params, request.number)
        m = _keep(evidence, own, request, own.levels[which] - own.margins[which], bonus)
        if m < k:
            own.margins[which] *= 2.0
            m = _keep(evidence, own, request, -1.0, bonus)
        elif m > 2 * k + 4:
            own.margins[which] *= 0.9
        take_top(own, request, m, taken)
    return False


@kernel
def weigh(params: Params, evidence: Evidence, own: Shortlist, request: Request, offset: float, weights: Floats) -> None:
    """Write the index of every arm."""
    bonus = exploration(params, request.number)
    for arm in range(weights.size):
        weights[arm] = _index(evidence, own, arm, bonus) + offset
    lift_unseen(evidence, own, request.arms.size, weights)


@kernel
def believe(params: Params, evidence: Evidence, own: Shortlist, request: Request) -> None:
    """Write the indices of the arms chosen."""
    bonus = exploration(params, request.number)
    for i in range(request.size):
        request.beliefs[0, i] = _index(evidence, own, request.arms[i], bonus)


class KLUCB(IndexPolicy):
    """Play the S arms of largest KL index: the largest p with ``count * kl(mean, p) <= ln t + c ln ln t``.

    For rewards strictly between 0 and 1 it is that of the law on two points x and 1 that has their mean and variance,
    which is smaller; see `docs/intervals.md`.

    Use it instead of `CombUCB1` when rewards are 0 or 1 and means lie near 0 or 1: its intervals are never wider
    than Hoeffding's and much narrower there. With ``log_log=3`` its regret is asymptotically optimal for Bernoulli
    arms at S = 1; nothing is proved for the default, which loses less in practice.

    Parameters
    ----------
    graph, budget, decisions, names, seed, reward_range, direction, sleepers_seen, cap, logging_floor, floor_arms
        See `armtriage.Policy`.
    log_log : float
        c above: 3 in the published proof; 0, the default, is what its authors recommend in practice.
    forget
        See `armtriage.CombUCB1`.

    References
    ----------
    Garivier, Cappe (2011), The KL-UCB algorithm for bounded stochastic bandits and beyond, Algorithm 1.

    Examples
    --------
    >>> from armtriage import FeedbackGraph
    >>> policy = KLUCB(FeedbackGraph.semi_bandit(4), budget=2)
    >>> policy.tell(policy.ask(), [1, 0])
    >>> policy.tell(policy.ask(), [0, 1])
    >>> policy.ask().arms
    array([0, 3])
    >>> from armtriage import PartitionMatroid
    >>> KLUCB(FeedbackGraph.semi_bandit(4), decisions=PartitionMatroid([0, 0, 1, 1], capacities=1)).ask().arms
    array([0, 2])
    """

    kernels = Kernels(choose, rate, believe, place, weigh)
    listing = False

    def __init__(
        self,
        graph: FeedbackGraph | int,
        budget: int | None = None,
        *,
        log_log: float = 0.0,
        forget: str | float | None = None,
        **options: Unpack[SetOptions],
    ) -> None:
        super().__init__(graph, budget, **options)
        self.log_log = check_number("log_log", log_log)
        self.forget = self._check_forget(forget)

    def params(self) -> Params:
        """Return the parameters of the kernels."""
        return Params(self.log_log, self._memory)
