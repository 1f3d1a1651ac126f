"""The service as an ASGI application: limits, keys and routes, and nothing of its own beside them."""

from __future__ import annotations

import asyncio
from collections import Counter
from collections.abc import Awaitable, Mapping
from urllib.parse import parse_qsl

from armtriage.service.asgi import Receive, Scope, Send, body_of, client_of, send_pieces, send_whole, whole_number
from armtriage.service.dashboard import session
from armtriage.service.dashboard.site import Site
from armtriage.service.peers import HANDED, counts_header, named
from armtriage.service.protocol import WHOLE
from armtriage.service.refusal import Refused, quoted
from armtriage.service.routes import JSON, ROUTES, Call, Route, Stream
from armtriage.service.service import Service
from armtriage.service.step import Reply

LARGEST = 2**20  # bytes of a body
_SAFE = (b"x-content-type-options", b"nosniff")


class App:
    """The service for an ASGI server such as uvicorn; its lifespan opens and closes the store."""

    def __init__(self, service: Service) -> None:
        self.service = service
        self.site = Site(service)
        self._by_parts: dict[tuple[str, ...], dict[str, Route]] = {}
        for route in ROUTES:
            self._by_parts.setdefault(_shape(route.path), {})[route.method] = route

    async def __call__(self, scope: Scope, receive: Receive, send: Send) -> None:
        """Answer a request."""
        if scope["type"] == "http":
            if self.site.owns(scope["path"]):
                await self.site(scope, receive, send)
            else:
                await self._answer(scope, receive, send)
        elif scope["type"] == "lifespan":
            await self._live(receive, send)
        else:
            await send({"type": "websocket.close", "code": 1000})

    async def _live(self, receive: Receive, send: Send) -> None:
        while True:
            message = await receive()
            if message["type"] == "lifespan.startup":
                try:
                    await self.service.start()
                except Exception as error:
                    await send({"type": "lifespan.startup.failed", "message": str(error)})
                    return
                await send({"type": "lifespan.startup.complete"})
            else:
                await self.service.stop()
                await send({"type": "lifespan.shutdown.complete"})
                return

    async def _answer(self, scope: Scope, receive: Receive, send: Send) -> None:
        kind, more, route, handed = JSON.encode(), [], None, False
        apart: Counter[str] | None = None
        try:
            route, name, key = self._find(scope)
            handed, authorization = self._admit(route, scope)
            apart = Counter() if handed else None
            body = await body_of(receive, LARGEST, whole=WHOLE in scope) if route.takes is not None else b""
            if body is None:
                return
            query = _query(route, scope["query_string"])
            if name and name not in self.service.loops:
                await self.service.seek(name)
            reply: Reply | Stream | None = None
            if route.handed and not handed and name in self.service.loops:
                body, reply, apart = await self._hand_over(route, name, authorization, body)
            if reply is None:
                work = route.handler(Call(self.service, name, key, query, body, authorization, apart))
                reply = await (_unless_gone(work, receive) if handed else work)
            if reply is None:
                return
            if isinstance(reply, Stream):
                self._count(route, 200)
                headers = [(b"content-type", reply.kind.encode()), (b"cache-control", b"no-store"), _SAFE]
                await send_pieces(reply.pieces, headers, receive, send)
                return
            status, body = reply
            more = [(b"retry-after", b"1")] if status in (429, 503, 507) else []
            media = route.answers.get(status)
            if isinstance(media, str):
                kind = media.encode()
        except Exception as error:
            refused = self.service.refusal(error, scope)
            status, body, more = refused.status, refused.body(), _headers_of(refused, scope, self._by_parts)
        if apart:
            if handed:
                more = [*more, *counts_header(apart)]
            else:
                # Another server may have answered, too: then it is a repetition of itself.
                sure = {what: count for what, count in apart.items() if count and what not in ("duplicate", "repeated")}
                await self._count_unlogged(name, sure)
        self._count(route, status)
        await send_whole(send, status, [(b"content-type", kind), _SAFE, *more], body)

    def _count(self, route: Route | None, status: int) -> None:
        asked = "unknown" if route is None else route.scope or "public"
        self.service.metrics.answers[asked, status] += 1

    async def _hand_over(
        self, route: Route, name: str, key: bytes | None, body: bytes
    ) -> tuple[bytes, Reply | None, Counter[str] | None]:
        """Return the body, the answer of the policy's server, if that is another, and a counter if two may answer."""
        service, owner = self.service, self.service.peers.owner(name)
        if owner is None or route.takes is None:
            return body, None, None
        body = named(route.takes, body)
        reply, counts = await service.peers.hand_over(owner, route.path.replace("{name}", name), key, body)
        if reply is None:
            return body, None, counts
        service.metrics.counts[name]["handed"] += 1
        await self._count_unlogged(name, counts)
        return body, reply, None

    async def _count_unlogged(self, name: str, counts: Mapping[str, int] | None) -> None:
        """Count what leaves no event: the server that a client asked does so, for it alone sees each request once."""
        loop = self.service.loops.get(name)
        if counts and loop is not None:
            await loop.count(counts)

    def _find(self, scope: Scope) -> tuple[Route, str, str]:
        """Return the route of a request, and what stands in its path."""
        parts = scope["path"].split("/")
        name = key = ""
        if len(parts) > 3 and parts[1] == "v1" and parts[2] == "policies":
            name, parts[3] = parts[3], "{name}"
            if len(parts) > 5 and parts[4] == "decisions" and not (parts[5] == "batch" and scope["method"] == "POST"):
                key, parts[5:] = "/".join(parts[5:]), ["{id}"]  # ids may have slashes
        found = self._by_parts.get(tuple(parts))
        if found is None:
            raise Refused("not_found", "There is no such address; /openapi.json lists them all.")
        route = found.get(scope["method"])
        if route is None:
            text = f"This address takes {', '.join(sorted(found))}, not {quoted(scope['method'])}."
            raise Refused("method", text)
        return route, name, key

    def _admit(self, route: Route, scope: Scope) -> tuple[bool, bytes | None]:
        """Refuse whom the keys do not let in; return whether another server handed it over, and the key."""
        authorization = origin = None
        length, handed, host = -1, False, b""
        for header, value in scope["headers"]:
            if header == b"authorization":
                authorization = value
            elif header == b"content-length":
                length = int(value) if value.isdigit() else -1
            elif header == b"host":
                host = value
            elif header == b"origin":
                origin = value
            elif header == HANDED:
                handed = True
        access = self.service.access
        if authorization is None and not access.open:
            authorization = _signed_in(scope)
        if route.scope is not None:
            access.admit(authorization, route.scope, client_of(scope))
        if access.open and not (
            session.is_local(host) and (origin is None or session.is_local(origin.partition(b"://")[2]))
        ):
            # Without keys a page from elsewhere could make a browser on this machine ask, also by a name of its own
            # that leads here.
            raise Refused("forbidden", "Without keys the service is for this machine only, as 127.0.0.1.")
        if length > LARGEST:
            raise Refused("too_large")
        return handed, authorization


async def _unless_gone(work: Awaitable[Reply | Stream], receive: Receive) -> Reply | Stream | None:
    """Return an answer, unless the server that handed the request over is gone: it answers itself by now."""
    answer, gone = asyncio.ensure_future(work), asyncio.ensure_future(receive())
    try:
        await asyncio.wait([answer, gone], return_when=asyncio.FIRST_COMPLETED)
        return await answer if answer.done() else None
    finally:
        answer.cancel()
        gone.cancel()


def _signed_in(scope: Scope) -> bytes | None:
    """Return the key of the dashboard's cookie; other than for reading it counts only from the dashboard's own page."""
    key = session.key_of(scope["headers"])
    if key is None or (scope["method"] != "GET" and all(name != session.MARK for name, _ in scope["headers"])):
        return None
    return b"Bearer " + key


def _shape(path: str) -> tuple[str, ...]:
    return tuple(path.split("/"))


def _query(route: Route, text: bytes) -> Mapping[str, int]:
    """Return the numbers that the address gives, or their defaults; refuse others."""
    if not route.query:
        return {}
    found = {name: one.default for name, one in route.query.items()}
    for name, value in parse_qsl(text.decode("ascii", "replace"), keep_blank_values=True):
        if name not in found:
            raise Refused("invalid", f"the address takes {', '.join(found)}, not {quoted(name)}")
        one = route.query[name]
        digits = whole_number(value.removeprefix("-"), 19)
        if digits is None or not one.least <= int(value) <= one.most:
            span = f"a whole number from {one.least} to {one.most}"
            raise Refused("invalid", f"{name} must be {span}, got {quoted(value)}")
        found[name] = int(value)
    return found


def _headers_of(
    refused: Refused, scope: Scope, routes: Mapping[tuple[str, ...], Mapping[str, Route]]
) -> list[tuple[bytes, bytes]]:
    more = []
    if refused.retry is not None:
        more.append((b"retry-after", b"%d" % refused.retry))
    if refused.status == 401:
        more.append((b"www-authenticate", b"Bearer"))
    if refused.status == 405:
        allowed = {method for shape, of in routes.items() if _fits(shape, scope["path"].split("/")) for method in of}
        more.append((b"allow", ", ".join(sorted(allowed)).encode()))
    return more


def _fits(shape: tuple[str, ...], parts: list[str]) -> bool:
    return len(shape) == len(parts) and all(
        one == other or one.startswith("{") for one, other in zip(shape, parts, strict=True)
    )
