"""plan says how long it takes until something is known, and says so when it does not within the horizon."""

from __future__ import annotations

import json
from pathlib import Path
from typing import Any

import numpy as np
import pytest
from typer.testing import CliRunner

from armtriage import FeedbackGraph, Plan, StochasticEnvironment, UniformRandom, plan, plots
from armtriage.certificate import Log, Slates, Watch
from armtriage.cli import app
from armtriage.kernels.random import replication_seed
from armtriage.plan import Milestone
from armtriage.simulation import players
from armtriage.triage import triage_among

EASY = {"n_arms": 4, "budget": 1, "rate": 0.3, "gap": 0.4, "horizon": 3000, "replications": 3, "seed": 7}
WORLD = ("--arms", "4", "--slots", "1", "--rate", "0.3", "--gap", "0.4")
COMMAND = ["plan", *WORLD, "--horizon", "3000", "--replications", "3", "--seed", "7"]


@pytest.fixture(scope="module")
def easy() -> Plan:
    return plan(**EASY)  # type: ignore[arg-type]


def test_milestones_are_when_they_came_true(easy: Plan) -> None:
    for one in easy.strategies:
        assert one.informative.reached == 3
        for run in range(3):
            look = int(np.flatnonzero(easy.rounds == one.informative.decisions[run])[0])
            assert one.informative.lost[run] == one.regret[run, look]
            assert one.bounds[run, look] < easy.best * easy.rounds[look]
    guarded, thompson, equal = easy.strategies
    assert [one.name for one in easy.strategies] == ["guarded", "thompson", "equal shares"]
    assert equal.known.reached == 3
    assert max(guarded.known.reached, thompson.known.reached) == 0
    assert equal.informative.spread_of_loss()[0] > 3 * guarded.informative.spread_of_loss()[0]


def test_milestones_are_those_of_the_certificate(easy: Plan) -> None:
    """Played by ask and tell, it says the same at the look where a milestone is, and not before."""
    graph = FeedbackGraph.semi_bandit(4)
    world = StochasticEnvironment([0.7, 0.3, 0.3, 0.3], graph, seed=7)
    policy, watch, looks = UniformRandom(graph, 1, seed=replication_seed(7, 0)), Watch(4, Slates(1), 0.01), {}
    equal = easy.strategies[2]
    for number in range(int(max(equal.known.decisions[0], equal.informative.decisions[0]))):
        decision = policy.ask()
        policy.tell(decision, world.rewards(number, decision.revealed))
        if number + 1 in easy.rounds:
            bound, worth = watch.bound(policy.tally, number + 1), Log(Slates(1), policy.tally, number + 1, 0.01).worth()
            sure = triage_among(*watch.ends, np.arange(4), 1).confirmed
            looks[number + 1] = sure.size == 1, bound < worth.at_stake
    known, speaks = (min(when for when, reached in looks.items() if reached[which]) for which in (0, 1))
    assert known == equal.known.decisions[0]
    assert speaks == equal.informative.decisions[0]


def test_a_horizon_that_is_too_short_is_said() -> None:
    hard = plan(6, 2, rate=0.02, gap=0.005, horizon=200, replications=2, seed=7)
    assert all(one.informative.reached == one.known.reached == 0 for one in hard.strategies)
    assert "not within 200" in str(hard)
    assert "by the end" in str(hard)
    assert hard.to_dict()["strategies"][0]["known"]["decisions"] == {"median": None, "least": None, "most": None}


def test_without_a_horizon_runs_go_on_until_every_certificate_speaks() -> None:
    hard = plan(10, 2, rate=0.01, gap=0.003, replications=2, seed=7)
    assert 20_000 < hard.horizon == hard.rounds[-1] < 1_000_000
    assert [one.informative.reached for one in hard.strategies] == [2, 2, 2]
    assert hard.strategies[2].informative.decisions.max() > 0.5 * hard.horizon


def test_some_runs_that_never_get_there_are_counted() -> None:
    made = Milestone(np.array([500, -1, -1]), np.array([1.0, 2.0, 3.0]))
    assert made.reached == 1
    assert made.spread() == (np.inf, 500.0, np.inf)
    assert made.spread_of_loss() == (2.0, 1.0, 3.0)


def test_a_seed_fixes_everything_whatever_the_threads(easy: Plan) -> None:
    assert plan(**EASY, workers=1).to_dict() == easy.to_dict()  # type: ignore[arg-type]
    assert json.loads(json.dumps(easy.to_dict())) == easy.to_dict()


def test_how_long_the_machine_takes_does_not_matter(easy: Plan, monkeypatch: pytest.MonkeyPatch) -> None:
    """Simulation goes on in chunks that grow while they are quick, and these end between looks as well."""
    monkeypatch.setattr(players, "_CHUNK_SECONDS", 0.0)
    monkeypatch.setattr(players, "_FIRST_CHUNK", 32)
    slow = plan(**EASY)  # type: ignore[arg-type]
    assert slow.to_dict() == easy.to_dict()
    assert np.array_equal(slow.strategies[2].bounds, easy.strategies[2].bounds, equal_nan=True)


@pytest.mark.parametrize(
    ("wrong", "said"),
    [
        ({"n_arms": 1}, "n_arms must be a whole number from 2"),
        ({"budget": 4}, "budget must be at most 3, got 4"),
        ({"rate": 0.0}, "rate must be"),
        ({"gap": 0.0}, "gap must be"),
        ({"gap": 0.8}, "gap must be at most 0.7, so that rate \\+ gap is a mean, got 0.8"),
        ({"horizon": 99}, "horizon must be a whole number from 100"),
        ({"replications": 0}, "replications must be"),
        ({"delta": 1.0}, "delta must be"),
    ],
)
def test_bad_arguments_are_named(wrong: Any, said: str) -> None:
    with pytest.raises(ValueError, match=said):
        plan(**{**EASY, **wrong})


def test_the_picture_has_a_line_for_what_is_certified_and_for_what_is_lost(easy: Plan) -> None:
    ax = plots.plan_chart(easy)
    names = ["guarded", "thompson", "equal shares"]
    assert sorted(text.get_text() for text in ax.texts) == sorted(names)
    labels = [line.get_label() for line in ax.lines if line.get_label() in names]
    assert labels == [name for name in names for _ in range(2)]
    assert "seed 7" in ax.get_figure(root=True).get_supxlabel()  # type: ignore[union-attr]


def test_the_command_prints_a_table_json_and_a_picture(easy: Plan, tmp_path: Path) -> None:
    picture = tmp_path / "plan.svg"
    shown = CliRunner().invoke(app, [*COMMAND, "--out", str(picture)])
    assert shown.exit_code == 0, shown.output
    assert "equal shares" in shown.output
    assert "not within" in shown.output
    assert picture.read_text(encoding="utf-8").startswith("<?xml")
    facts = json.loads(CliRunner().invoke(app, [*COMMAND, "--json"]).output)
    assert {**facts, "version": None} == {**easy.to_dict(), "version": None}


@pytest.mark.parametrize(
    ("more", "said"),
    [
        (["--gap", "0.9"], "gap must be at most 0.7"),
        (["--confidence", "1"], "confidence must be a number strictly between 0 and 1, got 1.0"),
        (["--out", "plan.txt"], "must end in .png, .svg or .pdf"),
    ],
)
def test_the_command_refuses_bad_values(more: list[str], said: str) -> None:
    shown = CliRunner().invoke(app, [*COMMAND, *more])
    assert shown.exit_code == 2
    assert said in shown.output
