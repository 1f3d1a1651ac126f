"""What it costs to start: CPU seconds of fresh processes, with and without machine code on disk."""

from __future__ import annotations

import os
import resource
import subprocess
import sys
import tempfile

__all__ = ["POLICIES", "cpu_seconds", "first_decision"]

_GRAPH = "from armtriage import FeedbackGraph, {0}; policy = {0}(FeedbackGraph.semi_bandit(100), 5, seed=1)"
_ASK_AND_TELL = "decision = policy.ask({0}); policy.tell(decision, [1, 0, 1, 0, 1])"
_LINEAR = "import numpy; from armtriage import {0}; policy = {0}(100, 10, 5, seed=1)"

POLICIES: dict[str, float] = {
    "GuardedThompson": 8.0,
    "ThompsonSampling": 3.0,
    "CombUCB1": 3.0,
    "GuardedLinear": 4.0,
    "C2UCB": 3.0,
    "CombinatorialElimination": 5.0,
}
"""The most CPU seconds that import, first ask and first tell may take without machine code on disk."""


def first_decision(policy: str) -> list[str]:
    """Return the command that imports the library, asks once and tells."""
    linear = policy in ("C2UCB", "GuardedLinear")
    made = (_LINEAR if linear else _GRAPH).format(policy)
    return [sys.executable, "-c", f"{made}; {_ASK_AND_TELL.format('numpy.zeros((100, 10))' if linear else '')}"]


def cpu_seconds(command: list[str], cache: str | None = None) -> float:
    """Return the CPU seconds, of all its threads and children, that a command takes."""
    environment = dict(os.environ)
    if cache is not None:
        environment |= {"XDG_CACHE_HOME": cache, "NUMBA_CACHE_DIR": ""}
    before = resource.getrusage(resource.RUSAGE_CHILDREN)
    with tempfile.TemporaryDirectory() as folder:
        subprocess.run(command, check=True, capture_output=True, env=environment, cwd=folder)
    after = resource.getrusage(resource.RUSAGE_CHILDREN)
    return (after.ru_utime - before.ru_utime) + (after.ru_stime - before.ru_stime)
