"""Slow, obvious twins of the elimination policies over decision sets: every decision is listed and looked at.

Rounding may choose between decisions of the same worth, so these twins judge, and ``choose()`` is a decision that the
twin itself would accept, for runs without a policy.
"""

from __future__ import annotations

import math
from collections.abc import Callable, Iterable
from typing import Any

import numpy as np

from armtriage import DecisionSet, FeedbackGraph
from armtriage.intervals import INTERVALS, interval
from twins import Twin, reveals_of, sets_differ

GUARD = 1e-9  # how much less than the incumbent is less, beyond what rounding explains
TIE = 1e-9  # values this close may be ordered either way, since sums depend on the order of their terms
PATIENCE = 8  # how many arms may be eliminated one by one before a check

Arms = frozenset[int]


def smallest_cover(need: Arms, shows: Iterable[Arms]) -> int:
    """The least number of these sets whose union contains `need`: breadth-first over what can be covered."""
    useful = {one & need for one in shows}
    reached = {frozenset[int]()}
    size = 0
    while need not in reached:
        reached = {old | one for old in reached for one in useful}
        size += 1
        assert size <= len(need), "some needed arm is in no set"
    return size


def best_of(family: list[Arms], value: Callable[[Arms], float]) -> list[Arms]:
    """The decisions of largest value, and those that rounding may take for such."""
    values = {one: value(one) for one in family}
    return [one for one in family if values[one] >= max(values.values()) - TIE]


class ConstrainedTwin(Twin):
    """What all variants share: the family, what decisions reveal, what has come and what is on its way."""

    def __init__(
        self, graph: FeedbackGraph, decisions: DecisionSet, reward_range: tuple[float, float] = (0.0, 1.0)
    ) -> None:
        low, high = reward_range
        self.low, self.span = low, high - low
        self.n_arms, self.size, self.decisions = graph.n_arms, decisions.size, decisions
        self.reveals = reveals_of(graph)
        self.family = [frozenset(one.tolist()) for one in decisions]
        # Rewards are kept in [0, 1]. What a decision earns is their sum, plus this for each arm where sizes differ.
        self.base = 0.0 if len(set(map(len, self.family))) == 1 else low / (high - low)
        self.used = frozenset[int]().union(*self.family)
        self.counts = [0] * self.n_arms
        self.waiting = [0] * self.n_arms
        self.missed = [0] * self.n_arms  # rewards in a row that did not come
        self.tried = [0] * self.n_arms  # counts, and for how many observations lost rewards stand in the schedule
        self.sums = [0.0] * self.n_arms
        self.between = [0.0] * self.n_arms
        self.ties = 0  # how often more than one decision was right
        self.open_rounds: dict[int, Arms] = {}

    def shown_by(self, decision: Iterable[int]) -> Arms:
        return frozenset[int]().union(*(self.reveals[arm] for arm in decision))

    def mean(self, arm: int) -> float:
        return self.sums[arm] / self.counts[arm] if self.counts[arm] else 0.0

    def worth(self, decision: Arms) -> float:
        return math.fsum(self.base + self.mean(arm) for arm in decision)

    def scheduled(self, arm: int) -> int:
        return self.tried[arm] + self.waiting[arm]

    def judge(self, t: int, arms: Iterable[int]) -> str | None:
        decision = self.open_rounds[t] = frozenset(arms)
        wrong = self.fault(decision)
        for arm in self.shown_by(decision):
            self.waiting[arm] += 1
        return wrong

    def fault(self, decision: Arms) -> str | None:
        raise NotImplementedError

    def receive(self, t: int, rewards: dict[int, float]) -> None:
        shown = self.shown_by(self.open_rounds.pop(t))
        self.hear(rewards)
        self.lose(shown - rewards.keys())

    def lose(self, arms: Arms) -> None:
        for arm in arms:
            self.waiting[arm] -= 1
            self.missed[arm] += 1
            if self.missed[arm] >= 8:
                self.tried[arm] += 1 + (self.missed[arm] - 8) // 2

    def hear(self, rewards: dict[int, float]) -> None:
        for arm, reward in sorted(rewards.items()):
            unit = (
                reward if (self.low, self.span) == (0.0, 1.0) else min(max((reward - self.low) / self.span, 0.0), 1.0)
            )
            self.waiting[arm] -= 1
            self.missed[arm] = 0
            self.counts[arm] += 1
            self.tried[arm] += 1
            self.sums[arm] += unit
            self.between[arm] += unit * (1.0 - unit)


class Listed(ConstrainedTwin):
    """Algorithm 5 as printed (variant "paper"), and with covers from the active family (variant "repaired")."""

    def __init__(
        self,
        graph: FeedbackGraph,
        decisions: DecisionSet,
        *,
        horizon: int,
        delta: float,
        variant: str,
        cover: str = "exact",
        reward_range: tuple[float, float] = (0.0, 1.0),
    ) -> None:
        super().__init__(graph, decisions, reward_range)
        self.horizon, self.delta, self.paper, self.exact = horizon, delta, variant == "paper", cover == "exact"
        self.active = list(self.family)
        self.N = 0
        self.need = frozenset[int]()  # what the cover underway must reveal
        self.open = frozenset[int]()  # what of it the decisions so far do not
        self.left = 0  # exact mode: how many decisions of the cover are still to come
        self.frozen: dict[Arms, float] = {}  # means when the cover began
        self.cover_sizes: list[int] = []

    def width(self, count: int) -> float:
        return math.sqrt(math.log(2 * self.n_arms * self.horizon / self.delta) / count) if count else math.inf

    def least(self, counts: list[int]) -> int:
        """The smallest count of an active decision, each of which has that of its rarest arm."""
        return min(min(counts[arm] for arm in one) for one in self.active if one)

    def pool(self) -> list[Arms]:
        """Where covers come from."""
        return self.family if self.paper else self.active

    def committed(self) -> bool:
        return not self.paper and len(self.active) == 1

    def begin(self) -> None:
        """Begin a cover, by what has come and what is on its way."""
        counts = [self.scheduled(arm) for arm in range(self.n_arms)]
        least = self.least(counts)
        behind = [one for one in self.active if one and min(counts[arm] for arm in one) == least]
        need = frozenset[int]().union(*behind)
        if not self.paper:
            need = frozenset(arm for arm in need if counts[arm] == least)
        self.need = self.open = need
        self.frozen = {one: self.worth(one) for one in self.pool()}
        self.left = smallest_cover(need, (self.shown_by(one) for one in self.pool()))
        self.cover_sizes.append(self.left if self.exact else 0)

    def greedy(self) -> list[Arms]:
        """The decisions that reveal most of what is open: the first, or if repaired those of largest mean."""
        rich = best_of(self.pool(), lambda one: len(self.shown_by(one) & self.open))
        return rich[:1] if self.paper else best_of(rich, self.frozen.__getitem__)

    def within_cover(self) -> bool:
        return bool(self.open)

    def choose(self) -> Arms:
        if self.committed():
            return self.active[0]
        if not self.within_cover():
            self.begin()
        if not self.exact:
            return self.greedy()[0]
        for one in self.pool():
            rest = self.open - self.shown_by(one)
            if smallest_cover(rest, (self.shown_by(other) for other in self.pool())) == self.left - 1:
                return one
        raise AssertionError("no decision begins a smallest cover")

    def fault(self, decision: Arms) -> str | None:
        if decision not in self.family:
            return f"{sorted(decision)} is not in the family"
        if self.committed():
            only = self.active[0]
            return None if decision == only else f"{sorted(decision)} is not {sorted(only)}, the one decision left"
        if not self.within_cover():
            self.begin()
        if decision not in self.pool():
            return f"{sorted(decision)} has been eliminated"
        if not self.exact:
            tied = self.greedy()
            self.ties += len(tied) > 1
            self.cover_sizes[-1] += 1
            self.open -= self.shown_by(decision)
            return None if decision in tied else f"{sorted(decision)} is none of {[sorted(one) for one in tied]}"
        self.left -= 1
        self.open -= self.shown_by(decision)
        missing = smallest_cover(self.open, (self.shown_by(one) for one in self.pool()))
        if missing > self.left:
            return f"{sorted(decision)} is in no smallest cover: {missing} more are needed instead of {self.left}"
        return None

    def update(self, t: int, rewards: dict[int, float]) -> None:
        self.receive(t, rewards)
        if self.committed() or (self.paper and self.within_cover()):
            return  # as printed, the family is looked at between covers only
        least = self.least(self.tried)
        if least > self.N:
            self.N = least
            known = [one for one in self.active if all(self.counts[arm] >= least for arm in one)]
            best = max(map(self.worth, known), default=-math.inf)
            slack = 2 * self.size * self.width(least)
            kept = [one for one in self.active if one not in known or self.worth(one) >= best - slack]
            if len(kept) < len(self.active):
                self.active = kept
                self.open = frozenset()  # a cover of what was active is no longer what is wanted


class Oracle(ConstrainedTwin):
    """Elimination of arms: what the oracle would answer is found by looking at every decision."""

    def __init__(
        self,
        graph: FeedbackGraph,
        decisions: DecisionSet,
        *,
        horizon: int | None = None,
        delta: float = 0.01,
        interval: str = "mixture",
        reward_range: tuple[float, float] = (0.0, 1.0),
    ) -> None:
        super().__init__(graph, decisions, reward_range)
        self.horizon, self.delta, self.kind = horizon, delta, INTERVALS.index(interval)
        self.lower, self.upper = [0.0] * self.n_arms, [1.0] * self.n_arms
        self.undecided = set(range(self.n_arms))
        self.confirmed: set[int] = set()
        self.eliminated: set[int] = set()
        self.failures = 0
        self.checks = 0
        self.calls = 0  # questions to the oracle, if `counted`: where rounding may decide whether to ask, it is not
        self.counted = True
        self.incumbent = frozenset[int]()
        self.checked_at = 0  # N after the last check
        self.dropped = 0  # arms eliminated since the last check
        self.check()

    def mean(self, arm: int) -> float:
        """The empirical mean, moved into the interval; before there is one 1, and 0 once it was asked for."""
        if not self.counts[arm]:
            return float(not self.waiting[arm] and not self.missed[arm])
        return min(max(self.sums[arm] / self.counts[arm], self.lower[arm]), self.upper[arm])

    def alive(self) -> list[Arms]:
        """F': the decisions with all confirmed arms and no eliminated one."""
        return [one for one in self.family if self.confirmed <= one and not self.eliminated & one]

    def weight(self, decision: Arms) -> float:
        ends = (self.lower[arm] if arm in self.incumbent else self.upper[arm] for arm in decision)
        return math.fsum(self.base + end for end in ends)

    def least(self) -> int:
        return min((self.tried[arm] for arm in self.undecided), default=0)

    def due(self) -> int:
        """The first of ceil(1.1^j) beyond N after the last check."""
        j = 0
        while math.ceil(1.1**j) <= self.checked_at:
            j += 1
        return math.ceil(1.1**j)

    def check_is_due(self) -> bool:
        return bool(self.undecided) and self.least() >= self.due()

    def check(self) -> None:
        """Compare all decisions with the incumbent, by weights that favour the others."""
        self.checks += 1
        self.dropped = 0
        means = np.array([self.base + self.mean(arm) for arm in range(self.n_arms)])
        found = self.decisions.maximise(means, include=sorted(self.confirmed), exclude=sorted(self.eliminated))
        assert found is not None
        self.incumbent = frozenset(found.tolist())
        alive = self.alive()
        assert self.incumbent in alive
        assert self.worth(self.incumbent) >= max(map(self.worth, alive)) - TIE
        weights = {one: self.weight(one) for one in alive}
        enough = weights[self.incumbent] - GUARD
        self.calls += 1 + len(self.undecided)
        cut, sure = set(), set()
        for arm in self.undecided:
            rivals = [one for one in alive if (arm in one) != (arm in self.incumbent)]
            if all(weights[one] < enough for one in rivals):
                (sure if arm in self.incumbent else cut).add(arm)
        self.confirmed |= sure
        self.eliminated |= cut
        self.undecided -= sure | cut
        self.checked_at = self.least()

    def targets(self) -> Arms:
        """A_0: the undecided arms that have been scheduled least often."""
        least = min(map(self.scheduled, self.undecided))
        return frozenset(arm for arm in self.undecided if self.scheduled(arm) == least)

    def pick(self) -> int:
        """The arm to explore: it reveals most of A_0, then has the largest upper end, then is the smallest."""
        targets = self.targets()
        return min(targets, key=lambda arm: (-len(self.reveals[arm] & targets), -self.upper[arm], arm))

    def right(self) -> list[Arms]:
        """The decisions that may be played now.

        The incumbent, if it shows all that the picked arm would of A_0; else the one of largest mean with that arm,
        if it may be as good as the incumbent; else the one of largest weight with that arm. If not even that may be
        as good, which happens between checks, the arm is eliminated and another one picked. If that makes a check
        due, or leaves only arms of the incumbent undecided, or for the eighth time, there is a check at once.
        """
        while self.undecided:
            enough = self.weight(self.incumbent)
            arm = self.pick()
            if self.reveals[arm] & self.targets() <= self.shown_by(self.incumbent):
                return [self.incumbent]
            having = [one for one in self.alive() if arm in one]
            likely, possible = best_of(having, self.worth), best_of(having, self.weight)
            right = [one for one in likely if self.weight(one) >= enough - TIE]
            doubtful = any(self.weight(one) < enough + TIE for one in likely)
            self.calls += 2 if doubtful else 1
            self.counted = self.counted and not (right and doubtful)
            if any(self.weight(one) >= enough - GUARD for one in having):
                return right + (possible if doubtful else [])
            self.undecided.remove(arm)
            self.eliminated.add(arm)
            self.dropped += 1
            if self.dropped == PATIENCE or self.undecided <= self.incumbent or self.check_is_due():
                self.check()
        return self.alive()

    def choose(self) -> Arms:
        return self.right()[0]

    def differs(self, policy: Any) -> str | None:
        if policy.interval_failures != self.failures:
            return f"{policy.interval_failures} contradictory intervals instead of {self.failures}"
        if self.counted and policy.oracle_calls != self.calls:
            return f"{policy.oracle_calls} calls of the oracle instead of {self.calls}"
        return sets_differ(policy, self.confirmed, self.undecided, self.eliminated)

    def fault(self, decision: Arms) -> str | None:
        right = self.right()
        self.ties += len(right) > 1
        target = f"for arm {self.pick()}" if self.undecided else "as committed"
        return None if decision in right else f"{sorted(decision)} is none of {[sorted(one) for one in right]} {target}"

    def update(self, t: int, rewards: dict[int, float]) -> None:
        shown = self.shown_by(self.open_rounds.pop(t))
        self.hear(rewards)
        for arm in rewards:
            self.renew(arm)
        if self.check_is_due():
            self.check()
        self.lose(shown - rewards.keys())
        if self.check_is_due():  # what is lost counts, too
            self.check()

    def renew(self, arm: int) -> None:
        """Intersect an arm's interval with the newest one, which stands alone if it contradicts the old ones."""
        before = self.lower[arm], self.upper[arm]
        lower, upper = interval(
            self.kind,
            self.counts[arm],
            self.sums[arm],
            self.between[arm],
            self.n_arms,
            float(self.horizon or 0),
            self.delta,
        )
        if max(lower, before[0]) <= min(upper, before[1]):
            lower, upper = max(lower, before[0]), min(upper, before[1])
        else:
            self.failures += 1
        self.lower[arm], self.upper[arm] = lower, upper
