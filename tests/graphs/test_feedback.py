import copy
import itertools
import math
import pickle

import networkx as nx
import numpy as np
import pytest
import scipy.sparse
from hypothesis import given
from hypothesis import strategies as st
from hypothesis.extra import numpy as hnp

from armtriage.graphs.feedback import FeedbackGraph, GraphArrays, reveal
from armtriage.kernels.jit import JIT, kernel

MANY = 1_000_000 if JIT else 10_000


@kernel
def call_reveal(graph, arms, stamp, mark, out):
    return reveal(graph, arms, stamp, mark, out)


@st.composite
def matrices(draw):
    """Boolean matrices from empty to full, symmetric or one entry away from it as often as not."""
    n = draw(st.integers(1, 12))
    matrix = draw(hnp.arrays(np.bool_, (n, n)))
    if draw(st.booleans()):
        matrix = ~matrix
    if draw(st.booleans()):
        matrix = matrix | matrix.T
        if draw(st.booleans()):
            matrix[draw(st.integers(0, n - 1)), draw(st.integers(0, n - 1))] ^= True
    return matrix


@st.composite
def matrices_and_arms(draw):
    matrix = draw(matrices())
    return matrix, draw(st.lists(st.integers(0, len(matrix) - 1), max_size=15))


def sets_of(matrix):
    return [{a, *map(int, np.flatnonzero(row))} for a, row in enumerate(matrix)]


def layout_of(sets):
    start, stop, indptr, indices = [], [], [0], []
    for a, revealed in enumerate(sets):
        low = high = a
        while low - 1 in revealed:
            low -= 1
        while high + 1 in revealed:
            high += 1
        start.append(low)
        stop.append(high + 1)
        indices += sorted(b for b in revealed if not low <= b <= high)
        indptr.append(len(indices))
    return start, stop, indptr, indices


def same(graph, sets):
    assert graph.n_arms == len(sets)
    for a, revealed in enumerate(sets):
        assert graph.revealed_by(a).tolist() == sorted(revealed)


@given(matrices())
def test_the_layout_and_all_facts_match_plain_sets(matrix):
    sets = sets_of(matrix)
    graph = FeedbackGraph.from_edges(len(matrix), np.argwhere(matrix))
    for part, dtype, expected in zip(
        graph.arrays, (np.int32, np.int32, np.int64, np.int32), layout_of(sets), strict=True
    ):
        assert part.dtype == dtype
        assert part.flags.c_contiguous
        assert part.flags.writeable
        assert part.tolist() == expected
    assert graph.n_arms == len(matrix)
    assert graph.out_degrees.tolist() == [len(s) for s in sets]
    assert graph.out_degrees.dtype == np.int64
    assert graph.n_edges == sum(map(len, sets))
    assert graph.is_undirected is all(a in sets[b] for a, s in enumerate(sets) for b in s)
    dense = graph.to_sparse().toarray()
    assert dense.dtype == np.bool_
    assert np.array_equal(dense, matrix | np.eye(len(matrix), dtype=bool))


@given(matrices_and_arms())
def test_revealed_by_and_the_kernel_match_plain_sets(case):
    matrix, arms = case
    sets = sets_of(matrix)
    graph = FeedbackGraph.from_sparse(matrix)
    expected = sorted(set().union(*(sets[a] for a in arms)))
    revealed = graph.revealed_by(arms)
    assert revealed.dtype == np.int64
    assert revealed.tolist() == expected
    stamp, out = np.zeros(len(matrix), np.int64), np.full(len(matrix), -1)
    chosen = np.unique(np.array(arms, np.int64))
    for mark in (1, 2):
        count = call_reveal(graph.arrays, chosen, stamp, mark, out)
        assert sorted(out[:count].tolist()) == expected
        assert np.flatnonzero(stamp == mark).tolist() == expected


def test_the_kernel_on_every_graph_of_runs_on_four_arms():
    n = 4
    choices = [[(s, t) for s in range(a + 1) for t in range(a + 1, n + 1)] for a in range(n)]
    stamp, out, mark = np.zeros(n, np.int64), np.empty(n, np.int64), 0
    subsets = [np.flatnonzero([code >> a & 1 for a in range(n)]) for code in range(2**n)]
    for runs in itertools.product(*choices):
        start, stop = np.array(runs, np.int32).T.copy()
        arrays = GraphArrays(start, stop, np.zeros(n + 1, np.int64), np.empty(0, np.int32))
        for arms in subsets:
            mark += 1
            count = call_reveal(arrays, arms, stamp, mark, out)
            expected = set().union(*(range(*runs[a]) for a in arms))
            assert count == len(expected)
            assert set(out[:count].tolist()) == expected


@given(matrices())
def test_every_constructor_gives_the_same_graph(matrix):
    n = len(matrix)
    edges = [(int(a), int(b)) for a, b in np.argwhere(matrix)]
    graph = FeedbackGraph.from_edges(n, edges)
    network = nx.DiGraph()
    network.add_nodes_from(range(n))
    network.add_edges_from(edges)
    others = [
        FeedbackGraph.from_edges(n, reversed(edges + edges)),
        FeedbackGraph.from_edges(n, np.array(edges, np.float64).reshape(-1, 2)),
        FeedbackGraph.from_sparse(matrix.astype(float) * -0.5),
        FeedbackGraph.from_sparse(scipy.sparse.coo_matrix(matrix)),
        FeedbackGraph.from_sparse(scipy.sparse.csc_array(matrix)),
        FeedbackGraph.from_sparse(graph.to_sparse()),
        FeedbackGraph.from_networkx(network),
        FeedbackGraph.from_arrays(graph.to_arrays()),
        pickle.loads(pickle.dumps(graph)),
        copy.deepcopy(graph),
    ]
    for other in others:
        assert other == graph
        assert hash(other) == hash(graph)
    both = FeedbackGraph.from_edges(n, edges, undirected=True)
    assert both == FeedbackGraph.from_sparse(matrix | matrix.T)
    assert both == FeedbackGraph.from_networkx(network.to_undirected())
    assert both.is_undirected


@given(matrices(), matrices())
def test_graphs_are_equal_only_if_their_sets_are(first, second):
    graphs = FeedbackGraph.from_sparse(first), FeedbackGraph.from_sparse(second)
    assert (graphs[0] == graphs[1]) is (sets_of(first) == sets_of(second))
    assert graphs[0] != "a graph"


def test_families_of_runs():
    same(FeedbackGraph.semi_bandit(4), [{0}, {1}, {2}, {3}])
    same(FeedbackGraph.full_information(3), [{0, 1, 2}] * 3)
    same(FeedbackGraph.cliques([2, 1, 3.0]), [{0, 1}] * 2 + [{2}] + [{3, 4, 5}] * 3)
    same(FeedbackGraph.threshold(3), [{0, 1, 2}, {1, 2}, {2}])
    same(FeedbackGraph.threshold(3, direction="down"), [{0}, {0, 1}, {0, 1, 2}])
    assert FeedbackGraph.cliques([1] * 5) == FeedbackGraph.semi_bandit(5)
    assert FeedbackGraph.cliques([5]) == FeedbackGraph.full_information(5)
    assert FeedbackGraph.from_edges(5, []) == FeedbackGraph.semi_bandit(5)
    assert FeedbackGraph.from_edges(5, iter(())) == FeedbackGraph.semi_bandit(5)
    assert FeedbackGraph.threshold(6) == FeedbackGraph.from_sparse(np.triu(np.ones((6, 6))))
    assert repr(FeedbackGraph.cliques([3, 1])) == "FeedbackGraph(n_arms=4, n_edges=10)"


def test_to_arrays_gives_copies_and_from_arrays_keeps_none():
    graph = FeedbackGraph.from_edges(4, [(0, 2)])
    arrays = graph.to_arrays()
    loaded = FeedbackGraph.from_arrays(arrays)
    for part in arrays.values():
        part[:] = 0
    assert graph == loaded == FeedbackGraph.from_edges(4, [(0, 2)])


def test_networkx_nodes_keep_their_order_and_multigraphs_count_once():
    graph = nx.MultiDiGraph()
    graph.add_nodes_from(["z", "a", "m"])
    graph.add_edges_from([("z", "m"), ("z", "m"), ("a", "z")])
    same(FeedbackGraph.from_networkx(graph), [{0, 2}, {0, 1}, {2}])


def test_sparse_duplicates_are_summed_and_stored_zeros_ignored():
    values, rows, columns = [1, -1, 0, 2], [0, 0, 1, 2], [2, 2, 2, 0]
    matrix = scipy.sparse.coo_array((values, (rows, columns)), shape=(3, 3))
    same(FeedbackGraph.from_sparse(matrix), [{0}, {1}, {0, 2}])


@given(
    st.integers(1, 3).flatmap(
        lambda d: hnp.arrays(np.int64, st.tuples(st.integers(1, 9), st.just(d)), elements=st.integers(-4, 4))
    ),
    st.integers(0, 6),
)
def test_nearest_matches_all_distances(points, radius):
    n = len(points)
    square = ((points[:, None] - points[None]) ** 2).sum(axis=2)
    assert FeedbackGraph.nearest(points, radius=radius) == FeedbackGraph.from_sparse(square <= radius**2)
    k = min(radius, n - 1)
    graph = FeedbackGraph.nearest(points, neighbours=k)
    for a in range(n):
        others = graph.revealed_by(a)
        others = others[others != a]
        assert sorted(square[a, others]) == sorted(np.delete(square[a], a))[:k]


def test_nearest_takes_points_on_a_line():
    assert FeedbackGraph.nearest([0, 1, 3], 2) == FeedbackGraph.from_edges(3, [(0, 1), (1, 2)], undirected=True)


@pytest.mark.parametrize(
    ("make", "edges", "undirected"),
    [
        (lambda: FeedbackGraph.semi_bandit(MANY), MANY, True),
        (lambda: FeedbackGraph.full_information(MANY), MANY**2, True),
        (lambda: FeedbackGraph.cliques([1000] * (MANY // 1000)), MANY * 1000, True),
        (lambda: FeedbackGraph.threshold(MANY), MANY * (MANY + 1) // 2, False),
        (lambda: FeedbackGraph.threshold(MANY, "down"), MANY * (MANY + 1) // 2, False),
    ],
)
def test_a_million_arms_stay_small(make, edges, undirected):
    graph = make()
    assert graph.n_edges == edges
    assert sum(part.nbytes for part in graph.arrays) <= 17 * MANY
    assert graph.is_undirected is undirected
    assert FeedbackGraph.from_arrays(graph.to_arrays()) == graph


def test_a_run_answered_by_lists_is_undirected():
    # Arm 0 reveals 1 to n - 1 as a run; the others know it through their run or through their list.
    n = 200
    star = FeedbackGraph.from_edges(n, [(0, b) for b in range(n)], undirected=True)
    assert star.is_undirected
    assert star.arrays.indices.size == n - 2
    broken = FeedbackGraph.from_edges(n, [(0, b) for b in range(n)] + [(b, 0) for b in range(n) if b != 150])
    assert not broken.is_undirected


def test_reveal_walks_nested_runs_once():
    class Counted(np.ndarray):
        reads = 0

        def __getitem__(self, key):
            Counted.reads += 1
            return np.ndarray.__getitem__(self, key)

    n = 500
    plain = getattr(reveal, "py_func", reveal)
    stamp = np.zeros(n, np.int64).view(Counted)
    growing = np.array([[abs(2 * b + 1 - n) <= 2 * a + 1 - n for b in range(n)] for a in range(n)])
    full, ladder = FeedbackGraph.full_information(n), FeedbackGraph.threshold(n)
    for mark, (graph, first) in enumerate([(full, 0), (ladder, 0), (FeedbackGraph.from_sparse(growing), n // 2)]):
        Counted.reads = 0
        count = plain(graph.arrays, np.arange(first, n), stamp, mark + 1, np.empty(n, np.int64))
        assert count == n
        assert Counted.reads == n


def test_erdos_renyi_on_many_arms_is_sparse_and_repeatable():
    graph = FeedbackGraph.erdos_renyi(MANY // 10, 5 / MANY, seed=3)
    assert graph == FeedbackGraph.erdos_renyi(MANY // 10, 5 / MANY, seed=3)
    assert graph != FeedbackGraph.erdos_renyi(MANY // 10, 5 / MANY, seed=4)


@pytest.mark.parametrize("directed", [True, False])
@pytest.mark.parametrize("p", [0.04, 0.09, 0.3, 0.9])
def test_erdos_renyi_law(p, directed):
    """Three z-scores, each beyond 5.5 with probability near 4e-8, so some 1e-6 over the eight cases."""
    n, repeats = 30, 400
    total = np.zeros((n, n))
    sizes = np.empty(repeats)
    for seed in range(repeats):
        matrix = FeedbackGraph.erdos_renyi(n, p, seed=seed, directed=directed).to_sparse().toarray()
        assert matrix.diagonal().all()
        if not directed:
            assert np.array_equal(matrix, matrix.T)
            matrix = np.triu(matrix)
        sizes[seed] = matrix.sum() - n
        total += matrix
    pairs = n * (n - 1) if directed else n * (n - 1) // 2
    mean, variance = pairs * p, pairs * p * (1 - p)
    assert abs(sizes.mean() - mean) < 5.5 * math.sqrt(variance / repeats)
    spread = ((sizes - mean) ** 2).mean() / variance
    assert abs(spread - 1) < 5.5 * math.sqrt(2 / repeats + 1 / (repeats * variance))
    inside = ~np.eye(n, dtype=bool) if directed else np.triu(np.ones((n, n), bool), 1)
    counts = total[inside]
    score = ((counts - repeats * p) ** 2).sum() / (repeats * p * (1 - p))
    assert abs(score - pairs) < 5.5 * math.sqrt(2 * pairs)


@pytest.mark.parametrize("directed", [True, False])
def test_erdos_renyi_at_the_ends(directed):
    assert FeedbackGraph.erdos_renyi(9, 0, seed=1, directed=directed) == FeedbackGraph.semi_bandit(9)
    assert FeedbackGraph.erdos_renyi(9, 1, seed=1, directed=directed) == FeedbackGraph.full_information(9)
    assert FeedbackGraph.erdos_renyi(1, 0.5, seed=1, directed=directed) == FeedbackGraph.semi_bandit(1)
    assert FeedbackGraph.erdos_renyi(1, 0.01, seed=1, directed=directed) == FeedbackGraph.semi_bandit(1)


Graph = FeedbackGraph
BAD = [
    (lambda: Graph.semi_bandit(0), ValueError, "n_arms .* got 0"),
    (lambda: Graph.semi_bandit(-3), ValueError, "n_arms .* got -3"),
    (lambda: Graph.semi_bandit(2.5), ValueError, r"n_arms .* got 2\.5"),
    (lambda: Graph.semi_bandit(float("nan")), ValueError, "n_arms .* got nan"),
    (lambda: Graph.semi_bandit(2**31), ValueError, "n_arms .* got 2147483648"),
    (lambda: Graph.semi_bandit(True), TypeError, "n_arms .* got True"),
    (lambda: Graph.full_information("5"), TypeError, "n_arms .* got '5'"),
    (lambda: Graph.full_information(None), TypeError, "n_arms .* got None"),
    (lambda: Graph.threshold(np.True_), TypeError, "n_arms"),
    (lambda: Graph.threshold(4, "left"), ValueError, "direction .* got 'left'"),
    (lambda: Graph.cliques([]), ValueError, "sizes"),
    (lambda: Graph.cliques(3), ValueError, "sizes"),
    (lambda: Graph.cliques([2, 0]), ValueError, "sizes .* got 0"),
    (lambda: Graph.cliques([2, -1]), ValueError, "sizes .* got -1"),
    (lambda: Graph.cliques([2, 1.5]), ValueError, r"sizes .* got 1\.5"),
    (lambda: Graph.cliques([2**30, 2**30]), ValueError, "sizes .* got 2147483648"),
    (lambda: Graph.cliques(["2"]), TypeError, "sizes"),
    (lambda: Graph.cliques([True]), TypeError, "sizes"),
    (lambda: Graph.from_edges(3, [(0, 3)]), ValueError, "edges must be from 0 to 2, got 3"),
    (lambda: Graph.from_edges(3, [(-1, 0)]), ValueError, "edges .* got -1"),
    (lambda: Graph.from_edges(3, np.array([[0, 200]], np.uint8)), ValueError, "edges .* got 200"),
    (lambda: Graph.from_edges(3, np.array([[0, 2**64 - 1]], np.uint64)), ValueError, "edges"),
    (lambda: Graph.from_edges(3, [(0, 0.5)]), ValueError, r"edges .* got 0\.5"),
    (lambda: Graph.from_edges(3, [(0, float("nan"))]), ValueError, "edges .* got nan"),
    (lambda: Graph.from_edges(3, [(0, 1), (2,)]), ValueError, "edges"),
    (lambda: Graph.from_edges(3, [(0, 1, 2)]), ValueError, r"edges .* \(1, 3\)"),
    (lambda: Graph.from_edges(3, [0, 1]), ValueError, r"edges .* \(2,\)"),
    (lambda: Graph.from_edges(3, "01"), TypeError, "edges"),
    (lambda: Graph.from_edges(3, [("0", "1")]), TypeError, "edges"),
    (lambda: Graph.from_edges(3, [(True, False)]), TypeError, "edges"),
    (lambda: Graph.from_edges(3, 1), TypeError, "edges .* got 1"),
    (lambda: Graph.from_sparse(np.ones((2, 3))), ValueError, r"matrix .* \(2, 3\)"),
    (lambda: Graph.from_sparse(scipy.sparse.csr_array((2, 3))), ValueError, r"matrix .* \(2, 3\)"),
    (lambda: Graph.from_sparse(np.ones(3)), ValueError, r"matrix .* \(3,\)"),
    (lambda: Graph.from_sparse(np.ones((0, 0))), ValueError, "matrix .* got 0"),
    (lambda: Graph.from_sparse([[1], [1, 2]]), ValueError, "matrix"),
    (lambda: Graph.from_sparse([[1, float("nan")], [1, 2]]), ValueError, "matrix .* nan"),
    (lambda: Graph.from_sparse("graph"), TypeError, "matrix"),
    (lambda: Graph.from_sparse(np.ones((2, 2), complex)), TypeError, "matrix"),
    (lambda: Graph.from_sparse(scipy.sparse.csr_array(np.ones((2, 2), complex))), TypeError, "matrix"),
    (lambda: Graph.from_networkx(nx.Graph()), ValueError, "nodes .* got 0"),
    (lambda: Graph.from_networkx([(0, 1)]), TypeError, "NetworkX graph, got list"),
    (lambda: Graph.erdos_renyi(3, -0.1, seed=1), ValueError, r"p .* got -0\.1"),
    (lambda: Graph.erdos_renyi(3, 1.1, seed=1), ValueError, r"p .* got 1\.1"),
    (lambda: Graph.erdos_renyi(3, float("nan"), seed=1), ValueError, "p .* got nan"),
    (lambda: Graph.erdos_renyi(3, "0.1", seed=1), TypeError, "p .* got '0.1'"),
    (lambda: Graph.erdos_renyi(3, True, seed=1), TypeError, "p .* got True"),
    (lambda: Graph.erdos_renyi(3, 0.1, seed=-1), ValueError, "seed .* got -1"),
    (lambda: Graph.erdos_renyi(3, 0.1, seed=1.5), TypeError, r"seed .* got 1\.5"),
    (lambda: Graph.nearest([0.0, float("nan")], radius=1), ValueError, "points .* got nan"),
    (lambda: Graph.nearest([0.0, float("inf")], radius=1), ValueError, "points .* got inf"),
    (lambda: Graph.nearest([], radius=1), ValueError, "points"),
    (lambda: Graph.nearest(np.zeros((2, 2, 2)), radius=1), ValueError, "points"),
    (lambda: Graph.nearest(["a"], radius=1), TypeError, "points"),
    (lambda: Graph.nearest([0.0, 1.0]), ValueError, "exactly one of radius and neighbours"),
    (lambda: Graph.nearest([0.0, 1.0], 1.0, 1), ValueError, "exactly one of radius and neighbours"),
    (lambda: Graph.nearest([0.0, 1.0], radius=-1), ValueError, "radius .* got -1"),
    (lambda: Graph.nearest([0.0, 1.0], radius=float("inf")), ValueError, "radius .* got inf"),
    (lambda: Graph.nearest([0.0, 1.0], radius="1"), TypeError, "radius .* got '1'"),
    (lambda: Graph.nearest([0.0, 1.0], neighbours=2), ValueError, "neighbours .* from 0 to 1, got 2"),
    (lambda: Graph.nearest([0.0, 1.0], neighbours=0.5), ValueError, r"neighbours .* got 0\.5"),
    (lambda: Graph.semi_bandit(3).revealed_by(3), ValueError, "arms must be from 0 to 2, got 3"),
    (lambda: Graph.semi_bandit(3).revealed_by([0, -1]), ValueError, "arms .* got -1"),
    (lambda: Graph.semi_bandit(3).revealed_by([0.5]), ValueError, r"arms .* got 0\.5"),
    (lambda: Graph.semi_bandit(3).revealed_by("0"), TypeError, "arms"),
    (lambda: Graph.semi_bandit(3).revealed_by([True, False, True]), TypeError, "arms"),
    (lambda: Graph(5), TypeError, "GraphArrays, got 5"),
]


@pytest.mark.parametrize(("call", "error", "message"), BAD)
def test_bad_input_is_named(call, error, message):
    with pytest.raises(error, match=message):
        call()


# The valid layout is 0: {0, 2, 4}, 1: {1}, 2: {2}, 3: {2, 3}, 4: {4}.
LAYOUT = {
    "start": [0, 1, 2, 2, 4],
    "stop": [1, 2, 3, 4, 5],
    "indptr": [0, 2, 2, 2, 2, 2],
    "indices": [2, 4],
}


def test_the_layout_that_the_bad_ones_vary_is_good():
    arrays = {name: np.array(part) for name, part in LAYOUT.items()}
    same(FeedbackGraph.from_arrays(arrays), [{0, 2, 4}, {1}, {2}, {2, 3}, {4}])


@pytest.mark.parametrize(
    ("change", "message"),
    [
        ({"start": [0, 1, 2, 2]}, "lengths"),
        ({"stop": [1, 2, 3, 4]}, "lengths"),
        ({"indptr": [0, 2, 2, 2, 2]}, "lengths"),
        ({"start": [0, 1, 2, 4, 4]}, "enclose"),
        ({"start": [-1, 1, 2, 2, 4]}, "start .* got -1"),
        ({"stop": [0, 2, 3, 4, 5]}, "enclose"),
        ({"stop": [1, 2, 3, 4, 6]}, "enclose"),
        ({"indptr": [1, 2, 2, 2, 2, 2]}, "indptr"),
        ({"indptr": [0, 2, 2, 2, 2, 3]}, "indptr"),
        ({"indptr": [0, 2, 1, 2, 2, 2]}, "indptr"),
        ({"indices": [2, 5]}, "indices .* got 5"),
        ({"indices": [-2, 2]}, "indices .* got -2"),
        ({"indices": [4, 2]}, "ascend strictly"),
        ({"indices": [4, 4]}, "ascend strictly"),
        ({"indices": [0, 4]}, "inside or next to"),
        ({"indices": [1, 4]}, "inside or next to"),
        ({"indptr": [0, 0, 0, 0, 2, 2], "indices": [0, 1]}, "inside or next to"),
        ({"start": [0.0, 1, 2, 2, 4]}, "start .* float64"),
        ({"indices": [[2, 4]]}, "indices .* 2-D"),
        ({"extra": [1]}, "keys"),
        ({"start": [], "stop": [], "indptr": [0], "indices": []}, "start"),
    ],
)
def test_arrays_that_are_no_graph_are_refused(change, message):
    arrays = {name: np.array(part, None if part else np.int64) for name, part in {**LAYOUT, **change}.items()}
    with pytest.raises(ValueError, match=message):
        FeedbackGraph.from_arrays(arrays)


def test_from_arrays_needs_every_key():
    with pytest.raises(ValueError, match="keys"):
        FeedbackGraph.from_arrays({"start": np.array([0])})
    with pytest.raises(ValueError, match="keys"):
        FeedbackGraph.from_arrays(GraphArrays(*map(np.array, LAYOUT.values())))
