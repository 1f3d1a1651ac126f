"""Worlds that drift: the means of arms change with time, each a pure function of (seed, replication, round)."""

from __future__ import annotations

import copy
import math
from abc import ABC, abstractmethod
from collections.abc import Mapping

import numpy as np
from numpy.typing import ArrayLike

from armtriage._arguments import LONGEST, as_numbers, check_count, check_each, check_number, check_per_arm
from armtriage.environments.availability import AvailabilityTable
from armtriage.environments.protocol import cached_stream
from armtriage.environments.stochastic import StochasticEnvironment
from armtriage.environments.tables import RewardTable
from armtriage.kernels.jit import kernel
from armtriage.kernels.normal import normal
from armtriage.kernels.random import row
from armtriage.kernels.record import Floats, Ints

_KEPT = 64  # stretches whose tables are remembered: a round of each replication that is being played
_FIRST_STRETCHES = 64


@kernel
def _walk(path: Floats, luck: np.uint64, step: float, low: float, high: float) -> None:
    """Fill the rows behind the first: each is the one before and a normal step, thrown back at both ends."""
    width = high - low
    for stretch in range(1, path.shape[0]):
        place = row(luck, stretch)
        for arm in range(path.shape[1]):
            moved = path[stretch - 1, arm] + step * normal(place, arm) - low
            moved -= 2.0 * width * math.floor(moved / (2.0 * width))
            path[stretch, arm] = min(high, max(low, low + width - abs(moved - width)))


class Drift(ABC):
    """How means change: time is cut into stretches of rounds in which they are constant.

    Examples
    --------
    >>> from armtriage import Drift, Walk
    >>> isinstance(Walk(0.01), Drift)
    True
    """

    random = False
    """Whether every replication has a path of its own."""

    @abstractmethod
    def stretch(self, round: int) -> int:
        """Return the number of the stretch that a round belongs to."""

    @abstractmethod
    def end(self, round: int) -> int:
        """Return the first round after that stretch."""

    @abstractmethod
    def path(self, start: Floats, stretches: int, luck: np.uint64, span: tuple[float, float]) -> Floats:
        """Return the means of the first stretches, a row each, of arms that have the means `start` in a still world."""

    def check(self, world: StochasticEnvironment) -> None:  # noqa: B027 - most fit any world
        """Refuse what does not fit the arms of a world."""


class Jump(Drift):
    """Other means from some rounds on.

    Parameters
    ----------
    means : mapping
        The mean of every arm, by the round from which on it holds.

    Examples
    --------
    >>> from armtriage import DriftingEnvironment, Jump, StochasticEnvironment
    >>> world = DriftingEnvironment(StochasticEnvironment([0.9, 0.5], 2, seed=7), Jump({100: [0.4, 0.5]}))
    >>> world.means(99), world.means(100), round(world.regret([0], 100), 6)
    (array([0.9, 0.5]), array([0.4, 0.5]), 0.1)
    """

    def __init__(self, means: Mapping[int, ArrayLike]) -> None:
        if not isinstance(means, Mapping) or not means:
            raise TypeError(f"means must be {{round: means of all arms}}, got {means!r:.100}")
        rounds = sorted(check_count("means", one, 1, LONGEST) for one in means)
        self.rounds = np.array(rounds, np.int64)
        self.after = [np.array(as_numbers("means", means[one]), np.float64) for one in rounds]

    def stretch(self, round: int) -> int:
        """Return the number of the stretch that a round belongs to."""
        return int(np.searchsorted(self.rounds, round, side="right"))

    def end(self, round: int) -> int:
        """Return the first round after that stretch."""
        place = self.stretch(round)
        return int(self.rounds[place]) if place < self.rounds.size else LONGEST

    def path(self, start: Floats, stretches: int, luck: np.uint64, span: tuple[float, float]) -> Floats:
        """Return the means of the first stretches."""
        return np.array([start, *self.after])

    def check(self, world: StochasticEnvironment) -> None:
        """Refuse means that are not those of the world's arms."""
        low, high = world.reward_range
        for number, one in zip(self.rounds.tolist(), self.after, strict=True):
            if one.shape != (world.n_arms,):
                raise ValueError(f"means must have a mean for each of {world.n_arms} arms, got {one.shape} at {number}")
            check_each("means", one, (one >= low) & (one <= high), f"lie in [{low:g}, {high:g}]")

    def __repr__(self) -> str:
        return f"Jump(at {', '.join(map(str, self.rounds[:8].tolist()))}{', ...' if self.rounds.size > 8 else ''})"


class Walk(Drift):
    """Every arm by itself moves by a normal step now and then, and is thrown back at the ends of the range of rewards.

    Parameters
    ----------
    step : float
        Standard deviation of a step, in units of rewards.
    every : int
        Rounds from one step to the next.

    Examples
    --------
    >>> from armtriage import DriftingEnvironment, StochasticEnvironment, Walk
    >>> world = DriftingEnvironment(StochasticEnvironment([0.9, 0.5], 2, seed=7), Walk(0.05, every=10))
    >>> world.means(9), world.means(10).round(3), world.means(10, replication=1).round(3)
    (array([0.9, 0.5]), array([0.921, 0.48 ]), array([0.892, 0.562]))
    """

    random = True

    def __init__(self, step: float, every: int = 100) -> None:
        self.step = check_number("step", step, positive=True)
        self.every = check_count("every", every, 1, LONGEST)

    def stretch(self, round: int) -> int:
        """Return the number of the stretch that a round belongs to."""
        return round // self.every

    def end(self, round: int) -> int:
        """Return the first round after that stretch."""
        return round - round % self.every + self.every

    def path(self, start: Floats, stretches: int, luck: np.uint64, span: tuple[float, float]) -> Floats:
        """Return the means of the first stretches."""
        path = np.empty((stretches, start.size))
        path[0] = start
        _walk(path, luck, self.step, *span)
        return path

    def __repr__(self) -> str:
        return f"Walk({self.step}, every={self.every})"


class Season(Drift):
    """Means that rise and fall, as they do with the hour or the time of the year: a sine around those of a still world.

    Parameters
    ----------
    swing : float or array_like
        By how much the means of all arms, or of each, rise and fall at most, in units of rewards; where they would
        leave the range of rewards, they stay at its end.
    period : int
        Rounds until everything is as it was.
    phase : array_like, optional
        For each arm, the part of a period that it is ahead; by default the arms are spread evenly over the period.
    every : int, optional
        Rounds in which means stay the same; by default a hundredth of the period.

    Examples
    --------
    >>> from armtriage import DriftingEnvironment, Season, StochasticEnvironment
    >>> still = StochasticEnvironment([0.5, 0.5], 2, seed=7)
    >>> world = DriftingEnvironment(still, Season(0.2, period=1000))
    >>> world.means(250).round(3), world.means(750).round(3)
    (array([0.7, 0.3]), array([0.3, 0.7]))
    """

    def __init__(
        self, swing: ArrayLike, period: int, *, phase: ArrayLike | None = None, every: int | None = None
    ) -> None:
        self.swing = np.array(as_numbers("swing", swing), np.float64)
        if self.swing.ndim > 1 or not np.isfinite(self.swing).all():
            raise ValueError(f"swing must be a number, or one for each arm, got {swing!r:.100}")
        self.period = check_count("period", period, 2, LONGEST)
        self.phase = None if phase is None else check_per_arm("phase", phase, np.size(phase))
        self.every = max(1, self.period // 100) if every is None else check_count("every", every, 1, self.period)

    def stretch(self, round: int) -> int:
        """Return the number of the stretch that a round belongs to."""
        return round % self.period // self.every

    def end(self, round: int) -> int:
        """Return the first round after that stretch."""
        within = round % self.period
        return round - within + min(within - within % self.every + self.every, self.period)

    def path(self, start: Floats, stretches: int, luck: np.uint64, span: tuple[float, float]) -> Floats:
        """Return the means of the first stretches."""
        times = np.arange(0, self.period, self.every) / self.period
        phase = np.arange(start.size) / start.size if self.phase is None else self.phase
        return np.clip(start + self.swing * np.sin(2.0 * np.pi * (times[:, None] + phase)), *span)

    def check(self, world: StochasticEnvironment) -> None:
        """Refuse what is not for the world's arms."""
        for name in ("swing", "phase"):
            given = getattr(self, name)
            if given is not None and given.ndim and given.shape != (world.n_arms,):
                raise ValueError(f"{name} must have a number for each of {world.n_arms} arms, got shape {given.shape}")

    def __repr__(self) -> str:
        swing = float(self.swing) if not self.swing.ndim else f"{self.swing.size} arms"
        return f"Season({swing}, period={self.period}, every={self.every})"


class DriftingEnvironment:
    """A world whose means change; regret counts against the best decision of each round.

    Random numbers are those of the still world: an arm's reward in a round comes from the same one, and only its mean
    differs. No certificate holds here, since all of them take means to be constant.

    Parameters
    ----------
    world : StochasticEnvironment
        The world as it is at first, with its arms, law of rewards, seed, `decisions` and `availability`; any law but
        ``"sampled"``.
    drift : Drift
        How means change: `Jump`, `Walk` or `Season`.

    Attributes
    ----------
    n_arms, graph, decisions, availability, reward_range, direction, seed
        Those of the still world.

    Examples
    --------
    >>> from armtriage import CombUCB1, DriftingEnvironment, Jump, StochasticEnvironment, simulate
    >>> still = StochasticEnvironment([0.9, 0.5, 0.1], 3, seed=7)
    >>> world = DriftingEnvironment(still, Jump({500: [0.1, 0.5, 0.9]}))
    >>> world.rewards(499, [0, 2]), world.rewards(500, [0, 2])
    (array([1., 0.]), array([0., 1.]))
    >>> trace = simulate(CombUCB1(3, budget=1), world, horizon=1000, checkpoints=[500, 1000])
    >>> trace.regret.round(1)
    array([[20.8, 38.4]])
    """

    def __init__(self, world: StochasticEnvironment, drift: Drift) -> None:
        if type(world) is not StochasticEnvironment:
            raise TypeError(f"world must be a StochasticEnvironment, got {type(world).__name__}")
        if world.reward == "sampled":
            raise ValueError("world must have a law of rewards that follows from the mean, got reward='sampled'")
        if not isinstance(drift, Drift):
            raise TypeError(f"drift must be Jump, Walk or Season, got {type(drift).__name__}")
        drift.check(world)
        self.world, self.drift = world, drift
        self.n_arms, self.graph = world.n_arms, world.graph
        self.decisions, self.availability = world.decisions, world.availability
        self.reward_range, self.direction, self.seed = world.reward_range, world.direction, world.seed
        self._paths: dict[int, Floats] = {}
        self._at: dict[tuple[int, int], StochasticEnvironment] = {}

    def means(self, round: int, replication: int = 0) -> Floats:
        """Return the mean of every arm in a round."""
        return self.at(round, replication).means.copy()

    def at(self, round: int, replication: int = 0) -> StochasticEnvironment:
        """Return a still world as this one is in a round."""
        number, replication = check_count("round", round), check_count("replication", replication)
        replication = replication if self.drift.random else 0
        stretch = self.drift.stretch(number)
        found = self._at.get((replication, stretch))
        if found is None:
            if len(self._at) >= _KEPT:
                self._at.clear()
            found = copy.copy(self.world)
            found.means, found._tables, found._best_of = self._path(stretch, replication)[stretch], {}, {}
            self._at[replication, stretch] = found
        return found

    def _path(self, stretch: int, replication: int) -> Floats:
        """Return the means of all stretches up to one, and some more."""
        path = self._paths.get(replication)
        if path is None or stretch >= len(path):
            longer = max(_FIRST_STRETCHES, 1 << stretch.bit_length())
            luck = cached_stream(self.seed, "drift", replication)
            path = self.drift.path(self.world.means, longer, luck, self.reward_range)
            if len(self._paths) >= _KEPT:
                self._paths.clear()
            self._paths[replication] = path
        return path

    def rewards(self, round: int, arms: ArrayLike, replication: int = 0) -> Floats:
        """Return the reward of each of `arms`: same arguments, same floats, in any order of asking."""
        return self.at(round, replication).rewards(round, arms, replication)

    def eligible(self, round: int, replication: int = 0) -> Ints:
        """Return the arms that may be chosen in a round, ascending."""
        return self.world.eligible(round, replication)

    def regret(self, arms: ArrayLike, round: int | None = None, replication: int = 0) -> float:
        """Return the expected loss of a decision against the best one of its round."""
        if round is None:
            raise ValueError("round must be given, since means differ from round to round, got None")
        return self.at(round, replication).regret(arms, round, replication)

    def table(self, budget: int, round: int, replication: int) -> RewardTable:
        """Return the view for compiled code, which is right until the round's stretch ends."""
        return self.at(round, replication).table(budget)

    def luck(self, replication: int) -> np.uint64:
        """Return the start of the replication's reward stream, for compiled code."""
        return self.world.luck(replication)

    def availability_luck(self, replication: int) -> np.uint64:
        """Return the start of the stream that eligible sets come from."""
        return self.world.availability_luck(replication)

    def availability_table(self) -> AvailabilityTable:
        """Return the availability for compiled code."""
        return self.world.availability_table()

    def __repr__(self) -> str:
        return f"DriftingEnvironment({self.world!r}, {self.drift!r})"
