"""The options of constructors that classes take without listing them, since they only hand them on to their base."""

from __future__ import annotations

import inspect
import typing
from collections.abc import Sequence
from typing import Any, TypedDict

from armtriage.arms import Name
from armtriage.decisions import DecisionSet, Falling


class Options(TypedDict, total=False):
    """Keyword arguments of `armtriage.Policy`."""

    names: Sequence[Name] | None
    seed: int | None
    reward_range: tuple[float, float]
    direction: str
    sleepers_seen: bool
    cap: float | None
    logging_floor: float | Falling
    floor_arms: str


class SetOptions(Options, total=False):
    """Keyword arguments of policies that take sets of decisions, too."""

    decisions: DecisionSet | None


class GuardOptions(Options, total=False):
    """Keyword arguments of every guard without contexts: see `armtriage.GuardedThompson`."""

    delta: float
    mode: str
    factor: float
    price: float | None
    patterns: int
    forget: str | None


class ContextOptions(Options, total=False):
    """Keyword arguments of `armtriage.ContextualPolicy`."""

    context_bound: float
    features: Any


class LinearGuardOptions(ContextOptions, total=False):
    """Keyword arguments of every guard with contexts: see `armtriage.GuardedLinear`."""

    delta: float
    factor: float
    norm_bound: float | None
    noise_scale: float | None
    bias: float | None


def spelled_out(function: Any, base: Any) -> inspect.Signature:
    """Return a constructor's signature with the options by name, as `help` and the catalogue show it.

    Their defaults are those of the base's constructor; those that only some policies have come first.
    """
    signature = inspect.signature(function)
    own = list(signature.parameters.values())
    taken = str(own[-1].annotation) if own else ""
    if not taken.startswith("Unpack["):
        return signature
    kinds, given = typing.get_type_hints(function.__globals__[taken[7:-1]]), inspect.signature(base).parameters
    listed = {one.name for one in own}
    more = [
        given[name].replace(kind=inspect.Parameter.KEYWORD_ONLY, annotation=kinds[name])
        for name in sorted(kinds, key=lambda name: name in Options.__annotations__)
        if name not in listed
    ]
    return signature.replace(parameters=[*own[:-1], *more])
