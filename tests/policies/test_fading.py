"""Policies that forget all the time, by a discount or a window: their twins, late rewards, files, and what is said."""

from __future__ import annotations

from functools import partial
from typing import Any

import numpy as np
import pytest

from armtriage import (
    KLUCB,
    CombUCB1,
    DamagedFile,
    DriftingEnvironment,
    FeedbackGraph,
    Jump,
    OldLog,
    Paths,
    Policy,
    StochasticEnvironment,
    ThompsonSampling,
)
from armtriage._files import pack_archive
from twins import eligible, harness
from twins.forgetting import Fading

BEFORE, AFTER = np.array([0.1, 0.3, 0.5, 0.9, 0.2, 0.4]), np.array([0.8, 0.3, 0.5, 0.1, 0.2, 0.9])


def world(graph: Any, reward: str = "bernoulli") -> DriftingEnvironment:
    return DriftingEnvironment(StochasticEnvironment(BEFORE, graph, reward=reward, seed=3), Jump({100: AFTER}))


def index_twin(graph: FeedbackGraph, index: Any, forget: float, size: int = 2) -> Any:
    memory = forget if forget >= 1 else 1.0 / (1.0 - forget)
    return eligible.Index(graph, size, index=lambda number, *given: index(min(number, memory), *given), seed=5)


def case_of(kind: Any, forget: float, graph: FeedbackGraph, reward: str = "bernoulli", **options: Any) -> harness.Case:
    policy = kind(graph, budget=2, forget=forget, seed=5, **options)
    twins = {
        ThompsonSampling: lambda: eligible.Thompson(graph, 2, seed=5, **options),
        CombUCB1: lambda: index_twin(graph, eligible.comb_ucb1, forget),
        KLUCB: lambda: index_twin(graph, eligible.kl_ucb, forget),
    }
    twin = partial(Fading, lambda: eligible.AllArms(twins[kind]()), forget)
    return harness.Case(policy, twin, world(graph, reward), 200)


@pytest.mark.plain
@pytest.mark.parametrize("forget", [0.95, 30])
@pytest.mark.parametrize("kind", [ThompsonSampling, CombUCB1, KLUCB])
def test_a_policy_that_fades_plays_as_its_twin(kind: Any, forget: float) -> None:
    assert harness.play(case_of(kind, forget, FeedbackGraph.cliques([1, 1, 2, 2]))).fault is None


@pytest.mark.parametrize("late", [1, *(pytest.param(late, marks=pytest.mark.thorough) for late in (2, 3))])
@pytest.mark.parametrize(
    ("kind", "forget"), [(ThompsonSampling, 0.9), (ThompsonSampling, 5), (KLUCB, 0.9), (CombUCB1, 5)]
)
def test_it_does_so_when_rewards_come_late_or_never(kind: Any, forget: float, late: int) -> None:
    # A window of 5 decisions is shorter than what some rewards take.
    assert harness.play(case_of(kind, forget, FeedbackGraph.semi_bandit(6)), late=late).fault is None


@pytest.mark.parametrize("fractional", ["exact", "coin"])
@pytest.mark.parametrize("forget", [0.95, 30])
def test_rewards_between_0_and_1_fade_as_well(forget: float, fractional: str) -> None:
    case = case_of(ThompsonSampling, forget, FeedbackGraph.semi_bandit(6), "beta", fractional=fractional)
    assert harness.play(case).fault is None


def play(policy: Any, rounds: int, seed: int = 1, late: bool = False) -> None:
    rng, waiting = np.random.default_rng(seed), [*policy.open_decisions]
    for t in range(rounds):
        live = np.flatnonzero(~policy.arms.retired)
        waiting.append(policy.ask(eligible=rng.choice(live, live.size - 1, replace=False).tolist() if t % 3 else None))
        while len(waiting) > 4 * late:
            decision = waiting.pop(0)
            rewards = dict(zip(decision.arms.tolist(), rng.random(decision.arms.size).round(), strict=True))
            first = next(iter(rewards))
            if late:
                policy.tell(decision, {first: rewards.pop(first)}, last=False)
            policy.tell(decision, rewards)


@pytest.mark.parametrize("forget", [0.97, 12])
@pytest.mark.parametrize("kind", [ThompsonSampling, CombUCB1])
def test_a_loaded_policy_has_the_same_future(kind: Any, forget: float) -> None:
    policy = kind(6, budget=2, forget=forget, seed=5)
    play(policy, 60, late=True)
    policy.add_arms(2)
    policy.retire_arms([1])
    play(policy, 20, late=True)
    policy.restore_arms([1], forget=True)
    play(policy, 20, late=True)
    again = Policy.from_bytes(policy.to_bytes())
    assert again.forget == forget
    assert type(again.forget) is type(forget)
    assert again.digest() == policy.digest()
    for one in (policy, again):
        play(one, 100, seed=2, late=True)
    assert again.digest() == policy.digest()


def test_a_window_is_what_a_policy_knows_that_was_told_no_more() -> None:
    policy, other = (ThompsonSampling(6, budget=2, seed=5, forget=one) for one in (10, None))
    rng, told = np.random.default_rng(3), []
    for _ in range(50):
        decision = policy.ask()
        told.append((decision.arms, rng.random(2).round()))
        policy.tell(decision, told[-1][1])
    for arms, rewards in told[-10:]:
        other.tell(other.record(arms), rewards)
    assert np.array_equal(policy.marginals(), other.marginals())
    assert policy.tally.counts.sum() == 100


@pytest.mark.parametrize(("kind", "forget"), [(ThompsonSampling, 0.95), (CombUCB1, 0.95), (KLUCB, 30)])
def test_it_fades_over_decision_sets_as_its_twin(kind: Any, forget: float) -> None:
    roads = Paths(5, [(0, 1), (1, 2), (0, 2), (2, 3), (1, 3), (3, 4)], source=0, target=4)
    graph = FeedbackGraph.erdos_renyi(6, 0.15, seed=6)
    policy = kind(graph, decisions=roads, forget=forget, seed=5)
    inner = {
        ThompsonSampling: lambda: eligible.Thompson(graph, roads.size, seed=5),
        CombUCB1: lambda: index_twin(graph, eligible.comb_ucb1, forget, roads.size),
        KLUCB: lambda: index_twin(graph, eligible.kl_ucb, forget, roads.size),
    }[kind]
    base = StochasticEnvironment(BEFORE, graph, seed=3, decisions=roads)
    drifting = DriftingEnvironment(base, Jump({60: AFTER}))
    case = harness.Case(policy, lambda: Fading(lambda: eligible.OverSet(roads, inner()), forget), drifting, 120)
    assert harness.play(case).fault is None


def test_nothing_is_certified() -> None:
    policy = ThompsonSampling(6, budget=2, forget=0.99, seed=5)
    play(policy, 300)
    for since in (0, policy.start_window()):
        certificate = policy.certificate(since=since)
        assert certificate.regret_bound == certificate.next_bound == np.inf
        assert str(certificate) == (
            "Nothing can be certified: with forget=0.99, rewards fade with each decision, as means are taken to change."
        )
    assert policy.triage.active.tolist() == policy.triage_of([0, 1, 2, 3, 4, 5]).active.tolist() == [0, 1, 2, 3, 4, 5]
    window = CombUCB1(6, budget=2, forget=1_000, direction="minimize")
    assert "with forget=1000, costs count for 1,000 decisions only" in str(window.certificate())


def test_drift_is_followed() -> None:
    # Of the last 100 decisions after a jump, 90 of 100 have the best arm; without forgetting it had to be learned anew.
    for forget in (0.98, 100):
        policy, env, hits = ThompsonSampling(6, budget=2, forget=forget, seed=5), world(6), 0
        for t in range(400):
            decision = policy.ask()
            hits += t >= 300 and 5 in decision.arms
            policy.tell(decision, env.rewards(t, decision.arms))
        assert hits >= 80


@pytest.mark.parametrize(
    ("forget", "error", "said"),
    [
        (0.0, ValueError, "forget must be"),
        (1.0, ValueError, "got 1.0"),
        (0, ValueError, "got 0"),
        (-3, ValueError, "got -3"),
        (float("nan"), ValueError, "got nan"),
        (True, TypeError, "got True"),
        ([5], TypeError, r"got \[5\]"),
        ("always", ValueError, "forget must be"),
    ],
)
def test_what_makes_no_sense_is_refused(forget: Any, error: type[Exception], said: str) -> None:
    with pytest.raises(error, match=said):
        ThompsonSampling(6, budget=2, forget=forget)


def test_it_is_refused_where_it_cannot_be() -> None:
    with pytest.raises(NotImplementedError, match="old_log cannot be used with rewards that fade"):
        ThompsonSampling(3, 2, forget=5, old_log=OldLog([9] * 3, [4] * 3, bias=0.1))
    with pytest.raises(NotImplementedError, match="positions cannot be used with forget"):
        ThompsonSampling(3, 2, forget=5, positions=[1.0, 0.5])


@pytest.mark.parametrize(
    "change",
    [
        lambda arrays: arrays["fading.weight"].__setitem__(0, -1.0),
        lambda arrays: arrays["fading.weight"].__setitem__(0, np.nan),
        lambda arrays: arrays["fading.weight"].__setitem__(0, 10.0**6),
        lambda arrays: arrays.pop("fading.weight"),
        lambda arrays: arrays.update({"fading.more": np.zeros(1)}),
        lambda arrays: arrays["fading.numbers"].__setitem__(0, 1),
        lambda arrays: arrays["fading.arms"].__setitem__(0, 6),
        lambda arrays: arrays["fading.rewards"].__setitem__(0, 2.0),
        lambda arrays: arrays.update({"fading.rewards": arrays["fading.rewards"][1:]}),
        lambda arrays: [arrays.pop(name) for name in [*arrays] if name.startswith("fading.")],
    ],
)
def test_forged_files_are_refused(change: Any) -> None:
    policy = ThompsonSampling(6, budget=2, forget=20, seed=5)
    play(policy, 60)
    header, arrays = policy._contents()
    arrays = {name: array.copy() for name, array in arrays.items()}
    change(arrays)
    with pytest.raises(DamagedFile, match="does not hold a whole ThompsonSampling"):
        Policy.from_bytes(pack_archive(header, arrays))
