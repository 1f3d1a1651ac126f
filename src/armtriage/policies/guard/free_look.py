"""Thompson sampling with a free look: what the incumbents reveal anyway competes with its mean, not with a draw.

The incumbents are the confirmed arms and the active ones of largest posterior mean. An arm that they reveal is observed
whether it is drawn or not, so a draw of it buys nothing, and by its mean it is behind the incumbents. Only the other
active arms are drawn. As in `ThompsonSampling`, a draw matters only above a level, and each arm keeps a bound on
the luck that takes it there. The decision is exactly that of drawing all of them.

Once rewards are seen that are neither 0 nor 1, an incumbent that a draw would displace may be drawn itself: where the
others are quiet, some draw is always a little ahead of an incumbent that had bad luck, which would never be seen again.

Where the prior is learned, only a share of the arms is drawn in a round, since the best of very many draws is always
too good to be true. The others would enter with their means, which are behind the incumbents.
"""

from __future__ import annotations

import numpy as np
from numpy.typing import NDArray

from armtriage._arguments import LONGEST
from armtriage.graphs.feedback import GraphArrays, reveal
from armtriage.kernels.jit import kernel
from armtriage.kernels.order import kth_largest, top_first
from armtriage.kernels.random import uniform
from armtriage.kernels.record import Record
from armtriage.policies.elimination import sets as triage
from armtriage.policies.elimination.sets import ACTIVE
from armtriage.policies.facts import within
from armtriage.policies.lost import PATIENCE, as_least
from armtriage.policies.prior import as_coins, believed, fitted, next_fit
from armtriage.policies.sampler import BELOW, STALE, draw, follow, gain, luck_needed, mean_of, posterior

__all__ = ["Sampler", "believe_of", "forget", "learn", "new_sampler", "propose", "rebuild_sampler", "refit"]

_NEVER = 2.0


class Sampler(Record):
    """Posteriors, incumbents and the luck that an arm needs to be a candidate."""

    facts = ("wins", "between", "prior_wins", "prior_losses", "next_fit")
    wins: NDArray[np.float64]  # (K,) sums of rewards
    between: NDArray[np.float64]  # (K,) and of r (1 - r)
    early: NDArray[np.int64]  # (K,) rewards that were told of decisions still open: the guard has not counted them
    means: NDArray[np.float64]  # (K,) of the posteriors
    out: NDArray[np.float64]  # (K,) luck up to here is no candidate
    skipped: NDArray[np.uint8]  # rewards since `out` was computed
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
    fractional: int  # whether any reward was neither 0 nor 1
    next_fit: int  # the round in which the prior is fitted anew
    level: float  # of candidates
    centre: float  # of the least value chosen
    spread: float  # its usual distance from there
    waste: float  # draws that a low level has cost
    least_mean: float  # of the incumbents
    best_outside: float  # mean, since they were found
    prior_wins: float
    prior_losses: float


def new_sampler(n_arms: int, budget: int, prior: tuple[float, float]) -> Sampler:
    """Return posteriors of this prior, no incumbents, and a level that rules nobody out."""
    mean = prior[0] / (prior[0] + prior[1])
    return Sampler(
        np.zeros(n_arms),
        np.zeros(n_arms),
        np.zeros(n_arms, np.int64),
        np.full(n_arms, mean),
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
        fractional=0,
        next_fit=1,
        level=0.0,
        centre=1.0,
        spread=0.0,
        waste=0.0,
        least_mean=mean,
        best_outside=mean,
        prior_wins=prior[0],
        prior_losses=prior[1],
    )


def rebuild_sampler(sampler: Sampler, sets: triage.State, early: NDArray[np.int64]) -> None:
    """Check what was loaded; the incumbents are found anew before the next decision."""
    sampler.early[:] = early
    counts = sets.counts[: sampler.wins.size] + early
    within("wins", sampler.wins, 0.0, counts)
    within("between", sampler.between, 0.0, counts / 4.0)
    within("next_fit", sampler.next_fit, 0, LONGEST)
    sampler.overdue[:] = sets.missed >= PATIENCE
    sampler.fractional = int(sampler.between.any())
    _find_means(sets, sampler)


@kernel
def _counted(sets: triage.State, sampler: Sampler, arm: int) -> int:
    """Return how many rewards an arm has had, with what lost ones count for."""
    return sets.counts[arm] + sampler.early[arm] + as_least(sets.missed[arm])  # type: ignore[no-any-return]


@kernel
def _posterior(sets: triage.State, sampler: Sampler, arm: int) -> tuple[float, float, float]:
    wins = sampler.wins[arm]
    losses = _counted(sets, sampler, arm) - wins
    weak = sampler.fractional > 0 and sampler.next_fit > 1  # once the prior has been fitted
    return believed(wins, losses, sampler.between[arm], sampler.prior_wins, sampler.prior_losses, weak)


@kernel
def _find_mean(sets: triage.State, sampler: Sampler, arm: int) -> None:
    least, a, b = _posterior(sets, sampler, arm)
    sampler.means[arm] = mean_of(least, a, b)


@kernel
def _find_means(sets: triage.State, sampler: Sampler) -> None:
    for arm in range(sampler.means.size):
        _find_mean(sets, sampler, arm)


@kernel
def refit(sets: triage.State, sampler: Sampler, number: int) -> None:
    """Fit the prior to all arms; means, incumbents and what luck is needed follow."""
    n = sampler.wins.size
    counts, wins = np.empty(n), np.empty(n)
    for arm in range(n):
        own = sampler.wins[arm]
        counts[arm], wins[arm] = as_coins(own, _counted(sets, sampler, arm) - own, sampler.between[arm])
    sampler.prior_wins, sampler.prior_losses = fitted(counts, wins, n, sampler.prior_wins, sampler.prior_losses)
    sampler.next_fit = next_fit(number)
    _renew(sets, sampler)


@kernel
def _renew(sets: triage.State, sampler: Sampler) -> None:
    """Let all that follows from the prior follow."""
    sampler.decided = -1
    _find_means(sets, sampler)
    _set_level(sets, sampler, sampler.level)


@kernel
def forget(sets: triage.State, sampler: Sampler, arms: NDArray[np.int64]) -> None:
    """Note that rewards of these arms will not come; the guard has counted them."""
    for i in range(arms.size):
        arm = arms[i]
        if sets.missed[arm] >= PATIENCE:
            _find_mean(sets, sampler, arm)
            sampler.overdue[arm] = 1
            if sampler.out[arm] < _NEVER:
                _cut(sets, sampler, arm)


@kernel
def _cut(sets: triage.State, sampler: Sampler, arm: int) -> None:
    """Compute the luck that takes an arm's draw to the level."""
    sampler.skipped[arm] = 0
    least, a, b = _posterior(sets, sampler, arm)
    sampler.out[arm] = luck_needed(sampler.level, least, a, b)


@kernel
def learn(
    sets: triage.State,
    sampler: Sampler,
    luck: np.uint64,
    seen: NDArray[np.int64],
    rewards: NDArray[np.float64],
    n: int,
    coin: bool,
) -> None:
    """Add the rewards of the first n arms of `seen`, whose counts are up to date."""
    best, best_arm = sampler.best_outside, sampler.best_arm
    coins = sampler.fractional == 0
    for i in range(n):
        arm = seen[i]
        reward = gain(coin, luck, arm, rewards[i])
        sampler.wins[arm] += reward
        between = reward * (1.0 - reward)
        if between > 0.0:
            sampler.between[arm] += between
            sampler.fractional = 1
        losses = sets.counts[arm] + sampler.early[arm] - sampler.wins[arm]
        least, a, b = posterior(
            sampler.wins[arm], losses, sampler.between[arm], sampler.prior_wins, sampler.prior_losses
        )
        mean = mean_of(least, a, b)
        sampler.means[arm] = mean
        ahead = mean > best or (mean == best and arm < best_arm)
        if ahead and sampler.inside[arm] == 0 and sets.status[arm] == ACTIVE:
            best, best_arm = mean, arm
        if sampler.out[arm] < _NEVER:
            # A loss lowers the draw: the old bound stays safe for a while, and so does one of nothing after a win. What
            # lies between may raise it as well.
            sampler.skipped[arm] += 1
            raised = reward > 0.0 or sampler.between[arm] > 0.0
            if (raised and sampler.out[arm] > 0.0) or sampler.skipped[arm] > STALE or sampler.overdue[arm] > 0:
                _cut(sets, sampler, arm)
        sampler.overdue[arm] = 0
    sampler.best_outside, sampler.best_arm = best, best_arm
    if coins and sampler.fractional > 0:
        _renew(sets, sampler)


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
def _value(sets: triage.State, sampler: Sampler, arm: int, u: float) -> float:
    """Return an arm's draw with this luck."""
    least, a, b = _posterior(sets, sampler, arm)
    return draw(u, least, a, b)


@kernel
def _draw(sets: triage.State, sampler: Sampler, luck: np.uint64, free_look: bool, share: float) -> int:
    """List the values above the level, and those of the incumbents; return how many."""
    n, idle, best = 0, 1.0 - share, -1.0
    for i in range(sets.n_active):
        arm = sets.active[i]
        u = uniform(luck, arm)
        # Of all luck the part above `idle` is that of a draw: at least as much of it is needed as `out` says.
        if u > idle + share * sampler.out[arm] and u > idle:
            sampler.values[n] = _value(sets, sampler, arm, (u - idle) / share)
            best = max(best, sampler.values[n])
            sampler.chosen[n] = arm
            n += 1
    if free_look:
        for i in range(sampler.size):
            arm = sampler.incumbents[i]
            value = sampler.means[arm]
            if sampler.fractional > 0 and value < best:
                value = max(value, _value(sets, sampler, arm, uniform(luck, arm)))
            sampler.values[n] = value
            sampler.chosen[n] = arm
            n += 1
    return n


@kernel
def _take(
    sets: triage.State, sampler: Sampler, luck: np.uint64, free_look: bool, share: float, arms: NDArray[np.int64]
) -> None:
    """Fill `arms` with the confirmed arms and the largest values."""
    confirmed, k = sets.n_confirmed, sampler.size
    n = _draw(sets, sampler, luck, free_look, share)
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
        n = _draw(sets, sampler, luck, free_look, share)
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
    sets: triage.State,
    sampler: Sampler,
    graph: GraphArrays,
    luck: np.uint64,
    free_look: bool,
    share: float,
    arms: NDArray[np.int64],
) -> None:
    """Fill `arms` with the confirmed arms and the active ones of largest value, all incumbents up to date.

    Only the `share` of the arms that the incumbents do not reveal is drawn.
    """
    least, arm = _least(sampler)
    best = sampler.best_outside
    stale = sampler.means.size - sets.n_active != sampler.decided
    if stale or best > least or (best == least and sampler.best_arm < arm):
        _rank(sets, sampler, graph, free_look)
        least, arm = _least(sampler)
    sampler.least_mean = least
    _take(sets, sampler, luck, free_look, share, arms)


@kernel
def believe_of(
    sets: triage.State, sampler: Sampler, luck: np.uint64, arms: NDArray[np.int64], beliefs: NDArray[np.float64]
) -> None:
    """Write what draws of these arms follow from: luck and posteriors."""
    for i in range(arms.size):
        beliefs[0, i] = uniform(luck, arms[i])
        beliefs[1, i], beliefs[2, i], beliefs[3, i] = _posterior(sets, sampler, arms[i])
