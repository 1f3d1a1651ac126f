"""What slates can have lost if ends of many arms fail together with one probability, however arms depend on each other.

The capital of bets against the true mean of an arm seldom grows, and neither does the average of such capitals over the
arms of the best slate, or over all others: so their sums are small at all times, where by itself each of them might be
as large as the sum. Few arms can then be far from their means at once: see `docs/certificate.md`.
"""

from __future__ import annotations

import math

import numpy as np
from numpy.typing import NDArray

from armtriage.certificate.bounds import Tally, sums_of
from armtriage.intervals import ends_above
from armtriage.kernels.jit import kernel

_CELL = 0.3  # nats: an arm may have one more than it pays for
_PRICES = np.geomspace(0.003, 1.0, 16)  # of a unit of capital, as shares of what is to be divided
_MOST = 64  # arms whose lower ends are divided; others have theirs for nothing


@kernel
def _ends_at(
    counts: NDArray[np.int64],
    sums: NDArray[np.float64],
    between: NDArray[np.float64],
    bases: NDArray[np.float64],
) -> NDArray[np.float64]:
    """Return the upper end of each arm (rows) for each base (columns), which ascend."""
    ends = np.empty((counts.size, bases.size))
    for a in range(counts.size):
        ends_above(counts[a], sums[a], between[a], bases, ends[a])
    return ends


def gains_at(
    tally: Tally,
    rounds: float,
    upper: NDArray[np.float64],
    size: int,
    kept: NDArray[np.float64],
    bases: NDArray[np.float64],
) -> NDArray[np.float64]:
    """Return what arms (rows) gain if they are in the best slate and their ends have these bases, which ascend.

    `upper` are ends that hold anyway, and `kept` is what pulls were worth at least. Arms that are in no best slate,
    whatever their bases, are left out.
    """
    sums, between = sums_of(tally)
    left = (rounds - tally.pulls)[:, None]
    few = np.minimum(_ends_at(tally.counts, sums, between, bases[[0, -1]]), upper[:, None])
    # An arm that gains less by its largest end than enough others by their least is in no best slate.
    none, most = (left * few + kept[:, None]).T
    some = np.flatnonzero(most >= np.partition(none, none.size - size)[none.size - size])
    ends = np.minimum(_ends_at(tally.counts[some], sums[some], between[some], bases), upper[some, None])
    return left[some] * ends + kept[some, None]


def _bases(capital: float) -> tuple[NDArray[np.float64], NDArray[np.float64]]:
    """Return bases up to that of so much capital, and the least capital of an arm that is beyond the base before."""
    bases = _CELL * np.arange(math.ceil(math.log(capital) / _CELL) + 1, dtype=np.float64)
    return bases, np.append(0.0, np.exp(bases[:-1]))


def lost_on_average(
    tally: Tally, rounds: float, upper: NDArray[np.float64], size: int, kept: NDArray[np.float64], delta: float
) -> float:
    """Return what slates lost at most, where the average capital of the best one is large with probability `delta`.

    `upper` are the ends that its arms have by themselves with the same delta, and `kept` is what pulls of other arms
    were worth at least.

    Examples
    --------
    >>> pulls = np.array([900, 20, 20, 20, 20, 20, 1000])
    >>> tally = Tally(pulls, pulls, np.array([630.0, 4.0, 4.0, 4.0, 4.0, 4.0, 800.0]), np.zeros(7))
    >>> round(lost_on_average(tally, 1000, np.ones(7), 2, np.zeros(7), 0.05))
    1040
    """
    capital = size / delta
    bases, paid = _bases(capital)
    gains = gains_at(tally, rounds, upper, size, kept, bases)
    # Whatever a unit of capital costs, the best slate pays for no more than there is: each price gives a bound.
    rest, most = gains.shape[0] - size, np.inf
    widest = float(np.partition(gains[:, -1] - gains[:, 0], rest)[rest:].sum())
    for price in (_PRICES * widest / capital).tolist():
        values = (gains - price * paid).max(1)
        most = min(most, float(np.partition(values, rest)[rest:].sum()) + price * capital)
    return most - float(kept.sum())


def kept_on_average(
    tally: Tally, lower: NDArray[np.float64], outside: int, delta: float
) -> list[tuple[NDArray[np.float64], float]]:
    """Return what pulls of the `outside` arms were worth at least, as `totals` does, for several prices of capital.

    `lower` are the ends that these arms have by themselves with the same delta.
    """
    values = tally.pulls * lower
    if outside < 2:
        return []
    capital, (sums, between) = outside / delta, sums_of(tally)
    bases, paid = _bases(capital)
    wide = sums / np.maximum(tally.counts, 1) * tally.pulls - values
    some = np.argpartition(-wide, min(_MOST, wide.size) - 1)[:_MOST]
    missed = tally.counts[some] - sums[some]
    ends = np.maximum(1.0 - _ends_at(tally.counts[some], missed, between[some], bases), lower[some, None])
    worth = tally.pulls[some, None] * ends
    found = []
    for price in (_PRICES * float((worth[:, 0] - worth[:, -1]).sum()) / capital).tolist():
        dearer = values.copy()
        dearer[some] = (worth + price * paid).min(1)
        found.append((dearer, price * capital))
    return found
