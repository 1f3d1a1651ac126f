"""What index and sampling policies do over a decision set: weigh every arm, and let its oracle choose."""

from __future__ import annotations

from typing import Any

import numpy as np
from numpy.typing import NDArray

from armtriage._jit import kernel
from armtriage._random import row_of
from armtriage.compiled import CompiledPolicy
from armtriage.decisions import TopS
from armtriage.policies._index import IndexState

__all__ = ["OraclePolicy", "lift_unseen"]


@kernel
def lift_unseen(state: IndexState, size: int, weights: NDArray[np.float64]) -> None:
    """Give arms of infinite index weights such that a best decision has as many of them as possible.

    First come those that were never scheduled. One whose first reward is on its way counts the less, the more often
    it was asked. Only then do the other indices count. `size` is that of the largest decision.
    """
    largest = 0.0
    unseen = 0
    for a in range(weights.size):
        if state.counts[a] == 0:
            unseen += 1
        else:
            largest = max(largest, abs(weights[a]))
    if unseen == 0:
        return
    waiting = 2.0 * size * (1.0 + largest)
    for a in range(weights.size):
        if state.counts[a] == 0:
            if state.pending[a] > 0:
                weights[a] = waiting * (1.0 + 1.0 / state.pending[a])
            else:
                weights[a] = waiting * 4.0 * size


class OraclePolicy(CompiledPolicy):
    """A policy with a kernel `weigh`, whose weights the decision of largest sum is played by.

    ``weigh(params, state, number, luck, size, offset, weights)`` writes a weight for each arm. Without a
    decision set, and with `TopS`, the kernel `select` finds the same decision in less time.
    """

    @property
    def in_loop(self) -> bool:
        """Whether the kernels choose decisions, and not an oracle."""
        return self.decisions is None or isinstance(self.decisions, TopS)

    def _select(self, number: int) -> NDArray[np.int64]:
        if self.in_loop:
            return super()._select(number)
        return self.choose(self.params(), self._state, number, row_of(self._stream, number))

    def choose(self, params: Any, state: Any, number: int, luck: np.uint64) -> NDArray[np.int64]:
        """Return the decision of round `number` that the oracle finds best, as `simulate` also asks for it."""
        assert self.decisions is not None
        assert self.kernels.weigh is not None
        weights = np.empty(self.n_arms)
        self.kernels.weigh(params, state, number, luck, self.budget, self._offset, weights)
        arms = self.decisions.maximise(weights)
        assert arms is not None
        return arms
