"""DriftAlarm: notice that the mean of an arm has changed, with a bounded probability of ever being wrong.

The rewards of an arm are split at some earlier moment, and the two parts are taken for coins of different bias. How
much better that explains them than one coin does is evidence of a change at that moment; the alarm weighs all moments
that it remembers. ``docs/when-the-world-changes.md`` has the proof.
"""

from __future__ import annotations

import math
import os
from collections.abc import Callable, Mapping
from functools import cache
from typing import Any, NamedTuple, Self

import numpy as np
from numpy.typing import ArrayLike, NDArray

from armtriage._arguments import LONGEST, as_numbers, check_arms, check_count, check_probability, check_range
from armtriage._files import pack_archive, read_archive, unpack_archive, write_archive
from armtriage.arms import later_divisor
from armtriage.errors import DamagedFile
from armtriage.intervals import kl, mixture_excess
from armtriage.kernels.jit import Opener, bind, kernel, unbound
from armtriage.kernels.record import Floats, Ints, Record, RecordLayout

KEPT = 40
"""Moments that are remembered of an arm: their ages grow by a quarter from one to the next up to a million rewards."""
_DENSE, _SHARE, _SPARSE = 4, 32, 256
_COLUMNS = ("at", "total", "number", "order")
_REAL = ("sums", "prices", "total")
_SAVED = ("counts", "sums", "prices", "taken", "kept", *_COLUMNS, "alarms", "whole")


class Alarm(NamedTuple):
    """A change that was noticed.

    Attributes
    ----------
    arm : int or name
        Whose mean has changed.
    decision : int
        How many decisions had been made when it was noticed; for a `DriftAlarm` by itself, how many updates.
    change_near : int
        The number of the decision after which the change best explains the rewards; no bound on where it was.

    Examples
    --------
    >>> Alarm(arm="tea", decision=900, change_near=640).arm
    'tea'
    """

    arm: Any
    decision: int
    change_near: int


class Health(NamedTuple):
    """What is known of a policy's rewards beside their means; `print` says it in words.

    Attributes
    ----------
    alarms : tuple of Alarm
        The changes that were noticed, oldest first.
    evidence, prices : ndarray or None
        For each arm, the natural logarithm of the evidence that its mean has changed, and as much as would be an alarm;
        None if the policy is not watched.
    contradictions : int
        Intervals that excluded their own past: a test that is nearly blind, since intervals are wide.
    false_alarm : float or None
        The probability with which there is ever a false alarm, at most; None if the policy is not watched.
    since : int
        The decision from which on anything is known: 0, or that of the last alarm if the policy forgets then.

    Examples
    --------
    >>> from armtriage import ThompsonSampling
    >>> print(ThompsonSampling(3, budget=1, seed=7).health())
    This policy is not watched for drift.
    """

    alarms: tuple[Alarm, ...]
    evidence: Floats | None
    prices: Floats | None
    contradictions: int
    false_alarm: float | None
    since: int

    def __str__(self) -> str:
        if self.false_alarm is None:
            said = "This policy is not watched for drift."
        elif not self.alarms:
            said = f"No drift has been noticed, by a watch that is wrong with probability {self.false_alarm:g} at most."
        else:
            last = self.alarms[-1]
            count = "One change has" if len(self.alarms) == 1 else f"{len(self.alarms):,} changes have"
            said = f"{count} been noticed, the last at decision {last.decision:,}, of arm {last.arm!r}: "
            said += f"it was near decision {last.change_near:,}."
            if self.since:
                said += f" Everything before decision {self.since:,} has been forgotten."
        if self.contradictions:
            said += f" Intervals contradicted earlier ones {self.contradictions:,} times."
        return said


class Moments(Record):
    """The memory of each arm: rewards so far, and at some earlier moments."""

    counts: Ints  # (room,) rewards since the arm was last begun
    sums: Floats
    due: Ints  # rewards at which an arm is looked at again
    prices: Floats  # ln(1/share): as much evidence is an alarm
    kept: Ints  # moments that are remembered, and that have ever been
    taken: Ints
    at: Ints  # (room, KEPT) rewards at a moment, their sum, the decision, and which moment it was
    total: Floats
    number: Ints
    order: Ints
    likeliest: int  # the moment that the last look found most likely to be that of a change


def _new_moments(room: int) -> Moments:
    columns: dict[str, Any] = {
        name: np.zeros((room, KEPT) if name in _COLUMNS else room, np.float64 if name in _REAL else np.int64)
        for name in Moments._fields[:-1]
    }
    columns["due"][:] = _DENSE
    return Moments(**columns, likeliest=0)


@kernel
def next_look(count: int) -> int:
    """Return how many rewards an arm must have at the next look: a 32nd more, from 4 to 256 of them.

    A look costs a few microseconds. At 1,000 rewards it comes 31 rewards late at most, where no change is found in less
    than a hundred; more than 256 would be felt with arms that are shown all the time.
    """
    return count + min(max(count // _SHARE, _DENSE), _SPARSE)


@kernel
def log_evidence(moments: Moments, arm: int) -> float:
    """Return the log of the evidence that an arm's mean has changed, and leave the likeliest moment behind."""
    count, total = moments.counts[arm], moments.sums[arm]
    if moments.kept[arm] == 0 or count == moments.at[arm, 0]:
        return -math.inf
    mean, most, place = total / count, -math.inf, 0
    terms = np.empty(KEPT)
    n = 0
    for k in range(moments.kept[arm]):
        before, earned = moments.at[arm, k], moments.total[arm, k]
        after, since = count - before, min(max(total - earned, 0.0), float(count - before))
        if after == 0:
            continue
        order = float(moments.order[arm, k])
        terms[n] = (
            before * kl(earned / before, mean)
            + after * kl(since / after, mean)
            - mixture_excess(before, earned)
            - mixture_excess(after, since)
            - math.log(order * (order + 1.0))
        )
        if terms[n] == math.inf:
            continue  # sums of rewards that are nearly 1 are rounded to more than they are: say less, not more
        if terms[n] > most:
            most, place = terms[n], k
        n += 1
    moments.likeliest = place
    if n == 0:
        return -math.inf
    sum_of = 0.0
    for i in range(n):
        sum_of += math.exp(terms[i] - most)
    return most + math.log(sum_of)


@kernel
def _all_evidence(moments: Moments, out: Floats) -> None:
    for arm in range(out.size):
        out[arm] = log_evidence(moments, arm)


@kernel
def _remember(moments: Moments, arm: int, number: int) -> None:
    """Remember this moment; where there is no room, forget the one whose neighbours are closest in age.

    Which ones are kept depends on counts alone, never on rewards: that is what the proof needs.
    """
    n, count = moments.kept[arm], moments.counts[arm]
    if n == KEPT:
        least, out = math.inf, 1
        for k in range(1, n - 1):
            ratio = (count - moments.at[arm, k - 1]) / (count - moments.at[arm, k + 1])
            if ratio < least:
                least, out = ratio, k
        for k in range(out, n - 1):
            moments.at[arm, k] = moments.at[arm, k + 1]
            moments.total[arm, k] = moments.total[arm, k + 1]
            moments.number[arm, k] = moments.number[arm, k + 1]
            moments.order[arm, k] = moments.order[arm, k + 1]
        n -= 1
    moments.taken[arm] += 1
    moments.at[arm, n], moments.total[arm, n] = count, moments.sums[arm]
    moments.number[arm, n], moments.order[arm, n] = number, moments.taken[arm]
    moments.kept[arm] = n + 1


open_moments = unbound
"""What `bind` replaces: how moments are found by their address."""


def _take(address: int, number: int, arms: Ints, rewards: Floats, first: int) -> int:
    """Take unit rewards from place `first` on; stop at one that raises an alarm and return its place, or -1."""
    moments = open_moments(address)
    for i in range(first, arms.size):
        arm = arms[i]
        moments.counts[arm] += 1
        moments.sums[arm] += rewards[i]
        if moments.counts[arm] >= moments.due[arm]:
            if log_evidence(moments, arm) >= moments.prices[arm]:
                return i
            _remember(moments, arm, number)
            moments.due[arm] = next_look(moments.counts[arm])
    return -1


@cache
def _entry(kind: RecordLayout) -> Callable[..., int]:
    """Return the kernel that takes rewards, for the address of moments: a record would be unpacked at every call."""
    return bind(_take, "take_rewards", open_moments=Opener(kind))


class DriftAlarm:
    """Watch the rewards of arms, and say when the mean of one has changed.

    If no mean changes, the probability that there is ever an alarm is at most `delta`, however long it is watched and
    however arms are chosen, as long as an arm's mean is the same given everything that was known before. After an alarm
    the arm begins again, with less of `delta` left: all false alarms together, for ever, have probability `delta` at
    most. An alarm is late, and changes of arms that are not looked at are never seen; changes by little, or after few
    rewards, are not either.

    A reward costs two additions, and a look at up to 40 earlier moments every 4 to 256 rewards of an arm.

    Parameters
    ----------
    n_arms : int
        Number of arms.
    delta : float
        The probability of a false alarm.
    reward_range : tuple of float
        Smallest and largest possible reward.

    References
    ----------
    Besson, Kaufmann, Maillard, Seznec (2022), Efficient change-point detection for tackling piecewise-stationary
    bandits (a generalised likelihood ratio with another price); Shin, Ramdas, Rinaldo (2023), E-detectors.

    Examples
    --------
    >>> alarm = DriftAlarm(2, delta=0.01)
    >>> for t in range(600):
    ...     new = alarm.update([0, 1], [t % 2, t % 2 if t < 300 else t % 10 == 0])
    >>> alarm.alarms
    (Alarm(arm=1, decision=358, change_near=301),)
    """

    def __init__(self, n_arms: int, delta: float = 0.01, *, reward_range: tuple[float, float] = (0.0, 1.0)) -> None:
        n = check_count("n_arms", n_arms, 1, 2**31)
        self.delta, self.reward_range = check_probability("delta", delta), check_range(reward_range)
        self._first, self._extra, self._updates = n, 0, 0
        self._alarms: list[Alarm] = []
        self._moments = _new_moments(n)
        self._moments.prices[:] = math.log(2.0 * n / self.delta)

    @property
    def _entry(self) -> Callable[..., int]:
        return _entry(self._moments.layout)

    @property
    def n_arms(self) -> int:
        """Number of arms."""
        return int(self._moments.counts.size)

    @property
    def alarms(self) -> tuple[Alarm, ...]:
        """All alarms so far, oldest first."""
        return tuple(self._alarms)

    @property
    def evidence(self) -> Floats:
        """The natural logarithm of the evidence that each arm has changed; minus infinity if there can be none."""
        found = np.empty(self.n_arms)
        _all_evidence(self._moments, found)
        return found

    @property
    def prices(self) -> Floats:
        """How much of that evidence is an alarm, for each arm."""
        return self._moments.prices.copy()

    def update(self, arms: ArrayLike, rewards: ArrayLike) -> tuple[Alarm, ...]:
        """Take rewards of different arms in a round, and return the alarms that they raise.

        Parameters
        ----------
        arms : array_like of int
            Whose rewards they are.
        rewards : array_like
            One for each of them.
        """
        seen = check_arms(arms, self.n_arms, once=True)
        given, (low, high) = as_numbers("rewards", rewards), self.reward_range
        if given.shape != seen.shape:
            raise ValueError(f"rewards must be as many as arms, {seen.size}, got shape {given.shape}")
        if not ((given >= low) & (given <= high)).all():
            wrong = given[~((given >= low) & (given <= high))][0]
            raise ValueError(f"rewards must lie in [{low:g}, {high:g}], got {wrong}")
        before = len(self._alarms)
        self._updates += 1
        self.take(self._updates, seen, np.clip((given - low) / (high - low), 0.0, 1.0))
        return tuple(self._alarms[before:])

    def take(self, number: int, arms: Ints, rewards: Floats, every: bool = False) -> bool:
        """Take rewards on the unit scale, which are not checked; return whether there was an alarm.

        The arm of an alarm begins again, or with `every` all arms do, and the rewards after it are left out.
        """
        first, raised = 0, False
        while (place := self._entry(self._moments.handle, number, arms, rewards, first)) >= 0:
            arm, raised = int(arms[place]), True
            near = int(self._moments.number[arm, int(self._moments.likeliest)])
            self._alarms.append(Alarm(arm, number, near))
            self.begin_again(np.arange(self.n_arms) if every else arms[place : place + 1])
            if every:
                break
            first = place + 1
        return raised

    @property
    def known(self) -> tuple[Ints, Floats]:
        """How many unit rewards each arm has had since it last began, and their sums; not to be changed."""
        return self._moments.counts, self._moments.sums

    def begin_again(self, arms: Ints) -> None:
        """Forget the past of arms, and give each a new share of delta."""
        moments = self._moments
        for name in ("counts", "sums", "kept", "taken"):
            getattr(moments, name)[arms] = 0
        moments.due[arms] = _DENSE
        for arm in arms.tolist():
            moments.prices[arm] = math.log(2.0 * later_divisor(self._extra, self._first) / self.delta)
            self._extra += 1

    def grow(self, n_arms: int) -> None:
        """Watch more arms from now on."""
        old, n = self._moments, self.n_arms
        self._moments = _new_moments(n_arms)
        for name in Moments._fields[:-1]:
            getattr(self._moments, name)[:n] = getattr(old, name)
        self.begin_again(np.arange(n, n_arms))

    def to_arrays(self) -> dict[str, NDArray[Any]]:
        """Return all that is known, for a file."""
        moments = self._moments
        used = np.arange(KEPT) < moments.kept[:, None]
        arrays = {name: getattr(moments, name) for name in ("counts", "sums", "prices", "taken", "kept")}
        arrays |= {name: getattr(moments, name)[used] for name in _COLUMNS}
        arrays["alarms"] = np.array(self._alarms, np.int64).reshape(-1, 3)
        arrays["whole"] = np.array([self._first, self._extra, self._updates])
        return arrays

    def take_arrays(self, arrays: Mapping[str, NDArray[Any]]) -> None:
        """Take back what `to_arrays` returned, if all of it can be; otherwise raise ValueError."""
        n = arrays["counts"].size
        _require(set(arrays) == set(_SAVED), f"an alarm must have {', '.join(_SAVED)}, got {', '.join(arrays)}")
        for name, array in arrays.items():
            kind = np.float64 if name in _REAL else np.int64
            _require(array.dtype == kind and array.ndim == 1 + (name == "alarms"), f"{name} of an alarm is odd")
        counts, sums, prices, taken, kept = (arrays[name] for name in ("counts", "sums", "prices", "taken", "kept"))
        _require(n >= 1 and all(one.size == n for one in (sums, prices, taken, kept)), "an alarm must have all arms")
        _require((counts >= 0) & (counts < LONGEST), "counts of an alarm must be rewards")
        _require((sums >= 0.0) & (sums <= counts), "sums of an alarm must be those of unit rewards")
        _require(arrays["whole"].size == 3, "whole of an alarm must be three numbers")
        first, extra, updates = arrays["whole"].tolist()
        _require(1 <= first <= n and 0 <= extra < 2**40 and 0 <= updates < LONGEST, "arms of an alarm must be counted")
        _require(extra >= n - first, "arms that came later must have begun")
        _require(
            prices >= math.log(2.0 * first / self.delta) - 1e-9, "shares of an alarm must be at most those at first"
        )
        _require(np.exp(-prices).sum() <= self.delta * (1.0 + 1e-9), "shares of an alarm must sum to delta")
        _require((kept >= 0) & (kept <= KEPT) & (kept <= taken) & (taken < LONGEST), "moments of an alarm must fit")
        _require((taken == 0) | (kept >= np.minimum(taken, KEPT)), "moments of an alarm must not be missing")
        _require(all(arrays[name].size == kept.sum() for name in _COLUMNS), "moments of an alarm are too many or few")
        moments, used = _new_moments(n), np.arange(KEPT) < kept[:, None]
        for name in ("counts", "sums", "prices", "taken", "kept"):
            getattr(moments, name)[:] = arrays[name]
        for name in _COLUMNS:
            getattr(moments, name)[used] = arrays[name]
        for arm in range(n) if used.any() else ():
            self._check_moments(moments, arm)
        _require(moments.counts < moments.due, "arms of an alarm must have been looked at")
        alarms = arrays["alarms"]
        _require(alarms.shape[1] == 3 and ((alarms >= 0) & (alarms < LONGEST)).all(), "alarms must be numbers")
        _require((alarms[:, 0] < n) & (alarms[:, 2] <= alarms[:, 1]), "alarms must be of arms, and later than changes")
        _require(np.diff(alarms[:, 1]) >= 0, "alarms must be in order")
        self._moments, self._first, self._extra, self._updates = moments, first, extra, updates
        self._alarms = [Alarm(*row) for row in alarms.tolist()]

    @staticmethod
    def _check_moments(moments: Moments, arm: int) -> None:
        n = int(moments.kept[arm])
        if n == 0:
            return
        at, total, order = moments.at[arm, :n], moments.total[arm, :n], moments.order[arm, :n]
        more = np.diff(np.append(at, moments.counts[arm]))
        gains = np.diff(np.append(total, moments.sums[arm]))
        _require(at[0] >= 1 and (more[:-1] > 0).all() and more[-1] >= 0, "moments of an alarm must be earlier ones")
        _require(0.0 <= total[0] <= at[0], "sums at moments of an alarm must be those of unit rewards")
        _require((gains >= -1e-6) & (gains <= more + 1e-6), "sums at moments of an alarm must be those of unit rewards")
        _require(order[0] >= 1 and (np.diff(order) > 0).all() and order[-1] == moments.taken[arm], "moments must rise")
        number = moments.number[arm, :n]
        _require(number[0] >= 0 and (np.diff(number) >= 0).all(), "decisions at moments of an alarm must rise")
        moments.due[arm] = next_look(int(at[-1]))

    def _contents(self) -> tuple[dict[str, Any], dict[str, NDArray[Any]]]:
        return {"alarm": 1, "delta": self.delta, "reward_range": list(self.reward_range)}, self.to_arrays()

    def save(self, path: str | os.PathLike[str]) -> None:
        """Write everything to `path`; an interrupted save leaves the old file whole."""
        write_archive(path, *self._contents())

    def to_bytes(self) -> bytes:
        """Return what `save` would write."""
        return pack_archive(*self._contents())

    @classmethod
    def load(cls, path: str | os.PathLike[str]) -> Self:
        """Return the alarm that `save` wrote."""
        return cls._from_archive(os.fspath(path), *read_archive(path))

    @classmethod
    def from_bytes(cls, content: bytes) -> Self:
        """Return the alarm that `to_bytes` gave."""
        return cls._from_archive("content", *unpack_archive("content", content))

    @classmethod
    def _from_archive(cls, what: str, header: Mapping[str, Any], arrays: Mapping[str, NDArray[Any]]) -> Self:
        if header.get("alarm") != 1:
            raise DamagedFile(f"{what} does not hold a DriftAlarm that this version reads")
        try:
            span = header["reward_range"]
            _require(isinstance(span, list) and len(span) == 2, f"reward_range must be two numbers, got {span!r}")
            alarm = cls(1, header["delta"], reward_range=(span[0], span[1]))
            alarm.take_arrays(arrays)
        except (KeyError, TypeError, ValueError, OverflowError, IndexError) as error:
            said = f"{error} is missing" if isinstance(error, KeyError) else error
            raise DamagedFile(f"{what} does not hold a whole DriftAlarm: {said}") from error
        return alarm

    def __repr__(self) -> str:
        return f"DriftAlarm({self.n_arms}, delta={self.delta}, {len(self._alarms)} alarms)"


def _require(right: Any, fact: str) -> None:
    if not np.all(right):
        raise ValueError(fact)
