"""What plots are drawn from: traces by label, or the tables of results."""

from __future__ import annotations

from collections.abc import Collection, Mapping, Sequence
from typing import TYPE_CHECKING, NamedTuple

import numpy as np

from armtriage.plots._style import Look, looks
from armtriage.simulation.trace import Trace

if TYPE_CHECKING:
    import polars

__all__ = ["Row", "check_columns", "check_traces", "counted", "origin", "table_rows", "trace_rows"]


class Row(NamedTuple):
    """A value with its interval, whose ends are NaN where there is none."""

    label: str
    value: float
    low: float
    high: float
    look: Look


def check_traces(traces: Mapping[str, Trace]) -> None:
    """Refuse a mapping without traces."""
    if not traces:
        raise ValueError("traces must hold one trace or more, got none")


def origin(source: Mapping[str, Trace] | polars.DataFrame, level: float, shown: str = "intervals") -> str:
    """Return the level of what is shown, how many runs there are and, of traces, their seeds as far as they agree."""
    if isinstance(source, Mapping):
        runs = [trace.regret.shape[0] for trace in source.values()]
        origins = {trace.origin for trace in source.values()}
        said = origins.pop() if len(origins) == 1 else f"{counted(runs)}, several seeds"
    elif "runs" in source.columns:
        runs = source["runs"].to_list()
        said = counted(runs)
    else:
        return f"{100 * level:.4g}% {shown}"
    return (f"{100 * level:.4g}% {shown}; " if max(runs) > 1 else f"no {shown}; ") + said


def counted(runs: Collection[int]) -> str:
    """Return how many runs there are, from the least to the most."""
    least, most = min(runs), max(runs)
    return f"{least} to {most} runs" if least < most else f"{least} run{'s' if least > 1 else ''}"


def check_columns(table: polars.DataFrame, *columns: str) -> None:
    """Refuse a table that is empty or lacks a column."""
    for column in columns:
        if column not in table.columns:
            raise ValueError(f"table must have a column {column!r}, got {', '.join(table.columns)}")
    if not table.height:
        raise ValueError("table must hold one row or more, got none")


def trace_rows(traces: Mapping[str, Trace], level: float, order: Sequence[str] | None) -> list[Row]:
    """Return the last mean of each trace with its interval."""
    check_traces(traces)
    rows, look = [], looks(traces, order)
    for label, trace in traces.items():
        low, high = (float(end[-1]) if np.isfinite(end[-1]) else np.nan for end in trace.interval(level))
        rows.append(Row(label, float(trace.mean[-1]), low, high, look[label]))
    return rows


def table_rows(table: polars.DataFrame, value: str, order: Sequence[str] | None) -> list[Row]:
    """Return a row a policy of a table of one environment; a policy without a value is left out."""
    check_columns(table, "policy", value, "low", "high")
    labels = table["policy"].to_list()
    if len(set(labels)) < len(labels):
        raise ValueError("table must hold each policy once; filter it to one environment")
    values, lows, highs = (table[column].cast(float).fill_null(np.nan).to_list() for column in (value, "low", "high"))
    look = looks(labels, order)
    rows = [Row(*one, look[one[0]]) for one in zip(labels, values, lows, highs, strict=True)]
    if not (kept := [row for row in rows if np.isfinite(row.value)]):
        raise ValueError(f"table must hold a value of {value}, got none")
    return kept
