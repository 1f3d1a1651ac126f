"""The guard over a decision set as policies use it: states, kernels, and questions to the oracle."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import numpy as np
from numpy.typing import NDArray

from armtriage.certificate import (
    Bounds,
    Certificate,
    PatternBook,
    challenge,
    decided_by,
    log_bound_over,
)
from armtriage.decisions import ArmSet, Decision, DecisionSet
from armtriage.graphs.feedback import GraphArrays
from armtriage.kernels.jit import kernel, unbound
from armtriage.kernels.random import row_of
from armtriage.kernels.record import Floats, Ints, Record
from armtriage.policies.evidence import Evidence
from armtriage.policies.facts import require, within
from armtriage.policies.guard.coupled_draws import PROPOSE, Draws, check_draws, keep_better, learn, new_draws, propose
from armtriage.policies.guard.decision_account import (
    ADMIT,
    ASK_EACH,
    DONE,
    DecisionBook,
    DecisionParams,
    Query,
    admit,
    check_book,
    copy_arms,
    new_decision_book,
    new_query,
    renew_intervals,
)
from armtriage.policies.guard.guarded import Arrays, Chosen, P, Problem
from armtriage.policies.guard.pages import Pages
from armtriage.policies.request import Kernels, Request, learn_nothing, luck_of
from armtriage.policies.saved import part_of
from armtriage.triage import Triage

_NONE = np.empty(0, np.int64)
_SETS = 64  # eligible sets with a page of their own
_CELLS = 4_000_000  # and at most so many numbers on them, 64 megabytes

answer = unbound
"""What `bind` replaces by a compiled oracle: write a decision of largest weight, and return its size."""


class DecisionGuard(Record):
    """A guard around proposals from outside."""

    facts = ("book",)
    book: DecisionBook
    query: Query


class DecisionState(Record):
    """A guard, and coupled draws that propose."""

    facts = ("book", "draws")
    book: DecisionBook
    draws: Draws
    query: Query


def new_guard(params: DecisionParams, evidence: Evidence) -> DecisionGuard:
    """Return a guard that has admitted nothing."""
    return DecisionGuard(new_decision_book(params, evidence), new_query(params.n_arms, params.size))


def new_state(params: DecisionParams, evidence: Evidence) -> DecisionState:
    """Return the state before the first round."""
    n, size = params.n_arms, params.size
    draws = new_draws(n, size, (params.prior_wins, params.prior_losses))
    return DecisionState(new_decision_book(params, evidence), draws, new_query(n, size))


@kernel
def advance(params: DecisionParams, state: DecisionState, graph: GraphArrays, number: int, luck: np.uint64) -> int:
    """Go on until the decision stands in `chosen`, or a question in `weights`; say which."""
    query = state.query
    if query.stage < ADMIT:
        asked = propose(params, state.book, state.draws, query, graph, number, luck)
        if asked != DONE:
            return asked
    asked = admit(params, state.book, query, number)
    if asked == DONE:
        keep_better(params, state.book, state.draws, query, graph)
    return asked


@kernel
def choose_nothing(params: Any, evidence: Evidence, own: Any, request: Request) -> bool:
    """Leave the arms as they are: the oracle is asked in between, by `decide`."""
    return False


@kernel
def believe_nothing(params: Any, evidence: Evidence, own: Any, request: Request) -> None:
    """Say nothing of the arms."""


@kernel
def _settled_in_guard(
    params: DecisionParams, evidence: Evidence, own: DecisionGuard, request: Request, seen: Ints
) -> None:
    """Let intervals follow what was settled."""
    renew_intervals(params, evidence, own.book, seen)


@kernel
def _settled(params: DecisionParams, evidence: Evidence, own: DecisionState, request: Request, seen: Ints) -> None:
    """Let intervals and draws follow what was settled."""
    renew_intervals(params, evidence, own.book, seen)
    learn(params, own.book, own.draws, luck_of(request), seen, request.rewards, seen.size)


def guarded_choice(
    params: DecisionParams,
    state: DecisionState,
    graph: GraphArrays,
    number: int,
    luck: np.uint64,
    oracle: Any,
    weights: Floats,
    arms: Ints,
) -> int:
    """Fill `arms` with the decision of a round, as `decide` does; return how many, or -1 less that if it is certain."""
    query = state.query
    query.stage = PROPOSE
    while advance(params, state, graph, number, luck) != DONE:
        query.n_answer = answer(oracle, query.weights, query.answer)
    copy_arms(query.chosen, query.n_chosen, arms)
    return -1 - query.n_chosen if state.book.n_committed >= 0 else query.n_chosen


KERNELS = Kernels(choose_nothing, learn_nothing, believe_nothing, settled=_settled)
KERNELS_OF_GUARD = Kernels(choose_nothing, learn_nothing, believe_nothing, settled=_settled_in_guard)


def _until_done(query: Query, decisions: DecisionSet, go_on: Callable[[], int], exclude: Ints) -> Ints:
    """Answer questions, about decisions without the arms of `exclude`, until the decision is made."""
    while (asked := go_on()) != DONE:
        if asked == ASK_EACH:
            query.values[:] = decisions.maximise_each_including(query.weights, exclude=exclude)
            continue
        arms = decisions.maximise(query.weights, () if query.include < 0 else (query.include,), exclude)
        if arms is None:
            # With all arms a set has a decision, and one with each arm that has a value.
            left = decisions.n_arms - exclude.size
            raise ValueError(f"eligible must leave a decision of {decisions!r}, got {left} arms")
        query.answer[: arms.size], query.n_answer = arms, arms.size
    return query.chosen[: query.n_chosen].copy()


def decide(
    params: DecisionParams,
    state: DecisionState,
    graph: GraphArrays,
    decisions: DecisionSet,
    number: int,
    luck: np.uint64,
    exclude: Ints = _NONE,
) -> Ints:
    """Return the decision of a round: proposed by coupled draws, and admitted or replaced."""
    state.query.stage = PROPOSE
    return _until_done(state.query, decisions, lambda: advance(params, state, graph, number, luck), exclude)


def judge(
    params: DecisionParams,
    guard: DecisionGuard,
    decisions: DecisionSet,
    number: int,
    proposal: Ints,
    exclude: Ints = _NONE,
) -> Ints:
    """Return the proposal, or what is played in its place."""
    query = guard.query
    query.chosen[: proposal.size], query.n_chosen, query.stage = proposal, proposal.size, ADMIT
    return _until_done(query, decisions, lambda: admit(params, guard.book, query, number), exclude)


class OverDecisions(Problem[P]):
    """The guard over a decision set, whose oracle is asked; the book has the intervals, counted from a reward of 0."""

    def params(self, policy: P) -> DecisionParams:
        """Return the parameters of the kernels."""
        return policy._decision_params

    def choose(self, policy: P, among: Ints | None, choose: Callable[[DecisionParams, Ints], Ints]) -> Ints:
        """Return what `choose`, called with parameters and the arms that are not eligible, decides on their page."""
        book = policy._book
        forced, cost = int(book.forced), 0.0
        if among is None or among.size == policy.n_arms:
            arms = choose(policy._decision_params, _NONE)
        else:
            if policy._pages is None:
                policy._pages = self._new_pages(policy)
            draws = self.draws(policy)
            exclude = np.setdiff1d(np.arange(policy.n_arms), among, assume_unique=True)
            with policy._pages.at(among, policy.graph.arrays, book, draws):
                arms = choose(policy._decision_params_among, exclude)
                cost = 0.0 if book.n_committed >= 0 else float(book.cost)
        policy._priced = arms, cost if int(book.forced) == forced else None
        return arms

    def draws(self, policy: P) -> Draws | None:
        """Return the draws that propose, if they are the policy's own."""
        return None

    def _new_pages(self, policy: P) -> Pages:
        with_draws = self.draws(policy) is not None
        return Pages(policy._decision_params, self._most_sets(policy), with_draws=with_draws)

    def _most_sets(self, policy: P) -> int:
        return max(policy.patterns, 1, min(_SETS, _CELLS // policy.n_arms))

    def check_own(self, policy: P) -> None:
        """Refuse a book that cannot be."""
        check_book(policy._decision_params, policy._book, policy._set, policy._asked)

    def to_arrays(self, policy: P) -> dict[str, NDArray[Any]]:
        """Return the pages of eligible sets, and the certificate's book of them, if there are any."""
        if policy._pages is None or policy._patterns is None:
            return {}
        parts = {"pages": policy._pages.to_arrays(), "by_set": policy._patterns.to_arrays()}
        return {f"{part}.{name}": array for part, arrays in parts.items() for name, array in arrays.items()}

    def restore(self, policy: P, arrays: Arrays) -> None:
        """Take them back."""
        policy._pages = None
        if not arrays:
            return
        pages, sets = part_of(arrays, "pages."), part_of(arrays, "by_set.")
        require(len(pages) + len(sets) == len(arrays), "patterns must be there for slates, and only there")
        policy._pages = self._new_pages(policy)
        policy._pages.restore(
            pages, lambda: self.check_own(policy), policy.graph.arrays, policy._book, self.draws(policy)
        )
        policy._patterns = PatternBook.from_arrays(sets, policy.n_arms, self._most_sets(policy), policy._set)
        require(policy._patterns.pulls <= policy.tally.pulls, "pulls among eligible arms must be among all pulls")
        within("rounds among eligible arms", policy._patterns.rounds, 0, policy._asked)

    def book_set(self, policy: P, decision: Decision, among: ArmSet | None) -> None:
        """Book a decision among eligible arms for the certificate, with what it can lose."""
        if among is None or among.size == policy.n_arms:
            return
        if policy._patterns is None:
            policy._patterns = PatternBook(self._most_sets(policy), policy._set)
        book, arms, (own, cost) = policy._book, decision.arms, policy._priced
        bounds = Bounds(book.lower, book.upper)
        if cost is None or not np.array_equal(own, arms):
            exclude = np.setdiff1d(np.arange(policy.n_arms), among.arms, assume_unique=True)
            cost = challenge(policy._set, arms, bounds, exclude).amount
        policy._patterns.add(among.arms, arms, cost, bounds)

    def follow_ends(self, policy: P) -> None:
        """Count the ends of intervals from a reward of 0."""
        book, ends, offset = policy._book, policy._bounds(), policy._offset
        book.lower[:], book.upper[:] = ends.lower + offset, ends.upper + offset

    def triage(self, policy: P) -> Triage:
        """Return the arms that all, some or no decisions have that may be the best."""
        book, decisions = policy._book, policy._set
        means = book.sums / np.maximum(book.counts, 1) + policy._offset
        centre = np.where(book.counts > 0, np.clip(means, book.lower, book.upper), book.upper)
        incumbent = decisions.maximise(centre)
        assert incumbent is not None, "a set has a decision"
        return decided_by(decisions, incumbent, Bounds(book.lower, book.upper))[0]

    def certificate(self, policy: P, eligible: Any, next_decision: Any, independent: bool) -> Certificate:
        """Return the certificate, by the intervals of the book."""
        book, offset, decisions, pulls = policy._book, policy._offset, policy._set, policy.tally.pulls
        bounds = self.narrowed_ends(policy)
        if next_decision is None and eligible is None and book.n_committed >= 0:
            committed = book.committed[: book.n_committed]
            if policy._roster.retired.isdisjoint(committed.tolist()):
                next_decision = policy._roster.named(committed)
        by_set, sets = None, policy._patterns
        if sets is not None and sets.rounds:
            ends = Bounds(bounds.lower + offset, bounds.upper + offset)
            whole = log_bound_over(decisions, pulls - sets.pulls, policy._asked - sets.rounds, ends)
            by_set = (policy.reward_range[1] - policy.reward_range[0]) * (whole + sets.bound(ends))
        kept: dict[str, Any] = {}
        if eligible is not None or by_set is not None or policy._roster.retired:
            kept = {"bounds": bounds, "by_pattern": by_set}
        return policy._certified_by_guard(eligible, next_decision, independent, **kept)

    def spent_elsewhere(self, policy: P) -> float:
        """Return what was booked on other pages than the one at which the book lies open."""
        return float(policy._book.elsewhere)

    def oracle_calls(self, policy: P) -> int:
        """Return how many questions the guard has asked."""
        return int(policy._book.questions)


class CoupledDecisions(OverDecisions[P]):
    """Coupled draws that propose over a decision set."""

    kernels = KERNELS

    def new_own(self, policy: P, evidence: Evidence) -> DecisionState:
        """Return the account and draws before the first round."""
        return new_state(policy._decision_params, evidence)

    def chosen(self, policy: P, number: int, among: Ints | None) -> Chosen:
        """Return what the draws propose and the guard admits."""
        own, graph, over, luck = policy._own, policy.graph.arrays, policy._set, row_of(policy._stream, number)
        return self.choose(
            policy, among, lambda params, left: decide(params, own, graph, over, number, luck, left)
        ), None

    def decision_of_set(self, policy: P, params: Any, own: Any, request: Request, number: int) -> Ints:
        """Return the decision of round `number`."""
        return decide(params, own, policy.graph.arrays, policy._set, number, row_of(request.stream[0], number))

    def draws(self, policy: P) -> Draws:
        """Return the draws."""
        return policy._own.draws  # type: ignore[no-any-return]

    def check_own(self, policy: P) -> None:
        """Refuse a book, or draws, that cannot be."""
        super().check_own(policy)
        params, counts = policy._decision_params, policy.tally.counts
        check_draws(params, self.draws(policy), counts, policy._set, policy.graph, policy._asked)

    def oracle_calls(self, policy: P) -> int:
        """Return how many questions the guard and the draws have asked."""
        return super().oracle_calls(policy) + int(self.draws(policy).questions)

    def revealing_pulls(self, policy: P) -> int:
        """Return how many decisions were for what an arm of them reveals."""
        return int(self.draws(policy).shared)
