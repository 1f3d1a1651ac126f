"""How long a trial takes: when the interval says so, and what cannot be asked."""

import json
from typing import Any

import pytest
from typer.testing import CliRunner

from armtriage.cli import app
from armtriage.trials import trial_length

RUN = CliRunner()


def test_more_of_a_difference_and_a_larger_control_are_seen_sooner() -> None:
    def middle(lift: float, share: float) -> int:
        found = trial_length(0.3, budget=2, lift=lift, share=share, replications=9, seed=3)
        return int(sorted(found.decisions.tolist())[4])

    assert 0 < middle(0.5, 0.5) < middle(0.5, 0.1)
    assert middle(0.5, 0.5) < middle(0.3, 0.5)
    assert middle(-0.5, 0.5) < middle(-0.3, 0.5)


def test_a_run_that_sees_nothing_says_so() -> None:
    found = trial_length(0.02, lift=0.05, horizon=300, replications=3, seed=1)
    assert found.decisions.tolist() == [-1, -1, -1]
    assert "seen within 300 decisions in 0 of 3 runs" in str(found)
    assert found.to_dict()["decisions"] == [None] * 3


@pytest.mark.parametrize(
    ("given", "said"),
    [
        ({"lift": 0.0}, "lift must not be 0 and leave a rate from 0 to 1, got 0.0 on 0.3"),
        ({"lift": 9.0}, "lift must not be 0 and leave a rate from 0 to 1, got 9.0 on 0.3"),
        ({"lift": 0.1, "share": 1.0}, "share must be a number strictly between 0 and 1, got 1.0"),
        ({"lift": 0.1, "budget": 0}, "budget must be"),
        ({"lift": 0.1, "replications": 0}, "replications must be"),
    ],
)
def test_what_cannot_be_is_named(given: dict[str, Any], said: str) -> None:
    with pytest.raises(ValueError, match=said):
        trial_length(0.3, **given)


def test_the_command_speaks_of_a_trial() -> None:
    given = ["plan", "--slots", "2", "--rate", "0.3", "--lift", "0.5", "--share", "0.5", "--seed", "3"]
    told = RUN.invoke(app, given)
    assert told.output.startswith("A lift of 50% on 0.6 in a decision is seen after")
    facts = json.loads(RUN.invoke(app, [*given, "--json"]).output)
    assert facts["text"] in " ".join(told.output.split())
    refused = RUN.invoke(app, [*given, "--arms", "3"])
    assert refused.exit_code == 2
    assert "arms, gap and out must not be given with a lift" in " ".join(refused.output.split())
    assert "arms and gap must be given" in RUN.invoke(app, ["plan", "--slots", "2", "--rate", "0.3"]).output
