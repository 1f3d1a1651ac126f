"""Elimination among eligible arms: play the confirmed ones, cover the least observed open ones, fill by upper bound.

Slots that the cover leaves free go to the largest upper bounds. With other arms eligible in every round, neither the
largest mean nor the next least observed arm would do: either may be hopeless, and there would be such a round again
and again instead of one in each layer.
"""

from __future__ import annotations

import numpy as np
from numpy.typing import NDArray

from armtriage.graphs.feedback import GraphArrays
from armtriage.kernels.jit import kernel
from armtriage.kernels.order import sort_pairs
from armtriage.policies.eligible.rows import Request, Rows, largest

__all__ = ["choose_by_elimination", "cover_size", "explore", "fill_by_upper", "split"]


@kernel
def split(rows: Rows, among: NDArray[np.int64], arms: NDArray[np.int64]) -> tuple[int, int]:
    """Put the arms that certainly belong to the best into `arms`, those in question into `open`; return how many.

    One pass finds what a repeated one would: see `docs/certificate.md`.
    """
    size = arms.size
    rows.lower_level = largest(rows, rows.lower, among, size + 1, rows.lower_level)
    kth_lower, next_lower = np.inf, np.inf
    for i in range(size + 1):
        kth_lower, next_lower = min(kth_lower, max(rows.keys[i], next_lower)), min(next_lower, rows.keys[i])
    rows.n_ceiling = min(among.size, 2 * size)
    rows.upper_level = largest(rows, rows.upper, among, rows.n_ceiling, rows.upper_level)
    rows.ceiling[: rows.n_ceiling] = rows.best[: rows.n_ceiling]
    sort_pairs(rows.keys, rows.ceiling, rows.n_ceiling)
    next_upper = rows.keys[size]
    rows.gap = max(0.0, min(rows.gap, rows.keys[size - 1] - next_lower))
    confirmed, n = 0, 0
    for i in range(among.size):
        arm = among[i]
        if rows.lower[arm] > next_upper:
            arms[confirmed] = arm
            confirmed += 1
        else:
            rows.open[n] = arm
            n += rows.upper[arm] >= kth_lower
    return confirmed, n


@kernel
def _scheduled(rows: Rows, arm: int) -> int:
    return rows.counts[arm] + rows.credit[arm] + rows.pending[arm]  # type: ignore[no-any-return]


@kernel
def _unmark(rows: Rows, graph: GraphArrays, arm: int) -> int:
    """Let nobody wait whom the arm reveals; return how many did."""
    n = 0
    for other in range(graph.start[arm], graph.stop[arm]):
        n += rows.flags[other]
        rows.flags[other] = 0
    for e in range(graph.indptr[arm], graph.indptr[arm + 1]):
        n += rows.flags[graph.indices[e]]
        rows.flags[graph.indices[e]] = 0
    return n


@kernel
def _degree(rows: Rows, graph: GraphArrays, arm: int) -> int:
    """Return how many waiting arms an arm reveals."""
    degree = 0
    for other in range(graph.start[arm], graph.stop[arm]):
        degree += rows.flags[other]
    for e in range(graph.indptr[arm], graph.indptr[arm + 1]):
        degree += rows.flags[graph.indices[e]]
    return degree


@kernel
def _next_pick(rows: Rows, graph: GraphArrays, n: int, by_upper: bool) -> int:
    """Return the waiting one of the first n arms of `chosen` that reveals most of those who wait, or -1.

    Of equals it is the one of largest upper bound, or simply the first. Degrees only fall while the cover is made, so
    an arm is counted anew only if its old degree would win.
    """
    while True:
        best, most = -1, 0
        for i in range(n):
            arm = rows.chosen[i]
            if rows.flags[arm] > 0:
                degree = rows.degrees[i]
                equal = by_upper and degree == most
                if degree > most or (equal and rows.upper[arm] > rows.upper[rows.chosen[best]]):
                    best, most = i, degree
        if best < 0:
            return -1
        arm = rows.chosen[best]
        rows.degrees[best] = _degree(rows, graph, arm) if most > 1 else 1
        if rows.degrees[best] == most:
            return arm  # type: ignore[no-any-return]


@kernel
def explore(rows: Rows, graph: GraphArrays, plain: bool, confirmed: int, n: int, arms: NDArray[np.int64]) -> int:
    """Fill `arms` behind the confirmed ones with picks among the n open arms, and then by upper bound.

    Return how many picks there were.
    """
    least, m = _scheduled(rows, rows.open[0]), 0
    for i in range(n):
        rows.degrees[i] = _scheduled(rows, rows.open[i])
        least = min(least, rows.degrees[i])
    for i in range(n):
        rows.chosen[m] = rows.open[i]
        m += rows.degrees[i] == least
    first, waiting, place = rows.chosen[0], m, confirmed
    if not plain:
        for i in range(m):
            rows.flags[rows.chosen[i]] = 1
            if rows.upper[rows.chosen[i]] > rows.upper[first]:
                first = rows.chosen[i]
        for i in range(confirmed):
            waiting -= _unmark(rows, graph, arms[i])
    if waiting == 0:
        # What the confirmed arms reveal costs nothing, but a round without a pick of its own would prove nothing.
        arms[place] = first
        place += 1
    elif plain:
        k = min(arms.size - confirmed, m)
        rows.pick_level = largest(rows, rows.upper, rows.chosen[:m], k, rows.pick_level)
        for i in range(k):
            arms[place + i] = rows.best[i]
        place += k
    else:
        for i in range(m):
            rows.degrees[i] = _degree(rows, graph, rows.chosen[i])
        while place < arms.size:
            arm = _next_pick(rows, graph, m, True)
            if arm < 0:
                break
            _unmark(rows, graph, arm)
            arms[place] = arm
            place += 1
    for i in range(m):
        rows.flags[rows.chosen[i]] = 0
    picks = place - confirmed
    fill_by_upper(rows, place, arms)
    return picks


@kernel
def cover_size(rows: Rows, graph: GraphArrays, arms: NDArray[np.int64]) -> int:
    """Return how many picks a greedy cover of these arms has, whatever is known of them by now.

    So a policy that is loaded counts as many as the one that was saved.
    """
    for i in range(arms.size):
        rows.chosen[i] = arms[i]
        rows.flags[arms[i]] = 1
    for i in range(arms.size):
        rows.degrees[i] = _degree(rows, graph, arms[i])
    picks = 0
    while True:
        arm = _next_pick(rows, graph, arms.size, False)
        if arm < 0:
            return picks
        _unmark(rows, graph, arm)
        picks += 1


@kernel
def fill_by_upper(rows: Rows, place: int, arms: NDArray[np.int64]) -> None:
    """Fill `arms` from `place` on with the arms of largest upper bound that are not there before.

    Arms in question have larger ones than eliminated arms, so all that are needed are in the ceiling.
    """
    for i in range(place):
        rows.flags[arms[i]] = 1
    taken = place
    for i in range(rows.n_ceiling):
        if taken < arms.size and rows.flags[rows.ceiling[i]] == 0:
            arms[taken] = rows.ceiling[i]
            taken += 1
    for i in range(place):
        rows.flags[arms[i]] = 0


@kernel
def choose_by_elimination(
    request: Request, number: int, luck: np.uint64, among: NDArray[np.int64], arms: NDArray[np.int64]
) -> None:
    """Fill `arms` with a round of elimination among more eligible arms than there are slots."""
    rows = request.rows
    confirmed, n = split(rows, among, arms)
    if confirmed + n == arms.size:
        for i in range(n):
            arms[confirmed + i] = rows.open[i]
        return
    explore(rows, request.graph, request.plain, confirmed, n, arms)
