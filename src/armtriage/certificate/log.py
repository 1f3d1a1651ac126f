"""Log: decisions and what came of them, where each arm has a constant mean; what they lost at most, and earned.

A bound on what was lost may say nothing. Doing nothing at all earns nothing, and loses what the best decisions would
have earned: a bound that is no smaller says nothing useful. With costs, no more can have been paid too much than was
paid.
"""

from __future__ import annotations

import math
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field
from functools import cached_property
from typing import Any, NamedTuple

import numpy as np
from numpy.typing import ArrayLike, NDArray

from armtriage._arguments import check_probability
from armtriage.arms import Name
from armtriage.certificate.bounds import WHOLE, Bounds, Tally, in_units, intervals_of, within_old
from armtriage.certificate.certificate import Account, Assumptions, Certificate, certificate_of
from armtriage.certificate.sets import Sets
from armtriage.certificate.slates import Slates

Ints = NDArray[np.int64]

_OCTAVES = 10  # of decisions that are looked ahead: to a thousand times those so far
_FEWEST = 10.0  # rewards on the unit scale, below which means are too uncertain to foresee anything


class Worth(NamedTuple):
    """What the decisions seem to have earned, or paid, and what there was to lose; both in the units of rewards."""

    earned: float
    at_stake: float


@dataclass(frozen=True, eq=False)
class Log:
    """Decisions, what came of them, and what they are compared with: all that a certificate is computed from.

    Sums, and bounds if a policy has better ones, are on the unit scale. All is computed there and mapped once: a range
    far from 0 would swallow its own width. There more is always better: with direction ``"minimize"`` it is the
    distance from the largest cost.

    Examples
    --------
    >>> tally = Tally(np.array([60, 40]), np.array([60, 40]), np.array([30.0, 10.0]), np.zeros(2))
    >>> Log(Slates(1), tally, rounds=100, delta=0.05).certificate(names=["tea", "milk"]).next_decision
    array(['tea'], dtype=object)
    """

    rivals: Slates | Sets  # what decisions are compared with
    tally: Tally  # a row for each arm that ever was, and one for what each forgotten arm was before
    rounds: int
    delta: float
    reward_range: tuple[float, float] = (0.0, 1.0)
    direction: str = "maximize"
    bounds: Bounds | None = None  # by default the intervals of the tally
    exposures: Ints | None = None  # in how many rounds each arm was eligible; by default always
    slots: int | None = None  # with exposures: arms that the decisions could have had in all; by default the pulls
    divisors: NDArray[np.float64] | None = None  # 1 / share of delta of each row; by default equal shares
    later: bool = False  # whether some rows have a share of a second delta
    arms: Ints | None = None  # those that are not retired, ascending; by default all
    eligible: Ints | None = None  # those of them that the next decision may have, ascending; by default all
    next_decision: ArrayLike | None = None  # by default the eligible one of largest means
    silent: tuple[int, ...] = ()  # arms whose rewards have not come for some time
    kept: Mapping[str, float | None] = field(default_factory=dict)  # bounds on the whole loss that a policy has kept
    live: float = 1.0  # share of delta of what follows from the tally
    old: Bounds | None = None  # what an old log says of the first rows, with the rest of delta

    def __post_init__(self) -> None:
        check_probability("delta", self.delta)

    @property
    def _shares(self) -> int | NDArray[np.float64]:
        return self.tally.counts.size if self.divisors is None else self.divisors

    @property
    def _width(self) -> float:
        return self.reward_range[1] - self.reward_range[0]

    @property
    def _least(self) -> float:
        """The smallest reward, with costs less than 0."""
        return -self.reward_range[1] if self.direction == "minimize" else self.reward_range[0]

    @property
    def _fixed(self) -> bool:
        """Whether all is about one best decision of all arms, so that each arm needs one end of its interval only."""
        others = (self.bounds, self.exposures, self.divisors, self.arms, self.eligible)
        return not self.kept and all(one is None for one in others)

    def _ends(self, tally: Tally) -> Bounds:
        """Return the ends that losses are read from."""
        if self._fixed:
            return within_old(self.rivals.ends_of(tally, self._delta), self.old)
        return self._intervals(tally)

    def _intervals(self, tally: Tally) -> Bounds:
        """Return intervals that hold for all arms, beside the ends."""
        found = intervals_of(tally, self._shares, self._delta * WHOLE if self._fixed else self._delta)
        return within_old(found, self.old)

    @property
    def _delta(self) -> float:
        return self.live * self.delta

    @cached_property
    def _bounds(self) -> Bounds:
        return self._ends(self.tally) if self.bounds is None else self.bounds

    @cached_property
    def _whole(self) -> Bounds:
        return self._intervals(self.tally) if self.bounds is None else self.bounds

    @cached_property
    def _places(self) -> int:
        if self.exposures is None:
            return self.rivals.size * self.rounds
        return int(self.tally.pulls.sum()) if self.slots is None else self.slots

    @cached_property
    def _means(self) -> NDArray[np.float64]:
        counts = self.tally.counts
        return np.where(counts > 0, np.clip(self.tally.sums, 0.0, counts) / np.maximum(counts, 1), 0.0)

    def _lost(self, pulls: NDArray[Any], times: float, bounds: Bounds) -> float:
        """Return what decisions with these pulls lost at most, `times` as many as there are, on the unit scale."""
        shown = None if self.exposures is None else times * self.exposures
        return self.rivals.lost(pulls, times * self.rounds, bounds, shown, times * self._places)

    def _lost_in_all(self, tally: Tally, times: float, bounds: Bounds, whole: Bounds) -> float:
        """Return the same, by sums of rewards as well where these say more."""
        if self._fixed:
            return self.rivals.lost_of_all(tally, times * self.rounds, bounds, self._delta, whole)
        return self._lost(tally.pulls, times, bounds)

    def past(self) -> dict[str, float]:
        """Return bounds on what was lost in all, by name, in the units of rewards."""
        lost = self._width * self._lost_in_all(self.tally, 1, self._bounds, self._whole)
        if self.rivals.same_size and (unplayed := self._places - int(self.tally.pulls.sum())):
            lost += unplayed * self._least
        kept = {name: bound for name, bound in self.kept.items() if bound is not None}
        return {"retrospective": max(lost, 0.0), **kept}

    def certificate(
        self,
        *,
        contradictions: int = 0,
        account: Account | None = None,
        since: int = 0,
        names: Sequence[Name] | None = None,
    ) -> Certificate:
        """Return the certificate of the log, with what a policy keeps besides."""
        worth = self.worth()
        return certificate_of(
            bounds=self.past(),
            at_stake=worth.at_stake,
            needed=self.needed,
            names=names,
            confidence=max(1.0 - 2.0 * self.delta, 0.0) if self.later else 1.0 - self.delta,
            rounds=self.rounds,
            budget=self.rivals.size,
            direction=self.direction,
            earned=worth.earned,
            contradictions=contradictions,
            account=account,
            since=since,
            **self._known(),
        )

    def _known(self) -> dict[str, Any]:
        """Return what is known of a decision to come and of the arms, as columns of the certificate."""
        rivals, bounds, width, counts = self.rivals, self._bounds, self._width, self.tally.counts
        live = np.arange(counts.size) if self.arms is None else self.arms
        eligible = live if self.eligible is None else self.eligible
        if self.next_decision is None:
            arms = rivals.best(self._means, eligible)
        else:
            arms = rivals.check(self.next_decision, counts.size, eligible)
        rival = rivals.challenge(arms, bounds, eligible)
        pairs = tuple(one._replace(amount=width * one.amount) for one in rival.exchanges)
        triage, gap = rivals.sort(arms, bounds, live, eligible, rival.amount)
        if self._fixed and gap[0] > 0.0:
            # How far apart they are at least is read from the other ends, which are wider.
            gap = rivals.sort(arms, self._whole, live, eligible, rival.amount)[1][0], gap[1]
        return {
            "family": rivals.family,
            "assumptions": Assumptions(reward_range=self.reward_range, independent=self._fixed and rivals.independent),
            "next_decision": arms,
            "next_bound": float(sum(one.amount for one in pairs)) if pairs else width * rival.amount,
            "exchanges": pairs,
            "challenger": rival.arms,
            "triage": triage,
            "gap": (width * gap[0], width * gap[1]),
            "least_observed": int(counts[live].min(initial=counts.max())),
            "silent": tuple(np.intersect1d(self.silent, live).tolist()) if self.silent else (),
            "per_round": self.exposures is not None or self.kept.get("by_pattern") is not None,
            "estimate": width * max(self._lost(self.tally.pulls, 1, Bounds(self._means, self._means)), 0.0),
            "intervals": in_units(self._whole, self.reward_range, self.direction),
        }

    def worth(self) -> Worth:
        """Return what was earned by the means so far, and what doing nothing would have lost."""
        return self._worth(self.tally, self._whole, 1.0)

    def _worth(self, tally: Tally, bounds: Bounds, times: float) -> Worth:
        """Return the worth of `times` as many decisions.

        What doing nothing would have lost is what was earned, or what the best decision certainly would have, if that
        is more. Where a decision must have its size, doing nothing means the least reward in every place. With costs,
        all that can be lost is what was paid above the least.
        """
        seen = tally.counts > 0
        unit = np.where(seen, np.clip(tally.sums / np.maximum(tally.counts, 1), 0.0, 1.0), 0.0)
        low, high = self.reward_range
        if self.direction == "minimize":
            low, high = -high, -low
        width, pulled, same_size, offset = (
            high - low,
            float(tally.pulls.sum()),
            self.rivals.same_size,
            self.rivals.offset,
        )
        if high <= 0.0:
            paid = float((tally.pulls * (width * (1.0 - unit) - high))[seen].sum())
            least = -high * float(tally.pulls[seen].sum()) if same_size else 0.0
            return Worth(paid if self.direction == "minimize" else -paid, max(paid - least, 0.0))
        earned = width * float(tally.pulls @ unit) + low * pulled
        pulls, slots = tally.pulls.astype(np.float64), times * self._places
        gained = self._lost(pulls, times, Bounds(bounds.lower, bounds.lower)) + float(pulls @ (bounds.lower + offset))
        certain = width * gained + (low * slots if offset == 0.0 else 0.0)
        least = max(low, 0.0) if same_size else 0.0
        at_stake = max(earned - least * pulled, certain - least * slots, 0.0)
        return Worth(-earned if self.direction == "minimize" else earned, at_stake)

    def needed(self) -> int | None:
        """Return about how many more decisions make the bound smaller than what is at stake; None if unforeseeable.

        Means are taken to stay as they are, and intervals narrow as their counts grow. An arm that was chosen, or
        observed, less often than the average grows more slowly, with the power of the decisions by which it has grown
        so far.
        """
        tally = self.tally
        if float(tally.pulls @ (tally.sums / np.maximum(tally.counts, 1))) < _FEWEST:
            return None

        def speaks(octaves: float) -> bool:
            """Whether there is something to say after so many doublings."""
            times = 2.0**octaves
            pulls = np.rint(np.minimum(_grown(tally.pulls, times), times * self.rounds))
            counts = np.rint(_grown(tally.counts, times))
            more = counts / np.maximum(tally.counts, 1)
            then: Any = Tally(pulls, counts.astype(np.int64), tally.sums * more, tally.between * more)
            ends, whole = (
                Bounds(np.maximum(new.lower, old.lower), np.minimum(new.upper, old.upper))
                for new, old in ((self._ends(then), self._bounds), (self._intervals(then), self._whole))
            )
            return self._width * self._lost_in_all(then, times, ends, whole) < self._worth(then, whole, times).at_stake

        if not speaks(_OCTAVES):
            return None
        few, many = 0.0, float(_OCTAVES)
        while many - few > 0.05:
            middle = 0.5 * (few + many)
            few, many = (few, middle) if speaks(middle) else (middle, many)
        return max(int(float(f"{(2.0**many - 1.0) * self.rounds:.2g}")), 1)


def _grown(numbers: NDArray[np.int64], factor: float) -> NDArray[np.float64]:
    """Return what numbers become when their sum is multiplied by a factor."""
    average = max(float(numbers.mean()), 2.0)
    power = np.clip(np.log(np.maximum(numbers, 1)) / math.log(average), 0.0, 1.0)
    grown, often = numbers * factor**power, power == 1.0
    rest = factor * float(numbers.sum()) - float(grown[~often].sum())
    grown[often] *= rest / max(float(grown[often].sum()), 1.0)
    return grown
