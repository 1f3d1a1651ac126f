"""The log as Parquet has what the policy has learnt: the same rewards, the same arms, nothing else."""

from __future__ import annotations

import io
import random
import re
from pathlib import Path

import polars as pl
import pytest

from service.calls import SLATE, run, served

SERVE = Path(__file__).parents[2] / "docs" / "serve.md"


async def _exported(call, query=""):
    answer = await call.get(f"/v1/policies/slate/export.parquet{query}")
    assert answer.status_code == 200, answer.text
    return pl.read_parquet(io.BytesIO(answer.content))


def _rewards(table):
    """As a reader would: one row for each arm of which a decision has shown the reward."""
    return table.select("observed", "rewards").drop_nulls().explode("observed", "rewards")


def _pass_time(call, monkeypatch):
    """Let a function put the store's clock ahead."""
    store, ahead = call.service.store, [0]
    whole = store.begin

    async def begin(*given):
        group = await whole(*given)
        group.now += ahead[0]
        return group

    async def later():
        ahead[0] += 3_600_000_000
        while call.service.loops["slate"].state.open:
            await call.digest()

    monkeypatch.setattr(store, "begin", begin)
    return later


def test_the_click_rate_of_the_file_is_that_of_the_policy(address, monkeypatch):
    """A click is told, and its absence is the default when the time has passed: every reward of the file was 1."""

    async def work():
        async with served(address) as call:
            await call.make(reward={"default": 0}, join_window="10m")
            later, chance = _pass_time(call, monkeypatch), random.Random(7)
            for number in range(40):
                made = await call.decide(id=f"v{number}")
                for name in made["arms"]:
                    if chance.random() < 0.2:
                        await call.reward(f"v{number}", hits=[name], last=False)
            await later()
            table = _rewards(await _exported(call))
            found = {row["id"]: row for row in (await call.get("/v1/policies/slate/arms")).json()["arms"]}
            assert table.height == 80
            assert 0.05 < table["rewards"].mean() < 0.5
            for (name,), rows in table.group_by("observed"):
                assert (rows.height, rows["rewards"].mean()) == (found[name]["observed"], found[name]["mean"])

    run(work)


@pytest.mark.parametrize(("rule", "default"), [("first", None), ("first", 0.25), ("last", None), ("sum", 0.25)])
def test_whatever_was_told_the_file_has_what_was_learnt(sqlite_address, monkeypatch, rule, default):
    """Rewards with and without ids, hits of both kinds, what is given up, late, adopted, and arms that come and go."""

    async def work():
        async with served(sqlite_address) as call:
            await call.make(reward={"rule": rule, "default": default, "range": [0, 2]}, join_window="10m", budget=3)
            later, chance = _pass_time(call, monkeypatch), random.Random(11)

            async def tell(key, names):
                for _ in range(chance.randrange(4)):
                    some = chance.sample(names, chance.randrange(len(names) + 1))
                    body = chance.choice(
                        [{"hits": some}, {"rewards": {name: chance.choice([0, 0.5, 2]) for name in some}}]
                    )
                    body |= chance.choice([{}, {"id": "a"}, {"id": "b"}]) | chance.choice(
                        [{}, {"last": False}, {"last": True}]
                    )
                    assert (await call.reward(key, **body)).status_code in (200, 404, 409)

            for number in range(40):
                key, eligible = f"v{number}", chance.choice([None, ["tea", "milk", "jam"]])
                if eligible is not None and chance.random() < 0.3:
                    await tell(key, eligible)
                made = await call.decide(id=key, **({} if eligible is None else {"eligible": eligible}))
                await tell(key, made["arms"])
                if number == 15:
                    await later()
                if number == 20:
                    assert (await call.patch("/v1/policies/slate/arms", json={"add": ["rum"]})).status_code == 200
            for round in ("open", "closed"):
                table = await _exported(call)
                opened = call.service.loops["slate"].state.open
                assert table["closed"].to_list() == [key not in opened for key in table["id"]]
                assert table["closed"].all() == (round == "closed")
                if round == "open":
                    await later()
            found = {row["id"]: row for row in (await call.get("/v1/policies/slate/arms")).json()["arms"]}
            rewards = _rewards(table)
            assert set(rewards["observed"]) == set(found) == {*SLATE["arms"], "rum"}
            for (name,), rows in rewards.group_by("observed"):
                assert rows.height == found[name]["observed"]
                assert rows["rewards"].mean() == pytest.approx(found[name]["mean"])

    run(work)


def test_every_column_is_explained(sqlite_address):
    async def work():
        async with served(sqlite_address) as call:
            await call.make()
            await call.decide()
            table = re.search(r"### The log as a table\n(.*?)\n#", SERVE.read_text(encoding="utf-8"), re.DOTALL)
            assert re.findall(r"^\| `(\w+)` \|", table[1], re.MULTILINE) == (await _exported(call)).columns

    run(work)
