"""A slow, obvious twin of `GuardedThompson`, written from its description: no kernels, no shortcuts."""

from __future__ import annotations

import math

import numpy as np
from scipy.special import betaincinv

from armtriage import FeedbackGraph
from reference import Luck, bounds

SLACK = 1e-9


class GuardedThompson:
    """``select(t)`` returns the sorted arms of round t; ``update(t, {arm: reward})`` learns."""

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
    ) -> None:
        matrix = graph.to_sparse().toarray()
        self.reveals = [frozenset(np.flatnonzero(row).tolist()) for row in matrix]
        self.K, self.S = graph.n_arms, budget
        self.plain = all(len(shown) == 1 for shown in self.reveals)
        self.luck, self.delta, self.mode, self.factor = Luck(seed, replication), delta, mode, factor
        self.free_look, self.reveal = free_look, reveal and not self.plain
        arms = range(self.K)
        self.active, self.confirmed, self.eliminated = set(arms), set(), set()
        self.seen: list[list[float]] = [[] for _ in arms]
        self.sums, self.wins = [0.0 for _ in arms], [0 for _ in arms]
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
        self.forced = self.second = self.revealed = 0
        self.bill, self.since, self.next = [0.0 for _ in arms], 0.0, 0.0
        self.listed = graph.arrays.indices.size
        self.resume, self.pause = 0, (self.K + self.listed) // (256 * budget)

    def count(self, a: int) -> int:
        return len(self.seen[a])

    def free(self) -> int:
        return self.S - len(self.confirmed)

    def posterior(self, a: int) -> float:
        return (self.wins[a] + 1) / (self.count(a) + 2)

    def committed(self) -> bool:
        return len(self.active) == self.free()

    # --- Deciding ---
    def select(self, t: int) -> list[int]:
        self.clock = t
        if self.committed():
            return sorted(self.confirmed | self.active)
        self.pay(t + 1)
        arms = self.propose(t)
        if self.reveal:
            arms = self.reveal_instead(t, arms)
        return sorted(self.admit(t, arms))

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
        if self.mode == "time":
            most = 8 * (base + math.log(rounds) / 2) / self.gap**2 if self.gap > 0 else math.inf
        else:
            most = min(map(self.count, self.active))
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
        wins, counts = np.array(self.wins), np.array([len(one) for one in self.seen])
        draws = betaincinv(1 + wins, 1 + counts - wins, self.luck.uniforms(t, 0, self.K))
        looked = self.looked() if self.free_look else set()
        value = {a: self.posterior(a) if a in looked else float(draws[a]) for a in self.active}
        return sorted(self.confirmed) + sorted(self.active, key=lambda a: (-value[a], a))[: self.free()]

    def reveal_instead(self, t: int, arms: list[int]) -> list[int]:
        incumbents, looked = self.incumbents(), self.looked()
        least = min(map(self.posterior, incumbents))
        gap = [max(0.0, least - self.posterior(a)) for a in range(self.K)]
        direct = [a for a in arms if a not in looked and a in self.active]
        for a in direct:
            self.bill[a] += gap[a]
            self.since += gap[a]
        if not direct or self.since * (1 + SLACK) < self.next or t < self.resume:
            return arms
        self.resume = t + self.pause
        sought = {a for a in self.active - looked if self.count(a) > 0}
        total = sum(self.bill)
        lacks, due = math.inf, {}

        def is_worth_it(h: int) -> bool:
            shown = self.reveals[h] & sought
            return len(shown) > 1 and sum(gap[b] for b in shown) > 2 * gap[h] * (1 + SLACK) + SLACK

        def billed(h: int) -> float:
            return sum(self.bill[b] for b in self.reveals[h])

        def is_due(h: int) -> bool:
            return billed(h) * (1 + SLACK) >= gap[h] and billed(h) > SLACK * total

        for h in range(self.K):
            if h in incumbents or self.count(h) == 0 or not is_worth_it(h):
                continue
            if is_due(h):
                worth = sum(gap[b] for b in self.reveals[h] & sought)
                due[h] = round(1e6 * math.log(worth / max(gap[h], 1e-100)))
            else:
                lacks = min(lacks, gap[h] - billed(h))
        picks: list[int] = []
        for h in sorted(due, key=lambda h: (-due[h], h))[: 8 * self.free()]:
            if len(picks) < self.free() and is_worth_it(h) and is_due(h):
                picks.append(h)
                factor = max(0.0, 1 - gap[h] / billed(h))
                for b in self.reveals[h]:
                    self.bill[b] *= factor
                sought -= self.reveals[h]
        self.since, self.next = 0.0, max(sum(self.bill) / 32, lacks if lacks < math.inf else 0.0)
        if not picks:
            return arms
        self.revealed += len(picks)
        kept = sorted(self.confirmed) + picks
        best = [a for a in incumbents if a in self.active]
        return kept + best[: self.S - len(kept)]

    # --- The guard ---
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
        least = min(map(self.count, self.active))
        picks = self.greedy({a for a in self.active if self.count(a) == least}, self.free())
        mean = {a: self.sums[a] / self.count(a) if self.count(a) else 0.0 for a in self.active}
        fill = sorted(self.active - set(picks), key=lambda a: (-mean[a], a))
        return sorted(self.confirmed) + picks + fill[: self.free() - len(picks)]

    # --- Learning ---
    def update(self, t: int, rewards: dict[int, float]) -> None:
        coins = self.luck.uniforms(t, self.K, self.K)
        for a, reward in rewards.items():
            self.seen[a].append(reward)
            self.sums[a] += reward
            self.wins[a] += bool(reward == 1 if reward in (0, 1) else coins[a] < reward)
            if self.count(a) >= self.due[a] and a not in self.waiting_boxes:
                self.waiting_boxes.append(a)
        if not self.committed() and 32 * len(self.waiting_boxes) >= len(self.active):
            self.sort()

    def sort(self) -> None:
        for a in self.waiting_boxes:
            self.due[a] = self.count(a) + 1 + self.count(a) // 32
            lower, upper = bounds("mixture", self.seen[a], self.sums[a], self.K, None, self.delta)
            if max(lower, self.lower[a]) <= min(upper, self.upper[a]):
                lower, upper = max(lower, self.lower[a]), min(upper, self.upper[a])
            else:
                self.failures += 1
            self.lower[a], self.upper[a] = lower, upper
        self.waiting_boxes = []
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
