"""The exploration of Algorithm 1: a greedy cover of the least observed active arms, made lazily.

A *layer* is the set of active arms that have been scheduled as often as the least scheduled one (A_0 in the paper).
Within a layer the set only shrinks, so out-degrees inside it only fall: arms wait in buckets by a degree that may
be outdated, and are looked at again when their bucket's turn comes. Arms with long lists (hubs) have theirs counted
down instead, so that a layer costs about its arms and edges, whatever the graph.
"""

from __future__ import annotations

import numpy as np
from numpy.typing import NDArray

from armtriage.graphs.feedback import FeedbackGraph, GraphArrays
from armtriage.kernels.jit import inlined, kernel
from armtriage.kernels.order import sort_pairs
from armtriage.kernels.record import Floats, Ints, Record, blank
from armtriage.policies.facts import require, within

_SHIFT = 8  # blocks of 256 arms: their counters stay in the fastest cache up to a million arms
_HUB = 64  # from this many neighbours on, counting a list again costs more than keeping its count up to date


class Layer(Record):
    """The arms still to be scheduled in the current layer, and the queue of candidates."""

    facts = ("waiting",)
    waiting: NDArray[np.uint8]  # (K,) whether the arm is in A_0
    crowd: Ints  # how many are, by blocks of 256 arms
    members: Ints  # the arms that the layer began with, ascending
    degrees: NDArray[np.int32]  # (K,) waiting arms in a hub's list of neighbours, kept up to date
    in_start: Ints  # the hubs' lists, reversed; empty without hubs
    in_arms: NDArray[np.int32]
    marks: NDArray[np.uint8]  # scratch
    queue: Ints  # members by degree when the layer began
    bucket: Ints  # (K + 2,) where each degree's part of the queue begins
    late: Ints  # (K + 2,) first arm that fell to a degree since, -1 for none
    after: Ints  # (K,) the arm that fell before it
    turn: Ints  # the bucket whose turn it is, in order of preference
    n_waiting: int
    degree: int  # whose turn it is
    head: int  # of `turn`
    tail: int
    n_members: int


def new_layer(graph: FeedbackGraph) -> Layer:
    """Return an empty layer for a graph."""
    n = graph.n_arms
    arrays = graph.arrays
    sizes = np.diff(arrays.indptr)
    from_hub = np.repeat(sizes > _HUB, sizes)
    targets = arrays.indices[from_hub]
    sources = np.repeat(np.arange(n, dtype=np.int32), np.where(sizes > _HUB, sizes, 0))
    in_start = np.zeros(n + 1 if targets.size else 0, np.int64)
    if targets.size:
        np.cumsum(np.bincount(targets, minlength=n), out=in_start[1:])
    return blank(
        Layer,
        n,
        crowd=np.zeros((n >> _SHIFT) + 1, np.int64),
        degrees=np.zeros(n if targets.size else 0, np.int32),
        in_start=in_start,
        in_arms=np.ascontiguousarray(sources[np.argsort(targets, kind="stable")]),
        bucket=np.zeros(n + 2, np.int64),
        late=np.full(n + 2, -1, np.int64),
    )


def rebuild_layer(layer: Layer, graph: FeedbackGraph, able: Ints) -> None:
    """Queue the arms that wait, after a check that they are among those that may."""
    within("waiting", layer.waiting, 0, 1)
    waiting = np.flatnonzero(layer.waiting)
    require(np.isin(waiting, able), "only active arms may wait")
    layer.crowd[:] = np.bincount(waiting >> _SHIFT, minlength=layer.crowd.size)
    layer.members[: waiting.size] = waiting
    layer.n_members = layer.n_waiting = waiting.size
    open_layer(layer, graph.arrays)


@kernel
@inlined
def leave(layer: Layer, arm: int) -> None:
    """Take an arm out of A_0, because it is scheduled now."""
    if layer.waiting[arm] > 0:
        layer.waiting[arm] = 0
        layer.crowd[arm >> _SHIFT] -= 1
        layer.n_waiting -= 1
        if layer.in_start.size > 0:
            for e in range(layer.in_start[arm], layer.in_start[arm + 1]):
                layer.degrees[layer.in_arms[e]] -= 1


@kernel
def _leave_range(layer: Layer, start: int, stop: int) -> None:
    """Take an interval of arms out of A_0, passing over blocks where no arm waits."""
    arm = start
    while arm < stop:
        if layer.crowd[arm >> _SHIFT] == 0:
            arm = ((arm >> _SHIFT) + 1) << _SHIFT
        else:
            leave(layer, arm)
            arm += 1


@kernel
def cover(layer: Layer, graph: GraphArrays, arm: int) -> None:
    """Take all that an arm reveals out of A_0."""
    start, stop = graph.start[arm], graph.stop[arm]
    if stop - start == 1:
        leave(layer, arm)
    else:
        _leave_range(layer, start, stop)
    for e in range(graph.indptr[arm], graph.indptr[arm + 1]):
        leave(layer, graph.indices[e])


@kernel
def _count_range(layer: Layer, start: int, stop: int) -> int:
    """Return how many arms of an interval wait."""
    count = 0
    arm = start
    while arm < stop:
        end = ((arm >> _SHIFT) + 1) << _SHIFT
        if arm & ((1 << _SHIFT) - 1) == 0 and end <= stop:
            count += layer.crowd[arm >> _SHIFT]
        else:
            end = min(end, stop)
            for a in range(arm, end):
                count += layer.waiting[a]
        arm = end
    return count


@kernel
def _degree(layer: Layer, graph: GraphArrays, arm: int) -> int:
    """Return the out-degree of a waiting arm inside A_0, itself included."""
    start, stop = graph.start[arm], graph.stop[arm]
    degree = 1 if stop - start == 1 else _count_range(layer, start, stop)
    first, last = graph.indptr[arm], graph.indptr[arm + 1]
    if last - first > _HUB:
        return degree + layer.degrees[arm]  # type: ignore[no-any-return]
    for e in range(first, last):
        degree += layer.waiting[graph.indices[e]]
    return degree


@kernel
def close_layer(layer: Layer) -> None:
    """Empty A_0, even if arms still wait."""
    for i in range(layer.n_members):
        arm = layer.members[i]
        if layer.waiting[arm] > 0:
            layer.waiting[arm] = 0
            layer.crowd[arm >> _SHIFT] -= 1
    layer.n_waiting = 0
    layer.n_members = 0
    layer.degree = 0
    layer.head = 0
    layer.tail = 0


@kernel
def _seek(members: Ints, n: int, arm: int, near: int) -> int:
    """Return how many of the first n members are below `arm`, by a galloping search from `near`."""
    low, high, step = near, near, 1
    while low > 0 and members[low - 1] >= arm:
        high = low
        low = max(0, low - step)
        step *= 2
    step = 1
    while high < n and members[high] < arm:
        low = high + 1
        high = min(n, high + step)
        step *= 2
    while low < high:
        middle = (low + high) >> 1
        if members[middle] < arm:
            low = middle + 1
        else:
            high = middle
    return low


@kernel
def open_layer(layer: Layer, graph: GraphArrays) -> None:
    """Queue the members that wait, `members[:MEMBERS]` ascending, by their out-degree inside A_0."""
    n = layer.n_members
    largest, low, high = 0, 0, 0
    for i in range(n):
        arm = layer.members[i]
        degree = 0
        first, last = graph.indptr[arm], graph.indptr[arm + 1]
        for e in range(first, last):
            degree += layer.waiting[graph.indices[e]]
        if last - first > _HUB:
            layer.degrees[arm] = degree
        start, stop = graph.start[arm], graph.stop[arm]
        if stop - start == 1:
            degree += 1
        else:
            low, high = _seek(layer.members, n, start, low), _seek(layer.members, n, stop, high)
            degree += high - low
        layer.queue[i] = degree
        largest = max(largest, degree)
    for degree in range(largest + 2):
        layer.bucket[degree] = 0
        layer.late[degree] = -1
    for i in range(n):
        layer.bucket[layer.queue[i] + 1] += 1
    for degree in range(largest + 1):
        layer.bucket[degree + 1] += layer.bucket[degree]
    # `turn` is free until the first pick; it keeps the degrees while the queue is filled.
    for i in range(n):
        layer.turn[i] = layer.queue[i]
    for i in range(n):
        degree = layer.turn[i]
        layer.queue[layer.bucket[degree]] = layer.members[i]
        layer.bucket[degree] += 1
    for degree in range(largest + 1, 0, -1):
        layer.bucket[degree] = layer.bucket[degree - 1]
    layer.bucket[0] = 0
    layer.degree = largest + 1
    layer.head = 0
    layer.tail = 0


@kernel
def _sort_turn(layer: Layer, n: int, preference: Floats) -> None:
    """Sort the arms of `turn`, largest preference first; without preferences many are sorted by one sweep."""
    if preference.size > 0 or 16 * n < layer.n_members:
        values = np.zeros(n)
        if preference.size > 0:
            for i in range(n):
                values[i] = preference[layer.turn[i]]
        sort_pairs(values, layer.turn, n)
        return
    for i in range(n):
        layer.marks[layer.turn[i]] = 1
    m = 0
    for i in range(layer.n_members):
        arm = layer.members[i]
        if layer.marks[arm] > 0:
            layer.marks[arm] = 0
            layer.turn[m] = arm
            m += 1


@kernel
def _next_turn(layer: Layer, preference: Floats) -> None:
    """Put the next lower bucket in order: largest preference first, if there is one, then smallest arm."""
    degree = layer.degree - 1
    n = 0
    for i in range(layer.bucket[degree], layer.bucket[degree + 1]):
        arm = layer.queue[i]
        if layer.waiting[arm] > 0:
            layer.turn[n] = arm
            n += 1
    in_order = n if preference.size == 0 else 0
    arm = layer.late[degree]
    while arm >= 0:
        if layer.waiting[arm] > 0:
            layer.turn[n] = arm
            n += 1
        arm = layer.after[arm]
    if n > in_order:
        _sort_turn(layer, n, preference)
    layer.degree = degree
    layer.head = 0
    layer.tail = n


@kernel
def next_pick(layer: Layer, graph: GraphArrays, preference: Floats) -> int:
    """Return the waiting arm of largest out-degree inside A_0, or -1; `preference` breaks ties, if not empty."""
    while layer.n_waiting > 0:
        if layer.head == layer.tail:
            _next_turn(layer, preference)
            continue
        arm = layer.turn[layer.head]
        layer.head += 1
        if layer.waiting[arm] > 0:
            degree = _degree(layer, graph, arm)
            if degree == layer.degree:
                return arm  # type: ignore[no-any-return]
            layer.after[arm] = layer.late[degree]
            layer.late[degree] = arm
    return -1
