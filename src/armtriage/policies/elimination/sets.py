"""The sets of Algorithm 1: when an active arm is confirmed or eliminated, as printed and by reduced benchmark."""

from __future__ import annotations

from typing import NamedTuple

import numpy as np
from numpy.typing import NDArray

from armtriage.intervals import half_width, interval
from armtriage.kernels.jit import kernel
from armtriage.kernels.order import kth_largest
from armtriage.kernels.record import Record
from armtriage.policies.elimination.layers import Layer

__all__ = [
    "ACTIVE",
    "CHOSEN",
    "CONFIRMED",
    "ELIMINATED",
    "MEMO",
    "Params",
    "State",
    "judge",
    "least_count",
    "refresh",
    "sort_printed",
    "sort_reduced",
    "tries",
]

ACTIVE, CONFIRMED, ELIMINATED, CHOSEN = range(4)
MEMO = 64  # counts up to which intervals of 0/1 rewards are looked up: a table of 64 kB, which most early sorts hit


class Params(Record, frozen=True):
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


class State(Record):
    """What elimination knows; `active` and `confirmed` are lists of `n_active` and `n_confirmed` arms."""

    facts = (
        *("counts", "sums", "between", "status", "lower", "upper", "due", "preference", "log_arms", "log_rounds"),
        *("missed", "credit", "least", "dirty", "advanced", "clock", "n_logged", "failures", "mute"),
    )
    counts: NDArray[np.int64]
    sums: NDArray[np.float64]
    between: NDArray[np.float64]  # (K,) sums of r (1 - r), or empty where no interval needs them
    pending: NDArray[np.int64]  # rewards on their way
    missed: NDArray[np.int64]  # rewards in a row that did not come
    credit: NDArray[np.int64]  # tries that lost rewards count for, see `policies.lost`
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
    least: int  # N in the paper: how often every active arm has been observed
    n_active: int
    n_confirmed: int
    n_lagging: int  # active arms that have been observed N times only
    dirty: int  # whether the sets have changed since the layer began
    advanced: int  # whether N has, as printed
    clock: int  # the number of the round
    n_logged: int
    failures: int  # new intervals that contradicted old ones
    underway: int  # rewards on their way, in all
    mute: int  # whether any reward has been lost


@kernel
def decide(state: State, arm: int, status: int) -> None:
    """Confirm or eliminate an arm, and log it."""
    state.status[arm] = status
    n = state.n_logged
    state.log_arms[n] = arm
    state.log_rounds[n] = state.clock + 1
    state.n_logged = n + 1
    if status == CONFIRMED:
        state.confirmed[state.n_confirmed] = arm
        state.n_confirmed += 1
    state.dirty = 1


@kernel
def drop_decided(state: State) -> None:
    """Keep the list of active arms to those that still are."""
    n = 0
    for i in range(state.n_active):
        arm = state.active[i]
        if state.status[arm] == ACTIVE:
            state.active[n] = arm
            n += 1
    state.n_active = n


@kernel
def tries(state: State, arm: int) -> int:
    """Return for how many observations an arm counts in the schedule."""
    return state.counts[arm] + state.credit[arm]  # type: ignore[no-any-return]


@kernel
def least_count(state: State) -> int:
    """Return how often the least observed active arm has been, or would have been had no reward been lost."""
    least = tries(state, state.active[0])
    for i in range(1, state.n_active):
        least = min(least, tries(state, state.active[i]))
    return least


@kernel
def count_lagging(state: State) -> None:
    """Count the active arms that have been observed N times only: while there are any, N stays."""
    n = 0
    for i in range(state.n_active):
        n += tries(state, state.active[i]) == state.least
    state.n_lagging = n


@kernel
def sort_printed(params: Params, state: State) -> None:
    """Update N and the sets as Algorithm 1 prints it, against the S-th best mean of all that is not eliminated."""
    if state.n_confirmed >= params.budget or state.n_active == 0:
        return
    least = least_count(state)
    if least <= state.least:
        return
    state.least = least
    state.advanced = 1
    n = 0
    for i in range(state.n_confirmed):
        state.values[n] = state.sums[state.confirmed[i]] / state.counts[state.confirmed[i]]
        n += 1
    for i in range(state.n_active):
        # Its mean is no narrower than the width below says unless the arm has really been observed N times.
        if state.counts[state.active[i]] >= least:
            state.values[n] = state.sums[state.active[i]] / state.counts[state.active[i]]
            n += 1
    if n < params.budget:
        count_lagging(state)
        return
    benchmark = kth_largest(state.values, n, params.budget)
    width = half_width(params.interval, least, params.n_arms, params.horizon, params.delta)
    for i in range(state.n_active):
        arm = state.active[i]
        if state.counts[arm] < least:
            continue
        mean = state.sums[arm] / state.counts[arm]
        if mean > benchmark + 4.0 * width:
            decide(state, arm, CONFIRMED)
        elif mean < benchmark - 2.0 * width:
            decide(state, arm, ELIMINATED)
    drop_decided(state)
    count_lagging(state)


@kernel
def _interval(params: Params, state: State, arm: int) -> tuple[float, float]:
    """Return the arm's interval; for small counts of 0s and 1s it is looked up, since many arms share it."""
    count, total = state.counts[arm], state.sums[arm]
    between = state.between[arm] if state.between.size > 0 else 0.0
    wins = int(total)
    if count >= MEMO or wins != total or between > 0.0:
        return interval(params.interval, count, total, between, params.n_arms, params.horizon, params.delta)
    if state.memo[count, wins, 1] < 0.0:
        lower, upper = interval(params.interval, count, total, between, params.n_arms, params.horizon, params.delta)
        state.memo[count, wins, 0], state.memo[count, wins, 1] = lower, upper
    return state.memo[count, wins, 0], state.memo[count, wins, 1]


@kernel
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
            state.failures += 1
    state.lower[arm] = lower
    state.upper[arm] = upper


class Ranks(NamedTuple):
    """What a comparison of the active arms' intervals has found."""

    changed: bool  # whether an arm was confirmed or eliminated
    gap: float  # upper bound on the gap between the last free slot and the next arm
    spread: float  # from the least lower to the greatest upper end


@kernel
def judge(params: Params, state: State) -> Ranks:
    """Confirm and eliminate by reduced benchmark, where more arms are active than slots are free.

    With k slots free, an arm above the (k+1)-th largest upper bound belongs to the best, and one below the k-th
    largest lower bound does not. At most k arms can be the former and k never are the latter, so no set runs over.
    """
    n, k = state.n_active, params.budget - state.n_confirmed
    least, greatest, next_lower, next_upper = 1.0, 0.0, -np.inf, -np.inf
    for i in range(n):
        state.values[i] = state.lower[state.active[i]]
        least = min(least, state.values[i])
    kth_lower = kth_largest(state.values, n, k)
    for i in range(k, n):
        next_lower = max(next_lower, state.values[i])
    for i in range(n):
        state.values[i] = state.upper[state.active[i]]
        greatest = max(greatest, state.values[i])
    kth_upper = kth_largest(state.values, n, k)
    for i in range(k, n):
        next_upper = max(next_upper, state.values[i])
    changed = False
    for i in range(n):
        arm = state.active[i]
        if state.lower[arm] > next_upper:
            decide(state, arm, CONFIRMED)
            changed = True
        elif state.upper[arm] < kth_lower:
            decide(state, arm, ELIMINATED)
            changed = True
    if changed:
        drop_decided(state)
    return Ranks(changed, kth_upper - next_lower, greatest - least)


@kernel
def sort_reduced(params: Params, state: State) -> None:
    """Update N and the sets until N stands still."""
    while state.n_lagging == 0:
        if state.n_active <= params.budget - state.n_confirmed:
            return
        state.least = least_count(state)
        state.dirty = 1
        for i in range(state.n_active):
            refresh(params, state, state.active[i])
        judge(params, state)
        count_lagging(state)
