"""Decisions of a policy with a logging floor say with which probability they were made, and so does their log."""

from __future__ import annotations

import io

import polars as pl
import pytest

from armtriage import Falling, GuardedThompson
from armtriage.service.upkeep import check, replay
from service.calls import SLATE, run, served

FLOOR = {"kind": "guarded_thompson", "logging_floor": 0.4}


def _twin(floor):
    """The same policy in this process."""
    return GuardedThompson(5, budget=2, names=SLATE["arms"], logging_floor=floor, seed=7)


@pytest.mark.parametrize("floor", [0.4, {"start": 0.6, "power": 0.25}])
def test_the_answer_has_the_probabilities_of_the_policy(sqlite_address, floor):
    async def work():
        async with served(sqlite_address) as call:
            await call.make(policy={"kind": "guarded_thompson", "logging_floor": floor})
            twin, swapped = _twin(floor), 0
            for number in range(30):
                some = {"eligible": ["tea", "milk", "jam"]} if number % 3 == 0 else {}
                made, own = await call.decide(id=f"v{number}", **some), twin.ask(**some)
                said = made["propensity"]
                assert made["arms"] == list(own.names)
                assert said["kind"] == "floor"
                assert said["floor"] == own.floor == (Falling(**floor).at(number) if isinstance(floor, dict) else floor)
                assert said["proposal"] == [SLATE["arms"][arm] for arm in own.proposal]
                assert said["inclusion"] == said["observation"] == own.inclusion.tolist()
                assert (await call.decide(id=f"v{number}", **some)) == made
                shown = (await call.get(f"/v1/policies/slate/decisions/v{number}")).json()
                assert shown["propensity"] == said
                swapped += set(said["proposal"]) != set(made["arms"])
                rewards = {name: float(name == "tea") for name in made["arms"]}
                await call.reward(f"v{number}", rewards=rewards)
                twin.tell(own, rewards)
            assert swapped > 5

    run(work)


def test_it_is_the_same_after_a_restart_and_on_another_server(address):
    """Digests, with decisions open and closed, from a snapshot, from the log alone, and by the policy's own choice."""

    async def work():
        async with served(address) as call:
            await call.make(policy=FLOOR)
            for number in range(40):
                made = await call.decide(id=f"v{number}")
                if number % 4:
                    await call.reward(f"v{number}", hits=made["arms"][:1])
            await call.patch("/v1/policies/slate/arms", json={"add": ["rum"], "retire": ["tea"]})
            for number in range(40, 60):
                await call.decide(id=f"v{number}")
            before = await call.digest()
            problems, states = await check(call.service.store)
            found = await replay(call.service.store, "slate")
            assert not problems
            assert states["slate"]["digest"] == found["digest"] == before["digest"]
            assert found["different"] == 0
        async with served(address) as call:
            assert await call.digest() == before
            opened = call.service.loops["slate"].state.policy.open_decisions
            assert all(one.inclusion is not None for one in opened)

    run(work)


def test_rewards_that_arms_reveal_have_their_own_probability(sqlite_address):
    async def work():
        async with served(sqlite_address) as call:
            feedback = {"kind": "cliques", "sizes": [2, 3]}
            await call.make(budget=1, feedback=feedback, policy={"kind": "greedy", "logging_floor": 0.5})
            made = await call.decide()
            first = made["propensity"]["proposal"][0] in SLATE["arms"][:2]
            sizes = {name: 2 if name in SLATE["arms"][:2] else 3 for name in made["show"]}
            for name, chance in zip(made["show"], made["propensity"]["observation"], strict=True):
                inside = (name in SLATE["arms"][:2]) == first
                others = sizes[name] - inside
                assert chance == pytest.approx(0.5 * inside + 0.5 * others / 4)

    run(work)


def test_the_file_has_the_probabilities_and_a_policy_without_a_floor_has_none(sqlite_address):
    async def work():
        async with served(sqlite_address) as call:
            await call.make(policy=FLOOR)
            await call.make(name="plain")
            made = [await call.decide(id=f"v{number}") for number in range(10)]
            await call.decide(name="plain")
            for name in ("slate", "plain"):
                answer = await call.get(f"/v1/policies/{name}/export.parquet")
                table = pl.read_parquet(io.BytesIO(answer.content))
                if name == "plain":
                    assert table.select("inclusion", "proposal", "floor", "observation").null_count().row(0) == (1,) * 4
                    continue
                assert table["inclusion"].to_list() == [one["propensity"]["inclusion"] for one in made]
                assert table["proposal"].to_list() == [one["propensity"]["proposal"] for one in made]
                assert table["floor"].to_list() == [0.4] * 10

    run(work)


@pytest.mark.parametrize(
    ("policy", "word"),
    [
        ({"logging_floor": 1}, "logging_floor must lie in"),
        ({"logging_floor": {"start": 2}}, "start must lie above 0 and below 1, got 2"),
        ({"logging_floor": {"power": 0.2}}, "must have start and power, got power"),
        ({"delta": {"start": 0.1}}, "delta"),
    ],
)
def test_what_is_refused(sqlite_address, policy, word):
    async def work():
        async with served(sqlite_address) as call:
            answer = await call.post("/v1/policies", json={**SLATE, "policy": policy})
            assert answer.status_code == 422
            assert word in answer.json()["detail"]

    run(work)
