"""A file is input: whatever its checksum says, it is refused with a sentence, or plays on with valid decisions."""

from __future__ import annotations

import io
import json
import tracemalloc
import zipfile
from collections.abc import Callable
from pathlib import Path
from typing import Any

import numpy as np
import pytest

from armtriage import (
    C2UCB,
    CombinatorialElimination,
    CombUCB1,
    ContextualPolicy,
    DamagedFile,
    FeedbackGraph,
    Guard,
    GuardedThompson,
    OldLog,
    Policy,
    ThompsonSampling,
    TopS,
)
from armtriage import _files as files
from armtriage._files import pack_archive, read_archive, write_archive
from conftest import POLICIES, ask, every_policy, play, score, used

pytestmark = pytest.mark.thorough

Header = dict[str, Any]
Arrays = dict[str, np.ndarray]

ODD: list[Any] = [None, True, -5, 0, 1, 5.5, 2**62, 10**400, "x", "", [], {}, [1], {"a": 1}, float("nan")]


def odd_number(rng: np.random.Generator, kind: np.dtype) -> Any:
    if kind.kind == "f":
        return rng.choice([np.nan, np.inf, -np.inf, -1.0, -0.0, 0.0, 0.5, 1.0, 2.0, 1e300, -1e300, 5e-324, 1e9])
    if kind.kind == "b":
        return bool(rng.integers(2))
    info = np.iinfo(kind)
    some = [info.min, info.max, 0, 1, 2, 3, 7, 200, -1, -2, 10**9, 10**11]
    return rng.choice(np.array([one for one in some if info.min <= one <= info.max], kind))


def mutate(rng: np.random.Generator, header: Header, arrays: Arrays) -> str:
    """Change something, and say what."""
    names = sorted(arrays)
    name = names[rng.integers(len(names))]
    array = arrays[name]
    way = rng.integers(10)
    if way <= 5 and array.size and array.dtype.kind != "U":
        arrays[name] = array = array.copy()
        for _ in range(rng.integers(1, 4)):
            array.flat[rng.integers(array.size)] = odd_number(rng, array.dtype)
        return f"values of {name}"
    if way == 6 and array.size and array.ndim:
        arrays[name] = array[rng.permutation(array.shape[0])]
        return f"order of {name}"
    if way == 7:
        arrays[name] = [array[:-1] if array.ndim else array.reshape(1), array.reshape(-1), np.append(array, array)][
            rng.integers(3)
        ]
        return f"shape of {name}"
    if way == 8:
        if rng.integers(2):
            del arrays[name]
            return f"lost {name}"
        if array.dtype.kind != "U":
            arrays[name] = array.astype(rng.choice(["float64", "int64", "uint8", "bool"]))
        return f"type of {name}"
    place: Any = header
    key = ["asked", "id", "policy", "config", "config", "config", "format"][rng.integers(7)]
    if key == "config" and isinstance(header["config"], dict) and header["config"]:
        place = header["config"] = dict(header["config"])
        keys = sorted(place)
        key = keys[rng.integers(len(keys))]
    place[key] = ODD[rng.integers(len(ODD))]
    return f"header {key} = {place[key]!r}"


def write(path: Path, header: Header, arrays: Arrays) -> bool:
    """Write a file with the right checksum, not for long; False if the header cannot be written at all."""
    try:
        path.write_bytes(pack_archive(header, arrays))
    except (TypeError, ValueError):
        return False
    return True


def check(path: Path, name: str) -> bool:
    """Load a file and play on; False if it was refused."""
    try:
        policy: Any = Policy.load(path)
    except DamagedFile:
        return False
    env = POLICIES[name].environment
    for one in policy.open_decisions:
        policy.close(one, default=max(policy.reward_range[0], 0.0))
    for number in range(12):
        if isinstance(policy, ContextualPolicy) and policy.context_bound < 1.0:
            return True  # The environment's contexts are too long for it.
        decision = ask(policy, env, number)
        arms = decision.arms
        assert np.all(np.diff(arms) > 0), arms
        assert arms.size == 0 or (arms[0] >= 0 and arms[-1] < policy.n_arms)
        if policy.decisions is None:
            assert arms.size == min(policy.budget, np.count_nonzero(~policy.arms.retired))
        else:
            assert policy.decisions.contains(arms)
        low, high = policy.reward_range
        policy.tell(decision, np.clip(np.resize([0.0, 1.0], decision.revealed.size), low, high))
    if POLICIES[name].face == "arms":
        assert not np.isnan(policy.certificate().regret_bound)
    if hasattr(policy, "triage"):
        assert policy.triage
    return True


def changed(name: str) -> Any:
    """A policy whose arms have come and gone, with rewards told in parts."""
    policy = used(name)
    new = policy.add_arms(2)
    for number in range(30):
        decision = policy.ask(eligible=[0, 2, 4, 6, 8, *new.tolist()][number % 3 :])
        rewards = [float(arm % 3 == number % 2) for arm in decision.revealed.tolist()]
        policy.tell(decision, rewards)
        if number == 10:
            policy.retire_arms([1, 3])
            policy.restore_arms([3], forget=True)
    late, rest = policy.ask(eligible=range(4, 9)), policy.ask()
    policy.tell(late, {int(late.arms[0]): 1.0}, last=False)
    assert rest.number == policy._asked - 1
    return policy


def forge_many(name: str, path: Path, number: int, seed: int, make: Callable[[str], Any] = used) -> tuple[int, int]:
    """Return how many forged files were refused and accepted."""
    make(name).save(path)
    header, arrays = read_archive(path)
    rng, found = np.random.default_rng(seed), [0, 0]
    for _ in range(number):
        other, parts = json.loads(json.dumps(header)), dict(arrays)
        changed = mutate(rng, other, parts)
        if write(path, other, parts):
            try:
                found[check(path, name)] += 1
            except Exception as error:
                raise AssertionError(f"{changed}: {error!r}") from error
    return found[0], found[1]


@every_policy
def test_forged_file_is_refused_or_plays_on(name: str, tmp_path: Path) -> None:
    refused, _ = forge_many(name, tmp_path / "policy.bin", 20, seed=1)
    assert refused >= 5


CHANGED = [*("ThompsonSampling", "UniformRandom", "CombUCB1", "KLUCB", "tight", "tight-bernstein")]
CHANGED += ["GuardedThompson", "GuardedThompson-shadow", "GuardedThompson-certify", "Guard", "Guard-shadow"]


@pytest.mark.parametrize("name", CHANGED)
def test_forged_file_of_arms_that_changed_is_refused_or_plays_on(name: str, tmp_path: Path) -> None:
    refused, _ = forge_many(name, tmp_path / "policy.bin", 30, seed=3, make=changed)
    assert refused >= 7


def warm(name: str) -> Any:
    """A policy that has begun with an old log."""
    policy = POLICIES[name].make(old_log=OldLog([200] * 10, [10.0 * arm for arm in range(10)], bias=0.05))
    for number in range(30):
        decision = policy.ask()
        policy.tell(decision, [float(arm % 3 == number % 2) for arm in decision.revealed.tolist()])
    policy.ask()
    return policy


@pytest.mark.parametrize("name", ["ThompsonSampling", "GuardedThompson", "GuardedIndex"])
def test_forged_file_with_an_old_log_is_refused_or_plays_on(name: str, tmp_path: Path) -> None:
    refused, _ = forge_many(name, tmp_path / "policy.bin", 60, seed=5, make=warm)
    assert refused >= 15


@pytest.mark.long
@pytest.mark.parametrize("name", CHANGED)
def test_many_forged_files_of_arms_that_changed_are_refused_or_play_on(name: str, tmp_path: Path) -> None:
    refused, accepted = forge_many(name, tmp_path / "policy.bin", 600, seed=4, make=changed)
    assert refused >= 150
    assert accepted >= 1
    score("saved policies whose arms changed, forged and sealed: refused", refused, "a sentence that says why")
    score("saved policies whose arms changed, forged and sealed: played on", accepted, "valid decisions")


@pytest.mark.long
@every_policy
def test_many_forged_files_are_refused_or_play_on(name: str, tmp_path: Path) -> None:
    refused, accepted = forge_many(name, tmp_path / "policy.bin", 450, seed=2)
    assert refused >= 150
    assert accepted >= 1
    score("saved policies, forged and sealed: refused", refused, "a sentence that says why")
    score("saved policies, forged and sealed: played on", accepted, "valid decisions")


@pytest.fixture
def path(tmp_path: Path) -> Path:
    return tmp_path / "policy.bin"


def forged(path: Path, policy: Any, change: Callable[[Header, Arrays], None]) -> None:
    policy.save(path)
    header, arrays = read_archive(path)
    change(header, arrays)
    write_archive(path, header, arrays)


def elimination() -> CombinatorialElimination:
    policy = CombinatorialElimination(FeedbackGraph.cliques([3, 3, 3]), 3, seed=1)
    for _ in range(20):
        decision = policy.ask()
        policy.tell(decision, np.zeros(decision.revealed.size))
    policy.ask()
    return policy


ELIMINATION = {
    "an active arm far away": ("state.sets.status", 0, 9, "status must lie between 0 and 2"),
    "an arm that was never observed": ("evidence.counts", 0, 77, "counts must lie between 0 and 21"),
    "a log of no arm": ("state.sets.whole", 7, 10**9, "n_logged must lie between 0 and 9"),
    "a tally that is no number": ("evidence.sums", 0, np.nan, "sums must lie between 0 and"),
    "a negative tally": ("evidence.pulls", 0, -1, "pulls must lie between 0 and 21"),
    "a decision that was never asked": ("open.numbers", 0, 500, "numbers of open decisions must lie between 0 and 20"),
    "an interval that is none": ("evidence.lower", 0, 2.0, "lower must lie between 0 and 1"),
}


@pytest.mark.parametrize("case", ELIMINATION)
def test_a_forged_state_is_refused_with_its_reason(case: str, path: Path) -> None:
    name, place, value, reason = ELIMINATION[case]

    def change(header: Header, arrays: Arrays) -> None:
        arrays[name] = arrays[name].copy()
        arrays[name][place] = value

    forged(path, elimination(), change)
    with pytest.raises(DamagedFile, match=f"does not hold a whole CombinatorialElimination: .*{reason}"):
        Policy.load(path)


GHOSTS = {
    "lower": (-0.5, "lower ends of ghosts must lie between 0 and 1"),
    "upper": (np.inf, "upper ends of ghosts must lie between"),
    "admitted": (-1, "admitted pulls of ghosts must lie between 0 and"),
    "offered": (10**6, "offered rounds of ghosts must lie between"),
}


@pytest.mark.parametrize("name", GHOSTS)
def test_forged_arms_that_began_again_are_refused(name: str, path: Path) -> None:
    value, reason = GHOSTS[name]

    def change(header: Header, arrays: Arrays) -> None:
        arrays[f"ghosts.{name}"] = np.full_like(arrays[f"ghosts.{name}"], value)

    forged(path, changed("GuardedThompson"), change)
    with pytest.raises(DamagedFile, match=f"does not hold a whole GuardedThompson: .*{reason}"):
        Policy.load(path)


@pytest.mark.parametrize("asked", [-5, "x", 0, 10**4000, 5.5, None, True])
def test_a_number_of_decisions_that_cannot_be_is_refused(asked: Any, path: Path) -> None:
    forged(path, elimination(), lambda header, arrays: header.update(asked=asked))
    with pytest.raises(DamagedFile):
        Policy.load(path)


@pytest.mark.parametrize("numbers", [[3, 3], [-1, 3], [5.5, 6.0], ["a", "b"], [4, 3]])
def test_open_decisions_that_cannot_be_are_refused(numbers: list[Any], path: Path) -> None:
    policy = CombUCB1(FeedbackGraph.semi_bandit(5), 2, seed=1)
    for _ in range(8):
        policy.ask()
    for number in range(6):
        policy.tell(number, {})
    forged(path, policy, lambda header, arrays: arrays.update({"open.numbers": np.array(numbers)}))
    with pytest.raises(DamagedFile):
        Policy.load(path)


@pytest.mark.parametrize("header", [b"[1]", b"3", b"null", b'"x"', b"[" * 100_000, b"\xff", b"{}", b'{"format": 2}'])
def test_a_header_that_is_none_is_refused(header: bytes, path: Path) -> None:
    elimination().save(path)
    _, arrays = read_archive(path)
    buffer = io.BytesIO()
    np.savez(buffer, header=np.frombuffer(header, np.uint8), **{f"array.{name}": one for name, one in arrays.items()})
    seal(path, buffer.getvalue())
    with pytest.raises(DamagedFile):
        Policy.load(path)


def seal(path: Path, payload: bytes) -> None:
    path.write_bytes(files._MAGIC + files.hashlib.sha256(payload).digest() + payload)


@pytest.mark.parametrize("mask", [0x01, 0x20, 0x80, 0xFF])
def test_resealed_damage_is_refused_or_plays_on(mask: int, path: Path) -> None:
    used("tight").save(path)
    whole = path.read_bytes()[len(files._MAGIC) + files._DIGEST :]
    for place in range(mask % 37, len(whole), 211):
        seal(path, whole[:place] + bytes([whole[place] ^ mask]) + whole[place + 1 :])
        check(path, "tight")


def peak(path: Path) -> float:
    """How many times the file's size are taken at most, while it is refused."""
    tracemalloc.start()
    try:
        with pytest.raises(DamagedFile):
            Policy.load(path)
        return tracemalloc.get_traced_memory()[1] / path.stat().st_size
    finally:
        tracemalloc.stop()


def test_a_compressed_file_is_refused_unpacked(path: Path) -> None:
    elimination().save(path)
    header, arrays = read_archive(path)
    buffer = io.BytesIO()
    text = np.frombuffer(json.dumps(header).encode(), np.uint8)
    named = {f"array.{name}": one for name, one in arrays.items()}
    np.savez_compressed(buffer, header=text, **named, **{"array.more": np.zeros(10**7)})
    seal(path, buffer.getvalue())
    assert path.stat().st_size < 10**6
    assert peak(path) < 4


def test_an_array_of_more_than_the_file_holds_is_refused(path: Path) -> None:
    content = io.BytesIO()
    np.lib.format.write_array_header_1_0(content, {"descr": "<f8", "fortran_order": False, "shape": (10**12,)})
    buffer = io.BytesIO()
    with zipfile.ZipFile(buffer, "w") as archive:
        archive.writestr("header.npy", content.getvalue())
        archive.writestr("filling.npy", bytes(200_000))
    seal(path, buffer.getvalue())
    assert peak(path) < 4


@pytest.mark.parametrize(
    ("policy", "argument"),
    [
        (C2UCB(2000, 3, 2, seed=1), "n_arms"),
        (C2UCB(2000, 3, 2, seed=1), "dimension"),
    ],
    ids=["arms", "dimension"],
)
def test_sizes_are_checked_before_anything_is_made(policy: Any, argument: str, path: Path) -> None:
    policy.ask(np.zeros((2000, 3)))
    forged(path, policy, lambda header, arrays: header["config"].update({argument: 2 * 10**8}))
    assert peak(path) < 4


def test_sizes_of_decisions_are_checked_before_anything_is_made(path: Path) -> None:
    policy = ThompsonSampling(FeedbackGraph.semi_bandit(2000), decisions=TopS(2000, 3), seed=1)
    policy.ask()
    forged(path, policy, lambda header, arrays: arrays.update({"decisions.n_arms": np.array(10**8)}))
    assert peak(path) < 4


def test_an_entry_that_nobody_expects_is_refused(path: Path) -> None:
    for name in ("state.more", "tally.more", "open.more", "graph.more", "decisions.more", "more"):
        forged(path, elimination(), lambda header, arrays, name=name: arrays.update({name: np.zeros(3)}))  # type: ignore[misc]
        with pytest.raises(DamagedFile):
            Policy.load(path)


def test_a_guard_with_another_guard_as_its_proposer_is_refused(path: Path) -> None:
    graph = FeedbackGraph.semi_bandit(4)
    policy = Guard(ThompsonSampling(graph, 1, seed=1), graph, 1, seed=1)
    for name in ("Guard", "GuardedThompson", "C2UCB", "nothing", ["x"]):
        forged(path, policy, lambda header, arrays, name=name: header["config"]["proposer"].update(policy=name))  # type: ignore[misc]
        with pytest.raises(DamagedFile):
            Policy.load(path)


def test_what_follows_from_facts_is_computed_anew(path: Path) -> None:
    """Files of before, which held more, still load; what they say beyond the facts is not believed."""
    policy = GuardedThompson(FeedbackGraph.cliques([3, 3]), 2, seed=1)
    play(policy, POLICIES["GuardedThompson"].environment, 0)
    for _ in range(30):
        decision = policy.ask()
        policy.tell(decision, np.full(decision.revealed.size, 0.5))
    policy.save(path)
    header, arrays = read_archive(path)
    more = {"state.book.everyone.open": np.full(6, 10**11), "state.sampler.incumbents": np.full(2, -7)}
    write_archive(path, header, arrays | more)
    loaded = GuardedThompson.load(path)
    assert [loaded.ask().arms.tolist() for _ in range(20)] == [policy.ask().arms.tolist() for _ in range(20)]
