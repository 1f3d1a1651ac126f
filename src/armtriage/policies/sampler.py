"""Lazy posterior draws: which arms need not be drawn, since their luck cannot take them far enough.

An arm's draw is the quantile of its Beta posterior at a uniform number u of (round, arm), so it exceeds a level if and
only if u exceeds the posterior's distribution function there. Policies that want the largest draws only keep a level
which these usually pass, and for each arm a bound on its distribution function there: an arm whose u is below is passed
over. The decision is exactly that of drawing everybody.

The kernels here take any state that has the fields they name.
"""

from __future__ import annotations

from typing import Any

import numpy as np

from armtriage.kernels.beta import beta_cdf, beta_quantile, beta_tail_bound
from armtriage.kernels.jit import kernel
from armtriage.kernels.random import uniform

__all__ = ["BELOW", "FAR", "STALE", "band", "draw", "follow", "luck_needed", "won"]

_ROUNDING = 1e-10  # room for the error of `beta_cdf`: too little would lose an arm, more costs a draw in 1e10
FAR = 1e-3  # where the tail is this small, Chernoff's bound rules an arm out as well as the exact one, at less cost
STALE = 8  # rewards after which a loose bound is computed anew: it is safe for ever, but costs needless draws
BELOW = 4.0  # spreads from the centre down to the level: a value below it has everybody drawn anew
_MEMORY = 0.02  # weight of the last round in centre and spread, so that some fifty rounds count


@kernel
def band(a: float, b: float) -> float:
    """Return how far rounding can take the distribution function of Beta(a, b) off."""
    return max(_ROUNDING, 4e-16 * (a + b))


@kernel
def luck_needed(level: float, a: float, b: float) -> float:
    """Return a bound below the luck that takes a draw from Beta(a, b) to the level."""
    above = beta_tail_bound(level, a, b)
    if above < FAR:
        return 1.0 - above - band(a, b)
    return beta_cdf(level, a, b) - band(a, b)


@kernel
def draw(luck: float, wins: float, losses: float) -> float:
    """Return the draw of an arm with these wins and losses and a uniform prior."""
    return beta_quantile(luck, 1.0 + wins, 1.0 + losses)


@kernel
def won(luck: np.uint64, arm: int, reward: float) -> bool:
    """Whether a reward counts as a win; between 0 and 1 a coin decides, from the columns before those of the draws."""
    return reward >= 1.0 or (reward > 0.0 and uniform(luck, -1 - arm) < reward)


@kernel
def follow(state: Any, least: float) -> None:
    """Note the least value that was chosen in a round, in `centre` and `spread`."""
    step = least - state.centre
    state.centre += _MEMORY * step
    state.spread += _MEMORY * (abs(step) - state.spread)
