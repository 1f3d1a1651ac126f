"""Service: the policies of a store, each with its loop, and the keys to them."""

from __future__ import annotations

import asyncio
import logging
import time
from collections.abc import Mapping
from typing import Any

from msgspec import UNSET

from armtriage import __version__
from armtriage.service import clock
from armtriage.service.keys import AccessControl
from armtriage.service.logs import Seldom, note, note_refusal
from armtriage.service.loop import Loop
from armtriage.service.messages import FATES, ODD, Create
from armtriage.service.metrics import Metrics, Sample
from armtriage.service.peers import Peers
from armtriage.service.recipe import Recipe
from armtriage.service.refusal import Refused, quoted
from armtriage.service.stores import PolicyRow, Store, StoreError
from armtriage.service.viewer import Viewer

MOST = 1000  # policies of one server
_SEEK = 0.25  # seconds between two looks for a policy that is not known here
_REFRESH = 2.0  # seconds between two looks at keys, and at policies that other servers made or deleted


class Service:
    """All that one server does, without HTTP.

    Parameters
    ----------
    store : Store
        What it serves; `start` opens it.
    url : str, optional
        Where other servers of the store reach this one; without it they hand no requests to each other.
    """

    def __init__(self, store: Store, url: str | None = None) -> None:
        self.store, self.viewer = store, Viewer()
        self.peers = Peers(store, url)
        self.metrics = Metrics()
        self.access = AccessControl()
        self.loops: dict[str, Loop] = {}
        self.refused_keys = Seldom()
        self.watchers = 0
        self.leaving = False  # told before connections are closed, so that streams end
        self._ticker: asyncio.Task[None] | None = None
        self._making: set[str] = set()
        self._unread: dict[str, int] = {}  # policies of which this version can make nothing
        self._seeking: asyncio.Task[None] | None = None
        self._sought = 0.0

    async def start(self) -> None:
        """Open the store, and begin to load its policies."""
        await self.store.open()
        self.access.update(await self.store.keys())
        await self._follow()
        await self.peers.meet()
        self._ticker = asyncio.create_task(self._tick(), name="ticker")

    async def stop(self) -> None:
        """Answer what waits, write snapshots, and close the store."""
        while self._ticker is not None and not self._ticker.done():
            # More than once: a database may answer a cancellation with an error, which the task takes for any other.
            self._ticker.cancel()
            await asyncio.wait([self._ticker], timeout=1.0)
        await self.peers.part()
        await asyncio.gather(*(loop.stop() for loop in self.loops.values()))
        await self.store.close()

    async def _follow(self) -> None:
        """Serve the policies that the store has, whichever server made them; let those go that were deleted."""
        before = list(self.loops.values())
        rows = await self.store.policies()
        there = {row.id for row in rows}
        for loop in before:
            if loop.row.id not in there:
                loop.abandon()
                self._forget(loop)
        self._unread = {name: number for name, number in self._unread.items() if number in there}
        for row in rows:
            if row.name not in self.loops and self._unread.get(row.name) != row.id:
                try:
                    self._begin(row)
                except Exception as error:  # one policy that a later version made keeps no other from being served
                    self._unread[row.name] = row.id
                    text = f"The policy cannot be read, and is not served: {error}"
                    note(logging.ERROR, "policy_unread", text, policy=row.name)

    def _begin(self, row: PolicyRow) -> Loop:
        loop = self.loops[row.name] = Loop(self.store, row, self.metrics)
        loop.start().add_done_callback(lambda _: self._forget(loop))
        return loop

    def _forget(self, loop: Loop) -> None:
        """Let a deleted policy go; there may be another of its name."""
        if loop.gone and self.loops.get(loop.name) is loop:
            del self.loops[loop.name]

    async def _tick(self) -> None:
        """Every second let the loops look around; now and then read the keys, and what other servers did."""
        seconds, failing = 0, False
        while True:
            await asyncio.sleep(1.0)
            seconds += 1
            for loop in self.loops.values():
                loop.nudge()
            if seconds % int(_REFRESH) == 0:
                try:
                    self.access.update(await self.store.keys())
                    if self.store.shared:
                        await self._follow()
                        await self.peers.meet()
                    if failing:
                        failing = False
                        note(logging.INFO, "store_recovered", "Keys and policies are read again.", during="refresh")
                except StoreError as error:
                    self.metrics.store_failed(error.kind, "refresh", error, again=failing)
                    failing = True
                except Exception as error:  # whatever it is: without this a revoked key would go on opening
                    note(logging.ERROR, "fault", "A look at the store failed.", error=error)

    async def seek(self, name: str) -> None:
        """Look for a policy that is not known here: another server may just have made it."""
        if self.store.shared and name not in self.loops:
            if self._seeking is None:
                self._seeking = asyncio.create_task(self._seek())
            await asyncio.shield(self._seeking)

    async def _seek(self) -> None:
        """Look, but not too often; a request that comes after that needs another look."""
        await asyncio.sleep(self._sought + _SEEK - time.monotonic())
        self._seeking, self._sought = None, time.monotonic()
        await self._follow()

    def loop(self, name: str) -> Loop:
        """Return the loop of a policy that a request names."""
        found = self.loops.get(name)
        if name in self._unread:
            raise Refused("starting", "This server cannot read the policy; one of another version may.")
        if found is None:
            raise Refused("not_found", f"There is no policy {quoted(name)}; GET /v1/policies lists them.")
        found.want()
        return found

    async def create(self, create: Create) -> Loop:
        """Make a policy, and begin to serve it."""
        if len(self.loops) >= MOST:
            raise Refused("invalid", f"a server has at most {MOST} policies")
        recipe = await asyncio.to_thread(Recipe, create)  # features take seconds to import
        # Whatever they refuse is refused now.
        policy = await asyncio.to_thread(recipe.make)
        recipe.trial(policy.budget)
        recipe.watched(policy)
        if create.name in self.loops or create.name in self._making:
            raise Refused("name_taken", f"There is a policy {quoted(create.name)} already.")
        self._making.add(create.name)
        try:
            row = await self.store.create(create.name, recipe.to_json(), clock.wall())
        except StoreError as error:
            self.metrics.store_failed(error.kind, "create", error)
            raise Refused(error.kind) from None
        finally:
            self._making.discard(create.name)
        if row is None:
            raise Refused("name_taken", f"There is a policy {quoted(create.name)} already.")
        return self._begin(row)

    def refusal(self, error: Exception, scope: Mapping[str, Any]) -> Refused:
        """Return how a request is refused that an error ended, after a line in the log where an operator needs one."""
        refused, fault = error if isinstance(error, Refused) else Refused("internal"), None
        if isinstance(error, StoreError):
            self.metrics.store_failed(error.kind, "read", error)
            refused = Refused(error.kind)
        elif refused is not error:
            fault = error
        note_refusal(refused, scope, self.refused_keys, fault)
        return refused

    def readiness(self) -> tuple[bool, dict[str, Any]]:
        """Return whether every policy is loaded, warm and stored, and which are not; and why the store cannot write."""
        waiting = {name: loop.trouble for name, loop in self.loops.items() if not loop.ready}
        ready = not waiting and not self.store.problem
        said: dict[str, Any] = {"ready": ready, "version": __version__, "waiting": waiting}
        return ready, said | ({"store": self.store.problem} if self.store.problem else {})

    def families(self) -> list[tuple[str, str, str, list[Sample]]]:
        """Return all metrics, for Prometheus."""
        one = self.metrics
        counts = {name: one.counts[name] for name in self.loops}

        def counters(*names: str) -> list[Sample]:
            label = "fate" if names == FATES else "repeated"
            values: Mapping[str, str] = {"decisions": "false", "repeated": "true"}
            return [
                ("", {"policy": policy, label: values.get(name, name)}, of[name])
                for policy, of in counts.items()
                for name in names
            ]

        def single(name: str) -> list[Sample]:
            return [("", {"policy": policy}, of[name]) for policy, of in counts.items()]

        def odd() -> list[Sample]:
            states = {name: loop.state for name, loop in self.loops.items()}
            raw = [name for name, state in states.items() if state and state.recipe.create.features is not UNSET]
            return [("", {"policy": name, "what": what}, counts[name][what]) for name in raw for what in ODD]

        def gauge(what: Any) -> list[Sample]:
            states = {name: loop.state for name, loop in self.loops.items()}
            return [("", {"policy": name}, what(self.loops[name], state)) for name, state in states.items() if state]

        def certified(name: str) -> list[Sample]:
            seen = {policy: loop.seen[1] for policy, loop in self.loops.items() if loop.seen and not loop.problem}
            held = {policy: getattr(view.certificate, name) for policy, view in seen.items() if view.certificate}
            return [("", {"policy": policy}, value) for policy, value in held.items() if value is not None]

        def of_trials(end: str) -> list[Sample]:
            seen = {policy: loop.seen[1].trial for policy, loop in self.loops.items() if loop.seen and not loop.problem}
            return [
                ("", {"policy": name}, getattr(of.interval, end)) for name, of in seen.items() if of and of.interval
            ]

        def alarms() -> list[Sample]:
            states = {name: loop.state for name, loop in self.loops.items() if loop.state}
            return [
                ("", {"policy": name, "kind": kind}, float(rings))
                for name, state in states.items()
                for kind, rings in state.ringing().items()
            ]

        def drifts() -> list[Sample]:
            seen = {policy: loop.seen[1] for policy, loop in self.loops.items() if loop.seen and not loop.problem}
            watched = {name: one.health for name, one in seen.items() if one.health.false_alarm is not None}
            return [("", {"policy": name}, len(health.alarms)) for name, health in watched.items()]

        def histogram(of: Mapping[str, Any]) -> list[Sample]:
            held = {name: of[name] for name in self.loops if name in of}
            return [sample for name, one in held.items() for sample in one.samples({"policy": name})]

        # Also of policies whose state is not there.
        ready: list[Sample] = [("", {"policy": name}, float(loop.ready)) for name, loop in self.loops.items()]
        answers: list[Sample] = [
            ("", {"route": asked, "status": str(status)}, many) for (asked, status), many in one.answers.items()
        ]
        failures: list[Sample] = [
            ("", {"kind": kind, "during": during}, many) for (kind, during), many in one.store_failures.items()
        ]
        return [
            ("armtriage_decisions_total", "counter", "Decisions, new and repeated.", counters("decisions", "repeated")),
            ("armtriage_rewards_total", "counter", "Rewards received, by what became of them.", counters(*FATES)),
            ("armtriage_adopted_total", "counter", "Orphans whose decision came later.", single("adopted")),
            ("armtriage_expired_total", "counter", "Decisions closed when their time had passed.", single("expired")),
            ("armtriage_odd_values_total", "counter", "Values of raw rows that were odd.", odd()),
            ("armtriage_handed_total", "counter", "Requests that another server answered.", single("handed")),
            ("armtriage_shed_total", "counter", "Requests refused because too many waited.", single("shed")),
            ("armtriage_answers_total", "counter", "Answers, by status and by what was asked for.", answers),
            ("armtriage_store_failures_total", "counter", "Failures of the store, by kind.", failures),
            ("armtriage_faults_total", "counter", "Faults of the program itself.", single("fault")),
            (
                "armtriage_replay_divergence_total",
                "counter",
                "Checks in which the state differed from its log.",
                single("diverged"),
            ),
            (
                "armtriage_verified_head",
                "gauge",
                "Last event up to which state and log agree.",
                gauge(lambda loop, _: loop.verified),
            ),
            ("armtriage_request_seconds", "histogram", "From receipt to answer.", histogram(one.seconds)),
            ("armtriage_commit_seconds", "histogram", "From decision to stored.", histogram(one.commits)),
            ("armtriage_group_size", "histogram", "Requests that shared a commit.", histogram(one.sizes)),
            ("armtriage_queue", "gauge", "Requests waiting.", gauge(lambda loop, state: loop.queued)),
            ("armtriage_open_decisions", "gauge", "Decisions whose rewards may come.", gauge(lambda _, f: len(f.open))),
            ("armtriage_head", "gauge", "Events in the log.", gauge(lambda _, state: state.head)),
            ("armtriage_snapshot_lag", "gauge", "Events since the last snapshot.", gauge(lambda loop, _: loop.lag)),
            ("armtriage_regret_bound", "gauge", "What all decisions have lost at most.", certified("regret_bound")),
            ("armtriage_next_bound", "gauge", "What the next decision loses at most.", certified("next_bound")),
            (
                "armtriage_interval_failures",
                "gauge",
                "Intervals that contradict their past.",
                certified("contradictions"),
            ),
            ("armtriage_lift_low", "gauge", "What the policy earns more, at least.", of_trials("low")),
            ("armtriage_lift_high", "gauge", "What the policy earns more, at most.", of_trials("high")),
            ("armtriage_drift_alarms", "gauge", "Changes of means that were noticed.", drifts()),
            ("armtriage_alarm", "gauge", "Whether an alarm has gone off, by its kind.", alarms()),
            ("armtriage_ready", "gauge", "Whether the policy answers, and can store.", ready),
        ]
