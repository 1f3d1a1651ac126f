"""The guard: admit proposals while what they can have lost, certified, stays within a budget; otherwise eliminate.

The budget grows by what elimination itself might lose, layer by layer, so that the whole keeps twice its guarantee
whatever is proposed. Intervals, sets and certificates stand still between two sorts: old intervals stay valid. A sort
waits until the intervals of a 32nd of the open arms are due and, since it looks at all arms, for some rounds if there
are many. Before elimination chooses there is always one.
"""

from __future__ import annotations

import math
from typing import NamedTuple

import numpy as np
from numpy.typing import NDArray

from armtriage.graphs.feedback import GraphArrays
from armtriage.kernels.jit import borrowed, inlined, kernel
from armtriage.kernels.order import kth_largest, sort_pairs, top_first
from armtriage.policies.elimination import sets as triage
from armtriage.policies.elimination.elimination import select as eliminate
from armtriage.policies.elimination.layers import MEMBERS, WAITING, close_layer, cover, next_pick, open_layer
from armtriage.policies.elimination.sets import (
    ACTIVE,
    CLOCK,
    CONFIRMED,
    DIRTY,
    ELIMINATED,
    N_ACTIVE,
    N_CONFIRMED,
    decide,
    drop_decided,
    refresh,
)

__all__ = ["Book", "GuardParams", "admit", "begin", "new_book", "note"]

N_DUE, ADMITTED, LAYERS, TIME, COVER, COVERED, RESUME, FORCED, CEILING, REST = range(10)
SPENT, ALLOWED, GAP, SPREAD, TOTAL = range(5)
_LAZY = 32
_PAUSE = 16
_WIDE = 128
_REFUND = 64


class GuardParams(NamedTuple):
    """Parameters of the kernels."""

    factor: float
    shadow: bool
    plain: bool  # whether each arm reveals itself only
    pause: int  # rounds between two counts of a cover, which take a look at the whole graph


class Book(NamedTuple):
    """The guard's account; all loss is in units of the reward range."""

    pulls: NDArray[np.int64]  # (K,) in all decisions
    admitted: NDArray[np.int64]  # (K,) in admitted proposals
    due: NDArray[np.int64]  # arms whose intervals are to be computed anew
    marks: NDArray[np.uint8]  # (K,) 1 for those, 2 as scratch
    ceiling: NDArray[np.int64]  # the arms of largest upper bound, largest first; enough to exchange a whole decision
    other: NDArray[np.int64]  # (S,) scratch
    whole: NDArray[np.int64]
    real: NDArray[np.float64]  # SPENT and ALLOWED loss, bound on the GAP, SPREAD of the intervals, certified TOTAL


def new_book(n_arms: int, budget: int) -> Book:
    """Return the book before the first round: no layer of elimination has been paid for."""
    ceiling = np.arange(min(n_arms, 2 * budget), dtype=np.int64)
    book = Book(
        np.zeros(n_arms, np.int64),
        np.zeros(n_arms, np.int64),
        np.zeros(n_arms, np.int64),
        np.zeros(n_arms, np.uint8),
        ceiling,
        np.zeros(budget, np.int64),
        np.zeros(10, np.int64),
        np.array([0.0, 0.0, 1.0, 1.0, 0.0]),
    )
    book.whole[LAYERS] = -1
    book.whole[CEILING] = ceiling.size
    return book


@kernel
def sort(params: triage.Params, sets: triage.State, book: Book) -> None:
    """Compute the intervals that are due, and confirm and eliminate until nothing changes."""
    sets, book = borrowed(sets), borrowed(book)
    for i in range(book.whole[N_DUE]):
        arm = book.due[i]
        book.marks[arm] = 0
        refresh(params, sets, arm)
    book.whole[N_DUE] = 0
    changed = True
    while changed:
        changed = False
        n, k = sets.whole[N_ACTIVE], params.budget - sets.whole[N_CONFIRMED]
        if n <= k:
            break
        least, greatest = 1.0, 0.0
        for i in range(n):
            sets.values[i] = sets.lower[sets.active[i]]
            least = min(least, sets.values[i])
        kth_lower, next_lower = kth_largest(sets.values, n, k), -np.inf
        for i in range(k, n):
            next_lower = max(next_lower, sets.values[i])
        for i in range(n):
            sets.values[i] = sets.upper[sets.active[i]]
            greatest = max(greatest, sets.values[i])
        kth_upper, next_upper = kth_largest(sets.values, n, k), -np.inf
        for i in range(k, n):
            next_upper = max(next_upper, sets.values[i])
        for i in range(n):
            arm = sets.active[i]
            if sets.lower[arm] > next_upper:
                decide(sets, arm, CONFIRMED)
                changed = True
            elif sets.upper[arm] < kth_lower:
                decide(sets, arm, ELIMINATED)
                changed = True
        if changed:
            drop_decided(sets)
        else:
            book.real[GAP] = max(0.0, min(book.real[GAP], kth_upper - next_lower))
            book.real[SPREAD] = greatest - least
    _raise_ceiling(sets, book)
    book.whole[REST] = sets.whole[CLOCK] + params.n_arms // (_PAUSE * params.budget)


@kernel
def _raise_ceiling(sets: triage.State, book: Book) -> None:
    """List the arms of largest upper bound that are not eliminated."""
    n, confirmed = sets.whole[N_ACTIVE], sets.whole[N_CONFIRMED]
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
    book.whole[CEILING] = k


@inlined
def note(
    params: triage.Params,
    sets: triage.State,
    book: Book,
    seen: NDArray[np.int64],
    rewards: NDArray[np.float64],
    n: int,
    scheduled: bool,
) -> None:
    """Record the rewards of the first n arms of `seen`; sort when enough intervals are due."""
    for i in range(n):
        arm = seen[i]
        count = sets.counts[arm] + 1
        sets.counts[arm] = count
        sets.sums[arm] += rewards[i]
        # A new interval from few rewards hardly differs from the last one.
        if count >= sets.due[arm] and book.marks[arm] == 0 and (count % 4 == 0 or count >= _WIDE):
            book.marks[arm] = 1
            book.due[book.whole[N_DUE]] = arm
            book.whole[N_DUE] += 1
    if scheduled:
        for i in range(n):
            sets.pending[seen[i]] -= 1
        sets.whole[triage.UNDERWAY] -= n
    is_open = sets.whole[N_ACTIVE] + sets.whole[N_CONFIRMED] > params.budget
    if is_open and sets.whole[CLOCK] >= book.whole[REST] and _LAZY * book.whole[N_DUE] >= sets.whole[N_ACTIVE]:
        sort(params, sets, book)


@kernel
def certificate(sets: triage.State, book: Book, arms: NDArray[np.int64]) -> float:
    """Return what the decision loses at most: the largest upper bounds outside for the least lower ones inside."""
    sets, book = borrowed(sets), borrowed(book)
    size = arms.size
    for i in range(size):
        sets.values[i] = -sets.lower[arms[i]]
        sets.chosen[i] = arms[i]
        book.marks[arms[i]] += 2
    sort_pairs(sets.values, sets.chosen, size)
    total, inside = 0.0, 0
    for i in range(book.whole[CEILING]):
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
    sets = borrowed(sets)
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
    sets = borrowed(sets)
    layer = sets.layer
    close_layer(layer)
    for i in range(sets.whole[N_ACTIVE]):
        arm = sets.active[i]
        layer.members[i] = arm
        layer.waiting[arm] = 1
        layer.crowd[arm >> 8] += 1
    layer.whole[MEMBERS] = sets.whole[N_ACTIVE]
    layer.whole[WAITING] = sets.whole[N_ACTIVE]
    for i in range(sets.whole[N_CONFIRMED]):
        cover(layer, graph, sets.confirmed[i])
    n = 0
    for i in range(layer.whole[MEMBERS]):
        arm = layer.members[i]
        if layer.waiting[arm] > 0:
            layer.members[n] = arm
            n += 1
    layer.whole[MEMBERS] = n
    open_layer(layer, graph)
    picks = 0
    while True:
        arm = next_pick(layer, graph, sets.preference)
        if arm < 0:
            return max(picks, 1)
        cover(layer, graph, arm)
        picks += 1


@kernel
def _least_count(sets: triage.State) -> int:
    least = sets.counts[sets.active[0]]
    for i in range(1, sets.whole[N_ACTIVE]):
        least = min(least, sets.counts[sets.active[i]])
    return least  # type: ignore[no-any-return]


@kernel
def _pay(
    guard: GuardParams, params: triage.Params, sets: triage.State, book: Book, graph: GraphArrays, rounds: int
) -> None:
    """Add to the budget what elimination can lose in the layers that it could have opened by now.

    It cannot have opened more than it had rounds for, nor need more than the least gap that is still possible asks
    for; the shadow budget pays for a layer only when every active arm has been seen that often.
    """
    sets, book = borrowed(sets), borrowed(book)
    if book.whole[TIME] > rounds:
        return
    free = params.budget - sets.whole[N_CONFIRMED]
    if guard.plain:
        book.whole[COVER] = sets.whole[N_ACTIVE]
    elif sets.whole[N_ACTIVE] != book.whole[COVERED] and rounds >= book.whole[RESUME]:
        book.whole[COVER] = _cover_size(sets, graph)
        book.whole[COVERED] = sets.whole[N_ACTIVE]
        book.whole[RESUME] = rounds + guard.pause
    base = math.log(params.n_arms / params.delta) + math.log(2.0)
    if guard.shadow:
        most = float(_least_count(sets))
        narrow = 1.0
    else:
        most = 8.0 * (base + 0.5 * math.log(rounds))
        narrow = book.real[GAP] ** 2
    size = book.whole[COVER]
    while (book.whole[LAYERS] + 1) * narrow <= most and book.whole[TIME] <= rounds:
        book.whole[LAYERS] += 1
        layer = book.whole[LAYERS]
        book.whole[TIME] += (size + free - 1) // free
        price = 1.0
        if layer > 0:
            price = min(1.0, 6.0 * math.sqrt((base + 0.5 * math.log(layer)) / (2.0 * layer)))
        if guard.shadow:
            price = min(price, book.real[SPREAD])
        book.real[ALLOWED] += guard.factor * (size + free - 1) * price


@inlined
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
    sets.whole[CLOCK] = number
    confirmed = sets.whole[N_CONFIRMED]
    if confirmed + sets.whole[N_ACTIVE] == arms.size:
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
    sets, book = borrowed(sets), borrowed(book)
    spent = book.real[SPENT] + cost
    for i in range(arms.size):
        book.admitted[arms[i]] += 1
    if spent > book.real[ALLOWED]:
        spent = min(spent, retrospective(sets, book.admitted, book.whole[ADMITTED] + 1, arms.size))
    if spent <= book.real[ALLOWED]:
        book.real[SPENT] = spent
    elif cost > 0.0:
        for i in range(arms.size):
            book.admitted[arms[i]] -= 1
        return False
    book.whole[ADMITTED] += 1
    return True


@kernel
def _most_hopeful(sets: triage.State, book: Book, arms: NDArray[np.int64]) -> None:
    """Fill `arms` with the confirmed arms and the active ones of largest upper bound."""
    n = sets.whole[N_CONFIRMED]
    for i in range(n):
        arms[i] = sets.confirmed[i]
    for i in range(book.whole[CEILING]):
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
    sets, book = borrowed(sets), borrowed(book)
    if book.whole[N_DUE] > 0:
        sort(params, sets, book)
    sets.whole[DIRTY] = 1
    eliminate(params, sets, graph, number, luck, arms)
    book.whole[FORCED] += 1


@inlined
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
    book.real[TOTAL] += cost
    for i in range(arms.size):
        book.pulls[arms[i]] += 1
    if (number + 1) % _REFUND == 0:
        book.real[TOTAL] = min(book.real[TOTAL], retrospective(sets, book.pulls, number + 1, arms.size))
