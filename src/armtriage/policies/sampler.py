"""Posteriors and lazy draws from them: which arms need not be drawn, since their luck cannot take them far enough.

An arm's posterior is a Beta law on [x, 1]. Rewards of 0 and 1 have x = 0, and are its wins and losses. Other rewards
count as those of the two-point law on {x, 1} with their mean and variance: quiet ones leave little to draw, and the
upper tail is never lighter than the rewards themselves allow (see `docs/guard.md`).

An arm's draw is the quantile of its posterior at a uniform number u of (round, arm), so it exceeds a level if and
only if u exceeds the posterior's distribution function there. Policies that want the largest draws only keep a level
which these usually pass, and for each arm a bound on its distribution function there: an arm whose u is below is passed
over. The decision is exactly that of drawing everybody.

The kernels here take any state that has the fields they name.
"""

from __future__ import annotations

from typing import Any

import numpy as np

from armtriage.intervals import two_points
from armtriage.kernels.beta import beta_cdf, beta_quantile, beta_tail_bound
from armtriage.kernels.jit import inlined, kernel
from armtriage.kernels.random import uniform

_ROUNDING = 1e-10  # room for the error of `beta_cdf`: too little would lose an arm, more costs a draw in 1e10
FAR = 1e-3  # where the tail is this small, Chernoff's bound rules an arm out as well as the exact one, at less cost
STALE = 8  # rewards after which a loose bound is computed again: it is safe for ever, but costs needless draws
BELOW = 4.0  # spreads from the centre down to the level: a value below it has everybody drawn again
_MEMORY = 0.02  # weight of the last round in centre and spread, so that some fifty rounds count

FRACTIONAL = ("exact", "coin")
"""What becomes of rewards between 0 and 1: they count as they are, or as 1 with their own probability."""


@kernel
def gain(coin: bool, luck: np.uint64, arm: int, reward: float) -> float:
    """Return what a reward counts for; a coin comes from the columns before those of the draws."""
    if coin and 0.0 < reward < 1.0:
        return 1.0 if uniform(luck, -1 - arm) < reward else 0.0
    return reward


@kernel
@inlined
def posterior(
    wins: float, losses: float, between: float, prior_wins: float, prior_losses: float
) -> tuple[float, float, float]:
    """Return the least value x, and the parameters of the Beta law on [x, 1], of an arm's posterior.

    Between 0 and 1, a prior is as weak as its mean allows with both parameters from 1: what it counts as wins are
    rewards of 1, and many of those would keep quiet arms from being told apart.
    """
    if between <= 0.0 or losses <= 0.0:
        return 0.0, prior_wins + wins, prior_losses + losses
    count = wins + losses
    least, upper = two_points(count, wins, between)
    return least, 1.0 + upper, max(1.0, prior_losses / prior_wins) + count - upper


@kernel
@inlined
def mean_of(least: float, a: float, b: float) -> float:
    """Return the mean of a posterior."""
    return least + (1.0 - least) * (a / (a + b))


@kernel
def draw(luck: float, least: float, a: float, b: float) -> float:
    """Return the draw of an arm with this posterior."""
    return least + (1.0 - least) * beta_quantile(luck, a, b)


@kernel
def scaled(level: float, least: float) -> float:
    """Return where a level stands between the least value and 1."""
    return (level - least) / (1.0 - least)


@kernel
def band(a: float, b: float) -> float:
    """Return how far rounding can take the distribution function of Beta(a, b) off."""
    return max(_ROUNDING, 4e-16 * (a + b))


@kernel
def luck_needed(level: float, least: float, a: float, b: float) -> float:
    """Return a bound below the luck that takes a draw from a posterior to the level; below 0 if all luck does."""
    height = scaled(level, least)
    if height <= 0.0:
        return -1.0
    above = beta_tail_bound(height, a, b)
    if above < FAR:
        return 1.0 - above - band(a, b)
    return beta_cdf(height, a, b) - band(a, b)


@kernel
def follow(state: Any, least: float) -> None:
    """Note the least value that was chosen in a round, in `centre` and `spread`."""
    step = least - state.centre
    state.centre += _MEMORY * step
    state.spread += _MEMORY * (abs(step) - state.spread)
