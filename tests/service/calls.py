"""The service in this process, and what calls it."""

from __future__ import annotations

import asyncio
import itertools
import os
from collections.abc import AsyncIterator, Awaitable, Callable
from contextlib import asynccontextmanager
from typing import Any
from urllib.parse import urlsplit

import httpx

from armtriage.service.app import App
from armtriage.service.service import Service
from armtriage.service.stores import Store, open_store
from armtriage.service.upkeep import check, replay

_databases = itertools.count()
SLATE = {"name": "slate", "arms": ["tea", "milk", "jam", "bread", "egg"], "budget": 2, "seed": 7}


def new_database(server: str) -> str:
    """Make an empty database, and return its address."""
    import psycopg

    name = f"armtriage_{os.getpid()}_{next(_databases)}"
    with psycopg.connect(server, autocommit=True) as connection:
        connection.execute(f"CREATE DATABASE {name}")  # type: ignore[arg-type]
    return urlsplit(server)._replace(path=f"/{name}").geturl()


class Caller(httpx.AsyncClient):
    """Calls a service in this process."""

    service: Service

    async def make(self, **more: Any) -> dict[str, Any]:
        """Make a policy, and wait until it answers."""
        body = SLATE | more
        answer = await self.post("/v1/policies", json=body)
        assert answer.status_code == 201, answer.text
        await self.ready()
        return body

    async def ready(self) -> None:
        for _ in range(30_000):
            if self.service.readiness()[0]:
                return
            await asyncio.sleep(0.01)
        raise TimeoutError(self.service.readiness())

    async def decide(self, name: str = "slate", **body: Any) -> dict[str, Any]:
        answer = await self.post(f"/v1/policies/{name}/decisions", json=body)
        assert answer.status_code in (200, 201), answer.text
        return answer.json()

    async def reward(self, decision: str, rewards: Any = None, name: str = "slate", **more: Any) -> httpx.Response:
        body = {"decision": decision, **({} if rewards is None else {"rewards": rewards}), **more}
        return await self.post(f"/v1/policies/{name}/rewards", json=body)

    async def digest(self, name: str = "slate") -> dict[str, Any]:
        return (await self.get(f"/v1/policies/{name}/digest")).json()

    async def document(self, name: str = "slate") -> dict[str, Any]:
        """Return what is said of a policy now, and not up to a second ago."""
        await self.digest(name)  # a step, after which nothing is under way
        self.service.loops[name].seen = None
        found: dict[str, Any] = (await self.get(f"/v1/policies/{name}")).json()
        return found

    async def is_its_log(self, name: str = "slate") -> None:
        """Assert that the state is what its log gives, with and without snapshots, and would decide the same again."""
        problems, states = await check(self.service.store)
        assert problems == []
        assert states[name]["digest"] == (await self.digest(name))["digest"]
        assert (await replay(self.service.store, name))["different"] == 0

    async def counts(self, name: str = "slate") -> dict[str, int]:
        return (await self.get(f"/v1/policies/{name}")).json()["counts"]


@asynccontextmanager
async def served(address: str | Store) -> AsyncIterator[Caller]:
    """Serve a store in this process, and yield what calls it."""
    service = Service(open_store(address) if isinstance(address, str) else address)
    await service.start()
    transport = httpx.ASGITransport(app=App(service), client=("127.0.0.1", 1))
    try:
        async with Caller(transport=transport, base_url="http://127.0.0.1") as caller:
            caller.service = service
            await caller.ready()
            yield caller
    finally:
        await service.stop()


def run(work: Callable[[], Awaitable[None]]) -> None:
    """Run a test that waits."""
    asyncio.run(work())  # type: ignore[arg-type]
