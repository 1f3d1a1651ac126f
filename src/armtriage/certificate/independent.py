"""What slates can have lost where the rewards of a round are independent: one budget for all that is to be proved.

Let A_a be the capital of bets against the true mean of arm a. Where the arms of a round are independent given the past,
the product of (1 - q) + q A_a over the best slate is a supermartingale too, and so is its product with the capital of
a bet on the total of all other arms: what makes one end wide cannot make another one wide, too. How the most can be
lost with that is a knapsack over nats: see `docs/certificate.md`.
"""

from __future__ import annotations

import math

import numpy as np
from numpy.typing import NDArray

from armtriage.certificate.averages import best_sum, gains_at, kept_on_average
from armtriage.certificate.bounds import Bounds, Tally
from armtriage.certificate.totals import BETS, values_of
from armtriage.kernels.jit import apart, kernel
from armtriage.kernels.record import Floats

_CELL = 0.075  # nats; an arm may have one more than it pays for: smaller steps find 0.5% less at 100 arms and ten slots
_MOST = 1e9  # steps of the knapsack, about half a second
_ALONE = 0.6  # of the capital is only against the best slate; the rest also bets on what other arms have earned
_TRIED = 3  # bets on that for which the knapsack is solved


def _hedge(size: int) -> float:
    """Return the share of the capital that bets; the rest keeps the product from dying with one arm."""
    return min(0.5, 2.0 / size)


def _nats(size: int, delta: float) -> float:
    """Return how many nats there are for all arms, if no capital had to be divided."""
    return -math.log(delta) - size * math.log1p(-_hedge(size))


def _cells(size: int, delta: float) -> int:
    """Return how many cells all arms of the best slate have together."""
    return int((_nats(size, delta) - math.log(_ALONE)) / _CELL)


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
    tally: Tally, rounds: float, ends: Bounds, whole: Bounds, size: int, below: float, delta: float
) -> float:
    """Return what slates lost at most; with probability `delta` upper ends and totals together fail.

    `ends` are those that arms have by themselves, with a delta of their own, which is `below` for all lower ones, and
    `whole` are intervals of all arms.

    Examples
    --------
    >>> pulls = np.array([900, 20, 20, 20, 20, 20, 1000])
    >>> tally = Tally(pulls, pulls, np.array([630.0, 4.0, 4.0, 4.0, 4.0, 4.0, 800.0]), np.zeros(7))
    >>> wide = Bounds(np.zeros(7), np.ones(7))
    >>> round(lost_together(tally, 1000, wide, wide, 2, 0.01, 0.05))
    131
    """
    share, cells = _hedge(size), _cells(size, delta)
    spent = _CELL * np.arange(cells + 1, dtype=np.float64)
    bases = np.maximum(np.log(np.expm1(spent + _CELL) * (1.0 - share) / share), 0.0)
    # What is left for a bet on totals once the best slate has used so much.
    rest = _nats(size, delta) + math.log(BETS.size / (1.0 - _ALONE)) - spent
    kept: list[tuple[Floats, Floats]] = [(values, rest / bet) for values, bet in values_of(tally, whole)]
    left, nothing = rounds - tally.pulls, np.zeros(cells + 1)

    def roughly(one: tuple[Floats, Floats]) -> float:
        return best_sum(left * ends.upper + one[0], size) - float(one[0].sum()) + float(one[1][-1])

    by_ends = tally.pulls * ends.lower, nothing
    if not kept or roughly(by_ends) < min(map(roughly, kept)):
        averages = kept_on_average(tally, ends.lower, tally.counts.size - size, below)
        kept += [by_ends, *((values, nothing + less) for values, less in averages)]
    found = []
    for values, less in sorted(kept, key=roughly)[:_TRIED]:
        gains, first = gains_at(tally, rounds, ends.upper, size, values, bases, 1.0)
        best = np.full((size + 1, cells + 1), -np.inf)
        best[0] = 0.0
        _fill(gains, first, best)
        found.append(float((best[size] + less).max() - values.sum()))
    return min(found)
