"""Evidence: what is known of each arm, whichever policy learns it and whichever arms may be chosen.

The frame writes it, in `schedule`, `record`, `settle` and `lose`, and only then calls the policy's `learn`: no policy
counts a reward. Choosing reads the rewards that were *told*, certificates the *settled* ones, of closed decisions.
These are the same numbers until a reward of an open decision is told; from then on they are kept apart (`part`).

A reward that never comes, such as that of a broken sensor, says nothing about its arm, so intervals and certificates
ignore it. But a policy that waits for it would play the arm for ever. From the eighth in a row on, and until one comes,
lost rewards count for the choice of arms: as the least reward in an index or a posterior, and as ever more tries in the
schedule of elimination.
"""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

import numpy as np
from numpy.typing import NDArray

from armtriage.certificate import Bounds, Tally
from armtriage.intervals import interval
from armtriage.kernels.jit import inlined, kernel
from armtriage.kernels.random import row
from armtriage.kernels.record import Floats, Ints, Record, fact
from armtriage.policies.beliefs import gain
from armtriage.policies.facts import check_facts, require, restore_arrays, within

PATIENCE = 8  # in a row: with half of all rewards lost at random, an arm seldom gets there


@kernel
def as_least(missed: int) -> int:
    """Return how many least rewards stand for those that were lost in a row: one for every four of them.

    Were it one for each, a posterior would as good as never try the arm again where others are good.
    """
    return missed // 4 if missed >= PATIENCE else 0


def all_as_least(missed: Ints) -> Ints:
    """Return the same for every arm, where a state is computed again in NumPy."""
    return np.where(missed >= PATIENCE, missed // 4, 0)


@kernel
def as_tries(missed: int) -> int:
    """Return for how many tries the last of the rewards counts that were lost in a row.

    They grow, so that in t rounds an arm that never answers is tried some 2 sqrt(t) times.
    """
    return 1 + (missed - PATIENCE) // 2 if missed >= PATIENCE else 0


TOLD, LOST, WEIGHED, UNSEEN = range(4)
"""What has happened to the arms that `learn` is called for: rewards were told, will never come, what open decisions
count for until then has changed, or the arm was not looked at."""


class Evidence(Record):
    """A row for each arm, with room for more; rows of arms that do not exist yet are all 0."""

    counts: Ints = fact(0, "asked")  # rewards told, their sum on the unit scale, and that of r (1 - r)
    sums: Floats = fact(0.0, "counts")
    between: Floats = fact(0.0, "quarters")
    wins: Floats = fact(0.0, "counts")  # what these count for in draws: `sums` and `between` themselves, unless `coin`
    doubts: Floats
    unheard: Floats  # least rewards that open decisions count for, see `policies.delays`
    pending: Ints  # rewards of open decisions
    missed: Ints = fact(0, "asked")  # rewards in a row that did not come
    credit: Ints = fact(0, "tries")  # tries that lost rewards count for, see `as_tries`
    pulls: Ints
    exposures: Ints  # rounds as a candidate, but for the `rounds` in which all arms were
    settled_counts: Ints = fact(0, "counts")  # rewards of closed decisions, once they are kept apart
    settled_sums: Floats = fact(0.0, "settled_counts")
    settled_between: Floats = fact(0.0, "settled_quarters")
    played_counts: Ints  # settled rewards of arms that were chosen, not only revealed: see `totals`;
    played_sums: Floats  # all three are empty where nothing is revealed but what is chosen
    played_between: Floats
    lower: Floats = fact(0.0, 1.0)  # an interval for the mean; empty, like the next three, where no policy keeps any
    upper: Floats = fact("lower", 1.0)
    due: Ints = fact(0, "latest")  # settled rewards at which it is computed again
    divisors: Floats  # delta divided by this is what it may miss with
    old_wins: Floats  # what an old log counts for in draws; both empty where there is none
    old_losses: Floats
    n_arms: int
    rounds: int = fact(0, "asked")  # in which every arm was a candidate
    mute: int  # whether any reward has been lost
    parted: int  # whether any reward was told before its decision was closed
    weighed: int  # whether open decisions have counted by their age
    coin: int  # whether a reward between 0 and 1 counts as a coin in `wins`
    failures: int = fact(0, "most_failures")  # new intervals that contradicted old ones
    warm: int  # whether an old log counts in draws


class Intervals(Record):
    """How intervals are computed, and those of few rewards of 0 and 1, which many arms share."""

    facts = ()
    known: Floats  # (_FEW, _FEW, 2) by count and sum, -1 until computed
    kind: int
    intersect: bool  # whether an interval is cut by those before it
    horizon: float  # 0 for intervals that hold at all times
    delta: float
    divisor: float  # of the arms whose intervals are in `known`


_FEW = 64  # counts up to which intervals are looked up: a table of 64 kB, which most early sorts hit
_WHOLE = ("counts", "pending", "missed", "credit", "pulls", "exposures", "settled_counts", "played_counts", "due")
_COLUMNS = Evidence._fields[:23]
_ENDS = ("lower", "upper", "due", "divisors")
_OLD = ("old_wins", "old_losses")
_SETTLED = ("settled_counts", "settled_sums", "settled_between")
_PLAYED = ("played_counts", "played_sums", "played_between")
_ALWAYS = ("counts", "sums", "between", "missed", "credit", "pulls", "exposures")


def new_evidence(
    n_arms: int, *, coin: bool = False, ends: bool = False, warm: bool = False, played: bool = False, room: int = 0
) -> Evidence:
    """Return evidence of arms that were never seen; there is room for eight arms or a multiple of that.

    Of many arms there is room for some more, which costs nothing until they come.
    """
    size = -(-max(room, n_arms + n_arms // 1024) // 8) * 8
    empty = (() if ends else _ENDS) + (() if warm else _OLD) + (() if played else _PLAYED)
    columns: dict[str, Any] = {
        name: np.zeros(0 if name in empty else size, np.int64 if name in _WHOLE else np.float64) for name in _COLUMNS
    }
    if not coin:
        columns["wins"], columns["doubts"] = columns["sums"], columns["between"]
    if ends:
        columns["upper"][:n_arms], columns["due"][:n_arms], columns["divisors"][:n_arms] = 1.0, 1, n_arms
    numbers: dict[str, Any] = dict.fromkeys(("rounds", "mute", "parted", "weighed", "failures"), 0)
    return Evidence(**columns, n_arms=n_arms, coin=int(coin), warm=int(warm), **numbers)


def new_intervals(kind: int, horizon: float, delta: float, n_arms: int, *, intersect: bool = True) -> Intervals:
    """Return how intervals are computed of arms, the first `n_arms` of which share delta evenly."""
    return Intervals(np.full((_FEW, _FEW, 2), -1.0), kind, intersect, horizon, delta, float(n_arms))


def grown(evidence: Evidence, n_arms: int, *, played: bool = False) -> Evidence:
    """Return evidence with more arms: the same, or a copy where there is no room left, or nothing `played` was kept."""
    begun = played and not evidence.played_counts.size
    if n_arms > evidence.counts.size or begun:
        kinds = {"coin": evidence.coin > 0, "ends": evidence.due.size > 0, "warm": evidence.old_wins.size > 0}
        longer = new_evidence(n_arms, **kinds, played=played, room=2 * n_arms)
        # Until now nothing was revealed but what was chosen.
        chosen = dict(zip(_PLAYED, _settled(evidence), strict=True)) if begun else {}
        for name in _COLUMNS:
            getattr(longer, name)[: evidence.n_arms] = getattr(evidence, chosen.get(name, name))[: evidence.n_arms]
        longer.whole[:] = evidence.whole
        evidence = longer
    # An arm that was not there was no candidate in the rounds of all arms.
    new = slice(int(evidence.n_arms), n_arms)
    evidence.exposures[new] = -evidence.rounds
    evidence.upper[new], evidence.due[new] = 1.0, 1
    evidence.n_arms = n_arms
    return evidence


def start_again(evidence: Evidence, arms: list[int]) -> None:
    """Let nothing be known of arms."""
    for name in _COLUMNS:
        if (column := getattr(evidence, name)).size:
            column[arms] = {"exposures": -evidence.rounds, "upper": 1.0, "due": 1}.get(name, 0)


def bounds_of(evidence: Evidence) -> Bounds:
    """Return the intervals that are kept, in copies."""
    n = int(evidence.n_arms)
    return Bounds(evidence.lower[:n].copy(), evidence.upper[:n].copy())


def _settled(evidence: Evidence) -> tuple[str, ...]:
    """Return where the rewards of closed decisions stand."""
    return _SETTLED if evidence.parted else _ALWAYS[:3]


def tally_of(evidence: Evidence) -> Tally:
    """Return what certificates may know, as views."""

    def columns(names: tuple[str, ...]) -> Tally:
        return Tally(*(getattr(evidence, name)[: evidence.n_arms] for name in ("pulls", *names)))

    seen = columns(_settled(evidence))
    return seen._replace(played=columns(_PLAYED)) if evidence.played_counts.size else seen


def evidence_of(evidence: Evidence) -> dict[str, NDArray[Any]]:
    """Return all that a file keeps."""
    names = (*_ALWAYS, *(_SETTLED if evidence.parted else ()), *(("wins",) if evidence.coin else ()))
    if evidence.played_counts.size:
        names += _PLAYED
    ends, numbers = evidence.due.size > 0, {"rounds": np.array([evidence.rounds], np.int64)}
    if ends:
        names, numbers["failures"] = (*names, *_ENDS[:3]), np.array([evidence.failures], np.int64)
    return {name: getattr(evidence, name)[: evidence.n_arms] for name in names} | numbers


def evidence_from(
    arrays: Mapping[str, NDArray[Any]],
    n_arms: int,
    asked: int,
    awaited: Ints,
    *,
    coin: bool,
    ends: bool,
    warm: bool = False,
    played: bool = False,
) -> Evidence:
    """Return what `evidence_of` was given, if all of it can be; `awaited` are the rewards of open decisions."""
    evidence = new_evidence(n_arms, coin=coin, ends=ends, warm=warm, played=played)
    evidence.parted = int("settled_counts" in arrays)
    own = evidence_of(evidence)
    if played and _PLAYED[0] not in arrays:
        # The files of before do not tell played rewards from others: that none of them is known is always true.
        arrays = {**arrays, **{name: own[name] for name in _PLAYED}}
    require(set(own) == set(arrays), f"evidence must have {', '.join(own)}, got {', '.join(arrays)}")
    restore_arrays(own, arrays)
    evidence.rounds, evidence.failures = int(own["rounds"][0]), int(own["failures"][0]) if ends else 0
    evidence.pending[:n_arms], evidence.mute = awaited, int(evidence.missed.any())
    known: dict[str, Any] = {"asked": asked, "tries": asked * (asked + 1), "latest": 2 * asked + 2}
    known |= {"most_failures": (n_arms + 1) * (asked + 1), "quarters": evidence.counts / 4.0}
    check_facts(evidence, known | {"settled_quarters": evidence.settled_counts / 4.0})
    exposures = evidence.exposures[:n_arms] + evidence.rounds
    within("exposures", exposures, 0, asked)
    within("pulls", evidence.pulls[:n_arms], 0, exposures)
    require(evidence.due[: n_arms if ends else 0] > 0, "due must be from 1")
    settled = [getattr(evidence, name) for name in _settled(evidence)] if played else []
    for name, most in zip(_PLAYED, settled, strict=False):
        within(name, getattr(evidence, name), 0, most + 1e-9 * (1.0 + settled[0]))
    within("played_counts", evidence.played_counts, 0, evidence.pulls if played else 0)
    return evidence


@kernel
@inlined
def counted(evidence: Evidence, arm: int) -> float:
    """Return how many rewards an arm has had, with what those count for that are lost or on their way; 0 if unseen."""
    return evidence.counts[arm] + as_least(evidence.missed[arm]) + evidence.unheard[arm]  # type: ignore[no-any-return]


@kernel
@inlined
def wins_of(evidence: Evidence, arm: int) -> float:
    """Return what an arm's rewards count for in draws, with those of an old log."""
    return evidence.wins[arm] + evidence.old_wins[arm] if evidence.warm > 0 else evidence.wins[arm]  # type: ignore[no-any-return]


@kernel
@inlined
def losses_of(evidence: Evidence, arm: int) -> float:
    """Return what an arm's rewards lack of as many wins, with what those count for that are lost or on their way."""
    told = evidence.counts[arm] - evidence.wins[arm]
    if evidence.warm > 0:
        told += evidence.old_losses[arm]
    return told + as_least(evidence.missed[arm]) + evidence.unheard[arm]  # type: ignore[no-any-return]


@kernel
@inlined
def schedule(evidence: Evidence, arms: Ints) -> None:
    """Count rewards that are on their way."""
    for i in range(arms.size):
        evidence.pending[arms[i]] += 1


@kernel
@inlined
def record(evidence: Evidence, stream: NDArray[np.uint64], number: int, seen: Ints, rewards: Floats) -> None:
    """Take rewards of decision `number` on the unit scale, as soon as they are told; coins come from the stream."""
    counts, sums, between = evidence.counts, evidence.sums, evidence.between
    for i in range(seen.size):
        arm, reward = seen[i], rewards[i]
        counts[arm] += 1
        sums[arm] += reward
        if 0.0 < reward < 1.0:
            between[arm] += reward * (1.0 - reward)
    if evidence.coin > 0:
        luck = row(stream[0], number)
        for i in range(seen.size):
            evidence.wins[seen[i]] += gain(True, luck, seen[i], rewards[i])
    if evidence.mute > 0:
        for i in range(seen.size):
            evidence.missed[seen[i]] = 0


@kernel
def part(evidence: Evidence) -> None:
    """Keep what is settled apart from now on: a reward of an open decision is about to be told."""
    if evidence.parted == 0:
        evidence.parted = 1
        for arm in range(evidence.n_arms):
            evidence.settled_counts[arm] = evidence.counts[arm]
            evidence.settled_sums[arm] = evidence.sums[arm]
            evidence.settled_between[arm] = evidence.between[arm]


@kernel
@inlined
def settle(evidence: Evidence, seen: Ints, rewards: Floats) -> None:
    """Close a decision with its rewards, all of which have been told."""
    for i in range(seen.size):
        evidence.pending[seen[i]] -= 1
    if evidence.parted > 0:
        for i in range(seen.size):
            arm, reward = seen[i], rewards[i]
            evidence.settled_counts[arm] += 1
            evidence.settled_sums[arm] += reward
            evidence.settled_between[arm] += reward * (1.0 - reward)


@kernel
def count_played(evidence: Evidence, arms: Ints, seen: Ints, rewards: Floats) -> None:
    """Count the rewards of arms that were chosen, of all that a decision has shown."""
    counts = evidence.played_counts
    for i in range(arms.size):
        counts[arms[i]] = ~counts[arms[i]]  # below 0, which marks them
    for i in range(seen.size):
        arm, reward = seen[i], rewards[i]
        if counts[arm] < 0:
            counts[arm] = ~counts[arm] + 1
            evidence.played_sums[arm] += reward
            evidence.played_between[arm] += reward * (1.0 - reward)
    for i in range(arms.size):
        counts[arms[i]] = max(counts[arms[i]], ~counts[arms[i]])


@kernel
def lose(evidence: Evidence, arms: Ints) -> None:
    """Note rewards that will never come, as tries: the more of them in a row the more."""
    for i in range(arms.size):
        arm = arms[i]
        evidence.pending[arm] -= 1
        evidence.missed[arm] += 1
        evidence.credit[arm] += as_tries(evidence.missed[arm])
    evidence.mute = 1


@kernel
def unsee(evidence: Evidence, arms: Ints) -> None:
    """Note arms that were shown and not looked at: nothing is wrong with them, and they are scheduled again."""
    for i in range(arms.size):
        evidence.pending[arms[i]] -= 1


@kernel
@inlined
def settled_count(evidence: Evidence, arm: int) -> int:
    """Return how many rewards of an arm are of closed decisions."""
    return evidence.settled_counts[arm] if evidence.parted > 0 else evidence.counts[arm]  # type: ignore[no-any-return]


@kernel
@inlined
def tries(evidence: Evidence, arm: int) -> int:
    """Return how often an arm has been observed, or would have been had no reward been lost."""
    return settled_count(evidence, arm) + evidence.credit[arm]  # type: ignore[no-any-return]


@kernel
def _interval(intervals: Intervals, count: int, total: float, between: float, divisor: float) -> tuple[float, float]:
    """Return an interval; for small counts of 0s and 1s it is looked up, since many arms share it."""
    wins, known = int(total), intervals.known
    few = count < _FEW and wins == total and between <= 0.0 and divisor == intervals.divisor
    if few and known[count, wins, 1] >= 0.0:
        return known[count, wins, 0], known[count, wins, 1]
    lower, upper = interval(intervals.kind, count, total, between, divisor, intervals.horizon, intervals.delta)
    if few:
        known[count, wins, 0], known[count, wins, 1] = lower, upper
    return lower, upper


@kernel
def refresh(intervals: Intervals, evidence: Evidence, arm: int) -> None:
    """Compute an arm's interval again; an old one stays valid, so this may wait until the count has grown by 1/32."""
    count, total, between = evidence.counts[arm], evidence.sums[arm], evidence.between[arm]
    if evidence.parted > 0:
        count, total, between = (
            evidence.settled_counts[arm],
            evidence.settled_sums[arm],
            evidence.settled_between[arm],
        )
    if count < evidence.due[arm]:
        return
    evidence.due[arm] = count + 1 + count // 32
    lower, upper = _interval(intervals, count, total, between, evidence.divisors[arm])
    if intervals.intersect:
        if max(lower, evidence.lower[arm]) <= min(upper, evidence.upper[arm]):
            lower, upper = max(lower, evidence.lower[arm]), min(upper, evidence.upper[arm])
        else:
            # The good event has failed, or the rewards are not stationary: trust the newest interval.
            evidence.failures += 1
    evidence.lower[arm], evidence.upper[arm] = lower, upper
