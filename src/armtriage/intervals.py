"""Confidence intervals for the means of rewards in [0, 1].

`confidence_interval` is for people; `interval`, `half_width` and the divergences are kernels for compiled
policies. Arms share the failure probability by a union bound, and each arm is followed over all counts, in
the order of its own rewards. Neither needs independence between arms, so the rewards of one round may be
correlated, and the choice of what to observe may depend on the past.
"""

from __future__ import annotations

import math
from typing import Any

import numpy as np
from numpy.typing import ArrayLike, NDArray

from armtriage.kernels.beta import stirling
from armtriage.kernels.jit import kernel

PRINTED, HOEFFDING, KL, BERNSTEIN, MIXTURE = 0, 1, 2, 3, 4
INTERVALS = ("printed", "hoeffding", "kl", "bernstein", "mixture")
"""The names of the kinds, each at the place of its code."""

_HALF_LOG_2PI = 0.5 * math.log(2.0 * math.pi)
_BETS = np.geomspace(0.01, 0.9, 8)  # shares of the largest bet on smaller means: best for some 10 to 100,000 rewards
IN_BETS = 1.0 / 3.0
"""Of the capital against one arm; the rest is in the mixture, which is best for few rewards, and loses 0.4 nats."""
_USUAL = 3.0  # nats that bets alone pay for being right at all counts, about: where their end is sought first
_KEPT = np.log1p(-_BETS)
_CLOSE = 5e-4  # nats by which one end alone may be wider than it need be
_NEXT = 0.01  # of the way to the next base: what the end of one of many may be wider
_LITTLE = 1e-4  # of all capital: what a bet that is no longer looked at may have had
_NEAR = 1e-10  # how far above the level an end of the mixture interval may stand: a share of 1e-11 of its width


@kernel
def kl(p: float, q: float) -> float:
    """Return the divergence of Bernoulli(p) from Bernoulli(q), infinite where q excludes what p allows."""
    if p == q:
        return 0.0
    if p <= 0.0:
        return math.inf if q >= 1.0 else -math.log1p(-q)
    if p >= 1.0:
        return math.inf if q <= 0.0 else -math.log(q)
    if q <= 0.0 or q >= 1.0:
        return math.inf
    # The logarithms near 1 cancel to first order: log1p keeps the error at the last bit of the distance.
    gap, rest = q - p, 1.0 - p
    if gap > -0.5 * p:
        left = math.log1p(gap / p)
    else:
        left = math.log(q / p)
    if gap < 0.5 * rest:
        right = math.log1p(-gap / rest)
    else:
        right = math.log((1.0 - q) / rest)
    return max(-(p * left + rest * right), 0.0)


@kernel
def _solve(mean: float, rest: float, level: float) -> tuple[float, float]:
    """Return p and 1 - p for the largest p >= mean with kl(mean, p) <= level; rest = 1 - mean, both positive.

    Halley steps in -ln(1-p), in which the divergence is convex and nearly a line where it is large.
    """
    third = level * (rest - mean) / 3.0
    bend = 1.0 + 2.0 * level / 9.0
    root = math.sqrt(third * third + 2.0 * level * bend * mean * rest)
    gap = (third + root) / bend if third > 0.0 else 2.0 * level * mean * rest / (root - third)
    left = rest - gap
    if gap > 0.7 * rest:
        left = rest * math.exp(max((mean * math.log(mean) - level) / rest, -650.0))
        gap = rest - left
        if gap <= 0.0:
            return mean, rest
    for _ in range(100):
        if gap < 0.5 * rest:
            tail = math.log1p(-gap / rest)
        else:
            tail = math.log(left / rest)
        p = mean + gap
        excess = -(mean * math.log1p(gap / mean) + rest * tail) - level
        newton = excess * p / gap
        turn = min(newton / max(1.0 - 0.5 * newton * mean * left / (p * gap), 0.5), 50.0)
        if abs(turn) < 1e-3:
            move = left * turn * (1.0 + 0.5 * turn * (1.0 + turn / 3.0 * (1.0 + 0.25 * turn)))
        else:
            move = left * math.expm1(turn)
        left += move
        gap -= move
        if left < 1e-250:
            return 1.0, 0.0
        if abs(move) <= 2e-5 * min(gap, left):
            break
        if gap <= 0.0:
            gap = 1e-3 * (gap + move)
            left = rest - gap
    if gap < 0.5 * rest:
        left = rest - gap
    return min(mean + gap, 1.0), left


@kernel
def kl_upper(mean: float, level: float) -> float:
    """Return the largest p >= mean with kl(mean, p) <= level."""
    if level <= 0.0 or mean >= 1.0:
        return min(max(mean, 0.0), 1.0)
    if level == math.inf:
        return 1.0
    if level < 1e-30:
        return max(mean, level) if mean <= 0.0 else mean
    if mean < 1e-290:
        return -math.expm1(-level)
    return _solve(mean, 1.0 - mean, level)[0]


@kernel
def kl_lower(mean: float, level: float) -> float:
    """Return the smallest p <= mean with kl(mean, p) <= level."""
    if level <= 0.0:
        return min(max(mean, 0.0), 1.0)
    if level == math.inf or mean < 1e-30:
        return 0.0
    if mean >= 1.0:
        return math.exp(-level)
    if level < 1e-30:
        return mean
    return _solve(1.0 - mean, mean, level)[1]


@kernel
def _half_stirling(x: float) -> float:
    """Return ``lgamma(x + 1/2) - (x ln x - x + ln(2 pi)/2)``, for x >= 0."""
    if x <= 0.0:
        return -0.5 * math.log(2.0)
    if x < 10.0:
        return math.lgamma(x + 0.5) - (x * math.log(x) - x + _HALF_LOG_2PI)
    z = 1.0 / (x * x)
    tail = z * (127.0 / 215040.0 - z * (511.0 / 608256.0 - z * (1414477.0 / 738017280.0)))
    return -(1.0 / 24.0 - z * (7.0 / 2880.0 - z * (31.0 / 40320.0 - tail))) / x


@kernel
def mixture_excess(count: int, total: float) -> float:
    """Return the log of the best likelihood of `total` in `count` over its Beta(1/2, 1/2) average.

    That is ``ln(pi) - ln B(s+1/2, n-s+1/2) + s ln(s/n) + (n-s) ln(1-s/n)``, at most ``ln(n)/2 + ln 2``. All
    terms of order n cancel by hand, which leaves ``ln(pi n/2)/2`` and Stirling remainders.
    """
    n = float(count)
    s = min(max(total, 0.0), n)
    return 0.5 * math.log(0.5 * math.pi * n) + stirling(n) - _half_stirling(s) - _half_stirling(n - s)


@kernel
def two_points(count: float, total: float, between: float) -> tuple[float, float]:
    """Return x and w: x in n - w rewards and 1 in w have the sum of the rewards, and their sum of r (1 - r).

    So they have mean and variance of the data; x is 0 and w the sum where all rewards are 0 or 1.
    """
    if between <= 0.0 or total >= count:
        return 0.0, total
    least = min(between / (count - total), total / count)
    return least, min(max((total - count * least) / (1.0 - least), 0.0), count)


@kernel
def kl_index(count: float, mean: float, between: float, bonus: float) -> float:
    """Return the largest mean that `bonus` allows; of rewards between 0 and 1, by the law on two points like theirs."""
    if between <= 0.0:
        return kl_upper(mean, bonus / count)
    least, wins = two_points(count, mean * count, between)
    return least + (1.0 - least) * kl_upper(wins / count, bonus / count)


@kernel
def _capital(n: float, p: float, least: float, y: float) -> tuple[float, float]:
    """Return a bound below the log of the capital against the mean ``least + (1 - least) y``, and its slope in y.

    It lacks a constant; ``p`` is the share of the upper of two points.
    """
    middle, width = (n * p + 0.5) / (n + 1.0), 1.0 - least
    tail = math.exp(-(n + 1.0) * kl(middle, y))
    if tail >= 1.0:
        return -math.inf, 0.0
    odds = (least + width * y) / y
    slope = n * (y - p) - 0.5 * (1.0 - y) + tail / (1.0 - tail) * (n + 1.0) * (y - middle)
    return n * kl(p, y) + 0.5 * math.log(odds) + math.log1p(-tail), slope / (y * (1.0 - y)) + 0.5 * width / (y * odds)


@kernel
def _mixture_upper(count: int, total: float, between: float, base: float) -> float:
    """Return the upper end of the mixture interval; base = ln(K/delta).

    Newton steps come from the right, to where the capital just reaches the level. Only a point where it has been seen
    to reach it is returned, so that the end is valid wherever they stop.
    """
    n = float(count)
    mean = min(max(total / n, 0.0), 1.0)
    coin = kl_upper(mean, (base + mixture_excess(count, total)) / n)
    if between <= 0.0 or total >= n:
        return coin
    least, wins = two_points(n, total, between)
    width, p = 1.0 - least, wins / n
    level = base + mixture_excess(count, wins)
    first = (p + 0.5 / n) / (1.0 + 0.5 / n)  # the capital grows from here on
    y, good = max(min(kl_upper(p, level / n), 1.0 - 1e-12), first), -1.0
    for _ in range(16):
        if y >= 1.0:
            break
        capital, slope = _capital(n, p, least, y)
        excess, near = capital - level, _NEAR + 4e-16 * slope  # no less than a step of y can change
        if excess >= 0.0:
            good = y
            if excess < near or slope <= 0.0:
                break
        if excess == -math.inf or slope <= 0.0:
            y = max(y + 0.1 * (1.0 - y), first)
            continue
        y = max(y - (excess - 0.5 * near) / slope, first)
        if y == good:
            break
    return coin if good < 0.0 else min(coin, least + width * good)


@kernel
def _reach(
    n: float,
    mean: float,
    least: float,
    wins: float,
    excess: tuple[float, float],
    good: float,
    last: int,
    in_bets: float,
    p: float,
) -> tuple[float, float, int]:
    """Return the log of the capital of bets on means below `p`, its slope, and how many of the bets are worth a look.

    Means above `good` are excluded already. Bets beyond the `last` are left out, as one of them is from then on that
    has less than a ten-thousandth of the whole. The other arguments are what `ends_above` makes of the rewards.
    """
    rest, top, reached, rise = 1.0 - p, 0.0, 0.0, 0.0
    if in_bets < 1.0:
        capital, slope = n * kl(mean, p) - excess[0], n * (p - mean) / (p * rest)
        if p > least > 0.0:
            other, steep = _capital(n, wins / n, least, (p - least) / (1.0 - least))
            if other - excess[1] > capital:
                capital, slope = other - excess[1], steep / (1.0 - least)
        # Bets on means smaller than p have this share of the mixture at most, all others have lost. Where the mixture
        # has lost itself, what they have would be too much with a larger share.
        share, top = 2.0 * math.asin(math.sqrt(good if capital >= 0.0 else p)) / math.pi, max(capital, 0.0)
        gone = math.exp(capital - top) * (1.0 - in_bets) / share
        reached, rise = gone - math.exp(-top) * (1.0 - in_bets) / share * (1.0 - share), gone * slope
        if reached <= 0.0:
            reached = rise = 0.0
    odds, losses, gone = (p - least) / rest, n - wins, 0.0
    for i in range(last):
        won = 1.0 + _BETS[i] * odds
        gone = math.exp(min(wins * _KEPT[i] + losses * math.log(won) - top, 600.0)) * (in_bets / _BETS.size)
        reached += gone
        rise += gone * losses * _BETS[i] * (1.0 - least) / (rest * rest * won)
    if last > 1 and gone < _LITTLE * reached:
        last -= 1
    if reached <= 0.0:
        return -math.inf, 0.0, last
    return top + math.log(reached), rise / reached, last


@kernel
def ends_above(
    count: int,
    total: float,
    between: float,
    bases: NDArray[np.float64],
    enough: float,
    in_bets: float,
    ends: NDArray[np.float64],
) -> None:
    """Write an upper end that fails with probability exp(-base) for each base; nothing is said of the other end.

    Only bets on smaller means count then. The share `in_bets` of the capital is in a few bets, which pay less for being
    right at large counts, and the rest in those of the mixture. See `docs/intervals.md`. Bases must not be negative,
    nor descend. Once an end is no more than `enough`, those of smaller bases are taken to be the same, which is valid.
    Newton steps come from the right, and only a point where the capital has been seen to be large enough is written.
    """
    n = float(count)
    mean = min(max(total / max(n, 1.0), 0.0), 1.0)
    good = 1.0
    if count > 0 and bases.size > 0 and in_bets < 1.0:
        # A part of the capital reaches a base where all of it would reach this.
        good = _mixture_upper(count, total, between, bases[bases.size - 1] - math.log(1.0 - in_bets))
    if count <= 0 or good <= mean:
        ends[:] = good
        return
    least, wins = two_points(n, total, between)
    excess = mixture_excess(count, total), mixture_excess(count, wins)
    # The last three ends (y), the last one first, and the logs of the capital there (x). Ends are a smooth curve of
    # these as long as the mixture's share lags behind by one base.
    x0, x1, x2, y0, y1, y2, rise, last = math.inf, math.inf, math.inf, good, good, good, 0.0, _BETS.size
    for k in range(bases.size - 1, -1, -1):
        close = _CLOSE if k + 1 == bases.size else max(_CLOSE, _NEXT * (bases[k + 1] - bases[k]))
        level, aim, bad = bases[k], bases[k] + 0.5 * close, mean
        if good > enough and x0 >= level + close:
            p = good if good < 1.0 else 0.5 * (mean + 1.0)
            if good == 1.0 and in_bets == 1.0:
                p = min(p, kl_upper(mean, (level + _USUAL) / n))
            if x2 < math.inf:
                turn = (y0 - y1) / (x0 - x1)
                p = y0 + (aim - x0) * (turn + (aim - x1) * (turn - (y1 - y2) / (x1 - x2)) / (x0 - x2))
            elif x0 < math.inf:
                p = y0 - (x0 - aim) / rise
            if x0 < math.inf and not bad < p < good:
                p = 0.5 * (bad + good)
            height = math.inf
            for _ in range(16):
                ahead = y0 if x2 < math.inf else good
                value, slope, last = _reach(n, mean, least, wins, excess, ahead, last, in_bets, p)
                slope = max(slope, 1e-300)
                if value >= level:
                    good, height, rise = p, value, slope
                    if value < level + close:
                        break
                else:
                    bad = p
                p -= (value - aim) / slope  # in logarithms the way is nearly straight
                if not bad < p < good:
                    p = 0.5 * (bad + good)
            if height < x0:
                x0, x1, x2, y0, y1, y2 = height, x0, x1, good, y0, y1
        ends[k] = good


@kernel
def _one_sided_ends(
    counts: NDArray[np.int64],
    totals: NDArray[np.float64],
    between: NDArray[np.float64],
    below: float,
    above: float,
    bounds: NDArray[np.float64],
) -> None:
    bases = np.array([below, above])
    for i in range(counts.size):
        ends_above(counts[i], counts[i] - totals[i], between[i], bases[:1], 0.0, IN_BETS, bounds[0, i : i + 1])
        bounds[0, i] = 1.0 - bounds[0, i]
        ends_above(counts[i], totals[i], between[i], bases[1:], 0.0, IN_BETS, bounds[1, i : i + 1])


def one_sided_ends(
    counts: NDArray[np.int64],
    totals: NDArray[np.float64],
    between: NDArray[np.float64],
    *,
    below: float,
    above: float,
) -> tuple[NDArray[np.float64], NDArray[np.float64]]:
    """Return lower and upper ends of means, each of which is to be used without the other.

    At all counts the lower end of an arm holds with probability at least ``1 - below``, and its upper end with
    ``1 - above``. So they are narrower than a `confidence_interval` with either, which has both ends. `between` are the
    sums of r (1 - r), or less.

    Examples
    --------
    >>> sums = np.array([100]), np.array([20.0]), np.zeros(1)
    >>> lower, upper = one_sided_ends(*sums, below=0.05, above=0.05)
    >>> lower.round(4), upper.round(4)
    (array([0.0952]), array([0.3384]))
    """
    bounds = np.empty((2, counts.size))
    _one_sided_ends(counts, totals, between, -math.log(below), -math.log(above), bounds)
    return bounds[0], bounds[1]


@kernel
def half_width(kind: int, count: int, n_arms: float, horizon: float, delta: float) -> float:
    """Return the half-width of PRINTED or HOEFFDING, which depends on the count alone.

    A `horizon` of 0 asks for validity at all times, which HOEFFDING has by a stitched boundary. Infinite
    where there is no width: PRINTED without a horizon, the other kinds, a count of 0.
    """
    if count <= 0:
        return math.inf
    n = float(count)
    if kind == HOEFFDING:
        if horizon > 0.0:
            return math.sqrt(math.log(2.0 * n_arms * horizon / delta) / (2.0 * n))
        return 0.85 * math.sqrt((math.log(math.log(2.0 * n)) + 0.72 * math.log(10.4 * n_arms / delta)) / n)
    if kind == PRINTED and horizon > 0.0:
        return math.sqrt(math.log(2.0 * n_arms * horizon / delta) / n)
    return math.inf


@kernel
def interval(
    kind: int, count: int, total: float, between: float, n_arms: float, horizon: float, delta: float
) -> tuple[float, float]:
    """Return the bounds on a mean after `count` rewards with sum `total` and sum `between` of r (1 - r).

    The latter is 0 for rewards of 0 and 1, and less than it is, or 0, is always valid. See `confidence_interval` for
    the kinds. A `horizon` of 0 asks for validity at all times.
    """
    if count <= 0:
        return 0.0, 1.0
    n = float(count)
    mean = min(max(total / n, 0.0), 1.0)
    if kind in (MIXTURE, KL):
        if kind == MIXTURE:
            base = math.log(n_arms / delta)
            if between > 0.0 and 0.0 < total < n:
                upper = _mixture_upper(count, total, between, base)
                return 1.0 - _mixture_upper(count, n - total, between, base), upper
            level = base + mixture_excess(count, total)
        elif horizon > 0.0:
            level = math.log(2.0 * n_arms * horizon / delta)
        else:
            octave = math.frexp(n)[1]
            level = 1.1 * math.log(16.0 * n_arms * octave * (octave + 1.0) / delta)
        return kl_lower(mean, level / n), kl_upper(mean, level / n)
    if kind == BERNSTEIN:
        if count < 2:
            return 0.0, 1.0
        counts = horizon if horizon > 0.0 else n * (n + 1.0)
        level = math.log(4.0 * n_arms * counts / delta)
        variance = max(min(total, n) - between - n * mean * mean, 0.0) / (n - 1.0)
        width = math.sqrt(2.0 * variance * level / n) + 7.0 * level / (3.0 * (n - 1.0))
    else:
        width = half_width(kind, count, n_arms, horizon, delta)
    return max(mean - width, 0.0), min(mean + width, 1.0)


@kernel
def _intervals(
    kind: int,
    counts: NDArray[np.int64],
    totals: NDArray[np.float64],
    between: NDArray[np.float64],
    divisors: NDArray[np.float64],
    horizon: float,
    delta: float,
    bounds: NDArray[np.float64],
) -> None:
    for i in range(counts.size):
        bounds[0, i], bounds[1, i] = interval(kind, counts[i], totals[i], between[i], divisors[i], horizon, delta)


def confidence_interval(
    count: ArrayLike,
    total: ArrayLike,
    *,
    n_arms: ArrayLike = 1,
    delta: float = 0.05,
    kind: str = "mixture",
    horizon: float | None = None,
    squares: ArrayLike | None = None,
) -> tuple[Any, Any]:
    """Return lower and upper bounds on the means of rewards in [0, 1].

    With probability at least ``1 - delta`` the bounds of all `n_arms` arms hold at once, and at every count:
    up to the horizon if one is given, else for ever. They may be looked at after every reward.

    Parameters
    ----------
    count : array_like of int
        How many rewards were seen, n below.
    total : array_like of float
        Their sum s; m is s/n below.
    n_arms : int or array_like of float
        The number of arms K that share `delta` evenly. Where they do not, K of each arm: its bounds fail with
        probability at most `delta` / K, and all of them together with at most the sum of that.
    delta : float
        The probability that any bound ever fails, between 0 and 1.
    kind : str
        One of the names below.
    horizon : float, optional
        A bound T on all counts that will be looked at; None for validity at all times.
    squares : array_like of float, optional
        The sum of squared rewards, which ``"bernstein"`` needs and ``"mixture"`` may have: it is narrower then, the
        more the smaller their variance is. The other kinds have no use for it.

    Returns
    -------
    lower, upper : float or ndarray
        The bounds, in [0, 1], of the broadcast shape of the arguments; (0, 1) where the count is 0.

    Notes
    -----
    =========== ========================================== ===================== ==========================
    kind        the means p inside                         source                use
    =========== ========================================== ===================== ==========================
    mixture     n kl(m, p) <= ln(K/delta) + e(n, s)        Robbins 1970;         by default
                                                           Krichevsky and
                                                           Trofimov 1981
    kl          n kl(m, p) <= ln(2KT/delta)                Chernoff 1952         to compare
    kl          n kl(m, p) <= 1.1 ln(16K(j+1)(j+2)/delta)  peeled Chernoff       to compare
    hoeffding   abs(m - p) <= sqrt(ln(2KT/delta)/(2n))     Hoeffding 1963        widths that depend on n
                                                                                 alone
    hoeffding   abs(m - p) <= 0.85 sqrt((ln ln(2n) +       Howard, Ramdas,       the same without horizon
                0.72 ln(10.4K/delta))/n)                   McAuliffe and Sekhon
                                                           2021, eq. 2
    bernstein   abs(m - p) <= sqrt(2Vx/n) + 7x/(3(n-1))    Maurer and Pontil     fractional rewards of small
                                                           2009, theorem 4       variance, large n
    printed     abs(m - p) <= sqrt(ln(2KT/delta)/n)        Hoeffding, a factor   to repeat published runs
                                                           sqrt(2) too wide
    =========== ========================================== ===================== ==========================

    Rows with T need a horizon; the rows of kl and hoeffding without T hold at all times, and mixture always
    does and ignores the horizon. ``j`` is the integer part of log2(n), V the unbiased sample variance,
    ``x = ln(4KT/delta)`` with T replaced by n(n+1) without a horizon, and ``e(n, s) <= ln(n)/2 + ln 2`` is
    `mixture_excess`.

    *Mixture.* For a reward X with mean p and any q, ``(q/p)^X ((1-q)/(1-p))^(1-X)`` is convex in X, so its
    mean is at most that of a coin with the same mean, which is 1. Products over rewards, and their
    Beta(1/2, 1/2) averages over q, are therefore supermartingales that start at 1, and by Ville's inequality
    ever reach K/delta with probability at most delta/K. Only the conditional mean of a reward is
    used, and so it is for kl, hoeffding and printed; bernstein wants the rewards of one arm independent
    and of one law.

    *Mixture, with squares.* The mixture is a bound on the capital of a gambler who bets against the mean p, by the sum
    of the rewards. Their squares give a better bound on the same capital, so that no second delta is spent: the
    interval is inside the one without squares, is the same for rewards of 0 and 1, and its half-width is at most
    ``sqrt(2Vb/n) + 2b/n``, ``b = ln(2K sqrt(n)/delta)``, for V the sample variance: see `docs/intervals.md`.

    Examples
    --------
    >>> lower, upper = confidence_interval(100, 20.0)
    >>> round(lower, 4), round(upper, 4)
    (0.091, 0.3516)
    >>> lower, upper = confidence_interval(100, 20.0, squares=5.0)  # a standard deviation of 0.1
    >>> round(lower, 4), round(upper, 4)
    (0.1638, 0.2606)
    >>> lower, upper = confidence_interval([10, 1000], [2.0, 200.0], kind="kl", horizon=1000)
    >>> upper.round(4)
    array([0.8519, 0.2622])
    """
    if kind not in INTERVALS:
        raise ValueError(f"kind must be one of {', '.join(INTERVALS)}, got {kind!r}")
    divisors = np.asarray(n_arms)
    if divisors.ndim == 0 and (isinstance(n_arms, bool) or not isinstance(n_arms, int | np.integer) or n_arms < 1):
        raise ValueError(f"n_arms must be a whole number from 1, got {n_arms!r}")
    if divisors.dtype.kind not in "iuf":
        raise TypeError(f"n_arms must be a whole number, or an array of numbers, got {n_arms!r:.100}")
    _refuse("n_arms", divisors, ~((divisors >= 1) & (divisors < math.inf)), "finite, from 1")
    if not 0.0 < delta < 1.0:
        raise ValueError(f"delta must lie strictly between 0 and 1, got {delta!r}")
    if horizon is not None and not 1.0 <= horizon < math.inf:
        raise ValueError(f"horizon must be a number from 1, or None for all times, got {horizon!r}")
    if horizon is None and kind == "printed":
        raise ValueError("horizon must be given for kind 'printed', which holds up to a horizon only, got None")
    if squares is None and kind == "bernstein":
        raise ValueError("squares must be given for kind 'bernstein', as the sum of squared rewards, got None")
    counts, totals, second, divisors = np.broadcast_arrays(
        np.asarray(count), np.asarray(total, float), np.asarray(0.0 if squares is None else squares, float), divisors
    )
    _refuse("count", counts, ~((counts >= 0) & (counts == np.floor(counts)) & (counts < 2**53)), "whole, from 0")
    slack = 1e-9 * (1.0 + counts)
    _refuse("total", totals, ~((totals >= -slack) & (totals <= counts + slack)), "from 0 to count")
    between = np.zeros(counts.shape)
    if squares is not None:
        _refuse("squares", second, ~((second >= -slack) & (second <= totals + slack)), "from 0 to total")
        most = totals * (counts - totals) / np.maximum(counts, 1)
        _refuse("squares", second, totals - second > most + slack, "at least total squared over count")
        between = np.clip(totals - second, 0.0, np.maximum(most, 0.0))
    if horizon is not None and kind != "mixture":
        _refuse("count", counts, counts > horizon, f"at most the horizon {horizon!r}")
    bounds = np.empty((2, counts.size))
    _intervals(
        INTERVALS.index(kind),
        counts.astype(np.int64).ravel(),
        np.ascontiguousarray(totals).ravel(),
        between.ravel(),
        divisors.astype(np.float64).ravel(),
        0.0 if horizon is None else float(horizon),
        float(delta),
        bounds,
    )
    if counts.ndim == 0:
        return float(bounds[0, 0]), float(bounds[1, 0])
    return bounds[0].reshape(counts.shape), bounds[1].reshape(counts.shape)


def _refuse(name: str, values: NDArray[Any], bad: NDArray[np.bool_], accepted: str) -> None:
    if np.any(bad):
        raise ValueError(f"{name} must be {accepted}, got {values[bad].flat[0]!r}")
