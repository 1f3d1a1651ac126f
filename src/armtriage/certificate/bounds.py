"""Intervals of the means of arms, from how often each was pulled and observed, and the sums of its rewards."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any, NamedTuple

import numpy as np
from numpy.typing import NDArray

from armtriage.intervals import confidence_interval, one_sided_ends

WHOLE = 0.05
"""Share of delta of the intervals that hold for all arms, beside ends that hold for those that need them."""

_ABOVE = 0.85  # share of the rest for upper ends, at most: they are charged for what was not tried, and matter more


class Tally(NamedTuple):
    """How often each arm was pulled and observed, the sum of its rewards r, and that of r (1 - r) on the unit scale.

    The latter is 0 for rewards of 0 and 1. Where it is not known 0 is valid, and certificates are wider. Where arms
    reveal others, `played` is the same of the rewards of arms that were pulled, if these are known.
    """

    pulls: NDArray[np.int64]
    counts: NDArray[np.int64]
    sums: NDArray[np.float64]
    between: NDArray[np.float64]
    played: Tally | None = None

    @property
    def columns(self) -> dict[str, NDArray[Any]]:
        """What there is for each arm, by name."""
        return dict(zip(self._fields[:4], self[:4], strict=True))

    def each(self, change: Callable[[str, NDArray[Any]], NDArray[Any]]) -> Tally:
        """Return the columns, each of which has changed; of the rewards that were played none is known then."""
        pulls, counts, sums, between = (change(name, one) for name, one in self.columns.items())
        none = np.zeros_like(counts), np.zeros_like(sums), np.zeros_like(sums)
        return Tally(pulls, counts, sums, between, None if self.played is None else Tally(pulls, *none))


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


def sums_of(tally: Tally) -> tuple[NDArray[np.float64], NDArray[np.float64]]:
    """Return the sums of r and of r (1 - r), as far as rewards can have them."""
    sums = np.clip(tally.sums, 0.0, tally.counts)
    most = sums * (tally.counts - sums) / np.maximum(tally.counts, 1)
    return sums, np.clip(tally.between, 0.0, most)


def intervals_of(tally: Tally, divisors: int | float | NDArray[np.float64], delta: float) -> Bounds:
    """Return the intervals of a tally on the unit scale; `divisors` are 1 / share of `delta` of each arm."""
    sums, between = sums_of(tally)
    shares = np.broadcast_to(np.asarray(divisors, float), sums.shape)
    return Bounds(*confidence_interval(tally.counts, sums, n_arms=shares, delta=delta, squares=sums - between))


def shares_of(inside: int, outside: int, delta: float) -> tuple[float, float]:
    """Return what all upper ends of the best decision may fail with, and all lower ends of other arms."""
    share, rest = min(_ABOVE, max(0.5, outside / (inside + outside))), (1.0 - WHOLE) * delta
    return share * rest, (1.0 - share) * rest


def ends_of(tally: Tally, inside: int, outside: int, delta: float, *, part: tuple[float, float] = (1.0, 1.0)) -> Bounds:
    """Return upper ends that hold for the best decision, and lower ends that hold for all other arms.

    These are all that a statement about one and the same best decision needs: see `docs/certificate.md`. It has at most
    `inside` arms, and at most `outside` others. Beside them, the intervals of all arms may fail with a share `WHOLE` of
    `delta`. `part` is what upper and lower ends have of their shares; the rest is for other statements about them.

    Examples
    --------
    >>> tally = Tally(np.array([900, 100]), np.array([900, 100]), np.array([630.0, 20.0]), np.zeros(2))
    >>> ends_of(tally, inside=1, outside=1, delta=0.05).upper.round(3), intervals_of(tally, 2, 0.05).upper.round(3)
    (array([0.752, 0.35 ]), array([0.756, 0.362]))
    """
    above, below = shares_of(inside, outside, delta)
    above, below = part[0] * above / max(inside, 1), part[1] * below / max(outside, 1)
    sums, between = sums_of(tally)
    return Bounds(*one_sided_ends(tally.counts, sums, between, below=below, above=above))


def narrowed(
    bounds: Bounds, tally: Tally, delta: float, divisors: NDArray[np.float64] | None = None
) -> tuple[Bounds, NDArray[np.bool_]]:
    """Return the bounds inside both the old ones and new intervals, and which arms have none: the new ones stand.

    `divisors` are 1 / share of `delta` of each arm, by default the number of arms.
    """
    return cut(bounds, intervals_of(tally, tally.counts.size if divisors is None else divisors, delta))


def within_old(bounds: Bounds, old: Bounds | None) -> Bounds:
    """Return bounds inside those of an old log, too, which may be of fewer arms; where these cross, there is one point.

    Ends that hold for some arms only may cross intervals that hold for all: the upper one is then raised.

    Examples
    --------
    >>> within_old(Bounds(np.array([0.2, 0.0]), np.array([0.6, 1.0])), Bounds(np.array([0.3]), np.array([0.9])))
    Bounds(lower=array([0.3, 0. ]), upper=array([0.6, 1. ]))
    """
    if old is None:
        return bounds
    lower, upper, n = bounds.lower.copy(), bounds.upper.copy(), old.lower.size
    lower[:n] = np.maximum(lower[:n], old.lower)
    upper[:n] = np.minimum(upper[:n], old.upper)
    return Bounds(lower, np.maximum(upper, lower))


def cut(old: Bounds, new: Bounds) -> tuple[Bounds, NDArray[np.bool_]]:
    """Return the bounds inside both, and for which arms there are none: for those the new ones stand.

    Examples
    --------
    >>> old, new = Bounds(np.array([0.2]), np.array([0.6])), Bounds(np.array([0.1]), np.array([0.5]))
    >>> cut(old, new)
    (Bounds(lower=array([0.2]), upper=array([0.5])), array([False]))
    """
    both = np.maximum(new.lower, old.lower), np.minimum(new.upper, old.upper)
    kept = both[0] <= both[1]
    return Bounds(np.where(kept, both[0], new.lower), np.where(kept, both[1], new.upper)), ~kept
