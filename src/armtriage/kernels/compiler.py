"""How kernels become machine code: numba is imported here and in `shortcuts` only, and only to compile something.

Numba compiles every function by itself, optimises it with all that it calls, and does so again for each caller: a
policy of a hundred small functions took most of a minute. Here only what Python calls is optimised and becomes
machine code, once, with all that it reaches; and numba runs only the passes that kernels have any use for.
"""

from __future__ import annotations

import functools
import gc
import hashlib
import os
import pickle
import sys
import time
from collections.abc import Callable, Iterable
from pathlib import Path
from typing import Any

import numba
from llvmlite import ir
from llvmlite.binding import Linkage, parse_assembly
from numba.core import caching, cgutils, codegen, compiler, sigutils, typed_passes, untyped_passes
from numba.core.compiler_lock import global_compiler_lock
from numba.core.compiler_machinery import LoweringPass, PassManager, register_pass
from numba.core.imputils import lower_getattr_generic, lower_setattr_generic
from numba.core.runtime import rtsys
from numba.core.typing.templates import AttributeTemplate, infer_getattr
from numba.extending import NativeValue, intrinsic, models, register_model, unbox
from numba.np.arrayobj import populate_array

from armtriage.kernels.jit import WAIT, cache_folder
from armtriage.kernels.record import RecordLayout
from armtriage.kernels.shortcuts import load_arrays, shortcuts

__all__ = ["inner_function", "kind_of", "opener", "outer_function", "trailing_zeros"]

_types: Any = numba.types

# Measured with GuardedThompson: 10 percent less time for 6 MB more memory; with no collection 100 MB more.
_RARE_COLLECTIONS = (20_000, 10, 1000)

_KEEP_SECONDS = 30 * 24 * 3600


class _Library(codegen.JITCodeLibrary):  # type: ignore[misc]
    """What Python calls: linked with all that it reaches, and optimised as a whole."""

    _linking_libraries: list[Any]

    def finalize(self) -> None:
        self._linking_libraries = _link(self._final_module, self._linking_libraries)
        super().finalize()

    def serialize_using_object_code(self) -> tuple[str, str, tuple[bytes, bytes]]:
        """Return the machine code and the names in it, without what linking would need: nobody links it again."""
        self._ensure_finalized()
        names = [one.name for one in self._final_module.functions if not one.is_declaration]
        named = parse_assembly("\n".join(f'define void @"{name}"() {{ ret void }}' for name in names))
        return self.name, "object", (self._get_compiled_object(), named.as_bitcode())


class _InnerLibrary(codegen.JITCodeLibrary):  # type: ignore[misc]
    """What kernels call: neither linked nor optimised nor turned into machine code by itself."""

    _linking_libraries: list[Any]
    _whole: Any = None

    def _optimize_functions(self, module: Any) -> None:
        module.data_layout = self._codegen._data_layout

    def finalize(self) -> None:
        self._raise_if_finalized()
        self._finalize_dynamic_globals()
        for function in self._final_module.functions:
            if not function.is_declaration and function.linkage == Linkage.external:
                function.linkage = "linkonce_odr"
        self._finalized = True

    def own_module(self) -> Any:
        """Return the function alone, of which there may be many copies."""
        return self._final_module

    def _get_module_for_linking(self) -> Any:
        """Return the function with all that it reaches, for functions that numba compiles in its own way."""
        if self._whole is None:
            whole = self.own_module().clone()
            for library in _link(whole, self._linking_libraries):
                whole.link_in(library._get_module_for_linking(), preserve=True)
            self._whole = whole
        return self._whole

    def get_pointer_to_function(self, name: str) -> int:
        self._ensure_finalized()
        return 0

    @property
    def codegen(self) -> Any:
        return self

    def set_env(self, name: str, env: Any) -> None:
        """Set nothing: there is no machine code yet that an environment could be for."""


def _link(module: Any, libraries: Iterable[Any]) -> list[Any]:
    """Link every kernel that is reached into a module, once; return the libraries that are not of kernels."""
    waiting, seen = list(libraries), set()
    others: dict[Any, None] = {}
    while waiting:
        library = waiting.pop(0)
        if not isinstance(library, _InnerLibrary):
            others[library] = None
        elif library not in seen:
            seen.add(library)
            module.link_in(library.own_module(), preserve=True)
            waiting += library._linking_libraries
    return list(others)


@register_pass(mutates_CFG=False, analysis_only=False)
class _ChooseLibrary(LoweringPass):  # type: ignore[misc]
    """Say what becomes of the function that is being compiled."""

    _name = "armtriage_choose_library"

    def __init__(self) -> None:
        super().__init__()

    def run_pass(self, state: Any) -> bool:
        kind = _InnerLibrary if state.flags.no_cpython_wrapper else _Library
        state.library = kind(state.targetctx.codegen(), state.func_id.func_qualname)
        state.library.enable_object_caching()
        state.flags.noalias = getattr(state.func_id.func, "__apart__", False)
        WAIT.tell()
        return False


class _Pipeline(compiler.CompilerBase):  # type: ignore[misc]
    """The passes that kernels need, which have no closures, generators, context managers or literals to unroll."""

    def define_pipelines(self) -> list[Any]:
        passes = PassManager("armtriage")
        for one in (
            untyped_passes.TranslateByteCode,
            untyped_passes.FixupArgs,
            untyped_passes.IRProcessing,
            untyped_passes.ReconstructSSA,
            typed_passes.NopythonTypeInference,
            typed_passes.PreLowerStripPhis,
            typed_passes.IRLegalization,
            _ChooseLibrary,
            typed_passes.NativeLowering,
            typed_passes.NoPythonBackend,
        ):
            passes.add_pass(one, one.__name__)
        passes.finalize()
        return [passes]


class _Locator:
    """Where a kernel's machine code lies."""

    def __init__(self, folder: Path) -> None:
        self._folder = folder

    def ensure_cache_path(self) -> None:
        pass

    def get_cache_path(self) -> str:
        return str(self._folder)

    def get_source_stamp(self) -> str:
        """Return nothing: the digest is part of the file's name."""
        return ""


class _Files(caching.CompileResultCacheImpl):  # type: ignore[misc]
    """Files that are named after what a kernel is made of."""

    def __init__(self, function: Any) -> None:
        digest = function.__armtriage_digest__
        self._locator = _Locator(cache_folder())  # type: ignore[arg-type]
        name = f"{function.__module__}.{function.__qualname__}".removeprefix("armtriage.")
        self._filename_base = f"{name[:80]}-{digest}.py{sys.version_info.major}{sys.version_info.minor}"


class _Cache(caching.FunctionCache):  # type: ignore[misc]
    """Machine code on disk, one file for each kernel, signature and processor.

    Numba's own index of files is written by every process: two that meet can leave it pointing to the wrong code.
    """

    _impl_class = _Files

    def load_overload(self, sig: Any, target_context: Any) -> Any:
        # Numba would first load all that compiling can need, SciPy's linear algebra included; machine code needs only
        # what allocates memory.
        rtsys.initialize(target_context)
        key = repr(self._index_key(sig, target_context.codegen()))
        try:
            kept, payload = pickle.loads(self._path(key).read_bytes())
            os.utime(self._path(key))
        except (OSError, EOFError, ValueError, pickle.UnpicklingError):
            kept = None
        if kept == key:
            return self._impl.rebuild(target_context, payload)
        WAIT.begin()
        load_arrays()
        return None

    def save_overload(self, sig: Any, data: Any) -> None:
        WAIT.began = None
        if not self._impl.check_cachable(data):
            return
        key = repr(self._index_key(sig, data.codegen))
        path = self._path(key)
        passing = path.with_name(f"{path.name}.{os.getpid()}")
        try:
            passing.write_bytes(caching.dumps((key, self._impl.reduce(data))))
            os.replace(passing, path)
        except OSError:
            passing.unlink(missing_ok=True)
        _prune(path.parent)

    def _path(self, key: str) -> Path:
        digest = hashlib.sha256(f"{numba.__version__} {key}".encode()).hexdigest()[:16]
        return Path(self._cache_path) / f"{self._impl.filename_base}-{digest}.code"


def _prune(folder: Path) -> None:
    """Remove machine code that nobody has used for a month, and what was noted of sources as long ago."""
    oldest = time.time() - _KEEP_SECONDS
    for one in (*folder.glob("*.code*"), *folder.glob("sources*.json*")):
        try:
            if one.stat().st_mtime < oldest:
                one.unlink()
        except OSError:
            continue


_OPTIONS: dict[str, Any] = {"nogil": True, "error_model": "numpy", "pipeline_class": _Pipeline}


_inner = numba.njit(no_cpython_wrapper=True, no_cfunc_wrapper=True, **_OPTIONS)


def inner_function(function: Callable[..., Any]) -> Any:
    """Return what kernels call: a function that becomes part of their machine code."""
    made = _inner(function)
    # Numba's own way in keeps a clock for every caller in the chain, which costs more than it tells.
    made.compile = functools.partial(_compile_inner, made)
    return made


def _compile_inner(dispatcher: Any, signature: Any) -> Any:
    """Compile a kernel for others to call, under the lock that the one from Python holds.

    One version serves all whole numbers: a literal 0, a 32-bit neighbour and a count become the same 64 bits.
    """
    args, result = sigutils.normalize_signature(signature)
    args = tuple(_widened(_types.unliteral(kind)) for kind in args)
    made = dispatcher.overloads.get(args)
    if made is None:
        with dispatcher._compiling_counter:
            made = dispatcher._compiler.compile(args, result)
            dispatcher.add_overload(made)
    return made.entry_point


def _widened(kind: Any) -> Any:
    return _types.int64 if isinstance(kind, _types.Integer) and kind.signed else kind


def outer_function(function: Callable[..., Any], digest: str | None) -> Any:
    """Return what Python calls; its machine code is kept under the digest, unless that is None."""
    made = numba.njit(no_cfunc_wrapper=True, **_OPTIONS)(function)
    if digest is not None:
        function.__armtriage_digest__ = digest  # type: ignore[attr-defined]
        made._cache = _Cache(function)
    made.compile = functools.partial(_compile_outer, made.compile)
    return made


def _compile_outer(compile_one: Callable[[Any], Any], signature: Any) -> Any:
    """Compile a kernel for Python to call, with fewer searches for garbage, which would take a tenth of the time."""
    with global_compiler_lock:
        usual = gc.get_threshold()
        gc.set_threshold(*_RARE_COLLECTIONS)
        try:
            with shortcuts(_inner):
                return compile_one(signature)
        finally:
            gc.set_threshold(*usual)


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
def trailing_zeros(typingctx: Any, word: Any) -> Any:
    """Return how many bits below the lowest that is set are not, in a 64-bit word other than 0."""

    def codegen(context: Any, builder: Any, signature: Any, args: Any) -> Any:
        return builder.cttz(args[0], cgutils.true_bit)

    return _types.int64(_types.uint64), codegen
