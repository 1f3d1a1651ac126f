"""Any sequence of asks, tells, losses, refusals and saves leaves a contextual policy with what it was told, no more."""

from __future__ import annotations

import math
import tempfile
from pathlib import Path
from typing import Any, NamedTuple

import numpy as np
import pytest
from hypothesis import settings
from hypothesis import strategies as st
from hypothesis.stateful import RuleBasedStateMachine, initialize, invariant, precondition, rule

from armtriage import (
    C2UCB,
    AlreadyTold,
    ContextualPolicy,
    Decision,
    HierarchicalElimination,
    LinearThompsonSampling,
    Policy,
    UnknownDecision,
)
from armtriage.kernels.normal import normal
from armtriage.kernels.random import row_of, stream

SETTINGS = settings(max_examples=25, stateful_step_count=20, deadline=None, derandomize=True, database=None)
PLACE = st.integers(0, 10**6)
LUCK = st.integers(0, 2**32 - 1)
SIZES = [(6, 1, 2), (7, 2, 3), (5, 3, 5), (70, 5, 6), (40, 4, 1), (1, 1, 1)]
EXACT = 1e-9
KINDS = ("ball", "copies", "zeros", "short", "uneven", "signs", "line", "tiny")


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


class Fact(NamedTuple):
    """A reward that was told, in units of the policy, and the regression that it went to (-1 if to none)."""

    context: np.ndarray
    reward: float
    home: int


class Asked(NamedTuple):
    """An open decision, and where its rewards will go."""

    decision: Decision
    homes: list[int]


def held(policy: Any) -> dict[str, Any]:
    """All that a policy is made of, copied."""
    arrays = {name: array.copy() for name, array in policy._arrays().items()}
    for one in policy.open_decisions:
        arrays |= {f"arms {one.number}": one.arms, f"contexts {one.number}": one.contexts}
    return arrays | {"asked": np.array(policy._asked)}


def assert_same(left: dict[str, Any], right: dict[str, Any]) -> None:
    assert left.keys() == right.keys()
    for name in left:
        np.testing.assert_array_equal(left[name], right[name], err_msg=name)


class Machine(RuleBasedStateMachine):
    """A policy beside the dumbest model: a list of what was told, from which everything is computed anew."""

    kind: type[ContextualPolicy]
    options: tuple[dict[str, Any], ...] = ({},)

    def __init__(self) -> None:
        super().__init__()
        self.folder = tempfile.TemporaryDirectory()

    def teardown(self) -> None:
        self.folder.cleanup()

    @initialize(size=st.sampled_from(SIZES), which=PLACE, seed=st.integers(0, 5), units=st.booleans())
    def begin(self, size: tuple[int, int, int], which: int, seed: int, units: bool) -> None:
        options = dict(self.options[which % len(self.options)])
        if units:
            options |= {"reward_range": (-3.0, 4.0), "context_bound": 2.5}
        self.n_arms, self.dimension, self.budget = size
        self.policy: Any = self.kind(*size, seed=seed, **options)
        self.unit, self.bound = (4.0, 2.5) if units else (1.0, 1.0)
        self.lowest = -0.75 if units else -1.0
        self.open: dict[int, Asked] = {}
        self.told: list[int] = []
        self.facts: list[Fact] = []
        self.columns: tuple[np.ndarray, ...] = (np.zeros((0, size[1])), np.zeros(0), np.zeros(0))
        self.everything: int | None = 0  # the regression that every reward goes to

    @property
    def asked(self) -> int:
        return len(self.open) + len(self.told)

    # --- The model ---
    def batch(self, model: int = 0) -> tuple[np.ndarray, np.ndarray]:
        """The Gram matrix and the moment of all that went to a regression."""
        if len(self.columns[1]) != len(self.facts):
            self.columns = tuple(np.array(column) for column in zip(*self.facts, strict=True))
        x, r, home = self.columns
        mine = (home == model) | (model == self.everything)
        x, r = x[mine], r[mine]
        return self.prior() * np.eye(self.dimension) + x.T @ x, x.T @ r

    def prior(self) -> float:
        return float(getattr(self.policy, "ridge", 1.0))

    def check(self, contexts: np.ndarray, arms: np.ndarray) -> None:
        """Compare a decision with the model."""
        raise NotImplementedError

    def homes(self, arms: np.ndarray) -> list[int]:
        """Where the rewards of the last decision's arms will go."""
        return [0] * self.budget

    def assert_best(self, values: np.ndarray, arms: np.ndarray) -> None:
        """No other arm has a value that is clearly larger, or the same and a smaller number."""
        rest = np.setdiff1d(np.arange(self.n_arms), arms)
        if rest.size:
            assert values[arms].min() >= values[rest].max() - EXACT * (1.0 + np.abs(values).max())

    # --- Rules ---
    @rule(kind=st.sampled_from(KINDS), luck=LUCK)
    def ask(self, kind: str, luck: int) -> None:
        contexts = make_contexts(kind, self.n_arms, self.dimension, np.random.default_rng(luck))
        given = self.bound * contexts
        kept = given.copy()
        decision = self.policy.ask(given)
        np.testing.assert_array_equal(given, kept)
        given[:] = 0.5
        arms = decision.arms
        assert decision.number == self.asked
        assert arms.shape == (self.budget,)
        assert np.all(np.diff(arms) > 0)
        assert 0 <= arms[0] <= arms[-1] < self.n_arms
        np.testing.assert_array_equal(decision.contexts, kept[arms])
        self.check(kept / self.bound, arms)
        self.open[decision.number] = Asked(decision, self.homes(arms))

    @rule(luck=LUCK)
    def ask_what_is_refused(self, luck: int) -> None:
        before, rng = held(self.policy), np.random.default_rng(luck)
        contexts = self.bound * make_contexts("ball", self.n_arms, self.dimension, rng)
        arm = rng.integers(self.n_arms)
        contexts[arm, rng.integers(self.dimension)] = rng.choice([math.nan, math.inf, -1.01 * self.bound])
        for bad in (contexts, contexts[:, :-1], contexts[:-1], contexts[arm], None, "x", [[1.0], [1.0, 2.0]]):
            with pytest.raises((TypeError, ValueError)):
                self.policy.ask(bad)
        assert_same(held(self.policy), before)

    def pick(self, place: int) -> Decision:
        return list(self.open.values())[place % len(self.open)].decision

    def learn(self, decision: Decision, places: np.ndarray, luck: int, by_number: bool = False) -> None:
        """Tell the rewards of some of a decision's arms."""
        rng, one = np.random.default_rng(luck), self.open[decision.number]
        assert one.decision.contexts is not None
        rewards = rng.choice([self.lowest, 0.0, 0.5, 1.0, rng.uniform(self.lowest, 1.0)], places.size)
        given: Any = self.unit * rewards
        if places.size < self.budget or luck % 3 == 0:
            arms = decision.arms[places].tolist()
            given = dict(sorted(zip(arms, given.tolist(), strict=True), reverse=True))
        self.policy.tell(decision.number if by_number else decision, given)
        contexts = one.decision.contexts / self.bound
        self.facts += [Fact(contexts[i], rewards[j], one.homes[i]) for j, i in enumerate(places)]
        del self.open[decision.number]
        self.told.append(decision.number)

    @precondition(lambda self: self.open)
    @rule(place=PLACE, luck=LUCK, by_number=st.booleans())
    def tell_all(self, place: int, luck: int, by_number: bool) -> None:
        self.learn(self.pick(place), np.arange(self.budget), luck, by_number)

    @precondition(lambda self: self.open)
    @rule(place=PLACE, luck=LUCK)
    def tell_some(self, place: int, luck: int) -> None:
        places = np.flatnonzero(np.random.default_rng(luck).random(self.budget) < 0.5)
        self.learn(self.pick(place), places, luck)

    @precondition(lambda self: self.open)
    @rule(place=PLACE)
    def lose(self, place: int) -> None:
        self.learn(self.pick(place), np.zeros(0, np.int64), 0)

    @rule(rounds=st.integers(1, 25), luck=LUCK)
    def play(self, rounds: int, luck: int) -> None:
        """Ask, and tell some decision, whole or in part; now and then none."""
        rng = np.random.default_rng(luck)
        for step in range(rounds):
            self.ask(KINDS[rng.integers(len(KINDS))], luck + step)
            if rng.random() < 0.9:
                whole, order = rng.random() < 0.5, np.arange(self.budget)
                places = order if whole else np.flatnonzero(rng.random(self.budget) < 0.6)
                self.learn(self.pick(int(rng.integers(10**6))), places, luck + step)

    @rule(place=PLACE, ahead=st.integers(0, 3))
    def tell_of_no_open_decision(self, place: int, ahead: int) -> None:
        before = held(self.policy)
        with pytest.raises(UnknownDecision):
            self.policy.tell(self.asked + ahead, {})
        if self.told:
            with pytest.raises(AlreadyTold):
                self.policy.tell(self.told[place % len(self.told)], {})
        assert_same(held(self.policy), before)

    @precondition(lambda self: self.open)
    @rule(place=PLACE, bad=st.sampled_from([math.nan, math.inf, -4.25, 4.25, "x", None]), where=PLACE)
    def tell_a_bad_reward(self, place: int, bad: Any, where: int) -> None:
        decision, before = self.pick(place), held(self.policy)
        arms = decision.arms.tolist()
        rewards: dict[int, Any] = dict.fromkeys(arms, 0.5)
        rewards[arms[where % len(arms)]] = bad
        for given in (rewards, list(rewards.values()), {**dict.fromkeys(arms, 0.5), self.n_arms: 0.5}):
            with pytest.raises((TypeError, ValueError)):
                self.policy.tell(decision, given)
        assert_same(held(self.policy), before)

    @rule()
    def save_and_load(self) -> None:
        path = Path(self.folder.name, "policy")
        self.policy.save(path)
        loaded = Policy.load(path)
        assert_same(held(loaded), held(self.policy))
        self.policy = loaded

    # --- Invariants ---
    @invariant()
    def open_decisions_are_those_not_told(self) -> None:
        found = self.policy.open_decisions
        assert [one.number for one in found] == sorted(self.open)
        for one in found:
            asked = self.open[one.number].decision
            np.testing.assert_array_equal(one.arms, asked.arms)
            np.testing.assert_array_equal(one.contexts, asked.contexts)

    @invariant()
    def sums_are_what_was_told(self) -> None:
        ridge = self.policy._state.ridge
        for model in range(ridge.gram.shape[0]):
            gram, moment = self.batch(model)
            found = ridge.gram[model] + (ridge.carry[model] + ridge.recent[model])
            np.testing.assert_allclose(found, gram, rtol=1e-12, atol=1e-12)
            found = ridge.moment[model] + ridge.moment_carry[model]
            np.testing.assert_allclose(found, moment, rtol=1e-12, atol=1e-12)

    def assert_inverse(self, model: int) -> None:
        ridge, (gram, _) = self.policy._state.ridge, self.batch(model)
        np.testing.assert_array_equal(ridge.inverse[model], ridge.inverse[model].T)
        inverse = np.linalg.inv(gram)
        np.testing.assert_allclose(ridge.inverse[model], inverse, rtol=1e-8, atol=1e-10 * inverse.max())
        grown = np.linalg.slogdet(gram / self.prior())[1]
        np.testing.assert_allclose(ridge.log_det[model], grown, rtol=1e-9, atol=1e-9)


class C2UCBMachine(Machine):
    kind = C2UCB
    options = ({}, {"width": 0.5}, {"ridge": 0.05, "delta": 0.3, "noise_scale": 0.2})

    def check(self, contexts: np.ndarray, arms: np.ndarray) -> None:
        policy, (gram, moment) = self.policy, self.batch()
        low, high = policy.reward_range
        sigma = ((high - low) / 2 if policy.noise_scale is None else policy.noise_scale) / self.unit
        grown = np.linalg.slogdet(gram / policy.ridge)[1]
        width = sigma * math.sqrt(grown + 2 * math.log(1 / policy.delta)) + math.sqrt(policy.ridge)
        width = width if policy.width is None else policy.width
        norms = np.sqrt(np.einsum("ij,ji->i", contexts, np.linalg.solve(gram, contexts.T)))
        self.assert_best(contexts @ np.linalg.solve(gram, moment) + width * norms, arms)

    @invariant()
    def inverse_is_that_of_what_was_told(self) -> None:
        self.assert_inverse(0)


class ThompsonMachine(Machine):
    kind = LinearThompsonSampling
    options = ({}, {"scale": 0.3}, {"ridge": 0.05, "noise_scale": 0.2})

    def check(self, contexts: np.ndarray, arms: np.ndarray) -> None:
        policy, (gram, moment) = self.policy, self.batch()
        low, high = policy.reward_range
        scale = next((one for one in (policy.scale, policy.noise_scale) if one is not None), (high - low) / 2)
        luck = row_of(stream(policy.seed, "policy"), self.asked)
        draw = np.array([normal(luck, j) for j in range(self.dimension)])
        theta = np.linalg.solve(gram, moment) + scale / self.unit * np.linalg.solve(np.linalg.cholesky(gram).T, draw)
        self.assert_best(contexts @ theta, arms)


class EliminationMachine(Machine):
    kind = HierarchicalElimination
    options = ({"horizon": 30}, {"horizon": 1000, "delta": 0.9, "noise_scale": 0.01}, {"horizon": 1})

    def begin(self, size: tuple[int, int, int], which: int, seed: int, units: bool) -> None:
        super().begin(size, which, seed, units)
        self.everything = self.policy.stages if self.policy.variant == "tight" else None

    begin = initialize(size=st.sampled_from(SIZES), which=PLACE, seed=st.integers(0, 5), units=st.booleans())(begin)

    def check(self, contexts: np.ndarray, arms: np.ndarray) -> None:
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

    def homes(self, arms: np.ndarray) -> list[int]:
        policy, found = self.policy, self.policy.triage
        homes = dict.fromkeys(arms.tolist(), -1)
        homes |= {arm: int(found.stages[arm]) - 1 for arm in found.explored.tolist()}
        shift = {"paper": 1, "tight": 0}.get(policy.variant)
        if shift is not None:
            later = {arm: int(found.stages[arm]) - shift for arm in found.confirmed.tolist()}
            homes |= {arm: home for arm, home in later.items() if home < policy.stages}
        return [homes[arm] for arm in arms.tolist()]

    @precondition(lambda self: self.dimension <= 2 and len(self.facts) < 1000)
    @rule(luck=LUCK)
    def settle(self, luck: int) -> None:
        """Tell so many rewards of long contexts that arms can be told apart."""
        rng, theta = np.random.default_rng(luck), np.linspace(0.75, 0.5, self.dimension)
        for _ in range(2000 // self.budget):
            contexts = self.bound * make_contexts("signs", self.n_arms, self.dimension, rng)
            decision = self.policy.ask(contexts)
            homes, chosen = self.homes(decision.arms), contexts[decision.arms] / self.bound
            rewards = chosen @ theta
            self.policy.tell(decision, self.unit * rewards)
            self.facts += [Fact(*fact) for fact in zip(chosen, rewards, homes, strict=True)]
            self.told.append(decision.number)

    @invariant()
    def inverses_are_those_of_what_was_told(self) -> None:
        for model in range(self.policy.stages):
            self.assert_inverse(model)


class RepairedMachine(EliminationMachine):
    options = ({"horizon": 10, "variant": "repaired"}, {"horizon": 10**4, "variant": "repaired"})


class PaperMachine(EliminationMachine):
    options = (
        {"horizon": 10, "variant": "paper"},
        {"horizon": 1, "variant": "paper"},
        {"horizon": 10**4, "variant": "paper"},
    )


TestC2UCB = C2UCBMachine.TestCase
TestLinearThompsonSampling = ThompsonMachine.TestCase
TestElimination = EliminationMachine.TestCase
TestRepairedElimination = RepairedMachine.TestCase
TestPaperElimination = PaperMachine.TestCase

for case in (TestC2UCB, TestLinearThompsonSampling, TestElimination, TestRepairedElimination, TestPaperElimination):
    case.settings = SETTINGS
del case
