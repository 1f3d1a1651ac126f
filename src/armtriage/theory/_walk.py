"""Large independent sets, found by a random walk that takes nodes in and swaps them."""

from __future__ import annotations

from typing import NamedTuple

import numpy as np
from numpy.typing import NDArray

from armtriage.kernels.jit import kernel
from armtriage.kernels.random import uniform

__all__ = ["Walk", "new_walk", "take_steps"]

Ints = NDArray[np.int64]
SmallInts = NDArray[np.int32]
Marks = NDArray[np.uint8]
SIZE, BEST, STEP, FREE, SWAPPABLE = range(5)
_SAMPLE = 8
_PATIENCE = 100
_LUCK = np.uint64(0x5851F42D4C957F2D)


class Walk(NamedTuple):
    """An independent set on its way; node v has the neighbours ``indices[indptr[v]:indptr[v + 1]]``."""

    indptr: Ints
    indices: SmallInts
    inside: Marks  # whether the node is in the set
    hits: Ints  # how many of its neighbours are
    lists: Ints  # (2, n) nodes outside without a neighbour in the set, and with one
    place: Ints  # where a node stands in its list
    left: Ints  # the step at which the node last left the set
    best: Marks  # the largest set so far
    whole: Ints  # SIZE of the set, of the BEST, the STEP, how many nodes are FREE to enter, or SWAPPABLE


def new_walk(indptr: Ints, indices: SmallInts) -> Walk:
    """Return a walk that begins with the empty set."""
    n = indptr.size - 1
    lists, marks = np.zeros((2, n), np.int64), np.zeros((2, n), np.uint8)
    lists[0] = np.arange(n)
    whole = np.array([0, 0, 0, n, 0], np.int64)
    hits, left = np.zeros((2, n), np.int64)
    return Walk(indptr, indices, marks[0], hits, lists, np.arange(n), left, marks[1], whole)


@kernel
def _enlist(walk: Walk, kind: int, node: int) -> None:
    end = walk.whole[FREE + kind]
    walk.lists[kind, end] = node
    walk.place[node] = end
    walk.whole[FREE + kind] = end + 1


@kernel
def _strike(walk: Walk, kind: int, node: int) -> None:
    end = walk.whole[FREE + kind] - 1
    last = walk.lists[kind, end]
    walk.lists[kind, walk.place[node]] = last
    walk.place[last] = walk.place[node]
    walk.whole[FREE + kind] = end


@kernel
def _enter(walk: Walk, node: int) -> None:
    """Take a free node into the set."""
    _strike(walk, 0, node)
    walk.inside[node] = 1
    walk.whole[SIZE] += 1
    for e in range(walk.indptr[node], walk.indptr[node + 1]):
        other = walk.indices[e]
        hits = walk.hits[other]
        walk.hits[other] = hits + 1
        if hits < 2:
            _strike(walk, hits, other)
        if hits == 0:
            _enlist(walk, 1, other)


@kernel
def _leave(walk: Walk, node: int) -> None:
    walk.inside[node] = 0
    walk.left[node] = walk.whole[STEP]
    walk.whole[SIZE] -= 1
    _enlist(walk, 0, node)
    for e in range(walk.indptr[node], walk.indptr[node + 1]):
        other = walk.indices[e]
        hits = walk.hits[other] - 1
        walk.hits[other] = hits
        if hits == 0:
            _strike(walk, 1, other)
        if hits < 2:
            _enlist(walk, hits, other)


@kernel
def _longest_out(walk: Walk, kind: int) -> int:
    """Return, of a few nodes of a list, the one that has been outside for longest."""
    n = walk.whole[FREE + kind]
    chosen = -1
    for i in range(min(n, _SAMPLE)):
        node = walk.lists[kind, int(uniform(_LUCK, _SAMPLE * walk.whole[STEP] + i) * n)]
        if chosen < 0 or walk.left[node] < walk.left[chosen]:
            chosen = node
    return chosen


@kernel
def take_steps(walk: Walk, steps: int) -> None:
    """Walk on: a free node enters; without one a node is swapped in, and after some steps in vain forced in."""
    walk = borrowed(walk)
    since = 0
    for _ in range(steps):
        walk.whole[STEP] += 1
        since += 1
        if walk.whole[FREE] > 0:
            node = _longest_out(walk, 0)
        elif walk.whole[SWAPPABLE] > 0 and since < _PATIENCE:
            node = _longest_out(walk, 1)
        else:
            since = 0
            node = int(uniform(_LUCK, _SAMPLE * walk.whole[STEP]) * walk.hits.size)
        if walk.inside[node] > 0:
            continue
        for e in range(walk.indptr[node], walk.indptr[node + 1]):
            if walk.inside[walk.indices[e]] > 0:
                _leave(walk, walk.indices[e])
        _enter(walk, node)
        if walk.whole[SIZE] > walk.whole[BEST] and walk.whole[FREE] == 0:
            walk.whole[BEST] = walk.whole[SIZE]
            since = 0
            for i in range(walk.best.size):
                walk.best[i] = walk.inside[i]
