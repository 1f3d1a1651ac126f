"""Records as numba sees them, and the few functions of kernels that Python has no words for.

This is written with what numba offers to everybody (`numba.extending`), whichever way kernels are compiled.
"""

from __future__ import annotations

import functools
from typing import Any

import numba
from llvmlite import ir
from numba.core import cgutils
from numba.core.typing.templates import AttributeTemplate
from numba.extending import (
    NativeValue,
    infer_getattr,
    intrinsic,
    lower_getattr_generic,
    lower_setattr_generic,
    models,
    register_model,
    unbox,
)

from armtriage.kernels.record import RecordLayout

_types: Any = numba.types


def kind_of(one: Any) -> Any:
    """Return the type of a number by its class, of an array, or of a record's layout."""
    if isinstance(one, type):
        return {int: _types.int64, float: _types.float64, bool: _types.boolean}[one]
    return _record_type(one) if isinstance(one, RecordLayout) else numba.typeof(one).copy(readonly=False)


@functools.cache
def _record_type(layout: RecordLayout) -> _RecordType:
    places = {}
    for name, kind, place in layout.places:
        if isinstance(kind, type | RecordLayout):
            places[name] = kind_of(kind), place
        else:
            dtype, dimensions, order = kind
            places[name] = _types.Array(numba.from_dtype(dtype), dimensions, order), place
    return _RecordType(layout.name, places, layout.frozen)


class _RecordType(_types.Type):  # type: ignore[misc]
    """A record as the compiler sees it: each field's type and its place in a block of 64-bit words."""

    def __init__(self, name: str, places: dict[str, tuple[Any, int]], frozen: bool) -> None:
        self.places, self.frozen = places, frozen
        super().__init__(name=name)


@register_model(_RecordType)
class _RecordModel(models.OpaqueModel):  # type: ignore[misc]
    pass


@unbox(_RecordType)  # type: ignore[untyped-decorator]
def _unbox_record(kind: Any, obj: Any, c: Any) -> Any:
    address = c.pyapi.object_getattr_string(obj, "address")
    pointer = c.pyapi.long_as_voidptr(address)
    c.pyapi.decref(address)
    return NativeValue(pointer, is_error=cgutils.is_not_null(c.builder, c.pyapi.err_occurred()))


@infer_getattr
class _RecordAttribute(AttributeTemplate):  # type: ignore[misc]
    key = _RecordType

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


@lower_getattr_generic(_RecordType)  # type: ignore[untyped-decorator]
def _get_field(context: Any, builder: Any, kind: Any, record: Any, name: str) -> Any:
    field, place = kind.places[name]
    if isinstance(field, _RecordType):
        return builder.inttoptr(_word(builder, record, place, True), cgutils.voidptr_t)
    if isinstance(field, _types.Array):
        return _array_at(context, builder, field, record, place)
    word = _word(builder, record, place, kind.frozen)
    if field == _types.float64:
        return builder.bitcast(word, ir.DoubleType())
    return cgutils.is_not_null(builder, word) if field == _types.boolean else word


def _array_at(context: Any, builder: Any, kind: Any, record: Any, place: int) -> Any:
    """Return an array that owns nothing: the record keeps it alive, and no reference to it is ever counted."""
    whole, axes = ir.IntType(64), range(kind.ndim)
    item = whole(context.get_abi_sizeof(context.get_data_type(kind.dtype)))
    data, *shape = (_word(builder, record, place + i, True) for i in range(1 + kind.ndim))
    if kind.layout == "C":
        strides = [item]
        for size in shape[:0:-1]:
            strides.insert(0, builder.mul(strides[0], size))
    else:
        strides = [_word(builder, record, place + 1 + kind.ndim + i, True) for i in axes]
    model = context.data_model_manager[kind]
    count = functools.reduce(builder.mul, shape)
    parts = {"data": builder.inttoptr(data, context.get_data_type(kind.dtype).as_pointer())}
    parts |= {"nitems": count, "itemsize": item}
    array = ir.Constant(model.get_value_type(), None)
    for name, part in parts.items():
        array = builder.insert_value(array, part, model.get_field_position(name))
    for name, sizes in (("shape", shape), ("strides", strides)):
        for axis in axes:
            array = builder.insert_value(array, sizes[axis], [model.get_field_position(name), axis])
    return array


@lower_setattr_generic(_RecordType)  # type: ignore[untyped-decorator]
def _set_field(context: Any, builder: Any, signature: Any, args: Any, name: str) -> None:
    field, place = signature.args[0].places[name]
    value = builder.zext(args[1], ir.IntType(64)) if field == _types.boolean else args[1]
    builder.store(value, _at(builder, args[0], place, value.type))


def opener(layout: RecordLayout) -> Any:
    """Return a function for kernels that finds a record of this layout by its address."""
    kind = _record_type(layout)

    @intrinsic  # type: ignore[untyped-decorator]
    def open_record(typingctx: Any, address: Any) -> Any:
        def codegen(context: Any, builder: Any, signature: Any, args: Any) -> Any:
            return builder.inttoptr(args[0], cgutils.voidptr_t)

        return kind(_types.int64), codegen

    return open_record


@intrinsic  # type: ignore[untyped-decorator]
def float_word(typingctx: Any, number: Any) -> Any:
    """Return the 64 bits of a number as a whole one."""

    def codegen(context: Any, builder: Any, signature: Any, args: Any) -> Any:
        return builder.bitcast(args[0], ir.IntType(64))

    return _types.int64(_types.float64), codegen


@intrinsic  # type: ignore[untyped-decorator]
def trailing_zeros(typingctx: Any, word: Any) -> Any:
    """Return how many bits below the lowest that is set are not, in a 64-bit word other than 0."""

    def codegen(context: Any, builder: Any, signature: Any, args: Any) -> Any:
        return builder.cttz(args[0], cgutils.true_bit)

    return _types.int64(_types.uint64), codegen


@intrinsic  # type: ignore[untyped-decorator]
def first_of_eight(typingctx: Any, values: Any, arms: Any, place: Any, value: Any, arm: Any) -> Any:
    """Return how many of the eight pairs from a place on come before a pair: larger, or equal and of a smaller arm."""

    def codegen(context: Any, builder: Any, signature: Any, args: Any) -> Any:
        def eight(array: Any, kind: Any) -> Any:
            items = ir.VectorType(context.get_data_type(kind.dtype), 8)
            data = context.make_array(kind)(context, builder, array).data
            return builder.load(builder.bitcast(builder.gep(data, [args[2]]), items.as_pointer()), align=8)

        def copies(one: Any) -> Any:
            row = ir.VectorType(one.type, 8)
            first = builder.insert_element(ir.Constant(row, ir.Undefined), one, ir.IntType(32)(0))
            return builder.shuffle_vector(first, first, ir.Constant(ir.VectorType(ir.IntType(32), 8), [0] * 8))

        all_values, all_arms = (eight(*one) for one in zip(args[:2], signature.args[:2], strict=True))
        one_value, one_arm = copies(args[3]), copies(args[4])
        tie = builder.and_(
            builder.fcmp_ordered("==", all_values, one_value), builder.icmp_signed("<", all_arms, one_arm)
        )
        ahead = builder.or_(builder.fcmp_ordered(">", all_values, one_value), tie)
        return builder.zext(builder.ctpop(builder.bitcast(ahead, ir.IntType(8))), ir.IntType(64))

    return _types.int64(values, arms, _types.int64, _types.float64, _types.int64), codegen
