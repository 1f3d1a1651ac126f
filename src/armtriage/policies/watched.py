"""Watching for drift, and starting again when it is noticed: written once, for every `SlatePolicy`.

Without looks there is no way to tell that an arm has become better, and regular looks cost more than anything else when
nothing changes. But policies try every arm now and then. `Rising` compares how likely an arm's latest rewards are at
the level of the best arms, or above, and at its own mean before each. While the former is 20 times as likely, each
decision looks at the arm, though it would not be played, until the alarm sees it, too, or the evidence is gone. In a
still world that is a ratio of likelihoods, so that no more than one in 20 such stretches of rewards leads to a look.
"""

from __future__ import annotations

import logging
import math
from collections.abc import Mapping
from typing import Any

import numpy as np
from numpy.typing import NDArray

from armtriage._arguments import check_probability
from armtriage.alarm import DriftAlarm
from armtriage.kernels.jit import kernel
from armtriage.kernels.record import Floats, Ints
from armtriage.policies.evidence import start_again
from armtriage.policies.facts import FAR, require, within
from armtriage.policies.policy import Policy

_LOG = logging.getLogger("armtriage")

_LOOKS = 1.0 / 16.0  # of what learning costs in the worst case: with 1, regret without drift was 1.2 to 1.4 times
_AT_ONCE = 4  # looks at an arm whose rewards are on their way
_ENOUGH = math.log(20.0)
_PAUSE = 16  # decisions between two looks at the level of the best arms, or arms for each of them
_SAVED = ("recent_counts", "recent_sums", "ratios")


@kernel
def _compare(
    arms: Ints,
    rewards: Floats,
    counts: Ints,
    sums: Floats,
    level: float,
    recent_counts: Ints,
    recent_sums: Floats,
    ratios: Floats,
    arm_now: int,
) -> int:
    """Take new rewards, which `counts` and `sums` have already; return the arm to look at, -1 if there is none."""
    for i in range(arms.size):
        arm, reward = arms[i], rewards[i]
        n, s = recent_counts[arm], recent_sums[arm]
        # One win more than there was: of few rewards, nothing can be said. The latest ones are part of the mean, or an
        # arm that was unlucky at first, and is better than that but not among the best, would be looked at for ever.
        before = (sums[arm] - reward + 1.0) / counts[arm]
        ratio = -1.0
        if before < level and (sums[arm] + 0.5) / (counts[arm] + 1.0) < level:
            now = max(level, (s + 0.5) / (n + 1.0))
            ratio = (
                ratios[arm] + reward * math.log(now / before) + (1.0 - reward) * math.log((1.0 - now) / (1.0 - before))
            )
        if ratio <= 0.0 or (arm == arm_now and ratio < _ENOUGH):
            recent_counts[arm], recent_sums[arm], ratios[arm] = 0, 0.0, 0.0
            if arm == arm_now:
                arm_now = -1
        else:
            recent_counts[arm], recent_sums[arm], ratios[arm] = n + 1, s + reward, ratio
            if ratio >= _ENOUGH:
                arm_now = arm
    return arm_now


class Rising:
    """Evidence that arms have become better than the last of the best.

    Examples
    --------
    >>> rising, counts, sums = Rising(3), np.array([50, 50, 50]), np.array([45.0, 25.0, 5.0])
    >>> for _ in range(4):  # the worst arm has a win
    ...     counts[2], sums[2] = counts[2] + 1, sums[2] + 1.0
    ...     rising.take(0, np.array([2]), np.ones(1), counts, sums, np.arange(3), 1)
    >>> rising.arm
    2
    """

    def __init__(self, n_arms: int) -> None:
        self.recent_counts = np.zeros(n_arms, np.int64)  # rewards since there was last no evidence
        self.recent_sums, self.ratios = np.zeros((2, n_arms))  # of likelihoods, as logarithms
        self.arm, self.due, self.level = -1, 0, 0.0

    def take(self, asked: int, arms: Ints, rewards: Floats, counts: Ints, sums: Floats, live: Ints, slots: int) -> None:
        """Take unit rewards of a decision; `counts` and `sums` are those of all arms, with them."""
        if asked >= self.due:
            self.due, self.level = asked + max(_PAUSE, live.size // _PAUSE), 0.0
            if live.size > slots:
                self.level = float(np.partition((sums[live] + 0.5) / (counts[live] + 1.0), -slots)[-slots])
        recent = self.recent_counts, self.recent_sums, self.ratios
        self.arm = int(_compare(arms, rewards, counts, sums, self.level, *recent, self.arm))

    def forget(self, arms: list[int]) -> None:
        """Begin again with some arms."""
        for name in _SAVED:
            getattr(self, name)[arms] = 0
        self.arm = -1 if self.arm in arms else self.arm

    def grow(self, n_arms: int) -> None:
        """Take up more arms."""
        for name in _SAVED:
            old = getattr(self, name)
            setattr(self, name, np.append(old, np.zeros(n_arms - old.size, old.dtype)))

    def to_arrays(self) -> dict[str, NDArray[Any]]:
        """Return all that is known, for a file."""
        known = {name: getattr(self, name) for name in _SAVED}
        return known | {"followed": np.array([self.arm, self.due]), "level": np.array([self.level])}

    @classmethod
    def from_arrays(cls, arrays: Mapping[str, NDArray[Any]], counts: Ints, asked: int) -> Rising:
        """Return what `to_arrays` gave, if all of it can be."""
        one = cls(counts.size)
        for name, own in one.to_arrays().items():
            require(arrays[name].shape == own.shape and arrays[name].dtype == own.dtype, f"{name} of an alarm is odd")
        for name in _SAVED:
            getattr(one, name)[:] = arrays[name]
        within("recent_counts", one.recent_counts, 0, counts)
        within("recent_sums", one.recent_sums, 0.0, one.recent_counts)
        within("ratios", one.ratios, 0.0, FAR)
        one.arm, one.due = arrays["followed"].tolist()
        one.level = float(arrays["level"][0])
        within("the arm that is followed", one.arm, -1, counts.size - 1)
        within("when the level is due", one.due, 0, asked + max(_PAUSE, counts.size))
        within("level", one.level, 0.0, 1.0)
        require(one.level < 1.0, "level must be below 1")
        return one


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
