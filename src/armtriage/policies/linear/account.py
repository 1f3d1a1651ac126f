"""What a slate can lose by the ellipsoids of all rewards, and the account of what was admitted.

With probability 1 - delta, theta lies in its ellipsoid in every round, however slates and contexts are chosen. So do
the means in their boxes, and no slate beats V by more than an exchange of upper ends outside V for lower ends inside.
"""

from __future__ import annotations

import math
from typing import Any

import numpy as np

from armtriage.kernels.jit import kernel
from armtriage.kernels.order import best_arms, sort_pairs
from armtriage.kernels.record import Floats, Ints, Record, blank, fact
from armtriage.policies.linear.regression import Params

_INVERSE_LOG_2 = 1.0 / math.log(2.0)
_CHANGE = 1e-6  # of the most that a slate can lose: while both sides are sums of that, rounding must not decide
_HAIR = 1e-9  # by how much ends may cross before it is more than rounding


class Book(Record):
    """What all slates can have lost, by what was known when they were chosen."""

    spent: float = fact(0.0, "lost")  # by those that were admitted
    total: float = fact(0.0, "lost")  # by all
    forced: int = fact(0, "asked")
    contradictions: int = fact(0, "boxes")  # boxes without any mean


class Boxes(Record):
    """Ends of the means of a round, and scratch."""

    facts = ()
    lower: Floats  # (K,)
    upper: Floats  # (K,)
    estimates: Floats  # (K,)
    squares: Floats  # (K,) of the widths
    reaches: Floats  # (K,) radii of the ellipsoids
    values: Floats  # (K,)
    outside: Floats  # (K,) upper ends of arms that are not in the slate
    order: Ints  # (K,)
    chosen: Ints  # (K,) whether an arm is in the slate
    ends: Floats  # (S,)
    places: Ints  # (S,)


def new_boxes(n_arms: int, budget: int) -> Boxes:
    """Return room for a round."""
    return blank(Boxes, n_arms, ends=np.zeros(budget), places=np.zeros(budget, np.int64))


@kernel
def radius(params: Params, log_det: float, rewards: float) -> float:
    """Return the radius of the ellipsoid around the estimate of so many rewards.

    If each mean is off by b, the estimate is off by V^-1 X'b, whose norm is at most that of the vector b.
    """
    noise, longest = params.noise, params.norm_bound
    own = math.sqrt(noise * noise * (log_det - 2.0 * params.log_delta) + params.ridge * longest * longest)
    return own + params.bias * math.sqrt(rewards)


@kernel
def allowance(params: Params, models: int, log_share: float, rounds: int) -> float:
    """Return F: what playing the largest upper ends for so many rounds can lose.

    Each of so many thetas has at least ``exp(-log_share)`` of delta. How often one is pulled bounds its radius; the
    potential is that of all together.
    """
    d, whole, pulls = params.dimension, models * params.dimension, params.budget * float(rounds)
    potential = whole * math.log1p(pulls / (whole * params.ridge))
    most = params.most * float(rounds)
    widest = radius(params, d * math.log1p(most / (d * params.ridge)) + 2.0 * log_share, most)
    width, doubled = params.high - params.low, _INVERSE_LOG_2 * potential
    off = 2.0 * params.bias * pulls
    return min(width * pulls, 2.0 * widest * math.sqrt(doubled * pulls) + width * params.budget * doubled + off)


@kernel
def _find_boxes(params: Params, boxes: Boxes, book: Book, n: int) -> None:
    """Compute the ends of n means from their estimates, the squares of their widths and the radii."""
    empty = 0
    for place in range(n):
        middle = boxes.estimates[place]
        half = boxes.reaches[place] * math.sqrt(boxes.squares[place]) + params.bias
        low, high = max(params.low, middle - half), min(params.high, middle + half)
        boxes.lower[place], boxes.upper[place] = low, high
        empty += low > high + _HAIR
    book.contradictions += empty


@kernel
def _price_of(boxes: Boxes, n: int, arms: Ints) -> float:
    """Return what a slate can lose at most: the largest upper ends outside for the least lower ends inside."""
    lower, upper, chosen, size = boxes.lower[:n], boxes.upper[:n], boxes.chosen[:n], arms.size
    values, outside, ends, places = boxes.values[:n], boxes.outside[:n], boxes.ends[:size], boxes.places[:size]
    for arm in range(n):
        chosen[arm], outside[arm] = 0, upper[arm]
    for i in range(size):
        chosen[arms[i]], outside[arms[i]] = 1, -np.inf
        ends[i], places[i] = -lower[arms[i]], i
    sort_pairs(ends, places, size)
    best_arms(outside, values, places)
    for i in range(size):
        values[i] = outside[places[i]]
    sort_pairs(values, places, size)
    total = 0.0
    for i in range(size):
        total += max(values[i] + ends[i], 0.0)
    return total


@kernel
def admit(params: Params, state: Any, n: int, number: int, arms: Ints) -> float:
    """Admit the slate while the account stays within what is allowed, or else play the largest upper ends.

    Return what the slate can lose. `boxes.chosen` says which arms it has.
    """
    boxes, book, known = state.boxes, state.book, state.known
    _find_boxes(params, boxes, book, n)
    allowed = params.factor * allowance(params, known, state.log_shares[known - 1], number + 1)
    price, hair = _price_of(boxes, n, arms), _CHANGE * params.budget * (params.high - params.low)
    if price > 0.0 and book.spent + price > allowed + hair:
        book.forced += 1
        best_arms(boxes.upper[:n], boxes.values[:n], arms)
        price = _price_of(boxes, n, arms)
    else:
        book.spent += price
    book.total += price
    return price
