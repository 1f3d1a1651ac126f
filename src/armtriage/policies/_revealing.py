"""Matched revealing: pull a bad arm that shows many, once the direct looks it could have spared cost as much.

An active arm that the incumbents do not reveal is seen only if somebody pays. When the sampler proposes it, its
estimated gap is added to its bill. A revealing arm is due when the bills of what it shows reach its own gap, and what
one pull shows is worth twice that. Its pull takes its gap off those bills, so that all revealing pulls together cost no
more, in estimated gaps, than the direct looks that were proposed.
"""

from __future__ import annotations

import math
from typing import NamedTuple

import numpy as np
from numpy.typing import NDArray

from armtriage._jit import borrowed, inlined, kernel
from armtriage.feedback import FeedbackGraph, GraphArrays
from armtriage.policies import _triage as triage
from armtriage.policies._free_look import LEAST_MEAN, MARK, SIZE, Sampler
from armtriage.policies._order import sort_pairs
from armtriage.policies._triage import ACTIVE, CONFIRMED, N_CONFIRMED

__all__ = ["Bills", "new_bills", "reveal_instead"]

SINCE, NEXT = 0, 1
PAUSE, RESUME, REVEALED = range(3)
_SLACK = 1e-9
_LAZY = 32.0
_TRIES = 8
_PAUSE = 256


class Bills(NamedTuple):
    """What direct looks have cost, and scratch for what a pull would show."""

    bill: NDArray[np.float64]  # (K,)
    sought: NDArray[np.uint8]  # (K,) active and not revealed by the incumbents
    sums: NDArray[np.float64]  # (3, K + 1) of bills, gaps and numbers of the arms before each
    picks: NDArray[np.int64]  # (S,) scratch
    whole: NDArray[np.int64]  # PAUSE between looks for due arms, RESUME them in this round, arms REVEALED so far
    real: NDArray[np.float64]  # bills added SINCE due arms were looked for, and how much until the NEXT time


def new_bills(graph: FeedbackGraph, budget: int) -> Bills:
    """Return empty bills."""
    n_arms = graph.n_arms
    pause = (n_arms + graph.arrays.indices.size) // (_PAUSE * budget)
    return Bills(
        np.zeros(n_arms),
        np.zeros(n_arms, np.uint8),
        np.zeros((3, n_arms + 1)),
        np.zeros(budget, np.int64),
        np.array([pause, 0, 0], np.int64),
        np.zeros(2),
    )


@inlined
def _gap(sampler: Sampler, least: float, arm: int) -> float:
    return max(0.0, least - sampler.means[arm])  # type: ignore[no-any-return]


@kernel
def _add_up(sets: triage.State, sampler: Sampler, bills: Bills, least: float) -> None:
    """Sum what runs of arms would show."""
    for arm in range(bills.bill.size):
        seen = bills.sought[arm] > 0 and sets.counts[arm] > 0
        bills.sums[0, arm + 1] = bills.sums[0, arm] + bills.bill[arm]
        bills.sums[1, arm + 1] = bills.sums[1, arm] + (_gap(sampler, least, arm) if seen else 0.0)
        bills.sums[2, arm + 1] = bills.sums[2, arm] + (1.0 if seen else 0.0)


@inlined
def _is_candidate(sets: triage.State, sampler: Sampler, arm: int) -> bool:
    return (sampler.inside[arm] == 0) & (sets.status[arm] != CONFIRMED) & (sets.counts[arm] > 0)  # type: ignore[no-any-return]


@inlined
def _shown(
    sets: triage.State, sampler: Sampler, bills: Bills, least: float, arm: int, sums: tuple[float, float, int]
) -> tuple[float, float, int]:
    """Add an arm's bill and, if it is sought, its gap and 1."""
    if bills.sought[arm] > 0 and sets.counts[arm] > 0:
        return sums[0] + bills.bill[arm], sums[1] + _gap(sampler, least, arm), sums[2] + 1
    return sums[0] + bills.bill[arm], sums[1], sums[2]


@inlined
def _is_due(own: float, bill: float, total: float) -> bool:
    return (bill * (1.0 + _SLACK) >= own) & (bill > _SLACK * total)


@inlined
def _is_worth_it(own: float, worth: float, number: float) -> bool:
    return (number > 1.5) & (worth > 2.0 * own * (1.0 + _SLACK) + _SLACK)


@kernel
def _list_due(
    sets: triage.State, sampler: Sampler, bills: Bills, graph: GraphArrays, least: float
) -> tuple[int, float]:
    """List the due arms by how much one pull is worth; return how many, and what the next one lacks."""
    sets, sampler, bills = borrowed(sets), borrowed(sampler), borrowed(bills)
    n_arms = bills.bill.size
    _add_up(sets, sampler, bills, least)
    total, all_gaps = bills.sums[0, n_arms], bills.sums[1, n_arms]
    n, lacks = 0, np.inf
    for arm in range(n_arms):
        own = _gap(sampler, least, arm)
        if 2.0 * own >= all_gaps or not _is_candidate(sets, sampler, arm):
            continue
        first, last = graph.start[arm], graph.stop[arm]
        bill = bills.sums[0, last] - bills.sums[0, first]
        worth = bills.sums[1, last] - bills.sums[1, first]
        number = bills.sums[2, last] - bills.sums[2, first]
        for e in range(graph.indptr[arm], graph.indptr[arm + 1]):
            bill, worth, number = _shown(sets, sampler, bills, least, graph.indices[e], (bill, worth, number))
        if not _is_worth_it(own, worth, number):
            continue
        if _is_due(own, bill, total):
            # Rounding may not decide between arms that show the same.
            sampler.values[n] = round(1e6 * math.log(worth / max(own, 1e-100)))
            sampler.chosen[n] = arm
            n += 1
        else:
            lacks = min(lacks, own - bill)
    sort_pairs(sampler.values, sampler.chosen, n)
    return n, lacks


@kernel
def _settle(
    sets: triage.State, sampler: Sampler, bills: Bills, graph: GraphArrays, least: float, arm: int, total: float
) -> bool:
    """Take an arm's gap off the bills of what it shows, if it is still due."""
    sets, sampler, bills = borrowed(sets), borrowed(sampler), borrowed(bills)
    sums = 0.0, 0.0, 0
    for other in range(graph.start[arm], graph.stop[arm]):
        sums = _shown(sets, sampler, bills, least, other, sums)
    for e in range(graph.indptr[arm], graph.indptr[arm + 1]):
        sums = _shown(sets, sampler, bills, least, graph.indices[e], sums)
    own = _gap(sampler, least, arm)
    if not (_is_worth_it(own, sums[1], sums[2]) and _is_due(own, sums[0], total)):
        return False
    factor = max(0.0, 1.0 - own / sums[0])
    for other in range(graph.start[arm], graph.stop[arm]):
        bills.bill[other] *= factor
        bills.sought[other] = 0
    for e in range(graph.indptr[arm], graph.indptr[arm + 1]):
        bills.bill[graph.indices[e]] *= factor
        bills.sought[graph.indices[e]] = 0
    return True


@kernel
def _look(sets: triage.State, sampler: Sampler, bills: Bills, graph: GraphArrays, least: float) -> int:
    """Put the due arms into `picks`, at most as many as there are free slots; return how many."""
    sets, sampler, bills = borrowed(sets), borrowed(sampler), borrowed(bills)
    mark = sampler.whole[MARK]
    for arm in range(bills.bill.size):
        bills.sought[arm] = sets.status[arm] == ACTIVE and sampler.looked[arm] != mark
    listed, lacks = _list_due(sets, sampler, bills, graph, least)
    total = bills.sums[0, bills.bill.size]
    n = 0
    for i in range(min(listed, _TRIES * sampler.whole[SIZE])):
        if n == sampler.whole[SIZE]:
            break
        if _settle(sets, sampler, bills, graph, least, sampler.chosen[i], total):
            bills.picks[n] = sampler.chosen[i]
            n += 1
    total = 0.0
    for arm in range(bills.bill.size):
        total += bills.bill[arm]
    bills.real[SINCE] = 0.0
    bills.real[NEXT] = max(total / _LAZY, lacks if lacks < np.inf else 0.0)
    return n


@kernel
def _replace(sets: triage.State, sampler: Sampler, bills: Bills, n: int, arms: NDArray[np.int64]) -> None:
    """Fill `arms` with the confirmed arms, the n picks, and the incumbents of largest mean."""
    sets, sampler = borrowed(sets), borrowed(sampler)
    confirmed, k = sets.whole[N_CONFIRMED], sampler.whole[SIZE]
    for i in range(confirmed):
        arms[i] = sets.confirmed[i]
    for i in range(n):
        arms[confirmed + i] = bills.picks[i]
    for i in range(k):
        sampler.chosen[i] = sampler.incumbents[i]
        sampler.values[i] = sampler.means[sampler.incumbents[i]]
    sort_pairs(sampler.values, sampler.chosen, k)
    for i in range(confirmed + n, arms.size):
        arms[i] = sampler.chosen[i - confirmed - n]


@inlined
def reveal_instead(
    sets: triage.State, sampler: Sampler, bills: Bills, graph: GraphArrays, number: int, arms: NDArray[np.int64]
) -> None:
    """Bill the direct looks of the proposal in `arms`, and if arms are due play them with the best incumbents instead.

    Due arms are looked for only when the bills since the last time can have made one due, and not in every round of a
    graph with very many edges.
    """
    least = sampler.real[LEAST_MEAN]
    for i in range(sets.whole[N_CONFIRMED]):
        least = min(least, sampler.means[sets.confirmed[i]])
    direct = False
    for i in range(sets.whole[N_CONFIRMED], arms.size):
        if sampler.looked[arms[i]] != sampler.whole[MARK]:
            gap = _gap(sampler, least, arms[i])
            bills.bill[arms[i]] += gap
            bills.real[SINCE] += gap
            direct = True
    enough = bills.real[SINCE] * (1.0 + _SLACK) >= bills.real[NEXT]
    if direct and enough and number >= bills.whole[RESUME]:
        bills.whole[RESUME] = number + bills.whole[PAUSE]
        n = _look(sets, sampler, bills, graph, least)
        if n > 0:
            bills.whole[REVEALED] += n
            _replace(sets, sampler, bills, n, arms)
