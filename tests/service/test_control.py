"""Control groups of the service: groups, totals, the lift, alarms, windows, and what is refused."""

from __future__ import annotations

import json
import time
from typing import Any

import numpy as np
import pytest

from armtriage import Lift
from armtriage.logs import evaluate
from armtriage.service import Client, read_log
from armtriage.service.loop import load
from armtriage.service.state import PolicyState
from service.calls import Caller, run, served
from service.journal import serving, until

KEY = "a secret of 16 bytes or more"
REWARD = {"default": 0}
CONTROL = {"share": 0.3, "key": KEY}


def _total(made: dict[str, Any], luck: np.random.Generator, gain: float) -> tuple[dict[str, Any], float]:
    """Return what is told of a decision, and its total: a policy's is told by hits, the control's by its total."""
    if made["group"] == "policy":
        hits = [name for name in made["arms"] if luck.random() < 0.3 + gain]
        return {"hits": hits}, float(len(hits))
    total = float((luck.random(2) < 0.3).sum())
    return {"total": total}, total


async def _visits(call: Caller, count: int, gain: float = 0.0, first: int = 0, **more: Any) -> list[tuple[str, float]]:
    luck, seen = np.random.default_rng(7 + first), []
    for start in range(first, first + count, 500):
        asked = [{"id": f"visit-{number}", **more} for number in range(start, min(start + 500, first + count))]
        answer = await call.post("/v1/policies/slate/decisions/batch", json={"requests": asked})
        assert answer.status_code == 200, answer.text
        told = []
        for made in answer.json()["decisions"]:
            body, total = _total(made, luck, gain)
            seen.append((made["group"], total))
            told.append({"decision": made["id"], **body})
        answer = await call.post("/v1/policies/slate/rewards/batch", json={"requests": told})
        assert all("applied" in one["fates"].values() for one in answer.json()["results"] if one["fates"]), answer.text
    return seen


def test_groups_and_lift_are_those_of_the_library(address: str) -> None:
    async def work() -> None:
        async with served(address) as call:
            await call.make(reward=REWARD, control=CONTROL)
            seen = await _visits(call, 1500, gain=0.2)
            lift = Lift(share=0.3, reward_range=(0, 2), key=KEY.encode())
            for number, (group, total) in enumerate(seen):
                assert lift.group(f"visit-{number}") == group
                lift.tell(f"visit-{number}", total)
            expected, found = lift.interval().to_dict(), (await call.document())["lift"]
            for name, value in expected.items():
                assert name == "direction" or found[name] == value
            assert (found["share"], found["by"], found["in_force"], found["cut"]) == (0.3, "decision", "", 0)
            await call.is_its_log()
            before = await call.digest()
        async with served(address) as call:
            assert await call.digest() == before
            assert (await call.document())["lift"] == found

    run(work)


def test_the_policy_is_that_of_a_log_without_the_control(address: str) -> None:
    async def work() -> None:
        async with served(address) as call:
            await call.make(reward=REWARD, control=CONTROL, join_window="1h")
            for number in range(60):
                # A slate that the policy could have made is not learned from either, without "learn".
                own = {"incumbent": ["tea", "jam"]} if number % 2 else {}
                made = await call.decide(id=f"visit-{number}", **own)
                if made["group"] == "control":
                    shown = own.get("incumbent")
                    assert (made["number"], made["arms"], made["show"]) == (None, shown, shown or [])
                    await call.reward(made["id"], **({"hits": ["jam"]} if shown else {"total": 1.5}), id="x")
                elif number % 3:
                    await call.reward(made["id"], hits=made["arms"][:1])
            loop = call.service.loops["slate"]
            alone, seq = PolicyState(loop.recipe), 0
            for event in await call.service.store.read(loop.row.id, 0, 1000):
                if event.number is not None:
                    seq += 1
                    alone.apply(event._replace(seq=seq))
            assert loop.state.trial.controls > 5
            assert seq < loop.state.head
            assert alone.policy.digest() == loop.state.policy.digest()

    run(work)


def test_retries_have_the_same_group_for_ever(sqlite_address: str) -> None:
    async def work() -> None:
        answers = {}
        async with served(sqlite_address) as call:
            await call.make(reward=REWARD, control=CONTROL | {"incumbent": ["tea", "jam"]})
            for number in range(20):
                body = {"id": f"visit-{number}"}
                answers[number] = (await call.post("/v1/policies/slate/decisions", json=body)).content
            change = {"control": {"share": 0.9}, "window": "new"}
            assert (await call.patch("/v1/policies/slate", json=change)).status_code == 200
        async with served(sqlite_address) as call:
            for number, content in answers.items():
                again = await call.post("/v1/policies/slate/decisions", json={"id": f"visit-{number}"})
                assert (again.status_code, again.content) == (200, content)
            groups = [json.loads(content)["group"] for content in answers.values()]
            assert 0 < groups.count("control") < 20
            shown = next(json.loads(one) for one in answers.values() if b'"control"' in one)
            assert (shown["arms"], shown["show"], shown["ranked"]) == (["tea", "jam"],) * 3

    run(work)


def test_fates_of_totals(address: str) -> None:
    async def work() -> None:
        async with served(address) as call:
            await call.make(reward=REWARD, control=CONTROL | {"most": 3}, join_window="10m")
            by_group: dict[str, list[str]] = {"policy": [], "control": []}
            for number in range(30):
                by_group[(await call.decide(id=f"v{number}"))["group"]].append(f"v{number}")
            first, second, third, *_ = by_group["control"]
            told = await call.reward(first, total=9)
            assert told.json()["fates"] == {"total": "applied"}
            assert (await call.reward(first, total=9)).json()["fates"] == {"total": "duplicate"}
            assert (await call.reward(first, total=8)).status_code == 409
            assert (await call.reward(first, total=8, id="other")).json()["fates"] == {"total": "duplicate"}
            for body, words in (
                ({"total": -1}, "total must be at least 0"),
                ({"rewards": {"tea": 1}}, "tell its total"),
                ({"hits": ["tea"]}, "tell its total"),
                ({"total": 1, "hits": []}, "got hits and total"),
            ):
                answer = await call.reward(second, **body)
                assert answer.status_code == 422
                assert words in answer.json()["detail"]
            answer = await call.reward(by_group["policy"][0], total=1)
            assert answer.status_code == 422
            assert "decisions of a control group" in answer.json()["detail"]
            assert (await call.reward(second, {}, last=True)).json()["open"] == []
            assert (await call.reward(second, total=2)).json()["fates"] == {"total": "late"}
            # A total that comes before its decision is held; where that is the policy's, it does not fit.
            for key in ("early-1", "early-2", "early-3", "early-4", "early-5", "early-6"):
                assert (await call.reward(key, total=1)).json()["fates"] == {"total": "orphan"}
                made = await call.decide(id=key)
                seen = (await call.get(f"/v1/policies/slate/decisions/{key}")).json()
                control = made["group"] == "control"
                assert seen["group"] == made["group"]
                assert seen["status"] == ("closed" if control else "open")
                assert seen["rewards"] == ({"total": {"": 1.0}} if control else {})
            counts = await call.counts()
            assert counts["controls"] == call.service.loops["slate"].state.trial.controls
            assert counts["adopted"] >= 1
            assert third in call.service.loops["slate"].state.open
            assert call.service.loops["slate"].state.trial.cut == 1
            await call.is_its_log()

    run(work)


def test_what_does_not_come_counts_as_the_default_in_both_groups(address: str) -> None:
    async def work() -> None:
        async with served(address) as call:
            reward = {"range": [0, 2], "default": 0.5}
            await call.make(reward=reward, control=CONTROL, join_window="1s")
            await _visits_untold(call, 40)
            await until(lambda: not call.service.loops["slate"].state.open)
            found = (await call.document())["lift"]
            assert (found["decisions"], found["waiting"]) == (40, 0)
            assert (found["policy_mean"], found["control_mean"]) == (1.0, 1.0)
            await call.is_its_log()

    async def _visits_untold(call: Caller, count: int) -> None:
        body = {"requests": [{"id": f"visit-{number}"} for number in range(count)]}
        assert (await call.post("/v1/policies/slate/decisions/batch", json=body)).status_code == 200

    run(work)


def test_groups_by_unit_count_first_decisions(sqlite_address: str) -> None:
    async def work() -> None:
        async with served(sqlite_address) as call:
            await call.make(reward=REWARD, control=CONTROL | {"by": "unit"})
            groups: dict[str, set[str]] = {}
            for visit in range(3):
                for unit in range(40):
                    made = await call.decide(id=f"{visit}-{unit}", unit=f"visitor-{unit}")
                    groups.setdefault(str(unit), set()).add(made["group"])
                    await call.reward(made["id"], **({"total": 0} if made["group"] == "control" else {"hits": []}))
            assert all(len(of) == 1 for of in groups.values())
            found = (await call.document())["lift"]
            assert (found["decisions"], found["waiting"]) == (40, 0)
            assert found["controls"] == sum(of == {"control"} for of in groups.values())
            # In another period the coin is thrown again.
            trial, now = call.service.loops["slate"].state.trial, time.time_ns() // 1000
            now_and_then = [
                [trial.group("", f"visitor-{unit}", now + days * 86_400_000_000)[0] for unit in range(40)]
                for days in (0, 31)
            ]
            assert now_and_then[0] == [groups[str(unit)] == {"control"} for unit in range(40)] != now_and_then[1]
            missing = await call.post("/v1/policies/slate/decisions", json={})
            assert (missing.status_code, missing.json()["error"]) == (422, "unit_missing")
            lines = (await call.get("/v1/policies/slate/events")).text
            assert "visitor" not in lines
            await call.is_its_log()
            before = await call.digest()
        async with served(sqlite_address) as call:
            assert await call.digest() == before
            # The unit of before is known after a restart, and a decision of its counts no more.
            made = await call.decide(unit="visitor-7")
            assert {made["group"]} == groups["7"]
            await call.reward(made["id"], **({"total": 0} if made["group"] == "control" else {"hits": []}))
            assert ((await call.document())["lift"])["decisions"] == 40
        with open(sqlite_address, "rb") as file:
            assert b"visitor-7" not in file.read()

    run(work)


@pytest.mark.parametrize("on_worse", ["tell", "control"])
def test_the_alarm_of_a_policy_that_is_worse(address: str, on_worse: str) -> None:
    async def work() -> None:
        async with served(address) as call:
            await call.make(reward=REWARD, control=CONTROL | {"on_worse": on_worse})
            await _visits(call, 2000, gain=-0.25)
            seen = (await call.get("/v1/policies/slate")).json()
            assert [(one["kind"], one["what"]) for one in seen["alarms"]] == [("worse", "")]
            found = (await call.document())["lift"]
            assert found["worse"]
            assert found["high"] < 0
            assert found["in_force"] == ("worse" if on_worse == "control" else "")
            assert seen["status"] == ("control" if on_worse == "control" else "running")
            made = [await call.decide(id=f"after-{number}") for number in range(20)]
            all_control = {one["group"] for one in made} == {"control"}
            assert all_control == (on_worse == "control")
            counted = ((await call.document())["lift"])["decisions"]
            await call.is_its_log()
            before = await call.digest()
        async with served(address) as call:
            assert await call.digest() == before
            if on_worse == "tell":
                return
            # Paused and taken up again, it stays the control's; once more, it is resumed, and a window begins.
            for status, now in (("paused", "paused"), ("running", "control"), ("running", "running")):
                answer = await call.patch("/v1/policies/slate", json={"status": status})
                assert answer.json()["status"] == now
            assert counted > 0
            found = (await call.document())["lift"]
            assert (found["decisions"], found["worse"], found["since"]) == (0, False, 2020)
            for number in range(20):
                await call.reward(f"after-{number}", total=1)
            assert ((await call.document())["lift"])["decisions"] == 0
            await _visits(call, 100, first=3000)
            assert ((await call.document())["lift"])["decisions"] == 100
            await call.is_its_log()

    run(work)


def test_a_client_that_asks_until_it_likes_its_group_is_noticed(sqlite_address: str) -> None:
    async def work() -> None:
        async with served(sqlite_address) as call:
            await call.make(reward=REWARD, control=CONTROL, join_window="1h")
            lift = Lift(share=0.3, key=KEY.encode())
            # Half of those that would be the control's are never asked for.
            names = [f"visit-{number}" for number in range(3000)]
            liked = [name for number, name in enumerate(names) if lift.group(name) == "policy" or number % 2]
            for start in range(0, len(liked), 500):
                some = liked[start : start + 500]
                body = {"requests": [{"id": name} for name in some]}
                made = (await call.post("/v1/policies/slate/decisions/batch", json=body)).json()["decisions"]
                told = [
                    {"decision": one["id"], **({"total": 0} if one["group"] == "control" else {"hits": []})}
                    for one in made
                ]
                await call.post("/v1/policies/slate/rewards/batch", json={"requests": told})
            found = (await call.get("/v1/policies/slate")).json()
            assert "share_mismatch" in [one["kind"] for one in found["alarms"]]
            found = (await call.document())["lift"]
            assert not found["share_ok"]
            assert (found["low"], found["high"]) == (-2.0, 2.0)

    run(work)


def test_decisions_that_wait_for_older_ones_have_an_end(sqlite_address: str, monkeypatch: pytest.MonkeyPatch) -> None:
    async def work() -> None:
        async with served(sqlite_address) as call:
            await call.make(reward=REWARD, control=CONTROL)
            monkeypatch.setattr("armtriage.service.step.MOST_HELD", 20_000)
            made = [await call.decide(id="oldest")]
            for number in range(200):
                answer = await call.post("/v1/policies/slate/decisions", json={"id": f"v{number}"})
                if answer.status_code == 503:
                    break
                made.append(answer.json())
                body = {"total": 0} if made[-1]["group"] == "control" else {"hits": []}
                await call.reward(f"v{number}", **body)
            assert answer.json()["error"] == "too_many_open"
            assert 50 < number < 100  # one is open, and all others wait for it
            await call.reward("oldest", {}, last=True)
            assert (await call.decide(id="after"))["id"] == "after"
            assert ((await call.document())["lift"])["decisions"] == len(made)

    run(work)


KINDS: dict[str, tuple[dict[str, Any], dict[str, Any], float]] = {
    "graph": ({"feedback": {"kind": "full_information"}, "budget": 2}, {}, 2.0),
    "contexts": ({"policy": {"kind": "c2ucb"}, "dimension": 2, "budget": 2}, {"contexts": [[0.1, 0.2]] * 5}, 2.0),
    "set": (
        {"arms": ["a", "b", "c", "d"], "decisions": {"kind": "matchings", "left": 2, "right": 2}, "budget": None},
        {},
        2.0,
    ),
}


@pytest.mark.parametrize("kind", KINDS)
def test_every_kind_of_policy_may_have_a_control(sqlite_address: str, kind: str) -> None:
    """Totals are of the arms that a decision chooses, also where it shows others."""
    more, asked, total = KINDS[kind]

    async def work() -> None:
        async with served(sqlite_address) as call:
            body = {"name": "slate", "arms": ["tea", "milk", "jam", "bread", "egg"], "seed": 7} | more
            body = {name: value for name, value in body.items() if value is not None}
            answer = await call.post("/v1/policies", json=body | {"reward": REWARD, "control": CONTROL})
            assert answer.status_code == 201, answer.text
            await call.ready()
            for number in range(30):
                made = await call.decide(id=f"visit-{number}", **asked)
                told = {"total": 1} if made["group"] == "control" else {"hits": made["show"]}
                assert (await call.reward(made["id"], **told)).status_code == 200
            found = (await call.document())["lift"]
            assert (found["decisions"], found["policy_mean"], found["control_mean"]) == (30, total, 1.0)
            await call.is_its_log()
            before = await call.digest()
        async with served(sqlite_address) as call:
            assert await call.digest() == before

    run(work)


def test_windows_and_shares(address: str) -> None:
    async def work() -> None:
        async with served(address) as call:
            await call.make(reward=REWARD, control=CONTROL)
            await _visits(call, 200)
            url = "/v1/policies/slate"
            refused = await call.patch(url, json={"control": {"share": 0.5}})
            assert (refused.status_code, refused.json()["error"]) == (409, "window_missing")
            assert "the lift of other shares cannot be added up" in refused.json()["detail"].lower()
            wrong = await call.patch(url, json={"control": {"share": 1}, "window": "new"})
            assert wrong.status_code == 422
            assert "share must lie strictly between 0 and 1, got 1" in wrong.json()["detail"]
            assert (await call.patch(url, json={})).status_code == 422
            assert (await call.patch(url, json={"control": {"share": 0.3}})).status_code == 200  # as it is
            assert ((await call.document())["lift"])["decisions"] == 200
            assert (await call.patch(url, json={"control": {"share": 0.5}, "window": "new"})).status_code == 200
            seen = await _visits(call, 400, first=200)
            found = (await call.document())["lift"]
            assert (found["share"], found["since"], found["decisions"]) == (0.5, 200, 400)
            assert found["controls"] == sum(group == "control" for group, _ in seen)
            assert found["controls"] > 160
            await call.is_its_log()
            lines = (await call.get("/v1/policies/slate/events?after=600")).text
            assert '"kind":"window"' in (await call.get("/v1/policies/slate/events")).text
            assert KEY not in lines

    run(work)


def test_the_log_as_a_table_has_what_the_policy_decided(sqlite_address: str) -> None:
    seen = []

    async def work() -> None:
        async with served(sqlite_address) as call:
            policy = {"kind": "guarded_thompson", "logging_floor": 0.1}
            metrics = [{"name": "gone", "limit": {"ratio": 1.2}}]
            await call.make(reward=REWARD, control=CONTROL, metrics=metrics, policy=policy)
            for number in range(60):
                made = await call.decide(id=f"visit-{number}")
                body, total = _total(made, np.random.default_rng(number), 0.1)
                await call.reward(made["id"], **body, metrics={"gone": 1})
                seen.append((made["group"], total))

    run(work)
    table = read_log(sqlite_address)
    mine = [total for group, total in seen if group == "policy"]
    assert 20 < len(mine) < 60
    assert evaluate(table, ["tea", "jam"]).rounds == len(mine)


def test_a_client_tells_totals_and_metrics(sqlite_address: str) -> None:
    with serving(sqlite_address) as server, Client(server.url, deadline=120.0) as client:
        metrics = [{"name": "gone", "limit": {"ratio": 1.2}}]
        control = {"share": 0.5, "by": "unit"}
        client.create(name="slate", arms=["tea", "jam"], budget=1, reward=REWARD, control=control, metrics=metrics)
        groups = set()
        for number in range(30):
            made = client.decide("slate", unit=f"visitor-{number}", incumbent=["the old page"] if number % 2 else None)
            groups.add(made.group)
            if made.group == "control":
                assert (made.arms, made.show, made.number) == (["the old page"] if number % 2 else [], [], -1)
                fates = client.reward("slate", made, total=1.0, metrics={"gone": 0})
                assert fates == {"total": "applied", "metrics.gone": "applied"}
            else:
                fates = client.reward("slate", made, hits=made.arms, metrics={"gone": 1})
                assert fates == {made.arms[0]: "applied", "metrics.gone": "applied"}
        assert groups == {"policy", "control"}
        found = client.policy("slate")
        assert found["lift"]["decisions"] == 30
        assert (found["metrics"][0]["policy_mean"], found["metrics"][0]["control_mean"]) == (1.0, 0.0)


def test_the_key_is_in_no_answer(sqlite_address: str) -> None:
    async def work() -> None:
        async with served(sqlite_address) as call:
            body = {"name": "slate", "arms": ["tea", "jam"], "budget": 1, "reward": REWARD, "control": CONTROL}
            made = await call.post("/v1/policies", json=body)
            await call.ready()
            await call.decide(id="one")
            addresses = ("", "/decisions/one", "/events", "/export.parquet", "/arms")
            texts = [(await call.get(f"/v1/policies/slate{one}")).content for one in addresses]
            texts += [made.content, (await call.get("/metrics")).content, (await call.get("/policies/slate")).content]
            assert all(KEY.encode() not in text for text in texts)
            assert made.json()["config"]["control"]["share"] == 0.3
            state = await load(call.service.store, call.service.loops["slate"].row)
            assert state.trial.control.key == KEY

    run(work)


@pytest.mark.parametrize(
    ("more", "words"),
    [
        ({"control": {}}, "control needs reward.default: a decision without rewards must count as something"),
        ({"control": {"share": 0}, "reward": REWARD}, "share must lie strictly between 0 and 1, got 0"),
        ({"control": {"share": 1.5}, "reward": REWARD}, "share must lie strictly between 0 and 1, got 1.5"),
        ({"control": {"alpha": 0}, "reward": REWARD}, "alpha must be a number strictly between 0 and 1, got 0"),
        ({"control": {"most": -1}, "reward": REWARD}, "most must be above the least total, 0, got -1"),
        ({"control": {"key": "short"}, "reward": REWARD}, "length >= 16"),
        ({"control": {"on_worse": "pause"}, "reward": REWARD}, "accepted are control, tell"),
        ({"control": {"incumbent": ["a", "b", "a"]}, "reward": REWARD}, 'must have different names, got "a" twice'),
        ({"control": {}, "reward": REWARD, "arms": ["tea", "total"], "budget": 1}, "must not be called total"),
    ],
)
def test_what_a_control_refuses(sqlite_address: str, more: dict[str, Any], words: str) -> None:
    async def work() -> None:
        async with served(sqlite_address) as call:
            body = {"name": "slate", "arms": ["tea", "milk", "jam"], "budget": 2} | more
            answer = await call.post("/v1/policies", json=body)
            assert answer.status_code == 422
            assert words in answer.json()["detail"], answer.text
            assert call.service.loops == {}

    run(work)


def test_requests_that_fit_no_control(sqlite_address: str) -> None:
    async def work() -> None:
        async with served(sqlite_address) as call:
            await call.make()
            for body in ({"unit": "x"}, {"incumbent": ["tea"]}):
                answer = await call.post("/v1/policies/slate/decisions", json=body)
                assert answer.status_code == 422
                assert "the policy has no control group" in answer.json()["detail"]
            await call.make(name="tried", control=CONTROL, reward=REWARD)
            answer = await call.post("/v1/policies/tried/decisions", json={"unit": "x"})
            assert "groups are by decision" in answer.json()["detail"]
            for number in range(9):  # in either group
                body = {"id": f"v{number}", "incumbent": ["tea", "tea"]}
                answer = await call.post("/v1/policies/tried/decisions", json=body)
                assert 'incumbent must have different names, got "tea" twice' in answer.json()["detail"]
            answer = await call.patch("/v1/policies/slate", json={"window": "new"})
            assert answer.status_code == 422
            answer = await call.patch("/v1/policies/tried/arms", json={"add": ["total"]})
            assert answer.status_code == 422

    run(work)
