"""Paths are found exactly, with cycles and without, by name if nodes have names; malformed networks are refused."""

from __future__ import annotations

from collections.abc import Callable
from itertools import pairwise
from typing import Any

import networkx as nx
import numpy as np
import pytest

from armtriage import DecisionSet, Paths
from armtriage.decisions import cyclic
from armtriage.decisions.sets import written
from decisions.spot_check import spot_check


def layered_edges(layers: int, width: int) -> np.ndarray:
    """All edges from each layer to the next, between a source and a target."""
    inner = [
        (1 + i * width + a, 1 + (i + 1) * width + b)
        for i in range(layers - 1)
        for a in range(width)
        for b in range(width)
    ]
    last = layers * width
    return np.array(
        [(0, 1 + a) for a in range(width)] + inner + [(last - width + 1 + a, last + 1) for a in range(width)],
        dtype=np.int64,
    )


def test_a_path_through_five_thousand_edges() -> None:
    edges = layered_edges(50, 10)
    weights = np.random.default_rng(6).normal(size=len(edges))
    routes = Paths(502, edges, 0, 501)
    assert len(edges) > 4900
    layer = np.zeros(1)
    for step in (weights[:10].reshape(1, 10), *weights[10:-10].reshape(49, 10, 10), weights[-10:].reshape(10, 1)):
        layer = (layer[:, None] + step).max(axis=0)
    assert weights[routes.maximise(weights)].sum() == pytest.approx(layer[0])
    spot_check(routes, weights, 6)


def test_the_count_of_paths_through_layers() -> None:
    assert Paths(402, layered_edges(20, 20), 0, 401).count() == 20**20


def grid(rows: int, columns: int) -> Paths:
    """Two-way streets, one arm for each direction, from a corner to the opposite one."""
    streets = nx.grid_2d_graph(rows, columns, create_using=nx.DiGraph)
    return Paths.from_networkx(streets, (0, 0), (rows - 1, columns - 1))


def test_a_cycle_that_no_path_can_use_does_not_count() -> None:
    # Nothing leaves the target, enters the source, or comes back from where there is no way on.
    back = Paths(5, [(0, 1), (1, 2), (2, 1), (1, 0), (3, 3), (1, 3), (3, 4), (4, 3)], 0, 2)
    assert not back.needs_costs
    assert back.maximise(np.ones(8)).tolist() == [0, 1]
    assert back.count() == 1
    assert Paths(3, [(0, 1), (1, 2), (2, 1)], 0, 2).size == 2
    assert not Paths(2, [(0, 1), (0, 1)], 1, 0, directed=False).needs_costs


@pytest.mark.parametrize("directed", [True, False])
def test_the_cheapest_of_many_routes_is_that_of_networkx(directed: bool) -> None:
    rng = np.random.default_rng(3)
    graph = nx.gnm_random_graph(150, 900, seed=3, directed=directed)
    routes = Paths.from_networkx(graph, 0, 149)
    assert routes.needs_costs
    for _ in range(5):
        costs = rng.integers(0, 6, routes.n_arms) / 4
        closed = rng.choice(routes.n_arms, 300, replace=False)
        for (tail, head), cost in zip(routes.names, costs, strict=True):
            graph.edges[tail, head]["cost"] = cost
        cut = nx.restricted_view(graph, [], [routes.names[arm] for arm in closed])
        found = routes.maximise(-costs, exclude=closed)
        assert costs[found].sum() == nx.dijkstra_path_length(cut, 0, 149, "cost")
        assert not np.isin(found, closed).any()
        assert routes.contains(found)
        assert len(routes.route(found)) == found.size + 1
        assert routes.maximise(-costs, exclude=closed).tolist() == found.tolist()


def test_values_on_a_network_with_cycles() -> None:
    routes = Paths.from_networkx(nx.grid_2d_graph(4, 4), (0, 0), (3, 3))
    spot_check(routes, -np.random.default_rng(4).random(routes.n_arms), 4, arms=5)


@pytest.mark.parametrize("directed", [True, False])
def test_forced_arms_that_lie_off_the_way(monkeypatch: pytest.MonkeyPatch, directed: bool) -> None:
    programmes = []

    def counted(*arguments: Any, **more: Any) -> Any:
        programmes.append(arguments)
        return best_subset(*arguments, **more)

    best_subset = cyclic.best_subset
    monkeypatch.setattr(cyclic, "best_subset", counted)
    rng = np.random.default_rng(5)
    found_none = 0
    for _ in range(12):
        edges = np.append(rng.integers(0, 7, (13, 2)), list(pairwise(range(7))), axis=0)
        routes = Paths(7, edges, 0, 6, directed)
        weights = -rng.integers(0, 5, routes.n_arms).astype(float)
        every = list(routes)
        for arms in rng.integers(0, routes.n_arms, (6, 2)):
            found = routes.maximise(weights, include=arms)
            totals = [weights[one].sum() for one in every if np.isin(arms, one).all()]
            if found is None:
                assert not totals
                found_none += 1
            else:
                assert np.isin(arms, found).all()
                assert weights[found].sum() == max(totals)
    assert 10 < len(programmes) < 72
    assert 10 < found_none < 62


def test_streets_of_no_cost_lead_nobody_in_circles() -> None:
    ring = Paths(4, [(0, 1), (1, 2), (2, 1), (2, 0), (1, 3), (2, 3)], 0, 3)
    assert ring.needs_costs
    assert ring.maximise(np.zeros(6)).tolist() == ring.maximise(np.full(6, -0.0)).tolist() == [0, 4]
    assert ring.maximise(np.zeros(6), include=[2]) is None
    assert ring.maximise(np.zeros(6), include=[1]).tolist() == [0, 1, 5]


def test_parallel_streets_are_different_arms() -> None:
    twice = Paths(3, [(0, 1), (1, 2), (2, 1), (1, 2), (0, 2), (2, 1)], 0, 2, directed=False)
    assert twice.count() == 5
    assert twice.maximise([-1.0, -3.0, -2.0, -2.0, -9.0, -4.0]).tolist() == [0, 2]
    assert twice.maximise([-1.0, -3.0, -2.0, -2.0, -9.0, -4.0], exclude=[2, 3]).tolist() == [0, 1]
    assert twice.maximise(-np.ones(6), exclude=[0, 4]) is None


def test_positive_weights_are_refused_where_there_are_cycles() -> None:
    streets = grid(3, 3)
    weights = -np.ones(streets.n_arms)
    weights[5] = 0.5
    for ask in (streets.maximise, streets.maximise_each_including, streets.maximise_each_excluding):
        with pytest.raises(ValueError, match=r"weights must be at most 0 on a network with cycles, got 0\.5 for arm 5"):
            ask(weights)


def test_only_costs_from_nothing_suit_a_network_with_cycles() -> None:
    streets = grid(3, 3)
    streets.check_direction("minimize", (0.0, 5.0))
    for direction, span in (("maximize", (0.0, 5.0)), ("minimize", (-1.0, 5.0))):
        with pytest.raises(
            ValueError, match=rf"direction must be 'minimize' and reward_range from 0 for a network .*'{direction}'"
        ):
            streets.check_direction(direction, span)
    Paths(2, [(0, 1)], 0, 1).check_direction("maximize", (-1.0, 1.0))


def test_too_many_routes_are_not_counted() -> None:
    assert grid(4, 4).count() == 184
    large = grid(12, 12)
    assert large.count() is None
    with pytest.raises(ValueError, match="more decisions than can be listed"):
        iter(large)


def test_names_are_the_edges_as_they_were_given() -> None:
    roads = [("a", "b"), ("b", "c", 0), ["b", "c", 1], (("x", 1), "c"), ("a", ("x", 1))]
    routes = Paths.from_edges(roads, "a", "c")
    assert routes.names == [("a", "b"), ("b", "c", 0), ("b", "c", 1), (("x", 1), "c"), ("a", ("x", 1))]
    assert routes.nodes == ["a", "b", "c", ("x", 1)]
    assert routes.route([4, 3]) == ["a", ("x", 1), "c"]
    assert Paths(3, [(0, 1), (1, 2)], 0, 2).names is None
    again = DecisionSet.from_arrays(routes.to_arrays())
    assert again == routes
    assert again.names == routes.names
    assert again.nodes == routes.nodes
    assert repr(routes) == "Paths(4 nodes, 5 edges, source='a', target='c', directed=True)"
    with pytest.raises(ValueError, match="arms must be a decision of Paths"):
        routes.route([0])


def test_a_multigraph_names_its_edges_with_keys() -> None:
    graph = nx.MultiGraph([("a", "b"), ("a", "b"), ("b", "c", "bridge")])
    routes = Paths.from_networkx(graph, "a", "c")
    assert routes.names == [("a", "b", 0), ("a", "b", 1), ("b", "c", "bridge")]
    assert not routes.directed
    assert routes.count() == 2


@pytest.mark.parametrize(
    ("change", "message"),
    [
        ({"names": written([("a", "c"), ("b", "c")])}, "names must be the edges between nodes"),
        ({"names": written(["ab", "bc"])}, "names must be the edges between nodes"),
        ({"names": written([("a", "b")])}, "names must name each of the 2 arms, got 1"),
        ({"nodes": written(["a", "b"])}, "names must name each of the 3 arms, got 2"),
        ({"nodes": np.frombuffer(b'["a", "b", 1.5]', np.uint8)}, "names must be str, int or tuples"),
        ({"nodes": np.frombuffer(b'["a", "b", ', np.uint8)}, "arrays must hold a whole Paths"),
        ({"nodes": np.frombuffer(b"[" * 100_000, np.uint8)}, "arrays must hold a whole Paths"),
        ({"nodes": np.array([0.5])}, "names of the arms must be text"),
        ({"directed": np.array(2)}, "directed must be True or False, got 2"),
        ({"target": np.array(0)}, "target must differ from source"),
    ],
)
def test_damaged_names_are_refused(change: dict[str, Any], message: str) -> None:
    arrays = Paths.from_edges([("a", "b"), ("b", "c")], "a", "c").to_arrays()
    with pytest.raises(ValueError, match=message):
        DecisionSet.from_arrays({**arrays, **change})
    del arrays["names"]
    with pytest.raises(ValueError, match="arrays must hold a whole Paths: 'names'"):
        DecisionSet.from_arrays(arrays)


@pytest.mark.parametrize(
    ("make", "message"),
    [
        (lambda: Paths(3, [(0, 1), (2, 2)], 0, 2), "edges must lead from source 0 to target 2, got no such path"),
        (lambda: Paths(3, [(0, 1)], 0, 2), "edges must lead from source 0 to target 2, got no such path"),
        (lambda: Paths(3, [(0, 1)], 1, 1), "target must differ from source, got 1 for both"),
        (lambda: Paths(3, [(0, 1)], 0, 3), "target must be at most 2, got 3"),
        (lambda: Paths(3, [(0, 1)], 0, 1, "both"), "directed must be True or False, got 'both'"),
        (lambda: Paths.from_edges([("a", "b"), ("a", "b")], "a", "b"), r"edges .* got \('a', 'b'\) twice"),
        (lambda: Paths.from_edges([("a", "b", 1, 2)], "a", "b"), r"edges must be tuples \(u, v\) or \(u, v, key\)"),
        (lambda: Paths.from_edges(["ab"], "a", "b"), r"edges must be tuples \(u, v\) or \(u, v, key\), got 'ab'"),
        (lambda: Paths.from_edges("ab", "a", "b"), r"edges must be tuples \(u, v\) or \(u, v, key\), got 'ab'"),
        (lambda: Paths.from_edges([("a", 1.5)], "a", 1.5), "names must be str, int or tuples of them, got 1.5"),
        (lambda: Paths.from_edges([("a", "b")], "a", "z"), "target must be a node, got 'z'"),
        (lambda: Paths.from_edges([("a", "b")], "a", "a"), "target must differ from source, got 'a' for both"),
        (lambda: Paths.from_edges([("a", "b")], "b", "a"), "no such path .source is 'b', target 'a'."),
        (lambda: Paths.from_networkx(5, 0, 1), "graph must be a NetworkX graph, got int"),
    ],
)
def test_malformed_families_are_refused(make: Callable[[], Any], message: str) -> None:
    with pytest.raises((TypeError, ValueError), match=message):
        make()
