"""A policy that does nothing: what is left is the cost of the service."""

from __future__ import annotations

import numpy as np
from numpy.typing import NDArray

from armtriage import Policy

__all__ = ["Nothing"]


class Nothing(Policy):
    """Chooses the first arms, and learns nothing."""

    def _select(self, number: int) -> NDArray[np.int64]:
        return np.arange(self.budget)

    def _update(self, number: int, arms: NDArray[np.int64], rewards: NDArray[np.float64]) -> None:
        pass
