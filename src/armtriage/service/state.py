"""PolicyState: a policy's state as a function of its log. The same events give the same state."""

from __future__ import annotations

import hashlib
from collections import Counter, deque
from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from functools import cached_property
from typing import Any

import msgspec
import numpy as np
from msgspec import Struct
from numpy.typing import NDArray

from armtriage.decisions import ArmSet, Decision
from armtriage.policies import Policy
from armtriage.service import events as log
from armtriage.service.events import ArmsChanged, Decided, Event, Expired, Lived, Rewarded, unpack
from armtriage.service.messages import RewardRule
from armtriage.service.recipe import Recipe
from armtriage.service.refusal import said
from armtriage.service.timeline import Timeline


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


_SAVED = msgspec.msgpack.Decoder(_Saved)
_PIECE = msgspec.msgpack.Decoder(list[tuple[str, Open]])
_SLACK = 1000  # ids of closed decisions that are kept, beyond as many as there are open ones
PLAIN = 1_200
"""Bytes that an open decision takes without what its request brought, as measured."""

_LIGHT = 512  # bytes of arrays that are counted in that
_PIECES = (
    500  # open decisions of a piece: they are packed in a thread, which holds all others up for half a millisecond
)


class PolicyState:
    """The state that a log makes; only the loop of its policy may touch it.

    Live requests change it by `decide`, `reward`, `expire`, `change_arms` and `live`, which give the event to be
    logged; a replay changes it by `apply`. Both go through the same code.
    """

    def __init__(self, recipe: Recipe, policy: Policy | None = None) -> None:
        self.recipe = recipe
        self.policy = recipe.make() if policy is None else policy
        self.rule = recipe.create.reward.rule
        self.default = recipe.create.reward.default
        self.low, self.high = recipe.create.reward.range
        self.head = self.closed_before = self.decided = 0
        self.status = "running"
        self.open: dict[str, Open] = {}  # by id, oldest first
        self._more: dict[str, tuple[int, ArmSet | None]] = {}  # what open decisions keep beyond what each does
        self._sets: Counter[ArmSet] = Counter()  # in how many of them
        self._more_of_all = 0
        self._queue: deque[str] = deque()  # their ids, among others that are closed: a dict finds its first one slowly
        self.timeline = Timeline()
        self.changes: list[tuple[int, int, list[int]]] = []  # of arms: event, how many there are now, those retired
        self._decided_at = 0  # when the last decision was made
        self.meta = {one.id: dict(one.meta) for one in recipe.arms if one.meta}
        self._name_arms()

    def _name_arms(self) -> None:
        arms = self.policy.arms
        self.names = [str(name) for name in arms.names]
        self.index = {name: arm for arm, name in enumerate(self.names)}
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

    def opened(self, key: str, decision: Decision, at: int) -> Open:
        """Note a decision that was just made."""
        self._weigh(key, decision)
        one = Open(decision.number, at, tuple(decision.revealed.tolist()))
        self.open[key] = one
        self._queue.append(key)
        if len(self._queue) > 2 * len(self.open) + _SLACK:
            self._queue = deque(self.open)
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

    @property
    def held(self) -> int:
        """About how many bytes of memory the open decisions take."""
        return PLAIN * len(self.open) + self._more_of_all

    def _weigh(self, key: str, decision: Decision) -> None:
        """Count what an open decision keeps: its arms, who was eligible, and contexts."""
        kept = sum(value.nbytes for value in vars(decision).values() if isinstance(value, np.ndarray))
        if kept > _LIGHT or decision.among is not None:
            self._more[key] = kept, decision.among
            self._more_of_all += kept
            if decision.among is not None:
                self._sets[decision.among] += 1
                self._more_of_all += decision.among.nbytes * (self._sets[decision.among] == 1)

    def _closed(self, key: str) -> None:
        """Forget a decision whose rewards have come, or whose time has passed."""
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

    def reward(self, key: str, body: Rewarded, at: int) -> Event:
        """Apply rewards that have been checked, and return their event."""
        one = self.open[key]
        self.tick(at)
        self._rewarded(key, one, body)
        return self.next_event(log.REWARD, key, one.turn + 1, one.number, at, body)

    def _rewarded(self, key: str, one: Open, body: Rewarded) -> None:
        if self.rule == "first":
            told = {**one.told}
            for arm, value in zip(body.arms, body.values, strict=True):
                told[arm] = body.reward, value
            given = {self.names[arm]: value for arm, value in zip(body.arms, body.values, strict=True)}
            whole = body.last or len(told) == len(one.show)
            # Where no click is told at the time-out, one that ends a decision must not make it count sooner.
            in_turn = self.default is not None and len(told) == len(one.show)
            self.policy.tell(one.number, given, last=whole and not in_turn)
            if whole:
                self._closed(key)
            else:
                self.open[key] = Open(one.number, one.at, one.show, one.turn + 1, told)
            return
        gathered = {**one.gathered}
        for arm, value in zip(body.arms, body.values, strict=True):
            gathered[arm] = {**gathered.get(arm, {}), body.reward: value}
        one = Open(one.number, one.at, one.show, one.turn + 1, gathered=gathered)
        if body.last:
            self._tell_gathered(one, last=True)
            self._closed(key)
        else:
            self.open[key] = one

    def _tell_gathered(self, one: Open, last: bool) -> None:
        """Let the policy learn what the rule makes of the rewards that have come."""
        reward = self.recipe.create.reward
        given = {self.names[arm]: learnt(reward, by_id.values()) for arm, by_id in sorted(one.gathered.items())}
        self.policy.tell(one.number, given, last=last)

    def oldest(self) -> Open | None:
        """Return the oldest open decision."""
        while self._queue and self._queue[0] not in self.open:
            self._queue.popleft()
        return self.open[self._queue[0]] if self._queue else None

    def due(self, now: int, most: int) -> int | None:
        """Return before which number the decisions' time has passed, if any of them is open.

        If there are many, it is that of the oldest, about `most` of them.
        """
        before, size = None, 0
        if self.oldest() is not None:
            for one in filter(None, map(self.open.get, self._queue)):
                size += 1
                if now - one.at >= self.recipe.window:
                    before = one.number + 1
                    if size >= most:
                        break
                elif one.at <= now:
                    break
                # Else the clock was wrong then: it is due when a later one is.
        return before

    def expire(self, before: int, at: int) -> Event:
        """Close all decisions before a number, and return the event."""
        self.tick(at)
        self._expired(before)
        seq = self.head + 1
        return self.next_event(log.EXPIRE, "", seq, before, at, Expired(before))

    def _expired(self, before: int) -> None:
        while (one := self.oldest()) is not None and one.number < before:
            if one.gathered:
                self._tell_gathered(one, last=False)
            self._closed(self._queue.popleft())
        self.policy.close_before(before, default=self.default)
        self.closed_before = max(self.closed_before, before)

    def change_arms(self, body: ArmsChanged, at: int) -> Event:
        """Add, retire and restore arms, which have been checked, and return the event."""
        seq = self.head + 1
        self._arms_changed(body, seq)
        return self.next_event(log.ARMS, "", seq, None, at, body)

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

    def live(self, status: str, at: int) -> Event:
        """Change the status, and return the event."""
        self.status = status
        seq = self.head + 1
        return self.next_event(log.LIFE, "", seq, None, at, Lived(status))

    def apply(self, event: Event) -> None:
        """Change the state as an event of the log says."""
        if event.seq != self.head + 1:
            raise ValueError(f"the log has event {event.seq} after {self.head}")
        body = unpack(event)
        if event.kind in (log.DECISION, log.REWARD, log.EXPIRE):
            self.tick(event.at)
        if event.kind == log.DECISION:
            self._decided(event, body)
        elif event.kind == log.REWARD:
            self._rewarded(event.key, self.open[event.key], body)
        elif event.kind == log.EXPIRE:
            self._expired(body.before)
        elif event.kind == log.ARMS:
            self._arms_changed(body, event.seq)
        else:
            self.status = body.status
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
        decision = self.policy.record([self.names[arm] for arm in body.arms], **given)
        if decision.number != event.number:
            raise ValueError(f"event {event.seq} is decision {event.number}, and the policy made {decision.number}")
        self.opened(event.key, decision, event.at)

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
        for piece in _pieces(self.open):
            total.update(piece)
        return total.hexdigest()

    def to_bytes(self) -> bytes:
        """Return everything, for a snapshot."""
        return self.freeze()()

    def freeze(self) -> Callable[[], bytes]:
        """Return a function that makes what `to_bytes` would return now, later and in another thread."""
        opened, policy = self.open.copy(), self.policy.freeze()
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
        )

        def later() -> bytes:
            saved.open, saved.policy = list(_pieces(opened)), policy()
            return log.pack(saved)

        return later

    @classmethod
    def from_bytes(cls, recipe: Recipe, payload: bytes) -> PolicyState:
        """Return what `to_bytes` wrote."""
        saved = _SAVED.decode(payload)
        state = cls(recipe, Policy.from_bytes(saved.policy))
        state.head, state.status, state.closed_before = saved.head, saved.status, saved.closed_before
        state.decided, state.meta, state.timeline = saved.decided, saved.meta, Timeline(*saved.timeline)
        state.changes = saved.changes
        for piece in saved.open:
            state.open.update(_PIECE.decode(piece))
        state._queue.extend(state.open)
        decisions = {decision.number: decision for decision in state.policy.open_decisions}
        for key, one in state.open.items():
            if one.number in decisions:
                state._weigh(key, decisions[one.number])
        return state


def _pieces(opened: Mapping[str, Open]) -> Iterator[bytes]:
    """Yield open decisions, packed."""
    rows = list(opened.items())
    for start in range(0, len(rows), _PIECES):
        yield log.pack(rows[start : start + _PIECES])


def learnt(reward: RewardRule, values: Iterable[float]) -> float:
    """Return what a policy learns of an arm that had rewards, in the order in which they came.

    Examples
    --------
    >>> learnt(RewardRule(rule="sum"), [0.5, 0.75]), learnt(RewardRule(rule="last"), [0.5, 0.75])
    (1.0, 0.75)
    """
    some = list(values)
    value = some[0] if reward.rule == "first" else sum(some) if reward.rule == "sum" else some[-1]
    low, high = reward.range
    return min(max(value, low), high)


def bits(mask: NDArray[np.bool_]) -> bytes:
    """Return a mask of arms as bits."""
    return np.packbits(mask).tobytes()


def unbits(packed: bytes, n_arms: int) -> NDArray[np.bool_]:
    """Return the mask that `bits` packed."""
    return np.unpackbits(np.frombuffer(packed, np.uint8), count=n_arms).astype(np.bool_)
