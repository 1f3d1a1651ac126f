"""The compiled loop of policies with one `choose` and one `learn`, over all arms, eligible arms or a decision set.

A round is begun in one of four ways, by which its decision is found; all that comes after is the same.
"""

from __future__ import annotations

from collections.abc import Callable
from functools import cache
from typing import Any

import numpy as np
from numpy.typing import NDArray

from armtriage.environments.availability import eligible_in, loss_among
from armtriage.environments.tables import RewardTable, draw_all, loss, put_in_range
from armtriage.graphs.feedback import GraphArrays, reveal
from armtriage.kernels.jit import Opener, bind, inlined, kernel, unbound
from armtriage.kernels.random import row
from armtriage.kernels.record import Floats, Record, RecordLayout
from armtriage.policies.evidence import TOLD, Evidence, count_played, record
from armtriage.policies.guard.over_decisions import answer, guarded_choice
from armtriage.policies.request import (
    ALL,
    SOME,
    Kernels,
    Request,
    begin,
    decide,
    expose,
    learn,
    list_candidates,
    luck_of,
    name_of,
    settle_nothing,
    settled,
    weigh,
)
from armtriage.simulation.loop import Output, play_rounds

_MARKS = 2**31 - 2

finish = pick = judge = unbound
"""What `bind` replaces: the rest of a round, the choice of a guard over a decision set, and the regret of a round."""


class SlateGame(Record):
    """A policy, a world without contexts, and what one replication writes on."""

    params: Record
    evidence: Evidence
    own: Record
    request: Request  # whose arms are those of the output
    graph: GraphArrays
    table: RewardTable
    found: Any  # a record by which decisions are found: who is eligible, or an oracle; the table, where it is neither
    output: Output
    streams: NDArray[np.uint64]  # of the rewards, and of who is eligible
    stamps: NDArray[Any]  # (K,) int32: the last round in which an arm was revealed
    scratch: Floats  # (K,)
    plain: bool  # whether the decision is what it reveals
    sleepers: bool  # whether arms are seen that are not eligible
    counted: bool  # whether pulls and exposures are counted, for a certificate
    closable: bool  # whether a decision that can never change again closes the whole horizon


@kernel
@inlined
def _among_all(game: SlateGame, number: int) -> float:
    return loss(game.table, number, game.request.arms[: game.request.size])


@kernel
def _among_eligible(game: SlateGame, number: int) -> float:
    request = game.request
    list_candidates(game.evidence, request)
    return loss_among(game.table, request.among[: request.n], request.arms[: request.size], game.scratch)


@kernel
def _reveal(game: SlateGame, number: int) -> int:
    """Write what the decision reveals into `seen`: of arms that are not eligible, only if they are seen."""
    request, seen = game.request, game.request.seen
    mark = number % _MARKS + 1
    if mark == 1:
        game.stamps[:] = 0
    shown = reveal(game.graph, request.arms[: request.size], game.stamps, mark, seen)
    if request.epoch == ALL or game.sleepers:
        return shown
    m = 0
    for i in range(shown):
        seen[m] = seen[i]
        m += int(request.mask[seen[i]])
    return m


@inlined
def _finish(game: SlateGame, number: int) -> None:
    """Look up the rewards of a decision, and learn them."""
    table, request, evidence, rewards = game.table, game.request, game.evidence, game.request.rewards
    n, seen = request.size, request.arms
    if not game.plain:
        n, seen = _reveal(game, number), request.seen
    luck = row(game.streams[0], number)
    draw_all(table, luck, number, seen[:n], rewards)
    put_in_range(table, rewards, n)
    if request.zero != 0.0 or request.width != 1.0:
        for i in range(n):
            rewards[i] = min(1.0, max(0.0, (rewards[i] - request.zero) / request.width))
    if game.counted:
        expose(evidence, request)
    game.output.lost = judge(game, number)
    record(evidence, request.stream, number, seen[:n], rewards[:n])
    if game.counted and not game.plain:
        count_played(evidence, request.arms[: request.size], seen[:n], rewards[:n])
    learn(game.params, evidence, game.own, request, seen[:n], rewards[:n], TOLD)
    settled(game.params, evidence, game.own, request, seen[:n])


@kernel
def _blank_rest(request: Request) -> None:
    """Let the places that a decision leaves free be -1."""
    for i in range(request.size, request.arms.size):
        request.arms[i] = -1


@inlined
def _round(game: SlateGame, number: int) -> bool:
    """Play a round of all arms; True if the decision can never change again."""
    begin(game.request, number, ALL, game.evidence.n_arms)
    committed = decide(game.params, game.evidence, game.own, game.request)
    finish(game, number)
    return committed or game.request.size == game.evidence.n_arms


def _eligible_round(game: SlateGame, number: int) -> bool:
    """Play a round of the arms that are eligible in it; the places that a decision leaves free are -1."""
    request = game.request
    n = eligible_in(game.found, row(game.streams[1], number), number, request.among)
    begin(request, number, ALL if n == game.evidence.n_arms else SOME, n)
    request.listed, request.identity = 1, 0
    if request.epoch != ALL:
        request.mask[:] = 0
        for i in range(n):
            request.mask[request.among[i]] = 1
    decide(game.params, game.evidence, game.own, request)
    _blank_rest(request)
    finish(game, number)
    return False


def _heaviest_round(game: SlateGame, number: int) -> bool:
    """Play the decision of largest weight, by an oracle that is compiled, too."""
    request = game.request
    begin(request, number, ALL, game.evidence.n_arms)
    weigh(game.params, game.evidence, game.own, request, game.found.offset, game.scratch)
    request.size = answer(game.found, game.scratch, request.arms)
    _blank_rest(request)
    finish(game, number)
    return False


def _guarded_round(game: SlateGame, number: int) -> bool:
    """Play what a guard over a decision set admits, by an oracle that is compiled, too; True if that is certain."""
    request = game.request
    begin(request, number, ALL, game.evidence.n_arms)
    n = pick(game.params, game.own, game.graph, number, luck_of(request), game.found, game.scratch, request.arms)
    request.size = n if n >= 0 else -1 - n
    _blank_rest(request)
    finish(game, number)
    return n < 0  # type: ignore[no-any-return]


def _given_round(game: SlateGame, number: int) -> bool:
    """Play the decision that was written already."""
    begin(game.request, number, ALL, game.evidence.n_arms)
    game.request.size = game.output.size
    finish(game, number)
    return False


def _loop(
    name: str, kernels: Kernels, kind: RecordLayout, one_round: Callable[..., bool], loss: Any, **names: Any
) -> Callable[..., None]:
    """Return the loop over rounds that are begun in one way, compiled and kept on disk under the policy's name."""
    name = f"{name}_{name_of(kernels)}"
    rest = bind(_finish, f"finish_{name}", learn=kernels.learn, judge=loss, settled=kernels.settled or settle_nothing)
    one = bind(one_round, f"round_{name}", finish=rest, **names)
    return bind(play_rounds, f"play_{name}", open_game=Opener(kind), play_round=one)


@cache
def slate_loop(kernels: Kernels, kind: RecordLayout) -> Callable[..., None]:
    """Return the loop for rounds of all arms."""
    chosen = bind(decide, f"decide_{name_of(kernels)}", choose=kernels.choose)
    return _loop("all", kernels, kind, _round, _among_all, decide=chosen)


@cache
def eligible_loop(kernels: Kernels, kind: RecordLayout) -> Callable[..., None]:
    """Return the loop for rounds in which some arms are eligible."""
    chosen = bind(decide, f"decide_{name_of(kernels)}", choose=kernels.choose)
    return _loop("some", kernels, kind, _eligible_round, _among_eligible, decide=chosen)


@cache
def heaviest_loop(kernels: Kernels, best: Any, kind: RecordLayout) -> Callable[..., None]:
    """Return the loop over a decision set, with the oracle `best` of its family."""
    name = f"heaviest_{best.__name__}"
    return _loop(name, kernels, kind, _heaviest_round, _among_all, weigh=kernels.weigh, answer=best)


@cache
def guarded_loop(kernels: Kernels, best: Any, kind: RecordLayout) -> Callable[..., None]:
    """Return the loop of a guard over a decision set, with the oracle `best` of its family."""
    name = f"guarded_{best.__name__}"
    chosen = bind(guarded_choice, f"pick_{name}", answer=best)
    return _loop(name, kernels, kind, _guarded_round, _among_all, pick=chosen)


@cache
def given_loop(kernels: Kernels, kind: RecordLayout) -> Callable[..., None]:
    """Return the loop for one round at a time, with a decision that was written already."""
    return _loop("given", kernels, kind, _given_round, _among_all)
