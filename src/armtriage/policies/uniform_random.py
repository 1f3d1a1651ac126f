"""UniformRandom: learn nothing."""

from __future__ import annotations

import numpy as np
from numpy.typing import NDArray

from armtriage.graphs.feedback import GraphArrays
from armtriage.kernels.jit import kernel
from armtriage.kernels.random import uniform
from armtriage.kernels.record import Record
from armtriage.policies.compiled import CompiledPolicy, Kernels
from armtriage.policies.eligible import Among
from armtriage.policies.eligible.choosing import believe_nothing, choose_at_random
from armtriage.policies.facts import require

__all__ = ["UniformRandom"]


class Params(Record, frozen=True):
    """Parameters of the kernels."""

    budget: int


class State(Record):
    """The arms in some order; its first part is shuffled anew each round."""

    order: NDArray[np.int64]


@kernel
def select(
    params: Params, state: State, graph: GraphArrays, number: int, luck: np.uint64, arms: NDArray[np.int64]
) -> bool:
    """Fill `arms` with a uniformly random set: the first S steps of a Fisher-Yates shuffle."""
    for i in range(arms.size):
        j = i + int(uniform(luck, i) * (state.order.size - i))
        state.order[i], state.order[j] = state.order[j], state.order[i]
        arms[i] = state.order[i]
    return False


@kernel
def update(
    params: Params,
    state: State,
    graph: GraphArrays,
    number: int,
    luck: np.uint64,
    seen: NDArray[np.int64],
    rewards: NDArray[np.float64],
    n: int,
    scheduled: bool,
) -> None:
    """Learn nothing."""


class UniformRandom(CompiledPolicy):
    """Play S arms at random, each set with the same probability.

    Use it as the floor of a comparison, or to collect a log without bias. Its regret grows linearly.

    Parameters
    ----------
    graph, names, seed, reward_range, direction, sleepers_seen
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

    kernels = Kernels(select, update)
    among = Among(choose_at_random, believe_nothing)

    def params(self) -> Params:
        """Return the parameters of the kernels."""
        return Params(self.budget)

    def _rebuild(self) -> None:
        require(np.sort(self._state.order) == np.arange(self.n_arms), "order must have every arm once")

    def new_state(self) -> State:
        """Return the state before the first round."""
        return State(np.arange(self.n_arms, dtype=np.int64))
