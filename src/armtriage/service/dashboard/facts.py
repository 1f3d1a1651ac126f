"""What the pages show of a running service."""

from __future__ import annotations

import time
from collections.abc import Mapping, Sequence
from typing import Any

import msgspec

from armtriage import __version__
from armtriage.service import clock
from armtriage.service import events as log
from armtriage.service.dashboard.health import Check, checks
from armtriage.service.dashboard.items import asked_for
from armtriage.service.dashboard.page import as_json
from armtriage.service.dashboard.recorder import Note, Recorder
from armtriage.service.dashboard.summary import cut, summary
from armtriage.service.events import Event, unpack
from armtriage.service.loop import Loop
from armtriage.service.messages import FATES, read_answer
from armtriage.service.refusal import Refused
from armtriage.service.service import Service
from armtriage.service.state import unbits
from armtriage.service.stores import StoreError
from armtriage.service.timeline import SHARE
from armtriage.service.trial import TrialView
from armtriage.service.view import PolicyView
from armtriage.service.views import ObservingView

LINES = 50
"""Lines of the log on the page."""

MOST_BYTES = 2000
"""Bytes of the document that a listener gets in a second."""

_ROWS = 100  # policies on a page of the list
_MINUTES = 90
_NAMES = 8  # arms that a line of the log names


class Facts:
    """Gathers what the pages show."""

    def __init__(self, service: Service, recorder: Recorder) -> None:
        self.service, self.recorder = service, recorder
        self._kept: dict[tuple[int, str], tuple[float, Any]] = {}
        self._live: dict[str, tuple[float, bytes]] = {}

    async def view(self, loop: Loop) -> PolicyView | None:
        """Return the view of a policy; pages take a twentieth of the time at most."""
        loop.want()
        return await self.service.viewer.view(loop, SHARE)

    async def _keep(self, policy: int, what: str, seconds: float, read: Any) -> Any:
        """Return what the store says, asked at most every so many seconds; what it said before, if it fails."""
        now, known = time.monotonic(), self._kept.get((policy, what))
        if known is None or now - known[0] > seconds:
            try:
                known = now, await read()
            except StoreError:
                known = now, None if known is None else known[1]
            self._kept[policy, what] = known
        return known[1]

    async def _minutes(self, loop: Loop) -> Mapping[int, Mapping[str, int]]:
        """Return the counts of a day, by minute."""

        async def read() -> dict[int, dict[str, int]]:
            since = clock.wall() // 60_000_000 - 24 * 60
            found: dict[int, dict[str, int]] = {}
            for minute, name, value in await loop.store.counters_by_minute(loop.row.id, since):
                found.setdefault(minute, {})[name] = value
            return found

        return await self._keep(loop.row.id, "minutes", 10.0, read) or {}

    async def _told(self, loop: Loop) -> float | None:
        """Return which share of the last hour's decisions has told a reward so far; None if there were none."""
        since = clock.wall() // 60_000_000 - 59
        last = [of for minute, of in (await self._minutes(loop)).items() if minute >= since]
        made = sum(of.get("decisions", 0) for of in last)
        return round(min(sum(of.get("heard", 0) for of in last) / made, 1.0), 4) if made else None

    async def _totals(self, loop: Loop) -> dict[str, int]:
        """Return all counts: those of the store, read once a minute, and what this server has added since."""
        counts = loop.metrics.counts[loop.name]

        async def read() -> tuple[dict[str, int], dict[str, int]]:
            before = dict(counts)
            return dict(await loop.store.counters(loop.row.id, 0)), before

        none: tuple[dict[str, int], dict[str, int]] = {}, {}
        stored, then = await self._keep(loop.row.id, "totals", 60.0, read) or none
        names = ("decisions", "expired", *FATES)
        return {name: stored.get(name, 0) + max(counts[name] - then.get(name, 0), 0) for name in names}

    async def _health(self, loop: Loop, view: PolicyView | None) -> list[Check]:
        facts = await self._keep(0, "store", 10.0, self.service.store.facts) or {}
        return checks(loop, self.recorder, view, facts, await self._minutes(loop))

    async def policies(self, page: int = 0) -> dict[str, Any]:
        """Return the list of policies."""
        loops = list(self.service.loops.values())
        rows = [await self._row(loop) for loop in loops[page * _ROWS : (page + 1) * _ROWS]]
        return {"rows": rows, "total": len(loops), "page": page, "pages": max(-(-len(loops) // _ROWS), 1)}

    async def _row(self, loop: Loop) -> dict[str, Any]:
        view = await self.view(loop)
        made = None if view is None else view.certificate
        alarms = [one for one in await self._health(loop, view) if one.level in ("warn", "bad")]
        each = None
        if made is not None and made.rounds and made.informative:
            each = float(made.regret_bound) / made.rounds
        return {
            "name": loop.name,
            "status": "loading" if view is None else view.status,
            "ready": loop.ready,
            "kind": str(loop.recipe.kind),
            "rate": round(self.recorder.pulse(loop.name).rates()[0], 2),
            "decisions": 0 if view is None else view.decisions,
            "arms": len(loop.recipe.names) if view is None else int(view.live.size),
            "budget": 0 if view is None else view.budget,
            "each": None if each is None or each == float("inf") else each,
            "certified": made is not None,
            "informative": made is not None and bool(made.informative or made.contradictions),
            "triage": None if view is None or view.triage is None else list(view.triage),
            "alarms": [[one.level, one.title] for one in alarms],
        }

    async def policy(self, name: str, chosen: Mapping[str, str]) -> dict[str, Any]:
        """Return all that the page of a policy shows; `chosen` is what its address asks for."""
        loop = self.service.loop(name)
        view = await self.view(loop)
        create = loop.recipe.create
        facts = await self._numbers(loop, view, whole=True)
        facts |= {
            "created": loop.row.created // 1000,
            "window": create.join_window,
            "feedback": create.feedback.kind,
            "default": create.reward.default,
            "health": [one._asdict() for one in await self._health(loop, view)],
            "traffic": await self._traffic(loop),
            "course": [] if view is None else [list(one) for one in view.points],
            "lift": None if view is None or view.trial is None else _lift(view.trial),
            "observing": None if view is None else _observing(view),
            "log": await self.lines(loop, LINES),
            "items": None if view is None else asked_for(view, chosen),
        }
        return facts

    async def items(self, name: str, chosen: Mapping[str, str]) -> dict[str, Any]:
        """Return a page of a policy's arms."""
        view = await self.view(self.service.loop(name))
        if view is None:
            raise Refused("starting")
        return asked_for(view, chosen)

    async def _numbers(self, loop: Loop, view: PolicyView | None, whole: bool) -> dict[str, Any]:
        """Return the numbers that change."""
        pulse, now = self.recorder.pulse(loop.name), clock.steady()
        seconds = loop.metrics.seconds[loop.name]
        facts: dict[str, Any] = {
            "name": loop.name,
            "now": clock.wall() // 1000,
            "ready": loop.ready,
            "problem": loop.trouble,
            "rates": [round(one, 2) for one in pulse.rates()],
            "latency": [None if one is None else round(1e3 * one, 2) for one in pulse.latency(seconds)],
            "totals": await self._totals(loop),
            "queue": loop.queued,
            "told": await self._told(loop),
        }
        if view is None:
            return facts | {"status": "loading"}
        known = summary(view)
        if not whole:
            known = {key: known[key] for key in ("decisions", "triage", "certificate", "value", "arms", "live")}
        return facts | {
            "status": view.status,
            "head": view.head,
            "open": view.open,
            "oldest": None if view.oldest is None else max(now - view.oldest, 0) // 1_000_000,
            **known,
        }

    async def _traffic(self, loop: Loop) -> dict[str, Any]:
        """Return decisions and rewards a second, and latencies, of the last minutes that are over."""
        counts, now = await self._minutes(loop), clock.wall() // 60_000_000
        minutes = range(now - _MINUTES, now)
        per = [counts.get(minute, {}) for minute in minutes]
        took = {minute: (half, most) for minute, half, most in self.recorder.pulse(loop.name).minutes}
        milli = [[None if one is None else round(1e3 * one, 2) for one in took.get(m, (None, None))] for m in minutes]
        return {
            "from": minutes.start * 60_000,
            "began": self.recorder.began // 1000,
            "decisions": [round(of.get("decisions", 0) / 60, 3) for of in per],
            "rewards": [round(sum(of.get(fate, 0) for fate in FATES) / 60, 3) for of in per],
            "latency": milli,
        }

    async def lines(self, loop: Loop, count: int) -> list[dict[str, Any]]:
        """Return the last lines of the log, newest first: events, and what became of requests that are none."""
        head = 0 if loop.state is None else loop.state.head

        async def read() -> Sequence[Event]:
            return await loop.store.read(loop.row.id, max(head - count, 0), count)

        events = await self._keep(loop.row.id, f"lines {count}", 0.9, read) or ()
        state = loop.state
        names, labels = (loop.recipe.names,) * 2 if state is None else (state.names, state.labels)
        found = [_line(event, names, labels) for event in events] + [
            _noted(note) for note in list(self.recorder.pulse(loop.name).notes)[-count:]
        ]
        found.sort(key=lambda one: (one["at"], one["seq"]), reverse=True)
        return found[:count]

    async def live(self, name: str) -> bytes:
        """Return what has changed of a policy, or of the list, as a document for listeners, made once a second."""
        now, known = time.monotonic(), self._live.get(name)
        if known is not None and now - known[0] < 0.9:
            return known[1]
        made = await self._live_policy(self.service.loop(name)) if name else await self._live_list()
        self._live[name] = now, made
        return made

    async def _live_policy(self, loop: Loop) -> bytes:
        facts = await self._numbers(loop, await self.view(loop), whole=False)
        facts["alarms"] = [
            [one.level, one.title]
            for one in await self._health(loop, await self.view(loop))
            if one.level in ("warn", "bad")
        ]
        lines = await self.lines(loop, 6)
        for line in lines:
            line["text"] = cut(line["text"], 120)
        facts["log"] = lines
        made = as_json(facts)
        while len(made) > MOST_BYTES and facts["log"]:
            facts["log"].pop()
            made = as_json(facts)
        if len(made) > MOST_BYTES:
            # The page asks for the sentence now and then, in full.
            facts["certificate"] = facts["certificate"] | {"text": None}
            made = as_json(facts)
        return made

    async def _live_list(self) -> bytes:
        """Return the rows that change most, as many as there is room for."""
        loops = sorted(self.service.loops.values(), key=lambda one: -self.recorder.pulse(one.name).rates()[0])
        rows: list[dict[str, Any]] = []
        size = 40
        for loop in loops[:_ROWS]:
            row = await self._row(loop)
            size += len(as_json(row)) + 1
            if size > MOST_BYTES:
                break
            rows.append(row)
        return as_json({"now": clock.wall() // 1000, "total": len(self.service.loops), "rows": rows})

    async def keys(self) -> dict[str, Any]:
        """Return the keys, without their secrets."""
        rows = await self.service.store.keys()
        return {
            "rows": [
                {
                    "id": row.id,
                    "label": row.label,
                    "scopes": row.scopes.split(","),
                    "rate": row.rate,
                    "created": row.created // 1000,
                    "revoked": None if row.revoked is None else row.revoked // 1000,
                }
                for row in rows[-500:]
            ],
            "total": len(rows),
        }

    async def system(self) -> dict[str, Any]:
        """Return the server and its store."""
        store = await self._keep(0, "store", 10.0, self.service.store.facts) or {}
        busy = [loop for loop in self.service.loops.values() if loop.name in self.recorder.pulses]
        rows = []
        for loop in sorted(busy, key=lambda one: -self.recorder.pulse(one.name).rates()[0])[:_ROWS]:
            pulse = self.recorder.pulse(loop.name)
            half, most = pulse.latency(loop.metrics.commits[loop.name], "commits")
            sizes = loop.metrics.sizes[loop.name]
            rows.append(
                {
                    "name": loop.name,
                    "ready": loop.ready,
                    "problem": loop.trouble,
                    "rate": round(pulse.rates()[0], 2),
                    "queue": loop.queued,
                    "lag": loop.lag,
                    "head": 0 if loop.state is None else loop.state.head,
                    "commit": [None if one is None else round(1e3 * one, 2) for one in (half, most)],
                    "group": round(sizes.total / max(sum(sizes.counts), 1), 1),
                }
            )
        return {
            "version": __version__,
            "began": self.recorder.began // 1000,
            "now": clock.wall() // 1000,
            "store": dict(store),
            "policies": len(self.service.loops),
            "ready": self.service.readiness()[0],
            "answers": {str(code): many for code, many in self.service.metrics.requests.items()},
            "watchers": self.service.watchers,
            "rows": rows,
        }


def _lift(trial: TrialView) -> dict[str, Any] | None:
    """Return what the card of a control group shows; None if there is none."""
    found, control = trial.interval, trial.control
    if found is None or control is None:
        return None
    known = {"share": control.share, "by": control.by, "in_force": trial.in_force}
    points = [list(one) for one in trial.points]
    metrics = [[one.name, one.policy_mean, one.control_mean, one.breached, one.text] for one in trial.metrics]
    return found.to_dict() | known | {"points": points, "metrics": metrics}


def _observing(view: PolicyView) -> dict[str, Any] | None:
    """Return what the card of a policy that observes or did shows; None of another."""
    found = ObservingView.of(view)
    return None if found is None else msgspec.to_builtins(found)


_ALARMS = {
    "worse": "the policy earns less than the control for certain",
    "share_mismatch": "the groups cannot have been drawn by the coin",
    "old_log": "rewards contradict the old log, which is withdrawn",
    "positions": "swaps contradict the weights of the places, and nothing is certified",
}


def _line(event: Event, names: Sequence[str], labels: Sequence[str]) -> dict[str, Any]:
    """Return a line of the log in words; totals and metrics are among the labels."""
    body = unpack(event)

    def called(arm: int) -> str:
        return cut(labels[arm], 32) if arm < len(names) else f"arm {arm}"

    warns = event.kind == log.ALARM
    if event.kind == log.DECISION and body.control:
        shown = read_answer(body.answer).arms
        items = ["what is shown without the policy"] if shown is None else [cut(one, 32) for one in shown]
        text = f"control: {_listed(items)}"
    elif event.kind == log.DECISION:
        text = _listed([called(arm) for arm in body.arms])
        if body.would is not None:
            text += f" · it would show {_listed([called(arm) for arm in body.would])}"
        if body.eligible is not None:
            out = len(names) - int(unbits(body.eligible, len(names)).sum())
            text += f" · {out:,} of {len(names):,} not eligible"
    elif event.kind == log.REWARD:
        told = [f"{called(arm)} {value:g}" for arm, value in zip(body.arms, body.values, strict=True)]
        text = _listed(told) if told else "no reward will come"
    elif event.kind == log.EXPIRE:
        text = f"decisions before number {body.before:,} are closed: their time has passed"
        text += f"; so are {body.controls:,} of the control" if body.controls else ""
    elif event.kind == log.ARMS:
        parts = (("added", body.add), ("retired", body.retire), ("restored", body.restore))
        text = "; ".join(f"{what} {_listed([cut(one, 32) for one in some])}" for what, some in parts if some)
        text = text or "new facts on arms"
    elif event.kind == log.ALARM:
        what = cut(body.what, 32)
        text = _ALARMS.get(body.alarm) or (
            f"{what} has changed" if body.alarm == "drift" else f"{what} is beyond its limit"
        )
    elif event.kind == log.WINDOW:
        text = f"the control has a share of {body.share:g} by {body.by_what}, and the lift begins to count"
    else:
        text = f"the policy is {body.status}" + (f", by its rule {body.rule}" if body.rule else "")
    changed = event.kind in (log.ARMS, log.LIFE, log.WINDOW)
    if changed and body.by:
        text += f", by {cut(body.by, 48)}"
    kind = "change" if changed else log.KINDS[event.kind]
    key = cut(event.key, 16) if event.key else ""
    return {"seq": event.seq, "at": event.at // 1000, "kind": kind, "key": key, "text": text, "warns": warns}


def _noted(note: Note) -> dict[str, Any]:
    return {"seq": 0, "at": note.at // 1000, "kind": note.kind, "key": "", "text": note.text, "warns": note.warns}


def _listed(names: Sequence[str]) -> str:
    more = f" and {len(names) - _NAMES:,} more" if len(names) > _NAMES else ""
    return ", ".join(names[:_NAMES]) + more
