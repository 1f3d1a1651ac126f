import itertools
import math
from decimal import Decimal, localcontext

import numpy as np
import pytest
from scipy import stats
from scipy.optimize import brentq
from scipy.special import betaln, rel_entr, xlogy

from armtriage.intervals import (
    BERNSTEIN,
    HOEFFDING,
    INTERVALS,
    KL,
    MIXTURE,
    PRINTED,
    confidence_interval,
    half_width,
    interval,
    kl,
    kl_lower,
    kl_upper,
    mixture_excess,
)
from armtriage.kernels.jit import JIT, kernel
from twins.elimination import upper_with_variance

DELTA = 0.05
FALSE_ALARM = 1e-4


def slow_kl(p, q):
    return float(rel_entr(p, q) + rel_entr(1 - p, 1 - q))


def exact_kl(p, q):
    with localcontext() as context:
        context.prec = 50
        p, q = Decimal(p), Decimal(q)
        value = Decimal(0)
        if p > 0:
            value += p * (p / q).ln()
        if p < 1:
            value += (1 - p) * ((1 - p) / (1 - q)).ln()
        return value


def test_kl_values_and_edges():
    rng = np.random.default_rng(1)
    for p, q in rng.random((500, 2)).tolist():
        assert kl(p, q) == pytest.approx(slow_kl(p, q), rel=1e-9, abs=1e-15)
    assert kl(0.0, 0.0) == kl(1.0, 1.0) == kl(0.3, 0.3) == 0.0
    assert kl(0.0, 1.0) == kl(1.0, 0.0) == kl(0.5, 0.0) == kl(0.5, 1.0) == math.inf
    assert kl(0.0, 0.25) == pytest.approx(math.log(4 / 3), rel=1e-15)
    assert kl(1.0, 0.25) == pytest.approx(math.log(4), rel=1e-15)
    assert kl(0.3, 0.3 + 1e-7) == pytest.approx(float(exact_kl(0.3, 0.3 + 1e-7)), rel=1e-7)


def test_kl_bounds_solve_their_equation():
    rng = np.random.default_rng(2)
    for i in range(3000):
        mean = float(rng.random()) if i % 2 else 10.0 ** float(rng.uniform(-12, 0))
        mean = 1.0 - mean if i % 4 == 0 else mean
        level = 10.0 ** float(rng.uniform(-11, 1.5))
        for bound in (kl_lower(mean, level), kl_upper(mean, level)):
            assert 0.0 <= bound <= 1.0
            if 0.0 < bound < 1.0:
                slope = (Decimal(bound) - Decimal(mean)) / (Decimal(bound) * (1 - Decimal(bound)))
                assert abs((exact_kl(mean, bound) - Decimal(level)) / slope) < 1e-14
        assert kl_lower(mean, level) <= mean <= kl_upper(mean, level)


def test_kl_bounds_lie_outside_and_agree_with_brentq():
    rng = np.random.default_rng(3)
    for mean, power in zip(rng.uniform(0.1, 0.9, 500).tolist(), rng.uniform(-4, 0, 500).tolist(), strict=True):
        level = 10.0**power
        upper, lower = kl_upper(mean, level), kl_lower(mean, level)
        assert min(kl(mean, upper), kl(mean, lower)) >= level * (1 - 1e-11)
        assert upper == pytest.approx(brentq(lambda q: slow_kl(mean, q) - level, mean, 1 - 1e-15), abs=1e-10)  # noqa: B023
        assert lower == pytest.approx(brentq(lambda q: slow_kl(mean, q) - level, 1e-300, mean), abs=1e-10)  # noqa: B023


def test_kl_bounds_at_the_edges():
    for mean in (0.0, 0.3, 1.0):
        assert kl_upper(mean, 0.0) == kl_lower(mean, 0.0) == mean
    assert [kl_upper(m, math.inf) for m in (0.0, 0.3, 1.0)] == [1.0] * 3
    assert [kl_lower(m, math.inf) for m in (0.0, 0.3, 1.0)] == [0.0, 0.0, 0.0]
    assert kl_upper(0.0, 0.2) == -math.expm1(-0.2)
    assert kl_lower(1.0, 0.2) == math.exp(-0.2)
    assert kl_upper(1.0, 0.2) == 1.0
    assert kl_lower(0.0, 0.2) == 0.0
    assert kl_upper(0.5, 5000.0) == 1.0
    for mean in (5e-324, *(10.0**-k for k in range(1, 300, 7)), *(1 - 2.0**-k for k in range(1, 54))):
        for level in (5e-324, *(10.0**k for k in range(-40, 4))):
            assert 0.0 <= kl_lower(mean, level) <= mean <= kl_upper(mean, level) <= 1.0


def exact_excess(n, s):
    """Return the mixture's excess for whole s from the product form of the Beta function."""
    with localcontext() as context:
        context.prec = 60
        log = Decimal(0)
        for k in range(1, n + 1):
            log += Decimal(k).ln()
        for k in range(s):
            log -= (Decimal(k) + Decimal("0.5")).ln()
        for k in range(n - s):
            log -= (Decimal(k) + Decimal("0.5")).ln()
        for part in (s, n - s):
            if part:
                log += part * (Decimal(part) / n).ln()
        return float(log)


@pytest.mark.parametrize(
    ("n", "s"),
    [(1, 0), (1, 1), (2, 1), (7, 0), (9, 9), (10, 3), (25, 11), (400, 1), (999, 500), (3000, 2990)],
)
def test_mixture_excess_against_long_arithmetic(n, s):
    assert mixture_excess(n, float(s)) == pytest.approx(exact_excess(n, s), abs=3e-15 * (10 + math.log(n)))


def test_mixture_excess_for_fractional_sums_and_huge_counts():
    rng = np.random.default_rng(4)
    for _ in range(500):
        n = int(10 ** rng.uniform(0, 4))
        s = float(n * rng.random())
        slow = math.log(math.pi) - betaln(s + 0.5, n - s + 0.5) + xlogy(s, s / n) + xlogy(n - s, 1 - s / n)
        assert mixture_excess(n, s) == pytest.approx(float(slow), abs=1e-9)
    for n in (10**6, 10**9, 10**12):
        # Stirling remainders: (1/12 + 2/12)/n in the middle; (1/12 + 1/24)/n and ln(2)/2 at the ends.
        middle, end = mixture_excess(n, n / 2), mixture_excess(n, 0.0)
        assert middle == pytest.approx(0.5 * math.log(math.pi * n / 2) + 0.25 / n, abs=1e-14)
        assert end == pytest.approx(0.5 * math.log(math.pi * n) + 0.125 / n, abs=1e-14)
        assert mixture_excess(n, float(n)) == end
    assert mixture_excess(5, 5.0 + 1e-12) == mixture_excess(5, 5.0)
    assert mixture_excess(5, -1e-12) == mixture_excess(5, 0.0)


def slow_interval(kind, n, s, v, k, t, d):
    """Return the interval from the formulas as one would write them on paper."""
    m = s / n
    if kind in ("printed", "hoeffding"):
        if t:
            w = math.sqrt(math.log(2 * k * t / d) / (n if kind == "printed" else 2 * n))
        else:
            w = 1.7 * math.sqrt(n * (math.log(math.log(2 * n)) + 0.72 * math.log(5.2 / (d / 2 / k)))) / 2 / n
        return max(m - w, 0), min(m + w, 1)
    if kind == "bernstein":
        x = math.log(4 * k * (t or n * (n + 1)) / d)
        w = math.sqrt(2 * v * x / n) + 7 * x / (3 * (n - 1))
        return max(m - w, 0), min(m + w, 1)
    if kind == "mixture":
        level = math.log(k / d) + math.log(math.pi) - betaln(s + 0.5, n - s + 0.5) + xlogy(s, m) + xlogy(n - s, 1 - m)
    elif t:
        level = math.log(2 * k * t / d)
    else:
        j = math.floor(math.log2(n))
        level = 1.1 * math.log(16 * k * (j + 1) * (j + 2) / d)

    def excess(q):
        return n * slow_kl(m, q) - level

    lower = 0.0 if m == 0 else brentq(excess, 1e-300, m, xtol=1e-14)
    upper = 1.0 if m == 1 or excess(1 - 1e-15) < 0 else brentq(excess, m, 1 - 1e-15, xtol=1e-14)
    if kind == "mixture":
        between, base = s - (n - 1) * v - s * m, math.log(k / d)
        lower = max(lower, 1.0 - upper_with_variance(n, n - s, between, base))
        upper = min(upper, upper_with_variance(n, s, between, base))
    return lower, upper


@pytest.mark.parametrize("horizon", [0.0, 5000.0])
@pytest.mark.parametrize("kind", INTERVALS)
def test_intervals_agree_with_the_formulas(kind, horizon):
    if kind == "printed" and not horizon:
        assert interval(PRINTED, 10, 3.0, 3.0, 4, 0.0, 0.1) == (0.0, 1.0)
        return
    rng = np.random.default_rng(5)
    for n in [2, 3, 4, 7, 8, 9, 15, 16, 17, 100, 1024, 5000]:
        rewards = rng.beta(0.5, 1.0, n)
        s, v = float(rewards.sum()), float(rewards.var(ddof=1))
        found = interval(INTERVALS.index(kind), n, s, float(rewards @ (1.0 - rewards)), 4, horizon, 0.1)
        assert found == pytest.approx(slow_interval(kind, n, s, v, 4, horizon, 0.1), abs=1e-9)


def test_codes_are_places_of_the_names():
    assert [INTERVALS[c] for c in (PRINTED, HOEFFDING, KL, BERNSTEIN, MIXTURE)] == [
        "printed",
        "hoeffding",
        "kl",
        "bernstein",
        "mixture",
    ]


def test_half_width_is_half_the_interval():
    for kind, horizon in [(PRINTED, 1e4), (HOEFFDING, 1e4), (HOEFFDING, 0.0)]:
        width = half_width(kind, 1000, 3, horizon, DELTA)
        assert interval(kind, 1000, 500.0, 0.0, 3, horizon, DELTA) == pytest.approx((0.5 - width, 0.5 + width))
    assert half_width(HOEFFDING, 0, 3, 10.0, DELTA) == half_width(PRINTED, 5, 3, 0.0, DELTA) == math.inf
    assert half_width(MIXTURE, 5, 3, 0.0, DELTA) == math.inf


def test_one_kind_lies_inside_another():
    rng = np.random.default_rng(6)
    for _ in range(2000):
        n = int(10 ** rng.uniform(0, 6))
        s = float(n * rng.beta(0.5, 0.5))
        k, d = int(rng.integers(1, 100)), float(rng.uniform(0.001, 0.5))
        boxes = [interval(kind, n, s, 0.0, k, 1e6, d) for kind in (PRINTED, HOEFFDING, KL)]
        for outer, inner in itertools.pairwise(boxes):
            assert outer[0] <= inner[0] + 1e-14
            assert inner[1] <= outer[1] + 1e-14
        lower, upper = interval(MIXTURE, n, s, 0.0, k, 0.0, d)
        width = math.sqrt((math.log(k / d) + 0.5 * math.log(n) + math.log(2)) / (2 * n))
        assert lower >= s / n - width - 1e-14
        assert upper <= s / n + width + 1e-14


def test_mixture_excess_is_at_most_half_log_n_plus_log_2():
    for n in [*range(1, 60), 10**3, 10**4, 10**5, 10**6]:
        worst = max(mixture_excess(n, n * i / 200) for i in range(201))
        assert worst <= 0.5 * math.log(n) + math.log(2) + 1e-14


@pytest.mark.parametrize("horizon", [0.0, 2e9])
@pytest.mark.parametrize("kind", range(5))
def test_edges(kind, horizon):
    assert interval(kind, 0, 0.0, 0.0, 5, horizon, DELTA) == (0.0, 1.0)
    for n in (1, 2, 10, 10**9):
        for m in (0.0, 0.5, 1.0):
            lower, upper = interval(kind, n, m * n, 0.0, 5, horizon, DELTA)
            assert 0.0 <= lower <= m <= upper <= 1.0
            over, _ = interval(kind, n, m * n * (1 + 1e-15), 0.0, 5, horizon, DELTA)
            assert over == pytest.approx(lower, abs=1e-12)
    if horizon or kind != PRINTED:
        lower, upper = interval(kind, 10**9, 5e8, 0.0, 5, horizon, DELTA)
        assert 0.5 - lower == pytest.approx(upper - 0.5, rel=1e-9)
        assert 4e-5 < upper - 0.5 < 3e-4


def test_bernstein_gains_from_small_variance():
    n = 10000
    steady = interval(BERNSTEIN, n, n / 2, n / 4, 1, 0.0, DELTA)
    coins = interval(BERNSTEIN, n, n / 2, 0.0, 1, 0.0, DELTA)
    assert steady[1] - steady[0] < (coins[1] - coins[0]) / 4
    assert interval(BERNSTEIN, 1, 1.0, 0.0, 1, 100.0, DELTA) == (0.0, 1.0)


def test_mixture_with_squares_lies_inside_the_one_without():
    """200,000 random states: inside, the same for coins, and no wider than both bounds on its width."""
    rng, size = np.random.default_rng(11), 200_000 if JIT else 500
    n = np.floor(10 ** rng.uniform(0, 6, size)).astype(np.int64)
    s = n * rng.random(size) ** rng.choice([1.0, 3.0], size)
    between = rng.random(size) ** rng.choice([0.1, 1.0, 5.0], size) * s * (n - s) / n
    share = 10 ** rng.uniform(1.31, 8, size)  # 1 / delta, for each
    common = {"n_arms": share * 0.5, "delta": 0.5}
    low, high = confidence_interval(n, s, squares=s - between, **common)
    lower, upper = confidence_interval(n, s, **common)
    assert np.all(low >= lower - 1e-14)
    assert np.all(high <= upper + 1e-14)
    assert np.all((low <= s / n + 1e-12) & (s / n <= high + 1e-12))
    b, variance = np.log(share) + 0.5 * np.log(n) + math.log(2.0), np.maximum(s / n - between / n - (s / n) ** 2, 0.0)
    width = np.minimum(np.sqrt(b / (2 * n)), np.sqrt(2 * variance * b / n) + 2 * b / n)
    assert np.all((high - low) / 2 <= width)
    wins = np.floor(s)
    coins = confidence_interval(n, wins, squares=wins, **common)
    assert np.array_equal(coins, confidence_interval(n, wins, **common))


@pytest.mark.parametrize(("deviation", "most"), [(0.25, 0.55), (0.1, 0.27), (0.01, 0.09), (0.0, 0.08)])
def test_mixture_gains_from_small_variance(deviation, most):
    n, common = 1000, {"n_arms": 100, "delta": 0.01}
    low, high = confidence_interval(n, n / 2, squares=n * (0.25 + deviation**2), **common)
    lower, upper = confidence_interval(n, n / 2, **common)
    assert (high - low) / (upper - lower) <= most


def test_less_than_the_true_sum_between_is_valid_and_wider():
    rng = np.random.default_rng(3)
    for _ in range(200):
        n, m = int(10 ** rng.uniform(0.5, 4)), rng.random()
        s = n * m
        ends = [interval(MIXTURE, n, s, share * s * (n - s) / n, 5, 0.0, DELTA) for share in (1.0, 0.7, 0.3, 0.0)]
        for (low, high), (lower, upper) in itertools.pairwise(ends):
            assert lower <= low + 1e-9
            assert upper >= high - 1e-9


@kernel
def misses(kind, rewards, mean, n_arms, horizon, delta, patience):
    """Count the rows whose interval excludes the mean, of those looked at when the count has grown by 1/patience."""
    failed = 0
    for i in range(rewards.shape[0]):
        total, between, due = 0.0, 0.0, 0
        for n in range(rewards.shape[1]):
            total += rewards[i, n]
            between += rewards[i, n] * (1.0 - rewards[i, n])
            if n < due:
                continue
            due = n + 1 + n // patience
            lower, upper = interval(kind, n + 1, total, between, n_arms, horizon, delta)
            if mean < lower or mean > upper:
                failed += 1
                break
    return failed


def after_the_past(rng, shape, mean):
    """Return rewards whose law depends on the last one, and whose mean does not: a coin after a low one, else quiet."""
    rewards = np.empty(shape)
    last = np.zeros(shape[0])
    for n in range(shape[1]):
        coin = rng.random(shape[0]) < mean
        last = np.where(last < mean, coin, mean + 0.1 * (rng.random(shape[0]) - 0.5))
        rewards[:, n] = last
    return rewards


STREAMS = {
    "coin 0.01": (0.01, lambda rng, shape: (rng.random(shape) < 0.01) * 1.0),
    "coin 0.1": (0.1, lambda rng, shape: (rng.random(shape) < 0.1) * 1.0),
    "coin 0.5": (0.5, lambda rng, shape: (rng.random(shape) < 0.5) * 1.0),
    "uniform": (0.5, lambda rng, shape: rng.random(shape)),
    "beta": (0.2, lambda rng, shape: rng.beta(0.1, 0.4, shape)),
    "quiet": (0.5, lambda rng, shape: 0.45 + 0.1 * rng.random(shape)),
    "jackpot": (0.307, lambda rng, shape: np.where(rng.random(shape) < 0.99, 0.3, 1.0)),
    "outage": (0.891, lambda rng, shape: np.where(rng.random(shape) < 0.99, 0.9, 0.0)),
    "by the past": (0.3, lambda rng, shape: after_the_past(rng, shape, 0.3)),
}
LENGTH = 2000 if JIT else 100


def most(streams):
    """Return the failures that a true rate of DELTA exceeds with probability at most FALSE_ALARM."""
    return stats.binom.isf(FALSE_ALARM, streams, DELTA)


@pytest.mark.parametrize("law", STREAMS)
def test_every_kind_covers_at_all_times(law):
    mean, draw = STREAMS[law]
    size = 400 if JIT else 40
    rewards = draw(np.random.default_rng(7), (size, LENGTH))
    for kind in range(5):
        for horizon in (0.0, float(LENGTH)):
            if horizon or kind != PRINTED:
                assert misses(kind, rewards, mean, 1, horizon, DELTA, 64) <= most(size)


@pytest.mark.skipif(not JIT, reason="millions of intervals need compilation")
@pytest.mark.parametrize("streams", [1000, pytest.param(4000, marks=pytest.mark.long)])
@pytest.mark.parametrize("law", STREAMS)
def test_mixture_covers_with_little_to_spare(law, streams):
    mean, draw = STREAMS[law]
    rewards = draw(np.random.default_rng(8), (streams, LENGTH))
    coin = law in ("coin 0.1", "coin 0.5")
    failed = misses(MIXTURE, rewards, mean, 1, 0.0, DELTA, LENGTH if coin else 64)
    assert failed <= most(streams)
    if coin:
        # The test has teeth: the level of a five times larger delta is caught, and so is a needless width.
        assert misses(MIXTURE, rewards[:400], mean, 1, 0.0, 5 * DELTA, LENGTH) > most(400)
        assert failed > 0.4 * DELTA * streams


@pytest.mark.skipif(not JIT, reason="nothing is compiled")
def test_one_signature_serves_every_kind():
    for kind in range(5):
        interval(kind, 10, 3.0, 3.0, 4, 100.0, 0.1)
        interval(kind, 10, 3.0, 3.0, 4, 0.0, 0.1)
    assert len(interval.outer.signatures) == 1
    half_width(HOEFFDING, 10, 4, 100.0, 0.1)
    assert len(half_width.outer.signatures) == 1


def test_face_broadcasts_and_returns_floats_for_scalars():
    lower, upper = confidence_interval(10, 3)
    assert (lower, upper) == interval(MIXTURE, 10, 3.0, 0.0, 1, 0.0, 0.05)
    assert type(lower) is type(upper) is float
    lower, upper = confidence_interval([[10], [20]], [1.0, 2.0, 3.0], kind="hoeffding", n_arms=3, horizon=50)
    assert lower.shape == upper.shape == (2, 3)
    assert (lower[1, 2], upper[1, 2]) == interval(HOEFFDING, 20, 3.0, 0.0, 3, 50.0, 0.05)
    assert confidence_interval(0, 0.0, kind="bernstein", squares=0.0) == (0.0, 1.0)
    assert confidence_interval(np.array([], int), np.array([]))[0].shape == (0,)
    assert confidence_interval(10, 10 + 1e-10)[1] == 1.0


@pytest.mark.parametrize("kind", INTERVALS)
def test_arms_may_have_shares_of_their_own(kind):
    counts, totals, shares = [40, 40, 0], [10.0, 30.0, 0.0], [3, 12, 60]
    common = {"kind": kind, "horizon": 100, "delta": 0.01}
    lower, upper = confidence_interval(counts, totals, n_arms=np.array(shares, float), squares=totals, **common)
    for arm in range(3):
        alone = confidence_interval(counts[arm], totals[arm], n_arms=shares[arm], squares=totals[arm], **common)
        assert (lower[arm], upper[arm]) == alone


@pytest.mark.parametrize(
    ("n_arms", "error", "message"),
    [
        ([3.0, 0.5], ValueError, "n_arms must be finite, from 1, got .*0.5"),
        ([3.0, math.nan], ValueError, "n_arms must be finite, from 1, got .*nan"),
        ([math.inf, 3.0], ValueError, "n_arms must be finite, from 1, got .*inf"),
        (["3", "4"], TypeError, "n_arms must be a whole number, or an array of numbers, got"),
        ([True, True], TypeError, "n_arms must be a whole number, or an array of numbers, got"),
    ],
)
def test_shares_that_are_none_are_refused(n_arms, error, message):
    with pytest.raises(error, match=message):
        confidence_interval([10, 10], [3.0, 3.0], n_arms=n_arms)


@pytest.mark.parametrize(
    ("arguments", "message"),
    [
        ({"kind": "normal"}, "kind must be one of printed, hoeffding, kl, bernstein, mixture, got 'normal'"),
        ({"kind": "printed"}, "horizon must be given for kind 'printed'"),
        ({"kind": "bernstein"}, "squares must be given for kind 'bernstein'"),
        ({"kind": "bernstein", "squares": 4.0}, "squares must be from 0 to total, got .*4.0"),
        ({"squares": 0.8}, "squares must be at least total squared over count, got .*0.8"),
        ({"n_arms": 0}, "n_arms must be a whole number from 1, got 0"),
        ({"n_arms": 2.5}, "n_arms must be a whole number from 1, got 2.5"),
        ({"delta": 0.0}, "delta must lie strictly between 0 and 1, got 0.0"),
        ({"delta": 1.0}, "delta must lie strictly between 0 and 1, got 1.0"),
        ({"delta": math.nan}, "delta must lie strictly between 0 and 1, got nan"),
        ({"horizon": 0}, "horizon must be a number from 1, or None for all times, got 0"),
        ({"horizon": math.inf}, "horizon must be a number from 1"),
        ({"horizon": 9, "kind": "kl"}, "count must be at most the horizon 9, got .*10"),
        ({"count": -1}, "count must be whole, from 0, got .*-1"),
        ({"count": 2.5}, "count must be whole, from 0, got .*2.5"),
        ({"total": 11.0}, "total must be from 0 to count, got .*11.0"),
        ({"total": math.nan}, "total must be from 0 to count, got .*nan"),
    ],
)
def test_face_refuses_nonsense(arguments, message):
    with pytest.raises(ValueError, match=message):
        confidence_interval(**{"count": 10, "total": 3.0, **arguments})
