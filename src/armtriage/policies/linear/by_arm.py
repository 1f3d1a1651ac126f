"""Regressions with a parameter for each arm, alone or around one that all share, block by block.

With sums G and z of an arm's x x' and r x, a ridge l of its own part and b for the shared one, D = G + l I. What all
arms say of the shared part has precision S = s I + l sum (I - l D^-1) and moment sum l D^-1 z. An arm's estimate is
D^-1 (z + l b): its own rewards, shrunk to the shared part. With u = D^-1 x, the square of its width is
x'u + l^2 u'S^-1 u. Every reward changes D^-1 and S^-1 by rank one.
"""

from __future__ import annotations

import math

import numpy as np
from numpy.typing import NDArray

from armtriage.kernels.jit import kernel
from armtriage.kernels.order import inner
from armtriage.kernels.record import Record
from armtriage.kernels.ridge import Ridge, add, factorise, gather, image, invert, is_news, subtract, weigh
from armtriage.policies.linear.adaptive import LEAST, LEAST_VARIANCE, PRIOR, FitParams

__all__ = ["Arms", "Kept", "adapt_arms", "find_forms", "learn_arm", "new_arms", "new_kept", "sits", "widen_arms"]


class Arms(Record):
    """The regression of each arm with an estimated noise and ridge, and the part that they share."""

    facts = ("inverse", "base", "shared_inverse", "moment", "noise", "ridge", "shared_ridge", "squares", "next_fit")
    inverse: NDArray[np.float64]  # (K, d, d) D^-1
    base: NDArray[np.float64]  # (K, d) D^-1 z
    shared_inverse: NDArray[np.float64]  # (d, d) S^-1; 0 where nothing is shared
    moment: NDArray[np.float64]  # (d,) of the shared part
    shared: NDArray[np.float64]  # (d,) its estimate
    pending: NDArray[np.int64]  # (K,) pulls of an arm whose rewards have not come
    work: NDArray[np.float64]  # (d, d)
    vector: NDArray[np.float64]  # (d,)
    theta: NDArray[np.float64]  # (d,)
    noise: float
    ridge: float  # l
    shared_ridge: float  # s
    squares: float  # sum of r^2
    next_fit: int  # rewards after which noise and ridges are estimated again
    rewards: int


class Kept(Record):
    """What was computed for the rows of the last request: all of it holds if they come again and arms are unchanged."""

    facts = ("seats",)
    seats: NDArray[np.int64]  # (K,) whose rows they were
    changed: NDArray[np.int64]  # (K,) whether an arm has learned since
    images: NDArray[np.float64]  # (K, d) D^-1 x
    squares: NDArray[np.float64]  # (K,) x'D^-1 x
    bases: NDArray[np.float64]  # (K,) x'D^-1 z
    middles: NDArray[np.float64]  # (K,) of the boxes
    halves: NDArray[np.float64]  # (K,) of their lengths
    reaches: NDArray[np.float64]  # (K,) radii of the ellipsoids


def new_kept(n_arms: int, dimension: int) -> Kept:
    """Return what is kept before the first request."""
    squares, bases, middles, halves, reaches = np.zeros((5, n_arms))
    images, changed = np.zeros((n_arms, dimension)), np.ones(n_arms, np.int64)
    return Kept(np.zeros(n_arms, np.int64), changed, images, squares, bases, middles, halves, reaches)


@kernel
def sits(kept: Kept, members: NDArray[np.int64], n: int) -> bool:
    """Whether the rows belong to the arms of the last request, in this order; remember them."""
    same = True
    for place in range(n):
        same &= kept.seats[place] == members[place]
        kept.seats[place] = members[place]
    return same


def new_arms(n_arms: int, dimension: int, noise: float, ridge: float, shares: bool) -> Arms:
    """Return regressions without rewards."""
    n, d = n_arms, dimension
    moment, shared, vector, theta = np.zeros((4, d))
    return Arms(
        np.tile(np.eye(d) / ridge, (n, 1, 1)),
        np.zeros((n, d)),
        np.eye(d) / ridge if shares else np.zeros((d, d)),
        moment,
        shared,
        np.zeros(n, np.int64),
        np.zeros((d, d)),
        vector,
        theta,
        noise=noise,
        ridge=ridge,
        shared_ridge=ridge,
        squares=0.0,
        next_fit=1,
        rewards=0,
    )


def widen_arms(old: Arms, new: Arms) -> None:
    """Let the regressions of more arms begin with those of fewer; the others know what is shared."""
    n = len(old.base)
    new.inverse[:n], new.base[:n], new.pending[:n] = old.inverse, old.base, old.pending
    new.inverse[n:] = np.eye(old.moment.size) / old.ridge
    for name in ("shared_inverse", "moment", "shared", "whole", "real"):
        getattr(new, name)[...] = getattr(old, name)


@kernel
def _compute_arm(params: FitParams, arms: Arms, ridge: Ridge, arm: int) -> None:
    """Compute D^-1 from the sums."""
    gather(ridge, arm)
    total, d = ridge.scratch, arms.vector.size
    for i in range(d):
        total[i, i] += arms.ridge - params.ridge
    factorise(total, arms.ridge)
    invert(total, ridge.vector, arms.inverse[arm])
    weigh(ridge, arm, arms.inverse[arm], arms.base[arm])


@kernel
def _compute_shared(arms: Arms, ridge: Ridge) -> None:
    """Compute S^-1 and the moment from the inverses of all arms."""
    total, d, own = arms.work, arms.vector.size, arms.ridge
    for i in range(d):
        arms.moment[i] = 0.0
        for j in range(d):
            total[i, j] = 0.0
        total[i, i] = arms.shared_ridge
    for arm in range(arms.base.shape[0]):
        if ridge.counts[arm, 0] == 0:
            continue
        for i in range(d):
            arms.moment[i] += own * arms.base[arm, i]
            row, kept = total[i], arms.inverse[arm, i]
            for j in range(d):
                row[j] -= own * own * kept[j]
            row[i] += own
    factorise(total, arms.shared_ridge)
    invert(total, arms.vector, arms.shared_inverse)


@kernel
def find_forms(
    arms: Arms,
    kept: Kept,
    shares: bool,
    again: bool,
    contexts: NDArray[np.float64],
    members: NDArray[np.int64],
    estimates: NDArray[np.float64],
    squares: NDArray[np.float64],
) -> None:
    """Write estimates and squares of widths; pulls without a reward count as if they had the present context.

    If contexts came `again`, only arms that have learned are computed anew, but for what is shared.
    """
    shared = arms.shared
    if shares:
        image(arms.shared_inverse, arms.moment, shared)
    for place in range(contexts.shape[0]):
        arm, x, u = members[place], contexts[place], kept.images[place]
        if not again or kept.changed[arm] == 1:
            kept.squares[place] = image(arms.inverse[arm], x, u)
            kept.bases[place] = inner(x, arms.base[arm])
        estimate, square = kept.bases[place], kept.squares[place]
        if shares:
            estimate += arms.ridge * inner(u, shared)
            square += arms.ridge * arms.ridge * image(arms.shared_inverse, u, arms.theta)
        estimates[place], squares[place] = estimate, square / (1.0 + arms.pending[arm] * square)


@kernel
def learn_arm(
    params: FitParams, arms: Arms, ridge: Ridge, shares: bool, arm: int, context: NDArray[np.float64], reward: float
) -> None:
    """Add a reward to the sums of an arm, and follow with its inverse and the shared one."""
    add(ridge, arm, context, reward)
    arms.squares += reward * reward
    arms.rewards += 1
    d, vector, base = arms.vector.size, arms.vector, arms.base[arm]
    norm = image(arms.inverse[arm], context, vector)
    if is_news(norm, ridge.counts[arm, 0]):
        _compute_arm(params, arms, ridge, arm)
        if shares:
            _compute_shared(arms, ridge)
        return
    subtract(arms.inverse[arm], vector, norm)
    for j in range(d):
        arms.moment[j] -= arms.ridge * base[j]
    weigh(ridge, arm, arms.inverse[arm], base)
    for j in range(d):
        arms.moment[j] += arms.ridge * base[j]
        vector[j] *= arms.ridge
    if shares:
        norm = image(arms.shared_inverse, vector, arms.theta)
        if is_news(norm, 1):
            _compute_shared(arms, ridge)
        else:
            subtract(arms.shared_inverse, arms.theta, norm)


@kernel
def adapt_arms(params: FitParams, arms: Arms, ridge: Ridge, shares: bool) -> bool:
    """Estimate the noise by the residuals, and the ridges by the lengths of both parts, if it is time: a step of EM.

    Return whether it was.
    """
    total = arms.rewards
    if total < arms.next_fit:
        return False
    arms.next_fit = total + max(1, (3 * total + 19) // 20)
    d, own = arms.vector.size, arms.ridge
    shared, theta, inverse = arms.shared, arms.theta, arms.shared_inverse
    length, trace, used = 0.0, 0.0, 0.0
    if shares:
        image(inverse, arms.moment, shared)
        for i in range(d):
            length += shared[i] * shared[i]
            trace += inverse[i, i]
        used = d - arms.shared_ridge * trace
    residual, apart, spread, seen = arms.squares, 0.0, 0.0, 0
    for arm in range(arms.base.shape[0]):
        if ridge.counts[arm, 0] == 0:
            continue
        seen += 1
        kept = arms.inverse[arm]
        gather(ridge, arm)
        image(kept, shared, arms.vector)
        for i in range(d):
            theta[i] = arms.base[arm, i] + own * arms.vector[i]
            apart += (theta[i] - shared[i]) * (theta[i] - shared[i])
        more = 0.0
        for i in range(d):
            image_of = -params.ridge * theta[i] + inner(ridge.scratch[i], theta)
            residual += theta[i] * (image_of - 2.0 * (ridge.moment[arm, i] + ridge.moment_carry[arm, i]))
            more += kept[i, i]
            if shares:
                # The i-th row e of I - l D^-1 adds e S^-1 e'.
                for j in range(d):
                    arms.vector[j] = -own * kept[i, j]
                arms.vector[i] += 1.0
                more += image(inverse, arms.vector, arms.work[0])
        spread += more
        used += d - own * more
    declared = params.noise * params.noise
    free = max(total - used, 0.0)
    variance = min(declared, (max(residual, 0.0) + PRIOR * declared) / (free + PRIOR))
    most = params.norm_bound * params.norm_bound
    parts = max(seen, 1) * d
    apart = min(max((apart + variance * spread) / parts, LEAST_VARIANCE), most)
    length = min(max((length + variance * trace) / d, LEAST_VARIANCE), most)
    arms.noise, arms.ridge = math.sqrt(variance), max(variance / apart, LEAST)
    arms.shared_ridge = max(variance / length, LEAST)
    for arm in range(arms.base.shape[0]):
        if ridge.counts[arm, 0] > 0:
            _compute_arm(params, arms, ridge, arm)
        else:
            for i in range(d):
                for j in range(d):
                    arms.inverse[arm, i, j] = 0.0
                arms.inverse[arm, i, i] = 1.0 / arms.ridge
    if shares:
        _compute_shared(arms, ridge)
    return True
