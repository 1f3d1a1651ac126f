"""What arguments must be: each check returns the value in its canonical form, or says what is accepted."""

from __future__ import annotations

import math
import sys
from collections.abc import Collection, Iterable
from numbers import Real
from typing import Any, TypeVar

import numpy as np
from numpy.typing import ArrayLike, NDArray

from armtriage.kernels.jit import kernel
from armtriage.kernels.order import inner
from armtriage.kernels.record import Floats, Ints

LARGEST = 2**31 - 1
"""The most arms, or nodes: they are numbered in 32 bits."""

LONGEST = 2**53
"""The longest horizon: rounds up to here are exact as floating-point numbers."""

DIRECTIONS = ("maximize", "minimize")
"""What may be wanted of what is told: much of rewards, or little of costs."""

FARTHEST = 1e100
"""The largest reward: widths of ranges, and sums over a longest horizon, stay far from infinity."""

Kind = TypeVar("Kind")


def check_kind(name: str, value: Kind, kind: type[Any]) -> Kind:
    """Return `value` if it is an instance of `kind`."""
    if not isinstance(value, kind):
        raise TypeError(f"{name} must be a {kind.__name__}, got {type(value).__name__}")
    return value


def check_choice(name: str, value: str, choices: Collection[str]) -> str:
    """Return `value` if it is one of `choices`."""
    if not isinstance(value, str) or value not in choices:
        raise ValueError(f"{name} must be one of {', '.join(choices)}, got {value!r}")
    return value


def check_flag(name: str, value: bool) -> bool:
    """Return `value`, True or False."""
    if not isinstance(value, bool | np.bool_):
        raise TypeError(f"{name} must be True or False, got {value!r}")
    return bool(value)


def check_count(name: str, value: int, least: int = 0, most: int = 2**63 - 1, *, also: str = "") -> int:
    """Return `value` as a whole number from `least` to `most`; a float is refused, even if it is whole."""
    accepted = f"{name} must be a whole number from {least}{also}, got {value!r}"
    if isinstance(value, bool) or not isinstance(value, int | np.integer):
        raise TypeError(accepted)
    if value < least:
        raise ValueError(accepted)
    if value > most:
        raise ValueError(f"{name} must be at most {most}, got {value!r}")
    return int(value)


def check_whole(name: str, value: float, least: int, most: int) -> int:
    """Return `value` as a whole number from `least` to `most`; a float is fine if it is whole."""
    accepted = f"a whole number from {least} to {most}"
    number = as_number(name, value, accepted)
    if not least <= number <= most or number != int(number):
        raise ValueError(f"{name} must be {accepted}, got {value!r}")
    return int(value)


def check_horizon(horizon: int | None) -> int | None:
    """Return the horizon, a whole number from 1, or None."""
    return None if horizon is None else check_count("horizon", horizon, 1, LONGEST, also=" or None")


def as_number(name: str, value: float, accepted: str = "a number") -> float:
    """Return `value` as a float, which may be infinite or nan; `accepted` ends the message of a refusal."""
    if isinstance(value, bool) or not isinstance(value, Real):
        raise TypeError(f"{name} must be {accepted}, got {value!r}")
    try:
        return float(value)
    except OverflowError:
        return math.inf if value > 0 else -math.inf


def check_number(name: str, value: float, positive: bool = False) -> float:
    """Return `value` as a finite float from 0, or above 0."""
    accepted = "a positive number" if positive else "a finite number from 0"
    number = as_number(name, value, accepted)
    if not 0.0 <= number < np.inf or (positive and number == 0.0):
        raise ValueError(f"{name} must be {accepted}, got {value!r}")
    return number


def check_optional(name: str, value: float | None) -> float | None:
    """Return `value` as a finite float from 0, or None."""
    return None if value is None else check_number(name, value)


def check_between(name: str, value: float, most: float, positive: bool = False) -> float:
    """Return `value` as a float from 0, or above 0, to `most`."""
    accepted = f"a number from 0 to {most:g}"
    number = as_number(name, value, accepted)
    if not 0.0 <= number <= most:
        raise ValueError(f"{name} must be {accepted}, got {value!r}")
    if positive and number == 0.0:
        raise ValueError(f"{name} must lie above 0 and be at most {most}, got {value!r}")
    return number


def check_probability(name: str, value: float) -> float:
    """Return `value` as a float strictly between 0 and 1."""
    number = as_number(name, value, "a number strictly between 0 and 1")
    if not 0.0 < number < 1.0:
        raise ValueError(f"{name} must be a number strictly between 0 and 1, got {value!r}")
    return number


def check_ridge(ridge: float) -> float:
    """Return the weight of the penalty, from 1e-100 to 1e100."""
    value = check_number("ridge", ridge, positive=True)
    if not 1e-100 <= value <= 1e100:
        raise ValueError(f"ridge must lie in [1e-100, 1e100], got {ridge!r}")
    return value


def check_range(reward_range: tuple[float, float]) -> tuple[float, float]:
    """Return the range of rewards as two floats from -1e100 to 1e100, the smaller first."""
    message = f"reward_range must be two finite numbers, the smaller first, got {reward_range!r}"
    try:
        ends = [float(end) for end in reward_range]
    except (TypeError, ValueError):
        raise TypeError(message) from None
    except OverflowError:
        raise ValueError(message) from None
    if len(ends) != 2 or not -np.inf < ends[0] < ends[1] < np.inf:
        raise ValueError(message)
    if max(-ends[0], ends[1]) > FARTHEST:
        raise ValueError(f"reward_range must lie within [-{FARTHEST:g}, {FARTHEST:g}], got {reward_range!r}")
    return ends[0], ends[1]


def is_masked(value: object) -> bool:
    """Whether something in an array is masked; where `numpy.ma` was not imported, it cannot be."""
    return "numpy.ma" in sys.modules and isinstance(value, np.ma.MaskedArray) and bool(np.ma.is_masked(value))


def as_array(name: str, value: object, where: str = "") -> NDArray[Any]:
    """Return `value` as an array of whatever it holds, none of it masked; `where` ends the message of a refusal."""
    if is_masked(value):
        raise ValueError(f"{name} must have no masked entries, got {value!r:.100}{where}")
    try:
        return np.asarray(value)
    except ValueError as error:
        raise ValueError(f"{name} must be an array of numbers, got rows of different lengths{where}") from error


def as_numbers(name: str, value: object, where: str = "", kinds: str = "biuf") -> NDArray[Any]:
    """Return `value` as an array of real numbers, of these kinds of NumPy's; `where` ends the message of a refusal."""
    array = as_array(name, value, where)
    if array.dtype.kind not in kinds:
        raise TypeError(f"{name} must be an array of numbers, got {value!r:.100}{where}")
    return array


def as_matrix(name: str, value: Any) -> Any:
    """Return a matrix of real numbers: a SciPy sparse one as it is, anything else as an array."""
    from scipy.sparse import issparse

    matrix: Any = value if issparse(value) else as_array(name, value)
    if matrix.dtype.kind not in "biuf":
        raise TypeError(f"{name} must hold real numbers, got {matrix.dtype}")
    return matrix


def whole_numbers(name: str, values: object) -> NDArray[Any]:
    """Return an array of whole numbers, of whatever number type; floats are fine if they are whole."""
    array = as_numbers(name, values, kinds="iuf")
    if array.dtype.kind == "f":
        wrong = array[~(np.isfinite(array) & (array == np.floor(array)))]
        if wrong.size:
            raise ValueError(f"{name} must be whole numbers, got {wrong[0]}")
    return array


def check_within(name: str, array: NDArray[Any], least: int, most: int) -> Ints:
    """Return the whole numbers of an array as int64, all from `least` to `most`."""
    if array.size and not (array.min() >= least and array.max() <= most):
        wrong = array[(array < least) | (array > most)][0]
        raise ValueError(f"{name} must be from {least} to {most}, got {wrong}")
    return array.astype(np.int64)


def check_each(name: str, values: NDArray[Any], right: NDArray[np.bool_], accepted: str) -> None:
    """Refuse the values, one for each arm, if any of them is not right: the message names the first such arm."""
    if not right.all():
        arm = int(np.argmin(right))
        raise ValueError(f"{name} must {accepted}, got {values[arm]} for arm {arm}")


def check_per_arm(name: str, values: object, n_arms: int, whole: bool = False) -> NDArray[Any]:
    """Return a finite float for each arm, or with `whole` a whole number from 0, as int64."""
    array = as_numbers(name, values)
    if array.shape != (n_arms,) or not n_arms:
        raise ValueError(f"{name} must be a list with a number for each of {n_arms or 1} arms, got shape {array.shape}")
    right = (array >= 0) & (array == np.floor(array)) & (array < LONGEST) if whole else np.isfinite(array)
    for arm in np.flatnonzero(~right)[:1]:
        accepted = "whole numbers from 0" if whole else "finite"
        raise ValueError(f"{name} must be {accepted}, got {array[arm].item()!r} for arm {arm}")
    return array.astype(np.int64 if whole else np.float64)


def check_arms(arms: ArrayLike, n_arms: int, name: str = "arms", once: bool = False) -> Ints:
    """Return `arms` as an int64 array of arms in range, with `once` all different."""
    array = np.atleast_1d(np.asarray(arms))
    if array.ndim != 1 or (array.size and array.dtype.kind not in "iu"):
        raise TypeError(f"{name} must be a list of whole numbers, got {arms!r}")
    if array.size and (array.min() < 0 or array.max() >= n_arms):
        raise ValueError(f"{name} must lie in 0..{n_arms - 1}, got {arms!r}")
    if once and np.unique(array).size != array.size:
        raise ValueError(f"{name} must name each arm once, got {arms!r:.100}")
    return np.ascontiguousarray(array, dtype=np.int64)


def check_edges(n_arms: int, edges: Any) -> Ints:
    """Return the edges of a feedback graph, none or more, as pairs of arms of shape (m, 2)."""
    if not isinstance(edges, np.ndarray):
        if isinstance(edges, str) or not isinstance(edges, Iterable):
            raise TypeError(f"edges must be pairs of arms, got {edges!r}")
        edges = list(edges)
    pairs = whole_numbers("edges", edges)
    if pairs.size == 0:
        return np.empty((0, 2), np.int64)
    if pairs.ndim != 2 or pairs.shape[1] != 2:
        raise ValueError(f"edges must be pairs of arms, of shape (m, 2), got shape {pairs.shape}")
    return check_within("edges", pairs, 0, n_arms - 1)


def check_pairs(edges: Any, first: int, second: int) -> Ints:
    """Return the edges that are arms, one or more, as pairs of shape (m, 2) from 0 to below `first` and `second`."""
    try:
        pairs = np.asarray(edges if isinstance(edges, np.ndarray) else list(edges))
    except (TypeError, ValueError):
        raise TypeError(f"edges must be pairs of whole numbers, got {edges!r}") from None
    if pairs.ndim != 2 or pairs.shape[1] != 2 or not pairs.size:
        raise ValueError(f"edges must be one or more pairs, of shape (m, 2), got shape {pairs.shape}")
    if pairs.dtype.kind not in "iu":
        raise TypeError(f"edges must be pairs of whole numbers, got {pairs.dtype}")
    wrong = ((pairs < 0) | (pairs >= (first, second))).any(axis=1)
    if wrong.any():
        shown = tuple(pairs[np.argmax(wrong)].tolist())
        raise ValueError(f"edges must be pairs from (0, 0) to ({first - 1}, {second - 1}), got {shown}")
    return pairs.astype(np.int64)


@kernel
def _first_longer(contexts: Floats, bound: float) -> int:
    """Return the first row whose norm is not at most `bound`; the number of rows if there is none."""
    most = bound * (1.0 + 1e-6)  # room for vectors that were normalised in single precision
    for row in range(contexts.shape[0]):
        if not inner(contexts[row], contexts[row]) <= most * most:
            return row
    return int(contexts.shape[0])


def check_contexts(contexts: ArrayLike, n_arms: int, dimension: int, bound: float) -> Floats:
    """Return `contexts` as an array (n_arms, dimension) of finite numbers, with rows of norm at most `bound`."""
    array = as_numbers("contexts", contexts)
    if array.shape != (n_arms, dimension):
        raise ValueError(f"contexts must have shape ({n_arms}, {dimension}), one row for each arm, got {array.shape}")
    # Writeable, or every kernel would be compiled again for arrays that are not.
    array = np.require(array, np.float64, ["C", "A", "W"])
    arm = int(_first_longer(array, bound))
    if arm < n_arms:
        accepted = f"contexts must be finite, with norms of at most {bound} (context_bound)"
        raise ValueError(f"{accepted}, got a norm of {math.hypot(*array[arm])} for arm {arm}")
    return array
