"""The certificate over a decision set: the same promises as for slates, at one question to the oracle each.

The most that a decision V can lose over all means inside their intervals is the largest weight of a decision, with
lower ends on the arms of V and upper ends elsewhere, less the weight of V. For R decisions with m_a pulls of arm a the
weights are (R - m_a) U_a + m_a L_a. Both are exact, whatever the sizes of decisions and the signs of their rewards: for
a fixed rival the loss is linear in each mean, so its largest value stands at the ends of the intervals.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass, field, replace
from typing import NamedTuple

import numpy as np
from numpy.typing import ArrayLike, NDArray

from armtriage._arguments import check_arms, check_probability
from armtriage._numbers import at_most
from armtriage.arms import Name
from armtriage.certificate import (
    Account,
    Bounds,
    Certificate,
    Tally,
    _are,
    _named,
    _withdrawn,
    in_units,
    intervals_of,
    listed,
    name_all,
    narrowed,
)
from armtriage.decisions import DecisionSet
from armtriage.triage import Triage

__all__ = [
    "Challenge",
    "DecisionCertificate",
    "DecisionWatch",
    "certificate_of_decisions",
    "challenge",
    "decided_by",
    "log_bound",
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
            f"Of the {confirmed + active + eliminated:,} arms, {_are(confirmed)} certain to be in {best}, "
            f"{_are(eliminated)} certain not to be, and {_are(active)} still open."
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


def log_bound(decisions: DecisionSet, pulls: Ints, rounds: int, bounds: Bounds) -> float:
    """Return what `rounds` decisions with these pulls lost at most, by intervals of today: one question, and exact."""
    kept = pulls * bounds.lower
    weights = (rounds - pulls) * bounds.upper + kept
    return max(float(weights[_best(decisions, weights)].sum() - kept.sum()), 0.0)


def decided_by(decisions: DecisionSet, arms: Ints, bounds: Bounds) -> tuple[Triage, float]:
    """Return the arms that all or no plausible decisions have, and by how much `arms` certainly beats all others.

    Plausible is what may be as good as `arms`. The distance is 0 where some other decision is, and infinite where there
    is no other.
    """
    weights, n = _against(arms, bounds), bounds.lower.size
    value = float(weights[arms].sum())
    inside = np.zeros(n, np.bool_)
    inside[arms] = True
    with_it = decisions.maximise_each_including(weights)
    without = decisions.maximise_each_excluding(weights)
    plausible = value - _GUARD * (1.0 + abs(value))
    out, sure = ~inside & (with_it < plausible), inside & (without < plausible)
    triage = Triage(np.flatnonzero(sure), np.flatnonzero(~(sure | out)), np.flatnonzero(out))
    rivals = np.where(inside, without, with_it)
    return triage, max(value - float(rivals.max()), 0.0)


def _nearest(decisions: DecisionSet, arms: Ints, bounds: Bounds) -> float:
    """Return the most by which a decision can beat the next one, if it is the best."""
    weights = bounds.lower.copy()
    weights[arms] = bounds.upper[arms]
    inside = np.zeros(weights.size, np.bool_)
    inside[arms] = True
    rivals = np.where(inside, decisions.maximise_each_excluding(weights), decisions.maximise_each_including(weights))
    return max(float(weights[arms].sum() - rivals.max()), 0.0)


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
) -> DecisionCertificate:
    """Return the certificate of a tally over a decision set, with sums and `bounds`, if there are, on the unit scale.

    A sum of certificates is not kept: the retrospective bound is never above it. The decision to come, and what it is
    compared with, are among the `eligible` arms; what was lost before is against the best decision of all.
    """
    low, width = reward_range[0], reward_range[1] - reward_range[0]
    delta = check_probability("delta", delta)
    n_arms, offset = tally.counts.size, offset_of(decisions, reward_range, direction)
    exclude = _NONE if eligible is None else np.setdiff1d(np.arange(n_arms), eligible)
    unit = np.clip(tally.sums, 0.0, tally.counts)
    if bounds is None:
        bounds = intervals_of(tally, n_arms, delta)
    intervals = in_units(bounds, reward_range, direction)
    bounds = Bounds(bounds.lower + offset, bounds.upper + offset)
    means = np.where(tally.counts > 0, unit / np.maximum(tally.counts, 1), 0.0) + offset
    if next_decision is None:
        arms = _best(decisions, means, exclude)
    else:
        arms = np.sort(check_arms(next_decision, n_arms, "next_decision"))
        if not decisions.contains(arms):
            raise ValueError(f"next_decision must be a decision of {decisions!r}, got {next_decision!r}")
    rival, amount = challenge(decisions, arms, bounds, exclude)
    past = width * log_bound(decisions, tally.pulls, rounds, bounds)
    if decisions.same_size and (unplayed := decisions.size * rounds - int(tally.pulls.sum())):
        past = max(past + (low if direction == "maximize" else -reward_range[1]) * unplayed, 0.0)
    triage, apart = decided_by(decisions, arms, bounds)
    # If this decision is not a best one, the best beats it, by the gap or more.
    nearest = max(amount, _nearest(decisions, arms, bounds))
    certificate = DecisionCertificate(
        confidence=1.0 - delta,
        rounds=rounds,
        budget=decisions.size,
        regret_bound=past,
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
        estimate=width * log_bound(decisions, tally.pulls, rounds, Bounds(means, means)),
        intervals=intervals,
    )
    certificate = _withdrawn(certificate) if contradictions else certificate
    if names is None:
        return certificate
    return replace(
        _named(certificate, names),
        challenger=name_all(certificate.challenger, names),
        entering=name_all(certificate.entering, names),
        leaving=name_all(certificate.leaving, names),
    )


class DecisionWatch:
    """Bounds on the loss of a run as it goes on, with the intersection of each arm's intervals so far."""

    def __init__(
        self, decisions: DecisionSet, reward_range: tuple[float, float], delta: float, direction: str = "maximize"
    ) -> None:
        self.decisions, self.delta = decisions, delta
        self.offset = offset_of(decisions, reward_range, direction)
        self.bounds = Bounds(np.zeros(decisions.n_arms), np.ones(decisions.n_arms))

    def bound(self, tally: Tally, rounds: int, exposures: Ints | None = None) -> float:
        """Return what `rounds` decisions have lost at most, on the unit scale of the rewards."""
        assert exposures is None, "over a decision set everybody is eligible"
        self.bounds = narrowed(self.bounds, tally, self.delta)[0]
        here = Bounds(self.bounds.lower + self.offset, self.bounds.upper + self.offset)
        return log_bound(self.decisions, tally.pulls, rounds, here)
