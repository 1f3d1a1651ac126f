"""What the keys of an experiment may hold, as models of pydantic; every problem is told at once, by its key."""

from __future__ import annotations

import inspect
import json
import types
import typing
from collections.abc import Iterable, Iterator, Mapping, Sequence
from contextlib import contextmanager
from functools import lru_cache
from typing import Annotated, Any, Literal, TypeVar

from pydantic import BaseModel, BeforeValidator, ConfigDict, Field, ValidationError, create_model
from pydantic.fields import FieldInfo

from armtriage._arguments import LONGEST
from armtriage._options import kinds_of_value

__all__ = ["Positive", "Problems", "Seed", "Settings", "Wrong", "check", "options_model"]

_Model = TypeVar("_Model", bound=BaseModel)


class Wrong(Exception):
    """Problems with a definition, each a text with the key at which it is."""

    @classmethod
    def at(cls, path: str, text: str) -> Wrong:
        """Return one problem."""
        return cls(f"{path}: {text}")

    @classmethod
    def about(cls, path: str, keys: Iterable[str], text: str) -> Wrong:
        """Return what a constructor said, at the key with which it begins."""
        key, _, rest = text.partition(" ")
        return cls.at(_inside(path, key), rest) if key in keys and rest.startswith("must ") else cls.at(path, text)


def _inside(path: str, key: str) -> str:
    return f"{path}.{key}" if path else key


class Problems:
    """Problems that are gathered, to be told together."""

    def __init__(self) -> None:
        self.found: dict[str, None] = {}

    @contextmanager
    def noting(self) -> Iterator[None]:
        """Note what is wrong inside, and go on after it; a grid may have the same problem many times."""
        try:
            yield
        except Wrong as error:
            self.found |= dict.fromkeys(error.args)

    def error(self) -> ValueError:
        """Return all of them as one."""
        many = f"{len(self.found)} problems\n  " if len(self.found) > 1 else ""
        return ValueError(many + "\n  ".join(self.found))


def _whole(value: Any) -> Any:
    """Take 1e5 for the whole number that it is."""
    return int(value) if isinstance(value, float) and value.is_integer() else value


def _or_none(value: Any) -> Any:
    """Take the word for None, which TOML cannot say."""
    return None if isinstance(value, str) and value.lower() == "none" else value


_Whole = Annotated[int, BeforeValidator(_whole)]
_FROM_1 = "a whole number from 1"
Positive = Annotated[int, BeforeValidator(_whole), Field(ge=1, le=LONGEST, description=_FROM_1)]
Seed = Annotated[
    Annotated[int, BeforeValidator(_whole), Field(ge=0)] | None,
    BeforeValidator(_or_none),
    Field(description="a whole number from 0, or none"),
]
_List = Annotated[list[Positive], Field(min_length=1)]


class Settings(BaseModel):
    """What an experiment says besides its environments and policies."""

    model_config = ConfigDict(extra="forbid", strict=True)

    horizon: Positive | _List = Field(description=f"{_FROM_1}, or a list of them")
    replications: Positive = Field(16)
    seed: Seed = None
    name: Annotated[str, Field(min_length=1)] = Field("experiment", description="text")
    checkpoints: Positive | _List = Field(50, description=f"{_FROM_1}, or a list of them")
    block: Positive = Field(4)
    redraw: bool = Field(False, description="true or false")
    certificate: bool | Annotated[float, Field(gt=0.0, lt=1.0)] = Field(
        False, description="true, false or a number strictly between 0 and 1"
    )


def check(model: type[_Model], values: Mapping[str, Any], path: str, also: tuple[str, ...]) -> _Model:
    """Return the values as the model has them.

    They go through JSON: what can be kept can be given, and lists do for tuples.
    """
    try:
        return model.model_validate_json(json.dumps(values), strict=True)
    except ValidationError as error:
        fields = {one.alias or name: one for name, one in model.model_fields.items()}
        accepted = f"accepted are {', '.join((*also, *fields))}"
        found = []
        for key in dict.fromkeys(str(one["loc"][0]) for one in error.errors()):
            if key not in fields:
                say = f"unknown key; {accepted}"
            elif key not in values:
                say = f"must be given; {accepted}"
            else:
                say = f"must be {fields[key].description}, got {values[key]!r:.100}"
            found.append(f"{_inside(path, key)}: {say}")
        raise Wrong(*found) from error


def options_model(parameters: Mapping[str, inspect.Parameter], takes_all: bool) -> type[BaseModel]:
    """Return the model of what a signature takes by name."""
    return _model(tuple((key, one.annotation, one.default is one.empty) for key, one in parameters.items()), takes_all)


@lru_cache(maxsize=256)
def _model(parameters: tuple[tuple[str, Any, bool], ...], takes_all: bool) -> type[BaseModel]:
    # Any name is fine for an option, but not for an attribute of a model.
    fields: dict[str, Any] = {
        f"option_{place}": (
            _strict(kind),
            Field(... if needed and key != "horizon" else None, alias=key, description=_words(kind)),
        )
        for place, (key, kind, needed) in enumerate(parameters)
    }
    config = ConfigDict(extra="allow" if takes_all else "forbid", strict=True)
    return create_model("Options", __config__=config, **fields)


_PLAIN = {int: "a whole number", float: "a number", str: "text", bool: "true or false", types.NoneType: "none"}
_LISTS: tuple[Any, ...] = (list, tuple, Sequence)


def _strict(kind: Any) -> Any:
    """Return the type as pydantic is to check it; what is no plain value is left to the function that takes it."""
    kinds = kinds_of_value(kind)
    if len(kinds) > 1:
        whole: Any = typing.Union[tuple(map(_strict, kinds))]  # noqa: UP007 - a tuple of types
        return Annotated[whole, BeforeValidator(_or_none)] if types.NoneType in kinds else whole
    origin, within = typing.get_origin(kind), typing.get_args(kind)
    if kind is int:
        return _Whole
    if kind in _PLAIN or origin in (Annotated, Literal):
        return kind
    if kind in _LISTS:
        return kind
    if origin in _LISTS:
        return origin[tuple(one if one is ... else _strict(one) for one in within)]
    return Any


def _words(kind: Any) -> str:
    """Return what a type accepts, in words."""
    kinds = kinds_of_value(kind)
    if len(kinds) > 1:
        return " or ".join(dict.fromkeys(map(_words, kinds)))
    if typing.get_origin(kind) is Literal:
        return f"one of {', '.join(map(str, typing.get_args(kind)))}"
    if typing.get_origin(kind) is Annotated:
        return str(next(one.description for one in kind.__metadata__ if isinstance(one, FieldInfo)))
    if _strict(kind) is not Any and kind not in _PLAIN:
        inner = [_words(one) for one in typing.get_args(kind) if one is not ...]
        return f"a list, each {inner[0]}" if len(set(inner)) == 1 else "a list"
    return _PLAIN.get(kind, "a value")
