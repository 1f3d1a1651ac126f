"""Graph numbers: against brute force, another solver, known graphs, and each other."""

from __future__ import annotations

import itertools
import math

import networkx as nx
import numpy as np
import pytest
from scipy.optimize import Bounds, LinearConstraint, milp

from armtriage import (
    CombinatorialElimination,
    Constraints,
    Explicit,
    FeedbackGraph,
    LinearEnvironment,
    Matchings,
    PartitionMatroid,
    Paths,
    SpanningTrees,
    StochasticEnvironment,
    TopS,
    hub_family,
    partition,
    star,
    two_hubs,
)
from armtriage.kernels.jit import JIT
from armtriage.theory import (
    Bracket,
    active_cover_number,
    chvatal_dominating_set,
    cover_number,
    covers,
    domination_number,
    gap,
    greedy_dominating_set,
    independence,
    independence_number,
    independent_set,
    layer_size,
    numbers,
)
from conftest import seeds

MANY = 200_000 if JIT else 5_000


def random_matrix(seed, most=10):
    """A boolean matrix from empty to full; every second one symmetric, every third one of runs, some in blocks."""
    rng = np.random.default_rng(seed)
    n = int(rng.integers(1, most + 1))
    matrix = rng.random((n, n)) < rng.random() ** 2
    if seed % 3 == 0:
        arms = np.arange(n)
        matrix = (arms >= rng.integers(0, arms + 1)[:, None]) & (arms <= rng.integers(arms, n)[:, None])
    if seed % 7 == 0:
        half = rng.random(n) < 0.5
        matrix &= half[:, None] == half
    if seed % 2 == 0:
        matrix |= matrix.T
    np.fill_diagonal(matrix, True)
    return matrix


def masks(matrix):
    return [sum(1 << int(b) for b in np.flatnonzero(row)) for row in matrix]


def brute_force(matrix):
    """The independence number and the domination number, over all subsets."""
    n = len(matrix)
    reveals, joined = masks(matrix), masks((matrix | matrix.T) & ~np.eye(n, dtype=bool))
    alpha, domination = 1, n
    for chosen in range(1, 1 << n):
        members = [a for a in range(n) if chosen >> a & 1]
        if not any(joined[a] & chosen for a in members):
            alpha = max(alpha, len(members))
        seen = 0
        for a in members:
            seen |= reveals[a]
        if seen == (1 << n) - 1:
            domination = min(domination, len(members))
    return alpha, domination


def by_programming(graph):
    """The same by plain integer programs, with a row for each edge, or for each arm."""
    matrix = graph.to_sparse().toarray()
    n = graph.n_arms
    pairs = np.argwhere(np.triu(matrix | matrix.T, 1))
    edges = np.zeros((len(pairs), n))
    edges[np.arange(len(pairs)), pairs[:, 0]] = edges[np.arange(len(pairs)), pairs[:, 1]] = 1
    whole = {"integrality": np.ones(n), "bounds": Bounds(0, 1), "options": {"mip_rel_gap": 0.0}}
    most = milp(-np.ones(n), constraints=LinearConstraint(edges, -np.inf, 1), **whole)
    fewest = milp(np.ones(n), constraints=LinearConstraint(matrix.T.astype(float), 1, np.inf), **whole)
    return round(-most.fun), round(fewest.fun)


def both(graph, **options):
    return independence_number(graph, **options), domination_number(graph, **options)


def assert_exact(graph, alpha, domination):
    found = both(graph, time_limit=100.0)
    assert [(one.lower, one.upper) for one in found] == [(alpha, alpha), (domination, domination)], found
    assert all(one.exact and one.how.startswith("exact: ") for one in found)


def assert_independent(graph, arms):
    matrix = graph.to_sparse().toarray()
    assert np.unique(arms).size == arms.size
    assert int(matrix[np.ix_(arms, arms)].sum()) == arms.size


def undirected(graph):
    return FeedbackGraph.from_networkx(nx.convert_node_labels_to_integers(graph))


@pytest.mark.parametrize("seed", seeds(400, step=5))
def test_numbers_are_those_of_brute_force(seed):
    matrix = random_matrix(seed)
    graph = FeedbackGraph.from_sparse(matrix)
    alpha, domination = brute_force(matrix)
    assert_exact(graph, alpha, domination)
    arms = independent_set(graph)
    assert arms.size == alpha
    assert_independent(graph, arms)


@pytest.mark.parametrize("directed", [True, False])
@pytest.mark.parametrize("p", [0.03, 0.1, 0.3, 0.6, 0.9])
@pytest.mark.parametrize("n", [25, 45])
def test_numbers_are_those_of_plain_integer_programs(n, p, directed):
    graph = FeedbackGraph.erdos_renyi(n, p, seed=n, directed=directed)
    assert_exact(graph, *by_programming(graph))


PALEY = {5: (2, 2), 13: (3, 3), 17: (3, 3), 29: (4, 4), 37: (4, 4)}


def paley(q):
    squares = {x * x % q for x in range(1, q)}
    return FeedbackGraph.from_edges(q, [(a, b) for a in range(q) for b in range(q) if (a - b) % q in squares])


@pytest.mark.parametrize(
    ("graph", "alpha", "domination"),
    [
        (undirected(nx.petersen_graph()), 4, 3),
        (undirected(nx.icosahedral_graph()), 3, 2),
        (undirected(nx.dodecahedral_graph()), 8, 6),
        (undirected(nx.complete_bipartite_graph(4, 7)), 7, 2),
        (undirected(nx.complete_multipartite_graph(3, 3, 3)), 3, 2),
        (undirected(nx.kneser_graph(7, 2)), 6, 3),
        (undirected(nx.turan_graph(12, 4)), 3, 2),
        (undirected(nx.wheel_graph(9)), 4, 1),
        (undirected(nx.balanced_tree(2, 6)), 85, 37),
        (undirected(nx.grid_2d_graph(8, 8)), 32, 16),
        (two_hubs(103), 101, 2),
        (FeedbackGraph.from_edges(3, [(0, 1), (1, 2), (2, 0)]), 1, 2),
        *((undirected(nx.cycle_graph(n)), n // 2, -(-n // 3)) for n in range(3, 14)),
        *((undirected(nx.path_graph(n)), -(-n // 2), -(-n // 3)) for n in range(1, 12)),
        *((undirected(nx.hypercube_graph(d)), 2 ** (d - 1), (1, 2, 2, 4, 7)[d - 1]) for d in range(1, 6)),
        *((paley(q), *numbers) for q, numbers in PALEY.items()),
    ],
)
def test_known_graphs(graph, alpha, domination):
    assert_exact(graph, alpha, domination)


def test_queens_on_a_chessboard():
    fields = list(itertools.product(range(8), repeat=2))
    attacks = [
        (i, j)
        for (i, (a, b)), (j, (c, d)) in itertools.combinations(enumerate(fields), 2)
        if a == c or b == d or abs(a - c) == abs(b - d)
    ]
    assert_exact(FeedbackGraph.from_edges(64, attacks, undirected=True), 8, 5)


def test_the_greedy_lemma_is_false_on_two_hubs():
    graph = two_hubs(103)
    assert domination_number(graph).upper == 2
    assert greedy_dominating_set(graph).size == 51 > 2 * (1 + math.log(103))
    assert chvatal_dominating_set(graph).tolist() == [0, 1]


@pytest.mark.parametrize("seed", seeds(30, step=5))
def test_numbers_do_not_depend_on_the_names_of_the_arms(seed):
    """Renamed, cliques and runs are no longer stored as such."""
    rng = np.random.default_rng(seed)
    sizes = rng.integers(1, 9, 8)
    at = np.sort(rng.random(40))
    for graph in (FeedbackGraph.cliques(sizes), FeedbackGraph.nearest(at, radius=0.05), FeedbackGraph.threshold(30)):
        names = rng.permutation(graph.n_arms)
        row, column = graph.to_sparse().nonzero()
        renamed = FeedbackGraph.from_edges(graph.n_arms, np.column_stack([names[row], names[column]]))
        alpha, domination = both(graph)
        assert_exact(renamed, alpha.upper, domination.upper)


def test_parts_add_up():
    parts = [nx.petersen_graph(), nx.cycle_graph(7), nx.path_graph(5), nx.complete_graph(6), nx.hypercube_graph(4)]
    assert_exact(undirected(nx.disjoint_union_all(parts)), 4 + 3 + 3 + 1 + 8, 3 + 3 + 2 + 1 + 4)


def tree_numbers(n):
    """Both numbers of the binary tree in which arm a hangs on (a - 1) // 2: from the leaves up, greed is right."""
    taken, picked, seen = [True] * n, [False] * n, [False] * n
    for arm in range(n - 1, -1, -1):
        parent = max((arm - 1) // 2, 0)
        if arm and taken[arm]:
            taken[parent] = False
        if not seen[arm]:
            picked[parent] = True
            seen[parent] = seen[max((parent - 1) // 2, 0)] = True
    return sum(taken), sum(picked)


# Graphs with both numbers and how they are found: each is made by the test that needs it, and not by every process.
LARGE = {
    "semi-bandit": lambda: (FeedbackGraph.semi_bandit(MANY), MANY, MANY, "semi-bandit"),
    "full": lambda: (FeedbackGraph.full_information(MANY), 1, 1, "full information"),
    "cliques": lambda: (FeedbackGraph.cliques([10] * (MANY // 10)), MANY // 10, MANY // 10, "cliques"),
    "up": lambda: (FeedbackGraph.threshold(MANY), 1, 1, "ladder"),
    "down": lambda: (FeedbackGraph.threshold(MANY, "down"), 1, 1, "ladder"),
    "line": lambda: (
        FeedbackGraph.nearest(np.arange(MANY), radius=2.5), -(-MANY // 3), MANY // 5, "runs of arms",
    ),
    "star": lambda: (
        FeedbackGraph.from_edges(MANY, [(7, leaf) for leaf in range(MANY)]), MANY - 1, 1, "greedy and matching",
    ),
    "two paths": lambda: (
        FeedbackGraph.from_edges(MANY, [(a, a + 2) for a in range(MANY - 2)]),
        MANY // 2, MANY // 2, "greedy and matching",
    ),
    "ring": lambda: (
        FeedbackGraph.from_edges(MANY, [(a, (a + 1) % MANY) for a in range(MANY)], undirected=True),
        MANY // 2, -(-MANY // 3), "greedy and matching",
    ),
    "binary tree": lambda: (
        FeedbackGraph.from_edges(MANY, [(a, (a - 1) // 2) for a in range(1, MANY)], undirected=True),
        *tree_numbers(MANY), "greedy and matching",
    ),
}  # fmt: skip


@pytest.mark.parametrize("name", LARGE)
def test_structure_is_recognised_at_any_size(name):
    graph, alpha, domination, how = LARGE[name]()
    found, cover = both(graph, time_limit=0.0)
    assert (found.lower, found.upper, found.how) == (alpha, alpha, f"exact: {how}")
    # Of a tree so large no smallest dominating set is searched for.
    assert cover.lower <= domination <= cover.upper
    assert cover.exact or name == "binary tree"
    assert greedy_dominating_set(graph).size >= domination
    assert chvatal_dominating_set(graph).size >= domination


@pytest.mark.parametrize(
    ("graph", "how"),
    [
        (FeedbackGraph.semi_bandit(3), "semi-bandit"),
        (FeedbackGraph.full_information(3), "full information"),
        (FeedbackGraph.cliques([1, 2]), "cliques"),
        (FeedbackGraph.threshold(3), "ladder"),
        (FeedbackGraph.from_edges(4, [(0, 1), (1, 2), (2, 3)], undirected=True), "runs of arms"),
    ],
)
def test_structure_has_its_name(graph, how):
    assert both(graph)[0].how == both(graph)[1].how == f"exact: {how}"


@pytest.mark.parametrize("edges", [[(0, 1), (0, 2), (2, 1), (2, 0)], [(0, 1), (0, 2)], [(0, 1), (2, 1)]])
def test_runs_one_way_are_covered_by_structure_alone(edges):
    alpha, domination = both(FeedbackGraph.from_edges(3, edges))
    assert (alpha.how, domination.how) == ("exact: greedy and matching", "exact: runs of arms")


@pytest.mark.parametrize("directed", [True, False])
@pytest.mark.parametrize(("n", "p"), [(60, 0.05), (40, 0.3), (50, 0.1), (50, 0.6)])
def test_brackets_without_time_contain_the_truth(n, p, directed):
    graph = FeedbackGraph.erdos_renyi(n, p, seed=7, directed=directed)
    truth = both(graph, time_limit=100.0)
    for quick, exact in zip(both(graph, time_limit=0.0), truth, strict=True):
        assert exact.exact
        assert quick.lower <= exact.lower <= quick.upper
        assert quick.exact or quick.how.endswith(", stopped after 0 s")
    arms = independent_set(graph, time_limit=0.0)
    assert arms.size == independence_number(graph, time_limit=0.0).lower
    assert_independent(graph, arms)


def test_a_bracket_that_is_stopped_says_so():
    number = independence_number(FeedbackGraph.erdos_renyi(400, 0.1, seed=7), time_limit=0.1)
    assert not number.exact
    assert number.how.startswith("bracket: ")
    assert number.how.endswith("stopped after 0.1 s")


@pytest.mark.parametrize("seed", seeds(60, step=5))
def test_limits_without_integer_programming_contain_the_truth(seed, monkeypatch):
    rng = np.random.default_rng(seed)
    graph = FeedbackGraph.erdos_renyi(int(rng.integers(8, 26)), rng.uniform(0.05, 0.6), seed, directed=seed % 2 == 0)
    truth = by_programming(graph)
    assert_exact(graph, *truth)
    monkeypatch.setattr(independence, "_PROGRAMMED", 0)
    monkeypatch.setattr(covers, "_PROGRAMMED", 0)
    for number, exact in zip(both(graph), truth, strict=True):
        assert number.lower <= exact <= number.upper
        assert number.exact or number.how.endswith(", too large to search")


@pytest.mark.parametrize("seed", seeds(100, step=5))
def test_graphs_too_large_to_write_out_get_brackets(seed, monkeypatch):
    monkeypatch.setattr(independence, "EDGES", 0)
    monkeypatch.setattr(covers, "EDGES", 0)
    matrix = random_matrix(seed)
    graph = FeedbackGraph.from_sparse(matrix)
    for number, exact in zip(both(graph), brute_force(matrix), strict=True):
        assert number.lower <= exact <= number.upper
    arms = independent_set(graph)
    assert arms.size == independence_number(graph).lower
    assert_independent(graph, arms)


def test_a_bracket_shows_itself():
    assert str(Bracket(3, 3, "exact: cliques")) == "3 (exact: cliques)"
    assert str(Bracket(3, 5, "bracket: greedy")) == "3 to 5 (bracket: greedy)"


def slow_greedy(matrix, among_all):
    missing, picks = set(range(len(matrix))), []
    reveals = [set(np.flatnonzero(row).tolist()) for row in matrix]
    while missing:
        candidates = range(len(matrix)) if among_all else sorted(missing)
        picks.append(max(candidates, key=lambda arm: (len(reveals[arm] & missing), -arm)))
        missing -= reveals[picks[-1]]
    return picks


@pytest.mark.parametrize("seed", seeds(200, step=5))
def test_greedy_covers_are_those_of_their_slow_twins(seed):
    matrix = random_matrix(seed, most=40)
    graph = FeedbackGraph.from_sparse(matrix)
    assert greedy_dominating_set(graph).tolist() == slow_greedy(matrix, among_all=False)
    assert chvatal_dominating_set(graph).tolist() == slow_greedy(matrix, among_all=True)


@pytest.mark.parametrize("n", [300, 700])
def test_chvatal_counts_long_runs(n):
    rng = np.random.default_rng(n)
    arms = np.arange(n)
    matrix = (arms >= rng.integers(0, arms + 1)[:, None]) & (arms <= (arms + rng.integers(0, 300, n))[:, None])
    assert chvatal_dominating_set(FeedbackGraph.from_sparse(matrix)).tolist() == slow_greedy(matrix, among_all=True)


@pytest.mark.parametrize("variant", ["paper", "tight"])
@pytest.mark.parametrize(
    "graph",
    [
        FeedbackGraph.erdos_renyi(60, 0.1, seed=1),
        FeedbackGraph.erdos_renyi(60, 0.1, seed=2, directed=False),
        FeedbackGraph.erdos_renyi(150, 0.6, seed=3),
        FeedbackGraph.cliques([3, 1, 7, 2]),
        FeedbackGraph.threshold(9, "down"),
        FeedbackGraph.semi_bandit(6),
        two_hubs(103),
    ],
)
def test_the_greedy_is_that_of_the_policy(graph, variant):
    policy = CombinatorialElimination(graph, 1, horizon=1000, variant=variant)
    picks, seen = [], np.zeros(graph.n_arms, np.bool_)
    while not seen.all():
        decision = policy.ask()
        picks += decision.arms.tolist()
        seen[decision.revealed] = True
        policy.tell(decision, np.full(decision.revealed.size, 0.5))
    assert greedy_dominating_set(graph).tolist() == picks


@pytest.mark.parametrize("seed", seeds(300, step=5))
def test_the_greedy_keeps_the_bound_that_replaces_the_lemma(seed):
    rng = np.random.default_rng(seed)
    n, directed = int(rng.integers(2, 30)), seed % 3 > 0
    graph = FeedbackGraph.erdos_renyi(n, rng.random() ** 2, seed, directed=directed)
    if seed % 3 == 1:
        upper = np.triu(rng.random((n, n)) < 0.5, 1)
        graph = FeedbackGraph.from_sparse(upper | np.tril(~upper.T, -1))  # a tournament: each pair has one edge
    alpha = independence_number(graph, time_limit=100.0)
    picks = greedy_dominating_set(graph)
    assert alpha.exact
    assert picks.size <= layer_size(n, alpha, undirected=graph.is_undirected)
    assert picks.size <= alpha.upper * (1 + 2 * math.log(n / alpha.upper)) + 1
    if graph.is_undirected:
        assert_independent(graph, picks)
    assert chvatal_dominating_set(graph).size <= (1 + math.log(n)) * domination_number(graph).upper


def random_family(seed, most=7):
    rng = np.random.default_rng(seed)
    n, m = int(rng.integers(2, 8)), int(rng.integers(1, most))
    rows = [rng.choice(n, int(rng.integers(1, min(n, 4))), replace=False) for _ in range(m)]
    matrix = rng.random((n, n)) < rng.random()
    if seed % 2:
        matrix |= matrix.T
    return Explicit(rows, n_arms=n), FeedbackGraph.from_sparse(matrix.astype(int))


def smallest(family, graph):
    """The fewest decisions of a family that reveal all its arms."""
    needed = set(itertools.chain(*(one.tolist() for one in family)))
    for size in range(1, len(family) + 1):
        for some in itertools.combinations(family, size):
            if needed <= set(graph.revealed_by(np.concatenate(some)).tolist()):
                return size
    raise AssertionError


def largest_need(family, graph):
    parts = itertools.chain(*(itertools.combinations(family, size) for size in range(1, len(family) + 1)))
    return max(smallest(part, graph) for part in parts)


@pytest.mark.parametrize("seed", seeds(100, step=5))
def test_cover_numbers_are_those_of_brute_force(seed, monkeypatch):
    decisions, graph = random_family(seed)
    family = list(decisions)
    kappa, active = smallest(family, graph), largest_need(family, graph)
    assert cover_number(decisions, graph)[:2] == (kappa, kappa)
    assert active_cover_number(decisions, graph)[:2] == (active, active)
    limits = active_cover_number(decisions, graph, limit=0)
    assert limits.lower <= active <= limits.upper
    monkeypatch.setattr(numbers, "_LISTED", 0)
    limits = cover_number(decisions, graph)
    assert limits.lower <= kappa <= limits.upper
    stopped = cover_number(decisions, graph, time_limit=0.0)
    assert stopped.lower <= kappa <= stopped.upper
    monkeypatch.setattr(numbers, "EDGES", 0)
    assert cover_number(decisions, graph).lower <= kappa <= cover_number(decisions, graph).upper
    limits = active_cover_number(decisions, graph, limit=0, time_limit=0.0)
    assert limits.lower <= active <= limits.upper


@pytest.mark.parametrize("seed", range(20))
def test_slates_without_groups_need_the_domination_number_over_the_budget(seed):
    rng = np.random.default_rng(seed)
    n = int(rng.integers(3, 8))
    graph = FeedbackGraph.erdos_renyi(n, 0.3, seed)
    slates = TopS(n, budget=int(rng.integers(1, 4)))
    assert cover_number(slates, graph)[:2] == cover_number(Explicit(list(slates)), graph)[:2]
    assert cover_number(slates, graph).exact


@pytest.mark.parametrize(
    "decisions",
    [
        Matchings(2, 3),
        SpanningTrees(4, [(0, 1), (1, 2), (2, 3), (3, 0), (0, 2)]),
        Paths(4, [(0, 1), (0, 2), (1, 3), (2, 3), (1, 2)], source=0, target=3),
        PartitionMatroid([0, 0, 1, 1, 1], capacities=[1, 2]),
        Constraints([[1, 1, 1, 1], [1, 1, 0, 0]], lower=[2, 0], upper=[2, 1]),
    ],
    ids=lambda one: type(one).__name__,
)
def test_limits_by_an_oracle_contain_what_a_list_gives(decisions, monkeypatch):
    for seed in range(5):
        graph = FeedbackGraph.erdos_renyi(decisions.n_arms, 0.2, seed)
        listed = cover_number(decisions, graph), active_cover_number(decisions, graph)
        assert all(one.exact for one in listed)
        with monkeypatch.context() as patch:
            patch.setattr(numbers, "_LISTED", 0)
            limits = cover_number(decisions, graph), active_cover_number(decisions, graph, limit=0)
        assert all(one.lower <= exact.lower <= one.upper for one, exact in zip(limits, listed, strict=True))


@pytest.mark.parametrize(("n", "budget"), [(6, 2), (9, 4), (30, 3)])
def test_semi_bandit_slates_need_one_decision_for_each_arm_beyond_the_first(n, budget):
    number = active_cover_number(TopS(n, budget), FeedbackGraph.semi_bandit(n), limit=0)
    assert number.lower <= n - budget + 1 == number.upper


def test_single_arms_on_an_undirected_graph_need_the_independence_number():
    graph = FeedbackGraph.erdos_renyi(40, 0.2, seed=7, directed=False)
    singles = Explicit(np.arange(40)[:, np.newaxis])
    assert active_cover_number(singles, graph)[:2] == independence_number(graph)[:2]


def test_the_counterexamples_have_a_small_printed_number():
    for env, active in ((star(6), 6), (hub_family(), 2)):
        assert cover_number(env.decisions, env.graph).upper == 1
        assert active_cover_number(env.decisions, env.graph)[:2] == (active, active)


def test_large_families_get_limits():
    jobs = Matchings(9, 9)
    graph = FeedbackGraph.semi_bandit(81)
    number = cover_number(jobs, graph)
    assert number.lower == 9 <= number.upper
    assert active_cover_number(jobs, graph).lower >= number.lower


def test_arms_in_no_decision_need_not_be_seen():
    assert cover_number(Explicit([[0, 1]], n_arms=5), FeedbackGraph.semi_bandit(5))[:2] == (1, 1)


@pytest.mark.parametrize(
    ("means", "budget", "expected"),
    [
        ([0.5, 0.75, 0.25], 1, 0.25),
        ([0.5, 0.75, 0.25], 2, 0.25),
        ([0.5, 0.75, 0.25], 3, math.inf),
        ([0.5, 0.5, 0.5, 0.125], 1, 0.375),
        ([0.5, 0.5, 0.5, 0.125], 2, 0.375),
        ([0.5, 0.5], 1, math.inf),
        ([0.1 + 0.2, 0.3, 0.05], 1, 0.25),
        ([1], 1, math.inf),
    ],
)
def test_gap_of_means(means, budget, expected):
    assert gap(means, budget) == pytest.approx(expected)
    env = StochasticEnvironment(means, FeedbackGraph.semi_bandit(len(means)))
    assert gap(env, budget) == gap(means, budget)


def slow_gap(means, decisions):
    totals = sorted({round(float(sum(means[one])), 9) for one in decisions})
    return math.inf if len(totals) == 1 else totals[-1] - totals[-2]


FAMILIES = [
    TopS(5, budget=2),
    PartitionMatroid([0, 0, 0, 1, 1, 1], capacities=[2, 1]),
    Matchings(3, 3),
    SpanningTrees(4, [(0, 1), (1, 2), (2, 3), (3, 0), (0, 2), (1, 3)]),
    Paths(4, [(0, 1), (0, 2), (1, 3), (2, 3), (1, 2), (0, 3)], source=0, target=3),
    Explicit([[0], [1, 2], [0, 3], [2, 3, 4], [4]]),
    Constraints([[1, 1, 1, 1], [1, 1, 0, 0]], lower=[1, 0], upper=[2, 1]),
]


@pytest.mark.parametrize("decisions", FAMILIES, ids=lambda one: type(one).__name__)
@pytest.mark.parametrize("levels", [1, 2, 3, 10, 10**6])
def test_gap_of_decisions_is_that_of_a_list(decisions, levels):
    """Few levels make many ties."""
    for seed in range(8):
        means = np.random.default_rng(seed).integers(0, levels + 1, decisions.n_arms) / levels
        graph = FeedbackGraph.semi_bandit(decisions.n_arms)
        env = StochasticEnvironment(means, graph, decisions=decisions)
        assert gap(env) == pytest.approx(slow_gap(means, list(decisions)), abs=1e-9)


def test_gap_of_instances():
    assert gap(partition(12, 3, gap=0.3)) == pytest.approx(0.3)
    assert gap(hub_family()) == pytest.approx(0.8)
    assert gap(star(5, gap=0.125)) == pytest.approx(0.125)


def test_gap_of_a_large_family():
    means = np.full(400, 0.25)
    means[:: 20 + 1] = 0.75
    env = StochasticEnvironment(means, FeedbackGraph.semi_bandit(400), decisions=Matchings(20, 20))
    assert gap(env) == 1.0


def test_too_many_ties_are_refused():
    env = StochasticEnvironment(np.zeros(81), FeedbackGraph.semi_bandit(81), decisions=Matchings(9, 9))
    with pytest.raises(ValueError, match="at most 1000 decisions may tie for the best"):
        gap(env)


GRAPH = FeedbackGraph.semi_bandit(3)


@pytest.mark.parametrize(
    ("call", "error", "says"),
    [
        (lambda: independence_number(3), TypeError, "graph must be a FeedbackGraph, got int"),
        (lambda: independent_set(None), TypeError, "graph must be a FeedbackGraph, got NoneType"),
        (lambda: domination_number([[1]]), TypeError, "graph must be a FeedbackGraph, got list"),
        (lambda: greedy_dominating_set(3), TypeError, "graph must be a FeedbackGraph"),
        (lambda: chvatal_dominating_set(3), TypeError, "graph must be a FeedbackGraph"),
        (lambda: independence_number(GRAPH, time_limit=-1), ValueError, "time_limit must be a finite number from 0"),
        (lambda: domination_number(GRAPH, time_limit="1"), TypeError, "time_limit must be a finite number from 0"),
        (lambda: cover_number([[0]], GRAPH), TypeError, "decisions must be a DecisionSet, got list"),
        (lambda: cover_number(TopS(4, 1), GRAPH), ValueError, "decisions must have the 3 arms of graph, got 4"),
        (lambda: active_cover_number(TopS(3, 1), GRAPH, limit=21), ValueError, "limit must be at most 20, got 21"),
        (lambda: gap([0.5, 0.25]), ValueError, "budget must be given"),
        (lambda: gap([0.5, 0.25], 3), ValueError, "budget must be at most 2, got 3"),
        (lambda: gap([0.5, math.nan], 1), ValueError, "means must be a non-empty list of finite numbers"),
        (lambda: gap("many", 1), TypeError, "means must be an array of numbers"),
        (lambda: gap(LinearEnvironment([0.5], n_arms=2), 1), TypeError, "means must be an array of numbers"),
        (lambda: gap(hub_family(), 2), ValueError, "budget must be left out where decisions are given, got 2"),
    ],
)
def test_refusals(call, error, says):
    with pytest.raises(error, match=says):
        call()
