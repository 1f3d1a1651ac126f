"""What slates can have lost where the rewards of a round are independent: one budget for all upper ends.

Let A_a be the capital of bets against the true mean of arm a. Where the arms of a round are independent given the past,
the product of (1 - q) + q A_a over the best slate is a supermartingale too, so the slate as a whole has what otherwise
each of its arms has. How the most can be lost with that is a knapsack over nats: see `docs/certificate.md`.
"""

from __future__ import annotations

import math

import numpy as np
from numpy.typing import NDArray

from armtriage.certificate.averages import gains_at
from armtriage.certificate.bounds import Tally
from armtriage.kernels.jit import apart, kernel

_CELL = 0.075  # nats; an arm may have one more than it pays for: smaller steps find 0.5% less at 100 arms and ten slots
_MOST = 1e9  # steps of the knapsack, about half a second


def _hedge(size: int) -> float:
    """Return the share of the capital that bets; the rest keeps the product from dying with one arm."""
    return min(0.5, 2.0 / size)


def _cells(size: int, delta: float) -> int:
    """Return how many cells all arms of the best slate have together."""
    return int((-math.log(delta) - size * math.log1p(-_hedge(size))) / _CELL)


def is_feasible(n_arms: int, size: int, delta: float) -> bool:
    """Whether the knapsack is small enough, and there is something to share: with one arm there is not.

    Examples
    --------
    >>> is_feasible(100, 10, 0.05), is_feasible(100, 1, 0.05), is_feasible(5000, 100, 0.05)
    (True, False, False)
    """
    return size > 1 and 0.5 * n_arms * size * float(_cells(size, delta) + 1) ** 2 <= _MOST


@kernel
@apart
def _raise_to(best: NDArray[np.float64], others: NDArray[np.float64], more: float) -> None:
    """Raise each of the best sums to the other one with so much more."""
    for i in range(best.size):
        best[i] = max(best[i], others[i] + more)


@kernel
def _fill(gains: NDArray[np.float64], first: NDArray[np.int64], best: NDArray[np.float64]) -> None:
    """Fill the best sums of so many arms (rows) within so many cells (columns); arms use cells from their `first`."""
    size, cells = best.shape[0] - 1, best.shape[1]
    for a in range(gains.shape[0]):
        for k in range(min(size, a + 1), 0, -1):
            for c in range(first[a], cells):
                _raise_to(best[k, c:], best[k - 1, : cells - c], gains[a, c])


def lost_together(
    tally: Tally, rounds: float, upper: NDArray[np.float64], size: int, kept: NDArray[np.float64], delta: float
) -> float:
    """Return what slates lost at most; all upper ends of the best one together fail with probability `delta`.

    `upper` are the ends that each of its arms has by itself, with a delta of their own, and `kept` is what pulls
    of other arms were worth at least.

    Examples
    --------
    >>> pulls = np.array([900, 20, 20, 20, 20, 20, 1000])
    >>> tally = Tally(pulls, pulls, np.array([630.0, 4.0, 4.0, 4.0, 4.0, 4.0, 800.0]), np.zeros(7))
    >>> round(lost_together(tally, 1000, np.ones(7), 2, np.zeros(7), 0.05))
    943
    """
    share, cells = _hedge(size), _cells(size, delta)
    nats = _CELL * np.arange(1, cells + 2)
    bases = np.maximum(np.log(np.expm1(nats) * (1.0 - share) / share), 0.0)
    gains, first = gains_at(tally, rounds, upper, size, kept, bases)
    best = np.full((size + 1, cells + 1), -np.inf)
    best[0] = 0.0
    _fill(gains, first, best)
    return float(best[size, cells] - kept.sum())
