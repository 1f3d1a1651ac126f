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
from typing import Any, ClassVar, Self, dataclass_transform

import numba
import numpy as np
from llvmlite import ir
from numba.core import cgutils
from numba.core.imputils import lower_getattr_generic, lower_setattr_generic
from numba.core.typing.templates import AttributeTemplate, infer_getattr
from numba.extending import NativeValue, intrinsic, models, register_model, typeof_impl, unbox
from numba.np.arrayobj import populate_array
from numpy.typing import NDArray

from armtriage.kernels.jit import JIT

__all__ = ["Record", "RecordType", "opener"]

_types: Any = numba.types
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


@dataclass_transform()
class Record:
    """Base of what kernels work on: annotate the fields, give their values in the same order.

    Fields annotated ``int``, ``bool`` or ``float`` are numbers, which may change. All others are arrays or records,
    whose content may change while they themselves may not. With ``frozen=True`` no number changes either, and compiled
    code counts on it.

    Attributes
    ----------
    whole, real : ndarray
        The whole and the real numbers, in the order of the fields.

    Examples
    --------
    >>> class Count(Record):
    ...     seen: NDArray[np.int64]
    ...     total: int
    >>> count = Count(np.zeros(3, np.int64), 5)
    >>> count.total += 1
    >>> count.total, count.whole
    (6, array([6]))
    """

    _fields: ClassVar[tuple[str, ...]] = ()
    frozen: ClassVar[bool] = False
    _numbers: ClassVar[dict[str, _Number]] = {}
    whole: NDArray[np.int64]
    real: NDArray[np.float64]

    def __init_subclass__(cls, frozen: bool = False) -> None:
        kinds = inspect.get_annotations(cls)
        cls._fields, cls.frozen, cls._numbers = tuple(kinds), frozen, {}
        sizes = {"whole": 0, "real": 0}
        for name, kind in kinds.items():
            if found := _NUMBERS.get(kind if isinstance(kind, str) else getattr(kind, "__name__", "")):
                bag, made_by = found
                cls._numbers[name] = _Number(bag, sizes[bag], made_by)
                sizes[bag] += 1
                setattr(cls, name, cls._numbers[name])
        typeof_impl.register(cls)(lambda record, context: record.type)

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
    def type(self) -> RecordType:
        """What the compiler knows of it: names, and where they stand."""
        places: list[tuple[str, Any, int]] = []
        place = len(self._numbers)
        for name in self._fields:
            number = self._numbers.get(name)
            if number is None:
                value = getattr(self, name)
                kind = value.type if isinstance(value, Record) else numba.typeof(value).copy(readonly=False)
                places.append((name, kind, place))
                place += _words_of(value)
            else:
                kind = {int: _types.int64, float: _types.float64, bool: _types.boolean}[number.kind]
                places.append((name, kind, number.place + (self.whole.size if number.bag == "real" else 0)))
        return RecordType(type(self).__qualname__, tuple(places), self.frozen)

    @property
    def handle(self) -> Any:
        """What a bound kernel is called with: the address, or the record itself where nothing is compiled."""
        return self.address if JIT else self

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


def _words_of(value: Any) -> int:
    return 1 + 2 * value.ndim if isinstance(value, np.ndarray) else 1


class RecordType(_types.Type):  # type: ignore[misc]
    """A record as the compiler sees it: each field's type and its place in a block of 64-bit words."""

    def __init__(self, name: str, places: tuple[tuple[str, Any, int], ...], frozen: bool) -> None:
        self.places = {field: (kind, place) for field, kind, place in places}
        self.frozen = frozen
        # A short name: it becomes part of the symbol of every function that takes a record.
        digest = hashlib.sha256(repr((places, frozen)).encode()).hexdigest()[:12]
        super().__init__(name=f"{name}_{digest}")


@register_model(RecordType)
class _RecordModel(models.OpaqueModel):  # type: ignore[misc]
    pass


@unbox(RecordType)  # type: ignore[untyped-decorator]
def _unbox_record(kind: Any, obj: Any, c: Any) -> Any:
    address = c.pyapi.object_getattr_string(obj, "address")
    pointer = c.pyapi.long_as_voidptr(address)
    c.pyapi.decref(address)
    return NativeValue(pointer, is_error=cgutils.is_not_null(c.builder, c.pyapi.err_occurred()))


@infer_getattr
class _RecordAttribute(AttributeTemplate):  # type: ignore[misc]
    key = RecordType

    def generic_resolve(self, kind: Any, name: str) -> Any:
        return kind.places[name][0] if name in kind.places else None


def _word(builder: Any, record: Any, place: int, fixed: bool) -> Any:
    """Load a word; one that never changes may stay in a register whatever else is written."""
    word = builder.load(_at(builder, record, place, ir.IntType(64)))
    if fixed:
        word.set_metadata("invariant.load", builder.module.add_metadata([]))
    return word


def _at(builder: Any, record: Any, place: int, kind: Any) -> Any:
    return builder.gep(builder.bitcast(record, kind.as_pointer()), [ir.Constant(ir.IntType(64), place)])


@lower_getattr_generic(RecordType)  # type: ignore[untyped-decorator]
def _get_field(context: Any, builder: Any, kind: Any, record: Any, name: str) -> Any:
    field, place = kind.places[name]
    if isinstance(field, RecordType):
        return builder.inttoptr(_word(builder, record, place, True), cgutils.voidptr_t)
    if isinstance(field, _types.Array):
        return _array_at(context, builder, field, record, place)
    word = _word(builder, record, place, kind.frozen)
    if field == _types.float64:
        return builder.bitcast(word, ir.DoubleType())
    return cgutils.is_not_null(builder, word) if field == _types.boolean else word


def _array_at(context: Any, builder: Any, kind: Any, record: Any, place: int) -> Any:
    """Return an array that owns nothing: the record keeps it alive, and no reference to it is ever counted."""
    words = [_word(builder, record, place + i, True) for i in range(1 + 2 * kind.ndim)]
    item = context.get_abi_sizeof(context.get_data_type(kind.dtype))
    shape, strides = words[1 : 1 + kind.ndim], words[1 + kind.ndim :]
    if kind.layout == "C":
        strides = [context.get_constant(_types.intp, item)]
        for size in shape[:0:-1]:
            strides.insert(0, builder.mul(strides[0], size))
    array = context.make_array(kind)(context, builder)
    data = builder.inttoptr(words[0], context.get_data_type(kind.dtype).as_pointer())
    populate_array(array, data, shape, strides, item, None)
    return array._getvalue()


@lower_setattr_generic(RecordType)  # type: ignore[untyped-decorator]
def _set_field(context: Any, builder: Any, signature: Any, args: Any, name: str) -> None:
    field, place = signature.args[0].places[name]
    value = builder.zext(args[1], ir.IntType(64)) if field == _types.boolean else args[1]
    builder.store(value, _at(builder, args[0], place, value.type))


def opener(kind: RecordType) -> Any:
    """Return a function for kernels that finds a record by its address; without compilation that is the record."""
    if not JIT:
        return lambda record: record

    @intrinsic  # type: ignore[untyped-decorator]
    def open_record(typingctx: Any, address: Any) -> Any:
        def codegen(context: Any, builder: Any, signature: Any, args: Any) -> Any:
            return builder.inttoptr(args[0], cgutils.voidptr_t)

        return kind(_types.int64), codegen

    open_record.digest = kind.name
    return open_record
