"""Requests for decisions, read against a policy's state."""

from __future__ import annotations

import hashlib
import math
from collections.abc import Mapping, Sequence
from itertools import chain
from typing import Any, NamedTuple

import msgspec
import numpy as np
from msgspec import UNSET
from numpy.typing import NDArray

from armtriage._arguments import check_contexts
from armtriage.service.messages import ODD, Decide
from armtriage.service.refusal import Refused, quoted, refuse_repeated, said, some_of
from armtriage.service.state import PLAIN, PolicyState
from armtriage.service.told import arms_of

_ROUNDING = 1e-6  # by which probabilities may miss their sum, of it
_ordered = msgspec.msgpack.Encoder(order="deterministic").encode


class Asked(NamedTuple):
    """A request for a decision that has been checked, and will not fail."""

    id: str
    request: bytes | None
    mask: NDArray[np.bool_] | None
    contexts: NDArray[np.float64] | None
    tags: dict[str, Any] | None
    odd: Mapping[str, int]  # how many values of raw rows were
    control: bool | None = None  # whether it is the control's; None for one that is in no trial
    unit: int | None = None
    incumbent: list[str] | None = None  # what the control shows
    shown: list[str] | None = None  # what another system shows, which the policy observes
    inclusion: dict[str, float] | None = None  # with which probability that system shows each arm

    @property
    def plain(self) -> bool:
        """Whether any arm may be chosen, and there are no contexts."""
        return self.mask is None and self.contexts is None

    @property
    def weight(self) -> int:
        """Bytes that the decision may take until it is closed."""
        return (
            PLAIN
            + (0 if self.mask is None else self.mask.size // 8)
            + (0 if self.contexts is None else self.contexts.nbytes)
        )


def digest_of(request: Decide) -> bytes:
    """Return a digest of what was asked, whatever the order and spacing of its text."""
    return hashlib.blake2b(_ordered(request), digest_size=16).digest()


def eligible_of(state: PolicyState, request: Decide) -> NDArray[np.bool_] | None:
    """Return which arms may be chosen, by a boolean for each; None for all that are not retired."""
    if request.eligible is not UNSET and request.exclude is not UNSET:
        raise Refused("invalid", "give either eligible or exclude, not both")
    if request.eligible is not UNSET:
        arms = arms_of(state, request.eligible)
        if state.retired[arms].any():
            gone = some_of(state.names[arm] for arm in arms if state.retired[arm])
            raise Refused("invalid", f"eligible must have arms that are not retired, got {gone}")
        mask = np.zeros(len(state.names), np.bool_)
        mask[arms] = True
        return mask
    if request.exclude is not UNSET and request.exclude:
        mask = ~state.retired
        mask[arms_of(state, request.exclude)] = False
        return mask
    return None


def shown_by(state: PolicyState, request: Decide, mask: NDArray[np.bool_]) -> tuple[list[str], dict[str, float] | None]:
    """Return what another system shows, and with which probabilities, if that can be."""
    if request.shown is UNSET:
        raise Refused("shown_missing")
    shown, size = arms_of(state, request.shown), min(state.policy.budget, int(mask.sum()))
    if len(shown) != size or len(set(shown)) < size:
        raise Refused("invalid", f"shown must have {size} different arms, got {some_of(request.shown)}")
    if wrong := [state.names[arm] for arm in shown if not mask[arm]]:
        raise Refused("invalid", f"shown must have arms that are eligible, got {some_of(wrong)}")
    if request.inclusion is UNSET:
        return request.shown, None
    given = request.inclusion
    for arm, (name, chance) in zip(arms_of(state, list(given)), given.items(), strict=True):
        if not 0.0 < chance <= 1.0:
            got = f"got {chance!r} for {quoted(name)}"
            raise Refused("invalid", f"inclusion must be above 0 and at most 1, {got}")
        if not mask[arm]:
            raise Refused("invalid", f"inclusion must have arms that are eligible, got {quoted(name)}")
    if missing := [name for name in request.shown if name not in given]:
        raise Refused("invalid", f"inclusion must have all arms of shown, got none for {some_of(missing)}")
    total = math.fsum(given.values())
    if abs(total - size) > _ROUNDING * size:
        raise Refused("invalid", f"inclusion must sum to {size}, how many arms are shown, got {total:g}")
    return request.shown, given


def group_of(
    state: PolicyState, request: Decide, key: str, now: int
) -> tuple[bool | None, int | None, list[str] | None]:
    """Return whether a request is the control's, the hash of its unit, and the arms that it then shows."""
    trial = state.trial
    control = None if trial is None else trial.control
    if control is None and (request.unit is not UNSET or request.incumbent is not UNSET):
        given = "unit" if request.unit is not UNSET else "incumbent"
        raise Refused("invalid", f"{given} must be left out: the policy has no control group")
    if state.watch is None and (request.shown is not UNSET or request.inclusion is not UNSET):
        given = "shown" if request.shown is not UNSET else "inclusion"
        raise Refused("invalid", f"{given} must be left out: the policy was not created to observe")
    if request.shown is not UNSET and request.incumbent is not UNSET:
        raise Refused("invalid", "incumbent must be left out beside shown, which the control shows, too")
    if trial is None:
        return None, None, None
    unit = None if request.unit is UNSET else request.unit
    if control is not None and (control.by == "unit") != (unit is not None):
        if unit is None:
            raise Refused("unit_missing")
        raise Refused("invalid", "unit must be left out: groups are by decision")
    own = request.incumbent if request.shown is UNSET else request.shown
    if own is not UNSET:
        refuse_repeated("incumbent" if request.shown is UNSET else "shown", own)
    drawn, known_as = trial.group(key, unit, now)
    if not drawn:
        return False, known_as, None
    assert control is not None
    incumbent = own if own is not UNSET else control.incumbent
    return True, known_as, None if incumbent is UNSET else incumbent


def contexts_of(
    state: PolicyState, request: Decide, mask: NDArray[np.bool_] | None
) -> tuple[NDArray[np.float64], NDArray[np.bool_] | None, dict[str, int]]:
    """Return a row for each arm, which arms are eligible, not those that a mapping leaves out, and the odd values."""
    dimension = int(state.recipe.create.dimension)  # type: ignore[arg-type]
    raw = state.recipe.create.features is not UNSET
    given, other = (request.rows, request.contexts) if raw else (request.contexts, request.rows)
    what = "rows" if raw else "contexts"
    if given is UNSET or other is not UNSET:
        raise Refused("invalid", f"{what} are missing" if given is UNSET else f"give {what} alone")
    rows: list[Any] = list(given.values()) if isinstance(given, dict) else given
    if not isinstance(given, dict) and len(rows) != len(state.names):
        raise Refused("invalid", f"{what} must have a row for each of the {len(state.names)} arms, got {len(rows)}")
    numbers, odd = _made_of(state, rows) if raw else (_numbers(rows, dimension), dict[str, int]())
    contexts = numbers
    if isinstance(given, dict):
        arms = arms_of(state, list(given))
        contexts = np.zeros((len(state.names), dimension))
        contexts[arms] = numbers
        held = np.zeros(len(state.names), np.bool_)
        held[arms] = True
        mask = (held if mask is None else held & mask) & ~state.retired
        mask = None if mask.all() else mask
    bound: float = state.policy.context_bound  # type: ignore[attr-defined]
    try:
        return check_contexts(contexts, len(state.names), dimension, bound), mask, odd
    except ValueError as error:
        raise Refused("invalid", said(error)) from None


def _made_of(state: PolicyState, rows: list[Any]) -> tuple[NDArray[np.float64], dict[str, int]]:
    """Return what the policy's features make of raw rows, and how many values they find odd."""
    features = state.recipe.features
    if not rows:
        return np.zeros((0, features.dimension)), {}
    try:
        contexts, odd = features.read(rows)
    except (TypeError, ValueError) as error:
        raise Refused("invalid", said(error)) from None
    report = features.report_of(len(rows), odd)
    found = {name: sum(getattr(report, name).values()) for name in ODD}
    return contexts, {name: count for name, count in found.items() if count}


def check_possible(state: PolicyState, mask: NDArray[np.bool_]) -> None:
    """Refuse a request of whose arms no decision can be made."""
    if state.refuses_choice:
        raise Refused("invalid", state.refuses_choice)
    if not mask.any():
        raise Refused("nothing_eligible", "No arm that is eligible is left; one or more must be.")
    if not state.can_decide(mask):
        left = some_of(state.names[arm] for arm in np.flatnonzero(mask))
        raise Refused("nothing_eligible", f"No decision of the policy's set can be made of {left}.")


def _numbers(rows: Sequence[Sequence[float]], dimension: int) -> NDArray[np.float64]:
    """Return rows of numbers as a matrix."""
    if wrong := set(map(len, rows)) - {dimension}:
        raise Refused("invalid", f"contexts must have {dimension} numbers for each arm, got a row of {min(wrong)}")
    return np.fromiter(chain.from_iterable(rows), np.float64, len(rows) * dimension).reshape(-1, dimension)
