"""Worlds from a recorded table of outcomes."""

from __future__ import annotations

from typing import Any

import numpy as np
from numpy.typing import ArrayLike

from armtriage._arguments import DIRECTIONS, check_arms, check_choice, check_count, check_flag, check_range
from armtriage.decisions import DecisionSet
from armtriage.environments.availability import Availability, AvailabilityTable, Patterns
from armtriage.environments.protocol import units_of
from armtriage.environments.stochastic import StochasticEnvironment
from armtriage.environments.tables import REPLAY, RewardTable
from armtriage.graphs.feedback import FeedbackGraph, as_graph
from armtriage.kernels.record import Floats, Ints


class _Rows(StochasticEnvironment):
    """Rows of a table, of which the luck of a round draws one, for rewards and for who is there."""

    def availability_luck(self, replication: int) -> np.uint64:
        return self.luck(replication)


class ReplayEnvironment:
    """Plays a recorded table of outcomes, row by row or in a random order.

    In the order of the record all replications are alike but for the policy's own randomness, and regret is measured
    against the best fixed decision in hindsight. With `resample` each round draws a row, another one in every
    replication, and regret counts against the best decision by the means of the columns.

    An arm that has no outcome in a row (NaN, or null in a frame) is not eligible in its round. Regret is then against
    the best of the eligible arms by the means of what was recorded of each.

    Parameters
    ----------
    outcomes : array_like or frame
        (rounds, K) rewards in `reward_range`; row t holds what every arm would have paid in round t. A frame of pandas
        or polars has a column for each arm, whose names become `names`.
    graph : FeedbackGraph or int, optional
        Which arms a chosen arm reveals; by default, or for a number of arms, itself only.
    reward_range : tuple of float
        Smallest and largest possible reward.
    direction : {"maximize", "minimize"}
        With ``"minimize"`` outcomes are costs.
    decisions : DecisionSet, optional
        Which decisions are allowed: regret is then against the best of them.
    resample : bool
        Draw a row for each round, with replacement, instead of playing them in order; there is no last round then.
    seed : int, optional
        Fixes the rows that `resample` draws; None draws a fresh one, kept in `seed`.

    Examples
    --------
    >>> env = ReplayEnvironment([[1, 0], [1, 1], [1, 0]], FeedbackGraph.semi_bandit(2))
    >>> env.rewards(2, [0, 1])
    array([1., 0.])
    >>> round(env.regret([1]), 4)
    0.6667
    >>> ratings = [[5, 3, np.nan], [4, np.nan, 1], [np.nan, 2, 4]]
    >>> env = ReplayEnvironment(ratings, reward_range=(1, 5), resample=True, seed=7)
    >>> env.eligible(0), env.rewards(0, [0])
    (array([0, 1]), array([5.]))
    """

    def __init__(
        self,
        outcomes: ArrayLike | Any,
        graph: FeedbackGraph | int | None = None,
        *,
        reward_range: tuple[float, float] = (0.0, 1.0),
        direction: str = "maximize",
        decisions: DecisionSet | None = None,
        resample: bool = False,
        seed: int | None = None,
    ) -> None:
        self.outcomes, self.names = _table_of(outcomes)
        if graph is None and self.outcomes.ndim == 2 and self.outcomes.size:
            graph = self.outcomes.shape[1]
        if graph is None:
            raise ValueError(f"outcomes must have shape (rounds, arms), one or more of each, got {self.outcomes.shape}")
        self.graph = graph = as_graph(graph)
        self.reward_range, self.direction = check_range(reward_range), check_choice("direction", direction, DIRECTIONS)
        if self.outcomes.ndim != 2 or self.outcomes.shape[1] != graph.n_arms or not self.outcomes.shape[0]:
            raise ValueError(
                f"outcomes must have shape (rounds, {graph.n_arms}) with a round or more, got {self.outcomes.shape}"
            )
        low, high = self.reward_range
        there = ~np.isnan(self.outcomes)
        bad = np.argwhere(there & ~((self.outcomes >= low) & (self.outcomes <= high)))
        if bad.size:
            (t, a), accepted = bad[0], f"outcomes must lie in [{low:g}, {high:g}]"
            raise ValueError(f"{accepted}, got {self.outcomes[t, a]} in round {t} for arm {a}")
        for axis, what in enumerate(("arm", "round")):
            for empty in np.flatnonzero(~there.any(axis=axis))[:1]:
                raise ValueError(f"outcomes must have a number in every row and column, got none for {what} {empty}")
        self.resample = check_flag("resample", resample)
        if seed is not None and not resample:
            raise ValueError(f"seed is for resample=True and must be None here, got {seed!r}")
        self.gaps = not there.all()
        """Whether some arms are not recorded in some rounds."""
        self.decisions, self.seed = decisions, None
        self._sign = 1.0 if self.direction == "maximize" else -1.0
        means = np.nanmean(self.outcomes, axis=0)
        self._world = _Rows(
            means,
            graph,
            "sampled",
            np.zeros(graph.n_arms, np.int64),
            seed=seed if resample else 0,
            decisions=decisions,
            reward_range=self.reward_range,
            direction=direction,
            availability=Patterns(map(np.flatnonzero, there), in_turn=not resample) if self.gaps else None,
            outcomes=np.where(there, self.outcomes, means),
        )
        if resample:
            self.seed = self._world.seed
        self._tables: dict[tuple[int, int], RewardTable] = {}

    @property
    def n_arms(self) -> int:
        """Number of arms."""
        return self.graph.n_arms

    @property
    def n_rounds(self) -> int:
        """Number of recorded rounds."""
        return int(self.outcomes.shape[0])

    @property
    def availability(self) -> Availability | None:
        """Which arms are eligible in a round; None if all always are."""
        return self._world.availability

    def rewards(self, round: int, arms: ArrayLike, replication: int = 0) -> Floats:
        """Return the outcomes of `arms` in `round`: those recorded for it, or those of the row that was drawn."""
        number, chosen = self._number(round), check_arms(arms, self.n_arms)
        if self.gaps:
            for arm in np.setdiff1d(chosen, self.eligible(number, replication))[:1]:
                raise ValueError(f"arms must be recorded in round {number}, got {arm}")
        if self.resample:
            return self._world.rewards(number, chosen, replication)
        return np.asarray(self.outcomes[number, chosen])

    def eligible(self, round: int, replication: int = 0) -> Ints:
        """Return the arms that have an outcome in a round, ascending."""
        return self._world.eligible(self._number(round), replication)

    def regret(self, arms: ArrayLike, round: int | None = None, replication: int = 0) -> float:
        """Return what always playing `arms` loses per round against the best fixed decision, of its size or allowed.

        Where arms are not always recorded it is that of a round, against the best arms that are.
        """
        return self._world.regret(arms, round, replication)

    def table(self, budget: int, horizon: int) -> RewardTable:
        """Return the view for compiled code, in the order of the record with hindsight over `horizon` rounds."""
        if self.resample:
            return self._world.table(budget)
        if horizon > self.n_rounds:
            raise ValueError(f"horizon must be at most the {self.n_rounds} recorded rounds, got {horizon}")
        if (budget, horizon) not in self._tables:
            self._tables[budget, horizon] = self._in_order(budget, horizon)
        return self._tables[budget, horizon]

    def _in_order(self, budget: int, horizon: int) -> RewardTable:
        table = self._world.table(budget)
        if self.gaps:
            return table._replace(kind=REPLAY, outcomes=self.outcomes, zero=0.0, one=1.0)
        played = self.outcomes[:horizon]
        gains = self._sign * played.sum(axis=0)
        best = _best_arms(gains, budget) if self.decisions is None else self.decisions.maximise(gains)
        best_outcomes = np.ascontiguousarray(played[:, best].sum(axis=1))
        return table._replace(
            kind=REPLAY, outcomes=self.outcomes, unit=self._sign, best_outcomes=best_outcomes, zero=0.0, one=1.0
        )

    def luck(self, replication: int) -> np.uint64:
        """Return the stream that rows are drawn from; in the order of the record it is not used."""
        return self._world.luck(replication)

    def availability_luck(self, replication: int) -> np.uint64:
        """Return the stream that eligible sets come from: that of the rows."""
        return self._world.availability_luck(replication)

    def availability_table(self) -> AvailabilityTable:
        """Return who is there, for compiled code."""
        return self._world.availability_table()

    def _number(self, round: int) -> int:
        number = check_count("round", round)
        if not self.resample and number >= self.n_rounds:
            raise ValueError(f"round must lie in 0..{self.n_rounds - 1}, got {round!r}")
        return number

    def __repr__(self) -> str:
        more = f"{', with gaps' if self.gaps else ''}{f', resampled, seed={self.seed}' if self.resample else ''}"
        within = "" if self.decisions is None else f", decisions={self.decisions!r}"
        units = units_of(self).removesuffix(", ")
        return (
            f"ReplayEnvironment({self.n_rounds} rounds, {self.n_arms} arms{more}{within}{', ' if units else ''}{units})"
        )


def _table_of(outcomes: Any) -> tuple[Floats, tuple[Any, ...] | None]:
    """Return outcomes as an own array, NaN where there is none, and the names of a frame's columns."""
    if not hasattr(outcomes, "columns"):
        return np.array(outcomes, dtype=np.float64, order="C"), None
    columns = []
    for name in outcomes.columns:
        missing = (one is None or type(one).__name__ == "NAType" for one in outcomes[name].to_list())
        columns.append(np.asarray([np.nan if gap else one for gap, one in zip(missing, outcomes[name], strict=True)]))
    for name, column in zip(outcomes.columns, columns, strict=True):
        if column.dtype.kind not in "biuf":
            raise TypeError(f"outcomes must have numbers in every column, got {column.dtype} in {name!r}")
    return np.ascontiguousarray(np.column_stack(columns), np.float64), tuple(outcomes.columns)


def _best_arms(values: Floats, budget: int) -> Ints:
    """Return the `budget` arms of largest value in ascending order; ties go to the smallest index."""
    return np.sort(np.argsort(-values, kind="stable")[:budget])
