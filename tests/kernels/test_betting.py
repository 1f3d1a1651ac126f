"""The centred betting mixture: a supermartingale, solved from the safe side."""

import itertools
import math

import numpy as np
import pytest

from armtriage.kernels.betting import BETS, margin


def test_capital_is_a_supermartingale_though_the_mean_moves_with_the_past() -> None:
    # All paths of ten coins whose chance depends on what came before: the expectation is a finite sum.
    expected = 0.0
    for path in itertools.product((0, 1), repeat=10):
        chance, log_capital, ones = 1.0, np.zeros(BETS.size), 0
        for t, x in enumerate(path):
            mean, centre = 0.2 + 0.6 * (ones + 1) / (t + 2), ones / (t + 1)
            chance *= mean if x else 1.0 - mean
            log_capital += np.log1p(BETS * (x - centre)) - BETS * (mean - centre)
            ones += x
        expected += chance * float(np.exp(log_capital).mean())
    assert 0.5 < expected <= 1.0 + 1e-12


@pytest.mark.parametrize("seed", range(8))
def test_no_step_passes_the_root_and_the_last_is_near_it(seed: int) -> None:
    rng = np.random.default_rng(seed)
    rounds, scale, alpha = int(rng.integers(1, 5000)), float(rng.uniform(0.1, 9.0)), 10.0 ** rng.uniform(-6, -0.1)
    values = rng.uniform(0.0, scale, rounds)
    capital = np.log1p(BETS[:, None] * (values - 0.3 * scale) / scale).sum(axis=1) + BETS * 0.3 * rounds

    def excess(z: float) -> float:
        terms = capital - BETS * rounds * z / scale
        return float(np.logaddexp.reduce(terms)) - math.log(BETS.size / alpha)

    low, high = -1e9, 1e9
    for _ in range(200):
        middle = (low + high) / 2
        low, high = (middle, high) if excess(middle) > 0.0 else (low, middle)
    found = margin(capital, rounds, scale, alpha)
    assert found <= high + 1e-12 * abs(high)
    assert found == pytest.approx(low, rel=1e-6, abs=1e-9)


@pytest.mark.parametrize("seed", range(5))
def test_it_is_never_wider_than_empirical_bernstein(seed: int) -> None:
    rng = np.random.default_rng(seed)
    gains = rng.uniform(-1.0, 3.0 * rng.random(), 400)
    bernstein = BETS * gains.sum() - (-np.log1p(-BETS) - BETS) * float((gains**2).sum())
    betting = np.log1p(BETS[:, None] * gains).sum(axis=1)
    assert margin(betting, 400, 1.0, 0.05) >= margin(bernstein, 400, 1.0, 0.05) - 1e-12
