"""What clients do to a connection: none of it fails, hangs, or is answered twice."""

from __future__ import annotations

import asyncio
import os
import random
import re
import subprocess
import sys
from contextlib import contextmanager, suppress

import pytest

from conftest import score
from service.calls import run

pytestmark = pytest.mark.skipif(os.name != "posix", reason="stops a server by a signal")

_SERVER = """
import sys
from armtriage.service import asgi, connection, server
from armtriage.service.stores import SqliteStore
connection.SILENCE, asgi.SLOWEST, server._IDLE = map(float, sys.argv[2:])
server.run(SqliteStore(sys.argv[1]), "127.0.0.1", 0, lambda _, port: print(port, flush=True))
"""
HOST = b"host: 127.0.0.1\r\n"
CREATE, DECIDE, HEALTH = b"/v1/policies", b"/v1/policies/slate/decisions", b"/healthz"
SLATE = b'{"name": "slate", "arms": ["tea", "milk", "jam"], "budget": 2}'


def _get(path, more=b"connection: close\r\n", method=b"GET", version=b"1.1"):
    return method + b" " + path + b" HTTP/" + version + b"\r\n" + HOST + more + b"\r\n"


def _post(path, body, more=b"", length=None, version=b"1.1"):
    size = len(body) if length is None else length
    head = b"POST " + path + b" HTTP/" + version + b"\r\n" + HOST + more
    return head + b"content-length: %d\r\n\r\n" % size + body


def _chunked(path, *pieces, more=b"connection: close\r\n"):
    head = b"POST " + path + b" HTTP/1.1\r\n" + HOST + more + b"transfer-encoding: chunked\r\n\r\n"
    return head + b"".join(pieces)


@contextmanager
def _serving(folder, *limits):
    """Serve with these seconds for a head, a body, and between two requests."""
    command = [sys.executable, "-c", _SERVER, str(folder / "decisions.db"), *map(str, limits)]
    process = subprocess.Popen(command, stdout=subprocess.PIPE, stderr=subprocess.PIPE, text=True)
    yield int(process.stdout.readline())
    process.terminate()
    said = process.communicate(timeout=120)[1]
    assert process.returncode == 0
    assert "Traceback" not in said
    assert "Invalid HTTP" not in said  # strangers do not fill the log


@pytest.fixture(scope="module")
def hasty(tmp_path_factory):
    """A server that closes what waits for a moment, without a policy."""
    with _serving(tmp_path_factory.mktemp("hasty"), 0.5, 0.4, 0.5) as port:
        yield port


@pytest.fixture(scope="module")
def port(tmp_path_factory):
    """A server that is patient: on a busy machine the pieces of a request may come seconds apart."""

    async def begin():
        assert b"201" in await _said(port, _post(CREATE, SLATE), eof=True)
        while b"200 OK" not in await _said(port, _get(b"/readyz")):
            await asyncio.sleep(0.05)

    with _serving(tmp_path_factory.mktemp("connection"), 100, 100, 100) as port:
        run(begin)
        yield port


async def _said(port, *pieces, eof=False, pause=0.0):
    """Send pieces, and return all that comes until the server closes the connection, which it must do."""
    async with asyncio.timeout(90):
        reader, writer = await asyncio.open_connection("127.0.0.1", port)
        try:
            for piece in pieces:
                writer.write(piece)
                await asyncio.sleep(pause)
            if eof:
                writer.write_eof()
            return await reader.read()
        finally:
            writer.close()


async def _heard(port, *pieces, **more):
    """Return the same, or nothing where the server has closed the connection before all was sent."""
    try:
        return await _said(port, *pieces, **more)
    except TimeoutError:
        raise
    except OSError:
        return b""


def _statuses(said):
    return [int(status) for status in re.findall(rb"HTTP/1\.1 (\d{3}) ", said)]


LONG = b"10000\r\n" + b" " * 2**16 + b"\r\n"
RAW = {
    "pipelined": ([_post(DECIDE, b"{}") * 3 + _get(HEALTH) + _get(HEALTH)], [201, 201, 201, 200]),
    "pipelined up to the last": ([_post(DECIDE, b"{}") * 3 + _get(HEALTH)], [201, 201, 201, 200]),
    "byte by byte": ([bytes([one]) for one in _post(DECIDE, b"{}", b"connection: close\r\n")], [201]),
    "chunked": ([_chunked(DECIDE, b'5\r\n{"id"\r\n5\r\n:"c1"\r\n1\r\n}\r\n0\r\n\r\n')], [201]),
    "no size": ([_chunked(DECIDE, b"zz\r\n{}\r\n0\r\n\r\n")], [400]),
    "a size beyond all": ([_chunked(DECIDE, b"f" * 18 + b"\r\n{}\r\n0\r\n\r\n")], [400]),
    "two megabytes in chunks": ([_chunked(DECIDE, LONG * 30, b"0\r\n\r\n", more=b"")], [413]),
    "chunks and a length": (
        [_chunked(DECIDE, b"0\r\n\r\nGET /x HTTP/1.1\r\n\r\n", more=b"content-length: 2\r\n")],
        [400],
    ),
    "two lengths": ([_post(DECIDE, b"{} ", b"content-length: 2\r\n")], [400]),
    "a length that is too short": ([_post(DECIDE, b"{}GARBAGE", length=2)], [400]),
    "a negative length": ([_post(DECIDE, b"{}", length=-1)], [400]),
    "a length beyond all": ([_post(DECIDE, b"{}", length=10**24)], [400]),
    "a terabyte to come": ([_post(DECIDE, b"{}", length=10**12)], [413]),
    "a length that is too long": ([_post(DECIDE, b"{}", length=9)], [408]),
    "HTTP/1.0": ([_post(DECIDE, b"{}", version=b"1.0")], [201]),
    "HTTP/0.9": ([b"GET /healthz\r\n"], []),
    "HTTP/2": ([b"PRI * HTTP/2.0\r\n\r\nSM\r\n\r\n"], [400]),
    "TLS": ([b"\x16\x03\x01\x02\x00\x01\x00\x01\xfc\x03\x03" + bytes(100)], [400]),
    "100-continue": ([_post(DECIDE, b"", b"expect: 100-continue\r\nconnection: close\r\n", 2), b"{}"], [100, 201]),
    "no 100 for what is too large": ([_post(DECIDE, b"", b"expect: 100-continue\r\n", 2 * 10**6)], [413]),
    "HEAD": ([_get(b"/", b"", b"HEAD") + _get(HEALTH, method=b"HEAD")], [200, 405]),
    "a method of tea": ([_get(HEALTH, method=b"BREW")], [400]),
    "an upgrade": ([_get(HEALTH, b"connection: upgrade\r\nupgrade: h2c\r\n")], [200]),
    "a name in other letters": ([_post(b"/v1/policies/sl%61te/decisions", b"{}", b"connection: close\r\n")], [201]),
    "an encoded slash": ([_post(b"/v1/policies/sl%2Fate/decisions", b"{}", b"connection: close\r\n")], [404]),
    "no UTF-8": ([_get(b"/v1/policies/%ff%fe")], [404]),
    "a raw letter beyond ASCII": ([_get("/v1/policies/ä".encode())], [400]),
    "a long name": ([_get(b"/v1/policies/" + b"a" * 60_000)], [404]),
    "a decision named NUL": ([_get(DECIDE + b"/%00")], [404]),
    "a host from elsewhere": (
        [b"GET /v1/policies HTTP/1.1\r\n" + HOST + b"host: evil\r\nconnection: close\r\n\r\n"],
        [403],
    ),
    "a body that nests too deep": (
        [_post(b"/dashboard/session", b"[" * 4000, b"x-armtriage: 1\r\nconnection: close\r\n")],
        [400],
    ),
    "a head of 70 kB at once": ([_get(HEALTH, b"x: " + b"a" * 70_000 + b"\r\n")], [400]),
    "a head of many lines at once": ([_get(HEALTH, b"x: y\r\n" * 12_000)], [400]),
    "an address of 70 kB at once": ([b"GET /" + b"a" * 70_000 + b" HTTP/1.0\r\n\r\n"], [400]),
    "a head without end": ([b"GET / HTTP/1.1\r\nx: ", *[b"a" * 10_000] * 8], [400]),
    "a head of 60 kB": ([_get(HEALTH, b"connection: close\r\nx: " + b"a" * 60_000 + b"\r\n")], [200]),
    "a long body, and half of the next head": (
        [_post(DECIDE, b"{}" + b" " * 100_000) + _get(HEALTH)[:9], _get(HEALTH)[9:]],
        [201, 200],
    ),
    "a trailer that names another host": (
        [_chunked(DECIDE, b"2\r\n{}\r\n0\r\nhost: evil\r\n\r\n")],
        [201],
    ),
    "a trailer that brings a key": (
        [_chunked(DECIDE, b"2\r\n{}\r\n0\r\norigin: http://evil\r\nauthorization: Bearer at_0\r\n\r\n")],
        [201],
    ),
    "trailers of 200 kB": ([_chunked(DECIDE, b"2\r\n{}\r\n0\r\n" + b"x: y\r\n" * 34_000 + b"\r\n")], [201]),
    "lines without returns": ([b"GET /healthz HTTP/1.1\nhost: 127.0.0.1\n\n"], [400]),
}


# What the server ends, since nothing more comes, and what the client does.
WAITED_FOR = [
    "a length that is too long", "a terabyte to come", "no 100 for what is too large", "an upgrade", "HTTP/0.9", "HEAD",
]  # fmt: skip
ENDED = "two megabytes in chunks"


@pytest.mark.parametrize("name", RAW)
def test_whatever_comes_has_its_answer_and_an_end(request, name):
    port, (pieces, statuses) = request.getfixturevalue("hasty" if name in WAITED_FOR else "port"), RAW[name]

    async def work():
        said = await _said(port, *pieces, pause=0.002 if len(pieces) > 1 else 0, eof=name == ENDED)
        assert _statuses(said) == statuses
        assert _statuses(await _said(port, _get(HEALTH))) == [200]

    run(work)


def test_who_has_sent_all_and_only_listens_is_answered(port):
    """A client may close its half of the connection after its last request; in the middle of one it has given up."""

    async def work():
        assert _statuses(await _said(port, _post(DECIDE, b'{"id": "half"}') * 3, eof=True)) == [201, 200, 200]
        assert _statuses(await _said(port, _post(DECIDE, b'{"id":', length=20), eof=True)) == []
        again = await _said(port, _post(DECIDE, b'{"id": "half"}', b"connection: close\r\n"))
        assert _statuses(again) == [200]

    run(work)


@pytest.mark.parametrize("rest", [b"", b" ", b" " * 9])
@pytest.mark.parametrize("path", [b"/nothing", DECIDE])
def test_the_rest_of_a_body_that_was_answered_before_keeps_no_connection(hasty, path, rest):
    """Refused at once, or for being slow; then a byte or all of the rest comes, and nothing more."""

    async def work():
        async with asyncio.timeout(90):
            reader, writer = await asyncio.open_connection("127.0.0.1", hasty)
            writer.write(_post(path, b"", length=9))
            said = await reader.readuntil(b"\r\n\r\n")
            writer.write(rest)
            with suppress(ConnectionResetError):  # it was closed before the rest came
                said += await reader.read()
            writer.close()
        assert _statuses(said) == [404 if path == b"/nothing" else 408]

    run(work)


def test_clients_that_leave_at_once_leave_nothing_behind(port):
    async def work():
        for number in range(30):
            _, writer = await asyncio.open_connection("127.0.0.1", port)
            writer.write(_post(DECIDE, b'{"id": "gone-%d"}' % number))
            writer.transport.abort()
        said = [await _said(port, _post(DECIDE, b'{"id": "gone-%d"}' % number), eof=True) for number in range(30)]
        assert {status for one in said for status in _statuses(one)} <= {200, 201}
        assert len({re.search(rb'"number":(\d+)', one)[1] for one in said}) == 30

    run(work)


WHOLE = [
    _post(CREATE, SLATE, b"connection: close\r\n"),
    _post(DECIDE, b'{"id": "m:1", "exclude": ["tea"]}', b"connection: close\r\n"),
    _post(
        b"/v1/policies/slate/rewards", b'{"decision": "m:1", "hits": ["jam"], "last": false}', b"connection: close\r\n"
    ),
    _chunked(DECIDE, b"2\r\n{}\r\n0\r\nx: y\r\nhost: evil\r\n\r\n"),
    _post(
        b"/dashboard/session", b'{"key": "x"}', b"x-armtriage: 1\r\nx-forwarded-for: 1.2.3.4\r\nconnection: close\r\n"
    ),
    _get(b"/dashboard/page?path=/policies/slate&page=1"),
    _get(b"/v1/policies/slate/export.parquet?after=-1&limit=3"),
]
PARTS = [b"\r\n", b"\r\n\r\n", b" ", b":", b"\x00", b"\xff", b"0", b"-1", b"%", b"{", b'"', b"content-length: 5\r\n",
         b"transfer-encoding: chunked\r\n", b"host: evil\r\n", b"expect: 100-continue\r\n", b"a" * 70_000]  # fmt: skip


def _mutated(chance):
    """Return a request that has lost, doubled or got something somewhere, in pieces."""
    text = chance.choice(WHOLE)
    for _ in range(chance.randrange(1, 4)):
        start = chance.randrange(len(text))
        stop = min(start + chance.choice([0, 0, 1, 2, 20]), len(text))
        text = text[:start] + chance.choice([*PARTS, b"", text[start:stop] * 2]) + text[stop:]
    cuts = sorted(chance.randrange(len(text) + 1) for _ in range(chance.randrange(3)))
    return [text[start:stop] for start, stop in zip([0, *cuts], [*cuts, len(text)], strict=True)]


def _play_mutated(port, many, seed):
    async def work():
        chance = random.Random(seed)
        for _ in range(0, many, 100):
            some = [_mutated(chance) for _ in range(100)]
            for pieces, said in zip(
                some, await asyncio.gather(*(_heard(port, *one, eof=True) for one in some)), strict=True
            ):
                assert set(_statuses(said)) <= {100, 200, 201, 400, 401, 403, 404, 405, 408, 409, 413, 422, 429}, pieces
            assert _statuses(await _said(port, _get(HEALTH))) == [200]

    run(work)


def test_requests_that_were_damaged_have_an_answer_or_an_end(port):
    _play_mutated(port, 200, 7)


@pytest.mark.long
def test_requests_that_were_damaged_have_an_answer_or_an_end_for_long(port):
    _play_mutated(port, 20_000, 11)
    score("damaged requests as bytes", 20_000, "an answer below 500 or an end")


CUT = [
    "pipelined up to the last", "chunked", "no size", "chunks and a length", "two lengths", "a head of 70 kB at once",
    "a head of 60 kB", "a trailer that names another host", "trailers of 200 kB", "a host from elsewhere",
    "lines without returns",
]  # fmt: skip


@pytest.mark.parametrize("name", CUT)
def test_a_request_means_the_same_however_it_is_cut(port, name):
    """What one read has and the next has not must decide nothing: limits and trailers once did."""
    pieces, statuses = RAW[name]
    text, chance = b"".join(pieces), random.Random(name)

    async def work():
        cuts = [sorted(chance.randrange(1, len(text)) for _ in range(3)) for _ in range(10)]
        cut = [[text[a:b] for a, b in zip([0, *some], [*some, len(text)], strict=True)] for some in cuts]
        for said in await asyncio.gather(*(_heard(port, *one, pause=0.01) for one in cut)):
            # The same id again is 200; a refusal can be lost to a client that goes on writing.
            found = [201 if status == 200 and 201 in statuses else status for status in _statuses(said)]
            assert found == [201 if status == 200 and 201 in statuses else status for status in statuses] or (
                statuses == [400] and not said
            )

    run(work)
