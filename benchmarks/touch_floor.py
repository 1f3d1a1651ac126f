"""Where cache misses set the floor: what it costs only to touch the arms that a round reveals."""

from __future__ import annotations

import time

import numpy as np
from numpy.typing import NDArray

from armtriage.kernels.jit import kernel
from armtriage.kernels.random import bits, row


@kernel
def _touch(
    n_rounds: int,
    n_seen: int,
    means: NDArray[np.float64],
    pairs: NDArray[np.float64],
    stamps: NDArray[np.int32],
    start: np.uint64,
) -> None:
    for number in range(n_rounds):
        luck = row(start, number)
        for i in range(n_seen):
            arm = np.int64(((bits(luck, i) >> np.uint64(32)) * np.uint64(means.size)) >> np.uint64(32))
            if stamps[arm] != number + 1:
                stamps[arm] = number + 1
                pairs[arm, 0] += 1.0
                pairs[arm, 1] += means[arm]


def per_round(n_arms: int, n_seen: int, n_rounds: int = 5_000) -> float:
    """Return the CPU seconds a round of looking up a mean and adding to a count for `n_seen` random arms."""
    means = np.random.default_rng(0).random(n_arms)
    best = float("inf")
    for _ in range(3):
        pairs, stamps = np.zeros((n_arms, 2)), np.zeros(n_arms, np.int32)
        _touch(1, n_seen, means, pairs, stamps, np.uint64(1))
        began = time.thread_time()
        _touch(n_rounds, n_seen, means, pairs, stamps, np.uint64(2))
        best = min(best, (time.thread_time() - began) / n_rounds)
    return best
