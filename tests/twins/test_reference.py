"""The compiled policies decide as the slow twins of `reference` do, round by round."""

from __future__ import annotations

import json
import os
import subprocess
import sys
from functools import cache
from pathlib import Path
from typing import Any, NamedTuple

import numpy as np
import pytest

from armtriage import (
    KLUCB,
    CombinatorialElimination,
    CombinatorialUCB,
    CombUCB1,
    FeedbackGraph,
    Greedy,
    Policy,
    ReplayEnvironment,
    StochasticEnvironment,
    ThompsonSampling,
    Trace,
    UniformRandom,
    simulate,
)
from twins import reference

GRAPHS = ("semi", "full", "cliques", "up", "down", "digraph", "star", "nearest", "undirected")
LAWS = ("bernoulli", "deterministic", "uniform", "beta")
HERE = Path(__file__).parent


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


def make_environment(number: int, tame: bool = False) -> tuple[StochasticEnvironment, int]:
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


class Case(NamedTuple):
    """One problem: a policy, its twin, and how long and as what replication they play."""

    policy: Policy
    twin: Any
    environment: StochasticEnvironment | ReplayEnvironment
    rounds: int
    replication: int


class Played(NamedTuple):
    """What simulate, ask and tell, and the twin did with the same luck."""

    case: Case
    trace: Trace
    decisions: np.ndarray
    regret: np.ndarray
    asked: np.ndarray
    told: Policy
    log_at_commit: list[tuple[int, int, bool]]


def play(case: Case) -> Played:
    policy, twin, env, rounds, replication = case
    trace = simulate(
        policy,
        env,
        horizon=rounds,
        replications=replication + 1,
        checkpoints=range(1, rounds + 1),
        record_decisions=True,
        workers=1,
    )
    matrix = env.graph.to_sparse().toarray()
    told = policy.fresh(replication=replication)
    budget, log, committed = policy.budget, None, int(trace.committed_at[replication])
    best = np.sort(env.means)[::-1][:budget].sum() if isinstance(env, StochasticEnvironment) else 0.0
    decisions, asked = np.zeros((rounds, budget), np.int64), np.zeros((rounds, budget), np.int64)
    regret = np.zeros(rounds)
    for t in range(rounds):
        decisions[t] = arms = twin.select(t)
        revealed = np.flatnonzero(matrix[arms].any(axis=0))
        rewards = env.rewards(t, revealed, replication)
        twin.update(t, dict(zip(revealed.tolist(), rewards.tolist(), strict=True)))
        if isinstance(env, StochasticEnvironment):
            regret[t] = best - env.means[arms].sum()
        else:
            regret[t] = -env.outcomes[t, arms].sum()
        if t == committed:
            log = list(getattr(twin, "log", []))
        decision = told.ask()
        asked[t] = decision.arms
        told.tell(decision, env.rewards(t, decision.revealed, replication))
    if isinstance(env, ReplayEnvironment):
        paid = env.outcomes[:rounds]
        fixed = np.argsort(-paid.sum(axis=0), kind="stable")[:budget]
        regret += paid[:, fixed].sum(axis=1)
    log = list(getattr(twin, "log", [])) if log is None else log
    return Played(case, trace, decisions, np.cumsum(regret), asked, told, log)


def elimination(
    env: Any,
    budget: int,
    rounds: int,
    seed: int,
    replication: int = 0,
    variant: str = "tight",
    **options: Any,
) -> Case:
    policy = CombinatorialElimination(env.graph, budget, seed=seed, variant=variant, **options)
    names = ("horizon", "delta", "benchmark", "interval", "intersect", "skip_revealed", "tie_break", "fill")
    chosen = {name: getattr(policy, name) for name in names}
    twin = reference.Elimination(env.graph, budget, seed=seed, replication=replication, **chosen)
    return Case(policy, twin, env, rounds, replication)


def printed_case(number: int) -> Case:
    env, budget = make_environment(number)
    # Short horizons and a large delta make widths small enough for sets to change, rightly or not.
    options: dict[str, Any] = {"horizon": (1, 1, 400)[number % 3], "delta": (0.9, 0.5)[number % 2]}
    options["fill"] = ("best", "random", "index")[number // 2 % 3]
    options["tie_break"] = ("index", "random")[number // 3 % 2]
    options["skip_revealed"] = number % 5 == 4
    if number % 4 == 3:
        options["interval"] = "hoeffding"
        options["horizon"] = (None, 1)[number // 4 % 2]
    return elimination(env, budget, 400, number, number % 2, "paper", **options)


KINDS = (
    ("mixture", None),
    ("kl", None),
    ("kl", 400),
    ("hoeffding", None),
    ("hoeffding", 400),
    ("bernstein", None),
    ("bernstein", 400),
    ("printed", 400),
)


def reduced_case(number: int) -> Case:
    kind, horizon = KINDS[number % len(KINDS)]
    options: dict[str, Any] = {"interval": kind, "horizon": horizon, "delta": (0.9, 0.1)[number // 8 % 2]}
    options["intersect"] = number % 3 != 2
    options["skip_revealed"] = number % 5 != 4
    options["tie_break"] = ("upper", "index", "random")[number // 3 % 3]
    options["fill"] = ("best", "random", "index")[number // 5 % 3]
    tame = kind in ("mixture", "kl") and options["tie_break"] == "upper"
    env, budget = make_environment(1000 + number, tame)
    return elimination(env, budget, 400, number, number % 2, **options)


def default_case(number: int) -> Case:
    env, budget = make_environment(2000 + number, tame=True)
    return elimination(env, budget, 400, number, delta=0.5)


def drifting_case(benchmark: str) -> Case:
    """Recorded outcomes that betray the intervals: arms that were best for long fall to 0, others rise."""
    outcomes = np.zeros((900, 8))
    outcomes[:200, [0, 1]] = 1.0
    outcomes[200:, [2, 3]] = 1.0
    env = ReplayEnvironment(outcomes, FeedbackGraph.full_information(8))
    if benchmark == "printed":
        return elimination(env, 3, 900, 5, variant="paper", horizon=1, delta=0.9)
    return elimination(env, 3, 900, 5, interval="hoeffding", delta=0.5)


def gap_case() -> Case:
    """Two bad arms reveal two good ones: when they leave together, nobody has been observed N times only."""
    graph = FeedbackGraph.from_edges(4, [(2, 0), (2, 1), (3, 0), (3, 1)])
    env = StochasticEnvironment([0.9, 1.0, 0.0, 0.0], graph, reward="deterministic", seed=0)
    return elimination(env, 1, 60, 5, variant="paper", horizon=1, delta=0.9)


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
    return elimination(env, budget, 250, 9, **options)


def index_case(number: int, name: str) -> Case:
    env, budget = make_environment(3000 + number, tame=name.startswith("KLUCB"))
    return twin_case(name, env, budget, 300, number, number % 2)


def twin_case(name: str, env: StochasticEnvironment, budget: int, rounds: int, seed: int, replication: int) -> Case:
    graph, luck = env.graph, {"seed": seed, "replication": replication}
    made: tuple[Policy, Any]
    if name == "CombinatorialUCB":
        options = {"horizon": rounds, "delta": 0.5}
        made = (
            CombinatorialUCB(graph, budget, seed=seed, **options),
            reference.combinatorial_ucb(graph, budget, **options),
        )
    elif name == "CombUCB1":
        made = CombUCB1(graph, budget, seed=seed), reference.comb_ucb1(graph, budget)
    elif name == "KLUCB":
        made = KLUCB(graph, budget, seed=seed), reference.kl_ucb(graph, budget)
    elif name == "KLUCB-3":
        made = KLUCB(graph, budget, seed=seed, log_log=3.0), reference.kl_ucb(graph, budget, 3.0)
    elif name == "Greedy":
        made = Greedy(graph, budget, seed=seed), reference.greedy(graph, budget)
    elif name == "ThompsonSampling":
        made = ThompsonSampling(graph, budget, seed=seed), reference.Thompson(graph, budget, **luck)
    else:
        made = UniformRandom(graph, budget, seed=seed), reference.Random(graph, budget, **luck)
    return Case(*made, env, rounds, replication)


INDEX_POLICIES = (
    "CombinatorialUCB",
    "CombUCB1",
    "KLUCB",
    "KLUCB-3",
    "Greedy",
    "ThompsonSampling",
    "UniformRandom",
)


def medium_environment(kind: str) -> tuple[StochasticEnvironment, int]:
    rng = np.random.default_rng(99)
    if kind == "300 arms, S=7":
        return StochasticEnvironment(rng.random(300), FeedbackGraph.semi_bandit(300), seed=1), 7
    if kind == "600 arms in cliques, S=50":
        graph = FeedbackGraph.cliques([5] * 120)
        return StochasticEnvironment(rng.beta(1, 4, 600), graph, seed=2), 50
    if kind == "1000 arms in a digraph, S=20":
        graph = FeedbackGraph.erdos_renyi(1000, 0.002, seed=3)
        return StochasticEnvironment(rng.beta(2, 2, 1000), graph, reward="uniform", seed=3), 20
    return StochasticEnvironment(rng.beta(1, 9, 3000), FeedbackGraph.semi_bandit(3000), seed=4), 50


MEDIUM = {
    "300 arms, S=7": 2000,
    "600 arms in cliques, S=50": 1500,
    "1000 arms in a digraph, S=20": 1000,
    "3000 arms, S=50": 600,
}
MEDIUM_POLICIES = ("CombinatorialUCB", "CombUCB1", "KLUCB", "ThompsonSampling")


@cache
def played(name: str) -> Played:
    family, _, rest = name.partition("/")
    if family == "printed":
        return play(printed_case(int(rest)))
    if family == "reduced":
        return play(reduced_case(int(rest)))
    if family == "default":
        return play(default_case(int(rest)))
    if family == "drift":
        return play(drifting_case(rest))
    if family == "gap":
        return play(gap_case())
    if family == "large":
        return play(large_case(*rest.split("/")))
    if family == "medium":
        policy, _, problem = rest.partition("/")
        # The twin of KLUCB solves an equation an arm and round.
        rounds = 300 if rest.startswith("KLUCB/600") else MEDIUM[problem]
        return play(twin_case(policy, *medium_environment(problem), rounds, 11, 0))
    return play(index_case(int(rest), family))


PRINTED_CASES = ["gap", *(f"printed/{i}" for i in range(72))]
REDUCED_CASES = [f"reduced/{i}" for i in range(96)] + [f"default/{i}" for i in range(24)]
DRIFT_CASES = ["drift/printed", "drift/reduced"]
INDEX_CASES = [f"{name}/{i}" for name in INDEX_POLICIES for i in range(18)]
MEDIUM_CASES = [f"medium/{policy}/{problem}" for problem in MEDIUM for policy in MEDIUM_POLICIES]
MEDIUM_CASES.remove("medium/KLUCB/1000 arms in a digraph, S=20")  # its rewards are not tame
LARGE_CASES = [f"large/{kind}/{variant}" for kind in LARGE for variant in ("paper", "tight")]
ELIMINATION_CASES = LARGE_CASES + PRINTED_CASES + REDUCED_CASES + DRIFT_CASES
ALL_CASES = ELIMINATION_CASES + INDEX_CASES + MEDIUM_CASES


def first_difference(mine: np.ndarray, theirs: np.ndarray) -> tuple[int, list[int], list[int]] | None:
    wrong = np.flatnonzero((mine != theirs).any(axis=1))
    return (int(wrong[0]), mine[wrong[0]].tolist(), theirs[wrong[0]].tolist()) if wrong.size else None


@pytest.mark.parametrize("name", ALL_CASES)
def test_simulated_decisions_are_those_of_the_twin(name: str) -> None:
    run = played(name)
    assert first_difference(run.trace.decisions[run.case.replication], run.decisions) is None


@pytest.mark.parametrize("name", ALL_CASES)
def test_decisions_of_ask_and_tell_are_those_of_the_twin(name: str) -> None:
    run = played(name)
    assert first_difference(run.asked, run.decisions) is None


@pytest.mark.parametrize("name", ALL_CASES)
def test_cumulative_regret_is_that_of_the_twin(name: str) -> None:
    run = played(name)
    assert np.abs(run.trace.regret[run.case.replication] - run.regret).max() <= 1e-9 * (1 + run.regret[-1])


@pytest.mark.parametrize("name", ELIMINATION_CASES)
def test_triage_log_is_that_of_the_twin_until_it_committed(name: str) -> None:
    run = played(name)
    log = run.trace.triage[run.case.replication]
    found = list(zip(log.arms.tolist(), log.rounds.tolist(), log.confirmed.tolist(), strict=True))
    assert found == run.log_at_commit


@pytest.mark.parametrize("name", ELIMINATION_CASES)
def test_triage_after_ask_and_tell_is_that_of_the_twin(name: str) -> None:
    run = played(name)
    twin = run.case.twin
    assert [set(arms.tolist()) for arms in run.told.triage] == [twin.confirmed, twin.active, twin.eliminated]


@pytest.mark.parametrize("name", [*REDUCED_CASES, "drift/reduced"])
def test_interval_failures_are_counted_as_the_twin_counts_them(name: str) -> None:
    run = played(name)
    assert run.told.interval_failures == run.case.twin.failures


@pytest.mark.parametrize("name", PRINTED_CASES + REDUCED_CASES)
def test_commitment_is_the_first_round_with_no_choice_left(name: str) -> None:
    run = played(name)
    rounds, budget, n = run.case.rounds, run.case.policy.budget, run.case.environment.n_arms
    expected = -1
    for t in reversed(range(rounds)):
        decided = [confirmed for _, played_before, confirmed in run.case.twin.log if played_before <= t]
        if sum(decided) == budget or n - (len(decided) - sum(decided)) == budget:
            expected = t
    assert run.trace.committed_at[run.case.replication] == expected


# --- The cases do exercise what they should ---
@pytest.mark.parametrize("budget", [1, 10, 19])
def test_thompson_draws_like_its_twin_when_good_arms_abound(budget: int) -> None:
    """Arms far above the levels, where cut-offs are only bounds, compete for too few slots."""
    env = StochasticEnvironment(np.full(20, 0.9), FeedbackGraph.semi_bandit(20), seed=budget)
    for seed in range(40):
        one = play(twin_case("ThompsonSampling", env, budget, 60, seed, 0))
        assert first_difference(one.trace.decisions[0], one.decisions) is None


MORE_CASES = [f"printed/{i}" for i in range(72, 400)] + [f"reduced/{i}" for i in range(96, 500)]
MORE_CASES += [f"{name}/{i}" for name in INDEX_POLICIES for i in range(18, 60)]


@pytest.mark.long
@pytest.mark.parametrize("name", MORE_CASES)
def test_decisions_and_regret_are_those_of_the_twin_on_many_more_problems(name: str) -> None:
    one = played(name)
    replication = one.case.replication
    assert first_difference(one.trace.decisions[replication], one.decisions) is None
    assert first_difference(one.asked, one.decisions) is None
    np.testing.assert_allclose(one.trace.regret[replication], one.regret, rtol=0, atol=1e-9)


def share(names: list[str], fact: Any) -> float:
    return float(np.mean([bool(fact(played(name))) for name in names]))


def test_a_quarter_of_the_printed_runs_confirm_an_arm() -> None:
    assert share(PRINTED_CASES, lambda run: run.case.twin.confirmed) >= 0.25


def test_half_of_the_printed_runs_eliminate_an_arm() -> None:
    assert share(PRINTED_CASES, lambda run: run.case.twin.eliminated) >= 0.5


def test_a_third_of_the_reduced_runs_confirm_an_arm() -> None:
    assert share(REDUCED_CASES, lambda run: run.case.twin.confirmed) >= 1 / 3


def test_half_of_the_reduced_runs_eliminate_an_arm() -> None:
    assert share(REDUCED_CASES, lambda run: run.case.twin.eliminated) >= 0.5


@pytest.mark.parametrize("names", [PRINTED_CASES, REDUCED_CASES], ids=["printed", "reduced"])
def test_a_quarter_of_the_runs_commit_after_the_first_round(names: list[str]) -> None:
    assert share(names, lambda run: run.trace.committed_at[run.case.replication] > 0) >= 0.25


def test_some_printed_run_confirms_more_arms_than_it_can_play() -> None:
    assert played("drift/printed").case.twin.overfull


def test_some_printed_run_has_a_round_without_arms_to_explore() -> None:
    assert played("gap").case.twin.pure_fills > 0


def test_drift_makes_intervals_contradict_each_other() -> None:
    assert played("drift/reduced").case.twin.failures > 0


# --- Without compilation ---
def short_decisions() -> dict[str, list[list[int]]]:
    """Decisions of a few short simulations, every policy and several graphs among them."""
    result = {}
    for number in range(9):
        env, budget = make_environment(5000 + number, tame=True)
        names = INDEX_POLICIES
        cases = {name: twin_case(name, env, budget, 40, number, 0) for name in names}
        cases["paper"] = elimination(env, budget, 80, number, variant="paper", horizon=1, delta=0.9, tie_break="random")
        cases["tight"] = elimination(env, budget, 80, number, delta=0.9, fill="random")
        for name, case in cases.items():
            trace = simulate(case.policy, env, horizon=case.rounds, record_decisions=True, workers=1, checkpoints=1)
            result[f"{name}/{number}"] = trace.decisions[0].tolist()
    return result


def test_decisions_do_not_depend_on_compilation() -> None:
    code = "import json, test_reference; print(json.dumps(test_reference.short_decisions()))"
    done = subprocess.run(
        [sys.executable, "-W", "error", "-c", code],
        cwd=HERE,
        env={**os.environ, "NUMBA_DISABLE_JIT": "1", "PYTHONPATH": os.pathsep.join([str(HERE), *sys.path])},
        capture_output=True,
        text=True,
        timeout=300,
    )
    assert done.returncode == 0, done.stderr
    plain, compiled = json.loads(done.stdout), short_decisions()
    assert {name for name in compiled if plain[name] != compiled[name]} == set()
