"""Whether a few sets hold everything, by depth-first search over bit sets: where linear programming says little."""

from __future__ import annotations

from typing import NamedTuple

import numpy as np
from numpy.typing import NDArray

from armtriage.kernels.jit import kernel, lowest_bit

__all__ = ["CoverSearch", "explore_covers", "new_cover_search"]

Words = NDArray[np.uint64]
Ints = NDArray[np.int64]
SmallInts = NDArray[np.int32]
DEPTH, SIZE, FOUND = range(3)
_ONE = np.uint64(1)
_PAIRS, _FOURS, _BYTES = np.uint64(0x5555555555555555), np.uint64(0x3333333333333333), np.uint64(0x0F0F0F0F0F0F0F0F)
_1, _2, _4, _8, _16, _32, _LAST = (np.uint64(number) for number in (1, 2, 4, 8, 16, 32, 127))


class CoverSearch(NamedTuple):
    """A search for a cover of a given size that can be interrupted; row d belongs to the d-th set on the path."""

    sets: Words  # (m, W) what each set holds
    holders: Words  # (n, V) which sets hold each thing
    missing: Words  # (size + 1, W) things not held yet
    tried: Words  # (size + 1, V) sets that need not be looked at again
    branch: SmallInts  # (size + 1, m) sets to try, the last one first
    pending: Ints  # (size + 1,) how many are still to be tried
    path: Ints  # (size,) the sets so far
    gains: Ints  # (m,) scratch
    whole: Ints  # DEPTH, which is -1 when all is searched, the SIZE allowed, how many sets the cover FOUND has, or 0

    @property
    def is_over(self) -> bool:
        """Whether a cover is found, or there is none."""
        return bool(self.whole[DEPTH] < 0 or self.whole[FOUND] > 0)

    @property
    def found(self) -> Ints:
        """The sets of the cover; empty if none is found."""
        return self.path[: self.whole[FOUND]]


def new_cover_search(indptr: Ints, indices: SmallInts, n_things: int, size: int) -> CoverSearch:
    """Return the search for a cover of at most `size` of the sets, given by the lists of what they hold."""
    m = indptr.size - 1
    holds = np.zeros((m, n_things), np.bool_)
    holds[np.repeat(np.arange(m), np.diff(indptr)), indices] = True
    sets, holders = _pack(holds), _pack(holds.T)
    search = CoverSearch(
        sets,
        holders,
        np.zeros((size + 1, sets.shape[1]), np.uint64),
        np.zeros((size + 1, holders.shape[1]), np.uint64),
        np.zeros((size + 1, m), np.int32),
        np.zeros(size + 1, np.int64),
        np.zeros(size, np.int64),
        np.zeros(m, np.int64),
        np.array([0, size, 0], np.int64),
    )
    search.missing[0] = _pack(np.ones((1, n_things), np.bool_))[0]
    _begin(search)
    return search


def _pack(bits: NDArray[np.bool_]) -> Words:
    padded = np.zeros((len(bits), -(-bits.shape[1] // 64) * 64), np.bool_)
    padded[:, : bits.shape[1]] = bits
    return np.packbits(padded, axis=1, bitorder="little").view(np.uint64)


@kernel
def _count(word: np.uint64) -> int:
    """Return how many bits of a word are set."""
    word = word - ((word >> _1) & _PAIRS)
    word = (word & _FOURS) + ((word >> _2) & _FOURS)
    word = (word + (word >> _4)) & _BYTES
    word = word + (word >> _8)
    word = word + (word >> _16)
    return int((word + (word >> _32)) & _LAST)


@kernel
def _list_last(search: CoverSearch, row: int) -> None:
    """List a set that holds all that is missing, if there is one."""
    missing, tried = search.missing[row], search.tried[row]
    low = 0
    while missing[low] == 0:
        low += 1
    holders = search.holders[(low << 6) + lowest_bit(missing[low])]
    for first in range(tried.size):
        word = holders[first] & ~tried[first]
        while word != 0:
            one = (first << 6) + lowest_bit(word)
            word &= word - _ONE
            held = search.sets[one]
            i = low
            while i < missing.size and missing[i] & ~held[i] == 0:
                i += 1
            if i == missing.size:
                search.branch[row, 0] = one
                search.pending[row] = 1
                return


@kernel
def _list_branches(search: CoverSearch, row: int) -> None:
    """List the sets that hold the missing thing with the fewest holders, but those that hold too little."""
    missing, tried = search.missing[row], search.tried[row]
    search.pending[row] = 0
    rest = search.whole[SIZE] - row
    if rest == 1:
        _list_last(search, row)
    if rest < 2:
        return
    total = 0
    for i in range(missing.size):
        total += _count(missing[i])
    most = 0
    for one in range(search.gains.size):
        search.gains[one] = 0
        if (tried[one >> 6] >> np.uint64(one & 63)) & _ONE == 0:
            held = search.sets[one]
            gain = 0
            for i in range(missing.size):
                gain += _count(held[i] & missing[i])
            search.gains[one] = gain
            most = max(most, gain)
    if total > rest * most:
        return
    rarest, fewest = 0, search.gains.size + 1
    for first in range(missing.size):
        word = missing[first]
        while word != 0:
            thing = (first << 6) + lowest_bit(word)
            word &= word - _ONE
            holders = search.holders[thing]
            count = 0
            for i in range(tried.size):
                count += _count(holders[i] & ~tried[i])
            if count < fewest:
                rarest, fewest = thing, count
    holders = search.holders[rarest]
    count = 0
    for first in range(tried.size):
        word = holders[first] & ~tried[first]
        while word != 0:
            one = (first << 6) + lowest_bit(word)
            word &= word - _ONE
            # The others on the path add at most `most` each.
            if search.gains[one] >= total - (rest - 1) * most:
                search.branch[row, count] = one
                count += 1
    search.pending[row] = count


@kernel
def _begin(search: CoverSearch) -> None:
    search = borrowed(search)
    _list_branches(search, 0)


@kernel
def explore_covers(search: CoverSearch, steps: int) -> None:
    """Try this many more sets, or until the search is over."""
    search = borrowed(search)
    depth = search.whole[DEPTH]
    while depth >= 0 and steps > 0:
        last = search.pending[depth] - 1
        if last < 0:
            depth -= 1
            continue
        steps -= 1
        search.pending[depth] = last
        one = search.branch[depth, last]
        search.path[depth] = one
        missing, after, held = search.missing[depth], search.missing[depth + 1], search.sets[one]
        any_left = False
        for i in range(missing.size):
            after[i] = missing[i] & ~held[i]
            any_left |= after[i] != 0
        tried = search.tried[depth]
        tried[one >> 6] |= _ONE << np.uint64(one & 63)
        depth += 1
        if not any_left:
            search.whole[FOUND] = depth
            break
        search.tried[depth, :] = tried
        _list_branches(search, depth)
    search.whole[DEPTH] = depth
