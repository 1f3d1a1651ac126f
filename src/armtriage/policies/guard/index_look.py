"""An index with a free look: what the incumbents do not reveal competes with the most that may still be hoped of it.

The incumbents are those of `free_look`. They, and the open arms that they do not reveal, have an index: the largest
mean q with ``n kl(m, q) <= 0.8 ln(pace / n)``, where m and n are mean and size of the arm's posterior. The pace is the
number of rounds, divided where there are many arms for a slot.

An index grows with the pace alone until its arm is seen again. So each arm keeps a pace before which its index does not
reach a level that the indices chosen usually pass, and few are really computed. The decision is exactly that of
computing all of them.
"""

from __future__ import annotations

import math

import numpy as np

from armtriage.graphs.feedback import GraphArrays
from armtriage.intervals import kl, kl_upper
from armtriage.kernels.jit import kernel
from armtriage.kernels.order import top_first
from armtriage.kernels.record import Floats, Ints, Record
from armtriage.policies.beliefs import scaled
from armtriage.policies.evidence import Evidence
from armtriage.policies.guard.account import Book
from armtriage.policies.guard.free_look import Sampler, find_means, posterior_of, rank_all, rank_some
from armtriage.policies.request import ALL, Request
from armtriage.policies.views import Scratch, View

# Both were chosen on other families than those of docs/guard.md: 0.5 loses less where there are many arms, and ten
# times as much in the worst of a hundred runs on two arms; 1 loses about what draws do.
_SHARE = 0.8  # of the logarithm by which an index grows
_CROWD = 0.3  # of the arms for a slot divide the pace: without it needles in a haystack cost half as much again
_SURE = 1e-9  # room for rounding, per reward, in the logarithm of a pace: too little would lose an arm
_WIDEST = 600.0  # a logarithm that no pace has, whose exponential is still a number
_WASTE = 4.0  # times the arms, of indices that were not chosen, pay for a new level
_LEAST_MARGIN = 1e-9


class Reach(Record):
    """From which pace on an arm's index may reach the level; all of it follows from the evidence."""

    facts = ()
    due: Floats  # (K,) before this pace it does not; -1 if unknown
    level: float
    margin: float  # from the least index chosen down to the level
    waste: float  # indices that a low level has cost


def new_reach(n_arms: int) -> Reach:
    """Return a level that rules no arm out."""
    return Reach(np.full(n_arms, -1.0), level=0.0, margin=0.05, waste=0.0)


@kernel
def blank(reach: Reach) -> None:
    """Let nothing be known of any arm's pace."""
    reach.waste = 0.0
    for arm in range(reach.due.size):
        reach.due[arm] = -1.0


@kernel
def forget_reach(reach: Reach, seen: Ints) -> None:
    """Let nothing be known of the pace of arms that have been seen, or are no longer waited for."""
    for i in range(seen.size):
        reach.due[seen[i]] = -1.0


@kernel
def _index(evidence: Evidence, sampler: Sampler, arm: int, pace: float) -> float:
    """Return an arm's index; rewards that are on their way count in its size, or it would be asked again and again."""
    least, a, b = posterior_of(evidence, sampler, arm)
    size = a + b + evidence.pending[arm]
    bonus = _SHARE * math.log(max(1.0, pace / size))
    return least + (1.0 - least) * kl_upper(a / (a + b), bonus / size)


@kernel
def _due(evidence: Evidence, sampler: Sampler, arm: int, level: float) -> float:
    """Return a bound below the pace from which on an arm's index reaches the level."""
    least, a, b = posterior_of(evidence, sampler, arm)
    mean, height, size = a / (a + b), scaled(level, least), a + b + evidence.pending[arm]
    if height <= mean or height >= 1.0 - _SURE:
        return 0.0
    return size * math.exp(min(size * kl(mean, height) / _SHARE, _WIDEST) - _SURE * size)  # type: ignore[no-any-return]


@kernel
def _list_incumbents(evidence: Evidence, sampler: Sampler, incumbents: Ints, pace: float) -> float:
    """List the incumbents with their indices, and return the least."""
    least = np.inf
    for i in range(incumbents.size):
        sampler.chosen[i], sampler.values[i] = incumbents[i], _index(evidence, sampler, incumbents[i], pace)
        least = min(least, sampler.values[i])
    return least


@kernel
def _list_others(evidence: Evidence, sampler: Sampler, pool: Ints, n: int, least: float, pace: float) -> int:
    """List, behind the n incumbents, the arms of a pool that may pass the least of them; return how many there are."""
    for i in range(pool.size):
        if _due(evidence, sampler, pool[i], least) <= pace:
            sampler.chosen[n], sampler.values[n] = pool[i], _index(evidence, sampler, pool[i], pace)
            n += 1
    return n


@kernel
def _list_ready(evidence: Evidence, sampler: Sampler, reach: Reach, n: int, pace: float) -> int:
    """List, behind the n incumbents, the arms of the pool that may reach the level; -1 if n values do not reach it."""
    pool, due, ready, m, reached = sampler.pool[: sampler.n_pool], reach.due, sampler.lucky, 0, 0
    for i in range(n):
        reached += sampler.values[i] >= reach.level
    for i in range(pool.size):
        ready[m] = pool[i]
        m += due[pool[i]] <= pace
    total = n
    for i in range(m):
        arm = ready[i]
        if due[arm] < 0.0:
            due[arm] = _due(evidence, sampler, arm, reach.level)
        if due[arm] <= pace:
            sampler.chosen[total], sampler.values[total] = arm, _index(evidence, sampler, arm, pace)
            reached += sampler.values[total] >= reach.level
            total += 1
    reach.waste += total - n
    return total if reached >= n else -1


@kernel
def _choose_of_all(evidence: Evidence, sampler: Sampler, reach: Reach, pace: float) -> None:
    """Put the largest indices of all arms first, and the level where the least of them usually passes it."""
    k, pool = sampler.size, sampler.pool[: sampler.n_pool]
    least = _list_incumbents(evidence, sampler, sampler.incumbents[:k], pace)
    n = _list_ready(evidence, sampler, reach, k, pace)
    missed = n < 0
    if missed:
        n = _list_others(evidence, sampler, pool, k, least, pace)
        reach.margin = min(1.0, 1.5 * reach.margin)
    top_first(sampler.values, sampler.chosen, n, k)
    wasted = reach.waste > _WASTE * (pool.size + 16)
    if wasted and not missed:
        reach.margin = max(_LEAST_MARGIN, 0.7 * reach.margin)
    if missed or wasted:
        least = np.inf
        for i in range(k):
            least = min(least, sampler.values[i])
        reach.level = least - reach.margin
        blank(reach)


@kernel
def _choose_of_some(
    evidence: Evidence, sampler: Sampler, scratch: Scratch, view: View, graph: GraphArrays, pace: float, arms: Ints
) -> None:
    """Put the largest indices of this round's candidates first."""
    m, incumbents = rank_some(sampler, scratch, view, graph, arms), arms[view.n_confirmed :]
    least = _list_incumbents(evidence, sampler, incumbents, pace)
    n = _list_others(evidence, sampler, sampler.others[:m], incumbents.size, least, pace)
    top_first(sampler.values, sampler.chosen, n, incumbents.size)


@kernel
def propose_by_index(
    evidence: Evidence,
    sampler: Sampler,
    reach: Reach,
    book: Book,
    request: Request,
    view: View,
    graph: GraphArrays,
    arms: Ints,
) -> None:
    """Fill `arms`, whose first are the confirmed ones, with the open arms of largest index."""
    if sampler.decided < -1:
        find_means(evidence, sampler)
        blank(reach)
    k, whole = arms.size - view.n_confirmed, request.epoch == ALL
    cover = min(view.n_open, book.cover if whole else book.cover_among)
    pace = (request.number + 1.0) / max(1.0, _CROWD * cover / k)
    if whole:
        rank_all(evidence, sampler, book, graph, True, arms.size)
        _choose_of_all(evidence, sampler, reach, pace)
    else:
        _choose_of_some(evidence, sampler, book.scratch, view, graph, pace, arms)
    for i in range(k):
        arms[view.n_confirmed + i] = sampler.chosen[i]
        sampler.drawn[i] = sampler.values[i]
