"""An environment as compiled code sees it: one table type for every kind, and the rewards and losses in it."""

from __future__ import annotations

import numpy as np
from numpy.typing import NDArray

from armtriage.kernels.beta import beta_quantile
from armtriage.kernels.jit import kernel
from armtriage.kernels.random import uniform
from armtriage.kernels.record import Record

__all__ = ["REPLAY", "REWARDS", "RewardTable", "draw", "loss"]

BERNOULLI, DETERMINISTIC, UNIFORM, BETA, REPLAY = range(5)
REWARDS = ("bernoulli", "deterministic", "uniform", "beta")


class RewardTable(Record, frozen=True):
    """An environment as compiled code sees it; one type for every kind."""

    kind: int
    means: NDArray[np.float64]  # (K,)
    groups: NDArray[np.int64]  # (K,), or empty when no two arms share their luck
    concentration: float
    outcomes: NDArray[np.float64]  # (rounds, K), replay only
    worth: NDArray[np.int64]  # (K,) mean, without a decision set above the S-th best one, in units of `unit`
    best: int  # worth of the best decision
    unit: float
    best_outcomes: NDArray[np.float64]  # (rounds,) what the best fixed decision paid, replay only


@kernel
def draw(table: RewardTable, luck: np.uint64, number: int, arm: int) -> float:
    """Return the reward of an arm in round `number`, whose row of random numbers begins at `luck`."""
    if table.kind == REPLAY:
        return table.outcomes[number, arm]  # type: ignore[no-any-return]
    mean = table.means[arm]
    if table.kind == DETERMINISTIC or mean <= 0.0 or mean >= 1.0:
        return mean  # type: ignore[no-any-return]
    column = table.groups[arm] if table.groups.size > 0 else arm
    u = uniform(luck, column)
    if table.kind == BERNOULLI:
        return 1.0 if u < mean else 0.0
    if table.kind == UNIFORM:
        return mean + (2.0 * u - 1.0) * min(mean, 1.0 - mean)  # type: ignore[no-any-return]
    return beta_quantile(u, table.concentration * mean, table.concentration * (1.0 - mean))


@kernel
def loss(table: RewardTable, number: int, arms: NDArray[np.int64]) -> float:
    """Return the regret of playing `arms` in round `number`; exactly 0 for every best decision."""
    if table.kind == REPLAY:
        total = table.best_outcomes[number]
        for i in range(arms.size):
            total -= table.outcomes[number, arms[i]]
        return total  # type: ignore[no-any-return]
    worth = table.best
    for i in range(arms.size):
        worth -= table.worth[arms[i]]
    # An oracle with a tolerance, such as an integer programme, may have missed the best decision by a hair.
    return max(worth, 0) * table.unit
