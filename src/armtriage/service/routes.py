"""The table of routes: it drives the server and its OpenAPI document, so that they cannot differ."""

from __future__ import annotations

import asyncio
from collections import Counter
from collections.abc import AsyncIterator, Awaitable, Callable, Mapping
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
    pieces: AsyncIterator[bytes]


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
    refusals: tuple[str, ...] = ()
    query: Mapping[str, Query] = {}
    handed: bool = False  # whether a server hands it to the one that serves the policy


async def create(call: Call) -> Reply:
    """Make a policy."""
    loop = await call.service.create(read(Create, call.body))
    return Reply(201, encode(views.made(loop)))


async def policies(call: Call) -> Reply:
    """List the policies."""
    found = [await views.brief(call.service, loop) for loop in list(call.service.loops.values())]
    return Reply(200, encode(views.Policies(found)))


async def policy(call: Call) -> Reply:
    """Show a policy."""
    loop = call.service.loop(call.name)
    return Reply(200, encode(await views.full(call.service, loop)))


async def status(call: Call) -> Reply:
    """Pause, resume or archive a policy, or change its control group."""
    return await call.service.loop(call.name).change(read(Status, call.body), _who(call))


def _who(call: Call) -> str:
    """Return the name of the key that a request has; nothing, where none is needed."""
    return call.service.access.name_of(call.authorization)


async def decide(call: Call) -> Reply:
    """Make a decision."""
    loop = call.service.loop(call.name)
    reply: Reply = await loop.submit("decide", (read(Decide, call.body or b"{}"),), apart=call.apart)
    return reply


async def decide_batch(call: Call) -> Reply:
    """Make several decisions."""
    requests = read(DecideBatch, call.body).requests
    made = await call.service.loop(call.name).submit("decide", requests, apart=call.apart)
    bodies = [made.body] if isinstance(made, Reply) else made
    return Reply(200, b'{"decisions":[' + b",".join(bodies) + b"]}")


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


async def reward(call: Call) -> Reply:
    """Apply rewards."""
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


async def reward_batch(call: Call) -> Reply:
    """Apply rewards of several decisions."""
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


async def arms(call: Call) -> Reply:
    """Show the arms."""
    found = await call.service.loop(call.name).look(views.arms)
    return Reply(200, encode(found))


async def change_arms(call: Call) -> Reply:
    """Add, retire and restore arms."""
    return await call.service.loop(call.name).change_arms(read(ArmsChange, call.body), _who(call))


async def digest(call: Call) -> Reply:
    """Return the digest of a policy's state."""
    loop = call.service.loop(call.name)
    head, make = await loop.look(lambda state: (state.head, state.freeze()))
    made = await asyncio.to_thread(
        lambda: PolicyState.from_bytes(loop.recipe, make()).digest()
    )  # a second for a million
    return Reply(200, encode(views.Digest(head, made)))


async def events(call: Call) -> Stream:
    """Return the log as lines of JSON."""
    loop, store = call.service.loop(call.name), call.service.store

    async def pieces() -> AsyncIterator[bytes]:
        after, left = call.query["after"], call.query["limit"]
        while left > 0:
            some = await store.read(loop.row.id, after, min(left, 1000))
            if not some:
                break
            yield b"".join(encode(views.event(one)) + b"\n" for one in some)
            after, left = some[-1].seq, left - len(some)

    return Stream("application/jsonl", pieces())


async def export(call: Call) -> Reply:
    """Return decisions and what was learnt from them as a Parquet file."""
    loop, query = call.service.loop(call.name), call.query
    state = await loop.look(parquet.State.of)
    return Reply(200, await parquet.export(call.service.store, loop.row, state, query["after"], query["limit"]))


async def stream(call: Call) -> Stream:
    """Return what changes, as server-sent events: at most one document a second."""
    service, loop = call.service, call.service.loop(call.name)
    if service.watchers >= _LISTENERS:
        raise Refused("busy", f"{_LISTENERS} listeners are the most")

    async def pieces() -> AsyncIterator[bytes]:
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


async def traffic(call: Call) -> Reply:
    """Return counts by minute."""
    loop = call.service.loop(call.name)
    since = await call.service.store.now() // 60_000_000 - call.query["minutes"] + 1
    rows = await call.service.store.counters_by_minute(loop.row.id, since)
    return Reply(200, encode(views.traffic(rows)))


async def system(call: Call) -> Reply:
    """Show the store, and how fast it is."""
    return Reply(200, encode(await views.system(call.service)))


async def healthz(call: Call) -> Reply:
    """Say that the process runs."""
    return Reply(200, b'{"live":true}')


async def readyz(call: Call) -> Reply:
    """Say whether all policies are loaded, warm and stored."""
    ready, said = call.service.readiness()
    return Reply(200 if ready else 503, msgspec.json.encode(said))


async def metrics(call: Call) -> Reply:
    """Return counters for Prometheus."""
    for loop in list(call.service.loops.values()):
        await call.service.viewer.view(loop)
    return Reply(200, write_text(call.service.families()))


async def openapi(call: Call) -> Reply:
    """Return this interface in OpenAPI's words."""
    from armtriage.service.openapi import document

    return Reply(200, msgspec.json.encode(document()))


_POLICY = "/v1/policies/{name}"
_STORE = ("store", "starting", "busy")
_BODY = ("malformed", "duplicate_key", "too_large", "slow", "invalid")
_OF_DECISIONS = (
    "not_found",
    *_BODY,
    "unknown_arm",
    "nothing_eligible",
    "unit_missing",
    "id_taken",
    "paused",
    "archived",
    "too_many_open",
    "unsound",
    "disk_full",
    *_STORE,
)
_OF_REWARDS = (
    "not_found",
    *_BODY,
    "orphan",
    "unknown_decision",
    "conflict",
    "archived",
    "unknown_arm",
    "not_shown",
    "out_of_range",
    "too_many_rewards",
    "unsound",
    "disk_full",
    *_STORE,
)
_AFTER = {"after": Query(0, 0, 2**53, "Only what comes after this event.")}
ROUTES: tuple[Route, ...] = (
    Route(
        "POST",
        f"{_POLICY}/decisions",
        "decide",
        decide,
        "Make a decision, or repeat the one with this id.",
        Decide,
        {201: Answer, 200: Answer},
        _OF_DECISIONS,
        handed=True,
    ),
    Route(
        "POST",
        f"{_POLICY}/rewards",
        "reward",
        reward,
        "Tell rewards of a decision; the answer says what became of each.",
        Reward,
        {200: Fates},
        _OF_REWARDS,
        handed=True,
    ),
    Route(
        "POST",
        f"{_POLICY}/decisions/batch",
        "decide",
        decide_batch,
        "Make up to 1,000 decisions, all or none.",
        DecideBatch,
        {200: Answers},
        _OF_DECISIONS,
        handed=True,
    ),
    Route(
        "POST",
        f"{_POLICY}/rewards/batch",
        "reward",
        reward_batch,
        "Tell rewards of up to 1,000 decisions.",
        RewardBatch,
        {200: Results},
        ("not_found", *_BODY, "disk_full", *_STORE),
        handed=True,
    ),
    Route(
        "POST",
        "/v1/policies",
        "admin",
        create,
        "Make a policy.",
        Create,
        {201: views.Made},
        (*_BODY, "unknown_arm", "name_taken", "disk_full", *_STORE),
    ),
    Route("GET", "/v1/policies", "read", policies, "List the policies.", None, {200: views.Policies}, _STORE),
    Route(
        "GET",
        _POLICY,
        "read",
        policy,
        "Show a policy, and what is known for certain.",
        None,
        {200: views.Full},
        ("not_found", *_STORE),
    ),
    Route(
        "PATCH",
        _POLICY,
        "admin",
        status,
        "Pause, resume or archive a policy, or change its control group.",
        Status,
        {200: StatusAnswer},
        ("not_found", *_BODY, "archived", "window_missing", "disk_full", *_STORE),
    ),
    Route(
        "GET",
        f"{_POLICY}/decisions/{{id}}",
        "read",
        decision,
        "Show a decision and what came of it.",
        None,
        {200: views.DecisionView},
        ("not_found", "unknown_decision", *_STORE),
    ),
    Route(
        "GET",
        f"{_POLICY}/arms",
        "read",
        arms,
        "Show the arms and what is known of each.",
        None,
        {200: views.Arms},
        ("not_found", *_STORE),
    ),
    Route(
        "PATCH",
        f"{_POLICY}/arms",
        "admin",
        change_arms,
        "Add, retire and restore arms, all or nothing.",
        ArmsChange,
        {200: ArmsChangeAnswer},
        ("not_found", *_BODY, "unknown_arm", "archived", "disk_full", *_STORE),
    ),
    Route(
        "GET",
        f"{_POLICY}/digest",
        "read",
        digest,
        "Show the digest of the state after an event.",
        None,
        {200: views.Digest},
        ("not_found", *_STORE),
    ),
    Route(
        "GET",
        f"{_POLICY}/events",
        "read",
        events,
        "Read the log, a line of JSON for each event.",
        None,
        {200: "application/jsonl"},
        ("not_found", "invalid", *_STORE),
        _AFTER | {"limit": Query(1000, 1, 10**9, "How many events at most.")},
    ),
    Route(
        "GET",
        f"{_POLICY}/export.parquet",
        "read",
        export,
        "Read decisions and what was learnt from them as Parquet.",
        None,
        {200: "application/vnd.apache.parquet"},
        ("not_found", "invalid", "not_installed", *_STORE),
        {
            "after": Query(-1, -1, 2**53, "Only decisions after this number."),
            "limit": Query(100_000, 1, 100_000, "How many decisions at most."),
        },
    ),
    Route(
        "GET",
        f"{_POLICY}/stream",
        "read",
        stream,
        "Listen to what changes: server-sent events.",
        None,
        {200: "text/event-stream"},
        ("not_found", "invalid", *_STORE),
        _AFTER,
    ),
    Route(
        "GET",
        f"{_POLICY}/traffic",
        "read",
        traffic,
        "Show counts by minute.",
        None,
        {200: views.Traffic},
        ("not_found", "invalid", *_STORE),
        {"minutes": Query(60, 1, 1440, "How many minutes back.")},
    ),
    Route("GET", "/v1/system", "read", system, "Show the store and how fast it is.", None, {200: views.System}, _STORE),
    Route("GET", "/healthz", None, healthz, "Say that the process runs.", None, {200: views.Live}),
    Route(
        "GET",
        "/readyz",
        None,
        readyz,
        "Say whether all policies answer.",
        None,
        {200: views.Readiness, 503: views.Readiness},
    ),
    Route(
        "GET", "/metrics", "read", metrics, "Read counters for Prometheus.", None, {200: "text/plain; version=0.0.4"}
    ),
    Route("GET", "/openapi.json", None, openapi, "Read this document.", None, {200: dict[str, Any]}),
)
"""Every route; those that most requests take come first."""
