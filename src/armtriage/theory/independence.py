"""The largest independent set of a feedback graph.

Graphs of runs whose edges go both ways, and ladders, are solved by their structure. For others greed and a matching
give two limits, and HiGHS closes the gap between them if it can in the time that it has.
"""

from __future__ import annotations

import math
import time
from collections.abc import Iterable
from typing import Any, NamedTuple

import numpy as np
from numpy.typing import NDArray

from armtriage.graphs.feedback import FeedbackGraph, GraphArrays
from armtriage.kernels.jit import kernel
from armtriage.kernels.record import Ints

EDGES = 10_000_000
"""How many edges a graph may have to be written out: beyond, it would take gigabytes."""
SLACK = 1e-3
"""What a bound of HiGHS may be off by; its tolerances are 1e-6, so rounding with this slack is safe."""
_PROGRAMMED = 50_000  # edges up to which HiGHS finishes its first linear program in seconds


class Answer(NamedTuple):
    """A set that was found, a bound that no better one passes, and the means by which they were found."""

    chosen: Ints
    bound: int
    how: str


class Clock:
    """A time limit that has begun to run."""

    def __init__(self, limit: float) -> None:
        self.limit = limit
        self._end = time.monotonic() + limit

    @property
    def left(self) -> float:
        """Seconds left; negative when time is up."""
        return self._end - time.monotonic()

    def part(self, share: float) -> Clock:
        """Return a clock that has begun to run for a share of the time left."""
        return Clock(share * self.left)

    @property
    def verdict(self) -> str:
        """Why there is no better answer."""
        return "too large to search" if self.left > 0 else f"stopped after {self.limit:g} s"


def say_how(exact: bool, means: Iterable[str], why: str = "") -> str:
    """Return whether a bracket is exact, by which means, and if it is not, why.

    >>> say_how(False, ["greedy", "linear programming"], "stopped after 10 s")
    'bracket: greedy and linear programming, stopped after 10 s'
    """
    ways = " and ".join(dict.fromkeys(means))
    return f"exact: {ways}" if exact else ", ".join(filter(None, [f"bracket: {ways}", why]))


def name_of(graph: FeedbackGraph) -> str:
    """Return what a graph of runs alone is called."""
    start, stop = graph.arrays.start, graph.arrays.stop
    if graph.n_edges == graph.n_arms:
        return "semi-bandit"
    if graph.n_edges == graph.n_arms**2:
        return "full information"
    arms = np.arange(graph.n_arms)
    joins = (start[1:] == start[:-1]) & (stop[1:] == stop[:-1])
    if (joins | ((start[1:] == arms[1:]) & (stop[:-1] == arms[1:]))).all():
        return "cliques"
    if ((start == arms).all() and (stop == arms.size).all()) or ((start == 0).all() and (stop == arms + 1).all()):
        return "ladder"
    return "runs of arms"


def programme(
    found: Ints, bound: int, sense: int, rows: Any, least: float, most: float, clock: Clock
) -> tuple[Ints, int, bool]:
    """Return what HiGHS makes of a set of columns and a bound of its size, and whether it made either better.

    Of each row at least and at most so many columns are chosen, in all as few as possible, or many if `sense` is -1.
    """
    from scipy.optimize import Bounds, LinearConstraint, milp

    answer = milp(
        np.full(rows.shape[1], float(sense)),
        integrality=np.ones(rows.shape[1], np.int64),
        bounds=Bounds(0.0, 1.0),
        constraints=LinearConstraint(rows, least, most),
        options={"mip_rel_gap": 0.0, "time_limit": max(clock.left, 0.0)},
    )
    limit, proved, better = sense * bound, getattr(answer, "mip_dual_bound", None), False
    if proved is not None and np.isfinite(proved):
        limit = max(limit, math.ceil(proved - SLACK))
    if answer.x is not None:
        other = np.flatnonzero(answer.x > 0.5)
        held = rows[:, other].sum(axis=1)
        fits = bool(((held >= least - 0.5) & (held <= most + 0.5)).all())
        better = fits and sense * other.size < sense * found.size
        found = other if better else found
    return found, sense * min(limit, sense * found.size), better or limit > sense * bound


def largest_independent_set(graph: FeedbackGraph, time_limit: float) -> Answer:
    """Return an independent set, ascending, and an upper bound of the size of any."""
    if not graph.arrays.indices.size and ((name := name_of(graph)) == "ladder" or graph.is_undirected):
        arms = _apart(graph.arrays)
        return Answer(arms, arms.size, say_how(True, [name]))
    if graph.n_edges > EDGES:
        return Answer(np.zeros(1, np.int64), graph.n_arms, say_how(False, ["any arm"], "too many edges to write out"))
    return _solve(graph.n_arms, *graph.to_sparse().nonzero(), time_limit)


def _solve(n: int, row: NDArray[Any], column: NDArray[Any], time_limit: float) -> Answer:
    """Return the answer for a graph given by its edges."""
    from scipy.sparse import csr_array
    from scipy.sparse.csgraph import maximum_bipartite_matching

    apart = row != column
    ends = np.concatenate([row[apart], column[apart]]), np.concatenate([column[apart], row[apart]])
    matrix = csr_array((np.ones(ends[0].size, np.int8), ends), shape=(n, n))
    matrix.sum_duplicates()
    found = _greedy(matrix.indptr.astype(np.int64), matrix.indices.astype(np.int32))
    clock = Clock(time_limit)
    # The two ends of half an edge count a half each: the relaxation with a row for each edge has this value.
    halves = int((maximum_bipartite_matching(matrix) >= 0).sum())
    bound, means = n - (halves + 1) // 2, ["greedy", "matching"]
    if found.size < bound and matrix.nnz <= 2 * _PROGRAMMED and clock.left > 0:
        found, bound, changed = programme(found, bound, -1, _cliques(matrix), -np.inf, 1.0, clock)
        means = ["integer programming"] if changed else means
    return Answer(found, bound, say_how(found.size == bound, means, clock.verdict))


def _cliques(matrix: Any) -> Any:
    """Return cliques that hold all edges, a row for each; each is grown from an edge that no other holds."""
    from scipy.sparse import csr_array

    near = [set(one.tolist()) for one in np.split(matrix.indices, matrix.indptr[1:-1])]
    held: list[set[int]] = [set() for _ in near]
    cliques = []
    for u in range(len(near)):
        for v in sorted(near[u]):
            if v < u or v in held[u]:
                continue
            clique, pool = [u, v], near[u] & near[v]
            while pool:
                clique.append(max(pool))
                pool &= near[clique[-1]]
            for one in clique:
                held[one].update(clique)
            cliques.append(clique)
    starts = np.append(0, np.cumsum([len(one) for one in cliques]))
    return csr_array((np.ones(starts[-1]), np.concatenate(cliques), starts), shape=(len(cliques), len(near)))


@kernel
def _greedy(indptr: Ints, indices: NDArray[np.int32]) -> Ints:
    """Return an independent set, ascending: nodes with at most one neighbour left come first, then those with few.

    That is a largest one of trees and rings.
    """
    n = indptr.size - 1
    degree = np.diff(indptr)
    order = np.argsort(degree, kind="mergesort")
    is_open, taken = np.ones(n, np.uint8), np.zeros(n, np.uint8)
    stack, top, turn = np.empty(2 * n, np.int64), 0, 0
    while top > 0 or turn < n:
        if top > 0:
            top -= 1
            node = stack[top]
        else:
            node = order[turn]
            turn += 1
        if is_open[node] == 0:
            continue
        is_open[node], taken[node] = 0, 1
        for e in range(indptr[node], indptr[node + 1]):
            other = indices[e]
            if is_open[other] == 0:
                continue
            is_open[other] = 0
            for f in range(indptr[other], indptr[other + 1]):
                third = indices[f]
                degree[third] -= 1
                if is_open[third] == 1 and degree[third] <= 1:
                    stack[top] = third
                    top += 1
    return np.flatnonzero(taken)


@kernel
def _apart(graph: GraphArrays) -> Ints:
    """Return arms, ascending, none of which is in another's run: each the first that goes with the one before.

    If edges go both ways, runs that begin later end later, so there are no more such arms; nor on a ladder.
    """
    arms, n = np.zeros(graph.start.size, np.int64), 1
    for arm in range(1, graph.start.size):
        if arm >= graph.stop[arms[n - 1]] and graph.start[arm] > arms[n - 1]:
            arms[n] = arm
            n += 1
    return arms[:n].copy()
