"""Kernels as our own lowering writes them: what Python computes, and every array that is made is given up."""

from __future__ import annotations

import itertools
from typing import Any

import numpy as np
import pytest

from armtriage.kernels import jit
from armtriage.kernels.jit import Kernel

pytestmark = pytest.mark.skipif(not jit.JIT, reason="nothing is compiled")


def compiled(function: Any) -> Any:
    function.__module__ = "armtriage.trial"  # the package's own kernels alone have plain items
    return Kernel(function)


def loops(start: int, stop: int) -> tuple[int, int, int]:
    up, down, last = 0, 0, -1
    for i in range(start, stop):
        up = 3 * up + i
        last = i
        for j in range(i, start - 1, -2):
            down = 5 * down + j
    return up, down, last


@pytest.mark.parametrize(("start", "stop"), [(0, 0), (0, 5), (-3, 4), (4, -3), (7, 8)])
def test_loops_play_the_numbers_of_a_range(start: int, stop: int) -> None:
    assert compiled(loops)(start, stop) == loops(start, stop)


def compare(x: Any, y: Any) -> list[Any]:
    return x < y, x <= y, x > y, x >= y, x == y, x != y, x + y, x - y, x * y  # type: ignore[return-value]


@pytest.mark.parametrize("kind", [np.int64, np.uint64, np.float64])
def test_numbers_are_combined_as_python_does(kind: Any) -> None:
    values: list[Any] = [0, 1, 3, 2**40]
    values += [] if kind is np.uint64 else [-1, -(2**40)]
    values += [np.nan, np.inf, -np.inf, -0.0, 0.1] if kind is np.float64 else []
    if kind is np.uint64:
        values += [2**63 + 1]
    one = compiled(compare)
    for x, y in itertools.product(map(kind, values), repeat=2):
        with np.errstate(all="ignore"):
            np.testing.assert_array_equal(np.array(one(x, y), float), np.array(compare(x, y), float))


def square(x: float) -> float:
    return x**2


def test_squares_are_products() -> None:
    for x in (0.1, -1e-200, 1e200, np.inf, -3.0):
        assert compiled(square)(x) == x * x


def items(small: Any, cube: Any) -> float:
    total = 0.0
    for i in range(cube.shape[0]):
        for j in range(cube.shape[1]):
            for k in range(cube.shape[2]):
                cube[i, j, k] += float(small[k]) * (i - j)
                total += cube[i, j, k]
    small[0] = total
    return total + (1.0 if cube[0, 0, 0] > small[1] else 0.0)


def test_items_are_found_in_arrays_of_any_order() -> None:
    for kind in (np.float64, np.int32, np.uint8):
        whole = np.arange(60, dtype=float).reshape(3, 4, 5)
        for cube in (whole.copy(), np.asfortranarray(whole), whole.transpose(2, 0, 1)[::2, :, :3].copy(), whole[::2]):
            small, again, expected = np.arange(5).astype(kind), np.arange(5).astype(kind), cube.copy()
            assert compiled(items)(small, cube) == items(again, expected)
            np.testing.assert_array_equal(cube, expected)
            np.testing.assert_array_equal(small, again)


def made(values: Any, rounds: int) -> float:
    total, kept = 0.0, values[1:]
    for i in range(rounds):
        fresh = np.empty(3)
        fresh[:] = i
        kept = fresh if i % 2 == 0 else values[i:]
        total += kept[0] + kept.copy()[0]
    return total


def handed_on(values: Any) -> Any:
    return values[1:] if values[0] > 0.0 else values * 2.0


def test_every_array_that_is_made_is_given_up() -> None:
    from numba.core.runtime import _nrt_python, rtsys

    _nrt_python.memsys_enable_stats()
    values = np.arange(10.0)
    one, other = compiled(made), compiled(handed_on)
    for _ in range(2):
        before = rtsys.get_allocation_stats()
        assert one(values, 6) == made(values, 6)
        for given in (values, values + 1.0):
            np.testing.assert_array_equal(other(given), handed_on(given))
        after = rtsys.get_allocation_stats()
        assert after.alloc - before.alloc == after.free - before.free
        assert after.mi_alloc - before.mi_alloc == after.mi_free - before.mi_free
