"""`simulate` over worlds whose arms are not always there: the same decisions, regret and certificates as by hand."""

from __future__ import annotations

import json
import os
import subprocess
import sys
import warnings
from typing import Any

import numpy as np
import pytest

from armtriage import (
    Arrivals,
    Availability,
    CombinatorialElimination,
    FeedbackGraph,
    GuardedThompson,
    Patterns,
    RandomRounds,
    StochasticEnvironment,
    ThompsonSampling,
    simulate,
)
from armtriage.certificate import Slates, Watch
from armtriage.simulation.players import by_ask_and_tell, player_for
from conftest import GRAPH, POLICIES, Plain, with_face

MEANS = np.linspace(0.05, 0.95, 10)
WORLDS: dict[str, Availability] = {
    "patterns": Patterns([[0, 2, 4, 6, 8], [1, 2, 3, 7], [5, 9], [0, 1, 5, 6, 7, 8, 9]]),
    "in turn": Patterns([[0, 1, 2, 3, 4], [4, 5, 6, 7, 8, 9], [2]], in_turn=True),
    "half": RandomRounds(0.5),
    "arrivals": Arrivals([0, 9, 3, 0, 30, 0, 12, 40, 0, 7], [70, 70, 20, 70, 70, 5, 70, 70, 33, 70]),
    "leaving": Arrivals([0] * 10, [70] * 4 + [25] * 3 + [50] * 3),  # at first, nothing differs
}
ELIGIBLE = [name for name in with_face("arms") if not name.startswith("paper")]
ROUNDS = 70


def world(availability: str, reward: str = "bernoulli", **more: Any) -> StochasticEnvironment:
    return StochasticEnvironment(MEANS, GRAPH, reward, seed=5, availability=WORLDS[availability], **more)


def run(policy: Any, env: StochasticEnvironment, **more: Any) -> Any:
    with warnings.catch_warnings():
        warnings.filterwarnings("ignore", message=".*is not compiled")
        return simulate(
            policy, env, horizon=ROUNDS, checkpoints=range(1, ROUNDS + 1), record_decisions=True, workers=1, **more
        )


def by_hand(policy: Any, env: StochasticEnvironment, replication: int) -> tuple[list[list[int]], list[float], Any]:
    one, lost, decisions = policy.fresh(replication=replication), [0.0], []
    for t in range(ROUNDS):
        decision = one.ask(eligible=env.eligible(t, replication))
        lost.append(lost[-1] + env.regret(decision.arms, t, replication))
        one.tell(decision, env.rewards(t, decision.revealed, replication))
        decisions.append(decision.arms.tolist())
    return decisions, lost[1:], one


def played(trace: Any, replication: int) -> list[list[int]]:
    return [[arm for arm in row if arm >= 0] for row in trace.decisions[replication].tolist()]


@pytest.mark.plain
@pytest.mark.parametrize("name", ELIGIBLE)
def test_simulate_decides_as_ask_and_tell(name: str) -> None:
    for i, availability in enumerate(WORLDS):
        env = world(availability, ("bernoulli", "beta")[i % 2])
        policy = POLICIES[name].make(sleepers_seen=bool(i % 2))
        trace = run(policy, env, replications=2)
        for replication in range(2):
            decisions, lost, _ = by_hand(policy, env, replication)
            assert played(trace, replication) == decisions
            assert trace.regret[replication] == pytest.approx(lost, abs=1e-9)


def test_every_policy_that_can_is_played_in_compiled_code() -> None:
    for name in ELIGIBLE:
        slow = player_for(POLICIES[name].make(), world("half")) is by_ask_and_tell
        assert slow == (name.split("-")[0] == "Guard")


@pytest.mark.parametrize("availability", WORLDS)
def test_certificates_are_those_of_the_tally_and_the_exposures(availability: str) -> None:
    env, policy = world(availability), ThompsonSampling(GRAPH, 3, seed=7)
    trace = run(policy, env, certificate=0.05)
    one, watch = policy.fresh(), Watch(10, Slates(3), 0.05)
    for t in range(ROUNDS):
        decision = one.ask(eligible=env.eligible(t))
        one.tell(decision, env.rewards(t, decision.revealed))
        bound = watch.bound(one.tally, t + 1, one._exposures)
        assert trace.certificate[0, t] == pytest.approx(bound, abs=1e-9)
    assert np.all(trace.certificate >= trace.regret)


def test_costs_in_euros_with_eligible_arms() -> None:
    costs: dict[str, Any] = {"reward_range": (2.0, 12.0), "direction": "minimize"}
    env = StochasticEnvironment(2 + 10 * MEANS, GRAPH, seed=5, availability=WORLDS["half"], **costs)
    policy = GuardedThompson(GRAPH, 3, seed=7, **costs)
    trace = run(policy, env, certificate=0.05)
    decisions, lost, _ = by_hand(policy, env, 0)
    assert played(trace, 0) == decisions
    assert trace.regret[0] == pytest.approx(lost, abs=1e-9)
    assert np.all(trace.certificate >= trace.regret)


def test_chunks_do_not_matter(small_chunks: Any) -> None:
    policy, env = GuardedThompson(GRAPH, 3, seed=7), world("leaving")
    whole = run(policy, env)
    small_chunks(7)
    assert run(policy, env).decisions.tolist() == whole.decisions.tolist()


def test_named_arms_and_policies_in_python_can_be_played() -> None:
    names = [f"article {i}" for i in range(10)]
    trace = run(GuardedThompson(GRAPH, 3, seed=7, names=names), world("half"))
    assert played(trace, 0) == by_hand(GuardedThompson(GRAPH, 3, seed=7), world("half"), 0)[0]
    with pytest.raises(NotImplementedError, match="Plain cannot be asked with eligible"):
        run(Plain(GRAPH, 3, seed=7), world("half"))


def test_paper_is_refused_before_anything_is_played() -> None:
    with pytest.raises(ValueError, match="variant='paper'"):
        run(CombinatorialElimination(GRAPH, 3, horizon=100, variant="paper"), world("half"))


def test_no_triage_is_logged_where_sets_differ() -> None:
    assert run(CombinatorialElimination(GRAPH, 3, seed=7), world("half")).triage is None


def short_decisions() -> dict[str, Any]:
    return {
        f"{name} {availability}": run(POLICIES[name].make(), world(availability, "beta")).decisions[0, :30].tolist()
        for name in ("CombUCB1", "KLUCB", "ThompsonSampling", "tight", "GuardedThompson", "GuardedThompson-shadow")
        for availability in WORLDS
    }


def test_simulation_does_not_depend_on_compilation() -> None:
    code = "import json; from simulation.test_eligible import short_decisions; print(json.dumps(short_decisions()))"
    tests = os.path.dirname(os.path.dirname(__file__))
    done = subprocess.run(
        [sys.executable, "-c", code],
        env={**os.environ, "NUMBA_DISABLE_JIT": "1", "PYTHONPATH": os.pathsep.join([tests, *sys.path])},
        capture_output=True,
        text=True,
        timeout=300,
    )
    assert done.returncode == 0, done.stderr
    assert json.loads(done.stdout) == short_decisions()


def test_many_rounds_take_no_time() -> None:
    """Without compiled code 200,000 rounds would take a minute."""
    env = StochasticEnvironment(MEANS, FeedbackGraph.semi_bandit(10), seed=5, availability=RandomRounds(0.5))
    trace = simulate(ThompsonSampling(10, 3, seed=7), env, horizon=200_000, checkpoints=[100_000, 200_000])
    assert 0 < trace.regret[0, 0] <= trace.regret[0, 1] < 200
