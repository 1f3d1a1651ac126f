"""What intervals of means say of slates: the most that one can lose, and that a log of them can have lost.

With every mean inside its interval, no decision beats V by more than the largest sum of upper bounds outside V minus
lower bounds inside it that an exchange of arms can reach. The same exchange, weighted by how often each arm was
pulled, bounds the loss of a whole log, and today's intervals price yesterday's decisions.
"""

from __future__ import annotations

from typing import Any, NamedTuple

import numpy as np
from numpy.typing import NDArray

from armtriage.intervals import confidence_interval

__all__ = [
    "Bounds",
    "Tally",
    "Watch",
    "by_exposure",
    "cert_among",
    "exchanges",
    "gap_of",
    "in_units",
    "intervals_of",
    "log_bound",
    "narrowed",
]


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


# The guard has kernels for the next two sums (policies/guard/account), above this room in the layers: they look only
# at the arms that its sets leave open, every round. Here any tally is read once, and a line of NumPy is clearer.
def exchanges(
    arms: NDArray[np.int64], eligible: NDArray[np.int64], bounds: Bounds
) -> tuple[NDArray[np.int64], NDArray[np.int64], NDArray[np.float64]]:
    """Return who enters V, who leaves it, and the gain: the largest upper bound outside for the least lower inside."""
    outside = np.setdiff1d(eligible, arms, assume_unique=True)
    size = min(outside.size, arms.size)
    if outside.size > size > 0:
        outside = outside[np.argpartition(-bounds.upper[outside], size - 1)[:size]]
    outside = outside[np.argsort(-bounds.upper[outside], kind="stable")]
    inside = arms[np.argsort(bounds.lower[arms], kind="stable")][:size]
    gains = bounds.upper[outside] - bounds.lower[inside]
    pays = gains > 0.0
    return outside[pays], inside[pays], gains[pays]


def cert_among(
    lower: NDArray[np.float64], upper: NDArray[np.float64], arms: NDArray[np.int64], eligible: NDArray[np.int64]
) -> float:
    """Return what a decision among eligible arms can lose at most against the best of its size among them.

    Examples
    --------
    >>> lower, upper = np.array([0.4, 0.3, 0.2]), np.array([0.6, 0.7, 0.5])
    >>> round(cert_among(lower, upper, np.array([0]), np.array([0, 2])), 3)
    0.1
    """
    return float(exchanges(arms, eligible, Bounds(lower, upper))[2].sum())


def log_bound(pulls: NDArray[Any], rounds: float, budget: int, bounds: Bounds) -> float:
    """Return the largest sum over V' of (R - m) U inside and -m L outside: the retrospective certificate."""
    kept = pulls * bounds.lower
    gains = (rounds - pulls) * bounds.upper + kept
    best = np.partition(gains, gains.size - budget)[gains.size - budget :]
    return float(best.sum() - kept.sum())


def by_exposure(bounds: Bounds, pulls: NDArray[Any], exposures: NDArray[Any], slots: float) -> float:
    """Return what decisions among eligible arms have lost at most: the best use of `slots` places, by today's bounds.

    An arm that was to be played x times gains at most the share x / e of what it gains if it is played in all the
    rounds in which it was eligible: the gain is convex in x. So the largest gains per round are taken, whole but for
    the last.

    Examples
    --------
    >>> bounds = Bounds(np.array([0.4, 0.3]), np.array([0.6, 0.7]))
    >>> by_exposure(bounds, np.array([5, 5]), np.array([10, 5]), slots=10)  # in five rounds there was a choice
    1.5
    """
    shown = np.flatnonzero(exposures)
    most, kept = ((exposures - pulls) * bounds.upper)[shown], (pulls * bounds.lower)[shown]
    order = np.argsort(-(most + kept) / exposures[shown], kind="stable")
    units = exposures[shown[order]]
    before = np.cumsum(units) - units
    # Gains of what is taken less what is left of the others: sums of all gains would cancel, and lose digits.
    taken = np.clip((slots - before) / units, 0.0, 1.0)
    return max(float(taken @ most[order] - (1.0 - taken) @ kept[order]), 0.0)


def gap_of(bounds: Bounds, arms: NDArray[np.int64], budget: int) -> tuple[float, float]:
    """Return bounds on the distance between the S-th and the next best mean; infinite if there is no next."""
    if arms.size <= budget:
        return np.inf, np.inf
    lower, upper = np.sort(bounds.lower[arms])[::-1], np.sort(bounds.upper[arms])[::-1]
    return max(0.0, float(lower[budget - 1] - upper[budget])), max(0.0, float(upper[budget - 1] - lower[budget]))


class Watch:
    """Bounds on the loss of a run as it goes on, with the intersection of each arm's intervals so far."""

    def __init__(self, n_arms: int, budget: int, delta: float, divisors: NDArray[np.float64] | None = None) -> None:
        self.budget, self.delta, self.divisors = budget, delta, divisors
        self.bounds = Bounds(np.zeros(n_arms), np.ones(n_arms))

    def bound(
        self, tally: Tally, rounds: int, exposures: NDArray[np.int64] | None = None, slots: int | None = None
    ) -> float:
        """Return what `rounds` decisions have lost at most, on the unit scale of the rewards.

        With `exposures`, against the best arms that were eligible in each round, `slots` in all.
        """
        self.bounds = narrowed(self.bounds, tally, self.delta, self.divisors)[0]
        if exposures is not None:
            return by_exposure(self.bounds, tally.pulls, exposures, int(tally.pulls.sum()) if slots is None else slots)
        return max(log_bound(tally.pulls, rounds, self.budget, self.bounds), 0.0)
