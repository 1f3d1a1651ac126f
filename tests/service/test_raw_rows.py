"""Policies with features: raw rows in requests, contexts in the log, and a replay that needs no scikit-learn."""

import random
import subprocess
import sys

import msgspec
import numpy as np
import pytest

from armtriage import Features, GuardedLinear
from armtriage.service.messages import ODD, Create
from armtriage.service.recipe import Recipe
from armtriage.service.refusal import Refused
from armtriage.service.upkeep import check, replay
from service.calls import SLATE, run, served

GIVEN = Features(
    {"age": (45.0, 15.0)},
    {"device": ["phone", "desktop"]},
    {"author": 4},
    [("age", "device")],
    alone=["device", "author"],
).fit()
ABOUT = {"policy": {"kind": "guarded_linear"}, "features": GIVEN.facts()}


def visit(chance):
    """Rows for the five arms: an outlier, a category that nobody knows and a missing value among them."""
    age, device = chance.choice([20, 33.5, 61, 900, None]), chance.choice(["phone", "desktop", "fridge", None])
    return [{"age": age, "device": device, "author": f"author {chance.randrange(9)}", "more": 1} for _ in range(5)]


@pytest.mark.parametrize("kind", ["guarded_linear", "c2ucb"])
def test_rows_are_the_contexts_made_of_them_and_the_log_is_replayed(sqlite_address, kind):
    async def work():
        about = ABOUT | {"policy": {"kind": kind}}
        chance, plain = random.Random(3), random.Random(3)
        async with served(sqlite_address) as call:
            await call.make(**about)
            recipe = call.service.loops["slate"].state.recipe
            policy = recipe.make()
            for _ in range(12):
                made = await call.decide(rows=visit(chance))
                decision = policy.ask(GIVEN.transform(visit(plain)))
                assert made["arms"] == list(decision.names)
                told = {name: place % 2 for place, name in enumerate(made["arms"])}
                assert (await call.reward(made["id"], told)).status_code == 200
                policy.tell(decision, told)
            if kind == "guarded_linear":
                assert policy.norm_bound == GIVEN.norm_bound
                assert isinstance(policy, GuardedLinear)
            seen = (await call.get(f"/v1/policies/slate/decisions/{made['id']}")).json()
            assert np.shape(seen["contexts"])[1] == GIVEN.dimension
            live = await call.digest()
        async with served(sqlite_address) as call:
            assert await call.digest() == live
            problems, policies = await check(call.service.store)
            assert (problems, policies["slate"]["digest"]) == ([], live["digest"])
            assert (await replay(call.service.store, "slate"))["different"] == 0
            by_name = await call.decide(rows={"tea": visit(chance)[0], "egg": visit(chance)[1]})
            assert sorted(by_name["arms"]) == ["egg", "tea"]

    run(work)


ROW = {"age": 30, "device": "phone", "author": "N. N."}


def test_odd_values_of_decisions_are_counted_once_and_kept(sqlite_address):
    async def work():
        odd = [ROW | {"age": 900}, ROW | {"device": "fridge", "author": None}, ROW, ROW | {"age": None}, ROW]
        said = 'armtriage_odd_values_total{policy="slate",what="clipped"}'
        async with served(sqlite_address) as call:
            await call.make(**ABOUT)
            assert f"{said} 0" in (await call.get("/metrics")).text
            for _ in range(2):  # the second is the first again
                await call.decide(id="visit-1", rows=odd)
            await call.decide(rows={"tea": ROW, "egg": ROW | {"age": -900}})
            refused = {"rows": [*odd[:4], {"age": 900, "device": "fridge"}]}
            assert (await call.post("/v1/policies/slate/decisions", json=refused)).status_code == 422
            assert f"{said} 2" in (await call.get("/metrics")).text
        async with served(sqlite_address) as call:
            counts = (await call.get("/v1/policies/slate")).json()["counts"]
            assert {name: counts.get(name) for name in ODD} == {"clipped": 2, "unknown": 1, "missing": 2}
            assert (await replay(call.service.store, "slate"))["different"] == 0
            assert (await call.get("/v1/policies/slate")).json()["counts"] == counts

    run(work)


@pytest.mark.parametrize(
    ("body", "status", "says"),
    [
        ({}, 422, "rows are missing"),
        ({"contexts": [[0.1] * GIVEN.dimension] * 5}, 422, "rows are missing"),
        ({"rows": [ROW] * 5, "contexts": [[0.1] * GIVEN.dimension] * 5}, 422, "give rows alone"),
        ({"rows": [ROW] * 4}, 422, "a row for each of the 5 arms"),
        ({"rows": [ROW | {"age": "<script>"}] * 5}, 422, "column 'age' must hold numbers"),
        ({"rows": [ROW] * 4 + [{"age": 3, "device": "phone"}]}, 422, "every row must have the column 'author'"),
        ({"rows": {"tea": ROW, "cake": ROW}}, 422, "No arm is called"),
        ({"rows": [ROW | {"age": [1]}] * 5}, 422, "rows"),
        ({"rows": [ROW | {str(i): i for i in range(40)}] * 5}, 422, "rows"),
        ('{"rows": {"tea": {"age": NaN, "device": "phone", "author": "x"}}}', 400, "not JSON"),
        ('{"rows": {"tea": {"age": 1, "age": 2, "device": "phone", "author": "x"}}}', 400, "An object has the key"),
        ({"rows": {}}, 422, "No arm that is eligible is left"),
    ],
)  # fmt: skip
def test_rows_that_do_not_fit_are_refused_by_name_and_change_nothing(sqlite_address, body, status, says):
    async def work():
        async with served(sqlite_address) as call:
            await call.make(**ABOUT)
            before = await call.digest()
            given = {"content": body.encode()} if isinstance(body, str) else {"json": body}
            answer = await call.post("/v1/policies/slate/decisions", **given)
            assert (answer.status_code, says in answer.text) == (status, True), answer.text
            assert "<script" not in answer.text
            assert await call.digest() == before

    run(work)


@pytest.mark.parametrize(
    ("more", "says"),
    [
        ({"dimension": 3}, "dimension must be left out"),
        ({"policy": {"kind": "thompson"}}, "policies with contexts only"),
        ({"policy": {"kind": "c2ucb", "context_bound": 2}}, "without context_bound"),
        ({"policy": {"kind": "c2ucb", "features": "x"}}, "an option that c2ucb has not"),
        ({"features": {}}, "features: "),
        ({"features": {"numeric": [["age", 45, 0]]}}, "features: "),
        ({"features": {"numeric": [["age", 45, 15]], "hashed": [["age", 3]]}}, "each column"),
        ({"features": {"numeric": [["age", 45, 15]], "products": [[["age"], ["size"]]]}}, "features: "),
        ({"features": {"hashed": [["a", 2048], ["b", 2048]]}}, "at most 2048"),
        ({"features": {"numeric": [["age", 45]]}}, "features.numeric"),
        ({"features": {"clip": 1e9, "numeric": [["age", 45, 15]]}}, "clip must lie in"),
    ],
)  # fmt: skip
def test_features_that_do_not_fit_are_refused_before_anything_is_stored(sqlite_address, more, says):
    async def work():
        async with served(sqlite_address) as call:
            answer = await call.post("/v1/policies", json=SLATE | ABOUT | more)
            assert (answer.status_code, says in answer.text) == (422, True), answer.text
            assert (await call.get("/v1/policies")).json()["policies"] == []

    run(work)


def test_parts_may_be_left_out_and_the_recipe_says_what_was_made_of_them():
    short = {"numeric": [["age", 45, 15]], "categories": [["device", ["phone"]]]}
    recipe = Recipe(msgspec.convert(SLATE | ABOUT | {"features": short}, Create))
    assert (recipe.create.dimension, recipe.create.policy["norm_bound"]) == (4, pytest.approx(2 * 3**0.5))
    again = Recipe.read(recipe.to_json())
    assert again.to_json() == recipe.to_json()
    assert again.make().digest() == recipe.make().digest()
    assert again.features.get_feature_names_out().tolist() == ["1", "age", "device=phone", "device unknown"]


def test_without_scikit_learn_features_are_refused_and_recipes_are_read():
    stored = Recipe(msgspec.convert(SLATE | ABOUT, Create)).to_json()
    code = (
        "import sys; sys.modules['sklearn'] = None\n"
        "from armtriage.service.recipe import Recipe, _RECIPE\n"
        "stored = sys.stdin.buffer.read()\n"
        "print(Recipe.read(stored).make().digest())\n"
        "for do in (lambda: Recipe(_RECIPE.decode(stored)), lambda: Recipe.read(stored).features):\n"
        "    try: do()\n"
        "    except Exception as error: print(error.code, error.status, error.detail)\n"
    )
    shown = subprocess.run([sys.executable, "-c", code], input=stored, capture_output=True, check=True, timeout=300)
    refused = "not_installed 501 features need pip install 'armtriage[features]'"
    assert shown.stdout.decode().splitlines() == [Recipe.read(stored).make().digest(), refused, refused]


def test_a_policy_without_features_takes_no_rows(sqlite_address):
    async def work():
        async with served(sqlite_address) as call:
            await call.make(policy={"kind": "c2ucb"}, dimension=2)
            answer = await call.post("/v1/policies/slate/decisions", json={"rows": [ROW] * 5})
            assert (answer.status_code, "contexts are missing" in answer.text) == (422, True)

    run(work)


def test_refusals_repeat_no_markup():
    with pytest.raises(Refused) as refused:
        Recipe(msgspec.convert(SLATE | ABOUT | {"features": {"numeric": [["<b>", 1, 1], ["<b>", 2, 2]]}}, Create))
    assert "<b>" not in refused.value.detail
