"""Covers by the decisions of a family: what one family needs, and the most that any part of it needs."""

from __future__ import annotations

from typing import Any

import numpy as np
from numpy.typing import NDArray

from armtriage.decisions import DecisionSet, TopS
from armtriage.graphs.feedback import FeedbackGraph
from armtriage.theory._answers import Clock, say_how
from armtriage.theory._dominating import smallest_dominating_set
from armtriage.theory._independence import EDGES, largest_independent_set
from armtriage.theory._set_cover import make_ready, smallest_cover
from armtriage.theory.graph_bounds import layer_size

__all__ = ["active_cover", "family_cover"]

Ints = NDArray[np.int64]
Flags = NDArray[np.bool_]
Limits = tuple[int, int, str]

_LISTED = 10_000


def _listed(decisions: DecisionSet, graph: FeedbackGraph) -> list[Ints] | None:
    """Return the decisions, if there are few enough."""
    count = decisions.count()
    if count is None or count > _LISTED or count * graph.n_arms > 10 * EDGES:
        return None
    return list(decisions)


def _members(decisions: DecisionSet) -> Ints:
    """Return the arms that are in some decision."""
    return np.flatnonzero(decisions.maximise_each_including(np.zeros(decisions.n_arms)) > -np.inf)


def _shown(graph: FeedbackGraph, listed: list[Ints], arms: Ints) -> Any:
    """Return which of `arms` each decision reveals, a row a decision."""
    from scipy.sparse import csr_array

    shown = [graph.revealed_by(one) for one in listed]
    starts = np.append(0, np.cumsum([one.size for one in shown]))
    data = np.ones(starts[-1], np.int8), np.concatenate(shown), starts
    return csr_array(data, shape=(len(listed), graph.n_arms))[:, arms]


def _gains(graph: FeedbackGraph, wanted: Flags) -> NDArray[np.float64]:
    """Return how many of the wanted arms each arm reveals."""
    start, stop, indptr, indices = graph.arrays
    before = np.append(0, np.cumsum(wanted))
    rows = np.repeat(np.arange(graph.n_arms), np.diff(indptr))
    listed = np.bincount(rows, wanted[indices], minlength=graph.n_arms)
    return np.asarray(before[stop] - before[start] + listed, np.float64)


def family_cover(decisions: DecisionSet, graph: FeedbackGraph, time_limit: float) -> Limits:
    """Return limits of how many decisions reveal all arms that are in some decision, and how they were found."""
    if isinstance(decisions, TopS):
        arms, bound, how = smallest_dominating_set(graph, time_limit)
        lower, upper = -(-bound // decisions.budget), -(-arms.size // decisions.budget)
        met = lower == upper and bound < arms.size
        return lower, upper, say_how(True, ["domination number over the budget"]) if met else how
    make_ready()
    clock = Clock(time_limit)
    members, listed = _members(decisions), _listed(decisions, graph)
    if listed is not None:
        answer = smallest_cover(_shown(graph, listed, members), clock)
        return answer.bound, answer.chosen.size, answer.how
    upper = _greedy_cover(decisions, graph, members, clock.part(0.5))
    arms_needed = 1
    if graph.n_edges <= EDGES:
        arms_needed = smallest_cover(graph.to_sparse()[members][:, members], clock).bound
    lower = -(-arms_needed // decisions.size)
    return lower, upper, say_how(lower == upper, ["arms needed", "greedy"], "too many decisions to list")


def _greedy_cover(decisions: DecisionSet, graph: FeedbackGraph, members: Ints, clock: Clock) -> int:
    """Return how many decisions cover all members if each is the best for what its arms reveal of those missing."""
    missing = np.zeros(graph.n_arms, np.bool_)
    missing[members] = True
    count = 0
    while missing.any():
        if clock.left <= 0:
            return count + int(missing.sum())
        best = decisions.maximise(_gains(graph, missing))
        assert best is not None
        missing[graph.revealed_by(best)] = False
        count += 1
    return count


def active_cover(decisions: DecisionSet, graph: FeedbackGraph, limit: int, time_limit: float) -> Limits:
    """Return limits of how many of its own decisions a part of the family needs at most to reveal all its arms."""
    count = decisions.count()
    if count is not None and count <= limit:
        need = _enumerate(graph, list(decisions))
        return need, need, say_how(True, ["all sub-families"])
    make_ready()
    clock = Clock(time_limit)
    members = _members(decisions)
    inner = graph
    if members.size < graph.n_arms and graph.n_edges <= EDGES:
        inner = FeedbackGraph.from_sparse(graph.to_sparse()[members][:, members])
    apart, most, _ = largest_independent_set(inner, 0.4 * clock.left)
    upper = int(layer_size(inner.n_arms, most, undirected=inner.is_undirected))
    smallest = decisions.maximise(-np.ones(decisions.n_arms))
    assert smallest is not None
    # One decision shows itself; each arm that is still missing asks for one more at most.
    upper = min(upper, 1 + members.size - smallest.size, members.size if count is None else count)
    order = members
    if inner.n_arms == members.size:
        order = np.concatenate([members[apart], np.delete(members, apart)])
    if decisions.size == 1 and inner.n_arms == members.size:
        lower = apart.size
    else:
        lower = family_cover(decisions, graph, 0.5 * clock.left)[0]
    lower = max(lower, _indispensable(decisions, graph, order, clock))
    how = say_how(lower == upper, ["a sub-family", "independence number"], "too many sub-families to look at")
    return lower, upper, how


def _indispensable(decisions: DecisionSet, graph: FeedbackGraph, order: Ints, clock: Clock) -> int:
    """Return the size of a family each of whose decisions has an arm that no other one of them reveals."""
    if graph.n_edges > EDGES:
        return 1
    revealing = graph.to_sparse().tocsc()
    hidden, barred = np.zeros(graph.n_arms, np.bool_), np.zeros(graph.n_arms, np.bool_)
    hidden[order] = True
    count = 0
    for arm in order:
        if clock.left <= 0:
            break
        if not hidden[arm] or barred[arm]:
            continue
        one = decisions.maximise(-_gains(graph, hidden), include=[arm], exclude=np.flatnonzero(barred))
        if one is not None:
            hidden[graph.revealed_by(one)] = False
            barred[revealing.indices[revealing.indptr[arm] : revealing.indptr[arm + 1]]] = True
            count += 1
    return count


def _enumerate(graph: FeedbackGraph, listed: list[Ints]) -> int:
    """Return the largest number of its own decisions that any sub-family needs.

    Sub-family B does with its part C if B lies between C and all decisions whose arms C reveals.
    """
    n = len(listed)
    arms = [sum(1 << arm for arm in one.tolist()) for one in listed]
    shows = [sum(1 << arm for arm in graph.revealed_by(one).tolist()) for one in listed]
    shown = [0] * (1 << n)
    need = np.zeros(1 << n, np.int8)
    need[0] = 1
    for part in range(1, 1 << n):
        shown[part] = shown[part & (part - 1)] | shows[(part & -part).bit_length() - 1]
    for part in sorted(range(1, 1 << n), key=int.bit_count):
        between = np.array([part])
        for i in range(n):
            if not part >> i & 1 and not arms[i] & ~shown[part]:
                between = np.concatenate([between, between | (1 << i)])
        need[between[need[between] == 0]] = part.bit_count()
        if need.all():
            break
    return int(need.max())
