"""From the definition of an experiment to its environments and policies: entries, grids over their options, labels.

What the keys may hold is said by models of pydantic; every problem is told at once, by its key.
"""

from __future__ import annotations

import functools
import importlib
import inspect
import json
import math
import types
import typing
from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from contextlib import contextmanager
from itertools import product
from typing import Annotated, Any, Literal, NamedTuple, TypeVar

from pydantic import BaseModel, BeforeValidator, ConfigDict, Field, ValidationError, create_model
from pydantic.fields import FieldInfo

from armtriage._arguments import LONGEST
from armtriage.catalogue import (
    INSTANCES,
    POLICIES,
    from_text,
    instance_parameters,
    kinds_of_value,
    parameters_of,
    policy_parameters,
    split,
)
from armtriage.experiments.cells import MOST, Spec
from armtriage.experiments.identity import canonical, place_of
from armtriage.experiments.manifest import MAX_CELLS
from armtriage.instances import GRAPHS
from armtriage.policies.policy import Policy

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


@contextmanager
def at_its_key(path: str, keys: Iterable[str]) -> Iterator[None]:
    """Say what is refused inside at the key with which the refusal begins."""
    try:
        yield
    except (TypeError, ValueError) as error:
        raise Wrong.about(path, keys, str(error)) from error


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
_Positive = Annotated[int, BeforeValidator(_whole), Field(ge=1, le=LONGEST, description=_FROM_1)]
_Seed = Annotated[
    Annotated[int, BeforeValidator(_whole), Field(ge=0)] | None,
    BeforeValidator(_or_none),
    Field(description="a whole number from 0, or none"),
]
_List = Annotated[list[_Positive], Field(min_length=1)]
_Bounded = Annotated[int, BeforeValidator(_whole), Field(ge=1, le=MOST)]
_TO_MOST = f"a whole number from 1 to {MOST:,}"


class Settings(BaseModel):
    """What an experiment says besides its environments and policies."""

    model_config = ConfigDict(extra="forbid", strict=True)

    horizon: _Positive | _List = Field(description=f"{_FROM_1}, or a list of them")
    replications: _Positive = Field(16)
    seed: _Seed = None
    name: Annotated[str, Field(min_length=1)] = Field("experiment", description="text")
    checkpoints: _Bounded | _List = Field(50, description=f"{_TO_MOST}, or a list of rounds")
    block: _Bounded = Field(4, description=_TO_MOST)
    redraw: bool = Field(False, description="true or false")
    certificate: bool | Annotated[float, Field(gt=0.0, lt=1.0)] = Field(
        False, description="true, false or a number strictly between 0 and 1"
    )
    max_cells: _Positive = Field(MAX_CELLS)


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


def _options_model(parameters: Mapping[str, inspect.Parameter], takes_all: bool) -> type[BaseModel]:
    """Return the model of what a signature takes by name."""
    return _model(tuple((key, one.annotation, one.default is one.empty) for key, one in parameters.items()), takes_all)


@functools.lru_cache(maxsize=256)
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


def counted(value: Any) -> int:
    """Return how many values a grid stands for, without writing them out.

    Examples
    --------
    >>> counted({"n_arms": [10, 20], "graph": ["star", {"family": "cliques", "size": [2, 5]}], "means": [[0.9, 0.5]]})
    6
    """
    if isinstance(value, Mapping):
        return math.prod(map(counted, value.values()))
    if isinstance(value, list | tuple):
        return sum(1 if isinstance(one, list | tuple) else counted(one) for one in value)
    return 1


def expand(value: Any) -> list[Any]:
    """Return all values that a grid stands for, the first key's changing last.

    An element of a list that is itself a list is one value.

    Examples
    --------
    >>> expand({"n_arms": [10, 20], "graph": ["star", {"family": "cliques", "size": [2, 5]}]})[2]
    {'n_arms': 10, 'graph': {'family': 'cliques', 'size': 5}}
    >>> expand({"means": [[0.9, 0.5]]})
    [{'means': [0.9, 0.5]}]
    """
    if isinstance(value, Mapping):
        return [dict(zip(value, chosen, strict=True)) for chosen in product(*map(expand, value.values()))]
    if isinstance(value, list | tuple):
        return [
            one for element in value for one in ([element] if isinstance(element, list | tuple) else expand(element))
        ]
    return [value]


def varied(members: list[dict[str, Any]]) -> list[str]:
    """Return the keys whose values differ among the members of a grid, or that some lack.

    Examples
    --------
    >>> varied([{"n_arms": 10, "budget": 2}, {"n_arms": 20, "budget": 2, "size": 5}])
    ['n_arms', 'size']
    """
    keys = dict.fromkeys(key for member in members for key in member)
    return [key for key in keys if any(key not in one or one[key] != members[0].get(key) for one in members)]


class Role(NamedTuple):
    """What environments, or policies, are called and can be."""

    plural: str
    word: str
    names: Mapping[str, Any]
    other: str
    fits: Callable[[Any], bool]
    parameters: Callable[[Any, Mapping[str, Any]], dict[str, inspect.Parameter]]

    @property
    def choice(self) -> str:
        """What can be given, in words."""
        return f"accepted are {', '.join(self.names)}, {self.other}, and where that is imported from, as module:name"


def _parameter(key: str, kind: Any) -> inspect.Parameter:
    return inspect.Parameter(key, inspect.Parameter.KEYWORD_ONLY, default=None, annotation=kind)


_PLAYED = {"horizon": _parameter("horizon", _Positive), "seed": _parameter("seed", _Seed)}
ENVIRONMENT = Role(
    "environments",
    "instance",
    INSTANCES,
    "a function that returns an environment",
    callable,
    lambda what, options: {**instance_parameters(what, options), **_PLAYED},
)
POLICY = Role(
    "policies",
    "policy",
    POLICIES,
    "a subclass of Policy",
    lambda what: isinstance(what, type) and issubclass(what, Policy),
    lambda what, options: policy_parameters(what),
)


class Entry(NamedTuple):
    """What one place of a definition says: a thing, and the grid of its options.

    `own_horizon` is whether an environment says how long it is played.
    """

    path: str
    label: str | None
    what: Any
    grid: dict[str, Any]
    as_text: bool
    own_horizon: bool = True


def entries(
    role: Role, given: Any, problems: Problems, code: bool, horizon: int | list[int] | None = None
) -> list[Entry]:
    """Return what a definition says of environments or of policies; `code` is that of `Experiment.from_file`."""
    made: list[Entry] = []
    with problems.noting():
        for path, label, said in _places(role, given):
            with problems.noting():
                one = _entry(role, path, label, said, code)
                grid = _grid(one)
                if role is ENVIRONMENT and "horizon" not in grid:
                    one, grid = one._replace(own_horizon=False), {**grid, "horizon": horizon}
                made.append(one._replace(grid=grid))
    return made


def _grid(entry: Entry) -> dict[str, Any]:
    grid = {}
    for key, value in entry.grid.items():
        with at_its_key(entry.path, (key,)):
            grid[key] = canonical(key, value)
        if grid[key] == []:
            raise Wrong.at(f"{entry.path}.{key}", "must hold at least one value, got []")
    return grid


def specs(role: Role, given: Iterable[Entry], problems: Problems) -> list[Spec]:
    """Return the environments or the policies that entries stand for, every grid written out."""
    made: list[Spec] = []
    for one in given:
        with problems.noting():
            made += _members(role, one, problems)
    return made


def _places(role: Role, given: Any) -> list[tuple[str, str | None, Any]]:
    if isinstance(given, Mapping) and given:
        return [(f"{role.plural}.{label}", str(label), one) for label, one in given.items()]
    if isinstance(given, list | tuple) and given:
        return [(f"{role.plural}[{place}]", None, one) for place, one in enumerate(given)]
    raise Wrong.at(role.plural, f"must be a list of one or more, or a mapping from labels, got {given!r:.100}")


def _entry(role: Role, path: str, label: str | None, given: Any, code: bool) -> Entry:
    if isinstance(given, str):
        try:
            name, options = split(given)
        except ValueError as error:
            raise Wrong.at(path, str(error)) from error
        return Entry(path, label, _thing(role, path, name, code), dict(options), as_text=True)
    said = dict(given) if isinstance(given, Mapping) else {role.word: given}
    if role.word not in said:
        raise Wrong.at(f"{path}.{role.word}", f"must be given; {role.choice}")
    what = _thing(role, f"{path}.{role.word}", said.pop(role.word), code)
    if "label" in said:
        if label is not None or not isinstance(said["label"], str) or not said["label"]:
            raise Wrong.at(f"{path}.label", f"must be text, and given once, got {said['label']!r:.100}")
        label = said.pop("label")
    return Entry(path, label, what, said, as_text=False)


def _thing(role: Role, path: str, given: Any, code: bool) -> Any:
    """Return the name or the object that is meant; nothing is imported unless `code` says so."""
    made = given
    if isinstance(given, str) and given not in role.names:
        module, colon, inside = given.partition(":")
        if not colon:
            raise Wrong.at(path, f"unknown {role.word} {given!r}; {role.choice}")
        if not code:
            how = "code=True in Python, --code on the command line"
            raise Wrong.at(path, f"{given!r} is code, which a file runs only if you say so: {how}")
        try:
            made = functools.reduce(getattr, inside.split("."), importlib.import_module(module))
        except Exception as error:
            raise Wrong.at(path, f"cannot import {given!r}: {type(error).__name__}: {error}") from error
    if not isinstance(made, str) and not role.fits(made):
        raise Wrong.at(path, f"got {made!r:.100}; {role.choice}")
    return made


def _members(role: Role, entry: Entry, problems: Problems) -> list[Spec]:
    """Return what an entry stands for: one environment or policy for each member of its grid."""
    name, silent, members = entry.label or short_name(entry.what), not entry.own_horizon, []
    for member in expand(entry.grid):
        with problems.noting():
            members.append(_checked(role, entry, member))
    differing, made = varied(members), []
    for options in members:
        shown = [key for key in options if key in differing or not (entry.label or (silent and key == "horizon"))]
        text = ",".join(f"{key}={_text(options[key])}" for key in shown)
        rounds = 0
        if role is ENVIRONMENT:
            # What is left to the experiment is not said by the instance.
            rounds = options.pop("horizon")
            options = {key: value for key, value in options.items() if key != "seed" or value is not None}
        label = f"{name}:{text}" if text else name
        with problems.noting():
            try:
                made.append(Spec(label, entry.what, options, rounds, path=entry.path))
            except TypeError as error:
                raise Wrong.at(entry.path, str(error)) from error
    return made


def _checked(role: Role, entry: Entry, given: Mapping[str, Any]) -> dict[str, Any]:
    """Return the options of one member in their types."""
    options = _flat(entry, given) if role is ENVIRONMENT and isinstance(entry.what, str) else dict(given)
    with at_its_key(entry.path, options):
        parameters = role.parameters(entry.what, options)
        takes_all = not isinstance(entry.what, str) and any(
            one.kind is one.VAR_KEYWORD for one in inspect.signature(entry.what).parameters.values()
        )
        options = from_text(options, parameters) if entry.as_text else options
    made = check(_options_model(parameters, takes_all), options, entry.path, (role.word, "label"))
    return made.model_dump(by_alias=True, exclude_unset=True)


def _flat(entry: Entry, given: Mapping[str, Any]) -> dict[str, Any]:
    """Return the options with those of a graph's table beside the others, as they are written in text."""
    if "graph" not in given:
        return dict(given)
    table = dict(given["graph"]) if isinstance(given["graph"], dict) else {"family": given["graph"]}
    family = table.pop("family", None)
    if not isinstance(family, str) or family not in GRAPHS:
        what = f"one of {', '.join(GRAPHS)}, or a table with that as its family"
        raise Wrong.at(f"{entry.path}.graph", f"must be {what}, got {given['graph']!r:.100}")
    parameters = instance_parameters(entry.what, {"graph": family})
    options = {**given, "graph": family}
    for key, value in table.items():
        name = f"graph.{key}" if f"graph.{key}" in parameters else key
        if name not in parameters:
            accepted = ", ".join(("family", *parameters_of(GRAPHS[family])))
            raise Wrong.at(f"{entry.path}.graph.{key}", f"unknown key; accepted are {accepted}")
        if name in given:
            raise Wrong.at(f"{entry.path}.graph.{key}", f"is given twice, as {given[name]!r} and {value!r}")
        options[name] = value
    return options


def _text(value: Any) -> str:
    if isinstance(value, bool) or value is None:
        return str(value).lower()
    if isinstance(value, list | tuple):
        return f"({','.join(map(_text, value))})"
    return str(value).removesuffix(".0")


def short_name(thing: Any) -> str:
    """Return what an instance or a policy is called where it has no label."""
    if isinstance(thing, str):
        return thing
    return short_name(thing.func) if isinstance(thing, functools.partial) else getattr(thing, "__name__", str(thing))


def in_json(name: str, value: Any) -> Any:
    """Return what was given as JSON knows it; functions and classes as where they are imported from."""
    if isinstance(value, Mapping):
        return {str(key): in_json(f"{name}.{key}", one) for key, one in value.items()}
    if isinstance(value, list | tuple):
        return [in_json(name, one) for one in value]
    return place_of(value) if callable(value) else canonical(name, value)
