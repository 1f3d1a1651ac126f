"""KLUCB: the index policy whose intervals fit rewards of 0 and 1, and follow the variance of others."""

from __future__ import annotations

import math
from typing import Unpack

import numpy as np
from numpy.typing import NDArray

from armtriage._arguments import check_number
from armtriage.decisions import DecisionSet
from armtriage.graphs.feedback import FeedbackGraph, GraphArrays
from armtriage.kernels.jit import kernel
from armtriage.kernels.record import Record
from armtriage.policies.compiled import Kernels, OraclePolicy
from armtriage.policies.eligible import Among
from armtriage.policies.eligible.choosing import choose_by_kl, kl_index, kl_index_of
from armtriage.policies.eligible.rows import Request, Rows
from armtriage.policies.index.shortlist import (
    IndexPolicy,
    IndexState,
    lift_unseen,
    release,
    schedule,
    take_top,
    take_unseen,
    update,
)
from armtriage.policies.lost import as_least
from armtriage.policies.options import Options

__all__ = ["KLUCB"]


class Params(Record, frozen=True):
    """Parameters of the kernels."""

    log_log: float


@kernel
def exploration(params: Params, number: int) -> float:
    """Return f(t) = ln t + c ln ln t for t = number + 1, and 0 where that is negative or undefined."""
    if number < 1:
        return 0.0
    log = math.log(number + 1.0)
    return max(0.0, log + params.log_log * math.log(log))


@kernel
def _index(state: IndexState, arm: int, count: int, bonus: float) -> float:
    """Return the index of an arm that was seen."""
    return kl_index_of(float(count), state.means[arm], state.between[arm], bonus)


@kernel
def _keep(state: IndexState, level: float, bonus: float) -> int:
    """Collect the arms whose index reaches `level`; Pinsker's inequality rules most out before it is computed."""
    n = 0
    pinsker = math.sqrt(0.5 * bonus)
    for a in range(state.counts.size):
        count = state.counts[a] + as_least(state.missed[a])
        if count > 0 and state.means[a] + pinsker * state.radii[a] >= level - 1e-9:
            value = _index(state, a, count, bonus)
            if value >= level:
                state.kept[n] = a
                state.kept_values[n] = value
                n += 1
    return n


@kernel
def select(
    params: Params,
    state: IndexState,
    graph: GraphArrays,
    number: int,
    luck: np.uint64,
    arms: NDArray[np.int64],
) -> bool:
    """Fill `arms` with the S largest indices; never committed."""
    taken = take_unseen(state, arms)
    k = arms.size - taken
    if k > 0:
        bonus = exploration(params, number)
        n = _keep(state, state.level - state.margin, bonus)
        if n < k:
            state.margin *= 2.0
            n = _keep(state, -1.0, bonus)
        elif n > 2 * k + 4:
            state.margin *= 0.9
        take_top(state, n, arms, taken)
    return False


@kernel
def weigh(
    params: Params,
    state: IndexState,
    number: int,
    luck: np.uint64,
    size: int,
    offset: float,
    weights: NDArray[np.float64],
) -> None:
    """Write the index of every arm."""
    bonus = exploration(params, number)
    for a in range(weights.size):
        count = state.counts[a] + as_least(state.missed[a])
        if count > 0:
            weights[a] = _index(state, a, count, bonus) + offset
    lift_unseen(state, size, weights)


@kernel
def believe(
    params: Params,
    state: IndexState,
    number: int,
    luck: np.uint64,
    arms: NDArray[np.int64],
    beliefs: NDArray[np.float64],
) -> None:
    """Write the indices of the arms chosen."""
    bonus = exploration(params, number)
    for i in range(arms.size):
        count = state.counts[arms[i]] + as_least(state.missed[arms[i]])
        beliefs[0, i] = _index(state, arms[i], count, bonus) if count > 0 else np.inf


@kernel
def choose(request: Request, number: int, luck: np.uint64, among: NDArray[np.int64], arms: NDArray[np.int64]) -> None:
    """Fill `arms` with the largest indices among eligible arms."""
    choose_by_kl(request, among, arms, exploration(request.params, number))


@kernel
def believe_among(
    request: Request, number: int, luck: np.uint64, arms: NDArray[np.int64], beliefs: NDArray[np.float64]
) -> None:
    """Write the indices of the arms chosen among eligible ones."""
    bonus = exploration(request.params, number)
    for i in range(arms.size):
        beliefs[0, i] = kl_index(request.rows, arms[i], bonus)


class KLUCB(OraclePolicy, IndexPolicy):
    """Play the S arms of largest KL index: the largest p with ``count * kl(mean, p) <= ln t + c ln ln t``.

    For rewards strictly between 0 and 1 it is that of the law on two points x and 1 that has their mean and variance,
    which is smaller; see `docs/intervals.md`.

    Use it instead of `CombUCB1` when rewards are 0 or 1 and means lie near 0 or 1: its intervals are never wider
    than Hoeffding's and much narrower there. With ``log_log=3`` its regret is asymptotically optimal for Bernoulli
    arms at S = 1; nothing is proved for the default, which loses less in practice.

    Parameters
    ----------
    graph, budget, decisions, names, seed, reward_range, direction, sleepers_seen
        See `armtriage.Policy`.
    log_log : float
        c above: 3 in the published proof; 0, the default, is what its authors recommend in practice.

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

    kernels = Kernels(select, update, schedule, release, weigh, believe)
    among = Among(choose, believe_among)

    def __init__(
        self,
        graph: FeedbackGraph | int,
        budget: int | None = None,
        *,
        decisions: DecisionSet | None = None,
        log_log: float = 0.0,
        **options: Unpack[Options],
    ) -> None:
        super().__init__(graph, budget, decisions=decisions, **options)
        self.log_log = check_number("log_log", log_log)

    def new_state(self) -> IndexState:
        """Return the state before the first round."""
        return super().new_state()._replace(between=np.zeros(self.n_arms))

    def _fill(self, rows: Rows) -> None:
        rows.told_between[: self._state.between.size] = self._state.between

    def params(self) -> Params:
        """Return the parameters of the kernels."""
        return Params(self.log_log)
