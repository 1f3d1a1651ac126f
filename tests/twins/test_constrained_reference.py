"""Elimination over decision sets plays as the slow twins of `constrained_reference` do, round by round."""

from __future__ import annotations

from collections.abc import Callable, Iterator
from functools import cache
from itertools import combinations
from typing import Any, NamedTuple

import numpy as np
import pytest

from armtriage import (
    ConstrainedElimination,
    DecisionSet,
    Explicit,
    FeedbackGraph,
    Knapsack,
    Matchings,
    PartitionMatroid,
    Paths,
    SpanningTrees,
    StochasticEnvironment,
    TopS,
    simulate,
)
from twins import reference
from twins.constrained_reference import Arms, Listed, Oracle, smallest_cover

FAMILIES = ("equal", "unequal", "partition", "paths", "trees", "matchings", "knapsack", "top")
GRAPHS = ("semi", "cliques", "digraph", "semi", "star", "full")
RANGES = ((0.0, 1.0), (0.0, 1.0), (-1.0, 1.0), (0.0, 1.0), (-1.0, 3.0))
LISTED = [(variant, cover) for variant in ("paper", "repaired") for cover in ("exact", "greedy")]


# --- Small problems ---
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


def make_graph(kind: str, n: int, rng: np.random.Generator) -> FeedbackGraph:
    if kind == "semi":
        return FeedbackGraph.semi_bandit(n)
    if kind == "full":
        return FeedbackGraph.full_information(n)
    if kind == "cliques":
        cuts = np.sort(rng.choice(np.arange(1, n), size=min(n - 1, int(rng.integers(0, 4))), replace=False))
        return FeedbackGraph.cliques(np.diff([0, *cuts, n]))
    if kind == "star":
        hub = int(rng.integers(n))
        return FeedbackGraph.from_edges(n, [(hub, a) for a in range(n)], undirected=bool(rng.integers(2)))
    return FeedbackGraph.erdos_renyi(n, 0.3, seed=int(rng.integers(1 << 30)), directed=True)


def make_environment(number: int) -> StochasticEnvironment:
    """A random problem; its means are all alike, far apart or anything, so that some decisions tie."""
    rng = np.random.default_rng([41, number])
    family = make_family(FAMILIES[number % len(FAMILIES)], rng)
    graph = make_graph(GRAPHS[number // 3 % len(GRAPHS)], family.n_arms, rng)
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
    law = ("bernoulli", "deterministic")[number // 2 % 2]
    return StochasticEnvironment(means, graph, reward=law, seed=number, decisions=family)


class Case(NamedTuple):
    """One problem: a policy, its twin, and for how long they play."""

    policy: ConstrainedElimination
    twin: Any
    environment: Any
    rounds: int


KINDS = (
    ("mixture", None),
    ("kl", None),
    ("hoeffding", None),
    ("hoeffding", 200),
    ("bernstein", None),
    ("printed", 200),
    ("kl", 200),
)


def oracle_case(number: int) -> Case:
    env = make_environment(number)
    kind, horizon = KINDS[number // 2 % len(KINDS)]
    options: dict[str, Any] = {"horizon": horizon, "delta": (0.9, 0.3)[number % 2], "interval": kind}
    options["reward_range"] = RANGES[number % len(RANGES)]
    family = env.decisions
    policy = ConstrainedElimination(env.graph, family, seed=number, **options)
    rounds = 60 if isinstance(family, Knapsack) else 200
    return Case(policy, Oracle(env.graph, family, **options), env, rounds)


def listed_case(variant: str, cover: str, number: int) -> Case:
    env = make_environment(5000 + number)
    # A horizon of 1 and a large delta make widths small enough for the family to shrink, rightly or not.
    options: dict[str, Any] = {"horizon": (1, 1, 200)[number % 3], "delta": (0.9, 0.5)[number % 2]}
    options |= {"variant": variant, "cover": cover, "reward_range": RANGES[number % len(RANGES)]}
    policy = ConstrainedElimination(env.graph, env.decisions, seed=number, **options)
    return Case(policy, Listed(env.graph, env.decisions, **options), env, 150)


class Drifting:
    """An environment whose arms exchange their means for one another's in round 50."""

    def __init__(self, before: StochasticEnvironment) -> None:
        self.graph, self.decisions, self.before = before.graph, before.decisions, before
        self.after = StochasticEnvironment(before.means[::-1], before.graph, seed=before.seed)

    def rewards(self, round: int, arms: np.ndarray) -> np.ndarray:
        return (self.before if round < 50 else self.after).rewards(round, arms)


def drifting_case(number: int) -> Case:
    case = oracle_case(20_000 + number)
    return case._replace(environment=Drifting(case.environment))


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
    return Case(policy, Oracle(graph, family, **options), env, 20 * n)


def make_case(name: str) -> Case:
    kind, *rest = name.split("/")
    makers = {"oracle": oracle_case, "drift": drifting_case, "wide": wide_case}
    return makers[kind](int(rest[0])) if kind in makers else listed_case(kind, rest[0], int(rest[1]))


ORACLE_CASES = [f"oracle/{i}" for i in range(80)]
HARDER_CASES = [f"drift/{i}" for i in range(16)] + [f"wide/{i}" for i in range(44, 52)]
LISTED_CASES = [f"{variant}/{cover}/{i}" for variant, cover in LISTED for i in range(24)]
MORE_CASES = [f"oracle/{i}" for i in range(80, 1200)] + [f"wide/{i}" for i in range(52, 150)]
MORE_CASES += [f"{variant}/{cover}/{i}" for variant, cover in LISTED for i in range(24, 300)]


# --- Playing them side by side ---
class Played(NamedTuple):
    """What the policy did, and the first thing that its twin had against it."""

    case: Case
    decisions: list[list[int]]
    fault: str | None


def compare_sets(policy: ConstrainedElimination, twin: Any) -> str | None:
    if not isinstance(twin, Oracle):
        return None
    mine = [set(arms.tolist()) for arms in policy.triage]
    theirs = [twin.confirmed, twin.undecided, twin.eliminated]
    if mine != theirs:
        return f"triage {mine} instead of {theirs}"
    if policy.interval_failures != twin.failures:
        return f"{policy.interval_failures} contradictory intervals instead of {twin.failures}"
    if twin.counted and policy.oracle_calls != twin.calls:
        return f"{policy.oracle_calls} calls of the oracle instead of {twin.calls}"
    return None


def in_order(case: Case) -> Played:
    """Each decision is told before the next is asked."""
    policy, twin, env, rounds = case
    decisions: list[list[int]] = []
    fault = compare_sets(policy, twin)
    for t in range(rounds):
        decision = policy.ask()
        arms = decision.arms.tolist()
        decisions.append(arms)
        wrong = twin.judge(arms)
        rewards = env.rewards(t, decision.revealed)
        policy.tell(decision, rewards)
        twin.learn(arms, dict(zip(decision.revealed.tolist(), rewards.tolist(), strict=True)))
        wrong = wrong or compare_sets(policy, twin)
        if wrong and fault is None:
            fault = f"round {t}: {wrong}"
    return Played(case, decisions, fault)


def out_of_order(case: Case, seed: int) -> Played:
    """Decisions stay open for a while, are told in any order, and some of their rewards are lost."""
    policy, twin, env, rounds = case
    rng = np.random.default_rng([42, seed])
    patience, loss = int(rng.integers(1, 9)), float(rng.choice([0.0, 0.1, 0.4]))
    waiting: list[Any] = []
    decisions: list[list[int]] = []
    fault = None
    for step in range(2 * rounds):
        if len(decisions) < rounds and (not waiting or (len(waiting) < patience and rng.random() < 0.6)):
            decision = policy.ask()
            waiting.append(decision)
            decisions.append(decision.arms.tolist())
            wrong = twin.judge(decision.arms.tolist())
        elif waiting:
            decision = waiting.pop(int(rng.integers(len(waiting))))
            rewards = env.rewards(decision.number, decision.revealed)
            told = dict(zip(decision.revealed.tolist(), rewards.tolist(), strict=True))
            told = {arm: reward for arm, reward in told.items() if rng.random() >= loss}
            policy.tell(decision, told)
            twin.learn(decision.arms.tolist(), told)
            wrong = compare_sets(policy, twin)
        if wrong and fault is None:
            fault = f"step {step}: {wrong}"
    return Played(case, decisions, fault)


@cache
def played(name: str) -> Played:
    return in_order(make_case(name))


@cache
def played_late(name: str) -> Played:
    return out_of_order(make_case(name), int(name.rpartition("/")[2]))


@pytest.mark.parametrize("name", ORACLE_CASES + HARDER_CASES + LISTED_CASES)
def test_policy_plays_as_its_twin(name: str) -> None:
    assert played(name).fault is None


@pytest.mark.parametrize("name", ORACLE_CASES[::2] + HARDER_CASES[::2] + LISTED_CASES[::2])
def test_policy_plays_as_its_twin_when_rewards_are_late_or_lost(name: str) -> None:
    assert played_late(name).fault is None


def simulated(case: Case) -> list[list[int]]:
    policy = case.policy.fresh()
    trace = simulate(policy, case.environment, horizon=case.rounds, record_decisions=True, workers=1)
    return [[arm for arm in row if arm >= 0] for row in trace.decisions[0].tolist()]


@pytest.mark.parametrize("name", ORACLE_CASES[::5] + LISTED_CASES[::5])
def test_simulated_decisions_are_those_of_ask_and_tell(name: str) -> None:
    assert simulated(make_case(name)) == played(name).decisions


@pytest.mark.long
@pytest.mark.parametrize("name", MORE_CASES)
def test_policy_plays_as_its_twin_on_many_more_problems(name: str) -> None:
    assert played(name).fault is None
    assert played_late(name).fault is None
    assert simulated(make_case(name)) == played(name).decisions


# --- The cases do exercise what they should ---
def share(names: list[str], fact: Callable[[Any], Any]) -> float:
    return float(np.mean([bool(fact(played(name).case.twin)) for name in names]))


def test_a_third_of_the_oracle_runs_confirm_an_arm() -> None:
    assert share(ORACLE_CASES, lambda twin: twin.confirmed) >= 1 / 3


def test_half_of_the_oracle_runs_eliminate_an_arm() -> None:
    assert share(ORACLE_CASES, lambda twin: twin.eliminated) >= 1 / 2


def test_a_quarter_of_the_oracle_runs_commit() -> None:
    assert share(ORACLE_CASES, lambda twin: not twin.undecided) >= 1 / 4


def test_drift_makes_intervals_contradict_each_other() -> None:
    assert any(played(name).case.twin.failures for name in HARDER_CASES)


def test_most_calls_of_the_oracle_can_be_counted() -> None:
    assert share(ORACLE_CASES, lambda twin: twin.counted) >= 0.8


@pytest.mark.parametrize("kind", LISTED, ids=["/".join(kind) for kind in LISTED])
def test_a_third_of_the_listed_runs_eliminate_a_decision(kind: tuple[str, str]) -> None:
    names = [name for name in LISTED_CASES if name.startswith("/".join(kind))]
    assert share(names, lambda twin: len(twin.active) < len(twin.family)) >= 1 / 3


@pytest.mark.parametrize("kind", LISTED, ids=["/".join(kind) for kind in LISTED])
def test_some_covers_have_several_decisions(kind: tuple[str, str]) -> None:
    names = [name for name in LISTED_CASES if name.startswith("/".join(kind))]
    assert share(names, lambda twin: max(twin.cover_sizes, default=0) > 1) >= 1 / 3


# --- The twins by themselves ---
def test_smallest_cover_is_that_of_trying_all() -> None:
    rng = np.random.default_rng(5)
    for _ in range(60):
        sets = [frozenset(np.flatnonzero(rng.random(7) < 0.35).tolist()) for _ in range(7)]
        need = frozenset[int]().union(*sets)
        sizes = (m for m in range(8) for one in combinations(sets, m) if need <= frozenset().union(*one))
        assert smallest_cover(need, sets) == next(sizes)


def alone(twin: Any, means: np.ndarray, rounds: int, seed: int) -> Iterator[Arms]:
    """Let a twin play by itself, and hand out each decision when it has been chosen, before it is played."""
    rng = np.random.default_rng([43, seed])
    for _ in range(rounds):
        decision = twin.choose()
        yield decision
        assert twin.judge(decision) is None
        luck = rng.random(twin.n_arms)
        twin.learn(decision, {arm: float(luck[arm] < means[arm]) for arm in sorted(twin.shown_by(decision))})


def gaps_of(twin: Any, means: np.ndarray) -> dict[Arms, float]:
    values = {one: float(means[sorted(one)].sum()) for one in twin.family}
    return {one: max(values.values()) - value for one, value in values.items()}


def independence(reveals: list[Arms]) -> int:
    """The size of the largest set of arms none of which reveals another."""
    arms = range(len(reveals))
    apart = {(a, b) for a, b in combinations(arms, 2) if b not in reveals[a] and a not in reveals[b]}
    return max(m for m in range(1, len(reveals) + 1) for c in combinations(arms, m) if apart >= set(combinations(c, 2)))


@pytest.mark.parametrize("number", range(40))
def test_twin_of_the_oracle_keeps_what_is_promised(number: int) -> None:
    """While all intervals hold: optimal decisions stay, the gap of a decision is bounded, and so is a layer."""
    env = make_environment(number)
    twin = Oracle(env.graph, env.decisions, delta=0.5, interval="hoeffding")
    gaps = gaps_of(twin, env.means)
    alpha = independence(twin.reveals)
    longest = alpha + np.ceil(2 * alpha * np.log(twin.n_arms / alpha))
    layer: dict[int, int] = {}
    for decision in alone(twin, env.means, 300, number):
        assert twin.incumbent in twin.alive()
        if not all(low <= mean <= up for low, mean, up in zip(twin.lower, env.means, twin.upper, strict=True)):
            break
        alive = twin.alive()
        assert all(one in alive for one, gap in gaps.items() if gap <= 1e-9)
        if not twin.undecided:
            assert gaps[decision] <= 1e-9
            continue
        # At most 2 S arms differ from the incumbent, or it from the best: 4 S w for the former, 2 S w for the latter.
        if twin.checked_at:
            narrow = reference.width("hoeffding", twin.checked_at, twin.n_arms, None, 0.5)
            assert gaps[decision] <= 6 * twin.size * narrow + 1e-9
        least = min(map(twin.scheduled, twin.undecided))
        layer[least] = layer.get(least, 0) + 1
        assert layer[least] <= longest


@pytest.mark.parametrize("number", range(24))
def test_twin_of_the_repaired_algorithm_keeps_what_is_promised(number: int) -> None:
    """While all means are within their widths: optimal decisions stay, and active ones have a gap of 4 S w at most."""
    env = make_environment(number)
    cover = ("exact", "greedy")[number % 2]
    twin = Listed(env.graph, env.decisions, horizon=300, delta=0.5, variant="repaired", cover=cover)
    gaps = gaps_of(twin, env.means)
    for decision in alone(twin, env.means, 300, number):
        seen = [arm for arm in twin.used if twin.counts[arm]]
        if any(abs(twin.mean(arm) - env.means[arm]) > twin.width(twin.counts[arm]) for arm in seen):
            break
        assert all(one in twin.active for one, gap in gaps.items() if gap <= 1e-9)
        assert max(gaps[one] for one in twin.active) <= 4 * twin.size * twin.width(twin.N)
        assert decision in twin.active


def test_printed_algorithm_goes_on_playing_a_decision_that_it_has_eliminated() -> None:
    hub, family = 4, Explicit([[0, 1], [2, 3], [4, 5]])
    graph = FeedbackGraph.from_edges(6, [(hub, arm) for arm in range(6)])
    means = np.array([0.9, 0.9, 0.8, 0.8, 0.0, 0.0])
    plays = {}
    for variant in ("paper", "repaired"):
        twin = Listed(graph, family, horizon=1, delta=0.9, variant=variant)
        chosen = list(alone(twin, means, 400, 1))
        assert frozenset([4, 5]) not in twin.active
        plays[variant] = chosen[-200:].count(frozenset([4, 5]))
    assert plays["repaired"] == 0
    assert plays["paper"] >= 100
