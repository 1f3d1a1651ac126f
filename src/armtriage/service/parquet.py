"""The log as Parquet: one row for each decision, with the rewards that came."""

from __future__ import annotations

import asyncio
import io
from collections.abc import Mapping, Sequence
from typing import Any

import numpy as np

from armtriage.service import events as log
from armtriage.service.events import Event, unpack
from armtriage.service.fold import unbits
from armtriage.service.recipe import Recipe
from armtriage.service.refusal import Refused
from armtriage.service.stores import PolicyRow, Store

__all__ = ["export"]

_CHUNK = 500  # events that are read at a time: others wait while their decisions are looked up
_PROBE = 64  # events of a look for a place in the log


async def export(store: Store, row: PolicyRow, head: int, after: int, limit: int) -> bytes:
    """Return a Parquet file of decisions after a number: a page, whose cost does not depend on the rest of the log.

    `head` is the log's last event, or one before it. Arms are numbers in the order of the policy's arms. `pattern`
    numbers the different sets of eligible arms of this file, 0 for all; `observed` and `rewards` go together, and are
    null where nothing was told. What is not known has a column of nulls: `inclusion`, the probabilities of the arms.
    """
    try:
        import polars as pl
    except ImportError:
        raise Refused("not_installed", "Parquet needs pip install 'armtriage[tables]'.") from None
    recipe, patterns, left = Recipe.read(row.config), dict[bytes, int](), limit
    seq, parts = await _place_of(store, row, head, after + 1), [_frame(pl, [])]
    while left > 0 and (events := await store.read(row.id, seq, _CHUNK)):
        decided = [event for event in events if event.kind == log.DECISION][:left]
        histories = await store.history(row.id, [event.key for event in decided])
        rows = [_row(recipe, event, histories[event.key].events, patterns) for event in decided]
        parts.append(await asyncio.to_thread(_frame, pl, rows))
        left, seq = left - len(decided), events[-1].seq
    return await asyncio.to_thread(_write, pl.concat(parts), row)


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
        found = next((event for event in events if event.kind == log.DECISION), None)
        if found is not None:
            return found
        after = events[-1].seq
    return None


def _row(recipe: Recipe, event: Event, history: Sequence[Event], patterns: dict[bytes, int]) -> dict[str, Any]:
    """Return a decision with the rewards that came."""
    body = unpack(event)
    told = [unpack(one) for one in history if one.kind == log.REWARD]
    eligible, contexts = body.eligible, None
    if body.contexts is not None:
        rows = np.frombuffer(body.contexts, "<f8").reshape(-1, int(recipe.create.dimension))  # type: ignore[arg-type]
        contexts = (rows if recipe.create.log_contexts == "chosen" else rows[body.arms]).tolist()
    return {
        "number": event.number,
        "id": event.key,
        "time": event.at,
        "version": event.seq - 1,
        "pattern": 0 if eligible is None else patterns.setdefault(eligible, len(patterns) + 1),
        "eligible": None if eligible is None else np.flatnonzero(unbits(eligible, 8 * len(eligible))).tolist(),
        "arms": body.arms,
        "inclusion": None,
        "observed": [arm for one in told for arm in one.arms] or None,
        "rewards": [value for one in told for value in one.values] or None,
        "contexts": contexts,
    }


def _frame(pl: Any, rows: Sequence[Mapping[str, Any]]) -> Any:
    schema = {
        "number": pl.Int64,
        "id": pl.String,
        "time": pl.Int64,
        "version": pl.Int64,
        "pattern": pl.Int32,
        "eligible": pl.List(pl.Int32),
        "arms": pl.List(pl.Int32),
        "inclusion": pl.List(pl.Float64),
        "observed": pl.List(pl.Int32),
        "rewards": pl.List(pl.Float64),
        "contexts": pl.List(pl.List(pl.Float64)),
    }
    time = pl.from_epoch("time", time_unit="us").dt.replace_time_zone("UTC")
    return pl.DataFrame(list(rows), schema=schema).with_columns(time)


def _write(frame: Any, row: PolicyRow) -> bytes:
    buffer = io.BytesIO()
    about = {"armtriage.log": "1", "armtriage.policy": row.name, "armtriage.config": row.config.decode()}
    frame.write_parquet(buffer, metadata=about)
    return buffer.getvalue()
