"""Kernels: functions that are compiled when they are first called, and kept on disk as machine code.

The compiler itself, `kernels.compiler`, is imported when something is called: numba takes half a second.
"""

from __future__ import annotations

import functools
import gc
import logging
import os
import sys
import tempfile
import time
import types
from collections.abc import Callable
from pathlib import Path
from typing import Any, TypeVar

import numpy as np

from armtriage.kernels.sources import Sources

__all__ = [
    "JIT",
    "WAIT",
    "Kernel",
    "Opener",
    "apart",
    "bind",
    "cache_folder",
    "compilations",
    "compile_now",
    "kernel",
    "lowest_bit",
]

F = TypeVar("F", bound=Callable[..., Any])

JIT: bool = os.environ.get("NUMBA_DISABLE_JIT", "0") in ("", "0")
"""Whether kernels are compiled; False under ``NUMBA_DISABLE_JIT=1``, where they run as plain Python."""

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
    return Sources(cache_folder())


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


WAIT = _Wait()


def compilations() -> int:
    """Return how many kernels this process has compiled for calls from Python, and not found on disk."""
    return WAIT.compiled


@functools.cache
def _compiler_digest() -> str | None:
    """Return what compilation itself is made of."""
    names = ("inner_function", "opener", "outer_function", "trailing_zeros")
    digests = [_sources().digest("armtriage.kernels.compiler", name) for name in names]
    known = [one for one in digests if one is not None]
    return _sources().combine(known) if len(known) == len(names) else None


class Kernel:
    """A function that is compiled when it is first called.

    Called by another kernel, it becomes part of that one's machine code. Called from Python, it gets machine code of
    its own, which is kept on disk.

    Parameters
    ----------
    function : callable
        What is compiled.
    names : mapping
        What global names in it mean, beside those of its module: kernels, and openers of records.
    """

    def __init__(self, function: Callable[..., Any], **names: Any) -> None:
        functools.update_wrapper(self, function)
        self.py_func, self._names = function, names

    @functools.cached_property
    def _compiled(self) -> types.FunctionType:
        """The function as the compiler gets it, with the objects behind the names."""
        own = self.py_func
        names = {name: value.made() if hasattr(value, "made") else value for name, value in self._names.items()}
        copy = types.FunctionType(own.__code__, {**own.__globals__, **names}, own.__name__, own.__defaults__)
        copy.__qualname__, copy.__module__ = own.__qualname__, own.__module__
        return copy

    @functools.cached_property
    def digest(self) -> str | None:
        """What the kernel is made of; None if a part of it is from outside the package, and may change unseen."""
        own = _sources().digest(self.py_func.__module__, self.py_func.__code__.co_name)
        digests = [_compiler_digest(), own, *(getattr(value, "digest", None) for value in self._names.values())]
        known = [one for one in digests if one is not None]
        return _sources().combine(known) if len(known) == len(digests) else None

    @functools.cached_property
    def _inner(self) -> Any:
        from armtriage.kernels.compiler import inner_function

        return inner_function(self._compiled if self._names else self.py_func)

    @property
    def _numba_type_(self) -> Any:
        return self._inner._numba_type_

    @functools.cached_property
    def outer(self) -> Any:
        """The function for calls from Python."""
        from armtriage.kernels.compiler import outer_function

        function = self._compiled if self._names else self.py_func
        return outer_function(function, self.digest if cache_folder() is not None else None)

    def __call__(self, *arguments: Any) -> Any:
        """Call the compiled function from Python."""
        return self.outer(*arguments)

    def __reduce__(self) -> str:
        return self.py_func.__qualname__


class Opener:
    """Finds a record by its address, in kernels; without compilation the address is the record itself."""

    def __init__(self, layout: Any) -> None:
        self.layout, self.digest = layout, layout.name

    def made(self) -> Any:
        """Return the function as the compiler knows it."""
        from armtriage.kernels.compiler import opener

        return opener(self.layout)

    def __call__(self, record: Any) -> Any:
        """Return the record."""
        return record


def kernel(function: F) -> F:
    """Compile a function, without the interpreter lock; see `Kernel`."""
    return Kernel(function) if JIT else function  # type: ignore[return-value]


def apart(function: F) -> F:
    """Promise, below `kernel`, that no array which the function writes shares memory with another that it is given.

    The compiler then does not ask before every loop, which takes longer than a short loop itself.
    """
    function.__apart__ = True  # type: ignore[attr-defined]
    return function


def bind(template: F, name: str, **names: Any) -> F:
    """Compile a copy of `template` in which the given global names mean the given objects.

    This is how the one simulation loop is made for each policy. Kernels passed as arguments would be compiled
    again in every process; kernels that are globals are found in the cache.
    """
    copy = types.FunctionType(template.__code__, {**template.__globals__, **names}, name)
    copy.__qualname__, copy.__module__ = name, template.__module__
    copy.__defaults__, copy.__kwdefaults__ = template.__defaults__, template.__kwdefaults__
    return Kernel(copy, **names) if JIT else copy  # type: ignore[return-value]


def compile_now(function: Any, *arguments: Any) -> None:
    """Compile a kernel, or fetch it from disk, for arguments of these classes, or of the types of these arrays."""
    if JIT:
        kind_of = _load_compiler().kind_of
        function.outer.compile(tuple(kind_of(one) for one in arguments))


@functools.cache
def _load_compiler() -> types.ModuleType:
    """Import the compiler without searching its modules for garbage, which was a tenth of a first decision."""
    collecting = gc.isenabled()
    gc.disable()
    try:
        from armtriage.kernels import compiler
    finally:
        if collecting:
            gc.enable()
    return compiler


class _TrailingZeros:
    """The processor's own instruction, which only the compiler knows."""

    digest = "trailing zeros"

    def made(self) -> Any:
        from armtriage.kernels.compiler import trailing_zeros

        return trailing_zeros


def trailing_zeros(word: np.uint64) -> int:
    """Stand for the instruction, which `bind` puts here."""
    raise NotImplementedError


def _lowest_bit(word: np.uint64) -> int:
    return trailing_zeros(word)


if JIT:
    lowest_bit = bind(_lowest_bit, "lowest_bit", trailing_zeros=_TrailingZeros())

else:

    def lowest_bit(word: Any) -> int:
        """Return the position of the lowest bit that is set in a 64-bit word other than 0."""
        return (int(word) & -int(word)).bit_length() - 1
