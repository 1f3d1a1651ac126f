"""Pages whose places are not alike: clicks, regret, and what is refused."""

from __future__ import annotations

from itertools import permutations
from typing import Any

import numpy as np
import pytest

from armtriage import Environment, PageEnvironment, ThompsonSampling, simulate

RATES, WEIGHTS = np.array([0.5, 0.3, 0.9, 0.1]), np.array([1.0, 0.5, 0.25])


def test_clicks_follow_place_and_item() -> None:
    page, order = PageEnvironment(RATES, WEIGHTS, seed=3), [2, 0, 3]
    found = np.mean([page.rewards(number, order) for number in range(4000)], axis=0)
    # Five standard errors of 4,000 coins are less than 0.04.
    assert np.abs(found - WEIGHTS * RATES[order]).max() < 0.04
    assert np.array_equal(page.rewards(5, order, 2), page.rewards(5, order, 2))


def test_a_cascade_has_one_click_at_most() -> None:
    page, order = PageEnvironment(RATES, seed=3), [0, 1, 2]
    clicks = np.array([page.rewards(number, order) for number in range(4000)])
    assert clicks.sum(axis=1).max() == 1
    expected = [0.5, 0.5 * 0.3, 0.5 * 0.7 * 0.9]
    assert np.abs(clicks.mean(axis=0) - expected).max() < 0.04


@pytest.mark.parametrize("weights", [WEIGHTS, None])
def test_regret_is_against_the_best_page(weights: Any) -> None:
    page = PageEnvironment(RATES, weights, seed=3)

    def worth(order: tuple[int, ...]) -> float:
        if weights is None:
            return float(1 - np.prod(1 - RATES[list(order)]))
        return float(WEIGHTS @ RATES[list(order)])

    pages = list(permutations(range(4), 3))
    best = max(map(worth, pages))
    for order in pages:
        assert page.regret(order) == pytest.approx(best - worth(order), abs=1e-12)


@pytest.mark.filterwarnings("ignore:PageEnvironment is not compiled")
def test_simulate_plays_pages() -> None:
    page = PageEnvironment(RATES, WEIGHTS, seed=3)
    assert isinstance(page, Environment)
    trace = simulate(ThompsonSampling(4, budget=3, seed=7), page, horizon=300, replications=2, checkpoints=[300])
    policy, lost = ThompsonSampling(4, budget=3, seed=7), 0.0
    for number in range(300):
        decision = policy.ask()
        lost += page.regret(decision.ranked_arms)
        policy.tell(decision, page.rewards(number, decision.ranked_arms), arms=decision.ranked)
    assert trace.regret[0, 0] == pytest.approx(lost)


def test_refusals() -> None:
    for weights in ([0.9, 0.5], [1.0, 0.5, 0.6], [1.0, 0.0], [], [[1.0]], [1.0, float("nan")]):
        with pytest.raises(ValueError, match="weights must be weights from 1 falling, above 0, got"):
            PageEnvironment(RATES, weights)
    with pytest.raises(ValueError, match=r"rates must lie in \[0, 1\], got"):
        PageEnvironment([0.5, 1.5])
    page = PageEnvironment(RATES, WEIGHTS)
    with pytest.raises(ValueError, match="arms must be at most 3, one for each place, got 4"):
        page.regret([0, 1, 2, 3])
    with pytest.raises(ValueError, match="budget must be 3, the places of the page, got 2"):
        simulate(ThompsonSampling(4, budget=2), page, horizon=1)
    with pytest.raises(ValueError, match="certificate must be False where places have weights, got True"):
        simulate(ThompsonSampling(4, budget=3), page, horizon=1, certificate=True)
