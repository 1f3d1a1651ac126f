"""What a slate can lose by the ellipsoid of all rewards, and the account of what was admitted.

With probability 1 - delta, theta lies in the ellipsoid in every round, whoever chooses and whatever the contexts. So do
the means in their boxes, and no slate beats V by more than an exchange of upper ends outside V for lower ends inside.
"""

from __future__ import annotations

import math

import numpy as np
from numpy.typing import NDArray

from armtriage.kernels.jit import kernel
from armtriage.kernels.order import best_arms, largest_first, sort_pairs
from armtriage.kernels.record import Record

__all__ = ["Book", "Boxes", "PriceParams", "admit", "allowance", "find_boxes", "new_book", "new_boxes", "radius"]

_INVERSE_LOG_2 = 1.0 / math.log(2.0)
_CHANGE = 1e-6  # of the most that a slate can lose: while both sides are sums of that, rounding must not decide
_HAIR = 1e-9  # by how much ends may cross before it is more than rounding


class PriceParams(Record, frozen=True):
    """The assumptions of the ellipsoid, and what may be admitted."""

    dimension: int
    budget: int
    noise: float
    ridge: float
    norm_bound: float
    log_delta: float
    factor: float
    low: float  # of means
    high: float


class Book(Record):
    """What all slates can have lost, by what was known when they were chosen."""

    spent: float  # by those that were admitted
    total: float  # by all
    forced: int
    contradictions: int  # boxes without any mean


class Boxes(Record):
    """Ends of the means of a round, and scratch."""

    facts = ()
    lower: NDArray[np.float64]  # (K,)
    upper: NDArray[np.float64]  # (K,)
    estimates: NDArray[np.float64]  # (K,)
    squares: NDArray[np.float64]  # (K,) of the widths
    values: NDArray[np.float64]  # (K,)
    outside: NDArray[np.float64]  # (K,) upper ends of arms that are not in the slate
    order: NDArray[np.int64]  # (K,)
    chosen: NDArray[np.int64]  # (K,) whether an arm is in the slate
    ends: NDArray[np.float64]  # (S,)
    places: NDArray[np.int64]  # (S,)


def new_book() -> Book:
    """Return a book without entries."""
    return Book(spent=0.0, total=0.0, forced=0, contradictions=0)


def new_boxes(n_arms: int, budget: int) -> Boxes:
    """Return room for a round."""
    lower, upper, estimates, squares, values, outside = np.zeros((6, n_arms))
    order, chosen = np.zeros((2, n_arms), np.int64)
    ends, places = np.zeros(budget), np.zeros(budget, np.int64)
    return Boxes(lower, upper, estimates, squares, values, outside, order, chosen, ends, places)


@kernel
def radius(params: PriceParams, log_det: float) -> float:
    """Return the radius of the ellipsoid around the estimate."""
    noise, longest = params.noise, params.norm_bound
    return math.sqrt(noise * noise * (log_det - 2.0 * params.log_delta) + params.ridge * longest * longest)


@kernel
def allowance(params: PriceParams, rounds: int) -> float:
    """Return F: what playing the largest upper ends for so many rounds can lose."""
    d, size, width = params.dimension, params.budget, params.high - params.low
    pulls = size * float(rounds)
    potential = d * math.log1p(pulls / (d * params.ridge))
    widest, doubled = radius(params, potential), _INVERSE_LOG_2 * potential
    return min(width * pulls, 2.0 * widest * math.sqrt(doubled * pulls) + width * size * doubled)


@kernel
def find_boxes(params: PriceParams, boxes: Boxes, book: Book, log_det: float, n: int) -> float:
    """Compute the ends of n means from their estimates and the squares of their widths; return the radius."""
    lower, upper, estimates, squares = boxes.lower[:n], boxes.upper[:n], boxes.estimates[:n], boxes.squares[:n]
    reach, low, high = radius(params, log_det), params.low, params.high
    empty = 0
    for arm in range(n):
        half = reach * math.sqrt(squares[arm])
        lower[arm], upper[arm] = max(low, estimates[arm] - half), min(high, estimates[arm] + half)
        empty += lower[arm] > upper[arm] + _HAIR
    book.contradictions += empty
    return reach


@kernel
def _price(boxes: Boxes, n: int, arms: NDArray[np.int64]) -> float:
    """Return what a slate can lose at most: the largest upper ends outside for the least lower ends inside."""
    lower, upper, chosen, size = boxes.lower[:n], boxes.upper[:n], boxes.chosen[:n], arms.size
    values, outside, ends, places = boxes.values[:n], boxes.outside[:n], boxes.ends[:size], boxes.places[:size]
    for arm in range(n):
        chosen[arm], outside[arm] = 0, upper[arm]
    for i in range(size):
        chosen[arms[i]], outside[arms[i]] = 1, -np.inf
        ends[i], places[i] = -lower[arms[i]], i
    largest_first(outside, values, size)
    sort_pairs(ends, places, size)
    for i in range(size):
        places[i] = i
    sort_pairs(values, places, size)
    total = 0.0
    for i in range(size):
        total += max(values[i] + ends[i], 0.0)
    return total


@kernel
def admit(params: PriceParams, boxes: Boxes, book: Book, n: int, number: int, arms: NDArray[np.int64]) -> float:
    """Admit the slate while the account stays within the allowance, or else play the largest upper ends.

    Return what the slate can lose. `boxes.chosen` says which arms it has.
    """
    price, hair = _price(boxes, n, arms), _CHANGE * params.budget * (params.high - params.low)
    if price == 0.0 or book.spent + price <= params.factor * allowance(params, number + 1) + hair:
        book.spent += price
    else:
        book.forced += 1
        best_arms(boxes.upper[:n], boxes.values[:n], arms)
        price = _price(boxes, n, arms)
    book.total += price
    return price
