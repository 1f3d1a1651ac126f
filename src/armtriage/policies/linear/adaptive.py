"""What adaptive C2UCB proposes by: a ridge regression that learns its own noise and its own ridge.

The sums are those of a `Ridge`, which others share. Kept beside them is an inverse with another ridge, and while
rewards are on their way a second one, of the Gram matrix that all pulls together will have: widths go by what is asked,
the estimate by what is told.
"""

from __future__ import annotations

import math

import numpy as np
from numpy.typing import NDArray

from armtriage.kernels.jit import kernel
from armtriage.kernels.record import Record
from armtriage.kernels.ridge import (
    Ridge,
    add,
    add_multiple,
    factorise,
    gather,
    image,
    invert,
    is_news,
    subtract,
    weigh,
)

__all__ = [
    "LEAST",
    "LEAST_VARIANCE",
    "PRIOR",
    "Fit",
    "FitParams",
    "adapt",
    "learn",
    "new_fit",
    "prepare",
    "schedule_open",
    "settle_open",
]

LEAST = 1e-8  # the least ridge: beside a million contexts rounding leaves as much of it as of a larger one
PRIOR = 4.0  # rewards that the declared noise counts for beside the residuals
LEAST_VARIANCE = 1e-8  # of a coordinate of theta


class FitParams(Record, frozen=True):
    """What is declared, and stands where nothing has been learned."""

    noise: float  # sub-Gaussian scale of a reward
    ridge: float  # of the sums that are shared
    norm_bound: float  # of theta


class Fit(Record):
    """The regression with an estimated noise and ridge."""

    facts = ("inverse", "open_inverse", "open_gram", "noise", "ridge", "squares", "next_fit", "pending", "stale")
    inverse: NDArray[np.float64]  # (d, d)
    open_inverse: NDArray[np.float64]  # (d, d) with the pulls whose rewards have not come, while there are any
    open_gram: NDArray[np.float64]  # (d, d) sum of their x x'
    weights: NDArray[np.float64]  # (d,)
    noise: float
    ridge: float
    squares: float  # sum of r^2
    next_fit: int  # rewards after which noise and ridge are estimated again
    pending: int  # pulls whose rewards have not come
    stale: bool  # whether `open_inverse` must be computed anew


def new_fit(dimension: int, noise: float, ridge: float) -> Fit:
    """Return a regression without rewards."""
    inverse = np.eye(dimension) / ridge
    open_inverse, open_gram = np.zeros((2, dimension, dimension))
    return Fit(
        inverse,
        open_inverse,
        open_gram,
        np.zeros(dimension),
        noise=noise,
        ridge=ridge,
        squares=0.0,
        next_fit=1,
        pending=0,
        stale=False,
    )


@kernel
def _compute(params: FitParams, fit: Fit, ridge: Ridge, with_open: bool) -> None:
    """Compute one of the inverses from the Gram matrix."""
    gather(ridge, 0)
    total, d = ridge.scratch, ridge.vector.size
    for i in range(d):
        total[i, i] += fit.ridge - params.ridge
        if with_open:
            for j in range(d):
                total[i, j] += fit.open_gram[i, j]
    factorise(total, fit.ridge)
    invert(total, ridge.vector, fit.open_inverse if with_open else fit.inverse)


@kernel
def prepare(params: FitParams, fit: Fit, ridge: Ridge) -> None:
    """Compute the estimate, and the inverse with all pulls that were made if it is not known."""
    if fit.pending > 0 and fit.stale:
        _compute(params, fit, ridge, True)
        fit.stale = False
    weigh(ridge, 0, fit.inverse, fit.weights)


@kernel
def learn(params: FitParams, fit: Fit, ridge: Ridge, context: NDArray[np.float64], reward: float) -> bool:
    """Add a reward to the sums, and follow with the inverse.

    Return whether it was computed anew; if not, `ridge.vector` has v, and v v' was subtracted.
    """
    add(ridge, 0, context, reward)
    fit.squares += reward * reward
    norm = image(fit.inverse, context, ridge.vector)
    if is_news(norm, ridge.counts[0, 0]):
        _compute(params, fit, ridge, False)
        fit.stale = True
        return True
    subtract(fit.inverse, ridge.vector, norm)
    return False


@kernel
def adapt(params: FitParams, fit: Fit, ridge: Ridge) -> bool:
    """Estimate the noise by the residuals and the ridge by the length of the estimate, if it is time: a step of EM.

    Return whether it was.
    """
    total = ridge.counts[0, 0]
    if total < fit.next_fit:
        return False
    fit.next_fit = total + max(1, (3 * total + 19) // 20)  # whenever there are 15% more rewards
    weigh(ridge, 0, fit.inverse, fit.weights)
    gather(ridge, 0)
    theta, d = fit.weights, ridge.vector.size
    residual, length, trace = fit.squares, 0.0, 0.0
    for i in range(d):
        image_of = -params.ridge * theta[i]
        for j in range(d):
            image_of += ridge.scratch[i, j] * theta[j]
        residual += theta[i] * (image_of - 2.0 * (ridge.moment[0, i] + ridge.moment_carry[0, i]))
        length += theta[i] * theta[i]
        trace += fit.inverse[i, i]
    free = max(total - (d - fit.ridge * trace), 0.0)
    declared = params.noise * params.noise
    variance = min(declared, (max(residual, 0.0) + PRIOR * declared) / (free + PRIOR))
    spread = (length + variance * trace) / d
    spread = min(max(spread, LEAST_VARIANCE), params.norm_bound * params.norm_bound)
    fit.noise, fit.ridge = math.sqrt(variance), max(variance / spread, LEAST)
    _compute(params, fit, ridge, False)
    fit.stale = True
    return True


@kernel
def schedule_open(fit: Fit, ridge: Ridge, contexts: NDArray[np.float64]) -> None:
    """Count the pulls of contexts whose rewards are on their way."""
    if fit.pending == 0:
        for i in range(fit.weights.size):
            for j in range(fit.weights.size):
                fit.open_inverse[i, j] = fit.inverse[i, j]
        fit.stale = False
    for i in range(contexts.shape[0]):
        context = contexts[i]
        _add_open(fit, context, 1.0)
        norm = image(fit.open_inverse, context, ridge.vector)
        if is_news(norm, 1):
            fit.stale = True
        else:
            subtract(fit.open_inverse, ridge.vector, norm)
    fit.pending += contexts.shape[0]


@kernel
def _add_open(fit: Fit, context: NDArray[np.float64], sign: float) -> None:
    for i in range(context.size):
        add_multiple(fit.open_gram[i], sign * context[i], context)


@kernel
def settle_open(fit: Fit, contexts: NDArray[np.float64], told: int) -> None:
    """Count no longer the pulls of contexts whose first `told` rewards have come, and the others will not."""
    fit.pending -= contexts.shape[0]
    for i in range(contexts.shape[0]):
        _add_open(fit, contexts[i], -1.0)
    if told < contexts.shape[0]:
        fit.stale = True
    if fit.pending <= 0:
        fit.pending = 0
        for i in range(fit.weights.size):
            for j in range(fit.weights.size):
                fit.open_gram[i, j] = 0.0
