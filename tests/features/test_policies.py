"""Policies with features: asked with raw rows, first of all for rare clicks, and saved with what makes contexts."""

from __future__ import annotations

import copy
import json
import pickle
import subprocess
import sys
from pathlib import Path
from typing import Any

import numpy as np
import pytest
from scipy import sparse

from armtriage import (
    C2UCB,
    ContextualGuard,
    DamagedFile,
    Features,
    Guard,
    GuardedLinear,
    HierarchicalElimination,
    LinearThompsonSampling,
    Policy,
)
from armtriage._files import read_archive, write_archive

TOPICS = ("news", "sport", "opera", "chess")
KINDS: dict[str, Any] = {
    "GuardedLinear": GuardedLinear,
    "C2UCB": C2UCB,
    "LinearThompsonSampling": LinearThompsonSampling,
    "HierarchicalElimination": HierarchicalElimination,
}


def make_features(**more: Any) -> Features:
    return Features(
        {"age": (45, 15), "length": (800, 400)},
        {"topic": TOPICS, "device": ["phone"]},
        {"author": 4},
        [("age", "topic")],
    ).set_params(**more)


FEATURES = make_features().fit()


def page(rng: np.random.Generator, k: int = 8) -> list[dict[str, Any]]:
    """The candidates for a visitor."""
    visitor = {"age": int(rng.integers(18, 80)), "device": str(rng.choice(["phone", "desktop"]))}
    return [
        visitor
        | {"topic": TOPICS[i % 4], "length": float(rng.lognormal(6.5, 0.6)), "author": f"author {rng.integers(50)}"}
        for i in range(k)
    ]


def rates(rows: list[dict[str, Any]]) -> np.ndarray:
    """How many click: 1 to 5 percent, by whether the topic is for the visitor's age."""
    young = np.array([(80 - row["age"]) / 62 for row in rows])
    liking = {"news": 1 - young, "sport": young, "opera": (1 - young) / 2, "chess": 0 * young}
    return 0.01 + 0.04 * np.array([liking[row["topic"]][i] for i, row in enumerate(rows)])


def make(name: str, n_arms: int | None = 8, **more: Any) -> Any:
    if name == "HierarchicalElimination":
        more["horizon"] = 1000
    return KINDS[name](n_arms, FEATURES.dimension, 2, features=FEATURES, reward_range=(0, 1), seed=7, **more)


def play(policy: Any, rounds: int, seed: int = 7) -> list[list[int]]:
    rng, played = np.random.default_rng(seed), []
    for number in range(rounds):
        decision = policy.ask(page(rng))
        played.append(decision.arms.tolist())
        if number % 5 != 4:
            policy.tell(decision, (rng.random(2) < 0.03).astype(float))
    return played


def share_lost(seed: int, rounds: int = 2000) -> float:
    """Return what was lost of clicks, as a share of what guessing loses."""
    rng, lost, guessed = np.random.default_rng(seed), 0.0, 0.0
    policy = GuardedLinear(budget=2, features=FEATURES, reward_range=(0, 1), seed=seed)
    for _ in range(rounds):
        rows = page(rng)
        rate = rates(rows)
        assert 0.01 <= rate.min() <= rate.max() <= 0.05
        decision = policy.ask(rows)
        policy.tell(decision, (rng.random(2) < rate[decision.arms]).astype(float))
        best = np.sort(rate)[-2:].sum()
        lost += best - rate[decision.arms].sum()
        guessed += best - 2 * rate.mean()
    assert policy.account.forced_rounds == 0
    assert policy.certificate().regret_bound >= lost
    return float(lost / guessed)


def test_clicks_of_one_to_five_percent_are_learned_from_raw_rows() -> None:
    # Over 16 seeds the share was 0.51 with a deviation of 0.10, so other seeds would fail with probability 1e-4.
    assert np.mean([share_lost(seed) for seed in range(2)]) < 0.8


@pytest.mark.parametrize("name", KINDS)
def test_raw_rows_are_the_same_as_the_contexts_made_of_them(name: str) -> None:
    policy, plain = make(name), make(name)
    plain = type(policy)(**{**policy.config, "features": None})
    rng = np.random.default_rng(7)
    for _ in range(40):
        rows, rewards = page(rng), rng.random(2)
        one, other = policy.ask(rows), plain.ask(FEATURES.transform(rows))
        assert one.arms.tolist() == other.arms.tolist()
        assert np.array_equal(one.contexts, other.contexts)
        policy.tell(one, rewards)
        plain.tell(other, rewards)


def test_a_request_may_be_a_frame_dicts_an_array_or_sparse() -> None:
    import pandas as pd
    import polars as pl

    rows = page(np.random.default_rng(7))
    expected = make("C2UCB").ask(rows)
    for request in (pd.DataFrame(rows), pl.DataFrame(rows), tuple(rows)):
        assert np.array_equal(make("C2UCB").ask(request).contexts, expected.contexts)
    numbers = np.random.default_rng(7).normal(size=(8, 3))
    features = Features(products=[(0, [1, 2])]).fit(numbers)
    found = [
        GuardedLinear(budget=2, features=features, seed=7).ask(request).contexts.tolist()
        for request in (numbers, numbers.tolist(), sparse.csr_array(numbers), sparse.dok_array(numbers))
    ]
    assert all(one == found[0] for one in found)


@pytest.mark.parametrize("name", KINDS)
def test_a_saved_policy_goes_on_exactly_with_its_features(name: str, tmp_path: Path) -> None:
    policy = make(name)
    play(policy, 20)
    policy.save(tmp_path / "policy")
    for again in (
        Policy.load(tmp_path / "policy"),
        pickle.loads(pickle.dumps(policy)),
        copy.deepcopy(policy),
    ):
        assert again.digest() == policy.digest()
        assert again.feature_report == policy.feature_report
        assert again.config["features"].facts() == FEATURES.facts()
        assert play(again, 20, seed=8) == play(copy.deepcopy(policy), 20, seed=8)


def test_a_file_holds_the_features_as_plain_facts(tmp_path: Path) -> None:
    make("C2UCB").save(tmp_path / "policy")
    header, arrays = read_archive(tmp_path / "policy")
    assert header["config"]["features"] == FEATURES.facts()
    assert {name for name in arrays if name.startswith("features.")} == {"features.rows", "features.odd"}
    assert all(array.dtype.kind in "biufU" for array in arrays.values())


def test_policies_without_features_save_what_they_always_did(tmp_path: Path) -> None:
    C2UCB(3, 2, 1, seed=7).save(tmp_path / "policy")
    header, arrays = read_archive(tmp_path / "policy")
    assert "features" not in header["config"]
    assert not any(name.startswith("features") for name in arrays)


def test_odd_values_are_counted_once_for_each_decision() -> None:
    policy = make("GuardedLinear", None)
    rng = np.random.default_rng(7)
    rows = page(rng, 3)
    rows[0] |= {"length": 1e9, "topic": "war"}
    rows[1] |= {"device": None}
    import pandas as pd

    decision = policy.ask(pd.DataFrame(rows))
    report = policy.feature_report
    assert (report.rows, report.clipped, report.missing) == (3, {"length": 1}, {"device": 1})
    assert report.unknown["topic"] == 1
    policy.certificate(rows)
    with pytest.raises(TypeError, match="column 'length' must hold numbers, got 'long' in row 0"):
        policy.ask([{**rows[0], "length": "long"}])
    with pytest.raises(ValueError, match="eligible must be None where n_arms is"):
        policy.ask(rows, eligible=[0])
    assert policy.feature_report == report
    policy.tell(decision, [0, 1])
    policy.record([0, 1], rows)
    assert policy.feature_report.clipped == {"length": 2}


def test_recorded_decisions_give_the_policy_that_made_them() -> None:
    policy, other = make("GuardedLinear"), make("GuardedLinear")
    rng = np.random.default_rng(7)
    for _ in range(20):
        rows, rewards = page(rng), rng.random(2)
        decision = policy.ask(rows)
        other.record(decision.arms, rows)
        policy.tell(decision, rewards)
        other.tell(decision.number, rewards)
    assert policy.digest() == other.digest()


def test_rows_may_be_mapped_by_the_names_of_arms() -> None:
    policy = make("C2UCB", 3, names=["tea", "milk", "jam"])
    one, two = page(np.random.default_rng(7), 2)
    assert policy.ask({"jam": one, "tea": two}).names == ("tea", "jam")
    assert policy.feature_report.rows == 2
    assert policy.ask(page(np.random.default_rng(7), 2), eligible=["milk", "jam"]).names == ("milk", "jam")


@pytest.mark.parametrize("model", ["disjoint", "hybrid"])
def test_arms_with_parameters_of_their_own_take_raw_rows_too(model: str) -> None:
    policy = GuardedLinear(3, budget=1, features=FEATURES, model=model, names=["tea", "milk", "jam"], seed=7)
    rows = dict(zip(("tea", "milk", "jam"), page(np.random.default_rng(7), 3), strict=True))
    for reward in (0.0, 1.0, 0.5):
        policy.tell_revealed(policy.ask(rows), [reward])
    again = Policy.from_bytes(policy.to_bytes())
    assert again.digest() == policy.digest()
    assert again.feature_report == policy.feature_report
    assert again.ask(rows).names == policy.ask(rows).names


def test_a_function_inside_a_guard_sees_what_features_make_of_rows(tmp_path: Path) -> None:
    """Rows in, contexts to the function; the file has the features, and not the function."""
    seen: list[np.ndarray] = []

    def oldest(contexts: np.ndarray) -> np.ndarray:
        seen.append(contexts)
        return contexts[:, place].argsort()[-2:]

    place = FEATURES.get_feature_names_out().tolist().index("age")
    policy = Guard(oldest, budget=2, features=FEATURES, reward_range=(0, 1), seed=7)
    assert type(policy) is ContextualGuard
    assert (policy.dimension, policy.norm_bound) == (FEATURES.dimension, FEATURES.norm_bound)
    rng = np.random.default_rng(3)
    for _ in range(20):
        rows = [{**row, "age": 20 + 5 * arm} for arm, row in enumerate(page(rng))]
        decision = policy.ask(rows)
        assert np.array_equal(seen[-1], FEATURES.transform(rows))
        if not policy.account.forced_rounds:
            assert decision.arms.tolist() == [6, 7]
        policy.tell(decision, [0, 1])
    with pytest.raises(TypeError, match="column 'age' must hold numbers"):
        policy.ask([{**rows[0], "age": "old"}])
    assert policy.feature_report.rows == 160
    policy.save(tmp_path / "guard")
    again = Policy.load(tmp_path / "guard")
    again.proposer = oldest  # type: ignore[attr-defined]
    assert again.digest() == policy.digest()
    assert again.ask(rows).arms.tolist() == policy.ask(rows).arms.tolist()  # type: ignore[attr-defined]


def test_features_that_are_fitted_anew_change_no_policy() -> None:
    features = make_features().fit()
    policy = GuardedLinear(budget=1, features=features, seed=7)
    features.set_params(clip=0.5, numeric={"age": (0, 1), "length": (0, 1)}).fit()
    rows = page(np.random.default_rng(7))
    assert np.array_equal(policy.ask(rows).contexts[0], FEATURES.transform(rows)[policy.decision(0).arms[0]])
    assert policy.fresh().features.facts() == FEATURES.facts()


BAD: list[tuple[dict[str, Any], type[Exception], str]] = [
    ({"dimension": 3}, ValueError, rf"dimension must be that of the features, {FEATURES.dimension}, got 3"),
    ({"features": "age"}, TypeError, "features must be Features, got str"),
    ({"features": Features()}, ValueError, "not fitted"),
    ({"context_bound": 0.5}, ValueError, r"context_bound must be at least that of the features, 1.0, got 0.5"),
]


@pytest.mark.parametrize(("given", "kind", "message"), BAD)
def test_features_that_do_not_fit_are_refused(given: dict[str, Any], kind: type[Exception], message: str) -> None:
    with pytest.raises(kind, match=message):
        GuardedLinear(**{"dimension": FEATURES.dimension, "budget": 2, "features": FEATURES, **given})


def test_a_subclass_of_features_is_refused_since_no_file_could_keep_it() -> None:
    class Own(Features):
        pass

    with pytest.raises(TypeError, match="features must be Features, got Own"):
        GuardedLinear(budget=1, features=Own({"age": (1, 1)}).fit())


def test_contexts_may_have_any_bound() -> None:
    features = make_features(context_bound=20.0).fit()
    policy = GuardedLinear(budget=1, features=features, context_bound=25.0, seed=7)
    assert np.linalg.norm(policy.ask(page(np.random.default_rng(7))).contexts) > 1


def odd_places(value: Any, path: tuple[Any, ...] = ()) -> list[tuple[Any, ...]]:
    """Every place in JSON values."""
    inside = value.items() if isinstance(value, dict) else enumerate(value) if isinstance(value, list) else ()
    return [path, *(place for key, one in inside for place in odd_places(one, (*path, key)))]


ODD: list[Any] = [None, True, -5, 0, 1.5, 2**62, "x", [], {}, [[]], ["age"], 1e300, [["age", 1, 1]], [["age", ["a"]]]]


def test_files_with_other_features_are_refused_or_play_on(tmp_path: Path) -> None:
    policy = make("C2UCB", None)
    play(policy, 5)
    path, rows = tmp_path / "policy", page(np.random.default_rng(7))
    policy.save(path)
    header, arrays = read_archive(path)
    whole, refused = json.dumps(header), 0
    places = odd_places(header["config"]["features"])[1:]
    cases = [(place, odd) for place in places for odd in ODD]
    for place, odd in [cases[i] for i in np.random.default_rng(7).permutation(len(cases))[:250]]:
        forged = json.loads(whole)
        spot = forged["config"]["features"]
        for key in place[:-1]:
            spot = spot[key]
        spot[place[-1]] = odd
        write_archive(path, forged, arrays)
        try:
            loaded = Policy.load(path)
        except DamagedFile:
            refused += 1
        else:
            try:
                decision = loaded.ask(rows)
            except (TypeError, ValueError):
                continue  # it has other columns
            assert np.linalg.norm(decision.contexts, axis=1).max() <= loaded.context_bound
    assert refused > 150


@pytest.mark.parametrize(
    ("change", "message"),
    [
        ({"features": 3}, "features must be Features"),
        ({"features": {}}, "features must have alone, categories"),
        ({"features": None}, "no counts of features without any"),
        ({"features": {**FEATURES.facts(), "code": "x"}}, "and nothing else"),
        ({"features": {**FEATURES.facts(), "hashed": [["author", 2**19]]}}, "dimension must be that of the features"),
        ({"features": {**FEATURES.facts(), "numeric": [["age", 1, 1], ["age", 1, 1]]}}, "name each column once"),
        ({"features": {**FEATURES.facts(), "n_columns": 2}}, "n_columns must be a whole number from 5, got 2"),
    ],
)
def test_files_with_hostile_features_are_refused(change: dict[str, Any], message: str, tmp_path: Path) -> None:
    make("C2UCB").save(tmp_path / "policy")
    header, arrays = read_archive(tmp_path / "policy")
    header["config"] |= change
    write_archive(tmp_path / "policy", header, arrays)
    with pytest.raises(DamagedFile, match=message):
        Policy.load(tmp_path / "policy")


@pytest.mark.parametrize(
    ("name", "array", "message"),
    [
        ("features.rows", np.array(-1), "rows of features must lie between"),
        ("features.rows", np.array(0.5), "rows has shape"),
        ("features.odd", np.full((2, 5), 10**6), "odd values must lie between"),
        ("features.odd", np.zeros((2, 4), np.int64), "odd has shape"),
        ("features.more", np.array(1), "features must have rows and odd"),
    ],
)
def test_files_with_odd_counts_are_refused(name: str, array: np.ndarray, message: str, tmp_path: Path) -> None:
    policy = make("C2UCB")
    play(policy, 5)
    policy.save(tmp_path / "policy")
    header, arrays = read_archive(tmp_path / "policy")
    write_archive(tmp_path / "policy", header, {**arrays, name: array})
    with pytest.raises(DamagedFile, match=message):
        Policy.load(tmp_path / "policy")


def test_without_scikit_learn_features_name_the_extra_and_the_rest_works(tmp_path: Path) -> None:
    make("C2UCB").save(tmp_path / "policy")
    code = (
        "import sys; sys.modules['sklearn'] = None\n"
        "import armtriage\n"
        "print(armtriage.C2UCB(3, 2, 1, seed=7).features)\n"
        "for do in (lambda: armtriage.Features, lambda: armtriage.Policy.load(sys.argv[1])):\n"
        "    try: do()\n"
        "    except ModuleNotFoundError as error: print(error)\n"
    )
    command = [sys.executable, "-c", code, str(tmp_path / "policy")]
    shown = subprocess.run(command, capture_output=True, text=True, check=True, timeout=300).stdout.splitlines()
    assert shown == ["None", *["Features needs scikit-learn, which the extra armtriage[features] brings"] * 2]
