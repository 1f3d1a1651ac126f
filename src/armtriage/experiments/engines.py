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
from typing import Any, Protocol

from armtriage._arguments import check_choice, check_count
from armtriage.catalogue import INSTANCES
from armtriage.errors import ExperimentError
from armtriage.experiments.cells import Cell, Outcome, failure, play
from armtriage.policies.compiled import CompiledContextualPolicy, CompiledPolicy

__all__ = ["ENGINES", "processors", "run"]

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
        outcomes = _pool(cells, workers, _Here)
    elif engine == "processes":
        _check_sendable(cells)
        outcomes = _pool(cells, workers, _Process)
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
    return isinstance(policy, str) or issubclass(policy, CompiledPolicy | CompiledContextualPolicy)


class _Died(Exception):
    """The player is no more, and its cell was not finished; the message says how it ended."""


class _Player(Protocol):
    """Plays one cell after another."""

    def play(self, cell: Cell) -> Outcome:
        """Return the outcome, or raise `_Died`."""

    def close(self) -> None:
        """End at once, whatever is being played; may be called from any thread, and more than once."""


def _pool(cells: Sequence[Cell], workers: int, start: Callable[[], _Player]) -> _Played:
    """Play the cells in this many threads, each with a player of its own, and yield them as they are finished.

    A cell whose player died may not be to blame: it is played once more at the end, alone. If its player dies again,
    it has failed.
    """
    suspects: list[tuple[Cell, _Died]] = []
    yield from _turns(cells, workers, start, suspects)
    for cell, _ in suspects:
        again: list[tuple[Cell, _Died]] = []
        yield from _turns([cell], 1, start, again)
        for _, death in again:
            yield cell, failure(cell, f"{death}, twice; the second time nothing else was being played")


def _turns(
    cells: Iterable[Cell], workers: int, start: Callable[[], _Player], dead: list[tuple[Cell, _Died]]
) -> _Played:
    """Play the cells, and yield those that are finished; those whose players died are added to `dead`."""
    crew, todo = _Crew(start), iter(cells)
    playing: dict[Future[Outcome], Cell] = {}
    threads = ThreadPoolExecutor(workers, thread_name_prefix="armtriage")
    try:
        while True:
            for cell in islice(todo, _IN_FLIGHT * workers - len(playing)):
                playing[threads.submit(crew.play, cell)] = cell
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
                    yield cell, outcome
    finally:
        crew.close()
        threads.shutdown(cancel_futures=True)


class _Crew:
    """The players of a pool, one for each of its threads."""

    def __init__(self, start: Callable[[], _Player]) -> None:
        self._start = start
        self._players: set[_Player] = set()
        self._lock = threading.Lock()
        self._own = threading.local()
        self._closed = False

    def play(self, cell: Cell) -> Outcome:
        """Play a cell with this thread's player."""
        player = getattr(self._own, "player", None)
        if player is None:
            player = self._own.player = self._start()
            with self._lock:
                self._players.add(player)
                late = self._closed
            if late:
                player.close()
        try:
            return player.play(cell)
        except _Died:
            self._own.player = None
            with self._lock:
                self._players.discard(player)
            player.close()
            raise

    def close(self) -> None:
        """End all players."""
        with self._lock:
            self._closed = True
            players = set(self._players)
        for player in players:
            player.close()


class _Here:
    """Plays in this process."""

    def __init__(self) -> None:
        self._stop = threading.Event()

    def play(self, cell: Cell) -> Outcome:
        outcome = play(cell, self._stop)
        if outcome is None:
            raise _Died("stopped")
        return outcome

    def close(self) -> None:
        self._stop.set()


class _Process:
    """Plays in a process of its own, so that one that dies takes no other cell with it."""

    def __init__(self) -> None:
        env = {"POLARS_MAX_THREADS": "1", "PYTHONWARNINGS": ",".join(sys.warnoptions)}
        self._executor = _loky().ProcessPoolExecutor(1, initializer=_prepare, initargs=(os.getpid(),), env=env)
        self._lock = threading.Lock()
        self._ready = False

    def play(self, cell: Cell) -> Outcome:
        if not self._ready:
            self._greet()
        packed = _cloudpickle().dumps(cell)
        try:
            outcome = self._executor.submit(_play, sys.path, packed).result()
        except RuntimeError as error:
            raise _Died(f"the process that played it {_end(error)}") from error
        return failure(cell, outcome) if isinstance(outcome, str) else outcome

    def _greet(self) -> None:
        """Wait until it is ready; if it is not, no other would be."""
        try:
            self._executor.submit(os.getpid).result()
        except _loky().process_executor.ShutdownExecutorError as error:
            raise _Died("stopped") from error
        except RuntimeError as error:
            raise ExperimentError(f"a process could not start: it {_end(error)}") from error
        self._ready = True

    def close(self) -> None:
        with self._lock:
            self._executor.shutdown(kill_workers=True)


def _loky() -> Any:
    try:
        return importlib.import_module("loky")
    except ImportError as error:
        raise ImportError("engine 'processes' needs loky, of the extra 'experiments': pip install loky") from error


def _cloudpickle() -> Any:
    _loky()
    return importlib.import_module("cloudpickle")


def _end(error: RuntimeError) -> str:
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
        try:
            _cloudpickle().dumps(thing)
        except Exception as error:
            raise TypeError(
                f"engine 'processes' cannot send {thing!r} to another process ({error}): use engine 'threads'"
            ) from error


def _on_ray(cells: Sequence[Cell], workers: int | None) -> _Played:
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
