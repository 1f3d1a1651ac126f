"""Covers: as few sets as possible that hold everything, and the two greedy ways to get there."""

from __future__ import annotations

from functools import cache
from typing import Any

import numpy as np
from numpy.typing import NDArray

from armtriage.graphs.feedback import FeedbackGraph, GraphArrays
from armtriage.kernels.jit import kernel
from armtriage.theory.independence import (
    EDGES,
    OPEN,
    OUT,
    SLACK,
    TAKEN,
    Answer,
    Clock,
    components,
    lists_of,
    name_of,
    position,
    say_how,
)

__all__ = ["greedy_cover", "make_ready", "smallest_cover", "smallest_dominating_set"]

Ints = NDArray[np.int64]
SmallInts = NDArray[np.int32]
Marks = NDArray[np.uint8]

_SHIFT = 8
_REDUCING = 100_000_000  # comparisons of sets, a second or so; large dense families would take minutes
_PROGRAMMED = 150_000  # entries up to which HiGHS finishes its first linear program in seconds
_FEW, _SHARE = 10, 0.6  # with few sets a search takes seconds at 100 arms, where the bound of HiGHS hardly moves


@cache
def make_ready() -> None:
    """Compile the kernels, so that no time limit pays for it."""
    indptr, indices = np.arange(3), np.array([1, 0], np.int32)
    _reduce(indptr, indices, 1, np.full(2, OPEN, np.uint8), 1)
    _fair_price(indptr, indices, 1)
    no_run = np.zeros(1, np.int32)
    greedy_cover(GraphArrays(no_run, no_run, indptr[:2], indices[1:]), np.ones(1, np.uint8), False)


def smallest_dominating_set(graph: FeedbackGraph, time_limit: float) -> Answer:
    """Return arms that reveal all, ascending, and a lower bound of how many it takes."""
    if not graph.arrays.indices.size:
        arms = _run_cover(graph.arrays)
        return Answer(arms, arms.size, say_how(True, [name_of(graph)]))
    if graph.n_edges > EDGES:
        picks = greedy_cover(graph.arrays, np.ones(graph.n_arms, np.uint8), False)
        arms = min(np.sort(picks), _run_cover(graph.arrays), key=len)
        bound = -(-graph.n_arms // int(graph.out_degrees.max()))
        return Answer(arms, bound, say_how(arms.size == bound, ["greedy", "degrees"], "too many edges to write out"))
    make_ready()
    return smallest_cover(graph.to_sparse(), Clock(time_limit))


def smallest_cover(sets: Any, clock: Clock) -> Answer:
    """Return rows of a sparse matrix, as few as can be found, that hold all columns, and a lower bound.

    A row holds the columns where its entries are not 0; every column must be held by some row. Reductions come first,
    then each component of what they leave is solved by HiGHS, unless greed is shown to be as good.
    """
    from scipy.sparse import block_array

    n_sets = sets.shape[0]
    both = block_array([[None, sets], [sets.T, None]], format="csr")
    indptr, indices = lists_of(both)
    status = np.full(both.shape[0], OPEN, np.uint8)
    _reduce(indptr, indices, n_sets, status, _REDUCING)
    chosen = [np.flatnonzero(status == TAKEN)]
    bound, means = chosen[0].size, []
    for nodes, indptr, indices in components(both, np.flatnonzero(status == OPEN)):
        part = _component(indptr, indices, int(np.searchsorted(nodes, n_sets)), clock)
        chosen.append(nodes[part.chosen])
        bound += part.bound
        means.append(part.how)
    found = np.sort(np.concatenate(chosen))
    return Answer(found, bound, say_how(found.size == bound, means or ["reductions"], clock.verdict))


def _component(indptr: Ints, indices: SmallInts, n_sets: int, clock: Clock) -> Answer:
    """Return the answer for sets, the first nodes, and what they hold, the others, that cannot be reduced."""
    bound, how = int(np.ceil(_fair_price(indptr, indices, n_sets) - SLACK)), "greedy and packing"
    n_things = indptr.size - 1 - n_sets
    indptr, indices = indptr[: n_sets + 1], indices[: indptr[n_sets]] - np.int32(n_sets)
    no_run = np.zeros(n_sets, np.int32)
    found = greedy_cover(GraphArrays(no_run, no_run, indptr, indices), np.ones(n_things, np.uint8), False)
    if indices.size <= _PROGRAMMED:
        if bound < found.size <= _FEW:
            found, searched = _searched(indptr, indices, n_things, found, bound, clock.part(_SHARE))
            if searched > bound:
                bound, how = searched, "branch and bound"
        if bound < found.size and clock.left > 0:
            found, programmed = _programmed(indptr, indices, n_things, found, clock)
            if programmed > bound:
                bound, how = programmed, "integer programming"
    return Answer(found, bound, how)


def _searched(
    indptr: Ints, indices: SmallInts, n_things: int, found: Ints, bound: int, clock: Clock
) -> tuple[Ints, int]:
    """Return a smallest cover by depth-first search, or if time runs out, `found` and a size that is too small plus 1.

    Each node takes the rarest thing that is missing and tries the sets that hold it, the largest gain first.
    """
    rank = np.argsort(np.argsort(np.bincount(indices, minlength=n_things), kind="stable"))
    lists = [rank[indices[indptr[s] : indptr[s + 1]]].tolist() for s in range(indptr.size - 1)]
    sets = [sum(1 << thing for thing in one) for one in lists]
    holders: list[list[int]] = [[] for _ in range(n_things)]
    for s, one in enumerate(lists):
        for thing in one:
            holders[thing].append(s)

    def search(missing: int, size: int, tried: int) -> list[int] | None:
        if not missing:
            return []
        if clock.left <= 0:
            raise TimeoutError
        rarest = (missing & -missing).bit_length() - 1
        if size == 1:
            last = next((s for s in holders[rarest] if not missing & ~sets[s]), None)
            return None if last is None else [last]
        count, most = missing.bit_count(), max((one & missing).bit_count() for one in sets)
        for s in sorted(holders[rarest], key=lambda s: -(sets[s] & missing).bit_count()):
            if (sets[s] & missing).bit_count() + (size - 1) * most < count:
                break
            if not tried >> s & 1:
                rest = search(missing & ~sets[s], size - 1, tried)
                if rest is not None:
                    return [s, *rest]
                tried |= 1 << s
        return None

    try:
        while bound < found.size:
            cover = search((1 << n_things) - 1, bound, 0)
            if cover is not None:
                return np.sort(cover), bound
            bound += 1
    except TimeoutError:
        pass
    return found, bound


def _programmed(indptr: Ints, indices: SmallInts, n_things: int, found: Ints, clock: Clock) -> tuple[Ints, int]:
    """Return the smallest cover that HiGHS finds, if smaller than `found`, and its lower bound."""
    from scipy.optimize import Bounds, LinearConstraint, milp
    from scipy.sparse import csc_array

    n = indptr.size - 1
    holders = csc_array((np.ones(indices.size), indices, indptr), shape=(n_things, n))
    answer = milp(
        np.ones(n),
        integrality=np.ones(n, np.int64),
        bounds=Bounds(0.0, 1.0),
        constraints=LinearConstraint(holders, 1.0, np.inf),
        options={"mip_rel_gap": 0.0, "time_limit": max(clock.left, 0.0)},
    )
    limit = getattr(answer, "mip_dual_bound", None)
    bound = 1 if limit is None or not np.isfinite(limit) else int(np.ceil(limit - SLACK))
    if answer.x is not None:
        other = np.flatnonzero(answer.x > 0.5)
        if other.size < found.size and (holders[:, other].sum(axis=1) > 0.5).all():
            found = other
    return found, min(bound, found.size)


@kernel
def greedy_cover(sets: GraphArrays, missing: Marks, only_missing: bool) -> Ints:
    """Return sets that hold all that is missing, each the one that holds most of what then still is; ties to the first.

    Chvatal's greedy picks among all sets. The paper's is about arms and what they reveal, and picks `only_missing`
    ones: arms that no earlier pick reveals. What a set adds only falls, so only the set on top of the heap is counted
    anew. `missing` is used up; what no set holds stays.
    """
    n = sets.start.size
    crowd, before = np.zeros((missing.size >> _SHIFT) + 1, np.int64), np.zeros(missing.size + 1, np.int64)
    for arm in range(missing.size):
        crowd[arm >> _SHIFT] += missing[arm]
        before[arm + 1] = before[arm] + missing[arm]
    total = before[missing.size]
    # A key holds what a set lacks of the most and its number, such that the smallest key is the best set.
    most = missing.size
    heap, picks = np.empty(n, np.int64), np.empty(n, np.int64)
    for one in range(n):
        gain = before[sets.stop[one]] - before[sets.start[one]]
        for e in range(sets.indptr[one], sets.indptr[one + 1]):
            gain += missing[sets.indices[e]]
        heap[one] = (most - gain) * n + one
    for place in range(n // 2 - 1, -1, -1):
        _sink(heap, n, place)
    count = 0
    while total > 0 and heap[0] // n < most:
        one = heap[0] % n
        key = (most - _gain(sets, one, missing, crowd)) * n + one
        if only_missing and missing[one] == 0:
            key = most * n + one
        elif key == heap[0]:
            picks[count] = one
            count += 1
            arm, stop = int(sets.start[one]), int(sets.stop[one])
            while arm < stop:
                if crowd[arm >> _SHIFT] == 0:
                    arm = ((arm >> _SHIFT) + 1) << _SHIFT
                else:
                    total -= _found(missing, crowd, arm)
                    arm += 1
            for e in range(sets.indptr[one], sets.indptr[one + 1]):
                total -= _found(missing, crowd, sets.indices[e])
            key = most * n + one
        heap[0] = key
        _sink(heap, n, 0)
    return picks[:count].copy()


@kernel
def _gain(sets: GraphArrays, one: int, missing: Marks, crowd: Ints) -> int:
    """Return how much of what is missing is in a set."""
    gain = 0
    arm, stop = int(sets.start[one]), int(sets.stop[one])
    while arm < stop:
        end = ((arm >> _SHIFT) + 1) << _SHIFT
        if end - arm == 1 << _SHIFT and end <= stop:
            gain += crowd[arm >> _SHIFT]
        else:
            end = min(end, stop)
            for a in range(arm, end):
                gain += int(missing[a])
        arm = end
    for e in range(sets.indptr[one], sets.indptr[one + 1]):
        gain += int(missing[sets.indices[e]])
    return gain


@kernel
def _found(missing: Marks, crowd: Ints, arm: int) -> int:
    if missing[arm] == 0:
        return 0
    missing[arm] = 0
    crowd[arm >> _SHIFT] -= 1
    return 1


@kernel
def _sink(heap: Ints, size: int, place: int) -> None:
    """Move a key down to where it belongs; the smallest key is on top."""
    key = heap[place]
    while 2 * place + 1 < size:
        child = 2 * place + 1
        child += child + 1 < size and heap[child + 1] < heap[child]
        if heap[child] >= key:
            break
        heap[place] = heap[child]
        place = child
    heap[place] = key


@kernel
def _run_cover(graph: GraphArrays) -> Ints:
    """Return as few arms as possible whose runs hold all arms, ascending."""
    n = graph.start.size
    longest = np.full(n, -1, np.int64)
    for arm in range(n):
        first = graph.start[arm]
        if longest[first] < 0 or graph.stop[longest[first]] < graph.stop[arm]:
            longest[first] = arm
    picks = np.empty(n, np.int64)
    count, covered, best = 0, 0, 0
    for first in range(n):
        if longest[first] >= 0 and graph.stop[longest[first]] > graph.stop[best]:
            best = longest[first]
        if first == covered:
            picks[count] = best
            count += 1
            covered = graph.stop[best]
    return picks[:count]


@kernel
def _reduce(indptr: Ints, indices: SmallInts, n_sets: int, status: Marks, steps: int) -> None:
    """Decide sets that some smallest cover takes or leaves out, until none is obvious or the steps run out.

    The first `n_sets` nodes of the graph are the sets, the others the things, and a set is next to what it holds. A set
    goes if another one holds all that it does. A thing goes, since it comes for nothing, if all sets that hold some
    other thing hold it, too. A set is taken if it alone holds a thing, and nothing else any more.
    """
    n = status.size
    count = np.diff(indptr)
    stack, listed = np.arange(n), np.ones(n, np.uint8)
    gone = np.empty(n, np.int64)
    top = n
    while top > 0 and steps > 0:
        top -= 1
        node = stack[top]
        listed[node] = 0
        if status[node] != OPEN:
            continue
        is_set, n_gone = node < n_sets, 0
        rarest = _rarest(indptr, indices, status, count, node)
        steps -= indptr[node + 1] - indptr[node] + 1
        if rarest < 0:
            status[node] = OUT
            continue
        for e in range(indptr[rarest], indptr[rarest + 1]):
            other = indices[e]
            steps -= 1
            if status[other] != OPEN or other == node or count[other] < count[node]:
                continue
            steps -= count[node]
            if _within(indptr, indices, status, node, other):
                gone[n_gone] = node if is_set else other
                n_gone += 1
                if is_set:
                    break
        for i in range(n_gone):
            status[gone[i]] = OUT
            for e in range(indptr[gone[i]], indptr[gone[i] + 1]):
                other = indices[e]
                count[other] -= 1
                if status[other] == OPEN and listed[other] == 0:
                    stack[top] = other
                    listed[other] = 1
                    top += 1
        if not is_set and count[node] == 1 and count[rarest] == 1:
            status[node] = OUT
            status[rarest] = TAKEN


@kernel
def _rarest(indptr: Ints, indices: SmallInts, status: Marks, count: Ints, node: int) -> int:
    """Return the open node next to this one that has the fewest open nodes next to it, or -1."""
    rarest = -1
    for e in range(indptr[node], indptr[node + 1]):
        other = indices[e]
        if status[other] == OPEN and (rarest < 0 or count[other] < count[rarest]):
            rarest = other
    return rarest


@kernel
def _within(indptr: Ints, indices: SmallInts, status: Marks, node: int, other: int) -> bool:
    """Return whether all open nodes next to `node` are next to `other`."""
    for e in range(indptr[node], indptr[node + 1]):
        if status[indices[e]] == OPEN and position(indptr, indices, other, indices[e]) < 0:
            return False
    return True


@kernel
def _fair_price(indptr: Ints, indices: SmallInts, n_sets: int) -> float:
    """Return what the things pay together if those in a set never pay over 1: no cover has fewer sets.

    Each pays its share of the largest set that holds it; then, those in few sets first, what is left to pay.
    """
    n = indptr.size - 1
    left, count = np.ones(n), np.diff(indptr)
    total = 0.0
    for thing in range(n_sets, n):
        largest = 1
        for e in range(indptr[thing], indptr[thing + 1]):
            largest = max(largest, count[indices[e]])
        total += 1.0 / largest
        for e in range(indptr[thing], indptr[thing + 1]):
            left[indices[e]] -= 1.0 / largest
    for thing in n_sets + np.argsort(count[n_sets:], kind="mergesort"):
        more = 1.0
        for e in range(indptr[thing], indptr[thing + 1]):
            more = min(more, left[indices[e]])
        more = max(more, 0.0)
        total += more
        for e in range(indptr[thing], indptr[thing + 1]):
            left[indices[e]] -= more
    return total
