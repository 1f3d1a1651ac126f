"""Arms with constant means and independent or shared noise."""

from __future__ import annotations

import math
from collections.abc import Sequence
from typing import Any, Self

import numpy as np
from numpy.typing import ArrayLike

from armtriage._arguments import (
    DIRECTIONS,
    as_numbers,
    check_arms,
    check_choice,
    check_count,
    check_each,
    check_number,
    check_range,
)
from armtriage.decisions import DecisionSet, TopS
from armtriage.environments.availability import Availability, AvailabilityTable, eligible_in, loss_among
from armtriage.environments.protocol import cached_stream, units_of
from armtriage.environments.tables import LAWS, RewardTable, draw_all, loss, put_in_range
from armtriage.graphs.feedback import FeedbackGraph, as_graph
from armtriage.kernels.jit import kernel
from armtriage.kernels.random import check_seed, row_of
from armtriage.kernels.record import Floats, Ints

_KEPT = 4096  # eligible sets whose best decision is remembered


@kernel
def _rewards(table: RewardTable, luck: np.uint64, number: int, arms: Ints) -> Floats:
    rewards = np.empty(arms.size)
    draw_all(table, luck, number, arms, rewards)
    put_in_range(table, rewards, arms.size)
    return rewards


class StochasticEnvironment:
    """Arms with constant means, rewards or costs in a range, by default [0, 1], and a feedback graph.

    The reward of an arm in a round is looked up in a virtual table: it depends on the seed, the replication, the
    round and the arm alone, so every policy meets the same rewards, and a reward costs nothing until it is asked for.

    Parameters
    ----------
    means : array_like
        Mean reward of each arm, in `reward_range`.
    graph : FeedbackGraph or int
        Which arms a chosen arm reveals; a number of arms stands for arms that reveal themselves only.
    reward : str
        Law of a reward with mean m: ``"bernoulli"`` (one end of the range or the other), ``"deterministic"`` (always
        m), ``"uniform"`` (on the widest interval around m inside the range), ``"beta"`` (Beta, stretched over the
        range, with mean m and the given concentration) or ``"sampled"`` (one of `outcomes`, see `from_outcomes`).
    noise_groups : array_like of int, optional
        Arms with the same number share their noise in a round; by default every arm has its own.
    concentration : float
        Sum of the two parameters of the Beta law; the larger, the closer rewards are to the mean.
    seed : int, optional
        Fixes all rewards; None draws a fresh one, kept in `seed`.
    decisions : DecisionSet, optional
        Which decisions are allowed: regret is then against the best of them, whatever its size. By default all are.
    reward_range : tuple of float
        Smallest and largest possible reward; means, rewards and regret are in these units.
    direction : {"maximize", "minimize"}
        With ``"minimize"`` rewards are costs: regret is what a decision costs more than the cheapest.
    availability : Availability, optional
        Which arms are eligible in a round: `Patterns`, `RandomRounds` or `Arrivals`. By default all always are; with
        `decisions`, also in a round whose arms leave no decision.
    outcomes : array_like, optional
        (size, K) rewards of each arm, for the law ``"sampled"``: all of them are equally likely, and `means` theirs.

    Examples
    --------
    >>> env = StochasticEnvironment([0.9, 0.5, 0.1], FeedbackGraph.semi_bandit(3), seed=7)
    >>> env.rewards(0, [0, 2])
    array([1., 0.])
    >>> round(env.regret([0, 2]), 6)
    0.4
    >>> from armtriage import Explicit
    >>> pairs = Explicit([[0, 2], [1, 2]])
    >>> StochasticEnvironment([0.9, 0.5, 0.1], FeedbackGraph.semi_bandit(3), decisions=pairs).regret([0, 2])
    0.0
    >>> euros = StochasticEnvironment([4.0, 7.5, 5.0], 3, reward_range=(2.0, 12.0), direction="minimize", seed=7)
    >>> euros.rewards(0, [0, 1, 2]), euros.regret([1])
    (array([ 2., 12.,  2.]), 3.5)
    """

    def __init__(
        self,
        means: ArrayLike,
        graph: FeedbackGraph | int,
        reward: str = "bernoulli",
        noise_groups: ArrayLike | None = None,
        concentration: float = 4.0,
        seed: int | None = None,
        *,
        decisions: DecisionSet | None = None,
        reward_range: tuple[float, float] = (0.0, 1.0),
        direction: str = "maximize",
        availability: Availability | None = None,
        outcomes: ArrayLike | None = None,
    ) -> None:
        self.graph = graph = as_graph(graph)
        self.means = np.array(means, dtype=np.float64)
        if self.means.shape != (graph.n_arms,):
            raise ValueError(f"means must have shape ({graph.n_arms},) like the graph, got {self.means.shape}")
        self.reward_range, self.direction = check_range(reward_range), check_choice("direction", direction, DIRECTIONS)
        low, high = self.reward_range
        check_each("means", self.means, (self.means >= low) & (self.means <= high), f"lie in [{low:g}, {high:g}]")
        if decisions is not None and not isinstance(decisions, DecisionSet):
            raise TypeError(f"decisions must be a DecisionSet or None, got {type(decisions).__name__}")
        if decisions is not None and decisions.n_arms != graph.n_arms:
            raise ValueError(f"decisions must have the {graph.n_arms} arms of graph, got {decisions.n_arms}")
        if decisions is not None:
            decisions.check_direction(self.direction, self.reward_range)
        self.reward = check_choice("reward", reward, LAWS)
        self.concentration = check_number("concentration", concentration, positive=True)
        self.outcomes = self._check_outcomes(outcomes)
        self.noise_groups = _check_groups(noise_groups, graph.n_arms)
        self.seed = check_seed(seed)
        self.decisions = decisions
        self.availability = availability
        self._availability = self._check_availability()
        self._tables: dict[int, RewardTable] = {}
        self._best_of: dict[bytes, int | None] = {}

    @classmethod
    def from_outcomes(
        cls, outcomes: ArrayLike, graph: FeedbackGraph | int, *, seed: int | None = None, **options: Any
    ) -> Self:
        """Return a world whose arms pay one of their `outcomes`, (size, K) of them, each as likely as the other.

        Any law on the range can be given by its quantiles, or a log of rewards be drawn from.

        Examples
        --------
        >>> jackpot = np.where(np.arange(100)[:, None] < 99, [[0.3, 0.305]], [[1.0, 0.305]])
        >>> env = StochasticEnvironment.from_outcomes(jackpot, 2, seed=7)
        >>> env.means.round(3), env.rewards(0, [0, 1])
        (array([0.307, 0.305]), array([0.3  , 0.305]))
        """
        table = as_numbers("outcomes", outcomes)
        if table.ndim != 2 or not table.size:
            raise ValueError(f"outcomes must have a row for each reward and a column for each arm, got {table.shape}")
        return cls(table.mean(axis=0), graph, "sampled", seed=seed, outcomes=table, **options)

    def _check_outcomes(self, outcomes: ArrayLike | None) -> Floats | None:
        if (outcomes is None) == (self.reward == "sampled"):
            raise ValueError(f"outcomes must be given for reward='sampled', and for no other, got {outcomes!r:.100}")
        if outcomes is None:
            return None
        table, (low, high) = np.array(as_numbers("outcomes", outcomes), dtype=np.float64), self.reward_range
        if table.ndim != 2 or table.shape[1] != self.n_arms or not table.shape[0]:
            raise ValueError(f"outcomes must have a column for each of {self.n_arms} arms, got shape {table.shape}")
        if not ((table >= low) & (table <= high)).all():
            raise ValueError(f"outcomes must lie in [{low:g}, {high:g}]")
        if np.abs(table.mean(axis=0) - self.means).max() > 1e-9 * (1.0 + max(abs(low), abs(high))):
            raise ValueError("means must be those of outcomes: see from_outcomes")
        return table

    @property
    def n_arms(self) -> int:
        """Number of arms."""
        return self.graph.n_arms

    def rewards(self, round: int, arms: ArrayLike, replication: int = 0) -> Floats:
        """Return the reward of each of `arms`: same arguments, same floats, in any order of asking."""
        number = check_count("round", round)
        luck = row_of(self.luck(check_count("replication", replication)), number)
        return _rewards(self.table(1), luck, number, check_arms(arms, self.n_arms))

    def eligible(self, round: int, replication: int = 0) -> Ints:
        """Return the arms that may be chosen in a round, ascending."""
        number, replication = check_count("round", round), check_count("replication", replication)
        found = np.arange(self.n_arms)
        if self._availability is None:
            return found
        luck = row_of(self.availability_luck(replication), number)
        some = found[: eligible_in(self._availability, luck, number, found)]
        if self.decisions is not None and some.size < self.n_arms and self._best_among(some) is None:
            return np.arange(self.n_arms)
        return some

    def _best_among(self, among: Ints) -> int | None:
        """Return the worth of the best decision of eligible arms; None if they leave none."""
        key = among.tobytes()
        if key not in self._best_of:
            assert self.decisions is not None
            table, arms = self.table(self.decisions.size), np.arange(self.n_arms)
            exclude = np.setdiff1d(arms, among, assume_unique=True)
            best = self.decisions.maximise(table.worth * float(table.unit), (), exclude)
            if len(self._best_of) >= _KEPT:
                self._best_of.clear()
            self._best_of[key] = None if best is None else int(table.worth[best].sum())
        return self._best_of[key]

    def regret(self, arms: ArrayLike, round: int | None = None, replication: int = 0) -> float:
        """Return the expected loss of one decision against the best one, of its size or of `decisions`; 0 for that.

        With `availability` it is that of a round, against the best arms that are eligible then, or the best decision.
        """
        decision = check_arms(arms, self.n_arms, once=True)
        if self.availability is not None:
            if round is None:
                raise ValueError("round must be given, since other arms are eligible in every round, got None")
            among = self.eligible(round, replication)
            for arm in np.setdiff1d(decision, among)[:1]:
                raise ValueError(f"arms must be eligible in round {round}, got {arm}")
        if self.decisions is not None and not self.decisions.contains(decision):
            raise ValueError(f"arms must be a decision of {self.decisions!r}, got {arms!r}")
        table = self.table(max(decision.size, 1))
        if self.availability is None:
            return float(loss(table, 0, decision)) if decision.size or self.decisions is not None else 0.0
        if self.decisions is None:
            return float(loss_among(table, among, decision, np.empty(among.size)))
        best = self._best_among(among)
        assert best is not None, "the arms of a round leave a decision"
        return float((best - int(table.worth[decision].sum())) * table.unit)

    def table(self, budget: int, horizon: int = 0) -> RewardTable:
        """Return the view for compiled code, with regrets against the best `budget` arms, or the best decision."""
        size = budget if self.decisions is None else self.decisions.size
        if size not in self._tables:
            self._tables[size] = self._make_table(size)
        return self._tables[size]

    def _worth(self, budget: int) -> tuple[Ints, int, int]:
        """Return what each arm adds to a decision, the sum of the best one, and the bits of the unit.

        They are whole numbers, so that a sum is exact and the same in any order, and optimal play costs 0.
        """
        gains = self.means if self.direction == "maximize" else -self.means
        # A power of two that no mean exceeds is taken out first; it is 1 for rewards in [0, 1].
        fraction, size = math.frexp(max(map(abs, self.reward_range)))
        size -= fraction == 0.5
        if self.decisions is None or isinstance(self.decisions, TopS):
            bits = min(52, 61 - int(budget).bit_length()) - size
            scaled = np.rint(np.ldexp(gains, bits)).astype(np.int64)
            worth = scaled - np.partition(scaled, self.n_arms - budget)[self.n_arms - budget]
            return worth, int(worth[worth > 0].sum()), bits
        # Whatever an oracle sums up is then exact in floating point as well, and it cannot mistake the best decision.
        bits = 50 - int(budget).bit_length() - size
        rounded = np.rint(np.ldexp(gains, bits))
        best = self.decisions.maximise(np.ldexp(rounded, -bits))
        assert best is not None
        worth = rounded.astype(np.int64)
        return worth, int(worth[best].sum()), bits

    def _make_table(self, budget: int) -> RewardTable:
        worth, best, bits = self._worth(budget)
        groups = np.zeros(0, np.int64) if self.noise_groups is None else self.noise_groups
        zero, one = self.reward_range if self.direction == "maximize" else self.reward_range[::-1]
        means = self.means if (zero, one) == (0.0, 1.0) else np.clip((self.means - zero) / (one - zero), 0.0, 1.0)
        outcomes = np.zeros((0, 0)) if self.outcomes is None else np.clip((self.outcomes - zero) / (one - zero), 0, 1)
        return RewardTable(
            LAWS[self.reward],
            means,
            groups,
            self.concentration,
            outcomes,
            worth,
            best,
            math.ldexp(1.0, -bits),
            np.zeros(0),
            zero,
            one,
        )

    def luck(self, replication: int) -> np.uint64:
        """Return the start of the replication's reward stream, for compiled code."""
        return cached_stream(self.seed, "reward", replication)

    def availability_luck(self, replication: int) -> np.uint64:
        """Return the start of the stream that eligible sets come from."""
        return cached_stream(self.seed, "availability", replication)

    def availability_table(self) -> AvailabilityTable:
        """Return the availability for compiled code."""
        if self._availability is None:
            raise ValueError("this world has no availability: all arms are eligible in every round")
        return self._availability

    def _check_availability(self) -> AvailabilityTable | None:
        if self.availability is None:
            return None
        if not isinstance(self.availability, Availability):
            given = type(self.availability).__name__
            raise TypeError(f"availability must be Patterns, RandomRounds or Arrivals, got {given}")
        return self.availability.table(self.n_arms)

    def __repr__(self) -> str:
        within = "" if self.decisions is None else f"decisions={self.decisions!r}, "
        within += "" if self.availability is None else f"availability={self.availability!r}, "
        units = units_of(self)
        return f"StochasticEnvironment({self.n_arms} arms, reward={self.reward!r}, {within}{units}seed={self.seed})"


def _check_groups(groups: ArrayLike | Sequence[int] | None, n_arms: int) -> Ints | None:
    if groups is None:
        return None
    array = np.asarray(groups)
    if array.shape != (n_arms,):
        raise ValueError(f"noise_groups must have shape ({n_arms},), one group for each arm, got {array.shape}")
    if array.dtype.kind not in "iu":
        raise TypeError(f"noise_groups must hold whole numbers, got {array.dtype}")
    # Renumbered as they appear, so that a group's noise depends on the grouping, not on the labels.
    _, first, group = np.unique(array, return_index=True, return_inverse=True)
    return np.argsort(np.argsort(first))[group].astype(np.int64)
