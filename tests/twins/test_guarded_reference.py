"""`GuardedThompson` decides as its slow twin does, round by round, compiled or not."""

from __future__ import annotations

import json
import os
import subprocess
import sys
from functools import cache
from pathlib import Path
from typing import Any

import numpy as np
import pytest

from armtriage import FeedbackGraph, GuardedThompson, ReplayEnvironment, StochasticEnvironment, simulate
from twins import guard_reference
from twins.test_reference import Case, Played, first_difference, make_environment, play

HERE = Path(__file__).parent


def twin_case(env: Any, budget: int, rounds: int, seed: int, replication: int = 0, **options: Any) -> Case:
    policy = GuardedThompson(env.graph, budget, seed=seed, **options)
    twin = guard_reference.GuardedThompson(env.graph, budget, seed=seed, replication=replication, **options)
    return Case(policy, twin, env, rounds, replication)


def random_case(number: int) -> Case:
    """Small factors and large deltas make the guard step in and sets change within few rounds."""
    env, budget = make_environment(7000 + number, tame=True)
    options: dict[str, Any] = {
        "delta": (0.9, 0.5, 0.01)[number % 3],
        "mode": ("time", "shadow")[number // 2 % 2],
        "factor": (1.0, 0.05, 0.0, 0.3)[number // 3 % 4],
        "free_look": number % 5 != 4,
        "reveal": number % 7 != 6,
    }
    return twin_case(env, budget, 300, number, number % 2, **options)


def hub_case(n_hubs: int) -> Case:
    n, rng = 40, np.random.default_rng(n_hubs)
    edges = [(hub, arm) for hub in range(n_hubs) for arm in range(n_hubs, n) if arm % n_hubs == hub]
    means = np.where(np.arange(n) < n_hubs, 0.2, np.where(rng.permutation(n) < 6, 0.8, 0.5))
    env = StochasticEnvironment(means, FeedbackGraph.from_edges(n, edges), seed=3)
    return twin_case(env, 4, 600, 5)


def drifting_case() -> Case:
    outcomes = np.zeros((600, 8))
    outcomes[:200, [0, 1]] = 1.0
    outcomes[200:, [2, 3]] = 1.0
    return twin_case(ReplayEnvironment(outcomes, FeedbackGraph.full_information(8)), 3, 600, 5, delta=0.5)


def medium_case(kind: str) -> Case:
    rng = np.random.default_rng(7)
    if kind == "semi-bandit":
        return twin_case(StochasticEnvironment(rng.random(300), FeedbackGraph.semi_bandit(300), seed=1), 7, 1500, 3)
    if kind == "cliques":
        env = StochasticEnvironment(rng.beta(1, 4, 200), FeedbackGraph.cliques([5] * 40), seed=2)
        return twin_case(env, 20, 500, 4)
    env = StochasticEnvironment(rng.beta(2, 2, 150), FeedbackGraph.erdos_renyi(150, 0.03, seed=3), seed=3)
    return twin_case(env, 8, 400, 5)


@cache
def played(name: str) -> Played:
    kind, _, rest = name.partition("/")
    if kind == "random":
        return play(random_case(int(rest)))
    if kind == "hubs":
        return play(hub_case(int(rest)))
    if kind == "drift":
        return play(drifting_case())
    return play(medium_case(rest))


RANDOM_CASES = [f"random/{i}" for i in range(84)]
CASES = [*RANDOM_CASES, "hubs/1", "hubs/4", "drift", "medium/semi-bandit", "medium/cliques", "medium/digraph"]


@pytest.mark.parametrize("name", CASES)
def test_simulated_decisions_are_those_of_the_twin(name: str) -> None:
    run = played(name)
    assert first_difference(run.trace.decisions[run.case.replication], run.decisions) is None


@pytest.mark.parametrize("name", CASES)
def test_decisions_of_ask_and_tell_are_those_of_the_twin(name: str) -> None:
    run = played(name)
    assert first_difference(run.asked, run.decisions) is None


@pytest.mark.parametrize("name", CASES)
def test_sets_log_and_account_are_those_of_the_twin(name: str) -> None:
    run = played(name)
    twin, told = run.case.twin, run.told
    assert [set(arms.tolist()) for arms in told.triage] == [twin.confirmed, twin.active, twin.eliminated]
    log = run.trace.triage[run.case.replication]
    assert list(zip(log.arms.tolist(), log.rounds.tolist(), log.confirmed.tolist(), strict=True)) == run.log_at_commit
    assert told.interval_failures == twin.failures
    spent, allowed, forced, factor, _ = told.account
    assert (forced, factor) == (twin.forced, twin.factor)
    assert np.allclose([spent, allowed], [twin.spent, twin.allowed], rtol=1e-9)
    assert np.isclose(told.certificate().sum_of_certificates, twin.total, rtol=1e-9)


# --- The cases do exercise what they should ---
@pytest.mark.parametrize("part", ["forced", "second", "revealed", "waited", "confirmed", "eliminated"])
def test_a_tenth_of_the_random_runs_uses(part: str) -> None:
    assert np.mean([bool(getattr(played(name).case.twin, part)) for name in RANDOM_CASES]) >= 0.1


@pytest.mark.parametrize("part", ["revealed", "waited", "impatient"])
def test_both_hub_runs_use(part: str) -> None:
    assert min(getattr(played(f"hubs/{n}").case.twin, part) for n in (1, 4)) > 0


# --- Without compilation ---
def short_decisions() -> dict[str, list[list[int]]]:
    result = {}
    for number in range(9):
        case = random_case(number)
        trace = simulate(case.policy, case.environment, horizon=60, record_decisions=True, workers=1, checkpoints=1)
        result[str(number)] = trace.decisions[0].tolist()
    return result


def test_decisions_do_not_depend_on_compilation() -> None:
    code = "import json, test_guarded_reference; print(json.dumps(test_guarded_reference.short_decisions()))"
    done = subprocess.run(
        [sys.executable, "-W", "error", "-c", code],
        cwd=HERE,
        env={**os.environ, "NUMBA_DISABLE_JIT": "1", "PYTHONPATH": os.pathsep.join([str(HERE), *sys.path])},
        capture_output=True,
        text=True,
        timeout=300,
    )
    assert done.returncode == 0, done.stderr
    assert json.loads(done.stdout) == short_decisions()
