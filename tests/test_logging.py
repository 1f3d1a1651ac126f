"""What takes long, is kept or goes wrong is told to `logging`, under one name."""

from __future__ import annotations

import logging
from pathlib import Path

import pytest

from armtriage import CombUCB1, Experiment, Policy, StochasticEnvironment, ThompsonSampling, simulate


def test_saving_loading_simulating_and_cells_are_logged(tmp_path: Path, caplog: pytest.LogCaptureFixture) -> None:
    caplog.set_level(logging.INFO, "armtriage")
    policy, env = CombUCB1(3, budget=1, seed=7), StochasticEnvironment([0.1, 0.5, 0.9], 3, seed=7)
    policy.ask()
    policy.save(tmp_path / "one")
    Policy.load(tmp_path / "one")
    simulate(policy, env, horizon=50, replications=2)
    worlds = [{"instance": "random", "n_arms": 3, "budget": 1}]
    Experiment(worlds, ["comb_ucb1"], name="study", horizon=20, replications=1, seed=7).run()
    said = [record.getMessage() for record in caplog.records if record.levelno == logging.INFO]
    assert {record.name for record in caplog.records} == {"armtriage"}
    assert said[0] == f"saved CombUCB1 after 1 decisions to {tmp_path / 'one'}"
    assert said[1] == f"loaded CombUCB1 after 1 decisions from {tmp_path / 'one'}"
    assert said[2].startswith("simulated CombUCB1 in StochasticEnvironment(3 arms, ")
    assert ": 2 x 50 rounds, " in said[2]
    assert any("of 'study' is played (1 of 1)" in one for one in said)


def test_a_change_that_was_noticed_is_logged(caplog: pytest.LogCaptureFixture) -> None:
    caplog.set_level(logging.INFO, "armtriage")
    policy = ThompsonSampling(2, budget=2, seed=7)
    policy.watch(false_alarm=0.01)
    for number in range(400):
        policy.tell(policy.ask(), [float(number < 200), 0.0])
    assert any("ThompsonSampling noticed at decision" in record.getMessage() for record in caplog.records)
