"""Groups of requests: what takes long succeeds, what fails fails alone, and what is due is closed in portions."""

import asyncio
import hashlib
import os
import sqlite3
import threading
import time

import pytest

from armtriage.service import crash
from armtriage.service import loop as loops
from armtriage.service.events import EXPIRE
from armtriage.service.loop import load
from armtriage.service.messages import Decide, Reward
from armtriage.service.stores import SqliteStore, StoreError, open_store
from armtriage.service.upkeep import check
from conftest import score
from service.calls import run, served

WINDOW = 60_000_000
PAIRS = {"kind": "explicit", "decisions": [[0, 1], [2, 3]]}


def _later(address, ahead=2 * WINDOW):
    """Return a store whose clock is ahead, so that the time of all decisions has passed."""
    kind = type(open_store(address))

    class Later(kind):  # type: ignore[misc, valid-type]
        async def begin(self, *given):
            group = await super().begin(*given)
            group.now += ahead
            return group

    return Later(address)


@pytest.mark.parametrize(("due", "portion"), [(2000, 100), pytest.param(100_000, 1000, marks=pytest.mark.long)])
def test_many_that_are_due_are_closed_in_portions_and_requests_go_between(address, monkeypatch, due, portion):
    """A group that closed all of them would hold the log for longer than the database lets it."""
    monkeypatch.setattr(loops, "PORTION", portion)

    async def work():
        async with served(address) as call:
            await call.make(join_window="1m", reward={"default": 0})
            for _ in range(due // 1000):
                made = await call.post("/v1/policies/slate/decisions/batch", json={"requests": [{}] * 1000})
                assert made.status_code == 200
        async with served(_later(address)) as call:
            state = call.service.loops["slate"].state
            made = await call.decide(id="between")
            assert len(state.open) > due // 2  # it did not wait for all the others
            async with asyncio.timeout(300):
                while len(state.open) > 1:
                    await asyncio.sleep(0.01)
            assert list(state.open) == ["between"]
            told = await call.reward("between", {made["arms"][0]: 1}, last=True)
            assert told.json()["fates"] == {made["arms"][0]: "applied"}
            assert (await call.counts())["expired"] == due
            store, row = call.service.store, call.service.loops["slate"].row
            portions = [one for one in await store.read(row.id, due, 500) if one.kind == EXPIRE]
            assert len(portions) == due // portion
            assert (await load(store, row, snapshots=False)).digest() == (await call.digest())["digest"]
            score("decisions due at once at a start", due, "closed in portions, requests answered between them")

    run(work)


@pytest.mark.skipif(os.name != "posix", reason="forks are those of POSIX")
@pytest.mark.parametrize("count", [3, *(pytest.param(count, marks=pytest.mark.long) for count in range(1, 20, 2))])
@pytest.mark.parametrize("point", ["after-insert", "after-commit", "after-apply"])
def test_a_server_that_dies_between_portions_goes_on_where_it_was(sqlite_address, monkeypatch, point, count):
    monkeypatch.setattr(loops, "PORTION", 20)

    async def make():
        async with served(sqlite_address) as call:
            await call.make(join_window="1m", reward={"default": 0})
            await call.post("/v1/policies/slate/decisions/batch", json={"requests": [{}] * 500})

    async def close():
        async with served(_later(sqlite_address)) as call:
            state = call.service.loops["slate"].state
            await call.digest()  # a turn, in which the loop sees the store's clock
            async with asyncio.timeout(300):
                while state.open:
                    await asyncio.sleep(0.01)
            assert (await call.counts())["expired"] == 500
            problems, states = await check(call.service.store)
            assert (problems, states["slate"]["head"]) == ([], 525)
            assert (await call.digest())["digest"] == states["slate"]["digest"]

    run(make)
    child = os.fork()
    if not child:
        crash._AT, crash._left = point, count
        try:
            asyncio.run(close())
        finally:
            os._exit(0)
    assert os.waitstatus_to_exitcode(os.waitpid(child, 0)[1]) == 137
    run(close)
    score("servers that died between two portions of what was due", 1, "all closed once, replayed digest equal")


@pytest.mark.parametrize("slow", ["all of it", "each"])
def test_a_group_that_takes_longer_than_a_database_waits_succeeds(address, monkeypatch, slow):
    """It works beside the event loop, and shows that it lives: other policies are answered meanwhile."""

    async def work():
        async with served(address) as call:
            await call.make()
            await call.make(name="other")
            loop = call.service.loops["slate"]
            kind = type(loop.state.policy)
            ask, answered = kind.ask, threading.Semaphore(0)

            def slowly(policy, *given, **how):
                if policy is loop.state.policy:
                    time.sleep(0.002 if slow == "each" else 2.0 * (policy.asked == 500))
                    if policy.asked == 900:
                        for _ in range(20):
                            assert answered.acquire(timeout=60), "other policies had to wait for the group"
                return ask(policy, *given, **how)

            monkeypatch.setattr(kind, "ask", slowly)
            loop._pace = loops._LONG  # as arms by the thousand would have made it
            body = {"requests": [{"id": f"v{number}"} for number in range(1000)]}
            long = asyncio.ensure_future(call.post("/v1/policies/slate/decisions/batch", json=body, timeout=120))
            while not long.done():
                await call.decide("other")
                answered.release()
            assert (await long).status_code == 200, (await long).text
            assert loop.state.decided == 1000
            assert loop.metrics.counts["slate"]["fault"] == 0

    run(work)


def test_groups_that_land_while_another_works_are_not_forgotten(sqlite_address):
    """The same id in a group under way and in one that works beside the event loop is one decision."""

    async def work():
        async with served(sqlite_address) as call:
            await call.make()
            loop = call.service.loops["slate"]
            for round_ in range(30):
                loop._pace = loops._LONG * (round_ % 2)
                first = [loop.submit("decide", [Decide(id=f"r{round_}-{n}")]) for n in range(300)]
                again = [loop.submit("decide", [Decide(id=f"r{round_}-{n}")]) for n in range(300)]
                one, other = await asyncio.gather(*first), await asyncio.gather(*again)
                assert [made.body for made in one] == [made.body for made in other]
            assert loop.state.decided == 9000

    run(work)


def test_retiring_what_leaves_no_decision_is_refused(address):
    async def work():
        async with served(address) as call:
            given = {"name": "pairs", "arms": ["a", "b", "c", "d"], "decisions": PAIRS, "seed": 7}
            assert (await call.post("/v1/policies", json=given)).status_code == 201
            await call.ready()
            path = "/v1/policies/pairs/arms"
            for retire, status in ((["a", "c"], 422), (["a"], 200), (["d"], 422)):
                answer = await call.patch(path, json={"retire": retire})
                assert answer.status_code == status, answer.text
                assert status == 200 or "one decision of the set" in answer.json()["detail"]
            assert (await call.decide("pairs"))["arms"] == ["c", "d"]
            answer = await call.patch(path, json={"retire": ["d"], "restore": ["a"]})
            assert answer.status_code == 200
            assert (await call.decide("pairs"))["arms"] == ["a", "b"]

    run(work)


def test_a_log_that_has_retired_too_much_answers_and_can_be_mended(sqlite_address, monkeypatch):
    """Earlier versions accepted that, and then each request for a decision was a fault."""
    from armtriage.service.state import PolicyState

    async def work():
        async with served(sqlite_address) as call:
            given = {"name": "pairs", "arms": ["a", "b", "c", "d"], "decisions": PAIRS, "seed": 7}
            assert (await call.post("/v1/policies", json=given)).status_code == 201
            await call.ready()
            first = await call.decide("pairs")
            with monkeypatch.context() as patched:
                patched.setattr(PolicyState, "can_decide", lambda state, mask: True)
                answer = await call.patch("/v1/policies/pairs/arms", json={"retire": ["a", "c"]})
                assert answer.status_code == 200
            call.service.loops["pairs"].state._name_arms()
            refused = await call.post("/v1/policies/pairs/decisions", json={})
            assert (refused.status_code, refused.json()["error"]) == (422, "nothing_eligible")
            told = await call.reward(first["id"], {first["arms"][0]: 1}, "pairs")
            assert told.status_code == 200
            assert (await call.patch("/v1/policies/pairs/arms", json={"restore": ["a"]})).status_code == 200
            assert (await call.decide("pairs"))["arms"] == ["a", "b"]
            assert call.service.metrics.counts["pairs"]["fault"] == 0

    run(work)


def test_a_request_that_fails_fails_alone(address, monkeypatch):
    """Whatever a request makes the program raise, the others of its group are answered, and none of them is lost."""

    async def work():
        async with served(address) as call:
            await call.make()
            loop = call.service.loops["slate"]
            before = await call.decide(id="before")
            kind = type(loop.state.policy)
            tell = kind.tell

            def odd(policy, decision, rewards, **how):
                tell(policy, decision, rewards, **how)
                if list(rewards.values()) == [0.625]:
                    raise ZeroDivisionError("a fault of ours")

            monkeypatch.setattr(kind, "tell", odd)
            asked = [loop.submit("decide", [Decide(id=f"v{number}")]) for number in range(5)]
            guilty = loop.submit("reward", Reward(decision="before", rewards={before["arms"][0]: 0.625}))
            later = [loop.submit("decide", [Decide(id=f"w{number}")]) for number in range(5)]
            answers = await asyncio.gather(*asked, *later, guilty, return_exceptions=True)
            assert [answer.status for answer in answers[:10]] == [201] * 10
            assert (answers[10].status, answers[10].code) == (500, "internal")
            problems, states = await check(call.service.store)
            assert (problems, states["slate"]["head"]) == ([], 11)
            assert (await call.digest())["digest"] == states["slate"]["digest"]

    run(work)


def _damage(address, whole):
    """Write over pages of the newest snapshot in the file, or of the table itself."""
    connection = sqlite3.connect(address)
    connection.execute("PRAGMA wal_checkpoint(TRUNCATE)")
    roots = [page for (page,) in connection.execute("SELECT rootpage FROM sqlite_schema WHERE tbl_name = 'snapshot'")]
    size = connection.execute("PRAGMA page_size").fetchone()[0]
    (payload,) = connection.execute("SELECT payload FROM snapshot ORDER BY seq DESC").fetchone()
    connection.close()
    with open(address, "r+b") as file:
        content = file.read()
        # The first four bytes of a page that holds the middle of a long row name the next one.
        middle = content.index(payload[len(payload) // 2 :][:64]) // size
        for page in [root - 1 for root in roots] if whole else [middle]:
            file.seek(page * size)
            file.write(b"\xff\xff\xff\xff")


@pytest.mark.parametrize("whole", [False, True])
def test_a_policy_whose_snapshots_cannot_be_read_is_served_from_its_log(sqlite_address, caplog, whole):
    async def work():
        async with served(sqlite_address) as call:
            # Names that do not compress: the snapshot must have pages of its own.
            await call.make(arms=[hashlib.sha256(b"%d" % number).hexdigest() for number in range(500)])
            for number in range(20):
                await call.decide(id=f"v{number}")
            before = await call.digest()
        _damage(sqlite_address, whole)
        store = SqliteStore(sqlite_address)
        async with served(store) as call:
            if whole:
                with pytest.raises(StoreError, match="malformed"):
                    await store.snapshots(1)
            else:
                assert [one.whole for one in await store.snapshots(1)] == [False]
            assert await call.digest() == before
            assert "A snapshot cannot be used" in caplog.text
            await call.decide(id="after")
            problems, _ = await check(store)
            assert any("snapshot" in one for one in problems)

    run(work)
    if whole:
        assert "snapshot" in [getattr(one, "facts", {}).get("during") for one in caplog.records]


@pytest.mark.usefixtures("patient")
def test_open_decisions_are_limited_by_what_they_take(address, monkeypatch):
    """A million of them may be little, or more than there is: those with eligible arms take more than plain ones."""
    from armtriage.service import step
    from armtriage.service.state import PLAIN

    async def work():
        names = [f"arm-{number}" for number in range(20_000)]
        async with served(address) as call:
            await call.make(arms=names)
            state = call.service.loops["slate"].state
            path = "/v1/policies/slate/decisions/batch"
            assert (await call.post(path, json={"requests": [{}] * 20})).status_code == 200
            assert state.held < 20 * 2 * PLAIN
            few = state.held
            alike = {"requests": [{"exclude": names[:1], "id": f"a{number}"} for number in range(20)]}
            assert (await call.post(path, json=alike)).status_code == 200
            assert state.held < few + 20 * 2 * PLAIN + 20_000  # they share what is eligible
            few = state.held
            some = {"requests": [{"exclude": [names[number]], "id": f"e{number}"} for number in range(1, 21)]}
            assert (await call.post(path, json=some)).status_code == 200
            each = (state.held - few) // 20
            assert each > 20_000 // 8
            monkeypatch.setattr(step, "MOST_HELD", state.held + 30_000)
            many = {"requests": [{"exclude": [names[number]]} for number in range(30, 50)]}
            refused = await call.post(path, json=many)
            assert (refused.status_code, refused.json()["error"]) == (503, "too_many_open")
            assert len(state.open) == 60
            for number in range(1, 21):
                assert (await call.reward(f"e{number}", {}, last=True)).status_code == 200
            assert state.held == few
            assert (await call.post(path, json=some | {"requests": many["requests"][:1]})).status_code == 200
            held = state.held
            for slow in (5.0, 0.0):  # from the log, and from a snapshot
                monkeypatch.setattr(loops, "_SLOW", slow)
                store, row = call.service.store, call.service.loops["slate"].row
                assert (await load(store, row)).held == held

    run(work)


def test_work_that_took_long_is_not_done_again_after_a_crash(address, monkeypatch):
    """A few decisions may take longer than ten thousand others: a snapshot comes by the work, too."""
    monkeypatch.setattr(loops, "_SLOW", 0.0)

    async def work():
        async with served(address) as call:
            await call.make()
            loop = call.service.loops["slate"]
            for number in range(3):
                await call.decide(id=f"v{number}")
                if loop._saving is not None:
                    await loop._saving
            assert loop._snapshot_at >= 1  # the next comes after ten times the work that this one was
            assert (await call.service.store.snapshots(loop.row.id))[0].seq >= 1

    run(work)


@pytest.mark.usefixtures("patient")
def test_large_events_are_read_in_pages_of_bytes(address):
    from armtriage.service.events import DECISION, Event
    from armtriage.service.stores import Write

    async def work():
        store = open_store(address)
        await store.open()
        try:
            row = await store.create("large", b"{}", 0)
            large = [Event(seq, DECISION, f"d{seq}", 0, seq - 1, 0, bytes(9_000_000)) for seq in (1, 2, 3)]
            await (await store.begin(row.id, 0, [])).commit(Write(large, [], [], {}, 0))
            sizes, seq = [], 0
            while some := await store.read(row.id, seq, 1000):
                sizes.append(len(some))
                seq = some[-1].seq
            assert sizes == [2, 1]
            group = await store.begin(row.id, 3 if address.startswith("/") else 0, [])
            assert (group.head, len(group.missed)) == (3, 0 if address.startswith("/") else 2)
            await group.leave()
        finally:
            await store.close()

    run(work)


def test_exports_have_pages_of_bytes(sqlite_address, monkeypatch):
    import io

    from armtriage.service import parquet

    pl = pytest.importorskip("polars")

    async def work():
        async with served(sqlite_address) as call:
            await call.make()
            for number in range(40):
                await call.decide(id=f"v{number}", **({"exclude": ["tea"]} if number % 2 else {}))
            path = "/v1/policies/slate/export.parquet"
            whole = pl.read_parquet(io.BytesIO((await call.get(path)).content))
            monkeypatch.setattr(parquet, "_PAGE", 2_000)
            pages, after = [], -1
            while len(page := pl.read_parquet(io.BytesIO((await call.get(f"{path}?after={after}")).content))):
                pages.append(page)
                after = page["number"][-1]
            assert [len(page) for page in pages[:-1]] == [len(pages[0])] * (len(pages) - 1)
            assert 1 < len(pages[0]) < 15
            numbers = [number for page in pages for number in page["number"]]
            assert numbers == whole["number"].to_list() == list(range(40))

    run(work)
