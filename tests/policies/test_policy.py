"""Policy: what is told, what stays open, and files that hold policies whole."""

from __future__ import annotations

import io
import os
import pickle
import re
import stat
import subprocess
import sys
from collections.abc import Callable
from pathlib import Path
from typing import Any

import numpy as np
import pytest

from armtriage import (
    AlreadyTold,
    CombUCB1,
    DamagedFile,
    FeedbackGraph,
    Policy,
    StochasticEnvironment,
    TopS,
    UniformRandom,
    UnknownDecision,
)
from armtriage._files import HOST
from conftest import POLICIES, play, score
from twins import saved

GRAPH = FeedbackGraph.semi_bandit(6)


def make(name: str, graph: FeedbackGraph = GRAPH, budget: int = 2, seed: int = 7, **more: Any) -> Any:
    return POLICIES[name].make(seed, graph=graph, budget=budget, **more)


def used() -> Any:
    """A policy in the middle of things: much told, two decisions open."""
    policy = make("CombUCB1")
    play(policy, StochasticEnvironment(np.linspace(0.05, 0.95, 6), GRAPH, seed=3), 40)
    policy.ask()
    policy.ask()
    return policy


def test_seed_that_was_not_given_is_drawn_anew() -> None:
    assert UniformRandom(GRAPH, 2).seed != UniformRandom(GRAPH, 2).seed


def test_numpy_integers_are_whole_numbers() -> None:
    assert CombUCB1(GRAPH, np.int32(2), seed=np.uint8(3)).config["seed"] == 3


def told(name: str, rewards: Any, graph: FeedbackGraph = GRAPH, **more: Any) -> list[float]:
    """The sums of a policy with one decision, of arms 0 and 1, that was told."""
    policy = make(name, graph, **more)
    policy.tell(policy.ask(), rewards)
    return saved(policy)["sums"][:2].tolist()


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


def test_a_decision_cannot_be_written_on() -> None:
    policy = make("CombUCB1")
    decision = policy.ask()
    with pytest.raises(ValueError, match="read-only"):
        decision.arms[:] = [4, 5]
    with pytest.raises(AttributeError, match="fixed"):
        decision.number = 3
    policy.tell(decision, [1, 1])
    assert saved(policy)["counts"].tolist() == [1, 1, 0, 0, 0, 0]


def test_arm_that_two_chosen_arms_reveal_counts_once() -> None:
    policy = make("CombUCB1", FeedbackGraph.full_information(4))
    policy.tell(policy.ask(), [1, 0, 1, 0])
    assert saved(policy)["counts"].tolist() == [1, 1, 1, 1]


@pytest.mark.parametrize("name", ["CombUCB1", "tight"])
def test_rewards_are_mapped_from_their_range_to_the_unit_interval(name: str) -> None:
    assert told(name, [-1.0, 2.0], reward_range=(-2, 6)) == [0.125, 0.5]


@pytest.mark.parametrize("name", ["CombUCB1", "GuardedThompson", "UniformRandom"])
@pytest.mark.parametrize(
    ("rewards", "message"),
    [
        ({0: 1.0, 1: 10**400}, "rewards must lie in [0.0, 1.0] (reward_range), got inf for arm 1"),
        ({1: -(10**5000)}, "rewards must lie in [0.0, 1.0] (reward_range), got -inf for arm 1"),
        (np.ma.masked_array([1.0, 0.0], [False, True]), "rewards has masked entries: tell {arm: reward} instead"),
    ],
    ids=["large", "below", "masked"],
)
def test_numbers_that_are_none_are_refused_and_change_nothing(name: str, rewards: Any, message: str) -> None:
    policy, other = make(name), make(name)
    decision = policy.ask()
    if isinstance(rewards, dict):
        rewards = {int(decision.arms[arm]): reward for arm, reward in rewards.items()}
        message = message.replace("arm 1", f"arm {decision.arms[1]}")
    with pytest.raises(ValueError, match=re.escape(message)):
        policy.tell(decision, rewards)
    policy.tell(decision, [1.0, 0.0])
    other.tell(other.ask(), [1.0, 0.0])
    assert all(np.array_equal(mine, saved(other)[key]) for key, mine in saved(policy).items())


def test_masked_array_without_masked_entries_is_an_array() -> None:
    assert told("CombUCB1", np.ma.masked_array([1.0, 0.5], [False, False])) == [1.0, 0.5]


def test_range_far_from_0_is_refused_where_decisions_are_summed() -> None:
    with pytest.raises(ValueError, match="reward_range must not lie 1e9 widths from 0 with decisions"):
        CombUCB1(GRAPH, decisions=TopS(6, 2), reward_range=(1e16, 1e16 + 2))


def test_ends_of_the_reward_range_are_mapped_to_zero_and_one() -> None:
    assert told("CombUCB1", [0.1, 0.7], reward_range=(0.1, 0.7)) == [0.0, 1.0]


@pytest.mark.parametrize("value", [-2.001, 6.001])
def test_rewards_outside_their_range_are_refused(value: float) -> None:
    with pytest.raises(ValueError, match=rf"\[-2.0, 6.0\] \(reward_range\), got {value} for arm 1"):
        told("CombUCB1", [0.0, value], reward_range=(-2, 6))


SPREAD = ["tight", "paper", "tight-bernstein", "tight-hoeffding", "CombUCB1", "CombinatorialUCB", "KLUCB", "Greedy"]


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
    assert saved(policy)["counts"].min() >= 1


@pytest.mark.parametrize("name", SPREAD)
def test_arms_missing_from_a_tell_are_not_observed(name: str) -> None:
    policy = make(name)
    decision = policy.ask()
    policy.tell(decision, {int(decision.arms[1]): 1.0})
    assert saved(policy)["counts"][decision.arms].tolist() == [0, 1]


@pytest.mark.parametrize("name", SPREAD)
def test_nothing_is_on_its_way_when_every_decision_was_told(name: str) -> None:
    policy = make(name)
    decisions = [policy.ask() for _ in range(7)]
    for place in (3, 6, 0, 1, 5, 2, 4):
        arms = decisions[place].arms.tolist()
        policy.tell(decisions[place], dict.fromkeys(arms[: place % 3], 1.0))
    assert saved(policy)["pending"].tolist() == [0] * 6


@pytest.fixture
def path(tmp_path: Path) -> Path:
    return tmp_path / "policy.bin"


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


def test_path_may_be_a_string(path: Path) -> None:
    make("CombUCB1").save(str(path))
    assert CombUCB1.load(str(path)).n_arms == 6


@pytest.mark.parametrize("broken", ["replace", "fsync"])
@pytest.mark.parametrize("error", [OSError, KeyboardInterrupt])
def test_failed_save_leaves_the_old_file(
    broken: str, error: type[BaseException], path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    used().save(path)
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
    before, until = os.stat(path).st_ino, time.monotonic() + 120
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
        [sys.executable, "-c", KILLED, str(path)], capture_output=True, text=True, timeout=900, check=False
    )
    assert (done.returncode, int(done.stdout or 0) > 1) == (0, True), done.stderr
    score("processes killed while they save", 25, "a whole file, the old or the new one")


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
    used().save(path)
    whole = path.read_bytes()
    places = sorted({*range(80), *range(80, len(whole), 29), *range(len(whole) - 60, len(whole))})
    flipped = {i: whole[:i] + bytes([whole[i] ^ mask]) + whole[i + 1 :] for i in places}
    assert survivors(path, flipped) == []


def test_any_cut_is_noticed(path: Path) -> None:
    used().save(path)
    whole = path.read_bytes()
    lengths = sorted({*range(80), *range(80, len(whole), 41), *range(len(whole) - 30, len(whole))})
    assert survivors(path, {n: whole[:n] for n in lengths}) == []


def test_anything_added_is_noticed(path: Path) -> None:
    used().save(path)
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


def test_a_replaced_file_keeps_its_permissions(path: Path) -> None:
    make("CombUCB1").save(path)
    for mode in (0o600, 0o640, 0o444):
        path.chmod(mode)
        make("CombUCB1").save(path)
        assert path.stat().st_mode & 0o777 == mode


def test_a_link_leads_to_the_file(path: Path, tmp_path: Path) -> None:
    there = tmp_path / "elsewhere" / "real.bin"
    there.parent.mkdir()
    path.symlink_to(there)
    for _ in range(2):
        make("CombUCB1").save(path)
        assert path.is_symlink()
        assert there.is_file()
        assert not there.is_symlink()
    assert CombUCB1.load(path).ask().number == 0


def test_what_is_no_regular_file_is_not_replaced(path: Path, tmp_path: Path) -> None:
    os.mkfifo(path)
    with pytest.raises(FileExistsError, match="is no regular file, and not replaced"):
        make("CombUCB1").save(path)
    assert stat.S_ISFIFO(path.stat().st_mode)
    with pytest.raises(IsADirectoryError):
        make("CombUCB1").save(tmp_path)
    assert [one.name for one in tmp_path.iterdir()] == [path.name]


def test_saving_sweeps_what_killed_saves_have_left(path: Path) -> None:
    ended = subprocess.run([sys.executable, "-c", "import os; print(os.getpid())"], capture_output=True, check=True)
    gone, own = int(ended.stdout), os.getpid()
    left = path.with_name(f".{path.name}.{'0' * 16}.{HOST}-{gone}.tmp")
    kept = [path.with_name(f".{path.name}.{'1' * 16}.{HOST}-{own}.tmp"), path.with_name(f".other.2.{HOST}-{gone}.tmp")]
    for one in (left, *kept):
        one.write_bytes(b"")
    make("CombUCB1").save(path)
    assert not left.exists()
    assert all(one.exists() for one in kept)


FORMAT_2 = {
    "GuardedThompson": [[7, 8], [7, 8], [7, 8], [7, 8]],
    "ThompsonSampling": [[7, 8], [7, 8], [7, 8], [7, 8]],
    "CombUCB1": [[5, 8], [5, 8], [5, 8], [5, 8]],
    "CombinatorialElimination": [[4, 8], [1, 8], [1, 4], [4, 8]],
    "Guard": [[7, 8], [7, 8], [7, 8], [7, 8]],
    "ConstrainedElimination": [[2, 4], [0, 5], [1, 3], [2, 4]],
}
"""What policies that the first files of format 2 hold went on to choose."""


@pytest.mark.parametrize("name", FORMAT_2)
def test_files_of_before_are_read(name: str) -> None:
    policy: Any = Policy.load(Path(__file__).parent / "format_2" / f"{name}.armtriage")
    assert type(policy).__name__ == name
    assert [policy.ask().arms.tolist() for _ in range(4)] == FORMAT_2[name]


def test_repr_shows_the_arguments() -> None:
    shown = "CombUCB1(FeedbackGraph(n_arms=6, n_edges=6), budget=2, exploration=1.5, seed=7, reward_range=(0.0, 1.0))"
    assert repr(make("CombUCB1")) == shown


def test_a_caller_who_changes_a_decision_changes_nothing_in_the_policy() -> None:
    policy = UniformRandom(FeedbackGraph.cliques([2, 2]), budget=1, seed=7)
    for old in (False, True):
        decision = policy.ask()
        expected = decision.revealed.copy()
        for mine in (decision.revealed, decision.arms):
            with pytest.raises(ValueError, match="read-only"):
                mine[:] = 0
        if old:
            policy.ask()
        before = policy.tally.sums.copy()
        policy.tell(decision, [1.0, 0.0])
        assert np.flatnonzero(policy.tally.sums - before).tolist() == [expected[0]]
