"""The figures of the studies: four kinds, each drawn when it is asked for, and signed with runs, seed and code."""

from __future__ import annotations

from collections.abc import Callable, Collection, Iterable, Mapping, Sequence
from typing import TYPE_CHECKING, Any

import polars

from armtriage import plots
from armtriage._numbers import counted
from armtriage.plots.style import dress, number_ticks
from armtriage.reproduce.lines import Lines, line
from armtriage.reproduce.policies import ORDER
from armtriage.reproduce.study import LEVEL, SEED, Chart
from armtriage.simulation import Trace

if TYPE_CHECKING:
    from matplotlib.axes import Axes

_SHOWN = f"{LEVEL:.0%} intervals"


def _chart(name: str, caption: str, draw: Callable[[], Axes], runs: Iterable[int], shown: str = _SHOWN) -> Chart:
    return Chart(name, caption, draw, f"{shown}; {counted(list(runs))}, seed {SEED}")


def lines(
    name: str,
    caption: str,
    points: polars.DataFrame,
    parameter: str,
    slopes: polars.DataFrame | None = None,
    *,
    bounds: Mapping[str, tuple[str, str]] | None = None,
    without: Collection[str] = (),
    order: Sequence[str] | None = ORDER,
    y: str | None = None,
) -> Chart:
    """Draw the rows of a table against a parameter, but for some policies, with fitted powers and bounds.

    A bound is a policy and a column; it is vacuous from `most` on. Slopes may be those of several parameters. `order`
    is that in which colours are given out.
    """
    if slopes is not None and "parameter" in slopes.columns:
        slopes = slopes.filter(slopes["parameter"] == parameter)
    shown = points.filter(~points["policy"].is_in(without))
    asked = {label: _column(points, parameter, *one) for label, one in (bounds or {}).items()}
    ceiling = _column(points, parameter, None, "most") if "most" in points.columns else None

    def draw() -> Axes:
        table = shown.select("policy", parameter, "mean", "low", "high", "runs")
        ax = plots.scaling(table, slopes, bounds=asked, ceiling=ceiling, level=LEVEL, order=order)
        if y is not None:
            ax.set_ylabel(y)
        return ax

    return _chart(name, caption, draw, shown["runs"])


def along(
    names: Mapping[str, str],
    words: str,
    points: polars.DataFrame,
    at: Lines,
    slopes: polars.DataFrame,
    bounds: Mapping[str, tuple[str, str]],
) -> list[Chart]:
    """Draw the rows of a table along some of its lines; `names` are those of the figures, by the parameter."""
    made = []
    for parameter, name in names.items():
        first, *_, last = at[parameter]
        caption = f"{words}: regret against {parameter}, from {first} to {last}."
        own = line(points, parameter, at[parameter])
        made.append(lines(name, caption, own, parameter, slopes, bounds=bounds, order=None))
    return made


def _column(points: polars.DataFrame, parameter: str, policy: str | None, name: str) -> Callable[[Any], Any]:
    """Return a column of a table as a function of the parameter."""
    rows = points if policy is None else points.filter(points["policy"] == policy)
    return dict(rows.select(parameter, name).iter_rows()).get


def curves(name: str, caption: str, traces: Mapping[str, Trace]) -> Chart:
    """Draw regret over the rounds."""
    runs = [trace.regret.shape[0] for trace in traces.values()]
    return _chart(name, caption, lambda: plots.regret_curves(traces, level=LEVEL), runs)


def heat(
    name: str,
    caption: str,
    table: polars.DataFrame,
    x: str,
    y: str,
    title: str,
    width: float = 6.4,
    order: Sequence[str] | None = None,
) -> Chart:
    """Draw ratios in cells, columns in the order of the table, rows as given from below or else in that order, too."""
    ups = list(dict.fromkeys(table[y]))[::-1] if order is None else order
    kinds: dict[Any, Any] = {x: polars.Enum(list(dict.fromkeys(table[x]))), y: polars.Enum(ups)}

    def draw() -> Axes:
        ax = plots.new_axes(width, 1.3 + 0.27 * len(ups))
        plots.heat_map(table.cast(kinds), x, y, "ratio", ax, log=True, title=title)
        ax.set(xlabel="", ylabel="")
        return ax

    return _chart(name, caption, draw, table["runs"], "ratios of means")


def intervals(name: str, caption: str, table: polars.DataFrame, title: str, group: str) -> Chart:
    """Draw ratios with their intervals, one below the other by `label`, each group in its colour, targets as ticks."""

    def draw() -> Axes:
        rows, groups = table.to_dicts(), list(dict.fromkeys(table[group]))
        ax = plots.new_axes(7.0, 1.0 + 0.22 * len(rows))
        for place, row in enumerate(rows):
            colour = plots.CURVE_COLOURS[groups.index(row[group]) % len(plots.CURVE_COLOURS)]
            low, high = (row["ratio"] if row[end] is None else row[end] for end in ("ratio_low", "ratio_high"))
            ax.plot([max(low, 0.05 * row["ratio"]), high], [place, place], color=colour, linewidth=1.6)
            ax.plot(row["ratio"], place, "o", color=colour, markersize=4.5)
            if row["target"] is not None:
                ax.plot([row["target"]] * 2, [place - 0.4, place + 0.4], color=plots.INK, linewidth=1.4)
        ax.set_xscale("log")
        dress(ax, title, "", grid="x")
        number_ticks(ax.xaxis)
        ax.set_yticks(range(len(rows)), [row["label"] for row in rows])
        ax.set_ylim(len(rows) - 0.4, -0.6)
        return ax

    return _chart(name, caption, draw, table["runs"])
