"""Algorithm 5 of the paper, printed and repaired, for families whose decisions can be listed."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

import numpy as np
from numpy.typing import NDArray

from armtriage.decisions import DecisionSet
from armtriage.graphs.feedback import FeedbackGraph
from armtriage.intervals import half_width
from armtriage.kernels.jit import kernel
from armtriage.kernels.record import Floats, Ints
from armtriage.policies.constrained.by_oracle import CONFIRMED, ELIMINATED, UNDECIDED, Awaited, Limits, Status
from armtriage.policies.constrained.cover import Rows, exact_cover, greedy_cover
from armtriage.policies.facts import require, restore_arrays, with_later, within

_NEVER = np.iinfo(np.int64).max


@kernel
def _least_counts(rows: Rows, counts: Ints) -> Ints:
    """Return the least count in each set; the largest number for one without arms."""
    least = np.full(rows.starts.size - 1, _NEVER)
    for i in range(least.size):
        for arm in rows.arms[rows.starts[i] : rows.starts[i + 1]]:
            least[i] = min(least[i], counts[arm])
    return least


@kernel
def _totals(rows: Rows, values: Floats) -> Floats:
    totals = np.zeros(rows.starts.size - 1)
    for i in range(totals.size):
        for arm in rows.arms[rows.starts[i] : rows.starts[i + 1]]:
            totals[i] += values[arm]
    return totals


class ListedElimination(Awaited):
    """Whole decisions stay active or leave; covers of what they have seen least are played in full.

    Printed, the cover is taken from the whole family and shows all arms of the least observed active decisions.
    Repaired, it is taken from the active ones and shows only the arms that are themselves least observed.
    """

    def __init__(
        self, graph: FeedbackGraph, decisions: DecisionSet, limits: Limits, *, printed: bool, exact: bool
    ) -> None:
        listed = list(decisions)
        self.limits, self.size = limits, decisions.size
        self.printed, self.exact = printed, exact
        self.family = Rows.of(listed)
        self.shows = Rows.of([graph.revealed_by(arms) for arms in listed])
        super().__init__(graph.n_arms)
        self.counts, self.sums = np.zeros(graph.n_arms, np.int64), np.zeros(graph.n_arms)
        self.active = np.ones(len(listed), np.bool_)
        self.least = np.zeros(1, np.int64)
        self.queue = np.empty(0, np.int64)

    def arrays(self) -> dict[str, NDArray[Any]]:
        """Return all state."""
        names = ("counts", "pending", "missed", "credit", "sums", "active", "least", "queue")
        return {name: getattr(self, name) for name in names}

    def restore(self, arrays: Mapping[str, NDArray[Any]], awaited: Ints) -> None:
        """Take back what `arrays` returned, with rewards on their way; refuse what cannot be."""
        arrays = with_later(self.arrays(), arrays)
        self.queue = np.zeros(min(arrays["queue"].size, self.active.size), np.int64)
        restore_arrays(self.arrays(), arrays)
        require(self.active.any(), "a decision must be active")
        within("least", self.least, 0, int(_least_counts(self.family, self.counts + self.credit)[self.active].min()))
        within("queue", self.queue, 0, self.active.size - 1)
        self._check_awaited(awaited)

    @property
    def status_of_arms(self) -> Status:
        """Confirmed are the arms of all active decisions, eliminated those of none."""
        members = self.family.arms[np.repeat(self.active, np.diff(self.family.starts))]
        times = np.bincount(members, minlength=self.counts.size)
        status = np.full(self.counts.size, UNDECIDED, np.uint8)
        status[times == self.active.sum()] = CONFIRMED
        status[times == 0] = ELIMINATED
        return status

    def select(self) -> Ints:
        """Return the arms of the next decision of the cover, or of the first of a new one."""
        if not self.queue.size:
            self.queue = self._cover()
        chosen, self.queue = int(self.queue[0]), self.queue[1:].copy()
        return self.family.arms[self.family.starts[chosen] : self.family.starts[chosen + 1]].copy()

    def update(self, arms: Ints, rewards: Floats) -> None:
        """Record rewards, and let decisions go when all active ones have been observed more often."""
        self._arrive(arms)
        self.counts[arms] += 1
        self.sums[arms] += rewards
        self._settle()

    def release(self, arms: Ints) -> None:
        """Note that rewards of these arms will not come."""
        self._lose(arms)
        self._settle()

    def _means(self) -> Floats:
        """Return the empirical value of each decision."""
        return _totals(self.family, self.sums / np.maximum(self.counts, 1) + self.limits.offset)

    def _settle(self) -> None:
        """Raise N to the least count of an active decision, and keep those near the best; printed, between covers."""
        least = int(_least_counts(self.family, self.counts + self.credit)[self.active].min())
        if least <= self.least[0] or self.active.sum() == 1 or (self.printed and self.queue.size):
            return
        self.least[0] = least
        width = half_width(self.limits.kind, least, self.limits.n_arms, self.limits.horizon, self.limits.delta)
        means = self._means()
        # A decision of which rewards were lost has not been observed N times: nothing is known of it so well.
        known = self.active & (_least_counts(self.family, self.counts) >= least)
        if not known.any():
            return
        kept = self.active & (~known | (means >= means[known].max() - 2.0 * self.size * width))
        if kept.sum() < self.active.sum():
            # With late rewards this can happen within a cover, which may then hold what has left.
            self.active, self.queue = kept, np.empty(0, np.int64)

    def _cover(self) -> Ints:
        """Return the decisions to play, in order."""
        active = np.flatnonzero(self.active)
        if active.size == 1 and not self.printed:
            return active
        scheduled = self.counts + self.credit + self.pending
        seen = _least_counts(self.family, scheduled)
        behind = self.active & (seen == seen[active].min())
        need = np.unique(self.family.arms[np.repeat(behind, np.diff(self.family.starts))])
        if self.printed:
            chosen, worth = np.arange(self.active.size), np.zeros(self.active.size)
        else:
            need = need[scheduled[need] == seen[active].min()]
            chosen, worth = active, self._means()[active]
        if not need.size:
            return active[:1]
        return (exact_cover if self.exact else greedy_cover)(self.shows, chosen, need, worth)
