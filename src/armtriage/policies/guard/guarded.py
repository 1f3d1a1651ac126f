"""What policies inside a guard share: parameters, account, certificate, and how both kinds of problem differ in it.

Over slates the guard goes by elimination's account, over a decision set by questions to its oracle.
"""

from __future__ import annotations

import logging
import math
from abc import ABC, abstractmethod
from collections.abc import Iterable, Mapping
from functools import cached_property
from typing import Any, ClassVar, Generic, TypeVar, Unpack

import numpy as np
from numpy.typing import ArrayLike, NDArray

from armtriage._arguments import check_choice, check_count, check_number, check_probability
from armtriage.certificate import Account, Bounds, Certificate, PatternBook, cert_among, narrowed
from armtriage.decisions import ArmSet, Decision, DecisionSet
from armtriage.graphs.feedback import FeedbackGraph
from armtriage.kernels.record import Floats, Ints
from armtriage.policies.beliefs import Prior, check_prior_of, starts_at
from armtriage.policies.changing import locked
from armtriage.policies.elimination.sets import ACTIVE, CONFIRMED, ELIMINATED
from armtriage.policies.evidence import Evidence
from armtriage.policies.facts import require, within
from armtriage.policies.guard.account import (
    COVERED,
    Book,
    Ghosts,
    GuardParams,
    add_pattern,
    check_book,
    most_lost,
    new_book,
    sort_all,
)
from armtriage.policies.guard.decision_account import DecisionParams, params_of
from armtriage.policies.guard.free_look import Sampler, check_sampler, new_sampler, renewed_sampler
from armtriage.policies.guard.pages import Pages
from armtriage.policies.guard.shared_looks import Looks, check_looks, new_looks, renewed_looks
from armtriage.policies.old_log import OldLog
from armtriage.policies.options import Options
from armtriage.policies.policy import LISTENS
from armtriage.policies.request import Kernels, Request
from armtriage.policies.saved import part_of
from armtriage.policies.slate import SlatePolicy
from armtriage.policies.views import cover_of
from armtriage.triage import Triage, TriageLog

MODES = ("time", "shadow", "certify")
_PRICE = 110.0  # percent: 20 was measured to bring nothing, see docs/guard.md
_LOG = logging.getLogger("armtriage")
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
    live = policy._roster.live
    book.cover = book.cover_among = live.size
    if not policy._plain and policy.graph.arrays.indices.size <= COVERED:
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

    each: ClassVar[bool] = False
    """Whether every look that waits pays for the arm that shows it, or one of each arm."""

    @abstractmethod
    def own_of(self, book: Book, sampler: Sampler, looks: Looks) -> Any:
        """Return the caches with these, and what else proposals follow from, of which nothing is known yet."""

    def new_own(self, policy: P, evidence: Evidence) -> Any:
        """Return the account, posteriors and looks before the first round."""
        n, budget, prior = int(evidence.n_arms), policy.budget, starts_at(policy.prior)
        sampler = new_sampler(n, budget, prior, found=evidence.warm == 0)
        return self.own_of(first_book(policy, evidence), sampler, new_looks(n, budget, each=self.each))

    def renewed_own(self, policy: P, old: Any) -> Any:
        """Return them after arms were added, or have begun again."""
        n, budget = policy.n_arms, policy.budget
        looks = renewed_looks(old.looks, n, budget)
        return self.own_of(renewed_book(policy, old.book), renewed_sampler(old.sampler, n, budget), looks)

    def check_own(self, policy: P) -> None:
        """Refuse an account, posteriors or looks that cannot be."""
        super().check_own(policy)
        own: Any = policy._own
        check_prior_of(policy.prior, (float(own.sampler.prior_wins), float(own.sampler.prior_losses)))
        check_sampler(own.sampler)
        check_looks(own.looks, policy._asked)

    def revealing_pulls(self, policy: P) -> int:
        """Return how many pulls were for what the arm reveals."""
        return int(policy._own.looks.shared)


class GuardedPolicy(SlatePolicy):
    """A policy whose decisions a guard admits: parameters, and a `Problem` that says how."""

    keeps_intervals = True
    prior: Prior
    _over_slates: ClassVar[Problem[Any]]
    _over_set: ClassVar[Problem[Any]]
    _of_this_process = SlatePolicy._of_this_process | {"_problem", "_decision_params", "_decision_params_among"}

    def __init__(
        self,
        graph: FeedbackGraph | int,
        budget: int | None,
        *,
        decisions: DecisionSet | None = None,
        delta: float = 0.01,
        mode: str = "time",
        factor: float = 1.0,
        price: float | None = None,
        patterns: int = 0,
        forget: str | None = None,
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
        self._patterns = PatternBook(self.patterns) if self.patterns and self.in_loop else None
        self._books_sets = not self.in_loop or self._patterns is not None
        self._pages: Pages | None = None
        self._priced: tuple[Ints, float | None] = np.empty(0, np.int64), None
        self.forget = self._check_forget(forget)

    def _check_price(self, price: float | None) -> float | None:
        """Return what looks for the certificate may lose, in percent; None if the mode has none."""
        if self.mode != "certify":
            if price is not None:
                raise ValueError(f'price must be None unless mode is "certify", got {price!r}')
            return None
        if not self.in_loop:
            said = f'mode must be "time" or "shadow" over {self.decisions!r}, got "certify": looks are at slates'
            raise ValueError(said)
        return _PRICE if price is None else check_number("price", price)

    @cached_property
    def _problem(self) -> Problem[Any]:
        return self._over_slates if self.in_loop else self._over_set

    @property
    def _set(self) -> DecisionSet:
        """The decision set that the guard asks."""
        assert self.decisions is not None
        return self.decisions

    @property
    def _book(self) -> Any:
        """The guard's book."""
        return self._own.book

    @property
    def kernels(self) -> Kernels:  # type: ignore[override]
        """The compiled functions, for slates or for a decision set."""
        return self._problem.kernels

    def params(self) -> Any:
        """Return the parameters of the kernels."""
        return self._problem.params(self)

    def new_own(self, evidence: Evidence) -> Any:
        """Return the account, and what proposals follow from, before the first round."""
        return self._problem.new_own(self, evidence)

    def renewed_own(self, old: Any) -> Any:
        """Return them after arms were added, or have begun again."""
        return self._problem.renewed_own(self, old)

    def decision_of_set(  # noqa: D102 - as in every policy
        self, params: Any, evidence: Evidence, own: Any, request: Request, number: int
    ) -> Ints:
        return self._problem.decision_of_set(self, params, own, request, number)

    @cached_property
    def _decision_params(self) -> DecisionParams:
        return params_of(
            self.graph,
            self._set,
            offset=self._offset,
            delta=self.delta,
            factor=self.factor,
            shadow=self.mode == "shadow",
            **self._looks,
        )

    @property
    def _looks(self) -> dict[str, Any]:
        """The parameters of what proposes over a decision set."""
        return {}

    @cached_property
    def _decision_params_among(self) -> DecisionParams:
        """The same among eligible arms: where sleepers are not seen, only a pull of its own is sure to show an arm."""
        params = self._decision_params
        return params if self.sleepers_seen else params._replace(cover=float(params.n_arms))

    def _restart_account(self) -> None:
        book, evidence = self._book, self._evidence
        book.gap, book.allowed, book.floor, book.layer, book.layer_size, book.layer_pulls = 1.0, 0.0, 0.0, -1, 0, 0
        if self.n_arms > self.budget:
            sort_all(guard_params(self), evidence, book)
        book.total, book.spent = most_lost(evidence, book, True), most_lost(evidence, book, False)

    def _begin_again(self) -> None:
        super()._begin_again()
        self._patterns = None if self._patterns is None else PatternBook(self.patterns)

    def _check_old_log(self, old_log: OldLog | None) -> OldLog | None:
        if old_log is not None and self.patterns:
            raise NotImplementedError(f"old_log cannot be used with patterns, got {self.patterns}")
        return super()._check_old_log(old_log)

    def _ghost_facts(self) -> dict[str, NDArray[Any]]:
        known = super()._ghost_facts()
        if not self.in_loop:
            return known
        n = self.n_arms
        book = self._book if self._has_caches else None
        admitted = np.zeros(n, np.int64) if book is None else book.admitted
        offered = np.zeros(n, np.int64) if book is None else book.offered + book.offered_rounds
        ends = {"lower": self._evidence.lower[:n], "upper": self._evidence.upper[:n]}
        return {**known, "admitted": admitted, "offered": offered, **ends}

    def _restore_ghosts(self, arrays: Mapping[str, NDArray[Any]]) -> None:
        super()._restore_ghosts(arrays)
        if self.in_loop:
            ghosts = self._ghosts
            within("lower ends of ghosts", ghosts["lower"], 0.0, 1.0)
            within("upper ends of ghosts", ghosts["upper"], ghosts["lower"], 1.0)
            within("admitted pulls of ghosts", ghosts["admitted"], 0, self._asked)
            within("offered rounds of ghosts", ghosts["offered"], ghosts["admitted"], self._asked)

    def _note_live(self) -> None:
        if self.in_loop and "_own" in vars(self):
            count_cover(self, self._book)

    _heard = 0, False  # rounds of elimination when it last listened, and whether there was silence

    def _listen(self) -> None:
        """Warn, once in a silence, if most of the last decisions were rounds of elimination, and none is closed."""
        (before, warned), forced, asked = self._heard, int(self._book.forced), self._asked
        silent = 2 * (forced - before) > LISTENS and all(map(self._is_open, range(asked - LISTENS, asked)))
        self._heard = forced, silent
        if silent and not warned:
            said = "%s: %d of the last %d decisions are rounds of elimination, and all of them are open: %s"
            why = "the guard's budget is used up until rewards are told"
            _LOG.warning(said, type(self).__name__, forced - before, LISTENS, why)

    def _chosen(self, number: int, among: Ints | None) -> Chosen:
        return self._problem.chosen(self, number, among)

    def _book_set(self, decision: Decision, among: ArmSet | None) -> None:
        self._problem.book_set(self, decision, among)

    def _forget(self, arms: list[int]) -> None:
        for arm in arms if self._patterns is not None else ():
            self._patterns.close(arm, self._bounds())  # type: ignore[union-attr]
        super()._forget(arms)

    def _adopt(self, number: int, own: Ints, arms: Ints, among: Ints | None) -> None:
        # The budget stays as it is for what the guard would have played; what was played is what is certified.
        if self.in_loop:
            book, bounds = self._book, self._bounds()
            eligible = np.arange(self.n_arms) if among is None else among
            book.total += cert_among(*bounds, arms, eligible) - cert_among(*bounds, own, eligible)
            book.total = max(float(book.total), 0.0)

    def _known(self) -> dict[str, NDArray[Any]]:
        return super()._known() | {f"state.{name}": one for name, one in self._problem.to_arrays(self).items()}

    def _restore(self, arrays: Mapping[str, NDArray[Any]]) -> None:
        kept = {name: array for name, array in arrays.items() if self._problem.is_kept(name)}
        super()._restore({name: array for name, array in arrays.items() if name not in kept})
        self._problem.restore(self, kept)
        self._heard = int(self._book.forced), False

    def _check_own(self) -> None:
        self._problem.check_own(self)

    @property
    @locked
    def triage(self) -> Triage:
        """The confirmed, active and eliminated arms, as of the last time that intervals were computed.

        Over a decision set they are found when they are asked for, by two questions about every arm.
        """
        if self.in_loop and not self._always_all:
            return self.triage_of()
        return Triage(*(self._roster.named(arms) for arms in self._problem.triage(self)))

    @property
    def oracle_calls(self) -> int:
        """How many questions the guard, and draws that it guards, have asked about a decision set."""
        return self._problem.oracle_calls(self)

    @property
    @locked
    def account(self) -> Account:
        """What admitted proposals can have lost, what they may, and how often elimination had to step in."""
        book, width = self._book, self.reward_range[1] - self.reward_range[0]
        spent = width * (float(book.spent) + self._problem.spent_elsewhere(self))
        looks = self._problem.revealing_pulls(self)
        return Account(spent, width * float(book.allowed), int(book.forced), self.factor, looks)

    @locked
    def triage_log(self, own: Any = None) -> TriageLog | None:
        """Return when arms were confirmed or eliminated, in order; None over a decision set, where no one looks."""
        return self._problem.triage_log(self._own if own is None else own)

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
        return self._problem.certificate(self, eligible, next_decision, independent)

    def _certified_by_guard(self, eligible: Any, next_decision: Any, independent: bool, **kept: Any) -> Certificate:
        """Return the certificate with the guard's own delta and account; `kept` are its intervals, and other bounds."""
        return self._certified(
            eligible=eligible,
            delta=self.delta,
            next_decision=next_decision,
            independent=independent,
            contradictions=self.interval_failures,
            account=self.account,
            **kept,
        )

    @locked
    def glance(self) -> Certificate:  # noqa: D102 - as in every policy
        kept = self._evidence
        lower, upper, failures = kept.lower.copy(), kept.upper.copy(), int(kept.failures)
        try:
            return self.certificate()
        finally:
            kept.lower[:], kept.upper[:], kept.failures = lower, upper, failures
            self._problem.follow_ends(self)
