"""Greedy: play what has looked best so far."""

from __future__ import annotations

from typing import NamedTuple

import numpy as np
from numpy.typing import NDArray

from armtriage._jit import inlined
from armtriage.feedback import GraphArrays
from armtriage.policies._index import (
    IndexState,
    new_index_state,
    rank,
    record,
    release,
    schedule,
    shorten,
    stale,
    take_unseen,
)
from armtriage.policy import CompiledPolicy, Kernels

__all__ = ["Greedy"]


class Params(NamedTuple):
    """Parameters of the kernels: a weight of 0 for the radius, so that the index is the mean."""

    width: float


@inlined
def select(
    params: Params, state: IndexState, graph: GraphArrays, number: int, luck: np.uint64, arms: NDArray[np.int64]
) -> bool:
    """Fill `arms` with the S largest means; never committed."""
    taken = take_unseen(state, arms)
    if taken < arms.size:
        while stale(state, params.width) or not rank(state, params.width, arms, taken):
            shorten(state, arms.size - taken, params.width)
    return False


@inlined
def update(
    params: Params,
    state: IndexState,
    graph: GraphArrays,
    number: int,
    luck: np.uint64,
    seen: NDArray[np.int64],
    rewards: NDArray[np.float64],
    n: int,
    scheduled: bool,
) -> None:
    """Record the rewards of the first n arms of `seen`."""
    record(state, seen, rewards, n, scheduled)


class Greedy(CompiledPolicy):
    """Look at every arm once, then play the S arms of largest mean.

    Use it under full information, where every decision reveals every arm: nothing needs exploring, and its regret
    does not grow with the horizon. Under any sparser feedback it can get stuck for ever.

    Parameters
    ----------
    graph, budget, seed, reward_range
        See `armtriage.Policy`.

    References
    ----------
    Degenne, Perchet (2016), Anytime optimal algorithms in stochastic multi-armed bandits.

    Examples
    --------
    >>> from armtriage import FeedbackGraph
    >>> policy = Greedy(FeedbackGraph.full_information(3), budget=1)
    >>> policy.tell(policy.ask(), [0.2, 0.9, 0.4])
    >>> policy.ask().arms
    array([1])
    """

    kernels = Kernels(select, update, schedule, release)

    def params(self) -> Params:
        """Return the parameters of the kernels."""
        return Params(0.0)

    def new_state(self) -> IndexState:
        """Return the state before the first round."""
        return new_index_state(self.n_arms, self.budget)
