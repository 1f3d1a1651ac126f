"""The cheapest assignment of rows to columns, by shortest augmenting paths (Jonker and Volgenant 1987, Crouse 2016).

Rows are placed one after the other. Each looks for the cheapest chain of moves that ends at a free column, by
Dijkstra's algorithm on costs that prices of rows and columns keep from being negative; then prices are changed so that
they do so again. With m rows and n columns that is of order m m n at most, and mostly far less.
"""

from __future__ import annotations

import numpy as np

from armtriage.kernels.jit import kernel
from armtriage.kernels.record import Floats, Ints


@kernel
def assign(costs: Floats, columns: Ints) -> bool:
    """Write the column of each row; False if there is no assignment of finite cost.

    There must be as many columns as rows or more. A cost is finite, or infinite where a pair is not allowed. Of
    assignments that cost the same the same one is always found; where all cost the same, row i has column i.
    """
    n_rows, n_columns = costs.shape
    row_price, price = np.zeros(n_rows), np.zeros(n_columns)
    holder = np.full(n_columns, -1, np.int64)  # the row of each column
    distance, came_from = np.empty(n_columns), np.empty(n_columns, np.int64)
    left = np.empty(n_columns, np.int64)  # columns that no chain has reached for good, and behind them those reached
    columns[:] = -1
    for first in range(n_rows):
        for j in range(n_columns):
            distance[j] = np.inf
            left[j] = n_columns - 1 - j  # from the last: among equals the first column is then found last, and taken
        row, column, reached, n_left = first, -1, 0.0, n_columns
        while row >= 0:
            offset, nearest, place = reached - row_price[row], np.inf, -1
            for k in range(n_left):
                j = left[k]
                length = offset + costs[row, j] - price[j]
                if length < distance[j]:
                    distance[j] = length
                    came_from[j] = row
                # Among equals a free column is best: the search ends there.
                if distance[j] < nearest or (distance[j] == nearest and holder[j] < 0):
                    nearest, place = distance[j], k
            if nearest == np.inf:
                return False
            reached, column = nearest, left[place]
            n_left -= 1
            left[place], left[n_left] = left[n_left], column
            row = holder[column]
        row_price[first] += reached
        for k in range(n_left, n_columns):
            j = left[k]
            price[j] -= reached - distance[j]
            if holder[j] >= 0:
                row_price[holder[j]] += reached - distance[j]
        row = -1
        while row != first:
            row = came_from[column]
            holder[column] = row
            columns[row], column = column, columns[row]
    return True
