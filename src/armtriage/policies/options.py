"""The options that every policy takes, whatever else its constructor has."""

from __future__ import annotations

import inspect
import typing
from collections.abc import Sequence
from typing import Any, TypedDict

from armtriage.arms import Name
from armtriage.decisions import Falling


class Options(TypedDict, total=False):
    """Keyword arguments of `armtriage.Policy`, which its subclasses hand on."""

    names: Sequence[Name] | None
    seed: int | None
    reward_range: tuple[float, float]
    direction: str
    sleepers_seen: bool
    cap: float | None
    logging_floor: float | Falling
    floor_arms: str


def spelled_out(function: Any, **defaults: Any) -> inspect.Signature:
    """Return a constructor's signature with the options by name, as `help` and the catalogue show it."""
    signature = inspect.signature(function)
    own = list(signature.parameters.values())
    if not own or own[-1].annotation != "Unpack[Options]":
        return signature
    kinds = typing.get_type_hints(Options)
    more = [
        inspect.Parameter(name, inspect.Parameter.KEYWORD_ONLY, default=defaults[name], annotation=kinds[name])
        for name in kinds
    ]
    return signature.replace(parameters=[*own[:-1], *more])
