"""PolicyState: a policy's state as a function of its log. The same events give the same state."""

from __future__ import annotations

import hashlib
import zlib
from collections import Counter, deque
from collections.abc import Callable, Iterable, Mapping, Sequence
from functools import cached_property
from typing import Any

import msgspec
import numpy as np
from msgspec import Struct
from numpy.typing import NDArray

from armtriage.decisions import ArmSet, Decision
from armtriage.policies import Policy
from armtriage.service import events as log
from armtriage.service.events import Alarmed, ArmsChanged, Decided, Event, Expired, Lived, Rewarded, Windowed, unpack
from armtriage.service.messages import RewardRule
from armtriage.service.recipe import Recipe
from armtriage.service.refusal import said
from armtriage.service.timeline import Timeline
from armtriage.service.trial import TOTAL, Point
from armtriage.service.watch import Switch


class Open(Struct, array_like=True, frozen=True, gc=False):
    """A decision whose rewards may still come; it is never changed, but replaced, so that a snapshot may share it."""

    number: int
    at: int
    show: tuple[int, ...]
    turn: int = 0
    told: dict[int, tuple[str, float]] = {}
    gathered: dict[int, dict[str, float]] = {}  # for rules that learn at the end: by arm and reward id


class _Saved(Struct, array_like=True):
    """A snapshot's payload; open decisions come in pieces, so that none of them takes long to pack."""

    head: int
    status: str
    closed_before: int
    decided: int
    meta: dict[str, dict[str, Any]]
    open: list[bytes]
    policy: bytes
    timeline: list[Any] = []
    changes: list[tuple[int, int, list[int]]] = []
    trial: bytes = b""
    lifts: list[Point] = []
    alarms: list[tuple[int, int, str, str]] = []
    watch: bytes = b""
    learnt: list[str] = []


_SAVED = msgspec.msgpack.Decoder(_Saved)
_PIECE = msgspec.msgpack.Decoder(list[tuple[str, Open]])
_COMPRESSED = b"x"  # with this they begin, and those of earlier versions do not
_SLACK = 1000  # ids of closed decisions that are kept, beyond as many as there are open ones
PLAIN = 1_200
"""Bytes that an open decision takes without what its request brought, as measured."""

_LIGHT = 512  # bytes of arrays that are counted in that
_LOOKS = 1.05  # how many more decisions there are at each look at the weights of places
_DELTA = 0.05  # with which their alarm is ever false


class PolicyState:
    """The state that a log makes; only the loop of its policy may touch it.

    Live requests change it by `opened` and `happen`, which gives the event to be logged; a replay changes it by
    `apply`. Both go through the same code.
    """

    def __init__(self, recipe: Recipe, policy: Policy | None = None) -> None:
        self.recipe = recipe
        self.policy = recipe.make() if policy is None else policy
        self.rule = recipe.create.reward.rule
        self.default = recipe.create.reward.default
        self.low, self.high = recipe.create.reward.range[0], recipe.create.reward.most
        self.head = self.closed_before = self.decided = 0
        self.watch = recipe.watched(self.policy)
        self.status = "running" if self.watch is None else "observing"
        self.open: dict[str, Open] = {}  # by id, oldest first
        self._more: dict[str, tuple[int, ArmSet | None]] = {}  # what open decisions keep beyond what each does
        self._sets: Counter[ArmSet] = Counter()  # in how many of them
        self._more_of_all = 0
        self._queue: deque[str] = deque()  # their ids, among others that are closed: a dict finds its first one slowly
        self.timeline = Timeline()
        self.changes: list[tuple[int, int, list[int]]] = []  # of arms: event, how many there are now, those retired
        self._decided_at = 0  # when the last decision was made
        self.learnt: set[str] = set()  # open decisions of the control that the policy learns from
        self._next_look = 1.0  # decisions at the next look at what swaps say of the weights of places
        self.trial = recipe.trial(self.policy.budget)
        self.alarms: list[tuple[int, int, str, str]] = []  # event, time, kind, and of which metric or arm
        self.meta = {one.id: dict(one.meta) for one in recipe.arms if one.meta}
        self._name_arms()

    def _name_arms(self) -> None:
        arms = self.policy.arms
        self.names = [str(name) for name in arms.names]
        self.index = {name: arm for arm, name in enumerate(self.names)}
        # Totals and metrics have negative numbers, by which they are found at the end.
        self.labels = self.names if self.trial is None else [*self.names, *self.trial.labels]
        self.retired: NDArray[np.bool_] = arms.retired
        # A log of an earlier version may have retired so many that no decision of a set is left.
        self.stuck = bool(self.retired.any()) and not self.can_decide(~self.retired)

    def can_decide(self, mask: NDArray[np.bool_]) -> bool:
        """Whether there is a decision of these arms alone."""
        sets = self.policy.decisions
        if sets is None or not mask.any():
            return bool(mask.any())
        return sets.maximise(np.zeros(mask.size), exclude=np.flatnonzero(~mask)) is not None

    @property
    def contextual(self) -> bool:
        """Whether the policy is asked with contexts."""
        return self.recipe.create.dimension is not msgspec.UNSET

    @cached_property
    def refuses_choice(self) -> str:
        """Why the policy cannot choose among some of its arms only; nothing, if it can."""
        policy = self.recipe.make()
        arms, sets = np.arange(len(self.recipe.names)), policy.decisions
        spared = next(
            (arm for arm in arms if sets is None or sets.maximise(np.zeros(arms.size), exclude=[arm]) is not None), 0
        )
        mask = arms != spared
        given = [np.zeros((mask.size, int(self.recipe.create.dimension)))] if self.contextual else []  # type: ignore[arg-type]
        ask: Any = policy.ask
        try:
            if mask.any():
                ask(*given, eligible=mask)
        except (ValueError, TypeError, NotImplementedError) as error:
            return said(error)
        return ""

    def is_control(self, key: str) -> bool:
        """Whether an open decision is the control's."""
        return self.trial is not None and self.trial.is_control(key)

    def is_apart(self, key: str) -> bool:
        """Whether the policy knows nothing of an open decision: it is the control's, and not learned from."""
        return self.is_control(key) and key not in self.learnt

    def is_learnable(self, arms: Sequence[int], mask: NDArray[np.bool_] | None) -> bool:
        """Whether the policy learns from what the control shows: a decision that it could have made."""
        assert self.trial is not None
        assert self.trial.control is not None
        if self.trial.control.learn is not True:
            return False
        sets, chosen = self.policy.decisions, sorted(set(arms))
        may = ~self.retired if mask is None else mask
        fits = len(chosen) == len(arms) and bool(may[chosen].all())
        if sets is not None:
            return fits and sets.contains(np.array(chosen, np.int64))
        return fits and len(arms) == min(self.policy.budget, int(may.sum()))

    def _note(self, key: str, one: Open) -> Open:
        self.open[key] = one
        self._queue.append(key)
        if len(self._queue) > 2 * len(self.open) + _SLACK:
            self._queue = deque(self.open)
        return one

    def opened_control(self, key: str, show: Sequence[int], unit: int | None, at: int) -> Open:
        """Note a decision of the control, of which the policy learns nothing; its number counts the control's."""
        assert self.trial is not None
        one = self._note(key, Open(self.trial.controls, at, tuple(show)))
        self.trial.opened(key, True, unit, at, one.show)
        return one

    def opened(
        self,
        key: str,
        decision: Decision,
        at: int,
        control: bool | None = None,
        unit: int | None = None,
        watched: tuple[Sequence[int], Sequence[float] | None] | None = None,
        order: Sequence[int] | None = None,
    ) -> Open:
        """Note a decision that was just made, its group, if it is in the trial, and what would have been shown.

        Where it matters, `order` has the arms as they are shown.
        """
        self._weigh(key, decision)
        one = self._note(key, Open(decision.number, at, tuple(decision.revealed.tolist() if order is None else order)))
        if control:
            self.learnt.add(key)
        if control is not None and self.trial is not None:
            arms = one.show if decision.shown is decision.arms else decision.arms.tolist()
            self.trial.opened(key, control, unit, at, arms)
        if watched is not None:
            assert self.watch is not None
            self.watch.opened(key, decision.arms.tolist(), *watched)
        self.decided = decision.number + 1
        self._decided_at = at
        if self.contextual:
            self.timeline.count(decision.arms)
        return one

    def is_point_due(self, patience: bool = False) -> bool:
        """Whether the timeline should have another point; with patience, not before that is overdue."""
        return self.decided >= (self.timeline.overdue if patience else self.timeline.next)

    def add_point(self) -> None:
        """Add a point to the timeline: between decisions, none of which should wait for a certificate."""
        self.timeline.note(self.policy, self._decided_at)
        if self.trial is not None:
            self.trial.add_point(self._decided_at)

    @property
    def held(self) -> int:
        """About how many bytes of memory the open decisions take, and those that a trial or a watch waits for."""
        others = sum(one.held for one in (self.trial, self.watch) if one is not None)
        return PLAIN * len(self.open) + self._more_of_all + others

    def _weigh(self, key: str, decision: Decision) -> None:
        """Count what an open decision keeps: its arms, who was eligible, and contexts."""
        # Neither what ranked the arms nor their order: a replay, which records decisions, has other ones.
        kept = decision.arms.nbytes + decision.shown.nbytes
        kept += 0 if decision.contexts is None else decision.contexts.nbytes
        if kept > _LIGHT or decision.among is not None:
            self._more[key] = kept, decision.among
            self._more_of_all += kept
            if decision.among is not None:
                self._sets[decision.among] += 1
                self._more_of_all += decision.among.nbytes * (self._sets[decision.among] == 1)

    def _closed(self, key: str, values: Mapping[int, float] | None) -> None:
        """Forget a decision whose rewards have come, or whose time has passed."""
        if values is not None:
            for one in (self.trial, self.watch):
                if one is not None:
                    one.closed(key, values)
        self.learnt.discard(key)
        del self.open[key]
        kept, among = self._more.pop(key, (0, None))
        self._more_of_all -= kept
        if among is not None:
            self._sets[among] -= 1
            if not self._sets[among]:
                self._more_of_all -= among.nbytes
                del self._sets[among]

    def next_event(self, kind: int, key: str, turn: int, number: int | None, at: int, body: Struct) -> Event:
        """Return the event that comes next in the log."""
        self.head += 1
        return Event(self.head, kind, key, turn, number, at, log.pack(body))

    def tick(self, at: int) -> None:
        """Let the policy know when the decision or reward that comes next happened, by which open decisions age."""
        self.policy.clock = at / 1e6

    def happen(self, kind: int, body: Any, at: int, key: str = "") -> Event:
        """Apply what is no decision and has been checked, and return its event."""
        turn, number = self.head + 1, body.before if kind == log.EXPIRE else None
        if kind == log.REWARD:
            turn, number = self.open[key].turn + 1, None if self.is_apart(key) else self.open[key].number
        event = Event(self.head + 1, kind, key, turn, number, at, log.pack(body))
        self._take(event, body)
        return event

    def _rewarded(self, key: str, one: Open, body: Rewarded, at: int) -> None:
        control = self.is_apart(key)
        if not control:
            self.tick(at)
        if self.recipe.cascade and any(arm >= 0 for arm in body.arms):
            told = one.told | {arm: (body.reward, value) for arm, value in zip(body.arms, body.values, strict=True)}
            if not control:
                clicked = next((self.names[arm] for arm, (_, value) in told.items() if arm >= 0 and value), None)
                order = [self.names[arm] for arm in one.show]
                self.policy.tell_cascade(one.number, clicked, order=order, in_turn=self.default is not None)
            # What was not looked at has earned nothing.
            self._closed(key, self._worth(dict.fromkeys(one.show, ("", 0.0)) | told, {}))
            return
        if self.rule == "first":
            told = {**one.told}
            for arm, value in zip(body.arms, body.values, strict=True):
                told[arm] = body.reward, value
            given = {self.names[arm]: value for arm, value in zip(body.arms, body.values, strict=True) if arm >= 0}
            every = bool(one.show) and sum(arm >= 0 for arm in told) == len(one.show)
            whole = body.last or every or TOTAL in told
            # Where no click is told at the time-out, one that ends a decision must not make it count sooner.
            in_turn = self.default is not None and every
            if not control and (given or whole):
                self.policy.tell(one.number, given, last=whole and not in_turn)
            if whole:
                self._closed(key, self._worth(told, {}))
            else:
                self.open[key] = Open(one.number, one.at, one.show, one.turn + 1, told)
            return
        gathered = {**one.gathered}
        for arm, value in zip(body.arms, body.values, strict=True):
            gathered[arm] = {**gathered.get(arm, {}), body.reward: value}
        one = Open(one.number, one.at, one.show, one.turn + 1, gathered=gathered)
        if body.last:
            if not control:
                self._tell_gathered(one, last=True)
            self._closed(key, self._worth({}, gathered))
        else:
            self.open[key] = one

    def _tell_gathered(self, one: Open, last: bool) -> None:
        """Let the policy learn what the rule makes of the rewards that have come."""
        reward, found = self.recipe.create.reward, sorted(one.gathered.items())
        given = {self.names[arm]: learnt(reward, by_id.values()) for arm, by_id in found if arm >= 0}
        if given or last:
            self.policy.tell(one.number, given, last=last)

    def _worth(
        self, told: Mapping[int, tuple[str, float]], gathered: Mapping[int, Mapping[str, float]]
    ) -> dict[int, float] | None:
        """Return what has come of a decision, for a trial or a watch; None if there is neither."""
        if self.trial is None and self.watch is None:
            return None
        found, reward = {arm: value for arm, (_, value) in told.items()}, self.recipe.create.reward
        for arm, by_id in gathered.items():
            values = by_id.values()
            found[arm] = learnt(reward, values) if arm >= 0 else by_rule(self.rule, values)
        if reward.cap is not msgspec.UNSET:
            most = reward.counted[1]
            found = {arm: min(value, most) if arm >= 0 else value for arm, value in found.items()}
        return found

    def oldest(self) -> Open | None:
        """Return the oldest open decision."""
        while self._queue and self._queue[0] not in self.open:
            self._queue.popleft()
        return self.open[self._queue[0]] if self._queue else None

    def due(self, now: int, most: int) -> Expired | None:
        """Return before which numbers the decisions' time has passed, if any of them is open.

        If there are many, they are those of the oldest, about `most` of them.
        """
        found, size, before, controls = None, 0, self.closed_before, 0
        if self.oldest() is not None:
            for key in self._queue:
                one = self.open.get(key)
                if one is None:
                    continue
                size += 1
                if self.is_apart(key):
                    controls = one.number + 1
                else:
                    before = one.number + 1
                if now - one.at >= self.recipe.window:
                    found = before, controls
                    if size >= most:
                        break
                elif one.at <= now:
                    break
                # Else the clock was wrong then: it is due when a later one is.
        return None if found is None else Expired(*found)

    def _expired(self, due: Expired, at: int) -> None:
        """Close all decisions before some numbers."""
        if due.before > self.closed_before:
            self.tick(at)
        while (one := self.oldest()) is not None:
            control = self.is_apart(self._queue[0])
            if one.number >= (due.controls if control else due.before):
                break
            if one.gathered and not control:
                self._tell_gathered(one, last=False)
            self._closed(self._queue.popleft(), self._worth(one.told, one.gathered))
        if due.before > self.closed_before:
            self.policy.close_before(due.before, default=self.default)
            self.closed_before = due.before

    def _arms_changed(self, body: ArmsChanged, seq: int) -> None:
        if body.add:
            self.policy.add_arms(body.add)
        if body.restore:
            self.policy.restore_arms(body.restore)
        if body.retire:
            self.policy._retire([self.index[name] for name in body.retire])
        self.meta |= body.meta
        self._name_arms()
        if body.add or body.restore or body.retire:
            self.changes.append((seq, len(self.names), np.flatnonzero(self.retired).tolist()))

    @property
    def shown_status(self) -> str:
        """The status; "control" while an alarm lets every decision be the control's."""
        forced = self.status == "running" and self.trial is not None and self.trial.in_force
        return "control" if forced else self.status

    def _lived(self, body: Lived, seq: int, at: int) -> None:
        if body.status == "running" and self.shown_status == "control":
            assert self.trial is not None
            self.trial.start_window()
        if body.status == "running" and self.watch is not None and self.watch.switch is None:
            self.watch.switch = Switch(seq, at, body.by, body.rule)
        self.status = body.status

    def _alarmed(self, body: Alarmed, seq: int, at: int) -> None:
        self.alarms.append((seq, at, body.alarm, body.what))
        if self.trial is not None:
            self.trial.alarm(body.alarm, body.what)

    def ringing(self) -> dict[str, bool]:
        """Return which kinds of alarms can go off, and whether they have."""
        found = {} if self.policy._alarm is None else {"drift": self._drifts > 0}
        create, past = self.recipe.create, {kind for _, _, kind, _ in self.alarms}
        found |= {kind: kind in past for kind in ("old_log", "positions") if getattr(create, kind) is not msgspec.UNSET}
        if self.trial is not None:
            kinds = ["worse", "share_mismatch"] if self.trial.control is not None else []
            kinds += ["breach"] if self.trial.metrics else []
            found |= {kind: any(one == kind for one, _ in self.trial.raised) for kind in kinds}
        return found

    def news(self) -> list[tuple[str, str]]:
        """Return alarms that are not in the log yet: their kinds, and of which metrics or arms they are."""
        found = [] if self.trial is None else self.trial.news()
        if self.policy._alarm is not None:
            new = self.policy._alarm.alarms[self._drifts :]
            found += [("drift", self.names[one.arm]) for one in new]
        for kind, gone in (("old_log", self._has_withdrawn), ("positions", self._has_wrong_weights)):
            if getattr(self.recipe.create, kind) is not msgspec.UNSET and gone():
                found.append((kind, ""))
        return found

    def _has_withdrawn(self) -> bool:
        """Whether the old log was withdrawn, of which there is no alarm yet."""
        policy: Any = self.policy
        return policy._withdrawn >= 0 and all(kind != "old_log" for _, _, kind, _ in self.alarms)

    def _has_wrong_weights(self) -> bool:
        """Whether swaps contradict the weights of places that were given; looks that are left out change only when."""
        if self.decided < self._next_look or any(kind == "positions" for _, _, kind, _ in self.alarms):
            return False
        self._next_look = _LOOKS * self.decided
        policy: Any = self.policy
        return not policy._learnt and policy._wrong_ratios(_DELTA) > 0

    @property
    def _drifts(self) -> int:
        return sum(kind == "drift" for _, _, kind, _ in self.alarms)

    def _windowed(self, body: Windowed) -> None:
        """Let the lift count from now on, perhaps of another control group."""
        assert self.trial is not None
        assert self.trial.control is not None
        given: dict[str, Any] = {"share": body.share, "by": body.by_what, "period": body.period}
        given["most"] = msgspec.UNSET if body.most is None else body.most
        self.trial.start_window(msgspec.structs.replace(self.trial.control, **given))

    def apply(self, event: Event) -> None:
        """Change the state as an event of the log says."""
        if event.seq != self.head + 1:
            raise ValueError(f"the log has event {event.seq} after {self.head}")
        self._take(event, unpack(event))

    def _take(self, event: Event, body: Any) -> None:
        if event.kind == log.DECISION:
            if body.control and event.number is None:
                self.opened_control(event.key, body.show or (), body.unit, event.at)
            else:
                self.tick(event.at)
                self._decided(event, body)
        elif event.kind == log.REWARD:
            self._rewarded(event.key, self.open[event.key], body, event.at)
        elif event.kind == log.EXPIRE:
            self._expired(body, event.at)
        elif event.kind == log.ARMS:
            self._arms_changed(body, event.seq)
        elif event.kind == log.ALARM:
            self._alarmed(body, event.seq, event.at)
        elif event.kind == log.WINDOW:
            self._windowed(body)
        else:
            self._lived(body, event.seq, event.at)
        self.head = event.seq

    def _decided(self, event: Event, body: Decided) -> None:
        """Adopt a logged decision: its arms are the truth, whatever this machine would choose."""
        given: dict[str, Any] = {}
        if body.eligible is not None:
            given["eligible"] = unbits(body.eligible, len(self.names))
        if body.contexts is not None:
            given["contexts"] = self.contexts_of(body)
        if body.proposal is not None:
            given["proposal"] = [self.names[arm] for arm in body.proposal]
        decision = self.policy.record(self.recordable(body.arms), **given)
        if decision.number != event.number:
            raise ValueError(f"event {event.seq} is decision {event.number}, and the policy made {decision.number}")
        watched = None if body.would is None else (body.would, body.chances)
        order = body.arms if self.recipe.ordered else None
        self.opened(event.key, decision, event.at, body.control, body.unit, watched, order)

    def recordable(self, arms: Sequence[int]) -> list[str]:
        """Return arms as the policy records them: from the top only where it has places, else as `ask` would."""
        return [
            self.names[arm] for arm in (arms if self.recipe.create.positions is not msgspec.UNSET else sorted(arms))
        ]

    def packed(self, contexts: NDArray[np.float64], arms: Sequence[int]) -> bytes:
        """Return what the log keeps of the contexts of a decision: all rows, or those of its arms."""
        rows = contexts[arms] if self.recipe.create.log_contexts == "chosen" else contexts
        return rows.astype("<f8").tobytes()

    def contexts_of(self, body: Decided) -> NDArray[np.float64]:
        """Return the contexts of a logged decision, a row for each arm; zeros for arms that the log left out."""
        assert body.contexts is not None
        kept = np.frombuffer(body.contexts, "<f8").reshape(-1, int(self.recipe.create.dimension))  # type: ignore[arg-type]
        if self.recipe.create.log_contexts == "all":
            return kept.copy()
        rows = np.zeros((len(self.names), kept.shape[1]))
        rows[body.arms] = kept
        return rows

    def digest(self) -> str:
        """Return a digest of the whole state: equal after the same events."""
        own = [self.head, self.status, self.closed_before, self.decided, sorted(self.meta.items())]
        total = hashlib.sha256(self.policy.digest().encode() + log.pack(own))
        for piece in log.pieces(self.open):
            total.update(piece)
        if self.trial is not None:
            total.update(self.trial.freeze()())
        if self.watch is not None:
            total.update(self.watch.freeze()())
        if self.alarms:
            total.update(log.pack(self.alarms))
        if self.learnt:
            total.update(log.pack(sorted(self.learnt)))
        return total.hexdigest()

    def to_bytes(self) -> bytes:
        """Return everything, for a snapshot."""
        return self.freeze()()

    def freeze(self) -> Callable[[], bytes]:
        """Return a function that makes what `to_bytes` would return now, later and in another thread."""
        opened, policy = self.open.copy(), self.policy.freeze()
        trial = None if self.trial is None else self.trial.freeze()
        watch = None if self.watch is None else self.watch.freeze()
        saved = _Saved(
            self.head,
            self.status,
            self.closed_before,
            self.decided,
            dict(self.meta),
            [],
            b"",
            self.timeline.to_row(),
            list(self.changes),
            lifts=[] if self.trial is None else list(self.trial.points),
            alarms=list(self.alarms),
            learnt=sorted(self.learnt),
        )

        def later() -> bytes:
            saved.open, saved.policy = list(log.pieces(opened)), policy()
            saved.trial = b"" if trial is None else trial()
            saved.watch = b"" if watch is None else watch()
            # An eighth of the bytes: nothing else is written while these are, and requests wait.
            return zlib.compress(log.pack(saved), level=1)

        return later

    @classmethod
    def from_bytes(cls, recipe: Recipe, payload: bytes) -> PolicyState:
        """Return what `to_bytes` wrote."""
        try:
            saved = _SAVED.decode(zlib.decompress(payload) if payload.startswith(_COMPRESSED) else payload)
        except zlib.error as error:
            raise ValueError(f"a snapshot is damaged: {error}") from None
        state = cls(recipe, Policy.from_bytes(saved.policy))
        state.head, state.status, state.closed_before = saved.head, saved.status, saved.closed_before
        state.decided, state.meta, state.timeline = saved.decided, saved.meta, Timeline(*saved.timeline)
        state.changes, state.alarms, state.learnt = saved.changes, saved.alarms, set(saved.learnt)
        if state.trial is not None:
            state.trial.restore(saved.trial)
            state.trial.points = saved.lifts
        if state.watch is not None:
            state.watch.restore(saved.watch)
        for piece in saved.open:
            state.open.update(_PIECE.decode(piece))
        state._queue.extend(state.open)
        decisions = {decision.number: decision for decision in state.policy.open_decisions}
        for key, one in state.open.items():
            if one.number in decisions and not state.is_apart(key):
                state._weigh(key, decisions[one.number])
        return state


def learnt(reward: RewardRule, values: Iterable[float]) -> float:
    """Return what a policy is told of an arm that had rewards, in the order in which they came.

    Examples
    --------
    >>> learnt(RewardRule(rule="sum"), [0.5, 0.75]), learnt(RewardRule(rule="last"), [0.5, 0.75])
    (1.0, 0.75)
    """
    return min(max(by_rule(reward.rule, values), reward.range[0]), reward.most)


def by_rule(rule: str, values: Iterable[float]) -> float:
    """Return what a rule makes of several rewards, in the order in which they came."""
    some = list(values)
    return some[0] if rule == "first" else sum(some) if rule == "sum" else some[-1]


def bits(mask: NDArray[np.bool_]) -> bytes:
    """Return a mask of arms as bits."""
    return np.packbits(mask).tobytes()


def unbits(packed: bytes, n_arms: int) -> NDArray[np.bool_]:
    """Return the mask that `bits` packed."""
    return np.unpackbits(np.frombuffer(packed, np.uint8), count=n_arms).astype(np.bool_)
