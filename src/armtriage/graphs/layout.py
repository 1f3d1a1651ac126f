"""What feedback graphs are made from: checked arguments, random and near edges, the compact layout."""

from __future__ import annotations

from collections.abc import Iterable, Mapping
from typing import Any

import numpy as np
import numpy.typing as npt

from armtriage.kernels.jit import kernel

__all__ = [
    "LIMIT",
    "answered_below",
    "canonical",
    "check_edges",
    "check_layout",
    "check_range",
    "check_real",
    "check_whole",
    "check_whole_array",
    "distinct",
    "expand",
    "matrix_edges",
    "near_edges",
    "pack",
    "random_edges",
]

LIMIT = 2**31 - 1
_DENSE = 0.1
_CHUNK = 1 << 22

Ints = npt.NDArray[np.int64]
SmallInts = npt.NDArray[np.int32]
Layout = tuple[SmallInts, SmallInts, Ints, SmallInts]


def pack(start: Any, stop: Any, indptr: Any, indices: Any) -> Layout:
    """Return C-contiguous copies: kernels know one layout only, and the caller keeps its own arrays."""
    return (
        np.array(start, np.int32, order="C"),
        np.array(stop, np.int32, order="C"),
        np.array(indptr, np.int64, order="C"),
        np.array(indices, np.int32, order="C"),
    )


def distinct(values: Ints) -> Ints:
    """Return the values in ascending order, each once: faster than `numpy.unique`, most of all if sorted."""
    if (values[1:] < values[:-1]).any():
        values = np.sort(values)
    kept = np.ones(values.size, np.bool_)
    np.not_equal(values[1:], values[:-1], out=kept[1:])
    return values[kept]


def _merge(first: Ints, second: Ints) -> Ints:
    # NumPy's stable sort joins two sorted parts in one pass.
    return distinct(np.sort(np.concatenate([first, second]), kind="stable"))


def canonical(n: int, row: npt.NDArray[Any], column: npt.NDArray[Any], both: bool = False) -> Layout:
    """Return the compact layout of checked edges plus self-loops, and of their reverses for `both`."""
    row, column = row.astype(np.int64), column.astype(np.int64)
    key = row * n + column
    if both:
        key = np.concatenate([key, column * n + row])
    loops = np.arange(n) * (n + 1)
    key = _merge(distinct(key), loops)
    row = key // n
    column = key - row * n
    begins = column == 0
    begins[1:] |= key[1:] - key[:-1] != 1
    begins[0] = True
    run = np.cumsum(begins) - 1
    bounds = np.append(np.flatnonzero(begins), key.size)
    own = run[row == column]
    listed_run = np.ones(bounds.size - 1, np.bool_)
    listed_run[own] = False
    listed = listed_run[run]
    indptr = np.append(0, np.cumsum(np.bincount(row[listed], minlength=n)))
    return pack(column[bounds[own]], column[bounds[own + 1] - 1] + 1, indptr, column[listed])


def expand(first: npt.NDArray[Any], last: npt.NDArray[Any]) -> Ints:
    """Return the ranges from each of `first` up to but excluding each of `last`, one after another."""
    length = np.subtract(last, first, dtype=np.int64)
    ends = np.cumsum(length)
    return np.repeat(first - (ends - length), length) + np.arange(ends[-1])


def _subset(rng: np.random.Generator, size: int, p: float) -> Ints:
    """Return a random subset of 0 to size - 1 that holds each number with probability `p`, independently."""
    if p >= _DENSE:
        parts = [np.empty(0, np.int64)]
        for begin in range(0, size, _CHUNK):
            parts.append(begin + np.flatnonzero(rng.random(min(_CHUNK, size - begin)) < p))
        return np.concatenate(parts)
    count = int(rng.binomial(size, p))
    chosen = np.empty(0, np.int64)
    # Repeats are dropped and drawn again. No number is favoured, so each set of `count` is equally likely.
    while chosen.size < count:
        chosen = _merge(chosen, distinct(rng.integers(0, size, count - chosen.size)))
    return chosen


def random_edges(rng: np.random.Generator, n: int, p: float, directed: bool) -> tuple[Ints, Ints]:
    """Return random ordered pairs of different arms, or unordered pairs, each once."""
    if directed:
        place = _subset(rng, n * (n - 1), p)
        row = place // max(n - 1, 1)
        column = place - row * (n - 1)
        return row, column + (column >= row)
    place = _subset(rng, n * (n - 1) // 2, p)
    row = ((1 + np.sqrt(1 + 8 * place.astype(np.float64))) / 2).astype(np.int64)
    # The root may be off by one in floating point.
    row -= row * (row - 1) // 2 > place
    row += row * (row + 1) // 2 <= place
    return row, place - row * (row - 1) // 2


def near_edges(points: Any, radius: Any, neighbours: Any) -> tuple[int, Ints, Ints]:
    """Return the number of points and the pairs that are near: unordered by radius, ordered by rank."""
    from scipy.spatial import KDTree

    place = _numbers("points", points).astype(np.float64)
    if place.ndim not in (1, 2) or place.size == 0:
        raise ValueError(f"points must have shape (n,) or (n, d) with n and d from 1, got {place.shape}")
    if not np.isfinite(place).all():
        raise ValueError(f"points must be finite, got {place[~np.isfinite(place)][0]}")
    if (radius is None) == (neighbours is None):
        raise ValueError(f"give exactly one of radius and neighbours, got {radius!r} and {neighbours!r}")
    place = place.reshape(len(place), -1)
    n = check_whole("the number of points", len(place), 1, LIMIT)
    if radius is not None:
        reach = check_real("radius", radius, float(np.finfo(np.float64).max))
        pairs = KDTree(place).query_pairs(reach, output_type="ndarray")
        return n, pairs[:, 0].astype(np.int64), pairs[:, 1].astype(np.int64)
    k = check_whole("neighbours", neighbours, 0, n - 1)
    found = np.asarray(KDTree(place).query(place, k=list(range(1, k + 2)))[1], np.int64)
    other = found != np.arange(n)[:, None]
    # Among coinciding points an arm may miss itself; then the last of the k + 1 found is one too many.
    other[other.all(axis=1), -1] = False
    return n, np.repeat(np.arange(n), k), found[other]


def matrix_edges(matrix: Any) -> tuple[int, Ints, Ints]:
    """Return the number of rows and the places of what is not 0 in a square matrix, sparse or dense."""
    from scipy import sparse

    if not sparse.issparse(matrix):
        matrix = _numbers("matrix", matrix, "biuf")
    _check_kind("matrix", matrix.dtype, "biuf")
    if matrix.ndim != 2 or matrix.shape[0] != matrix.shape[1]:
        raise ValueError(f"matrix must be square, got shape {matrix.shape}")
    n = check_whole("the number of rows of matrix", matrix.shape[0], 1, LIMIT)
    entries = sparse.csr_array(matrix).tocoo()
    if np.isnan(entries.data).any():
        raise ValueError("matrix must hold numbers, got nan")
    kept = entries.data != 0
    return n, entries.row[kept].astype(np.int64), entries.col[kept].astype(np.int64)


def check_edges(n: int, edges: Any) -> Ints:
    """Return pairs of arms from 0 to n - 1, of shape (m, 2)."""
    if not isinstance(edges, np.ndarray):
        if isinstance(edges, str) or not isinstance(edges, Iterable):
            raise TypeError(f"edges must be pairs of arms, got {edges!r}")
        edges = list(edges)
    pairs = check_whole_array("edges", edges)
    if pairs.size == 0:
        return np.empty((0, 2), np.int64)
    if pairs.ndim != 2 or pairs.shape[1] != 2:
        raise ValueError(f"edges must be pairs of arms, of shape (m, 2), got shape {pairs.shape}")
    return check_range("edges", pairs, 0, n - 1)


def check_layout(arrays: Mapping[str, npt.NDArray[Any]], names: tuple[str, ...]) -> Layout:
    """Return copies of arrays that are the canonical layout of some graph; refuse all others."""
    if not isinstance(arrays, Mapping) or set(arrays) != set(names):
        raise ValueError(f"arrays must be a mapping with the keys {', '.join(names)}, got {arrays!r}")
    parts = []
    for name in names:
        part = np.asarray(arrays[name])
        if part.ndim != 1 or part.dtype.kind not in "iu":
            raise ValueError(f"{name} must be a 1-D array of integers, got {part.ndim}-D of {part.dtype}")
        parts.append(check_range(name, part, 0, 2**62 if name == "indptr" else LIMIT))
    start, stop, indptr, indices = parts
    n = check_whole("the length of start", start.size, 1, LIMIT)
    if stop.size != n or indptr.size != n + 1:
        raise ValueError(f"stop and indptr must have lengths {n} and {n + 1}, got {stop.size}, {indptr.size}")
    arms = np.arange(n)
    if (start > arms).any() or (stop <= arms).any() or (stop > n).any():
        raise ValueError(f"start and stop must enclose each arm and lie from 0 to {n}")
    length = np.diff(indptr)
    if indptr[0] != 0 or indptr[-1] != indices.size or (length < 0).any():
        raise ValueError(f"indptr must ascend from 0 to the length of indices, {indices.size}")
    check_range("indices", indices, 0, n - 1)
    rows = np.repeat(arms, length)
    if (np.diff(rows * n + indices) <= 0).any():
        raise ValueError("indices must ascend strictly within each arm")
    if ((indices >= start[rows] - 1) & (indices <= stop[rows])).any():
        raise ValueError("indices must hold no arm inside or next to the run from start to stop")
    return pack(start, stop, indptr, indices)


def _check_kind(name: str, dtype: np.dtype[Any], kinds: str) -> None:
    if dtype.kind not in kinds:
        raise TypeError(f"{name} must hold real numbers, got dtype {dtype}")


def _numbers(name: str, values: Any, kinds: str = "iuf") -> npt.NDArray[Any]:
    try:
        array = np.asarray(values)
    except ValueError:
        raise ValueError(f"{name} must be an array of numbers, got rows of different lengths") from None
    _check_kind(name, array.dtype, kinds)
    return array


def check_whole(name: str, value: Any, low: int, high: int) -> int:
    """Return a whole number from `low` to `high`; a float is fine if it is one."""
    if isinstance(value, bool) or not isinstance(value, int | float | np.integer | np.floating):
        raise TypeError(f"{name} must be a whole number from {low} to {high}, got {value!r}")
    if not low <= value <= high or value != int(value):
        raise ValueError(f"{name} must be a whole number from {low} to {high}, got {value!r}")
    return int(value)


def check_real(name: str, value: Any, high: float) -> float:
    """Return a number from 0 to `high`."""
    if isinstance(value, bool) or not isinstance(value, int | float | np.integer | np.floating):
        raise TypeError(f"{name} must be a number from 0 to {high:g}, got {value!r}")
    if not 0 <= value <= high:
        raise ValueError(f"{name} must be a number from 0 to {high:g}, got {value!r}")
    return float(value)


def check_whole_array(name: str, values: Any) -> npt.NDArray[Any]:
    """Return an array of whole numbers, of whatever number type."""
    array = _numbers(name, values)
    if array.dtype.kind == "f":
        wrong = array[~(np.isfinite(array) & (array == np.floor(array)))]
        if wrong.size:
            raise ValueError(f"{name} must be whole numbers, got {wrong[0]}")
    return array


def check_range(name: str, array: npt.NDArray[Any], low: int, high: int) -> Ints:
    """Return the whole numbers of an array as int64, all from `low` to `high`."""
    if array.size and not (array.min() >= low and array.max() <= high):
        wrong = array[(array < low) | (array > high)][0]
        raise ValueError(f"{name} must be from {low} to {high}, got {wrong}")
    return array.astype(np.int64)


@kernel
def _listed(graph: Any, arm: int, other: int) -> bool:
    """Return whether `other` is in the list of `arm`."""
    low, end = graph.indptr[arm], graph.indptr[arm + 1]
    high = end
    while low < high:
        middle = (low + high) // 2
        if graph.indices[middle] < other:
            low = middle + 1
        else:
            high = middle
    return bool(low < end and graph.indices[low] == other)


@kernel
def _find(below: SmallInts, slot: int) -> int:
    while below[slot] != slot:
        below[slot] = below[below[slot]]
        slot = below[slot]
    return slot


@kernel
def answered_below(graph: Any) -> bool:
    """Return whether every arm b < a that a reveals also reveals a, in near-linear time.

    Going down through a, `below` finds the next b whose run ends at or before a. If a's run holds that b,
    then b must list a; each such find uses up one listed edge, so the runs are never expanded.
    """
    n = graph.start.size
    below = np.arange(n + 1).astype(np.int32)
    latest = np.full(n + 1, -1, np.int32)
    earlier = np.empty(n, np.int32)
    for b in range(n):
        earlier[b] = latest[graph.stop[b]]
        latest[graph.stop[b]] = b
    for a in range(n - 1, -1, -1):
        for e in range(graph.indptr[a], graph.indptr[a + 1]):
            b = graph.indices[e]
            if b > a:
                break
            if graph.stop[b] <= a and not _listed(graph, b, a):
                return False
        b = latest[a + 1]
        while b >= 0:
            below[b + 1] = b
            b = earlier[b]
        slot = _find(below, a)
        while slot > graph.start[a]:
            if not _listed(graph, slot - 1, a):
                return False
            slot = _find(below, slot - 1)
    return True
