"""Frames of pandas and polars: where arms have names, rows are matched by them and never by their places."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import pandas as pd
import polars as pl
import pytest

from armtriage import C2UCB, Features, GuardedLinear, UnknownArm

NAMES = ["tea", "milk", "jam", "rum"]
PRICES = [1.0, 2.0, 3.0, 4.0]
INDEXED = pd.DataFrame({"price": PRICES}, index=NAMES)
FEATURES = Features(numeric={"price": (2.5, 1.0)}).fit()
KINDS: dict[str, Callable[[list[str]], Any]] = {
    "index": lambda names: INDEXED.loc[names],
    "column": lambda names: INDEXED.loc[names].rename_axis("arm").reset_index(),
    "column beside numbered rows": lambda names: INDEXED.rename_axis("name").reset_index().set_index("name").loc[names]
    .reset_index().set_axis(range(5, 5 + len(names))),
    "polars": lambda names: pl.DataFrame({"name": names, "price": INDEXED.loc[names, "price"].tolist()}),
}  # fmt: skip


def raw(**more: Any) -> GuardedLinear:
    return GuardedLinear(4, budget=1, features=FEATURES, names=NAMES, reward_range=(0, 1), seed=7, **more)


def ready() -> C2UCB:
    return C2UCB(4, dimension=1, budget=1, names=NAMES, context_bound=4.0, seed=7)


@pytest.mark.parametrize("make", [raw, ready])
@pytest.mark.parametrize("kind", KINDS)
@pytest.mark.parametrize("names", [NAMES, NAMES[::-1], ["rum", "milk"]])
def test_rows_are_those_of_the_arms_that_they_name(make: Any, kind: str, names: list[str]) -> None:
    expected = make().ask({name: {"price": PRICES[NAMES.index(name)]} for name in names} if make is raw else {
        name: [PRICES[NAMES.index(name)]] for name in names
    })  # fmt: skip
    policy = make()
    decision = policy.ask(KINDS[kind](names))
    assert decision.names == expected.names
    assert decision.contexts.tolist() == expected.contexts.tolist()
    again = make().record(decision.names, KINDS[kind](names))
    assert again.contexts.tolist() == expected.contexts.tolist()


@pytest.mark.parametrize("kind", KINDS)
def test_eligible_arms_are_taken_out_of_a_larger_frame(kind: str) -> None:
    policy, expected = raw(), raw().ask({name: {"price": PRICES[NAMES.index(name)]} for name in ("tea", "jam")})
    decision = policy.ask(KINDS[kind](NAMES[::-1]), eligible=["jam", "tea"])
    assert decision.names == expected.names
    assert decision.contexts.tolist() == expected.contexts.tolist()
    assert policy.feature_report.rows == 2
    with pytest.raises(ValueError, match="a row for each eligible arm, got none for 'milk'"):
        policy.ask(KINDS[kind](["tea"]), eligible=["milk", "tea"])


@pytest.mark.parametrize(
    ("frame", "error", "said"),
    [
        (INDEXED.reset_index(drop=True), TypeError, "names of the arms as index, or in a column 'arm' or 'name'"),
        (INDEXED.reset_index(drop=True).iloc[1:], TypeError, r"got a frame with the columns \['price'\]"),
        (pl.DataFrame({"price": PRICES}), TypeError, r"got a frame with the columns \['price'\]"),
        (INDEXED.rename({"tea": "coffee"}), UnknownArm, "contexts has 'coffee', which is no arm's name"),
        (INDEXED.loc[["tea", "tea"]], ValueError, "one row for each arm, got more for 'tea'"),
    ],
)
@pytest.mark.parametrize("make", [raw, ready])
def test_frames_that_cannot_be_matched_are_refused(make: Any, frame: Any, error: type[Exception], said: str) -> None:
    policy = make()
    before = policy.digest()
    with pytest.raises(error, match=said):
        policy.ask(frame)
    assert policy.digest() == before


def test_a_column_that_is_a_feature_names_no_arms() -> None:
    features = Features(categories={"name": ["x", "y"]}).fit()
    policy = GuardedLinear(2, budget=1, features=features, names=["tea", "milk"], reward_range=(0, 1), seed=7)
    with pytest.raises(TypeError, match="since the arms have names"):
        policy.ask(pd.DataFrame({"name": ["x", "y"]}))


def test_numbers_may_be_names() -> None:
    policy = C2UCB(3, dimension=1, budget=3, names=[10, 20, 30], context_bound=4.0, seed=7)
    frame = pd.DataFrame({"price": [3.0, 2.0, 1.0]}, index=[30, 20, 10])
    assert policy.ask(frame).contexts.ravel().tolist() == [1.0, 2.0, 3.0]


def test_without_names_rows_go_by_their_places() -> None:
    policy = C2UCB(4, dimension=1, budget=4, context_bound=4.0, seed=7)
    assert policy.ask(INDEXED.iloc[::-1]).contexts.ravel().tolist() == PRICES[::-1]


def test_candidates_of_a_first_request_may_be_named_by_a_frame() -> None:
    policy = GuardedLinear(budget=2, features=FEATURES, reward_range=(0, 1), seed=7)
    assert policy.ask(INDEXED.iloc[:2]).names == ("tea", "milk")
    assert policy.ask(INDEXED.iloc[2:]).names == ("jam", "rum")
    with pytest.raises(TypeError, match="since the arms have names"):
        policy.ask(INDEXED.reset_index(drop=True))
    plain = GuardedLinear(budget=2, features=FEATURES, reward_range=(0, 1), seed=7)
    assert plain.names is None
    assert plain.ask(INDEXED.reset_index(drop=True).iloc[1:3]).arms.tolist() == [0, 1]
