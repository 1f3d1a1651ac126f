"""The sets of Algorithm 1: when an active arm is confirmed or eliminated, as printed and by reduced benchmark."""

from __future__ import annotations

from typing import NamedTuple

import numpy as np
from numpy.typing import NDArray

from armtriage.graphs.feedback import GraphArrays
from armtriage.intervals import half_width
from armtriage.kernels.jit import kernel
from armtriage.kernels.order import kth_largest
from armtriage.kernels.record import Floats, Ints, Record, fact
from armtriage.policies.elimination.layers import Layer
from armtriage.policies.evidence import Evidence, Intervals, refresh, tries

ACTIVE, CONFIRMED, ELIMINATED, CHOSEN = range(4)


class Params(Record, frozen=True):
    """Parameters of the kernels; `horizon` 0 stands for intervals that hold at all times."""

    graph: GraphArrays
    plain: bool  # whether each arm reveals itself only
    budget: int
    n_arms: int  # that share delta
    horizon: float
    delta: float
    interval: int
    reduced: bool
    intersect: bool
    skip_revealed: bool
    tie_break: int
    fill: int


class Sets(Record):
    """The three sets among all arms; `active` and `confirmed` are lists of `n_active` and `n_confirmed` arms."""

    status: NDArray[np.uint8] = fact(ACTIVE, ELIMINATED)
    active: Ints  # ascending
    confirmed: Ints
    preference: Floats = fact(0.0, 1.0)  # breaks ties among out-degrees at random; empty otherwise
    layer: Layer
    values: Floats  # scratch
    chosen: Ints  # scratch
    log_arms: Ints = fact()
    log_rounds: Ints = fact()
    least: int = fact(0)  # N in the paper: how often every active arm has been observed
    n_active: int
    n_confirmed: int
    n_lagging: int  # active arms that have been observed N times only
    dirty: int = fact(0, 1)  # whether the sets have changed since the layer began
    advanced: int = fact(0, 1)  # whether N has, as printed
    clock: int = fact(0, "asked")  # the number of the round
    n_logged: int = fact(0, "arms")
    underway: int  # rewards on their way, in all


@kernel
def decide(sets: Sets, arm: int, status: int) -> None:
    """Confirm or eliminate an arm, and log it."""
    sets.status[arm] = status
    n = sets.n_logged
    sets.log_arms[n] = arm
    sets.log_rounds[n] = sets.clock + 1
    sets.n_logged = n + 1
    if status == CONFIRMED:
        sets.confirmed[sets.n_confirmed] = arm
        sets.n_confirmed += 1
    sets.dirty = 1


@kernel
def drop_decided(sets: Sets) -> None:
    """Keep the list of active arms to those that still are."""
    n = 0
    for i in range(sets.n_active):
        arm = sets.active[i]
        if sets.status[arm] == ACTIVE:
            sets.active[n] = arm
            n += 1
    sets.n_active = n


@kernel
def least_count(evidence: Evidence, sets: Sets) -> int:
    """Return how often the least observed active arm has been, or would have been had no reward been lost."""
    least = tries(evidence, sets.active[0])
    for i in range(1, sets.n_active):
        least = min(least, tries(evidence, sets.active[i]))
    return least


@kernel
def count_lagging(evidence: Evidence, sets: Sets) -> None:
    """Count the active arms that have been observed N times only: while there are any, N stays."""
    n = 0
    for i in range(sets.n_active):
        n += tries(evidence, sets.active[i]) == sets.least
    sets.n_lagging = n


@kernel
def sort_printed(params: Params, evidence: Evidence, sets: Sets) -> None:
    """Update N and the sets as Algorithm 1 prints it, against the S-th best mean of all that is not eliminated."""
    if sets.n_confirmed >= params.budget or sets.n_active == 0:
        return
    least = least_count(evidence, sets)
    if least <= sets.least:
        return
    sets.least = least
    sets.advanced = 1
    n = 0
    for i in range(sets.n_confirmed):
        sets.values[n] = evidence.sums[sets.confirmed[i]] / evidence.counts[sets.confirmed[i]]
        n += 1
    for i in range(sets.n_active):
        # Its mean is no narrower than the width below says unless the arm has really been observed N times.
        if evidence.counts[sets.active[i]] >= least:
            sets.values[n] = evidence.sums[sets.active[i]] / evidence.counts[sets.active[i]]
            n += 1
    if n < params.budget:
        count_lagging(evidence, sets)
        return
    benchmark = kth_largest(sets.values, n, params.budget)
    width = half_width(params.interval, least, params.n_arms, params.horizon, params.delta)
    for i in range(sets.n_active):
        arm = sets.active[i]
        if evidence.counts[arm] < least:
            continue
        mean = evidence.sums[arm] / evidence.counts[arm]
        if mean > benchmark + 4.0 * width:
            decide(sets, arm, CONFIRMED)
        elif mean < benchmark - 2.0 * width:
            decide(sets, arm, ELIMINATED)
    drop_decided(sets)
    count_lagging(evidence, sets)


class Ranks(NamedTuple):
    """What a comparison of the active arms' intervals has found."""

    changed: bool  # whether an arm was confirmed or eliminated
    gap: float  # upper bound on the gap between the last free slot and the next arm
    spread: float  # from the least lower to the greatest upper end


@kernel
def judge(params: Params, evidence: Evidence, sets: Sets) -> Ranks:
    """Confirm and eliminate by reduced benchmark, where more arms are active than slots are free.

    With k slots free, an arm above the (k+1)-th largest upper bound belongs to the best, and one below the k-th
    largest lower bound does not. At most k arms can be the former and k never are the latter, so no set runs over.
    """
    n, k = sets.n_active, params.budget - sets.n_confirmed
    least, greatest, next_lower, next_upper = 1.0, 0.0, -np.inf, -np.inf
    for i in range(n):
        sets.values[i] = evidence.lower[sets.active[i]]
        least = min(least, sets.values[i])
    kth_lower = kth_largest(sets.values, n, k)
    for i in range(k, n):
        next_lower = max(next_lower, sets.values[i])
    for i in range(n):
        sets.values[i] = evidence.upper[sets.active[i]]
        greatest = max(greatest, sets.values[i])
    kth_upper = kth_largest(sets.values, n, k)
    for i in range(k, n):
        next_upper = max(next_upper, sets.values[i])
    changed = False
    for i in range(n):
        arm = sets.active[i]
        if evidence.lower[arm] > next_upper:
            decide(sets, arm, CONFIRMED)
            changed = True
        elif evidence.upper[arm] < kth_lower:
            decide(sets, arm, ELIMINATED)
            changed = True
    if changed:
        drop_decided(sets)
    return Ranks(changed, kth_upper - next_lower, greatest - least)


@kernel
def sort_reduced(params: Params, evidence: Evidence, sets: Sets, intervals: Intervals) -> None:
    """Update N and the sets until N stands still."""
    while sets.n_lagging == 0:
        if sets.n_active <= params.budget - sets.n_confirmed:
            return
        sets.least = least_count(evidence, sets)
        sets.dirty = 1
        for i in range(sets.n_active):
            refresh(intervals, evidence, sets.active[i])
        judge(params, evidence, sets)
        count_lagging(evidence, sets)


@kernel
def sort_again(params: Params, evidence: Evidence, sets: Sets) -> None:
    """Confirm and eliminate by the intervals as they are, where all arms are active, until nothing changes."""
    while sets.n_active > params.budget - sets.n_confirmed and judge(params, evidence, sets).changed:
        pass
    sets.least = least_count(evidence, sets) if sets.n_active > 0 else 0
    sets.dirty = 1
    count_lagging(evidence, sets)
