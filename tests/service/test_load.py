"""Load: more than can be answered, for long, and on top of a long history."""

from __future__ import annotations

import asyncio
import json
import os
import random
import re
import time
from collections import Counter
from pathlib import Path
from statistics import median

import httpx
import pytest

from armtriage.service.stores import SqliteStore
from armtriage.service.upkeep import check
from conftest import score
from service.calls import run, served
from service.journal import make_slate, serving, stored

pytestmark = pytest.mark.skipif(not Path("/proc/self/fd").exists(), reason="reads what Linux says of a process")
LONG = pytest.mark.long
SOAK = float(os.environ.get("ARMTRIAGE_SOAK_SECONDS", "120"))
HISTORY = int(os.environ.get("ARMTRIAGE_HISTORY", "300000"))
DECISIONS, REWARDS = "/v1/policies/slate/decisions", "/v1/policies/slate/rewards"


def _process(pid):
    """Return how many descriptors and threads a process has, its memory in KB, and its CPU seconds."""
    status = Path(f"/proc/{pid}/status").read_text(encoding="ascii")
    memory = next(int(line.split()[1]) for line in status.splitlines() if line.startswith("VmRSS"))
    fields = Path(f"/proc/{pid}/stat").read_text(encoding="ascii").rsplit(")", 1)[1].split()
    cpu = (int(fields[11]) + int(fields[12])) / os.sysconf("SC_CLK_TCK")
    return len(os.listdir(f"/proc/{pid}/fd")), len(os.listdir(f"/proc/{pid}/task")), memory, cpu


class Visitors:
    """Visits at fixed times: some rewards are sent twice, some late, some for decisions that are not there."""

    def __init__(self, call):
        self.call, self.chance = call, random.Random(4)
        self.room = asyncio.Semaphore(16)
        self.sent = Counter()
        self.fates = Counter()
        self.wrong = []
        self.took = []

    async def visit(self, number):
        async with self.room:  # as many as there are connections
            await self._visit(number)

    async def _visit(self, number):
        began = time.monotonic()
        made = await self.call.post(DECISIONS, json={})
        if made.status_code != 201:
            self.wrong.append(made.text)
            return
        self.took.append(time.monotonic() - began)
        made, kind = made.json(), self.chance.random()
        rewards = {name: float(self.chance.random() < 0.3) for name in made["show"]}
        if kind < 0.05:
            await self.call.post(REWARDS, json={"decision": made["id"], "rewards": {}, "last": True})
        decision = f"nobody-{number}" if 0.05 <= kind < 0.06 else made["id"]
        for _ in range(2 if 0.06 <= kind < 0.07 else 1):
            told = await self.call.post(REWARDS, json={"decision": decision, "rewards": rewards})
            self.sent["rewards"] += len(rewards)
            self.fates.update(told.json()["fates"].values())

    async def come(self, rate, seconds):
        """Send at planned times, whatever the answers do."""
        tasks, began = [], time.monotonic()
        for number in range(int(rate * seconds)):
            await asyncio.sleep(max(began + number / rate - time.monotonic(), 0))
            tasks.append(asyncio.create_task(self.visit(f"{number}-{began}")))
        await asyncio.gather(*tasks)


@pytest.mark.parametrize(("rate", "seconds"), [(200.0, 1.0), pytest.param(50.0, SOAK, marks=LONG)])
def test_hours_of_visitors_leave_nothing_behind(sqlite_address, rate, seconds):
    """All fates sum to what was sent; the file grows as predicted; descriptors, threads and memory do not."""

    async def work():
        with serving(sqlite_address) as server:
            async with server.client(limits=httpx.Limits(max_connections=16)) as call:
                await make_slate(call)
                await server.ready(call)
                visitors = Visitors(call)
                sizes, heads, seen = [], [], []
                for part in (0.2, 0.4, 0.4):
                    await visitors.come(rate, part * seconds)
                    files = [Path(sqlite_address + suffix).stat().st_size for suffix in ("", "-wal")]
                    assert files[1] <= 64 * 2**20
                    policy = (await call.get("/v1/policies/slate")).json()
                    sizes.append(sum(files))
                    heads.append(policy["head"])
                    seen.append(_process(server.process.pid))
                assert visitors.wrong == []
                counts = policy["counts"]
            assert await asyncio.to_thread(server.stop) == 0
        fates = ("applied", "duplicate", "conflict", "late", "orphan", "rejected")
        assert {fate: counts.get(fate, 0) for fate in fates} == {fate: visitors.fates[fate] for fate in fates}
        assert sum(visitors.fates.values()) == visitors.sent["rewards"]
        if seconds > 60:
            assert min(visitors.fates[fate] for fate in ("applied", "duplicate", "late", "orphan")) > 0
            # What the first part of the log took, the rest takes, too.
            size = Path(sqlite_address).stat().st_size
            assert size <= 1.1 * sizes[0] / heads[0] * heads[2] + 2 * 2**20
            assert seen[2][2] <= 1.05 * seen[1][2] + 4096
        # No more than the connections that there may be, and the threads of a pool.
        assert seen[2][0] <= seen[0][0] + 16
        assert seen[2][1] <= seen[0][1] + 8
        store = await stored(sqlite_address)
        try:
            problems, _ = await check(store)
            assert problems == []
        finally:
            await store.close()
        score("rewards in a soak", visitors.sent["rewards"], "their six fates sum to what was sent; memory stays flat")

    run(work)


@pytest.mark.parametrize("seconds", [2.0, pytest.param(20.0, marks=LONG)])
def test_more_than_can_be_answered_is_refused_in_time(sqlite_address, seconds):
    """Far more connections than can be served: only 2xx, 429 and 503, nobody waits for long, and then all is well."""

    async def work():
        with serving(sqlite_address) as server:
            async with server.client() as call:
                await make_slate(call)
                await server.ready(call)
                answers, slowest, over = Counter(), [0.0], time.monotonic() + seconds
                # A batch is as much work as many requests. Of plain sockets, since httpx would be what is overloaded.
                body = json.dumps({"requests": [{}] * 1000}).encode()
                head = f"POST {DECISIONS}/batch HTTP/1.1\r\nhost: 127.0.0.1\r\ncontent-length: {len(body)}\r\n\r\n"
                port = int(server.url.rsplit(":", 1)[1])

                async def press():
                    reader, writer = await asyncio.open_connection("127.0.0.1", port)
                    while time.monotonic() < over:
                        began = time.monotonic()
                        writer.write(head.encode() + body)
                        said = (await reader.readuntil(b"\r\n\r\n")).decode()
                        await reader.readexactly(int(re.search(r"content-length: (\d+)", said)[1]))
                        answers[int(said.split()[1])] += 1
                        slowest[0] = max(slowest[0], time.monotonic() - began)
                        if wait := re.search(r"retry-after: (\d+)", said):
                            await asyncio.sleep(int(wait[1]))
                    writer.close()

                await asyncio.gather(*(press() for _ in range(400)))
                assert set(answers) <= {200, 429, 503}
                assert answers[200] > 0
                assert answers[503] > 0
                idle = seconds > 2.0  # the long test has the machine for itself, and is held to seconds
                assert not idle or slowest[0] < 10.0
                async with asyncio.timeout(10.0 if idle else 120.0):
                    while True:
                        start = time.monotonic()
                        answer = await call.post(DECISIONS, json={})
                        if answer.status_code == 201 and (not idle or time.monotonic() - start < 0.2):
                            break
            assert await asyncio.to_thread(server.stop) == 0
        score("requests beyond what can be answered", sum(answers.values()), "2xx, 429 or 503; well again within 10 s")

    run(work)


class Reader(SqliteStore):
    """A store that counts the events that are read from its logs."""

    events = 0

    async def read(self, *given):
        found = await super().read(*given)
        self.events += len(found)
        return found


def test_neither_a_restart_nor_a_decision_reads_a_long_history_again(sqlite_address):
    """What they cost does not depend on the length of the log: they read none of it."""

    async def work():
        async with served(sqlite_address) as call:
            await call.make(join_window="1s")
            for _ in range(5):
                made = await call.post(f"{DECISIONS}/batch", json={"requests": [{}] * 1000})
                assert made.status_code == 200
        store = Reader(sqlite_address)
        async with served(store) as call:
            for _ in range(50):
                await call.decide()
            assert (await call.get("/v1/policies/slate")).json()["decisions"] == 5050
            assert store.events <= 1  # the last one that the snapshot knows, to see that it is of this log

    run(work)


@LONG
@pytest.mark.parametrize("decisions", [HISTORY])
def test_a_long_history_makes_decisions_no_slower(tmp_path, decisions):
    """Decisions cost the same on a long log as on an empty one, and a restart does not wait for the log."""

    async def work():
        long, short = str(tmp_path / "long.db"), str(tmp_path / "short.db")
        with serving(long) as server:
            async with server.client() as call:
                await make_slate(call, join_window="1s")  # so that they do not all stay open
                await server.ready(call)
                for _ in range(decisions // 1000):
                    made = await call.post(f"{DECISIONS}/batch", json={"requests": [{}] * 1000})
                    assert made.status_code == 200
            await asyncio.sleep(2.5)
            assert await asyncio.to_thread(server.stop) == 0
        with serving(long) as server, serving(short) as other:
            async with server.client() as call, other.client() as fresh:
                ready = await server.ready(call)
                await make_slate(fresh, join_window="1s")
                await other.ready(fresh)
                costs = []
                rounds, each = 5, 200
                for _ in range(rounds):  # in turn, so that both meet the same machine
                    cost = []
                    for one, to in ((server, call), (other, fresh)):
                        before = _process(one.process.pid)[3]
                        for _ in range(each):
                            assert (await to.post(DECISIONS, json={})).status_code == 201
                        cost.append(_process(one.process.pid)[3] - before)
                    costs.append(cost)
                assert ready < 10.0
                assert median(cost[0] for cost in costs) <= 1.2 * median(cost[1] for cost in costs) + 0.03
                assert (await call.get("/v1/policies/slate")).json()[
                    "decisions"
                ] == decisions // 1000 * 1000 + rounds * each
        score("decisions in a history", decisions, "further ones cost the same; restart within 10 s")

    run(work)


def test_little_memory_is_enough_for_a_long_log(sqlite_address):
    """Exports of a log come in pages: what the process needs does not grow with the log."""

    async def work():
        with serving(sqlite_address) as server:
            async with server.client() as call:
                await make_slate(call, join_window="1s")
                await server.ready(call)
                for _ in range(10):
                    await call.post(f"{DECISIONS}/batch", json={"requests": [{}] * 1000})
                await call.get("/v1/policies/slate/export.parquet?limit=500")
                before = _process(server.process.pid)[2]
                for page in range(8):
                    at = f"after={1000 * page}&limit=1000"
                    assert (await call.get(f"/v1/policies/slate/export.parquet?{at}")).status_code == 200
                async with call.stream("GET", "/v1/policies/slate/events?limit=100000") as answer:
                    lines = 0
                    async for _ in answer.aiter_lines():
                        lines += 1
                assert lines >= 10_000
                assert _process(server.process.pid)[2] < before + 60_000

    run(work)
