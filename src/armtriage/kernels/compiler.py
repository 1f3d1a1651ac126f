"""How kernels become machine code: made of numba's inner parts, and imported only to compile something.

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
from collections.abc import Callable, Iterable
from pathlib import Path
from typing import Any

import numba
from llvmlite.binding import Linkage, parse_assembly
from numba.core import caching, codegen, compiler, dispatcher, lowering, sigutils, typed_passes, untyped_passes
from numba.core.compiler_lock import global_compiler_lock
from numba.core.compiler_machinery import LoweringPass, PassManager, register_pass
from numba.core.registry import cpu_target
from numba.core.runtime import rtsys

from armtriage.kernels.disk import cache_folder, keep, kept, prune
from armtriage.kernels.interrupts import hold_interrupts
from armtriage.kernels.lowering import Lower, makes_arrays
from armtriage.kernels.shortcuts import PATCHES, Patch, load_arrays, shortcuts

_types: Any = numba.types

# Measured with GuardedThompson: 10 percent less time for 6 MB more memory; with no collection 100 MB more.
_RARE_COLLECTIONS = (20_000, 10, 1000)


_RELIED_ON = [
    *PATCHES,
    Patch(codegen.JITCodeLibrary, "finalize", "self"),
    Patch(codegen.JITCodeLibrary, "serialize_using_object_code", "self"),
    Patch(codegen.JITCodeLibrary, "get_pointer_to_function", "self name"),
    Patch(codegen.JITCodeLibrary, "_optimize_functions", "self ll_module"),
    Patch(codegen.JITCodeLibrary, "_get_module_for_linking", "self"),
    Patch(codegen.JITCodeLibrary, "_get_compiled_object", "self"),
    Patch(codegen.JITCodeLibrary, "_finalize_dynamic_globals", "self"),
    Patch(codegen.JITCodeLibrary, "_raise_if_finalized", "self"),
    Patch(codegen.JITCodeLibrary, "_ensure_finalized", "self"),
    Patch(caching.FunctionCache, "load_overload", "self sig target_context"),
    Patch(caching.FunctionCache, "save_overload", "self sig data"),
    Patch(caching.FunctionCache, "_index_key", "self sig codegen"),
    Patch(caching.CompileResultCacheImpl, "rebuild", "self target_context payload"),
    Patch(caching.CompileResultCacheImpl, "reduce", "self cres"),
    Patch(caching.CompileResultCacheImpl, "check_cachable", "self cres"),
    Patch(compiler.CompilerBase, "define_pipelines", "self"),
    Patch(lowering.Lower, "init", "self"),
    Patch(lowering.Lower, "getvar", "self name"),
    Patch(lowering.Lower, "storevar", "self value name argidx"),
    Patch(lowering.Lower, "delvar", "self name"),
    Patch(lowering.Lower, "lower_binop", "self resty expr op"),
    Patch(lowering.Lower, "lower_expr", "self resty expr"),
    Patch(lowering.Lower, "lower_getitem", "self resty expr value index signature"),
    Patch(lowering.Lower, "lower_setitem", "self target_var index_var value_var signature"),
    Patch(dispatcher.Dispatcher, "compile", "self sig"),
    Patch(dispatcher.Dispatcher, "add_overload", "self cres"),
    Patch(dispatcher._FunctionCompiler, "compile", "self args return_type"),  # type: ignore[attr-defined]
]
for _one in _RELIED_ON:
    if not _one.fits():
        raise ImportError(f"{_one.owner.__name__}.{_one.name} of numba is not as it was")


class _Library(codegen.JITCodeLibrary):  # type: ignore[misc]
    """What Python calls: linked with all that it reaches, and optimised as a whole."""

    _linking_libraries: list[Any]

    def finalize(self) -> None:
        self._linking_libraries = _link(self._final_module, self._linking_libraries)
        super().finalize()

    def serialize_using_object_code(self) -> tuple[str, str, tuple[bytes, bytes]]:
        """Return the machine code and the names in it, without what linking would need: it is never linked again."""
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

    def add_ir_module(self, ir_module: Any) -> None:
        self._raise_if_finalized()
        self.add_llvm_module(parse_assembly(str(ir_module)))  # checked with all that it is linked to

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
class _GiveUp(typed_passes.IRLegalization):  # type: ignore[misc]
    """Say where each variable is given up, in functions where that means anything."""

    _name = "armtriage_give_up"

    def run_pass(self, state: Any) -> bool:
        state.metadata["makes_arrays"] = makes_arrays(state)
        return bool(state.metadata["makes_arrays"] and super().run_pass(state))


@register_pass(mutates_CFG=True, analysis_only=False)
class _Lowering(typed_passes.NativeLowering):  # type: ignore[misc]
    """Write LLVM's code in our own way."""

    _name = "armtriage_lowering"

    @property
    def lowering_class(self) -> Any:
        return Lower


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
        state.flags.forceinline = getattr(state.func_id.func, "__inlined__", False)
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
            _GiveUp,
            _ChooseLibrary,
            _Lowering,
            typed_passes.NoPythonBackend,
        ):
            passes.add_pass(one, one.__name__)
        passes.finalize()
        return [passes]


@functools.cache
def _make_ready() -> None:
    """Load what compiling needs, of which half would leave numba unusable: Ctrl+C waits for it."""
    with hold_interrupts():
        load_arrays()
        cpu_target.target_context.refresh()


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
        path = self._path(key)
        content = kept(path)
        if content is not None:
            try:
                made_for, payload = pickle.loads(content)
                if made_for == key:
                    made = self._impl.rebuild(target_context, payload)
                    os.utime(path)
                    return made
            except Exception:  # whatever is wrong with a file, it is made again, and replaced
                path.unlink(missing_ok=True)
        return None

    def save_overload(self, sig: Any, data: Any) -> None:
        if self._impl.check_cachable(data):
            key = repr(self._index_key(sig, data.codegen))
            path = self._path(key)
            keep(path, caching.dumps((key, self._impl.reduce(data))))
            prune(path.parent)

    def _path(self, key: str) -> Path:
        made_with = f"{numba.__version__} {numba.config.BOUNDSCHECK} {key}"
        digest = hashlib.sha256(made_with.encode()).hexdigest()[:16]
        return Path(self._cache_path) / f"{self._impl.filename_base}-{digest}.code"


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


def outer_function(function: Callable[..., Any], digest: str | None, tell: Callable[[], None]) -> Any:
    """Return what Python calls; its machine code is kept under the digest, unless that is None.

    `tell` is called when it must be compiled, before it is.
    """
    made = numba.njit(no_cfunc_wrapper=True, **_OPTIONS)(function)
    if digest is not None:
        function.__armtriage_digest__ = digest  # type: ignore[attr-defined]
        made._cache = _Cache(function)
    made.compile = functools.partial(_compile_outer, made.compile)
    made._compiler.compile = functools.partial(_tell_and_compile, tell, made._compiler.compile)
    return made


def _tell_and_compile(tell: Callable[[], None], compile_one: Callable[..., Any], args: Any, result: Any) -> Any:
    tell()
    _make_ready()
    return compile_one(args, result)


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
