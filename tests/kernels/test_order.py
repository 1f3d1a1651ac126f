"""Order statistics: what leads after a selection, whatever the ties."""

from __future__ import annotations

import numpy as np
import pytest

from armtriage.kernels.order import best_arms, best_member, kth_largest, rank_few, sort_arms, sort_pairs, top_first

pytestmark = pytest.mark.plain


def values_of(number: int) -> tuple[np.ndarray, int]:
    """Values, many of them equal in every other problem, and how many of them to choose."""
    rng = np.random.default_rng(number)
    n = int(rng.integers(1, 400))
    values = rng.integers(0, 4, n).astype(float) if number % 2 else rng.normal(size=n)
    return values, n if number % 9 == 8 else int(rng.integers(1, n + 1))


def best_of(values: np.ndarray, k: int) -> list[int]:
    """The k arms of largest value, best first; ties go to the smaller arm."""
    return np.argsort(-values, kind="stable")[:k].tolist()


@pytest.mark.parametrize("number", range(60))
def test_best_arms_are_those_of_largest_value_in_order(number: int) -> None:
    values, k = values_of(number)
    arms = np.full(k, -1)
    best_arms(values, np.full(values.size, np.nan), arms)
    assert arms.tolist() == sorted(best_of(values, k))


@pytest.mark.parametrize("number", range(20))
def test_the_best_member_is_the_first_of_largest_value(number: int) -> None:
    values, k = values_of(number)
    members = np.random.default_rng(number).permutation(values.size)[:k]
    assert best_member(values, members) == members[np.argmax(values[members])]


@pytest.mark.parametrize("number", range(60))
def test_selections_put_the_largest_first(number: int) -> None:
    values, k = values_of(number)
    pairs, arms = values.copy(), np.arange(values.size)
    top_first(pairs, arms, values.size, k)
    assert sorted(arms[:k].tolist()) == sorted(best_of(values, k))
    alone = values.copy()
    assert kth_largest(alone, values.size, k) == np.sort(values)[::-1][k - 1]
    assert np.array_equal(np.sort(alone[:k]), np.sort(values)[values.size - k :])
    pairs, arms = values.copy(), np.arange(values.size)
    sort_pairs(pairs, arms, values.size)
    assert arms.tolist() == best_of(values, values.size)
    assert np.array_equal(pairs, values[arms])


@pytest.mark.parametrize("n", [0, 1, 2, 5, 7, 8, 9, 15, 16, 17, 63, 64])
@pytest.mark.parametrize("ties", [False, True])
def test_few_are_ranked_whatever_their_order_and_what_stands_behind_them(n: int, ties: bool) -> None:
    rng = np.random.default_rng(n)
    values, arms = np.full(64, 9.0), np.full(64, -1)
    values[:n] = rng.integers(0, 4, n) if ties else rng.normal(size=n)
    arms[:n] = rng.permutation(10 * n)[:n]
    kept, ranked = values.copy(), np.full(64, -1)
    rank_few(values, arms, n, ranked)
    assert ranked[:n].tolist() == np.lexsort((arms[:n], -kept[:n])).tolist()
    assert np.array_equal(values[:n], kept[:n])
    assert np.all(ranked[n:] == -1)


@pytest.mark.plain
@pytest.mark.parametrize("size", [0, 1, 2, 3, 7, 64, 65, 300])
def test_arms_are_sorted(size: int) -> None:
    arms = np.random.default_rng(size).permutation(10 * size)[:size].astype(np.int64)
    expected = np.sort(arms)
    sort_arms(arms)
    assert arms.tolist() == expected.tolist()
