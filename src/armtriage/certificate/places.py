"""What clicks say of items on a page whose places have weights, and what pages can have lost.

A reward x in [0, 1] in a place of weight k has the mean k t, t being that at the top. By convexity (s/t)^x is at most
1 + x (s/t - 1), of mean 1 + k (s - t), which is at most exp(k (s - t)). So products of (s/t)^x exp(-(s - t) k), mixed
over s from Gamma(1/2, 1), are supermartingales that begin at 1. Only the sum C of rewards and that N of weights matter.
"""

from __future__ import annotations

import math
from collections.abc import Sequence
from typing import Any, NamedTuple

import numpy as np
from numpy.typing import NDArray

from armtriage.arms import Name
from armtriage.certificate.bounds import Bounds, in_units
from armtriage.certificate.certificate import Assumptions, Certificate, certificate_of
from armtriage.certificate.slates import gap_of
from armtriage.kernels.assignment import assign
from armtriage.kernels.jit import kernel
from armtriage.triage import triage_among

Floats = NDArray[np.float64]

_STEPS = 200


class Page(NamedTuple):
    """What was shown and seen of each arm, on the unit scale, and the weights of the places."""

    weights: Floats
    given: Floats  # sum of the weights of the places in which it was shown
    clicks: Floats  # sum of its rewards
    told: Floats  # sum of the weights of the places of those


@kernel
def _ends(clicks: float, told: float, level: float) -> tuple[float, float]:
    """Return the interval of a mean at the top: Newton's method on a convex function, from outside on both sides."""
    shape = clicks + 0.5
    rest = math.lgamma(shape) - math.lgamma(0.5) - shape * math.log(told + 1.0) - level
    if told <= 0.0:
        return 0.0, 1.0
    lower = 0.0
    if clicks > 0.0:
        # In the logarithm of the mean, and without the part that grows with it, the root is to the left.
        x, top = rest / clicks, math.log(clicks / told)
        for _ in range(_STEPS):
            value, slope = told * math.exp(x) - clicks * x + rest, told * math.exp(x) - clicks
            if x >= top or value <= 1e-12 * (1.0 + abs(rest)):
                break
            x -= value / slope
        lower = min(math.exp(min(x, top)), 1.0)
    upper = 1.0
    for _ in range(_STEPS):
        value, slope = told * upper - clicks * math.log(upper) + rest, told - clicks / upper
        if slope <= 0.0 or value <= 1e-12 * (1.0 + abs(rest)):
            break
        upper -= value / slope
    return lower, upper


def place_bounds(clicks: Floats, told: Floats, share: float) -> Bounds:
    """Return intervals of means at the top, each of which ever misses with a probability of `share` at most.

    Examples
    --------
    >>> place_bounds(np.array([8.0, 0.0]), np.array([100.0, 0.0]), 0.05).upper.round(3)
    array([0.206, 1.   ])
    """
    level = math.log(1.0 / share)
    ends = [_ends(float(one), float(weight), level) for one, weight in zip(clicks, told, strict=True)]
    lower, upper = np.array(ends).reshape(-1, 2).T.copy()
    return Bounds(lower, np.maximum(upper, lower))


def lost_by_place(rounds: float, weights: Floats, given: Floats, bounds: Bounds) -> tuple[float, NDArray[np.int64]]:
    """Return what pages lost at most against the best one shown each time, and the arms of that, from the top.

    With x the weights that an arm would have had and m those that it had, the loss is the sum of (x - m) t. For each
    arm and place it is largest at an end of the interval, so that the best page is an assignment.

    Examples
    --------
    >>> bounds = Bounds(np.array([0.4, 0.1]), np.array([0.6, 0.5]))
    >>> lost, page = lost_by_place(10, np.array([1.0, 0.5]), np.array([5.0, 10.0]), bounds)
    >>> round(lost, 3), page  # at most by 5 times 0.6 less 5 times 0.1
    (2.5, array([0, 1]))
    """
    at = rounds * weights[:, None]
    gains = np.maximum(at - given, 0.0) * bounds.upper - np.maximum(given - at, 0.0) * bounds.lower
    kept = given * bounds.lower
    page = np.empty(weights.size, np.int64)
    assign(np.ascontiguousarray(-(gains + kept)), page)
    outside = np.setdiff1d(np.arange(given.size), page, assume_unique=True)
    # Gains less what is left of the others: sums of all would cancel, and lose digits.
    return max(float(gains[np.arange(page.size), page].sum() - kept[outside].sum()), 0.0), page


def placed_certificate(
    page: Page,
    *,
    rounds: int,
    delta: float,
    reward_range: tuple[float, float],
    next_decision: NDArray[np.int64] | None,
    names: Sequence[Name] | None,
    contradictions: int,
    learnt: bool,
    least_observed: int,
    silent: tuple[int, ...],
) -> Certificate:
    """Return the certificate of pages whose places have these weights; the next decision is given from the top."""
    weights, n = page.weights, page.given.size
    bounds = place_bounds(page.clicks, page.told, delta / n)
    means = np.minimum(page.clicks / np.maximum(page.told, 1e-300), 1.0)
    lost = lost_by_place(rounds, weights, page.given, bounds)[0]
    if next_decision is None:
        next_decision = np.argsort(-means, kind="stable")[: weights.size]
    given = np.zeros(n)
    given[next_decision] = weights
    loses, rival = lost_by_place(1, weights, given, bounds)
    scale, arms = reward_range[1], np.arange(n)
    earned = scale * float(page.given @ means)
    certain = scale * rounds * float(weights @ np.sort(bounds.lower)[::-1][: weights.size])
    gap = gap_of(bounds, arms, weights.size)
    columns: dict[str, Any] = {
        "assumptions": Assumptions(reward_range=reward_range, positions=tuple(weights.tolist()), learnt=learnt),
        "next_decision": next_decision,
        "next_bound": scale * loses,
        "challenger": rival if loses > 0.0 else next_decision.copy(),
        "triage": triage_among(*bounds, arms, weights.size),
        "gap": (scale * gap[0], scale * gap[1]),
        "estimate": scale * lost_by_place(rounds, weights, page.given, Bounds(means, means))[0],
        "intervals": in_units(bounds, reward_range, "maximize"),
    }
    return certificate_of(
        bounds={"retrospective": scale * lost},
        at_stake=max(earned, certain),
        needed=lambda: None,
        names=names,
        confidence=1.0 - delta,
        rounds=rounds,
        budget=weights.size,
        earned=earned,
        contradictions=contradictions,
        least_observed=least_observed,
        silent=silent,
        **columns,
    )
