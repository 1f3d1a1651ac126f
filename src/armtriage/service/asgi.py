"""ASGI, as far as the service and its dashboard need it: bodies within limits, and answers at once or in pieces."""

from __future__ import annotations

import asyncio
import contextlib
import logging
from collections.abc import AsyncGenerator, Awaitable, Callable, MutableMapping, Sequence
from typing import Any

from armtriage.service.logs import note
from armtriage.service.refusal import Refused

SLOWEST = 5.0
"""Seconds that a body may take."""

Scope = MutableMapping[str, Any]
Receive = Callable[[], Awaitable[MutableMapping[str, Any]]]
Send = Callable[[MutableMapping[str, Any]], Awaitable[None]]
Headers = Sequence[tuple[bytes, bytes]]


def header_of(scope: Scope, name: bytes) -> bytes | None:
    """Return a header of a request, the first if there are several."""
    return next((value for one, value in scope["headers"] if one == name), None)


def client_of(scope: Scope) -> str:
    """Return the address of a client, as far as it is known."""
    return str(scope["client"][0]) if scope.get("client") else ""


def whole_number(text: str, digits: int) -> int | None:
    """Return the number that an address gives, of so many digits at most; None for anything else.

    Examples
    --------
    >>> [whole_number(one, 4) for one in ("12", "-1", "²", "12345")]
    [12, None, None, None]
    """
    return int(text) if text.isascii() and text.isdigit() and len(text) <= digits else None


async def body_of(receive: Receive, largest: int, *, whole: bool = False) -> bytes | None:
    """Return the body, for which the client has some seconds if it is not there yet; None if the client has gone."""
    pieces, size, more = list[bytes](), 0, True
    try:
        async with contextlib.nullcontext() if whole else asyncio.timeout(SLOWEST):
            while more:
                message = await receive()
                if message["type"] == "http.disconnect":
                    return None
                pieces.append(message.get("body", b""))
                size += len(pieces[-1])
                if size > largest:
                    raise Refused("too_large")
                more = message.get("more_body", False)
    except TimeoutError:
        raise Refused("slow") from None
    return b"".join(pieces)


async def send_whole(send: Send, status: int, headers: Headers, body: bytes, *, silent: bool = False) -> None:
    """Send an answer; one to HEAD is `silent`, and says only how long it would be."""
    length = b"content-length", b"%d" % len(body)
    await send({"type": "http.response.start", "status": status, "headers": [*headers, length]})
    await send({"type": "http.response.body", "body": b"" if silent else body})


async def send_pieces(pieces: AsyncGenerator[bytes], headers: Headers, receive: Receive, send: Send) -> None:
    """Send pieces until there are no more, or the client goes."""
    await send({"type": "http.response.start", "status": 200, "headers": [*headers]})

    async def gone() -> None:
        while (await receive())["type"] != "http.disconnect":
            pass

    async def all_pieces() -> None:
        async for piece in pieces:
            await send({"type": "http.response.body", "body": piece, "more_body": True})
        await send({"type": "http.response.body", "body": b""})

    tasks = [asyncio.ensure_future(one()) for one in (all_pieces, gone)]
    try:
        await asyncio.wait(tasks, return_when=asyncio.FIRST_COMPLETED)
    finally:
        for task in tasks:
            task.cancel()
        for problem in await asyncio.gather(*tasks, return_exceptions=True):
            if isinstance(problem, Exception):
                note(logging.WARNING, "stream_ended", f"A stream ended early: {problem}")
        await pieces.aclose()
