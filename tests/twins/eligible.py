"""Slow, obvious twins of policies whose requests differ: everything is computed anew from a row of facts for each arm.

They are asked with the eligible arms, and are told in the words of `Crowd`: what a decision shows, what is taught while
it is open, and what it is closed with. Written from the description in `docs/arms-that-come-and-go.md`.
"""

from __future__ import annotations

import math
from collections.abc import Callable
from dataclasses import dataclass, field
from typing import Any

import numpy as np

from armtriage import FeedbackGraph
from armtriage.policies.slate import SlatePolicy
from twins import reveals_of
from twins.elimination import bounds
from twins.index import kl_index
from twins.sampling import Luck, Posterior, fitted, posterior


@dataclass
class Row:
    """What is known of an arm."""

    divisor: float
    rewards: list[float] = field(default_factory=list)  # of decisions that are closed
    total: float = 0.0
    learned: int = 0
    gained: float = 0.0
    wins: float = 0.0
    told_between: float = 0.0
    unheard: float = 0.0  # least rewards that open decisions count for, see `twins.delays`
    pending: int = 0
    missed: int = 0
    credit: int = 0
    lower: float = 0.0
    upper: float = 1.0
    due: int = 1
    pulls: int = 0
    exposures: int = 0
    admitted: int = 0
    offered: int = 0

    @property
    def count(self) -> int:
        return len(self.rewards)

    @property
    def tries(self) -> int:
        return self.count + self.credit + self.pending

    @property
    def lost_as_least(self) -> int:
        """From the eighth in a row on, every four lost rewards count as a least one."""
        return self.missed // 4 if self.missed >= 8 else 0

    @property
    def losses(self) -> float:
        return self.learned - self.wins + self.lost_as_least + self.unheard

    def posterior(self, prior: tuple[float, float], weak: bool = False) -> Posterior:
        return posterior(self.wins, self.losses, self.told_between, prior, weak)


class Crowd:
    """Rows of arms, with intervals if `interval` is given; subclasses say what is chosen."""

    interval: str | None = None
    learns_at_once = True

    def __init__(
        self,
        graph: FeedbackGraph,
        budget: int,
        *,
        seed: int,
        delta: float = 0.01,
        interval: str | None = None,
        horizon: int | None = None,
        sleepers_seen: bool = False,
        prior: str | tuple[float, float] = "uniform",
        fractional: str = "exact",
    ) -> None:
        self.learned, self.coin, self.next_fit = prior == "learned", fractional == "coin", 1
        self.fractional = False
        self.prior = (1.0, 1.0) if isinstance(prior, str) else prior
        self.first, self.S, self.luck, self.delta, self.horizon = graph.n_arms, budget, Luck(seed, 0), delta, horizon
        self.interval = interval or self.interval
        self.sleepers_seen, self.extra, self.failures = sleepers_seen, 0, 0
        self.rows = [Row(float(graph.n_arms)) for _ in range(graph.n_arms)]
        self.ghosts: list[Row] = []
        self.look_at(graph)

    def look_at(self, graph: FeedbackGraph) -> None:
        self.reveals = reveals_of(graph)
        self.plain = all(len(shown) == 1 for shown in self.reveals)

    def divisor(self) -> float:
        """1 / share of delta of the next arm that was not there at first: blocks of K0, 2 K0, 4 K0, ... arms."""
        block, before = 0, 0
        while self.extra >= before + self.first * 2**block:
            before += self.first * 2**block
            block += 1
        self.extra += 1
        return (block + 1) * (block + 2) * self.first * 2.0**block

    def add(self, count: int, graph: FeedbackGraph) -> None:
        self.rows += [Row(self.divisor()) for _ in range(count)]
        self.look_at(graph)

    def forget(self, arm: int) -> None:
        self.ghosts.append(self.rows[arm])
        self.rows[arm] = Row(self.divisor())

    def ask(self, number: int, among: list[int], live: list[int]) -> list[int]:
        return sorted(among if len(among) <= self.S else self.choose(number, among, live))

    def choose(self, number: int, among: list[int], live: list[int]) -> list[int]:
        raise NotImplementedError

    def shown(self, arms: list[int], among: list[int], live: list[int]) -> list[int]:
        seen = set().union(*(self.reveals[a] for a in arms))
        return sorted(seen & set(live if self.sleepers_seen else among))

    def count(self, among: list[int], arms: list[int], shown: list[int]) -> None:
        for a in among:
            self.rows[a].exposures += 1
        for a in arms:
            self.rows[a].pulls += 1
        for a in shown:
            self.rows[a].pending += 1

    def teach(self, number: int, rewards: dict[int, float]) -> None:
        self.learn(number, rewards)

    def weigh(self, unheard: dict[int, float]) -> None:
        for a, row in enumerate(self.rows):
            row.unheard = unheard.get(a, 0.0)

    def learn(self, number: int, rewards: dict[int, float]) -> None:
        for a, reward in rewards.items():
            row, coin = self.rows[a], float(self.luck.uniforms(number, -1 - a, 1)[0])
            row.learned += 1
            row.gained += reward
            counted = float(coin < reward) if self.coin and reward not in (0, 1) else reward
            row.wins += counted
            row.told_between += counted * (1 - counted)
            self.fractional = self.fractional or counted not in (0, 1)
            row.missed = 0

    def close(self, number: int, rewards: dict[int, float], taught: set[int], missing: list[int]) -> None:
        known = taught if self.learns_at_once else set()
        self.learn(number, {a: reward for a, reward in rewards.items() if a not in known})
        for a, reward in rewards.items():
            row = self.rows[a]
            row.rewards.append(reward)
            row.total += reward
            row.pending -= 1
            if self.interval is not None and row.count >= row.due and (row.count >= 128 or row.count % 4 == 0):
                row.due = row.count + 1 + row.count // 32
                self.renew(row)
        for a in missing:
            row = self.rows[a]
            row.pending -= 1
            row.missed += 1
            row.credit += 1 + (row.missed - 8) // 2 if row.missed >= 8 else 0

    def renew(self, row: Row) -> None:
        assert self.interval is not None
        share: Any = row.divisor
        lower, upper = bounds(self.interval, row.rewards, row.total, share, self.horizon, self.delta)
        if max(lower, row.lower) <= min(upper, row.upper):
            lower, upper = max(lower, row.lower), min(upper, row.upper)
        else:
            self.failures += 1
        row.lower, row.upper = lower, upper

    def best(self, arms: Any, value: Callable[[int], float], k: int) -> list[int]:
        """The k arms of largest value, smaller numbers first."""
        return sorted(arms, key=lambda a: (-value(a), a))[:k]

    @property
    def weak(self) -> bool:
        return self.learned and self.fractional

    def draw(self, number: int, a: int) -> float:
        row = self.rows[a]
        return row.posterior(self.prior, self.weak).draw(float(self.luck.uniforms(number, a, 1)[0]))

    def differs(self, policy: Any) -> str | None:
        if isinstance(policy, SlatePolicy):
            return self.knows_less(policy)
        held = policy._crowd.rows
        exact = (
            "learned",
            "gained",
            "wins",
            "told_between",
            "unheard",
            "pending",
            "missed",
            "credit",
            "pulls",
            "exposures",
        )
        close = ("lower", "upper", "divisors") if self.interval is not None else ("divisors",)
        for a, row in enumerate(self.rows):
            if (held.counts[a], held.sums[a]) != (row.count, row.total):
                return f"{held.counts[a], held.sums[a]} instead of {row.count, row.total} for arm {a}"
            for name in exact:
                if getattr(held, name)[a] != getattr(row, name):
                    return f"{name} {getattr(held, name)[a]} instead of {getattr(row, name)} for arm {a}"
            for name in close:
                mine = getattr(row, name.removesuffix("s"))
                if abs(getattr(held, name)[a] - mine) > 1e-9 * max(1.0, mine):
                    return f"{name} {getattr(held, name)[a]} instead of {mine} for arm {a}"
        return None if held.failures == self.failures else "other failures"

    def knows_less(self, policy: SlatePolicy) -> str | None:
        """What the evidence of a policy has that the rows have not."""
        held, tally, exposures = policy._evidence, policy.tally, policy._evidence.exposures + policy._evidence.rounds
        divisors = policy._roster.divisors()
        for a, row in enumerate(self.rows):
            facts = {
                "settled": (tally.counts[a], tally.sums[a], row.count, row.total),
                "told": (held.counts[a], held.sums[a], row.learned, row.gained),
                "draws": (held.wins[a], held.doubts[a], row.wins, row.told_between),
                "lost": (held.missed[a], held.credit[a], row.missed, row.credit),
                "open": (held.pending[a], held.unheard[a], row.pending, row.unheard),
                "played": (tally.pulls[a], exposures[a], row.pulls, row.exposures),
            }
            for name, (one, two, mine, own) in facts.items():
                if (one, two) != (mine, own):
                    return f"{name} {one, two} instead of {mine, own} for arm {a}"
            if abs(divisors[a] - row.divisor) > 1e-9 * row.divisor:
                return f"divisor {divisors[a]} instead of {row.divisor} for arm {a}"
        return None


class Index(Crowd):
    """The largest indices; arms never seen first, those first that were asked least."""

    def __init__(self, *given: Any, index: Callable[[int, float, float, float], float], **options: Any) -> None:
        super().__init__(*given, **options)
        self.index = index

    def choose(self, number: int, among: list[int], live: list[int]) -> list[int]:
        def rank(a: int) -> tuple[float, float, int]:
            row = self.rows[a]
            if row.learned + row.unheard == 0 and row.missed < 8:
                return 0, row.pending, a
            count = row.learned + row.lost_as_least + row.unheard
            return 1, -self.index(number, row.gained / count, count, row.told_between), a

        return sorted(among, key=rank)[: self.S]


def comb_ucb1(number: int, mean: float, count: float, between: float) -> float:
    return mean + math.sqrt(1.5 * math.log(number + 1)) / math.sqrt(count)


def greedy(number: int, mean: float, count: float, between: float) -> float:
    return mean


def kl_ucb(number: int, mean: float, count: float, between: float) -> float:
    return kl_index(mean, count, between, math.log(number + 1))


class Thompson(Crowd):
    """The largest draws."""

    def choose(self, number: int, among: list[int], live: list[int]) -> list[int]:
        return self.best(among, lambda a: self.draw(number, a), self.S)


class Random(Crowd):
    """The most luck; of all arms, the first steps of a Fisher-Yates shuffle of an order that persists."""

    learns_at_once = False
    order: tuple[int, ...] = ()

    def choose(self, number: int, among: list[int], live: list[int]) -> list[int]:
        if len(among) == len(self.rows):
            order = [*self.order, *range(len(self.order), len(self.rows))]
            for i, u in enumerate(self.luck.uniforms(number, 0, self.S).tolist()):
                j = i + int(u * (len(order) - i))
                order[i], order[j] = order[j], order[i]
            self.order = tuple(order)
            return order[: self.S]
        return self.best(among, lambda a: float(self.luck.uniforms(number, a, 1)[0]), self.S)


class Elimination(Crowd):
    """Confirmed arms, a greedy cover of the open ones that were tried least, then the largest upper ends."""

    interval = "mixture"
    learns_at_once = False
    decided = 0  # confirmed and eliminated arms in all rounds

    def triage(self, among: list[int]) -> tuple[list[int], list[int]]:
        lowers = sorted((self.rows[a].lower for a in among), reverse=True)
        uppers = sorted((self.rows[a].upper for a in among), reverse=True)
        confirmed = [a for a in among if self.rows[a].lower > uppers[self.S]]
        outside = [a for a in among if self.rows[a].upper < lowers[self.S - 1]]
        self.note_gap(uppers[self.S - 1] - lowers[self.S])
        self.decided += len(confirmed) + len(outside)
        return confirmed, [a for a in among if a not in confirmed and a not in outside]

    def note_gap(self, gap: float) -> None:
        pass

    def upper(self, a: int) -> float:
        return self.rows[a].upper

    def explore(self, confirmed: list[int], open_arms: list[int]) -> list[int]:
        k, least = self.S - len(confirmed), min(self.rows[a].tries for a in open_arms)
        behind = {a for a in open_arms if self.rows[a].tries == least}
        waiting = behind.difference(*(self.reveals[c] for c in confirmed)) if not self.plain else set(behind)
        picks = [] if waiting else self.best(behind, self.upper, 1)
        while waiting and len(picks) < k:
            now = set(waiting)
            picks.append(min(now, key=lambda a: (-len(self.reveals[a] & now), -self.upper(a), a)))
            waiting -= self.reveals[picks[-1]]
        fill = self.best(set(open_arms) - set(picks), self.upper, k - len(picks))
        return confirmed + picks + fill

    def choose(self, number: int, among: list[int], live: list[int]) -> list[int]:
        confirmed, open_arms = self.triage(among)
        if len(confirmed) + len(open_arms) == self.S:
            return confirmed + open_arms
        return self.explore(confirmed, open_arms)


class Guarded(Elimination):
    """Admits what a proposer wants while its budget lasts: Thompson sampling with free looks, or whoever is given."""

    def __init__(
        self,
        *given: Any,
        mode: str = "time",
        factor: float = 1.0,
        free_look: bool = True,
        proposer: Crowd | Callable[..., Any] | None = None,
        **options: Any,
    ) -> None:
        super().__init__(*given, **options)
        self.mode, self.factor, self.free_look, self.proposer = mode, factor, free_look, proposer
        self.learns_at_once = proposer.learns_at_once if isinstance(proposer, Crowd) else proposer is None
        self.gap, self.spent, self.allowed, self.total, self.forced_cost = 1.0, 0.0, 0.0, 0.0, 0.0
        self.forced = self.resume = self.slots = self.offered_slots = 0
        self.patterns: set[tuple[int, ...]] = set()
        self.covered: list[int] = []
        self.cover = 0
        self.largest = float(self.first)

    def note_gap(self, gap: float) -> None:
        self.gap = max(0.0, min(self.gap, gap))

    def divisor(self) -> float:
        self.largest = max(self.largest, found := super().divisor())
        return found

    def count(self, among: list[int], arms: list[int], shown: list[int]) -> None:
        super().count(among, arms, shown)
        self.slots += len(arms)

    def measure(self, live: list[int]) -> None:
        """The greedy cover of all arms by degree, smaller arms first, if sleepers are seen; else their number."""
        if self.covered == live:
            return
        self.covered, self.cover = live, len(live)
        if self.sleepers_seen and not self.plain:
            waiting, self.cover = set(live), 0
            while waiting:
                now = set(waiting)
                waiting -= self.reveals[min(now, key=lambda a: (-len(self.reveals[a] & now), a))]
                self.cover += 1

    def pay(self, number: int) -> None:
        if self.mode == "shadow":
            self.allowed = self.factor * self.forced_cost + self.S
            return
        base = math.log(self.largest / self.delta) + math.log(2)
        pulls = self.cover + min(len(self.patterns), self.cover) * (self.S - 1)
        most = min(
            self.S * (number + 1) // pulls,
            8 * (base + math.log(number + 1) / 2) / self.gap**2 if self.gap > 0 else math.inf,
        )
        paid, n = 0.0, 0
        while n <= most:
            paid += min(1.0, 6 * math.sqrt((base + math.log(n) / 2) / (2 * n))) if n else 1.0
            n += 1
        self.allowed = max(self.allowed, self.factor * pulls * paid)

    def certificate(self, among: list[int], arms: list[int]) -> float:
        inside = sorted(self.rows[a].lower for a in arms)
        outside = sorted((self.rows[a].upper for a in among if a not in arms), reverse=True)
        return sum(max(0.0, high - low) for high, low in zip(outside, inside, strict=False))

    def retrospective(self, known: list[tuple[Row, int, int]], slots: int) -> float:
        """What `slots` pulls could have been at best, each arm at most as often as it was there, less what was sure."""
        slopes = [(((e - m) * r.upper + m * r.lower) / e, e) for r, m, e in known if e > 0]
        best, left = 0.0, slots
        for slope, e in sorted(slopes, reverse=True):
            best += min(left, e) * slope
            left -= min(left, e)
        return max(0.0, best - sum(m * r.lower for r, m, e in known if e > 0))

    def admits(self, number: int, among: list[int], arms: list[int], cost: float) -> bool:
        spent = self.spent + cost
        if spent > self.allowed and cost > 0 and number < self.resume:
            return False
        self.offer(among, arms, 1)
        if spent > self.allowed:
            known = [(row, row.admitted, row.offered) for row in (*self.rows, *self.ghosts)]
            spent = min(spent, self.retrospective(known, self.offered_slots))
        if spent <= self.allowed:
            self.spent = spent
        elif cost > 0:
            self.offer(among, arms, -1)
            self.resume = number + 1 + len(self.rows) // 64
            return False
        return True

    def offer(self, among: list[int], arms: list[int], sign: int) -> None:
        for a in among:
            self.rows[a].offered += sign
        for a in arms:
            self.rows[a].admitted += sign
        self.offered_slots += sign * len(arms)

    def book(self, number: int, among: list[int], arms: list[int], cost: float) -> list[int]:
        self.total += cost
        if (number + 1) % (64 + len(self.rows) // 64) == 0:
            known = [(r, r.pulls + (a in arms), r.exposures + (a in among)) for a, r in enumerate(self.rows)]
            known += [(row, row.pulls, row.exposures) for row in self.ghosts]
            self.total = min(self.total, self.retrospective(known, self.slots + len(arms)))
        return arms

    def propose(self, number: int, confirmed: list[int], open_arms: list[int]) -> list[int]:
        k, looked, share, incumbents = self.S - len(confirmed), set[int](), 1.0, list[int]()
        if self.learned and number >= self.next_fit:
            self.next_fit = number + 1 + number // 2
            self.prior = fitted([(row.wins, row.losses, row.told_between) for row in self.rows], self.prior)
        values = {a: self.rows[a].posterior(self.prior, self.weak).mean for a in open_arms}
        if self.free_look:
            incumbents = self.best(open_arms, lambda a: values[a], k)
            looked = looked.union(*(self.reveals[a] for a in confirmed + incumbents))
            if self.learned:
                share = min(1.0, max(0.1, 3 * k / (len(open_arms) if self.plain else min(len(open_arms), self.cover))))
        best = -1.0
        for a in set(open_arms) - looked:
            u = float(self.luck.uniforms(number, a, 1)[0])
            if u > 1 - share:
                values[a] = self.rows[a].posterior(self.prior, self.weak).draw((u - (1 - share)) / share)
                best = max(best, values[a])
        for a in incumbents:
            if self.fractional and values[a] < best:
                values[a] = max(values[a], self.draw(number, a))
        return confirmed + self.best(open_arms, lambda a: values[a], k)

    def choose(self, number: int, among: list[int], live: list[int]) -> list[int]:
        self.measure(live)
        self.patterns.add(tuple(among))
        if isinstance(self.proposer, Crowd):
            wanted = self.proposer.ask(number, among, live)
        elif self.proposer is not None:
            wanted = sorted(np.asarray(self.proposer(number, eligible=np.array(among))).tolist())
        confirmed, open_arms = self.triage(among)
        if len(confirmed) + len(open_arms) == self.S:
            return self.book(number, among, confirmed + open_arms, 0.0)
        self.pay(number)
        arms = self.propose(number, confirmed, open_arms) if self.proposer is None else wanted
        cost = self.certificate(among, arms)
        if not self.admits(number, among, arms, cost):
            arms = confirmed + self.best(open_arms, self.upper, self.S - len(confirmed))
            cost = self.certificate(among, arms)
            if not self.admits(number, among, arms, cost):
                arms = self.explore(confirmed, open_arms)
                cost = self.certificate(among, arms)
                self.forced += 1
                self.forced_cost += cost
        return self.book(number, among, arms, cost)

    def differs(self, policy: Any) -> str | None:
        held = policy._crowd.rows
        for name in ("forced", "spent", "allowed", "total", "forced_cost", "gap", "offered_slots"):
            mine, theirs = getattr(self, name), getattr(held, name)
            if abs(theirs - mine) > 1e-7 * max(1.0, abs(mine)):
                return f"{name} {theirs} instead of {mine}"
        return super().differs(policy)


class GuardedPolicy(Guarded):
    """A guard around the twin of a policy, which sees and learns the same."""

    proposer: Crowd

    def add(self, count: int, graph: FeedbackGraph) -> None:
        self.proposer.add(count, graph)
        super().add(count, graph)

    def forget(self, arm: int) -> None:
        self.proposer.forget(arm)
        super().forget(arm)

    def count(self, among: list[int], arms: list[int], shown: list[int]) -> None:
        self.proposer.count(among, arms, shown)
        super().count(among, arms, shown)

    def close(self, number: int, rewards: dict[int, float], taught: set[int], missing: list[int]) -> None:
        self.proposer.close(number, rewards, taught, missing)
        super().close(number, rewards, taught, missing)

    def weigh(self, unheard: dict[int, float]) -> None:
        self.proposer.weigh(unheard)
        super().weigh(unheard)

    def teach(self, number: int, rewards: dict[int, float]) -> None:
        self.proposer.teach(number, rewards)
        super().teach(number, rewards)
