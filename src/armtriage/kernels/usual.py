"""Kernels as numba itself compiles them, where `compiler` does not fit the numba that is installed.

Nothing of numba is changed or replaced: slower to compile, and otherwise equal.
"""

from __future__ import annotations

import types
from collections.abc import Callable
from typing import Any

import numba

_OPTIONS: dict[str, Any] = {"nogil": True, "error_model": "numpy"}


def inner_function(function: Callable[..., Any]) -> Any:
    """Return what kernels call."""
    return numba.njit(no_cpython_wrapper=True, no_cfunc_wrapper=True, **_OPTIONS)(function)


def outer_function(function: Callable[..., Any], digest: str | None, tell: Callable[[], None]) -> Any:
    """Return what Python calls, in numba's own cache unless the digest is None.

    That cache sees neither what a function calls nor the layout of a record: the digest in its name stands for them.
    """
    if digest is not None:
        named = types.FunctionType(function.__code__, function.__globals__, function.__name__, function.__defaults__)
        named.__qualname__, named.__module__ = f"{function.__qualname__}_{digest}", function.__module__
        function = named
    return numba.njit(cache=digest is not None, no_cfunc_wrapper=True, **_OPTIONS)(function)
