"""The guard keeps its bound whatever is proposed, and leaves a good proposer alone."""

from __future__ import annotations

import re
from collections.abc import Callable
from pathlib import Path
from typing import Any, NamedTuple

import numpy as np
import pytest

from armtriage import (
    C2UCB,
    CombUCB1,
    Explicit,
    FeedbackGraph,
    Greedy,
    Guard,
    GuardedIndex,
    GuardedThompson,
    Policy,
    StochasticEnvironment,
    ThompsonSampling,
    UniformRandom,
    revealing_hubs,
    simulate,
)
from conftest import play

NEVER = 1e-6  # the probability with which a run may break its bound
GRAPHS = {
    "semi-bandit": FeedbackGraph.semi_bandit(8),
    "cliques": FeedbackGraph.cliques([2, 2, 4]),
    "star": FeedbackGraph.from_edges(8, [(0, arm) for arm in range(1, 8)]),
    "digraph": FeedbackGraph.erdos_renyi(8, 0.2, seed=3),
}
MEANS = np.array([0.1, 0.8, 0.3, 0.75, 0.2, 0.3, 0.25, 0.1])


class Run(NamedTuple):
    """Regret of admitted and of forced rounds, and the account, after each round."""

    admitted: np.ndarray
    forced: np.ndarray
    spent: np.ndarray
    allowed: np.ndarray
    policy: Any


def run(policy: Any, env: StochasticEnvironment, rounds: int, late: int = 0) -> Run:
    rows, admitted, forced, waiting, before = [], 0.0, 0.0, [], 0
    for t in range(rounds):
        decision = policy.ask()
        account = policy.account
        stepped_in, before = account.forced_rounds > before, account.forced_rounds
        lost = env.regret(decision.arms)
        admitted, forced = admitted + lost * (not stepped_in), forced + lost * stepped_in
        rows.append((admitted, forced, account.spent, account.allowed))
        waiting.append((t, decision))
        if len(waiting) > late:
            number, old = waiting.pop(0)
            policy.tell(old, env.rewards(number, old.revealed))
    return Run(*np.array(rows).T, policy)


def hostile(name: str, graph: FeedbackGraph, means: np.ndarray) -> Policy | Callable[[int], Any]:
    worst = np.argsort(means)[:2]
    if name == "saboteur":
        return lambda number: worst
    if name == "greedy":
        return Greedy(graph, budget=2)
    if name == "random":
        return UniformRandom(graph, budget=2)
    return lambda number: [number % 8, (number + 1 + number // 8 % 7) % 8]


@pytest.mark.parametrize("rounds", [400, pytest.param(1000, marks=pytest.mark.long)])
@pytest.mark.parametrize("mode", ["time", "shadow", "certify"])
@pytest.mark.parametrize("name", ["saboteur", "greedy", "random", "carousel"])
@pytest.mark.parametrize("graph", GRAPHS)
def test_regret_is_within_the_budget_whatever_is_proposed(graph: str, name: str, mode: str, rounds: int) -> None:
    """Fails with probability at most 1e-6 a run."""
    env = StochasticEnvironment(MEANS, GRAPHS[graph], seed=5)
    proposer = hostile(name, env.graph, MEANS)
    guard = Guard(proposer, env.graph, budget=2, delta=NEVER, mode=mode, factor=0.2, seed=7)
    done = run(guard, env, rounds, late=3 if name == "carousel" else 0)
    assert np.all(done.admitted <= done.spent + 1e-9)
    assert np.all(done.spent <= done.allowed + 1e-9)
    assert np.all(np.diff(done.allowed) >= 0)


@pytest.mark.parametrize("graph", GRAPHS)
def test_saboteur_is_stopped(graph: str) -> None:
    """Alone it would lose 1.35 a round; fails with probability at most 1e-6."""
    env = StochasticEnvironment(MEANS, GRAPHS[graph], seed=5)
    worst = np.argsort(MEANS)[:2]
    done = run(Guard(lambda number: worst, env.graph, budget=2, delta=NEVER, factor=0.2, seed=7), env, 3000)
    assert done.policy.account.forced_rounds > 0
    total = done.admitted + done.forced
    assert total[-1] <= 0.2 * env.regret(worst) * 3000
    # In the end the sets are decided, and nothing is lost any more.
    assert done.policy.triage.active.size + done.policy.triage.confirmed.size == 2
    assert total[-1] == total[-500]


@pytest.mark.parametrize("late", [0, 5, 40])
@pytest.mark.parametrize("mode", ["time", "shadow"])
def test_late_rewards_add_no_more_than_a_slate_for_each_round_that_they_are_late(mode: str, late: int) -> None:
    """Regret within S late + (1 + factor) F; fails with probability at most 1e-6 a run."""
    env, factor, rounds = StochasticEnvironment(MEANS, GRAPHS["semi-bandit"], seed=5), 0.05, 1500
    policy = Guard(hostile("saboteur", env.graph, MEANS), env.graph, 2, delta=NEVER, mode=mode, factor=factor, seed=7)
    done = run(policy, env, rounds, late=late)
    times, picks, slots = np.arange(1, rounds + 1), 8, 2
    level = np.log(8 / NEVER) + 0.5 * np.log(times) + np.log(2.0)
    flat = picks + slots + 9.0 * np.sqrt(level) * (np.sqrt(picks * slots * times + picks**2) + slots * np.sqrt(times))
    bound = np.minimum(flat, (picks + slots) * (1.0 + 27.0 * level / 0.45))
    assert done.policy.account.forced_rounds > 0
    assert np.all(done.allowed <= factor * bound)
    assert np.all(done.forced <= slots * late + bound)


def test_the_budget_pays_for_every_open_arm_once_a_bad_hub_is_no_longer_played() -> None:
    """By fixed seeds: if it pays for a cover of all arms, which is the hub alone, this loses 2.4 times as much."""
    world = revealing_hubs(100, 1, 10, 0.2, seed=7)
    paid, free = (
        simulate(GuardedThompson(world.graph, 10, seed=7, factor=factor), world, horizon=20_000, replications=2)
        for factor in (1.0, 1e9)
    )
    assert paid.mean[-1] < 1.3 * free.mean[-1]


@pytest.mark.parametrize(("sizes", "most"), [([1] * 40, 0.9), ([5] * 8, 1.0)], ids=["plain", "cliques"])
def test_looks_make_the_certificate_tighter_for_their_price(sizes: list[int], most: float) -> None:
    """By fixed seeds: the certificates of four runs together, and what looks lost by the means of their time.

    In cliques little is gained: 0.94 times as much.
    """
    graph = FeedbackGraph.cliques(sizes)
    env, found = StochasticEnvironment(np.linspace(0.3, 0.7, 40), graph, seed=5), dict[str, float]()
    for mode in ("time", "certify"):
        found[mode] = 0.0
        for seed in range(4):
            policy = GuardedThompson(graph, 4, mode=mode, seed=seed)
            for t in range(1500):
                decision = policy.ask()
                policy.tell(decision, env.rewards(t, decision.revealed, seed))
            found[mode] += policy.certificate(independent=True).regret_bound
            book = policy._book
            assert (book.inspected > 20) == (mode == "certify")
            share = 110 / 210  # by default; and means have changed since the looks: by 1.25 here
            assert book.inspected_loss <= share * book.estimated * 1.3
            assert policy.account.spent <= policy.account.allowed
    assert found["certify"] < most * found["time"]


def test_a_price_is_refused_where_nothing_is_looked_at() -> None:
    with pytest.raises(ValueError, match='price must be None unless mode is "certify", got 20'):
        GuardedThompson(5, 2, price=20)
    with pytest.raises(ValueError, match="price must be a finite number from 0, got -1"):
        GuardedThompson(5, 2, mode="certify", price=-1)
    with pytest.raises(ValueError, match=r'mode must be "time" or "shadow" over Explicit.*, got "certify"'):
        GuardedThompson(3, decisions=Explicit([[0], [1, 2]]), mode="certify")


def test_a_price_of_nothing_buys_no_look() -> None:
    env = StochasticEnvironment(np.linspace(0.3, 0.7, 12), 12, seed=5)
    free, paid = (
        GuardedThompson(12, 3, seed=7, prior="uniform", **mode) for mode in ({}, {"mode": "certify", "price": 0})
    )
    for t in range(200):
        mine, theirs = free.ask(), paid.ask()
        assert mine.arms.tolist() == theirs.arms.tolist()
        for policy in (free, paid):
            policy.tell(t, dict(zip(mine.revealed.tolist(), env.rewards(t, mine.revealed).tolist(), strict=True)))


def test_good_proposer_is_left_alone() -> None:
    env = StochasticEnvironment(np.linspace(0.1, 0.9, 12), FeedbackGraph.semi_bandit(12), seed=5)
    alone = ThompsonSampling(env.graph, budget=3, seed=7)
    guarded = Guard(ThompsonSampling(env.graph, budget=3, seed=1), env.graph, budget=3, seed=7)
    for t in range(400):
        mine, theirs = guarded.ask(), alone.ask()
        assert mine.arms.tolist() == theirs.arms.tolist()
        for policy, decision in ((guarded, mine), (alone, theirs)):
            policy.tell(decision, env.rewards(t, decision.revealed))
    assert guarded.account.forced_rounds == 0


@pytest.mark.thorough
@pytest.mark.parametrize("kind", [GuardedThompson, GuardedIndex])
@pytest.mark.parametrize("factor", [0.0, 0.05])
def test_guarded_policy_is_within_its_budget_too(factor: float, kind: type[GuardedThompson | GuardedIndex]) -> None:
    """Fails with probability at most 1e-6."""
    env = StochasticEnvironment(MEANS, GRAPHS["digraph"], seed=6)
    done = run(kind(env.graph, budget=2, delta=NEVER, factor=factor, seed=7), env, 1500, late=2)
    assert np.all(done.admitted <= done.spent + 1e-9)
    assert np.all(done.spent <= done.allowed + 1e-9)
    assert done.policy.account.forced_rounds > 0


def test_budget_of_nothing_leaves_only_elimination() -> None:
    env = StochasticEnvironment(MEANS, GRAPHS["semi-bandit"], seed=5)
    done = run(Guard(CombUCB1(env.graph, budget=2), env.graph, budget=2, factor=0.0, seed=7), env, 200)
    assert done.policy.account.forced_rounds == 200


def test_shadow_budget_is_within_the_bound_with_many_arms() -> None:
    """Sets of 25,000 arms rest for 1,562 rounds, in which counts grow; means are 1 and 0, so that nothing can fail."""
    n, factor, delta, rounds = 25_000, 0.9, 0.13, 1580
    rewards = np.zeros(n)
    rewards[0] = 1.0

    def patient(number: int) -> list[int]:
        """The worst while it is let, and never so much of it that the guard would look."""
        return [n - 1] if number < 18 or policy.account.spent + 1.0 <= policy.account.allowed else [0]

    graph = FeedbackGraph.full_information(n)
    policy = Guard(patient, graph, budget=1, mode="shadow", factor=factor, delta=delta, seed=7)
    for _ in range(rounds):
        policy.tell(policy.ask(), rewards)
    level = np.log(n / delta) + 0.5 * np.log(rounds) + np.log(2.0)
    assert policy.account.allowed <= factor * 2.0 * (1.0 + 24.0 * level)


def test_guard_goes_on_watching_when_all_is_decided() -> None:
    """The arms trade places for a while after the commitment, and are seen all the time."""
    graph = FeedbackGraph.full_information(2)
    policy = Guard(lambda number: [0], graph, budget=1, seed=7)
    for rounds, means in ((300, (0.9, 0.1)), (600, (0.3, 0.7)), (1000, (0.97, 0.1))):
        for _ in range(rounds):
            policy.tell(policy.ask(), means)
        if means[0] == 0.9:
            assert policy.triage.confirmed.tolist() == [0]
            assert policy.interval_failures == 0
    assert policy.interval_failures > 0
    assert policy.certificate().regret_bound == np.inf


def test_function_must_be_given_again_after_load(tmp_path: Path) -> None:
    policy = Guard(lambda number: [0, 1], GRAPHS["star"], budget=2, seed=7)
    policy.tell(policy.ask(), {0: 1.0})
    policy.save(tmp_path / "guard")
    loaded = Guard.load(tmp_path / "guard")
    with pytest.raises(ValueError, match="proposer must be set again after load"):
        loaded.ask()
    loaded.proposer = lambda number: [2, 3]
    assert loaded.ask().arms.tolist() == [2, 3]
    loaded.proposer = Greedy(GRAPHS["star"], 2)
    assert loaded.ask().arms.size == 2


def personal(number: int, visitor: Any = None) -> list[int]:
    return [0, 1]


@pytest.mark.parametrize(
    ("proposer", "name"),
    [(personal, "visitor"), (lambda context: [0, 1], "context"), (lambda number, model: [0, 1], "model")],
)
def test_proposer_that_wants_a_context_is_warned_of_once(proposer: Any, name: str, tmp_path: Path) -> None:
    with pytest.warns(UserWarning, match=f"proposer asks for '{name}'"):
        policy = Guard(proposer, GRAPHS["star"], budget=2, seed=7)
    if name != "model":
        policy.ask()  # warnings are errors: it says nothing more
    policy.save(tmp_path / "guard")
    loaded = Guard.load(tmp_path / "guard")
    with pytest.warns(UserWarning, match=f"proposer asks for '{name}'"):
        loaded.proposer = proposer


@pytest.mark.parametrize("proposer", [lambda number, rng=None: [0, 1], lambda *given: [0, 1], max])
def test_proposer_that_wants_the_number_alone_is_not(proposer: Any) -> None:
    Guard(proposer, GRAPHS["star"], budget=2, seed=7)


def test_policy_that_proposes_is_not_changed() -> None:
    proposer = CombUCB1(GRAPHS["star"], budget=2, seed=7)
    policy = Guard(proposer, proposer.graph, budget=2, seed=7)
    policy.tell(policy.ask(), {0: 1.0})
    assert not proposer.open_decisions
    assert proposer.tally.pulls.sum() == 0


@pytest.mark.parametrize(
    ("proposal", "error", "message"),
    [
        ([0], ValueError, "proposer must return 2 different arms, got [0]"),
        ([0, 0], ValueError, "proposer must return 2 different arms, got [0, 0]"),
        ([0, 1, 2], ValueError, "proposer must return 2 different arms, got [0, 1, 2]"),
        ([0, 1, 1], ValueError, "proposer must return 2 different arms, got [0, 1, 1]"),
        ([0, 8], ValueError, "the arms that proposer returns must lie in 0..7, got [0, 8]"),
        ([0, -1], ValueError, "the arms that proposer returns must lie in 0..7, got [0, -1]"),
        ([0.0, 1.0], TypeError, "the arms that proposer returns must be a list of whole numbers, got [0.0, 1.0]"),
        (None, TypeError, "the arms that proposer returns must be a list of whole numbers, got None"),
    ],
)
def test_bad_proposals_are_replaced_logged_and_counted(
    proposal: Any, error: type[Exception], message: str, caplog: pytest.LogCaptureFixture
) -> None:
    answers = [proposal, [4, 2]]
    policy = Guard(lambda number: answers.pop(0), GRAPHS["star"], budget=2, seed=7)
    assert policy.ask().arms.tolist() == [0, 1]
    assert policy.proposer_failures == 1
    (line,) = caplog.records
    assert line.getMessage() == (
        f"proposer failed at decision 0, and the guard chose instead (failures so far: 1): {error(message)!r}"
    )
    assert policy.ask().arms.tolist() == [2, 4]
    assert policy.proposer_failures == 1


@pytest.mark.parametrize("eligible", [None, [0, 2, 3, 5, 7]])
def test_a_recommender_that_is_down_costs_no_request(eligible: Any, caplog: pytest.LogCaptureFixture) -> None:
    def down(number: int) -> Any:
        raise ConnectionError("no route to the recommender")

    means = np.linspace(0.1, 0.9, 8)
    env = StochasticEnvironment(means, FeedbackGraph.semi_bandit(8), seed=5)
    policy = Guard(down, 8, budget=2, seed=7)
    for number in range(600):
        decision = policy.ask(eligible=eligible)
        policy.tell(decision, env.rewards(number, decision.revealed))
    assert policy.proposer_failures == 600
    assert [one.args[1] for one in caplog.records if one.args] == [2**k for k in range(10)]
    assert caplog.records[0].exc_info is not None
    assert decision.arms.tolist() == ([6, 7] if eligible is None else [5, 7])
    loaded = Policy.from_bytes(policy.to_bytes())
    assert loaded.digest() == policy.digest()


def test_a_function_without_an_argument_is_refused_at_once() -> None:
    for wrong in (lambda: [0, 1], lambda *, number: [0, 1]):
        with pytest.raises(TypeError, match="proposer must take the number of the decision as its argument, got"):
            Guard(wrong, 8, budget=2)


@pytest.mark.parametrize(
    ("change", "error", "message"),
    [
        ({"proposer": 3}, TypeError, "proposer must be a Policy or a function that returns arms, got 3"),
        ({"proposer": Greedy(GRAPHS["cliques"], 2)}, ValueError, "proposer must have the same graph as the guard"),
        ({"proposer": Greedy(GRAPHS["star"], 3)}, ValueError, "proposer must have the same budget as the guard, got 3"),
        ({"proposer": C2UCB(8, 2, budget=2)}, ValueError, "proposer must choose arms without contexts"),
        ({"mode": "free"}, ValueError, "mode must be one of time, shadow, certify, got 'free'"),
        ({"factor": -1.0}, ValueError, "factor must be a finite number from 0, got -1.0"),
        ({"delta": 1.0}, ValueError, "delta must be a number strictly between 0 and 1, got 1.0"),
    ],
)
def test_bad_arguments_are_refused(change: dict[str, Any], error: type[Exception], message: str) -> None:
    good: dict[str, Any] = {"proposer": Greedy(GRAPHS["star"], 2), "graph": GRAPHS["star"], "budget": 2}
    with pytest.raises(error, match=re.escape(message)):
        Guard(**{**good, **change})


def test_bad_arm_that_shows_many_is_pulled_only_to_reveal() -> None:
    env = revealing_hubs(40, 1, 3, 0.2, seed=7)
    pulls = {}
    for reveal in (True, False):
        policy = GuardedThompson(env.graph, 3, reveal=reveal, seed=7)
        for number in range(1000):
            decision = policy.ask()
            policy.tell(decision, env.rewards(number, decision.revealed))
        pulls[reveal] = policy.account.revealing_pulls, int(policy.tally.pulls[0])
    assert pulls[False][0] == 0
    assert 10 < pulls[True][0] <= pulls[True][1]
    assert 3 * pulls[False][1] < pulls[True][1]


def test_guard_around_a_guarded_policy_is_saved_and_loaded(tmp_path: Path) -> None:
    """What the inner one has proposed, and counts as played, is more than what the outer one has let pass."""
    graph = FeedbackGraph.semi_bandit(8)
    env = StochasticEnvironment(np.linspace(0.1, 0.9, 8), graph, seed=3)
    policy = Guard(GuardedThompson(graph, 2, seed=1), graph, 2, factor=0.01, seed=1)
    play(policy, env, 200)
    assert policy.account.forced_rounds > 0
    policy.save(tmp_path / "guard")
    loaded = Guard.load(tmp_path / "guard")
    assert play(loaded, env, 100, first=200) == play(policy, env, 100, first=200)


def test_guard_around_a_guard_is_refused() -> None:
    graph = FeedbackGraph.semi_bandit(3)
    inner = Guard(lambda number: [0], graph, 1, seed=1)
    with pytest.raises(ValueError, match="be no Guard itself"):
        Guard(inner, graph, 1)


def test_a_proposer_that_must_be_told_who_is_eligible_always_is() -> None:
    seen: list[list[int]] = []

    def first(number: int, eligible: Any) -> Any:
        seen.append(list(eligible))
        return eligible[:2]

    policy = Guard(first, 5, budget=2, seed=7)
    assert policy.ask().arms.tolist() == [0, 1]
    assert policy.ask(eligible=[1, 3, 4]).arms.tolist() == [1, 3]
    assert seen == [[0, 1, 2, 3, 4], [1, 3, 4]]
    assert policy.proposer_failures == 0
