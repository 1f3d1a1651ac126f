"""The normal numbers are normal, tails included, independent, and pure functions of row and column.

Seeds are fixed, so these tests give the same answer every time. Thresholds are such that a perfect generator with
other seeds would fail one of them with probability 1e-6. With n = 4 * 10**6 numbers, the smallest effects that are
caught (with probability 0.999): a distribution function off by 0.0025, a scale off by 0.3%, a correlation of 0.005
between neighbours, a tail beyond 3.65 whose weight is off by 30%.
"""

from __future__ import annotations

import json
import os
import subprocess
import sys
from functools import cache

import numba
import numpy as np
import pytest
from scipy.special import ndtr, ndtri
from scipy.stats import chi2, kstwobign, norm

from armtriage.kernels.normal import _ENDS, _HEIGHTS, _TAIL, normal
from armtriage.kernels.random import row, row_of, stream

ALARM = 1e-6
SHAPE = (2000, 2000)


@numba.njit
def fill(start: np.uint64, values: np.ndarray) -> None:
    for t in range(values.shape[0]):
        luck = row(start, t)
        for column in range(values.shape[1]):
            values[t, column] = normal(luck, column)


@numba.njit
def beyond(start: np.uint64, n: int, limit: float, values: np.ndarray) -> int:
    """Keep those of n numbers that lie beyond the limit on either side; return how many."""
    count = 0
    for t in range(n // 1000):
        luck = row(start, t)
        for column in range(1000):
            x = normal(luck, column)
            if abs(x) > limit:
                values[count] = x
                count += 1
    return count


@cache
def table() -> np.ndarray:
    """Four million numbers, rows by columns."""
    values = np.empty(SHAPE)
    fill(stream(20, "context"), values)
    return values


@cache
def tails(limit: float = _TAIL, n: int = 10**8) -> np.ndarray:
    """Those of a hundred million numbers that lie beyond the limit."""
    values = np.empty(n // 100)
    return values[: beyond(stream(21, "context"), n, limit, values)]


def kolmogorov(uniforms: np.ndarray) -> float:
    """The p-value of the Kolmogorov-Smirnov test of uniformity."""
    ordered, n = np.sort(uniforms.ravel()), uniforms.size
    steps = np.arange(n + 1) / n
    distance = max(np.max(steps[1:] - ordered), np.max(ordered - steps[:-1]))
    return float(kstwobign.sf(distance * np.sqrt(n)))


def chi_square(counts: np.ndarray, expected: np.ndarray) -> float:
    return float(chi2.sf(((counts - expected) ** 2 / expected).sum(), counts.size - 1))


def cells(values: np.ndarray) -> float:
    """The p-value of Pearson's test with a thousand cells of equal weight."""
    edges = ndtri(np.arange(1, 1000) / 1000)
    counts = np.bincount(np.searchsorted(edges, values.ravel()), minlength=1000)
    return chi_square(counts, np.full(1000, values.size / 1000))


def layers(values: np.ndarray) -> float:
    """The p-value of Pearson's test with a cell for each layer's strip and each tail, on both sides."""
    edges = np.concatenate([-_ENDS[1:], _ENDS[1:256][::-1]])
    weights = np.diff(np.concatenate([[0.0], ndtr(edges), [1.0]]))
    counts = np.bincount(np.searchsorted(edges, values.ravel()), minlength=weights.size)
    return chi_square(counts, weights * values.size)


def moment(values: np.ndarray, power: int) -> float:
    """The p-value of the mean of a power."""
    even = {2: 1, 4: 3, 6: 15, 8: 105, 10: 945, 12: 10395}
    mean = even.get(power, 0)
    z = (np.mean(values**power) - mean) / np.sqrt((even[2 * power] - mean**2) / values.size)
    return float(2 * norm.sf(abs(z)))


def correlation(values: np.ndarray, others: np.ndarray) -> float:
    """The p-value of the correlation of numbers with mean 0 and variance 1."""
    return float(2 * norm.sf(abs(np.sum(values * others)) / np.sqrt(values.size)))


def neighbours(axis: int) -> tuple[np.ndarray, np.ndarray]:
    values = table()
    return (values[:-1], values[1:]) if axis == 0 else (values[:, :-1], values[:, 1:])


def test_distribution_is_normal() -> None:
    assert kolmogorov(ndtr(table())) > ALARM


def test_cells_of_equal_weight_are_hit_equally_often() -> None:
    assert cells(table()) > ALARM


def test_strips_between_the_ends_of_the_layers_have_their_weights() -> None:
    assert layers(table()) > ALARM


@pytest.mark.parametrize("power", [1, 2, 3, 4, 5, 6])
def test_moment(power: int) -> None:
    assert moment(table(), power) > ALARM


@pytest.mark.parametrize("limit", [_TAIL, 4.0, 4.5, 5.0])
@pytest.mark.parametrize("side", [-1, 1])
def test_weight_of_the_tail(side: int, limit: float) -> None:
    # Poisson, from 29 expected numbers beyond 5: the normal approximation needs another continuity correction.
    expected = 10**8 * norm.sf(limit)
    z = (abs(np.count_nonzero(side * tails() > limit) - expected) - 0.5) / np.sqrt(expected)
    assert 2 * norm.sf(z) > ALARM


def test_law_of_the_tail() -> None:
    assert kolmogorov(norm.sf(np.abs(tails())) / norm.sf(_TAIL)) > ALARM


def test_no_number_stands_out() -> None:
    # One of 10**8 normal numbers is beyond 8.5 with probability 2e-9.
    assert np.abs(tails()).max() < 8.5


def test_numbers_hardly_repeat() -> None:
    # Positions have 52 bits within a layer: among 4 * 10**6, two agree with probability 1e-5.
    assert np.unique(table()).size == table().size


@pytest.mark.plain
def test_layers_have_equal_areas() -> None:
    strips = _ENDS[1:256] * np.diff(_HEIGHTS[1:])
    tail = np.sqrt(2 * np.pi) * norm.sf(_TAIL)
    base = _TAIL * _HEIGHTS[1] + tail
    assert np.allclose([*strips, _ENDS[0] * _HEIGHTS[0]], base, rtol=1e-12, atol=0.0)


@pytest.mark.parametrize("axis", [0, 1])
@pytest.mark.parametrize("shape", ["x", "square", "sign"])
def test_neighbours_are_uncorrelated(shape: str, axis: int) -> None:
    form = {"x": lambda x: x, "square": lambda x: (x * x - 1) / np.sqrt(2), "sign": np.sign}[shape]
    assert correlation(*map(form, neighbours(axis))) > ALARM


@pytest.mark.parametrize("axis", [0, 1])
def test_pairs_of_neighbours_fill_the_square_evenly(axis: int) -> None:
    one, two = (np.minimum((ndtr(half) * 20).astype(int), 19).ravel() for half in neighbours(axis))
    counts = np.bincount(one * 20 + two, minlength=400)
    assert chi_square(counts, np.full(400, one.size / 400)) > ALARM


@pytest.mark.parametrize("axis", [0, 1])
def test_sums_over_a_line_have_the_right_spread(axis: int) -> None:
    sums = table().sum(axis=axis) / np.sqrt(SHAPE[axis])
    statistic = np.sum(sums**2)
    assert 2 * min(chi2.sf(statistic, sums.size), chi2.cdf(statistic, sums.size)) > ALARM


def test_distribution_of_the_stated_error_is_caught() -> None:
    values = table().ravel().copy()
    values[: int(0.005 * values.size)] = 0.0
    assert kolmogorov(ndtr(values)) < ALARM


def test_scale_of_the_stated_error_is_caught() -> None:
    assert moment(table() * 1.003, 2) < ALARM


def test_correlation_of_the_stated_size_is_caught() -> None:
    values, others = neighbours(1)
    copied = np.random.default_rng(1).random(values.shape) < 0.005
    assert correlation(values, np.where(copied, values, others)) < ALARM


def test_tail_of_the_stated_error_is_caught() -> None:
    values = table().ravel().copy()
    tail = np.flatnonzero(np.abs(values) > _TAIL)
    values[tail[: int(0.3 * tail.size)]] = 0.0
    weight = np.count_nonzero(np.abs(values) > _TAIL)
    expected = 2 * values.size * norm.sf(_TAIL)
    assert 2 * norm.sf(abs(weight - expected) / np.sqrt(expected)) < ALARM


def test_wedges_that_are_never_refused_are_caught() -> None:
    rng = np.random.default_rng(2)
    ends = _ENDS[rng.integers(0, 256, 4 * 10**6)]
    assert layers(ends * rng.uniform(-1, 1, ends.size)) < ALARM


@pytest.mark.plain
def test_numbers_of_released_files_do_not_change() -> None:
    start = stream(7, "context")
    assert [float(normal(start, column)) for column in range(3)] == [
        0.635360048175199,
        1.18678230856429,
        0.3181273530251827,
    ]


@pytest.mark.plain
def test_order_does_not_matter() -> None:
    start = stream(5, "context")
    forward = [normal(start, column) for column in range(500)]
    assert forward == [normal(start, column) for column in range(499, -1, -1)][::-1]


def sample() -> list[float]:
    rows = [row_of(stream(seed, "context"), seed) for seed in range(3)]
    lucks = (*rows, np.uint64(2**64 - 1))
    return [float(normal(luck, column)) for luck in lucks for column in range(10_000)]


@cache
def plain_sample() -> list[float]:
    """The sample of a process without the JIT."""
    code = "import json; from kernels.test_normal import sample; print(json.dumps(sample()))"
    flags = {**os.environ, "NUMBA_DISABLE_JIT": "1", "PYTHONPATH": os.pathsep.join(sys.path)}
    command = [sys.executable, "-W", "error", "-c", code]
    done = subprocess.run(command, env=flags, capture_output=True, text=True, check=True, timeout=300)
    return list(json.loads(done.stdout))


def test_numbers_do_not_depend_on_compilation() -> None:
    assert plain_sample() == sample()


@pytest.mark.plain
def test_sample_without_compilation_reaches_the_tail() -> None:
    assert np.count_nonzero(np.abs(plain_sample()) > _TAIL) > 5
