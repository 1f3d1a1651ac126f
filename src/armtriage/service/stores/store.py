"""Store: where the log is kept. A group of events is written whole or not at all, and answered after that."""

from __future__ import annotations

import hashlib
import re
from collections.abc import Awaitable, Mapping, Sequence
from importlib import resources
from typing import Any, NamedTuple, Protocol

from armtriage.errors import ArmtriageError
from armtriage.service.events import STRAY, Event, History, Stray

PAGE = 2**24
"""Bytes of events after which no more are read at once: a single one may have millions."""


class StoreError(ArmtriageError, RuntimeError):
    """The store did not do what was asked.

    `full` says that the disk had no room, `damaged` that what was stored cannot be read any more.
    """

    def __init__(self, text: str, full: bool = False, damaged: bool = False) -> None:
        super().__init__(text)
        self.full, self.damaged = full, damaged

    @property
    def kind(self) -> str:
        """The code of the refusal that says it."""
        return "disk_full" if self.full else "store"


class PolicyGone(StoreError):
    """The policy is not in the store any more."""

    def __init__(self) -> None:
        super().__init__("the policy was deleted")


class PolicyRow(NamedTuple):
    """A policy as the store knows it."""

    id: int
    name: str
    config: bytes
    created: int
    head: int


class KeyRow(NamedTuple):
    """A key of the service, without its secret; `rate` is how many requests a second it may make, 0 for any number."""

    id: str
    sha256: bytes
    scopes: str
    label: str
    rate: float
    created: int
    revoked: int | None


class Snapshot(NamedTuple):
    """A policy's state after the event `seq`: a cache, which can be rebuilt from the log."""

    seq: int
    version: str
    sha256: bytes
    payload: bytes

    @classmethod
    def of(cls, seq: int, version: str, payload: bytes) -> Snapshot:
        """Return the snapshot with this payload."""
        return cls(seq, version, hashlib.sha256(payload).digest(), payload)

    @property
    def whole(self) -> bool:
        """Whether the payload is what was written."""
        return hashlib.sha256(self.payload).digest() == self.sha256


class Write(NamedTuple):
    """What a group writes: events that follow on the log's head, strays, orphans that are none any more, and counts."""

    events: Sequence[Event]
    strays: Sequence[Stray]
    adopted: Sequence[str]
    counts: Mapping[str, int]
    minute: int


class Group(Protocol):
    """A group of requests that has the end of a policy's log to itself."""

    now: int
    head: int  # the last event
    missed: Sequence[Event]  # what others wrote since, or the first of it
    found: Mapping[str, History]

    async def find(self, keys: Sequence[str]) -> Mapping[str, History]:
        """Return the histories of decisions."""

    def commit(self, write: Write) -> Awaitable[None]:
        """Write all or nothing; `StoreError` says that it failed, or may have. The calls keep their order."""

    async def stay(self) -> None:
        """Show that the group is at work; one that does not for a second and a half may lose the end of the log."""

    async def leave(self) -> None:
        """Give the end of the log back without writing."""


class Store(Protocol):
    """The log and what belongs to it, of all policies; what SQLite and PostgreSQL say alike is said here."""

    depth: int  # how many groups of a policy may be under way
    shared: bool  # whether other processes may write, too

    @property
    def problem(self) -> str:
        """Why nothing can be written until the process is started again; nothing, if all is well."""

    async def open(self) -> None:
        """Make or migrate the tables, and refuse what cannot be served safely."""

    async def close(self) -> None:
        """Let go of everything."""

    async def now(self) -> int:
        """Return the time of the clock by which events and counts are dated, in microseconds since 1970."""

    async def begin(self, policy: int, at: int, keys: Sequence[str]) -> Group:
        """Take the end of a policy's log, of which events up to `at` are known; `keys` are looked up on the way.

        `PolicyGone` says that it was deleted.
        """

    async def _all(self, statement: str, values: Sequence[Any] = ()) -> list[tuple[Any, ...]]:
        """Return the rows that a question finds; values stand for its question marks."""

    async def _change(self, statement: str, values: Sequence[Any]) -> tuple[list[tuple[Any, ...]], int]:
        """Return the rows that a statement returns, and how many it changed."""

    async def policies(self) -> Sequence[PolicyRow]:
        """Return all policies, oldest first."""
        rows = await self._all("SELECT id, name, config, created, head FROM policy ORDER BY id")
        return [PolicyRow._make(row) for row in rows]

    async def create(self, name: str, config: bytes, now: int) -> PolicyRow | None:
        """Add a policy; None if the name is taken."""
        into = "INSERT INTO policy(name, config, created, head) VALUES (?, ?, ?, 0)"
        rows, _ = await self._change(f"{into} ON CONFLICT DO NOTHING RETURNING id", (name, config, now))
        return PolicyRow(rows[0][0], name, config, now, 0) if rows else None

    async def drop(self, policy: int) -> None:
        """Delete a policy with all that belongs to it."""

    async def read(self, policy: int, after: int, limit: int) -> Sequence[Event]:
        """Return events after a place in the log, oldest first: `limit` at most, and about `PAGE` bytes."""

    async def history(self, policy: int, keys: Sequence[str]) -> Mapping[str, History]:
        """Return the histories of decisions."""

    async def forget_orphans(self, policy: int, age: int) -> int:
        """Delete orphans that are older than this many microseconds by the store's clock, and return how many."""

    async def orphans(self, policy: int) -> int:
        """Return how many bytes the orphans of a policy take, as `Stray.size` counts them."""
        size = f"CAST(coalesce(sum(length(key) + length(body) + {STRAY}), 0) AS bigint)"
        ((held,),) = await self._all(f"SELECT {size} FROM stray WHERE policy = ? AND fate = 'orphan'", (policy,))
        return int(held)

    async def snapshots(self, policy: int) -> Sequence[Snapshot]:
        """Return the snapshots, newest first; one that cannot be read any more is empty, and so not whole."""

    async def put_snapshot(self, policy: int, snapshot: Snapshot) -> None:
        """Keep a snapshot, and of those before it two; of a policy that is deleted none."""

    async def counters(self, policy: int, since: int) -> Mapping[str, int]:
        """Return the sums of all counters from a minute on."""
        sums = "SELECT name, CAST(sum(value) AS bigint) FROM counter WHERE policy = ? AND minute >= ? GROUP BY name"
        return dict(await self._all(sums, (policy, since)))

    async def counters_by_minute(self, policy: int, since: int) -> Sequence[tuple[int, str, int]]:
        """Return minute, name and value of the counters from a minute on."""
        found = "SELECT minute, name, value FROM counter WHERE policy = ? AND minute >= ? ORDER BY minute, name"
        return await self._all(found, (policy, since))

    async def keys(self) -> Sequence[KeyRow]:
        """Return all keys, revoked ones, too."""
        rows = await self._all("SELECT id, sha256, scopes, label, rate, created, revoked FROM api_key ORDER BY created")
        return [KeyRow._make(row) for row in rows]

    async def put_key(self, key: KeyRow) -> None:
        """Add a key."""
        await self._change("INSERT INTO api_key VALUES (?, ?, ?, ?, ?, ?, ?)", key)

    async def revoke_key(self, key: str, now: int) -> bool:
        """Revoke a key; False if there is none."""
        _, count = await self._change("UPDATE api_key SET revoked = coalesce(revoked, ?) WHERE id = ?", (now, key))
        return bool(count)

    async def meet(self, worker: str, url: str) -> Sequence[tuple[str, str]]:
        """Note that a server is there, and return the names and addresses of all that have been seen recently."""

    async def part(self, worker: str) -> None:
        """Forget a server."""

    async def facts(self) -> Mapping[str, str | int | float]:
        """Return what an operator wants to know of the store."""

    async def check(self) -> list[str]:
        """Return what is wrong with the store's own files; nothing, if all is well."""

    async def backup(self, target: str) -> None:
        """Write a copy that can be opened, while others go on writing."""


def migrations(kind: str) -> dict[int, str]:
    """Return the statements that make the tables, by version."""
    folder = resources.files("armtriage.service.stores") / "migrations"
    found = {one.name: re.fullmatch(rf"{kind}-(\d+)\.sql", one.name) for one in folder.iterdir()}
    return {
        int(match[1]): (folder / name).read_text(encoding="utf-8") for name, match in sorted(found.items()) if match
    }


def gather(events: Sequence[tuple[object, ...]], strays: Sequence[tuple[object, ...]]) -> dict[str, History]:
    """Return the histories that rows of both tables make."""
    found: dict[str, History] = {}
    for row in events:
        event = Event._make(row)
        found.setdefault(event.key, History([], [])).events.append(event)
    for row in strays:
        stray = Stray._make(row)
        found.setdefault(stray.key, History([], [])).strays.append(stray)
    return found
