"""What played arms outside the best slate have certainly earned together, which is more than their lower ends say.

What was lost depends on one sum over all these arms. A single bet on that sum pays once for being right about it, where
a lower end for each arm pays for every arm: see `docs/certificate.md`.
"""

from __future__ import annotations

import math

import numpy as np
from numpy.typing import NDArray

from armtriage.certificate.bounds import Bounds, Tally, shares_of, sums_of

PART = 1.0, 0.5
"""What ends have of their shares of delta, upper and lower ones; totals have the rest."""

BETS = np.geomspace(0.003, 0.4, 8)
"""Best for some 100 to a million pulls; small ones are worth little before."""


def kept_by(
    tally: Tally,
    lower: NDArray[np.float64],
    whole: Bounds,
    inside: int,
    outside: int,
    delta: float,
    *,
    independent: bool = False,
) -> list[tuple[NDArray[np.float64], float]]:
    """Return what pulls of arms outside the best decision were worth at least: by lower ends, and by totals.

    The decision has at most `inside` arms, and at most `outside` others; `whole` are intervals of all arms. For what is
    returned see `totals`.
    """
    share = shares_of(inside, outside, delta)[1]
    spread = 1 if independent else inside
    return [(tally.pulls * lower, 0.0), *totals(tally, whole, spread, (1.0 - PART[1]) * share)]


def totals(tally: Tally, whole: Bounds, spread: int, delta: float) -> list[tuple[NDArray[np.float64], float]]:
    """Return values of arms, and what to subtract from their sum: both for each of some bets.

    Whichever slate is the best, but for a probability of `delta` the pulls of the other arms are worth at least the sum
    of their values, less that. `whole` are bounds on all means. At most `spread` of these arms are played in a round; 1
    will do if arms of a round are independent given the past. None if more rewards were observed than were played, and
    it is not known which these are.

    Examples
    --------
    >>> played = np.full(20, 500)
    >>> tally = Tally(played, played, np.full(20, 150.0), np.zeros(20))
    >>> sums = totals(tally, Bounds(np.full(20, 0.15), np.full(20, 0.45)), spread=2, delta=0.05)
    >>> round(max(float(values.sum()) - less for values, less in sums))  # of 3,000
    2782
    """
    return [(values, spread * math.log(BETS.size / delta) / bet) for values, bet in values_of(tally, whole)]


def values_of(tally: Tally, whole: Bounds) -> list[tuple[NDArray[np.float64], float]]:
    """Return values of arms, and the bet: the log of its capital, over the bet, makes up what their sum is too much."""
    played = tally if tally.played is None else tally.played
    pulls, n = tally.pulls, played.counts
    if (n > pulls).any():
        return []
    sums, between = sums_of(played)
    # Rewards as if they were one of two values, 0 and 1 - x, with sums and squares of the true ones.
    misses = np.maximum(n - sums, 0.0)
    with np.errstate(divide="ignore", invalid="ignore"):
        x = np.where((between > 0.0) & (sums > 0.0), np.minimum(between / sums, misses / n), 0.0)
    zeros = np.clip((misses - n * x) / np.maximum(1.0 - x, 1e-300), 0.0, n)
    found = []
    for bet in BETS.tolist():
        # The value is concave in the mean, so least at an end of what the mean may be.
        worth = [
            n * mean + (zeros * np.log1p(-bet * mean) + (n - zeros) * np.log1p(bet * (1.0 - x - mean))) / bet
            for mean in whole
        ]
        found.append((np.minimum(*worth) + (pulls - n) * whole.lower, bet))
    return found
