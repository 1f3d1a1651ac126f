"""The logging floor: slots that are given to others at random, so that every eligible arm has a known probability."""

from __future__ import annotations

import math
from functools import lru_cache
from typing import NamedTuple

import numpy as np
from numpy.typing import NDArray

_ROLE = 0xF1008  # keeps the random numbers of floors apart from what else a seed may be used for


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


class Floored(NamedTuple):
    """What was proposed before slots were given to others, with which probability each was, and to how many others.

    Examples
    --------
    >>> one = Floored(np.array([0, 1]), 0.2, 4)
    >>> one.inclusion(np.array([1, 5])).tolist()
    [0.8, 0.1]
    """

    proposal: NDArray[np.int64]
    floor: float
    outsiders: int

    def inclusion(self, arms: NDArray[np.int64]) -> NDArray[np.float64]:
        """Return the probability with which each of some eligible arms is in the decision."""
        slots = self.proposal.size
        mean = swaps_of(slots, self.outsiders, self.floor).mean
        outside = mean / self.outsiders if self.outsiders else 0.0
        return np.where(np.isin(arms, self.proposal), 1.0 - mean / slots, outside)

    def observation(self, showing: NDArray[np.int64]) -> float:
        """Return the probability that one of some eligible arms is in the decision."""
        slots, others = self.proposal.size, self.outsiders
        inside = int(np.isin(showing, self.proposal).sum())
        outside = showing.size - inside
        unseen = 0.0
        for swaps, chance in enumerate(law_of_swaps(slots, others, self.floor).tolist()):
            if swaps >= inside and others - outside >= swaps:
                gone = math.comb(slots - inside, swaps - inside) / math.comb(slots, swaps)
                unseen += chance * gone * math.comb(others - outside, swaps) / math.comb(others, swaps)
        return 1.0 - unseen


def swap(
    arms: NDArray[np.int64], eligible: NDArray[np.int64], floor: float, seed: int, number: int
) -> NDArray[np.int64]:
    """Return the arms of a decision after some slots were given to others; the same ones for the same number.

    Examples
    --------
    >>> swap(np.array([0, 1]), np.arange(4), 0.0, 7, 0), swap(np.array([0, 1]), np.arange(4), 0.9999, 7, 0)
    (array([0, 1]), array([2, 3]))
    """
    rng = np.random.default_rng([_ROLE, seed, number])
    slots = np.flatnonzero(rng.random(arms.size) < floor)
    if not slots.size:
        return arms
    others = np.setdiff1d(eligible, arms, assume_unique=True)
    count = min(slots.size, others.size)
    gone = slots[np.argsort(rng.random(slots.size))[:count]]
    new = others[np.argsort(rng.random(others.size))[:count]]
    return np.sort(np.concatenate([np.delete(arms, gone), new]))
