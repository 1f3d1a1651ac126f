"""Records: one block of memory that Python and compiled code share."""

from __future__ import annotations

import copy
import pickle

import numpy as np
import pytest
from numpy.typing import NDArray

from armtriage.kernels.jit import Opener, bind, kernel
from armtriage.kernels.record import Record

pytestmark = pytest.mark.plain


class Limits(Record, frozen=True):
    most: int
    share: float
    strict: bool


class Box(Record):
    counts: NDArray[np.int64]
    sums: NDArray[np.float64]
    grid: NDArray[np.float64]
    limits: Limits
    total: int
    level: float
    full: bool


@kernel
def fill(box: Box, n: int) -> int:
    for i in range(n):
        box.counts[i % box.counts.size] += 1
        box.sums[i % box.counts.size] += box.level * box.limits.share
        box.total += 1
    box.grid[1, 2] = box.total
    box.full = box.total >= box.limits.most and box.limits.strict
    box.level = 2
    return box.total


def open_box(address: int) -> Box:
    raise NotImplementedError


def _fill_at(address: int, n: int) -> int:
    return fill(open_box(address), n)


def box(counts: NDArray[np.int64] | None = None) -> Box:
    counts = np.zeros(4, np.int64) if counts is None else counts
    return Box(counts, np.zeros(4), np.zeros((3, 4)), Limits(5, 0.5, True), 1, 3.0, False)


def test_kernel_reads_and_writes_arrays_and_numbers() -> None:
    one = box()
    assert fill(one, 6) == 7
    assert one.counts.tolist() == [2, 2, 1, 1]
    assert one.sums.tolist() == [3.0, 3.0, 1.5, 1.5]
    assert one.grid[1, 2] == 7.0
    assert (one.total, one.level, one.full) == (7, 2.0, True)


def test_python_writes_what_a_kernel_reads() -> None:
    one = box()
    one.total, one.level = 10, 1.0
    assert fill(one, 1) == 11
    assert one.sums[0] == 0.5


def test_bound_kernel_finds_the_record_by_its_handle() -> None:
    one = box()
    at = bind(_fill_at, "fill_box_at", open_box=Opener(one.layout))
    assert at(one.handle, 6) == 7
    assert one.counts.tolist() == [2, 2, 1, 1]


def test_strided_arrays_keep_their_strides() -> None:
    pairs = np.zeros((4, 2), np.int64)
    one = box(pairs[:, 1])
    fill(one, 6)
    assert pairs[:, 1].tolist() == [2, 2, 1, 1]
    assert not pairs[:, 0].any()


def test_numbers_stand_in_two_arrays_in_the_order_of_the_fields() -> None:
    one = box()
    assert one.whole.tolist() == [1, 0]
    assert one.real.tolist() == [3.0]
    one.whole[0] = 8
    assert one.total == 8


@pytest.mark.parametrize("copied", [copy.copy, copy.deepcopy, lambda one: pickle.loads(pickle.dumps(one))])
def test_copy_is_a_record_of_its_own(copied) -> None:
    one = box()
    fill(one, 6)
    other = copied(one)
    assert other.address != one.address
    other.total = 0
    assert fill(other, 1) == 1
    assert one.total == 7


def test_deep_copy_shares_no_array() -> None:
    one = box()
    other = copy.deepcopy(one)
    fill(other, 3)
    assert not one.counts.any()


def test_array_cannot_be_replaced() -> None:
    with pytest.raises(AttributeError, match="counts of Box is fixed"):
        box().counts = np.ones(4, np.int64)


def test_number_of_a_frozen_record_cannot_be_changed() -> None:
    with pytest.raises(AttributeError, match="most of Limits is fixed"):
        Limits(1, 0.5, False).most = 2


@pytest.mark.parametrize("values", [(1, 0.5), (1, 0.5, True, 4)])
def test_wrong_number_of_values_is_refused(values: tuple[object, ...]) -> None:
    with pytest.raises(TypeError, match="Limits takes most, share, strict"):
        Limits(*values)


def test_layouts_tell_contiguous_arrays_from_others() -> None:
    assert box().layout == box().layout
    assert box().layout != box(np.zeros((4, 2), np.int64)[:, 0]).layout
