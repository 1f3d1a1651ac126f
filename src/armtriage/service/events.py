"""The log: all that ever changes a policy, one event after the other, and the rewards that changed nothing."""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from typing import Any, NamedTuple

import msgspec
from msgspec import Struct

DECISION, REWARD, EXPIRE, ARMS, LIFE, ALARM, WINDOW = 1, 2, 3, 4, 5, 6, 7
KINDS = {
    DECISION: "decision",
    REWARD: "reward",
    EXPIRE: "expire",
    ARMS: "arms",
    LIFE: "life",
    ALARM: "alarm",
    WINDOW: "window",
}
"""What a kind of event is called."""


STRAY = 64
"""Bytes that a stray takes beside its key and its body."""


class Event(NamedTuple):
    """One line of a policy's log; `seq` counts its lines from 1, without gaps.

    `key` is the id of the decision that it is about, and `turn` how many events of that decision came before: a
    store holds each pair once, so that two histories of one decision can never both be written.
    """

    seq: int
    kind: int
    key: str
    turn: int
    number: int | None
    at: int  # microseconds since 1970
    body: bytes


class Stray(NamedTuple):
    """A reward that was stored and not learnt: of no decision that is known ("orphan"), or after its time ("late")."""

    key: str
    turn: int
    at: int
    fate: str
    body: bytes

    @property
    def size(self) -> int:
        """About how many bytes it takes in a store."""
        return len(self.key) + len(self.body) + STRAY


class History(NamedTuple):
    """All that is known of a decision."""

    events: list[Event]
    strays: list[Stray]


class Decided(Struct, array_like=True):
    """A decision. Arms are numbers; `eligible` is bits, one for each arm, None for all."""

    arms: list[int]
    show: list[int] | None  # None: the arms themselves
    answer: bytes
    request: bytes | None = None  # digest of what was asked, where the client gave the id
    eligible: bytes | None = None
    contexts: bytes | None = None  # little-endian doubles, a row for each arm
    tags: dict[str, Any] | None = None
    proposal: list[int] | None = None  # what was proposed before a logging floor gave slots to others
    control: bool | None = None  # whether it is the control's; None for one that is in no trial
    unit: int | None = None  # a keyed hash of who sees it, where groups are by unit
    would: list[int] | None = None  # what the policy would have shown, where another system decided
    chances: list[float] | None = None  # with which that system shows each of them; None: not known


class Rewarded(Struct, array_like=True):
    """Rewards that were applied; `last` says that no more will come, `hits` that zeros among them were filled in.

    A total has the number -1 among the arms, and metrics those from -2 down.
    """

    arms: list[int]
    values: list[float]
    reward: str
    last: bool
    hits: bool = False


class Expired(Struct, array_like=True):
    """The time has passed for the rewards of all decisions before a number, and of so many of the control's."""

    before: int
    controls: int = 0


class ArmsChanged(Struct, array_like=True):
    """Arms that were added, retired or restored, and what else is now known of arms."""

    add: list[str]
    retire: list[str]
    restore: list[str]
    meta: dict[str, dict[str, Any]]
    by: str = ""  # the key that did it; nothing, where none is needed


class Lived(Struct, array_like=True):
    """The policy's new status, by which key, or by which rule of its own."""

    status: str
    by: str = ""
    rule: str = ""


class Alarmed(Struct, array_like=True):
    """An alarm that went off: of which kind, and of which metric or arm."""

    alarm: str
    what: str


class Windowed(Struct, array_like=True):
    """The control group from now on, whose lift begins to count."""

    share: float
    by_what: str
    period: str
    most: float | None
    by: str = ""


class StrayBody(Struct, array_like=True):
    """Rewards as they came, by the arms' names; with `hits`, zeros among them were filled in."""

    rewards: dict[str, float]
    reward: str
    last: bool
    hits: bool


pack = msgspec.msgpack.Encoder().encode
_BODIES: dict[int, Any] = {
    DECISION: Decided,
    REWARD: Rewarded,
    EXPIRE: Expired,
    ARMS: ArmsChanged,
    LIFE: Lived,
    ALARM: Alarmed,
    WINDOW: Windowed,
}
_DECODERS = {kind: msgspec.msgpack.Decoder(body) for kind, body in _BODIES.items()}
_STRAY = msgspec.msgpack.Decoder(StrayBody)

_PIECES = 500  # rows of a piece: they are packed in a thread, which holds all others up for half a millisecond


def pieces(rows: Mapping[str, Any]) -> Iterator[bytes]:
    """Yield what a snapshot keeps of decisions, packed in pieces."""
    whole = list(rows.items())
    for start in range(0, len(whole), _PIECES):
        yield pack(whole[start : start + _PIECES])


def unpack(event: Event) -> Any:
    """Return the body of an event."""
    return _DECODERS[event.kind].decode(event.body)


def unpack_stray(stray: Stray) -> StrayBody:
    """Return the rewards of a stray."""
    return _STRAY.decode(stray.body)
