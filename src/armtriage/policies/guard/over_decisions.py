"""The guard over a decision set as policies use it: states, kernels, and questions to the oracle."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import numpy as np
from numpy.typing import NDArray

from armtriage.certificate import Bounds, decided_by
from armtriage.decisions import DecisionSet
from armtriage.graphs.feedback import GraphArrays
from armtriage.kernels.jit import kernel, unbound
from armtriage.kernels.record import Record
from armtriage.policies.evidence import LOST, Evidence
from armtriage.policies.guard.coupled_draws import PROPOSE, Draws, keep_better, learn, new_draws, propose
from armtriage.policies.guard.decision_account import (
    ADMIT,
    ASK_EACH,
    DONE,
    DecisionBook,
    DecisionParams,
    Query,
    admit,
    copy_arms,
    lose,
    new_decision_book,
    new_query,
    note_rewards,
)
from armtriage.policies.request import Request, luck_of
from armtriage.policies.slate import Kernels
from armtriage.triage import Triage

_NONE = np.empty(0, np.int64)

answer = unbound
"""What `bind` replaces by a compiled oracle: write a decision of largest weight, and return its size."""


class DecisionGuard(Record):
    """A guard around somebody else's proposals."""

    facts = ("book",)
    book: DecisionBook
    query: Query


class DecisionState(Record):
    """A guard, and coupled draws that propose."""

    facts = ("book", "draws")
    book: DecisionBook
    draws: Draws
    query: Query


def new_guard(params: DecisionParams) -> DecisionGuard:
    """Return a guard that has admitted nothing."""
    return DecisionGuard(new_decision_book(params), new_query(params.n_arms, params.size))


def new_state(params: DecisionParams) -> DecisionState:
    """Return the state before the first round."""
    n, size = params.n_arms, params.size
    return DecisionState(
        new_decision_book(params), new_draws(n, size, (params.prior_wins, params.prior_losses)), new_query(n, size)
    )


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
def _learn(
    params: DecisionParams,
    evidence: Evidence,
    own: Any,
    request: Request,
    seen: NDArray[np.int64],
    rewards: NDArray[np.float64],
    event: int,
) -> None:
    """Note that rewards will not come; those that have come count when they are settled."""
    if event == LOST:
        lose(own.book, seen)


@kernel
def _settled_in_guard(
    params: DecisionParams, evidence: Evidence, own: DecisionGuard, request: Request, seen: NDArray[np.int64]
) -> None:
    """Let intervals follow what was settled."""
    note_rewards(params, own.book, seen, request.rewards, seen.size)


@kernel
def _settled(
    params: DecisionParams, evidence: Evidence, own: DecisionState, request: Request, seen: NDArray[np.int64]
) -> None:
    """Let intervals and draws follow what was settled."""
    note_rewards(params, own.book, seen, request.rewards, seen.size)
    learn(params, own.book, own.draws, luck_of(request), seen, request.rewards, seen.size)


def guarded_choice(
    params: DecisionParams,
    state: DecisionState,
    graph: GraphArrays,
    number: int,
    luck: np.uint64,
    oracle: Any,
    weights: NDArray[np.float64],
    arms: NDArray[np.int64],
) -> int:
    """Fill `arms` with the decision of a round, as `decide` does; return how many, or -1 less that if it is certain."""
    query = state.query
    query.stage = PROPOSE
    while advance(params, state, graph, number, luck) != DONE:
        query.n_answer = answer(oracle, query.weights, query.answer)
    copy_arms(query.chosen, query.n_chosen, arms)
    return -1 - query.n_chosen if state.book.n_committed >= 0 else query.n_chosen


KERNELS = Kernels(choose_nothing, _learn, believe_nothing, settled=_settled)
KERNELS_OF_GUARD = Kernels(choose_nothing, _learn, believe_nothing, settled=_settled_in_guard)


def _until_done(
    query: Query, decisions: DecisionSet, go_on: Callable[[], int], exclude: NDArray[np.int64]
) -> NDArray[np.int64]:
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
    exclude: NDArray[np.int64] = _NONE,
) -> NDArray[np.int64]:
    """Return the decision of a round: proposed by coupled draws, and admitted or replaced."""
    state.query.stage = PROPOSE
    return _until_done(state.query, decisions, lambda: advance(params, state, graph, number, luck), exclude)


def judge(
    params: DecisionParams,
    guard: DecisionGuard,
    decisions: DecisionSet,
    number: int,
    proposal: NDArray[np.int64],
    exclude: NDArray[np.int64] = _NONE,
) -> NDArray[np.int64]:
    """Return the proposal, or what is played in its place."""
    query = guard.query
    query.chosen[: proposal.size], query.n_chosen, query.stage = proposal, proposal.size, ADMIT
    return _until_done(query, decisions, lambda: admit(params, guard.book, query, number), exclude)


def triage_of(params: DecisionParams, book: DecisionBook, decisions: DecisionSet) -> Triage:
    """Return the arms that all, some or no decisions have that may be the best."""
    means = book.sums / np.maximum(book.counts, 1) + params.offset
    centre = np.where(book.counts > 0, np.clip(means, book.lower, book.upper), book.upper)
    incumbent = decisions.maximise(centre)
    assert incumbent is not None, "a set has a decision"
    return decided_by(decisions, incumbent, Bounds(book.lower, book.upper))[0]
