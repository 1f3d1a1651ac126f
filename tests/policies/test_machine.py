"""Any sequence of asks, tells, losses, refusals and saves leaves a policy consistent with what it was told.

There is one machine, for every policy of the list in conftest.py. Beside the policy it keeps the dumbest model: what
was told, and which decisions are open. A `Model` adds what more is known of a kind of policy.
"""

from __future__ import annotations

import math
import tempfile
from collections.abc import Callable
from functools import partial
from pathlib import Path
from typing import Any, NamedTuple

import numpy as np
import pytest
from hypothesis import settings
from hypothesis import strategies as st
from hypothesis.stateful import RuleBasedStateMachine, initialize, invariant, precondition, rule

from armtriage import (
    C2UCB,
    KLUCB,
    AlreadyTold,
    CombinatorialElimination,
    CombinatorialUCB,
    CombUCB1,
    Decision,
    FeedbackGraph,
    Greedy,
    GuardedLinear,
    HierarchicalElimination,
    LinearThompsonSampling,
    Policy,
    ThompsonSampling,
    UniformRandom,
    UnknownDecision,
)
from armtriage.kernels.normal import normal
from armtriage.kernels.random import row_of, stream
from armtriage.policies.guard.guarded import GuardedPolicy
from conftest import POLICIES, SIMPLE, Entry, columns_of
from twins import eligible, saved
from twins.cases import SETS

pytestmark = pytest.mark.thorough

GRAPHS = {
    "one": FeedbackGraph.semi_bandit(1),
    "semi": FeedbackGraph.semi_bandit(7),
    "full": FeedbackGraph.full_information(5),
    "cliques": FeedbackGraph.cliques([3, 1, 4]),
    "up": FeedbackGraph.threshold(6),
    "random": FeedbackGraph.erdos_renyi(12, 0.2, seed=3),
    "star": FeedbackGraph.from_edges(90, [(45, a) for a in range(90)], undirected=True),
    "wide": FeedbackGraph.cliques([60] * 5),
}
SIZES = [(6, 1, 2), (7, 2, 3), (5, 3, 5), (70, 5, 6), (40, 4, 1), (1, 1, 1)]
CONTEXTS = ("ball", "copies", "zeros", "short", "uneven", "signs", "line", "tiny")
PLACE = st.integers(0, 10**6)
LUCK = st.integers(0, 2**32 - 1)
EXACT = 1e-9


def make_contexts(kind: str, n_arms: int, d: int, rng: np.random.Generator) -> np.ndarray:
    """Contexts with norms of at most 1."""
    x = rng.normal(size=(n_arms, d))
    x *= rng.random((n_arms, 1)) / np.linalg.norm(x, axis=1, keepdims=True)
    if kind == "copies":
        return x[rng.integers(0, n_arms, n_arms)]
    if kind == "zeros":
        return x * (rng.random((n_arms, 1)) < 0.3)
    if kind == "short":
        return 0.02 * x  # narrow from the beginning: the later stages and the fill are reached
    if kind == "uneven":
        return x * 10.0 ** rng.uniform(-2, 0, (n_arms, 1))  # some are explored, others not
    if kind == "signs":
        return np.eye(d)[np.arange(n_arms) % d] * rng.choice([-1.0, 1.0], (n_arms, 1))
    if kind == "line":
        return x[:1] * rng.uniform(-1.0, 1.0, (n_arms, 1))
    if kind == "tiny":
        return x * 10.0 ** rng.uniform(-200, 0, (n_arms, 1))
    return x


def held(policy: Policy) -> dict[str, Any]:
    """All that a policy is made of, copied."""
    arrays = {name: array.copy() for name, array in (policy._arrays() | columns_of(policy.tally)).items()}
    for one in policy.open_decisions:
        arrays |= {f"arms {one.number}": one.arms, f"contexts {one.number}": one.contexts}
    return arrays | {"asked": np.array(policy._asked)}


def assert_same(left: dict[str, Any], right: dict[str, Any]) -> None:
    assert left.keys() == right.keys()
    for name in left:
        np.testing.assert_array_equal(left[name], right[name], err_msg=name)


class Model:
    """What is known of policies without contexts: the counts and sums of all that was told, and of what is open."""

    def __init__(self, policy: Any) -> None:
        self.policy, n = policy, policy.n_arms
        self.counts, self.sums, self.pending = np.zeros(n, np.int64), np.zeros(n), np.zeros(n, np.int64)

    def asked(self, decision: Decision, contexts: np.ndarray | None) -> None:
        self.pending[decision.revealed] += 1

    def told(self, decision: Decision, arms: np.ndarray, rewards: np.ndarray) -> None:
        self.pending[decision.revealed] -= 1
        self.counts[arms] += 1
        self.sums[arms] += rewards

    def check(self) -> None:
        arrays, n = saved(self.policy), self.policy.n_arms
        np.testing.assert_array_equal(self.policy.tally.counts, self.counts)
        np.testing.assert_array_equal(self.policy.tally.sums, self.sums)
        for name, mine in (("counts", self.counts), ("sums", self.sums), ("pending", self.pending)):
            if name in arrays:
                np.testing.assert_array_equal(arrays[name][:n], mine)


class TwinModel(Model):
    """A slow twin says what the next decision must be, and what the policy has learned."""

    def __init__(self, policy: Any, twin: Any) -> None:
        super().__init__(policy)
        self.twin = twin

    def asked(self, decision: Decision, contexts: np.ndarray | None) -> None:
        super().asked(decision, contexts)
        assert self.twin.judge(decision.number, decision.arms.tolist()) is None

    def told(self, decision: Decision, arms: np.ndarray, rewards: np.ndarray) -> None:
        super().told(decision, arms, rewards)
        self.twin.update(decision.number, dict(zip(arms.tolist(), rewards.tolist(), strict=True)))

    def check(self) -> None:
        super().check()
        assert self.twin.differs(self.policy) is None


def indexed(policy: Any) -> Model:
    scale = {
        CombUCB1: lambda t: math.sqrt(getattr(policy, "exploration", 0.0) * math.log(t + 1.0)),
        CombinatorialUCB: lambda t: policy.width,
        Greedy: lambda t: 0.0,
    }[type(policy)]

    def index(number: int, mean: float, count: float, between: float) -> float:
        return mean + scale(number) * (1.0 / math.sqrt(count))

    return of_all_arms(policy, partial(eligible.Index, index=index))


def drawn(policy: Any) -> Model:
    return of_all_arms(policy, eligible.Thompson)


def shuffled(policy: Any) -> Model:
    return of_all_arms(policy, eligible.Random)


def of_all_arms(policy: Any, twin: Callable[..., Any]) -> Model:
    return TwinModel(policy, eligible.AllArms(twin(policy.graph, policy.budget, seed=policy.seed)))


class Sorting(Model):
    """Policies that sort arms: a confirmed arm is always played, an eliminated one never, and a slate is left."""

    def __init__(self, policy: Any) -> None:
        super().__init__(policy)
        self.before = policy.triage

    def asked(self, decision: Decision, contexts: np.ndarray | None) -> None:
        super().asked(decision, contexts)
        confirmed, _, eliminated = self.before
        chosen = set(decision.arms.tolist())
        # A guard admits what its proposer wants while the account allows it, and may pull an eliminated arm that
        # shows others; it sorts by itself only in the rounds of elimination, which the twins follow.
        if isinstance(self.policy, GuardedPolicy):
            return
        assert not chosen & set(eliminated.tolist())
        if confirmed.size <= self.policy.budget:
            assert set(confirmed.tolist()) <= chosen

    def check(self) -> None:
        super().check()
        self.before = sets = self.policy.triage
        assert np.sort(np.concatenate(sets)).tolist() == list(range(self.policy.n_arms))
        assert sets.confirmed.size + sets.active.size >= self.policy.budget
        assert getattr(self.policy, "variant", "") == "paper" or sets.confirmed.size <= self.policy.budget
        log = self.policy.triage_log()
        assert sorted(log.arms[log.confirmed].tolist()) == sets.confirmed.tolist()
        assert sorted(log.arms[~log.confirmed].tolist()) == sets.eliminated.tolist()


class Eliminating(Sorting):
    """Elimination also keeps, beside its arrays, how many arms lag behind and wait."""

    def check(self) -> None:
        super().check()
        inside = counters(self.policy)
        assert inside["underway"] == self.pending.sum()
        tries = (self.counts + self.policy._evidence.credit[: self.policy.n_arms])[self.policy.triage.active]
        assert inside["lagging"] == np.count_nonzero(tries == inside["least"])
        layer = self.policy._own.sets.layer
        waiting = layer.waiting
        blocks = np.add.reduceat(waiting, np.arange(0, self.policy.n_arms, 256), dtype=np.int64)
        assert inside["waiting"] == waiting.sum()
        assert layer.crowd[: blocks.size].tolist() == blocks.tolist()


def counters(policy: Any) -> dict[str, int]:
    """The numbers that elimination keeps up instead of counting: the only private state that this file reads."""
    sets = policy._own.sets
    inside = {"underway": sets.underway, "lagging": sets.n_lagging, "least": sets.least}
    return inside | {"waiting": sets.layer.n_waiting}


class Fact(NamedTuple):
    """A reward that was told, in units of the policy, and the regression that it went to (-1 if to none)."""

    context: np.ndarray
    reward: float
    home: int


class Regressing(Model):
    """Policies with contexts: a list of what was told, from which every regression is computed anew."""

    everything: int | None = 0  # the regression that every reward goes to

    def __init__(self, policy: Any) -> None:
        self.policy, self.prior = policy, float(getattr(policy, "ridge", 1.0))
        self.facts: list[Fact] = []
        self.columns: tuple[np.ndarray, ...] = (np.zeros((0, policy.dimension)), np.zeros(0), np.zeros(0))
        self.homes: dict[int, list[int]] = {}

    def batch(self, model: int = 0) -> tuple[np.ndarray, np.ndarray]:
        """The Gram matrix and the moment of all that went to a regression."""
        if len(self.columns[1]) != len(self.facts):
            self.columns = tuple(np.array(column) for column in zip(*self.facts, strict=True))
        x, r, home = self.columns
        mine = (home == model) | (model == self.everything)
        return self.prior * np.eye(self.policy.dimension) + x[mine].T @ x[mine], x[mine].T @ r[mine]

    def asked(self, decision: Decision, contexts: np.ndarray | None) -> None:
        assert contexts is not None
        self.judge(decision.number, contexts / self.policy.context_bound, decision.arms)
        self.homes[decision.number] = self.homes_of(decision.arms)

    def judge(self, number: int, contexts: np.ndarray, arms: np.ndarray) -> None:
        """Compare a decision with the model."""
        raise NotImplementedError

    def homes_of(self, arms: np.ndarray) -> list[int]:
        """Where the rewards of the last decision's arms will go."""
        return [0] * arms.size

    def told(self, decision: Decision, arms: np.ndarray, rewards: np.ndarray) -> None:
        assert decision.contexts is not None
        places = np.searchsorted(decision.arms, arms)
        contexts, homes = decision.contexts / self.policy.context_bound, self.homes.pop(decision.number)
        units = rewards / self.policy.reward_unit
        self.facts += [Fact(contexts[i], units[j], homes[i]) for j, i in enumerate(places)]

    def assert_best(self, values: np.ndarray, arms: np.ndarray) -> None:
        """No other arm has a value that is clearly larger, or the same and a smaller number."""
        rest = np.setdiff1d(np.arange(self.policy.n_arms), arms)
        if rest.size:
            assert values[arms].min() >= values[rest].max() - EXACT * (1.0 + np.abs(values).max())

    def check(self) -> None:
        ridge = {name.removeprefix("ridge."): array for name, array in saved(self.policy).items()}
        for model in range(ridge["gram"].shape[0]):
            gram, moment = self.batch(model)
            found = ridge["gram"][model] + (ridge["carry"][model] + ridge["recent"][model])
            np.testing.assert_allclose(found, gram, rtol=1e-12, atol=1e-12)
            found = ridge["moment"][model] + ridge["moment_carry"][model]
            np.testing.assert_allclose(found, moment, rtol=1e-12, atol=1e-12)
        for model in self.inverted():
            gram, _ = self.batch(model)
            inverse = ridge["inverse"][model]
            np.testing.assert_array_equal(inverse, inverse.T)
            expected = np.linalg.inv(gram)
            np.testing.assert_allclose(inverse, expected, rtol=1e-8, atol=1e-10 * expected.max())
            grown = np.linalg.slogdet(gram / self.prior)[1]
            np.testing.assert_allclose(ridge["log_det"][model], grown, rtol=1e-9, atol=1e-9)

    def inverted(self) -> range:
        """The regressions whose inverse is kept up."""
        return range(0)


class Bounding(Regressing):
    def judge(self, number: int, contexts: np.ndarray, arms: np.ndarray) -> None:
        policy, (gram, moment) = self.policy, self.batch()
        low, high = policy.reward_range
        sigma = ((high - low) / 2 if policy.noise_scale is None else policy.noise_scale) / policy.reward_unit
        grown = np.linalg.slogdet(gram / policy.ridge)[1]
        width = math.sqrt(sigma**2 * (grown + 2 * math.log(1 / policy.delta)) + policy.ridge)
        width = width if policy.width is None else policy.width
        norms = np.sqrt(np.einsum("ij,ji->i", contexts, np.linalg.solve(gram, contexts.T)))
        self.assert_best(contexts @ np.linalg.solve(gram, moment) + width * norms, arms)

    def inverted(self) -> range:
        return range(1)


class Drawing(Regressing):
    def judge(self, number: int, contexts: np.ndarray, arms: np.ndarray) -> None:
        policy, (gram, moment) = self.policy, self.batch()
        low, high = policy.reward_range
        scale = next((one for one in (policy.scale, policy.noise_scale) if one is not None), (high - low) / 2)
        luck = row_of(stream(policy.seed, "policy"), number)
        draw = np.array([normal(luck, j) for j in range(policy.dimension)])
        spread = np.linalg.solve(np.linalg.cholesky(gram).T, draw)
        self.assert_best(contexts @ (np.linalg.solve(gram, moment) + scale / policy.reward_unit * spread), arms)


class Staged(Regressing):
    def __init__(self, policy: Any) -> None:
        super().__init__(policy)
        self.everything = policy.stages if policy.variant == "tight" else None

    def judge(self, number: int, contexts: np.ndarray, arms: np.ndarray) -> None:
        policy, found = self.policy, self.policy.triage
        chosen = np.concatenate([found.explored, found.confirmed, found.filled])
        assert np.sort(chosen).tolist() == arms.tolist()
        assert not set(found.eliminated.tolist()) & set(arms.tolist())
        assert np.all(found.stages[found.filled] == 0)
        decided = np.concatenate([found.explored, found.confirmed, found.eliminated])
        assert np.all((found.stages[decided] >= 1) & (found.stages[decided] <= policy.stages))
        # Arms that were explored are too wide for their stage, and those that went on or were judged are not.
        for stage in range(1, policy.stages + 1):
            gram, moment = self.batch(stage - 1)
            norms = np.sqrt(np.einsum("ij,ji->i", contexts, np.linalg.solve(gram, contexts.T)))
            widths = policy.params().multiple * norms
            explored = found.explored[found.stages[found.explored] == stage]
            judged = decided[~np.isin(decided, found.explored) & (found.stages[decided] == stage)]
            assert np.all(widths[explored] > 0.5**stage - EXACT)
            assert np.all(widths[judged] <= 0.5**stage + EXACT)
            assert np.all(widths[found.filled] <= 0.5**stage + EXACT)
            if policy.variant != "tight" and judged.size:
                estimates = contexts @ np.linalg.solve(gram, moment)
                confirmed = np.isin(judged, found.confirmed)
                best, worst = estimates[judged[~confirmed]], estimates[judged[confirmed]]
                assert best.max(initial=-2.0) + 6.0 * 0.5**stage < worst.min(initial=9.0)

    def homes_of(self, arms: np.ndarray) -> list[int]:
        policy, found = self.policy, self.policy.triage
        homes = dict.fromkeys(arms.tolist(), -1)
        homes |= {arm: int(found.stages[arm]) - 1 for arm in found.explored.tolist()}
        shift = {"paper": 1, "tight": 0}.get(policy.variant)
        if shift is not None:
            later = {arm: int(found.stages[arm]) - shift for arm in found.confirmed.tolist()}
            homes |= {arm: home for arm, home in later.items() if home < policy.stages}
        return [homes[arm] for arm in arms.tolist()]

    def inverted(self) -> range:
        return range(self.policy.stages)


class Guarding(Regressing):
    """Both inverses are those of the sums, the second one with the pulls that are open, and the account is kept."""

    def __init__(self, policy: Any) -> None:
        super().__init__(policy)
        self.prior = policy._ridge

    def judge(self, number: int, contexts: np.ndarray, arms: np.ndarray) -> None:
        account, book = self.policy.account, self.policy._state.book
        hair = 1e-6 * self.policy.budget * (self.policy.reward_range[1] - self.policy.reward_range[0])
        assert account.spent <= account.allowed + hair + 1e-9
        assert 0.0 <= book.spent <= book.total + 1e-9
        assert account.forced_rounds <= number + 1

    def check(self) -> None:
        super().check()
        policy, fit = self.policy, self.policy._state.fit
        waiting = [one.contexts / policy.context_bound for one in policy.open_decisions]
        assert fit.pending.tolist() == [sum(map(len, waiting))]
        gram = self.batch()[0] + (fit.ridge - self.prior) * np.eye(policy.dimension)
        kept = [(fit.inverse[0], gram)]
        if waiting and not fit.stale:
            kept.append((fit.open_inverse, gram + np.vstack(waiting).T @ np.vstack(waiting)))
        for inverse, whole in kept:
            expected = np.linalg.inv(whole)
            np.testing.assert_allclose(inverse, expected, rtol=1e-7, atol=1e-9 * expected.max())

    def inverted(self) -> range:
        return range(int(self.policy.certified))


class GuardingByArm(Guarding):
    """A regression for each arm."""

    everything = None

    def homes_of(self, arms: np.ndarray) -> list[int]:
        return arms.tolist()  # type: ignore[no-any-return]

    def inverted(self) -> range:
        return range(self.policy.n_arms if self.policy.certified else 0)

    def check(self) -> None:
        Regressing.check(self)
        policy, own = self.policy, self.policy._state.fit
        waiting = np.concatenate([np.empty(0, np.int64), *(one.arms for one in policy.open_decisions)])
        assert own.pending.tolist() == np.bincount(waiting, minlength=policy.n_arms).tolist()
        for arm in range(policy.n_arms):
            gram, moment = self.batch(arm)
            expected = np.linalg.inv(gram + (own.ridge - self.prior) * np.eye(policy.dimension))
            np.testing.assert_allclose(own.inverse[arm], expected, rtol=1e-7, atol=1e-9 * expected.max())
            np.testing.assert_allclose(own.base[arm], expected @ moment, rtol=1e-6, atol=1e-8)


def guarding(policy: Any) -> Guarding:
    return Guarding(policy) if policy.model == "shared" else GuardingByArm(policy)


MODELS: dict[type[Policy], Any] = {
    CombUCB1: indexed,
    CombinatorialUCB: indexed,
    Greedy: indexed,
    KLUCB: Model,
    ThompsonSampling: drawn,
    UniformRandom: shuffled,
    CombinatorialElimination: Eliminating,
    C2UCB: Bounding,
    GuardedLinear: guarding,
    LinearThompsonSampling: Drawing,
    HierarchicalElimination: Staged,
}


def model_of(policy: Any) -> Model:
    if policy.decisions is not None:
        return Model(policy)
    made: Model = MODELS.get(type(policy), Sorting)(policy)
    return made


class Machine(RuleBasedStateMachine):
    """A policy beside its model."""

    entry: Entry

    def __init__(self) -> None:
        super().__init__()
        self.folder = tempfile.TemporaryDirectory()

    def teardown(self) -> None:
        self.folder.cleanup()

    @initialize(place=PLACE, size=PLACE, seed=st.integers(0, 5), units=st.booleans())
    def begin(self, place: int, size: int, seed: int, units: bool) -> None:
        more: dict[str, Any] = {}
        if self.entry.face == "contexts":
            more = dict(zip(("n_arms", "dimension", "budget"), SIZES[place % len(SIZES)], strict=True))
            if units:
                more |= {"reward_range": (-3.0, 4.0), "context_bound": 2.5}
        elif self.entry.face == "set":
            decisions = list(SETS.values())[place % len(SETS)]
            graph = FeedbackGraph.erdos_renyi(decisions.n_arms, 0.15 * (size % 3), seed=1)
            more = {"decisions": decisions, "graph": graph}
        else:
            graph = list(GRAPHS.values())[place % len(GRAPHS)]
            more = {"graph": graph, "budget": min(graph.n_arms, (1, 2, 3, graph.n_arms)[size % 4])}
        self.policy: Any = self.entry.make(seed, **more)
        self.model = model_of(self.policy)
        self.open: dict[int, Decision] = {}
        self.closed: list[int] = []

    @property
    def asked(self) -> int:
        return len(self.open) + len(self.closed)

    @rule(kind=st.sampled_from(CONTEXTS), luck=LUCK)
    def ask(self, kind: str, luck: int) -> None:
        decision = self.ask_with_contexts(kind, luck) if self.entry.face == "contexts" else self.policy.ask()
        arms = decision.arms
        assert decision.number == self.asked
        assert np.all(np.diff(arms) > 0)
        assert np.all((arms >= 0) & (arms < self.policy.n_arms))
        if self.policy.decisions is None:
            assert arms.shape == (self.policy.budget,)
            if self.entry.face == "arms":
                self.model.asked(decision, None)
        else:
            assert self.policy.decisions.contains(arms)
            self.model.asked(decision, None)
        self.open[decision.number] = decision

    def ask_with_contexts(self, kind: str, luck: int) -> Decision:
        policy = self.policy
        given = policy.context_bound * make_contexts(kind, policy.n_arms, policy.dimension, np.random.default_rng(luck))
        kept = given.copy()
        decision: Decision = policy.ask(given)
        np.testing.assert_array_equal(given, kept)
        given[:] = 0.5
        np.testing.assert_array_equal(decision.contexts, kept[decision.arms])
        self.model.asked(decision, kept)
        return decision

    @precondition(lambda self: self.entry.face == "contexts")
    @rule(luck=LUCK)
    def ask_what_is_refused(self, luck: int) -> None:
        policy, rng = self.policy, np.random.default_rng(luck)
        before = held(policy)
        contexts = policy.context_bound * make_contexts("ball", policy.n_arms, policy.dimension, rng)
        arm = rng.integers(policy.n_arms)
        contexts[arm, rng.integers(policy.dimension)] = rng.choice([math.nan, math.inf, -1.01 * policy.context_bound])
        for bad in (contexts, contexts[:, :-1], contexts[:-1], contexts[arm], None, "x", [[1.0], [1.0, 2.0]]):
            with pytest.raises((TypeError, ValueError)):
                policy.ask(bad)
        assert_same(held(policy), before)

    def pick(self, place: int) -> Decision:
        return list(self.open.values())[place % len(self.open)]

    def learn(self, decision: Decision, arms: np.ndarray, luck: int, by_number: bool = False) -> None:
        """Tell the rewards of some of a decision's revealed arms."""
        rewards = self.rewards(arms, luck)
        given: Any = rewards
        if arms.size < decision.revealed.size or luck % 3 == 0:
            given = dict(sorted(zip(arms.tolist(), rewards.tolist(), strict=True), reverse=True))
        self.policy.tell(decision.number if by_number else decision, given)
        self.model.told(decision, arms, rewards)
        del self.open[decision.number]
        self.closed.append(decision.number)

    def rewards(self, arms: np.ndarray, luck: int) -> np.ndarray:
        """Quarters, whose sums are exact; or clear cases, in which the first or the last arms alone pay."""
        low, high = self.policy.reward_range
        if self.entry.face == "contexts":
            rng = np.random.default_rng(luck)
            return rng.choice([low, 0.0, high / 2, high, rng.uniform(low, high)], arms.size)
        if luck % 4 == 1:
            return (arms < self.policy.budget).astype(np.float64)
        if luck % 4 == 2:
            return (arms < max(1, self.policy.budget - 1)).astype(np.float64)
        if luck % 4 == 3:
            return (arms > self.policy.n_arms - 1 - self.policy.budget).astype(np.float64)
        return np.random.default_rng(luck).integers(0, 5, arms.size) / 4

    @precondition(lambda self: self.open)
    @rule(place=PLACE, luck=LUCK, by_number=st.booleans())
    def tell_all(self, place: int, luck: int, by_number: bool) -> None:
        decision = self.pick(place)
        self.learn(decision, decision.revealed, luck, by_number)

    @precondition(lambda self: self.open)
    @rule(place=PLACE, luck=LUCK)
    def tell_some(self, place: int, luck: int) -> None:
        decision = self.pick(place)
        self.learn(decision, decision.revealed[np.random.default_rng(luck).random(decision.revealed.size) < 0.5], luck)

    @precondition(lambda self: self.open)
    @rule(place=PLACE)
    def lose(self, place: int) -> None:
        self.learn(self.pick(place), np.zeros(0, np.int64), 0)

    @rule(rounds=st.integers(1, 25), luck=LUCK)
    def play(self, rounds: int, luck: int) -> None:
        """Ask, and tell some decision, whole or in part; now and then none."""
        rng, tidy = np.random.default_rng(luck), luck % 2 == 0
        for step in range(rounds):
            self.ask(CONTEXTS[rng.integers(len(CONTEXTS))], luck + step)
            decision = self.open[max(self.open)] if tidy else self.pick(int(rng.integers(10**6)))
            if tidy or rng.random() < 0.9:
                kept = rng.random(decision.revealed.size) < (1.0 if tidy or rng.random() < 0.5 else 0.6)
                self.learn(decision, decision.revealed[kept], luck + 4 * step)

    @precondition(lambda self: isinstance(self.model, Sorting))
    @rule(rounds=st.integers(50, 150), luck=LUCK)
    def play_long(self, rounds: int, luck: int) -> None:
        self.play(rounds, 2 * (luck // 2))

    @precondition(lambda self: isinstance(self.model, Staged) and self.policy.dimension <= 2 and self.asked < 1000)
    @rule(luck=LUCK)
    def settle(self, luck: int) -> None:
        """Tell so many rewards of long contexts that arms can be told apart."""
        policy, rng = self.policy, np.random.default_rng(luck)
        theta = np.linspace(0.75, 0.5, policy.dimension) * policy.reward_unit / policy.context_bound
        for _ in range(2000 // policy.budget):
            contexts = policy.context_bound * make_contexts("signs", policy.n_arms, policy.dimension, rng)
            decision = policy.ask(contexts)
            self.model.homes[decision.number] = self.model.homes_of(decision.arms)
            rewards = contexts[decision.arms] @ theta
            policy.tell(decision, rewards)
            self.model.told(decision, decision.arms, rewards)
            self.closed.append(decision.number)

    @rule(place=PLACE, ahead=st.integers(0, 3))
    def tell_of_no_open_decision(self, place: int, ahead: int) -> None:
        before = held(self.policy)
        with pytest.raises(UnknownDecision):
            self.policy.tell(self.asked + ahead, {})
        if self.closed:
            with pytest.raises(AlreadyTold):
                self.policy.tell(self.closed[place % len(self.closed)], {})
        assert_same(held(self.policy), before)

    @precondition(lambda self: self.open)
    @rule(place=PLACE, bad=st.sampled_from([math.nan, math.inf, -4.25, 4.25, "x", None]), where=PLACE)
    def tell_a_bad_reward(self, place: int, bad: Any, where: int) -> None:
        decision, before = self.pick(place), held(self.policy)
        arms = decision.revealed.tolist()
        rewards: dict[int, Any] = dict.fromkeys(arms, 0.5)
        strange = {**rewards, self.policy.n_arms: 0.5}
        if arms:
            rewards[arms[where % len(arms)]] = bad
        for given in (rewards, list(rewards.values()), strange) if arms else (strange,):
            with pytest.raises((TypeError, ValueError)):
                self.policy.tell(decision, given)
        assert_same(held(self.policy), before)

    @rule()
    def save_and_load(self) -> None:
        path = Path(self.folder.name, "policy")
        self.policy.save(path)
        loaded = Policy.load(path)
        assert_same(held(loaded), held(self.policy))
        self.policy = self.model.policy = loaded

    @invariant()
    def open_decisions_are_those_not_told(self) -> None:
        found = self.policy.open_decisions
        assert [one.number for one in found] == sorted(self.open)
        for one in found:
            np.testing.assert_array_equal(one.arms, self.open[one.number].arms)
            np.testing.assert_array_equal(one.contexts, self.open[one.number].contexts)

    @invariant()
    def policy_is_as_its_model(self) -> None:
        self.model.check()


def run_machine(name: str, examples: int) -> None:
    machine = type(f"Machine of {name}", (Machine,), {"entry": POLICIES[name]})
    case = machine.TestCase
    case.settings = settings(max_examples=examples, stateful_step_count=20, derandomize=True, database=None)
    case("runTest").runTest()


@pytest.mark.parametrize("name", POLICIES)
def test_policy_is_consistent_with_what_it_was_told(name: str) -> None:
    run_machine(name, 4 if name in SIMPLE else 2)


@pytest.mark.long
@pytest.mark.parametrize("name", POLICIES)
def test_policy_is_consistent_with_what_it_was_told_in_many_more_ways(name: str) -> None:
    run_machine(name, 40)
