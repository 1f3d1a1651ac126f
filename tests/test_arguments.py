"""Checks of arguments that no public face shows as they are; the others are tested where people meet them."""

from __future__ import annotations

from fractions import Fraction
from typing import Any

import numpy as np
import pytest

from armtriage._arguments import (
    as_number,
    check_arms,
    check_between,
    check_choice,
    check_count,
    check_each,
    check_kind,
    check_number,
    check_whole,
)


@pytest.mark.parametrize("value", [2, 2.0, np.int8(2), np.float32(2.0), Fraction(2)], ids=repr)
def test_any_real_number_is_a_number(value: Any) -> None:
    assert type(as_number("x", value)) is float
    assert type(check_whole("x", value, 0, 3)) is int
    assert check_number("x", value) == check_between("x", value, 2.0) == check_whole("x", value, 0, 3) == 2


@pytest.mark.parametrize("value", [True, np.True_, "2", None, [2], np.array(2), 2j], ids=repr)
def test_anything_else_is_none(value: Any) -> None:
    with pytest.raises(TypeError, match="x must be a number, got "):
        as_number("x", value)


def test_whole_numbers_beyond_every_float_are_refused_like_infinity() -> None:
    assert as_number("x", -(10**400)) == -np.inf
    with pytest.raises(ValueError, match="x must be a finite number from 0, got 1000"):
        check_number("x", 10**400)
    with pytest.raises(ValueError, match="x must be a whole number from 0 to 3, got 1000"):
        check_whole("x", 10**400, 0, 3)


def test_a_count_is_no_float_even_if_it_is_whole() -> None:
    assert type(check_count("x", np.uint8(3))) is int
    with pytest.raises(TypeError, match=r"x must be a whole number from 0, got 3\.0"):
        check_count("x", 3.0)  # type: ignore[arg-type]


@pytest.mark.parametrize("value", ["c", 1, None, ["a"], np.array(["a", "b"])], ids=repr)
def test_a_choice_is_one_of_the_words(value: Any) -> None:
    assert check_choice("x", "a", {"a": 1, "b": 2}) == "a"
    with pytest.raises(ValueError, match="x must be one of a, b, got "):
        check_choice("x", value, ("a", "b"))


def test_a_kind_includes_what_descends_from_it() -> None:
    assert check_kind("x", True, int) is True
    with pytest.raises(TypeError, match="x must be a int, got str"):
        check_kind("x", "1", int)


def test_the_first_wrong_value_is_named_with_its_arm() -> None:
    values = np.array([0.5, np.nan, 2.0])
    check_each("x", values[:1], values[:1] <= 1, "be at most 1")
    with pytest.raises(ValueError, match="x must be at most 1, got nan for arm 1"):
        check_each("x", values, values <= 1, "be at most 1")


def test_arms_may_be_asked_to_be_different() -> None:
    assert check_arms(3, 4).tolist() == [3]
    assert check_arms([1, 1], 2).tolist() == [1, 1]
    with pytest.raises(ValueError, match=r"these must name each arm once, got \[1, 1\]"):
        check_arms([1, 1], 2, "these", once=True)
