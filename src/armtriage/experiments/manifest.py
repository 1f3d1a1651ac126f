"""The manifest of an experiment: what it is, as its folder keeps it."""

from __future__ import annotations

import json
from collections.abc import Mapping
from dataclasses import dataclass, fields
from functools import cached_property
from typing import Any, Self

from armtriage._arguments import LONGEST, check_count, check_flag, check_kind
from armtriage.experiments.cells import FORMAT, MOST, Cell, Spec, blocks
from armtriage.experiments.identity import canonical, place_of, versions
from armtriage.simulation.simulate import check_points

MAX_CELLS = 1_000_000
"""How many cells an experiment may have unless more are asked for."""
_LINE = 64  # a longer list has a line for each of its values
_DEEPEST = 32  # tables within tables


@dataclass(frozen=True)
class Manifest:
    """What an experiment is, as its folder says: enough to name its cells, without the users' code.

    Parameters
    ----------
    name : str
        What the experiment is called.
    seed : int
        Its root seed.
    code : str
        The version of the code that plays it.
    environments, policies : tuple
        What it is made of.
    pairs : tuple of tuple of int
        Which policy plays in which environment, by their positions.
    replications, block, checkpoints, redraw
        See `armtriage.Experiment`.
    definition : mapping
        The experiment as it was given.
    certificate : float
        With which probability certificates may fail; 0 if none are kept.
    """

    name: str
    seed: int
    code: str
    environments: tuple[Spec, ...]
    policies: tuple[Spec, ...]
    pairs: tuple[tuple[int, int], ...]
    replications: int
    block: int
    checkpoints: int | tuple[int, ...]
    redraw: bool
    definition: Mapping[str, Any]
    certificate: float = 0.0

    @property
    def size(self) -> int:
        """How many cells it has, without making them."""
        return len(self.pairs) * -(-self.replications // self.block)

    @cached_property
    def cells(self) -> tuple[Cell, ...]:
        """The cells, in the order of environments, policies and replications."""
        rest = self.checkpoints, self.seed, self.redraw, self.code, self.certificate
        return tuple(
            Cell(self.environments[environment], self.policies[policy], first, count, *rest)
            for environment, policy in self.pairs
            for first, count in blocks(self.replications, self.block)
        )

    def to_json(self) -> dict[str, Any]:
        """Return it as JSON values; users' functions and classes go by their names."""
        values = {one.name: getattr(self, one.name) for one in fields(self)}
        values |= {part: [_values_of(one) for one in values[part]] for part in ("environments", "policies")}
        if not self.certificate:
            del values["certificate"]
        return {"format": FORMAT, **values, "versions": versions()}

    @classmethod
    def from_json(cls, values: Mapping[str, Any]) -> Self:
        """Return what `to_json` was called on, but that users' functions and classes are names now.

        Raises
        ------
        KeyError, TypeError, ValueError
            If `to_json` cannot have returned it: nothing is taken on trust that a cell or a table is made of.
        """
        check_kind("a manifest", values, dict)
        if values["format"] != FORMAT:
            raise ValueError(f"it has format {values['format']!r}, and this version of armtriage reads {FORMAT}")
        _check_depth(values, _DEEPEST)
        json.dumps(values, ensure_ascii=False).encode()  # refuses half a character, which no table can hold
        environments = tuple(
            _spec_of(one, "instance") for one in check_kind("environments", values["environments"], list)
        )
        policies = tuple(_spec_of(one, "policy") for one in check_kind("policies", values["policies"], list))
        pairs = tuple(
            (check_count("pairs", one, 0, len(environments) - 1), check_count("pairs", other, 0, len(policies) - 1))
            for one, other in check_kind("pairs", values["pairs"], list)
        )
        points, certificate = values["checkpoints"], values.get("certificate", 0.0)
        if not pairs or not isinstance(certificate, int | float) or not 0.0 <= certificate < 1.0:
            raise ValueError(f"pairs must not be empty and certificate from 0 to 1, got {certificate!r:.100}")
        made = cls(
            name=check_kind("name", values["name"], str),
            seed=_check_seed(values["seed"]),
            code=check_kind("code", values["code"], str),
            environments=environments,
            policies=policies,
            pairs=pairs,
            replications=check_count("replications", values["replications"], 1, LONGEST),
            block=check_count("block", values["block"], 1, MOST),
            checkpoints=tuple(points) if isinstance(points, list) else check_count("checkpoints", points, 1, MOST),
            redraw=check_flag("redraw", values["redraw"]),
            definition=check_kind("definition", values["definition"], dict),
            certificate=certificate,
        )
        for one in environments:
            check_points(made.checkpoints, one.horizon)
        return made


def _values_of(spec: Spec) -> dict[str, Any]:
    rounds = {"horizon": spec.horizon} if spec.horizon else {}
    about = {"label": spec.label, spec.word: place_of(spec.what), "options": canonical("options", spec.options)}
    return {**about, **rounds, "key": spec.key}


def _spec_of(values: Mapping[str, Any], word: str) -> Spec:
    """Return an environment or a policy, by the word for what makes it."""
    horizon = check_count("horizon", values["horizon"], 1, LONGEST) if word == "instance" else 0
    label, what, key = (check_kind(one, values[one], str) for one in ("label", word, "key"))
    options = check_kind("options", values["options"], dict)
    if not key or not label:
        raise ValueError("label and key must be text that is not empty")
    if options.get("seed") is not None:
        _check_seed(options["seed"])
    return Spec(label, what, options, horizon, key)


def _check_seed(seed: Any) -> int:
    if isinstance(seed, bool) or not isinstance(seed, int) or seed < 0:
        raise ValueError(f"seed must be a whole number from 0, got {seed!r:.100}")
    return seed


def _check_depth(values: Any, room: int) -> None:
    if not room:
        raise ValueError("it is nested too deeply")
    for one in values.values() if isinstance(values, dict) else values if isinstance(values, list) else ():
        _check_depth(one, room - 1)


def toml_text(definition: Mapping[str, Any]) -> str:
    """Return a definition as the text of a TOML file; what is None is left out.

    Examples
    --------
    >>> print(toml_text({"horizon": [10, 20], "policies": ["ucb"], "environments": [{"instance": "random", "n": 5}]}))
    horizon = [10, 20]
    policies = ["ucb"]
    <BLANKLINE>
    [[environments]]
    instance = "random"
    n = 5
    """
    import tomlkit

    def inline(value: Any) -> Any:
        # Tables of their own would change the order of what stands around them.
        if isinstance(value, Mapping):
            table = tomlkit.inline_table()
            table.update({key: inline(one) for key, one in value.items() if one is not None})
            return table
        if not isinstance(value, list | tuple):
            return tomlkit.item(value)
        array = tomlkit.array()
        array.extend(inline(one) for one in value)
        return array.multiline(len(array.as_string()) > _LINE)

    def table(values: Mapping[str, Any]) -> Any:
        made = tomlkit.table()
        made.update({key: inline(value) for key, value in values.items() if value is not None})
        return made

    document = tomlkit.document()
    for key, value in definition.items():
        if isinstance(value, Mapping):
            document[key] = table(value)
        elif isinstance(value, list) and value and all(isinstance(one, Mapping) for one in value):
            tables = tomlkit.aot()
            tables.extend(map(table, value))
            document[key] = tables
        elif value is not None:
            document[key] = inline(value)
    return tomlkit.dumps(document).strip()
