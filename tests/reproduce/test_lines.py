"""Tables of regret: the worst gap is the one with the largest mean, and powers are fitted as results do."""

from __future__ import annotations

from typing import Any

import numpy as np
import polars

from armtriage import Experiment
from armtriage.reproduce.lines import powers, worst


def small(experiment: dict[str, Any], **rest: Any) -> Any:
    return Experiment([experiment], ["greedy", "random"], replications=6, seed=7, **rest).run(engine="threads")


def test_worst_is_the_largest_mean() -> None:
    results = small({"instance": "hidden_pairs", "n_arms": 8, "budget": [2, 4], "gap": [0.1, 0.2, 0.3]}, horizon=200)
    table = worst(results, "S", {"S": "environment.budget"})
    means = results.summary().group_by("policy", "environment.budget").agg(polars.col("mean").max())
    assert set(table.select("policy", "S", "mean").rows()) == set(means.rows())
    random = table.filter(table["policy"] == "random")
    assert random["gap"].to_list() == [0.3, 0.3]
    assert not random["inside"].any()


def test_powers_are_those_of_results() -> None:
    results = small({"instance": "random", "n_arms": 5, "budget": 2}, horizon=[100, 1000, 10_000])
    ours = powers(results, results.summary(), "horizon")
    theirs = results.slopes("horizon")
    for name in ("slope", "low", "high"):
        np.testing.assert_allclose(ours[name].to_numpy(), theirs[name].to_numpy())
