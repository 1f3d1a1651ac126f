"""View: how intervals sort the candidates of a request, and what a decision among them can lose.

An arm is confirmed if it certainly belongs to the best of the candidates, open if it may, and hopeless otherwise. All
of that follows from the intervals, which stay true when they grow old: so a view may be older than the evidence. It
keeps the upper ends by which it was sorted, since an arm outside of an old list may have risen above one inside.
"""

from __future__ import annotations

import numpy as np
from numpy.typing import NDArray

from armtriage.graphs.feedback import FeedbackGraph, GraphArrays
from armtriage.kernels.jit import kernel
from armtriage.kernels.order import kth_largest, sort_pairs, top_first
from armtriage.kernels.record import Floats, Ints, Record, blank
from armtriage.policies.elimination.layers import Layer, cover, new_layer, next_pick, open_layer
from armtriage.policies.evidence import Evidence


class Scratch(Record):
    """Room to work in; nothing in it outlasts a call."""

    facts = ()
    everybody: Ints  # (room,) the numbers of all arms, which stay
    keys: Floats  # (room,)
    values: Floats
    best: Ints
    chosen: Ints
    degrees: Ints  # and what `largest` sets aside
    flags: NDArray[np.uint8]  # always left at 0
    clock: int  # the round


class View(Record):
    """Candidates as their intervals sort them."""

    facts = ()
    confirmed: Ints  # (S,)
    open: Ints  # (room,) ascending
    ceiling: Ints  # (2 S,) the arms of largest upper end, largest first, once found: enough to exchange a decision
    ends: Floats  # (2 S,) those upper ends
    n_confirmed: int
    n_open: int
    n_ceiling: int
    gap: float  # at most so much lies between the last arm of the best decision and the next
    lower_level: float  # what usually few more than the arms wanted pass, see `largest`
    upper_level: float
    pick_level: float
    mean_level: float


def new_scratch(room: int) -> Scratch:
    """Return room for so many arms."""
    return blank(Scratch, room, everybody=np.arange(room))


def new_view(room: int, budget: int) -> View:
    """Return a view of no arms."""
    ceiling, ends = np.zeros(2 * budget, np.int64), np.zeros(2 * budget)
    return blank(View, room, confirmed=np.zeros(budget, np.int64), ceiling=ceiling, ends=ends, gap=1.0)


@kernel
def largest(scratch: Scratch, column: Floats, among: Ints, k: int, level: float) -> float:
    """Put the k arms that are largest in a column into `best`, in any order; of equals those of smaller number.

    Return the level to look for them at next time. `among` ascends. First only arms above the level are listed, which
    are usually few more than k, or else few enough for the first arms that are just at it; and all of them if that is
    not enough. Thousands may be equal while counts are small.
    """
    keys, best, equals = scratch.keys, scratch.best, scratch.degrees
    above, equal = 0, 0
    for i in range(among.size):
        arm = among[i]
        value = column[arm]
        keys[above], best[above], equals[equal] = value, arm, arm
        above += value > level
        equal += value == level
    if above + equal < k:
        n = among.size
        for i in range(n):
            keys[i], best[i] = column[among[i]], among[i]
        top_first(keys, best, n, k)
        return kth_largest(keys[k:n], n - k, min(n - k, k // 2 + 8)) if n > k else -np.inf
    for i in range(above, k):
        keys[i], best[i] = level, equals[i - above]
    top_first(keys, best, above, k)
    # A level that was too high is mended at once, one that is too low now and then.
    if above > 2 * k + 32 and scratch.clock % 16 == 0:
        return kth_largest(keys[k:above], above - k, k // 2 + 8)
    return level


@kernel
def _find_ceiling(evidence: Evidence, scratch: Scratch, view: View, among: Ints, size: int) -> None:
    n = min(among.size, 2 * size)
    view.upper_level = largest(scratch, evidence.upper, among, n, view.upper_level)
    sort_pairs(scratch.keys, scratch.best, n)
    for i in range(n):
        view.ceiling[i], view.ends[i] = scratch.best[i], scratch.keys[i]
    view.n_ceiling = n


@kernel
def sort_view(evidence: Evidence, scratch: Scratch, view: View, among: Ints, size: int, sets_only: bool) -> None:
    """Sort candidates, more of them than the decision's `size`; the ceiling, too, unless only the sets are wanted.

    One pass finds what a repeated one would: see `docs/certificate.md`.
    """
    view.lower_level = largest(scratch, evidence.lower, among, size + 1, view.lower_level)
    largest_lower, kth_lower, next_lower = -np.inf, np.inf, np.inf
    for i in range(size + 1):
        end = scratch.keys[i]
        kth_lower, next_lower = min(kth_lower, max(end, next_lower)), min(next_lower, end)
        largest_lower = max(largest_lower, end)
    confirmed, n, reach = 0, 0, 0
    if sets_only:
        for i in range(among.size):
            upper = evidence.upper[among[i]]
            view.open[n] = among[i]
            n += upper >= kth_lower
            reach += upper >= largest_lower
    if reach > size:
        # No arm is confirmed: more upper ends than there are slots reach the largest lower one.
        view.n_confirmed, view.n_open, view.n_ceiling = 0, n, 0
        return
    _find_ceiling(evidence, scratch, view, among, size)
    next_upper, n = view.ends[size], 0
    view.gap = view.ends[size - 1] - next_lower
    for i in range(among.size):
        arm = among[i]
        if evidence.lower[arm] > next_upper:
            view.confirmed[confirmed] = arm
            confirmed += 1
        else:
            view.open[n] = arm
            n += evidence.upper[arm] >= kth_lower
    view.n_confirmed, view.n_open = confirmed, n


@kernel
def take_confirmed(view: View, arms: Ints) -> None:
    """Put the confirmed arms first."""
    for i in range(view.n_confirmed):
        arms[i] = view.confirmed[i]


@kernel
def take_certain(view: View, arms: Ints) -> bool:
    """Fill `arms` and return True, if no more arms are confirmed or open than there are slots."""
    if view.n_confirmed + view.n_open > arms.size:
        return False
    take_confirmed(view, arms)
    for i in range(view.n_open):
        arms[view.n_confirmed + i] = view.open[i]
    return True


@kernel
def price(evidence: Evidence, scratch: Scratch, view: View, arms: Ints) -> float:
    """Return what a decision loses at most: the largest upper ends outside for the least lower ones inside."""
    size = arms.size
    for i in range(size):
        scratch.keys[i], scratch.best[i] = -evidence.lower[arms[i]], arms[i]
        scratch.flags[arms[i]] = 1
    sort_pairs(scratch.keys, scratch.best, size)
    total, inside = 0.0, 0
    for i in range(view.n_ceiling):
        if inside < size and scratch.flags[view.ceiling[i]] == 0:
            total += max(0.0, view.ends[i] + scratch.keys[inside])
            inside += 1
    for i in range(size):
        scratch.flags[arms[i]] = 0
    return total


@kernel
def fill_by_upper(scratch: Scratch, view: View, place: int, arms: Ints) -> None:
    """Fill `arms` from `place` on with the arms of largest upper end that are not there before.

    Open arms have larger ones than hopeless arms, so all that are needed are in the ceiling.
    """
    for i in range(place):
        scratch.flags[arms[i]] = 1
    taken = place
    for i in range(view.n_ceiling):
        if taken < arms.size and scratch.flags[view.ceiling[i]] == 0:
            arms[taken] = view.ceiling[i]
            taken += 1
    for i in range(place):
        scratch.flags[arms[i]] = 0


@kernel
def _unmark(scratch: Scratch, graph: GraphArrays, arm: int) -> int:
    """Let no arm wait that the arm reveals; return how many did."""
    n = 0
    for other in range(graph.start[arm], graph.stop[arm]):
        n += scratch.flags[other]
        scratch.flags[other] = 0
    for e in range(graph.indptr[arm], graph.indptr[arm + 1]):
        n += scratch.flags[graph.indices[e]]
        scratch.flags[graph.indices[e]] = 0
    return n


@kernel
def _degree(scratch: Scratch, graph: GraphArrays, arm: int) -> int:
    """Return how many waiting arms an arm reveals."""
    degree = 0
    for other in range(graph.start[arm], graph.stop[arm]):
        degree += scratch.flags[other]
    for e in range(graph.indptr[arm], graph.indptr[arm + 1]):
        degree += scratch.flags[graph.indices[e]]
    return degree


@kernel
def _next_pick(evidence: Evidence, scratch: Scratch, graph: GraphArrays, n: int) -> int:
    """Return the waiting one of the first n arms of `chosen` that reveals most of those that wait, or -1.

    Of equals it is the one of largest upper end. Degrees only fall while the cover is made, so an arm is counted again
    only if its old degree would win.
    """
    while True:
        best, most = -1, 0
        for i in range(n):
            arm = scratch.chosen[i]
            if scratch.flags[arm] > 0:
                degree = scratch.degrees[i]
                equal = degree == most and evidence.upper[arm] > evidence.upper[scratch.chosen[best]]
                if degree > most or equal:
                    best, most = i, degree
        if best < 0:
            return -1
        arm = scratch.chosen[best]
        scratch.degrees[best] = _degree(scratch, graph, arm) if most > 1 else 1
        if scratch.degrees[best] == most:
            return arm  # type: ignore[no-any-return]


@kernel
def explore(evidence: Evidence, scratch: Scratch, view: View, graph: GraphArrays, plain: bool, arms: Ints) -> None:
    """Fill `arms` behind the confirmed ones with a round of elimination: a cover of the least tried open arms.

    Slots that the cover leaves free go to the largest upper ends. With other candidates in every round, neither the
    largest mean nor the next least tried arm would do: either may be hopeless, again and again.
    """
    confirmed, n = view.n_confirmed, view.n_open
    counts = evidence.settled_counts if evidence.parted > 0 else evidence.counts
    credit, pending, degrees, opened = evidence.credit, evidence.pending, scratch.degrees, view.open
    least, m = counts[opened[0]] + credit[opened[0]] + pending[opened[0]], 0
    for i in range(n):
        degrees[i] = counts[opened[i]] + credit[opened[i]] + pending[opened[i]]  # as `tries`, asked once what counts
        least = min(least, degrees[i])
    for i in range(n):
        scratch.chosen[m] = opened[i]
        m += degrees[i] == least
    first, waiting, place = scratch.chosen[0], m, confirmed
    take_confirmed(view, arms)
    if not plain:
        for i in range(m):
            scratch.flags[scratch.chosen[i]] = 1
            if evidence.upper[scratch.chosen[i]] > evidence.upper[first]:
                first = scratch.chosen[i]
        for i in range(confirmed):
            waiting -= _unmark(scratch, graph, arms[i])
    if waiting == 0:
        # What the confirmed arms reveal costs nothing, but a round without a pick of its own would prove nothing.
        arms[place] = first
        place += 1
    elif plain:
        k = min(arms.size - confirmed, m)
        view.pick_level = largest(scratch, evidence.upper, scratch.chosen[:m], k, view.pick_level)
        for i in range(k):
            arms[place + i] = scratch.best[i]
        place += k
    else:
        for i in range(m):
            scratch.degrees[i] = _degree(scratch, graph, scratch.chosen[i])
        while place < arms.size:
            arm = _next_pick(evidence, scratch, graph, m)
            if arm < 0:
                break
            _unmark(scratch, graph, arm)
            arms[place] = arm
            place += 1
    if not plain:
        for i in range(m):
            scratch.flags[scratch.chosen[i]] = 0
    if place < arms.size:
        if view.n_ceiling == 0:
            _find_ceiling(evidence, scratch, view, view.open[:n], arms.size)
        fill_by_upper(scratch, view, place, arms)


@kernel
def cover_of_open(scratch: Scratch, view: View, graph: GraphArrays) -> int:
    """Return how many open arms a greedy cover of the open arms has: by degree, of equals the smallest.

    Degrees only fall while the cover is made, so arms are counted again only when it is the turn of their old degree.
    """
    n, most, picks = view.n_open, 0, 0
    for i in range(n):
        scratch.flags[view.open[i]] = 1
    for i in range(n):
        scratch.degrees[i] = _degree(scratch, graph, view.open[i])
        most = max(most, scratch.degrees[i])
    while most > 0:
        after = 0
        for i in range(n):
            arm = view.open[i]
            if scratch.flags[arm] > 0 and scratch.degrees[i] >= most:
                scratch.degrees[i] = _degree(scratch, graph, arm)
                if scratch.degrees[i] == most:
                    _unmark(scratch, graph, arm)
                    picks += 1
            if scratch.flags[arm] > 0:
                after = max(after, scratch.degrees[i])
        most = after
    return picks


@kernel
def _count_cover(layer: Layer, graph: GraphArrays, arms: Ints, preference: Floats) -> int:
    for i in range(arms.size):
        layer.members[i] = arms[i]
        layer.waiting[arms[i]] = 1
        layer.crowd[arms[i] >> 8] += 1
    layer.n_members = layer.n_waiting = arms.size
    open_layer(layer, graph)
    picks = 0
    while True:
        arm = next_pick(layer, graph, preference)
        if arm < 0:
            return picks
        cover(layer, graph, arm)
        picks += 1


def cover_of(graph: FeedbackGraph, arms: Ints) -> int:
    """Return how many picks a greedy cover of arms, ascending, has: by degree, of equals the smallest."""
    return int(_count_cover(new_layer(graph), graph.arrays, arms, np.zeros(0)))
