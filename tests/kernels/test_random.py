"""The virtual table of random numbers is pure, uniform and independent in every coordinate.

Seeds are fixed, so these tests give the same answer every time. Thresholds are such that a perfect generator with
other seeds would fail one of them with probability 1e-6. With n = 10**6 numbers, the smallest effects that are caught
(with probability 0.999): a correlation of 0.0085 between neighbours, a bit that is set with probability 0.5045,
a cell of the 16 x 16 table whose probability is off by 23%, a distribution function off by 0.0045.
"""

from __future__ import annotations

import json
import os
import subprocess
import sys
import warnings
from functools import cache
from typing import Any

import numpy as np
import pytest
from scipy.stats import chi2, kstwobign, norm

from armtriage import FeedbackGraph, StochasticEnvironment
from armtriage.kernels.random import bits, check_seed, row, row_of, stream, uniform

ALARM = 1e-6
MASK = (1 << 64) - 1
COORDINATES = ("arm", "round", "replication", "seed")


def splitmix(start: int, column: int) -> int:
    """Output number `column` of SplitMix64 from a start, in Python's integers."""
    z = (start + (column + 1) * 0x9E3779B97F4A7C15) & MASK
    z = ((z ^ (z >> 30)) * 0xBF58476D1CE4E5B9) & MASK
    z = ((z ^ (z >> 27)) * 0x94D049BB133111EB) & MASK
    return z ^ (z >> 31)


def environment(n_arms: int, seed: int) -> StochasticEnvironment:
    """An environment whose rewards are the random numbers themselves: uniform on [0, 1]."""
    return StochasticEnvironment(np.full(n_arms, 0.5), FeedbackGraph.semi_bandit(n_arms), "uniform", seed=seed)


@cache
def table(coordinate: str) -> np.ndarray:
    """A million and more numbers; the first axis walks along the coordinate, in steps of one."""
    if coordinate in ("arm", "round"):
        env, arms = environment(1024, 20), np.arange(1024)
        rows = np.array([env.rewards(t, arms) for t in range(1024)])
        return rows if coordinate == "round" else rows.T
    arms, blocks = np.arange(1024), []
    for step in range(128):
        env = environment(1024, 20 if coordinate == "replication" else step)
        replication = step if coordinate == "replication" else 0
        blocks.append([env.rewards(t, arms, replication) for t in range(8)])
    return np.array(blocks).reshape(128, -1)


def whole(values: np.ndarray) -> np.ndarray:
    """The 53 bits of each number."""
    return np.ldexp(values, 53).astype(np.uint64)


def neighbours(coordinate: str) -> tuple[np.ndarray, np.ndarray]:
    values = table(coordinate)
    return values[:-1].ravel(), values[1:].ravel()


def chi_square(values: np.ndarray, others: np.ndarray, cells: int = 16) -> float:
    """The p-value of Pearson's test that pairs fall into cells x cells equally often."""
    place = (values * cells).astype(int) * cells + (others * cells).astype(int)
    counts = np.bincount(place, minlength=cells * cells)
    expected = values.size / cells**2
    return float(chi2.sf(((counts - expected) ** 2 / expected).sum(), cells**2 - 1))


def kolmogorov(values: np.ndarray) -> float:
    """The p-value of the Kolmogorov-Smirnov test of uniformity."""
    ordered, n = np.sort(values.ravel()), values.size
    steps = np.arange(n + 1) / n
    distance = max(np.max(steps[1:] - ordered), np.max(ordered - steps[:-1]))
    return float(kstwobign.sf(distance * np.sqrt(n)))


def correlation(values: np.ndarray, others: np.ndarray) -> float:
    """The p-value of the correlation of uniform numbers, whose means and variances are known."""
    z = np.sum((values - 0.5) * (others - 0.5)) * 12 / np.sqrt(values.size)
    return float(2 * norm.sf(abs(z)))


def worst_bit(words: np.ndarray) -> float:
    """The p-value of the most unbalanced of 53 bits, with Bonferroni's factor."""
    ones = np.array([np.count_nonzero(words >> np.uint64(i) & np.uint64(1)) for i in range(53)])
    z = np.abs(2 * ones - words.size) / np.sqrt(words.size)
    return float(min(1.0, 53 * 2 * norm.sf(z.max())))


@pytest.mark.parametrize("coordinate", COORDINATES)
def test_numbers_are_uniform_along(coordinate: str) -> None:
    assert kolmogorov(table(coordinate)) > ALARM


@pytest.mark.parametrize("coordinate", COORDINATES)
def test_bits_are_balanced_along(coordinate: str) -> None:
    assert worst_bit(whole(table(coordinate).ravel())) > ALARM


@pytest.mark.parametrize("coordinate", COORDINATES)
def test_neighbours_are_uncorrelated_along(coordinate: str) -> None:
    assert correlation(*neighbours(coordinate)) > ALARM


@pytest.mark.parametrize("coordinate", COORDINATES)
def test_pairs_of_neighbours_fill_the_square_evenly_along(coordinate: str) -> None:
    assert chi_square(*neighbours(coordinate)) > ALARM


@pytest.mark.parametrize("coordinate", COORDINATES)
def test_xor_of_neighbours_is_balanced_in_every_bit_along(coordinate: str) -> None:
    values, others = neighbours(coordinate)
    assert worst_bit(whole(values) ^ whole(others)) > ALARM


@pytest.mark.parametrize("coordinate", COORDINATES)
def test_low_bits_of_neighbours_fill_the_square_evenly_along(coordinate: str) -> None:
    low = [(whole(values) & np.uint64(15)) / 16 for values in neighbours(coordinate)]
    assert chi_square(*low) > ALARM


@pytest.mark.parametrize("coordinate", COORDINATES)
def test_sums_over_a_line_have_the_right_spread_along(coordinate: str) -> None:
    sums = (table(coordinate) - 0.5).sum(axis=0)
    statistic = np.sum(sums**2) * 12 / table(coordinate).shape[0]
    assert 2 * min(chi2.sf(statistic, sums.size), chi2.cdf(statistic, sums.size)) > ALARM


@pytest.mark.parametrize("step", [1, -1])
def test_diagonals_are_uncorrelated(step: int) -> None:
    values = table("round")
    assert correlation(values[:-1], np.roll(values, step, axis=1)[1:]) > ALARM


def test_first_numbers_of_many_seeds_are_uniform() -> None:
    values = np.array([uniform(row_of(stream(seed, "reward"), 0), 0) for seed in range(20_000)])
    assert kolmogorov(values) > ALARM


def test_no_two_numbers_are_equal() -> None:
    # Among 2**20 numbers of 53 bits, two are equal with probability 6e-5.
    assert np.unique(table("round")).size == 2**20


def test_policies_and_rewards_of_a_seed_are_uncorrelated() -> None:
    rows = [[row_of(stream(seed, role), t) for role in ("policy", "reward")] for seed in range(20) for t in range(50)]
    pairs = np.array([[uniform(one, column) for one in row_] for row_ in rows for column in range(100)])
    assert correlation(pairs[:, 0], pairs[:, 1]) > ALARM


def test_correlation_of_the_stated_size_is_caught() -> None:
    values, others = neighbours("arm")
    copied = np.random.default_rng(1).random(values.size) < 0.0085
    assert correlation(values, np.where(copied, values, others)) < ALARM


def test_bit_of_the_stated_bias_is_caught() -> None:
    words = whole(table("arm").ravel())
    stuck = np.random.default_rng(2).random(words.size) < 0.009
    assert worst_bit(words | stuck.astype(np.uint64)) < ALARM


def test_cell_of_the_stated_excess_is_caught() -> None:
    values, others = (half.copy() for half in neighbours("arm"))
    moved = np.random.default_rng(3).random(values.size) < 0.23 / 256
    values[moved], others[moved] = 0.01, 0.01
    assert chi_square(values, others) < ALARM


def test_distribution_of_the_stated_error_is_caught() -> None:
    values = table("arm").ravel().copy()
    moved = np.random.default_rng(4).random(values.size) < 0.009
    values[moved] *= 0.5
    assert kolmogorov(values) < ALARM


@pytest.mark.plain
def test_known_outputs_of_splitmix64_are_reproduced() -> None:
    known = [6457827717110365317, 3203168211198807973, 9817491932198370423, 4593380528125082431, 16408922859458223821]
    assert [int(bits(np.uint64(1234567), column)) for column in range(5)] == known


@pytest.mark.plain
@pytest.mark.parametrize("start", [0, 1, 2**63, MASK, 0x123456789ABCDEF0])
def test_bits_are_those_of_splitmix64_in_plain_python(start: int) -> None:
    columns = [0, 1, 2, 1000, 10**6, 2**31, 2**53]
    assert [int(bits(np.uint64(start), c)) for c in columns] == [splitmix(start, c) for c in columns]


@pytest.mark.plain
def test_uniform_is_the_upper_53_bits() -> None:
    start = 987654321
    assert [uniform(np.uint64(start), c) for c in range(50)] == [(splitmix(start, c) >> 11) / 2**53 for c in range(50)]


@pytest.mark.plain
def test_largest_bits_give_a_number_below_one() -> None:
    # The start from which column 0 has 64 ones, found by running SplitMix64 backwards.
    z = MASK
    z = z ^ (z >> 31) ^ (z >> 62)
    z = z * pow(0x94D049BB133111EB, -1, 1 << 64) & MASK
    z = z ^ (z >> 27) ^ (z >> 54)
    z = z * pow(0xBF58476D1CE4E5B9, -1, 1 << 64) & MASK
    z = z ^ (z >> 30) ^ (z >> 60)
    start = (z - 0x9E3779B97F4A7C15) & MASK
    assert uniform(np.uint64(start), 0) == 1.0 - 2.0**-53


@pytest.mark.plain
def test_row_is_a_column_of_the_stream() -> None:
    assert int(row_of(np.uint64(5), 9)) == int(row(np.uint64(5), 9)) == splitmix(5, 9)


@pytest.mark.plain
def test_reward_is_pinned_to_seed_replication_round_and_arm() -> None:
    start = int(np.random.SeedSequence([20, *b"reward", 3]).generate_state(1, np.uint64)[0])
    expected = (splitmix(splitmix(start, 17), 5) >> 11) / 2**53
    assert environment(8, 20).rewards(17, [5], 3).tolist() == [expected]


@pytest.mark.plain
def test_streams_of_released_files_do_not_change() -> None:
    assert [int(stream(7, "reward")), int(stream(7, "policy", 2))] == [12941648260960951881, 3243070645322411396]


@pytest.mark.plain
def test_order_and_batching_of_the_arms_do_not_matter() -> None:
    env, order = environment(200, 1), np.random.default_rng(1).permutation(200)
    single = [env.rewards(4, [arm])[0] for arm in order]
    assert np.array_equal(env.rewards(4, np.arange(200))[order], single)


def test_order_of_the_rounds_does_not_matter() -> None:
    env, arms = environment(5, 1), np.arange(5)
    backwards = [env.rewards(t, arms, r).tolist() for t in range(20, -1, -1) for r in (2, 0, 1)]
    again = [environment(5, 1).rewards(t, arms, r).tolist() for r in (1, 0, 2) for t in range(21)]
    assert sorted(backwards) == sorted(again)


def test_arm_that_is_asked_twice_pays_the_same_twice() -> None:
    first, second = environment(5, 1).rewards(0, [3, 3])
    assert first == second


@pytest.mark.plain
def test_number_of_arms_does_not_change_the_luck_of_an_arm() -> None:
    assert environment(5, 1).rewards(3, [2])[0] == environment(500, 1).rewards(3, [2])[0]


def test_streams_of_all_seeds_roles_and_replications_differ() -> None:
    seeds = [*range(40), *(2**k + d for k in (8, 31, 32, 33, 63, 64, 65, 96, 128) for d in (-1, 0, 1))]
    replications = [0, 1, 2, 101, 2**31, 2**32, 2**32 + 1]
    roles = ("reward", "policy", "check")
    starts = {int(stream(s, role, r)) for s in set(seeds) for role in roles for r in replications}
    assert len(starts) == len(set(seeds)) * len(roles) * len(replications)


@pytest.mark.parametrize("seed", [0, 1, 2**31, 2**32, 2**63 - 1, 2**64 - 1, 2**64, 2**200], ids=str)
def test_rewards_are_in_range_without_a_warning_for_seed(seed: int) -> None:
    with warnings.catch_warnings():
        warnings.simplefilter("error")
        rewards = environment(1000, seed).rewards(10**12, np.arange(1000), 10**9)
    assert 0.0 <= rewards.min() < 0.1 < 0.9 < rewards.max() < 1.0


def test_seed_is_kept_as_it_is() -> None:
    assert check_seed(np.uint64(2**64 - 1)) == 2**64 - 1


def test_missing_seed_is_drawn_below_two_to_the_63() -> None:
    drawn = {check_seed(None) for _ in range(50)}
    assert len(drawn) == 50
    assert max(drawn) < 2**63


@pytest.mark.parametrize(
    ("seed", "error"), [(-1, ValueError), (1.0, TypeError), (True, TypeError), ("1", TypeError)], ids=str
)
def test_bad_seed_is_refused_by_its_value(seed: object, error: type[Exception]) -> None:
    with pytest.raises(error, match=f"seed must be a whole number from 0 or None, got {seed!r}"):
        check_seed(seed)  # type: ignore[arg-type]


def sample() -> list[Any]:
    graph, means = FeedbackGraph.semi_bandit(6), [0.0, 0.1, 0.4, 0.5, 0.9, 1.0]
    rewards = {}
    for law in ("bernoulli", "deterministic", "uniform", "beta"):
        for seed in (0, 7, 2**64 + 1):
            env = StochasticEnvironment(means, graph, law, seed=seed)
            rewards[f"{law} {seed}"] = [env.rewards(t, range(6), r).tolist() for t in (0, 1, 10**9) for r in (0, 5)]
    starts = [0, 1, 2**63, MASK]
    words = [int(bits(np.uint64(s), c)) for s in starts for c in (0, 1, 2**40)]
    rows = [int(row_of(stream(s, "policy", s % 3), s % 11)) for s in range(300)]
    return [rewards, words, rows, [float(uniform(np.uint64(s), 3)) for s in starts]]


@cache
def both() -> tuple[Any, Any]:
    """The sample of a process without the JIT, and of this one."""
    code = "import json; from kernels.test_random import sample; print(json.dumps(sample()))"
    flags = {**os.environ, "NUMBA_DISABLE_JIT": "1", "PYTHONPATH": os.pathsep.join(sys.path)}
    command = [sys.executable, "-W", "error", "-c", code]
    done = subprocess.run(command, env=flags, capture_output=True, text=True, check=True, timeout=300)
    return json.loads(done.stdout), sample()


@pytest.mark.parametrize("law", ["bernoulli", "deterministic", "uniform"])
def test_rewards_do_not_depend_on_compilation(law: str) -> None:
    plain, compiled = ({key: rows for key, rows in one[0].items() if key.startswith(law)} for one in both())
    assert plain == compiled


def test_beta_rewards_depend_on_compilation_by_rounding_alone() -> None:
    plain, compiled = ([rows for key, rows in one[0].items() if key.startswith("beta")] for one in both())
    assert np.allclose(plain, compiled, rtol=1e-12, atol=0.0)


def test_random_bits_do_not_depend_on_compilation() -> None:
    plain, compiled = both()
    assert plain[1:] == compiled[1:]
