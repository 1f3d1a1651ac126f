"""Matchings: pairs of a left and a right node, each node in at most one pair."""

from __future__ import annotations

from math import comb, factorial
from typing import Any

import numpy as np
from numpy.typing import ArrayLike

from armtriage._arguments import LARGEST, check_count, check_pairs
from armtriage.decisions.sets import LISTED, DecisionSet, Floats, Ints, Marks, frozen
from armtriage.kernels.jit import kernel

__all__ = ["Matchings"]

_CELLS = 10**8
"""The largest matrix of costs, which is dense."""


@kernel
def _shortest(costs: Floats) -> tuple[Floats, Floats]:
    """Return potentials that make all costs at least 0, and with them the distances between all nodes.

    No cycle is negative but by rounding, so as many passes as there are nodes are enough, and what rounding leaves
    below 0 is raised to it: sums of such costs stay harmless, which those of the given costs would not.
    """
    n = len(costs)
    potential = np.zeros(n)
    moved = True
    passes = 0
    while moved and passes < n:
        moved = False
        passes += 1
        for i in range(n):
            for k in range(n):
                if potential[i] + costs[i, k] < potential[k]:
                    potential[k] = potential[i] + costs[i, k]
                    moved = True
    distance = np.empty((n, n))
    for i in range(n):
        for k in range(n):
            distance[i, k] = max(0.0, costs[i, k] + potential[i] - potential[k])
        distance[i, i] = 0.0
    for via in range(n):
        for i in range(n):
            first = distance[i, via]
            if first < np.inf:
                for k in range(n):
                    distance[i, k] = min(distance[i, k], first + distance[via, k])
    return potential, distance


class Matchings(DecisionSet):
    """Assignments of left nodes to right nodes: `size` pairs, no node in two of them; the arms are the pairs.

    Parameters
    ----------
    left, right : int
        How many nodes there are on each side.
    edges : array_like of shape (m, 2), optional
        The pairs (left node, right node) that are allowed; edge number a is arm a. By default all are, and arm
        ``i * right + j`` is the pair (i, j).
    size : int, optional
        How many pairs a decision has; by default as many as possible.

    Examples
    --------
    >>> jobs = Matchings(2, 3)
    >>> best = jobs.maximise([0.9, 0.8, 0.1, 0.7, 0.1, 0.2])
    >>> best, jobs.edges[best].tolist()
    (array([1, 3]), [[0, 1], [1, 0]])
    >>> jobs.count()
    6
    """

    def __init__(self, left: int, right: int, edges: ArrayLike | None = None, size: int | None = None) -> None:
        self.left = check_count("left", left, 1, LARGEST)
        self.right = check_count("right", right, 1, LARGEST)
        cells = self.left * self.right
        if cells > _CELLS:
            raise ValueError(f"left times right must be at most {_CELLS}, got {cells}")
        every = np.column_stack(np.divmod(np.arange(cells), self.right))
        self.edges = frozen(every) if edges is None else frozen(check_pairs(edges, self.left, self.right))
        self._complete = np.array_equal(self.edges, every)
        # The rows of the cost matrix are the smaller side.
        turned = self.left > self.right
        self._rows, self._columns = self.edges.T[::-1] if turned else self.edges.T
        self._shape = (self.right, self.left) if turned else (self.left, self.right)
        allowed = np.zeros(self._shape)
        allowed[self._rows, self._columns] = 1.0
        if allowed.sum() < len(self.edges):
            found, counts = np.unique(self.edges, axis=0, return_counts=True)
            raise ValueError(f"edges must name each pair once, got {tuple(found[counts > 1][0].tolist())} again")
        most = int(allowed[_assign(-allowed)].sum())
        if size is not None and check_count("size", size, 1) > most:
            raise ValueError(f"size must be at most {most}, the largest matching of edges, got {size}")
        super().__init__(len(self.edges), most if size is None else int(size))

    def _costs(self, weights: Floats, marks: Marks) -> Floats:
        """Return the matrix whose cheapest assignment is the best decision, with dummies that take the rest.

        With d rows too many, d columns of cost 0 follow, and a row for each column that then is too many.
        """
        rows, columns = self._shape
        idle = rows - self.size
        costs = np.full((rows + columns - self.size if idle else rows, columns + idle), np.inf)
        free = marks >= 0
        costs[self._rows[free], self._columns[free]] = -weights[free]
        costs[:rows, columns:] = 0.0
        costs[rows:, :columns] = 0.0
        for arm in np.flatnonzero(marks == 1):
            row, column = self._rows[arm], self._columns[arm]
            cost = costs[row, column]
            costs[row] = np.inf
            costs[:, column] = np.inf
            costs[row, column] = cost
        return costs

    def _maximise(self, weights: Floats, marks: Marks) -> Ints | None:
        pairs = _assign(self._costs(weights, marks))
        if pairs is None:
            return None
        matched = np.full(self._shape[0], -1)
        real = pairs[0] < self._shape[0]
        matched[pairs[0][real]] = pairs[1][real]
        return np.flatnonzero(matched[self._rows] == self._columns)

    def _exchange(self, weights: Floats, marks: Marks) -> tuple[Floats, Floats]:
        """Return all values from the cheapest cycles of exchanges.

        A row that takes another's column sends that row to look for one, and so on until the first row's column is
        taken: the best decision with an arm differs by one such cycle. All dummy rows cost the same, so they are one
        node, the last.
        """
        costs = self._costs(weights, marks)
        pairs = _assign(costs)
        if pairs is None:
            return np.full(self.n_arms, -np.inf), np.full(self.n_arms, -np.inf)
        rows, columns = self._shape
        own = pairs[1][:rows]
        holder = np.full(costs.shape[1], rows)
        holder[own] = np.arange(rows)
        extra = costs[:rows] - costs[np.arange(rows), own][:, None]
        moves = np.full((rows + 1, rows + 1), np.inf)
        moves[:rows, :rows] = extra[:, own]
        moves[:rows, rows] = extra[:, holder == rows].min(axis=1, initial=np.inf)
        if columns > self.size:
            forced = self._rows[marks == 1]
            moves[rows, :rows] = np.where((own < columns) & ~np.isin(np.arange(rows), forced), 0.0, np.inf)
        potential, distance = _shortest(moves)
        to = holder[self._columns]
        first = extra[self._rows, self._columns] + potential[self._rows] - potential[to]
        matched = to == self._rows
        cycles = np.maximum(first, 0.0) + distance[to, self._rows]
        best = weights[matched].sum()
        moves = np.maximum(moves + potential[:, None] - potential, 0.0) + distance.T
        np.fill_diagonal(moves, np.inf)
        return best - np.where(matched, 0.0, cycles), best - np.where(matched, moves.min(axis=1)[self._rows], 0.0)

    def count(self) -> int | None:
        """Return the exact number of matchings; None if `edges` leaves too many to list."""
        if not self._complete:
            return super().count()
        return comb(self.left, self.size) * comb(self.right, self.size) * factorial(self.size)

    def _list(self) -> list[tuple[int, ...]] | None:
        """Return all matchings, or None if at some row too many choices of the rows before it look possible."""
        rows = self._shape[0]
        choices: list[list[tuple[int, int]]] = [[] for _ in range(rows)]
        for arm, (row, column) in enumerate(zip(self._rows.tolist(), self._columns.tolist(), strict=True)):
            choices[row].append((arm, 1 << column))
        partial: list[tuple[tuple[int, ...], int]] = [((), 0)]
        for row, pairs in enumerate(choices):
            idle = [(arms, taken) for arms, taken in partial if len(arms) + rows - row > self.size]
            open_ = [one for one in partial if len(one[0]) < self.size]
            partial = idle + [((*arms, a), taken | bit) for arms, taken in open_ for a, bit in pairs if not taken & bit]
            if len(partial) > LISTED:
                return None
        return [tuple(sorted(arms)) for arms, _ in partial]

    def _arguments(self) -> dict[str, Any]:
        sides = {"left": self.left, "right": self.right, "size": self.size}
        return sides if self._complete else sides | {"edges": self.edges}


def _assign(costs: Floats) -> tuple[Ints, Ints] | None:
    from scipy.optimize import linear_sum_assignment

    try:
        rows, columns = linear_sum_assignment(costs)
    except ValueError:
        return None
    return rows, columns
