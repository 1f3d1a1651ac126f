"""What the service shows of a policy: for people, for programs and for a dashboard."""

from __future__ import annotations

import time
from collections.abc import Sequence
from typing import Any

import msgspec
import numpy as np
from msgspec import Struct
from msgspec.structs import replace

from armtriage import __version__
from armtriage.certificate import intervals_of
from armtriage.service import events as log
from armtriage.service.course import certificate_of
from armtriage.service.events import KINDS, Event, History, unpack, unpack_stray
from armtriage.service.fold import Fold
from armtriage.service.loop import Loop
from armtriage.service.messages import Fact, rfc3339
from armtriage.service.refusal import Refused
from armtriage.service.service import Service

__all__ = ["arms", "brief", "decision", "event", "full", "made", "system", "traffic"]

_SHOWN = 1000  # arms of one answer
_KEPT = 1.0  # seconds for which a view is good
_DELTA = 0.05  # what the arms' intervals may fail with, all together


class Live(Struct):
    """The process runs."""

    live: bool


class Readiness(Struct):
    """Whether all policies answer; `waiting` says why some do not, and `store` why nothing can be written."""

    ready: bool
    version: str
    waiting: dict[str, str]
    store: str = ""


class Made(Struct):
    """A policy that was just made; its arms can be asked for when it is ready."""

    name: str
    created: str
    config: dict[str, Any]


class TriageCounts(Struct):
    """How many arms are certainly among the best, open, and certainly not."""

    confirmed: int
    active: int
    eliminated: int


class Brief(Struct, kw_only=True):
    """A policy in a list."""

    name: str
    kind: str
    status: str
    ready: bool
    head: int
    decisions: int
    open_decisions: int
    arms: int
    budget: int
    triage: TriageCounts | None


class Policies(Struct):
    """All policies."""

    policies: list[Brief]


class CertificateView(Struct):
    """What the decisions can have lost, in numbers and in words; bounds are null where nothing can be said.

    While it is not `informative`, the bound is no smaller than what doing nothing would have lost; about so many more
    decisions are `needed`, null if that cannot be foreseen.
    """

    text: str
    confidence: float | None
    rounds: int
    regret_bound: float | None
    next_bound: float | None
    contradictions: int
    informative: bool
    needed: int | None


class Full(Brief, kw_only=True):
    """All about a policy but its arms."""

    created: str
    version: str
    config: dict[str, Any]
    counts: dict[str, int]
    snapshot_lag: int
    queue: int
    request_p50: float
    request_p99: float
    commit_p99: float
    certificate: CertificateView | None


class ArmView(Struct):
    """An arm, and what is known of it.

    Its mean lies between `low` and `high`: with 95% confidence for all arms and at all times, if rewards are as the
    certificate needs them. With contexts arms have no means.
    """

    id: str
    meta: dict[str, Fact]
    retired: bool
    added: int
    status: str | None
    pulls: int
    observed: int
    mean: float | None
    low: float | None
    high: float | None


class Arms(Struct):
    """The arms, in the order in which they came; of more than a thousand the first."""

    arms: list[ArmView]
    total: int
    seq: int


class DecisionView(Struct):
    """A decision and what came of it; rewards that were stored and not learnt are `late`."""

    id: str
    seq: int
    number: int
    at: str
    arms: list[str]
    show: list[str]
    eligible: list[str] | None
    contexts: list[list[float]] | None
    tags: dict[str, Fact]
    rewards: dict[str, dict[str, float]]
    late: list[dict[str, Any]]
    status: str


class Digest(Struct):
    """A digest of the state after an event: replicas and replays have the same."""

    seq: int
    digest: str


class Traffic(Struct):
    """Counts by minute since 1970."""

    minutes: dict[str, dict[str, int]]


class System(Struct):
    """The server and its store."""

    version: str
    policies: int
    ready: bool
    store: dict[str, str | int | float]
    answers: dict[str, int]


def made(loop: Loop) -> Made:
    """Return a policy that was just made."""
    return Made(loop.name, rfc3339(loop.row.created), _config(loop))


def _config(loop: Loop) -> dict[str, Any]:
    config: dict[str, Any] = msgspec.json.decode(loop.row.config)
    return {key: value for key, value in config.items() if key not in ("arms", "name")} | {
        "arms": len(loop.recipe.names)
    }


async def brief(loop: Loop) -> Brief:
    """Return a policy for a list; one that is not ready is there, too."""
    return (await _seen(loop))[0]


async def full(loop: Loop) -> Full:
    """Return all about a policy."""
    one, certificate = await _seen(loop)
    counts = await loop.store.counters(loop.row.id, 0)
    seconds, commits = loop.metrics.seconds[loop.name], loop.metrics.commits[loop.name]
    return Full(
        **msgspec.structs.asdict(one),
        created=rfc3339(loop.row.created),
        version=__version__,
        config=_config(loop),
        counts=dict(counts),
        snapshot_lag=loop.lag,
        queue=loop.queued,
        request_p50=seconds.quantile(0.5),
        request_p99=seconds.quantile(0.99),
        commit_p99=commits.quantile(0.99),
        certificate=certificate,
    )


async def _seen(loop: Loop) -> tuple[Brief, CertificateView | None]:
    """Return what the state says, at most a second old: however many look, it is worked out once."""
    now = time.monotonic()
    if loop.seen is None or now - loop.seen[0] > _KEPT or loop.seen[1].head == 0:
        try:
            if loop.problem:
                raise Refused("starting")
            loop.seen = (now, *await loop.look(lambda fold: _look(loop, fold)))
        except Refused:
            # The list is there also while the store is not.
            loop.seen = now, _unready(loop) if loop.seen is None else replace(loop.seen[1], ready=False), None
    found: tuple[Brief, CertificateView | None] = loop.seen[1:]
    return found


def _unready(loop: Loop) -> Brief:
    recipe = loop.recipe
    budget = recipe.create.budget
    return Brief(
        name=loop.name,
        kind=str(recipe.kind),
        status="running",
        ready=False,
        head=0,
        decisions=0,
        open_decisions=0,
        arms=len(recipe.names),
        budget=budget if isinstance(budget, int) else 0,
        triage=None,
    )


def _look(loop: Loop, fold: Fold) -> tuple[Brief, CertificateView | None]:
    certificate = certificate_of(fold.policy)
    counts = None
    if certificate is not None and not fold.contextual:
        sets = certificate.triage
        counts = TriageCounts(len(sets.confirmed), len(sets.active), len(sets.eliminated))
    seen = Brief(
        name=loop.name,
        kind=str(fold.recipe.kind),
        status=fold.status,
        ready=loop.ready,
        head=fold.head,
        decisions=fold.decided,
        open_decisions=len(fold.open),
        arms=len(fold.names),
        budget=fold.policy.budget,
        triage=counts,
    )
    if certificate is None:
        return seen, None
    return seen, CertificateView(
        str(certificate),
        certificate.confidence,
        certificate.rounds,
        certificate.regret_bound,
        certificate.next_bound,
        certificate.contradictions,
        certificate.informative,
        certificate.needed,
    )


def arms(fold: Fold) -> Arms:
    """Return the arms."""
    policy, certificate = fold.policy, certificate_of(fold.policy)
    known, tally = policy.arms, policy.tally
    states: dict[int, str] = {}
    if certificate is not None and not fold.contextual:
        for name in ("confirmed", "active", "eliminated"):
            states |= dict.fromkeys(getattr(certificate.triage, name).tolist(), name)
    low, high = fold.low, fold.high
    flipped = policy.direction == "minimize"
    ends = None
    if not fold.contextual:
        ends = intervals_of(tally, 1.0 / known.share, _DELTA)
    found = []
    for arm, name in enumerate(fold.names[:_SHOWN]):
        observed = int(tally.counts[arm])
        share = float(tally.sums[arm]) / observed if observed else None

        def real(unit: float | None) -> float | None:
            return None if unit is None else low + (high - low) * (1.0 - unit if flipped else unit)

        between = None if ends is None else sorted((real(float(ends[0][arm])), real(float(ends[1][arm]))))  # type: ignore[type-var]
        found.append(
            ArmView(
                name,
                fold.meta.get(name, {}),
                bool(known.retired[arm]),
                int(known.added[arm]),
                states.get(arm),
                int(tally.pulls[arm]),
                observed,
                None if fold.contextual else real(share),
                None if between is None else between[0],
                None if between is None else between[1],
            )
        )
    return Arms(found, len(fold.names), fold.head)


def decision(fold: Fold, known: History) -> DecisionView:
    """Return a decision, and what came of it."""
    first = next(event for event in known.events if event.kind == log.DECISION)
    body = unpack(first)
    shown = body.arms if body.show is None else body.show
    rewards: dict[str, dict[str, float]] = {}
    for one in known.events:
        if one.kind == log.REWARD:
            told = unpack(one)
            for arm, value in zip(told.arms, told.values, strict=True):
                rewards.setdefault(fold.names[arm], {})[told.reward] = value
    late = [
        {"id": stray.reward, "at": rfc3339(one.at), "rewards": stray.rewards}
        for one in known.strays
        for stray in [unpack_stray(one)]
    ]
    opened = fold.open.get(first.key)
    mask = None if body.eligible is None else np.unpackbits(np.frombuffer(body.eligible, np.uint8))
    contexts = None
    if body.contexts is not None:
        contexts = np.frombuffer(body.contexts, "<f8").reshape(-1, int(fold.recipe.create.dimension)).tolist()  # type: ignore[arg-type]
    return DecisionView(
        first.key,
        first.seq,
        int(first.number or 0),
        rfc3339(first.at),
        [fold.names[arm] for arm in body.arms],
        [fold.names[arm] for arm in shown],
        None if mask is None else [fold.names[arm] for arm in np.flatnonzero(mask).tolist()],
        contexts,
        body.tags or {},
        rewards,
        late,
        "open" if opened is not None else "closed",
    )


def event(one: Event) -> dict[str, Any]:
    """Return a line of the log, for reading; arms are numbers, in the order of the policy's arms."""
    body = msgspec.to_builtins(unpack(one))
    names = type(unpack(one)).__struct_fields__
    found = dict(zip(names, body, strict=True))
    found.pop("answer", None)
    found.pop("request", None)
    packed = found.get("contexts")
    if packed is not None:
        found["contexts"] = np.frombuffer(unpack(one).contexts, "<f8").tolist()
    if found.get("eligible") is not None:
        found["eligible"] = np.flatnonzero(np.unpackbits(np.frombuffer(unpack(one).eligible, np.uint8))).tolist()
    head = {"seq": one.seq, "kind": KINDS[one.kind], "at": rfc3339(one.at)}
    if one.key:
        head["decision"] = one.key
    if one.number is not None and one.kind != log.EXPIRE:
        head["number"] = one.number
    return head | found


def traffic(rows: Sequence[tuple[int, str, int]]) -> Traffic:
    """Return counts by minute."""
    found: dict[str, dict[str, int]] = {}
    for minute, name, value in rows:
        found.setdefault(rfc3339(minute * 60_000_000), {})[name] = value
    return Traffic(found)


async def system(service: Service) -> System:
    """Return the server and its store."""
    answers = {str(status): count for status, count in service.metrics.requests.items()}
    return System(__version__, len(service.loops), service.readiness()[0], dict(await service.store.facts()), answers)
