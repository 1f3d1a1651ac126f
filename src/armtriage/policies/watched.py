"""Watching for drift, and starting again when it is noticed: written once, for every `SlatePolicy`."""

from __future__ import annotations

import logging
import math
from typing import Any

import numpy as np
from numpy.typing import NDArray

from armtriage._arguments import check_probability
from armtriage.alarm import DriftAlarm
from armtriage.kernels.record import Floats, Ints
from armtriage.policies.evidence import start_again
from armtriage.policies.facts import require, within
from armtriage.policies.policy import Policy
from armtriage.policies.rising import Rising

_LOG = logging.getLogger("armtriage")

_LOOKS = 1.0 / 16.0  # of what learning costs in the worst case: with 1, regret without drift was 1.2 to 1.4 times
_AT_ONCE = 4  # looks at an arm whose rewards are on their way


def look_at(number: int, n_arms: int) -> int:
    """Return which arm must be looked at in a round, counted from the last start, where arms are eliminated; or -1.

    Up to round t there are ``sqrt(K t) / 16`` looks, at one arm after the other: so looks never end.
    """
    before = math.floor(_LOOKS * math.sqrt(n_arms * number))
    return before % n_arms if math.floor(_LOOKS * math.sqrt(n_arms * (number + 1))) > before else -1


class WatchedPolicy(Policy):
    """The part of every `SlatePolicy` that notices drift."""

    forget: str | float | None = None
    keeps_intervals: bool
    _evidence: Any
    _rising: Rising
    _must_forget = False  # whether there has been an alarm after which nothing is known
    _watchable = True

    _sees = False  # whether others than the alarm see what is settled

    def _watch(self, number: int, arms: Ints, rewards: Floats) -> None:
        """Let the alarm, if there is one, see unit rewards of a decision that is closed."""
        if self._alarm is not None:
            every = self.forget == "alarm"
            if self._alarm.take(self._asked, arms, rewards, every):
                _LOG.info("%s noticed at decision %d that a mean has changed", type(self).__name__, self._asked)
                self._must_forget |= every
            if every and arms.size and not self._must_forget:
                counts, sums = self._alarm.known
                self._rising.take(self._asked, arms, rewards, counts, sums, self._roster.live, self.budget)

    def _grow_watch(self) -> None:
        """Watch arms that were added, too."""
        if self._alarm is not None and self._alarm.n_arms < self.n_arms:
            self._alarm.grow(self.n_arms)
            if self.forget == "alarm":
                self._rising.grow(self.n_arms)

    def _drop(self, arms: list[int]) -> None:
        """Let nothing be watched of arms that have begun again but what comes now."""
        if self._alarm is not None:
            self._alarm.begin_again(np.array(arms, np.int64))
            if self.forget == "alarm":
                self._rising.forget(arms)

    def _heed(self) -> None:
        """Forget, if the alarm has said so."""
        if self._must_forget:
            self._begin_again()

    def _begin_again(self) -> None:
        """Let nothing be known of any arm; rewards of decisions from before are ignored."""
        self._must_forget, self._rising = False, Rising(self.n_arms)
        arms = list(range(self.n_arms))
        self._since, self._before = 0, None
        for part in self._parts.values():
            part.clear()
        if self._delays is not None:
            self._delays.forget(arms)
        start_again(self._evidence, arms)
        self._evidence.failures = 0
        self._roster.begin_again(arms, self._asked)
        self._began = self._asked
        self._share_again(arms)
        self._clear_caches("_ghosts")

    def _clear_caches(self, *more: str) -> None:
        raise NotImplementedError

    def _change(self, evidence: Any) -> None:
        raise NotImplementedError

    def _look(self, arms: Ints, candidates: Ints) -> Ints:
        """Return the arms of a decision with the one that must be looked at, in place of the one of least mean."""
        arm = self._next_look
        if arm < 0 or arms.size == candidates.size or arm in arms or arm not in candidates:
            return arms
        evidence = self._evidence
        means = evidence.sums[arms] / np.maximum(evidence.counts[arms], 1)
        return np.sort(np.append(np.delete(arms, np.argmin(means)), arm))

    @property
    def _next_look(self) -> int:
        """Which arm the next decision must look at: one that seems to have risen, or see `look_at`; -1 for none."""
        if self.forget != "alarm":
            return -1
        arm = self._rising.arm
        if arm >= 0 and self._evidence.pending[arm] < _AT_ONCE:
            return arm
        place = look_at(self._asked - self._began, self._roster.live.size) if self.keeps_intervals else -1
        return -1 if place < 0 else int(self._roster.live[place])

    def _alarm_arrays(self) -> dict[str, NDArray[Any]]:
        """Return what a file keeps of the watch; nothing without one."""
        if self._alarm is None:
            return {}
        numbers = {"delta": np.array([self._alarm.delta]), "began": np.array([self._began])}
        more = self._rising.to_arrays() if self.forget == "alarm" else {}
        return {f"alarm.{name}": array for name, array in (self._alarm.to_arrays() | numbers | more).items()}

    def _restore_alarm(self, given: dict[str, NDArray[Any]]) -> None:
        """Take back what `_alarm_arrays` returned."""
        if not given:
            require(self.forget != "alarm", "a policy that forgets must have an alarm")
            return
        delta, began = given.pop("delta"), given.pop("began")
        require(delta.shape == began.shape == (1,) and delta.dtype == np.float64, "delta of the alarm must be a number")
        require(began.dtype == np.int64, "began must be a whole number")
        require(given["counts"].shape == (self.n_arms,), "the alarm must be about the policy's arms")
        alarm = DriftAlarm(1, check_probability("delta of the alarm", float(delta[0])))
        rising = {name: given.pop(name) for name in Rising(1).to_arrays() if self.forget == "alarm" and name in given}
        alarm.take_arrays(given)
        if rising:  # the files of before have none
            self._rising = Rising.from_arrays(rising, given["counts"], self._asked)
        within("counts of the alarm", given["counts"], 0, self._asked)
        within("decisions of the alarm", given["number"], 0, self._asked)
        within("alarms", given["alarms"][:, 1], 0, self._asked)
        last = alarm.alarms[-1].decision if alarm.alarms and self.forget == "alarm" else 0
        require(began[0] == last, "began must be the decision of the last alarm, if the policy forgets then")
        self._alarm, self._began = alarm, int(began[0])
