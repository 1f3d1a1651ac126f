"""Covers: as few sets as possible that hold everything, and the two greedy ways to get there."""

from __future__ import annotations

from functools import cache
from heapq import heapify, heapreplace
from typing import Any

import numpy as np
from numpy.typing import NDArray

from armtriage.graphs.feedback import FeedbackGraph, GraphArrays
from armtriage.kernels.jit import kernel
from armtriage.kernels.record import Ints
from armtriage.theory.independence import EDGES, SLACK, Answer, Clock, name_of, programme, say_how

Marks = NDArray[np.uint8]

_PROGRAMMED = 150_000  # entries up to which HiGHS finishes its first linear program in seconds


@cache
def make_ready() -> None:
    """Compile the greedy, so that no time limit pays for it."""
    no_run = np.zeros(1, np.int32)
    greedy_cover(GraphArrays(no_run, no_run, np.arange(2), no_run), np.ones(1, np.uint8), False)


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

    A row holds the columns where its entries are not 0; every column must be held by some row. HiGHS is asked unless
    greed is shown to be as good: if each column pays its share of the largest row with it, no row gets more than 1.
    """
    sets = sets.tocsr()
    sets.sum_duplicates()
    sizes, no_run = np.diff(sets.indptr), np.zeros(sets.shape[0], np.int32)
    lists = GraphArrays(no_run, no_run, sets.indptr.astype(np.int64), sets.indices.astype(np.int32))
    found = np.sort(greedy_cover(lists, np.ones(sets.shape[1], np.uint8), False))
    largest = np.ones(sets.shape[1])
    np.maximum.at(largest, sets.indices, np.repeat(sizes, sizes))
    bound, means = int(np.ceil((1.0 / largest).sum() - SLACK)), ["greedy", "degrees"]
    if bound < found.size and sets.nnz <= _PROGRAMMED and clock.left > 0:
        found, bound, changed = programme(found, bound, 1, sets.T.astype(np.float64), 1.0, np.inf, clock)
        means = ["integer programming"] if changed else means
    return Answer(found, bound, say_how(found.size == bound, means, clock.verdict))


@kernel
def greedy_cover(sets: GraphArrays, missing: Marks, only_missing: bool) -> Ints:
    """Return sets that hold all that is missing, each the one that holds most of what then still is; ties to the first.

    Chvatal's greedy picks among all sets. The paper's is about arms and what they reveal, and picks `only_missing`
    ones: arms that no earlier pick reveals. What a set adds only falls, so only the set on top of the heap is counted
    again. `missing` is used up; what no set holds stays.
    """
    n, most = sets.start.size, missing.size
    before = np.zeros(most + 1, np.int64)
    for arm in range(most):
        before[arm + 1] = before[arm] + missing[arm]
    total = before[most]
    # A key holds what a set lacks of the most and its number, such that the smallest key is the best set.
    heap, picks = [0] * n, np.empty(n, np.int64)
    for one in range(n):
        gain = before[sets.stop[one]] - before[sets.start[one]]
        for e in range(sets.indptr[one], sets.indptr[one + 1]):
            gain += missing[sets.indices[e]]
        heap[one] = (most - gain) * n + one
    heapify(heap)
    count = 0
    while total > 0 and heap[0] // n < most:
        one = heap[0] % n
        key = (most - _gain(sets, one, missing, False)) * n + one
        if only_missing and missing[one] == 0:
            key = most * n + one
        elif key == heap[0]:
            picks[count] = one
            count += 1
            total -= _gain(sets, one, missing, True)
            key = most * n + one
        heapreplace(heap, key)
    return picks[:count].copy()


@kernel
def _gain(sets: GraphArrays, one: int, missing: Marks, take: bool) -> int:
    """Return how much of what is missing is in a set, and `take` it, so that it no longer is."""
    gain = 0
    for arm in range(sets.start[one], sets.stop[one]):
        gain += int(missing[arm])
        missing[arm] = 0 if take else missing[arm]
    for e in range(sets.indptr[one], sets.indptr[one + 1]):
        gain += int(missing[sets.indices[e]])
        missing[sets.indices[e]] = 0 if take else missing[sets.indices[e]]
    return gain


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
