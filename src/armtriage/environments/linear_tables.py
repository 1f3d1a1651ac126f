"""A linear environment as compiled code sees it: one table type for every kind, its contexts, rewards and losses."""

from __future__ import annotations

import math

import numpy as np
from numpy.typing import NDArray

from armtriage.kernels.inner import inner
from armtriage.kernels.jit import kernel
from armtriage.kernels.normal import normal
from armtriage.kernels.random import uniform
from armtriage.kernels.record import Record

__all__ = [
    "CONTEXTS",
    "FIXED",
    "GIVEN",
    "REWARDS",
    "LinearTable",
    "contexts_in",
    "draw_linear",
    "fill_contexts",
    "loss_linear",
    "means_in",
]

SPHERE, CUBE, FIXED, GIVEN = range(4)
CONTEXTS = ("sphere", "cube")
BINARY, UNIFORM, DETERMINISTIC = range(3)
REWARDS = ("binary", "uniform", "deterministic")


class LinearTable(Record, frozen=True):
    """A linear environment as compiled code sees it; one type for every kind."""

    kind: int
    theta: NDArray[np.float64]  # (d,)
    given: NDArray[np.float64]  # (rounds, K, d) from round `first`; one round if FIXED, empty if contexts are generated
    first: int
    reward: int
    half_width: float
    shared: bool


@kernel
def contexts_in(table: LinearTable, luck: np.uint64, number: int, scratch: NDArray[np.float64]) -> NDArray[np.float64]:
    """Return the (K, d) contexts of round `number`, whose row of random numbers begins at `luck`.

    Given ones are not copied; generated ones are written into `scratch`, which is then returned.
    """
    if table.kind == FIXED:
        return table.given[0]  # type: ignore[no-any-return]
    if table.kind == GIVEN:
        return table.given[number - table.first]  # type: ignore[no-any-return]
    fill_contexts(table.kind, luck, scratch)
    return scratch


@kernel
def fill_contexts(kind: int, luck: np.uint64, contexts: NDArray[np.float64]) -> None:
    """Generate the contexts of a round: coordinate j of arm a comes from column a * d + j of the row at `luck`."""
    n_arms, dimension = contexts.shape
    if kind == CUBE:
        side = 1.0 / math.sqrt(dimension)
        for arm in range(n_arms):
            for j in range(dimension):
                contexts[arm, j] = side * (2.0 * uniform(luck, arm * dimension + j) - 1.0)
        return
    for arm in range(n_arms):
        square = 0.0
        for j in range(dimension):
            value = normal(luck, arm * dimension + j)
            contexts[arm, j] = value
            square += value * value
        norm = math.sqrt(square)
        for j in range(dimension):
            contexts[arm, j] /= norm


@kernel
def means_in(table: LinearTable, contexts: NDArray[np.float64], means: NDArray[np.float64]) -> None:
    """Write the mean reward of each arm into `means`, cut off at -1 and 1 against rounding."""
    for arm in range(means.size):
        means[arm] = min(1.0, max(-1.0, inner(table.theta, contexts[arm])))


@kernel
def draw_linear(table: LinearTable, luck: np.uint64, mean: float, arm: int) -> float:
    """Return the reward of an arm of that mean in the round whose row of random numbers begins at `luck`."""
    if table.reward == DETERMINISTIC:
        return mean
    u = uniform(luck, 0 if table.shared else arm)
    if table.reward == BINARY:
        return 1.0 if 2.0 * u - 1.0 < mean else -1.0
    return min(1.0, max(-1.0, mean + table.half_width * (2.0 * u - 1.0)))


@kernel
def loss_linear(means: NDArray[np.float64], arms: NDArray[np.int64], scratch: NDArray[np.float64]) -> float:
    """Return the regret of playing `arms` against the best arms; exactly 0 for every best decision.

    `scratch` has room for all means, and its contents do not matter.
    """
    size = arms.size
    least, bits = math.inf, 61
    for i in range(size):
        least = min(least, means[arms[i]])
    while size >> (61 - bits) > 0:
        bits -= 1
    # Only arms that are no worse than the worst one played can be among the best.
    n = 0
    for arm in range(means.size):
        scratch[n] = means[arm]
        n += means[arm] >= least
    # Quickselect, until the best lead.
    low, high = 0, n - 1
    while high >= size:
        pivot = scratch[(low + high) >> 1]
        i, j = low, high
        while i <= j:
            while scratch[i] > pivot:
                i += 1
            while pivot > scratch[j]:
                j -= 1
            if i <= j:
                scratch[i], scratch[j] = scratch[j], scratch[i]
                i += 1
                j -= 1
        if size - 1 <= j:
            high = j
        elif size - 1 >= i:
            low = i
        else:
            break
    # In whole numbers a sum is exact and the same in any order.
    scale = 2.0 ** min(52, bits)
    total = np.int64(0)
    for i in range(size):
        total += np.int64(np.rint(scratch[i] * scale)) - np.int64(np.rint(means[arms[i]] * scale))
    return total / scale
