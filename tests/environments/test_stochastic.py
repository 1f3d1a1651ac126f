"""Arms with constant means pay what their law says, and regret is exact."""

from __future__ import annotations

from fractions import Fraction
from itertools import combinations
from typing import Any

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st
from scipy.stats import beta as beta_law
from scipy.stats import kstest

from armtriage import FeedbackGraph, StochasticEnvironment

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


PROBLEMS = st.lists(st.integers(0, 1000), min_size=1, max_size=7).flatmap(
    lambda means: st.tuples(st.just(means), st.integers(1, len(means)))
)


@given(PROBLEMS)
def test_regret_is_the_gap_to_the_best_decision_of_its_size(problem: tuple[list[int], int]) -> None:
    means, size = np.array(problem[0]) / 1000, problem[1]
    env = environment(means)
    exact = {arms: sum(Fraction(means[a]) for a in arms) for arms in combinations(range(means.size), size)}
    best = max(exact.values())
    wrong = {arms: env.regret(arms) for arms in exact if abs(env.regret(arms) - float(best - exact[arms])) > 1e-14}
    assert wrong == {}


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


BAD_ENVIRONMENTS: list[tuple[dict[str, Any], type[Exception], str]] = [
    ({"graph": None}, TypeError, "graph must be a FeedbackGraph or a number of arms, got NoneType"),
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
