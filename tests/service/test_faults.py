"""Faults: whatever dies, what was acknowledged is stored once, and the state is the log replayed."""

from __future__ import annotations

import asyncio
import gzip
import os
import random
import signal
import sqlite3
import subprocess
import sys
import time
from collections import Counter
from pathlib import Path

import httpx
import pytest

from armtriage.service import crash
from armtriage.service.stores import SqliteStore, StoreError, open_store
from conftest import score
from service.calls import SLATE, run, served
from service.journal import TRIED, Journal, begun_with, make_slate, serving, stored, until

pytestmark = pytest.mark.skipif(os.name != "posix", reason="signals, forks and limits are those of POSIX")
LONG = pytest.mark.long
resource = pytest.importorskip("resource", reason="limits are those of POSIX")


async def _visited(server, journal, answers, visitors=8):
    """Let visitors come until they have had so many answers, and go at the end; yield what waits for more answers."""
    over, heard = asyncio.Event(), Counter()

    async def count(answer):
        heard[answer.is_success] += 1

    async def more(answers):
        enough = heard[True] + answers
        await until(lambda: heard[True] >= enough)

    limits = httpx.Limits(max_connections=2 * visitors)
    async with server.client(limits=limits, timeout=5.0, event_hooks={"response": [count]}) as call:
        tasks = [asyncio.create_task(journal.visitor(call, number, over)) for number in range(visitors)]
        await more(answers)
        yield more
        over.set()
        await asyncio.gather(*tasks)


@pytest.mark.parametrize("cycles", [2, pytest.param(200, marks=LONG)])
def test_kill_9_under_load(address, cycles):
    if cycles > 2 and "postgresql" in address:
        cycles = 60

    async def work():
        journal, starts = Journal(), []
        chance = random.Random(5)
        for cycle in range(cycles):
            with serving(address) as server:
                async with server.client() as call:
                    await make_slate(call, **TRIED)
                    starts.append(await server.ready(call))
                    if cycle % 2:  # while decisions are open
                        added = await call.patch("/v1/policies/slate/arms", json={"add": [f"new-{cycle}"]})
                        assert added.status_code == 200
                async for _ in _visited(server, journal, chance.randrange(20, 300)):
                    server.kill()
        store = await stored(address)
        try:
            found = await journal.check(store)
        finally:
            await store.close()
        assert found["decisions"] > 5 * cycles
        kind = "PostgreSQL" if "postgresql" in address else "SQLite"
        what = f"kill -9 of a server under load, {kind}: decisions and rewards acknowledged"
        acknowledged = len(journal.decided) + len(journal.rewarded)
        score(what, acknowledged, "lost, duplicated or invented: 0; replayed digest equal")

    run(work)


def _in_child(address, name, count, acknowledged):
    """Serve in a forked process that dies at a named place; note in a file what was acknowledged."""
    child = os.fork()
    if child:
        return os.waitstatus_to_exitcode(os.waitpid(child, 0)[1])
    crash._AT, crash._left = name, count

    async def work():
        async with served(address) as call:
            if "slate" not in call.service.loops:
                await call.make()
            for number in range(70):  # more often than any place is asked for
                key = f"v{number}"
                made = await call.decide(id=key)
                _note(acknowledged, f"d {key}")
                told = await call.reward(key, {made["arms"][0]: 1})
                assert told.status_code == 200
                _note(acknowledged, f"r {key}")
                if name.endswith("snapshot"):
                    loop = call.service.loops["slate"]
                    await loop._save(*loop._frozen())

    try:
        asyncio.run(work())
    finally:
        os._exit(0)


def _note(file, line):
    with open(file, "a", encoding="utf-8") as out:
        out.write(f"{line}\n")


@pytest.mark.parametrize("point", crash.POINTS)
@pytest.mark.parametrize("count", [9, *(pytest.param(count, marks=LONG) for count in range(2, 60, 3))])
def test_crash_points_leave_before_or_after(sqlite_address, tmp_path, point, count):
    acknowledged = tmp_path / "acknowledged"
    acknowledged.touch()
    assert _in_child(sqlite_address, point, count, acknowledged) == 137
    seen = acknowledged.read_text(encoding="utf-8").splitlines()

    async def work():
        async with served(sqlite_address) as call:
            if "slate" not in call.service.loops:
                assert seen == []
                await call.make()
            events = (await call.get("/v1/policies/slate/events")).text.splitlines()
            decided = sum('"kind":"decision"' in line for line in events)
            rewarded = sum('"kind":"reward"' in line for line in events)
            acked = [sum(line.startswith(kind) for line in seen) for kind in "dr"]
            # At most the one request that was under way is stored without having been acknowledged.
            assert 0 <= decided - acked[0] <= 1
            assert 0 <= rewarded - acked[1] <= 1
            assert (decided - acked[0]) + (rewarded - acked[1]) <= 1
            for number in range(acked[0]):
                assert (await call.post("/v1/policies/slate/decisions", json={"id": f"v{number}"})).status_code == 200
            from armtriage.service.upkeep import check

            problems, states = await check(call.service.store)
            assert problems == []
            assert (await call.digest())["digest"] == states["slate"]["digest"]

    run(work)
    score("crash points", 1, "only before or after")


class Failing(SqliteStore):
    """A store whose n-th transaction fails, in the middle of it or at its end."""

    fails: tuple[int, ...] = ()
    at_the_end = False
    seen = 0

    def _transact(self, write, jobs):
        self.seen += 1
        if self.seen not in self.fails:
            return super()._transact(write, jobs)
        if self.at_the_end:
            super()._transact(write, jobs)  # stored, but nobody is told
        raise sqlite3.OperationalError("disk I/O error")


@pytest.mark.parametrize("at_the_end", [False, True])
@pytest.mark.parametrize("first", [3, 4, 5, 9, *(pytest.param(n, marks=LONG) for n in (6, 7, 8, *range(10, 24)))])
def test_failing_commits_are_refused_and_the_state_is_made_anew(sqlite_address, first, at_the_end):
    async def work():
        store = Failing(sqlite_address)
        store.fails, store.at_the_end = (first, first + 3), at_the_end
        async with served(store) as call:
            await call.make()
            refused = 0
            decided, rewarded = {}, {}
            for number in range(12):
                for _ in range(5000):
                    made = await call.post("/v1/policies/slate/decisions", json={"id": f"v{number}"})
                    if made.status_code < 300:
                        break
                    assert made.status_code == 503
                    refused += made.json()["error"] == "store"
                    await asyncio.sleep(0.02)
                decided[f"v{number}"] = made.content
                arm = made.json()["arms"][0]
                for _ in range(5000):
                    told = await call.reward(f"v{number}", {arm: 1})
                    if told.status_code < 300:
                        break
                    assert told.status_code == 503
                    refused += told.json()["error"] == "store"
                    await asyncio.sleep(0.02)
                rewarded[f"v{number}"] = told.json()["fates"][arm]
            assert refused >= 2
            assert set(rewarded.values()) <= {"applied", "duplicate"}
            for key, before in decided.items():
                assert (await call.post("/v1/policies/slate/decisions", json={"id": key})).content == before
            events = (await call.get("/v1/policies/slate/events")).text.splitlines()
            assert sum('"kind":"decision"' in line for line in events) == 12
            assert sum('"kind":"reward"' in line for line in events) == 12
            from armtriage.service.upkeep import check

            _, states = await check(call.service.store)
            assert (await call.digest())["digest"] == states["slate"]["digest"]

    run(work)


def test_a_group_on_one_that_failed_fails_too(sqlite_address):
    """Two groups are under way when the first fails: the second must not be stored with a gap before it."""

    async def work():
        store = Failing(sqlite_address)
        async with served(store) as call:
            await call.make()
            loop = call.service.loops["slate"]
            await call.decide(id="before")
            store.fails = (store.seen + 1,)
            many = [loop.submit("decide", [_request(f"v{number}")]) for number in range(300)]  # more than a group
            answers = await asyncio.gather(*many, return_exceptions=True)
            assert {type(answer).__name__ for answer in answers} == {"Refused"}
            unready = (await call.get("/metrics")).text
            assert 'armtriage_ready{policy="slate"} 0' in unready
            await call.ready()
            assert 'armtriage_ready{policy="slate"} 1' in (await call.get("/metrics")).text
            assert (await call.get("/v1/policies/slate")).json()["decisions"] == 1
            made = await call.decide(id="v7")
            assert made["number"] == 1

    run(work)


def _request(key):
    from armtriage.service.messages import Decide

    return Decide(id=key)


def test_a_second_server_is_refused_by_name(sqlite_address):
    with serving(sqlite_address) as server:
        second = subprocess.run(
            [sys.executable, "-m", "armtriage", "serve", "--store", sqlite_address, "--port", "0"],
            capture_output=True, text=True, timeout=300, check=False,
        )  # fmt: skip
        assert second.returncode == 1
        assert f"is served by process {server.process.pid}" in second.stderr
        server.kill()
    with serving(sqlite_address) as server:
        assert server.stop() == 0


@pytest.mark.parametrize("times", [1, pytest.param(30, marks=LONG)])
def test_sigterm_answers_what_is_under_way_and_writes_a_snapshot(sqlite_address, times):
    async def work():
        journal = Journal()
        for _ in range(times):
            with serving(sqlite_address) as server:
                async with server.client() as call:
                    await make_slate(call)
                    await server.ready(call)
                async for _ in _visited(server, journal, 100):
                    assert await asyncio.to_thread(server.stop) == 0
        store = await stored(sqlite_address)
        try:
            found = await journal.check(store)
            (row,) = await store.policies()
            snapshots = await store.snapshots(row.id)
            assert snapshots[0].seq == found["head"]
        finally:
            await store.close()
        score("SIGTERM under load", times, "exit code 0, all that was answered is stored, snapshot at the end")

    run(work)


def test_a_full_disk_is_said_and_left_behind(sqlite_address):
    """The writer may not let its files grow; when it may again, it goes on without a restart."""
    import resource

    code = os.fork()
    if code:
        assert os.waitstatus_to_exitcode(os.waitpid(code, 0)[1]) == 0
        return
    try:
        signal.signal(signal.SIGXFSZ, signal.SIG_IGN)

        async def work():
            async with served(sqlite_address) as call:
                await call.make()
                first = await call.decide(id="first")
                size = max(os.stat(sqlite_address + suffix).st_size for suffix in ("", "-wal"))
                resource.setrlimit(resource.RLIMIT_FSIZE, (size + 40_000, resource.RLIM_INFINITY))
                statuses = []
                for number in range(400):
                    answer = await call.post("/v1/policies/slate/decisions", json={"id": f"v{number}"})
                    statuses.append((answer.status_code, answer.json().get("error")))
                    if answer.status_code != 201:
                        break
                assert statuses[-1][0] in (503, 507), statuses[-1]
                assert statuses[-1][1] in ("store", "disk_full")
                assert (await call.get("/v1/policies")).status_code == 200
                resource.setrlimit(resource.RLIMIT_FSIZE, (resource.RLIM_INFINITY, resource.RLIM_INFINITY))
                async with asyncio.timeout(120):
                    again = {"id": f"v{number}"}
                    while (await call.post("/v1/policies/slate/decisions", json=again)).status_code not in (200, 201):
                        await asyncio.sleep(0.05)
                acked = sum(status == 201 for status, _ in statuses)
                for kept in range(acked):
                    answer = await call.post("/v1/policies/slate/decisions", json={"id": f"v{kept}"})
                    assert answer.status_code == 200
                assert (await call.decide(id="first")) == first

        asyncio.run(work())
    except BaseException:
        import traceback

        traceback.print_exc()
        os._exit(1)
    os._exit(0)


@pytest.mark.parametrize("jump", ["+1h", pytest.param("-1h", marks=LONG), pytest.param("+10y", marks=LONG)])
def test_clock_jumps_change_no_fate(sqlite_address, monkeypatch, jump):
    """The system's clock jumps while the server runs: no decision expires early, and no reward is lost."""
    from armtriage.service import clock

    seconds = {"+1h": 3600, "-1h": -3600, "+10y": 10 * 365 * 86400}[jump]

    async def work():
        async with served(sqlite_address) as call:
            await call.make(join_window="10m")
            made = await call.decide(id="a")
            real = time.time_ns
            monkeypatch.setattr(time, "time_ns", lambda: real() + seconds * 10**9)
            monkeypatch.setattr(time, "time", lambda: real() / 1e9 + seconds)
            assert abs(clock.wall() - clock.steady()) > 3_000_000_000
            for _ in range(3):  # steps of the loop, which looks at the clock in each
                call.service.loops["slate"].nudge()
                await call.digest()
            told = await call.reward("a", {made["arms"][0]: 1})
            assert told.json()["fates"] == {made["arms"][0]: "applied"}
            later = await call.decide(id="b")
            assert later["deadline"] >= made["deadline"]
            assert later["deadline"][:10] == made["deadline"][:10] or "23:" in made["deadline"]

    run(work)


# What a process reads first: its clock is moved by a file, which says the seconds to add, and how fast it runs then.
MOVED = """
import os
import time

_file = os.environ["ARMTRIAGE_TEST_CLOCK"]
_real = time.time_ns


def _moved() -> int:
    with open(_file, encoding="ascii") as file:
        ahead, speed = map(float, file.read().split())
    since = os.stat(_file).st_mtime_ns
    return int(since + 1e9 * ahead + speed * (_real() - since))


time.time_ns = _moved
time.time = lambda: _moved() / 1e9
"""
JUMPS = {"forward": "3600 1", "back": "-3600 1", "far": "315360000 1", "frozen": "0 0", "double": "0 2"}


@pytest.mark.parametrize("jump", ["forward", *(pytest.param(name, marks=LONG) for name in list(JUMPS)[1:])])
def test_a_server_whose_clock_is_moved_loses_nothing(sqlite_address, tmp_path, jump):
    """The clock of a real server jumps, stands or runs: rewards are applied, and after a restart all is there."""
    now = tmp_path / "clock"
    moved = {"ARMTRIAGE_TEST_CLOCK": str(now), **begun_with(tmp_path, MOVED)}

    async def work():
        now.write_text("0 1", encoding="ascii")
        journal = Journal()
        with serving(sqlite_address, **moved) as server:
            async with server.client() as call:
                await make_slate(call, join_window="10m")
                await server.ready(call)
                before = (await call.post("/v1/policies/slate/decisions", json={"id": "before"})).json()
                journal.sent.add("before")
                async for more in _visited(server, journal, 30, 2):
                    now.write_text(JUMPS[jump], encoding="ascii")
                    await asyncio.sleep(1.5)  # it looks around every second
                    await more(30)
                command = [sys.executable, "-c", "from armtriage.service import clock; print(clock.wall())"]
                seen = int(subprocess.check_output(command, env={**os.environ, **moved}))
                apart = seen / 1e6 - time.time() - float(JUMPS[jump].split()[0])
                assert abs(apart) < 600  # the other clock is what processes see
                body = {"decision": "before", "rewards": {before["arms"][0]: 1.0}}
                journal.promised["before"] = body
                told = (await call.post("/v1/policies/slate/rewards", json=body)).json()
                assert set(told["fates"].values()) == {"applied"}
                assert not (await call.get("/v1/policies/slate")).json()["counts"].get("late")
                seconds = [
                    float(line.rsplit(" ", 1)[1])
                    for line in (await call.get("/metrics")).text.splitlines()
                    if "_seconds_sum" in line
                ]
                assert seconds
                assert min(seconds) >= 0
                digest = (await call.get("/v1/policies/slate/digest")).json()
            assert await asyncio.to_thread(server.stop) == 0
        now.write_text("0 1", encoding="ascii")
        with serving(sqlite_address, **moved) as server:
            async with server.client() as call:
                await server.ready(call)
                assert (await call.get("/v1/policies/slate/digest")).json() == digest
        store = await stored(sqlite_address)
        try:
            await journal.check(store)
        finally:
            await store.close()
        score("clocks of a server moved", 1, "no fate changed, nothing lost")

    run(work)


def test_a_newer_store_is_refused(sqlite_address):
    async def work():
        async with served(sqlite_address):
            pass
        with sqlite3.connect(sqlite_address) as connection:
            connection.execute("INSERT INTO schema_version VALUES (99, 0)")
        connection.close()
        with pytest.raises(StoreError, match="tables of version 99; this program knows 1"):
            await open_store(sqlite_address).open()

    run(work)


@pytest.mark.parametrize("mutations", [60, pytest.param(2000, marks=LONG)])
def test_damaged_snapshots_are_not_used(sqlite_address, mutations):
    """A snapshot is a cache: flipped or cut, it is passed over, and the log gives the same state."""

    async def work():
        async with served(sqlite_address) as call:
            await call.make()
            for number in range(10):
                made = await call.decide(id=f"v{number}")
                await call.reward(made["id"], hits=made["arms"][:1])
            before = await call.digest()
        connection = sqlite3.connect(sqlite_address)
        ((payload,),) = connection.execute("SELECT payload FROM snapshot").fetchall()
        chance = random.Random(3)
        store = open_store(sqlite_address)
        await store.open()
        from armtriage.service.loop import load

        (row,) = await store.policies()
        for _ in range(mutations):
            damaged = bytearray(payload)
            if chance.random() < 0.3:
                del damaged[chance.randrange(len(damaged)) :]
            else:
                damaged[chance.randrange(len(damaged))] ^= 1 << chance.randrange(8)
            with connection:
                connection.execute("UPDATE snapshot SET payload = ?", (bytes(damaged),))
            assert (await load(store, row)).digest() == before["digest"]
        await store.close()
        connection.close()

    run(work)


def test_copies_made_under_load_can_be_served(sqlite_address, tmp_path):
    """`backup` while requests run: the copy opens, and its state is its log replayed."""

    async def work():
        async with served(sqlite_address) as call:
            await call.make()

            async def load():
                for number in range(100):
                    await call.decide(id=f"v{number}")

            async def copy():
                await asyncio.sleep(0.02)
                await call.service.store.backup(str(tmp_path / "copy.db"))

            await asyncio.gather(load(), copy())
            with pytest.raises(StoreError, match="is there already"):
                await call.service.store.backup(str(tmp_path / "copy.db"))
        async with served(str(tmp_path / "copy.db")) as call:
            from armtriage.service.upkeep import check

            problems, states = await check(call.service.store)
            assert problems == []
            assert 0 <= states["slate"]["head"] <= 100
            assert SLATE["name"] in call.service.loops

    run(work)


@pytest.mark.parametrize("copies", [10, pytest.param(200, marks=LONG)])
def test_files_as_a_power_cut_would_leave_them(sqlite_address, tmp_path, copies):
    """Database and journal are copied in the middle of things, the journal's end cut: acknowledged rows are there."""

    async def work():
        chance = random.Random(11)
        async with served(sqlite_address) as call:
            await call.make()
            number = 0
            for copy in range(copies):
                for _ in range(3):
                    await call.decide(id=f"v{number}")
                    number += 1
                other = tmp_path / f"copy-{copy}.db"
                content, journal = (Path(f"{sqlite_address}{suffix}").read_bytes() for suffix in ("", "-wal"))
                junk = bytes(chance.randrange(256) for _ in range(chance.randrange(5000)))
                other.write_bytes(content)
                # What was not synced may be anything; what was is there.
                (tmp_path / f"copy-{copy}.db-wal").write_bytes(journal + junk)
                store = SqliteStore(other, owned=False)
                await store.open()
                (row,) = await store.policies()
                assert await store.check() == []
                assert row.head == number
                await store.close()

    run(work)


@pytest.mark.parametrize("connections", [200, pytest.param(10_000, marks=LONG)])
def test_connections_that_say_nothing_hold_nobody_up(sqlite_address, tmp_path, connections):
    """Idle ones, ones that send a byte a second, and compressed bodies: others are answered as before."""
    # A few are held for as long as it takes, so that others are answered beside all of them.
    patient = "from armtriage.service import asgi, connection\nconnection.SILENCE = asgi.SLOWEST = 3600.0\n"

    async def work():
        with serving(sqlite_address, **({} if connections > 200 else begun_with(tmp_path, patient))) as server:
            port = int(server.url.rsplit(":", 1)[1])
            async with server.client() as call:
                await make_slate(call)
                await server.ready(call)
                before = _memory(server.process.pid)
                began, idle = time.monotonic(), []
                for _ in range(connections // 100):
                    idle += await asyncio.gather(*(asyncio.open_connection("127.0.0.1", port) for _ in range(100)))
                held, limit = 0, 15.0 if connections > 200 else 120.0  # the first of many is closed after 20
                while held < connections and time.monotonic() - began < limit:
                    await asyncio.sleep(0.1)
                    held = len(os.listdir(f"/proc/{server.process.pid}/fd"))
                assert held > 0.9 * connections
                assert _memory(server.process.pid) - before < 10 + 0.004 * connections  # MB
                for _, writer in idle[::2]:
                    writer.write(
                        b"POST /v1/policies/slate/decisions HTTP/1.1\r\nhost: 127.0.0.1\r\ncontent-length: 9\r\n\r\n{"
                    )
                took = []
                for number in range(50):
                    began = time.monotonic()
                    assert (
                        await call.post("/v1/policies/slate/decisions", json={"id": f"v{number}"})
                    ).status_code == 201
                    took.append(time.monotonic() - began)
                if connections > 200:
                    assert sorted(took)[25] < 0.5
                else:
                    assert len(os.listdir(f"/proc/{server.process.pid}/fd")) > connections
                # uvicorn and an application that only reads the body take 0.0075 for each.
                assert _memory(server.process.pid) - before < 10 + 0.008 * connections
                bomb = gzip.compress(b" " * 2**22)
                answer = await call.post(
                    "/v1/policies/slate/decisions", content=bomb, headers={"Content-Encoding": "gzip"}
                )
                assert (answer.status_code, answer.json()["error"]) == (400, "malformed")
                if connections > 200:
                    await asyncio.sleep(6)
                    assert (await idle[0][0].readline()).startswith(b"HTTP/1.1 408")
                    async with asyncio.timeout(60):
                        assert await asyncio.gather(*(reader.read() for reader, _ in idle[1::2])) == [b""] * (
                            connections // 2
                        )
                    what = "connections that say nothing, then half of them in the middle of a body: held at once"
                    score(what, held, "others answered; at most 50 MB more, then 90; all closed by the server")
                for _, writer in idle:
                    writer.close()

    limits = resource.getrlimit(resource.RLIMIT_NOFILE)
    if connections + 500 > limits[0]:
        if connections + 500 > limits[1]:
            pytest.skip(f"needs {connections + 500} descriptors, and may have {limits[1]}")
        resource.setrlimit(resource.RLIMIT_NOFILE, (connections + 500, limits[1]))
    try:
        run(work)
    finally:
        resource.setrlimit(resource.RLIMIT_NOFILE, limits)


def _memory(process):
    """Return the memory of a process in MB, where Linux tells it."""
    pages = int(Path(f"/proc/{process}/statm").read_text(encoding="ascii").split()[1])
    return pages * resource.getpagesize() / 1e6


_IMPATIENT = """
import sys
from armtriage.service import asgi, connection, server
from armtriage.service.stores import SqliteStore
connection.SILENCE, asgi.SLOWEST, server._CONNECTIONS = 0.5, 0.5, 40
server.run(SqliteStore(sys.argv[1]), "127.0.0.1", 0, lambda _, port: print(port, flush=True))
"""


def test_who_does_not_say_what_he_wants_is_not_waited_for(sqlite_address):
    """Connections without a word, heads that never end, and more connections than there may be."""
    process = subprocess.Popen([sys.executable, "-c", _IMPATIENT, sqlite_address], stdout=subprocess.PIPE, text=True)
    port = int(process.stdout.readline())

    async def work():
        async with asyncio.timeout(120):
            whole = b"GET /healthz HTTP/1.1\r\nhost: 127.0.0.1\r\n\r\n"
            for words in (b"", whole[:20], whole + whole[:20], whole[:-2] + b"a: b\r\n" * 20_000):
                reader, writer = await asyncio.open_connection("127.0.0.1", port)
                writer.write(words)
                answers = (await reader.read()).count(b"HTTP/1.1 200")  # until the server closes it
                assert answers == words.count(whole)
                writer.close()
            slow = (
                b"POST /dashboard/session HTTP/1.1\r\nhost: 127.0.0.1\r\nx-armtriage: 1\r\ncontent-length: 9\r\n\r\n{"
            )
            reader, writer = await asyncio.open_connection("127.0.0.1", port)
            writer.write(slow)
            assert (await reader.readline()).startswith(b"HTTP/1.1 408")
            writer.close()
            idle = [await asyncio.open_connection("127.0.0.1", port) for _ in range(60)]
            assert await asyncio.gather(*(reader.read() for reader, _ in idle)) == [b""] * 60
            reader, writer = await asyncio.open_connection("127.0.0.1", port)
            writer.write(whole)
            assert (await reader.readline()).startswith(b"HTTP/1.1 200")
            await asyncio.sleep(1.0)
            writer.write(whole)  # a connection that was used stays
            assert b"HTTP/1.1 200" in await reader.readuntil(b"HTTP/1.1 200")
            writer.close()
            for _, other in idle:
                other.close()

    try:
        run(work)
    finally:
        process.terminate()
        process.wait(timeout=120)
        process.stdout.close()
