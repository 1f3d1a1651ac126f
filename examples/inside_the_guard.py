"""What a recommender loses by itself and inside the guard, whether it sabotages, is stubborn, or learns."""

from __future__ import annotations

import argparse
import warnings
from collections.abc import Sequence
from typing import Any

import numpy as np
from numpy.typing import NDArray

from armtriage import (
    CombinatorialElimination,
    FeedbackGraph,
    Guard,
    GuardedThompson,
    Policy,
    StochasticEnvironment,
    ThompsonSampling,
    Trace,
    simulate,
)

ARMS, SLOTS = 20, 3
ALONE, MODES = "by itself", ("time", "shadow")


class Always(Policy):
    """Plays the same arms in every round, whatever it is told."""

    def __init__(self, graph: FeedbackGraph, *, slate: Sequence[int], seed: int | None = None) -> None:
        super().__init__(graph, len(slate), seed=seed)
        self.slate = slate

    def _select(self, number: int) -> NDArray[np.int64]:
        return np.array(self.slate)

    def _update(self, number: int, arms: Any, rewards: Any) -> None:
        pass


def policies() -> dict[str, dict[str, Policy]]:
    """Return each proposer by itself and inside the guard, and what to hold them against."""
    graph = FeedbackGraph.semi_bandit(ARMS)
    proposers: dict[str, Policy] = {
        "saboteur": Always(graph, slate=[0, 1, 2], seed=7),
        "stubborn": Always(graph, slate=[8, 9, 10], seed=7),
        "Thompson": ThompsonSampling(graph, SLOTS, seed=7),
    }
    rows = {
        name: {ALONE: one, **{mode: Guard(one, graph, SLOTS, mode=mode, seed=7) for mode in MODES}}
        for name, one in proposers.items()
    }
    rows["guarded Thompson"] = {mode: GuardedThompson(graph, SLOTS, mode=mode, seed=7) for mode in MODES}
    rows["elimination"] = {ALONE: CombinatorialElimination(graph, SLOTS, seed=7)}
    return rows


def cell(trace: Trace | None) -> str:
    """Return mean regret, its 95% interval and the mean certificate."""
    if trace is None or trace.certificate is None:
        return ""
    low, high = trace.interval()
    return f"{trace.mean[-1]:,.0f} [{low[-1]:,.0f}, {high[-1]:,.0f}], at most {trace.certificate[:, -1].mean():,.0f}"


def main(horizon: int = 20_000, replications: int = 4, figure: str | None = None) -> None:
    """Print a table, and draw the saboteur among others if a file is named."""
    world = StochasticEnvironment(np.linspace(0.1, 0.8, ARMS), FeedbackGraph.semi_bandit(ARMS), seed=7)
    traces = {}
    print(f"{ARMS} arms, {SLOTS} slots, {horizon:,} rounds, {replications} runs, seed 7\n")
    print(f"| | {ALONE} | inside, time | inside, shadow |\n|---|---|---|---|")
    with warnings.catch_warnings():
        warnings.filterwarnings("ignore", "Always|Guard")  # around a proposer in Python the loop cannot be compiled
        for name, row in policies().items():
            for how, policy in row.items():
                trace = simulate(policy, world, horizon=horizon, replications=replications, certificate=0.01)
                traces[name, how] = trace
            print(f"| {name} | {' | '.join(cell(traces.get((name, how))) for how in (ALONE, *MODES))} |")
    if figure is not None:
        from armtriage import plots

        shown = {f"saboteur, {how}": traces["saboteur", how] for how in (ALONE, *MODES)}
        shown |= {"elimination": traces["elimination", ALONE], "guarded Thompson": traces["guarded Thompson", "time"]}
        plots.save(plots.regret_curves(shown), figure)


if __name__ == "__main__":
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--figure", help="file for the regret curves around the saboteur, such as guard.png")
    main(figure=parser.parse_args().figure)
