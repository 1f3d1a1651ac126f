"""Standard normal numbers for kernels: a ziggurat (Marsaglia and Tsang 2000) over the counter-based generator.

The half of the bell curve is cut into 256 layers of equal area. A word of random bits chooses a layer and a point in
it; 99 of 100 points lie under the curve for sure. The others are settled by a stream that begins at the word itself,
so that every number is a pure function of its row and column, and its law is the normal one, tails included.
"""

from __future__ import annotations

import math

import numpy as np

from armtriage.kernels.jit import kernel
from armtriage.kernels.random import bits, uniform
from armtriage.kernels.record import Floats

_TAIL = 3.654152885361009  # where the tail begins, such that the 256th layer ends at the top of the curve
_LAYER, _ONE, _11 = np.uint64(255), np.uint64(1), np.uint64(11)
_UNIT, _CENTRE = 2.0**-52, 1.0 - 2.0**-53


def _layers() -> tuple[Floats, Floats]:
    """Return the right end of each layer, and the height of the curve there."""
    height = math.exp(-0.5 * _TAIL * _TAIL)
    area = _TAIL * height + math.sqrt(0.5 * math.pi) * math.erfc(_TAIL / math.sqrt(2.0))
    ends, heights = [area / height, _TAIL], [height, height]
    for _ in range(254):
        heights.append(heights[-1] + area / ends[-1])
        ends.append(math.sqrt(-2.0 * math.log(heights[-1])))
    return np.array([*ends, 0.0]), np.array([*heights, 1.0])


_ENDS, _HEIGHTS = _layers()


@kernel
def point(word: np.uint64) -> tuple[float, bool]:
    """Return the point that a word stands for, and whether it lies under the curve for sure."""
    layer = word & _LAYER
    # The upper 53 bits as an odd multiple of 2**-53 between -1 and 1, symmetric and without rounding.
    x = (np.int64(word >> _11) * _UNIT - _CENTRE) * _ENDS[layer]
    return x, abs(x) < _ENDS[layer + _ONE]


@kernel
def normal(start: np.uint64, column: int) -> float:
    """Return a standard normal number: column `column` of the row that begins at `start`."""
    word = bits(start, column)
    x, sure = point(word)
    return x if sure else _settle(word, x)


@kernel
def _settle(word: np.uint64, x: float) -> float:
    """Return the number that a word stands for if its point `x` may lie outside the curve."""
    while True:
        layer = word & _LAYER
        if layer == 0:
            return math.copysign(_tail(word), x)
        y = _HEIGHTS[layer] + uniform(word, 0) * (_HEIGHTS[layer + _ONE] - _HEIGHTS[layer])
        if y < math.exp(-0.5 * x * x):
            return x
        word = bits(word, 1)
        x, sure = point(word)
        if sure:
            return x


@kernel
def _tail(word: np.uint64) -> float:
    """Return a number from beyond the last layer (Marsaglia 1964)."""
    column = 0
    while True:
        beyond = -math.log(1.0 - uniform(word, column)) / _TAIL
        if -2.0 * math.log(1.0 - uniform(word, column + 1)) > beyond * beyond:
            return _TAIL + beyond
        column += 2
