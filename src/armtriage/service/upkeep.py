"""What an operator does with a store: check it, replay it, delete from it."""

from __future__ import annotations

import asyncio
from collections.abc import Sequence
from typing import Any

import msgspec

from armtriage.errors import ArmtriageError
from armtriage.service.events import Decided, Event
from armtriage.service.loop import CHUNK, load, usable
from armtriage.service.recipe import Recipe
from armtriage.service.state import PolicyState, unbits
from armtriage.service.stores import PolicyRow, Store, StoreError


async def policy_of(store: Store, name: str) -> PolicyRow:
    """Return a policy by its name."""
    for row in await store.policies():
        if row.name == name:
            return row
    raise StoreError(f"there is no policy {name}")


async def check(store: Store) -> tuple[list[str], dict[str, dict[str, Any]]]:
    """Return the problems found, and for each policy its log's length and its state's digest."""
    problems, policies = await store.check(), {}
    for row in await store.policies():
        try:
            state = await load(store, row, snapshots=False)
        except (ValueError, KeyError) as error:
            problems.append(f"{row.name}: the log cannot be replayed: {error}")
            continue
        problems += await _check_snapshots(store, row)
        quick = await load(store, row)
        if state.head < row.head:
            problems.append(f"{row.name}: the log ends at event {state.head} instead of {row.head}")
        if quick.head == state.head and quick.digest() != state.digest():
            problems.append(f"{row.name}: the snapshot and the log give different states")
        policies[row.name] = {"head": state.head, "digest": state.digest()}
    return problems, policies


async def _check_snapshots(store: Store, row: PolicyRow) -> list[str]:
    """Return the problems of snapshots, without which a policy is served, too, but starts slowly."""
    problems = []
    try:
        found = await store.snapshots(row.id)
    except StoreError as error:
        if not error.damaged:
            raise
        return [f"{row.name}: no snapshot can be read: {error}"]
    for snapshot in found:
        if not snapshot.whole:
            problems.append(f"{row.name}: the snapshot after event {snapshot.seq} is damaged")
        elif usable(snapshot):
            try:
                await asyncio.to_thread(PolicyState.from_bytes, Recipe.read(row.config), snapshot.payload)
            except (ArmtriageError, ValueError, msgspec.MsgspecError) as error:
                problems.append(f"{row.name}: the snapshot after event {snapshot.seq} cannot be loaded: {error}")
    return problems


async def replay(store: Store, name: str) -> dict[str, Any]:
    """Return a policy's state after its whole log, and how many decisions it would make otherwise on this machine.

    That number is None where the log has the contexts of chosen arms only.
    """
    row = await policy_of(store, name)
    recipe = Recipe.read(row.config)
    state, own = await asyncio.to_thread(PolicyState, recipe), await asyncio.to_thread(_OwnMind, recipe)
    while events := await store.read(row.id, state.head, CHUNK):
        await asyncio.to_thread(_compare, state, own, events)
    different = None if recipe.create.log_contexts == "chosen" else own.different
    facts = {"head": state.head, "decisions": state.decided, "different": different, "digest": state.digest()}
    return {"policy": name, **facts}


async def lift(store: Store, name: str) -> dict[str, Any]:
    """Return what a policy earns more than its control group, and what its metrics say."""
    state = await load(store, await policy_of(store, name))
    if state.trial is None:
        raise ValueError(f"policy must be one with a control group or metrics, got {name!r}")
    view = state.trial.view()
    found = None if view.interval is None else view.interval.to_dict()
    metrics = [msgspec.structs.asdict(one) for one in view.metrics]
    return {"policy": name, "head": state.head, "in_force": view.in_force, "lift": found, "metrics": metrics}


class _OwnMind(PolicyState):
    """The state in which the policy decides again, instead of adopting the log."""

    different, astray = 0, False

    def _decided(self, event: Event, body: Decided) -> None:
        if self.recipe.create.log_contexts == "chosen" or body.would is not None or body.control:
            # Without the contexts of others no decision can be made again, and those of another system are not its own.
            super()._decided(event, body)
            return
        given: dict[str, Any] = {}
        if body.eligible is not None:
            given["eligible"] = unbits(body.eligible, len(self.names))
        contexts = [] if body.contexts is None else [self.contexts_of(body)]
        decision = self.policy.ask(*contexts, **given)
        ordered = self.recipe.ordered
        own = (decision.ranked_arms if ordered else decision.arms).tolist()
        self.astray = own != body.arms
        self.different += self.astray
        self.opened(event.key, decision, event.at, body.control, body.unit, order=own if ordered else None)

    def take_over(self, other: PolicyState) -> None:
        """Go on from another state."""
        self.policy, self.open, self._queue, self.astray = other.policy, other.open, other._queue, False
        self._more, self._sets, self._more_of_all = other._more, other._sets, other._more_of_all
        self.trial, self.watch, self.learnt = other.trial, other.watch, other.learnt


def _compare(state: PolicyState, own: _OwnMind, events: Sequence[Event]) -> None:
    """Apply events to both; where the policy would decide otherwise, it goes on from the log."""
    for event in events:
        state.apply(event)
        own.apply(event)
        if own.astray:
            own.take_over(PolicyState.from_bytes(state.recipe, state.to_bytes()))


async def drop(store: Store, name: str) -> None:
    """Delete a policy."""
    await store.drop((await policy_of(store, name)).id)
