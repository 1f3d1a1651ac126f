"""A slow, obvious twin of `GuardedThompson` over a decision set, written from its description.

What the oracle answers is taken from it, since rounding and ties may choose between decisions of the same worth; that
no listed decision is worth more is looked up.
"""

from __future__ import annotations

import math
from typing import Any

import numpy as np
from scipy.special import ndtr

from armtriage import DecisionSet, FeedbackGraph
from armtriage.intervals import MIXTURE, interval
from armtriage.kernels.normal import normal
from twins import Twin, reveals_of
from twins.sampling import Luck, Posterior, bits, posterior

Arms = tuple[int, ...]
SLACK = 1 + 1e-9


def cliques(reveals: list[frozenset[int]]) -> int:
    """How many cliques of arms that reveal each other the arms are put into, each into the first that is open."""
    left, count = list(range(len(reveals))), 0
    while left:
        clique = [left.pop(0)]
        near = sorted(reveals[clique[0]], key=lambda b: (not in_run(reveals[clique[0]], clique[0], b), b))
        for b in near:
            if b in left and all(b in reveals[c] and c in reveals[b] for c in clique):
                clique.append(b)
                left.remove(b)
        count += 1
    return count


def in_run(revealed: frozenset[int], a: int, b: int) -> bool:
    """Whether all arms between two are revealed."""
    return all(c in revealed for c in range(min(a, b), max(a, b) + 1))


class GuardedDecisions(Twin):
    """Coupled draws propose, and the guard admits what the account allows."""

    def __init__(
        self,
        graph: FeedbackGraph,
        decisions: DecisionSet,
        *,
        seed: int = 0,
        replication: int = 0,
        delta: float = 0.01,
        mode: str = "time",
        factor: float = 1.0,
        free_look: bool = True,
        reveal: bool = False,
        reward_range: tuple[float, float] = (0.0, 1.0),
        prior: tuple[float, float] = (1.0, 1.0),
        fractional: str = "exact",
    ) -> None:
        self.reveals, self.set = reveals_of(graph), decisions
        self.family = [tuple(one.tolist()) for one in decisions]
        self.K, self.S = graph.n_arms, decisions.size
        self.luck, self.delta, self.shadow, self.factor = Luck(seed, replication), delta, mode == "shadow", factor
        plain = all(len(shown) == 1 for shown in self.reveals)
        self.free_look, self.reveal = free_look and not plain, reveal and not plain
        self.low, self.span = reward_range[0], reward_range[1] - reward_range[0]
        sizes = {len(one) for one in self.family}
        self.base = 0.0 if len(sizes) == 1 else self.low / self.span
        self.Q = self.K if plain else min(self.K, self.S * cliques(self.reveals))
        ends = [size * (self.base + end) for size in (min(sizes), self.S) for end in (0, 1)]
        self.worst = max(ends[1::2]) - min(ends[::2])
        K = range(self.K)
        self.n, self.s, self.wins, self.missed = [0 for _ in K], [0.0 for _ in K], [0.0 for _ in K], [0 for _ in K]
        self.between, self.coin, self.prior = [0.0 for _ in K], fractional == "coin", prior
        self.L, self.U, self.due = [self.base for _ in K], [self.base + 1.0 for _ in K], [1 for _ in K]
        self.shown: dict[int, Arms] = {}
        self.M: Arms | None = None
        self.made, self.h, self.P, self.Z, self.c, self.rho = 0, 1.0, 0.0, 0.0, 0, 0.0
        self.x, self.g = [0.0 for _ in K], [0.0 for _ in K]
        self.A = self.B = self.X = 0.0
        self.m, self.R = [0 for _ in K], 0
        self.dup = self.c0 = self.worst
        self.V0: Arms | None = None
        self.t0, self.last = 0, -8
        self.committed: Arms | None = None
        self.forced = self.failures = self.questions = self.looks = 0

    def best(self, weights: Any, include: Arms = ()) -> Arms:
        self.questions += 1
        found = self.set.maximise(np.array(weights), include)
        assert found is not None
        arms = tuple(found.tolist())
        values = [math.fsum(weights[a] for a in one) for one in self.family if set(include) <= set(one)]
        assert math.fsum(weights[a] for a in arms) >= max(values) - 1e-6 * (1 + max(map(abs, weights)))
        return arms

    def select(self, t: int) -> list[int]:
        if self.committed is None:
            arms = self.admit(t + 1, self.propose(t))
            if self.M is not None and self.committed is None and self.q(arms) > self.q(self.M):
                self.M = arms
        else:
            arms = self.committed
        self.shown[t] = tuple(sorted(frozenset[int]().union(*(self.reveals[a] for a in arms))))
        return list(arms)

    # The proposer.

    def counted(self, a: int) -> int:
        return self.n[a] + (self.missed[a] // 4 if self.missed[a] >= 8 else 0)

    def belief(self, a: int) -> Posterior:
        return posterior(
            self.wins[a], self.counted(a) - self.wins[a], 0.0 if self.coin else self.between[a], self.prior
        )

    def mean(self, a: int) -> float:
        return self.belief(a).mean + self.base

    def q(self, arms: Arms) -> float:
        total = 0.0
        for a in arms:
            total += self.mean(a)
        return total

    def means(self) -> list[float]:
        return [self.mean(a) for a in range(self.K)]

    def seen_with(self, arms: Arms) -> frozenset[int]:
        return frozenset[int]().union(*(self.reveals[a] for a in arms))

    def propose(self, t: int) -> Arms:
        if self.luck.uniforms(t, self.K + 1, 1)[0] < 0.5:
            if self.M is None or t - self.made >= min((t + 1) / 64, 64):
                self.M, self.made = self.best(self.means()), t
                if self.reveal:
                    self.questions += 1
                    self.g = [self.q(self.M) - v for v in self.set.maximise_each_including(self.means())]
            return self.M
        row = bits(self.luck.start, np.array([t]))[0]
        z0 = abs(normal(row, self.K))
        theta = []
        for a in range(self.K):
            n = self.counted(a)
            rho = max(min(0.5, max(self.rho, 1 / self.h**2)), 1 / (1 + n))
            u = min(ndtr(math.sqrt(rho) * z0 + math.sqrt(1 - rho) * normal(row, a)), 1 - 2**-53)
            theta.append(self.belief(a).draw(u) + self.base)
        if self.M is not None and self.free_look:
            for a in self.seen_with(self.M):
                theta[a] = self.mean(a)
        V = self.best(theta)
        if self.M is not None and (k := len(set(V) - set(self.M))):
            self.h = max(1.0, self.h + (k - self.h) / 32)
        return self.share_looks(V) if self.reveal and self.M is not None else V

    def share_looks(self, V: Arms) -> Arms:
        assert self.M is not None
        hidden = set(range(self.K)) - self.seen_with(self.M)
        wanted = sorted(set(V) & hidden)
        if not wanted:
            return V
        for a in wanted:
            self.x[a] += max(0.0, self.q(self.M) - self.q(V)) / len(wanted)
        due: dict[int, float] = {}
        for h in range(self.K):
            targets = [a for a in sorted(self.reveals[h] & hidden) if self.g[a] < math.inf]
            cost = max(self.g[h], 1e-9)
            if self.n[h] and self.g[h] < math.inf and sum(self.n[a] > 0 for a in targets) >= 2:
                owed, worth = math.fsum(self.x[a] for a in targets), math.fsum(self.g[a] for a in targets)
                if owed >= cost and worth > 2 * cost:
                    due[h] = worth / cost
        if not due:
            return V
        h = max(due, key=lambda a: (due[a], -a))
        targets = sorted(self.reveals[h] & hidden)
        share = max(0.0, 1 - max(self.g[h], 1e-9) / math.fsum(self.x[a] for a in targets if self.g[a] < math.inf))
        for a in targets:
            self.x[a] *= share
        self.looks += 1
        return self.best(self.means(), (h,))

    # The guard.

    def excess(self, V: Arms, W: Arms) -> float:
        more, less = math.fsum(self.U[a] for a in set(V) - set(W)), math.fsum(self.L[a] for a in set(W) - set(V))
        return more - less if abs(more - less) > 1e-12 * (abs(more) + abs(less)) else 0.0

    def width(self, V: Arms, W: Arms) -> float:
        return math.fsum(self.U[a] - self.L[a] for a in set(V) - set(W))

    def challenger(self, V: Arms) -> tuple[float, Arms]:
        Y = self.best([self.L[a] if a in V else self.U[a] for a in range(self.K)])
        return max(0.0, self.excess(Y, V)), Y

    def hope(self, a: int) -> float:
        if self.missed[a] < 8:
            return self.U[a]
        high = interval(MIXTURE, self.counted(a), self.s[a], self.between[a], self.K, 0.0, self.delta)[1] + self.base
        return max(self.L[a], min(self.U[a], high))

    def narrow(self, V: Arms, v: float) -> None:
        if self.V0 not in (None, V):
            self.dup = min(self.dup, max(self.c0, v))

    def admit(self, t: int, V: Arms) -> Arms:
        b = math.log(self.K / self.delta) + math.log(t) / 2 + math.log(2)
        F1 = self.Q + 2 * math.sqrt(2 * b * self.Q * self.S * t)
        F2 = 2 * self.Q + 8 * b * self.Q * self.S / self.dup if self.dup > 0 else math.inf
        self.B = self.worst + self.factor * self.X if self.shadow else self.factor * min(F1, 4 * F2)
        v = self.worst
        if self.V0 is not None:
            v = min(self.worst, max(0.0, self.c0 + self.excess(self.V0, V)))
            self.narrow(V, v)
        if not self.fits(v) or t >= 2 * self.t0 + 4 or t - self.t0 > 64:
            v = min(v, self.challenger(V)[0])
            if self.V0 is None or v <= self.c0 or t - self.t0 > 16:
                self.narrow(V, v)
                self.V0, self.c0, self.t0 = V, v, t
            if v == 0:
                self.committed = V
        if not self.fits(v) and t - self.last >= 8:
            self.last = t
            m = [self.m[a] + (a in V) for a in range(self.K)]
            x = [(self.R + 1 - m[a]) * self.U[a] + m[a] * self.L[a] for a in range(self.K)]
            kept = math.fsum(m[a] * self.L[a] for a in range(self.K))
            r = max(0.0, math.fsum(x[a] for a in self.best(x)) - kept)
            self.A = max(0.0, r - v) if r <= self.B * SLACK else min(self.A, r)
        if self.fits(v):
            self.A, self.R = self.A + v, self.R + 1
            for a in V:
                self.m[a] += 1
            return V
        self.forced += 1
        return self.force(t)

    def fits(self, v: float) -> bool:
        return v == 0 or self.A + v <= self.B * SLACK

    def force(self, t: int) -> Arms:
        hopes = [self.hope(a) for a in range(self.K)]
        if not self.shadow:
            return self.best([up + 1e-7 * (up - low) for up, low in zip(hopes, self.L, strict=True)])
        centre = [
            min(max(self.s[a] / self.n[a] + self.base, self.L[a]), hopes[a]) if self.n[a] else hopes[a]
            for a in range(self.K)
        ]
        W = self.best(centre)
        # An arm whose rewards do not come is hoped less of, and keeps anything from being certain.
        Y = self.best([self.L[a] if a in W else hopes[a] for a in range(self.K)])
        k, certain = self.excess(Y, W), max(self.missed) < 8
        if k <= 0:
            self.committed = W if certain else None
            return W
        there, here = self.width(Y, W), self.width(W, Y)
        self.X += max(there, here)
        if certain and (self.V0 is None or k < self.c0 or t - self.t0 > 16):
            self.V0, self.c0, self.t0 = W, k, t
        return Y if there >= here else W

    def update(self, t: int, rewards: dict[int, float]) -> None:
        unit = {a: min(1.0, max(0.0, (reward - self.low) / self.span)) for a, reward in rewards.items()}
        coins = self.luck.coins(t, self.K)
        for a, r in unit.items():
            self.n[a] += 1
            self.s[a] += r
            self.between[a] += r * (1.0 - r)
            self.missed[a] = 0
            self.wins[a] += r if not self.coin or r in (0, 1) else float(coins[a] < r)
            if self.n[a] >= self.due[a]:
                self.due[a] = self.n[a] + 1 + self.n[a] // 32
                low, high = interval(MIXTURE, self.n[a], self.s[a], self.between[a], self.K, 0.0, self.delta)
                low, high = low + self.base, high + self.base
                if max(low, self.L[a]) <= min(high, self.U[a]):
                    low, high = max(low, self.L[a]), min(high, self.U[a])
                else:
                    self.failures += 1
                self.L[a], self.U[a] = low, high
        for a in set(self.shown.pop(t)) - set(rewards):
            self.missed[a] += 1
        known = [a for a in unit if self.n[a] > 4]
        if len(known) > 1:
            off = [unit[a] - self.s[a] / self.n[a] for a in known]
            dev = [math.sqrt(max(0.0, self.s[a] / self.n[a] * (1 - self.s[a] / self.n[a]))) for a in known]
            self.c += 1
            self.P += sum(off) ** 2 - sum(e * e for e in off)
            self.Z += max(0.0, sum(dev) ** 2 - sum(v * v for v in dev))
            self.rho = min(1.0, max(0.0, self.P / max(self.Z, 1e-9) - 2 / math.sqrt(self.c)))

    def differs(self, policy: Any) -> str | None:
        spent, allowed, forced, factor, looks = policy.account
        mine = policy.interval_failures, forced, factor, looks, policy.oracle_calls
        theirs = self.failures, self.forced, self.factor, self.looks, self.questions
        if mine != theirs:
            return f"failures, forced rounds, factor, looks and questions are {mine}, not {theirs}"
        book = np.array([spent, allowed]) / self.span
        if not np.allclose(book, [self.A, self.B], rtol=1e-9, atol=1e-9):
            return f"an account of {book} instead of {self.A, self.B}"
        return None
