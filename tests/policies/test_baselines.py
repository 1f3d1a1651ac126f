"""Baselines are what their papers say, by slow and obvious versions of them, and keep the contract of a policy."""

from __future__ import annotations

import math
import warnings
from itertools import combinations
from typing import Any

import numpy as np
import pytest
from scipy.special import betaincinv

from armtriage import Paths, Policy, StochasticEnvironment, ThompsonSampling, TopS, check_policy, simulate
from armtriage.baselines import BGCTS, CLSG, CTS, CTS3, ESCB, WindowCUCB

MEANS = np.array([0.1, 0.8, 0.3, 0.7, 0.2, 0.4])
KINDS = [ESCB, BGCTS, CTS3, CLSG, WindowCUCB]


def played(policy: Policy, rounds: int) -> tuple[list[list[int]], np.ndarray, np.ndarray]:
    """Return the decisions of a policy, and the number and sums of rewards before each of them."""
    env = StochasticEnvironment(MEANS, 6, "beta", seed=3)
    counts, sums = np.zeros((2, rounds + 1, 6))
    made = []
    for t in range(rounds):
        decision = policy.ask()
        made.append(decision.arms.tolist())
        rewards = env.rewards(t, decision.arms)
        policy.tell(decision, rewards)
        counts[t + 1], sums[t + 1] = counts[t], sums[t]
        counts[t + 1][decision.arms] += 1
        sums[t + 1][decision.arms] += rewards
    return made, counts, sums


@pytest.mark.parametrize("kind", [ESCB, WindowCUCB, *(pytest.param(one, marks=pytest.mark.long) for one in KINDS[1:4])])
def test_it_keeps_the_contract(kind: Any) -> None:
    with warnings.catch_warnings():
        warnings.filterwarnings("ignore", message=".*is not compiled")
        check_policy(kind)


def test_cts_is_thompson_sampling_with_coins() -> None:
    plain = ThompsonSampling(6, budget=2, fractional="coin", seed=7)
    assert played(CTS(6, budget=2, seed=7), 60)[0] == played(plain, 60)[0]


def test_escb_plays_the_decision_of_largest_index() -> None:
    made, counts, sums = played(ESCB(6, budget=2, seed=7), 120)
    assert {arm for one in made[:3] for arm in one} == set(range(6))
    for t in range(3, 120):
        f = math.log(t + 1) + 8 * math.log(max(math.log(t + 1), 1.0))

        def index(arms: Any, t: int = t, f: float = f) -> float:
            n = counts[t][list(arms)]
            return float((sums[t][list(arms)] / n).sum() + math.sqrt(f / 2 * (1 / n).sum()))

        best = max(map(index, combinations(range(6), 2)))
        assert index(made[t]) == pytest.approx(best, abs=1e-12)


def test_escb_over_a_set_that_is_all_slates_decides_as_over_slates() -> None:
    assert played(ESCB(6, decisions=TopS(6, 2), seed=7), 60)[0] == played(ESCB(6, budget=2, seed=7), 60)[0]


def test_escb_that_lists_nothing_loses_little_of_the_index(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr("armtriage.baselines._LISTED", 0)
    made, counts, sums = played(ESCB(6, budget=2, seed=7), 120)
    worst = 0.0
    for t in range(3, 120):
        f = math.log(t + 1) + 8 * math.log(max(math.log(t + 1), 1.0))
        n, means = counts[t], sums[t] / counts[t]
        values = {
            a: means[list(a)].sum() + math.sqrt(f / 2 * (1 / n[list(a)]).sum()) for a in combinations(range(6), 2)
        }
        worst = max(worst, max(values.values()) - values[made[t][0], made[t][1]])
    assert worst < 0.1


def test_bgcts_draws_from_boosted_normal_laws() -> None:
    policy = BGCTS(6, budget=2, excess=0.5, seed=7)
    made, counts, sums = played(policy, 80)
    for t in range(3, 80):
        log = max(math.log(t + 1), 1.0)
        g = 1.5 * (log + 4 * math.log(log) + math.log(1 + 2 * math.e)) / log
        draw = np.random.default_rng([7, t]).standard_normal(6)
        drawn = sums[t] / counts[t] + draw * np.sqrt(2 * g * 0.25 / counts[t])
        assert made[t] == sorted(np.argsort(-drawn)[:2].tolist())


@pytest.mark.parametrize("kind", [CTS3, CLSG])
def test_one_draw_moves_all_arms(kind: Any) -> None:
    made, counts, sums = played(kind(6, budget=2, seed=7), 80)
    for t in range(3, 80):
        n, rng = counts[t], np.random.default_rng([7, t])
        if kind is CTS3:
            drawn = betaincinv(1 + sums[t], 1 + n - sums[t], rng.random())
        else:
            drawn = sums[t] / n + rng.standard_normal() / np.sqrt(n)
        assert made[t] == sorted(np.argsort(-drawn)[:2].tolist())


def test_a_window_forgets_what_lies_before_it() -> None:
    made, counts, sums = played(WindowCUCB(6, budget=2, window=20, seed=7), 100)
    for t in range(3, 100):
        since = max(0, t - 20)
        n, total = counts[t] - counts[since], sums[t] - sums[since]
        if (n == 0).any():
            assert n[made[t]].min() == 0
            continue
        index = total / n + np.sqrt(1.5 * math.log(min(t, 20) + 1) / n)
        assert index[made[t]].sum() == pytest.approx(np.sort(index)[-2:].sum())


def test_a_window_with_rewards_that_come_late_counts_them_by_their_decision() -> None:
    policy = WindowCUCB(6, budget=2, window=5, seed=7)
    asked = [policy.ask() for _ in range(4)]
    for decision in reversed(asked):
        policy.tell(decision, [1.0, 1.0])
    assert policy._weight.sum() == 8
    for _ in range(2):
        policy.ask()
    assert policy._weight.sum() == 6  # decision 6 looks back to decision 1
    copy = Policy.from_bytes(policy.to_bytes())
    assert [copy.ask().arms.tolist() for _ in range(9)] == [policy.ask().arms.tolist() for _ in range(9)]


@pytest.mark.parametrize("kind", KINDS)
def test_it_finds_the_cheapest_route(kind: Any) -> None:
    square = Paths(4, [(0, 1), (1, 3), (0, 2), (2, 3)], 0, 3)
    env = StochasticEnvironment([5, 5, 2, 3], 4, decisions=square, reward_range=(0, 10), direction="minimize", seed=7)
    policy = kind(4, decisions=square, reward_range=(0, 10), direction="minimize", seed=7)
    with warnings.catch_warnings():
        warnings.filterwarnings("ignore", message=".*is not compiled")
        trace = simulate(policy, env, horizon=600, checkpoints=[300, 600])
    assert np.diff(trace.regret[0])[0] < 600  # 300 rounds of the dearer route lose 1,500


@pytest.mark.parametrize(
    ("kind", "option", "message"),
    [
        (BGCTS, {"excess": 0}, "excess must be a positive number, got 0"),
        (CLSG, {"variance": -1}, "variance must be a positive number, got -1"),
        (WindowCUCB, {"window": 0}, "window must be a whole number from 1, got 0"),
    ],
)
def test_bad_options_are_refused(kind: Any, option: dict[str, Any], message: str) -> None:
    with pytest.raises(ValueError, match=message):
        kind(6, budget=2, **option)
