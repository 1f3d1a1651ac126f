"""Exact probabilities that an arm is among the S largest of independent draws, each from a Beta law on [x, 1].

Arm a is among them if at most S - 1 of the others are above its own draw, so its probability is the integral of its
density f times P(N <= S - 1), with N the Poisson-binomial number of others above. It is computed by Gauss nodes on
panels, from where S draws are surely above to where they surely are not. Distribution functions are integrated along
the way from one exact value each. The law of N without an arm is that of all, divided by the arm's factor q + p z:
from the constant term up where p <= 1/2, and from the top down above, both of which are stable.
"""

from __future__ import annotations

import math

import numpy as np
from numpy.typing import NDArray

from armtriage.kernels.beta import beta_cdf, log_beta
from armtriage.kernels.jit import kernel

Floats = NDArray[np.float64]

_N = 10
_GAUSS = np.polynomial.legendre.leggauss(_N)
_NODES, _WEIGHTS = (_GAUSS[0] + 1.0) / 2.0, _GAUSS[1] / 2.0
# Row i integrates the polynomial through the nodes from 0 to node i.
_UP_TO = np.array(
    [
        [np.polynomial.Polynomial.fromroots(np.delete(_NODES, j)).integ()(one) for j in range(_N)]
        / np.array([np.prod(_NODES[j] - np.delete(_NODES, j)) for j in range(_N)])
        for one in _NODES
    ]
)
_LOG_TINY = 34.0  # probabilities below e^-34 do not count
_FALLS = (12.0, 6.0, 3.0)  # how much a logarithm of a density may change on a panel: 12 leaves relative errors of 1e-8
_SURE = 1.0 - 1e-15  # arms above this count as one above, and those below 1 less this as none
_CLOSE = 1e-6  # how far the sum may be off, as a share of S


@kernel
def _beyond(x: float, least: float, a: float, b: float) -> float:
    """Return the probability that a draw is above a value."""
    return 1.0 if x <= least else 1.0 - beta_cdf((x - least) / (1.0 - least), a, b)


@kernel
def _above(x: float, least: Floats, a: Floats, b: Floats) -> float:
    """Return how many draws are above a value on average."""
    total = 0.0
    for arm in range(a.size):
        total += _beyond(x, least[arm], a[arm], b[arm])
    return total


@kernel
def _weigh(
    lo: float, hi: float, least: Floats, a: Floats, b: Floats, surely: Floats, ahead: Floats, scales: Floats
) -> None:
    """Write with which probability each draw is above two values, and the scale of its density."""
    for arm in range(a.size):
        surely[arm], ahead[arm] = _beyond(lo, least[arm], a[arm], b[arm]), _beyond(hi, least[arm], a[arm], b[arm])
        scales[arm] = log_beta(a[arm], b[arm])


@kernel
def _unlikely(mean: float, slots: int, few: bool) -> bool:
    """Whether so many draws above are impossible: `few`, less than the slots, or else as many or more."""
    if mean <= 0.0:
        return not few
    k = slots - 1 if few else slots
    if few != (k < mean):
        return False
    rate = mean - k + (k * math.log(k / mean) if k > 0 else 0.0)  # Chernoff's bound
    return rate > _LOG_TINY


@kernel
def _end(slots: int, few: bool, least: Floats, a: Floats, b: Floats) -> float:
    """Return the value below which the S-th largest draw surely is not, or above which."""
    low, high = 0.0, 1.0
    for _ in range(12):  # a wider range only means a panel more
        middle = 0.5 * (low + high)
        if _unlikely(_above(middle, least, a, b), slots, few) == few:
            low = middle
        else:
            high = middle
    return low if few else high


@kernel
def _log_density(x: float, least: float, a: float, b: float, scale: float) -> float:
    """Return the logarithm of a density; `scale` is that of its normalising constant."""
    y = (x - least) / (1.0 - least)
    if y < 0.0 or (y == 0.0 and a > 1.0) or (y >= 1.0 and b > 1.0):
        return -math.inf
    if y == 0.0 or y >= 1.0:
        return -scale
    return (a - 1.0) * math.log(y) + (b - 1.0) * math.log1p(-y) - scale


@kernel
def _most(start: float, end: float, least: float, a: float, b: float, scale: float) -> float:
    """Return the logarithm of the largest density between two values."""
    peak = (a - 1.0) / max(a + b - 2.0, 1e-9) * (1.0 - least) + least
    return _log_density(min(max(peak, start), end), least, a, b, scale)


@kernel
def _too_wide(start: float, end: float, fall: float, least: Floats, a: Floats, b: Floats, scales: Floats) -> bool:
    """Whether a density that counts changes too much between two values."""
    h = end - start
    for arm in range(a.size):
        first = _log_density(start + 0.1 * h, least[arm], a[arm], b[arm], scales[arm])
        middle = _log_density(start + 0.5 * h, least[arm], a[arm], b[arm], scales[arm])
        last = _log_density(end - 0.1 * h, least[arm], a[arm], b[arm], scales[arm])
        most = _most(start, end, least[arm], a[arm], b[arm], scales[arm])
        if most + math.log(h) < -_LOG_TINY:
            continue
        if most - min(first, middle, last) > fall or start < least[arm] < end:
            return True
    return False


@kernel
def _panels(lo: float, hi: float, fall: float, least: Floats, a: Floats, b: Floats, scales: Floats) -> Floats:
    """Return where panels end, so fine that no density changes too much on any of them."""
    edges, n = np.empty(1 << 14), 0
    tops, depth, start = np.empty(64), 0, lo
    for i in range(5, -1, -1):
        tops[depth] = hi if i == 5 else lo + (hi - lo) * (i + 1) / 6.0
        depth += 1
    edges[n], n = lo, 1
    while depth > 0 and n < edges.size - 64:
        end = tops[depth - 1]
        deep = end - start < 1e-9 or depth >= 60
        if not deep and _too_wide(start, end, fall, least, a, b, scales):
            tops[depth] = 0.5 * (start + end)
            depth += 1
            continue
        edges[n], start = end, end
        n, depth = n + 1, depth - 1
    return edges[:n].copy()


@kernel
def _at_most(slots: int, some: Floats, n: int, others: Floats, m: int) -> float:
    """Return P(A + B < slots), where `some` has the probabilities of A, and `others` P(B <= b)."""
    total = 0.0
    for j in range(min(n, slots)):
        total += some[j] * others[min(slots - 1 - j, m - 1)]
    return total


@kernel
def _sum_up(edges: Floats, slots: int, least: Floats, a: Floats, b: Floats, scales: Floats, found: Floats) -> None:
    """Add the integral of each density times the probability that fewer than `slots` others are above."""
    k = a.size
    base, density, above = np.empty(k), np.empty((k, _N)), np.empty((k, _N))
    for arm in range(k):
        y = (edges[0] - least[arm]) / (1.0 - least[arm])
        base[arm] = beta_cdf(y, a[arm], b[arm]) if y > 0.0 else 0.0
    rare, often, quotient = np.empty(slots + 1), np.empty(k + 1), np.empty(k + 1)
    up_rare, up_often = np.empty(slots + 1), np.empty(k + 1)
    for panel in range(edges.size - 1):
        start, h = edges[panel], edges[panel + 1] - edges[panel]
        for arm in range(k):
            whole = 0.0
            if _most(start, start + h, least[arm], a[arm], b[arm], scales[arm]) + math.log(h) < -_LOG_TINY:
                density[arm, :], above[arm, :] = 0.0, min(1.0, max(0.0, 1.0 - base[arm]))
                continue
            for i in range(_N):
                density[arm, i] = math.exp(_log_density(start + h * _NODES[i], least[arm], a[arm], b[arm], scales[arm]))
                density[arm, i] /= 1.0 - least[arm]
                whole += _WEIGHTS[i] * density[arm, i]
            for i in range(_N):
                part = 0.0
                for j in range(_N):
                    part += _UP_TO[i, j] * density[arm, j]
                above[arm, i] = min(1.0, max(0.0, 1.0 - base[arm] - h * part))
            base[arm] += h * whole
        for i in range(_N):
            rare[:] = 0.0
            rare[0] = often[0] = 1.0
            n, free = 0, slots
            for arm in range(k):
                free -= int(above[arm, i] > _SURE)
            if free <= 0:
                continue
            for arm in range(k):
                p = above[arm, i]
                if p > _SURE:
                    continue
                if p > 0.5:
                    often[n + 1] = often[n] * p
                    for j in range(n, 0, -1):
                        often[j] = often[j] * (1.0 - p) + often[j - 1] * p
                    often[0] *= 1.0 - p
                    n += 1
                elif p > 1.0 - _SURE:
                    for j in range(free, 0, -1):
                        rare[j] = rare[j] * (1.0 - p) + rare[j - 1] * p
                    rare[0] *= 1.0 - p
            total = 0.0
            for j in range(free + 1):
                total += rare[j]
                up_rare[j] = total
            total = 0.0
            for j in range(n + 1):
                total += often[j]
                up_often[j] = total
            for arm in range(k):
                p, weight = above[arm, i], h * _WEIGHTS[i] * density[arm, i]
                if weight < 1e-18 or p > _SURE:
                    continue
                if p > 0.5:
                    quotient[n - 1] = often[n] / p
                    for j in range(n - 1, 0, -1):
                        quotient[j - 1] = (often[j] - (1.0 - p) * quotient[j]) / p
                    found[arm] += weight * _at_most(free, quotient, n, up_rare, free + 1)
                else:
                    quotient[0] = rare[0] / (1.0 - p)
                    for j in range(1, free):
                        quotient[j] = (rare[j] - p * quotient[j - 1]) / (1.0 - p)
                    found[arm] += weight * _at_most(free, quotient, free, up_often, n + 1)


def inclusion_by_draws(least: Floats, a: Floats, b: Floats, slots: int) -> Floats:
    """Return the probability of each arm to be among the `slots` largest draws.

    Draw a is ``least[a] + (1 - least[a]) * X`` with X from Beta(a, b); both parameters must be 1 or more.

    Examples
    --------
    >>> inclusion_by_draws(np.zeros(4), np.ones(4), np.ones(4), 3).round(12)
    array([0.75, 0.75, 0.75, 0.75])
    """
    if slots >= a.size:
        return np.ones(a.size)
    lo, hi = (_end(slots, few, least, a, b) for few in (True, False))
    found = np.zeros(a.size)
    surely, ahead, scales = np.empty((3, a.size))
    _weigh(lo, hi, least, a, b, surely, ahead, scales)
    certain, out = ahead > _SURE, surely < 1.0 - _SURE
    found[certain] = 1.0
    left, free = ~(certain | out), slots - int(certain.sum())
    if not left.any() or free <= 0:
        return found
    x, a, b, scales = least[left], a[left], b[left], scales[left]
    for fall in _FALLS:
        part = ahead[left].copy()
        _sum_up(_panels(lo, hi, fall, x, a, b, scales), free, x, a, b, scales, part)
        if abs(part.sum() - free) <= _CLOSE * slots:
            found[left] = np.clip(part, 0.0, 1.0)
            return found
    raise ArithmeticError(f"probabilities of {left.size} arms sum to {part.sum():.9g} instead of {free}")
