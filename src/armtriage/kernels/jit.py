"""Kernels: functions that are compiled when they are first called, and kept on disk as machine code.

The compiler itself, `kernels.compiler`, is imported when something is called: numba takes half a second.
"""

from __future__ import annotations

import functools
import gc
import importlib
import logging
import os
import types
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from contextvars import ContextVar
from typing import Any, TypeVar

import numpy as np

from armtriage.kernels.disk import cache_folder
from armtriage.kernels.interrupts import hold_interrupts
from armtriage.kernels.sources import Sources

__all__ = [
    "JIT",
    "WAIT",
    "Instruction",
    "Kernel",
    "Opener",
    "apart",
    "bind",
    "compilations",
    "compile_now",
    "compiling_for",
    "float_bits",
    "inlined",
    "kernel",
    "lowest_bit",
    "unbound",
]

F = TypeVar("F", bound=Callable[..., Any])

JIT: bool = os.environ.get("NUMBA_DISABLE_JIT", "0") in ("", "0")
"""Whether kernels are compiled; False under ``NUMBA_DISABLE_JIT=1``, where they run as plain Python."""

# Definitions that are compiled in a second, by the CPU time of six policies' first decisions, within a factor of 2.
_DEFINITIONS_A_SECOND = 160


@functools.cache
def _sources() -> Sources:
    return Sources(cache_folder())


class _Wait:
    """Tells the person who waits for a compilation why, once a process, if it takes more than a moment."""

    def __init__(self) -> None:
        self.told = False
        self.compiled = 0

    def begin(self, what: str, definitions: int) -> None:
        """Note that something is compiled which reaches so many definitions."""
        self.compiled += 1
        seconds = round(definitions / _DEFINITIONS_A_SECOND)
        if self.told or seconds < 2:
            return
        self.told = True
        folder = cache_folder()
        often = f"once: it is kept in {folder}" if folder else "in every process: there is no folder to keep it safely"
        # A warning is what reaches standard error wherever logging is not set up otherwise.
        logging.getLogger("armtriage").warning("armtriage: compiling %s, about %d s, %s", what, seconds, often)


WAIT = _Wait()
_COMPILED_FOR: ContextVar[str | None] = ContextVar("compiled_for", default=None)


@contextmanager
def compiling_for(what: object) -> Iterator[None]:
    """Name what compiles in this block to the person who waits for it, by the class of an object."""
    token = _COMPILED_FOR.set(type(what).__name__)
    try:
        yield
    finally:
        _COMPILED_FOR.reset(token)


def compilations() -> int:
    """Return how many kernels this process has compiled for calls from Python, and not found on disk."""
    return WAIT.compiled


@functools.cache
def _compiler_digest() -> str | None:
    """Return what compilation itself is made of."""
    module = _load_compiler().__name__
    names = [(module, "inner_function"), (module, "outer_function")]
    names += [("armtriage.kernels.record_types", name) for name in ("kind_of", "opener", *Instruction.known)]
    return _sources().combine_known(_sources().digest(*one) for one in names)


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
        vars(copy).update(vars(own))
        return copy

    @functools.cached_property
    def digest(self) -> str | None:
        """What the kernel is made of; None if a part of it is from outside the package, and may change unseen."""
        own = _sources().digest(self.py_func.__module__, self.py_func.__code__.co_name)
        return _sources().combine_known(
            [_compiler_digest(), own, *(getattr(value, "digest", None) for value in self._names.values())]
        )

    def reached(self) -> set[tuple[str, str]]:
        """Return the definitions that the kernel is made of: the more, the longer compiling it takes."""
        found = set(_sources().reached(self.py_func.__module__, self.py_func.__code__.co_name))
        return found.union(*(value.reached() for value in self._names.values() if isinstance(value, Kernel)))

    @functools.cached_property
    def _inner(self) -> Any:
        return _load_compiler().inner_function(self._compiled if self._names else self.py_func)

    @property
    def _numba_type_(self) -> Any:
        return self._inner._numba_type_

    @functools.cached_property
    def outer(self) -> Any:
        """The function for calls from Python."""
        function = self._compiled if self._names else self.py_func
        return _load_compiler().outer_function(
            function, self.digest if cache_folder() is not None else None, self._tell
        )

    def _tell(self) -> None:
        WAIT.begin(_COMPILED_FOR.get() or self.py_func.__name__, len(self.reached()))

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
        from armtriage.kernels.record_types import opener

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


def inlined(function: F) -> F:
    """Have a kernel, below `kernel`, become part of each of its callers: for what runs once an arm, and is short."""
    function.__inlined__ = True  # type: ignore[attr-defined]
    return function


def bind(template: F, name: str, **names: Any) -> F:
    """Compile a copy of `template` in which the given global names mean the given objects.

    This is how the one simulation loop is made for each policy. Kernels passed as arguments would be compiled
    again in every process; kernels that are globals are found in the cache.
    """
    copy = types.FunctionType(template.__code__, {**template.__globals__, **names}, name)
    copy.__qualname__, copy.__module__ = name, template.__module__
    copy.__defaults__, copy.__kwdefaults__ = template.__defaults__, template.__kwdefaults__
    vars(copy).update(vars(template))
    return Kernel(copy, **names) if JIT else copy  # type: ignore[return-value]


def unbound(*arguments: Any) -> Any:
    """Stand in a template for a function that `bind` puts there."""
    raise NotImplementedError


def compile_now(function: Any, *arguments: Any) -> None:
    """Compile a kernel, or fetch it from disk, for arguments of these classes, or of the types of these arrays."""
    if JIT:
        _load_compiler()
        from armtriage.kernels.record_types import kind_of

        function.outer.compile(tuple(kind_of(one) for one in arguments))


@functools.cache
def _load_compiler() -> types.ModuleType:
    """Import what compiles: our own way where it fits the numba that is installed, else numba's.

    Modules are not searched for garbage meanwhile, which was a tenth of a first decision.
    """
    collecting = gc.isenabled()
    gc.disable()
    try:
        with hold_interrupts():
            return _own_compiler() or importlib.import_module("armtriage.kernels.usual")
    finally:
        if collecting:
            gc.enable()


def _own_compiler() -> types.ModuleType | None:
    """Return the compiler that is made of numba's inner parts, or None, with a warning, where one of them differs."""
    try:
        return importlib.import_module("armtriage.kernels.compiler")
    except Exception as error:
        from importlib.metadata import version

        logging.getLogger("armtriage").warning(
            "armtriage: numba %s is newer or older than what is tested (%s); kernels are compiled in its own way, "
            "several times as slowly, and otherwise equal",
            version("numba"),
            error,
        )
        return None


class Instruction:
    """What Python has no words for, and the compiler knows as few instructions of the processor."""

    known = ("trailing_zeros", "float_word", "first_of_eight")

    def __init__(self, name: str) -> None:
        self.name = self.digest = name

    def made(self) -> Any:
        """Return the function as the compiler knows it."""
        return getattr(importlib.import_module("armtriage.kernels.record_types"), self.name)


trailing_zeros = float_word = unbound


def _lowest_bit(word: np.uint64) -> Any:
    return trailing_zeros(word)


def _float_bits(number: float) -> Any:
    return float_word(number)


if JIT:
    lowest_bit = bind(_lowest_bit, "lowest_bit", trailing_zeros=Instruction("trailing_zeros"))
    float_bits = bind(_float_bits, "float_bits", float_word=Instruction("float_word"))

else:

    def lowest_bit(word: Any) -> int:
        """Return the position of the lowest bit that is set in a 64-bit word other than 0."""
        return (int(word) & -int(word)).bit_length() - 1

    def float_bits(number: Any) -> np.int64:
        """Return the 64 bits of a number as a whole one."""
        return np.float64(number).view(np.int64)
