"""The three cases of Theorem 6 are built as its proof asks, and no policy beats their bound."""

import pickle

import numpy as np
import pytest

from armtriage import C2UCB, HierarchicalElimination, LinearEnvironment, LinearThompsonSampling, simulate
from armtriage.instances import linear_blocks, linear_few_dimensions, linear_one_dimension, random_linear


def policies(env, budget, horizon):
    return [
        C2UCB(env.n_arms, env.dimension, budget, seed=1),
        HierarchicalElimination(env.n_arms, env.dimension, budget, horizon=horizon, seed=1),
        LinearThompsonSampling(env.n_arms, env.dimension, budget, seed=1),
    ]


def test_blocks_by_hand():
    # S = 2, d = 13: 3 blocks of 128 rounds, and 2 rounds left over; gap = sqrt(2 / 128) / 64 = 1 / 512.
    env = linear_blocks(13, 2, horizon=386, n_arms=6, seed=3)
    assert (env.dimension, env.n_arms, env.reward, env.n_rounds) == (13, 6, "binary", None)
    assert env.theta[0] == pytest.approx(1 / np.sqrt(8))
    assert sorted(env.theta[1:] / np.sqrt(2)) == pytest.approx([0.0] * 6 + [1 / 512] * 6)
    for block, rounds in enumerate([(0, 127), (128, 255), (256, 383, 385, 10**9)]):
        for number in rounds:
            contexts, means = env.contexts(number, 5), env.means(number, 5)
            expected = np.zeros((6, 13))
            for arm in range(4):
                expected[arm, [0, 1 + 4 * block + arm]] = 1 / np.sqrt(2)
            assert contexts == pytest.approx(expected)
            assert not contexts[4:].any()
            pairs = means[:4].reshape(2, 2)
            assert np.sort(pairs, axis=1) == pytest.approx(np.tile([0.25, 0.25 + 1 / 512], (2, 1)))
            best = np.arange(2) * 2 + pairs.argmax(axis=1)
            assert env.regret(number, best) == 0.0
            assert env.regret(number, best ^ 1) == pytest.approx(2 / 512)
            assert env.regret(number, [4, 5]) == pytest.approx(2 * (0.25 + 1 / 512))


@pytest.mark.parametrize(("dimension", "used"), [(11, 11), (12, 11), (20, 11), (21, 21), (40, 31), (41, 41)])
def test_blocks_round_the_dimension_down(dimension, used):
    env = linear_blocks(dimension, 5, horizon=2000, seed=1)
    assert (env.dimension, env.n_arms) == (used, 10)
    assert np.linalg.norm(env.theta) <= 1.0


def test_blocks_hide_the_good_arms_anew():
    good = np.array([linear_blocks(9, 2, horizon=80, seed=seed).theta[1:] > 0 for seed in range(400)])
    assert np.all(good.reshape(400, 4, 2).sum(axis=2) == 1)
    assert good.mean(axis=0) == pytest.approx(np.full(8, 0.5), abs=0.1)
    assert np.corrcoef(good[:, ::2].T) == pytest.approx(np.eye(4), abs=0.2)
    assert np.array_equal(linear_blocks(9, 2, horizon=80, seed=5).theta, linear_blocks(9, 2, horizon=80, seed=5).theta)


def test_blocks_are_played_as_if_all_contexts_were_stored():
    horizon = 400
    env = linear_blocks(9, 2, horizon=horizon, n_arms=5, seed=4)
    stored = LinearEnvironment(env.theta, np.array([env.contexts(t) for t in range(horizon)]), seed=4)
    table = env.table(0, 150, 310)
    assert np.array_equal(table.given, stored.table(0, 0, horizon).given[150:310])
    assert table.first == 150
    for policy in policies(env, 2, horizon):
        one, other = (
            simulate(policy, made, horizon=horizon, replications=2, record_decisions=True) for made in (env, stored)
        )
        assert np.array_equal(one.regret, other.regret)
        assert np.array_equal(one.decisions, other.decisions)


def test_blocks_store_nothing_that_grows_with_the_horizon():
    env = linear_blocks(41, 5, horizon=10**12, seed=4)
    assert len(pickle.dumps(env)) < 10_000
    assert env.rounds_per_table * env.n_arms * env.dimension <= 2**21
    assert env.contexts(10**12 - 1)[0, 31] == pytest.approx(1 / np.sqrt(2))
    copy = pickle.loads(pickle.dumps(env))
    assert np.array_equal(copy.rewards(8, np.arange(10)), env.rewards(8, np.arange(10)))


@pytest.mark.parametrize(
    ("dimension", "budget", "each"), [(2, 1, 1), (2, 4, 2), (3, 4, 1), (4, 4, 1), (8, 4, 1), (3, 7, 2)]
)
def test_repaired_groups(dimension, budget, each):
    horizon, m = 1000, min(dimension, budget)
    env = linear_few_dimensions(dimension, budget, horizon=horizon, n_arms=2 * budget + 1, seed=9)
    contexts, means = env.contexts(0), env.means(0)
    assert np.array_equal(contexts, env.contexts(500, 3))
    assert np.array_equal(contexts[: m * each], np.repeat(np.eye(m, dimension), each, axis=0))
    assert not contexts[m * each :].any()
    assert len(contexts) - m * each >= budget
    gap = np.sqrt(3 * m / (32 * budget * horizon))
    assert np.abs(env.theta) == pytest.approx(np.where(np.arange(dimension) < m, gap, 0.0))
    assert env.reward == "binary"
    # The best decision takes what is positive, and zeros for the rest; all else loses a gap for each arm.
    positive = np.flatnonzero(means > 0)
    zeros = np.arange(m * each, len(contexts))
    assert env.regret(0, np.append(positive, zeros)[:budget]) == 0.0
    assert env.regret(0, zeros[:budget]) == pytest.approx(gap * positive.size)
    worst = np.append(np.flatnonzero(means < 0), zeros)[:budget]
    assert env.regret(0, worst) == pytest.approx(gap * m * each)


def test_repaired_signs_are_independent():
    signs = np.array([np.sign(linear_few_dimensions(3, 3, horizon=100, seed=seed).theta) for seed in range(400)])
    assert signs.mean(axis=0) == pytest.approx(np.zeros(3), abs=0.2)
    assert np.corrcoef(signs.T) == pytest.approx(np.eye(3), abs=0.2)


@pytest.mark.parametrize(("dimension", "budget"), [(2, 1), (2, 4), (4, 4), (5, 4)])
def test_the_printed_construction_is_vacuous_up_to_one_more_dimension_than_slots(dimension, budget):
    for seed in range(5):
        env = linear_few_dimensions(dimension, budget, horizon=1000, variant="printed", seed=seed)
        for number in (0, 1, 999):
            assert env.regret(number, np.arange(budget)) == 0.0


@pytest.mark.parametrize(("dimension", "budget"), [(6, 4), (7, 4), (8, 4)])
def test_printed_means_by_hand(dimension, budget):
    gap = np.sqrt((dimension - 1) / (budget * 1000)) / 64
    lost = []
    for seed in range(20):
        env = linear_few_dimensions(dimension, budget, horizon=1000, n_arms=9, variant="printed", seed=seed)
        contexts, means = env.contexts(0), env.means(0)
        assert np.linalg.norm(contexts, axis=1) == pytest.approx(np.where(np.arange(9) < dimension - 1, 1.0, 0.0))
        assert np.linalg.norm(env.theta) <= 1.0
        expected = [0.25] * (dimension - 1 - budget) + [0.25 + gap] * budget
        assert sorted(means) == pytest.approx([0.0] * (10 - dimension) + expected)
        assert env.regret(0, means.argsort()[-budget:]) == 0.0
        lost.append(env.regret(0, np.arange(budget)))
    assert 0 < max(lost) <= (dimension - 1 - budget) * gap + 1e-12


def test_one_dimension_by_hand():
    # S = 2, T = 1200: D = sqrt(3 / 76800) = 0.00625.
    for sign in (1, -1):
        env = linear_one_dimension(2, horizon=1200, n_arms=5, sign=sign, seed=1)
        assert env.contexts(9).ravel() == pytest.approx([0.00625, 0.00625, 0.0, 0.0, 0.0])
        assert env.means(9) == pytest.approx(sign * env.contexts(9).ravel())
        assert env.theta.tolist() == [sign]
        best, worst = ([0, 1], [3, 4])[::sign]
        assert env.regret(9, best) == 0.0
        assert env.regret(9, worst) == pytest.approx(0.0125)
    assert linear_one_dimension(3, horizon=12).n_arms == 6


@pytest.mark.parametrize("which", [0, 1, 2])
def test_no_policy_beats_the_bound_of_one_dimension(which):
    lost = []
    for sign in (1, -1):
        env = linear_one_dimension(2, horizon=2000, sign=sign, seed=5)
        policy = policies(env, 2, 2000)[which]
        lost.append(simulate(policy, env, horizon=2000, replications=50).mean[-1])
    assert np.mean(lost) >= 0.0765 * np.sqrt(2 * 2000)


@pytest.mark.parametrize("which", [0, 1, 2])
def test_no_policy_beats_the_bound_of_few_dimensions(which):
    lost = []
    for seed in range(40):
        env = linear_few_dimensions(3, 4, horizon=1000, seed=seed)
        lost.append(simulate(policies(env, 4, 1000)[which], env, horizon=1000, replications=2).mean[-1])
    assert np.mean(lost) >= 0.038 * np.sqrt(3 * 4 * 1000)


@pytest.mark.parametrize(
    ("make", "says"),
    [
        (lambda: linear_blocks(10, 5, horizon=9999), r"dimension must exceed 2 \* budget = 10 \(or see .*\), got 10"),
        (lambda: linear_blocks(11, 0, horizon=9999), "budget must be a whole number from 1, got 0"),
        (
            lambda: linear_blocks(12, 5, horizon=219),
            r"horizon must be at least 4 \* dimension \* budget = 220, .* got 219",
        ),
        (lambda: linear_blocks(11, 5, horizon=0), "horizon must be a whole number from 1, got 0"),
        (lambda: linear_blocks(11, 5, horizon=9999, n_arms=9), r"n_arms must be at least 2 \* budget = 10, got 9"),
        (lambda: linear_blocks(11, 5, horizon=9999, seed=-1), "seed must be"),
        (
            lambda: linear_few_dimensions(11, 5, horizon=9999),
            r"dimension must be from 2 to 2 \* budget = 10 \(or see linear_blocks\), got 11",
        ),
        (lambda: linear_few_dimensions(1, 5, horizon=9999), r"\(or see linear_one_dimension\), got 1"),
        (lambda: linear_few_dimensions(4, 5, horizon=79), r"horizon must be at least .* = 80, .* got 79"),
        (lambda: linear_few_dimensions(4, 5, horizon=9999, n_arms=9), "n_arms must be at least .* got 9"),
        (
            lambda: linear_few_dimensions(4, 5, horizon=9999, variant="paper"),
            "variant must be one of repaired, printed, got 'paper'",
        ),
        (lambda: linear_one_dimension(5, horizon=19), "horizon must be at least .* = 20, .* got 19"),
        (lambda: linear_one_dimension(5, horizon=9999, sign=0), "sign must be 1 or -1, got 0"),
        (lambda: linear_one_dimension(5, horizon=9999, n_arms=9), "n_arms must be at least .* got 9"),
    ],
)
def test_hard_instances_refuse(make, says):
    with pytest.raises(ValueError, match=says):
        make()


@pytest.mark.parametrize(
    "make",
    [
        lambda: linear_blocks("11", 5, horizon=9999),
        lambda: linear_few_dimensions(4.0, 5, horizon=9999),
        lambda: linear_one_dimension(True, horizon=9999),
        lambda: linear_one_dimension(5, horizon=1e4),
        lambda: random_linear(5, 2.5),
    ],
)
def test_hard_instances_want_whole_numbers(make):
    with pytest.raises(TypeError, match="must be a whole number from"):
        make()


@pytest.mark.parametrize("budget", [1, 2, 5, 40])
def test_the_least_horizon_will_do(budget):
    assert linear_one_dimension(budget, horizon=4 * budget).means(0)[0] <= 0.5
    for dimension in {2, budget + 1, 2 * budget}:
        for variant in ("repaired", "printed"):
            linear_few_dimensions(dimension, budget, horizon=4 * dimension * budget, variant=variant)
    d = 6 * budget + 1
    assert linear_blocks(d, budget, horizon=4 * d * budget).regret(0, np.arange(budget)) >= 0.0


def test_blocks_take_a_gap_up_to_a_theta_of_norm_one() -> None:
    env = linear_blocks(9, 2, horizon=400, gap=0.1, seed=1)
    assert np.allclose(np.sort(env.means(0)), [0.25, 0.25, 0.35, 0.35])
    largest = np.sqrt((1 - 2 / 16) / (2 * 2 * 2))
    assert np.isclose(np.linalg.norm(linear_blocks(9, 2, horizon=400, gap=largest, seed=1).theta), 1.0)
    with pytest.raises(ValueError, match="gap must be at most"):
        linear_blocks(9, 2, horizon=400, gap=largest + 1e-6)
