"""Delays: how long rewards take, and what an open decision counts for until they have come.

A click is told at once, its absence when the decision is closed. A policy that learns the first and not yet the
second takes what was just shown for better than it is. So an arm of an open decision of which nothing has been told
counts as a part w(u) of a least reward, u being the decision's age. With F1(u) the share of what rewards bring, and
F0(u) of what they lack of 1, that has been told by that age, nothing told means 1 - w theta to an arm of mean theta,
``w = (F1 - F0) / (1 - F0)``. Where rewards are told whatever they are, w is 0.

F1 is learned from all decisions, open ones too: of those that have reached an age, the part of what was told by then
that came since the age before is a reverse hazard, and F1 the product of what these leave (Lynden-Bell 1971). What
comes later than any decision is old is not seen; it scales all arms alike. After Vernade, Cappe and Perchet (2017),
*Stochastic bandit models for delayed conversions*, where the law of delays is given.
"""

from __future__ import annotations

from bisect import bisect_right
from collections import Counter
from collections.abc import Iterable, Mapping
from itertools import accumulate
from typing import Any, NamedTuple

import numpy as np
from numpy.typing import NDArray

from armtriage._arguments import LONGEST, check_number
from armtriage.kernels.record import Floats, Ints
from armtriage.policies.changing import ChangingPolicy, locked
from armtriage.policies.facts import require, restore_arrays, within

AGES = tuple(4**k for k in range(20))
"""Where one class of ages ends and the next begins, in decisions or milliseconds."""

_STEP = 8  # weights are computed again when there are an eighth more decisions: each time all open ones change
_GRAIN = 2.0**20  # weights are multiples of 1 / this, so that sums of them are exact in any order
_DOUBT = 1.0  # gains that are taken for granted to have come at once: of a few, the delays say little


class _Open(NamedTuple):
    """A decision whose rewards may still come; it is never changed, but replaced, so that a copy may share it."""

    start: int
    passed: int  # how many of the ages
    gain: float  # what was told
    before: float  # and of this, before the last age that it passed
    loss: float
    shown: int
    waiting: tuple[int, ...]  # arms of which nothing was told


class Delays:
    """What is known of the delays of rewards, and what waits for them.

    Times are whole numbers that never fall. Until it is `active` it only knows when decisions began.

    Examples
    --------
    >>> delays = Delays(timed=False)
    >>> delays.activate()
    >>> delays.begin(0, [3, 5])
    >>> delays.tell(0, {3: 1.0})
    >>> delays.advance(1)
    >>> delays.changes()
    ([3, 5], [0.0, 1.0])
    """

    def __init__(self, *, timed: bool) -> None:
        self.now, self.timed, self.active = 0, timed, False
        self.open: dict[int, _Open] = {}
        self._weights = [0.0] * (len(AGES) + 1)
        self._since, self._next_fit = 0, 0  # decisions since it is active
        self._came = np.zeros(len(AGES))  # gains that came in a class of ages
        self._passed = np.zeros((3, len(AGES)))  # gain, loss and arms shown of decisions when they passed an age
        self._closed = np.zeros((3, len(AGES)))  # and of those that were closed before it: it counts for all later ones
        self._next = [0] * len(AGES)  # no decision before this has to pass the age
        self._counts: list[Counter[int]] = [Counter() for _ in self._weights]  # arms that wait, by ages passed
        self._unheard: dict[int, float] = {}
        self._changed: set[int] = set()

    def copy(self) -> Delays:
        """Return a copy for `arrays`."""
        other = object.__new__(Delays)
        vars(other).update(vars(self))
        other.open, other._weights = self.open.copy(), self._weights.copy()
        other._came, other._passed, other._closed = self._came.copy(), self._passed.copy(), self._closed.copy()
        return other

    def activate(self) -> None:
        """Count what waits from now on."""
        if not self.active:
            self.active = True
            for one in self.open.values():
                self._count(one.waiting, one.passed, 1)

    def begin(self, number: int, arms: Iterable[int]) -> None:
        """Note the next decision, and the arms that it shows."""
        waiting = tuple(arms)
        self.open[number] = _Open(self.now, 0, 0.0, 0.0, 0.0, len(waiting), waiting)
        if self.active:
            self._since += 1
            self._count(waiting, 0, 1)

    def tell(self, number: int, rewards: Mapping[int, float]) -> None:
        """Note unit rewards of a decision, unless it is closed."""
        if number not in self.open:
            return
        start, passed, gain, before, loss, shown, waiting = self.open[number]
        for reward in rewards.values():
            gain += reward
            loss += 1.0 - reward
        left = tuple(arm for arm in waiting if arm not in rewards)
        if self.active:
            self._count((arm for arm in waiting if arm in rewards), passed, -1)
        self.open[number] = _Open(start, passed, gain, before, loss, shown, left)

    def unsee(self, number: int) -> None:
        """Wait no longer for rewards of arms of a decision that were not looked at."""
        if (one := self.open.get(number)) is not None:
            if self.active:
                self._count(one.waiting, one.passed, -1)
            self.open[number] = one._replace(waiting=())

    def close(self, number: int) -> None:
        """Note that no more rewards of a decision come: it passes all ages now."""
        one = self.open.pop(number, None)
        if one is not None and self.active:
            self._count(one.waiting, one.passed, -1)
            if one.passed < len(AGES):
                self._came[one.passed] += one.gain - one.before
                self._closed[:, one.passed] += one.gain, one.loss, one.shown

    def forget(self, arms: Iterable[int]) -> None:
        """Wait no longer for rewards of arms that begin again."""
        gone = set(arms)
        for number, one in self.open.items():
            if not gone.isdisjoint(one.waiting):
                if self.active:
                    self._count((arm for arm in one.waiting if arm in gone), one.passed, -1)
                self.open[number] = one._replace(waiting=tuple(arm for arm in one.waiting if arm not in gone))

    def advance(self, now: int) -> None:
        """Let open decisions grow older; compute the weights when it is time to."""
        self.now = max(self.now, now)
        if not self.active or not self.open:
            return
        first, last = next(iter(self.open)), next(reversed(self.open))
        reached = first
        # From the oldest class on, so that a decision that jumps over several is moved once.
        for k in range(bisect_right(AGES, self.now - self.open[first].start) - 1, -1, -1):
            number = max(self._next[k], reached)
            while number <= last:
                one = self.open.get(number)
                if one is not None:
                    if self.now - one.start < AGES[k]:
                        break
                    if one.passed <= k:
                        self._pass(number, one, k + 1)
                number += 1
            self._next[k] = reached = number
        if self._since >= self._next_fit:
            self._fit()

    def _pass(self, number: int, one: _Open, to: int) -> None:
        """Let a decision pass the ages up to one."""
        start, k, gain, before, loss, shown, waiting = one
        if gain > before:
            self._came[k] += gain - before
        passed = self._passed
        for age in range(k, to):
            passed[0, age] += gain
            passed[1, age] += loss
            passed[2, age] += shown
        self._move(waiting, k, to)
        self.open[number] = _Open(start, to, gain, gain, loss, shown, waiting)

    def _count(self, arms: Iterable[int], passed: int, step: int) -> None:
        counts, weight, unheard = self._counts[passed], step * self._weights[passed], self._unheard
        for arm in arms:
            counts[arm] += step
            unheard[arm] = unheard.get(arm, 0.0) + weight
            self._changed.add(arm)

    def _move(self, arms: Iterable[int], passed: int, to: int) -> None:
        """Count arms that wait in a later class of ages."""
        old, new, unheard = self._counts[passed], self._counts[to], self._unheard
        step = self._weights[to] - self._weights[passed]
        for arm in arms:
            old[arm] -= 1
            new[arm] += 1
            unheard[arm] += step
        if step != 0.0:
            self._changed.update(arms)

    def _fit(self) -> None:
        """Compute the weights from all that has come."""
        self._next_fit = self._since + 1 + self._since // _STEP
        self._weights = weights_of(self._came, self._passed + self._closed.cumsum(axis=1))
        self._sum()

    def _sum(self) -> None:
        """Compute what each arm counts for."""
        self._changed.update(self._unheard)
        self._unheard = dict.fromkeys(self._unheard, 0.0)
        for weight, counts in zip(self._weights, self._counts, strict=True):
            for arm, count in counts.items():
                self._unheard[arm] = self._unheard.get(arm, 0.0) + weight * count
        self._changed.update(self._unheard)

    def changes(self) -> tuple[list[int], list[float]]:
        """Return the arms whose least rewards have changed since the last call, and how many each has now."""
        arms = sorted(self._changed)
        self._changed.clear()
        return arms, [self._unheard.get(arm, 0.0) for arm in arms]

    def arrays(self) -> dict[str, NDArray[Any]]:
        """Return all that a file keeps beside the arms that wait."""
        rows = self.open.values()
        return {
            "times": np.array([[one.start, one.passed, one.shown] for one in rows], np.int64).reshape(-1, 3),
            "told": np.array([[one.gain, one.before, one.loss] for one in rows], np.float64).reshape(-1, 3),
            "numbers": np.array([self.now, self.timed, self.active, self._since, self._next_fit], np.int64),
            "weights": np.array(self._weights),
            "came": self._came,
            "passed": self._passed,
            "closed": self._closed,
        }

    @classmethod
    def from_arrays(cls, arrays: Mapping[str, NDArray[Any]], waiting: Mapping[int, Iterable[int]]) -> Delays:
        """Return what `arrays` were made of, if all of it can be; `waiting` has the arms of each open decision."""
        new = cls(timed=False)
        own = new.copy().arrays()
        own |= {name: np.zeros((len(waiting), 3), own[name].dtype) for name in ("times", "told")}
        require(set(own) == set(arrays), f"delays must have {', '.join(own)}, got {', '.join(arrays)}")
        restore_arrays(own, arrays)
        new.now, timed, active, new._since, new._next_fit = own["numbers"].tolist()
        new.timed, new.active, new._weights = bool(timed), bool(active), own["weights"].tolist()
        new._came, new._passed, new._closed = own["came"], own["passed"], own["closed"]
        within("the clock of delays", own["numbers"], 0, LONGEST)
        within("what delays are", own["numbers"][1:3], 0, 1)
        within("weights of delays", own["weights"], 0.0, 1.0)
        require(own["weights"] * _GRAIN % 1.0 == 0.0, "weights of delays must be rounded")
        for name in ("came", "passed", "closed"):
            within(f"{name} of delays", own[name], 0.0, float(LONGEST))
        (starts, passed, shown), (gain, before, loss) = own["times"].T, own["told"].T
        within("when open decisions began", starts, 0, new.now)
        within("ages of open decisions", passed, 0, len(AGES))
        within("arms that open decisions show", shown, 0, LONGEST)
        within("what was told early", before, 0.0, gain)
        within("what was told", gain + loss, 0.0, shown)
        require(loss >= 0.0, "what was told must not be negative")
        rows = zip(own["times"].tolist(), own["told"].tolist(), waiting.items(), strict=True)
        for (start, age, size), (won, won_before, lost), (number, arms) in rows:
            new.open[number] = _Open(start, age, won, won_before, lost, size, tuple(arms))
        if new.active:
            for one in new.open.values():
                new._count(one.waiting, one.passed, 1)
        return new


def weights_of(came: Floats, by: Floats) -> list[float]:
    """Return what an arm counts for of which nothing was told, by how many ages its decision has passed.

    `came` are the gains that came between an age and the one before; `by` has gains, losses and arms shown up to it.
    Until a gain has come, nothing counts.
    """
    if not by[0].any():
        return [0.0] * (len(AGES) + 1)
    kept = 1.0 - came / (by[0] + _DOUBT)
    # The share of gains by each age, beginning with those that come before the first.
    gains = np.array([*accumulate(kept[::-1], lambda left, one: left * one, initial=1.0)])[::-1]
    missing = np.maximum(by[2] - by[0] / np.maximum(gains[1:], 1e-9), by[1])
    losses = np.append(0.0, by[1] / np.maximum(missing, 1e-9))
    # Within a class of ages, half of what comes between its ends.
    f1, f0 = (0.5 * (share + np.append(share[1:], share[-1])) for share in (gains, losses))
    weights = np.maximum(f1 - f0, 0.0) / np.maximum(1.0 - f0, 1e-9)
    return (np.round(np.minimum(weights, 1.0) * _GRAIN) / _GRAIN).tolist()  # type: ignore[no-any-return]


class AgeingPolicy(ChangingPolicy):
    """The part of every `armtriage.Policy` that knows how old its open decisions are."""

    @property
    @locked
    def clock(self) -> float | None:
        """The time of what happens next, in seconds, by which open decisions age; None, unless it is set.

        Without it their age is the number of decisions since. Set it before every `ask`, or never. It is not saved, and
        time that runs backwards stands still.

        Examples
        --------
        >>> from armtriage import ThompsonSampling
        >>> policy = ThompsonSampling(3, budget=1)
        >>> policy.clock = 1_700_000_000.5
        >>> policy.clock
        1700000000.5
        """
        return None if self._clock is None else self._clock / 1000

    @clock.setter
    @locked
    def clock(self, seconds: float) -> None:
        now = 1000.0 * check_number("clock", seconds)
        if not 0.0 <= now < LONGEST:
            raise ValueError(f"clock must be seconds from 0 to {LONGEST // 1000}, got {seconds!r}")
        self._clock = int(now)

    @property
    def _weighs_open(self) -> bool:
        """Whether what is open, and of which nothing has been told, counts as a part of a least reward."""
        return self.learns_at_once and self.decisions is None and self._may_change

    def _follow_delays(self) -> None:
        """Learn from now on how long rewards take, where the policy can make use of it."""
        if self._weighs_open:
            if self._delays is None:
                self._start_delays(timed=False)
            assert self._delays is not None
            self._delays.activate()

    def _start_delays(self, *, timed: bool) -> None:
        """Begin with the decisions that are open; when they were made is not known."""
        self._delays = Delays(timed=timed)
        for number in self._open:
            self._delays.advance(self._clock if timed else number)  # type: ignore[arg-type]
            self._delays.begin(number, self._waiting(number))

    def _grow_older(self) -> None:
        """Let open decisions count by their age."""
        if self._clock is not None and self._weighs_open and (self._delays is None or not self._delays.timed):
            active = self._delays is not None and self._delays.active
            self._start_delays(timed=True)
            if active:
                self._follow_delays()
        if self._delays is None:
            return
        now = self._clock if self._delays.timed else self._asked
        if now is not None:
            self._delays.advance(now)
        if self._delays.active and (self._weighed or self._delays.open):
            self._take_in_arms()
            arms, weights = self._delays.changes()
            if arms:
                self._weigh(np.array(arms), np.array(weights))

    @property
    def _weighed(self) -> bool:
        """Whether open decisions have been counted by their age."""
        return False

    def _weigh(self, arms: Ints, weights: Floats) -> None:
        """Let arms count so many least rewards beside those that were told."""

    def _still_shown(self, number: int) -> list[int]:
        """Return the arms that an open decision shows, but for those that have begun again since."""
        newer = self._roster.is_newer
        return [arm for arm in self._open[number].shown.tolist() if not newer(arm, number)]

    def _waiting(self, number: int) -> list[int]:
        """Return those of them of which nothing has been told, and something still may be."""
        if number in self._complete:
            return []
        told = self._parts.get(number, {})
        return [arm for arm in self._still_shown(number) if arm not in told]
