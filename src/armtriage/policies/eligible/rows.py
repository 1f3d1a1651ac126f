"""What is kept of each arm once requests differ: arms that come and go, or other arms eligible in every round.

Which arms are the best of an eligible set follows from their intervals alone. So nothing is kept of sets, only rows of
numbers, one for each arm; arms that are added take the next free rows. All kernels run over the arms of a request, not
over all there are.
"""

from __future__ import annotations

from typing import Any

import numpy as np
from numpy.typing import NDArray

from armtriage.graphs.feedback import GraphArrays
from armtriage.intervals import interval
from armtriage.kernels.jit import kernel
from armtriage.kernels.order import kth_largest, top_first
from armtriage.kernels.record import Record
from armtriage.policies.lost import as_tries
from armtriage.policies.sampler import STALE, gain

__all__ = [
    "COLUMNS",
    "Request",
    "Rows",
    "expose",
    "grown",
    "largest",
    "learn",
    "lose",
    "new_rows",
    "next_level",
    "settle",
]

_LEAST_ROOM = 2**12
_WIDE = 128  # rewards up to which an interval is computed anew only for every fourth: it hardly changes for one
_PATTERNS = 2**13  # places for the eligible sets that the guard counts, of which it fills at most half


class Rows(Record):
    """A row for each arm, with room for more; rows of arms that are not there yet are all 0."""

    facts = (
        *(
            "counts",
            "sums",
            "between",
            "learned",
            "gained",
            "wins",
            "told_between",
            "missed",
            "credit",
            "lower",
            "upper",
            "due",
        ),
        *("pulls", "exposures", "admitted", "offered", "n_ghosts", "clock", "slots", "failures", "n_admitted"),
        *("offered_slots", "forced", "resume", "spent", "allowed", "gap", "total", "forced_cost", "floor"),
        *("fractional", "next_fit", "prior_wins", "prior_losses"),
    )
    counts: NDArray[np.int64]  # rewards of decisions that are closed, their sum, and that of r (1 - r)
    sums: NDArray[np.float64]
    between: NDArray[np.float64]
    learned: NDArray[np.int64]  # rewards that have been told, and their sum
    gained: NDArray[np.float64]
    wins: NDArray[np.float64]  # what those count for in draws, and the sum of r (1 - r) of that
    told_between: NDArray[np.float64]
    unheard: NDArray[np.float64]  # least rewards that open decisions count for, see `policies.delays`
    pending: NDArray[np.int64]  # rewards on their way
    missed: NDArray[np.int64]  # rewards in a row that did not come
    credit: NDArray[np.int64]  # tries that lost rewards count for, see `policies.lost`
    lower: NDArray[np.float64]
    upper: NDArray[np.float64]
    due: NDArray[np.int64]  # count at which the interval is computed anew
    divisors: NDArray[np.float64]  # delta divided by this is what the arm's interval may miss with
    pulls: NDArray[np.int64]
    exposures: NDArray[np.int64]  # rounds in which the arm was eligible
    admitted: NDArray[np.int64]  # pulls in proposals that a guard admitted
    offered: NDArray[np.int64]  # exposures in those rounds
    out: NDArray[np.float64]  # luck up to here takes no draw to `level`
    cut: NDArray[np.int64]  # the version of `level` that this is true of
    skipped: NDArray[np.uint8]  # rewards since
    hashes: NDArray[np.uint64]  # of the arm's number, 0 until it is needed
    marks: NDArray[np.int64]  # scratch: what the incumbents of round `mark` reveal
    values: NDArray[np.float64]  # scratch
    keys: NDArray[np.float64]  # scratch
    chosen: NDArray[np.int64]  # scratch
    open: NDArray[np.int64]  # scratch: arms of the request that are still in question, ascending
    ceiling: NDArray[np.int64]  # scratch: its arms of largest upper bound, largest first; enough for two decisions
    best: NDArray[np.int64]  # scratch
    degrees: NDArray[np.int64]  # scratch
    flags: NDArray[np.uint8]  # scratch, always left at 0
    patterns: NDArray[np.uint64]  # hashes of the eligible sets so far
    n_arms: int
    n_ceiling: int
    n_ghosts: int  # what forgotten arms were is kept at the end of the rows
    clock: int  # the round
    slots: int  # arms in all decisions so far
    failures: int  # new intervals that contradicted old ones
    mark: int
    version: int
    n_patterns: int
    n_admitted: int
    offered_slots: int  # arms in all admitted proposals
    forced: int  # rounds of elimination
    layers: int  # that the budget has paid for
    layer_size: int  # pulls in each
    cover: int  # pulls that show every arm once
    resume: int  # the round before which no refund is sought
    lower_level: float  # what usually few more than the arms wanted pass, see `largest`
    mean_level: float
    pick_level: float
    upper_level: float
    unused: float  # files have a number in its place
    fractional: int  # whether any reward that draws know was neither 0 nor 1
    next_fit: int  # the round in which the prior is fitted anew
    level: float
    centre: float
    spread: float
    waste: float
    spent: float
    allowed: float
    paid: float  # prices of the layers, for one pull each
    base: float  # of their widths
    gap: float  # at most so large in any eligible set so far
    total: float  # certified loss of all decisions
    forced_cost: float  # and of the rounds of elimination among them
    floor: float  # what was allowed before requests differed
    prior_wins: float
    prior_losses: float


class Request(Record):
    """One call from Python: the policy, its rows, who is eligible, and room for what comes back."""

    params: Any
    rows: Rows
    graph: GraphArrays
    streams: NDArray[np.uint64]  # (1,)
    among: NDArray[np.int64]  # arms of the request, ascending, then arms that rewards are told of
    rewards: NDArray[np.float64]
    arms: NDArray[np.int64]  # (S,) the decision
    beliefs: NDArray[np.float64]  # (4, S) see `Decision.ranked`
    kind: int  # of interval; -1 where none is kept
    plain: bool  # whether each arm reveals itself only
    shadow: bool  # of a guard: see `GuardedThompson`
    free_look: bool
    coin: bool  # whether rewards between 0 and 1 are made 0 or 1 for draws
    learned: bool  # whether the prior is
    horizon: float
    delta: float
    factor: float
    base: float  # ln(1 / the least share of delta) + ln 2


_ZEROS: dict[str, Any] = {
    name: dtype
    for dtype, names in (
        (np.int64, "counts learned pending missed credit due pulls exposures admitted offered cut marks chosen open"),
        (np.int64, "degrees ceiling best"),
        (np.float64, "sums between gained wins told_between unheard lower upper divisors out values keys"),
        (np.uint8, "skipped flags"),
        (np.uint64, "hashes"),
    )
    for name in names.split()
}
COLUMNS = tuple(name for name in Rows._fields if name in _ZEROS)


def new_rows(n_arms: int) -> Rows:
    """Return rows of arms of which nothing is known, with room for more: memory that nobody touches costs nothing."""
    room = max(4 * n_arms, _LEAST_ROOM)
    columns: dict[str, Any] = {name: np.zeros(room, _ZEROS[name]) for name in COLUMNS}
    rows = Rows(
        **columns,
        patterns=np.zeros(_PATTERNS, np.uint64),
        n_arms=0,
        n_ceiling=0,
        n_ghosts=0,
        clock=0,
        slots=0,
        failures=0,
        mark=0,
        version=1,
        n_patterns=0,
        n_admitted=0,
        offered_slots=0,
        forced=0,
        layers=-1,
        layer_size=0,
        cover=n_arms,
        resume=0,
        lower_level=0.0,
        mean_level=0.0,
        pick_level=0.0,
        upper_level=0.0,
        unused=0.0,
        fractional=0,
        next_fit=1,
        level=0.0,
        centre=1.0,
        spread=0.0,
        waste=0.0,
        spent=0.0,
        allowed=0.0,
        paid=0.0,
        base=0.0,
        gap=1.0,
        total=0.0,
        forced_cost=0.0,
        floor=0.0,
        prior_wins=1.0,
        prior_losses=1.0,
    )
    return grown(rows, n_arms)


def grown(rows: Rows, n_arms: int) -> Rows:
    """Return rows with more arms: the same ones, or copies where there is no room left."""
    ghosts = int(rows.n_ghosts)
    if n_arms + ghosts >= rows.counts.size:
        room = 4 * (n_arms + ghosts)
        longer = {name: np.zeros(room, _ZEROS[name]) for name in COLUMNS}
        for name, column in longer.items():
            old = getattr(rows, name)
            column[: rows.n_arms] = old[: rows.n_arms]
            column[room - ghosts :] = old[old.size - ghosts :]
        rows = rows._replace(**longer)
    new = slice(int(rows.n_arms), n_arms)
    rows.upper[new], rows.due[new] = 1.0, 1
    rows.n_arms = n_arms
    return rows


@kernel
def _refresh(request: Request, arm: int) -> None:
    """Compute an arm's interval anew; an old one stays valid, so this may wait until the count has grown by 1/32."""
    rows, count = request.rows, request.rows.counts[arm]
    if count < rows.due[arm] or (count < _WIDE and count % 4 != 0):
        return
    rows.due[arm] = count + 1 + count // 32
    lower, upper = interval(
        request.kind,
        count,
        rows.sums[arm],
        rows.between[arm],
        rows.divisors[arm],
        request.horizon,
        request.delta,
    )
    if max(lower, rows.lower[arm]) <= min(upper, rows.upper[arm]):
        lower, upper = max(lower, rows.lower[arm]), min(upper, rows.upper[arm])
    else:
        # The good event has failed, or the rewards are not stationary: trust the newest interval.
        rows.failures += 1
    rows.lower[arm], rows.upper[arm] = lower, upper


@kernel
def learn(request: Request, luck: np.uint64, arms: NDArray[np.int64], rewards: NDArray[np.float64]) -> None:
    """Let whoever chooses know rewards, on the unit scale, as soon as they are told."""
    rows = request.rows
    for i in range(arms.size):
        arm = arms[i]
        rows.learned[arm] += 1
        rows.gained[arm] += rewards[i]
        reward = gain(request.coin, luck, arm, rewards[i])
        rows.wins[arm] += reward
        between = reward * (1.0 - reward)
        if between > 0.0:
            rows.told_between[arm] += between
            rows.version += 1 - rows.fractional  # what is believed of unseen arms changes with the first of these
            rows.fractional = 1
        # A loss lowers the draw: the old bound stays safe for a while, and so does one of nothing after a win. What is
        # between may raise it as well.
        rows.skipped[arm] += 1
        if (
            ((reward > 0.0 or rows.told_between[arm] > 0.0) and rows.out[arm] > 0.0)
            or rows.skipped[arm] > STALE
            or rows.missed[arm] > 0
        ):
            rows.cut[arm] = 0
        rows.missed[arm] = 0


@kernel
def settle(request: Request, arms: NDArray[np.int64], rewards: NDArray[np.float64]) -> None:
    """Let intervals have the rewards of a decision that is closed."""
    rows = request.rows
    for i in range(arms.size):
        arm = arms[i]
        rows.counts[arm] += 1
        rows.sums[arm] += rewards[i]
        rows.between[arm] += rewards[i] * (1.0 - rewards[i])
        rows.pending[arm] -= 1
        if request.kind >= 0:
            _refresh(request, arm)


@kernel
def lose(rows: Rows, arms: NDArray[np.int64]) -> None:
    """Note rewards that will never come, as tries: the more of them in a row the more."""
    for i in range(arms.size):
        arm = arms[i]
        rows.pending[arm] -= 1
        rows.missed[arm] += 1
        rows.credit[arm] += as_tries(rows.missed[arm])
        rows.cut[arm] = 0


@kernel
def expose(rows: Rows, among: NDArray[np.int64], arms: NDArray[np.int64]) -> None:
    """Count a decision, and who was eligible."""
    for i in range(among.size):
        rows.exposures[among[i]] += 1
    for i in range(arms.size):
        rows.pulls[arms[i]] += 1
    rows.slots += arms.size


@kernel
def largest(rows: Rows, column: NDArray[np.float64], among: NDArray[np.int64], k: int, level: float) -> float:
    """Put the k arms that are largest in a column into `best`, in any order; of equals those of smaller number.

    Return the level to look for them above next time. First only arms that are not below the level are listed, which
    are usually few more than k, and all of them if that is not enough.
    """
    few = 0
    for i in range(among.size):
        arm = among[i]
        rows.keys[few], rows.best[few] = column[arm], arm
        few += column[arm] >= level
    n = few
    if few < k:
        n = among.size
        for i in range(n):
            rows.keys[i], rows.best[i] = column[among[i]], among[i]
    top_first(rows.keys, rows.best, n, k)
    return next_level(rows, level, rows.keys, n, k, few)


@kernel
def next_level(rows: Rows, level: float, values: NDArray[np.float64], n: int, k: int, few: int) -> float:
    """Return a level that somewhat more than k of n values pass, whose first k are the largest and `few` passed this.

    A level that was too high is mended at once, one that is too low now and then.
    """
    if few < k or (few > 2 * k + 32 and rows.clock % 16 == 0):
        return kth_largest(values[k:n], n - k, min(n - k, k // 2 + 8)) if n > k else -np.inf
    return level
