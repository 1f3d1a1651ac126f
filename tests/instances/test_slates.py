"""Slates as they are met: contexts and rates of each family are what is said of them."""

from __future__ import annotations

import numpy as np
import pytest

from armtriage import LinearEnvironment, random_slates
from armtriage.instances.slates import SLATES

SIZES = {family: (12, 12) if family == "one_hot" else (10, 6) for family in SLATES}
CLICKS = ("one_hot", "clicks", "fresh_clicks", "sparse")
FRESH = ("cube", "anisotropic", "user_item", "few", "jittered", "drifting", "fresh_clicks", "sparse")


@pytest.mark.parametrize("family", SLATES)
def test_families_are_pure_functions_of_their_seed(family: str) -> None:
    one, other, another = (random_slates(family, *SIZES[family], seed=seed) for seed in (7, 7, 8))
    for number, replication in ((0, 0), (5, 0), (5, 1)):
        assert np.array_equal(one.contexts(number, replication), other.contexts(number, replication))
    assert np.array_equal(one.theta, other.theta)
    assert not np.array_equal(one.theta, another.theta)
    assert np.array_equal(one.contexts(0), one.contexts(1)) == (family not in FRESH)
    assert np.array_equal(one.contexts(3, 0), one.contexts(3, 1)) == (family not in FRESH)


@pytest.mark.parametrize("family", SLATES)
def test_norms_means_and_rewards_are_inside_what_is_declared(family: str) -> None:
    env = random_slates(family, *SIZES[family], horizon=50, seed=3)
    low, high = env.reward_range
    assert (low, high) == ((0.0, 1.0) if family in CLICKS else (-1.0, 1.0))
    assert np.linalg.norm(env.theta) <= env.norm_bound * (1 + 1e-9)
    for number in range(20):
        assert np.linalg.norm(env.contexts(number), axis=1).max() <= 1 + 1e-9
        assert low <= env.means(number).min() <= env.means(number).max() <= high
        assert set(env.rewards(number, range(env.n_arms)).tolist()) <= {low, high}


def test_clicks_come_at_their_rates() -> None:
    """Of 4,000 rewards of one arm, the mean is within five standard deviations."""
    env = random_slates("clicks", 5, 4, seed=1)
    mean = env.means(0)[2]
    seen = np.mean([env.rewards(number, [2])[0] for number in range(4000)])
    assert abs(seen - mean) <= 5 * np.sqrt(mean * (1 - mean) / 4000)
    assert 0.0 <= mean <= 0.06


def test_what_a_family_cannot_be_is_refused() -> None:
    with pytest.raises(ValueError, match="family must be one of"):
        random_slates("nothing", 3, 2)
    with pytest.raises(ValueError, match="n_arms must be dimension = 4 for one_hot"):
        random_slates("one_hot", 3, 4)
    with pytest.raises(ValueError, match="dimension must be 2 or more for sparse"):
        random_slates("sparse", 3, 1)


def test_clicks_have_no_other_range_and_long_thetas_must_be_declared() -> None:
    with pytest.raises(ValueError, match="reward_range and direction must be left out for clicks"):
        LinearEnvironment([0.5], [[1.0], [0.5]], reward="bernoulli", reward_range=(-2.0, 2.0))
    with pytest.raises(ValueError, match="theta must be finite with norm at most 1"):
        LinearEnvironment([1.5], [[0.5], [0.2]])
    env = LinearEnvironment([1.5], [[0.5], [0.2]], norm_bound=2.0)
    assert env.means(0).tolist() == [0.75, pytest.approx(0.3)]
