"""Twins of the index policies: every index is computed anew in every round."""

from __future__ import annotations

import math
from collections.abc import Callable
from functools import lru_cache
from typing import Any

import numpy as np
from scipy.optimize import brentq

from armtriage import FeedbackGraph
from twins import Twin, saved


@lru_cache(maxsize=1 << 18)
def kl_bounds(mean: float, level: float) -> tuple[float, float]:
    """The smallest and the largest p with kl(mean, p) <= level, by root finding on each side."""
    if level <= 0.0:
        return mean, mean
    lower = 0.0 if mean <= 0.0 else _above(1.0 - mean, mean, level)[1]
    upper = 1.0 if mean >= 1.0 else _above(mean, 1.0 - mean, level)[0]
    return lower, upper


def _above(mean: float, rest: float, level: float) -> tuple[float, float]:
    """The p >= mean with kl(mean, p) = level, and 1 - p; rest = 1 - mean > 0; found by y = ln(rest/(1-p))."""
    if mean <= 0.0:
        return -math.expm1(-level), math.exp(-level)

    def excess(y: float) -> float:
        return rest * y - mean * math.log1p(-rest * math.expm1(-y) / mean) - level

    most = (level - mean * math.log(mean)) / rest + 1.0  # beyond the root even if p were 1
    y = brentq(excess, 0.0, most, xtol=1e-300, rtol=4 * np.finfo(float).eps, maxiter=2000)
    return mean - rest * math.expm1(-y), rest * math.exp(-y)


def kl_index(mean: float, count: int, between: float, bonus: float) -> float:
    """The largest mean within the bonus, of the law on {x, 1} with the mean and variance of the rewards."""
    x = min(between / (count * (1 - mean)), mean) if between > 0 and mean < 1 else 0.0
    share = (mean - x) / (1 - x)
    return x + (1 - x) * kl_bounds(share if share > 1e-14 else 0.0, bonus / count)[1]


class Index(Twin):
    """Play the S arms of largest index; before them those without a reward, the least often asked first."""

    def __init__(self, graph: FeedbackGraph, budget: int, *, index: Callable[..., np.ndarray]) -> None:
        self.budget, self.index, self.reveals = budget, index, graph.to_sparse().toarray().astype(bool)
        n = graph.n_arms
        self.counts, self.sums, self.waiting = np.zeros(n, np.int64), np.zeros(n), np.zeros(n, np.int64)
        self.missed, self.between = np.zeros(n, np.int64), np.zeros(n)
        self.shown: dict[int, np.ndarray] = {}

    @property
    def counted(self) -> np.ndarray:
        """How many rewards each arm has had; from the eighth lost in a row on, four count as one of 0."""
        return np.where(self.missed < 8, self.counts, self.counts + self.missed // 4)

    def values(self, t: int) -> np.ndarray:
        """The index of each arm with a reward, and 0 for the others."""
        counts = self.counted
        values, known = np.zeros(counts.size), counts > 0
        values[known] = self.index(t, self.sums[known] / counts[known], counts[known], self.between[known])
        return values

    def weights(self, t: int, size: int) -> np.ndarray:
        """Indices for sums of up to `size`: of those without a reward, some that no sum of others reaches."""
        values = self.values(t)
        unit = 2 * size * (1 + np.abs(values).max())
        lifted = np.where(self.waiting > 0, unit * (1 + 1 / np.maximum(self.waiting, 1)), unit * 4 * size)
        return np.where(self.counted > 0, values, lifted)

    def select(self, t: int) -> list[int]:
        known = self.counted > 0
        order = np.lexsort((np.where(known, -self.values(t), self.waiting), known))
        arms = sorted(order[: self.budget].tolist())
        self.play(t, arms)
        return arms

    def play(self, t: int, arms: list[int]) -> None:
        self.shown[t] = self.reveals[arms].any(axis=0)
        self.waiting += self.shown[t]

    def update(self, t: int, rewards: dict[int, float]) -> None:
        shown = self.shown.pop(t)
        self.waiting -= shown
        self.missed += shown
        self.missed[list(rewards)] = 0
        for arm, reward in rewards.items():
            self.counts[arm] += 1
            self.sums[arm] += reward
            self.between[arm] += reward * (1 - reward)

    def differs(self, policy: Any) -> str | None:
        held, n = saved(policy), self.counts.size
        for name, mine in (("counts", self.counts), ("sums", self.sums), ("pending", self.waiting)):
            if not np.array_equal(held[name][:n], mine):
                return f"{name} {held[name]} instead of {mine}"
        return None


def combinatorial_ucb(graph: FeedbackGraph, budget: int, *, horizon: int, delta: float) -> Index:
    scale = math.sqrt(math.log(2 * graph.n_arms * horizon / delta))
    return Index(graph, budget, index=lambda t, means, counts, between: means + scale * (1.0 / np.sqrt(counts)))


def comb_ucb1(graph: FeedbackGraph, budget: int, exploration: float = 1.5) -> Index:
    return Index(
        graph,
        budget,
        index=lambda t, means, counts, between: (
            means + math.sqrt(exploration * math.log(t + 1)) * (1.0 / np.sqrt(counts))
        ),
    )


def greedy(graph: FeedbackGraph, budget: int) -> Index:
    return Index(graph, budget, index=lambda t, means, counts, between: means)


def kl_ucb(graph: FeedbackGraph, budget: int, log_log: float = 0.0) -> Index:
    def index(t: int, means: np.ndarray, counts: np.ndarray, between: np.ndarray) -> np.ndarray:
        f = math.log(t + 1)
        f = max(0.0, f + log_log * math.log(f)) if t >= 1 else 0.0
        arms = zip(means.tolist(), counts.tolist(), between.tolist(), strict=True)
        return np.array([kl_index(m, n, d, f) for m, n, d in arms])

    return Index(graph, budget, index=index)
