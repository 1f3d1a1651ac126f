"""The store in one SQLite file, for one server: a thread writes what has gathered, in one transaction."""

from __future__ import annotations

import asyncio
import contextlib
import logging
import os
import queue
import sqlite3
import threading
from collections.abc import Awaitable, Callable, Iterator, Mapping, Sequence
from concurrent.futures import Future
from pathlib import Path
from typing import Any

from armtriage.service import clock
from armtriage.service.crash import point
from armtriage.service.events import Event, History
from armtriage.service.logs import note
from armtriage.service.stores.lock import OWNER_ONLY, FileLock
from armtriage.service.stores.store import (
    PAGE,
    Group,
    PolicyGone,
    Snapshot,
    Store,
    StoreError,
    Write,
    gather,
    migrations,
)

_EVENT = "policy,seq,kind,key,turn,number,at,body"
_MOST = 64  # rows of one INSERT; more gain nothing, and statements are kept by size
_JOURNAL = 4000  # pages of 4 kB after which the journal goes to the file, whose sync holds a commit up for 10 to 180 ms
_FEW = 16  # keys that are looked up at once; more are in a thread
_LOOKED_UP = 256  # keys of one question
_DAMAGE = (sqlite3.SQLITE_CORRUPT, sqlite3.SQLITE_IOERR, sqlite3.SQLITE_NOTADB)
Job = tuple[Callable[[sqlite3.Connection], Any], "Future[Any] | Callable[[Any, BaseException | None], None]", int, int]


class SqliteStore(Store):
    """A file that one server owns; see `Store`.

    Parameters
    ----------
    path : path
        The file, which is made if it is not there, for its owner only; beside it are its journal and a lock.
    synchronous : {"FULL", "NORMAL"}
        NORMAL may lose the last commits in a power cut: for measurements only.
    owned : bool
        Whether this process serves the file. False is for commands that look at it or change its keys beside a server.
    create : bool
        Whether a file that is not there is made.
    """

    depth, shared = 2, False

    def __init__(
        self, path: str | os.PathLike[str], *, synchronous: str = "FULL", owned: bool = True, create: bool = True
    ) -> None:
        self.path, self.synchronous, self.owned, self._may_create = Path(path), synchronous, owned, create
        self._queue: queue.SimpleQueue[Job | None] = queue.SimpleQueue()
        self._taken: list[Job] = []  # the writer's: what it is doing
        self._heads: dict[int, int] = {}  # the writer's: where each log ends
        self._strayed: set[int] = set()  # policies that have strays, so that the others are not searched for them
        self._lock: FileLock | None = None
        self._ended: BaseException | None = None  # why the writer is not there, though it should be
        self._thread: threading.Thread | None = None
        self._read: sqlite3.Connection | None = None

    async def open(self) -> None:
        """Make or migrate the tables; refuse a file that another server owns, or that is newer than this program."""
        if not (self.owned and self._may_create) and not self.path.exists():
            raise StoreError(f"there is no store {self.path}; armtriage serve --create makes one")
        if self.owned:
            self.path.parent.mkdir(parents=True, exist_ok=True)
            self._lock = FileLock(self.path)
        if (names := self.path.stat().st_nlink) > 1:
            # Under another name SQLite would not find the journal, and so neither the last commits nor who holds it.
            await self.close()
            raise StoreError(f"{self.path} has {names} names (hard links); its journal goes by one: remove the others")
        try:
            self._read = self._connect()
            self._migrate(self._read)
            self._heads = dict(self._read.execute("SELECT id, head FROM policy"))
            self._strayed = {one for (one,) in self._read.execute("SELECT DISTINCT policy FROM stray")}
        except sqlite3.Error as error:
            await self.close()
            raise StoreError(f"{self.path}: {error}") from error
        except BaseException:
            await self.close()
            raise
        self._thread = threading.Thread(target=self._work, name="armtriage-writer", daemon=True)
        self._thread.start()

    async def close(self) -> None:
        """Write what waits, and let go of the file."""
        if self._thread is not None:
            self._queue.put(None)
            await asyncio.to_thread(self._thread.join)
            self._thread = None
        if self._read is not None:
            self._read.close()
            self._read = None
        if self._lock is not None:
            self._lock.close()
            self._lock = None

    def _connect(self) -> sqlite3.Connection:
        connection = sqlite3.connect(
            self.path, timeout=2.0, isolation_level=None, check_same_thread=False, cached_statements=512
        )
        connection.execute("PRAGMA journal_mode=WAL")
        connection.execute(f"PRAGMA synchronous={self.synchronous}")
        connection.execute("PRAGMA cache_size=-65536")
        connection.execute("PRAGMA journal_size_limit=67108864")
        connection.execute(f"PRAGMA wal_autocheckpoint={_JOURNAL}")
        return connection

    @contextlib.contextmanager
    def _reader(self) -> Iterator[sqlite3.Connection]:
        connection = self._connect()
        try:
            yield connection
        except sqlite3.Error as error:
            raise self._failure(error) from error
        finally:
            connection.close()

    def _migrate(self, connection: sqlite3.Connection) -> None:
        steps = migrations("sqlite")
        connection.execute("BEGIN IMMEDIATE")
        try:
            connection.execute("CREATE TABLE IF NOT EXISTS schema_version (version INTEGER PRIMARY KEY, at INTEGER)")
            (version,) = connection.execute("SELECT coalesce(max(version), 0) FROM schema_version").fetchone()
            if version > max(steps):
                raise StoreError(f"{self.path} has tables of version {version}; this program knows {max(steps)}")
            for number, text in steps.items():
                if number > version:
                    for statement in filter(str.strip, text.split(";")):
                        connection.execute(statement)
                    connection.execute("INSERT INTO schema_version VALUES (?, ?)", (number, clock.wall()))
            connection.execute("COMMIT")
        except BaseException:
            if connection.in_transaction:
                connection.execute("ROLLBACK")
            raise

    @property
    def problem(self) -> str:
        """Why nothing can be written until the process is started again; nothing, if all is well."""
        return "" if self._ended is None else f"the writer has ended: {self._ended!r}"

    def _work(self) -> None:
        """Write until there is nothing more to come; if anything else ends this, it is said, and all are refused."""
        try:
            self._write_all()
        except BaseException as error:
            self._ended = error
            note(
                logging.CRITICAL,
                "writer_ended",
                "The writer of the store has ended; start the server again.",
                error=error,
            )
            self._refuse_all()

    def _put(self, job: Job) -> None:
        """Hand a job to the writer."""
        self._queue.put(job)
        if self._ended is not None:
            self._refuse_all()

    def _refuse_all(self) -> None:
        """Refuse what will not be written any more."""
        jobs, self._taken = [*self._taken], []
        with contextlib.suppress(queue.Empty):
            while True:
                jobs += filter(None, [self._queue.get_nowait()])
        for _, waiting, _, _ in jobs:
            _resolve(waiting, None, StoreError(f"{self.path}: {self.problem}"))

    def _write_all(self) -> None:
        """Write what has gathered, in one transaction, until there is nothing more to come."""
        write: sqlite3.Connection | None = None
        while (first := self._queue.get()) is not None:
            jobs, stop = [first], False
            with contextlib.suppress(queue.Empty):
                while len(jobs) < 512 and not stop:
                    following = self._queue.get_nowait()
                    if following is None:
                        stop = True
                    else:
                        jobs.append(following)
            self._taken = jobs
            try:
                if write is None:
                    write = self._connect()
                done = self._written_or_refused(write, jobs)
            except Exception as error:
                if write is not None:
                    with contextlib.suppress(sqlite3.Error):
                        write.close()
                write, self._heads = None, {}  # after a failure nothing that is held in memory is trusted
                done = [(None, self._failure(error))] * len(jobs)
            for (_, waiting, _, _), (value, problem) in zip(jobs, done, strict=True):
                _resolve(waiting, value, problem)
            self._taken = []
            if stop:
                break
        if write is not None:
            write.close()

    def _written_or_refused(
        self, write: sqlite3.Connection, jobs: Sequence[Job]
    ) -> Sequence[tuple[Any, BaseException | None]]:
        """Do jobs in one transaction; if one of them is to blame that it fails, do each alone."""
        try:
            return self._transact(write, jobs)
        except sqlite3.OperationalError:
            raise  # no room, no file, no lock: it is the same for all
        except Exception as error:
            if len(jobs) == 1:
                return [(None, self._failure(error))]
            return [self._written_or_refused(write, [job])[0] for job in jobs]

    def _failure(self, error: Exception) -> StoreError:
        """Return what went wrong in our words."""
        if isinstance(error, StoreError):
            return error
        code = getattr(error, "sqlite_errorcode", 0) & 0xFF
        said = str(error) if isinstance(error, sqlite3.Error) else f"{type(error).__name__}: {error}"
        return StoreError(f"{self.path}: {said}", code == sqlite3.SQLITE_FULL, code in _DAMAGE)

    def _transact(self, write: sqlite3.Connection, jobs: Sequence[Job]) -> list[tuple[Any, BaseException | None]]:
        point("before-begin")
        heads = dict(self._heads)
        done: list[tuple[Any, BaseException | None]] = []
        write.execute("BEGIN IMMEDIATE")
        try:
            point("after-begin")
            for work, _, policy, base in jobs:
                if policy and policy not in heads:
                    row = write.execute("SELECT head FROM policy WHERE id=?", (policy,)).fetchone()
                    if row is None:
                        done.append((None, PolicyGone()))
                        continue
                    heads[policy] = row[0]
                if policy and heads[policy] != base:
                    # The group before it failed, so it stands on what was never written.
                    done.append((None, StoreError(f"{self.path}: a group that follows on one that failed")))
                    continue
                value = work(write)
                if policy:
                    heads[policy] = value
                done.append((value, None))
            point("after-insert")
            write.execute("COMMIT")
        except BaseException:
            if write.in_transaction:
                with contextlib.suppress(sqlite3.Error):
                    write.execute("ROLLBACK")
            raise
        point("after-commit")
        self._heads = heads
        return done

    async def _written(self, work: Callable[[sqlite3.Connection], Any]) -> Any:
        future: Future[Any] = Future()
        self._put((work, future, 0, 0))
        return await asyncio.wrap_future(future)

    async def now(self) -> int:
        """Return this process's time."""
        return clock.steady()

    async def begin(self, policy: int, at: int, keys: Sequence[str]) -> Group:
        """Take the end of the log, which is this process's own."""
        if len(keys) > _FEW:
            return _SqliteGroup(self, policy, at, await self.history(policy, keys))
        return _SqliteGroup(self, policy, at, self._find(policy, keys) if keys else {})

    def _find(
        self, policy: int, keys: Sequence[str], connection: sqlite3.Connection | None = None
    ) -> dict[str, History]:
        read = self._read if connection is None else connection
        assert read is not None
        events: list[Any] = []
        strays: list[Any] = []
        try:
            for start in range(0, len(keys), _LOOKED_UP):
                some = list(keys[start : start + _LOOKED_UP])
                some += [some[-1]] * ((1 << (len(some) - 1).bit_length()) - len(some))
                marks = ",".join("?" * len(some))
                where = f"policy = ? AND key IN ({marks})"
                events += read.execute(
                    f"SELECT seq,kind,key,turn,number,at,body FROM event WHERE {where} ORDER BY key, turn",
                    (policy, *some),
                )
                if policy in self._strayed:
                    strays += read.execute(
                        f"SELECT key,turn,at,fate,body FROM stray WHERE {where} ORDER BY key, turn", (policy, *some)
                    )
        except sqlite3.Error as error:
            raise self._failure(error) from error
        return gather(events, strays)

    async def _all(self, statement: str, values: Sequence[Any] = ()) -> list[tuple[Any, ...]]:
        def fetch() -> list[tuple[Any, ...]]:
            with self._reader() as connection:
                return connection.execute(statement, values).fetchall()

        return await asyncio.to_thread(fetch)

    async def _change(self, statement: str, values: Sequence[Any]) -> tuple[list[tuple[Any, ...]], int]:
        def work(write: sqlite3.Connection) -> tuple[list[tuple[Any, ...]], int]:
            done = write.execute(statement, values)
            return done.fetchall(), done.rowcount

        found: tuple[list[tuple[Any, ...]], int] = await self._written(work)
        return found

    async def drop(self, policy: int) -> None:
        """Delete a policy with all that belongs to it."""

        def work(write: sqlite3.Connection) -> None:
            for table in ("event", "stray", "snapshot", "counter"):
                write.execute(f"DELETE FROM {table} WHERE policy = ?", (policy,))
            write.execute("DELETE FROM policy WHERE id = ?", (policy,))

        await self._written(work)

    async def read(self, policy: int, after: int, limit: int) -> Sequence[Event]:
        """Return events after a place in the log, oldest first."""
        statement = "SELECT seq,kind,key,turn,number,at,body FROM event WHERE policy=? AND seq>? ORDER BY seq LIMIT ?"

        def fetch() -> list[Event]:
            found, room = [], PAGE
            with self._reader() as connection:
                for row in connection.execute(statement, (policy, after, limit)):
                    found.append(Event._make(row))
                    room -= len(found[-1].body)
                    if room <= 0:
                        break
            return found

        return await asyncio.to_thread(fetch)

    async def history(self, policy: int, keys: Sequence[str]) -> Mapping[str, History]:
        """Return the histories of decisions; of many in a thread, since each may be long."""

        def find() -> dict[str, History]:
            with self._reader() as connection:
                return self._find(policy, keys, connection)

        return self._find(policy, keys) if len(keys) <= _FEW else await asyncio.to_thread(find)

    async def forget_orphans(self, policy: int, age: int) -> int:
        """Delete orphans that are older than this many microseconds, and return how many."""
        if policy not in self._strayed:
            return 0
        old, before = "DELETE FROM stray WHERE policy=? AND fate='orphan' AND at<?", clock.steady() - age
        return (await self._change(old, (policy, before)))[1]

    async def orphans(self, policy: int) -> int:
        """Return how many bytes the orphans of a policy take."""
        return await super().orphans(policy) if policy in self._strayed else 0

    async def snapshots(self, policy: int) -> Sequence[Snapshot]:
        """Return the snapshots, newest first; one that cannot be read any more is empty, and so not whole."""
        statement = "SELECT seq,version,sha256,payload FROM snapshot WHERE policy=? AND seq=?"
        found = []
        for (seq,) in await self._all("SELECT seq FROM snapshot WHERE policy=? ORDER BY seq DESC", (policy,)):
            try:
                found += [Snapshot._make(row) for row in await self._all(statement, (policy, seq))]
            except StoreError as error:
                if not error.damaged:
                    raise
                found.append(Snapshot(seq, "", b"", b""))
        return found

    async def put_snapshot(self, policy: int, snapshot: Snapshot) -> None:
        """Keep a snapshot, and of those before it two."""

        def work(write: sqlite3.Connection) -> None:
            write.execute("INSERT OR REPLACE INTO snapshot VALUES (?,?,?,?,?)", (policy, *snapshot))
            write.execute(
                "DELETE FROM snapshot WHERE policy=?1 AND seq < (SELECT min(seq) FROM"
                " (SELECT seq FROM snapshot WHERE policy=?1 ORDER BY seq DESC LIMIT 3))",
                (policy,),
            )

        await self._written(work)

    async def meet(self, worker: str, url: str) -> Sequence[tuple[str, str]]:
        """Return this server alone: the file is its own."""
        return [(worker, url)]

    async def part(self, worker: str) -> None:
        """Nothing is noted of servers."""

    async def facts(self) -> Mapping[str, str | int | float]:
        """Return what an operator wants to know of the store."""
        status, journal = os.statvfs(self.path.parent), self.path.with_name(f"{self.path.name}-wal")
        return {
            "kind": "sqlite",
            "file": self.path.name,
            "bytes": self.path.stat().st_size,
            "journal_bytes": journal.stat().st_size if journal.exists() else 0,
            "disk_free": status.f_bavail / max(status.f_blocks, 1),
            "synchronous": self.synchronous,
        }

    async def check(self) -> list[str]:
        """Return what SQLite finds wrong with the file."""
        try:
            found = [row[0] for row in await self._all("PRAGMA integrity_check")]
        except StoreError as error:
            if not error.damaged:
                raise
            found = [str(error)]
        return [] if found == ["ok"] else found

    async def backup(self, target: str) -> None:
        """Write a copy that can be opened, while a server goes on writing; only its owner may read it."""

        def copy() -> None:
            with self._reader() as source:
                goal = sqlite3.connect(target, isolation_level=None)
                try:
                    source.backup(goal, pages=1024)
                finally:
                    goal.close()

        try:
            os.close(os.open(target, os.O_CREAT | os.O_EXCL | os.O_WRONLY, OWNER_ONLY))
        except FileExistsError:
            raise StoreError(f"{target} is there already") from None
        except OSError as error:
            raise StoreError(f"{target} cannot be written: {error.strerror}") from None
        await asyncio.to_thread(copy)


class _SqliteGroup:
    """A group on a log that has no other writer."""

    missed: Sequence[Event] = ()

    def __init__(self, store: SqliteStore, policy: int, at: int, found: Mapping[str, History]) -> None:
        self._store, self._policy, self._base = store, policy, at
        self.now, self.head, self.found = clock.steady(), at, found

    async def find(self, keys: Sequence[str]) -> Mapping[str, History]:
        """Return the histories of decisions."""
        return await self._store.history(self._policy, keys)

    async def stay(self) -> None:
        """Nothing can be lost."""

    async def leave(self) -> None:
        """Nothing is held."""

    def commit(self, write: Write) -> Awaitable[None]:
        """Hand the group to the writer; groups are written in the order of these calls."""
        loop = asyncio.get_running_loop()
        future: asyncio.Future[None] = loop.create_future()
        policy, base = self._policy, self._base
        if write.strays:
            self._store._strayed.add(policy)

        def work(connection: sqlite3.Connection) -> int:
            _insert(connection, policy, write)
            return base + len(write.events)

        def settle(_: Any, problem: BaseException | None) -> None:
            with contextlib.suppress(RuntimeError):  # the loop is closed: no one waits any more
                loop.call_soon_threadsafe(_settle, future, problem)

        self._store._put((work, settle, policy, base))
        return future


def _settle(future: asyncio.Future[None], problem: BaseException | None) -> None:
    if not future.done():
        if problem is None:
            future.set_result(None)
        else:
            future.set_exception(problem)


def _resolve(waiting: Any, value: Any, problem: BaseException | None) -> None:
    if not isinstance(waiting, Future):
        waiting(value, problem)
    elif waiting.set_running_or_notify_cancel():  # else the caller has gone
        if problem is None:
            waiting.set_result(value)
        else:
            waiting.set_exception(problem)


def _insert(connection: sqlite3.Connection, policy: int, write: Write) -> None:
    """Write a group's rows, many with one statement: each statement takes the interpreter's lock once."""
    rows = write.events
    for start in range(0, len(rows), _MOST):
        some = rows[start : start + _MOST]
        marks = ",".join(["(?,?,?,?,?,?,?,?)"] * len(some))
        values = [value for event in some for value in (policy, *event)]
        connection.execute(f"INSERT INTO event({_EVENT}) VALUES {marks}", values)
    if rows:
        connection.execute("UPDATE policy SET head=? WHERE id=?", (rows[-1].seq, policy))
    for stray in write.strays:
        connection.execute("INSERT INTO stray VALUES (?,?,?,?,?,?)", (policy, *stray))
    for key in write.adopted:
        connection.execute("DELETE FROM stray WHERE policy=? AND key=? AND fate='orphan'", (policy, key))
    for name, value in write.counts.items():
        connection.execute(
            "INSERT INTO counter VALUES (?,?,?,?) ON CONFLICT DO UPDATE SET value=value+excluded.value",
            (policy, write.minute, name, value),
        )
