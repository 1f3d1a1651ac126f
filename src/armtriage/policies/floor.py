"""The logging floor: slots that are given to others at random, so that every eligible arm has a known probability."""

from __future__ import annotations

import math
from functools import lru_cache
from typing import NamedTuple

import numpy as np
from numpy.typing import NDArray

__all__ = ["Swaps", "swaps_of"]


class Swaps(NamedTuple):
    """How many slots of a decision are given to outsiders: the mean, and the mean of the square."""

    mean: float
    square: float


@lru_cache(maxsize=4096)
def swaps_of(slots: int, outsiders: int, floor: float) -> Swaps:
    """Return the moments of a binomial number of slots, each with probability `floor`, cut at the outsiders.

    Examples
    --------
    >>> swaps_of(4, 9, 0.5), swaps_of(4, 1, 0.5)
    (Swaps(mean=2.0, square=5.0), Swaps(mean=0.9375, square=0.9375))
    """
    if outsiders >= slots:
        mean = slots * floor
        return Swaps(mean, mean * (1.0 - floor) + mean * mean)
    chances = law_of_swaps(slots, outsiders, floor)
    numbers = np.arange(chances.size)
    return Swaps(float(chances @ numbers), float(chances @ numbers**2))


@lru_cache(maxsize=4096)
def law_of_swaps(slots: int, outsiders: int, floor: float) -> NDArray[np.float64]:
    """Return the probabilities of 0, 1, ... swapped slots."""
    chances = [math.comb(slots, k) * floor**k * (1.0 - floor) ** (slots - k) for k in range(slots + 1)]
    most = min(slots, outsiders)
    return np.array([*chances[:most], math.fsum(chances[most:])])
