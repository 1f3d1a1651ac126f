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
from armtriage.kernels.record import Floats, Ints, Record, RecordLayout
from armtriage.policies.compiled import Kernels, name_of, select, update

open_game = play_round = unbound
"""What `bind` replaces: how a game is found by its address, and a round with or without contexts."""


class Output(Record):
    """What one replication writes: the decision, results, and where it stands."""

    arms: Ints  # (S,)
    points: Ints  # (checkpoints,) rounds played at each
    regret: Floats  # (checkpoints,)
    certificate: Floats  # (checkpoints,), or empty
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
    output: Output
    streams: NDArray[np.uint64]  # of the policy, the rewards and the contexts
    notes: Ints  # (S,)
    contexts: Floats  # (K, d)
    scaled: Floats  # (K, d), or no rows if the policy's context_bound is 1
    means: Floats  # (K,)
    sorting: Floats  # (K,)
    chosen: Floats  # (S, d)
    rewards: Floats  # (S,)
    begun: int  # the first round of this table
    closable: bool
    bound: float
    unit: float


def play_rounds(address: int, stop: int) -> None:
    """Play up to round `stop`; a decision that can never change again closes the whole horizon at once."""
    game = open_game(address)
    output = game.output
    arms, total, point, number = output.arms, output.total, output.point, output.round
    while number < stop:
        committed = play_round(game, number)
        total += output.lost
        if number < output.decisions.shape[0]:
            for i in range(arms.size):
                output.decisions[number, i] = arms[i]
        number += 1
        if point < output.points.size and number == output.points[point]:
            output.regret[point] = total
            point += 1
        if committed and output.committed < 0:
            output.committed = number - 1
        if committed and game.closable:
            for p in range(point, output.points.size):
                output.regret[p] = total + output.lost * (output.points[p] - number)
            for later in range(number, output.decisions.shape[0]):
                for i in range(arms.size):
                    output.decisions[later, i] = arms[i]
            number = output.horizon
            break
    output.total, output.point, output.round = total, point, number


def _linear_round(game: LinearGame, number: int) -> bool:
    """Play one round with contexts."""
    output, table, means, rewards = game.output, game.table, game.means, game.rewards
    arms = output.arms
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
    output.lost = loss_linear(means, arms, game.sorting) * table.scale
    update(game.params, game.state, game.chosen, game.notes, rewards, arms.size)
    return False


@cache
def linear_loop(kernels: Kernels, kind: RecordLayout) -> Callable[..., None]:
    """Return the loop for rounds with contexts."""
    name = name_of(kernels)
    one = bind(_linear_round, f"round_{name}", select=kernels.select, update=kernels.update)
    return bind(play_rounds, f"play_{name}", open_game=Opener(kind), play_round=one)
