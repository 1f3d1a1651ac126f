"""A process that plays cells: the parent's end of it, and what runs inside.

The two talk through the process's own standard input and output. So the process needs nothing of the parent but what
it is sent, it notices at once when the parent is gone, and the parent knows which cell it was at when it dies.
"""

from __future__ import annotations

import contextlib
import os
import pickle
import queue
import runpy
import signal
import subprocess
import sys
import threading
import traceback
import types
from collections.abc import Iterable
from typing import Any, BinaryIO

from armtriage.errors import ExperimentError
from armtriage.experiments.cells import Cell, Outcome, failure, play
from armtriage.experiments.engines._pool import Died

__all__ = ["Process", "luggage", "main"]

IS_WORKER = False
"""Whether this process is one that plays cells for another."""

_START = (
    "import os, pickle, sys; jobs = os.fdopen(os.dup(0), 'rb'); sys.path[:] = pickle.load(jobs); "
    "from armtriage.experiments.engines._worker import main; main(jobs)"
)

_BROKEN = (OSError, EOFError, ValueError, pickle.UnpicklingError)
"""What it looks like here when the process is no more."""


def luggage(cells: Iterable[Cell]) -> tuple[str, str] | None:
    """Return where a process finds what the main script defines, as its kind and name; None if no cell uses that.

    Raises
    ------
    TypeError
        If a user's function or class cannot be sent to another process.
    """
    used = [thing for cell in cells for thing in (cell.environment.instance, cell.policy.policy)]
    own = {id(thing): thing for thing in used if not isinstance(thing, str)}.values()
    place = _main_place()
    for thing in own:
        try:
            pickle.dumps(thing)
        except (AttributeError, TypeError, pickle.PicklingError) as error:
            raise _unsendable(thing) from error
        if place is None and _is_of_main(thing):
            raise _unsendable(thing)
    return place if any(map(_is_of_main, own)) else None


def _is_of_main(thing: Any) -> bool:
    return getattr(getattr(thing, "func", thing), "__module__", None) == "__main__"


def _main_place() -> tuple[str, str] | None:
    script = sys.modules["__main__"]
    if (spec := getattr(script, "__spec__", None)) is not None:
        return "module", spec.name
    path = getattr(script, "__file__", None)
    return ("file", os.path.abspath(path)) if path and os.path.exists(path) else None


def _unsendable(thing: Any) -> TypeError:
    return TypeError(
        f"engine 'processes' cannot send {thing!r} to another process: define it at the top of a file, "
        "outside of any function, or use engine 'threads'"
    )


class Process:
    """The parent's end of a process that plays cells."""

    def __init__(self, main_place: tuple[str, str] | None) -> None:
        # In a group of its own it does not get the Ctrl+C that is meant for the parent.
        self._process = subprocess.Popen(
            [sys.executable, *(f"-W{one}" for one in sys.warnoptions), "-c", _START],
            stdin=subprocess.PIPE,
            stdout=subprocess.PIPE,
            env={"POLARS_MAX_THREADS": "1", **os.environ},
            process_group=0,
            creationflags=getattr(subprocess, "CREATE_NEW_PROCESS_GROUP", 0),
        )
        self._ready = False
        with contextlib.suppress(OSError):
            self._send(sys.path)
            self._send((sys.argv, main_place))

    def play(self, cell: Cell) -> Outcome:
        """Return the outcome, or raise `Died`."""
        if not self._ready:
            self._greet()
        try:
            # Packed twice, so that what cannot be unpacked there does not block the way of what follows.
            self._send(pickle.dumps(cell))
            outcome: Outcome | str = self._receive()
        except _BROKEN as error:
            raise Died(f"the process that played it {self._end()}") from error
        return failure(cell, outcome) if isinstance(outcome, str) else outcome

    def _greet(self) -> None:
        """Wait until it says that it is ready; if it is not, no other would be."""
        try:
            error = self._receive()
        except _BROKEN:
            error = f"it {self._end()}"
        if error is not None:
            raise ExperimentError(f"a process could not start: {error}")
        self._ready = True

    def close(self) -> None:
        """End the process, whatever it is doing."""
        self._process.kill()
        self._process.wait()
        for pipe in (self._process.stdin, self._process.stdout):
            assert pipe is not None
            with contextlib.suppress(OSError):
                pipe.close()

    def _send(self, message: Any) -> None:
        assert self._process.stdin is not None
        pickle.dump(message, self._process.stdin)
        self._process.stdin.flush()

    def _receive(self) -> Any:
        assert self._process.stdout is not None
        return pickle.load(self._process.stdout)

    def _end(self) -> str:
        code = self._process.wait()
        if code < 0:
            return f"was ended by signal {-code}, {signal.strsignal(-code)}" + ": out of memory?" * (code == -9)
        return f"ended with exit code {code}"


def main(jobs: BinaryIO) -> None:
    """Play the cells that come in, until the parent closes the way or dies."""
    global IS_WORKER
    IS_WORKER = True
    # What users' code reads is not the cells, and what it prints is no outcome.
    out = os.fdopen(os.dup(1), "wb")
    os.dup2(os.open(os.devnull, os.O_RDONLY), 0)
    os.dup2(2, 1)
    try:
        error = _unpack(*pickle.load(jobs))
        todo: queue.SimpleQueue[bytes] = queue.SimpleQueue()
        threading.Thread(target=_listen, args=(jobs, todo), daemon=True).start()
        _answer(out, error)
        while True:
            _answer(out, _play(todo.get()))
    except BrokenPipeError:
        pass
    except BaseException:
        traceback.print_exc()
    finally:
        # An ordinary end would wait for the thread that listens.
        os._exit(1)


def _play(job: bytes) -> Outcome | str | None:
    try:
        cell = pickle.loads(job)
    except Exception:
        return traceback.format_exc()
    return play(cell)


def _answer(out: BinaryIO, message: Any) -> None:
    pickle.dump(message, out)
    out.flush()


def _listen(jobs: BinaryIO, todo: queue.SimpleQueue[bytes]) -> None:
    try:
        while True:
            todo.put(pickle.load(jobs))
    finally:
        os._exit(0)


def _unpack(argv: list[str], main_place: tuple[str, str] | None) -> str | None:
    """Define here what the parent's main script defines there; return what went wrong."""
    sys.argv = argv
    try:
        if main_place is not None:
            kind, name = main_place
            run = runpy.run_module if kind == "module" else runpy.run_path
            script = types.ModuleType("__mp_main__")
            vars(script).update(run(name, run_name="__mp_main__"))
            sys.modules["__main__"] = sys.modules["__mp_main__"] = script
    except (Exception, SystemExit):
        return traceback.format_exc()
    return None
