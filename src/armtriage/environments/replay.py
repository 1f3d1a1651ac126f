"""Replay of a recorded table of outcomes."""

from __future__ import annotations

import numpy as np
from numpy.typing import ArrayLike, NDArray

from armtriage._arguments import check_arms, check_count, check_kind
from armtriage.environments.tables import REPLAY, RewardTable
from armtriage.graphs import FeedbackGraph

__all__ = ["ReplayEnvironment"]


class ReplayEnvironment:
    """Plays a recorded table of outcomes, with regret against the best fixed decision in hindsight.

    Parameters
    ----------
    outcomes : array_like
        (rounds, K) rewards in [0, 1]; row t holds what every arm would have paid in round t.
    graph : FeedbackGraph
        Which arms a chosen arm reveals.

    Examples
    --------
    >>> env = ReplayEnvironment([[1, 0], [1, 1], [1, 0]], FeedbackGraph.semi_bandit(2))
    >>> env.rewards(2, [0, 1])
    array([1., 0.])
    >>> round(env.regret([1]), 4)
    0.6667
    """

    def __init__(self, outcomes: ArrayLike, graph: FeedbackGraph) -> None:
        self.graph = check_kind("graph", graph, FeedbackGraph)
        self.outcomes = np.array(outcomes, dtype=np.float64, order="C")
        if self.outcomes.ndim != 2 or self.outcomes.shape[1] != graph.n_arms or not self.outcomes.shape[0]:
            raise ValueError(
                f"outcomes must have shape (rounds, {graph.n_arms}) with a round or more, got {self.outcomes.shape}"
            )
        bad = np.argwhere(~((self.outcomes >= 0) & (self.outcomes <= 1)))
        if bad.size:
            t, a = bad[0]
            raise ValueError(f"outcomes must lie in [0, 1], got {self.outcomes[t, a]} in round {t} for arm {a}")
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
        means = self.outcomes.mean(axis=0)
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
        best = _best_arms(played.sum(axis=0), budget)
        none = np.zeros(0, np.int64)
        best_outcomes = np.ascontiguousarray(played[:, best].sum(axis=1))
        return RewardTable(REPLAY, np.zeros(0), none, 0.0, self.outcomes, none, 0, 0.0, best_outcomes)

    def luck(self, replication: int) -> np.uint64:
        """Return an unused stream: a replay has no luck of its own."""
        return np.uint64(0)

    def __repr__(self) -> str:
        return f"ReplayEnvironment({self.n_rounds} rounds, {self.n_arms} arms)"


def _best_arms(values: NDArray[np.float64], budget: int) -> NDArray[np.int64]:
    """Return the `budget` arms of largest value in ascending order; ties go to the smallest index."""
    return np.sort(np.argsort(-values, kind="stable")[:budget])
