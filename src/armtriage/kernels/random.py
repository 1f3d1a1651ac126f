"""A counter-based generator: every random number is a pure function of where it stands.

A *stream* belongs to a seed, a role and a replication, a *row* to a round of it, and a number to a column of the
row. Columns walk SplitMix64 (Steele, Lea and Flood 2014) from a start that is itself hashed from stream and round.
"""

from __future__ import annotations

import secrets

import numpy as np

from armtriage.kernels.jit import JIT, kernel

__all__ = ["bits", "check_seed", "replication_seed", "row", "row_of", "stream", "uniform"]

_MASK = (1 << 64) - 1
_GOLDEN = 0x9E3779B97F4A7C15
_FIRST = 0xBF58476D1CE4E5B9
_SECOND = 0x94D049BB133111EB
_UNIT = 2.0**-53

if JIT:
    _G, _A, _B = np.uint64(_GOLDEN), np.uint64(_FIRST), np.uint64(_SECOND)
    _30, _27, _31, _11 = np.uint64(30), np.uint64(27), np.uint64(31), np.uint64(11)

    @kernel
    def bits(start: np.uint64, column: int) -> np.uint64:
        """Return 64 random bits: column `column` of the row, or row of the stream, that begins at `start`."""
        z = start + (np.uint64(column) + np.uint64(1)) * _G
        z = (z ^ (z >> _30)) * _A
        z = (z ^ (z >> _27)) * _B
        return z ^ (z >> _31)

    @kernel
    def uniform(start: np.uint64, column: int) -> float:
        """Return a number in [0, 1), a multiple of 2**-53."""
        return np.float64(bits(start, column) >> _11) * _UNIT

else:

    def bits(start: np.uint64, column: int) -> np.uint64:
        """Return 64 random bits in Python integers, since NumPy's would warn of overflow."""
        z = (int(start) + (int(column) + 1) * _GOLDEN) & _MASK
        z = ((z ^ (z >> 30)) * _FIRST) & _MASK
        z = ((z ^ (z >> 27)) * _SECOND) & _MASK
        return np.uint64(z ^ (z >> 31))

    def uniform(start: np.uint64, column: int) -> float:
        """Return a number in [0, 1), a multiple of 2**-53."""
        return (int(bits(start, column)) >> 11) * _UNIT


@kernel
def row(start: np.uint64, number: int) -> np.uint64:
    """Return where row `number` of a stream begins."""
    return bits(start, number)


def row_of(start: np.uint64, number: int) -> np.uint64:
    """Return `row` to Python code; compiled kernels would hand back a plain integer, of another type."""
    return np.uint64(row(np.uint64(start), number))


def check_seed(seed: int | None) -> int:
    """Return the seed, or a fresh one for None; refuse what is not a whole number from 0."""
    if seed is None:
        return secrets.randbits(63)
    if isinstance(seed, bool) or not isinstance(seed, int | np.integer):
        raise TypeError(f"seed must be a whole number from 0 or None, got {seed!r}")
    if seed < 0:
        raise ValueError(f"seed must be a whole number from 0 or None, got {seed!r}")
    return int(seed)


def replication_seed(seed: int, replication: int) -> int:
    """Return the seed of a replication's policy; that of replication 0 is the seed itself."""
    return seed if replication == 0 else int(stream(seed, "replication", replication) >> np.uint64(1))


def stream(seed: int, role: str, replication: int = 0) -> np.uint64:
    """Return the start of a stream; different roles never share random numbers, whatever their seeds.

    >>> bool(stream(7, "reward") == stream(7, "policy"))
    False
    """
    words = [seed, *role.encode(), replication]
    return np.uint64(np.random.SeedSequence(words).generate_state(1, np.uint64)[0])
