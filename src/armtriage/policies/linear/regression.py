"""What adaptive C2UCB proposes by: ridge regressions that learn their own noise and their own ridge.

Noise and ridge are the likeliest by all rewards, and neither knows the bound on theta: that is for the ellipsoids.
Where each arm has a theta and they share nothing, only the noise is, and the ridge says that a mean is half the range
of rewards away from 0: until a theta has many more rewards than coordinates, its likelihood cannot tell signal from
noise, and would believe of many classes, nearly all of whose rewards are 0, that none is ever right.

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
from armtriage.kernels.record import Floats, Ints, Record, blank, fact
from armtriage.kernels.ridge import (
    Ridge,
    add,
    add_multiple,
    factorise,
    gather,
    image,
    invert,
    is_news,
    log_det,
    subtract,
    weigh,
)

LEAST = 1e-8  # the least ridge: beside a million contexts rounding leaves as much of it as of a larger one
_PRIOR = 4.0  # rewards that the declared noise counts for beside the residuals
_LEAST_VARIANCE = 1e-30  # of the noise, in logarithms
_STEP = 3.0  # by which a ridge moves
_DOUBT = 2.0  # standard deviation of ln(ridge); 0.7 to 2 did alike on the tables for choosing of `make compare`
_OWN, _SHARED = 0, 1


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
    proposes: bool  # or slates come from outside
    shares: bool  # whether there is a part that the thetas of all arms share
    bias: float  # how far a mean may lie from what is linear
    alone: bool  # whether each arm has a theta, and they share nothing


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
    return blank(
        Fit,
        d,
        inverse=np.tile(np.eye(d) / ridge, (models, 1, 1)),
        base=np.zeros((models, d)),
        open_inverse=open_inverse,
        open_gram=open_gram,
        shared_inverse=np.eye(d) / ridge if shares else np.zeros((d, d)),
        pending=np.zeros(models, np.int64),
        noise=noise,
        ridge=ridge,
        shared_ridge=ridge,
        next_fit=1,
    )


@kernel
def _compute(params: Params, fit: Fit, ridge: Ridge, model: int, with_open: bool) -> float:
    """Compute an inverse from the Gram matrix: that of a model, or the one with open pulls.

    Return ln of the determinant of the matrix over its ridge.
    """
    gather(ridge, model)
    total, d = ridge.scratch, ridge.vector.size
    for i in range(d):
        total[i, i] += fit.ridge - params.ridge
        if with_open:
            for j in range(d):
                total[i, j] += fit.open_gram[i, j]
    factorise(total, fit.ridge)
    grown = log_det(total, fit.ridge)
    invert(total, ridge.vector, fit.open_inverse if with_open else fit.inverse[model])
    return grown


@kernel
def _compute_shared(fit: Fit, ridge: Ridge) -> float:
    """Compute S^-1 and the moment from the inverses of all models; return ln of the determinant of S over its ridge."""
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
    grown = log_det(total, fit.shared_ridge)
    invert(total, ridge.vector, fit.shared_inverse)
    return grown


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
    """Estimate the noise, and move each ridge by a step to where the rewards are more likely, if it is time.

    Thetas that share nothing have at most the ridge that is expected beside that noise: where most rewards are 0, or
    arms are many, larger ones are likely that hardly learn.

    Return whether it was.
    """
    total = fit.rewards
    if total < fit.next_fit:
        return False
    first = fit.next_fit == 1
    fit.next_fit = total + max(1, (3 * total + 19) // 20)  # whenever there are 15% more rewards
    length = _mean_length(params, ridge, total)
    if first:
        fit.ridge = max(_expected(params, params.noise * params.noise, length), LEAST)
        fit.shared_ridge = fit.ridge
    most = max(_expected(params, fit.noise * fit.noise, length), LEAST) if params.alone else np.inf
    residual, grown = _step(params, fit, ridge, length, _OWN, most, 0.0, 0.0)
    if params.shares:
        _step(params, fit, ridge, length, _SHARED, np.inf, residual, grown)
    d = ridge.vector.size
    for model in range(fit.base.shape[0]):
        if ridge.counts[model, 0] == 0:
            for i in range(d):
                for j in range(d):
                    fit.inverse[model, i, j] = 0.0
                fit.inverse[model, i, i] = 1.0 / fit.ridge
    fit.stale = True
    return True


@kernel
def _expected(params: Params, variance: float, length: float) -> float:
    """Return the ridge that says that a mean is half the range of rewards away from 0, beside noise of a variance."""
    half = 0.5 * (params.high - params.low)
    return variance * length / (half * half)


@kernel
def _mean_length(params: Params, ridge: Ridge, total: int) -> float:
    """Return the mean squared norm of the contexts that were told of, by the diagonals of the Gram matrices."""
    length = 0.0
    for model in range(ridge.gram.shape[0]):
        for i in range(ridge.vector.size):
            carried = ridge.carry[model, i, i] + ridge.recent[model, i, i]
            length += (ridge.gram[model, i, i] - params.ridge) + carried
    return length / total if length > LEAST * total else LEAST


@kernel
def _step(
    params: Params, fit: Fit, ridge: Ridge, length: float, part: int, most: float, residual: float, grown: float
) -> tuple[float, float]:
    """Make a ridge larger or smaller by a step, up to `most`, if that makes the rewards more likely.

    `residual` and `grown` are what `_weigh_models` last returned; return them.
    """
    now, least, chosen = min(fit.ridge if part == _OWN else fit.shared_ridge, most), np.inf, 0.0
    tried = now
    for factor in (1.0, _STEP, 1.0 / _STEP):
        tried = min(max(now * factor, LEAST), most)
        if factor > 1.0 and tried <= now:
            continue
        residual, grown = _try(params, fit, ridge, part, tried, residual, grown)
        found = _surprise(params, fit, ridge, length, residual, grown)
        if found < least:
            least, chosen = found, tried
            if factor > 1.0:
                break
    if chosen != tried:
        residual, grown = _try(params, fit, ridge, part, chosen, residual, grown)
        _surprise(params, fit, ridge, length, residual, grown)
    return residual, grown


@kernel
def _try(
    params: Params, fit: Fit, ridge: Ridge, part: int, value: float, residual: float, grown: float
) -> tuple[float, float]:
    """Give one of the ridges a value."""
    if part == _SHARED:
        fit.shared_ridge = value
        return residual, grown
    fit.ridge = value
    return _weigh_models(params, fit, ridge)


@kernel
def _weigh_models(params: Params, fit: Fit, ridge: Ridge) -> tuple[float, float]:
    """Compute the inverses and estimates of all models from their sums.

    Return what they leave of the sum of squared rewards, with the penalty on theta, and ln of all determinants.
    """
    residual, grown = fit.squares, 0.0
    for model in range(fit.base.shape[0]):
        if ridge.counts[model, 0] > 0:
            grown += _compute(params, fit, ridge, model, False)
            base = fit.base[model]
            weigh(ridge, model, fit.inverse[model], base)
            for i in range(base.size):
                residual -= base[i] * (ridge.moment[model, i] + ridge.moment_carry[model, i])
    return residual, grown


@kernel
def _surprise(params: Params, fit: Fit, ridge: Ridge, length: float, residual: float, grown: float) -> float:
    """Return -2 ln of how likely rewards and ridges are, and compute the noise and the shared part.

    Rewards are normal given theta, and the noise is the likeliest. Before anything is known, a mean is half the range
    of rewards away from 0, and ln of a ridge that says so is off by `_DOUBT`.
    """
    if params.shares:
        grown += _compute_shared(fit, ridge)
        residual -= image(fit.shared_inverse, fit.moment, fit.shared)
    total, declared = fit.rewards, params.noise * params.noise
    residual = max(residual, 0.0) + _PRIOR * declared
    variance = min(declared, residual / (total + _PRIOR))
    fit.noise, variance = math.sqrt(variance), max(variance, _LEAST_VARIANCE)
    expected = math.log(_expected(params, variance, length))
    grown += (total + _PRIOR) * math.log(variance) + residual / variance
    grown += ((expected - math.log(fit.ridge)) / _DOUBT) ** 2
    if params.shares:
        grown += ((expected - math.log(fit.shared_ridge)) / _DOUBT) ** 2
    return grown


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
