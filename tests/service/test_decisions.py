"""Decisions: one for each id, whatever happens; and what a request may ask for."""

import asyncio
import random
from urllib.parse import quote

import pytest

from service.calls import run, served


def test_the_same_request_has_the_same_answer_byte_for_byte(address):
    async def work():
        async with served(address) as call:
            await call.make()
            first = await call.post("/v1/policies/slate/decisions", json={"id": "a", "tags": {"x": 1, "y": 2}})
            again = await call.post("/v1/policies/slate/decisions", content=b'{"tags":{"y":2,  "x":1},"id":"a"}')
            assert (first.status_code, again.status_code) == (201, 200)
            assert first.content == again.content
            other = await call.post("/v1/policies/slate/decisions", json={"id": "a"})
            assert (other.status_code, other.json()["error"]) == (409, "id_taken")
            await call.reward("a", hits=[])
            assert (await call.post("/v1/policies/slate/decisions", json={"id": "a", "tags": {"x": 1, "y": 2}})).content
        async with served(address) as call:
            kept = await call.post("/v1/policies/slate/decisions", json={"id": "a", "tags": {"x": 1, "y": 2}})
            assert (kept.status_code, kept.content) == (200, first.content)

    run(work)


@pytest.mark.parametrize("rounds", [3, pytest.param(200, marks=pytest.mark.long)])
def test_many_at_once_with_the_same_id_get_one_decision_and_count_once(address, rounds):
    async def work():
        async with served(address) as call:
            await call.make()
            for number in range(rounds):
                asked = await asyncio.gather(
                    *(call.post("/v1/policies/slate/decisions", json={"id": f"v{number}"}) for _ in range(16))
                )
                assert len({answer.content for answer in asked}) == 1
                assert sorted(answer.status_code for answer in asked) == [200] * 15 + [201]
                arm = asked[0].json()["arms"][0]
                told = await asyncio.gather(*(call.reward(f"v{number}", {arm: 1}) for _ in range(16)))
                fates = [answer.json()["fates"][arm] for answer in told]
                assert sorted(fates) == ["applied"] + ["duplicate"] * 15
                # The first of these closes the decision, and the others are of the same group, or of the next.
                rest = asked[0].json()["arms"][1]
                told = await asyncio.gather(*(call.reward(f"v{number}", {rest: 0}) for _ in range(16)))
                assert sorted(answer.json()["fates"][rest] for answer in told) == ["applied"] + ["duplicate"] * 15
                wrong = [call.reward(f"v{number}", {rest: 1}) for _ in range(3)]
                assert {answer.status_code for answer in await asyncio.gather(*wrong)} == {409}
            counts = await call.counts()
            assert (counts["decisions"], counts["repeated"]) == (rounds, 15 * rounds)
            assert (counts["applied"], counts["duplicate"], counts["conflict"]) == (2 * rounds, 30 * rounds, 3 * rounds)
            assert "orphan" not in counts

    run(work)


def test_the_answer_has_what_the_log_has(sqlite_address):
    async def work():
        async with served(sqlite_address) as call:
            await call.make(join_window="30m")
            made = await call.decide(id="a", exclude=["tea"], tags={"page": "home"})
            assert set(made) == {"id", "seq", "number", "arms", "show", "propensity", "version", "deadline", "ranked"}
            assert sorted(made["ranked"]) == sorted(made["arms"])
            assert (made["seq"], made["number"], made["version"]) == (1, 0, 0)
            assert made["propensity"] == {"kind": "unknown"}
            assert "tea" not in made["arms"]
            seen = (await call.get("/v1/policies/slate/decisions/a")).json()
            assert (seen["eligible"], seen["tags"]) == (["milk", "jam", "bread", "egg"], {"page": "home"})
            unnamed = [await call.decide() for _ in range(20)]
            assert len({one["id"] for one in unnamed}) == 20
            assert [one["number"] for one in unnamed] == list(range(1, 21))

    run(work)


@pytest.mark.parametrize(
    ("body", "status", "code"),
    [
        ({"exclude": ["nobody"]}, 422, "unknown_arm"),
        ({"eligible": ["nobody"]}, 422, "unknown_arm"),
        ({"eligible": []}, 422, "nothing_eligible"),
        ({"exclude": ["tea", "milk", "jam", "bread", "egg"]}, 422, "nothing_eligible"),
        ({"eligible": ["tea"], "exclude": ["milk"]}, 422, "invalid"),
        ({"contexts": [[1.0]]}, 422, "invalid"),
    ],
)
def test_what_cannot_be_decided(sqlite_address, body, status, code):
    async def work():
        async with served(sqlite_address) as call:
            await call.make()
            before = await call.digest()
            answer = await call.post("/v1/policies/slate/decisions", json=body)
            assert (answer.status_code, answer.json()["error"]) == (status, code)
            batch = await call.post("/v1/policies/slate/decisions/batch", json={"requests": [{}, {"id": "a"}, body]})
            assert (batch.status_code, batch.json()["error"]) == (status, code)
            assert await call.digest() == before

    run(work)


@pytest.mark.parametrize("key", ["a/b", "batch", "a?b#c", "%2F", "..", "~!@$&'()*+,;=:", "x" * 128])
def test_ids_are_any_visible_characters(sqlite_address, key):
    async def work():
        async with served(sqlite_address) as call:
            await call.make()
            made = await call.decide(id=key)
            assert made["id"] == key
            seen = await call.get(f"/v1/policies/slate/decisions/{quote(key, safe='').replace('.', '%2E')}")
            assert (seen.status_code, seen.json()["id"]) == (200, key)
            assert (await call.reward(key, {made["arms"][0]: 1})).status_code == 200

    run(work)


def test_a_batch_is_one_decision_after_the_other(address):
    async def work():
        async with served(address) as call:
            await call.make()
            await call.make(name="single")
            requests = [{}, {"id": "b"}, {"exclude": ["tea"]}, {"id": "b"}, {}]
            batch = (await call.post("/v1/policies/slate/decisions/batch", json={"requests": requests})).json()
            made = batch["decisions"]
            assert [one["number"] for one in made] == [0, 1, 2, 1, 3]
            one_by_one = [await call.decide("single", **request) for request in requests]
            assert [one["arms"] for one in made] == [one["arms"] for one in one_by_one]
            many = [{} for _ in range(1001)]
            refused = await call.post("/v1/policies/slate/decisions/batch", json={"requests": many})
            assert refused.status_code == 422

    run(work)


def test_arms_come_and_go(address):
    async def work():
        async with served(address) as call:
            await call.make()
            patch = {"add": ["rye", {"id": "oat", "meta": {"grain": True}}], "retire": ["tea", "milk", "jam"]}
            changed = await call.patch("/v1/policies/slate/arms", json=patch)
            assert changed.json() == {"arms": 7, "retired": 3, "seq": 1}
            seen = {name for _ in range(30) for name in (await call.decide())["arms"]}
            assert seen <= {"bread", "egg", "rye", "oat"}
            assert {"rye", "oat"} <= seen
            assert (await call.post("/v1/policies/slate/decisions", json={"eligible": ["tea"]})).status_code == 422
            for wrong in ({"add": ["tea"]}, {"retire": ["tea"]}, {"restore": ["egg"]}, {"meta": {"x": {}}},
                          {"add": ["new"], "retire": ["nobody"]}):  # fmt: skip
                assert (await call.patch("/v1/policies/slate/arms", json=wrong)).status_code == 422
            everyone = {"retire": ["bread", "egg", "rye", "oat"]}
            assert (await call.patch("/v1/policies/slate/arms", json=everyone)).status_code == 422
            await call.patch("/v1/policies/slate/arms", json={"restore": ["tea"]})
            arms = {arm["id"]: arm for arm in (await call.get("/v1/policies/slate/arms")).json()["arms"]}
            assert [name for name, arm in arms.items() if arm["retired"]] == ["milk", "jam"]
            assert arms["oat"]["meta"] == {"grain": True}
            before = await call.digest()
        async with served(address) as call:
            assert await call.digest() == before

    run(work)


def test_paused_policies_learn_and_archived_ones_are_read_only(address):
    async def work():
        async with served(address) as call:
            await call.make()
            made = await call.decide(id="a")
            assert (await call.patch("/v1/policies/slate", json={"status": "paused"})).json()["status"] == "paused"
            assert (await call.post("/v1/policies/slate/decisions", json={"id": "b"})).json()["error"] == "paused"
            assert (await call.post("/v1/policies/slate/decisions", json={"id": "a"})).status_code == 200
            assert (await call.reward("a", {made["arms"][0]: 1})).status_code == 200
            await call.patch("/v1/policies/slate", json={"status": "running"})
            assert (await call.post("/v1/policies/slate/decisions", json={"id": "b"})).status_code == 201
            await call.patch("/v1/policies/slate", json={"status": "archived"})
            assert (await call.post("/v1/policies/slate/decisions", json={"id": "c"})).status_code == 410
            assert (await call.reward("b", hits=[])).status_code == 410
            assert (await call.patch("/v1/policies/slate", json={"status": "running"})).status_code == 410
            assert (await call.get("/v1/policies/slate")).json()["status"] == "archived"

    run(work)


KINDS = {
    "slate": {},
    "cliques": {"feedback": {"kind": "cliques", "sizes": [2, 3]}},
    "edges": {"feedback": {"kind": "edges", "edges": [["tea", "milk"], ["jam", "egg"]]}},
    "full": {"feedback": {"kind": "full_information"}},
    "costs": {"reward": {"range": [0, 10], "direction": "minimize"}},
    "elimination": {"policy": {"kind": "elimination"}},
    "ucb": {"policy": {"kind": "comb_ucb1"}},
    "partition": {
        "policy": {"kind": "constrained"}, "budget": None,
        "decisions": {"kind": "partition", "groups": [0, 0, 1, 1, 1], "capacities": 1},
    },
    "guarded partition": {
        "budget": None, "decisions": {"kind": "partition", "groups": [0, 0, 1, 1, 1], "capacities": 1},
    },
    "contexts": {"policy": {"kind": "c2ucb"}, "dimension": 2},
    "linear": {"policy": {"kind": "linear_thompson"}, "dimension": 2},
    "contexts of chosen arms": {"policy": {"kind": "c2ucb"}, "dimension": 2, "log_contexts": "chosen"},
    "linear of chosen arms": {"policy": {"kind": "linear_thompson"}, "dimension": 2, "log_contexts": "chosen"},
    "guarded linear": {"policy": {"kind": "guarded_linear"}, "dimension": 2},
}  # fmt: skip


@pytest.mark.parametrize("rounds", [25, pytest.param(3000, marks=pytest.mark.long)])
@pytest.mark.parametrize("kind", KINDS)
def test_every_kind_of_policy_is_its_log_replayed(sqlite_address, kind, rounds):
    async def work():
        more = {name: value for name, value in KINDS[kind].items() if value is not None}
        async with served(sqlite_address) as call:
            body = {"name": "slate", "arms": ["tea", "milk", "jam", "bread", "egg"], "budget": 2, "seed": 7, **more}
            if KINDS[kind].get("budget", 0) is None:
                del body["budget"]
            assert (await call.post("/v1/policies", json=body)).status_code == 201
            await call.ready()
            chance = random.Random(3)
            for number in range(rounds):
                rows = [[chance.uniform(-0.7, 0.7) for _ in range(2)] for _ in range(5)]
                made = await call.decide(**({"contexts": rows} if "dimension" in more else {}))
                shown = made["show"]
                if number % 3 == 0:
                    told = {name: place % 2 for place, name in enumerate(shown)}
                    assert (await call.reward(made["id"], told)).status_code == 200
                elif number % 3 == 1:
                    assert (await call.reward(made["id"], {shown[0]: 1})).status_code == 200
            live = await call.digest()
        # Once from the snapshot that the stop wrote, and once from nothing.
        async with served(sqlite_address) as call:
            assert await call.digest() == live
            from armtriage.service.upkeep import check, replay

            problems, policies = await check(call.service.store)
            assert (problems, policies["slate"]["digest"]) == ([], live["digest"])
            replayed = await replay(call.service.store, "slate")
            different = None if "log_contexts" in more else 0
            assert (replayed["different"], replayed["digest"]) == (different, live["digest"])
            kept = (await call.get("/v1/policies/slate")).json()
            assert (kept["decisions"], kept["ready"]) == (rounds, True)
            assert len((await call.get("/v1/policies/slate/arms")).json()["arms"]) == 5
            assert (await call.get("/metrics")).status_code == 200
            assert call.service.metrics.counts["slate"]["fault"] == 0

    run(work)
