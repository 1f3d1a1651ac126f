"""Bound: a number that a theorem gives, with what it says and where it does not hold."""

from __future__ import annotations

import math
from collections.abc import Sequence
from typing import Any, NamedTuple

import numpy as np
from numpy.typing import ArrayLike

from armtriage._arguments import LONGEST, check_choice, check_count
from armtriage.intervals import kl
from armtriage.kernels.record import Floats
from armtriage.theory.numbers import CONSTANTS

divergence = np.vectorize(kl, otypes=[np.float64])
"""The divergence of Bernoulli laws, for arrays."""


class Bound(NamedTuple):
    """An upper or lower bound on regret.

    Attributes
    ----------
    name : str
        The function that made it.
    kind : str
        "upper" or "lower".
    constants : str
        "printed", those of the paper's proof, or "repaired", those that hold.
    value : float, ndarray or None
        The bound, an array if it was asked for several horizons. None where the conditions fail, nan if they fail for
        some of the horizons only.
    most : float or ndarray
        What any policy can lose at most: S T, or 2 S T if rewards lie in [-1, 1].
    statement : str
        What is bounded, and the theorem.
    reason : str
        Why there is no value, or none for some horizons; empty if all is well.

    Examples
    --------
    >>> from armtriage.theory import gap_upper
    >>> bound = gap_upper(n_arms=20, budget=4, alpha=20, horizon=1000, gap=0.2)
    >>> round(bound.value), bound.most, bound.vacuous
    (34915, 4000.0, True)
    """

    name: str
    kind: str
    constants: str
    value: Any
    most: Any
    statement: str
    reason: str = ""

    @property
    def vacuous(self) -> Any:
        """Whether an upper bound says nothing, because no policy can lose more than `most`."""
        if self.value is None:
            return False
        with np.errstate(invalid="ignore"):
            above = (np.asarray(self.value) >= self.most) & (self.kind == "upper")
        return above if above.ndim else bool(above)


def make_bound(
    name: str,
    kind: str,
    constants: str,
    statement: str,
    value: ArrayLike,
    most: ArrayLike,
    conditions: Sequence[tuple[Any, str]] = (),
) -> Bound:
    """Return the bound; each condition is where it holds and what it asks for."""
    failed = [asked for holds, asked in conditions if not np.all(holds)]
    holds = np.ones(np.shape(most), np.bool_)
    for one, _ in conditions:
        holds = holds & np.asarray(one)
    numbers = np.where(holds, np.asarray(value, np.float64), np.nan)
    reason = f"needs {' and '.join(failed)}" if failed else ""
    shown = None if not holds.any() else numbers if numbers.ndim else float(numbers)
    most = np.asarray(most, np.float64)
    return Bound(name, kind, constants, shown, most if most.ndim else float(most), statement, reason)


def as_horizons(horizon: ArrayLike, name: str = "horizon") -> Floats:
    """Return one or several horizons as floats; an array without dimensions for one."""
    array = np.asarray(horizon)
    if array.dtype.kind not in "iu" or not array.size:
        raise TypeError(f"{name} must be a whole number from 1, or an array of such, got {horizon!r:.100}")
    if array.min() < 1 or array.max() > LONGEST:
        raise ValueError(f"{name} must be whole numbers from 1 to {LONGEST}, got {horizon!r:.100}")
    return array.astype(np.float64)


def check_budget(n_arms: int, budget: int) -> tuple[int, int]:
    """Return the number of arms and the budget, at most as large."""
    n_arms = check_count("n_arms", n_arms, 1)
    return n_arms, check_count("budget", budget, 1, n_arms)


def check_gap(gap: float, name: str = "gap") -> float:
    """Return the gap, above 0; infinite if no decision is worse than the best."""
    if isinstance(gap, bool) or not isinstance(gap, int | float | np.integer | np.floating):
        raise TypeError(f"{name} must be a number above 0, got {gap!r}")
    if not gap > 0.0:
        raise ValueError(f"{name} must be a number above 0, got {gap!r}")
    return float(gap)


def check_constants(constants: str) -> str:
    """Return which constants are asked for."""
    return check_choice("constants", constants, CONSTANTS)


def at_least(name: str, number: Any, most: int) -> int:
    """Return a graph number from 1 to `most`, or the lower end of what brackets it."""
    return check_count(name, getattr(number, "lower", number), 1, most)


def two_point_regret(slope: float, information: float, gap: float, horizon: ArrayLike) -> Floats:
    """Return the R that solves ``R = slope ln(gap T / (8 R)) / information``.

    A policy that loses at most R on each of a family loses `slope` for each look at all alternatives. By the inequality
    of Bretagnolle and Huber each needs ``ln(gap T / (8 R)) / information`` looks, or is mistaken too often for R.
    """
    from scipy.special import lambertw

    rate = slope / information
    scaled: Any = gap * np.asarray(horizon, np.float64) / (8.0 * rate)
    return np.asarray(rate * lambertw(scaled).real, np.float64)


def pair_regret(pairs: int, gap: ArrayLike, base: float, horizon: ArrayLike, unit: float = 1.0) -> Floats:
    """Return ``(S gap / 4) (1 - q^T) / (1 - q)``, what is lost on average if one arm of each pair is better.

    Means are ``base`` and ``base + gap``, of coins that pay 0 or 1. With ``unit=0.5`` they pay -1 or 1.
    """
    step = np.asarray(gap, np.float64)
    low, high = 1.0 - unit + unit * base, 1.0 - unit + unit * (base + step)
    told = divergence(high, low) + divergence(low, high)
    return np.asarray(0.25 * pairs * step * np.expm1(-told * horizon) / np.expm1(-told))


def log_term(n_arms: int, horizon: Floats, delta: float) -> Floats:
    """Return ln(2 K T / delta), which every printed width holds."""
    return math.log(2.0 * n_arms / delta) + np.log(horizon)
