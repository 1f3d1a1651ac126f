"""Marginal probabilities of Thompson sampling: exact, and those of what is played."""

from __future__ import annotations

import copy
import math
import pickle
from typing import Any

import numpy as np
import pytest
from scipy import special

from armtriage import Greedy, GuardedThompson, Policy, SlateLog, ThompsonSampling, evaluate, resampled_weights
from armtriage.decisions import TopS, swap
from armtriage.policies.sampling.marginals import _find_peaks, _panels, inclusion_by_draws


@pytest.mark.parametrize("slots", [1, 2])
def test_three_arms_by_integration(slots: int) -> None:
    from scipy import integrate, stats

    a, b, least = np.array([3.0, 8.0, 2.0]), np.array([4.0, 9.0, 1.0]), np.array([0.0, 0.2, 0.0])
    laws = [stats.beta(*one[:2], loc=one[2], scale=1 - one[2]) for one in zip(a, b, least, strict=True)]
    for arm, found in enumerate(inclusion_by_draws(least, a, b, slots)):
        one, other = (law for place, law in enumerate(laws) if place != arm)

        def height(x: float, own=laws[arm], one=one, other=other) -> float:  # type: ignore[no-untyped-def]
            beaten = one.cdf(x) * other.cdf(x) if slots == 1 else 1 - one.sf(x) * other.sf(x)
            return float(own.pdf(x) * beaten)

        wanted, _ = integrate.quad(height, 0, 1, epsabs=1e-12, points=[0.2])
        assert found == pytest.approx(wanted, abs=1e-10)


def test_equal_arms_relabelling_and_sharp_beside_unknown() -> None:
    alike = np.full(7, 4.0)
    assert inclusion_by_draws(np.zeros(7), alike, alike + 1, 3) == pytest.approx(np.full(7, 3 / 7), abs=1e-9)
    luck = np.random.default_rng(7)
    a, b = luck.integers(1, 60, (2, 40)).astype(float)
    order = luck.permutation(40)
    found = inclusion_by_draws(np.zeros(40), a, b, 5)
    assert found.sum() == pytest.approx(5, abs=5e-6)
    assert inclusion_by_draws(np.zeros(40), a[order], b[order], 5) == pytest.approx(found[order], abs=1e-9)
    # A million looks beside none: the third is above the second with a known normal probability, and the first
    # above both half of the time.
    wide = inclusion_by_draws(np.zeros(3), np.array([1.0, 5e5, 5e5 + 300]), np.array([1.0, 5e5, 5e5]), 1)
    assert wide[0] == pytest.approx(0.5, abs=1e-3)
    ahead = special.ndtr(300 / 2e6 / math.sqrt(2 * 0.25 / 1e6))
    assert wide[2] / (wide[1] + wide[2]) == pytest.approx(ahead, abs=1e-3)


def test_panels_are_halved_until_no_density_changes_too_much() -> None:
    # More arms than ends of panels that wait: what is known of them was once read from there.
    luck = np.random.default_rng(7)
    looks = luck.integers(2, 4000, 100)
    wins = luck.binomial(looks, luck.uniform(0.1, 0.9, 100))
    a, b, least = 1.0 + wins, 1.0 + looks - wins, np.zeros(100)
    peaks, tops = np.empty((2, 100))
    scales = special.betaln(a, b)
    _find_peaks(least, a, b, scales, peaks, tops)

    def fine(start: float, end: float) -> list[float]:
        h = end - start
        points = [np.clip(peaks, start, end), *(start + share * h for share in (0.1, 0.5, 0.9))]
        heights = np.array([special.xlogy(a - 1, x) + special.xlog1py(b - 1, -x) - scales for x in points])
        counts = heights[0] + math.log(h) >= -34.0
        if (counts & (heights[0] - heights[1:].min(axis=0) > 12.0)).any():
            return [*fine(start, start + h / 2), *fine(start + h / 2, end)]
        return [end]

    ends = [0.5 + 0.4 * (i + 1) / 6 for i in range(6)]
    expected = [0.5, *(end for pair in zip([0.5, *ends], ends, strict=False) for end in fine(*pair))]
    assert _panels(0.5, 0.9, 12.0, least, a, b, scales, peaks, tops) == pytest.approx(expected, abs=1e-12)
    assert len(expected) > 30


def test_many_arms_against_draws() -> None:
    # 4,000 draws; the worst of 300 arms within 5 standard errors fails once in 6,000 such tests.
    luck = np.random.default_rng(7)
    means, looks = luck.uniform(0.05, 0.9, 300), luck.integers(0, 60, 300)
    wins = luck.binomial(looks, means)
    a, b, least = 1.0 + wins, 1.0 + looks - wins, luck.uniform(0, 0.2, 300)
    found = inclusion_by_draws(least, a, b, 20)
    draws = least + (1 - least) * luck.beta(a, b, (4000, 300))
    seen = (draws >= np.sort(draws, axis=1)[:, [-20]]).mean(axis=0)
    error = np.sqrt(np.maximum(found * (1 - found), 1e-4) / 4000)
    assert (np.abs(seen - found) < 5 * error).all()
    assert found.sum() == pytest.approx(20, abs=2e-5)


def test_a_policy_plays_with_its_marginals() -> None:
    # 3,000 rounds with their own luck, and the same state; 4.5 standard errors fail once in 15,000 such tests.
    first = ThompsonSampling(6, budget=2, logging_floor=0.2, seed=7)
    for number in range(30):
        first.tell(first.ask(), [float(number % 3 == 0), 0.4])
    among, seen = np.array([0, 1, 2, 4, 5]), np.zeros(6)
    expected = first.marginals(eligible=among.tolist())
    assert expected.sum() == pytest.approx(2, abs=2e-6)
    assert expected[3] == 0.0
    for number in range(3000):
        proposed, _ = first._chosen(number, among)
        seen[swap(proposed, among, 0.2, first.seed, number)] += 1
    error = np.sqrt(expected * (1 - expected) / 3000)
    assert (np.abs(seen / 3000 - expected) <= 4.5 * error).all()
    decision = first.ask(eligible=among.tolist())
    assert decision.marginal == pytest.approx(expected[decision.arms], abs=1e-12)


def test_a_decision_keeps_its_marginals_and_copies_have_none() -> None:
    policy = ThompsonSampling(6, budget=2, logging_floor=0.2, seed=7)
    one, other = policy.ask(), policy.ask()
    assert policy.ask(eligible=[1, 3]).marginal == pytest.approx([1.0, 1.0])
    kept = one.marginal
    for copied in (copy.deepcopy(policy), pickle.loads(pickle.dumps(policy)), Policy.from_bytes(policy.to_bytes())):
        assert copied.decision(1).marginal is None
    policy.tell(one, [1.0, 0.0])
    assert one.marginal is kept
    with pytest.raises(ValueError, match="marginal of decision 1 must be asked for before more is told"):
        _ = other.marginal
    assert ThompsonSampling(6, budget=2, seed=7).ask().marginal is None


def test_a_log_with_marginals_is_right_and_has_less_variance(tmp_path) -> None:  # type: ignore[no-untyped-def]
    means, luck = np.linspace(0.1, 0.8, 8), np.random.default_rng(7)
    found = []
    policy = ThompsonSampling(8, budget=2, logging_floor=0.1, seed=7)
    with SlateLog(tmp_path / "given") as given, SlateLog(tmp_path / "marginal") as marginal:
        for _ in range(600):
            decision = policy.ask()
            chances = decision.marginal
            rewards = (luck.random(2) < means[decision.arms]).astype(float)
            policy.tell(decision, rewards)
            given.append(decision, rewards)
            marginal.append(decision, rewards, inclusion=chances)
    for log in (given, marginal):
        found.append(evaluate(log, [5, 6], estimator="ips", anytime=False))
        assert found[-1].low < means[5] + means[6] < found[-1].high
        assert found[-1].calibration_z is not None
        assert abs(found[-1].calibration_z) < 4
    assert found[1].high - found[1].low < 0.9 * (found[0].high - found[0].low)
    first, second = (evaluate(log, [5, 6]) for log in (given, marginal))  # the floor is below both
    assert second.high - second.low < 1.1 * (first.high - first.low)


@pytest.mark.parametrize("kind", [ThompsonSampling, pytest.param(GuardedThompson, marks=pytest.mark.thorough)])
def test_resampled_weights_are_unbiased(kind: type[Any]) -> None:
    # The average of 25 estimates, whose mean is 1 over the probability: within 4 errors, missed once in 16,000 tests.
    policy = kind(4, budget=2, logging_floor=0.3, seed=7)
    for number in range(12):
        policy.tell(policy.ask(), [float(number % 2), 0.2])
    before = policy.to_bytes()
    decision = policy.ask()
    found = np.array([resampled_weights(before, decision, times=2, seed=seed) for seed in range(25)])
    if kind is ThompsonSampling:
        truth = 1 / decision.marginal
    else:
        # No formula: the share of 300 copies, whose own error is a tenth of what is allowed.
        again = [set(_reseeded(before, seed).ask().arms.tolist()) for seed in range(300)]
        truth = 1 / np.array([np.mean([arm in one for one in again]) for arm in decision.arms])
    error = found.std(axis=0) / math.sqrt(25)
    assert (np.abs(found.mean(axis=0) - truth) < 4 * error + 0.01).all()


def _reseeded(before: bytes, seed: int) -> Policy:
    policy = Policy.from_bytes(before)
    policy.seed = 10**9 + seed
    return policy


def test_what_resampling_refuses() -> None:
    policy = Greedy(4, budget=1, seed=7)
    before = policy.to_bytes()
    one, two = policy.ask(), policy.ask()
    assert resampled_weights(before, one, times=2).tolist() == [1.0]
    with pytest.raises(ValueError, match="decision must be the next after 0 decisions, got number 1"):
        resampled_weights(before, two)
    other = Greedy(4, budget=1, seed=7)
    for arm in range(4):
        other.tell(other.record([arm]), [float(arm == 3)])
    with pytest.raises(ValueError, match="arm 0 came up 0 times of 4 in 20 tries: set a logging_floor"):
        resampled_weights(other.to_bytes(), other.record([0]), most=20)


def test_what_is_refused() -> None:
    with pytest.raises(NotImplementedError, match="marginals are of slates, got TopS"):
        ThompsonSampling(6, decisions=TopS(6, 2)).marginals()
    with pytest.raises(ValueError, match="marginals are for up to 1,000 arms, got 1,001"):
        ThompsonSampling(1001, budget=2).marginals()
    with pytest.raises(ValueError, match=r"prior must have no number below 1 for marginals, got \(0.5, 0.5\)"):
        ThompsonSampling(6, budget=2, prior=(0.5, 0.5)).marginals()
