"""Triage: the arms sorted into confirmed, active and eliminated, and when each was decided."""

from __future__ import annotations

from typing import NamedTuple

import numpy as np
from numpy.typing import NDArray

__all__ = ["Triage", "TriageLog"]


class Triage(NamedTuple):
    """The arms, sorted into three sets; each is ascending.

    Examples
    --------
    >>> from armtriage import CombinatorialElimination, FeedbackGraph
    >>> CombinatorialElimination(FeedbackGraph.semi_bandit(3), budget=1).triage
    Triage(confirmed=array([], dtype=int64), active=array([0, 1, 2]), eliminated=array([], dtype=int64))
    """

    confirmed: NDArray[np.int64]
    active: NDArray[np.int64]
    eliminated: NDArray[np.int64]


class TriageLog(NamedTuple):
    """When arms were decided in one replication, in the order it happened; the others stayed active.

    Examples
    --------
    >>> log = TriageLog(np.array([2, 0]), np.array([10, 40]), np.array([False, True]))
    >>> log.counts(20, n_arms=3)
    (0, 2, 1)
    """

    arms: NDArray[np.int64]
    rounds: NDArray[np.int64]  # rounds played when the arm was decided
    confirmed: NDArray[np.bool_]  # confirmed, else eliminated

    def counts(self, rounds: int, n_arms: int) -> tuple[int, int, int]:
        """Return how many arms were confirmed, active and eliminated after that many rounds."""
        done = self.rounds <= rounds
        confirmed = int(np.count_nonzero(self.confirmed[done]))
        eliminated = int(np.count_nonzero(done)) - confirmed
        return confirmed, n_arms - confirmed - eliminated, eliminated
