"""DecisionSet: which decisions are allowed, known through the exact maximisation of a sum of weights."""

from __future__ import annotations

from abc import ABC, abstractmethod
from collections.abc import Iterable, Iterator, Mapping
from functools import cached_property
from typing import Any, Self

import numpy as np
from numpy.typing import ArrayLike, NDArray

from armtriage._arguments import as_array, check_arms, check_each
from armtriage.arms import Name, Roster, check_name
from armtriage.kernels.record import Floats, Ints

Marks = NDArray[np.int8]
"""For each arm, 1 if a decision must contain it, -1 if it must not, 0 if it may."""

LISTED = 100_000
"""The most decisions that iteration gives, and the most questions that listing them may ask of an oracle."""

_LARGEST = 1e100  # sums of so large weights, even of all arms, stay finite
_SHOWN = 12  # numbers of an array that a representation writes out


def frozen(array: NDArray[Any]) -> NDArray[Any]:
    """Return a C-contiguous copy that cannot be written to."""
    copy = np.array(array, order="C")
    copy.flags.writeable = False
    return copy


def as_names(argument: str, names: Iterable[Any]) -> list[Name]:
    """Return different names as a list."""
    if isinstance(names, str | bytes | Mapping) or not isinstance(names, Iterable):
        raise TypeError(f"{argument} must be a sequence of names, got {names!r}")
    given: list[Name] = []
    known = set()
    for name in names:
        check_name(name)
        if name in known:
            raise ValueError(f"{argument} must be different names, got {name!r} twice")
        known.add(name)
        given.append(name)
    return given


def written(names: list[Name]) -> NDArray[np.uint8]:
    """Return names as an array, for a file."""
    return Roster(len(names), names).to_arrays()["names"]


def named_in(text: Any, count: int) -> list[Name]:
    """Return the names that `written` wrote, after a check."""
    names = Roster.from_arrays({"names": np.asarray(text)}, count, 0).names
    assert names is not None
    return names


class DecisionSet(ABC):
    """A family of allowed decisions, each a set of arms, with an exact oracle for the best of them.

    The families are `TopS`, `PartitionMatroid`, `Matchings`, `SpanningTrees`, `Paths`, `Knapsack`, `Constraints`
    and `Explicit`. For one of your own, subclass this with `_maximise` and `_arguments`; everything else follows.

    Parameters
    ----------
    n_arms : int
        The number of arms, which are 0 to ``n_arms - 1``.
    size : int
        The number of arms of the largest decision.

    Examples
    --------
    >>> from armtriage import PartitionMatroid
    >>> slates = PartitionMatroid([0, 0, 1, 1], capacities=1)
    >>> slates.maximise([0.2, 0.9, 0.4, 0.1])
    array([1, 2])
    >>> slates.maximise([0.2, 0.9, 0.4, 0.1], include=[0], exclude=[2])
    array([0, 3])
    >>> slates.count(), [decision.tolist() for decision in slates]
    (4, [[0, 2], [0, 3], [1, 2], [1, 3]])
    """

    def __init__(self, n_arms: int, size: int) -> None:
        self.n_arms = n_arms
        self.size = size

    @property
    def names(self) -> list[Name] | None:
        """What the arms are called, for the `names` of a policy; None where they have no names."""
        return None

    @property
    def needs_costs(self) -> bool:
        """Whether the best decision can only be found for weights of at most 0, as costs that are not negative give."""
        return False

    def check_direction(self, direction: str, reward_range: tuple[float, float]) -> None:
        """Refuse what a policy is told, or a world tells, if this set cannot be asked for the best of it.

        Examples
        --------
        >>> from armtriage import Paths
        >>> two_way = Paths(4, [(0, 1), (0, 2), (1, 2), (1, 3), (2, 3)], 0, 3, directed=False)
        >>> two_way.check_direction("minimize", (0.0, 30.0))
        >>> two_way.check_direction("maximize", (0.0, 30.0))
        Traceback (most recent call last):
        ValueError: direction must be 'minimize' and reward_range from 0 for a network with cycles, ...
        """
        if self.needs_costs and (direction != "minimize" or reward_range[0] < 0.0):
            accepted = "direction must be 'minimize' and reward_range from 0 for a network with cycles"
            raise ValueError(f"{accepted}, got {direction!r} and {reward_range} for {self!r}")

    @cached_property
    def same_size(self) -> bool:
        """Whether all decisions have the same number of arms, so that only differences of weights count."""
        smallest = self._maximise(-np.ones(self.n_arms), np.zeros(self.n_arms, np.int8))
        assert smallest is not None
        return smallest.size == self.size

    @abstractmethod
    def _maximise(self, weights: Floats, marks: Marks) -> Ints | None:
        """Return the arms, ascending, of a best decision that obeys the marks, or None if there is none."""

    @abstractmethod
    def _arguments(self) -> dict[str, Any]:
        """Return the constructor's arguments by name: numbers and arrays that make an equal set."""

    @classmethod
    def _of(cls, arguments: dict[str, Any]) -> Self:
        """Return the set with these `_arguments`."""
        return cls(**arguments)

    def _exchange(self, weights: Floats, marks: Marks) -> tuple[Floats, Floats] | None:
        """Return, for all arms at once, the best values with each arm and without it, if there is a fast way."""
        return None

    def maximise(self, weights: ArrayLike, include: ArrayLike = (), exclude: ArrayLike = ()) -> Ints | None:
        """Return a decision of largest total weight; the same question always has the same answer.

        Parameters
        ----------
        weights : array_like
            One number for each arm, of either sign.
        include, exclude : array_like of int
            Arms that the decision must contain, and must not.

        Returns
        -------
        ndarray or None
            The arms, ascending; None if no decision obeys `include` and `exclude`.
        """
        values, marks = self._check_weights(weights), self._marks(include, exclude)
        return None if marks is None else self._maximise(values, marks)

    def maximise_each_including(
        self, weights: ArrayLike, arms: ArrayLike | None = None, include: ArrayLike = (), exclude: ArrayLike = ()
    ) -> Floats:
        """Return, for each of `arms` (by default all), the largest total weight of a decision that contains it.

        It is -inf where there is no such decision. One `maximise` for each arm would give the same, up to rounding, but
        for most families all together cost little more than a single one.

        Examples
        --------
        >>> from armtriage import TopS
        >>> TopS(3, budget=2).maximise_each_including([5.0, 3.0, 1.0])
        array([8., 8., 6.])
        """
        return self._each(1, weights, arms, include, exclude)

    def maximise_each_excluding(
        self, weights: ArrayLike, arms: ArrayLike | None = None, include: ArrayLike = (), exclude: ArrayLike = ()
    ) -> Floats:
        """Return, for each of `arms` (by default all), the largest total weight of a decision that avoids it.

        Examples
        --------
        >>> from armtriage import TopS
        >>> TopS(3, budget=2).maximise_each_excluding([5.0, 3.0, 1.0])
        array([4., 6., 8.])
        """
        return self._each(-1, weights, arms, include, exclude)

    def _each(self, mark: int, weights: ArrayLike, arms: Any, include: ArrayLike, exclude: ArrayLike) -> Floats:
        values, marks = self._check_weights(weights), self._marks(include, exclude)
        asked = None if arms is None else check_arms(arms, self.n_arms)
        both = None if marks is None else self._exchange(values, marks)
        if both is not None:
            found = both[0 if mark == 1 else 1]
            found[marks == -mark] = -np.inf
            return found if asked is None else found[asked]
        asked = np.arange(self.n_arms) if asked is None else asked
        return np.full(asked.size, -np.inf) if marks is None else self._ask_each(mark, values, marks, asked)

    def _ask_each(self, mark: int, weights: Floats, marks: Marks, arms: Ints) -> Floats:
        """Return the best values with (mark 1) or without (mark -1) each arm, by one question for each."""
        result = np.full(arms.size, -np.inf)
        best = self._maximise(weights, marks)
        if best is None:
            return result
        contained = np.zeros(self.n_arms, np.bool_)
        contained[best] = True
        obeyed = contained[arms] == (mark == 1)
        result[obeyed] = weights[best].sum()
        for i in np.flatnonzero(~obeyed & (marks[arms] == 0)):
            marks[arms[i]] = mark
            other = self._maximise(weights, marks)
            marks[arms[i]] = 0
            if other is not None:
                result[i] = weights[other].sum()
        return result

    def contains(self, arms: ArrayLike) -> bool:
        """Return whether these arms, in any order, are a decision of the set."""
        chosen = check_arms(arms, self.n_arms)
        marks = np.full(self.n_arms, -1, np.int8)
        marks[chosen] = 1
        return int((marks == 1).sum()) == chosen.size and self._allows(marks)

    def _allows(self, marks: Marks) -> bool:
        """Return whether the arms marked 1 are a decision; all others are marked -1."""
        return self._maximise(np.zeros(self.n_arms), marks) is not None

    def count(self) -> int | None:
        """Return the exact number of decisions; None where there is no formula and they are too many to list."""
        listed = self._list()
        return None if listed is None else len(listed)

    def __iter__(self) -> Iterator[Ints]:
        count = self.count()
        listed = self._list() if count is not None and count <= LISTED else None
        if listed is None:
            known = "more decisions than can be listed" if count is None else f"{_short(count)} decisions"
            raise ValueError(f"{self!r} has {known}; iteration is for at most {LISTED}")
        return (np.array(arms, np.int64) for arms in sorted(listed))

    def _list(self) -> list[tuple[int, ...]] | None:
        """Return all decisions, or None where that would ask the oracle too often.

        Each branch of the search holds a decision that proves it alive, so only the other branch asks.
        """
        nothing = np.zeros(self.n_arms)
        free = np.zeros(self.n_arms, np.int8)
        first = self._maximise(nothing, free)
        branches = [] if first is None else [(0, free, first)]
        found: list[tuple[int, ...]] = []
        asked = 0
        while branches:
            arm, marks, alive = branches.pop()
            members = set(alive.tolist())
            taken = int((marks == 1).sum())
            while arm < self.n_arms and taken < self.size:
                mark = 1 if arm in members else -1
                marks[arm] = -mark
                other = self._maximise(nothing, marks)
                asked += 1
                if other is not None:
                    branches.append((arm + 1, marks.copy(), other))
                marks[arm] = mark
                taken += mark == 1
                arm += 1
            found.append(tuple(alive.tolist()))
            if asked > LISTED:
                return None
        return found

    def to_arrays(self) -> dict[str, NDArray[Any]]:
        """Return everything that defines the set as plain arrays, for saving; `from_arrays` takes them back.

        Examples
        --------
        >>> from armtriage import TopS
        >>> DecisionSet.from_arrays(TopS(5, budget=2).to_arrays())
        TopS(n_arms=5, budget=2)
        """
        return {"kind": np.array(type(self).__name__)} | {
            name: np.array(one) for name, one in self._arguments().items()
        }

    @classmethod
    def from_arrays(cls, arrays: Mapping[str, NDArray[Any]]) -> Self:
        """Return the set that `to_arrays` gave, of this class or one below it; anything else raises ValueError."""
        if not isinstance(arrays, Mapping) or "kind" not in arrays:
            raise ValueError(f"arrays must be what to_arrays gave, with its key 'kind', got {arrays!r}")
        kinds = {kind.__name__: kind for kind in _family(cls)}
        name = str(arrays["kind"])
        if name not in kinds:
            raise ValueError(f"arrays must hold a {cls.__name__}, got kind {name!r}")
        parts = {key: np.asarray(one) for key, one in arrays.items() if key != "kind"}
        try:
            made: Self = kinds[name]._of({key: one if one.ndim else one.item() for key, one in parts.items()})
        except (KeyError, TypeError, ValueError, RecursionError) as error:
            raise ValueError(f"arrays must hold a whole {name}: {error}") from error
        return made

    def _check_weights(self, weights: ArrayLike) -> Floats:
        array = as_array("weights", weights)
        if array.dtype.kind not in "biuf":
            raise TypeError(f"weights must be numbers, got {array.dtype}")
        if array.shape != (self.n_arms,):
            raise ValueError(f"weights must have shape ({self.n_arms},), one for each arm, got {array.shape}")
        array = np.ascontiguousarray(array, np.float64)
        check_each("weights", array, np.abs(array) <= _LARGEST, f"lie in [-{_LARGEST:g}, {_LARGEST:g}]")
        return array

    def _marks(self, include: ArrayLike, exclude: ArrayLike) -> Marks | None:
        """Return the marks of both, or None if they contradict each other."""
        marks = np.zeros(self.n_arms, np.int8)
        inside, outside = check_arms(include, self.n_arms, "include"), check_arms(exclude, self.n_arms, "exclude")
        marks[inside] = 1
        if (marks[outside] == 1).any():
            return None
        marks[outside] = -1
        return marks

    def __contains__(self, arms: ArrayLike) -> bool:
        return self.contains(arms)

    def __eq__(self, other: object) -> bool:
        if type(other) is not type(self):
            return NotImplemented
        mine, theirs = self._arguments(), other._arguments()
        return mine.keys() == theirs.keys() and all(np.array_equal(mine[name], theirs[name]) for name in mine)

    def __hash__(self) -> int:
        return hash((type(self).__name__, self.n_arms, self.size))

    def __repr__(self) -> str:
        return f"{type(self).__name__}({', '.join(f'{name}={_show(one)}' for name, one in self._arguments().items())})"


def _show(value: Any) -> str:
    if not isinstance(value, np.ndarray):
        return repr(value)
    return str(value.tolist()) if value.size <= _SHOWN else f"<{' x '.join(map(str, value.shape))} array>"


def _short(count: int) -> str:
    return str(count) if count < 10**12 else f"about 10^{(count.bit_length() - 1) * 0.30103:.0f}"


def _family(kind: type[Any]) -> list[type[Any]]:
    """Return the class and all that descend from it."""
    return [kind, *(one for child in kind.__subclasses__() for one in _family(child))]
