"""The largest independent set of a feedback graph.

Structure and reductions come first; what they leave is split into components. A dense component is searched by branch
and bound, a sparse one goes to HiGHS, and where neither finishes, greed and covers by cliques give the two limits.
"""

from __future__ import annotations

import time
from collections.abc import Iterable, Iterator
from functools import cache
from typing import Any, NamedTuple

import numpy as np
from numpy.typing import NDArray

from armtriage.graphs.feedback import FeedbackGraph, GraphArrays
from armtriage.kernels.jit import kernel, lowest_bit

__all__ = [
    "EDGES",
    "OPEN",
    "OUT",
    "SLACK",
    "TAKEN",
    "Answer",
    "Clock",
    "components",
    "largest_independent_set",
    "lists_of",
    "name_of",
    "position",
    "say_how",
]

Ints = NDArray[np.int64]
SmallInts = NDArray[np.int32]
Marks = NDArray[np.uint8]
Words = NDArray[np.uint64]

OPEN, TAKEN, OUT = range(3)
EDGES = 10_000_000
"""How many edges a graph may have to be written out: beyond, it would take gigabytes."""
SLACK = 1e-3
"""What a bound of HiGHS may be off by; its tolerances are 1e-6, so rounding with this slack is safe."""
_PEELING = 100_000_000  # comparisons of neighbours, a second or so; dense graphs would take minutes
_SMALL, _DENSE, _SEARCHED = 100, 0.07, 1000  # sparse graphs are for HiGHS; beyond this size the tables are large
_PROGRAMMED = 50_000  # edges up to which HiGHS finishes its first linear program in seconds
_SHARE, _SLICE = 0.6, 1000
_ONE = np.uint64(1)


class Answer(NamedTuple):
    """A set that was found, a bound that no better one passes, and the means by which they were found."""

    chosen: Ints
    bound: int
    how: str


class Clock:
    """A time limit that has begun to run."""

    def __init__(self, limit: float) -> None:
        self.limit = limit
        self._end = time.monotonic() + limit

    @property
    def left(self) -> float:
        """Seconds left; negative when time is up."""
        return self._end - time.monotonic()

    def part(self, share: float) -> Clock:
        """Return a clock that has begun to run for a share of the time left."""
        return Clock(share * self.left)

    @property
    def verdict(self) -> str:
        """Why there is no better answer."""
        return "too large to search" if self.left > 0 else f"stopped after {self.limit:g} s"


def say_how(exact: bool, means: Iterable[str], why: str = "") -> str:
    """Return whether a bracket is exact, by which means, and if it is not, why.

    >>> say_how(False, ["greedy", "linear programming"], "stopped after 10 s")
    'bracket: greedy and linear programming, stopped after 10 s'
    """
    ways = " and ".join(dict.fromkeys(means))
    return f"exact: {ways}" if exact else ", ".join(filter(None, [f"bracket: {ways}", why]))


def name_of(graph: FeedbackGraph) -> str:
    """Return what a graph of runs alone is called."""
    start, stop = graph.arrays.start, graph.arrays.stop
    if graph.n_edges == graph.n_arms:
        return "semi-bandit"
    if graph.n_edges == graph.n_arms**2:
        return "full information"
    arms = np.arange(graph.n_arms)
    joins = (start[1:] == start[:-1]) & (stop[1:] == stop[:-1])
    if (joins | ((start[1:] == arms[1:]) & (stop[:-1] == arms[1:]))).all():
        return "cliques"
    if ((start == arms).all() and (stop == arms.size).all()) or ((start == 0).all() and (stop == arms + 1).all()):
        return "ladder"
    return "runs of arms"


def lists_of(matrix: Any) -> tuple[Ints, SmallInts]:
    """Return the columns of each row of a sparse matrix, ascending: where each row begins, and the columns."""
    matrix.sum_duplicates()
    return matrix.indptr.astype(np.int64), matrix.indices.astype(np.int32)


def components(matrix: Any, nodes: Ints) -> Iterator[tuple[Ints, Ints, SmallInts]]:
    """Yield the components of the graph on these nodes of a symmetric matrix, the smallest first.

    Each comes as its nodes, ascending, and their lists of neighbours, in places among these nodes.
    """
    from scipy.sparse.csgraph import connected_components

    if not nodes.size:
        return
    rest = matrix[nodes][:, nodes]
    count, label = connected_components(rest, directed=False)
    order = np.argsort(label, kind="stable")
    indptr, indices = lists_of(rest[order][:, order])
    nodes = nodes[order]
    ends = np.append(0, np.cumsum(np.bincount(label, minlength=count)))
    for i in np.argsort(np.diff(ends), kind="stable"):
        first, last = ends[i], ends[i + 1]
        edges = slice(indptr[first], indptr[last])
        yield nodes[first:last], indptr[first : last + 1] - indptr[first], indices[edges] - np.int32(first)


@cache
def _make_ready() -> None:
    """Compile the kernels, so that no time limit pays for it."""
    indptr, indices = np.arange(3), np.array([1, 0], np.int32)
    _peel(indptr, indices, np.full(2, OPEN, np.uint8), 1, True)
    _searched(indptr, indices, np.empty(0, np.int64), 1, Clock(0.0))
    _cover_by_cliques(indptr, indices)


def largest_independent_set(graph: FeedbackGraph, time_limit: float) -> Answer:
    """Return an independent set, ascending, and an upper bound of the size of any."""
    if not graph.arrays.indices.size:
        arms = _strangers(graph.arrays)
        return Answer(arms, arms.size, say_how(True, [name_of(graph)]))
    _make_ready()
    clock = Clock(time_limit)
    if graph.n_edges > EDGES:
        # No run joins two of these arms. What the lists leave of them is found, what they were is the bound.
        arms = _strangers(graph.arrays)
        place = np.full(graph.n_arms, -1)
        place[arms] = np.arange(arms.size)
        row, column = np.repeat(place, np.diff(graph.arrays.indptr)), place[graph.arrays.indices]
        kept = (row >= 0) & (column >= 0)
        found = _solve(arms.size, row[kept], column[kept], clock)
        how = say_how(found.chosen.size == arms.size, ["runs of arms"], "too many edges to write out")
        return Answer(arms[found.chosen], arms.size, how)
    return _solve(graph.n_arms, *graph.to_sparse().nonzero(), clock)


def _solve(n: int, row: NDArray[Any], column: NDArray[Any], clock: Clock) -> Answer:
    """Return the answer for a graph given by its edges: reduce it, and solve each component of the rest."""
    from scipy.sparse import csr_array

    apart = row != column
    ends = np.concatenate([row[apart], column[apart]]), np.concatenate([column[apart], row[apart]])
    matrix = csr_array((np.ones(ends[0].size, np.int8), ends), shape=(n, n))
    status = np.full(n, OPEN, np.uint8)
    _peel(*lists_of(matrix), status, _PEELING, False)
    chosen = [np.flatnonzero(status == TAKEN)]
    bound, means = chosen[0].size, []
    for nodes, indptr, indices in components(matrix, np.flatnonzero(status == OPEN)):
        part = _component(indptr, indices, clock)
        chosen.append(nodes[part.chosen])
        bound += part.bound
        means.append(part.how)
    found = np.sort(np.concatenate(chosen))
    return Answer(found, bound, say_how(found.size == bound, means or ["reductions"], clock.verdict))


def _component(indptr: Ints, indices: SmallInts, clock: Clock) -> Answer:
    """Return the answer for a connected graph that cannot be reduced."""
    n = indptr.size - 1
    found, bound, how = _greedy(indptr, indices), _clique_bound(indptr, indices), "cover by cliques"
    programmable = indices.size <= 2 * _PROGRAMMED
    if found.size < bound and n <= _SEARCHED and (n <= _SMALL or indices.size >= _DENSE * n * n):
        part = clock.part(_SHARE if programmable and n > _SMALL else 1.0)
        found, searched = _searched(indptr, indices, found, bound, part)
        bound, how = min(bound, searched), "branch and bound"
    if found.size < bound and programmable and clock.left > 0:
        found, programmed = _programmed(indptr, indices, found, clock)
        if programmed < bound:
            bound, how = programmed, "integer programming"
    return Answer(found, bound, how)


def _greedy(indptr: Ints, indices: SmallInts) -> Ints:
    """Return a large independent set: reductions, and where they end, the node of most neighbours is left out."""
    status = np.full(indptr.size - 1, OPEN, np.uint8)
    _peel(indptr, indices, status, _PEELING, True)
    return np.flatnonzero(status == TAKEN)


def _clique_bound(indptr: Ints, indices: SmallInts) -> int:
    """Return an upper bound: the nodes of a clique count once, and the two ends of half an edge a half each."""
    from scipy.sparse import csr_array
    from scipy.sparse.csgraph import maximum_bipartite_matching

    n = indptr.size - 1
    matrix = csr_array((np.ones(indices.size, np.int8), indices, indptr), shape=(n, n))
    halves = int((maximum_bipartite_matching(matrix) >= 0).sum())
    return min(_cover_by_cliques(indptr, indices), n - (halves + 1) // 2)


def _searched(indptr: Ints, indices: SmallInts, found: Ints, bound: int, clock: Clock) -> tuple[Ints, int]:
    """Return the largest set that branch and bound finds in its share of the time, and its upper bound."""
    search = _new_search(indptr, indices, found, bound)
    depth = _explore(search, 0, _SLICE)
    while depth >= 0 and clock.left > 0:
        depth = _explore(search, depth, _SLICE)
    best = int(search.size[0])
    # If it was stopped, branches of the first set that are still pending have at most the bound of the last of them.
    most = best if depth < 0 else max(best, int(search.bound[0, search.pending[0]]))
    return search.order[search.best[:best]], most


def _programmed(indptr: Ints, indices: SmallInts, found: Ints, clock: Clock) -> tuple[Ints, int]:
    """Return the largest set that HiGHS finds under clique constraints, if larger than `found`, and its upper bound."""
    from scipy.optimize import Bounds, LinearConstraint, milp
    from scipy.sparse import csr_array

    n = indptr.size - 1
    cliques = _cliques_of_edges(indptr, indices)
    starts = np.append(0, np.cumsum([len(one) for one in cliques]))
    matrix = csr_array((np.ones(starts[-1]), np.concatenate(cliques), starts), shape=(len(cliques), n))
    answer = milp(
        -np.ones(n),
        integrality=np.ones(n, np.int64),
        bounds=Bounds(0.0, 1.0),
        constraints=LinearConstraint(matrix, -np.inf, 1.0),
        options={"mip_rel_gap": 0.0, "time_limit": max(clock.left, 0.0)},
    )
    limit = getattr(answer, "mip_dual_bound", None)
    bound = n if limit is None or not np.isfinite(limit) else int(np.floor(-limit + SLACK))
    if answer.x is not None:
        other = np.flatnonzero(answer.x > 0.5)
        if other.size > found.size and (matrix[:, other].sum(axis=1) < 1.5).all():
            found = other
    return found, max(bound, found.size)


def _cliques_of_edges(indptr: Ints, indices: SmallInts) -> list[list[int]]:
    """Return cliques that hold all edges; each is grown from an edge that no other holds."""
    near = [set(indices[indptr[v] : indptr[v + 1]].tolist()) for v in range(indptr.size - 1)]
    held: list[set[int]] = [set() for _ in near]
    cliques = []
    for u in range(len(near)):
        for v in sorted(near[u]):
            if v < u or v in held[u]:
                continue
            clique, pool = [u, v], near[u] & near[v]
            while pool:
                clique.append(max(pool))
                pool &= near[clique[-1]]
            for one in clique:
                held[one].update(clique)
            cliques.append(clique)
    return cliques


@kernel
def _strangers(graph: GraphArrays) -> Ints:
    """Return as many arms as possible none of which is in another's run, ascending.

    For arms a < b < c, if a and b are strangers and b and c are, then so are a and c: only neighbours in the answer
    count. The longest chain that ends in b follows the longest that ends before b's run begins, in an arm whose run
    ends before b. Arms enter the tree of prefix maxima when their run ends.
    """
    n = graph.start.size
    length, before = np.zeros(n, np.int64), np.full(n, -1, np.int64)
    tree = np.full(n + 1, -1, np.int64)
    ending, same_end = np.full(n + 1, -1, np.int64), np.empty(n, np.int64)
    last = 0
    for b in range(n):
        a = ending[b]
        while a >= 0:
            i = a + 1
            while i <= n and (tree[i] < 0 or length[tree[i]] < length[a]):
                tree[i] = a
                i += i & -i
            a = same_end[a]
        i = int(graph.start[b])
        while i > 0:
            if tree[i] >= 0 and length[tree[i]] > length[b]:
                length[b] = length[tree[i]]
                before[b] = tree[i]
            i -= i & -i
        length[b] += 1
        if length[b] > length[last]:
            last = b
        same_end[b] = ending[graph.stop[b]]
        ending[graph.stop[b]] = b
    chain = np.empty(length[last], np.int64)
    for i in range(chain.size - 1, -1, -1):
        chain[i] = last
        last = before[last]
    return chain


@kernel
def position(indptr: Ints, indices: SmallInts, node: int, other: int) -> int:
    """Return where `other` stands among the neighbours of `node`, or -1."""
    low, end = indptr[node], indptr[node + 1]
    high = end
    while low < high:
        middle = (low + high) >> 1
        if indices[middle] < other:
            low = middle + 1
        else:
            high = middle
    return low if low < end and indices[low] == other else -1


@kernel
def _peel(indptr: Ints, indices: SmallInts, status: Marks, steps: int, force: bool) -> None:
    """Decide nodes that some largest independent set takes or leaves out, until none is obvious or steps run out.

    A node goes if another one's closed neighbourhood lies within its own: swapping them never hurts. A node that
    has nobody left is taken. This takes the leaves of trees and one node of each clique that no other edge enters.
    By `force`, everything is decided: when nothing is obvious, the open node of most neighbours goes.
    """
    n = status.size
    degree = np.zeros(n, np.int64)
    stack, listed = np.empty(n, np.int64), np.zeros(n, np.uint8)
    top = 0
    for node in range(n - 1, -1, -1):
        if status[node] == OPEN:
            for e in range(indptr[node], indptr[node + 1]):
                degree[node] += status[indices[e]] == OPEN
            stack[top] = node
            listed[node] = 1
            top += 1
    order, turn, fresh = np.arange(n if force else 0), 0, 0
    gone = np.empty(n, np.int64)
    while (top > 0 and (steps > 0 or force)) or turn < order.size:
        n_gone = 0
        node = -1
        if top > 0:
            top -= 1
            node = stack[top]
            listed[node] = 0
            if status[node] != OPEN:
                continue
            for e in range(indptr[node], indptr[node + 1]):
                other = indices[e]
                steps -= 1
                if steps < 0 or status[other] != OPEN or degree[other] < degree[node]:
                    continue
                within = True
                for f in range(indptr[node], indptr[node + 1]):
                    third = indices[f]
                    if third != other and status[third] == OPEN:
                        steps -= 1
                        if position(indptr, indices, other, third) < 0:
                            within = False
                            break
                if within:
                    status[other] = OUT
                    degree[node] -= 1
                    gone[n_gone] = other
                    n_gone += 1
        elif turn == fresh:
            # Degrees have fallen: sort those that are left anew, after one in 32 of them had its turn.
            rest = order[turn:]
            rest = rest[status[rest] == OPEN]
            order, turn, fresh = rest[np.argsort(-degree[rest], kind="mergesort")], 0, (rest.size + 31) // 32
        else:
            if status[order[turn]] == OPEN:
                status[order[turn]] = OUT
                gone[0] = order[turn]
                n_gone = 1
            turn += 1
        for i in range(n_gone):
            for f in range(indptr[gone[i]], indptr[gone[i] + 1]):
                third = indices[f]
                if third == node:
                    continue
                degree[third] -= 1
                if status[third] == OPEN and listed[third] == 0:
                    stack[top] = third
                    listed[third] = 1
                    top += 1
        if node >= 0 and degree[node] == 0:
            status[node] = TAKEN


@kernel
def _cover_by_cliques(indptr: Ints, indices: SmallInts) -> int:
    """Return how many cliques hold all nodes; each node joins the largest one that takes it."""
    n = indptr.size - 1
    clique, size = np.full(n, -1, np.int64), np.zeros(n, np.int64)
    met = np.zeros(n, np.int64)
    count = 0
    for node in range(n):
        best = -1
        for e in range(indptr[node], indptr[node + 1]):
            c = clique[indices[e]]
            if c >= 0:
                met[c] += 1
                if met[c] == size[c] and (best < 0 or size[c] > size[best]):
                    best = c
        for e in range(indptr[node], indptr[node + 1]):
            if clique[indices[e]] >= 0:
                met[clique[indices[e]]] = 0
        if best < 0:
            best = count
            count += 1
        clique[node] = best
        size[best] += 1
    return count


class _Search(NamedTuple):
    """A search that can be interrupted; row d of a table belongs to the d-th set on the current path."""

    order: Ints  # (n,) the caller's node for each node here
    near: Words  # (n, W) the neighbours of each node
    left: Words  # (most + 1, W) nodes that may still be added
    branch: SmallInts  # (most + 1, n) nodes to branch on, the last one first
    bound: SmallInts  # (most + 1, n) how many nodes can be added if those after it are not
    pending: Ints  # (most + 1,) how many are still to be tried
    path: Ints  # (most,) the nodes of the current set
    best: Ints  # (most,) those of the largest set found
    size: Ints  # (1,) how many these are
    scratch: Words  # (2, W)


def _new_search(indptr: Ints, indices: SmallInts, found: Ints, most: int) -> _Search:
    """Return the search for an independent set of more nodes than `found`, and at most `most`."""
    n = indptr.size - 1
    order = _by_degree(indptr, indices)
    rank = np.argsort(order)
    words = (n + 63) >> 6
    near = np.zeros((n, 64 * words), np.bool_)
    near[np.repeat(rank, np.diff(indptr)), rank[indices]] = True
    search = _Search(
        order,
        np.packbits(near, axis=1, bitorder="little").view(np.uint64),
        np.zeros((most + 1, words), np.uint64),
        np.zeros((most + 1, n), np.int32),
        np.zeros((most + 1, n), np.int32),
        np.zeros(most + 1, np.int64),
        np.zeros(most, np.int64),
        np.zeros(most, np.int64),
        np.array([found.size]),
        np.zeros((2, words), np.uint64),
    )
    search.left[0] = np.packbits(np.arange(64 * words) < n, bitorder="little").view(np.uint64)
    search.best[: found.size] = rank[found]
    search.pending[0] = -1
    return search


@kernel
def _by_degree(indptr: Ints, indices: SmallInts) -> Ints:
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
def _list_branches(search: _Search, row: int, need: int) -> None:
    """Cover the nodes left by cliques, and list those beyond the first `need`: any larger set has one of them."""
    branch, bound = search.branch[row], search.bound[row]
    rest, inside = search.scratch[0], search.scratch[1]
    words = rest.size
    for i in range(words):
        rest[i] = search.left[row, i]
    count, cliques, low = 0, 0, 0
    while low < words:
        if rest[low] == 0:
            low += 1
            continue
        cliques += 1
        for i in range(low, words):
            inside[i] = rest[i]
        first = low
        while first < words:
            word = inside[first]
            if word == 0:
                first += 1
                continue
            node = (first << 6) + lowest_bit(word)
            rest[first] ^= word & (~word + _ONE)
            for i in range(first, words):
                inside[i] &= search.near[node, i]
            if cliques > need:
                branch[count] = node
                bound[count] = cliques
                count += 1
    search.pending[row] = count


@kernel
def _explore(search: _Search, depth: int, steps: int) -> int:
    """Look at this many more sets, or at all that are left; return the depth, -1 if nothing is left."""
    words, best = search.near.shape[1], search.size[0]
    if search.pending[0] < 0:
        _list_branches(search, 0, best)
    while depth >= 0 and steps > 0:
        last = search.pending[depth] - 1
        if last < 0 or depth + search.bound[depth, last] <= best:
            depth -= 1
            continue
        steps -= 1
        node = search.branch[depth, last]
        search.pending[depth] = last
        search.path[depth] = node
        search.left[depth, node >> 6] &= ~(_ONE << np.uint64(node & 63))
        any_left = False
        for i in range(words):
            search.left[depth + 1, i] = search.left[depth, i] & ~search.near[node, i]
            any_left |= search.left[depth + 1, i] != 0
        depth += 1
        if any_left:
            _list_branches(search, depth, max(0, best - depth))
        else:
            search.pending[depth] = 0
            if depth > best:
                best = depth
                for i in range(best):
                    search.best[i] = search.path[i]
    search.size[0] = best
    return depth
