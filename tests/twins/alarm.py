"""The alarm, slowly: whole lists of rewards, and evidence straight from its definition."""

from __future__ import annotations

import math
from fractions import Fraction
from typing import NamedTuple

import numpy as np
from scipy.special import betaln, logsumexp

__all__ = ["ReferenceAlarm"]


class Moment(NamedTuple):
    count: int
    number: int
    weight: float


def mixture(rewards: list[float]) -> float:
    """ln of the Beta(1/2, 1/2) average of p^s (1-p)^(n-s)."""
    n, s = len(rewards), math.fsum(rewards)
    return float(betaln(s + 0.5, n - s + 0.5) - math.log(math.pi))


def best(rewards: list[float]) -> float:
    """ln of the largest p^s (1-p)^(n-s)."""
    n, s = len(rewards), math.fsum(rewards)
    return sum(part * math.log(part / n) for part in (s, n - s) if part > 0)


class ReferenceAlarm:
    """Rewards of all arms, and the moments at which each was looked at."""

    def __init__(self, n_arms: int, delta: float) -> None:
        self.n_arms, self.delta = n_arms, Fraction(delta)
        self.starts = 0
        self.alarms: list[tuple[int, int, int]] = []
        self.rewards: list[list[float]] = [[] for _ in range(n_arms)]
        self.moments: list[list[Moment]] = [[] for _ in range(n_arms)]
        self.due = [4] * n_arms
        self.taken = [0] * n_arms
        self.share = [self.delta / 2 / n_arms] * n_arms

    def begin_again(self, arm: int) -> None:
        self.rewards[arm], self.moments[arm], self.due[arm], self.taken[arm] = [], [], 4, 0
        block, left = 0, self.starts
        while left >= self.n_arms * 2**block:
            left -= self.n_arms * 2**block
            block += 1
        self.share[arm] = self.delta / 2 / ((block + 1) * (block + 2)) / (self.n_arms * 2**block)
        self.starts += 1

    def terms(self, arm: int) -> list[tuple[float, Moment]]:
        own = self.rewards[arm]
        return [
            (math.log(one.weight) + mixture(own[: one.count]) + mixture(own[one.count :]) - best(own), one)
            for one in self.moments[arm]
            if one.count < len(own)
        ]

    def evidence(self, arm: int) -> float:
        terms = [term for term, _ in self.terms(arm)]
        return float(logsumexp(terms)) if terms else -math.inf

    def update(self, number: int, arms: list[int], rewards: list[float], every: bool = False) -> bool:
        raised = False
        for arm, reward in zip(arms, rewards, strict=True):
            self.rewards[arm].append(reward)
            count = len(self.rewards[arm])
            if count < self.due[arm]:
                continue
            if self.moments[arm] and self.evidence(arm) >= -math.log(self.share[arm]):
                near = max(self.terms(arm), key=lambda one: one[0])[1].number
                self.alarms.append((arm, number, near))
                raised = True
                for one in range(self.n_arms) if every else [arm]:
                    self.begin_again(one)
                if every:
                    break
                continue
            if len(self.moments[arm]) == 40:
                ages = np.array([count - one.count for one in self.moments[arm]])
                del self.moments[arm][1 + int(np.argmin(ages[:-2] / ages[2:]))]
            self.taken[arm] += 1
            k = self.taken[arm]
            self.moments[arm].append(Moment(count, number, 1 / (k * (k + 1))))
            self.due[arm] = count + min(max(count // 32, 4), 256)
        return raised
