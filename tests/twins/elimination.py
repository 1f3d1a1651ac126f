"""A twin of `CombinatorialElimination`, and the confidence intervals that it decides by."""

from __future__ import annotations

import math
from typing import Any

import numpy as np
from scipy.special import betaln, rel_entr, xlogy

from armtriage import FeedbackGraph
from twins import Schedule, Twin, reveals_of, sets_differ
from twins.index import kl_bounds
from twins.sampling import Luck


def excess_of_mixture(count: int, total: float) -> float:
    """``ln(pi) - ln B(s+1/2, n-s+1/2) + s ln(s/n) + (n-s) ln(1-s/n)``."""
    n, s = float(count), min(max(total, 0.0), float(count))
    fit = xlogy(s, s / n) + xlogy(n - s, (n - s) / n)
    return float(math.log(math.pi) - betaln(s + 0.5, n - s + 0.5) + fit)


def divergence(p: float, q: float) -> float:
    return float(rel_entr(p, q) + rel_entr(1.0 - p, 1.0 - q))


def upper_with_variance(n: int, total: float, between: float, level: float) -> float:
    """Where the capital that sum and squares guarantee against a mean reaches the level, by bisection; 1 if nowhere."""
    least = min(between / (n - total), total / n)
    p = min(max((total - n * least) / (1.0 - least), 0.0), n) / n
    needed = level + excess_of_mixture(n, n * p)

    def short(y: float) -> bool:
        middle = (n * p + 0.5) / (n + 1)
        tail = math.exp(-(n + 1) * divergence(middle, y))
        if tail >= 1.0:
            return True
        odds = 0.5 * math.log((least + (1.0 - least) * y) / y)
        return n * divergence(p, y) + odds + math.log1p(-tail) < needed

    low, high = (p + 0.5 / n) / (1.0 + 0.5 / n), 1.0 - 1e-15
    if short(high):
        return 1.0
    while low < (middle := 0.5 * (low + high)) < high:
        low, high = (middle, high) if short(middle) else (low, middle)
    return least + (1.0 - least) * high


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
        level = math.log(n_arms / delta)
        lower, upper = kl_bounds(mean, (level + excess_of_mixture(n, total)) / n)
        between = sum(reward * (1.0 - reward) for reward in rewards)
        if between > 0.0:
            lower = max(lower, 1.0 - upper_with_variance(n, n - total, between, level))
            upper = min(upper, upper_with_variance(n, total, between, level))
        return lower, upper
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


class Elimination(Twin):
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
        self.n_arms, self.budget = graph.n_arms, budget
        self.reveals = reveals_of(graph)
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
        self.divisors: list[Any] = [self.n_arms for _ in arms]
        self.log: list[tuple[int, int, bool]] = []  # (arm, rounds played, whether confirmed)
        self.failures = 0
        self.schedule = Schedule(self.reveals)
        self.clock = 0
        self.layer: set[int] = set()  # A_0, but for the arms that were scheduled since
        self.layer_round = -1
        self.changed = True  # whether the sets, or what they are made by, have changed since the layer began
        self.advanced = False  # whether N has, as printed
        self.picks: list[int] = []
        self.overfull = False  # whether more arms were confirmed than fit
        self.pure_fills = 0  # rounds that began with an empty A_0

    def count(self, arm: int) -> int:
        return len(self.seen[arm])

    def mean(self, arm: int) -> float:
        return self.sums[arm] / len(self.seen[arm]) if self.seen[arm] else 0.0

    def free(self) -> int:
        return self.budget - len(self.confirmed)

    def begin_layer(self, t: int) -> None:
        """Find A_0: those who have been scheduled least often, and whom nobody confirmed shows anyway."""
        # As printed, N is older than the sets: if all arms observed N times have left, this round has no A_0.
        nobody = (
            self.advanced and not any(self.schedule.pending) and min(map(self.schedule.tries, self.active)) > self.N
        )
        self.layer = set() if nobody else self.schedule.behind(self.active)
        if self.skip_revealed:
            for c in self.confirmed:
                self.layer -= self.reveals[c]
        self.changed, self.advanced, self.layer_round = False, False, t

    def preference(self, arm: int) -> float:
        if self.tie_break == "upper":
            return self.upper[arm]
        if self.tie_break == "random":
            return self.luck.uniform(self.layer_round, arm)
        return 0.0

    def select(self, t: int) -> list[int]:
        self.clock = t
        arms = self.choose(t)
        self.layer -= self.schedule.play(t, arms)
        return arms

    def choose(self, t: int) -> list[int]:
        self.picks = []
        if len(self.confirmed) >= self.budget:
            self.overfull = self.overfull or len(self.confirmed) > self.budget
            return sorted(sorted(self.confirmed, key=lambda a: (-self.mean(a), a))[: self.budget])
        if len(self.active) == self.free():
            return sorted(self.confirmed | self.active)
        if self.changed or not self.layer:
            self.begin_layer(t)
        self.pure_fills += not self.layer
        while len(self.picks) < self.free() and self.layer:
            degrees = {a: len(self.reveals[a] & self.layer) for a in self.layer}
            largest = max(degrees.values())
            tied = [a for a in self.layer if degrees[a] == largest]
            pick = min(tied, key=lambda a: (-self.preference(a), a))
            self.picks.append(pick)
            self.layer -= self.reveals[pick]
        rest = self.active - set(self.picks)
        if self.fill == "best":
            order = sorted(rest, key=lambda a: (-self.mean(a), a))
        elif self.fill == "random":
            drawn = self.luck.coins(t, self.n_arms)
            order = sorted(rest, key=lambda a: (-drawn[a], a))
        else:
            order = sorted(rest)
        fill = order[: self.free() - len(self.picks)]
        return sorted([*self.confirmed, *self.picks, *fill])

    def update(self, t: int, rewards: dict[int, float]) -> None:
        for arm, reward in rewards.items():
            self.seen[arm].append(reward)
            self.sums[arm] += reward
        self.schedule.take(t, rewards)
        self.sort()
        if self.schedule.lose(t, rewards):
            self.sort()

    def sort(self) -> None:
        """Sort the arms, as printed once and else until nothing changes, when all active ones have had N tries."""
        if self.benchmark == "printed":
            if self.free() > 0 and self.all_are_ahead():
                self.N, self.advanced = min(map(self.schedule.tries, self.active)), True
                self.sort_printed()
            return
        while len(self.active) > self.free() and self.all_are_ahead():
            self.N, self.changed = min(map(self.schedule.tries, self.active)), True
            self.sort_reduced()

    def all_are_ahead(self) -> bool:
        return min(map(self.schedule.tries, self.active)) > self.N

    def differs(self, policy: Any) -> str | None:
        if self.benchmark == "reduced" and policy.interval_failures != self.failures:
            return f"{policy.interval_failures} contradictory intervals instead of {self.failures}"
        return sets_differ(policy, self.confirmed, self.active, self.eliminated)

    def decide(self, confirm: list[int], eliminate: list[int]) -> None:
        self.confirmed |= set(confirm)
        self.eliminated |= set(eliminate)
        self.active -= set(confirm) | set(eliminate)
        self.changed = self.changed or bool(confirm or eliminate)
        self.log += [(a, self.clock + 1, a in confirm) for a in sorted(confirm + eliminate)]

    def sort_printed(self) -> None:
        # Arms that count as tried, but have not been observed N times, have no average of that width.
        judged = [a for a in self.active if self.count(a) >= self.N]
        means = sorted(map(self.mean, [*self.confirmed, *judged]), reverse=True)
        if len(means) >= self.budget:
            w, b = width(self.interval, self.N, self.n_arms, self.horizon, self.delta), means[self.budget - 1]
            confirm = [a for a in judged if self.mean(a) > b + 4 * w]
            self.decide(confirm, [a for a in judged if self.mean(a) < b - 2 * w])

    def sort_reduced(self) -> None:
        for a in self.active:
            if self.count(a) >= self.due[a]:
                self.due[a] = self.count(a) + 1 + self.count(a) // 32
                self.renew(a)
        self.judge_reduced()

    def judge_reduced(self) -> None:
        k = self.free()
        lk = sorted((self.lower[a] for a in self.active), reverse=True)[k - 1]
        uk1 = sorted((self.upper[a] for a in self.active), reverse=True)[k]
        confirm = [a for a in self.active if self.lower[a] > uk1]
        self.decide(confirm, [a for a in self.active if self.upper[a] < lk and a not in confirm])

    def renew(self, a: int) -> None:
        lower, upper = bounds(self.interval, self.seen[a], self.sums[a], self.divisors[a], self.horizon, self.delta)
        if self.intersect:
            if max(lower, self.lower[a]) <= min(upper, self.upper[a]):
                lower, upper = max(lower, self.lower[a]), min(upper, self.upper[a])
            else:
                self.failures += 1
        self.lower[a], self.upper[a] = lower, upper
