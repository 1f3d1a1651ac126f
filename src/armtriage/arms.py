"""The arms of a policy: their names, which of them may be played, and what each may spend of the error probability."""

from __future__ import annotations

import json
import math
from collections.abc import Iterable, Mapping, Sequence
from typing import Any, NamedTuple, TypeAlias

import numpy as np
from numpy.typing import NDArray

from armtriage.errors import UnknownArm
from armtriage.kernels.record import Floats, Ints

Name: TypeAlias = str | int | tuple[Any, ...]
"""What an arm may be called: text, a whole number, or a tuple of such, all of which JSON can bring back."""


class Arms(NamedTuple):
    """What `armtriage.Policy.arms` says of each arm, by its number.

    Examples
    --------
    >>> from armtriage import ThompsonSampling
    >>> policy = ThompsonSampling(2, budget=1, names=["tea", "milk"])
    >>> policy.arms.names, policy.arms.share
    (('tea', 'milk'), array([0.5, 0.5]))
    """

    names: tuple[Name, ...]
    added: Ints  # the number of the first decision that could have had it
    retired: NDArray[np.bool_]
    share: Floats  # of delta: the part of the error probability that its interval may use


class Roster:
    """The arms, which may become more; numbers are never used again."""

    def __init__(self, n_arms: int, names: Sequence[Name] | None = None) -> None:
        self.n_first = self.n_arms = n_arms
        self.later: dict[int, tuple[int, float]] = {}  # of arms that came later: first decision, and 1 / share
        self.newest = 0  # the decision from which on no arm is new
        self.retired: set[int] = set()
        self.extra = 0  # arms that were added or began again: each has a share of a second delta
        self.names: list[Name] | None = None
        self._numbers: dict[Name, int] = {}
        self._live: Ints | None = None
        if names is not None:
            if isinstance(names, str | bytes | Mapping) or not isinstance(names, Iterable):
                raise TypeError(f"names must be a sequence of names, got {names!r}")
            given = list(names)
            if len(given) != n_arms:
                raise ValueError(f"names must name each of the {n_arms} arms, got {len(given)}")
            self._numbers = self._new_numbers(given, 0)
            self.names = given

    @property
    def live(self) -> Ints:
        """The arms that are not retired, ascending."""
        if self._live is None:
            playable = np.ones(self.n_arms, np.bool_)
            playable[list(self.retired)] = False
            self._live = np.flatnonzero(playable)
        return self._live

    @property
    def changed(self) -> bool:
        """Whether the arms that may be played are not just those that were there at first."""
        return bool(self.extra or self.retired)

    def is_newer(self, arm: int, number: int) -> bool:
        """Whether an arm began after a decision, or began again: its rewards then say nothing of what it is now."""
        return arm in self.later and number < self.later[arm][0]

    def n_arms_at(self, number: int) -> int:
        """Return how many arms there were when a decision was made; arms that began again are taken to be new."""
        if not self.later:
            return self.n_first
        return max([self.n_first, *(arm + 1 for arm, (first, _) in self.later.items() if first <= number)])

    def _new_numbers(self, names: Sequence[Name], first: int) -> dict[Name, int]:
        """Return the numbers from `first` on, by name; refuse names that are taken, or none."""
        found: dict[Name, int] = {}
        for number, name in enumerate(names, first):
            check_name(name)
            if name in self._numbers or name in found:
                raise ValueError(f"{name!r} is an arm already")
            found[name] = number
        return found

    def add(self, names: Sequence[Name] | int, now: int) -> Ints:
        """Take up new arms from decision `now` on, and return their numbers."""
        numbers: dict[Name, int] = {}
        if isinstance(names, int | np.integer) and not isinstance(names, bool):
            if self.names is not None:
                raise ValueError(f"names must be given for new arms, since the others have some, got {names!r}")
            count = int(names)
            if count < 1:
                raise ValueError(f"names must be names or a number of arms from 1, got {names!r}")
        elif isinstance(names, str | bytes) or not isinstance(names, Sequence):
            raise TypeError(f"names must be a sequence of names or a number of arms, got {names!r}")
        elif self.names is None:
            raise ValueError(f"names must be a number of arms, since the others have no names, got {names!r}")
        else:
            numbers = self._new_numbers(names, self.n_arms)
            count = len(numbers)
            if not count:
                raise ValueError("names must have a name or more, got none")
        first = self.n_arms
        self.n_arms = first + count
        self.begin_again(range(first, self.n_arms), now)
        if self.names is not None:
            self.names += numbers
            self._numbers |= numbers
        self._live = None
        return np.arange(first, self.n_arms)

    def _next_divisor(self) -> float:
        """Return 1 / share of the next arm that was not counted beforehand."""
        self.extra += 1
        return later_divisor(self.extra - 1, self.n_first)

    def retire(self, arms: Iterable[int]) -> None:
        """Let arms be in no decision from now on."""
        self.retired.update(arms)
        self._live = None

    def restore(self, arms: Sequence[int], now: int | None = None) -> None:
        """Let retired arms be played again; from decision `now` on as new ones, if it is given."""
        for arm in arms:
            self.retired.discard(arm)
        if now is not None:
            self.begin_again(arms, now)
        self._live = None

    def begin_again(self, arms: Iterable[int], now: int) -> None:
        """Let arms be new ones from decision `now` on, retired or not."""
        self.later |= {arm: (now, self._next_divisor()) for arm in arms}
        self.newest = max(self.newest, now)

    def divisor(self, arm: int) -> float:
        """Return 1 / share of an arm."""
        return self.later[arm][1] if arm in self.later else float(self.n_first)

    def divisors(self) -> Floats:
        """Return 1 / share of every arm."""
        found = np.full(self.n_arms, float(self.n_first))
        for arm, (_, divisor) in self.later.items():
            found[arm] = divisor
        return found

    def number(self, name: Any, argument: str) -> int:
        """Return the number of an arm, given its name or, where there are none, its number."""
        if self.names is None:
            if isinstance(name, bool) or not isinstance(name, int | np.integer):
                raise TypeError(f"{argument} must be arm numbers, since the arms have no names, got {name!r}")
            if not 0 <= name < self.n_arms:
                raise UnknownArm(f"{argument} has arm {name}; arms are 0 to {self.n_arms - 1}")
            return int(name)
        try:
            found = self._numbers.get(name)
        except TypeError:
            found = None
        if found is None or isinstance(name, bool):
            raise UnknownArm(f"{argument} has {name!r}, which is no arm's name")
        return found

    def numbers(self, arms: Any, argument: str) -> Ints:
        """Return the numbers of different arms, in the order given."""
        if isinstance(arms, str | bytes | Mapping) or not isinstance(arms, Iterable):
            raise TypeError(f"{argument} must be a sequence of arms, got {arms!r}")
        if self.names is None and isinstance(arms, np.ndarray) and arms.ndim == 1 and arms.dtype.kind in "iu":
            found = arms.astype(np.int64)
            if found.size and not 0 <= found.min() <= found.max() < self.n_arms:
                outside = (found < 0) | (found >= self.n_arms)
                raise UnknownArm(f"{argument} has arm {found[outside][0]}; arms are 0 to {self.n_arms - 1}")
        else:
            found = np.array([self.number(arm, argument) for arm in arms], dtype=np.int64)
        if found.size > 1:
            ordered = np.sort(found)
            twice = ordered[1:] == ordered[:-1]
            if twice.any():
                raise ValueError(f"{argument} has {self.said(ordered[1:][twice][0])} twice")
        return found

    def name(self, arm: int) -> Name:
        """Return an arm's name, its number if it has none."""
        return int(arm) if self.names is None else self.names[arm]

    def named(self, arms: Ints) -> NDArray[Any]:
        """Return the names of arms, or the arms themselves where there are none."""
        if self.names is None:
            return arms
        found = np.empty(arms.size, object)
        for place, arm in enumerate(arms.tolist()):
            found[place] = self.names[arm]
        return found

    def said(self, arm: int) -> str:
        """Return how an error calls an arm."""
        return f"arm {arm}" if self.names is None else repr(self.names[arm])

    def view(self) -> Arms:
        """Return the facts of all arms, as arrays by number."""
        added, retired = np.zeros(self.n_arms, np.int64), np.zeros(self.n_arms, np.bool_)
        retired[list(self.retired)] = True
        for arm, (first, _) in self.later.items():
            added[arm] = first
        names = tuple(range(self.n_arms)) if self.names is None else tuple(self.names)
        return Arms(names, added, retired, 1.0 / self.divisors())

    def to_arrays(self) -> dict[str, NDArray[Any]]:
        """Return everything as arrays, for a file; none for arms that were never named nor changed."""
        arrays: dict[str, NDArray[Any]] = {}
        if self.extra or self.retired:
            later = sorted(self.later.items())
            arrays = {
                "counted": np.array([self.n_first, self.extra]),
                "later": np.array([arm for arm, _ in later], np.int64),
                "added": np.array([one[0] for _, one in later], np.int64),
                "divisors": np.array([one[1] for _, one in later], np.float64),
                "retired": np.array(sorted(self.retired), np.int64),
            }
        if self.names is not None:
            arrays["names"] = np.frombuffer(json.dumps(self.names, ensure_ascii=False).encode(), np.uint8)
        return arrays

    @classmethod
    def from_arrays(cls, arrays: Mapping[str, NDArray[Any]], n_arms: int, asked: int) -> Roster:
        """Return the roster that `to_arrays` wrote, after a check."""
        given, names = dict(arrays), None
        if "names" in given:
            text = given.pop("names")
            _require(text.dtype == np.uint8 and text.ndim == 1, "names of the arms must be text")
            names = [as_name(one) for one in json.loads(text.tobytes().decode())]
        roster = cls(n_arms, names)
        if not given:
            return roster
        kinds = {"counted": "i", "later": "i", "added": "i", "divisors": "f", "retired": "i"}
        _require(set(given) == set(kinds), f"arms must have {', '.join(kinds)}, got {', '.join(given)}")
        for name, kind in kinds.items():
            _require(given[name].ndim == 1 and given[name].dtype.str[1:] == f"{kind}8", f"{name} of the arms is odd")
        _require(given["counted"].size == 2, "counted must be two numbers")
        first, extra = given["counted"].tolist()
        later, added, divisors, retired = (given[name] for name in ("later", "added", "divisors", "retired"))
        _require(later.size == added.size == divisors.size, "arms that came later must each have all that they need")
        for arms in (later, retired):
            _require(np.all((arms >= 0) & (arms < n_arms)) and np.all(np.diff(arms) > 0), "arms must rise, and exist")
        _require(1 <= first <= n_arms and later.size <= extra < 2**40, "counted arms must fit their number")
        _require(np.isin(np.arange(first, n_arms), later).all(), "arms that were not counted must have come later")
        _require(np.all((added >= 0) & (added <= asked)), "arms must have been added before now")
        _require(np.all((divisors >= first) & (divisors <= 1e30)), "shares of delta must be at most those at first")
        _require(np.sum(1.0 / divisors) <= 1.0 + 1e-9, "shares of delta must sum to at most 1")
        roster.n_first, roster.extra, roster.retired = first, extra, set(retired.tolist())
        roster.later = dict(zip(later.tolist(), zip(added.tolist(), divisors.tolist(), strict=True), strict=True))
        roster.newest = max(added.tolist(), default=0)
        return roster


def later_divisor(before: int, n_first: int) -> float:
    """Return 1 / share of an arm that was not counted beforehand, of which there were some `before` it.

    Block i has K0 2^i of them, which together spend 1 / ((i+1) (i+2)) of delta, so all blocks together spend delta.
    """
    block = int(math.log2(before / n_first + 1.0))
    return (block + 1.0) * (block + 2.0) * n_first * 2.0**block


def _require(right: Any, fact: str) -> None:
    if not right:
        raise ValueError(fact)


def check_name(name: Any) -> None:
    """Refuse what cannot name an arm."""
    if isinstance(name, tuple):
        for part in name:
            check_name(part)
    elif isinstance(name, bool) or not isinstance(name, str | int):
        raise TypeError(f"names must be str, int or tuples of them, got {name!r}")


def as_name(value: Any) -> Name:
    """Return the name that JSON has written: its lists were tuples."""
    return tuple(as_name(one) for one in value) if isinstance(value, list) else value
