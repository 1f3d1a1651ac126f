"""Rewards as they are told: one for each arm that a decision reveals, or for some of them by name or number."""

from __future__ import annotations

import math
from collections.abc import Mapping
from typing import Any, NamedTuple

import numpy as np
from numpy.typing import ArrayLike

from armtriage._arguments import as_number, as_numbers, check_range, is_masked
from armtriage.arms import Roster
from armtriage.decisions import Decision
from armtriage.kernels.record import Floats, Ints


class AboveCap(NamedTuple):
    """What lay above the `cap` of a policy: how many rewards, by how much, and as a share of all that was told."""

    rewards: int = 0
    excess: float = 0.0
    share: float = 0.0


def capped(reward_range: tuple[float, float], cap: float) -> tuple[float, float]:
    """Return the range of rewards that are cut at a cap."""
    low, top = check_range(reward_range)[0], as_number("cap", cap)
    if not low < top < math.inf:
        raise ValueError(f"cap must be a finite number above the least reward, {low}, got {cap!r}")
    return low, top


def cut(values: Floats, cap: float) -> tuple[Floats, AboveCap]:
    """Return rewards as they count, and what of them lies above the cap."""
    excess = values[values > cap] - cap
    return np.minimum(values, cap), AboveCap(excess.size, float(excess.sum()))


class Told(NamedTuple):
    """What a decision is closed with."""

    number: int
    arms: Ints
    rewards: Floats  # on the unit scale
    known: int = 0  # how many, the first, were told before
    missing: Ints = np.zeros(0, np.int64)  # the arms whose rewards are lost
    unseen: bool = False  # whether these are not lost: the arms were not looked at


def from_array(rewards: ArrayLike, decision: Decision) -> Floats:
    """Return the rewards of all arms that a decision reveals, ascending by arm."""
    revealed = decision.revealed
    if type(rewards) is np.ndarray and rewards.dtype == np.float64 and rewards.shape == revealed.shape:
        found = rewards.copy()  # what most callers give needs no look at what else it might be
    else:
        if is_masked(rewards):
            raise ValueError("rewards has masked entries: tell {arm: reward} instead, without the arms that are masked")
        array = as_numbers("rewards", rewards)
        if array.shape != revealed.shape:
            raise ValueError(
                f"rewards must have one entry for each of the {revealed.size} revealed arms, got shape {array.shape}"
            )
        found = np.array(array, dtype=np.float64)
    return found if decision.order is None else found[np.argsort(revealed)]


def paired(arms: Any, rewards: Any, roster: Roster) -> dict[Any, float]:
    """Return rewards by the arms that they are of, both in the same order."""
    if isinstance(rewards, Mapping):
        raise TypeError(f"arms must be None beside a mapping of rewards, which names them, got {arms!r:.100}")
    found = roster.numbers(arms, "arms")
    values = as_numbers("rewards", rewards)
    if values.shape != found.shape:
        raise ValueError(f"rewards must have one entry for each of the {found.size} arms, got shape {values.shape}")
    return dict(zip(roster.named(found).tolist(), values.tolist(), strict=True))


def from_mapping(rewards: Mapping[Any, float], revealed: Ints, roster: Roster) -> tuple[Ints, Floats, Ints]:
    """Return the arms that are told, ascending, their rewards, and the revealed arms that are not."""
    if roster.names is not None:
        rewards = {roster.number(name, "rewards"): reward for name, reward in rewards.items()}
    for arm, reward in rewards.items():
        if isinstance(arm, bool) or not isinstance(arm, int | np.integer):
            raise TypeError(f"rewards must be keyed by arm numbers, got {arm!r}")
        if not isinstance(reward, int | float | np.integer | np.floating | np.bool_):
            raise TypeError(f"rewards must be numbers, got {reward!r} for {roster.said(int(arm))}")
        if not revealed.size or not 0 <= arm <= revealed[-1]:
            raise ValueError(f"rewards has {roster.said(int(arm))}, which the decision does not reveal")
    arms = np.array(sorted(rewards), dtype=np.int64)
    places = revealed.searchsorted(arms)
    if not np.array_equal(revealed[places], arms):
        stranger = arms[revealed[places] != arms][0]
        raise ValueError(f"rewards has {roster.said(stranger)}, which the decision does not reveal")
    missing = np.ones(revealed.size, bool)
    missing[places] = False
    return arms, np.array([_as_float(rewards[arm]) for arm in arms.tolist()]), revealed[missing]


def _as_float(reward: float) -> float:
    """Return the reward; an int that no float can hold is infinite, and out of every range."""
    try:
        return float(reward)
    except OverflowError:
        return math.inf if reward > 0 else -math.inf
