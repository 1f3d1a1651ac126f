"""The problems that policies and their twins play, by name: ``case_of("reduced/7")``."""

from __future__ import annotations

import math
from functools import partial
from typing import Any

import numpy as np

from armtriage import (
    C2UCB,
    KLUCB,
    CombinatorialElimination,
    CombinatorialUCB,
    CombUCB1,
    ConstrainedElimination,
    Constraints,
    DecisionSet,
    Explicit,
    FeedbackGraph,
    Greedy,
    GuardedIndex,
    GuardedLinear,
    GuardedThompson,
    HierarchicalElimination,
    Knapsack,
    LinearEnvironment,
    LinearThompsonSampling,
    Matchings,
    PartitionMatroid,
    Paths,
    ReplayEnvironment,
    SpanningTrees,
    StochasticEnvironment,
    ThompsonSampling,
    TopS,
    UniformRandom,
)
from twins import constrained, eligible, elimination, guard, guard_decisions, linear
from twins.harness import Case

GRAPHS = ("semi", "full", "cliques", "up", "down", "digraph", "star", "nearest", "undirected")
FRACTIONAL = ("exact", "coin")
LAWS = ("bernoulli", "deterministic", "uniform", "beta")


def make_graph(kind: str, n: int, rng: np.random.Generator) -> FeedbackGraph:
    if kind == "semi":
        return FeedbackGraph.semi_bandit(n)
    if kind == "full":
        return FeedbackGraph.full_information(n)
    if kind == "cliques":
        cuts = np.sort(rng.choice(np.arange(1, n), size=min(n - 1, int(rng.integers(0, 5))), replace=False))
        return FeedbackGraph.cliques(np.diff([0, *cuts, n]))
    if kind in ("up", "down"):
        return FeedbackGraph.threshold(n, kind)
    if kind == "star":
        hub = int(rng.integers(n))
        return FeedbackGraph.from_edges(n, [(hub, a) for a in range(n)], undirected=bool(rng.integers(2)))
    if kind == "nearest":
        return FeedbackGraph.nearest(
            rng.random((n, 2)), neighbours=min(2, n - 1) or None, radius=None if n > 1 else 1.0
        )
    seed = int(rng.integers(1 << 30))
    return FeedbackGraph.erdos_renyi(n, float(rng.choice([0.1, 0.3])), seed=seed, directed=kind == "digraph")


def graph_problem(number: int, tame: bool = False) -> tuple[StochasticEnvironment, int]:
    """A random problem and a budget, now and then 1 or K; the means have ties, large gaps or neither.

    Divergence bounds of a few fractional rewards near 1 differ from 1 and from each other by less than floats
    can tell, so that rounding would decide which of two arms comes first. A tame problem has no such rewards.
    """
    rng = np.random.default_rng([17, number])
    n = 1 if number % 23 == 22 else int(rng.integers(2, 31))
    budget = 1 if number % 7 == 1 else n if number % 11 == 10 else int(rng.integers(1, n + 1))
    graph = make_graph(GRAPHS[number % len(GRAPHS)], n, rng)
    law = LAWS[number // 2 % (2 if tame else 4)]
    style = int(rng.integers(3))
    if style == 0:
        means = rng.choice([0.0, 0.25, 0.5, 0.75, 1.0], n)
    elif style == 1:
        means = np.where(rng.permutation(n) < budget, 0.85, 0.1) + rng.choice([-0.1, 0.0, 0.1], n)
    else:
        means = rng.random(n)
    if tame and law == "deterministic":
        means = 0.6 * means
    return StochasticEnvironment(means, graph, reward=law, seed=number), budget


def drifting(rounds: int) -> ReplayEnvironment:
    """Recorded outcomes that betray the intervals: arms that were best for long fall to 0, others rise."""
    outcomes = np.zeros((rounds, 8))
    outcomes[:200, [0, 1]] = 1.0
    outcomes[200:, [2, 3]] = 1.0
    return ReplayEnvironment(outcomes, FeedbackGraph.full_information(8))


def eliminating(
    env: Any, budget: int, rounds: int, seed: int, replication: int = 0, variant: str = "tight", **options: Any
) -> Case:
    policy = CombinatorialElimination(env.graph, budget, seed=seed, variant=variant, **options)
    names = ("horizon", "delta", "benchmark", "interval", "intersect", "skip_revealed", "tie_break", "fill")
    chosen = {name: getattr(policy, name) for name in names}
    twin = partial(elimination.Elimination, env.graph, budget, seed=seed, replication=replication, **chosen)
    return Case(policy, twin, env, rounds, replication)


def printed_case(number: int, rounds: int = 400) -> Case:
    env, budget = graph_problem(number)
    # Short horizons and a large delta make widths small enough for sets to change, rightly or not.
    options: dict[str, Any] = {"horizon": (1, 1, 400)[number % 3], "delta": (0.9, 0.5)[number % 2]}
    options["fill"] = ("best", "random", "index")[number // 2 % 3]
    options["tie_break"] = ("index", "random")[number // 3 % 2]
    options["skip_revealed"] = number % 5 == 4
    if number % 4 == 3:
        options["interval"] = "hoeffding"
        options["horizon"] = (None, 1)[number // 4 % 2]
    return eliminating(env, budget, rounds, number, number % 2, "paper", **options)


INTERVALS = (
    ("mixture", None),
    ("kl", None),
    ("kl", 400),
    ("hoeffding", None),
    ("hoeffding", 400),
    ("bernstein", None),
    ("bernstein", 400),
    ("printed", 400),
)


def reduced_case(number: int, rounds: int = 400) -> Case:
    kind, horizon = INTERVALS[number % len(INTERVALS)]
    options: dict[str, Any] = {"interval": kind, "horizon": horizon, "delta": (0.9, 0.1)[number // 8 % 2]}
    options["intersect"] = number % 3 != 2
    options["skip_revealed"] = number % 5 != 4
    options["tie_break"] = ("upper", "index", "random")[number // 3 % 3]
    options["fill"] = ("best", "random", "index")[number // 5 % 3]
    tame = kind in ("mixture", "kl") and options["tie_break"] == "upper"
    env, budget = graph_problem(1000 + number, tame)
    return eliminating(env, budget, rounds, number, number % 2, **options)


def default_case(number: int) -> Case:
    env, budget = graph_problem(2000 + number, tame=True)
    return eliminating(env, budget, 400, number, delta=0.5)


def drift_case(benchmark: str) -> Case:
    if benchmark == "printed":
        return eliminating(drifting(900), 3, 900, 5, variant="paper", horizon=1, delta=0.9)
    return eliminating(drifting(900), 3, 900, 5, interval="hoeffding", delta=0.5)


def gap_case() -> Case:
    """Two bad arms reveal two good ones: when they leave together, nobody has been observed N times only."""
    graph = FeedbackGraph.from_edges(4, [(2, 0), (2, 1), (3, 0), (3, 1)])
    env = StochasticEnvironment([0.9, 1.0, 0.0, 0.0], graph, reward="deterministic", seed=0)
    return eliminating(env, 1, 60, 5, variant="paper", horizon=1, delta=0.9)


LARGE = ("hubs", "dense digraph", "long cliques", "sensors", "ladder")


def large_case(kind: str, variant: str) -> Case:
    """Hundreds of arms, so that lists count as hubs', intervals span blocks, and buckets are sorted by sweeps."""
    rng = np.random.default_rng(LARGE.index(kind))
    n, budget = 700, 12
    if kind == "hubs":
        edges = [(hub, arm) for hub in range(0, 60, 3) for arm in rng.choice(n, 90 + hub, replace=False).tolist()]
        graph = FeedbackGraph.from_edges(n, edges)
    elif kind == "dense digraph":
        graph = FeedbackGraph.erdos_renyi(n, 0.02, seed=5)
    elif kind == "long cliques":
        graph = FeedbackGraph.cliques([300, 1, 270, 29, 50, 50])
    elif kind == "sensors":
        graph = FeedbackGraph.nearest(np.sort(rng.random(n)), radius=0.02)
    else:
        graph = FeedbackGraph.threshold(n, "down")
    env = StochasticEnvironment(rng.beta(1, 3, n), graph, seed=6)
    options = {"variant": "paper", "horizon": 1, "delta": 0.9} if variant == "paper" else {"delta": 0.5}
    return eliminating(env, budget, 250, 9, **options)


INDEX = ("CombinatorialUCB", "CombUCB1", "KLUCB", "KLUCB-3", "Greedy", "ThompsonSampling", "UniformRandom")


def indexed(name: str, env: StochasticEnvironment, budget: int, rounds: int, seed: int, replication: int = 0) -> Case:
    """A policy that knows no sets: by an index, by draws, or by nothing at all."""
    graph, luck = env.graph, {"seed": seed, "replication": replication}
    widths: dict[str, Any] = {"horizon": rounds, "delta": 0.5}
    width = math.sqrt(math.log(2 * graph.n_arms * rounds / 0.5))
    beliefs: dict[str, Any] = {"prior": (1.0, 1.0) if seed % 3 else (2.0, 5.0), "fractional": FRACTIONAL[seed % 2]}
    kinds: dict[str, tuple[Any, dict[str, Any], Any]] = {
        "CombinatorialUCB": (CombinatorialUCB, widths, partial(eligible.of_width, width)),
        "CombUCB1": (CombUCB1, {}, eligible.comb_ucb1),
        "KLUCB": (KLUCB, {}, eligible.kl_ucb),
        "KLUCB-3": (KLUCB, {"log_log": 3.0}, partial(eligible.kl_ucb, log_log=3.0)),
        "Greedy": (Greedy, {}, eligible.greedy),
        "ThompsonSampling": (ThompsonSampling, beliefs, None),
        "UniformRandom": (UniformRandom, {}, None),
    }
    kind, options, index = kinds[name]

    def twin() -> eligible.AllArms:
        if index is not None:
            return eligible.AllArms(eligible.Index(graph, budget, index=index, **luck))
        own = eligible.Thompson if name == "ThompsonSampling" else eligible.Random
        return eligible.AllArms(own(graph, budget, **luck, **options))

    return Case(kind(graph, budget, seed=seed, **options), twin, env, rounds, replication)


def index_case(name: str, number: int, rounds: int = 300) -> Case:
    env, budget = graph_problem(3000 + number, tame=name.startswith("KLUCB"))
    return indexed(name, env, budget, rounds, number, number % 2)


MEDIUM = ("300 arms, S=7", "600 arms in cliques, S=50", "1000 arms in a digraph, S=20", "3000 arms, S=50")


def medium_case(name: str, kind: str, percent: int = 100) -> Case:
    """Hundreds or thousands of arms, for so much of the rounds."""
    rng = np.random.default_rng(99)
    if kind == MEDIUM[0]:
        env, budget, rounds = StochasticEnvironment(rng.random(300), FeedbackGraph.semi_bandit(300), seed=1), 7, 2000
    elif kind == MEDIUM[1]:
        graph = FeedbackGraph.cliques([5] * 120)
        # The twin of KLUCB solves an equation for each arm in each round.
        rounds = 300 if name == "KLUCB" else 1500
        env, budget = StochasticEnvironment(rng.beta(1, 4, 600), graph, seed=2), 50
    elif kind == MEDIUM[2]:
        graph = FeedbackGraph.erdos_renyi(1000, 0.002, seed=3)
        env, budget, rounds = StochasticEnvironment(rng.beta(2, 2, 1000), graph, reward="uniform", seed=3), 20, 1000
    else:
        env = StochasticEnvironment(rng.beta(1, 9, 3000), FeedbackGraph.semi_bandit(3000), seed=4)
        budget, rounds = 50, 600
    return indexed(name, env, budget, rounds * percent // 100, 11)


def guarded(
    env: Any, budget: int, rounds: int, seed: int, replication: int = 0, *, by_index: bool = False, **options: Any
) -> Case:
    kind, own = (GuardedIndex, guard.GuardedIndex) if by_index else (GuardedThompson, guard.GuardedThompson)
    twin = partial(own, env.graph, budget, seed=seed, replication=replication, **options)
    return Case(kind(env.graph, budget, seed=seed, **options), twin, env, rounds, replication)


def guard_case(number: int, rounds: int = 300) -> Case:
    """Small factors and large deltas make the guard step in and sets change within few rounds; one in ten has hubs."""
    env, budget = hub_problem(number) if number % 10 == 2 else graph_problem(7000 + number, tame=True)
    options: dict[str, Any] = {
        "delta": (0.9, 0.5, 0.01)[number % 3],
        "mode": ("time", "shadow", "certify")[number // 2 % 3],
        "factor": (1.0, 0.05, 0.0, 0.3)[number // 3 % 4],
        "free_look": number % 5 != 4,
        "reveal": number % 7 != 6,
        "prior": ("learned", "uniform", "learned", (1.5, 6.0))[number // 2 % 4],
        "fractional": FRACTIONAL[number % 6 == 5],
    }
    return guarded(env, budget, rounds, number, number % 2, **options)


def guarded_index_case(number: int, rounds: int = 300) -> Case:
    """The same for the index, which has fewer options."""
    env, budget = hub_problem(number) if number % 10 == 2 else graph_problem(7500 + number, tame=True)
    options: dict[str, Any] = {
        "delta": (0.9, 0.5, 0.01)[number % 3],
        "mode": ("time", "shadow", "certify")[number // 2 % 3],
        "factor": (1.0, 0.05, 0.0, 0.3)[number // 3 % 4],
        "prior": ("learned", "uniform", "learned", (1.5, 6.0))[number // 2 % 4],
        "fractional": FRACTIONAL[number % 6 == 5],
    }
    return guarded(env, budget, rounds, number, number % 2, by_index=True, **options)


def hubs(n: int, n_hubs: int) -> FeedbackGraph:
    """The first arms show all others, each its part of them."""
    edges = [(hub, arm) for hub in range(n_hubs) for arm in range(n_hubs, n) if arm % n_hubs == hub]
    return FeedbackGraph.from_edges(n, edges)


def hub_problem(number: int) -> tuple[StochasticEnvironment, int]:
    """Hubs that are bad and show many arms, whose looks therefore wait."""
    rng = np.random.default_rng([23, number])
    n, n_hubs, budget = int(rng.integers(16, 31)), int(rng.integers(1, 4)), int(rng.integers(2, 5))
    means = np.where(np.arange(n) < n_hubs, 0.25, np.where(rng.permutation(n) < budget + 1, 0.75, 0.5))
    return StochasticEnvironment(means, hubs(n, n_hubs), seed=number), budget


def guard_hubs_case(n_hubs: int, *, by_index: bool = False) -> Case:
    n, rng = 40, np.random.default_rng(n_hubs)
    means = np.where(np.arange(n) < n_hubs, 0.2, np.where(rng.permutation(n) < 6, 0.8, 0.5))
    return guarded(StochasticEnvironment(means, hubs(n, n_hubs), seed=3), 4, 600, 5, by_index=by_index)


def guard_medium_case(kind: str, percent: int = 100, *, by_index: bool = False) -> Case:
    """Hundreds of arms, for so much of the rounds."""
    made = _guard_medium_case(kind, partial(guarded, by_index=by_index))
    return made._replace(rounds=made.rounds * percent // 100)


def _guard_medium_case(kind: str, guarded: Any) -> Case:
    rng = np.random.default_rng(7)
    if kind == "semi-bandit":
        return guarded(StochasticEnvironment(rng.random(300), FeedbackGraph.semi_bandit(300), seed=1), 7, 1500, 3)
    if kind == "cliques":
        return guarded(StochasticEnvironment(rng.beta(1, 4, 200), FeedbackGraph.cliques([5] * 40), seed=2), 20, 500, 4)
    if kind == "quiet":  # coins at first, then rewards near 0.3, while many arms have never been seen
        outcomes = np.where(np.arange(120)[:, None] < 12, rng.random((120, 150)) < 0.3, 0.3 + 0.05 * rng.random(150))
        return guarded(ReplayEnvironment(outcomes, FeedbackGraph.semi_bandit(150)), 4, 120, 6)
    env = StochasticEnvironment(rng.beta(2, 2, 150), FeedbackGraph.erdos_renyi(150, 0.03, seed=3), seed=3)
    return guarded(env, 8, 400, 5)


VARIANTS = ("paper", "repaired", "tight")
LINEAR = (*VARIANTS, "C2UCB", "LinearThompsonSampling", "GuardedLinear")
BY_ARM = ("disjoint", "hybrid")
RICH = 10_000  # linear problems from this number on let all variants confirm arms
RANGES = ((-1.0, 1.0), (-3.0, 2.0), (0.0, 1.0))
CONTEXTS = ("array", "fixed", "callable", "cube", "copies", "zeros", "short", "sphere")


def ball(rng: np.random.Generator, *shape: int) -> np.ndarray:
    """Uniform points of the unit ball; unlike those of a sphere, no two have the same length."""
    x = rng.normal(size=shape)
    return x * rng.random((*shape[:-1], 1)) ** (1 / shape[-1]) / np.linalg.norm(x, axis=-1, keepdims=True)


def make_contexts(kind: str, rounds: int, n_arms: int, dimension: int, rng: np.random.Generator) -> Any:
    """What LinearEnvironment takes as contexts."""
    if kind in ("cube", "sphere"):
        return kind
    if kind == "fixed":
        return ball(rng, n_arms, dimension)
    x = ball(rng, rounds, n_arms, dimension)
    if kind == "copies":
        return x[:, rng.integers(0, n_arms, n_arms)]  # the same arms are alike in every round
    if kind == "zeros":
        return x * (rng.random((rounds, n_arms, 1)) < rng.choice([0.0, 0.5, 0.9], (rounds, 1, 1)))
    if kind == "short":
        return 0.02 * x  # narrow from the beginning, so that the last stage and the fill are reached
    if kind == "callable":
        return lambda t, replication: x[(t + 7 * replication) % rounds]
    return x


def linear_problem(number: int, rounds: int) -> tuple[LinearEnvironment, int, str]:
    """A random linear environment, a budget and the kind of its contexts."""
    rng = np.random.default_rng([29, number])
    if number >= RICH:
        # In few dimensions, with little noise and many slots, even printed widths become small enough to confirm.
        dimension = 1 + number % 2
        theta = 0.95 * np.eye(dimension)[0]
        return LinearEnvironment(theta, ball(rng, rounds, 8, dimension), reward="deterministic"), 5, "array"
    kind = CONTEXTS[number // 2 % len(CONTEXTS)]
    dimension = (1, 2, 5, 8)[number // 3 % 4]
    n_arms = 1 if number % 17 == 16 else int(rng.integers(2, 13))
    budget = 1 if number % 7 == 1 else n_arms if number % 11 == 10 else int(rng.integers(1, n_arms + 1))
    reward = ("uniform", "binary", "uniform", "deterministic")[number % 4]
    theta = rng.normal(size=dimension)
    env = LinearEnvironment(
        theta * 0.95 / np.linalg.norm(theta),
        make_contexts(kind, rounds, n_arms, dimension, rng),
        n_arms,
        reward,
        half_width=0.05 if reward == "uniform" else None,
        noise="shared" if number % 5 == 4 else "independent",
        seed=number,
    )
    return env, budget, kind


class Scaled:
    """A linear environment in a policy's units; with drift rewards change sign halfway, which no model survives."""

    def __init__(self, inner: LinearEnvironment, policy: Any, turn: float) -> None:
        self.inner, self.bound, self.turn = inner, policy.context_bound, turn
        self.low, self.high = policy.reward_range

    def contexts(self, t: int, replication: int) -> np.ndarray:
        return self.inner.contexts(t, replication) * self.bound

    def rewards(self, t: int, arms: np.ndarray, replication: int) -> np.ndarray:
        r = self.inner.rewards(t, arms, replication) * (-1.0 if t >= self.turn else 1.0)
        return (r + 1) / 2 if self.low == 0.0 else self.high * r


def linear_case(name: str, number: int, rounds: int, how: str) -> Case:
    """A random problem in which every option has its turn; "raw" as the environment has it, or "scaled"."""
    raw, rounds = how == "raw", 1 if number % 19 == 18 else rounds
    env, budget, kind = linear_problem(number, rounds)
    sizes = (env.n_arms, env.dimension, budget)
    seed, replication = 100 + number, number % 2
    low, high = RANGES[0 if number >= RICH else number % (2 if raw else 3)]
    unit = max(-low, high)
    noise = None if name in ("paper", "repaired") else (None, 0.05, 0.2)[number // 4 % 3]
    sigma = (0.5 * (high - low) if noise is None else noise) / unit
    options: dict[str, Any] = {"seed": seed, "noise_scale": noise, "reward_range": (low, high)}
    options["context_bound"] = (1.0, 2.5, 1.0 if raw else 0.5)[number // 2 % 3]
    ridge, delta = (1.0, 0.1, 4.0)[number // 3 % 3], (0.01, 0.9)[number // 5 % 2]
    policy: Any
    if name in VARIANTS:
        horizon = (rounds, 4 * rounds, 10**6)[number // 2 % 3 if number < RICH else 0]
        policy = HierarchicalElimination(*sizes, horizon=horizon, delta=delta, variant=name, **options)
        make: Any = partial(linear.HierarchicalTwin, *sizes, horizon, delta, name, sigma)
    elif name == "C2UCB":
        width = (None, None, 0.7)[number // 7 % 3]
        options["noise_scale"] = noise if width is None else None
        policy = C2UCB(*sizes, delta=delta, width=width, ridge=ridge, **options)
        make = partial(linear.C2UCBTwin, *sizes[1:], delta, width, ridge, sigma)
    elif name in ("GuardedLinear", *BY_ARM):
        # A small factor and a large delta make the account full within the few rounds of a case.
        more = {"delta": delta, "factor": (1.0, 0.05, 0.3, 0.0)[number // 2 % 4], "norm_bound": (1.0, 3.0)[number % 2]}
        certified = number % 9 != 8
        model = name if name in BY_ARM else "shared"
        bias = 0.05 if number % 5 == 3 else 0.0
        more_units = {**more, "bias": bias * unit} if bias else more
        policy = GuardedLinear(*sizes, certificate=certified, model=model, **more_units, **options)
        about = {"sigma": sigma, "certified": certified, "ends": (low / unit, high / unit), "bias": bias, **more}
        make = partial(linear.GuardedTwin, *sizes[1:], seed=seed, replication=replication, **about)
        if name in BY_ARM:
            hybrid = name == "hybrid"
            make = partial(linear.ByArmTwin, *sizes, hybrid=hybrid, seed=seed, replication=replication, **about)
    else:
        scale = (None, 0.3)[number // 2 % 2]
        options["noise_scale"] = noise if scale is None else None
        policy = LinearThompsonSampling(*sizes, scale=scale, ridge=ridge, **options)
        spread = sigma if scale is None else scale / unit
        make = partial(linear.LinearThompsonTwin, *sizes[1:], spread, ridge, seed=seed, replication=replication)

    def twin() -> linear.LinearTwin:
        made: linear.LinearTwin = make()
        made.unit, made.bound = unit, policy.context_bound
        made.ties = kind == "sphere" and env.dimension > 1  # in one dimension widths are exactly the same
        return made

    drift = number % 6 == 5 and number < RICH
    world: Any = env if raw else Scaled(env, policy, rounds / 2 if drift else np.inf)
    return Case(policy, twin, world, rounds, replication, raw)


FAMILIES = ("equal", "unequal", "partition", "paths", "trees", "matchings", "knapsack", "top")
SET_GRAPHS = ("semi", "cliques", "digraph", "semi", "star", "full")
SET_RANGES = ((0.0, 1.0), (0.0, 1.0), (-1.0, 1.0), (0.0, 1.0), (-1.0, 3.0))
LISTED = [(variant, cover) for variant in ("paper", "repaired") for cover in ("exact", "greedy")]


def make_family(kind: str, rng: np.random.Generator) -> DecisionSet:
    if kind in ("equal", "unequal"):
        n = int(rng.integers(3, 9))
        size = int(rng.integers(1, min(n, 4)))
        sizes = rng.integers(1, size + 2, 12) if kind == "unequal" else np.full(12, size)
        rows = [rng.choice(n, size=s, replace=False).tolist() for s in sizes[: int(rng.integers(2, 13))]]
        return Explicit(rows, n)
    if kind == "partition":
        groups = rng.integers(0, 3, int(rng.integers(3, 9)))
        sizes = np.bincount(groups, minlength=3)
        capacities = np.minimum(sizes, rng.integers(0, 3, 3))
        return PartitionMatroid(groups, capacities if capacities.any() else sizes)
    if kind == "paths":
        n = int(rng.integers(4, 7))
        pairs = [(i, j) for i in range(n) for j in range(i + 1, n)]
        chosen = rng.permutation(len(pairs))[: int(rng.integers(4, 10))]
        chain = [(i, i + 1) for i in range(n - 1)]
        edges = chain + [pairs[i] for i in chosen if pairs[i] not in chain]
        return Paths(n, [edges[i] for i in rng.permutation(len(edges))], 0, n - 1)
    if kind == "trees":
        n = int(rng.integers(3, 6))
        edges = [(int(rng.integers(node)), node) for node in range(1, n)]
        pairs = [(i, j) for i in range(n) for j in range(i + 1, n)]
        edges += [pairs[i] for i in rng.integers(0, len(pairs), int(rng.integers(1, 5)))]
        return SpanningTrees(n, edges)
    if kind == "matchings":
        return Matchings(int(rng.integers(2, 4)), int(rng.integers(2, 4)))
    if kind == "knapsack":
        loads = rng.integers(1, 6, int(rng.integers(3, 7)))
        return Knapsack(loads, int(rng.integers(loads.min(), 11)))
    n = int(rng.integers(2, 8))
    return TopS(n, int(rng.integers(1, n + 1)))


def set_problem(number: int) -> StochasticEnvironment:
    """A random problem; its means are all alike, far apart or anything, so that some decisions tie."""
    rng = np.random.default_rng([41, number])
    family = make_family(FAMILIES[number % len(FAMILIES)], rng)
    graph = make_graph(SET_GRAPHS[number // 3 % len(SET_GRAPHS)], family.n_arms, rng)
    style = int(rng.integers(3))
    if style == 0:
        means = rng.choice([0.0, 0.25, 0.75, 1.0], family.n_arms)
    elif style == 1:
        means = np.full(family.n_arms, 0.1)
        best = family.maximise(rng.random(family.n_arms))
        assert best is not None
        means[best] = 0.9
    else:
        means = rng.random(family.n_arms)
    return StochasticEnvironment(means, graph, reward=LAWS[number // 2 % 2], seed=number, decisions=family)


def oracle_case(number: int) -> Case:
    env = set_problem(number)
    kinds = [(kind, 200 if horizon else None) for kind, horizon in INTERVALS if (kind, horizon) != ("bernstein", 400)]
    kind, horizon = kinds[number // 2 % len(kinds)]
    options: dict[str, Any] = {"horizon": horizon, "delta": (0.9, 0.3)[number % 2], "interval": kind}
    options["reward_range"] = SET_RANGES[number % len(SET_RANGES)]
    policy = ConstrainedElimination(env.graph, env.decisions, seed=number, **options)
    rounds = 60 if isinstance(env.decisions, Knapsack) else 200
    return Case(policy, partial(constrained.Oracle, env.graph, env.decisions, **options), env, rounds)


def listed_case(variant: str, cover: str, number: int) -> Case:
    env = set_problem(5000 + number)
    # A horizon of 1 and a large delta make widths small enough for the family to shrink, rightly or not.
    options: dict[str, Any] = {"horizon": (1, 1, 200)[number % 3], "delta": (0.9, 0.5)[number % 2]}
    options |= {"variant": variant, "cover": cover, "reward_range": SET_RANGES[number % len(SET_RANGES)]}
    policy = ConstrainedElimination(env.graph, env.decisions, seed=number, **options)
    return Case(policy, partial(constrained.Listed, env.graph, env.decisions, **options), env, 150)


def guard_set_case(number: int) -> Case:
    """Small factors and large deltas make the guard step in, and decisions certain, within few rounds."""
    env = set_problem(9000 + number)
    decisions = env.decisions
    if isinstance(decisions, TopS):
        # Over all slates the policy is that without a set.
        decisions = PartitionMatroid(np.zeros(decisions.n_arms, np.int64), decisions.size)
        env = StochasticEnvironment(
            env.means, env.graph, reward=LAWS[number // 2 % 2], seed=number, decisions=decisions
        )
    options: dict[str, Any] = {
        "delta": (0.9, 0.5, 0.01)[number % 3],
        "mode": ("time", "shadow")[number // 2 % 2],
        "factor": (1.0, 0.02, 0.0, 0.1)[number // 3 % 4],
        "free_look": number % 5 != 4,
        "reveal": number % 4 == 1,
        "reward_range": SET_RANGES[number % len(SET_RANGES)],
        "prior": ("learned", "uniform", "learned", (1.5, 6.0))[number // 2 % 4],
        "fractional": FRACTIONAL[number % 6 == 5],
    }
    if options["prior"] == "learned" and number % 3 == 1:
        low, high = options["reward_range"]
        options["expected"] = np.random.default_rng(number).uniform(low, high, env.n_arms).tolist()
        options["spread"] = (None, 0.2 * (high - low))[number // 6 % 2]
    policy = GuardedThompson(env.graph, decisions=decisions, seed=number, **options)
    replication = number % 2
    twin = partial(
        guard_decisions.GuardedDecisions, env.graph, decisions, seed=number, replication=replication, **options
    )
    return Case(policy, twin, env, 100 if isinstance(decisions, Knapsack) else 200, replication)


def guard_exchange_case(number: int) -> Case:
    case = guard_set_case(20_000 + number)
    return case._replace(environment=Exchanging(case.environment), in_simulate=False)


class Exchanging:
    """An environment whose arms exchange their means for one another's in round 50."""

    def __init__(self, before: StochasticEnvironment) -> None:
        self.before = before
        self.after = StochasticEnvironment(before.means[::-1], before.graph, seed=before.seed)

    def rewards(self, t: int, arms: np.ndarray, replication: int) -> np.ndarray:
        return (self.before if t < 50 else self.after).rewards(t, arms, replication)


def exchange_case(number: int) -> Case:
    case = oracle_case(20_000 + number)
    return case._replace(environment=Exchanging(case.environment), in_simulate=False)


def wide_case(number: int) -> Case:
    """Many arms that leave at about the same time, and so between checks."""
    rng = np.random.default_rng([44, number])
    n = int(rng.integers(12, 36))
    family: DecisionSet = TopS(n, 1)
    if number % 3 == 1:
        family = Explicit([[i] for i in range(n)] + [[i, (i + 1) % n] for i in range(0, n, 2)], n)
    elif number % 3 == 2:
        family = PartitionMatroid(np.arange(n) % 2, [1, 1])
    semi = FeedbackGraph.semi_bandit(n)
    graph = semi if number % 4 else FeedbackGraph.erdos_renyi(n, 0.05, seed=number, directed=True)
    means = rng.choice([0.1, 0.2, 0.2, 0.25, 0.6, 0.9], n)
    law = ("deterministic", "bernoulli")[number // 2 % 2]
    env = StochasticEnvironment(means, graph, reward=law, seed=number, decisions=family)
    options: dict[str, Any] = {"delta": 0.9, "interval": ("mixture", "hoeffding")[number % 2]}
    policy = ConstrainedElimination(graph, family, seed=number, **options)
    return Case(policy, partial(constrained.Oracle, graph, family, **options), env, 20 * n)


ROADS = [(0, 1), (0, 1), (0, 2), (1, 2), (1, 3), (2, 3), (0, 3), (3, 4)]
SETS: dict[str, DecisionSet] = {
    "explicit": Explicit([[0, 1], [2], [1, 2, 3], [0, 3, 4], [5], [2, 5]], n_arms=7),
    "groups": PartitionMatroid([0, 0, 0, 1, 1, 2, 2, 2, 2], [1, 1, 2]),
    "one group": PartitionMatroid(np.zeros(6, int), [2]),
    "paths": Paths(5, ROADS, source=0, target=3),
    "trees": SpanningTrees(4, [(0, 1), (0, 2), (1, 2), (1, 3), (2, 3), (0, 3)]),
    "matchings": Matchings(3, 3),
    "knapsack": Knapsack([3.0, 4.0, 5.0, 2.0], capacity=8.0),
    "constraints": Constraints([[1, 1, 1, 1, 1], [1, 1, 0, 0, 0]], lower=[2, 1], upper=[3, 2]),
    "top": TopS(6, budget=2),
}
OVER_SETS = ("CombUCB1", "KLUCB", "ThompsonSampling")


def over_set_case(name: str, family: str, law: str) -> Case:
    """An index or sampling policy over a decision set."""
    decisions = SETS[family]
    n = decisions.n_arms
    graph = FeedbackGraph.erdos_renyi(n, 0.15, seed=n)
    means = np.random.default_rng(n).uniform(0.2, 0.8, n)
    env = StochasticEnvironment(means, graph, law, seed=5, decisions=decisions)
    policy: Any = {
        "CombUCB1": partial(CombUCB1, exploration=0.4),
        "KLUCB": partial(KLUCB, log_log=0.5),
        "ThompsonSampling": ThompsonSampling,
    }[name](graph, decisions=decisions, seed=7)

    def twin() -> eligible.OverSet:
        if name == "ThompsonSampling":
            return eligible.OverSet(decisions, eligible.Thompson(graph, decisions.size, seed=7))
        ucb1, kl = partial(eligible.comb_ucb1, exploration=0.4), partial(eligible.kl_ucb, log_log=0.5)
        index = ucb1 if name == "CombUCB1" else kl
        return eligible.OverSet(decisions, eligible.Index(graph, decisions.size, seed=7, index=index))

    # Integer programming takes milliseconds for each question.
    return Case(policy, twin, env, 50 if family in ("knapsack", "constraints") else 120)


MAKERS: dict[str, Any] = {
    "printed": printed_case,
    "reduced": reduced_case,
    "default": default_case,
    "drift": drift_case,
    "gap": gap_case,
    "large": large_case,
    "index": index_case,
    "medium": medium_case,
    "guard": guard_case,
    "guard-hubs": guard_hubs_case,
    "guard-medium": guard_medium_case,
    "index-guard": guarded_index_case,
    "index-guard-hubs": partial(guard_hubs_case, by_index=True),
    "index-guard-medium": partial(guard_medium_case, by_index=True),
    "guard-drift": lambda: guarded(drifting(600), 3, 600, 5, delta=0.5),
    "guard-set": guard_set_case,
    "guard-exchange": guard_exchange_case,
    "linear": linear_case,
    "oracle": oracle_case,
    "exchange": exchange_case,
    "wide": wide_case,
    "listed": listed_case,
    "over-set": over_set_case,
}


def case_of(name: str) -> Case:
    """The case of a name such as ``reduced/7`` or ``linear/tight/7/120/scaled``."""
    kind, *rest = name.split("/")
    made: Case = MAKERS[kind](*(int(part) if part.isdigit() else part for part in rest))
    return made
