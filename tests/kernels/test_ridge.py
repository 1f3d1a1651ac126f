"""The regressions of the linear policies stay exact to rounding, whatever contexts come and however many."""

from __future__ import annotations

from fractions import Fraction
from functools import cache
from typing import NamedTuple

import numpy as np
import pytest

from armtriage.kernels.jit import kernel
from armtriage.kernels.ridge import Ridge, add, back, factor, forms, new_ridge, refit, shrink, solve

MILLION = 10**6
EPS = float(np.finfo(float).eps)


@kernel
def drive(ridge: Ridge, contexts: np.ndarray, rewards: np.ndarray, order: np.ndarray, prior: float) -> None:
    for i in range(order.size):
        add(ridge, 0, contexts[order[i]], rewards[order[i]])
        shrink(ridge, 0, contexts[order[i]], prior)


@kernel
def refitted(ridge: Ridge, model: int) -> None:
    refit(ridge, model)


@kernel
def solved_back(upper: np.ndarray, vector: np.ndarray) -> None:
    back(upper, vector)


def unit_rows(rng: np.random.Generator, n: int, d: int) -> np.ndarray:
    x = rng.normal(size=(n, d))
    return x / np.linalg.norm(x, axis=1, keepdims=True)


def fractions(array: np.ndarray) -> np.ndarray:
    return np.array([Fraction(float(v)) for v in array.ravel()], dtype=object).reshape(array.shape)


def floats(array: np.ndarray) -> np.ndarray:
    return np.array([float(v) for v in array.ravel()]).reshape(array.shape)


class Exact(NamedTuple):
    """Sums over contexts that were seen `counts` times each, without rounding."""

    gram: np.ndarray
    moment: np.ndarray

    @classmethod
    def of(cls, contexts: np.ndarray, rewards: np.ndarray, counts: np.ndarray, prior: float) -> Exact:
        x, r = fractions(contexts), fractions(rewards)
        weighted = x * np.array([Fraction(int(n)) for n in counts], dtype=object)[:, np.newaxis]
        eye = np.array([[Fraction(int(i == j)) for j in range(x.shape[1])] for i in range(x.shape[1])], dtype=object)
        return cls(x.T @ weighted + Fraction(prior) * eye, r @ weighted)

    def condition(self) -> float:
        return float(np.linalg.cond(floats(self.gram)))

    def error(self, inverse: np.ndarray) -> float:
        """The largest |L' P L - I| with gram = L L': how wrong P makes any width, relative to the width."""
        lower = np.linalg.cholesky(floats(self.gram))
        product = fractions(inverse) @ self.gram
        miss = floats(product) - np.eye(len(inverse))
        for i in range(len(inverse)):
            miss[i, i] = float(product[i, i] - 1)
        return float(np.abs(lower.T @ miss @ np.linalg.inv(lower.T)).max())

    def log_det(self, prior: float) -> float:
        return float(np.linalg.slogdet(floats(self.gram) / prior)[1])

    def weights(self) -> np.ndarray:
        return np.linalg.solve(floats(self.gram), floats(self.moment))


def make_pool(kind: str, d: int) -> np.ndarray:
    """Some contexts; `mixed` has all that is awkward, and in the others some directions are hardly or never seen."""
    rng = np.random.default_rng(d)
    x = unit_rows(rng, 40, d)
    if kind == "collinear":
        return x[:1] * rng.uniform(-1.0, 1.0, (40, 1))
    if kind == "tiny":
        return x * 10.0 ** rng.uniform(-12, -3, (40, 1))
    x[1] = 0.0
    x[2] = x[3] = x[4]
    x[5:10] = x[0] * rng.uniform(-1.0, 1.0, (5, 1))
    x[10] = (x[0] + 1e-9 * x[11]) / 1.00001
    x[12:18] *= 1e-9
    x[18:22] *= 1e-170
    if kind == "few":  # half of the directions are seen through tiny contexts alone
        x[22:] = x[0] * rng.uniform(-1.0, 1.0, (18, 1))
    return x


class Fit(NamedTuple):
    ridge: Ridge
    exact: Exact
    prior: float

    @property
    def inverse(self) -> np.ndarray:
        return self.ridge.inverse[0]


@cache
def fit(kind: str, d: int, prior: float = 1.0, n: int = MILLION) -> Fit:
    rng = np.random.default_rng([d, n])
    contexts = make_pool(kind, d)
    rewards = rng.uniform(-1.0, 1.0, 40)
    # Every other reward is of the same arm, and a run of them comes first.
    order = np.where(rng.random(n) < 0.5, 0, rng.integers(0, 40, n))
    order[: n // 3] = 0
    ridge = new_ridge(1, d, prior)
    drive(ridge, contexts, rewards, order, prior)
    refitted(ridge, 0)
    return Fit(ridge, Exact.of(contexts, rewards, np.bincount(order, minlength=40), prior), prior)


POOLS = ("mixed", "collinear", "few", "tiny")
HEALTH = [(kind, d) for kind in POOLS for d in (1, 8, 20)]


@pytest.mark.parametrize(("kind", "d"), HEALTH)
def test_widths_after_a_million_rewards_are_those_of_a_batch(kind: str, d: int) -> None:
    one = fit(kind, d)
    assert one.exact.error(one.inverse) < 1e-8


@pytest.mark.parametrize(("kind", "d"), HEALTH)
def test_inverse_after_a_million_rewards_is_symmetric_to_the_last_bit(kind: str, d: int) -> None:
    inverse = fit(kind, d).inverse
    assert np.array_equal(inverse, inverse.T)


@pytest.mark.parametrize(("kind", "d"), HEALTH)
def test_inverse_after_a_million_rewards_is_positive_definite(kind: str, d: int) -> None:
    assert np.linalg.eigvalsh(fit(kind, d).inverse)[0] > 0.0


@pytest.mark.parametrize(("kind", "d"), HEALTH)
def test_gram_after_a_million_rewards_is_symmetric_to_the_last_bit(kind: str, d: int) -> None:
    ridge = fit(kind, d).ridge
    assert all(np.array_equal(part[0], part[0].T) for part in (ridge.gram, ridge.carry, ridge.recent))


@pytest.mark.parametrize(("kind", "d"), HEALTH)
def test_determinant_after_a_million_rewards_is_that_of_a_batch(kind: str, d: int) -> None:
    one = fit(kind, d)
    assert one.ridge.log_det[0] == pytest.approx(one.exact.log_det(1.0), rel=1e-8, abs=1e-8)


@pytest.mark.parametrize(("kind", "d"), HEALTH)
def test_estimate_after_a_million_rewards_is_that_of_a_batch(kind: str, d: int) -> None:
    one = fit(kind, d)
    weights = one.ridge.weights[0].copy()
    solve(one.ridge, 0, 1.0)
    expected = one.exact.weights()
    assert weights == pytest.approx(expected, rel=1e-8, abs=1e-8)
    assert one.ridge.weights[0] == pytest.approx(expected, rel=1e-8, abs=1e-8)


@pytest.mark.parametrize("d", [8, 20])
def test_directions_never_seen_keep_their_width_after_a_million_rewards(d: int) -> None:
    one, first = fit("collinear", d), make_pool("collinear", d)[0]
    other = np.linalg.svd(first[np.newaxis])[2][1:]  # orthogonal to all contexts
    squares = np.einsum("ij,jk,ik->i", other, one.inverse, other)
    assert squares == pytest.approx(np.ones(d - 1), abs=1e-8)


PRIORS = (1e-6, 1e-3, 1.0, 1e3, 1e6)
# A sum of 64 equal products may be wrong by 64 roundings, which the condition number multiplies in the inverse.
SLACK = 100 * EPS


# Every prior with every number of rewards, and the dimensions in turn.
COUNTS = (1, 30, 1023, 1024, 1025, 20_000)
TURNS = [(prior, (1, 2, 8, 20)[(i + j) % 4], n) for i, prior in enumerate(PRIORS) for j, n in enumerate(COUNTS)]


@pytest.mark.parametrize(("prior", "d", "n"), TURNS)
def test_widths_are_as_exact_as_the_condition_number_allows(prior: float, d: int, n: int) -> None:
    for kind in ("mixed", "collinear"):
        one = fit(kind, d, prior, n)
        assert one.exact.error(one.inverse) < 1e-8 + SLACK * one.exact.condition()


@pytest.mark.parametrize("d", [2, 8, 20])
@pytest.mark.parametrize("prior", PRIORS)
def test_directions_seen_late_leave_no_rounding_behind(prior: float, d: int) -> None:
    contexts = unit_rows(np.random.default_rng(d), d, d)
    order = np.concatenate([np.zeros(900, np.int64), np.arange(120) % d])
    rewards, ridge = np.ones(d), new_ridge(1, d, prior)
    drive(ridge, contexts, rewards, order, prior)
    assert Exact.of(contexts, rewards, np.bincount(order), prior).error(ridge.inverse[0]) < 1e-9


@pytest.mark.parametrize("d", [2, 8, 20])
@pytest.mark.parametrize("prior", PRIORS)
def test_determinant_is_that_of_a_batch_for_every_ridge(prior: float, d: int) -> None:
    one = fit("mixed", d, prior, 20_000)
    assert one.ridge.log_det[0] == pytest.approx(one.exact.log_det(prior), rel=1e-7, abs=1e-9)


@pytest.mark.parametrize("prior", [1e-6, 1e-12, 1e-100])
def test_pivots_that_are_lost_to_rounding_are_the_ridge(prior: float) -> None:
    one = fit("collinear", 8, prior, 5000)
    factor(one.ridge, 0, prior)
    pivots = np.diag(one.ridge.scratch)
    assert pivots[0] > 1.0
    assert np.all(pivots >= np.sqrt(prior))


@pytest.mark.parametrize("prior", [1e-6, 1e-9, 1e-12])
def test_estimate_along_the_only_direction_seen_survives_a_tiny_ridge(prior: float) -> None:
    one, contexts = fit("collinear", 8, prior, 5000), make_pool("collinear", 8)
    solve(one.ridge, 0, prior)
    direction = contexts[0] / np.linalg.norm(contexts[0])
    seen, moment = (floats(part) for part in (one.exact.gram, one.exact.moment))
    expected = (direction @ moment) / (direction @ seen @ direction)
    assert direction @ one.ridge.weights[0] == pytest.approx(expected, rel=1e-3)


@pytest.mark.plain
@pytest.mark.parametrize("d", range(1, 21))
def test_solve_is_numpys(d: int) -> None:
    rng = np.random.default_rng(d)
    for n in (0, 1, d, 63, 64, 200):
        x, r, prior = unit_rows(rng, n, d), rng.uniform(-1.0, 1.0, n), float(10 ** rng.uniform(-2, 2))
        ridge = new_ridge(1, d, prior)
        drive(ridge, x, r, np.arange(n), prior)
        solve(ridge, 0, prior)
        gram = prior * np.eye(d) + x.T @ x
        assert ridge.weights[0] == pytest.approx(np.linalg.solve(gram, x.T @ r), rel=1e-9, abs=1e-12)
        assert ridge.scratch.T @ ridge.scratch == pytest.approx(gram, rel=1e-12, abs=1e-12)


@pytest.mark.plain
@pytest.mark.parametrize("d", range(1, 21))
def test_back_solves_an_upper_triangle(d: int) -> None:
    rng = np.random.default_rng(d)
    upper, vector = np.triu(rng.normal(size=(d, d)) + 4.0 * np.eye(d)), rng.normal(size=d)
    found = vector.copy()
    solved_back(upper, found)
    assert found == pytest.approx(np.linalg.solve(upper, vector), rel=1e-9, abs=1e-12)


@pytest.mark.plain
@pytest.mark.parametrize("d", range(1, 21))
def test_forms_are_einsums(d: int) -> None:
    rng = np.random.default_rng(d)
    x, r = unit_rows(rng, 50, d), rng.uniform(-1.0, 1.0, 50)
    ridge = new_ridge(1, d, 0.5)
    drive(ridge, x, r, np.arange(50), 0.5)
    refitted(ridge, 0)
    contexts = unit_rows(rng, 90, d)
    for n in range(1, 71):
        arms = rng.permutation(90).astype(np.int64)
        estimates, squares = np.full(90, 7.0), np.full(90, 7.0)
        forms(ridge, 0, contexts, arms, n, estimates, squares)
        chosen = contexts[arms[:n]]
        expected = np.einsum("ij,jk,ik->i", chosen, ridge.inverse[0], chosen)
        np.testing.assert_allclose(squares[:n], expected, rtol=1e-12, atol=1e-14)
        np.testing.assert_allclose(estimates[:n], chosen @ ridge.weights[0], rtol=1e-12, atol=1e-14)
        assert np.all(squares[n:] == 7.0)
        assert np.all(estimates[n:] == 7.0)


@pytest.mark.parametrize("d", [1, 2, 5, 8])
def test_forms_of_like_contexts_are_alike_to_the_last_bit(d: int) -> None:
    rng = np.random.default_rng(d)
    x, contexts = unit_rows(rng, 30, d), np.tile(unit_rows(rng, 1, d), (70, 1))
    ridge = new_ridge(1, d, 1.0)
    drive(ridge, x, rng.uniform(-1.0, 1.0, 30), np.arange(30), 1.0)
    refitted(ridge, 0)
    estimates, squares = np.zeros(70), np.zeros(70)
    forms(ridge, 0, contexts, np.arange(70), 70, estimates, squares)
    assert np.unique(estimates).size == np.unique(squares).size == 1


@pytest.mark.plain
def test_zero_contexts_change_nothing_but_the_count() -> None:
    ridge, before = new_ridge(1, 3, 2.0), new_ridge(1, 3, 2.0)
    drive(ridge, np.zeros((1, 3)), np.ones(1), np.zeros(5000, np.int64), 2.0)
    refitted(ridge, 0)
    assert ridge.inverse[0] == pytest.approx(before.inverse[0], rel=1e-15)
    assert (ridge.counts[0, 0], ridge.log_det[0]) == (5000, pytest.approx(0.0, abs=1e-15))
    assert ridge.weights[0].tolist() == [0.0] * 3


@pytest.mark.plain
def test_models_do_not_touch_each_other() -> None:
    rng = np.random.default_rng(1)
    ridge, x = new_ridge(3, 4, 1.0), unit_rows(rng, 2000, 4)
    drive(ridge, x, rng.uniform(-1.0, 1.0, 2000), np.arange(2000), 1.0)
    fresh = new_ridge(3, 4, 1.0)
    for name in ("gram", "carry", "recent", "inverse", "moment", "moment_carry", "weights", "log_det", "counts"):
        assert np.array_equal(getattr(ridge, name)[1:], getattr(fresh, name)[1:]), name


@pytest.mark.plain
def test_order_of_rewards_does_not_matter() -> None:
    rng = np.random.default_rng(2)
    x, r, order = unit_rows(rng, 3000, 6), rng.uniform(-1.0, 1.0, 3000), np.arange(3000)
    found = []
    for one in (order, order[::-1].copy(), rng.permutation(order)):
        ridge = new_ridge(1, 6, 1.0)
        drive(ridge, x, r, one, 1.0)
        refitted(ridge, 0)
        found.append(np.append(ridge.weights[0], ridge.log_det[0]))
    assert found[1] == pytest.approx(found[0], rel=1e-10, abs=1e-13)
    assert found[2] == pytest.approx(found[0], rel=1e-10, abs=1e-13)
