"""Guarded, Thompson, UCB and elimination where not all arms are always there, measured in six regimes."""

from __future__ import annotations

from collections.abc import Callable
from typing import NamedTuple

import numpy as np
from numpy.typing import NDArray
from scipy.stats import t

from armtriage import (
    KLUCB,
    Arrivals,
    Availability,
    CombinatorialElimination,
    CombUCB1,
    FeedbackGraph,
    GuardedThompson,
    Patterns,
    Policy,
    RandomRounds,
    StochasticEnvironment,
    ThompsonSampling,
    simulate,
)

ARMS, SLOTS = 60, 6
POLICIES: dict[str, Callable[..., Policy]] = {
    "elimination": CombinatorialElimination,
    "CombUCB1": CombUCB1,
    "KLUCB": KLUCB,
    "Thompson": ThompsonSampling,
    "guarded": GuardedThompson,
    "guarded, shadow": lambda *given, **options: GuardedThompson(*given, mode="shadow", **options),
}


def halves(rng: np.random.Generator, horizon: int) -> Availability:
    """Return eight eligible sets, each a random half of all arms."""
    return Patterns([rng.permutation(ARMS)[: ARMS // 2] for _ in range(8)])


def coins(rng: np.random.Generator, horizon: int) -> Availability:
    """Let each arm by itself be eligible in half of the rounds."""
    return RandomRounds(0.5)


def added(rng: np.random.Generator, horizon: int) -> Availability:
    """Let every other arm come at a random time in the first half of the horizon."""
    return Arrivals(np.where(np.arange(ARMS) % 2, rng.integers(1, horizon // 2, ARMS), 0))


class Regime(NamedTuple):
    """Who is there when, and what a decision shows."""

    availability: Callable[[np.random.Generator, int], Availability] | None
    graph: FeedbackGraph = FeedbackGraph.semi_bandit(ARMS)
    sleepers_seen: bool = False


CLIQUES = FeedbackGraph.cliques([6] * 10)
REGIMES = {
    "all arms always": Regime(None),
    "8 patterns": Regime(halves),
    "each arm in half of the rounds": Regime(coins),
    "half of the arms added on the way": Regime(added),
    "8 patterns, 10 cliques, sleepers seen": Regime(halves, CLIQUES, True),
    "half of the rounds, 10 cliques": Regime(coins, CLIQUES),
}


def world(regime: Regime, seed: int, horizon: int) -> StochasticEnvironment:
    """Return a world with means and eligible sets of its own."""
    rng = np.random.default_rng([seed, 15])
    means = rng.random(ARMS)
    availability = None if regime.availability is None else regime.availability(rng, horizon)
    return StochasticEnvironment(means, regime.graph, seed=seed, availability=availability)


def play(
    regime: Regime, policy: Callable[..., Policy], horizon: int, runs: int
) -> tuple[NDArray[np.float64], NDArray[np.float64]]:
    """Return regret and certificate of each run at the end; every run has a world of its own."""
    regret, bound = np.zeros(runs), np.zeros(runs)
    for run in range(runs):
        environment = world(regime, run, horizon)
        one = policy(regime.graph, SLOTS, seed=run, sleepers_seen=regime.sleepers_seen)
        trace = simulate(one, environment, horizon=horizon, checkpoints=[horizon], certificate=0.01)
        assert trace.certificate is not None
        regret[run], bound[run] = trace.regret[0, -1], trace.certificate[0, -1]
    return regret, bound


def main(horizon: int = 20_000, runs: int = 12) -> None:
    """Print regret with a 95% interval over the runs and, in brackets, the average certificate, row by row."""
    print("| " + " | ".join(["", *POLICIES, "guarded / Thompson"]) + " |")
    print("|---" * (len(POLICIES) + 2) + "|")
    for name, regime in REGIMES.items():
        played = {label: play(regime, policy, horizon, runs) for label, policy in POLICIES.items()}
        cells = []
        for regret, bound in played.values():
            half = t.ppf(0.975, runs - 1) * regret.std(ddof=1) / np.sqrt(runs)
            cells.append(f"{regret.mean():,.0f} ± {half:,.0f} ({bound.mean():,.0f})")
        ratio = played["guarded"][0].mean() / played["Thompson"][0].mean()
        print("| " + " | ".join([name, *cells, f"{ratio:.2f}"]) + " |", flush=True)


if __name__ == "__main__":
    main()
