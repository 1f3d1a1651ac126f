"""Replay of a recorded table of outcomes."""

from __future__ import annotations

import numpy as np
from numpy.typing import ArrayLike, NDArray

from armtriage._arguments import DIRECTIONS, check_arms, check_choice, check_count, check_range
from armtriage.environments.protocol import units_of
from armtriage.environments.tables import REPLAY, RewardTable
from armtriage.graphs.feedback import FeedbackGraph, as_graph


class ReplayEnvironment:
    """Plays a recorded table of outcomes, with regret against the best fixed decision in hindsight.

    All replications have this one record: they differ by the policy's own randomness only.

    Parameters
    ----------
    outcomes : array_like
        (rounds, K) rewards in `reward_range`; row t holds what every arm would have paid in round t.
    graph : FeedbackGraph or int
        Which arms a chosen arm reveals; a number of arms stands for arms that reveal themselves only.
    reward_range : tuple of float
        Smallest and largest possible reward.
    direction : {"maximize", "minimize"}
        With ``"minimize"`` outcomes are costs.

    Examples
    --------
    >>> env = ReplayEnvironment([[1, 0], [1, 1], [1, 0]], FeedbackGraph.semi_bandit(2))
    >>> env.rewards(2, [0, 1])
    array([1., 0.])
    >>> round(env.regret([1]), 4)
    0.6667
    """

    def __init__(
        self,
        outcomes: ArrayLike,
        graph: FeedbackGraph | int,
        *,
        reward_range: tuple[float, float] = (0.0, 1.0),
        direction: str = "maximize",
    ) -> None:
        self.graph = graph = as_graph(graph)
        self.reward_range, self.direction = check_range(reward_range), check_choice("direction", direction, DIRECTIONS)
        self.outcomes = np.array(outcomes, dtype=np.float64, order="C")
        if self.outcomes.ndim != 2 or self.outcomes.shape[1] != graph.n_arms or not self.outcomes.shape[0]:
            raise ValueError(
                f"outcomes must have shape (rounds, {graph.n_arms}) with a round or more, got {self.outcomes.shape}"
            )
        low, high = self.reward_range
        bad = np.argwhere(~((self.outcomes >= low) & (self.outcomes <= high)))
        if bad.size:
            (t, a), accepted = bad[0], f"outcomes must lie in [{low:g}, {high:g}]"
            raise ValueError(f"{accepted}, got {self.outcomes[t, a]} in round {t} for arm {a}")
        self._sign = 1.0 if self.direction == "maximize" else -1.0
        self._tables: dict[tuple[int, int], RewardTable] = {}

    @property
    def n_arms(self) -> int:
        """Number of arms."""
        return self.graph.n_arms

    @property
    def n_rounds(self) -> int:
        """Number of recorded rounds."""
        return int(self.outcomes.shape[0])

    def rewards(self, round: int, arms: ArrayLike, replication: int = 0) -> NDArray[np.float64]:
        """Return the recorded outcomes of `arms` in `round`; they are the same in every replication."""
        number = check_count("round", round)
        if number >= self.n_rounds:
            raise ValueError(f"round must lie in 0..{self.n_rounds - 1}, got {round!r}")
        return np.asarray(self.outcomes[number, check_arms(arms, self.n_arms)])

    def regret(self, arms: ArrayLike) -> float:
        """Return what always playing `arms` loses per round against the best fixed decision of its size."""
        decision = check_arms(arms, self.n_arms, once=True)
        means = self._sign * self.outcomes.mean(axis=0)
        return float(means[_best_arms(means, decision.size)].sum() - means[np.sort(decision)].sum())

    def table(self, budget: int, horizon: int) -> RewardTable:
        """Return the view for compiled code, with hindsight over the first `horizon` rounds."""
        if horizon > self.n_rounds:
            raise ValueError(f"horizon must be at most the {self.n_rounds} recorded rounds, got {horizon}")
        if (budget, horizon) not in self._tables:
            self._tables[budget, horizon] = self._make_table(budget, horizon)
        return self._tables[budget, horizon]

    def _make_table(self, budget: int, horizon: int) -> RewardTable:
        played = self.outcomes[:horizon]
        best = _best_arms(self._sign * played.sum(axis=0), budget)
        none = np.zeros(0, np.int64)
        best_outcomes = np.ascontiguousarray(played[:, best].sum(axis=1))
        return RewardTable(
            REPLAY, np.zeros(0), none, 0.0, self.outcomes, none, 0, self._sign, best_outcomes, zero=0.0, one=1.0
        )

    def luck(self, replication: int) -> np.uint64:
        """Return an unused stream: a replay has no luck of its own."""
        return np.uint64(0)

    def __repr__(self) -> str:
        units = units_of(self).removesuffix(", ")
        return f"ReplayEnvironment({self.n_rounds} rounds, {self.n_arms} arms{', ' if units else ''}{units})"


def _best_arms(values: NDArray[np.float64], budget: int) -> NDArray[np.int64]:
    """Return the `budget` arms of largest value in ascending order; ties go to the smallest index."""
    return np.sort(np.argsort(-values, kind="stable")[:budget])
