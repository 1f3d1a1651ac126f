"""Lifts: groups by a key, the order of asking, units and periods, windows, files, threads."""

import hmac
import math
import threading
from typing import Any

import numpy as np
import pytest

from armtriage import AlreadyTold, DamagedFile, UnknownDecision
from armtriage._files import pack_archive, unpack_archive
from armtriage.trials import Contrast, Lift
from armtriage.trials.lift import Coin

KEY = b"sixteen bytes or more"
DAY = 86_400.0


def test_groups_have_their_share_and_two_keys_do_not_know_each_other() -> None:
    one, two = Lift(0.2, key=KEY), Lift(0.2, key=KEY[::-1])
    groups = np.array([[lift.group(i) == "control" for i in range(100_000)] for lift in (one, two)])
    spread = 4.0 * math.sqrt(0.2 * 0.8 / 100_000)
    assert np.all(np.abs(groups.mean(axis=1) - 0.2) < spread)
    assert abs(float(np.corrcoef(groups)[0, 1])) < 4.0 / math.sqrt(100_000)
    again = Lift(0.2, key=KEY)
    assert [again.group(str(i)) == "control" for i in range(1000)] == groups[0, :1000].tolist()


def test_totals_count_in_the_order_of_asking_whatever_order_they_come_in() -> None:
    rng = np.random.default_rng(1)
    found = []
    for order in (np.arange(300), np.arange(300)[::-1], rng.permutation(300)):
        lift = Lift(0.3, (0, 6), key=KEY)
        groups = [lift.group(f"visit-{i}") for i in range(300)]
        for i in order.tolist():
            lift.tell(f"visit-{i}", total=i % 7)
        found.append(lift.interval())
    assert found[0] == found[1] == found[2]
    contrast = Contrast(0.3, 6.0)
    for i, group in enumerate(groups):
        contrast.add(group == "control", float(i % 7))
    assert (found[0].low, found[0].high, found[0].lift) == (contrast.low, contrast.high, contrast.estimate)
    assert found[0].decisions == 300


def test_decisions_that_are_not_told_are_closed_alike() -> None:
    lift = Lift(0.5, (0, 6), key=KEY)
    for i in range(10):
        lift.group(i)
    lift.tell(3, 2)
    assert lift.close_before(9) == 8
    assert lift.interval().decisions == 9
    assert lift.interval().waiting == 1
    with pytest.raises(UnknownDecision, match="4 is not waited for"):
        lift.tell(4, 1)
    lift.tell(9, 100)  # more than the most counts as the most
    twin = Lift(0.5, (0, 6), key=KEY)
    for i in range(10):
        twin.group(i)
        twin.tell(i, {3: 2, 9: 6}.get(i, 0))
    assert lift.interval() == twin.interval()


def test_costs_are_saved() -> None:
    paid, earned = Lift(0.5, (0, 4), key=KEY, direction="minimize"), Lift(0.5, (0, 4), key=KEY)
    for i in range(500):
        cost = 1 + i % 2 + (paid.group(i) == "control")
        earned.group(i)
        paid.tell(i, cost)
        earned.tell(i, 4 - cost)
    one, other = paid.interval(), earned.interval()
    assert (one.low, one.high, one.lift) == (other.low, other.high, other.lift)
    assert one.policy_mean == pytest.approx(4 - other.policy_mean)
    assert one.better
    assert "saved" in str(one)


def test_only_a_unit_first_decision_in_a_period_counts() -> None:
    lift = Lift(0.5, key=KEY, by="unit", period_days=30)
    groups: dict[str, str] = {}
    for i in range(1000):
        unit = f"visitor-{i % 100}"
        group = lift.group(i, unit=unit, at=5 * DAY)
        assert groups.setdefault(unit, group) == group
        lift.tell(i, 1.0)
    assert lift.interval().decisions == 100
    # In the next period the coin is thrown again, and a clock that is set back throws none.
    later = {unit: lift.group(f"later-{unit}", unit=unit, at=31 * DAY) for unit in groups}
    assert later != groups
    assert all(lift.group(f"back-{unit}", unit=unit, at=6 * DAY) == group for unit, group in later.items())
    with pytest.raises(TypeError, match="unit must be given"):
        lift.group("nameless")


def test_a_window_counts_what_is_asked_from_then_on() -> None:
    lift = Lift(0.5, key=KEY)
    for i in range(20):
        lift.group(i)
    for i in range(10):
        lift.tell(i, 1.0)
    lift.start_window()
    for i in range(20, 30):
        lift.group(i)
    for i in range(10, 30):
        lift.tell(i, 1.0)
    found = lift.interval()
    assert (found.decisions, found.since) == (10, 20)


def test_words() -> None:
    lift = Lift(0.5, key=KEY)
    assert str(lift.interval()) == "Nothing can be said yet: of 0 decisions 0 are the control's."
    for i in range(4000):
        lift.tell(i, float(lift.group(i) == "control"))
    found = lift.interval()
    assert found.worse
    assert "1 less" in str(found)
    assert found.to_dict()["worse"]
    assert found.to_dict()["text"] == str(found)
    # A client that asks again when it is put into the control, and never tells of it.
    lucky = Lift(0.5, key=KEY)
    for i in range(4000):
        if Lift(0.5, key=KEY).group(i) == "policy" or i % 2:
            lucky.group(i)
            lucky.tell(i, 1.0)
    found = lucky.interval()
    assert not found.share_ok
    assert (found.low, found.high) == (-1.0, 1.0)
    assert "not drawn with the share" in str(found)


def test_saved_and_loaded_it_goes_on() -> None:
    one = Lift(0.3, (-1, 5), key=KEY, by="unit")
    for i in range(200):
        one.group(i, unit=i % 50, at=DAY * i)
        if i % 3:
            one.tell(i, i % 5)
    other = Lift.from_bytes(one.to_bytes())
    for lift in (one, other):
        for i in range(200, 300):
            lift.group(i, unit=i % 50, at=DAY * i)
        lift.close_before(299)
    assert one.interval() == other.interval()
    assert one.to_bytes() == other.to_bytes()


@pytest.mark.parametrize(
    ("change", "said"),
    [
        ({"share": 2.0}, "share must be"),
        ({"kind": "policy"}, "must be a lift"),
        ({"key": "00"}, "key must be 16 bytes"),
        ({"asked": -1}, "whole numbers from 0"),
        ({"asked": 1}, "no more decisions"),
        ({"open": [1, 1]}, "must be one for each|different"),
        ({"capital": np.full((2, 24), np.nan)}, "finite numbers"),
        ({"sums": np.array([0.5, 0, 0, 0, 0])}, "whole numbers from 0"),
        ({"sums": np.array([1.0, 9, 0, 0, 0])}, "sums must be from 0"),
        ({"total": np.full(20, 9.0)}, "totals of open decisions"),
        ({"met": np.array([-1])}, "units must be"),
    ],
)
def test_forged_bytes_are_refused(change: dict[str, Any], said: str) -> None:
    lift = Lift(0.3, key=KEY)
    for i in range(40):
        lift.group(i)
    for i in range(20):
        lift.tell(i, 1.0)
    header, arrays = unpack_archive("content", lift.to_bytes())
    for name, value in change.items():
        (header if name in header else arrays)[name] = value
    with pytest.raises(DamagedFile, match=said):
        Lift.from_bytes(pack_archive(header, arrays))
    with pytest.raises(DamagedFile, match="not a file that armtriage saved"):
        Lift.from_bytes(b"nothing")


def test_bad_input_is_named_and_changes_nothing() -> None:
    lift = Lift(0.5, key=KEY)
    lift.group("a")
    bad: Any = 1.5
    before = lift.to_bytes()
    calls: list[tuple[Any, type[Exception], str]] = [
        (lambda: lift.tell("a", math.nan), ValueError, "total must be a finite number from 0, got nan"),
        (lambda: lift.tell("a", -1), ValueError, "total must be a finite number from 0, got -1"),
        (lambda: lift.tell("b", 1), UnknownDecision, "'b' is not waited for"),
        (lambda: lift.close_before("b"), UnknownDecision, "'b' is not waited for"),
        (lambda: lift.close_before("a", default=2.0), ValueError, "default must be a number from 0 to 1, got 2.0"),
        (lambda: lift.group(bad), TypeError, "decision must be a text or a whole number, got 1.5"),
        (lambda: Lift(0.5, key=b"short"), ValueError, "key must be 16 bytes or more"),
        (lambda: Lift(1.0), ValueError, "share must be a number strictly between 0 and 1"),
        (lambda: Lift(by="visit"), ValueError, "by must be"),
        (lambda: Lift(period_days=0), ValueError, "period_days must be a positive number"),
        (lambda: Lift(by="unit").group(1, unit=2, at=-1.0), ValueError, "at must be seconds since 1970"),
    ]
    for call, error, said in calls:
        with pytest.raises(error, match=said):
            call()
    assert lift.to_bytes() == before
    lift.group("z")
    lift.tell("z", 1.0)
    with pytest.raises(AlreadyTold, match="'z' has been told 1"):
        lift.tell("z", 1.0)


def test_threads_take_turns() -> None:
    lift = Lift(0.5, key=KEY)

    def play(start: int) -> None:
        for i in range(start, start + 500):
            lift.group(i)
            lift.tell(i, 1.0)

    threads = [threading.Thread(target=play, args=(1000 * i,)) for i in range(4)]
    for one in threads:
        one.start()
    for one in threads:
        one.join()
    found = lift.interval()
    assert (found.decisions, found.waiting) == (2000, 0)
    assert found.policy_mean == found.control_mean == 1.0


@pytest.mark.parametrize("key", [b"a secret of 16 bytes or more", bytes(range(64)), bytes(range(100))])
def test_the_coin_is_hmac_of_sha_256(key):
    digest = hmac.digest(key, b"unit 7 visitor-3", "sha256")
    first, second = (int.from_bytes(digest[start : start + 8], "big") for start in (0, 8))
    coin = Coin(key)
    assert coin.toss("unit 7 visitor-3", (first + 2**12) / 2**64) == (True, second >> 1)
    assert coin.toss("unit 7 visitor-3", (first - 2**12) / 2**64) == (False, second >> 1)
