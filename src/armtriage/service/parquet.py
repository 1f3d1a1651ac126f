"""The log as Parquet: one row for each decision, with the rewards that came."""

from __future__ import annotations

import asyncio
import io
from typing import Any

import numpy as np

from armtriage.service import events as log
from armtriage.service.events import unpack
from armtriage.service.fold import unbits
from armtriage.service.recipe import Recipe
from armtriage.service.refusal import Refused
from armtriage.service.stores import PolicyRow, Store

__all__ = ["export"]

_CHUNK = 5_000


async def export(store: Store, row: PolicyRow, after: int = -1, limit: int = 100_000) -> bytes:
    """Return a Parquet file of decisions after a number.

    Arms are numbers in the order of the policy's arms. `pattern` numbers the different sets of eligible arms of this
    file, 0 for all; `observed` and `rewards` go together, and are null where nothing was told. What is not known has
    a column of nulls: `inclusion`, the probabilities of the arms.
    """
    try:
        import polars as pl
    except ImportError:
        raise Refused("not_installed", "Parquet needs pip install 'armtriage[tables]'.") from None
    rows = await _rows(store, row, after, limit)
    return await asyncio.to_thread(_write, pl, rows, row)


async def _rows(store: Store, row: PolicyRow, after: int, limit: int) -> dict[int, dict[str, Any]]:
    """Return the decisions by number, in order, with the rewards that the rest of the log has for them."""
    recipe = Recipe.read(row.config)
    arms, seq = len(recipe.names), 0
    patterns: dict[bytes, int] = {}
    found: dict[int, dict[str, Any]] = {}
    while events := await store.read(row.id, seq, _CHUNK):
        for event in events:
            body = unpack(event)
            number = int(event.number or 0)
            if event.kind == log.ARMS:
                arms += len(body.add)
            elif event.kind == log.DECISION and number > after and len(found) < limit:
                eligible = body.eligible
                shape = (-1, int(recipe.create.dimension)) if body.contexts is not None else None  # type: ignore[arg-type]
                found[number] = {
                    "number": number,
                    "id": event.key,
                    "time": event.at,
                    "version": event.seq - 1,
                    "pattern": 0 if eligible is None else patterns.setdefault(eligible, len(patterns) + 1),
                    "eligible": None if eligible is None else np.flatnonzero(unbits(eligible, arms)).tolist(),
                    "arms": body.arms,
                    "inclusion": None,
                    "observed": None,
                    "rewards": None,
                    "contexts": None
                    if shape is None
                    else np.frombuffer(body.contexts, "<f8").reshape(shape)[body.arms].tolist(),
                }
            elif event.kind == log.REWARD and number in found:
                told = found[number]
                told["observed"] = (told["observed"] or []) + body.arms
                told["rewards"] = (told["rewards"] or []) + body.values
        seq = events[-1].seq
    return found


def _write(pl: Any, rows: dict[int, dict[str, Any]], row: PolicyRow) -> bytes:
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
    frame = pl.DataFrame(list(rows.values()), schema=schema).with_columns(
        pl.from_epoch("time", time_unit="us").dt.replace_time_zone("UTC")
    )
    buffer = io.BytesIO()
    about = {"armtriage.log": "1", "armtriage.policy": row.name, "armtriage.config": row.config.decode()}
    frame.write_parquet(buffer, metadata=about)
    return buffer.getvalue()
