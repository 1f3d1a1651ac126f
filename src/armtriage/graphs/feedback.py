"""Feedback graphs: which arms' rewards a chosen arm reveals, stored compactly for a million arms."""

from __future__ import annotations

from collections.abc import Iterable, Mapping
from functools import cached_property
from typing import TYPE_CHECKING, Any, Self

import numpy as np
import numpy.typing as npt

from armtriage._arguments import (
    LARGEST,
    check_between,
    check_choice,
    check_edges,
    check_whole,
    check_within,
    whole_numbers,
)
from armtriage._numbers import short
from armtriage._tables import html_facts
from armtriage.graphs import layout
from armtriage.graphs.layout import SmallInts
from armtriage.kernels.jit import kernel
from armtriage.kernels.random import check_seed
from armtriage.kernels.record import Ints, Record

if TYPE_CHECKING:
    from scipy.sparse import csr_array


class GraphArrays(Record, frozen=True):
    """A feedback graph in the one layout that kernels read.

    Arm ``a`` reveals the arms from ``start[a]`` up to but excluding ``stop[a]``, the longest run of
    consecutive revealed arms that contains ``a``, and the others, ``indices[indptr[a]:indptr[a + 1]]``,
    ascending. Equal graphs have equal arrays.
    """

    start: SmallInts
    stop: SmallInts
    indptr: Ints
    indices: SmallInts


@kernel
def reveals(graph: GraphArrays, arm: int, other: int) -> bool:
    """Whether an arm reveals another."""
    if graph.start[arm] <= other < graph.stop[arm]:
        return True
    low, high = graph.indptr[arm], graph.indptr[arm + 1]
    while low < high:
        middle = (low + high) >> 1
        if graph.indices[middle] < other:
            low = middle + 1
        else:
            high = middle
    return low < graph.indptr[arm + 1] and graph.indices[low] == other  # type: ignore[no-any-return]


@kernel
def reveal(graph: GraphArrays, arms: Ints, stamp: Ints, mark: int, out: Ints) -> int:
    """Write every arm revealed by `arms` once into `out`, in any order; return how many.

    An arm is written already if and only if its `stamp` equals `mark`: pass a new mark each time.
    """
    count = 0
    low = 0
    high = 0
    for arm in arms:
        first = int(graph.start[arm])
        last = int(graph.stop[arm])
        # Nested and shared runs are walked once: only what lies outside the range just covered is looked at.
        if first > high or last < low:
            low = first
            high = first
        for b in range(first, min(last, low)):
            if stamp[b] != mark:
                stamp[b] = mark
                out[count] = b
                count += 1
        for b in range(max(first, high), last):
            if stamp[b] != mark:
                stamp[b] = mark
                out[count] = b
                count += 1
        low = min(low, first)
        high = max(high, last)
        for e in range(graph.indptr[arm], graph.indptr[arm + 1]):
            c = graph.indices[e]
            if stamp[c] != mark:
                stamp[c] = mark
                out[count] = c
                count += 1
    return count


class FeedbackGraph:
    """Which arms' rewards each arm reveals when it is chosen; every arm reveals its own.

    Make one with a class method such as `semi_bandit`, `cliques` or `from_edges`. Equal graphs compare equal,
    however they were made.

    Parameters
    ----------
    arrays : GraphArrays
        The compact layout, trusted as it is; `from_arrays` checks it.

    Examples
    --------
    >>> graph = FeedbackGraph.from_edges(4, [(0, 1), (0, 3)])
    >>> graph
    FeedbackGraph(n_arms=4, n_edges=6)
    >>> graph.revealed_by([0, 2])
    array([0, 1, 2, 3])
    """

    def __init__(self, arrays: GraphArrays) -> None:
        if not isinstance(arrays, GraphArrays):
            raise TypeError(f"arrays must be GraphArrays, got {arrays!r}; see FeedbackGraph.from_edges and others")
        self._arrays = arrays

    @classmethod
    def _of_runs(cls, start: SmallInts, stop: SmallInts) -> Self:
        return cls(GraphArrays(start, stop, np.zeros(start.size + 1, np.int64), np.empty(0, np.int32)))

    @classmethod
    def semi_bandit(cls, n_arms: int) -> Self:
        """Return the graph in which each arm reveals itself only.

        Examples
        --------
        >>> FeedbackGraph.semi_bandit(5).revealed_by([1, 3])
        array([1, 3])
        """
        n = check_whole("n_arms", n_arms, 1, LARGEST)
        arms = np.arange(n, dtype=np.int32)
        return cls._of_runs(arms, arms + np.int32(1))

    @classmethod
    def full_information(cls, n_arms: int) -> Self:
        """Return the graph in which every arm reveals all arms.

        Examples
        --------
        >>> FeedbackGraph.full_information(1_000_000).n_edges
        1000000000000
        """
        n = check_whole("n_arms", n_arms, 1, LARGEST)
        return cls._of_runs(np.zeros(n, np.int32), np.full(n, n, np.int32))

    @classmethod
    def cliques(cls, sizes: npt.ArrayLike) -> Self:
        """Return the graph in which consecutive groups of arms, of these sizes, reveal each other.

        Examples
        --------
        >>> FeedbackGraph.cliques([2, 3]).revealed_by(3)
        array([2, 3, 4])
        """
        counts = whole_numbers("sizes", sizes)
        if counts.ndim != 1 or counts.size == 0:
            raise ValueError(
                f"sizes must be a list of one or more whole numbers from 1, such as [2, 3], got {sizes!r:.100}"
            )
        counts = check_within("sizes", counts, 1, LARGEST)
        ends = np.cumsum(counts)
        if ends[-1] > LARGEST:
            raise ValueError(f"sizes must sum to at most {LARGEST}, got {ends[-1]}")
        first, last = (ends - counts).astype(np.int32), ends.astype(np.int32)
        return cls._of_runs(np.repeat(first, counts), np.repeat(last, counts))

    @classmethod
    def threshold(cls, n_arms: int, direction: str = "up") -> Self:
        """Return the graph of a ladder, in which an arm reveals all arms on one side of it.

        "up", every arm >= a: a seller who sees the bids from a reserve price upwards knows what any higher
        reserve would have earned. "down", every arm <= a: a shop that stocks a units knows what it would have
        sold with fewer. What is revealed may not depend on the outcome, as it does when a buyer only says no.

        Examples
        --------
        >>> FeedbackGraph.threshold(5, "up").revealed_by(3)
        array([3, 4])
        >>> FeedbackGraph.threshold(5, "down").revealed_by(3)
        array([0, 1, 2, 3])
        """
        n = check_whole("n_arms", n_arms, 1, LARGEST)
        arms = np.arange(n, dtype=np.int32)
        if check_choice("direction", direction, ("up", "down")) == "up":
            return cls._of_runs(arms, np.full(n, n, np.int32))
        return cls._of_runs(np.zeros(n, np.int32), arms + np.int32(1))

    @classmethod
    def from_edges(
        cls, n_arms: int, edges: npt.ArrayLike | Iterable[tuple[int, int]], *, undirected: bool = False
    ) -> Self:
        """Return the graph with these edges and all self-loops.

        Parameters
        ----------
        n_arms : int
            The number of arms, which are 0 to ``n_arms - 1``.
        edges : array-like of shape (m, 2) or iterable of pairs
            A pair (a, b) says that arm a reveals arm b; repeated pairs count once.
        undirected : bool
            Whether b reveals a as well.

        Examples
        --------
        >>> FeedbackGraph.from_edges(3, [(0, 2)]).revealed_by(0)
        array([0, 2])
        """
        n = check_whole("n_arms", n_arms, 1, LARGEST)
        pairs = check_edges(n, edges)
        return cls(GraphArrays(*layout.canonical(n, pairs[:, 0], pairs[:, 1], undirected)))

    @classmethod
    def from_sparse(cls, matrix: Any) -> Self:
        """Return the graph of a square matrix, SciPy sparse or dense: a reveals b if entry (a, b) is not 0.

        Examples
        --------
        >>> FeedbackGraph.from_sparse([[1, 0], [1, 1]]).revealed_by(1)
        array([0, 1])
        """
        return cls(GraphArrays(*layout.canonical(*layout.matrix_edges(matrix))))

    @classmethod
    def from_networkx(cls, graph: Any) -> Self:
        """Return the graph of a NetworkX graph; its nodes, in their order, become arms 0, 1, and so on.

        An undirected edge reveals both ways.

        Examples
        --------
        >>> import networkx as nx
        >>> FeedbackGraph.from_networkx(nx.path_graph(4)).revealed_by(1)
        array([0, 1, 2])
        """
        if not all(callable(getattr(graph, name, None)) for name in ("nodes", "edges", "is_directed")):
            raise TypeError(f"graph must be a NetworkX graph, got {type(graph).__name__}")
        index = {node: arm for arm, node in enumerate(graph.nodes())}
        n = check_whole("the number of nodes of graph", len(index), 1, LARGEST)
        pairs = np.array([(index[a], index[b]) for a, b in graph.edges()], np.int64).reshape(-1, 2)
        return cls(GraphArrays(*layout.canonical(n, pairs[:, 0], pairs[:, 1], not graph.is_directed())))

    @classmethod
    def erdos_renyi(cls, n_arms: int, p: float, seed: int | None = None, *, directed: bool = True) -> Self:
        """Return a random graph: each arm reveals each other arm with probability `p`, independently.

        Parameters
        ----------
        n_arms : int
            The number of arms.
        p : float
            The probability of an edge, from 0 to 1.
        seed : int, optional
            The same seed gives the same graph; None draws a fresh one.
        directed : bool
            If False, one draw decides both directions of a pair.

        Examples
        --------
        >>> FeedbackGraph.erdos_renyi(100, 0.1, seed=1).n_arms
        100
        """
        n = check_whole("n_arms", n_arms, 1, LARGEST)
        chance = check_between("p", p, 1.0)
        rng = np.random.default_rng(check_seed(seed))
        edges = layout.random_edges(rng, n, chance, directed)
        return cls(GraphArrays(*layout.canonical(n, *edges, both=not directed)))

    @classmethod
    def nearest(cls, points: npt.ArrayLike, radius: float | None = None, neighbours: int | None = None) -> Self:
        """Return the graph of arms that are points, such as sensors or items, and reveal what is near them.

        Parameters
        ----------
        points : array-like of shape (n,) or (n, d)
            Where the arms are; distances are Euclidean.
        radius : float, optional
            Each arm reveals all arms at most this far away.
        neighbours : int, optional
            Each arm reveals this many nearest other arms; ties fall either way. Give this or `radius`.

        Examples
        --------
        >>> FeedbackGraph.nearest([0.0, 1.0, 5.0], radius=1.5).revealed_by(0)
        array([0, 1])
        >>> FeedbackGraph.nearest([0.0, 1.0, 5.0], neighbours=1).revealed_by(2)
        array([1, 2])
        """
        edges = layout.near_edges(points, radius, neighbours)
        return cls(GraphArrays(*layout.canonical(*edges, both=radius is not None)))

    @classmethod
    def from_arrays(cls, arrays: Mapping[str, npt.NDArray[Any]]) -> Self:
        """Return the graph that `to_arrays` gave; arrays that are no such thing raise ValueError.

        Examples
        --------
        >>> graph = FeedbackGraph.cliques([2, 3])
        >>> FeedbackGraph.from_arrays(graph.to_arrays()) == graph
        True
        """
        return cls(GraphArrays(*layout.check_layout(arrays, GraphArrays._fields)))

    def to_arrays(self) -> dict[str, npt.NDArray[Any]]:
        """Return copies of the compact arrays, for saving.

        Examples
        --------
        >>> FeedbackGraph.cliques([2, 1]).to_arrays()["stop"]
        array([2, 2, 3], dtype=int32)
        """
        return {name: part.copy() for name, part in self._arrays._asdict().items()}

    @property
    def arrays(self) -> GraphArrays:
        """The compact layout itself, for kernels; do not modify it."""
        return self._arrays

    @property
    def n_arms(self) -> int:
        """The number of arms."""
        return self._arrays.start.size

    @cached_property
    def n_edges(self) -> int:
        """The number of ordered pairs (a, b) such that a reveals b, self-loops included."""
        return int(self.out_degrees.sum())

    @property
    def out_degrees(self) -> Ints:
        """How many arms each arm reveals, itself included.

        Examples
        --------
        >>> FeedbackGraph.threshold(3).out_degrees
        array([3, 2, 1])
        """
        return (self._arrays.stop - self._arrays.start) + np.diff(self._arrays.indptr)

    @cached_property
    def is_undirected(self) -> bool:
        """Whether b reveals a whenever a reveals b; found at first use, without expanding runs.

        A graph that is not undirected passes for one with probability below 2**-58.

        Examples
        --------
        >>> FeedbackGraph.cliques([2, 3]).is_undirected, FeedbackGraph.threshold(3).is_undirected
        (True, False)
        """
        return layout.both_ways(*self._arrays)

    def revealed_by(self, arms: int | npt.ArrayLike) -> Ints:
        """Return the arms that choosing `arms` reveals, ascending, each once.

        The cost depends on the number of arms revealed, not on the size of the graph.

        Examples
        --------
        >>> FeedbackGraph.cliques([2, 1, 2]).revealed_by([0, 1, 4])
        array([0, 1, 3, 4])
        """
        chosen = layout.distinct(check_within("arms", whole_numbers("arms", arms), 0, self.n_arms - 1).ravel())
        if chosen.size == 0 or self.n_edges == self.n_arms:
            return chosen
        start, stop, indptr, indices = self._arrays
        first = start[chosen]
        order = np.argsort(first, kind="stable")
        first = first[order]
        last = np.maximum.accumulate(stop[chosen[order]])
        gap = first[1:] > last[:-1]
        revealed = layout.expand(first[np.append(True, gap)], last[np.append(gap, True)])
        listed = layout.expand(indptr[chosen], indptr[chosen + 1])
        if listed.size == 0:
            return revealed
        return layout.distinct(np.concatenate([revealed, indices[listed]]))

    def with_arms(self, count: int, edges: Iterable[tuple[int, int]] = ()) -> FeedbackGraph:
        """Return the graph with more arms at the end, which reveal themselves and what `edges` say.

        Parameters
        ----------
        count : int
            How many arms are added.
        edges : iterable of (int, int)
            Pairs (a, b) such that a reveals b; one of the two must be a new arm.

        Examples
        --------
        >>> FeedbackGraph.full_information(2).with_arms(1, [(0, 2), (1, 2)]).to_sparse().toarray().astype(int)
        array([[1, 1, 1],
               [1, 1, 1],
               [0, 0, 1]])
        """
        n = self.n_arms
        total = n + check_whole("count", count, 0, LARGEST - n)
        pairs = np.array(list(edges), dtype=np.int64).reshape(-1, 2)
        check_within("edges", pairs, 0, total - 1)
        if np.any(pairs.max(axis=1, initial=0) < n):
            old = pairs[pairs.max(axis=1) < n][0].tolist()
            raise ValueError(f"edges must each have a new arm, from {n} to {total - 1}, got {tuple(old)}")
        return FeedbackGraph(GraphArrays(*layout.with_rows(tuple(self._arrays), total, pairs)))

    def to_sparse(self) -> csr_array[np.bool_]:
        """Return the whole matrix, self-loops included; entry (a, b) is True where a reveals b.

        Examples
        --------
        >>> FeedbackGraph.threshold(3).to_sparse().toarray().astype(int)
        array([[1, 1, 1],
               [0, 1, 1],
               [0, 0, 1]])
        """
        from scipy.sparse import csr_array

        start, stop, indptr, indices = self._arrays
        arms = np.arange(self.n_arms)
        row = np.concatenate([np.repeat(arms, stop - start), np.repeat(arms, np.diff(indptr))])
        column = np.concatenate([layout.expand(start, stop), indices])
        shape = (self.n_arms, self.n_arms)
        matrix = csr_array((np.ones(row.size, np.bool_), (row, column)), shape=shape)
        matrix.sort_indices()
        return matrix

    def __eq__(self, other: object) -> bool:
        if not isinstance(other, FeedbackGraph):
            return NotImplemented
        mine, theirs = self._arrays._asdict(), other._arrays._asdict()
        return all(np.array_equal(mine[name], theirs[name]) for name in mine)

    def __hash__(self) -> int:
        return hash((self.n_arms, self.n_edges))

    def _repr_html_(self) -> str:
        """Return a table for notebooks."""
        return html_facts(
            {
                "arms": f"{self.n_arms:,}",
                "edges, with those of an arm to itself": f"{self.n_edges:,}",
                "revealed by an arm, on average": short(self.n_edges / self.n_arms),
            }
        )

    def __repr__(self) -> str:
        return f"FeedbackGraph(n_arms={self.n_arms}, n_edges={self.n_edges})"


def as_graph(graph: FeedbackGraph | int) -> FeedbackGraph:
    """Return the graph; a number of arms stands for arms that reveal themselves only."""
    if isinstance(graph, int | np.integer) and not isinstance(graph, bool):
        return FeedbackGraph.semi_bandit(check_whole("graph", graph, 1, LARGEST))
    if not isinstance(graph, FeedbackGraph):
        raise TypeError(f"graph must be a FeedbackGraph or a number of arms, got {type(graph).__name__}")
    return graph
