"""The linear environment's contexts and rewards follow their laws, are pure, and its regret is exact."""

from __future__ import annotations

from collections.abc import Callable
from fractions import Fraction
from itertools import combinations
from typing import Any

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st
from scipy.stats import beta as beta_law
from scipy.stats import kstest

from armtriage import FeedbackGraph, LinearEnvironment
from environments.linear_worlds import KINDS, RECORD, THETA, environment, recorded

# Averages must agree to six standard errors, and laws with a p-value of 1e-6: with other seeds a right law would fail
# a test with probability 1e-6 at most. With 10**5 vectors, moments that are wrong by 0.02 would be noticed.
ERRORS, ALARM = 6.0, 1e-6


def line(means: Any, reward: str = "binary", **more: Any) -> LinearEnvironment:
    """One coordinate and fixed contexts: arms of these means."""
    return LinearEnvironment([1.0], np.array(means)[:, np.newaxis], None, reward, **{"seed": 5, **more})


def vectors(kind: str, dimension: int) -> np.ndarray:
    """A hundred thousand contexts: rounds by arms by coordinates."""
    env = environment(kind, np.zeros(dimension), 50)
    return np.array([env.contexts(t) for t in range(2000)])


def near(values: np.ndarray, mean: float) -> bool:
    """Whether averages over all but the last axis agree with the mean."""
    flat = values.reshape(-1, values.shape[-1])
    return bool(np.all(np.abs(flat.mean(axis=0) - mean) <= ERRORS * flat.std(axis=0) / np.sqrt(flat.shape[0])))


@pytest.mark.parametrize("dimension", [1, 2, 3, 5, 8])
def test_contexts_on_the_sphere_have_norm_one(dimension: int) -> None:
    assert np.allclose(np.linalg.norm(vectors("sphere", dimension), axis=-1), 1.0, rtol=1e-15, atol=0.0)


@pytest.mark.parametrize("dimension", [2, 3, 5, 8])
def test_contexts_on_the_sphere_have_its_moments(dimension: int) -> None:
    x = vectors("sphere", dimension)
    left, right = np.triu_indices(dimension, 1)
    moments = [
        near(x, 0.0),
        near(x**2, 1 / dimension),
        near(x**4, 3 / (dimension * (dimension + 2))),
        near(x[..., left] * x[..., right], 0.0),
        near(x[..., left] ** 2 * x[..., right] ** 2, 1 / (dimension * (dimension + 2))),
    ]
    assert moments == [True] * 5


@pytest.mark.parametrize("dimension", [2, 3, 5, 8])
def test_coordinates_on_the_sphere_have_their_beta_law(dimension: int) -> None:
    half = (dimension - 1) / 2
    law = beta_law(half, half, loc=-1, scale=2)
    assert min(kstest(vectors("sphere", dimension)[..., j].ravel(), law.cdf).pvalue for j in (0, -1)) > ALARM


def test_angles_on_the_circle_are_uniform() -> None:
    x = vectors("sphere", 2)
    assert kstest((np.arctan2(x[..., 1], x[..., 0]) / (2 * np.pi) + 0.5).ravel(), "uniform").pvalue > ALARM


def test_contexts_of_one_coordinate_are_plus_or_minus_one() -> None:
    x = vectors("sphere", 1)
    assert set(x.ravel().tolist()) == {-1.0, 1.0}
    assert near(x, 0.0)


@pytest.mark.parametrize("dimension", [1, 2, 5])
def test_coordinates_in_the_cube_are_uniform(dimension: int) -> None:
    x = vectors("cube", dimension) * np.sqrt(dimension)
    assert min(kstest((x[..., j].ravel() + 1) / 2, "uniform").pvalue for j in range(dimension)) > ALARM


def test_coordinates_in_the_cube_are_uncorrelated() -> None:
    x = vectors("cube", 5)
    left, right = np.triu_indices(5, 1)
    assert near(x[..., left] * x[..., right], 0.0)


@pytest.mark.parametrize("dimension", [1, 2, 5])
def test_contexts_in_the_cube_have_norms_of_at_most_one(dimension: int) -> None:
    assert np.linalg.norm(vectors("cube", dimension), axis=-1).max() <= 1.0


@pytest.mark.parametrize("kind", ["sphere", "cube"])
@pytest.mark.parametrize("axis", [0, 1])
def test_contexts_of_neighbouring_rounds_and_arms_are_uncorrelated(axis: int, kind: str) -> None:
    x = np.moveaxis(vectors(kind, 5), axis, 0)
    assert near((x[1:] * x[:-1]).sum(axis=-1, keepdims=True), 0.0)


MEANS = np.array([-0.98, -0.4, 0.0, 0.3, 0.85])


def rewards_of(env: LinearEnvironment, rounds: int = 20_000) -> np.ndarray:
    arms = np.arange(env.n_arms)
    return np.array([env.rewards(t, arms) for t in range(rounds)])


def test_binary_rewards_are_plus_or_minus_one() -> None:
    assert set(rewards_of(line(MEANS), 2000).ravel().tolist()) == {-1.0, 1.0}


@pytest.mark.parametrize("noise", ["independent", "shared"])
def test_binary_rewards_have_the_means(noise: str) -> None:
    values = rewards_of(line(MEANS, noise=noise))
    error = ERRORS * np.sqrt((1 - MEANS**2) / values.shape[0])
    assert np.all(np.abs(values.mean(axis=0) - MEANS) <= error)


def test_uniform_rewards_are_uniform_around_the_means() -> None:
    env = LinearEnvironment([0.5], 2 * MEANS[:, np.newaxis], None, "uniform", half_width=0.3, context_bound=2.0, seed=5)
    values = (rewards_of(env, 5000) - 0.5 * MEANS) / 0.6 + 0.5
    assert min(kstest(column, "uniform").pvalue for column in values.T) > ALARM


def test_deterministic_rewards_are_the_means() -> None:
    assert line(MEANS, "deterministic").rewards(9, [4, 0]).tolist() == [0.85, -0.98]


@pytest.mark.parametrize("reward", ["binary", "uniform", "deterministic"])
@pytest.mark.parametrize("kind", ["sphere", "cube"])
def test_rewards_lie_between_minus_one_and_one(kind: str, reward: str) -> None:
    env = LinearEnvironment([0.6, 0.799], kind, 50, reward, seed=5)
    assert np.abs(rewards_of(env, 500)).max() <= 1.0


@pytest.mark.parametrize("noise", ["independent", "shared"])
def test_means_of_plus_and_minus_one_always_pay_that(noise: str) -> None:
    values = rewards_of(line([-1.0, 1.0], noise=noise), 2000)
    assert np.array_equal(values, np.tile([-1.0, 1.0], (2000, 1)))


def test_theta_within_the_tolerance_pays_no_more_than_one() -> None:
    env = LinearEnvironment([1.0 + 9e-10], [[1.0], [-1.0]], None, "deterministic")
    assert env.rewards(0, [0, 1]).tolist() == [1.0, -1.0]


def test_arms_with_shared_noise_pay_the_same_for_the_same_mean() -> None:
    values = rewards_of(line([0.2] * 4, noise="shared"), 500)
    assert np.array_equal(values, values[:, [0, 0, 0, 0]])


def test_better_arm_never_pays_less_with_shared_noise() -> None:
    values = rewards_of(line(MEANS, noise="shared"), 500)
    assert np.all(np.diff(values, axis=1) >= 0)


def test_arms_with_independent_noise_are_uncorrelated() -> None:
    values = rewards_of(line([0.0] * 4))
    left, right = np.triu_indices(4, 1)
    assert near(values[:, left] * values[:, right], 0.0)


def test_rewards_are_not_correlated_with_generated_contexts() -> None:
    env = environment(theta=np.zeros(3), n_arms=50)
    x = np.array([env.contexts(t) for t in range(2000)])
    assert near(x * rewards_of(env, 2000)[..., np.newaxis], 0.0)


@pytest.mark.parametrize(
    ("reward", "half_width", "expected"),
    [("binary", None, 1.0), ("uniform", 0.3, 0.3 / np.sqrt(3)), ("deterministic", None, 0.0)],
)
def test_noise_scale(reward: str, half_width: float | None, expected: float) -> None:
    assert environment(reward=reward, half_width=half_width).noise_scale == pytest.approx(expected, rel=1e-15)


def test_default_half_width_is_what_the_norm_of_theta_leaves() -> None:
    assert environment(theta=[0.3, 0.4], reward="uniform").half_width == 0.5


@pytest.mark.parametrize("kind", KINDS)
def test_order_of_asking_does_not_matter(kind: str) -> None:
    env, again = environment(KINDS[kind]), environment(KINDS[kind])
    places = [(t, r) for t in (20, 3, 0) for r in (2, 0)]
    backwards = {place: (env.rewards(place[0], range(6), place[1]), env.contexts(*place)) for place in places}
    wrong = []
    for t, r in reversed(places):
        contexts, rewards = again.contexts(t, r), again.rewards(t, range(6), r)
        if not (np.array_equal(rewards, backwards[t, r][0]) and np.array_equal(contexts, backwards[t, r][1])):
            wrong.append((t, r))
    assert wrong == []


@pytest.mark.parametrize("kind", KINDS)
def test_order_and_batching_of_the_arms_do_not_matter(kind: str) -> None:
    env, order = environment(KINDS[kind], reward="uniform"), np.random.default_rng(1).permutation(6)
    single = [env.rewards(4, [arm])[0] for arm in order]
    assert env.rewards(4, np.arange(6))[order].tolist() == single


def test_arm_that_is_asked_twice_pays_the_same_twice() -> None:
    first, second = environment(reward="uniform").rewards(0, [3, 3])
    assert first == second


@pytest.mark.parametrize("kind", ["sphere", "cube"])
def test_number_of_arms_does_not_change_the_context_of_an_arm(kind: str) -> None:
    assert np.array_equal(environment(kind, n_arms=500).contexts(3)[:6], environment(kind).contexts(3))


@pytest.mark.parametrize("change", [{"reward": "uniform"}, {"noise": "shared"}, {"theta": [0.0, 0.1, 0.2]}], ids=str)
def test_contexts_do_not_depend_on_rewards(change: dict[str, Any]) -> None:
    assert np.array_equal(environment(**change).contexts(3, 1), environment().contexts(3, 1))


@pytest.mark.parametrize("kind", ["sphere", "cube"])
def test_rounds_replications_and_seeds_have_contexts_of_their_own(kind: str) -> None:
    seen = [environment(kind, seed=s).contexts(t, r).tobytes() for s in (0, 1) for t in (0, 1) for r in (0, 1)]
    assert len(set(seen)) == 8


def test_rounds_replications_and_seeds_have_rewards_of_their_own() -> None:
    arms = np.arange(200)
    places = [(s, t, r) for s in (0, 1) for t in (0, 1) for r in (0, 1)]
    assert len({line([0.0] * 200, seed=s).rewards(t, arms, r).tobytes() for s, t, r in places}) == 8


def test_given_contexts_are_the_same_in_every_replication() -> None:
    env = environment(RECORD)
    assert np.array_equal(env.contexts(7, 3), RECORD[7])


def test_fixed_contexts_are_the_same_in_every_round() -> None:
    env = environment(RECORD[0])
    assert np.array_equal(env.contexts(10**12, 3), RECORD[0])


def test_function_is_given_round_and_replication() -> None:
    asked = []

    def contexts(round: int, replication: int) -> list[list[float]]:
        asked.append((round, replication))
        return [[0.5]]

    LinearEnvironment([1.0], contexts, 1).rewards(4, [0], 2)
    assert asked == [(4, 2)]


def test_given_contexts_are_divided_by_their_bound() -> None:
    env = environment(8 * RECORD, context_bound=8.0)
    assert np.array_equal(env.contexts(3), RECORD[3])


def test_contexts_of_a_function_are_divided_by_their_bound() -> None:
    env = environment(lambda t, r: 8 * RECORD[t], context_bound=8.0)
    assert np.array_equal(env.contexts(3), RECORD[3])


@pytest.mark.parametrize("kind", KINDS)
def test_contexts_are_a_copy(kind: str) -> None:
    env = environment(KINDS[kind])
    before = env.contexts(0)
    env.contexts(0)[:] = 7.0
    env.means(0)[:] = 7.0
    assert np.array_equal(env.contexts(0), before)
    assert np.abs(env.means(0)).max() <= 1.0


@pytest.mark.parametrize("kind", KINDS)
def test_contexts_are_contiguous_floats(kind: str) -> None:
    x = environment(KINDS[kind]).contexts(0)
    assert (x.flags.c_contiguous, x.dtype, x.shape) == (True, np.float64, (6, 3))


@pytest.mark.parametrize("order", ["C", "F"])
def test_given_arrays_are_copied(order: Any) -> None:
    contexts, theta = np.array(RECORD, order=order), np.array(THETA)
    env = environment(contexts, theta)
    contexts[:] = 0.0
    theta[:] = 0.0
    assert np.array_equal(env.contexts(2), RECORD[2])
    assert env.theta.tolist() == list(THETA)


@pytest.mark.parametrize("kind", KINDS)
def test_means_are_inner_products_with_theta(kind: str) -> None:
    env = environment(KINDS[kind])
    assert np.allclose(env.means(3, 1), env.contexts(3, 1) @ THETA, rtol=0.0, atol=1e-15)


@pytest.mark.parametrize("dimension", range(1, 14))
def test_means_are_right_in_every_dimension(dimension: int) -> None:
    theta = np.random.default_rng(dimension).uniform(-1, 1, dimension) / dimension
    env = environment(theta=theta)
    assert np.allclose(env.means(0), env.contexts(0) @ theta, rtol=0.0, atol=1e-15)


PROBLEMS = st.lists(st.integers(-1000, 1000), min_size=1, max_size=7).flatmap(
    lambda means: st.tuples(st.just(means), st.integers(1, len(means)))
)


@given(PROBLEMS)
def test_regret_is_the_gap_to_the_best_decision_of_its_size(problem: tuple[list[int], int]) -> None:
    means, size = np.array(problem[0]) / 1000, problem[1]
    env = line(means)
    exact = {arms: sum(Fraction(means[a]) for a in arms) for arms in combinations(range(means.size), size)}
    best = max(exact.values())
    wrong = {
        arms: env.regret(0, arms) for arms in exact if abs(env.regret(0, arms) - float(best - exact[arms])) > 4e-15
    }
    assert wrong == {}


@given(st.lists(st.sampled_from([-0.7, -0.1, 0.3, 1 / 3, 0.7]), min_size=2, max_size=7), st.integers(1, 4))
def test_regret_of_every_best_decision_is_exactly_zero(means: list[float], size: int) -> None:
    size = min(size, len(means))
    env = line(means)
    best = sorted(means)[-size:]
    ties = [arms for arms in combinations(range(len(means)), size) if sorted(means[a] for a in arms) == best]
    assert {env.regret(0, arms) for arms in ties} == {0.0}


@pytest.mark.parametrize("n_arms", [1, 2, 10, 1000])
@pytest.mark.parametrize("order", ["random", "rising", "falling", "equal", "two values", "hill"])
def test_selection_agrees_with_sorting(order: str, n_arms: int) -> None:
    ramp = np.linspace(-0.9, 0.9, n_arms)
    means = {
        "random": np.random.default_rng(1).permutation(ramp),
        "rising": ramp,
        "falling": ramp[::-1],
        "equal": np.full(n_arms, 0.3),
        "two values": np.where(np.arange(n_arms) % 3, 0.1, -0.1),
        "hill": -np.abs(ramp),
    }[order]
    env, wrong = line(means), []
    for size in {1, 2, n_arms // 2, n_arms - 1, n_arms} - {0}:
        if size > n_arms:
            continue
        for arms in (np.arange(size), np.arange(n_arms - size, n_arms)):
            expected = np.sort(means)[-size:].sum() - means[arms].sum()
            if abs(env.regret(0, arms) - expected) > 1e-11:
                wrong.append((size, arms[0]))
    assert wrong == []


def test_regret_of_other_decisions_is_positive() -> None:
    assert line([0.7, 0.3, 0.3, 0.3 - 1e-12]).regret(0, [0, 3]) > 0


@pytest.mark.parametrize("kind", KINDS)
def test_regret_is_that_of_the_round_and_replication(kind: str) -> None:
    env = environment(KINDS[kind])
    wrong = []
    for t, r in [(0, 0), (1, 0), (0, 1), (9, 4)]:
        means = env.means(t, r)
        if abs(env.regret(t, [1, 4], r) - (np.sort(means)[-2:].sum() - means[[1, 4]].sum())) > 1e-14:
            wrong.append((t, r))
    assert wrong == []


def test_regret_does_not_depend_on_the_order_of_the_arms() -> None:
    env, arms = environment(n_arms=50), np.arange(0, 50, 3)
    assert len({env.regret(2, np.random.default_rng(i).permutation(arms)) for i in range(20)}) == 1


def test_regret_of_all_arms_is_zero() -> None:
    assert environment().regret(3, range(6)) == 0.0


def test_regret_of_no_arms_is_zero() -> None:
    assert environment().regret(3, []) == 0.0


def test_regret_of_a_single_arm_is_zero() -> None:
    assert environment(n_arms=1).regret(3, [0]) == 0.0


def test_regret_of_a_million_best_arms_is_exactly_zero() -> None:
    rng = np.random.default_rng(1)
    env = LinearEnvironment([0.6, -0.5], rng.uniform(-0.7, 0.7, (10**6, 2)), seed=1)
    assert env.regret(0, np.argsort(-env.means(0))[: 10**6 // 2]) == 0.0


def test_million_arms_pay() -> None:
    env = LinearEnvironment([0.6, -0.5], np.zeros((10**6, 2)), seed=1)
    assert abs(env.rewards(0, np.arange(10**6)).mean()) < ERRORS / 10**3


@pytest.mark.parametrize(("kind", "rounds"), [(kind, 30 if kind == "given" else None) for kind in KINDS])
def test_number_of_rounds(kind: str, rounds: int | None) -> None:
    assert environment(KINDS[kind]).n_rounds == rounds


@pytest.mark.parametrize("kind", KINDS)
def test_arms_dimension_and_graph(kind: str) -> None:
    env = environment(KINDS[kind])
    assert (env.n_arms, env.dimension, env.graph) == (6, 3, FeedbackGraph.semi_bandit(6))


@pytest.mark.parametrize("kind", ["fixed", "given"])
def test_arrays_tell_the_number_of_arms(kind: str) -> None:
    assert LinearEnvironment(THETA, KINDS[kind]).n_arms == 6


@pytest.mark.parametrize("kind", KINDS)
def test_repr_shows_arms_dimension_kind_and_seed(kind: str) -> None:
    shown = f"LinearEnvironment(6 arms, dimension=3, contexts='{kind}', seed=5)"
    assert repr(environment(KINDS[kind])) == shown


def test_seed_that_was_not_given_is_drawn_anew() -> None:
    assert environment(seed=None).seed != environment(seed=None).seed


BAD_ENVIRONMENTS: list[tuple[dict[str, Any], type[Exception], str]] = [
    ({"theta": []}, ValueError, r"theta must have shape \(d,\) with a coordinate or more, got \(0,\)"),
    ({"theta": 0.5}, ValueError, r"got \(\)"),
    ({"theta": [[0.5]]}, ValueError, r"got \(1, 1\)"),
    ({"theta": [0.8, 0.8]}, ValueError, "theta must be finite with norm at most 1, got norm 1.13"),
    ({"theta": [np.nan]}, ValueError, "theta must be finite with norm at most 1, got norm nan"),
    ({"theta": [-np.inf]}, ValueError, "theta must be finite with norm at most 1, got norm inf"),
    ({"theta": [1e200, 1e200]}, ValueError, "theta must be finite with norm at most 1, got norm 1.4"),
    ({"theta": ["a"]}, TypeError, r"theta must be an array of numbers, got \['a'\]"),
    ({"theta": [0.5j]}, TypeError, "theta must be an array of numbers"),
    ({"theta": [[0.1], [0.1, 0.2]]}, ValueError, "theta must be an array of numbers, got rows of different lengths"),
    ({"theta": None}, TypeError, "theta must be an array of numbers, got None"),
    ({"contexts": "ball"}, ValueError, "contexts must be one of sphere, cube, got 'ball'"),
    ({"contexts": None}, TypeError, "contexts must be an array of numbers, got None"),
    ({"contexts": [0.1] * 3}, ValueError, r"contexts must have shape \(K, 3\) or \(rounds, K, 3\).* got \(3,\)"),
    ({"contexts": np.zeros((6, 2))}, ValueError, r"got \(6, 2\)"),
    ({"contexts": np.zeros((0, 3))}, ValueError, r"got \(0, 3\)"),
    ({"contexts": np.zeros((0, 6, 3))}, ValueError, r"got \(0, 6, 3\)"),
    ({"contexts": np.zeros((1, 1, 6, 3))}, ValueError, r"got \(1, 1, 6, 3\)"),
    ({"contexts": np.zeros((6, 3), complex)}, TypeError, "contexts must be an array of numbers"),
    ({"contexts": np.full((6, 3), 0.6)}, ValueError, r"norms at most context_bound = 1.0, got norm 1.039.* for arm 0$"),
    ({"contexts": np.full((6, 3), 0.6), "context_bound": 0.5}, ValueError, "context_bound = 0.5, got norm 1.039"),
    ({"contexts": np.full((6, 3), 1e300)}, ValueError, "got norm 1.7.*e.300 for arm 0"),
    ({"contexts": np.array([[0.1] * 3, [0.1, np.nan, 0.1]]), "n_arms": 2}, ValueError, "got norm nan for arm 1$"),
    ({"contexts": np.array([[0.1] * 3, [0.1, np.inf, 0.1]]), "n_arms": 2}, ValueError, "got norm inf for arm 1$"),
    ({"contexts": 4 * RECORD * (np.arange(30) == 9)[:, None, None]}, ValueError, r"got norm .* for arm \d in round 9$"),
    ({"contexts": RECORD, "n_arms": 5}, ValueError, "n_arms must be None or 6, as many as contexts has, got 5"),
    ({"n_arms": None}, ValueError, "n_arms must be a whole number from 1 unless contexts is an array, got None"),
    ({"contexts": recorded, "n_arms": None}, ValueError, "n_arms must be a whole number from 1 unless"),
    ({"n_arms": 0}, ValueError, "n_arms must be a whole number from 1, got 0"),
    ({"n_arms": 2.0}, TypeError, "n_arms must be a whole number from 1, got 2.0"),
    ({"contexts": RECORD, "n_arms": "6"}, TypeError, "n_arms must be a whole number from 1, got '6'"),
    ({"reward": "normal"}, ValueError, "reward must be one of binary, uniform, deterministic, bernoulli, got 'normal'"),
    ({"noise": "none"}, ValueError, "noise must be one of independent, shared, got 'none'"),
    ({"half_width": 0.1}, ValueError, "half_width is for reward='uniform' and must be None here, got 0.1"),
    ({"reward": "uniform", "half_width": 0.0}, ValueError, "half_width must be a positive number, got 0.0"),
    ({"reward": "uniform", "half_width": np.nan}, ValueError, "half_width must be a positive number, got nan"),
    ({"reward": "uniform", "half_width": "1"}, TypeError, "half_width must be a positive number, got '1'"),
    ({"reward": "uniform", "half_width": 0.5}, ValueError, "half_width must be at most 1 - the norm of theta = 0.38"),
    ({"reward": "uniform", "theta": [1.0]}, ValueError, "theta must have norm below 1 .* got norm 1.0"),
    ({"context_bound": 2.0}, ValueError, "context_bound is for given contexts and must be 1.0 here, got 2.0"),
    ({"contexts": RECORD, "context_bound": 0}, ValueError, "context_bound must be a positive number, got 0"),
    ({"contexts": RECORD, "context_bound": np.inf}, ValueError, "context_bound must be a positive number, got inf"),
    ({"contexts": RECORD, "context_bound": None}, TypeError, "context_bound must be a positive number, got None"),
    ({"seed": -1}, ValueError, "seed must be a whole number from 0 or None, got -1"),
]


@pytest.mark.parametrize(("change", "error", "message"), BAD_ENVIRONMENTS, ids=range(len(BAD_ENVIRONMENTS)))
def test_bad_environment_is_refused(change: dict[str, Any], error: type[Exception], message: str) -> None:
    with pytest.raises(error, match=message):
        environment(**change)


BAD_CALLS: list[tuple[str, tuple[Any, ...], type[Exception], str]] = [
    ("rewards", (0, [6]), ValueError, r"arms must lie in 0..5, got \[6\]"),
    ("rewards", (0, [-1]), ValueError, r"arms must lie in 0..5, got \[-1\]"),
    ("rewards", (0, [0.5]), TypeError, r"arms must be a list of whole numbers, got \[0.5\]"),
    ("regret", (0, [0, 0]), ValueError, r"arms must name each arm once, got \[0, 0\]"),
    ("regret", (0, [0, 6]), ValueError, r"arms must lie in 0..5, got \[0, 6\]"),
]
METHODS: dict[str, Callable[[LinearEnvironment, Any, Any], Any]] = {
    "contexts": lambda env, t, r: env.contexts(t, r),
    "means": lambda env, t, r: env.means(t, r),
    "rewards": lambda env, t, r: env.rewards(t, [0], r),
    "regret": lambda env, t, r: env.regret(t, [0], r),
}


@pytest.mark.parametrize(("method", "arguments", "error", "message"), BAD_CALLS, ids=range(len(BAD_CALLS)))
def test_bad_arms_are_refused(method: str, arguments: Any, error: type[Exception], message: str) -> None:
    with pytest.raises(error, match=message):
        getattr(environment(), method)(*arguments)


@pytest.mark.parametrize(
    ("round_", "replication", "message"),
    [
        (-1, 0, "round must be a whole number from 0, got -1"),
        (0.0, 0, "round must be a whole number from 0, got 0.0"),
        (30, 0, r"round must lie in 0..29, the rounds of contexts, got 30"),
        (0, -1, "replication must be a whole number from 0, got -1"),
        (0, None, "replication must be a whole number from 0, got None"),
    ],
)
@pytest.mark.parametrize("method", METHODS)
def test_bad_round_or_replication_is_refused(method: str, round_: Any, replication: Any, message: str) -> None:
    with pytest.raises((TypeError, ValueError), match=message):
        METHODS[method](environment(RECORD), round_, replication)


BAD_RESULTS: list[tuple[Any, type[Exception], str]] = [
    (np.zeros((6, 2)), ValueError, r"contexts must have shape \(6, 3\), got \(6, 2\)"),
    (np.zeros((1, 6, 3)), ValueError, r"contexts must have shape \(6, 3\), got \(1, 6, 3\)"),
    (None, TypeError, "contexts must be an array of numbers, got None"),
    ("sphere", TypeError, "contexts must be an array of numbers, got 'sphere'"),
    ([[0.1], [0.1, 0.2]], ValueError, "got rows of different lengths"),
    (np.full((6, 3), np.nan), ValueError, "contexts must be finite .* got norm nan for arm 0"),
    (np.full((6, 3), 0.6), ValueError, "norms at most context_bound = 1.0, got norm 1.039.* for arm 0"),
]


@pytest.mark.parametrize("way", ["round", "table"])
@pytest.mark.parametrize(("result", "error", "message"), BAD_RESULTS, ids=range(len(BAD_RESULTS)))
def test_bad_result_of_a_function_is_refused(result: Any, error: type[Exception], message: str, way: str) -> None:
    env = environment(lambda t, r: result if t == 4 else RECORD[t])
    with pytest.raises(error, match=f"{message} in round 4 of replication 2"):
        env.means(4, 2) if way == "round" else env.table(2, 0, 10)


def test_error_of_a_function_comes_through() -> None:
    def contexts(round: int, replication: int) -> Any:
        raise KeyError("no such day")

    with pytest.raises(KeyError, match="no such day"):
        environment(contexts).contexts(0)


def test_norms_within_the_tolerance_are_accepted() -> None:
    env = LinearEnvironment([1.0], [[1.0 + 5e-10], [-1.0]], None, "deterministic")
    assert env.means(0).tolist() == [1.0, -1.0]
