"""Threads that play cells, each by itself or through a process of its own."""

from __future__ import annotations

import queue
import threading
from collections.abc import Callable, Generator, Sequence
from typing import Protocol

from armtriage.experiments.cells import Cell, Outcome, failure, play

__all__ = ["Died", "Player", "pool"]

_IN_FLIGHT = 4
"""Cells a worker that may be taken and not yet yielded: workers need not wait for the disk, nor fill the memory."""


class Died(Exception):
    """The player is no more, and its cell was not finished; the message says how it ended."""


class Player(Protocol):
    """Plays one cell after another."""

    def play(self, cell: Cell) -> Outcome:
        """Return the outcome, or raise `Died`."""

    def close(self) -> None:
        """End at once, whatever is being played; may be called from any thread."""


class _Here:
    """Plays in this process."""

    def __init__(self) -> None:
        self._stop = threading.Event()

    def play(self, cell: Cell) -> Outcome:
        outcome = play(cell, self._stop)
        if outcome is None:
            raise Died("stopped")
        return outcome

    def close(self) -> None:
        self._stop.set()


def pool(
    cells: Sequence[Cell], workers: int, start: Callable[[], Player] | None = None
) -> Generator[tuple[Cell, Outcome]]:
    """Play the cells in this many threads, with a player each, and yield them as they are finished.

    A cell whose player died may not be to blame: it is played once more at the end, alone. If its player dies again,
    it has failed.
    """
    crew = _Crew(cells, workers, start or _Here)
    threads = [threading.Thread(target=crew.work, daemon=True, name=f"armtriage-{n}") for n in range(workers)]
    try:
        for thread in threads:
            thread.start()
        yield from crew.finished()
        for cell in crew.suspects:
            yield cell, crew.once_more(cell)
    finally:
        crew.stop()
        for thread in threads:
            thread.join()


class _Crew:
    """What the threads of a pool share."""

    def __init__(self, cells: Sequence[Cell], workers: int, start: Callable[[], Player]) -> None:
        self.suspects: list[Cell] = []
        self._todo = iter(cells)
        self._workers = workers
        self._start = start
        self._players: set[Player] = set()
        self._lock = threading.Lock()
        self._slots = threading.Semaphore(_IN_FLIGHT * workers)
        self._done: queue.SimpleQueue[tuple[Cell, Outcome] | BaseException | None] = queue.SimpleQueue()
        self._stopping = False

    def work(self) -> None:
        """Play until nothing is left."""
        player: Player | None = None
        try:
            while (cell := self._next()) is not None:
                player = player or self._new()
                try:
                    self._done.put((cell, player.play(cell)))
                except Died:
                    self._leave(player)
                    player = None
                    self.suspects.append(cell)
                    self._slots.release()
            self._done.put(None)
        except BaseException as error:
            self._done.put(error)
        finally:
            if player:
                self._leave(player)

    def finished(self) -> Generator[tuple[Cell, Outcome]]:
        """Yield what the threads have finished, until all of them have come to their end."""
        working = self._workers
        while working:
            try:
                # Where waiting cannot be interrupted, Ctrl+C has its turn in between.
                one = self._done.get(timeout=1.0)
            except queue.Empty:
                continue
            if isinstance(one, BaseException):
                raise one
            if one is None:
                working -= 1
            else:
                yield one
                self._slots.release()

    def once_more(self, cell: Cell) -> Outcome:
        """Play a cell whose player died, with a new one and while no other plays."""
        player = self._new()
        try:
            return player.play(cell)
        except Died as death:
            return failure(cell, f"{death}, twice; the second time nothing else was being played")
        finally:
            self._leave(player)

    def stop(self) -> None:
        """End all players, and let the threads come to their end."""
        with self._lock:
            self._stopping = True
            players = set(self._players)
        for player in players:
            player.close()
        self._slots.release(self._workers)

    def _new(self) -> Player:
        player = self._start()
        with self._lock:
            self._players.add(player)
            late = self._stopping
        if late:
            player.close()
        return player

    def _leave(self, player: Player) -> None:
        with self._lock:
            self._players.discard(player)
        player.close()

    def _next(self) -> Cell | None:
        self._slots.acquire()
        with self._lock:
            return None if self._stopping else next(self._todo, None)
