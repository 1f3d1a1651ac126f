"""The numbers of a feedback graph that bounds depend on: exact where that is possible, otherwise between two limits."""

from __future__ import annotations

from typing import NamedTuple

import numpy as np
from numpy.typing import ArrayLike, NDArray

from armtriage._arguments import as_numbers, check_count, check_number
from armtriage.decisions import DecisionSet
from armtriage.environments import Environment
from armtriage.graphs.feedback import FeedbackGraph
from armtriage.policies.elimination.layers import new_layer
from armtriage.theory._dominating import smallest_dominating_set
from armtriage.theory._families import active_cover, family_cover
from armtriage.theory._gaps import gap_of_arms, gap_of_decisions
from armtriage.theory._greedy import cover_chvatal, cover_printed
from armtriage.theory._independence import largest_independent_set

__all__ = [
    "Bracket",
    "active_cover_number",
    "chvatal_dominating_set",
    "cover_number",
    "domination_number",
    "gap",
    "greedy_dominating_set",
    "independence_number",
    "independent_set",
]

Ints = NDArray[np.int64]


class Bracket(NamedTuple):
    """A number between two limits, both certain, and how they were found.

    Examples
    --------
    >>> number = Bracket(4, 5, "bracket: greedy and packing, stopped after 10 s")
    >>> number.exact, str(number)
    (False, '4 to 5 (bracket: greedy and packing, stopped after 10 s)')
    """

    lower: int
    upper: int
    how: str

    @property
    def exact(self) -> bool:
        """Whether the limits are equal."""
        return self.lower == self.upper

    def __str__(self) -> str:
        return f"{self.lower if self.exact else f'{self.lower} to {self.upper}'} ({self.how})"


def independence_number(graph: FeedbackGraph, *, time_limit: float = 10.0) -> Bracket:
    """Return the largest number of arms none of which reveals another.

    A graph of runs (semi-bandit, full information, cliques, ladders, arms along a line) is answered at once at any
    size, and so is most of what is sparse: trees, rings, bipartite graphs. For the rest there are branch and bound and
    HiGHS. The lower limit is the size of a set that was found, see `independent_set`.

    Parameters
    ----------
    graph : FeedbackGraph
        Which arms each arm reveals. An edge in either direction keeps two arms from being independent.
    time_limit : float
        Seconds for the search, after which what is known is returned; compilation is not counted.

    Examples
    --------
    >>> independence_number(FeedbackGraph.cliques([3, 2]))
    Bracket(lower=2, upper=2, how='exact: cliques')
    >>> str(independence_number(FeedbackGraph.erdos_renyi(60, 0.2, seed=7)))
    '10 (exact: branch and bound)'
    """
    arms, bound, how = largest_independent_set(_check_graph(graph), check_number("time_limit", time_limit))
    return Bracket(arms.size, bound, how)


def independent_set(graph: FeedbackGraph, *, time_limit: float = 10.0) -> Ints:
    """Return arms, ascending, none of which reveals another: as many as `independence_number` has for a lower limit.

    Examples
    --------
    >>> independent_set(FeedbackGraph.from_edges(4, [(0, 1), (0, 2), (0, 3)]))
    array([1, 2, 3])
    """
    return largest_independent_set(_check_graph(graph), check_number("time_limit", time_limit)).chosen


def domination_number(graph: FeedbackGraph, *, time_limit: float = 10.0) -> Bracket:
    """Return the smallest number of arms that between them reveal all arms.

    Parameters
    ----------
    graph, time_limit
        See `independence_number`.

    Examples
    --------
    >>> domination_number(FeedbackGraph.threshold(1_000_000))
    Bracket(lower=1, upper=1, how='exact: ladder')
    """
    arms, bound, how = smallest_dominating_set(_check_graph(graph), check_number("time_limit", time_limit))
    return Bracket(bound, arms.size, how)


def greedy_dominating_set(graph: FeedbackGraph) -> Ints:
    """Return the arms that the paper's greedy picks, in order, until all arms are revealed.

    Each is the arm that reveals most of those not yet revealed, and is one of these itself; ties go to the smallest
    arm. This is how `armtriage.CombinatorialElimination` explores when it begins. On an undirected graph the picks are
    an independent set; on any graph with independence number a there are at most a + ceil(2 a ln(K / a)). The
    domination number does not bound them.

    Examples
    --------
    >>> greedy_dominating_set(FeedbackGraph.from_edges(5, [(1, 0), (1, 2), (3, 4)]))
    array([1, 3])
    """
    picks = np.empty(_check_graph(graph).n_arms, np.int64)
    return picks[: cover_printed(new_layer(graph), graph.arrays, picks)].copy()


def chvatal_dominating_set(graph: FeedbackGraph) -> Ints:
    """Return the arms that Chvatal's greedy picks, in order, until all arms are revealed.

    Each is the arm, of all arms, that reveals most of those not yet revealed; ties go to the smallest. There are at
    most 1 + ln(K) times as many as the domination number.

    Examples
    --------
    >>> graph = FeedbackGraph.from_edges(6, [(0, 1), (0, 2), (0, 3), (1, 4), (1, 5)])
    >>> chvatal_dominating_set(graph), greedy_dominating_set(graph)
    (array([0, 1]), array([0, 4, 5]))
    """
    return cover_chvatal(_check_graph(graph).arrays, np.ones(graph.n_arms, np.uint8))


def cover_number(decisions: DecisionSet, graph: FeedbackGraph, *, time_limit: float = 10.0) -> Bracket:
    """Return the smallest number of decisions that reveal all arms that are in some decision: the printed kappa.

    Families of up to 10,000 decisions are listed, and `armtriage.TopS` has a formula. Larger ones get limits by their
    oracle. `active_cover_number` is what the regret bound needs in its place.

    Parameters
    ----------
    decisions : DecisionSet
        The decisions that are allowed.
    graph, time_limit
        See `independence_number`.

    Examples
    --------
    >>> from armtriage import Explicit
    >>> cover_number(Explicit([[0, 1], [1, 2], [3, 4]]), FeedbackGraph.semi_bandit(5))
    Bracket(lower=3, upper=3, how='exact: reductions')
    """
    return Bracket(*family_cover(*_check_pair(decisions, graph), check_number("time_limit", time_limit)))


def active_cover_number(
    decisions: DecisionSet, graph: FeedbackGraph, *, limit: int = 16, time_limit: float = 10.0
) -> Bracket:
    """Return how many of its own decisions a sub-family needs at most to reveal all its arms.

    Elimination leaves a sub-family, and explores by its decisions alone. So this is the largest, over all sub-families,
    of the smallest number of members that reveal all arms of the members.

    Parameters
    ----------
    decisions, graph, time_limit
        See `cover_number`.
    limit : int
        Families of up to this many decisions have all their sub-families looked at; at most 20. Others get limits.

    Examples
    --------
    >>> from armtriage import Explicit
    >>> singles = Explicit([[0], [1], [2], [3]])
    >>> star = FeedbackGraph.from_edges(4, [(0, 1), (0, 2), (0, 3)])
    >>> cover_number(singles, star).upper, active_cover_number(singles, star).upper
    (1, 3)
    """
    pair = _check_pair(decisions, graph)
    limit = check_count("limit", limit, 0, 20)
    return Bracket(*active_cover(*pair, limit, check_number("time_limit", time_limit)))


def gap(means: ArrayLike | Environment, budget: int | None = None) -> float:
    """Return by how much the best exceeds the next best, the Delta_* of the bounds; infinite if all are equally good.

    With a budget S it is the S-th largest mean minus the next smaller mean. With the decision set of an environment
    it is the largest total of a decision minus the next smaller total.

    Parameters
    ----------
    means : array_like or StochasticEnvironment
        The mean reward of each arm, or an environment that has them as `means`.
    budget : int, optional
        S; to be left out if the environment has a decision set, and only then.

    Examples
    --------
    >>> gap([0.75, 0.5, 0.5, 0.25], budget=2)
    0.25
    >>> from armtriage import partition
    >>> round(gap(partition(6, 2, gap=0.2)), 12)
    0.2
    """
    decisions = getattr(means, "decisions", None)
    means = getattr(means, "means", means)
    values = as_numbers("means", means).astype(np.float64)
    if values.ndim != 1 or not values.size or not np.isfinite(values).all():
        raise ValueError(f"means must be a non-empty list of finite numbers, got {means!r:.100}")
    if decisions is not None:
        if budget is not None:
            raise ValueError(f"budget must be left out where decisions are given, got {budget!r}")
        return gap_of_decisions(values, decisions)
    if budget is None:
        raise ValueError("budget must be given where there are no decisions, got None")
    return gap_of_arms(values, check_count("budget", budget, 1, values.size))


def _check_graph(graph: FeedbackGraph) -> FeedbackGraph:
    if not isinstance(graph, FeedbackGraph):
        raise TypeError(f"graph must be a FeedbackGraph, got {type(graph).__name__}")
    return graph


def _check_pair(decisions: DecisionSet, graph: FeedbackGraph) -> tuple[DecisionSet, FeedbackGraph]:
    if not isinstance(decisions, DecisionSet):
        raise TypeError(f"decisions must be a DecisionSet, got {type(decisions).__name__}")
    if decisions.n_arms != _check_graph(graph).n_arms:
        raise ValueError(f"decisions must have the {graph.n_arms} arms of graph, got {decisions.n_arms}")
    return decisions, graph
