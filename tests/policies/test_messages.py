"""Errors that a newcomer meets first: they name the argument, the value, and what to do."""

from __future__ import annotations

import re
from collections.abc import Callable
from typing import Any

import pytest

from armtriage import C2UCB, FeedbackGraph, Guard, GuardedLinear, GuardedThompson, Policy, certify

CASES: list[tuple[Callable[[], Any], type[Exception], str]] = [
    (lambda: GuardedLinear(3, 2), ValueError, "budget must be given, a whole number from 1 to 3, got none or 0"),
    (
        lambda: GuardedLinear(budget=1),
        ValueError,
        "dimension must be given, a whole number from 1, where there are no features, got none or 0",
    ),
    (
        lambda: GuardedLinear(dimension=2, budget=1, names=["tea"]),
        ValueError,
        "names must be None where n_arms is None, got ['tea']: give n_arms, too, or ask with {name: row}",
    ),
    (
        lambda: GuardedThompson(4, budget=2, horizon=100),  # type: ignore[call-arg]
        TypeError,
        "GuardedThompson takes no horizon, got 100; it takes graph, budget, decisions, ",
    ),
    (
        lambda: C2UCB(4, 2, budget=2, horizon=100),  # type: ignore[call-arg]
        TypeError,
        "C2UCB takes no horizon, got 100; it takes n_arms, dimension, budget, ",
    ),
    (lambda: Guard(lambda number: [0], 2, budget=1, speed=3), TypeError, "Guard takes no speed, got 3; it takes"),  # type: ignore[call-arg]
    (
        lambda: certify([5, 5], [5, 5], [9.0, 1.0], budget=1),
        ValueError,
        "sums must lie in [0, 5] for the 5 rewards of arm 0, got 9.0",
    ),
    (
        lambda: FeedbackGraph.cliques(3),  # type: ignore[arg-type]
        ValueError,
        "sizes must be a list of one or more whole numbers from 1, such as [2, 3], got 3",
    ),
    (lambda: GuardedThompson(4, budget=2).save("/no/folder/x"), FileNotFoundError, "There is no such folder: '/no/"),
]


@pytest.mark.parametrize(("call", "error", "said"), CASES)
def test_it_says_what_is_wrong(call: Callable[[], Any], error: type[Exception], said: str) -> None:
    with pytest.raises(error, match=re.escape(said)):
        call()


def test_a_policy_of_ones_own_refuses_what_it_does_not_take() -> None:
    class Own(Policy):
        def _select(self, number: int) -> Any: ...
        def _update(self, number: int, arms: Any, rewards: Any) -> None: ...

    with pytest.raises(TypeError, match="Own takes no depth, got 3; it takes graph, budget, decisions, names, seed, "):
        Own(3, budget=1, depth=3)
    assert "unknown" not in Own(3, budget=1).config
