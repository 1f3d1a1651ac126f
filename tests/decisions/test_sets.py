"""Every decision set agrees with the list of its decisions, and keeps the contract of DecisionSet."""

from __future__ import annotations

import copy
import pickle
from collections.abc import Callable
from itertools import chain, combinations, pairwise
from typing import Any

import networkx as nx
import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st
from scipy.sparse import csr_array

from armtriage import (
    Constraints,
    DecisionSet,
    Explicit,
    Knapsack,
    Matchings,
    PartitionMatroid,
    Paths,
    SpanningTrees,
    TopS,
)

Family = tuple[DecisionSet, list[tuple[int, ...]]]


# Quarters add up exactly and tie often.
QUARTERS = st.integers(-8, 8).map(lambda quarter: quarter / 4)


def subsets(n_arms: int, allowed: Callable[[tuple[int, ...]], bool]) -> list[tuple[int, ...]]:
    every = chain.from_iterable(combinations(range(n_arms), size) for size in range(n_arms + 1))
    return sorted(arms for arms in every if allowed(arms))


@st.composite
def top_s(draw: st.DrawFn) -> Family:
    n_arms = draw(st.integers(1, 7))
    budget = draw(st.integers(1, n_arms))
    return TopS(n_arms, budget), list(combinations(range(n_arms), budget))


@st.composite
def partitions(draw: st.DrawFn) -> Family:
    groups = np.array(draw(st.lists(st.integers(0, 2), min_size=1, max_size=8)))
    sizes = [int((groups == g).sum()) for g in range(3)]
    capacities = [draw(st.integers(0, size)) for size in sizes]
    if not any(capacities):
        capacities = sizes
    return PartitionMatroid(groups, capacities), subsets(
        groups.size, lambda arms: all((groups[list(arms)] == g).sum() == capacities[g] for g in range(3))
    )


@st.composite
def explicit(draw: st.DrawFn) -> Family:
    n_arms = draw(st.integers(1, 6))
    sets = draw(st.lists(st.sets(st.integers(0, n_arms - 1)), min_size=1, max_size=8).filter(any))
    orders = [draw(st.permutations(sorted(one))) for one in sets]
    return Explicit(orders, n_arms), sorted({tuple(sorted(one)) for one in sets})


def matching_list(edges: list[tuple[int, int]], size: int) -> list[tuple[int, ...]]:
    def allowed(arms: tuple[int, ...]) -> bool:
        return len({edges[a][0] for a in arms}) == len({edges[a][1] for a in arms}) == len(arms) == size

    return subsets(len(edges), allowed)


@st.composite
def matchings(draw: st.DrawFn) -> Family:
    left, right = draw(st.integers(1, 4)), draw(st.integers(1, 4))
    pairs = [(i, j) for i in range(left) for j in range(right)]
    edges = None
    if left * right > 9 or draw(st.booleans()):
        edges = draw(st.lists(st.sampled_from(pairs), min_size=1, max_size=9, unique=True))
    listed = pairs if edges is None else edges
    most = max(size for size in range(5) if matching_list(listed, size))
    size = draw(st.none() | st.integers(1, most))
    return Matchings(left, right, edges, size), matching_list(listed, most if size is None else size)


@st.composite
def trees(draw: st.DrawFn) -> Family:
    n_nodes = draw(st.integers(2, 5))
    edges = [(draw(st.integers(0, node - 1)), node) for node in range(1, n_nodes)]
    pairs = [(i, j) for i in range(n_nodes) for j in range(n_nodes) if i != j]
    edges = draw(st.permutations(edges + draw(st.lists(st.sampled_from(pairs), max_size=5))))

    def is_tree(arms: tuple[int, ...]) -> bool:
        graph = nx.MultiGraph()
        graph.add_nodes_from(range(n_nodes))
        graph.add_edges_from(edges[a] for a in arms)
        return bool(nx.is_tree(graph))

    return SpanningTrees(n_nodes, edges), subsets(len(edges), is_tree)


def path_list(edges: Any, source: int, target: int, directed: bool = True) -> list[tuple[int, ...]]:
    graph = nx.MultiDiGraph() if directed else nx.MultiGraph()
    graph.add_nodes_from([source, target])
    graph.add_edges_from((tail, head, arm) for arm, (tail, head) in enumerate(edges))
    return sorted(tuple(sorted(arm for *_, arm in one)) for one in nx.all_simple_edge_paths(graph, source, target))


@st.composite
def paths(draw: st.DrawFn) -> Family:
    n_nodes = draw(st.integers(2, 6))
    names = draw(st.permutations(range(n_nodes)))
    pairs = [(names[i], names[j]) for i in range(n_nodes) for j in range(i + 1, n_nodes)]
    edges = draw(st.lists(st.sampled_from(pairs), min_size=1, max_size=12))
    source, target = draw(st.sampled_from(sorted(nx.transitive_closure(nx.DiGraph(edges)).edges)))
    return Paths(n_nodes, edges, source, target), path_list(edges, source, target)


@st.composite
def streets(draw: st.DrawFn, directed: bool) -> Family:
    """Networks that have cycles, most of them, with parallel edges and loops."""
    n_nodes = draw(st.integers(2, 5))
    node = st.integers(0, n_nodes - 1)
    source, target = draw(st.permutations(range(n_nodes)))[:2]
    inner = [one for one in range(n_nodes) if one not in (source, target)]
    way = [source, *inner[: draw(st.integers(0, len(inner)))], target]
    edges = draw(st.permutations([*pairwise(way), *draw(st.lists(st.tuples(node, node), max_size=7))]))
    return Paths(n_nodes, edges, source, target, directed), path_list(edges, source, target, directed)


@st.composite
def knapsacks(draw: st.DrawFn) -> Family:
    loads = np.array(draw(st.lists(st.integers(0, 6), min_size=1, max_size=6)))
    capacity = draw(st.integers(int(loads.min()), 15))
    return Knapsack(loads, capacity), subsets(loads.size, lambda arms: loads[list(arms)].sum() <= capacity)


@st.composite
def constraints(draw: st.DrawFn) -> Family:
    n_arms, rows = draw(st.integers(1, 6)), draw(st.integers(1, 3))
    entries = st.lists(st.integers(-2, 3), min_size=n_arms, max_size=n_arms)
    matrix = np.array([draw(entries) for _ in range(rows)])
    # Limits around one decision, so that there is one.
    member = np.array(draw(st.lists(st.booleans(), min_size=n_arms, max_size=n_arms).filter(any)))
    sums = matrix @ member
    lower = sums - np.array([draw(st.sampled_from([0, 1, np.inf])) for _ in range(rows)])
    upper = sums + np.array([draw(st.sampled_from([0, 1, np.inf])) for _ in range(rows)])

    def allowed(arms: tuple[int, ...]) -> bool:
        sums = matrix[:, list(arms)].sum(axis=1)
        return bool(((sums >= lower) & (sums <= upper)).all())

    kind = csr_array if draw(st.booleans()) else np.asarray
    return Constraints(kind(matrix), lower, upper), subsets(n_arms, allowed)


COMBINATORIAL = {
    "TopS": top_s(),
    "PartitionMatroid": partitions(),
    "Explicit": explicit(),
    "Matchings": matchings(),
    "SpanningTrees": trees(),
    "Paths": paths(),
}


INTEGER = {"Knapsack": knapsacks(), "Constraints": constraints()}


CYCLIC = {"one-way streets": streets(True), "two-way streets": streets(False)}


FAMILIES = COMBINATORIAL | INTEGER | CYCLIC


@pytest.fixture(params=FAMILIES)
def family(request: pytest.FixtureRequest) -> str:
    return str(request.param)


def examples(name: str) -> settings:
    """As many as usual; where each asks integer programs or lists paths of a city, at most 40."""
    usual = settings.default.max_examples
    return settings(max_examples=min(usual, 40) if name in INTEGER | CYCLIC else usual)


def check(name: str, test: Callable[..., None], *more: st.SearchStrategy[Any]) -> None:
    """Run the test on many families of this kind."""
    examples(name)(given(FAMILIES[name], *more)(test))()


def draw_weights(data: st.DataObject, decisions: DecisionSet) -> np.ndarray:
    weights = np.array(data.draw(st.lists(QUARTERS, min_size=decisions.n_arms, max_size=decisions.n_arms)))
    return -np.abs(weights) if decisions.needs_costs else weights


def draw_forced(data: st.DataObject, n_arms: int) -> tuple[list[int], list[int]]:
    """Arms to include and exclude: often none, sometimes contradictory."""
    arms = st.lists(st.integers(0, n_arms - 1), max_size=data.draw(st.integers(0, 3)))
    return data.draw(arms), data.draw(arms)


def obeying(decisions: list[tuple[int, ...]], include: Any, exclude: Any) -> list[tuple[int, ...]]:
    return [arms for arms in decisions if set(include) <= set(arms) and not set(exclude) & set(arms)]


def best_value(decisions: list[tuple[int, ...]], weights: np.ndarray) -> float:
    return max((weights[list(arms)].sum() for arms in decisions), default=-np.inf)


def test_maximise_gives_a_best_decision_that_obeys(family: str) -> None:
    def test(case: Family, data: st.DataObject) -> None:
        decisions, listed = case
        weights = draw_weights(data, decisions)
        include, exclude = draw_forced(data, decisions.n_arms)
        allowed = obeying(listed, include, exclude)
        found = decisions.maximise(weights, include, exclude)
        if found is None:
            assert not allowed
            return
        assert found.dtype == np.int64
        assert tuple(found.tolist()) in allowed
        assert weights[found].sum() == best_value(allowed, weights)
        assert decisions.maximise(weights, include, exclude).tolist() == found.tolist()

    check(family, test, st.data())


@pytest.mark.parametrize("quick", [True, False])
def test_values_with_and_without_each_arm(family: str, quick: bool) -> None:
    def test(case: Family, data: st.DataObject) -> None:
        decisions, listed = case
        if not quick:
            decisions = copy.copy(decisions)
            decisions._exchange = lambda weights, marks: None  # type: ignore[method-assign]
        weights = draw_weights(data, decisions)
        include, exclude = draw_forced(data, decisions.n_arms)
        allowed = obeying(listed, include, exclude)
        arms = data.draw(st.none() | st.lists(st.integers(0, decisions.n_arms - 1), max_size=5))
        asked = range(decisions.n_arms) if arms is None else arms
        inside = decisions.maximise_each_including(weights, arms, include, exclude)
        outside = decisions.maximise_each_excluding(weights, arms, include, exclude)
        assert inside.tolist() == [best_value(obeying(allowed, [arm], []), weights) for arm in asked]
        assert outside.tolist() == [best_value(obeying(allowed, [], [arm]), weights) for arm in asked]

    check(family, test, st.data())


def test_contains_just_the_listed(family: str) -> None:
    def test(case: Family, data: st.DataObject) -> None:
        decisions, listed = case
        arms = data.draw(st.lists(st.integers(0, decisions.n_arms - 1), max_size=5))
        assert decisions.contains(arms) is (tuple(sorted(arms)) in listed)
        member = data.draw(st.permutations(data.draw(st.sampled_from(listed))))
        assert member in decisions
        assert not member or [*member, member[0]] not in decisions

    check(family, test, st.data())


def test_count_size_and_iteration_match_the_list(family: str) -> None:
    def test(case: Family) -> None:
        decisions, listed = case
        assert decisions.count() == len(listed)
        longest = max(map(len, listed))
        assert decisions.size == longest or (decisions.needs_costs and decisions.size > longest)
        iterated = list(decisions)
        assert [tuple(arms.tolist()) for arms in iterated] == listed
        assert all(arms.dtype == np.int64 for arms in iterated)

    check(family, test)


def test_arrays_give_the_same_set_again(family: str) -> None:
    def test(case: Family) -> None:
        decisions, listed = case
        arrays = decisions.to_arrays()
        assert all(isinstance(part, np.ndarray) and part.dtype != object for part in arrays.values())
        again = DecisionSet.from_arrays(arrays)
        for other in (again, type(decisions).from_arrays(arrays), pickle.loads(pickle.dumps(decisions))):
            assert type(other) is type(decisions)
            assert other == decisions
            assert hash(other) == hash(decisions)
            assert repr(other) == repr(decisions)
        assert [tuple(arms.tolist()) for arms in again] == listed

    check(family, test)


@pytest.mark.parametrize("name", COMBINATORIAL | CYCLIC)
def test_listing_by_the_oracle_alone_finds_all(name: str) -> None:
    def test(case: Family) -> None:
        decisions, listed = case
        assert sorted(DecisionSet._list(decisions) or []) == listed
        assert DecisionSet.count(Explicit(listed)) == len(listed)

    check(name, test)


def test_ties_go_to_the_smallest_arm() -> None:
    flat = np.zeros(6)
    assert TopS(6, 2).maximise(flat).tolist() == [0, 1]
    assert PartitionMatroid([1, 0, 1, 0, 1, 0], [1, 2]).maximise(flat).tolist() == [0, 1, 2]
    assert SpanningTrees(4, list(combinations(range(4), 2))).maximise(flat).tolist() == [0, 1, 2]
    assert Explicit([[4, 5], [1], [0, 3]]).maximise(flat).tolist() == [0, 3]


def test_whole_number_and_boolean_weights_are_taken() -> None:
    assert TopS(3, 1).maximise([0, 2, 1]).tolist() == [1]
    assert TopS(3, 1).maximise(np.array([False, False, True])).tolist() == [2]


def test_sets_of_other_kinds_or_arguments_differ() -> None:
    assert TopS(4, 2) != TopS(4, 3)
    assert TopS(4, 2) != PartitionMatroid([0, 0, 0, 0], 2)
    assert TopS(4, 2) != "TopS"
    assert SpanningTrees(3, [(0, 1), (1, 2)]) != SpanningTrees(3, [(0, 1), (0, 2)])


def test_representations() -> None:
    assert repr(PartitionMatroid([0, 0, 1], 1)) == "PartitionMatroid(groups=[0, 0, 1], capacities=[1, 1])"
    assert repr(SpanningTrees(9, [(i, i + 1) for i in range(8)])) == "SpanningTrees(n_nodes=9, edges=<8 x 2 array>)"
    assert repr(Knapsack([1, 2], 2)) == "Knapsack(weights=[1.0, 2.0], capacity=2.0)"
    assert repr(Constraints([[1, 1]], 0, 1)) == "Constraints(1 on 2 arms)"


def test_a_family_of_ones_own_needs_an_oracle_only() -> None:
    class Neighbours(DecisionSet):
        """Two consecutive arms."""

        def __init__(self, n_arms: int) -> None:
            super().__init__(n_arms, 2)

        def _maximise(self, weights: Any, marks: Any) -> Any:
            pairs = [(a, a + 1) for a in range(self.n_arms - 1)]
            forced = set(np.flatnonzero(marks == 1))
            pairs = [pair for pair in pairs if forced <= set(pair) and marks[list(pair)].min() >= 0]
            return np.array(max(pairs, key=lambda pair: weights[list(pair)].sum())) if pairs else None

        def _arguments(self) -> dict[str, Any]:
            return {"n_arms": self.n_arms}

    own = Neighbours(4)
    assert [arms.tolist() for arms in own] == [[0, 1], [1, 2], [2, 3]]
    assert own.count() == 3
    assert [2, 1] in own
    assert [0, 2] not in own
    assert own.maximise_each_including([1, 2, 3, 4]).tolist() == [3, 5, 7, 7]
    assert own.maximise_each_excluding([1, 2, 3, 4]).tolist() == [7, 7, 3, 5]
    assert DecisionSet.from_arrays(own.to_arrays()) == own


@pytest.mark.parametrize(
    ("arguments", "message"),
    [
        (([1, 2],), r"weights must have shape \(3,\), one for each arm, got \(2,\)"),
        (([1, 2, np.nan],), r"weights must lie in \[-1e\+100, 1e\+100\], got nan for arm 2"),
        (([1, -np.inf, 3],), r"weights must lie in \[-1e\+100, 1e\+100\], got -inf for arm 1"),
        ((["a", "b", "c"],), "weights must be numbers, got <U1"),
        (([1, 2, 3], [3]), r"include must lie in 0\.\.2, got \[3\]"),
        (([1, 2, 3], [], [-1]), r"exclude must lie in 0\.\.2, got \[-1\]"),
        (([1, 2, 3], [0.5]), r"include must be a list of whole numbers, got \[0.5\]"),
    ],
)
def test_malformed_questions_are_refused(arguments: tuple[Any, ...], message: str) -> None:
    with pytest.raises((TypeError, ValueError), match=message):
        TopS(3, 2).maximise(*arguments)
    weights, *forced = arguments
    with pytest.raises((TypeError, ValueError), match=message):
        TopS(3, 2).maximise_each_including(weights, None, *forced)


def test_arms_out_of_range_are_refused() -> None:
    with pytest.raises(ValueError, match=r"arms must lie in 0\.\.2, got \[3\]"):
        TopS(3, 2).contains([3])
    with pytest.raises(ValueError, match=r"arms must lie in 0\.\.2, got \[-1\]"):
        TopS(3, 2).maximise_each_excluding([1, 2, 3], [-1])


@pytest.mark.parametrize(
    ("arrays", "message"),
    [
        ({}, "arrays must be what to_arrays gave"),
        ({"kind": np.array("Nonsense")}, "arrays must hold a DecisionSet, got kind 'Nonsense'"),
        ({"kind": np.array("TopS"), "n_arms": np.array(3)}, "arrays must hold a whole TopS: .*budget"),
        ({**TopS(3, 2).to_arrays(), "budget": np.array(9)}, "arrays must hold a whole TopS: budget must be at most 3"),
        ({**TopS(3, 2).to_arrays(), "more": np.array(9)}, "arrays must hold a whole TopS: .*more"),
        ({**Explicit([[0, 1]]).to_arrays(), "lengths": np.array([3])}, "lengths must be from 0 and sum to the 2 arms"),
        ({**Explicit([[0, 1]]).to_arrays(), "arms": np.array([0.0, 1.0])}, "arms must be a 1-D array of whole numbers"),
        ({"kind": np.array("Explicit")}, "the keys must be arms, lengths and n_arms"),
        ({"kind": np.array("Constraints")}, "the keys must be data, indices"),
        ({**Constraints([[1, 1]], 0, 1).to_arrays(), "indices": np.array([0, 7])}, "arrays must hold a whole Constr"),
    ],
)
def test_foreign_or_damaged_arrays_are_refused(arrays: dict[str, Any], message: str) -> None:
    with pytest.raises(ValueError, match=message):
        DecisionSet.from_arrays(arrays)


def test_arrays_of_another_kind_are_refused() -> None:
    with pytest.raises(ValueError, match="arrays must hold a SpanningTrees, got kind 'TopS'"):
        SpanningTrees.from_arrays(TopS(3, 2).to_arrays())
