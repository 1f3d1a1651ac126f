"""Lift: what a policy earns more than a control group, with an interval that may be looked at after every decision."""

from __future__ import annotations

import hashlib
import math
import secrets
import time
from dataclasses import dataclass, fields
from typing import Any, NamedTuple

import numpy as np

from armtriage._arguments import as_number, check_choice, check_number, check_probability, check_range
from armtriage._files import pack_archive, unpack_archive
from armtriage._numbers import short
from armtriage.errors import AlreadyTold, DamagedFile, UnknownDecision
from armtriage.policies.changing import locked, new_lock
from armtriage.trials.contrast import Contrast

_KINDS = ("decision", "unit")
_DIRECTIONS = ("maximize", "minimize")
_DAY = 86_400.0
_BLOCK = 64  # bytes of a block of SHA-256


@dataclass(frozen=True)
class LiftInterval:
    """What a decision of the policy earns more than one of the control, on average over the decisions that count.

    Attributes
    ----------
    decisions, controls : int
        How many decisions count, and how many of them were the control's.
    policy_mean, control_mean : float
        What a decision of each has earned; nan before the first.
    lift : float
        The estimate, in units of rewards; of costs, what is saved. nan before the first decision.
    low, high : float
        With probability 1 - `alpha`, at all times together, the lift is between these.
    alpha : float
        Probability with which that ever fails.
    share_ok : bool
        Whether the control's part of the decisions can be chance. If not, `low` and `high` say nothing.
    since : int
        How many decisions were asked for before the first that counts.
    waiting : int
        Decisions that do not count yet, since they or older ones have not been told.
    direction : str
        ``"minimize"`` if totals are costs.

    Examples
    --------
    >>> lift = Lift(share=0.5, reward_range=(0, 1), key=b"a secret of 16 bytes or more")
    >>> for visit in range(4000):
    ...     group = lift.group(visit)
    ...     lift.tell(visit, total=float(visit % 10 < (3 if group == "policy" else 2)))
    >>> print(lift.interval())
    Over 4,000 decisions, 1,955 of them the control's, a decision of the policy earned 0.297 and one of the control
    0.208: 0.0894 more, with 95% confidence between 0.0423 and 0.136 at any time. That is the mean of all of them, the
    time of learning included.
    """

    decisions: int
    controls: int
    policy_mean: float
    control_mean: float
    lift: float
    low: float
    high: float
    alpha: float
    share_ok: bool
    since: int
    waiting: int
    direction: str = "maximize"

    @property
    def better(self) -> bool:
        """Whether the policy is better than the control for certain."""
        return self.low > 0.0

    @property
    def worse(self) -> bool:
        """Whether the policy is worse than the control for certain."""
        return self.high < 0.0

    def __str__(self) -> str:
        if not self.controls or self.controls == self.decisions:
            return f"Nothing can be said yet: of {self.decisions:,} decisions {self.controls:,} are the control's."
        over = f"Over {self.decisions:,} decisions, {self.controls:,} of them the control's"
        if not self.share_ok:
            return f"{over}: groups were not drawn with the share that was asked for, so nothing can be said."
        verb, more, less = ("cost", "saved", "lost") if self.direction == "minimize" else ("earned", "more", "less")
        means = f"a decision of the policy {verb} {short(self.policy_mean)} and one of the control"
        side = f"{short(abs(self.lift))} {more if self.lift >= 0 else less}"
        sure = (
            f"with {100 * (1 - self.alpha):g}% confidence between {short(self.low)} and {short(self.high)} at any time"
        )
        learned = "That is the mean of all of them, the time of learning included."
        return f"{over}, {means} {short(self.control_mean)}: {side}, {sure}. {learned}"

    def to_dict(self) -> dict[str, Any]:
        """Return the attributes as JSON knows them, with the sentences of `print` under ``"text"``."""
        found: dict[str, Any] = {one.name: getattr(self, one.name) for one in fields(self)}
        known = {
            name: None if isinstance(value, float) and math.isnan(value) else value for name, value in found.items()
        }
        return {**known, "better": self.better, "worse": self.worse, "text": str(self)}


class _Open(NamedTuple):
    """A decision that has not been counted."""

    control: bool
    counts: bool
    total: float  # nan until told


class Lift:
    """Put each decision into a group, by a keyed coin, and compare what the groups earn.

    With probability 1 - alpha, for all numbers of decisions at once, the mean over all of them of what the policy earns
    more than the control, in the same decision, is in the interval. The policy may learn and look at the visitor, and
    the world may change. Needed are groups that nothing else depends on, and totals that count alike in both.

    Parameters
    ----------
    share : float
        Probability of the control.
    reward_range : tuple of float
        What a decision earns at least and at most, the sum over its arms. What lies above counts as the most.
    alpha : float
        Probability with which the interval ever fails.
    key : bytes, optional
        A secret of 16 bytes or more: the same key gives the same id the same group, on any server and at any time. None
        draws one, which `to_bytes` keeps.
    by : {"decision", "unit"}
        Whether each decision has a group of its own, or all decisions of a unit, such as a visitor, have the same one.
        Then only the first decision of a unit in a period counts: the group of later ones is known beforehand.
    period_days : float
        After how many days a unit is put into a group again.
    direction : {"maximize", "minimize"}
        Whether totals are rewards or costs; the lift of costs is what is saved.

    Notes
    -----
    A decision counts once it and all older ones have been told, so that results do not depend on the order in which
    totals arrive: close what will not be told, in both groups alike, with `close_before`.

    Examples
    --------
    >>> lift = Lift(share=0.05, reward_range=(0, 6), key=b"a secret of 16 bytes or more")
    >>> lift.group("visit-7"), lift.group("visit-8")
    ('policy', 'policy')
    >>> lift.tell("visit-8", total=2)
    >>> lift.interval().decisions  # visit-7 is older
    0
    >>> lift.close_before("visit-8")
    1
    >>> lift.interval().decisions
    2
    """

    def __init__(
        self,
        share: float = 0.05,
        reward_range: tuple[float, float] = (0.0, 1.0),
        *,
        alpha: float = 0.05,
        key: bytes | None = None,
        by: str = "decision",
        period_days: float = 30.0,
        direction: str = "maximize",
    ) -> None:
        self.share, self.alpha = check_probability("share", share), check_probability("alpha", alpha)
        self.reward_range = check_range(reward_range)
        self.by, self.direction = check_choice("by", by, _KINDS), check_choice("direction", direction, _DIRECTIONS)
        self.period_days = check_number("period_days", period_days, positive=True)
        if key is not None and (not isinstance(key, bytes) or len(key) < 16):
            raise ValueError(f"key must be 16 bytes or more, got {type(key).__name__} of length {len(key)}")
        self._key = secrets.token_bytes(32) if key is None else key
        self._coin = Coin(self._key)
        self._contrast = self._new_contrast()
        self._open: dict[str, _Open] = {}
        self._asked, self._since, self._period = 0, 0, 0
        self._met: set[int] = set()  # units of this period, by a keyed hash
        self._lock = new_lock()

    def _new_contrast(self) -> Contrast:
        low, high = self.reward_range
        return Contrast(self.share, high - low, alpha=self.alpha)

    @locked
    def group(self, decision: str | int, *, unit: str | int | None = None, at: float | None = None) -> str:
        """Return ``"policy"`` or ``"control"``, and wait for what the decision earns.

        Parameters
        ----------
        decision : str or int
            Its id, different from those of other decisions; asked for again before it has counted, it is the same one.
        unit : str or int, optional
            Who sees it, needed for ``by="unit"``.
        at : float, optional
            When, in seconds since 1970; None for now. It matters for ``by="unit"`` alone.
        """
        name = _name("decision", decision)
        if (known := self._open.get(name)) is not None:
            return "control" if known.control else "policy"
        counts, text = True, f"decision {name}"
        if self.by == "unit":
            if unit is None:
                raise TypeError("unit must be given where all decisions of a unit have one group, got None")
            period = self._period_at(time.time() if at is None else as_number("at", at))
            text = f"unit {period} {_name('unit', unit)}"
        control, known_as = self._coin.toss(text, self.share)
        if self.by == "unit":
            if period != self._period:
                self._period, self._met = period, set()
            counts = known_as not in self._met
            self._met.add(known_as)
        self._open[name] = _Open(control, counts, math.nan)
        self._asked += 1
        return "control" if control else "policy"

    def _period_at(self, at: float) -> int:
        """Return the number of the period, which never falls: a clock that is set back draws no group again."""
        if not 0.0 <= at < 1e15:
            raise ValueError(f"at must be seconds since 1970, got {at!r}")
        return max(self._period, int(at // (_DAY * self.period_days)))

    @locked
    def tell(self, decision: str | int, total: float) -> None:
        """Take what a decision earned, the sum over its arms; above the range it counts as the most."""
        name, (low, high) = _name("decision", decision), self.reward_range
        if (known := self._open.get(name)) is None:
            raise UnknownDecision(f"{decision!r} is not waited for: it was put into no group, or has counted")
        if not math.isnan(known.total):
            raise AlreadyTold(f"{decision!r} has been told {known.total:g}")
        value = as_number("total", total)
        if not low <= value < math.inf:
            raise ValueError(f"total must be a finite number from {low:g}, got {total!r}")
        self._open[name] = known._replace(total=min(value, high))
        self._count()

    @locked
    def close_before(self, decision: str | int, *, default: float | None = None) -> int:
        """Let decisions that were asked for before this one, and not told, count as `default`; return how many.

        By default they earn the least of `reward_range`, or cost the most of it.
        """
        name, (low, high) = _name("decision", decision), self.reward_range
        if name not in self._open:
            raise UnknownDecision(f"{decision!r} is not waited for: it was put into no group, or has counted")
        worst = low if self.direction == "maximize" else high
        value = worst if default is None else as_number("default", default)
        if not low <= value <= high:
            raise ValueError(f"default must be a number from {low:g} to {high:g}, got {default!r}")
        closed = 0
        for one, known in list(self._open.items()):
            if one == name:
                break
            if math.isnan(known.total):
                self._open[one] = known._replace(total=value)
                closed += 1
        self._count()
        return closed

    def _count(self) -> None:
        """Count the oldest decisions, as far as all are told."""
        low, high = self.reward_range
        ready = []
        for name, known in self._open.items():
            if math.isnan(known.total):
                break
            ready.append(name)
            if known.counts:
                value = known.total - low if self.direction == "maximize" else high - known.total
                self._contrast.add(known.control, value)
        for name in ready:
            del self._open[name]

    @locked
    def start_window(self) -> None:
        """Count from now on only, with an alpha of its own: decisions that were asked for before do not count."""
        self._contrast, self._since = self._new_contrast(), self._asked
        self._open = {name: known._replace(counts=False) for name, known in self._open.items()}

    @locked
    def interval(self) -> LiftInterval:
        """Return what the policy earns more than the control, as far as that is known."""
        return lift_of(self._contrast, self.reward_range, self.direction, self._since, len(self._open))

    @locked
    def to_bytes(self) -> bytes:
        """Return everything, the key included, for `from_bytes`."""
        header = {
            "kind": "lift",
            "share": self.share,
            "reward_range": list(self.reward_range),
            "alpha": self.alpha,
            "key": self._key.hex(),
            "by": self.by,
            "period_days": self.period_days,
            "direction": self.direction,
            "asked": self._asked,
            "since": self._since,
            "period": self._period,
            "open": list(self._open),
        }
        arrays = {
            "control": np.array([one.control for one in self._open.values()], np.bool_),
            "counts": np.array([one.counts for one in self._open.values()], np.bool_),
            "total": np.array([one.total for one in self._open.values()], np.float64),
            "met": np.array(sorted(self._met), np.int64),
        }
        return pack_archive(header, {**arrays, **self._contrast.to_arrays()})

    @classmethod
    def from_bytes(cls, content: bytes) -> Lift:
        """Return what `to_bytes` was called of; raise `DamagedFile` for anything else.

        Examples
        --------
        >>> lift = Lift(share=0.5)
        >>> Lift.from_bytes(lift.to_bytes()).group("visit-7") == lift.group("visit-7")
        True
        """
        header, arrays = unpack_archive("content", content)
        try:
            return cls._from(header, arrays)
        except (KeyError, TypeError, ValueError, OverflowError, AttributeError) as error:
            raise DamagedFile(f"content is damaged: {str(error) or type(error).__name__}") from error

    @classmethod
    def _from(cls, header: dict[str, Any], arrays: dict[str, Any]) -> Lift:
        if header["kind"] != "lift":
            raise ValueError(f"it must be a lift, got {header['kind']!r}")
        names = ("share", "alpha", "by", "period_days", "direction")
        lift = cls(
            reward_range=tuple(header["reward_range"]),
            key=bytes.fromhex(header["key"]),
            **{name: header[name] for name in names},
        )
        numbers = [header[name] for name in ("asked", "since", "period")]
        if not all(type(one) is int and 0 <= one < 2**63 for one in numbers) or numbers[1] > numbers[0]:
            raise ValueError(f"asked, since and period must be whole numbers from 0, got {numbers}")
        lift._asked, lift._since, lift._period = numbers
        lift._contrast.restore(arrays)
        names_of_open, low, high = header["open"], *lift.reward_range
        kinds = {"control": np.bool_, "counts": np.bool_, "total": np.float64}
        for name, kind in kinds.items():
            if arrays[name].dtype != kind or arrays[name].shape != (len(names_of_open),):
                raise ValueError(f"{name} must be one for each open decision")
        total = arrays["total"]
        if not np.all(np.isnan(total) | ((total >= low) & (total <= high))):
            raise ValueError(f"totals of open decisions must be from {low:g} to {high:g}")
        if len({_name("open", one) for one in names_of_open}) != len(names_of_open):
            raise ValueError("open decisions must have different names")
        if len(names_of_open) > lift._asked or lift._contrast.decisions > lift._asked - lift._since:
            raise ValueError("no more decisions can be open or count than were asked for")
        rows = zip(arrays["control"].tolist(), arrays["counts"].tolist(), total.tolist(), strict=True)
        lift._open = {name: _Open(*row) for name, row in zip(names_of_open, rows, strict=True)}
        if arrays["met"].dtype != np.int64 or arrays["met"].ndim != 1 or np.any(arrays["met"] < 0):
            raise ValueError("units must be whole numbers from 0")
        lift._met = set(arrays["met"].tolist())
        return lift


class Coin:
    """A keyed coin: HMAC-SHA256, whose key is hashed once, since that takes longer than all else of a toss.

    Examples
    --------
    >>> Coin(b"a secret of 16 bytes or more").toss("decision visit-7", 0.05)[0]
    False
    """

    def __init__(self, key: bytes) -> None:
        padded = (hashlib.sha256(key).digest() if len(key) > _BLOCK else key).ljust(_BLOCK, b"\0")
        self._inner, self._outer = (hashlib.sha256(bytes(one ^ mask for one in padded)) for mask in (0x36, 0x5C))

    def toss(self, text: str, share: float) -> tuple[bool, int]:
        """Return whether a text goes to the control, and a keyed hash by which it may be known."""
        inner, outer = self._inner.copy(), self._outer.copy()
        inner.update(text.encode())
        outer.update(inner.digest())
        digest = outer.digest()
        return int.from_bytes(digest[:8], "big") < share * 2.0**64, int.from_bytes(digest[8:16], "big") >> 1


def lift_of(
    contrast: Contrast, reward_range: tuple[float, float], direction: str, since: int, waiting: int
) -> LiftInterval:
    """Return a contrast of totals that were counted from the bad end of their range, in the units of rewards."""
    (low, high), ok, rewards = reward_range, contrast.share_ok, direction == "maximize"
    mean, other = contrast.policy_mean, contrast.control_mean
    return LiftInterval(
        contrast.decisions,
        contrast.controls,
        low + mean if rewards else high - mean,
        low + other if rewards else high - other,
        contrast.estimate,
        contrast.low if ok else low - high,
        contrast.high if ok else high - low,
        contrast.alpha,
        ok,
        since,
        waiting,
        direction,
    )


def _name(argument: str, value: object) -> str:
    """Return an id as text."""
    if isinstance(value, bool) or not isinstance(value, str | int):
        raise TypeError(f"{argument} must be a text or a whole number, got {value!r}")
    return str(value)
