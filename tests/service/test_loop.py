"""The loop of a policy: snapshots beside requests, the check of the state against its log, numbers that cannot be."""

import asyncio
import time

import pytest

from armtriage.service import loop as loops
from armtriage.service.events import Expired
from service.calls import run, served

CONTEXTS = [[0.1 * arm, 0.3] for arm in range(5)]


async def _checked(loop, seq):
    """Wait until a check has come to an end, of a snapshot after this event or a later one."""
    async with asyncio.timeout(120):
        while loop.verified < seq and not loop.metrics.counts["slate"]["diverged"]:
            await asyncio.sleep(0.005)


async def _visit(call, number):
    made = await call.decide(id=f"v{number}")
    if number % 3:
        assert (await call.reward(made["id"], {made["arms"][0]: number % 2})).status_code == 200


def test_snapshots_are_written_and_checked_while_requests_go_on(address):
    async def work():
        async with served(address) as call:
            await call.make()
            loop = call.service.loops["slate"]
            for start in range(0, 120, 40):
                loop._worth, before = 30, loop.verified
                await asyncio.gather(*(_visit(call, number) for number in range(start, start + 40)))
                await _checked(loop, 1 + before)
            snapshots = await call.service.store.snapshots(loop.row.id)
            assert len(snapshots) >= 2
            assert loop.metrics.counts["slate"]["diverged"] == 0
            # What a snapshot holds is the state of its own event, though later groups were under way.
            from armtriage.service.loop import load
            from armtriage.service.state import PolicyState

            for one in snapshots:
                kept = PolicyState.from_bytes(loop.recipe, one.payload)
                assert kept.head == one.seq
            assert (await load(call.service.store, loop.row, snapshots=False)).digest() == (await call.digest())[
                "digest"
            ]
            text = (await call.get("/metrics")).text
            assert f'armtriage_verified_head{{policy="slate"}} {loop.verified}' in text

    run(work)


@pytest.mark.parametrize("spoilt", [1e-9, 1e9])
def test_a_state_that_is_not_its_log_is_noticed(sqlite_address, caplog, spoilt):
    async def work():
        async with served(sqlite_address) as call:
            await call.make()
            loop = call.service.loops["slate"]
            for number in range(10):
                await _visit(call, number)
            loop.state.policy.tally.sums[0] += spoilt  # nothing in the log says so
            await loop._save(*loop._frozen())
            await _checked(loop, loop.state.head)
            assert loop.verified == 0
            assert 'armtriage_replay_divergence_total{policy="slate"} 1' in (await call.get("/metrics")).text
            assert "is not what its log gives" in caplog.text

    run(work)


def test_a_check_rests_after_all_of_its_work(sqlite_address, monkeypatch):
    """Whatever it does in a thread counts, and while groups are under way it has a twentieth of the processor."""

    async def work():
        async with served(sqlite_address) as call:
            await call.make()
            loop, rest, beside = call.service.loops["slate"], loops.Loop._unhurried, loops._beside
            for number in range(10):
                await _visit(call, number)
            parts, threads = [], []

            async def part(self, work):
                parts.append(work)
                return await rest(self, work)

            async def thread(work, *given):
                threads.append(work)
                return await beside(work, *given)

            monkeypatch.setattr(loops.Loop, "_unhurried", part)
            monkeypatch.setattr(loops, "_beside", thread)
            await loop._save(*loop._frozen())
            await _checked(loop, loop.state.head)
            assert (len(parts), len(threads)) == (6, 7)  # one of the snapshot itself
            monkeypatch.setattr(loops, "_timed", lambda work: (work(), 0.01))
            took = []
            for busy in (False, True):
                loop._flying.extend([asyncio.get_running_loop().create_future()] * busy)
                began = time.monotonic()
                assert await rest(loop, lambda: 7) == 7
                took.append(time.monotonic() - began)
            loop._flying.clear()
            assert took[0] >= 0.01
            assert took[1] >= 0.19

    run(work)


@pytest.mark.parametrize(
    ("more", "request_of"), [({}, {}), ({"policy": {"kind": "c2ucb"}, "dimension": 2}, {"contexts": CONTEXTS})]
)
def test_a_request_that_breaks_the_numbers_is_refused_alone(sqlite_address, more, request_of, monkeypatch):
    """One request of a group makes the state unsound: it is not stored, the others are, and the state is the log's."""

    async def work():
        async with served(sqlite_address) as call:
            await call.make(**more)
            loop = call.service.loops["slate"]
            before = await call.decide(id="before", **request_of)
            kind = type(loop.state.policy)
            tell = kind.tell

            def poisoned(policy, decision, rewards, **how):
                tell(policy, decision, rewards, **how)
                if list(rewards.values()) == [0.625]:
                    state = policy._state.ridge.moment if "dimension" in more else policy.tally.sums
                    state[0] = float("nan")

            monkeypatch.setattr(kind, "tell", poisoned)
            decided = [loop.submit("decide", [_decide(f"v{number}", request_of)]) for number in range(5)]
            guilty = loop.submit("reward", _reward("before", {before["arms"][0]: 0.625}))
            answers = await asyncio.gather(*decided, guilty, return_exceptions=True)
            assert [answer.status for answer in answers[:5]] == [201] * 5
            assert (answers[5].status, answers[5].code) == (500, "unsound")
            assert loop.metrics.counts["slate"]["fault"] == 2  # once in company, once alone
            told = await call.reward("before", {before["arms"][0]: 1})
            assert told.json()["fates"] == {before["arms"][0]: "applied"}
            from armtriage.service.upkeep import check

            problems, states = await check(call.service.store)
            assert (problems, states["slate"]["head"]) == ([], 7)
            assert (await call.digest())["digest"] == states["slate"]["digest"]

    run(work)


def test_who_waits_when_a_policy_stops_in_trouble_is_told(sqlite_address, monkeypatch):
    async def work():
        async with served(sqlite_address) as call:
            await call.make()
            loop = call.service.loops["slate"]
            monkeypatch.setattr(type(loop.state.policy), "unsound", lambda policy: "all of it")
            futures = [loop.submit("decide", [_decide(f"v{number}", {})]) for number in range(3)]
            async with asyncio.timeout(120):
                await loop.stop()
            assert {one.exception().code for one in futures} <= {"busy", "unsound"}

    run(work)


def _decide(key, request):
    from armtriage.service.messages import Decide

    return Decide(id=key, **request)


def _reward(key, rewards):
    from armtriage.service.messages import Reward

    return Reward(decision=key, rewards=rewards)


def test_one_decision_that_stays_open_keeps_nothing_of_those_after_it(sqlite_address):
    async def work():
        async with served(sqlite_address) as call:
            await call.make()
            first, state = await call.decide(), call.service.loop("slate").state
            for _ in range(4):
                made = (await call.post("/v1/policies/slate/decisions/batch", json={"requests": [{}] * 600})).json()
                told = [{"decision": one["id"], "rewards": {}, "last": True} for one in made["decisions"]]
                await call.post("/v1/policies/slate/rewards/batch", json={"requests": told})
            assert list(state.open) == [first["id"]]
            assert state.oldest().number == 0
            await call.decide()
            assert len(state._queue) <= 2 * len(state.open) + 1000
            assert state.due(state.oldest().at + state.recipe.window, 1) == Expired(1)

    run(work)
