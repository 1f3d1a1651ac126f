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

from armtriage import DecisionSet, FeedbackGraph, TopS
from armtriage.policies.slate import SlatePolicy
from twins import Twin, elimination, reveals_of
from twins.elimination import bounds
from twins.index import kl_bounds, kl_index
from twins.sampling import Luck, Posterior, beta, bits, fitted, posterior, word

SLACK = 1e-9


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
        replication: int = 0,
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
        self.first, self.S, self.luck, self.delta = graph.n_arms, budget, Luck(seed, replication), delta
        self.horizon = horizon
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
            row, coin = self.rows[a], self.luck.uniform(number, -1 - a)
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
            if self.interval is not None and self.is_due(row):
                row.due = row.count + 1 + row.count // 32
                self.renew(row)
        for a in missing:
            row = self.rows[a]
            row.pending -= 1
            row.missed += 1
            row.credit += 1 + (row.missed - 8) // 2 if row.missed >= 8 else 0

    def is_due(self, row: Row) -> bool:
        """Whether an interval is computed again: for few rewards, only for every fourth."""
        return row.count >= row.due and (row.count >= 128 or row.count % 4 == 0)

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
        return row.posterior(self.prior, self.weak).draw(self.luck.uniform(number, a))

    def differs(self, policy: SlatePolicy) -> str | None:
        """What the evidence of a policy has that the rows have not."""
        held, tally, n = policy._evidence, policy.tally, len(self.rows)
        exact = {
            "count": tally.counts, "total": tally.sums, "learned": held.counts, "gained": held.sums,
            "wins": held.wins, "told_between": held.doubts, "missed": held.missed, "credit": held.credit,
            "pending": held.pending, "unheard": held.unheard, "pulls": tally.pulls,
            "exposures": held.exposures + held.rounds,
        }  # fmt: skip
        close = [("divisor", policy._roster.divisors())]
        if self.interval is not None:
            close += [("divisor", held.divisors), ("lower", held.lower), ("upper", held.upper)]
        for name, theirs in [*exact.items(), *close]:
            mine = np.array([getattr(row, name) for row in self.rows])
            allowed = 0.0 if name in exact else 1e-9 * np.maximum(1.0, mine)
            apart = ~(np.abs(theirs[:n] - mine) <= allowed)
            if apart.any():
                a = int(apart.argmax())
                return f"{name} {theirs[a]} instead of {mine[a]} for arm {a}"
        return None if policy.interval_failures == self.failures else "other failures"


class Index(Crowd):
    """The largest indices; arms never seen first, those first that were asked least."""

    def __init__(self, *given: Any, index: Callable[[int, float, float, float], float], **options: Any) -> None:
        super().__init__(*given, **options)
        self.index = index

    def value(self, number: int, a: int) -> float | None:
        """The index of an arm that was seen."""
        row = self.rows[a]
        if row.learned + row.unheard == 0 and row.missed < 8:
            return None
        count = row.learned + row.lost_as_least + row.unheard
        return self.index(number, row.gained / count, count, row.told_between)

    def choose(self, number: int, among: list[int], live: list[int]) -> list[int]:
        def rank(a: int) -> tuple[float, float, int]:
            value = self.value(number, a)
            return (0, self.rows[a].pending, a) if value is None else (1, -value, a)

        return sorted(among, key=rank)[: self.S]

    def weights(self, number: int, size: int) -> np.ndarray:
        """Indices for sums of up to `size`: of those without a reward, some that no sum of others reaches."""
        values = [self.value(number, a) for a in range(len(self.rows))]
        unit = 2 * size * (1 + max(abs(value or 0.0) for value in values))

        def lifted(row: Row) -> float:
            return unit * (1 + 1 / row.pending) if row.pending else unit * 4 * size

        return np.array([lifted(r) if v is None else v for v, r in zip(values, self.rows, strict=True)])


def comb_ucb1(number: int, mean: float, count: float, between: float, exploration: float = 1.5) -> float:
    return mean + math.sqrt(exploration * math.log(number + 1)) * (1.0 / math.sqrt(count))


def greedy(number: int, mean: float, count: float, between: float) -> float:
    return mean


def kl_ucb(number: int, mean: float, count: float, between: float, log_log: float = 0.0) -> float:
    bonus = math.log(number + 1)
    bonus = max(0.0, bonus + log_log * math.log(bonus)) if number >= 1 else 0.0
    return kl_index(mean, count, between, bonus)


def of_width(width: float, number: int, mean: float, count: float, between: float) -> float:
    return mean + width * (1.0 / math.sqrt(count))


class Thompson(Crowd):
    """The largest draws."""

    def choose(self, number: int, among: list[int], live: list[int]) -> list[int]:
        return self.best(among, lambda a: self.draw(number, a), self.S)

    def weights(self, number: int, size: int) -> np.ndarray:
        return np.array([self.draw(number, a) for a in range(len(self.rows))])

    def draws(self, number: int, size: int) -> np.ndarray:
        """Draw by two Gamma numbers for each arm, as over a decision set."""
        laws = [row.posterior(self.prior, self.weak) for row in self.rows]
        starts = bits(np.uint64(word(int(self.luck.start), number)), np.arange(len(laws)))
        return np.array([one.least + (1 - one.least) * beta(s, one) for s, one in zip(starts, laws, strict=True)])


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
        return self.best(among, lambda a: self.luck.uniform(number, a), self.S)


class Sorted(Crowd):
    """Arms that intervals sort: those that certainly belong to the best candidates, and those that may."""

    interval = "mixture"
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
        """Confirmed arms, a greedy cover of the open ones that were tried least, then the largest upper ends."""
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


class Elimination(Sorted):
    """Among some arms a round by their intervals; among all, Algorithm 1 with sets that change layer by layer."""

    learns_at_once = False

    def __init__(self, graph: FeedbackGraph, budget: int, *, seed: int, **options: Any) -> None:
        super().__init__(graph, budget, seed=seed, **options)
        self.clock = 0
        self.begin_again(graph)

    def begin_again(self, graph: FeedbackGraph) -> None:
        """Sort all arms from nothing but their intervals, as after any change of the arms."""
        self.graph = graph
        about: dict[str, Any] = {"delta": self.delta, "interval": self.interval, "horizon": self.horizon}
        one = elimination.Elimination(graph, self.S, **about)
        one.luck, one.clock = self.luck, self.clock
        one.lower = [row.lower for row in self.rows]
        one.upper = [row.upper for row in self.rows]
        while len(one.active) > one.free():
            left = len(one.active)
            one.judge_reduced()
            if len(one.active) == left:
                break
        self.all = one
        one.N = min((row.count + row.credit for a, row in enumerate(self.rows) if a in one.active), default=0)

    def add(self, count: int, graph: FeedbackGraph) -> None:
        super().add(count, graph)
        self.begin_again(graph)

    def forget(self, arm: int) -> None:
        super().forget(arm)
        self.begin_again(self.graph)

    def follow(self) -> None:
        """Let the twin of all arms know what the rows know."""
        one = self.all
        for a, row in enumerate(self.rows):
            one.seen[a], one.sums[a] = row.rewards, row.total
            one.lower[a], one.upper[a], one.due[a] = row.lower, row.upper, row.due
            one.schedule.counts[a], one.schedule.credit[a] = row.count, row.credit
            one.schedule.pending[a] = row.pending
        one.divisors = [row.divisor for row in self.rows]

    def lead(self) -> None:
        """Take back the intervals that it has computed."""
        one = self.all
        for a, row in enumerate(self.rows):
            row.lower, row.upper, row.due = one.lower[a], one.upper[a], one.due[a]
        self.failures += one.failures
        one.failures = 0

    def choose(self, number: int, among: list[int], live: list[int]) -> list[int]:
        self.clock = self.all.clock = number
        if len(among) == len(self.rows):
            self.follow()
            return self.all.choose(number)
        for a in among:
            row = self.rows[a]
            if row.count >= row.due:
                row.due = row.count + 1 + row.count // 32
                self.renew(row)
        confirmed, open_arms = self.triage(among)
        if len(confirmed) + len(open_arms) == self.S:
            return confirmed + open_arms
        return self.explore(confirmed, open_arms)

    def count(self, among: list[int], arms: list[int], shown: list[int]) -> None:
        super().count(among, arms, shown)
        self.all.layer -= set(shown)

    def close(self, number: int, rewards: dict[int, float], taught: set[int], missing: list[int]) -> None:
        super().close(number, rewards, taught, [])
        self.sort()
        super().close(number, {}, taught, missing)
        if missing:
            self.sort()

    def is_due(self, row: Row) -> bool:
        return False

    def sort(self) -> None:
        self.follow()
        self.all.sort()
        self.lead()


class Guarded(Sorted):
    """Admits what a proposer wants while its budget lasts: Thompson sampling with free looks, or whoever is given."""

    def __init__(
        self,
        *given: Any,
        mode: str = "time",
        factor: float = 1.0,
        free_look: bool = True,
        reveal: bool = True,
        proposer: Crowd | Callable[..., Any] | None = None,
        price: float | None = None,
        **options: Any,
    ) -> None:
        super().__init__(*given, **options)
        self.look_share = 0.01 * (110.0 if price is None else price) if mode == "certify" else 0.0
        self.inspected = self.bar_due = 0
        self.estimated = self.inspected_loss = self.bar = 0.0
        self.mode, self.factor, self.free_look, self.proposer = mode, factor, free_look, proposer
        self.learns_at_once = proposer.learns_at_once if isinstance(proposer, Crowd) else proposer is None
        self.gap, self.spent, self.allowed, self.total, self.forced_cost = 1.0, 0.0, 0.0, 0.0, 0.0
        self.forced = self.second = self.resume = self.offered_slots = 0
        self.start = 0  # the round in which the account began
        self.patterns: set[tuple[int, ...]] = set()
        self.covered: list[int] = []
        self.cover = self.cover_among = 0
        self.largest = float(self.first)
        self.spread, self.floor, self.time = 1.0, 0.0, 0
        self.layer, self.layer_size, self.layer_pulls, self.layer_price = -1, 0, 0, 0.0
        self.wholes = self.renewed = self.rest = self.clock = 0
        self.is_new = True
        self.of_all = True
        self.log: list[tuple[int, int, bool]] = []
        self.view: tuple[list[int], list[int]] = [], list(range(len(self.rows)))
        self.ends = [1.0] * len(self.rows)
        self.looks = Looks(self) if reveal else None

    def note_gap(self, gap: float) -> None:
        self.gap = max(0.0, min(self.gap, gap))

    def divisor(self) -> float:
        self.largest = max(self.largest, found := super().divisor())
        return found

    def add(self, count: int, graph: FeedbackGraph) -> None:
        super().add(count, graph)
        self.become_others()

    def forget(self, arm: int) -> None:
        super().forget(arm)
        self.become_others()

    def become_others(self) -> None:
        self.is_new = True
        self.log, self.view = [], ([], list(range(len(self.rows))))
        self.ends = [1.0] * len(self.rows)
        if self.looks is not None:
            self.looks = Looks(self, self.looks.shared)
        if len(self.rows) > self.S:
            self.sort_all()

    def sort_all(self) -> None:
        """Sort all arms by the intervals of today, and log what is decided; arms may come back after a failure."""
        confirmed, open_arms = self.view = self.triage(list(range(len(self.rows))))
        self.ends = [row.upper for row in self.rows]
        some = [self.rows[a] for a in open_arms]
        self.spread = max(0.0, max((r.upper for r in some), default=0) - min((r.lower for r in some), default=1))
        self.renewed, self.rest = 0, self.clock + len(self.rows) // (16 * self.S)
        now = {a: a in confirmed for a in range(len(self.rows)) if a not in open_arms}
        old = {a: certain for a, _, certain in self.log}
        self.log = [entry for entry in self.log if now.get(entry[0]) == entry[2]]
        self.log += [(a, self.clock + 1, certain) for a, certain in now.items() if old.get(a) != certain]

    @property
    def is_ripe(self) -> bool:
        return self.clock >= self.rest and 32 * self.renewed >= max(len(self.view[1]), 1)

    def renew(self, row: Row) -> None:
        super().renew(row)
        self.renewed += 1

    def close(self, number: int, rewards: dict[int, float], taught: set[int], missing: list[int]) -> None:
        super().close(number, rewards, taught, missing)
        if self.of_all and len(self.rows) > self.S and self.is_ripe:
            self.sort_all()

    def measure(self, live: list[int]) -> None:
        """The greedy cover of all arms; their number, where sleepers are not seen."""
        if self.covered == live:
            return
        self.covered, self.cover = live, self.pulls_for(live)
        self.cover_among = self.cover if self.sleepers_seen else len(live)

    def pulls_for(self, arms: list[int]) -> int:
        """How many of some arms a greedy cover of them has, by degree, smaller arms first."""
        if self.plain:
            return len(arms)
        waiting, picks = set(arms), 0
        while waiting:
            now = set(waiting)
            waiting -= self.reveals[min(now, key=lambda a: (-len(self.reveals[a] & now), a))]
            picks += 1
        return picks

    def pay(self, number: int, size: int, confirmed: list[int], open_arms: list[int]) -> None:
        free, sets = size - len(confirmed), self.wholes + len(self.patterns)
        number -= self.start
        if sets == 1 and self.of_all:
            self.pay_layers(number + 1, open_arms, self.pulls_for(open_arms) + free - 1, free)
            return
        if self.mode == "shadow":
            self.allowed = self.floor + self.factor * self.forced_cost + size
            return
        pulls = self.cover_among + min(sets, self.cover_among) * (size - 1)
        base = math.log(self.largest / self.delta) + math.log(2)
        while free > 0:
            if self.layer_pulls >= self.layer_size:
                if (self.layer + 1) * self.gap**2 > 8 * (base + math.log(number + 1) / 2):
                    return
                self.layer += 1
                self.layer_price = self.price(self.layer)
                self.layer_size, self.layer_pulls = pulls, 0
            paid = min(free, self.layer_size - self.layer_pulls)
            self.allowed += self.factor * paid * self.layer_price  # in this order: a sum may meet what is spent exactly
            self.layer_pulls += paid
            free -= paid

    def price(self, n: int) -> float:
        base = math.log(self.largest / self.delta) + math.log(2)
        return min(1.0, 6 * math.sqrt((base + math.log(n) / 2) / (2 * n))) if n else 1.0

    def pay_layers(self, rounds: int, open_arms: list[int], pulls: int, free: int) -> None:
        """Whole layers, while all arms were always eligible."""
        base = math.log(self.largest / self.delta) + math.log(2)
        most, highest = float(rounds), 1.0
        if self.mode == "shadow":
            most, highest = min(rounds, *(self.rows[a].count for a in open_arms)), self.spread
        if self.gap > 0:
            most = min(most, 8 * (base + math.log(rounds) / 2) / self.gap**2)
        if self.time > rounds:
            return
        while self.layer + 1 <= most and self.time <= rounds:
            self.layer += 1
            self.time += pulls // free
            self.allowed += self.factor * pulls * min(self.price(self.layer), highest)
        self.floor = self.allowed - self.factor * self.forced_cost

    def certificate(self, among: list[int], arms: list[int]) -> float:
        inside = sorted(self.rows[a].lower for a in arms)
        outside = sorted((self.seen_upper(a) for a in among if a not in arms), reverse=True)
        return sum(max(0.0, high - low) for high, low in zip(outside, inside, strict=False))

    def price_of(self, arms: list[int]) -> float:
        """What a decision among all arms can lose by the intervals of today, however old the ends are."""
        inside = sorted(self.rows[a].lower for a in arms)
        outside = sorted((row.upper for a, row in enumerate(self.rows) if a not in arms), reverse=True)
        return sum(max(0.0, high - low) for high, low in zip(outside, inside, strict=False))

    def seen_upper(self, a: int) -> float:
        """The upper end by which an arm was sorted."""
        return self.ends[a] if self.of_all else self.rows[a].upper

    def retrospective(self, known: list[tuple[Row, int, int]]) -> float:
        """What as many pulls could have been at best, each arm at most as often as it was there, less what was sure."""
        slopes = [(((e - m) * r.upper + m * r.lower) / e, e) for r, m, e in known if e > 0]
        best, left = 0.0, sum(m for _, m, _ in known)
        for slope, e in sorted(slopes, reverse=True):
            best += min(left, e) * slope
            left -= min(left, e)
        return max(0.0, best - sum(m * r.lower for r, m, e in known if e > 0))

    def admits(self, number: int, among: list[int], arms: list[int], cost: float) -> bool:
        spent = self.spent + cost
        if spent > self.allowed and cost > 0 and not self.of_all and number < self.resume:
            return False
        self.offer(among, arms, 1)
        if spent > self.allowed:
            known = [(row, row.admitted, row.offered) for row in (*self.rows, *self.ghosts)]
            spent = min(spent, self.retrospective(known))
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
            self.total = min(self.total, self.retrospective(known))
        return arms

    def mean(self, a: int) -> float:
        return self.rows[a].posterior(self.prior, self.weak).mean

    def refit(self, number: int) -> None:
        if self.learned and number >= self.next_fit:
            self.next_fit = number + 1 + number // 2
            self.prior = fitted([(row.wins, row.losses, row.told_between) for row in self.rows], self.prior)

    def propose(self, number: int, confirmed: list[int], open_arms: list[int]) -> list[int]:
        k, looked, share, incumbents = self.S - len(confirmed), set[int](), 1.0, list[int]()
        self.refit(number)
        values = {a: self.mean(a) for a in open_arms}
        if self.free_look:
            incumbents = self.best(open_arms, lambda a: values[a], k)
            looked = looked.union(*(self.reveals[a] for a in confirmed + incumbents))
            if self.learned and not self.look_share:
                cover = self.cover if self.of_all else self.cover_among
                share = min(1.0, max(0.1, 3 * k / min(len(open_arms), cover)))
        drawn = dict[int, float]()
        for a in set(open_arms) - looked:
            u = self.luck.uniform(number, a)
            if u > 1 - share:
                drawn[a] = self.rows[a].posterior(self.prior, self.weak).draw((u - (1 - share)) / share)
        for a in incumbents:
            if self.fractional and values[a] < max(drawn.values(), default=-1.0):
                values[a] = max(values[a], self.draw(number, a))
        values |= drawn
        arms = confirmed + self.best(open_arms, lambda a: values[a], k)
        if self.looks is None or self.plain or not self.of_all:
            return arms
        if not self.free_look:  # then a look is direct if the incumbents do not reveal it all the same
            incumbents = self.best(open_arms, self.mean, k)
        return self.looks.share(number, arms, values, confirmed, incumbents)

    def choose(self, number: int, among: list[int], live: list[int]) -> list[int]:
        self.measure(live)
        # Who proposes is asked before the guard looks, unless all is decided.
        decided = len(self.view[0]) + len(self.view[1]) == self.S and len(among) == len(self.rows)
        wanted: list[int] = []
        if isinstance(self.proposer, Crowd) and not decided:
            wanted = self.proposer.ask(number, among, live)
        elif self.proposer is not None and not decided:
            wanted = sorted(np.asarray(self.proposer(number, eligible=np.array(among))).tolist())
        self.clock = number
        if len(among) == len(self.rows):
            if not self.of_all and self.is_ripe:
                self.sort_all()
            self.of_all = True
            self.wholes, self.is_new = self.wholes + self.is_new, False
            confirmed, open_arms = self.view
        else:
            self.of_all = False
            self.patterns.add(tuple(among))
            confirmed, open_arms = self.triage(among)
        if len(confirmed) + len(open_arms) == self.S:
            return self.book(number, among, confirmed + open_arms, 0.0)
        self.pay(number, self.S, confirmed, open_arms)
        arms = self.propose(number, confirmed, open_arms) if self.proposer is None else wanted
        if not self.look_share:
            return self.admit(number, among, arms, confirmed, open_arms)
        bar = self.find_bar(number, confirmed + open_arms)
        look, arms = self.look(among, arms, bar)
        played = self.admit(number, among, arms, confirmed, open_arms)
        if look is not None and self.kept:
            self.inspected_loss += max(0.0, bar - self.plain_mean(look))
            self.inspected += 1
        for a in played:
            self.estimated += max(0.0, bar - self.plain_mean(a))
        return played

    def plain_mean(self, a: int) -> float:
        return (self.rows[a].gained + 0.5) / (self.rows[a].learned + 1)

    def find_bar(self, number: int, candidates: list[int]) -> float:
        """The S-th best mean; among all arms it may be old, and what they lost by it is estimated again."""
        if self.of_all and number < self.bar_due:
            return self.bar
        bar = sorted((self.plain_mean(a) for a in candidates), reverse=True)[self.S - 1]
        if self.of_all:
            self.bar, self.bar_due = bar, number + 1 + len(self.rows) // (16 * self.S)
            if self.wholes + len(self.patterns) <= 1:
                self.estimated = 0.0
                for a, row in enumerate(self.rows):
                    self.estimated += row.pulls * max(0.0, bar - self.plain_mean(a))
        return bar

    def look(self, among: list[int], arms: list[int], bar: float) -> tuple[int | None, list[int]]:
        """A look at what is most open, by the cheapest arm that shows it, instead of the least that is not behind."""
        shown = set().union(*(self.reveals[a] for a in arms))
        behind = [a for a in self.best(among, self.seen_upper, 2 * self.S) if self.plain_mean(a) < bar]
        behind = [a for a in behind if self.rows[a].missed < 8]
        excess = {a: self.seen_upper(a) - bar for a in behind if a not in shown}
        ahead = [a for a in arms if self.plain_mean(a) >= bar]
        if not ahead or max(excess.values(), default=0.0) <= 0.0:
            return None, arms
        target = max(excess, key=lambda a: excess[a])
        look = self.best([a for a in among if target in self.reveals[a]], self.plain_mean, 1)[0]
        if self.plain_mean(look) == self.plain_mean(target):
            look = target
        cost = max(0.0, bar - self.plain_mean(look))
        if self.inspected_loss + cost > self.look_share / (1 + self.look_share) * self.estimated:
            return None, arms
        leaves = min(ahead, key=lambda a: (self.plain_mean(a), -a))
        return look, [look if a == leaves else a for a in arms]

    def admit(
        self, number: int, among: list[int], arms: list[int], confirmed: list[int], open_arms: list[int]
    ) -> list[int]:
        cost = self.certificate(among, arms)
        self.kept = self.admits(number, among, arms, cost)
        if not self.kept:
            arms = confirmed + self.best(open_arms, self.seen_upper, self.S - len(confirmed))
            cost = self.certificate(among, arms)
            self.second += 1
            if not self.admits(number, among, arms, cost):
                if self.of_all and self.renewed:
                    self.sort_all()
                    confirmed, open_arms = self.view
                certain = len(confirmed) + len(open_arms) == self.S
                arms = confirmed + open_arms if certain else self.explore(confirmed, open_arms)
                cost = self.certificate(among, arms)
                self.forced += 1
                self.forced_cost += cost
        return self.book(number, among, arms, cost)

    def differs(self, policy: Any) -> str | None:
        held = policy._book
        names = ("forced", "spent", "allowed", "total", "forced_cost", "gap", "renewed", "wholes")
        for name in (*names, "inspected", "inspected_loss", "estimated", "bar"):
            mine, theirs = getattr(self, name), getattr(held, name)
            if abs(theirs - mine) > 1e-7 * max(1.0, abs(mine)):
                return f"{name} {theirs} instead of {mine}"
        return super().differs(policy)


class GuardedByIndex(Guarded):
    """Proposes by an index of posteriors instead of draws: of the incumbents, and of whoever they do not reveal."""

    def index(self, a: int, pace: float) -> float:
        row = self.rows[a]
        least, wins, losses = row.posterior(self.prior, self.weak)
        size = wins + losses + row.pending
        bonus = 0.8 * math.log(max(1.0, pace / size))
        return least + (1 - least) * kl_bounds(wins / (wins + losses), bonus / size)[1]

    def propose(self, number: int, confirmed: list[int], open_arms: list[int]) -> list[int]:
        k, cover = self.S - len(confirmed), self.cover if self.of_all else self.cover_among
        self.refit(number)
        incumbents = self.best(open_arms, self.mean, k)
        looked = set[int]().union(*(self.reveals[a] for a in confirmed + incumbents))
        pace = (number + 1) / max(1.0, 0.3 * min(len(open_arms), cover) / k)
        values = {a: self.index(a, pace) for a in open_arms if a in incumbents or a not in looked}
        arms = confirmed + self.best(values, lambda a: values[a], k)
        if self.looks is None or self.plain or not self.of_all:
            return arms
        return self.looks.share(number, arms, values, confirmed, incumbents)


class Looks:
    """Looks at arms that the incumbents do not reveal wait, and one pull of an arm that shows many makes them."""

    def __init__(self, guard: Guarded, shared: int = 0) -> None:
        self.guard, self.shared, self.waited, self.impatient, self.resume = guard, shared, 0, 0, 0
        self.guide: dict[int, int] = {}
        self.waits: dict[int, list[int]] = {}
        self.price = [0.0] * len(guard.rows)

    def weight(self, arm: int) -> int:
        """How many of an arm's looks pay for its guide: by an index all that wait, with draws the last."""
        return len(self.waits[arm]) if isinstance(self.guard, GuardedByIndex) else 1

    def choose_guides(self, gap: list[float], incumbents: list[int], looked: set[int]) -> None:
        guard, n = self.guard, len(self.guard.rows)
        self.guide = {}
        sought = {a for a in guard.view[1] if a not in looked and guard.rows[a].count > 0}

        def worth(h: int) -> float:
            shown = guard.reveals[h] & sought
            total = sum(gap[b] for b in shown)
            return total if len(shown) > 1 and total > 2 * gap[h] * (1 + SLACK) + SLACK else 0.0

        rank = {
            h: round(1e6 * math.log(worth(h) / max(gap[h], 1e-100)))
            for h in range(n)
            if h not in incumbents and guard.rows[h].count > 0 and worth(h) > 0
        }
        for h in sorted(rank, key=lambda h: (-rank[h], h)):
            if worth(h) > 0:
                self.guide |= dict.fromkeys(guard.reveals[h] & sought, h)
                sought -= guard.reveals[h]

    def share(
        self, t: int, arms: list[int], values: dict[int, float], confirmed: list[int], open_ones: list[int]
    ) -> list[int]:
        guard, incumbents = self.guard, confirmed + open_ones
        reveals, active, size = guard.reveals, set(guard.view[1]), len(guard.rows)
        looked = set().union(*(reveals[a] for a in incumbents))
        outside = sorted(a for a in arms if a not in looked and a in active)
        if not outside:
            return arms
        least = min(map(guard.mean, incumbents))
        gap = [max(0.0, least - guard.mean(a)) for a in range(size)]
        if t >= self.resume:
            self.resume = t + 1 + size // (8 * guard.S) + t // 16
            self.choose_guides(gap, incumbents, looked)
        chosen = [a for a in arms if a not in outside]
        for a in outside:
            self.price[a] = values[a] - guard.mean(a)
        for a in outside:
            h = self.guide.get(a)
            if h in chosen:
                continue
            if h is not None:
                first = self.waits.get(a, [t])[0]
                late = len(self.waits.get(a, [])) == 8 or (a in self.waits and 16 * (t - first) >= t)
                if not late:
                    self.waits[a] = [*self.waits.get(a, []), t]
                wanted = self.waits.keys() & reveals[h] & active - looked
                if sum(self.price[b] * self.weight(b) for b in wanted) * (1 + SLACK) >= gap[h]:
                    self.waits = {b: looks for b, looks in self.waits.items() if b not in reveals[h]}
                    self.shared += 1
                    a = h
                elif not late:
                    self.waited += 1
                    continue
                else:
                    self.impatient += 1
            if a not in chosen:
                chosen.append(a)
        best = [a for a in open_ones if a not in chosen]
        return chosen + best[: guard.S - len(chosen)]


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


class AllArms(Twin):
    """A twin of any requests that is asked with all arms always."""

    def __init__(self, inner: Any) -> None:
        self.inner, self.shown = inner, dict[int, list[int]]()
        self.everybody = list(range(len(inner.rows)))

    def select(self, t: int) -> list[int]:
        arms: list[int] = self.inner.ask(t, self.everybody, self.everybody)
        self.play(t, arms)
        return arms

    def play(self, t: int, arms: list[int]) -> None:
        self.shown[t] = self.inner.shown(arms, self.everybody, self.everybody)
        self.inner.count(self.everybody, arms, self.shown[t])

    def update(self, t: int, rewards: dict[int, float]) -> None:
        self.inner.close(t, rewards, set(), [a for a in self.shown.pop(t) if a not in rewards])

    def differs(self, policy: Any) -> str | None:
        found: str | None = self.inner.differs(policy)
        return found


class OverSet(AllArms):
    """Plays the decision of a set whose weights, those of another twin, have the largest sum, by trying all."""

    def __init__(self, decisions: DecisionSet, inner: Index | Thompson) -> None:
        super().__init__(inner)
        self.family, self.size = [one.tolist() for one in decisions], decisions.size
        # All slates are chosen without their set's oracle, by draws that need not all be made.
        self.weights = inner.weights if isinstance(decisions, TopS) else getattr(inner, "draws", inner.weights)

    def judge(self, t: int, arms: list[int]) -> str | None:
        weights = self.weights(t, self.size)
        self.play(t, arms)
        if arms not in self.family:
            return f"{arms} is no decision of the set"
        # Sums may be added in another order, so that rounding chooses between decisions of the same weight.
        missing = max(float(weights[one].sum()) for one in self.family) - float(weights[arms].sum())
        return None if missing < 1e-12 * np.abs(weights).max() else f"{arms} is {missing} below the best"

    def differs(self, policy: Any) -> str | None:
        return None
