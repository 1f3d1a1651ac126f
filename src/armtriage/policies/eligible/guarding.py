"""The guard among eligible arms: the certificate of a decision, what all can have lost, and the budget.

`policies.guard.account` has the same for arms that are always there, where sets stand still between two sorts.
"""

from __future__ import annotations

import math

import numpy as np
from numpy.typing import NDArray

from armtriage.kernels.jit import kernel
from armtriage.kernels.order import sort_pairs, top_first
from armtriage.kernels.random import bits
from armtriage.policies.eligible.choosing import draw_best, mark_revealed, mean_of, refit
from armtriage.policies.eligible.exploring import explore, fill_by_upper, split
from armtriage.policies.eligible.rows import Request, Rows, largest
from armtriage.policies.prior import drawn_share

__all__ = ["book", "choose_guarded", "choose_proposed", "loss_bound", "retrospective_among"]

_REFUND = 64  # rounds between two looks at what all decisions can have lost by the intervals of today
_SEED = np.uint64(0x9E3779B97F4A7C15)


@kernel
def loss_bound(rows: Rows, arms: NDArray[np.int64]) -> float:
    """Return what a decision loses at most: the largest upper bounds outside for the least lower ones inside.

    It is one among the arms of the last `split`, whose ceiling is enough to exchange a whole decision.
    """
    size = arms.size
    for i in range(size):
        rows.values[i], rows.chosen[i] = -rows.lower[arms[i]], arms[i]
        rows.flags[arms[i]] = 1
    sort_pairs(rows.values, rows.chosen, size)
    total, inside = 0.0, 0
    for i in range(rows.n_ceiling):
        arm = rows.ceiling[i]
        if inside < size and rows.flags[arm] == 0:
            total += max(0.0, rows.upper[arm] + rows.values[inside])
            inside += 1
    for i in range(size):
        rows.flags[arms[i]] = 0
    return total


@kernel
def retrospective_among(rows: Rows, pulls: NDArray[np.int64], exposures: NDArray[np.int64], slots: int) -> float:
    """Return what decisions with these pulls and exposures lost at most, by the intervals of today.

    The best eligible slates of all rounds have an arm at most as often as it was eligible, and `slots` arms in all:
    a knapsack whose items may be cut, filled by the largest slopes.
    """
    kept, m, n = 0.0, 0, rows.n_arms
    for i in range(n + rows.n_ghosts):
        arm = i if i < n else pulls.size - 1 - (i - n)
        if exposures[arm] > 0:
            low = pulls[arm] * rows.lower[arm]
            kept += low
            rows.values[m] = ((exposures[arm] - pulls[arm]) * rows.upper[arm] + low) / exposures[arm]
            rows.chosen[m] = arm
            m += 1
    # Few arms fill all slots, so not all of them are sorted.
    ready, held = 0, 0
    while ready < m and held < slots:
        ready, held = min(m, 4 * ready + 64), 0
        top_first(rows.values, rows.chosen, m, ready)
        sort_pairs(rows.values, rows.chosen, ready)
        for i in range(ready):
            held += exposures[rows.chosen[i]]
    best, left = 0.0, slots
    for i in range(ready):
        if left <= 0:
            break
        units = min(left, exposures[rows.chosen[i]])
        best += units * rows.values[i]
        left -= units
    return max(best - kept, 0.0)


@kernel
def _note_pattern(rows: Rows, among: NDArray[np.int64]) -> None:
    """Count the eligible set if it is new, until half of the table is full."""
    if 2 * rows.n_patterns >= rows.patterns.size:
        return
    name = _SEED
    for i in range(among.size):
        if rows.hashes[among[i]] == np.uint64(0):
            rows.hashes[among[i]] = bits(_SEED, among[i])
        name = name ^ rows.hashes[among[i]]
    if name == np.uint64(0):
        name = _SEED
    place = int(name >> np.uint64(40)) % rows.patterns.size
    while rows.patterns[place] != np.uint64(0):
        if rows.patterns[place] == name:
            return
        place = (place + 1) % rows.patterns.size
    rows.patterns[place] = name
    rows.n_patterns += 1


@kernel
def _pay(request: Request, number: int, size: int) -> None:
    """Raise the budget to what elimination could have lost by now, in the layers that it had rounds and need for.

    By the proof in `docs/arms-that-come-and-go.md` a layer has at most `cover` pulls and, for each eligible set so far,
    one round that is padded.
    """
    rows = request.rows
    if request.shadow:
        rows.allowed = rows.floor + request.factor * rows.forced_cost + size
        return
    sets = rows.cover if 2 * rows.n_patterns >= rows.patterns.size else min(rows.n_patterns, rows.cover)
    pulls = rows.cover + sets * (size - 1)
    if pulls != rows.layer_size or request.base != rows.base:
        rows.layer_size, rows.base, rows.layers, rows.paid = pulls, request.base, -1, 0.0
    most = size * (number + 1) // pulls
    needed, narrow = 8.0 * (rows.base + 0.5 * math.log(number + 1.0)), rows.gap**2
    while rows.layers < most and (rows.layers + 1) * narrow <= needed:
        rows.layers += 1
        layer = rows.layers
        price = 1.0
        if layer > 0:
            price = min(1.0, 6.0 * math.sqrt((rows.base + 0.5 * math.log(layer)) / (2.0 * layer)))
        rows.paid += price
    rows.allowed = max(rows.allowed, request.factor * pulls * rows.paid)


@kernel
def _offer(rows: Rows, among: NDArray[np.int64], arms: NDArray[np.int64], sign: int) -> None:
    """Count an admitted proposal, or take it back."""
    for i in range(among.size):
        rows.offered[among[i]] += sign
    for i in range(arms.size):
        rows.admitted[arms[i]] += sign
    rows.offered_slots += sign * arms.size
    rows.n_admitted += sign


@kernel
def _admits(rows: Rows, number: int, among: NDArray[np.int64], arms: NDArray[np.int64], cost: float) -> bool:
    """Book a decision of this cost if the budget allows it, after a refund if need be."""
    spent = rows.spent + cost
    if spent > rows.allowed and cost > 0.0 and number < rows.resume:
        return False
    _offer(rows, among, arms, 1)
    if spent > rows.allowed:
        spent = min(spent, retrospective_among(rows, rows.admitted, rows.offered, rows.offered_slots))
    if spent <= rows.allowed:
        rows.spent = spent
    elif cost > 0.0:
        _offer(rows, among, arms, -1)
        # A refund looks at all arms, so one that did not help is not sought again at once.
        rows.resume = number + 1 + rows.n_arms // _REFUND
        return False
    return True


@kernel
def book(rows: Rows, number: int, cost: float, among: NDArray[np.int64], arms: NDArray[np.int64]) -> None:
    """Add a decision's cost to the total; now and then today's intervals may say that less was lost in all."""
    rows.total += cost
    if (number + 1) % (_REFUND + rows.n_arms // _REFUND) == 0:
        # The tally does not have this decision yet.
        for i in range(among.size):
            rows.exposures[among[i]] += 1
        for i in range(arms.size):
            rows.pulls[arms[i]] += 1
        rows.total = min(rows.total, retrospective_among(rows, rows.pulls, rows.exposures, rows.slots + arms.size))
        for i in range(among.size):
            rows.exposures[among[i]] -= 1
        for i in range(arms.size):
            rows.pulls[arms[i]] -= 1


@kernel
def _admit(request: Request, number: int, among: NDArray[np.int64], arms: NDArray[np.int64]) -> None:
    """Keep the proposal in `arms`, or put there the open arms of largest upper bound, or a round of elimination."""
    rows = request.rows
    cost = loss_bound(rows, arms)
    if not _admits(rows, number, among, arms, cost):
        confirmed, n = split(rows, among, arms)
        fill_by_upper(rows, confirmed, arms)
        cost = loss_bound(rows, arms)
        if not _admits(rows, number, among, arms, cost):
            explore(rows, request.graph, request.plain, confirmed, n, arms)
            cost = loss_bound(rows, arms)
            rows.forced += 1
            rows.forced_cost += cost
    book(rows, number, cost, among, arms)


@kernel
def choose_guarded(
    request: Request, number: int, luck: np.uint64, among: NDArray[np.int64], arms: NDArray[np.int64]
) -> None:
    """Fill `arms` with what sampling proposes and the guard admits."""
    rows = request.rows
    _note_pattern(rows, among)
    confirmed, n = split(rows, among, arms)
    if confirmed + n == arms.size:
        for i in range(n):
            arms[confirmed + i] = rows.open[i]
        book(rows, number, 0.0, among, arms)
        return
    _pay(request, number, arms.size)
    incumbents, share = arms[:0], 1.0
    if request.learned and number >= rows.next_fit:
        refit(rows, number)
    if request.free_look:
        k = arms.size - confirmed
        if request.learned:
            share = drawn_share(k, n if request.plain else min(n, rows.cover))
        for i in range(n):
            rows.values[rows.open[i]] = mean_of(rows, rows.open[i])
        rows.mean_level = largest(rows, rows.values, rows.open[:n], k, rows.mean_level)
        for i in range(k):
            arms[confirmed + i] = rows.best[i]
        mark_revealed(rows, request.graph, request.plain, arms)
        incumbents = arms[confirmed:].copy()
    draw_best(rows, luck, rows.open[:n], incumbents, share, arms[confirmed:])
    _admit(request, number, among, arms)


@kernel
def choose_proposed(
    request: Request, number: int, luck: np.uint64, among: NDArray[np.int64], arms: NDArray[np.int64]
) -> None:
    """Keep the proposal in `arms`, or what the guard plays instead."""
    rows = request.rows
    _note_pattern(rows, among)
    proposal = arms.copy()
    confirmed, n = split(rows, among, arms)
    if confirmed + n == arms.size:
        for i in range(n):
            arms[confirmed + i] = rows.open[i]
        book(rows, number, 0.0, among, arms)
        return
    _pay(request, number, arms.size)
    for i in range(arms.size):
        arms[i] = proposal[i]
    _admit(request, number, among, arms)
