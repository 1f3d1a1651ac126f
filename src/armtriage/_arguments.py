"""What arguments must be: each check returns the value in its canonical form, or says what is accepted."""

from __future__ import annotations

import math
from typing import Any

import numpy as np
from numpy.typing import ArrayLike, NDArray

from armtriage.kernels.inner import inner
from armtriage.kernels.jit import kernel

__all__ = [
    "LONGEST",
    "as_numbers",
    "check_arms",
    "check_choice",
    "check_contexts",
    "check_count",
    "check_flag",
    "check_horizon",
    "check_number",
    "check_optional",
    "check_probability",
    "check_range",
    "check_ridge",
    "first_longer",
]

LONGEST = 2**53
"""The longest horizon: rounds up to here are exact as floating-point numbers."""


def check_arms(arms: ArrayLike, n_arms: int, name: str = "arms") -> NDArray[np.int64]:
    """Return `arms` as an int64 array of arms in range."""
    array = np.atleast_1d(np.asarray(arms))
    if array.ndim != 1 or (array.size and array.dtype.kind not in "iu"):
        raise TypeError(f"{name} must be a list of whole numbers, got {arms!r}")
    if array.size and (array.min() < 0 or array.max() >= n_arms):
        raise ValueError(f"{name} must lie in 0..{n_arms - 1}, got {arms!r}")
    return np.ascontiguousarray(array, dtype=np.int64)


def as_numbers(name: str, value: object, where: str = "") -> NDArray[Any]:
    """Return `value` as an array of real numbers; `where` ends the message of a refusal."""
    try:
        array = np.asarray(value)
    except ValueError as error:
        raise ValueError(f"{name} must be an array of numbers, got rows of different lengths{where}") from error
    if array.dtype.kind not in "biuf":
        raise TypeError(f"{name} must be an array of numbers, got {value!r:.100}{where}")
    return array


@kernel
def first_longer(contexts: NDArray[np.float64], bound: float) -> int:
    """Return the first row whose norm is not at most `bound`; the number of rows if there is none."""
    limit = (bound * (1.0 + 1e-6)) ** 2  # room for vectors that were normalised in single precision
    for row in range(contexts.shape[0]):
        if not inner(contexts[row], contexts[row]) <= limit:
            return row
    return int(contexts.shape[0])


def check_contexts(contexts: ArrayLike, n_arms: int, dimension: int, bound: float) -> NDArray[np.float64]:
    """Return `contexts` as an array (n_arms, dimension) of finite numbers, with rows of norm at most `bound`."""
    array = as_numbers("contexts", contexts)
    if array.shape != (n_arms, dimension):
        raise ValueError(f"contexts must have shape ({n_arms}, {dimension}), a row an arm, got {array.shape}")
    # Writeable, or every kernel would be compiled anew for arrays that are not.
    array = np.require(array, np.float64, ["C", "A", "W"])
    arm = int(first_longer(array, bound))
    if arm < n_arms:
        accepted = f"contexts must be finite, with norms of at most {bound} (context_bound)"
        raise ValueError(f"{accepted}, got a norm of {math.hypot(*array[arm])} for arm {arm}")
    return array


def check_count(name: str, value: int, least: int = 0, most: int = 2**63 - 1) -> int:
    """Return `value` as a whole number from `least` to `most`."""
    if isinstance(value, bool) or not isinstance(value, int | np.integer):
        raise TypeError(f"{name} must be a whole number from {least}, got {value!r}")
    if value < least:
        raise ValueError(f"{name} must be a whole number from {least}, got {value!r}")
    if value > most:
        raise ValueError(f"{name} must be at most {most}, got {value!r}")
    return int(value)


def check_probability(name: str, value: float) -> float:
    """Return `value` as a float strictly between 0 and 1."""
    if isinstance(value, bool) or not isinstance(value, int | float | np.integer | np.floating):
        raise TypeError(f"{name} must be a number strictly between 0 and 1, got {value!r}")
    if not 0.0 < value < 1.0:
        raise ValueError(f"{name} must be a number strictly between 0 and 1, got {value!r}")
    return float(value)


def check_number(name: str, value: float, positive: bool = False) -> float:
    """Return `value` as a finite float from 0, or above 0."""
    accepted = "a positive number" if positive else "a finite number from 0"
    if isinstance(value, bool) or not isinstance(value, int | float | np.integer | np.floating):
        raise TypeError(f"{name} must be {accepted}, got {value!r}")
    if not 0.0 <= value < np.inf or (positive and value == 0.0):
        raise ValueError(f"{name} must be {accepted}, got {value!r}")
    return float(value)


def check_optional(name: str, value: float | None) -> float | None:
    """Return `value` as a finite float from 0, or None."""
    return None if value is None else check_number(name, value)


def check_flag(name: str, value: bool) -> bool:
    """Return `value`, True or False."""
    if not isinstance(value, bool | np.bool_):
        raise TypeError(f"{name} must be True or False, got {value!r}")
    return bool(value)


def check_horizon(horizon: int | None) -> int | None:
    """Return the horizon, a whole number from 1, or None."""
    if horizon is None:
        return None
    if isinstance(horizon, bool) or not isinstance(horizon, int | np.integer):
        raise TypeError(f"horizon must be a whole number from 1 or None, got {horizon!r}")
    if horizon < 1:
        raise ValueError(f"horizon must be a whole number from 1 or None, got {horizon!r}")
    return check_count("horizon", horizon, 1, LONGEST)


def check_choice(name: str, value: str, choices: tuple[str, ...]) -> str:
    """Return `value` if it is one of `choices`."""
    if value not in choices:
        raise ValueError(f"{name} must be one of {', '.join(choices)}, got {value!r}")
    return value


def check_range(reward_range: tuple[float, float]) -> tuple[float, float]:
    """Return the range of rewards as two finite floats, the smaller first."""
    message = f"reward_range must be two finite numbers, the smaller first, got {reward_range!r}"
    try:
        ends = [float(end) for end in reward_range]
    except (TypeError, ValueError):
        raise TypeError(message) from None
    if len(ends) != 2 or not -np.inf < ends[0] < ends[1] < np.inf:
        raise ValueError(message)
    return ends[0], ends[1]


def check_ridge(ridge: float) -> float:
    """Return the weight of the penalty, from 1e-100 to 1e100."""
    value = check_number("ridge", ridge, positive=True)
    if not 1e-100 <= value <= 1e100:
        raise ValueError(f"ridge must lie in [1e-100, 1e100], got {ridge!r}")
    return value
