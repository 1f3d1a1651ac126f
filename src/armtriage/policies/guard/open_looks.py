"""Looks for the certificate: one arm of a proposal makes room for the arm that leaves most of the certificate open.

A certificate charges an arm that was hardly tried with its upper end, in every round. So a look goes where that end is
farthest above the *bar*, the least mean of the best decision by the means, of the arms whose means are behind it. On a
graph the arm of largest mean that shows it is played. It takes the place of the least mean that is not behind the bar:
what is played for other reasons than its mean stays. What looks lose by the means of their time stays within a share of
what decisions seem to have lost without them, and the guard admits a proposal with a look in it like any other.
"""

from __future__ import annotations

import numpy as np
from numpy.typing import NDArray

from armtriage.graphs.feedback import reveals
from armtriage.kernels.jit import kernel
from armtriage.kernels.order import kth_largest
from armtriage.policies.evidence import PATIENCE, Evidence
from armtriage.policies.guard.account import Book, GuardParams, admit
from armtriage.policies.request import ALL, Request
from armtriage.policies.views import View

_NONE = -1
_PAUSE = 16  # the bar is found again after K / (16 S) rounds, so that it costs some arms a round however many there are


@kernel
def _mean(evidence: Evidence, arm: int) -> float:
    """Return an arm's mean, with a reward of one half before all others."""
    return (evidence.sums[arm] + 0.5) / (evidence.counts[arm] + 1.0)  # type: ignore[no-any-return]


@kernel
def _find_bar(evidence: Evidence, book: Book, request: Request, view: View) -> float:
    """Return the least mean of the best decision by the means; among all arms, estimate again what was lost."""
    if request.epoch == ALL and request.number < book.bar_due:
        return book.bar
    size, n, keys = request.size, 0, book.scratch.keys
    for i in range(view.n_confirmed):
        keys[n] = _mean(evidence, view.confirmed[i])
        n += 1
    for i in range(view.n_open):
        keys[n] = _mean(evidence, view.open[i])
        n += 1
    bar = kth_largest(keys, n, size)
    if request.epoch == ALL:
        book.bar, book.bar_due = bar, request.number + 1 + evidence.n_arms // (_PAUSE * size)
        if book.n_patterns + book.wholes <= 1:
            book.estimated = 0.0
            for arm in range(evidence.n_arms):
                book.estimated += evidence.pulls[arm] * max(0.0, bar - _mean(evidence, arm))
    return bar


@kernel
def _shown_by(params: GuardParams, arms: NDArray[np.int64], other: int) -> bool:
    """Whether a decision reveals an arm."""
    for i in range(arms.size):
        if arms[i] == other or (not params.plain and reveals(params.graph, arms[i], other)):
            return True
    return False


@kernel
def _target(params: GuardParams, evidence: Evidence, view: View, bar: float, arms: NDArray[np.int64]) -> int:
    """Return which arm leaves most open, of those that are behind by their means and that the proposal does not show.

    It is sought among the largest upper ends, which the view has at hand.
    """
    best, most = _NONE, 0.0
    for i in range(view.n_ceiling):
        arm = view.ceiling[i]
        mean = _mean(evidence, arm)
        excess = view.ends[i] - bar
        heard = evidence.missed[arm] < PATIENCE  # a look whose reward does not come closes nothing
        if heard and mean < bar and excess > most and not _shown_by(params, arms, arm):
            best, most = arm, excess
    return best


@kernel
def _cheapest(params: GuardParams, evidence: Evidence, request: Request, target: int) -> int:
    """Return the candidate of largest mean that shows an arm."""
    if params.plain:
        return target
    best = target
    n = evidence.n_arms if request.epoch == ALL else request.n
    for i in range(n):
        arm = i if request.epoch == ALL else request.among[i]
        if _mean(evidence, arm) > _mean(evidence, best) and reveals(params.graph, arm, target):
            best = arm
    return best


@kernel
def _place(evidence: Evidence, bar: float, arms: NDArray[np.int64]) -> int:
    """Return where the arm of least mean stands that is not behind; of equals the last number."""
    place, least = _NONE, np.inf
    for i in range(arms.size):
        mean = _mean(evidence, arms[i])
        if bar <= mean and (mean < least or (mean == least and arms[i] > arms[place])):
            place, least = i, mean
    return place


@kernel
def look_and_admit(
    params: GuardParams, evidence: Evidence, book: Book, request: Request, view: View, arms: NDArray[np.int64]
) -> None:
    """Let a look take a place in the proposal if its price allows it, and the guard decide on the whole."""
    if params.price <= 0.0:
        admit(params, evidence, book, request, view, arms)
        return
    bar, look, cost = _find_bar(evidence, book, request, view), _NONE, 0.0
    target = _target(params, evidence, view, bar, arms)
    if target >= 0:
        other = _cheapest(params, evidence, request, target)
        cost, place = max(0.0, bar - _mean(evidence, other)), _place(evidence, bar, arms)
        share = params.price / (1.0 + params.price)
        if place >= 0 and book.inspected_loss + cost <= share * book.estimated:
            look, arms[place] = other, other
    kept = admit(params, evidence, book, request, view, arms)
    if kept and look >= 0:
        book.inspected_loss += cost
        book.inspected += 1
    for i in range(arms.size):
        book.estimated += max(0.0, bar - _mean(evidence, arms[i]))
