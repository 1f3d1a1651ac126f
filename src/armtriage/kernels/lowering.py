"""From numba's own form of a kernel to LLVM's, in half as many instructions as numba takes.

Kernels get nearly all of their arrays from records, which own them, and look up single items of them. Numba counts the
references to every array all the same, and takes an array apart and puts it together in memory for each item.
"""

from __future__ import annotations

import operator
from typing import Any

import numba
from numba.core import ir, lowering
from numba.core.cgutils import alloca_once, make_anonymous_struct
from numba.core.ir_utils import get_definition, guard
from numba.np.arrayobj import load_item, store_item

from armtriage.kernels.shortcuts import OWN

_types: Any = numba.types
# What gives a value that another one keeps alive: a field, an item, a part, a view.
_BORROWS = {"getattr", "getitem", "static_getitem", "getiter", "iternext", "pair_first", "exhaust_iter", "build_tuple"}
_SCALARS = (_types.Number, _types.Boolean)
_WHOLE_WORDS = {_types.int64, _types.uint64, _types.float64}
_ARITHMETIC = {operator.add: "add", operator.sub: "sub", operator.mul: "mul"}
_COMPARISONS = {
    getattr(operator, name): sign
    for name, sign in {"lt": "<", "le": "<=", "gt": ">", "ge": ">=", "eq": "==", "ne": "!="}.items()
}
_OF_LOOPS = {"getiter", "iternext", "pair_first", "pair_second"}


def makes_arrays(state: Any) -> bool:
    """Whether a function may make an array, or hand one on: else there are no references to count."""
    counted = {name for name, kind in state.typemap.items() if is_counted(state.targetctx, kind)}
    if is_counted(state.targetctx, state.return_type):
        return True
    for block in state.func_ir.blocks.values():
        for one in block.body:
            if isinstance(one, ir.SetItem | ir.StaticSetItem) and one.value.name in counted:
                return True
            if isinstance(one, ir.Assign) and isinstance(one.value, ir.Expr) and one.target.name in counted:
                fancy = one.value.op == "getitem" and one.value.index.name in counted
                if fancy or one.value.op not in _BORROWS:
                    return True
    return False


def is_counted(context: Any, kind: Any) -> bool:
    """Whether values of this type hold references that are counted."""
    return bool(context.data_model_manager[kind].contains_nrt_meminfo())


class Lower(lowering.Lower):  # type: ignore[misc]
    """Writes the LLVM code of one function."""

    context: Any

    def init(self) -> None:
        """Find out what the function needs of numba's ways."""
        super().init()
        self._plain_items = OWN in self.fndesc.mangled_name and not self.context.enable_boundscheck
        if not self.metadata["makes_arrays"]:
            self.context = self.context.subtarget(enable_nrt=False)

    def _keeps(self, name: str) -> bool:
        return self.context.enable_nrt and is_counted(self.context, self.typeof(name))

    def storevar(self, value: Any, name: str, argidx: int | None = None) -> None:
        """Store a value, without a look at the one before it unless that may have to be given up."""
        if self._keeps(name) or name in self._singly_assigned_vars:
            super().storevar(value, name, argidx)
        else:
            self.builder.store(value, self.getvar(name))

    def delvar(self, name: str) -> None:
        """Give up a variable, which needs no instruction unless it holds a reference."""
        if self._keeps(name):
            super().delvar(name)
        elif name not in self._blk_local_varmap:
            self._singly_assigned_vars.discard(name)

    def lower_binop(self, resty: Any, expr: Any, op: Any) -> Any:
        """Combine two numbers of one type where that is a single instruction, as a square is, too."""
        signature, context = self.fndesc.calltypes[expr], self.context
        kind, other = signature.args
        if op is operator.pow and kind == _types.float64 and self._is_two(expr.rhs):
            base = context.cast(self.builder, self.loadvar(expr.lhs.name), self.typeof(expr.lhs.name), kind)
            return self.builder.fmul(base, base)
        shape = _ARITHMETIC.get(op) if signature.return_type == kind else _COMPARISONS.get(op)
        if shape is None or kind != other or kind not in _WHOLE_WORDS:
            return super().lower_binop(resty, expr, op)
        left, right = (
            context.cast(self.builder, self.loadvar(one.name), self.typeof(one.name), kind)
            for one in (expr.lhs, expr.rhs)
        )
        if op in _ARITHMETIC:
            name, flags = (f"f{shape}", ()) if kind == _types.float64 else (shape, ("nsw",) if kind.signed else ())
            made = getattr(self.builder, name)(left, right, flags=flags)
        elif kind == _types.float64:
            compare = self.builder.fcmp_unordered if shape == "!=" else self.builder.fcmp_ordered
            made = compare(shape, left, right)
        else:
            compare = self.builder.icmp_signed if kind.signed else self.builder.icmp_unsigned
            made = compare(shape, left, right)
        return context.cast(self.builder, made, signature.return_type, resty)

    def _is_two(self, value: Any) -> bool:
        made = guard(get_definition, self.func_ir, value)
        return isinstance(made, ir.Const) and made.value == 2

    def lower_expr(self, resty: Any, expr: Any) -> Any:
        """Write what an expression becomes; loops over whole numbers have a shorter form than numba's."""
        kind = self.typeof(expr.value.name) if expr.op in _OF_LOOPS else None
        if expr.op == "getiter" and isinstance(kind, _types.RangeType) and self._steps_by_one(expr.value):
            return self._begin(self.loadvar(expr.value.name), resty)
        if expr.op == "iternext" and isinstance(kind, _types.RangeIteratorType):
            return self._next(self.loadvar(expr.value.name), resty)
        if expr.op in ("pair_first", "pair_second") and not is_counted(self.context, resty):
            return self.builder.extract_value(self.loadvar(expr.value.name), int(expr.op == "pair_second"))
        return super().lower_expr(resty, expr)

    def _steps_by_one(self, value: Any) -> bool:
        made = guard(get_definition, self.func_ir, value)
        return isinstance(made, ir.Expr) and made.op == "call" and len(made.args) < 3 and not made.vararg

    def _begin(self, span: Any, kind: Any) -> Any:
        """Return an iterator: where the next number is, the end, the step, and where it is how many are left."""
        builder = self.builder
        start, stop, step = (builder.extract_value(span, i) for i in range(3))
        place, left = (alloca_once(builder, start.type) for _ in range(2))
        builder.store(start, place)
        builder.store(builder.sub(stop, start), left)
        return make_anonymous_struct(builder, [place, stop, step, left], self.context.get_value_type(kind))

    def _next(self, iterator: Any, kind: Any) -> Any:
        """Return the next number, and whether there is one."""
        builder = self.builder
        place, _, step, left = (builder.extract_value(iterator, i) for i in range(4))
        number, count = builder.load(place), builder.load(left)
        builder.store(builder.add(number, step), place)
        builder.store(builder.sub(count, count.type(1)), left)
        valid = builder.icmp_signed(">", count, count.type(0))
        return make_anonymous_struct(builder, [number, valid], self.context.get_value_type(kind))

    def lower_getitem(self, resty: Any, expr: Any, value: Any, index: Any, signature: Any) -> Any:
        """Load an item of an array at whole numbers, which no kernel counts from the end."""
        kind, given = self.typeof(value.name), self.typeof(index.name)
        if isinstance(kind, _types.BaseTuple) and isinstance(given, _types.IntegerLiteral):
            return self.builder.extract_value(self.loadvar(value.name), given.literal_value)
        if not (self._plain_items and isinstance(resty, _SCALARS) and (at := self._place(kind, index.name))):
            return super().lower_getitem(resty, expr, value, index, signature)
        item = load_item(self.context, self.builder, kind, self._pointer(kind, value.name, at))
        return self.context.cast(self.builder, item, kind.dtype, resty)

    def lower_setitem(self, target: Any, index: Any, value: Any, signature: Any) -> Any:
        """Store an item of an array at whole numbers, which no kernel counts from the end."""
        kind, given = self.typeof(target.name), self.typeof(value.name)
        if not (self._plain_items and isinstance(given, _SCALARS) and (at := self._place(kind, index.name))):
            return super().lower_setitem(target, index, value, signature)
        item = self.context.cast(self.builder, self.loadvar(value.name), given, kind.dtype)
        store_item(self.context, self.builder, kind, item, self._pointer(kind, target.name, at))
        return None

    def _place(self, kind: Any, index: str) -> list[Any]:
        """Return the whole numbers, one for each dimension, where an item is; none if an index is something else."""
        given, builder = self.typeof(index), self.builder
        if type(kind) is not _types.Array or kind.layout != "C" or not isinstance(kind.dtype, _SCALARS):
            return []
        parts = list(given) if isinstance(given, _types.BaseTuple) else [given]
        if len(parts) != kind.ndim or not all(isinstance(one, _types.Integer) for one in parts):
            return []
        whole = self.loadvar(index)
        values = [whole] if parts[0] is given else [builder.extract_value(whole, i) for i in range(len(parts))]
        return [self.context.cast(builder, one, at, _types.intp) for one, at in zip(values, parts, strict=True)]

    def _pointer(self, kind: Any, name: str, at: list[Any]) -> Any:
        """Return the address of an item."""
        builder, array = self.builder, self.loadvar(name)
        position = self.context.data_model_manager[kind].get_field_position
        offset = at[0]
        for axis in range(1, len(at)):
            size = builder.extract_value(array, [position("shape"), axis])
            offset = builder.add(builder.mul(offset, size), at[axis])
        return builder.gep(builder.extract_value(array, position("data")), [offset])
