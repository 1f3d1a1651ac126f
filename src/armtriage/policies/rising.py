"""Arms that seem to have risen: looked at again at once, though they would not be played.

Without looks there is no way to tell that an arm has become better, and regular looks cost more than anything else when
nothing changes.
But policies try every arm now and then. `Rising` compares how likely an arm's latest rewards are at the level of the
best arms, or above, and at its own mean before each. While the former is 20 times as likely, each decision looks at
the arm, until the alarm sees it, too, or the evidence is gone. In a still world that is a ratio of likelihoods, so that
no more than one in 20 such stretches of rewards leads to a look.
"""

from __future__ import annotations

import math
from collections.abc import Mapping
from typing import Any

import numpy as np
from numpy.typing import NDArray

from armtriage.kernels.jit import kernel
from armtriage.kernels.record import Floats, Ints
from armtriage.policies.facts import FAR, require, within

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
