"""Estimates and widths for the contexts of a request; where they come again, what was kept follows each reward.

The contexts of most requests are new, so nothing is kept of them but a mark of their first row. If that comes again,
all rows are kept, and if they come again, too, so are the widths: with one theta for all arms they follow a reward in
K d operations, and with one for each arm only those of the arms that have learned are computed again.
"""

from __future__ import annotations

from typing import Any

import numpy as np

from armtriage.kernels.jit import float_bits, kernel
from armtriage.kernels.order import inner
from armtriage.kernels.random import bits
from armtriage.kernels.record import Floats, Ints, Record, blank, fact
from armtriage.kernels.ridge import TOTAL, forms_of_two, forms_with, image, lower_forms, refit
from armtriage.policies.linear.account import radius
from armtriage.policies.linear.regression import Params, prepare

_NEW, _FIRST_ROW, _ALL_ROWS = 0, 1, 2


class Repeated(Record):
    """The contexts of the last request, or a mark of them."""

    contexts: Floats  # (K, d) while `held`
    rows: int = fact(0, "arms")
    known: int = fact(_NEW, _ALL_ROWS)  # what `mark` is of
    mark: int = fact()
    held: bool  # whether `contexts` are here: after loading they are known by their mark only


class Squares(Record):
    """Squares of widths with an inverse, for contexts that came again, and what was taken from the inverse since."""

    values: Floats = fact(0.0)  # (K,)
    vectors: Floats = fact()  # (d / 3, d): with more of them it takes no longer to begin again
    waiting: int = fact(-1, "vectors")  # vectors that `values` do not follow yet; -1 if they are those of nothing


class Widths(Record):
    """What is kept where all arms share theta."""

    own: Squares = fact()  # with the inverse that proposes
    sure: Squares = fact()  # with the ellipsoid's


class Rows(Record):
    """What is kept where each arm has a theta, beside the boxes."""

    seats: Ints = fact(0, "last")  # (K,) the arms of the last request's rows
    changed: Ints  # (K,) whether an arm has learned since
    images: Floats  # (K, d) D^-1 x
    squares: Floats  # (K,) x'D^-1 x
    bases: Floats  # (K,) x'D^-1 z


def new_repeated(n_arms: int, dimension: int) -> Repeated:
    """Return what is kept before the first request."""
    return Repeated(np.zeros((n_arms, dimension)), rows=0, known=_NEW, mark=0, held=False)


def new_widths(n_arms: int, dimension: int) -> Widths:
    """Return room for the widths of one theta."""
    own, sure = (Squares(np.zeros(n_arms), np.zeros((dimension // 3, dimension)), waiting=-1) for _ in range(2))
    return Widths(own, sure)


def new_rows(n_arms: int, dimension: int) -> Rows:
    """Return room for the widths of a theta for each arm."""
    return blank(Rows, n_arms, changed=np.ones(n_arms, np.int64), images=np.zeros((n_arms, dimension)))


@kernel
def _mark(contexts: Floats, rows: int) -> int:
    """Return 63 bits that other rows have by an accident of probability 2^-63 only."""
    mark = np.uint64(0)
    for arm in range(rows):
        for j in range(contexts.shape[1]):
            mark = bits(mark, float_bits(contexts[arm, j]))
    return np.int64(mark >> np.uint64(1))  # type: ignore[return-value]


@kernel
def repeats(repeated: Repeated, contexts: Floats) -> bool:
    """Whether all contexts are those of the last two requests; remember them."""
    n = contexts.shape[0]
    if repeated.rows == n and repeated.known == _ALL_ROWS:
        if repeated.held:
            if _equal(repeated.contexts, contexts):
                return True
        elif _mark(contexts, n) == repeated.mark:
            _hold(repeated, contexts)
            return True
    elif repeated.rows == n and repeated.known == _FIRST_ROW and _mark(contexts, 1) == repeated.mark:
        repeated.known, repeated.mark = _ALL_ROWS, _mark(contexts, n)
        _hold(repeated, contexts)
        return False
    repeated.rows, repeated.known, repeated.mark, repeated.held = n, _FIRST_ROW, _mark(contexts, 1), False
    return False


@kernel
def _hold(repeated: Repeated, contexts: Floats) -> None:
    for arm in range(contexts.shape[0]):
        for j in range(contexts.shape[1]):
            repeated.contexts[arm, j] = contexts[arm, j]
    repeated.held = True


@kernel
def _equal(kept: Floats, contexts: Floats) -> bool:
    for arm in range(contexts.shape[0]):
        differ = 0
        for j in range(contexts.shape[1]):
            differ |= float_bits(kept[arm, j]) ^ float_bits(contexts[arm, j])
        if differ != 0:
            return False
    return True


@kernel
def _follow(
    kept: Squares, weights: Floats, block: Floats, contexts: Floats, estimates: Floats, squares: Floats
) -> bool:
    """Write estimates and squares of widths for contexts that came again, if that is less work than to begin again."""
    if kept.waiting < 0:
        return False
    n = contexts.shape[0]
    lower_forms(kept.vectors[: kept.waiting], weights, block, contexts, estimates, kept.values[:n])
    kept.waiting = 0
    for arm in range(n):
        squares[arm] = kept.values[arm]
    return True


@kernel
def _keep(kept: Squares, squares: Floats) -> None:
    """Keep squares that were just computed."""
    for arm in range(squares.size):
        kept.values[arm] = squares[arm]
    kept.waiting = 0


@kernel
def note_vector(kept: Squares, vector: Floats) -> None:
    """Note that v v' was taken from the inverse."""
    if kept.waiting < 0:
        return
    if kept.waiting == kept.vectors.shape[0]:
        kept.waiting = -1
        return
    for j in range(vector.size):
        kept.vectors[kept.waiting, j] = vector[j]
    kept.waiting += 1


@kernel
def note_change(kept: Squares) -> None:
    """Note that the inverse is another one."""
    kept.waiting = -1


@kernel
def find_widths(params: Params, state: Any, contexts: Floats) -> bool:
    """Write estimates and squares of widths, with all pulls that were made, and if need be those of the ellipsoid.

    Return whether the contexts came again.
    """
    fit, ridge, boxes, kept, n = state.fit, state.ridge, state.boxes, state.kept, contexts.shape[0]
    values, squares, estimates, sure = state.values[:n], state.squares[:n], boxes.estimates[:n], boxes.squares[:n]
    waits, block = fit.pending[0] > 0, ridge.block
    # Where the rewards of one slate are too many to follow, nothing is kept for them.
    follows = params.budget <= kept.own.vectors.shape[0]
    again = (params.certified or follows) and repeats(state.repeated, contexts)
    theta, other, keeps = fit.base[0], ridge.weights[0], again and follows
    find_own, find_sure = params.proposes, params.certified
    if find_own:
        prepare(params, fit, ridge)
        if keeps and not waits:
            find_own = not _follow(kept.own, theta, block, contexts, values, squares)
    if find_sure:
        refit(ridge, 0)
        boxes.reaches[:n] = radius(params, ridge.log_det[0], ridge.counts[0, TOTAL])
        if keeps:
            find_sure = not _follow(kept.sure, other, block, contexts, estimates, sure)
    inverse = fit.open_inverse if waits else fit.inverse[0]
    if find_own and find_sure:
        forms_of_two(inverse, ridge.inverse[0], theta, other, block, contexts, values, squares, estimates, sure)
    elif find_own:
        forms_with(inverse, theta, block, contexts, state.arms, n, values, squares)
    elif find_sure:
        forms_with(ridge.inverse[0], other, block, contexts, state.arms, n, estimates, sure)
    if not keeps:
        note_change(kept.own)
        note_change(kept.sure)
        return again
    if find_own and not waits:
        _keep(kept.own, squares)
    if find_sure:
        _keep(kept.sure, sure)
    return True


@kernel
def find_widths_by_arm(params: Params, state: Any, contexts: Floats) -> bool:
    """Do the same where each arm has a theta; pulls without a reward count as if they had the present context.

    If contexts came again, only arms that have learned are computed again, but for what is shared.
    """
    fit, ridge, boxes, kept, n = state.fit, state.ridge, state.boxes, state.kept, contexts.shape[0]
    again = _sits(kept, state.models, n) & repeats(state.repeated, contexts)
    shared = fit.shared
    if params.shares:
        image(fit.shared_inverse, fit.moment, shared)
    for place in range(n):
        arm, x, u = state.models[place], contexts[place], kept.images[place]
        if not again or kept.changed[arm] == 1:
            kept.squares[place] = image(fit.inverse[arm], x, u)
            kept.bases[place] = inner(x, fit.base[arm])
            if params.certified:
                refit(ridge, arm)
                boxes.squares[place] = image(ridge.inverse[arm], x, ridge.vector)
                boxes.estimates[place] = inner(ridge.weights[arm], x)
                grown = ridge.log_det[arm] + 2.0 * state.log_shares[arm]
                boxes.reaches[place] = radius(params, grown, ridge.counts[arm, TOTAL])
        estimate, square = kept.bases[place], kept.squares[place]
        if params.shares:
            estimate += fit.ridge * inner(u, shared)
            square += fit.ridge * fit.ridge * image(fit.shared_inverse, u, fit.theta)
        state.values[place], state.squares[place] = estimate, square / (1.0 + fit.pending[arm] * square)
    for place in range(n):
        kept.changed[state.models[place]] = 0
    return again


@kernel
def _sits(kept: Rows, models: Ints, n: int) -> bool:
    """Whether the rows belong to the arms of the last request, in this order; remember them."""
    same = True
    for place in range(n):
        same &= kept.seats[place] == models[place]
        kept.seats[place] = models[place]
    return same
