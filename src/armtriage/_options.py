"""Options by name: what a function takes, and how it is written as text, NAME:key=value,key=value."""

from __future__ import annotations

import inspect
import types
import typing
from collections.abc import Callable, Mapping
from functools import lru_cache
from typing import Any

__all__ = ["Refusal", "convert", "kinds_of_value", "parameters_of", "read", "readable", "split", "unknown"]


class Refusal(Exception):
    """Input that cannot be taken; the message says what can."""


def split(text: str) -> tuple[str, dict[str, str]]:
    """Split NAME:key=value,key=value."""
    name, _, rest = text.partition(":")
    options: dict[str, str] = {}
    for item in filter(None, rest.split(",")):
        key, equals, value = item.partition("=")
        if not equals:
            raise Refusal(f"options are written key=value and parted by commas, got {item!r}")
        if key in options:
            raise Refusal(f"{key} is given twice")
        options[key] = value
    return name, options


@lru_cache(maxsize=1024)
def parameters_of(function: Callable[..., Any], without: tuple[str, ...] = ()) -> dict[str, inspect.Parameter]:
    """Return the parameters of a function or class that can be given by name, with their types, where it says them."""
    try:
        hints = typing.get_type_hints(getattr(function, "__init__") if isinstance(function, type) else function)  # noqa: B009 - mypy
    except (AttributeError, NameError, TypeError):
        hints = {}
    return {
        key: one.replace(annotation=hints.get(key, Any))
        for key, one in inspect.signature(function).parameters.items()
        if key not in without and one.kind in (one.POSITIONAL_OR_KEYWORD, one.KEYWORD_ONLY)
    }


def convert(options: Mapping[str, str], parameters: Mapping[str, inspect.Parameter]) -> dict[str, Any]:
    """Return the options, given as text, as the types that the signature asks for."""
    accepted = ", ".join(key for key, one in parameters.items() if readable(one)) or "none"
    for key in options:
        if key not in parameters or not readable(parameters[key]):
            raise Refusal(f"unknown option {key!r}; accepted are {accepted}")
    for key, parameter in parameters.items():
        if parameter.default is parameter.empty and key not in options and key != "horizon":
            raise Refusal(f"{key} must be given; accepted are {accepted}")
    return {key: read(key, value, parameters[key]) for key, value in options.items()}


def kinds_of_value(kind: Any) -> tuple[Any, ...]:
    """Return the types that a type stands for: more than one for a union."""
    union = isinstance(kind, types.UnionType) or typing.get_origin(kind) is typing.Union
    return typing.get_args(kind) if union else (kind,)


def _bare(kind: Any) -> tuple[Any, ...]:
    """Return the types that a type stands for, without what else is said about them."""
    if typing.get_origin(kind) is typing.Annotated:
        return _bare(typing.get_args(kind)[0])
    kinds = kinds_of_value(kind)
    return kinds if len(kinds) == 1 else tuple(one for part in kinds for one in _bare(part))


def readable(parameter: inspect.Parameter) -> bool:
    """Return whether a value can be written as text."""
    return any(one in _bare(parameter.annotation) for one, _, _ in _READERS)


def read(key: str, value: str, parameter: inspect.Parameter) -> Any:
    """Return the value that a text stands for."""
    kinds = _bare(parameter.annotation)
    if types.NoneType in kinds and value.lower() == "none":
        return None
    for one, what, reader in _READERS:
        if one in kinds:
            try:
                return reader(value)
            except ValueError:
                raise Refusal(f"{key} must be {what}, got {value!r}") from None
    raise Refusal(f"{key} cannot be given as text")


def _truth(value: str) -> bool:
    if value.lower() not in ("true", "false"):
        raise ValueError(value)
    return value.lower() == "true"


_READERS: tuple[tuple[Any, str, Callable[[str], Any]], ...] = (
    (bool, "true or false", _truth),
    (int, "a whole number", int),
    (float, "a number", float),
    (str, "text", str),
)


def unknown(what: str, name: str, known: Any) -> Refusal:
    """Return the refusal of a name that stands for nothing."""
    return Refusal(f"unknown {what} {name!r}; accepted are {', '.join(known)}")
