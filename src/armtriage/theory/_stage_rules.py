"""The rule of a stage of Algorithm 3, printed, repaired and tight, with room for rounding."""

from __future__ import annotations

from typing import NamedTuple

import numpy as np
from numpy.typing import NDArray

from armtriage.theory._watch import HAIR, Floats

__all__ = ["Ends", "Rule", "slack_rule"]

Mask = NDArray[np.bool_]


class Rule(NamedTuple):
    """An arm is confirmed if its `low` exceeds one threshold, else eliminated if its `high` is below the other.

    Where rounding decides which arm sets a threshold, there are two values of it, the smaller first.
    """

    low: Floats
    high: Floats
    confirm: tuple[float, float]
    keep: tuple[float, float]

    def misjudged(self, open_: Mask, sure: Mask, out: Mask) -> tuple[Mask, Mask]:
        """Return the arms that were wrongly confirmed or not, and those wrongly eliminated or kept."""
        early, late = self.low <= self.confirm[0] - HAIR, self.low > self.confirm[1] + HAIR
        harsh, mild = self.high >= self.keep[1] + HAIR, self.high < self.keep[0] - HAIR
        return (sure & early) | (open_ & ~sure & late), (out & harsh) | (open_ & ~sure & ~out & mild)


def slack_rule(estimates: Floats, widths: Floats, open_: Mask, k: int, stage: int, printed: bool) -> Rule:
    """Return the rule with the slack 2^-h: as printed, the benchmark is that of the k-th upper end."""
    benchmark = float(np.sort(estimates[open_])[::-1][k - 1])
    ends = benchmark, benchmark
    if printed:
        upper = (estimates + widths)[open_]
        tied = estimates[open_][np.abs(upper - np.sort(upper)[::-1][k - 1]) <= HAIR]
        ends = float(tied.min()), float(tied.max())
    unit = 0.5**stage
    return Rule(
        estimates,
        estimates,
        (ends[0] + 4.0 * unit, ends[1] + 4.0 * unit),
        (ends[0] - 2.0 * unit, ends[1] - 2.0 * unit),
    )


class Ends:
    """The interval of each arm that the stages of a round leave together."""

    def __init__(self, n_arms: int) -> None:
        self.low, self.high = np.full(n_arms, -np.inf), np.full(n_arms, np.inf)

    def rule(self, estimates: Floats, widths: Floats, open_: Mask, k: int) -> Rule:
        """Narrow the intervals of the arms in question, and return the rule that compares them."""
        low, high = estimates - widths, estimates + widths
        both = np.maximum(low, self.low), np.minimum(high, self.high)
        crossed = both[0] > both[1]
        self.low = np.where(open_, np.where(crossed, low, both[0]), self.low)
        self.high = np.where(open_, np.where(crossed, high, both[1]), self.high)
        upper = np.sort(self.high[open_])[::-1]
        above = float(upper[k]) if upper.size > k else -np.inf
        keep = float(np.sort(self.low[open_])[::-1][k - 1])
        return Rule(self.low, self.high, (above, above), (keep, keep))
