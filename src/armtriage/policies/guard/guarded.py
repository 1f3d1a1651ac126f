"""What policies inside a guard share: their parameters, sets, account and certificate."""

from __future__ import annotations

from abc import abstractmethod
from functools import cached_property
from typing import Any, Unpack

import numpy as np
from numpy.typing import ArrayLike

from armtriage._arguments import check_choice, check_number, check_probability
from armtriage.certificate import Account, Bounds, Certificate, Tally, certificate_of, narrowed
from armtriage.graphs.feedback import FeedbackGraph
from armtriage.kernels.record import Record
from armtriage.policies.elimination import sets as triage
from armtriage.policies.elimination.elimination import CombinatorialElimination, rebuild
from armtriage.policies.elimination.sets import ACTIVE, CONFIRMED, ELIMINATED
from armtriage.policies.guard.account import Book, GuardParams, new_book, rebuild_book
from armtriage.policies.lock import locked
from armtriage.policies.options import Options
from armtriage.policies.policy import Policy
from armtriage.triage import Triage, TriageLog

__all__ = ["GuardState", "GuardedPolicy"]

MODES = ("time", "shadow")
_COVER_PAUSE = 64  # a cover takes a look at the whole graph, so one is counted every (K + edges) / (64 S) rounds


class GuardState(Record):
    """What the guard knows of the arms, and its book."""

    sets: triage.State
    book: Book


class GuardedPolicy(Policy):
    """A policy whose decisions a guard admits."""

    def __init__(
        self,
        graph: FeedbackGraph | int,
        budget: int,
        *,
        delta: float,
        mode: str,
        factor: float,
        **options: Unpack[Options],
    ) -> None:
        super().__init__(graph, budget, **options)
        self.delta = check_probability("delta", delta)
        self.mode = check_choice("mode", mode, MODES)
        self.factor = check_number("factor", factor)

    @abstractmethod
    def _guard(self, state: Any = None) -> GuardState:
        """Return the guard's part of a state, by default the policy's own."""

    @cached_property
    def _elimination(self) -> CombinatorialElimination:
        return CombinatorialElimination(self.graph, self.budget, delta=self.delta, seed=self.seed)

    def _guard_params(self) -> GuardParams:
        pause = (self.n_arms + self.graph.arrays.indices.size) // (_COVER_PAUSE * self.budget)
        return GuardParams(self.factor, self.mode == "shadow", self.graph.n_edges == self.n_arms, pause)

    def _new_guard(self) -> GuardState:
        return GuardState(self._elimination.new_state(), new_book(self.n_arms, self.budget))

    def _rebuild_guard(self) -> None:
        """Check the facts of a guard that was loaded, and compute what follows."""
        (sets, book), n = self._guard(), self.n_arms
        self._check_tallied(sets.counts[:n], sets.sums[:n])
        rebuild(self._elimination.params(), sets, self.graph, self._awaited(), self._asked, counted=False)
        rebuild_book(book, self._asked)

    @property
    @locked
    def triage(self) -> Triage:
        """The confirmed, active and eliminated arms, as of the last time that intervals were computed."""
        status = self._guard().sets.status
        return Triage(*(np.flatnonzero(status == kind) for kind in (CONFIRMED, ACTIVE, ELIMINATED)))

    @property
    def interval_failures(self) -> int:
        """How often an arm's new interval contradicted its old ones: a sign of drift, or of bad luck."""
        return int(self._guard().sets.failures)

    @property
    @locked
    def account(self) -> Account:
        """What admitted proposals can have lost, what they may, and how often elimination had to step in."""
        book, width = self._guard().book, self.reward_range[1] - self.reward_range[0]
        spent, allowed = width * float(book.spent), width * float(book.allowed)
        return Account(spent, allowed, int(book.forced), self.factor, self._revealing_pulls())

    def _revealing_pulls(self) -> int:
        return 0

    @locked
    def triage_log(self, state: Any = None) -> TriageLog:
        """Return when arms were confirmed or eliminated, in order."""
        sets = self._guard(state).sets
        n = int(sets.n_logged)
        arms = sets.log_arms[:n].copy()
        return TriageLog(arms, sets.log_rounds[:n].copy(), sets.status[arms] == CONFIRMED)

    @locked
    def certificate(
        self, *, delta: float | None = None, next_decision: ArrayLike | None = None, since: int = 0
    ) -> Certificate:
        """Return what the decisions so far, and one to come, can have lost, with the policy's own `delta` by default.

        Examples
        --------
        >>> from armtriage import GuardedThompson
        >>> policy = GuardedThompson(FeedbackGraph.semi_bandit(3), budget=1, seed=7)
        >>> policy.certificate().confidence
        0.99
        """
        if since or (delta is not None and delta != self.delta):
            delta = self.delta if delta is None else delta
            return super().certificate(delta=delta, next_decision=next_decision, since=since)
        sets, book = self._guard()
        n, (low, high) = self.n_arms, self.reward_range
        # For one arm, the arrays of counts and sums have a second row that means nothing.
        tally = Tally(self.tally.pulls, sets.counts[:n], sets.sums[:n])
        bounds, empty = narrowed(Bounds(sets.lower, sets.upper), tally.counts, tally.sums, self.delta)
        if empty.any():
            # Kept, so that it does not vanish again; where nothing is contradicted, looking changes nothing.
            sets.lower[empty], sets.upper[empty] = bounds.lower[empty], bounds.upper[empty]
            sets.failures += int(empty.sum())
        return certificate_of(
            tally,
            self._asked,
            self.budget,
            delta=self.delta,
            reward_range=self.reward_range,
            next_decision=next_decision,
            bounds=bounds,
            sum_of_certificates=(high - low) * float(book.total),
            contradictions=self.interval_failures,
            account=self.account,
            silent=self._silent,
        )
