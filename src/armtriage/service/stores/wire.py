"""A round trip to PostgreSQL with several prepared statements: all are sent at once, and then all answers are read.

psycopg's own pipeline waits for the socket before each statement, which is a turn of the event loop, and a fifth of the
processor time of an event.
"""

from __future__ import annotations

import struct
from collections.abc import Callable, Generator, Mapping, Sequence
from functools import partial
from typing import Any, TypeVar

import psycopg
from psycopg import errors, pq
from psycopg.waiting import Ready, Wait

Connection = psycopg.AsyncConnection[Any]
Said = TypeVar("Said")
_Talk = Generator[Wait, Ready | int, Said]
Statement = tuple[str, Sequence[bytes]]
"""The name of a statement, and what it is given."""

_BYTEA, _INT8, _TEXT = 17, 20, 25
_BINARY = 1
_HEAD = struct.Struct("!iiIii")
_SIZE = struct.Struct("!i")
_MISSING = _SIZE.pack(-1)
_WHOLE = struct.Struct("!q")
_DONE = (pq.ExecStatus.TUPLES_OK, pq.ExecStatus.COMMAND_OK)
whole = _WHOLE.pack


def _array(kind: int, parts: Sequence[bytes | None]) -> bytes:
    """Return an array of one dimension in the database's own form."""
    if not parts:
        return struct.pack("!iiI", 0, 0, kind)
    out = [_HEAD.pack(1, int(None in parts), kind, len(parts), 1)]
    for part in parts:
        out += [_MISSING] if part is None else [_SIZE.pack(len(part)), part]
    return b"".join(out)


def wholes(numbers: Sequence[int | None]) -> bytes:
    """Return an array of whole numbers."""
    return _array(_INT8, [None if number is None else _WHOLE.pack(number) for number in numbers])


def texts(some: Sequence[str]) -> bytes:
    """Return an array of texts."""
    return _array(_TEXT, [one.encode() for one in some])


def values(some: Sequence[bytes]) -> bytes:
    """Return an array of bytes."""
    return _array(_BYTEA, some)


def rows(result: Any, kinds: str) -> list[tuple[Any, ...]]:
    """Return the rows of an answer, with None for what is missing.

    `kinds` has a letter for each column: i for whole numbers, t for texts, b for bytes.
    """
    read = [_READ[kind] for kind in kinds]
    return [
        tuple(None if (value := result.get_value(row, column)) is None else of(value) for column, of in enumerate(read))
        for row in range(result.ntuples)
    ]


_READ: Mapping[str, Callable[[bytes], Any]] = {
    "i": lambda value: _WHOLE.unpack(value)[0],
    "t": bytes.decode,
    "b": bytes,
}


async def prepare(connection: Connection, statements: Mapping[str, str]) -> None:
    """Let a connection know statements, by name."""
    server = connection.pgconn
    sends = [partial(server.send_prepare, name.encode(), text.encode()) for name, text in statements.items()]
    await connection.wait(_talk(server, sends))


async def round_trip(connection: Connection, statements: Sequence[Statement]) -> list[Any]:
    """Send statements, and return their answers; if one fails, none after it is done, and its error is raised."""
    server = connection.pgconn
    sends = [
        partial(server.send_query_prepared, name.encode(), given, [_BINARY] * len(given), _BINARY)
        for name, given in statements
    ]
    return await connection.wait(_talk(server, sends))


def _talk(server: Any, sends: Sequence[Callable[[], None]]) -> _Talk[list[Any]]:
    server.enter_pipeline_mode()
    for send in sends:
        send()
    server.pipeline_sync()
    while server.flush():
        # Answers may have to be read before the database takes more.
        if (yield Wait.RW) & Ready.R:
            server.consume_input()
    results = []
    for _ in sends:
        results.append((yield from _result(server)))
        yield from _result(server)  # None: there are no more of this statement
    yield from _result(server)  # of the end
    server.exit_pipeline_mode()
    for result in results:
        if result is None:
            raise psycopg.OperationalError("the connection was closed")
        if result.status not in _DONE:
            raise errors.error_from_result(result)
    return results


def _result(server: Any) -> _Talk[Any]:
    while server.is_busy():
        yield Wait.R
        server.consume_input()
    return server.get_result()
