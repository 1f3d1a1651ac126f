"""Contextual policies keep the contract of ask, tell, save, load and simulate."""

from __future__ import annotations

import inspect
import itertools
import re
import threading
from collections.abc import Callable, Mapping
from pathlib import Path
from typing import Any

import numpy as np
import pytest

from armtriage import (
    C2UCB,
    AlreadyTold,
    CombUCB1,
    ContextualPolicy,
    DamagedFile,
    Decision,
    FeedbackGraph,
    HierarchicalElimination,
    LinearEnvironment,
    LinearThompsonSampling,
    Policy,
    StochasticEnvironment,
    Trace,
    UnknownDecision,
    check_policy,
    simulate,
    simulator,
)
from armtriage._files import read_archive, write_archive
from armtriage.environments import linear as linear_module
from armtriage.simulation.linear_loop import linear_loop

CASES: dict[str, tuple[type[ContextualPolicy], dict[str, Any]]] = {
    "C2UCB": (C2UCB, {}),
    "C2UCB-width": (C2UCB, {"width": 0.5}),
    "C2UCB-ridge": (C2UCB, {"ridge": 0.01, "delta": 0.5, "noise_scale": 0.1}),
    "Thompson": (LinearThompsonSampling, {}),
    "Thompson-scale": (LinearThompsonSampling, {"scale": 0.2, "ridge": 3.0}),
    "Thompson-noise": (LinearThompsonSampling, {"noise_scale": 0.3}),
    "tight": (HierarchicalElimination, {"horizon": 100}),
    "tight-noise": (HierarchicalElimination, {"horizon": 100, "noise_scale": 0.05, "delta": 0.5}),
    "repaired": (HierarchicalElimination, {"horizon": 100, "variant": "repaired"}),
    "paper": (HierarchicalElimination, {"horizon": 100, "variant": "paper"}),
}
KINDS = ["C2UCB", "Thompson", "tight", "repaired", "paper"]
STEADY = [name for name in KINDS if name != "Thompson"]
THETA = np.array([0.7, -0.4, 0.3])


def make(name: str, n_arms: int = 6, dimension: int = 3, budget: int = 2, seed: int = 7, **more: Any) -> Any:
    kind, options = CASES[name]
    return kind(n_arms, dimension, budget, seed=seed, **{**options, **more})


def environment(contexts: Any = "cube", n_arms: int | None = 6, theta: Any = THETA, **more: Any) -> LinearEnvironment:
    return LinearEnvironment(theta, contexts, n_arms, **{"seed": 3, **more})


def play(policy: Any, rounds: int, first: int = 0) -> list[list[int]]:
    env = environment("cube", policy.n_arms, 0.8 * np.eye(policy.dimension)[0])
    played = []
    for number in range(first, first + rounds):
        decision = policy.ask(env.contexts(number))
        policy.tell(decision, env.rewards(number, decision.arms))
        played.append(decision.arms.tolist())
    return played


def some_contexts(number: int = 0, n_arms: int = 6, dimension: int = 3) -> np.ndarray:
    return np.random.default_rng(number).uniform(-0.5, 0.5, (n_arms, dimension))


def snapshot(policy: Any) -> dict[str, Any]:
    """Everything that a policy is made of, as plain values."""
    held = {name: array.tolist() for name, array in policy._arrays().items()}
    open_ = policy.open_decisions
    held["open"] = {one.number: (one.arms.tolist(), one.contexts.tolist()) for one in open_}
    return held


def sums(policy: Any) -> list[Any]:
    """What a compiled policy has learned."""
    ridge = policy._state.ridge
    return [(ridge.gram + ridge.carry + ridge.recent).tolist(), (ridge.moment + ridge.moment_carry).tolist()]


# --- check_policy ---
@pytest.mark.parametrize("name", CASES)
def test_contract_is_kept_by(name: str) -> None:
    kind, options = CASES[name]
    check_policy(kind, **options)


@pytest.mark.parametrize("name", ["C2UCB-width", "Thompson-noise", "tight-noise"])
def test_contract_is_kept_in_other_units_by(name: str) -> None:
    kind, options = CASES[name]
    check_policy(kind, **options, reward_range=(-3.0, 2.0), context_bound=2.5)


def test_contract_is_kept_by_a_function_that_makes_policies() -> None:
    def short(n_arms: int, dimension: int, budget: int, seed: int) -> ContextualPolicy:
        return HierarchicalElimination(n_arms, dimension, budget, horizon=3, seed=seed)

    check_policy(short)


class Plain(ContextualPolicy):
    """The S arms of largest estimate and norm, plus a little that the seed fixes."""

    def __init__(
        self,
        n_arms: int,
        dimension: int,
        budget: int,
        *,
        seed: int | None = None,
        reward_range: tuple[float, float] = (-1.0, 1.0),
        context_bound: float = 1.0,
    ) -> None:
        super().__init__(n_arms, dimension, budget, seed=seed, reward_range=reward_range, context_bound=context_bound)
        self.gram, self.moment = np.eye(self.dimension), np.zeros(self.dimension)
        self.taste = self._taste()

    def _taste(self) -> np.ndarray:
        return np.random.default_rng(self.seed).random(self.n_arms)

    def _select(self, number: int, contexts: np.ndarray) -> np.ndarray:  # type: ignore[override]
        length = np.linalg.norm(contexts, axis=1)
        score = contexts @ np.linalg.solve(self.gram, self.moment) + 0.1 * length + 0.02 * self.taste
        return np.sort(np.argsort(-score, kind="stable")[: self.budget]).astype(np.int64)

    def _update(  # type: ignore[override]
        self, number: int, arms: np.ndarray, contexts: np.ndarray, rewards: np.ndarray
    ) -> None:
        self.gram += contexts.T @ contexts
        self.moment += rewards @ contexts

    def _arrays(self) -> dict[str, np.ndarray]:
        return {"gram": self.gram, "moment": self.moment}

    def _restore(self, arrays: Mapping[str, np.ndarray]) -> None:
        self.gram, self.moment = arrays["gram"].copy(), arrays["moment"].copy()


class RepeatsAnArm(Plain):
    def _select(self, number: int, contexts: np.ndarray) -> np.ndarray:  # type: ignore[override]
        arms = super()._select(number, contexts)
        arms[-1] = arms[0]
        return arms


class ForgetsAnArm(Plain):
    def _select(self, number: int, contexts: np.ndarray) -> np.ndarray:  # type: ignore[override]
        return super()._select(number, contexts)[: max(1, self.budget - 1)]


class IgnoresTheSeed(Plain):
    made = itertools.count()

    def _taste(self) -> np.ndarray:
        return np.random.default_rng(next(self.made)).random(self.n_arms)


class LearnsFromARefusedTell(Plain):
    def tell(self, decision: Any, rewards: Any) -> None:
        self.moment += 1.0
        super().tell(decision, rewards)
        self.moment -= 1.0


class AcceptsAnyReward(Plain):
    def tell(self, decision: Any, rewards: Any) -> None:
        try:
            super().tell(decision, rewards)
        except ValueError:
            return


class AcceptsAnyContexts(Plain):
    def ask(self, contexts: Any) -> Decision:  # type: ignore[override]
        return super().ask(np.nan_to_num(contexts, posinf=0.0, neginf=0.0))


class LearnsFromARefusedAsk(Plain):
    def ask(self, contexts: Any) -> Decision:  # type: ignore[override]
        self.moment += 1.0
        decision = super().ask(contexts)
        self.moment -= 1.0
        return decision


class CountsARefusedAsk(Plain):
    def ask(self, contexts: Any) -> Decision:  # type: ignore[override]
        try:
            return super().ask(contexts)
        except ValueError:
            super().ask(np.zeros((self.n_arms, self.dimension)))
            raise


class SavesNothing(Plain):
    def _arrays(self) -> dict[str, np.ndarray]:
        return {}

    def _restore(self, arrays: Mapping[str, np.ndarray]) -> None:
        return


class SavesNoContexts(Plain):
    def _open_arrays(self) -> dict[str, np.ndarray]:
        arrays = super()._open_arrays()
        return {**arrays, "contexts": np.zeros_like(arrays["contexts"])}


class RemembersWhenFresh(Plain):
    def fresh(self, seed: int | None = None, replication: int = 0) -> RemembersWhenFresh:
        other = super().fresh(seed, replication)
        other.gram, other.moment = self.gram.copy(), self.moment.copy()
        return other


class IgnoresTheRange(Plain):
    def _to_unit(self, values: np.ndarray) -> np.ndarray:
        return values


class IgnoresTheBound(Plain):
    def _scaled(self, contexts: np.ndarray) -> np.ndarray:
        return contexts


class KeepsTheCallersArray(Plain):
    last: Any = None

    def ask(self, contexts: Any) -> Decision:  # type: ignore[override]
        decision = super().ask(contexts)
        self.last = contexts
        return decision

    def _update(  # type: ignore[override]
        self, number: int, arms: np.ndarray, contexts: np.ndarray, rewards: np.ndarray
    ) -> None:
        kept = contexts if self.last is None else self.last[arms] / self.context_bound
        super()._update(number, arms, np.nan_to_num(kept), rewards)


class WritesOnTheCallersArray(Plain):
    def _select(self, number: int, contexts: np.ndarray) -> np.ndarray:  # type: ignore[override]
        contexts *= 0.5
        return super()._select(number, contexts)


class SharesItsContexts(Plain):
    def _decision(self, number: int) -> Decision:
        return Decision(number, self._open[number].copy(), self.graph, self._id, self._contexts[number])

    def _update(  # type: ignore[override]
        self, number: int, arms: np.ndarray, contexts: np.ndarray, rewards: np.ndarray
    ) -> None:
        super()._update(number, arms, np.nan_to_num(contexts), rewards)


class GivesScaledContexts(Plain):
    def _decision(self, number: int) -> Decision:
        return Decision(number, self._open[number].copy(), self.graph, self._id, 0.5 * self._contexts[number])


class HasNoContexts(Policy):
    def __init__(self, n_arms: int, dimension: int, budget: int, *, seed: int | None = None) -> None:
        super().__init__(FeedbackGraph.semi_bandit(n_arms), budget, seed=seed)
        self.dimension = dimension

    def _select(self, number: int) -> np.ndarray:
        return np.arange(self.budget)

    def _update(self, number: int, arms: np.ndarray, rewards: np.ndarray) -> None:
        return


BROKEN: dict[type[Policy], str] = {
    RepeatsAnArm: "arms must rise",
    ForgetsAnArm: "a decision must have 3 arms",
    IgnoresTheSeed: "the same seed gave other decisions",
    LearnsFromARefusedTell: "a refused tell changed the future",
    AcceptsAnyReward: "should raise ValueError",
    AcceptsAnyContexts: "ask.*should raise ValueError",
    LearnsFromARefusedAsk: "a refused ask changed the future",
    CountsARefusedAsk: "a refused ask left a decision open",
    SavesNothing: "the loaded policy went another way",
    SavesNoContexts: "load changed the contexts of an open decision",
    RemembersWhenFresh: r"fresh\(\) did not forget",
    IgnoresTheRange: "reward_range changed the decisions",
    IgnoresTheBound: "context_bound changed the decisions",
    KeepsTheCallersArray: "contexts that were written on after ask changed what was learned",
    WritesOnTheCallersArray: "ask wrote on the contexts|must have the contexts of its arms",
    SharesItsContexts: "contexts that were written on after ask changed what was learned",
    GivesScaledContexts: "must have the contexts of its arms as they were given",
    HasNoContexts: "a policy with a dimension must be a ContextualPolicy",
}


def test_contract_is_kept_by_a_policy_in_plain_python() -> None:
    check_policy(Plain)


@pytest.mark.parametrize("kind", BROKEN, ids=lambda kind: kind.__name__)
def test_contract_check_catches_a_policy_that(kind: type[Policy]) -> None:
    with pytest.raises(AssertionError, match=re.compile(BROKEN[kind], re.DOTALL)):
        check_policy(kind)


# --- Arguments ---
NAN, INF = float("nan"), float("inf")
COMMON: list[tuple[str, Any, type[Exception]]] = [
    ("n_arms", 0, ValueError),
    ("n_arms", -3, ValueError),
    ("n_arms", 6.0, TypeError),
    ("n_arms", True, TypeError),
    ("n_arms", None, TypeError),
    ("dimension", 0, ValueError),
    ("dimension", -1, ValueError),
    ("dimension", 3.0, TypeError),
    ("dimension", "3", TypeError),
    ("dimension", True, TypeError),
    ("budget", 0, ValueError),
    ("budget", 7, ValueError),
    ("budget", 2.0, TypeError),
    ("budget", True, TypeError),
    ("seed", -1, ValueError),
    ("seed", 1.5, TypeError),
    ("reward_range", (1.0, -1.0), ValueError),
    ("reward_range", (0.0, 0.0), ValueError),
    ("reward_range", (-1.0, INF), ValueError),
    ("reward_range", (NAN, 1.0), ValueError),
    ("reward_range", None, TypeError),
    ("context_bound", 0.0, ValueError),
    ("context_bound", -1.0, ValueError),
    ("context_bound", INF, ValueError),
    ("context_bound", NAN, ValueError),
    ("context_bound", "1", TypeError),
    ("context_bound", None, TypeError),
    ("context_bound", True, TypeError),
]
NUMBERS: list[tuple[Any, type[Exception]]] = [
    (-1.0, ValueError),
    (INF, ValueError),
    (NAN, ValueError),
    ("1", TypeError),
    (True, TypeError),
]
POSITIVE = [(0, ValueError), (0.0, ValueError), (None, TypeError), *NUMBERS]
SHARE = [(0.0, ValueError), (1.0, ValueError), (None, TypeError), *NUMBERS]
OWN: dict[str, list[tuple[str, Any, type[Exception]]]] = {
    "C2UCB": [
        *(("delta", *bad) for bad in SHARE),
        *(("width", *bad) for bad in NUMBERS),
        *(("ridge", *bad) for bad in POSITIVE),
        *(("noise_scale", *bad) for bad in NUMBERS),
    ],
    "Thompson": [
        *(("scale", *bad) for bad in NUMBERS),
        *(("ridge", *bad) for bad in POSITIVE),
        *(("noise_scale", *bad) for bad in NUMBERS),
    ],
    "tight": [
        ("horizon", 0, ValueError),
        ("horizon", -5, ValueError),
        ("horizon", 100.0, TypeError),
        ("horizon", True, TypeError),
        ("horizon", None, TypeError),
        ("horizon", 2**53 + 1, ValueError),
        *(("delta", *bad) for bad in SHARE),
        ("variant", "loose", ValueError),
        ("variant", "", ValueError),
        ("variant", None, ValueError),
        ("variant", 2, ValueError),
        *(("noise_scale", *bad) for bad in NUMBERS),
    ],
    "paper": [("noise_scale", 0.5, ValueError)],
    "repaired": [("noise_scale", 0.5, ValueError)],
}
BAD = [
    pytest.param(name, argument, value, error, id=f"{name}-{argument}-{value}")
    for name in KINDS
    for argument, value, error in [*(COMMON if name in ("tight", "C2UCB", "Thompson") else []), *OWN[name]]
]


@pytest.mark.parametrize(("name", "argument", "value", "error"), BAD)
def test_bad_argument_is_refused_by_name_and_value(
    name: str, argument: str, value: Any, error: type[Exception]
) -> None:
    with pytest.raises(error, match=rf"\b{argument}\b.*got .*{re.escape(repr(value))}"):
        make(name, **{argument: value})


@pytest.mark.parametrize("name", KINDS)
def test_config_holds_every_argument(name: str) -> None:
    assert set(make(name).config) == set(inspect.signature(CASES[name][0]).parameters)


@pytest.mark.parametrize("name", CASES)
def test_repr_makes_an_equal_policy(name: str) -> None:
    policy = make(name)
    namespace = {kind.__name__: kind for kind, _ in CASES.values()}
    assert eval(repr(policy), namespace).config == policy.config


def test_zero_noise_scale_width_and_scale_are_accepted() -> None:
    for policy in (
        make("C2UCB", noise_scale=0.0),
        make("C2UCB", width=0.0),
        make("Thompson", scale=0.0),
        make("tight", noise_scale=0.0),
    ):
        assert play(policy, 30) == play(policy.fresh(), 30)


# --- Contexts ---
CONTEXTS = some_contexts()


@pytest.mark.parametrize("name", KINDS)
@pytest.mark.parametrize(
    "given",
    [
        CONTEXTS.tolist(),
        tuple(map(tuple, CONTEXTS)),
        np.asfortranarray(CONTEXTS),
        np.repeat(CONTEXTS, 2, axis=0)[::2],
        CONTEXTS.astype(">f8"),
        CONTEXTS.astype(np.longdouble),
    ],
    ids=["lists", "tuples", "by columns", "every other row", "big endian", "long"],
)
def test_contexts_may_be_given_as(name: str, given: Any) -> None:
    policy, twin = make(name), make(name)
    for one, contexts in ((policy, given), (twin, CONTEXTS)):
        one.tell(one.ask(contexts), [0.5, -1.0])
    assert sums(policy) == sums(twin)


@pytest.mark.parametrize("dtype", [bool, np.int8, np.uint64, np.float16, np.float32])
def test_contexts_may_be_numbers_of_any_kind(dtype: Any) -> None:
    contexts = np.eye(6, 3).astype(dtype)
    assert make("C2UCB").ask(contexts).contexts.tolist() == [[1, 0, 0], [0, 1, 0]]


@pytest.mark.parametrize("name", KINDS)
def test_contexts_of_other_layouts_compile_nothing_anew(name: str) -> None:
    policy = make(name)
    read_only = some_contexts()
    read_only.flags.writeable = False
    policy.tell(policy.ask(some_contexts()), [0.5, -1.0])
    before = [len(one.signatures) for one in policy.kernels[:2]]
    for contexts in (read_only, np.asfortranarray(CONTEXTS), np.broadcast_to(CONTEXTS[0], (6, 3)), CONTEXTS.tolist()):
        policy.tell(policy.ask(contexts), [0.5, -1.0])
    assert [len(one.signatures) for one in policy.kernels[:2]] == before


BAD_CONTEXTS: list[tuple[Any, type[Exception], str]] = [
    (None, TypeError, "contexts must be an array of numbers"),
    ("x", TypeError, "contexts must be an array of numbers"),
    ([["x"] * 3] * 6, TypeError, "contexts must be an array of numbers"),
    (np.full((6, 3), 1j), TypeError, "contexts must be an array of numbers"),
    (np.full((6, 3), None), TypeError, "contexts must be an array of numbers"),
    (0.5, ValueError, r"contexts must have shape \(6, 3\).*got \(\)"),
    ([], ValueError, r"contexts must have shape \(6, 3\).*got \(0,\)"),
    (np.zeros((5, 3)), ValueError, r"shape \(6, 3\).*got \(5, 3\)"),
    (np.zeros((7, 3)), ValueError, r"shape \(6, 3\).*got \(7, 3\)"),
    (np.zeros((6, 2)), ValueError, r"shape \(6, 3\).*got \(6, 2\)"),
    (np.zeros((3, 6)), ValueError, r"shape \(6, 3\).*got \(3, 6\)"),
    (np.zeros(18), ValueError, r"shape \(6, 3\).*got \(18,\)"),
    (np.zeros((1, 6, 3)), ValueError, r"shape \(6, 3\).*got \(1, 6, 3\)"),
    ([[0.0] * 3] * 5 + [[0.0] * 2], ValueError, "contexts must be an array of numbers, got rows"),
    (np.eye(6, 3) * 1.001, ValueError, r"norms of at most 1.0 \(context_bound\), got a norm of 1.001 for arm 0"),
    (np.full((6, 3), 0.58), ValueError, "got a norm of 1.00.* for arm 0"),
    (np.where(np.arange(18).reshape(6, 3) == 13, NAN, 0.0), ValueError, "finite.*got a norm of nan for arm 4"),
    (np.where(np.arange(18).reshape(6, 3) == 17, -INF, 0.0), ValueError, "finite.*got a norm of inf for arm 5"),
    (np.eye(6, 3) * 1e300, ValueError, "got a norm of 1e.300 for arm 0"),
]


@pytest.mark.parametrize(("contexts", "error", "message"), BAD_CONTEXTS, ids=lambda value: str(value)[:25])
def test_bad_contexts_are_refused(contexts: Any, error: type[Exception], message: str) -> None:
    with pytest.raises(error, match=message):
        make("C2UCB").ask(contexts)


@pytest.mark.parametrize("name", KINDS)
def test_refused_asks_change_nothing(name: str) -> None:
    policy = make(name)
    play(policy, 9)
    policy.ask(CONTEXTS)
    before = snapshot(policy)
    for contexts, error, _ in BAD_CONTEXTS:
        with pytest.raises(error):
            policy.ask(contexts)
    assert snapshot(policy) == before
    assert policy.ask(CONTEXTS).number == 10


def test_norm_of_exactly_the_bound_is_accepted_up_to_rounding() -> None:
    rows = np.random.default_rng(1).normal(size=(20, 6, 3))
    for contexts in 3.7 * rows / np.linalg.norm(rows, axis=2, keepdims=True):
        assert make("C2UCB", context_bound=3.7).ask(contexts).number == 0


@pytest.mark.parametrize("dimension", range(1, 14))
def test_norm_counts_every_coordinate(dimension: int) -> None:
    policy = make("C2UCB", 2, dimension, 1)
    for j in range(dimension):
        contexts = np.zeros((2, dimension))
        contexts[1, j] = 1.01
        with pytest.raises(ValueError, match="for arm 1"):
            policy.ask(contexts)


@pytest.mark.parametrize("name", KINDS)
@pytest.mark.parametrize("bound", [1.0, 2.0])
def test_writing_on_contexts_after_ask_does_not_change_what_is_learned(name: str, bound: float) -> None:
    policy, twin = make(name, context_bound=bound), make(name, context_bound=bound)
    for number in range(10):
        contexts = some_contexts(number)
        decision, other = policy.ask(contexts), twin.ask(contexts.copy())
        contexts[:] = 0.25
        decision.contexts[:] = 0.125
        policy.open_decisions[0].contexts[:] = 0.375
        policy.tell(decision, [0.5, -1.0])
        twin.tell(other, [0.5, -1.0])
    assert sums(policy) == sums(twin)


@pytest.mark.parametrize("name", KINDS)
def test_contexts_of_a_decision_are_those_given_not_the_scaled_ones(name: str) -> None:
    policy = make(name, context_bound=50.0)
    decision = policy.ask(30.0 * CONTEXTS)
    assert np.array_equal(decision.contexts, (30.0 * CONTEXTS)[decision.arms])


@pytest.mark.parametrize("name", KINDS)
def test_open_decisions_have_the_contexts_that_were_asked(name: str) -> None:
    policy = make(name)
    asked = [policy.ask(some_contexts(number)).contexts.tolist() for number in range(5)]
    policy.tell(2, {})
    assert [one.contexts.tolist() for one in policy.open_decisions] == [asked[i] for i in (0, 1, 3, 4)]


# --- Tells ---
@pytest.mark.parametrize("name", KINDS)
def test_revealed_are_the_arms(name: str) -> None:
    decision = make(name).ask(CONTEXTS)
    assert decision.revealed.tolist() == decision.arms.tolist()


@pytest.mark.parametrize("name", KINDS)
def test_rewards_by_arm_in_any_order_are_those_in_order(name: str) -> None:
    policy, twin = make(name), make(name)
    decision = policy.ask(CONTEXTS)
    twin.ask(CONTEXTS)
    policy.tell(decision, {int(decision.arms[1]): -1.0, int(decision.arms[0]): 0.5})
    twin.tell(0, [0.5, -1.0])
    assert sums(policy) == sums(twin)


def told_sums(told: list[tuple[np.ndarray, float]], prior: float = 1.0) -> tuple[np.ndarray, np.ndarray]:
    gram = prior * np.eye(3) + sum((np.outer(x, x) for x, _ in told), np.zeros((3, 3)))
    return gram, sum((r * x for x, r in told), np.zeros(3))


@pytest.mark.parametrize("name", ["C2UCB", "Thompson"])
def test_only_rewards_that_came_are_learned_with_their_own_contexts(name: str) -> None:
    policy = make(name, budget=4)
    decisions = [policy.ask(some_contexts(number)) for number in range(3)]
    told = []
    for decision, places in ((decisions[2], [3, 1]), (decisions[0], [2]), (decisions[1], [])):
        rewards = {int(decision.arms[i]): 0.25 * i - 0.5 for i in places}
        policy.tell(decision, rewards)
        told += [(decision.contexts[i], 0.25 * i - 0.5) for i in places]
    gram, moment = told_sums(told)
    found_gram, found_moment = (np.array(part)[0] for part in sums(policy))
    assert found_gram == pytest.approx(gram, abs=1e-14)
    assert found_moment == pytest.approx(moment, abs=1e-14)


@pytest.mark.parametrize("name", ["C2UCB", "Thompson"])
def test_rewards_and_contexts_are_divided_and_never_shifted(name: str) -> None:
    policy = make(name, reward_range=(1.0, 4.0), context_bound=2.0)
    decision = policy.ask(CONTEXTS)
    policy.tell(decision, [2.0, 4.0])
    gram, moment = told_sums([(x / 2.0, r) for x, r in zip(decision.contexts, (0.5, 1.0), strict=True)])
    assert np.array(sums(policy)[0])[0] == pytest.approx(gram, abs=1e-15)
    assert np.array(sums(policy)[1])[0] == pytest.approx(moment, abs=1e-15)


@pytest.mark.parametrize("reward_range", [(-1e308, 1e308), (-1.5e308, 0.0), (-1e-300, 1e-300)])
@pytest.mark.parametrize("name", KINDS)
def test_ranges_near_the_ends_of_the_floats_mean_what_ordinary_ones_do(name: str, reward_range: Any) -> None:
    low, high = reward_range
    unit = max(-low, high)
    policy, twin = make(name, reward_range=reward_range), make(name, reward_range=(low / unit, high / unit))
    for number in range(20):
        decision, other = policy.ask(some_contexts(number)), twin.ask(some_contexts(number))
        assert decision.arms.tolist() == other.arms.tolist()
        policy.tell(decision, [low, high])
        twin.tell(other, [low / unit, high / unit])


@pytest.mark.parametrize("name", KINDS)
def test_refused_tells_change_nothing(name: str) -> None:
    policy = make(name)
    play(policy, 9)
    decision = policy.ask(CONTEXTS)
    arm, before = int(decision.arms[0]), snapshot(policy)
    for rewards in ([1], [1, 2], [NAN, 1], ["x", 1], {arm: NAN}, {arm: 1, 99: 1}, {arm: 1, "x": 1}, {arm: "x"}):
        with pytest.raises((TypeError, ValueError)):
            policy.tell(decision, rewards)
    assert snapshot(policy) == before


@pytest.mark.parametrize("name", KINDS)
def test_second_tell_and_unknown_decisions_are_refused(name: str) -> None:
    policy = make(name)
    decision = policy.ask(CONTEXTS)
    policy.tell(decision, [0, 1])
    with pytest.raises(AlreadyTold, match="decision 0 has been told already"):
        policy.tell(decision, [0, 1])
    with pytest.raises(UnknownDecision, match="decision 1 is unknown"):
        policy.tell(1, [0, 1])
    with pytest.raises(UnknownDecision, match="made by another policy"):
        policy.tell(make(name).ask(CONTEXTS), [0, 1])


# --- Shapes and odd worlds ---
SHAPES = [(1, 1, 1), (5, 1, 2), (5, 3, 1), (4, 2, 4), (4, 9, 3), (40, 5, 7), (3, 70, 2)]


@pytest.mark.parametrize(("n_arms", "dimension", "budget"), SHAPES)
@pytest.mark.parametrize("name", CASES)
def test_sizes_of_every_shape_play(name: str, n_arms: int, dimension: int, budget: int) -> None:
    for arms in play(make(name, n_arms, dimension, budget), 60):
        assert len(set(arms)) == budget
        assert 0 <= arms[0] <= arms[-1] < n_arms


@pytest.mark.parametrize("name", CASES)
def test_budget_of_all_arms_plays_them_all(name: str) -> None:
    assert play(make(name, budget=6), 30) == [list(range(6))] * 30


@pytest.mark.parametrize("horizon", [1, 2, 3, 10**15])
@pytest.mark.parametrize("name", ["tight", "repaired", "paper"])
def test_any_horizon_can_be_played_even_beyond_it(name: str, horizon: int) -> None:
    policy = make(name, horizon=horizon)
    assert policy.stages >= 1
    assert len(play(policy, 50)) == 50


@pytest.mark.parametrize("name", KINDS)
def test_a_million_arms_can_be_asked_for(name: str) -> None:
    policy = make(name, 10**6, 3, 10)
    contexts = np.random.default_rng(1).uniform(-0.57, 0.57, (10**6, 3))
    for _ in range(2):
        decision = policy.ask(contexts)
        policy.tell(decision, np.ones(10))
    assert np.array_equal(decision.contexts, contexts[decision.arms])


@pytest.mark.parametrize("name", CASES)
def test_identical_contexts_are_played_by_arm_number(name: str) -> None:
    policy = make(name, 40, 3, 7)
    for number in range(60):
        contexts = np.tile(some_contexts(number, 1), (40, 1))
        decision = policy.ask(contexts)
        assert decision.arms.tolist() == list(range(7))
        policy.tell(decision, np.linspace(-1, 1, 7))


@pytest.mark.parametrize("name", CASES)
def test_zero_contexts_are_played_by_arm_number_and_teach_nothing(name: str) -> None:
    policy = make(name)
    before = sums(policy)
    for _ in range(20):
        decision = policy.ask(np.zeros((6, 3)))
        assert decision.arms.tolist() == [0, 1]
        policy.tell(decision, [1, -1])
    assert sums(policy) == before


@pytest.mark.parametrize("name", STEADY)
def test_decisions_without_any_reward_stay_the_same(name: str) -> None:
    policy = make(name)
    assert len({tuple(policy.ask(CONTEXTS).arms.tolist()) for _ in range(100)}) == 1
    assert len(policy.open_decisions) == 100


def test_thompson_sampling_without_any_reward_plays_every_arm() -> None:
    policy, contexts = make("Thompson"), np.vstack([np.eye(3), -np.eye(3)])
    assert {arm for _ in range(200) for arm in policy.ask(contexts).arms.tolist()} == set(range(6))


@pytest.mark.parametrize("name", ["C2UCB", "C2UCB-width", "Thompson"])
def test_rewards_fifty_rounds_late_teach_what_is_best(name: str) -> None:
    env = environment(some_contexts(3, 8), 8, reward="uniform", half_width=0.1)
    noise = {} if name == "C2UCB-width" else {"noise_scale": 0.05}
    policy, lost, waiting = make(name, 8, **noise), [], []
    for number in range(600):
        decision = policy.ask(env.contexts(number))
        waiting.append((decision, env.rewards(number, decision.arms)))
        lost.append(env.regret(number, decision.arms))
        if len(waiting) > 50:
            policy.tell(*waiting.pop(0))
    assert len(policy.open_decisions) == 50
    average = float(np.sort(env.means(0))[-2:].sum() - 2 * env.means(0).mean())
    assert np.mean(lost[400:]) < 0.25 * average


# --- Save and load ---
@pytest.fixture
def path(tmp_path: Path) -> Path:
    return tmp_path / "policy.bin"


def used(name: str, **more: Any) -> Any:
    """A policy in the middle of things: much told, two decisions open, one of them asked before others told."""
    policy = make(name, **more)
    policy.ask(some_contexts(77))
    play(policy, 40)
    policy.ask(some_contexts(78))
    return policy


@pytest.mark.parametrize("name", CASES)
def test_loaded_policy_is_the_saved_one(name: str, path: Path) -> None:
    policy = used(name, reward_range=(-2, 3), context_bound=1.5)
    policy.save(path)
    loaded: Any = Policy.load(path)
    assert snapshot(loaded) == snapshot(policy)
    assert loaded.config == policy.config
    assert type(loaded) is type(policy)


@pytest.mark.parametrize("name", CASES)
def test_loaded_policy_learns_from_its_open_decisions_as_the_saved_one(name: str, path: Path) -> None:
    policy = used(name)
    waiting = policy.open_decisions
    policy.save(path)
    loaded: Any = ContextualPolicy.load(path)
    for one in (policy, loaded):
        one.tell(waiting[1], {int(waiting[1].arms[1]): 1.0})
        one.tell(waiting[0].number, [-1.0, 0.5])
    assert snapshot(loaded) == snapshot(policy)
    assert play(loaded, 60, 42) == play(policy, 60, 42)


def test_policy_that_was_never_asked_can_be_saved(path: Path) -> None:
    make("tight").save(path)
    assert play(HierarchicalElimination.load(path), 20) == play(make("tight"), 20)


@pytest.mark.parametrize("kind", [CombUCB1, LinearThompsonSampling, HierarchicalElimination])
def test_file_of_another_kind_is_refused_naming_both(kind: type[Policy], path: Path) -> None:
    make("C2UCB").save(path)
    with pytest.raises(DamagedFile, match=f"holds a C2UCB, not a {kind.__name__}"):
        kind.load(path)


@pytest.mark.parametrize("kind", [C2UCB, ContextualPolicy])
def test_file_of_a_policy_without_contexts_is_refused_naming_both(kind: type[Policy], path: Path) -> None:
    CombUCB1(FeedbackGraph.semi_bandit(6), 2).save(path)
    with pytest.raises(DamagedFile, match=f"holds a CombUCB1, not a {kind.__name__}"):
        kind.load(path)


def test_any_changed_byte_and_any_cut_is_noticed(path: Path) -> None:
    used("tight").save(path)
    whole = path.read_bytes()
    places = [*range(80), *range(80, len(whole), len(whole) // 150), *range(len(whole) - 30, len(whole))]
    damaged = [whole[:i] + bytes([whole[i] ^ 0x20]) + whole[i + 1 :] for i in places] + [whole[:i] for i in places]
    for content in damaged:
        path.write_bytes(content)
        with pytest.raises(DamagedFile):
            Policy.load(path)


@pytest.mark.parametrize("name", ["C2UCB", "Thompson", "tight"])
def test_whole_file_with_a_part_missing_or_of_another_shape_is_refused(name: str, path: Path) -> None:
    used(name).save(path)
    header, arrays = read_archive(path)
    for part in [part for part in arrays if not part.startswith("graph.")]:
        for changed in (None, arrays[part][:-1]):
            kept = {other: array for other, array in arrays.items() if other != part}
            write_archive(path, header, kept if changed is None else kept | {part: changed})
            with pytest.raises(DamagedFile):
                Policy.load(path)


@pytest.mark.parametrize("argument", ["dimension", "n_arms", "budget", "horizon"])
def test_file_whose_arguments_do_not_fit_its_state_is_refused(argument: str, path: Path) -> None:
    used("tight").save(path)
    header, arrays = read_archive(path)
    for value in (1, 20, None, "x"):
        changed = {**header, "config": {**header["config"], argument: value}}
        write_archive(path, changed, arrays)
        with pytest.raises(DamagedFile):
            Policy.load(path)


# --- Simulate ---
def run(name: str, *, env: Any = None, **more: Any) -> Trace:
    arguments = {"horizon": 300, "replications": 6, "seed": 3, "record_decisions": True, **more}
    return simulate(make(name), env or environment(), **arguments)


def numbers(trace: Trace, replications: int | None = None) -> list[Any]:
    assert trace.decisions is not None
    return [trace.rounds.tolist(), *(part[:replications].tolist() for part in (trace.regret, trace.decisions))]


ROUNDS = np.array([some_contexts(number) for number in range(300)])


def recorded(number: int, replication: int) -> np.ndarray:
    return ROUNDS[(number + 11 * replication) % 300]


WORLDS: dict[str, Any] = {
    "sphere": "sphere",
    "cube": "cube",
    "fixed": ROUNDS[0],
    "given": ROUNDS,
    "function": recorded,
}


@pytest.mark.parametrize("workers", [2, 5, None])
@pytest.mark.parametrize("name", KINDS)
def test_numbers_do_not_depend_on_the_workers(name: str, workers: int | None) -> None:
    assert numbers(run(name, workers=workers)) == numbers(run(name, workers=1))


@pytest.mark.parametrize("world", WORLDS)
def test_numbers_do_not_depend_on_the_workers_in(world: str) -> None:
    env = environment(WORLDS[world])
    assert numbers(run("C2UCB", env=env, workers=4)) == numbers(run("C2UCB", env=env, workers=1))


@pytest.mark.parametrize("chunk", [1, 40, 6000])
@pytest.mark.parametrize("world", WORLDS)
def test_numbers_do_not_depend_on_the_chunks(world: str, chunk: int, monkeypatch: pytest.MonkeyPatch) -> None:
    env = environment(WORLDS[world])
    whole = numbers(run("Thompson", env=env))
    monkeypatch.setattr(simulator, "_FIRST_CHUNK", chunk)
    monkeypatch.setattr(simulator, "_CHUNK_SECONDS", 0.0)
    monkeypatch.setattr(linear_module, "_TABLE_SIZE", 7 * chunk)
    assert numbers(run("Thompson", env=env)) == whole


@pytest.mark.parametrize("replication", [0, 3])
@pytest.mark.parametrize("world", WORLDS)
@pytest.mark.parametrize("name", KINDS)
def test_fresh_policy_of_a_replication_decides_as_simulate_does(name: str, world: str, replication: int) -> None:
    env = environment(WORLDS[world], reward="uniform")
    policy = make(name, reward_range=(-1, 4), context_bound=1.25)
    trace = simulate(policy, env, horizon=150, replications=4, seed=3, record_decisions=True, checkpoints=range(1, 151))
    policy, total = policy.fresh(3, replication), 0.0
    for number in range(150):
        decision = policy.ask(env.contexts(number, replication))
        assert decision.arms.tolist() == trace.decisions[replication, number].tolist()
        policy.tell(decision, env.rewards(number, decision.arms, replication))
        total += env.regret(number, decision.arms, replication)
        assert trace.regret[replication, number] == pytest.approx(total, abs=1e-9)


@pytest.mark.parametrize("name", KINDS)
def test_first_replications_and_rounds_do_not_depend_on_how_many_follow(name: str) -> None:
    whole = run(name)
    assert numbers(run(name, replications=2)) == numbers(whole, 2)
    assert np.array_equal(run(name, horizon=100).decisions, whole.decisions[:, :100])


@pytest.mark.parametrize("name", KINDS)
def test_regret_does_not_depend_on_checkpoints_or_recording(name: str) -> None:
    few, many = run(name, checkpoints=[37, 300]), run(name, checkpoints=range(1, 301), record_decisions=False)
    assert np.array_equal(few.regret, many.regret[:, [36, 299]])
    assert many.decisions is None


def test_last_checkpoint_may_come_before_the_horizon() -> None:
    early = run("C2UCB", checkpoints=[5, 20])
    assert np.array_equal(early.regret, run("C2UCB", checkpoints=[5, 20, 300]).regret[:, :2])
    assert early.decisions.shape == (6, 300, 2)


@pytest.mark.parametrize("name", KINDS)
def test_given_policy_is_not_changed_and_what_it_has_learned_does_not_count(name: str) -> None:
    policy, before = used(name), numbers(run(name))
    state = snapshot(policy)
    trace = simulate(policy, environment(), horizon=300, replications=6, seed=3, record_decisions=True)
    assert numbers(trace) == before
    assert snapshot(policy) == state


@pytest.mark.parametrize("name", KINDS)
def test_decisions_rise(name: str) -> None:
    assert np.all(np.diff(run(name).decisions, axis=2) > 0)


@pytest.mark.parametrize("name", KINDS)
def test_replications_differ(name: str) -> None:
    decisions = run(name).decisions
    assert not np.array_equal(decisions[0], decisions[1])


@pytest.mark.parametrize("name", KINDS)
def test_budget_of_all_arms_has_no_regret(name: str) -> None:
    trace = simulate(make(name, budget=6), environment(), horizon=200, replications=2)
    assert np.all(trace.regret == 0.0)


@pytest.mark.filterwarnings("ignore:Plain is not compiled")
@pytest.mark.parametrize("world", WORLDS)
def test_policy_in_plain_python_is_simulated_as_it_is_asked(world: str) -> None:
    env, policy = environment(WORLDS[world]), Plain(6, 3, 2, seed=7)
    trace = simulate(policy, env, horizon=60, replications=2, record_decisions=True, checkpoints=[60])
    twin, total = policy.fresh(7, 1), 0.0
    for number in range(60):
        decision = twin.ask(env.contexts(number, 1))
        assert decision.arms.tolist() == trace.decisions[1, number].tolist()
        twin.tell(decision, env.rewards(number, decision.arms, 1))
        total += env.regret(number, decision.arms, 1)
    assert trace.regret[1, 0] == pytest.approx(total, abs=1e-9)


def test_policy_in_plain_python_is_named_in_the_warning(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(simulator, "_SLOW_SAID", set())
    with pytest.warns(UserWarning, match="Plain is not compiled"):
        simulate(Plain(6, 3, 2), environment(), horizon=3)


@pytest.mark.parametrize("name", KINDS)
def test_loop_is_compiled_once_for_all_worlds(name: str) -> None:
    for contexts in WORLDS.values():
        for reward in ("binary", "uniform", "deterministic"):
            env = environment(contexts, reward=reward, noise="shared")
            simulate(make(name), env, horizon=20, replications=2, record_decisions=reward == "binary")
            simulate(make(name, context_bound=3.0, reward_range=(-1, 2)), env, horizon=20)
    for shape in SHAPES:
        policy = make(name, *shape)
        env = environment("cube", shape[0], 0.8 * np.eye(shape[1])[0])
        simulate(policy, env, horizon=20)
    assert len(linear_loop(policy.kernels).signatures) == 1


def shares(monkeypatch: pytest.MonkeyPatch, workers: int, world: str) -> list[float]:
    monkeypatch.setattr(simulator, "_FIRST_CHUNK", 6)
    monkeypatch.setattr(simulator, "_CHUNK_SECONDS", 0.0)
    told: list[float] = []
    run("C2UCB", workers=workers, progress=told.append, env=environment(WORLDS[world]))
    return told


@pytest.mark.parametrize("world", ["cube", "function"])
@pytest.mark.parametrize("workers", [1, 3])
def test_progress_is_told_in_between_and_reaches_one(workers: int, world: str, monkeypatch: pytest.MonkeyPatch) -> None:
    told = shares(monkeypatch, workers, world)
    assert max(told) == 1.0
    assert len({share for share in told if 0.0 < share < 1.0}) > 50
    assert workers > 1 or np.all(np.diff(told) >= 0)


def test_progress_bar_changes_no_numbers(capsys: pytest.CaptureFixture[str]) -> None:
    assert numbers(run("C2UCB", progress=True)) == numbers(run("C2UCB"))


@pytest.mark.parametrize("workers", [1, 2])
def test_interrupt_in_the_callback_comes_through_and_leaves_no_thread(workers: int) -> None:
    def report(share: float) -> None:
        raise KeyboardInterrupt("stop")

    before = threading.active_count()
    with pytest.raises(KeyboardInterrupt, match="stop"):
        run("C2UCB", workers=workers, progress=report)
    assert threading.active_count() == before


@pytest.mark.parametrize("workers", [1, 2])
def test_error_in_a_function_of_contexts_comes_through(workers: int) -> None:
    def failing(number: int, replication: int) -> np.ndarray:
        if (number, replication) == (20, 1):
            raise RuntimeError("no contexts today")
        return ROUNDS[number]

    with pytest.raises(RuntimeError, match="no contexts today"):
        run("C2UCB", env=environment(failing), workers=workers)


def test_bad_contexts_of_a_function_are_refused_by_round_and_replication() -> None:
    env = environment(lambda number, replication: (1.0 + number) * np.eye(6, 3))
    with pytest.raises(ValueError, match=r"got norm 2\.0 for arm 0 in round 1 of replication 0"):
        run("C2UCB", env=env, workers=1)


MISMATCH: list[tuple[Callable[[], Any], Callable[[], Any], type[Exception], str]] = [
    (lambda: make("C2UCB", dimension=4), environment, ValueError, "dimension 3 and policy 4; they must agree"),
    (lambda: make("C2UCB", n_arms=7), environment, ValueError, "environment has 6 arms and policy 7"),
    (lambda: make("C2UCB", reward_range=(0, 1)), environment, ValueError, r"reward_range must contain \[-1, 1\]"),
    (lambda: make("C2UCB", reward_range=(-1, 0.9)), environment, ValueError, r"reward_range must contain.*-1.0, 0.9"),
    (lambda: make("C2UCB", context_bound=0.999), environment, ValueError, "context_bound must be 1 or more.*0.999"),
    (
        lambda: make("C2UCB"),
        lambda: environment(ROUNDS[:299]),
        ValueError,
        "horizon must be at most the 299 rounds of contexts, got 300",
    ),
    (
        lambda: CombUCB1(FeedbackGraph.semi_bandit(6), 2, reward_range=(-1, 1)),
        environment,
        TypeError,
        "environment must be an environment without contexts for a CombUCB1, got LinearEnvironment",
    ),
    (
        lambda: make("tight"),
        lambda: StochasticEnvironment(np.full(6, 0.5), FeedbackGraph.semi_bandit(6)),
        TypeError,
        "environment must be a LinearEnvironment for a HierarchicalElimination, got StochasticEnvironment",
    ),
    (lambda: make("tight"), lambda: None, TypeError, "environment must be .*got NoneType"),
    (lambda: C2UCB, environment, TypeError, "policy must be a Policy, got ABCMeta"),
]


@pytest.mark.parametrize(("policy", "env", "error", "message"), MISMATCH, ids=range(len(MISMATCH)))
def test_policy_and_environment_that_do_not_belong_together_are_refused(
    policy: Callable[[], Any], env: Callable[[], Any], error: type[Exception], message: str
) -> None:
    with pytest.raises(error, match=message):
        simulate(policy(), env(), horizon=300)


@pytest.mark.filterwarnings("ignore:Plain is not compiled")
def test_horizon_of_exactly_the_rounds_of_contexts_is_played() -> None:
    assert simulate(make("C2UCB"), environment(ROUNDS), horizon=300).rounds[-1] == 300
    assert simulate(Plain(6, 3, 2), environment(ROUNDS[:20]), horizon=20).rounds[-1] == 20


def test_trace_names_policy_arms_and_seeds() -> None:
    trace = run("tight", seed=77)
    assert (trace.policy, trace.n_arms, trace.seed, trace.environment_seed) == ("HierarchicalElimination", 6, 77, 3)


def test_a_forged_note_is_no_index(tmp_path: Path) -> None:
    policy = HierarchicalElimination(4, 2, 2, horizon=100, seed=1)
    decision = policy.ask(np.eye(4, 2))
    policy._notes[0][:] = 10**8
    policy.save(tmp_path / "forged")
    HierarchicalElimination.load(tmp_path / "forged").tell(decision, [0.0, 0.0])


@pytest.mark.parametrize("part", ["_notes", "_contexts", "_open"])
def test_open_decisions_of_a_wrong_form_are_damage(tmp_path: Path, part: str) -> None:
    policy = C2UCB(4, 2, 2, seed=1)
    policy.ask(np.eye(4, 2))
    bad = {"_notes": np.zeros(2), "_contexts": np.full((2, 2), 9.0), "_open": np.array([1, 0])}[part]
    arrays = policy._open_arrays() | {{"_open": "arms"}.get(part, part[1:]): bad[np.newaxis]}
    policy._open_arrays = lambda: arrays  # type: ignore[method-assign]
    policy.save(tmp_path / "bad")
    with pytest.raises(DamagedFile, match="does not hold a whole C2UCB"):
        C2UCB.load(tmp_path / "bad")


def test_a_contextual_policy_needs_both_hooks() -> None:
    with pytest.raises(TypeError, match="abstract"):
        ContextualPolicy(3, 2, 1)  # type: ignore[abstract]


def test_noise_scale_beside_what_replaces_it_is_refused() -> None:
    with pytest.raises(ValueError, match="noise_scale is of no use beside width"):
        C2UCB(3, 2, 1, width=0.5, noise_scale=0.1)
    with pytest.raises(ValueError, match="noise_scale is of no use beside scale"):
        LinearThompsonSampling(3, 2, 1, scale=0.5, noise_scale=0.1)


@pytest.mark.parametrize("ridge", [1e-310, 1e200])
def test_ridge_that_would_end_in_nan_is_refused(ridge: float) -> None:
    with pytest.raises(ValueError, match="ridge must lie in"):
        C2UCB(3, 2, 1, ridge=ridge)


def test_an_environment_of_ones_own_is_asked_and_not_looked_up() -> None:
    class Turning(LinearEnvironment):
        def contexts(self, round: int, replication: int = 0) -> np.ndarray:
            return np.roll(super().contexts(round, replication), round, axis=0)

        def rewards(self, round: int, arms: object, replication: int = 0) -> np.ndarray:
            return np.roll(self.means(0), round)[np.asarray(arms)]

    world = Turning([0.9], [[0.1], [0.9]], seed=1)
    policy = C2UCB(2, 1, 1, seed=1)
    with pytest.warns(UserWarning, match="Turning is not compiled"):
        trace = simulate(policy, world, horizon=6, record_decisions=True)
    assert trace.decisions is not None
    assert trace.decisions[0, :, 0].tolist() == [1, 0, 1, 0, 1, 0]


def test_vectors_normalised_in_single_precision_are_taken() -> None:
    contexts = np.random.default_rng(1).standard_normal((50, 384)).astype(np.float32)
    contexts /= np.linalg.norm(contexts, axis=1, keepdims=True)
    assert C2UCB(50, 384, 3).ask(contexts).arms.size == 3
    assert LinearEnvironment(np.zeros(384), contexts).n_arms == 50
