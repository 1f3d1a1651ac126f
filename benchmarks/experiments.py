"""Experiments: what a cell costs beside its simulation, in time and memory, and what a second worker brings."""

from __future__ import annotations

import json
import resource
import subprocess
import sys
import tempfile
import time
from collections.abc import Sequence
from pathlib import Path
from typing import Any, NamedTuple

from armtriage import Experiment
from armtriage.catalogue import build_instance, build_policy
from armtriage.experiments.cells import Cell, play
from armtriage.simulation.simulate import simulate

__all__ = ["Sweep", "bare", "ordinary", "sweep", "tiny"]


class Sweep(NamedTuple):
    """How long a sweep took, again with nothing left to do, and the parent's memory."""

    cells: int
    seconds: float
    again: float
    megabytes: float


def tiny() -> Experiment:
    """Return 10,000 cells of ten rounds."""
    return Experiment(
        [{"instance": "random", "n_arms": list(range(5, 15)), "budget": 2}],
        [{"policy": "ucb", "width": [round(0.1 * step, 1) for step in range(1, 11)]}],
        horizon=10,
        replications=100,
        block=1,
        seed=1,
        checkpoints=10,
    )


def ordinary(policy: str) -> Experiment:
    """Return 32 cells of less than a second."""
    rounds = {"comb_ucb1": 1_000_000, "constrained": 1_500}[policy]
    instance = {"comb_ucb1": "random:n_arms=100,budget=5", "constrained": "assignment:left=10,right=10"}[policy]
    return Experiment([instance], [policy], horizon=rounds, replications=128, block=4, seed=1)


def bare(cells: Sequence[Cell]) -> float:
    """Play the cells with nothing but `simulate`, and return the seconds."""
    ready: dict[tuple[str, str], Any] = {}
    for cell in cells:
        spec, horizon = cell.environment, cell.environment.horizon
        if (spec.key, cell.policy.key) not in ready:
            environment, budget = build_instance(spec.instance, spec.options, horizon, cell.environment_seed(0))
            rest = environment, budget, horizon, cell.policy_seed
            policy = build_policy(cell.policy.policy, cell.policy.options, *rest)
            ready[spec.key, cell.policy.key] = policy, environment
            simulate(policy, environment, horizon=1)
    began = time.perf_counter()
    for cell in cells:
        policy, environment = ready[cell.environment.key, cell.policy.key]
        simulate(
            policy,
            environment,
            horizon=cell.environment.horizon,
            replications=cell.count,
            first_replication=cell.first,
            checkpoints=cell.checkpoints,
            workers=1,
        )
    return time.perf_counter() - began


def _measure(what: str, engine: str, workers: int) -> Sweep:
    experiment = tiny() if what == "tiny" else ordinary(what)
    play(experiment.cells[0])
    times = []
    with tempfile.TemporaryDirectory() as folder:
        for _ in range(2):
            began = time.perf_counter()
            results = experiment.run(folder, engine=engine, workers=workers)
            times.append(time.perf_counter() - began)
            assert results.missing == results.failed == 0
    return Sweep(len(experiment.cells), times[0], times[1], _peak())


def _peak() -> float:
    """Return the most memory that this process has had, in MB; Linux's usual figure begins with its parent's."""
    if sys.platform == "linux":
        held = dict(line.split(":") for line in Path("/proc/self/status").read_text().splitlines())
        return int(held["VmHWM"].split()[0]) / 1024
    return resource.getrusage(resource.RUSAGE_SELF).ru_maxrss / 1024**2


def sweep(what: str, engine: str, workers: int) -> Sweep:
    """Measure in a process of its own, so that the memory is that of a sweep and nothing else."""
    command = [sys.executable, "-m", "benchmarks.experiments", what, engine, str(workers)]
    return Sweep(*json.loads(subprocess.run(command, check=True, capture_output=True, text=True).stdout))


if __name__ == "__main__":
    print(json.dumps(_measure(sys.argv[1], sys.argv[2], int(sys.argv[3]))))
