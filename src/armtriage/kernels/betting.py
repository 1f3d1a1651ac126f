"""The centred betting mixture: bounds on a running mean that may be looked at after every round.

X is known after a round and C before it, X - C is never below -c, and nu is the mean of X given the past. With fixed
bets l below 1, the product of 1 + l (X - C) / c, divided by the exponential of l / c times the sum of nu - C, is a
supermartingale that begins at 1, since 1 + x is at most e^x. So is an average over bets, and by Ville's inequality it
ever reaches 1 / alpha with probability at most alpha. Only nu occurs, which may move from round to round.
"""

from __future__ import annotations

import math

import numpy as np

from armtriage.kernels.jit import kernel
from armtriage.kernels.record import Floats

BETS = np.geomspace(0.001, 0.95, 24)
"""The bets that are averaged: small ones for long logs, large ones for short."""

_STEPS = 12


def margin(capital: Floats, rounds: int, scale: float, alpha: float) -> float:
    """Return what the mean of nu is at least, at all times with probability 1 - `alpha`.

    `capital` has the sum of ln(1 + l (X - C) / `scale`) + l C / `scale` for each bet l; each may have its own X and C,
    as long as the mean of X is nu. The equation is solved by Newton's method from the left: every step is a valid
    bound.

    Examples
    --------
    >>> each = np.log1p(BETS * 0.01) + BETS * 0.49  # X was 0.5 and C 0.49 in each of 1,000 rounds
    >>> round(margin(1000 * each, 1000, 1.0, 0.05), 3)
    0.494
    """
    return float(_root(capital, BETS, rounds / scale, math.log(BETS.size / alpha)))


@kernel
def _root(capital: Floats, bets: Floats, rate: float, level: float) -> float:
    """Return the z at which the logarithm of the sum of exp(capital - bets rate z) is `level`, or a little less."""
    found = -math.inf
    for j in range(bets.size):
        found = max(found, (capital[j] - level) / (bets[j] * rate))
    for _ in range(_STEPS):
        most = -math.inf
        for j in range(bets.size):
            most = max(most, capital[j] - bets[j] * rate * found)
        total, slope = 0.0, 0.0
        for j in range(bets.size):
            part = math.exp(capital[j] - bets[j] * rate * found - most)
            total += part
            slope += part * bets[j] * rate
        step = (most + math.log(total) - level) * total / slope
        found += max(step, 0.0)
        if step <= 1e-12 * (1.0 + abs(found)):
            break
    return found
