"""Shared looks: direct looks wait for each other, and one pull of an arm that shows many makes them all.

An active arm that the incumbents do not reveal is seen only if somebody pays its gap. It has a guide if another arm
shows it together with others whose gaps sum to more than twice the guide's. A proposed look at it then waits, and an
incumbent is played instead. The price of a look is by how much the arm's draw exceeded its mean: at least its gap, and
more while little is known. As soon as the prices of the waiting arms that a guide shows reach its own gap it is pulled,
and none of these waits any longer. An index, unlike a draw, proposes the same look again until it is made. So there
each proposal that waits pays, while of draws an arm's last one does: with that an index lost 1.6 to 2.9 times what
draws do behind hubs.

No arm starves, however bad its guide: after eight looks, or a sixteenth of all rounds, an arm is played directly
whenever it is proposed, until its guide is pulled. And a pull costs no more than the draws that wait for it promised.
"""

from __future__ import annotations

import math

import numpy as np
from numpy.typing import NDArray

from armtriage._arguments import LONGEST
from armtriage.graphs.feedback import GraphArrays
from armtriage.kernels.jit import kernel
from armtriage.kernels.order import sort_pairs
from armtriage.kernels.record import Floats, Ints, Record, blank, fact
from armtriage.policies.elimination.sets import ACTIVE, CONFIRMED
from armtriage.policies.evidence import Evidence, settled_count
from armtriage.policies.facts import check_facts
from armtriage.policies.guard.account import Book
from armtriage.policies.guard.free_look import Sampler

_MOST = 8  # looks at an arm that may wait: without a limit an arm with a very bad guide would starve
_PATIENCE = 16  # and for at most this fraction of all rounds
_SLACK = 1e-9  # two sums of the same gaps in different order may not decide
_CHOICE_SHARE = 16  # guides are chosen again when this fraction of the rounds has passed,
_CHOICE_PAUSE = 8  # and not before K / (8 S) rounds, since a choice looks at all arms and edges
_NOBODY = -1


class Looks(Record):
    """Which looks wait, and for whom; scratch for what a pull would show."""

    guide: Ints = fact(_NOBODY, "last")  # (K,) the arm that a look at this one waits for, or -1
    waits: NDArray[np.uint8] = fact(0, _MOST)  # (K,) how many looks wait
    since: Ints = fact(0, "asked")  # (K,) the round of the first of them
    price: Floats = fact(-1.0, 1.0)  # (K,) by how much the last draw that was proposed exceeded the mean
    sought: NDArray[np.uint8]  # (K,) scratch: seen, active, not revealed by the incumbents, and without a guide
    inside: NDArray[np.uint8]  # (K,) scratch: in the decision
    sums: Floats  # (2, K + 1) scratch: gaps and numbers of the sought arms before each
    outside: Ints  # (S,) scratch: proposed arms that the incumbents do not reveal
    pause: int  # rounds between two choices of guides
    resume: int = fact(0, "longest")  # the round of the next choice
    shared: int = fact(0, "pulls")  # pulls of guides so far
    each: bool  # whether every look that waits pays for the guide, or one of each arm


def new_looks(n_arms: int, budget: int, *, each: bool = False) -> Looks:
    """Return no looks; `each` of those to come will pay, or one of each arm."""
    pause = 1 + n_arms // (_CHOICE_PAUSE * budget)
    room = {"sums": np.zeros((2, n_arms + 1)), "outside": np.zeros(budget, np.int64)}
    return blank(Looks, n_arms, guide=np.full(n_arms, _NOBODY, np.int64), pause=pause, each=each, **room)


def renewed_looks(old: Looks, n_arms: int, budget: int) -> Looks:
    """Return no looks for other arms, with those that were made before counted."""
    looks = new_looks(n_arms, budget, each=bool(old.each))
    looks.shared = old.shared
    return looks


def check_looks(looks: Looks, asked: int) -> None:
    """Check looks that were loaded."""
    last, pulls = looks.guide.size - 1, looks.outside.size * asked
    check_facts(looks, {"asked": asked, "last": last, "longest": LONGEST, "pulls": pulls})


@kernel
def _gap(sampler: Sampler, least: float, arm: int) -> float:
    return max(0.0, least - sampler.means[arm])  # type: ignore[no-any-return]


@kernel
def _is_worth_it(own: float, worth: float, number: float) -> bool:
    return (number > 1.5) & (worth > 2.0 * own * (1.0 + _SLACK) + _SLACK)


@kernel
def _list_guides(
    evidence: Evidence, book: Book, sampler: Sampler, looks: Looks, graph: GraphArrays, least: float
) -> int:
    """List the arms whose pull is worth it, the most for its gap first; return how many."""
    n_arms = looks.guide.size
    for arm in range(n_arms):
        sought = looks.sought[arm] > 0
        looks.sums[0, arm + 1] = looks.sums[0, arm] + (_gap(sampler, least, arm) if sought else 0.0)
        looks.sums[1, arm + 1] = looks.sums[1, arm] + (1.0 if sought else 0.0)
    n = 0
    for arm in range(n_arms):
        own = _gap(sampler, least, arm)
        if (sampler.inside[arm] > 0) | (book.status[arm] == CONFIRMED) | (settled_count(evidence, arm) == 0):
            continue
        if 2.0 * own >= looks.sums[0, n_arms]:
            continue
        first, last = graph.start[arm], graph.stop[arm]
        worth = looks.sums[0, last] - looks.sums[0, first]
        number = looks.sums[1, last] - looks.sums[1, first]
        for e in range(graph.indptr[arm], graph.indptr[arm + 1]):
            other = graph.indices[e]
            if looks.sought[other] > 0:
                worth += _gap(sampler, least, other)
                number += 1.0
        if _is_worth_it(own, worth, number):
            # Rounding may not decide between arms that show the same.
            sampler.values[n] = round(1e6 * math.log(worth / max(own, 1e-100)))
            sampler.chosen[n] = arm
            n += 1
    sort_pairs(sampler.values, sampler.chosen, n)
    return n


@kernel
def _follow(looks: Looks, arm: int, other: int) -> None:
    if looks.sought[other] > 0:
        looks.sought[other] = 0
        looks.guide[other] = arm


@kernel
def _choose_guides(
    evidence: Evidence, book: Book, sampler: Sampler, looks: Looks, graph: GraphArrays, least: float
) -> None:
    """Give each arm that is sought the best guide that is still worth it for those without one."""
    mark = sampler.mark
    for arm in range(looks.guide.size):
        looks.guide[arm] = _NOBODY
        looks.sought[arm] = (
            (book.status[arm] == ACTIVE) & (sampler.looked[arm] != mark) & (settled_count(evidence, arm) > 0)
        )
    for i in range(_list_guides(evidence, book, sampler, looks, graph, least)):
        arm = sampler.chosen[i]
        worth, number = 0.0, 0.0
        for other in range(graph.start[arm], graph.stop[arm]):
            if looks.sought[other] > 0:
                worth += _gap(sampler, least, other)
                number += 1.0
        for e in range(graph.indptr[arm], graph.indptr[arm + 1]):
            if looks.sought[graph.indices[e]] > 0:
                worth += _gap(sampler, least, graph.indices[e])
                number += 1.0
        if _is_worth_it(_gap(sampler, least, arm), worth, number):
            for other in range(graph.start[arm], graph.stop[arm]):
                _follow(looks, arm, other)
            for e in range(graph.indptr[arm], graph.indptr[arm + 1]):
                _follow(looks, arm, graph.indices[e])


@kernel
def _offer(book: Book, sampler: Sampler, looks: Looks, arm: int) -> float:
    """Return what an arm pays if a look at it waits and is still wanted."""
    waits = looks.waits[arm]
    if waits == 0 or book.status[arm] != ACTIVE or sampler.looked[arm] == sampler.mark:
        return 0.0
    return looks.price[arm] * (waits if looks.each else 1)  # type: ignore[no-any-return]


@kernel
def _pull(book: Book, sampler: Sampler, looks: Looks, graph: GraphArrays, least: float, guide: int) -> bool:
    """Make all waiting looks that the guide shows, if they pay for it."""
    total = 0.0
    for other in range(graph.start[guide], graph.stop[guide]):
        total += _offer(book, sampler, looks, other)
    for e in range(graph.indptr[guide], graph.indptr[guide + 1]):
        total += _offer(book, sampler, looks, graph.indices[e])
    if total * (1.0 + _SLACK) < _gap(sampler, least, guide):
        return False
    for other in range(graph.start[guide], graph.stop[guide]):
        looks.waits[other] = 0
    for e in range(graph.indptr[guide], graph.indptr[guide + 1]):
        looks.waits[graph.indices[e]] = 0
    looks.shared += 1
    return True


@kernel
def _wait(looks: Looks, arm: int, number: int) -> bool:
    """Let one more look at an arm wait, if it may."""
    if looks.waits[arm] == 0:
        looks.since[arm] = number
    elif looks.waits[arm] == _MOST or _PATIENCE * (number - looks.since[arm]) >= number:
        return False
    looks.waits[arm] += 1
    return True


@kernel
def _replace(
    evidence: Evidence,
    book: Book,
    sampler: Sampler,
    looks: Looks,
    graph: GraphArrays,
    number: int,
    n: int,
    least: float,
    arms: Ints,
) -> None:
    """Let the first n arms of `outside` wait, be shown or be played; incumbents take the free slots."""
    if number >= looks.resume:
        looks.resume = number + looks.pause + number // _CHOICE_SHARE
        _choose_guides(evidence, book, sampler, looks, graph, least)
    place = 0
    for i in range(arms.size):
        if sampler.looked[arms[i]] == sampler.mark or book.status[arms[i]] == CONFIRMED:
            arms[place] = arms[i]
            looks.inside[arms[i]] = 1
            place += 1
    for i in range(n):
        sampler.chosen[i], sampler.values[i] = looks.outside[i], -looks.outside[i]
    sort_pairs(sampler.values, sampler.chosen, n)
    for i in range(n):
        arm = sampler.chosen[i]
        guide = looks.guide[arm]
        if guide != _NOBODY:
            if looks.inside[guide] > 0:
                continue
            waits = _wait(looks, arm, number)
            if _pull(book, sampler, looks, graph, least, guide):
                arm = guide
            elif waits:
                continue
        if looks.inside[arm] == 0:
            arms[place] = arm
            looks.inside[arm] = 1
            place += 1
    if place < arms.size:
        k = sampler.size
        for i in range(k):
            sampler.chosen[i] = sampler.incumbents[i]
            sampler.values[i] = sampler.means[sampler.incumbents[i]]
        sort_pairs(sampler.values, sampler.chosen, k)
        for i in range(k):
            if place < arms.size and looks.inside[sampler.chosen[i]] == 0:
                arms[place] = sampler.chosen[i]
                looks.inside[arms[place]] = 1
                place += 1
    for i in range(arms.size):
        looks.inside[arms[i]] = 0


@kernel
def share_looks(
    evidence: Evidence, book: Book, sampler: Sampler, looks: Looks, graph: GraphArrays, number: int, arms: Ints
) -> None:
    """Change the proposal in `arms`: looks at arms that the incumbents do not reveal wait, or are made by a guide.

    Guides are chosen again when a 16th of all rounds has passed, and less often if there are very many arms.
    """
    n, confirmed = 0, book.everyone.n_confirmed
    for i in range(confirmed, arms.size):
        if sampler.looked[arms[i]] != sampler.mark:
            looks.outside[n] = arms[i]
            looks.price[arms[i]] = sampler.drawn[i - confirmed] - sampler.means[arms[i]]
            n += 1
    if n > 0:
        least = sampler.least_mean
        for i in range(confirmed):
            least = min(least, sampler.means[book.everyone.confirmed[i]])
        _replace(evidence, book, sampler, looks, graph, number, n, least, arms)
