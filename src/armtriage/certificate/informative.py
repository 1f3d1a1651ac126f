"""Whether a bound on what was lost says anything, and after how many more decisions it will.

Who does nothing at all earns nothing, and loses what the best decisions would have earned. A bound that is no smaller
says nothing useful. With costs, nobody can have paid more too much than was paid.
"""

from __future__ import annotations

import math
from collections.abc import Callable
from typing import Any, NamedTuple

import numpy as np
from numpy.typing import NDArray

from armtriage._numbers import short
from armtriage.certificate.bounds import Bounds, Tally, intervals_of

__all__ = ["Stake", "Worth", "caveat"]

Loss = Callable[[NDArray[np.float64], float, Bounds], float]
"""What decisions with these pulls, a multiple of the rounds so far, lost at most by these bounds, on the unit scale."""

_OCTAVES = 10  # of decisions that are looked ahead: to a thousand times those so far
_FEWEST = 10.0  # rewards on the unit scale, below which means are too uncertain to foresee anything


class Worth(NamedTuple):
    """What the decisions seem to have earned, or paid, and what there was to lose; both in the units of rewards."""

    earned: float
    at_stake: float


class Stake(NamedTuple):
    """What it takes to say what decisions earned and could lose: how they are compared, and in which units."""

    lost: Loss
    rounds: int
    slots: float  # places that all decisions had
    reward_range: tuple[float, float]
    direction: str
    same_size: bool = True  # of all decisions
    offset: float = 0.0  # what `lost` adds to bounds on the unit scale

    def worth(self, tally: Tally, bounds: Bounds, times: float = 1.0) -> Worth:
        """Return what was earned by the means so far, and what doing nothing would have lost.

        The latter is what was earned, or what the best decision certainly would have, if that is more. Where a decision
        must have its size, doing nothing means the least reward in every place. With costs, all that can be lost is
        what was paid above the least. `times` as many decisions were made as there are rounds.
        """
        seen = tally.counts > 0
        unit = np.where(seen, np.clip(tally.sums / np.maximum(tally.counts, 1), 0.0, 1.0), 0.0)
        low, high = self.reward_range
        if self.direction == "minimize":
            low, high = -high, -low
        width, pulled = high - low, float(tally.pulls.sum())
        if high <= 0.0:
            paid = float((tally.pulls * (width * (1.0 - unit) - high))[seen].sum())
            least = -high * float(tally.pulls[seen].sum()) if self.same_size else 0.0
            return Worth(paid if self.direction == "minimize" else -paid, max(paid - least, 0.0))
        earned = width * float(tally.pulls @ unit) + low * pulled
        kept, slots = tally.pulls.astype(np.float64), times * self.slots
        gained = self.lost(kept, times, Bounds(bounds.lower, bounds.lower)) + float(kept @ (bounds.lower + self.offset))
        certain = width * gained + (low * slots if self.offset == 0.0 else 0.0)
        least = max(low, 0.0) if self.same_size else 0.0
        at_stake = max(earned - least * pulled, certain - least * slots, 0.0)
        return Worth(-earned if self.direction == "minimize" else earned, at_stake)

    def needed(self, tally: Tally, bounds: Bounds, delta: float, divisors: int | NDArray[np.float64]) -> int | None:
        """Return about how many more decisions make the bound smaller than what is at stake; None if nobody can say.

        Means are taken to stay as they are, and intervals narrow as their counts grow. An arm that was chosen, or
        observed, less often than the average grows more slowly, with the power of the decisions by which it has grown
        so far.
        """
        if float(tally.pulls @ (tally.sums / np.maximum(tally.counts, 1))) < _FEWEST:
            return None
        width = self.reward_range[1] - self.reward_range[0]

        def speaks(octaves: float) -> bool:
            """Whether there is something to say after so many doublings."""
            times = 2.0**octaves
            pulls = np.minimum(_grown(tally.pulls, times), times * self.rounds)
            counts = np.rint(_grown(tally.counts, times))
            more = counts / np.maximum(tally.counts, 1)
            then: Any = Tally(pulls, counts.astype(np.int64), tally.sums * more, tally.between * more)
            lower, upper = intervals_of(then, divisors, delta)
            both = Bounds(np.maximum(lower, bounds.lower), np.minimum(upper, bounds.upper))
            return width * self.lost(pulls, times, both) < self.worth(then, both, times).at_stake

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


def caveat(bound: float, earned: float, needed: int | None, told: str) -> str:
    """Return the sentence for a bound that says nothing; `told` are rewards or costs."""
    less = f"more than all {told} so far" if 0.0 <= earned <= bound else "no less than all that can have been lost"
    more = (
        "how many more decisions are needed cannot be foreseen"
        if needed is None
        else f"about {short(needed)} more decisions are needed"
    )
    return f"This is {less}: nothing useful is certified yet; {more}."
