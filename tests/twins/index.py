"""Divergence bounds and the index of KL-UCB, by root finding."""

from __future__ import annotations

import math
from functools import lru_cache

import numpy as np


@lru_cache(maxsize=1 << 18)
def kl_bounds(mean: float, level: float) -> tuple[float, float]:
    """The smallest and the largest p with kl(mean, p) <= level, by root finding on each side."""
    if level <= 0.0:
        return mean, mean
    lower = 0.0 if mean <= 0.0 else _above(1.0 - mean, mean, level)[1]
    upper = 1.0 if mean >= 1.0 else _above(mean, 1.0 - mean, level)[0]
    return lower, upper


def _above(mean: float, rest: float, level: float) -> tuple[float, float]:
    """The p >= mean with kl(mean, p) = level, and 1 - p; rest = 1 - mean > 0; found by y = ln(rest/(1-p))."""
    from scipy.optimize import brentq

    if mean <= 0.0:
        return -math.expm1(-level), math.exp(-level)

    def excess(y: float) -> float:
        return rest * y - mean * math.log1p(-rest * math.expm1(-y) / mean) - level

    most = (level - mean * math.log(mean)) / rest + 1.0  # beyond the root even if p were 1
    y = brentq(excess, 0.0, most, xtol=1e-300, rtol=4 * np.finfo(float).eps, maxiter=2000)
    return mean - rest * math.expm1(-y), rest * math.exp(-y)


def kl_index(mean: float, count: int, between: float, bonus: float) -> float:
    """The largest mean within the bonus, of the law on {x, 1} with the mean and variance of the rewards."""
    x = min(between / (count * (1 - mean)), mean) if between > 0 and mean < 1 else 0.0
    share = (mean - x) / (1 - x)
    return x + (1 - x) * kl_bounds(share if share > 1e-14 else 0.0, bonus / count)[1]
