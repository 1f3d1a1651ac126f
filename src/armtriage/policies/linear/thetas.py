"""Whose theta a row has, one that all arms share or the arm's own, and the kernels of the guard for either.

`OneTheta` and `ThetaByArm` have the same methods, so that a policy need not ask which of them it has.
"""

from __future__ import annotations

import math
from collections.abc import Iterable
from typing import Any, NamedTuple

import numpy as np
from numpy.typing import NDArray

from armtriage.kernels.jit import bind, kernel
from armtriage.kernels.order import best_arms
from armtriage.kernels.random import uniform
from armtriage.kernels.record import Floats, Ints, Record, fact
from armtriage.kernels.ridge import Ridge, add, shrink
from armtriage.policies.compiled import Kernels
from armtriage.policies.facts import require
from armtriage.policies.linear import regression
from armtriage.policies.linear.account import Book, Boxes, admit
from armtriage.policies.linear.joint import Joint, book_slate, book_slate_by_arm
from armtriage.policies.linear.regression import Fit, Params
from armtriage.policies.linear.widths import (
    Repeated,
    find_widths,
    find_widths_by_arm,
    new_rows,
    new_widths,
    note_change,
    note_vector,
)

_ROUNDING = 1e-13


class State(Record):
    """The sums of each theta, the regressions that propose, the account, and scratch."""

    ridge: Ridge = fact()
    fit: Fit = fact()
    book: Book = fact()
    joint: Joint = fact()
    repeated: Repeated = fact()
    kept: Record = fact()  # `Widths`, or `Rows` where each arm has a theta
    boxes: Boxes
    models: Ints  # (K,) the thetas that the rows of a request belong to
    log_shares: Floats  # (models,) ln of 1 / the share of delta that a theta has; it never falls
    arms: Ints  # 0, ..., K - 1
    values: Floats  # (K,)
    squares: Floats  # (K,)
    known: int  # thetas that there are


def _select(
    params: Params, state: Any, contexts: Floats, number: int, luck: np.uint64, arms: Ints, notes: Ints
) -> None:
    """Choose the S arms of largest ``<theta, x> + w ||x||``, if the account allows it; ties by arm number.

    `notes` says whose thetas they have. A proposal from outside is in `arms`.
    """
    n = contexts.shape[0]
    values, squares = state.values[:n], state.squares[:n]
    again = find_widths(params, state, contexts)
    if params.proposes:
        # One draw for all arms: a policy that is stuck in a round is not stuck in the next.
        width = uniform(luck, 0) * state.fit.noise * math.sqrt(math.log(number + 2.0))
        for arm in range(n):
            values[arm] += width * math.sqrt(squares[arm])
        best_arms(values, squares, arms)
    if params.certified:
        price = admit(params, state, n, number, arms)
        book_slate(state, contexts, params.noise, price, 2.0 * params.bias * arms.size, number, again)
    for i in range(arms.size):
        notes[i] = state.models[arms[i]]


@kernel
def _learn_one(params: Params, state: Any, model: int, context: Floats, reward: float) -> None:
    """Add a reward to the sums, and follow with all that is made of them."""
    ridge, own, sure = state.ridge, state.kept.own, state.kept.sure
    if not params.proposes:
        add(ridge, model, context, reward)
    elif regression.learn(params, state.fit, ridge, model, context, reward):
        note_change(own)
    else:
        note_vector(own, ridge.vector)
    if params.certified:
        if shrink(ridge, model, context, params.ridge):
            note_change(sure)
        else:
            note_vector(sure, ridge.vector)


@kernel
def _learn_one_by_arm(params: Params, state: Any, model: int, context: Floats, reward: float) -> None:
    """Do the same where each arm has a theta."""
    regression.learn_by_arm(params, state.fit, state.ridge, model, context, reward)
    if params.certified:
        shrink(state.ridge, model, context, params.ridge)
    state.kept.changed[model] = 1


@kernel
def _forget_widths(state: Any) -> None:
    note_change(state.kept.own)


@kernel
def _forget_widths_by_arm(state: Any) -> None:
    state.kept.changed[:] = 1


def _update(params: Params, state: Any, contexts: Floats, notes: Ints, rewards: Floats, n: int) -> None:
    """Add each reward to the sums of its theta."""
    for i in range(n):
        _learn_one(params, state, notes[i], contexts[i], rewards[i])
    if params.proposes and regression.adapt(params, state.fit, state.ridge):
        _forget_widths(state)


select, update = bind(_select, "select"), bind(_update, "update")
select_by_arm = bind(_select, "select_by_arm", find_widths=find_widths_by_arm, book_slate=book_slate_by_arm)
update_by_arm = bind(_update, "update_by_arm", _learn_one=_learn_one_by_arm, _forget_widths=_forget_widths_by_arm)


class Ends(NamedTuple):
    """What the ellipsoids say of the means of some rows, in units."""

    contexts: Floats  # (n, d)
    images: Floats  # (n, d) rows times the inverse of their ellipsoid
    middle: Floats  # (n,)
    squares: Floats  # (n,) of the widths
    reach: Floats  # radii
    lower: Floats  # (n,)
    upper: Floats  # (n,)
    bias: float


class OneTheta:
    """All arms share one theta."""

    kernels = Kernels(select, update, regression.schedule, regression.release)
    guarding = Kernels(select, update)  # for proposals from outside, widths do not count open pulls
    new_kept = staticmethod(new_widths)
    needs_names = False
    open_rows = 1
    earlier = {"own.": "kept.own.", "sure.": "kept.sure."}  # noqa: RUF012 - names in files of before, and now

    def __init__(self, budget: int) -> None:
        self.most = budget  # pulls of one theta in a round

    def count(self, n_arms: int) -> int:
        """Return how many thetas so many arms have."""
        return 1

    def room(self, n_arms: int) -> int:
        """Return for how many arms to make room."""
        return n_arms

    def of(self, arms: Ints) -> Ints:
        """Return whose theta each of some arms has."""
        return np.zeros(arms.size, np.int64)

    def log_shares(self, models: int) -> Floats:
        """Return ln of 1 / the share of delta that each theta has."""
        return np.zeros(models)

    def note_candidates(self, state: State, candidates: Ints, n_arms: int) -> None:
        """Note the arms that the rows of a request belong to, and how many there are."""

    def mend(self, arrays: dict[str, NDArray[Any]]) -> None:
        """Give the arrays of an earlier file their present shapes."""
        arrays["fit.inverse"] = arrays["fit.inverse"][None]

    def exchanges(self, ends: Ends, arms: Ints) -> Iterable[tuple[int, int, float]]:
        """Return rows to be exchanged for those of a slate, and what each exchange can gain: the best assignment."""
        from scipy.optimize import linear_sum_assignment

        middle, squares, lower, upper = ends.middle, ends.squares, ends.lower, ends.upper
        outside = np.setdiff1d(np.flatnonzero(upper > lower[arms].min()), arms)
        between = squares[outside][:, None] + squares[arms] - 2.0 * ends.images[outside] @ ends.contexts[arms].T
        # A difference of squares that are nearly equal is rounding, and must not be too small.
        between = np.maximum(between, 0.0) + _ROUNDING * (squares[outside][:, None] + squares[arms])
        direct = middle[outside][:, None] - middle[arms] + ends.reach * np.sqrt(between) + 2.0 * ends.bias
        amounts = np.maximum(np.minimum(upper[outside][:, None] - lower[arms], direct), 0.0)
        places, columns = linear_sum_assignment(amounts, maximize=True)
        return zip(outside[places].tolist(), arms[columns].tolist(), amounts[places, columns].tolist(), strict=True)


class ThetaByArm:
    """Each arm has a theta of its own; arms that come as they come are named."""

    kernels = Kernels(select_by_arm, update_by_arm, regression.schedule_by_arm, regression.release_by_arm)
    new_kept = staticmethod(new_rows)
    most = 1
    open_rows = 0
    earlier = {"own.": "fit."}  # noqa: RUF012

    def __init__(self, grows: bool) -> None:
        self.needs_names = grows

    def count(self, n_arms: int) -> int:
        """Return how many thetas so many arms have."""
        return n_arms

    def room(self, n_arms: int) -> int:
        """Return for how many arms to make room: where they come as they come, for more than there are."""
        return 1 << (n_arms - 1).bit_length() if self.needs_names else n_arms

    def of(self, arms: Ints) -> Ints:
        """Return whose theta each of some arms has."""
        return arms.copy()

    def log_shares(self, models: int) -> Floats:
        """Return ln of 1 / the share of delta that each theta has: alike, or less and less of it for new arms."""
        arms = np.arange(1.0, models + 1.0)
        return np.log(arms * (arms + 1.0)) if self.needs_names else np.full(models, math.log(models))

    def note_candidates(self, state: State, candidates: Ints, n_arms: int) -> None:
        """Note the arms that the rows of a request belong to, and how many there are."""
        state.models[: candidates.size], state.known = candidates, n_arms

    def mend(self, arrays: dict[str, NDArray[Any]]) -> None:
        """Give the arrays of an earlier file their present shapes."""
        require(arrays["fit.real"].shape == (4,), "own.real must have four numbers")
        arrays["fit.real"] = arrays["fit.real"][[0, 1, 3, 2]]

    def exchanges(self, ends: Ends, arms: Ints) -> Iterable[tuple[int, int, float]]:
        """Return rows to be exchanged for those of a slate, and what each exchange can gain.

        Each theta may be anywhere in its ellipsoid, so that boxes say all.
        """
        inside = arms[np.argsort(ends.lower[arms], kind="stable")]
        others = np.setdiff1d(np.arange(len(ends.lower)), arms)
        outside = others[np.argsort(-ends.upper[others], kind="stable")]
        pairs = zip(outside.tolist(), inside.tolist(), strict=False)
        return ((i, j, float(ends.upper[i] - ends.lower[j])) for i, j in pairs)
