"""What the dashboard says of policies and of a service, without a browser."""

from __future__ import annotations

import csv
import io
import json
import time
from dataclasses import replace

import numpy as np
import pytest

from armtriage import C2UCB, FeedbackGraph, GuardedLinear, GuardedThompson, ThompsonSampling
from armtriage.service import clock
from armtriage.service.dashboard import facts as dashboard_facts
from armtriage.service.dashboard.facts import MOST_BYTES
from armtriage.service.dashboard.health import checks
from armtriage.service.dashboard.items import items, reasons
from armtriage.service.dashboard.page import render
from armtriage.service.dashboard.recorder import Recorder
from armtriage.service.dashboard.site import Site
from armtriage.service.dashboard.summary import summary
from armtriage.service.timeline import Timeline
from armtriage.service.view import CONFIRMED, ELIMINATED, look
from service.calls import run, served


def played(rounds: int = 400, **more):
    graph = FeedbackGraph.full_information(8)
    policy = GuardedThompson(graph, 3, seed=7, names=[f"item {arm}" for arm in range(8)], **more)
    for _ in range(rounds):
        decision = policy.ask()
        policy.tell_revealed(decision, decision.revealed / 8)
    return policy


@pytest.mark.parametrize("direction", ["maximize", "minimize"])
def test_reasons_say_what_the_intervals_say(direction):
    view = look(played(3000, direction=direction))
    assert view.lower is not None
    assert view.upper is not None
    assert {CONFIRMED, ELIMINATED} <= set(view.states.tolist())
    good = -view.upper if direction == "minimize" else view.lower
    bad = -view.lower if direction == "minimize" else view.upper
    for arm, why in enumerate(reasons(view, np.arange(8))):
        if view.states[arm] == CONFIRMED:
            assert (bad < good[arm]).sum() >= 5
            assert "it is certainly among" in why
        elif view.states[arm] == ELIMINATED:
            assert (good > bad[arm]).sum() >= 3
            assert "it is certainly not among" in why
        assert ("cheapest" in why) == (direction == "minimize")
        assert f"{(view.upper if ('most' in why) == (direction == 'maximize') else view.lower)[arm]:.4g}" in why or (
            f"{view.lower[arm]:.4g}" in why or f"{view.upper[arm]:.4g}" in why
        )


def test_reasons_of_arms_that_were_never_seen_are_retired_or_fit_anyway():
    policy = played(0)
    assert "Never seen yet" in reasons(look(policy), np.array([0]))[0]
    slate = GuardedThompson(3, 1, seed=7, names=["tea", "milk", "jam"])
    slate.retire_arms(["tea"])
    assert reasons(look(slate), np.array([0]))[0].startswith("Retired")
    small = GuardedThompson(2, 2, seed=7)
    assert "fit into one decision" in reasons(look(small), np.array([0]))[0]


def test_an_item_that_is_eliminated_and_shown_says_why():
    policy = GuardedThompson(3, budget=1, seed=7, names=["tea", "milk", "jam"])
    past = Timeline()
    for _ in range(600):
        decision = policy.record(["tea"] if policy.asked % 2 else ["jam"])
        policy.tell(decision, {decision.names[0]: float(decision.names[0] == "tea")})
        past.note(policy, at=0)
    [before] = reasons(look(policy, past), np.array([2]))
    assert "it is certainly not the best. Yet it was in 50% of the last 600 decisions: some came before" in before
    for _ in range(400):
        policy.record(["jam"])
    [why] = reasons(look(policy, past), np.array([2]))
    assert "it is certainly not the best. Yet it was in 70% of the last 1,000 decisions: what is certain waits" in why
    assert why.endswith("400 decisions with it are open.")
    assert "Yet" not in reasons(look(policy, past), np.array([0]))[0]


def test_a_certificate_that_says_nothing_says_so_on_the_page():
    policy, rng = GuardedThompson(8, budget=2, seed=7), np.random.default_rng(7)
    for _ in range(600):
        decision = policy.ask()
        policy.tell(decision, rng.random(2) < 0.05)
    made = summary(look(policy))["certificate"]
    assert made["informative"] is False
    assert made["needed"] > 0
    assert "nothing useful is certified yet" in made["text"]


def test_clicks_before_a_default_count_as_told(sqlite_address):
    async def work():
        async with served(sqlite_address) as call:
            await call.make(reward={"default": 0})
            facts = dashboard_facts.Facts(call.service, Recorder(call.service))
            for visit in range(40):
                made = await call.decide()
                if visit % 2:
                    for name in made["arms"][:2]:
                        await call.reward(made["id"], {name: 1.0})
            loop = call.service.loop("slate")
            assert call.service.metrics.counts["slate"]["heard"] == 20
            assert await facts._told(loop) == 0.5
            now = clock.wall() // 60_000_000
            half = {"decisions": 1000, "expired": 1000, "heard": 500}

            def found(minutes):
                return {
                    one.title: one for one in checks(loop, Recorder(call.service), None, {"disk_free": 0.5}, minutes)
                }

            said = found({now - 5: half, now - 300: half})["Rewards come as before"]
            assert said.level == "ok"
            assert "50% of the last hour's decisions have told a reward; the others end with the default" in said.detail
            fewer = found({now - 5: half | {"heard": 100}, now - 300: half})["Missing rewards rise"]
            assert fewer.level == "warn"
            assert "no day before" in found({now - 5: half, now - 300: half | {"heard": 0}})["Rewards come"].detail
            answer = (await call.get("/v1/policies/slate")).json()["certificate"]
            known = loop.state.policy.glance()
            assert (answer["informative"], answer["needed"]) == (known.informative, known.needed)

    run(work)


def test_items_are_sorted_searched_and_paged():
    policy = ThompsonSampling(60, 3, seed=7, names=[f"Item {arm:02d}" for arm in range(60)])
    for _ in range(300):
        decision = policy.ask()
        policy.tell_revealed(decision, decision.revealed / 60)
    view = look(policy)
    first, last = items(view), items(view, page=99)
    assert (first["found"], first["pages"], len(first["rows"]), last["page"], len(last["rows"])) == (60, 3, 25, 2, 10)
    means = [row["mean"] for page in range(3) for row in items(view, page=page)["rows"] if row["mean"] is not None]
    assert means == sorted(means, reverse=True)
    names = [row["id"] for row in items(view, sort="name", search="ITEM 1")["rows"]]
    assert names == [f"Item 1{digit}" for digit in range(10)]
    assert items(view, sort="name", up=True)["rows"][0]["id"] == "Item 59"
    seen = [row["seen"] for row in items(view, sort="seen")["rows"]]
    assert seen == sorted(seen, reverse=True)
    wide = [row["high"] - row["low"] for row in items(view, sort="interval")["rows"]]
    assert wide == pytest.approx(sorted(wide, reverse=True))
    assert items(view, search="nothing")["rows"] == []
    states = {row["state"] for row in items(view, sort="open")["rows"][:3]}
    assert states == {"open"} or not (view.states == 0).any()
    policy.retire_arms(["Item 59"])
    assert items(look(policy), page=2)["rows"][-1]["id"] == "Item 59"
    json.dumps(items(look(policy)), allow_nan=False)


def test_policies_with_contexts_show_weights_and_whether_they_are_certified():
    for policy in (GuardedLinear(4, 3, 2, seed=7), C2UCB(4, 3, 2), GuardedLinear(4, 3, 2, certificate=False)):
        past = Timeline()
        for _ in range(30):
            decision = policy.ask(0.5 * np.eye(4, 3))
            past.count(decision.arms)
            policy.tell(decision, 0.5 * decision.contexts[:, 0])
        found = summary(look(policy, past))
        assert found["contexts"]["dimension"] == 3
        assert found["triage"] is None
        assert (found["certificate"] is None) == (not getattr(policy, "certified", False))
        rows = items(look(policy, past))["rows"]
        assert sum(row["pulls"] for row in rows) == 60
        assert rows[0]["why"].startswith("Judged by its context")
        json.dumps(found, allow_nan=False)
    weights = dict(summary(look(policy))["contexts"]["weights"])
    assert weights[0] == max(weights.values())


def test_health_says_what_is_wrong(sqlite_address):
    async def work():
        async with served(sqlite_address) as call:
            await call.make()
            loop, recorder = call.service.loop("slate"), Recorder(call.service)
            now = clock.wall() // 60_000_000
            calm = {now - 5: {"decisions": 1000, "expired": 100}, now - 300: {"decisions": 1000, "expired": 100}}

            view = await call.service.viewer.view(loop)

            def found(contradictions=0, facts=None, minutes=calm):
                seen = replace(view, certificate=replace(view.certificate, contradictions=contradictions))
                return {one.title: one for one in checks(loop, recorder, seen, facts or {"disk_free": 0.5}, minutes)}

            assert {one.level for one in found().values()} <= {"ok", "none"}
            assert found(contradictions=2)["Drift"].level == "bad"
            assert found(facts={"disk_free": 0.05})["Disk nearly full"].level == "bad"
            worse = calm | {now - 5: {"decisions": 1000, "expired": 300}}
            assert found(minutes=worse)["Missing rewards rise"].level == "warn"
            assert found(minutes={})["Missing rewards cannot be judged"].level == "none"
            pulse = recorder.pulse("slate")
            pulse.sample(loop)
            call.service.metrics.shed("slate")
            pulse.sample(loop)
            assert found()["Requests are shed"].level == "bad"
            assert [note.text for note in pulse.notes] == ["1 shed refused, since too many waited"]
            assert found()["State not yet compared with its log"].level == "none"
            loop.verified = 20_000
            pulse.sample(loop)
            assert "20,000" in found()["State equals its log"].detail
            call.service.metrics.diverged("slate", 30_000)
            assert found()["State differs from its log"].level == "bad"
            recorder.last_jump, recorder.jump = clock.wall(), 3600.0
            assert "+3,600 s" in found()["The system's clock jumped"].detail
            assert next(iter(found(contradictions=1))) in ("Drift", "State differs from its log")  # the worst first

    run(work)


def test_what_listeners_get_has_an_end_whatever_names_are(sqlite_address):
    async def work():
        async with served(sqlite_address) as call:
            names = [f"{'🍵' * 120}{number}" for number in range(12)]
            await call.make(arms=names, budget=6)
            for _ in range(20):
                made = await call.decide(id=f"{time.monotonic_ns():x>120}")
                await call.reward(made["id"], dict.fromkeys(made["arms"], 0.5))
            site = Site(call.service)
            made = await site.facts.live("slate")
            assert len(made) <= MOST_BYTES
            found = json.loads(made)
            assert (found["decisions"], found["certificate"]["rounds"]) == (20, 20)
            for number in range(40):
                await call.make(name=f"policy-{number}-{'x' * 40}")
            assert len(await site.facts.live("")) <= MOST_BYTES
            page = await site.facts.policies()
            assert (len(page["rows"]), page["total"]) == (41, 41)

    run(work)


def test_answers_of_the_site(sqlite_address):
    async def work():
        async with served(sqlite_address) as call:
            await call.make(arms=["=1+1", "+tea", "plain"], budget=1)
            await call.decide()
            rows = list(csv.reader(io.StringIO((await call.get("/dashboard/items.csv/slate")).text)))
            assert sorted(row[0] for row in rows[1:]) == ["'+tea", "'=1+1", "plain"]
            assert (await call.get("/dashboard/items/nobody")).status_code == 404
            assert (await call.get("/dashboard/nothing")).status_code == 404
            assert (await call.post("/")).status_code == 405
            assert (await call.get("/policies/slate?page=x&sort=none&up=7")).status_code == 200
            page = (await call.get("/dashboard/page?path=/system")).json()
            assert page["system"]["policies"] == 1
            evil = {"origin": "http://localhost.example.org"}
            assert (await call.get("/v1/policies", headers=evil)).status_code == 403
            assert (await call.get("/v1/policies", headers={"origin": "http://localhost:8000"})).status_code == 200
            for path in ("/v1/policies", "/v1/policies/slate", "/metrics", "/readyz", "/openapi.json", "/", "/system"):
                for host in ("rebound.example.org", "localhost.example.org:8000", "[::1", ""):
                    answer = await call.get(path, headers={"host": host})
                    assert (answer.status_code, answer.json()["error"]) == (403, "forbidden"), (path, host)
                for host in ("localhost", "127.0.0.1:8000", "[::1]:8000"):
                    assert (await call.get(path, headers={"host": host})).status_code == 200, (path, host)
            rebound = {"host": "rebound.example.org"}
            assert (await call.post("/v1/policies/slate/decisions", json={}, headers=rebound)).status_code == 403
            assert (await call.post("/dashboard/session", json={"key": "x"})).status_code == 403
            marked = {"x-armtriage": "dashboard"}
            big = await call.post("/dashboard/session", content=b"x" * 5000, headers=marked)
            assert (big.status_code, big.json()["error"]) == (413, "too_large")
            assert (await call.post("/dashboard/session", content=b"[", headers=marked)).status_code == 400

    run(work)


def test_no_text_can_end_the_element_of_the_facts():
    hostile = "</script><script>alert(1)</script>\u2028&<!--"
    text = render({"name": hostile}).decode()
    inside = text.split('id="facts">', 1)[1].split("</script>", 1)[0]
    assert json.loads(inside) == {"name": hostile}
    assert "<" not in inside
