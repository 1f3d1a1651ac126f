"""The Beta distribution for kernels, since SciPy cannot be called from cached machine code.

Densities are written through the divergence from the mean,
``x^a (1-x)^b / B(a, b) = c exp(-(a+b) kl(a/(a+b), x))`` with ``c`` from Stirling remainders: no difference of
large logarithms appears, so parameters of 1e7 stay accurate.
"""

from __future__ import annotations

import math

import numpy as np

from armtriage.kernels.jit import kernel
from armtriage.kernels.normal import normal, point
from armtriage.kernels.random import bits, uniform
from armtriage.kernels.record import Floats

_HALF_LOG_2PI = 0.5 * math.log(2.0 * math.pi)
_NODES, _WEIGHTS = np.polynomial.legendre.leggauss(28)
_QUADRATURE_FROM = 3000.0
_ROOT_HALF = math.sqrt(0.5)
_LARGEST = 1.0 - 2.0**-53
_SAFELY = 0.7501  # 3/4, and more than rounding can take away
_FEW = 12.0  # parameters below it have sums of so few terms that an exact step costs no more than the start


@kernel
def stirling(x: float) -> float:
    """Return ``lgamma(x) - ((x - 1/2) ln x - x + ln(2 pi)/2)``, Stirling's remainder, for x > 0."""
    if x < 10.0:
        return math.lgamma(x) - ((x - 0.5) * math.log(x) - x + _HALF_LOG_2PI)
    z = 1.0 / (x * x)
    tail = z * (1.0 / 1680.0 - z * (1.0 / 1188.0 - z * (691.0 / 360360.0)))
    return (1.0 / 12.0 - z * (1.0 / 360.0 - z * (1.0 / 1260.0 - tail))) / x


@kernel
def digamma_trigamma(x: float) -> tuple[float, float]:
    """Return the first two derivatives of ln Gamma at x > 0, to about 1e-9: recurrence up to 6, then the series."""
    first, second = 0.0, 0.0
    while x < 6.0:
        first -= 1.0 / x
        second += 1.0 / (x * x)
        x += 1.0
    i = 1.0 / x
    z = i * i
    first += math.log(x) - 0.5 * i - z * (1.0 / 12.0 - z * (1.0 / 120.0 - z * (1.0 / 252.0 - z / 240.0)))
    second += i + 0.5 * z + i * z * (1.0 / 6.0 - z * (1.0 / 30.0 - z * (1.0 / 42.0 - z / 30.0)))
    return first, second


@kernel
def log_beta(a: float, b: float) -> float:
    """Return ln B(a, b) for a, b > 0."""
    if a < 10.0 and b < 10.0:
        return math.lgamma(a) + math.lgamma(b) - math.lgamma(a + b)
    rest = -a * math.log1p(b / a) - b * math.log1p(a / b)
    return rest - _log_scale(a, b)


@kernel
def _log_scale(a: float, b: float) -> float:
    """Return ln c of the module's formula."""
    n = a + b
    if b >= a:
        shape = math.log(a) - math.log1p(a / b)
    else:
        shape = math.log(b) - math.log1p(b / a)
    return 0.5 * shape - _HALF_LOG_2PI + stirling(n) - stirling(a) - stirling(b)


@kernel
def _divergence(x: float, y: float, a: float, b: float) -> float:
    """Return ``(a+b) kl(a/(a+b), x)``, where y = 1 - x is passed on its own to keep its digits."""
    n = a + b
    if x <= y:
        shift = x * n - a
    else:
        shift = b - y * n
    left, right = shift / a, -shift / b
    if abs(left) < 0.5:
        first = math.log1p(left)
    else:
        first = math.log(x) + math.log(n / a)
    if abs(right) < 0.5:
        second = math.log1p(right)
    else:
        second = math.log(y) + math.log(n / b)
    return max(-(a * first + b * second), 0.0)


@kernel
def _fraction(x: float, y: float, a: float, b: float, term: float) -> float:
    """Return I_x(a, b) for x left of the mean, by the continued fraction of DiDonato and Morris (1992)."""
    tiny = 1e-300
    near = 1.0 / (a + 1.0)
    value = a * (a * y - b * x + 1.0) * near
    if value == 0.0:
        value = tiny
    c, d = value, 0.0
    for m in range(1, 200 + 5 * int(math.sqrt(min(max(a, b), 1e12)))):
        far, near = near, 1.0 / (a + 2.0 * m + 1.0)
        numerator = (a + m - 1.0) * far * (a + b + m - 1.0) * far * m * (b - m) * x * x
        constant = m + m * (b - m) * x * far + (a + m) * (a * y - b * x + 1.0 + m * (1.0 + y)) * near
        d = constant + numerator * d
        if d == 0.0:
            d = tiny
        c = constant + numerator / c
        if c == 0.0:
            c = tiny
        d = 1.0 / d
        change = c * d
        value *= change
        if abs(change - 1.0) < 4e-16:
            break
    return term / value


@kernel
def _quadrature(x: float, y: float, a: float, b: float, term: float) -> float:
    """Return I_x(a, b) for x left of the mean and large a, b, by Gauss-Legendre from x into the tail."""
    spread = math.sqrt(a * b / (a + b)) / (a + b)
    slope = max(((a - 1.0) / x - (b - 1.0) / y) * spread, 0.0)
    reach = min(spread * 78.0 / (slope + math.sqrt(slope * slope + 78.0)), x)
    total = 0.0
    for i in range(_NODES.size):
        step = 0.5 * reach * (1.0 + _NODES[i])
        total += _WEIGHTS[i] * math.exp((a - 1.0) * math.log1p(-step / x) + (b - 1.0) * math.log1p(step / y))
    return term / (x * y) * 0.5 * reach * total


@kernel
def _lower_upper(x: float, y: float, a: float, b: float, scale: float) -> tuple[float, float, float]:
    """Return P(X <= x), P(X >= x) and x y times the density; y = 1 - x, scale from `_log_scale`."""
    term = math.exp(scale - _divergence(x, y, a, b))
    if term == 0.0:
        if x * (a + b) < a:
            return 0.0, 1.0, 0.0
        return 1.0, 0.0, 0.0
    quadrature = a > _QUADRATURE_FROM and b > _QUADRATURE_FROM
    if x * (a + b + 2.0) <= a + 1.0:
        lower = _quadrature(x, y, a, b, term) if quadrature else _fraction(x, y, a, b, term)
        lower = min(lower, 1.0)
        return lower, 1.0 - lower, term
    upper = _quadrature(y, x, b, a, term) if quadrature else _fraction(y, x, b, a, term)
    upper = min(upper, 1.0)
    return 1.0 - upper, upper, term


@kernel
def beta_cdf(x: float, a: float, b: float) -> float:
    """Return P(X <= x) for X of Beta(a, b), a, b > 0."""
    if x <= 0.0:
        return 0.0
    if x >= 1.0:
        return 1.0
    if b == 1.0:
        return math.pow(x, a)
    if a == 1.0:
        return -math.expm1(b * math.log1p(-x))
    return _lower_upper(x, 1.0 - x, a, b, _log_scale(a, b))[0]


@kernel
def _normal_quantile(u: float) -> float:
    """Return the standard normal quantile to about 5e-4 (Abramowitz and Stegun 26.2.23): only a start."""
    t = math.sqrt(-2.0 * math.log(min(u, 1.0 - u)))
    top = 2.515517 + t * (0.802853 + t * 0.010328)
    bottom = 1.0 + t * (1.432788 + t * (0.189269 + t * 0.001308))
    z = t - top / bottom
    return -z if u < 0.5 else z


@kernel
def _start(u: float, a: float, b: float) -> float:
    """Return a first guess of the quantile for a, b > 1."""
    return _at_normal(_normal_quantile(u), a, b)


@kernel
def _at_normal(z: float, a: float, b: float) -> float:
    """Return about the quantile at the normal distribution's z, for a, b > 1: Abramowitz and Stegun 26.5.22."""
    z = -z
    ra, rb = 1.0 / (2.0 * a - 1.0), 1.0 / (2.0 * b - 1.0)
    h = 2.0 / (ra + rb)
    third = (z * z - 3.0) / 6.0
    w = z * math.sqrt(max(h + third, 0.0)) / h - (rb - ra) * (third + 5.0 / 6.0 - 2.0 / (3.0 * h))
    return a / (a + b * math.exp(min(2.0 * w, 500.0)))


@kernel
def _regular_quantile(u: float, a: float, b: float) -> float:
    """Return the quantile for a, b > 1: Halley steps in x, a bisection where a step leaves the bracket."""
    scale = _log_scale(a, b)
    spread = math.sqrt((a + b) / a * ((a + b) / b) * (a + b + 1.0))
    low, high = 0.0, 1.0
    x = min(max(_start(u, a, b), 1e-300), 1.0 - 1e-16)
    for _ in range(200):
        y = 1.0 - x
        lower, upper, term = _lower_upper(x, y, a, b, scale)
        error = lower - u if lower <= upper else (1.0 - u) - upper
        if error == 0.0:
            return x
        if error < 0.0:
            low = x
        else:
            high = x
        bend = (a - 1.0) / x - (b - 1.0) / y
        trial = -1.0
        if term > 0.0:
            newton = error * x * y / term
            halley = newton / max(1.0 - 0.5 * newton * bend, 0.5)
            trial = x - halley
            if abs(halley) <= 2e-16 * x:
                return x
        if not low < trial < high:
            trial = 0.5 * (low + high)
            if trial <= low or trial >= high:
                return x
        # A Halley step leaves about the cube of its own relative size.
        step = abs(trial - x)
        x = trial
        if x >= 1.0 or step * max(spread, abs(bend), 1.0 / x, 1.0 / (1.0 - x)) < 2e-5:
            return x
    return x


@kernel
def _singular_quantile(u: float, v: float, a: float, b: float, scale: float) -> tuple[float, float]:
    """Return a quantile x left of the mean, and 1 - x, when a or b is below 1; v = 1 - u.

    ``I_x(a, b)`` is close to a power of x there, so Newton steps of ln I_x in ln x converge fast. Both x and
    1 - x are carried along, for either may be the small one.
    """
    low, over = 0.0, 1.0
    high, under = a / (a + b), b / (a + b)
    x, y = high, under
    guess = math.exp(min((math.log(u * a) + log_beta(a, b)) / a, 0.0))
    if guess < min(high, 0.5):
        x, y = guess, 1.0 - guess
    for _ in range(200):
        if x < 1e-300:
            return x, 1.0
        lower, upper, term = _lower_upper(x, y, a, b, scale)
        error = lower - u if lower <= upper else v - upper
        if error == 0.0:
            return x, y
        if error < 0.0:
            low, over = x, y
        else:
            high, under = x, y
        inside = False
        if term > 0.0 and lower > 0.0:
            move = -math.log1p(error / u) * lower * y / term
            shift = x * math.expm1(min(move, 700.0))
            if abs(shift) <= 1e-9 * min(x, y):
                return x + shift, y - shift
            inside = low < x + shift < high if x < 0.5 else under < y - shift < over
        if inside:
            x, y = x + shift, y - shift
        elif high <= 0.5:
            x = math.sqrt(low) * math.sqrt(high) if low > 0.0 else 1e-3 * high
            y = 1.0 - x
        else:
            y = 0.5 * (under + over)
            x = 1.0 - y
        if x <= low and y >= over:
            return x, y
    return x, y


@kernel
def beta_quantile(u: float, a: float, b: float) -> float:
    """Return the x with P(X <= x) = u for X of Beta(a, b), a, b > 0; always in [0, 1]."""
    if u <= 0.0:
        return 0.0
    if u >= 1.0:
        return 1.0
    if b == 1.0:
        return u if a == 1.0 else math.pow(u, 1.0 / a)
    if a == 1.0:
        return -math.expm1(math.log1p(-u) / b)
    if a > 1.0 and b > 1.0:
        return _regular_quantile(u, a, b)
    scale = _log_scale(a, b)
    n = a + b
    lower, upper, _ = _lower_upper(a / n, b / n, a, b, scale)
    if u <= lower and (1.0 - u) >= upper:
        return _singular_quantile(u, 1.0 - u, a, b, scale)[0]
    return _singular_quantile(1.0 - u, u, b, a, scale)[1]


@kernel
def beta_tail_bound(x: float, a: float, b: float) -> float:
    """Return Chernoff's bound on P(X >= x) for X of Beta(a, b).

    It is exp(-(a+b) kl(a/(a+b), x)) right of the mean, else 1. X is G/(G+H) for independent Gamma(a) G and
    Gamma(b) H, so X >= x means (1-x) G - x H >= 0; the best exponential moment of the left side is the bound.
    """
    if x * (a + b) <= a:
        return 1.0
    if x >= 1.0:
        return 0.0
    return math.exp(-_divergence(x, 1.0 - x, a, b))


@kernel
def beta_near(z: float, a: float, b: float) -> float:
    """Return the quantile of Beta(a, b) at the normal distribution's z, to a hundredth of its spread.

    For z from -2 to 3; beyond, up to 4.5, to a twentieth. It is six to twenty times as fast as `beta_quantile`, but
    for a parameter below 12 that is not whole.
    """
    return _near(z, a, b) if a <= b else 1.0 - _near(-z, b, a)


@kernel
def _near(z: float, a: float, b: float) -> float:
    """Return it for a at most b."""
    if a == 1.0:
        return -math.expm1(math.log(max(0.5 * math.erfc(z * _ROOT_HALF), 1e-300)) / b)
    if a < _FEW and a != math.floor(a):
        return beta_quantile(min(0.5 * math.erfc(-z * _ROOT_HALF), _LARGEST), a, b)
    x = _at_normal(z, a, b)
    if a >= _FEW:
        return x
    # P(X > x) is the chance of fewer than `a` wins in a + b - 1 tries: a sum of `a` terms, and one Halley step.
    x = min(max(x, 1e-9), 1.0 - 1e-9)
    y = 1.0 - x
    n, odds = a + b - 1.0, x / y
    term = math.exp(n * math.log1p(-x))
    total = term
    for j in range(1, int(a)):
        term *= (n - j + 1.0) / j * odds
        total += term
    if term <= 0.0:
        return x
    newton = (0.5 * math.erfc(z * _ROOT_HALF) - total) * y / (b * term)
    halley = newton / max(1.0 - 0.5 * newton * ((a - 1.0) / x - (b - 1.0) / y), 0.5)
    return min(max(x - halley, 0.5 * x), x + 0.5 * y)


@kernel
def _first_gamma(start: np.uint64, column: int, shape: float) -> tuple[float, bool]:
    """Return what a number of Gamma(shape) is if its first try holds, and whether it does for sure, without a branch.

    With y = x / (3 sqrt d), a try holds with probability exp(h), h = -3 d (y^4/4 - y^5/5 + ...). That is 1 + h at
    least, and h is at least -3/4 d y^4, divided by 1 + y if y < 0.
    """
    d = shape - 1.0 / 3.0
    x, sure = point(bits(start, column))
    y = 1.0 / math.sqrt(9.0 * max(d, 0.5)) * x
    v = 1.0 + y
    squared = y * y
    sure &= uniform(start, column + 1) * min(1.0, v) > _SAFELY * d * (squared * squared)
    return d * (v * v * v), sure & (shape >= 1.0)


@kernel
def _gamma(start: np.uint64, column: int, shape: float) -> float:
    """Return a number of Gamma(shape), shape from 1 (Marsaglia and Tsang 2000), from every fourth pair of columns."""
    value, sure = _first_gamma(start, column, shape)
    if sure:
        return value
    d = shape - 1.0 / 3.0
    c = 1.0 / math.sqrt(9.0 * d)
    while True:
        x = normal(start, column)
        v = 1.0 + c * x
        if v > 0.0:
            v = v * v * v
            if math.log(1.0 - uniform(start, column + 1)) < 0.5 * x * x + d * (1.0 - v + math.log(v)):
                return d * v
        column += 4


@kernel
def gamma_draw(luck: np.uint64, column: int, shape: float) -> float:
    """Return a number of Gamma(shape, 1) of a column of its own."""
    start = bits(luck, column)
    if shape >= 1.0:
        return _gamma(start, 0, shape)
    return _gamma(start, 0, shape + 1.0) * (1.0 - uniform(start, 2)) ** (1.0 / shape)  # type: ignore[no-any-return]


@kernel
def beta_draw(luck: np.uint64, column: int, a: float, b: float) -> float:
    """Return a number of Beta(a, b) of a column of its own: for a, b from 1 ten times as fast as by inversion.

    It is exact, but not monotone in any one uniform number.
    """
    start = bits(luck, column)
    if a < 1.0 or b < 1.0:
        return beta_quantile(uniform(start, 0), a, b)
    x = _gamma(start, 0, a)
    return x / (x + _gamma(start, 2, b))


@kernel
def beta_draws(luck: np.uint64, a: Floats, b: Floats, draws: Floats) -> None:
    """Write the `beta_draw` of each column: 24 of 25 hold at the first try, in a loop that is made of vectors."""
    for i in range(draws.size):
        start = bits(luck, i)
        x, sure = _first_gamma(start, 0, a[i])
        y, also = _first_gamma(start, 2, b[i])
        draws[i] = x / (x + y) if sure & also else math.nan
    for i in range(draws.size):
        if math.isnan(draws[i]):
            draws[i] = beta_draw(luck, i, a[i], b[i])
