"""What the guard does in one way over slates, by elimination's account, and in another over a decision set."""

from __future__ import annotations

import math
from abc import ABC, abstractmethod
from collections.abc import Mapping
from typing import TYPE_CHECKING, Any, ClassVar, Generic, TypeVar

import numpy as np
from numpy.typing import NDArray

from armtriage.certificate import Bounds, Certificate, PatternBook, cert_among, narrowed
from armtriage.decisions import ArmSet, Decision
from armtriage.kernels.record import Floats, Ints
from armtriage.policies.beliefs import check_prior_of
from armtriage.policies.elimination.sets import ACTIVE, CONFIRMED, ELIMINATED
from armtriage.policies.evidence import Evidence
from armtriage.policies.facts import require
from armtriage.policies.guard.account import Book, Ghosts, GuardParams, add_pattern, check_book, new_book, sort_all
from armtriage.policies.guard.free_look import check_sampler
from armtriage.policies.guard.shared_looks import check_looks
from armtriage.policies.request import Kernels, Request
from armtriage.policies.saved import part_of
from armtriage.policies.views import cover_of
from armtriage.triage import Triage, TriageLog

if TYPE_CHECKING:
    from armtriage.policies.guard.guarded import GuardedPolicy

P = TypeVar("P", bound="GuardedPolicy")
Arrays = Mapping[str, NDArray[Any]]
Chosen = tuple[Ints, Floats | None]


class Problem(ABC, Generic[P]):
    """A kind of problem, together with what proposes in it: all that a guarded policy asks of the two.

    It has no state: what changes is the policy's, whose caches `own` have the guard's `book`.
    """

    kernels: ClassVar[Kernels]

    @abstractmethod
    def params(self, policy: P) -> Any:
        """Return the parameters of the kernels."""

    @abstractmethod
    def new_own(self, policy: P, evidence: Evidence) -> Any:
        """Return the account, and what proposals follow from, before the first round."""

    def renewed_own(self, policy: P, old: Any) -> Any:
        """Return them after arms were added, or have begun again."""
        raise NotImplementedError("a decision set has the arms that it was made with")

    @abstractmethod
    def chosen(self, policy: P, number: int, among: Ints | None) -> Chosen:
        """Return the arms of round `number`, ascending, and what is believed of them."""

    def decision_of_set(self, policy: P, params: Any, own: Any, request: Request, number: int) -> Ints:
        """Return the decision of round `number` of a set, as `simulate` asks for it."""
        raise NotImplementedError("slates are chosen by kernels")

    @abstractmethod
    def check_own(self, policy: P) -> None:
        """Refuse facts that were loaded and cannot be."""

    @abstractmethod
    def to_arrays(self, policy: P) -> dict[str, NDArray[Any]]:
        """Return what a file keeps beside the facts of `own`."""

    @abstractmethod
    def restore(self, policy: P, arrays: Arrays) -> None:
        """Take back what `to_arrays` returned, all of which has a name that `is_kept`."""

    @staticmethod
    def is_kept(name: str) -> bool:
        """Whether an array of a file is one of `to_arrays`."""
        return name == "patterns" or name.startswith(("by_pattern.", "pages.", "by_set."))

    @abstractmethod
    def book_set(self, policy: P, decision: Decision, among: ArmSet | None) -> None:
        """Book a decision by the set of arms that were eligible."""

    def follow_ends(self, policy: P) -> None:
        """Bring what is kept of the evidence's intervals in line with them."""

    def narrowed_ends(self, policy: P) -> Bounds:
        """Return the intervals, with all that is known by now."""
        evidence, n = policy._evidence, policy.n_arms
        lower, upper = evidence.lower[:n], evidence.upper[:n]
        bounds, empty = narrowed(Bounds(lower, upper), policy.tally, policy._live * policy.delta, evidence.divisors[:n])
        if empty.any():
            # Looking may be the first to find a contradiction. It is kept, so that it does not vanish again.
            lower[empty], upper[empty] = bounds.lower[empty], bounds.upper[empty]
            evidence.failures += int(empty.sum())
            self.follow_ends(policy)
        return bounds

    @abstractmethod
    def triage(self, policy: P) -> Triage:
        """Return the confirmed, active and eliminated arms, by number."""

    def triage_log(self, own: Any) -> TriageLog | None:
        """Return when arms were confirmed or eliminated, if that is noted."""
        return None

    @abstractmethod
    def certificate(self, policy: P, eligible: Any, next_decision: Any, independent: bool) -> Certificate:
        """Return the certificate with the policy's own delta."""

    def spent_elsewhere(self, policy: P) -> float:
        """Return what was booked among other eligible arms, beside what the book says."""
        return 0.0

    def oracle_calls(self, policy: P) -> int:
        """Return how many questions were asked about a decision set."""
        return 0

    def revealing_pulls(self, policy: P) -> int:
        """Return how many pulls were for what the arm reveals."""
        return 0


_COVERED = 20_000_000  # listed edges up to which a cover is counted, each time that arms come or go


def guard_params(policy: Any) -> GuardParams:
    """Return the guard's parameters."""
    share = float(policy._roster.divisors().max())
    base = math.log(share / (policy._live * policy.delta)) + math.log(2.0)
    price = 0.0 if policy.price is None else 0.01 * policy.price
    shadow = policy.mode == "shadow"
    start = policy._began
    return GuardParams(policy.graph.arrays, policy._plain, shadow, policy.budget, policy.factor, base, price, start)


def first_book(policy: Any, evidence: Evidence) -> Book:
    """Return the guard's book before the first round."""
    ghosts = Ghosts(**{name: policy._ghosts[name].copy() for name in Ghosts._fields})
    book = new_book(evidence, policy.budget, policy._live * policy.delta, policy._roster.n_first, ghosts)
    if policy.old_log is not None and evidence.n_arms > policy.budget:
        sort_all(guard_params(policy), evidence, book)
    count_cover(policy, book)
    return book


def count_cover(policy: Any, book: Book) -> None:
    """Count how many pulls show each arm that is not retired."""
    policy._covered = live = policy._roster.live
    book.cover = book.cover_among = live.size
    if not policy._plain and policy.graph.arrays.indices.size <= _COVERED:
        book.cover = cover_of(policy.graph, live)
        # Where sleepers are not seen, only a pull of its own is sure to show an arm.
        book.cover_among = book.cover if policy.sleepers_seen else live.size


def renewed_book(policy: Any, old: Book) -> Book:
    """Return the account with more arms, or some that have begun again, sorted by the intervals as they are."""
    evidence = policy._evidence
    book, n = first_book(policy, evidence), old.admitted.size
    for name in Book._numbers:
        if Book.is_fact(name):
            setattr(book, name, getattr(old, name))
    begun = np.append(evidence.exposures[:n] == -evidence.rounds, np.ones(book.admitted.size - n, np.bool_))
    book.admitted[:n], book.offered[:n] = old.admitted, old.offered
    book.admitted[begun], book.offered[begun] = 0, -old.offered_rounds
    book.patterns[:], book.n_patterns, book.is_new = old.patterns, old.n_patterns, 1
    book.n_logged = 0
    if policy.n_arms > policy.budget:
        sort_all(guard_params(policy), evidence, book)
    return book


class OverSlates(Problem[P]):
    """The guard over all decisions of `budget` arms."""

    def chosen(self, policy: P, number: int, among: Ints | None) -> Chosen:
        """Return the arms that the kernels choose."""
        if policy.decisions is not None and among is not None and among.size < policy.budget:
            raise ValueError(f"eligible must leave a decision of {policy.decisions!r}, got {among.size} arms")
        return policy._by_kernel(number, among)

    def check_own(self, policy: P) -> None:
        """Refuse an account that cannot be."""
        check_book(policy._book, policy.n_arms, policy.budget, policy._asked)

    def to_arrays(self, policy: P) -> dict[str, NDArray[Any]]:
        """Return the eligible sets that were counted, and the certificate's book of them."""
        book, sets = policy._book, policy._patterns
        kept = {"patterns": np.sort(book.patterns[book.patterns != 0])}
        return kept | ({f"by_pattern.{name}": one for name, one in sets.to_arrays().items()} if sets else {})

    def restore(self, policy: P, arrays: Arrays) -> None:
        """Take them back."""
        require(not any(name.startswith(("pages.", "by_set.")) for name in arrays), "slates have no pages of sets")
        require("patterns" in arrays, "patterns must be there for slates")
        book, seen, by_pattern = policy._book, arrays["patterns"], part_of(arrays, "by_pattern.")
        right = seen.ndim == 1 and seen.dtype == np.uint64 and 2 * seen.size <= book.patterns.size
        require(right and np.unique(seen).size == seen.size and np.all(seen != 0), "patterns must be different")
        for name in seen:
            add_pattern(book, name)
        if policy._patterns is not None:
            policy._patterns = PatternBook.from_arrays(by_pattern, policy.n_arms, policy.patterns)
        else:
            require(not by_pattern, "there must be no book of patterns that is not asked for")

    def book_set(self, policy: P, decision: Decision, among: ArmSet | None) -> None:
        """Book a decision for the certificate, with what it can lose among the eligible arms."""
        assert policy._patterns is not None
        eligible, bounds = np.arange(policy.n_arms) if among is None else among.arms, policy._bounds()
        policy._patterns.add(eligible, decision.arms, cert_among(*bounds, decision.arms, eligible), bounds)

    def triage(self, policy: P) -> Triage:
        """Return the arms as they were when all were last sorted."""
        status = policy._book.status
        return Triage(*(np.flatnonzero(status == kind) for kind in (CONFIRMED, ACTIVE, ELIMINATED)))

    def triage_log(self, own: Any) -> TriageLog:
        """Return when arms were confirmed or eliminated, in order."""
        book = own.book
        n = int(book.n_logged)
        arms = book.log_arms[:n].copy()
        return TriageLog(arms, book.log_rounds[:n].copy(), book.status[arms] == CONFIRMED)

    def certificate(self, policy: P, eligible: Any, next_decision: Any, independent: bool) -> Certificate:
        """Return the certificate, by the intervals that are kept."""
        bounds = self.narrowed_ends(policy)
        kept: dict[str, Any] = {}
        if eligible is not None or not policy._always_all:
            # The account has its own event, that the intervals of all arms hold, as eligible sets need it.
            width = policy.reward_range[1] - policy.reward_range[0]
            kept = {"bounds": bounds, "sum_of_certificates": width * float(policy._book.total), "by_pattern": None}
            if policy._patterns is not None and not policy._always_all:
                kept["by_pattern"] = width * policy._patterns.bound(bounds)
        return policy._certified_by_guard(eligible, next_decision, independent, **kept)


class ByBeliefs(OverSlates[P]):
    """Slates that follow from posteriors of one prior, where looks at arms that nothing reveals wait."""

    def check_own(self, policy: P) -> None:
        """Refuse an account, posteriors or looks that cannot be."""
        super().check_own(policy)
        own: Any = policy._own
        check_prior_of(policy.prior, (float(own.sampler.prior_wins), float(own.sampler.prior_losses)))  # type: ignore[attr-defined]
        check_sampler(own.sampler)
        check_looks(own.looks, policy._asked)

    def revealing_pulls(self, policy: P) -> int:
        """Return how many pulls were for what the arm reveals."""
        return int(policy._own.looks.shared)
