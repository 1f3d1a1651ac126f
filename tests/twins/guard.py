"""A slow, obvious twin of `GuardedThompson`, written from its description: no kernels, no shortcuts."""

from __future__ import annotations

import math
from typing import Any

import numpy as np

from armtriage import FeedbackGraph
from twins import Schedule, Twin, reveals_of, sets_differ
from twins.elimination import bounds
from twins.sampling import Luck, Posterior, fitted, posterior

SLACK = 1e-9


class GuardedThompson(Twin):
    """Proposes by draws, shares looks, and admits what the account allows."""

    def __init__(
        self,
        graph: FeedbackGraph,
        budget: int,
        *,
        seed: int = 0,
        replication: int = 0,
        delta: float = 0.01,
        mode: str = "time",
        factor: float = 1.0,
        free_look: bool = True,
        reveal: bool = True,
        prior: str | tuple[float, float] = "learned",
        fractional: str = "exact",
    ) -> None:
        self.reveals = reveals_of(graph)
        self.schedule = Schedule(self.reveals)
        self.K, self.S = graph.n_arms, budget
        self.plain = all(len(shown) == 1 for shown in self.reveals)
        self.luck, self.delta, self.mode, self.factor = Luck(seed, replication), delta, mode, factor
        self.free_look, self.reveal = free_look, reveal and not self.plain
        arms = range(self.K)
        self.active, self.confirmed, self.eliminated = set(arms), set(), set()
        self.seen: list[list[float]] = [[] for _ in arms]
        self.sums, self.wins, self.between = [0.0 for _ in arms], [0.0 for _ in arms], [0.0 for _ in arms]
        self.coin, self.learned, self.next_fit = fractional == "coin", prior == "learned", 1
        self.prior = (1.0, 1.0) if isinstance(prior, str) else prior
        self.lower, self.upper, self.due = [0.0 for _ in arms], [1.0 for _ in arms], [1 for _ in arms]
        self.waiting_boxes: list[int] = []
        self.failures = 0
        self.log: list[tuple[int, int, bool]] = []
        self.clock = 0
        self.gap, self.spread = 1.0, 1.0
        self.layers, self.time, self.cover, self.covered, self.recount = -1, 0, 0, 0, 0
        self.spent = self.allowed = self.total = 0.0
        self.admitted, self.n_admitted = [0 for _ in arms], 0
        self.pulls = [0 for _ in arms]
        self.forced = self.second = self.revealed = self.waited = self.impatient = 0
        self.guide: dict[int, int] = {}
        self.waits: dict[int, list[int]] = {}
        self.price = [0.0 for _ in arms]
        self.draws = np.zeros(self.K)
        self.listed = graph.arrays.indices.size
        self.resume, self.rest, self.pause = 0, 0, self.K // (16 * budget)

    def count(self, a: int) -> int:
        return len(self.seen[a])

    def free(self) -> int:
        return self.S - len(self.confirmed)

    def losses(self, a: int) -> float:
        """Rewards that were no win; from the eighth lost in a row on, four lost ones count as one."""
        missed = self.schedule.missed[a]
        return self.count(a) - self.wins[a] + (missed // 4 if missed >= 8 else 0)

    def belief(self, a: int) -> Posterior:
        return posterior(self.wins[a], self.losses(a), self.between[a], self.prior, self.weak)

    @property
    def weak(self) -> bool:
        return self.learned and any(self.between)

    def posterior(self, a: int) -> float:
        return self.belief(a).mean

    def committed(self) -> bool:
        return len(self.active) == self.free()

    def select(self, t: int) -> list[int]:
        self.clock = t
        arms = sorted(self.confirmed | self.active if self.committed() else self.choose(t))
        self.schedule.play(t, arms)
        return arms

    def choose(self, t: int) -> list[int]:
        self.pay(t + 1)
        arms = self.propose(t)
        if self.reveal:
            arms = self.share_looks(t, arms)
        return self.admit(t, arms)

    def differs(self, policy: Any) -> str | None:
        spent, allowed, forced, factor, _ = policy.account
        if (policy.interval_failures, forced, factor) != (self.failures, self.forced, self.factor):
            return f"{policy.interval_failures} failures and {forced} forced rounds, not {self.failures, self.forced}"
        if not np.allclose([spent, allowed], [self.spent, self.allowed], rtol=1e-9):
            return f"an account of {spent, allowed} instead of {self.spent, self.allowed}"
        return sets_differ(policy, self.confirmed, self.active, self.eliminated)

    def greedy(self, waiting: set[int], most: int) -> list[int]:
        for c in self.confirmed:
            waiting = waiting - self.reveals[c]
        picks: list[int] = []
        while len(picks) < most and waiting:
            degrees = {a: len(self.reveals[a] & waiting) for a in waiting}
            picks.append(min(waiting, key=lambda a: (-degrees[a], -self.upper[a], a)))
            waiting = waiting - self.reveals[picks[-1]]
        return picks

    def pay(self, rounds: int) -> None:
        if self.time > rounds:
            return
        if self.plain:
            self.cover = len(self.active)
        elif len(self.active) != self.covered and rounds >= self.recount:
            self.recount = rounds + (self.K + self.listed) // (64 * self.S)
            self.cover, self.covered = max(1, len(self.greedy(set(self.active), self.K))), len(self.active)
        base = math.log(self.K / self.delta) + math.log(2)
        most = 8 * (base + math.log(rounds) / 2) / self.gap**2 if self.gap > 0 else math.inf
        if self.mode == "shadow":
            most = min(most, *map(self.count, self.active))
        while self.layers + 1 <= most and self.time <= rounds:
            self.layers += 1
            self.time += math.ceil(self.cover / self.free())
            n = self.layers
            price = min(1.0, 6 * math.sqrt((base + math.log(n) / 2) / (2 * n))) if n else 1.0
            if self.mode == "shadow":
                price = min(price, self.spread)
            self.allowed += self.factor * (self.cover + self.free() - 1) * price

    def incumbents(self) -> list[int]:
        best = sorted(self.active, key=lambda a: (-self.posterior(a), a))[: self.free()]
        return sorted(self.confirmed) + best

    def looked(self) -> set[int]:
        return set().union(*(self.reveals[a] for a in self.incumbents()))

    def propose(self, t: int) -> list[int]:
        share = 1.0
        if self.learned:
            if t >= self.next_fit:
                self.next_fit = t + 1 + t // 2
                self.prior = fitted(
                    [(self.wins[a], self.losses(a), self.between[a]) for a in range(self.K)], self.prior
                )
            if self.free_look:
                share = min(1.0, max(0.1, 3 * self.free() / (len(self.active) if self.plain else self.cover)))
        luck = self.luck.uniforms(t, 0, self.K)
        looked = self.looked() if self.free_look else set()
        value = {a: self.posterior(a) for a in self.active}
        for a in self.active - looked:
            # An arm that is not drawn has its mean, which is behind the incumbents.
            if luck[a] > 1 - share:
                value[a] = self.draws[a] = self.belief(a).draw((luck[a] - (1 - share)) / share)
        best = max((float(self.draws[a]) for a in self.active - looked if luck[a] > 1 - share), default=-1.0)
        if any(self.between) and self.free_look:
            for a in self.active.intersection(self.incumbents()):
                if value[a] < best:
                    value[a] = max(value[a], self.belief(a).draw(luck[a]))
        return sorted(self.confirmed) + sorted(self.active, key=lambda a: (-value[a], a))[: self.free()]

    def choose_guides(self, gap: list[float], incumbents: list[int], looked: set[int]) -> None:
        self.guide = {}
        sought = {a for a in self.active - looked if self.count(a) > 0}

        def worth(h: int) -> float:
            shown = self.reveals[h] & sought
            total = sum(gap[b] for b in shown)
            return total if len(shown) > 1 and total > 2 * gap[h] * (1 + SLACK) + SLACK else 0.0

        rank = {
            h: round(1e6 * math.log(worth(h) / max(gap[h], 1e-100)))
            for h in range(self.K)
            if h not in incumbents and self.count(h) > 0 and worth(h) > 0
        }
        for h in sorted(rank, key=lambda h: (-rank[h], h)):
            if worth(h) > 0:
                self.guide |= dict.fromkeys(self.reveals[h] & sought, h)
                sought -= self.reveals[h]

    def share_looks(self, t: int, arms: list[int]) -> list[int]:
        incumbents, looked = self.incumbents(), self.looked()
        outside = sorted(a for a in arms if a not in looked and a in self.active)
        if not outside:
            return arms
        least = min(map(self.posterior, incumbents))
        gap = [max(0.0, least - self.posterior(a)) for a in range(self.K)]
        if t >= self.resume:
            self.resume = t + 1 + self.K // (8 * self.S) + t // 16
            self.choose_guides(gap, incumbents, looked)
        chosen = [a for a in arms if a not in outside]
        for a in outside:
            self.price[a] = self.draws[a] - self.posterior(a)
        for a in outside:
            h = self.guide.get(a)
            if h in chosen:
                continue
            if h is not None:
                first = self.waits.get(a, [t])[0]
                late = len(self.waits.get(a, [])) == 8 or (a in self.waits and 16 * (t - first) >= t)
                if not late:
                    self.waits[a] = [*self.waits.get(a, []), t]
                wanted = self.waits.keys() & self.reveals[h] & self.active - looked
                if sum(self.price[b] for b in wanted) * (1 + SLACK) >= gap[h]:
                    self.waits = {b: looks for b, looks in self.waits.items() if b not in self.reveals[h]}
                    self.revealed += 1
                    a = h
                elif not late:
                    self.waited += 1
                    continue
                else:
                    self.impatient += 1
            if a not in chosen:
                chosen.append(a)
        best = [a for a in incumbents if a in self.active and a not in chosen]
        return chosen + best[: self.S - len(chosen)]

    def certificate(self, arms: list[int]) -> float:
        inside = sorted(arms, key=lambda a: (self.lower[a], a))
        outside = sorted((self.confirmed | self.active) - set(arms), key=lambda a: (-self.upper[a], a))
        amounts = (self.upper[a] - self.lower[b] for a, b in zip(outside, inside, strict=False))
        return sum(amount for amount in amounts if amount > 0)

    def retrospective(self, pulls: list[int], rounds: int) -> float:
        low = [m * lower for m, lower in zip(pulls, self.lower, strict=True)]
        gains = [(rounds - m) * u + lo for m, u, lo in zip(pulls, self.upper, low, strict=True)]
        return max(sum(sorted(gains)[self.K - self.S :]) - sum(low), 0.0)

    def admits(self, arms: list[int], cost: float) -> bool:
        pulls = [m + (a in arms) for a, m in enumerate(self.admitted)]
        spent = self.spent + cost
        if spent > self.allowed:
            spent = min(spent, self.retrospective(pulls, self.n_admitted + 1))
        if spent > self.allowed and cost > 0:
            return False
        if spent <= self.allowed:
            self.spent = spent
        self.admitted, self.n_admitted = pulls, self.n_admitted + 1
        return True

    def admit(self, t: int, arms: list[int]) -> list[int]:
        cost = self.certificate(arms)
        if not self.admits(arms, cost):
            hopeful = sorted(self.active, key=lambda a: (-self.upper[a], a))
            arms = sorted(self.confirmed) + hopeful[: self.free()]
            cost = self.certificate(arms)
            self.second += 1
            if not self.admits(arms, cost):
                arms = self.eliminate()
                cost = self.certificate(arms)
                self.forced += 1
        self.total += cost
        for a in arms:
            self.pulls[a] += 1
        if (t + 1) % 64 == 0:
            self.total = min(self.total, self.retrospective(self.pulls, t + 1))
        return arms

    def eliminate(self) -> list[int]:
        if self.waiting_boxes:
            self.sort()
        if self.committed():
            return sorted(self.confirmed | self.active)
        picks = self.greedy(self.schedule.behind(self.active), self.free())
        mean = {a: self.sums[a] / self.count(a) if self.count(a) else 0.0 for a in self.active}
        fill = sorted(self.active - set(picks), key=lambda a: (-mean[a], a))
        return sorted(self.confirmed) + picks + fill[: self.free() - len(picks)]

    def update(self, t: int, rewards: dict[int, float]) -> None:
        coins = self.luck.coins(t, self.K)
        for a, reward in rewards.items():
            self.seen[a].append(reward)
            self.sums[a] += reward
            if self.coin and reward not in (0, 1):
                reward = float(coins[a] < reward)
            self.wins[a] += reward
            self.between[a] += reward * (1 - reward)
            often = self.count(a) % 4 == 0 or self.count(a) >= 128
            if self.count(a) >= self.due[a] and often and a not in self.waiting_boxes:
                self.waiting_boxes.append(a)
        self.schedule.take(t, rewards)
        if self.committed():
            self.compute_boxes()
        elif self.clock >= self.rest and 32 * len(self.waiting_boxes) >= len(self.active):
            self.sort()
        self.schedule.lose(t, rewards)

    def compute_boxes(self) -> None:
        for a in self.waiting_boxes:
            self.due[a] = self.count(a) + 1 + self.count(a) // 32
            lower, upper = bounds("mixture", self.seen[a], self.sums[a], self.K, None, self.delta)
            if max(lower, self.lower[a]) <= min(upper, self.upper[a]):
                lower, upper = max(lower, self.lower[a]), min(upper, self.upper[a])
            else:
                self.failures += 1
            self.lower[a], self.upper[a] = lower, upper
        self.waiting_boxes = []

    def sort(self) -> None:
        self.rest = self.clock + self.pause
        self.compute_boxes()
        while not self.committed():
            k = self.free()
            lowers = sorted((self.lower[a] for a in self.active), reverse=True)
            uppers = sorted((self.upper[a] for a in self.active), reverse=True)
            confirm = [a for a in self.active if self.lower[a] > uppers[k]]
            eliminate = [a for a in self.active if self.upper[a] < lowers[k - 1] and a not in confirm]
            if not confirm and not eliminate:
                self.gap = max(0.0, min(self.gap, uppers[k - 1] - lowers[k]))
                self.spread = uppers[0] - lowers[-1]
                break
            self.confirmed |= set(confirm)
            self.eliminated |= set(eliminate)
            self.active -= set(confirm) | set(eliminate)
            self.log += [(a, self.clock + 1, a in confirm) for a in sorted(confirm + eliminate)]
