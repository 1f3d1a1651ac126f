"""Engines: where the cells of an experiment are played. The outcomes are the same, in whatever order they come."""

from __future__ import annotations

import os
from collections.abc import Generator, Sequence
from contextlib import closing
from functools import partial

from armtriage._arguments import check_choice, check_count
from armtriage.catalogue import INSTANCES
from armtriage.experiments.cells import Cell, Outcome, play
from armtriage.experiments.engines import _worker
from armtriage.experiments.engines._pool import pool
from armtriage.experiments.engines._ray import on_ray
from armtriage.policies.compiled import CompiledContextualPolicy, CompiledPolicy

__all__ = ["ENGINES", "processors", "run"]

ENGINES = ("auto", "serial", "threads", "processes", "ray")


def run(cells: Sequence[Cell], engine: str = "auto", workers: int | None = None) -> Generator[tuple[Cell, Outcome]]:
    """Play the cells, and yield each with its outcome as it is finished; a few at most are under way at a time.

    Close the iterator (see `contextlib.closing`) to end early: nothing goes on being played then.

    Parameters
    ----------
    cells : sequence of Cell
        What is played.
    engine : {"auto", "serial", "threads", "processes", "ray"}
        Threads are best for policies that are compiled, processes for all that hold Python's lock; ``"auto"`` chooses
        between them. Ray plays on the cluster that is connected, or that ``RAY_ADDRESS`` names, or makes one here.
    workers : int, optional
        How many cells are played at a time; by default one a processor that may be used, or all of the cluster.

    Examples
    --------
    >>> list(run([]))
    []
    """
    engine = check_choice("engine", engine, ENGINES)
    given = None if workers is None else check_count("workers", workers, 1)
    if _worker.IS_WORKER:
        raise RuntimeError(
            "experiments cannot run while the processes of another one start: in a script that defines policies or "
            "environments of its own, put what runs under `if __name__ == '__main__':`"
        )
    workers = min(given or processors(), max(len(cells), 1))
    if engine == "auto":
        engine = "serial" if workers == 1 else _best(cells)
    if engine == "serial":
        outcomes = ((cell, outcome) for cell in cells if (outcome := play(cell)) is not None)
    elif engine == "threads":
        outcomes = pool(cells, workers)
    elif engine == "processes":
        outcomes = pool(cells, workers, partial(_worker.Process, _worker.luggage(cells)))
    else:
        outcomes = on_ray(cells, given)
    return _signed(outcomes, engine)


def _signed(outcomes: Generator[tuple[Cell, Outcome]], engine: str) -> Generator[tuple[Cell, Outcome]]:
    with closing(outcomes):
        for cell, outcome in outcomes:
            outcome.record["engine"] = engine
            yield cell, outcome


def processors() -> int:
    """Return how many processors may be used."""
    return len(os.sched_getaffinity(0)) if hasattr(os, "sched_getaffinity") else os.cpu_count() or 1


def _best(cells: Sequence[Cell]) -> str:
    """Return threads for cells that are played by compiled loops, or that cannot be sent to another process."""
    pairs = {(cell.environment.key, cell.policy.key): cell for cell in cells}.values()
    if all(map(_is_compiled, pairs)):
        return "threads"
    try:
        _worker.luggage(cells)
    except TypeError:
        return "threads"
    return "processes"


def _is_compiled(cell: Cell) -> bool:
    instance, policy = cell.environment.instance, cell.policy.policy
    if not isinstance(instance, str) or INSTANCES[instance] == "decisions":
        return False
    return isinstance(policy, str) or issubclass(policy, CompiledPolicy | CompiledContextualPolicy)
