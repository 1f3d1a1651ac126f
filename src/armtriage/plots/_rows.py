"""Rows of values with their intervals: a label, a dot, a line, and the value at the right."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from typing import TYPE_CHECKING

import numpy as np
from numpy.typing import NDArray

from armtriage.plots._labels import shorten
from armtriage.plots._sources import Row
from armtriage.plots._style import INK, dress, figure_of, font, new_axes, number_ticks

if TYPE_CHECKING:
    from matplotlib.axes import Axes

__all__ = ["draw_rows", "row_axes"]

_LETTER = 0.58  # width of a letter, as a share of the text's size
_BESIDE = 0.36  # share of the width up to which labels stand beside the rows, and above them from there


def row_axes(rows: Sequence[Row]) -> Axes:
    """Return the axes of a new figure that is as tall as the rows need."""
    ax = new_axes()
    pitch = 0.36 if _above(ax, rows) else 0.23
    figure_of(ax).set_figheight(0.85 + pitch * max(len(rows), 2))
    return ax


def draw_rows(
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
    dress(ax, "\n".join(shorten(x.split("\n"), letters)), "")
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
    ax.grid(True, axis="x", color=INK, alpha=0.13, linewidth=0.6)
    ax.set_axisbelow(True)
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
