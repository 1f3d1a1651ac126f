"""The table of routes: it drives the server and its OpenAPI document, so that they cannot differ."""

from __future__ import annotations

import asyncio
from collections import Counter
from collections.abc import AsyncGenerator, Awaitable, Callable, Mapping, Sequence
from types import MappingProxyType
from typing import Any, NamedTuple

import msgspec

from armtriage.service import parquet, views
from armtriage.service.events import DECISION
from armtriage.service.messages import (
    Answer,
    Answers,
    ArmsChange,
    ArmsChangeAnswer,
    Create,
    Decide,
    DecideBatch,
    Fates,
    Message,
    Results,
    Reward,
    RewardBatch,
    Status,
    StatusAnswer,
    encode,
    is_id,
    read,
)
from armtriage.service.metrics import write_text
from armtriage.service.refusal import Refused, quoted
from armtriage.service.service import Service
from armtriage.service.state import PolicyState
from armtriage.service.step import Reply

JSON = "application/json"
_LISTENERS = 100
_HEARTBEAT = 15  # seconds without news after which a stream says that it lives


class Call(NamedTuple):
    """A request, as far as a handler needs it."""

    service: Service
    name: str  # of the policy, where the path has one
    id: str  # of the decision, where the path has one
    query: Mapping[str, int]
    body: bytes
    authorization: bytes | None = None  # the key, for what takes so long that it may be revoked
    apart: Counter[str] | None = None  # what `UNLOGGED` counts go to, if another server may answer the same request


class Stream(NamedTuple):
    """An answer that is sent in pieces."""

    kind: str
    pieces: AsyncGenerator[bytes]


class Query(NamedTuple):
    """A whole number that may be given in the address."""

    default: int
    least: int
    most: int
    meaning: str


class Route(NamedTuple):
    """One address and method, who may use it, what it takes and answers."""

    method: str
    path: str
    scope: str | None
    handler: Callable[[Call], Awaitable[Reply | Stream]]
    summary: str
    takes: type[Message] | None
    answers: Mapping[int, Any]  # status: a type, or the media type of what is no JSON
    refusals: Sequence[str]
    query: Mapping[str, Query]
    handed: bool  # whether a server hands it to the one that serves the policy


_POLICY = "/v1/policies/{name}"
_STORE = ("store", "starting", "busy")
_BODY = ("malformed", "duplicate_key", "too_large", "slow", "invalid")
_OF_DECISIONS = (
    *("unknown_arm", "nothing_eligible", "unit_missing", "id_taken", "paused", "archived"),
    *("too_many_open", "unsound"),
)
_OF_REWARDS = (
    *("orphan", "unknown_decision", "conflict", "archived", "unknown_arm", "not_shown", "out_of_range"),
    *("too_many_rewards", "unsound"),
)
_AFTER = {"after": Query(0, 0, 2**53, "Only what comes after this event.")}
ROUTES: list[Route] = []
"""Every route; those that most requests take come first."""

_Handler = Callable[[Call], Awaitable[Reply | Stream]]


def route(
    method: str,
    path: str,
    scope: str | None,
    answers: Mapping[int, Any],
    *refusals: str,
    takes: type[Message] | None = None,
    query: Mapping[str, Query] = MappingProxyType({}),
    handed: bool = False,
) -> Callable[[_Handler], _Handler]:
    """Put a handler into the table, where its first line says what it does; `refusals` are those of its own."""
    codes = ["not_found"] if "{name}" in path else []
    codes += _BODY if takes is not None else ["invalid"] if query else []
    codes += [*refusals, *(["disk_full"] if takes is not None else []), *(_STORE if path.startswith("/v1/") else [])]

    def listed(handler: _Handler) -> _Handler:
        said = str(handler.__doc__)
        ROUTES.append(Route(method, path, scope, handler, said, takes, answers, codes, query, handed))
        return handler

    return listed


@route("POST", f"{_POLICY}/decisions", "decide", {201: Answer, 200: Answer}, *_OF_DECISIONS, takes=Decide, handed=True)
async def decide(call: Call) -> Reply:
    """Make a decision, or repeat the one with this id."""
    loop = call.service.loop(call.name)
    reply: Reply = await loop.submit("decide", (read(Decide, call.body or b"{}"),), apart=call.apart)
    return reply


@route("POST", f"{_POLICY}/rewards", "reward", {200: Fates}, *_OF_REWARDS, takes=Reward, handed=True)
async def reward(call: Call) -> Reply:
    """Tell rewards of a decision; the answer says what became of each."""
    loop = call.service.loop(call.name)
    try:
        request = read(Reward, call.body)
    except Refused:
        if call.apart is None:
            await loop.count({"rejected": 1})
        else:
            call.apart["rejected"] = 1
        raise
    return await loop.reward(request, apart=call.apart)


@route("POST", f"{_POLICY}/decisions/batch", "decide", {200: Answers}, *_OF_DECISIONS, takes=DecideBatch, handed=True)
async def decide_batch(call: Call) -> Reply:
    """Make up to 1,000 decisions, all or none."""
    requests = read(DecideBatch, call.body).requests
    made = await call.service.loop(call.name).submit("decide", requests, apart=call.apart)
    bodies = [made.body] if isinstance(made, Reply) else made
    return Reply(200, b'{"decisions":[' + b",".join(bodies) + b"]}")


@route("POST", f"{_POLICY}/rewards/batch", "reward", {200: Results}, takes=RewardBatch, handed=True)
async def reward_batch(call: Call) -> Reply:
    """Tell rewards of up to 1,000 decisions."""
    loop = call.service.loop(call.name)
    raw = read(RewardBatch, call.body).requests
    whole: list[Reward | Refused] = []
    for one in raw:
        try:
            whole.append(read(Reward, one))
        except Refused as refused:
            whole.append(refused)
    reply: Reply = await loop.submit("rewards", whole, apart=call.apart)
    return reply


@route("POST", "/v1/policies", "admin", {201: views.Made}, "unknown_arm", "name_taken", takes=Create)
async def create(call: Call) -> Reply:
    """Make a policy."""
    loop = await call.service.create(read(Create, call.body))
    return Reply(201, encode(views.made(loop)))


@route("GET", "/v1/policies", "read", {200: views.Policies})
async def policies(call: Call) -> Reply:
    """List the policies."""
    found = [await views.brief(call.service, loop) for loop in list(call.service.loops.values())]
    return Reply(200, encode(views.Policies(found)))


@route("GET", _POLICY, "read", {200: views.Full})
async def policy(call: Call) -> Reply:
    """Show a policy, and what is known for certain."""
    loop = call.service.loop(call.name)
    return Reply(200, encode(await views.full(call.service, loop)))


@route("PATCH", _POLICY, "admin", {200: StatusAnswer}, "archived", "window_missing", takes=Status)
async def status(call: Call) -> Reply:
    """Pause, resume or archive a policy, or change its control group."""
    return await call.service.loop(call.name).change(read(Status, call.body), _who(call))


@route("GET", f"{_POLICY}/decisions/{{id}}", "read", {200: views.DecisionView}, "unknown_decision")
async def decision(call: Call) -> Reply:
    """Show a decision and what came of it."""
    loop = call.service.loop(call.name)
    unknown = Refused("unknown_decision", f"There is no decision {quoted(call.id)}.")
    if not is_id(call.id):
        raise unknown
    known = (await call.service.store.history(loop.row.id, [call.id])).get(call.id)
    if known is None or not any(event.kind == DECISION for event in known.events):
        raise unknown
    return Reply(200, encode(await loop.look(lambda state: views.decision(state, known))))


@route("GET", f"{_POLICY}/arms", "read", {200: views.Arms})
async def arms(call: Call) -> Reply:
    """Show the arms and what is known of each."""
    found = await call.service.loop(call.name).look(views.arms)
    return Reply(200, encode(found))


@route("PATCH", f"{_POLICY}/arms", "admin", {200: ArmsChangeAnswer}, "unknown_arm", "archived", takes=ArmsChange)
async def change_arms(call: Call) -> Reply:
    """Add, retire and restore arms, all or nothing."""
    return await call.service.loop(call.name).change_arms(read(ArmsChange, call.body), _who(call))


@route("GET", f"{_POLICY}/digest", "read", {200: views.Digest})
async def digest(call: Call) -> Reply:
    """Show the digest of the state after an event."""
    loop = call.service.loop(call.name)
    head, make = await loop.look(lambda state: (state.head, state.freeze()))
    made = await asyncio.to_thread(
        lambda: PolicyState.from_bytes(loop.recipe, make()).digest()
    )  # a second for a million
    return Reply(200, encode(views.Digest(head, made)))


@route(
    "GET",
    f"{_POLICY}/events",
    "read",
    {200: "application/jsonl"},
    query=_AFTER | {"limit": Query(1000, 1, 10**9, "How many events at most.")},
)
async def events(call: Call) -> Stream:
    """Read the log, a line of JSON for each event."""
    loop, store = call.service.loop(call.name), call.service.store

    async def pieces() -> AsyncGenerator[bytes]:
        after, left = call.query["after"], call.query["limit"]
        while left > 0:
            some = await store.read(loop.row.id, after, min(left, 1000))
            if not some:
                break
            yield b"".join(encode(views.event(one)) + b"\n" for one in some)
            after, left = some[-1].seq, left - len(some)

    return Stream("application/jsonl", pieces())


@route(
    "GET",
    f"{_POLICY}/export.parquet",
    "read",
    {200: "application/vnd.apache.parquet"},
    "not_installed",
    query={
        "after": Query(-1, -1, 2**53, "Only decisions after this number."),
        "limit": Query(100_000, 1, 100_000, "How many decisions at most."),
    },
)
async def export(call: Call) -> Reply:
    """Read decisions and what was learnt from them as Parquet."""
    loop, query = call.service.loop(call.name), call.query
    state = await loop.look(parquet.State.of)
    return Reply(200, await parquet.export(call.service.store, loop.row, state, query["after"], query["limit"]))


@route("GET", f"{_POLICY}/stream", "read", {200: "text/event-stream"}, query=_AFTER)
async def stream(call: Call) -> Stream:
    """Listen to what changes: server-sent events."""
    service, loop = call.service, call.service.loop(call.name)
    if service.watchers >= _LISTENERS:
        raise Refused("busy", f"{_LISTENERS} listeners are the most")

    async def pieces() -> AsyncGenerator[bytes]:
        service.watchers += 1
        try:
            last, quiet = call.query["after"], 0
            yield b"retry: 1000\n\n"
            while not loop.gone and not service.leaving and service.access.holds(call.authorization, "read"):
                head = loop.state.head if loop.state is not None else last
                if head != last:
                    found = await views.full(service, loop)
                    last, quiet = found.head, 0
                    yield b"id: %d\nevent: policy\ndata: %s\n\n" % (last, encode(found))
                elif quiet >= _HEARTBEAT:
                    quiet = 0
                    yield b": alive\n\n"
                await asyncio.sleep(1.0)
                quiet += 1
        finally:
            service.watchers -= 1

    return Stream("text/event-stream", pieces())


@route(
    "GET",
    f"{_POLICY}/traffic",
    "read",
    {200: views.Traffic},
    query={"minutes": Query(60, 1, 1440, "How many minutes back.")},
)
async def traffic(call: Call) -> Reply:
    """Show counts by minute."""
    loop = call.service.loop(call.name)
    since = await call.service.store.now() // 60_000_000 - call.query["minutes"] + 1
    rows = await call.service.store.counters_by_minute(loop.row.id, since)
    return Reply(200, encode(views.traffic(rows)))


@route("GET", "/v1/system", "read", {200: views.System})
async def system(call: Call) -> Reply:
    """Show the store and how fast it is."""
    return Reply(200, encode(await views.system(call.service)))


@route("GET", "/healthz", None, {200: views.Live})
async def healthz(call: Call) -> Reply:
    """Say that the process runs."""
    return Reply(200, b'{"live":true}')


@route("GET", "/readyz", None, {200: views.Readiness, 503: views.Readiness})
async def readyz(call: Call) -> Reply:
    """Say whether all policies answer."""
    ready, said = call.service.readiness()
    return Reply(200 if ready else 503, msgspec.json.encode(said))


@route("GET", "/metrics", "read", {200: "text/plain; version=0.0.4"})
async def metrics(call: Call) -> Reply:
    """Read counters for Prometheus."""
    for loop in list(call.service.loops.values()):
        await call.service.viewer.view(loop)
    return Reply(200, write_text(call.service.families()))


@route("GET", "/openapi.json", None, {200: dict[str, Any]})
async def openapi(call: Call) -> Reply:
    """Read this document."""
    from armtriage.service.openapi import document

    return Reply(200, msgspec.json.encode(document()))


def _who(call: Call) -> str:
    """Return the name of the key that a request has; nothing, where none is needed."""
    return call.service.access.name_of(call.authorization)
