"""Intervals of the means of arms, from how often each was pulled and observed, and the sums of its rewards."""

from __future__ import annotations

from typing import NamedTuple

import numpy as np
from numpy.typing import NDArray

from armtriage.intervals import confidence_interval

__all__ = ["Bounds", "Tally", "in_units", "intervals_of", "narrowed"]


class Tally(NamedTuple):
    """How often each arm was pulled and observed, the sum of its rewards r, and that of r (1 - r) on the unit scale.

    The latter is 0 for rewards of 0 and 1. Where it is not known 0 is valid, and certificates are wider.
    """

    pulls: NDArray[np.int64]
    counts: NDArray[np.int64]
    sums: NDArray[np.float64]
    between: NDArray[np.float64]


class Bounds(NamedTuple):
    """Lower and upper bounds on the mean of each arm, all of which hold together."""

    lower: NDArray[np.float64]
    upper: NDArray[np.float64]


def in_units(bounds: Bounds, reward_range: tuple[float, float], direction: str) -> Bounds:
    """Return bounds on the unit scale in the units of rewards, or of costs.

    Examples
    --------
    >>> in_units(Bounds(np.array([0.25]), np.array([0.5])), (0.0, 4.0), "minimize")
    Bounds(lower=array([2.]), upper=array([3.]))
    """
    low, high = reward_range
    if direction == "minimize":
        return Bounds(high - (high - low) * bounds.upper, high - (high - low) * bounds.lower)
    return Bounds(low + (high - low) * bounds.lower, low + (high - low) * bounds.upper)


def intervals_of(tally: Tally, divisors: int | NDArray[np.float64], delta: float) -> Bounds:
    """Return the intervals of a tally on the unit scale; `divisors` are 1 / share of `delta` of each arm."""
    sums = np.clip(tally.sums, 0.0, tally.counts)
    most = sums * (tally.counts - sums) / np.maximum(tally.counts, 1)
    squares = sums - np.clip(tally.between, 0.0, most)
    return Bounds(*confidence_interval(tally.counts, sums, n_arms=divisors, delta=delta, squares=squares))


def narrowed(
    bounds: Bounds, tally: Tally, delta: float, divisors: NDArray[np.float64] | None = None
) -> tuple[Bounds, NDArray[np.bool_]]:
    """Return the bounds inside both the old ones and new intervals, and which arms have none: the new ones stand.

    `divisors` are 1 / share of `delta` of each arm, by default the number of arms.
    """
    lower, upper = intervals_of(tally, tally.counts.size if divisors is None else divisors, delta)
    both = np.maximum(lower, bounds.lower), np.minimum(upper, bounds.upper)
    kept = both[0] <= both[1]
    return Bounds(np.where(kept, both[0], lower), np.where(kept, both[1], upper)), ~kept
