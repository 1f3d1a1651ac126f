"""From the definition of an experiment to its configurations: entries, grids over their options, and labels."""

from __future__ import annotations

import functools
import importlib
import inspect
from collections.abc import Callable, Mapping
from dataclasses import dataclass
from typing import Any, NamedTuple

from armtriage._options import Refusal, parameters_of, read, readable, split
from armtriage.catalogue import INSTANCES, POLICIES, instance_parameters, policy_parameters
from armtriage.experiments.grid import expand, varied
from armtriage.experiments.identity import canonical
from armtriage.experiments.schema import Positive, Problems, Seed, Wrong, check, options_model
from armtriage.instances import GRAPHS
from armtriage.policies.policy import Policy

__all__ = ["ENVIRONMENT", "POLICY", "Configuration", "Role", "configurations", "plain"]


@dataclass(frozen=True)
class Configuration:
    """One environment or policy of an experiment, with one value for each option; the horizon is an environment's."""

    path: str
    label: str
    what: Any
    options: Mapping[str, Any]
    horizon: int


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


_PLAYED = {"horizon": _parameter("horizon", Positive), "seed": _parameter("seed", Seed)}
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


class _Entry(NamedTuple):
    """What one place of a definition says: a thing, and the grid of its options."""

    path: str
    label: str | None
    what: Any
    grid: dict[str, Any]
    as_text: bool


def configurations(
    role: Role, given: Any, problems: Problems, horizon: int | list[int] | None = None
) -> list[Configuration]:
    """Return the environments or the policies of a definition, every grid written out."""
    made: list[Configuration] = []
    with problems.noting():
        for path, label, said in _places(role, given):
            with problems.noting():
                made += _members(role, _entry(role, path, label, said), problems, horizon)
    return made


def _places(role: Role, given: Any) -> list[tuple[str, str | None, Any]]:
    if isinstance(given, Mapping) and given:
        return [(f"{role.plural}.{label}", str(label), one) for label, one in given.items()]
    if isinstance(given, list | tuple) and given:
        return [(f"{role.plural}[{place}]", None, one) for place, one in enumerate(given)]
    raise Wrong.at(role.plural, f"must be a list of one or more, or a mapping from labels, got {given!r:.100}")


def _entry(role: Role, path: str, label: str | None, given: Any) -> _Entry:
    if isinstance(given, str):
        try:
            name, options = split(given)
        except Refusal as error:
            raise Wrong.at(path, str(error)) from error
        return _Entry(path, label, _thing(role, path, name), dict(options), as_text=True)
    said = dict(given) if isinstance(given, Mapping) else {role.word: given}
    if role.word not in said:
        raise Wrong.at(f"{path}.{role.word}", f"must be given; {role.choice}")
    what = _thing(role, f"{path}.{role.word}", said.pop(role.word))
    if "label" in said:
        if label is not None or not isinstance(said["label"], str) or not said["label"]:
            raise Wrong.at(f"{path}.label", f"must be text, and given once, got {said['label']!r:.100}")
        label = said.pop("label")
    return _Entry(path, label, what, said, as_text=False)


def _thing(role: Role, path: str, given: Any) -> Any:
    """Return the name or the object that is meant."""
    made = given
    if isinstance(given, str) and given not in role.names:
        module, colon, inside = given.partition(":")
        if not colon:
            raise Wrong.at(path, f"unknown {role.word} {given!r}; {role.choice}")
        try:
            made = functools.reduce(getattr, inside.split("."), importlib.import_module(module))
        except Exception as error:
            raise Wrong.at(path, f"cannot import {given!r}: {type(error).__name__}: {error}") from error
    if not isinstance(made, str) and not role.fits(made):
        raise Wrong.at(path, f"got {made!r:.100}; {role.choice}")
    return made


def _members(role: Role, entry: _Entry, problems: Problems, horizon: int | list[int] | None) -> list[Configuration]:
    """Return an entry's configurations."""
    grid, name = {}, entry.label or _name(entry.what)
    for key, value in entry.grid.items():
        try:
            grid[key] = canonical(key, value)
        except TypeError as error:
            raise Wrong.about(entry.path, (key,), str(error)) from error
        if grid[key] == []:
            raise Wrong.at(f"{entry.path}.{key}", "must hold at least one value, got []")
    silent = role is ENVIRONMENT and "horizon" not in grid
    members = []
    for member in expand({**grid, "horizon": horizon} if silent else grid):
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
        made.append(Configuration(entry.path, f"{name}:{text}" if text else name, entry.what, options, rounds))
    return made


def _checked(role: Role, entry: _Entry, given: Mapping[str, Any]) -> dict[str, Any]:
    """Return the options of one configuration in their types."""
    options = _flat(entry, given) if role is ENVIRONMENT and isinstance(entry.what, str) else dict(given)
    try:
        parameters = role.parameters(entry.what, options)
        takes_all = not isinstance(entry.what, str) and any(
            one.kind is one.VAR_KEYWORD for one in inspect.signature(entry.what).parameters.values()
        )
        for key in options.keys() & parameters.keys() if entry.as_text else ():
            if isinstance(options[key], str) and readable(parameters[key]):
                options[key] = read(key, options[key], parameters[key])
    except (Refusal, TypeError, ValueError) as error:
        raise Wrong.about(entry.path, options, str(error)) from error
    made = check(options_model(parameters, takes_all), options, entry.path, (role.word, "label"))
    return made.model_dump(by_alias=True, exclude_unset=True)


def _flat(entry: _Entry, given: Mapping[str, Any]) -> dict[str, Any]:
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


def _name(thing: Any) -> str:
    if isinstance(thing, str):
        return thing
    return _name(thing.func) if isinstance(thing, functools.partial) else getattr(thing, "__name__", str(thing))


def plain(name: str, value: Any) -> Any:
    """Return what was given as JSON knows it; functions and classes as where they are imported from."""
    if isinstance(value, Mapping):
        return {str(key): plain(f"{name}.{key}", one) for key, one in value.items()}
    if isinstance(value, list | tuple):
        return [plain(name, one) for one in value]
    if callable(value):
        thing = value.func if isinstance(value, functools.partial) else value
        return f"{thing.__module__}:{getattr(thing, '__qualname__', thing)}"
    return canonical(name, value)
