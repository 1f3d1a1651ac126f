"""What adaptive C2UCB proposes by: ridge regressions that learn their own noise and their own ridge.

There is one theta for all arms, or one for each, alone or around a part that all share. The sums are those of a
`Ridge`, a model for each theta, which the ellipsoids share.

With sums G and z of a model's x x' and r x, a ridge l of its own and b for the shared part, D = G + l I. What all
models say of the shared part has precision S = s I + l sum (I - l D^-1) and moment sum l D^-1 z. A model's estimate is
D^-1 (z + l b): its own rewards, shrunk to the shared part. With u = D^-1 x, the square of its width is
x'u + l^2 u'S^-1 u. Every reward changes D^-1 and S^-1 by rank one.

Widths go by what is asked, estimates by what is told. Where there is one theta, pulls whose rewards are on their way
make a second inverse, of the Gram matrix that all pulls together will have; else they are counted for each arm.
"""

from __future__ import annotations

import math
from typing import Any

import numpy as np

from armtriage.kernels.jit import kernel
from armtriage.kernels.order import inner
from armtriage.kernels.record import Floats, Ints, Record, fact
from armtriage.kernels.ridge import Ridge, add, add_multiple, factorise, gather, image, invert, is_news, subtract, weigh

__all__ = ["LEAST", "Fit", "Params", "adapt", "learn", "learn_by_arm", "new_fit", "prepare"]

LEAST = 1e-8  # the least ridge: beside a million contexts rounding leaves as much of it as of a larger one
_PRIOR = 4.0  # rewards that the declared noise counts for beside the residuals
_LEAST_VARIANCE = 1e-8  # of a coordinate of theta


class Params(Record, frozen=True):
    """What is declared of the rewards, which stands where nothing has been learned, and what the policy is to do."""

    dimension: int
    budget: int
    most: int  # pulls of one theta in a round, at most
    noise: float  # sub-Gaussian scale of a reward
    ridge: float  # of the sums
    norm_bound: float  # of theta
    log_delta: float
    factor: float
    low: float  # of means
    high: float
    certified: bool
    proposes: bool  # or somebody else does, and slates come from there
    shares: bool  # whether there is a part that the thetas of all arms share


class Fit(Record):
    """The regressions with an estimated noise and ridge, and the part that they share."""

    inverse: Floats = fact()  # (models, d, d) D^-1
    base: Floats = fact()  # (models, d) D^-1 z
    open_inverse: Floats = fact()  # (d, d) with the pulls whose rewards have not come, while there are any
    open_gram: Floats = fact()  # (d, d) sum of their x x'; neither where each arm has a theta
    shared_inverse: Floats = fact()  # (d, d) S^-1; 0 where nothing is shared
    moment: Floats = fact()  # (d,) of the shared part
    shared: Floats  # (d,) its estimate
    theta: Floats  # (d,)
    pending: Ints  # (models,) pulls whose rewards have not come
    noise: float = fact(0.0, "noise")
    ridge: float = fact(LEAST)  # l
    squares: float = fact(0.0, "pulls")  # sum of r^2
    shared_ridge: float = fact(LEAST)  # s
    next_fit: int = fact(1, "next_fit")  # rewards after which noise and ridges are estimated again
    rewards: int
    stale: bool = fact(0, 1)  # whether `open_inverse` must be computed from its Gram matrix


def new_fit(models: int, dimension: int, noise: float, ridge: float, open_rows: int, shares: bool) -> Fit:
    """Return regressions without rewards; with `open_rows` of 1, and not 0, open pulls have an inverse."""
    d = dimension
    open_inverse, open_gram = np.zeros((2, open_rows * d, d))
    moment, shared, theta = np.zeros((3, d))
    return Fit(
        np.tile(np.eye(d) / ridge, (models, 1, 1)),
        np.zeros((models, d)),
        open_inverse,
        open_gram,
        np.eye(d) / ridge if shares else np.zeros((d, d)),
        moment,
        shared,
        theta,
        np.zeros(models, np.int64),
        noise=noise,
        ridge=ridge,
        squares=0.0,
        shared_ridge=ridge,
        next_fit=1,
        rewards=0,
        stale=False,
    )


@kernel
def _compute(params: Params, fit: Fit, ridge: Ridge, model: int, with_open: bool) -> None:
    """Compute an inverse from the Gram matrix: that of a model, or the one with open pulls."""
    gather(ridge, model)
    total, d = ridge.scratch, ridge.vector.size
    for i in range(d):
        total[i, i] += fit.ridge - params.ridge
        if with_open:
            for j in range(d):
                total[i, j] += fit.open_gram[i, j]
    factorise(total, fit.ridge)
    invert(total, ridge.vector, fit.open_inverse if with_open else fit.inverse[model])


@kernel
def _compute_shared(fit: Fit, ridge: Ridge) -> None:
    """Compute S^-1 and the moment from the inverses of all models."""
    total, d, own = ridge.scratch, ridge.vector.size, fit.ridge
    for i in range(d):
        fit.moment[i] = 0.0
        for j in range(d):
            total[i, j] = 0.0
        total[i, i] = fit.shared_ridge
    for model in range(fit.base.shape[0]):
        if ridge.counts[model, 0] == 0:
            continue
        for i in range(d):
            fit.moment[i] += own * fit.base[model, i]
            row, kept = total[i], fit.inverse[model, i]
            for j in range(d):
                row[j] -= own * own * kept[j]
            row[i] += own
    factorise(total, fit.shared_ridge)
    invert(total, ridge.vector, fit.shared_inverse)


@kernel
def prepare(params: Params, fit: Fit, ridge: Ridge) -> None:
    """Compute the estimate of the only theta, and the inverse with all pulls that were made if it is not known."""
    if fit.pending[0] > 0 and fit.stale:
        _compute(params, fit, ridge, 0, True)
        fit.stale = False
    weigh(ridge, 0, fit.inverse[0], fit.base[0])


@kernel
def learn(params: Params, fit: Fit, ridge: Ridge, model: int, context: Floats, reward: float) -> bool:
    """Add a reward to the sums of a model, and follow with its inverse.

    Return whether it was computed from the sums; if not, `ridge.vector` has v, and v v' was subtracted.
    """
    add(ridge, model, context, reward)
    fit.squares += reward * reward
    fit.rewards += 1
    norm = image(fit.inverse[model], context, ridge.vector)
    if is_news(norm, ridge.counts[model, 0]):
        _compute(params, fit, ridge, model, False)
        fit.stale = True
        return True
    subtract(fit.inverse[model], ridge.vector, norm)
    return False


@kernel
def learn_by_arm(params: Params, fit: Fit, ridge: Ridge, arm: int, context: Floats, reward: float) -> None:
    """Do the same where each arm has a theta, and follow with its estimate and the shared part."""
    fresh, base, vector = learn(params, fit, ridge, arm, context, reward), fit.base[arm], ridge.vector
    if params.shares and not fresh:
        for j in range(base.size):
            fit.moment[j] -= fit.ridge * base[j]
    weigh(ridge, arm, fit.inverse[arm], base)
    if not params.shares:
        return
    if not fresh:
        for j in range(base.size):
            fit.moment[j] += fit.ridge * base[j]
            vector[j] *= fit.ridge
        norm = image(fit.shared_inverse, vector, fit.theta)
        if not is_news(norm, 1):
            subtract(fit.shared_inverse, fit.theta, norm)
            return
    _compute_shared(fit, ridge)


@kernel
def adapt(params: Params, fit: Fit, ridge: Ridge) -> bool:
    """Estimate the noise by the residuals, and the ridges by the lengths of both parts, if it is time: a step of EM.

    Return whether it was.
    """
    total = fit.rewards
    if total < fit.next_fit:
        return False
    fit.next_fit = total + max(1, (3 * total + 19) // 20)  # whenever there are 15% more rewards
    d, own, models = ridge.vector.size, fit.ridge, fit.base.shape[0]
    shared, theta, vector, inverse = fit.shared, fit.theta, ridge.vector, fit.shared_inverse
    length, trace, used = 0.0, 0.0, 0.0
    if params.shares:
        image(inverse, fit.moment, shared)
        for i in range(d):
            length += shared[i] * shared[i]
            trace += inverse[i, i]
        used = d - fit.shared_ridge * trace
    residual, apart, spread, seen = fit.squares, 0.0, 0.0, 0
    for model in range(models):
        if ridge.counts[model, 0] == 0:
            continue
        seen += 1
        kept = fit.inverse[model]
        weigh(ridge, model, kept, theta)
        image(kept, shared, vector)
        gather(ridge, model)
        for i in range(d):
            theta[i] += own * vector[i]
            apart += (theta[i] - shared[i]) * (theta[i] - shared[i])
        for i in range(d):
            image_of = -params.ridge * theta[i]
            # In the order of before, so that states of before are met to the last bit.
            if models > 1:
                image_of += inner(ridge.scratch[i], theta)
            else:
                for j in range(d):
                    image_of += ridge.scratch[i, j] * theta[j]
            residual += theta[i] * (image_of - 2.0 * (ridge.moment[model, i] + ridge.moment_carry[model, i]))
        more = 0.0
        for i in range(d):
            more += kept[i, i]
            if params.shares:
                # The i-th row e of I - l D^-1 adds e S^-1 e'.
                for j in range(d):
                    vector[j] = -own * kept[i, j]
                vector[i] += 1.0
                more += image(inverse, vector, ridge.scratch[0])
        spread += more
        used += d - own * more
    declared, most = params.noise * params.noise, params.norm_bound * params.norm_bound
    variance = min(declared, (max(residual, 0.0) + _PRIOR * declared) / (max(total - used, 0.0) + _PRIOR))
    apart = min(max((apart + variance * spread) / (max(seen, 1) * d), _LEAST_VARIANCE), most)
    length = min(max((length + variance * trace) / d, _LEAST_VARIANCE), most)
    fit.noise, fit.ridge = math.sqrt(variance), max(variance / apart, LEAST)
    fit.shared_ridge = max(variance / length, LEAST)
    for model in range(models):
        if ridge.counts[model, 0] > 0:
            _compute(params, fit, ridge, model, False)
            weigh(ridge, model, fit.inverse[model], fit.base[model])
        else:
            for i in range(d):
                for j in range(d):
                    fit.inverse[model, i, j] = 0.0
                fit.inverse[model, i, i] = 1.0 / fit.ridge
    if params.shares:
        _compute_shared(fit, ridge)
    fit.stale = True
    return True


@kernel
def schedule(params: Params, state: Any, contexts: Floats, notes: Ints) -> None:
    """Count the pulls of contexts whose rewards are on their way, for the only theta."""
    fit, vector = state.fit, state.ridge.vector
    inverse, d = fit.open_inverse, vector.size
    if fit.pending[0] == 0:
        for i in range(d):
            for j in range(d):
                inverse[i, j] = fit.inverse[0, i, j]
        fit.stale = False
    for i in range(contexts.shape[0]):
        context = contexts[i]
        _add_open(fit, context, 1.0)
        norm = image(inverse, context, vector)
        if is_news(norm, 1):
            fit.stale = True
        else:
            subtract(inverse, vector, norm)
    fit.pending[0] += contexts.shape[0]


@kernel
def schedule_by_arm(params: Params, state: Any, contexts: Floats, notes: Ints) -> None:
    """Do the same where each arm has a theta: they are only counted."""
    for i in range(contexts.shape[0]):
        state.fit.pending[notes[i]] += 1


@kernel
def _add_open(fit: Fit, context: Floats, sign: float) -> None:
    for i in range(context.size):
        add_multiple(fit.open_gram[i], sign * context[i], context)


@kernel
def release(params: Params, state: Any, contexts: Floats, notes: Ints, told: int) -> None:
    """Count no longer the pulls of contexts whose first `told` rewards have come, and the others will not."""
    fit = state.fit
    fit.pending[0] -= contexts.shape[0]
    for i in range(contexts.shape[0]):
        _add_open(fit, contexts[i], -1.0)
    if told < contexts.shape[0]:
        fit.stale = True
    if fit.pending[0] <= 0:
        fit.pending[0] = 0
        for i in range(fit.open_gram.shape[0]):
            for j in range(fit.open_gram.shape[1]):
                fit.open_gram[i, j] = 0.0


@kernel
def release_by_arm(params: Params, state: Any, contexts: Floats, notes: Ints, told: int) -> None:
    """Do the same where each arm has a theta."""
    for i in range(contexts.shape[0]):
        state.fit.pending[notes[i]] -= 1
