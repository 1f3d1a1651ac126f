"""Triage: the arms sorted into confirmed, active and eliminated, and when each was decided."""

from __future__ import annotations

from typing import Any, NamedTuple

import numpy as np
from numpy.typing import NDArray

from armtriage.kernels.record import Floats, Ints


class Triage(NamedTuple):
    """The arms, or their names, sorted into three sets; in each they stand in the order of their numbers.

    Examples
    --------
    >>> from armtriage import CombinatorialElimination, FeedbackGraph
    >>> CombinatorialElimination(FeedbackGraph.semi_bandit(3), budget=1).triage
    Triage(confirmed=array([], dtype=int64), active=array([0, 1, 2]), eliminated=array([], dtype=int64))
    """

    confirmed: NDArray[Any]
    active: NDArray[Any]
    eliminated: NDArray[Any]


def triage_among(lower: Floats, upper: Floats, arms: Ints, budget: int) -> Triage:
    """Return which of `arms`, ascending, certainly belong to the best `budget` of them, are open, and certainly do not.

    The bounds are those of all arms, by number. One look suffices: what it decides makes room for no other.

    Examples
    --------
    >>> lower, upper = np.array([0.6, 0.4, 0.1, 0.8]), np.array([0.7, 0.5, 0.3, 0.9])
    >>> triage_among(lower, upper, np.array([0, 1, 2]), budget=1)
    Triage(confirmed=array([0]), active=array([], dtype=int64), eliminated=array([1, 2]))
    """
    out = arms.size - budget
    if out <= 0:
        none = np.empty(0, np.int64)
        return Triage(arms.copy(), none, none.copy())
    low, high = lower[arms], upper[arms]
    confirmed = low > np.partition(high, out - 1)[out - 1]
    eliminated = high < np.partition(low, out)[out]
    return Triage(arms[confirmed], arms[~(confirmed | eliminated)], arms[eliminated])


class TriageLog(NamedTuple):
    """When arms were decided in one replication, in the order it happened; the others stayed active.

    Examples
    --------
    >>> log = TriageLog(np.array([2, 0]), np.array([10, 40]), np.array([False, True]))
    >>> log.counts(20, n_arms=3)
    (0, 2, 1)
    """

    arms: Ints
    rounds: Ints  # rounds played when the arm was decided
    confirmed: NDArray[np.bool_]  # confirmed, else eliminated

    def counts(self, rounds: int, n_arms: int) -> tuple[int, int, int]:
        """Return how many arms were confirmed, active and eliminated after that many rounds."""
        done = self.rounds <= rounds
        confirmed = int(np.count_nonzero(self.confirmed[done]))
        eliminated = int(np.count_nonzero(done)) - confirmed
        return confirmed, n_arms - confirmed - eliminated, eliminated
