"""Bounds for linear contexts: Theorems 5 and 6."""

from __future__ import annotations

import math

import numpy as np
from numpy.typing import ArrayLike

from armtriage._arguments import check_choice, check_count, check_number, check_probability
from armtriage.theory.bounds.bound import (
    Bound,
    Floats,
    as_horizons,
    check_budget,
    check_constants,
    make_bound,
    pair_regret,
)

__all__ = ["linear_lower", "linear_upper"]

_SPREAD = {"tight": 12.0, "repaired": 16.0}
"""By how many units 2^-h the arms of stage h can differ."""
_TWO_POINT = math.sqrt(3.0 / 32.0)  # the mean that is hidden best among so many rewards, times their root
_BASE = 0.25
_GRID = 96


def linear_upper(
    *,
    n_arms: int,
    dimension: int,
    budget: int,
    horizon: ArrayLike,
    delta: float = 0.01,
    variant: str = "tight",
    noise_scale: float = 1.0,
    constants: str = "repaired",
) -> Bound:
    """Return the bound of Theorem 5 on the regret of `HierarchicalElimination`, of order sqrt(d S T) ln(T)^(5/2).

    It is ``s (sqrt(S T) + m H sqrt(10) ln(T + 1) (sqrt(d S T) + d S))`` for H stages, a width that is m times the norm
    of a context, and s = 16, or 12 if tight. No constant is printed, and a logarithm is missing there: the number of
    stages times that of the lemma on the potential. The ``"paper"`` variant has no bound, because its benchmark can
    eliminate one of the best arms.

    Parameters
    ----------
    n_arms, dimension, budget : int
        K, d and S.
    horizon : int or array of int
        T; several give an array of values.
    delta, variant, noise_scale
        Those of the policy. If tight, the bound holds with probability 1 - delta, if repaired, with 1 - H / T.
    constants : {"repaired", "printed"}
        The latter has no value.

    Examples
    --------
    >>> sizes = {"n_arms": 100, "dimension": 10, "budget": 5, "horizon": 10**6}
    >>> bound = linear_upper(**sizes)
    >>> round(bound.value), bound.vacuous
    (369145625, True)
    """
    n_arms, budget = check_budget(n_arms, budget)
    d, times = check_count("dimension", dimension, 1), as_horizons(horizon)
    delta, noise = check_probability("delta", delta), check_number("noise_scale", noise_scale)
    spread = _SPREAD[check_choice("variant", variant, tuple(_SPREAD))]
    stages = np.maximum(1.0, np.ceil(0.5 * np.log2(budget * times)))
    union = np.log(2.0 * n_arms * times)
    if variant == "tight":
        multiple = noise * np.sqrt(2.0 * (union + np.log(stages) - math.log(delta))) + 1.0
    else:
        multiple = 2.0 * (1.0 + np.sqrt(union))
    potential = math.sqrt(10.0) * np.log(times + 1.0) * (np.sqrt(d * budget * times) + d * budget)
    value = spread * (np.sqrt(budget * times) + multiple * stages * potential)
    asked = [(check_constants(constants) == "repaired", "a constant; none is printed")]
    chance = "1 - delta" if variant == "tight" else "1 - H / T"
    words = f"Theorem 5: with probability {chance}, the regret of HierarchicalElimination is at most this"
    return make_bound("linear_upper", "upper", constants, words, value, 2.0 * budget * times, asked)


def linear_lower(*, n_arms: int, dimension: int, budget: int, horizon: ArrayLike, constants: str = "repaired") -> Bound:
    """Return the bound of Theorem 6 on what every policy loses on some instance, of order sqrt(d S T).

    The largest of three: ``sqrt(S T)`` times sqrt(3/32) / 4 = 0.0765, for `linear_one_dimension`; the same for groups
    of arms, up to 0.0765 sqrt(min(d, S) S T), for `linear_few_dimensions`; and for d > 2S the sum over the tasks of
    `linear_blocks` of what `full_information_lower` gives for its pairs, about 0.11 sqrt(d S T), with the gap that
    makes it largest. Printed are ``sqrt(S T) / 3`` for d = 1, by a slip, and no constant for others.

    Parameters
    ----------
    n_arms, dimension, budget : int
        K, at least 2S, d and S.
    horizon : int or array of int
        T, at least 4 d S and d^3 / S; several give an array of values.
    constants : {"repaired", "printed"}
        Whose proof.

    Examples
    --------
    >>> linear_lower(n_arms=20, dimension=41, budget=5, horizon=[10**4, 10**6]).value.round(1)
    array([   nan, 1543.9])
    """
    n_arms, budget = check_budget(n_arms, budget)
    d, times = check_count("dimension", dimension, 1), as_horizons(horizon)
    asked = [
        (n_arms >= 2 * budget, "K >= 2 S"),
        (times >= max(4 * d * budget, d**3 / budget), "T >= 4 d S and d^3 / S"),
    ]
    if check_constants(constants) == "printed":
        asked += [(d == 1, "d = 1; no other constant is printed")]
        value = np.sqrt(budget * times) / 3.0
    else:
        groups = min(d, budget)
        arms = groups * (budget // groups)
        few = 0.25 * _TWO_POINT * arms * np.sqrt(groups * times / budget)
        value = np.maximum(
            np.maximum(0.25 * _TWO_POINT * np.sqrt(budget * times), few), _blocks_regret(d, budget, times)
        )
    words = "Theorem 6: on some instance the expected regret is at least this"
    return make_bound("linear_lower", "lower", constants, words, value, 2.0 * budget * times, asked)


def _blocks_regret(dimension: int, budget: int, times: Floats) -> Floats:
    """Return the sum over blocks for the best of a grid of gaps; the norm of theta, 1/8 + 2 n S gap^2, is at most 1."""
    blocks = (dimension - 1) // (2 * budget)
    if not blocks:
        return np.zeros(times.shape)
    length = np.floor(times / blocks)[..., np.newaxis]
    gaps = np.geomspace(1e-2, 4.0, _GRID) / np.sqrt(np.maximum(length, 1.0))
    gaps = np.minimum(gaps, min(math.sqrt(7.0 / (16.0 * blocks * budget)), 0.5))
    return np.asarray(blocks * pair_regret(budget, gaps, _BASE, length, unit=0.5).max(axis=-1))
