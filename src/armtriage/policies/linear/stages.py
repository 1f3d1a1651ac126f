"""The stages of a round of hierarchical elimination (Algorithms 3 and 4), as kernels.

In stage h = 1, 2, ... of a round, with the regression of stage h: (1) arms whose width exceeds 2^-h are explored;
(2) arms that are surely among the best are confirmed; (3) arms that surely are not are eliminated; the others go on.
"""

from __future__ import annotations

import numpy as np
from numpy.typing import NDArray

from armtriage.kernels.inner import inner
from armtriage.kernels.jit import kernel
from armtriage.kernels.order import best_arms, kth_largest, top_first
from armtriage.kernels.record import Record
from armtriage.kernels.ridge import Ridge, add, forms, refit, shrink, solve

__all__ = ["CONFIRMED", "ELIMINATED", "EXPLORED", "FILLED", "VARIANTS", "Params", "State", "select", "update"]

PAPER, REPAIRED, TIGHT = range(3)
VARIANTS = ("paper", "repaired", "tight")
OPEN, EXPLORED, CONFIRMED, FILLED, ELIMINATED = range(5)
_NOWHERE = -1


class Params(Record, frozen=True):
    """Parameters of the kernels."""

    variant: int
    stages: int  # H
    multiple: float  # of the norm of a context, for its width


class State(Record):
    """A regression for each stage (and one of all rewards, if tight), the fate of each arm in this round, scratch."""

    ridge: Ridge
    fate: NDArray[np.int64]  # (K,) OPEN, EXPLORED, ...
    stage: NDArray[np.int64]  # (K,) at which that happened, from 1
    home: NDArray[np.int64]  # (K,) the regression that gets the reward of a chosen arm, or NOWHERE
    active: NDArray[np.int64]  # (K,) the arms still in question lead, ascending; then the arrays beside it:
    estimate: NDArray[np.float64]
    width: NDArray[np.float64]
    low: NDArray[np.float64]  # (K,) largest lower and least upper end so far in this round; by arm, tight only
    high: NDArray[np.float64]
    values: NDArray[np.float64]  # (K,)
    order: NDArray[np.int64]  # (K,)
    places: NDArray[np.int64]  # (S,)


@kernel
def _put(state: State, arm: int, fate: int, stage: int, home: int) -> None:
    state.fate[arm], state.stage[arm], state.home[arm] = fate, stage, home


@kernel
def _keep_open(state: State, n: int) -> int:
    """Drop decided arms from the first n active ones; return how many are left."""
    left = 0
    for i in range(n):
        arm = state.active[i]
        state.active[left], state.estimate[left], state.width[left] = arm, state.estimate[i], state.width[i]
        left += state.fate[arm] == OPEN
    return left


@kernel
def _explore(state: State, variant: int, n: int, free: int, stage: int) -> int:
    """Choose arms of width above 2^-h, step (1); return how many.

    If there are too many, the choice may not look at the rewards of this stage: it takes the widest or, if tight, from
    the second stage on those of largest upper end in the stages before.
    """
    wide, limit, by_width = 0, 0.5**stage, variant != TIGHT or stage == 1
    for i in range(n):
        arm = state.active[i]
        state.values[wide], state.order[wide] = state.width[i] if by_width else state.high[arm], arm
        wide += state.width[i] > limit
    if wide <= free:
        for i in range(wide):
            _put(state, state.order[i], EXPLORED, stage, stage - 1)
        return wide
    widest = state.places[:free]
    best_arms(state.values[:wide], widest)
    for i in range(free):
        _put(state, state.order[widest[i]], EXPLORED, stage, stage - 1)
    return free


@kernel
def _benchmark(state: State, variant: int, n: int, k: int) -> float:
    """Return the estimate of the k-th arm: by upper bound as printed, or by estimate, which the proof needs."""
    if variant == REPAIRED:
        for i in range(n):
            state.values[i] = state.estimate[i]
        return kth_largest(state.values, n, k)
    for i in range(n):
        state.values[i], state.order[i] = state.estimate[i] + state.width[i], i
    top_first(state.values, state.order, n, k)
    last = 0
    for i in range(1, k):
        value, least = state.values[i], state.values[last]
        if value < least or (value == least and state.order[i] > state.order[last]):
            last = i
    return state.estimate[state.order[last]]  # type: ignore[no-any-return]


@kernel
def _judge_by_slack(state: State, variant: int, n: int, k: int, stage: int) -> int:
    """Confirm and eliminate, steps (2) and (3), with the slack 2^-h; return how many were confirmed."""
    benchmark, unit = _benchmark(state, variant, n, k), 0.5**stage
    home = stage - 1 if variant == PAPER else _NOWHERE
    confirmed = 0
    for i in range(n):
        if state.estimate[i] > benchmark + 4.0 * unit:
            _put(state, state.active[i], CONFIRMED, stage, home)
            confirmed += 1
        elif state.estimate[i] < benchmark - 2.0 * unit:
            _put(state, state.active[i], ELIMINATED, stage, _NOWHERE)
    return confirmed


@kernel
def _judge_by_bounds(state: State, n: int, k: int, stage: int, stages: int) -> int:
    """Confirm and eliminate with the interval of each arm; return how many were confirmed.

    The interval is what the stages of this round leave together. A confirmed arm was chosen by the rewards of this
    stage and those before it, so its own reward may go to the next one.
    """
    low, high = state.low, state.high
    for i in range(n):
        arm, middle, half = state.active[i], state.estimate[i], state.width[i]
        low[arm], high[arm] = max(low[arm], middle - half), min(high[arm], middle + half)
        if low[arm] > high[arm]:
            low[arm], high[arm] = middle - half, middle + half
    for i in range(n):
        state.values[i] = low[state.active[i]]
    kth_low = kth_largest(state.values, n, k)
    for i in range(n):
        state.values[i] = high[state.active[i]]
    next_high = kth_largest(state.values, n, k + 1)
    home = stage if stage < stages else _NOWHERE
    confirmed = 0
    for i in range(n):
        arm = state.active[i]
        if low[arm] > next_high:
            _put(state, arm, CONFIRMED, stage, home)
            confirmed += 1
        elif high[arm] < kth_low:
            _put(state, arm, ELIMINATED, stage, _NOWHERE)
    return confirmed


@kernel
def _fill(params: Params, state: State, contexts: NDArray[np.float64], n: int, free: int) -> None:
    """Choose the rest of the decision among the arms that no stage could part, by estimate."""
    ridge, model = state.ridge, params.stages
    if params.variant == TIGHT:
        solve(ridge, model, 1.0)
    for i in range(n):
        arm = state.active[i]
        if params.variant == TIGHT:
            state.estimate[i] = inner(contexts[arm], ridge.weights[model])
        state.values[i], state.order[i] = state.estimate[i], arm
    top_first(state.values, state.order, n, free)
    for i in range(free):
        _put(state, state.order[i], FILLED, 0, _NOWHERE)


@kernel
def select(
    params: Params,
    state: State,
    contexts: NDArray[np.float64],
    number: int,
    luck: np.uint64,
    arms: NDArray[np.int64],
    notes: NDArray[np.int64],
) -> None:
    """Choose the arms of a round stage by stage; `notes` says which regression learns from each."""
    n, free = state.fate.size, arms.size
    for arm in range(n):
        _put(state, arm, OPEN, 0, _NOWHERE)
        state.active[arm], state.low[arm], state.high[arm] = arm, -np.inf, np.inf
    for stage in range(1, params.stages + 1):
        refit(state.ridge, stage - 1)
        forms(state.ridge, stage - 1, contexts, state.active, n, state.estimate, state.width)
        for i in range(n):
            state.width[i] = params.multiple * np.sqrt(state.width[i])
        free -= _explore(state, params.variant, n, free, stage)
        if free == 0:
            break
        n = _keep_open(state, n)
        if params.variant == TIGHT:
            free -= _judge_by_bounds(state, n, free, stage, params.stages)
        else:
            free -= _judge_by_slack(state, params.variant, n, free, stage)
        n = _keep_open(state, n)
        if free == 0:
            break
    if free > 0:
        _fill(params, state, contexts, n, free)
    place = 0
    for arm in range(state.fate.size):
        if (state.fate[arm] != OPEN) & (state.fate[arm] != ELIMINATED):
            arms[place], notes[place] = arm, state.home[arm]
            place += 1


@kernel
def update(
    params: Params,
    state: State,
    contexts: NDArray[np.float64],
    notes: NDArray[np.int64],
    rewards: NDArray[np.float64],
    n: int,
) -> None:
    """Give each reward to the regression of its stage, and all of them to the one that orders the fill."""
    for i in range(n):
        if (notes[i] >= 0) & (notes[i] < params.stages):
            add(state.ridge, notes[i], contexts[i], rewards[i])
            shrink(state.ridge, notes[i], contexts[i], 1.0)
        if params.variant == TIGHT:
            add(state.ridge, params.stages, contexts[i], rewards[i])
