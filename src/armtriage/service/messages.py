"""What clients send and get, and the strict reading of it."""

from __future__ import annotations

import json
import math
import re
from collections.abc import Sequence
from datetime import UTC, datetime
from typing import Annotated, Any, Literal, TypeVar

import msgspec
from msgspec import UNSET, Meta, Raw, Struct, UnsetType

from armtriage.service.refusal import Refused, quoted, repeated, said, some_of

BATCH = 1000
"""The most decisions or rewards in one request."""

FATES = ("applied", "duplicate", "conflict", "late", "orphan", "rejected")
"""What can become of a reward: every one that is sent ends as exactly one of these."""

ODD = ("clipped", "unknown", "missing")
"""What features can find odd about a value of a raw row."""

Id = Annotated[str, Meta(min_length=1, max_length=128, pattern=r"^[\x21-\x7e]+\Z")]
ArmName = Annotated[str, Meta(min_length=1, max_length=128, pattern=r"^[^\x00-\x1f\x7f-\x9f]+\Z")]
PolicyName = Annotated[str, Meta(max_length=64, pattern=r"^[A-Za-z0-9][A-Za-z0-9._-]*\Z")]
Number = Annotated[float, Meta(ge=-1e100, le=1e100)]
Text = Annotated[str, Meta(max_length=256, pattern=r"^[^\x00]*\Z")]
Fact = Text | bool | Annotated[int, Meta(ge=-(2**53), le=2**53)] | Number | None
Facts = Annotated[
    dict[Annotated[str, Meta(min_length=1, max_length=64, pattern=r"^[^\x00]*\Z")], Fact], Meta(max_length=32)
]
Column = Annotated[str, Meta(min_length=1, max_length=64, pattern=r"^[^\x00]*\Z")]
Columns = Annotated[list[Column], Meta(max_length=32)]
Row = Annotated[list[float], Meta(max_length=2048)]  # norms are bounded, so that numbers need not be
Index = Annotated[int, Meta(ge=0, le=2**31 - 1)]
Duration = Annotated[str, Meta(max_length=16, pattern=r"^[1-9][0-9]*[smhd]\Z")]
Slate = Annotated[list[ArmName], Meta(min_length=1, max_length=1000)]
Unit = Annotated[str, Meta(min_length=1, max_length=256, pattern=r"^[^\x00]*\Z")]
MetricName = Annotated[str, Meta(min_length=1, max_length=64, pattern=r"^[A-Za-z0-9_-]+\Z")]


class Message(Struct, forbid_unknown_fields=True, kw_only=True):
    """A body that clients send: what it does not know it refuses."""

    def keys(self) -> int:
        """Return how many different keys the body has for certain: never more than there are, and by default none."""
        return 0


def _given(message: Message) -> int:
    """Return how many fields a body has, of a kind in which those that are left out are unset."""
    return sum(getattr(message, name) is not UNSET for name in message.__struct_fields__)


class Decide(Message):
    """Ask for a decision.

    While the policy observes, `shown` is what another system shows, and `inclusion` the probability with which it shows
    each arm, where that is known. When it runs, `shown` is what the control shows.
    """

    id: Id | UnsetType = UNSET
    exclude: Annotated[list[ArmName], Meta(max_length=100_000)] | UnsetType = UNSET
    eligible: Annotated[list[ArmName], Meta(max_length=100_000)] | UnsetType = UNSET
    contexts: list[Row] | dict[ArmName, Row] | UnsetType = UNSET
    rows: list[Facts] | dict[ArmName, Facts] | UnsetType = UNSET
    tags: Facts | UnsetType = UNSET
    unit: Unit | UnsetType = UNSET
    incumbent: Slate | UnsetType = UNSET
    shown: Slate | UnsetType = UNSET
    inclusion: Annotated[dict[ArmName, Number], Meta(max_length=100_000)] | UnsetType = UNSET

    def keys(self) -> int:
        """Return how many different keys the body has."""
        given = self.contexts, self.rows, self.tags, self.inclusion
        inner = sum(len(one) for one in given if isinstance(one, dict))
        if self.rows is not UNSET:
            inner += sum(map(len, self.rows.values() if isinstance(self.rows, dict) else self.rows))
        return _given(self) + inner


class DecideBatch(Message):
    """Ask for several decisions, all or none."""

    requests: Annotated[list[Decide], Meta(min_length=1, max_length=BATCH)]

    def keys(self) -> int:
        """Return how many different keys the body has, counted for each of its objects."""
        return 1 + sum(one.keys() for one in self.requests)


class Reward(Message):
    """Tell rewards of a decision: `rewards` by arm, or `hits`, the arms with a reward of 1.

    `last` says whether no more will come: true by default for `hits`, where it makes the reward of every other arm 0,
    and false for `rewards`. A decision of the control may be told by its `total` instead. Where the feedback is a
    cascade, it is told by `first`, the arm that was clicked first, null for none. `metrics` are the second numbers of
    the decision, which count if they come before it is closed.
    """

    decision: Id
    rewards: dict[ArmName, Number] | UnsetType = UNSET
    hits: Annotated[list[ArmName], Meta(max_length=100_000)] | UnsetType = UNSET
    id: Id | UnsetType = UNSET
    last: bool | UnsetType = UNSET
    total: Number | UnsetType = UNSET
    metrics: Annotated[dict[MetricName, Number], Meta(max_length=8)] | UnsetType = UNSET
    first: ArmName | UnsetType | None = UNSET

    def keys(self) -> int:
        """Return how many different keys the body has."""
        return _given(self) + sum(len(one) for one in (self.rewards, self.metrics) if isinstance(one, dict))


class RewardBatch(Message):
    """Tell rewards of several decisions; one that is refused does not stop the others."""

    requests: Annotated[list[Raw], Meta(min_length=1, max_length=BATCH)]


class Arm(Message):
    """An arm, with what else is known of it."""

    id: ArmName
    meta: Facts = {}


class RewardRule(Message):
    """Which rewards there are, and what counts if an arm has several or none.

    With a `cap`, those above it count as the cap, and the range may have no end.
    """

    range: tuple[Number, Number | None] = (0.0, 1.0)
    direction: Literal["maximize", "minimize"] = "maximize"
    rule: Literal["first", "last", "sum"] = "first"
    default: Number | None = None
    cap: Number | UnsetType = UNSET

    @property
    def most(self) -> float:
        """The largest reward that there may be."""
        return math.inf if self.range[1] is None else self.range[1]

    @property
    def counted(self) -> tuple[float, float]:
        """The least and the largest that a reward counts for."""
        return self.range[0], self.most if self.cap is UNSET else min(self.cap, self.most)


class Feedback(Message):
    """Which arms a chosen arm shows beside itself; in a "cascade", none but those above the first click, and it."""

    kind: Literal["semi_bandit", "full_information", "cliques", "edges", "cascade"] = "semi_bandit"
    sizes: list[Annotated[int, Meta(ge=1, le=100_000)]] | UnsetType = UNSET
    edges: Annotated[list[tuple[ArmName, ArmName]], Meta(max_length=1_000_000)] | UnsetType = UNSET


class DecisionFamily(Message):
    """Which sets of arms may be decided on."""

    kind: Literal["partition", "matchings", "spanning_trees", "paths", "knapsack", "explicit"]
    groups: list[Index] | UnsetType = UNSET
    capacities: Index | list[Index] | UnsetType = UNSET
    left: Index | UnsetType = UNSET
    right: Index | UnsetType = UNSET
    size: Index | UnsetType = UNSET
    n_nodes: Index | UnsetType = UNSET
    edges: list[tuple[Index, Index]] | UnsetType = UNSET
    source: Index | UnsetType = UNSET
    target: Index | UnsetType = UNSET
    weights: list[Number] | UnsetType = UNSET
    capacity: Number | UnsetType = UNSET
    decisions: list[list[Index]] | UnsetType = UNSET


class FeatureFacts(Message):
    """How raw columns become contexts: what `Features.facts` returns, parts of which may be left out."""

    numeric: Annotated[list[tuple[Column, Number, Number]], Meta(max_length=32)] = []
    categories: Annotated[
        list[tuple[Column, Annotated[list[Text], Meta(min_length=1, max_length=2048)]]], Meta(max_length=32)
    ] = []
    hashed: Annotated[list[tuple[Column, Annotated[int, Meta(ge=1, le=2048)]]], Meta(max_length=32)] = []
    products: Annotated[list[tuple[Columns, Columns]], Meta(max_length=64)] = []
    alone: Columns | UnsetType = UNSET
    intercept: bool = True
    clip: Number = 3.0
    steps: bool = False
    context_bound: Number = 1.0
    n_columns: Annotated[int, Meta(ge=1, le=2048)] | UnsetType = UNSET


class Control(Message):
    """A control group: a share of the decisions, drawn by a keyed coin, shows what is shown without the policy.

    Groups are `by` decision, or by unit, such as a visitor, for a `period`. A decision's total counts up to `most`.
    What the control shows is the `incumbent`, that of the request, or what the client would show by itself. The `key`
    of the coin is made with the policy, unless it is given, and is in no answer. With `on_worse` "control", every
    decision is the control's from the moment on at which the policy is worse for certain. With `learn`, the policy
    learns from what the control shows, where that is a slate of its arms.
    """

    share: Number = 0.05
    by: Literal["decision", "unit"] = "decision"
    period: Duration = "30d"
    most: Number | UnsetType = UNSET
    alpha: Number = 0.05
    on_worse: Literal["tell", "control"] = "tell"
    incumbent: Slate | UnsetType = UNSET
    key: Annotated[str, Meta(min_length=16, max_length=128)] | UnsetType = UNSET
    learn: bool | UnsetType = UNSET


class OldRewards(Message):
    """What an earlier log says of arms: how many rewards of each, their sums, perhaps the sums of their squares.

    Its means may be off by the `bias` at most, one for all arms or for each.
    """

    counts: Annotated[dict[ArmName, Annotated[int, Meta(ge=0, le=2**53)]], Meta(max_length=100_000)]
    sums: Annotated[dict[ArmName, Number], Meta(max_length=100_000)]
    bias: Number | Annotated[dict[ArmName, Number], Meta(max_length=100_000)]
    squares: Annotated[dict[ArmName, Number], Meta(max_length=100_000)] | UnsetType = UNSET


class Places(Message):
    """The weights of the places of a page from the top, or "learn"; a share `swaps` of pages compares neighbours."""

    weights: Annotated[list[Number], Meta(min_length=1, max_length=1000)] | Literal["learn"]
    swaps: Number | UnsetType = UNSET


class ControlChange(Message):
    """What of a control group may be changed; all that is left out stays."""

    share: Number | UnsetType = UNSET
    by: Literal["decision", "unit"] | UnsetType = UNSET
    period: Duration | UnsetType = UNSET
    most: Number | UnsetType = UNSET


class Limit(Message):
    """What a metric may be at most: a `ratio` of the control's, a `difference` above it, or `most` by itself."""

    ratio: Number | UnsetType = UNSET
    difference: Number | UnsetType = UNSET
    most: Number | UnsetType = UNSET

    def given(self) -> dict[str, float]:
        """Return those that are given."""
        return {name: getattr(self, name) for name in self.__struct_fields__ if getattr(self, name) is not UNSET}


class Metric(Message):
    """A second number of each decision, with a limit; one that `falls` must not get small.

    With `on_breach` "control", every decision is the control's from the moment on at which the limit is broken.
    """

    name: MetricName
    limit: Limit
    range: tuple[Number, Number] = (0.0, 1.0)
    default: Number = 0.0
    falls: bool = False
    alpha: Number = 0.01
    on_breach: Literal["tell", "control"] = "tell"


class Takeover(Message):
    """When a policy ends observing by itself: as soon as it would earn more than `margin` in each decision for certain.

    It ever does so without earning that with probability at most `delta`. `by` says how that is known: by the arms'
    intervals ("bracket"), if the other system does not look at the visitor, or by its probabilities ("dr"). From then
    on the control group has the share `control`, if that is given.
    """

    by: Literal["bracket", "dr"]
    margin: Number = 0.0
    delta: Number = 0.05
    control: Number | UnsetType = UNSET


class Create(Message):
    """Make a policy; one whose `status` is "observing" learns from what another system shows, and decides nothing."""

    name: PolicyName
    arms: Annotated[list[Arm | ArmName], Meta(min_length=1, max_length=100_000)]
    policy: dict[Annotated[str, Meta(max_length=64)], Fact | dict[Annotated[str, Meta(max_length=64)], Number]] = {}
    budget: Annotated[int, Meta(ge=1, le=1000)] | UnsetType = UNSET
    decisions: DecisionFamily | UnsetType = UNSET
    dimension: Annotated[int, Meta(ge=1, le=2048)] | UnsetType = UNSET
    features: FeatureFacts | UnsetType = UNSET
    feedback: Feedback = msgspec.field(default_factory=Feedback)
    seed: Annotated[int, Meta(ge=0, le=2**63 - 1)] | UnsetType = UNSET
    reward: RewardRule = msgspec.field(default_factory=RewardRule)
    join_window: Duration = "24h"
    log_contexts: Literal["all", "chosen"] = "all"
    control: Control | UnsetType = UNSET
    metrics: Annotated[list[Metric], Meta(max_length=8)] | UnsetType = UNSET
    watch: Number | UnsetType = UNSET
    status: Literal["running", "observing"] | UnsetType = UNSET
    takeover: Takeover | UnsetType = UNSET
    old_log: OldRewards | UnsetType = UNSET
    positions: Places | UnsetType = UNSET


class ArmsChange(Message):
    """Add, retire and restore arms, and change what else is known of them, all or nothing."""

    add: Annotated[list[Arm | ArmName], Meta(max_length=100_000)] = []
    retire: Annotated[list[ArmName], Meta(max_length=100_000)] = []
    restore: Annotated[list[ArmName], Meta(max_length=100_000)] = []
    meta: Annotated[dict[ArmName, Facts], Meta(max_length=100_000)] = {}


class Status(Message):
    """Pause, resume or archive a policy; change its control group, of which a new `window` begins to count.

    One that observes takes over with "running"; while it is paused before that, "observing" resumes it.
    """

    status: Literal["running", "observing", "paused", "archived"] | UnsetType = UNSET
    control: ControlChange | UnsetType = UNSET
    window: Literal["new"] | UnsetType = UNSET


class Propensity(Struct):
    """With what probability the arms were chosen, as far as it is known.

    With a `logging_floor`, each slot of the `proposal` was given to another arm with probability `floor`; `inclusion`
    has the probability of each of `arms`, and `observation` that of seeing each of `show`, given the proposal. Those of
    another system are as they were "given".
    """

    kind: Literal["unknown", "floor", "given"] = "unknown"
    floor: float | UnsetType = UNSET
    proposal: list[str] | UnsetType = UNSET
    inclusion: list[float] | UnsetType = UNSET
    observation: list[float] | UnsetType = UNSET


UNKNOWN = Propensity()


class Answer(Struct):
    """A decision: show `arms`, and tell the rewards of `show` before the deadline.

    `ranked` has the arms, best first; one that an earlier version made has none. Where there is a control group,
    `group` says whose the decision is; the control's have no number unless they are learned from, and `arms` is null
    where the client shows its own. With `positions`, or in a cascade, `arms` is the order to show.
    While the policy observes, `arms` are those of the other system, and `would_show` its own, by what it knows so far.
    """

    id: str
    seq: int
    number: int | None
    arms: list[str] | None
    show: list[str]
    propensity: Propensity
    version: int
    deadline: str
    ranked: list[str] = []
    group: Literal["policy", "control"] | UnsetType = UNSET
    would_show: list[str] | UnsetType = UNSET


class Known(Struct):
    """What is read again in an answer of the log."""

    propensity: Propensity
    arms: list[str] | None


read_answer = msgspec.json.Decoder(Known).decode


class Fates(Struct):
    """What became of each reward, and which are still awaited."""

    decision: str
    fates: dict[str, Literal["applied", "duplicate", "conflict", "late", "orphan", "rejected"]]
    open: list[str]
    seq: int


class Answers(Struct):
    """The decisions of a batch, in its order."""

    decisions: list[Answer]


class Results(Struct):
    """What became of each part of a batch of rewards, in its order."""

    results: list[dict[str, Any]]


class ArmsChangeAnswer(Struct):
    """How many arms there are now."""

    arms: int
    retired: int
    seq: int


class StatusAnswer(Struct):
    """The status now."""

    status: str
    seq: int


class Error(Struct):
    """Why a request was refused: `error` is one of a fixed list of codes."""

    error: str
    detail: str
    request: str
    fates: dict[str, str] | UnsetType = UNSET


encode = msgspec.json.Encoder().encode
_DECODERS: dict[type[Any], msgspec.json.Decoder[Any]] = {
    kind: msgspec.json.Decoder(kind) for kind in (Decide, DecideBatch, Reward, RewardBatch, Create, ArmsChange, Status)
}
Read = TypeVar("Read", bound=Message)


def is_id(text: str) -> bool:
    r"""Whether a decision could have this id; PostgreSQL takes no others.

    Examples
    --------
    >>> is_id("visit-1"), is_id("visit 1"), is_id("visit-1\n")
    (True, False, False)
    """
    try:
        return bool(msgspec.convert(text, Id))
    except msgspec.ValidationError:
        return False


def read(kind: type[Read], body: bytes | Raw) -> Read:
    """Return the message that a body holds; refuse by name what is not JSON, not such a message, or says a key twice.

    Examples
    --------
    >>> read(Decide, b'{"id": "visit-1"}').id
    'visit-1'
    >>> read(Reward, b'{"decision": "visit-1", "rewards": {"tea": NaN}}')
    Traceback (most recent call last):
    armtriage.service.refusal.Refused: malformed: The body is not JSON.
    >>> read(Reward, b'{"decision": "visit-1", "reward": {"tea": 1}}')
    Traceback (most recent call last):
    armtriage.service.refusal.Refused: invalid: Object contains unknown field `reward`; known are decision, rewards,
    hits, id, last, total, metrics, first
    >>> read(Reward, b'{"decision": "visit 1", "rewards": {"tea": 1}}')
    Traceback (most recent call last):
    armtriage.service.refusal.Refused: invalid: Expected `str` matching regex ... - at `$.decision`, got "visit 1"
    """
    try:
        message: Read = _DECODERS[kind].decode(body)
    except msgspec.ValidationError as error:
        raise Refused("invalid", _explained(kind, bytes(body), str(error))) from None
    except (msgspec.DecodeError, UnicodeDecodeError, RecursionError):
        raise Refused("malformed") from None
    # Every key has a colon, so a body with as many colons as keys has no key twice; in others one must look.
    raw = bytes(body)
    colons = raw.count(b":")
    if colons > 1 and colons != message.keys():
        plain(raw)
    return message


def _explained(kind: type[Message], body: bytes, text: str) -> str:
    """Return what msgspec says of a body, with what is accepted where it does not say that, and the wrong value."""
    steps = re.findall(r"\.(\w+)|\[(\d+|\.\.\.)\]", text.rpartition(" - at ")[2])
    types = _types_at(msgspec.inspect.type_info(kind), steps)
    safe = said(ValueError(text))
    if text.startswith("Object contains unknown field"):
        known = [one.encode_name for about in types for one in getattr(about, "fields", ())]
        return f"{safe}; known are {', '.join(known)}"
    if text.startswith("Invalid enum value"):
        accepted = [value for about in types for value in getattr(about, "values", ())]
        return f"{safe}; accepted are {', '.join(map(str, accepted))}"
    if not text.startswith("Expected"):
        return safe
    try:
        names, value = _wrong_in(kind, json.loads(body), steps, text)
    except (ValueError, LookupError, TypeError, RecursionError):
        return safe
    for name in names:
        safe = safe.replace("[...]", f"[{quoted(name)}]", 1)
    return f"{safe}{':' if ', got ' in text else ', got'} {quoted(value)}"


def _wrong_in(kind: type[Message], whole: Any, steps: Sequence[tuple[str, str]], text: str) -> tuple[list[str], Any]:
    """Return the names that msgspec leaves out of the path to what it complains of, and the wrong value or key."""
    names, value = list[str](), whole
    for field, place in steps:
        if place == "...":
            names.append(_one_wrong(kind, whole, value, text))
        value = value[names[-1] if place == "..." else field or int(place)]
    return names, _one_wrong(kind, whole, value, text) if "`key` in" in text else value


def _one_wrong(kind: type[Message], whole: Any, inner: dict[str, Any], text: str) -> str:
    """Return the name of an entry that is complained of; of this object inside of a body, only that is left."""
    left = list(inner.items())
    while True:
        half = left[: (len(left) + 1) // 2]
        inner.clear()
        inner.update(half)
        try:
            msgspec.convert(whole, kind)
        except msgspec.ValidationError as error:
            if str(error) == text:
                if len(half) == 1:
                    return half[0][0]
                left = half
                continue
        left = left[len(half) :]
        if not left:
            raise LookupError(text)


def _types_at(about: Any, steps: Sequence[tuple[str, str]]) -> list[Any]:
    """Return the types to which some steps lead from a type."""
    if isinstance(about, msgspec.inspect.UnionType):
        return [found for one in about.types for found in _types_at(one, steps)]
    if isinstance(about, msgspec.inspect.Metadata):
        return _types_at(about.type, steps)
    if not steps:
        return [about]
    inner = [one.type for one in getattr(about, "fields", ()) if one.encode_name == steps[0][0]]
    inner += [getattr(about, part) for part in ("item_type", "value_type") if steps[0][1] and hasattr(about, part)]
    return [found for one in inner for found in _types_at(one, steps[1:])]


def plain(body: bytes) -> Any:
    """Return what a body holds; refuse one that is not JSON, or has a key twice, which parsers resolve differently.

    Examples
    --------
    >>> plain(b'{"label": "web", "label": "app"}')
    Traceback (most recent call last):
    armtriage.service.refusal.Refused: duplicate_key: An object has the key "label" twice.
    """
    try:
        return json.loads(body, object_pairs_hook=_different)
    except (ValueError, RecursionError):
        raise Refused("malformed") from None


def _different(pairs: list[tuple[str, Any]]) -> dict[str, Any]:
    found = dict(pairs)
    if len(found) < len(pairs):
        twice = some_of(repeated(key for key, _ in pairs))
        raise Refused("duplicate_key", f"An object has the key {twice} twice.")
    return found


def rfc3339(microseconds: int) -> str:
    """Return a time as text, in UTC and whole seconds, never early.

    Examples
    --------
    >>> rfc3339(1_500_000)
    '1970-01-01T00:00:02Z'
    """
    seconds = -(-microseconds // 1_000_000)
    return datetime.fromtimestamp(seconds, UTC).strftime("%Y-%m-%dT%H:%M:%SZ")
