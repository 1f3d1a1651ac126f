"""Engines: where the cells of an experiment are played. The outcomes are the same, in whatever order they come."""

from __future__ import annotations

import importlib
import os
import pickle
import re
import signal
import sys
import threading
import time
import traceback
from collections.abc import Callable, Generator, Iterable, Sequence
from concurrent.futures import FIRST_COMPLETED, Future, ThreadPoolExecutor, wait
from contextlib import closing
from itertools import islice
from typing import Any

from armtriage._arguments import check_choice, check_count
from armtriage.catalogue import INSTANCES
from armtriage.errors import ExperimentError
from armtriage.experiments.cells import Cell, Outcome, failure, play
from armtriage.policies.compiled import CompiledContextualPolicy
from armtriage.policies.slate import SlatePolicy

ENGINES = ("auto", "serial", "threads", "processes", "ray")

_IN_FLIGHT = 4
"""Cells per worker that are taken and not yet yielded: workers need not wait for the disk, nor fill the memory."""
_Played = Generator[tuple[Cell, Outcome]]


def run(cells: Sequence[Cell], engine: str = "auto", workers: int | None = None) -> _Played:
    """Play the cells, and yield each with its outcome as it is finished; only a few are under way at a time.

    Close the iterator (see `contextlib.closing`) to end early: nothing goes on being played then.

    Parameters
    ----------
    cells : sequence of Cell
        What is played.
    engine : {"auto", "serial", "threads", "processes", "ray"}
        Threads are best for policies that are compiled, processes for all that hold Python's lock; ``"auto"`` chooses
        between them. Ray plays on the cluster that is connected, or that ``RAY_ADDRESS`` names, or makes one here.
    workers : int, optional
        How many cells are played at a time; by default one per available processor, or as many as the cluster holds.

    Examples
    --------
    >>> list(run([]))
    []
    """
    engine = check_choice("engine", engine, ENGINES)
    given = None if workers is None else check_count("workers", workers, 1)
    workers = min(given or processors(), max(len(cells), 1))
    if engine == "auto":
        engine = "serial" if workers == 1 else _best(cells)
    if engine == "serial":
        outcomes = ((cell, outcome) for cell in cells if (outcome := play(cell)) is not None)
    elif engine == "threads":
        outcomes = _in_threads(cells, workers)
    elif engine == "processes":
        _check_sendable(cells)
        outcomes = _in_processes(cells, workers)
    else:
        outcomes = _on_ray(cells, given)
    return _signed(outcomes, engine)


def _signed(outcomes: _Played, engine: str) -> _Played:
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
        _check_sendable(cells)
    except TypeError:
        return "threads"
    return "processes"


def _is_compiled(cell: Cell) -> bool:
    instance, policy = cell.environment.instance, cell.policy.policy
    if not isinstance(instance, str) or INSTANCES[instance] == "decisions":
        return False
    return isinstance(policy, str) or issubclass(policy, CompiledContextualPolicy | SlatePolicy)


def _in_threads(cells: Sequence[Cell], workers: int) -> _Played:
    stop = threading.Event()
    return _pool(cells, workers, lambda cell: play(cell, stop), stop.set, [])


def _in_processes(cells: Sequence[Cell], workers: int) -> _Played:
    """Play the cells in processes, and yield them as they are finished.

    A cell whose process died may not be to blame: it is played once more at the end, alone. If its process dies again,
    it has failed.
    """
    suspects: _Dead = []
    processes = _Processes()
    yield from _pool(cells, workers, processes.play, processes.close, suspects)
    for cell, _ in suspects:
        again: _Dead = []
        processes = _Processes()
        yield from _pool([cell], 1, processes.play, processes.close, again)
        for _, death in again:
            yield cell, failure(cell, f"{death}, twice; the second time nothing else was being played")


def _pool(
    cells: Iterable[Cell],
    workers: int,
    play_one: Callable[[Cell], Outcome | None],
    close: Callable[[], None],
    dead: _Dead,
) -> _Played:
    """Play the cells in threads; those whose processes died are added to `dead`. At the end, `close` stops all play."""
    todo, playing = iter(cells), dict[Future[Outcome | None], Cell]()
    threads = ThreadPoolExecutor(workers, thread_name_prefix="armtriage")
    try:
        while True:
            for cell in islice(todo, _IN_FLIGHT * workers - len(playing)):
                playing[threads.submit(play_one, cell)] = cell
            if not playing:
                return
            # Where waiting cannot be interrupted, Ctrl+C has its turn in between.
            done, _ = wait(playing, timeout=1.0, return_when=FIRST_COMPLETED)
            for future in islice(done, 1):
                cell = playing.pop(future)
                try:
                    outcome = future.result()
                except _Died as death:
                    dead.append((cell, death))
                else:
                    if outcome is not None:
                        yield cell, outcome
    finally:
        close()
        threads.shutdown(cancel_futures=True)


class _Died(Exception):
    """The process that played a cell is no more, and the cell was not finished; the message says how it ended."""


_Dead = list[tuple[Cell, _Died]]


class _Processes:
    """A process for each thread that plays: one that dies takes no other cell with it, and its cell is known."""

    def __init__(self) -> None:
        self._executors: dict[int, Any] = {}
        self._lock = threading.Lock()
        self._closed = False

    def play(self, cell: Cell) -> Outcome:
        """Return the outcome, or raise `_Died`."""
        executor = self._executors.get(threading.get_ident()) or self._start()
        try:
            outcome = executor.submit(_play, sys.path, _library("cloudpickle").dumps(cell)).result()
        except RuntimeError as error:
            self._end(threading.get_ident())
            raise _Died(f"the process that played it {_ending(error)}") from error
        return failure(cell, outcome) if isinstance(outcome, str) else outcome

    def _start(self) -> Any:
        """Return a new process that is ready; if it cannot be had, no other could."""
        env = {"POLARS_MAX_THREADS": "1", "PYTHONWARNINGS": ",".join(sys.warnoptions)}
        with self._lock:
            if self._closed:
                raise _Died("stopped")
            executor = _library("loky").ProcessPoolExecutor(1, initializer=_prepare, initargs=(os.getpid(),), env=env)
            self._executors[threading.get_ident()] = executor
        try:
            executor.submit(os.getpid).result()
        except RuntimeError as error:
            if self._closed:
                raise _Died("stopped") from error
            raise ExperimentError(f"a process could not start: it {_ending(error)}") from error
        return executor

    def close(self) -> None:
        """End all processes, whatever they are doing."""
        with self._lock:
            self._closed = True
        for thread in list(self._executors):
            self._end(thread)

    def _end(self, thread: int) -> None:
        # The thread that takes it out ends it: loky does not expect that from two threads at a time.
        if (executor := self._executors.pop(thread, None)) is not None:
            executor.shutdown(kill_workers=True)


def _library(name: str) -> Any:
    try:
        return importlib.import_module(name)
    except ImportError as error:
        raise ImportError(f"engine 'processes' needs {name}: pip install 'armtriage[experiments]'") from error


def _ending(error: RuntimeError) -> str:
    """Say how a process ended, of which loky tells in words such as ``SIGKILL(-9)``."""
    found = re.search(r"\w+\((-?\d+)\)", str(error))
    code = int(found[1]) if found else 1
    if code < 0:
        return f"was ended by signal {-code}, {signal.strsignal(-code)}" + ": out of memory?" * (code == -9)
    return f"ended with exit code {code}"


def _prepare(parent: int) -> None:
    """Make a new process ready to play cells for its parent."""
    # The Ctrl+C in a terminal is meant for the parent, and what users' code prints is not part of its output.
    signal.signal(signal.SIGINT, signal.SIG_IGN)
    os.dup2(2, 1)
    threading.Thread(target=_outlive, args=(parent,), daemon=True).start()


def _outlive(parent: int) -> None:
    """End this process, whatever it is playing, when its parent is gone."""
    while os.getppid() == parent:
        time.sleep(0.5)
    os._exit(1)


def _play(path: list[str], packed: bytes) -> Outcome | str | None:
    """Play a cell in another process, which finds users' modules where its parent does; a text says what went wrong."""
    sys.path.extend(one for one in path if one not in sys.path)
    try:
        cell = pickle.loads(packed)
    except Exception:
        return traceback.format_exc()
    return play(cell)


def _check_sendable(cells: Iterable[Cell]) -> None:
    """Refuse users' functions and classes that cannot be sent to another process."""
    used = [thing for cell in cells for thing in (cell.environment.instance, cell.policy.policy)]
    for thing in {id(thing): thing for thing in used if not isinstance(thing, str)}.values():
        dumps = _library("cloudpickle").dumps
        try:
            dumps(thing)
        except Exception as error:
            raise TypeError(
                f"engine 'processes' cannot send {thing!r} to another process ({error}): use engine 'threads'"
            ) from error


def _on_ray(cells: Sequence[Cell], workers: int | None) -> _Played:
    """Play the cells on the cluster that is connected, or that RAY_ADDRESS names, or else on one made for it here."""
    try:
        import ray
    except ImportError as error:
        raise ImportError("engine 'ray' needs Ray: pip install 'armtriage[ray]'") from error
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
                yield (
                    cell,
                    failure(cell, outcome) if isinstance(outcome, str) else outcome,
                )
    finally:
        for one in playing:
            ray.cancel(one, force=True)
        if own:
            ray.shutdown()
