"""A policy that forgets everything at an alarm, around the twin of one that never does."""

from __future__ import annotations

import math
from collections.abc import Callable
from typing import Any

from twins import Twin
from twins.alarm import ReferenceAlarm

__all__ = ["Forgetting"]


class Forgetting(Twin):
    """Play what a twin would, but for a look now and then; begin with a new twin after each alarm."""

    def __init__(self, make: Callable[[], Any], n_arms: int) -> None:
        self.make, self.n_arms, self.inner = make, n_arms, make()
        self.alarm, self.began, self.asked = ReferenceAlarm(n_arms, 0.01), 0, 0
        self.rewards: list[list[float]] = [[] for _ in range(n_arms)]
        self.resets = 0

    def select(self, t: int) -> list[int]:
        everybody, since = self.inner.everybody, t - self.began
        arms: list[int] = self.inner.inner.ask(t, everybody, everybody)
        self.asked = t + 1
        looks = [math.isqrt(self.n_arms * one) for one in (since, since + 1)]
        arm = looks[0] % self.n_arms
        if looks[1] > looks[0] and arm not in arms:
            means = [sum(self.rewards[one]) / max(len(self.rewards[one]), 1) for one in arms]
            arms = sorted([arm, *(one for i, one in enumerate(arms) if i != means.index(min(means)))])
        self.inner.play(t, arms)
        return arms

    def update(self, t: int, rewards: dict[int, float]) -> None:
        if t < self.began:
            return
        self.inner.update(t, rewards)
        for arm, reward in rewards.items():
            self.rewards[arm].append(reward)
        arms = sorted(rewards)
        if self.alarm.update(self.asked, arms, [rewards[arm] for arm in arms], every=True):
            self.inner, self.began = self.make(), self.asked
            self.rewards = [[] for _ in range(self.n_arms)]
            self.resets += 1

    def differs(self, policy: Any) -> str | None:
        mine = [tuple(one) for one in policy._alarm.alarms]
        if mine != self.alarm.alarms or policy._began != self.began:
            return f"alarms {mine} instead of {self.alarm.alarms}"
        if not self.resets:
            return self.inner.differs(policy)  # type: ignore[no-any-return]
        counts, sums = policy._evidence.counts[: self.n_arms], policy._evidence.sums[: self.n_arms]
        if counts.tolist() != [len(told) for told in self.rewards]:
            return f"counts {counts} instead of {[len(told) for told in self.rewards]}"
        off = max(abs(sums[arm] - sum(told)) for arm, told in enumerate(self.rewards))
        return f"sums {sums}, off by {off}" if off > 1e-9 else None
