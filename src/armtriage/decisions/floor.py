"""The logging floor: slots that are given to others at random, so that every eligible arm has a known probability."""

from __future__ import annotations

import math
from collections.abc import Mapping
from dataclasses import dataclass
from functools import lru_cache
from typing import Any, NamedTuple

import numpy as np

from armtriage._arguments import as_number, check_choice
from armtriage.kernels.record import Floats, Ints

FLOOR_ARMS = ("all", "open")
"""Which arms a logging floor exchanges: any, or those of which it is not certain whether they belong to the best."""

_ROLE = 0xF1008  # keeps the random numbers of floors apart from what else a seed may be used for


@dataclass(frozen=True)
class Falling:
    """A logging floor that falls with time: ``start / (n + 1) ** power`` in decision n.

    Over T decisions it costs at most ``start * T ** (1 - power) / (1 - power)`` swapped slots of each, so a share that
    goes to 0, and looks at every arm still grow without end. With powers up to 1/4 the intervals of any bandit keep
    shrinking (Liang and Bojinov, arXiv 2311.05794).

    Attributes
    ----------
    start : float
        The floor of the first decision, above 0 and below 1.
    power : float
        How fast it falls, above 0 and below 1.

    Examples
    --------
    >>> floor = Falling(0.1, power=0.25)
    >>> floor.at(0), floor.at(9999)
    (0.1, 0.01)
    """

    start: float
    power: float = 0.25

    def __post_init__(self) -> None:
        for name in ("start", "power"):
            value = as_number(name, getattr(self, name), "a number above 0 and below 1")
            if not 0.0 < value < 1.0:
                raise ValueError(f"{name} must lie above 0 and below 1, got {getattr(self, name)!r}")
            object.__setattr__(self, name, value)

    def at(self, number: int) -> float:
        """Return the floor of a decision."""
        return float(self.start / (number + 1) ** self.power)

    def facts(self) -> dict[str, float]:
        """Return it as JSON knows it, and `as_floor` reads it."""
        return {"start": self.start, "power": self.power}


def as_floor(value: Any) -> float | Falling:
    """Return a logging floor: a number from 0 to below 1, or one that falls, also as JSON has it.

    Examples
    --------
    >>> as_floor({"start": 0.1, "power": 0.25})
    Falling(start=0.1, power=0.25)
    """
    if isinstance(value, Falling):
        return value
    if isinstance(value, Mapping):
        if not {"start"} <= set(value) <= {"start", "power"}:
            raise ValueError(f"logging_floor that falls must have start and power, got {', '.join(map(str, value))}")
        return Falling(**value)
    found = as_number("logging_floor", value, "a number from 0 to below 1, or a Falling")
    if not 0.0 <= found < 1.0:
        raise ValueError(f"logging_floor must lie in [0, 1), got {value!r}")
    return found


def check_floor(floor: Any, arms: Any, refused: str) -> tuple[float | Falling, str]:
    """Return a logging floor, and whose slots it may give to whom; `refused` says why there can be none."""
    found = as_floor(floor)
    if found and refused:
        raise NotImplementedError(f"logging_floor is for slates without contexts, got {floor!r} {refused}")
    if check_choice("floor_arms", arms, FLOOR_ARMS) != "all" and not found:
        raise ValueError(f'floor_arms must be "all" without a logging_floor, got {arms!r}')
    return found, arms


def floor_at(floor: float | Falling, number: int) -> float:
    """Return the floor of a decision."""
    return floor.at(number) if isinstance(floor, Falling) else floor


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
def law_of_swaps(slots: int, outsiders: int, floor: float) -> Floats:
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

    proposal: Ints
    floor: float
    outsiders: int
    open: Ints | None = None  # the arms that are exchanged, in the proposal or not; None for all

    @property
    def slots(self) -> int:
        """How many slots may be given to others."""
        return self.proposal.size if self.open is None else int(np.isin(self.proposal, self.open).sum())

    def inclusion(self, arms: Ints) -> Floats:
        """Return the probability with which each of some eligible arms is in the decision."""
        slots, held = self.slots, set(self.proposal.tolist())
        mean = swaps_of(slots, self.outsiders, self.floor).mean
        outside = mean / self.outsiders if self.outsiders else 0.0
        inside = 1.0 - mean / max(slots, 1)
        proposed = [arm in held for arm in arms.tolist()]  # of few arms faster than arrays are
        found = np.array([inside if one else outside for one in proposed])
        return found if self.open is None else np.where(np.isin(arms, self.open), found, np.where(proposed, 1.0, 0.0))

    def swap(self, arms: Ints, eligible: Ints, seed: int, number: int) -> Ints:
        """Return the arms of a decision, the proposal, after some slots were given to others."""
        if self.open is None:
            return swap(arms, eligible, self.floor, seed, number)
        held = np.isin(arms, self.open)
        return np.sort(np.append(arms[~held], swap(arms[held], self.open, self.floor, seed, number)))

    def over(self, proposed: Floats) -> Floats:
        """Return the probability of arms that are in the proposal with these probabilities."""
        mean = swaps_of(self.proposal.size, self.outsiders, self.floor).mean
        outside = mean / self.outsiders if self.outsiders else 0.0
        return proposed * (1.0 - mean / self.proposal.size) + (1.0 - proposed) * outside

    @property
    def least(self) -> float:
        """What no probability of an eligible arm is below, whatever the proposal is, if all arms are exchanged."""
        outside, inside = self.over(np.array([0.0, 1.0])).tolist()
        return float(min(inside, outside) if self.outsiders else inside)

    def observation(self, showing: Ints) -> float:
        """Return the probability that one of some eligible arms is in the decision."""
        if self.open is not None:
            exchanged = np.isin(showing, self.open)
            if np.isin(showing[~exchanged], self.proposal).any():
                return 1.0
            showing = showing[exchanged]
            if not showing.size:
                return 0.0
        inside = int(np.isin(showing, self.proposal).sum())
        return _seen(self.slots, self.outsiders, self.floor, inside, showing.size - inside)


@lru_cache(maxsize=4096)
def _seen(slots: int, others: int, floor: float, inside: int, outside: int) -> float:
    """Return the probability that one of so many arms of the proposal, or of so many others, is in the decision."""
    unseen = 0.0
    for swaps, chance in enumerate(law_of_swaps(slots, others, floor).tolist()):
        if swaps >= inside and others - outside >= swaps:
            gone = math.comb(slots - inside, swaps - inside) / math.comb(slots, swaps)
            unseen += chance * gone * math.comb(others - outside, swaps) / math.comb(others, swaps)
    return 1.0 - unseen


def swap(arms: Ints, eligible: Ints, floor: float, seed: int, number: int) -> Ints:
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
