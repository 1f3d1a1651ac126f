"""Time as the service sees it: steps of the system's clock do not reach a running server."""

from __future__ import annotations

import time


def wall() -> int:
    """Return the system's time, in microseconds since 1970."""
    return time.time_ns() // 1000


_BEGAN = wall() - time.monotonic_ns() // 1000


def steady() -> int:
    """Return the time since 1970 in microseconds, as the clock showed it at the start and counted from there."""
    return _BEGAN + time.monotonic_ns() // 1000
