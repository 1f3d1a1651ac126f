"""Health in the service: drift that is noticed, rewards without a largest one, and which key changed what."""

from __future__ import annotations

from typing import Any

import pytest

from armtriage.service.keys import new_key
from service.calls import Caller, run, served

ONE = {"arms": ["tea", "milk"], "budget": 1, "policy": {"kind": "thompson"}}


async def _visits(call: Caller, first: int, count: int, value: Any) -> None:
    for number in range(first, first + count, 20):
        asked = [{"id": f"v{one}"} for one in range(number, number + 20)]
        made = (await call.post("/v1/policies/slate/decisions/batch", json={"requests": asked})).json()["decisions"]
        told = [{"decision": one["id"], "rewards": {one["arms"][0]: value(int(one["id"][1:]))}} for one in made]
        await call.post("/v1/policies/slate/rewards/batch", json={"requests": told})


@pytest.mark.parametrize("more", [{"watch": 0.01}, {"policy": {"kind": "thompson", "forget": "alarm"}}])
def test_drift_is_in_the_document_the_metrics_and_the_log(address: str, more: dict[str, Any]) -> None:
    async def work() -> None:
        async with served(address) as call:
            await call.make(**(ONE | more))
            await _visits(call, 0, 500, lambda number: float(number % 10 > 0))
            found = await call.document()
            assert found["health"]["false_alarm"] == 0.01
            assert found["health"]["text"].startswith("No drift has been noticed")
            assert found["alarms"] == []
            assert 'armtriage_alarm{policy="slate",kind="drift"} 0' in (await call.get("/metrics")).text
            await _visits(call, 500, 500, lambda number: float(number % 10 == 0))
            found = await call.document()
            assert found["health"]["drift"]
            assert [one["what"] for one in found["alarms"]] == [one["arm"] for one in found["health"]["drift"]]
            assert {one["kind"] for one in found["alarms"]} == {"drift"}
            metrics = (await call.get("/metrics")).text
            assert 'armtriage_alarm{policy="slate",kind="drift"} 1' in metrics
            assert f'armtriage_drift_alarms{{policy="slate"}} {len(found["alarms"])}' in metrics
            events = (await call.get("/v1/policies/slate/events?limit=100000")).text
            assert events.count('"kind":"alarm"') == len(found["alarms"])
            page = (await call.get("/policies/slate")).text
            assert "changes have been noticed" in page or "One change has been noticed" in page
            await call.is_its_log()
            before = await call.digest()
        async with served(address) as call:
            assert await call.digest() == before
            assert (await call.document())["alarms"] == found["alarms"]

    run(work)


def test_a_policy_that_is_not_watched_says_so(sqlite_address: str) -> None:
    async def work() -> None:
        async with served(sqlite_address) as call:
            await call.make()
            found = await call.document()
            assert found["health"]["text"] == "This policy is not watched for drift."
            assert found["health"]["false_alarm"] is None
            assert found["above_cap"] is None
            assert 'kind="drift"' not in (await call.get("/metrics")).text
            for more, words in (
                ({"watch": 2}, "watch: false_alarm must be a number strictly between 0 and 1, got 2"),
                ({"policy": {"kind": "c2ucb"}, "dimension": 2, "watch": 0.1}, "watch: a C2UCB cannot be watched"),
                (
                    {"policy": {"kind": "thompson", "forget": "alarm"}, "watch": 0.1},
                    "watch: the policy is watched already",
                ),
            ):
                body = {"name": "odd", "arms": ["tea", "milk"], "budget": 1} | more
                answer = await call.post("/v1/policies", json=body)
                assert answer.status_code == 422
                assert words in answer.json()["detail"], answer.text

    run(work)


@pytest.mark.parametrize("rule", ["first", "sum"])
def test_rewards_without_a_largest_one(address: str, rule: str) -> None:
    async def work() -> None:
        async with served(address) as call:
            reward = {"range": [0, None], "cap": 410, "default": 0, "rule": rule}
            control = {"share": 0.5, "incumbent": ["tea"]}
            await call.make(**ONE, reward=reward, control=control)
            baskets = [20.0, 0.0, 1000.0, 500.0, 410.0] * 8
            for number, euros in enumerate(baskets):
                made = await call.decide(id=f"v{number}")
                answer = await call.reward(f"v{number}", {made["arms"][0]: euros}, last=True)
                assert answer.status_code == 200
            found = await call.document()
            mine = [one for number, one in enumerate(baskets) if f"v{number}" in await _policys(call)]
            assert found["above_cap"]["rewards"] == sum(one > 410 for one in mine)
            assert found["above_cap"]["excess"] == sum(max(one - 410, 0) for one in mine)
            assert found["above_cap"]["share"] == pytest.approx(found["above_cap"]["excess"] / sum(mine))
            assert found["lift"]["policy_mean"] == pytest.approx(sum(min(one, 410) for one in mine) / len(mine))
            assert found["lift"]["low"] >= -410
            answer = await call.reward("v0", {"tea": -1})
            assert answer.status_code == 422
            arms = (await call.get("/v1/policies/slate/arms")).json()["arms"]
            assert all(one["high"] <= 410 for one in arms)
            await call.is_its_log()

    async def _policys(call: Caller) -> set[str]:
        events = await call.service.store.read(call.service.loops["slate"].row.id, 0, 1000)
        return {event.key for event in events if event.kind == 1 and event.number is not None}

    run(work)


@pytest.mark.parametrize(
    ("reward", "words"),
    [
        ({"range": [0, None]}, "reward.range must end with a number unless there is a cap"),
        ({"range": [5, None], "cap": 5}, "reward.cap must lie above 5, the least reward"),
        ({"range": [0, 10], "cap": 20}, "reward.cap must lie above 0, the least reward, and at most the largest one"),
        ({"range": [0, None], "cap": 5, "default": 6}, "reward.default must lie in [0, 5]"),
    ],
)
def test_what_a_cap_refuses(sqlite_address: str, reward: dict[str, Any], words: str) -> None:
    async def work() -> None:
        async with served(sqlite_address) as call:
            body = {"name": "slate", "arms": ["tea", "milk"], "budget": 1, "reward": reward}
            answer = await call.post("/v1/policies", json=body)
            assert answer.status_code == 422
            assert words in answer.json()["detail"], answer.text

    run(work)


def test_changes_name_the_key_that_made_them(address: str) -> None:
    async def work() -> None:
        async with served(address) as call:
            text, row = new_key(["admin", "read", "decide"], "shop desk")
            await call.service.store.put_key(row)
            call.service.access.update(await call.service.store.keys())
            call.headers["authorization"] = f"Bearer {text}"
            await call.make(control={}, reward={"default": 0})
            url = "/v1/policies/slate"
            await call.patch(f"{url}/arms", json={"retire": ["egg"]})
            await call.patch(url, json={"status": "paused"})
            await call.patch(url, json={"control": {"share": 0.2}, "window": "new"})
            lines = [line for line in (await call.get(f"{url}/events")).text.splitlines() if line]
            assert len(lines) == 3
            assert all(f'"by":"shop desk at_{row.id}"' in line for line in lines)
            assert not any(text in line for line in lines)
            page = (await call.get("/policies/slate")).text
            assert page.count("by shop desk") == 3
            await call.is_its_log()

    run(work)
