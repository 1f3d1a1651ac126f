"""The components of what is left of a graph, each as lists of neighbours."""

from __future__ import annotations

from collections.abc import Iterator
from typing import Any

import numpy as np
from numpy.typing import NDArray

__all__ = ["components", "lists_of"]

Ints = NDArray[np.int64]
SmallInts = NDArray[np.int32]


def lists_of(matrix: Any) -> tuple[Ints, SmallInts]:
    """Return the columns of each row of a sparse matrix, ascending: where each row begins, and the columns."""
    matrix.sum_duplicates()
    return matrix.indptr.astype(np.int64), matrix.indices.astype(np.int32)


def components(matrix: Any, nodes: Ints) -> Iterator[tuple[Ints, Ints, SmallInts]]:
    """Yield the components of the graph on these nodes of a symmetric matrix, the smallest first.

    Each comes as its nodes, ascending, and their lists of neighbours, in places among these nodes.
    """
    from scipy.sparse.csgraph import connected_components

    if not nodes.size:
        return
    rest = matrix[nodes][:, nodes]
    count, label = connected_components(rest, directed=False)
    order = np.argsort(label, kind="stable")
    indptr, indices = lists_of(rest[order][:, order])
    nodes = nodes[order]
    ends = np.append(0, np.cumsum(np.bincount(label, minlength=count)))
    for i in np.argsort(np.diff(ends), kind="stable"):
        first, last = ends[i], ends[i + 1]
        edges = slice(indptr[first], indptr[last])
        yield nodes[first:last], indptr[first : last + 1] - indptr[first], indices[edges] - np.int32(first)
