"""Several targets are sorted into the best, those that may be, and those that are beaten."""

from __future__ import annotations

import json

import numpy as np
import pytest

from armtriage import SlateLog, compare, evaluate
from logs.worlds import learned


def test_clear_differences_are_certain() -> None:
    world = learned(1, 4000)
    order = np.argsort(-world.means).tolist()
    found = compare(world.log, {"worst": order[-3:], "best": order[:3], "middle": order[4:7]})
    assert next(iter(found.evaluations)) == "best"
    assert found.beaten["worst"] in ("best", "middle")
    low, high = found.differences["worst", "best"]
    assert low <= world.means[order[-3:]].sum() - world.means[order[:3]].sum() <= high
    assert json.loads(json.dumps(found.to_dict()))["text"] == str(found)
    assert "beaten by" in found._repr_html_()


def test_what_two_targets_share_cancels() -> None:
    world = learned(2, 1500)
    found = compare(world.log, {"one": [0, 1, 2], "two": [0, 1, 3]}, alpha=0.05)
    low, high = found.differences["one", "two"]
    apart = [evaluate(world.log, arms) for arms in ([0, 1, 2], [0, 1, 3])]
    assert high - low < sum(one.high - one.low for one in apart)
    assert low <= world.means[2] - world.means[3] <= high


def test_few_decisions_leave_everything_open() -> None:
    found = compare(learned(3, 10).log, {"one": [0, 1, 2], "two": [3, 4, 5]})
    assert (found.best, found.open, found.beaten) == (None, ("one", "two"), {})
    assert str(found).startswith("Nothing is certain yet: any of 'one' and 'two' may be best.")


def test_little_is_best_where_costs_are_told() -> None:
    log = SlateLog.from_columns(
        arms=[[0], [1]] * 500,
        rewards=[[1], [0]] * 500,
        inclusion=[[0.5]] * 1000,
        n_arms=2,
        direction="minimize",
    )
    assert compare(log, {"dear": [0], "cheap": [1]}).best == "cheap"


def test_a_certain_best_is_wrong_in_few_logs() -> None:
    # Equal means: any verdict is wrong. 5% of 80 logs may have one; 11 or more would be 1 in 470.
    wrong = 0
    for seed in range(80):
        rng = np.random.default_rng([9, seed])
        arms = rng.integers(0, 2, (200, 1))
        rewards = (rng.random((200, 1)) < 0.4).astype(float)
        log = SlateLog.from_columns(arms=arms, rewards=rewards, inclusion=np.full((200, 1), 0.5), n_arms=2)
        wrong += bool(compare(log, {"one": [0], "two": [1]}).beaten)
    assert wrong <= 10


def test_targets_must_be_two_or_more_with_names() -> None:
    log = learned(1, 10).log
    with pytest.raises(ValueError, match="targets must be a mapping of two targets or more"):
        compare(log, {"one": [0]})
    with pytest.raises(TypeError, match="targets must have names that are text, got 1"):
        compare(log, {1: [0], 2: [1]})  # type: ignore[dict-item]
