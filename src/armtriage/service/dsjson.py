"""Vowpal Wabbit's decision logs, dsjson: what another system decided and what came of it becomes part of a log here."""

from __future__ import annotations

import asyncio
import json
from collections import Counter
from collections.abc import Iterable, Iterator, Mapping, Sequence
from itertools import islice
from typing import Any, NamedTuple

from armtriage.service.loop import load
from armtriage.service.messages import Decide, Reward, is_id, read
from armtriage.service.refusal import Refused
from armtriage.service.step import Step
from armtriage.service.stores import PolicyRow, Store

_GROUP = 500  # lines that share a transaction


class Logged(NamedTuple):
    """A decision of a line: the arms that could be chosen, those that were, and the reward of each."""

    id: str
    among: list[str]
    arms: list[str]
    rewards: dict[str, float]
    time: str


def read_line(line: str, field: str) -> Logged:
    """Return what a line of dsjson says; `ValueError` says why it is none.

    Costs become rewards of the opposite sign. A line may have one action, or one for each of several slots.

    Parameters
    ----------
    line : str
        The line.
    field : str
        Where an action has the name of its arm: keys with dots between them, such as ``i.id``.

    Examples
    --------
    >>> line = '{"_label_cost": -1, "_labelIndex": 1, "EventId": "e7", "c": {"_multi": [{"id": "tea"}, {"id": "jam"}]}}'
    >>> read_line(line, "id")
    Logged(id='e7', among=['tea', 'jam'], arms=['jam'], rewards={'jam': 1.0}, time='')
    """
    try:
        found = json.loads(line)
        among = [_name(one, field) for one in found["c"]["_multi"]]
        if "_outcomes" in found:
            slots = [(int(slot["_a"][0]), -float(slot["_label_cost"])) for slot in found["_outcomes"]]
            name = found.get("EventId") or found["_outcomes"][0]["_id"]
        else:
            slots = [(int(found["_labelIndex"]), -float(found["_label_cost"]))]
            name = found["EventId"]
        arms = [among[place] for place, _ in slots if place >= 0]
    except (KeyError, IndexError, TypeError, AttributeError) as error:
        raise ValueError(f"a line of dsjson must have {error}") from None
    except (OverflowError, RecursionError) as error:
        raise ValueError(f"a line of dsjson must have numbers and depth within reason: {error}") from None
    if not is_id(str(name)):
        raise ValueError(f"the id of a line must be 1 to 128 visible ASCII characters, got {name!r}")
    if len(set(arms)) < len(slots) or len(set(among)) < len(among):
        raise ValueError(f"{field} must tell the actions of a line apart")
    # A reward of -0.0 is a 0.
    rewards = {arm: 0.0 + reward for arm, (_, reward) in zip(arms, slots, strict=True)}
    return Logged(str(name), among, arms, rewards, str(found.get("Timestamp", "")))


def _name(action: Any, field: str) -> str:
    for key in field.split("."):
        action = action[key]
    if not isinstance(action, str | int):
        raise ValueError(f"{field} must be the name of an arm, got {action!r}")
    return str(action)


async def adopt_log(store: Store, row: PolicyRow, lines: Iterable[str], field: str) -> dict[str, Any]:
    """Let a policy that is not being served adopt the decisions of a log and learn their rewards; return counts.

    Every line ends as one of: adopted, repeated (its id is there already), unreadable, or refused by the policy, by the
    code that a request would get. What was adopted stays adopted, so an interrupted import can be started again.
    """
    state = await load(store, row)
    if state.contextual:
        raise Refused("invalid", "a policy with contexts cannot learn from features that have names")
    counts: Counter[str] = Counter()
    left = iter(lines)
    while some := list(islice(left, _GROUP)):
        logged = list(_readable(some, field, counts))
        group = await store.begin(row.id, state.head, [one.id for one in logged])
        step = Step(state, group.now, group.found, {})
        await asyncio.to_thread(_adopt, step, logged, counts)
        await group.commit(step.write())
    return {"policy": row.name, "head": state.head, "digest": state.digest(), "lines": dict(counts)}


def _readable(lines: Sequence[str], field: str, counts: Counter[str]) -> Iterator[Logged]:
    for line in lines:
        try:
            if line.strip():
                yield read_line(line, field)
        except ValueError:
            counts["unreadable"] += 1


def _adopt(step: Step, logged: Sequence[Logged], counts: Counter[str]) -> None:
    for one in logged:
        try:
            # Read as requests are, so that nothing gets in that a request could not bring.
            tags = {"imported": one.time} if one.time else {}
            request = read(Decide, _json({"id": one.id, "eligible": one.among, "tags": tags}))
            rewards = read(Reward, _json({"decision": one.id, "rewards": one.rewards, "last": True}))
            fates = step.adopt(request, one.arms, rewards)
        except Refused as refused:
            counts[refused.code] += 1
        else:
            counts["repeated" if fates is None else "adopted"] += 1


def _json(body: Mapping[str, Any]) -> bytes:
    return json.dumps(body).encode()
