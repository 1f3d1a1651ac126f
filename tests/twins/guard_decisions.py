"""A slow, obvious twin of `GuardedThompson` over a decision set, written from its description.

What the oracle answers is taken from it, since rounding and ties may choose between decisions of the same worth; that
no listed decision is worth more is looked up.
"""

from __future__ import annotations

import math
from typing import Any

import numpy as np
from scipy.special import betaincc, betaincinv, ndtr

from armtriage import DecisionSet, FeedbackGraph
from armtriage.intervals import MIXTURE, interval
from armtriage.kernels.normal import normal
from twins import Twin, reveals_of
from twins.sampling import Luck, Posterior, fitted_around, posterior, word

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


def near_quantile(z: float, a: float, b: float) -> float:
    """About the quantile of Beta(a, b) at the normal z: Abramowitz and Stegun 26.5.22, and a Halley step if a < 12."""
    if a > b:
        return 1 - near_quantile(-z, b, a)
    if a == 1:
        return float(-np.expm1(np.log(ndtr(-z)) / b))
    if a < 12 and a != round(a):
        return float(betaincinv(a, b, min(ndtr(z), 1 - 2**-53)))
    h, third = 2 / (1 / (2 * a - 1) + 1 / (2 * b - 1)), (z * z - 3) / 6
    w = -z * math.sqrt(max(h + third, 0)) / h
    w -= (1 / (2 * b - 1) - 1 / (2 * a - 1)) * (third + 5 / 6 - 2 / (3 * h))
    x = a / (a + b * math.exp(min(2 * w, 500)))
    if a >= 12:
        return x
    from scipy.stats import beta  # here, since it takes most of a second and few tests come so far

    x = min(max(x, 1e-9), 1 - 1e-9)
    density = float(beta.pdf(x, a, b))
    if not density > 0:
        return x
    newton = float(ndtr(-z) - betaincc(a, b, x)) / density
    halley = newton / max(1 - newton / 2 * ((a - 1) / x - (b - 1) / (1 - x)), 0.5)
    return min(max(x - halley, x / 2), x + (1 - x) / 2)


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
        sleepers_seen: bool = False,
        prior: str | tuple[float, float] = "learned",
        expected: list[float] | None = None,
        spread: float | None = None,
        fractional: str = "exact",
    ) -> None:
        self.reveals, self.set, self.sleepers_seen = reveals_of(graph), decisions, sleepers_seen
        self.family = [tuple(one.tolist()) for one in decisions]
        self.K, self.S = graph.n_arms, decisions.size
        self.luck, self.delta, self.shadow, self.factor = Luck(seed, replication), delta, mode == "shadow", factor
        plain = all(len(shown) == 1 for shown in self.reveals)
        self.free_look, self.reveal = free_look and not plain, reveal and not plain
        self.low, self.span = reward_range[0], reward_range[1] - reward_range[0]
        sizes = {len(one) for one in self.family}
        self.base = 0.0 if len(sizes) == 1 else self.low / self.span
        self.Q = self.cover = self.K if plain else min(self.K, self.S * cliques(self.reveals))
        ends = [size * (self.base + end) for size in (min(sizes), self.S) for end in (0, 1)]
        self.worst = max(ends[1::2]) - min(ends[::2])
        K = range(self.K)
        self.n, self.s, self.wins, self.missed = [0 for _ in K], [0.0 for _ in K], [0.0 for _ in K], [0 for _ in K]
        self.between, self.coin = [0.0 for _ in K], fractional == "coin"
        self.learned, self.next_fit, self.noise = prior == "learned", 1, 1.0
        self.prior = (1.0, 1.0) if isinstance(prior, str) else prior
        self.stated, self.shapes, self.start = spread is not None, [(1.0, 1.0) for _ in K], self.prior
        if expected is not None:
            centres = [min(max(self.unit(one), 1e-4), 1 - 1e-4) for one in expected]
            if spread is None:
                least = float(np.median([min(c, 1 - c) for c in centres]))
                self.prior = self.start = (min(max(2 / least, 1.0), math.exp(9)),) * 2
                sizes = [2.0 for _ in K]
            else:
                sizes = [max(c * (1 - c) / (spread / self.span) ** 2 - 1, 0.0) for c in centres]
            self.shapes = [(size * c, size * (1 - c)) for size, c in zip(sizes, centres, strict=True)]
        self.expected = expected is not None
        self.L, self.U, self.due = [self.base for _ in K], [self.base + 1.0 for _ in K], [1 for _ in K]
        self.shown: dict[int, Arms] = {}
        self.h, self.P, self.Z, self.c, self.rho = 1.0, 0.0, 0.0, 0, 0.0
        self.x = [0.0 for _ in K]
        self.B = self.X = 0.0
        self.dup = self.worst
        # What is kept for each eligible set by itself: the set of the round lies open.
        self.everybody = frozenset(K)
        self.E = self.everybody
        self.pages: dict[frozenset[int], dict[str, Any]] = {}
        self.frozen = 0.0
        self.M: Arms | None
        self.V0: Arms | None
        self.committed: Arms | None
        vars(self).update(self.new_page())
        self.forced = self.failures = self.questions = self.looks = 0

    def new_page(self) -> dict[str, Any]:
        page = {"M": None, "made": 0, "g": [0.0] * self.K, "A": 0.0, "m": [0] * self.K, "R": 0}
        return page | {"V0": None, "c0": self.worst, "t0": 0, "last": -8, "committed": None}

    def best(self, weights: Any, include: Arms = ()) -> Arms:
        self.questions += 1
        found = self.set.maximise(np.array(weights), include, sorted(self.everybody - self.E))
        assert found is not None
        arms = tuple(found.tolist())
        family = [one for one in self.family if set(include) <= set(one) <= self.E]
        values = [math.fsum(weights[a] for a in one) for one in family]
        assert math.fsum(weights[a] for a in arms) >= max(values) - 1e-6 * (1 + max(map(abs, weights)))
        return arms

    def select(self, t: int, among: list[int] | None = None) -> list[int]:
        """Choose among eligible arms: of more than 64 sets, the one that was not asked for longest is forgotten."""
        E = self.everybody if among is None else frozenset(among)
        if self.everybody == E:
            return self.select_here(t, E)
        own = {name: vars(self)[name] for name in self.new_page()}
        self.Q = self.cover if self.sleepers_seen else self.K
        self.E, self.pages[self.everybody] = E, own
        vars(self).update(self.pages.pop(E, None) or self.new_page())
        arms = self.select_here(t, E)
        here = {name: vars(self)[name] for name in own}
        self.E, self.Q = self.everybody, self.cover
        vars(self).update(self.pages.pop(self.everybody))
        if len(self.pages) == 64:
            self.frozen += self.pages.pop(next(iter(self.pages)))["A"]
        self.pages[E] = here
        return arms

    def elsewhere(self) -> float:
        return self.frozen + math.fsum(page["A"] for page in self.pages.values())

    def select_here(self, t: int, E: frozenset[int]) -> list[int]:
        if self.committed is None:
            arms = self.admit(t + 1, self.propose(t))
            if self.M is not None and self.committed is None and self.q(arms) > self.q(self.M):
                self.M = arms
        else:
            arms = self.committed
        shown = frozenset[int]().union(*(self.reveals[a] for a in arms))
        self.shown[t] = tuple(sorted(shown if self.sleepers_seen else shown & E))
        return list(arms)

    # The proposer.

    def counted(self, a: int) -> int:
        return self.n[a] + (self.missed[a] // 4 if self.missed[a] >= 8 else 0)

    def unit(self, reward: float) -> float:
        return min(1.0, max(0.0, (reward - self.low) / self.span))

    def told(self, a: int) -> tuple[float, float, float]:
        return self.wins[a], self.counted(a) - self.wins[a], 0.0 if self.coin else self.between[a]

    def as_coins(self, a: int) -> tuple[float, float]:
        """How much an arm's rewards weigh as wins and losses of coins: more, the quieter they are."""
        wins, losses, between = self.told(a)
        if min(wins, losses, between) <= 0:
            return wins, losses
        n = wins + losses
        coin = wins / n * losses / n
        noise = (4 * self.noise + max(n * coin - between, 0.0) / coin) / (4 + n - 1)
        noise = min(1.0, max(noise, 1e-6))
        return wins / noise, losses / noise

    def law_of(self, a: int) -> tuple[float, float]:
        if not self.expected:
            return self.prior
        (u, v), (more, less) = self.shapes[a], self.prior
        return max(1.0, more * u), max(1.0, less * v)

    def belief(self, a: int) -> Posterior:
        law = self.law_of(a)
        if self.learned:
            wins, losses = self.as_coins(a)
            return Posterior(0.0, law[0] + wins, law[1] + losses)
        return posterior(*self.told(a), law)

    def fit(self, t: int) -> None:
        """Find the usual noise, by arms seen twice, and the prior, which weighs 4 rewards at most, or 2 of coins."""
        own = coins = 0.0
        for a in range(self.K):
            wins, losses, between = self.told(a)
            if (n := wins + losses) > 1:
                own += max(wins * losses / n - between, 0.0)
                coins += wins * losses / n * (1 - 1 / n)
        if coins > 0:
            self.noise = min(1.0, max(own / coins, 1e-6))
        self.next_fit = t + 1 + t // 2
        if self.stated:
            return
        seen = [a for a in range(self.K) if self.counted(a) > 0]
        arms, shapes = [self.as_coins(a) for a in seen], [self.shapes[a] for a in seen]
        more, less = fitted_around(arms, shapes, self.prior, self.start)
        if not self.expected:
            most = 2 if self.noise == 1 else 4 / self.noise
            part = min(1.0, most / max(more + less - 2, 1e-9))
            more, less = 1 + part * (more - 1), 1 + part * (less - 1)
            if self.noise == 1:
                more, less = float(math.floor(more + 0.5)), float(math.floor(less + 0.5))
        self.prior = more, less

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
        if self.learned and t >= self.next_fit:
            self.fit(t)
        if self.luck.uniforms(t, self.K + 1, 1)[0] < 0.5:
            if self.M is None or t - self.made >= min((t + 1) / 64, 64):
                self.M, self.made = self.best(self.means()), t
                if self.reveal:
                    self.questions += 1
                    asleep = sorted(self.everybody - self.E)
                    values = self.set.maximise_each_including(self.means(), exclude=asleep)
                    self.g = [self.q(self.M) - v for v in values]
            return self.M
        row = np.uint64(word(int(self.luck.start), t))
        z0 = abs(normal(row, self.K))
        theta = []
        for a in range(self.K):
            n = self.counted(a)
            least_rho = min(0.5, max(self.rho, 1 / self.h**2))
            rho = max(least_rho, 1 / (1 + n))
            common = max(rho, self.rho) if self.noise < 1 and rho == least_rho else rho
            z = math.sqrt(common) * z0 + math.sqrt(1 - rho) * normal(row, a)
            least, wins, losses = self.belief(a)
            theta.append(least + (1 - least) * near_quantile(z, wins, losses) + self.base)
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
        targets = [a for a in sorted(self.reveals[h] & hidden) if self.g[a] < math.inf]
        share = max(0.0, 1 - max(self.g[h], 1e-9) / math.fsum(self.x[a] for a in targets))
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
        self.B = self.worst + self.factor * self.X if self.shadow else max(self.B, self.factor * min(F1, 4 * F2))
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
            self.A = max(0.0, r - v) if r <= self.B * SLACK - self.elsewhere() else min(self.A, r)
        if self.fits(v):
            self.A, self.R = self.A + v, self.R + 1
            for a in V:
                self.m[a] += 1
            return V
        self.forced += 1
        return self.force(t)

    def fits(self, v: float) -> bool:
        return v == 0 or self.elsewhere() + self.A + v <= self.B * SLACK

    def force(self, t: int) -> Arms:
        hopes = [self.hope(a) for a in range(self.K)]
        if not self.shadow:
            return self.best([up - 1e-7 * (1 - (up - low)) for up, low in zip(hopes, self.L, strict=True)])
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
        unit = {a: self.unit(reward) for a, reward in rewards.items()}
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
            means = [self.s[a] / self.n[a] for a in known]
            dev = [math.sqrt(max(0.0, self.noise * mean * (1 - mean))) for mean in means]
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
        if not np.allclose(book, [self.elsewhere() + self.A, self.B], rtol=1e-9, atol=1e-9):
            return f"an account of {book} instead of {self.elsewhere() + self.A, self.B}"
        return None
