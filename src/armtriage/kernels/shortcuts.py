"""Answers that numba works out again at every question, kept: they were a third of what compiling takes.

Every shortcut gives the answer that numba would give; one also makes kernels faster, see `_plain_index`. They hold
while a kernel is compiled, under the compiler's lock: what others compile with numba in the same process goes its
usual way.
"""

from __future__ import annotations

import functools
import inspect
import operator
import sys
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from typing import Any, NamedTuple

import numba
from numba.core import base, errors, ir, postproc, transforms
from numba.core.types import functions
from numba.core.typing import templates
from numba.np import arrayobj


class Patch(NamedTuple):
    """A function of numba's that is replaced or relied on, with the parameters that it must have."""

    owner: Any
    name: str
    parameters: str

    def fits(self) -> bool:
        """Whether the numba that is installed has it so."""
        found = getattr(self.owner, self.name, None)
        return callable(found) and " ".join(inspect.signature(found).parameters) == self.parameters


_types: Any = numba.types
OWN = "9armtriage"  # in the names that numba gives to functions of this package
_PLAIN_KINDS = (_types.Number, _types.Boolean, _types.Array, _types.BaseTuple, _types.SliceType)
# Those of numba's own functions that need no more passes than kernels do.
_LIKE_KERNELS = {"ol_int", "ol_max", "ol_min", "ol_np_empty", "_ol_array_allocate", "ol_np_zeros", "ol_array_zero_fill"}

_call_type = functions.BaseFunction.get_call_type
_fix_index = arrayobj.fix_integer_index
_make_array = arrayobj.make_array
_size_of = base.BaseContext.get_abi_sizeof
_process = postproc.PostProcessor.run
_build = templates._OverloadFunctionTemplate._build_impl
_knows_line = functools.cache(base._has_loc)  # of which numba inspects the signature at every use
_NO_VARIABLES = {ir.Loc, str, int, bool, float, type(None)}


def _known_call(function: Any, context: Any, args: Any, named: Any) -> Any:
    """Return the signature of a call, for which numba tries dozens of candidates, for every sum several times."""
    if named or not all(isinstance(kind, _PLAIN_KINDS) for kind in args):
        return _call_type(function, context, args, named)
    if _is_fixed_item(function, args):  # for each of which numba would compile a function
        return templates.signature(args[0].types[args[1].literal_value], *args)
    known = vars(function).setdefault("_armtriage_calls", {})
    key = context, *args
    if key not in known:
        known[key] = _call_type(function, context, args, named)
    return known[key]


def _is_fixed_item(function: Any, args: Any) -> bool:
    """Whether a call looks up an item of a tuple at a place that is known."""
    if function.typing_key is not operator.getitem:
        return False
    return isinstance(args[0], _types.BaseTuple) and isinstance(args[1], _types.IntegerLiteral)


@functools.cache
def _known_proxy(kind: Any) -> Any:
    """Return numba's access to the parts of an array, which it makes again at each use."""
    made = _make_array(kind)
    if type(kind) is _types.Array:
        # It looks for what unwraps those that only pretend to be arrays, at each use of any.
        del made._make_refs
    return made


_sizes: dict[tuple[Any, str], int] = {}


def _known_size(context: Any, kind: Any) -> int:
    """Return the size of a machine's type, for which numba parses a text that declares a variable of it."""
    key = context, str(kind)
    if key not in _sizes:
        _sizes[key] = _size_of(context, kind)
    return _sizes[key]


def _process_once(processor: Any, emit_dels: bool = False, extend_lifetimes: bool = False) -> None:
    """Find out how long variables live when it is asked for, at the end; numba does so after each of four passes."""
    made = processor.func_ir
    if emit_dels or made.is_generator:
        _process(processor, emit_dels, extend_lifetimes)
    else:
        made.blocks = transforms.canonicalize_cfg(made.blocks)
        made.variable_lifetime = postproc.VariableLifetime(made.blocks)
        made.generator_info = None


def _list_variables(owner: Any, part: Any) -> list[Any]:
    """Return the variables in a part of an instruction; numba asks five questions about each name and number in it."""
    if isinstance(part, ir.Var):
        return [part]
    if isinstance(part, ir.Inst):
        return list(part.list_vars())
    if isinstance(part, dict):
        part = part.values()
    elif not isinstance(part, list | tuple):
        return []
    return [found for one in part if type(one) not in _NO_VARIABLES for found in _list_variables(owner, one)]


def _plain_index(context: Any, builder: Any, kind: Any, index: Any, size: Any) -> Any:
    """Return an index as it is: numba asks at every access whether it is negative, and then counts from the end.

    No kernel of this package counts from the end, which `tests/kernels/test_indices.py` proves. With some five arrays
    to look up for each arm, the question was a third of a round of `CombUCB1`.
    """
    if OWN not in builder.function.name:
        return _fix_index(context, builder, kind, index, size)
    return context.cast(builder, index, kind, _types.intp)


def _unpainted(scheme: Any, message: str, *_: Any) -> str:
    """Return an error's text without colours: numba throws thousands for itself to catch."""
    return message


PATCHES = [
    Patch(functions.BaseFunction, "get_call_type", "self context args kws"),
    Patch(arrayobj, "make_array", "array_type"),
    Patch(arrayobj, "fix_integer_index", "context builder idxty idx size"),
    Patch(base.BaseContext, "get_abi_sizeof", "self ty"),
    Patch(postproc.PostProcessor, "run", "self emit_dels extend_lifetimes"),
    Patch(templates._OverloadFunctionTemplate, "_build_impl", "self cache_key args kws"),
    Patch(base, "_has_loc", "fn"),
    Patch(ir.Inst, "_rec_list_vars", "self val"),
]
"""What the shortcuts replace; where one does not fit, none is taken, and kernels are compiled as numba does."""


@contextmanager
def shortcuts(inner: Callable[..., Any]) -> Iterator[None]:
    """Take the shortcuts; `inner` compiles simple functions of numba's own as if they were kernels."""

    def build(template: Any, key: Any, args: Any, named: Any) -> Any:
        if template._overload_func.__name__ not in _LIKE_KERNELS:
            return _build(template, key, args, named)
        template._get_jit_decorator = lambda: lambda **options: inner
        try:
            return _build(template, key, args, named)
        finally:
            del template._get_jit_decorator

    replacements = (
        *(_known_call, _known_proxy, _plain_index, _known_size, _process_once, build),
        *(_knows_line, _list_variables),
    )
    ways = [(one.owner, one.name, way) for one, way in zip(PATCHES, replacements, strict=True)]
    if hasattr(errors, "HighlightColorScheme"):
        ways.append((errors.HighlightColorScheme, "_markup", _unpainted))
    usual = [getattr(owner, name) for owner, name, _ in ways]
    try:
        for owner, name, way in ways:
            setattr(owner, name, way)
        yield
    finally:
        for (owner, name, _), way in zip(ways, usual, strict=True):
            setattr(owner, name, way)


def load_arrays() -> None:
    """Load numba's functions of arrays without SciPy's linear algebra, which they try though kernels never use it."""
    if "numba.np.arraymath" in sys.modules:
        return
    from numba.np import linalg

    usual = linalg.ensure_blas
    linalg.ensure_blas = lambda: None
    try:
        from numba.np import arraymath
    finally:
        linalg.ensure_blas = usual
    arraymath.ensure_blas = usual
