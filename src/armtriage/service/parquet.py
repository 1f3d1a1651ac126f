"""The log as Parquet: one row for each decision, with what the policy has learnt from it."""

from __future__ import annotations

import asyncio
import bisect
import io
from collections.abc import Iterable, Mapping, Sequence
from typing import TYPE_CHECKING, Any, NamedTuple

import msgspec
import numpy as np
from msgspec import UNSET

from armtriage.logs.sources import EXPORTED, About
from armtriage.service import events as log
from armtriage.service.events import Event, Rewarded, unpack
from armtriage.service.messages import read_answer
from armtriage.service.recipe import Recipe
from armtriage.service.refusal import Refused
from armtriage.service.state import PolicyState, learnt, unbits
from armtriage.service.stores import PolicyRow, Store

if TYPE_CHECKING:
    from polars import DataFrame

_CHUNK = 500  # events that are read at a time: others wait while their decisions are looked up
_PAGE = 2**26  # bytes of a page, about: names of eligible arms may be a hundred thousand for each decision
_PROBE = 64  # events of a look for a place in the log


class State(NamedTuple):
    """What an export has to know of the state: the log's last event, or one before it, and what holds there."""

    head: int
    names: list[str]
    closed_before: int
    changes: list[tuple[int, int, list[int]]]  # of arms, as `PolicyState` has them

    @classmethod
    def of(cls, state: PolicyState) -> State:
        """Return it, as it is now."""
        return cls(state.head, list(state.names), state.closed_before, list(state.changes))


async def export(store: Store, row: PolicyRow, state: State, after: int, limit: int) -> bytes:
    """Return a Parquet file of decisions after a number; it is a log that `armtriage.SlateLog.read` reads."""
    frame = await page(store, row, state, after, limit)
    return await asyncio.to_thread(write, frame, row, state)


async def page(store: Store, row: PolicyRow, state: State, after: int, limit: int) -> DataFrame:
    """Return decisions after a number: a page, whose cost does not depend on the rest of the log.

    It has `limit` decisions at most, and fewer where they are so large that memory would be short.
    The columns are explained in ``docs/serve.md``.
    """
    try:
        import polars as pl
    except ImportError:
        raise Refused("not_installed", "Parquet needs pip install 'armtriage[tables]'.") from None
    rows_of, left, room = _Rows(Recipe.read(row.config), state), limit, _PAGE
    seq, parts = await _place_of(store, row, state.head, after + 1), [_frame(pl, [])]
    while min(left, room) > 0 and (events := await store.read(row.id, seq, min(_CHUNK, state.head - seq))):
        decided = [event for event in events if _is_of_policy(event)][:left]
        histories = await store.history(row.id, [event.key for event in decided])
        rows = []
        for event in decided:
            if room <= 0:
                break
            rows.append(rows_of.row(event, histories[event.key].events))
            room -= _size(rows[-1])
        parts.append(await asyncio.to_thread(_frame, pl, rows))
        left, seq = left - len(decided), events[-1].seq
    found: DataFrame = pl.concat(parts)
    return found


async def _place_of(store: Store, row: PolicyRow, head: int, number: int) -> int:
    """Return a place in the log after which this decision and all later ones come, and none before it."""
    low, high = 0, head if number > 0 else 0
    while low < high:
        middle = (low + high) // 2
        first = await _first_decision(store, row, middle)
        if first is None or int(first.number or 0) >= number:
            high = middle
        else:
            low = first.seq
    return low


async def _first_decision(store: Store, row: PolicyRow, after: int) -> Event | None:
    """Return the first decision after a place in the log."""
    while events := await store.read(row.id, after, _PROBE):
        found = next((event for event in events if _is_of_policy(event)), None)
        if found is not None:
            return found
        after = events[-1].seq
    return None


def _is_of_policy(event: Event) -> bool:
    """Whether an event is a decision, and not one of the control, of which nothing is learnt."""
    return event.kind == log.DECISION and event.number is not None


class _Rows:
    """Makes rows of decisions and the events that they had."""

    def __init__(self, recipe: Recipe, state: State) -> None:
        self._recipe, self._names, self._closed_before = recipe, state.names, state.closed_before
        self._changes = state.changes
        # Number and arms of each set of eligible ones, by its bits or by the last change of arms before.
        self._patterns: dict[bytes | int, tuple[int, list[str] | None]] = {}

    def row(self, event: Event, history: Sequence[Event]) -> dict[str, Any]:
        """Return a decision with what the policy has learnt from it."""
        body, create = unpack(event), self._recipe.create
        shown = body.arms if body.show is None else body.show
        rewards, closed = self._learnt(event, shown, [unpack(one) for one in history if one.kind == log.REWARD])
        pattern, eligible = self._all_at(event.seq) if body.eligible is None else self._pattern(body.eligible)
        known = read_answer(body.answer).propensity
        given = known.proposal, known.floor, known.inclusion
        proposal, floor, inclusion = (None if one is UNSET else one for one in given)
        if self._recipe.options.get("floor_arms") == "open":
            proposal = floor = None  # from which probabilities would follow, if all arms were exchanged
        seen = None
        if known.observation is not UNSET and rewards:
            chances = dict(zip(shown, known.observation, strict=True))
            seen = [chances[arm] for arm in rewards]
        contexts = None
        if body.contexts is not None:
            rows = np.frombuffer(body.contexts, "<f8").reshape(-1, int(create.dimension))  # type: ignore[arg-type]
            contexts = (rows if create.log_contexts == "chosen" else rows[body.arms]).tolist()
        return {
            "number": event.number,
            "id": event.key,
            "time": event.at,
            "version": event.seq - 1,
            "closed": closed,
            "pattern": pattern,
            "eligible": eligible,
            "arms": self._named(body.arms),
            "proposal": proposal,
            "floor": floor,
            "inclusion": inclusion,
            "observed": self._named(rewards) or None,
            "observation": seen,
            "rewards": list(rewards.values()) or None,
            "contexts": contexts,
        }

    def _learnt(self, event: Event, shown: list[int], told: Sequence[Rewarded]) -> tuple[dict[int, float], bool]:
        """Return rewards by arm, as the policy has learnt them, and whether no more can come."""
        reward, came = self._recipe.create.reward, dict[int, list[float]]()
        for body in told:
            for arm, value in zip(body.arms, body.values, strict=True):
                if arm >= 0:  # else it is a metric of the decision
                    came.setdefault(arm, []).append(value)
        ended = any(body.last for body in told) or (reward.rule == "first" and len(came) == len(shown))
        expired = not ended and int(event.number or 0) < self._closed_before
        if reward.rule != "first" and not (ended or expired):
            return {}, False  # it learns at the end
        default = reward.default if expired else None
        most = reward.counted[1]
        found = {arm: min(learnt(reward, came[arm]), most) if arm in came else default for arm in shown}
        return {arm: value for arm, value in found.items() if value is not None}, ended or expired

    def _pattern(self, eligible: bytes) -> tuple[int, list[str] | None]:
        if eligible not in self._patterns:
            arms = np.flatnonzero(unbits(eligible, 8 * len(eligible))).tolist()
            self._patterns[eligible] = len(self._patterns) + 1, self._named(arms)
        return self._patterns[eligible]

    def _all_at(self, seq: int) -> tuple[int, list[str] | None]:
        """Return the arms that were not retired before an event; none, if they are those of the beginning."""
        place = bisect.bisect_left(self._changes, seq, key=lambda one: one[0])
        if not place:
            return 0, None
        if place not in self._patterns:
            _, n_arms, retired = self._changes[place - 1]
            first = not retired and n_arms == len(self._recipe.names)
            arms = self._named(sorted(set(range(n_arms)) - set(retired)))
            self._patterns[place] = (0, None) if first else (len(self._patterns) + 1, arms)
        return self._patterns[place]

    def _named(self, arms: Iterable[int]) -> list[str]:
        return [self._names[arm] for arm in arms]


def _size(row: Mapping[str, Any]) -> int:
    """Return about how many bytes a row takes in a table."""
    lists = sum(len(row[name] or ()) for name in ("eligible", "arms", "proposal", "observed", "rewards"))
    contexts = sum(map(len, row["contexts"] or ()))
    return 128 + len(row["id"]) + 16 * lists + 8 * contexts


def _frame(pl: Any, rows: Sequence[Mapping[str, Any]]) -> Any:
    schema = {
        "number": pl.Int64,
        "id": pl.String,
        "time": pl.Int64,
        "version": pl.Int64,
        "closed": pl.Boolean,
        "pattern": pl.Int32,
        "eligible": pl.List(pl.String),
        "arms": pl.List(pl.String),
        "proposal": pl.List(pl.String),
        "floor": pl.Float64,
        "inclusion": pl.List(pl.Float64),
        "observed": pl.List(pl.String),
        "observation": pl.List(pl.Float64),
        "rewards": pl.List(pl.Float64),
        "contexts": pl.List(pl.List(pl.Float64)),
    }
    time = pl.from_epoch("time", time_unit="us").dt.replace_time_zone("UTC")
    return pl.DataFrame(list(rows), schema=schema).with_columns(time)


def write(frame: DataFrame, row: PolicyRow, state: State) -> bytes:
    """Return a page as a file that says what it is."""
    buffer, recipe = io.BytesIO(), Recipe.read(row.config)
    create, reward = recipe.create, recipe.create.reward
    about = About(len(state.names), len(create.arms), list(state.names), reward.counted, reward.direction)
    config = msgspec.json.encode(recipe.public(), order="deterministic").decode()
    facts = {"armtriage.log": "3", "armtriage.policy": row.name, "armtriage.config": config}
    frame.write_parquet(buffer, metadata={**facts, EXPORTED: about.to_json().decode()})
    return buffer.getvalue()
