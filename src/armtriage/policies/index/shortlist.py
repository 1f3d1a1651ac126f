"""What index policies share: play the S arms of largest index ``mean + scale / sqrt(count)``.

The scale never falls from round to round, so an arm's index at a later scale bounds its index until then. A
*shortlist* holds every arm whose bound reaches a threshold; as long as the S-th best of the list does too, no
other arm can be in the decision and none is looked at. Decisions are exactly those of a full scan.
"""

from __future__ import annotations

import math

import numpy as np
from numpy.typing import NDArray

from armtriage.graphs.feedback import GraphArrays
from armtriage.kernels.jit import inlined, kernel, lowest_bit
from armtriage.kernels.order import top_first
from armtriage.kernels.record import Record
from armtriage.policies.compiled import CompiledPolicy
from armtriage.policies.facts import within
from armtriage.policies.lost import PATIENCE, all_as_least, as_least

__all__ = [
    "IndexPolicy",
    "IndexState",
    "lifetime",
    "lift_unseen",
    "rank",
    "release",
    "schedule",
    "shorten",
    "stale",
    "take_top",
    "take_unseen",
    "update",
    "write_indices",
]

_SMALL = 192  # up to so many arms a scan of all costs less than keeping a list
_CHUNK = 256  # listed arms that are compared at once, so that flags and indices stay in the fastest cache
_LOWEST = np.finfo(np.float64).min


class IndexState(Record):
    """State of an index policy; `seats` says where an arm stands in the shortlist, -1 if nowhere."""

    facts = ("counts", "sums", "between", "missed")
    counts: NDArray[np.int64]
    sums: NDArray[np.float64]
    between: NDArray[np.float64]  # (K,) sums of r (1 - r), or empty where no index needs them
    means: NDArray[np.float64]  # -inf until observed; both with what lost rewards count for, see `policies.lost`
    radii: NDArray[np.float64]  # 1 / sqrt(count), 0 until observed
    pending: NDArray[np.int64]  # rewards on their way
    missed: NDArray[np.int64]  # rewards in a row that did not come
    seats: NDArray[np.int64]
    listed: NDArray[np.int64]
    listed_means: NDArray[np.float64]
    listed_radii: NDArray[np.float64]
    kept: NDArray[np.int64]
    kept_values: NDArray[np.float64]
    words: NDArray[np.uint64]  # scratch: a byte for each seat
    length: int  # of the list
    unseen: int  # arms, but for those that many rewards were lost of
    mute: int  # whether any reward has been lost
    cursor: int  # into them
    aim: int  # for `length`
    ordered: int  # whether the list is by arm
    hits: int  # listed arms that reached the level of the last round
    outside: float  # bound on the index of the others, up to the scale `end`
    end: float
    level: float  # of the S-th index
    margin: float
    reach: float


@kernel
@inlined
def lifetime(state: IndexState, budget: int) -> int:
    """Return for how many rounds a shortlist is made: each round uses up about a decision's worth of it."""
    return 4 + 2 * state.aim // budget


@kernel
@inlined
def stale(state: IndexState, scale: float) -> bool:
    """Whether the shortlist was made for smaller scales."""
    return scale > state.end


@kernel
@inlined
def _is_unseen(state: IndexState, a: int) -> bool:
    return state.counts[a] == 0 and state.missed[a] < PATIENCE  # type: ignore[no-any-return]


@kernel
def _take_waiting(state: IndexState, taken: int, arms: NDArray[np.int64]) -> int:
    """Take unseen arms whose first reward is on its way, the least asked first."""
    n = 0
    for a in range(state.counts.size):
        if _is_unseen(state, a) and state.pending[a] > 0:
            state.kept[n] = a
            state.kept_values[n] = -float(state.pending[a])
            n += 1
    k = min(arms.size - taken, n)
    top_first(state.kept_values, state.kept, n, k)
    for i in range(k):
        arms[taken + i] = state.kept[i]
    return taken + k


@kernel
@inlined
def take_unseen(state: IndexState, arms: NDArray[np.int64]) -> int:
    """Fill `arms` with arms of infinite index, the least asked and then the smallest first; return how many."""
    taken = 0
    if state.unseen > 0:
        a = state.cursor
        while a < state.counts.size and taken < arms.size:
            if _is_unseen(state, a) and state.pending[a] == 0:
                arms[taken] = a
                taken += 1
            a += 1
        # What is chosen here may not be played: another decision may be recorded in its place.
        state.cursor = arms[0] if taken > 0 else a
        if taken < arms.size and state.unseen > taken:
            taken = _take_waiting(state, taken, arms)
    return taken


@kernel
@inlined
def _flag(
    means: NDArray[np.float64],
    radii: NDArray[np.float64],
    words: NDArray[np.uint64],
    first: int,
    last: int,
    scale: float,
    level: float,
) -> None:
    """Set the byte of each seat from `first`, a multiple of 8, to `last` whose index reaches `level`."""
    flags, x, y = words.view(np.uint8)[first:], means[first:last], radii[first:last]
    for i in range(x.size):
        # Slices from 0 let the compiler see that no index is negative, and vectorise.
        flags[i] = x[i] + scale * y[i] >= level
    for i in range(x.size, (x.size + 7) & -8):
        flags[i] = 0


@kernel
def shorten(state: IndexState, k: int, end: float) -> None:
    """List the arms whose index at the scale `end` reaches a threshold that some `AIM` arms pass.

    `end` is a scale that will not be passed for some rounds: the list is exact until then.
    """
    n_arms = state.counts.size
    for i in range(state.length):
        state.seats[state.listed[i]] = -1
    threshold = state.level - state.reach
    while True:
        if not threshold < np.inf or state.reach > 1e3:
            threshold = _LOWEST
        _flag(state.means, state.radii, state.words, 0, n_arms, end, threshold)
        n = 0
        for w in range((n_arms + 7) >> 3):
            word = state.words[w]
            while word != 0:
                a = 8 * w + (lowest_bit(word) >> 3)
                word &= word - np.uint64(1)
                state.listed[n] = a
                n += 1
        if threshold == _LOWEST or n >= max(2 * k, state.aim // 2):
            break
        state.reach *= 2.0
        threshold = state.level - state.reach
    if n > 2 * state.aim:
        state.reach = max(1e-9, 0.7 * state.reach)
    for i in range(n):
        a = state.listed[i]
        state.seats[a] = i
        state.listed_means[i] = state.means[a]
        state.listed_radii[i] = state.radii[a]
    state.length = n
    state.ordered = 1
    state.outside = threshold
    state.end = end


@kernel
@inlined
def _keep(state: IndexState, scale: float, level: float, k: int) -> int:
    """Collect the listed arms whose index reaches `level`, the k largest among them; return how many."""
    n, m, trimmed, floor = state.length, 0, 0, level
    for first in range(0, n, _CHUNK):
        last = min(n, first + _CHUNK)
        _flag(state.listed_means, state.listed_radii, state.words, first, last, scale, floor)
        for w in range(first >> 3, (last + 7) >> 3):
            word = state.words[w]
            while word != 0:
                i = 8 * w + (lowest_bit(word) >> 3)
                word &= word - np.uint64(1)
                state.kept[m] = state.listed[i]
                state.kept_values[m] = state.listed_means[i] + scale * state.listed_radii[i]
                m += 1
        if m > 2 * k + 64 and last < n:
            # Thousands may tie while counts are small: keep the best so far, and ask more of the others.
            top_first(state.kept_values, state.kept, m, k)
            trimmed += m - k
            m = k
            floor = np.inf
            for i in range(k):
                floor = min(floor, state.kept_values[i])
            if state.ordered > 0:
                floor = np.nextafter(floor, np.inf)
    state.hits = m + trimmed
    return m


@kernel
@inlined
def take_top(state: IndexState, m: int, arms: NDArray[np.int64], taken: int) -> None:
    """Fill the rest of `arms` with the best of the m arms that were kept, and note the index of the last."""
    k = arms.size - taken
    top_first(state.kept_values, state.kept, m, k)
    level = np.inf
    for i in range(k):
        level = min(level, state.kept_values[i])
        arms[taken + i] = state.kept[i]
    state.level = level


@kernel
@inlined
def rank(state: IndexState, scale: float, arms: NDArray[np.int64], taken: int) -> bool:
    """Fill the rest of `arms` with the observed arms of largest index, ties to the smallest.

    False, if an arm outside the shortlist might belong there: `shorten` and try again.
    """
    k = arms.size - taken
    floor = state.level - state.margin if state.level < np.inf else _LOWEST
    while True:
        m = _keep(state, scale, floor, k)
        if m >= k:
            break
        if floor == _LOWEST:
            return False
        state.margin *= 4.0
        floor = state.level - state.margin if state.margin < 1e3 else _LOWEST
    factor = 0.8 if state.hits > k + 1 + k // 8 else 1.25
    state.margin = max(1e-9, min(1.0, factor * state.margin))
    take_top(state, m, arms, taken)
    return state.level >= state.outside


@kernel
@inlined
def _rate(state: IndexState, a: int, mean: float, radius: float) -> None:
    """Note what an arm's index is made of, and list the arm if it may now be among the best."""
    state.means[a] = mean
    state.radii[a] = radius
    seat = state.seats[a]
    if seat < 0 and mean + state.end * radius >= state.outside:
        seat = state.length
        state.length = seat + 1
        state.seats[a] = seat
        state.listed[seat] = a
        state.ordered = 0
    if seat >= 0:
        state.listed_means[seat] = mean
        state.listed_radii[seat] = radius


@kernel
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
        if state.mute > 0:
            state.unseen -= _is_unseen(state, a)
            state.missed[a] = 0
        elif count == 1:
            state.unseen -= 1
        total = state.sums[a] + rewards[i]
        state.counts[a] = count
        state.sums[a] = total
        if state.between.size > 0:
            state.between[a] += rewards[i] * (1.0 - rewards[i])
        if scheduled:
            state.pending[a] -= 1
        _rate(state, a, total / count, 1.0 / math.sqrt(count))


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
        state.missed[a] += 1
        state.mute = 1
        count = state.counts[a] + as_least(state.missed[a])
        if count == 0:
            state.cursor = min(state.cursor, a)
        elif state.missed[a] >= PATIENCE:
            state.unseen -= state.counts[a] == 0 and state.missed[a] == PATIENCE
            _rate(state, a, state.sums[a] / count, 1.0 / math.sqrt(count))


@kernel
def lift_unseen(state: IndexState, size: int, weights: NDArray[np.float64]) -> None:
    """Give arms of infinite index weights such that a best decision has as many of them as possible.

    First come those that were never scheduled. One whose first reward is on its way counts the less, the more often
    it was asked. Only then do the other indices count. `size` is that of the largest decision.
    """
    if state.unseen == 0:
        return
    largest = 0.0
    for a in range(weights.size):
        if not _is_unseen(state, a):
            largest = max(largest, abs(weights[a]))
    waiting = 2.0 * size * (1.0 + largest)
    for a in range(weights.size):
        if _is_unseen(state, a):
            if state.pending[a] > 0:
                weights[a] = waiting * (1.0 + 1.0 / state.pending[a])
            else:
                weights[a] = waiting * 4.0 * size


@kernel
def write_indices(state: IndexState, scale: float, arms: NDArray[np.int64], beliefs: NDArray[np.float64]) -> None:
    """Write the index of each arm; that of an arm which nothing is known of is infinite."""
    for i in range(arms.size):
        arm = arms[i]
        beliefs[0, i] = np.inf if _is_unseen(state, arm) else state.means[arm] + scale * state.radii[arm]


class IndexPolicy(CompiledPolicy):
    """A policy with this state."""

    learns_at_once = True

    def _rebuild(self) -> None:
        state = self._state
        self._check_tallied(state.counts, state.sums)
        within("between", state.between, 0.0, state.counts[: state.between.size] / 4.0)
        within("missed", state.missed, 0, self._asked)
        counts = state.counts + all_as_least(state.missed)
        seen = counts > 0
        state.means[seen] = state.sums[seen] / counts[seen]
        state.radii[seen] = 1.0 / np.sqrt(counts[seen])
        state.pending[:], state.mute = self._awaited(), int(state.missed.any())
        state.unseen = np.count_nonzero(~seen)
        # Few arms are listed for good, in order; many are listed again by the next decision.
        state.listed_means[:], state.listed_radii[:] = state.means, state.radii

    def new_state(self) -> IndexState:
        """Return the state before the first round; few arms are all listed for good."""
        n, budget = self.n_arms, self.budget
        everything = n <= max(_SMALL, 3 * budget)
        aim = 2 * budget + int(math.sqrt(n * budget))
        return IndexState(
            np.zeros(n, np.int64),
            np.zeros(n),
            np.zeros(0),
            np.full(n, -np.inf),
            np.zeros(n),
            np.zeros(n, np.int64),
            np.zeros(n, np.int64),
            np.arange(n, dtype=np.int64) if everything else np.full(n, -1, np.int64),
            np.arange(n, dtype=np.int64),
            np.full(n, -np.inf),
            np.zeros(n),
            np.zeros(n, np.int64),
            np.zeros(n),
            np.zeros((n + 7) // 8, np.uint64),
            length=n if everything else 0,
            unseen=n,
            mute=0,
            cursor=0,
            aim=aim,
            ordered=1,
            hits=0,
            outside=-np.inf,
            end=np.inf if everything else -1.0,
            level=np.inf,
            margin=0.05,
            reach=0.1,
        )
