"""Evaluation: what another policy would have earned, in numbers and in sentences."""

from __future__ import annotations

import math
from dataclasses import dataclass, fields
from typing import Any

from armtriage._numbers import short
from armtriage._tables import html_facts

_WRONG = 4.0  # standard errors beyond which probabilities are not those of the log: by chance 1 in 16,000
_FEW = 100.0  # looks below which the rest of a sentence is hardly worth reading


@dataclass(frozen=True)
class Evaluation:
    """What a target would have earned in a decision, on average over those of a log.

    Attributes
    ----------
    target : str
        What would have been played.
    estimator : str
        How `value` was found.
    value : float or None
        The estimate; None for ``"bracket"``, which is an interval only.
    low, high : float
        Bounds on what would have been earned, with probability `confidence`; with `anytime` for all lengths of the log
        at once, so that one may look as often as one likes. They need right probabilities, and no constant means.
    confidence : float
        The probability with which they hold.
    anytime : bool
        Whether they hold for all lengths of the log at once.
    bracket : tuple of float
        Bounds from counts and rewards alone, which need no probabilities: the mean of every arm must be constant
        instead, whatever was known when it was chosen. With probability `confidence`, for all targets and at all times.
    rounds, untold : int
        Decisions that count, and decisions that do not since no reward of theirs came.
    effective_size : float
        How many looks of equal weight the weighted ones are worth.
    largest_weight : float
        The largest weight of a look.
    thin : float
        Share of the target that rests on looks whose probability was below 0.01.
    unsupported : float
        Share of the target that falls on arms which the log has never seen.
    calibration_z : float or None
        By how many standard errors the weights of the looks miss the sum that they have if the logged probabilities are
        right; None without probabilities.
    direction : str
        ``"minimize"`` if what is told are costs.

    Examples
    --------
    >>> from armtriage import SlateLog, evaluate
    >>> arms, rewards = [[0, 1], [1, 2], [0, 2]] * 200, [[1, 0], [0, 1], [1, 1]] * 200
    >>> log = SlateLog.from_columns(arms=arms, rewards=rewards, inclusion=[[2 / 3, 2 / 3]] * 600, n_arms=3)
    >>> print(evaluate(log, [0, 2]))
    Playing arms 0 and 2 would have earned 2 in a decision, with 95% confidence between ... and 2 at any time. That is
    over 600 decisions; the looks at these arms are worth 800 of equal weight, the largest weight is 1.5. If the mean of
    every arm is constant, it is between ... and 2, whatever the probabilities.
    """

    target: str
    estimator: str
    value: float | None
    low: float
    high: float
    confidence: float
    anytime: bool
    bracket: tuple[float, float]
    rounds: int
    untold: int
    effective_size: float
    largest_weight: float
    thin: float
    unsupported: float
    calibration_z: float | None
    direction: str = "maximize"

    @property
    def warnings(self) -> tuple[str, ...]:
        """What speaks against relying on it, in sentences."""
        found = []
        if self.unsupported > 0.0:
            share = f"{short(100 * self.unsupported)}%"
            found.append(f"The log has never seen arms that are {share} of the target: nothing is known of them.")
        if self.estimator == "bracket":
            return tuple(found)
        if self.calibration_z is not None and abs(self.calibration_z) > _WRONG and self.effective_size > 0.0:
            off = f"{abs(self.calibration_z):.1f}" if math.isfinite(self.calibration_z) else "infinitely many"
            found.append(
                f"The probabilities do not match the log: the weights miss what they should sum to by {off} standard "
                "errors. Estimate and interval are worthless if so; the bracket does not use them."
            )
        if self.effective_size < _FEW:
            found.append(
                f"The log hardly ever did what the target does: its looks are worth {short(self.effective_size)}, so "
                "little can be said; log with a floor."
            )
        if self.thin > 0.1:
            found.append(f"{short(100 * self.thin)}% of the estimate rests on looks of probability below 0.01.")
        return tuple(found)

    def __str__(self) -> str:
        cost = "cost" if self.direction == "minimize" else "earned"
        sure = f"with {100 * self.confidence:.10g}% confidence between {short(self.low)} and {short(self.high)}"
        when = " at any time" if self.anytime else ""
        if self.value is None:
            told = f"Playing {self.target} would have {cost}, {sure}{when} in a decision"
            return " ".join([f"{told}, if the mean of every arm is constant.", self._over(False), *self.warnings])
        said = f"Playing {self.target} would have {cost} {short(self.value)} in a decision, {sure}{when}."
        low, high = map(short, self.bracket)
        also = f"If the mean of every arm is constant, it is between {low} and {high}, whatever the probabilities."
        return " ".join([said, self._over(True), also, *self.warnings])

    def _over(self, weighted: bool) -> str:
        over = f"That is over {self.rounds:,} decision{'' if self.rounds == 1 else 's'}"
        if self.untold:
            over += f", without {self.untold:,} of which no reward came"
        if not weighted:
            return f"{over}."
        size, largest = short(self.effective_size), short(self.largest_weight)
        return f"{over}; the looks at these arms are worth {size} of equal weight, the largest weight is {largest}."

    def _repr_html_(self) -> str:
        """Return a table, and the sentences below it, for notebooks."""
        shown = {
            "estimate": "none" if self.value is None else short(self.value),
            f"{100 * self.confidence:.10g}% interval": f"{short(self.low)} to {short(self.high)}",
            "bracket, without probabilities": f"{short(self.bracket[0])} to {short(self.bracket[1])}",
            "decisions": f"{self.rounds:,}",
            "looks of equal weight": short(self.effective_size),
        }
        return html_facts(shown, str(self))

    def to_dict(self) -> dict[str, Any]:
        """Return the attributes as JSON knows them, with the sentences of `print` under ``"text"``."""
        found: dict[str, Any] = {one.name: getattr(self, one.name) for one in fields(self)}
        found["bracket"] = list(self.bracket)
        if self.calibration_z is not None and not math.isfinite(self.calibration_z):
            found["calibration_z"] = None
        return {**found, "warnings": list(self.warnings), "text": str(self)}
