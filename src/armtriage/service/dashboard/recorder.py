"""What a server's counters did recently, second by second."""

from __future__ import annotations

import asyncio
import contextlib
import time
from collections import deque
from collections.abc import Sequence
from typing import NamedTuple

from armtriage.service import clock
from armtriage.service.loop import Loop
from armtriage.service.messages import FATES
from armtriage.service.metrics import Histogram
from armtriage.service.service import Service

_MINUTES = 90
_SAID = {
    "late": ("reward", "after their decisions were closed: stored, not learnt"),
    "orphan": ("reward", "of no decision that is known: held for a day"),
    "duplicate": ("reward", "told before: counted once"),
    "conflict": ("reward", "with another value than before: refused"),
    "rejected": ("reward", "out of range, not shown, or unreadable: refused"),
    "expired": ("decision", "ran out of time: missing rewards count as the policy's default says"),
    "shed": ("request", "refused, since too many waited"),
    "fault": ("fault", "of the program itself: see the server's output"),
}
_HARMLESS = ("duplicate", "expired")


class Note(NamedTuple):
    """A line for the log that is no event: what became of some requests within a second."""

    at: int
    kind: str
    text: str
    warns: bool


class _Second(NamedTuple):
    at: float
    counts: dict[str, int]
    seconds: tuple[int, ...]
    commits: tuple[int, ...]


class Pulse:
    """What one policy's counters did in the last minute and hours."""

    def __init__(self) -> None:
        self.seconds: deque[_Second] = deque(maxlen=61)
        self.minutes: deque[tuple[int, float | None, float | None]] = deque(maxlen=_MINUTES)
        self.notes: deque[Note] = deque(maxlen=100)
        self.verified = 0, 0  # up to which event the state was equal to its log, and when that was found
        self._minute = 0
        self._at_minute: tuple[int, ...] = ()

    def sample(self, loop: Loop) -> None:
        """Read the counters; once a second."""
        metrics, name = loop.metrics, loop.name
        counts = dict(metrics.counts[name])
        waits, commits = metrics.seconds[name], tuple(metrics.commits[name].counts)
        now = _Second(time.monotonic(), counts, tuple(waits.counts), commits)
        before = self.seconds[-1].counts if self.seconds else counts
        for what, (kind, said) in _SAID.items():
            if more := counts.get(what, 0) - before.get(what, 0):
                self.notes.append(Note(clock.wall(), kind, f"{more:,} {what} {said}", what not in _HARMLESS))
        if loop.verified != self.verified[0]:
            self.verified = loop.verified, clock.wall()
        self.seconds.append(now)
        minute = clock.wall() // 60_000_000
        if minute != self._minute:
            if self._minute:
                part = _less(now.seconds, self._at_minute)
                self.minutes.append((self._minute, quantile(waits, part, 0.5), quantile(waits, part, 0.99)))
            self._minute, self._at_minute = minute, now.seconds

    def rates(self, over: int = 10) -> tuple[float, float]:
        """Return decisions and rewards a second, in the last seconds."""
        if len(self.seconds) < 2:
            return 0.0, 0.0
        last, first = self.seconds[-1], self.seconds[max(len(self.seconds) - 1 - over, 0)]
        took = max(last.at - first.at, 1e-9)
        made = last.counts.get("decisions", 0) - first.counts.get("decisions", 0)
        told = sum(last.counts.get(fate, 0) - first.counts.get(fate, 0) for fate in FATES)
        return made / took, told / took

    def latency(self, histogram: Histogram, which: str = "seconds") -> tuple[float | None, float | None]:
        """Return the seconds within which a half, and 99%, of the last minute's requests were answered or stored."""
        if not self.seconds:
            return None, None
        part = _less(getattr(self.seconds[-1], which), getattr(self.seconds[0], which))
        return quantile(histogram, part, 0.5), quantile(histogram, part, 0.99)

    def lately(self, what: str) -> int:
        """Return how much a counter has grown in the last minute."""
        if not self.seconds:
            return 0
        return self.seconds[-1].counts.get(what, 0) - self.seconds[0].counts.get(what, 0)


def _less(now: Sequence[int], then: Sequence[int]) -> tuple[int, ...]:
    return tuple(one - other for one, other in zip(now, then or (0,) * len(now), strict=True))


def quantile(histogram: Histogram, counts: Sequence[int], share: float) -> float | None:
    """Return the value below which a share of the counts lies, on a straight line between the limits; None for none.

    Examples
    --------
    >>> quantile(Histogram((1.0, 2.0)), (0, 4, 0), 0.5)
    1.5
    """
    wanted, below, left = share * sum(counts), 0, 0.0
    if not wanted:
        return None
    for limit, count in zip((*histogram.limits, histogram.limits[-1]), counts, strict=True):
        if count and below + count >= wanted:
            return left + (limit - left) * (wanted - below) / count
        below, left = below + count, limit
    return left


class Recorder:
    """Reads all counters once a second."""

    def __init__(self, service: Service) -> None:
        self.service = service
        self.pulses: dict[str, Pulse] = {}
        self.began = clock.wall()
        self.last_jump = 0  # when the system's clock was set, as far as this server saw
        self.jump = 0.0  # by how many seconds
        self._ahead = clock.wall() - clock.steady()
        self._task: asyncio.Task[None] | None = None

    def start(self) -> None:
        """Begin, in the loop that runs; a second call does nothing."""
        if self._task is None or self._task.done():
            self._task = asyncio.create_task(self._run(), name="recorder")

    async def stop(self) -> None:
        """End."""
        if self._task is not None:
            self._task.cancel()
            with contextlib.suppress(asyncio.CancelledError):
                await self._task

    def pulse(self, name: str) -> Pulse:
        """Return what a policy's counters did."""
        return self.pulses.setdefault(name, Pulse())

    async def _run(self) -> None:
        while True:
            ahead = clock.wall() - clock.steady()
            if abs(ahead - self._ahead) > 1_000_000:
                self.last_jump, self.jump = clock.wall(), (ahead - self._ahead) / 1e6
            self._ahead = ahead
            for loop in self.service.loops.values():
                self.pulse(loop.name).sample(loop)
            await asyncio.sleep(1.0)
