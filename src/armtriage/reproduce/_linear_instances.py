"""Instances of the study of linear contexts: tasks that can be learned, and directions that share nothing."""

from __future__ import annotations

import math
from typing import Any, NamedTuple

import numpy as np

from armtriage.environments import LinearEnvironment

__all__ = ["SLOTS", "Tasks", "orthogonal"]

SLOTS, _DIRECTIONS = 20, 100
_GAP = 0.33  # of one task in the shortest horizon: between 1/4 and 1/2, and close to neither


def orthogonal(seed: int | None = None) -> LinearEnvironment:
    """Return 20 good arms that share a context, after 99 of mean 0 with a direction each to themselves.

    Examples
    --------
    >>> env = orthogonal(seed=7)
    >>> env.n_arms, env.means(0)[[0, 99]]
    (119, array([0. , 0.6]))
    """
    contexts = np.zeros((_DIRECTIONS - 1 + SLOTS, _DIRECTIONS))
    contexts[: _DIRECTIONS - 1, 1:] = np.eye(_DIRECTIONS - 1)
    contexts[_DIRECTIONS - 1 :, 0] = 1.0
    return LinearEnvironment(0.6 * np.eye(_DIRECTIONS)[0], contexts, seed=seed)


class Tasks(NamedTuple):
    """Tasks one after the other, with a gap that is a fixed multiple of 1 / sqrt(rounds of a task)."""

    number: int
    budget: int
    longer: int
    shortest: int

    @property
    def options(self) -> dict[str, Any]:
        """The instance, for an experiment."""
        about = {"dimension": 2 * self.budget * self.number + 1, "budget": self.budget}
        gap = _GAP * math.sqrt(self.number / self.longer)
        return {"instance": "linear_blocks", **about, "horizon": self.longer * self.shortest, "gap": gap}

    @property
    def label(self) -> str:
        """The sizes, in the letters of the paper."""
        about = self.options
        return f"d={about['dimension']}, S={self.budget}, T={about['horizon']:,}"
