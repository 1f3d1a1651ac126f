"""The best 0/1 vector under few linear constraints: branch and bound on one tableau of the dual simplex method.

With 0 <= x <= 1 for every variable, any basis is dual feasible once the others stand at the right ends. So the search
goes on from the tableau that it has, wherever it turns to: a branch moves ends, and a few pivots find the new bound.
With a hundred variables and twenty rows that mostly takes tens to hundreds of branches, of 10 to 20 microseconds each.
"""

from __future__ import annotations

import numpy as np
from numpy.typing import NDArray

from armtriage.kernels.jit import kernel
from armtriage.kernels.record import Floats, Ints, Record

FOUND, NONE, GAVE_UP = 1, 0, -1
_FEASIBLE = 1e-9  # by how much a row, whose largest coefficient is 1, or a variable may be off
_PIVOT = 1e-8  # the least coefficient to divide by
_WHOLE = 1e-7  # how near to 0 or 1 a variable counts as whole
_BESIDES = 8  # rows whose time a pivot takes for all but the rows
_BETTER = 1e-10  # what a vector must be better by to count as better
_FRESH = 200  # pivots after which the tableau is computed again, since errors add up
_DRIFT = 1e-7  # how far they may have gone until then


class Tableau(Record):
    """Rows ``basic = rows @ nonbasic``; variable j < n is x_j, and n + i is the sum of row i of the matrix."""

    matrix: Floats  # (m, n)
    rows: Floats  # (m, n)
    low: Floats  # (n + m,) ends of each variable
    high: Floats
    basic: Ints  # (m,)
    nonbasic: Ints  # (n,)
    at: Floats  # (n,) where these stand
    values: Floats  # (m,) of the basic ones
    gains: Floats  # (n,) of the objective for each nonbasic one
    weights: Floats  # (n,)
    pivots: int  # since the tableau was computed


@kernel
def _pivot(table: Tableau, row: int, column: int) -> None:
    """Exchange a basic and a nonbasic variable; values are not touched."""
    rows, gains = table.rows, table.gains
    inverse = 1.0 / rows[row, column]
    own = rows[row]
    for j in range(own.size):
        own[j] *= -inverse
    own[column] = inverse
    for i in range(rows.shape[0]):
        if i != row and rows[i, column] != 0.0:
            factor, other = rows[i, column], rows[i]
            other[column] = 0.0
            for j in range(own.size):
                other[j] += factor * own[j]
    factor = gains[column]
    gains[column] = 0.0
    for j in range(own.size):
        gains[j] += factor * own[j]
    table.basic[row], table.nonbasic[column] = table.nonbasic[column], table.basic[row]
    table.pivots += 1


@kernel
def _afresh(table: Tableau) -> bool:
    """Compute the tableau of the present basis from the matrix; False if it, or the old one, cannot be trusted."""
    m, n = table.rows.shape
    before = np.zeros(n + m)
    is_basic = np.zeros(n + m, np.bool_)
    for j in range(n):
        before[table.nonbasic[j]] = table.gains[j]
        table.nonbasic[j], table.gains[j] = j, table.weights[j]
    for i in range(m):
        is_basic[table.basic[i]] = True
        table.basic[i] = n + i
        for j in range(n):
            table.rows[i, j] = table.matrix[i, j]
    for j in range(n):
        if is_basic[j]:
            row, largest = -1, _PIVOT
            for i in range(m):
                if not is_basic[table.basic[i]] and abs(table.rows[i, j]) > largest:
                    row, largest = i, abs(table.rows[i, j])
            if row < 0:
                return False
            _pivot(table, row, j)
    table.pivots = 0
    for j in range(n):
        if not abs(table.gains[j] - before[table.nonbasic[j]]) <= _DRIFT:
            return False
    return True


@kernel
def _stand(table: Tableau) -> float:
    """Put every nonbasic variable at the end that its gain likes, and find the others; return the objective."""
    total = 0.0
    for j in range(table.at.size):
        k, gain = table.nonbasic[j], table.gains[j]
        upper = gain > 0.0 if gain != 0.0 else table.low[k] == -np.inf
        if (upper and table.high[k] == np.inf) or (not upper and table.low[k] == -np.inf):
            upper = not upper  # a gain that rounding alone has put on this side
        table.at[j] = table.high[k] if upper else table.low[k]
        total += gain * table.at[j]
    for i in range(table.values.size):
        own, value = table.rows[i], 0.0
        for j in range(own.size):
            value += own[j] * table.at[j]
        table.values[i] = value
    return total


@kernel
def _leaving(table: Tableau) -> tuple[int, float]:
    """Return the row that is furthest outside its ends, and by how much it has to move; -1 if none is."""
    row, most, move = -1, _FEASIBLE, 0.0
    for i in range(table.values.size):
        k, value = table.basic[i], table.values[i]
        if value - table.high[k] > most:
            row, most, move = i, value - table.high[k], table.high[k] - value
        elif table.low[k] - value > most:
            row, most, move = i, table.low[k] - value, table.low[k] - value
    return row, move


@kernel
def _entering(table: Tableau, row: int, move: float) -> int:
    """Return the nonbasic variable that can move the row at the least cost; -1 if none can."""
    own, column, least, steepest = table.rows[row], -1, np.inf, 0.0
    for j in range(own.size):
        k, slope = table.nonbasic[j], own[j]
        if abs(slope) <= _PIVOT or table.low[k] == table.high[k]:
            continue
        if (table.at[j] == table.low[k]) == (slope * move > 0.0):
            cost = abs(table.gains[j] / slope)
            if cost < least - 1e-12 or (cost <= least + 1e-12 and abs(slope) > steepest):
                column, least, steepest = j, min(cost, least), abs(slope)
    return column


@kernel
def _bound(table: Tableau, floor: float, most: int) -> tuple[float, int]:
    """Return the most that 0 <= x <= 1 allows, and the pivots that it took; -inf if nothing or less than `floor`.

    The second number is -1 if it takes too long, or numbers have gone astray.
    """
    if table.pivots > _FRESH and not _afresh(table):
        return 0.0, -1
    total, pivots = _stand(table), 0
    while total > floor:
        row, move = _leaving(table)
        if row < 0:
            return total, pivots
        column = _entering(table, row, move)
        if column < 0:  # coefficients too small to divide by may move it a little
            return -np.inf, pivots if abs(move) > _PIVOT * table.at.size else -1
        if pivots >= most:
            return 0.0, -1
        pivots += 1
        step = move / table.rows[row, column]
        at = table.at[column] + step
        total += table.gains[column] * step
        for i in range(table.values.size):
            table.values[i] += table.rows[i, column] * step
        _pivot(table, row, column)
        k = table.nonbasic[column]
        table.at[column] = table.high[k] if move < 0.0 else table.low[k]
        table.values[row] = at
    return -np.inf, pivots if total <= floor else -1


@kernel
def _read(table: Tableau, x: Floats) -> int:
    """Write the variables, and return the one that is furthest from being whole; -1 if all are."""
    for j in range(x.size):
        if table.nonbasic[j] < x.size:
            x[table.nonbasic[j]] = table.at[j]
    worst, most = -1, _WHOLE
    for i in range(table.values.size):
        k = table.basic[i]
        if k < x.size:
            x[k] = table.values[i]
            off = min(x[k], 1.0 - x[k])
            if off > most:
                worst, most = k, off
    return worst


@kernel
def _narrow(table: Tableau, room: float, trail: Ints, n_fixed: int) -> int:
    """Fix what cannot leave its end without losing all of `room`; return how many are fixed."""
    for j in range(table.at.size):
        k = table.nonbasic[j]
        if k < table.weights.size and table.low[k] < table.high[k] and abs(table.gains[j]) >= room:
            table.low[k] = table.high[k] = table.at[j]
            trail[n_fixed] = k
            n_fixed += 1
    return n_fixed


@kernel
def _obeys(table: Tableau, x: Floats) -> bool:
    """Whether a vector, rounded to whole numbers, obeys the rows."""
    n = x.size
    for i in range(table.values.size):
        total = 0.0
        for j in range(n):
            if x[j] > 0.5:
                total += table.matrix[i, j]
        if total < table.low[n + i] - 2.0 * _FEASIBLE or total > table.high[n + i] + 2.0 * _FEASIBLE:
            return False
    return True


@kernel
def _search(table: Tableau, most: int, chosen: NDArray[np.bool_]) -> int:
    """Branch depth first, in at most so many pivots and branches; see `best_binary`."""
    n, low, high = table.weights.size, table.low, table.high
    x, best, found = np.zeros(n), -np.inf, NONE
    # Variables as they were fixed; for each branch where its first one is, and the one that it is on.
    trail, begun, split = np.zeros(n, np.int64), np.zeros(n, np.int64), np.zeros(n, np.int64)
    n_fixed, depth = 0, 0
    while True:
        total, pivots = _bound(table, best + _BETTER, most)
        most -= pivots + 1
        if pivots < 0 or most < 0:
            return GAVE_UP
        if total > -np.inf:
            k = _read(table, x)
            if k >= 0:
                begun[depth] = n_fixed
                n_fixed = _narrow(table, total - best - _BETTER, trail, n_fixed)
                split[depth], trail[n_fixed], low[k] = n_fixed, k, 1.0
                n_fixed += 1
                depth += 1
                continue
            if not _obeys(table, x):
                return GAVE_UP
            value = 0.0
            for j in range(n):
                if x[j] > 0.5:
                    value += table.weights[j]
            if value > best:
                best, found = value, FOUND
                for j in range(n):
                    chosen[j] = x[j] > 0.5
        while depth > 0:
            first = split[depth - 1]
            up = low[trail[first]] == 1.0
            start = first + 1 if up else begun[depth - 1]
            for i in range(start, n_fixed):
                low[trail[i]], high[trail[i]] = 0.0, 1.0
            n_fixed = start
            if up:
                low[trail[first]], high[trail[first]] = 0.0, 0.0
                break
            depth -= 1
        if depth == 0:
            return found if _afresh(table) else GAVE_UP


def best_binary(
    weights: Floats, low: Floats, high: Floats, matrix: Floats, lower: Floats, upper: Floats, work: int
) -> tuple[int, NDArray[np.bool_]]:
    """Return x in {0, 1}^n of largest weight with ``low <= x <= high`` and ``lower <= matrix @ x <= upper``.

    First stands `FOUND`, or `NONE` if there is no such x, or `GAVE_UP` after about `work` multiplications, or if
    rounding errors have grown too large. The largest weight, and the largest coefficient of each row, should be about
    1. Variables branch where they are furthest from whole, first upwards.

    >>> best_binary(np.array([0.9, 0.8, 0.7]), np.zeros(3), np.ones(3), np.array([[1.0, 0.5, 0.5]]), np.zeros(1),
    ...             np.ones(1), 1000)
    (1, array([False,  True,  True]))
    """
    m, n = matrix.shape
    table = Tableau(
        matrix,
        matrix.copy(),
        np.concatenate((low, lower)),
        np.concatenate((high, upper)),
        np.arange(n, n + m),
        np.arange(n),
        np.zeros(n),
        np.zeros(m),
        weights.copy(),
        weights,
        0,
    )
    chosen = np.zeros(n, np.bool_)
    return int(_search(table, work // ((m + _BESIDES) * n), chosen)), chosen
