"""What intervals of means say of slates: the most that one can lose, and that a log of them can have lost.

With every mean inside its interval, no decision beats V by more than the largest sum of upper bounds outside V minus
lower bounds inside it that an exchange of arms can reach. The same exchange, weighted by how often each arm was
pulled, bounds the loss of a whole log, and today's intervals price yesterday's decisions.
"""

from __future__ import annotations

from dataclasses import dataclass
from typing import Any, NamedTuple

import numpy as np
from numpy.typing import ArrayLike, NDArray

from armtriage._arguments import check_arms
from armtriage.arms import Name
from armtriage.certificate.averages import best_sum, kept_on_average, lost_on_average
from armtriage.certificate.bounds import WHOLE, Bounds, Tally, ends_of, intervals_of, shares_of
from armtriage.certificate.independent import is_feasible, lost_together
from armtriage.certificate.totals import PART, kept_by
from armtriage.triage import Triage, triage_among

Ints = NDArray[np.int64]
Floats = NDArray[np.float64]

_PART = 0.6, 0.2  # what upper and lower ends have of their shares of delta, if the rest is for all of them together


class Exchange(NamedTuple):
    """An arm that may be better than one in the decision, and by how much at most."""

    outside: Name
    inside: Name
    amount: float


class Challenge(NamedTuple):
    """The decision that may be better than another by most, by how much at most, and for slates how."""

    arms: Ints | None
    amount: float
    exchanges: tuple[Exchange, ...] = ()


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
    return _most(pulls, rounds, budget, bounds.upper, pulls * bounds.lower)


def _most(pulls: NDArray[Any], rounds: float, budget: int, upper: Floats, kept: Floats) -> float:
    """Return the largest sum over V' of (R - m) U inside, less what arms outside have kept."""
    gains = (rounds - pulls) * upper + kept
    return best_sum(gains, budget) - float(kept.sum())


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


@dataclass(frozen=True)
class Slates:
    """Decisions of `size` arms, any of them: what they can have lost, by bounds on the unit scale of rewards.

    If rewards of different arms in a round are `independent` given the past, all that is proved shares one budget.
    """

    size: int
    independent: bool = False

    same_size = True
    offset = 0.0
    family = ""

    def ends_of(self, tally: Tally, delta: float) -> Bounds:
        """Return the ends that statements about one best slate need."""
        part = _PART if self._shares(tally, delta) else PART
        return ends_of(tally, self.size, tally.counts.size - self.size, delta, part=part)

    def _shares(self, tally: Tally, delta: float) -> bool:
        """Whether all arms of the best slate share what upper ends may fail with, beside ends of their own."""
        return self.independent and is_feasible(tally.counts.size, self.size, delta)

    def lost_of_all(
        self, tally: Tally, rounds: float, ends: Bounds, delta: float, whole: Bounds | None = None
    ) -> float:
        """Return what decisions among all arms lost at most, by the ends and by totals of what was played.

        `whole` are the intervals of all arms, if they are at hand.
        """
        others, size = tally.counts.size - self.size, self.size
        above, below = shares_of(size, others, delta)
        whole = intervals_of(tally, tally.counts.size, WHOLE * delta) if whole is None else whole
        if self._shares(tally, delta):
            together = (1.0 - _PART[0]) * above + (1.0 - _PART[1]) * below
            return lost_together(tally, rounds, ends, whole, size, _PART[1] * below, together)
        kept = kept_by(tally, ends.lower, whole, size, others, delta, independent=self.independent)

        def lost(values: Floats) -> float:
            return _most(tally.pulls, rounds, size, ends.upper, values)

        found = [lost(values) + less for values, less in kept]
        by_totals = min(found)
        average = kept_on_average(tally, ends.lower, others, PART[1] * below, lambda values: lost(values) < by_totals)
        found += [lost(values) + less for values, less in average]
        values, less = (kept + average)[int(np.argmin(found))]
        return lost_on_average(tally, rounds, ends.upper, size, values, PART[0] * above, min(found) - less) + less

    def lost(
        self, pulls: NDArray[Any], rounds: float, bounds: Bounds, exposures: NDArray[Any] | None, slots: float
    ) -> float:
        """Return what decisions with these pulls lost at most; negative if they had arms too few."""
        if exposures is None:
            return log_bound(pulls, rounds, self.size, bounds)
        return by_exposure(bounds, pulls, exposures, slots)

    def best(self, means: NDArray[np.float64], eligible: Ints) -> Ints:
        """Return the eligible arms of largest mean."""
        return np.sort(eligible[np.argsort(-means[eligible], kind="stable")[: self.size]])

    def check(self, arms: ArrayLike, n_arms: int, eligible: Ints) -> Ints:
        """Return a decision that was given, ascending."""
        chosen, size = np.sort(check_arms(arms, n_arms, "next_decision")), min(self.size, eligible.size)
        if chosen.size != size or np.any(np.diff(chosen) == 0):
            raise ValueError(f"next_decision must be {size} different arms, got {arms!r}")
        if not np.isin(chosen, eligible).all():
            raise ValueError(f"next_decision must be arms that may be played, got {arms!r}")
        return chosen

    def challenge(self, arms: Ints, bounds: Bounds, eligible: Ints) -> Challenge:
        """Return by how much a slate of eligible arms may be better than another at most, exchange by exchange."""
        outside, inside, amounts = exchanges(arms, eligible, bounds)
        pairs = map(Exchange, outside.tolist(), inside.tolist(), amounts.tolist())
        return Challenge(None, float(amounts.sum()), tuple(pairs))

    def sort(
        self, arms: Ints, bounds: Bounds, live: Ints, eligible: Ints, nearest: float
    ) -> tuple[Triage, tuple[float, float]]:
        """Return the triage of the arms that are not retired, and bounds on the gap after the best of them."""
        return triage_among(*bounds, live, self.size), gap_of(bounds, live, self.size)
