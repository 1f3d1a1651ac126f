"""Options as they are written on the command line: NAME:key=value,key=value."""

from __future__ import annotations

import inspect
import types
import typing
from collections.abc import Callable, Mapping
from typing import Any

__all__ = ["Refusal", "convert", "parameters_of", "split", "unknown"]


class Refusal(Exception):
    """Input that the command line cannot take; the message says what it can."""


def split(text: str) -> tuple[str, dict[str, str]]:
    """Split NAME:key=value,key=value."""
    name, _, rest = text.partition(":")
    options: dict[str, str] = {}
    for item in filter(None, rest.split(",")):
        key, equals, value = item.partition("=")
        if not equals:
            raise Refusal(f"{text}: options are written key=value and parted by commas, got {item!r}")
        if key in options:
            raise Refusal(f"{text}: {key} is given twice")
        options[key] = value
    return name, options


def parameters_of(function: Callable[..., Any], without: tuple[str, ...]) -> dict[str, inspect.Parameter]:
    hints = typing.get_type_hints(function)
    given = inspect.signature(function).parameters
    return {
        key: one.replace(annotation=hints[key])
        for key, one in given.items()
        if key not in without and one.kind is not one.VAR_KEYWORD
    }


def convert(
    text: str,
    options: Mapping[str, str],
    parameters: Mapping[str, inspect.Parameter],
    also: tuple[str, ...] = (),
) -> dict[str, Any]:
    """Return the options as the types that the signature asks for."""
    for key in options:
        if key not in parameters:
            raise Refusal(f"{text}: unknown option {key!r}; accepted are {', '.join((*also, *parameters)) or 'none'}")
    for key, parameter in parameters.items():
        if parameter.default is parameter.empty and key not in options and key != "horizon":
            raise Refusal(f"{text}: {key} must be given; accepted are {', '.join((*also, *parameters))}")
    return {key: _value(text, key, value, parameters[key].annotation) for key, value in options.items()}


def _value(text: str, key: str, value: str, kind: Any) -> Any:
    kinds = typing.get_args(kind) if isinstance(kind, types.UnionType) else (kind,)
    if types.NoneType in kinds and value.lower() == "none":
        return None
    for one, what, read in _READERS:
        if one in kinds:
            try:
                return read(value)
            except ValueError:
                raise Refusal(f"{text}: {key} must be {what}, got {value!r}") from None
    raise Refusal(f"{text}: {key} cannot be given on the command line")


def _truth(value: str) -> bool:
    if value.lower() not in ("true", "false"):
        raise ValueError(value)
    return value.lower() == "true"


_READERS: tuple[tuple[type, str, Callable[[str], Any]], ...] = (
    (bool, "true or false", _truth),
    (int, "a whole number", int),
    (float, "a number", float),
    (str, "text", str),
)


def unknown(what: str, name: str, known: Any) -> Refusal:
    return Refusal(f"unknown {what} {name!r}; accepted are {', '.join(known)}")
