"""Powers, bounds, ratios and targets are judged by one rule each."""

from __future__ import annotations

from typing import Any

import pytest

from armtriage.reproduce.judges import RARE, above_bound, below_bound, chance, compared, power, target


@pytest.mark.parametrize(
    ("low", "slope", "high", "rule", "agrees"),
    [
        (0.47, 0.52, 0.57, {}, True),
        (0.49, 0.55, 0.56, {}, True),
        (0.54, 0.55, 0.56, {}, None),  # within the room for logarithms
        (0.44, 0.47, 0.53, {"side": "at most"}, None),
        (0.47, 0.53, 0.56, {"side": "at least"}, None),
        (0.2, 0.5, 0.8, {}, None),  # too wide to tell one power from another
        (0.56, 0.57, 0.58, {}, False),
        (0.42, 0.43, 0.44, {}, False),
        (0.42, 0.43, 0.44, {"side": "at most"}, True),
        (0.56, 0.57, 0.58, {"side": "at most"}, False),
        (0.56, 0.57, 0.58, {"side": "at least"}, True),
        (0.42, 0.43, 0.44, {"side": "at least"}, False),
        (0.56, 0.57, 0.58, {"whole": 0.6}, True),
        (0.66, 0.67, 0.68, {"whole": 0.6}, False),
        (0.47, 0.52, 0.57, {"known": lambda row: False}, None),
        (None, None, None, {}, None),
        (None, 0.52, None, {}, None),  # no interval
    ],
)
def test_powers_are_judged(low: Any, slope: Any, high: Any, rule: dict[str, Any], agrees: bool | None) -> None:
    row = {"slope": slope, "low": low, "high": high, "whole": rule.pop("whole", None)}
    found = power(0.5, why=lambda row: "It is known why", **rule)([row])
    assert found.agrees is agrees
    assert found.text.endswith("It is known why.") == (agrees is False or "known" in rule)


def test_bounds_are_judged() -> None:
    row = {"policy": "a", "mean": 4.0, "low": 3.0, "high": 5.0, "upper": 3.9, "lower": 5.1, "most": 10.0}
    assert below_bound([row]).agrees is False
    assert below_bound([{**row, "upper": 4.1}]).agrees is True
    assert above_bound([row]).agrees is False
    assert above_bound([{**row, "lower": 4.9}]).agrees is True


@pytest.mark.parametrize(
    ("ratio", "low", "high", "agrees"),
    [
        (1.0, 0.95, 1.05, True),
        (1.0, 0.8, 1.2, None),
        (1.2, 1.05, 1.3, None),
        (1.2, 1.15, 1.3, False),
        (1.2, None, None, None),
    ],
)
def test_targets_are_judged_at_their_rounds(ratio: float, low: Any, high: Any, agrees: bool | None) -> None:
    row = {"environment": "star", "ratio": ratio, "ratio_low": low, "ratio_high": high, "target": 1.1}
    assert target(100_000)([{**row, "horizon": 100_000}]).agrees is agrees
    short = target(100_000)([{**row, "horizon": 5000}])
    assert short.agrees is None
    assert short.text == (
        "Undecided: the target is for T = 100,000; at T = 5,000 it is "
        + ("within it." if ratio < 1.1 else "not within it.")
    )


@pytest.mark.parametrize(("ends", "agrees"), [((1.4, 1.6), True), ((0.4, 0.6), False), ((0.9, 1.1), None)])
def test_one_loss_outweighs_many_gains(ends: tuple[float, float], agrees: bool | None) -> None:
    rows = [{"environment": "star", "ratio_low": ends[0], "ratio_high": ends[1]}] * 3
    assert compared(rows, True)[0] is agrees
    mixed = [*rows, {"environment": "hubs", "ratio_low": 0.4, "ratio_high": 0.6}]
    assert compared(mixed, True)[0] is False


def test_failures_of_certificates_are_put_down_to_chance_while_they_can_be() -> None:
    assert chance(0, 100, 0.05) == 1.0
    assert chance(9, 100, 0.05) > RARE > chance(16, 100, 0.05)
