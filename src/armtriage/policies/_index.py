"""What index policies share: play the S arms of largest index ``mean + scale / sqrt(count)``.

The scale never falls from round to round, so an arm's index at a later scale bounds its index until then. A
*shortlist* holds every arm whose bound reaches a threshold; as long as the S-th best of the list does too, no
other arm can be in the decision and none is looked at. Decisions are exactly those of a full scan.
"""

from __future__ import annotations

import math
from typing import NamedTuple

import numpy as np
from numpy.typing import NDArray

from armtriage._jit import inlined, kernel
from armtriage.feedback import GraphArrays
from armtriage.policies._order import top_first

__all__ = [
    "IndexState",
    "lifetime",
    "new_index_state",
    "rank",
    "release",
    "schedule",
    "shorten",
    "stale",
    "take_unseen",
    "update",
]

LENGTH, UNSEEN, CURSOR, AIM = range(4)
OUTSIDE, END, LEVEL, MARGIN, REACH = range(5)
_SMALL = 192
_BLOCK = 16


class IndexState(NamedTuple):
    """State of an index policy; `seats` says where an arm stands in the shortlist, -1 if nowhere."""

    counts: NDArray[np.int64]
    sums: NDArray[np.float64]
    means: NDArray[np.float64]  # -inf until observed
    radii: NDArray[np.float64]  # 1 / sqrt(count), 0 until observed
    pending: NDArray[np.int64]  # rewards on their way
    seats: NDArray[np.int64]
    listed: NDArray[np.int64]
    listed_means: NDArray[np.float64]
    listed_radii: NDArray[np.float64]
    kept: NDArray[np.int64]
    kept_values: NDArray[np.float64]
    whole: NDArray[np.int64]  # LENGTH of the list, UNSEEN arms, CURSOR into them, AIM for the length
    real: NDArray[np.float64]  # bound OUTSIDE the list, END of its scale, LEVEL of the S-th index, MARGIN, REACH


def new_index_state(n_arms: int, budget: int) -> IndexState:
    """Return the state before the first round; few arms are all listed for good."""
    padded = n_arms + _BLOCK
    everything = n_arms <= max(_SMALL, 3 * budget)
    aim = 2 * budget + int(math.sqrt(2.0 * n_arms * budget))
    listed = np.arange(n_arms)
    seats = np.arange(n_arms) if everything else np.full(n_arms, -1)
    end = np.inf if everything else -1.0
    return IndexState(
        np.zeros(n_arms, np.int64),
        np.zeros(n_arms),
        np.full(n_arms, -np.inf),
        np.zeros(n_arms),
        np.zeros(n_arms, np.int64),
        seats.astype(np.int64),
        listed.astype(np.int64),
        np.full(padded, -np.inf),
        np.zeros(padded),
        np.zeros(padded, np.int64),
        np.zeros(padded),
        np.array([n_arms if everything else 0, n_arms, 0, aim, 0, 0, 0], np.int64),
        np.array([-np.inf, end, np.inf, 0.05, 0.1]),
    )


@inlined
def lifetime(state: IndexState, budget: int) -> int:
    """Return for how many rounds a shortlist is made: each round uses up about a decision's worth of it."""
    return 4 + 2 * state.whole[AIM] // budget  # type: ignore[no-any-return]


@inlined
def stale(state: IndexState, scale: float) -> bool:
    """Whether the shortlist was made for smaller scales."""
    return scale > state.real[END]  # type: ignore[no-any-return]


@kernel
def _take_waiting(state: IndexState, taken: int, arms: NDArray[np.int64]) -> int:
    """Take unseen arms whose first reward is on its way, the least asked first."""
    n = 0
    for a in range(state.counts.size):
        if state.counts[a] == 0 and state.pending[a] > 0:
            state.kept[n] = a
            state.kept_values[n] = -float(state.pending[a])
            n += 1
    k = min(arms.size - taken, n)
    top_first(state.kept_values, state.kept, n, k)
    for i in range(k):
        arms[taken + i] = state.kept[i]
    return taken + k


@inlined
def take_unseen(state: IndexState, arms: NDArray[np.int64]) -> int:
    """Fill `arms` with arms of infinite index, the least asked and then the smallest first; return how many."""
    taken = 0
    if state.whole[UNSEEN] > 0:
        a = state.whole[CURSOR]
        while a < state.counts.size and taken < arms.size:
            if state.counts[a] == 0 and state.pending[a] == 0:
                arms[taken] = a
                taken += 1
            a += 1
        state.whole[CURSOR] = a
        if taken < arms.size and state.whole[UNSEEN] > taken:
            taken = _take_waiting(state, taken, arms)
    return taken


@kernel
def shorten(state: IndexState, k: int, end: float) -> None:
    """List the arms whose index at the scale `end` reaches a threshold that some `AIM` arms pass.

    `end` is a scale that will not be passed for some rounds: the list is exact until then.
    """
    n_arms = state.counts.size
    for i in range(state.whole[LENGTH]):
        state.seats[state.listed[i]] = -1
    while True:
        threshold = state.real[LEVEL] - state.real[REACH]
        n = 0
        if threshold < np.inf:
            for a in range(n_arms):
                state.listed[n] = a
                n += state.means[a] + end * state.radii[a] >= threshold
                if n == n_arms:
                    break
        if n >= max(2 * k, state.whole[AIM] // 2):
            break
        if not threshold < np.inf or threshold < -8.0 - end:
            threshold = -np.inf
            for a in range(n_arms):
                state.listed[a] = a
            n = n_arms
            break
        state.real[REACH] *= 1.5
    if n > 2 * state.whole[AIM]:
        state.real[REACH] *= 0.7
    for i in range(n):
        a = state.listed[i]
        state.seats[a] = i
        state.listed_means[i] = state.means[a]
        state.listed_radii[i] = state.radii[a]
    for i in range(n, n + _BLOCK):
        state.listed_means[i] = -np.inf
        state.listed_radii[i] = 0.0
    state.whole[LENGTH] = n
    state.real[OUTSIDE] = threshold
    state.real[END] = end
    state.whole[4] += 1


@inlined
def _keep(state: IndexState, scale: float, level: float) -> int:
    """Collect the listed arms whose index reaches `level`; return how many."""
    means, radii, kept, values = state.listed_means, state.listed_radii, state.kept, state.kept_values
    m = 0
    for block in range(0, state.whole[LENGTH], _BLOCK):
        # This loop is vectorised, and most blocks end here. Seats past the last one hold -inf.
        hits = 0
        for i in range(block, block + _BLOCK):
            hits += means[i] + scale * radii[i] >= level
        if hits > 0:
            for i in range(block, block + _BLOCK):
                value = means[i] + scale * radii[i]
                values[m] = value
                kept[m] = i
                m += value >= level
    return m


@inlined
def rank(state: IndexState, scale: float, arms: NDArray[np.int64], taken: int) -> bool:
    """Fill the rest of `arms` with the observed arms of largest index, ties to the smallest.

    False, if an arm outside the shortlist might belong there: `shorten` and try again.
    """
    k = arms.size - taken
    m = _keep(state, scale, state.real[LEVEL] - state.real[MARGIN])
    if m < k:
        state.real[MARGIN] *= 2.0
        m = _keep(state, scale, state.real[LEVEL] - state.real[MARGIN])
        if m < k:
            m = _keep(state, scale, np.finfo(np.float64).min)
            if m < k:
                return False
    elif m > 2 * k + 4:
        state.real[MARGIN] *= 0.9
    for i in range(m):
        state.kept[i] = state.listed[state.kept[i]]
    top_first(state.kept_values, state.kept, m, k)
    level = np.inf
    for i in range(k):
        level = min(level, state.kept_values[i])
        arms[taken + i] = state.kept[i]
    state.real[LEVEL] = level
    return level >= state.real[OUTSIDE]  # type: ignore[no-any-return]


@inlined
def update(
    params: object,
    state: IndexState,
    graph: GraphArrays,
    number: int,
    luck: np.uint64,
    seen: NDArray[np.int64],
    rewards: NDArray[np.float64],
    n: int,
    scheduled: bool,
) -> None:
    """Record the rewards of the first n arms of `seen`."""
    for i in range(n):
        a = seen[i]
        count = state.counts[a] + 1
        if count == 1:
            state.whole[UNSEEN] -= 1
        total = state.sums[a] + rewards[i]
        mean = total / count
        radius = 1.0 / math.sqrt(count)
        state.counts[a] = count
        state.sums[a] = total
        state.means[a] = mean
        state.radii[a] = radius
        if scheduled:
            state.pending[a] -= 1
        seat = state.seats[a]
        if seat < 0 and mean + state.real[END] * radius >= state.real[OUTSIDE]:
            seat = state.whole[LENGTH]
            state.whole[LENGTH] = seat + 1
            state.seats[a] = seat
            state.listed[seat] = a
            state.listed_means[seat + _BLOCK] = -np.inf
            state.listed_radii[seat + _BLOCK] = 0.0
        if seat >= 0:
            state.listed_means[seat] = mean
            state.listed_radii[seat] = radius


@kernel
def schedule(params: object, state: IndexState, graph: GraphArrays, arms: NDArray[np.int64]) -> None:
    """Count rewards that are on their way, so that open decisions spread over unseen arms."""
    for i in range(arms.size):
        state.pending[arms[i]] += 1


@kernel
def release(params: object, state: IndexState, graph: GraphArrays, arms: NDArray[np.int64]) -> None:
    """Forget rewards that will not come; an arm still unseen is offered again."""
    for i in range(arms.size):
        a = arms[i]
        state.pending[a] -= 1
        if state.counts[a] == 0:
            state.whole[CURSOR] = min(state.whole[CURSOR], a)
