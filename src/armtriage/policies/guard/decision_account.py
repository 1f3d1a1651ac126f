"""The guard over a decision set: proposals are admitted while what they can have lost stays within a budget.

Each question to the set's oracle is one exact statement: what a decision can lose, or what a whole log of them can have
lost (see `armtriage.certificate`). Where the budget would be exceeded, the decision of largest upper ends is
played: it loses at most the widths of its intervals, which its own rewards close. Between two questions a bound that
needs none serves: a decision loses at most what an earlier one can lose, and what that one can be better by.

The kernels stop wherever they need an answer, and go on when it is there: so the same text serves oracles that are
compiled and those that are not.
"""

from __future__ import annotations

import math

import numpy as np
from numpy.typing import NDArray

from armtriage._arguments import LONGEST
from armtriage.decisions import DecisionSet
from armtriage.graphs.feedback import FeedbackGraph, GraphArrays, reveals
from armtriage.intervals import MIXTURE, interval
from armtriage.kernels.jit import kernel
from armtriage.kernels.record import Floats, Ints, Record, blank, fact
from armtriage.policies.evidence import PATIENCE, Evidence, Intervals, as_least, new_intervals, refresh
from armtriage.policies.facts import check_facts, require, within

# What a kernel that stops wants to know: nothing, a best decision, the best value with each arm, a best with one arm.
DONE, ASK_BEST, ASK_EACH, ASK_WITH = range(4)
# Where the guard goes on; what is below belongs to the proposer.
ADMIT, CERTIFIED, REFUNDED, HOPED, CENTRED, CHALLENGED = range(10, 16)

# When the guard asks: questions left out make the account larger, never wrong. With these it asks 0.02 to 0.03 a round
# over 5,000 rounds of the families in docs/decision-sets.md.
_STALE = 64  # rounds after which the reference is certified again
_FRESH = 16  # rounds for which a reference stays though a decision of larger certificate was looked at
_REFUND = 8  # rounds between two looks at what the log can have lost
_GAP_FACTOR = 4.0  # on the gap form of the budget: with 1 it binds where the certified gap has not closed in yet
_SLACK = 1.0 + 1e-9  # sums in another order differ by less
_ROUNDING = 1e-12
_WORK = 2e7  # pairs of arms that the search for cliques looks at; what is left over counts arm by arm


class DecisionParams(Record, frozen=True):
    """Parameters of the kernels."""

    n_arms: int
    size: int  # of the largest decision
    shadow: bool
    free_look: bool
    reveal: bool
    coin: bool  # whether rewards between 0 and 1 are made 0 or 1 for draws
    learned: bool  # whether draws follow the noise of rewards, and a prior that is fitted
    stated: bool  # whether the prior is given all the same
    delta: float
    factor: float
    cover: float  # how often an interval is paid for: K, or the largest size times the cliques that cover the graph
    worst: float  # what any decision can lose before anything is known
    offset: float  # a reward of 0, on the unit scale
    prior_wins: float  # as it starts
    prior_losses: float
    even: float  # see `fitted_around`
    likely: Floats  # (2, K) shapes of the priors of arms of which something was expected, else (2, 0)


class Query(Record):
    """A question, its answer, and the decision that is being made."""

    facts = ()
    weights: Floats  # (K,)
    values: Floats  # (K,) answers about every arm
    answer: Ints  # (S,)
    chosen: Ints  # (S,) the proposal, in the end the decision
    other: Ints  # (S,) scratch
    marks: NDArray[np.uint8]  # (K,) scratch, 0 between calls
    n_answer: int
    n_chosen: int
    n_other: int
    stage: int
    include: int  # an arm that the answer must have, -1 for none


class DecisionBook(Record):
    """The account, in units of the reward range, counted from a reward of 0, with views of the evidence.

    Only closed decisions are learned from over a set, so that what was told is what is settled.
    """

    counts: Ints  # (K,) of the evidence
    sums: Floats
    between: Floats
    missed: Ints
    lower: Floats  # (K,) the ends of its intervals, counted from a reward of 0
    upper: Floats
    intervals: Intervals
    # Not at most the pulls: where decisions are recorded, what was admitted is not what was played.
    admitted: Ints = fact(0, "asked")  # (K,) pulls in admitted proposals
    reference: Ints = fact()  # (S,) a decision with a certificate
    committed: Ints = fact()  # (S,) a best decision for certain
    n_reference: int = fact(-1, "size")  # -1 for none
    n_committed: int = fact(-1, "size")  # -1 for none
    n_admitted: int = fact(0, "asked")
    seen_at: int = fact(0, "asked")  # the round of the reference's certificate, from 1
    refunded: int = fact(-_REFUND, "asked")  # the round of the last refund
    forced: int = fact(0, "asked")
    questions: int = fact(0, "longest")
    spent: float = fact(0.0)
    allowed: float = fact(0.0)
    price: float = fact(0.0, "worst")  # of the reference
    gap: float = fact(0.0, "worst")  # at most so large
    paid: float = fact(0.0)  # widths that forced rounds have played, in shadow mode
    cost: float = fact(0.0)  # scratch: what the proposal can lose
    elsewhere: float = fact(0.0)  # what was booked among other eligible arms than those of this page


def params_of(
    graph: FeedbackGraph,
    decisions: DecisionSet,
    *,
    offset: float,
    delta: float,
    factor: float,
    shadow: bool,
    free_look: bool = False,
    reveal: bool = False,
    coin: bool = False,
    learned: bool = False,
    stated: bool = False,
    prior_wins: float = 1.0,
    prior_losses: float = 1.0,
    even: float = 1.0,
    likely: Floats | None = None,
) -> DecisionParams:
    """Return the parameters of a guard."""
    n, size, plain = graph.n_arms, decisions.size, graph.n_edges == graph.n_arms
    cover = n if plain else min(n, size * int(_cliques(graph.arrays)))
    smallest = size if decisions.same_size else _smallest(decisions)
    sizes = np.array([smallest, size])
    worst = float((sizes * (offset + 1.0)).max() - (sizes * offset).min())
    looks = not plain
    return DecisionParams(
        n,
        size,
        shadow,
        free_look and looks,
        reveal and looks,
        coin,
        learned,
        stated,
        delta,
        factor,
        float(cover),
        worst,
        offset,
        prior_wins,
        prior_losses,
        even,
        np.empty((2, 0)) if likely is None else likely,
    )


def _smallest(decisions: DecisionSet) -> int:
    found = decisions.maximise(-np.ones(decisions.n_arms))
    assert found is not None, "a set has a decision"
    return found.size


@kernel
def _joins(graph: GraphArrays, members: Ints, n: int, arm: int) -> bool:
    """Whether an arm and all of a clique reveal each other."""
    for i in range(n):
        if not (reveals(graph, members[i], arm) and reveals(graph, arm, members[i])):
            return False
    return True


@kernel
def _cliques(graph: GraphArrays) -> int:
    """Return how many cliques of arms that reveal each other cover the graph, found greedily."""
    n = graph.start.size
    taken = np.zeros(n, np.uint8)
    members = np.empty(n, np.int64)
    count, work = 0, 0.0
    for arm in range(n):
        if taken[arm]:
            continue
        taken[arm] = 1
        count += 1
        members[0], size, alike = arm, 1, True
        for other in range(arm + 1, graph.stop[arm]):
            # Arms whose runs are the same reveal each other.
            twin = alike and graph.start[other] == graph.start[arm] and graph.stop[other] == graph.stop[arm]
            if not taken[other] and work < _WORK and (twin or _joins(graph, members, size, other)):
                members[size], size, alike = other, size + 1, twin
                taken[other] = 1
            work += 1.0 if twin else size
        for e in range(graph.indptr[arm], graph.indptr[arm + 1]):
            other = graph.indices[e]
            if not taken[other] and work < _WORK and _joins(graph, members, size, other):
                members[size], size = other, size + 1
                taken[other] = 1
            work += size
    return count


def new_query(n_arms: int, size: int) -> Query:
    """Return an empty desk."""
    answer, chosen, other = np.zeros((3, size), np.int64)
    return blank(Query, n_arms, answer=answer, chosen=chosen, other=other, include=-1)


def new_decision_book(params: DecisionParams, evidence: Evidence) -> DecisionBook:
    """Return the book before the first round."""
    n, size = params.n_arms, params.size
    reference, committed = np.zeros((2, size), np.int64)
    return blank(
        DecisionBook,
        n,
        **{name: getattr(evidence, name)[:n] for name in ("counts", "sums", "between", "missed")},
        lower=evidence.lower[:n] + params.offset,
        upper=evidence.upper[:n] + params.offset,
        intervals=new_intervals(MIXTURE, 0.0, params.delta, n),
        reference=reference,
        committed=committed,
        n_reference=-1,
        n_committed=-1,
        refunded=-_REFUND,
        price=params.worst,
        gap=params.worst,
    )


def check_book(params: DecisionParams, book: DecisionBook, decisions: DecisionSet, asked: int) -> None:
    """Check the facts of a book that was loaded."""
    worst = params.worst * _SLACK
    check_facts(book, {"asked": asked, "longest": LONGEST, "size": params.size, "worst": worst})
    check_decision("reference", book.reference, int(book.n_reference), decisions)
    check_decision("committed", book.committed, int(book.n_committed), decisions)


def check_decision(name: str, arms: Ints, n: int, decisions: DecisionSet) -> None:
    """Refuse arms that were loaded and are no decision; -1 of them stand for none."""
    within(f"the size of {name}", n, -1, arms.size)
    if n >= 0:
        within(name, arms[:n], 0, decisions.n_arms - 1)
        require(np.diff(arms[:n]) > 0, f"arms of {name} must rise, got {arms[:n]}")
        require(decisions.contains(arms[:n]), f"{name} must be a decision, got {arms[:n]}")


@kernel
def copy_arms(arms: Ints, n: int, to: Ints) -> None:
    """Write the first n arms."""
    for i in range(n):
        to[i] = arms[i]


@kernel
def _same(arms: Ints, n: int, others: Ints, m: int) -> bool:
    """Whether two decisions, ascending, are one."""
    if n != m:
        return False
    for i in range(n):
        if arms[i] != others[i]:
            return False
    return True


@kernel
def excess(book: DecisionBook, marks: NDArray[np.uint8], arms: Ints, n: int, others: Ints, m: int) -> float:
    """Return the most that a decision can be better than another: upper ends it has alone, less lower ends it lacks."""
    more, less = 0.0, 0.0
    for i in range(m):
        marks[others[i]] = 1
    for i in range(n):
        if marks[arms[i]] == 0:
            more += book.upper[arms[i]]
        marks[arms[i]] = 0
    for i in range(m):
        if marks[others[i]] == 1:
            less += book.lower[others[i]]
            marks[others[i]] = 0
    return more - less if abs(more - less) > _ROUNDING * (abs(more) + abs(less)) else 0.0


@kernel
def _width(book: DecisionBook, marks: NDArray[np.uint8], arms: Ints, n: int, others: Ints, m: int) -> float:
    """Return the widths of the intervals that a decision has and another has not."""
    total = 0.0
    for i in range(m):
        marks[others[i]] = 1
    for i in range(n):
        if marks[arms[i]] == 0:
            total += book.upper[arms[i]] - book.lower[arms[i]]
    for i in range(m):
        marks[others[i]] = 0
    return total


@kernel
def renew_intervals(params: DecisionParams, evidence: Evidence, book: DecisionBook, seen: Ints) -> None:
    """Let intervals follow what was settled."""
    for i in range(seen.size):
        arm = seen[i]
        refresh(book.intervals, evidence, arm)
        book.lower[arm], book.upper[arm] = evidence.lower[arm] + params.offset, evidence.upper[arm] + params.offset


@kernel
def _is_mute(book: DecisionBook) -> bool:
    """Whether rewards of some arm do not come."""
    for a in range(book.missed.size):
        if book.missed[a] >= PATIENCE:
            return True
    return False


@kernel
def _hope(params: DecisionParams, book: DecisionBook, arm: int) -> float:
    """Return an arm's upper end; of one whose rewards do not come, that with least rewards in their places."""
    if book.missed[arm] < PATIENCE:
        return book.upper[arm]  # type: ignore[no-any-return]
    count = book.counts[arm] + as_least(book.missed[arm])
    high = interval(MIXTURE, count, book.sums[arm], book.between[arm], params.n_arms, 0.0, params.delta)[1]
    return max(book.lower[arm], min(book.upper[arm], high + params.offset))  # type: ignore[no-any-return]


@kernel
def _ask_challenger(book: DecisionBook, query: Query, arms: Ints, n: int) -> None:
    """Write the weights by which others are compared with a decision."""
    for a in range(book.upper.size):
        query.weights[a] = book.upper[a]
    for i in range(n):
        query.weights[arms[i]] = book.lower[arms[i]]


@kernel
def _ask_log(book: DecisionBook, query: Query) -> None:
    """Write the weights of the log of admitted decisions, with the proposal."""
    rounds = book.n_admitted + 1
    for a in range(book.upper.size):
        pulls = book.admitted[a]
        query.weights[a] = (rounds - pulls) * book.upper[a] + pulls * book.lower[a]
    for i in range(query.n_chosen):
        a = query.chosen[i]
        query.weights[a] += book.lower[a] - book.upper[a]


@kernel
def _log_loss(book: DecisionBook, query: Query) -> float:
    """Return what the log can have lost, from the answer."""
    total = 0.0
    for i in range(query.n_answer):
        total += query.weights[query.answer[i]]
    for a in range(book.upper.size):
        if book.admitted[a] > 0:
            total -= book.admitted[a] * book.lower[a]
    for i in range(query.n_chosen):
        total -= book.lower[query.chosen[i]]
    return max(total, 0.0)


@kernel
def _allow(params: DecisionParams, book: DecisionBook, t: int) -> None:
    """Raise the budget: what forced rounds alone could lose in t rounds, or what this run's have been worth."""
    if params.shadow:
        book.allowed = params.worst + params.factor * book.paid
        return
    b = math.log(params.n_arms / params.delta) + 0.5 * math.log(t) + math.log(2.0)
    paid = params.cover * params.size * b
    minimax = params.cover + 2.0 * math.sqrt(2.0 * paid * t)
    gap = 2.0 * params.cover + 8.0 * paid / book.gap if book.gap > 0.0 else math.inf
    # It never falls: among eligible arms more may be allowed than where all are.
    book.allowed = max(book.allowed, params.factor * min(minimax, _GAP_FACTOR * gap))


@kernel
def _refer(book: DecisionBook, arms: Ints, n: int, price: float, t: int) -> None:
    """Make a decision the reference."""
    copy_arms(arms, n, book.reference)
    book.n_reference, book.price, book.seen_at = n, price, t


@kernel
def _commit(book: DecisionBook, arms: Ints, n: int) -> None:
    copy_arms(arms, n, book.committed)
    book.n_committed = n


@kernel
def _narrow_gap(book: DecisionBook, query: Query) -> None:
    """Note that of two different decisions one is not the best: it loses the gap or more."""
    if book.n_reference >= 0 and not _same(query.chosen, query.n_chosen, book.reference, book.n_reference):
        book.gap = min(book.gap, max(book.price, book.cost))


@kernel
def _fits(book: DecisionBook) -> bool:
    return book.cost == 0.0 or book.elsewhere + book.spent + book.cost <= book.allowed * _SLACK


@kernel
def _open(params: DecisionParams, book: DecisionBook, query: Query, t: int) -> bool:
    """Price the proposal without a question; True if its certificate should be asked for."""
    _allow(params, book, t)
    book.cost = params.worst
    if book.n_reference >= 0:
        more = excess(book, query.marks, book.reference, book.n_reference, query.chosen, query.n_chosen)
        book.cost = min(params.worst, max(0.0, book.price + more))
        _narrow_gap(book, query)
    return not _fits(book) or t >= 2 * book.seen_at + 4 or t - book.seen_at > _STALE


@kernel
def _certified(book: DecisionBook, query: Query, t: int) -> None:
    """Take the proposal's certificate; a decision that can lose nothing is played for ever."""
    more = excess(book, query.marks, query.answer, query.n_answer, query.chosen, query.n_chosen)
    book.cost = min(book.cost, max(0.0, more))
    if book.n_reference < 0 or book.cost <= book.price or t - book.seen_at > _FRESH:
        _narrow_gap(book, query)
        _refer(book, query.chosen, query.n_chosen, book.cost, t)
    if book.cost == 0.0:
        _commit(book, query.chosen, query.n_chosen)


@kernel
def _challenged(book: DecisionBook, query: Query, t: int) -> None:
    """Play the wider side of the incumbent, in `other`, and its challenger, the answer.

    While rewards of some arm do not come, the challenger is one that can be settled, and nothing is certain.
    """
    more = excess(book, query.marks, query.answer, query.n_answer, query.other, query.n_other)
    certain = not _is_mute(book)
    if more <= 0.0:
        if certain:
            _commit(book, query.other, query.n_other)
        copy_arms(query.other, query.n_other, query.chosen)
        query.n_chosen = query.n_other
        return
    there = _width(book, query.marks, query.answer, query.n_answer, query.other, query.n_other)
    here = _width(book, query.marks, query.other, query.n_other, query.answer, query.n_answer)
    book.paid += max(there, here)
    if there >= here:
        copy_arms(query.answer, query.n_answer, query.chosen)
        query.n_chosen = query.n_answer
    else:
        copy_arms(query.other, query.n_other, query.chosen)
        query.n_chosen = query.n_other
    if certain and (book.n_reference < 0 or more < book.price or t - book.seen_at > _FRESH):
        _refer(book, query.other, query.n_other, more, t)


@kernel
def _ask_forced(params: DecisionParams, book: DecisionBook, query: Query) -> None:
    """Write the weights of a forced round: upper ends, wider intervals first, or with a shadow budget the means."""
    for a in range(params.n_arms):
        high = _hope(params, book, a)
        if not params.shadow:
            query.weights[a] = high - 1e-7 * (1.0 - (high - book.lower[a]))  # never above what is possible
        elif book.counts[a] > 0:
            query.weights[a] = min(max(book.sums[a] / book.counts[a] + params.offset, book.lower[a]), high)
        else:
            query.weights[a] = high


@kernel
def admit(params: DecisionParams, book: DecisionBook, query: Query, number: int) -> int:
    """Go on until the decision stands in `query.chosen`, or a question in `query.weights`; say which."""
    t, stage = number + 1, query.stage
    if stage == ADMIT:
        if book.n_committed >= 0:
            copy_arms(book.committed, book.n_committed, query.chosen)
            query.n_chosen = book.n_committed
            return DONE
        if _open(params, book, query, t):
            _ask_challenger(book, query, query.chosen, query.n_chosen)
            query.stage = CERTIFIED
            book.questions += 1
            return ASK_BEST
    if stage == CERTIFIED:
        _certified(book, query, t)
    if stage in (ADMIT, CERTIFIED) and not _fits(book) and t - book.refunded >= _REFUND:
        book.refunded = t
        _ask_log(book, query)
        query.stage = REFUNDED
        book.questions += 1
        return ASK_BEST
    if stage == REFUNDED:
        past = _log_loss(book, query)
        room = book.allowed * _SLACK - book.elsewhere
        book.spent = max(past - book.cost, 0.0) if past <= room else min(book.spent, past)
    if stage <= REFUNDED:
        if _fits(book):
            book.spent += book.cost
            book.n_admitted += 1
            for i in range(query.n_chosen):
                book.admitted[query.chosen[i]] += 1
            return DONE
        book.forced += 1
        _ask_forced(params, book, query)
        query.stage = CENTRED if params.shadow else HOPED
        book.questions += 1
        return ASK_BEST
    if stage == CENTRED:
        copy_arms(query.answer, query.n_answer, query.other)
        query.n_other = query.n_answer
        _ask_challenger(book, query, query.other, query.n_other)
        for a in range(params.n_arms):
            if book.missed[a] >= PATIENCE and query.weights[a] == book.upper[a]:
                query.weights[a] = _hope(params, book, a)
        query.stage = CHALLENGED
        book.questions += 1
        return ASK_BEST
    if stage == HOPED:
        copy_arms(query.answer, query.n_answer, query.chosen)
        query.n_chosen = query.n_answer
    else:
        _challenged(book, query, t)
    return DONE
