"""OldLog: what an earlier log says of arms, and how far it may be off."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field
from typing import Any, NamedTuple

import numpy as np
from numpy.typing import ArrayLike, NDArray

from armtriage._arguments import as_numbers
from armtriage.arms import Name, Roster
from armtriage.certificate import Bounds, Tally, intervals_of
from armtriage.kernels.record import Floats, Ints

SHARE = 0.1
"""What the intervals of an old log have of delta; those of live rewards have the rest."""


class Trusted(NamedTuple):
    """An old log in the order of the arms and on the unit scale of rewards."""

    counts: Ints
    sums: Floats
    between: Floats
    bias: Floats

    def bounds(self, n_first: int, delta: float) -> Bounds:
        """Return what the means of today are within, if those of the old log are as near as stated.

        Examples
        --------
        >>> known = Trusted(np.array([1000, 0]), np.array([100.0, 0.0]), np.zeros(2), np.array([0.02, 0.02]))
        >>> [end.round(3).tolist() for end in known.bounds(2, delta=0.05)]
        [[0.043, 0.0], [0.167, 1.0]]
        """
        tally = Tally(self.counts, self.counts, self.sums, self.between)
        lower, upper = intervals_of(tally, n_first, SHARE * delta)
        seen = self.counts > 0
        return Bounds(
            np.where(seen, np.maximum(lower - self.bias, 0.0), 0.0),
            np.where(seen, np.minimum(upper + self.bias, 1.0), 1.0),
        )

    def as_coins(self) -> tuple[Floats, Floats]:
        """Return wins and losses that say as much of a mean of today: the variances of mean and bias are added.

        A bias is taken to be uniform within what is stated.

        Examples
        --------
        >>> wins, losses = Trusted(np.array([1000]), np.array([100.0]), np.zeros(1), np.array([0.02])).as_coins()
        >>> wins.round(1), losses.round(1)
        (array([40.5]), array([363.3]))
        """
        mean = (self.sums + 0.5) / (self.counts + 1.0)
        doubt = 1.0 / np.maximum(self.counts, 1) + self.bias**2 / (3.0 * mean * (1.0 - mean))
        size = np.where(self.counts > 0, 1.0 / doubt, 0.0)
        return size * mean, size * (1.0 - mean)


@dataclass(frozen=True, eq=False)
class OldLog:
    """What an earlier log says of each arm, and how far its means may be from those of today.

    A policy that is given one begins with it: draws have it as a prior whose size falls with `bias`, and intervals are
    cut by those of the log, widened by `bias`. All certificates then take the old means to have been constant and
    within `bias` of those of today: state it generously. One four times too large costs little beside none, one that is
    too small makes certificates wrong. A check of all rewards together, which is wrong with probability 0.01 at most,
    withdraws the log when it is off by more than was stated on average.

    Attributes
    ----------
    counts : array_like or mapping
        How many rewards of each arm the log has: in the order of the arms, or by name; arms without are new.
    sums : array_like or mapping
        Their sums, in units of rewards.
    bias : float, array_like or mapping
        How far a mean of the log may be from that of today, at most, in units of rewards; one for all arms or for each.
    squares : array_like or mapping, optional
        The sums of their squares; without, rewards between the ends of the range have wider intervals.
    names : tuple or None
        What the arms are called, if counts are by name.

    Examples
    --------
    >>> from armtriage import GuardedThompson
    >>> old = OldLog(counts={"tea": 5000, "jam": 4000}, sums={"tea": 310, "jam": 120}, bias=0.01)
    >>> shop = GuardedThompson(3, budget=1, names=["tea", "milk", "jam"], old_log=old, seed=7)
    >>> shop.certificate().intervals.upper.round(3)
    array([0.091, 1.   , 0.055])
    """

    counts: Any
    sums: Any
    bias: Any
    squares: Any = None
    names: Sequence[Name] | None = field(default=None, init=False)

    def __post_init__(self) -> None:
        names = tuple(self.counts) if isinstance(self.counts, Mapping) else None
        columns: dict[str, Any] = {"counts": self.counts, "sums": self.sums, "bias": self.bias, "squares": self.squares}
        found = {name: _column(name, one, names) for name, one in columns.items() if one is not None}
        counts = found["counts"]
        if not (counts == np.floor(counts)).all() or (counts < 0).any():
            raise ValueError(f"counts must be whole numbers from 0, got {self.counts!r:.100}")
        found["bias"] = np.broadcast_to(found["bias"], counts.shape) if found["bias"].ndim == 0 else found["bias"]
        for name, one in found.items():
            if one.shape != counts.shape:
                raise ValueError(f"{name} must have an entry for each of {counts.size} arms, got shape {one.shape}")
        if (found["bias"] < 0.0).any():
            raise ValueError(f"bias must be 0 or more, got {self.bias!r:.100}")
        found["counts"] = counts.astype(np.int64)
        for name, one in found.items():
            fixed = np.array(one)
            fixed.setflags(write=False)
            object.__setattr__(self, name, fixed)
        object.__setattr__(self, "names", names)

    def in_order(self, roster: Roster) -> OldLog:
        """Return the same with an entry for each arm, in the order of their numbers."""
        if self.names is None:
            if self.counts.size != roster.n_arms:
                raise ValueError(f"old_log must have an entry for each of {roster.n_arms} arms, got {self.counts.size}")
            return self
        places = roster.numbers(list(self.names), "old_log")
        columns = {}
        for name in ("counts", "sums", "bias", "squares"):
            if (one := getattr(self, name)) is not None:
                columns[name] = np.zeros(roster.n_arms)
                columns[name][places] = one
        return OldLog(**columns)

    def longer(self, n_arms: int) -> OldLog:
        """Return the same with more arms, of which the log knows nothing."""
        return OldLog(**{name: np.append(one, np.zeros(n_arms - one.size)) for name, one in self.to_arrays().items()})

    def to_arrays(self) -> dict[str, NDArray[Any]]:
        """Return the columns by name."""
        columns = {"counts": self.counts, "sums": self.sums, "bias": self.bias, "squares": self.squares}
        return {name: one for name, one in columns.items() if one is not None}

    def to_dict(self) -> dict[str, dict[str, float]]:
        """Return it as a service takes it, by the names of the arms.

        Examples
        --------
        >>> OldLog(counts={"tea": 5000}, sums={"tea": 310}, bias=0.01).to_dict()
        {'counts': {'tea': 5000}, 'sums': {'tea': 310.0}, 'bias': {'tea': 0.01}}
        """
        if self.names is None:
            raise ValueError(f"counts must be by name for a service, got {self!r} by number")
        return {
            name: dict(zip(map(str, self.names), one.tolist(), strict=True)) for name, one in self.to_arrays().items()
        }

    def on_unit_scale(self, zero: float, width: float) -> Trusted:
        """Return what it says on the scale where `zero` is 0, and `width` from there is 1."""
        sums = (self.sums - self.counts * zero) / width
        slack = 1e-9 * (1.0 + self.counts)
        if not ((sums >= -slack) & (sums <= self.counts + slack)).all():
            raise ValueError("old_log must have sums of rewards within reward_range: some are outside of it")
        between = np.zeros(sums.size)
        if self.squares is not None:
            squares = (self.squares - 2.0 * zero * self.sums + self.counts * zero**2) / width**2
            between = np.clip(sums - squares, 0.0, self.counts / 4.0)
        return Trusted(self.counts, np.clip(sums, 0.0, self.counts), between, self.bias / abs(width))

    def __repr__(self) -> str:
        return f"OldLog of {self.counts.sum():,} rewards, bias={self.bias.max(initial=0.0):g}"


def _column(name: str, value: ArrayLike | Mapping[Name, float], names: Sequence[Name] | None) -> Floats:
    """Return a number for each arm, or one for all of them."""
    if isinstance(value, Mapping):
        if names is None or set(value) != set(names):
            raise ValueError(f"{name} must have the arms that counts has, got {list(value)!r:.100}")
        found = np.array(as_numbers(name, [value[one] for one in names]), dtype=np.float64)
    else:
        found = np.array(as_numbers(name, value), dtype=np.float64)
        if names is not None and found.ndim:
            raise ValueError(f"{name} must have the arms that counts has, by name, got {value!r:.100}")
    if found.ndim != 1 and (name != "bias" or found.ndim):
        raise ValueError(f"{name} must be a number for each arm, got shape {found.shape}")
    if not np.isfinite(found).all():
        raise ValueError(f"{name} must be finite numbers, got {value!r:.100}")
    return found


def old_log_from(arrays: Mapping[str, NDArray[Any]]) -> OldLog:
    """Return the log that a file has."""
    names = {"counts": "counts", "sums": "sums", "bias": "bias", "of_squares": "squares"}
    return OldLog(**{names[name]: arrays[name] for name in names if name in arrays})
