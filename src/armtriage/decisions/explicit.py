"""Explicit: a family that is written out, decision by decision."""

from __future__ import annotations

from collections.abc import Iterable, Iterator
from typing import Any, Self

import numpy as np
from numpy.typing import ArrayLike

from armtriage._arguments import LARGEST, check_count
from armtriage.decisions.compiled import CompiledOracle
from armtriage.decisions.sets import DecisionSet, Marks, frozen
from armtriage.kernels.jit import kernel
from armtriage.kernels.record import Floats, Ints, Record


@kernel
def _totals(weights: Floats, marks: Marks, arms: Ints, starts: Ints) -> Floats:
    """Return the total weight of each decision, -inf where it does not obey the marks."""
    required = 0
    for mark in marks:
        required += mark == 1
    totals = np.full(starts.size - 1, -np.inf)
    for d in range(starts.size - 1):
        total = 0.0
        met = 0
        for arm in arms[starts[d] : starts[d + 1]]:
            total += weights[arm] if marks[arm] >= 0 else -np.inf
            met += marks[arm] == 1
        if met == required:
            totals[d] = total
    return totals


@kernel
def _with_and_without(totals: Floats, arms: Ints, starts: Ints, best: int, inside: Floats, outside: Floats) -> None:
    """Write the largest total with each arm and, for the arms of the best decision, without it."""
    members = arms[starts[best] : starts[best + 1]]
    holder = np.full(inside.size, -1, np.int64)
    for d in range(totals.size):
        for arm in arms[starts[d] : starts[d + 1]]:
            inside[arm] = max(inside[arm], totals[d])
            holder[arm] = d
        for arm in members:
            if holder[arm] != d:
                outside[arm] = max(outside[arm], totals[d])


class Menus(Record):
    """What `best_menu` needs."""

    marks: Marks
    arms: Ints
    starts: Ints
    offset: float


@kernel
def best_menu(oracle: Menus, weights: Floats, arms: Ints) -> int:
    """Write the first of the heaviest decisions that are listed."""
    totals = _totals(weights, oracle.marks, oracle.arms, oracle.starts)
    best = np.argmax(totals)
    first, last = oracle.starts[best], oracle.starts[best + 1]
    arms[: last - first] = oracle.arms[first:last]
    return last - first  # type: ignore[no-any-return]


class Explicit(DecisionSet):
    """Decisions that are listed one by one, of equal or unequal sizes; a million are fine.

    They are kept in lexicographic order, each once. Ties go to the first.

    Parameters
    ----------
    decisions : iterable of lists of int, or ndarray of shape (m, size)
        The arms of each decision, in any order.
    n_arms : int, optional
        The number of arms; by default one more than the largest arm that occurs.

    Examples
    --------
    >>> menus = Explicit([[0, 1], [2], [1, 2, 3], [1, 0]])
    >>> menus
    Explicit(3 decisions, n_arms=4, size=3)
    >>> menus.maximise([0.5, 0.6, 0.9, -1.0])
    array([0, 1])
    """

    def __init__(self, decisions: Iterable[ArrayLike], n_arms: int | None = None) -> None:
        arms, lengths = _flatten(decisions)
        self._store(arms, lengths, n_arms)

    def _store(self, arms: Ints, lengths: Ints, n_arms: int | None) -> None:
        if not lengths.size or not arms.size:
            raise ValueError("decisions must hold at least one decision that has an arm, got none")
        if arms.min() < 0:
            raise ValueError(f"decisions must name arms from 0, got {arms.min()}")
        k = int(arms.max()) + 1 if n_arms is None else check_count("n_arms", n_arms, 1, LARGEST)
        if arms.max() >= k:
            raise ValueError(f"decisions must name arms in 0..{k - 1}, as n_arms has it, got {arms.max()}")
        super().__init__(k, int(lengths.max()))
        self._arms, self._starts = _canonical(arms, lengths)

    def _members(self, decision: int) -> Ints:
        return self._arms[self._starts[decision] : self._starts[decision + 1]]

    def _maximise(self, weights: Floats, marks: Marks) -> Ints | None:
        totals = _totals(weights, marks, self._arms, self._starts)
        best = int(totals.argmax())
        return None if totals[best] == -np.inf else self._members(best).copy()

    def _exchange(self, weights: Floats, marks: Marks) -> tuple[Floats, Floats]:
        totals = _totals(weights, marks, self._arms, self._starts)
        best = int(totals.argmax())
        inside, outside = np.full(self.n_arms, -np.inf), np.full(self.n_arms, totals[best])
        outside[self._members(best)] = -np.inf
        _with_and_without(totals, self._arms, self._starts, best, inside, outside)
        return inside, outside

    def count(self) -> int:
        """Return the number of different decisions."""
        return self._starts.size - 1

    def __iter__(self) -> Iterator[Ints]:
        return (self._members(decision).copy() for decision in range(self.count()))

    def _arguments(self) -> dict[str, Any]:
        return {"arms": self._arms, "lengths": np.diff(self._starts), "n_arms": self.n_arms}

    @classmethod
    def _of(cls, arguments: dict[str, Any]) -> Self:
        if arguments.keys() != {"arms", "lengths", "n_arms"}:
            raise ValueError(f"the keys must be arms, lengths and n_arms, got {', '.join(arguments)}")
        arms, lengths = arguments["arms"], arguments["lengths"]
        for name, part in (("arms", arms), ("lengths", lengths)):
            if np.ndim(part) != 1 or part.dtype.kind not in "iu":
                raise ValueError(f"{name} must be a 1-D array of whole numbers, got {part!r}")
        if (lengths < 0).any() or lengths.sum() != arms.size:
            raise ValueError(f"lengths must be from 0 and sum to the {arms.size} arms, got a sum of {lengths.sum()}")
        made = cls.__new__(cls)
        made._store(arms.astype(np.int64), lengths.astype(np.int64), arguments["n_arms"])
        return made

    def _compiled(self, offset: float) -> CompiledOracle:
        return CompiledOracle(Menus(np.zeros(self.n_arms, np.int8), self._arms, self._starts, offset), best_menu)

    def __repr__(self) -> str:
        return f"Explicit({self.count()} decisions, n_arms={self.n_arms}, size={self.size})"


def _flatten(decisions: Iterable[ArrayLike]) -> tuple[Ints, Ints]:
    """Return the arms of all decisions, one after another, and how many each has."""
    if isinstance(decisions, np.ndarray) and decisions.ndim == 2 and decisions.dtype.kind in "iu":
        return decisions.astype(np.int64).ravel(), np.full(len(decisions), decisions.shape[1])
    if isinstance(decisions, str) or not isinstance(decisions, Iterable):
        raise TypeError(f"decisions must be lists of arms, got {decisions!r}")
    rows = []
    for number, decision in enumerate(decisions):
        row = np.asarray(decision)
        if row.ndim != 1 or (row.size and row.dtype.kind not in "iu"):
            raise TypeError(f"decisions must be lists of whole numbers, got {decision!r} as number {number}")
        rows.append(row.astype(np.int64))
    lengths = np.array([row.size for row in rows], np.int64)
    return np.concatenate([np.empty(0, np.int64), *rows]), lengths


def _canonical(arms: Ints, lengths: Ints) -> tuple[Ints, Ints]:
    """Return the decisions in lexicographic order, each once: all arms, and where each decision begins."""
    row = np.repeat(np.arange(lengths.size), lengths)
    order = np.lexsort((arms, row))
    arms = arms[order]
    twice = np.flatnonzero((arms[1:] == arms[:-1]) & (row[1:] == row[:-1]))
    if twice.size:
        raise ValueError(f"decisions must name each arm once, got arm {arms[twice[0]]} twice in one")
    place = np.arange(arms.size) - np.repeat(np.cumsum(lengths) - lengths, lengths)
    # A missing arm counts as -1, so that a decision comes before those that continue it.
    table = np.full((lengths.size, int(lengths.max())), -1, np.int32)
    table[row, place] = arms
    table = table[np.lexsort(table.T[::-1])]
    table = table[np.append(True, (table[1:] != table[:-1]).any(axis=1))]
    filled = table >= 0
    return frozen(table[filled].astype(np.int64)), frozen(np.append(0, np.cumsum(filled.sum(axis=1))))
