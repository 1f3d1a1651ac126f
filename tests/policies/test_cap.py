"""A cap: rewards above it count as it, are told as they are, and are counted."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import numpy as np
import pytest

from armtriage import KLUCB, DamagedFile, Guard, GuardedLinear, GuardedThompson, Policy, ThompsonSampling
from armtriage._files import read_archive, write_archive
from armtriage.certificate import Tally, intervals_of


def told(policy: Any, rewards: Any, rounds: int = 60) -> Any:
    """Play, with a reward for each arm and round, of which every third decision is told in parts."""
    luck = np.random.default_rng(3)
    for number in range(rounds):
        decision = policy.ask()
        values = {arm: float(rewards(luck.exponential(80.0))) for arm in decision.arms.tolist()}
        if number % 3:
            policy.tell(decision, values)
            continue
        first = decision.arms.tolist()[0]
        policy.tell(decision, {first: values.pop(first)}, last=False)
        policy.tell(decision, values)
    return policy


@pytest.mark.parametrize(
    "make", [ThompsonSampling, KLUCB, GuardedThompson, lambda *given, **more: Guard(None, *given, **more)]
)
def test_rewards_above_the_cap_are_learned_as_the_cap(make: Any) -> None:
    capped, cut = make(6, 2, cap=100.0, seed=7), make(6, 2, reward_range=(0.0, 100.0), seed=7)
    for policy in (capped, cut):
        if isinstance(policy, Guard):
            policy.proposer = lambda number: [number % 6, (number + 1) % 6]
    told(capped, lambda reward: reward)
    told(cut, lambda reward: min(reward, 100.0))
    assert capped.reward_range == (0.0, 100.0)
    assert capped.ask().arms.tolist() == cut.ask().arms.tolist()
    for one, other in zip(capped.tally[:4], cut.tally[:4], strict=True):
        assert np.array_equal(one, other)
    above = capped.above_cap
    assert above.rewards > 10
    luck, excess = np.random.default_rng(3), 0.0
    for _ in range(120):
        excess += max(luck.exponential(80.0) - 100.0, 0.0)
    assert above.excess == pytest.approx(excess)
    earned = 100.0 * capped.tally.sums.sum() + excess
    assert above.share == pytest.approx(excess / earned)
    assert f"Each of the rewards counts up to 100, which left out {above.share:.1%}." in str(capped.certificate())
    assert "counts up to" not in str(cut.certificate())
    assert "cap=100.0" in repr(capped)
    assert "cap=" not in repr(cut)


def test_costs_are_cut_too() -> None:
    policy = ThompsonSampling(2, 1, cap=10.0, direction="minimize", seed=7)
    decision = policy.ask()
    policy.tell(decision, [25.0])
    assert policy.tally.sums.sum() == 0.0
    assert policy.above_cap == (1, 15.0, 15.0 / 25.0)


def test_a_cap_of_zero_is_saved(tmp_path: Path) -> None:
    ThompsonSampling(3, 1, reward_range=(-5.0, 1.0), cap=0.0, seed=7).save(tmp_path / "policy.bin")
    assert Policy.load(tmp_path / "policy.bin").cap == 0.0
    GuardedThompson(3, 1, mode="certify", price=0, seed=7).save(tmp_path / "policy.bin")
    assert Policy.load(tmp_path / "policy.bin").price == 0.0


def test_it_is_saved_and_goes_on(tmp_path: Path) -> None:
    one = told(GuardedThompson(6, 2, cap=100.0, seed=7), lambda reward: reward)
    one.save(tmp_path / "policy.bin")
    other = Policy.load(tmp_path / "policy.bin")
    assert other.above_cap == one.above_cap
    assert other.digest() == one.digest()
    for policy in (one, other):
        told(policy, lambda reward: reward, 10)
    assert other.digest() == one.digest()
    assert one.fresh().cap == 100.0
    assert one.fresh().above_cap == (0, 0.0, 0.0)
    for above in (None, [1], [-1, 2.0], [1, -2.0], [0, 2.0], "x"):
        header, arrays = read_archive(tmp_path / "policy.bin")
        write_archive(tmp_path / "forged.bin", {**header, "above": above}, arrays)
        with pytest.raises(DamagedFile):
            Policy.load(tmp_path / "forged.bin")


@pytest.mark.parametrize("bad", [float("nan"), float("inf"), -1.0])
def test_what_is_no_reward_is_refused_and_changes_nothing(bad: float) -> None:
    policy = ThompsonSampling(3, 2, cap=100.0, seed=7)
    decision = policy.ask()
    before = policy.digest()
    for last in (True, False):
        with pytest.raises(ValueError, match=f"rewards must be finite numbers from 0.0, got {bad}"):
            policy.tell(decision, [500.0, bad], last=last)
    assert policy.digest() == before
    assert policy.above_cap.rewards == 0


@pytest.mark.parametrize("cap", [0.0, -1.0, float("inf"), float("nan")])
def test_caps_that_cannot_be_are_named(cap: float) -> None:
    with pytest.raises(ValueError, match=r"cap must be a finite number above the least reward, 0\.0, got"):
        ThompsonSampling(3, 2, cap=cap)


def test_contexts_have_no_cap() -> None:
    with pytest.raises(NotImplementedError, match=r"cap is for policies without contexts, got 3\.0"):
        GuardedLinear(dimension=2, budget=1, cap=3.0)


def test_a_cap_makes_intervals_of_revenue_narrow_enough() -> None:
    """2% buy, with baskets of 40 at the median: after 10,000 looks the half-width at 99% is 0.65 of the mean or less.

    Without a cap, in a range of up to 10,000, it is more than twice the mean.
    """
    luck = np.random.default_rng(7)
    for _ in range(5):
        revenue = np.where(luck.random(10_000) < 0.02, luck.lognormal(np.log(40.0), 1.0, 10_000), 0.0)
        widths = []
        for top in (410.0, 10_000.0):
            unit = np.minimum(revenue, top) / top
            sums, between = np.array([unit.sum()]), np.array([(unit * (1.0 - unit)).sum()])
            counts = np.array([unit.size])
            lower, upper = intervals_of(Tally(counts, counts, sums, between), 1, 0.01)
            widths.append(float((upper - lower)[0] / 2.0 / unit.mean()))
        assert widths[0] <= 0.65
        assert widths[1] >= 2.0
