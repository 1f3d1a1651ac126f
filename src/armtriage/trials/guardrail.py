"""Guardrail: an alarm when a second number of decisions, such as unsubscriptions, is worse than it may be."""

from __future__ import annotations

import math
from typing import Any

import numpy as np
from numpy.typing import NDArray

from armtriage._arguments import as_number, check_flag, check_number, check_probability, check_range
from armtriage._numbers import short
from armtriage.trials.contrast import Contrast, RunningMean, as_groups, as_values, check_arrays


class Guardrail:
    """An alarm for a second number of each decision that must not get large: unsubscriptions, returns, seconds waited.

    There is one limit: `ratio` times what the control has, `difference` above that, or `most` by itself. The alarm goes
    off when the mean of the policy's decisions is beyond the limit for certain, and stays on. While the limit is kept,
    it ever goes off with probability at most `alpha`.

    Parameters
    ----------
    share : float, optional
        Probability with which a decision was the control's, by a coin of its own; not needed for `most`.
    value_range : tuple of float
        The least and the largest value.
    ratio, difference, most : float, optional
        The limit; one of them.
    falls : bool
        Whether the number must not get small instead: the alarm goes off when it is more than `difference` below the
        control's, or below `most` by itself.
    alpha : float
        Probability of an alarm, at any time, though the limit is kept.

    Notes
    -----
    Rare harm takes a large control to see. `docs/prove-it-on-live-traffic.md` says how long it takes.

    Examples
    --------
    >>> guardrail = Guardrail(most=0.02, alpha=0.01)
    >>> guardrail.add([False] * 2000, [1.0, *[0.0] * 19] * 100)
    >>> guardrail.breached
    True
    >>> print(guardrail)
    Alarm: the policy's mean is at least 0.0339 with 99% confidence at any time; at most 0.02 is allowed.
    """

    def __init__(
        self,
        share: float | None = None,
        value_range: tuple[float, float] = (0.0, 1.0),
        *,
        ratio: float | None = None,
        difference: float | None = None,
        most: float | None = None,
        falls: bool = False,
        alpha: float = 0.01,
    ) -> None:
        limits = {"ratio": ratio, "difference": difference, "most": most}
        given = {name: value for name, value in limits.items() if value is not None}
        if len(given) != 1:
            raise TypeError(f"one of ratio, difference and most must be given, got {', '.join(given) or 'none'}")
        ((self.kind, limit),) = given.items()
        self.value_range = low, high = check_range(value_range)
        self.falls, self.alpha = check_flag("falls", falls), check_probability("alpha", alpha)
        self.limit = check_number("ratio", limit, positive=True) if ratio is not None else as_number(self.kind, limit)
        if not math.isfinite(self.limit):
            raise ValueError(f"{self.kind} must be a finite number, got {limit!r}")
        if ratio is not None and (low != 0.0 or falls):
            raise ValueError(
                f"a ratio needs a range that starts at 0, and a number that must not rise, got {low}, {falls=}"
            )
        if most is None and share is None:
            raise TypeError(f"share must be given with {self.kind}, which compares with the control; got None")
        self._mean, self._contrast = RunningMean(high - low), None
        if share is not None:
            self._contrast = Contrast(share, high - low, ratio=1.0 if ratio is None else self.limit)
        self._breached = False

    def add(self, control: Any, value: Any) -> None:
        """Count a decision, or several in the order in which they were asked for.

        Parameters
        ----------
        control : bool or sequence of bool
            Whether it was the control's.
        value : float or sequence of float
            Its second number.
        """
        low, high = self.value_range
        values = as_values("value", value, low, high)
        controls = as_groups(control, values.size)
        values = high - values if self.falls else values - low
        if self._contrast is not None:
            self._contrast.add(controls, values)
        self._mean.add(values[~controls])
        self._breached = self._breached or self._is_beyond()

    def _is_beyond(self) -> bool:
        """Whether the limit is broken for certain."""
        low, high = self.value_range
        if self.kind == "most":
            return self._mean.exceeds(self.alpha, max(high - self.limit if self.falls else self.limit - low, 0.0))
        assert self._contrast is not None
        return self._contrast.exceeds(self.alpha, 0.0 if self.kind == "ratio" else self.limit)

    @property
    def _excess(self) -> float:
        """A lower bound that holds with probability 1 - `alpha`, counted from the good end of the range."""
        if self.kind == "most":
            return self._mean.bound(self.alpha)
        assert self._contrast is not None
        return self._contrast.bound(self.alpha)

    @property
    def breached(self) -> bool:
        """Whether the alarm has gone off."""
        return self._breached

    def _mean_of(self, mean: float) -> float:
        low, high = self.value_range
        return high - mean if self.falls else low + mean

    @property
    def policy_mean(self) -> float:
        """The mean of the policy's decisions; nan before the first."""
        return self._mean_of(self._mean.total / self._mean.count) if self._mean.count else math.nan

    @property
    def control_mean(self) -> float:
        """The mean of the control's decisions; nan before the first, or without a control."""
        return math.nan if self._contrast is None else self._mean_of(self._contrast.control_mean)

    def to_arrays(self) -> dict[str, NDArray[np.float64]]:
        """Return what has been counted, for a file."""
        parts = {"mean": self._mean.to_arrays()}
        if self._contrast is not None:
            parts["contrast"] = self._contrast.to_arrays()
        found = {f"{part}.{name}": array for part, arrays in parts.items() for name, array in arrays.items()}
        return {**found, "breached": np.array([float(self._breached)])}

    def restore(self, arrays: dict[str, NDArray[Any]]) -> None:
        """Take back what `to_arrays` returned, if it can be.

        Examples
        --------
        >>> guardrail, other = Guardrail(most=0.02), Guardrail(most=0.02)
        >>> guardrail.add(False, 1.0)
        >>> other.restore(guardrail.to_arrays())
        >>> other.policy_mean
        1.0
        """
        check_arrays("a guardrail", arrays, {"breached": (1,)})

        def part(prefix: str) -> dict[str, NDArray[Any]]:
            return {name.removeprefix(prefix): one for name, one in arrays.items() if name.startswith(prefix)}

        self._mean.restore(part("mean."))
        if self._contrast is not None:
            self._contrast.restore(part("contrast."))
        self._breached = bool(arrays["breached"][0])

    def __str__(self) -> str:
        least, most = ("most", "least") if self.falls else ("least", "most")
        found, wanted = self._excess, short(self.limit)
        what = short(self._mean_of(found))
        if self.kind != "most":
            times = f"{wanted} times the control's" if self.kind == "ratio" else "the control's"
            what, least = f"{short(found)} {'below' if self.falls else 'above'} {times}", "least"
            most, wanted = "most", "0" if self.kind == "ratio" else wanted
        sure = f"with {100 * (1 - self.alpha):g}% confidence at any time"
        start = "Alarm" if self.breached else "No alarm"
        return f"{start}: the policy's mean is at {least} {what} {sure}; at {most} {wanted} is allowed."
