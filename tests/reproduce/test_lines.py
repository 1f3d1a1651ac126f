"""Powers are fitted as results do, and judged with bounds by one rule."""

from __future__ import annotations

from typing import Any

import numpy as np
import polars
import pytest

from armtriage import Experiment
from armtriage.reproduce.lines import above_bound, below_bound, power_finding, powers, worst


def small(experiment: dict[str, Any], **rest: Any) -> Any:
    return Experiment([experiment], ["greedy", "random"], replications=6, seed=7, **rest).run(engine="threads")


@pytest.mark.parametrize(
    ("low", "slope", "high", "rule", "agrees"),
    [
        (0.47, 0.52, 0.57, {}, True),
        (0.54, 0.55, 0.56, {}, True),  # within the room for logarithms
        (0.56, 0.57, 0.58, {}, False),
        (0.42, 0.43, 0.44, {}, False),
        (0.42, 0.43, 0.44, {"side": "at most"}, True),
        (0.56, 0.57, 0.58, {"side": "at most"}, False),
        (0.56, 0.57, 0.58, {"side": "at least"}, True),
        (0.42, 0.43, 0.44, {"side": "at least"}, False),
        (0.56, 0.57, 0.58, {"whole": 0.6}, True),
        (0.66, 0.67, 0.68, {"whole": 0.6}, False),
        (0.47, 0.52, 0.57, {"known": False}, None),
        (None, None, None, {}, None),
        (None, 0.52, None, {}, None),  # no interval
        (-0.2, 0.52, 1.2, {}, None),  # too wide to tell theorems apart
    ],
)
def test_powers_are_judged(low: Any, slope: Any, high: Any, rule: dict[str, Any], agrees: bool | None) -> None:
    row = {"slope": slope, "low": low, "high": high}
    assert power_finding("claim", "source", row, 0.5, **rule).agrees is agrees


def test_bounds_are_judged() -> None:
    row = {"policy": "a", "mean": 4.0, "low": 3.0, "high": 5.0, "upper": 3.9, "lower": 5.1, "most": 10.0}
    assert below_bound("c", "s", [row]).agrees is False
    assert below_bound("c", "s", [{**row, "upper": 4.1}]).agrees is True
    assert above_bound("c", "s", [row]).agrees is False
    assert above_bound("c", "s", [{**row, "lower": 4.9}]).agrees is True


def test_worst_is_the_largest_mean() -> None:
    results = small({"instance": "hidden_pairs", "n_arms": 8, "budget": [2, 4], "gap": [0.1, 0.2, 0.3]}, horizon=200)
    table = worst(results, "environment.budget")
    means = results.summary().group_by("policy", "environment.budget").agg(polars.col("mean").max())
    wanted = {(policy, budget): mean for policy, budget, mean in means.iter_rows()}
    assert {(row["policy"], row["environment.budget"]): row["mean"] for row in table.iter_rows(named=True)} == wanted
    random = table.filter(table["policy"] == "random")
    assert random["gap"].to_list() == [0.3, 0.3]
    assert not random["inside"].any()


def test_powers_are_those_of_results() -> None:
    results = small({"instance": "random", "n_arms": 5, "budget": 2}, horizon=[100, 1000, 10_000])
    ours = powers(results, results.summary(), "horizon")
    theirs = results.slopes("horizon")
    for name in ("slope", "low", "high"):
        np.testing.assert_allclose(ours[name].to_numpy(), theirs[name].to_numpy())
