"""Slow, obvious twins of the linear policies, written from the publication: every fit is a batch solve.

``select(t, contexts)`` is for contexts of norms of at most 1. Everything is computed arm by arm, so that like contexts
give like floats.

Arms of the same length have the same width before anything is known, up to rounding. So ``select`` can be told
what somebody else `played`: where the values of two arms are `TIE` or less apart, it prefers an arm of that.
"""

from __future__ import annotations

import math
from collections.abc import Callable, Collection
from dataclasses import dataclass, field
from typing import Any, NamedTuple

import numpy as np

from armtriage.kernels.normal import normal
from armtriage.kernels.random import replication_seed, row_of, stream, uniform
from twins import Twin

TIE = 1e-9
Numbers = dict[int, float]


def top(values: Numbers, count: int, played: Collection[int] | None = None) -> list[int]:
    """The arms of the `count` largest values, ties to the smaller arm, or to one of `played` first."""
    order = sorted(values, key=lambda a: (-values[a], a))
    if played is None or not 0 < count < len(order):
        return order[:count]
    last = values[order[count - 1]]
    sure = [a for a in order if values[a] > last + TIE]
    tied = [a for a in order if abs(values[a] - last) <= TIE]
    return sure + sorted(tied, key=lambda a: (a not in played, order.index(a)))[: count - len(sure)]


def kth_largest(values: Numbers, k: int) -> float:
    return sorted(values.values(), reverse=True)[k - 1]


def distance(values: Collection[float], threshold: float) -> float:
    """How near a value comes to the threshold; like contexts may meet exactly, which is no matter of rounding."""
    return min((abs(v - threshold) for v in values if v != threshold), default=math.inf)


def split(values: Numbers, count: int) -> float:
    """How far the last of the `count` largest values is above the next, if it is."""
    order = sorted(values.values(), reverse=True)
    return distance([order[count - 1]], order[count]) if 0 < count < len(order) else math.inf


class Rule(NamedTuple):
    """Step (2) confirms arms whose `low` is above one number, step (3) keeps those whose `high` reaches another."""

    low: Numbers
    high: Numbers
    confirm_above: float
    keep_from: float

    def verdict(self) -> tuple[list[int], list[int]]:
        confirmed = [a for a in sorted(self.low) if self.low[a] > self.confirm_above]
        kept = [a for a in sorted(self.low) if a not in confirmed and self.high[a] >= self.keep_from]
        return confirmed, kept

    def margin(self) -> float:
        return min(distance(self.low.values(), self.confirm_above), distance(self.high.values(), self.keep_from))


def threshold_rule(est: Numbers, wid: Numbers, k: int, h: int, variant: str) -> Rule:
    """As printed, with b the estimate of the k-th arm by upper end; repaired, the k-th largest estimate."""
    if variant == "paper":
        upper = {a: est[a] + wid[a] for a in est}
        b = est[top(upper, k)[-1]]
    else:
        b = kth_largest(est, k)
    return Rule(est, est, b + 4 * 2.0**-h, b - 2 * 2.0**-h)


def interval_rule(lower: Numbers, upper: Numbers, k: int) -> Rule:
    """Confirm above the (k+1)-th largest upper end, eliminate below the k-th largest lower end."""
    return Rule(lower, upper, kth_largest(upper, k + 1) if len(upper) > k else -math.inf, kth_largest(lower, k))


def stage_rule(est: Numbers, wid: Numbers, k: int, h: int, variant: str) -> tuple[list[int], list[int]]:
    """Which of these arms a stage confirms, and which of them it keeps, when k slots are free."""
    if variant == "tight":
        return interval_rule({a: est[a] - wid[a] for a in est}, {a: est[a] + wid[a] for a in est}, k).verdict()
    return threshold_rule(est, wid, k, h, variant).verdict()


class Ridge:
    """All contexts and rewards so far; each question solves the normal equations anew."""

    def __init__(self, dimension: int, ridge: float = 1.0) -> None:
        self.ridge = ridge
        self.x, self.r = np.zeros((0, dimension)), np.zeros(0)

    def add(self, x: np.ndarray, rewards: list[float]) -> None:
        self.x, self.r = np.vstack([self.x, x]), np.concatenate([self.r, rewards])

    def gram(self) -> np.ndarray:
        return self.ridge * np.eye(self.x.shape[1]) + self.x.T @ self.x

    def theta(self) -> np.ndarray:
        return np.linalg.solve(self.gram(), self.x.T @ self.r)

    def estimates(self, contexts: np.ndarray, arms: Collection[int]) -> Numbers:
        theta = self.theta()
        return {a: float(theta @ contexts[a]) for a in arms}

    def norms(self, contexts: np.ndarray, arms: Collection[int]) -> Numbers:
        x = contexts[list(arms)]
        solved = np.linalg.solve(self.gram(), x[:, :, None])[:, :, 0]  # one system an arm
        return {a: math.sqrt(float(x[i] @ solved[i])) for i, a in enumerate(arms)}


@dataclass
class Stage:
    """What a stage of a round saw and did; it ends early if step (1) fills the slate."""

    h: int
    taken: list[int]  # V before the stage
    active: list[int]  # A_h
    est: Numbers
    wid: Numbers
    explored: list[int]  # U^(h,1)
    free: int  # k, the slots after step (1)
    lower: Numbers = field(default_factory=dict)  # the ends used by the tight rule, of A_h \ V
    upper: Numbers = field(default_factory=dict)
    rule: Rule | None = None
    confirmed: list[int] = field(default_factory=list)  # U^(h,2)
    kept: list[int] = field(default_factory=list)  # A_(h+1)

    @property
    def rest(self) -> list[int]:
        """A_h without what step (1) took."""
        return [a for a in self.active if a not in self.explored]

    @property
    def eliminated(self) -> list[int]:
        return [a for a in self.rule.low if a not in self.confirmed + self.kept] if self.rule else []


@dataclass
class Round:
    """A round: its contexts, its stages, the fill, the arms, and how near rounding came to mattering."""

    contexts: np.ndarray
    stages: list[Stage]
    filled: list[int]
    arms: list[int]
    margin: float

    def triage(self) -> list[list[int]]:
        """Explored, confirmed, filled and eliminated arms, and each arm's stage, 0 if it never left the question."""
        explored = sorted(a for s in self.stages for a in s.explored)
        confirmed = sorted(a for s in self.stages for a in s.confirmed)
        eliminated = sorted(a for s in self.stages for a in s.eliminated)
        stages = [0] * len(self.contexts)
        for s in self.stages:
            for a in s.explored + s.confirmed + s.eliminated:
                stages[a] = s.h
        return [explored, confirmed, sorted(self.filled), eliminated, stages]


class LinearTwin(Twin):
    """Follows a policy with contexts; what it is given is in units of the policy, and it divides by them first."""

    unit, bound = 1.0, 1.0  # of rewards and contexts
    ties = False  # whether rounding decides between arms of the same length

    def margin(self, t: int) -> float:
        """How near rounding came to choosing in round t."""
        raise NotImplementedError

    def judge(self, t: int, arms: list[int], contexts: np.ndarray) -> str | None:  # type: ignore[override]
        expected = self.select(t, contexts / self.bound, arms if self.ties else None)
        assert self.margin(t) > TIE, "rounding would decide: choose another problem"
        return None if arms == expected else f"{arms} instead of {expected}"


class HierarchicalTwin(LinearTwin):
    """Algorithms 3 and 4 as printed, repaired, and with intervals and the tight width."""

    def __init__(
        self, n_arms: int, dimension: int, budget: int, horizon: int, delta: float, variant: str, sigma: float = 1.0
    ) -> None:
        self.n_arms, self.budget, self.variant = n_arms, budget, variant
        self.stages = max(1, math.ceil(math.log2(math.sqrt(budget * horizon))))
        if variant == "tight":
            self.scale = sigma * math.sqrt(2 * math.log(2 * n_arms * horizon * self.stages / delta)) + 1
        else:
            self.scale = 2 * (1 + math.sqrt(math.log(2 * n_arms * horizon)))
        self.models = {h: Ridge(dimension) for h in range(1, self.stages + 1)}
        self.phi: dict[int, list[tuple[int, int]]] = {h: [] for h in self.models}
        self.everything = Ridge(dimension)
        self.home: dict[tuple[int, int], int] = {}  # the stage where the reward of (t, a) will be stored
        self.rounds: dict[int, Round] = {}
        self.contradictions = 0  # ends of an arm that crossed

    def margin(self, t: int) -> float:
        return self.rounds[t].margin

    def select(  # type: ignore[override]
        self,
        t: int,
        contexts: np.ndarray,
        played: Collection[int] | None = None,
    ) -> list[int]:
        contexts = np.array(contexts, float)
        active, stages, margin = list(range(self.n_arms)), list[Stage](), math.inf
        slate: list[int] = []
        lower, upper = dict.fromkeys(active, -math.inf), dict.fromkeys(active, math.inf)
        for h in range(1, self.stages + 1):
            if len(slate) == self.budget:
                break
            est = self.models[h].estimates(contexts, active)
            wid = {a: self.scale * norm for a, norm in self.models[h].norms(contexts, active).items()}
            # Which of the wide arms are explored must not depend on rewards of this stage, but may on those before.
            wide = {a: wid[a] for a in active if wid[a] > 2.0**-h}
            margin = min(margin, distance(wid.values(), 2.0**-h))
            if self.variant == "tight" and h > 1:
                wide = {a: upper[a] for a in wide}
            explored = sorted(top(wide, self.budget - len(slate), played))
            margin = min(margin, split(wide, len(explored)) if played is None else math.inf)
            stage = Stage(h, sorted(slate), active, est, wid, explored, self.budget - len(slate) - len(explored))
            stages.append(stage)
            slate = slate + explored
            self.home |= {(t, a): h for a in explored}
            if stage.free == 0:
                break
            if self.variant == "tight":
                for a in stage.rest:
                    lower[a], upper[a] = max(lower[a], est[a] - wid[a]), min(upper[a], est[a] + wid[a])
                    margin = min(margin, distance([lower[a]], upper[a]))
                    if lower[a] > upper[a]:
                        self.contradictions += 1
                        lower[a], upper[a] = est[a] - wid[a], est[a] + wid[a]
                stage.lower = {a: lower[a] for a in stage.rest}
                stage.upper = {a: upper[a] for a in stage.rest}
                stage.rule = interval_rule(stage.lower, stage.upper, stage.free)
            else:
                rest_est, rest_wid = {a: est[a] for a in stage.rest}, {a: wid[a] for a in stage.rest}
                stage.rule = threshold_rule(rest_est, rest_wid, stage.free, h, self.variant)
                if self.variant == "paper":
                    ends = {a: est[a] + wid[a] for a in stage.rest}
                    margin = min(margin, distance(ends.values(), kth_largest(ends, stage.free)))
            stage.confirmed, stage.kept = stage.rule.verdict()
            margin = min(margin, stage.rule.margin())
            slate = slate + stage.confirmed
            if self.variant == "paper":
                self.home |= {(t, a): h for a in stage.confirmed}
            if self.variant == "tight" and h < self.stages:
                self.home |= {(t, a): h + 1 for a in stage.confirmed}
            active = stage.kept
        filled = []
        if len(slate) < self.budget:
            by = {a: stages[-1].est[a] for a in active}
            if self.variant == "tight":
                by = self.everything.estimates(contexts, active)
            filled = top(by, self.budget - len(slate), played)
            margin = min(margin, split(by, len(filled)) if played is None else math.inf)
        arms = sorted(slate + filled)
        assert len(set(arms)) == len(arms) == self.budget
        self.rounds[t] = Round(contexts, stages, filled, arms, margin)
        return arms

    def differs(self, policy: Any) -> str | None:
        mine, theirs = [part.tolist() for part in policy.triage], list(self.rounds.values())[-1].triage()
        return None if mine == theirs else f"triage {mine} instead of {theirs}"

    def update(self, t: int, rewards: Numbers) -> None:
        contexts, rewards = self.rounds[t].contexts, {a: r / self.unit for a, r in rewards.items()}
        self.everything.add(contexts[list(rewards)], list(rewards.values()))
        for h, model in self.models.items():
            stored = [a for a in rewards if self.home.get((t, a)) == h]
            if stored:
                model.add(contexts[stored], [rewards[a] for a in stored])
                self.phi[h] += [(t, a) for a in stored]


class IndexTwin(LinearTwin):
    """One ridge regression, and the S arms of the largest value; `contexts` remembers what a late reward belongs to."""

    def __init__(self, dimension: int, budget: int, ridge: float = 1.0) -> None:
        self.budget, self.model = budget, Ridge(dimension, ridge)
        self.contexts: dict[int, np.ndarray] = {}
        self.margins: dict[int, float] = {}

    def margin(self, t: int) -> float:
        return self.margins[t]

    def values(self, t: int) -> Numbers:
        raise NotImplementedError

    def select(  # type: ignore[override]
        self, t: int, contexts: np.ndarray, played: Collection[int] | None = None
    ) -> list[int]:
        self.contexts[t] = np.array(contexts, float)
        values = self.values(t)
        self.margins[t] = split(values, self.budget) if played is None else math.inf
        return sorted(top(values, self.budget, played))

    def update(self, t: int, rewards: Numbers) -> None:
        self.model.add(self.contexts[t][list(rewards)], [r / self.unit for r in rewards.values()])


class C2UCBTwin(IndexTwin):
    """The estimate plus a width, fixed or the self-normalised one, as the root of a sum of squares."""

    def __init__(
        self,
        dimension: int,
        budget: int,
        delta: float = 0.01,
        width: float | None = None,
        ridge: float = 1.0,
        sigma: float = 1.0,
    ) -> None:
        super().__init__(dimension, budget, ridge)
        self.delta, self.width, self.sigma = delta, width, sigma

    def values(self, t: int) -> Numbers:
        contexts, ridge, width = self.contexts[t], self.model.ridge, self.width
        if width is None:
            grown = np.linalg.slogdet(self.model.gram())[1] - contexts.shape[1] * math.log(ridge)
            width = math.sqrt(self.sigma**2 * (2 * math.log(1 / self.delta) + max(grown, 0.0)) + ridge)
        arms = range(len(contexts))
        est, norms = self.model.estimates(contexts, arms), self.model.norms(contexts, arms)
        return {a: est[a] + width * norms[a] for a in arms}


class LinearThompsonTwin(IndexTwin):
    """The estimate by a parameter drawn from N(theta_hat, v^2 V^-1)."""

    def __init__(
        self,
        dimension: int,
        budget: int,
        scale: float = 1.0,
        ridge: float = 1.0,
        *,
        seed: int,
        replication: int = 0,
    ) -> None:
        super().__init__(dimension, budget, ridge)
        self.scale, self.luck = scale, stream(replication_seed(seed, replication), "policy")

    def values(self, t: int) -> Numbers:
        contexts, row = self.contexts[t], row_of(self.luck, t)
        normals = np.array([normal(row, j) for j in range(contexts.shape[1])])
        factor = np.linalg.cholesky(self.model.gram())
        theta = self.model.theta() + self.scale * np.linalg.solve(factor.T, normals)
        return {a: float(theta @ contexts[a]) for a in range(len(contexts))}


class GuardedTwin(LinearTwin):
    """Adaptive C2UCB, the account of what slates can lose by the ellipsoid, and optimism where it is full."""

    def __init__(
        self,
        dimension: int,
        budget: int,
        *,
        delta: float,
        factor: float,
        norm_bound: float,
        sigma: float,
        certified: bool,
        ends: tuple[float, float],
        seed: int,
        replication: int = 0,
        bias: float = 0.0,
    ) -> None:
        self.d, self.budget, self.delta, self.factor, self.bias = dimension, budget, delta, factor, bias
        self.norm_bound, self.sigma, self.certified, (self.low, self.high) = norm_bound, sigma, certified, ends
        self.luck = stream(replication_seed(seed, replication), "policy")
        self.fixed = Ridge(dimension, max(sigma**2 * dimension / norm_bound**2, 1e-8))
        self.proposer, self.noise, self.next_fit = Ridge(dimension, self.fixed.ridge), sigma, 1
        self.contexts: dict[int, np.ndarray] = {}
        self.open: dict[int, list[int]] = {}
        self.spent = self.priced = 0.0
        self.forced = 0
        self.margins: dict[int, float] = {}

    def margin(self, t: int) -> float:
        return self.margins[t]

    def radius(self, grown: float, rewards: int) -> float:
        own = self.sigma**2 * (grown + 2 * math.log(1 / self.delta)) + self.fixed.ridge * self.norm_bound**2
        return math.sqrt(own) + self.bias * math.sqrt(rewards)

    def allowed(self, rounds: int) -> float:
        """F: the least of what can be lost at all, and the bound on what optimism loses."""
        pulls, rho = self.budget * rounds, self.high - self.low
        most = self.d * math.log(1 + pulls / (self.d * self.fixed.ridge))
        first = 2 * self.radius(most, pulls) * math.sqrt(most / math.log(2) * pulls) + 2 * self.bias * pulls
        return min(rho * pulls, first + rho * self.budget * most / math.log(2))

    def price(self, slate: list[int], lower: Numbers, upper: Numbers) -> float:
        """The best exchange: the S largest of lower ends inside and upper ends outside, minus the lower ends inside."""
        ends = sorted((lower[a] if a in slate else upper[a] for a in lower), reverse=True)
        return max(sum(ends[: self.budget]) - sum(lower[a] for a in slate), 0.0)

    def beliefs(self, x: np.ndarray) -> tuple[Numbers, Numbers]:
        """Estimates, and widths with the pulls that are on their way."""
        waiting = Ridge(self.d, self.proposer.ridge)
        waiting.x = np.vstack([self.proposer.x, *(self.contexts[s][slate] for s, slate in self.open.items())])
        return self.proposer.estimates(x, range(len(x))), waiting.norms(x, range(len(x)))

    def ends(self, x: np.ndarray) -> tuple[Numbers, Numbers]:
        """Lower and upper ends of all means."""
        return self.box(self.fixed, x, range(len(x)), 0.0)

    def box(self, model: Ridge, x: np.ndarray, arms: Collection[int], more: float) -> tuple[Numbers, Numbers]:
        grown = np.linalg.slogdet(model.gram())[1] - self.d * math.log(model.ridge)
        mid, wide = model.estimates(x, arms), model.norms(x, arms)
        reach, off = self.radius(max(grown, 0.0) + more, len(model.x)), self.bias
        lower = {a: max(self.low, mid[a] - reach * wide[a] - off) for a in arms}
        return lower, {a: min(self.high, mid[a] + reach * wide[a] + off) for a in arms}

    def select(  # type: ignore[override]
        self, t: int, contexts: np.ndarray, played: Collection[int] | None = None
    ) -> list[int]:
        x = self.contexts[t] = np.array(contexts, float)
        arms = range(len(x))
        est, norms = self.beliefs(x)
        share = float(uniform(row_of(self.luck, t), 0))
        width = share * self.noise * math.sqrt(math.log(t + 2))
        values = {a: est[a] + width * norms[a] for a in arms}
        slate = sorted(top(values, self.budget, played))
        margin = split(values, self.budget) if played is None else math.inf
        if self.certified:
            lower, upper = self.ends(x)
            price = self.price(slate, lower, upper)
            hair = 1e-6 * self.budget * (self.high - self.low)
            room = self.factor * self.allowed(t + 1) + hair - self.spent
            if price > TIE:
                margin = min(margin, abs(room - price) if len(x) > self.budget else math.inf)
            if price <= TIE or price <= room:
                self.spent += price
            else:
                self.forced += 1
                slate, other = self.forced_slate(t, x, lower, upper, played)
                margin = min(margin, other)
                price = self.price(slate, lower, upper)
            self.priced += price
        self.margins[t], self.open[t] = margin, slate
        return slate

    def forced_slate(
        self, t: int, x: np.ndarray, lower: Numbers, upper: Numbers, played: Collection[int] | None
    ) -> tuple[list[int], float]:
        slate = sorted(top(upper, self.budget, played))
        return slate, split(upper, self.budget) if played is None else math.inf

    def update(self, t: int, rewards: Numbers) -> None:
        del self.open[t]
        x, r = self.contexts[t][list(rewards)], [reward / self.unit for reward in rewards.values()]
        self.fixed.add(x, r)
        self.proposer.add(x, r)
        if self.proposer.r.size >= self.next_fit:
            self.fit(self.proposer.r.size)

    def fit(self, n: int) -> None:
        """A step of the ridge to where the rewards are more likely; the first time from a mean of half the range."""
        first, self.next_fit = self.next_fit == 1, max(n + 1, math.ceil(115 * n / 100))
        x, r = self.proposer.x, self.proposer.r
        length = max(float((x**2).sum()) / n, 1e-8)
        if first:
            self.proposer.ridge = self.expected_ridge(self.sigma**2, length)
        now = self.proposer.ridge
        self.proposer.ridge = self.likeliest(
            now, lambda ridge: self.surprise(x, r, np.full(self.d, ridge), length, ridge)
        )
        self.noise = math.sqrt(self.variance(x, r, np.full(self.d, self.proposer.ridge)))

    def expected_ridge(self, variance: float, length: float) -> float:
        return max(variance * length / ((self.high - self.low) / 2) ** 2, 1e-8)

    def likeliest(self, now: float, surprise: Callable[[float], float], most: float = math.inf) -> float:
        """Three times as large if that is better, a third if that is better, or as it is; at most so much."""
        now = min(now, most)
        more, less = min(3 * now, most), max(now / 3, 1e-8)
        if surprise(more) < surprise(now):
            return more
        return less if surprise(less) < surprise(now) else now

    def penalised(self, x: np.ndarray, r: np.ndarray, ridges: np.ndarray) -> float:
        """The least of squared residuals plus the penalty, and four rewards with the declared noise."""
        theta = np.linalg.solve(np.diag(ridges) + x.T @ x, x.T @ r)
        return float(np.sum((r - x @ theta) ** 2) + theta @ (ridges * theta)) + 4 * self.sigma**2

    def variance(self, x: np.ndarray, r: np.ndarray, ridges: np.ndarray) -> float:
        return min(self.sigma**2, self.penalised(x, r, ridges) / (r.size + 4))

    def surprise(self, x: np.ndarray, r: np.ndarray, ridges: np.ndarray, length: float, *own: float) -> float:
        """-2 ln of the likelihood of normal rewards and of the ridges, which are log-normal around what is expected."""
        variance = self.variance(x, r, ridges)
        grown = np.linalg.slogdet(np.diag(ridges) + x.T @ x)[1] - float(np.log(ridges).sum())
        fit = (r.size + 4) * math.log(variance) + self.penalised(x, r, ridges) / variance
        expected = math.log(variance * length / ((self.high - self.low) / 2) ** 2)
        return float(grown) + fit + sum(((expected - math.log(ridge)) / 2) ** 2 for ridge in own)

    def fitted(self, policy: Any) -> tuple[list[float], list[float]]:
        fit = policy._state.fit
        return [fit.noise, fit.ridge], [self.noise, self.proposer.ridge]

    def differs(self, policy: Any) -> str | None:
        book, (mine, theirs) = policy._state.book, self.fitted(policy)
        mine = [book.spent, book.total, book.forced, *mine]
        theirs = [self.spent, self.priced, self.forced, *theirs]
        return (
            None if np.allclose(mine, theirs, rtol=1e-6, atol=1e-6) else f"account and fit {mine} instead of {theirs}"
        )


class ByArmTwin(GuardedTwin):
    """The same with contexts lifted to K d dimensions, or d more where a part is shared, and a box for each arm."""

    def __init__(self, n_arms: int, dimension: int, budget: int, *, hybrid: bool, **about: Any) -> None:
        super().__init__(dimension, budget, **about)
        self.n_arms, self.shared = n_arms, dimension if hybrid else 0
        self.models = {a: Ridge(dimension, self.fixed.ridge) for a in range(n_arms)}
        self.ridges = self.fixed.ridge, self.fixed.ridge
        self.x, self.r = np.zeros((0, self.shared + n_arms * dimension)), np.zeros(0)

    def lift(self, arm: int, x: np.ndarray) -> np.ndarray:
        lifted = np.zeros(self.x.shape[1])
        lifted[: self.shared] = x[: self.shared]
        first = self.shared + arm * self.d
        lifted[first : first + self.d] = x
        return lifted

    def inverse(self) -> np.ndarray:
        return np.linalg.inv(np.diag(self.each(*self.ridges)) + self.x.T @ self.x)

    def beliefs(self, x: np.ndarray) -> tuple[Numbers, Numbers]:
        inverse = self.inverse()
        theta, lifted = inverse @ self.x.T @ self.r, {a: self.lift(a, row) for a, row in enumerate(x)}
        squares = {a: float(z @ inverse @ z) for a, z in lifted.items()}
        waits = {a: sum(a in slate for slate in self.open.values()) for a in lifted}
        norms = {a: math.sqrt(square / (1 + waits[a] * square)) for a, square in squares.items()}
        return {a: float(theta @ z) for a, z in lifted.items()}, norms

    def ends(self, x: np.ndarray) -> tuple[Numbers, Numbers]:
        boxes = [self.box(model, x, [a], 2 * math.log(self.n_arms)) for a, model in self.models.items()]
        return {a: low[a] for a, (low, _) in enumerate(boxes)}, {a: high[a] for a, (_, high) in enumerate(boxes)}

    def allowed(self, rounds: int) -> float:
        pulls, rho, whole = self.budget * rounds, self.high - self.low, self.n_arms * self.d
        most = whole * math.log(1 + pulls / (whole * self.fixed.ridge))
        one = self.d * math.log(1 + rounds / (self.d * self.fixed.ridge)) + 2 * math.log(self.n_arms)
        first = 2 * self.radius(one, rounds) * math.sqrt(most / math.log(2) * pulls) + 2 * self.bias * pulls
        return min(rho * pulls, first + rho * self.budget * most / math.log(2))

    def update(self, t: int, rewards: Numbers) -> None:
        del self.open[t]
        for arm, reward in rewards.items():
            x = self.contexts[t][arm]
            self.models[arm].add(x[None], [reward / self.unit])
            self.x, self.r = np.vstack([self.x, self.lift(arm, x)]), np.append(self.r, reward / self.unit)
        if self.r.size >= self.next_fit:
            self.fit(self.r.size)

    def fit(self, n: int) -> None:
        first, self.next_fit = self.next_fit == 1, max(n + 1, math.ceil(115 * n / 100))
        length = max(float(sum((model.x**2).sum() for model in self.models.values())) / n, 1e-8)
        if first:
            self.ridges = (self.expected_ridge(self.sigma**2, length),) * 2
        shared, own = self.ridges
        most = math.inf if self.shared else self.expected_ridge(self.noise**2, length)
        own = self.likeliest(own, lambda ridge: self.surprise_of(shared, ridge, length), most)
        if self.shared:
            shared = self.likeliest(shared, lambda ridge: self.surprise_of(ridge, own, length))
        self.ridges = shared, own
        self.noise = math.sqrt(self.variance(self.x, self.r, self.each(*self.ridges)))

    def surprise_of(self, shared: float, own: float, length: float) -> float:
        return self.surprise(self.x, self.r, self.each(shared, own), length, shared, own)

    def each(self, shared: float, own: float) -> np.ndarray:
        """The ridge of each coordinate."""
        return np.repeat((shared, own), [self.shared, self.n_arms * self.d])

    def fitted(self, policy: Any) -> tuple[list[float], list[float]]:
        own = policy._state.fit
        return [own.noise, own.ridge, *([own.shared_ridge] if self.shared else [])], [
            self.noise,
            self.ridges[1],
            *([self.ridges[0]] if self.shared else []),
        ]
