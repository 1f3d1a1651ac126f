"""Intervals and certificates of pages whose places have weights."""

from __future__ import annotations

import math
from itertools import permutations, product

import numpy as np
import pytest
from scipy.optimize import brentq
from scipy.special import gammaln

from armtriage import confidence_interval
from armtriage.certificate import Bounds
from armtriage.certificate.places import lost_by_place, place_bounds

WEIGHTS = np.array([1.0, 0.6, 0.4, 0.3, 0.2, 0.15])
SHARES = np.array([3, 2, 2, 1, 1, 1]) / 10


def slow(clicks: float, told: float, share: float) -> tuple[float, float]:
    """Both ends by bisection of the logarithm of the mixture."""

    def over(mean: float) -> float:
        capital = -clicks * math.log(mean) + mean * told - gammaln(0.5) + gammaln(clicks + 0.5)
        return float(capital - (clicks + 0.5) * math.log(told + 1.0) - math.log(1 / share))

    middle = clicks / told
    lower = 0.0 if clicks == 0 else brentq(over, 1e-300, min(middle, 1.0)) if over(min(middle, 1.0)) < 0 else 1.0
    upper = 1.0 if middle >= 1 or over(1.0) < 0 else brentq(over, max(middle, 1e-15), 1.0)
    return lower, upper


def test_ends_are_those_of_bisection_and_never_inside() -> None:
    luck = np.random.default_rng(7)
    for _ in range(400):
        told = 10 ** luck.uniform(-1, 5)
        clicks = luck.choice([0.0, luck.poisson(told * luck.uniform(0.0, 1.3)), luck.uniform(0, told)])
        share = 10 ** luck.uniform(-5, -1)
        (lower,), (upper,) = place_bounds(np.array([clicks]), np.array([told]), share)
        low, high = slow(float(clicks), float(told), share)
        assert lower <= low + 1e-9
        assert upper >= high - 1e-9
        assert lower == pytest.approx(low, abs=1e-6)
        assert upper == pytest.approx(high, abs=1e-6)
        assert 0.0 <= lower <= upper <= 1.0


def test_where_places_are_alike_the_interval_is_about_the_usual_one() -> None:
    for rate in (0.01, 0.03, 0.1):
        for n in (1000, 20_000):
            clicks = n * rate
            lower, upper = place_bounds(np.array([clicks]), np.array([float(n)]), 0.05)
            usual = confidence_interval(n, clicks, delta=0.05)
            assert (upper[0] - lower[0]) / (usual[1] - usual[0]) == pytest.approx(1.0, abs=0.05)


def missed(rate: float, runs: int, looks: int = 20_000) -> tuple[float, float]:
    """Return in how many runs the interval at 95% ever missed, and its last width."""
    luck, misses, width = np.random.default_rng(7), 0, 0.0
    marks = np.unique(np.geomspace(50, looks, 25).astype(int))
    for _ in range(runs):
        weights = WEIGHTS[luck.choice(6, looks, p=SHARES)]
        clicks, told = np.cumsum(luck.random(looks) < weights * rate)[marks - 1], np.cumsum(weights)[marks - 1]
        lower, upper = place_bounds(clicks.astype(float), told, 0.05)
        misses += bool(((rate < lower) | (rate > upper)).any())
        width += (upper[-1] - lower[-1]) / runs
    return misses / runs, width


def by_place(rate: float, looks: int, share: float) -> float:
    """Width of the interval by the likelihood of each place, at expected counts, mixed over a grid."""
    shown = looks * SHARES
    clicks = shown * WEIGHTS * rate
    grid = np.sin(np.linspace(0, np.pi / 2, 401)[1:-1]) ** 2

    def likelihood(mean: float) -> float:
        return float(clicks @ np.log(WEIGHTS * mean) + (shown - clicks) @ np.log1p(-WEIGHTS * mean))

    values = np.array([likelihood(one) for one in grid])
    level = values.max() + math.log(np.exp(values - values.max()).mean()) - math.log(1 / share)
    ends = [brentq(lambda mean: likelihood(mean) - level, *pair) for pair in ((1e-9, rate), (rate, 1 - 1e-9))]
    return ends[1] - ends[0]


def test_intervals_hold_and_are_as_narrow_as_by_place() -> None:
    for rate in (0.03, 0.08, 0.5):
        misses, width = missed(rate, 200)
        assert misses <= 0.05  # 0.010, 0.010 and 0.000 of 400 runs where it was designed
        if rate == 0.08:
            assert width <= 1.05 * by_place(rate, 20_000, 0.05)


def test_places_taken_alike_miss() -> None:
    luck, misses = np.random.default_rng(7), 0
    for _ in range(20):
        clicks = luck.random(20_000) < WEIGHTS[luck.choice(6, 20_000, p=SHARES)] * 0.08
        lower, upper = confidence_interval(20_000, float(clicks.sum()), delta=0.05)
        misses += not lower <= 0.08 <= upper
    assert misses == 20


def test_the_mixture_is_a_supermartingale() -> None:
    # All paths of 7 clicks in places and with means that depend on the past; E of the capital against the truth.
    rate, luck = 0.7, np.random.default_rng(5)
    weights = luck.uniform(0.1, 1.0, (7, 8))
    weights[::2] = 1.0
    total = 0.0
    for path in product((0, 1), repeat=7):
        chance, clicks, told = 1.0, 0, 0.0
        for number, click in enumerate(path):
            weight = weights[number, clicks]
            chance *= weight * rate if click else 1 - weight * rate
            clicks, told = clicks + click, told + weight
        capital = -clicks * math.log(rate) + rate * told - gammaln(0.5) + gammaln(clicks + 0.5)
        total += chance * math.exp(capital - (clicks + 0.5) * math.log(told + 1.0))
    assert 0.3 < total <= 1.0 + 1e-12


def test_the_most_that_pages_lost_is_that_of_all_pages_and_means() -> None:
    luck = np.random.default_rng(7)
    for _ in range(60):
        n, size, rounds = 5, int(luck.integers(1, 4)), 10
        weights = np.sort(luck.random(size))[::-1].copy()
        weights[0] = 1.0
        given = np.zeros(n)
        for _ in range(rounds):
            given[luck.permutation(n)[:size]] += weights
        lower = luck.random(n)
        upper = lower + (1 - lower) * luck.random(n)
        most = 0.0
        for page in permutations(range(n), size):
            x = np.zeros(n)
            x[list(page)] = rounds * weights
            for means in product(*zip(lower, upper, strict=True)):
                most = max(most, float((x - given) @ np.array(means)))
        found, page = lost_by_place(rounds, weights, given, Bounds(lower, upper))
        assert found == pytest.approx(most, abs=1e-9)
        assert len(set(page.tolist())) == size
