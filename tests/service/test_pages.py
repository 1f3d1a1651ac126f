"""Old logs, weights of places, cascades, floors among open arms, and control slates that are learned from."""

from __future__ import annotations

from typing import Any

import numpy as np
import pytest

from armtriage import GuardedThompson, OldLog, Policy, ThompsonSampling, evaluate
from armtriage.service import Client, read_log
from service.calls import SLATE, Caller, new_database, run, served
from service.journal import serving, until

NAMES = SLATE["arms"]
RATES = dict(zip(NAMES, [0.1, 0.2, 0.3, 0.6, 0.5], strict=True))
OLD = {"counts": {"tea": 400, "jam": 300}, "sums": {"tea": 40, "jam": 90}, "bias": 0.05}
WEIGHTS = [1, 0.5]
TRIED = {"share": 0.4, "key": "a secret of 16 bytes or more", "incumbent": ["jam", "tea"]}
KINDS: dict[str, dict[str, Any]] = {
    "old_log": {"old_log": OLD},
    "old_log, thompson": {"policy": {"kind": "thompson"}, "old_log": OLD | {"bias": {"tea": 0.02, "jam": 0.1}}},
    "places": {
        "policy": {"kind": "thompson"}, "positions": {"weights": WEIGHTS, "swaps": 0.5}, "reward": {"default": 0}
    },
    "learnt places": {"policy": {"kind": "thompson"}, "positions": {"weights": "learn"}},
    "places, at the end": {
        "policy": {"kind": "thompson"}, "positions": {"weights": WEIGHTS}, "reward": {"rule": "sum"}
    },
    "cascade": {"feedback": {"kind": "cascade"}},
    "cascade, in turn": {"feedback": {"kind": "cascade"}, "reward": {"default": 0}, "policy": {"kind": "thompson"}},
    "cascade with a floor": {"feedback": {"kind": "cascade"}, "policy": {"kind": "greedy", "logging_floor": 0.3}},
    "cascade with a control": {"feedback": {"kind": "cascade"}, "reward": {"default": 0}, "control": TRIED},
    "open floor": {"policy": {"kind": "guarded_thompson", "logging_floor": 0.3, "floor_arms": "open"}},
    "learning from the control": {"control": TRIED | {"learn": True}, "reward": {"default": 0}},
    "places, learning from the control": {
        "policy": {"kind": "thompson"}, "positions": {"weights": WEIGHTS}, "reward": {"default": 0},
        "control": TRIED | {"learn": True},
    },
    "cascade, learning from the control": {
        "feedback": {"kind": "cascade"}, "control": TRIED | {"learn": True}, "reward": {"default": 0}
    },
}  # fmt: skip


def told(made: dict[str, Any], cascade: bool, luck: np.random.Generator) -> dict[str, Any]:
    """Return what is told of a decision: clicks, of which a cascade has the first alone."""
    clicks = [name for name in made["show"] if luck.random() < RATES[name]]
    if made["number"] is None and luck.random() < 0.5:
        return {"total": len(clicks[:1] if cascade else clicks)}
    if cascade:
        return {"first": clicks[0] if clicks else None}
    return {"hits": clicks} if luck.random() < 0.7 else {"hits": clicks, "last": False}


async def visits(call: Caller, count: int, *, cascade: bool, first: int = 0) -> list[dict[str, Any]]:
    """Ask one by one and in batches, and tell most of it, in another order."""
    luck, made = np.random.default_rng(7 + first), list[dict[str, Any]]()
    for start in range(first, first + count, 20):
        keys = [f"visit-{number}" for number in range(start, start + 20)]
        asked = [{"id": key} | ({"exclude": ["egg"]} if number % 7 == 6 else {}) for number, key in enumerate(keys)]
        made += [await call.decide(**one) for one in asked[:3]]
        answer = await call.post("/v1/policies/slate/decisions/batch", json={"requests": asked[3:]})
        assert answer.status_code == 200, answer.text
        made += answer.json()["decisions"]
        for place in luck.permutation(20)[:17]:
            one = made[len(made) - 20 + place]
            answer = await call.reward(one["id"], **told(one, cascade, luck))
            assert answer.status_code == 200, answer.text
    return made


SHORT = ("old_log", "places", "cascade, in turn", "open floor", "cascade, learning from the control")


@pytest.mark.parametrize("kind", [one if one in SHORT else pytest.param(one, marks=pytest.mark.long) for one in KINDS])
def test_state_is_the_log_before_and_after_a_restart(sqlite_address: str, kind: str) -> None:
    """Snapshots in the middle, a replay and a second server's reading give the same digest, and decide the same."""
    recipe, cascade = KINDS[kind], "cascade" in kind

    async def work() -> None:
        async with served(sqlite_address) as call:
            await call.make(**recipe)
            made = await visits(call, 60, cascade=cascade)
            await call.is_its_log()
            before, document = await call.digest(), await call.document()
        async with served(sqlite_address) as call:
            assert await call.digest() == before
            made += await visits(call, 40, cascade=cascade, first=60)
            for number, one in enumerate(made[:40]):  # whatever came since, a retry has the same answer
                asked = {"id": one["id"]} | ({"exclude": ["egg"]} if number % 20 % 7 == 6 else {})
                assert await call.decide(**asked) == one
            await call.is_its_log()
            assert document["counts"]["decisions"] == 60

    run(work)


@pytest.mark.parametrize(
    "kind",
    [
        "places",
        *(pytest.param(one, marks=pytest.mark.long) for one in ("cascade, learning from the control", "old_log")),
    ],
)
def test_two_servers_have_one_state(postgres_server: str, kind: str) -> None:
    recipe, cascade = KINDS[kind], "cascade" in kind

    async def work() -> None:
        database = new_database(postgres_server)
        async with served(database) as one, served(database) as other:
            await one.make(**recipe)
            await until(lambda: "slate" in other.service.loops)
            await other.ready()
            for place in range(4):
                await visits((one, other)[place % 2], 20, cascade=cascade, first=20 * place)
            assert await one.digest() == await other.digest()
            await one.is_its_log()

    run(work)


@pytest.mark.parametrize("kind", ["cascade, learning from the control", pytest.param("places", marks=pytest.mark.long)])
def test_a_killed_server_goes_on(sqlite_address: str, kind: str) -> None:
    recipe, luck, cascade = KINDS[kind], np.random.default_rng(3), "cascade" in kind
    with serving(sqlite_address) as server, Client(server.url, deadline=60.0) as client:
        client.create(**SLATE, **recipe)
        made = [client.decide("slate", id=f"v{number}") for number in range(40)]
        for one in made[:30]:
            answer = client.request("POST", "/v1/policies/slate/decisions", {"id": one.id})
            client.request("POST", "/v1/policies/slate/rewards", {"decision": one.id} | told(answer, cascade, luck))
        digest = client.request("GET", "/v1/policies/slate/digest")
        server.kill()
    with serving(sqlite_address) as server, Client(server.url, deadline=60.0) as client:
        assert client.request("GET", "/v1/policies/slate/digest") == digest
        assert [client.decide("slate", id=f"v{number}") for number in range(40)] == made


def test_an_old_log_is_that_of_the_library(sqlite_address: str) -> None:
    async def work() -> None:
        async with served(sqlite_address) as call:
            await call.make(old_log=OLD)
            twin = GuardedThompson(5, budget=2, names=NAMES, seed=7, old_log=OldLog(**OLD))
            luck = np.random.default_rng(5)
            for _ in range(150):
                made, decision = await call.decide(), twin.ask()
                assert made["arms"] == list(decision.names)
                rewards = {name: float(luck.random() < RATES[name]) for name in made["arms"]}
                await call.reward(made["id"], rewards)
                twin.tell(decision, rewards)
            found = await call.document()
            assert found["old_log"] == {"rewards": 700, "bias": 0.05, "withdrawn": None}
            assert found["certificate"]["regret_bound"] == twin.certificate().regret_bound
            assert "old_log" not in found["config"]
            assert 'armtriage_alarm{policy="slate",kind="old_log"} 0' in (await call.get("/metrics")).text

    run(work)


def test_an_old_log_that_is_wrong_is_withdrawn_and_said_so(sqlite_address: str) -> None:
    async def work() -> None:
        async with served(sqlite_address) as call:
            wrong = {"counts": dict.fromkeys(NAMES, 5000), "sums": dict.fromkeys(NAMES, 4500), "bias": 0.01}
            await call.make(old_log=wrong)
            for _ in range(60):
                made = await call.decide()
                await call.reward(made["id"], hits=[])
            found = await call.document()
            assert 0 < found["old_log"]["withdrawn"] < 60
            assert [one["kind"] for one in found["alarms"]] == ["old_log"]
            assert "the old log was withdrawn" in found["certificate"]["text"].lower()
            assert 'kind="old_log"} 1' in (await call.get("/metrics")).text
            await call.is_its_log()
        async with served(sqlite_address) as call:
            assert [one["kind"] for one in (await call.document())["alarms"]] == ["old_log"]

    run(work)


@pytest.mark.parametrize("weights", [WEIGHTS, "learn"])
def test_places_are_those_of_the_library(sqlite_address: str, weights: Any) -> None:
    """The order of an answer is that of the library's `ranked`, swaps included, and is kept in the log."""

    async def work() -> None:
        async with served(sqlite_address) as call:
            await call.make(policy={"kind": "thompson"}, positions={"weights": weights, "swaps": 0.5})
            twin = ThompsonSampling(5, budget=2, names=NAMES, seed=7, positions=weights, position_swaps=0.5)
            luck = np.random.default_rng(5)
            for _ in range(200):
                made, decision = await call.decide(), twin.ask()
                assert made["arms"] == made["show"] == made["ranked"] == list(decision.ranked)
                clicks = {
                    name: float(luck.random() < weight * RATES[name])
                    for name, weight in zip(made["arms"], WEIGHTS, strict=True)
                }
                await call.reward(made["id"], clicks)
                twin.tell(decision, clicks)
            known = (await call.get(f"/v1/policies/slate/decisions/{made['id']}")).json()
            assert known["arms"] == known["show"] == made["arms"]
            found, places = await call.document(), twin.positions
            assert places is not None
            assert found["positions"]["weights"] == places.weights.tolist()
            assert found["positions"]["low"] == places.low.tolist()
            assert found["positions"]["learnt"] == (weights == "learn")
            arms = {one["id"]: one for one in (await call.get("/v1/policies/slate/arms")).json()["arms"]}
            lower, upper = twin._bounds(0.05)
            for arm, name in enumerate(NAMES):
                assert (arms[name]["low"], arms[name]["high"]) == (lower[arm], upper[arm])
                assert arms[name]["mean"] == pytest.approx(twin.tally.sums[arm] / twin._page().told[arm])
            text = found["certificate"]["text"]
            assert ("nothing can be certified" in text.lower()) == (weights == "learn")
            await call.is_its_log()

    run(work)
    with pytest.raises(ValueError, match="policy must be one without positions"):
        read_log(sqlite_address)


def test_weights_that_swaps_contradict_raise_an_alarm(sqlite_address: str) -> None:
    async def work() -> None:
        async with served(sqlite_address) as call:
            await call.make(policy={"kind": "thompson"}, positions={"weights": [1, 1], "swaps": 1})
            luck = np.random.default_rng(5)
            for _ in range(3):
                body = {"requests": [{}] * 400}
                made = (await call.post("/v1/policies/slate/decisions/batch", json=body)).json()["decisions"]
                rewards = [
                    {"decision": one["id"], "hits": one["arms"][: int(luck.random() < 0.8)]} for one in made
                ]  # fmt: skip
                await call.post("/v1/policies/slate/rewards/batch", json={"requests": rewards})
            found = await call.document()
            assert [one["kind"] for one in found["alarms"]] == ["positions"]
            assert 'kind="positions"} 1' in (await call.get("/metrics")).text
            await call.is_its_log()

    run(work)


@pytest.mark.parametrize("default", [None, 0])
def test_a_cascade_is_that_of_the_library(sqlite_address: str, default: float | None) -> None:
    async def work() -> None:
        async with served(sqlite_address) as call:
            await call.make(feedback={"kind": "cascade"}, reward={"default": default})
            twin = GuardedThompson(5, budget=2, names=NAMES, seed=7)
            luck = np.random.default_rng(5)
            for _ in range(150):
                made, decision = await call.decide(), twin.ask()
                assert made["arms"] == made["show"] == list(decision.ranked)
                clicks = [name for name in made["arms"] if luck.random() < RATES[name]]
                first = clicks[0] if clicks else None
                answer = await call.reward(made["id"], first=first)
                twin.tell_cascade(decision, first, in_turn=default is not None)
                seen = made["arms"] if first is None else made["arms"][: made["arms"].index(first) + 1]
                assert answer.json()["fates"] == dict.fromkeys(seen, "applied")
                assert answer.json()["open"] == []
            policy: Policy = call.service.loops["slate"].state.policy
            assert all(np.array_equal(*pair) for pair in zip(policy.tally, twin.tally, strict=True))
            assert (await call.document())["certificate"]["regret_bound"] == twin.certificate().regret_bound

    run(work)
    assert read_log(sqlite_address).certificate(budget=2).rounds == 150


def test_fates_of_first_clicks(sqlite_address: str) -> None:
    async def work() -> None:
        async with served(sqlite_address) as call:
            await call.make(feedback={"kind": "cascade"}, budget=3)
            a, b, c = (await call.decide(id="one"))["arms"]
            assert (await call.reward("one", first=b)).json()["fates"] == {a: "applied", b: "applied"}
            assert (await call.reward("one", first=b)).json()["fates"] == {a: "duplicate", b: "duplicate"}
            for other in (a, c, None):
                answer = await call.reward("one", first=other)
                assert (answer.status_code, answer.json()["error"]) == (409, "conflict")
            a, b, c = (await call.decide(id="two"))["arms"]
            for body, words in (
                ({"hits": [a]}, "tell first, the arm that was clicked first, or null"),
                ({"rewards": {a: 1}}, "tell first, the arm that was clicked first, or null"),
                ({"first": "rum"}, 'No arm is called "rum"'),
                ({"first": next(name for name in NAMES if name not in (a, b, c))}, "does not show"),
                ({"first": a, "hits": [a]}, "got hits and first"),
                ({"total": 1}, "total must be left out"),
            ):
                answer = await call.reward("two", **body)
                assert answer.status_code == 422, body
                assert words in answer.json()["detail"]
            assert (await call.reward("two", first=None)).json()["fates"] == dict.fromkeys((a, b, c), "applied")
            # A click that comes before its decision is held; those above it are known when that comes.
            assert (await call.reward("three", first="jam")).json()["fates"] == {"jam": "orphan"}
            made = await call.decide(id="three", eligible=["jam", "tea", "egg"])
            known = (await call.get("/v1/policies/slate/decisions/three")).json()
            above = made["arms"][: made["arms"].index("jam")]
            assert known["status"] == "closed"
            assert known["rewards"] == {name: {"": 0.0} for name in above} | {"jam": {"": 1.0}}
            # One that is given up is lost, and not seen.
            made = await call.decide(id="four")
            assert (await call.reward("four", {}, last=True)).json()["open"] == []
            assert (await call.reward("four", first=None)).json()["fates"] == dict.fromkeys(made["arms"], "late")
            await call.is_its_log()

    run(work)


def test_a_page_without_a_click_counts_when_its_time_is_over(sqlite_address: str) -> None:
    """Clicks that come at once count for intervals no sooner than the pages before them that had none."""

    async def work() -> None:
        async with served(sqlite_address) as call:
            await call.make(feedback={"kind": "cascade"}, reward={"default": 0}, join_window="2s")
            quiet = await call.decide(id="quiet")
            clicked = await call.decide(id="clicked")
            await call.reward("clicked", first=clicked["arms"][0])
            policy = call.service.loops["slate"].state.policy
            assert policy.tally.counts.sum() == 0
            await until(lambda: not policy.open_decisions)
            assert policy.tally.counts.sum() == 3
            assert policy.tally.sums.sum() == 1
            assert quiet["arms"]
            await call.is_its_log()

    run(work)


def test_totals_of_pages_count_first_clicks_alone(sqlite_address: str) -> None:
    async def work() -> None:
        async with served(sqlite_address) as call:
            await call.make(**KINDS["cascade with a control"])
            sums = {"policy": [0, 0], "control": [0, 0]}
            for number in range(60):
                made = await call.decide(id=f"v{number}")
                first = made["arms"][number % 2] if number % 3 else None
                answer = await call.reward(made["id"], first=first)
                assert answer.status_code == 200, answer.text
                sums[made["group"]][0] += 1
                sums[made["group"]][1] += first is not None
            lift = (await call.document())["lift"]
            assert lift["controls"] == sums["control"][0] > 5
            assert lift["policy_mean"] == pytest.approx(sums["policy"][1] / sums["policy"][0])
            assert lift["control_mean"] == pytest.approx(sums["control"][1] / sums["control"][0])

    run(work)


def test_a_floor_among_open_arms_says_its_probabilities(sqlite_address: str) -> None:
    async def work() -> None:
        async with served(sqlite_address) as call:
            await call.make(**KINDS["open floor"])
            options = {"logging_floor": 0.3, "floor_arms": "open"}
            twin = GuardedThompson(5, budget=2, names=NAMES, seed=7, **options)  # type: ignore[arg-type]
            for _ in range(60):
                made, decision = await call.decide(), twin.ask()
                assert made["arms"] == list(decision.names)
                assert made["propensity"]["inclusion"] == decision.inclusion.tolist()  # type: ignore[union-attr]
                rewards = {name: float(name in ("bread", "egg")) for name in made["arms"]}
                await call.reward(made["id"], rewards)
                twin.tell(decision, rewards)
            await call.is_its_log()

    run(work)
    assert evaluate(read_log(sqlite_address), target=["bread", "egg"]).rounds == 60


def test_the_policy_learns_from_what_the_control_shows(address: str) -> None:
    """Its state is that of a policy that recorded the control's slates, and the lift is what it is without."""

    async def work() -> None:
        async with served(address) as call:
            for name, learn in (("slate", True), ("blind", False)):
                await call.make(name=name, control=TRIED | {"learn": learn}, reward={"default": 0})
            twin, luck, controls = GuardedThompson(5, budget=2, names=NAMES, seed=7), np.random.default_rng(5), 0
            for number in range(120):
                made = await call.decide(id=f"v{number}")
                if made["group"] == "control":
                    controls += 1
                    assert made["arms"] == made["ranked"] == ["jam", "tea"] or sorted(made["arms"]) == ["jam", "tea"]
                    decision = twin.record(["tea", "jam"])
                else:
                    decision = twin.ask()
                assert made["number"] == decision.number
                assert sorted(made["arms"]) == sorted(decision.names)
                hits = [name for name in made["show"] if luck.random() < RATES[name]]
                assert (await call.reward(made["id"], hits=hits)).status_code == 200
                twin.tell(decision, {name: float(name in hits) for name in made["arms"]}, last=False)
                other = await call.decide("blind", id=f"v{number}")
                assert other["group"] == made["group"]
            assert controls > 20
            policy: Policy = call.service.loops["slate"].state.policy
            assert all(np.array_equal(*pair) for pair in zip(policy.tally, twin.tally, strict=True))
            assert policy.asked == 120
            found = (await call.document())["lift"]
            assert (found["decisions"], found["controls"]) == (120, controls)
            # Slates that the policy could not have made are not learned from.
            keys = [f"w{number}" for number in range(60)]
            asked = [
                {"id": key, "incumbent": ["jam"] if number % 2 else ["jam", "rum"]} for number, key in enumerate(keys)
            ]
            for one in asked:
                made = await call.decide(**one)
                if made["group"] == "control":
                    assert made["number"] is None
                    assert (await call.reward(made["id"], total=1)).status_code == 200
            made = next(
                one for one in [await call.decide(id=f"x{number}") for number in range(30)] if one["group"] == "control"
            )
            answer = await call.reward(made["id"], total=1)
            assert answer.status_code == 422
            assert "not learned from" in answer.json()["detail"]
            await call.is_its_log()

    run(work)


CASCADE = {"feedback": {"kind": "cascade"}}
THOMPSON = {"policy": {"kind": "thompson"}}


REFUSED: list[tuple[dict[str, Any], str]] = [
    ({"old_log": OLD | {"bias": -1}}, "bias must be 0 or more, got -1"),
    ({"old_log": OLD | {"sums": {"tea": 40, "jam": 301}}}, "sums of rewards within reward_range"),
    ({"old_log": OLD | {"sums": {"tea": 40}}}, "sums must have the arms that counts has, got ['tea']"),
    ({"old_log": {"counts": {"rum": 5}, "sums": {"rum": 1}, "bias": 0}}, 'old_log.counts has "rum"'),
    ({"old_log": OLD | {"counts": {"tea": 1.5, "jam": 3}}}, "Expected `int`"),
    ({"old_log": OLD, "policy": {"kind": "comb_ucb1"}}, "old_log must be left out: comb_ucb1 takes none"),
    ({"old_log": OLD, "policy": {"kind": "c2ucb"}, "dimension": 2}, "old_log must be left out: c2ucb takes none"),
    ({"positions": {"weights": WEIGHTS}}, "positions must be left out: guarded_thompson takes none"),
    ({"positions": {"weights": [1]}} | THOMPSON, "positions must be 2 weights from 1 falling, above 0, got"),
    ({"positions": {"weights": [1, 1.5]}} | THOMPSON, "positions must be 2 weights from 1 falling, above 0, got"),
    ({"positions": {"weights": [1, 0]}} | THOMPSON, "positions must be 2 weights from 1 falling, above 0, got"),
    ({"positions": {"weights": "guess"}} | THOMPSON, "guess"),
    ({"positions": {"weights": WEIGHTS, "swaps": 2}} | THOMPSON, "position_swaps must lie in [0, 1], got 2"),
    ({"positions": {"weights": WEIGHTS}, "old_log": OLD} | THOMPSON, "positions cannot be used with an old_log"),
    ({"positions": {"weights": WEIGHTS}, **CASCADE} | THOMPSON, "a cascade or position weights, not both"),
    (
        {"positions": {"weights": WEIGHTS}, "status": "observing", "reward": {"default": 0}} | THOMPSON,
        "status must not be observing where the order matters",
    ),
    (CASCADE | {"reward": {"range": [0, 2]}}, "reward must have the range [0, 1]"),
    (CASCADE | {"reward": {"rule": "sum"}}, 'got [0.0, 1.0], "maximize", "sum"'),
    (CASCADE | {"reward": {"default": 1}}, "reward.default must be 0 or null in a cascade, got 1"),
    (CASCADE | {"policy": {"kind": "c2ucb"}, "dimension": 2}, "feedback must be semi_bandit"),
    ({"policy": {"kind": "greedy", "floor_arms": "shut"}}, "floor_arms must be"),
]


def test_what_is_refused(sqlite_address: str) -> None:
    async def work() -> None:
        async with served(sqlite_address) as call:
            for more, words in REFUSED:
                answer = await call.post("/v1/policies", json=SLATE | more)
                assert answer.status_code == 422, more
                assert words in answer.json()["detail"], answer.text
            assert call.service.loops == {}

    run(work)


def test_first_is_for_cascades(sqlite_address: str) -> None:
    async def work() -> None:
        async with served(sqlite_address) as call:
            await call.make()
            made = await call.decide()
            answer = await call.reward(made["id"], first=made["arms"][0])
            assert answer.status_code == 422
            assert "first must be left out: it is for feedback of the kind cascade" in answer.json()["detail"]

    run(work)
