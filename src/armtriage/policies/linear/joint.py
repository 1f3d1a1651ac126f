"""The joint certificate: all slates so far, priced by today's ellipsoid and one theta, in d^2 memory.

For every theta and any vector v, a slate loses at most the sum of (theta'y)+, where y is x - v for arms outside and
v - x for those inside. Since (f)+ <= (f + k)^2 / (4 k) for every k > 0, that is at most a quadratic function of theta.
Quadratics are summed as rounds go by, and their sum is maximised over the ellipsoid when somebody asks.

Slots of rounds that double in length have a sum each. Where the prices of the time are the smaller, they stand for it.
"""

from __future__ import annotations

import math
from typing import NamedTuple

import numpy as np
from numpy.typing import NDArray

from armtriage.kernels.jit import kernel
from armtriage.kernels.order import inner
from armtriage.kernels.record import Record
from armtriage.kernels.ridge import Ridge, image
from armtriage.policies.linear.pricing import Book, Boxes

__all__ = ["Joint", "book_price", "book_slate", "joint_bound", "new_joint"]

# k is at least so much of an arm's width. On a sphere (d=10, K=50, T=8,000) bounds were 2,551 with it and 3,041 with
# 0.1; with 0.1 and 0.4 beside each other, at twice the price, 2,472.
_SHARE = 0.2
# The first rounds have the most to gain from what is learned later, and are few: quadratics stand for them also where
# they seem larger than the price. On a quiet sphere (d=4, K=20, T=2,000) bounds were 6.4 with that and 9.6 without.
_EARLY, _PATIENCE = 64, 2.0
_SLOTS = 3  # six gave the same there
_LANES = 8
_LEAST = 1e-12  # k: where nothing is open it does not matter
_STEPS = np.geomspace(1e-5, 1e3, 80)  # beyond the largest eigenvalue: every one gives a bound
_HAIR = 1e-9  # what sums of millions of terms may have lost to rounding
_ROUNDING = 1e-13


class Joint(Record):
    """Sums of quadratics theta' M theta + m' theta + k, by slot, and of prices."""

    facts = ("matrices", "vectors", "constants", "prices", "used")
    matrices: NDArray[np.float64]  # (slots, d, d) the lower triangle of M
    vectors: NDArray[np.float64]  # (slots, d) m
    constants: NDArray[np.float64]  # (slots,) k
    prices: NDArray[np.float64]  # (slots,) what the slates can have lost by what was known at the time
    middle: NDArray[np.float64]  # (d,) v
    cross: NDArray[np.float64]  # (d,)
    lanes: NDArray[np.float64]  # (LANES, d) y of some arms
    weights: NDArray[np.float64]  # (LANES,)
    used: int  # slots, the oldest first


def new_joint(dimension: int, kept: bool) -> Joint:
    """Return sums over no round, or no room for them."""
    slots, d = _SLOTS if kept else 0, dimension
    middle, cross = np.zeros((2, d))
    constants, prices = np.zeros((2, slots))
    return Joint(
        np.zeros((slots, d, d)),
        np.zeros((slots, d)),
        constants,
        prices,
        middle,
        cross,
        np.zeros((_LANES, d)),
        np.zeros(_LANES),
        used=0,
    )


@kernel
def _open_slot(joint: Joint) -> None:
    """Begin a slot; if none is free, the two oldest become one."""
    last = joint.used
    if last < joint.prices.size:
        joint.used += 1
        return
    _mix(joint, 0, 1.0, 1, 1.0)
    for slot in range(1, last - 1):
        _mix(joint, slot, 0.0, slot + 1, 1.0)
    _mix(joint, last - 1, 0.0, 0, 0.0)


@kernel
def _mix(joint: Joint, slot: int, own: float, other: int, more: float) -> None:
    """Let a slot hold a multiple of what it has, and of what is in another one."""
    for i in range(joint.middle.size):
        joint.vectors[slot, i] = own * joint.vectors[slot, i] + more * joint.vectors[other, i]
        for j in range(i + 1):
            joint.matrices[slot, i, j] = own * joint.matrices[slot, i, j] + more * joint.matrices[other, i, j]
    joint.constants[slot] = own * joint.constants[slot] + more * joint.constants[other]
    joint.prices[slot] = own * joint.prices[slot] + more * joint.prices[other]


@kernel
def _slot_for(joint: Joint, number: int) -> int:
    """Return the slot of a round; one begins whenever their number has doubled."""
    if joint.used == 0 or (number + 1) & number == 0:
        _open_slot(joint)
    return joint.used - 1


@kernel
def book_price(book: Book, joint: Joint, price: float, number: int) -> None:
    """Book a slate that somebody else chose, without a quadratic."""
    slot = _slot_for(joint, number)
    joint.prices[slot] += price
    joint.constants[slot] += price
    book.total += price


@kernel
def book_slate(
    joint: Joint,
    boxes: Boxes,
    ridge: Ridge,
    contexts: NDArray[np.float64],
    reach: float,
    noise: float,
    price: float,
    number: int,
    again: bool,
) -> None:
    """Add the quadratic of a slate, and its price, after `admit`; what is in the boxes is used up.

    Where it would be no smaller than the price, by what is known, the price stands for it: while all arms are open,
    there are too many terms. Where contexts come `again`, the ellipsoid closes in on nothing but what is played.
    """
    slot = _slot_for(joint, number)
    joint.prices[slot] += price
    if price == 0.0:
        return
    n, d = 0 if again else _find_open(joint, boxes, ridge, contexts, reach), joint.middle.size
    patience = _PATIENCE if number < _EARLY else 1.0
    if again or _expected(boxes, n, noise / reach) >= patience * price:
        joint.constants[slot] += price
        return
    vector, lanes, weights = joint.vectors[slot], joint.lanes, joint.weights
    for first in range(0, n, _LANES):
        for lane in range(_LANES):
            if first + lane >= n:
                weights[lane] = 0.0
                continue
            arm, y = boxes.order[first + lane], lanes[lane]
            context, sign = contexts[arm], 1.0 - 2.0 * boxes.chosen[arm]
            for j in range(d):
                y[j] = sign * (context[j] - joint.middle[j])
                vector[j] += 0.5 * y[j]
            bend = _bend(boxes.values[first + lane], boxes.squares[first + lane])
            joint.constants[slot] += 0.25 * bend
            weights[lane] = 0.25 / bend
        _add_squares(joint.matrices[slot], lanes, weights)


@kernel
def _bend(product: float, width: float) -> float:
    """Return k: every k gives a bound, and this one that is small near the estimate."""
    return max(abs(product), _SHARE * width, _LEAST)


@kernel
def _expected(boxes: Boxes, n: int, share: float) -> float:
    """Return the mean of a slate's quadratic if theta is as far from the estimate as noise leaves it."""
    total = 0.0
    for i in range(n):
        product, width = boxes.values[i], boxes.squares[i]
        bend = _bend(product, width)
        total += ((product + bend) * (product + bend) + (share * width) * (share * width)) / bend
    return 0.25 * total


@kernel
def _find_open(joint: Joint, boxes: Boxes, ridge: Ridge, contexts: NDArray[np.float64], reach: float) -> int:
    """List the arms whose y may have a positive product with theta; return how many.

    Their products with the estimate and their widths lead in `values` and `squares`.
    """
    estimates, chosen, n = boxes.estimates, boxes.chosen, contexts.shape[0]
    worst, best = -1, -1
    for arm in range(n):
        if chosen[arm] == 1:
            if worst < 0 or estimates[arm] < estimates[worst]:
                worst = arm
        elif best < 0 or estimates[arm] > estimates[best]:
            best = arm
    middle, cross = joint.middle, joint.cross
    for j in range(middle.size):
        middle[j] = 0.5 * (contexts[worst, j] + contexts[best, j])
    square = image(ridge.inverse[0], middle, cross)
    threshold = 0.5 * (estimates[worst] + estimates[best])
    found = 0
    for arm in range(n):
        sign, own = 1.0 - 2.0 * chosen[arm], boxes.squares[arm]
        product = sign * (estimates[arm] - threshold)
        # A difference of squares that are nearly equal is rounding, and must not be too small.
        rest = max(own - 2.0 * inner(contexts[arm], cross) + square, 0.0) + _ROUNDING * (own + square)
        width = reach * math.sqrt(rest)
        boxes.values[found], boxes.squares[found], boxes.order[found] = product, width, arm
        found += product + width > 0.0
    return found


@kernel
def _add_squares(matrix: NDArray[np.float64], lanes: NDArray[np.float64], weights: NDArray[np.float64]) -> None:
    """Add the lower triangles of y y', weighted, for eight y and two rows at a time: each is loaded once for all."""
    y0, y1, y2, y3, y4, y5, y6, y7 = (
        lanes[0],
        lanes[1],
        lanes[2],
        lanes[3],
        lanes[4],
        lanes[5],
        lanes[6],
        lanes[7],
    )
    w0, w1, w2, w3, w4, w5, w6, w7 = (
        weights[0],
        weights[1],
        weights[2],
        weights[3],
        weights[4],
        weights[5],
        weights[6],
        weights[7],
    )
    d = matrix.shape[0]
    for i in range(d % 2, d, 2):
        a0, a1, a2, a3 = w0 * y0[i], w1 * y1[i], w2 * y2[i], w3 * y3[i]
        a4, a5, a6, a7 = w4 * y4[i], w5 * y5[i], w6 * y6[i], w7 * y7[i]
        k = i + 1
        b0, b1, b2, b3 = w0 * y0[k], w1 * y1[k], w2 * y2[k], w3 * y3[k]
        b4, b5, b6, b7 = w4 * y4[k], w5 * y5[k], w6 * y6[k], w7 * y7[k]
        row, below = matrix[i, : i + 1], matrix[k, : i + 1]
        for j in range(row.size):
            v0, v1, v2, v3, v4, v5, v6, v7 = y0[j], y1[j], y2[j], y3[j], y4[j], y5[j], y6[j], y7[j]
            row[j] += ((a0 * v0 + a1 * v1) + (a2 * v2 + a3 * v3)) + ((a4 * v4 + a5 * v5) + (a6 * v6 + a7 * v7))
            below[j] += ((b0 * v0 + b1 * v1) + (b2 * v2 + b3 * v3)) + ((b4 * v4 + b5 * v5) + (b6 * v6 + b7 * v7))
        corner = ((b0 * y0[k] + b1 * y1[k]) + (b2 * y2[k] + b3 * y3[k])) + (
            (b4 * y4[k] + b5 * y5[k]) + (b6 * y6[k] + b7 * y7[k])
        )
        matrix[k, k] += corner
    if d % 2 == 1:
        for lane in range(_LANES):
            matrix[0, 0] += weights[lane] * lanes[lane, 0] * lanes[lane, 0]


class _Quadratic(NamedTuple):
    """theta' M theta + m' theta + k."""

    matrix: NDArray[np.float64]
    vector: NDArray[np.float64]
    constant: float


class _Ellipsoid(NamedTuple):
    """All theta within a radius of the centre, in the norm of the Gram matrix with this inverse root."""

    centre: NDArray[np.float64]
    root: NDArray[np.float64]
    radius: float

    def largest(self, quadratic: _Quadratic) -> float:
        """Return a bound on the quadratic in the ellipsoid, by weak duality."""
        matrix, vector, constant = quadratic
        eigenvalues, basis = np.linalg.eigh(self.root @ matrix @ self.root)
        slope = basis.T @ (self.root @ (matrix @ self.centre + 0.5 * vector))
        top = max(float(eigenvalues[-1]), 0.0)
        multipliers = (top * (1.0 + _STEPS) + _LEAST * (1.0 + _STEPS))[:, None]
        bounds = multipliers[:, 0] * self.radius**2 + (slope**2 / (multipliers - eigenvalues)).sum(axis=1)
        return float(self.centre @ matrix @ self.centre + vector @ self.centre + constant + bounds.min())


def joint_bound(joint: Joint, centre: NDArray[np.float64], inverse: NDArray[np.float64], radius: float) -> float:
    """Return what all slates so far can have lost, if theta lies in the ellipsoid."""
    values, vectors = np.linalg.eigh(inverse)
    ellipsoid = _Ellipsoid(centre, (vectors * np.sqrt(np.maximum(values, 0.0))) @ vectors.T, radius)
    d = centre.size
    whole, apart = _Quadratic(np.zeros((d, d)), np.zeros(d), 0.0), 0.0
    for slot in range(int(joint.used)):
        lower = joint.matrices[slot]
        one = _Quadratic(lower + np.tril(lower, -1).T, joint.vectors[slot], float(joint.constants[slot]))
        bound, price = ellipsoid.largest(one), float(joint.prices[slot])
        apart += min(bound, price)
        if bound < price:
            whole = _Quadratic(whole.matrix + one.matrix, whole.vector + one.vector, whole.constant + one.constant)
        else:
            whole = whole._replace(constant=whole.constant + price)
    together = ellipsoid.largest(whole) if joint.used else 0.0
    return max(min(together, apart), 0.0) * (1.0 + _HAIR)
