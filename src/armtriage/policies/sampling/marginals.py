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

from armtriage.kernels.beta import beta_cdf, beta_tail_bound, log_beta
from armtriage.kernels.jit import apart, kernel
from armtriage.kernels.record import Floats, Ints

_N = 10
_GAUSS = np.polynomial.legendre.leggauss(_N)
_NODES, _WEIGHTS = (_GAUSS[0] + 1.0) / 2.0, _GAUSS[1] / 2.0
# Column i integrates the polynomial through the nodes from 0 to node i.
_UP_TO = np.array(
    [
        [np.polynomial.Polynomial.fromroots(np.delete(_NODES, j)).integ()(one) for j in range(_N)]
        / np.array([np.prod(_NODES[j] - np.delete(_NODES, j)) for j in range(_N)])
        for one in _NODES
    ]
).T.copy()
_SIXTH = 1.0 / 6.0
_LOG_TINY = 34.0  # probabilities below e^-34 do not count
_TINY = math.exp(-_LOG_TINY)
_SMALL = 16.0  # a sum of parameters up to which tails are exact
_FALLS = (12.0, 6.0, 3.0)  # how much a logarithm of a density may change on a panel: 12 leaves relative errors of 1e-8
_SURE = 1.0 - 1e-15  # arms above this count as one above, and those below 1 less this as none
_CLOSE = 1e-6  # how far the sum may be off, as a share of S


@kernel
def _beyond(x: float, least: float, a: float, b: float) -> float:
    """Return the probability that a draw is above a value."""
    return 1.0 if x <= least else 1.0 - beta_cdf((x - least) / (1.0 - least), a, b)


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
def _tail(x: float, a: float, b: float) -> float:
    """Return P(X >= x) for X of Beta(a, b), or more: where exact ones take long, Chernoff's bound is close enough."""
    return beta_cdf(1.0 - x, b, a) if a + b < _SMALL else beta_tail_bound(x, a, b)


@kernel
def _is_beyond(x: float, slots: int, few: bool, order: Ints, least: Floats, a: Floats, b: Floats) -> bool:
    """Whether the S-th largest draw surely is not below a value, if `few`, or else not above it; arms by their means.

    It is above if the first S arms are, and below if all but the first S - 1 are. Where little is known, the number of
    draws above says more.
    """
    union, mean = 0.0, 0.0
    for i in range(order.size):
        arm = order[i]
        y = (x - least[arm]) / (1.0 - least[arm])
        if few:
            tail = _tail(1.0 - y, b[arm], a[arm]) if y > 0.0 else 0.0
            if i < slots:
                union += tail
            elif i == slots and union < _TINY:
                return True
            mean += 1.0 - tail
        else:
            tail = _tail(y, a[arm], b[arm]) if y > 0.0 else 1.0
            if i >= slots - 1:
                union += tail
            mean += tail
    return union < _TINY or _unlikely(mean, slots, few)


@kernel
def _end(slots: int, few: bool, order: Ints, least: Floats, a: Floats, b: Floats) -> float:
    """Return the value below which the S-th largest draw surely is not, or above which."""
    low, high = 0.0, 1.0
    for _ in range(14):  # a wider range only means a panel more
        middle = 0.5 * (low + high)
        if _is_beyond(middle, slots, few, order, least, a, b) == few:
            low = middle
        else:
            high = middle
    return low if few else high


@kernel
def _bracket(
    slots: int, order: Ints, least: Floats, a: Floats, b: Floats, surely: Floats, ahead: Floats, scales: Floats
) -> tuple[float, float]:
    """Return between what the S-th largest draw is; write with which probabilities draws are above, and scales."""
    lo, hi = _end(slots, True, order, least, a, b), _end(slots, False, order, least, a, b)
    for arm in range(a.size):
        surely[arm], ahead[arm] = _beyond(lo, least[arm], a[arm], b[arm]), _beyond(hi, least[arm], a[arm], b[arm])
        scales[arm] = log_beta(a[arm], b[arm])
    return lo, hi


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
def _logs(x: float) -> tuple[float, float]:
    """Return what densities at a value are made of: its logarithm, and that of what is left to 1."""
    return math.log(max(x, 1e-300)), math.log1p(-min(x, 1.0 - 1e-16))


@kernel
def _log_at(x: float, logs: tuple[float, float], least: float, a: float, b: float, scale: float) -> float:
    """Return the logarithm of a density; mostly all draws may be as small as 0, and share the logarithms of a value."""
    if least > 0.0:
        return _log_density(x, least, a, b, scale)
    return (a - 1.0) * logs[0] + (b - 1.0) * logs[1] - scale


@kernel
def _find_peaks(least: Floats, a: Floats, b: Floats, scales: Floats, peaks: Floats, tops: Floats) -> None:
    """Write where densities are largest, and their logarithms there."""
    for arm in range(a.size):
        peaks[arm] = (a[arm] - 1.0) / max(a[arm] + b[arm] - 2.0, 1e-9) * (1.0 - least[arm]) + least[arm]
        tops[arm] = _log_density(peaks[arm], least[arm], a[arm], b[arm], scales[arm])


@kernel
def _too_wide(
    start: float,
    end: float,
    fall: float,
    least: Floats,
    a: Floats,
    b: Floats,
    scales: Floats,
    peaks: Floats,
    tops: Floats,
) -> bool:
    """Whether a density that counts changes too much between two values."""
    h = end - start
    x, y, z = start + 0.1 * h, start + 0.5 * h, end - 0.1 * h
    first, last, logs_x, logs_y, logs_z, width = _logs(start), _logs(end), _logs(x), _logs(y), _logs(z), math.log(h)
    for arm in range(a.size):
        top = tops[arm]
        if peaks[arm] < start:
            top = _log_at(start, first, least[arm], a[arm], b[arm], scales[arm])
        elif peaks[arm] > end:
            top = _log_at(end, last, least[arm], a[arm], b[arm], scales[arm])
        if top + width < -_LOG_TINY:
            continue
        if start < least[arm] < end:
            return True
        low = min(
            _log_at(x, logs_x, least[arm], a[arm], b[arm], scales[arm]),
            _log_at(y, logs_y, least[arm], a[arm], b[arm], scales[arm]),
            _log_at(z, logs_z, least[arm], a[arm], b[arm], scales[arm]),
        )
        if top - low > fall:
            return True
    return False


@kernel
def _panels(
    lo: float, hi: float, fall: float, least: Floats, a: Floats, b: Floats, scales: Floats, peaks: Floats, tops: Floats
) -> Floats:
    """Return where panels end, so fine that no density changes too much on any of them."""
    edges, n = np.empty(1 << 14), 0
    ends, depth, start = np.empty(64), 0, lo
    for i in range(5, -1, -1):
        ends[depth] = hi if i == 5 else lo + (hi - lo) * (i + 1) / 6.0
        depth += 1
    edges[n], n = lo, 1
    while depth > 0 and n < edges.size - 64:
        end = ends[depth - 1]
        deep = end - start < 1e-9 or depth >= 60
        if not deep and _too_wide(start, end, fall, least, a, b, scales, peaks, tops):
            ends[depth] = 0.5 * (start + end)
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
def _add_up(law: Floats, n: int, up: Floats) -> None:
    """Write the sums of the first probabilities of a law."""
    total = 0.0
    for j in range(n):
        total += law[j]
        up[j] = total


@kernel
@apart
def _weigh_at(wins: Floats, losses: Floats, scales: Floats, log: float, rest: float, row: Floats) -> None:
    """Write all densities at a node: e to a power as (e^y)^1024, which is computed for several arms at once."""
    for arm in range(row.size):
        x = wins[arm] * log + losses[arm] * rest - scales[arm]
        y = (x if x > -700.0 else -700.0) / 1024.0
        z = 1.0 + y * (1.0 + y * (0.5 + y * (_SIXTH + y * (_SIXTH / 4.0 + y * (_SIXTH / 20.0 + y * _SIXTH / 120.0)))))
        for _ in range(10):
            z *= z
        row[arm] = z


@kernel
@apart
def _add_to(total: Floats, share: float, row: Floats) -> None:
    """Add a share of a row to a total."""
    for arm in range(total.size):
        total[arm] += share * row[arm]


@kernel
@apart
def _leave(below: Floats, h: float, total: Floats, row: Floats) -> None:
    """Write the probabilities to be above a value; `total` times h are those to be between the panel's start and it."""
    for arm in range(row.size):
        p = 1.0 - below[arm] - h * total[arm]
        row[arm] = 1.0 if p > 1.0 else 0.0 if p < 0.0 else p


@kernel
def _follow(
    start: float,
    h: float,
    least: Floats,
    wins: Floats,
    losses: Floats,
    scales: Floats,
    base: Floats,
    total: Floats,
    density: Floats,
    above: Floats,
) -> None:
    """Write densities at the nodes of a panel, and probabilities to be above them; `base`, to be below, moves on."""
    for i in range(_N):
        x = start + h * _NODES[i]
        log, rest = _logs(x)
        row = density[i]
        _weigh_at(wins, losses, scales, log, rest, row)
        for arm in range(least.size):
            if least[arm] > 0.0:
                there = _log_density(x, least[arm], wins[arm] + 1.0, losses[arm] + 1.0, scales[arm])
                row[arm] = math.exp(there) / (1.0 - least[arm])
    for i in range(_N):
        total[:] = 0.0
        for j in range(_N):
            _add_to(total, _UP_TO[j, i], density[j])
        _leave(base, h, total, above[i])
    for j in range(_N):
        _add_to(base, h * _WEIGHTS[j], density[j])


@kernel
def _without(p: float, law: Floats, free: int) -> float:
    """Return P(N < free) without an arm that is above with p <= 1/2; `law` has P(N <= n) with it."""
    total, power = 0.0, 1.0 / (1.0 - p)
    odds = -p * power
    for k in range(free - 1, -1, -1):
        total += power * law[k]
        power *= odds
        if abs(power) < 1e-17:
            break
    return total


@kernel
def _sum_up(
    edges: Floats, slots: int, least: Floats, a: Floats, b: Floats, scales: Floats, below: Floats, found: Floats
) -> None:
    """Add the integral of each density times the probability that fewer than `slots` others are above.

    `below` are the probabilities to be below the first edge.
    """
    k = a.size
    base, total, density, above = below.copy(), np.empty(k), np.empty((_N, k)), np.empty((_N, k))
    wins, losses = a - 1.0, b - 1.0
    rare, often, quotient = np.empty(slots + 1), np.empty(k + 1), np.empty(k + 1)
    up_rare, up_all = np.empty(slots + 1), np.empty(slots + 1)
    for panel in range(edges.size - 1):
        start, h = edges[panel], edges[panel + 1] - edges[panel]
        _follow(start, h, least, wins, losses, scales, base, total, density, above)
        for i in range(_N):
            rare[:] = 0.0
            rare[0] = often[0] = 1.0
            n, m, free = 0, 0, slots
            up = above[i]
            for arm in range(k):
                free -= int(up[arm] > _SURE)
            if free <= 0:
                continue
            for arm in range(k):
                p = up[arm]
                if p > _SURE or p < 1.0 - _SURE:
                    continue
                if p > 0.5:
                    often[n + 1] = often[n] * p
                    for j in range(n, 0, -1):
                        often[j] = often[j] * (1.0 - p) + often[j - 1] * p
                    often[0] *= 1.0 - p
                    n += 1
                else:
                    # As many above as have hardly any probability are left out: most arms are above hardly ever.
                    m = min(m + 1, free)
                    for j in range(m, 0, -1):
                        rare[j] = rare[j] * (1.0 - p) + rare[j - 1] * p
                    rare[0] *= 1.0 - p
                    if rare[m] < 1e-20:
                        rare[m] = 0.0
                        m -= 1
            _add_up(rare, free + 1, up_rare)
            for j in range(free):
                up_all[j] = _at_most(j + 1, often, n + 1, up_rare, free + 1)
            share, row = h * _WEIGHTS[i], density[i]
            for arm in range(k):
                p, weight = up[arm], share * row[arm]
                # Without an arm that is above with p <= 1/2, fewer than `free` are at most twice as likely.
                if weight * (1.0 if p > 0.5 else 2.0 * up_all[free - 1]) < 1e-18 or p > _SURE:
                    continue
                if p > 0.5:
                    quotient[n - 1] = often[n] / p
                    for j in range(n - 1, 0, -1):
                        quotient[j - 1] = (often[j] - (1.0 - p) * quotient[j]) / p
                    found[arm] += weight * _at_most(free, quotient, n, up_rare, free + 1)
                else:
                    found[arm] += weight * _without(p, up_all, free)


@kernel
def _integrate(
    lo: float,
    hi: float,
    slots: int,
    close: float,
    least: Floats,
    a: Floats,
    b: Floats,
    scales: Floats,
    below: Floats,
    found: Floats,
) -> bool:
    """Add the integrals to `found`, on finer panels until the sum is close enough to the slots; say whether it is."""
    peaks, tops = np.empty(a.size), np.empty(a.size)
    _find_peaks(least, a, b, scales, peaks, tops)
    ahead = found.copy()
    for fall in _FALLS:
        found[:] = ahead
        _sum_up(_panels(lo, hi, fall, least, a, b, scales, peaks, tops), slots, least, a, b, scales, below, found)
        if abs(found.sum() - slots) <= close:
            for arm in range(a.size):
                found[arm] = min(max(found[arm], 0.0), 1.0)
            return True
    return False


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
    order = np.argsort(-(least + (1.0 - least) * a / (a + b)))
    found = np.zeros(a.size)
    surely, ahead, scales = np.empty((3, a.size))
    lo, hi = _bracket(slots, order, least, a, b, surely, ahead, scales)
    certain = ahead > _SURE
    left = ~certain & (surely >= 1.0 - _SURE)
    found[certain] = 1.0
    free = slots - int(certain.sum())
    if not left.any() or free <= 0:
        return found
    part = ahead[left]
    if _integrate(lo, hi, free, _CLOSE * slots, least[left], a[left], b[left], scales[left], 1.0 - surely[left], part):
        found[left] = part
        return found
    raise ArithmeticError(f"probabilities of {part.size} arms sum to {part.sum():.9g} instead of {free}")
