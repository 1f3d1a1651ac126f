"""The store in a PostgreSQL database, for any number of servers: the lock on a policy's row is the end of its log."""

from __future__ import annotations

import asyncio
import contextlib
from collections.abc import AsyncIterator, Awaitable, Iterator, Mapping, Sequence
from typing import Any, TypeAlias

import psycopg
from psycopg import errors
from psycopg.conninfo import conninfo_to_dict, make_conninfo
from psycopg_pool import AsyncConnectionPool, PoolTimeout

from armtriage.service import clock
from armtriage.service.crash import point
from armtriage.service.events import Event, History
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
from armtriage.service.stores.wire import Statement, prepare, round_trip, rows, texts, values, whole, wholes

Connection: TypeAlias = psycopg.AsyncConnection[tuple[Any, ...]]

_MIGRATING = 4711  # the advisory lock under which tables are made
_OLDEST = 140000
_ANSWER = 5.0  # seconds after which an answer is not waited for any more
_EVENTS = "seq, kind, key, turn, number, at, body"
_MISSED = 2000  # events that are read while the log is locked; a server that lacks more reads them before
_LATELY = 6_000_000  # microseconds after which a server that says nothing is taken for gone
_DURABLE = """SELECT set_config('synchronous_commit', CASE said WHEN 'off' THEN 'on' ELSE said END, false)
FROM current_setting('synchronous_commit') AS said"""
_NOW = "(extract(epoch FROM clock_timestamp()) * 1000000)::bigint"
# The room that events leave on a page is counted in the order in which they are read.
_PAGED = f"""SELECT {_EVENTS} FROM (
  SELECT {_EVENTS}, sum(octet_length(body)) OVER (ORDER BY seq) - octet_length(body) AS before
  FROM (SELECT {_EVENTS} FROM event WHERE policy = %s AND seq > %s ORDER BY seq LIMIT %s) AS following
) AS counted WHERE before < {PAGE} ORDER BY seq"""
_GROUP = {  # what a group says, by name
    "begin": "BEGIN",
    "lock": f"SELECT head, {_NOW} FROM policy WHERE id = $1 FOR NO KEY UPDATE",
    # Each statement sees what was committed when it began, so this one sees all that the lock waited for.
    "missed": _PAGED % ("$1", "$2", "$3"),
    "events": f"SELECT {_EVENTS} FROM event WHERE policy = $1 AND key = ANY($2) ORDER BY key, turn",
    "strays": "SELECT key, turn, at, fate, body FROM stray WHERE policy = $1 AND key = ANY($2) ORDER BY key, turn",
    "insert": f"""INSERT INTO event(policy, {_EVENTS}) SELECT $1, * FROM unnest(
  $2::bigint[], $3::bigint[], $4::text[], $5::bigint[], $6::bigint[], $7::bigint[], $8::bytea[])""",
    "head": "UPDATE policy SET head = $2 WHERE id = $1",
    "stray": """INSERT INTO stray(policy, key, turn, at, fate, body)
SELECT $1, * FROM unnest($2::text[], $3::bigint[], $4::bigint[], $5::text[], $6::bytea[])""",
    "adopt": "DELETE FROM stray WHERE policy = $1 AND fate = 'orphan' AND key = ANY($2)",
    "count": """INSERT INTO counter SELECT $1, $2, * FROM unnest($3::text[], $4::bigint[])
ON CONFLICT (policy, minute, name) DO UPDATE SET value = counter.value + excluded.value""",
    "stay": "SELECT 1",
    "commit": "COMMIT",
    "rollback": "ROLLBACK",
}
_OF_EVENT, _OF_STRAY = "iitiiib", "tiitb"  # the kinds of their columns
# The statement sees the table as it was, so the server itself is added to what it finds.
_MEET = f"""WITH own AS (
  INSERT INTO worker VALUES (%s, %s, {_NOW})
  ON CONFLICT (id) DO UPDATE SET url = excluded.url, seen = excluded.seen RETURNING id, url
), others AS (SELECT id, url FROM worker WHERE seen > {_NOW} - %s AND id NOT IN (SELECT id FROM own)
), gone AS (DELETE FROM worker WHERE seen < {_NOW} - %s)
SELECT id, url FROM own UNION ALL SELECT id, url FROM others"""
# A server that was stopped while it was sent an answer is not idle, and holds the log; one at work says something.
_END_OLD = """SELECT pg_terminate_backend(pid) FROM pg_stat_activity WHERE application_name = 'armtriage'
AND datname = current_database() AND pid <> pg_backend_pid() AND xact_start < clock_timestamp() - interval '3 s'
AND state_change < clock_timestamp() - interval '3 s'"""


class PostgresStore(Store):
    """A database that any number of servers share; see `Store`.

    Parameters
    ----------
    address : str
        As libpq takes it: ``postgresql://user:password@host/database``.
    connections : int
        The most that this process opens.
    """

    depth, shared = 1, True
    problem = ""  # a connection that breaks is replaced

    def __init__(self, address: str, *, connections: int = 10) -> None:
        given = {"connect_timeout": 2, "keepalives_idle": 5, "keepalives_interval": 2, **conninfo_to_dict(address)}
        fixed = {"application_name": "armtriage", "client_encoding": "utf8"}
        self._address = make_conninfo(**{**given, **fixed})  # type: ignore[arg-type]
        self._pool: AsyncConnectionPool[Connection] = AsyncConnectionPool(
            self._address,
            min_size=1,
            max_size=connections,
            open=False,
            timeout=1.0,
            reconnect_timeout=10.0,
            # What is used often is prepared by name; with statements of its own psycopg would forget those, too.
            kwargs={"autocommit": True, "prepare_threshold": None},
            configure=_configure,
        )

    async def open(self) -> None:
        """Make or migrate the tables; refuse a server that is too old, or that does not wait for its disk."""
        try:
            async with await psycopg.AsyncConnection.connect(self._address, autocommit=True) as connection:
                await _check(connection)
                await _migrate(connection)
        except (psycopg.Error, OSError) as error:
            raise _failure(error) from error
        await self._pool.open()

    async def close(self) -> None:
        """Close all connections."""
        await self._pool.close(timeout=2.0)

    @contextlib.asynccontextmanager
    async def _connection(self) -> AsyncIterator[Connection]:
        """Lend a connection for something short; a failure, or no answer in time, is a `StoreError`."""
        try:
            async with asyncio.timeout(_ANSWER), self._pool.connection() as connection:
                yield connection
        except (psycopg.Error, PoolTimeout, OSError, TimeoutError) as error:
            raise _failure(error) from error

    async def _all(self, statement: str, values: Sequence[Any] = ()) -> list[tuple[Any, ...]]:
        async with self._connection() as connection:
            cursor = await connection.execute(statement.replace("?", "%s"), values, binary=True)
            return await cursor.fetchall()

    async def _change(self, statement: str, values: Sequence[Any]) -> tuple[list[tuple[Any, ...]], int]:
        async with self._connection() as connection:
            cursor = await connection.execute(statement.replace("?", "%s"), values, binary=True)
            return await cursor.fetchall() if cursor.description else [], cursor.rowcount

    async def now(self) -> int:
        """Return the database's time."""
        ((now,),) = await self._all(f"SELECT {_NOW}")
        return int(now)

    async def begin(self, policy: int, at: int, keys: Sequence[str]) -> Group:
        """Lock the end of the log, and read what came since: in one round trip."""
        try:
            connection = await self._pool.getconn()
        except (psycopg.Error, PoolTimeout, OSError) as error:
            raise _failure(error) from error
        try:
            async with asyncio.timeout(_ANSWER):
                group = await _begin(self, connection, policy, at, keys)
        except BaseException as error:
            await self._back(connection, broken=True)
            if isinstance(error, errors.LockNotAvailable | errors.QueryCanceled):
                with contextlib.suppress(StoreError):
                    await self._all(_END_OLD)
            if isinstance(error, psycopg.Error | OSError | TimeoutError):
                raise _failure(error) from error
            raise
        return group

    async def _back(self, connection: Connection, broken: bool = False) -> None:
        """Give a connection back; one in an unknown state is closed first."""
        if broken:
            with contextlib.suppress(psycopg.Error, OSError):
                await connection.close()
        await self._pool.putconn(connection)

    async def drop(self, policy: int) -> None:
        """Delete a policy with all that belongs to it."""
        # On a connection of its own: this may take longer than others may.
        async with await psycopg.AsyncConnection.connect(self._address) as connection:
            await connection.execute("DELETE FROM policy WHERE id = %s", (policy,))
            for table in ("event", "stray", "snapshot", "counter"):
                await connection.execute(f"DELETE FROM {table} WHERE policy = %s", (policy,))

    async def read(self, policy: int, after: int, limit: int) -> Sequence[Event]:
        """Return events after a place in the log, oldest first."""
        rows = await self._all(_PAGED, (policy, after, limit))
        return [Event._make(row) for row in rows]

    async def history(self, policy: int, keys: Sequence[str]) -> Mapping[str, History]:
        """Return the histories of decisions."""
        async with self._connection() as connection:
            return await _find(connection, policy, keys)

    async def forget_orphans(self, policy: int, age: int) -> int:
        """Delete orphans that are older than this many microseconds, and return how many."""
        old = f"DELETE FROM stray WHERE policy = %s AND fate = 'orphan' AND at < {_NOW} - %s"
        return (await self._change(old, (policy, age)))[1]

    async def snapshots(self, policy: int) -> Sequence[Snapshot]:
        """Return the snapshots, newest first."""
        rows = await self._all(
            "SELECT seq, version, sha256, payload FROM snapshot WHERE policy = %s ORDER BY seq DESC", (policy,)
        )
        return [Snapshot._make(row) for row in rows]

    async def put_snapshot(self, policy: int, snapshot: Snapshot) -> None:
        """Keep a snapshot, and of those before it two; of a policy that is deleted none."""
        async with self._connection() as connection, connection.transaction():
            # The lock keeps the policy from being deleted meanwhile, and no group from its end.
            await connection.execute(
                "INSERT INTO snapshot SELECT id, %s, %s, %s, %s FROM policy WHERE id = %s FOR KEY SHARE"
                " ON CONFLICT DO NOTHING",
                (*snapshot, policy),
            )
            await connection.execute(
                "DELETE FROM snapshot WHERE policy = %s AND seq NOT IN"
                " (SELECT seq FROM snapshot WHERE policy = %s ORDER BY seq DESC LIMIT 3)",
                (policy, policy),
            )

    async def meet(self, worker: str, url: str) -> Sequence[tuple[str, str]]:
        """Note that a server is there, and return the names and addresses of all that have been seen recently."""
        rows = await self._all(_MEET, (worker, url, _LATELY, 100 * _LATELY))
        return [(str(name), str(address)) for name, address in rows]

    async def part(self, worker: str) -> None:
        """Forget a server."""
        await self._change("DELETE FROM worker WHERE id = %s", (worker,))

    async def facts(self) -> Mapping[str, str | int | float]:
        """Return what an operator wants to know of the store."""
        ((version, size),) = await self._all(
            "SELECT current_setting('server_version'), pg_database_size(current_database())"
        )
        return {"kind": "postgresql", "server_version": str(version), "bytes": int(size)}

    async def check(self) -> list[str]:
        """Nothing: what PostgreSQL keeps it checks itself."""
        return []

    async def backup(self, target: str) -> None:
        """Refuse: PostgreSQL has its own way."""
        raise StoreError("a PostgreSQL store is copied by pg_dump, or by the backups that the database has anyway")


async def _configure(connection: Connection) -> None:
    """Let no server hold a log, or wait for one, for long, nor be told of what a crash could undo."""
    # Said for each connection: the database's own setting may be changed at any time.
    await connection.execute(_DURABLE)
    await connection.execute("SET statement_timeout = '5s'")
    await connection.execute("SET lock_timeout = '4s'")
    await connection.execute("SET idle_in_transaction_session_timeout = '1500ms'")
    await prepare(connection, _GROUP)


async def _check(connection: Connection) -> None:
    if connection.info.server_version < _OLDEST:
        raise StoreError(f"PostgreSQL must be version 14 or newer, got {connection.info.server_version // 10000}")
    for setting in ("synchronous_commit", "fsync"):
        row = await (await connection.execute(f"SHOW {setting}")).fetchone()
        if row is None or row[0] == "off":
            raise StoreError(f"PostgreSQL has {setting} off: what it has stored could be lost")


async def _migrate(connection: Connection) -> None:
    steps = migrations("postgres")
    async with connection.transaction():
        await connection.execute("SELECT pg_advisory_xact_lock(%s)", (_MIGRATING,))
        await connection.execute("CREATE TABLE IF NOT EXISTS schema_version (version bigint PRIMARY KEY, at bigint)")
        row = await (await connection.execute("SELECT coalesce(max(version), 0) FROM schema_version")).fetchone()
        version = int(row[0]) if row is not None else 0
        if version > max(steps):
            raise StoreError(f"the database has tables of version {version}; this program knows {max(steps)}")
        for number, text in steps.items():
            if number > version:
                await connection.execute(text)
                await connection.execute("INSERT INTO schema_version VALUES (%s, %s)", (number, clock.wall()))


async def _begin(
    store: PostgresStore, connection: Connection, policy: int, at: int, keys: Sequence[str]
) -> _PostgresGroup:
    own = whole(policy)
    said: list[Statement] = [("begin", ()), ("lock", (own,)), ("missed", (own, whole(at), whole(_MISSED)))]
    _, lock, missed, *histories = await round_trip(connection, [*said, *_finding(policy, keys)] if keys else said)
    row = rows(lock, "ii")
    if not row:
        raise PolicyGone
    head, now = row[0]
    others = [Event._make(one) for one in rows(missed, _OF_EVENT)]
    return _PostgresGroup(store, connection, policy, head, now, others, _found(*histories) if keys else {})


async def _find(connection: Connection, policy: int, keys: Sequence[str]) -> dict[str, History]:
    return _found(*await round_trip(connection, _finding(policy, keys)))


def _finding(policy: int, keys: Sequence[str]) -> list[Statement]:
    given = whole(policy), texts(keys)
    return [("events", given), ("strays", given)]


def _found(events: Any, strays: Any) -> dict[str, History]:
    return gather(rows(events, _OF_EVENT), rows(strays, _OF_STRAY))


def _writing(policy: int, write: Write) -> Iterator[Statement]:
    """Yield what stores a group and lets its lock go."""
    own = whole(policy)
    if write.events:
        seq, kind, key, turn, number, at, body = zip(*write.events, strict=True)
        columns = (wholes(seq), wholes(kind), texts(key), wholes(turn), wholes(number), wholes(at), values(body))
        yield "insert", (own, *columns)
        yield "head", (own, whole(seq[-1]))
    if write.strays:
        key, turn, at, fate, body = zip(*write.strays, strict=True)
        yield "stray", (own, texts(key), wholes(turn), wholes(at), texts(fate), values(body))
    if write.adopted:
        yield "adopt", (own, texts(write.adopted))
    if write.counts:
        counted = texts(list(write.counts)), wholes(list(write.counts.values()))
        yield "count", (own, whole(write.minute), *counted)
    yield "commit", ()


class _PostgresGroup:
    """A group that holds the lock on its policy's row."""

    def __init__(
        self,
        store: PostgresStore,
        connection: Connection,
        policy: int,
        head: int,
        now: int,
        missed: Sequence[Event],
        found: Mapping[str, History],
    ) -> None:
        self._store, self._connection, self._policy = store, connection, policy
        self.now, self.head, self.missed, self.found = now, head, missed, found
        self._ended = False

    async def find(self, keys: Sequence[str]) -> Mapping[str, History]:
        """Return the histories of decisions."""
        return _found(*await self._ask(_finding(self._policy, keys)))

    async def _ask(self, statements: Sequence[Statement]) -> list[Any]:
        """Return answers in the middle of the group's transaction."""
        try:
            async with asyncio.timeout(_ANSWER):
                return await round_trip(self._connection, statements)
        except (psycopg.Error, OSError, TimeoutError) as error:
            await self._end(broken=True)
            raise _failure(error) from error

    async def _end(self, broken: bool) -> None:
        """Give the connection back, once."""
        if not self._ended:
            self._ended = True
            await self._store._back(self._connection, broken=broken)

    async def stay(self) -> None:
        """Say something: a connection that is silent in a transaction is closed by the database."""
        await self._ask([("stay", ())])

    async def leave(self) -> None:
        """Let the lock go."""
        if self._ended:
            return
        try:
            async with asyncio.timeout(_ANSWER):
                await round_trip(self._connection, [("rollback", ())])
        except (psycopg.Error, OSError, TimeoutError):
            await self._end(broken=True)
        else:
            await self._end(broken=False)

    def commit(self, write: Write) -> Awaitable[None]:
        """Write all and let the lock go, in one round trip."""
        return self._commit(write)

    async def _commit(self, write: Write) -> None:
        connection, events = self._connection, write.events
        broken = True
        try:
            async with asyncio.timeout(_ANSWER):
                if events and events[0].seq != self.head + 1:
                    raise StoreError(f"event {events[0].seq} does not follow on {self.head}")
                point("after-begin")
                await round_trip(connection, list(_writing(self._policy, write)))
                broken = connection.info.transaction_status != psycopg.pq.TransactionStatus.IDLE
                if broken:
                    raise StoreError("the transaction did not end")
            point("after-commit")
        except (psycopg.Error, OSError, TimeoutError) as error:
            raise _failure(error) from error
        finally:
            await self._end(broken)


def _failure(error: BaseException) -> StoreError:
    """Return a driver's failure in our words, without the address, which may hold a password."""
    full, damaged = isinstance(error, errors.DiskFull), isinstance(error, errors.DataCorrupted | errors.IndexCorrupted)
    said = str(error).splitlines()[0] if str(error) else ""
    return StoreError(f"PostgreSQL: {type(error).__name__}: {said}", full, damaged)
