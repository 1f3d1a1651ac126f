"""`CombinatorialElimination` decides as its slow twin does, round by round: ask and tell, `simulate`, and late."""

from __future__ import annotations

import numpy as np
import pytest

from twins.cases import LARGE
from twins.facts import assert_as_twin, assert_as_twin_when_late, played, played_late, share, split

GROUP = "twins of elimination"
exercised = pytest.mark.xdist_group(GROUP)

PRINTED = ["gap", *(f"printed/{i}" for i in range(400))]
REDUCED = [f"reduced/{i}" for i in range(500)] + [f"default/{i}" for i in range(24)]
BIG = [f"large/{kind}/{variant}" for kind in LARGE for variant in ("paper", "tight")]
DRIFT = ["drift/printed", "drift/reduced"]
LATE = [*PRINTED[:73:3], *REDUCED[:96:4], *REDUCED[500::4], *DRIFT]
SMALL = {"gap", "default/0", *(f"printed/{i}" for i in range(12)), *(f"reduced/{i}" for i in range(16))}

# The cases do exercise what they should, which is asked of those that `make test` plays.
SOME = {"printed": PRINTED[:25], "reduced": REDUCED[:25]}
each_kind = pytest.mark.parametrize("names", SOME.values(), ids=SOME)


@pytest.mark.parametrize("name", split([*BIG, *PRINTED, *REDUCED, *DRIFT], first=10, small=SMALL, group=GROUP))
def test_policy_plays_as_its_twin(name: str) -> None:
    assert_as_twin(name)


@pytest.mark.parametrize("name", split(LATE, first=5, group=GROUP))
def test_policy_plays_as_its_twin_when_rewards_are_late_or_lost(name: str) -> None:
    assert_as_twin_when_late(name)


@exercised
@each_kind
def test_a_quarter_of_the_runs_confirm_an_arm(names: list[str]) -> None:
    # Where every arm is played, all are as good as confirmed from the start.
    assert share(names, lambda one: one.triage[-1].confirmed.any() or one.committed_at[-1] == 0) >= 0.25


@exercised
@each_kind
def test_half_of_the_runs_eliminate_an_arm(names: list[str]) -> None:
    assert share(names, lambda one: not one.triage[-1].confirmed.all()) >= 0.5


@exercised
@each_kind
def test_a_quarter_of_the_runs_commit_after_the_first_round(names: list[str]) -> None:
    assert share(names, lambda one: one.committed_at[-1] > 0) >= 0.25


@exercised
def test_some_printed_run_confirms_more_arms_than_it_can_play() -> None:
    assert played("drift/printed").twin.overfull


@exercised
def test_some_printed_run_has_a_round_without_arms_to_explore() -> None:
    assert played("gap").twin.pure_fills > 0


@exercised
def test_drift_makes_intervals_contradict_each_other() -> None:
    assert played("drift/reduced").twin.failures


@exercised
@pytest.mark.parametrize("names", [PRINTED[3:24:3], REDUCED[:32:4]], ids=SOME)
def test_a_tenth_of_the_late_runs_counts_lost_rewards_as_tries(names: list[str]) -> None:
    assert np.mean([any(played_late(name).twin.schedule.credit) for name in names]) >= 0.1
