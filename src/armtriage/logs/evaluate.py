"""evaluate: what another policy would have earned in the decisions of a log."""

from __future__ import annotations

from collections.abc import Sequence
from statistics import NormalDist
from typing import Any, NamedTuple

import numpy as np
from numpy.typing import NDArray

from armtriage._arguments import check_choice, check_flag, check_kind, check_probability
from armtriage.arms import Roster
from armtriage.certificate import Bounds, Tally, intervals_of
from armtriage.logs.batch import Batch, Counts, counts_of
from armtriage.logs.estimates import Running
from armtriage.logs.evaluation import Evaluation
from armtriage.logs.slate_log import SlateLog
from armtriage.logs.targets import Target, target_of

ESTIMATORS = ("dr", "ips", "snips", "total", "bracket")
"""How a value may be estimated."""


def evaluate(
    log: SlateLog,
    target: Any,
    *,
    estimator: str = "dr",
    alpha: float = 0.05,
    anytime: bool = True,
    restrict: bool = False,
) -> Evaluation:
    """Estimate what a target would have earned in the decisions of a log, arm by arm.

    A decision earns the sum of what its arms earn, wherever they stand in it: that is assumed. A look at an arm counts
    with one over the probability that the log had of seeing it, so every arm of the target should have been possible
    in every decision. Intervals hold where the log's policy learned on the way.

    Parameters
    ----------
    log : SlateLog
        What was decided.
    target : sequence, mapping, array_like of float, or Policy
        What would have been played: arms, by number or name; the probability of playing each arm; or a policy, which
        is asked in every decision for the arms that were eligible, as it stands, and learns nothing.
    estimator : str
        ``"dr"``, what is expected of each arm by earlier looks, corrected by weighted ones; ``"ips"``, the weighted
        looks alone; ``"snips"``, the same divided by the sum of the weights; ``"total"``, from the sum of a decision's
        rewards alone, for logs with a floor; ``"bracket"``, an interval that needs no probabilities.
    alpha : float
        The probability that the interval fails.
    anytime : bool
        Whether the interval must hold for all lengths of the log at once; otherwise it is the normal approximation for
        this length, narrower, and not valid for one who looks more than once.
    restrict : bool
        Leave arms of the target out where they were not eligible, instead of refusing.

    Returns
    -------
    Evaluation
        In the units of rewards; printed, it reads as sentences.

    Examples
    --------
    >>> from armtriage import SlateLog, evaluate
    >>> log = SlateLog.from_columns(
    ...     arms=[[0], [1]] * 500, rewards=[[1], [0]] * 500, inclusion=[[0.5]] * 1000, n_arms=2
    ... )
    >>> found = evaluate(log, [0])
    >>> round(found.value, 3), round(found.low, 2), found.high
    (1.0, 0.89, 1.0)
    """
    check_kind("log", log, SlateLog)
    check_choice("estimator", estimator, ESTIMATORS)
    check_probability("alpha", alpha)
    check_flag("anytime", anytime)
    if estimator == "total" and anytime:
        raise ValueError("anytime must be False for estimator 'total', which has no such interval, got True")
    roster = Roster(log.n_arms, log.names)
    one = target_of(target, roster, restrict=check_flag("restrict", restrict))
    known = followed(log, [one], estimator)
    return known.evaluation(0, estimator, alpha, anytime)


class Known(NamedTuple):
    """What a log has said of targets."""

    log: SlateLog
    targets: Sequence[Target]
    runs: Sequence[Running]
    counts: Counts

    def bounds(self, alpha: float) -> Bounds:
        """Return bounds on the mean of every arm, on the unit scale, if it is constant."""
        found, (low, high) = self.counts, self.log.reward_range
        width = high - low
        sums = np.clip((found.sums - low * found.counts) / width, 0.0, found.counts)
        squares = (found.squares - 2.0 * low * found.sums + low * low * found.counts) / width**2
        tally = Tally(found.pulls, found.counts, sums, np.maximum(sums - squares, 0.0))
        return intervals_of(tally, sums.size, alpha)

    def bracket(self, place: int, alpha: float) -> tuple[float, float]:
        """Return bounds on what a target earns, if the mean of every arm is constant."""
        run, bounds = self.runs[place], self.bounds(alpha)
        share = run.signed / max(run.rounds, 1)
        gain, loss = np.maximum(share, 0.0), np.maximum(-share, 0.0)
        return float(gain @ bounds.lower - loss @ bounds.upper), float(gain @ bounds.upper - loss @ bounds.lower)

    def in_units(self, place: int, value: float) -> float:
        """Return a value on the unit scale in the units of rewards."""
        low, high = self.log.reward_range
        return float((high - low) * value + low * self.runs[place].expected)

    def evaluation(self, place: int, estimator: str, alpha: float, anytime: bool) -> Evaluation:
        """Return what is known of a target."""
        run, weighted = self.runs[place], estimator != "bracket"
        low, high = bracket = self.bracket(place, alpha)
        value = None
        if weighted:
            found = run.wald(estimator)
            value = found.mean
            width = NormalDist().inv_cdf(1.0 - alpha / 2.0) * found.error
            low, high = run.interval(alpha) if anytime else (value - width, value + width)
        mass = float(run.mass.sum())
        sum_of_weights, squares = run.weights.tolist()
        return Evaluation(
            target=self.targets[place].label,
            estimator=estimator,
            value=None if value is None else self.in_units(place, value),
            low=self.in_units(place, low),
            high=self.in_units(place, high),
            confidence=1.0 - alpha,
            anytime=anytime or not weighted,
            bracket=(self.in_units(place, bracket[0]), self.in_units(place, bracket[1])),
            rounds=run.rounds,
            untold=self.counts.untold,
            effective_size=sum_of_weights**2 / squares if squares else 0.0,
            largest_weight=run.largest,
            thin=run.thin / sum_of_weights if sum_of_weights else 0.0,
            unsupported=float(run.mass[self.counts.counts == 0].sum()) / mass if mass else 0.0,
            calibration_z=run.calibration() if weighted else None,
            direction=self.log.direction,
        )


def followed(log: SlateLog, targets: Sequence[Target], estimator: str) -> Known:
    """Go through a log once for some targets."""
    said = log.looks()
    looks = said.most if said.floors else None
    options = {"totals": estimator == "total", "weighted": estimator != "bracket"}
    runs = [Running(one, log.n_arms, looks, **options) for one in targets]
    low, high = log.reward_range

    def each() -> Any:
        for batch in log.batches():
            told = _told(batch)
            rewards = np.clip((told.rewards - low) / (high - low), 0.0, 1.0)
            for run in runs:
                run.add(told, rewards)
            yield batch

    counts = counts_of(each(), log.n_arms)
    if counts.rounds == counts.untold:
        raise ValueError(f"log must have a decision or more with rewards, got {counts.rounds} without")
    return Known(log, targets, runs, counts)


def _told(batch: Batch) -> Batch:
    """Return the decisions of which a reward came."""
    keep = batch.seen.sizes > 0
    if keep.all():
        return batch
    return batch._replace(
        numbers=batch.numbers[keep],
        arms=_only(batch.arms, keep),
        seen=_only(batch.seen, keep),
        proposal=_only(batch.proposal, keep),
        floors=batch.floors[keep],
        which=batch.which[keep],
    )


def _only(rows: Any, keep: NDArray[np.bool_]) -> Any:
    sizes = rows.sizes[keep]
    return rows._replace(
        starts=np.concatenate([[0], np.cumsum(sizes)]).astype(np.int64), values=rows.values[keep[rows.owners]]
    )
