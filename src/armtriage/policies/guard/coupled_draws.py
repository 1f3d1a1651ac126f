"""Coupled draws: Thompson sampling over a decision set whose arms are lucky together as far as they have to be.

With independent draws the sum over a long decision concentrates: one that looked bad early is hardly ever drawn as the
best again, and where arms share their luck in the world all draws are too timid. With one seed for all arms neither
happens, but long decisions of independent arms are explored too much. So the draws of a round share a part, upwards
only: all of it for arms that were never seen, and else as much as exchanges are small, or arms are seen to share luck,
up to a half.
In half of the rounds the incumbent is played, the best decision by posterior means, which is renewed only sometimes.

Where the prior is learned, so is the noise of rewards: they count for as many coins as say as much of a mean.
"""

from __future__ import annotations

import math

import numpy as np
from numpy.typing import NDArray

from armtriage._arguments import LONGEST
from armtriage.decisions import DecisionSet
from armtriage.graphs.feedback import FeedbackGraph, GraphArrays, reveal
from armtriage.kernels.beta import beta_near
from armtriage.kernels.jit import kernel
from armtriage.kernels.normal import normal
from armtriage.kernels.random import uniform
from armtriage.kernels.record import Floats, Ints, Record, blank, fact
from armtriage.policies.beliefs import LARGEST, LEAST_NOISE, fitted_around, gain, mean_of, next_fit, noise_of, posterior
from armtriage.policies.evidence import as_least
from armtriage.policies.facts import check_facts, within
from armtriage.policies.guard.decision_account import (
    ADMIT,
    ASK_BEST,
    ASK_EACH,
    ASK_WITH,
    DONE,
    DecisionBook,
    DecisionParams,
    Query,
    check_decision,
    copy_arms,
)

PROPOSE, RENEWED, VALUED, DRAWN, LOOKED = range(5)

_SHARE = 64  # an incumbent is at most a 64th of all rounds old, and at most 64 rounds
_MEMORY = 32.0  # exchanges that the usual size of one looks back on
_KNOWN = 4  # rewards up to which an arm's mean says nothing of its luck
# One luck for all lifts the incumbent as well, so an arm with bad luck behind it is hardly tried again: without this
# limit the worst of 24 to 32 runs on slates, bags and shared luck lost 1.2 to 2.7 times as much, and the mean no less.
_MOST = 0.5  # of the luck of an arm that was seen
# Arms of a decision that share their luck look alike, and a prior that was fitted to few of them is too sure: with this
# limit disjoint decisions of 8 coins with one luck lost 0.7 times as much, and networks of quiet costs the same.
# For coins it is smaller, as what it says of them is worth less: with 4, two long decisions lost half as much again.
_FIRM, _FIRM_OF_COINS = 4.0, 2.0  # rewards of the usual noise that a learned prior counts for, at most
_CHEAP = 1e-9  # what a look costs at least, so that it can be divided by


class Draws(Record):
    """Posteriors, the incumbent, what is known of shared luck, and the looks that wait."""

    wins: Floats = fact(0.0, "counts")  # (K,) sums of rewards, or of what a coin made of them
    incumbent: Ints = fact()  # (S,)
    owed: Floats = fact(0.0)  # (K,) what waiting for looks at an arm has saved
    prices: Floats = fact(None, math.inf)  # (K,) what the best decision with an arm loses against the incumbent
    inside: NDArray[np.uint8]  # (K,) whether the incumbent has the arm
    looked: NDArray[np.uint8]  # (K,) whether it reveals the arm
    stamps: Ints  # (K,) scratch
    shown: Ints  # (K,) scratch
    n_incumbent: int = fact(-1, "size")  # -1 for none
    made: int = fact(0, "asked")  # the round in which it was found
    compared: int = fact(0, "longest")  # decisions whose rewards told something of shared luck
    shared: int = fact(0, "asked")  # decisions for what an arm of them reveals
    questions: int = fact(0, "longest")
    mark: int
    next_fit: int = fact(0, "longest")  # the round in which the prior is fitted again
    exchange: float = fact(1.0, "arms")  # usual number of arms that a draw has and the incumbent has not, from 1
    together: float = fact()  # sum over pairs of arms of products of deviations from their means
    alike: float = fact(0.0)  # what it would be with one luck for all
    coupling: float = fact(0.0, 1.0)  # how much luck arms share
    prior_wins: float = fact()
    prior_losses: float = fact()
    noise: float = fact(LEAST_NOISE, 1.0)  # variance of rewards over that of coins; 1 where it is not learned


def new_draws(n_arms: int, size: int, prior: tuple[float, float]) -> Draws:
    """Return posteriors of this prior and no incumbent."""
    start = {"n_incumbent": -1, "next_fit": 1, "exchange": 1.0, "noise": 1.0}
    incumbent = np.zeros(size, np.int64)
    return blank(Draws, n_arms, incumbent=incumbent, prior_wins=prior[0], prior_losses=prior[1], **start)


def check_draws(
    params: DecisionParams, draws: Draws, counts: Ints, decisions: DecisionSet, graph: FeedbackGraph, asked: int
) -> None:
    """Check the facts of draws that were loaded, and compute what follows."""
    known = {"arms": decisions.n_arms, "asked": asked, "counts": counts, "longest": LONGEST, "size": decisions.size}
    check_facts(draws, known)
    check_decision("incumbent", draws.incumbent, int(draws.n_incumbent), decisions)
    for value, start in ((draws.prior_wins, params.prior_wins), (draws.prior_losses, params.prior_losses)):
        fits = params.learned and not params.stated
        within("the prior", value, *((1.0, LARGEST) if fits else (start, start)))
    if draws.n_incumbent >= 0:
        settle_in(draws, graph.arrays)


@kernel
def settle_in(draws: Draws, graph: GraphArrays) -> None:
    """Note which arms the incumbent has, and reveals."""
    arms = draws.incumbent[: draws.n_incumbent]
    draws.inside[:] = 0
    draws.looked[:] = 0
    draws.mark += 1
    n = reveal(graph, arms, draws.stamps, draws.mark, draws.shown)
    for i in range(n):
        draws.looked[draws.shown[i]] = 1
    for i in range(arms.size):
        draws.inside[arms[i]] = 1


@kernel
def _counted(book: DecisionBook, arm: int) -> int:
    """Return how many rewards an arm has had, with what lost ones count for."""
    return book.counts[arm] + as_least(book.missed[arm])  # type: ignore[no-any-return]


@kernel
def _prior(params: DecisionParams, draws: Draws, arm: int) -> tuple[float, float]:
    """Return the Beta law of an arm that was never seen."""
    if params.likely.size == 0:
        return draws.prior_wins, draws.prior_losses
    return max(1.0, draws.prior_wins * params.likely[0, arm]), max(1.0, draws.prior_losses * params.likely[1, arm])


@kernel
def _evidence(params: DecisionParams, book: DecisionBook, draws: Draws, arm: int) -> tuple[float, float, float]:
    """Return what an arm has won and lost, and the part of it that no coin would."""
    wins, between = draws.wins[arm], 0.0 if params.coin else book.between[arm]
    return wins, _counted(book, arm) - wins, between


@kernel
def _posterior(params: DecisionParams, book: DecisionBook, draws: Draws, arm: int) -> tuple[float, float, float]:
    wins, losses, between = _evidence(params, book, draws, arm)
    a, b = _prior(params, draws, arm)
    if params.learned:
        weight = 1.0 / noise_of(wins, losses, between, draws.noise)
        return 0.0, a + weight * wins, b + weight * losses
    return posterior(wins, losses, between, a, b)


@kernel
def _refit(params: DecisionParams, book: DecisionBook, draws: Draws, number: int) -> None:
    """Find the usual noise, and the prior that fits all arms that were seen."""
    n = params.n_arms
    counts, won = np.empty(n), np.empty(n)
    own, coins = 0.0, 0.0
    for a in range(n):
        wins, losses, between = _evidence(params, book, draws, a)
        if wins + losses > 1.0:
            coin = wins * losses / (wins + losses)
            own += max(coin - between, 0.0)
            coins += coin * (1.0 - 1.0 / (wins + losses))
    if coins > 0.0:
        draws.noise = min(1.0, max(own / coins, LEAST_NOISE))
    draws.next_fit = next_fit(number)
    if params.stated:
        return
    for a in range(n):
        wins, losses, between = _evidence(params, book, draws, a)
        weight = 1.0 / noise_of(wins, losses, between, draws.noise)
        counts[a], won[a] = weight * (wins + losses), weight * wins
    more, less = fitted_around(counts, won, params.likely, n, draws.prior_wins, draws.prior_losses, params.even)
    if params.likely.size == 0:
        coins_only = draws.noise >= 1.0
        most = _FIRM_OF_COINS if coins_only else _FIRM / draws.noise
        part = min(1.0, most / max(more + less - 2.0, _CHEAP))
        more, less = 1.0 + part * (more - 1.0), 1.0 + part * (less - 1.0)
        if coins_only:
            # For coins, whole parameters are drawn several times as fast.
            more, less = math.floor(more + 0.5), math.floor(less + 0.5)
    draws.prior_wins, draws.prior_losses = more, less


@kernel
def _mean(params: DecisionParams, book: DecisionBook, draws: Draws, arm: int) -> float:
    """Return an arm's posterior mean, counted from a reward of 0."""
    least, a, b = _posterior(params, book, draws, arm)
    return mean_of(least, a, b) + params.offset


@kernel
def _worth(params: DecisionParams, book: DecisionBook, draws: Draws, arms: Ints, n: int) -> float:
    """Return the posterior mean of a decision."""
    total = 0.0
    for i in range(n):
        total += _mean(params, book, draws, arms[i])
    return total


@kernel
def _weigh_means(params: DecisionParams, book: DecisionBook, draws: Draws, weights: Floats) -> None:
    for a in range(weights.size):
        weights[a] = _mean(params, book, draws, a)


@kernel
def _draw(params: DecisionParams, book: DecisionBook, draws: Draws, luck: np.uint64, weights: Floats) -> None:
    """Draw every arm; those that the incumbent reveals anyway may enter with their means."""
    n = weights.size
    common = abs(normal(luck, n))
    least = min(_MOST, max(draws.coupling, 1.0 / draws.exchange**2))
    # Most arms share the least part: its roots are taken once.
    least_common, least_own = math.sqrt(least) * common, math.sqrt(1.0 - least)
    if draws.noise < 1.0 and draws.coupling > least:
        # Posteriors of quiet rewards are so narrow that half of the common luck brings no unlucky decision back.
        least_common = math.sqrt(draws.coupling) * common
    looks = params.free_look and draws.n_incumbent >= 0
    alike = params.likely.size == 0
    unseen = beta_near(common, draws.prior_wins, draws.prior_losses) + params.offset if alike else 0.0
    for a in range(n):
        if looks and draws.looked[a]:
            weights[a] = _mean(params, book, draws, a)
            continue
        count = _counted(book, a)
        if count == 0:
            if not alike:
                wins, losses = _prior(params, draws, a)
                unseen = beta_near(common, wins, losses) + params.offset
            weights[a] = unseen  # all of its luck is common
            continue
        share, z = 1.0 / (1.0 + count), normal(luck, a)
        if share <= least:
            z = least_common + least_own * z
        else:
            z = math.sqrt(share) * common + math.sqrt(1.0 - share) * z
        low, wins, losses = _posterior(params, book, draws, a)
        weights[a] = low + (1.0 - low) * beta_near(z, wins, losses) + params.offset


@kernel
def _keep_incumbent(draws: Draws, graph: GraphArrays, arms: Ints, n: int) -> None:
    """Make a decision the incumbent."""
    copy_arms(arms, n, draws.incumbent)
    draws.n_incumbent = n
    settle_in(draws, graph)


@kernel
def _choose(query: Query, arms: Ints, n: int) -> int:
    """Propose a decision."""
    copy_arms(arms, n, query.chosen)
    query.n_chosen = n
    query.stage = ADMIT
    return DONE


@kernel
def _compare(draws: Draws, query: Query) -> None:
    """Note in how many arms a draw differs from the incumbent."""
    if draws.n_incumbent < 0:
        return
    new = 0
    for i in range(query.n_answer):
        new += draws.inside[query.answer[i]] == 0
    if new > 0:
        draws.exchange = max(1.0, draws.exchange + (new - draws.exchange) / _MEMORY)


@kernel
def _sums(
    draws: Draws, book: DecisionBook, arm: int, known: int, owed: float, price: float
) -> tuple[int, float, float]:
    """Add an arm that a look would show, unless the incumbent shows it or no decision has it."""
    if draws.looked[arm] == 0 and draws.prices[arm] < math.inf:
        return known + (book.counts[arm] > 0), owed + draws.owed[arm], price + draws.prices[arm]
    return known, owed, price


@kernel
def _look(draws: Draws, book: DecisionBook, graph: GraphArrays, arm: int) -> tuple[int, float, float]:
    """Return of the arms that one reveals and the incumbent does not: how many are known, what they owe and cost."""
    known, owed, price = 0, 0.0, 0.0
    for other in range(graph.start[arm], graph.stop[arm]):
        known, owed, price = _sums(draws, book, other, known, owed, price)
    for e in range(graph.indptr[arm], graph.indptr[arm + 1]):
        known, owed, price = _sums(draws, book, graph.indices[e], known, owed, price)
    return known, owed, price


@kernel
def _due(draws: Draws, book: DecisionBook, graph: GraphArrays) -> int:
    """Return the arm whose one look is worth most for what it costs, among those that waiting has paid for, or -1."""
    best, most = -1, 0.0
    for arm in range(book.counts.size):
        if book.counts[arm] == 0 or draws.prices[arm] == math.inf:
            continue
        cost = max(draws.prices[arm], _CHEAP)
        known, owed, price = _look(draws, book, graph, arm)
        if known >= 2 and owed >= cost and price > 2.0 * cost and price / cost > most:
            best, most = arm, price / cost
    return best


@kernel
def _settle_owed(draws: Draws, arm: int, share: float) -> None:
    """Keep a share of what an arm is owed, if the look shows it."""
    if draws.looked[arm] == 0 and draws.prices[arm] < math.inf:
        draws.owed[arm] *= share


@kernel
def _settle_look(draws: Draws, book: DecisionBook, graph: GraphArrays, arm: int) -> None:
    """Take what a look costs from what waiting for it has saved."""
    _, owed, _ = _look(draws, book, graph, arm)
    share = max(0.0, 1.0 - max(draws.prices[arm], _CHEAP) / owed)
    for other in range(graph.start[arm], graph.stop[arm]):
        _settle_owed(draws, other, share)
    for e in range(graph.indptr[arm], graph.indptr[arm + 1]):
        _settle_owed(draws, graph.indices[e], share)


@kernel
def _save_up(params: DecisionParams, book: DecisionBook, draws: Draws, query: Query) -> bool:
    """Note what looks that the draw wants would cost; True if there are some."""
    wanted = 0
    for i in range(query.n_answer):
        wanted += draws.looked[query.answer[i]] == 0
    if draws.n_incumbent < 0 or wanted == 0:
        return False
    ahead = _worth(params, book, draws, draws.incumbent, draws.n_incumbent)
    lost = max(0.0, ahead - _worth(params, book, draws, query.answer, query.n_answer)) / wanted
    for i in range(query.n_answer):
        if draws.looked[query.answer[i]] == 0:
            draws.owed[query.answer[i]] += lost
    return True


@kernel
def propose(
    params: DecisionParams,
    book: DecisionBook,
    draws: Draws,
    query: Query,
    graph: GraphArrays,
    number: int,
    luck: np.uint64,
) -> int:
    """Go on until a proposal stands in `query.chosen`, or a question in `query.weights`; say which."""
    stage, query.include = query.stage, -1
    if stage == PROPOSE:
        if book.n_committed >= 0:
            query.stage = ADMIT
            return DONE
        if params.learned and number >= draws.next_fit:
            _refit(params, book, draws, number)
        mean = uniform(luck, params.n_arms + 1) < 0.5
        age = min((number + 1.0) / _SHARE, float(_SHARE))
        if mean and draws.n_incumbent >= 0 and number - draws.made < age:
            return _choose(query, draws.incumbent, draws.n_incumbent)
        draws.questions += 1
        if mean:
            _weigh_means(params, book, draws, query.weights)
            query.stage = RENEWED
        else:
            _draw(params, book, draws, luck, query.weights)
            query.stage = DRAWN
        return ASK_BEST
    if stage == RENEWED:
        draws.made = number
        _keep_incumbent(draws, graph, query.answer, query.n_answer)
        if params.reveal:
            draws.questions += 1
            query.stage = VALUED
            return ASK_EACH
    elif stage == VALUED:
        best = _worth(params, book, draws, draws.incumbent, draws.n_incumbent)
        for a in range(params.n_arms):
            draws.prices[a] = best - query.values[a]
    if stage in (RENEWED, VALUED):
        return _choose(query, draws.incumbent, draws.n_incumbent)
    if stage == DRAWN:
        _compare(draws, query)
        if params.reveal and _save_up(params, book, draws, query):
            arm = _due(draws, book, graph)
            if arm >= 0:
                _settle_look(draws, book, graph, arm)
                _weigh_means(params, book, draws, query.weights)
                draws.shared += 1
                draws.questions += 1
                query.include, query.stage = arm, LOOKED
                return ASK_WITH
    return _choose(query, query.answer, query.n_answer)


@kernel
def keep_better(params: DecisionParams, book: DecisionBook, draws: Draws, query: Query, graph: GraphArrays) -> None:
    """Make the decision that is about to be played the incumbent, if its posterior mean is larger."""
    if draws.n_incumbent < 0 or book.n_committed >= 0:
        return
    ahead = _worth(params, book, draws, draws.incumbent, draws.n_incumbent)
    if _worth(params, book, draws, query.chosen, query.n_chosen) > ahead:
        _keep_incumbent(draws, graph, query.chosen, query.n_chosen)


@kernel
def learn(
    params: DecisionParams, book: DecisionBook, draws: Draws, luck: np.uint64, seen: Ints, rewards: Floats, n: int
) -> None:
    """Count wins, and compare how far rewards that came together lie from their means; the book has them already."""
    off, squares, spread, variances, known = 0.0, 0.0, 0.0, 0.0, 0
    for i in range(n):
        arm = seen[i]
        draws.wins[arm] += gain(params.coin, luck, arm, rewards[i])
        count = book.counts[arm]
        if count > _KNOWN:
            mean = min(max(book.sums[arm] / count, 0.0), 1.0)
            variance = draws.noise * mean * (1.0 - mean)
            off += rewards[i] - mean
            squares += (rewards[i] - mean) ** 2
            spread += math.sqrt(variance)
            variances += variance
            known += 1
    if known < 2:
        return
    draws.compared += 1
    draws.together += off * off - squares
    draws.alike += max(0.0, spread * spread - variances)
    share = draws.together / max(draws.alike, 1e-9) - 2.0 / math.sqrt(draws.compared)
    draws.coupling = min(1.0, max(0.0, share))
