"""The only place that imports numba: the kernel decorator, its cache, and the trick for cheap arguments."""

from __future__ import annotations

import hashlib
import os
import shutil
import tempfile
import threading
import time
import types
from collections.abc import Callable
from pathlib import Path
from typing import Any, TypeVar

import numba
from numba.core import cgutils, config
from numba.extending import intrinsic

__all__ = ["JIT", "bind", "borrowed", "inlined", "kernel", "lowest_bit"]

F = TypeVar("F", bound=Callable[..., Any])

_types: Any = numba.types

JIT: bool = not config.DISABLE_JIT
"""Whether kernels are compiled; False under ``NUMBA_DISABLE_JIT=1``, where they run as plain Python."""

_KEEP_SECONDS = 30 * 24 * 3600


def _sources_hash() -> str:
    digest = hashlib.sha256(numba.__version__.encode())
    for path in sorted(Path(__file__).parents[1].rglob("*.py")):
        content = path.read_bytes()
        if b"kernels.jit" in content:
            digest.update(content)
    return digest.hexdigest()[:16]


def _cache_folder() -> str:
    """Return a writable cache folder named by a hash of all kernels' sources, so that no stale one is ever loaded.

    Numba's own check looks at the file of the cached function only, not at the kernels it calls.
    """
    own = os.environ.get("XDG_CACHE_HOME") or os.path.join(os.path.expanduser("~"), ".cache")
    user = os.getuid() if hasattr(os, "getuid") else "user"
    for base in (os.environ.get("NUMBA_CACHE_DIR"), own, os.path.join(tempfile.gettempdir(), f"armtriage-{user}")):
        if not base:
            continue
        folder = Path(base) / "armtriage" / f"kernels-{_sources_hash()}"
        try:
            folder.parent.mkdir(parents=True, exist_ok=True, mode=0o700)
            folder.mkdir(exist_ok=True, mode=0o700)
            os.utime(folder)
        except OSError:
            continue
        if _is_ours(folder) and _is_ours(folder.parent):
            _prune(folder)
            return str(folder)
    return ""


def _is_ours(folder: Path) -> bool:
    """Whether nobody else can write into the folder: what lies in it will be executed."""
    if not hasattr(os, "getuid"):
        return True
    status = folder.stat()
    return status.st_uid == os.getuid() and not status.st_mode & 0o022


def _prune(current: Path) -> None:
    """Remove the kernels of sources that nobody has used for a month."""
    for folder in current.parent.glob("kernels-*"):
        try:
            if folder != current and time.time() - folder.stat().st_mtime > _KEEP_SECONDS:
                shutil.rmtree(folder, ignore_errors=True)
        except OSError:
            continue


_CACHE = _cache_folder() if JIT else ""


_DECORATING = threading.Lock()


def _compile(function: F, keep: bool = True, **options: Any) -> F:
    if not JIT:
        return function
    # Numba reads the folder from a global when a function is decorated, and only then.
    with _DECORATING:
        before, config.CACHE_DIR = config.CACHE_DIR, _CACHE
        try:
            decorate = numba.njit(cache=keep and bool(_CACHE), nogil=True, error_model="numpy", **options)
            return decorate(function)  # type: ignore[no-any-return]
        finally:
            config.CACHE_DIR = before


def kernel(function: F) -> F:
    """Compile a function on first call, without the interpreter lock, and keep the machine code on disk."""
    return _compile(function)


def inlined(function: F) -> F:
    """Compile as `kernel`, and copy the body into compiled callers: for what runs once a round or an arm."""
    return _compile(function, inline="always")


def bind(template: F, name: str, **names: Any) -> F:
    """Compile a copy of `template` in which the given global names mean the given objects.

    This is how the one simulation loop is made for each policy. Kernels passed as arguments would be compiled
    again in every process; kernels that are globals are found in the cache. Kernels from outside the package are not
    in its hash, so with them nothing is kept on disk.
    """
    copy = types.FunctionType(template.__code__, {**template.__globals__, **names}, name)
    copy.__qualname__, copy.__module__ = name, template.__module__
    copy.__defaults__, copy.__kwdefaults__ = template.__defaults__, template.__kwdefaults__
    own = all(value.__module__.startswith("armtriage.") for value in names.values())
    return _compile(copy, keep=own)  # type: ignore[return-value]


def _without_owner(context: Any, builder: Any, kind: Any, value: Any) -> Any:
    if isinstance(kind, _types.Array):
        array = context.make_array(kind)(context, builder, value)
        array.meminfo = cgutils.get_null_value(array.meminfo.type)
        array.parent = cgutils.get_null_value(array.parent.type)
        return array._getvalue()
    if isinstance(kind, _types.BaseTuple):
        parts = [_without_owner(context, builder, part, builder.extract_value(value, i)) for i, part in enumerate(kind)]
        return context.make_tuple(builder, kind, parts)
    return value


if JIT:

    @intrinsic  # type: ignore[untyped-decorator]
    def borrowed(typingctx: Any, value: Any) -> Any:
        """Return the array, or tuple of arrays, without its owner, so that passing it on costs no atomic count.

        Valid inside one kernel call, while the caller holds the original: it removes a third of a round's time.
        """

        def codegen(context: Any, builder: Any, signature: Any, args: Any) -> Any:
            return _without_owner(context, builder, signature.args[0], args[0])

        return value(value), codegen

    @intrinsic  # type: ignore[untyped-decorator]
    def lowest_bit(typingctx: Any, word: Any) -> Any:
        """Return the position of the lowest bit that is set in a 64-bit word other than 0."""

        def codegen(context: Any, builder: Any, signature: Any, args: Any) -> Any:
            return builder.cttz(args[0], cgutils.true_bit)

        return _types.int64(_types.uint64), codegen

else:

    def borrowed(value: Any) -> Any:
        """Return the value: without compilation there is nothing to spare."""
        return value

    def lowest_bit(word: Any) -> int:
        """Return the position of the lowest bit that is set in a 64-bit word other than 0."""
        return (int(word) & -int(word)).bit_length() - 1
