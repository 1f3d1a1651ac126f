"""Matchings: pairs of a left and a right node, each node in at most one pair."""

from __future__ import annotations

from collections.abc import Sequence
from math import comb, factorial
from typing import Any, Self

import numpy as np
from numpy.typing import ArrayLike, NDArray

from armtriage._arguments import LARGEST, as_array, as_numbers, check_count, check_pairs, check_per_arm
from armtriage.arms import Name
from armtriage.decisions.compiled import CompiledOracle, collect
from armtriage.decisions.sets import LISTED, DecisionSet, Marks, as_names, frozen, named_in, written
from armtriage.kernels.assignment import assign
from armtriage.kernels.jit import kernel
from armtriage.kernels.record import Floats, Ints, Record

_CELLS = 10**8
"""The largest matrix of costs, which is dense."""


@kernel
def write_costs(
    weights: Floats, marks: Marks, rows: Ints, columns: Ints, shape: tuple[int, int], costs: Floats
) -> None:
    """Write the matrix whose cheapest assignment is the best decision, with dummies that take the rest.

    With d rows too many, d columns of cost 0 follow, and a row for each column that then is too many.
    """
    costs[:] = np.inf
    costs[: shape[0], shape[1] :] = 0.0
    costs[shape[0] :, : shape[1]] = 0.0
    for a in range(weights.size):
        if marks[a] >= 0:
            costs[rows[a], columns[a]] = -weights[a]
    for a in range(weights.size):
        if marks[a] == 1:
            row, column = rows[a], columns[a]
            cost = costs[row, column]
            costs[row] = np.inf
            costs[:, column] = np.inf
            costs[row, column] = cost


@kernel
def heaviest_pairs(
    weights: Floats,
    marks: Marks,
    rows: Ints,
    columns: Ints,
    shape: tuple[int, int],
    costs: Floats,
    matched: Ints,
    chosen: NDArray[np.bool_],
) -> bool:
    """Mark the arms of the best decision; False if there is none."""
    write_costs(weights, marks, rows, columns, shape, costs)
    if not assign(costs, matched):
        return False
    for a in range(weights.size):
        chosen[a] = matched[rows[a]] == columns[a]
    return True


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
def best_matching(oracle: Assignments, weights: Floats, arms: Ints) -> int:
    """Write the pairs of the best matching."""
    shape = (oracle.n_rows, oracle.n_columns)
    heaviest_pairs(
        weights, oracle.marks, oracle.rows, oracle.columns, shape, oracle.costs, oracle.matched, oracle.chosen
    )
    return collect(oracle.chosen, arms)


class Matchings(DecisionSet):
    """Assignments of left nodes to right nodes: `size` pairs, no node in two of them; the arms are the pairs.

    Parameters
    ----------
    left, right : int or sequence of names
        How many nodes there are on each side, or what they are called: then pairs of names are the names of the arms.
    edges : array_like of shape (m, 2), or of bool and shape (left, right), optional
        The pairs (left node, right node) that are allowed; edge number a is arm a. By default all are, and arm
        ``i * right + j`` is the pair (i, j). A matrix is True where a pair is allowed, and its arms go row by row.
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

    Where one number belongs to each pair, a matrix may be given:

    >>> jobs.maximise([[0.9, 0.8, 0.1], [0.7, 0.1, 0.2]])
    array([1, 3])
    >>> shifts = Matchings(["Ann", "Bob"], ["early", "late"])
    >>> shifts.names[2], shifts.matrix([5, 6, 7, 8])
    (('Bob', 'early'), array([[5., 6.],
           [7., 8.]]))
    """

    def __init__(
        self,
        left: int | Sequence[Name],
        right: int | Sequence[Name],
        edges: ArrayLike | None = None,
        size: int | None = None,
    ) -> None:
        self.left, self._left_names = _side("left", left)
        self.right, self._right_names = _side("right", right)
        cells = self.left * self.right
        if cells > _CELLS:
            raise ValueError(f"left times right must be at most {_CELLS}, got {cells}")
        every = np.column_stack(np.divmod(np.arange(cells), self.right))
        self.edges = frozen(every if edges is None else check_pairs(self._pairs(edges), self.left, self.right))
        self._complete = np.array_equal(self.edges, every)
        # The rows of the cost matrix are the smaller side.
        turned = self.left > self.right
        self._rows, self._columns = np.ascontiguousarray(self.edges.T[::-1] if turned else self.edges.T)
        self._shape = (self.right, self.left) if turned else (self.left, self.right)
        allowed = np.zeros(self._shape)
        allowed[self._rows, self._columns] = 1.0
        if allowed.sum() < len(self.edges):
            found, counts = np.unique(self.edges, axis=0, return_counts=True)
            raise ValueError(f"edges must name each pair once, got {tuple(found[counts > 1][0].tolist())} again")
        most = self._shape[0]
        if not self._complete:
            matched = np.empty(most, np.int64)
            assign(-allowed, matched)
            most = int(allowed[np.arange(most), matched].sum())
        if size is not None and check_count("size", size, 1) > most:
            raise ValueError(f"size must be at most {most}, the largest matching of edges, got {size}")
        super().__init__(len(self.edges), most if size is None else int(size))

    def _pairs(self, edges: Any) -> Any:
        """Return the pairs of a matrix of bool, or of names; others as they are."""
        try:
            allowed = np.asarray(edges)
        except ValueError:  # names of different shapes
            allowed = np.empty(0)
        if allowed.dtype == np.bool_:
            if allowed.shape != (self.left, self.right):
                raise ValueError(f"edges must have shape ({self.left}, {self.right}) as a matrix, got {allowed.shape}")
            return np.argwhere(allowed)
        if self._left_names is None and self._right_names is None:
            return edges
        sides = [
            range(count) if names is None else names
            for count, names in ((self.left, self._left_names), (self.right, self._right_names))
        ]
        places = [{name: place for place, name in enumerate(names)} for names in sides]
        try:
            return [(places[0][first], places[1][second]) for first, second in edges]
        except (KeyError, TypeError, ValueError):
            raise ValueError(f"edges must be pairs of a name of left and one of right, got {edges!r:.100}") from None

    @property
    def names(self) -> list[Name] | None:
        """What the arms are called: pairs of a left and a right node; None if neither side has names."""
        if self._left_names is None and self._right_names is None:
            return None
        left = self._left_names or range(self.left)
        right = self._right_names or range(self.right)
        return [(left[i], right[j]) for i, j in self.edges.tolist()]

    def matrix(self, values: ArrayLike, missing: float = np.nan) -> Floats:
        """Return numbers of the arms as a matrix with a row for each left and a column for each right node.

        Pairs that are not allowed have the number `missing`; `by_arm` is the way back.

        Examples
        --------
        >>> Matchings(2, 2, [(0, 0), (1, 1), (1, 0)]).matrix([1, 2, 3], missing=0)
        array([[1., 0.],
               [3., 2.]])
        """
        table = np.full((self.left, self.right), missing, np.float64)
        table[self.edges[:, 0], self.edges[:, 1]] = check_per_arm("values", values, self.n_arms)
        return table

    def by_arm(self, matrix: ArrayLike) -> Floats:
        """Return the numbers of the arms, of a matrix with a row for each left and a column for each right node.

        Examples
        --------
        >>> Matchings(2, 2, [(0, 0), (1, 1), (1, 0)]).by_arm([[1, 9], [3, 2]])
        array([1., 2., 3.])
        """
        table = as_numbers("matrix", matrix)
        if table.shape != (self.left, self.right):
            raise ValueError(f"matrix must have shape ({self.left}, {self.right}), got {table.shape}")
        return np.asarray(table[self.edges[:, 0], self.edges[:, 1]], np.float64)

    def _check_weights(self, weights: ArrayLike) -> Floats:
        given = as_array("weights", weights)
        return super()._check_weights(self.by_arm(given) if given.shape == (self.left, self.right) else given)

    def _space(self) -> tuple[Floats, Ints]:
        """Return room for a matrix of costs, and for the column of each of its rows."""
        rows, columns = self._shape
        idle = rows - self.size
        costs = np.empty((rows + columns - self.size if idle else rows, columns + idle))
        return costs, np.empty(len(costs), np.int64)

    def _maximise(self, weights: Floats, marks: Marks) -> Ints | None:
        chosen = np.empty(self.n_arms, np.bool_)
        if not heaviest_pairs(weights, marks, self._rows, self._columns, self._shape, *self._space(), chosen):
            return None
        return np.flatnonzero(chosen)

    def _exchange(self, weights: Floats, marks: Marks) -> tuple[Floats, Floats]:
        """Return all values from the cheapest cycles of exchanges.

        A row that takes another's column sends that row to look for one, and so on until the first row's column is
        taken: the best decision with an arm differs by one such cycle. All dummy rows cost the same, so they are one
        node, the last.
        """
        costs, matched = self._space()
        write_costs(weights, marks, self._rows, self._columns, self._shape, costs)
        if not assign(costs, matched):
            return np.full(self.n_arms, -np.inf), np.full(self.n_arms, -np.inf)
        rows, columns = self._shape
        own = matched[:rows]
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
        own: dict[str, Any] = {"left": self.left, "right": self.right, "size": self.size}
        if not self._complete:
            own["edges"] = self.edges
        for side, names in (("left_names", self._left_names), ("right_names", self._right_names)):
            if names is not None:
                own[side] = written(names)
        return own

    @classmethod
    def _of(cls, arguments: dict[str, Any]) -> Self:
        rest = {name: value for name, value in arguments.items() if name not in ("left_names", "right_names")}
        made = cls(**rest)
        if "left_names" in arguments:
            made._left_names = named_in(arguments["left_names"], made.left)
        if "right_names" in arguments:
            made._right_names = named_in(arguments["right_names"], made.right)
        return made

    def _compiled(self, offset: float) -> CompiledOracle:
        marks, chosen = np.zeros(self.n_arms, np.int8), np.zeros(self.n_arms, np.bool_)
        own = self._rows, self._columns, *self._space(), chosen
        return CompiledOracle(Assignments(marks, *own, *self._shape, offset), best_matching)

    def __repr__(self) -> str:
        if self._left_names is None and self._right_names is None:
            return super().__repr__()
        return f"Matchings({self.left} x {self.right} with names, {self.n_arms} pairs, size={self.size})"


def _side(argument: str, nodes: int | Sequence[Name]) -> tuple[int, list[Name] | None]:
    """Return the number of nodes on a side, and their names."""
    if isinstance(nodes, list | tuple):
        return check_count(f"the number of names in {argument}", len(nodes), 1), as_names(argument, nodes)
    return check_count(argument, nodes, 1, LARGEST), None  # type: ignore[arg-type]
