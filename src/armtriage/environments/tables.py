"""Worlds as compiled code sees them: one table type for each kind of environment, with its rewards and losses."""

from __future__ import annotations

import math

import numpy as np

from armtriage.kernels.beta import beta_quantile
from armtriage.kernels.jit import inlined, kernel
from armtriage.kernels.normal import normal
from armtriage.kernels.order import inner, kth_largest
from armtriage.kernels.random import uniform
from armtriage.kernels.record import Floats, Ints, Record

BERNOULLI, DETERMINISTIC, UNIFORM, BETA, REPLAY, BINARY, SAMPLED = range(7)
LAWS = {"bernoulli": BERNOULLI, "deterministic": DETERMINISTIC, "uniform": UNIFORM, "beta": BETA, "sampled": SAMPLED}
"""The laws of rewards in [0, 1], by name."""
LINEAR_LAWS = {"binary": BINARY, "uniform": UNIFORM, "deterministic": DETERMINISTIC, "bernoulli": BERNOULLI}
"""The laws of rewards that are linear in contexts, by name; in [-1, 1], or [0, 1] for the last."""

SPHERE, CUBE, FIXED, GIVEN = range(4)
CONTEXTS = ("sphere", "cube")
"""The kinds of contexts that are drawn in each round, each at the place of its code."""


class RewardTable(Record, frozen=True):
    """Arms with constant means, or a record of outcomes.

    Laws are those of rewards in [0, 1], where 0 is what is wanted least and 1 what is wanted most, costs or not.
    """

    kind: int  # the law of rewards, or REPLAY
    means: Floats  # (K,) on the unit scale
    groups: Ints  # (K,), or empty when no two arms share their luck
    concentration: float
    outcomes: Floats  # (rounds, K) for replays, (size, K) where rewards are sampled from them
    worth: Ints  # (K,) mean, without a decision set above the S-th best one, in units of `unit`
    best: int  # worth of the best decision
    unit: float  # for replays 1, and -1 if outcomes are costs
    best_outcomes: Floats  # (rounds,) what the best fixed decision paid, replay only
    zero: float  # what 0 on the unit scale is in the world's own units; 0 for replays, which are in these
    one: float  # and what 1 is


@kernel
def _draw(table: RewardTable, luck: np.uint64, number: int, arm: int) -> float:
    """Return the reward of an arm in round `number`, whose row of random numbers begins at `luck`."""
    if table.kind == REPLAY:
        return table.outcomes[number, arm]  # type: ignore[no-any-return]
    mean = table.means[arm]
    if table.kind == SAMPLED:
        column = table.groups[arm] if table.groups.size > 0 else arm
        return table.outcomes[int(uniform(luck, column) * table.outcomes.shape[0]), arm]  # type: ignore[no-any-return]
    if table.kind == DETERMINISTIC or mean <= 0.0 or mean >= 1.0:
        return mean  # type: ignore[no-any-return]
    column = table.groups[arm] if table.groups.size > 0 else arm
    u = uniform(luck, column)
    if table.kind == BERNOULLI:
        return 1.0 if u < mean else 0.0
    if table.kind == UNIFORM:
        return mean + (2.0 * u - 1.0) * min(mean, 1.0 - mean)  # type: ignore[no-any-return]
    return beta_quantile(u, table.concentration * mean, table.concentration * (1.0 - mean))


@kernel
@inlined
def draw_all(table: RewardTable, luck: np.uint64, number: int, arms: Ints, rewards: Floats) -> None:
    """Write the rewards of arms in round `number`; independent coins are what nearly every world has."""
    if table.kind == BERNOULLI and table.groups.size == 0:
        means = table.means
        for i in range(arms.size):
            rewards[i] = 1.0 if uniform(luck, arms[i]) < means[arms[i]] else 0.0
        return
    for i in range(arms.size):
        rewards[i] = _draw(table, luck, number, arms[i])


@kernel
def put_in_range(table: RewardTable, rewards: Floats, n: int) -> None:
    """Turn the first n rewards, which were drawn on the unit scale, into what the world tells."""
    zero, one = table.zero, table.one
    if zero == 0.0 and one == 1.0:
        return
    low, high = min(zero, one), max(zero, one)
    for i in range(n):
        # The ends are met exactly, so that mapping them back gives 0 and 1 again.
        told = one if rewards[i] >= 1.0 else zero + (one - zero) * rewards[i]
        rewards[i] = min(high, max(low, told))


@kernel
def loss(table: RewardTable, number: int, arms: Ints) -> float:
    """Return the regret of playing `arms` in round `number`; exactly 0 for every best decision."""
    if table.kind == REPLAY:
        total = table.best_outcomes[number]
        for i in range(arms.size):
            total -= table.outcomes[number, arms[i]]
        return total * table.unit  # type: ignore[no-any-return]
    worth = table.best
    for i in range(arms.size):
        worth -= table.worth[arms[i]]
    # An oracle with a tolerance, such as an integer programme, may have missed the best decision by a hair.
    return max(worth, 0) * table.unit


class LinearTable(Record, frozen=True):
    """Arms with contexts, drawn or given; rewards in [-1, 1], where 1 is what is wanted most, costs or not."""

    kind: int
    theta: Floats  # (d,) on that scale
    given: Floats  # (rounds, K, d) from round `first`; one round if FIXED, empty if contexts are generated
    first: int
    law: int
    half_width: float
    shared: bool
    scale: float  # what 1 is worth in the world's own units
    outcomes: Floats  # (rounds, K) from round `first`: rewards that were recorded; else empty


@kernel
def contexts_in(table: LinearTable, luck: np.uint64, number: int, scratch: Floats) -> Floats:
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
def fill_contexts(kind: int, luck: np.uint64, contexts: Floats) -> None:
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
def means_in(table: LinearTable, number: int, contexts: Floats, means: Floats) -> None:
    """Write the mean reward of each arm in round `number`, cut off at the ends of what rewards can be."""
    if table.outcomes.shape[0] > 0:
        for arm in range(means.size):
            means[arm] = table.outcomes[number - table.first, arm]
        return
    least = 0.0 if table.law == BERNOULLI else -1.0
    for arm in range(means.size):
        means[arm] = min(1.0, max(least, inner(table.theta, contexts[arm])))


@kernel
def draw_linear(table: LinearTable, luck: np.uint64, mean: float, arm: int) -> float:
    """Return the reward of an arm of that mean in the round whose row of random numbers begins at `luck`."""
    if table.law == DETERMINISTIC:
        return mean
    u = uniform(luck, 0 if table.shared else arm)
    if table.law == BINARY:
        return 1.0 if 2.0 * u - 1.0 < mean else -1.0
    if table.law == BERNOULLI:
        return 1.0 if u < mean else 0.0
    return min(1.0, max(-1.0, mean + table.half_width * (2.0 * u - 1.0)))


@kernel
def loss_linear(means: Floats, arms: Ints, scratch: Floats) -> float:
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
    if size < n:
        kth_largest(scratch, n, size)  # for its reordering, which puts the best first
    # In whole numbers a sum is exact and the same in any order.
    scale = 2.0 ** min(52, bits)
    total = np.int64(0)
    for i in range(size):
        total += np.int64(np.rint(scratch[i] * scale)) - np.int64(np.rint(means[arms[i]] * scale))
    return total / scale
