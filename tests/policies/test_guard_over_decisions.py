"""What the guard over decision sets promises holds on runs, for good proposers and hostile ones."""

from __future__ import annotations

import math
import re
from pathlib import Path
from typing import Any

import numpy as np
import pytest

from armtriage import (
    Certificate,
    Explicit,
    FeedbackGraph,
    Guard,
    GuardedThompson,
    Matchings,
    PartitionMatroid,
    Paths,
    Patterns,
    Policy,
    RandomRounds,
    StochasticEnvironment,
    ThompsonSampling,
    TopS,
    simulate,
)
from armtriage.policies.guard.decision_account import params_of

WAIT = 33 / 32  # by how much a count may have grown before its interval is computed again
SLATES = PartitionMatroid(np.repeat(np.arange(4), 5), 1)
ROUTES = Paths(6, [(0, 1), (0, 2), (1, 3), (2, 3), (1, 4), (3, 5), (4, 5), (0, 5)], source=0, target=5)


def world(decisions: Any, seed: int = 3, means: Any = None, **more: Any) -> StochasticEnvironment:
    means = np.random.default_rng(seed).random(decisions.n_arms) if means is None else means
    graph = FeedbackGraph.semi_bandit(decisions.n_arms)
    return StochasticEnvironment(means, graph, decisions=decisions, seed=seed, **more)


def bounds_of(env: StochasticEnvironment, delta: float, rounds: int) -> tuple[float, float]:
    """The minimax and the gap form of what forced rounds can lose."""
    assert env.decisions is not None
    K, S = env.n_arms, env.decisions.size
    worth = np.unique([round(float(env.means[one].sum()), 9) for one in env.decisions])
    b = math.log(K / delta) + math.log(rounds) / 2 + math.log(2)
    return K + math.sqrt(8 * WAIT * b * K * S * rounds), 2 * K + 8 * WAIT * b * K * S / (worth[-1] - worth[-2])


def test_the_constants_of_the_page_are_those_of_intervals_that_wait_for_a_32nd_more_rewards() -> None:
    page = (Path(__file__).parents[2] / "docs" / "decision-sets.md").read_text()
    said = set(re.findall(r"(\d+\.\d+) (?:√\(b Q S T\)|b Q S/Δ)", page))
    assert said == {f"{math.sqrt(8 * WAIT) + 0.005:.2f}", f"{8 * WAIT}", f"{16 * WAIT}"}
    policy = GuardedThompson(3, 1, seed=7)
    for t in range(2000):
        policy.tell(policy.ask(), [t % 2])
        evidence = policy._evidence
        counts, due = evidence.counts[:3], evidence.due[:3]
        assert (due[counts > 0] <= WAIT * counts[counts > 0] + 1).all()
    assert (due > counts + 5).any()


def play(policy: Any, env: StochasticEnvironment, rounds: int, late: int = 0) -> tuple[float, float]:
    """Ask and tell, and assert what holds in every round; return the regret, and that of the forced rounds."""
    lost = forced_loss = 0.0
    waiting: list[Any] = []
    for number in range(rounds):
        before, spent = policy.account.forced_rounds, policy.account.spent
        sleeping = env.availability is not None
        decision = policy.ask(eligible=env.eligible(number)) if sleeping else policy.ask()
        account, regret = policy.account, env.regret(decision.arms, number if sleeping else None)
        lost += regret
        if account.forced_rounds > before:
            forced_loss += regret
            assert account.spent <= max(spent, account.allowed) + 1e-9
        elif account.spent > spent:
            assert account.spent <= account.allowed * (1 + 1e-9)
        waiting.append(decision)
        if len(waiting) > late:
            one = waiting.pop(0)
            policy.tell(one, env.rewards(one.number, one.revealed))
        if number % 100 == 99:
            there = env.eligible(number) if sleeping else None
            found = policy.certificate(eligible=there)
            assert isinstance(found, Certificate)
            if not found.contradictions:
                assert lost <= found.regret_bound + 1e-9
                assert env.regret(found.next_decision, number if sleeping else None) <= found.next_bound + 1e-9
                assert lost <= account.allowed + forced_loss + 1e-9
    return lost, forced_loss


@pytest.mark.parametrize(
    ("decisions", "mode"),
    [
        pytest.param(SLATES, "time", id="slates-time"),
        pytest.param(ROUTES, "shadow", id="routes-shadow"),
        pytest.param(SLATES, "shadow", id="slates-shadow", marks=pytest.mark.long),
        pytest.param(ROUTES, "time", id="routes-time", marks=pytest.mark.long),
    ],
)
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
    assert policy.certificate(eligible=range(4)).gap[0] > 0.0
    np.testing.assert_array_equal(decision.arms, [0, 1])
    np.testing.assert_array_equal(policy.triage.confirmed, [0, 1])


def test_questions_of_the_guard_are_few() -> None:
    env = world(SLATES, seed=4)
    policy = GuardedThompson(env.graph, decisions=SLATES, seed=4)
    play(policy, env, 1000)
    own = int(policy._own.draws.questions)
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
def test_proposals_that_are_no_decision_are_replaced(given: Any, caplog: pytest.LogCaptureFixture) -> None:
    policy = Guard(lambda number: given, SLATES.n_arms, decisions=SLATES)
    for number in range(3):
        decision = policy.ask()
        assert SLATES.contains(decision.arms)
        assert policy.proposer_failures == number + 1
    said = r"the arms that proposer returns must lie in|proposer must return a decision of"
    assert all(re.search(said, one.getMessage()) for one in caplog.records)


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


SOME = RandomRounds(np.where(np.arange(20) % 5 == 0, 1.0, 0.6))
SHIFTS = Patterns([np.setdiff1d(np.arange(20), out) for out in ([4, 9], [0, 1, 7, 13], [3, 16, 17, 18], [])])


def worst_among(env: StochasticEnvironment) -> Any:
    """Return a proposer that knows the means, and wants the worst decision of the arms that are there."""

    def propose(number: int, eligible: Any = None) -> Any:
        assert env.decisions is not None
        asleep = () if eligible is None else np.setdiff1d(np.arange(env.n_arms), eligible)
        return env.decisions.maximise(-env.means, (), asleep)

    return propose


@pytest.mark.parametrize(
    ("there", "mode"),
    [
        pytest.param(SOME, "time", id="random-time"),
        pytest.param(SHIFTS, "shadow", id="shifts-shadow"),
        pytest.param(SOME, "shadow", id="random-shadow", marks=pytest.mark.long),
        pytest.param(SHIFTS, "time", id="shifts-time", marks=pytest.mark.long),
    ],
)
def test_worst_proposals_among_eligible_arms_lose_no_more_than_the_theorem_allows(there: Any, mode: str) -> None:
    """The gap is not known here, so the minimax form: each of these four runs may fail with probability 0.01."""
    env, rounds = world(SLATES, availability=there), 1500
    policy = Guard(worst_among(env), env.graph, decisions=SLATES, mode=mode)
    lost, forced = play(policy, env, rounds)
    minimax, _ = bounds_of(env, policy.delta, rounds)
    assert policy.account.forced_rounds > 100
    assert forced <= (1 if mode == "time" else 2) * minimax
    assert lost <= (2 if mode == "time" else 3) * minimax + SLATES.size


@pytest.mark.parametrize("there", [SOME, SHIFTS], ids=["random", "shifts"])
def test_the_policy_keeps_what_is_promised_among_eligible_arms(there: Any) -> None:
    env = world(SLATES, seed=5, availability=there)
    for policy in (
        GuardedThompson(env.graph, decisions=SLATES, seed=5),
        GuardedThompson(env.graph, decisions=SLATES, seed=5, mode="shadow"),
        Guard(ThompsonSampling(env.graph, decisions=SLATES, seed=5), env.graph, decisions=SLATES, mode="shadow"),
    ):
        lost, _ = play(policy, env, 500)
        assert lost < 500 * 0.5
        text = str(policy.certificate())
        assert "against the best eligible decision of every round" in text


def test_simulate_plays_eligible_sets_over_decisions_as_ask_and_tell_do() -> None:
    env = world(SLATES, seed=5, availability=SOME)
    policy = GuardedThompson(env.graph, decisions=SLATES, seed=5)
    given: dict[str, Any] = {"horizon": 150, "checkpoints": [50, 150], "record_decisions": True}
    trace = simulate(policy, env, certificate=0.05, **given)
    one, lost = policy.fresh(5), 0.0
    assert trace.decisions is not None
    assert trace.certificate is not None
    for number in range(150):
        decision = one.ask(eligible=env.eligible(number))
        np.testing.assert_array_equal(decision.arms, trace.decisions[0, number])
        lost += env.regret(decision.arms, number)
        one.tell(decision, env.rewards(number, decision.revealed))
    assert trace.regret[0, -1] == pytest.approx(lost)
    assert (trace.certificate >= trace.regret).all()
    # More sets than pages: what was booked for the others is still counted.
    assert one._pages is not None
    assert one._pages.frozen > 0.0
    assert one._patterns is not None
    assert one._patterns.rounds == 150


def test_a_log_with_eligible_sets_gives_the_guard_that_wrote_it() -> None:
    env = world(SLATES, seed=6, availability=SHIFTS)
    policy = GuardedThompson(env.graph, decisions=SLATES, seed=6, factor=0.05, delta=0.5)
    copy = policy.fresh()
    copy.seed = policy.seed
    for number in range(120):
        among = env.eligible(number)
        decision = policy.ask(eligible=among)
        other = copy.record(decision.arms, eligible=among)
        for one, told in ((policy, decision), (copy, other)):
            one.tell(told, env.rewards(number, told.revealed))
    assert policy.account.forced_rounds > 0
    assert copy.account == policy.account
    assert Policy.from_bytes(policy.to_bytes()).digest() == policy.digest()
    # What is played elsewhere is certified, whatever the guard would have played.
    worst = SLATES.maximise(-env.means)
    assert worst is not None
    before = policy.certificate().regret_bound
    policy.record(worst, eligible=np.arange(19) if 19 not in worst else np.arange(1, 20))
    policy.record(worst)
    assert policy.certificate().regret_bound > before


def test_eligible_arms_without_a_decision_are_refused_and_nothing_has_changed() -> None:
    for policy in (
        GuardedThompson(20, decisions=SLATES, seed=1),
        Guard(ThompsonSampling(20, decisions=SLATES), 20, decisions=SLATES, seed=1),
        GuardedThompson(20, decisions=TopS(20, budget=4), seed=1),
    ):
        for number in range(30):
            decision = policy.ask(eligible=range(number % 5 == 0, 20))
            policy.tell(decision, np.ones(4))
        digest = policy.digest()
        with pytest.raises(ValueError, match="eligible must leave a decision of"):
            policy.ask(eligible=[0, 1, 2])
        assert policy.digest() == digest
        policy.tell(policy.ask(eligible=range(1, 20)), np.ones(4))
    cheat = Guard(lambda number, eligible=None: [0, 5, 10, 15], 20, decisions=SLATES)
    assert 0 not in cheat.ask(eligible=range(1, 20)).arms
    assert cheat.proposer_failures == 1
    with pytest.raises(ValueError, match="eligible must leave a decision of"):
        cheat.ask(eligible=[0, 1, 2])


def test_retired_arms_are_in_no_decision_and_their_set_has_a_page() -> None:
    policy = GuardedThompson(20, decisions=SLATES, seed=1, names=[f"item {arm}" for arm in range(20)])
    policy.retire_arms(["item 3"])
    for _ in range(40):
        decision = policy.ask()
        assert 3 not in decision.arms
        policy.tell_revealed(decision, np.ones(4))
    assert "item 3" not in np.concatenate(policy.triage_of())
    policy.restore_arms(["item 3"])
    policy.tell_revealed(policy.ask(), np.ones(4))
    assert policy.certificate().per_round


def test_pages_that_cannot_be_are_refused() -> None:
    env = world(SLATES, seed=6, availability=SHIFTS)
    policy = GuardedThompson(env.graph, decisions=SLATES, seed=6)
    for number in range(30):
        decision = policy.ask(eligible=env.eligible(number))
        policy.tell(decision, env.rewards(number, decision.revealed))
    kept = {name: array.copy() for name, array in policy._arrays().items()}
    policy._restore(kept)
    forged: dict[str, Any] = {
        "pages.arms": lambda array: np.full_like(array, 99),
        "pages.sizes": lambda array: array[:-1],
        "pages.frozen": lambda array: array - 1.0,
        "pages.book.admitted": lambda array: array + 1000,
        "pages.book.spent": lambda array: array - 1e9,
        "pages.draws.incumbent": lambda array: array * 0,
        "by_set.all_pulls": lambda array: array + 1000,
        "by_set.rounds": lambda array: array * 0,
    }
    for name, change in forged.items():
        with pytest.raises(ValueError):
            policy._restore({**kept, name: change(kept[name])})
    policy._restore(kept)
    policy.tell(policy.ask(eligible=env.eligible(30)), np.ones(4))
