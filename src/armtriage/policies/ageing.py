"""The age of open decisions, by which they count while rewards are told in parts."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

import numpy as np
from numpy.typing import NDArray

from armtriage._arguments import LONGEST, check_number
from armtriage.policies.delays import Delays
from armtriage.policies.lock import locked

if TYPE_CHECKING:
    from armtriage.decisions import Decision, DecisionSet


class AgeingPolicy:
    """The part of every `armtriage.Policy` that knows how old its open decisions are."""

    decisions: DecisionSet | None
    learns_at_once: bool
    _asked: int
    _clock: int | None  # milliseconds
    _delays: Delays | None  # of rewards, once they have been told in parts
    _lock: Any
    _open: dict[int, Decision]

    if TYPE_CHECKING:

        @property
        def _may_change(self) -> bool: ...
        def _take_in_arms(self) -> None: ...
        def _waiting(self, number: int) -> list[int]: ...

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

    def _weigh(self, arms: NDArray[np.int64], weights: NDArray[np.float64]) -> None:
        """Let arms count so many least rewards beside those that were told."""
