"""Places of a page: draws by clicks and the weights of their places, and what swaps of neighbours say of the weights.

A click in a place of weight k has the mean k t, t being the item's at the top. Clicks C and the sum N of the weights of
their places are all that is known of an item; draws are from Gamma(a + C, a + b + N), cut at 1. The largest draws are
shown, in the order of what is half way between draw and mean: what is hardly known is looked at where that costs less.

If a coin decides which of two neighbours is on top, the click below has r times the mean of the one above, r being the
ratio of their weights, whatever the items. With x and y the clicks below and above, and p = r / (1 + r), factors of
1 + (q/p - 1) (x - r y) have mean 1 and are never negative, for any q in (0, 1). That bounds the ratios. Weights that
are learnt are estimated from all clicks: after 15,000 pages with an error of 0.02, where swaps alone gave one of 0.13.
"""

from __future__ import annotations

import math
from typing import NamedTuple

import numpy as np
from numpy.typing import NDArray

from armtriage.kernels.beta import gamma_draw
from armtriage.kernels.jit import kernel
from armtriage.kernels.order import top_first
from armtriage.kernels.record import Record, blank, fact
from armtriage.policies.evidence import Evidence, as_least
from armtriage.policies.request import Kernels, Request, learn_nothing, list_candidates, luck_of

Floats = NDArray[np.float64]

RENEWED = 1000
"""Decisions after which learnt weights are computed again."""

_DOUBT = 5.0  # clicks in each place that weights of 1, 1/2, 1/3, ... are worth before any other
_TURNS = 50
_Q = np.sin(np.linspace(0.0, np.pi / 2, 201)[1:-1]) ** 2  # equally likely: Beta(1/2, 1/2), as good as
_RATIOS = np.geomspace(0.01, 100.0, 1201)  # a ratio is known to 1% at best, after millions of swaps


class Positions(NamedTuple):
    """The weights of the places of a page, and for each but the last what the next one's is of it, at least and most.

    The bounds follow from swaps of neighbours alone, and hold together and at all times with the stated probability.
    """

    weights: Floats
    low: Floats
    high: Floats


class PlaceParams(Record, frozen=True):
    """Parameters of draws: the prior of an item that was never seen."""

    prior_clicks: float
    prior_told: float


class Places(Record):
    """How often each item was shown, told and clicked in each place, and which neighbours were clicked after a coin."""

    shown: NDArray[np.int64] = fact(0, "asked")  # (K, S)
    told: NDArray[np.int64] = fact(0, "shown")  # (K, S)
    clicks: NDArray[np.float64] = fact(0.0, "told")  # (K, S)
    pairs: NDArray[np.int64] = fact(0, "asked")  # (S - 1, 3) clicks below alone, above alone, and both
    weights: NDArray[np.float64] = fact(0.0, 1.0)  # (S,)
    values: NDArray[np.float64]  # (K,) scratch
    chosen: NDArray[np.int64]  # (K,) scratch
    closed: int = fact(0, "asked")  # decisions


def new_places(n_arms: int, weights: Floats) -> Places:
    """Return places in which nothing was shown."""
    shown, told = np.zeros((2, n_arms, weights.size), np.int64)
    pairs, clicks = np.zeros((weights.size - 1, 3), np.int64), np.zeros(told.shape)
    return blank(Places, n_arms, shown=shown, told=told, clicks=clicks, pairs=pairs, weights=weights.copy())


def first_weights(size: int) -> Floats:
    """Return the weights that are learnt from: 1, 1/2, 1/3, ..."""
    return 1.0 / np.arange(1.0, size + 1.0)


def learnt_weights(told: NDArray[np.int64], clicks: Floats, prior_clicks: float, prior_told: float) -> Floats:
    """Return weights and rates that explain each other best, found in turn: clicks are those of told, weight and rate.

    Examples
    --------
    >>> learnt_weights(np.array([[900, 100], [100, 900]]), np.array([[90.0, 5.0], [8.0, 36.0]]), 0.5, 5.0).round(2)
    array([1. , 0.5])
    """
    usual = first_weights(told.shape[1])
    weights, total, each = usual, clicks.sum(axis=0), clicks.sum(axis=1)
    for _ in range(_TURNS):  # without matrix products, whose last digits differ between processors
        rates = (prior_clicks + each) / (prior_told + (told * weights).sum(axis=1))
        weights = (_DOUBT + total) / (_DOUBT / usual + (told * rates[:, None]).sum(axis=0))
        weights = np.minimum.accumulate(np.append(1.0, weights[1:]))
    return weights


def log_capital(ratio: Floats, clicks: NDArray[np.int64]) -> Floats:
    """Return the logarithm of what bets against ratios of neighbours' weights have won, by three counts of clicks."""
    r = np.asarray(ratio, np.float64)[..., None]
    p, (below, above, both) = r / (1.0 + r), clicks.tolist()
    parts = below * np.log(_Q / p) + above * np.log((1.0 - _Q) / (1.0 - p))
    if both:
        parts = parts + both * np.log(np.maximum(1.0 + (_Q / p - 1.0) * (1.0 - r), 1e-300))
    most = parts.max(axis=-1, keepdims=True)
    found: Floats = most[..., 0] + np.log(np.exp(parts - most).mean(axis=-1))
    return found


def ratio_interval(clicks: NDArray[np.int64], delta: float) -> tuple[float, float]:
    """Return what the ratio of neighbours' weights is at least and at most; it ever fails with probability `delta`.

    Examples
    --------
    >>> low, high = ratio_interval(np.array([60, 100, 10]), 0.05)
    >>> round(low, 2), round(high, 2)
    (0.38, 1.03)
    """
    inside = np.flatnonzero(log_capital(_RATIOS, clicks) < math.log(1.0 / delta))
    if not inside.size:
        return math.inf, 0.0
    first, last = int(inside[0]), int(inside[-1])
    low = 0.0 if first == 0 else float(_RATIOS[first - 1])
    return low, math.inf if last == _RATIOS.size - 1 else float(_RATIOS[last + 1])


@kernel
def _draw_and_mean(
    params: PlaceParams, evidence: Evidence, own: Places, arm: int, luck: np.uint64
) -> tuple[float, float]:
    clicks, told = params.prior_clicks + evidence.wins[arm], params.prior_told + as_least(evidence.missed[arm])
    for place in range(own.weights.size):
        told += own.told[arm, place] * own.weights[place]
    return min(gamma_draw(luck, arm, clicks) / told, 1.0), min(clicks / told, 1.0)


@kernel
def choose(params: PlaceParams, evidence: Evidence, own: Places, request: Request) -> bool:
    """Fill `arms` with the candidates of largest draw; never committed."""
    list_candidates(evidence, request)
    luck = luck_of(request)
    for i in range(request.n):
        arm = request.among[i]
        own.chosen[i], own.values[i] = arm, _draw_and_mean(params, evidence, own, arm, luck)[0]
    top_first(own.values, own.chosen, request.n, request.size)
    for i in range(request.size):
        request.arms[i] = own.chosen[i]
    return False


@kernel
def believe(params: PlaceParams, evidence: Evidence, own: Places, request: Request) -> None:
    """Write what the arms chosen are put in order by, as laws of one point.

    With draws alone, what is hardly known stands on top too often; with means alone, what was unlucky there never.
    """
    for i in range(request.size):
        draw, mean = _draw_and_mean(params, evidence, own, request.arms[i], luck_of(request))
        request.beliefs[0, i], request.beliefs[1, i] = 0.0, (draw + mean) / 2.0
        request.beliefs[2, i], request.beliefs[3, i] = 1.0, 1.0


KERNELS = Kernels(choose, learn_nothing, believe)
