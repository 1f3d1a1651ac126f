"""Paths: the routes from one node of a network to another."""

from __future__ import annotations

from collections.abc import Iterable
from typing import Any, Self

import numpy as np
from numpy.typing import ArrayLike

from armtriage._arguments import LARGEST, check_arms, check_count, check_each, check_flag, check_pairs
from armtriage.arms import Name
from armtriage.decisions.acyclic import AcyclicRoutes, rank_nodes
from armtriage.decisions.compiled import CompiledOracle
from armtriage.decisions.cyclic import CyclicRoutes
from armtriage.decisions.sets import DecisionSet, Marks, as_names, frozen, named_in, written
from armtriage.kernels.record import Floats, Ints


class Paths(DecisionSet):
    """The paths from a source to a target that visit no node twice; the arms are the edges of the network.

    The best path is the heaviest: for lengths or delays, which one wants small, give their negatives as weights, and
    policies ``direction="minimize"``. Where the network has cycles, weights must be at most 0 (see `needs_costs`), the
    oracle is Dijkstra's, and forcing arms *in* may take an integer programme.

    Parallel edges are different arms. Edges on no such path are arms that no decision contains. On a network with
    cycles `size` is one less than the number of nodes that can be visited, which no path exceeds.

    Parameters
    ----------
    n_nodes : int
        The number of nodes, which are 0 to ``n_nodes - 1``. For nodes with names see `from_edges`.
    edges : array_like of shape (m, 2)
        From which node to which each edge leads; edge number a is arm a.
    source, target : int
        Where each path begins and ends.
    directed : bool
        If False, every edge leads both ways, and is one arm all the same.

    Examples
    --------
    >>> routes = Paths(4, [(0, 1), (0, 2), (1, 3), (2, 3), (1, 2)], source=0, target=3)
    >>> routes.maximise([-1.0, -5.0, -9.0, -2.0, -1.0])
    array([0, 3, 4])
    >>> routes.count(), routes.size
    (3, 3)
    """

    def __init__(self, n_nodes: int, edges: ArrayLike, source: int, target: int, directed: bool = True) -> None:
        self.n_nodes = check_count("n_nodes", n_nodes, 2, LARGEST)
        self.edges = frozen(check_pairs(edges, self.n_nodes, self.n_nodes))
        self.source = check_count("source", source, 0, self.n_nodes - 1)
        self.target = check_count("target", target, 0, self.n_nodes - 1)
        self.directed = check_flag("directed", directed)
        self._nodes: list[Name] | None = None
        self._names: list[Name] | None = None
        if self.source == self.target:
            raise ValueError(f"target must differ from source, got {self.target} for both")
        n_arms = len(self.edges)
        arcs = self.edges if self.directed else np.concatenate([self.edges, self.edges[:, ::-1]])
        arm_of = np.arange(len(arcs)) % n_arms
        # A path that visits no node twice neither enters its source nor leaves its target.
        used = (arcs[:, 0] != arcs[:, 1]) & (arcs[:, 1] != self.source) & (arcs[:, 0] != self.target)
        used &= _reached(arcs[used], self.n_nodes, self.source)[arcs[:, 0]]
        used &= _reached(arcs[used][:, ::-1], self.n_nodes, self.target)[arcs[:, 1]]
        if not used.any():
            raise ValueError(f"edges must lead from source {self.source} to target {self.target}, got no such path")
        ranks, ranked = rank_nodes(arcs, self.n_nodes)
        if ranked < self.n_nodes:
            ranks, ranked = rank_nodes(arcs[used], self.n_nodes)
        self._routes: AcyclicRoutes | CyclicRoutes
        if ranked < self.n_nodes:
            self._routes = CyclicRoutes(arcs, arm_of, used, self.n_nodes, self.source, self.target)
        else:
            # Without cycles no arm leads both ways: its arc is the one that is used, if any.
            own = np.where(used[-n_arms:], len(arcs) - n_arms, 0) + np.arange(n_arms)
            ends = ranks[arcs[own]]
            self._routes = AcyclicRoutes(ends, used[own], self.n_nodes, int(ranks[source]), int(ranks[target]))
        super().__init__(n_arms, self._routes.longest())

    @classmethod
    def from_edges(cls, edges: Iterable[tuple[Any, ...]], source: Name, target: Name, directed: bool = True) -> Self:
        """Return the paths of a network whose nodes have names; its edges are the names of the arms.

        Parameters
        ----------
        edges : iterable of tuples
            ``(u, v)``, or ``(u, v, key)`` to tell edges between the same nodes apart. Nodes are str, int or tuples of
            them.
        source, target : str, int or tuple
            Where each path begins and ends.
        directed : bool
            If False, every edge leads both ways.

        Examples
        --------
        >>> roads = [("home", "ring"), ("home", "park"), ("ring", "work"), ("park", "work", "foot"), ("park", "work")]
        >>> routes = Paths.from_edges(roads, "home", "work", directed=False)
        >>> best = routes.maximise([-10, -15, -30, -20, -12])
        >>> [routes.names[arm] for arm in best], routes.route(best)
        ([('home', 'park'), ('park', 'work')], ['home', 'park', 'work'])
        """
        if isinstance(edges, str) or not isinstance(edges, Iterable):
            raise TypeError(f"edges must be tuples (u, v) or (u, v, key), got {edges!r}")
        pairs, numbers = [], dict[Any, int]()
        given = [tuple(edge) if isinstance(edge, list) else edge for edge in edges]
        for edge in given:
            if not isinstance(edge, tuple) or len(edge) not in (2, 3):
                raise ValueError(f"edges must be tuples (u, v) or (u, v, key), got {edge!r}")
        names = as_names("edges", given)
        for tail, head, *_ in given:
            pairs.append((numbers.setdefault(tail, len(numbers)), numbers.setdefault(head, len(numbers))))
        return cls._named(list(numbers), pairs, names, source, target, directed)

    @classmethod
    def from_networkx(cls, graph: Any, source: Name, target: Name) -> Self:
        """Return the paths of a NetworkX graph, directed or not; its edges are the names of the arms.

        They are ``(u, v)``, in a multigraph ``(u, v, key)``, in the order in which the graph gives them.

        Examples
        --------
        >>> import networkx as nx
        >>> streets = Paths.from_networkx(nx.grid_2d_graph(3, 3), source=(0, 0), target=(2, 2))
        >>> streets.n_arms, streets.count(), streets.names[0]
        (12, 12, ((0, 0), (1, 0)))
        """
        if not all(callable(getattr(graph, name, None)) for name in ("nodes", "edges", "is_directed")):
            raise TypeError(f"graph must be a NetworkX graph, got {type(graph).__name__}")
        nodes = as_names("the nodes of graph", list(graph.nodes()))
        names = list(graph.edges(keys=True)) if graph.is_multigraph() else list(graph.edges())
        numbers = {node: number for number, node in enumerate(nodes)}
        pairs = [(numbers[edge[0]], numbers[edge[1]]) for edge in names]
        return cls._named(nodes, pairs, as_names("the edges of graph", names), source, target, graph.is_directed())

    @classmethod
    def _named(
        cls, nodes: list[Any], pairs: list[tuple[int, int]], names: list[Name], source: Any, target: Any, directed: bool
    ) -> Self:
        for argument, node in (("source", source), ("target", target)):
            if node not in nodes:
                raise ValueError(f"{argument} must be a node, got {node!r}")
        if source == target:
            raise ValueError(f"target must differ from source, got {target!r} for both")
        ends = nodes.index(source), nodes.index(target)
        try:
            made = cls(len(nodes), pairs, *ends, directed)
        except ValueError as error:
            raise ValueError(f"{error} (source is {source!r}, target {target!r})") from None
        made._nodes, made._names = nodes, names
        return made

    @property
    def nodes(self) -> list[Name] | None:
        """What the nodes are called, by their numbers; None if they have no names."""
        return None if self._nodes is None else self._nodes.copy()

    @property
    def names(self) -> list[Name] | None:
        """What the arms are called: the edges as they were given; None if nodes have no names."""
        return None if self._names is None else self._names.copy()

    @property
    def needs_costs(self) -> bool:
        """Whether there are cycles, so that weights must be at most 0: the heaviest path is out of reach otherwise."""
        return isinstance(self._routes, CyclicRoutes)

    def route(self, arms: ArrayLike) -> list[Name]:
        """Return the nodes that a decision visits, from source to target, by name if they have names.

        Examples
        --------
        >>> Paths(4, [(2, 3), (0, 1), (1, 2)], source=0, target=3).route([0, 1, 2])
        [0, 1, 2, 3]
        """
        visited = self._visited(check_arms(arms, self.n_arms))
        if visited is None:
            raise ValueError(f"arms must be a decision of {self!r}, got {arms!r}")
        return [node if self._nodes is None else self._nodes[node] for node in visited]

    def _visited(self, arms: Ints) -> list[int] | None:
        """Return the nodes on the path of these arms; None if they are not just a path."""
        onward: dict[int, list[tuple[int, int]]] = {}
        for arm in arms.tolist():
            tail, head = self.edges[arm].tolist()
            onward.setdefault(tail, []).append((arm, head))
            if not self.directed:
                onward.setdefault(head, []).append((arm, tail))
        visited, before = [self.source], -1
        while visited[-1] != self.target:
            ways = [(arm, head) for arm, head in onward.get(visited[-1], []) if arm != before]
            if len(ways) != 1 or len(visited) > arms.size:
                return None
            before = ways[0][0]
            visited.append(ways[0][1])
        return visited if len(visited) == arms.size + 1 else None

    def _check_weights(self, weights: ArrayLike) -> Floats:
        values = super()._check_weights(weights)
        if self.needs_costs:
            check_each("weights", values, values <= 0.0, "be at most 0 on a network with cycles")
        return values

    def _maximise(self, weights: Floats, marks: Marks) -> Ints | None:
        return self._routes.maximise(weights, marks)

    def _exchange(self, weights: Floats, marks: Marks) -> tuple[Floats, Floats] | None:
        return self._routes.exchange(weights, marks) if isinstance(self._routes, AcyclicRoutes) else None

    def _allows(self, marks: Marks) -> bool:
        return self._visited(np.flatnonzero(marks == 1)) is not None

    def count(self) -> int | None:
        """Return the exact number of paths; None if there are cycles, and too many paths to list."""
        return self._routes.count() if isinstance(self._routes, AcyclicRoutes) else super().count()

    def _list(self) -> list[tuple[int, ...]] | None:
        return self._routes.listed()

    def _arguments(self) -> dict[str, Any]:
        own = {"n_nodes": self.n_nodes, "edges": self.edges, "source": self.source, "target": self.target}
        if not self.directed:
            own["directed"] = False
        if self._nodes is not None and self._names is not None:
            own |= {"nodes": written(self._nodes), "names": written(self._names)}
        return own

    @classmethod
    def _of(cls, arguments: dict[str, Any]) -> Self:
        rest = {name: value for name, value in arguments.items() if name not in ("nodes", "names")}
        made = cls(**rest)
        if len(rest) == len(arguments):
            return made
        nodes = named_in(arguments["nodes"], made.n_nodes)
        names = named_in(arguments["names"], made.n_arms)
        for name, (tail, head) in zip(names, made.edges.tolist(), strict=True):
            if not isinstance(name, tuple) or len(name) not in (2, 3) or name[:2] != (nodes[tail], nodes[head]):
                raise ValueError(f"names must be the edges between nodes, got {name!r}")
        made._nodes, made._names = nodes, names
        return made

    def _compiled(self, offset: float) -> CompiledOracle | None:
        return self._routes.compiled(offset) if isinstance(self._routes, AcyclicRoutes) else None

    def __repr__(self) -> str:
        if self._nodes is None:
            return super().__repr__()
        ends = f"source={self._nodes[self.source]!r}, target={self._nodes[self.target]!r}"
        return f"Paths({self.n_nodes} nodes, {self.n_arms} edges, {ends}, directed={self.directed})"


def _reached(arcs: Ints, n_nodes: int, source: int) -> np.ndarray[Any, np.dtype[np.bool_]]:
    """Return which nodes arcs lead to, from the source on."""
    from scipy.sparse import csr_array
    from scipy.sparse.csgraph import breadth_first_order

    matrix = csr_array((np.ones(len(arcs)), (arcs[:, 0], arcs[:, 1])), (n_nodes, n_nodes))
    reached = np.zeros(n_nodes, np.bool_)
    reached[breadth_first_order(matrix, source, return_predecessors=False)] = True
    return reached
