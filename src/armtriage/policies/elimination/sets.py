"""The sets of Algorithm 1: when an active arm is confirmed or eliminated, as printed and by reduced benchmark."""

from __future__ import annotations

from typing import NamedTuple

import numpy as np
from numpy.typing import NDArray

from armtriage.intervals import half_width, interval
from armtriage.kernels.jit import borrowed, inlined, kernel
from armtriage.kernels.order import kth_largest
from armtriage.policies.elimination.layers import Layer

__all__ = ["Params", "State", "count_lagging", "decide", "drop_decided", "refresh", "sort_printed", "sort_reduced"]

ACTIVE, CONFIRMED, ELIMINATED, CHOSEN = range(4)
LEAST, N_ACTIVE, N_CONFIRMED, LAGGING, DIRTY, ADVANCED, CLOCK, LOGGED, FAILED, UNDERWAY = range(10)
MEMO = 64


class Params(NamedTuple):
    """Parameters of the kernels; `horizon` 0 stands for intervals that hold at all times."""

    budget: int
    n_arms: int
    horizon: float
    delta: float
    interval: int
    reduced: bool
    intersect: bool
    skip_revealed: bool
    tie_break: int
    fill: int


class State(NamedTuple):
    """What elimination knows; `active` and `confirmed` are lists whose lengths stand in `whole`."""

    counts: NDArray[np.int64]
    sums: NDArray[np.float64]
    squares: NDArray[np.float64]  # (K,), or empty where no interval needs them
    pending: NDArray[np.int64]  # rewards on their way
    status: NDArray[np.uint8]
    lower: NDArray[np.float64]
    upper: NDArray[np.float64]
    due: NDArray[np.int64]  # count at which the arm's interval is computed anew
    active: NDArray[np.int64]  # ascending
    confirmed: NDArray[np.int64]
    preference: NDArray[np.float64]  # breaks ties among out-degrees; empty for smallest arm first
    layer: Layer
    memo: NDArray[np.float64]  # (MEMO, MEMO, 2) intervals by count and sum, -1 until computed
    values: NDArray[np.float64]  # scratch
    chosen: NDArray[np.int64]  # scratch
    log_arms: NDArray[np.int64]
    log_rounds: NDArray[np.int64]
    whole: NDArray[np.int64]


@inlined
def decide(state: State, arm: int, status: int) -> None:
    """Confirm or eliminate an arm, and log it."""
    state.status[arm] = status
    n = state.whole[LOGGED]
    state.log_arms[n] = arm
    state.log_rounds[n] = state.whole[CLOCK] + 1
    state.whole[LOGGED] = n + 1
    if status == CONFIRMED:
        state.confirmed[state.whole[N_CONFIRMED]] = arm
        state.whole[N_CONFIRMED] += 1
    state.whole[DIRTY] = 1


@kernel
def drop_decided(state: State) -> None:
    """Keep the list of active arms to those that still are."""
    state = borrowed(state)
    n = 0
    for i in range(state.whole[N_ACTIVE]):
        arm = state.active[i]
        if state.status[arm] == ACTIVE:
            state.active[n] = arm
            n += 1
    state.whole[N_ACTIVE] = n


@kernel
def _least_count(state: State) -> int:
    least = state.counts[state.active[0]]
    for i in range(1, state.whole[N_ACTIVE]):
        least = min(least, state.counts[state.active[i]])
    return least  # type: ignore[no-any-return]


@kernel
def count_lagging(state: State) -> None:
    """Count the active arms that have been observed N times only: while there are any, N stays."""
    state = borrowed(state)
    n = 0
    for i in range(state.whole[N_ACTIVE]):
        n += state.counts[state.active[i]] == state.whole[LEAST]
    state.whole[LAGGING] = n


@kernel
def sort_printed(params: Params, state: State) -> None:
    """Update N and the sets as Algorithm 1 prints it, against the S-th best mean of all that is not eliminated."""
    state = borrowed(state)
    if state.whole[N_CONFIRMED] >= params.budget or state.whole[N_ACTIVE] == 0:
        return
    least = _least_count(state)
    if least <= state.whole[LEAST]:
        return
    state.whole[LEAST] = least
    state.whole[ADVANCED] = 1
    n = 0
    for i in range(state.whole[N_CONFIRMED]):
        state.values[n] = state.sums[state.confirmed[i]] / state.counts[state.confirmed[i]]
        n += 1
    for i in range(state.whole[N_ACTIVE]):
        state.values[n] = state.sums[state.active[i]] / state.counts[state.active[i]]
        n += 1
    benchmark = kth_largest(state.values, n, params.budget)
    width = half_width(params.interval, least, params.n_arms, params.horizon, params.delta)
    for i in range(state.whole[N_ACTIVE]):
        arm = state.active[i]
        mean = state.sums[arm] / state.counts[arm]
        if mean > benchmark + 4.0 * width:
            decide(state, arm, CONFIRMED)
        elif mean < benchmark - 2.0 * width:
            decide(state, arm, ELIMINATED)
    drop_decided(state)
    count_lagging(state)


@inlined
def _interval(params: Params, state: State, arm: int) -> tuple[float, float]:
    """Return the arm's interval; for small counts of 0s and 1s it is looked up, since many arms share it."""
    count, total = state.counts[arm], state.sums[arm]
    if state.squares.size > 0:
        return interval(params.interval, count, total, state.squares[arm], params.n_arms, params.horizon, params.delta)
    wins = int(total)
    if count >= MEMO or wins != total:
        return interval(params.interval, count, total, 0.0, params.n_arms, params.horizon, params.delta)
    if state.memo[count, wins, 1] < 0.0:
        lower, upper = interval(params.interval, count, total, 0.0, params.n_arms, params.horizon, params.delta)
        state.memo[count, wins, 0], state.memo[count, wins, 1] = lower, upper
    return state.memo[count, wins, 0], state.memo[count, wins, 1]


@inlined
def refresh(params: Params, state: State, arm: int) -> None:
    """Compute an arm's interval anew; an old one stays valid, so this may wait until the count has grown by 1/32."""
    count = state.counts[arm]
    if count < state.due[arm]:
        return
    state.due[arm] = count + 1 + count // 32
    lower, upper = _interval(params, state, arm)
    if params.intersect:
        if max(lower, state.lower[arm]) <= min(upper, state.upper[arm]):
            lower, upper = max(lower, state.lower[arm]), min(upper, state.upper[arm])
        else:
            # The good event has failed, or the rewards are not stationary: trust the newest interval.
            state.whole[FAILED] += 1
    state.lower[arm] = lower
    state.upper[arm] = upper


@kernel
def sort_reduced(params: Params, state: State) -> None:
    """Update N and the sets until N stands still: compare each arm's interval with the free slots' rank bounds.

    With k slots free, an arm above the (k+1)-th largest upper bound belongs to the best, and one below the k-th
    largest lower bound does not. At most k arms can be the former and k never are the latter, so no set runs over.
    """
    state = borrowed(state)
    while state.whole[LAGGING] == 0:
        n, k = state.whole[N_ACTIVE], params.budget - state.whole[N_CONFIRMED]
        if n <= k:
            return
        state.whole[LEAST] = _least_count(state)
        state.whole[DIRTY] = 1
        for i in range(n):
            refresh(params, state, state.active[i])
            state.values[i] = state.lower[state.active[i]]
        kth_lower = kth_largest(state.values, n, k)
        for i in range(n):
            state.values[i] = state.upper[state.active[i]]
        next_upper = kth_largest(state.values, n, k + 1)
        for i in range(n):
            arm = state.active[i]
            if state.lower[arm] > next_upper:
                decide(state, arm, CONFIRMED)
            elif state.upper[arm] < kth_lower:
                decide(state, arm, ELIMINATED)
        drop_decided(state)
        count_lagging(state)
