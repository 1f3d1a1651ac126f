"""Evidence: what is known of each arm, whichever policy learns it and whichever arms may be chosen.

The frame writes it, in `schedule`, `record`, `settle` and `lose`, and only then calls the policy's `learn`: no policy
counts a reward. Choosing reads the rewards that were *told*, certificates the *settled* ones, of closed decisions.
These are the same numbers until a reward of an open decision is told; from then on they are kept apart (`part`).
"""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

import numpy as np
from numpy.typing import NDArray

from armtriage.certificate import Tally
from armtriage.kernels.jit import inlined, kernel
from armtriage.kernels.random import row
from armtriage.kernels.record import Record
from armtriage.policies.facts import require, restore_arrays, within
from armtriage.policies.lost import as_least, as_tries
from armtriage.policies.sampler import gain

__all__ = [
    "LOST",
    "TOLD",
    "WEIGHED",
    "Evidence",
    "counted",
    "evidence_from",
    "evidence_of",
    "grown",
    "lose",
    "losses_of",
    "new_evidence",
    "part",
    "record",
    "schedule",
    "settle",
    "start_again",
    "tally_of",
]

TOLD, LOST, WEIGHED = range(3)
"""What has happened to the arms that `learn` is called for: rewards were told, will never come, or what open decisions
count for until then has changed."""


class Evidence(Record):
    """A row for each arm, with room for more; rows of arms that do not exist yet are all 0."""

    counts: NDArray[np.int64]  # rewards told, their sum on the unit scale, and that of r (1 - r)
    sums: NDArray[np.float64]
    between: NDArray[np.float64]
    wins: NDArray[np.float64]  # what these count for in draws: `sums` and `between` themselves, unless `coin`
    doubts: NDArray[np.float64]
    unheard: NDArray[np.float64]  # least rewards that open decisions count for, see `policies.delays`
    pending: NDArray[np.int64]  # rewards of open decisions
    missed: NDArray[np.int64]  # rewards in a row that did not come
    credit: NDArray[np.int64]  # tries that lost rewards count for, see `policies.lost`
    pulls: NDArray[np.int64]
    exposures: NDArray[np.int64]  # rounds as a candidate, but for the `rounds` in which all arms were
    settled_counts: NDArray[np.int64]  # rewards of closed decisions, once they are kept apart
    settled_sums: NDArray[np.float64]
    settled_between: NDArray[np.float64]
    n_arms: int
    rounds: int  # in which every arm was a candidate
    mute: int  # whether any reward has been lost
    parted: int  # whether any reward was told before its decision was closed
    weighed: int  # whether open decisions have counted by their age
    coin: int  # whether a reward between 0 and 1 counts as a coin in `wins`


_WHOLE = ("counts", "pending", "missed", "credit", "pulls", "exposures", "settled_counts")
_COLUMNS = Evidence._fields[:14]
_SETTLED = ("settled_counts", "settled_sums", "settled_between")
_ALWAYS = ("counts", "sums", "between", "missed", "credit", "pulls", "exposures")


def new_evidence(n_arms: int, *, coin: bool = False, room: int = 0) -> Evidence:
    """Return evidence of arms that were never seen; there is room for eight arms or a multiple of that."""
    size = -(-max(room, n_arms) // 8) * 8
    columns: dict[str, Any] = {name: np.zeros(size, np.int64 if name in _WHOLE else np.float64) for name in _COLUMNS}
    if not coin:
        columns["wins"], columns["doubts"] = columns["sums"], columns["between"]
    return Evidence(**columns, n_arms=n_arms, rounds=0, mute=0, parted=0, weighed=0, coin=int(coin))


def grown(evidence: Evidence, n_arms: int) -> Evidence:
    """Return evidence with more arms: the same, or a copy where there is no room left."""
    if n_arms > evidence.counts.size:
        longer = new_evidence(n_arms, coin=bool(evidence.coin), room=4 * n_arms)
        for name in _COLUMNS:
            getattr(longer, name)[: evidence.counts.size] = getattr(evidence, name)
        longer.whole[:] = evidence.whole
        evidence = longer
    # An arm that was not there was no candidate in the rounds of all arms.
    evidence.exposures[evidence.n_arms : n_arms] = -evidence.rounds
    evidence.n_arms = n_arms
    return evidence


def start_again(evidence: Evidence, arms: list[int]) -> None:
    """Let nothing be known of arms."""
    for name in _COLUMNS:
        getattr(evidence, name)[arms] = -evidence.rounds if name == "exposures" else 0


def tally_of(evidence: Evidence) -> Tally:
    """Return what certificates may know, as views."""
    names = _SETTLED if evidence.parted else _ALWAYS[:3]
    return Tally(*(getattr(evidence, name)[: evidence.n_arms] for name in ("pulls", *names)))


def evidence_of(evidence: Evidence) -> dict[str, NDArray[Any]]:
    """Return all that a file keeps."""
    names = (*_ALWAYS, *(_SETTLED if evidence.parted else ()), *(("wins",) if evidence.coin else ()))
    kept = {name: getattr(evidence, name)[: evidence.n_arms] for name in names}
    return {**kept, "rounds": np.array([evidence.rounds], np.int64)}


def evidence_from(
    arrays: Mapping[str, NDArray[Any]], n_arms: int, asked: int, awaited: NDArray[np.int64], *, coin: bool
) -> Evidence:
    """Return what `evidence_of` was given, if all of it can be; `awaited` are the rewards of open decisions."""
    evidence = new_evidence(n_arms, coin=coin)
    evidence.parted = int("settled_counts" in arrays)
    own = {**evidence_of(evidence), "rounds": np.zeros(1, np.int64)}
    require(set(own) == set(arrays), f"evidence must have {', '.join(own)}, got {', '.join(arrays)}")
    restore_arrays(own, arrays)
    evidence.rounds = rounds = int(own["rounds"][0])
    evidence.pending[:n_arms], evidence.mute = awaited, int(evidence.missed.any())
    within("rounds", rounds, 0, asked)
    exposures = evidence.exposures[:n_arms] + rounds
    within("exposures", exposures, 0, asked)
    within("pulls", evidence.pulls[:n_arms], 0, exposures)
    within("missed", evidence.missed, 0, asked)
    within("credit", evidence.credit, 0, asked * (asked + 1))
    within("counts", evidence.counts, 0, asked)
    within("sums", evidence.sums, 0.0, evidence.counts)
    within("between", evidence.between, 0.0, evidence.counts / 4.0)
    within("wins", evidence.wins, 0.0, evidence.counts)
    within("settled_counts", evidence.settled_counts, 0, evidence.counts)
    within("settled_sums", evidence.settled_sums, 0.0, evidence.settled_counts)
    within("settled_between", evidence.settled_between, 0.0, evidence.settled_counts / 4.0)
    return evidence


@kernel
@inlined
def counted(evidence: Evidence, arm: int) -> float:
    """Return how many rewards an arm has had, with what those count for that are lost or on their way; 0 if unseen."""
    return evidence.counts[arm] + as_least(evidence.missed[arm]) + evidence.unheard[arm]  # type: ignore[no-any-return]


@kernel
@inlined
def losses_of(evidence: Evidence, arm: int) -> float:
    """Return what an arm's rewards lack of as many wins, with what those count for that are lost or on their way."""
    told = evidence.counts[arm] - evidence.wins[arm]
    return told + as_least(evidence.missed[arm]) + evidence.unheard[arm]  # type: ignore[no-any-return]


@kernel
@inlined
def schedule(evidence: Evidence, arms: NDArray[np.int64]) -> None:
    """Count rewards that are on their way."""
    for i in range(arms.size):
        evidence.pending[arms[i]] += 1


@kernel
@inlined
def record(
    evidence: Evidence,
    stream: NDArray[np.uint64],
    number: int,
    seen: NDArray[np.int64],
    rewards: NDArray[np.float64],
) -> None:
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
def settle(evidence: Evidence, seen: NDArray[np.int64], rewards: NDArray[np.float64]) -> None:
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
def lose(evidence: Evidence, arms: NDArray[np.int64]) -> None:
    """Note rewards that will never come, as tries: the more of them in a row the more."""
    for i in range(arms.size):
        arm = arms[i]
        evidence.pending[arm] -= 1
        evidence.missed[arm] += 1
        evidence.credit[arm] += as_tries(evidence.missed[arm])
    evidence.mute = 1
