"""Rewards that never come: a mute arm is tried ever more rarely, and everything else goes on without it."""

from __future__ import annotations

from functools import cache
from typing import Any

import numpy as np
import pytest

from armtriage import FeedbackGraph, PartitionMatroid, Policy, StochasticEnvironment
from armtriage.policies.evidence import PATIENCE, as_least, as_tries
from conftest import POLICIES, score, with_face

MEANS = [0.9, 0.5, 0.1, 0.4, 0.3]
MUTE = 2
ROUNDS = 3000
IDLE = {"UniformRandom"}
STUBBORN = {"Greedy", "CombUCB1-no-exploration", "CombinatorialUCB-width"}
"""Without exploration, or with too little of it, an arm that looks bad is not tried again, for whatever reason."""
FORCED = {"GuardedIndex-certify"}
"""Its looks settle all other arms soon, so that elimination has to step in for the mute one, a tenth of the rounds."""
PLAYED = [name for name in with_face("arms") + with_face("set") if name not in IDLE]
TWICE = [pytest.param(name, marks=[pytest.mark.thorough] * name.endswith("-set")) for name in PLAYED]
"""Over slates, and in `make test` once more over decision sets."""


def make(name: str) -> Any:
    graph = FeedbackGraph.semi_bandit(len(MEANS))
    if POLICIES[name].face == "set":
        return POLICIES[name].make(graph=graph, decisions=PartitionMatroid([0] * len(MEANS), [1]))
    return POLICIES[name].make(graph=graph, budget=1)


@cache
def luck() -> list[list[float]]:
    """The rewards of all arms, round by round."""
    env = StochasticEnvironment(MEANS, len(MEANS), seed=4)
    return [env.rewards(number, range(len(MEANS))).tolist() for number in range(ROUNDS)]


def play(policy: Any, rounds: int, mute: int = MUTE, until: int = 10**9, first: int = 0) -> np.ndarray:
    """Play with an arm whose rewards are lost for some time; return what was chosen."""
    chosen = []
    for number in range(first, first + rounds):
        decision = policy.ask()
        chosen.append(int(decision.arms[0]))
        told = {} if chosen[-1] == mute and number < until else {chosen[-1]: luck()[number][chosen[-1]]}
        policy.tell(decision, told)
    return np.array(chosen)


@pytest.mark.parametrize("name", TWICE)
def test_a_mute_arm_is_tried_ever_more_rarely(name: str) -> None:
    policy = make(name)
    chosen = play(policy, ROUNDS)
    pulls = np.bincount(chosen, minlength=len(MEANS))
    assert pulls[MUTE] <= (300 if name in FORCED else 150)
    assert pulls[0] > ROUNDS / 2
    late = np.count_nonzero(chosen[ROUNDS // 2 :] == MUTE)
    assert late <= pulls[MUTE] / 2 + 10 or name in FORCED
    if hasattr(policy, "triage"):
        assert MUTE in policy.triage.active
        assert 0 not in policy.triage.eliminated
    if name not in FORCED:
        score("rounds with an arm that never answers", ROUNDS, "at most 150 pulls of it, the best arm in most rounds")


@pytest.mark.parametrize("name", [name for name in PLAYED if name not in STUBBORN])
def test_an_arm_that_speaks_again_is_learned(name: str) -> None:
    policy = make(name)
    for first in range(0, ROUNDS, 250):
        play(policy, 250, mute=0, until=300, first=first)
        if policy.tally.counts[0] > 100:
            return
    raise AssertionError(f"the arm was heard {policy.tally.counts[0]} times only")


@pytest.mark.parametrize("name", PLAYED)
def test_a_mute_arm_is_kept_in_files(name: str, tmp_path: Any) -> None:
    policy = make(name)
    play(policy, 200)
    policy.save(tmp_path / "policy.bin")
    loaded = Policy.load(tmp_path / "policy.bin")
    assert play(loaded, 100).tolist() == play(policy, 100).tolist()


@pytest.mark.parametrize("name", ["GuardedThompson", "Guard", "tight", "ThompsonSampling", "CombUCB1"])
def test_a_certificate_names_the_silent_arm(name: str, tmp_path: Any) -> None:
    policy = make(name)
    play(policy, 400)
    policy.save(tmp_path / "policy.bin")
    for one in (policy, Policy.load(tmp_path / "policy.bin")):
        assert one.certificate().silent == (MUTE,)
        said = "Nothing has been heard of arm 2 for some time: its last rewards did not come."
        assert said in str(one.certificate())
    if name in ("tight", "CombUCB1"):  # The others try it again too rarely to wait for it here.
        play(policy, ROUNDS, mute=-1)
        assert policy.certificate().silent == ()


def test_lost_rewards_count_from_the_eighth_in_a_row_on() -> None:
    assert [as_least(n) for n in (0, 7, 8, 9)] == [0, 0, 2, 2]
    assert [as_tries(n) for n in (0, 7, 8, 9, 10, 12)] == [0, 0, 1, 1, 2, 3]
    tries = np.cumsum([as_tries(n) for n in range(1, 200)])
    assert np.all(tries[PATIENCE:] >= (np.arange(PATIENCE, 199) - PATIENCE) ** 2 / 4)
