"""The certificate over a decision set: the same promises as for slates, at one question to the oracle each.

The most that a decision V can lose over all means inside their intervals is the largest weight of a decision, with
lower ends on the arms of V and upper ends elsewhere, less the weight of V. For R decisions with m_a pulls of arm a the
weights are (R - m_a) U_a + m_a L_a. Both are exact, whatever the sizes of decisions and the signs of their rewards: for
a fixed rival the loss is linear in each mean, so its largest value stands at the ends of the intervals.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass, field, replace
from typing import Any, NamedTuple

import numpy as np
from numpy.typing import ArrayLike, NDArray

from armtriage._arguments import check_arms, check_probability
from armtriage._numbers import at_most
from armtriage.arms import Name
from armtriage.certificate.bounds import Bounds, Tally, in_units, intervals_of
from armtriage.certificate.certificate import Account, Certificate, are, listed, name_all, named, withdrawn
from armtriage.certificate.informative import Stake
from armtriage.decisions import DecisionSet
from armtriage.triage import Triage

__all__ = [
    "Challenge",
    "DecisionCertificate",
    "certificate_of_decisions",
    "challenge",
    "decided_by",
    "log_bound_over",
    "offset_of",
]

Ints = NDArray[np.int64]
Floats = NDArray[np.float64]

_ROUNDING = 1e-12  # of a sum of weights: what two orders of adding them up differ by
_GUARD = 1e-9  # by what share two values must differ to count as different
_NONE = np.empty(0, np.int64)


@dataclass(frozen=True, eq=False)
class DecisionCertificate(Certificate):
    """What is known for certain, but for the stated confidence, about what was and will be lost over a decision set.

    See `armtriage.Certificate` for what it needs and for the attributes not listed here. `budget` is the size of the
    largest decision, `exchanges` is empty, and `gap` bounds the distance between the best decision and the next.

    Attributes
    ----------
    challenger : ndarray
        The decision that may be better than `next_decision` by `next_bound`; the same one if none may.
    entering, leaving : ndarray
        The arms in which the two differ: those of the challenger alone, and those of `next_decision` alone.

    Examples
    --------
    >>> from armtriage import Matchings, certify
    >>> jobs = Matchings(2, 2)
    >>> print(certify(pulls=[90, 10, 10, 90], counts=[90, 10, 10, 90], sums=[72.0, 5.0, 4.0, 63.0], decisions=jobs))
    With 95% confidence, the 100 decisions so far have lost at most 58.6 in all, 0.586 each, against always playing the
    best decision. Playing arms 0 and 3 next loses at most 0.651, because arms 1 and 2 may still be better than arms 0
    and 3. Of the 4 arms, none is certain to be in the best decision, none is certain not to be, and 4 are still open.
    All this takes an arm's mean to be constant, whatever was known when it was chosen, and rewards to be told whatever
    they are.
    """

    challenger: Ints = field(default_factory=lambda: _NONE)
    entering: Ints = field(default_factory=lambda: _NONE)
    leaving: Ints = field(default_factory=lambda: _NONE)

    def _best(self, which: str = "") -> str:
        return f"the {'cheapest' if self._costs else 'best'}{which} decision"

    def _of_next(self) -> str:
        arms, better = _said(self.next_decision), "cheaper" if self._costs else "better"
        if self.next_bound == 0.0:
            return f"Playing {arms} next is a {'cheapest' if self._costs else 'best'} decision."
        most = at_most(self.next_bound)
        loses = f"costs at most {most} more than need be" if self._costs else f"loses at most {most}"
        because = f"Playing {arms} next {loses}, because "
        if not self.entering.size:
            return f"{because}it may be {better} without {_said(self.leaving)}."
        if not self.leaving.size:
            return f"{because}it may be {better} with {_said(self.entering)}."
        return f"{because}{_said(self.entering)} may still be {better} than {_said(self.leaving)}."

    def _of_arms(self) -> str:
        confirmed, active, eliminated = (arms.size for arms in self.triage)
        best = self._best()
        if not active:
            return f"{best[0].upper()}{best[1:]} is known for certain."
        return (
            f"Of the {confirmed + active + eliminated:,} arms, {are(confirmed)} certain to be in {best}, "
            f"{are(eliminated)} certain not to be, and {are(active)} still open."
        )


class Challenge(NamedTuple):
    """The decision that may be better than another by most, and by how much at most."""

    arms: Ints
    amount: float


def _said(arms: Ints) -> str:
    return listed(arms.tolist()) if arms.size else "no arm"


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
    """Return the decision that may be better than `arms` by most: one question, and exact."""
    rival = _best(decisions, _against(arms, bounds), exclude)
    return Challenge(rival, _excess(rival, arms, bounds))


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
    kept = pulls * bounds.lower
    weights = (rounds - pulls) * bounds.upper + kept
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


def certificate_of_decisions(
    tally: Tally,
    rounds: int,
    decisions: DecisionSet,
    *,
    delta: float,
    reward_range: tuple[float, float],
    next_decision: ArrayLike | None = None,
    bounds: Bounds | None = None,
    contradictions: int = 0,
    account: Account | None = None,
    since: int = 0,
    silent: tuple[int, ...] = (),
    eligible: Ints | None = None,
    names: Sequence[Name] | None = None,
    direction: str = "maximize",
    by_pattern: float | None = None,
) -> DecisionCertificate:
    """Return the certificate of a tally over a decision set, with sums and `bounds`, if there are, on the unit scale.

    A sum of certificates is not kept: the retrospective bound is never above it. The decision to come, and what it is
    compared with, are among the `eligible` arms; what was lost before is against the best decision of all, which is no
    less than against the best eligible ones, or, by `by_pattern`, against those.
    """
    low, width = reward_range[0], reward_range[1] - reward_range[0]
    delta = check_probability("delta", delta)
    n_arms, offset = tally.counts.size, offset_of(decisions, reward_range, direction)
    exclude = _NONE if eligible is None else np.setdiff1d(np.arange(n_arms), eligible)
    unit = np.clip(tally.sums, 0.0, tally.counts)
    if bounds is None:
        bounds = intervals_of(tally, n_arms, delta)
    intervals, own = in_units(bounds, reward_range, direction), bounds
    bounds = Bounds(bounds.lower + offset, bounds.upper + offset)
    means = np.where(tally.counts > 0, unit / np.maximum(tally.counts, 1), 0.0) + offset
    if next_decision is None:
        arms = _best(decisions, means, exclude)
    else:
        arms = np.sort(check_arms(next_decision, n_arms, "next_decision"))
        if not decisions.contains(arms) or np.isin(arms, exclude).any():
            raise ValueError(f"next_decision must be a decision of {decisions!r}, got {next_decision!r}")
    rival, amount = challenge(decisions, arms, bounds, exclude)
    past = width * log_bound_over(decisions, tally.pulls, rounds, bounds)
    if decisions.same_size and (unplayed := decisions.size * rounds - int(tally.pulls.sum())):
        past = max(past + (low if direction == "maximize" else -reward_range[1]) * unplayed, 0.0)
    triage, apart = decided_by(decisions, arms, bounds, exclude)
    # If this decision is not a best one, the best beats it, by the gap or more.
    nearest = max(amount, _nearest(decisions, arms, bounds, exclude))

    def lost(pulls: NDArray[Any], times: float, by: Bounds) -> float:
        return log_bound_over(decisions, pulls, times * rounds, Bounds(by.lower + offset, by.upper + offset))

    most = past if by_pattern is None else min(past, by_pattern)
    stake = Stake(
        lost, rounds, decisions.size * rounds, reward_range, direction, same_size=decisions.same_size, offset=offset
    )
    worth = stake.worth(tally, own)
    informative = most < worth.at_stake
    certificate = DecisionCertificate(
        confidence=1.0 - delta,
        rounds=rounds,
        budget=decisions.size,
        regret_bound=most,
        retrospective=past,
        sum_of_certificates=None,
        next_decision=arms,
        next_bound=width * amount,
        exchanges=(),
        triage=triage,
        gap=(width * apart, width * nearest),
        contradictions=contradictions,
        least_observed=int(tally.counts.min()),
        account=account,
        since=since,
        silent=silent,
        challenger=rival if amount > 0.0 else arms,
        entering=np.setdiff1d(rival, arms) if amount > 0.0 else _NONE,
        leaving=np.setdiff1d(arms, rival) if amount > 0.0 else _NONE,
        direction=direction,
        per_round=by_pattern is not None,
        by_pattern=by_pattern,
        estimate=width * log_bound_over(decisions, tally.pulls, rounds, Bounds(means, means)),
        intervals=intervals,
        informative=informative,
        needed=0 if informative else stake.needed(tally, own, delta, n_arms),
        earned=worth.earned,
    )
    certificate = withdrawn(certificate) if contradictions else certificate
    if names is None:
        return certificate
    return replace(
        named(certificate, names),
        challenger=name_all(certificate.challenger, names),
        entering=name_all(certificate.entering, names),
        leaving=name_all(certificate.leaving, names),
    )
