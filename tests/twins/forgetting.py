"""Policies that forget, everything at an alarm or a little all the time, around the twins of those that never do."""

from __future__ import annotations

import math
from collections.abc import Callable
from typing import Any

import numpy as np

from twins import Twin
from twins.alarm import ReferenceAlarm
from twins.eligible import Guarded

__all__ = ["Fading", "Forgetting"]


class Forgetting(Twin):
    """Play what a twin would, but for a look now and then; begin with a new twin after each alarm."""

    def __init__(self, make: Callable[[], Any], n_arms: int) -> None:
        self.make, self.n_arms, self.inner = make, n_arms, make()
        self.alarm, self.began, self.asked = ReferenceAlarm(n_arms, 0.01), 0, 0
        self.rewards: list[list[float]] = []
        self.resets = self.looks = 0
        self.watch_again()

    def watch_again(self) -> None:
        self.rewards = [[] for _ in range(self.n_arms)]
        self.recent: list[list[float]] = [[] for _ in range(self.n_arms)]
        self.ratio, self.arm, self.due, self.level = [0.0] * self.n_arms, -1, 0, 0.0

    def compare(self, arm: int) -> None:
        """Follow an arm whose latest rewards are 20 times as likely at the level of the best as at its mean before."""
        recent, told, reward = self.recent[arm], self.rewards[arm], self.rewards[arm][-1]
        before = (sum(told[:-1]) + 1) / len(told)
        if before < self.level and (sum(told) + 0.5) / (len(told) + 1) < self.level:
            now = max(self.level, (sum(recent) + 0.5) / (len(recent) + 1))
            self.ratio[arm] += reward * math.log(now / before) + (1 - reward) * math.log((1 - now) / (1 - before))
        else:
            self.ratio[arm] = 0.0
        recent.append(reward)
        if self.ratio[arm] <= 0 or (arm == self.arm and self.ratio[arm] < math.log(20)):
            self.ratio[arm], self.recent[arm] = 0.0, []
            self.arm = -1 if self.arm == arm else self.arm
        elif self.ratio[arm] >= math.log(20):
            self.arm = arm

    def next_look(self, since: int) -> int:
        """The arm that seems to have risen, or where arms are eliminated sqrt(K t) / 16 looks in turn."""
        if self.arm >= 0 and self.inner.inner.rows[self.arm].pending < 4:
            return self.arm
        looks = [math.floor(math.sqrt(self.n_arms * one) / 16) for one in (since, since + 1)]
        return looks[0] % self.n_arms if isinstance(self.inner.inner, Guarded) and looks[1] > looks[0] else -1

    def select(self, t: int) -> list[int]:
        everybody, since = self.inner.everybody, t - self.began
        arms: list[int] = self.inner.inner.ask(t, everybody, everybody)
        self.asked = t + 1
        arm = self.next_look(since)
        if arm >= 0 and arm not in arms:
            self.looks += 1
            means = [sum(self.rewards[one]) / max(len(self.rewards[one]), 1) for one in arms]
            looked = sorted([arm, *(one for i, one in enumerate(arms) if i != means.index(min(means)))])
            if isinstance(self.inner.inner, Guarded):
                # What is played is what is certified; the account is of what the guard would have played.
                guard = self.inner.inner
                guard.total = max(0.0, guard.total + guard.price_of(looked) - guard.price_of(arms))
            arms = looked
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
            extra, self.inner, self.began = self.inner.inner.extra, self.make(), self.asked
            crowd = self.inner.inner
            crowd.extra, crowd.start = extra, self.asked
            for row in crowd.rows:
                row.divisor = crowd.divisor()
            self.watch_again()
            self.resets += 1
            return
        if self.asked >= self.due and arms:
            means = sorted((sum(told) + 0.5) / (len(told) + 1) for told in self.rewards)
            self.due, self.level = self.asked + 16, means[-self.inner.inner.S]
        for arm in arms:
            self.compare(arm)

    def differs(self, policy: Any) -> str | None:
        mine = [tuple(one) for one in policy._alarm.alarms]
        if mine != self.alarm.alarms or policy._began != self.began:
            return f"alarms {mine} instead of {self.alarm.alarms}"
        return self.inner.differs(policy)  # type: ignore[no-any-return]


class Fading(Twin):
    """Play what a twin would that was told only what still counts, each reward by the age of its decision."""

    def __init__(self, make: Callable[[], Any], forget: float) -> None:
        self.inner, self.forget, self.asked = make(), forget, 0
        self.told: dict[
            int, list[tuple[int, float, float]]
        ] = {}  # by arm: decision, reward, what it counts for in draws

    def weigh(self, number: int) -> float:
        age = self.asked - 1 - number
        return float(age < self.forget) if self.forget >= 1 else self.forget**age

    def refresh(self) -> None:
        """Write what counts into the rows of the twin; an arm of which hardly anything does was never seen."""
        for arm, row in enumerate(self.inner.inner.rows):
            known = [(self.weigh(n), r, w) for n, r, w in self.told.get(arm, [])]
            weight = sum(one for one, _, _ in known)
            if weight < 1e-6:
                weight, known = 0.0, []
            row.unheard = weight - row.learned
            row.gained, row.wins = sum(one * r for one, r, _ in known), sum(one * w for one, _, w in known)
            row.told_between = sum(one * w * (1 - w) for one, _, w in known)

    def judge(self, t: int, arms: list[int]) -> str | None:
        self.asked = t
        self.refresh()
        fault: str | None = self.inner.judge(t, arms)
        self.asked = t + 1
        self.refresh()
        return fault

    def update(self, t: int, rewards: dict[int, float]) -> None:
        for arm, reward in rewards.items():
            row = self.inner.inner.rows[arm]
            row.wins, row.gained, row.told_between = 0.0, 0.0, 0.0
            self.inner.inner.learn(t, {arm: reward})
            row.learned -= 1
            self.told.setdefault(arm, []).append((t, reward, row.wins))
        self.inner.update(t, rewards)
        self.refresh()

    def differs(self, policy: Any) -> str | None:
        held, rows = policy._evidence, self.inner.inner.rows
        exact = {"learned": held.counts, "pending": held.pending, "missed": held.missed, "count": policy.tally.counts}
        close = {"unheard": held.unheard, "gained": held.sums, "wins": held.wins, "told_between": held.doubts}
        for name, theirs in (exact | close).items():
            off = np.abs(theirs[: len(rows)] - [getattr(row, name) for row in rows]).max()
            if off > (0.0 if name in exact else 1e-9):
                return f"{name} {theirs}, off by {off}"
        return None
