"""The largest independent set of a graph with few nodes, by branch and bound over bit sets.

The nodes that may still be added are covered by cliques, greedily; each clique gives one node at most. Where that is
not enough to give up, nodes beyond the allowed number of cliques are moved into them, or shown to come with two
cliques that together give one node less (San Segundo, Nikolaev and Batsyn 2015). Only the others are branched on.
"""

from __future__ import annotations

from typing import NamedTuple

import numpy as np
from numpy.typing import NDArray

from armtriage.kernels.jit import kernel, lowest_bit

__all__ = ["Search", "explore", "new_search"]

Words = NDArray[np.uint64]
Ints = NDArray[np.int64]
SmallInts = NDArray[np.int32]
DEPTH, BEST = range(2)
_ONE = np.uint64(1)


class Search(NamedTuple):
    """A search that can be interrupted; row d of a table belongs to the d-th set on the current path."""

    order: Ints  # (n,) the caller's node for each node here
    near: Words  # (n, W) the neighbours of each node
    left: Words  # (most + 1, W) nodes that may still be added
    branch: SmallInts  # (most + 1, n) nodes to branch on, the last one first
    bound: SmallInts  # (most + 1, n) how many nodes can be added if those after it are not
    pending: Ints  # (most + 1,) how many are still to be tried
    path: Ints  # (most,) the nodes of the current set
    best: Ints  # (most,) those of the largest set found
    cliques: Words  # (most + 1, W) scratch
    spent: NDArray[np.uint8]  # (most + 1,) scratch
    scratch: Words  # (3, W)
    whole: Ints  # DEPTH, which is -1 when all is searched, and the size of the BEST set

    @property
    def found(self) -> Ints:
        """The largest set found, in the caller's nodes."""
        return self.order[self.best[: self.whole[BEST]]]

    @property
    def upper_bound(self) -> int:
        """A size that no independent set exceeds: that of the best one, if all is searched."""
        best = int(self.whole[BEST])
        if self.whole[DEPTH] < 0:
            return best
        # The branch of the first set that is under way; those before it have smaller bounds.
        return max(best, int(self.bound[0, self.pending[0]]))

    @property
    def is_over(self) -> bool:
        """Whether all is searched."""
        return bool(self.whole[DEPTH] < 0)


def new_search(indptr: Ints, indices: SmallInts, found: Ints, most: int) -> Search:
    """Return the search for an independent set of more nodes than `found`, and at most `most`.

    The graph is given by lists of neighbours.
    """
    n = indptr.size - 1
    order = _order(indptr, indices)
    rank = np.argsort(order)
    words = (n + 63) >> 6
    near = np.zeros((n, 64 * words), np.bool_)
    near[np.repeat(rank, np.diff(indptr)), rank[indices]] = True
    every = np.arange(64 * words) < n
    tables = np.zeros((2, most + 1, n), np.int32)
    search = Search(
        order,
        np.packbits(near, axis=1, bitorder="little").view(np.uint64),
        np.zeros((most + 1, words), np.uint64),
        tables[0],
        tables[1],
        np.zeros(most + 1, np.int64),
        np.zeros(most, np.int64),
        np.zeros(most, np.int64),
        np.zeros((most + 1, words), np.uint64),
        np.zeros(most + 1, np.uint8),
        np.zeros((3, words), np.uint64),
        np.array([0, found.size], np.int64),
    )
    search.left[0] = np.packbits(every, bitorder="little").view(np.uint64)
    search.best[: found.size] = rank[found]
    _begin(search)
    return search


@kernel
def _order(indptr: Ints, indices: SmallInts) -> Ints:
    """Return the nodes such that each has the most neighbours among those before it, of all that could stand there."""
    n = indptr.size - 1
    degree = np.diff(indptr)
    order = np.empty(n, np.int64)
    for place in range(n - 1, -1, -1):
        node = int(np.argmax(degree))
        order[place] = node
        degree[node] = -n
        for e in range(indptr[node], indptr[node + 1]):
            degree[indices[e]] -= 1
    return order


@kernel
def _lonely(search: Search, left: Words) -> int:
    """Return a node with at most one neighbour left, which may be taken without a second thought, or -1."""
    words = left.size
    for first in range(words):
        word = left[first]
        while word != 0:
            node = (first << 6) + lowest_bit(word)
            word &= word - _ONE
            near = search.near[node]
            neighbours = 0
            for i in range(words):
                shared = left[i] & near[i]
                if shared != 0:
                    neighbours += 1 + (shared & (shared - _ONE) != 0)
                    if neighbours > 1:
                        break
            if neighbours < 2:
                return node  # type: ignore[no-any-return]
    return -1


@kernel
def _joins(search: Search, node: int, need: int) -> bool:
    """Return whether the first `need` cliques and `node` still give at most `need` nodes; remember why."""
    spent, reach = search.spent, search.scratch[2]
    words = reach.size
    near = search.near[node]
    for a in range(need):
        if spent[a] > 0:
            continue
        clique = search.cliques[a]
        strangers, other = 0, 0
        for i in range(words):
            word = clique[i] & ~near[i]
            if word != 0:
                strangers += 1 + (word & (word - _ONE) != 0)
                if strangers > 1:
                    break
                other = (i << 6) + lowest_bit(word)
        moved = strangers == 0
        if strangers == 1:
            # The one member that is in the way may fit into another clique.
            next_to = search.near[other]
            for b in range(need):
                if b == a or spent[b] > 0:
                    continue
                second = search.cliques[b]
                moved = True
                for i in range(words):
                    if second[i] & ~next_to[i] != 0:
                        moved = False
                        break
                if moved:
                    bit = _ONE << np.uint64(other & 63)
                    clique[other >> 6] ^= bit
                    second[other >> 6] |= bit
                    break
        if moved:
            clique[node >> 6] |= _ONE << np.uint64(node & 63)
            return True
    for a in range(need - 1):
        if spent[a] > 0:
            continue
        clique = search.cliques[a]
        for i in range(words):
            reach[i] = 0
        for i in range(words):
            word = clique[i] & ~near[i]
            while word != 0:
                next_to = search.near[(i << 6) + lowest_bit(word)]
                word &= word - _ONE
                for j in range(words):
                    reach[j] |= ~next_to[j]
        for i in range(words):
            reach[i] &= ~near[i]
        for b in range(a + 1, need):
            if spent[b] > 0:
                continue
            second = search.cliques[b]
            apart = True
            for i in range(words):
                if second[i] & reach[i] != 0:
                    apart = False
                    break
            if apart:
                spent[a] = 1
                spent[b] = 1
                return True
    return False


@kernel
def _list_branches(search: Search, row: int, need: int) -> None:
    """List the nodes one of which is in every set of more than `need` of the nodes left."""
    left, branch, bound = search.left[row], search.branch[row], search.bound[row]
    rest, inside = search.scratch[0], search.scratch[1]
    words = rest.size
    node = _lonely(search, left)
    if node >= 0:
        branch[0] = node
        bound[0] = branch.size
        search.pending[row] = 1
        return
    for i in range(words):
        rest[i] = left[i]
    for k in range(need):
        search.spent[k] = 0
    count, k, low = 0, 0, 0
    while low < words:
        if rest[low] == 0:
            low += 1
            continue
        clique = search.cliques[min(k, need)]
        for i in range(words):
            inside[i] = rest[i]
            clique[i] = 0
        first = low
        while first < words:
            word = inside[first]
            if word == 0:
                first += 1
                continue
            bit = word & (~word + _ONE)
            node = (first << 6) + lowest_bit(word)
            rest[first] ^= bit
            near = search.near[node]
            for i in range(first, words):
                inside[i] &= near[i]
            if k < need:
                clique[first] |= bit
            elif not _joins(search, node, need):
                branch[count] = node
                bound[count] = k + 1
                count += 1
        k += 1
    search.pending[row] = count


@kernel
def _begin(search: Search) -> None:
    search = borrowed(search)
    _list_branches(search, 0, search.whole[BEST])


@kernel
def explore(search: Search, steps: int) -> None:
    """Look at this many more sets, or at all that are left."""
    search = borrowed(search)
    words = search.near.shape[1]
    depth, best = search.whole[DEPTH], search.whole[BEST]
    while depth >= 0 and steps > 0:
        last = search.pending[depth] - 1
        if last < 0 or depth + search.bound[depth, last] <= best:
            depth -= 1
            continue
        steps -= 1
        node = search.branch[depth, last]
        search.pending[depth] = last
        search.path[depth] = node
        left, after, near = search.left[depth], search.left[depth + 1], search.near[node]
        left[node >> 6] &= ~(_ONE << np.uint64(node & 63))
        any_left = False
        for i in range(words):
            after[i] = left[i] & ~near[i]
            any_left |= after[i] != 0
        depth += 1
        if any_left:
            _list_branches(search, depth, max(0, best - depth))
        else:
            search.pending[depth] = 0
            if depth > best:
                best = depth
                for i in range(best):
                    search.best[i] = search.path[i]
    search.whole[DEPTH], search.whole[BEST] = depth, best
