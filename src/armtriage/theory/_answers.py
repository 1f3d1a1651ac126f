"""What the solvers give back, and how they share the time."""

from __future__ import annotations

import time
from collections.abc import Iterable
from typing import NamedTuple

import numpy as np
from numpy.typing import NDArray

__all__ = ["Answer", "Clock", "say_how"]


class Answer(NamedTuple):
    """A set that was found, a bound that no better one passes, and the means by which they came about."""

    chosen: NDArray[np.int64]
    bound: int
    how: str


class Clock:
    """A time limit that has begun to run."""

    def __init__(self, limit: float) -> None:
        self.limit = limit
        self._end = time.monotonic() + limit

    @property
    def left(self) -> float:
        """Seconds left; negative when time is up."""
        return self._end - time.monotonic()

    def part(self, share: float) -> Clock:
        """Return a clock that has begun to run for a share of the time left."""
        return Clock(share * self.left)

    @property
    def verdict(self) -> str:
        """Why there is no better answer."""
        return "too large to search" if self.left > 0 else f"stopped after {self.limit:g} s"


def say_how(exact: bool, means: Iterable[str], why: str = "") -> str:
    """Return the word of a bracket: whether it is exact, by which means, and if not, why.

    >>> say_how(False, ["greedy", "linear programming"], "stopped after 10 s")
    'bracket: greedy and linear programming, stopped after 10 s'
    """
    ways = " and ".join(dict.fromkeys(means))
    return f"exact: {ways}" if exact else ", ".join(filter(None, [f"bracket: {ways}", why]))
