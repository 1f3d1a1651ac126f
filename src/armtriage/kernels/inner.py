"""The inner product for kernels."""

from __future__ import annotations

import numpy as np
from numpy.typing import NDArray

from armtriage.kernels.jit import kernel

__all__ = ["inner"]


@kernel
def inner(left: NDArray[np.float64], right: NDArray[np.float64]) -> float:
    """Return the inner product of two vectors, in four sums: one alone would wait for each addition."""
    a, b, c, d = 0.0, 0.0, 0.0, 0.0
    fours = left.size - left.size % 4
    for j in range(0, fours, 4):
        a += left[j] * right[j]
        b += left[j + 1] * right[j + 1]
        c += left[j + 2] * right[j + 2]
        d += left[j + 3] * right[j + 3]
    for j in range(fours, left.size):
        a += left[j] * right[j]
    return (a + b) + (c + d)
