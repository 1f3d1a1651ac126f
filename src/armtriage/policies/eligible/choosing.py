"""The largest draws among eligible arms."""

from __future__ import annotations

import numpy as np
from numpy.typing import NDArray

from armtriage.graphs.feedback import GraphArrays, reveal
from armtriage.kernels.jit import kernel
from armtriage.kernels.order import kth_largest, top_first
from armtriage.kernels.random import uniform
from armtriage.policies.eligible.rows import Request, Rows
from armtriage.policies.lost import as_least
from armtriage.policies.prior import as_coins, believed, fitted, next_fit
from armtriage.policies.sampler import BELOW, draw, follow, luck_needed
from armtriage.policies.sampler import mean_of as mean_of_posterior

__all__ = ["believe_draws", "believe_means", "draw_best", "mark_revealed", "mean_of", "refit"]


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
def believe_draws(
    request: Request, number: int, luck: np.uint64, arms: NDArray[np.int64], beliefs: NDArray[np.float64]
) -> None:
    """Write what an arm's draw follows from: its luck and its posterior."""
    for i in range(arms.size):
        beliefs[0, i] = uniform(luck, arms[i])
        beliefs[1, i], beliefs[2, i], beliefs[3, i] = _posterior(request.rows, arms[i])


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
