"""Record: arrays and numbers under names, handed to compiled code as one pointer.

A NamedTuple of forty arrays is unpacked at every call from Python and copied at every call between kernels, which
costs more than most kernels do. A record keeps the addresses of its arrays, and its numbers, in one block of memory:
kernels get the block's address, read arrays out of it where they use them, and write numbers into it.
"""

from __future__ import annotations

import hashlib
import inspect
from collections.abc import Iterator
from functools import cached_property
from typing import Any, ClassVar, NamedTuple, Self, TypeVar, dataclass_transform

import numpy as np
from numpy.typing import NDArray

from armtriage.kernels.jit import JIT

Floats = NDArray[np.float64]
Ints = NDArray[np.int64]
R = TypeVar("R", bound="Record")
_ARRAYS = {"Floats": np.float64, "Ints": np.int64} | {
    f"NDArray[np.{one}]": np.dtype(one) for one in ("int32", "int64", "uint8", "uint64", "float64")
}
_NUMBERS: dict[str, tuple[str, type]] = {"int": ("whole", int), "bool": ("whole", bool), "float": ("real", float)}


class _Number:
    """A number of a record, which Python and compiled code read and write in the same place."""

    def __init__(self, bag: str, place: int, kind: type) -> None:
        self.bag, self.place, self.kind = bag, place, kind

    def __get__(self, record: Any, owner: type) -> Any:
        if record is None:
            return self
        value = getattr(record, self.bag)[self.place]
        return bool(value) if self.kind is bool else value

    def __set__(self, record: Any, value: Any) -> None:
        getattr(record, self.bag)[self.place] = value


class _Fact(NamedTuple):
    """Between which numbers a field of a file lies: a number, the name of one that a policy knows, or None."""

    low: Any
    high: Any


def fact(low: float | str | None = None, high: float | str | None = None) -> Any:
    """Mark a field that a file keeps, and say what limits it has: numbers, or names of what the policy knows."""
    return _Fact(low, high)


@dataclass_transform(field_specifiers=(fact,))
class Record:
    """Base of what kernels work on: annotate the fields, give their values in the same order.

    Fields annotated ``int``, ``bool`` or ``float`` are numbers, which may change. All others are arrays or records,
    whose content may change while they themselves may not. With ``frozen=True`` no number changes either, and compiled
    code counts on it.

    Attributes
    ----------
    whole, real : ndarray
        The whole and the real numbers, in the order of the fields.
    facts : tuple of str or None
        The fields that a file keeps, since all others follow from them: those that `fact` marks, with their `limits`,
        or, without any mark, those that the class lists here; None for all.

    Examples
    --------
    >>> class Count(Record):
    ...     seen: NDArray[np.int64]
    ...     total: int
    >>> count = Count(np.zeros(3, np.int64), 5)
    >>> count.total += 1
    >>> int(count.total), count.whole
    (6, array([6]))
    """

    _fields: ClassVar[tuple[str, ...]] = ()
    frozen: ClassVar[bool] = False
    facts: ClassVar[tuple[str, ...] | None] = None
    limits: ClassVar[dict[str, _Fact]] = {}
    _numbers: ClassVar[dict[str, _Number]] = {}
    whole: NDArray[np.int64]
    real: NDArray[np.float64]

    def __init_subclass__(cls, frozen: bool = False) -> None:
        kinds = inspect.get_annotations(cls)
        cls._fields, cls.frozen, cls._numbers = tuple(kinds), frozen, {}
        if marked := {name: vars(cls)[name] for name in kinds if isinstance(vars(cls).get(name), _Fact)}:
            cls.facts, cls.limits = tuple(marked), marked
        sizes = {"whole": 0, "real": 0}
        for name, kind in kinds.items():
            if found := _NUMBERS.get(kind if isinstance(kind, str) else getattr(kind, "__name__", "")):
                bag, made_by = found
                cls._numbers[name] = _Number(bag, sizes[bag], made_by)
                sizes[bag] += 1
                setattr(cls, name, cls._numbers[name])

    def __init__(self, *values: Any, **named: Any) -> None:
        given = dict(zip(self._fields, values, strict=False)) | named
        if len(values) + len(named) != len(self._fields) or set(given) != set(self._fields):
            raise TypeError(f"{type(self).__name__} takes {', '.join(self._fields)}, got {', '.join(given)}")
        n_whole = sum(number.bag == "whole" for number in self._numbers.values())
        self._words = np.zeros(sum(_words_of(value) for value in given.values()), np.int64)
        self.whole = self._words[:n_whole]
        self.real = self._words[n_whole : len(self._numbers)].view(np.float64)
        place = len(self._numbers)
        for name in self._fields:
            value = given[name]
            setattr(self, name, value)
            if name not in self._numbers:
                words = (
                    [value.address] if isinstance(value, Record) else [value.ctypes.data, *value.shape, *value.strides]
                )
                self._words[place : place + len(words)] = words
                place += len(words)
        self.address: int = self._words.ctypes.data

    @cached_property
    def layout(self) -> RecordLayout:
        """What the compiler must know of it: names, and what stands where."""
        places: list[tuple[str, Any, int]] = []
        place = len(self._numbers)
        for name in self._fields:
            number = self._numbers.get(name)
            if number is None:
                value = getattr(self, name)
                places.append((name, value.layout if isinstance(value, Record) else _kind_of(value), place))
                place += _words_of(value)
            else:
                places.append((name, number.kind, number.place + (self.whole.size if number.bag == "real" else 0)))
        parts = [(name, _short(kind), place) for name, kind, place in places]
        digest = hashlib.sha256(repr((parts, self.frozen)).encode()).hexdigest()[:12]
        return RecordLayout(f"{type(self).__qualname__}_{digest}", tuple(places), self.frozen)

    @property
    def _numba_type_(self) -> Any:
        from armtriage.kernels.record_types import kind_of

        return kind_of(self.layout)

    @property
    def handle(self) -> Any:
        """What a bound kernel is called with: the address, or the record itself where nothing is compiled."""
        return self.address if JIT else self

    def raw(self, name: str) -> Any:
        """Return a field as it is kept: of a flag the whole number."""
        number = self._numbers.get(name)
        return getattr(self, name) if number is None else getattr(self, number.bag)[number.place]

    @classmethod
    def is_fact(cls, name: str) -> bool:
        """Whether a file keeps the field."""
        return cls.facts is None or name in cls.facts

    @classmethod
    def fact_places(cls, bag: str) -> NDArray[np.int64]:
        """Return where the facts are in `whole` or `real`."""
        numbers = cls._numbers.items()
        return np.array([one.place for name, one in numbers if one.bag == bag and cls.is_fact(name)], np.int64)

    def __setattr__(self, name: str, value: Any) -> None:
        # The addresses in the block would go on pointing to what the record no longer keeps alive.
        if "address" in self.__dict__ and name in self._fields and (self.frozen or name not in self._numbers):
            raise AttributeError(f"{name} of {type(self).__name__} is fixed")
        super().__setattr__(name, value)

    def __reduce__(self) -> tuple[Any, ...]:
        return type(self), tuple(self)

    def __iter__(self) -> Iterator[Any]:
        return (getattr(self, name) for name in self._fields)

    def _asdict(self) -> dict[str, Any]:
        return {name: getattr(self, name) for name in self._fields}

    def _replace(self, **values: Any) -> Self:
        return type(self)(**(self._asdict() | values))


def blank(kind: type[R], size: int, /, **given: Any) -> R:
    """Return a record in which what is not given is 0: numbers, and arrays of `size` numbers.

    Examples
    --------
    >>> class Count(Record):
    ...     seen: NDArray[np.uint8]
    ...     total: int
    ...     least: float
    >>> blank(Count, 3, least=0.5)._asdict()
    {'seen': array([0, 0, 0], dtype=uint8), 'total': np.int64(0), 'least': np.float64(0.5)}
    """
    fields = {name: str(one) for name, one in inspect.get_annotations(kind).items() if name not in given}
    empty = {name: 0 if one in _NUMBERS else np.zeros(size, _ARRAYS[one]) for name, one in fields.items()}
    return kind(**empty, **given)


def _words_of(value: Any) -> int:
    return 1 + 2 * value.ndim if isinstance(value, np.ndarray) else 1


def _kind_of(array: NDArray[Any]) -> tuple[np.dtype[Any], int, str]:
    """Return an array's type, its number of dimensions, and C if its items stand side by side."""
    return array.dtype, array.ndim, "C" if array.flags.c_contiguous else "A"


def _short(kind: Any) -> Any:
    """Return what tells a kind of field from others."""
    if isinstance(kind, RecordLayout):
        return kind.name
    return kind.__name__ if isinstance(kind, type) else (kind[0].str, *kind[1:])


class RecordLayout(NamedTuple):
    """What stands where in a block of 64-bit words.

    Each field has a name, a kind and a place. A kind is the class of a number, what `_kind_of` says of an array, or the
    layout of a record.
    """

    name: str  # with a digest; short, since it becomes part of the symbol of every function that takes the record
    places: tuple[tuple[str, Any, int], ...]
    frozen: bool

    def __hash__(self) -> int:
        return hash(self.name)
