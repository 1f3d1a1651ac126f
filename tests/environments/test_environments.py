"""Environments pay what their law says, and regret is exact."""

from __future__ import annotations

import warnings
from fractions import Fraction
from itertools import combinations
from typing import Any

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st
from scipy.stats import beta as beta_law
from scipy.stats import kstest

from armtriage import (
    CombinatorialElimination,
    CombUCB1,
    Environment,
    FeedbackGraph,
    Greedy,
    ReplayEnvironment,
    StochasticEnvironment,
    ThompsonSampling,
    simulate,
)

LAWS = ("bernoulli", "deterministic", "uniform", "beta")
MEANS = (0.02, 0.3, 0.5, 0.85)
FOUR = FeedbackGraph.semi_bandit(4)
# Samples of 10**5 must agree to six standard errors: with other seeds a right law would fail with probability 2e-9,
# and a mean that is wrong by 0.02, or a variance that is wrong by a tenth, would be noticed.
ROUNDS, ARMS, ERRORS = 2000, 50, 6.0


def environment(means: Any, reward: str = "bernoulli", **more: Any) -> StochasticEnvironment:
    return StochasticEnvironment(means, FeedbackGraph.semi_bandit(len(means)), reward, **{"seed": 5, **more})


def sample(mean: float, law: str, **more: Any) -> np.ndarray:
    env = environment(np.full(ARMS, mean), law, **more)
    return np.array([env.rewards(t, np.arange(ARMS)) for t in range(ROUNDS)]).ravel()


def variance(mean: float, law: str, concentration: float = 4.0) -> float:
    return {
        "bernoulli": mean * (1 - mean),
        "deterministic": 0.0,
        "uniform": min(mean, 1 - mean) ** 2 / 3,
        "beta": mean * (1 - mean) / (concentration + 1),
    }[law]


# --- Laws ---
@pytest.mark.parametrize("mean", MEANS)
@pytest.mark.parametrize("law", LAWS)
def test_average_reward_is_the_mean(law: str, mean: float) -> None:
    error = ERRORS * np.sqrt(variance(mean, law) / (ROUNDS * ARMS))
    assert abs(sample(mean, law).mean() - mean) <= error + 1e-12


@pytest.mark.parametrize("mean", MEANS)
@pytest.mark.parametrize("law", LAWS)
def test_spread_of_rewards_is_that_of_the_law(law: str, mean: float) -> None:
    squares = (sample(mean, law) - mean) ** 2
    error = ERRORS * squares.std() / np.sqrt(squares.size)
    assert abs(squares.mean() - variance(mean, law)) <= error + 1e-12


@pytest.mark.parametrize("concentration", [0.5, 30.0])
def test_concentration_sets_the_spread_of_beta_rewards(concentration: float) -> None:
    squares = (sample(0.3, "beta", concentration=concentration) - 0.3) ** 2
    error = ERRORS * squares.std() / np.sqrt(squares.size)
    assert abs(squares.mean() - variance(0.3, "beta", concentration)) <= error


@pytest.mark.parametrize("mean", MEANS)
def test_beta_rewards_have_the_beta_distribution(mean: float) -> None:
    assert kstest(sample(mean, "beta"), beta_law(4 * mean, 4 * (1 - mean)).cdf).pvalue > 1e-6


@pytest.mark.parametrize("mean", MEANS)
def test_uniform_rewards_fill_the_widest_interval_around_the_mean(mean: float) -> None:
    half = min(mean, 1 - mean)
    values = sample(mean, "uniform")
    # Each of 10**5 numbers is this near to an end with probability 2e-4: all miss it with probability exp(-20).
    assert [values.min(), values.max()] == pytest.approx([mean - half, mean + half], abs=4e-4 * half)


@pytest.mark.parametrize("mean", MEANS)
@pytest.mark.parametrize("law", LAWS)
def test_rewards_lie_in_the_unit_interval(law: str, mean: float) -> None:
    values = sample(mean, law)
    assert values.min() >= 0
    assert values.max() <= 1


@pytest.mark.parametrize("mean", MEANS)
def test_bernoulli_rewards_are_zero_or_one(mean: float) -> None:
    assert set(sample(mean, "bernoulli").tolist()) == {0.0, 1.0}


@pytest.mark.parametrize("mean", [0.0, 1.0])
@pytest.mark.parametrize("law", LAWS)
def test_means_of_zero_and_one_always_pay_that(law: str, mean: float) -> None:
    assert set(sample(mean, law).tolist()) == {mean}


def test_deterministic_rewards_are_the_means() -> None:
    assert environment([0.1, 0.7], "deterministic").rewards(9, [1, 0]).tolist() == [0.7, 0.1]


# --- Shared luck ---
@pytest.mark.parametrize("law", ["bernoulli", "uniform", "beta"])
def test_arms_of_a_noise_group_pay_the_same_for_the_same_mean(law: str) -> None:
    env = environment([0.4] * 6, law, noise_groups=[0, 0, 1, 1, 1, 2])
    rows = np.array([env.rewards(t, np.arange(6)) for t in range(200)])
    assert np.array_equal(rows, rows[:, [0, 0, 2, 2, 2, 5]])


def test_better_arm_of_a_noise_group_never_pays_less() -> None:
    env = environment([0.2, 0.6], noise_groups=[0, 0])
    rows = np.array([env.rewards(t, [0, 1]) for t in range(500)])
    assert np.all(rows[:, 0] <= rows[:, 1])


def test_noise_groups_have_luck_of_their_own() -> None:
    env = environment([0.5] * 2, "uniform", noise_groups=[0, 1])
    rows = np.array([env.rewards(t, [0, 1]) for t in range(2000)])
    assert abs(np.corrcoef(rows.T)[0, 1]) < 4.9 / np.sqrt(2000)


@pytest.mark.parametrize("labels", [[0, 0, 1, 1], [7, 7, 9, 9], [-3, -3, 50, 50], [5, 5, 3, 3]], ids=str)
def test_labels_of_noise_groups_do_not_matter(labels: list[int]) -> None:
    env, other = (environment([0.5] * 4, "uniform", noise_groups=groups) for groups in ([1, 1, 2, 2], labels))
    assert env.rewards(3, np.arange(4)).tolist() == other.rewards(3, np.arange(4)).tolist()


def test_groups_of_one_arm_each_are_no_groups() -> None:
    env, other = environment([0.5] * 4, "uniform"), environment([0.5] * 4, "uniform", noise_groups=[0, 1, 2, 3])
    assert env.rewards(3, np.arange(4)).tolist() == other.rewards(3, np.arange(4)).tolist()


# --- Regret ---
PROBLEMS = st.lists(st.integers(0, 1000), min_size=1, max_size=7).flatmap(
    lambda means: st.tuples(st.just(means), st.integers(1, len(means)))
)


@settings(max_examples=60, deadline=None, derandomize=True, database=None)
@given(PROBLEMS)
def test_regret_is_the_gap_to_the_best_decision_of_its_size(problem: tuple[list[int], int]) -> None:
    means, size = np.array(problem[0]) / 1000, problem[1]
    env = environment(means)
    exact = {arms: sum(Fraction(means[a]) for a in arms) for arms in combinations(range(means.size), size)}
    best = max(exact.values())
    wrong = {arms: env.regret(arms) for arms in exact if abs(env.regret(arms) - float(best - exact[arms])) > 1e-14}
    assert wrong == {}


@settings(max_examples=60, deadline=None, derandomize=True, database=None)
@given(st.lists(st.sampled_from([0.1, 0.3, 1 / 3, 0.7]), min_size=2, max_size=7), st.integers(1, 4))
def test_regret_of_every_best_decision_is_exactly_zero(means: list[float], size: int) -> None:
    size = min(size, len(means))
    env = environment(means)
    best = sorted(means)[-size:]
    ties = [arms for arms in combinations(range(len(means)), size) if sorted(means[a] for a in arms) == best]
    assert {env.regret(arms) for arms in ties} == {0.0}


def test_regret_of_other_decisions_is_positive() -> None:
    env = environment([0.7, 0.3, 0.3, 0.3 - 1e-12])
    assert env.regret([0, 3]) > 0


def test_regret_does_not_depend_on_the_order_of_the_arms() -> None:
    means = np.random.default_rng(1).random(50)
    env, arms = environment(means), np.arange(0, 50, 3)
    assert len({env.regret(np.random.default_rng(i).permutation(arms)) for i in range(20)}) == 1


def test_regret_of_no_arms_is_zero() -> None:
    assert environment([0.1, 0.2]).regret([]) == 0.0


def test_regret_of_a_million_best_arms_is_exactly_zero() -> None:
    means = np.random.default_rng(1).random(10**6)
    env = environment(means)
    assert env.regret(np.argsort(-means)[: 10**6 // 2]) == 0.0


# --- Bad input ---
BAD_ENVIRONMENTS: list[tuple[dict[str, Any], type[Exception], str]] = [
    ({"graph": None}, TypeError, "graph must be a FeedbackGraph, got NoneType"),
    ({"means": [0.5] * 3}, ValueError, r"means must have shape \(4,\) like the graph, got \(3,\)"),
    ({"means": [[0.5] * 4]}, ValueError, r"got \(1, 4\)"),
    ({"means": [0.5, 1.1, 0.5, 0.5]}, ValueError, "means must lie in .* got 1.1 for arm 1"),
    ({"means": [0.5, 0.5, -0.1, 0.5]}, ValueError, "means must lie in .* got -0.1 for arm 2"),
    ({"means": [np.nan, 0.5, 0.5, 0.5]}, ValueError, "means must lie in .* got nan for arm 0"),
    ({"reward": "normal"}, ValueError, "reward must be one of .* got 'normal'"),
    ({"concentration": 0.0}, ValueError, "concentration must be a positive number, got 0.0"),
    ({"concentration": np.inf}, ValueError, "concentration must be a positive number, got inf"),
    ({"concentration": "4"}, TypeError, "concentration must be a positive number, got '4'"),
    ({"noise_groups": [0, 1]}, ValueError, r"noise_groups must have shape \(4,\).* got \(2,\)"),
    ({"noise_groups": [0.5] * 4}, TypeError, "noise_groups must hold whole numbers, got float64"),
    ({"seed": -1}, ValueError, "seed must be a whole number from 0 or None, got -1"),
]


@pytest.mark.parametrize(("change", "error", "message"), BAD_ENVIRONMENTS, ids=lambda value: str(value)[:40])
def test_bad_environment_is_refused(change: dict[str, Any], error: type[Exception], message: str) -> None:
    with pytest.raises(error, match=message):
        StochasticEnvironment(**{"means": [0.5] * 4, "graph": FOUR, **change})


BAD_CALLS: list[tuple[str, tuple[Any, ...], type[Exception], str]] = [
    ("rewards", (-1, [0]), ValueError, "round must be a whole number from 0, got -1"),
    ("rewards", (0.0, [0]), TypeError, "round must be a whole number from 0, got 0.0"),
    ("rewards", (0, [4]), ValueError, r"arms must lie in 0..3, got \[4\]"),
    ("rewards", (0, [-1]), ValueError, r"arms must lie in 0..3, got \[-1\]"),
    ("rewards", (0, [0.5]), TypeError, r"arms must be a list of whole numbers, got \[0.5\]"),
    ("rewards", (0, [[0]]), TypeError, r"arms must be a list of whole numbers, got \[\[0\]\]"),
    ("rewards", (0, [0], -1), ValueError, "replication must be a whole number from 0, got -1"),
    ("regret", ([0, 0],), ValueError, r"arms must name each arm once, got \[0, 0\]"),
    ("regret", ([0, 4],), ValueError, r"arms must lie in 0..3, got \[0, 4\]"),
]


@pytest.mark.parametrize(("method", "arguments", "error", "message"), BAD_CALLS, ids=lambda value: str(value)[:30])
def test_bad_call_is_refused(method: str, arguments: Any, error: type[Exception], message: str) -> None:
    with pytest.raises(error, match=message):
        getattr(environment([0.5] * 4), method)(*arguments)


def test_means_are_copied() -> None:
    means = np.full(4, 0.5)
    env = environment(means)
    means[0] = 0.9
    assert env.means[0] == 0.5


def test_seed_that_was_not_given_is_drawn_anew() -> None:
    assert environment([0.5], seed=None).seed != environment([0.5], seed=None).seed


def test_repr_shows_arms_law_and_seed() -> None:
    assert repr(environment([0.5] * 2, "beta")) == "StochasticEnvironment(2 arms, reward='beta', seed=5)"


@pytest.mark.parametrize("env", [environment([0.5]), ReplayEnvironment([[0.5]], FeedbackGraph.semi_bandit(1))], ids=str)
def test_environments_follow_the_protocol(env: Any) -> None:
    assert isinstance(env, Environment)


# --- Replay ---
OUTCOMES = np.random.default_rng(8).integers(0, 5, (300, 6)) / 4
SIX = FeedbackGraph.cliques([2, 1, 3])


def test_replay_pays_what_was_recorded() -> None:
    assert ReplayEnvironment(OUTCOMES, SIX).rewards(7, [4, 0]).tolist() == OUTCOMES[7, [4, 0]].tolist()


def test_replay_pays_the_same_in_every_replication() -> None:
    env = ReplayEnvironment(OUTCOMES, SIX)
    assert env.rewards(7, [4, 0], 9).tolist() == env.rewards(7, [4, 0]).tolist()


@pytest.mark.parametrize("size", [1, 2, 6])
def test_replay_regret_is_the_mean_loss_against_the_best_fixed_decision(size: int) -> None:
    env, sums = ReplayEnvironment(OUTCOMES, SIX), OUTCOMES.sum(axis=0)
    totals = {arms: sums[list(arms)].sum() for arms in combinations(range(6), size)}
    expected = {arms: (max(totals.values()) - total) / 300 for arms, total in totals.items()}
    assert {arms: env.regret(arms) for arms in expected} == pytest.approx(expected, abs=1e-12)


@pytest.mark.parametrize("horizon", [1, 50, 300])
@pytest.mark.parametrize("kind", [CombUCB1, ThompsonSampling, CombinatorialElimination])
def test_replay_regret_of_a_run_is_that_against_hindsight(kind: Any, horizon: int) -> None:
    policy = kind(SIX, budget=2, seed=1)
    trace = simulate(policy, ReplayEnvironment(OUTCOMES, SIX), horizon=horizon, record_decisions=True)
    played = OUTCOMES[:horizon]
    best = max(played[:, list(arms)].sum() for arms in combinations(range(6), 2))
    own = np.take_along_axis(played, trace.decisions[0].astype(np.int64), axis=1).sum()
    assert trace.regret[0, -1] == pytest.approx(best - own, abs=1e-9)


def test_replay_regret_at_a_checkpoint_is_against_the_best_of_the_whole_horizon() -> None:
    policy = CombUCB1(SIX, budget=2, seed=1)
    env = ReplayEnvironment(OUTCOMES, SIX)
    trace = simulate(policy, env, horizon=200, checkpoints=[50, 200], record_decisions=True)
    best = max(combinations(range(6), 2), key=lambda arms: OUTCOMES[:200, list(arms)].sum())
    own = np.take_along_axis(OUTCOMES[:50], trace.decisions[0, :50].astype(np.int64), axis=1).sum()
    assert trace.regret[0, 0] == pytest.approx(OUTCOMES[:50, list(best)].sum() - own, abs=1e-9)


def test_replay_of_what_a_stochastic_environment_pays_gives_the_same_decisions() -> None:
    env = StochasticEnvironment(np.linspace(0.1, 0.9, 6), SIX, seed=2)
    replay = ReplayEnvironment([env.rewards(t, np.arange(6)) for t in range(400)], SIX)
    policy = CombinatorialElimination(SIX, budget=2, seed=1)
    traces = [simulate(policy, one, horizon=400, record_decisions=True) for one in (env, replay)]
    assert np.array_equal(traces[0].decisions, traces[1].decisions)


def test_horizon_beyond_the_recorded_rounds_is_refused() -> None:
    with pytest.raises(ValueError, match="horizon must be at most the 300 recorded rounds, got 301"):
        simulate(CombUCB1(SIX, budget=2), ReplayEnvironment(OUTCOMES, SIX), horizon=301)


BAD_REPLAYS: list[tuple[Any, type[Exception], str]] = [
    (OUTCOMES[:, :5], ValueError, r"outcomes must have shape \(rounds, 6\) with a round or more, got \(300, 5\)"),
    (OUTCOMES[:0], ValueError, r"got \(0, 6\)"),
    (OUTCOMES[0], ValueError, r"got \(6,\)"),
    (OUTCOMES * 2, ValueError, r"outcomes must lie in \[0, 1\], got .* in round 0 for arm"),
    (OUTCOMES * np.nan, ValueError, r"outcomes must lie in \[0, 1\], got nan in round 0 for arm 0"),
]


@pytest.mark.parametrize(("outcomes", "error", "message"), BAD_REPLAYS, ids=range(len(BAD_REPLAYS)))
def test_bad_outcomes_are_refused(outcomes: Any, error: type[Exception], message: str) -> None:
    with pytest.raises(error, match=message):
        ReplayEnvironment(outcomes, SIX)


@pytest.mark.parametrize("round_", [300, -1])
def test_round_that_was_not_recorded_is_refused(round_: int) -> None:
    with pytest.raises(ValueError, match=f"round must .*got {round_}"):
        ReplayEnvironment(OUTCOMES, SIX).rewards(round_, [0])


def test_outcomes_of_a_replay_are_its_own() -> None:
    outcomes = OUTCOMES.copy()
    env = ReplayEnvironment(outcomes, SIX)
    outcomes[7, 4] = 1.0 - outcomes[7, 4] / 2
    assert env.rewards(7, [4])[0] == OUTCOMES[7, 4]


# --- Anybody's environment ---
def own_class() -> type:
    """A new class each time, since a kind of environment is warned of once."""

    class Own:
        def __init__(self, inner: StochasticEnvironment) -> None:
            self.inner, self.n_arms, self.graph = inner, inner.n_arms, inner.graph

        def rewards(self, round: int, arms: np.ndarray, replication: int = 0) -> np.ndarray:
            return self.inner.rewards(round, arms, replication)

        def regret(self, arms: np.ndarray) -> float:
            return self.inner.regret(arms)

    return Own


def inner_environment() -> StochasticEnvironment:
    return StochasticEnvironment(np.linspace(0.1, 0.9, 6), SIX, seed=2)


@pytest.mark.parametrize("kind", [CombUCB1, ThompsonSampling, CombinatorialElimination, Greedy])
@pytest.mark.parametrize("fact", ["regret", "decisions"])
def test_own_environment_gives_what_the_compiled_path_gives(fact: str, kind: Any) -> None:
    inner, policy = inner_environment(), kind(SIX, budget=2, seed=3)
    arguments: dict[str, Any] = {"horizon": 150, "replications": 2, "record_decisions": True}
    with pytest.warns(UserWarning, match="Own is not compiled"):
        slow = simulate(policy, own_class()(inner), **arguments)
    assert getattr(slow, fact) == pytest.approx(getattr(simulate(policy, inner, **arguments), fact), abs=1e-9)


def test_own_environment_logs_the_triage_of_the_compiled_path() -> None:
    inner, policy = inner_environment(), CombinatorialElimination(SIX, budget=2, seed=3)
    with pytest.warns(UserWarning, match="Own is not compiled"):
        slow = simulate(policy, own_class()(inner), horizon=400)
    fast = simulate(policy, inner, horizon=400)
    assert [part.tolist() for part in slow.triage[0]] == [part.tolist() for part in fast.triage[0]]


def test_own_environment_is_warned_of_once() -> None:
    env, policy = own_class()(inner_environment()), CombUCB1(SIX, budget=2)
    with warnings.catch_warnings(record=True) as caught:
        warnings.simplefilter("always")
        for _ in range(3):
            simulate(policy, env, horizon=5, replications=2)
    assert len(caught) == 1


def test_warning_points_at_the_line_that_called_simulate() -> None:
    with warnings.catch_warnings(record=True) as caught:
        warnings.simplefilter("always")
        simulate(CombUCB1(SIX, budget=2), own_class()(inner_environment()), horizon=5)
    assert caught[0].filename == __file__
