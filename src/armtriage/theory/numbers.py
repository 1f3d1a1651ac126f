"""The numbers of a feedback graph that bounds depend on: exact where that is possible, otherwise between two limits."""

from __future__ import annotations

import math
from typing import Any, NamedTuple

import numpy as np
from numpy.typing import ArrayLike, NDArray

from armtriage._arguments import as_numbers, check_choice, check_count, check_flag, check_kind, check_number
from armtriage.decisions import DecisionSet, PartitionMatroid, TopS
from armtriage.environments import Environment
from armtriage.graphs.feedback import FeedbackGraph
from armtriage.kernels.record import Floats, Ints
from armtriage.theory.covers import greedy_cover, make_ready, smallest_cover, smallest_dominating_set
from armtriage.theory.independence import EDGES, Clock, largest_independent_set, say_how

CONSTANTS: tuple[str, ...] = ("repaired", "printed")
_LISTED = 10_000  # decisions of a family that is listed; larger ones are asked through their oracle
_TIES = 1000  # decisions that may tie for the best: each takes two questions for every arm
_ROUNDING = 1e-12
"""By how much means or totals may differ that were meant to be equal."""


class Bracket(NamedTuple):
    """A number between two limits, both certain, and how they were found.

    Examples
    --------
    >>> number = Bracket(4, 5, "bracket: greedy and degrees, stopped after 10 s")
    >>> number.exact, str(number)
    (False, '4 to 5 (bracket: greedy and degrees, stopped after 10 s)')
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
    size, and trees, stars and rings in seconds. Other graphs of up to 50,000 edges go to HiGHS, which finishes for most
    sparse networks of a thousand arms and for dense ones of up to 60 or so; otherwise the answer is a bracket, and says
    so. The lower limit is the size of a set that was found, see `independent_set`.

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
    >>> str(independence_number(FeedbackGraph.erdos_renyi(40, 0.2, seed=7)))
    '9 (exact: integer programming)'
    """
    arms, bound, how = largest_independent_set(_check_graph(graph), check_number("time_limit", time_limit))
    return Bracket(arms.size, bound, how)


def independent_set(graph: FeedbackGraph, *, time_limit: float = 10.0) -> Ints:
    """Return arms, ascending, none of which reveals another: as many as `independence_number` has for a lower limit.

    Parameters
    ----------
    graph, time_limit
        See `independence_number`.

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

    Parameters
    ----------
    graph : FeedbackGraph
        Which arms each arm reveals.

    Examples
    --------
    >>> greedy_dominating_set(FeedbackGraph.from_edges(5, [(1, 0), (1, 2), (3, 4)]))
    array([1, 3])
    """
    return greedy_cover(_check_graph(graph).arrays, np.ones(graph.n_arms, np.uint8), True)


def chvatal_dominating_set(graph: FeedbackGraph) -> Ints:
    """Return the arms that Chvatal's greedy picks, in order, until all arms are revealed.

    Each is the arm, of all arms, that reveals most of those not yet revealed; ties go to the smallest. There are at
    most 1 + ln(K) times as many as the domination number.

    Parameters
    ----------
    graph : FeedbackGraph
        Which arms each arm reveals.

    Examples
    --------
    >>> graph = FeedbackGraph.from_edges(6, [(0, 1), (0, 2), (0, 3), (1, 4), (1, 5)])
    >>> chvatal_dominating_set(graph), greedy_dominating_set(graph)
    (array([0, 1]), array([0, 4, 5]))
    """
    return greedy_cover(_check_graph(graph).arrays, np.ones(graph.n_arms, np.uint8), False)


def layer_size(n_arms: int, alpha: int | Bracket, *, undirected: bool = False, constants: str = "repaired") -> float:
    """Return how many arms the greedy of Algorithm 1 picks at most to see every active arm once.

    That is alpha on undirected graphs, ``alpha + ceil(2 alpha ln(K / alpha))`` on directed ones. The printed
    ``100 alpha ln(K)**2`` follows from a lemma that is false for this greedy, and is far larger.

    Parameters
    ----------
    n_arms : int
        K.
    alpha : int or Bracket
        The independence number; of a bracket the upper end counts.
    undirected : bool
        Whether every edge goes both ways.
    constants : {"repaired", "printed"}
        Which of the two.

    Examples
    --------
    >>> layer_size(100, 10), layer_size(100, 10, undirected=True)
    (57.0, 10.0)
    >>> round(layer_size(100, 10, constants="printed"))
    21208
    """
    n_arms = check_count("n_arms", n_arms, 1)
    size = at_most("alpha", alpha, n_arms)
    if check_choice("constants", constants, CONSTANTS) == "printed":
        return 100.0 * size * math.log(n_arms) ** 2
    if check_flag("undirected", undirected):
        return float(size)
    # Never more than all arms: a pick is never picked again in a layer.
    return float(min(size + math.ceil(2.0 * size * math.log(n_arms / size)), n_arms))


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
    Bracket(lower=3, upper=3, how='exact: greedy and degrees')
    """
    return Bracket(*_family_cover(*_check_pair(decisions, graph), check_number("time_limit", time_limit)))


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
    return Bracket(*_active_cover(*pair, limit, check_number("time_limit", time_limit)))


def gap(means: ArrayLike | Environment, budget: int | None = None) -> float:
    """Return by how much the best exceeds the next best, the Delta_* of the bounds; infinite if all are equally good.

    With a budget S it is the S-th largest mean minus the next smaller mean. With the decision set of an environment
    it is the largest total of a decision minus the next smaller total.

    Parameters
    ----------
    means : array_like or StochasticEnvironment
        The mean reward of each arm, or an environment that has them as `means`; costs count as lost rewards.
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
    costs = getattr(means, "direction", "maximize") == "minimize"
    means = getattr(means, "means", means)
    values = as_numbers("means", means).astype(np.float64) * (-1.0 if costs else 1.0)
    if values.ndim != 1 or not values.size or not np.isfinite(values).all():
        raise ValueError(f"means must be a non-empty list of finite numbers, got {means!r:.100}")
    if decisions is not None:
        if budget is not None:
            raise ValueError(f"budget must be left out where decisions are given, got {budget!r}")
        return _gap_of_decisions(values, decisions)
    if budget is None:
        raise ValueError("budget must be given where there are no decisions, got None")
    return _gap_of_arms(values, check_count("budget", budget, 1, values.size))


def at_most(name: str, number: Any, most: int) -> int:
    """Return a graph number from 1 to `most`, or the upper end of what brackets it."""
    return check_count(name, getattr(number, "upper", number), 1, most)


def _check_graph(graph: FeedbackGraph) -> FeedbackGraph:
    return check_kind("graph", graph, FeedbackGraph)


def _check_pair(decisions: DecisionSet, graph: FeedbackGraph) -> tuple[DecisionSet, FeedbackGraph]:
    check_kind("decisions", decisions, DecisionSet)
    if decisions.n_arms != _check_graph(graph).n_arms:
        raise ValueError(f"decisions must have the {graph.n_arms} arms of graph, got {decisions.n_arms}")
    return decisions, graph


def _listed(decisions: DecisionSet, graph: FeedbackGraph) -> list[Ints] | None:
    """Return the decisions, if there are few enough."""
    count = decisions.count()
    if count is None or count > _LISTED or count * graph.n_arms > 10 * EDGES:
        return None
    return list(decisions)


def _members(decisions: DecisionSet) -> Ints:
    """Return the arms that are in some decision."""
    return np.flatnonzero(decisions.maximise_each_including(np.zeros(decisions.n_arms)) > -np.inf)


def _shown(graph: FeedbackGraph, listed: list[Ints], arms: Ints) -> Any:
    """Return which of `arms` each decision reveals, with a row for each decision."""
    from scipy.sparse import csr_array

    shown = [graph.revealed_by(one) for one in listed]
    starts = np.append(0, np.cumsum([one.size for one in shown]))
    data = np.ones(starts[-1], np.int8), np.concatenate(shown), starts
    return csr_array(data, shape=(len(listed), graph.n_arms))[:, arms]


def _gains(graph: FeedbackGraph, wanted: NDArray[np.bool_]) -> Floats:
    """Return how many of the wanted arms each arm reveals."""
    start, stop, indptr, indices = graph.arrays
    before = np.append(0, np.cumsum(wanted))
    rows = np.repeat(np.arange(graph.n_arms), np.diff(indptr))
    listed = np.bincount(rows, wanted[indices], minlength=graph.n_arms)
    return np.asarray(before[stop] - before[start] + listed, np.float64)


def _family_cover(decisions: DecisionSet, graph: FeedbackGraph, time_limit: float) -> tuple[int, int, str]:
    """Return limits of how many decisions reveal all arms that are in some decision, and how they were found."""
    if isinstance(decisions, TopS):
        arms, bound, how = smallest_dominating_set(graph, time_limit)
        lower, upper = -(-bound // decisions.budget), -(-arms.size // decisions.budget)
        met = lower == upper and bound < arms.size
        return lower, upper, say_how(True, ["domination number over the budget"]) if met else how
    make_ready()
    clock = Clock(time_limit)
    members, listed = _members(decisions), _listed(decisions, graph)
    if listed is not None:
        answer = smallest_cover(_shown(graph, listed, members), clock)
        return answer.bound, answer.chosen.size, answer.how
    upper = _greedy_cover(decisions, graph, members, clock.part(0.5))
    arms_needed = 1
    if graph.n_edges <= EDGES:
        arms_needed = smallest_cover(graph.to_sparse()[members][:, members], clock).bound
    lower = -(-arms_needed // decisions.size)
    return lower, upper, say_how(lower == upper, ["arms needed", "greedy"], "too many decisions to list")


def _greedy_cover(decisions: DecisionSet, graph: FeedbackGraph, members: Ints, clock: Clock) -> int:
    """Return how many decisions cover all members if each is the best for what its arms reveal of those missing."""
    missing = np.zeros(graph.n_arms, np.bool_)
    missing[members] = True
    count = 0
    while missing.any():
        if clock.left <= 0:
            return count + int(missing.sum())
        best = decisions.maximise(_gains(graph, missing))
        assert best is not None
        missing[graph.revealed_by(best)] = False
        count += 1
    return count


def _active_cover(decisions: DecisionSet, graph: FeedbackGraph, limit: int, time_limit: float) -> tuple[int, int, str]:
    """Return limits of how many of its own decisions a part of the family needs at most to reveal all its arms."""
    count = decisions.count()
    if count is not None and count <= limit:
        need = _enumerate(graph, list(decisions))
        return need, need, say_how(True, ["all sub-families"])
    make_ready()
    clock = Clock(time_limit)
    members = _members(decisions)
    inner = graph
    if members.size < graph.n_arms and graph.n_edges <= EDGES:
        inner = FeedbackGraph.from_sparse(graph.to_sparse()[members][:, members])
    apart, most, _ = largest_independent_set(inner, 0.4 * clock.left)
    upper = int(layer_size(inner.n_arms, most, undirected=inner.is_undirected))
    smallest = decisions.maximise(-np.ones(decisions.n_arms))
    assert smallest is not None
    # One decision shows itself; each arm that is still missing asks for one more at most.
    upper = min(upper, 1 + members.size - smallest.size, members.size if count is None else count)
    if decisions.size == 1 and inner.n_arms == members.size:
        lower = apart.size
    else:
        lower = _family_cover(decisions, graph, clock.left)[0]
    how = say_how(lower == upper, ["a sub-family", "independence number"], "too many sub-families to look at")
    return lower, upper, how


def _enumerate(graph: FeedbackGraph, listed: list[Ints]) -> int:
    """Return the largest number of its own decisions that any sub-family needs.

    Sub-family B does with its part C if B lies between C and all decisions whose arms C reveals.
    """
    n = len(listed)
    arms = [sum(1 << arm for arm in one.tolist()) for one in listed]
    shows = [sum(1 << arm for arm in graph.revealed_by(one).tolist()) for one in listed]
    shown = [0] * (1 << n)
    need = np.zeros(1 << n, np.int8)
    need[0] = 1
    for part in range(1, 1 << n):
        shown[part] = shown[part & (part - 1)] | shows[(part & -part).bit_length() - 1]
    for part in sorted(range(1, 1 << n), key=int.bit_count):
        between = np.array([part])
        for i in range(n):
            if not part >> i & 1 and not arms[i] & ~shown[part]:
                between = np.concatenate([between, between | (1 << i)])
        need[between[need[between] == 0]] = part.bit_count()
        if need.all():
            break
    return int(need.max())


def _gap_of_arms(means: Floats, budget: int) -> float:
    """Return the `budget`-th largest mean minus the next smaller one; infinite if there is none."""
    last = np.partition(means, means.size - budget)[means.size - budget]
    below = means[means < last - _ROUNDING]
    return float(last - below.max()) if below.size else np.inf


def _gap_of_decisions(means: Floats, decisions: DecisionSet) -> float:
    """Return the largest total mean of a decision minus the next smaller one; infinite if there is none."""
    # Sums of such multiples are exact in floating point, so an oracle cannot mistake the best decision.
    bits = 50 - decisions.size.bit_length()
    weights = np.ldexp(np.rint(np.ldexp(means, bits)), -bits)
    rounding = max(_ROUNDING, decisions.size * 2.0**-bits)
    if isinstance(decisions, PartitionMatroid):
        return _gap_by_swaps(weights, decisions, rounding)
    return _gap_by_oracle(weights, decisions, rounding)


def _gap_by_swaps(weights: Floats, slates: PartitionMatroid, rounding: float) -> float:
    """Return the smallest loss of a swap inside a group: a worse slate differs by swaps, one of which loses no more."""
    best = slates.maximise(weights)
    chosen = np.zeros(slates.n_arms, np.bool_)
    chosen[best] = True
    gap = np.inf
    for group in range(slates.capacities.size):
        inside = np.unique(weights[chosen & (slates.groups == group)])
        outside = np.unique(weights[~chosen & (slates.groups == group)])
        below = np.searchsorted(outside, inside - rounding)
        losses = inside[below > 0] - outside[below[below > 0] - 1]
        gap = min(gap, float(losses.min(initial=np.inf)))
    return gap


def _gap_by_oracle(weights: Floats, decisions: DecisionSet, rounding: float) -> float:
    """Return the gap by questions with arms forced in and out.

    If every other decision is worse than the best, then the next best is the best with some arm more or less. Where one
    ties, the family is split by an arm on which the two differ; there are as many ends as decisions that tie.
    """
    best = decisions.maximise(weights)
    assert best is not None
    top = float(weights[best].sum())
    gap, ends = np.inf, 0
    parts: list[tuple[list[int], list[int]]] = [([], [])]
    while parts:
        include, exclude = parts.pop()
        inside = top - decisions.maximise_each_including(weights, include=include, exclude=exclude)
        outside = top - decisions.maximise_each_excluding(weights, include=include, exclude=exclude)
        losses = np.concatenate([inside, outside])
        gap = min(gap, float(losses[losses > rounding].min(initial=np.inf)))
        tied = np.flatnonzero((inside <= rounding) & (outside <= rounding))
        if tied.size:
            parts += [([*include, int(tied[0])], exclude), (include, [*exclude, int(tied[0])])]
        else:
            ends += 1
        if ends + len(parts) > _TIES:
            raise ValueError(f"at most {_TIES} decisions may tie for the best, got more in {decisions!r}")
    return gap
