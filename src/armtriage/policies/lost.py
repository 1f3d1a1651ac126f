"""Rewards that never come, such as those of a broken sensor: how often an arm is tried again.

A lost reward says nothing about its arm, so intervals and certificates ignore it. But a policy that waits for it would
play the arm for ever. From the eighth in a row on, and until one comes, lost rewards count for the choice of arms: as
the least reward in an index or a posterior, and as ever more tries in the schedule of elimination.
"""

from __future__ import annotations

from typing import Protocol

import numpy as np
from numpy.typing import NDArray

from armtriage.kernels.jit import kernel
from armtriage.policies.facts import within

PATIENCE = 8  # in a row: with half of all rewards lost at random, an arm seldom gets there


@kernel
def as_least(missed: int) -> int:
    """Return how many least rewards stand for those that were lost in a row: one for every four of them.

    Were it one for each, a posterior would as good as never try the arm again where others are good.
    """
    return missed // 4 if missed >= PATIENCE else 0


def all_as_least(missed: NDArray[np.int64]) -> NDArray[np.int64]:
    """Return the same for every arm, where a state is computed again in NumPy."""
    return np.where(missed >= PATIENCE, missed // 4, 0)


@kernel
def as_tries(missed: int) -> int:
    """Return for how many tries the last of the rewards counts that were lost in a row.

    They grow, so that in t rounds an arm that never answers is tried some 2 sqrt(t) times.
    """
    return 1 + (missed - PATIENCE) // 2 if missed >= PATIENCE else 0


class Losing(Protocol):
    """What keeps count, in NumPy, of the rewards that it awaits and misses."""

    pending: NDArray[np.int64]
    missed: NDArray[np.int64]
    credit: NDArray[np.int64]


def note_lost(core: Losing, arms: NDArray[np.int64]) -> None:
    """Count lost rewards as tries, the more of them in a row the more."""
    core.pending[arms] -= 1
    core.missed[arms] += 1
    late = core.missed[arms] - PATIENCE
    core.credit[arms] += np.where(late >= 0, 1 + late // 2, 0)


def check_lost(core: Losing) -> None:
    """Refuse numbers that were loaded and cannot be."""
    within("missed", core.missed, 0, 2**31)
    within("credit", core.credit, 0, 2**62)
