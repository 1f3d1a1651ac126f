"""What slates can have lost if ends of many arms fail together with one probability, however arms depend on each other.

The capital of bets against the true mean of an arm seldom grows, and neither does the average of such capitals over the
arms of the best slate, or over all others: so their sums are small at all times, where by itself each of them might be
as large as the sum. Few arms can then be far from their means at once: see `docs/certificate.md`.
"""

from __future__ import annotations

import math
from collections.abc import Callable
from typing import Any

import numpy as np
from numpy.typing import NDArray

from armtriage.certificate.bounds import Tally, sums_of
from armtriage.intervals import IN_BETS, ends_above
from armtriage.kernels.jit import kernel
from armtriage.kernels.order import kth_largest

_CELL = 0.1  # nats: an arm may have one more than it pays for; three times that was 3% wider
_PRICES = np.geomspace(0.003, 1.0, 16)  # of a unit of capital, as shares of what is to be divided
_MOST = 64  # arms whose lower ends are divided; others have theirs for nothing


@kernel
def _ends_at(
    counts: NDArray[np.int64],
    sums: NDArray[np.float64],
    between: NDArray[np.float64],
    bases: NDArray[np.float64],
    in_bets: float = IN_BETS,
) -> NDArray[np.float64]:
    """Return the upper end of each arm (rows) for each base (columns), which ascend."""
    ends = np.empty((counts.size, bases.size))
    for a in range(counts.size):
        ends_above(counts[a], sums[a], between[a], bases, 0.0, in_bets, ends[a])
    return ends


@kernel
def _fill_gains(
    counts: NDArray[np.int64],
    sums: NDArray[np.float64],
    between: NDArray[np.float64],
    left: NDArray[np.float64],
    upper: NDArray[np.float64],
    size: int,
    kept: NDArray[np.float64],
    bases: NDArray[np.float64],
    in_bets: float,
    first: NDArray[np.int64],
) -> NDArray[np.float64]:
    """Return what `gains_at` does, and fill in the `first` column of each row."""
    few = _ends_at(counts, sums, between, np.array([bases[0], bases[bases.size - 1]]), in_bets)
    none, most = left * np.minimum(few[:, 0], upper) + kept, left * np.minimum(few[:, 1], upper) + kept
    bar = kth_largest(none.copy(), none.size, size)
    gains, n = np.empty((counts.size, bases.size)), 0
    for a in range(counts.size):
        if most[a] < bar:
            continue
        enough = 0.0 if none[a] >= bar or left[a] <= 0.0 else (bar - kept[a]) / left[a]
        row, start = gains[n], 0
        ends_above(counts[a], sums[a], between[a], bases, enough, in_bets, row)
        for k in range(bases.size):
            row[k] = left[a] * min(row[k], upper[a]) + kept[a]
        row[0] = none[a]
        while none[a] < bar and start < bases.size and row[start] <= bar:
            start += 1
        if start < bases.size:
            first[n] = start
            n += 1
    return gains[:n]


def gains_at(
    tally: Tally,
    rounds: float,
    upper: NDArray[np.float64],
    size: int,
    kept: NDArray[np.float64],
    bases: NDArray[np.float64],
    in_bets: float = IN_BETS,
) -> tuple[NDArray[np.float64], NDArray[np.int64]]:
    """Return what arms (rows) gain if they are in the best slate and their ends have these bases, which ascend.

    `upper` are ends that hold anyway, and `kept` is what pulls were worth at least. There are arms enough for a slate
    that gain something with the first base already. An arm that gains no more than these with any base is in no best
    slate, and left out; with smaller bases than that in the column returned with its row it is in none either, and the
    entries before are rough. `in_bets` is the share of capital as in `ends_above`.
    """
    sums, between = sums_of(tally)
    first = np.zeros(tally.counts.size, np.int64)
    left = np.asarray(rounds - tally.pulls, np.float64)
    gains = _fill_gains(tally.counts, sums, between, left, upper, size, kept, bases, in_bets, first)
    return gains, first[: gains.shape[0]]


def _bases(capital: float) -> tuple[NDArray[np.float64], NDArray[np.float64]]:
    """Return bases up to that of so much capital, and the least capital of an arm that is beyond the base before."""
    bases = _CELL * np.arange(math.ceil(math.log(capital) / _CELL) + 1, dtype=np.float64)
    return bases, np.append(0.0, np.exp(bases[:-1]))


def _alike(capital: float, arms: int) -> NDArray[np.float64]:
    """Return the largest base that all of so many arms can pay for together.

    Whatever the price of capital is, a bound is no better than with this base for each of them, since they pay no more
    for it than there is. So where others are better already, capital need not be divided.
    """
    bases, paid = _bases(capital)
    return bases[paid <= capital / arms][-1:]


def lost_on_average(
    tally: Tally,
    rounds: float,
    upper: NDArray[np.float64],
    size: int,
    kept: NDArray[np.float64],
    delta: float,
    known: float = np.inf,
) -> float:
    """Return what slates lost at most, where the average capital of the best one is large with probability `delta`.

    `upper` are the ends that its arms have by themselves with the same delta, and `kept` is what pulls of other arms
    were worth at least. Where nothing below `known` can be found, that is returned.

    Examples
    --------
    >>> pulls = np.array([900, 20, 20, 20, 20, 20, 1000])
    >>> tally = Tally(pulls, pulls, np.array([630.0, 4.0, 4.0, 4.0, 4.0, 4.0, 800.0]), np.zeros(7))
    >>> round(lost_on_average(tally, 1000, np.ones(7), 2, np.zeros(7), 0.05))
    1025
    """
    capital, (sums, between) = size / delta, sums_of(tally)
    alike = _ends_at(tally.counts, sums, between, _alike(capital, size))[:, 0]
    if best_sum((rounds - tally.pulls) * np.minimum(alike, upper) + kept, size) - float(kept.sum()) >= known:
        return known
    bases, paid = _bases(capital)
    gains, _ = gains_at(tally, rounds, upper, size, kept, bases)
    # Whatever a unit of capital costs, the best slate pays for no more than there is: each price gives a bound.
    most, widest = np.inf, best_sum(gains[:, -1] - gains[:, 0], size)
    for price in (_PRICES * widest / capital).tolist():
        most = min(most, best_sum((gains - price * paid).max(1), size) + price * capital)
    return min(most - float(kept.sum()), known)


def best_sum(values: NDArray[np.float64], size: int) -> float:
    """Return the sum of the largest values."""
    return float(np.partition(values, values.size - size)[values.size - size :].sum())


def kept_on_average(
    tally: Tally,
    lower: NDArray[np.float64],
    outside: int,
    delta: float,
    helps: Callable[[NDArray[Any]], bool] = lambda _: True,
) -> list[tuple[NDArray[np.float64], float]]:
    """Return what pulls of the `outside` arms were worth at least, as `totals` does, for several prices of capital.

    `lower` are the ends that these arms have by themselves with the same delta. None if it does not help to have values
    that are better than all that could be found.
    """
    values = tally.pulls * lower
    if outside < 2:
        return []
    capital, (sums, between) = outside / delta, sums_of(tally)
    alike = 1.0 - _ends_at(tally.counts, tally.counts - sums, between, _alike(capital, outside))[:, 0]
    if not helps(tally.pulls * np.maximum(alike, lower)):
        return []
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
