"""A slate of 3 from 12 items, as a service would run it: rewards come late or never, and the process restarts."""

from __future__ import annotations

import tempfile
from pathlib import Path

import numpy as np

from armtriage import CombinatorialElimination, FeedbackGraph, Policy, StochasticEnvironment


def main(rounds: int = 4_000) -> None:
    """Play, restart half-way, and print what has been decided."""
    rng = np.random.default_rng(7)
    graph = FeedbackGraph.semi_bandit(12)
    world = StochasticEnvironment([*np.linspace(0.1, 0.5, 9), 0.7, 0.8, 0.9], graph, seed=7)
    policy: Policy = CombinatorialElimination(graph, budget=3, seed=7)
    waiting: list[int] = []
    with tempfile.TemporaryDirectory() as folder:
        for number in range(rounds):
            waiting.append(policy.ask().number)
            if number == rounds // 2:
                policy.save(Path(folder, "slate"))
                policy = Policy.load(Path(folder, "slate"))
            # A little more than one decision a round is told, in any order; one reward in ten is lost.
            while waiting and rng.random() < 0.52:
                told = waiting.pop(int(rng.integers(len(waiting))))
                arms = next(one.revealed for one in policy.open_decisions if one.number == told)
                rewards = world.rewards(told, arms)
                kept = rng.random(arms.size) < 0.9
                policy.tell(told, dict(zip(arms[kept].tolist(), rewards[kept].tolist(), strict=True)))
    assert isinstance(policy, CombinatorialElimination)
    triage = policy.triage
    print(f"open decisions: {len(policy.open_decisions)}")
    print(f"confirmed {triage.confirmed.tolist()}, active {triage.active.tolist()}")
    print(f"eliminated {triage.eliminated.tolist()}")


if __name__ == "__main__":
    main()
