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
from armtriage.kernels.jit import inlined, kernel
from armtriage.kernels.order import kth_largest, top_first
from armtriage.kernels.random import uniform
from armtriage.kernels.record import Floats, Ints, Record, blank
from armtriage.policies.beliefs import (
    BELOW,
    STALE,
    as_coins,
    believed,
    draw,
    fitted,
    follow,
    gain,
    luck_needed,
    mean_of,
    next_fit,
)
from armtriage.policies.elimination.sets import ACTIVE
from armtriage.policies.evidence import PATIENCE, TOLD, Evidence, losses_of, wins_of
from armtriage.policies.facts import within
from armtriage.policies.guard.account import Book
from armtriage.policies.request import ALL, Request, luck_of
from armtriage.policies.views import Scratch, View, largest


class Sampler(Record):
    """Means of posteriors, incumbents, and the luck that an arm needs to be a candidate.

    All of it follows from the evidence but for the prior, which is fitted now and then.
    """

    facts = ("prior_wins", "prior_losses", "next_fit")
    means: Floats  # (K,) of the posteriors
    out: Floats  # (K,) luck up to here takes no draw to the level; -1 if unknown
    skipped: NDArray[np.uint8]  # (K,) rewards since `out` was computed
    incumbents: Ints  # (S,) of all arms: the `size` open ones among them, then the confirmed ones
    inside: NDArray[np.uint8]  # (K,) whether an arm is one of the former
    looked: Ints  # (K,) `mark` if those reveal the arm
    pool: Ints  # (K,) the open arms that they do not reveal, ascending
    glanced: Ints  # (K,) `stamp` if the incumbents of this round's candidates reveal the arm
    others: Ints  # (K,) scratch: the same as `pool` for those
    shown: Ints  # (K,) scratch
    lucky: Ints  # (K,) scratch
    drawn: Floats  # (S,) values of the open arms last proposed, in their order
    values: Floats  # (K + S,) scratch
    chosen: Ints  # (K + S,) scratch
    mark: int
    stamp: int
    size: int
    n_pool: int
    decided: int  # arms decided when the incumbents were found; -1 if they must be found again, -2 if means, too
    best_arm: int  # outside the incumbents
    fractional: int  # whether any reward was neither 0 nor 1
    next_fit: int  # the round in which the prior is fitted again
    level: float  # of candidates
    centre: float  # of the least value chosen
    spread: float  # its usual distance from there
    waste: float  # draws that a low level has cost
    least_mean: float  # of the incumbents
    best_outside: float  # mean, since they were found
    prior_wins: float
    prior_losses: float


def new_sampler(n_arms: int, budget: int, prior: tuple[float, float], *, found: bool = True) -> Sampler:
    """Return posteriors of this prior, no incumbents, and a level that rules no arm out.

    If all arms are not alike, their means are not `found` yet, but in the first round.
    """
    mean = prior[0] / (prior[0] + prior[1])
    start = {"mark": 1, "stamp": 1, "next_fit": 1, "centre": 1.0, "least_mean": mean, "best_outside": mean}
    return blank(
        Sampler,
        n_arms,
        means=np.full(n_arms, mean),
        incumbents=np.zeros(budget, np.int64),
        drawn=np.zeros(budget),
        values=np.zeros(n_arms + budget),
        chosen=np.zeros(n_arms + budget, np.int64),
        decided=-1 if found else -2,
        prior_wins=prior[0],
        prior_losses=prior[1],
        **start,
    )


def check_sampler(sampler: Sampler) -> None:
    """Check what was loaded; means are found in the next round."""
    within("next_fit", sampler.next_fit, 0, LONGEST)
    sampler.decided = -2


def renewed_sampler(old: Sampler, n_arms: int, budget: int) -> Sampler:
    """Return posteriors of the same prior for other arms, whose means are found in the next round."""
    sampler = new_sampler(n_arms, budget, (old.prior_wins, old.prior_losses))
    sampler.next_fit, sampler.decided = old.next_fit, -2
    return sampler


@kernel
@inlined
def posterior_of(evidence: Evidence, sampler: Sampler, arm: int) -> tuple[float, float, float]:
    """Return what is believed of an arm, as `policies.beliefs.posterior` does."""
    weak = sampler.fractional > 0 and sampler.next_fit > 1  # once the prior has been fitted
    wins, losses = wins_of(evidence, arm), losses_of(evidence, arm)
    return believed(wins, losses, evidence.doubts[arm], sampler.prior_wins, sampler.prior_losses, weak)


@kernel
@inlined
def _find_mean(evidence: Evidence, sampler: Sampler, arm: int) -> None:
    least, a, b = posterior_of(evidence, sampler, arm)
    sampler.means[arm] = mean_of(least, a, b)


@kernel
def find_means(evidence: Evidence, sampler: Sampler) -> None:
    """Let all that follows from the evidence and the prior follow."""
    for arm in range(evidence.n_arms):
        if evidence.doubts[arm] > 0.0:
            sampler.fractional = 1
    for arm in range(evidence.n_arms):
        _find_mean(evidence, sampler, arm)
    sampler.decided = -1
    _set_level(evidence, sampler, sampler.level)


@kernel
def refit(evidence: Evidence, sampler: Sampler, number: int) -> None:
    """Fit the prior to all arms, retired ones included: they tell as much of what arms are like."""
    n = evidence.n_arms
    counts, wins = np.empty(n), np.empty(n)
    for arm in range(n):
        counts[arm], wins[arm] = as_coins(wins_of(evidence, arm), losses_of(evidence, arm), evidence.doubts[arm])
    sampler.prior_wins, sampler.prior_losses = fitted(counts, wins, n, sampler.prior_wins, sampler.prior_losses)
    sampler.next_fit = next_fit(number)
    find_means(evidence, sampler)


@kernel
def _cut(evidence: Evidence, sampler: Sampler, arm: int) -> None:
    """Compute the luck that takes an arm's draw to the level."""
    # The next reward of an arm, of which many were lost in a row, takes their weight off the arm.
    sampler.skipped[arm] = STALE if evidence.missed[arm] >= PATIENCE else 0
    least, a, b = posterior_of(evidence, sampler, arm)
    sampler.out[arm] = max(0.0, luck_needed(sampler.level, least, a, b))


@kernel
def learn(
    evidence: Evidence, sampler: Sampler, book: Book, request: Request, seen: Ints, rewards: Floats, event: int
) -> None:
    """Bring means and bounds in line with the evidence of the arms `seen`."""
    best, best_arm = sampler.best_outside, sampler.best_arm
    coins = sampler.fractional == 0
    means, out, skipped, inside, doubts = sampler.means, sampler.out, sampler.skipped, sampler.inside, evidence.doubts
    for i in range(seen.size):
        arm = seen[i]
        if doubts[arm] > 0.0:
            sampler.fractional = 1
        _find_mean(evidence, sampler, arm)
        mean = means[arm]
        ahead = mean > best or (mean == best and arm < best_arm)
        if ahead and inside[arm] == 0 and book.status[arm] == ACTIVE:
            best, best_arm = mean, arm
        if event == TOLD and out[arm] >= 0.0:
            # A loss lowers the draw: the old bound stays safe for a while, and so does one of nothing after a win. What
            # lies between, or a first reward, which ends what is believed of unseen arms, may raise it as well.
            skipped[arm] += 1
            raised = doubts[arm] > 0.0 or gain(evidence.coin > 0, luck_of(request), arm, rewards[i]) > 0.0
            raised = raised or evidence.counts[arm] <= 1
            if (raised and out[arm] > 0.0) or skipped[arm] > STALE:
                _cut(evidence, sampler, arm)
        elif event != TOLD:
            out[arm] = -1.0
    sampler.best_outside, sampler.best_arm = best, best_arm
    if coins and sampler.fractional > 0:
        find_means(evidence, sampler)


@kernel
def _rank_again(
    evidence: Evidence, sampler: Sampler, book: Book, graph: GraphArrays, free_look: bool, size: int
) -> None:
    """Find the incumbents among all arms, and who is drawn beside them."""
    view = book.everyone
    n, confirmed, k = view.n_open, view.n_confirmed, size - view.n_confirmed
    for i in range(n):
        sampler.chosen[i] = view.open[i]
        sampler.values[i] = sampler.means[view.open[i]]
    top_first(sampler.values, sampler.chosen, n, k)
    same = evidence.n_arms - n == sampler.decided
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
        sampler.incumbents[k + i] = view.confirmed[i]
    sampler.size = k
    sampler.decided = evidence.n_arms - n
    sampler.mark += 1
    reveal(graph, sampler.incumbents, sampler.looked, sampler.mark, sampler.shown)
    m = 0
    for i in range(n):
        sampler.pool[m] = view.open[i]
        m += (not free_look) or sampler.looked[view.open[i]] != sampler.mark
    sampler.n_pool = m


@kernel
def _set_level(evidence: Evidence, sampler: Sampler, level: float) -> None:
    sampler.level = min(max(level, 0.0), 1.0)
    sampler.waste = 0.0
    for arm in range(evidence.n_arms):
        sampler.out[arm] = -1.0


@kernel
def _value(evidence: Evidence, sampler: Sampler, arm: int, u: float) -> float:
    """Return an arm's draw with this luck."""
    least, a, b = posterior_of(evidence, sampler, arm)
    return draw(u, least, a, b)


@kernel
def _list_values(
    evidence: Evidence, sampler: Sampler, luck: np.uint64, pool: Ints, incumbents: Ints, share: float, every: bool
) -> int:
    """List draws of a pool, all or those that may reach the level, and the incumbents' means; return how many.

    Of the pool only the `share` is drawn.
    """
    n, idle, best = 0, 1.0 - share, -1.0
    # Of all luck the part above `idle` is that of a draw: at least as much of it is needed as `out` says. Few arms
    # have that much, and no branch on it could be predicted.
    out, lucky, m = sampler.out, sampler.lucky, 0
    for i in range(pool.size):
        lucky[m] = pool[i]
        m += every or uniform(luck, pool[i]) > idle + share * out[pool[i]]
    for i in range(m):
        arm = lucky[i]
        u = uniform(luck, arm)
        if u > idle:
            if not every and out[arm] < 0.0:
                _cut(evidence, sampler, arm)
                if u <= idle + share * out[arm]:
                    continue
            sampler.values[n] = _value(evidence, sampler, arm, (u - idle) / share)
            best = max(best, sampler.values[n])
            sampler.chosen[n] = arm
            n += 1
    for i in range(incumbents.size):
        arm = incumbents[i]
        value = sampler.means[arm]
        if sampler.fractional > 0 and value < best:
            value = max(value, _value(evidence, sampler, arm, uniform(luck, arm)))
        sampler.values[n], sampler.chosen[n] = value, arm
        n += 1
    return n


@kernel
def _take_top(sampler: Sampler, n: int, k: int) -> float:
    """Put the k largest of n values first, and return the least of those."""
    top_first(sampler.values, sampler.chosen, n, k)
    least = np.inf
    for i in range(k):
        least = min(least, sampler.values[i])
    return least


@kernel
def _take(
    evidence: Evidence, sampler: Sampler, luck: np.uint64, pool: Ints, incumbents: Ints, share: float, arms: Ints
) -> None:
    """Fill `arms` with the arms of largest value; few of them are really drawn: see `policies.beliefs`."""
    k = arms.size
    n = _list_values(evidence, sampler, luck, pool, incumbents, share, False)
    least = -np.inf
    if n >= k:
        least = _take_top(sampler, n, k)
    if least < sampler.level:
        # An arm below the level may belong here: draw them all, and lower the level.
        n = _list_values(evidence, sampler, luck, pool, incumbents, share, True)
        least = _take_top(sampler, n, k)
        near = kth_largest(sampler.values[:n].copy(), n, min(n, 2 * k + 8))
        sampler.centre = least
        sampler.spread = max(1.5 * sampler.spread, 0.5 * (least - near), 1e-3)
        _set_level(evidence, sampler, sampler.centre - BELOW * sampler.spread)
    for i in range(k):
        arms[i] = sampler.chosen[i]
        sampler.drawn[i] = sampler.values[i]
    follow(sampler, least)
    # A new level costs a bound for each arm, a low one a draw for each candidate: pay the former for the latter.
    sampler.waste += n
    if sampler.waste > 4.0 * pool.size and n > 2 * k:
        if n > 2 * k + 8:
            near = kth_largest(sampler.values, n, 2 * k + 8)
            sampler.spread = min(sampler.spread, max(0.25 * (sampler.centre - near), 1e-9))
        _set_level(evidence, sampler, sampler.centre - BELOW * sampler.spread)


@kernel
def _least(sampler: Sampler) -> tuple[float, int]:
    """Return the least mean of the open incumbents, and the last arm that has it."""
    least, arm = np.inf, -1
    for i in range(sampler.size):
        other = sampler.incumbents[i]
        mean = sampler.means[other]
        if mean < least or (mean == least and other > arm):
            least, arm = mean, other
    return least, arm


@kernel
def rank_all(evidence: Evidence, sampler: Sampler, book: Book, graph: GraphArrays, free_look: bool, size: int) -> None:
    """Find the incumbents among all arms, where those of before are usually still those of today."""
    least, arm = _least(sampler)
    best = sampler.best_outside
    stale = evidence.n_arms - book.everyone.n_open != sampler.decided
    if stale or best > least or (best == least and sampler.best_arm < arm):
        _rank_again(evidence, sampler, book, graph, free_look, size)
        least, arm = _least(sampler)
    sampler.least_mean = least


@kernel
def rank_some(sampler: Sampler, scratch: Scratch, view: View, graph: GraphArrays, arms: Ints) -> int:
    """Fill `arms` behind the confirmed ones with the incumbents among the candidates of this round.

    Return how many open arms they do not reveal, which are the first of `others`.
    """
    confirmed, n = view.n_confirmed, view.n_open
    view.mean_level = largest(scratch, sampler.means, view.open[:n], arms.size - confirmed, view.mean_level)
    for i in range(confirmed, arms.size):
        arms[i] = scratch.best[i - confirmed]
    sampler.stamp += 1
    reveal(graph, arms, sampler.glanced, sampler.stamp, sampler.shown)
    m = 0
    for i in range(n):
        sampler.others[m] = view.open[i]
        m += sampler.glanced[view.open[i]] != sampler.stamp
    return m


@kernel
def _propose_of_all(
    evidence: Evidence,
    sampler: Sampler,
    book: Book,
    graph: GraphArrays,
    luck: np.uint64,
    free_look: bool,
    share: float,
    arms: Ints,
) -> None:
    """Fill `arms` behind the confirmed ones, among all arms."""
    rank_all(evidence, sampler, book, graph, free_look, arms.size)
    incumbents = sampler.incumbents[: sampler.size if free_look else 0]
    free = arms[book.everyone.n_confirmed :]
    _take(evidence, sampler, luck, sampler.pool[: sampler.n_pool], incumbents, share, free)


@kernel
def _propose_of_some(
    evidence: Evidence,
    sampler: Sampler,
    scratch: Scratch,
    view: View,
    graph: GraphArrays,
    luck: np.uint64,
    free_look: bool,
    share: float,
    arms: Ints,
) -> None:
    """Fill `arms` behind the confirmed ones, among the candidates of this round."""
    confirmed, n = view.n_confirmed, view.n_open
    if not free_look:
        _take(evidence, sampler, luck, view.open[:n], arms[:0], share, arms[confirmed:])
        return
    m = rank_some(sampler, scratch, view, graph, arms)
    incumbents = arms[confirmed:].copy()
    _take(evidence, sampler, luck, sampler.others[:m], incumbents, share, arms[confirmed:])


@kernel
def propose(
    evidence: Evidence,
    sampler: Sampler,
    book: Book,
    request: Request,
    view: View,
    graph: GraphArrays,
    free_look: bool,
    share: float,
    arms: Ints,
) -> None:
    """Fill `arms`, whose first are the confirmed ones, with the open arms of largest value.

    Only the `share` of the arms that the incumbents do not reveal is drawn.
    """
    if sampler.decided < -1:
        find_means(evidence, sampler)
    if request.epoch == ALL:
        _propose_of_all(evidence, sampler, book, graph, luck_of(request), free_look, share, arms)
    else:
        _propose_of_some(evidence, sampler, book.scratch, view, graph, luck_of(request), free_look, share, arms)


@kernel
def believe_of(evidence: Evidence, sampler: Sampler, request: Request) -> None:
    """Write what draws of the arms chosen follow from: luck and posteriors."""
    beliefs = request.beliefs
    for i in range(request.size):
        arm = request.arms[i]
        beliefs[0, i] = uniform(luck_of(request), arm)
        beliefs[1, i], beliefs[2, i], beliefs[3, i] = posterior_of(evidence, sampler, arm)
