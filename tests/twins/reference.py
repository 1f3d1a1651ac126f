"""Slow, obvious twins of the policies, written from the specification: no kernels, no shortcuts.

A twin has ``select(t)``, which returns the sorted arms of round t (from 0), and ``update(t, {arm: reward})``.
The random numbers are armtriage's by definition; everything else is computed here anew.
"""

from __future__ import annotations

import math
from collections.abc import Callable
from functools import lru_cache

import numpy as np
from scipy.optimize import brentq
from scipy.special import betaincinv, betaln, xlogy

from armtriage import FeedbackGraph
from armtriage.kernels.random import stream

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


def excess_of_mixture(count: int, total: float) -> float:
    """``ln(pi) - ln B(s+1/2, n-s+1/2) + s ln(s/n) + (n-s) ln(1-s/n)``."""
    n, s = float(count), min(max(total, 0.0), float(count))
    fit = xlogy(s, s / n) + xlogy(n - s, (n - s) / n)
    return float(math.log(math.pi) - betaln(s + 0.5, n - s + 0.5) + fit)


def width(kind: str, count: int, n_arms: int, horizon: int | None, delta: float) -> float:
    """The half-width of the intervals that depend on the count alone."""
    if kind == "printed":
        assert horizon is not None
        return math.sqrt(math.log(2 * n_arms * horizon / delta) / count)
    if horizon is not None:
        return math.sqrt(math.log(2 * n_arms * horizon / delta) / (2 * count))
    return 0.85 * math.sqrt((math.log(math.log(2 * count)) + 0.72 * math.log(10.4 * n_arms / delta)) / count)


def bounds(
    kind: str, rewards: list[float], total: float, n_arms: int, horizon: int | None, delta: float
) -> tuple[float, float]:
    """The confidence interval of a mean after these rewards, whose sum in order is `total`."""
    n = len(rewards)
    if n == 0:
        return 0.0, 1.0
    mean = min(max(total / n, 0.0), 1.0)
    if kind == "mixture":
        return kl_bounds(mean, (math.log(n_arms / delta) + excess_of_mixture(n, total)) / n)
    if kind == "kl":
        j = math.floor(math.log2(n))
        if horizon is not None:
            level = math.log(2 * n_arms * horizon / delta)
        else:
            level = 1.1 * math.log(16 * n_arms * (j + 1) * (j + 2) / delta)
        return kl_bounds(mean, level / n)
    if kind == "bernstein":
        if n == 1:
            return 0.0, 1.0
        x = math.log(4 * n_arms * (horizon if horizon is not None else n * (n + 1)) / delta)
        half = math.sqrt(2 * float(np.var(rewards, ddof=1)) * x / n) + 7 * x / (3 * (n - 1))
    else:
        half = width(kind, n, n_arms, horizon, delta)
    return max(mean - half, 0.0), min(mean + half, 1.0)


class Elimination:
    """Algorithm 1 in exact mode (benchmark="printed") and with the reduced benchmark."""

    def __init__(
        self,
        graph: FeedbackGraph,
        budget: int,
        *,
        seed: int = 0,
        replication: int = 0,
        horizon: int | None = None,
        delta: float = 0.01,
        benchmark: str = "reduced",
        interval: str = "mixture",
        intersect: bool = True,
        skip_revealed: bool = True,
        tie_break: str = "upper",
        fill: str = "best",
    ) -> None:
        matrix = graph.to_sparse().toarray()
        self.n_arms, self.budget = graph.n_arms, budget
        self.reveals = [frozenset(np.flatnonzero(row).tolist()) for row in matrix]
        self.luck = Luck(seed, replication)
        self.horizon, self.delta, self.benchmark, self.interval = horizon, delta, benchmark, interval
        self.intersect, self.skip_revealed, self.tie_break, self.fill = (
            intersect,
            skip_revealed,
            tie_break,
            fill,
        )
        arms = range(self.n_arms)
        self.confirmed: set[int] = set()
        self.active: set[int] = set(arms)
        self.eliminated: set[int] = set()
        self.N = 0
        self.seen: list[list[float]] = [[] for _ in arms]
        self.sums = [0.0 for _ in arms]
        self.lower, self.upper = [0.0 for _ in arms], [1.0 for _ in arms]
        self.due = [1 for _ in arms]
        self.log: list[tuple[int, int, bool]] = []  # (arm, rounds played, whether confirmed)
        self.failures = 0
        self.layer_N, self.layer_round = -1, -1
        self.picks: list[int] = []
        self.overfull = False  # whether more arms were confirmed than fit
        self.pure_fills = 0  # rounds that began with an empty A_0

    def count(self, arm: int) -> int:
        return len(self.seen[arm])

    def mean(self, arm: int) -> float:
        return self.sums[arm] / len(self.seen[arm]) if self.seen[arm] else 0.0

    def free(self) -> int:
        return self.budget - len(self.confirmed)

    def waiting(self) -> set[int]:
        """A_0 at the start of a round."""
        least = self.N if self.benchmark == "printed" else min(map(self.count, self.active))
        waiting = {a for a in self.active if self.count(a) == least}
        if self.skip_revealed:
            for c in self.confirmed:
                waiting -= self.reveals[c]
        return waiting

    def preference(self, arm: int) -> float:
        if self.tie_break == "upper":
            return self.upper[arm]
        if self.tie_break == "random":
            return float(self.luck.uniforms(self.layer_round, arm, 1)[0])
        return 0.0

    def select(self, t: int) -> list[int]:
        self.picks = []
        if len(self.confirmed) >= self.budget:
            self.overfull = self.overfull or len(self.confirmed) > self.budget
            return sorted(sorted(self.confirmed, key=lambda a: (-self.mean(a), a))[: self.budget])
        if self.layer_N != self.N:
            self.layer_N, self.layer_round = self.N, t
        waiting = self.waiting()
        self.pure_fills += not waiting
        while len(self.picks) < self.free() and waiting:
            degrees = {a: len(self.reveals[a] & waiting) for a in waiting}
            largest = max(degrees.values())
            tied = [a for a in waiting if degrees[a] == largest]
            pick = min(tied, key=lambda a: (-self.preference(a), a))
            self.picks.append(pick)
            waiting -= self.reveals[pick]
        rest = self.active - set(self.picks)
        if self.fill == "best":
            order = sorted(rest, key=lambda a: (-self.mean(a), a))
        elif self.fill == "random":
            drawn = self.luck.uniforms(t, self.n_arms, self.n_arms)
            order = sorted(rest, key=lambda a: (-drawn[a], a))
        else:
            order = sorted(rest)
        fill = order[: self.free() - len(self.picks)]
        return sorted([*self.confirmed, *self.picks, *fill])

    def update(self, t: int, rewards: dict[int, float]) -> None:
        for arm, reward in rewards.items():
            self.seen[arm].append(reward)
            self.sums[arm] += reward
        if self.benchmark == "printed":
            self.sort_printed(t)
        else:
            while len(self.active) > self.free() and min(map(self.count, self.active)) > self.N:
                self.sort_reduced(t)

    def decide(self, t: int, confirm: list[int], eliminate: list[int]) -> None:
        self.confirmed |= set(confirm)
        self.eliminated |= set(eliminate)
        self.active -= set(confirm) | set(eliminate)
        self.log += [(a, t + 1, a in confirm) for a in sorted(confirm + eliminate)]

    def sort_printed(self, t: int) -> None:
        if len(self.confirmed) >= self.budget:
            return
        m = min(map(self.count, self.active))
        if m > self.N:
            self.N = m
            w = width(self.interval, m, self.n_arms, self.horizon, self.delta)
            b = sorted((self.mean(a) for a in self.confirmed | self.active), reverse=True)[self.budget - 1]
            confirm = [a for a in self.active if self.mean(a) > b + 4 * w]
            eliminate = [a for a in self.active if self.mean(a) < b - 2 * w]
            self.decide(t, confirm, eliminate)

    def sort_reduced(self, t: int) -> None:
        self.N = min(map(self.count, self.active))
        k = self.free()
        for a in self.active:
            if self.count(a) >= self.due[a]:
                self.due[a] = self.count(a) + 1 + self.count(a) // 32
                self.renew(a)
        lk = sorted((self.lower[a] for a in self.active), reverse=True)[k - 1]
        uk1 = sorted((self.upper[a] for a in self.active), reverse=True)[k]
        confirm = [a for a in self.active if self.lower[a] > uk1]
        eliminate = [a for a in self.active if self.upper[a] < lk and a not in confirm]
        self.decide(t, confirm, eliminate)

    def renew(self, a: int) -> None:
        lower, upper = bounds(self.interval, self.seen[a], self.sums[a], self.n_arms, self.horizon, self.delta)
        if self.intersect:
            if max(lower, self.lower[a]) <= min(upper, self.upper[a]):
                lower, upper = max(lower, self.lower[a]), min(upper, self.upper[a])
            else:
                self.failures += 1
        self.lower[a], self.upper[a] = lower, upper


class Index:
    """Play the S arms of largest index, an infinite one while unobserved; ties to the smallest arm."""

    def __init__(
        self, graph: FeedbackGraph, budget: int, *, index: Callable[[int, np.ndarray, np.ndarray], np.ndarray]
    ) -> None:
        self.budget, self.index = budget, index
        self.counts, self.sums = np.zeros(graph.n_arms, np.int64), np.zeros(graph.n_arms)

    def select(self, t: int) -> list[int]:
        values = np.full(self.counts.size, np.inf)
        known = self.counts > 0
        values[known] = self.index(t, self.sums[known] / self.counts[known], self.counts[known])
        return sorted(np.argsort(-values, kind="stable")[: self.budget].tolist())

    def update(self, t: int, rewards: dict[int, float]) -> None:
        for arm, reward in rewards.items():
            self.counts[arm] += 1
            self.sums[arm] += reward


def combinatorial_ucb(graph: FeedbackGraph, budget: int, *, horizon: int, delta: float) -> Index:
    scale = math.sqrt(math.log(2 * graph.n_arms * horizon / delta))
    return Index(graph, budget, index=lambda t, means, counts: means + scale * (1.0 / np.sqrt(counts)))


def comb_ucb1(graph: FeedbackGraph, budget: int, exploration: float = 1.5) -> Index:
    return Index(
        graph,
        budget,
        index=lambda t, means, counts: means + math.sqrt(exploration * math.log(t + 1)) * (1.0 / np.sqrt(counts)),
    )


def greedy(graph: FeedbackGraph, budget: int) -> Index:
    return Index(graph, budget, index=lambda t, means, counts: means)


def kl_ucb(graph: FeedbackGraph, budget: int, log_log: float = 0.0) -> Index:
    def index(t: int, means: np.ndarray, counts: np.ndarray) -> np.ndarray:
        f = math.log(t + 1)
        f = max(0.0, f + log_log * math.log(f)) if t >= 1 else 0.0
        return np.array([kl_bounds(m, f / n)[1] for m, n in zip(means.tolist(), counts.tolist(), strict=True)])

    return Index(graph, budget, index=index)


class Thompson:
    """Draw every arm's mean from its posterior, by inversion, and play the S largest draws."""

    def __init__(self, graph: FeedbackGraph, budget: int, *, seed: int, replication: int) -> None:
        self.budget, self.luck = budget, Luck(seed, replication)
        self.wins, self.losses = np.zeros(graph.n_arms), np.zeros(graph.n_arms)

    def select(self, t: int) -> list[int]:
        draws = betaincinv(1 + self.wins, 1 + self.losses, self.luck.uniforms(t, 0, self.wins.size))
        return sorted(np.argsort(-draws, kind="stable")[: self.budget].tolist())

    def update(self, t: int, rewards: dict[int, float]) -> None:
        coins = self.luck.uniforms(t, self.wins.size, self.wins.size)
        for arm, reward in rewards.items():
            won = reward == 1 if reward in (0, 1) else coins[arm] < reward
            self.wins[arm] += won
            self.losses[arm] += not won


class Random:
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
