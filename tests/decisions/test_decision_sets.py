"""Every decision set agrees with the list of its decisions, and answers quickly where that list is astronomic."""

from __future__ import annotations

import copy
import pickle
from collections.abc import Callable
from itertools import chain, combinations
from typing import Any

import networkx as nx
import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st
from scipy.optimize import linear_sum_assignment
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
from armtriage.kernels.jit import JIT

Family = tuple[DecisionSet, list[tuple[int, ...]]]
# Quarters add up exactly and tie often.
QUARTERS = st.integers(-8, 8).map(lambda quarter: quarter / 4)


def subsets(n_arms: int, allowed: Callable[[tuple[int, ...]], bool]) -> list[tuple[int, ...]]:
    every = chain.from_iterable(combinations(range(n_arms), size) for size in range(n_arms + 1))
    return sorted(arms for arms in every if allowed(arms))


# --- Families, each with its decisions found by definition ---
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


def path_list(edges: list[tuple[int, int]], source: int, target: int) -> list[tuple[int, ...]]:
    graph = nx.MultiDiGraph()
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
FAMILIES = COMBINATORIAL | INTEGER


@pytest.fixture(params=FAMILIES)
def family(request: pytest.FixtureRequest) -> str:
    return str(request.param)


def examples(name: str) -> settings:
    return settings(deadline=None, max_examples=25 if name in INTEGER else 100 if JIT else 40)


def check(name: str, test: Callable[..., None], *more: st.SearchStrategy[Any]) -> None:
    """Run the test on many families of this kind."""
    examples(name)(given(FAMILIES[name], *more)(test))()


def draw_weights(data: st.DataObject, n_arms: int) -> np.ndarray:
    return np.array(data.draw(st.lists(QUARTERS, min_size=n_arms, max_size=n_arms)))


def draw_forced(data: st.DataObject, n_arms: int) -> tuple[list[int], list[int]]:
    """Arms to include and exclude: often none, sometimes contradictory."""
    arms = st.lists(st.integers(0, n_arms - 1), max_size=data.draw(st.integers(0, 3)))
    return data.draw(arms), data.draw(arms)


def obeying(decisions: list[tuple[int, ...]], include: Any, exclude: Any) -> list[tuple[int, ...]]:
    return [arms for arms in decisions if set(include) <= set(arms) and not set(exclude) & set(arms)]


def best_value(decisions: list[tuple[int, ...]], weights: np.ndarray) -> float:
    return max((weights[list(arms)].sum() for arms in decisions), default=-np.inf)


# --- Against the list ---
def test_maximise_gives_a_best_decision_that_obeys(family: str) -> None:
    def test(case: Family, data: st.DataObject) -> None:
        decisions, listed = case
        weights = draw_weights(data, decisions.n_arms)
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
        weights = draw_weights(data, decisions.n_arms)
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
        assert decisions.size == max(map(len, listed))
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


@pytest.mark.parametrize("name", COMBINATORIAL)
def test_listing_by_the_oracle_alone_finds_all(name: str) -> None:
    def test(case: Family) -> None:
        decisions, listed = case
        assert sorted(DecisionSet._list(decisions) or []) == listed
        assert DecisionSet.count(Explicit(listed)) == len(listed)

    check(name, test)


# --- Large families ---
def spot_check(decisions: DecisionSet, weights: np.ndarray, seed: int, arms: int = 30) -> None:
    """Compare the values of some arms, half of them of the best decision, with one question each."""
    rng = np.random.default_rng(seed)
    best = decisions.maximise(weights)
    include, exclude = best[:2], rng.choice(np.setdiff1d(np.arange(decisions.n_arms), best), 2, replace=False)
    chosen = np.append(rng.choice(best, min(arms, best.size), replace=False), rng.choice(decisions.n_arms, arms))
    for forced in ({}, {"include": include, "exclude": exclude}):
        inside = decisions.maximise_each_including(weights, **forced)[chosen]
        outside = decisions.maximise_each_excluding(weights, **forced)[chosen]
        none = np.empty(0, np.int64)
        first, second = forced.get("include", none), forced.get("exclude", none)
        for arm, with_arm, without_arm in zip(chosen, inside, outside, strict=True):
            for found, value in (
                (decisions.maximise(weights, np.append(first, arm), second), with_arm),
                (decisions.maximise(weights, first, np.append(second, arm)), without_arm),
            ):
                assert value == pytest.approx(-np.inf if found is None else weights[found].sum(), rel=1e-12)


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


def test_a_matching_of_thirty_by_thirty() -> None:
    rng = np.random.default_rng(1)
    weights = rng.normal(size=(30, 30))
    jobs = Matchings(30, 30)
    rows, columns = linear_sum_assignment(weights, maximize=True)
    assert jobs.maximise(weights.ravel()).tolist() == (rows * 30 + columns).tolist()
    spot_check(jobs, weights.ravel(), 1)
    with pytest.raises(ValueError, match=r"about 10\^32 decisions; iteration is for at most 100000"):
        iter(jobs)


@pytest.mark.parametrize(("left", "right", "size"), [(12, 40, None), (40, 12, 7), (20, 20, 19), (1, 50, None)])
def test_matchings_of_other_shapes(left: int, right: int, size: int | None) -> None:
    rng = np.random.default_rng(2)
    edges = np.argwhere(rng.random((left, right)) < 0.5)
    for one in (Matchings(left, right, size=size), Matchings(left, right, edges, size)):
        spot_check(one, rng.normal(size=one.n_arms), 3)


def test_values_of_matchings_survive_rounding() -> None:
    # With so many ties all cycles of exchanges cost 0 but for rounding.
    jobs = Matchings(40, 40)
    weights = np.random.default_rng(4).choice([0.1, 0.2, 0.3], 40)[:, None] + np.full(40, 0.7)
    np.testing.assert_allclose(jobs.maximise_each_including(weights.ravel()), weights[:, 0].sum(), rtol=1e-12)
    np.testing.assert_allclose(jobs.maximise_each_excluding(weights.ravel()), weights[:, 0].sum(), rtol=1e-12)


def test_a_sparse_matching_too_large_to_count() -> None:
    jobs = Matchings(30, 30, [(i, j) for i in range(30) for j in range(30) if (i - j) % 30 < 15])
    assert jobs.count() is None
    with pytest.raises(ValueError, match="more decisions than can be listed"):
        iter(jobs)


def test_a_tree_of_two_thousand_edges() -> None:
    graph = nx.gnm_random_graph(200, 2000, seed=5)
    edges = np.array(graph.edges)
    weights = np.random.default_rng(5).normal(size=2000)
    trees = SpanningTrees(200, edges)
    for (i, j), weight in zip(edges, weights, strict=True):
        graph.edges[i, j]["weight"] = weight
    tree = nx.maximum_spanning_tree(graph)
    assert {tuple(edges[arm]) for arm in trees.maximise(weights)} == {tuple(sorted(edge)) for edge in tree.edges}
    spot_check(trees, weights, 5)


def test_counts_of_known_graphs() -> None:
    complete = SpanningTrees(20, list(combinations(range(20), 2)))
    assert complete.count() == 20**18
    assert Paths(402, layered_edges(20, 20), 0, 401).count() == 20**20
    assert TopS(100, 50).count() == 100891344545564193334812497256


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


def test_a_partition_of_a_hundred_thousand_arms() -> None:
    rng = np.random.default_rng(7)
    n_arms = 100_000 if JIT else 2000
    groups = rng.permutation(np.arange(n_arms) // 100)
    weights = rng.normal(size=n_arms)
    slates = PartitionMatroid(groups, 3)
    order = np.lexsort((-weights, groups))
    assert slates.maximise(weights).tolist() == sorted(order[np.arange(n_arms) % 100 < 3].tolist())
    spot_check(slates, weights, 7)
    spot_check(TopS(n_arms, 50), weights, 7)


def test_a_hundred_thousand_listed_decisions() -> None:
    rng = np.random.default_rng(8)
    rows = rng.permuted(np.tile(np.arange(40), (100_000 if JIT else 2000, 1)), axis=1)[:, :5]
    menus = Explicit(rows)
    weights = rng.normal(size=40)
    assert weights[menus.maximise(weights)].sum() == pytest.approx(weights[rows].sum(axis=1).max())
    spot_check(menus, weights, 8)
    assert menus == Explicit(rows[::-1].tolist(), 40)
    assert [arms.tolist() for arms in menus] == sorted(map(list, {tuple(sorted(row)) for row in rows.tolist()}))


def test_a_knapsack_is_solved_to_the_last_digit() -> None:
    # The second best decision is worth 1e-9 less.
    bag = Knapsack([1.0, 1.0, 1.0, 2.0], 2.0)
    assert bag.maximise([0.1, 0.3, 0.3, 0.6 + 1e-9]).tolist() == [3]
    assert bag.maximise([0.1, 0.3, 0.3, 0.6 - 1e-9]).tolist() == [1, 2]
    assert bag.maximise([1e-30, 3e-30, 3e-30, 5e-30]).tolist() == [1, 2]


def test_a_knapsack_too_large_to_count() -> None:
    assert Knapsack(np.ones(40), 20).count() is None
    with pytest.raises(ValueError, match="more decisions than can be listed"):
        iter(Knapsack(np.ones(40), 20))


# --- Ties, forms of arguments ---
def test_ties_go_to_the_smallest_arm() -> None:
    flat = np.zeros(6)
    assert TopS(6, 2).maximise(flat).tolist() == [0, 1]
    assert PartitionMatroid([1, 0, 1, 0, 1, 0], [1, 2]).maximise(flat).tolist() == [0, 1, 2]
    assert SpanningTrees(4, list(combinations(range(4), 2))).maximise(flat).tolist() == [0, 1, 2]
    assert Explicit([[4, 5], [1], [0, 3]]).maximise(flat).tolist() == [0, 3]


def test_whole_number_and_boolean_weights_are_taken() -> None:
    assert TopS(3, 1).maximise([0, 2, 1]).tolist() == [1]
    assert TopS(3, 1).maximise(np.array([False, False, True])).tolist() == [2]


def test_one_capacity_stands_for_all_groups() -> None:
    assert PartitionMatroid([0, 1, 0, 1], 1) == PartitionMatroid([0, 1, 0, 1], [1, 1])


def test_a_complete_list_of_pairs_is_the_complete_matching() -> None:
    assert Matchings(2, 2, [(0, 0), (0, 1), (1, 0), (1, 1)]) == Matchings(2, 2)
    assert Matchings(2, 2, [(0, 1), (0, 0), (1, 0), (1, 1)]) != Matchings(2, 2)


def test_sets_of_other_kinds_or_arguments_differ() -> None:
    assert TopS(4, 2) != TopS(4, 3)
    assert TopS(4, 2) != PartitionMatroid([0, 0, 0, 0], 2)
    assert TopS(4, 2) != "TopS"
    assert SpanningTrees(3, [(0, 1), (1, 2)]) != SpanningTrees(3, [(0, 1), (0, 2)])


def test_what_was_given_can_change_without_harm() -> None:
    edges = np.array([(0, 1), (1, 2), (0, 2)])
    trees = SpanningTrees(3, edges)
    edges[:] = 0
    assert trees.count() == 3
    with pytest.raises(ValueError, match="read-only"):
        trees.edges[0] = 0


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


# --- Refusals ---
@pytest.mark.parametrize(
    ("make", "message"),
    [
        (lambda: TopS(0, 1), "n_arms must be a whole number from 1, got 0"),
        (lambda: TopS(3, 4), "budget must be at most 3, got 4"),
        (lambda: TopS(3, True), "budget must be a whole number from 1, got True"),
        (lambda: PartitionMatroid([], 1), "groups must be a non-empty list of whole numbers"),
        (lambda: PartitionMatroid([0.5], 1), "groups must be a non-empty list of whole numbers"),
        (lambda: PartitionMatroid([0, -1], 1), "groups must be whole numbers from 0, got -1"),
        (lambda: PartitionMatroid([0, 2], [1, 1]), r"groups must lie in 0\.\.1, as capacities has it, got 2"),
        (lambda: PartitionMatroid([0, 2], 1), r"capacities must lie in 0\.\.0 for group 1, of 0 arms, got 1"),
        (lambda: PartitionMatroid([0, 0], [-1]), r"capacities must lie in 0\.\.2 for group 0, of 2 arms, got -1"),
        (lambda: PartitionMatroid([0, 0], [0.5]), "capacities must be a whole number or a list of them"),
        (lambda: PartitionMatroid([0, 0], 0), "capacities must let a decision have an arm, got 0"),
        (lambda: Explicit([]), "decisions must hold at least one decision that has an arm, got none"),
        (lambda: Explicit([[]]), "decisions must hold at least one decision that has an arm, got none"),
        (lambda: Explicit([[0], [1, 1]]), "decisions must name each arm once, got arm 1 twice in one"),
        (lambda: Explicit([[0], [-2]]), "decisions must name arms from 0, got -2"),
        (lambda: Explicit([[0], [3]], n_arms=3), r"decisions must name arms in 0\.\.2, as n_arms has it, got 3"),
        (lambda: Explicit([[0], 1]), "decisions must be lists of whole numbers, got 1 as number 1"),
        (lambda: Explicit([[0], [0.5]]), r"decisions must be lists of whole numbers, got \[0.5\] as number 1"),
        (lambda: Explicit("ab"), "decisions must be lists of arms, got 'ab'"),
        (lambda: Explicit(3), "decisions must be lists of arms, got 3"),
        (lambda: Matchings(0, 1), "left must be a whole number from 1, got 0"),
        (lambda: Matchings(10**5, 10**5), "left times right must be at most 100000000, got 10000000000"),
        (lambda: Matchings(2, 2, size=3), "size must be at most 2, the largest matching of edges, got 3"),
        (lambda: Matchings(2, 2, [(0, 0), (1, 0)], size=2), "size must be at most 1"),
        (lambda: Matchings(2, 2, size=0), "size must be a whole number from 1, got 0"),
        (lambda: Matchings(2, 2, []), r"edges must be one or more pairs, of shape \(m, 2\), got shape \(0,\)"),
        (lambda: Matchings(2, 3, [(0, 3)]), r"edges must be pairs from \(0, 0\) to \(1, 2\), got \(0, 3\)"),
        (lambda: Matchings(2, 2, [(0, 1), (0, 1)]), r"edges must name each pair once, got \(0, 1\) again"),
        (lambda: SpanningTrees(1, [(0, 0)]), "n_nodes must be a whole number from 2, got 1"),
        (lambda: SpanningTrees(3, [(0, 1), (2, 2)]), r"edges must join two different nodes, got \(2, 2\)"),
        (lambda: SpanningTrees(3, [(0, 1)]), "edges must connect all 3 nodes, got a network in several parts"),
        (lambda: SpanningTrees(3, [(0, 1), (1, -1)]), r"edges must be pairs from \(0, 0\) to \(2, 2\), got \(1, -1\)"),
        (lambda: SpanningTrees(3, [(0.0, 1.0)]), "edges must be pairs of whole numbers, got float64"),
        (lambda: SpanningTrees(3, 5), "edges must be pairs of whole numbers, got 5"),
        (lambda: SpanningTrees(3, [(0, 1), (1,)]), "edges must be pairs of whole numbers"),
        (
            lambda: Paths(3, [(0, 1), (1, 2), (2, 1)], 0, 2),
            "edges must have no cycle, got one through some of nodes 1, 2",
        ),
        (lambda: Paths(3, [(0, 1), (2, 2)], 0, 1), "edges must have no cycle, got one through some of nodes 2"),
        (lambda: Paths(3, [(0, 1)], 0, 2), "edges must lead from source 0 to target 2, got no such path"),
        (lambda: Paths(3, [(0, 1)], 1, 1), "target must differ from source, got 1 for both"),
        (lambda: Paths(3, [(0, 1)], 0, 3), "target must be at most 2, got 3"),
        (lambda: Knapsack([], 1), "weights must be a non-empty list of numbers"),
        (lambda: Knapsack([1, np.nan], 1), "weights must be finite and from 0, got nan for arm 1"),
        (lambda: Knapsack([1, -2], 1), "weights must be finite and from 0, got -2 for arm 1"),
        (lambda: Knapsack([3, 2], 1), "capacity must be at least 2, the smallest of weights, got 1.0"),
        (lambda: Knapsack([3, 2], np.inf), "capacity must be a finite number from 0, got inf"),
        (lambda: Constraints([[1, 1]], 3, 4), "lower and upper must allow a decision that has an arm, got no decision"),
        (lambda: Constraints([[1, 1]], 0, 0), "got no decision but the empty one"),
        (lambda: Constraints([[1, 1]], 2, 1), "lower must be at most upper, got 2.0 and 1.0 for row 0"),
        (lambda: Constraints([[1, 1]], np.nan, 1), "lower must hold no nan, got nan"),
        (lambda: Constraints([[1, 1]], "a", 1), "lower must be a number or a list of numbers, got 'a'"),
        (lambda: Constraints([[1, 1]], 0, [1, 2]), r"upper must be a number or have shape \(1,\), got \(2,\)"),
        (lambda: Constraints([1, 1], 0, 1), r"matrix must have shape \(m, K\) with m and K from 1, got \(2,\)"),
        (lambda: Constraints([[1, np.inf]], 0, 1), "matrix must be finite, got inf"),
        (lambda: Constraints([["a"]], 0, 1), "matrix must hold real numbers, got <U1"),
    ],
)
def test_malformed_families_are_refused(make: Callable[[], Any], message: str) -> None:
    with pytest.raises((TypeError, ValueError), match=message):
        make()


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
