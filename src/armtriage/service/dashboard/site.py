"""The dashboard over HTTP: the page, the facts that it asks for, and a stream of what changes."""

from __future__ import annotations

import asyncio
import csv
import io
from collections.abc import AsyncGenerator, Mapping
from typing import Any, NamedTuple
from urllib.parse import parse_qsl

from armtriage import __version__
from armtriage.service import clock
from armtriage.service.asgi import (
    Receive,
    Scope,
    Send,
    body_of,
    client_of,
    header_of,
    send_pieces,
    send_whole,
    whole_number,
)
from armtriage.service.dashboard import session
from armtriage.service.dashboard.facts import Facts
from armtriage.service.dashboard.items import table
from armtriage.service.dashboard.page import HEADERS, as_json, headers, render
from armtriage.service.dashboard.recorder import Recorder
from armtriage.service.keys import SCOPES, new_key
from armtriage.service.messages import plain
from armtriage.service.refusal import Refused, quoted, said
from armtriage.service.service import Service
from armtriage.service.stores import StoreError

_OWN = "/dashboard/"
_PAGES = ("/", "/keys", "/system")
_LISTENERS = 100
_FIELDS = 16  # of an address, after its question mark
_LARGEST = 4096  # bytes of a body


class Answer(NamedTuple):
    """An answer."""

    status: int
    body: bytes
    headers: list[tuple[bytes, bytes]]


class Who(NamedTuple):
    """Who looks: not known yet, everyone while there is no key, or the holder of one."""

    scopes: frozenset[str]
    label: str
    open: bool

    def facts(self) -> dict[str, Any]:
        """Return it for the page."""
        return {"scopes": sorted(self.scopes), "label": self.label, "open": self.open, "signed": bool(self.label)}


class Site:
    """Answers browsers; what a page changes goes through the service's own addresses."""

    def __init__(self, service: Service) -> None:
        self.service = service
        self.recorder = Recorder(service)
        self.facts = Facts(service, self.recorder)

    @staticmethod
    def owns(path: str) -> bool:
        """Whether an address is one of the dashboard's."""
        return path in _PAGES or path.startswith((_OWN, "/policies/"))

    async def __call__(self, scope: Scope, receive: Receive, send: Send) -> None:
        """Answer a request."""
        self.recorder.start()
        try:
            if scope["path"] == f"{_OWN}stream":
                kind = b"content-type", b"text/event-stream"
                await send_pieces(self._pieces(scope), [kind, *HEADERS], receive, send)
                return
            answer = await self._answer(scope, receive)
        except Exception as error:
            refused = self.service.refusal(error, scope)
            retry = [] if refused.retry is None else [(b"retry-after", b"%d" % refused.retry)]
            answer = Answer(refused.status, refused.body(), [*_JSON, *retry])
        self.service.metrics.answers["dashboard", answer.status] += 1
        await send_whole(send, answer.status, answer.headers, answer.body, silent=scope["method"] == "HEAD")

    async def _answer(self, scope: Scope, receive: Receive) -> Answer:
        path, method = scope["path"], scope["method"]
        if not path.startswith(_OWN):
            if method not in ("GET", "HEAD"):
                raise Refused("method")
            return Answer(200, render(await self._page(scope)), headers())
        what, _, name = path.removeprefix(_OWN).partition("/")
        if what == "session" and method in ("POST", "DELETE"):
            return await self._sign(scope, receive)
        if what == "keys" and method in ("POST", "DELETE"):
            return await self._change_keys(scope, receive, name)
        if method != "GET":
            raise Refused("method")
        who, chosen = self._who(scope), _query(scope)
        if what == "page":
            return _json(await self._page({**scope, "path": chosen.get("path", "/")}))
        _require(who, "read")
        if what == "items" and name:
            return _json(await self.facts.items(name, chosen))
        if what == "items.csv" and name:
            view = await self.facts.view(self.service.loop(name))
            if view is None:
                raise Refused("starting")
            text = await asyncio.to_thread(lambda: csv_of(table(view)))
            kept = (b"content-disposition", b'attachment; filename="items.csv"')
            return Answer(200, text, [(b"content-type", b"text/csv; charset=utf-8"), kept, *HEADERS])
        raise Refused("not_found", "There is no such address.")

    async def _page(self, scope: Scope) -> dict[str, Any]:
        """Return all that a page shows, and who may do what."""
        who, path, chosen = self._who(scope), scope["path"], _query(scope)
        facts: dict[str, Any] = {
            "who": who.facts(),
            "version": __version__,
            "now": clock.wall() // 1000,
            "page": "policies",
            "live": True,
        }
        if "read" not in who.scopes:
            return facts | {"page": "sign-in", "wanted": path, "reason": "key" if not who.label else "scope"}
        try:
            if path == "/keys":
                allowed = "admin" in who.scopes
                return facts | {"page": "keys", "keys": await self.facts.keys() if allowed else None}
            if path == "/system":
                return facts | {"page": "system", "system": await self.facts.system()}
            if path.startswith("/policies/"):
                name = path.removeprefix("/policies/")
                facts |= {"page": "policy", "name": name, "known": name in self.service.loops}
                if facts["known"]:
                    facts["policy"] = await self.facts.policy(name, chosen)
                return facts
            return facts | {"policies": await self.facts.policies(whole_number(chosen.get("page", "0"), 4) or 0)}
        except StoreError as error:
            return facts | {"failed": error.kind}

    def _who(self, scope: Scope) -> Who:
        """Return who asks, by the key of the cookie or of the header."""
        access = self.service.access
        if access.open:
            if not session.is_local(header_of(scope, b"host") or b""):
                # Another site's name that leads to this machine would let its pages read this one.
                raise Refused("forbidden", "Without keys the dashboard is for this machine only, as 127.0.0.1.")
            return Who(frozenset(SCOPES), "", True)
        given, key = header_of(scope, b"authorization"), session.key_of(scope["headers"])
        if given is None and key is None:
            return Who(frozenset(), "", False)
        try:
            row = access.holder(given or b"Bearer " + (key or b""), client_of(scope))
        except Refused as refused:
            if refused.status == 429:
                raise
            return Who(frozenset(), "", False)
        return Who(frozenset(row.scopes.split(",")), row.label or row.id, False)

    async def _sign(self, scope: Scope, receive: Receive) -> Answer:
        """Keep a key in a cookie, or forget it."""
        _same_origin(scope)
        if scope["method"] == "DELETE":
            return Answer(200, b"{}", [(b"set-cookie", session.no_cookie()), *_JSON])
        given = (await _object_in(receive)).get("key")
        key = given.strip() if isinstance(given, str) else ""
        row = self.service.access.holder(b"Bearer " + key.encode("ascii", "replace"), client_of(scope))
        if "read" not in row.scopes.split(","):
            raise Refused("forbidden", "The key may not read; one with the scope read is needed.")
        kept = session.cookie(key, header_of(scope, b"x-forwarded-proto") == b"https")
        assert kept is not None
        return Answer(200, b"{}", [(b"set-cookie", kept), *_JSON])

    async def _change_keys(self, scope: Scope, receive: Receive, name: str) -> Answer:
        """Make a key, or revoke one."""
        _same_origin(scope)
        _require(self._who(scope), "admin")
        store = self.service.store
        if scope["method"] == "DELETE":
            if not await store.revoke_key(name, clock.wall()):
                raise Refused("not_found", "There is no such key.")
            self.service.access.update(await store.keys())
            return _json({})
        body = await _object_in(receive)
        scopes, label, rate = body.get("scopes"), body.get("label", ""), body.get("rate", 100)
        if (
            not (isinstance(scopes, list) and isinstance(label, str) and len(label) <= 64)
            or isinstance(rate, bool)
            or not isinstance(rate, int | float)
        ):
            text = "a key has a list of scopes, a label of up to 64 characters, and a number as rate"
            raise Refused("invalid", f"{text}, got {quoted([scopes, label, rate])}")
        try:
            text, row = new_key([str(one) for one in scopes], label, float(rate))
        except (ValueError, OverflowError) as error:
            raise Refused("invalid", said(error)) from None
        await store.put_key(row)
        self.service.access.update(await store.keys())
        return _json({"key": text, "id": row.id})

    def _pieces(self, scope: Scope) -> AsyncGenerator[bytes]:
        """Return what changes, a document a second; a second without news has a word, too: silence means trouble."""
        service, name = self.service, _query(scope).get("policy", "")
        _require(self._who(scope), "read")
        if name:
            service.loop(name)
        if service.watchers >= _LISTENERS:
            raise Refused("busy", f"{_LISTENERS} listeners are the most.")

        async def pieces() -> AsyncGenerator[bytes]:
            service.watchers += 1
            try:
                last = b""
                yield b"retry: 1000\n\n"
                while not service.leaving and (not name or name in service.loops) and "read" in self._who(scope).scopes:
                    made = await self.facts.live(name)
                    same = _without_time(made) == last
                    last = _without_time(made)
                    yield b"event: tick\ndata: {}\n\n" if same else b"event: facts\ndata: %s\n\n" % made
                    await asyncio.sleep(1.0)
            finally:
                service.watchers -= 1

        return pieces()


_JSON = [(b"content-type", b"application/json"), *HEADERS]


def _json(facts: Any) -> Answer:
    return Answer(200, as_json(facts), list(_JSON))


def _without_time(made: bytes) -> bytes:
    """Return a document without the time at which it was made."""
    before, _, after = made.partition(b'"now":')
    return before + after.partition(b",")[2]


async def _object_in(receive: Receive) -> dict[str, Any]:
    found = plain(await body_of(receive, _LARGEST) or b"{}")
    if not isinstance(found, dict):
        raise Refused("invalid")
    return found


def _query(scope: Scope) -> Mapping[str, str]:
    try:
        return dict(parse_qsl(scope["query_string"].decode("utf-8", "replace")[:2000], max_num_fields=_FIELDS))
    except ValueError:
        raise Refused("invalid", f"The address may have {_FIELDS} fields.") from None


def _require(who: Who, wanted: str) -> None:
    if wanted not in who.scopes:
        raise Refused("forbidden" if who.label else "unauthorized")


def _same_origin(scope: Scope) -> None:
    """Refuse what another page sends."""
    found = dict(scope["headers"])
    origin, host = found.get(b"origin"), found.get(b"host", b"")
    if session.MARK not in found or (origin is not None and origin.partition(b"://")[2] != host):
        raise Refused("forbidden", "Only the dashboard's own page may do this.")


def csv_of(rows: Any) -> bytes:
    r"""Return rows as a file for spreadsheets, in which no name can be taken for a formula.

    Examples
    --------
    >>> csv_of([("item", "mean"), ("=1+1", 0.5)])
    b"item,mean\r\n'=1+1,0.5\r\n"
    """
    text = io.StringIO()
    writer = csv.writer(text)
    for row in rows:
        writer.writerow([f"'{one}" if isinstance(one, str) and one[:1] in "=+-@\t" and one else one for one in row])
    return text.getvalue().encode()
