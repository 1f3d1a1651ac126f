"""The fewest sets that hold everything: reductions, Chvatal's greedy, and integer programming for what is left."""

from __future__ import annotations

from functools import cache
from typing import Any

import numpy as np
from numpy.typing import NDArray

from armtriage.graphs.feedback import GraphArrays
from armtriage.theory._answers import Answer, Clock, say_how
from armtriage.theory._components import components, lists_of
from armtriage.theory._cover_search import explore_covers, new_cover_search
from armtriage.theory._greedy import cover_chvatal
from armtriage.theory._peel import OPEN, TAKEN
from armtriage.theory._reduce import fair_price, reduce_cover

__all__ = ["make_ready", "smallest_cover"]

Ints = NDArray[np.int64]
SmallInts = NDArray[np.int32]

_REDUCING = 100_000_000
_PROGRAMMED = 150_000
_SEARCHED = 12
_BITS = 4_000_000
_SHARE = 0.6
_SLICE = 500
_SLACK = 1e-3  # far above the solver's tolerances, such that rounding a bound is safe


@cache
def make_ready() -> None:
    """Compile the kernels, so that no time limit pays for it."""
    indptr, indices = np.arange(3), np.array([1, 0], np.int32)
    reduce_cover(indptr, indices, 1, np.full(2, OPEN, np.uint8), 1)
    fair_price(indptr, indices, 1)
    no_run = np.zeros(1, np.int32)
    one = GraphArrays(no_run, no_run, indptr[:2], indices[1:])
    cover_chvatal(one, np.ones(1, np.uint8))
    explore_covers(new_cover_search(one.indptr, one.indices, 1, 1), 1)


def smallest_cover(sets: Any, clock: Clock) -> Answer:
    """Return rows of a sparse matrix, as few as can be found, that hold all columns, and a lower bound.

    A row holds the columns where its entries are not 0; every column must be held by some row.
    """
    from scipy.sparse import block_array

    n_sets = sets.shape[0]
    both = block_array([[None, sets], [sets.T, None]], format="csr")
    indptr, indices = lists_of(both)
    status = np.full(both.shape[0], OPEN, np.uint8)
    reduce_cover(indptr, indices, n_sets, status, _REDUCING)
    chosen = [np.flatnonzero(status == TAKEN)]
    bound, means = chosen[0].size, []
    for nodes, indptr, indices in components(both, np.flatnonzero(status == OPEN)):
        count = int(np.searchsorted(nodes, n_sets))
        part = _component(indptr, indices, count, clock)
        chosen.append(nodes[part.chosen])
        bound += part.bound
        means.append(part.how)
    found = np.sort(np.concatenate(chosen))
    means = means or ["reductions"]
    return Answer(found, bound, say_how(found.size == bound, means, clock.verdict))


def _component(indptr: Ints, indices: SmallInts, n_sets: int, clock: Clock) -> Answer:
    """Return the answer for sets, the first nodes, and what they hold, the others, that cannot be reduced."""
    bound, how = int(np.ceil(fair_price(indptr, indices, n_sets) - _SLACK)), "greedy and packing"
    n_things = indptr.size - 1 - n_sets
    indptr, indices = indptr[: n_sets + 1], indices[: indptr[n_sets]] - np.int32(n_sets)
    no_run = np.zeros(n_sets, np.int32)
    found = cover_chvatal(GraphArrays(no_run, no_run, indptr, indices), np.ones(n_things, np.uint8))
    programmable = indices.size <= _PROGRAMMED
    if bound < found.size and (found.size <= _SEARCHED or not programmable) and n_sets * n_things <= _BITS:
        found, searched = _searched(
            indptr, indices, n_things, found, bound, clock.part(_SHARE if programmable else 1.0)
        )
        if searched > bound:
            bound, how = searched, "branch and bound"
    if found.size > bound and programmable and clock.left > 0:
        found, programmed = _programmed(indptr, indices, n_things, found, clock)
        if programmed > bound:
            bound, how = programmed, "integer programming"
    return Answer(found, bound, how)


def _searched(
    indptr: Ints, indices: SmallInts, n_things: int, found: Ints, bound: int, clock: Clock
) -> tuple[Ints, int]:
    """Return the smallest cover that search finds in its share of the time, and the size up to which it found none."""
    while bound < found.size:
        search = new_cover_search(indptr, indices, n_things, bound)
        explore_covers(search, _SLICE)
        while not search.is_over and clock.left > 0:
            explore_covers(search, _SLICE)
        if search.found.size:
            return search.found, bound
        if not search.is_over:
            break
        bound += 1
    return found, bound


def _programmed(indptr: Ints, indices: SmallInts, n_things: int, found: Ints, clock: Clock) -> tuple[Ints, int]:
    """Return the smallest cover that HiGHS finds, if smaller than `found`, and its lower bound."""
    from scipy.optimize import Bounds, LinearConstraint, milp
    from scipy.sparse import csc_array

    n = indptr.size - 1
    holders = csc_array((np.ones(indices.size), indices, indptr), shape=(n_things, n))
    answer = milp(
        np.ones(n),
        integrality=np.ones(n, np.int64),
        bounds=Bounds(0.0, 1.0),
        constraints=LinearConstraint(holders, 1.0, np.inf),
        options={"mip_rel_gap": 0.0, "time_limit": max(clock.left, 0.0)},
    )
    limit = getattr(answer, "mip_dual_bound", None)
    bound = 1 if limit is None or not np.isfinite(limit) else int(np.ceil(limit - _SLACK))
    if answer.x is not None:
        other = np.flatnonzero(answer.x > 0.5)
        if other.size < found.size and (holders[:, other].sum(axis=1) > 0.5).all():
            found = other
    return found, min(bound, found.size)
