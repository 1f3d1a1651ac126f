"""Draws that few arms need: bounds on each arm's distribution function at two levels, whichever arms may be chosen.

An arm's draw is the quantile of its posterior at a uniform number u of (round, arm); see `policies.beliefs`. With u up
to `out` it stays below the level `low`, with u above `sure` it is above `high`. Neither depends on the candidates; only
where the levels should be does, and levels that do not suit a request cost draws, never the decision. A bound that is
unknown is -1: every u passes it, and it is computed when the arm is looked at.
"""

from __future__ import annotations

import numpy as np
from numpy.typing import NDArray

from armtriage.kernels.beta import beta_cdf, beta_tail_bound
from armtriage.kernels.jit import kernel
from armtriage.kernels.order import kth_largest, top_first
from armtriage.kernels.random import uniform
from armtriage.kernels.record import Floats, Ints, Record, blank
from armtriage.policies.beliefs import BELOW, FAR, STALE, band, draw, follow, gain, posterior, scaled
from armtriage.policies.evidence import PATIENCE, TOLD, WEIGHED, Evidence, losses_of, wins_of
from armtriage.policies.request import ALL, Request, list_candidates, luck_of

_ABOVE = 2.0  # spreads up to the upper level: an arm above it is in without a draw, too many have all drawn again


class Params(Record, frozen=True):
    """Parameters of draws: the prior of an arm that was never seen."""

    prior_wins: float
    prior_losses: float


class Cutoffs(Record):
    """Caches of draws, all of which follow from the evidence."""

    facts = ()
    out: Floats  # (room,) -1 if unknown
    sure: Floats
    skipped: NDArray[np.uint8]  # rewards since they were computed
    chosen: Ints  # scratch
    values: Floats  # scratch
    luck: Floats  # scratch
    low: float  # levels
    high: float
    centre: float  # of the S-th largest draw
    spread: float  # around it
    waste: float  # draws that loose levels have cost


def new_cutoffs(evidence: Evidence) -> Cutoffs:
    """Return levels that rule no arm in or out."""
    room = evidence.counts.size
    return blank(Cutoffs, room, sure=np.ones(room), high=1.0, centre=1.0)


@kernel
def posterior_of(params: Params, evidence: Evidence, arm: int) -> tuple[float, float, float]:
    """Return the least value and the parameters of an arm's posterior."""
    wins, losses = wins_of(evidence, arm), losses_of(evidence, arm)
    return posterior(wins, losses, evidence.doubts[arm], params.prior_wins, params.prior_losses)


@kernel
def _draw(params: Params, evidence: Evidence, arm: int, u: float) -> float:
    least, a, b = posterior_of(params, evidence, arm)
    return draw(u, least, a, b)


@kernel
def _cut(params: Params, evidence: Evidence, own: Cutoffs, arm: int) -> None:
    """Compute an arm's bounds; for one that is far from the levels a Chernoff bound will do."""
    # The next reward of an arm, of which many were lost in a row, takes their weight off the arm.
    own.skipped[arm] = STALE if evidence.missed[arm] >= PATIENCE else 0
    least, a, b = posterior_of(params, evidence, arm)
    low, high = scaled(own.low, least), scaled(own.high, least)
    rounding = band(a, b)
    above = beta_tail_bound(low, a, b)
    if above < FAR:
        own.out[arm], own.sure[arm] = 1.0 - above - rounding, 1.0
        return
    below = beta_tail_bound(1.0 - high, b, a)
    if below < FAR:
        own.out[arm], own.sure[arm] = 0.0, below + rounding
        return
    own.out[arm] = beta_cdf(low, a, b) - rounding
    own.sure[arm] = beta_cdf(high, a, b) + rounding


@kernel
def _set_levels(evidence: Evidence, own: Cutoffs) -> None:
    """Put the levels on both sides of where the S-th largest draw has been; all bounds become unknown."""
    own.low = max(0.0, own.centre - BELOW * own.spread)
    own.high = min(1.0, own.centre + _ABOVE * own.spread)
    own.waste = 0.0
    for arm in range(evidence.n_arms):
        own.out[arm] = -1.0


@kernel
def _draw_all(params: Params, evidence: Evidence, own: Cutoffs, request: Request) -> None:
    """Draw every candidate, and set the levels around the S-th largest draw."""
    n, k, luck = request.n, request.size, luck_of(request)
    list_candidates(evidence, request)
    for i in range(n):
        arm = request.among[i]
        own.chosen[i], own.values[i] = arm, _draw(params, evidence, arm, uniform(luck, arm))
    top_first(own.values, own.chosen, n, k)
    for i in range(k):
        request.arms[i] = own.chosen[i]
    level = kth_largest(own.values, n, k)
    own.centre = level
    own.spread = max(own.spread, 0.5 * (level - kth_largest(own.values, n, min(n, 2 * k + 8))), 1e-9)
    _set_levels(evidence, own)


@kernel
def _look(
    params: Params, evidence: Evidence, own: Cutoffs, request: Request, arm: int, u: float, sure: int, n: int
) -> tuple[int, int]:
    """Put an arm whose luck passes its bound among the sure or the doubtful ones, or pass it over after all."""
    if own.out[arm] < -0.5:
        _cut(params, evidence, own, arm)
        if u <= own.out[arm]:
            return sure, n
    if u > own.sure[arm]:
        if sure < request.size:
            request.arms[sure] = arm
        return sure + 1, n
    own.chosen[n], own.luck[n] = arm, u
    return sure, n + 1


@kernel
def draw_best(params: Params, evidence: Evidence, own: Cutoffs, request: Request) -> None:
    """Fill `arms` with the candidates of largest draw."""
    sure, n, k, luck = 0, 0, request.size, luck_of(request)
    if request.epoch == ALL:
        for arm in range(evidence.n_arms):
            u = uniform(luck, arm)
            if u > own.out[arm]:
                sure, n = _look(params, evidence, own, request, arm, u, sure, n)
    else:
        list_candidates(evidence, request)
        for i in range(request.n):
            arm = request.among[i]
            u = uniform(luck, arm)
            if u > own.out[arm]:
                sure, n = _look(params, evidence, own, request, arm, u, sure, n)
    if sure > k or sure + n < k:
        _draw_all(params, evidence, own, request)
        return
    # Bounds err on the safe side: a doubtful draw may pass `high` as well, and a sure arm is then not sure any more.
    passed = sure
    for i in range(n):
        own.values[i] = _draw(params, evidence, own.chosen[i], own.luck[i])
        passed += own.values[i] > own.high
    top_first(own.values, own.chosen, n, k - sure)
    least = own.high
    for i in range(k - sure):
        request.arms[sure + i] = own.chosen[i]
        least = min(least, own.values[i])
    if (sure > 0 and passed > k) or least < own.low:
        _draw_all(params, evidence, own, request)
        return
    follow(own, least)
    # New levels cost a bound for each candidate, loose ones draws of doubtful arms: pay the former for the latter.
    own.waste += n
    if own.waste > 4.0 * request.n and n > k:
        _set_levels(evidence, own)


@kernel
def _loosen(params: Params, evidence: Evidence, own: Cutoffs, arm: int, reward: float) -> None:
    """Compute the bounds of an arm that had a reward again, unless they are unknown or still safe.

    A win moves the posterior up: `sure` stays safe, and so does an `out` of 0. A loss does the opposite. What is
    between may do either.
    """
    if own.out[arm] < -0.5:
        return
    mixed = evidence.doubts[arm] > 0.0
    safe = (own.out[arm] <= 0.0 or (reward <= 0.0 and not mixed)) and (
        own.sure[arm] >= 1.0 or (reward > 0.0 and not mixed)
    )
    own.skipped[arm] += 1
    if not safe or own.skipped[arm] > STALE:
        # Now and not when it is looked at: a call of `ask` waits for it, a call of `tell` does not.
        _cut(params, evidence, own, arm)


@kernel
def bring_in_line(
    params: Params, evidence: Evidence, own: Cutoffs, request: Request, seen: Ints, rewards: Floats, event: int
) -> None:
    """Give up bounds that may no longer hold: `learn` of policies that draw."""
    for i in range(seen.size):
        arm = seen[i]
        if event == TOLD:
            _loosen(params, evidence, own, arm, gain(evidence.coin > 0, luck_of(request), arm, rewards[i]))
        elif event == WEIGHED and rewards[i] > 0.0:
            own.sure[arm] = 1.0  # more losses lower the draw, so that `out` stays safe
        elif event == WEIGHED or evidence.missed[arm] >= PATIENCE:
            own.out[arm] = -1.0
