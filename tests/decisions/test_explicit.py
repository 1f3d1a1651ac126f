"""A hundred thousand listed decisions are searched exactly, and malformed lists are refused."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import numpy as np
import pytest

from armtriage import Explicit
from armtriage.kernels.jit import JIT
from decisions.spot_check import spot_check


def test_a_hundred_thousand_listed_decisions() -> None:
    rng = np.random.default_rng(8)
    rows = rng.permuted(np.tile(np.arange(40), (100_000 if JIT else 2000, 1)), axis=1)[:, :5]
    menus = Explicit(rows)
    weights = rng.normal(size=40)
    assert weights[menus.maximise(weights)].sum() == pytest.approx(weights[rows].sum(axis=1).max())
    spot_check(menus, weights, 8)
    assert menus == Explicit(rows[::-1].tolist(), 40)
    assert [arms.tolist() for arms in menus] == sorted(map(list, {tuple(sorted(row)) for row in rows.tolist()}))


@pytest.mark.parametrize(
    ("make", "message"),
    [
        (lambda: Explicit([]), "decisions must hold at least one decision that has an arm, got none"),
        (lambda: Explicit([[]]), "decisions must hold at least one decision that has an arm, got none"),
        (lambda: Explicit([[0], [1, 1]]), "decisions must name each arm once, got arm 1 twice in one"),
        (lambda: Explicit([[0], [-2]]), "decisions must name arms from 0, got -2"),
        (lambda: Explicit([[0], [3]], n_arms=3), r"decisions must name arms in 0\.\.2, as n_arms has it, got 3"),
        (lambda: Explicit([[0], 1]), "decisions must be lists of whole numbers, got 1 as number 1"),
        (lambda: Explicit([[0], [0.5]]), r"decisions must be lists of whole numbers, got \[0.5\] as number 1"),
        (lambda: Explicit("ab"), "decisions must be lists of arms, got 'ab'"),
        (lambda: Explicit(3), "decisions must be lists of arms, got 3"),
    ],
)
def test_malformed_families_are_refused(make: Callable[[], Any], message: str) -> None:
    with pytest.raises((TypeError, ValueError), match=message):
        make()
