"""What feedback graphs are made from: random and near edges, the entries of a matrix, and the compact layout."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

import numpy as np
import numpy.typing as npt

from armtriage._arguments import LARGEST, as_matrix, as_numbers, check_between, check_whole, check_within
from armtriage.kernels.record import Ints

_DENSE = 0.1  # from here on a coin for each pair is faster than drawing places and sorting them
_CHUNK = 1 << 22  # coins thrown at once: 32 MB

SmallInts = npt.NDArray[np.int32]
Layout = tuple[SmallInts, SmallInts, Ints, SmallInts]


def _pack(start: Any, stop: Any, indptr: Any, indices: Any) -> Layout:
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
    return _pack(column[bounds[own]], column[bounds[own + 1] - 1] + 1, indptr, column[listed])


def expand(first: npt.NDArray[Any], last: npt.NDArray[Any]) -> Ints:
    """Return the ranges from each of `first` up to but excluding each of `last`, one after another."""
    length = np.subtract(last, first, dtype=np.int64)
    ends = np.cumsum(length)
    return np.repeat(first - (ends - length), length) + np.arange(ends[-1])


def both_ways(start: SmallInts, stop: SmallInts, indptr: Ints, indices: SmallInts) -> bool:
    """Return whether b reveals a whenever a reveals b, in linear time and without expanding runs.

    Each arm gets two random numbers x and y of 64 bits. If all edges (a, b) go both ways, x[a] y[b] and y[a] x[b] have
    the same sum over them, modulo 2**64; otherwise the sums are equal with probability below 2**-58.
    """
    x, y = np.random.default_rng(0).integers(0, 2**64, (2, start.size), np.uint64)
    row = np.repeat(np.arange(start.size), np.diff(indptr))

    def over_edges(left: npt.NDArray[np.uint64], right: npt.NDArray[np.uint64]) -> int:
        before = np.append(np.uint64(0), np.cumsum(right))
        runs, listed = left * (before[stop] - before[start]), left[row] * right[indices]
        return int(np.concatenate([runs, listed]).sum())

    return over_edges(x, y) == over_edges(y, x)


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

    place = as_numbers("points", points, kinds="iuf").astype(np.float64)
    if place.ndim not in (1, 2) or place.size == 0:
        raise ValueError(f"points must have shape (n,) or (n, d) with n and d from 1, got {place.shape}")
    if not np.isfinite(place).all():
        raise ValueError(f"points must be finite, got {place[~np.isfinite(place)][0]}")
    if (radius is None) == (neighbours is None):
        raise ValueError(f"give exactly one of radius and neighbours, got {radius!r} and {neighbours!r}")
    place = place.reshape(len(place), -1)
    n = check_whole("the number of points", len(place), 1, LARGEST)
    if radius is not None:
        reach = check_between("radius", radius, float(np.finfo(np.float64).max))
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

    matrix = as_matrix("matrix", matrix)
    if matrix.ndim != 2 or matrix.shape[0] != matrix.shape[1]:
        raise ValueError(f"matrix must be square, got shape {matrix.shape}")
    n = check_whole("the number of rows of matrix", matrix.shape[0], 1, LARGEST)
    entries = sparse.csr_array(matrix).tocoo()
    if np.isnan(entries.data).any():
        raise ValueError("matrix must hold numbers, got nan")
    kept = entries.data != 0
    return n, entries.row[kept].astype(np.int64), entries.col[kept].astype(np.int64)


def check_layout(arrays: Mapping[str, npt.NDArray[Any]], names: tuple[str, ...]) -> Layout:
    """Return copies of arrays that are the canonical layout of some graph; refuse all others."""
    if not isinstance(arrays, Mapping) or set(arrays) != set(names):
        raise ValueError(f"arrays must be a mapping with the keys {', '.join(names)}, got {arrays!r}")
    parts = []
    for name in names:
        part = np.asarray(arrays[name])
        if part.ndim != 1 or part.dtype.kind not in "iu":
            raise ValueError(f"{name} must be a 1-D array of integers, got {part.ndim}-D of {part.dtype}")
        parts.append(check_within(name, part, 0, 2**62 if name == "indptr" else LARGEST))
    start, stop, indptr, indices = parts
    n = check_whole("the length of start", start.size, 1, LARGEST)
    if stop.size != n or indptr.size != n + 1:
        raise ValueError(f"stop and indptr must have lengths {n} and {n + 1}, got {stop.size}, {indptr.size}")
    arms = np.arange(n)
    if (start > arms).any() or (stop <= arms).any() or (stop > n).any():
        raise ValueError(f"start and stop must enclose each arm and lie from 0 to {n}")
    length = np.diff(indptr)
    if indptr[0] != 0 or indptr[-1] != indices.size or (length < 0).any():
        raise ValueError(f"indptr must ascend from 0 to the length of indices, {indices.size}")
    check_within("indices", indices, 0, n - 1)
    rows = np.repeat(arms, length)
    if (np.diff(rows * n + indices) <= 0).any():
        raise ValueError("indices must ascend strictly within each arm")
    if ((indices >= start[rows] - 1) & (indices <= stop[rows])).any():
        raise ValueError("indices must hold no arm inside or next to the run from start to stop")
    return _pack(start, stop, indptr, indices)


def with_rows(layout: tuple[npt.NDArray[Any], ...], total: int, pairs: Ints) -> Layout:
    """Return the layout with rows up to `total`, each for itself, and with pairs of which one is a new row."""
    start, stop, indptr, indices = layout
    n = start.size
    new = np.arange(n, total)
    begin, end = np.append(start, new).astype(np.int64), np.append(stop, new + 1).astype(np.int64)
    pairs = np.unique(pairs[pairs[:, 0] != pairs[:, 1]], axis=0)
    rows, columns = [np.repeat(np.arange(n), np.diff(indptr))], [indices.astype(np.int64)]
    for arm in np.unique(pairs[pairs[:, 0] < n, 1]).tolist():
        # Arms that come in order prolong the runs that reach up to them.
        tails = pairs[(pairs[:, 1] == arm) & (pairs[:, 0] < n), 0]
        follows = end[tails] == arm
        end[tails[follows]] = arm + 1
        rows.append(tails[~follows])
        columns.append(np.full(rows[-1].size, arm))
    for arm in np.unique(pairs[pairs[:, 0] >= n, 0]).tolist():
        shown = np.union1d(pairs[pairs[:, 0] == arm, 1], [arm])
        run = shown - np.arange(shown.size)
        own = run == run[np.searchsorted(shown, arm)]
        begin[arm], end[arm] = shown[own][0], shown[own][-1] + 1
        rows.append(np.full(np.count_nonzero(~own), arm))
        columns.append(shown[~own])
    row, column = np.concatenate(rows), np.concatenate(columns)
    order = np.argsort(row, kind="stable")
    ends = np.concatenate([[0], np.cumsum(np.bincount(row, minlength=total))])
    return _pack(begin, end, ends, column[order])
