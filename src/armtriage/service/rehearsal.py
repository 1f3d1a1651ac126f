"""Rehearsal: what requests can make a policy do is done once before the first of them, so that none waits for it."""

from __future__ import annotations

from typing import Any

import msgspec

from armtriage.service import clock
from armtriage.service.messages import Decide, Reward
from armtriage.service.refusal import Refused
from armtriage.service.state import PolicyState
from armtriage.service.step import Step


def rehearse(state: PolicyState) -> None:
    """Let a copy of the policy do once all that requests can make it do, so that no request waits for a compiler."""
    copy = PolicyState.from_bytes(state.recipe, state.to_bytes())
    step = Step(copy, clock.steady(), {}, {})
    copy.status = "running"
    given: dict[str, Any] = {}
    if copy.recipe.create.features is not msgspec.UNSET:
        try:
            given = {"rows": [dict.fromkeys(map(str, copy.recipe.features.columns)) for _ in copy.names]}
        except Refused:
            return  # where rows cannot be read, no decision can be asked for
    elif copy.contextual:
        given = {"contexts": [[0.0] * int(copy.recipe.create.dimension) for _ in copy.names]}  # type: ignore[arg-type]
    if copy.trial is not None and copy.trial.control is not None and copy.trial.control.by == "unit":
        given["unit"] = "rehearsal"
    asked = [Decide(**given) for _ in range(3)]
    if not copy.contextual and len(copy.names) > 1:
        asked.append(Decide(exclude=[copy.names[int((~copy.retired).argmax())]], **given))
    keys = []
    for one in ([asked[0]], asked[1:]):
        step.decide([[request] for request in one])
    keys = list(copy.open)[-len(asked) :]
    for place, key in enumerate(keys):
        shown = [copy.names[arm] for arm in copy.open[key].show]
        value = min(max(0.0, copy.low), copy.high)
        if copy.recipe.cascade:
            step.reward(Reward(decision=key, first=shown[place % len(shown)]))
        else:
            step.reward(Reward(decision=key, rewards=dict.fromkeys(shown[: 1 + place % 2], value)))
        if key in copy.open:
            step.reward(Reward(decision=key, rewards={}, last=True))
    step.raise_alarms()
    if copy.watch is not None:
        live = [name for name, retired in zip(copy.names, copy.retired, strict=True) if not retired]
        copy.status = "observing"
        step.decide([[Decide(**given, shown=live[: copy.policy.budget])]])
        copy.watch.view(copy.policy, copy.contextual)
    copy.digest()
    copy.add_point()
