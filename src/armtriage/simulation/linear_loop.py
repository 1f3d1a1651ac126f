"""The compiled loop for contextual policies: one text, made into machine code for each policy's kernels."""

from __future__ import annotations

from collections.abc import Callable
from functools import cache
from typing import Any, NamedTuple

import numpy as np
from numpy.typing import NDArray

from armtriage.environments.tables import FIXED, LinearTable, contexts_in, draw_linear, loss_linear, means_in
from armtriage.kernels.jit import bind, borrowed
from armtriage.kernels.random import row
from armtriage.policies.compiled import Kernels
from armtriage.simulation.loop import POINT, ROUND, TOTAL, select, update

__all__ = ["LinearDesk", "linear_loop"]


class LinearDesk(NamedTuple):
    """What one replication writes on: scratch arrays and results."""

    arms: NDArray[np.int64]  # (S,)
    notes: NDArray[np.int64]  # (S,)
    contexts: NDArray[np.float64]  # (K, d)
    scaled: NDArray[np.float64]  # (K, d), or no rows if the policy's context_bound is 1
    means: NDArray[np.float64]  # (K,)
    sorting: NDArray[np.float64]  # (K,)
    chosen: NDArray[np.float64]  # (S, d)
    rewards: NDArray[np.float64]  # (S,)
    points: NDArray[np.int64]  # (checkpoints,) rounds played at each
    regret: NDArray[np.float64]  # (checkpoints,)
    decisions: NDArray[np.int32]  # (horizon, S), or no rows when they are not recorded
    total: NDArray[np.float64]  # (1,)
    place: NDArray[np.int64]  # ROUND, POINT, and COMMITTED, which stays -1
    bound: float
    unit: float


def _play_linear(
    params: Any,
    owned_state: Any,
    owned_table: LinearTable,
    owned_desk: LinearDesk,
    policy_luck: np.uint64,
    reward_luck: np.uint64,
    context_luck: np.uint64,
    stop: int,
) -> None:
    """Play up to round `stop`."""
    state, table, desk = borrowed(owned_state), borrowed(owned_table), borrowed(owned_desk)
    arms, means, total, point = desk.arms, desk.means, desk.total[TOTAL], desk.place[POINT]
    for number in range(desk.place[ROUND], stop):
        contexts = contexts_in(table, row(context_luck, number), number, desk.contexts)
        if table.kind != FIXED or number == desk.place[ROUND]:
            means_in(table, contexts, means)
        if desk.bound != 1.0:
            for arm in range(means.size):
                for j in range(contexts.shape[1]):
                    desk.scaled[arm, j] = contexts[arm, j] / desk.bound
            contexts = desk.scaled
        select(params, state, contexts, number, row(policy_luck, number), arms, desk.notes)
        luck = row(reward_luck, number)
        for i in range(arms.size):
            desk.rewards[i] = draw_linear(table, luck, means[arms[i]], arms[i]) / desk.unit
            for j in range(contexts.shape[1]):
                desk.chosen[i, j] = contexts[arms[i], j]
        total += loss_linear(means, arms, desk.sorting)
        update(params, state, desk.chosen, desk.notes, desk.rewards, arms.size)
        if number < desk.decisions.shape[0]:
            for i in range(arms.size):
                desk.decisions[number, i] = arms[i]
        if point < desk.points.size and number + 1 == desk.points[point]:
            desk.regret[point] = total
            point += 1
    desk.total[TOTAL], desk.place[POINT], desk.place[ROUND] = total, point, max(stop, desk.place[ROUND])


@cache
def linear_loop(kernels: Kernels) -> Callable[..., None]:
    """Return the loop compiled for a policy's kernels, and kept on disk under the policy's name."""
    name = "play_" + kernels.select.__module__.rpartition(".")[2]
    return bind(_play_linear, name, select=kernels.select, update=kernels.update)
