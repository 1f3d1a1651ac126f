"""Priors and posteriors of arms' means, and lazy draws from them.

An arm's posterior is a Beta law on [x, 1]. Rewards of 0 and 1 have x = 0, and are its wins and losses. Other rewards
count as those of the two-point law on {x, 1} with their mean and variance: quiet ones leave little to draw, and the
upper tail is never lighter than the rewards themselves allow (see `docs/guard.md`).

An arm's draw is the quantile of its posterior at a uniform number u of (round, arm), so it exceeds a level if and
only if u exceeds the posterior's distribution function there. Policies that want the largest draws only keep a level
which these usually pass, and for each arm a bound on its distribution function there: an arm whose u is below is passed
over. The decision is exactly that of drawing all arms.

Priors are uniform, given, or one Beta law that is fitted to all arms: that of largest marginal likelihood, with the
weight of two more arms whose means are known and spread evenly, so that nothing seen means uniform. What is likely does
not depend on how arms were chosen: given the means, the choices depend on the past alone and cancel out. So all arms
count, without weights, however unevenly they were seen. Neither parameter falls below 1: an arm without a win is at
worst one with some more losses, and is not written off.
"""

from __future__ import annotations

import math
from typing import Any, NamedTuple

import numpy as np

from armtriage._arguments import check_number
from armtriage.intervals import two_points
from armtriage.kernels.beta import beta_cdf, beta_quantile, beta_tail_bound, digamma_trigamma
from armtriage.kernels.jit import inlined, kernel
from armtriage.kernels.random import uniform
from armtriage.kernels.record import Floats
from armtriage.policies.facts import within

_ROUNDING = 1e-10  # room for the error of `beta_cdf`: too little would lose an arm, more costs a draw in 1e10
FAR = 1e-3  # where the tail is this small, Chernoff's bound rules an arm out as well as the exact one, at less cost
STALE = 8  # rewards after which a loose bound is computed again: it is safe for ever, but costs needless draws
BELOW = 4.0  # spreads from the centre down to the level: a value below it has everybody drawn again
_MEMORY = 0.02  # weight of the last round in centre and spread, so that some fifty rounds count

FRACTIONAL = ("exact", "coin")
"""What becomes of rewards between 0 and 1: they count as they are, or as 1 with their own probability."""


@kernel
def gain(coin: bool, luck: np.uint64, arm: int, reward: float) -> float:
    """Return what a reward counts for; a coin comes from the columns before those of the draws."""
    if coin and 0.0 < reward < 1.0:
        return 1.0 if uniform(luck, -1 - arm) < reward else 0.0
    return reward


@kernel
@inlined
def posterior(
    wins: float, losses: float, between: float, prior_wins: float, prior_losses: float
) -> tuple[float, float, float]:
    """Return the least value x, and the parameters of the Beta law on [x, 1], of an arm's posterior.

    Between 0 and 1, a prior is as weak as its mean allows with both parameters from 1: what it counts as wins are
    rewards of 1, and many of those would keep quiet arms from being told apart.
    """
    if between <= 0.0 or losses <= 0.0:
        return 0.0, prior_wins + wins, prior_losses + losses
    count = wins + losses
    least, upper = two_points(count, wins, between)
    return least, 1.0 + upper, max(1.0, prior_losses / prior_wins) + count - upper


@kernel
@inlined
def mean_of(least: float, a: float, b: float) -> float:
    """Return the mean of a posterior."""
    return least + (1.0 - least) * (a / (a + b))


@kernel
def draw(luck: float, least: float, a: float, b: float) -> float:
    """Return the draw of an arm with this posterior."""
    return least + (1.0 - least) * beta_quantile(luck, a, b)


@kernel
def scaled(level: float, least: float) -> float:
    """Return where a level stands between the least value and 1."""
    return (level - least) / (1.0 - least)


@kernel
def band(a: float, b: float) -> float:
    """Return how far rounding can take the distribution function of Beta(a, b) off."""
    return max(_ROUNDING, 4e-16 * (a + b))


@kernel
def luck_needed(level: float, least: float, a: float, b: float) -> float:
    """Return a bound below the luck that takes a draw from a posterior to the level; below 0 if all luck does."""
    height = scaled(level, least)
    if height <= 0.0:
        return -1.0
    above = beta_tail_bound(height, a, b)
    if above < FAR:
        return 1.0 - above - band(a, b)
    return beta_cdf(height, a, b) - band(a, b)


@kernel
def follow(state: Any, least: float) -> None:
    """Note the least value that was chosen in a round, in `centre` and `spread`."""
    step = least - state.centre
    state.centre += _MEMORY * step
    state.spread += _MEMORY * (abs(step) - state.spread)


Prior = str | tuple[float, float]
_ALIKE = np.empty((2, 0))  # arms of which nothing is known beforehand

_EVEN = 2.0  # arms of evenly spread means that the fit starts from; 1 to 5 of them made no difference
_STEPS = 8
_NEAR = 0.01  # a step of the logarithms below which a fit is done
_MOST = 9.0  # the logarithm of the largest parameter
LARGEST = math.exp(_MOST)
_USUAL = 4.0  # rewards that the noise of all arms counts for in that of one; 2 to 10 made no difference on networks
LEAST_NOISE = 1e-6
_EDGE = 1e-4  # means that are expected lie so far inside of the range
# With fewer draws the best of very many no longer decides; chosen on the families of docs/guard.md, not all of them.
_SHARE = 3.0  # times the free slots, of the arms that a cover has, are drawn in a round,
_LEAST_SHARE = 0.1  # and at least this fraction: without it long runs lose a third more


def check_prior(name: str, value: Any, learned: bool) -> Prior:
    """Return a prior; ``"learned"`` only where it may be."""
    words = ("learned", "uniform") if learned else ("uniform",)
    if isinstance(value, str) and value in words:
        return value
    if not isinstance(value, tuple | list) or len(value) != 2:
        raise ValueError(f"{name} must be {', '.join(map(repr, words))} or two numbers (a, b), got {value!r}")
    a, b = (check_number(f"{name}[{i}]", one, positive=True) for i, one in enumerate(value))
    if max(a, b) > 1e6 or min(a, b) < 1e-3:
        raise ValueError(f"{name} must have numbers from 0.001 to a million, got {value!r}")
    return a, b


def starts_at(prior: Prior) -> tuple[float, float]:
    """Return the parameters before anything is seen."""
    return (1.0, 1.0) if isinstance(prior, str) else prior


class Centred(NamedTuple):
    """The parameters of priors with centres of their own: `fitted_around` says what they are."""

    prior_wins: float
    prior_losses: float
    even: float
    likely: Floats


def centred(means: Floats, spread: float | None) -> Centred:
    """Return priors around these means, with this standard deviation; without one, as they are before a fit."""
    means = np.clip(means, _EDGE, 1.0 - _EDGE)
    both = np.stack([means, 1.0 - means])
    if spread is not None:
        return Centred(1.0, 1.0, 1.0, both * np.maximum(means * (1.0 - means) / spread**2 - 1.0, 0.0))
    # Of the smaller of what is won and lost, Beta laws count so much that its standard deviation is about half of it.
    start = min(max(2.0 / float(np.median(both.min(axis=0))), 1.0), LARGEST)
    return Centred(start, start, digamma_trigamma(2.0 * start)[0] - digamma_trigamma(start)[0], 2.0 * both)


def check_prior_of(prior: Prior, found: tuple[float, float]) -> None:
    """Refuse parameters that were loaded and cannot have been fitted, or are not those given."""
    least, most = (1.0, LARGEST) if prior == "learned" else (min(starts_at(prior)), max(starts_at(prior)))
    for value in found:
        within("the prior", value, least, most)


@kernel
def next_fit(number: int) -> int:
    """Return the round of the next fit: when there have been half as many again."""
    return number + 1 + number // 2


@kernel
def drawn_share(free: int, cover: int) -> float:
    """Return which share of the arms that the incumbents do not reveal is drawn, where `cover` pulls show all arms."""
    return min(1.0, max(_LEAST_SHARE, _SHARE * free / max(cover, 1)))


@kernel
@inlined
def believed(wins: float, losses: float, between: float, a: float, b: float, weak: bool) -> tuple[float, float, float]:
    """Return the `posterior` of an arm with this prior, which may be `weak` because some rewards were no coins.

    An unseen arm then has as weak a one as an arm with such a reward. With a firmer one it would wait behind all of
    those: in `ucb_failure` with constant rewards that cost 1.7 times the regret.
    """
    if weak and wins + losses <= 0.0:
        return 0.0, 1.0, max(1.0, b / a)
    return posterior(wins, losses, between, a, b)


@kernel
def as_coins(wins: float, losses: float, between: float) -> tuple[float, float]:
    """Return how many coins, and wins of them, say as much of a mean as these rewards, by the variance they leave."""
    if between <= 0.0 or losses <= 0.0:
        return wins + losses, wins
    least, a, b = posterior(wins, losses, between, 1.0, 1.0)
    size = a + b
    known = max((least * size / (1.0 - least) + a) * (size + 1.0) / a - 3.0, 0.0)
    return known, known * wins / (wins + losses)


@kernel
def noise_of(wins: float, losses: float, between: float, usual: float) -> float:
    """Return the variance of an arm's rewards over that of a coin of its mean, with some more of the `usual` noise."""
    if between <= 0.0 or losses <= 0.0 or wins <= 0.0:
        return 1.0
    count = wins + losses
    coin = wins / count * (losses / count)
    own = max(coin * count - between, 0.0) / coin
    return min(1.0, max((_USUAL * usual + own) / (_USUAL + count - 1.0), LEAST_NOISE))


@kernel
def fitted(counts: Floats, wins: Floats, n: int, a: float, b: float) -> tuple[float, float]:
    """Return the parameters that fit the first n arms, by Newton steps of their logarithms from the last ones."""
    return fitted_around(counts, wins, _ALIKE, n, a, b, 1.0)


@kernel
def fitted_around(
    counts: Floats, wins: Floats, likely: Floats, n: int, a: float, b: float, even: float
) -> tuple[float, float]:
    """Return the same where the law of arm i is Beta(a u, b v), with u and v in column i of `likely`; none for 1.

    The arms that the fit starts from have -`even` for the mean of the logarithm of their means, and of 1 less those.
    """
    x, y = math.log(a), math.log(b)
    u, v = 1.0, 1.0
    for _ in range(_STEPS):
        a, b = math.exp(x), math.exp(y)
        da, ta = digamma_trigamma(a)
        db, tb = digamma_trigamma(b)
        dm, tm = digamma_trigamma(a + b)
        fa, fb = _EVEN * (dm - da - even), _EVEN * (dm - db - even)
        haa, hbb, hab = _EVEN * (tm - ta), _EVEN * (tm - tb), _EVEN * tm
        for i in range(n):
            if counts[i] > 0.0:
                if likely.size > 0:
                    u, v = likely[0, i], likely[1, i]
                    da, ta = digamma_trigamma(a * u)
                    db, tb = digamma_trigamma(b * v)
                    dm, tm = digamma_trigamma(a * u + b * v)
                dw, tw = digamma_trigamma(a * u + wins[i])
                dl, tl = digamma_trigamma(b * v + counts[i] - wins[i])
                dn, tn = digamma_trigamma(a * u + b * v + counts[i])
                fa += u * (dw - da - dn + dm)
                fb += v * (dl - db - dn + dm)
                haa += u * u * (tw - ta - tn + tm)
                hbb += v * v * (tl - tb - tn + tm)
                hab += u * v * (tm - tn)
        gx, gy = a * fa, b * fb
        hxx, hyy, hxy = a * a * haa + gx, b * b * hbb + gy, a * b * hab
        determinant = hxx * hyy - hxy * hxy
        if hxx < 0.0 and hyy < 0.0 and determinant > 1e-10 * hxx * hyy:
            sx, sy = (hxy * gy - hyy * gx) / determinant, (hxy * gx - hxx * gy) / determinant
        else:
            sx, sy = gx / (abs(hxx) + abs(hxy) + 1e-9), gy / (abs(hyy) + abs(hxy) + 1e-9)
        largest = max(abs(sx), abs(sy))
        if not largest < math.inf:
            break
        cut = 1.0 / max(largest, 1.0)
        x, y = min(max(x + cut * sx, 0.0), _MOST), min(max(y + cut * sy, 0.0), _MOST)
        if largest < _NEAR:
            break
    return math.exp(x), math.exp(y)
