"""Rows of values with their intervals: regret at the end, and what it is more or less than a baseline's."""

from __future__ import annotations

import math
from collections.abc import Callable, Mapping, Sequence
from dataclasses import replace
from typing import TYPE_CHECKING, NamedTuple

import numpy as np
from numpy.typing import NDArray

from armtriage._numbers import short
from armtriage.plots.labels import shorten
from armtriage.plots.style import (
    INK,
    Look,
    check_columns,
    dress,
    figure_of,
    font,
    labelled,
    looks,
    new_axes,
    number_ticks,
    origin,
    sign,
)
from armtriage.simulation import Trace

if TYPE_CHECKING:
    import polars
    from matplotlib.axes import Axes

_LETTER = 0.58  # width of a letter, as a share of the text's size
_BESIDE = 0.36  # share of the width up to which labels stand beside the rows, and above them from there
_PLAIN = 50.0  # ratio of the largest to the least value up to which a plain scale shows both


class Row(NamedTuple):
    """A value with its interval, whose ends are NaN where there is none."""

    label: str
    value: float
    low: float
    high: float
    look: Look


def final_regret(
    source: Mapping[str, Trace] | Sequence[Trace] | Trace | polars.DataFrame,
    ax: Axes | None = None,
    *,
    log: bool | None = None,
    level: float = 0.95,
    order: Sequence[str] | None = None,
) -> Axes:
    """Draw the mean regret at the end as a bar and a dot with its interval, the least at the top.

    Parameters
    ----------
    source : mapping of str to Trace, sequence of Trace, Trace, or DataFrame
        The traces, by label or called by their policies; or a table of one environment with the columns policy, mean,
        low and high, as ``Results.summary`` makes it.
    log : bool, optional
        Log scale, which has dots and no bars; by default where the regrets differ 50 times or more.
    level : float
        Level of the intervals: Student's for traces, and what the table was made with.
    ax, order
        See `regret_curves`.

    Examples
    --------
    >>> from armtriage import FeedbackGraph, Greedy, StochasticEnvironment, UniformRandom, simulate
    >>> graph = FeedbackGraph.semi_bandit(3)
    >>> env = StochasticEnvironment([0.9, 0.5, 0.1], graph, seed=7)
    >>> policies = {"greedy": Greedy(graph, 1, seed=7), "random": UniformRandom(graph, 1, seed=7)}
    >>> traces = {name: simulate(policy, env, horizon=100, replications=4) for name, policy in policies.items()}
    >>> ax = final_regret(traces)
    >>> [text.get_text() for text in ax.get_yticklabels()]
    ['greedy', 'random']
    """
    source = _named(source)
    rows = _trace_rows(source, level, order) if isinstance(source, Mapping) else _table_rows(source, "mean", order)
    if ax is None:
        ax = _row_axes(rows)
        sign(ax, origin(source, level))
    positive = [row.value for row in rows if row.value > 0]
    if log is None:
        log = bool(positive) and max(positive) > _PLAIN * min(positive)
    if log and positive:
        ax.set_xscale("log")
    _draw_rows(ax, rows, "regret at the end", short, bars=not (log and positive))
    return ax


def paired_differences(
    source: Mapping[str, Trace] | Sequence[Trace] | polars.DataFrame,
    baseline: str,
    ax: Axes | None = None,
    *,
    log: bool | None = None,
    level: float = 0.95,
    order: Sequence[str] | None = None,
) -> Axes:
    """Draw how much more regret than the baseline each policy has at the end, replication by replication.

    An interval that does not reach the line at 0 tells the policy from the baseline; left of it is better.

    Parameters
    ----------
    source : mapping of str to Trace, sequence of Trace, or DataFrame
        Traces of the same replications, by label or called by their policies; or a table of one environment with the
        columns policy, difference, low and high, as ``Results.differences`` makes it.
    baseline : str
        Label of the policy that the others are held against.
    log : bool, optional
        Log scale on both sides of 0, and a plain one close to it; by default where differences differ 50 times or more.
    ax, level, order
        See `final_regret`.

    Examples
    --------
    >>> from armtriage import FeedbackGraph, Greedy, StochasticEnvironment, UniformRandom, simulate
    >>> graph = FeedbackGraph.semi_bandit(3)
    >>> env = StochasticEnvironment([0.9, 0.5, 0.1], graph, seed=7)
    >>> policies = {"greedy": Greedy(graph, 1, seed=7), "random": UniformRandom(graph, 1, seed=7)}
    >>> traces = {name: simulate(policy, env, horizon=100, replications=4) for name, policy in policies.items()}
    >>> ax = paired_differences(traces, "random")
    >>> ax.get_xlabel(), [text.get_text() for text in ax.get_yticklabels()]
    ('regret minus that of random', ['greedy'])
    """
    source = _named(source)
    if isinstance(source, Mapping):
        rows = _trace_rows(_against(source, baseline), level, order)
    else:
        rows = _table_rows(source, "difference", order)
    rows = [row for row in rows if row.label != baseline]
    if not rows:
        raise ValueError(f"source must hold a policy other than the baseline {baseline!r}")
    if ax is None:
        ax = _row_axes(rows)
        sign(ax, origin(source, level, "intervals, paired"))
    name = f"regret minus that of {baseline}"
    far = sorted(size for row in rows if (size := float(np.nanmax(np.abs([row.value, row.low, row.high])))) > 0)
    if far and (far[-1] > _PLAIN * far[0] if log is None else log):
        near = 10.0 ** math.floor(math.log10(far[0]))
        ax.set_xscale("symlog", linthresh=near, linscale=0.6)
        name += f"\n(log scale beyond ±{short(near)})"
    _draw_rows(ax, rows, name, _signed, zero=True)
    return ax


def _named(
    source: Mapping[str, Trace] | Sequence[Trace] | Trace | polars.DataFrame,
) -> dict[str, Trace] | polars.DataFrame:
    """Return traces by label, and a table as it is."""
    return labelled(source) if isinstance(source, Mapping | Sequence | Trace) else source


def _signed(value: float) -> str:
    return f"+{short(value)}" if value > 0 else short(value)


def _runs(trace: Trace) -> tuple[int, int, int]:
    return trace.first_replication, trace.regret.shape[0], int(trace.rounds[-1])


def _against(traces: Mapping[str, Trace], baseline: str) -> dict[str, Trace]:
    """Return traces of the last checkpoint's differences, the baseline's among them to keep the others' colours."""
    if baseline not in traces:
        raise ValueError(f"baseline must be one of {', '.join(traces)}, got {baseline!r}")
    base = traces[baseline]
    for label, trace in traces.items():
        if _runs(trace) != _runs(base):
            raise ValueError(
                f"traces must have the same replications and horizon to be paired, got others for {label!r}"
            )
    return {
        label: replace(trace, rounds=trace.rounds[-1:], regret=trace.regret[:, -1:] - base.regret[:, -1:])
        for label, trace in traces.items()
    }


def _trace_rows(traces: Mapping[str, Trace], level: float, order: Sequence[str] | None) -> list[Row]:
    """Return the last mean of each trace with its interval."""
    rows, look = [], looks(traces, order)
    for label, trace in traces.items():
        low, high = (float(end[-1]) if np.isfinite(end[-1]) else np.nan for end in trace.interval(level))
        rows.append(Row(label, float(trace.mean[-1]), low, high, look[label]))
    return rows


def _table_rows(table: polars.DataFrame, value: str, order: Sequence[str] | None) -> list[Row]:
    """Return a row for each policy of a table of one environment; a policy without a value is left out."""
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


def _row_axes(rows: Sequence[Row]) -> Axes:
    """Return the axes of a new figure that is as tall as the rows need."""
    ax = new_axes()
    pitch = 0.36 if _above(ax, rows) else 0.23
    figure_of(ax).set_figheight(0.85 + pitch * max(len(rows), 2))
    return ax


def _draw_rows(
    ax: Axes, rows: Sequence[Row], x: str, text: Callable[[float], str], *, bars: bool = False, zero: bool = False
) -> None:
    """Draw the rows from the top, least first, on the scale that the axes have; bars are for a plain one."""
    rows = sorted(rows, key=lambda row: row.value)
    n, above = len(rows), _above(ax, rows)
    shift = 0.22 if above else 0.0
    places = np.arange(n) + shift
    left, right = _limits(ax, rows, bars, zero)
    ax.set_xlim(left, right)
    ax.set_ylim(n - 0.45, -0.55)
    size = _size(ax, n, above)
    letters = int(0.9 * figure_of(ax).get_figwidth() * 72 / (_LETTER * font(ax)))
    dress(ax, "\n".join(shorten(x.split("\n"), letters)), "", grid="x")
    number_ticks(ax.xaxis)
    for place, row in zip(places, rows, strict=True):
        colour = row.look.colour
        if zero:
            # In pieces, so that it crosses no label.
            ends = (place - 0.25, place + 0.35) if above else (place - 0.5, place + 0.5)
            ax.plot([0, 0], ends, color=INK, linewidth=1.0, zorder=0.9)
        if bars:
            ax.barh(place, row.value, height=0.42 if above else 0.62, color=colour, alpha=0.3, linewidth=0)
        if np.isfinite(row.low):
            ax.plot([max(row.low, left), row.high], [place, place], color=colour, linewidth=1.6, solid_capstyle="butt")
        shown = row.value > left or bars
        ax.plot(max(row.value, left), place, row.look.marker if shown else "<", color=colour, markersize=4.5,
                markerfacecolor=colour if shown else "none", clip_on=False)  # fmt: skip
        ax.annotate(text(row.value), (1, place), (5, 0), ("axes fraction", "data"), "offset points", va="center",
                    fontsize=size, color=INK, annotation_clip=False)  # fmt: skip
    _name(ax, rows, places, size, above)


def _name(ax: Axes, rows: Sequence[Row], places: NDArray[np.floating], size: float, above: bool) -> None:
    width = figure_of(ax).get_figwidth() * 72
    if not above:
        ax.set_yticks(places, [row.label for row in rows], fontsize=size)
        ax.tick_params(axis="y", length=0)
        return
    ax.set_yticks([])
    ax.spines["left"].set_visible(False)
    labels = shorten([row.label for row in rows], int(0.8 * width / (_LETTER * size)))
    for place, label in zip(places, labels, strict=True):
        ax.annotate(label, (0, place - 0.45), (0, 0), ("axes fraction", "data"), "offset points", va="center",
                    fontsize=size, color=INK, annotation_clip=False)  # fmt: skip


def _above(ax: Axes, rows: Sequence[Row]) -> bool:
    longest = max(len(row.label) for row in rows)
    return longest * _LETTER * font(ax) > _BESIDE * figure_of(ax).get_figwidth() * 72


def _size(ax: Axes, n: int, above: bool) -> float:
    """Return the size of text that fits a row."""
    pitch = ax.get_window_extent().height / figure_of(ax).dpi * 72 / n
    return max(4.0, min(font(ax), (0.5 if above else 0.85) * pitch))


def _limits(ax: Axes, rows: Sequence[Row], bars: bool, zero: bool) -> tuple[float, float]:
    """Return the ends of the scale: room for every interval, and on a log scale no more than a tenth of the least."""
    values = np.array([row.value for row in rows])
    ends = np.array([end for row in rows for end in (row.low, row.high) if np.isfinite(end)])
    everything = np.concatenate([values, ends])
    if ax.get_xscale() == "log":
        floor = values[values > 0].min() / 10
        kept = everything[everything > floor]
        return (kept.min() / 1.3 if kept.size == everything.size else floor), kept.max() * 1.3
    low, high = everything.min(), everything.max()
    if bars or zero:
        low, high = min(low, 0.0), max(high, 0.0)
    if ax.get_xscale() == "symlog":
        near = ax.xaxis.get_transform().linthresh  # type: ignore[attr-defined]
        return min(1.4 * low, -0.4 * near), max(1.4 * high, 0.4 * near)
    room = 0.06 * (high - low) or 0.5 * max(abs(high), 1.0)
    return (low if bars and low == 0 else low - room), high + room
