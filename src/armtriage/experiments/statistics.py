"""Intervals for means, ratios of means and slopes, from a few replications."""

from __future__ import annotations

import math
from collections.abc import Hashable, Iterator, Sequence
from functools import lru_cache

import numpy as np
from numpy.typing import ArrayLike

from armtriage.kernels.record import Floats

INTERVALS = ("t", "bootstrap")

_RESAMPLES = 9999
_SEED = 7
_BATCH = 2**20  # numbers drawn at once

_Ends = tuple[float, float]


def critical_values(values: Floats, level: float, interval: str) -> _Ends:
    """Return between which values (mean - truth) / error lies with probability `level`: Student's, or resampled.

    The bootstrap is the studentised one: of the usual kinds it alone keeps its level for the means of few and skewed
    values. It depends on the values and on nothing else. Ends are infinite where the values are too few to tell.
    """
    n = values.size
    if n < 2:
        return -math.inf, math.inf
    if interval == "t":
        from scipy.special import stdtrit

        half = float(stdtrit(n - 1, 0.5 + level / 2))
        return -half, half
    centred = values - values.mean()
    scaled = centred / (np.abs(centred).max() or 1.0)
    sums = np.concatenate([counts @ np.stack([scaled, scaled**2], axis=1) for counts in _resamples(n)])
    variance = (sums[:, 1] - sums[:, 0] ** 2 / n) / (n - 1)
    variance[variance < 1e-12] = 0.0  # all alike but for rounding
    with np.errstate(divide="ignore", invalid="ignore"):
        pivots = np.nan_to_num(sums[:, 0] / np.sqrt(n * variance), posinf=np.inf, neginf=-np.inf)
    below = math.floor((_RESAMPLES + 1) * (0.5 - level / 2))
    if below == 0:
        return -math.inf, math.inf
    pivots.partition([below - 1, _RESAMPLES - below])
    return float(pivots[below - 1]), float(pivots[_RESAMPLES - below])


def _resamples(n: int) -> Iterator[Floats]:
    """Return how often each of n values is drawn, one row for each resample."""
    batch = min(_RESAMPLES, max(1, _BATCH // n))
    return (
        _drawn(n, number, min(batch, _RESAMPLES - first)) for number, first in enumerate(range(0, _RESAMPLES, batch))
    )


@lru_cache(maxsize=2)
def _drawn(n: int, batch: int, rows: int) -> Floats:
    places = np.random.default_rng([_SEED, batch]).integers(0, n, (rows, n)) + n * np.arange(rows)[:, None]
    return np.bincount(places.ravel(), minlength=rows * n).reshape(rows, n).astype(np.float64)


def mean_interval(values: ArrayLike, level: float = 0.95, interval: str = "t") -> _Ends:
    """Return the ends of an interval for the mean that the values were drawn around.

    Examples
    --------
    >>> mean_interval([1.0, 2.0, 3.0])
    (-0.484..., 4.484...)
    >>> mean_interval([1.0])
    (-inf, inf)
    """
    values = np.asarray(values, dtype=np.float64)
    if values.size < 2:
        return -math.inf, math.inf
    mean, error = float(values.mean()), float(values.std(ddof=1)) / math.sqrt(values.size)
    if np.ptp(values) == 0.0:
        return mean, mean
    low, high = critical_values(values, level, interval)
    return mean - high * error, mean - low * error


def ratio_interval(above: ArrayLike, below: ArrayLike, level: float = 0.95, interval: str = "t") -> _Ends:
    """Return the ends of Fieller's interval for a ratio of two means of paired values.

    It holds the ratios r for which the mean of ``above - r * below`` may be 0. An end is infinite where the mean below
    may be 0 itself.

    Examples
    --------
    >>> ratio_interval([2.0, 4.1, 5.9, 8.2], [1.0, 2.0, 3.0, 4.0])
    (1.8..., 2.1...)
    """
    x, y = np.asarray(above, dtype=np.float64), np.asarray(below, dtype=np.float64)
    mean_x, mean_y, n = float(x.mean()), float(y.mean()), x.size
    if n < 2 or mean_y <= 0.0:
        return -math.inf, math.inf
    ends = critical_values(x - mean_x / mean_y * y, level, interval)
    (var_x, cov), (_, var_y) = (np.cov(x, y) / n).tolist()

    def end(value: float, side: float) -> float:
        if not math.isfinite(value):
            return side * math.inf
        square = value * value
        a, b, c = mean_y**2 - square * var_y, mean_x * mean_y - square * cov, mean_x**2 - square * var_x
        return (b - math.copysign(math.sqrt(max(b * b - a * c, 0.0)), value)) / a if a > 0.0 else side * math.inf

    return end(ends[1], -1.0), end(ends[0], 1.0)


def slope_interval(
    at: ArrayLike,
    values: Sequence[ArrayLike],
    replications: Sequence[ArrayLike],
    shared: Sequence[Hashable],
    level: float = 0.95,
) -> tuple[float, float, float]:
    """Return the slope of log mean values on log `at` by least squares, and the ends of its interval.

    The errors of the means are carried over to the slope to first order, with Student's t and Welch and Satterthwaite's
    degrees of freedom. Whether the points lie on a line is not part of it.

    Parameters
    ----------
    at : array_like, (points,)
        Positive numbers.
    values : sequence of array_like
        At each point, the values whose mean is taken.
    replications : sequence of array_like
        The replication of each value.
    shared : sequence
        Points with the same entry here shared their random numbers, replication by replication; others are independent.
    level : float
        Of the interval.

    Examples
    --------
    >>> slope, low, high = slope_interval([1, 100], [[2.0, 2.1], [20.0, 20.3]], [[0, 1]] * 2, shared=["a", "b"])
    >>> round(slope, 2), round(low, 2), round(high, 2)
    (0.5, 0.45, 0.55)
    """
    x = np.log(np.asarray(at, dtype=np.float64))
    arrays = [np.asarray(value, dtype=np.float64) for value in values]
    means = [float(array.mean()) for array in arrays]
    if min(means) <= 0.0 or np.ptp(x) == 0.0:
        return math.nan, -math.inf, math.inf
    weights = (x - x.mean()) / np.square(x - x.mean()).sum()
    slope = float(weights @ np.log(means))
    if min(array.size for array in arrays) < 2:
        return slope, -math.inf, math.inf
    parts: dict[Hashable, dict[int, float]] = {}
    for weight, mean, array, numbers, group in zip(weights, means, arrays, replications, shared, strict=True):
        n, part = array.size, parts.setdefault(group, {})
        moves = weight * (array - mean) / (mean * math.sqrt(n * (n - 1)))
        for number, move in zip(np.asarray(numbers).tolist(), moves.tolist(), strict=True):
            part[number] = part.get(number, 0.0) + move
    variances = [(sum(move * move for move in part.values()), len(part) - 1) for part in parts.values()]
    variance = sum(one for one, _ in variances)
    if variance == 0.0:
        return slope, slope, slope
    from scipy.special import stdtrit

    freedom = variance**2 / sum(one**2 / count for one, count in variances)
    half = float(stdtrit(freedom, 0.5 + level / 2)) * math.sqrt(variance)
    return slope, slope - half, slope + half
