"""Trial: a policy's control group and the limits on second numbers of decisions, as a function of the policy's log."""

from __future__ import annotations

from collections import deque
from collections.abc import Callable, Mapping, Sequence
from typing import Any, NamedTuple

import msgspec
import numpy as np
from msgspec import UNSET, Struct
from msgspec.structs import replace

from armtriage.service import events as log
from armtriage.service.messages import Control, ControlChange, Metric
from armtriage.service.refusal import Refused, refuse_repeated, said
from armtriage.service.timeline import finite
from armtriage.trials import Contrast, Guardrail, LiftInterval
from armtriage.trials.lift import Coin, lift_of

TOTAL = -1
"""The number of a decision's total among its rewards; those of metrics come before it, from -2 down."""

POINTS = 300
"""The most points of the lift's course that are kept."""

_UNITS = {"s": 1, "m": 60, "h": 3600, "d": 86400}
_WAITING, _MET = 256, 80  # bytes that a decision and a unit take, as measured
_LOOKS = 1.05  # how many more decisions there are at each check of the control's share


def microseconds(text: str) -> int:
    """Return a time such as ``30d``.

    Examples
    --------
    >>> microseconds("2m")
    120000000
    """
    return int(text[:-1]) * _UNITS[text[-1]] * 1_000_000


class Waiting(Struct, array_like=True, frozen=True, gc=False):
    """A decision that has not counted: since it is open, or an older one is."""

    control: bool
    counts: bool
    arms: tuple[int, ...]
    total: float | None = None  # None while it is open
    metrics: tuple[float, ...] = ()


class Point(NamedTuple):
    """The lift after so many decisions had counted."""

    decisions: int
    at: int
    lift: float
    low: float
    high: float


class MetricView(Struct):
    """A second number of decisions: what it is for each group, its limit, and whether that is broken for certain."""

    name: str
    text: str
    policy_mean: float | None
    control_mean: float | None
    limit: dict[str, float]
    alpha: float
    breached: bool
    on_breach: str


class TrialView(NamedTuple):
    """A view of a trial."""

    control: Control | None
    interval: LiftInterval | None
    metrics: list[MetricView]
    points: list[Point]
    in_force: str
    cut: int


class _Saved(Struct, array_like=True):
    """What a snapshot keeps."""

    control: Control | None
    numbers: list[int]
    in_force: str
    raised: list[tuple[str, str]]
    arrays: list[dict[str, bytes]]
    waiting: list[bytes]
    met: bytes


_SAVED = msgspec.msgpack.Decoder(_Saved)
_PIECE = msgspec.msgpack.Decoder(list[tuple[str, Waiting]])


class Trial:
    """Which group each decision is in, and what the groups have earned, counted in the order of asking.

    Parameters
    ----------
    control : Control or None
        The control group, if there is one.
    metrics : sequence of Metric
        Second numbers of decisions, with their limits.
    reward : RewardRule
        What arms earn; arms whose rewards do not come earn its default.
    budget : int
        How many arms a decision has at most.
    """

    def __init__(self, control: Control | None, metrics: Sequence[Metric], reward: Any, budget: int) -> None:
        self.metrics, self._reward, self._budget = metrics, reward, budget
        self.waiting: dict[str, Waiting] = {}  # by id, in the order of asking
        self._order: deque[str] = deque()  # their ids: a dict finds its first one slowly
        self.controls = self.asked = self.since = self.cut = self._period = 0
        self._met: set[int] = set()  # units of this period, each by a keyed hash
        self._begin(control)

    @classmethod
    def of(cls, create: Any, budget: int) -> Trial | None:
        """Return the trial of a recipe, or None; refuse what cannot be."""
        control = None if create.control is UNSET else create.control
        metrics = [] if create.metrics is UNSET else create.metrics
        if control is None and not metrics:
            return None
        if control is not None and create.reward.default is None:
            raise Refused("invalid", "control needs reward.default: a decision without rewards must count as something")
        if control is not None and not 0.0 < control.share < 1.0:
            raise Refused("invalid", f"share must lie strictly between 0 and 1, got {control.share!r}")
        if control is not None and control.incumbent is not UNSET:
            refuse_repeated("incumbent", control.incumbent)
        names = [one.name for one in metrics]
        if len(set(names)) < len(names):
            raise Refused("invalid", f"metrics must have different names, got {', '.join(names)}")
        for one in metrics:
            low, high = one.range
            if not low <= one.default <= high:
                raise Refused("invalid", f"metrics.{one.name}.default must lie in [{low:g}, {high:g}]")
            if control is None and one.on_breach == "control":
                raise Refused("invalid", f"metrics.{one.name}.on_breach must be tell where there is no control")
        try:
            return cls(control, metrics, create.reward, budget)
        except (TypeError, ValueError) as error:
            raise Refused("invalid", said(error)) from None

    def _begin(self, control: Control | None) -> None:
        """Count from now on only."""
        self.control, self.in_force = control, ""  # why every decision is the control's; nothing, if that is not so
        self._coin = Coin(b"" if control is None or control.key is UNSET else control.key.encode())
        self.raised: set[tuple[str, str]] = set()  # alarms of this window
        self.points: list[Point] = []
        low, high = self._reward.counted
        self.least, self.most = min(0.0, self._budget * low), max(0.0, self._budget * high)
        if control is not None:
            if control.most is not UNSET:
                self.most = control.most
            if not self.least < self.most:
                raise ValueError(f"most must be above the least total, {self.least:g}, got {self.most!r}")
            self._contrast = Contrast(control.share, self.most - self.least, alpha=control.alpha)
        self._groups: list[bool] = []  # of decisions that count and are not in the contrast yet
        self._totals: list[float] = []
        share = None if control is None else control.share
        self.guardrails = [
            Guardrail(share, one.range, falls=one.falls, alpha=one.alpha, **one.limit.given()) for one in self.metrics
        ]
        self._looked, self._next_check = 0, 1.0  # decisions at the last look for alarms, and at the next at the share

    @property
    def contrast(self) -> Contrast:
        """What the groups have earned. Decisions are added together when it is looked at: that takes a fifth each."""
        if self._totals:
            one = len(self._totals) == 1
            self._contrast.add(self._groups[0] if one else self._groups, self._totals[0] if one else self._totals)
            self._groups, self._totals = [], []
        return self._contrast

    @property
    def _counted(self) -> list[Contrast | Guardrail]:
        return [*([] if self.control is None else [self.contrast]), *self.guardrails]

    @property
    def labels(self) -> list[str]:
        """The names of what decisions earn beside their arms' rewards, so that each is at its number."""
        return [*(f"metrics.{one.name}" for one in reversed(self.metrics)), "total"]

    def number_of(self, metric: str) -> int:
        """Return the number of a metric among the rewards of a decision; refuse one that is not known."""
        for place, one in enumerate(self.metrics):
            if one.name == metric:
                return TOTAL - 1 - place
        known = ", ".join(one.name for one in self.metrics) or "none"
        raise Refused("invalid", f"metrics must be of those of the policy, {known}, got {metric}")

    def group(self, key: str, unit: str | None, at: int) -> tuple[bool, int | None]:
        """Return whether a decision is the control's, and the hash of its unit; nothing changes."""
        control = self.control
        if control is None:
            return False, None
        if control.by == "decision":
            return self._coin.toss(f"decision {key}", control.share)[0] or bool(self.in_force), None
        drawn, known_as = self._coin.toss(f"unit {self._period_at(at)} {unit}", control.share)
        return drawn or bool(self.in_force), known_as

    def _period_at(self, at: int) -> int:
        """Return the number of the period, which never falls: a clock that is set back draws no group again."""
        assert self.control is not None
        return max(self._period, at // microseconds(self.control.period))

    def opened(self, key: str, control: bool, unit: int | None, at: int, arms: Sequence[int]) -> None:
        """Wait for what a decision earns."""
        counts = not self.in_force
        if unit is not None:
            if (period := self._period_at(at)) != self._period:
                self._period, self._met = period, set()
            # The group of a unit that was met before is known beforehand, and proves nothing.
            counts = counts and unit not in self._met
            if not self.in_force:
                self._met.add(unit)
        self.waiting[key] = Waiting(control, counts, tuple(arms))
        self._order.append(key)
        self.asked += 1
        self.controls += control

    @property
    def held(self) -> int:
        """About how many bytes of memory it takes to wait for decisions, and to know units again."""
        return _WAITING * len(self.waiting) + _MET * len(self._met)

    def is_control(self, key: str) -> bool:
        """Whether an open decision is the control's."""
        one = self.waiting.get(key)
        return one is not None and one.control

    def closed(self, key: str, values: Mapping[int, float]) -> None:
        """Take what a decision has earned, now that no more can come; one that was made elsewhere counts nowhere."""
        one = self.waiting.get(key)
        if one is None:
            return
        default = 0.0 if self._reward.default is None else self._reward.default
        if TOTAL in values:
            total = values[TOTAL]
        elif one.arms:
            total = 0.0
            for arm in one.arms:
                total += values.get(arm, default)
        else:
            total = self._budget * default
        self.cut += total > self.most
        metrics = (
            ()
            if not self.metrics
            else tuple(
                min(max(values.get(TOTAL - 1 - place, of.default), of.range[0]), of.range[1])
                for place, of in enumerate(self.metrics)
            )
        )
        total = float(min(max(total, self.least), self.most))
        self.waiting[key] = Waiting(one.control, one.counts, (), total, metrics)
        self._count()

    def _count(self) -> None:
        """Count the oldest decisions, as far as all are closed."""
        order, maximize = self._order, self._reward.direction == "maximize"
        while order and (one := self.waiting[order[0]]).total is not None:
            del self.waiting[order.popleft()]
            if one.counts:
                if self.control is not None:
                    self._groups.append(one.control)
                    self._totals.append(one.total - self.least if maximize else self.most - one.total)
                for guardrail, value in zip(self.guardrails, one.metrics, strict=True):
                    guardrail.add(one.control, value)

    def news(self) -> list[tuple[str, str]]:
        """Return alarms that are not raised yet: what they are about, and of which metric."""
        found = [
            ("breach", of.name)
            for of, guardrail in zip(self.metrics, self.guardrails, strict=True)
            if guardrail.breached and ("breach", of.name) not in self.raised
        ]
        if self.control is None or (contrast := self.contrast).decisions == self._looked:
            return found
        self._looked = contrast.decisions
        if contrast.decisions >= self._next_check and ("share_mismatch", "") not in self.raised:
            self._next_check = _LOOKS * contrast.decisions
            if not contrast.share_ok:
                found.append(("share_mismatch", ""))
        if (
            ("worse", "") not in self.raised
            and contrast.exceeds(self.control.alpha / 2.0, upper=True)
            and contrast.share_ok
        ):
            found.append(("worse", ""))
        return found

    def alarm(self, kind: str, what: str) -> None:
        """Note an alarm; from some on every decision is the control's."""
        self.raised.add((kind, what))
        ends = {f"breach {one.name}" for one in self.metrics if one.on_breach == "control"}
        if self.control is not None and self.control.on_worse == "control":
            ends.add("worse ")
        if f"{kind} {what}" in ends:
            self.in_force = self.in_force or kind

    def changed(self, change: ControlChange) -> Control | None:
        """Return the control group after a change; None if it is as it was."""
        assert self.control is not None
        given = {
            name: getattr(change, name)
            for name in change.__struct_fields__
            if getattr(change, name) is not UNSET and getattr(change, name) != getattr(self.control, name)
        }
        return replace(self.control, **given) if given else None

    def start_window(self, control: Control | None = None) -> None:
        """Count from now on only, with an alpha of its own: decisions that were asked for before do not count."""
        self._begin(self.control if control is None else control)
        self.since = self.asked
        self.waiting = {key: replace(one, counts=False) for key, one in self.waiting.items()}

    def interval(self) -> LiftInterval | None:
        """Return what the policy earns more than the control, as far as that is known; None without a control."""
        if self.control is None:
            return None
        span = self.least, self.most
        return lift_of(self.contrast, span, self._reward.direction, self.since, len(self.waiting))

    def view(self) -> TrialView:
        """Return a view, in copies."""
        metrics = [
            MetricView(
                of.name,
                str(guardrail),
                finite(guardrail.policy_mean),
                finite(guardrail.control_mean),
                of.limit.given(),
                of.alpha,
                guardrail.breached,
                of.on_breach,
            )
            for of, guardrail in zip(self.metrics, self.guardrails, strict=True)
        ]
        return TrialView(self.control, self.interval(), metrics, list(self.points), self.in_force, self.cut)

    def add_point(self, at: int) -> None:
        """Note the lift as it is now; points are no part of the state."""
        found = self.interval()
        if found is None or not found.controls or (self.points and self.points[-1].decisions == found.decisions):
            return
        self.points.append(Point(found.decisions, at, found.lift, found.low, found.high))
        if len(self.points) > POINTS:
            self.points[:-1] = self.points[:-1:2]

    def freeze(self) -> Callable[[], bytes]:
        """Return a function that packs the present state, later and in another thread."""
        arrays = [{name: one.tobytes() for name, one in of.to_arrays().items()} for of in self._counted]
        numbers = [self.controls, self.asked, self.since, self.cut, self._period]
        waiting, met = self.waiting.copy(), self._met.copy()
        saved = _Saved(self.control, numbers, self.in_force, sorted(self.raised), arrays, [], b"")

        def later() -> bytes:
            saved.waiting, saved.met = list(log.pieces(waiting)), np.array(sorted(met), np.int64).tobytes()
            return log.pack(saved)

        return later

    def restore(self, packed: bytes) -> None:
        """Take back what `freeze` packed."""
        saved = _SAVED.decode(packed)
        self._begin(saved.control)
        self.in_force, self.raised = saved.in_force, set(saved.raised)
        self.controls, self.asked, self.since, self.cut, self._period = saved.numbers
        for of, given in zip(self._counted, saved.arrays, strict=True):
            shapes = {name: one.shape for name, one in of.to_arrays().items()}
            if given.keys() != shapes.keys():
                raise ValueError(f"a trial must have {', '.join(shapes)}, got {', '.join(given)}")
            of.restore({name: np.frombuffer(one).reshape(shapes[name]) for name, one in given.items()})
        for piece in saved.waiting:
            self.waiting.update(_PIECE.decode(piece))
        self._order.extend(self.waiting)
        self._met = set(np.frombuffer(saved.met, np.int64).tolist())
