"""Trace: intervals, tables and how it shows itself."""

from __future__ import annotations

from functools import cache
from typing import Any

import numpy as np
import pytest
from scipy.stats import t as student

from armtriage import Trace, simulate
from conftest import POLICIES


@cache
def run(name: str, **more: Any) -> Trace:
    arguments = {"horizon": 600, "replications": 8, "seed": 3, **more}
    return simulate(POLICIES[name].make(seed=9), POLICIES[name].environment, **arguments)


@pytest.mark.parametrize("level", [0.5, 0.95, 0.999])
def test_interval_is_students(level: float) -> None:
    trace = run("ThompsonSampling")
    error = trace.regret.std(axis=0, ddof=1) / np.sqrt(8)
    expected = student.interval(level, 7, loc=trace.regret.mean(axis=0), scale=np.maximum(error, 1e-300))
    assert np.allclose(trace.interval(level), expected, rtol=1e-9, atol=1e-12)


def test_interval_is_at_95_percent_by_default() -> None:
    trace = run("ThompsonSampling")
    assert np.array_equal(trace.interval(), trace.interval(0.95))


def test_interval_of_one_replication_is_infinite() -> None:
    low, high = run("ThompsonSampling", replications=1).interval()
    assert set(low) | set(high) == {-np.inf, np.inf}


@pytest.mark.parametrize("level", [0.0, 1.0, -0.5, 95, float("nan")])
def test_bad_level_is_refused_by_its_value(level: float) -> None:
    with pytest.raises(ValueError, match=f"level must be .* got {level}"):
        run("CombUCB1").interval(level)


def test_mean_is_over_the_replications() -> None:
    trace = run("ThompsonSampling")
    assert np.array_equal(trace.mean, trace.regret.sum(axis=0) / 8)


def test_table_has_a_row_for_each_replication_and_checkpoint() -> None:
    trace = run("CombUCB1", checkpoints=(5, 600), replications=2)
    assert trace.to_polars().to_dict(as_series=False) == {
        "policy": ["CombUCB1"] * 4,
        "replication": [0, 0, 1, 1],
        "rounds": [5, 600, 5, 600],
        "regret": trace.regret.ravel().tolist(),
    }


def test_table_numbers_the_replications_as_simulate_does() -> None:
    table = run("CombUCB1", checkpoints=(600,), replications=2, first_replication=5).to_polars()
    assert table["replication"].to_list() == [5, 6]


def test_repr_tells_policy_arms_replications_and_seed() -> None:
    first = repr(run("CombUCB1")).splitlines()[0]
    assert first == "Trace of CombUCB1: 10 arms, 8 runs, policy seed 3, reward seed 5"


def test_repr_ends_with_the_regret_at_the_horizon() -> None:
    trace = run("ThompsonSampling")
    low, high = (end[-1] for end in trace.interval())
    assert repr(trace).splitlines()[-1].split() == f"600 {trace.mean[-1]:.6g} [{low:.6g}, {high:.6g}]".split()


def test_repr_of_one_replication_has_no_interval() -> None:
    assert "inf" not in repr(run("CombUCB1", replications=1))
