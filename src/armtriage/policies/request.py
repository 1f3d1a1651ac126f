"""Request: what an ask or a tell hands to a kernel: which arms may be chosen, and room for what comes back.

A request names its candidates by a byte for each arm, not by a list: to list 500 arms costs more than to choose among
them. Its *epoch* says what may be kept between requests: candidates of epoch 0 are all arms, those of epoch -1 are any.
"""

from __future__ import annotations

from typing import Any

import numpy as np
from numpy.typing import NDArray

from armtriage.kernels.jit import inlined, kernel, lowest_bit
from armtriage.kernels.random import row
from armtriage.kernels.record import Record
from armtriage.policies.evidence import Evidence

ALL, SOME = 0, -1
"""Epochs of requests: all arms may be chosen, or some of them."""


class Request(Record):
    """One decision: its candidates, and room for what comes back."""

    mask: NDArray[np.uint8]  # (room,) 1 for candidates, if the epoch is not `ALL`
    words: NDArray[np.uint64]  # the same memory, eight arms a word
    bits: NDArray[np.uint8]  # (room / 8,) the same as bits, the first arm in the highest
    among: NDArray[np.int64]  # (room,) the candidates ascending, once they are `listed`
    arms: NDArray[np.int64]  # (S,) the decision
    beliefs: NDArray[np.float64]  # (4, S) or (1, S), see `Decision.ranked`
    seen: NDArray[np.int64]  # (room,) arms whose rewards are told, then those whose rewards will not come
    rewards: NDArray[np.float64]  # (room,)
    stream: NDArray[np.uint64]  # (1,) where the policy's random numbers come from, see `luck_of`
    number: int
    epoch: int
    n: int  # candidates
    size: int  # of the decision
    listed: int  # whether `among` is written
    identity: int  # how many numbers from 0 on stand in it, each in its own place
    low: float  # of rewards, as they are told
    high: float
    zero: float  # the reward that is 0 on the unit scale
    width: float  # from there to 1, below 0 for costs

    def hold(self, arms: NDArray[np.int64]) -> None:
        """Put in the arms of a decision that was made before."""
        n = arms.size
        self.whole[_SIZE] = n  # a third of what `self.size = n` takes
        self.arms[:n] = arms


_SIZE = Request._numbers["size"].place


def new_request(room: int, arms: NDArray[np.int64], stream: Any, rows: int, scale: tuple[float, ...]) -> Request:
    """Return an empty request; `scale` is its last four numbers."""
    mask = np.zeros(room, np.uint8)
    return Request(
        mask,
        mask.view(np.uint64),
        np.zeros(room // 8, np.uint8),
        np.zeros(room, np.int64),
        arms,
        np.zeros((rows, arms.size)),
        np.zeros(room, np.int64),
        np.zeros(room),
        np.array([stream], np.uint64),
        0,
        ALL,
        0,
        arms.size,
        0,
        0,
        *scale,
    )


@kernel
def count_candidates(evidence: Evidence, request: Request) -> int:
    """Return how many arms the mask has, and write it as bits."""
    n, mask, words = 0, request.mask[: evidence.n_arms], request.words[: (evidence.n_arms + 7) >> 3]
    for arm in range(mask.size):
        n += int(mask[arm])
    for w in range(words.size):
        # Eight bytes that are 0 or 1 meet in the lowest, each in a bit of its own.
        word = words[w] << np.uint64(7)
        word |= word >> np.uint64(9)
        word |= word >> np.uint64(18)
        word |= word >> np.uint64(36)
        request.bits[w] = word & np.uint64(255)
    return n


@kernel
@inlined
def begin(request: Request, number: int, epoch: int, n: int) -> None:
    """Begin the request of a round with n candidates, which the mask has unless they are all arms."""
    request.number, request.epoch, request.n, request.listed = number, epoch, n, 0
    request.size = min(n, request.arms.size)


@kernel
@inlined
def luck_of(request: Request) -> np.uint64:
    """Return where the random numbers of this round begin: ``uniform(luck_of(request), column)`` is one of them."""
    return row(request.stream[0], request.number)


@kernel
@inlined
def is_candidate(request: Request, arm: int) -> bool:
    """Whether an arm may be chosen."""
    return request.epoch == ALL or bool(request.mask[arm] > 0)


@kernel
def list_candidates(evidence: Evidence, request: Request) -> None:
    """Write the candidates into `among`, ascending, if that has not been done."""
    if request.listed > 0:
        return
    n = 0
    if request.epoch == ALL:
        for arm in range(request.identity, evidence.n_arms):
            request.among[arm] = arm
        request.identity = evidence.n_arms
    else:
        request.identity = 0
        for w in range((evidence.n_arms + 7) >> 3):
            word = request.words[w]
            while word != 0:
                request.among[n] = 8 * w + (lowest_bit(word) >> 3)
                word &= word - np.uint64(1)
                n += 1
    request.listed = 1


@kernel
def expose(evidence: Evidence, request: Request) -> None:
    """Count a decision, and who was a candidate: one number for all arms, and one for each arm otherwise."""
    if request.epoch == ALL:
        evidence.rounds += 1
    else:
        exposures, mask = evidence.exposures[: evidence.n_arms], request.mask[: evidence.n_arms]
        for arm in range(exposures.size):
            exposures[arm] += mask[arm]
    for i in range(request.size):
        evidence.pulls[request.arms[i]] += 1
