"""Ridge regression for kernels: exact to rounding after millions of rewards, whatever the contexts.

The Gram matrix is summed in blocks with compensation, so that a million equal contexts leave the directions never
seen untouched. The inverse follows each reward by a rank-one update, and now and then is computed again.
"""

from __future__ import annotations

import math

import numpy as np

from armtriage.kernels.jit import apart, kernel
from armtriage.kernels.record import Floats, Ints, Record, blank, fact

LANES = 32
_FOLD = 64
_REFRESH = 1024
_NEWS = 100.0
TOTAL, STALE = 0, 1


class Ridge(Record):
    """Several regressions over the same dimension d; the first index is the model's number."""

    gram: Floats = fact()  # (models, d, d) ridge I + sum of x x'
    carry: Floats = fact()  # (models, d, d) what rounding kept out of `gram`
    recent: Floats = fact()  # (models, d, d) sum of x x' not yet in `gram`
    inverse: Floats = fact()  # (models, d, d)
    moment: Floats = fact()  # (models, d) sum of r x
    moment_carry: Floats = fact()  # (models, d)
    weights: Floats = fact()  # (models, d) the estimate of theta
    log_det: Floats = fact()  # (models,) of gram / ridge
    counts: Ints = fact(0, "counts")  # (models, 2) rewards in TOTAL, and whether `weights` is STALE
    scratch: Floats  # (d, d)
    vector: Floats  # (d,)
    block: Floats  # (d + 8, LANES) contexts of some arms, one arm per column, and their sums


def new_ridge(models: int, dimension: int, ridge: float) -> Ridge:
    """Return regressions without rewards."""
    d = dimension

    return blank(
        Ridge,
        d,
        gram=np.tile(ridge * np.eye(d), (models, 1, 1)),
        inverse=np.tile(np.eye(d) / ridge, (models, 1, 1)),
        **{name: np.zeros((models, d, d)) for name in ("carry", "recent")},
        **{name: np.zeros((models, d)) for name in ("moment", "moment_carry", "weights")},
        log_det=np.zeros(models),
        counts=np.zeros((models, 2), np.int64),
        scratch=np.zeros((d, d)),
        block=np.zeros((d + 8, LANES)),
    )


@kernel
@apart
def add_multiple(total: Floats, factor: float, terms: Floats) -> None:
    """Add a multiple of `terms` to `total`."""
    for j in range(total.size):
        total[j] += factor * terms[j]


@kernel
@apart
def _add_exactly(total: Floats, carry: Floats, terms: Floats) -> None:
    """Add `terms` to `total`, and what rounding loses to `carry` (Knuth's two-sum)."""
    for j in range(total.size):
        term, before = terms[j], total[j]
        after = before + term
        taken = after - before
        carry[j] += (before - (after - taken)) + (term - taken)
        total[j] = after


@kernel
def add(ridge: Ridge, model: int, context: Floats, reward: float) -> None:
    """Add a reward to the sums of a model; its inverse and estimate are left as they are."""
    recent, vector, d = ridge.recent[model], ridge.vector, context.size
    for i in range(d):
        add_multiple(recent[i], context[i], context)
        vector[i] = reward * context[i]
    _add_exactly(ridge.moment[model], ridge.moment_carry[model], vector)
    ridge.counts[model, TOTAL] += 1
    ridge.counts[model, STALE] = 1
    if ridge.counts[model, TOTAL] % _FOLD == 0:
        for i in range(d):
            _add_exactly(ridge.gram[model, i], ridge.carry[model, i], recent[i])
            for j in range(d):
                recent[i, j] = 0.0


@kernel
def shrink(ridge: Ridge, model: int, context: Floats, prior: float) -> bool:
    """Update the inverse of a model for a context that was just added (Sherman and Morrison).

    Return whether it was computed again; if not, `vector` has v, and v v' was subtracted.
    """
    norm = image(ridge.inverse[model], context, ridge.vector)
    if is_news(norm, ridge.counts[model, TOTAL]):
        refresh(ridge, model, prior)
        return True
    ridge.log_det[model] += math.log1p(norm)
    subtract(ridge.inverse[model], ridge.vector, norm)
    return False


@kernel
def is_news(norm: float, total: int) -> bool:
    """Whether an inverse had better be computed again: now and then, or when rounding would be left of it.

    That is so when a context is news beside a tiny ridge.
    """
    return (norm > _NEWS) | (total % _REFRESH == 0)


@kernel
@apart
def image(inverse: Floats, context: Floats, vector: Floats) -> float:
    """Write ``inverse x`` into `vector`; return ``x' inverse x``."""
    d = context.size
    for j in range(d):
        vector[j] = 0.0
    i = 0
    # Four rows at a time, one after the other: the bits are those of one row at a time.
    while i + 4 <= d:
        a, b, c, e = context[i], context[i + 1], context[i + 2], context[i + 3]
        p, q, r, s = inverse[i], inverse[i + 1], inverse[i + 2], inverse[i + 3]
        for j in range(d):
            vector[j] = (((vector[j] + a * p[j]) + b * q[j]) + c * r[j]) + e * s[j]
        i += 4
    while i < d:
        x, row = context[i], inverse[i]
        for j in range(d):
            vector[j] += x * row[j]
        i += 1
    norm = 0.0
    for j in range(d):
        norm += context[j] * vector[j]
    return max(norm, 0.0)


@kernel
def subtract(inverse: Floats, vector: Floats, norm: float) -> None:
    """Take the term that a context adds to the Gram matrix out of its inverse, after `image`."""
    d = vector.size
    # The same product above and below the diagonal: the inverse stays symmetric to the last bit.
    scale = 1.0 / math.sqrt(1.0 + norm)
    for j in range(d):
        vector[j] *= scale
    for i in range(d):
        add_multiple(inverse[i], -vector[i], vector)


@kernel
def gather(ridge: Ridge, model: int) -> None:
    """Put a model's Gram matrix into `scratch`."""
    total, d = ridge.scratch, ridge.vector.size
    for i in range(d):
        for j in range(d):
            total[i, j] = ridge.gram[model, i, j] + (ridge.carry[model, i, j] + ridge.recent[model, i, j])


@kernel
def factorise(upper: Floats, prior: float) -> None:
    """Replace a Gram matrix with ridge `prior` by its upper Cholesky factor U, gram = U'U."""
    d = upper.shape[0]
    for k in range(d):
        row = upper[k]
        # No pivot of ridge I + PSD is below ridge; one that is has been lost to rounding.
        pivot = math.sqrt(max(row[k], prior))
        for j in range(k):
            row[j] = 0.0
        row[k] = pivot
        for j in range(k + 1, d):
            row[j] /= pivot
        for i in range(k + 1, d):
            add_multiple(upper[i, i:], -row[i], row[i:])


@kernel
def log_det(upper: Floats, prior: float) -> float:
    """Return ln of the determinant of a matrix with Cholesky factor `upper`, in units of its ridge `prior`."""
    total = 0.0
    for k in range(upper.shape[0]):
        total += 2.0 * math.log(upper[k, k]) - math.log(prior)
    return max(total, 0.0)


@kernel
def factor(ridge: Ridge, model: int, prior: float) -> None:
    """Put the upper Cholesky factor of a model's Gram matrix into `scratch`."""
    gather(ridge, model)
    factorise(ridge.scratch, prior)


@kernel
def invert(upper: Floats, vector: Floats, inverse: Floats) -> None:
    """Write the inverse of the matrix with Cholesky factor `upper`, whose lower triangle is scratch, as is `vector`."""
    d = vector.size
    for i in range(d):
        for j in range(d):
            inverse[i, j] = 0.0
    # Columns of U as rows, so that what follows reads along them.
    for i in range(d):
        for j in range(i):
            upper[i, j] = upper[j, i]
    # With R = U^-1, column by column from the last, inverse = R R' = sum over columns c of R c c'.
    for c in range(d):
        for i in range(c):
            vector[i] = 0.0
        vector[c] = 1.0
        for i in range(c, -1, -1):
            vector[i] /= upper[i, i]
            add_multiple(vector[:i], -vector[i], upper[i, :i])
        for i in range(c + 1):
            add_multiple(inverse[i, : c + 1], vector[i], vector[: c + 1])


@kernel
def refresh(ridge: Ridge, model: int, prior: float) -> None:
    """Compute the inverse of a model and its determinant from the Gram matrix."""
    factor(ridge, model, prior)
    ridge.log_det[model] = log_det(ridge.scratch, prior)
    invert(ridge.scratch, ridge.vector, ridge.inverse[model])


@kernel
def refit(ridge: Ridge, model: int) -> None:
    """Compute the estimate of a model if rewards have come since."""
    if ridge.counts[model, STALE] == 0:
        return
    ridge.counts[model, STALE] = 0
    weigh(ridge, model, ridge.inverse[model], ridge.weights[model])


@kernel
def weigh(ridge: Ridge, model: int, inverse: Floats, weights: Floats) -> None:
    """Write the estimate of theta with an inverse of the Gram matrix, the model's own or one with another ridge."""
    moment, carry = ridge.moment[model], ridge.moment_carry[model]
    for j in range(weights.size):
        weights[j] = 0.0
    for i in range(weights.size):
        add_multiple(weights, moment[i] + carry[i], inverse[i])


@kernel
def solve(ridge: Ridge, model: int, prior: float) -> None:
    """Compute the estimate of a model by its Cholesky factor, which `scratch` holds afterwards."""
    factor(ridge, model, prior)
    upper, weights, d = ridge.scratch, ridge.weights[model], ridge.vector.size
    for i in range(d):
        weights[i] = ridge.moment[model, i] + ridge.moment_carry[model, i]
    for i in range(d):
        v, row = weights[i] / upper[i, i], upper[i]
        for j in range(d):
            weights[j] -= v * row[j]
        weights[i] = v
    back(upper, weights)


@kernel
def back(upper: Floats, vector: Floats) -> None:
    """Solve ``upper y = vector`` in place."""
    for i in range(vector.size - 1, -1, -1):
        total = vector[i]
        for j in range(i + 1, vector.size):
            total -= upper[i, j] * vector[j]
        vector[i] = total / upper[i, i]


@kernel
def forms(ridge: Ridge, model: int, contexts: Floats, arms: Ints, n: int, estimates: Floats, squares: Floats) -> None:
    """For the first n arms, compute the estimate and the square ``x' inverse x`` of the width."""
    forms_with(ridge.inverse[model], ridge.weights[model], ridge.block, contexts, arms, n, estimates, squares)


@kernel
def forms_with(
    inverse: Floats,
    weights: Floats,
    block: Floats,
    contexts: Floats,
    arms: Ints,
    n: int,
    estimates: Floats,
    squares: Floats,
) -> None:
    """Compute the same with any inverse and estimate; `block` is scratch.

    Arms go through in blocks of LANES, one arm per column, so that every operation is one on vectors; of the symmetric
    inverse only the lower triangle is used, two rows at a time.
    """
    d = weights.size
    row, below, square, estimate = block[d], block[d + 1], block[d + 2], block[d + 3]
    for first in range(0, n, LANES):
        lanes = min(LANES, n - first)
        for lane in range(lanes):
            context = contexts[arms[first + lane]]
            for j in range(d):
                block[j, lane] = context[j]
        for lane in range(LANES):
            square[lane] = 0.0
            estimate[lane] = 0.0
        for i in range(0, d - 1, 2):
            _two_rows(inverse, block, i, row, below)
            _gain(square, estimate, block[i], block[i + 1], row, below, weights[i], weights[i + 1])
        if d % 2 == 1:
            _one_row(inverse, block, d - 1, row)
            x, v = block[d - 1], weights[d - 1]
            for lane in range(LANES):
                square[lane] += x[lane] * row[lane]
                estimate[lane] += v * x[lane]
        for lane in range(lanes):
            squares[first + lane] = max(0.0, 2.0 * square[lane])
            estimates[first + lane] = estimate[lane]


@kernel
def forms_of_two(
    inverse: Floats,
    other_inverse: Floats,
    weights: Floats,
    other_weights: Floats,
    block: Floats,
    contexts: Floats,
    estimates: Floats,
    squares: Floats,
    other_estimates: Floats,
    other_squares: Floats,
) -> None:
    """Compute the same with two inverses at once, to the same bits in about 1.5 times the time of one."""
    d, n = weights.size, contexts.shape[0]
    row, below, square, estimate = block[d], block[d + 1], block[d + 2], block[d + 3]
    other_row, other_below, other_square, other = block[d + 4], block[d + 5], block[d + 6], block[d + 7]
    for first in range(0, n, LANES):
        lanes = min(LANES, n - first)
        for lane in range(lanes):
            context = contexts[first + lane]
            for j in range(d):
                block[j, lane] = context[j]
        for lane in range(LANES):
            square[lane], estimate[lane], other_square[lane], other[lane] = 0.0, 0.0, 0.0, 0.0
        for i in range(0, d - 1, 2):
            _four_rows(inverse, other_inverse, block, i, row, below, other_row, other_below)
            x, y = block[i], block[i + 1]
            _gain(square, estimate, x, y, row, below, weights[i], weights[i + 1])
            _gain(other_square, other, x, y, other_row, other_below, other_weights[i], other_weights[i + 1])
        if d % 2 == 1:
            _one_row(inverse, block, d - 1, row)
            _one_row(other_inverse, block, d - 1, other_row)
            x, v, other_v = block[d - 1], weights[d - 1], other_weights[d - 1]
            for lane in range(LANES):
                square[lane] += x[lane] * row[lane]
                estimate[lane] += v * x[lane]
                other_square[lane] += x[lane] * other_row[lane]
                other[lane] += other_v * x[lane]
        for lane in range(lanes):
            estimates[first + lane], squares[first + lane] = estimate[lane], max(0.0, 2.0 * square[lane])
            other_estimates[first + lane], other_squares[first + lane] = other[lane], max(0.0, 2.0 * other_square[lane])


@kernel
@apart
def _gain(
    square: Floats, estimate: Floats, x: Floats, y: Floats, row: Floats, below: Floats, v: float, w: float
) -> None:
    """Add what two coordinates contribute to squares and estimates."""
    for lane in range(LANES):
        square[lane] += x[lane] * row[lane] + y[lane] * below[lane]
        estimate[lane] += v * x[lane] + w * y[lane]


@kernel
@apart
def _four_rows(
    inverse: Floats,
    other_inverse: Floats,
    block: Floats,
    i: int,
    row: Floats,
    below: Floats,
    other_row: Floats,
    other_below: Floats,
) -> None:
    """Do what `_two_rows` does with two inverses: what is loaded of the block is used twice as often."""
    x, y = block[i], block[i + 1]
    a, b, c = 0.5 * inverse[i, i], inverse[i + 1, i], 0.5 * inverse[i + 1, i + 1]
    e, f, g = 0.5 * other_inverse[i, i], other_inverse[i + 1, i], 0.5 * other_inverse[i + 1, i + 1]
    for lane in range(LANES):
        row[lane] = a * x[lane]
        below[lane] = b * x[lane] + c * y[lane]
        other_row[lane] = e * x[lane]
        other_below[lane] = f * x[lane] + g * y[lane]
    p, q, r, s = inverse[i], inverse[i + 1], other_inverse[i], other_inverse[i + 1]
    j = 0
    while j + 4 <= i:
        p0, p1, p2, p3 = p[j], p[j + 1], p[j + 2], p[j + 3]
        q0, q1, q2, q3 = q[j], q[j + 1], q[j + 2], q[j + 3]
        r0, r1, r2, r3 = r[j], r[j + 1], r[j + 2], r[j + 3]
        s0, s1, s2, s3 = s[j], s[j + 1], s[j + 2], s[j + 3]
        x0, x1, x2, x3 = block[j], block[j + 1], block[j + 2], block[j + 3]
        for lane in range(LANES):
            v0, v1, v2, v3 = x0[lane], x1[lane], x2[lane], x3[lane]
            row[lane] += (p0 * v0 + p1 * v1) + (p2 * v2 + p3 * v3)
            below[lane] += (q0 * v0 + q1 * v1) + (q2 * v2 + q3 * v3)
            other_row[lane] += (r0 * v0 + r1 * v1) + (r2 * v2 + r3 * v3)
            other_below[lane] += (s0 * v0 + s1 * v1) + (s2 * v2 + s3 * v3)
        j += 4
    while j < i:
        p0, q0, r0, s0, x0 = p[j], q[j], r[j], s[j], block[j]
        for lane in range(LANES):
            row[lane] += p0 * x0[lane]
            below[lane] += q0 * x0[lane]
            other_row[lane] += r0 * x0[lane]
            other_below[lane] += s0 * x0[lane]
        j += 1


@kernel
def lower_forms(
    vectors: Floats, weights: Floats, block: Floats, contexts: Floats, estimates: Floats, squares: Floats
) -> None:
    """Write estimates, and let squares follow an inverse from which v v' was taken for each of `vectors`."""
    d, n = weights.size, contexts.shape[0]
    row, square = block[d], block[d + 2]
    for first in range(0, n, LANES):
        lanes = min(LANES, n - first)
        for lane in range(lanes):
            context = contexts[first + lane]
            for j in range(d):
                block[j, lane] = context[j]
            square[lane] = squares[first + lane]
        for i in range(vectors.shape[0]):
            _combine(vectors[i], block, row)
            for lane in range(LANES):
                square[lane] -= row[lane] * row[lane]
        _combine(weights, block, row)
        for lane in range(lanes):
            squares[first + lane] = max(0.0, square[lane])
            estimates[first + lane] = row[lane]


@kernel
@apart
def _combine(weights: Floats, block: Floats, row: Floats) -> None:
    """Write the inner products of the block's columns with a vector."""
    for lane in range(LANES):
        row[lane] = 0.0
    d = weights.size
    j = 0
    while j + 4 <= d:
        a0, a1, a2, a3 = weights[j], weights[j + 1], weights[j + 2], weights[j + 3]
        x0, x1, x2, x3 = block[j], block[j + 1], block[j + 2], block[j + 3]
        for lane in range(LANES):
            row[lane] += (a0 * x0[lane] + a1 * x1[lane]) + (a2 * x2[lane] + a3 * x3[lane])
        j += 4
    while j < d:
        a0, x0 = weights[j], block[j]
        for lane in range(LANES):
            row[lane] += a0 * x0[lane]
        j += 1


@kernel
@apart
def _two_rows(inverse: Floats, block: Floats, i: int, row: Floats, below: Floats) -> None:
    """Multiply rows i (even) and i + 1 of the lower triangle, with half the diagonal, with the block."""
    x, y = block[i], block[i + 1]
    a, b, c = 0.5 * inverse[i, i], inverse[i + 1, i], 0.5 * inverse[i + 1, i + 1]
    for lane in range(LANES):
        row[lane] = a * x[lane]
        below[lane] = b * x[lane] + c * y[lane]
    j = 0
    while j + 4 <= i:
        a0, a1, a2, a3 = inverse[i, j], inverse[i, j + 1], inverse[i, j + 2], inverse[i, j + 3]
        b0, b1, b2, b3 = inverse[i + 1, j], inverse[i + 1, j + 1], inverse[i + 1, j + 2], inverse[i + 1, j + 3]
        x0, x1, x2, x3 = block[j], block[j + 1], block[j + 2], block[j + 3]
        for lane in range(LANES):
            v0, v1, v2, v3 = x0[lane], x1[lane], x2[lane], x3[lane]
            row[lane] += (a0 * v0 + a1 * v1) + (a2 * v2 + a3 * v3)
            below[lane] += (b0 * v0 + b1 * v1) + (b2 * v2 + b3 * v3)
        j += 4
    while j < i:
        a0, b0, x0 = inverse[i, j], inverse[i + 1, j], block[j]
        for lane in range(LANES):
            row[lane] += a0 * x0[lane]
            below[lane] += b0 * x0[lane]
        j += 1


@kernel
@apart
def _one_row(inverse: Floats, block: Floats, i: int, row: Floats) -> None:
    x, a = block[i], 0.5 * inverse[i, i]
    for lane in range(LANES):
        row[lane] = a * x[lane]
    for j in range(i):
        a, x = inverse[i, j], block[j]
        for lane in range(LANES):
            row[lane] += a * x[lane]
