"""The guard over slates: admit proposals while what they can have lost stays within a budget; otherwise eliminate.

The budget grows by what elimination itself might lose, so that the whole keeps twice its guarantee for any proposals.
Among all arms, the view by which a decision is priced is sorted again only when the intervals of a 32nd of the open
arms have changed and, since that looks at all arms, after some rounds if there are many. Before elimination chooses
there is always a sort. Other candidates are sorted in each round.

With a price, one arm of a proposal makes room for a look at the arm that leaves most of the certificate open. A
certificate charges an arm that was hardly tried with its upper end, in every round. So a look goes where that end is
farthest above the *bar*, the least mean of the best decision by the means, of the arms whose means are behind it. On a
graph the arm of largest mean that shows it is played. It takes the place of the least mean that is not behind the bar:
what is played for other reasons than its mean stays. What looks lose by the means of their time stays within a share of
what decisions seem to have lost without them, and the guard admits a proposal with a look in it like any other.
"""

from __future__ import annotations

import math

import numpy as np
from numpy.typing import NDArray

from armtriage._arguments import LONGEST
from armtriage.graphs.feedback import GraphArrays, reveals
from armtriage.intervals import MIXTURE
from armtriage.kernels.jit import kernel
from armtriage.kernels.order import kth_largest, sort_pairs, top_first
from armtriage.kernels.random import bits
from armtriage.kernels.record import Floats, Ints, Record, blank, fact
from armtriage.policies.elimination.sets import ACTIVE, CONFIRMED, ELIMINATED
from armtriage.policies.evidence import PATIENCE, Evidence, Intervals, new_intervals, refresh, settled_count
from armtriage.policies.facts import check_facts, require, within
from armtriage.policies.request import ALL, Request, list_candidates
from armtriage.policies.views import (
    Scratch,
    View,
    cover_of_open,
    explore,
    fill_by_upper,
    new_scratch,
    new_view,
    price,
    sort_view,
    take_certain,
    take_confirmed,
)

# How lazily the guard looks: each saves time at the price of tighter certificates, never of their truth, since old
# intervals stay valid.
_DUE_SHARE = 32  # a sort waits until the intervals of this fraction of the open arms have changed
_SORT_PAUSE = 16  # and for K / (16 S) rounds, so that it costs some arms a round however many there are; the bar, too
_WIDE = 128  # rewards up to which an interval is computed only for every fourth: it hardly changes for one
_REFUND = 64  # rounds between two looks at what all decisions can have lost by the intervals of today
_NONE = -1
COVERED = 20_000_000
"""Listed edges up to which a cover is counted, each time that arms come, go or are decided."""
_PATTERNS = 2**13  # places for the eligible sets that are counted, of which at most half are filled
_SEED = np.uint64(0x9E3779B97F4A7C15)


class GuardParams(Record, frozen=True):
    """Parameters of the kernels."""

    graph: GraphArrays
    plain: bool  # whether each arm reveals itself only
    shadow: bool
    budget: int
    factor: float
    base: float  # ln(1 / the least share of delta) + ln 2
    price: float  # what looks for the certificate may lose, as a share of what proposals do; 0 if there are none
    start: int  # the round in which the account began


class Ghosts(Record):
    """What arms were that have begun again: their pulls were part of what was lost."""

    facts = ()
    pulls: Ints
    exposures: Ints
    admitted: Ints
    offered: Ints
    lower: Floats
    upper: Floats


class Book(Record):
    """The guard's account, in units of the reward range, and the views by which it prices decisions."""

    admitted: Ints = fact(0, "asked")  # (K,) pulls in admitted proposals
    offered: Ints = fact()  # (K,) rounds of those as a candidate, but for the `offered_rounds` of all arms
    status: NDArray[np.uint8] = fact(ACTIVE, ELIMINATED)  # (K,) among all arms, when those were last sorted
    log_arms: Ints = fact()  # (K,) arms in the order in which they were decided
    log_rounds: Ints = fact()
    ceiling: Ints = fact(0, "last")  # (2 S,) of the view of all arms
    ends: Floats = fact(0.0, 1.0)
    patterns: NDArray[np.uint64]  # hashes of the eligible sets so far
    everyone: View  # of all arms
    some: View  # of the candidates of this round
    scratch: Scratch
    intervals: Intervals
    ghosts: Ghosts
    n_admitted: int = fact(0, "asked")
    offered_rounds: int = fact(0, "asked")
    forced: int = fact(0, "asked")  # rounds of elimination
    layer: int = fact(-1, "longest")  # of elimination that the budget pays for, -1 for none
    layer_size: int = fact(0, "longest")  # pulls in it
    layer_pulls: int = fact(0, "longest")  # of which so many are paid
    resume: int = fact(0, "longest")  # the round before which no refund is sought
    n_logged: int = fact(0, "arms")
    renewed: int = fact(0, "longest")  # intervals that have changed since all arms were sorted
    rest: int = fact(0, "longest")  # the round before which they are not sorted again
    of_all: int = fact(0, 1)  # whether the last decision was one of all arms
    clock: int = fact(0, "asked")  # its round
    wholes: int = fact(0, "asked")  # how many sets of all arms decisions were made among, since arms may be added
    is_new: int = fact(0, 1)  # whether there was none yet among those of today
    n_patterns: int
    cover: int  # pulls that show all arms
    cover_among: int  # and those that are candidates, whichever others are not
    open_cover: int  # pulls of open arms that show all open arms
    covered: int  # whether these are the open arms of today
    inspected: int = fact(0, "asked")  # looks for the certificate
    bar_due: int = fact(0, "longest")  # the round in which the bar is found again
    spent: float = fact(0.0)
    allowed: float = fact(0.0)
    layer_price: float = fact(0.0, 1.0)  # of a pull in the layer
    gap: float = fact(0.0, 1.0)  # at most so large in any set so far
    spread: float = fact(0.0, 1.0)  # of the open arms' intervals, when all arms were last sorted
    total: float = fact(0.0)  # certified loss of all decisions
    forced_cost: float = fact(0.0)  # and of the rounds of elimination among them
    floor: float = fact()  # the shadow budget before requests differed, less what forced rounds have added since
    estimated: float = fact(0.0)  # loss of all decisions, by the means
    inspected_loss: float = fact(0.0)  # of the looks among them, by the means of their time
    bar: float = fact(0.0, 1.0)  # the least mean of the best decision among all arms, by the means


def new_book(evidence: Evidence, budget: int, delta: float, n_first: int, ghosts: Ghosts) -> Book:
    """Return the book before the first round: nothing has been paid for."""
    room, n = evidence.counts.size, int(evidence.n_arms)
    everyone = new_view(room, budget)
    view_size = min(n, 2 * budget)
    everyone.ceiling[:view_size], everyone.ends[:view_size] = np.arange(view_size), 1.0
    everyone.open[:n], everyone.n_open, everyone.n_ceiling = np.arange(n), n, view_size
    return blank(
        Book,
        n,
        ceiling=everyone.ceiling,
        ends=everyone.ends,
        patterns=np.zeros(_PATTERNS, np.uint64),
        everyone=everyone,
        some=new_view(room, budget),
        scratch=new_scratch(room + ghosts.pulls.size),
        intervals=new_intervals(MIXTURE, 0.0, delta, n_first),
        ghosts=ghosts,
        layer=-1,
        of_all=1,
        is_new=1,
        gap=1.0,
        spread=1.0,
    )


def check_book(book: Book, n: int, budget: int, asked: int) -> None:
    """Check the facts of a book that was loaded, and compute what follows."""
    check_facts(book, {"arms": n, "last": n - 1, "asked": asked, "longest": LONGEST})
    within("offered rounds", book.offered + book.offered_rounds, book.admitted, asked)
    size = min(n, 2 * budget)
    require(np.unique(book.ceiling[:size]).size == size, "ceiling must have different arms")
    require(np.diff(book.ends[:size]) <= 0.0, "ends of the ceiling must not rise")
    require(book.layer_pulls <= book.layer_size, "no more pulls of a layer can be paid than it has")
    arms, rounds = book.log_arms[: book.n_logged], book.log_rounds[: book.n_logged]
    decided = np.flatnonzero(book.status != ACTIVE)
    require(np.array_equal(np.sort(arms), decided), "log_arms must be the decided arms")
    within("log_rounds", rounds, 1, asked + 1)
    require(np.diff(rounds) >= 0, "log_rounds must not fall")
    view, active = book.everyone, np.flatnonzero(book.status == ACTIVE)
    confirmed = np.flatnonzero(book.status == CONFIRMED)
    require(confirmed.size <= budget <= confirmed.size + active.size, "too many or too few arms are decided")
    view.open[: active.size], view.confirmed[: confirmed.size] = active, confirmed
    view.n_open, view.n_confirmed = active.size, confirmed.size


def add_pattern(book: Book, name: np.uint64) -> None:
    """Count an eligible set by its hash, as a file has it."""
    place = int(name >> np.uint64(40)) % book.patterns.size
    while book.patterns[place] != 0:
        place = (place + 1) % book.patterns.size
    book.patterns[place] = name
    book.n_patterns += 1


@kernel
def _unlog(book: Book, arm: int) -> None:
    """Take an arm out of the log whose interval has contradicted its past."""
    n = 0
    for i in range(book.n_logged):
        book.log_arms[n], book.log_rounds[n] = book.log_arms[i], book.log_rounds[i]
        n += book.log_arms[i] != arm
    book.n_logged = n


@kernel
def sort_all(params: GuardParams, evidence: Evidence, book: Book) -> None:
    """Sort all arms by the intervals of today, and log which are decided."""
    view, n = book.everyone, evidence.n_arms
    book.scratch.clock = book.clock
    sort_view(evidence, book.scratch, view, book.scratch.everybody[:n], params.budget, False)
    book.gap = max(0.0, min(book.gap, view.gap))
    least, greatest = 1.0, 0.0
    for i in range(view.n_open):
        least = min(least, evidence.lower[view.open[i]])
        greatest = max(greatest, evidence.upper[view.open[i]])
    book.spread = max(0.0, greatest - least)
    book.renewed, book.rest = 0, book.clock + n // (_SORT_PAUSE * params.budget)
    i, j = 0, 0
    for arm in range(n):
        status = ELIMINATED
        if i < view.n_open and view.open[i] == arm:
            status, i = ACTIVE, i + 1
        elif j < view.n_confirmed and view.confirmed[j] == arm:
            status, j = CONFIRMED, j + 1
        if status != book.status[arm]:
            if book.status[arm] != ACTIVE:
                _unlog(book, arm)
            if status != ACTIVE:
                book.log_arms[book.n_logged], book.log_rounds[book.n_logged] = arm, book.clock + 1
                book.n_logged += 1
            book.status[arm], book.covered = status, 0


@kernel
def _is_ripe(book: Book) -> bool:
    """Whether enough intervals have changed, and rounds passed, for all arms to be sorted again."""
    return book.clock >= book.rest and _DUE_SHARE * book.renewed >= max(book.everyone.n_open, 1)


@kernel
def renew_intervals(params: GuardParams, evidence: Evidence, book: Book, seen: Ints) -> None:
    """Compute the intervals of arms whose rewards were settled, if due; sort all arms when enough have changed.

    A new interval from few rewards hardly differs from the last one.
    """
    due = evidence.due
    for i in range(seen.size):
        arm = seen[i]
        count = settled_count(evidence, arm)
        if count >= due[arm] and (count % 4 == 0 or count >= _WIDE):
            refresh(book.intervals, evidence, arm)
            book.renewed += 1
    # Now and not in the next ask, whose caller waits for it.
    if book.of_all > 0 and evidence.n_arms > params.budget and _is_ripe(book):
        sort_all(params, evidence, book)


@kernel
def _note_pattern(book: Book, among: Ints) -> None:
    """Count the eligible set if it is new, until half of the table is full."""
    if 2 * book.n_patterns >= book.patterns.size:
        return
    name = _SEED
    for i in range(among.size):
        name = name ^ bits(_SEED, among[i])
    if name == np.uint64(0):
        name = _SEED
    place = int(name >> np.uint64(40)) % book.patterns.size
    while book.patterns[place] != np.uint64(0):
        if book.patterns[place] == name:
            return
        place = (place + 1) % book.patterns.size
    book.patterns[place] = name
    book.n_patterns += 1


@kernel
def look(params: GuardParams, evidence: Evidence, book: Book, request: Request) -> View:
    """Return the view of a request's candidates."""
    book.clock = book.scratch.clock = request.number
    if request.epoch == ALL:
        if book.of_all == 0 and _is_ripe(book):
            sort_all(params, evidence, book)
        book.of_all = 1
        book.wholes += book.is_new
        book.is_new = 0
        return book.everyone
    book.of_all = 0
    list_candidates(evidence, request)
    among = request.among[: request.n]
    _note_pattern(book, among)
    sort_view(evidence, book.scratch, book.some, among, request.size, False)
    book.gap = max(0.0, min(book.gap, book.some.gap))
    return book.some


@kernel
def _open_layer(params: GuardParams, book: Book) -> None:
    """Let the budget pay for the next layer, and find the price of a pull in it."""
    book.layer += 1
    book.layer_price = 1.0
    if book.layer > 0:
        width = math.sqrt((params.base + 0.5 * math.log(book.layer)) / (2.0 * book.layer))
        book.layer_price = min(1.0, 6.0 * width)


@kernel
def _pay_layers(
    params: GuardParams, evidence: Evidence, book: Book, view: View, pulls: int, free: int, rounds: int, needed: float
) -> None:
    """Add what elimination could lose in the layers that it had rounds for, where all arms were always eligible.

    The shadow budget pays for a layer only when every open arm has been seen that often, too, and at most by how much
    they can differ. Counts alone would not do: sets may be older than they are.
    """
    if book.layer_pulls > rounds:
        return
    most, highest = rounds, 1.0
    if params.shadow:
        highest = book.spread
        for i in range(view.n_open):
            most = min(most, settled_count(evidence, view.open[i]))
    while book.layer < most and (book.layer + 1) * book.gap**2 <= needed and book.layer_pulls <= rounds:
        _open_layer(params, book)
        book.layer_pulls += pulls // free
        book.layer_size = book.layer_pulls
        book.allowed += params.factor * pulls * min(book.layer_price, highest)
    book.floor = book.allowed - params.factor * book.forced_cost


@kernel
def pay(params: GuardParams, evidence: Evidence, book: Book, request: Request, view: View) -> None:
    """Add to the budget what elimination could lose, by the layers that it could have reached by now.

    A layer has as many pulls as show every open arm and, for each eligible set so far, those of a round that is padded.
    While all arms are always eligible, layers are paid as a whole, and else pull by pull. No layer is paid for that the
    least gap which is still possible does not ask for. See `docs/guard.md`.
    """
    size, free = request.size, request.size - view.n_confirmed
    differ = book.n_patterns + book.wholes > 1 or request.epoch != ALL
    rounds = request.number + 1 - params.start
    needed, narrow = 8.0 * (params.base + 0.5 * math.log(rounds)), book.gap**2
    if not differ:
        if book.covered == 0:
            # Elimination no longer plays a hub that is certain to be bad, and then needs far more pulls.
            listed = not params.plain and params.graph.indices.size <= COVERED
            book.open_cover = cover_of_open(book.scratch, view, params.graph) if listed else view.n_open
            book.covered = 1
        _pay_layers(params, evidence, book, view, book.open_cover + free - 1, free, rounds, needed)
        return
    if params.shadow:
        book.allowed = book.floor + params.factor * book.forced_cost + size
        return
    cover, sets = book.cover_among, book.wholes + book.n_patterns
    if 2 * book.n_patterns >= book.patterns.size:
        sets = cover
    pulls = cover + min(sets, cover) * (size - 1)
    while free > 0:
        if book.layer_pulls >= book.layer_size:
            if (book.layer + 1) * narrow > needed:
                return
            _open_layer(params, book)
            book.layer_size, book.layer_pulls = max(pulls, 1), 0
        paid = min(free, book.layer_size - book.layer_pulls)
        book.allowed += params.factor * paid * book.layer_price
        book.layer_pulls += paid
        free -= paid


@kernel
def _list_slopes(
    pulls: Ints, exposures: Ints, rounds: int, lower: Floats, upper: Floats, n: int, scratch: Scratch, m: int
) -> tuple[int, float, int]:
    """List, from place m on, what a round as a candidate was worth at most for n arms; with sums of what is certain."""
    kept, slots = 0.0, 0
    for arm in range(n):
        there = exposures[arm] + rounds
        if there > 0:
            low = pulls[arm] * lower[arm]
            kept += low
            slots += pulls[arm]
            scratch.values[m] = ((there - pulls[arm]) * upper[arm] + low) / there
            scratch.chosen[m], scratch.degrees[m] = m, there
            m += 1
    return m, kept, slots


@kernel
def most_lost(evidence: Evidence, book: Book, of_all: bool) -> float:
    """Return what all decisions, or the admitted ones, lost at most by the intervals of today.

    The best eligible slates of all rounds have an arm at most as often as it was a candidate, and as many arms in all
    as were pulled: a knapsack whose items may be cut, filled by the largest slopes.
    """
    n, scratch, ghosts = evidence.n_arms, book.scratch, book.ghosts
    pulls, exposures, rounds = book.admitted, book.offered, book.offered_rounds
    old, gone = ghosts.admitted, ghosts.offered
    if of_all:
        pulls, exposures, rounds, old, gone = (
            evidence.pulls,
            evidence.exposures,
            evidence.rounds,
            ghosts.pulls,
            ghosts.exposures,
        )
    m, kept, slots = _list_slopes(pulls, exposures, rounds, evidence.lower, evidence.upper, n, scratch, 0)
    m, more, others = _list_slopes(old, gone, 0, ghosts.lower, ghosts.upper, old.size, scratch, m)
    kept, left = kept + more, slots + others
    best, ready, done = 0.0, 0, 0
    while ready < m and left > 0:
        # Few arms fill all slots, so not all of them are sorted.
        ready = min(m, 4 * ready + 64)
        top_first(scratch.values, scratch.chosen, m, ready)
        sort_pairs(scratch.values, scratch.chosen, ready)
        while done < ready and left > 0:
            units = min(left, scratch.degrees[scratch.chosen[done]])
            best += units * scratch.values[done]
            left -= units
            done += 1
    return max(best - kept, 0.0)


@kernel
def _count(evidence: Evidence, request: Request, pulls: Ints, exposures: Ints, arms: Ints, sign: int) -> int:
    """Count a decision and its candidates, or take them back; return how many rounds of all arms that is."""
    for i in range(arms.size):
        pulls[arms[i]] += sign
    if request.epoch == ALL:
        return sign
    for i in range(request.n):
        exposures[request.among[i]] += sign
    return 0


@kernel
def _admits(evidence: Evidence, book: Book, request: Request, arms: Ints, cost: float) -> bool:
    """Book a decision of this cost if the budget allows it, after a refund if need be."""
    spent = book.spent + cost
    if spent > book.allowed and cost > 0.0 and request.epoch != ALL and request.number < book.resume:
        return False
    book.offered_rounds += _count(evidence, request, book.admitted, book.offered, arms, 1)
    if spent > book.allowed:
        spent = min(spent, most_lost(evidence, book, False))
    if spent <= book.allowed:
        book.spent = spent
    elif cost > 0.0:
        book.offered_rounds += _count(evidence, request, book.admitted, book.offered, arms, -1)
        # A refund looks at all arms, so one that did not help is not sought again at once.
        book.resume = request.number + 1 + evidence.n_arms // _REFUND
        return False
    book.n_admitted += 1
    return True


@kernel
def note_cost(evidence: Evidence, book: Book, request: Request, arms: Ints, cost: float) -> None:
    """Add a decision's cost to the total; now and then today's intervals may say that less was lost in all."""
    book.total += cost
    if (request.number + 1) % (_REFUND + evidence.n_arms // _REFUND) == 0:
        # The evidence does not have this decision yet.
        evidence.rounds += _count(evidence, request, evidence.pulls, evidence.exposures, arms, 1)
        book.total = min(book.total, most_lost(evidence, book, True))
        evidence.rounds += _count(evidence, request, evidence.pulls, evidence.exposures, arms, -1)


@kernel
def take_or_pay(params: GuardParams, evidence: Evidence, book: Book, request: Request, view: View, arms: Ints) -> bool:
    """Fill `arms` with what is certain and return True; else let the budget grow by a round that is not."""
    if take_certain(view, arms):
        note_cost(evidence, book, request, arms, 0.0)
        return True
    pay(params, evidence, book, request, view)
    return False


@kernel
def admit(params: GuardParams, evidence: Evidence, book: Book, request: Request, view: View, arms: Ints) -> bool:
    """Keep the proposal in `arms` and return True, or put there the largest upper ends, or a round of elimination."""
    scratch = book.scratch
    cost = price(evidence, scratch, view, arms)
    kept = _admits(evidence, book, request, arms, cost)
    if not kept:
        take_confirmed(view, arms)
        fill_by_upper(scratch, view, view.n_confirmed, arms)
        cost = price(evidence, scratch, view, arms)
        if not _admits(evidence, book, request, arms, cost):
            if request.epoch == ALL and book.renewed > 0:
                sort_all(params, evidence, book)
            if not take_certain(view, arms):
                explore(evidence, scratch, view, params.graph, params.plain, arms)
            cost = price(evidence, scratch, view, arms)
            book.forced += 1
            book.forced_cost += cost
    note_cost(evidence, book, request, arms, cost)
    return kept


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
        book.bar, book.bar_due = bar, request.number + 1 + evidence.n_arms // (_SORT_PAUSE * size)
        if book.n_patterns + book.wholes <= 1:
            book.estimated = 0.0
            for arm in range(evidence.n_arms):
                book.estimated += evidence.pulls[arm] * max(0.0, bar - _mean(evidence, arm))
    return bar


@kernel
def _shown_by(params: GuardParams, arms: Ints, other: int) -> bool:
    """Whether a decision reveals an arm."""
    for i in range(arms.size):
        if arms[i] == other or (not params.plain and reveals(params.graph, arms[i], other)):
            return True
    return False


@kernel
def _target(params: GuardParams, evidence: Evidence, view: View, bar: float, arms: Ints) -> int:
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
def _place(evidence: Evidence, bar: float, arms: Ints) -> int:
    """Return where the arm of least mean stands that is not behind; of equals the last number."""
    place, least = _NONE, np.inf
    for i in range(arms.size):
        mean = _mean(evidence, arms[i])
        if bar <= mean and (mean < least or (mean == least and arms[i] > arms[place])):
            place, least = i, mean
    return place


@kernel
def look_and_admit(
    params: GuardParams, evidence: Evidence, book: Book, request: Request, view: View, arms: Ints
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
