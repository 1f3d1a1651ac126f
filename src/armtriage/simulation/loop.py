"""The compiled loop: one text, made into machine code for the kernels of each policy.

A round with and one without contexts differ in what is drawn, revealed and learned: each is a function of its own, and
the loop, which counts and records, is the same for both.
"""

from __future__ import annotations

from collections.abc import Callable
from functools import cache
from typing import Any

import numpy as np
from numpy.typing import NDArray

from armtriage.environments.availability import AvailabilityTable, eligible_in, loss_among
from armtriage.environments.tables import (
    FIXED,
    LinearTable,
    RewardTable,
    contexts_in,
    draw,
    draw_linear,
    loss,
    loss_linear,
    means_in,
    put_in_range,
)
from armtriage.graphs.feedback import GraphArrays, reveal
from armtriage.kernels.jit import Opener, bind, inlined, kernel
from armtriage.kernels.random import row
from armtriage.kernels.record import Record, RecordLayout
from armtriage.policies.compiled import Kernels, name_of, select, update
from armtriage.policies.eligible.crowd import Among, decide, decider, name_among
from armtriage.policies.eligible.rows import Request, expose, learn
from armtriage.policies.eligible.rows import settle as close
from armtriage.policies.guard.over_decisions import guarded_choice

__all__ = [
    "CrowdGame",
    "Desk",
    "Game",
    "LinearGame",
    "OracleGame",
    "linear_loop",
    "loop",
    "loop_among",
    "oracle_loop",
    "play_rounds",
    "settle",
]

_MARKS = 2**31 - 2


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


class Game(Record):
    """A policy, a world without contexts, and what one replication writes on."""

    params: Record
    state: Record
    graph: GraphArrays
    table: RewardTable
    desk: Desk
    streams: NDArray[np.uint64]  # of the policy and of the rewards
    stamps: NDArray[Any]  # (K,) int32
    seen: NDArray[np.int64]  # (K,)
    rewards: NDArray[np.float64]  # (K,)
    pulls: NDArray[np.int64]  # (K,) for a certificate, or empty
    counts: NDArray[np.int64]
    sums: NDArray[np.float64]
    between: NDArray[np.float64]
    plain: bool  # whether the decision is what it reveals
    closable: bool  # whether a decision that can never change again closes the whole horizon
    zero: float  # the reward that is 0 on the policy's unit scale
    width: float  # from there to 1, below 0 for costs


class OracleGame(Record):
    """A game over a decision set whose oracle is compiled, too."""

    game: Game
    desk: Desk  # the game's
    oracle: Record
    weights: NDArray[np.float64]  # (K,)
    closable: bool


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


class CrowdGame(Record):
    """A policy whose requests differ, a world whose arms are not always there, and what one replication writes on."""

    request: Request
    table: RewardTable
    availability: AvailabilityTable
    desk: Desk
    streams: NDArray[np.uint64]  # of the rewards and of who is eligible
    stamps: NDArray[Any]  # (K,) int32: the last round in which an arm was revealed
    awake: NDArray[Any]  # (K,) int32: and the last one in which it was eligible
    seen: NDArray[np.int64]  # (K,)
    scratch: NDArray[np.float64]  # (K,)
    sleepers: bool  # whether arms are seen that are not eligible
    closable: bool
    zero: float  # the reward that is 0 on the policy's unit scale
    width: float


def open_game(address: Any) -> Any:
    """Stand for the function that finds a game by its address, which `bind` puts here."""
    raise NotImplementedError


def turn(game: Any, number: int) -> bool:
    """Stand for a round with or without contexts, which `bind` puts here."""
    raise NotImplementedError


def pick(*arguments: Any) -> int:
    """Stand for the choice of a decision by an oracle, which `bind` puts here."""
    raise NotImplementedError


def settled(game: Any, number: int) -> bool:
    """Stand for the rest of a round, which `bind` puts here."""
    raise NotImplementedError


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


@inlined
def _turn(game: Game, number: int) -> bool:
    """Play one round without contexts; True if the decision can never change again."""
    desk, table, graph, rewards = game.desk, game.table, game.graph, game.rewards
    arms = desk.arms[: desk.size]
    committed = select(game.params, game.state, graph, number, row(game.streams[0], number), arms)
    luck = row(game.streams[1], number)
    n, seen = arms.size, arms
    if not game.plain:
        mark = number % _MARKS + 1
        if mark == 1:
            game.stamps[:] = 0
        n, seen = reveal(graph, arms, game.stamps, mark, game.seen), game.seen
    for i in range(n):
        rewards[i] = draw(table, luck, number, seen[i])
    put_in_range(table, rewards, n)
    if game.zero != 0.0 or game.width != 1.0:
        for i in range(n):
            rewards[i] = min(1.0, max(0.0, (rewards[i] - game.zero) / game.width))
    if game.pulls.size > 0:
        for i in range(arms.size):
            game.pulls[arms[i]] += 1
        for i in range(n):
            game.counts[seen[i]] += 1
            game.sums[seen[i]] += rewards[i]
            game.between[seen[i]] += rewards[i] * (1.0 - rewards[i])
    desk.lost = loss(table, number, arms)
    update(game.params, game.state, graph, number, row(game.streams[0], number), seen, rewards, n, False)
    return committed or arms.size == game.stamps.size


def _turn_among(game: CrowdGame, number: int) -> bool:
    """Play one round among eligible arms; the places that a decision leaves free are -1."""
    desk, table, request = game.desk, game.table, game.request
    rows, rewards = request.rows, request.rewards
    n = eligible_in(game.availability, row(game.streams[1], number), number, request.among)
    size = min(n, desk.arms.size)
    among, arms = request.among[:n], request.arms[:size]
    decide(request, number, n, size)
    for i in range(desk.arms.size):
        desk.arms[i] = arms[i] if i < size else -1
    expose(rows, among, arms)
    desk.lost = loss_among(table, among, arms, game.scratch)
    shown, seen = size, arms
    if not request.plain:
        mark = number % _MARKS + 1
        if mark == 1:
            game.stamps[:] = 0
            game.awake[:] = 0
        shown, seen = reveal(request.graph, arms, game.stamps, mark, game.seen), game.seen
        if not game.sleepers and n < game.seen.size:
            for i in range(n):
                game.awake[among[i]] = mark
            m = 0
            for i in range(shown):
                seen[m] = seen[i]
                m += game.awake[seen[i]] == mark
            shown = m
    luck = row(game.streams[0], number)
    for i in range(shown):
        rewards[i] = draw(table, luck, number, seen[i])
        rows.pending[seen[i]] += 1
    put_in_range(table, rewards, shown)
    if game.zero != 0.0 or game.width != 1.0:
        for i in range(shown):
            rewards[i] = min(1.0, max(0.0, (rewards[i] - game.zero) / game.width))
    learn(request, row(request.streams[0], number), seen[:shown], rewards[:shown])
    close(request, seen[:shown], rewards[:shown])
    return False


def _oracle_turn(game: OracleGame, number: int) -> bool:
    """Play one round over a decision set; True if the decision can never change again."""
    desk, one = game.desk, game.game
    n = pick(
        one.params, one.state, one.graph, number, row(one.streams[0], number), game.oracle, game.weights, desk.arms
    )
    committed = n < 0
    desk.size = -1 - n if committed else n
    for i in range(desk.size, desk.arms.size):
        desk.arms[i] = -1
    settled(one, number)
    return committed


def _linear_turn(game: LinearGame, number: int) -> bool:
    """Play one round with contexts."""
    desk, table, means, rewards = game.desk, game.table, game.means, game.rewards
    arms = desk.arms
    contexts = contexts_in(table, row(game.streams[2], number), number, game.contexts)
    if table.kind != FIXED or number == game.begun:
        means_in(table, contexts, means)
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


@kernel
def _chosen(params: Any, state: Any, graph: GraphArrays, number: int, luck: np.uint64, arms: NDArray[np.int64]) -> bool:
    """Leave the arms on the desk as they are; they may be others in the next round."""
    return False


@cache
def loop(kernels: Kernels, kind: RecordLayout) -> Callable[..., None]:
    """Return the loop compiled for a policy's kernels, and kept on disk under the policy's name."""
    name = name_of(kernels)
    one = bind(_turn, f"turn_{name}", select=kernels.select, update=kernels.update)
    return bind(play_rounds, f"play_{name}", open_game=Opener(kind), turn=one)


@cache
def settle(kernels: Kernels, kind: RecordLayout) -> Callable[..., None]:
    """Return the loop for one round at a time, with a decision that is on the desk already."""
    name = name_of(kernels)
    one = bind(_turn, f"settled_{name}", select=_chosen, update=kernels.update)
    return bind(play_rounds, f"settle_{name}", open_game=Opener(kind), turn=one)


@cache
def loop_among(among: Among, kind: RecordLayout) -> Callable[..., None]:
    """Return the loop for rounds in which some arms are eligible."""
    name = name_among(among)
    one = bind(_turn_among, f"turn_among_{name}", decide=decider(among))
    return bind(play_rounds, f"play_among_{name}", open_game=Opener(kind), turn=one)


@cache
def oracle_loop(kernels: Kernels, best: Any, kind: RecordLayout) -> Callable[..., None]:
    """Return the loop for a policy over a decision set, with the oracle `best` of its family."""
    name = f"{name_of(kernels)}_{best.__name__}"
    chosen = bind(guarded_choice, f"choose_{name}", answer=best)
    rest = bind(_turn, f"settled_{name}", select=_chosen, update=kernels.update)
    one = bind(_oracle_turn, f"turn_{name}", pick=chosen, settled=rest)
    return bind(play_rounds, f"play_{name}", open_game=Opener(kind), turn=one)


@cache
def linear_loop(kernels: Kernels, kind: RecordLayout) -> Callable[..., None]:
    """Return the loop for rounds with contexts."""
    name = name_of(kernels)
    one = bind(_linear_turn, f"turn_{name}", select=kernels.select, update=kernels.update)
    return bind(play_rounds, f"play_{name}", open_game=Opener(kind), turn=one)
