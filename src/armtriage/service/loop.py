"""The loop of a policy: it takes the requests that wait, changes the state, stores what happened, and answers."""

from __future__ import annotations

import asyncio
import contextlib
import logging
import sys
import time
from collections import Counter, deque
from collections.abc import Callable, Mapping, Sequence
from functools import partial
from itertools import chain
from typing import Any, NamedTuple, TypeVar

import msgspec

from armtriage import __version__
from armtriage.errors import ArmtriageError
from armtriage.service import clock
from armtriage.service.crash import point
from armtriage.service.events import History
from armtriage.service.logs import note
from armtriage.service.messages import ArmsChange, Reward, Status
from armtriage.service.metrics import Metrics
from armtriage.service.recipe import Recipe
from armtriage.service.refusal import Refused
from armtriage.service.rehearsal import rehearse
from armtriage.service.state import PolicyState
from armtriage.service.step import MOST_ORPHANS, UNLOGGED, Reply, Step
from armtriage.service.stores import Group, PolicyGone, PolicyRow, Snapshot, Store, StoreError, Write
from armtriage.service.view import PolicyView

STATE = f"{__version__}/6"
"""What a state is made by: a number more whenever the same log gives another one, so that no older snapshot is used."""
GROUP = 256  # decisions and rewards that share a commit, or one batch of them
WAITING = 4096  # decisions and rewards that may wait, for half a second as most policies go; more are refused
PATIENCE = 2.0  # seconds that one may wait before others are refused
CHUNK = 2_000  # events that a replay reads at a time
EVERY = 10_000  # events after which there is a snapshot: a replay of them takes about a third of a second
_REPLAY = 3e-5  # seconds that the replay of an event takes, as measured; a snapshot may cost a tenth of what it saves
_DAY = 86_400_000_000
_ASLEEP = 5.0  # seconds after which a policy counts as not asked for here
_FOLLOW = 30.0  # seconds between two looks at such a one: to replay what others write costs as much as to serve it
_CHECKED = 200  # events that a check replays before it rests
_PROBES = 10  # small writes that must succeed before a disk counts as not full, if no request writes anything
Found = TypeVar("Found")
_TURN, _LONG_TURN = 0.001, 0.005  # seconds that a busy thread keeps the others from running; Python's own is the second
_BESIDE: list[None] = []  # one for each piece of long work that runs in a thread
PORTION = 1000  # decisions whose time has passed that one group closes: so many take about 50 ms
_LONG = 0.02  # seconds of work that are done beside other policies; a thread costs a tenth of a millisecond
_SLOW = 5.0  # seconds of work after which there is a snapshot, however few the events: a replay takes about as long
_RECOUNT = 600.0  # seconds between two counts of what is held for decisions that are not known
_SIGN = 0.5  # seconds after which a group that is at work shows the store that it lives
_ARM = 1e-7  # seconds that a decision takes for each arm, until it has been measured; more with contexts
_REST = 19.0  # how much longer than it works a check rests while requests come


class Failed(ArmtriageError, RuntimeError):
    """Requests of a group have met a fault of the program; the cause says which."""


class Unsound(Failed):
    """Requests have made numbers of a policy that cannot be."""


class Work(NamedTuple):
    """A request, and where its answer goes."""

    kind: str
    payload: Any
    future: asyncio.Future[Any]
    since: float
    size: int  # decisions or rewards in it
    apart: Counter[str] | None = None  # where `UNLOGGED` counts go, if another server may answer the same request


class Loop:
    """Serves one policy; nothing else touches its state.

    A group of requests is answered when it is stored, never before. If that fails, the state is thrown away and rebuilt
    from what is stored: memory is never ahead of the log.
    """

    def __init__(self, store: Store, row: PolicyRow, metrics: Metrics) -> None:
        self.store, self.row, self.metrics = store, row, metrics
        self.recipe = Recipe.read(row.config)
        self.state: PolicyState | None = None
        self.problem = "loading"
        self.unwritten = ""  # how the last write failed, until one succeeds
        self.gone = False  # the policy was deleted
        self.seen: tuple[float, PolicyView] | None = None  # when the state was last looked at, and what was seen
        self._waiting: deque[Work] = deque()
        self._behind = 0  # decisions and rewards in them
        self._awake = asyncio.Event()
        self._flying: deque[asyncio.Future[None]] = deque()
        self._recent: dict[str, History] = {}
        self._failed: StoreError | None = None
        self._snapshot_at = 0
        self._worth = EVERY  # events after which the next snapshot pays
        self._swept = 0.0
        self._orphans = 0  # bytes of rewards that are held for decisions which are not known
        self._counted = float("-inf")  # when those were counted
        self._counting: asyncio.Task[None] | None = None
        self._overdue = False  # whether more decisions wait to be closed than one group closes
        self._spent = self._saved_in = 0.0  # seconds of work since the last snapshot, and those that it took
        self._pace = 0.0  # seconds that a decision or reward takes
        self._wanted = time.monotonic()  # when a request last named the policy here
        self._unwritten_since, self._probed = 0.0, 0  # when writing failed, and how often it succeeded since
        self._pause = 0.1  # seconds before the next try to load
        self._task: asyncio.Task[None] | None = None
        self._stopping = False
        self._saving: asyncio.Task[None] | None = None
        self._alone = 0  # requests that are served one by one, since one of them is to blame
        self.verified = 0  # up to which event the state is known to be its log replayed
        self._checking: asyncio.Task[None] | None = None

    @property
    def name(self) -> str:
        """The policy's name."""
        return self.row.name

    @property
    def trouble(self) -> str:
        """Why requests are not answered, or cannot be stored; nothing, if all is well."""
        return self.problem or self.unwritten

    @property
    def ready(self) -> bool:
        """Whether requests are answered now, and what comes of them can be stored."""
        return not self.trouble

    @property
    def queued(self) -> int:
        """How many requests wait."""
        return len(self._waiting)

    @property
    def lag(self) -> int:
        """How many events came after the last snapshot."""
        return 0 if self.state is None else self.state.head - self._snapshot_at

    def start(self) -> asyncio.Task[None]:
        """Begin to load and to serve; what is returned ends when the loop does."""
        self._task = asyncio.create_task(self._run(), name=f"policy {self.name}")
        return self._task

    async def stop(self) -> None:
        """Answer what waits, write a snapshot, and end."""
        self._stopping = True
        self._awake.set()
        if self._task is not None:
            await self._task

    def abandon(self) -> None:
        """End, without another word to the store: the policy was deleted."""
        self.gone, self.problem = True, "deleted"
        if self._checking is not None:
            self._checking.cancel()
        self._awake.set()

    def nudge(self) -> None:
        """Let the loop see whether time has brought it work; the server does this every second."""
        self._awake.set()

    def want(self) -> None:
        """Note that a request names the policy here: what other servers write is then followed closely."""
        self._wanted = time.monotonic()

    def submit(self, kind: str, payload: Any, *, apart: Counter[str] | None = None) -> asyncio.Future[Any]:
        """Let a request wait for its group; refuse it if it would have to wait for long."""
        now = time.monotonic()
        if self.gone or self._stopping:
            raise self._over()
        size = len(payload) if kind in ("decide", "rewards") else 1
        if self._waiting and (self._behind + size > WAITING or now - self._waiting[0].since > PATIENCE):
            self.metrics.shed(self.name)
            raise Refused("starting" if self.problem else "busy")
        future = asyncio.get_running_loop().create_future()
        self._waiting.append(Work(kind, payload, future, now, size, apart))
        self._behind += size
        self._awake.set()
        return future

    def _next(self) -> Work:
        """Return the request that has waited longest."""
        work = self._waiting.popleft()
        self._behind -= work.size
        return work

    def _next_group(self) -> list[Work]:
        """Return the requests that are served together."""
        works: list[Work] = []
        room = 1 if self._alone else GROUP
        self._alone = max(self._alone - 1, 0)
        while self._waiting and (not works or self._waiting[0].size <= room):
            works.append(self._next())
            room -= works[-1].size
        return works

    async def _run(self) -> None:
        while not (self.gone or (self._stopping and self.state is None)):
            try:
                if self.state is None:
                    await self._load()
                await self._serve()
            except PolicyGone:
                await self._drop_state()
                self.abandon()
            except StoreError as error:
                self._store_failed(error, "group")
                await self._recover(error)
            except asyncio.CancelledError:
                raise
            except Failed as error:  # of all that waits only what is to blame is refused
                self.metrics.fault(self.name, error.__cause__ or error)
                await self._drop_state()
                await asyncio.sleep(self._pause)
            except Exception as error:  # a fault of ours: nothing of it is acknowledged, and the log is the truth
                self.metrics.fault(self.name, error)
                await self._recover(StoreError(f"{type(error).__name__}: {error}"))
            else:
                break
        while self._waiting:  # no group will take them any more
            _refuse(self._next(), self._over())

    def _over(self) -> Refused:
        """Return what those are told who come too late."""
        return _refusal_for(PolicyGone()) if self.gone else Refused("busy", "The server is stopping; try again.")

    async def _load(self) -> None:
        began, first = time.monotonic(), self.problem == "loading"
        state = await load(self.store, self.row, self.recipe)
        if first:
            await asyncio.to_thread(rehearse, state)
        facts: dict[str, Any] = {
            "policy": self.name,
            "events": state.head,
            "seconds": round(time.monotonic() - began, 3),
        }
        note(logging.INFO if first else logging.DEBUG, "loaded", "The state is made from what is stored.", **facts)
        self.state, self._snapshot_at, self.problem, self._pause = state, state.head, "", 0.1
        self._pace = max(self._pace, _first_pace(state))

    def _store_failed(self, error: StoreError, during: str) -> None:
        """Count and say it; until something is written again, the policy is not ready."""
        self.metrics.store_failed(error.kind, during, error, self.name, again=self.unwritten == error.kind)
        if not self.unwritten:
            self._unwritten_since = time.monotonic()
        self.unwritten, self._probed = error.kind, 0

    def _store_wrote(self) -> None:
        """Say that the store takes writes again, if it did not before."""
        if self.unwritten:
            away = round(time.monotonic() - self._unwritten_since, 3)
            text = "The store takes what is written again."
            note(logging.INFO, "store_recovered", text, policy=self.name, kind=self.unwritten, seconds=away)
            self.unwritten = ""

    async def _probe(self) -> None:
        """Write nothing of weight after a failure: a server that is not ready may be asked for nothing that writes.

        On a full disk there is often room for a little, so one success says little there.
        """
        try:
            group, _ = await self._caught_up(())
            await group.commit(Write((), (), (), {"decisions": 0}, group.now // 60_000_000))
        except PolicyGone:
            raise
        except StoreError as error:
            self._store_failed(error, "probe")
            return
        self._probed += 1
        if self._probed >= (_PROBES if self.unwritten == "disk_full" else 1):
            self._store_wrote()

    async def _recover(self, error: StoreError) -> None:
        """Refuse all that was under way, and throw the state away."""
        await self._drop_state()
        while self._waiting:
            _refuse(self._next(), Refused(error.kind))
        await asyncio.sleep(self._pause)
        self._pause = min(2 * self._pause, 5.0)

    async def _drop_state(self) -> None:
        """Wait for the groups that are under way, and forget the state: the log has all that counts."""
        self.problem = "store"
        await asyncio.gather(*self._flying, return_exceptions=True)
        self._flying.clear()
        self._recent.clear()
        self.state = self._failed = None

    async def _serve(self) -> None:
        while True:
            if self.gone:
                raise PolicyGone
            if self._failed is not None:
                raise self._failed
            if not self._waiting:
                if self._stopping:
                    break
                if not self._overdue:
                    self._awake.clear()
                    await self._awake.wait()
            while len(self._flying) >= self.store.depth:
                await self._landed()
            if self._failed is not None:
                continue
            if self.state is not None and self.state.is_point_due(patience=not self._all_landed):
                await self._add_point(self.state)
            if self._waiting or self._idle_work():
                await self._step()
            elif self.unwritten and self._all_landed:
                await self._probe()
            if time.monotonic() - self._counted > _RECOUNT:
                self._counted = time.monotonic()
                self._counting = asyncio.create_task(self._recount())
            slow = self._spent > max(_SLOW, 10.0 * self._saved_in)
            if (self.lag >= self._worth or (slow and self.lag)) and (self._saving is None or self._saving.done()):
                self._saving = asyncio.create_task(self._save(*self._frozen()))
        while self._flying:
            await self._landed()
        if self._failed is not None:
            raise self._failed
        if self._saving is not None:
            await self._saving
        if self.lag:
            await self._save(*self._frozen())
        for task in filter(None, (self._checking, self._counting)):
            task.cancel()

    @property
    def _all_landed(self) -> bool:
        """Whether all groups are stored, and their requests answered."""
        return all(one.done() for one in self._flying)

    async def _add_point(self, state: PolicyState) -> None:
        """Note what is certain now, between groups: no decision waits for it on the way to its answer."""
        await asyncio.sleep(0)  # answers that are made go out first
        if state.timeline.cost < _LONG:
            state.add_point()
        else:
            await _beside(state.add_point)

    def _idle_work(self) -> bool:
        """Whether a step is worth it although no request waits: decisions whose time has passed, or others' events."""
        now = time.monotonic()
        if self._overdue:
            return True
        if now - self._swept < (_FOLLOW if self.store.shared and now - self._wanted > _ASLEEP else 1.0):
            return False
        self._swept = now
        assert self.state is not None
        return self.store.shared or self.state.due(clock.steady(), 1) is not None

    async def _landed(self) -> None:
        """Wait for the oldest group."""
        with contextlib.suppress(StoreError):
            await self._flying[0]
        self._flying.popleft()

    async def _step(self) -> None:
        works = self._next_group()
        group = None
        try:
            # Groups may be stored from now on: then they are among what is found, and are still here.
            recent = self._recent_of(works)
            group, state = await self._caught_up(works)
            works = [work for work in works if not work.future.cancelled()]  # the server that handed it over has gone
            found = dict(group.found)
            if group.missed and (unsure := [key for key in self._keys(works) if key not in found]):
                found |= await group.find(unsure)
            step = Step(state, group.now, found, recent, MOST_ORPHANS - self._orphans)
            size = sum(work.size for work in works) + PORTION * self._overdue
            replies = await self._worked(group, size, partial(self._replies, step, works))
            self._overdue = state.due(group.now, 1) is not None
            self._orphans = MOST_ORPHANS - step.room
            point("after-apply")
            write = step.write()
            if write.events and (wrong := state.policy.unsound()):
                raise Unsound(f"{wrong} cannot be")
            if self.store.shared and not (write.events or write.strays or write.counts):
                await group.leave()
                _answer(works, replies)
                return
        except BaseException as error:
            to_blame = not isinstance(error, StoreError | asyncio.CancelledError)
            if to_blame and len(works) > 1:
                self._waiting.extendleft(reversed(works))
                self._behind += sum(work.size for work in works)
                self._alone = len(works)
            else:
                for work in works:
                    _refuse(work, _refusal_for(error))
            if group is not None:
                await group.leave()
            if to_blame and not isinstance(error, Failed):
                raise Failed from error
            raise
        for key, one in step.own.items():
            kept = self._recent.setdefault(key, History([], []))
            kept.events.extend(one.events)
            kept.strays.extend(one.strays)
        self._fly(works, replies, step, write, group.commit(write))

    async def _worked(self, group: Group, size: int, work: Callable[[], Found]) -> Found:
        """Return what a group's work returns; where that takes long, other policies go on beside it.

        A server that is stopped in the middle of it shows no sign of life, and the store gives the log to others.
        """
        if size * self._pace < _LONG:
            done, spent = _timed(work)
        else:
            task = asyncio.ensure_future(_beside(_timed, work))
            try:
                while not (await asyncio.wait([task], timeout=_SIGN))[0]:
                    await group.stay()
            finally:
                await asyncio.wait([task])  # whatever happens, the state is the thread's until then
            done, spent = task.result()
        self._pace = max(spent / max(size, 1), 0.9 * self._pace)
        self._spent += spent
        return done

    async def _caught_up(self, works: Sequence[Work]) -> tuple[Group, PolicyState]:
        """Return a group with the end of the log, and the state, to which all of it has been applied."""
        while True:
            state = self.state
            assert state is not None
            # Which histories are needed depends on the state, so they are asked for with each try.
            group = await self.store.begin(self.row.id, state.head, self._keys(works))
            if group.missed:
                await self._worked(group, len(group.missed), partial(_replay, state, group.missed, points=False))
            if state.head >= group.head:
                return group, state
            # So much was missed that it is not read while others wait for the log.
            await group.leave()
            if group.head - state.head > EVERY and not self._flying:  # its writer has left a snapshot on the way
                await self._load()
                continue
            while events := await self.store.read(self.row.id, state.head, CHUNK):
                await asyncio.to_thread(_replay, state, events)

    def _fly(self, works: Sequence[Work], replies: Sequence[Any], step: Step, write: Write, commit: Any) -> None:
        """Answer a group when it is stored; later groups may be under way by then."""
        began = time.monotonic()

        async def land() -> None:
            try:
                await commit
            except StoreError as error:
                self._failed = self._failed or error
                for work in works:
                    _refuse(work, _refusal_for(error))
                self._awake.set()
                raise
            point("before-answer")
            if self.unwritten and (write.events or write.strays or write.counts):
                self._store_wrote()
            self._forget(step.own)
            _answer(works, replies)
            if step.state.is_point_due():
                self._awake.set()
            now = time.monotonic()
            self.metrics.group(self.name, len(works), now - began, write.counts, [now - one.since for one in works])

        self._flying.append(asyncio.ensure_future(land()))

    def _forget(self, own: Mapping[str, History]) -> None:
        """Drop what the store can tell from now on."""
        for key, one in own.items():
            kept = self._recent[key]
            del kept.events[: len(one.events)]
            del kept.strays[: len(one.strays)]
            if not kept.events and not kept.strays:
                del self._recent[key]

    def _keys(self, works: Sequence[Work]) -> list[str]:
        """Return the ids whose histories the store must tell.

        Those are the ids that requests give, and of rewards those whose decision is closed, or may be before the
        last of its rewards in this group.
        """
        assert self.state is not None
        opened = self.state.open
        keys: dict[str, None] = {}
        told: set[str] = set()
        for work in works:
            if work.kind == "decide":
                keys |= {one.id: None for one in work.payload if isinstance(one.id, str)}
            elif work.kind in ("reward", "rewards"):
                for one in (work.payload,) if work.kind == "reward" else work.payload:
                    if isinstance(one, Reward):
                        if one.decision not in opened or one.decision in told:
                            keys[one.decision] = None
                        told.add(one.decision)
        return list(keys)

    def _recent_of(self, works: Sequence[Work]) -> dict[str, History]:
        """Return what groups that are under way have done to the decisions of these requests."""
        if not self._recent:
            return {}
        keys = {one.id for work in works if work.kind == "decide" for one in work.payload}
        told = chain.from_iterable(
            work.payload if work.kind == "rewards" else (work.payload,) for work in works if "reward" in work.kind
        )
        keys |= {one.decision for one in told if isinstance(one, Reward)}
        return {key: History([*one.events], [*one.strays]) for key in keys if (one := self._recent.get(key))}

    def _replies(self, step: Step, works: Sequence[Work]) -> list[Any]:
        """Apply the requests of a group and return their answers.

        They are all under way at once, so any order is right: rewards go first, for the decisions to know them, and
        decisions together, which costs less. What else changes the policy keeps its place. Decisions whose time has
        passed are closed last: the rewards of this group came before.
        """
        replies: list[Any] = [None] * len(works)
        start = 0
        for stop in [place for place, work in enumerate(works) if work.kind in ("arms", "status", "look")] + [
            len(works)
        ]:
            self._replies_between(step, works, replies, range(start, stop))
            if stop < len(works):
                kind, payload = works[stop].kind, works[stop].payload
                if kind == "look":
                    replies[stop] = self._looked(payload, step.state)
                elif kind == "arms":
                    replies[stop] = step.change_arms(*payload)
                else:
                    replies[stop] = step.change(*payload)
            start = stop + 1
        step.expire(PORTION)
        step.raise_alarms()
        step.take_over()
        return replies

    def _looked(self, what: Any, state: PolicyState) -> Any:
        """Return what a function sees; if it fails, nothing else does."""
        try:
            return what(state)
        except Exception as error:
            self.metrics.fault(self.name, error)
            return Refused("internal")

    @staticmethod
    def _replies_between(step: Step, works: Sequence[Work], replies: list[Any], places: range) -> None:
        decides = [place for place in places if works[place].kind == "decide"]
        asked = {one.id for place in decides for one in works[place].payload if isinstance(one.id, str)}
        later = []
        for place in places:
            kind, payload = works[place].kind, works[place].payload
            if kind == "reward":
                if payload.decision in asked:
                    later.append(place)
                else:
                    replies[place] = _rewarded(step, works[place])
            elif kind == "rewards":
                later.append(place)
            elif kind == "count":
                step.counts.update(payload)
        if decides:
            aparts = [works[place].apart for place in decides]
            made = step.decide([works[place].payload for place in decides], aparts)
            for place, reply in zip(decides, made, strict=True):
                replies[place] = reply
        for place in later:
            replies[place] = _rewarded(step, works[place])

    def _frozen(self) -> tuple[int, Callable[[], bytes], Sequence[asyncio.Future[None]]]:
        """Return the state as it is now: its last event, what makes its snapshot, and the groups it stands on."""
        assert self.state is not None
        self._snapshot_at, self._spent = self.state.head, 0.0
        return self.state.head, self.state.freeze(), list(self._flying)

    async def _save(self, seq: int, make: Callable[[], bytes], before: Sequence[asyncio.Future[None]]) -> None:
        """Write a snapshot, while the loop goes on; without it nothing is lost but time."""
        try:
            snapshot, spent = await _beside(_timed, lambda: Snapshot.of(seq, STATE, make()))
        except Exception as error:
            self.metrics.fault(self.name, error)
            return
        self._worth, self._saved_in = max(EVERY, int(10.0 * spent / _REPLAY)), spent
        if any(await asyncio.gather(*before, return_exceptions=True)):
            return  # a group failed, so that the state was never stored
        point("before-snapshot")
        try:
            await self.store.put_snapshot(self.row.id, snapshot)
            await self._count_orphans()
            if not self._stopping and (self._checking is None or self._checking.done()):
                self._checking = asyncio.create_task(self._check(await self.store.snapshots(self.row.id)))
        except PolicyGone:
            return
        except StoreError as error:
            self.metrics.store_failed(error.kind, "snapshot", error, self.name)
        point("after-snapshot")

    async def _count_orphans(self) -> None:
        """Forget orphans whose day is over, and see how many bytes are left: other servers hold some, too."""
        self._counted = time.monotonic()
        await self.store.forget_orphans(self.row.id, _DAY)
        self._orphans = await self.store.orphans(self.row.id)

    async def _recount(self) -> None:
        """Do the same between two snapshots, where it can wait."""
        with contextlib.suppress(StoreError):
            await self._count_orphans()

    async def _check(self, snapshots: Sequence[Snapshot]) -> None:
        """Replay the log from the last snapshot but one to the last, and compare: the state must be its log."""
        sound = await self._unhurried(lambda: [one for one in snapshots if usable(one)])
        if not sound:
            return
        goal = sound[0]
        try:
            start = [partial(PolicyState.from_bytes, self.recipe, one.payload) for one in sound[1:2]]
            state = await self._unhurried(*(start or [partial(PolicyState, self.recipe)]))
            while state.head < goal.seq:
                events = await self.store.read(self.row.id, state.head, min(_CHECKED, goal.seq - state.head))
                if not events:
                    raise ValueError(f"the log ends at event {state.head} instead of {goal.seq}")
                await self._unhurried(partial(_replay, state, events, points=False))
            found = await self._unhurried(state.digest)
            saved = await self._unhurried(partial(PolicyState.from_bytes, self.recipe, goal.payload))
            same = await self._unhurried(saved.digest) == found
        except StoreError:
            return  # another time
        except Exception as error:
            self.metrics.fault(self.name, error)
            same = False
        if same:
            self.verified = goal.seq
        else:
            self.metrics.diverged(self.name, goal.seq)

    async def _unhurried(self, work: Callable[[], Found]) -> Found:
        """Do a part of a check in a thread, and rest: it has a twentieth of the processor while requests come."""
        found: Found
        found, spent = await _beside(_timed, work)
        await asyncio.sleep(spent * (_REST if self._waiting or self._flying else 1.0))
        return found

    async def reward(self, request: Reward, *, apart: Counter[str] | None = None) -> Reply:
        """Return the fates of rewards."""
        reply: Reply = await self.submit("reward", request, apart=apart)
        return reply

    async def count(self, counts: Mapping[str, int]) -> None:
        """Count what another server answered for this one, or what could not even be read."""
        with contextlib.suppress(Refused):
            await self.submit("count", counts)

    async def change_arms(self, change: ArmsChange, by: str = "") -> Reply:
        """Add, retire or restore arms, by the key of this name."""
        reply: Reply = await self.submit("arms", (change, by))
        return reply

    async def change(self, wanted: Status, by: str = "") -> Reply:
        """Pause, resume or archive, or change the control group, by the key of this name."""
        reply: Reply = await self.submit("status", (wanted, by))
        return reply

    async def look(self, what: Any) -> Any:
        """Return what a function sees in the state, between two groups; it must not change or keep it."""
        return await self.submit("look", what)


def _rewarded(step: Step, work: Work) -> Any:
    """Apply rewards, and keep apart what is counted elsewhere."""
    before = {name: step.counts[name] for name in UNLOGGED} if work.apart is not None else {}
    reply = step.reward(work.payload) if work.kind == "reward" else step.reward_batch(work.payload)
    if work.apart is not None:
        for name, count in before.items():
            work.apart[name] = step.counts[name] - count
            step.counts[name] = count
        step.counts += Counter()  # without those that are 0
    return reply


def _refusal_for(error: BaseException) -> Refused:
    if isinstance(error, PolicyGone):
        return Refused("not_found", "There is no policy of this name.")
    if isinstance(error, StoreError):
        return Refused(error.kind)
    return Refused("unsound" if isinstance(error, Unsound) else "internal")


def _refuse(work: Work, refused: Refused) -> None:
    if not work.future.done():
        work.future.set_exception(refused)


def _answer(works: Sequence[Work], replies: Sequence[Any]) -> None:
    for work, reply in zip(works, replies, strict=True):
        if work.future.done():
            continue
        if isinstance(reply, Refused):
            work.future.set_exception(reply)
        else:
            work.future.set_result(reply)


async def load(store: Store, row: PolicyRow, recipe: Recipe | None = None, *, snapshots: bool = True) -> PolicyState:
    """Return the state that a policy's log makes, from the newest snapshot that can be used, or from nothing."""
    recipe = Recipe.read(row.config) if recipe is None else recipe
    state = await _newest(store, row, recipe) if snapshots else None
    if state is None:
        state = await asyncio.to_thread(PolicyState, recipe)
    while events := await store.read(row.id, state.head, CHUNK):
        await asyncio.to_thread(_replay, state, events)
    return state


async def _newest(store: Store, row: PolicyRow, recipe: Recipe) -> PolicyState | None:
    """Return the newest snapshot that can be used; of those that are damaged only that they are is said."""

    def passed_over(why: object, seq: int | None) -> None:
        text = f"A snapshot cannot be used, and the state is made from more of the log: {why}"
        note(logging.WARNING, "snapshot_damaged", text, policy=row.name, after_event=seq)

    try:
        found = await store.snapshots(row.id)
    except StoreError as error:
        if not error.damaged:
            raise
        passed_over(error, None)
        return None
    for snapshot in found:
        if not snapshot.whole:
            passed_over("it is not what was written", snapshot.seq)
        elif usable(snapshot) and await store.read(row.id, snapshot.seq - 1, 1):
            try:
                return await asyncio.to_thread(PolicyState.from_bytes, recipe, snapshot.payload)
            except (ArmtriageError, ValueError, msgspec.MsgspecError) as error:
                passed_over(error, snapshot.seq)
    return None


def _first_pace(state: PolicyState) -> float:
    """Return the seconds that a decision may take, before one was made."""
    dimension = int(state.recipe.create.dimension) if state.contextual else 0  # type: ignore[arg-type]
    return _ARM * len(state.names) * (1.0 + dimension**2 / 100.0)


def usable(snapshot: Snapshot) -> bool:
    """Return whether a snapshot may stand for its log: another version may count otherwise, and is not trusted."""
    return snapshot.whole and snapshot.version == STATE


async def _beside(work: Callable[..., Found], *args: Any) -> Found:
    """Run long work in a thread from which requests take over after a millisecond instead of five.

    Always so short a turn would cost a fifth more of a processor for each decision.
    """
    _BESIDE.append(None)
    sys.setswitchinterval(_TURN)
    try:
        return await asyncio.to_thread(work, *args)
    finally:
        _BESIDE.pop()
        if not _BESIDE:
            sys.setswitchinterval(_LONG_TURN)


def _timed(work: Callable[[], Found]) -> tuple[Found, float]:
    """Return what a function returns, and the seconds of this thread that it took."""
    began = time.thread_time()
    return work(), time.thread_time() - began


def _replay(state: PolicyState, events: Sequence[Any], *, points: bool = True) -> None:
    for event in events:
        state.apply(event)
        if points and state.is_point_due():
            state.add_point()
