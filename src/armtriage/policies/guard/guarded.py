"""What policies inside a guard share: their parameters, views, account and certificate."""

from __future__ import annotations

import math
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
from armtriage.decisions import ArmSet, Decision, DecisionSet, TopS
from armtriage.graphs.feedback import FeedbackGraph
from armtriage.policies.elimination.sets import ACTIVE, CONFIRMED, ELIMINATED
from armtriage.policies.evidence import Evidence
from armtriage.policies.facts import require, within
from armtriage.policies.guard.account import (
    Book,
    Ghosts,
    GuardParams,
    add_pattern,
    check_book,
    most_lost,
    new_book,
    sort_all,
)
from armtriage.policies.guard.coupled_draws import Draws
from armtriage.policies.guard.decision_account import DecisionBook, DecisionParams, params_of
from armtriage.policies.guard.decision_account import check_book as check_decision_book
from armtriage.policies.guard.over_decisions import triage_of as triage_over
from armtriage.policies.guard.pages import Pages
from armtriage.policies.lock import locked
from armtriage.policies.old_log import OldLog
from armtriage.policies.options import Options
from armtriage.policies.saved import part_of
from armtriage.policies.slate import SlatePolicy
from armtriage.policies.views import cover_of
from armtriage.triage import Triage, TriageLog

MODES = ("time", "shadow", "certify")
_PRICE = 100.0  # percent: 20 was measured to bring nothing, see docs/guard.md
_NONE = np.empty(0, np.int64)
_SETS = 64  # eligible sets with a page of their own over a decision set
_CELLS = 4_000_000  # and at most so many numbers on them, 64 megabytes
_COVERED = 20_000_000  # listed edges up to which a cover is counted, each time that arms come or go


class GuardedPolicy(SlatePolicy):
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
        price: float | None = None,
        **options: Unpack[Options],
    ) -> None:
        if "positions" in options:
            raise NotImplementedError("positions cannot be used: the guard's bound is proved for slots that are alike")
        super().__init__(graph, budget, decisions=decisions, **options)
        self.delta = check_probability("delta", delta)
        self.mode = check_choice("mode", mode, MODES)
        self.price = self._check_price(price)
        self.factor = check_number("factor", factor)
        self.patterns = check_count("patterns", patterns)
        self.keeps_intervals = self._over is None
        self._patterns = PatternBook(self.patterns) if self.patterns and self._over is None else None
        self._books_sets = self._over is not None or self._patterns is not None
        self._covered = _NONE
        self._pages: Pages | None = None
        self._priced: tuple[NDArray[np.int64], float | None] = _NONE, None

    def _check_price(self, price: float | None) -> float | None:
        """Return what looks for the certificate may lose, in percent; None if the mode has none."""
        if self.mode != "certify":
            if price is not None:
                raise ValueError(f'price must be None unless mode is "certify", got {price!r}')
            return None
        if self._over is not None:
            raise ValueError(f'mode must be "time" or "shadow" over {self._over!r}, got "certify": looks are at slates')
        return _PRICE if price is None else check_number("price", price)

    @cached_property
    def _over(self) -> DecisionSet | None:
        """The decision set that the guard asks; `TopS` has all slates, and elimination guards those."""
        return None if isinstance(self.decisions, TopS) else self.decisions

    @cached_property
    def in_loop(self) -> bool:
        """Whether the kernels choose decisions, and not an oracle."""
        return self._over is None

    @abstractmethod
    def _book(self, own: Any = None) -> Book:
        """Return the guard's book where slates are chosen, by default the policy's own."""

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
        self,
        among: NDArray[np.int64] | None,
        choose: Callable[[DecisionParams, NDArray[np.int64]], NDArray[np.int64]],
    ) -> NDArray[np.int64]:
        """Return what `choose`, called with parameters and the arms that are not eligible, decides on their page."""
        book, draws = self._decision_book(), self._decision_draws()
        forced, cost = int(book.forced), 0.0
        if among is None or among.size == self.n_arms:
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

    def _guard_params(self) -> GuardParams:
        share = float(self._roster.divisors().max())
        base = math.log(share / (self._live * self.delta)) + math.log(2.0)
        price = 0.0 if self.price is None else 0.01 * self.price
        return GuardParams(self.graph.arrays, self._plain, self.mode == "shadow", self.budget, self.factor, base, price)

    def _new_book(self, evidence: Evidence) -> Book:
        kept = self._ghosts
        ghosts = Ghosts(**{name: kept[name].copy() for name in Ghosts._fields})
        book = new_book(evidence, self.budget, self._live * self.delta, self._roster.n_first, ghosts)
        if self.old_log is not None and evidence.n_arms > self.budget:
            sort_all(self._guard_params(), evidence, book)
        return self._with_cover(book)

    def _restart_account(self) -> None:
        book, evidence, params = self._book(), self._evidence, self._guard_params()
        book.gap, book.allowed, book.floor, book.layer, book.layer_size, book.layer_pulls = 1.0, 0.0, 0.0, -1, 0, 0
        if self.n_arms > self.budget:
            sort_all(params, evidence, book)
        book.total, book.spent = most_lost(evidence, book, True), most_lost(evidence, book, False)

    def _check_old_log(self, old_log: OldLog | None) -> OldLog | None:
        if old_log is not None and self.patterns:
            raise NotImplementedError(f"old_log cannot be used with patterns, got {self.patterns}")
        return super()._check_old_log(old_log)

    def _with_cover(self, book: Book) -> Book:
        """Count how many pulls show each arm that is not retired, and return the book."""
        self._covered = live = self._roster.live
        book.cover = book.cover_among = live.size
        if not self._plain and self.graph.arrays.indices.size <= _COVERED:
            book.cover = cover_of(self.graph, live)
            # Where sleepers are not seen, only a pull of its own is sure to show an arm.
            book.cover_among = book.cover if self.sleepers_seen else live.size
        return book

    def _renewed_book(self, old: Book) -> Book:
        """Return the account with more arms, or some that have begun again, sorted by the intervals as they are."""
        evidence = self._evidence
        book, n = self._new_book(evidence), old.admitted.size
        for name in Book._numbers:
            if Book.is_fact(name):
                setattr(book, name, getattr(old, name))
        begun = np.append(evidence.exposures[:n] == -evidence.rounds, np.ones(book.admitted.size - n, np.bool_))
        book.admitted[:n], book.offered[:n] = old.admitted, old.offered
        book.admitted[begun], book.offered[begun] = 0, -old.offered_rounds
        book.patterns[:], book.n_patterns, book.is_new = old.patterns, old.n_patterns, 1
        book.n_logged = 0
        if self.n_arms > self.budget:
            sort_all(self._guard_params(), evidence, book)
        return book

    def _ghost_facts(self) -> dict[str, NDArray[Any]]:
        known = super()._ghost_facts()
        if self._over is not None:
            return known
        n = self.n_arms
        book = self._book() if "_own" in vars(self) else None
        admitted = np.zeros(n, np.int64) if book is None else book.admitted
        offered = np.zeros(n, np.int64) if book is None else book.offered + book.offered_rounds
        ends = {"lower": self._evidence.lower[:n], "upper": self._evidence.upper[:n]}
        return {**known, "admitted": admitted, "offered": offered, **ends}

    def _restore_ghosts(self, arrays: Mapping[str, NDArray[Any]]) -> None:
        super()._restore_ghosts(arrays)
        if self._over is None:
            ghosts = self._ghosts
            within("lower ends of ghosts", ghosts["lower"], 0.0, 1.0)
            within("upper ends of ghosts", ghosts["upper"], ghosts["lower"], 1.0)
            within("admitted pulls of ghosts", ghosts["admitted"], 0, self._asked)
            within("offered rounds of ghosts", ghosts["offered"], ghosts["admitted"], self._asked)

    def _ask_all(self, given: NDArray[np.int64] | None = None) -> Decision:
        self._measure()
        return super()._ask_all(given)

    def _ask_some(self, mask: NDArray[np.bool_], live: bool) -> Decision:
        self._measure()
        return super()._ask_some(mask, live)

    def _ask_among(self, among: NDArray[np.int64], given: NDArray[np.int64] | None = None) -> Decision:
        self._measure()
        return super()._ask_among(among, given)

    def _measure(self) -> None:
        """Count the cover again if arms have come or gone."""
        if self._over is None and self._covered is not self._roster.live:
            self._with_cover(self._book())

    def _book_set(self, decision: Decision, among: ArmSet | None) -> None:
        if self._over is not None:
            if among is not None:
                self._book_among(among.arms, decision.arms)
        elif self._patterns is not None:
            eligible, bounds = np.arange(self.n_arms) if among is None else among.arms, self._bounds()
            self._patterns.add(eligible, decision.arms, cert_among(*bounds, decision.arms, eligible), bounds)

    def _forget(self, arms: list[int]) -> None:
        for arm in arms if self._patterns is not None else ():
            self._patterns.close(arm, self._bounds())  # type: ignore[union-attr]
        super()._forget(arms)

    def _adopt(
        self, number: int, own: NDArray[np.int64], arms: NDArray[np.int64], among: NDArray[np.int64] | None
    ) -> None:
        # The budget stays as it is for what the guard would have played; what was played is what is certified.
        if self._over is None:
            book, bounds = self._book(), self._bounds()
            eligible = np.arange(self.n_arms) if among is None else among
            book.total += cert_among(*bounds, arms, eligible) - cert_among(*bounds, own, eligible)
            book.total = max(float(book.total), 0.0)

    def _known(self) -> dict[str, NDArray[Any]]:
        known = super()._known() | {f"state.{name}": array for name, array in self._set_arrays().items()}
        if self._over is None:
            book = self._book()
            known["state.patterns"] = np.sort(book.patterns[book.patterns != 0])
            if self._patterns is not None:
                known |= {f"state.by_pattern.{name}": one for name, one in self._patterns.to_arrays().items()}
        return known

    def _restore(self, arrays: Mapping[str, NDArray[Any]]) -> None:
        by_set = {name: array for name, array in arrays.items() if name.startswith(("pages.", "by_set."))}
        by_pattern, seen = part_of(arrays, "by_pattern."), arrays.get("patterns")
        own = {name: array for name, array in arrays.items() if name not in by_set and name != "patterns"}
        super()._restore({name: array for name, array in own.items() if not name.startswith("by_pattern.")})
        self._restore_sets(by_set, self._check_own)
        require((seen is None) == (self._over is not None), "patterns must be there for slates, and only there")
        if seen is not None:
            book = self._book()
            right = seen.ndim == 1 and seen.dtype == np.uint64 and 2 * seen.size <= book.patterns.size
            require(right and np.unique(seen).size == seen.size and np.all(seen != 0), "patterns must be different")
            for name in seen:
                add_pattern(book, name)
        if self._over is None and self._patterns is not None:
            self._patterns = PatternBook.from_arrays(by_pattern, self.n_arms, self.patterns)
        else:
            require(not by_pattern, "there must be no book of patterns that is not asked for")

    def _check_own(self) -> None:
        if self._over is not None:
            book = self._decision_book()
            self._check_tallied(book.counts, book.sums)
            check_decision_book(self._decision_params, book, self._over, self._asked)
        else:
            check_book(self._book(), self.n_arms, self.budget, self._asked)

    @property
    @locked
    def triage(self) -> Triage:
        """The confirmed, active and eliminated arms, as of the last time that intervals were computed.

        Over a decision set they are found when they are asked for, by two questions about every arm.
        """
        if self._over is not None:
            found = triage_over(self._decision_params, self._decision_book(), self._over)
            return Triage(*(self._roster.named(arms) for arms in found))
        if not self._always_all:
            return self.triage_of()
        status = self._book().status
        kinds = (CONFIRMED, ACTIVE, ELIMINATED)
        return Triage(*(self._roster.named(np.flatnonzero(status == kind)) for kind in kinds))

    @property
    def interval_failures(self) -> int:
        """How often an arm's new interval contradicted its old ones: a sign of drift, or of bad luck."""
        return int(self._decision_book().failures) if self._over is not None else super().interval_failures

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
        book: Any = self._book() if self._over is None else self._decision_book()
        width = self.reward_range[1] - self.reward_range[0]
        elsewhere = float(book.elsewhere) if self._over is not None else 0.0
        spent, allowed = width * (float(book.spent) + elsewhere), width * float(book.allowed)
        return Account(spent, allowed, int(book.forced), self.factor, self._revealing_pulls())

    def _revealing_pulls(self) -> int:
        return 0

    @locked
    def triage_log(self, own: Any = None) -> TriageLog | None:
        """Return when arms were confirmed or eliminated, in order; None over a decision set, where no one looks."""
        if self._over is not None:
            return None
        book = self._book(own)
        n = int(book.n_logged)
        arms = book.log_arms[:n].copy()
        return TriageLog(arms, book.log_rounds[:n].copy(), book.status[arms] == CONFIRMED)

    @locked
    def certificate(
        self,
        *,
        eligible: ArrayLike | Iterable[Any] | None = None,
        delta: float | None = None,
        next_decision: ArrayLike | None = None,
        since: int = 0,
        independent: bool = False,
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
            more: Any = {"next_decision": next_decision, "since": since, "independent": independent}
            return super().certificate(eligible=eligible, delta=delta, **more)
        if self._over is not None:
            return self._decision_certificate(self._over, eligible, next_decision, independent)
        # Looking may be the first to find a contradiction. It is kept, so that it does not vanish again.
        evidence, n, tally = self._evidence, self.n_arms, self.tally
        lower, upper = evidence.lower[:n], evidence.upper[:n]
        bounds, empty = narrowed(Bounds(lower, upper), tally, self._live * self.delta, evidence.divisors[:n])
        if empty.any():
            lower[empty], upper[empty] = bounds.lower[empty], bounds.upper[empty]
            evidence.failures += int(empty.sum())
        low, high = self.reward_range
        known: dict[str, Any] = {"contradictions": self.interval_failures, "account": self.account}
        known["independent"] = independent
        if eligible is not None or not self._always_all:
            # The account has its own event, that the intervals of all arms hold, as eligible sets need it.
            known |= {"bounds": bounds, "sum_of_certificates": (high - low) * float(self._book().total)}
            known["by_pattern"] = self._by_pattern(bounds)
        return self._certified(eligible=eligible, delta=self.delta, next_decision=next_decision, **known)

    @locked
    def glance(self) -> Certificate:  # noqa: D102 - as in every policy
        kept: Any = self._evidence if self._over is None else self._decision_book()
        lower, upper, failures = kept.lower.copy(), kept.upper.copy(), int(kept.failures)
        try:
            return self.certificate()
        finally:
            kept.lower[:], kept.upper[:], kept.failures = lower, upper, failures

    def _by_pattern(self, bounds: Bounds) -> float | None:
        """Return what all decisions have lost at most, by eligible set, if that is kept and sets have differed."""
        if self._patterns is None or self._always_all:
            return None
        return (self.reward_range[1] - self.reward_range[0]) * self._patterns.bound(bounds)

    def _decision_certificate(
        self, decisions: DecisionSet, eligible: Any, next_decision: Any, independent: bool
    ) -> Certificate:
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
        known: dict[str, Any] = {"contradictions": self.interval_failures, "account": self.account}
        known["independent"] = independent
        sets = self._by_set(decisions, tally.pulls, Bounds(bounds.lower + offset, bounds.upper + offset))
        if eligible is not None or sets is not None or self._roster.retired:
            known |= {"bounds": bounds, "by_pattern": sets}
        return self._certified(eligible=eligible, delta=self.delta, next_decision=next_decision, **known)

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
