"""The centred betting mixture: bounds on a running mean that may be looked at after every round.

X is known after a round and C before it, X - C is never below -c, and nu is the mean of X given the past. With fixed
bets l below 1, the product of 1 + l (X - C) / c, divided by the exponential of l / c times the sum of nu - C, is a
supermartingale that begins at 1, since 1 + x is at most e^x. So is an average over bets, and by Ville's inequality it
ever reaches 1 / alpha with probability at most alpha. Only nu occurs, which may move from round to round.
"""

from __future__ import annotations

import math

import numpy as np
from numpy.typing import NDArray

__all__ = ["BETS", "margin"]

BETS = np.geomspace(0.001, 0.95, 24)
"""The bets that are averaged: small ones for long logs, large ones for short."""

_STEPS = 12


def margin(capital: NDArray[np.float64], rounds: int, scale: float, alpha: float) -> float:
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
    level = math.log(BETS.size / alpha)
    slopes = BETS * rounds / scale
    found = float(np.max((capital - level) / slopes))
    for _ in range(_STEPS):
        terms = capital - slopes * found
        most = terms.max()
        shares = np.exp(terms - most)
        excess = most + math.log(shares.sum()) - level
        step = excess * shares.sum() / float(shares @ slopes)
        found += max(step, 0.0)
        if step <= 1e-12 * (1.0 + abs(found)):
            break
    return float(found)
