"""Hashes that name things, alike in every process for equal things; and the versions of what made a number."""

from __future__ import annotations

import functools
import hashlib
import inspect
import json
import pickle
import platform
import types
from collections.abc import Callable, Mapping
from importlib import metadata
from pathlib import Path
from typing import Any

import numpy as np

ROOMS = (
    "_arguments",
    "_files",
    "_numbers",
    "alarm",
    "arms",
    "catalogue",
    "certificate",
    "decisions",
    "environments",
    "experiments.cells",
    "experiments.identity",
    "graphs",
    "instances",
    "intervals",
    "kernels",
    "policies",
    "simulation",
    "theory",
    "triage",
)
"""The packages and modules of armtriage on which the numbers of a cell depend."""
_LIBRARIES = ("armtriage", "numpy", "numba", "scipy", "polars")


def canonical(name: str, value: Any) -> Any:
    """Return the value in numbers, text, truth values, None, lists and dicts of them, as JSON knows them.

    Examples
    --------
    >>> canonical("means", (np.float64(0.5), 1))
    [0.5, 1]
    """
    if isinstance(value, np.generic | np.ndarray):
        value = value.tolist()
    if value is None or isinstance(value, bool | int | float | str):
        return value
    if isinstance(value, list | tuple):
        return [canonical(name, one) for one in value]
    if isinstance(value, Mapping) and all(isinstance(key, str) for key in value):
        return {key: canonical(f"{name}.{key}", one) for key, one in value.items()}
    raise TypeError(f"{name} must be made of numbers, text, true, false and lists of them, got {value!r}")


def digest(value: Any) -> str:
    """Return 16 bytes of a hash of a canonical value, in hexadecimal digits.

    Examples
    --------
    >>> digest({"a": 1, "b": 2}) == digest({"b": 2, "a": 1})
    True
    """
    text = json.dumps(value, sort_keys=True, separators=(",", ":"))
    return hashlib.blake2b(text.encode(), digest_size=16).hexdigest()


@functools.lru_cache(maxsize=1024)
def named_seed(root: int, *words: str | int) -> int:
    """Return the seed that belongs to these words: 63 bits, the same whatever other words there are.

    Examples
    --------
    >>> named_seed(7, "policy") == named_seed(7, "policy"), named_seed(7, "policy") == named_seed(7, "reward")
    (True, False)
    """
    return int(digest([root, *words]), 16) >> 65


def place_of(thing: str | Callable[..., Any]) -> str:
    """Return a name as it is, and a function or class as where it is imported from.

    Examples
    --------
    >>> place_of("greedy"), place_of(digest)
    ('greedy', 'armtriage.experiments.identity:digest')
    """
    if isinstance(thing, str):
        return thing
    thing = thing.func if isinstance(thing, functools.partial) else thing
    return f"{thing.__module__}:{getattr(thing, '__qualname__', thing)}"


def identity(name: str, thing: str | Callable[..., Any]) -> Any:
    """Return what tells a name, or a user's function or class, from others: its source and what it was made with.

    Functions that it calls are not looked at.
    """
    if isinstance(thing, str):
        return thing
    if isinstance(thing, functools.partial):
        return ["partial", identity(name, thing.func), _values(name, {"args": thing.args, **thing.keywords})]
    if isinstance(thing, type):
        own = [one for one in thing.__mro__ if not one.__module__.startswith(("armtriage.", "abc", "builtins"))]
        functions = [one for kind in own for one in vars(kind).values() if isinstance(one, types.FunctionType)]
        return [thing.__module__, thing.__qualname__, *map(_source, own), *(_made_with(name, one) for one in functions)]
    if isinstance(thing, types.MethodType):
        return [thing.__name__, identity(name, type(thing.__self__)), _values(name, vars(thing.__self__))]
    if isinstance(thing, types.FunctionType):
        return [_source(thing), _made_with(name, thing)]
    raise TypeError(f"{name} must be a name, a function or a class, got {thing!r}")


def _source(thing: type | types.FunctionType) -> list[Any]:
    try:
        source: Any = inspect.getsource(thing)
    except (OSError, TypeError):
        # Typed at a prompt: what it was compiled to is all there is.
        parts = vars(thing).values() if isinstance(thing, type) else [thing]
        source = [_compiled(part.__code__) for part in parts if isinstance(part, types.FunctionType)]
    return [thing.__module__, thing.__qualname__, source]


def _compiled(code: types.CodeType) -> list[Any]:
    constants = [_compiled(one) if isinstance(one, types.CodeType) else repr(one) for one in code.co_consts]
    return [code.co_code.hex(), list(code.co_names), constants]


def _made_with(name: str, function: types.FunctionType) -> dict[str, Any]:
    """Return the default values and the variables of enclosing functions, which its source does not tell."""
    kept = {key: one for key, one in inspect.getclosurevars(function).nonlocals.items() if key != "__class__"}
    defaults = {"defaults": function.__defaults__, **(function.__kwdefaults__ or {})}
    return _values(name, {**kept, **defaults})


def _values(name: str, values: Mapping[str, Any]) -> dict[str, Any]:
    made = {}
    for key, value in values.items():
        try:
            made[key] = canonical(key, value)
        except TypeError:
            made[key] = identity(key, value) if callable(value) else _pickled(name, key, value)
    return made


def _pickled(name: str, key: str, value: Any) -> str:
    try:
        return hashlib.blake2b(pickle.dumps(value), digest_size=16).hexdigest()
    except Exception as error:
        raise TypeError(f"{name} uses {key}, which cannot be told from others of its kind: {error}") from error


def counts(module: str) -> bool:
    """Return whether numbers depend on a module of armtriage, given by its name without the package's.

    Examples
    --------
    >>> counts("policies.index.greedy"), counts("plots.curves")
    (True, False)
    """
    return any(f"{module}.".startswith(f"{room}.") for room in ROOMS)


@functools.cache
def code_version() -> str:
    """Return the version of armtriage with a hash of the sources on which the numbers of a cell depend."""
    folder, made = Path(__file__).parents[1], hashlib.blake2b(digest_size=8)
    for path in sorted(folder.rglob("*.py")):
        name = ".".join(path.relative_to(folder).with_suffix("").parts)
        if counts(name):
            made.update(name.encode() + b"\n" + path.read_bytes())
    return f"{metadata.version('armtriage')}+{made.hexdigest()}"


@functools.cache
def versions() -> dict[str, str]:
    """Return the versions of what a number depends on, by name."""
    return {"python": platform.python_version(), **{name: metadata.version(name) for name in _LIBRARIES}}
