"""Clicks that come early: regret when they are told as they come, against two ways to do without their ages.

    python -m benchmarks.early_clicks --seeds 16

60 arms, 4 slots, click rates from Beta(2, 30), 15,000 visits. A visit is closed, and what was not clicked counts as 0,
when it is as many visits old as the time-out. Clicks are told when they come, with open visits counted by their age
(*by age*), or without (*at once*, as before), or at the time-out with all other rewards of the visit (*held*).
"""

from __future__ import annotations

import argparse
import math
import os
from collections.abc import Callable, Iterator
from concurrent.futures import ProcessPoolExecutor
from typing import NamedTuple

import numpy as np
from numpy.typing import NDArray

from armtriage import KLUCB, GuardedThompson, Policy, ThompsonSampling

POLICIES: dict[str, Callable[..., Policy]] = {
    "ThompsonSampling": ThompsonSampling,
    "GuardedThompson": GuardedThompson,
    "KLUCB": KLUCB,
}
DELAYS: dict[str, Callable[[float, float], float]] = {
    "uniform": lambda u, v: u,
    "exponential": lambda u, v: -math.log(1.0 - u) / 5.0,
    "mostly at once": lambda u, v: 0.0 if u < 0.9 else v,
}
"""The delay of a click as a share of the time-out, from two uniform numbers; what comes later than that is lost."""

TIMEOUTS = (100, 300, 1000, 5000)
WAYS = ("by age", "at once", "held")


class Cell(NamedTuple):
    """One run."""

    policy: str
    timeout: int
    delay: str
    way: str
    seed: int
    visits: int = 15_000


def regret(cell: Cell) -> float:
    """Play one run, and return what it lost in expected clicks."""
    means = np.random.default_rng([cell.seed, 1]).beta(2.0, 30.0, 60)
    luck = np.random.default_rng([cell.seed, 2]).random((3, cell.visits, 60))
    kind, delay = POLICIES[cell.policy], DELAYS[cell.delay]
    if cell.way == "at once":
        kind = type(f"Early{cell.policy}", (kind,), {"_weighs_open": False})  # type: ignore[arg-type]
    policy = kind(60, 4, seed=cell.seed)
    due: list[list[tuple[int, int]]] = [[] for _ in range(cell.visits)]
    seen: list[dict[int, int]] = []
    lost = 0.0
    for visit in range(cell.visits):
        if visit >= cell.timeout:
            if cell.way == "held":
                policy.tell(visit - cell.timeout, seen[visit - cell.timeout])
            else:
                policy.close_before(visit - cell.timeout + 1, default=0)
        arms = policy.ask().arms
        lost -= float(means[arms].sum())
        seen.append(dict.fromkeys(arms.tolist(), 0))
        for arm in arms[luck[0, visit, arms] < means[arms]].tolist():
            wait = int(cell.timeout * delay(*luck[1:, visit, arm].tolist()))
            if wait < cell.timeout:
                seen[visit][arm] = 1
                if visit + wait < cell.visits:
                    due[visit + wait].append((visit, arm))
        for number, arm in due[visit] if cell.way != "held" else ():
            policy.tell(number, {arm: 1}, last=False)
    return lost + cell.visits * float(np.sort(means)[-4:].sum())


def table(policies: list[str], seeds: int, workers: int) -> Iterator[str]:
    """Yield the lines of a table: mean regrets, and the ratio of the first to the better of the other two ways."""
    yield "| policy | delays | time-out " + " | ".join(f"{timeout:,}" for timeout in TIMEOUTS) + " |"
    yield "|---|---|" + "---|" * len(TIMEOUTS)
    with ProcessPoolExecutor(workers) as pool:
        for name in policies:
            for delay in DELAYS:
                shown = []
                for timeout in TIMEOUTS:
                    cells = [Cell(name, timeout, delay, way, seed) for way in WAYS for seed in range(seeds)]
                    lost = np.array(list(pool.map(regret, cells))).reshape(len(WAYS), seeds)
                    means = ", ".join(f"{mean:,.0f}" for mean in lost.mean(axis=1))
                    shown.append(f"{means}: {ratio(lost):.2f} ±{ratio_error(lost):.2f}")
                yield f"| `{name}` | {delay} | " + " | ".join(shown) + " |"


def ratio(lost: NDArray[np.float64]) -> float:
    """Return the mean of the first row over the least mean of the others."""
    means = lost.mean(axis=1)
    return float(means[0] / means[1:].min())


def ratio_error(lost: NDArray[np.float64]) -> float:
    """Return the standard error of the ratio, by leaving out each run in turn: the runs are paired."""
    n = lost.shape[1]
    without = np.array([ratio(np.delete(lost, run, axis=1)) for run in range(n)])
    return float(np.sqrt((n - 1) / n * ((without - without.mean()) ** 2).sum())) if n > 1 else math.nan


if __name__ == "__main__":
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--policies", nargs="+", default=list(POLICIES), choices=list(POLICIES))
    parser.add_argument("--seeds", type=int, default=16)
    parser.add_argument("--workers", type=int, default=os.cpu_count() or 1)
    given = parser.parse_args()
    for line in table(given.policies, given.seeds, given.workers):
        print(line, flush=True)
