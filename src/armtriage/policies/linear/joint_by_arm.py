"""The joint certificate where each arm has a theta of its own: K quadratics of d^2 numbers, and not one of (K d)^2.

For every number c, a slate loses at most the sum of (f)+, where f is theta_a'x_a - c for arms outside, and its negative
for those inside. Each term is about one theta, so with (f)+ <= (f + k)^2 / (4 k) the sum over rounds is a quadratic for
each arm, and its maximum over all ellipsoids is the sum of the maxima.
"""

from __future__ import annotations

import numpy as np
from numpy.typing import NDArray

from armtriage.kernels.jit import kernel
from armtriage.policies.linear.by_arm import Kept
from armtriage.policies.linear.joint import EARLY, GAIN, LEAST, PATIENCE, SHARE, Joint, slot_for
from armtriage.policies.linear.pricing import Boxes

__all__ = ["book_slate_of_arms"]


@kernel
def book_slate_of_arms(
    joint: Joint,
    boxes: Boxes,
    kept: Kept,
    contexts: NDArray[np.float64],
    members: NDArray[np.int64],
    noise: float,
    price: float,
    number: int,
    again: bool,
) -> None:
    """Add the quadratics of a slate, and its price, after `admit`: `book_slate` for arms of their own."""
    slot = slot_for(joint, number)
    joint.prices[slot] += price
    if price == 0.0:
        return
    n, d = contexts.shape[0], joint.middle.size
    threshold = _halfway(boxes, kept, n)
    patience = PATIENCE if number < EARLY else GAIN
    if again or _expect(boxes, kept, n, noise, threshold) >= patience * price:
        joint.constants[slot] += price
        return
    for place in range(n):
        bend = boxes.lower[place]
        if bend == 0.0:
            continue
        sign, x, first = 1.0 - 2.0 * boxes.chosen[place], contexts[place], members[place] * d
        rest, weight = bend - sign * threshold, 0.25 / bend
        joint.constants[slot] += weight * rest * rest
        slope, vector = 2.0 * weight * sign * rest, joint.vectors[slot, first : first + d]
        for j in range(d):
            vector[j] += slope * x[j]
        for i in range(d):
            row, scaled = joint.matrices[slot, first + i], weight * x[i]
            for j in range(i + 1):
                row[j] += scaled * x[j]


@kernel
def _halfway(boxes: Boxes, kept: Kept, n: int) -> float:
    """Return c: halfway between the worst arm inside and the best outside, by their estimates."""
    worst, best = np.inf, -np.inf
    for place in range(n):
        if boxes.chosen[place] == 1:
            worst = min(worst, kept.middles[place])
        else:
            best = max(best, kept.middles[place])
    return 0.5 * (worst + best)


@kernel
def _expect(boxes: Boxes, kept: Kept, n: int, noise: float, threshold: float) -> float:
    """Return the mean of a slate's quadratics if each theta is as far from its estimate as noise leaves it.

    Into `lower` goes k, or 0 where f cannot be positive.
    """
    total = 0.0
    for place in range(n):
        product = (1.0 - 2.0 * boxes.chosen[place]) * (kept.middles[place] - threshold)
        width = kept.halves[place]
        boxes.lower[place] = 0.0
        if product + width > 0.0:
            bend, usual = max(abs(product), SHARE * width, LEAST), noise / kept.reaches[place] * width
            total += ((product + bend) * (product + bend) + usual * usual) / bend
            boxes.lower[place] = bend
    return 0.25 * total
