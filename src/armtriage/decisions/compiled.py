"""Oracles that compiled code can ask: the same kernels as behind `maximise`, with what they need in one record.

``best(record, weights, arms)`` writes a decision of largest weight, ascending, and returns how many arms it has. It
gives the same answers as `DecisionSet.maximise`, ties included. A record has scratch space: each run needs its own.
"""

from __future__ import annotations

from collections.abc import Callable
from typing import Any, NamedTuple

import numpy as np
from numpy.typing import NDArray

from armtriage.decisions.acyclic import AcyclicRoutes, forward
from armtriage.decisions.constraints import Knapsack, _fill
from armtriage.decisions.explicit import Explicit, _totals
from armtriage.decisions.matchings import Matchings, heaviest_pairs
from armtriage.decisions.paths import Paths
from armtriage.decisions.sets import DecisionSet, Floats, Ints, Marks
from armtriage.decisions.slates import PartitionMatroid, TopS, _select
from armtriage.decisions.trees import SpanningTrees, TreeDesk, heaviest_tree, tree_desk
from armtriage.kernels.jit import kernel
from armtriage.kernels.order import best_member, sort_arms
from armtriage.kernels.record import Record

__all__ = ["CompiledOracle", "compiled_oracle", "has_compiled_oracle"]


class CompiledOracle(NamedTuple):
    """A kernel that finds best decisions, and the record that it is called with."""

    record: Record
    best: Callable[..., int]


class Slates(Record):
    """What `best_slate` needs."""

    marks: Marks  # (K,) zeros: nothing is forced
    members: Ints
    starts: Ints
    capacities: Ints
    chosen: NDArray[np.bool_]
    worst: Floats
    spare: Floats
    single: bool  # whether every group has a capacity of 1
    offset: float


class Trees(Record):
    """What `best_tree` needs."""

    desk: TreeDesk
    chosen: NDArray[np.bool_]
    offset: float


class Routes(Record):
    """What `best_route` needs."""

    ends: Ints
    order: Ints
    tails: Ints
    starts: Ints
    values: Floats
    last: Ints
    source: int
    target: int
    offset: float


class Menus(Record):
    """What `best_menu` needs."""

    marks: Marks
    arms: Ints
    starts: Ints
    offset: float


class Bags(Record):
    """What `best_bag` needs."""

    marks: Marks
    loads: Ints
    chosen: NDArray[np.bool_]
    room: int
    offset: float


class Assignments(Record):
    """What `best_matching` needs."""

    marks: Marks
    rows: Ints
    columns: Ints
    costs: Floats
    matched: Ints
    chosen: NDArray[np.bool_]
    n_rows: int
    n_columns: int
    offset: float


@kernel
def _collect(chosen: NDArray[np.bool_], arms: Ints) -> int:
    """Write the chosen arms, ascending; return how many."""
    n = 0
    for a in range(chosen.size):
        if n == arms.size:
            break
        arms[n] = a  # kept if it is chosen: a branch here could not be predicted
        n += chosen[a]
    return n


@kernel
def best_slate(oracle: Slates, weights: Floats, arms: Ints) -> int:
    """Write the best arms of each group."""
    oracle.chosen[:] = False
    if oracle.single:
        for g in range(oracle.capacities.size):
            oracle.chosen[best_member(weights, oracle.members[oracle.starts[g] : oracle.starts[g + 1]])] = True
        return _collect(oracle.chosen, arms)
    _select(
        weights,
        oracle.marks,
        oracle.members,
        oracle.starts,
        oracle.capacities,
        oracle.chosen,
        oracle.worst,
        oracle.spare,
    )
    return _collect(oracle.chosen, arms)


@kernel
def best_tree(oracle: Trees, weights: Floats, arms: Ints) -> int:
    """Write the edges of the heaviest tree."""
    oracle.chosen[:] = False
    heaviest_tree(oracle.desk, weights, oracle.chosen)
    return _collect(oracle.chosen, arms)


@kernel
def best_route(oracle: Routes, weights: Floats, arms: Ints) -> int:
    """Write the arms of the heaviest path."""
    last = oracle.last
    forward(weights, oracle.order, oracle.tails, oracle.starts, oracle.source, oracle.values, last)
    n, node = 0, oracle.target
    while node != oracle.source:
        arms[n] = last[node]
        node = oracle.ends[last[node], 0]
        n += 1
    for i in range(n // 2):  # arms are mostly numbered along the way
        arms[i], arms[n - 1 - i] = arms[n - 1 - i], arms[i]
    sort_arms(arms[:n])
    return n


@kernel
def best_menu(oracle: Menus, weights: Floats, arms: Ints) -> int:
    """Write the first of the heaviest decisions that are listed."""
    totals = _totals(weights, oracle.marks, oracle.arms, oracle.starts)
    best = 0
    for d in range(1, totals.size):
        if totals[d] > totals[best]:
            best = d
    first = oracle.starts[best]
    n = oracle.starts[best + 1] - first
    for i in range(n):
        arms[i] = oracle.arms[first + i]
    return n  # type: ignore[no-any-return]


@kernel
def best_bag(oracle: Bags, weights: Floats, arms: Ints) -> int:
    """Write the arms of the best bag."""
    oracle.chosen[:] = False
    _fill(weights, oracle.marks, oracle.loads, oracle.room, oracle.chosen)
    return _collect(oracle.chosen, arms)


@kernel
def best_matching(oracle: Assignments, weights: Floats, arms: Ints) -> int:
    """Write the pairs of the best matching."""
    shape = (oracle.n_rows, oracle.n_columns)
    heaviest_pairs(
        weights, oracle.marks, oracle.rows, oracle.columns, shape, oracle.costs, oracle.matched, oracle.chosen
    )
    return _collect(oracle.chosen, arms)


def has_compiled_oracle(decisions: DecisionSet) -> bool:
    """Whether compiled code can ask the set."""
    kind: type[Any] = type(decisions)
    if isinstance(decisions, Paths):
        return kind is Paths and not decisions.needs_costs
    return kind in (PartitionMatroid, TopS, Matchings, SpanningTrees, Explicit) or (
        isinstance(decisions, Knapsack) and kind is Knapsack and decisions._room >= 0
    )


def compiled_oracle(decisions: DecisionSet, offset: float) -> CompiledOracle | None:
    """Return the set's oracle for compiled code, None if it has none; `offset` is a reward of 0 on the unit scale."""
    if not has_compiled_oracle(decisions):
        return None
    n = decisions.n_arms
    marks, chosen = np.zeros(n, np.int8), np.zeros(n, np.bool_)
    if isinstance(decisions, PartitionMatroid):
        groups = decisions.capacities.size
        slates = Slates(
            marks,
            decisions._members,
            decisions._starts,
            decisions.capacities,
            chosen,
            np.zeros(groups),
            np.zeros(groups),
            bool((decisions.capacities == 1).all()),
            offset,
        )
        return CompiledOracle(slates, best_slate)
    if isinstance(decisions, Matchings):
        costs, matched = decisions._desk()
        own = decisions._rows, decisions._columns, costs, matched, chosen
        return CompiledOracle(Assignments(marks, *own, *decisions._shape, offset), best_matching)
    if isinstance(decisions, SpanningTrees):
        trees = Trees(tree_desk(decisions.edges, decisions.n_nodes), chosen, offset)
        return CompiledOracle(trees, best_tree)
    if isinstance(decisions, Paths):
        routes = decisions._routes
        assert isinstance(routes, AcyclicRoutes)
        network = routes._ends, routes._order, routes._tails, routes._starts
        values, last = np.zeros(routes.n_nodes), np.zeros(routes.n_nodes, np.int64)
        return CompiledOracle(Routes(*network, values, last, routes._from, routes._to, offset), best_route)
    if isinstance(decisions, Explicit):
        return CompiledOracle(Menus(marks, decisions._arms, decisions._starts, offset), best_menu)
    assert isinstance(decisions, Knapsack)
    return CompiledOracle(Bags(marks, decisions._whole, chosen, decisions._room, offset), best_bag)
