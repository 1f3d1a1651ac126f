"""Constraints on which arms are in a decision: any linear ones, by integer programming, or a capacity."""

from __future__ import annotations

from typing import Any, Self

import numpy as np
from numpy.typing import ArrayLike, NDArray

from armtriage._arguments import as_array, as_matrix, check_each, check_number
from armtriage.decisions.compiled import CompiledOracle, collect
from armtriage.decisions.sets import LISTED, DecisionSet, Marks, frozen
from armtriage.kernels.jit import kernel
from armtriage.kernels.programme import FOUND, GAVE_UP, best_binary
from armtriage.kernels.record import Floats, Ints, Record

_SLACK = 1e-6
"""By how much of its largest coefficient a constraint may be missed: the solver works with such a tolerance."""

_DENSE = 200_000
"""The largest matrix that is kept with its zeros, for branch and bound: a pivot then takes some 0.1 ms."""
_WORK = 10**9
"""Multiplications, below a second, after which branch and bound on linear constraints leaves the question to HiGHS."""
_CELLS = 2_000_000
"""The most cells of a table for dynamic programming: some milliseconds, and 16 megabytes."""
_NODES = 300_000
"""After so many nodes, some milliseconds, branch and bound leaves the question to HiGHS."""
_EXACT = 1e-9
"""By how much of the largest weight branch and bound lets a sum be above the capacity, for rounding's sake."""


def best_subset(
    weights: Floats, marks: Marks, matrix: Any, lower: Floats, upper: Floats, whole: int | None = None
) -> Ints | None:
    """Return the arms of largest total weight that obey the marks and ``lower <= matrix @ x <= upper``, if any do.

    The largest coefficient of a row should be near 1: tolerances of the solver are absolute. Only the first `whole`
    are arms, if it is given, and the others numbers from 0 to 1.
    """
    from scipy.optimize import Bounds, LinearConstraint, milp

    # The solver stops at a gap of 1e-6, which is made small beside the weights.
    unit = 20 - int(np.frexp(np.abs(weights).max())[1])
    answer = milp(
        -np.ldexp(weights, unit),
        integrality=(np.arange(weights.size) < (whole or weights.size)).astype(np.int64),
        bounds=Bounds((marks == 1).astype(np.float64), (marks >= 0).astype(np.float64)),
        constraints=LinearConstraint(matrix, lower, upper),
        # Presolve takes longer than it saves on the few rows of a decision set: 1.2 to 1.8 times the time with it.
        options={"mip_rel_gap": 0.0, "presolve": whole is not None},
    )
    if answer.status == 2:
        return None
    if answer.status != 0:
        raise RuntimeError(f"the solver gave up on {len(lower)} constraints on {weights.size} arms: {answer.message}")
    return np.flatnonzero(answer.x[:whole] > 0.5)


class Constraints(DecisionSet):
    """The sets of arms that satisfy linear constraints: ``lower <= matrix @ x <= upper`` for x in {0, 1}^K.

    The oracle is branch and bound in compiled code, and HiGHS through SciPy where that takes long. Both prove that
    their answer is the best; a question takes milliseconds on most families and any time on hard ones. A constraint
    holds to within a millionth of its largest coefficient.

    Parameters
    ----------
    matrix : array_like or SciPy sparse, of shape (m, K)
        A row of coefficients for each constraint, a column for each arm.
    lower, upper : float or array_like of shape (m,)
        What each row's sum must lie between; ``-inf`` and ``inf`` for no limit.

    Examples
    --------
    >>> teams = Constraints([[1, 1, 1, 1], [1, 1, 0, 0]], lower=[2, 0], upper=[2, 1])
    >>> teams.maximise([0.9, 0.8, 0.3, 0.4])
    array([0, 3])
    >>> teams.count()
    5
    """

    def __init__(self, matrix: Any, lower: ArrayLike, upper: ArrayLike) -> None:
        from scipy import sparse

        table = as_matrix("matrix", matrix)
        if table.ndim != 2 or 0 in table.shape:
            raise ValueError(f"matrix must have shape (m, K) with m and K from 1, got {table.shape}")
        rows: Any = sparse.csr_array(table.astype(np.float64))
        rows.sum_duplicates()
        if not np.isfinite(rows.data).all():
            raise ValueError(f"matrix must be finite, got {rows.data[~np.isfinite(rows.data)][0]}")
        self._matrix = rows
        self.lower = _check_limit("lower", lower, rows.shape[0])
        self.upper = _check_limit("upper", upper, rows.shape[0])
        wrong = np.flatnonzero(~(self.lower <= self.upper))
        if wrong.size:
            shown = f"{self.lower[wrong[0]]} and {self.upper[wrong[0]]} for row {wrong[0]}"
            raise ValueError(f"lower must be at most upper, got {shown}")
        scale = abs(rows).max(axis=1).toarray().ravel()
        scale[scale == 0.0] = 1.0
        self._scaled = sparse.csr_array(rows.multiply(1.0 / scale[:, None]))
        self._low, self._high = self.lower / scale, self.upper / scale
        self._dense = self._scaled.toarray() if rows.shape[0] * rows.shape[1] <= _DENSE else None
        self.n_arms = rows.shape[1]
        largest = self._maximise(np.ones(self.n_arms), np.zeros(self.n_arms, np.int8))
        if largest is None or not largest.size:
            kind = "no decision" if largest is None else "no decision but the empty one"
            raise ValueError(f"lower and upper must allow a decision that has an arm, got {kind}")
        super().__init__(self.n_arms, largest.size)

    def _maximise(self, weights: Floats, marks: Marks) -> Ints | None:
        if self._dense is not None:
            unit = np.ldexp(weights, -int(np.frexp(np.abs(weights).max())[1]))
            low, high = (marks == 1).astype(np.float64), (marks >= 0).astype(np.float64)
            status, chosen = best_binary(unit, low, high, self._dense, self._low, self._high, _WORK)
            if status != GAVE_UP:
                return np.flatnonzero(chosen) if status == FOUND else None
        return best_subset(weights, marks, self._scaled, self._low, self._high)

    def _allows(self, marks: Marks) -> bool:
        sums = self._scaled @ (marks == 1).astype(np.float64)
        return bool(((sums >= self._low - _SLACK) & (sums <= self._high + _SLACK)).all())

    def _list(self) -> list[tuple[int, ...]] | None:
        """Return all decisions, or None if at some arm too many choices of the arms before it look possible."""
        columns = self._scaled.toarray().T
        least, most = np.minimum(columns, 0.0).sum(axis=0), np.maximum(columns, 0.0).sum(axis=0)
        chosen = np.zeros((1, self.n_arms), np.bool_)
        sums = np.zeros((1, len(self._low)))
        for arm, column in enumerate(columns):
            with_arm = chosen.copy()
            with_arm[:, arm] = True
            chosen, sums = np.concatenate([chosen, with_arm]), np.concatenate([sums, sums + column])
            least, most = least - np.minimum(column, 0.0), most - np.maximum(column, 0.0)
            kept = ((sums + least <= self._high + _SLACK) & (sums + most >= self._low - _SLACK)).all(axis=1)
            chosen, sums = chosen[kept], sums[kept]
            if len(chosen) > LISTED:
                return None
        return [tuple(np.flatnonzero(one).tolist()) for one in chosen]

    def _arguments(self) -> dict[str, Any]:
        rows = self._matrix
        parts = {"data": rows.data, "indices": rows.indices, "indptr": rows.indptr, "n_arms": self.n_arms}
        return parts | {"lower": self.lower, "upper": self.upper}

    @classmethod
    def _of(cls, arguments: dict[str, Any]) -> Self:
        from scipy.sparse import csr_array

        names = ("data", "indices", "indptr", "n_arms", "lower", "upper")
        if arguments.keys() != set(names):
            raise ValueError(f"the keys must be {', '.join(names)}, got {', '.join(arguments)}")
        data, indices, indptr, n_arms, lower, upper = (arguments[name] for name in names)
        matrix = csr_array((data, indices, indptr), shape=(len(indptr) - 1, n_arms))
        matrix.check_format()
        return cls(matrix, lower, upper)

    def __repr__(self) -> str:
        return f"Constraints({len(self.lower)} on {self.n_arms} arms)"


@kernel
def _fill(weights: Floats, marks: Marks, loads: Ints, room: int, chosen: NDArray[np.bool_]) -> bool:
    """Choose the best arms by dynamic programming over the room that is left; False if those required do not fit."""
    n = loads.size
    for a in range(n):
        if marks[a] == 1:
            room -= loads[a]
            chosen[a] = True
    if room < 0:
        return False
    best = np.zeros(room + 1)
    taken = np.zeros((n, room + 1), np.uint8)
    for a in range(n):
        if marks[a] == 0 and weights[a] > 0.0:
            load = loads[a]
            for c in range(room, load - 1, -1):
                if best[c - load] + weights[a] > best[c]:
                    best[c] = best[c - load] + weights[a]
                    taken[a, c] = 1
    for a in range(n - 1, -1, -1):
        if taken[a, room] == 1:
            chosen[a] = True
            room -= loads[a]
    return True


@kernel
def _tables(weights: Floats, marks: Marks, loads: Ints, room: int, back: bool) -> Floats:
    """Return the best value of the first (or last) arms for each number of them and each room; no mark is required."""
    n = loads.size
    table = np.zeros((n + 1, room + 1))
    for i in range(n):
        a = n - 1 - i if back else i
        for c in range(room + 1):
            table[i + 1, c] = table[i, c]
            if marks[a] == 0 and weights[a] > 0.0 and c >= loads[a]:
                table[i + 1, c] = max(table[i, c], table[i, c - loads[a]] + weights[a])
    return table


@kernel
def _with_and_without(weights: Floats, marks: Marks, loads: Ints, room: int, inside: Floats, outside: Floats) -> None:
    """Write the best values with each arm and without it, of those that may be chosen freely."""
    n = loads.size
    before, after = _tables(weights, marks, loads, room, False), _tables(weights, marks, loads, room, True)
    for a in range(n):
        if marks[a] != 0:
            continue
        without, rest = -np.inf, -np.inf
        for c in range(room + 1):
            without = max(without, before[a, c] + after[n - 1 - a, room - c])
            if c + loads[a] <= room:
                rest = max(rest, before[a, c] + after[n - 1 - a, room - loads[a] - c])
        inside[a], outside[a] = rest + weights[a], without


@kernel
def _hold(values: Floats, loads: Floats, i: int, room: float) -> float:
    """Return the most that the items from i on could be worth, if the last to fit could be cut."""
    total = 0.0
    for j in range(i, loads.size):
        if loads[j] > room:
            return total + values[j] * room / loads[j]  # type: ignore[no-any-return]
        room -= loads[j]
        total += values[j]
    return total


@kernel
def _branch(values: Floats, loads: Floats, room: float, slack: float, best: NDArray[np.bool_]) -> bool:
    """Choose the best items, in the order of value for load, by branch and bound; False if that takes too long."""
    n = loads.size
    taken = np.zeros(n, np.bool_)
    value, most, i = 0.0, -1.0, 0
    for _ in range(_NODES):
        if i == n or value + _hold(values, loads, i, room + slack) <= most:
            if i == n and value > most:
                most = value
                best[:] = taken
            i -= 1
            while i >= 0 and not taken[i]:
                i -= 1
            if i < 0:
                return True
            taken[i] = False
            value -= values[i]
            room += loads[i]
        elif loads[i] <= room + slack:
            taken[i] = True
            value += values[i]
            room -= loads[i]
        i += 1
    return False


class Bags(Record):
    """What `best_bag` needs."""

    marks: Marks
    loads: Ints
    chosen: NDArray[np.bool_]
    room: int
    offset: float


@kernel
def best_bag(oracle: Bags, weights: Floats, arms: Ints) -> int:
    """Write the arms of the best bag."""
    oracle.chosen[:] = False
    _fill(weights, oracle.marks, oracle.loads, oracle.room, oracle.chosen)
    return collect(oracle.chosen, arms)


class Knapsack(Constraints):
    """The sets of arms, the empty one among them, whose weights sum to at most a capacity.

    The oracle is dynamic programming where weights are whole numbers, or all multiples of one, of moderate size, and
    else branch and bound, with HiGHS for questions on which that takes long.

    Parameters
    ----------
    weights : array_like
        What each arm takes of the capacity, from 0; not to be confused with the weights that `maximise` is given.
    capacity : float
        What a decision may take in all.

    Examples
    --------
    >>> bag = Knapsack([3.0, 4.0, 5.0], capacity=8.0)
    >>> bag.maximise([0.5, 0.6, 0.9])
    array([0, 2])
    >>> bag.count(), bag.size
    (6, 2)
    """

    def __init__(self, weights: ArrayLike, capacity: float) -> None:
        loads = as_array("weights", weights)
        if loads.dtype.kind not in "biuf" or loads.ndim != 1 or not loads.size:
            raise ValueError(f"weights must be a non-empty list of numbers, one for each arm, got {weights!r}")
        check_each("weights", loads, (loads >= 0) & (loads < np.inf), "be finite and from 0")
        self.weights = frozen(loads.astype(np.float64))
        self.capacity = check_number("capacity", capacity)
        if loads.min() > self.capacity:
            raise ValueError(f"capacity must be at least {loads.min()}, the smallest of weights, got {self.capacity}")
        self._whole, self._room = _in_whole(self.weights, self.capacity)
        super().__init__(self.weights[None], -np.inf, self.capacity)

    def _maximise(self, weights: Floats, marks: Marks) -> Ints | None:
        chosen = np.zeros(self.n_arms, np.bool_)
        if self._room >= 0:
            return np.flatnonzero(chosen) if _fill(weights, marks, self._whole, self._room, chosen) else None
        chosen[marks == 1] = True
        room, slack = self.capacity - float(self.weights[chosen].sum()), _EXACT * float(self.weights.max())
        if room < -slack:
            return None
        free = np.flatnonzero((marks == 0) & (weights > 0.0))
        with np.errstate(divide="ignore"):
            free = free[np.argsort(-weights[free] / self.weights[free], kind="stable")]
        best = np.zeros(free.size, np.bool_)
        if not _branch(weights[free], self.weights[free], room, slack, best):
            return best_subset(weights, marks, self._scaled, self._low, self._high)
        chosen[free[best]] = True
        return np.flatnonzero(chosen)

    def _exchange(self, weights: Floats, marks: Marks) -> tuple[Floats, Floats] | None:
        if self._room < 0:
            return None
        found = self._maximise(weights, marks)
        if found is None:
            return np.full(self.n_arms, -np.inf), np.full(self.n_arms, -np.inf)
        must, value = marks == 1, float(weights[found].sum())
        kept, room = float(weights[must].sum()), self._room - int(self._whole[must].sum())
        inside, outside = np.full((2, self.n_arms), value - kept)
        _with_and_without(weights, marks, self._whole, room, inside, outside)
        outside[must] = -np.inf
        return inside + kept, outside + kept

    def _arguments(self) -> dict[str, Any]:
        return {"weights": self.weights, "capacity": self.capacity}

    @classmethod
    def _of(cls, arguments: dict[str, Any]) -> Self:
        return cls(**arguments)

    def _compiled(self, offset: float) -> CompiledOracle | None:
        marks, chosen = np.zeros(self.n_arms, np.int8), np.zeros(self.n_arms, np.bool_)
        return (
            CompiledOracle(Bags(marks, self._whole, chosen, self._room, offset), best_bag) if self._room >= 0 else None
        )

    def __repr__(self) -> str:
        return DecisionSet.__repr__(self)


def _in_whole(loads: Floats, capacity: float) -> tuple[Ints, int]:
    """Return loads and room in whole numbers, as small as can be; a room of -1 if they are none, or too large."""
    none = np.zeros(loads.size, np.int64)
    if not (loads == np.floor(loads)).all() or min(capacity, loads.sum()) > _CELLS:
        return none, -1
    unit = max(int(np.gcd.reduce(loads[loads <= _CELLS].astype(np.int64))), 1)
    room = int(min(capacity, loads.sum()) // unit)
    whole = np.minimum(loads // unit, room + 1).astype(np.int64)
    return (whole, room) if loads.size * (room + 1) <= _CELLS else (none, -1)


def _check_limit(name: str, value: ArrayLike, rows: int) -> Floats:
    array = as_array(name, value)
    if array.dtype.kind not in "biuf":
        raise TypeError(f"{name} must be a number or a list of numbers, got {value!r}")
    if array.shape not in ((), (rows,)):
        raise ValueError(f"{name} must be a number or have shape ({rows},), got {array.shape}")
    if np.isnan(array).any():
        raise ValueError(f"{name} must hold no nan, got {value!r}")
    limits: Floats = frozen(np.broadcast_to(array.astype(np.float64), (rows,)))
    return limits
