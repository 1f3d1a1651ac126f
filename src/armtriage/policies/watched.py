"""Watching for drift, and starting again when it is noticed: written once, for every `SlatePolicy`."""

from __future__ import annotations

import logging
import math
from typing import Any

import numpy as np
from numpy.typing import NDArray

from armtriage._arguments import check_probability
from armtriage.alarm import DriftAlarm
from armtriage.policies.evidence import start_again
from armtriage.policies.facts import require, within
from armtriage.policies.policy import Policy

_LOG = logging.getLogger("armtriage")

_LOOKS = 1.0  # of the order of what learning costs; other factors were not tried: docs/when-the-world-changes.md


def look_at(number: int, n_arms: int) -> int:
    """Return which arm must be looked at in a round, counted from the last start; -1 for none.

    Up to round t there are ``sqrt(K t)`` looks, at one arm after the other: so looks never end, they cost a part of the
    regret that learning costs in the worst case, and an arm that is never played has sqrt(t / K) rewards.
    """
    before = math.floor(_LOOKS * math.sqrt(n_arms * number))
    return before % n_arms if math.floor(_LOOKS * math.sqrt(n_arms * (number + 1))) > before else -1


class WatchedPolicy(Policy):
    """The part of every `SlatePolicy` that notices drift."""

    forget: str | float | None = None
    _evidence: Any
    _must_forget = False  # whether there has been an alarm after which nothing is known
    _watchable = True

    _sees = False  # whether others than the alarm see what is settled

    def _watch(self, number: int, arms: NDArray[np.int64], rewards: NDArray[np.float64]) -> None:
        """Let the alarm, if there is one, see unit rewards of a decision that is closed."""
        if self._alarm is not None:
            every = self.forget == "alarm"
            if self._alarm.take(self._asked, arms, rewards, every):
                _LOG.info("%s noticed at decision %d that a mean has changed", type(self).__name__, self._asked)
                self._must_forget |= every

    def _grow_watch(self) -> None:
        """Watch arms that were added, too."""
        if self._alarm is not None and self._alarm.n_arms < self.n_arms:
            self._alarm.grow(self.n_arms)

    def _heed(self) -> None:
        """Forget, if the alarm has said so."""
        if self._must_forget:
            self._begin_again()

    def _begin_again(self) -> None:
        """Let nothing be known of any arm; rewards of decisions from before are ignored."""
        self._must_forget = False
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

    def _look(self, arms: NDArray[np.int64], candidates: NDArray[np.int64]) -> NDArray[np.int64]:
        """Return the arms of a decision with the one that must be looked at, in place of the one of least mean."""
        place = self._next_look
        if place < 0 or arms.size == candidates.size or (arm := candidates[place % candidates.size]) in arms:
            return arms
        evidence = self._evidence
        means = evidence.sums[arms] / np.maximum(evidence.counts[arms], 1)
        return np.sort(np.append(np.delete(arms, np.argmin(means)), arm))

    @property
    def _next_look(self) -> int:
        """Which arm the next decision must look at, see `look_at`."""
        return -1 if self.forget != "alarm" else look_at(self._asked - self._began, self._roster.live.size)

    def _alarm_arrays(self) -> dict[str, NDArray[Any]]:
        """Return what a file keeps of the watch; nothing without one."""
        if self._alarm is None:
            return {}
        numbers = {"delta": np.array([self._alarm.delta]), "began": np.array([self._began])}
        return {f"alarm.{name}": array for name, array in (self._alarm.to_arrays() | numbers).items()}

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
        alarm.take_arrays(given)
        within("counts of the alarm", given["counts"], 0, self._asked)
        within("decisions of the alarm", given["number"], 0, self._asked)
        within("alarms", given["alarms"][:, 1], 0, self._asked)
        last = alarm.alarms[-1].decision if alarm.alarms and self.forget == "alarm" else 0
        require(began[0] == last, "began must be the decision of the last alarm, if the policy forgets then")
        self._alarm, self._began = alarm, int(began[0])
