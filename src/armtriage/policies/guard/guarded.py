"""What policies inside a guard share: their parameters, account and certificate."""

from __future__ import annotations

import logging
from collections.abc import Iterable, Mapping
from functools import cached_property
from typing import Any, ClassVar, Unpack

import numpy as np
from numpy.typing import ArrayLike, NDArray

from armtriage._arguments import check_choice, check_count, check_number, check_probability
from armtriage.certificate import Account, Certificate, PatternBook, cert_among
from armtriage.decisions import ArmSet, Decision, DecisionSet, TopS
from armtriage.graphs.feedback import FeedbackGraph
from armtriage.kernels.record import Ints
from armtriage.policies.evidence import Evidence
from armtriage.policies.facts import within
from armtriage.policies.guard.account import most_lost, sort_all
from armtriage.policies.guard.decision_account import DecisionParams, params_of
from armtriage.policies.guard.pages import Pages
from armtriage.policies.guard.problem import Chosen, Problem, count_cover, guard_params
from armtriage.policies.lock import locked
from armtriage.policies.old_log import OldLog
from armtriage.policies.options import Options
from armtriage.policies.request import Kernels, Request
from armtriage.policies.slate import SlatePolicy
from armtriage.triage import Triage, TriageLog

MODES = ("time", "shadow", "certify")
_PRICE = 110.0  # percent: 20 was measured to bring nothing, see docs/guard.md
_NONE = np.empty(0, np.int64)
_SILENCE = 1024  # decisions in a row without a reward of which something is said if the budget is used up
_LOG = logging.getLogger("armtriage")


class GuardedPolicy(SlatePolicy):
    """A policy whose decisions a guard admits: parameters, and a `Problem` that says how."""

    keeps_intervals = True
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
        self._covered = _NONE
        self._pages: Pages | None = None
        self._priced: tuple[Ints, float | None] = _NONE, None
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
    def in_loop(self) -> bool:
        """Whether the kernels choose decisions, and not an oracle; `TopS` has all slates, and is asked nothing."""
        return self.decisions is None or isinstance(self.decisions, TopS)

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

    def _ask_all(self, given: Ints | None = None) -> Decision:
        self._measure()
        return super()._ask_all(given)

    def _ask_some(self, mask: NDArray[np.bool_], live: bool) -> Decision:
        self._measure()
        return super()._ask_some(mask, live)

    def _ask_among(self, among: Ints, given: Ints | None = None) -> Decision:
        self._measure()
        return super()._ask_among(among, given)

    def _measure(self) -> None:
        """Count the cover again if arms have come or gone, and listen now and then whether rewards come."""
        if self.in_loop and self._covered is not self._roster.live:
            count_cover(self, self._book)
        if self._asked % _SILENCE == 0:
            self._listen()

    _heard = 0, False  # rounds of elimination when it last listened, and whether there was silence

    def _listen(self) -> None:
        """Warn, once in a silence, if most of the last decisions were rounds of elimination, and none is closed."""
        (before, warned), forced, asked = self._heard, int(self._book.forced), self._asked
        silent = 2 * (forced - before) > _SILENCE and all(map(self._is_open, range(asked - _SILENCE, asked)))
        self._heard = forced, silent
        if silent and not warned:
            said = "%s: %d of the last %d decisions are rounds of elimination, and all of them are open: %s"
            why = "the guard's budget is used up until rewards are told"
            _LOG.warning(said, type(self).__name__, forced - before, _SILENCE, why)

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
