"""The random numbers of policies, and twins of the policies that decide by them alone."""

from __future__ import annotations

import math
from typing import Any

import numpy as np
from scipy.special import betaincinv

from armtriage import FeedbackGraph
from armtriage.kernels.normal import normal
from armtriage.kernels.random import stream
from twins import Twin, saved

GOLDEN, FIRST, SECOND = (
    np.uint64(0x9E3779B97F4A7C15),
    np.uint64(0xBF58476D1CE4E5B9),
    np.uint64(0x94D049BB133111EB),
)


def bits(start: np.uint64, columns: np.ndarray) -> np.ndarray:
    """SplitMix64 at many columns; arrays wrap around without a warning."""
    z = start + (columns.astype(np.uint64) + np.uint64(1)) * GOLDEN
    z = (z ^ (z >> np.uint64(30))) * FIRST
    z = (z ^ (z >> np.uint64(27))) * SECOND
    return z ^ (z >> np.uint64(31))


class Luck:
    """The policy's random numbers in a replication: `uniforms(t, first, n)` are n columns of round t."""

    def __init__(self, seed: int, replication: int) -> None:
        own = int(stream(seed, "replication", replication) >> np.uint64(1)) if replication else seed
        self.start = stream(own, "policy")

    def uniforms(self, t: int, first: int, n: int) -> np.ndarray:
        row = bits(self.start, np.array([t]))[0]
        return (bits(row, np.arange(first, first + n)) >> np.uint64(11)) * 2.0**-53

    def coins(self, t: int, n: int) -> np.ndarray:
        """Return the columns before the first: a coin for each of n arms, the same however many arms there are."""
        return self.uniforms(t, -n, n)[::-1]


def gamma(start: np.uint64, column: int, shape: float) -> float:
    """Marsaglia and Tsang (2000), from a normal and a uniform number at a time."""
    d = shape - 1 / 3
    while True:
        x = float(normal(start, column))
        v = (1 + x / math.sqrt(9 * d)) ** 3
        u = 1 - float((bits(start, np.array([column + 1]))[0] >> np.uint64(11)) * 2.0**-53)
        if v > 0 and math.log(u) < x * x / 2 + d * (1 - v + math.log(v)):
            return d * v
        column += 4


class Thompson(Twin):
    """Draw every arm's mean from its posterior, by inversion, and play the S largest draws."""

    def __init__(self, graph: FeedbackGraph, budget: int, *, seed: int, replication: int) -> None:
        self.budget, self.luck = budget, Luck(seed, replication)
        self.wins, self.losses, self.missed = np.zeros((3, graph.n_arms))
        self.reveals = graph.to_sparse().toarray().astype(bool)
        self.shown: dict[int, np.ndarray] = {}

    def weights(self, t: int, size: int) -> np.ndarray:
        # From the eighth in a row on, every four lost rewards count as a loss.
        losses = np.where(self.missed < 8, self.losses, self.losses + self.missed // 4)
        return np.asarray(betaincinv(1 + self.wins, 1 + losses, self.luck.uniforms(t, 0, self.wins.size)))

    def draws(self, t: int, size: int) -> np.ndarray:
        """Draw by two Gamma numbers for each arm, as over a decision set."""
        losses = np.where(self.missed < 8, self.losses, self.losses + self.missed // 4)
        starts = bits(bits(self.luck.start, np.array([t]))[0], np.arange(self.wins.size))
        pairs = [(gamma(s, 0, 1 + a), gamma(s, 2, 1 + b)) for s, a, b in zip(starts, self.wins, losses, strict=True)]
        return np.array([x / (x + y) for x, y in pairs])

    def select(self, t: int) -> list[int]:
        arms = sorted(np.argsort(-self.weights(t, self.budget), kind="stable")[: self.budget].tolist())
        self.play(t, arms)
        return arms

    def play(self, t: int, arms: list[int]) -> None:
        self.shown[t] = self.reveals[arms].any(axis=0)

    def differs(self, policy: Any) -> str | None:
        held = saved(policy)
        same = np.array_equal(held["wins"], self.wins) and np.array_equal(held["losses"], self.losses)
        return None if same else "other wins or losses"

    def update(self, t: int, rewards: dict[int, float]) -> None:
        coins = self.luck.coins(t, self.wins.size)
        self.missed += self.shown.pop(t)
        self.missed[list(rewards)] = 0
        for arm, reward in rewards.items():
            won = reward == 1 if reward in (0, 1) else coins[arm] < reward
            self.wins[arm] += won
            self.losses[arm] += not won


class Random(Twin):
    """The first S steps of a Fisher-Yates shuffle of an order that persists."""

    def __init__(self, graph: FeedbackGraph, budget: int, *, seed: int, replication: int) -> None:
        self.budget, self.luck = budget, Luck(seed, replication)
        self.order = list(range(graph.n_arms))

    def select(self, t: int) -> list[int]:
        u = self.luck.uniforms(t, 0, self.budget)
        for i in range(self.budget):
            j = i + int(u[i] * (len(self.order) - i))
            self.order[i], self.order[j] = self.order[j], self.order[i]
        return sorted(self.order[: self.budget])

    def update(self, t: int, rewards: dict[int, float]) -> None:
        pass
