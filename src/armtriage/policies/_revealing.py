"""Matched revealing: pull a bad arm that shows many, once the direct looks it could have spared cost as much.

An active arm that the incumbents do not reveal is seen only if somebody pays. When the sampler proposes it, its
estimated gap is added to its bill. A revealing arm is due when the bills of what it shows reach its own gap, and what
one pull shows is worth twice that. Its pull takes its gap off those bills, so that all revealing pulls together cost no
more, in estimated gaps, than the direct looks that were proposed.
"""

from __future__ import annotations

from typing import NamedTuple

import numpy as np
from numpy.typing import NDArray

from armtriage._jit import borrowed, inlined, kernel
from armtriage.feedback import GraphArrays
from armtriage.policies import _triage as triage
from armtriage.policies._free_look import LEAST_MEAN, MARK, SIZE, Sampler
from armtriage.policies._order import sort_pairs
from armtriage.policies._triage import ACTIVE, CONFIRMED, N_CONFIRMED

__all__ = ["Bills", "new_bills", "reveal_instead"]

SINCE, NEXT = 0, 1
_SLACK = 1e-9
_LAZY = 32.0


class Bills(NamedTuple):
    """What direct looks have cost, and scratch for what a pull would show."""

    bill: NDArray[np.float64]  # (K,)
    sought: NDArray[np.uint8]  # (K,) active and not revealed by the incumbents
    sums: NDArray[np.float64]  # (3, K + 1) of bills, gaps and numbers of the arms before each
    picks: NDArray[np.int64]  # (S,) scratch
    real: NDArray[np.float64]  # bills added SINCE due arms were looked for, and how much until the NEXT time


def new_bills(n_arms: int, budget: int) -> Bills:
    """Return empty bills."""
    return Bills(
        np.zeros(n_arms),
        np.zeros(n_arms, np.uint8),
        np.zeros((3, n_arms + 1)),
        np.zeros(budget, np.int64),
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


@kernel
def _find_due(
    sets: triage.State, sampler: Sampler, bills: Bills, graph: GraphArrays, least: float
) -> tuple[int, float, float]:
    """Return the due arm of best ratio, or -1, the bills of what it shows, and what the next one lacks."""
    sets, sampler, bills = borrowed(sets), borrowed(sampler), borrowed(bills)
    n_arms = bills.bill.size
    _add_up(sets, sampler, bills, least)
    all_bills, all_gaps = bills.sums[0, n_arms], bills.sums[1, n_arms]
    found, found_bill, found_ratio, lacks = -1, 0.0, 0.0, np.inf
    for arm in range(n_arms):
        own = _gap(sampler, least, arm)
        if sampler.inside[arm] > 0 or sets.status[arm] == CONFIRMED or sets.counts[arm] == 0:
            continue
        if all_gaps <= 2.0 * own:
            continue
        first, last = graph.start[arm], graph.stop[arm]
        bill = bills.sums[0, last] - bills.sums[0, first]
        worth = bills.sums[1, last] - bills.sums[1, first]
        shown = bills.sums[2, last] - bills.sums[2, first]
        for e in range(graph.indptr[arm], graph.indptr[arm + 1]):
            other = graph.indices[e]
            bill += bills.bill[other]
            if bills.sought[other] > 0 and sets.counts[other] > 0:
                worth += _gap(sampler, least, other)
                shown += 1.0
        if shown < 1.5 or worth <= 2.0 * own * (1.0 + _SLACK) + _SLACK:
            continue
        if bill * (1.0 + _SLACK) < own or bill <= _SLACK * all_bills:
            lacks = min(lacks, own - bill)
            continue
        ratio = worth / max(2.0 * own, 1e-300)
        if ratio > found_ratio * (1.0 + _SLACK):
            found, found_bill, found_ratio = arm, bill, ratio
    return found, found_bill, lacks


@inlined
def _settle(bills: Bills, arm: int, factor: float) -> None:
    bills.bill[arm] *= factor
    bills.sought[arm] = 0


@kernel
def _look(
    sets: triage.State,
    sampler: Sampler,
    bills: Bills,
    graph: GraphArrays,
    least: float,
) -> int:
    """Put the due arms into `picks`, at most as many as there are free slots; return how many."""
    sets, sampler, bills = borrowed(sets), borrowed(sampler), borrowed(bills)
    mark = sampler.whole[MARK]
    for arm in range(bills.bill.size):
        bills.sought[arm] = sets.status[arm] == ACTIVE and sampler.looked[arm] != mark
    n, lacks = 0, np.inf
    while n < sampler.whole[SIZE]:
        due, bill, lacks = _find_due(sets, sampler, bills, graph, least)
        if due < 0:
            break
        bills.picks[n] = due
        n += 1
        factor = max(0.0, 1.0 - _gap(sampler, least, due) / bill)
        for arm in range(graph.start[due], graph.stop[due]):
            _settle(bills, arm, factor)
        for e in range(graph.indptr[due], graph.indptr[due + 1]):
            _settle(bills, graph.indices[e], factor)
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
    sets: triage.State, sampler: Sampler, bills: Bills, graph: GraphArrays, arms: NDArray[np.int64]
) -> int:
    """Bill the direct looks of the proposal in `arms`, and if arms are due play them with the best incumbents instead.

    Due arms are looked for only when the bills since the last time can have made one due. Return how many were.
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
    n = 0
    if direct and bills.real[SINCE] * (1.0 + _SLACK) >= bills.real[NEXT]:
        n = _look(sets, sampler, bills, graph, least)
        if n > 0:
            _replace(sets, sampler, bills, n, arms)
    return n
