"""What intervals of means say of decision sets: the same as for slates, at one question to the oracle each.

The most that a decision V can lose over all means inside their intervals is the largest weight of a decision, with
lower ends on the arms of V and upper ends elsewhere, less the weight of V. For R decisions with m_a pulls of arm a the
weights are (R - m_a) U_a + m_a L_a. Both are exact, whatever the sizes of decisions and the signs of their rewards: for
a fixed rival the loss is linear in each mean, so its largest value stands at the ends of the intervals.
"""

from __future__ import annotations

from dataclasses import dataclass
from functools import cached_property
from typing import Any

import numpy as np
from numpy.typing import ArrayLike, NDArray

from armtriage._arguments import check_arms
from armtriage.certificate.bounds import WHOLE, Bounds, Tally, ends_of, intervals_of
from armtriage.certificate.slates import Challenge
from armtriage.certificate.totals import PART, kept_by
from armtriage.decisions import DecisionSet
from armtriage.triage import Triage

Ints = NDArray[np.int64]
Floats = NDArray[np.float64]

_ROUNDING = 1e-12  # of a sum of weights: what two orders of adding them up differ by
_GUARD = 1e-9  # by what share two values must differ to count as different
_NONE = np.empty(0, np.int64)


def offset_of(decisions: DecisionSet, reward_range: tuple[float, float], direction: str = "maximize") -> float:
    """Return what a reward of 0 on the unit scale is worth on it; where all decisions have the same size, no matter."""
    zero = reward_range[0] if direction == "maximize" else -reward_range[1]
    if zero == 0.0 or (not decisions.needs_costs and decisions.same_size):
        return 0.0
    return zero / (reward_range[1] - reward_range[0])


def _best(decisions: DecisionSet, weights: Floats, exclude: Ints = _NONE) -> Ints:
    found = decisions.maximise(weights, (), exclude)
    if found is None:
        raise ValueError(f"eligible must leave a decision of {decisions!r}, got {weights.size - exclude.size} arms")
    return found


def _against(arms: Ints, bounds: Bounds) -> Floats:
    """Return the weights by which others are compared with a decision: its own lower ends, and their upper ones."""
    weights = bounds.upper.copy()
    weights[arms] = bounds.lower[arms]
    return weights


def challenge(decisions: DecisionSet, arms: Ints, bounds: Bounds, exclude: Ints = _NONE) -> Challenge:
    """Return the decision that may be better than `arms` by most, itself if none may: one question, and exact."""
    rival = _best(decisions, _against(arms, bounds), exclude)
    amount = _excess(rival, arms, bounds)
    return Challenge(rival if amount > 0.0 else arms, amount)


def _excess(rival: Ints, arms: Ints, bounds: Bounds) -> float:
    """Return by how much one decision can be better than another; arms that both have cancel out."""
    more = float(bounds.upper[np.setdiff1d(rival, arms)].sum())
    less = float(bounds.lower[np.setdiff1d(arms, rival)].sum())
    return more - less if more - less > _ROUNDING * (abs(more) + abs(less)) else 0.0


def log_bound_over(
    decisions: DecisionSet, pulls: NDArray[Any], rounds: float, bounds: Bounds, exclude: Ints = _NONE
) -> float:
    """Return what `rounds` decisions with these pulls lost at most, by intervals of today: one question, and exact.

    They are compared with the best decision without the arms of `exclude`, which none of them has either.
    """
    return _most(decisions, pulls, rounds, bounds.upper, pulls * bounds.lower, exclude)


def _most(
    decisions: DecisionSet, pulls: NDArray[Any], rounds: float, upper: Floats, kept: Floats, exclude: Ints = _NONE
) -> float:
    """Return the largest sum over V' of (R - m) U inside, less what arms outside have kept."""
    weights = (rounds - pulls) * upper + kept
    return max(float(weights[_best(decisions, weights, exclude)].sum() - kept.sum()), 0.0)


def decided_by(decisions: DecisionSet, arms: Ints, bounds: Bounds, exclude: Ints = _NONE) -> tuple[Triage, float]:
    """Return the arms that all or no plausible decisions have, and by how much `arms` certainly beats all others.

    Plausible is what may be as good as `arms`. The distance is 0 where some other decision is, and infinite where there
    is no other. Arms of `exclude` are not eligible, and so in none of the three sets.
    """
    weights, n = _against(arms, bounds), bounds.lower.size
    value = float(weights[arms].sum())
    inside = np.zeros(n, np.bool_)
    inside[arms] = True
    with_it, without = _rivals(decisions, weights, exclude)
    plausible = value - _GUARD * (1.0 + abs(value))
    out, sure = ~inside & (with_it < plausible), inside & (without < plausible)
    there = np.ones(n, np.bool_)
    there[exclude] = False
    triage = Triage(*(np.flatnonzero(kind & there) for kind in (sure, ~(sure | out), out)))
    return triage, max(value - _next_best(inside, with_it, without), 0.0)


def _rivals(decisions: DecisionSet, weights: Floats, exclude: Ints) -> tuple[Floats, Floats]:
    """Return the best values with each arm and without it; on a network with cycles, those with it are infinite.

    There the best route by way of an arm is a hard question, and an arm that is not asked about stays open.
    """
    without = decisions.maximise_each_excluding(weights, exclude=exclude)
    if decisions.needs_costs:
        return np.full(weights.size, np.inf), without
    return decisions.maximise_each_including(weights, exclude=exclude), without


def _next_best(inside: NDArray[np.bool_], with_it: Floats, without: Floats) -> float:
    """Return the best value of a decision that differs: it lacks an arm of this one, or has another.

    Of two routes neither is part of the other, so that what they lack tells all.
    """
    rivals = np.where(inside, without, np.where(with_it < np.inf, with_it, -np.inf))
    return float(rivals.max())


def _nearest(decisions: DecisionSet, arms: Ints, bounds: Bounds, exclude: Ints) -> float:
    """Return the most by which a decision can beat the next one, if it is the best."""
    weights = bounds.lower.copy()
    weights[arms] = bounds.upper[arms]
    inside = np.zeros(weights.size, np.bool_)
    inside[arms] = True
    return max(float(weights[arms].sum()) - _next_best(inside, *_rivals(decisions, weights, exclude)), 0.0)


@dataclass(frozen=True)
class Sets:
    """Decisions of a set: what they can have lost, by bounds on the unit scale of rewards."""

    decisions: DecisionSet
    reward_range: tuple[float, float] = (0.0, 1.0)
    direction: str = "maximize"

    independent = False

    @cached_property
    def offset(self) -> float:
        """What a reward of 0 on the unit scale is worth on it."""
        return offset_of(self.decisions, self.reward_range, self.direction)

    @property
    def size(self) -> int:
        """Arms of the largest decision."""
        return self.decisions.size

    @property
    def same_size(self) -> bool:
        """Whether all decisions have that many."""
        return self.decisions.same_size

    @property
    def family(self) -> str:
        """What the set is called."""
        return type(self.decisions).__name__

    def shifted(self, bounds: Bounds) -> Bounds:
        """Return bounds as decisions are compared by them: with what a reward of 0 is worth."""
        return Bounds(bounds.lower + self.offset, bounds.upper + self.offset)

    def _exclude(self, eligible: Ints) -> Ints:
        n = self.decisions.n_arms
        return _NONE if eligible.size == n else np.setdiff1d(np.arange(n), eligible)

    def ends_of(self, tally: Tally, delta: float) -> Bounds:
        """Return the ends that statements about one best decision need; where sizes differ, it may have few arms."""
        return ends_of(tally, self.size, self._others, delta, part=PART)

    @property
    def _others(self) -> int:
        """How many arms the best decision does not have, at most."""
        return self.decisions.n_arms - (self.size if self.same_size else 0)

    def lost_of_all(
        self, tally: Tally, rounds: float, ends: Bounds, delta: float, whole: Bounds | None = None
    ) -> float:
        """Return what decisions among all arms lost at most, by the ends and by totals of what was played.

        `whole` are the intervals of all arms, if they are at hand.
        """
        whole = intervals_of(tally, tally.counts.size, WHOLE * delta) if whole is None else whole
        kept, worth = kept_by(tally, ends.lower, whole, self.size, self._others, delta), self.offset * tally.pulls
        upper = ends.upper + self.offset
        return min(_most(self.decisions, tally.pulls, rounds, upper, one + worth) + less for one, less in kept)

    def lost(
        self, pulls: NDArray[Any], rounds: float, bounds: Bounds, exposures: NDArray[Any] | None, slots: float
    ) -> float:
        """Return what decisions with these pulls lost at most, against the best of all."""
        return log_bound_over(self.decisions, pulls, rounds, self.shifted(bounds))

    def best(self, means: Floats, eligible: Ints) -> Ints:
        """Return the decision of eligible arms whose means have the largest sum."""
        return _best(self.decisions, means + self.offset, self._exclude(eligible))

    def check(self, arms: ArrayLike, n_arms: int, eligible: Ints) -> Ints:
        """Return a decision that was given, ascending."""
        chosen = np.sort(check_arms(arms, n_arms, "next_decision"))
        if not self.decisions.contains(chosen) or not np.isin(chosen, eligible).all():
            raise ValueError(f"next_decision must be a decision of {self.decisions!r}, got {arms!r}")
        return chosen

    def challenge(self, arms: Ints, bounds: Bounds, eligible: Ints) -> Challenge:
        """Return the decision of eligible arms that may be better than another by most."""
        return challenge(self.decisions, arms, self.shifted(bounds), self._exclude(eligible))

    def sort(
        self, arms: Ints, bounds: Bounds, live: Ints, eligible: Ints, nearest: float
    ) -> tuple[Triage, tuple[float, float]]:
        """Return the triage of eligible arms, and bounds on the distance between the best decision and the next.

        If `arms` are not a best decision, the best one beats it, by `nearest` at most.
        """
        here, exclude = self.shifted(bounds), self._exclude(eligible)
        triage, apart = decided_by(self.decisions, arms, here, exclude)
        return triage, (apart, max(nearest, _nearest(self.decisions, arms, here, exclude)))
