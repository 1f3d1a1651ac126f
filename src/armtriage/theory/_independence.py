"""The largest independent set of a feedback graph: structure, reductions, then the strongest search that fits."""

from __future__ import annotations

from functools import cache
from typing import Any

import numpy as np
from numpy.typing import NDArray

from armtriage.graphs.feedback import FeedbackGraph
from armtriage.theory._answers import Answer, Clock, say_how
from armtriage.theory._components import components, lists_of
from armtriage.theory._peel import OPEN, OUT, TAKEN, cover_by_cliques, cover_edges, peel
from armtriage.theory._runs import name_of, strangers
from armtriage.theory._search import explore, new_search
from armtriage.theory._walk import new_walk, take_steps

__all__ = ["EDGES", "largest_independent_set"]

Ints = NDArray[np.int64]
SmallInts = NDArray[np.int32]

EDGES = 10_000_000
"""How many edges a graph may have to be written out."""
_PEELING = 100_000_000
_SMALL, _SEARCHED = 64, 20_000_000
_PROGRAMMED = 50_000
_SLICE = 1000
_WALK, _SHARE = 0.05, 0.6
_SLACK = 1e-3  # far above the solver's tolerances, such that rounding a bound is safe


@cache
def _make_ready() -> None:
    """Compile the kernels, so that no time limit pays for it."""
    indptr, indices = np.arange(3), np.array([1, 0], np.int32)
    peel(indptr, indices, np.full(2, OPEN, np.uint8), 1)
    take_steps(new_walk(indptr, indices), 1)
    explore(new_search(indptr, indices, np.empty(0, np.int64), 1), 1)
    cover_by_cliques(indptr, indices)
    cover_edges(indptr, indices)


def largest_independent_set(graph: FeedbackGraph, time_limit: float) -> Answer:
    """Return an independent set, ascending, and an upper bound of the size of any."""
    if not graph.arrays.indices.size:
        arms = strangers(graph.arrays)
        return Answer(arms, arms.size, say_how(True, [name_of(graph)]))
    _make_ready()
    clock = Clock(time_limit)
    if graph.n_edges > EDGES:
        # No run joins two of these arms. What the lists leave of them is found, what they were is the bound.
        arms = strangers(graph.arrays)
        found = _solve(*_listed_neighbours(graph, arms), clock)
        how = say_how(found.chosen.size == arms.size, ["runs of arms"], "too many edges to write out")
        return Answer(arms[found.chosen], arms.size, how)
    row, column = graph.to_sparse().nonzero()
    return _solve(*_neighbours(graph.n_arms, row, column), clock)


def _listed_neighbours(graph: FeedbackGraph, arms: Ints) -> tuple[Ints, SmallInts]:
    place = np.full(graph.n_arms, -1)
    place[arms] = np.arange(arms.size)
    row = np.repeat(place, np.diff(graph.arrays.indptr))
    column = place[graph.arrays.indices]
    kept = (row >= 0) & (column >= 0)
    return _neighbours(arms.size, row[kept], column[kept])


def _neighbours(n: int, row: NDArray[Any], column: NDArray[Any]) -> tuple[Ints, SmallInts]:
    """Return the sorted neighbours of each node in the undirected support, without loops."""
    from scipy.sparse import csr_array

    apart = row != column
    ends = np.concatenate([row[apart], column[apart]]), np.concatenate([column[apart], row[apart]])
    return lists_of(csr_array((np.ones(ends[0].size, np.bool_), ends), shape=(n, n)))


def _matrix(indptr: Ints, indices: SmallInts) -> Any:
    from scipy.sparse import csr_array

    n = indptr.size - 1
    return csr_array((np.ones(indices.size, np.int8), indices, indptr), shape=(n, n))


def _solve(indptr: Ints, indices: SmallInts, clock: Clock) -> Answer:
    """Return the answer for a graph given by lists of neighbours: reduce it, and solve each component of the rest."""
    status = np.full(indptr.size - 1, OPEN, np.uint8)
    peel(indptr, indices, status, _PEELING)
    chosen = [np.flatnonzero(status == TAKEN)]
    bound, means = chosen[0].size, []
    rest = components(_matrix(indptr, indices), np.flatnonzero(status == OPEN))
    for nodes, indptr, indices in rest:
        part = _component(indptr, indices, clock)
        chosen.append(nodes[part.chosen])
        bound += part.bound
        means.append(part.how)
    found = np.sort(np.concatenate(chosen))
    means = means or ["reductions"]
    return Answer(found, bound, say_how(found.size == bound, means, clock.verdict))


def _component(indptr: Ints, indices: SmallInts, clock: Clock) -> Answer:
    """Return the answer for a connected graph that cannot be reduced."""
    n = indptr.size - 1
    if (np.diff(indptr) == 2).all():
        return _cycle(indptr, indices)
    if n <= _SMALL:
        found, bound = _searched(indptr, indices, np.empty(0, np.int64), n, clock)
        return Answer(found, bound, "branch and bound")
    matched = _bipartite(indptr, indices)
    if matched is not None:
        return Answer(matched, matched.size, "matching")
    found, bound, how = _walked(indptr, indices, clock.part(_WALK)), _clique_bound(indptr, indices), "cover by cliques"
    programmable = indices.size <= 2 * _PROGRAMMED
    if n * max(n, 8 * bound) <= _SEARCHED and found.size < bound:
        found, searched = _searched(indptr, indices, found, bound, clock.part(_SHARE if programmable else 1.0))
        if searched < bound:
            bound, how = searched, "branch and bound"
    if programmable and found.size < bound and clock.left > 0:
        found, programmed = _programmed(indptr, indices, found, clock)
        if programmed < bound:
            bound, how = programmed, "integer programming"
    return Answer(found, bound, how)


def _cycle(indptr: Ints, indices: SmallInts) -> Answer:
    status = np.full(indptr.size - 1, OPEN, np.uint8)
    status[0] = TAKEN
    status[indices[: indptr[1]]] = OUT
    peel(indptr, indices, status, _PEELING)
    found = np.flatnonzero(status == TAKEN)
    return Answer(found, status.size // 2, "reductions")


def _bipartite(indptr: Ints, indices: SmallInts) -> Ints | None:
    """Return a largest independent set of a connected bipartite graph by König's theorem, or None for another graph."""
    from scipy.sparse import block_array, csr_array
    from scipy.sparse.csgraph import breadth_first_order, connected_components, maximum_bipartite_matching

    matrix = _matrix(indptr, indices)
    n = indptr.size - 1
    # Each node twice, each edge between different copies: in two parts if and only if the graph is bipartite.
    parts, label = connected_components(block_array([[None, matrix], [matrix, None]]), directed=False)
    if parts == 1:
        return None
    left, right = np.flatnonzero(label[:n] == 0), np.flatnonzero(label[:n] == 1)
    partner = maximum_bipartite_matching(matrix[left][:, right], perm_type="column")
    # From a root to the left nodes without a partner, on along any edge to the right, back along the matching.
    edges = matrix[left][:, right].tocoo()
    free, matched = np.flatnonzero(partner < 0), np.flatnonzero(partner >= 0)
    row = np.concatenate([np.full(free.size, n), edges.row, left.size + partner[matched]])
    column = np.concatenate([free, left.size + edges.col, matched])
    walk = csr_array((np.ones(row.size), (row, column)), shape=(n + 1, n + 1))
    reached = np.zeros(n + 1, np.bool_)
    reached[breadth_first_order(walk, n, return_predecessors=False)] = True
    return np.concatenate([left[reached[: left.size]], right[~reached[left.size : n]]])


def _clique_bound(indptr: Ints, indices: SmallInts) -> int:
    """Return an upper bound: the nodes of a clique count once, and the two ends of half an edge a half each."""
    from scipy.sparse.csgraph import maximum_bipartite_matching

    halves = int((maximum_bipartite_matching(_matrix(indptr, indices)) >= 0).sum())
    return min(cover_by_cliques(indptr, indices), indptr.size - 1 - (halves + 1) // 2)


def _walked(indptr: Ints, indices: SmallInts, clock: Clock) -> Ints:
    """Return a large independent set."""
    walk = new_walk(indptr, indices)
    n = indptr.size - 1
    take_steps(walk, 2 * n)
    for _ in range(10 + n // 20):
        if clock.left <= 0:
            break
        take_steps(walk, _SLICE)
    return np.flatnonzero(walk.best)


def _searched(indptr: Ints, indices: SmallInts, found: Ints, bound: int, clock: Clock) -> tuple[Ints, int]:
    """Return the largest set that branch and bound finds in its share of the time, and its upper bound."""
    search = new_search(indptr, indices, found, bound)
    explore(search, _SLICE)
    while not search.is_over and clock.left > 0:
        explore(search, _SLICE)
    return search.found, search.upper_bound


def _programmed(indptr: Ints, indices: SmallInts, found: Ints, clock: Clock) -> tuple[Ints, int]:
    """Return the largest set that HiGHS finds under clique constraints, if larger than `found`, and its upper bound."""
    from scipy.optimize import Bounds, LinearConstraint, milp
    from scipy.sparse import csr_array

    n = indptr.size - 1
    nodes, starts = cover_edges(indptr, indices)
    cliques = csr_array((np.ones(nodes.size), nodes, starts), shape=(starts.size - 1, n))
    answer = milp(
        -np.ones(n),
        integrality=np.ones(n, np.int64),
        bounds=Bounds(0.0, 1.0),
        constraints=LinearConstraint(cliques, -np.inf, 1.0),
        options={"mip_rel_gap": 0.0, "time_limit": max(clock.left, 0.0)},
    )
    limit = getattr(answer, "mip_dual_bound", None)
    bound = n if limit is None or not np.isfinite(limit) else int(np.floor(-limit + _SLACK))
    if answer.x is not None:
        other = np.flatnonzero(answer.x > 0.5)
        if other.size > found.size and (cliques[:, other].sum(axis=1) < 1.5).all():
            found = other
    return found, max(bound, found.size)
