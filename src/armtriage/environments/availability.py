"""Who is there in a round: eligible sets of a world, each a pure function of (seed, replication, round)."""

from __future__ import annotations

from abc import ABC, abstractmethod
from collections.abc import Iterable
from typing import Any

import numpy as np
from numpy.typing import ArrayLike, NDArray

from armtriage._arguments import LONGEST, as_numbers, check_arms, check_flag, check_per_arm
from armtriage.environments.tables import RewardTable
from armtriage.kernels.jit import kernel
from armtriage.kernels.order import kth_largest
from armtriage.kernels.random import uniform
from armtriage.kernels.record import Floats, Ints, Record

DRAWN, IN_TURN, APART = range(3)


class AvailabilityTable(Record, frozen=True):
    """What compiled code sees of an availability."""

    kind: int  # whether sets are drawn, come in turn, or each arm is there by itself
    starts: Ints  # (sets + 1,) where each set begins in `arms`
    arms: Ints  # the sets, one behind the other, each ascending
    shares: Floats  # (K,) of the rounds from `first` to `last`
    first: Ints  # (K,) the round in which an arm comes
    last: Ints  # (K,) and the last one that it is there


@kernel
def eligible_in(table: AvailabilityTable, luck: np.uint64, number: int, out: Ints) -> int:
    """Write the arms of round `number`, ascending, and return how many there are; all, if there would be none.

    The round's row of random numbers begins at `luck`; an arm's own are in its own column.
    """
    n, n_arms = 0, table.shares.size
    if table.kind == APART:
        for arm in range(n_arms):
            share = table.shares[arm]
            if table.first[arm] <= number <= table.last[arm] and (share >= 1.0 or uniform(luck, arm) < share):
                out[n] = arm
                n += 1
    else:
        sets = table.starts.size - 1
        place = number % sets
        if table.kind == DRAWN:
            place = min(int(uniform(luck, 0) * sets), sets - 1)
        for i in range(table.starts[place], table.starts[place + 1]):
            out[n] = table.arms[i]
            n += 1
    if n == 0:
        for arm in range(n_arms):
            out[arm] = arm
        n = n_arms
    return n


@kernel
def loss_among(table: RewardTable, among: Ints, arms: Ints, scratch: Floats) -> float:
    """Return what `arms` lose against the best eligible ones; exactly 0 for those.

    `scratch` has room for all eligible arms. Worths are whole numbers below 2^53, so that sums of them are exact.
    """
    for i in range(among.size):
        scratch[i] = table.worth[among[i]]
    if arms.size < among.size:
        kth_largest(scratch, among.size, arms.size)  # for its reordering, which puts the best first
    total = np.int64(0)
    for i in range(arms.size):
        total += np.int64(scratch[i]) - table.worth[arms[i]]
    return total * table.unit


class Availability(ABC):
    """Which arms of a world are eligible in a round; if a round would have none, all are.

    Examples
    --------
    >>> from armtriage import Availability, RandomRounds
    >>> isinstance(RandomRounds(0.5), Availability)
    True
    """

    @abstractmethod
    def table(self, n_arms: int) -> AvailabilityTable:
        """Return the view for compiled code; refuse what is not about so many arms."""

    def _is(self, n_arms: int, kind: int, **fields: NDArray[Any]) -> AvailabilityTable:
        none, always = np.zeros(0, np.int64), np.full(n_arms, LONGEST)
        own = {"starts": none, "arms": none, "shares": np.ones(n_arms), "first": always - LONGEST, "last": always}
        return AvailabilityTable(kind=kind, **{**own, **fields})


class Patterns(Availability):
    """One of some eligible sets in every round.

    Parameters
    ----------
    sets : iterable
        The arms of each set.
    in_turn : bool
        Whether the sets follow one another; by default one is drawn in each round, each as often as the others.

    Examples
    --------
    >>> from armtriage import Patterns, StochasticEnvironment
    >>> world = StochasticEnvironment([0.9, 0.5, 0.1], 3, availability=Patterns([[0, 1], [1, 2]], in_turn=True))
    >>> world.eligible(0), world.eligible(1), round(world.regret([2], 1), 6)
    (array([0, 1]), array([1, 2]), 0.4)
    """

    def __init__(self, sets: Iterable[ArrayLike], *, in_turn: bool = False) -> None:
        self.in_turn = check_flag("in_turn", in_turn)
        try:
            given = list(sets)
        except TypeError:
            raise TypeError(f"sets must be a list of sets of arms, got {sets!r}") from None
        if not given:
            raise ValueError("sets must have a set or more, got none")
        self.sets = tuple(np.sort(check_arms(one, 2**31, "sets", once=True)) for one in given)
        for one in self.sets:
            if not one.size:
                raise ValueError("sets must each have an arm or more, got an empty one")

    def table(self, n_arms: int) -> AvailabilityTable:
        """Return the view for compiled code."""
        for one in self.sets:
            if one[-1] >= n_arms:
                raise ValueError(f"sets must have arms in 0..{n_arms - 1}, got {one[-1]}")
        starts = np.cumsum([0, *(one.size for one in self.sets)])
        return self._is(n_arms, IN_TURN if self.in_turn else DRAWN, starts=starts, arms=np.concatenate(self.sets))

    def __repr__(self) -> str:
        return f"Patterns({len(self.sets)} sets, in_turn={self.in_turn})"


class RandomRounds(Availability):
    """Each arm by itself in a share of all rounds, at random.

    Parameters
    ----------
    share : float or array_like
        Above 0 and at most 1, for all arms or for each.

    Examples
    --------
    >>> from armtriage import RandomRounds, StochasticEnvironment
    >>> StochasticEnvironment([0.9, 0.5, 0.1], 3, availability=RandomRounds(0.5), seed=7).eligible(0)
    array([0])
    """

    def __init__(self, share: ArrayLike) -> None:
        self.share = np.array(as_numbers("share", share), np.float64)
        if self.share.ndim > 1 or not self.share.size:
            raise ValueError(f"share must be a number, or one for each arm, got shape {self.share.shape}")
        right = (self.share > 0) & (self.share <= 1)
        if not right.all():
            raise ValueError(f"share must lie above 0 and be at most 1, got {self.share[~right].flat[0]}")

    def table(self, n_arms: int) -> AvailabilityTable:
        """Return the view for compiled code."""
        if self.share.ndim and self.share.shape != (n_arms,):
            raise ValueError(f"share must be a number, or one for each of {n_arms} arms, got shape {self.share.shape}")
        return self._is(n_arms, APART, shares=np.broadcast_to(self.share, n_arms).copy())

    def __repr__(self) -> str:
        return f"RandomRounds({float(self.share)})" if not self.share.ndim else f"RandomRounds({self.share.size} arms)"


class Arrivals(Availability):
    """Each arm from a round on, and until a round: arms that are added on the way, and withdrawn.

    Parameters
    ----------
    first : array_like of int
        For each arm the round in which it comes, 0 for the beginning.
    last : array_like of int, optional
        For each arm the last round that it is there; by default they all stay.

    Examples
    --------
    >>> from armtriage import Arrivals, StochasticEnvironment
    >>> world = StochasticEnvironment([0.9, 0.5, 0.1], 3, availability=Arrivals([2, 0, 0], [9, 9, 1]))
    >>> world.eligible(1), world.eligible(2)
    (array([1, 2]), array([0, 1]))
    """

    def __init__(self, first: ArrayLike, last: ArrayLike | None = None) -> None:
        self.first = check_per_arm("first", first, np.size(first), whole=True)
        n_arms = self.first.size
        self.last = np.full(n_arms, LONGEST) if last is None else check_per_arm("last", last, n_arms, whole=True)
        for arm in np.flatnonzero(self.last < self.first)[:1]:
            raise ValueError(
                f"last must be no round before first, {self.first[arm]}, got {self.last[arm]} for arm {arm}"
            )

    def table(self, n_arms: int) -> AvailabilityTable:
        """Return the view for compiled code."""
        if self.first.size != n_arms:
            raise ValueError(f"first must have a round for each of {n_arms} arms, got {self.first.size}")
        return self._is(n_arms, APART, first=self.first, last=self.last)

    def __repr__(self) -> str:
        return f"Arrivals({self.first.size} arms)"
