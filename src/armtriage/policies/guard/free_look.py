"""Thompson sampling with a free look: what the incumbents reveal anyway competes with its mean, not with a draw.

The incumbents are the confirmed arms and the active ones of largest posterior mean. An arm that they reveal is observed
whether it is drawn or not, so a draw of it buys nothing, and by its mean it is behind the incumbents. Only the other
active arms are drawn. As in `ThompsonSampling`, a draw matters only above a level, and each arm keeps a bound on
the luck that takes it there. The decision is exactly that of drawing all of them.
"""

from __future__ import annotations

import numpy as np
from numpy.typing import NDArray

from armtriage.graphs.feedback import GraphArrays, reveal
from armtriage.kernels.jit import kernel
from armtriage.kernels.order import kth_largest, top_first
from armtriage.kernels.random import uniform
from armtriage.kernels.record import Record
from armtriage.policies.elimination import sets as triage
from armtriage.policies.elimination.sets import ACTIVE
from armtriage.policies.facts import require, within
from armtriage.policies.lost import PATIENCE, all_as_least, as_least
from armtriage.policies.sampler import BELOW, STALE, draw, follow, luck_needed, won

__all__ = ["Sampler", "believe_of", "forget", "learn", "new_sampler", "propose", "rebuild_sampler"]

_NEVER = 2.0


class Sampler(Record):
    """Posteriors, incumbents and the luck that an arm needs to be a candidate."""

    facts = ("wins",)
    wins: NDArray[np.float64]
    early: NDArray[np.int64]  # (K,) rewards that were told of decisions still open: the guard has not counted them
    means: NDArray[np.float64]  # (K,) of the posteriors
    out: NDArray[np.float64]  # (K,) luck up to here is no candidate
    skipped: NDArray[np.uint8]  # losses since `out` was computed
    overdue: NDArray[np.uint8]  # (K,) whether lost rewards have gone into the mean
    incumbents: NDArray[np.int64]  # (S,) the `size` active ones among them, then the confirmed ones
    inside: NDArray[np.uint8]  # (K,) whether an arm is one of those
    looked: NDArray[np.int64]  # (K,) `mark` if the incumbents reveal the arm
    shown: NDArray[np.int64]  # scratch
    drawn: NDArray[np.float64]  # (S,) values of the active arms last proposed, in their order
    values: NDArray[np.float64]  # (K + S,) scratch
    chosen: NDArray[np.int64]  # (K + S,) scratch
    mark: int
    size: int
    decided: int  # arms decided when the incumbents were found
    best_arm: int  # outside the incumbents
    level: float  # of candidates
    centre: float  # of the least value chosen
    spread: float  # its usual distance from there
    waste: float  # draws that a low level has cost
    least_mean: float  # of the incumbents
    best_outside: float  # mean, since they were found


def new_sampler(n_arms: int, budget: int) -> Sampler:
    """Return uniform posteriors, no incumbents, and a level that rules nobody out."""
    return Sampler(
        np.zeros(n_arms),
        np.zeros(n_arms, np.int64),
        np.full(n_arms, 0.5),
        np.zeros(n_arms),
        np.zeros(n_arms, np.uint8),
        np.zeros(n_arms, np.uint8),
        np.zeros(budget, np.int64),
        np.zeros(n_arms, np.uint8),
        np.zeros(n_arms, np.int64),
        np.zeros(n_arms, np.int64),
        np.zeros(budget),
        np.zeros(n_arms + budget),
        np.zeros(n_arms + budget, np.int64),
        mark=1,
        size=0,
        decided=-1,
        best_arm=0,
        level=0.0,
        centre=1.0,
        spread=0.0,
        waste=0.0,
        least_mean=0.5,
        best_outside=0.5,
    )


def rebuild_sampler(sampler: Sampler, sets: triage.State, early: NDArray[np.int64]) -> None:
    """Check the wins that were loaded; the incumbents are found anew before the next decision."""
    sampler.early[:] = early
    counts = sets.counts[: sampler.wins.size] + early
    within("wins", sampler.wins, 0.0, counts)
    require(sampler.wins == np.floor(sampler.wins), "wins must be whole numbers")
    sampler.overdue[:] = sets.missed >= PATIENCE
    sampler.means[:] = (sampler.wins + 1.0) / (counts + all_as_least(sets.missed) + 2.0)


@kernel
def _counted(sets: triage.State, sampler: Sampler, arm: int) -> int:
    """Return how many rewards an arm has had, with what lost ones count for."""
    return sets.counts[arm] + sampler.early[arm] + as_least(sets.missed[arm])  # type: ignore[no-any-return]


@kernel
def forget(sets: triage.State, sampler: Sampler, arms: NDArray[np.int64]) -> None:
    """Note that rewards of these arms will not come; the guard has counted them."""
    for i in range(arms.size):
        arm = arms[i]
        if sets.missed[arm] >= PATIENCE:
            sampler.means[arm] = (sampler.wins[arm] + 1.0) / (_counted(sets, sampler, arm) + 2.0)
            sampler.overdue[arm] = 1
            if sampler.out[arm] < _NEVER:
                _cut(sets, sampler, arm)


@kernel
def _cut(sets: triage.State, sampler: Sampler, arm: int) -> None:
    """Compute the luck that takes an arm's draw to the level."""
    wins = sampler.wins[arm]
    sampler.skipped[arm] = 0
    sampler.out[arm] = luck_needed(sampler.level, 1.0 + wins, 1.0 + _counted(sets, sampler, arm) - wins)


@kernel
def learn(
    sets: triage.State,
    sampler: Sampler,
    luck: np.uint64,
    seen: NDArray[np.int64],
    rewards: NDArray[np.float64],
    n: int,
) -> None:
    """Add a win or a loss for each of the first n arms of `seen`, whose counts are up to date; a coin may decide."""
    best, best_arm = sampler.best_outside, sampler.best_arm
    for i in range(n):
        arm = seen[i]
        win = won(luck, arm, rewards[i])
        if win:
            sampler.wins[arm] += 1.0
        mean = (sampler.wins[arm] + 1.0) / (sets.counts[arm] + sampler.early[arm] + 2.0)
        sampler.means[arm] = mean
        ahead = mean > best or (mean == best and arm < best_arm)
        if ahead and sampler.inside[arm] == 0 and sets.status[arm] == ACTIVE:
            best, best_arm = mean, arm
        if sampler.out[arm] < _NEVER:
            # A loss lowers the draw: the old bound stays safe for a while, and so does one of nothing after a win.
            sampler.skipped[arm] += 1
            if (win and sampler.out[arm] > 0.0) or sampler.skipped[arm] > STALE or sampler.overdue[arm] > 0:
                _cut(sets, sampler, arm)
        sampler.overdue[arm] = 0
    sampler.best_outside, sampler.best_arm = best, best_arm


@kernel
def _rank(sets: triage.State, sampler: Sampler, graph: GraphArrays, free_look: bool) -> None:
    """Find the incumbents and what they reveal."""
    n, confirmed = sets.n_active, sets.n_confirmed
    k = sampler.incumbents.size - confirmed
    decided = sampler.means.size - n
    for i in range(n):
        sampler.chosen[i] = sets.active[i]
        sampler.values[i] = sampler.means[sets.active[i]]
    top_first(sampler.values, sampler.chosen, n, k)
    same = decided == sampler.decided
    for i in range(k):
        same = same and sampler.inside[sampler.chosen[i]] > 0
    best, best_arm = -np.inf, -1
    for i in range(k, n):
        if sampler.values[i] > best or (sampler.values[i] == best and sampler.chosen[i] < best_arm):
            best, best_arm = sampler.values[i], sampler.chosen[i]
    sampler.best_outside, sampler.best_arm = best, best_arm
    if same:
        return
    for i in range(sampler.size):
        sampler.inside[sampler.incumbents[i]] = 0
    for i in range(k):
        sampler.incumbents[i] = sampler.chosen[i]
        sampler.inside[sampler.chosen[i]] = 1
    for i in range(confirmed):
        sampler.incumbents[k + i] = sets.confirmed[i]
    sampler.size = k
    sampler.decided = decided
    sampler.mark += 1
    mark = sampler.mark
    reveal(graph, sampler.incumbents, sampler.looked, mark, sampler.shown)
    for arm in range(sampler.means.size):
        if sets.status[arm] != ACTIVE or (free_look and sampler.looked[arm] == mark):
            sampler.out[arm] = _NEVER
        elif sampler.out[arm] == _NEVER:
            _cut(sets, sampler, arm)


@kernel
def _set_level(sets: triage.State, sampler: Sampler, level: float) -> None:
    sampler.level = min(max(level, 0.0), 1.0)
    sampler.waste = 0.0
    for i in range(sets.n_active):
        arm = sets.active[i]
        if sampler.out[arm] < _NEVER:
            _cut(sets, sampler, arm)


@kernel
def _draw(sets: triage.State, sampler: Sampler, luck: np.uint64, free_look: bool) -> int:
    """List the values above the level, and those of the incumbents; return how many."""
    n = 0
    for i in range(sets.n_active):
        arm = sets.active[i]
        u = uniform(luck, arm)
        if u > sampler.out[arm]:
            wins = sampler.wins[arm]
            sampler.values[n] = draw(u, wins, _counted(sets, sampler, arm) - wins)
            sampler.chosen[n] = arm
            n += 1
    if free_look:
        for i in range(sampler.size):
            sampler.values[n] = sampler.means[sampler.incumbents[i]]
            sampler.chosen[n] = sampler.incumbents[i]
            n += 1
    return n


@kernel
def _take(sets: triage.State, sampler: Sampler, luck: np.uint64, free_look: bool, arms: NDArray[np.int64]) -> None:
    """Fill `arms` with the confirmed arms and the largest values."""
    confirmed, k = sets.n_confirmed, sampler.size
    n = _draw(sets, sampler, luck, free_look)
    least = -np.inf
    if n >= k:
        top_first(sampler.values, sampler.chosen, n, k)
        least = np.inf
        for i in range(k):
            least = min(least, sampler.values[i])
    if least < sampler.level:
        # An arm below the level may belong here: lower it to where none can.
        low = sampler.least_mean if free_look else 0.0
        sampler.spread = max(1.5 * sampler.spread, min(sampler.level - low, 0.05), 1e-3)
        _set_level(sets, sampler, low - BELOW * sampler.spread)
        n = _draw(sets, sampler, luck, free_look)
        top_first(sampler.values, sampler.chosen, n, k)
        least = np.inf
        for i in range(k):
            least = min(least, sampler.values[i])
        sampler.centre = least
    for i in range(confirmed):
        arms[i] = sets.confirmed[i]
    for i in range(k):
        arms[confirmed + i] = sampler.chosen[i]
        sampler.drawn[i] = sampler.values[i]
    follow(sampler, least)
    # A new level costs a bound for each arm, a low one a draw for each candidate: pay the former for the latter.
    sampler.waste += n
    if sampler.waste > 4.0 * sets.n_active and n > 2 * k:
        if n > 2 * k + 8:
            near = kth_largest(sampler.values, n, 2 * k + 8)
            sampler.spread = min(sampler.spread, max(0.25 * (sampler.centre - near), 1e-9))
        _set_level(sets, sampler, sampler.centre - BELOW * sampler.spread)


@kernel
def _least(sampler: Sampler) -> tuple[float, int]:
    """Return the least mean of the active incumbents, and the last arm that has it."""
    least, arm = np.inf, -1
    for i in range(sampler.size):
        other = sampler.incumbents[i]
        mean = sampler.means[other]
        if mean < least or (mean == least and other > arm):
            least, arm = mean, other
    return least, arm


@kernel
def propose(
    sets: triage.State, sampler: Sampler, graph: GraphArrays, luck: np.uint64, free_look: bool, arms: NDArray[np.int64]
) -> None:
    """Fill `arms` with the confirmed arms and the active ones of largest value, all incumbents up to date."""
    least, arm = _least(sampler)
    best = sampler.best_outside
    stale = sampler.means.size - sets.n_active != sampler.decided
    if stale or best > least or (best == least and sampler.best_arm < arm):
        _rank(sets, sampler, graph, free_look)
        least, arm = _least(sampler)
    sampler.least_mean = least
    _take(sets, sampler, luck, free_look, arms)


@kernel
def believe_of(
    sets: triage.State, sampler: Sampler, luck: np.uint64, arms: NDArray[np.int64], beliefs: NDArray[np.float64]
) -> None:
    """Write what draws of these arms follow from: luck, wins and losses."""
    for i in range(arms.size):
        arm = arms[i]
        wins = sampler.wins[arm]
        beliefs[0, i], beliefs[1, i], beliefs[2, i] = uniform(luck, arm), wins, _counted(sets, sampler, arm) - wins
