"""Policies keep the contract of ask, tell, save and load."""

from __future__ import annotations

import inspect
import io
import itertools
import os
import pickle
import re
import subprocess
import sys
from collections.abc import Callable, Mapping
from pathlib import Path
from typing import Any

import numpy as np
import pytest

from armtriage import (
    KLUCB,
    AlreadyTold,
    CombinatorialElimination,
    CombinatorialUCB,
    CombUCB1,
    DamagedFile,
    FeedbackGraph,
    Greedy,
    Policy,
    StochasticEnvironment,
    ThompsonSampling,
    UniformRandom,
    UnknownDecision,
    check_policy,
)

GRAPH = FeedbackGraph.semi_bandit(6)

CASES: dict[str, tuple[type[Policy], dict[str, Any]]] = {
    "KLUCB": (KLUCB, {}),
    "KLUCB-log-log": (KLUCB, {"log_log": 3.0}),
    "CombUCB1": (CombUCB1, {}),
    "CombUCB1-no-exploration": (CombUCB1, {"exploration": 0.0}),
    "CombinatorialUCB": (CombinatorialUCB, {"horizon": 1000}),
    "CombinatorialUCB-width": (CombinatorialUCB, {"width": 0.5}),
    "Greedy": (Greedy, {}),
    "ThompsonSampling": (ThompsonSampling, {}),
    "UniformRandom": (UniformRandom, {}),
    "tight": (CombinatorialElimination, {}),
    "paper": (CombinatorialElimination, {"variant": "paper", "horizon": 1000}),
    "paper-hoeffding": (CombinatorialElimination, {"variant": "paper", "interval": "hoeffding"}),
    "tight-loose": (CombinatorialElimination, {"delta": 0.5, "intersect": False, "skip_revealed": False}),
} | {
    f"tight-{value}": (CombinatorialElimination, {name: value, "horizon": 1000, "delta": 0.4})
    for name, values in {
        "interval": ("mixture", "kl", "hoeffding", "bernstein", "printed"),
        "fill": ("best", "random", "index"),
        "tie_break": ("upper", "index", "random"),
    }.items()
    for value in values
}
KINDS = ["KLUCB", "CombUCB1", "CombinatorialUCB", "Greedy", "ThompsonSampling", "UniformRandom", "tight", "paper"]


def make(name: str, graph: FeedbackGraph = GRAPH, budget: int = 2, seed: int = 7, **more: Any) -> Any:
    kind, options = CASES[name]
    return kind(graph, budget=budget, seed=seed, **{**options, **more})


def play(policy: Policy, rounds: int, first: int = 0) -> list[list[int]]:
    means = np.linspace(0.05, 0.95, policy.n_arms)
    env = StochasticEnvironment(means, policy.graph, seed=3)
    arms = []
    for number in range(first, first + rounds):
        decision = policy.ask()
        policy.tell(decision, env.rewards(number, decision.revealed))
        arms.append(decision.arms.tolist())
    return arms


def snapshot(policy: Policy) -> dict[str, Any]:
    """Everything that a policy is made of, as plain values."""
    held = {name: array.tolist() for name, array in policy._arrays().items()}
    held["open"] = {decision.number: decision.arms.tolist() for decision in policy.open_decisions}
    return held


# --- check_policy ---
@pytest.mark.parametrize("name", CASES)
def test_contract_is_kept_by(name: str) -> None:
    kind, options = CASES[name]
    check_policy(kind, **options)


class Plain(Policy):
    """The S arms of largest smoothed mean, plus a little that the seed fixes."""

    def __init__(
        self,
        graph: FeedbackGraph,
        budget: int,
        *,
        seed: int | None = None,
        reward_range: tuple[float, float] = (0.0, 1.0),
    ) -> None:
        super().__init__(graph, budget, seed=seed, reward_range=reward_range)
        self.sums, self.counts = np.zeros(self.n_arms), np.zeros(self.n_arms)
        self.taste = self._taste()

    def _taste(self) -> np.ndarray:
        return np.random.default_rng(self.seed).random(self.n_arms)

    def _select(self, number: int) -> np.ndarray:
        score = (self.sums + 1.0) / (self.counts + 1.0) + 0.3 * self.taste
        return np.sort(np.argsort(-score, kind="stable")[: self.budget]).astype(np.int64)

    def _update(self, number: int, arms: np.ndarray, rewards: np.ndarray) -> None:
        self.sums[arms] += rewards
        self.counts[arms] += 1

    def _arrays(self) -> dict[str, np.ndarray]:
        return {"sums": self.sums, "counts": self.counts}

    def _restore(self, arrays: Mapping[str, np.ndarray]) -> None:
        self.sums, self.counts = arrays["sums"].copy(), arrays["counts"].copy()


class RepeatsAnArm(Plain):
    def _select(self, number: int) -> np.ndarray:
        arms = super()._select(number)
        arms[-1] = arms[0]
        return arms


class ForgetsAnArm(Plain):
    def _select(self, number: int) -> np.ndarray:
        return super()._select(number)[: max(1, self.budget - 1)]


class IgnoresTheSeed(Plain):
    made = itertools.count()

    def _taste(self) -> np.ndarray:
        return np.random.default_rng(next(self.made)).random(self.n_arms)


class LearnsFromARefusedTell(Plain):
    def tell(self, decision: Any, rewards: Any) -> None:
        self.counts[0] += 1
        super().tell(decision, rewards)
        self.counts[0] -= 1


class AcceptsAnything(Plain):
    def tell(self, decision: Any, rewards: Any) -> None:
        try:
            super().tell(decision, rewards)
        except ValueError:
            return


class SavesNothing(Plain):
    def _arrays(self) -> dict[str, np.ndarray]:
        return {}

    def _restore(self, arrays: Mapping[str, np.ndarray]) -> None:
        return


class RemembersWhenFresh(Plain):
    def fresh(self, seed: int | None = None, replication: int = 0) -> RemembersWhenFresh:
        other = super().fresh(seed, replication)
        other.sums, other.counts = self.sums.copy(), self.counts.copy()
        return other


class IgnoresTheRange(Plain):
    def _to_unit(self, values: np.ndarray) -> np.ndarray:
        return values


BROKEN = {
    RepeatsAnArm: "arms must rise",
    ForgetsAnArm: "a decision must have 3 arms",
    IgnoresTheSeed: "the same seed gave other decisions",
    LearnsFromARefusedTell: "a refused tell changed the future",
    AcceptsAnything: "should raise ValueError",
    SavesNothing: "the loaded policy went another way",
    RemembersWhenFresh: r"fresh\(\) did not forget",
    IgnoresTheRange: "reward_range changed the decisions",
}


def test_contract_is_kept_by_a_policy_in_plain_python() -> None:
    check_policy(Plain)


@pytest.mark.parametrize("kind", BROKEN, ids=lambda kind: kind.__name__)
def test_contract_check_catches_a_policy_that(kind: type[Policy]) -> None:
    with pytest.raises(AssertionError, match=BROKEN[kind]):
        check_policy(kind)


# --- Arguments ---
COMMON: list[tuple[str, Any, type[Exception]]] = [
    ("budget", 0, ValueError),
    ("budget", 7, ValueError),
    ("budget", -1, ValueError),
    ("budget", 2.0, TypeError),
    ("budget", True, TypeError),
    ("budget", "2", TypeError),
    ("seed", -1, ValueError),
    ("seed", 1.5, TypeError),
    ("seed", False, TypeError),
    ("seed", "7", TypeError),
    ("reward_range", (1.0, 0.0), ValueError),
    ("reward_range", (0.5, 0.5), ValueError),
    ("reward_range", (0.0, float("inf")), ValueError),
    ("reward_range", (float("nan"), 1.0), ValueError),
    ("reward_range", (0.0, 1.0, 2.0), ValueError),
    ("reward_range", None, TypeError),
]
OWN: dict[str, list[tuple[str, Any, type[Exception]]]] = {
    "KLUCB": [("log_log", -1.0, ValueError), ("log_log", float("nan"), ValueError), ("log_log", "3", TypeError)],
    "CombUCB1": [
        ("exploration", -0.1, ValueError),
        ("exploration", float("inf"), ValueError),
        ("exploration", "1", TypeError),
    ],
    "CombinatorialUCB": [
        ("horizon", 0, ValueError),
        ("horizon", 10.0, TypeError),
        ("horizon", None, ValueError),
        ("delta", 0.0, ValueError),
        ("delta", 1.0, ValueError),
        ("delta", "0.1", TypeError),
        ("width", -1.0, ValueError),
        ("width", float("inf"), ValueError),
        ("width", "1", TypeError),
    ],
    "tight": [
        ("horizon", 0, ValueError),
        ("horizon", True, TypeError),
        ("delta", 0.0, ValueError),
        ("delta", float("nan"), ValueError),
        ("delta", None, TypeError),
        ("variant", "loose", ValueError),
        ("benchmark", "median", ValueError),
        ("benchmark", "", ValueError),
        ("interval", "exact", ValueError),
        ("interval", "", ValueError),
        ("tie_break", "last", ValueError),
        ("fill", "worst", ValueError),
        ("fill", "", ValueError),
        ("intersect", "no", TypeError),
        ("skip_revealed", "no", TypeError),
    ],
    "paper": [
        ("horizon", None, ValueError),
        ("interval", "mixture", ValueError),
        ("interval", "bernstein", ValueError),
        ("intersect", True, ValueError),
        ("tie_break", "upper", ValueError),
    ],
}
BAD = [
    pytest.param(name, argument, value, error, id=f"{name}-{argument}-{value}")
    for name in KINDS
    for argument, value, error in [*(COMMON if name in ("tight", "CombUCB1") else COMMON[:1]), *OWN.get(name, [])]
]


@pytest.mark.parametrize(("name", "argument", "value", "error"), BAD)
def test_bad_argument_is_refused_by_name_and_value(
    name: str, argument: str, value: Any, error: type[Exception]
) -> None:
    with pytest.raises(error, match=rf"\b{argument}\b.*got .*{re.escape(repr(value))}"):
        make(name, **{argument: value})


@pytest.mark.parametrize("name", KINDS)
def test_what_is_no_graph_is_refused(name: str) -> None:
    with pytest.raises(TypeError, match="graph must be a FeedbackGraph, got list"):
        make(name, graph=[[0, 1]])  # type: ignore[arg-type]


@pytest.mark.parametrize("name", KINDS)
def test_config_holds_every_argument_but_the_graph(name: str) -> None:
    arguments = set(inspect.signature(CASES[name][0]).parameters) - {"graph"}
    assert set(make(name).config) == arguments


def test_seed_that_was_not_given_is_drawn_anew() -> None:
    assert UniformRandom(GRAPH, 2).seed != UniformRandom(GRAPH, 2).seed


def test_numpy_integers_are_whole_numbers() -> None:
    assert CombUCB1(GRAPH, np.int32(2), seed=np.uint8(3)).config["seed"] == 3


# --- Ask and tell ---
def told(name: str, rewards: Any, graph: FeedbackGraph = GRAPH, **more: Any) -> list[float]:
    """The sums of a policy with one decision, of arms 0 and 1, that was told."""
    policy = make(name, graph, **more)
    policy.tell(policy.ask(), rewards)
    return policy._state.sums[:2].tolist()


@pytest.mark.parametrize(
    "rewards",
    [
        [0.25, 1],
        (0.25, True),
        np.array([0.25, 1.0], np.float32),
        np.array([0.25, 1.0], np.float16),
        [np.float64(0.25), np.uint8(1)],
        {0: 0.25, 1: 1},
        {1: True, 0: 0.25},
        {np.int64(0): np.float32(0.25), np.uint8(1): np.bool_(True)},
    ],
    ids=str,
)
def test_rewards_may_be_given_as(rewards: Any) -> None:
    assert told("CombUCB1", rewards) == [0.25, 1.0]


def test_rewards_may_be_an_array_of_bools() -> None:
    assert told("CombUCB1", np.array([True, False])) == [1.0, 0.0]


BAD_REWARDS: list[tuple[Any, type[Exception], str]] = [
    ([0.5], ValueError, r"2 revealed arms, got shape \(1,\)"),
    ([0.5, 0.5, 0.5], ValueError, r"2 revealed arms, got shape \(3,\)"),
    ([[0.5, 0.5]], ValueError, r"got shape \(1, 2\)"),
    (0.5, ValueError, r"got shape \(\)"),
    ([], ValueError, r"got shape \(0,\)"),
    (None, TypeError, "rewards must be an array of numbers"),
    (["0.5", "0.5"], TypeError, "rewards must be an array of numbers"),
    ([1j, 0], TypeError, "rewards must be an array of numbers"),
    ([0.5, 1.5], ValueError, "got 1.5 for arm 1"),
    ([-0.1, 0.5], ValueError, "got -0.1 for arm 0"),
    ([0.5, float("nan")], ValueError, "got nan for arm 1"),
    ([0.5, float("-inf")], ValueError, "got -inf for arm 1"),
    ({0: 0.5, 2: 0.5}, ValueError, "rewards has arm 2"),
    ({-1: 0.5}, ValueError, "rewards has arm -1"),
    ({2**70: 0.5}, ValueError, f"rewards has arm {2**70}"),
    ({"0": 0.5}, TypeError, "keyed by arm numbers, got '0'"),
    ({True: 0.5}, TypeError, "keyed by arm numbers, got True"),
    ({0.0: 0.5}, TypeError, "keyed by arm numbers, got 0.0"),
    ({0: "0.5"}, TypeError, "got '0.5' for arm 0"),
    ({0: None}, TypeError, "got None for arm 0"),
    ({0: np.complex128(0.5)}, TypeError, "for arm 0"),
    ({0: 0.5, 1: 2}, ValueError, "got 2.0 for arm 1"),
]


@pytest.mark.parametrize(("rewards", "error", "message"), BAD_REWARDS, ids=lambda value: str(value)[:30])
def test_bad_rewards_are_refused(rewards: Any, error: type[Exception], message: str) -> None:
    policy = make("CombUCB1")
    decision = policy.ask()
    with pytest.raises(error, match=message):
        policy.tell(decision, rewards)


@pytest.mark.parametrize("name", KINDS)
def test_refused_tells_change_nothing(name: str) -> None:
    policy = make(name)
    play(policy, 9)
    decision = policy.ask()
    arm, nan = int(decision.arms[0]), float("nan")
    before = snapshot(policy)
    for rewards in ([1], [1, 2], [nan, 1], ["x", 1], {arm: nan}, {arm: 1, 99: 1}, {arm: 1, "x": 1}, {arm: "x"}):
        with pytest.raises((TypeError, ValueError)):
            policy.tell(decision, rewards)
    assert snapshot(policy) == before


@pytest.mark.parametrize("name", KINDS)
def test_second_tell_is_refused(name: str) -> None:
    policy = make(name)
    decision = policy.ask()
    policy.tell(decision, [0, 1])
    with pytest.raises(AlreadyTold, match="decision 0 has been told already"):
        policy.tell(decision, [0, 1])


@pytest.mark.parametrize("number", [0, 1, 10**30, -1, np.int64(3)])
def test_decision_that_was_never_made_is_refused(number: int) -> None:
    with pytest.raises(UnknownDecision, match=f"decision {number} is unknown"):
        make("CombUCB1").tell(number, [0, 1])


def test_decision_of_another_policy_is_refused() -> None:
    policy, other = make("CombUCB1"), make("CombUCB1")
    policy.ask()
    with pytest.raises(UnknownDecision, match="made by another policy"):
        policy.tell(other.ask(), [0, 1])


@pytest.mark.parametrize("decision", [None, "0", 0.0, True, [0]], ids=str)
def test_what_is_no_decision_is_refused(decision: Any) -> None:
    policy = make("CombUCB1")
    policy.ask()
    with pytest.raises(TypeError, match="decision must be a Decision or its number"):
        policy.tell(decision, [0, 1])


def test_open_decisions_are_those_not_told_oldest_first() -> None:
    policy = make("CombUCB1")
    decisions = [policy.ask() for _ in range(5)]
    policy.tell(decisions[3], [0, 1])
    policy.tell(0, {})
    assert [decision.number for decision in policy.open_decisions] == [1, 2, 4]


def test_open_decisions_have_the_arms_that_were_asked() -> None:
    policy = make("UniformRandom")
    asked = [policy.ask().arms.tolist() for _ in range(5)]
    assert [decision.arms.tolist() for decision in policy.open_decisions] == asked


def test_open_decision_can_be_told_as_the_asked_one() -> None:
    policy = make("CombUCB1")
    policy.ask()
    policy.tell(policy.open_decisions[0], [1, 1])
    assert policy.open_decisions == ()


def test_writing_on_a_decision_does_not_change_what_is_told() -> None:
    policy = make("CombUCB1")
    decision = policy.ask()
    decision.arms[:] = [4, 5]
    policy.tell(decision, [1, 1])
    assert policy._state.counts.tolist() == [1, 1, 0, 0, 0, 0]


def test_arm_that_two_chosen_arms_reveal_counts_once() -> None:
    policy = make("CombUCB1", FeedbackGraph.full_information(4))
    policy.tell(policy.ask(), [1, 0, 1, 0])
    assert policy._state.counts.tolist() == [1, 1, 1, 1]


@pytest.mark.parametrize("name", ["CombUCB1", "tight"])
def test_rewards_are_mapped_from_their_range_to_the_unit_interval(name: str) -> None:
    assert told(name, [-1.0, 2.0], reward_range=(-2, 6)) == [0.125, 0.5]


def test_ends_of_the_reward_range_are_mapped_to_zero_and_one() -> None:
    assert told("CombUCB1", [0.1, 0.7], reward_range=(0.1, 0.7)) == [0.0, 1.0]


@pytest.mark.parametrize("value", [-2.001, 6.001])
def test_rewards_outside_their_range_are_refused(value: float) -> None:
    with pytest.raises(ValueError, match=rf"\[-2.0, 6.0\] \(reward_range\), got {value} for arm 1"):
        told("CombUCB1", [0.0, value], reward_range=(-2, 6))


# --- Late rewards ---
SPREAD = ["tight", "paper", "tight-random", "tight-index", "CombUCB1", "CombinatorialUCB", "KLUCB", "Greedy"]


@pytest.mark.parametrize("name", SPREAD)
def test_open_decisions_spread_evenly_over_all_arms(name: str) -> None:
    policy = make(name)
    arms = np.concatenate([policy.ask().arms for _ in range(12)])
    assert np.bincount(arms, minlength=6).tolist() == [4] * 6


@pytest.mark.parametrize("name", ["tight", "paper"])
def test_open_decisions_spread_evenly_over_cliques(name: str) -> None:
    policy = make(name, FeedbackGraph.cliques([3, 1, 2]), budget=1)
    shown = np.concatenate([policy.ask().revealed for _ in range(12)])
    assert np.bincount(shown).tolist() == [4] * 6


@pytest.mark.parametrize("name", SPREAD)
def test_arms_of_a_lost_decision_are_explored_again(name: str) -> None:
    policy = make(name)
    lost = policy.ask()
    policy.tell(lost, {})
    rest = [policy.ask() for _ in range(3)]
    assert set(lost.arms.tolist()) <= {arm for decision in rest for arm in decision.arms.tolist()}


@pytest.mark.parametrize("name", SPREAD)
def test_every_arm_is_observed_when_lost_decisions_are_made_up(name: str) -> None:
    policy = make(name)
    for number in range(20):
        decision = policy.ask()
        policy.tell(decision, {} if number % 2 == 0 else decision.arms > 3)
    assert policy._state.counts.min() >= 1


@pytest.mark.parametrize("name", SPREAD)
def test_arms_missing_from_a_tell_are_not_observed(name: str) -> None:
    policy = make(name)
    decision = policy.ask()
    policy.tell(decision, {int(decision.arms[1]): 1.0})
    assert policy._state.counts[decision.arms].tolist() == [0, 1]


@pytest.mark.parametrize("name", SPREAD)
def test_nothing_is_on_its_way_when_every_decision_was_told(name: str) -> None:
    policy = make(name)
    decisions = [policy.ask() for _ in range(7)]
    for place in (3, 6, 0, 1, 5, 2, 4):
        arms = decisions[place].arms.tolist()
        policy.tell(decisions[place], dict.fromkeys(arms[: place % 3], 1.0))
    assert policy._state.pending.tolist() == [0] * 6


@pytest.mark.parametrize("name", KINDS)
def test_a_million_arms_can_be_asked_for(name: str) -> None:
    policy = make(name, FeedbackGraph.full_information(10**6), budget=3)
    assert policy.ask().revealed.size == 10**6


# --- Save and load ---
@pytest.fixture
def path(tmp_path: Path) -> Path:
    return tmp_path / "policy.bin"


def used(name: str, graph: FeedbackGraph = GRAPH) -> Any:
    """A policy in the middle of things: much told, two decisions open."""
    policy = make(name, graph)
    play(policy, 40)
    policy.ask()
    policy.ask()
    return policy


@pytest.mark.parametrize("name", CASES)
def test_loaded_policy_has_the_state_of_the_saved_one(name: str, path: Path) -> None:
    policy = used(name)
    policy.save(path)
    assert snapshot(Policy.load(path)) == snapshot(policy)


@pytest.mark.parametrize("name", CASES)
def test_loaded_policy_has_the_arguments_of_the_saved_one(name: str, path: Path) -> None:
    policy = make(name, reward_range=(-1, 3))
    policy.save(path)
    assert Policy.load(path).config == policy.config


@pytest.mark.parametrize("name", KINDS)
def test_loaded_policy_has_the_graph_of_the_saved_one(name: str, path: Path) -> None:
    policy = make(name, FeedbackGraph.erdos_renyi(20, 0.2, seed=1))
    policy.save(path)
    assert Policy.load(path).graph == policy.graph


@pytest.mark.parametrize("name", KINDS)
def test_loading_by_the_base_class_gives_the_kind_that_was_saved(name: str, path: Path) -> None:
    make(name).save(path)
    assert type(Policy.load(path)) is CASES[name][0]


@pytest.mark.parametrize("name", KINDS)
def test_loaded_policy_has_the_future_of_the_saved_one(name: str, path: Path) -> None:
    policy = used(name)
    policy.save(path)
    assert play(Policy.load(path), 60, 42) == play(policy, 60, 42)


@pytest.mark.parametrize("replication", [0, 1, 5])
@pytest.mark.parametrize("name", ["UniformRandom", "ThompsonSampling", "tight-random"])
def test_fresh_policy_of_a_replication_has_the_same_future_when_loaded(name: str, replication: int, path: Path) -> None:
    policy = make(name).fresh(11, replication)
    policy.save(path)
    assert play(Policy.load(path), 30) == play(policy, 30)


def test_loaded_policy_takes_the_decisions_that_the_saved_one_asked(path: Path) -> None:
    policy = make("CombUCB1")
    decision = policy.ask()
    policy.save(path)
    loaded = CombUCB1.load(path)
    loaded.tell(decision, [1, 1])
    assert loaded.open_decisions == ()


def test_loaded_policy_refuses_what_was_told_before_saving(path: Path) -> None:
    policy = make("CombUCB1")
    decision = policy.ask()
    policy.tell(decision, [1, 1])
    policy.save(path)
    with pytest.raises(AlreadyTold):
        Policy.load(path).tell(decision, [1, 1])


def test_saving_changes_nothing(path: Path) -> None:
    policy = used("tight")
    before = snapshot(policy)
    policy.save(path)
    assert snapshot(policy) == before


def test_path_may_be_a_string(path: Path) -> None:
    make("CombUCB1").save(str(path))
    assert CombUCB1.load(str(path)).n_arms == 6


@pytest.mark.parametrize("broken", ["replace", "fsync"])
@pytest.mark.parametrize("error", [OSError, KeyboardInterrupt])
def test_failed_save_leaves_the_old_file(
    broken: str, error: type[BaseException], path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    used("tight").save(path)
    before = path.read_bytes()
    monkeypatch.setattr(os, broken, raiser(error))
    with pytest.raises(error):
        make("CombUCB1").save(path)
    assert path.read_bytes() == before


@pytest.mark.parametrize("broken", ["replace", "fsync"])
@pytest.mark.parametrize("error", [OSError, KeyboardInterrupt])
def test_failed_save_leaves_no_other_file(
    broken: str, error: type[BaseException], path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(os, broken, raiser(error))
    with pytest.raises(error):
        make("CombUCB1").save(path)
    assert list(path.parent.iterdir()) == []


def raiser(error: type[BaseException]) -> Callable[..., None]:
    def fail(*arguments: object) -> None:
        raise error("simulated")

    return fail


def test_saving_leaves_one_file(path: Path) -> None:
    for _ in range(3):
        make("CombUCB1").save(path)
    assert list(path.parent.iterdir()) == [path]


KILLED = """
import os, signal, sys, time
from armtriage import CombUCB1, FeedbackGraph, Policy
path = sys.argv[1]
policy = CombUCB1(FeedbackGraph.semi_bandit(5000), budget=3)
policy.ask()
policy.save(path)
for number in range(25):
    child = os.fork()
    if child == 0:
        while True:
            policy.ask()
            policy.save(path)
    # On a busy machine the child may not come to save at all: every fifth one is let to finish a save or more.
    before, until = os.stat(path).st_ino, time.monotonic() + 20
    while number % 5 == 0 and os.stat(path).st_ino == before and time.monotonic() < until:
        time.sleep(0.001)
    time.sleep(0.004 + 0.003 * (number % 10))
    os.kill(child, signal.SIGKILL)
    os.waitpid(child, 0)
    policy = Policy.load(path)
print(len(policy.open_decisions))
"""


def test_process_killed_while_saving_leaves_a_file_that_loads(path: Path) -> None:
    done = subprocess.run(
        [sys.executable, "-c", KILLED, str(path)], capture_output=True, text=True, timeout=120, check=False
    )
    assert (done.returncode, done.stderr, int(done.stdout or 0) > 1) == (0, "", True)


def survivors(path: Path, damaged: dict[int, bytes]) -> list[int]:
    """Which damaged contents load without `DamagedFile`."""
    passed = []
    for place, content in damaged.items():
        path.write_bytes(content)
        try:
            Policy.load(path)
        except DamagedFile:
            continue
        passed.append(place)
    return passed


@pytest.mark.parametrize("mask", [0x01, 0x80, 0xFF])
def test_any_changed_byte_is_noticed(mask: int, path: Path) -> None:
    used("CombUCB1").save(path)
    whole = path.read_bytes()
    places = sorted({*range(80), *range(80, len(whole), 29), *range(len(whole) - 60, len(whole))})
    flipped = {i: whole[:i] + bytes([whole[i] ^ mask]) + whole[i + 1 :] for i in places}
    assert survivors(path, flipped) == []


def test_any_cut_is_noticed(path: Path) -> None:
    used("CombUCB1").save(path)
    whole = path.read_bytes()
    lengths = sorted({*range(80), *range(80, len(whole), 41), *range(len(whole) - 30, len(whole))})
    assert survivors(path, {n: whole[:n] for n in lengths}) == []


def test_anything_added_is_noticed(path: Path) -> None:
    used("CombUCB1").save(path)
    whole = path.read_bytes()
    assert survivors(path, {0: whole + b"\0", 1: b"\0" + whole, 2: whole + whole}) == []


def plain_npz() -> bytes:
    buffer = io.BytesIO()
    np.savez(buffer, header=np.zeros(3), counts=np.zeros(3))
    return buffer.getvalue()


FOREIGN = {
    "empty": b"",
    "text": b"not a policy\n",
    "npz": plain_npz(),
    "pickle": pickle.dumps({"policy": "CombUCB1"}),
    "zeros": bytes(1000),
}


@pytest.mark.parametrize("kind", FOREIGN)
def test_foreign_file_is_refused_by_its_path(kind: str, path: Path) -> None:
    path.write_bytes(FOREIGN[kind])
    with pytest.raises(DamagedFile, match=re.escape(f"{path} is not a file that armtriage saved")):
        Policy.load(path)


def test_file_of_another_kind_is_refused_naming_both(path: Path) -> None:
    make("Greedy").save(path)
    with pytest.raises(DamagedFile, match="holds a Greedy, not a CombUCB1"):
        CombUCB1.load(path)


def test_missing_file_is_not_found(path: Path) -> None:
    with pytest.raises(FileNotFoundError):
        Policy.load(path)


def test_saving_into_a_missing_folder_is_not_found(path: Path) -> None:
    with pytest.raises(FileNotFoundError):
        make("CombUCB1").save(path / "deeper")


@pytest.mark.parametrize("name", CASES)
def test_saved_arrays_need_no_pickle(name: str, path: Path) -> None:
    used(name).save(path)
    content = path.read_bytes()
    with np.load(io.BytesIO(content[content.index(b"PK\x03\x04") :]), allow_pickle=False) as archive:
        kinds = {archive[entry].dtype.kind for entry in archive.files}
    assert kinds <= set("biuf")


# --- Fresh ---
@pytest.mark.parametrize("name", KINDS)
def test_fresh_policy_starts_as_the_first_one_did(name: str) -> None:
    policy = used(name)
    assert play(policy.fresh(), 20) == play(make(name), 20)


@pytest.mark.parametrize("name", KINDS)
def test_fresh_policy_leaves_the_old_one_alone(name: str) -> None:
    policy = used(name)
    before = snapshot(policy)
    play(policy.fresh(), 20)
    assert snapshot(policy) == before


@pytest.mark.parametrize("name", ["UniformRandom", "ThompsonSampling"])
def test_fresh_policies_of_two_replications_differ(name: str) -> None:
    policy = make(name)
    assert play(policy.fresh(3, 1), 20) != play(policy.fresh(3, 2), 20)


def test_repr_shows_the_arguments() -> None:
    shown = "CombUCB1(FeedbackGraph(n_arms=6, n_edges=6), budget=2, exploration=1.5, seed=7, reward_range=(0.0, 1.0))"
    assert repr(make("CombUCB1")) == shown


def test_a_caller_who_changes_a_decision_changes_nothing_in_the_policy() -> None:
    policy = UniformRandom(FeedbackGraph.cliques([2, 2]), budget=1, seed=7)
    for old in (False, True):
        decision = policy.ask()
        expected = decision.revealed.copy()
        decision.revealed[:] = decision.revealed[::-1]
        decision.arms[:] = 0
        if old:
            policy.ask()
        before = policy.tally.sums.copy()
        policy.tell(decision, [1.0, 0.0])
        assert np.flatnonzero(policy.tally.sums - before).tolist() == [expected[0]]
