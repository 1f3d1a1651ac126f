"""Guard over contexts: proposers of all kinds stay within the guarantee, and nothing of a request is lost."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import numpy as np
import pytest

from armtriage import C2UCB, ContextualGuard, Guard, LinearEnvironment, Policy, random_linear, simulate
from armtriage.theory import guarded_linear_upper

pytestmark = pytest.mark.filterwarnings("ignore:ContextualGuard is not compiled")


def worst_of(env: LinearEnvironment, size: int) -> Any:
    """Propose the slate that is worst by the true theta."""
    return lambda contexts: np.argsort(contexts @ env.theta, kind="stable")[:size]


def best_of(env: LinearEnvironment, size: int) -> Any:
    return lambda contexts: np.argsort(-(contexts @ env.theta), kind="stable")[:size]


@pytest.mark.parametrize("factor", [1.0, 0.1])
def test_the_worst_proposer_stays_within_the_guarantee(factor: float) -> None:
    env, rounds = random_linear(20, 3, seed=9), 2500
    policy = Guard(worst_of(env, 2), 20, dimension=3, budget=2, factor=factor, seed=1)
    trace = simulate(policy, env, horizon=rounds, replications=2, certificate=True, workers=1)
    bound = guarded_linear_upper(dimension=3, budget=2, horizon=rounds, factor=factor).value
    assert isinstance(bound, float)
    assert trace.certificate is not None
    assert np.all(trace.regret[:, -1] <= bound)
    assert np.all(trace.regret[:, -1] <= trace.certificate[:, -1])
    unguarded = rounds * np.mean([env.regret(t, np.argsort(env.means(t))[:2]) for t in range(50)])
    assert np.all(trace.regret[:, -1] < (0.9 if factor == 1.0 else 0.25) * unguarded)


def test_a_trait_that_is_not_in_the_contexts_makes_certificates_wrong() -> None:
    """As the page says: the first arm is shown to visitors who like it, and looks better than it is."""
    rng, trait = np.random.default_rng(7), 0
    contexts = np.array([[0.6, 0.0], [0.0, 0.6]])
    policy = Guard(lambda contexts: [0] if trait > 0 else [1], 2, dimension=2, budget=1, reward_range=(0, 1), seed=7)
    for _ in range(3000):
        trait = rng.choice([-1, 1])
        decision = policy.ask(contexts)
        mean = 0.3 + 0.25 * trait if decision.arms[0] == 0 else 0.36  # 0.3 and 0.36 for those who know the contexts
        policy.tell(decision, [float(rng.random() < mean)])
    wrong = policy.certificate(contexts)
    assert wrong.contradictions == 0
    assert wrong.next_decision.tolist() == [0]
    assert wrong.next_bound < 0.06


@pytest.mark.long
@pytest.mark.parametrize(("factor", "most"), [(1.0, 112_000.0), (0.1, 10_000.0)])
def test_the_worst_proposer_over_forty_thousand_rounds(factor: float, most: float) -> None:
    """Without the guard it loses about 290,000."""
    env, rounds = random_linear(50, 5, seed=1), 40_000
    policy = Guard(worst_of(env, 5), 50, dimension=5, budget=5, factor=factor, seed=1)
    lost = 0.0
    for t in range(rounds):
        decision = policy.ask(env.contexts(t))
        lost += env.regret(t, decision.arms)
        policy.tell(decision, env.rewards(t, decision.arms))
    account = policy.account
    assert account.spent <= account.allowed
    assert lost <= min(most, policy.certificate().regret_bound)
    assert account.forced_rounds > 0


def test_a_good_proposer_is_left_alone() -> None:
    env = random_linear(20, 3, seed=9)
    trace = simulate(Guard(best_of(env, 2), 20, dimension=3, budget=2, seed=1), env, horizon=300)
    assert np.all(trace.regret == 0.0)


def test_it_is_a_policy_with_contexts_and_its_function_is_not_saved(tmp_path: Path) -> None:
    env = random_linear(9, 3, seed=2)
    policy = Guard(best_of(env, 2), dimension=3, budget=2, factor=0.01, seed=1)
    assert isinstance(policy, ContextualGuard)
    for t in range(30):
        decision = policy.ask(env.contexts(t)[: 5 + t % 5])
        policy.tell(decision, env.rewards(t, decision.arms))
    policy.ask(env.contexts(30))
    policy.save(tmp_path / "guard")
    loaded = Policy.load(tmp_path / "guard")
    assert isinstance(loaded, ContextualGuard)
    with pytest.raises(ValueError, match="proposer must be set again after load"):
        loaded.ask(env.contexts(31))
    assert loaded.digest() == policy.digest()
    loaded.proposer = best_of(env, 2)
    for t in range(31, 50):
        mine, theirs = policy.ask(env.contexts(t)), loaded.ask(env.contexts(t))
        assert mine.arms.tolist() == theirs.arms.tolist()
        policy.tell(mine, env.rewards(t, mine.arms))
        loaded.tell(theirs, env.rewards(t, theirs.arms))
    assert loaded.digest() == policy.digest()


def test_proposers_see_contexts_as_they_were_given_and_name_arms() -> None:
    seen: list[Any] = []

    def recommend(contexts: np.ndarray, eligible: Any) -> list[str]:
        seen.append((contexts.tolist(), list(eligible)))
        contexts[:] = np.nan  # its own copy
        return [eligible[-1]]

    policy = Guard(
        recommend, 3, dimension=2, budget=1, names=["tea", "milk", "jam"], context_bound=4.0, reward_range=(0, 1)
    )
    decision = policy.ask({"jam": [3.0, 1.0], "tea": [0.0, 2.0]})
    assert seen == [([[0.0, 2.0], [3.0, 1.0]], ["tea", "jam"])]
    assert decision.names == ("jam",)
    policy.tell(decision, {"jam": 1})
    assert policy.ask({"milk": [0.1, 0.0]}).names == ("milk",)
    assert len(seen) == 1


@pytest.mark.parametrize(
    ("returned", "says"),
    [([0, 0], "2 different"), ([0], "2 different"), ([0, 7], "rows from 0 to 3"), ([0.5, 1.0], "rows"), (None, "rows")],
)
def test_what_is_no_slate_is_replaced_logged_and_counted(
    returned: Any, says: str, caplog: pytest.LogCaptureFixture
) -> None:
    policy = Guard(lambda contexts: returned, dimension=2, budget=2, seed=1, reward_range=(0, 1))
    rows = np.array([[0.1, 0.1], [0.5, 0.1], [0.3, 0.2], [0.9, 0.3]])
    for _ in range(40):
        decision = policy.ask(rows)
        policy.tell(decision, decision.contexts[:, 0])
    assert decision.arms.tolist() == [1, 3]
    assert policy.proposer_failures == 40
    assert says in caplog.records[0].getMessage()


def test_a_function_without_an_argument_is_refused_at_once() -> None:
    with pytest.raises(TypeError, match="proposer must take the contexts of the candidates as its argument, got"):
        Guard(lambda: [0], dimension=2, budget=1)


def test_a_policy_is_no_function() -> None:
    with pytest.raises(TypeError, match="proposer must be a function"):
        Guard(C2UCB(3, 2, 1), dimension=2, budget=1)
    with pytest.raises(TypeError, match="graph must be"):
        Guard(lambda number: [0])


def test_options_of_a_guard_without_contexts_are_refused_beside_dimension() -> None:
    with pytest.raises(TypeError, match="ContextualGuard takes no mode, got 'shadow'"):
        Guard(lambda contexts: [0], dimension=2, budget=1, mode="shadow")


def test_arguments_may_be_named_or_not() -> None:
    def first(contexts: np.ndarray) -> list[int]:
        return [0]

    for policy in (Guard(first, 3, 1, dimension=2), Guard(proposer=first, graph=3, budget=1, dimension=2)):
        assert type(policy) is ContextualGuard
        assert (policy.n_arms, policy.budget, policy.dimension) == (3, 1, 2)
