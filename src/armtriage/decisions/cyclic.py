"""Routes through a network with cycles: Dijkstra finds the cheapest, where no arm costs less than nothing."""

from __future__ import annotations

import numpy as np
from numpy.typing import NDArray

from armtriage.decisions.compiled import by_node
from armtriage.decisions.constraints import best_subset
from armtriage.decisions.sets import LISTED, Marks
from armtriage.kernels.jit import kernel
from armtriage.kernels.record import Floats, Ints

_STEPS = 10 * LISTED
"""How far a search for all routes goes: most of its steps lead to a dead end."""


@kernel
def _is_nearer(distance: Floats, node: int, other: int) -> bool:
    """Whether a node comes before another: it is nearer or, at the same distance, has the smaller number."""
    return (distance[node] < distance[other]) | (  # type: ignore[no-any-return]
        (distance[node] == distance[other]) & (node < other)
    )


@kernel
def _raise(heap: Ints, places: Ints, distance: Floats, node: int) -> None:
    """Move a node up the heap to where its distance belongs."""
    place = places[node]
    while place > 0 and _is_nearer(distance, node, heap[(place - 1) >> 1]):
        heap[place] = heap[(place - 1) >> 1]
        places[heap[place]] = place
        place = (place - 1) >> 1
    heap[place], places[node] = node, place


@kernel
def _pop(heap: Ints, places: Ints, distance: Floats, size: int) -> int:
    """Take the nearest of the `size` nodes off the heap."""
    nearest = heap[0]
    node = heap[size - 1]
    size -= 1
    place = 0
    while 2 * place + 1 < size:
        child = 2 * place + 1
        if child + 1 < size and _is_nearer(distance, heap[child + 1], heap[child]):
            child += 1
        if not _is_nearer(distance, heap[child], node):
            break
        heap[place] = heap[child]
        places[heap[place]] = place
        place = child
    heap[place], places[node] = node, place
    return nearest  # type: ignore[no-any-return]


@kernel
def _dijkstra(
    costs: Floats, open_: NDArray[np.bool_], starts: Ints, arcs: Ints, heads: Ints, source: int, distance: Floats
) -> Ints:
    """Write the least cost of getting from the source to each node; return the last arc on the way there.

    The arcs that leave node i are ``arcs[starts[i] : starts[i + 1]]``.
    """
    distance[:] = np.inf
    distance[source] = 0.0
    last = np.full(distance.size, -1, np.int64)
    heap = np.empty(distance.size, np.int64)
    places = np.full(distance.size, -1, np.int64)  # in the heap; -1 before a node is reached, -2 when it is settled
    heap[0], places[source] = source, 0
    size = 1
    while size > 0:
        node = _pop(heap, places, distance, size)
        size -= 1
        places[node] = -2
        for i in range(starts[node], starts[node + 1]):
            arc = arcs[i]
            head = heads[arc]
            if open_[arc] and places[head] > -2 and distance[node] + costs[arc] < distance[head]:
                distance[head] = distance[node] + costs[arc]
                last[head] = arc
                if places[head] < 0:
                    places[head] = size
                    size += 1
                _raise(heap, places, distance, head)
    return last


class CyclicRoutes:
    """The routes that visit no node twice, by arcs of which each stands for an arm, and an arm for one or two.

    Forcing arms in makes the question a hard one: it is first asked without regard to nodes that are visited twice, and
    where there are some, of an integer programme.
    """

    def __init__(self, arcs: Ints, arm_of: Ints, used: NDArray[np.bool_], n_nodes: int, source: int, target: int):
        self.n_nodes = n_nodes
        self._tails, self._heads = (np.ascontiguousarray(side) for side in arcs.T)
        self._arm_of, self._used, self._source, self._target = arm_of, used, source, target
        self._leaving = by_node(self._tails, n_nodes)
        self._entering = by_node(self._heads, n_nodes)

    def longest(self) -> int:
        """Return a number of arms that no route exceeds: one less than the nodes that can be visited."""
        return int(np.unique(np.append(self._tails[self._used], self._heads[self._used])).size) - 1

    def maximise(self, weights: Floats, marks: Marks) -> Ints | None:
        """Return the arms, ascending, of a heaviest route that obeys the marks; no weight lies above 0."""
        allowed = self._used & (marks[self._arm_of] >= 0)
        # Weights of 0 may be -0.0, and the answer must not depend on it.
        costs = np.abs(weights)[self._arm_of]
        distance = np.empty(self.n_nodes)
        last = _dijkstra(costs, allowed, *self._leaving, self._heads, self._source, distance)
        if distance[self._target] == np.inf:
            return None
        route: list[int] | None = self._back(last, self._target)
        forced = np.flatnonzero(marks == 1)
        if not np.isin(forced, self._arm_of[route]).all():
            if forced.size > 1:
                return self._programme(costs, np.flatnonzero(allowed), forced)
            route = self._by_way_of(costs, allowed, last, distance, np.flatnonzero(self._arm_of == forced[0]))
            if route is not None and np.unique(self._heads[route]).size < len(route):
                return self._programme(costs, np.flatnonzero(allowed), forced)
        return None if route is None else np.sort(self._arm_of[route])

    def _back(self, last: Ints, node: int) -> list[int]:
        """Return the arcs from the source to a node."""
        route = []
        while node != self._source:
            route.append(int(last[node]))
            node = int(self._tails[last[node]])
        return route[::-1]

    def _by_way_of(
        self, costs: Floats, allowed: NDArray[np.bool_], last: Ints, distance: Floats, ways: Ints
    ) -> list[int] | None:
        """Return the arcs of a cheapest way by one of `ways`, which may visit a node twice; None if there is none."""
        rest = np.empty(self.n_nodes)
        next_ = _dijkstra(costs, allowed, *self._entering, self._tails, self._target, rest)
        totals = np.where(allowed[ways], distance[self._tails[ways]] + costs[ways] + rest[self._heads[ways]], np.inf)
        best = int(totals.argmin())
        if totals[best] == np.inf:
            return None
        route = [*self._back(last, int(self._tails[ways[best]])), int(ways[best])]
        while (node := int(self._heads[route[-1]])) != self._target:
            route.append(int(next_[node]))
        return route

    def _programme(self, costs: Floats, arcs: Ints, forced: Ints) -> Ints | None:
        """Return the cheapest route with all forced arms, by integer programming.

        Beside the arcs there is a flow for each forced arm, from the source to where the arm begins, along chosen arcs
        only: without it, the arm could lie on a cycle beside the route.
        """
        from scipy import sparse

        tails, heads, arms, n, m = self._tails[arcs], self._heads[arcs], self._arm_of[arcs], self.n_nodes, arcs.size
        ones, columns = np.ones(m), np.arange(m)
        entered = sparse.csr_array((ones, (heads, columns)), (n, m))
        left = sparse.csr_array((ones, (tails, columns)), (n, m))
        once = sparse.csr_array((ones, (arms, columns)), (int(self._arm_of.max()) + 1, m))
        begins, ends, least = np.zeros(n), np.zeros(n), np.zeros(once.shape[0])
        begins[self._source] = ends[self._target] = least[forced] = 1.0
        nothing, every = sparse.csr_array((m, m)), sparse.csr_array(sparse.eye_array(m))
        blocks = [[left - entered], [entered], [once]]
        low, high = [begins - ends, np.zeros(n), least], [begins - ends, np.ones(n), np.ones(least.size)]
        for place, arm in enumerate(forced):
            before = [nothing] * place
            blocks += [
                [left * (arms == arm), *(left @ one for one in before), left - entered],
                [-every, *before, every],
            ]
            low += [begins, np.full(m, -np.inf)]
            high += [begins, np.zeros(m)]
        width = 1 + forced.size
        rows = [[*row, *[None] * (width - len(row))] for row in blocks]
        matrix = sparse.block_array(rows, format="csr")
        weights = np.append(-costs[arcs], np.zeros(m * forced.size))
        free = np.zeros(weights.size, np.int8)
        chosen = best_subset(weights, free, matrix, np.concatenate(low), np.concatenate(high), whole=m)
        if chosen is None:
            return None
        # Beside the route there may be cycles that cost nothing.
        onward = dict(zip(tails[chosen].tolist(), chosen.tolist(), strict=True))
        route, node = [], self._source
        while node != self._target:
            route.append(onward[node])
            node = int(heads[route[-1]])
        return np.sort(arms[route])

    def listed(self) -> list[tuple[int, ...]] | None:
        """Return all routes, or None if they are too many, or too hard to find."""
        leaving: list[list[tuple[int, int]]] = [[] for _ in range(self.n_nodes)]
        for arc in np.flatnonzero(self._used).tolist():
            leaving[self._tails[arc]].append((int(self._arm_of[arc]), int(self._heads[arc])))
        found: list[tuple[int, ...]] = []
        arms: list[int] = []
        visited = {self._source}
        nodes = [self._source]
        branches = [iter(leaving[self._source])]
        for _ in range(_STEPS):
            arm, head = next(branches[-1], (-1, -1))
            if arm < 0:
                branches.pop()
                if not branches:
                    return found
                visited.discard(nodes.pop())
                arms.pop()
            elif head == self._target:
                found.append(tuple(sorted([*arms, arm])))
                if len(found) > LISTED:
                    return None
            elif head not in visited:
                visited.add(head)
                nodes.append(head)
                arms.append(arm)
                branches.append(iter(leaving[head]))
        return None
