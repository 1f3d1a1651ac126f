"""Thompson sampling with a free look: what the incumbents reveal anyway competes with its mean, not with a draw.

The incumbents are the confirmed arms and the active ones of largest posterior mean. An arm that they reveal is observed
whether it is drawn or not, so a draw of it buys nothing, and by its mean it is behind the incumbents. Only the other
active arms are drawn. As in `ThompsonSampling`, a draw matters only above a level, and each arm keeps a bound on
the luck that takes it there. The decision is exactly that of drawing all of them.
"""

from __future__ import annotations

from typing import NamedTuple

import numpy as np
from numpy.typing import NDArray

from armtriage.graphs.feedback import GraphArrays, reveal
from armtriage.kernels.beta import beta_cdf, beta_quantile, beta_tail_bound
from armtriage.kernels.jit import borrowed, inlined, kernel
from armtriage.kernels.order import kth_largest, top_first
from armtriage.kernels.random import uniform
from armtriage.policies.elimination import sets as triage
from armtriage.policies.elimination.sets import ACTIVE, N_ACTIVE, N_CONFIRMED

__all__ = ["LEAST_MEAN", "Sampler", "learn", "new_sampler", "propose"]

MARK, SIZE, DECIDED, BEST_ARM = range(4)
LEVEL, CENTRE, STEP, WASTE, LEAST_MEAN, BEST_OUTSIDE = range(6)
_NEVER = 2.0
_ROUNDING = 1e-10
_FAR = 1e-3


class Sampler(NamedTuple):
    """Posteriors, incumbents and the luck that an arm needs to be a candidate."""

    wins: NDArray[np.float64]
    means: NDArray[np.float64]  # (K,) of the posteriors
    out: NDArray[np.float64]  # (K,) luck up to here is no candidate
    skipped: NDArray[np.uint8]  # losses since `out` was computed
    incumbents: NDArray[np.int64]  # (S,) the SIZE active ones among them
    inside: NDArray[np.uint8]  # (K,) whether an arm is one of those
    looked: NDArray[np.int64]  # (K,) MARK if the incumbents reveal the arm
    shown: NDArray[np.int64]  # scratch
    drawn: NDArray[np.float64]  # (S,) values of the active arms last proposed, in their order
    values: NDArray[np.float64]  # (K + S,) scratch
    chosen: NDArray[np.int64]  # (K + S,) scratch
    whole: NDArray[np.int64]  # MARK, SIZE, arms DECIDED when the incumbents were found, BEST_ARM outside
    real: NDArray[np.float64]  # LEVEL for candidates, CENTRE and STEP of the least value chosen, WASTE of a low level,
    # LEAST_MEAN of the incumbents, BEST_OUTSIDE mean since they were found


def new_sampler(n_arms: int, budget: int) -> Sampler:
    """Return uniform posteriors, no incumbents, and a level that rules nobody out."""
    return Sampler(
        np.zeros(n_arms),
        np.full(n_arms, 0.5),
        np.zeros(n_arms),
        np.zeros(n_arms, np.uint8),
        np.zeros(budget, np.int64),
        np.zeros(n_arms, np.uint8),
        np.zeros(n_arms, np.int64),
        np.zeros(n_arms, np.int64),
        np.zeros(budget),
        np.zeros(n_arms + budget),
        np.zeros(n_arms + budget, np.int64),
        np.array([1, 0, -1, 0], np.int64),
        np.array([0.0, 1.0, 0.0, 0.0, 0.5, 0.5]),
    )


@inlined
def _cut(sets: triage.State, sampler: Sampler, arm: int) -> None:
    """Compute the luck that takes an arm's draw to the level; far from it Chernoff's bound will do."""
    sampler.skipped[arm] = 0
    a = 1.0 + sampler.wins[arm]
    b = 1.0 + sets.counts[arm] - sampler.wins[arm]
    above = beta_tail_bound(sampler.real[LEVEL], a, b)
    # A band covers the rounding of the distribution function.
    band = max(_ROUNDING, 4e-16 * (a + b))
    if above < _FAR:
        sampler.out[arm] = 1.0 - above - band
    else:
        sampler.out[arm] = beta_cdf(sampler.real[LEVEL], a, b) - band


@inlined
def learn(
    sets: triage.State,
    sampler: Sampler,
    luck: np.uint64,
    seen: NDArray[np.int64],
    rewards: NDArray[np.float64],
    n: int,
) -> None:
    """Add a win or a loss for each of the first n arms of `seen`, whose counts are up to date; a coin may decide."""
    best, best_arm = sampler.real[BEST_OUTSIDE], sampler.whole[BEST_ARM]
    for i in range(n):
        arm, reward = seen[i], rewards[i]
        won = reward >= 1.0 or (reward > 0.0 and uniform(luck, sets.counts.size + arm) < reward)
        if won:
            sampler.wins[arm] += 1.0
        mean = (sampler.wins[arm] + 1.0) / (sets.counts[arm] + 2.0)
        sampler.means[arm] = mean
        ahead = mean > best or (mean == best and arm < best_arm)
        if ahead and sampler.inside[arm] == 0 and sets.status[arm] == ACTIVE:
            best, best_arm = mean, arm
        if sampler.out[arm] < _NEVER:
            # A loss lowers the draw: the old bound stays safe for a while, and so does one of nothing after a win.
            sampler.skipped[arm] += 1
            if (won and sampler.out[arm] > 0.0) or sampler.skipped[arm] > 8:
                _cut(sets, sampler, arm)
    sampler.real[BEST_OUTSIDE], sampler.whole[BEST_ARM] = best, best_arm


@kernel
def _rank(sets: triage.State, sampler: Sampler, graph: GraphArrays, free_look: bool) -> None:
    """Find the incumbents and what they reveal."""
    sets, sampler = borrowed(sets), borrowed(sampler)
    n, confirmed = sets.whole[N_ACTIVE], sets.whole[N_CONFIRMED]
    k = sampler.incumbents.size - confirmed
    decided = sampler.means.size - n
    for i in range(n):
        sampler.chosen[i] = sets.active[i]
        sampler.values[i] = sampler.means[sets.active[i]]
    top_first(sampler.values, sampler.chosen, n, k)
    same = decided == sampler.whole[DECIDED]
    for i in range(k):
        same = same and sampler.inside[sampler.chosen[i]] > 0
    best, best_arm = -np.inf, -1
    for i in range(k, n):
        if sampler.values[i] > best or (sampler.values[i] == best and sampler.chosen[i] < best_arm):
            best, best_arm = sampler.values[i], sampler.chosen[i]
    sampler.real[BEST_OUTSIDE], sampler.whole[BEST_ARM] = best, best_arm
    if same:
        return
    for i in range(sampler.whole[SIZE]):
        sampler.inside[sampler.incumbents[i]] = 0
    for i in range(k):
        sampler.incumbents[i] = sampler.chosen[i]
        sampler.inside[sampler.chosen[i]] = 1
    for i in range(confirmed):
        sampler.incumbents[k + i] = sets.confirmed[i]
    sampler.whole[SIZE] = k
    sampler.whole[DECIDED] = decided
    sampler.whole[MARK] += 1
    mark = sampler.whole[MARK]
    reveal(graph, sampler.incumbents, sampler.looked, mark, sampler.shown)
    for arm in range(sampler.means.size):
        if sets.status[arm] != ACTIVE or (free_look and sampler.looked[arm] == mark):
            sampler.out[arm] = _NEVER
        elif sampler.out[arm] == _NEVER:
            _cut(sets, sampler, arm)


@kernel
def _set_level(sets: triage.State, sampler: Sampler, level: float) -> None:
    sets, sampler = borrowed(sets), borrowed(sampler)
    sampler.real[LEVEL] = min(max(level, 0.0), 1.0)
    sampler.real[WASTE] = 0.0
    for i in range(sets.whole[N_ACTIVE]):
        arm = sets.active[i]
        if sampler.out[arm] < _NEVER:
            _cut(sets, sampler, arm)


@inlined
def _draw(sets: triage.State, sampler: Sampler, luck: np.uint64, free_look: bool) -> int:
    """List the values above the level, and those of the incumbents; return how many."""
    n = 0
    for i in range(sets.whole[N_ACTIVE]):
        arm = sets.active[i]
        u = uniform(luck, arm)
        if u > sampler.out[arm]:
            a = 1.0 + sampler.wins[arm]
            sampler.values[n] = beta_quantile(u, a, 2.0 + sets.counts[arm] - a)
            sampler.chosen[n] = arm
            n += 1
    if free_look:
        for i in range(sampler.whole[SIZE]):
            sampler.values[n] = sampler.means[sampler.incumbents[i]]
            sampler.chosen[n] = sampler.incumbents[i]
            n += 1
    return n


@kernel
def _take(sets: triage.State, sampler: Sampler, luck: np.uint64, free_look: bool, arms: NDArray[np.int64]) -> None:
    """Fill `arms` with the confirmed arms and the largest values."""
    sets, sampler = borrowed(sets), borrowed(sampler)
    confirmed, k = sets.whole[N_CONFIRMED], sampler.whole[SIZE]
    n = _draw(sets, sampler, luck, free_look)
    least = -np.inf
    if n >= k:
        top_first(sampler.values, sampler.chosen, n, k)
        least = np.inf
        for i in range(k):
            least = min(least, sampler.values[i])
    if least < sampler.real[LEVEL]:
        # An arm below the level may belong here: lower it to where none can.
        low = sampler.real[LEAST_MEAN] if free_look else 0.0
        sampler.real[STEP] = max(1.5 * sampler.real[STEP], min(sampler.real[LEVEL] - low, 0.05), 1e-3)
        _set_level(sets, sampler, low - 4.0 * sampler.real[STEP])
        n = _draw(sets, sampler, luck, free_look)
        top_first(sampler.values, sampler.chosen, n, k)
        least = np.inf
        for i in range(k):
            least = min(least, sampler.values[i])
        sampler.real[CENTRE] = least
    for i in range(confirmed):
        arms[i] = sets.confirmed[i]
    for i in range(k):
        arms[confirmed + i] = sampler.chosen[i]
        sampler.drawn[i] = sampler.values[i]
    step = least - sampler.real[CENTRE]
    sampler.real[CENTRE] += 0.02 * step
    sampler.real[STEP] += 0.02 * (abs(step) - sampler.real[STEP])
    # A new level costs a bound for each arm, a low one a draw for each candidate: pay the former for the latter.
    sampler.real[WASTE] += n
    if sampler.real[WASTE] > 4.0 * sets.whole[N_ACTIVE] and n > 2 * k:
        if n > 2 * k + 8:
            near = kth_largest(sampler.values, n, 2 * k + 8)
            sampler.real[STEP] = min(sampler.real[STEP], max(0.25 * (sampler.real[CENTRE] - near), 1e-9))
        _set_level(sets, sampler, sampler.real[CENTRE] - 4.0 * sampler.real[STEP])


@inlined
def _least(sampler: Sampler) -> tuple[float, int]:
    """Return the least mean of the active incumbents, and the last arm that has it."""
    least, arm = np.inf, -1
    for i in range(sampler.whole[SIZE]):
        other = sampler.incumbents[i]
        mean = sampler.means[other]
        if mean < least or (mean == least and other > arm):
            least, arm = mean, other
    return least, arm


@inlined
def propose(
    sets: triage.State, sampler: Sampler, graph: GraphArrays, luck: np.uint64, free_look: bool, arms: NDArray[np.int64]
) -> None:
    """Fill `arms` with the confirmed arms and the active ones of largest value, all incumbents up to date."""
    least, arm = _least(sampler)
    best = sampler.real[BEST_OUTSIDE]
    stale = sampler.means.size - sets.whole[N_ACTIVE] != sampler.whole[DECIDED]
    if stale or best > least or (best == least and sampler.whole[BEST_ARM] < arm):
        _rank(sets, sampler, graph, free_look)
        least, arm = _least(sampler)
    sampler.real[LEAST_MEAN] = least
    _take(sets, sampler, luck, free_look, arms)
