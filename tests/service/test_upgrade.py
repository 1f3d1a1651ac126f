"""Stores that earlier versions wrote: each opens, replays, and goes on."""

import shutil
from pathlib import Path

import msgspec
import pytest

from armtriage.service.messages import Create, DecisionFamily
from armtriage.service.recipe import Recipe
from armtriage.service.upkeep import check
from service.calls import run, served

KEPT = sorted(Path(__file__).parent.glob("kept/*.db"))


@pytest.mark.parametrize("kept", KEPT, ids=lambda file: file.stem)
def test_kept_stores_open_replay_and_go_on(kept, tmp_path):
    file = tmp_path / "decisions.db"
    shutil.copy(kept, file)

    async def work():
        async with served(str(file)) as call:
            while True:
                problems, states = await check(call.service.store)
                served_as = {name: await call.digest(name) for name in states}
                if all(served_as[name]["seq"] == state["head"] for name, state in states.items()):
                    break  # else what was open has just run out of time
            assert problems == []
            for name, state in states.items():
                assert served_as[name]["digest"] == state["digest"]
            seen = (await call.get("/v1/policies/slate")).json()
            assert (seen["decisions"], seen["arms"], seen["status"]) == (13, 6, "running")
            told = (await call.get("/v1/policies/slate/decisions/v1")).json()
            assert told["status"] == "closed"
            again = await call.post("/v1/policies/slate/decisions", json={"id": "after"})
            assert again.status_code == 200
            fresh = await call.decide(id="fresh")
            assert fresh["number"] == 13
            assert (await call.reward("fresh", hits=fresh["arms"][:1])).status_code == 200
            assert (await call.decide("linear", id="y", contexts=[[0.1, 0.2]] * 3))["number"] == 1

    run(work)


def test_there_is_one_for_every_version_of_the_tables():
    from armtriage.service.stores.store import migrations

    assert [int(file.stem.removeprefix("version-")) for file in KEPT] == list(migrations("sqlite"))


def test_recipes_over_decision_sets_name_their_prior_and_those_of_before_mean_a_uniform_one():
    create = Create(
        name="pairs", arms=["a", "b", "c"], decisions=DecisionFamily(kind="explicit", decisions=[[0, 1], [2]])
    )
    recipe = Recipe(create)
    assert recipe.make().prior == Recipe.read(recipe.to_json()).make().prior == "learned"
    before = msgspec.json.encode(msgspec.structs.replace(create, seed=7))
    assert Recipe.read(before).make().prior == "uniform"
    slates = Recipe(Create(name="drinks", arms=["tea", "milk", "jam"], budget=2, seed=7))
    assert b"prior" not in slates.to_json()
