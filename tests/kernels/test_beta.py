import math
from decimal import Decimal, localcontext
from fractions import Fraction

import numpy as np
import pytest
from scipy import special, stats

from armtriage.kernels.beta import (
    _SAFELY,
    beta_cdf,
    beta_draw,
    beta_draws,
    beta_near,
    beta_quantile,
    beta_tail_bound,
    log_beta,
    stirling,
)

PI = Decimal("3.14159265358979323846264338327950288419716939937510582097494")
BERNOULLI = [(1, 6), (-1, 30), (1, 42), (-1, 30), (5, 66), (-691, 2730), (7, 6), (-3617, 510), (43867, 798)]
RANGES = [(0.01, 1.0, 1e-12), (0.5, 50.0, 1e-12), (1.0, 3e3, 1e-11), (2e3, 1e5, 1e-11), (0.01, 1e7, 1e-10)]


def draw(seed, low, high, size):
    """Parameters spread over the logarithm, and levels with a third in each far tail."""
    rng = np.random.default_rng(seed)
    a, b = np.exp(rng.uniform(math.log(low), math.log(high), (2, size)))
    u = rng.random(size)
    u[: size // 3] = 10.0 ** rng.uniform(-12, 0, size // 3)
    u[-(size // 3) :] = 1.0 - 10.0 ** rng.uniform(-12, 0, size // 3)
    return u, a, b


def each(function, *columns):
    return np.array([function(*row) for row in zip(*(np.asarray(c, float).tolist() for c in columns), strict=True)])


@pytest.mark.parametrize(("low", "high", "accuracy"), RANGES)
def test_cdf_agrees_with_scipy_in_both_tails(low, high, accuracy):
    u, a, b = draw(1, low, high, 1500)
    x = special.betaincinv(a, b, u)
    keep = (x > 1e-290) & (x < 1.0)
    x, a, b = x[keep], a[keep], b[keep]
    lower = special.betainc(a, b, x)
    found = each(beta_cdf, x, a, b)
    assert np.max(np.abs(found - lower)) < 1e-12
    assert np.max(np.abs(found - lower) / lower) < accuracy


@pytest.mark.plain
def test_cdf_short_cuts_and_ends():
    for a, b in [(1.0, 1.0), (1.0, 7.5), (0.3, 1.0), (1.0, 1e6), (1e6, 1.0)]:
        for x in (1e-9, 0.2, 0.5, 0.999999):
            assert beta_cdf(x, a, b) == pytest.approx(special.betainc(a, b, x), rel=1e-12, abs=1e-300)
    assert [beta_cdf(x, 2.0, 3.0) for x in (-1.0, 0.0, 1.0, 2.0)] == [0.0, 0.0, 1.0, 1.0]


@pytest.mark.plain
def test_cdf_of_whole_parameters_is_a_binomial_sum():
    for a, b, x in [(3, 5, Fraction(1, 7)), (20, 4, Fraction(4, 5)), (40, 60, Fraction(3, 10))]:
        n = a + b - 1
        exact = sum(math.comb(n, k) * x**k * (1 - x) ** (n - k) for k in range(a, n + 1))
        assert beta_cdf(float(x), float(a), float(b)) == pytest.approx(float(exact), rel=2e-13)


@pytest.mark.plain
def test_cdf_is_symmetric_and_increases_across_the_switch_of_methods():
    for a, b in [(2999.9, 4000.0), (3000.1, 4000.0), (7.3, 2.2), (0.4, 0.2), (1e6, 3e3)]:
        centre, spread = a / (a + b), math.sqrt(a * b / (a + b + 1.0)) / (a + b)
        grid = np.clip(np.linspace(centre - 8 * spread, centre + 8 * spread, 400), 1e-6, 1 - 1e-6)
        values = each(beta_cdf, grid, np.full(400, a), np.full(400, b))
        assert np.all(np.diff(values) >= -1e-14)
        mirror = each(beta_cdf, 1.0 - grid, np.full(400, b), np.full(400, a))
        assert np.max(np.abs(values + mirror - 1.0)) < 1e-12
    assert beta_cdf(0.43, 3000.0, 4000.0) == pytest.approx(beta_cdf(0.43, 3000.000001, 4000.0), abs=1e-7)


@pytest.mark.parametrize(("low", "high"), [(low, high) for low, high, _ in RANGES])
def test_quantile_inverts_the_cdf(low, high):
    u, a, b = draw(2, low, high, 1500)
    x = each(beta_quantile, u, a, b)
    assert np.all((x >= 0.0) & (x <= 1.0))
    # Where the spacing of floats near 1 spoils the round trip, near neighbours must still enclose the level.
    before = each(beta_cdf, x * (1.0 - 2e-13), a, b)
    after = each(beta_cdf, np.minimum(x * (1.0 + 2e-13), 1.0), a, b)
    close = np.abs(each(beta_cdf, x, a, b) - u) < 1e-11
    assert np.all(close | ((before <= u) & (u <= after)) | (x < 1e-290))


@pytest.mark.plain
def test_quantile_agrees_with_scipy():
    u, a, b = draw(3, 0.5, 1e4, 1500)
    np.testing.assert_allclose(each(beta_quantile, u, a, b), special.betaincinv(a, b, u), rtol=1e-11, atol=0)


@pytest.mark.parametrize(("a", "b"), [(0.04, 0.04), (0.04, 1e6), (1e6, 0.04), (1.0, 3.0), (2.5, 1.0), (1e7, 1e7)])
def test_quantile_rises_with_the_level_and_keeps_its_ends(a, b):
    u = np.sort(np.concatenate([np.linspace(0, 1, 301), 2.0 ** -np.arange(10.0, 1000, 90), [2**-53, 1 - 2**-53]]))
    x = each(beta_quantile, u, np.full(u.size, a), np.full(u.size, b))
    assert x[0] == 0.0
    assert x[-1] == 1.0
    assert np.all((x >= 0) & (x <= 1))
    assert np.all(np.diff(x) >= -1e-15)


def exact_log_gamma(x):
    """Return ln Gamma(x) to about 30 digits: nine Stirling terms after a shift beyond 60."""
    x, shift = Decimal(x), Decimal(0)
    while x < 60:
        shift += x.ln()
        x += 1
    value = (x - Decimal("0.5")) * x.ln() - x + (2 * PI).ln() / 2 - shift
    for k, (top, bottom) in enumerate(BERNOULLI, 1):
        value += Decimal(top) / bottom / (2 * k * (2 * k - 1)) / x ** (2 * k - 1)
    return value


@pytest.mark.plain
def test_log_beta_against_long_arithmetic():
    rng = np.random.default_rng(4)
    a, b = 10.0 ** rng.uniform(-2, 8, (2, 400))
    with localcontext() as context:
        context.prec = 50
        for p, q in zip(a.tolist(), b.tolist(), strict=True):
            exact = exact_log_gamma(p) + exact_log_gamma(q) - exact_log_gamma(Decimal(p) + Decimal(q))
            assert log_beta(p, q) == pytest.approx(float(exact), rel=1e-14, abs=1e-14)
    assert log_beta(1e8, 2.0) == pytest.approx(-math.log(1e8) - math.log1p(1e8), rel=1e-14)


@pytest.mark.plain
def test_stirling_remainder_is_smooth_at_its_switch():
    assert stirling(10.0) == pytest.approx(stirling(9.999999999), abs=1e-12)
    assert stirling(1.0) == pytest.approx(1.0 - 0.5 * math.log(2 * math.pi), rel=1e-14)
    assert stirling(1e9) == pytest.approx(1 / 12e9, rel=1e-14)


def test_tail_bound_is_never_below_the_tail_and_keeps_the_exponent():
    rng = np.random.default_rng(5)
    a, b = 10.0 ** rng.uniform(-2, 6, (2, 20000))
    mean = a / (a + b)
    x = mean + (1 - mean) * 10.0 ** rng.uniform(-8, 0, a.size)
    bound, tail = each(beta_tail_bound, x, a, b), special.betaincc(a, b, x)
    assert np.all(bound >= tail * (1 - 1e-9))
    assert np.all(bound <= 1.0)
    assert np.all(each(beta_tail_bound, mean * rng.random(a.size), a, b) == 1.0)
    assert beta_tail_bound(1.0, 2.0, 3.0) == 0.0
    large = beta_tail_bound(0.6, 5000.0, 5000.0)
    assert math.log(large) == pytest.approx(math.log(special.betaincc(5000.0, 5000.0, 0.6)), rel=0.03)


@pytest.mark.plain
def test_near_quantiles_are_near():
    """To a hundredth of the spread from -2 to 3, and to a twentieth and a half beyond, as the docstring says."""
    z = np.linspace(-3.5, 4.5, 33)
    usual = (z >= -2) & (z <= 3)
    for a in (1, 2, 3, 5, 8, 11, 12, 20, 300):
        for b in (1, 2, 4, 9, 11, 12, 40, 1000):
            exact = special.betaincinv(a, b, special.ndtr(z))
            error = np.abs(each(beta_near, z, np.full(z.size, a), np.full(z.size, b)) - exact)
            error /= math.sqrt(a * b / (a + b + 1)) / (a + b)
            assert error[usual].max() < 0.01
            assert error.max() < 0.055
    assert 0.0 <= beta_near(-9.0, 1.0, 3.0) < beta_near(9.0, 1.0, 3.0) <= 1.0


@pytest.mark.parametrize(("a", "b"), [(1.0, 1.0), (1.0, 40.0), (3.0, 9.0), (200.0, 300.0), (1e6, 2.0)])
def test_draws_follow_their_law(a, b):
    """Kolmogorov's test of 20,000 draws, at a fixed seed: the chance of a p-value below 1e-4 is 1e-4."""
    draws = np.array([beta_draw(np.uint64(19), column, a, b) for column in range(20_000)])
    assert stats.kstest(draws, stats.beta(a, b).cdf).pvalue > 1e-4


def test_draws_of_all_columns_are_those_of_each():
    _, a, b = draw(5, 0.5, 1e4, 600)
    a[::5], b[::7] = 1.0, 1.0
    draws = np.empty(a.size)
    beta_draws(np.uint64(23), a, b, draws)
    assert draws.tolist() == [beta_draw(np.uint64(23), column, a[column], b[column]) for column in range(a.size)]


def test_a_first_try_that_is_kept_without_logarithms_holds():
    """Marsaglia and Tsang keep x if ln(1 - u) is below h; what `_first_gamma` asks for instead is never less."""
    rng = np.random.default_rng(3)
    d = np.exp(rng.uniform(math.log(2 / 3), math.log(1e4), 200_000))
    y = rng.normal(size=d.size) / (3 * np.sqrt(d))
    y, d = y[y > -1], d[y > -1]
    h = 4.5 * d * y**2 + d * (1 - (1 + y) ** 3 + 3 * np.log1p(y))
    least = _SAFELY * d * y**4 / np.minimum(1, 1 + y)  # a larger u is kept
    assert (least >= -np.expm1(h) - 1e-12 * d).all()
    assert (least < 1.5 * -np.expm1(h))[(np.abs(y) < 0.2) & (d < 10) & (np.abs(y) > 0.02)].all()
