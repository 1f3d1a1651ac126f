"""17,632 items for 20 places, as in a large catalogue: cold, from an old log, and where the best change halfway.

The rate of an item is 0.004 exp(1.2 Z), at most 0.5, with Z normal: half of all items are below 0.4%, and the best 20
from 0.15 up. The old log has 50 rewards of each item, from rates that differ from those of today by up to 0.01. In
one of the worlds the 100 best items exchange their rates with 100 others halfway. All meet the same luck.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from typing import Any

import numpy as np

from armtriage import (
    KLUCB,
    CombUCB1,
    DriftingEnvironment,
    Greedy,
    GuardedIndex,
    GuardedThompson,
    Jump,
    OldLog,
    Policy,
    StochasticEnvironment,
    ThompsonSampling,
)
from benchmarks.compare.drift import Array, contest

ITEMS, BUDGET, SEED, LOOKS, BIAS = 17_632, 20, 29, 50, 0.01


def rates() -> Array:
    """Return the rates of all items."""
    return np.minimum(0.004 * np.exp(1.2 * np.random.default_rng(SEED).standard_normal(ITEMS)), 0.5)


def old_log() -> OldLog:
    """Return a log of rates that were a little different."""
    rng = np.random.default_rng(SEED + 1)
    before = np.clip(rates() + rng.uniform(-BIAS, BIAS, ITEMS), 0.0, 1.0)
    return OldLog(counts=np.full(ITEMS, LOOKS), sums=rng.binomial(LOOKS, before), bias=BIAS)


PLAYERS: dict[str, Callable[[int], Policy]] = {
    "`GuardedThompson`": lambda rounds: GuardedThompson(ITEMS, BUDGET, seed=SEED),
    "`GuardedIndex`": lambda rounds: GuardedIndex(ITEMS, BUDGET, seed=SEED),
    "`GuardedThompson` with the old log": lambda rounds: GuardedThompson(ITEMS, BUDGET, old_log=old_log(), seed=SEED),
    "`GuardedIndex` with the old log": lambda rounds: GuardedIndex(ITEMS, BUDGET, old_log=old_log(), seed=SEED),
    "`ThompsonSampling`": lambda rounds: ThompsonSampling(ITEMS, BUDGET, seed=SEED),
    "`KLUCB`": lambda rounds: KLUCB(ITEMS, BUDGET, seed=SEED),
    "`CombUCB1`": lambda rounds: CombUCB1(ITEMS, BUDGET, seed=SEED),
    "`Greedy`": lambda rounds: Greedy(ITEMS, BUDGET, seed=SEED),
}


def worlds(rounds: int) -> dict[str, Any]:
    """Return the worlds by name."""
    now = rates()
    still = StochasticEnvironment(now, ITEMS, seed=SEED)
    after, best = now.copy(), np.argsort(-now)[:100]
    others = np.random.default_rng(SEED + 2).choice(np.setdiff1d(np.arange(ITEMS), best), 100, replace=False)
    after[best], after[others] = now[others], now[best]
    return {"still": still, "the best change halfway": DriftingEnvironment(still, Jump({rounds // 2: after}))}


def main(arguments: Sequence[str]) -> None:
    """Play all players in both worlds."""
    contest("many", __doc__, PLAYERS, worlds, arguments, runs=4)
