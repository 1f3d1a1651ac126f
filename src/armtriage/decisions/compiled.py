"""Oracles that compiled code can ask: the same kernels as behind `maximise`, with what they need in one record.

``best(record, weights, arms)`` writes a decision of largest weight, ascending, and returns how many arms it has. It
gives the same answers as `DecisionSet.maximise`, ties included. A record has scratch space: each run needs its own.
"""

from __future__ import annotations

from collections.abc import Callable
from typing import Any, NamedTuple

import numpy as np
from numpy.typing import NDArray

from armtriage.decisions.acyclic import AcyclicRoutes, _forward
from armtriage.decisions.constraints import Knapsack, _fill
from armtriage.decisions.explicit import Explicit, _totals
from armtriage.decisions.matchings import Matchings, heaviest_pairs
from armtriage.decisions.paths import Paths
from armtriage.decisions.sets import DecisionSet, Floats, Ints, Marks
from armtriage.decisions.slates import PartitionMatroid, TopS, _select
from armtriage.decisions.trees import SpanningTrees, heaviest_tree
from armtriage.kernels.jit import kernel
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
    offset: float


class Trees(Record):
    """What `best_tree` needs."""

    edges: Ints
    values: Floats
    order: Ints
    chosen: NDArray[np.bool_]
    n_nodes: int
    offset: float


class Routes(Record):
    """What `best_route` needs."""

    used: NDArray[np.bool_]
    order: Ints
    ends: Ints
    values: Floats
    chosen: NDArray[np.bool_]
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
        if chosen[a]:
            arms[n] = a
            n += 1
    return n


@kernel
def best_slate(oracle: Slates, weights: Floats, arms: Ints) -> int:
    """Write the best arms of each group."""
    oracle.chosen[:] = False
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
    heaviest_tree(oracle.edges, weights, oracle.n_nodes, oracle.values, oracle.order, oracle.chosen)
    return _collect(oracle.chosen, arms)


@kernel
def best_route(oracle: Routes, weights: Floats, arms: Ints) -> int:
    """Write the arms of the heaviest path."""
    last = _forward(weights, oracle.used, oracle.order, oracle.ends, oracle.source, oracle.values)
    oracle.chosen[:] = False
    node = oracle.target
    while node != oracle.source:
        oracle.chosen[last[node]] = True
        node = oracle.ends[last[node], 0]
    return _collect(oracle.chosen, arms)


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
            offset,
        )
        return CompiledOracle(slates, best_slate)
    if isinstance(decisions, Matchings):
        costs, matched = decisions._desk()
        own = decisions._rows, decisions._columns, costs, matched, chosen
        return CompiledOracle(Assignments(marks, *own, *decisions._shape, offset), best_matching)
    if isinstance(decisions, SpanningTrees):
        trees = Trees(decisions.edges, np.zeros(n), np.zeros(n, np.int64), chosen, decisions.n_nodes, offset)
        return CompiledOracle(trees, best_tree)
    if isinstance(decisions, Paths):
        routes = decisions._routes
        assert isinstance(routes, AcyclicRoutes)
        ends, values = (routes._from, routes._to), np.zeros(routes.n_nodes)
        return CompiledOracle(
            Routes(routes._used, routes._order, routes._ends, values, chosen, *ends, offset), best_route
        )
    if isinstance(decisions, Explicit):
        return CompiledOracle(Menus(marks, decisions._arms, decisions._starts, offset), best_menu)
    assert isinstance(decisions, Knapsack)
    return CompiledOracle(Bags(marks, decisions._whole, chosen, decisions._room, offset), best_bag)
