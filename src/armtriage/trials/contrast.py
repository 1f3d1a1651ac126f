"""Contrast: how much more one of two groups earns, with an interval that holds at all times.

The proof needs a coin and nothing else: decision t goes to the control with probability p, drawn afresh. With m and k
the means of earlier decisions of the policy and of the control, X = m - k + (y - m) / (1 - p) for a decision of the
policy and X = m - k - (y - k) / p for one of the control have the mean that is asked for, whatever m and k are, since
these are known before the coin is thrown. `armtriage.kernels.betting` bounds the running mean of X, which needs a limit
to how far X falls below its centre: so m is cut at r B (1 - p) / p for the lower end, and k at B p / (r (1 - p)) for
the upper one, where B is the most that a decision earns and r multiplies what the control earns.
"""

from __future__ import annotations

import math
from typing import Any

import numpy as np
from numpy.typing import ArrayLike, NDArray

from armtriage._arguments import as_numbers, check_number, check_probability
from armtriage.intervals import confidence_interval
from armtriage.kernels.betting import BETS, margin
from armtriage.kernels.jit import kernel
from armtriage.kernels.record import Floats

_MISMATCH = 0.001  # probability with which a right share is ever taken for a wrong one
_LOW, _HIGH = range(2)


def running_mean_bound(values: ArrayLike, centres: ArrayLike, scale: float, alpha: float = 0.05) -> float:
    """Return what the mean of conditional means of `values` is at least, for all lengths at once.

    Parameters
    ----------
    values : array_like
        What was seen in each round.
    centres : array_like
        What was expected before each of them; any guess is valid, and a good one makes the bound tighter.
    scale : float
        No value is ever further than this below its centre.
    alpha : float
        Probability with which the bound may fail at any length.

    Notes
    -----
    The means may move from round to round, so bounds of different lengths are about different means, and are not to be
    intersected.

    Examples
    --------
    >>> values = [0.2, 0.4] * 500
    >>> round(running_mean_bound(values, [0.3] * 1000, scale=0.3), 2)
    0.29
    """
    seen, guesses = as_values("values", values), as_values("centres", centres)
    check_number("scale", scale, positive=True)
    check_probability("alpha", alpha)
    if seen.shape != guesses.shape or not seen.size:
        raise ValueError(
            f"centres must have one number for each of {seen.size} values, one or more, got {guesses.size}"
        )
    if (far := seen - guesses < -scale * (1.0 + 1e-9)).any():
        raise ValueError(f"values must be at most {scale:g} below their centres, got {seen[far][0]:g}")
    return margin(_bets_on(seen, guesses, scale), seen.size, scale, alpha)


def as_values(name: str, values: Any, low: float = -math.inf, high: float = math.inf) -> Floats:
    """Return a number or a list of them, finite and from `low` to `high`, as an array."""
    array = np.atleast_1d(as_numbers(name, values)).astype(np.float64)
    if array.ndim != 1:
        raise ValueError(f"{name} must be a number or a list of numbers, got an array of shape {array.shape}")
    wrong = ~(np.isfinite(array) & (array >= low) & (array <= high))
    if wrong.any():
        accepted = f"from {low:g} to {high:g}" if high < math.inf else "finite"
        raise ValueError(f"{name} must be {accepted}, got {array[wrong][0]:g}")
    return array


def as_groups(control: Any, size: int) -> NDArray[np.bool_]:
    """Return whether each of so many decisions was the control's, as an array."""
    groups = np.atleast_1d(np.asarray(control))
    if groups.dtype != np.bool_ or groups.shape != (size,):
        raise ValueError(f"control must be a boolean for each of {size} values, got {control!r}")
    return groups


def check_arrays(what: str, arrays: dict[str, NDArray[Any]], shapes: dict[str, tuple[int, ...]]) -> None:
    """Refuse arrays of a file that are not finite numbers of these shapes."""
    for name, shape in shapes.items():
        given = arrays.get(name)
        if given is None or given.shape != shape or given.dtype != np.float64 or not np.isfinite(given).all():
            raise ValueError(f"{name} of {what} must be {math.prod(shape)} finite numbers, got {given!r}")


class RunningMean:
    """The mean of one kind of decisions, with a bound below that holds at all times though it may move.

    Examples
    --------
    >>> mean = RunningMean(most=1.0)
    >>> mean.add(np.tile([0.2, 0.4], 500))
    >>> mean.count, round(mean.bound(0.05), 2)
    (1000, 0.29)
    """

    def __init__(self, most: float) -> None:
        self.most, self.count, self.total = most, 0, 0.0
        self._capital = np.zeros(BETS.size)

    def add(self, values: Floats) -> None:
        """Count values from 0 to `most`; each is expected to be what the earlier ones were."""
        self.total = _add_values(self._capital, BETS, self.most, self.count, self.total, values)
        self.count += values.size

    def bound(self, alpha: float) -> float:
        """Return what the mean is at least; it ever fails with probability `alpha`."""
        return max(margin(self._capital, self.count, self.most, alpha), 0.0) if self.count else 0.0

    def exceeds(self, alpha: float, value: float) -> bool:
        """Whether the bound is above a value from 0 on, as `bound` says, in less time."""
        return _is_above(self._capital, self.count * value / self.most, alpha)

    def to_arrays(self) -> dict[str, Floats]:
        """Return what has been counted, for a file."""
        return {"capital": self._capital.copy(), "sums": np.array([self.count, self.total])}

    def restore(self, arrays: dict[str, NDArray[Any]]) -> None:
        """Take back what `to_arrays` returned, if it can be."""
        check_arrays("a mean", arrays, {"capital": self._capital.shape, "sums": (2,)})
        count, total = arrays["sums"].tolist()
        if not (0.0 <= count <= 2.0**53 and count % 1.0 == 0.0 and 0.0 <= total <= count * self.most * (1.0 + 1e-9)):
            raise ValueError(f"sums of a mean must be a number of values and their sum, got {count}, {total}")
        self._capital[:], self.count, self.total = arrays["capital"], int(count), total


def _bets_on(values: Floats, centres: Floats, scale: float) -> Floats:
    """Return what is added to the capital of each bet by values that are at most `scale` below their centres."""
    gains = np.log1p(BETS[:, None] * np.maximum((values - centres) / scale, -1.0)).sum(axis=1)
    return gains + BETS * (centres.sum() / scale)  # type: ignore[no-any-return]


def _is_above(capital: Floats, worth: float, alpha: float) -> bool:
    """Whether bets have won more than chance lets them, after what they would win if a mean were just a value."""
    return bool(np.logaddexp.reduce(capital - BETS * worth) > math.log(BETS.size / alpha))


@kernel
def _add_values(capital: Floats, bets: Floats, most: float, count: int, total: float, values: Floats) -> float:
    """Count values, and return the new sum of all of them."""
    for i in range(values.size):
        centre = total / (count + 1.0 + i)
        gain = max((values[i] - centre) / most, -1.0)
        for j in range(bets.size):
            capital[j] += math.log1p(bets[j] * gain) + bets[j] * centre / most
        total += values[i]
    return total


@kernel
def _add(
    capital: Floats,
    sums: Floats,
    bets: Floats,
    share: float,
    most: float,
    ratio: float,
    controls: NDArray[np.bool_],
    values: Floats,
) -> None:
    """Count decisions: `sums` has the number and sum of the policy's, of the control's, and the sum of X."""
    least, top = ratio * most * (1.0 - share) / share, most * share / (ratio * (1.0 - share))
    down, up = ratio * most / share, most / (1.0 - share)
    for i in range(values.size):
        mean, other, value = sums[1] / (sums[0] + 1.0), sums[3] / (sums[2] + 1.0), values[i]
        cut_mean, cut_other = min(mean, least), min(other, top)
        if controls[i]:
            low, high = -ratio * (value - other) / share, -ratio * (value - cut_other) / share
            found = low
            sums[2] += 1.0
            sums[3] += value
        else:
            low, high = (value - cut_mean) / (1.0 - share), (value - mean) / (1.0 - share)
            found = high
            sums[0] += 1.0
            sums[1] += value
        sums[4] += mean - ratio * other + found
        below, above = cut_mean - ratio * other, mean - ratio * cut_other
        for j in range(bets.size):
            capital[0, j] += math.log1p(bets[j] * low / down) + bets[j] * below / down
            capital[1, j] += math.log1p(-bets[j] * high / up) - bets[j] * above / up


class Contrast:
    """How much more a decision of the policy earns than one of the control, with an interval at all times.

    It estimates the mean over all decisions so far of ``m - ratio c``, where m is what the decision earns on average if
    the policy makes it, and c if the control does, given everything before. Both may move: the policy may learn, the
    world may change, decisions may depend on the visitor. All that is needed is that each decision is the control's
    with probability `share`, by a coin of its own that nothing else depends on.

    Parameters
    ----------
    share : float
        Probability of the control.
    most : float
        What a decision earns at most; at least it earns 0.
    ratio : float
        What the control's rewards are multiplied with: 1.1 asks whether the policy is 10% better.
    alpha : float
        Probability with which the interval ever fails, half of it on each side.

    Examples
    --------
    >>> contrast = Contrast(share=0.5, most=1.0)
    >>> contrast.add([True, False] * 1000, [0.0, 1.0] * 1000)
    >>> contrast.low > 0.8, contrast.high
    (True, 1.0)
    >>> round(contrast.estimate, 2)
    1.0
    """

    def __init__(self, share: float, most: float, *, ratio: float = 1.0, alpha: float = 0.05) -> None:
        self.share = check_probability("share", share)
        self.most = check_number("most", most, positive=True)
        self.ratio = check_number("ratio", ratio, positive=True)
        self.alpha = check_probability("alpha", alpha)
        self._capital, self._sums = np.zeros((2, BETS.size)), np.zeros(5)
        self._one_control, self._one_value = np.zeros(1, np.bool_), np.zeros(1)  # for `add` of a single decision

    def add(self, control: Any, value: Any) -> None:
        """Count a decision, or several in the order in which they were asked for.

        Parameters
        ----------
        control : bool or sequence of bool
            Whether it was the control's.
        value : float or sequence of float
            What it earned, from 0 to `most`.
        """
        if isinstance(control, bool) and isinstance(value, float) and 0.0 <= value <= self.most:
            self._one_control[0], self._one_value[0] = control, value
            self._add(self._one_control, self._one_value)
            return
        values = as_values("value", value, 0.0, self.most)
        controls = as_groups(control, values.size)
        self._add(controls, values)

    def _add(self, controls: NDArray[np.bool_], values: Floats) -> None:
        _add(self._capital, self._sums, BETS, self.share, self.most, self.ratio, controls, values)

    @property
    def decisions(self) -> int:
        """How many decisions count."""
        return int(self._sums[0] + self._sums[2])

    @property
    def controls(self) -> int:
        """How many of them were the control's."""
        return int(self._sums[2])

    @property
    def policy_mean(self) -> float:
        """What a decision of the policy has earned; nan before the first."""
        return float(self._sums[1] / self._sums[0]) if self._sums[0] else math.nan

    @property
    def control_mean(self) -> float:
        """What a decision of the control has earned; nan before the first."""
        return float(self._sums[3] / self._sums[2]) if self._sums[2] else math.nan

    @property
    def estimate(self) -> float:
        """The contrast as it was estimated, nan before the first decision."""
        return float(self._sums[4]) / self.decisions if self.decisions else math.nan

    @property
    def low(self) -> float:
        """The lower end of the interval."""
        return self.bound(self.alpha / 2.0)

    @property
    def high(self) -> float:
        """The upper end of the interval."""
        return self.bound(self.alpha / 2.0, upper=True)

    def bound(self, alpha: float, *, upper: bool = False) -> float:
        """Return one end by itself, which ever fails with probability `alpha`.

        Examples
        --------
        >>> Contrast(share=0.5, most=2.0).bound(0.01)
        -2.0
        """
        least, most = -self.ratio * self.most, self.most
        if not self.decisions:
            return most if upper else least
        scale = self.most / (1.0 - self.share) if upper else self.ratio * self.most / self.share
        found = margin(self._capital[_HIGH if upper else _LOW], self.decisions, scale, alpha)
        return min(most, max(least, -found if upper else found))

    def exceeds(self, alpha: float, value: float = 0.0, *, upper: bool = False) -> bool:
        """Whether the lower end is above a value, or the upper end below it, as `bound` says, in less time.

        Examples
        --------
        >>> Contrast(share=0.5, most=2.0).exceeds(0.01)
        False
        """
        if upper:
            return _is_above(self._capital[_HIGH], -self.decisions * value * (1.0 - self.share) / self.most, alpha)
        return _is_above(self._capital[_LOW], self.decisions * value * self.share / (self.ratio * self.most), alpha)

    @property
    def share_ok(self) -> bool:
        """Whether the control's part of the decisions can be chance; a right share ever fails with probability 0.001.

        It does not where a client asks again under another id when it dislikes its group.
        """
        if not self.decisions:
            return True
        low, high = confidence_interval(self.decisions, self.controls, delta=_MISMATCH)
        return bool(low <= self.share <= high)

    def to_arrays(self) -> dict[str, NDArray[Any]]:
        """Return what has been counted, for a file."""
        return {"capital": self._capital.copy(), "sums": self._sums.copy()}

    def restore(self, arrays: dict[str, NDArray[Any]]) -> None:
        """Take back what `to_arrays` returned, if it can be."""
        check_arrays("a contrast", arrays, {"capital": self._capital.shape, "sums": self._sums.shape})
        rounds, earned = arrays["sums"][[0, 2]], arrays["sums"][[1, 3]]
        if np.any(rounds < 0.0) or np.any(rounds % 1.0 != 0.0) or np.any(rounds > 2.0**53):
            raise ValueError(f"numbers of decisions must be whole numbers from 0, got {rounds}")
        if np.any(earned < 0.0) or np.any(earned > rounds * self.most * (1.0 + 1e-9)):
            raise ValueError(f"sums must be from 0 to {self.most:g} a decision, got {earned} in {rounds}")
        self._capital[:], self._sums[:] = arrays["capital"], arrays["sums"]
