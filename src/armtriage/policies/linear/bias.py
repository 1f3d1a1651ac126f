"""How far mean rewards seem to be from what is linear in the contexts, by a log of them."""

from __future__ import annotations

from typing import NamedTuple

import numpy as np
from numpy.typing import ArrayLike

from armtriage._arguments import as_matrix, as_numbers, check_probability


class SuggestedBias(NamedTuple):
    """What a log says of `GuardedLinear`'s `bias`: `least` is shown for certain, with `safe` no arm contradicts it.

    Examples
    --------
    >>> suggest_bias([[2.0], [0.0]], [1.0, 0.0], ["tea", "milk"])  # of one reward each, nothing is known
    SuggestedBias(least=0.0, safe=0.0)
    """

    least: float
    safe: float


def suggest_bias(contexts: ArrayLike, rewards: ArrayLike, arms: ArrayLike, *, delta: float = 0.05) -> SuggestedBias:
    """Return how far the mean rewards of arms lie from the best linear fit of all rewards.

    Both numbers are about an arm's rewards on average over the log: what is wrong for some of its contexts one way and
    for others the other way does not show. They take rewards to be independent, and fail with probability `delta`.

    Parameters
    ----------
    contexts : array_like
        (n, d) rows.
    rewards : array_like
        (n,) numbers.
    arms : array_like
        (n,) the arm of each row, by number or name.
    delta : float
        The probability that the mean of any arm is outside of what its rewards are taken to show.

    Examples
    --------
    >>> contexts = np.tile([[1.0, 0.0], [0.0, 1.0], [0.5, 0.5]], (2000, 1))
    >>> means = np.tile([0.6, 0.4, 0.8], 2000)  # linear would be 0.5 for the third
    >>> found = suggest_bias(contexts, means > np.random.default_rng(7).random(6000), np.tile([0, 1, 2], 2000))
    >>> round(found.least, 2), round(found.safe, 2)
    (0.18, 0.22)
    """
    from scipy.special import ndtri

    rows, told = np.asarray(as_matrix("contexts", contexts), float), as_numbers("rewards", rewards).astype(float)
    names, whose = np.unique(np.asarray(arms), return_inverse=True)
    if rows.ndim != 2 or rows.shape[0] == 0:
        raise ValueError(f"contexts must be a row for each reward, one or more, got shape {rows.shape}")
    if told.shape != rows.shape[:1] or whose.shape != told.shape:
        found = f"{rows.shape[0]} rows, {told.shape} rewards and {whose.shape} arms"
        raise ValueError(f"contexts, rewards and arms must be equally many, got {found}")
    if not (np.isfinite(rows).all() and np.isfinite(told).all()):
        raise ValueError("contexts and rewards must be finite")
    spare = told - rows @ np.linalg.lstsq(rows, told, rcond=None)[0]
    counts = np.bincount(whose)
    means = np.bincount(whose, spare) / counts
    variances = np.bincount(whose, (spare - means[whose]) ** 2) / np.maximum(counts - 1, 1)
    off = -ndtri(check_probability("delta", delta) / (2 * names.size)) * np.sqrt(variances / counts)
    off[counts < 2] = 0.0  # one reward says nothing of its own noise
    sure = counts >= 2
    least = float(np.max(np.abs(means) - off, where=sure, initial=0.0))
    return SuggestedBias(max(least, 0.0), float(np.max(np.abs(means) + off, where=sure, initial=0.0)))
