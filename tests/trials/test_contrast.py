"""Contrasts: exact validity on small problems, a plain twin, coverage while the policy learns, and what breaks it."""

import itertools
import math
from typing import Any

import numpy as np
import pytest
from numpy.typing import NDArray

from armtriage.kernels.betting import BETS, margin
from armtriage.trials import Contrast, running_mean_bound


class Plain:
    """The two capitals and the estimate, as the formulas say, one decision after the other."""

    def __init__(self, share: float, most: float, ratio: float, *, cuts: bool = True) -> None:
        self.share, self.most, self.ratio, self.cuts = share, most, ratio, cuts
        self.policy: list[float] = []
        self.control: list[float] = []
        self.low, self.high, self.total = np.zeros(BETS.size), np.zeros(BETS.size), 0.0
        self.least = math.inf  # of what a bet can lose, as a share of its scale

    def step(self, control: bool, value: float) -> tuple[float, float, float, float]:
        p, b, r = self.share, self.most, self.ratio
        m, k = sum(self.policy) / (len(self.policy) + 1), sum(self.control) / (len(self.control) + 1)
        cut_m = min(m, r * b * (1 - p) / p) if self.cuts else m
        cut_k = min(k, b * p / (r * (1 - p))) if self.cuts else k
        low = -r * (value - k) / p if control else (value - cut_m) / (1 - p)
        high = -r * (value - cut_k) / p if control else (value - m) / (1 - p)
        self.total += m - r * k + (-r * (value - k) / p if control else (value - m) / (1 - p))
        return low / (r * b / p), -high / (b / (1 - p)), (cut_m - r * k) / (r * b / p), -(m - r * cut_k) / (b / (1 - p))

    def add(self, control: bool, value: float) -> None:
        low, high, below, above = self.step(control, value)
        self.least = min(self.least, low, high)
        if self.least >= -1.0 - 1e-12:
            self.low += np.log1p(BETS * low) + BETS * below
            self.high += np.log1p(BETS * high) + BETS * above
        (self.control if control else self.policy).append(value)


@pytest.mark.parametrize(("share", "most", "ratio"), [(0.05, 6.0, 1.0), (0.5, 1.0, 1.2), (0.9, 2.0, 0.5)])
def test_it_is_its_plain_twin(share: float, most: float, ratio: float) -> None:
    rng = np.random.default_rng(1)
    contrast, twin = Contrast(share, most, ratio=ratio, alpha=0.1), Plain(share, most, ratio)
    groups, values = rng.random(300) < share, rng.uniform(0.0, most, 300)
    for control, value in zip(groups.tolist(), values.tolist(), strict=True):
        contrast.add(control, value)
        twin.add(control, value)
    assert contrast.estimate == pytest.approx(twin.total / 300)
    scales = ratio * most / share, most / (1 - share)
    low, high = margin(twin.low, 300, scales[0], 0.05), -margin(twin.high, 300, scales[1], 0.05)
    assert contrast.low == pytest.approx(max(low, -ratio * most))
    assert contrast.high == pytest.approx(min(high, most))
    at_once = Contrast(share, most, ratio=ratio, alpha=0.1)
    at_once.add(groups, values)
    assert (at_once.low, at_once.high, at_once.estimate) == (contrast.low, contrast.high, contrast.estimate)
    for alpha in (0.001, 0.5):
        assert contrast.exceeds(alpha) == (contrast.bound(alpha) > 0.0)
        assert contrast.exceeds(alpha, upper=True) == (contrast.bound(alpha, upper=True) < 0.0)


@pytest.mark.parametrize("side", ["low", "high"])
def test_capital_has_an_expectation_of_at_most_one_by_enumeration(side: str) -> None:
    # Four decisions, both groups, both rewards; what the policy earns depends on what it has earned.
    share, ratio, expected = 0.3, 1.5, 0.0
    for groups in itertools.product((False, True), repeat=4):
        for rewards in itertools.product((0.0, 1.0), repeat=4):
            twin, chance, shift = Plain(share, 1.0, ratio), 1.0, 0.0
            for control, value in zip(groups, rewards, strict=True):
                mean, other = 0.2 + 0.5 * sum(twin.policy) / (len(twin.policy) + 1), 0.4
                chance *= share if control else 1 - share
                rate = other if control else mean
                chance *= rate if value else 1 - rate
                lift = mean - ratio * other
                shift += lift * share / ratio if side == "low" else -lift * (1 - share)
                twin.add(control, value)
            capital = twin.low if side == "low" else twin.high
            expected += chance * float(np.exp(capital - BETS * shift).mean())
    assert 0.5 < expected <= 1.0 + 1e-12


@pytest.mark.parametrize("share", [0.01, 0.5, 0.99])
@pytest.mark.parametrize("ratio", [0.5, 1.0, 2.0])
def test_cuts_keep_every_bet_above_ruin(share: float, ratio: float) -> None:
    for first, last in itertools.product((False, True), repeat=2):
        for value, other in ((1.0, 0.0), (0.0, 1.0)):
            twin = Plain(share, 1.0, ratio)
            for _ in range(30):
                twin.add(first, value)
            twin.add(last, other)
            assert twin.least >= -1.0 - 1e-12


def test_without_cuts_a_bet_could_lose_more_than_it_has() -> None:
    twin = Plain(0.99, 1.0, 1.0, cuts=False)
    for _ in range(30):
        twin.add(False, 1.0)
    twin.add(False, 0.0)
    assert twin.least < -1.0


def test_it_is_less_than_twice_as_wide_as_a_single_look_and_never_wider_than_by_bernstein() -> None:
    share, most, rounds = 0.05, 1.0, 2500
    for seed in range(3):
        rng = np.random.default_rng(seed)
        groups = rng.random(rounds) < share
        values = (rng.random(rounds) < np.where(groups, 0.21, 0.28)).astype(float)
        contrast, twin = Contrast(share, most), Plain(share, most, 1.0)
        contrast.add(groups, values)
        bernstein = np.zeros((2, BETS.size))
        for control, value in zip(groups.tolist(), values.tolist(), strict=True):
            *gains, below, above = twin.step(control, value)
            for side, (gain, centre) in enumerate(zip(gains, (below, above), strict=True)):
                bernstein[side] += BETS * (gain + centre) - (-np.log1p(-BETS) - BETS) * gain**2
            (twin.control if control else twin.policy).append(value)
        scales = most / share, most / (1 - share)
        low, high = (margin(one, rounds, scale, 0.025) for one, scale in zip(bernstein, scales, strict=True))
        assert low <= contrast.low < contrast.high <= -high
        mine, theirs = values[~groups], values[groups]
        wald = 1.96 * math.sqrt(mine.var() / mine.size + theirs.var() / theirs.size)
        assert (contrast.high - contrast.low) / 2 <= 2 * wald


def _misses(runs: int, share: float, seed: int) -> int:
    """Count runs in which the interval misses at one of 40 looks, while the policy learns and the world has a wave."""
    rng, misses, rounds = np.random.default_rng(seed), 0, 4000
    t = np.arange(rounds)
    control = 0.2 * (1.0 + 0.4 * np.sin(t / 300.0))
    policy = control * (1.0 + 0.4 * t / rounds)
    truth = np.cumsum(policy - control) / (t + 1)
    for _ in range(runs):
        groups = rng.random(rounds) < share
        values = (rng.random(rounds) < np.where(groups, control, policy)).astype(float)
        contrast, bad = Contrast(share, 1.0), False
        for start in range(0, rounds, 100):
            contrast.add(groups[start : start + 100], values[start : start + 100])
            bad = bad or not contrast.low <= truth[start + 99] <= contrast.high
        misses += bad
    return misses


@pytest.mark.parametrize("share", [0.05, 0.5])
def test_it_covers_a_policy_that_learns(share: float) -> None:
    # 5% may miss; if they do, more than 17 of 150 runs miss with probability 0.0003.
    assert _misses(150, share, 7) <= 17


@pytest.mark.long
@pytest.mark.parametrize("share", [0.01, 0.05, 0.2, 0.5])
def test_it_covers_a_policy_that_learns_in_many_runs(share: float) -> None:
    # If 5% missed, more than 52 of 600 would with probability 0.00006.
    assert _misses(600, share, 11) <= 52


def _visitors(rng: np.random.Generator) -> tuple[NDArray[np.int64], NDArray[np.float64]]:
    """Return who comes, 4 to 16 times each, and how keen everybody is."""
    visits = np.repeat(np.arange(2000), rng.integers(4, 17, 2000))
    rng.shuffle(visits)
    return visits, rng.choice([0.2, 1.8], 2000)


def test_a_group_for_a_visitor_and_an_interval_by_decision_fails_and_first_decisions_do_not() -> None:
    rng, wrong, right = np.random.default_rng(3), 0, 0
    for _ in range(100):
        visits, keen = _visitors(rng)
        group_of = rng.random(2000) < 0.2
        groups, rates = group_of[visits], 0.4 * keen[visits]  # the policy does as the control does: the lift is 0
        values = (rng.random(visits.size) < rates).astype(float)
        _, first = np.unique(visits, return_index=True)
        first.sort()
        every, once, bad = Contrast(0.2, 1.0), Contrast(0.2, 1.0), [False, False]
        for part in np.array_split(np.arange(visits.size), 20):
            every.add(groups[part], values[part])
            bad[0] = bad[0] or not every.low <= 0.0 <= every.high
        for part in np.array_split(first, 20):
            once.add(groups[part], values[part])
            bad[1] = bad[1] or not once.low <= 0.0 <= once.high
        wrong, right = wrong + bad[0], right + bad[1]
    # 13 of 100 would be 5% with probability 0.001; that more than 13 miss is what shows the harm.
    assert wrong > 13
    assert right <= 13


def test_a_lift_of_a_fifth_is_seen_in_time() -> None:
    rng, seen = np.random.default_rng(5), []
    for _ in range(11):
        contrast, n = Contrast(0.05, 6.0), 0
        while contrast.low <= 0.0 and n < 100_000:
            groups = rng.random(1000) < 0.05
            contrast.add(groups, rng.binomial(6, np.where(groups, 0.05, 0.06)).astype(float))
            n += 1000
        seen.append(n)
    assert np.median(seen) <= 35_000


def test_controls_that_are_dropped_are_noticed() -> None:
    rng = np.random.default_rng(2)
    groups = rng.random(3000) < 0.2
    kept = ~groups | (rng.random(3000) < 0.5)
    contrast, whole = Contrast(0.2, 1.0), Contrast(0.2, 1.0)
    contrast.add(groups[kept], np.zeros(int(kept.sum())))
    whole.add(groups, np.zeros(3000))
    assert not contrast.share_ok
    assert whole.share_ok


def test_a_running_mean_is_bounded_as_the_twin_says() -> None:
    rng = np.random.default_rng(4)
    values, centres = rng.uniform(0.0, 2.0, 200), rng.uniform(0.5, 1.5, 200)
    capital = sum(np.log1p(BETS * (x - c) / 1.5) + BETS * c / 1.5 for x, c in zip(values, centres, strict=True))
    assert running_mean_bound(values, centres, 1.5) == pytest.approx(margin(np.asarray(capital), 200, 1.5, 0.05))


@pytest.mark.parametrize(
    ("call", "said"),
    [
        (lambda: Contrast(0.0, 1.0), "share must be a number strictly between 0 and 1, got 0.0"),
        (lambda: Contrast(0.5, 0.0), "most must be a positive number, got 0.0"),
        (lambda: Contrast(0.5, 1.0, ratio=-1.0), "ratio must be a positive number, got -1.0"),
        (lambda: Contrast(0.5, 1.0, alpha=1.0), "alpha must be a number strictly between 0 and 1, got 1.0"),
        (lambda: Contrast(0.5, 1.0).add(False, 1.5), r"value must be from 0 to 1, got 1.5"),
        (lambda: Contrast(0.5, 1.0).add(False, math.nan), "value must be from 0 to 1, got nan"),
        (lambda: Contrast(0.5, 1.0).add([True], [0.1, 0.2]), "control must be a boolean for each of 2 values"),
        (lambda: Contrast(0.5, 1.0).add(1, 0.5), "control must be a boolean for each of 1 values, got 1"),
        (lambda: running_mean_bound([], [], 1.0), "centres must have one number for each of 0 values"),
        (lambda: running_mean_bound([0.0], [2.0], 1.0), "values must be at most 1 below their centres"),
    ],
)
def test_bad_input_is_named(call: Any, said: str) -> None:
    with pytest.raises(ValueError, match=said):
        call()


def test_what_is_refused_changes_nothing() -> None:
    contrast = Contrast(0.5, 1.0)
    contrast.add(True, 0.5)
    before = contrast.to_arrays()
    with pytest.raises(ValueError, match="value must be"):
        contrast.add([False, False], [0.5, 2.0])
    for name, array in contrast.to_arrays().items():
        assert np.array_equal(array, before[name])
