"""Rewards: six fates, each named and counted; a reward counts once."""

import asyncio

import pytest

from armtriage.service.messages import FATES
from service.calls import SLATE, run, served


async def _some(call, **more):
    await call.make(**more)
    made = await call.decide(id="visit-1")
    return made["arms"]


def test_applied_then_duplicate_then_conflict(address):
    async def work():
        async with served(address) as call:
            one, other = await _some(call)
            first = await call.reward("visit-1", {one: 1})
            assert (first.status_code, first.json()["fates"], first.json()["open"]) == (200, {one: "applied"}, [other])
            again = await call.reward("visit-1", {one: 1})
            assert (again.status_code, again.json()["fates"]) == (200, {one: "duplicate"})
            before = await call.digest()
            wrong = await call.reward("visit-1", {one: 0, other: 1})
            assert (wrong.status_code, wrong.json()["error"]) == (409, "conflict")
            assert wrong.json()["fates"] == {one: "conflict", other: "rejected"}
            assert await call.digest() == before
            last = await call.reward("visit-1", {other: 0})
            assert (last.json()["fates"], last.json()["open"]) == ({other: "applied"}, [])
            closed = await call.reward("visit-1", {one: 1, other: 0})
            assert closed.json()["fates"] == {one: "duplicate", other: "duplicate"}
            wrong = await call.reward("visit-1", {one: 0})
            assert wrong.status_code == 409
            counts = await call.counts()
            assert {name: counts.get(name, 0) for name in FATES} == {
                "applied": 2,
                "duplicate": 3,
                "conflict": 2,
                "late": 0,
                "orphan": 0,
                "rejected": 1,
            }

    run(work)


def test_another_id_for_the_same_arm_does_not_count_under_the_rule_first(address):
    async def work():
        async with served(address) as call:
            one, _ = await _some(call)
            await call.reward("visit-1", {one: 1}, id="a")
            before = await call.digest()
            second = await call.reward("visit-1", {one: 0}, id="b")
            assert (second.status_code, second.json()["fates"]) == (200, {one: "duplicate"})
            assert await call.digest() == before

    run(work)


def test_hits_are_ones_and_the_other_shown_arms_zeros(address):
    async def work():
        async with served(address) as call:
            one, other = await _some(call)
            told = await call.reward("visit-1", hits=[other])
            assert told.json()["fates"] == {one: "applied", other: "applied"}
            seen = (await call.get("/v1/policies/slate/decisions/visit-1")).json()
            assert (seen["rewards"], seen["status"]) == ({one: {"": 0.0}, other: {"": 1.0}}, "closed")
            assert (await call.reward("visit-1", hits=[other])).json()["fates"] == {
                one: "duplicate",
                other: "duplicate",
            }

    run(work)


def test_hits_that_others_may_follow_leave_the_decision_open(address):
    async def work():
        async with served(address) as call:
            await call.make(budget=3)
            one, other, third = (await call.decide(id="visit-1"))["arms"]
            first = await call.reward("visit-1", hits=[one], last=False)
            assert (first.json()["fates"], first.json()["open"]) == ({one: "applied"}, [other, third])
            again = await call.reward("visit-1", hits=[one], last=False)
            assert (again.json()["fates"], again.json()["open"]) == ({one: "duplicate"}, [other, third])
            assert (await call.reward("visit-1", hits=[], last=False)).json()["open"] == [other, third]
            last = await call.reward("visit-1", hits=[other])
            assert last.json()["fates"] == {one: "duplicate", other: "applied", third: "applied"}
            assert last.json()["open"] == []
            arms = {arm["id"]: arm for arm in (await call.get("/v1/policies/slate/arms")).json()["arms"]}
            assert [arms[name]["mean"] for name in (one, other, third)] == [1.0, 1.0, 0.0]
            before = await call.digest()
            for hit in ([one], [other], [one, other], []):
                assert set((await call.reward("visit-1", hits=hit)).json()["fates"].values()) == {"duplicate"}
            late = await call.reward("visit-1", hits=[third], last=False)
            assert late.json()["fates"] == {third: "late"}
            assert await call.digest() == before

    run(work)


@pytest.mark.parametrize("form", ["hits", "more hits", "rewards"])
def test_a_click_after_the_hits_that_closed_is_late_and_kept(address, form):
    """Nobody has said that there would be none: `hits` filled the 0 in, as the end of the join window does."""

    async def work():
        async with served(address) as call:
            one, other = await _some(call)
            await call.reward("visit-1", hits=[one])
            before = await call.digest()
            body = {"rewards": {other: 1}} if form == "rewards" else {"hits": [other]}
            body |= {"last": False} if form == "more hits" else {}
            late = await call.reward("visit-1", **body)
            assert (late.status_code, late.json()["fates"][other]) == (200, "late")
            for repeated in (body, {"hits": [one]}, {"hits": [one, other]}):
                again = await call.reward("visit-1", **repeated)
                assert set(again.json()["fates"].values()) == {"duplicate"}
            assert (await call.reward("visit-1", {one: 0})).status_code == 409
            assert await call.digest() == before
            seen = (await call.get("/v1/policies/slate/decisions/visit-1")).json()
            assert [entry["rewards"] for entry in seen["late"]] == [{other: 1.0}]
            assert (await call.counts())["late"] == 1

    run(work)


def test_the_same_id_with_other_hits_is_a_conflict(address):
    async def work():
        async with served(address) as call:
            one, other = await _some(call)
            assert (await call.reward("visit-1", hits=[one], id="a")).status_code == 200
            assert (await call.reward("visit-1", hits=[one], id="a")).json()["fates"] == {
                one: "duplicate",
                other: "duplicate",
            }
            for hits in ([other], [], [one, other]):
                assert (await call.reward("visit-1", hits=hits, id="a")).json()["error"] == "conflict"
            late = await call.reward("visit-1", hits=[other], id="b")
            assert late.json()["fates"] == {one: "duplicate", other: "late"}
            assert (await call.reward("visit-1", hits=[other], id="b")).json()["fates"][other] == "duplicate"

    run(work)


def test_hits_of_a_decision_that_ran_out_of_time_are_late_one_by_one(sqlite_address):
    async def work():
        async with served(sqlite_address) as call:
            one, other = await _some(call)
            await call.reward("visit-1", {}, last=True)
            assert (await call.reward("visit-1", hits=[one])).json()["fates"] == {one: "late", other: "late"}
            assert (await call.reward("visit-1", hits=[other])).json()["fates"] == {one: "duplicate", other: "late"}
            assert (await call.reward("visit-1", hits=[one])).json()["fates"] == {one: "duplicate", other: "duplicate"}

    run(work)


@pytest.mark.parametrize("rule", ["first", "last", "sum"])
def test_hits_that_came_before_their_decision_are_all_adopted(address, rule):
    """Each of them would have closed it; none may shut the others out."""

    async def work():
        async with served(address) as call:
            await call.make(budget=3, reward={"rule": rule})
            arms = ["tea", "milk", "jam"]
            for name in arms[:2]:
                assert (await call.reward("visit-1", hits=[name])).json()["error"] == "orphan"
            assert (await call.decide(id="visit-1", eligible=arms))["arms"] == sorted(arms, key=SLATE["arms"].index)
            seen = (await call.get("/v1/policies/slate/decisions/visit-1")).json()
            assert (seen["status"], seen["late"]) == ("closed", [])
            assert seen["rewards"] == {"tea": {"": 1.0}, "milk": {"": 1.0}, "jam": {"": 0.0}}
            assert (await call.counts())["adopted"] == 3
            assert (await call.reward("visit-1", hits=["jam"])).json()["fates"]["jam"] == "late"

    run(work)


def test_the_last_hits_leave_earlier_rewards_as_they_are(sqlite_address):
    """Under the rule `last` a 0 that is filled in must not become the last."""

    async def work():
        async with served(sqlite_address) as call:
            one, other = await _some(call, reward={"rule": "last"})
            await call.reward("visit-1", {one: 0.5}, id="a")
            assert (await call.reward("visit-1", hits=[other], id="b")).json()["fates"] == {
                one: "duplicate",
                other: "applied",
            }
            arms = {arm["id"]: arm["mean"] for arm in (await call.get("/v1/policies/slate/arms")).json()["arms"]}
            assert (arms[one], arms[other]) == (0.5, 1.0)

    run(work)


def test_giving_up_closes_and_what_comes_then_is_late_and_kept(address):
    async def work():
        async with served(address) as call:
            one, other = await _some(call)
            given_up = await call.reward("visit-1", {one: 1}, last=True)
            assert given_up.json() == {"decision": "visit-1", "fates": {one: "applied"}, "open": [], "seq": 2}
            before = await call.digest()
            late = await call.reward("visit-1", {other: 1})
            assert (late.status_code, late.json()["fates"]) == (200, {other: "late"})
            assert (await call.reward("visit-1", {other: 1})).json()["fates"] == {other: "duplicate"}
            assert (await call.reward("visit-1", {other: 0})).status_code == 409
            assert await call.digest() == before
            seen = (await call.get("/v1/policies/slate/decisions/visit-1")).json()
            assert [entry["rewards"] for entry in seen["late"]] == [{other: 1.0}]

    run(work)


def test_orphans_are_held_and_adopted_by_their_decision(address):
    async def work():
        async with served(address) as call:
            await call.make()
            early = await call.reward("visit-9", dict.fromkeys(("tea", "milk", "jam", "bread", "egg"), 0.25))
            assert (early.status_code, early.json()["error"]) == (404, "orphan")
            assert set(early.json()["fates"].values()) == {"orphan"}
            again = await call.reward("visit-8", hits=[])
            assert again.json()["error"] == "unknown_decision"
            assert (await call.reward("visit-7", hits=["tea"])).status_code == 404
            twice = await call.reward("visit-7", hits=["tea"])
            assert twice.json()["fates"] == {"tea": "duplicate"}
            # The held rewards name arms that this decision does not show, so they stay orphans.
            await call.decide(id="visit-9")
            assert (await call.counts()).get("adopted", 0) == 0
            made = await call.decide()
            fits = await call.reward("visit-6", {made["arms"][0]: 1})
            assert fits.status_code == 404
            arms = (await call.decide(id="visit-6", eligible=[made["arms"][0]]))["arms"]
            assert arms == [made["arms"][0]]
            seen = (await call.get("/v1/policies/slate/decisions/visit-6")).json()
            assert (seen["rewards"], seen["status"]) == ({arms[0]: {"": 1.0}}, "closed")
            assert (await call.counts())["adopted"] == 1
            assert (await call.reward("visit-6", {arms[0]: 1})).json()["fates"] == {arms[0]: "duplicate"}

    run(work)


@pytest.mark.parametrize(("default", "seen"), [(None, 1), (0.0, 2)])
def test_missing_rewards_are_lost_or_the_default_when_their_time_has_passed(address, default, seen):
    async def work():
        async with served(address) as call:
            one, other = await _some(call, join_window="1s", reward={"default": default})
            await call.reward("visit-1", {one: 1})
            async with asyncio.timeout(120):
                while (await call.get("/v1/policies/slate/decisions/visit-1")).json()["status"] != "closed":
                    await asyncio.sleep(0.1)
            late = await call.reward("visit-1", {other: 1})
            assert late.json()["fates"] == {other: "late"}
            arms = {arm["id"]: arm for arm in (await call.get("/v1/policies/slate/arms")).json()["arms"]}
            assert arms[one]["observed"] + arms[other]["observed"] == seen
            assert (await call.counts())["expired"] == 1

    run(work)


@pytest.mark.parametrize(("rule", "learnt"), [("sum", 1.0), ("last", 0.25)])
def test_rules_that_gather_learn_at_the_end(address, rule, learnt):
    async def work():
        async with served(address) as call:
            one, other = await _some(call, reward={"rule": rule, "default": 0.0})
            for name, value in (("a", 0.5), ("b", 0.75), ("c", 0.25), ("c", 0.25)):
                told = await call.reward("visit-1", {one: value}, id=name)
            assert told.json()["fates"] == {one: "duplicate"}
            arms = {arm["id"]: arm for arm in (await call.get("/v1/policies/slate/arms")).json()["arms"]}
            assert arms[one]["observed"] == 0
            await call.reward("visit-1", {}, last=True)
            arms = {arm["id"]: arm for arm in (await call.get("/v1/policies/slate/arms")).json()["arms"]}
            assert (arms[one]["mean"], arms[other]["observed"]) == (learnt, 0)

    run(work)


@pytest.mark.parametrize(
    ("body", "code"),
    [
        ({"rewards": {"nobody": 1}}, "unknown_arm"),
        ({"rewards": {"{hidden}": 1}}, "not_shown"),
        ({"rewards": {"{one}": 1.5}}, "out_of_range"),
        ({"rewards": {"{one}": 1, "{hidden}": 1}}, "not_shown"),
        ({"hits": ["{hidden}"]}, "not_shown"),
        ({"rewards": {"{one}": 1}, "hits": ["{one}"]}, "invalid"),
        ({}, "invalid"),
    ],
)
def test_what_cannot_be_is_rejected_whole(sqlite_address, body, code):
    async def work():
        async with served(sqlite_address) as call:
            one, other = await _some(call)
            hidden = next(name for name in ("tea", "milk", "jam") if name not in (one, other))

            def named(value):
                if isinstance(value, str):
                    return value.format(one=one, hidden=hidden)
                if isinstance(value, list):
                    return [named(item) for item in value]
                return {named(key): named(item) for key, item in value.items()} if isinstance(value, dict) else value

            before = await call.digest()
            told = await call.post("/v1/policies/slate/rewards", json={"decision": "visit-1", **named(body)})
            assert (told.status_code, told.json()["error"]) == (422, code)
            assert await call.digest() == before
            rejected = (await call.counts()).get("rejected", 0)
            assert rejected == len(body.get("rewards", body.get("hits", [])))

    run(work)


def test_one_bad_part_of_a_batch_does_not_stop_the_others(address):
    async def work():
        async with served(address) as call:
            one, other = await _some(call)
            parts = [
                {"decision": "visit-1", "rewards": {one: 1}},
                {"decision": "visit-1", "rewards": {other: 7}},
                {"decision": "nobody", "rewards": {other: 1}},
                {"decision": "visit-1", "rewards": {other: "x"}},
                {"decision": "visit-1", "rewards": {other: 0}},
            ]
            answer = await call.post("/v1/policies/slate/rewards/batch", json={"requests": parts})
            results = answer.json()["results"]
            assert answer.status_code == 200
            assert [result.get("error") for result in results] == [None, "out_of_range", "orphan", "invalid", None]
            counts = await call.counts()
            assert (counts["applied"], counts["rejected"], counts["orphan"]) == (2, 2, 1)

    run(work)


def test_rewards_and_the_end_of_their_time_in_one_group(sqlite_address):
    """Rewards that wait when a decision's time passes were there before: they are applied, and the next is late."""

    async def work():
        async with served(sqlite_address) as call:
            one, other = await _some(call, join_window="1s")
            loop = call.service.loops["slate"]
            loop.nudge = lambda: None
            await asyncio.sleep(1.2)
            told = await asyncio.gather(call.reward("visit-1", {one: 1}), call.reward("visit-1", {one: 1}))
            assert sorted(answer.json()["fates"][one] for answer in told) == ["applied", "duplicate"]
            late = await call.reward("visit-1", {other: 1})
            assert late.json()["fates"] == {other: "late"}
            counts = await call.counts()
            assert (counts["applied"], counts["late"], counts["expired"]) == (1, 1, 1)

    run(work)


def test_decisions_of_a_time_to_come_hold_nobody_up(address, monkeypatch):
    """Made by a clock that was years ahead, and is right again: they are closed with the next that are due."""

    async def work():
        ahead = [10 * 365 * 86_400_000_000]
        async with served(address) as call:
            await call.make(join_window="1s")
            store = call.service.store
            whole = store.begin

            async def begin(*given):
                group = await whole(*given)
                group.now += ahead[0]
                return group

            monkeypatch.setattr(store, "begin", begin)
            await call.decide(id="then")
            ahead[0] = 0
            await call.decide(id="now")
            before = await call.digest()
            async with asyncio.timeout(120):
                while (await call.counts()).get("expired") != 2:
                    await asyncio.sleep(0.1)
            assert await call.digest() != before
            after = await call.digest()
        async with served(address) as call:
            assert await call.digest() == after

    run(work)


def test_rewards_that_are_stored_and_not_learnt_are_bounded(address, monkeypatch):
    """Of one decision so many, and of decisions that are not known so many bytes; of unknown arms and values none."""
    from armtriage.service import loop as loops

    async def work():
        async with served(address) as call:
            await call.make()
            made = await call.decide()
            await call.reward(made["id"], {}, last=True)
            loop = call.service.loops["slate"]
            for key, fate in (("nobody", "orphan"), (made["id"], "late")):
                told = [{"decision": key, "rewards": {made["arms"][0]: 1}, "id": f"r{n}"} for n in range(100)]
                answer = (await call.post("/v1/policies/slate/rewards/batch", json={"requests": told})).json()
                kept = [one for one in answer["results"] if fate in one.get("fates", {}).values()]
                refused = [one for one in answer["results"] if one.get("error") == "too_many_rewards"]
                assert (len(kept), len(refused)) == (64, 36)
                again = await call.reward(key, {made["arms"][0]: 1}, id="r3")
                assert set(again.json()["fates"].values()) == {"duplicate"}
            held = await call.service.store.orphans(loop.row.id)
            assert held == loop._orphans > 64 * 64
            for rewards, code in (({"nothing": 1}, "unknown_arm"), ({"tea": 2}, "out_of_range")):
                answer = await call.reward("somebody", rewards)
                assert (answer.status_code, answer.json()["error"]) == (422, code)
            monkeypatch.setattr(loops, "MOST_ORPHANS", held + 100)
            answers = [await call.reward(f"n{number}", {"tea": 1}) for number in range(3)]
            assert [one.json()["error"] for one in answers] == ["orphan", "unknown_decision", "unknown_decision"]
            assert "no room" in answers[2].json()["detail"]
            counts = await call.counts()
            assert (counts["orphan"], counts["late"], counts["rejected"]) == (65, 64, 76)

    run(work)


def test_many_rewards_of_one_unknown_decision_are_read_once(sqlite_address, monkeypatch):
    """A store of an earlier version may have thousands of them; each was read again for each that came."""
    from armtriage.service import told
    from armtriage.service.events import Stray, StrayBody, pack
    from armtriage.service.stores import Write

    read = []
    unpack = told.unpack_stray
    monkeypatch.setattr(told, "unpack_stray", lambda stray: read.append(stray) or unpack(stray))

    async def work():
        async with served(sqlite_address) as call:
            await call.make()
            loop = call.service.loops["slate"]
            strays = [
                Stray("nobody", n, 2**50, "orphan", pack(StrayBody({"tea": 1.0}, f"r{n}", False, False)))
                for n in range(700)
            ]
            group = await call.service.store.begin(loop.row.id, 0, [])
            await group.commit(Write([], strays, [], {}, 0))
            body = {"requests": [{"decision": "nobody", "rewards": {"tea": 1}, "id": f"s{n}"} for n in range(1000)]}
            answer = await call.post("/v1/policies/slate/rewards/batch", json=body)
            assert {one["error"] for one in answer.json()["results"]} == {"too_many_rewards"}
            assert len(read) == 700

    run(work)
