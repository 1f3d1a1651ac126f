"""Kernels: functions that are compiled by numba when they are first called, and kept on disk as machine code.

Numba compiles every function by itself, optimises it with all that it calls, and does so again for each caller: a
policy of a hundred small functions took most of a minute. Here only what Python calls is optimised and becomes
machine code, once, with all that it reaches; and numba runs only the passes that kernels have any use for.
"""

from __future__ import annotations

import functools
import logging
import os
import sys
import tempfile
import time
import types
from collections.abc import Callable, Iterable
from pathlib import Path
from typing import Any, TypeVar

import numba
from numba.core import caching, cgutils, codegen, compiler, config, typed_passes, untyped_passes
from numba.core.compiler_machinery import LoweringPass, PassManager, register_pass
from numba.extending import intrinsic

from armtriage.kernels.sources import Sources

__all__ = ["JIT", "Kernel", "bind", "cache_folder", "compilations", "compile_now", "kernel", "lowest_bit"]

F = TypeVar("F", bound=Callable[..., Any])

_types: Any = numba.types

JIT: bool = not config.DISABLE_JIT
"""Whether kernels are compiled; False under ``NUMBA_DISABLE_JIT=1``, where they run as plain Python."""

_KEEP_SECONDS = 30 * 24 * 3600
_PATIENCE = 2.0


@functools.cache
def cache_folder() -> Path | None:
    """Return the folder of machine code, which is made if need be; None if there is no place for one.

    It stands in ``NUMBA_CACHE_DIR``, the user's cache folder, or the one for passing files, whichever is the first that
    can be used. Nobody else may write into it, since what lies there will be executed.
    """
    own = os.environ.get("XDG_CACHE_HOME") or os.path.join(os.path.expanduser("~"), ".cache")
    user = os.getuid() if hasattr(os, "getuid") else "user"
    for base in (os.environ.get("NUMBA_CACHE_DIR"), own, os.path.join(tempfile.gettempdir(), f"armtriage-{user}")):
        if not base:
            continue
        folder = Path(base) / "armtriage" / "kernels"
        try:
            folder.parent.mkdir(parents=True, exist_ok=True, mode=0o700)
            folder.mkdir(exist_ok=True, mode=0o700)
            usable = _is_ours(folder) and _is_ours(folder.parent) and os.access(folder, os.W_OK)
        except OSError:
            continue
        if usable:
            return folder
    return None


def _is_ours(folder: Path) -> bool:
    """Whether nobody else can write into the folder."""
    if not hasattr(os, "getuid"):
        return True
    status = folder.stat()
    return status.st_uid == os.getuid() and not status.st_mode & 0o022


@functools.cache
def _sources() -> Sources:
    folder = cache_folder()
    return Sources(None if folder is None else folder / "sources.json")


class _Library(codegen.JITCodeLibrary):  # type: ignore[misc]
    """What Python calls: linked with all that it reaches, and optimised as a whole."""

    _linking_libraries: list[Any]

    def finalize(self) -> None:
        self._linking_libraries = list(_reached(self._linking_libraries))
        super().finalize()


class _InnerLibrary(codegen.JITCodeLibrary):  # type: ignore[misc]
    """What kernels call: neither linked nor optimised nor turned into machine code by itself."""

    def _optimize_functions(self, module: Any) -> None:
        module.data_layout = self._codegen._data_layout

    def finalize(self) -> None:
        self._raise_if_finalized()
        self._finalize_dynamic_globals()
        self._finalized = True

    def get_pointer_to_function(self, name: str) -> int:
        self._ensure_finalized()
        return 0

    @property
    def codegen(self) -> Any:
        return self

    def set_env(self, name: str, env: Any) -> None:
        """Set nothing: there is no machine code yet that an environment could be for."""


def _reached(libraries: Iterable[Any]) -> dict[Any, None]:
    """Return the libraries and all that they need, in a fixed order."""
    found: dict[Any, None] = {}
    for library in libraries:
        if library not in found:
            found[library] = None
            if isinstance(library, _InnerLibrary):
                found |= _reached(library._linking_libraries)
    return found


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
        _WAIT.tell()
        return False


class _Pipeline(compiler.CompilerBase):  # type: ignore[misc]
    """The passes that kernels need, which have no closures, generators, context managers or literals to unroll."""

    def define_pipelines(self) -> list[Any]:
        passes = PassManager("armtriage")
        for one in (
            untyped_passes.TranslateByteCode,
            untyped_passes.FixupArgs,
            untyped_passes.IRProcessing,
            untyped_passes.GenericRewrites,
            untyped_passes.ReconstructSSA,
            typed_passes.NopythonTypeInference,
            typed_passes.PreLowerStripPhis,
            typed_passes.InlineOverloads,
            typed_passes.IRLegalization,
            typed_passes.AnnotateTypes,
            _ChooseLibrary,
            typed_passes.NativeLowering,
            typed_passes.NoPythonBackend,
        ):
            passes.add_pass(one, one.__name__)
        passes.finalize()
        return [passes]


class _Wait:
    """Tells whoever waits for a compilation why, once, when it has taken some time."""

    def __init__(self) -> None:
        self.began: float | None = None
        self.told = False
        self.compiled = 0

    def begin(self) -> None:
        self.compiled += 1
        if self.began is None:
            self.began = time.monotonic()

    def tell(self) -> None:
        if self.told or self.began is None or time.monotonic() - self.began < _PATIENCE:
            return
        self.told = True
        text = f"compiling kernels for their first use, which are then kept in {cache_folder() or 'memory'}"
        if sys.stderr is not None and sys.stderr.isatty():
            print(f"armtriage: {text}", file=sys.stderr)
        else:
            logging.getLogger("armtriage").info(text)


_WAIT = _Wait()


def compilations() -> int:
    """Return how many kernels this process has compiled for calls from Python, and not found on disk."""
    return _WAIT.compiled


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
    """Machine code on disk."""

    _impl_class = _Files

    def load_overload(self, sig: Any, target_context: Any) -> Any:
        found = super().load_overload(sig, target_context)
        if found is None:
            _WAIT.begin()
        else:
            os.utime(self._cache_file._index_path)
        return found

    def save_overload(self, sig: Any, data: Any) -> None:
        super().save_overload(sig, data)
        _WAIT.began = None
        _prune(Path(self._cache_path))


def _prune(folder: Path) -> None:
    """Remove machine code that nobody has used for a month."""
    oldest = time.time() - _KEEP_SECONDS
    for index in folder.glob("*.nbi"):
        try:
            if index.stat().st_mtime < oldest:
                for one in folder.glob(f"{index.stem}.*"):
                    one.unlink(missing_ok=True)
        except OSError:
            continue


_OPTIONS: dict[str, Any] = {"nogil": True, "error_model": "numpy", "pipeline_class": _Pipeline}


class Kernel:
    """A function that is compiled when it is first called.

    Called by another kernel, it becomes part of that one's machine code. Called from Python, it gets machine code of
    its own, which is kept on disk.

    Parameters
    ----------
    function : callable
        What is compiled.
    parts : tuple
        What else it is made of, beside its own syntax: kernels, or whatever else has a digest.
    """

    def __init__(self, function: Callable[..., Any], parts: tuple[Any, ...] = ()) -> None:
        functools.update_wrapper(self, function)
        self.py_func, self._parts = function, parts
        self.inner = numba.njit(no_cpython_wrapper=True, no_cfunc_wrapper=True, **_OPTIONS)(function)
        self._numba_type_ = self.inner._numba_type_

    @functools.cached_property
    def digest(self) -> str | None:
        """What the kernel is made of; None if a part of it is from outside the package, and may change unseen."""
        own = _sources().digest(self.py_func.__module__, self.py_func.__code__.co_name)
        digests = [own, *(getattr(part, "digest", None) for part in self._parts)]
        known = [one for one in digests if one is not None]
        return _sources().combine(known) if len(known) == len(digests) else None

    @functools.cached_property
    def outer(self) -> Any:
        """The function for calls from Python."""
        made = numba.njit(**_OPTIONS)(self.py_func)
        if cache_folder() is not None and self.digest is not None:
            self.py_func.__armtriage_digest__ = self.digest  # type: ignore[attr-defined]
            made._cache = _Cache(self.py_func)
        return made

    def __call__(self, *arguments: Any) -> Any:
        """Call the compiled function from Python."""
        return self.outer(*arguments)

    def __reduce__(self) -> str:
        return self.py_func.__qualname__


def kernel(function: F) -> F:
    """Compile a function, without the interpreter lock; see `Kernel`."""
    return Kernel(function) if JIT else function  # type: ignore[return-value]


def bind(template: F, name: str, **names: Any) -> F:
    """Compile a copy of `template` in which the given global names mean the given objects.

    This is how the one simulation loop is made for each policy. Kernels passed as arguments would be compiled
    again in every process; kernels that are globals are found in the cache.
    """
    copy = types.FunctionType(template.__code__, {**template.__globals__, **names}, name)
    copy.__qualname__, copy.__module__ = name, template.__module__
    copy.__defaults__, copy.__kwdefaults__ = template.__defaults__, template.__kwdefaults__
    return Kernel(copy, tuple(names.values())) if JIT else copy  # type: ignore[return-value]


def compile_now(function: Any, *arguments: Any) -> None:
    """Compile a kernel, or fetch it from disk, for arguments of these classes, or of the types of these arrays."""
    if JIT:
        numbers = {int: _types.int64, float: _types.float64, bool: _types.boolean}
        kinds = (numbers[one] if isinstance(one, type) else numba.typeof(one) for one in arguments)
        function.outer.compile(tuple(kinds))


if JIT:

    @intrinsic  # type: ignore[untyped-decorator]
    def lowest_bit(typingctx: Any, word: Any) -> Any:
        """Return the position of the lowest bit that is set in a 64-bit word other than 0."""

        def codegen(context: Any, builder: Any, signature: Any, args: Any) -> Any:
            return builder.cttz(args[0], cgutils.true_bit)

        return _types.int64(_types.uint64), codegen

else:

    def lowest_bit(word: Any) -> int:
        """Return the position of the lowest bit that is set in a 64-bit word other than 0."""
        return (int(word) & -int(word)).bit_length() - 1
