"""Observing: what another system shows is learnt, compared with what the policy would show, and taken over."""

from __future__ import annotations

import itertools
import json
import re
from pathlib import Path
from typing import Any

import numpy as np
import pytest

from armtriage import GuardedThompson, SlateLog, ThompsonSampling, evaluate, running_mean_bound
from armtriage.certificate import intervals_of
from armtriage.service import Client, read_log
from armtriage.service.keys import new_key
from armtriage.service.messages import RewardRule, Takeover
from armtriage.service.state import PolicyState
from armtriage.service.watch import Watch
from service.calls import SLATE, Caller, new_database, run, served
from service.journal import serving, until

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


async def _same_everywhere(call: Caller) -> None:
    """The state is what its log gives, and what its own bytes do."""
    loop = call.service.loops["slate"]
    again = PolicyState.from_bytes(loop.recipe, loop.state.to_bytes())
    assert again.digest() == (await call.digest())["digest"]
    await call.is_its_log()


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
            found = await call.document()
            assert found["status"] == "observing"
            assert found["observing"]["agreement"] == alike / 240
            kept = (await call.get("/v1/policies/slate/decisions/visit-7")).json()
            assert kept["would_show"] == made[7]["would_show"]
            await _same_everywhere(call)
            before = await call.digest()
        async with served(address) as call:
            assert await call.digest() == before
            assert (await call.document())["observing"] == found["observing"]

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
            found = (await call.document())["observing"]
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
                assert len(made) < len(slates), (await call.document())["observing"]
                made += await _watch(call, slates[len(made) : len(made) + 200], first=len(made))
            found = await call.document()
            assert found["status"] == "running"
            known, switched = found["observing"], found["observing"]["switched"]
            assert (known["weighted"]["gain_low"] if rule == "dr" else known["bracket"]["low"]) > 0.1
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
            assert (await call.document())["observing"]["switched"] == switched
            await _same_everywhere(call)
            before = await call.digest()
        async with served(address) as call:
            assert await call.digest() == before
            assert (await call.document())["observing"]["switched"] == switched

    run(work)


def test_an_admin_takes_over(sqlite_address: str) -> None:
    async def work() -> None:
        async with served(sqlite_address) as call:
            await call.make(**OBSERVING, control={"share": 0.5, "key": KEY})
            await _watch(call, _slates(20, swap=0.5), probabilities=False)
            found = (await call.document())["observing"]
            assert found["weighted"] is None
            assert found["bracket"]["low"] < found["bracket"]["high"]
            for status, expected in (("paused", "paused"), ("observing", "observing"), ("running", "running")):
                answer = await call.patch("/v1/policies/slate", json={"status": status})
                assert answer.json()["status"] == expected
            assert (await call.document())["lift"]["share"] == 0.5
            change = {"status": "running", "control": {"share": 0.9}, "window": "new"}
            assert (await call.patch("/v1/policies/slate", json=change)).status_code == 200
            again = await call.patch("/v1/policies/slate", json={"status": "observing"})
            assert (again.status_code, again.json()["error"]) == (422, "invalid")
            made = await call.decide(id="after")
            assert made["group"] in ("policy", "control")
            assert "would_show" not in made
            assert (await call.document())["lift"]["share"] == 0.9
            await _same_everywhere(call)

    run(work)


@pytest.mark.usefixtures("patient")
def test_two_servers_observe_one_system(postgres_server: str) -> None:
    """Whichever is told, the estimates and the switch are the same at both."""

    async def work() -> None:
        database = new_database(postgres_server)
        async with served(database) as one, served(database) as other:
            await one.make(**OBSERVING, takeover={"by": "dr", "margin": 0.1}, control={"share": 0.5, "key": KEY})
            await until(lambda: "slate" in other.service.loops)
            await other.ready()
            slates, made = _slates(4000, swap=0.9), list[dict[str, Any]]()
            while not made or "would_show" in made[-1]:
                call = (one, other)[len(made) // 100 % 2]
                made += await _watch(call, slates[len(made) : len(made) + 100], first=len(made))
            assert await one.digest() == await other.digest()
            assert (await one.document())["observing"] == (await other.document())["observing"]
            assert {(await call.document())["status"] for call in (one, other)} == {"running"}

    run(work)


def test_a_watched_decision_counts_in_the_order_of_asking(sqlite_address: str) -> None:
    """Rewards told in another order, or never, give the same estimates: a decision without any counts the default."""

    async def work() -> None:
        found = []
        async with served(sqlite_address) as call:
            for name, order in (("one", 1), ("other", -1)):
                await call.make(**OBSERVING, name=name)
                slates = _slates(40, swap=0.6)
                for at, (slate, q) in enumerate(slates):
                    await call.decide(name, id=f"v{at}", shown=slate, inclusion=q)
                for at, (slate, _) in list(enumerate(slates))[::order]:
                    given: dict[str, Any] = {"hits": slate[:1]} if at % 3 else {"rewards": {}, "last": True}
                    assert (await call.reward(f"v{at}", name=name, **given)).status_code == 200
                watch = call.service.loops[name].state.watch
                found.append((watch.counted, watch.weighted, watch._earned, watch._robust, watch._capital.tolist()))
        assert found[0] == found[1]
        assert found[0][:3] == (40, 40, 26.0)

    run(work)


@pytest.mark.parametrize("direction", ["maximize", "minimize"])
def test_the_bracket_is_below_the_gain_of_every_slate_and_chosen_best(direction: str) -> None:
    """With boxes that hold, for 40 random logs; the chosen slate has the largest bound of all."""
    luck = np.random.default_rng(5)
    for _ in range(40):
        reward = RewardRule(range=(-1.0, 3.0), default=0.0, direction=direction)
        policy = GuardedThompson(5, budget=2, seed=1, reward_range=(-1.0, 3.0), direction=direction)
        watch, means = Watch(None, reward, 2), luck.uniform(-1.0, 3.0, 5)
        chances = luck.dirichlet(np.ones(5))
        shows = np.zeros(5)
        for number in range(int(luck.integers(1, 60))):
            arms = np.sort(luck.choice(5, 2, replace=False, p=chances))
            watch.opened(f"v{number}", arms.tolist(), [0, 1], None)
            policy.tell(policy.record(arms), means[arms])
            shows[arms] += 1.0
        found = watch.bracket(policy)
        bounds = intervals_of(policy.tally, 5, watch.delta)
        share, sign = shows / watch.asked, 1.0 if direction == "maximize" else -1.0

        def low(slate: tuple[int, ...], share: Any = share, bounds: Any = bounds) -> float:
            change = np.isin(np.arange(5), slate) - share
            return 4.0 * float(np.minimum(change * bounds.lower, change * bounds.upper).sum())

        assert found is not None
        for slate in itertools.combinations(range(5), 2):
            gain = sign * (means[list(slate)].sum() - share @ means)
            assert low(slate) <= gain + 1e-12
            assert low(slate) <= found.low + 1e-12
        assert found.low == pytest.approx(low(tuple(found.arms)))
        assert found.low <= sign * (means[found.arms].sum() - share @ means) <= found.high


def test_the_bound_is_that_of_the_library() -> None:
    """A slow twin: each decision's estimate and centre from the whole past, and `running_mean_bound` of them."""
    luck, slates = np.random.default_rng(2), _slates(200, swap=0.8)
    watch, past = Watch(None, RewardRule(range=(-1.0, 1.0), default=0.0), 2), list[dict[str, float]]()
    values, centres = [], []
    for number, (slate, q) in enumerate(slates):
        would = [str(name) for name in luck.choice(NAMES, 2, replace=False)]
        told = {name: float(luck.random() < MEANS[name]) for name in slate}
        numbers = sorted(map(NAMES.index, slate)), sorted(map(NAMES.index, would))
        watch.opened(str(number), *numbers, [q[NAMES[arm]] for arm in numbers[1]])
        watch.closed(str(number), {NAMES.index(name): 2.0 * value - 1.0 for name, value in told.items()})
        value, centre = -sum(told.values()), -sum(sum(one.values()) for one in past) / (len(past) + 1)
        for name in would:
            looks = [one[name] for one in past if name in one]
            mean = (sum(looks) + 0.5) / (len(looks) + 1) if q[name] >= 0.5 else 0.0
            value += mean + (told[name] - mean) / q[name] if name in told else mean
            centre += mean
        values.append(value)
        centres.append(centre)
        past.append(told)
        if number % 10 == 9:
            expected = max(running_mean_bound(values, centres, scale=6.0, alpha=0.05), -2.0)
            assert watch.gain_low() == pytest.approx(2.0 * expected, rel=1e-9)


def test_wrong_probabilities_are_seen_by_an_evaluation(sqlite_address: str) -> None:
    async def work() -> None:
        async with served(sqlite_address) as call:
            await call.make(**OBSERVING)
            right = _slates(1000, swap=0.6)
            await _watch(call, [(slate, dict(zip(q, [0.4, 0.4, 0.4, 0.4, 0.4], strict=True))) for slate, q in right])

    run(work)
    assert "The probabilities do not match the log" in str(evaluate(read_log(sqlite_address, "slate"), ["tea", "milk"]))
    found = evaluate(read_log(sqlite_address, "slate"), ["tea", "milk"]).calibration_z
    assert found is not None
    assert abs(found) > 4.0


def _runs(count: int, length: int, best: float) -> tuple[int, int]:
    """Return in how many runs the rule is ever due, and in how many the bound is ever above what it bounds."""
    switched = failed = 0
    for run_number in range(count):
        luck = np.random.default_rng(run_number)
        reward = RewardRule(default=0.0)
        watch = Watch(Takeover(by="dr"), reward, 2)
        policy = ThompsonSampling(5, budget=2, seed=run_number)
        means = np.array([0.1, 0.1, 0.1, 0.1, best])
        gains, missed, due = 0.0, False, False
        for number in range(length):
            swaps = luck.random() < 0.3
            arms = [0, 1]
            if swaps:
                arms[luck.integers(2)] = int(luck.integers(2, 5))
            arms.sort()
            would = watch.would_show(policy, np.ones(5, np.bool_))
            q = np.array([0.85, 0.85, 0.1, 0.1, 0.1])
            watch.opened(f"v{number}", arms, would, q[would].tolist())
            rewards = (luck.random(2) < means[arms]).astype(float)
            policy.tell(policy.record(arms), rewards)
            watch.closed(f"v{number}", dict(zip(arms, rewards.tolist(), strict=True)))
            gains += float(means[would].sum() - q @ means)
            if number % 20 == 19:
                missed = missed or watch.gain_low() > gains / (number + 1)
                due = due or watch.is_due(policy)
        switched += due
        failed += missed
    return switched, failed


def test_probabilities_bound_the_gain_at_all_times() -> None:
    """100 runs without a difference, at most 5% of which may ever switch or miss: more than 11 with probability 0.004.

    With an arm that earns seven times as much, most runs switch.
    """
    switched, failed = _runs(100, 400, best=0.1)
    assert max(switched, failed) <= 11
    switched, failed = _runs(20, 1500, best=0.7)
    assert switched >= 15
    assert failed <= 4


REFUSED = [
    ({"reward": {}}, "observing needs reward.default"),
    ({"status": "running", "takeover": {"by": "dr"}}, 'takeover must be left out unless status is "observing"'),
    ({"takeover": {"by": "dr", "delta": 1}}, "takeover.delta must lie strictly between 0 and 1, got 1.0"),
    ({"takeover": {"by": "dr", "control": 0.9}}, "the policy has no control group"),
    (
        {"takeover": {"by": "dr", "control": 1}, "control": {"share": 0.5}},
        "takeover.control must lie strictly between 0 and 1, got 1.0",
    ),
    (
        {"budget": None, "decisions": {"kind": "knapsack", "weights": [1] * 5, "capacity": 2}, "policy": {}},
        "over a set of decisions",
    ),
    (
        {"policy": {"kind": "c2ucb"}, "dimension": 2, "takeover": {"by": "bracket"}},
        "boxes are for arms without contexts",
    ),
    ({"status": "watching"}, "accepted are observing, running"),
]
REQUESTS = [
    ({}, "shown_missing", "does not say what is shown"),
    ({"shown": ["tea"]}, "invalid", "shown must have 2 different arms"),
    ({"shown": ["tea", "tea"]}, "invalid", 'shown must have different names, got "tea" twice'),
    ({"shown": ["tea", "fish"]}, "unknown_arm", "fish"),
    ({"shown": ["tea", "milk"], "exclude": ["tea"]}, "invalid", 'shown must have arms that are eligible, got "tea"'),
    ({"shown": ["tea", "milk"], "incumbent": ["tea"]}, "invalid", "incumbent must be left out"),
    ({"shown": ["tea", "milk"], "inclusion": {"tea": 0, "milk": 1}}, "invalid", 'got 0.0 for "tea"'),
    ({"shown": ["tea", "milk"], "inclusion": {"tea": 0.5, "milk": 1.5}}, "invalid", 'got 1.5 for "milk"'),
    ({"shown": ["tea", "milk"], "inclusion": {"tea": 1, "jam": 1}}, "invalid", 'got none for "milk"'),
    ({"shown": ["tea", "milk"], "inclusion": {"tea": 1, "milk": 0.5}}, "invalid", "must sum to 2, how many arms"),
    ({"shown": ["tea", "milk"], "inclusion": {"tea": 1, "fish": 1}}, "unknown_arm", "fish"),
]


def test_what_is_refused_changes_nothing(sqlite_address: str) -> None:
    async def work() -> None:
        async with served(sqlite_address) as call:
            for more, says in REFUSED:
                body = {name: value for name, value in (SLATE | OBSERVING | more).items() if value is not None}
                answer = await call.post("/v1/policies", json=body)
                assert (answer.status_code, says in answer.json()["detail"]) == (422, True), answer.text
            await call.make(**OBSERVING, control={"share": 0.5, "key": KEY})
            before = await call.digest()
            for body, code, says in REQUESTS:
                answer = await call.post("/v1/policies/slate/decisions", json=body)
                assert (answer.status_code, answer.json()["error"]) == (422, code), answer.text
                assert says in answer.json()["detail"], answer.text
            assert await call.digest() == before
            await call.make(name="plain")
            for given in ({"shown": ["tea", "milk"]}, {"inclusion": {"tea": 1, "milk": 1}}):
                answer = await call.post("/v1/policies/plain/decisions", json=given)
                assert (answer.status_code, answer.json()["error"]) == (422, "invalid")
            answer = await call.patch("/v1/policies/plain", json={"status": "observing"})
            assert (answer.status_code, answer.json()["error"]) == (422, "invalid")

    run(work)


def test_a_policy_with_contexts_observes(sqlite_address: str) -> None:
    async def work() -> None:
        async with served(sqlite_address) as call:
            await call.make(**OBSERVING | {"policy": {"kind": "c2ucb"}}, dimension=5)
            rows = np.eye(5).tolist()
            for number in range(30):
                slate = [NAMES[number % 5], NAMES[(number + 1) % 5]]
                made = await call.decide(id=f"v{number}", shown=slate, contexts=rows)
                await call.reward(made["id"], hits=[name for name in slate if name in ("jam", "egg")])
            assert made["would_show"] == ["jam", "egg"]
            found = (await call.document())["observing"]
            assert found["bracket"] is None
            assert found["weighted"] is None
            await _same_everywhere(call)

    run(work)


def test_the_recipe_does_what_it_says(sqlite_address: str, capsys: pytest.CaptureFixture[str]) -> None:
    page = (Path(__file__).parents[2] / "docs" / "watch-then-take-over.md").read_text(encoding="utf-8")
    parts = re.findall(r"```python\n(.*?)```\n```text\n(.*?)```", page, re.DOTALL)
    assert len(parts) == page.count("```python") == 3
    names: dict[str, Any] = {}
    with serving(sqlite_address) as server:
        for code, says in parts:
            exec(code.replace("http://127.0.0.1:8000", server.url), names)
            assert capsys.readouterr().out.split() == says.split()
        names["client"].close()


def test_the_switch_names_the_key_that_made_it(sqlite_address: str) -> None:
    async def work() -> None:
        async with served(sqlite_address) as call:
            text, row = new_key(["admin", "read", "decide", "reward"], "shop desk")
            await call.service.store.put_key(row)
            call.service.access.update(await call.service.store.keys())
            call.headers["authorization"] = f"Bearer {text}"
            await call.make(**OBSERVING)
            await call.patch("/v1/policies/slate", json={"status": "running"})
            found = (await call.document())["observing"]["switched"]
            assert (found["by"], found["rule"]) == (f"shop desk at_{row.id}", "")

    run(work)


def test_a_killed_server_goes_on_observing(sqlite_address: str) -> None:
    """Answers that were acknowledged before kill -9 are the same after it, and so is what they add up to."""
    slates = _slates(60, swap=0.6)
    body = {**SLATE, **OBSERVING, "takeover": {"by": "dr", "margin": 1.5}}
    asked = [{"id": f"v{at}", "shown": slate, "inclusion": q} for at, (slate, q) in enumerate(slates)]
    path = "/v1/policies/slate"
    with serving(sqlite_address) as server, Client(server.url, deadline=60.0) as client:
        client.create(**body)
        before = [client.request("POST", f"{path}/decisions", one) for one in asked]
        for one in before[:40]:
            client.request("POST", f"{path}/rewards", {"decision": one["id"], "hits": one["arms"][:1]})
        digest = client.request("GET", f"{path}/digest")
        server.kill()
    with serving(sqlite_address) as server, Client(server.url, deadline=60.0) as client:
        until_now = [client.request("POST", f"{path}/decisions", one) for one in asked]
        assert until_now == before
        assert client.request("GET", f"{path}/digest") == digest
        found = client.policy("slate")["observing"]
        assert (found["decisions"], found["waiting"], found["weighted"]["decisions"]) == (60, 20, 40)
