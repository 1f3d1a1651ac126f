"""Arms that were not counted beforehand share a second delta, however they come."""

from __future__ import annotations

import math

import pytest
from hypothesis import given
from hypothesis import strategies as st

from armtriage.arms import Roster


@given(
    st.integers(1, 9),
    st.lists(st.one_of(st.integers(1, 60), st.lists(st.integers(0, 10**6), max_size=40)), max_size=30),
)
def test_shares_sum_to_at_most_two_deltas_in_any_order_of_adds_and_forgets(first: int, events: list[object]) -> None:
    """A number adds so many arms, a list retires and forgets those arms; what was spent stays spent."""
    roster = Roster(first)
    spent = [1.0 / roster.divisor(arm) for arm in range(first)]
    assert math.fsum(spent) == pytest.approx(1.0)
    for now, event in enumerate(events):
        if isinstance(event, int):
            changed = roster.add(event, now).tolist()
        else:
            assert isinstance(event, list)
            changed = sorted({arm % roster.n_arms for arm in event})
            roster.retire(changed)
            roster.restore(changed, now)
        spent += [1.0 / roster.divisor(arm) for arm in changed]
    assert math.fsum(spent) <= 2.0
    assert len(spent) == first + roster.extra
    # Each arm has its latest share, which is one of those, so the intervals in use cost no more.
    assert math.fsum(roster.view().share) <= 2.0


@pytest.mark.parametrize("first", [1, 3, 7])
def test_blocks_of_later_arms_double_and_spend_what_they_should(first: int) -> None:
    roster = Roster(first)
    blocks = 9
    divisors = [roster.divisor(arm) for arm in roster.add(first * (2**blocks - 1), 0)]
    for block in range(blocks):
        mine, divisors = divisors[: first * 2**block], divisors[first * 2**block :]
        assert set(mine) == {(block + 1.0) * (block + 2.0) * first * 2.0**block}
        assert math.fsum(1.0 / one for one in mine) == pytest.approx(1.0 / ((block + 1) * (block + 2)))
    assert not divisors
    assert roster.extra == first * (2**blocks - 1)


def test_the_first_later_arms_pay_twice_the_share_of_the_others() -> None:
    roster = Roster(5)
    assert [roster.divisor(arm) for arm in (*range(5), *roster.add(6, 0))] == [5.0] * 5 + [10.0] * 5 + [60.0]
