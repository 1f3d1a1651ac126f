"""The largest draws, indices or luck among eligible arms."""

from __future__ import annotations

import math
from typing import Any

import numpy as np
from numpy.typing import NDArray

from armtriage.graphs.feedback import GraphArrays, reveal
from armtriage.intervals import kl_upper, two_points
from armtriage.kernels.jit import kernel
from armtriage.kernels.order import kth_largest, top_first
from armtriage.kernels.random import uniform
from armtriage.policies.eligible.rows import Request, Rows, largest, next_level
from armtriage.policies.lost import PATIENCE, as_least
from armtriage.policies.prior import as_coins, believed, fitted, next_fit
from armtriage.policies.sampler import BELOW, draw, follow, luck_needed
from armtriage.policies.sampler import mean_of as mean_of_posterior

__all__ = [
    "believe_draws",
    "believe_index",
    "believe_means",
    "believe_nothing",
    "choose_at_random",
    "choose_by_draws",
    "choose_by_index",
    "choose_by_kl",
    "draw_best",
    "index_of",
    "kl_index",
    "kl_index_of",
    "mark_revealed",
    "mean_of",
    "refit",
]

_ROUNDING = 1e-9  # far above what rounding does to an index, and far below what would let more arms pass
_WAITING = 1e200  # far above every index: what an arm counts whose first reward is on its way, the less the more are


@kernel
def _losses(rows: Rows, arm: int) -> float:
    return rows.learned[arm] - rows.wins[arm] + as_least(rows.missed[arm]) + rows.unheard[arm]  # type: ignore[no-any-return]


@kernel
def _posterior(rows: Rows, arm: int) -> tuple[float, float, float]:
    between, weak = rows.told_between[arm], rows.fractional > 0 and rows.next_fit > 1
    return believed(rows.wins[arm], _losses(rows, arm), between, rows.prior_wins, rows.prior_losses, weak)


@kernel
def mean_of(rows: Rows, arm: int) -> float:
    """Return the mean of an arm's posterior."""
    least, a, b = _posterior(rows, arm)
    return mean_of_posterior(least, a, b)


@kernel
def refit(rows: Rows, number: int) -> None:
    """Fit the prior to all arms, retired ones included: they tell as much of what arms are like."""
    n = rows.n_arms
    counts, wins = np.empty(n), np.empty(n)
    for arm in range(n):
        counts[arm], wins[arm] = as_coins(rows.wins[arm], _losses(rows, arm), rows.told_between[arm])
    rows.prior_wins, rows.prior_losses = fitted(counts, wins, n, rows.prior_wins, rows.prior_losses)
    rows.next_fit = next_fit(number)
    rows.version += 1


@kernel
def _needed(rows: Rows, arm: int) -> float:
    """Return a bound below the luck that takes an arm's draw to the level."""
    if rows.cut[arm] != rows.version:
        rows.cut[arm] = rows.version
        rows.skipped[arm] = 0
        least, a, b = _posterior(rows, arm)
        rows.out[arm] = luck_needed(rows.level, least, a, b)
    return rows.out[arm]  # type: ignore[no-any-return]


@kernel
def _value(rows: Rows, arm: int, u: float) -> float:
    """Return an arm's draw with this luck."""
    least, a, b = _posterior(rows, arm)
    return draw(u, least, a, b)


@kernel
def _list_values(
    rows: Rows,
    luck: np.uint64,
    among: NDArray[np.int64],
    incumbents: NDArray[np.int64],
    share: float,
    every: bool,
) -> int:
    """List the incumbents' means, then draws of the others: all, or those that may reach the level; return how many.

    Of the others only the `share` is drawn, and an incumbent may be, too: see `policies.guard.free_look`.
    """
    m, idle, best = incumbents.size, 1.0 - share, -1.0
    for i in range(among.size):
        arm = among[i]
        if incumbents.size > 0 and rows.marks[arm] == rows.mark:
            continue
        u = uniform(luck, arm)
        if u > idle and (every or u > idle + share * _needed(rows, arm)):
            rows.values[m] = _value(rows, arm, (u - idle) / share)
            best = max(best, rows.values[m])
            rows.chosen[m] = arm
            m += 1
    for i in range(incumbents.size):
        value = mean_of(rows, incumbents[i])
        if rows.fractional > 0 and value < best:
            value = max(value, _value(rows, incumbents[i], uniform(luck, incumbents[i])))
        rows.chosen[i], rows.values[i] = incumbents[i], value
    return m


@kernel
def draw_best(
    rows: Rows,
    luck: np.uint64,
    among: NDArray[np.int64],
    incumbents: NDArray[np.int64],
    share: float,
    arms: NDArray[np.int64],
) -> None:
    """Fill `arms` with the arms of largest draw; where there are incumbents, those that they reveal are not drawn.

    Few arms are really drawn: see `policies.sampler`.
    """
    k = arms.size
    m = _list_values(rows, luck, among, incumbents, share, False)
    least = -np.inf
    if m >= k:
        top_first(rows.values, rows.chosen, m, k)
        least = np.inf
        for i in range(k):
            least = min(least, rows.values[i])
    if least < rows.level:
        # An arm below the level may belong here: draw them all, and lower the level.
        m = _list_values(rows, luck, among, incumbents, share, True)
        least = kth_largest(rows.values[:m].copy(), m, k)
        near = kth_largest(rows.values[:m].copy(), m, min(m, 2 * k + 8))
        rows.centre = least
        rows.spread = max(1.5 * rows.spread, 0.5 * (least - near), 1e-3)
        _set_level(rows)
        top_first(rows.values, rows.chosen, m, k)
    for i in range(k):
        arms[i] = rows.chosen[i]
    follow(rows, least)
    # A new level costs a bound for each arm, a low one a draw for each candidate: pay the former for the latter.
    rows.waste += m
    if rows.waste > 4.0 * among.size and m > 2 * k:
        if m > 2 * k + 8:
            near = kth_largest(rows.values, m, 2 * k + 8)
            rows.spread = min(rows.spread, max(0.25 * (rows.centre - near), 1e-9))
        _set_level(rows)


@kernel
def _set_level(rows: Rows) -> None:
    rows.level = max(0.0, rows.centre - BELOW * rows.spread)
    rows.version += 1
    rows.waste = 0.0


@kernel
def choose_by_draws(
    request: Request, number: int, luck: np.uint64, among: NDArray[np.int64], arms: NDArray[np.int64]
) -> None:
    """Fill `arms` with the largest posterior draws."""
    draw_best(request.rows, luck, among, among[:0], 1.0, arms)


@kernel
def believe_draws(
    request: Request, number: int, luck: np.uint64, arms: NDArray[np.int64], beliefs: NDArray[np.float64]
) -> None:
    """Write what an arm's draw follows from: its luck and its posterior."""
    for i in range(arms.size):
        beliefs[0, i] = uniform(luck, arms[i])
        beliefs[1, i], beliefs[2, i], beliefs[3, i] = _posterior(request.rows, arms[i])


@kernel
def believe_nothing(
    request: Request, number: int, luck: np.uint64, arms: NDArray[np.int64], beliefs: NDArray[np.float64]
) -> None:
    """Hold all arms for equal."""
    beliefs[:] = 0.0


@kernel
def believe_means(
    request: Request, number: int, luck: np.uint64, arms: NDArray[np.int64], beliefs: NDArray[np.float64]
) -> None:
    """Write the means of what has been told."""
    rows = request.rows
    for i in range(arms.size):
        beliefs[0, i] = rows.gained[arms[i]] / max(rows.learned[arms[i]], 1)


@kernel
def mark_revealed(rows: Rows, graph: GraphArrays, plain: bool, arms: NDArray[np.int64]) -> None:
    """Mark what the arms reveal with a new `mark`."""
    rows.mark += 1
    if plain:
        for i in range(arms.size):
            rows.marks[arms[i]] = rows.mark
    else:
        reveal(graph, arms, rows.marks, rows.mark, rows.chosen)


def scale(params: Any, number: int) -> float:
    """Stand for the kernel of a policy that says how much uncertainty counts in a round, which `bind` puts here."""
    raise NotImplementedError


@kernel
def counted(rows: Rows, arm: int) -> float:
    """Return how many rewards an arm has had, with what those count for that are lost or on their way."""
    return rows.learned[arm] + as_least(rows.missed[arm]) + rows.unheard[arm]  # type: ignore[no-any-return]


@kernel
def is_unseen(rows: Rows, arm: int) -> bool:
    """Whether nothing is known of an arm, and no more than a few of its rewards were lost."""
    return rows.learned[arm] + rows.unheard[arm] == 0.0 and rows.missed[arm] < PATIENCE  # type: ignore[no-any-return]


@kernel
def value_unseen(rows: Rows, arm: int) -> float:
    """Return the value of an arm that is unseen: least asked first."""
    return np.inf if rows.pending[arm] == 0 else _WAITING / rows.pending[arm]


@kernel
def index_of(rows: Rows, arm: int, width: float) -> float:
    """Return ``mean + width / sqrt(count)``; arms that were never seen come first, the least asked before others."""
    if is_unseen(rows, arm):
        return value_unseen(rows, arm)
    count = counted(rows, arm)
    return rows.gained[arm] / count + width / math.sqrt(count)  # type: ignore[no-any-return]


@kernel
def _list_indices(rows: Rows, n: int, width: float) -> int:
    """Write the indices of the first n arms of `chosen`; return how many are not below the level."""
    few = 0
    for i in range(n):
        rows.values[i] = index_of(rows, rows.chosen[i], width)
        few += rows.values[i] >= rows.index_level
    return few


def choose_by_index(
    request: Request, number: int, luck: np.uint64, among: NDArray[np.int64], arms: NDArray[np.int64]
) -> None:
    """Fill `arms` with the largest indices."""
    rows, width, k = request.rows, scale(request.params, number), arms.size
    level, square, n = rows.index_level - _ROUNDING * (1.0 + width), width * width, 0
    for i in range(among.size):
        # mean + width / sqrt(count) >= level, without a division or a root
        arm = among[i]
        count = counted(rows, arm)
        missing = level * count - rows.gained[arm]
        rows.chosen[n] = arm
        n += not ((missing > 0.0) & (missing * missing > square * count))
    few = _list_indices(rows, n, width)
    if few < k:
        n = among.size
        rows.chosen[:n] = among
        _list_indices(rows, n, width)
    top_first(rows.values, rows.chosen, n, k)
    arms[:] = rows.chosen[:k]
    rows.index_level = next_level(rows, rows.index_level, rows.values, n, k, few)


def believe_index(
    request: Request, number: int, luck: np.uint64, arms: NDArray[np.int64], beliefs: NDArray[np.float64]
) -> None:
    """Write the index of each arm."""
    rows, width = request.rows, scale(request.params, number)
    for i in range(arms.size):
        beliefs[0, i] = index_of(rows, arms[i], width)


@kernel
def choose_by_kl(request: Request, among: NDArray[np.int64], arms: NDArray[np.int64], bonus: float) -> None:
    """Fill `arms` with the largest KL indices; Pinsker's inequality rules most out before they are computed."""
    rows, n, k = request.rows, among.size, arms.size
    pinsker = math.sqrt(0.5 * bonus)
    for i in range(n):
        arm = among[i]
        rows.chosen[i] = arm
        if is_unseen(rows, arm):
            rows.values[i] = value_unseen(rows, arm)
        else:
            count = counted(rows, arm)
            rows.values[i] = rows.gained[arm] / count + pinsker / math.sqrt(count) + 1e-9
    # The exact indices of those with the largest bounds give a level, and only who may reach it is looked at.
    some = min(n, 2 * k + 8)
    top_first(rows.values, rows.chosen, n, some)
    for i in range(some):
        rows.values[i] = kl_index(rows, rows.chosen[i], bonus)
    level = kth_largest(rows.values[:some].copy(), some, k)
    m = some
    for i in range(some, n):
        if rows.values[i] >= level:
            arm = rows.chosen[i]
            rows.chosen[m], rows.values[m] = arm, kl_index(rows, arm, bonus)
            m += 1
    top_first(rows.values, rows.chosen, m, k)
    for i in range(k):
        arms[i] = rows.chosen[i]


@kernel
def kl_index_of(count: float, mean: float, between: float, bonus: float) -> float:
    """Return the largest mean that `bonus` allows; of rewards between 0 and 1, by the law on two points like theirs."""
    if between <= 0.0:
        return kl_upper(mean, bonus / count)
    least, wins = two_points(count, mean * count, between)
    return least + (1.0 - least) * kl_upper(wins / count, bonus / count)


@kernel
def kl_index(rows: Rows, arm: int, bonus: float) -> float:
    """Return the KL index of an arm."""
    if is_unseen(rows, arm):
        return value_unseen(rows, arm)
    count = counted(rows, arm)
    return kl_index_of(count, rows.gained[arm] / count, rows.told_between[arm], bonus)


@kernel
def choose_at_random(
    request: Request, number: int, luck: np.uint64, among: NDArray[np.int64], arms: NDArray[np.int64]
) -> None:
    """Fill `arms` with those of most luck: every set of eligible arms has the same probability."""
    rows = request.rows
    for i in range(among.size):
        rows.values[among[i]] = uniform(luck, among[i])
    largest(rows, rows.values, among, arms.size, 1.0 - (2.0 * arms.size + 8.0) / among.size)
    arms[:] = rows.best[: arms.size]
