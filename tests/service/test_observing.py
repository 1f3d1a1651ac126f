"""Observing: what another system shows is learnt, compared with what the policy would show, and taken over."""

from __future__ import annotations

import json
from typing import Any

import numpy as np
import pytest

from armtriage import GuardedThompson, SlateLog, evaluate
from armtriage.service import read_log
from armtriage.service.state import PolicyState
from armtriage.service.upkeep import check, replay
from service.calls import SLATE, Caller, run, served

NAMES = SLATE["arms"]
OBSERVING: dict[str, Any] = {"status": "observing", "reward": {"default": 0}, "policy": {"kind": "thompson"}}
KEY = "a secret of 16 bytes or more"
MEANS = dict(zip(NAMES, [0.1, 0.2, 0.3, 0.6, 0.9], strict=True))


def _slates(count: int, swap: float, seed: int = 7) -> list[tuple[list[str], dict[str, float]]]:
    """Return slates of a system that shows tea and milk, and in each slot with a probability another arm instead."""
    luck, found = np.random.default_rng(seed), []
    for _ in range(count):
        slate = ["tea", "milk"]
        if luck.random() < swap:
            slate[luck.integers(2)] = str(luck.choice(NAMES[2:]))
        found.append((slate, {"tea": 1 - swap / 2, "milk": 1 - swap / 2, **dict.fromkeys(NAMES[2:], swap / 3)}))
    return found


async def _watch(
    call: Caller, slates: list[tuple[list[str], dict[str, float]]], first: int = 0, probabilities: bool = True
) -> list[dict[str, Any]]:
    luck, made = np.random.default_rng(11 + first), []
    for start in range(0, len(slates), 50):
        asked = [
            {"id": f"visit-{first + start + at}", "shown": slate} | ({"inclusion": q} if probabilities else {})
            for at, (slate, q) in enumerate(slates[start : start + 50])
        ]
        answer = await call.post("/v1/policies/slate/decisions/batch", json={"requests": asked})
        assert answer.status_code == 200, answer.text
        made += answer.json()["decisions"]
        told = [
            {"decision": one["id"], "hits": [name for name in one["arms"] if luck.random() < MEANS[name]]}
            for one in made[start:]
            if one["arms"]
        ]
        answer = await call.post("/v1/policies/slate/rewards/batch", json={"requests": told})
        assert answer.status_code == 200, answer.text
    return made


async def _document(call: Caller) -> dict[str, Any]:
    await call.digest()  # a step, after which nothing is under way
    call.service.loops["slate"].seen = None
    found: dict[str, Any] = (await call.get("/v1/policies/slate")).json()
    return found


async def _same_everywhere(call: Caller) -> None:
    """The state is what its log gives, with and without snapshots, and what the policy would decide again."""
    served_as = await call.digest()
    loop = call.service.loops["slate"]
    again = PolicyState.from_bytes(loop.recipe, loop.state.to_bytes())
    assert again.digest() == served_as["digest"]
    problems, states = await check(call.service.store)
    assert problems == []
    assert states["slate"]["digest"] == served_as["digest"]
    assert (await replay(call.service.store, "slate"))["different"] == 0


def test_the_policy_is_the_one_that_records_what_was_shown(address: str) -> None:
    async def work() -> None:
        async with served(address) as call:
            await call.make(**OBSERVING | {"policy": {}})
            slates = _slates(120, swap=0.5)
            made = await _watch(call, slates)
            policy = GuardedThompson(5, budget=2, names=NAMES, seed=7)
            luck, alike = np.random.default_rng(11), 0
            for start in range(0, 120, 50):
                decisions = []
                for (slate, q), one in list(zip(slates, made, strict=True))[start : start + 50]:
                    would = sorted(policy.certificate().next_decision.tolist(), key=NAMES.index)
                    assert one["would_show"] == would
                    assert one["ranked"] == slate
                    assert sorted(one["arms"]) == sorted(slate)
                    assert one["propensity"]["kind"] == "given"
                    assert one["propensity"]["inclusion"] == [q[name] for name in one["arms"]]
                    alike += len({*would} & {*slate})
                    decisions.append(policy.record(one["arms"]))
                for decision in decisions:
                    policy.tell(decision, {name: int(luck.random() < MEANS[name]) for name in decision.names})
            assert call.service.loops["slate"].state.policy.tally.sums.tolist() == policy.tally.sums.tolist()
            found = await _document(call)
            assert found["status"] == "observing"
            assert found["observing"]["agreement"] == alike / 240
            kept = (await call.get("/v1/policies/slate/decisions/visit-7")).json()
            assert kept["would_show"] == made[7]["would_show"]
            await _same_everywhere(call)
            before = await call.digest()
        async with served(address) as call:
            assert await call.digest() == before
            assert (await _document(call))["observing"] == found["observing"]

    run(work)


def test_estimates_are_those_of_a_log(sqlite_address: str) -> None:
    """Rewards are told after all decisions, so that would_show is the same slate in all of them."""

    async def work() -> None:
        async with served(sqlite_address) as call:
            await call.make(**OBSERVING)
            slates = _slates(300, swap=0.6)
            made = [await call.decide(id=f"v{at}", shown=slate, inclusion=q) for at, (slate, q) in enumerate(slates)]
            luck, rewards = np.random.default_rng(3), []
            assert {tuple(one["would_show"]) for one in made} == {("tea", "milk")}
            for one in made:
                rewards.append([float(luck.random() < MEANS[name]) for name in one["arms"]])
                await call.reward(one["id"], dict(zip(one["arms"], rewards[-1], strict=True)))
            log = SlateLog.from_columns(
                arms=[one["arms"] for one in made],
                rewards=rewards,
                inclusion=[one["propensity"]["inclusion"] for one in made],
                names=NAMES,
            )
            found = (await _document(call))["observing"]
            for estimator in ("dr", "ips"):
                expected = evaluate(log, ["tea", "milk"], estimator=estimator).value
                assert found["weighted"][estimator] == pytest.approx(expected, rel=1e-12)
            assert found["weighted"]["decisions"] == found["decisions"] == 300
            assert found["old_mean"] == pytest.approx(np.sum(rewards) / 300)
            low, value = found["weighted"]["gain_low"], found["weighted"]["gain"]
            assert -2 <= low < value
            seen.append(found["weighted"]["dr"])

    seen: list[float] = []
    run(work)
    # What is stored has the probabilities, too.
    assert evaluate(read_log(sqlite_address, "slate"), ["tea", "milk"]).value == pytest.approx(seen[0], rel=1e-12)


@pytest.mark.parametrize("rule", ["dr", "bracket"])
def test_it_takes_over_once_by_its_rule_into_a_trial(address: str, rule: str) -> None:
    async def work() -> None:
        control = {"share": 0.05, "key": KEY}
        takeover = {"by": rule, "margin": 0.1, "control": 0.9}
        async with served(address) as call:
            await call.make(**OBSERVING, control=control, takeover=takeover)
            slates = _slates(4000, swap=0.9)
            made: list[dict[str, Any]] = []
            while not made or "would_show" in made[-1]:
                assert len(made) < len(slates), (await _document(call))["observing"]
                made += await _watch(call, slates[len(made) : len(made) + 200], first=len(made))
            found = await _document(call)
            assert found["status"] == "running"
            switched = found["observing"]["switched"]
            assert (switched["by"], switched["rule"]) == ("", rule)
            assert found["lift"]["share"] == 0.9
            lines = await call.get(f"/v1/policies/slate/events?after={switched['seq'] - 1}&limit=2")
            life, window = (json.loads(line) for line in lines.text.splitlines())
            assert (life["kind"], life["status"], life["rule"]) == ("life", "running", rule)
            assert (window["kind"], window["share"]) == ("window", 0.9)
            # The same request goes on: what the old system shows is what the control shows.
            after = [one for one in made if "would_show" not in one]
            assert {one["group"] for one in after} == {"policy", "control"}
            assert all(one["ranked"] == slates[int(one["id"][6:])][0] for one in after if one["group"] == "control")
            await _watch(call, slates[:100], first=10_000)
            assert (await _document(call))["observing"]["switched"] == switched
            await _same_everywhere(call)
            before = await call.digest()
        async with served(address) as call:
            assert await call.digest() == before
            assert (await _document(call))["observing"]["switched"] == switched

    run(work)


def test_an_admin_takes_over(sqlite_address: str) -> None:
    async def work() -> None:
        async with served(sqlite_address) as call:
            await call.make(**OBSERVING, control={"share": 0.5, "key": KEY})
            await _watch(call, _slates(20, swap=0.5), probabilities=False)
            found = (await _document(call))["observing"]
            assert found["weighted"] is None
            assert found["bracket"]["low"] < found["bracket"]["high"]
            for status, expected in (("paused", "paused"), ("observing", "observing"), ("running", "running")):
                answer = await call.patch("/v1/policies/slate", json={"status": status})
                assert answer.json()["status"] == expected
            again = await call.patch("/v1/policies/slate", json={"status": "observing"})
            assert (again.status_code, again.json()["error"]) == (422, "invalid")
            made = await call.decide(id="after")
            assert made["group"] in ("policy", "control")
            assert "would_show" not in made
            assert (await _document(call))["lift"]["share"] == 0.5
            await _same_everywhere(call)

    run(work)
