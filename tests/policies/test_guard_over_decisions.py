"""What the guard over decision sets promises holds on runs, for good proposers and hostile ones."""

from __future__ import annotations

import math
from pathlib import Path
from typing import Any

import numpy as np
import pytest

from armtriage import (
    DecisionCertificate,
    Explicit,
    FeedbackGraph,
    Guard,
    GuardedThompson,
    Matchings,
    PartitionMatroid,
    Paths,
    Policy,
    StochasticEnvironment,
    ThompsonSampling,
    TopS,
    simulate,
)
from armtriage.policies.guard.decision_account import params_of

SLATES = PartitionMatroid(np.repeat(np.arange(4), 5), 1)
ROUTES = Paths(6, [(0, 1), (0, 2), (1, 3), (2, 3), (1, 4), (3, 5), (4, 5), (0, 5)], source=0, target=5)


def world(decisions: Any, seed: int = 3, means: Any = None) -> StochasticEnvironment:
    means = np.random.default_rng(seed).random(decisions.n_arms) if means is None else means
    return StochasticEnvironment(means, FeedbackGraph.semi_bandit(decisions.n_arms), decisions=decisions, seed=seed)


def bounds_of(env: StochasticEnvironment, delta: float, rounds: int) -> tuple[float, float]:
    """The minimax and the gap form of what forced rounds can lose."""
    assert env.decisions is not None
    K, S = env.n_arms, env.decisions.size
    worth = np.unique([round(float(env.means[one].sum()), 9) for one in env.decisions])
    b = math.log(K / delta) + math.log(rounds) / 2 + math.log(2)
    return K + 2 * math.sqrt(2 * b * K * S * rounds), 2 * K + 8 * b * K * S / (worth[-1] - worth[-2])


def play(policy: Any, env: StochasticEnvironment, rounds: int, late: int = 0) -> tuple[float, float]:
    """Ask and tell, and assert what holds in every round; return the regret, and that of the forced rounds."""
    lost = forced_loss = 0.0
    waiting: list[Any] = []
    for number in range(rounds):
        before, spent = policy.account.forced_rounds, policy.account.spent
        decision = policy.ask()
        account = policy.account
        lost += env.regret(decision.arms)
        if account.forced_rounds > before:
            forced_loss += env.regret(decision.arms)
            assert account.spent <= max(spent, account.allowed) + 1e-9
        elif account.spent > spent:
            assert account.spent <= account.allowed * (1 + 1e-9)
        waiting.append(decision)
        if len(waiting) > late:
            one = waiting.pop(0)
            policy.tell(one, env.rewards(one.number, one.revealed))
        if number % 100 == 99:
            found = policy.certificate()
            assert isinstance(found, DecisionCertificate)
            if not found.contradictions:
                assert lost <= found.regret_bound + 1e-9
                assert env.regret(found.next_decision) <= found.next_bound + 1e-9
                assert lost <= account.allowed + forced_loss + 1e-9
    return lost, forced_loss


@pytest.mark.parametrize("mode", ["time", "shadow"])
@pytest.mark.parametrize("decisions", [SLATES, ROUTES], ids=["slates", "routes"])
def test_worst_proposals_lose_no_more_than_the_theorem_allows(decisions: Any, mode: str) -> None:
    """The worst decision, for ever: each of these four runs may fail with probability 0.01."""
    env = world(decisions)
    worst = decisions.maximise(-env.means)
    policy = Guard(lambda number: worst, env.graph, decisions=decisions, mode=mode)
    rounds = 3000
    lost, forced = play(policy, env, rounds)
    minimax, gap = bounds_of(env, policy.delta, rounds)
    assert policy.account.forced_rounds > 100
    assert lost < env.regret(worst) * rounds * 0.95
    if mode == "time":
        assert forced <= min(minimax, gap)
        assert lost <= min(2 * minimax, 5 * gap)
    else:
        assert forced <= 2 * min(minimax, 2 * gap)
        assert lost <= decisions.size + 3 * min(minimax, 2 * gap)


@pytest.mark.parametrize("mode", ["time", "shadow"])
def test_random_proposals_and_late_rewards_keep_what_is_promised(mode: str) -> None:
    env = world(SLATES, seed=8)
    rng = np.random.default_rng(8)
    policy = Guard(lambda number: SLATES.maximise(rng.random(20)), env.graph, decisions=SLATES, mode=mode)
    lost, _ = play(policy, env, 800, late=20)
    minimax, gap = bounds_of(env, policy.delta, 800)
    assert lost <= SLATES.size + 3 * min(minimax, 2 * gap) + 3 * env.n_arms * 20


@pytest.mark.parametrize("mode", ["time", "shadow"])
@pytest.mark.parametrize("decisions", [SLATES, ROUTES, Matchings(3, 4)], ids=["slates", "routes", "matchings"])
def test_the_policy_keeps_what_is_promised(decisions: Any, mode: str) -> None:
    env = world(decisions, seed=5)
    policy = GuardedThompson(env.graph, decisions=decisions, mode=mode, seed=5)
    lost, _ = play(policy, env, 600)
    worst = decisions.maximise(-env.means)
    assert lost < env.regret(worst) * 600 / 4
    assert policy.account.forced_rounds == 0 or mode == "shadow"


def test_long_disjoint_decisions_do_not_hold_the_policy() -> None:
    """Two decisions of 50 arms: of eight runs of Thompson sampling some play the worse one for ever."""
    env = world(Explicit(np.arange(100).reshape(2, 50)), means=np.repeat([0.7, 0.9], 50))
    regret = {}
    for kind in (ThompsonSampling, GuardedThompson):
        policy = kind(env.graph, decisions=env.decisions, seed=2)
        regret[kind] = simulate(policy, env, horizon=1500, replications=8, checkpoints=[1500]).regret[:, -1]
    assert (regret[ThompsonSampling] > 14_999).any()
    assert (regret[GuardedThompson] <= 250).all()
    policy = Guard(
        ThompsonSampling(env.graph, decisions=env.decisions), env.graph, decisions=env.decisions, mode="shadow"
    )
    stuck = simulate(policy, env, horizon=1500, replications=8, seed=2, checkpoints=[1500]).regret[:, -1]
    assert (stuck <= 1300).all()


def test_a_certain_decision_is_played_without_questions() -> None:
    pairs = Explicit([[0, 1], [2, 3]])
    env = world(pairs, means=[0.9, 0.8, 0.1, 0.2])
    policy = GuardedThompson(env.graph, decisions=pairs, mode="shadow", seed=1)
    asked = []
    for number in range(600):
        decision = policy.ask()
        policy.tell(decision, env.rewards(number, decision.revealed))
        asked.append(policy.oracle_calls)
    assert asked[-1] == asked[-100]
    one = policy.certificate()
    assert one.next_bound == 0.0
    assert one.gap[0] > 0.0
    np.testing.assert_array_equal(decision.arms, [0, 1])
    np.testing.assert_array_equal(policy.triage.confirmed, [0, 1])


def test_questions_of_the_guard_are_few() -> None:
    env = world(SLATES, seed=4)
    policy = GuardedThompson(env.graph, decisions=SLATES, seed=4)
    play(policy, env, 1000)
    own = policy._proposer_calls()
    assert policy.oracle_calls <= 1.1 * own
    assert policy.oracle_calls <= 0.75 * 1000


@pytest.mark.parametrize("mode", ["time", "shadow"])
def test_a_loaded_policy_goes_on_as_the_saved_one(mode: str, tmp_path: Path) -> None:
    env = world(ROUTES, seed=6)
    solver = ThompsonSampling(env.graph, decisions=ROUTES, seed=6)
    guarded = GuardedThompson(env.graph, decisions=ROUTES, mode=mode, factor=0.1, delta=0.5, seed=6)
    for policy in (guarded, Guard(solver, env.graph, decisions=ROUTES, mode=mode, factor=0.1, seed=6)):
        play(policy, env, 150, late=3)
        policy.save(tmp_path / "policy.bin")
        loaded: Any = Policy.load(tmp_path / "policy.bin")
        assert loaded.account == policy.account
        assert loaded.certificate().regret_bound == policy.certificate().regret_bound
        for number in range(150, 260):
            one, two = policy.ask(), loaded.ask()
            np.testing.assert_array_equal(one.arms, two.arms)
            policy.tell(one, env.rewards(number, one.revealed))
            loaded.tell(two, env.rewards(number, two.revealed))


def test_all_slates_are_guarded_as_without_a_set() -> None:
    env = world(TopS(8, budget=3))
    one = GuardedThompson(env.graph, decisions=TopS(8, budget=3), seed=7)
    two = GuardedThompson(env.graph, budget=3, seed=7)
    for number in range(300):
        first, second = one.ask(), two.ask()
        np.testing.assert_array_equal(first.arms, second.arms)
        one.tell(first, env.rewards(number, first.revealed))
        two.tell(second, env.rewards(number, second.revealed))
    assert str(one.certificate()) == str(two.certificate())


@pytest.mark.parametrize("given", [[0, 1], [0, 0, 5, 10], [0, 5, 10, 99], [0, 5, 10]])
def test_proposals_that_are_no_decision_are_refused(given: Any) -> None:
    policy = Guard(lambda number: given, SLATES.n_arms, decisions=SLATES)
    with pytest.raises(
        ValueError, match=r"the arms that proposer returns must lie in|proposer must return a decision of"
    ):
        policy.ask()
    assert not policy.open_decisions
    assert policy.account.spent == 0.0


def test_a_proposer_must_have_the_same_decisions() -> None:
    solver = ThompsonSampling(20, decisions=SLATES)
    with pytest.raises(ValueError, match="proposer must have the same decisions as the guard"):
        Guard(solver, 20, decisions=PartitionMatroid(np.repeat(np.arange(5), 4), 1))
    with pytest.raises(ValueError, match="either budget or decisions must be given"):
        GuardedThompson(20)


@pytest.mark.parametrize(
    ("graph", "cover"),
    [
        (FeedbackGraph.semi_bandit(20), 20),
        (FeedbackGraph.full_information(20), 4),
        (FeedbackGraph.cliques([10, 10]), 8),
        (FeedbackGraph.cliques([1] * 20), 20),
        (FeedbackGraph.from_edges(20, [(0, arm) for arm in range(1, 20)]), 20),
        (FeedbackGraph.from_edges(20, [(2 * i, 2 * i + 1) for i in range(10)], undirected=True), 20),
        (FeedbackGraph.from_edges(20, [(a, b) for a in range(20) for b in range(20) if a % 3 == b % 3]), 12),
    ],
)
def test_the_graph_counts_by_cliques_that_cover_it(graph: FeedbackGraph, cover: int) -> None:
    given = {"offset": 0.0, "delta": 0.1, "factor": 1.0, "shadow": False}
    assert params_of(graph, SLATES, **given).cover == cover  # type: ignore[arg-type]


def test_unequal_sizes_far_from_zero_are_priced_by_all_that_they_can_differ_in() -> None:
    menus = Explicit([[0], [1, 2, 3]])
    policy = GuardedThompson(4, decisions=menus, reward_range=(4.0, 5.0), seed=1)
    assert policy.params().worst == pytest.approx(15.0 - 4.0)
    policy.tell(policy.ask(), {})
    assert policy.certificate().regret_bound <= 11.0 + 1e-9


@pytest.mark.long
def test_certificates_over_decision_sets_hold_in_19_of_20_runs() -> None:
    """2,000 runs at delta 0.05: more than 130 failures of any checkpoint have probability below 0.002."""
    failed = 0
    for number, decisions in enumerate((SLATES, ROUTES, Matchings(3, 3), Explicit([[0, 1], [2], [1, 2, 3]]))):
        env = world(decisions, seed=number)
        for kind, options in ((GuardedThompson, {}), (GuardedThompson, {"mode": "shadow"})):
            policy = kind(env.graph, decisions=decisions, seed=number, **options)
            trace = simulate(policy, env, horizon=400, replications=250, certificate=0.05)
            assert trace.certificate is not None
            failed += int((trace.regret > trace.certificate + 1e-9).any(axis=1).sum())
    assert failed <= 130
