"""What policies inside a guard share: their parameters, sets, account and certificate."""

from __future__ import annotations

from abc import abstractmethod
from collections.abc import Callable, Iterable, Mapping
from functools import cached_property
from typing import Any, Unpack

import numpy as np
from numpy.typing import ArrayLike, NDArray

from armtriage._arguments import check_choice, check_count, check_number, check_probability
from armtriage.certificate import (
    Account,
    Bounds,
    Certificate,
    PatternBook,
    Tally,
    cert_among,
    challenge,
    log_bound_over,
    narrowed,
)
from armtriage.decisions import Decision, DecisionSet, TopS
from armtriage.graphs.feedback import FeedbackGraph
from armtriage.intervals import MIXTURE
from armtriage.kernels.record import Record
from armtriage.policies.eligible import Crowd, Rules
from armtriage.policies.eligible.rows import Rows
from armtriage.policies.elimination import sets as triage
from armtriage.policies.elimination.elimination import CombinatorialElimination, fill_rows, rebuild
from armtriage.policies.elimination.sets import ACTIVE, CONFIRMED, ELIMINATED
from armtriage.policies.facts import require, within
from armtriage.policies.guard.account import Book, GuardParams, new_book, rebuild_book
from armtriage.policies.guard.coupled_draws import Draws
from armtriage.policies.guard.decision_account import DecisionBook, DecisionParams, check_book, params_of
from armtriage.policies.guard.over_decisions import triage_of as triage_over
from armtriage.policies.guard.pages import Pages
from armtriage.policies.lock import locked
from armtriage.policies.options import Options
from armtriage.policies.policy import Policy
from armtriage.triage import Triage, TriageLog

__all__ = ["GuardState", "GuardedPolicy"]

MODES = ("time", "shadow")
_NONE = np.empty(0, np.int64)
_SETS = 64  # eligible sets with a page of their own over a decision set
_CELLS = 4_000_000  # and at most so many numbers on them, 64 megabytes
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
        budget: int | None,
        *,
        decisions: DecisionSet | None,
        delta: float,
        mode: str,
        factor: float,
        patterns: int = 0,
        **options: Unpack[Options],
    ) -> None:
        super().__init__(graph, budget, decisions=decisions, **options)
        self.delta = check_probability("delta", delta)
        self.mode = check_choice("mode", mode, MODES)
        self.factor = check_number("factor", factor)
        self.patterns = check_count("patterns", patterns)
        self._patterns = PatternBook(self.patterns) if self.patterns and self._over is None else None
        self._pages: Pages | None = None
        self._priced: tuple[NDArray[np.int64], float | None] = _NONE, None

    @property
    def _over(self) -> DecisionSet | None:
        """The decision set that the guard asks; `TopS` has all slates, and elimination guards those."""
        return None if isinstance(self.decisions, TopS) else self.decisions

    @abstractmethod
    def _guard(self, state: Any = None) -> GuardState:
        """Return the guard's part of a state, by default the policy's own, where slates are chosen."""

    @abstractmethod
    def _decision_book(self) -> DecisionBook:
        """Return the guard's book where a decision set is asked."""

    @cached_property
    def _decision_params(self) -> DecisionParams:
        assert self._over is not None
        return params_of(
            self.graph,
            self._over,
            offset=self._offset,
            delta=self.delta,
            factor=self.factor,
            shadow=self.mode == "shadow",
            **self._looks,
        )

    @property
    def _looks(self) -> dict[str, Any]:
        """The parameters of whoever proposes over a decision set."""
        return {}

    @cached_property
    def _decision_params_among(self) -> DecisionParams:
        """The same among eligible arms: where sleepers are not seen, only a pull of its own is sure to show an arm."""
        params = self._decision_params
        return params if self.sleepers_seen else params._replace(cover=float(params.n_arms))

    def _decision_draws(self) -> Draws | None:
        """Return the draws that propose over a decision set, if they are the policy's own."""
        return None

    def _choose_among(
        self, among: NDArray[np.int64], choose: Callable[[DecisionParams, NDArray[np.int64]], NDArray[np.int64]]
    ) -> NDArray[np.int64]:
        """Return what `choose`, called with parameters and the arms that are not eligible, decides on their page."""
        book, draws = self._decision_book(), self._decision_draws()
        forced, cost = int(book.forced), 0.0
        if among.size == self.n_arms:
            arms = choose(self._decision_params, _NONE)
        else:
            if self._pages is None:
                self._pages = Pages(self._decision_params, self._most_sets, with_draws=draws is not None)
            exclude = np.setdiff1d(np.arange(self.n_arms), among, assume_unique=True)
            with self._pages.at(among, self.graph.arrays, book, draws):
                arms = choose(self._decision_params_among, exclude)
                cost = 0.0 if book.n_committed >= 0 else float(book.cost)
        self._priced = arms, cost if int(book.forced) == forced else None
        return arms

    @property
    def _most_sets(self) -> int:
        return max(self.patterns, 1, min(_SETS, _CELLS // self.n_arms))

    def _book_among(self, among: NDArray[np.int64], arms: NDArray[np.int64]) -> None:
        """Book a decision among eligible arms for the certificate, with what it can lose."""
        if among.size == self.n_arms:
            return
        assert self._over is not None
        if self._patterns is None:
            self._patterns = PatternBook(self._most_sets, self._over)
        bounds, (own, cost) = self._decision_bounds(), self._priced
        if cost is None or not np.array_equal(own, arms):
            exclude = np.setdiff1d(np.arange(self.n_arms), among, assume_unique=True)
            cost = challenge(self._over, arms, bounds, exclude).amount
        self._patterns.add(among, arms, cost, bounds)

    def _decision_bounds(self) -> Bounds:
        book = self._decision_book()
        return Bounds(book.lower, book.upper)

    @cached_property
    def _elimination(self) -> CombinatorialElimination:
        return CombinatorialElimination(self.graph, self.budget, delta=self.delta, seed=self.seed)

    def _guard_params(self) -> GuardParams:
        pause = (self.n_arms + self.graph.arrays.indices.size) // (_COVER_PAUSE * self.budget)
        return GuardParams(self.factor, self.mode == "shadow", self.graph.n_edges == self.n_arms, pause)

    def _new_guard(self) -> GuardState:
        return GuardState(self._elimination.new_state(), new_book(self.n_arms, self.budget))

    def _guard_rules(self, params: Record, free_look: bool) -> Rules:
        """Return what kernels must know, once requests differ."""
        shadow = self.mode == "shadow"
        return Rules(params, self.budget, MIXTURE, 0.0, self.delta, self.factor, shadow, free_look)

    def _fill_guard(self, rows: Rows) -> None:
        """Write what the guard knows into the rows of the arms: all of them were eligible so far."""
        sets, book = self._guard()
        n = book.admitted.size
        fill_rows(sets, rows)
        rows.admitted[:n], rows.offered[:n] = book.admitted, book.n_admitted
        rows.n_admitted, rows.offered_slots = book.n_admitted, book.n_admitted * self.budget
        rows.forced, rows.gap = book.forced, book.gap
        rows.spent, rows.allowed, rows.floor, rows.total = book.spent, book.allowed, book.allowed, book.total

    def _ask_among(self, among: NDArray[np.int64], given: NDArray[np.int64] | None = None) -> Decision:
        decision = super()._ask_among(among, given)
        if self._over is not None:
            self._book_among(among, decision.arms)
        elif self._patterns is not None:
            bounds = self._bounds()
            cost = cert_among(*bounds, decision.arms, among)
            self._patterns.add(among, decision.arms, cost, bounds)
        return decision

    def _forget(self, arms: list[int]) -> None:
        for arm in arms if self._patterns is not None else ():
            self._patterns.close(arm, self._bounds())  # type: ignore[union-attr]
        super()._forget(arms)

    def _arrays_among(self) -> dict[str, NDArray[Any]]:
        kept = {} if self._patterns is None else self._patterns.to_arrays()
        return {f"patterns.{name}": array for name, array in kept.items()}

    def _restore_among(self, arrays: Mapping[str, NDArray[Any]]) -> None:
        if self._patterns is None:
            require(not arrays, "there must be no state beside the rows")
        else:
            given = {name.removeprefix("patterns."): array for name, array in arrays.items()}
            self._patterns = PatternBook.from_arrays(given, self.n_arms, self.patterns)

    def _gather(self) -> Crowd:
        crowd, fixed = self._crowd, self._crowd is None
        if crowd is not None and crowd.covered is self._roster.live:
            return crowd
        crowd = super()._gather()
        if fixed and self._patterns is not None:
            # What was lost while everybody was always eligible is known as a number.
            self._patterns.frozen += float(crowd.rows.total)
        # Where sleepers are not seen, only a pull of its own is sure to show an arm.
        crowd.cover(self._roster.live, seen=self.sleepers_seen and not self._plain)
        return crowd

    @property
    def _settles_at_once(self) -> bool:
        # The sampler learns at once, but the guard waits until a decision is closed.
        return False

    def _adopt(
        self, number: int, own: NDArray[np.int64], arms: NDArray[np.int64], among: NDArray[np.int64] | None
    ) -> None:
        # The budget stays as it is for what the guard would have played; what was played is what is certified.
        if self._over is not None:
            return
        if among is None:
            sets, book = self._guard()
            bounds, everybody = (sets.lower, sets.upper), np.arange(self.n_arms)
            book.pulls[own] -= 1
            book.pulls[arms] += 1
        else:
            book, everybody = self._gather().rows, among
            bounds = book.lower, book.upper
        book.total += cert_among(*bounds, arms, everybody) - cert_among(*bounds, own, everybody)
        book.total = max(float(book.total), 0.0)

    def _rebuild_guard(self) -> None:
        """Check the facts of a guard that was loaded, and compute what follows."""
        if self._over is not None:
            book_of = self._decision_book()
            self._check_tallied(book_of.counts, book_of.sums)
            check_book(self._decision_params, book_of, self._over, self._asked)
            return
        (sets, book), n = self._guard(), self.n_arms
        self._check_tallied(sets.counts[:n], sets.sums[:n])
        rebuild(self._elimination.params(), sets, self.graph, self._awaited(), self._asked, counted=False)
        rebuild_book(book, self._asked)

    @property
    @locked
    def triage(self) -> Triage:
        """The confirmed, active and eliminated arms, as of the last time that intervals were computed.

        Over a decision set they are found when they are asked for, by two questions about every arm.
        """
        if self._over is not None:
            found = triage_over(self._decision_params, self._decision_book(), self._over)
            return Triage(*(self._roster.named(arms) for arms in found))
        if self._crowd is not None or self._roster.changed:
            return self.triage_of()
        status = self._guard().sets.status
        kinds = (CONFIRMED, ACTIVE, ELIMINATED)
        return Triage(*(self._roster.named(np.flatnonzero(status == kind)) for kind in kinds))

    def _bounds(self, delta: float = 0.05) -> Bounds:
        if self._crowd is not None:
            return super()._bounds(delta)
        return Bounds(self._guard().sets.lower, self._guard().sets.upper)

    @property
    def interval_failures(self) -> int:
        """How often an arm's new interval contradicted its old ones: a sign of drift, or of bad luck."""
        if self._over is not None:
            return int(self._decision_book().failures)
        return int(self._guard().sets.failures) if self._crowd is None else super().interval_failures

    @property
    def oracle_calls(self) -> int:
        """How many questions the guard, and draws that it guards, have asked about a decision set."""
        return int(self._decision_book().questions) + self._proposer_calls() if self._over is not None else 0

    def _proposer_calls(self) -> int:
        return 0

    @property
    @locked
    def account(self) -> Account:
        """What admitted proposals can have lost, what they may, and how often elimination had to step in."""
        book: Any
        if self._over is not None:
            book = self._decision_book()
        else:
            book = self._guard().book if self._crowd is None else self._crowd.rows
        width = self.reward_range[1] - self.reward_range[0]
        elsewhere = float(book.elsewhere) if self._over is not None else 0.0
        spent, allowed = width * (float(book.spent) + elsewhere), width * float(book.allowed)
        return Account(spent, allowed, int(book.forced), self.factor, self._revealing_pulls())

    def _revealing_pulls(self) -> int:
        return 0

    @locked
    def triage_log(self, state: Any = None) -> TriageLog | None:
        """Return when arms were confirmed or eliminated, in order; None over a decision set, where nobody looks."""
        if self._over is not None:
            return None
        sets = self._guard(state).sets
        n = int(sets.n_logged)
        arms = sets.log_arms[:n].copy()
        return TriageLog(arms, sets.log_rounds[:n].copy(), sets.status[arms] == CONFIRMED)

    @locked
    def certificate(
        self,
        *,
        eligible: ArrayLike | Iterable[Any] | None = None,
        delta: float | None = None,
        next_decision: ArrayLike | None = None,
        since: int = 0,
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
            return super().certificate(eligible=eligible, delta=delta, next_decision=next_decision, since=since)
        if self._over is not None:
            return self._decision_certificate(self._over, eligible, next_decision)
        # Looking may be the first to find a contradiction. It is kept, so that it does not vanish again.
        if self._crowd is None:
            kept, book = self._guard()
            divisors = None
        else:
            kept = book = self._gather().rows
            divisors = kept.divisors[: self.n_arms]
        lower, upper, tally = kept.lower[: self.n_arms], kept.upper[: self.n_arms], self.tally
        bounds, empty = narrowed(Bounds(lower, upper), tally, self.delta, divisors)
        if empty.any():
            lower[empty], upper[empty] = bounds.lower[empty], bounds.upper[empty]
            kept.failures += int(empty.sum())
        low, high = self.reward_range
        return self._certified(
            eligible=eligible,
            delta=self.delta,
            next_decision=next_decision,
            bounds=bounds,
            sum_of_certificates=(high - low) * float(book.total),
            by_pattern=self._by_pattern(bounds),
            contradictions=self.interval_failures,
            account=self.account,
        )

    @locked
    def glance(self) -> Certificate:  # noqa: D102 - as in every policy
        kept: Any
        if self._over is not None:
            kept = self._decision_book()
        else:
            kept = self._guard().sets if self._crowd is None else self._gather().rows
        lower, upper, failures = kept.lower.copy(), kept.upper.copy(), int(kept.failures)
        try:
            return self.certificate()
        finally:
            kept.lower[:], kept.upper[:], kept.failures = lower, upper, failures

    def _by_pattern(self, bounds: Bounds) -> float | None:
        """Return what all decisions have lost at most, by eligible set, if that is kept and sets have differed."""
        if self._patterns is None or self._crowd is None:
            return None
        return (self.reward_range[1] - self.reward_range[0]) * self._patterns.bound(bounds)

    def _decision_certificate(self, decisions: DecisionSet, eligible: Any, next_decision: Any) -> Certificate:
        """Return the certificate over a decision set, by the guard's own intervals."""
        book, offset = self._decision_book(), self._offset
        tally = Tally(self.tally.pulls, book.counts, book.sums, book.between)
        old = Bounds(book.lower - offset, book.upper - offset)
        bounds, empty = narrowed(old, tally, self.delta)
        if empty.any():
            book.lower[empty], book.upper[empty] = bounds.lower[empty] + offset, bounds.upper[empty] + offset
            book.failures += int(empty.sum())
        if next_decision is None and eligible is None and book.n_committed >= 0:
            committed = book.committed[: book.n_committed]
            if self._roster.retired.isdisjoint(committed.tolist()):
                next_decision = self._roster.named(committed)
        return self._certified(
            eligible=eligible,
            delta=self.delta,
            next_decision=next_decision,
            bounds=bounds,
            contradictions=self.interval_failures,
            account=self.account,
            by_pattern=self._by_set(decisions, tally.pulls, Bounds(bounds.lower + offset, bounds.upper + offset)),
        )

    def _by_set(self, decisions: DecisionSet, pulls: NDArray[np.int64], bounds: Bounds) -> float | None:
        """Return what all decisions have lost at most against the best eligible ones, once sets have differed."""
        sets = self._patterns
        if sets is None or not sets.rounds:
            return None
        whole = log_bound_over(decisions, pulls - sets.pulls, self._asked - sets.rounds, bounds)
        return (self.reward_range[1] - self.reward_range[0]) * (whole + sets.bound(bounds))

    def _set_arrays(self) -> dict[str, NDArray[Any]]:
        """Return what is kept of eligible sets over a decision set, as arrays for a file."""
        if self._over is None or self._pages is None or self._patterns is None:
            return {}
        parts = {"pages": self._pages.to_arrays(), "by_set": self._patterns.to_arrays()}
        return {f"{part}.{name}": array for part, arrays in parts.items() for name, array in arrays.items()}

    def _restore_sets(self, arrays: Mapping[str, NDArray[Any]], check: Callable[[], None]) -> None:
        """Take back what `_set_arrays` returned, if anything; `check` checks the page at which the book is open."""
        self._pages = None
        if self._over is None or not arrays:
            require(not arrays, "without a decision set there are no pages of eligible sets")
            return
        pages, sets = (
            {name.removeprefix(f"{part}."): array for name, array in arrays.items() if name.startswith(f"{part}.")}
            for part in ("pages", "by_set")
        )
        draws = self._decision_draws()
        self._pages = Pages(self._decision_params, self._most_sets, with_draws=draws is not None)
        self._pages.restore(pages, check, self.graph.arrays, self._decision_book(), draws)
        self._patterns = PatternBook.from_arrays(sets, self.n_arms, self._most_sets, self._over)
        require(self._patterns.pulls <= self.tally.pulls, "pulls among eligible arms must be among all pulls")
        within("rounds among eligible arms", self._patterns.rounds, 0, self._asked)
