"""What index policies share: the S candidates of largest index ``mean + scale / sqrt(count)``.

Means and radii are kept for each arm, and hold for any candidates. The scale never falls from round to round, so an
arm's index at a later scale bounds its index until then. The *shortlist* has every arm whose index at the scale `end`
reaches `outside`: it answers a request if the S-th best candidate on it reaches `outside`, too, since every other arm
is below that. If not, a request of all arms has the list made again, and another looks at all its candidates. Decisions
are exactly those of a full scan.
"""

from __future__ import annotations

import math
from typing import Any, ClassVar

import numpy as np
from numpy.typing import NDArray

from armtriage.kernels.jit import inlined, kernel, lowest_bit
from armtriage.kernels.order import rank_few, top_first
from armtriage.kernels.record import Floats, Ints, Record, blank
from armtriage.policies.evidence import TOLD, Evidence, all_as_least, counted
from armtriage.policies.request import ALL, Request, is_candidate, list_candidates
from armtriage.policies.slate import SlatePolicy

_SMALL = 192  # up to so many arms a scan of all costs less than keeping a list
_CHUNK = 256  # listed arms that are compared at once, so that flags and indices stay in the fastest cache
_FEW = 16  # candidates that are fewer than a sixteenth of all arms are all looked at: few of them are on the list
_RANKED = 64  # so few are ranked one against all others
_LOWEST = np.finfo(np.float64).min
_FRESH_BITS = np.uint64(0x0101010101010101)
KNOWN, FRESH, WAITING = 0, 1, 2  # whether an arm was seen; if not, whether a reward of it is on its way


class Shortlist(Record):
    """Caches of an index policy, all of which follow from the evidence; `places` says where an arm is listed, or -1."""

    facts = ()
    means: Floats  # -inf until observed; both with what lost rewards count for, see `policies.evidence`
    radii: Floats  # 1 / sqrt(count), 0 until observed
    status: NDArray[np.uint8]
    words: NDArray[np.uint64]  # the same memory, eight arms a word
    places: Ints
    listed: Ints
    listed_means: Floats
    listed_radii: Floats
    kept: Ints  # scratch
    kept_values: Floats  # scratch
    ranked: Ints  # (_RANKED,) scratch
    flags: NDArray[np.uint8]  # scratch: a byte for each listed arm
    flag_words: NDArray[np.uint64]  # the same memory, eight arms a word
    levels: Floats  # (2,) of the S-th index: among all arms, and among others
    margins: Floats  # (2,) how far below it arms are collected
    length: int  # of the list
    n_fresh: int
    n_waiting: int
    cursor: int  # no arm before it is fresh
    aim: int  # for `length`
    ordered: int  # whether the list is by arm
    hits: int  # listed arms that reached the level of the last round
    outside: float  # bound on the index of the others, up to the scale `end`
    end: float
    reach: float


def _new_shortlist(evidence: Evidence, budget: int, *, listing: bool) -> Shortlist:
    """Return the caches of some evidence; few arms are all listed for good, and none where no list is wanted."""
    room, n = evidence.counts.size, int(evidence.n_arms)
    everything = listing and n <= max(_SMALL, 3 * budget)
    flags = np.zeros(room, np.uint8)
    count = evidence.counts + all_as_least(evidence.missed) + evidence.unheard
    seen = count > 0
    means, radii, status = np.full(room, -np.inf), np.zeros(room), np.zeros(room, np.uint8)
    means[seen], radii[seen] = evidence.sums[seen] / count[seen], 1.0 / np.sqrt(count[seen])
    status[:n] = np.where(seen, KNOWN, np.where(evidence.pending > 0, WAITING, FRESH))[:n]
    return blank(
        Shortlist,
        room,
        means=means,
        radii=radii,
        status=status,
        words=status.view(np.uint64),
        places=np.where(np.arange(room) < (n if everything else 0), np.arange(room), -1),
        listed=np.arange(room),
        listed_means=means.copy(),
        listed_radii=radii.copy(),
        ranked=np.zeros(_RANKED, np.int64),
        flags=flags,
        flag_words=flags.view(np.uint64),
        levels=np.full(2, np.inf),
        margins=np.full(2, 0.05),
        length=n if everything else 0,
        n_fresh=int(np.count_nonzero(status == FRESH)),
        n_waiting=int(np.count_nonzero(status == WAITING)),
        aim=2 * budget + int(math.sqrt(n * budget)),
        ordered=1,
        outside=-np.inf if listing else np.inf,
        end=np.inf if everything else -1.0,
        reach=0.1,
    )


@kernel
@inlined
def lifetime(own: Shortlist, request: Request) -> int:
    """Return for how many rounds a shortlist is made: each round uses up about a decision's worth of it."""
    return 4 + 2 * own.aim // request.arms.size


@kernel
def _take_waiting(evidence: Evidence, own: Shortlist, request: Request, taken: int) -> int:
    """Take unseen candidates whose first reward is on its way, the least asked first."""
    n = 0
    for arm in range(evidence.n_arms):
        if own.status[arm] == WAITING and is_candidate(request, arm):
            own.kept[n], own.kept_values[n] = arm, -float(evidence.pending[arm])
            n += 1
    k = min(request.size - taken, n)
    top_first(own.kept_values, own.kept, n, k)
    for i in range(k):
        request.arms[taken + i] = own.kept[i]
    return taken + k


@kernel
@inlined
def take_unseen(evidence: Evidence, own: Shortlist, request: Request) -> int:
    """Fill `arms` with candidates of infinite index, the least asked and then the smallest first; return how many."""
    taken, size = 0, request.size
    if own.n_fresh > 0:
        # What is chosen here may not be played, since another decision may be recorded: the cursor stays before it.
        w, first, last = own.cursor >> 3, -1, (evidence.n_arms + 7) >> 3
        while w < last and taken < size:
            word = own.words[w] & _FRESH_BITS
            if word != 0 and first < 0:
                first = w
            if request.epoch != ALL:
                word &= request.words[w]
            while word != 0 and taken < size:
                request.arms[taken] = 8 * w + (lowest_bit(word) >> 3)
                word &= word - np.uint64(1)
                taken += 1
            w += 1
        own.cursor = 8 * (w if first < 0 else first)
    if own.n_waiting > 0 and taken < size:
        taken = _take_waiting(evidence, own, request, taken)
    return taken


@kernel
@inlined
def _flag(
    means: Floats, radii: Floats, flags: NDArray[np.uint8], first: int, last: int, scale: float, level: float
) -> None:
    """Set the byte of each listed arm from `first`, a multiple of 8, to `last` whose index reaches `level`."""
    flags, x, y = flags[first:], means[first:last], radii[first:last]
    for i in range(x.size):
        # Slices from 0 let the compiler see that no index is negative, and vectorise.
        flags[i] = x[i] + scale * y[i] >= level
    for i in range(x.size, (x.size + 7) & -8):
        flags[i] = 0


@kernel
def shorten(evidence: Evidence, own: Shortlist, request: Request, k: int, end: float) -> None:
    """List the arms whose index at the scale `end` reaches a threshold that some `aim` arms pass.

    `end` is a scale that will not be passed for some rounds: the list is exact until then.
    """
    n_arms, level = evidence.n_arms, own.levels[int(request.epoch != ALL)]
    for i in range(own.length):
        own.places[own.listed[i]] = -1
    threshold = level - own.reach
    while True:
        if not threshold < np.inf or own.reach > 1e3:
            threshold = _LOWEST
        _flag(own.means, own.radii, own.flags, 0, n_arms, end, threshold)
        n = 0
        for w in range((n_arms + 7) >> 3):
            word = own.flag_words[w]
            while word != 0:
                own.listed[n] = 8 * w + (lowest_bit(word) >> 3)
                word &= word - np.uint64(1)
                n += 1
        if threshold == _LOWEST or n >= max(2 * k, own.aim // 2):
            break
        own.reach *= 2.0
        threshold = level - own.reach
    if n > 2 * own.aim:
        own.reach = max(1e-9, 0.7 * own.reach)
    for i in range(n):
        arm = own.listed[i]
        own.places[arm] = i
        own.listed_means[i] = own.means[arm]
        own.listed_radii[i] = own.radii[arm]
    own.length, own.ordered, own.outside, own.end = n, 1, threshold, end


@kernel
def _drop_others(own: Shortlist, request: Request, first: int, m: int) -> int:
    """Keep, of the arms from `first` to m that were kept, the candidates; return how many are left in all."""
    left = first
    for i in range(first, m):
        own.kept[left], own.kept_values[left] = own.kept[i], own.kept_values[i]
        left += int(request.mask[own.kept[i]])
    return left


@kernel
@inlined
def _keep(own: Shortlist, request: Request, scale: float, level: float, k: int) -> int:
    """Collect the listed candidates whose index reaches `level`, the k largest among them; return how many."""
    whole, n, m, known, trimmed, floor = request.epoch == ALL, own.length, 0, 0, 0, level
    kept, values, listed, means, radii = own.kept, own.kept_values, own.listed, own.listed_means, own.listed_radii
    for first in range(0, n, _CHUNK):
        last = min(n, first + _CHUNK)
        _flag(means, radii, own.flags, first, last, scale, floor)
        for w in range(first >> 3, (last + 7) >> 3):
            word = own.flag_words[w]
            while word != 0:
                i = 8 * w + (lowest_bit(word) >> 3)
                word &= word - np.uint64(1)
                kept[m], values[m] = listed[i], means[i] + scale * radii[i]
                m += 1
        if not whole:
            m = _drop_others(own, request, known, m)
            known = m
        if m > 2 * k + 64 and last < n:
            # Thousands may tie while counts are small: keep the best so far, and ask more of the others.
            top_first(values, kept, m, k)
            trimmed += m - k
            m = known = k
            floor = np.inf
            for i in range(k):
                floor = min(floor, values[i])
            if own.ordered > 0:
                floor = np.nextafter(floor, np.inf)
    own.hits = m + trimmed
    return m


@kernel
@inlined
def _search(own: Shortlist, request: Request, scale: float, k: int) -> int:
    """Collect at least k listed candidates, if there are as many; return how many."""
    which = int(request.epoch != ALL)
    level, margin = own.levels[which], own.margins[which]
    floor = level - margin if level < np.inf else _LOWEST
    while True:
        m = _keep(own, request, scale, floor, k)
        if m >= k or floor == _LOWEST:
            break
        margin *= 4.0
        floor = level - margin if margin < 1e3 else _LOWEST
    own.margins[which] = max(1e-9, min(1.0, (0.8 if own.hits > k + 1 + k // 8 else 1.25) * margin))
    return m


@kernel
def take_top(own: Shortlist, request: Request, m: int, taken: int) -> float:
    """Fill the rest of `arms` with the best of the m arms that were kept; note and return the index of the last."""
    k, level = request.size - taken, np.inf
    arms, kept, values, ranked = request.arms, own.kept, own.kept_values, own.ranked
    if m <= _RANKED:
        rank_few(values, kept, m, ranked)
        for i in range(k):
            arms[taken + i] = kept[ranked[i]]
        level = values[ranked[k - 1]]
    else:
        top_first(values, kept, m, k)
        for i in range(k):
            level = min(level, values[i])
            arms[taken + i] = kept[i]
    own.levels[int(request.epoch != ALL)] = level
    return level


@kernel
def _rank_all(evidence: Evidence, own: Shortlist, request: Request, taken: int, scale: float) -> None:
    """Look at all candidates that were observed: where they are few, or the list does not say."""
    list_candidates(evidence, request)
    m = 0
    for i in range(request.n):
        arm = request.among[i]
        own.kept[m], own.kept_values[m] = arm, own.means[arm] + scale * own.radii[arm]
        m += own.status[arm] == KNOWN
    take_top(own, request, m, taken)


@kernel
@inlined
def rank(evidence: Evidence, own: Shortlist, request: Request, taken: int, scale: float) -> bool:
    """Fill the rest of `arms` with the observed candidates of largest index, ties to the smallest.

    False, if the list is too old or too short to say: `shorten` it and try again.
    """
    k = request.size - taken
    if request.epoch == ALL or _FEW * request.n >= evidence.n_arms:
        if scale > own.end:
            return False
        m = _search(own, request, scale, k)
        if m >= k and take_top(own, request, m, taken) >= own.outside:
            return True
        if request.epoch == ALL:
            return False
    _rank_all(evidence, own, request, taken, scale)
    return True


@kernel
def place(params: Any, evidence: Evidence, own: Shortlist, arms: Ints) -> None:
    """Say whether arms are known, fresh or waiting: `expect` of every index policy."""
    for i in range(arms.size):
        arm = arms[i]
        old, new = own.status[arm], KNOWN
        if counted(evidence, arm) == 0.0:
            new = FRESH if evidence.pending[arm] == 0 else WAITING
        if new != old:
            own.n_fresh += int(new == FRESH) - int(old == FRESH)
            own.n_waiting += int(new == WAITING) - int(old == WAITING)
            own.status[arm] = new
            if new == FRESH:
                own.cursor = min(own.cursor, arm)


@kernel
@inlined
def rate(
    params: Any, evidence: Evidence, own: Shortlist, request: Request, seen: Ints, rewards: Floats, event: int
) -> None:
    """Note what the indices of these arms are made of, and list those that may now be among the best.

    It is `learn` of every index policy. Arrays are taken out of the records before the loop, which runs once an arm.
    """
    if event != TOLD or own.n_fresh + own.n_waiting > 0:
        place(params, evidence, own, seen)
    whole = event == TOLD and evidence.mute + evidence.weighed == 0  # neither lost rewards nor open decisions count
    counts, sums, means, radii, places = evidence.counts, evidence.sums, own.means, own.radii, own.places
    listed_means, listed_radii, end, outside = own.listed_means, own.listed_radii, own.end, own.outside
    for i in range(seen.size):
        arm = seen[i]
        count = float(counts[arm]) if whole else counted(evidence, arm)
        mean, radius = -np.inf, 0.0
        if count > 0.0:
            mean, radius = sums[arm] / count, 1.0 / math.sqrt(count)
        means[arm], radii[arm] = mean, radius
        spot = places[arm]
        if spot < 0 and mean + end * radius >= outside:
            spot = own.length
            own.length = spot + 1
            places[arm], own.listed[spot], own.ordered = spot, arm, 0
        if spot >= 0:
            listed_means[spot], listed_radii[spot] = mean, radius


@kernel
def lift_unseen(evidence: Evidence, own: Shortlist, size: int, weights: Floats) -> None:
    """Give arms of infinite index weights such that a best decision has as many of them as possible.

    First come those that were never scheduled. One whose first reward is on its way counts the less, the more often
    it was asked. Only then do the other indices count. `size` is that of the largest decision.
    """
    if own.n_fresh + own.n_waiting == 0:
        return
    largest = 0.0
    for arm in range(weights.size):
        if own.status[arm] == KNOWN:
            largest = max(largest, abs(weights[arm]))
    waiting = 2.0 * size * (1.0 + largest)
    for arm in range(weights.size):
        if own.status[arm] == WAITING:
            weights[arm] = waiting * (1.0 + 1.0 / evidence.pending[arm])
        elif own.status[arm] == FRESH:
            weights[arm] = waiting * 4.0 * size


@kernel
def write_indices(own: Shortlist, request: Request, scale: float) -> None:
    """Write the index of each arm chosen; that of an arm which nothing is known of is infinite."""
    for i in range(request.size):
        arm = request.arms[i]
        request.beliefs[0, i] = np.inf if own.status[arm] != KNOWN else own.means[arm] + scale * own.radii[arm]


class IndexPolicy(SlatePolicy):
    """A policy with these caches."""

    learns_at_once = True
    listing: ClassVar[bool] = True
    """Whether there is a shortlist, for indices that fall with the scale."""

    def new_own(self, evidence: Evidence) -> Shortlist:
        """Return the caches of some evidence."""
        return _new_shortlist(evidence, self.budget, listing=self.listing)
