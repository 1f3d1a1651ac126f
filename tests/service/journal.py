"""What clients saw, held against what is stored: nothing acknowledged may be lost, duplicated or invented."""

from __future__ import annotations

import asyncio
import os
import random
import signal
import subprocess
import sys
import time
from collections import Counter
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import Any

import httpx

from armtriage.service import events as log
from armtriage.service.events import unpack
from armtriage.service.loop import load
from armtriage.service.stores import Store, open_store
from armtriage.service.upkeep import check

TRIED: dict[str, Any] = {
    "reward": {"default": 0},
    "control": {"share": 0.3, "incumbent": ["item-0", "item-1", "item-2"]},
    "metrics": [{"name": "gone", "limit": {"ratio": 1.2}}],
}
"""What makes a trial of the policy that visitors ask."""


class Journal:
    """Requests that were sent, and those that were acknowledged."""

    def __init__(self) -> None:
        self.sent: set[str] = set()
        self.decided: dict[str, Any] = {}
        self.rewarded: dict[str, float] = {}
        self.promised: dict[str, dict[str, Any]] = {}  # by decision: the reward that was sent, perhaps in vain
        self.doubtful: list[str] = []
        self.wrong: list[Any] = []
        self.repeated = 0

    async def visitor(self, call: httpx.AsyncClient, number: int, until: asyncio.Event) -> None:
        """Ask and tell, and now and then repeat what had no answer, until it is over."""
        chance = random.Random(number)
        while not until.is_set():
            if self.doubtful and chance.random() < 0.3:
                key = self.doubtful.pop()
                self.repeated += 1
            else:
                key = f"{os.getpid()}-{number}-{time.time_ns()}"
                self.sent.add(key)
            try:
                await self._visit(call, key, chance)
            except (httpx.HTTPError, _Unanswered):
                self.doubtful.append(key)
                await asyncio.sleep(0.01)

    async def _visit(self, call: httpx.AsyncClient, key: str, chance: random.Random) -> None:
        made = await call.post("/v1/policies/slate/decisions", json={"id": key})
        if made.status_code >= 500:
            raise _Unanswered
        if made.status_code not in (200, 201):
            self.wrong.append((made.status_code, made.text))
            return
        before = self.decided.setdefault(key, made.content)
        if before != made.content:
            self.wrong.append(("another decision", before, made.content))
        if key not in self.promised and chance.random() < 0.2:
            return
        arm = made.json()["arms"][0]
        body = self.promised.setdefault(key, {"decision": key, "rewards": {arm: float(chance.random() < 0.5)}})
        told = await call.post("/v1/policies/slate/rewards", json=body)
        if told.status_code >= 500:
            raise _Unanswered
        if told.status_code != 200 or set(told.json()["fates"].values()) - {"applied", "duplicate"}:
            self.wrong.append((told.status_code, told.text))
            return
        self.rewarded[key] = body["rewards"][arm]

    async def check(self, store: Store) -> dict[str, Any]:
        """Compare with the store; assert that nothing is lost, duplicated or invented."""
        (row,) = await store.policies()
        decisions: Counter[str] = Counter()
        rewards: Counter[str] = Counter()
        seq = 0
        while some := await store.read(row.id, seq, 5000):
            assert [event.seq for event in some] == list(range(seq + 1, seq + 1 + len(some)))
            seq = some[-1].seq
            for event in some:
                if event.kind == log.DECISION:
                    decisions[event.key] += 1
                    if event.key in self.decided:
                        assert unpack(event).answer == self.decided[event.key]
                elif event.kind == log.REWARD:
                    rewards[event.key] += 1
                    if event.key in self.rewarded:
                        assert unpack(event).values == [self.rewarded[event.key]]
        assert self.wrong == []
        lost = set(self.decided) - set(decisions), set(self.rewarded) - set(rewards)
        assert lost == (set(), set())
        assert max(decisions.values(), default=1) == 1
        assert max(rewards.values(), default=1) == 1
        assert set(decisions) <= self.sent
        assert set(rewards) <= set(self.promised)
        assert row.head == seq
        problems, states = await check(store)
        assert problems == []
        state = await load(store, row)
        assert state.digest() == states[row.name]["digest"]
        return {"decisions": len(decisions), "rewards": len(rewards), "repeated": self.repeated, "head": seq}


class _Unanswered(Exception):
    """A request whose outcome is not known."""


async def until(true: Callable[[], bool]) -> None:
    """Wait until something is so; the limit is for what never happens, not for speed."""
    async with asyncio.timeout(120):
        while not true():
            await asyncio.sleep(0.01)


class Server:
    """The command `armtriage serve` as a process of its own."""

    def __init__(self, address: str, *more: str, **environment: str) -> None:
        command = [sys.executable, "-m", "armtriage", "serve", "--store", address, "--create", "--port", "0", *more]
        self.began = time.monotonic()
        inherited = {**os.environ, "PYTHONUNBUFFERED": "1", "COLUMNS": "500", **environment}
        self.process = subprocess.Popen(
            command, env=inherited, stdout=subprocess.PIPE, stderr=subprocess.PIPE, text=True, start_new_session=True
        )
        assert self.process.stdout is not None
        said = self.process.stdout.readline()
        if "http://" not in said:
            raise RuntimeError(self.process.communicate()[1])
        self.url = next(word for word in said.split() if word.startswith("http://"))

    async def ready(self, call: httpx.AsyncClient) -> float:
        """Wait until all policies answer, and return the seconds since the process began."""
        while time.monotonic() < self.began + 120:
            try:
                if (await call.get("/readyz")).status_code == 200:
                    return time.monotonic() - self.began
            except httpx.HTTPError:
                pass
            await asyncio.sleep(0.02)
        raise TimeoutError("the server does not become ready")

    def client(self, **more: Any) -> httpx.AsyncClient:
        return httpx.AsyncClient(base_url=self.url, **{"timeout": 60.0, **more})

    def signal(self, number: int) -> None:
        os.kill(self.process.pid, number)

    def kill(self) -> None:
        """End it at once, and let nothing be left."""
        if self.process.poll() is None:
            os.killpg(self.process.pid, signal.SIGKILL)
        self.process.communicate()

    def stop(self) -> int:
        """Stop it as a system does, and return its exit code."""
        self.signal(signal.SIGTERM)
        self.process.communicate(timeout=120)
        return self.process.returncode


def begun_with(folder: Path, code: str) -> dict[str, str]:
    """Return the environment of a server that runs some code before anything else."""
    (folder / "sitecustomize.py").write_text(code, encoding="ascii")
    return {"PYTHONPATH": os.pathsep.join([str(folder), *sys.path])}


@contextmanager
def serving(address: str, *more: str, **environment: str) -> Iterator[Server]:
    """Run a server, and end it whatever happens."""
    server = Server(address, *more, **environment)
    try:
        yield server
    finally:
        server.kill()


async def make_slate(call: httpx.AsyncClient, **more: Any) -> None:
    """Make the policy that visitors ask."""
    recipe = {
        "name": "slate", "arms": [f"item-{arm}" for arm in range(8)], "budget": 3, "seed": 7,
    }  # fmt: skip
    answer = await call.post("/v1/policies", json=recipe | more)
    assert answer.status_code in (201, 409), answer.text


async def stored(address: str) -> Store:
    """Open a store for reading."""
    store = open_store(address, owned=False)
    await store.open()
    return store
