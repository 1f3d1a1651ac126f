"""The arrays that decision sets are made of and speak in."""

from __future__ import annotations

from typing import Any

import numpy as np
from numpy.typing import NDArray

__all__ = ["LISTED", "Floats", "Ints", "Marks", "check_pairs", "frozen"]

Ints = NDArray[np.int64]
Floats = NDArray[np.float64]
Marks = NDArray[np.int8]
"""For each arm, 1 if a decision must contain it, -1 if it must not, 0 if it may."""

LISTED = 100_000
"""The most decisions that iteration gives, and the most questions that listing them may ask of an oracle."""


def frozen(array: NDArray[Any]) -> NDArray[Any]:
    """Return a C-contiguous copy that cannot be written to."""
    copy = np.array(array, order="C")
    copy.flags.writeable = False
    return copy


def check_pairs(edges: Any, first: int, second: int) -> Ints:
    """Return edges as a frozen array of shape (m, 2), from 0 to below `first` and `second`."""
    try:
        pairs = np.asarray(edges if isinstance(edges, np.ndarray) else list(edges))
    except (TypeError, ValueError):
        raise TypeError(f"edges must be pairs of whole numbers, got {edges!r}") from None
    if pairs.ndim != 2 or pairs.shape[1] != 2 or not pairs.size:
        raise ValueError(f"edges must be one or more pairs, of shape (m, 2), got shape {pairs.shape}")
    if pairs.dtype.kind not in "iu":
        raise TypeError(f"edges must be pairs of whole numbers, got {pairs.dtype}")
    for column, most in enumerate((first, second)):
        wrong = np.flatnonzero((pairs[:, column] < 0) | (pairs[:, column] >= most))
        if wrong.size:
            shown = tuple(pairs[wrong[0]].tolist())
            raise ValueError(f"edges must be pairs from (0, 0) to ({first - 1}, {second - 1}), got {shown}")
    return frozen(pairs.astype(np.int64))
