"""Cells on a Ray cluster, of one machine or many."""

from __future__ import annotations

import os
import sys
import traceback
from collections.abc import Generator, Sequence
from typing import Any

from armtriage.experiments.cells import Cell, Outcome, failure, play

__all__ = ["on_ray"]


def on_ray(cells: Sequence[Cell], workers: int | None) -> Generator[tuple[Cell, Outcome]]:
    """Play the cells on the cluster that is connected, or that RAY_ADDRESS names, or else on one made for it here."""
    try:
        import ray
    except ImportError as error:
        raise ImportError("engine 'ray' needs Ray, of the extra 'ray': pip install 'armtriage[ray]'") from error
    own = not ray.is_initialized()
    if own and os.environ.get("RAY_ADDRESS"):
        ray.init()
    elif own:
        ray.init(address="local", num_cpus=workers, include_dashboard=False)
    task = ray.remote(num_cpus=1, max_retries=1)(_play)
    todo = iter(cells)
    playing: dict[Any, Cell] = {}
    try:
        while True:
            # The cluster may grow: some cells more than it has room for are always waiting.
            room = workers or 2 * int(ray.cluster_resources().get("CPU", 1)) + 8
            while len(playing) < room and (cell := next(todo, None)) is not None:
                playing[task.remote(sys.path, ray.cloudpickle.dumps(cell))] = cell
            if not playing:
                return
            for done in ray.wait(list(playing), num_returns=1)[0]:
                cell = playing.pop(done)
                try:
                    outcome = ray.get(done)
                except ray.exceptions.RayError as error:
                    outcome = f"{type(error).__name__}: {error}"
                yield cell, failure(cell, outcome) if isinstance(outcome, str) else outcome
    finally:
        for one in playing:
            ray.cancel(one, force=True)
        if own:
            ray.shutdown()


def _play(path: list[str], packed: bytes) -> Outcome | str | None:
    """Play a cell on a worker, which finds the users' modules where the driver does; a text says what went wrong."""
    import ray

    sys.path.extend(one for one in path if one not in sys.path)
    try:
        cell = ray.cloudpickle.loads(packed)
    except Exception:
        return traceback.format_exc()
    return play(cell)
