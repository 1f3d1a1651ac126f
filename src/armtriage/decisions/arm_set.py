"""A set of arms in as few bytes as possible, for decisions that stay open for long."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import Any, ClassVar
from weakref import WeakValueDictionary

import numpy as np
from numpy.typing import NDArray

from armtriage.kernels.record import Ints

_RECENT = 64  # sets that are kept though no decision has them
_SHORT = 2**14  # bytes, so that they are a megabyte at most


class ArmSet:
    """Some of the arms: a bit for each, or their numbers where that is shorter; sets that are alike are one object.

    Examples
    --------
    >>> one = ArmSet.of(np.array([0, 2, 5]))
    >>> one.arms, one is ArmSet.of(np.array([0, 2, 5]))
    (array([0, 2, 5]), True)
    """

    __slots__ = ("__weakref__", "_bits", "_kept", "size")

    _known: ClassVar[WeakValueDictionary[tuple[bool, bytes], ArmSet]] = WeakValueDictionary()
    _recent: ClassVar[dict[bytes, ArmSet]] = {}  # sets of requests often come again, and a weak dictionary is slow

    def __init__(self, bits: bool, kept: bytes, size: int) -> None:
        self._bits, self._kept, self.size = bits, kept, size

    @classmethod
    def of(cls, arms: Ints) -> ArmSet:
        """Return the set of different arms, which ascend."""
        span = int(arms[-1]) + 1 if arms.size else 0
        bits = span <= 32 * arms.size
        if bits:
            mask = np.zeros(span, np.bool_)
            mask[arms] = True
            kept = np.packbits(mask).tobytes()
        else:
            kept = arms.astype(np.int32).tobytes()
        return cls._shared(bits, kept, arms.size)

    @classmethod
    def of_bits(cls, bits: bytes, size: int) -> ArmSet:
        """Return the set of as many arms as there are bits, at most 32 bits for each; the first bit is the highest."""
        found = cls._recent.get(bits)
        if found is None:
            found = cls._shared(True, bits.rstrip(b"\0"), size)
            if len(cls._recent) >= _RECENT:
                cls._recent.clear()
            if len(bits) <= _SHORT:
                cls._recent[bits] = found
        return found

    @classmethod
    def _shared(cls, bits: bool, kept: bytes, size: int) -> ArmSet:
        found = cls._known.get((bits, kept))
        if found is None:
            found = cls._known[bits, kept] = cls(bits, kept, size)
        return found

    def __reduce__(self) -> tuple[Any, ...]:
        return ArmSet._shared, (self._bits, self._kept, self.size)

    @property
    def nbytes(self) -> int:
        """How many bytes the arms take, however many decisions share them."""
        return len(self._kept)

    @property
    def arms(self) -> Ints:
        """The arms, ascending, in an array of one's own."""
        if self._bits:
            return np.flatnonzero(np.unpackbits(np.frombuffer(self._kept, np.uint8)))
        return np.frombuffer(self._kept, np.int32).astype(np.int64)


def pack_sets(sets: Sequence[ArmSet | None]) -> dict[str, NDArray[Any]]:
    """Return sets as arrays for a file, each that comes again once; None stands for all arms."""
    found = {one: place for place, one in enumerate(dict.fromkeys(one for one in sets if one is not None))}
    return {
        "set_of": np.array([-1 if one is None else found[one] for one in sets], np.int64),
        "set_bits": np.array([one._bits for one in found], np.int64),
        "set_bytes": np.array([len(one._kept) for one in found], np.int64),
        "sets": np.frombuffer(b"".join(one._kept for one in found), np.uint8),
    }


def unpack_sets(arrays: Mapping[str, NDArray[Any]], n_arms: int) -> list[ArmSet | None]:
    """Return the sets that `pack_sets` wrote, of some of so many arms; refuse anything else."""
    which, bits, lengths, content = (arrays[name] for name in ("set_of", "set_bits", "set_bytes", "sets"))
    ends = np.cumsum(lengths)
    if content.dtype != np.uint8 or content.ndim != 1 or bits.size != lengths.size or np.any(lengths < 1):
        raise ValueError("sets of eligible arms must be bytes, one or more for each")
    if content.size != (ends[-1] if ends.size else 0) or np.any((which < -1) | (which >= lengths.size)):
        raise ValueError("sets of eligible arms are too many or few")
    found: list[ArmSet | None] = []
    for bit, kept in zip(bits.tolist(), np.split(content, ends[:-1]) if ends.size else [], strict=True):
        if bit not in (0, 1) or (not bit and kept.size % 4):
            raise ValueError("a set of eligible arms must be bits, or numbers of 4 bytes")
        arms = ArmSet(bool(bit), kept.tobytes(), 0).arms
        if not arms.size or arms[0] < 0 or arms[-1] >= n_arms or np.any(np.diff(arms) <= 0):
            raise ValueError(f"sets of eligible arms must rise from 0 to {n_arms - 1}")
        found.append(ArmSet.of(arms))
    return [None if place < 0 else found[place] for place in which.tolist()]
