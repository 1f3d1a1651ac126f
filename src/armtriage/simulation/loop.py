"""The compiled loop: one text, made into machine code for each policy's kernels."""

from __future__ import annotations

from collections.abc import Callable
from functools import cache
from typing import Any, NamedTuple

import numpy as np
from numpy.typing import NDArray

from armtriage.environments.tables import REPLAY, RewardTable, draw, loss
from armtriage.graphs.feedback import GraphArrays, reveal
from armtriage.kernels.jit import bind, borrowed, inlined
from armtriage.kernels.random import row
from armtriage.policies.compiled import Kernels

__all__ = ["COMMITTED", "HORIZON", "POINT", "ROUND", "TOTAL", "Desk", "loop", "settle"]

TOTAL, ROUND, POINT, COMMITTED, HORIZON = 0, 0, 1, 2, 3
_MARKS = 2**31 - 2


class Desk(NamedTuple):
    """What one replication writes on: scratch arrays and results."""

    arms: NDArray[np.int64]  # (S,)
    stamps: NDArray[np.int32]  # (K,)
    seen: NDArray[np.int64]  # (K,)
    rewards: NDArray[np.float64]  # (K,)
    points: NDArray[np.int64]  # (checkpoints,) rounds played at each
    regret: NDArray[np.float64]  # (checkpoints,)
    decisions: NDArray[np.int32]  # (horizon, S), or no rows when they are not recorded
    total: NDArray[np.float64]  # (1,)
    place: NDArray[np.int64]  # ROUND, POINT, COMMITTED, HORIZON
    scale: NDArray[np.float64]  # smallest reward and width of the policy's reward_range
    pulls: NDArray[np.int64]  # (K,) for a certificate, or empty
    counts: NDArray[np.int64]
    sums: NDArray[np.float64]
    certificate: NDArray[np.float64]  # (checkpoints,), or empty


def select(*arguments: Any) -> bool:
    """Stand for the policy's kernel, which `bind` puts here."""
    raise NotImplementedError


def update(*arguments: Any) -> None:
    """Stand for the policy's kernel, which `bind` puts here."""
    raise NotImplementedError


def _play(
    owned_params: Any,
    owned_state: Any,
    owned_graph: GraphArrays,
    owned_table: RewardTable,
    owned_desk: Desk,
    policy_luck: np.uint64,
    reward_luck: np.uint64,
    plain: bool,
    stop: int,
) -> None:
    """Play up to round `stop`; a decision that can never change again closes the whole horizon at once."""
    params, state, graph = borrowed(owned_params), borrowed(owned_state), borrowed(owned_graph)
    table, desk = borrowed(owned_table), borrowed(owned_desk)
    arms, total, point = desk.arms, desk.total[TOTAL], desk.place[POINT]
    number = desk.place[ROUND]
    counted = desk.pulls.size > 0
    closable = table.kind != REPLAY and not counted
    while number < stop:
        committed = select(params, state, graph, number, row(policy_luck, number), arms)
        committed = committed or arms.size == desk.stamps.size
        luck = row(reward_luck, number)
        if plain:
            # Semi-bandit feedback: the decision is what it reveals.
            n, seen = arms.size, arms
        else:
            mark = number % _MARKS + 1
            if mark == 1:
                desk.stamps[:] = 0
            n, seen = reveal(graph, arms, desk.stamps, mark, desk.seen), desk.seen
        for i in range(n):
            desk.rewards[i] = draw(table, luck, number, seen[i])
        if desk.scale[0] != 0.0 or desk.scale[1] != 1.0:
            for i in range(n):
                desk.rewards[i] = min(1.0, max(0.0, (desk.rewards[i] - desk.scale[0]) / desk.scale[1]))
        if counted:
            for i in range(arms.size):
                desk.pulls[arms[i]] += 1
            for i in range(n):
                desk.counts[seen[i]] += 1
                desk.sums[seen[i]] += desk.rewards[i]
        lost = loss(table, number, arms)
        total += lost
        update(params, state, graph, number, row(policy_luck, number), seen, desk.rewards, n, False)
        if number < desk.decisions.shape[0]:
            for i in range(arms.size):
                desk.decisions[number, i] = arms[i]
        number += 1
        if point < desk.points.size and number == desk.points[point]:
            desk.regret[point] = total
            point += 1
        if committed and desk.place[COMMITTED] < 0:
            desk.place[COMMITTED] = number - 1
        if committed and closable:
            for p in range(point, desk.points.size):
                desk.regret[p] = total + lost * (desk.points[p] - number)
            for later in range(number, desk.decisions.shape[0]):
                for i in range(arms.size):
                    desk.decisions[later, i] = arms[i]
            number = desk.place[HORIZON]
            break
    desk.total[TOTAL], desk.place[POINT], desk.place[ROUND] = total, point, number


@cache
def loop(kernels: Kernels) -> Callable[..., None]:
    """Return the loop compiled for a policy's kernels, and kept on disk under the policy's name."""
    name = "play_" + kernels.select.__module__.rpartition(".")[2]
    return bind(_play, name, select=kernels.select, update=kernels.update)


@inlined
def _chosen(params: Any, state: Any, graph: GraphArrays, number: int, luck: np.uint64, arms: NDArray[np.int64]) -> bool:
    """Leave the arms on the desk as they are; they may be others in the next round."""
    return False


@cache
def settle(kernels: Kernels) -> Callable[..., None]:
    """Return the loop for one round at a time, with a decision that is on the desk already."""
    name = "settle_" + kernels.select.__module__.rpartition(".")[2]
    return bind(_play, name, select=_chosen, update=kernels.update)
