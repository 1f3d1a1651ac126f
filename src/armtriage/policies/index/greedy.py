"""Greedy: play what has looked best so far."""

from __future__ import annotations

from armtriage.policies.index.combinatorial_ucb import Params, believe, choose
from armtriage.policies.index.shortlist import IndexPolicy, place, rate
from armtriage.policies.request import Kernels


class Greedy(IndexPolicy):
    """Look at every arm once, then play the S arms of largest mean.

    Use it under full information, where every decision reveals every arm: nothing needs exploring, and its regret
    does not grow with the horizon. Under any sparser feedback it can get stuck for ever.

    Parameters
    ----------
    graph, names, seed, reward_range, direction, sleepers_seen, cap, logging_floor, floor_arms
        See `armtriage.Policy`.
    budget : int
        How many arms a decision has (S in the paper), from 1 to ``graph.n_arms``.
    decisions : None
        Not taken: sets of decisions are for other policies.

    References
    ----------
    Degenne, Perchet (2016), Anytime optimal algorithms in stochastic multi-armed bandits.

    Examples
    --------
    >>> from armtriage import FeedbackGraph
    >>> policy = Greedy(FeedbackGraph.full_information(3), budget=1)
    >>> policy.tell(policy.ask(), [0.2, 0.9, 0.4])
    >>> policy.ask().arms
    array([1])
    """

    kernels = Kernels(choose, rate, believe, place)

    def params(self) -> Params:
        """Return the parameters of the kernels: with a width of 0 the index is the mean."""
        return Params(0.0)
