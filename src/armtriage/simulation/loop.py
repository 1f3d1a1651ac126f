"""The compiled loop: one text, made into machine code for the kernels of each policy.

A round with and one without contexts differ in what is drawn, revealed and learned: each is a function of its own, and
the loop, which counts and records, is the same for both.
"""

from __future__ import annotations

from collections.abc import Callable
from functools import cache

import numpy as np
from numpy.typing import NDArray

from armtriage.environments.tables import FIXED, LinearTable, contexts_in, draw_linear, loss_linear, means_in
from armtriage.kernels.jit import Opener, bind, unbound
from armtriage.kernels.random import row
from armtriage.kernels.record import Record, RecordLayout
from armtriage.policies.compiled import Kernels, name_of, select, update

open_game = turn = unbound
"""What `bind` replaces: how a game is found by its address, and a round with or without contexts."""


class Desk(Record):
    """What one replication writes on: the decision, results, and where it stands."""

    arms: NDArray[np.int64]  # (S,)
    points: NDArray[np.int64]  # (checkpoints,) rounds played at each
    regret: NDArray[np.float64]  # (checkpoints,)
    certificate: NDArray[np.float64]  # (checkpoints,), or empty
    decisions: NDArray[np.int32]  # (horizon, S), or no rows when they are not recorded
    size: int  # of the decision; what is left of `arms` behind it is -1
    round: int
    point: int
    committed: int
    horizon: int
    total: float
    lost: float  # in the last round


class LinearGame(Record):
    """A policy, a world with contexts, and what one replication writes on."""

    params: Record
    state: Record
    table: LinearTable
    desk: Desk
    streams: NDArray[np.uint64]  # of the policy, the rewards and the contexts
    notes: NDArray[np.int64]  # (S,)
    contexts: NDArray[np.float64]  # (K, d)
    scaled: NDArray[np.float64]  # (K, d), or no rows if the policy's context_bound is 1
    means: NDArray[np.float64]  # (K,)
    sorting: NDArray[np.float64]  # (K,)
    chosen: NDArray[np.float64]  # (S, d)
    rewards: NDArray[np.float64]  # (S,)
    begun: int  # the first round of this table
    closable: bool
    bound: float
    unit: float


def play_rounds(address: int, stop: int) -> None:
    """Play up to round `stop`; a decision that can never change again closes the whole horizon at once."""
    game = open_game(address)
    desk = game.desk
    arms, total, point, number = desk.arms, desk.total, desk.point, desk.round
    while number < stop:
        committed = turn(game, number)
        total += desk.lost
        if number < desk.decisions.shape[0]:
            for i in range(arms.size):
                desk.decisions[number, i] = arms[i]
        number += 1
        if point < desk.points.size and number == desk.points[point]:
            desk.regret[point] = total
            point += 1
        if committed and desk.committed < 0:
            desk.committed = number - 1
        if committed and game.closable:
            for p in range(point, desk.points.size):
                desk.regret[p] = total + desk.lost * (desk.points[p] - number)
            for later in range(number, desk.decisions.shape[0]):
                for i in range(arms.size):
                    desk.decisions[later, i] = arms[i]
            number = desk.horizon
            break
    desk.total, desk.point, desk.round = total, point, number


def _linear_turn(game: LinearGame, number: int) -> bool:
    """Play one round with contexts."""
    desk, table, means, rewards = game.desk, game.table, game.means, game.rewards
    arms = desk.arms
    contexts = contexts_in(table, row(game.streams[2], number), number, game.contexts)
    if table.kind != FIXED or number == game.begun:
        means_in(table, number, contexts, means)
    if game.bound != 1.0:
        for arm in range(means.size):
            for j in range(contexts.shape[1]):
                game.scaled[arm, j] = contexts[arm, j] / game.bound
        contexts = game.scaled
    select(game.params, game.state, contexts, number, row(game.streams[0], number), arms, game.notes)
    luck = row(game.streams[1], number)
    for i in range(arms.size):
        rewards[i] = draw_linear(table, luck, means[arms[i]], arms[i]) * table.scale / game.unit
        for j in range(contexts.shape[1]):
            game.chosen[i, j] = contexts[arms[i], j]
    desk.lost = loss_linear(means, arms, game.sorting) * table.scale
    update(game.params, game.state, game.chosen, game.notes, rewards, arms.size)
    return False


@cache
def linear_loop(kernels: Kernels, kind: RecordLayout) -> Callable[..., None]:
    """Return the loop for rounds with contexts."""
    name = name_of(kernels)
    one = bind(_linear_turn, f"turn_{name}", select=kernels.select, update=kernels.update)
    return bind(play_rounds, f"play_{name}", open_game=Opener(kind), turn=one)
