"""Matchings are found exactly, at any shape, and malformed ones are refused."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import numpy as np
import pytest
from scipy.optimize import linear_sum_assignment

from armtriage import DecisionSet, Matchings
from armtriage.decisions.sets import written
from decisions.spot_check import spot_check


def test_a_matching_of_thirty_by_thirty() -> None:
    rng = np.random.default_rng(1)
    weights = rng.normal(size=(30, 30))
    jobs = Matchings(30, 30)
    rows, columns = linear_sum_assignment(weights, maximize=True)
    assert jobs.maximise(weights.ravel()).tolist() == (rows * 30 + columns).tolist()
    spot_check(jobs, weights.ravel(), 1)
    with pytest.raises(ValueError, match=r"about 10\^32 decisions; iteration is for at most 100000"):
        iter(jobs)


@pytest.mark.parametrize(("left", "right", "size"), [(12, 40, None), (40, 12, 7), (20, 20, 19), (1, 50, None)])
def test_matchings_of_other_shapes(left: int, right: int, size: int | None) -> None:
    rng = np.random.default_rng(2)
    edges = np.argwhere(rng.random((left, right)) < 0.5)
    for one in (Matchings(left, right, size=size), Matchings(left, right, edges, size)):
        spot_check(one, rng.normal(size=one.n_arms), 3)


def test_values_of_matchings_survive_rounding() -> None:
    # With so many ties all cycles of exchanges cost 0 but for rounding.
    jobs = Matchings(40, 40)
    weights = np.random.default_rng(4).choice([0.1, 0.2, 0.3], 40)[:, None] + np.full(40, 0.7)
    np.testing.assert_allclose(jobs.maximise_each_including(weights.ravel()), weights[:, 0].sum(), rtol=1e-12)
    np.testing.assert_allclose(jobs.maximise_each_excluding(weights.ravel()), weights[:, 0].sum(), rtol=1e-12)


def test_a_sparse_matching_too_large_to_count() -> None:
    jobs = Matchings(30, 30, [(i, j) for i in range(30) for j in range(30) if (i - j) % 30 < 15])
    assert jobs.count() is None
    with pytest.raises(ValueError, match="more decisions than can be listed"):
        iter(jobs)


def test_a_complete_list_of_pairs_is_the_complete_matching() -> None:
    assert Matchings(2, 2, [(0, 0), (0, 1), (1, 0), (1, 1)]) == Matchings(2, 2)
    assert Matchings(2, 2, [(0, 1), (0, 0), (1, 0), (1, 1)]) != Matchings(2, 2)


def test_a_matrix_stands_for_a_number_for_each_pair() -> None:
    rng = np.random.default_rng(3)
    allowed = rng.random((4, 6)) < 0.6
    jobs = Matchings(4, 6, allowed)
    assert jobs == Matchings(4, 6, np.argwhere(allowed))
    assert Matchings(4, 6, allowed.tolist()) == jobs
    weights = rng.normal(size=(4, 6))
    weights[~allowed] = np.nan
    assert jobs.maximise(weights).tolist() == jobs.maximise(jobs.by_arm(weights)).tolist()
    np.testing.assert_array_equal(jobs.matrix(jobs.by_arm(weights)), weights)
    np.testing.assert_array_equal(jobs.maximise_each_including(weights), jobs.maximise_each_including(weights[allowed]))


def test_nodes_may_have_names() -> None:
    shifts = Matchings(["Ann", "Bob"], ["early", "late", ("night", 2)], [("Bob", "late"), ("Ann", ("night", 2))])
    assert shifts.edges.tolist() == [[1, 1], [0, 2]]
    assert shifts.names == [("Bob", "late"), ("Ann", ("night", 2))]
    assert Matchings(["Ann", "Bob"], 2).names == [("Ann", 0), ("Ann", 1), ("Bob", 0), ("Bob", 1)]
    assert Matchings(2, 2).names is None
    assert repr(shifts) == "Matchings(2 x 3 with names, 2 pairs, size=2)"
    for one in (shifts, Matchings(["Ann", "Bob"], 2)):
        again = DecisionSet.from_arrays(one.to_arrays())
        assert again == one
        assert again.names == one.names
    assert shifts != Matchings(2, 3, [(1, 1), (0, 2)])
    with pytest.raises(ValueError, match="names must name each of the 2 arms, got 1"):
        DecisionSet.from_arrays({**shifts.to_arrays(), "left_names": written(["Ann"])})


@pytest.mark.parametrize(
    ("make", "message"),
    [
        (lambda: Matchings(0, 1), "left must be a whole number from 1, got 0"),
        (lambda: Matchings(10**5, 10**5), "left times right must be at most 100000000, got 10000000000"),
        (lambda: Matchings(2, 2, size=3), "size must be at most 2, the largest matching of edges, got 3"),
        (lambda: Matchings(2, 2, [(0, 0), (1, 0)], size=2), "size must be at most 1"),
        (lambda: Matchings(2, 2, size=0), "size must be a whole number from 1, got 0"),
        (lambda: Matchings(2, 2, []), r"edges must be one or more pairs, of shape \(m, 2\), got shape \(0,\)"),
        (lambda: Matchings(2, 3, [(0, 3)]), r"edges must be pairs from \(0, 0\) to \(1, 2\), got \(0, 3\)"),
        (lambda: Matchings(["a", "a"], 2), "left must be different names, got 'a' twice"),
        (lambda: Matchings(2, []), "the number of names in right must be a whole number from 1, got 0"),
        (lambda: Matchings("ab", 2), "left must be a whole number from 1, got 'ab'"),
        (lambda: Matchings(["a"], ["b"], [("a", "c")]), "edges must be pairs of a name of left and one of right"),
        (lambda: Matchings(2, 2, np.ones((3, 2), bool)), r"edges must have shape \(2, 2\) as a matrix, got \(3, 2\)"),
        (lambda: Matchings(2, 2).by_arm([1, 2, 3, 4]), r"matrix must have shape \(2, 2\), got \(4,\)"),
        (lambda: Matchings(2, 2).matrix([1, 2]), "values must be a list with a number for each of 4 arms"),
        (lambda: Matchings(2, 2).maximise(np.ones((2, 3))), r"weights must have shape \(4,\)"),
        (lambda: Matchings(2, 2, [(0, 1), (0, 1)]), r"edges must name each pair once, got \(0, 1\) again"),
    ],
)
def test_malformed_families_are_refused(make: Callable[[], Any], message: str) -> None:
    with pytest.raises((TypeError, ValueError), match=message):
        make()
