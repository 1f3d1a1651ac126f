"""The guard: admit proposals while what they can have lost, certified, stays within a budget; otherwise eliminate.

The budget grows by what elimination itself might lose, layer by layer, so that the whole keeps twice its guarantee
for any proposals. Intervals, sets and certificates stand still between two sorts: old intervals stay valid. A sort
waits until the intervals of a 32nd of the open arms are due and, since it looks at all arms, for some rounds if there
are many. Before elimination chooses there is always one.
"""

from __future__ import annotations

import math

import numpy as np
from numpy.typing import NDArray

from armtriage._arguments import LONGEST
from armtriage.graphs.feedback import GraphArrays
from armtriage.kernels.jit import kernel
from armtriage.kernels.order import kth_largest, sort_pairs, top_first
from armtriage.kernels.record import Record
from armtriage.policies.elimination import sets as triage
from armtriage.policies.elimination.elimination import select as eliminate
from armtriage.policies.elimination.layers import close_layer, cover, next_pick, open_layer
from armtriage.policies.elimination.sets import ACTIVE, judge, refresh
from armtriage.policies.facts import require, within

__all__ = ["Book", "GuardParams", "admit", "begin", "new_book", "note", "rebuild_book"]

# How lazily the guard looks: each saves time at the price of tighter certificates, never of their truth, since old
# intervals stay valid.
_DUE_SHARE = 32  # a sort waits until the intervals of this fraction of the active arms are due
_SORT_PAUSE = 16  # and for K / (16 S) rounds, so that it costs some arms a round however many there are
_WIDE = 128  # rewards up to which an interval is computed anew only for every fourth
_REFUND = 64  # rounds between two looks at what all decisions can have lost by the intervals of today


class GuardParams(Record, frozen=True):
    """Parameters of the kernels."""

    factor: float
    shadow: bool
    plain: bool  # whether each arm reveals itself only
    pause: int  # rounds between two counts of a cover, which take a look at the whole graph


class Book(Record):
    """The guard's account; all loss is in units of the reward range."""

    facts = (
        *("pulls", "admitted", "marks", "ceiling", "n_admitted", "layers", "time", "cover", "covered", "resume"),
        *("forced", "n_ceiling", "rest", "spent", "allowed", "gap", "spread", "total"),
    )
    pulls: NDArray[np.int64]  # (K,) in all decisions
    admitted: NDArray[np.int64]  # (K,) in admitted proposals
    due: NDArray[np.int64]  # arms whose intervals are to be computed anew
    marks: NDArray[np.uint8]  # (K,) 1 for those, 2 as scratch
    ceiling: NDArray[np.int64]  # the arms of largest upper bound, largest first; enough to exchange a whole decision
    other: NDArray[np.int64]  # (S,) scratch
    n_due: int
    n_admitted: int  # proposals
    layers: int  # of elimination that the budget pays for, from 0; -1 for none
    time: int  # rounds that elimination needs for them
    cover: int  # picks in which elimination sees every active arm
    covered: int  # active arms when that was counted
    resume: int  # the round from which it may be counted again
    forced: int  # rounds of elimination
    n_ceiling: int
    rest: int  # the round before which nothing is sorted
    spent: float
    allowed: float
    gap: float  # at most so large, by the intervals
    spread: float  # of the intervals
    total: float  # certified loss of all decisions


def new_book(n_arms: int, budget: int) -> Book:
    """Return the book before the first round: no layer of elimination has been paid for."""
    ceiling = np.arange(min(n_arms, 2 * budget), dtype=np.int64)
    return Book(
        np.zeros(n_arms, np.int64),
        np.zeros(n_arms, np.int64),
        np.zeros(n_arms, np.int64),
        np.zeros(n_arms, np.uint8),
        ceiling,
        np.zeros(budget, np.int64),
        n_due=0,
        n_admitted=0,
        layers=-1,
        time=0,
        cover=0,
        covered=0,
        resume=0,
        forced=0,
        n_ceiling=ceiling.size,
        rest=0,
        spent=0.0,
        allowed=0.0,
        gap=1.0,
        spread=1.0,
        total=0.0,
    )


def rebuild_book(book: Book, asked: int) -> None:
    """Check the facts of a book that was loaded, and list the arms that are due."""
    n, most = book.pulls.size, float(np.finfo(np.float64).max)
    within("pulls of the guard", book.pulls, 0, asked)
    within("admitted pulls", book.admitted, 0, asked)
    within("marks", book.marks, 0, 1)
    within("the size of the ceiling", book.n_ceiling, 0, book.ceiling.size)
    within("ceiling", book.ceiling, 0, n - 1)
    require(np.unique(book.ceiling[: book.n_ceiling]).size == book.n_ceiling, "ceiling must have different arms")
    for name, least, largest in (
        ("n_admitted", 0, asked),
        ("forced", 0, asked),
        ("layers", -1, LONGEST),
        ("time", 0, LONGEST),
        ("cover", 1 if book.layers >= 0 else 0, n),
        ("covered", 0, n),
        ("resume", 0, LONGEST),
        ("rest", 0, LONGEST),
        ("spent", 0.0, most),
        ("allowed", 0.0, most),
        ("gap", 0.0, 1.0),
        ("spread", 0.0, 1.0),
        ("total", 0.0, most),
    ):
        within(name, getattr(book, name), least, largest)
    due = np.flatnonzero(book.marks)
    book.due[: due.size], book.n_due = due, due.size


@kernel
def _refresh_due(params: triage.Params, sets: triage.State, book: Book) -> None:
    """Compute the intervals that are due."""
    for i in range(book.n_due):
        arm = book.due[i]
        book.marks[arm] = 0
        refresh(params, sets, arm)
    book.n_due = 0


@kernel
def sort(params: triage.Params, sets: triage.State, book: Book) -> None:
    """Compute the intervals that are due, and confirm and eliminate until nothing changes."""
    _refresh_due(params, sets, book)
    while sets.n_active > params.budget - sets.n_confirmed:
        ranks = judge(params, sets)
        if not ranks.changed:
            book.gap = max(0.0, min(book.gap, ranks.gap))
            book.spread = ranks.spread
            break
    _raise_ceiling(sets, book)
    book.rest = sets.clock + params.n_arms // (_SORT_PAUSE * params.budget)


@kernel
def _raise_ceiling(sets: triage.State, book: Book) -> None:
    """List the arms of largest upper bound that are not eliminated."""
    n, confirmed = sets.n_active, sets.n_confirmed
    for i in range(n):
        sets.chosen[i] = sets.active[i]
    for i in range(confirmed):
        sets.chosen[n + i] = sets.confirmed[i]
    n += confirmed
    for i in range(n):
        sets.values[i] = sets.upper[sets.chosen[i]]
    k = min(n, book.ceiling.size)
    top_first(sets.values, sets.chosen, n, k)
    sort_pairs(sets.values, sets.chosen, k)
    for i in range(k):
        book.ceiling[i] = sets.chosen[i]
    book.n_ceiling = k


@kernel
def note(
    params: triage.Params,
    sets: triage.State,
    book: Book,
    seen: NDArray[np.int64],
    rewards: NDArray[np.float64],
    n: int,
    scheduled: bool,
) -> None:
    """Record the rewards of the first n arms of `seen`; sort when enough intervals are due.

    When all is decided nothing is sorted any more, but intervals that contradict their past are still noticed.
    """
    for i in range(n):
        arm = seen[i]
        count = sets.counts[arm] + 1
        sets.counts[arm] = count
        sets.sums[arm] += rewards[i]
        sets.between[arm] += rewards[i] * (1.0 - rewards[i])
        # A new interval from few rewards hardly differs from the last one.
        if count >= sets.due[arm] and book.marks[arm] == 0 and (count % 4 == 0 or count >= _WIDE):
            book.marks[arm] = 1
            book.due[book.n_due] = arm
            book.n_due += 1
    if scheduled:
        for i in range(n):
            sets.pending[seen[i]] -= 1
        sets.underway -= n
    if sets.mute > 0:
        for i in range(n):
            sets.missed[seen[i]] = 0
    if sets.n_active + sets.n_confirmed <= params.budget:
        _refresh_due(params, sets, book)
    elif sets.clock >= book.rest and _DUE_SHARE * book.n_due >= sets.n_active:
        sort(params, sets, book)


@kernel
def certificate(sets: triage.State, book: Book, arms: NDArray[np.int64]) -> float:
    """Return what the decision loses at most: the largest upper bounds outside for the least lower ones inside."""
    size = arms.size
    for i in range(size):
        sets.values[i] = -sets.lower[arms[i]]
        sets.chosen[i] = arms[i]
        book.marks[arms[i]] += 2
    sort_pairs(sets.values, sets.chosen, size)
    total, inside = 0.0, 0
    for i in range(book.n_ceiling):
        arm = book.ceiling[i]
        if book.marks[arm] < 2:
            amount = sets.upper[arm] + sets.values[inside]
            if amount <= 0.0:
                break
            total += amount
            inside += 1
            if inside == size:
                break
    for i in range(size):
        book.marks[arms[i]] -= 2
    return total


@kernel
def retrospective(sets: triage.State, pulls: NDArray[np.int64], rounds: int, size: int) -> float:
    """Return what decisions with these pulls lost at most, by the intervals of today."""
    kept = 0.0
    for a in range(pulls.size):
        low = pulls[a] * sets.lower[a]
        kept += low
        sets.values[a] = (rounds - pulls[a]) * sets.upper[a] + low
    kth_largest(sets.values, pulls.size, size)
    best = 0.0
    for i in range(size):
        best += sets.values[i]
    return max(best - kept, 0.0)


@kernel
def _cover_size(sets: triage.State, graph: GraphArrays) -> int:
    """Return how many picks elimination makes to see every active arm that confirmed ones do not reveal."""
    layer = sets.layer
    close_layer(layer)
    for i in range(sets.n_active):
        arm = sets.active[i]
        layer.members[i] = arm
        layer.waiting[arm] = 1
        layer.crowd[arm >> 8] += 1
    layer.n_members = sets.n_active
    layer.n_waiting = sets.n_active
    for i in range(sets.n_confirmed):
        cover(layer, graph, sets.confirmed[i])
    n = 0
    for i in range(layer.n_members):
        arm = layer.members[i]
        if layer.waiting[arm] > 0:
            layer.members[n] = arm
            n += 1
    layer.n_members = n
    open_layer(layer, graph)
    picks = 0
    while True:
        arm = next_pick(layer, graph, sets.preference)
        if arm < 0:
            return max(picks, 1)
        cover(layer, graph, arm)
        picks += 1


@kernel
def _least_observed(sets: triage.State) -> int:
    """Return how often the least observed active arm has really been: a lost reward completes no layer."""
    least = sets.counts[sets.active[0]]
    for i in range(1, sets.n_active):
        least = min(least, sets.counts[sets.active[i]])
    return least  # type: ignore[no-any-return]


@kernel
def _pay(
    guard: GuardParams, params: triage.Params, sets: triage.State, book: Book, graph: GraphArrays, rounds: int
) -> None:
    """Add to the budget what elimination can lose in the layers that it could have opened by now.

    It cannot have opened more than it had rounds for, nor need more than the least gap that is still possible asks
    for; the shadow budget pays for a layer only when every active arm has been seen that often, too. Counts alone
    would not do: sets may be older than they are.
    """
    if book.time > rounds:
        return
    free = params.budget - sets.n_confirmed
    if guard.plain:
        book.cover = sets.n_active
    elif sets.n_active != book.covered and rounds >= book.resume:
        book.cover = _cover_size(sets, graph)
        book.covered = sets.n_active
        book.resume = rounds + guard.pause
    base = math.log(params.n_arms / params.delta) + math.log(2.0)
    most = _least_observed(sets) if guard.shadow else rounds
    needed, narrow = 8.0 * (base + 0.5 * math.log(rounds)), book.gap**2
    size = book.cover
    while book.layers < most and (book.layers + 1) * narrow <= needed and book.time <= rounds:
        book.layers += 1
        layer = book.layers
        book.time += (size + free - 1) // free
        price = 1.0
        if layer > 0:
            price = min(1.0, 6.0 * math.sqrt((base + 0.5 * math.log(layer)) / (2.0 * layer)))
        if guard.shadow:
            price = min(price, book.spread)
        book.allowed += guard.factor * (size + free - 1) * price


@kernel
def begin(
    guard: GuardParams,
    params: triage.Params,
    sets: triage.State,
    book: Book,
    graph: GraphArrays,
    number: int,
    arms: NDArray[np.int64],
) -> bool:
    """Raise the budget for a round; True, with the decision in `arms`, if it can never change again."""
    sets.clock = number
    confirmed = sets.n_confirmed
    if confirmed + sets.n_active == arms.size:
        for i in range(confirmed):
            arms[i] = sets.confirmed[i]
        for i in range(confirmed, arms.size):
            arms[i] = sets.active[i - confirmed]
        return True
    _pay(guard, params, sets, book, graph, number + 1)
    return False


@kernel
def _admits(params: triage.Params, sets: triage.State, book: Book, arms: NDArray[np.int64], cost: float) -> bool:
    """Book a decision of this cost if the budget allows it, after a refund if need be."""
    spent = book.spent + cost
    for i in range(arms.size):
        book.admitted[arms[i]] += 1
    if spent > book.allowed:
        spent = min(spent, retrospective(sets, book.admitted, book.n_admitted + 1, arms.size))
    if spent <= book.allowed:
        book.spent = spent
    elif cost > 0.0:
        for i in range(arms.size):
            book.admitted[arms[i]] -= 1
        return False
    book.n_admitted += 1
    return True


@kernel
def _most_hopeful(sets: triage.State, book: Book, arms: NDArray[np.int64]) -> None:
    """Fill `arms` with the confirmed arms and the active ones of largest upper bound."""
    n = sets.n_confirmed
    for i in range(n):
        arms[i] = sets.confirmed[i]
    for i in range(book.n_ceiling):
        if n == arms.size:
            break
        if sets.status[book.ceiling[i]] == ACTIVE:
            arms[n] = book.ceiling[i]
            n += 1


@kernel
def _force(
    params: triage.Params,
    sets: triage.State,
    book: Book,
    graph: GraphArrays,
    number: int,
    luck: np.uint64,
    arms: NDArray[np.int64],
) -> None:
    """Fill `arms` with a decision of elimination."""
    if book.n_due > 0:
        sort(params, sets, book)
    sets.dirty = 1
    eliminate(params, sets, graph, number, luck, arms)
    book.forced += 1


@kernel
def admit(
    params: triage.Params,
    sets: triage.State,
    book: Book,
    graph: GraphArrays,
    number: int,
    luck: np.uint64,
    arms: NDArray[np.int64],
) -> None:
    """Keep the proposal in `arms`, or put there the arms of largest upper bound, or a decision of elimination."""
    cost = certificate(sets, book, arms)
    if not _admits(params, sets, book, arms, cost):
        _most_hopeful(sets, book, arms)
        cost = certificate(sets, book, arms)
        if not _admits(params, sets, book, arms, cost):
            _force(params, sets, book, graph, number, luck, arms)
            cost = certificate(sets, book, arms)
    book.total += cost
    for i in range(arms.size):
        book.pulls[arms[i]] += 1
    if (number + 1) % _REFUND == 0:
        book.total = min(book.total, retrospective(sets, book.pulls, number + 1, arms.size))
