"""Guardrails: three kinds of limits, when they go off, and when they do not."""

from typing import Any

import numpy as np
import pytest

from armtriage.trials import Guardrail


def _alarms(runs: int, rate: float, seed: int, **limit: Any) -> int:
    """Count runs of 5,000 decisions, half of them the control's at a rate of 0.05, with an alarm at any of 50 looks."""
    rng, alarms = np.random.default_rng(seed), 0
    for _ in range(runs):
        guardrail = Guardrail(0.5, alpha=0.1, **limit)
        groups = rng.random(5000) < 0.5
        values = (rng.random(5000) < np.where(groups, 0.05, rate)).astype(float)
        for part in np.array_split(np.arange(5000), 50):
            guardrail.add(groups[part], values[part])
        alarms += guardrail.breached
    return alarms


@pytest.mark.parametrize(
    ("limit", "kept", "broken"),
    [({"ratio": 2.0}, 0.10, 0.20), ({"difference": 0.01}, 0.06, 0.12), ({"most": 0.06}, 0.06, 0.09)],
)
def test_alarms_go_off_beyond_the_limit_and_hardly_ever_at_it(
    limit: dict[str, float], kept: float, broken: float
) -> None:
    # One in ten may at the limit; then more than 22 of 100 do with probability 0.0001.
    assert _alarms(100, kept, 1, **limit) <= 22
    assert _alarms(20, broken, 2, **limit) == 20


def test_a_number_that_must_not_fall() -> None:
    rng = np.random.default_rng(3)
    groups = rng.random(4000) < 0.5
    values = (rng.random(4000) < np.where(groups, 0.9, 0.7)).astype(float)
    apart, alone = Guardrail(0.5, difference=0.1, falls=True), Guardrail(most=0.8, falls=True)
    for one in (apart, alone):
        one.add(groups, values)
        assert one.breached
    assert str(apart).startswith("Alarm: the policy's mean is at least 0.1")
    assert "below the control's with 99% confidence" in str(apart)
    assert str(alone).startswith("Alarm: the policy's mean is at most 0.7")
    assert str(alone).endswith("at least 0.8 is allowed.")
    fine = Guardrail(most=0.6, falls=True)
    fine.add(groups, values)
    assert str(fine).startswith("No alarm")


def test_an_alarm_stays_on() -> None:
    guardrail = Guardrail(most=0.1)
    guardrail.add([False] * 200, [1.0] * 200)
    guardrail.add([False] * 100_000, [0.0] * 100_000)
    assert guardrail.breached


def test_many_at_once_are_as_one_after_the_other() -> None:
    rng = np.random.default_rng(4)
    groups, values = rng.random(200) < 0.3, rng.uniform(1.0, 3.0, 200)
    limits: list[dict[str, Any]] = [{"difference": 0.1}, {"most": 2.5}]
    for limit in limits:
        at_once, each = Guardrail(0.3, (1.0, 3.0), **limit), Guardrail(0.3, (1.0, 3.0), **limit)
        at_once.add(groups, values)
        for control, value in zip(groups.tolist(), values.tolist(), strict=True):
            each.add(control, value)
        assert str(at_once) == str(each)


@pytest.mark.parametrize(
    ("given", "error", "said"),
    [
        ({}, TypeError, "one of ratio, difference and most must be given, got none"),
        ({"most": 1.0, "ratio": 2.0}, TypeError, "got ratio, most"),
        ({"ratio": 2.0}, TypeError, "share must be given with ratio"),
        ({"share": 0.5, "ratio": 1.2, "value_range": (1, 2)}, ValueError, "a ratio needs a range that starts at 0"),
        ({"share": 0.5, "ratio": 1.2, "falls": True}, ValueError, "must not rise"),
        ({"most": float("nan")}, ValueError, "most must be a finite number, got nan"),
        ({"share": 2.0, "difference": 0.1}, ValueError, "share must be a number strictly between 0 and 1"),
    ],
)
def test_limits_that_cannot_be_are_named(given: dict[str, Any], error: type[Exception], said: str) -> None:
    with pytest.raises(error, match=said):
        Guardrail(**given)
    guardrail = Guardrail(most=0.5)
    with pytest.raises(ValueError, match="value must be from 0 to 1, got 7"):
        guardrail.add(False, 7)


@pytest.mark.parametrize("limit", [{"ratio": 1.2}, {"difference": 0.1}, {"most": 0.3}])
@pytest.mark.parametrize("falls", [False, True])
def test_the_quick_look_says_what_the_bound_says(limit: dict[str, float], falls: bool) -> None:
    if falls and "ratio" in limit:
        return
    if falls and "most" in limit:
        limit = {"most": 1.7}
    rng = np.random.default_rng(5)
    guardrail, seen = Guardrail(0.4, (0.0, 2.0), falls=falls, **limit), set()
    for _ in range(400):
        control = bool(rng.random() < 0.4)
        guardrail.add(control, float(2.0 * (rng.random() < (0.2 if control != falls else 0.5))))
        low, high = guardrail.value_range
        allowed = 0.0 if "ratio" in limit else guardrail.limit
        if "most" in limit:
            allowed = high - guardrail.limit if falls else guardrail.limit - low
        seen.add(guardrail._excess > allowed)
        assert guardrail._is_beyond() == (guardrail._excess > allowed)
    assert seen == {False, True}


def test_what_was_counted_can_be_kept_and_forged_numbers_are_refused() -> None:
    guardrail, other = Guardrail(0.5, ratio=1.2), Guardrail(0.5, ratio=1.2)
    rng = np.random.default_rng(9)
    guardrail.add(rng.random(3000) < 0.5, (rng.random(3000) < 0.3).astype(float))
    arrays = guardrail.to_arrays()
    other.restore(arrays)
    assert str(other) == str(guardrail)
    for one in (guardrail, other):
        one.add([False] * 900, [1.0] * 900)
    assert str(other) == str(guardrail)
    assert other.breached
    for name, wrong in (("mean.sums", [3.5, 1.0]), ("mean.sums", [3.0, 9.0]), ("contrast.sums", [-1.0] * 5)):
        with pytest.raises(ValueError, match="must be"):
            other.restore({**arrays, name: np.array(wrong)})
    with pytest.raises(ValueError, match="capital of a mean must be 24 finite numbers"):
        other.restore({**arrays, "mean.capital": arrays["mean.capital"] * np.nan})
