"""Grids: what a list and a mapping stand for."""

from __future__ import annotations

from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st

from armtriage.experiments.definition import expand, varied

VALUES = st.one_of(st.none(), st.booleans(), st.integers(), st.text(max_size=3))
GRIDS = st.dictionaries(st.text(max_size=2), st.one_of(VALUES, st.lists(VALUES, max_size=3)), max_size=4)


@pytest.mark.parametrize(
    ("grid", "members"),
    [
        (3, [3]),
        ("abc", ["abc"]),
        ([1, 2], [1, 2]),
        ((1, 2), [1, 2]),
        ([[1, 2], [3]], [[1, 2], [3]]),
        ([], []),
        ({}, [{}]),
        ({"a": 1, "b": "x"}, [{"a": 1, "b": "x"}]),
        ({"a": [1, 2], "b": [3, 4]}, [{"a": a, "b": b} for a in (1, 2) for b in (3, 4)]),
        ({"a": [1, 2], "b": []}, []),
        ({"a": [[1, 2]]}, [{"a": [1, 2]}]),
        ({"a": {"b": [1, 2]}}, [{"a": {"b": 1}}, {"a": {"b": 2}}]),
        ([{"a": 1}, {"b": [2, 3]}], [{"a": 1}, {"b": 2}, {"b": 3}]),
        ({"a": ["x", {"b": [1, 2], "c": 3}]}, [{"a": "x"}, {"a": {"b": 1, "c": 3}}, {"a": {"b": 2, "c": 3}}]),
    ],
)
def test_grid_is_written_out(grid: Any, members: list[Any]) -> None:
    assert expand(grid) == members


@given(GRIDS)
def test_there_are_as_many_members_as_combinations(grid: dict[str, Any]) -> None:
    members, expected = expand(grid), 1
    for value in grid.values():
        expected *= len(value) if isinstance(value, list) else 1
    assert len(members) == expected
    for member in members:
        assert list(member) == list(grid)
        assert all(one in grid[key] if isinstance(grid[key], list) else one == grid[key] for key, one in member.items())


@given(GRIDS)
def test_members_of_a_grid_differ_where_it_lists_more_than_one_value(grid: dict[str, Any]) -> None:
    members = expand(grid)
    several = {key for key, value in grid.items() if isinstance(value, list) and any(one != value[0] for one in value)}
    assert set(varied(members)) == (several if members else set())


def test_key_that_some_lack_differs() -> None:
    assert varied([{"a": 1}, {"a": 1, "b": None}]) == ["b"]
    assert varied([{"a": 1}]) == varied([]) == []
