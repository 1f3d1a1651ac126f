"""The joint certificate: all slates so far, priced by today's ellipsoids and one theta, or one an arm, for all rounds.

For every theta and any vector v, a slate loses at most the sum of (f)+, where f is theta'(x - v) for arms outside and
its negative for those inside. Since (f)+ <= (f + k)^2 / (4 k) for every k > 0, that is at most a quadratic function of
theta. Quadratics are summed as rounds go by, in d^2 memory, and their sum is maximised over the ellipsoid on
demand. Where each arm has a theta of its own, f is theta_a'x_a - c for any number c: each term is about one theta, so
there is a quadratic for each arm, a block of d rows, and not one of (K d)^2 numbers, and their maxima are summed.

Slots of rounds that double in length have a sum each. Where the prices of the time are the smaller, they stand for it.
"""

from __future__ import annotations

import math
from typing import Any, NamedTuple

import numpy as np

from armtriage.kernels.jit import apart, bind, kernel
from armtriage.kernels.order import inner
from armtriage.kernels.record import Floats, Ints, Record, blank, fact
from armtriage.kernels.ridge import Ridge, add_multiple, image
from armtriage.policies.linear.account import Book, Boxes

# k is at least so much of an arm's width. On a sphere (d=10, K=50, T=8,000) bounds were 2,551 with it and 3,041 with
# 0.1; with 0.1 and 0.4 beside each other, at twice the price, 2,472.
_SHARE = 0.2
# The first rounds have the most to gain from what is learned later, and are few: quadratics stand for them also where
# they seem larger than the price. On a quiet sphere (d=4, K=20, T=2,000) bounds were 6.4 with that and 9.6 without.
_EARLY, _PATIENCE = 64, 2.0
# Of the price: for less of a gain they are not worth the work. With 0.7 bounds were 2% less at d=10, K=100, T=8,000,
# and 3% less at d=50; with 0.25 they were 11% and 13% more.
_GAIN = 0.4
_SLOTS = 3  # six gave the same there
_LANES = 8
_LEAST = 1e-12  # k: where nothing is open it does not matter
_STEPS = np.geomspace(1e-5, 1e3, 80)  # beyond the largest eigenvalue: every one gives a bound
_HAIR = 1e-9  # what sums of millions of terms may have lost to rounding
_ROUNDING = 1e-13


class Joint(Record):
    """Sums of quadratics theta' M theta + m' theta + k, by slot, and of prices."""

    matrices: Floats = fact()  # (slots, blocks d, d) M, on and below the diagonal of each block
    vectors: Floats = fact()  # (slots, blocks d) m
    constants: Floats = fact(0.0)  # (slots,) k
    prices: Floats = fact(0.0, "lost")  # (slots,) what the slates can have lost by what was known at the time
    middle: Floats  # (d,) v
    cross: Floats  # (d,)
    lanes: Floats  # (LANES, d) y of some arms
    weights: Floats  # (LANES,)
    used: int = fact(0, "slots")  # slots, the oldest first


def new_joint(dimension: int, kept: bool, blocks: int = 1) -> Joint:
    """Return sums over no round, for one theta or so many, or no room for them."""
    slots, d = _SLOTS if kept else 0, dimension
    matrices, vectors = np.zeros((slots, blocks * d, d)), np.zeros((slots, blocks * d))
    lanes = {"lanes": np.zeros((_LANES, d)), "weights": np.zeros(_LANES)}
    sums = {"constants": np.zeros(slots), "prices": np.zeros(slots)}
    return blank(Joint, d, matrices=matrices, vectors=vectors, **sums, **lanes)


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
    for i in range(joint.vectors.shape[1]):
        joint.vectors[slot, i] = own * joint.vectors[slot, i] + more * joint.vectors[other, i]
        for j in range(joint.middle.size):
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
    """Book a slate that was chosen elsewhere, without a quadratic."""
    slot = _slot_for(joint, number)
    joint.prices[slot] += price
    joint.constants[slot] += price
    book.total += price


def _book_slate(state: Any, contexts: Floats, noise: float, price: float, off: float, number: int, again: bool) -> None:
    """Add the quadratic of a slate, and its price, after `admit`; what is in the boxes is used up.

    Where it would be no smaller than the price, by what is known, the price stands for it: while all arms are open,
    there are too many terms. Where contexts come `again`, the ellipsoid closes in on nothing but what is played.
    By `off` a slate can lose more than what is linear says.
    """
    joint, boxes = state.joint, state.boxes
    slot = _slot_for(joint, number)
    joint.prices[slot] += price
    if price == 0.0:
        return
    if not again:
        n = contexts.shape[0]
        worst, best = _find_ends(boxes, n)
        threshold = 0.5 * (boxes.estimates[worst] + boxes.estimates[best])
        _find_rests(joint, boxes, state.ridge, contexts, worst, best)
        if _expect(boxes, n, threshold, noise) < (_PATIENCE if number < _EARLY else _GAIN) * price:
            _add_terms(joint, boxes, slot, contexts, state.models, threshold)
            joint.constants[slot] += off
            return
    joint.constants[slot] += price


@kernel
def _find_ends(boxes: Boxes, n: int) -> tuple[int, int]:
    """Return the worst arm inside and the best outside, by their estimates."""
    estimates, chosen = boxes.estimates, boxes.chosen
    worst, best = -1, -1
    for arm in range(n):
        if chosen[arm] == 1:
            if worst < 0 or estimates[arm] < estimates[worst]:
                worst = arm
        elif best < 0 or estimates[arm] > estimates[best]:
            best = arm
    return worst, best


@kernel
def _find_rests(joint: Joint, boxes: Boxes, ridge: Ridge, contexts: Floats, worst: int, best: int) -> None:
    """Write v, halfway between two arms, and squares of the widths of x - v into `outside`."""
    n, middle = contexts.shape[0], joint.middle
    for j in range(middle.size):
        middle[j] = 0.5 * (contexts[worst, j] + contexts[best, j])
    square = image(ridge.inverse[0], middle, joint.cross)
    squares, rests = boxes.squares[:n], boxes.outside[:n]
    for arm in range(n):
        rests[arm] = inner(contexts[arm], joint.cross)
    for arm in range(n):
        own = squares[arm]
        # A difference of squares that are nearly equal is rounding, and must not be too small.
        rests[arm] = max(own - 2.0 * rests[arm] + square, 0.0) + _ROUNDING * (own + square)


@kernel
def _find_rests_by_arm(joint: Joint, boxes: Boxes, ridge: Ridge, contexts: Floats, worst: int, best: int) -> None:
    """Write squares of widths into `outside`: where each arm has a theta, a number c stands for v."""
    for arm in range(contexts.shape[0]):
        boxes.outside[arm] = boxes.squares[arm]


@kernel
def _expect(boxes: Boxes, n: int, threshold: float, noise: float) -> float:
    """Return the mean of a slate's quadratics if theta is as far from the estimate as noise leaves it.

    Into `upper` goes the most that f can be, into `values` k: every k gives a bound, and this one that is small near
    the estimate.
    """
    estimates, reaches, chosen = boxes.estimates[:n], boxes.reaches[:n], boxes.chosen[:n]
    terms, most, bends = boxes.outside[:n], boxes.upper[:n], boxes.values[:n]
    spread = noise * noise
    # No branch and no sum, so that many arms are done at once.
    for arm in range(n):
        product, rest = (1.0 - 2.0 * chosen[arm]) * (estimates[arm] - threshold), terms[arm]
        width = reaches[arm] * math.sqrt(rest)
        bend = max(abs(product), _SHARE * width, _LEAST)
        most[arm], bends[arm] = product + width, bend
        terms[arm] = ((product + bend) * (product + bend) + spread * rest) / bend
    total = 0.0
    for arm in range(n):
        if most[arm] > 0.0:
            total += terms[arm]
    return 0.25 * total


@kernel
def _add_terms(joint: Joint, boxes: Boxes, slot: int, contexts: Floats, models: Ints, threshold: float) -> None:
    """Add the terms of the arms whose f may be positive to the one quadratic, eight at a time."""
    n, bends = 0, boxes.values
    for arm in range(contexts.shape[0]):
        boxes.order[n] = arm
        n += boxes.upper[arm] > 0.0
    lanes, weights, middle = joint.lanes, joint.weights, joint.middle
    for first in range(0, n, _LANES):
        for lane in range(_LANES):
            y, place = lanes[lane], first + lane
            if place >= n:
                weights[lane] = 0.0
                y[:] = 0.0
                continue
            arm = boxes.order[place]
            _put_difference(y, 1.0 - 2.0 * boxes.chosen[arm], contexts[arm], middle)
            joint.constants[slot] += 0.25 * bends[arm]
            weights[lane] = 0.25 / bends[arm]
        _add_squares(joint.matrices[slot], joint.vectors[slot], lanes, weights)


@kernel
def _add_terms_by_arm(joint: Joint, boxes: Boxes, slot: int, contexts: Floats, models: Ints, threshold: float) -> None:
    """Add the terms of the arms whose f may be positive, each to the quadratic of its own theta."""
    d = contexts.shape[1]
    for place in range(contexts.shape[0]):
        if boxes.upper[place] <= 0.0:
            continue
        bend, sign, x = boxes.values[place], 1.0 - 2.0 * boxes.chosen[place], contexts[place]
        rest, weight, first = bend - sign * threshold, 0.25 / bend, models[place] * d
        joint.constants[slot] += weight * rest * rest
        add_multiple(joint.vectors[slot, first : first + d], 2.0 * weight * sign * rest, x)
        for i in range(d):
            add_multiple(joint.matrices[slot, first + i, : i + 1], weight * x[i], x[: i + 1])


book_slate = bind(_book_slate, "book_slate")
book_slate_by_arm = bind(_book_slate, "book_slate_by_arm", _find_rests=_find_rests_by_arm, _add_terms=_add_terms_by_arm)


@kernel
@apart
def _put_difference(y: Floats, sign: float, context: Floats, middle: Floats) -> None:
    for j in range(y.size):
        y[j] = sign * (context[j] - middle[j])


@kernel
@apart
def _add_squares(matrix: Floats, vector: Floats, lanes: Floats, weights: Floats) -> None:
    """Add the lower triangles of y y', weighted, and halves of y, for eight y at a time: each row is loaded once."""
    y0, y1, y2, y3, y4, y5, y6, y7 = lanes[0], lanes[1], lanes[2], lanes[3], lanes[4], lanes[5], lanes[6], lanes[7]
    w0, w1, w2, w3 = weights[0], weights[1], weights[2], weights[3]
    w4, w5, w6, w7 = weights[4], weights[5], weights[6], weights[7]
    d = vector.size
    for j in range(d):
        vector[j] += 0.5 * (((y0[j] + y1[j]) + (y2[j] + y3[j])) + ((y4[j] + y5[j]) + (y6[j] + y7[j])))
    for i in range(d):
        a0, a1, a2, a3 = w0 * y0[i], w1 * y1[i], w2 * y2[i], w3 * y3[i]
        a4, a5, a6, a7 = w4 * y4[i], w5 * y5[i], w6 * y6[i], w7 * y7[i]
        # Whole vectors of eight: what lies above the diagonal costs less than a rest.
        row = matrix[i, : min(d, (i + 8) // 8 * 8)]
        for j in range(row.size):
            v0, v1, v2, v3, v4, v5, v6, v7 = y0[j], y1[j], y2[j], y3[j], y4[j], y5[j], y6[j], y7[j]
            row[j] += ((a0 * v0 + a1 * v1) + (a2 * v2 + a3 * v3)) + ((a4 * v4 + a5 * v5) + (a6 * v6 + a7 * v7))


class Ellipsoids(NamedTuple):
    """For each theta, all that lie within a radius of the centre, in the norm of the Gram matrix with this inverse."""

    centres: Floats  # (blocks, d)
    inverses: Floats  # (blocks, d, d)
    radii: Floats  # (blocks,)


def _largest(found: Ellipsoids, roots: Floats, matrices: Floats, vectors: Floats) -> float:
    """Return a bound on the sum of the quadratics in the ellipsoids, one by one, by weak duality."""
    images = np.einsum("bij,bj->bi", matrices, found.centres)
    eigenvalues, bases = np.linalg.eigh(roots @ matrices @ roots)
    slopes = np.einsum("bji,bjk,bk->bi", bases, roots, images + 0.5 * vectors, optimize=True)
    tops = np.maximum(eigenvalues[:, -1:], 0.0)
    multipliers = tops * (1.0 + _STEPS) + _LEAST * (1.0 + _STEPS)
    rest = (slopes[:, None, :] ** 2 / (multipliers[:, :, None] - eigenvalues[:, None, :])).sum(axis=2)
    bounds = (multipliers * found.radii[:, None] ** 2 + rest).min(axis=1)
    return float((np.einsum("bi,bi->b", images + vectors, found.centres) + bounds).sum())


def joint_bound(joint: Joint, found: Ellipsoids) -> float:
    """Return what all slates so far can have lost, if each theta lies in its ellipsoid."""
    values, bases = np.linalg.eigh(found.inverses)
    roots = (bases * np.sqrt(np.maximum(values, 0.0))[:, None, :]) @ bases.transpose(0, 2, 1)
    blocks, d = found.centres.shape
    matrices, vectors = np.zeros((blocks, d, d)), np.zeros((blocks, d))
    constant = apart = 0.0
    for slot in range(int(joint.used)):
        lower = np.tril(joint.matrices[slot].reshape(-1, d, d)[:blocks])
        whole, slopes = lower + np.tril(lower, -1).transpose(0, 2, 1), joint.vectors[slot].reshape(-1, d)[:blocks]
        price, own = float(joint.prices[slot]), float(joint.constants[slot])
        bound = own + _largest(found, roots, whole, slopes)
        apart += min(bound, price)
        if bound < price:
            matrices, vectors, constant = matrices + whole, vectors + slopes, constant + own
        else:
            constant += price
    together = constant + _largest(found, roots, matrices, vectors)
    return max(min(together, apart), 0.0) * (1.0 + _HAIR)
