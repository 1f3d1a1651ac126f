"""Peers: other servers of the same store, and the requests that are handed to the one that serves their policy.

Every server could answer every request; but two that write to one log wait for each other, so that a policy has one
server as long as that one answers. Who it is follows from the names alone; a wrong or old idea of it costs time only.
"""

from __future__ import annotations

import asyncio
import contextlib
import hashlib
import secrets
import time
from collections import Counter
from collections.abc import Mapping
from urllib.parse import urlsplit

from msgspec import UNSET
from msgspec.structs import replace

from armtriage.service import clock
from armtriage.service.messages import Decide, DecideBatch, Message, encode, read
from armtriage.service.step import UNLOGGED, Reply, new_id
from armtriage.service.stores import Store, StoreError

HANDED = b"x-armtriage-handed"
"""The header of a request that another server hands over, which is not handed on; its answer says what to count."""

_PATIENCE = 0.5  # seconds that a peer has for an answer
_SHUNNED = 2.0  # seconds for which one that had none is not asked
_IDLE = 64  # connections to a peer that are kept
_NOT_THERE = (503, b'"starting"'), (404, b'"not_found"')
_SMALL = 2**16  # bytes of an answer's head
_Connection = tuple[asyncio.StreamReader, asyncio.StreamWriter]


class Peers:
    """The servers of a store that can be reached; none, if this one has no address itself.

    Parameters
    ----------
    store : Store
        What the servers share.
    url : str, optional
        Where the others reach this one.
    """

    def __init__(self, store: Store, url: str | None) -> None:
        if url is not None:
            parts = urlsplit(url)
            if parts.scheme != "http" or not parts.hostname or parts.path.strip("/"):
                raise ValueError(f"url must be http://HOST:PORT, got {url!r}")
        self._store, self.url = store, url
        self.id = secrets.token_hex(8)
        self._urls: dict[str, str] = {}
        self._owners: dict[str, str] = {}  # by policy
        self._shunned: dict[str, float] = {}
        self._idle: dict[str, list[_Connection]] = {}

    async def meet(self) -> None:
        """Say that this server is there, and see who else is."""
        if self.url is not None:
            found = dict(await self._store.meet(self.id, self.url))
            if found != self._urls:
                self._urls, self._owners = found, {}
            for gone in self._idle.keys() - set(found.values()):
                for _, writer in self._idle.pop(gone):
                    writer.close()

    async def part(self) -> None:
        """Say that this server is going."""
        if self.url is not None:
            self._urls, self._owners = {}, {}
            for _, writer in (one for some in self._idle.values() for one in some):
                writer.close()
            with contextlib.suppress(StoreError):
                await self._store.part(self.id)

    def owner(self, policy: str) -> str | None:
        """Return the server of a policy; None if it is this one, or does not answer."""
        if len(self._urls) < 2:
            return None
        chosen = self._owners.get(policy)
        if chosen is None:
            chosen = self._owners[policy] = max(self._urls, key=lambda one: _weight(policy, one))
        return None if chosen == self.id or self._shunned.get(chosen, 0.0) > time.monotonic() else chosen

    async def hand_over(
        self, owner: str, path: str, key: bytes | None, body: bytes
    ) -> tuple[Reply | None, Counter[str] | None]:
        """Return the answer of another server, or None if this one must answer, and what to count of it.

        If this one must answer, and the other may have answered, too, there is a counter for what both count.
        """
        try:
            async with asyncio.timeout(_PATIENCE):
                reply, counts = await self._ask(self._urls[owner], path, key, body)
        except (OSError, EOFError, ValueError, KeyError, TimeoutError) as error:
            self._shunned[owner] = time.monotonic() + _SHUNNED
            return None, None if isinstance(error, ConnectionRefusedError) else Counter()
        # One that still loads the policy, or has not seen yet that it was made, is not the one to ask.
        absent = any(reply.status == status and code in reply.body for status, code in _NOT_THERE)
        return (None, None) if absent else (reply, counts)

    async def _ask(self, url: str, path: str, key: bytes | None, body: bytes) -> tuple[Reply, Counter[str]]:
        idle = self._idle.setdefault(url, [])
        address = urlsplit(url)
        while idle and idle[-1][0].at_eof():  # the other has closed it, since it was not used for long
            idle.pop()[1].close()
        reader, writer = idle.pop() if idle else await asyncio.open_connection(address.hostname, address.port or 80)
        try:
            head = [f"POST {path} HTTP/1.1\r\nhost: {address.netloc}\r\n".encode(), HANDED, b": 1\r\n"]
            if key is not None:
                head += [b"authorization: ", key, b"\r\n"]
            writer.write(b"".join([*head, b"content-length: %d\r\n\r\n" % len(body), body]))
            status, headers = _head_of(await reader.readuntil(b"\r\n\r\n"))
            reply = Reply(status, await reader.readexactly(int(headers[b"content-length"])))
            counts = _counts_in(headers.get(HANDED, b""))
        except BaseException:
            writer.close()
            raise
        if headers.get(b"connection") != b"close" and len(idle) < _IDLE:
            idle.append((reader, writer))
        else:
            writer.close()
        return reply, counts


def _weight(policy: str, server: str) -> bytes:
    return hashlib.blake2b(f"{policy} {server}".encode(), digest_size=8).digest()


def named(kind: type[Message], body: bytes) -> bytes:
    """Return a request in which every decision has an id, so that no second one is made in the end."""
    if kind is Decide:
        return encode(_with_id(read(Decide, body or b"{}")))
    if kind is DecideBatch:
        return encode(DecideBatch(requests=[_with_id(one) for one in read(DecideBatch, body).requests]))
    return body


def _with_id(request: Decide) -> Decide:
    return replace(request, id=new_id(clock.steady(), secrets.token_bytes(5))) if request.id is UNSET else request


def counts_header(counts: Mapping[str, int]) -> list[tuple[bytes, bytes]]:
    """Return the header that tells another server what to count of the request that it handed over, if anything."""
    some = ",".join(f"{name}={count}" for name, count in counts.items() if count)
    return [(HANDED, some.encode())] if some else []


def _counts_in(text: bytes) -> Counter[str]:
    """Return what a header of `counts_header` says."""
    found = (one.partition("=") for one in text.decode("ascii").split(",") if one)
    return Counter({name: int(count) for name, _, count in found if name in UNLOGGED})


def _head_of(head: bytes) -> tuple[int, dict[bytes, bytes]]:
    """Return status and headers of an answer."""
    first, *lines = head[:_SMALL].split(b"\r\n")
    pairs = (line.partition(b":") for line in lines if line)
    headers = {name.strip().lower(): value.strip().lower() for name, _, value in pairs}
    return int(first.split(b" ", 2)[1]), headers
