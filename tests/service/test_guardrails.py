"""Second numbers of decisions: their fates, their limits, the alarm, and what happens then."""

from __future__ import annotations

from typing import Any

import numpy as np
import pytest

from armtriage import Guardrail
from service.calls import Caller, run, served

REWARD = {"default": 0}
CONTROL = {"share": 0.4, "key": "a secret of 16 bytes or more"}
LIMITS: list[dict[str, Any]] = [{"ratio": 1.2}, {"difference": 0.1}, {"most": 0.3}]


async def _visits(call: Caller, count: int, rate: float, first: int = 0) -> list[tuple[bool, float]]:
    """Let visitors come of whom a share unsubscribes: 0.1 of the control's; return what was told."""
    luck, seen = np.random.default_rng(7 + first), []
    for start in range(first, first + count, 500):
        asked = [{"id": f"visit-{number}"} for number in range(start, start + 500)]
        answer = await call.post("/v1/policies/slate/decisions/batch", json={"requests": asked})
        told = []
        for made in answer.json()["decisions"]:
            control = made.get("group") == "control"
            gone = float(luck.random() < (0.1 if control else rate))
            seen.append((control, gone))
            ways: dict[str, Any] = {"total": 1} if control else {"hits": made["arms"][:1]}
            # Where nobody has gone nothing is told, which counts as the default.
            told.append({"decision": made["id"], **ways, **({"metrics": {"gone": gone}} if gone else {})})
        answer = await call.post("/v1/policies/slate/rewards/batch", json={"requests": told})
        assert {fate for one in answer.json()["results"] for fate in one["fates"].values()} == {"applied"}
    return seen


@pytest.mark.parametrize("limit", LIMITS, ids=lambda one: next(iter(one)))
@pytest.mark.parametrize("rate", [0.1, 0.6])
def test_alarms_are_those_of_the_library(sqlite_address: str, limit: dict[str, float], rate: float) -> None:
    async def work() -> None:
        async with served(sqlite_address) as call:
            metric = {"name": "gone", "limit": limit}
            await call.make(reward=REWARD, control=CONTROL, metrics=[metric])
            seen = await _visits(call, 1000, rate)
            twin = Guardrail(0.4, **limit)
            for control, gone in seen:
                twin.add(control, gone)
            found = await call.document()
            (one,) = found["metrics"]
            assert (one["text"], one["breached"]) == (str(twin), twin.breached)
            assert (one["policy_mean"], one["control_mean"]) == (twin.policy_mean, twin.control_mean)
            assert one["breached"] == (rate > 0.5)
            assert [(of["kind"], of["what"]) for of in found["alarms"]] == [("breach", "gone")] * one["breached"]
            assert found["status"] == "running"
            lines = (await call.get("/metrics")).text
            assert f'armtriage_alarm{{policy="slate",kind="breach"}} {int(one["breached"])}' in lines
            await call.is_its_log()
            before = await call.digest()
        async with served(sqlite_address) as call:
            assert await call.digest() == before
            assert (await call.document())["metrics"] == found["metrics"]

    run(work)


def test_a_breach_may_let_every_decision_be_the_controls(address: str) -> None:
    async def work() -> None:
        async with served(address) as call:
            metric = {"name": "gone", "limit": {"ratio": 1.2}, "on_breach": "control"}
            await call.make(reward=REWARD, control=CONTROL, metrics=[metric])
            await _visits(call, 1000, 0.7)
            found = await call.document()
            assert (found["status"], found["lift"]["in_force"]) == ("control", "breach")
            assert {(await call.decide())["group"] for _ in range(10)} == {"control"}
            await call.patch("/v1/policies/slate", json={"status": "running"})
            found = await call.document()
            assert (found["status"], found["metrics"][0]["breached"]) == ("running", False)
            assert {(await call.decide())["group"] for _ in range(20)} == {"control", "policy"}
            await call.is_its_log()

    run(work)


def test_a_limit_by_itself_needs_no_control(address: str) -> None:
    async def work() -> None:
        async with served(address) as call:
            await call.make(metrics=[{"name": "gone", "limit": {"most": 0.1}}, {"name": "s", "limit": {"most": 1}}])
            made = await call.decide()
            assert "group" not in made
            seen = await _visits(call, 500, 0.5)
            assert not any(control for control, _ in seen)
            found = await call.document()
            assert found["lift"] is None
            assert [one["breached"] for one in found["metrics"]] == [False, False]  # the first decision is still open
            await call.reward(made["id"], {}, last=True)
            found = await call.document()
            assert [one["breached"] for one in found["metrics"]] == [True, False]
            assert [one["what"] for one in found["alarms"]] == ["gone"]
            await call.is_its_log()

    run(work)


def test_fates_of_metrics(address: str) -> None:
    async def work() -> None:
        async with served(address) as call:
            metrics = [{"name": "gone", "limit": {"most": 0.1}}, {"name": "s", "range": [0, 10], "limit": {"most": 5}}]
            await call.make(metrics=metrics)
            assert (await call.reward("v", metrics={"s": 2})).json()["fates"] == {"metrics.s": "orphan"}
            made = await call.decide(id="v")
            seen = (await call.get("/v1/policies/slate/decisions/v")).json()
            assert seen["rewards"] == {"metrics.s": {"": 2.0}}
            assert seen["status"] == "open"
            assert (await call.reward("v", metrics={"s": 2})).json()["fates"] == {"metrics.s": "duplicate"}
            assert (await call.reward("v", metrics={"s": 3})).status_code == 409
            for given, words in (
                ({"s": 11}, "metrics.s must lie in [0, 10], got 11"),
                ({"other": 1}, "metrics must be of those of the policy, gone, s, got other"),
            ):
                answer = await call.reward("v", hits=[], metrics=given)
                assert answer.status_code == 422
                assert words in answer.json()["detail"]
            told = await call.reward("v", hits=made["arms"][:1], metrics={"gone": 1})
            assert told.json()["fates"] == dict.fromkeys([*made["show"], "metrics.gone"], "applied")
            assert (await call.reward("v", metrics={"gone": 1})).json()["fates"] == {"metrics.gone": "duplicate"}
            # A 0 that is told with hits is told, and not one that hits fill in.
            await call.decide(id="u")
            await call.reward("u", hits=[], last=False, metrics={"gone": 1})
            assert (await call.reward("u", hits=[], metrics={"gone": 0})).status_code == 409
            await call.reward("u", hits=[], metrics={"s": 0})
            assert (await call.reward("u", metrics={"s": 4})).status_code == 409
            await call.decide(id="w")
            await call.reward("w", hits=[])
            assert (await call.reward("w", metrics={"gone": 1})).json()["fates"] == {"metrics.gone": "late"}
            trial = call.service.loops["slate"].state.trial
            assert [one.policy_mean for one in trial.guardrails] == [pytest.approx(2 / 3), pytest.approx(2 / 3)]
            await call.is_its_log()

    run(work)


@pytest.mark.parametrize(("rule", "mean"), [("sum", 5.0), ("last", 3.0)])
def test_several_of_a_metric_are_combined_by_the_rule(sqlite_address: str, rule: str, mean: float) -> None:
    async def work() -> None:
        async with served(sqlite_address) as call:
            metrics = [{"name": "s", "range": [0, 10], "limit": {"most": 9}}]
            await call.make(metrics=metrics, reward={"rule": rule, "default": 0}, control=CONTROL)
            for number in range(8):
                made = await call.decide(id=f"v{number}")
                await call.reward(f"v{number}", metrics={"s": 2}, id="a")
                await call.reward(f"v{number}", metrics={"s": 3}, id="b")
                if made["group"] == "control":
                    await call.reward(f"v{number}", total=0.5, id="a")
                    await call.reward(f"v{number}", total=1, id="b")
                await call.reward(f"v{number}", {}, last=True)
            found = await call.document()
            assert found["metrics"][0]["policy_mean"] == found["metrics"][0]["control_mean"] == mean
            assert found["lift"]["control_mean"] == (1.5 if rule == "sum" else 1.0)
            await call.is_its_log()

    run(work)


@pytest.mark.parametrize(
    ("metric", "words"),
    [
        ({"limit": {"ratio": 1.2}, "range": [1, 2], "default": 1}, "a ratio needs a range that starts at 0"),
        ({"limit": {}}, "one of ratio, difference and most must be given, got none"),
        ({"limit": {"ratio": 1, "most": 1}}, "one of ratio, difference and most must be given, got ratio, most"),
        ({"limit": {"most": 1}, "default": 2}, "metrics.gone.default must lie in [0, 1]"),
        ({"limit": {"most": 1}, "alpha": 0}, "alpha must be a number strictly between 0 and 1"),
        ({"limit": {"most": 1}, "range": [1, 1], "default": 1}, "must be"),
    ],
)
def test_what_metrics_refuse(sqlite_address: str, metric: dict[str, Any], words: str) -> None:
    async def work() -> None:
        async with served(sqlite_address) as call:
            body = {"name": "slate", "arms": ["tea", "milk"], "budget": 1, "reward": REWARD, "control": CONTROL}
            answer = await call.post("/v1/policies", json=body | {"metrics": [{"name": "gone", **metric}]})
            assert answer.status_code == 422
            assert words in answer.json()["detail"], answer.text

    run(work)


@pytest.mark.parametrize(
    ("metrics", "words"),
    [
        ([{"name": "gone", "limit": {"ratio": 1}}], "share must be given with ratio, which compares with the control"),
        ([{"name": "gone", "limit": {"most": 1}, "on_breach": "control"}], "on_breach must be tell where there is no"),
        ([{"name": "gone", "limit": {"most": 1}}] * 2, "metrics must have different names, got gone, gone"),
    ],
)
def test_what_metrics_refuse_without_a_control(sqlite_address: str, metrics: list[Any], words: str) -> None:
    async def work() -> None:
        async with served(sqlite_address) as call:
            body = {"name": "slate", "arms": ["tea", "milk"], "budget": 1, "metrics": metrics}
            answer = await call.post("/v1/policies", json=body)
            assert answer.status_code == 422
            assert words in answer.json()["detail"], answer.text
            await call.make()
            made = await call.decide()
            answer = await call.reward(made["id"], hits=[], metrics={"gone": 1})
            assert "metrics must be left out: the policy has none" in answer.json()["detail"]

    run(work)
