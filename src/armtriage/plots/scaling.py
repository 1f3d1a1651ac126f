"""Regret against a parameter on log scales: points, the fitted power, and bounds."""

from __future__ import annotations

import math
from collections.abc import Callable, Mapping, Sequence
from typing import TYPE_CHECKING, Any

import numpy as np

from armtriage._numbers import short
from armtriage.plots.labels import End, label_ends
from armtriage.plots.style import (
    INK,
    Look,
    check_columns,
    dress,
    figure_of,
    font,
    looks,
    new_axes,
    number_ticks,
    origin,
    sign,
    spoken,
)

if TYPE_CHECKING:
    import polars
    from matplotlib.axes import Axes

_OTHERS = {"environment", "policy", "mean", "low", "high", "std", "runs", "round"}


def scaling(
    table: polars.DataFrame,
    slopes: polars.DataFrame | None = None,
    ax: Axes | None = None,
    *,
    parameter: str | None = None,
    bounds: Mapping[str, Callable[[Any], float | None]] | None = None,
    ceiling: Callable[[Any], float] | None = None,
    level: float = 0.95,
    order: Sequence[str] | None = None,
) -> Axes:
    r"""Draw mean regret against a parameter on log scales, with the fitted slope written beside each line.

    Parameters
    ----------
    table : DataFrame
        Columns policy, the parameter, mean, low and high, as ``Results.scaling`` makes it; where other columns differ,
        a line for each. What is not positive has no place on a log scale and is left out.
    slopes : DataFrame, optional
        Columns policy, slope, low and high, as ``Results.slopes`` makes it; each line in it is drawn as it was fitted.
    parameter : str, optional
        Name of the parameter's column; by default the one before mean.
    bounds : mapping of str to callable, optional
        Bounds by name: functions of the parameter, asked at its values in the table; None where there is no bound.
    ceiling : callable, optional
        The most regret that any policy can have, a function of the parameter. A bound that is never below it says
        nothing there, and is called vacuous.
    level : float
        Level of the intervals in the table.
    ax, order
        See `armtriage.plots.regret_curves`.

    Examples
    --------
    >>> import polars
    >>> table = polars.DataFrame({"policy": ["ucb"] * 3, "horizon": [100, 1000, 10_000], "mean": [10.0, 31.0, 100.0],
    ...     "low": [9.0, 29.0, 95.0], "high": [11.0, 33.0, 105.0]})
    >>> slopes = polars.DataFrame({"policy": ["ucb"], "slope": [0.5], "low": [0.48], "high": [0.52]})
    >>> ax = scaling(table, slopes, bounds={"7 T": lambda T: 7 * T}, ceiling=lambda T: T)
    >>> [text.get_text() for text in ax.texts]
    ['ucb\nslope 0.50 ± 0.02', '7 T (vacuous)']
    """
    check_columns(table, "policy", "mean", "low", "high")
    name = parameter or table.columns[table.columns.index("mean") - 1]
    check_columns(table, name)
    shown = table.filter(table["mean"] > 0).sort(name, maintain_order=True)
    if not shown.height:
        raise ValueError("table must hold a mean regret above 0 to be drawn on log scales")
    if shown[name].min() <= 0:  # type: ignore[operator]
        raise ValueError(f"{name} must be above 0 to be drawn on a log scale, got {shown[name].min()!r}")
    own = ax is None
    if ax is None:
        ax = new_axes()
        sign(ax, origin(table, level))
    by = [one for one in table.columns if one not in _OTHERS and one != name and table[one].n_unique() > 1]
    lines = shown.partition_by("policy", *by, maintain_order=True, as_dict=True)
    fits = {} if slopes is None else {tuple(row[one] for one in ("policy", *by)): row for row in slopes.to_dicts()}
    labels = {key: _label(key, by) for key in table.select("policy", *by).unique(maintain_order=True).iter_rows()}
    look = looks(labels.values(), order)
    ends = [_draw(ax, labels[key], look[labels[key]], part, name, fits.get(key)) for key, part in lines.items()]
    values = shown[name].unique().sort().to_list()
    for number, (label, bound) in enumerate((bounds or {}).items()):
        ends += _draw_bound(ax, number, label, bound, values, ceiling)
    ax.set_xscale("log")
    ax.set_yscale("log")
    dress(ax, spoken(name), spoken("mean"), grid="both")
    number_ticks(ax.yaxis)
    _ticks(ax, values)
    label_ends(ax, ends, grow=own)
    return ax


def _label(key: tuple[Any, ...], by: list[str]) -> str:
    policy, *values = key
    return ", ".join([policy, *(f"{name.split('.', 1)[-1]}={value}" for name, value in zip(by, values, strict=True))])


def _draw(ax: Axes, label: str, look: Look, part: polars.DataFrame, name: str, fit: dict[str, Any] | None) -> End:
    """Draw points, joined or with their fitted line; return the end of it."""
    colour, dash, marker = look
    x, mean, low, high = (part[column].cast(float).to_numpy() for column in (name, "mean", "low", "high"))
    ax.plot(x, mean, linestyle="none", marker=marker, markersize=4, color=colour, label=label)
    ax.vlines(x, np.maximum(low, 0.05 * mean), high, color=colour, linewidth=1.3)
    if fit is None or fit["slope"] is None:
        ax.plot(x, mean, color=colour, linestyle=dash, linewidth=1.0)
        return End(float(mean[-1]), label, colour)
    slope = fit["slope"]
    line = np.exp(np.log(mean).mean() + slope * (np.log(x) - np.log(x).mean()))
    ax.plot(x, line, color=colour, linestyle=dash, linewidth=1.3)
    return End(float(line[-1]), f"{label}\nslope {_with_error(slope, fit['low'], fit['high'])}", colour)


def _with_error(slope: float, low: float | None, high: float | None) -> str:
    """Return the slope and half its interval, with as many digits as the error has."""
    if low is None or high is None:
        return f"{slope:.2f}"
    half = (high - low) / 2
    digits = 2 if half <= 0 else min(4, max(2, -math.floor(math.log10(half))))
    return f"{slope:.{digits}f} ± {half:.{digits}f}"


def _draw_bound(
    ax: Axes,
    number: int,
    label: str,
    bound: Callable[[Any], float | None],
    values: list[Any],
    ceiling: Callable[[Any], float] | None,
) -> list[End]:
    """Draw a bound where it is above 0; return the end of its line, and whether it says anything."""
    asked = [(value, least) for value in values if (least := bound(value)) is not None]
    drawn = [(value, number) for value, number in asked if number > 0]
    if not drawn:
        return [End(0.0, f"{label} (vacuous)", INK)] if asked else []
    x, y = np.array(drawn, dtype=float).T
    ax.plot(x, y, color=INK, alpha=0.8, linewidth=1.0, linestyle=((0, (1, 1.5)), (0, (6, 2)), "dashdot")[number % 3])
    useless = [ceiling is not None and number >= ceiling(value) for value, number in drawn]
    if all(useless):
        label += " (vacuous)"
    elif any(useless):
        least = min(value for (value, _), bad in zip(drawn, useless, strict=True) if not bad)
        label += f" (vacuous below {short(least)})" if useless[0] else " (vacuous in part)"
    return [End(float(y[-1]), label, INK)]


def _ticks(ax: Axes, values: list[Any]) -> None:
    """Put ticks at the parameter's values where they are few, without a number where it would touch the one before."""
    from matplotlib.ticker import NullFormatter, NullLocator

    ax.set_xlim(float(values[0]) / 1.15, float(values[-1]) * 1.15)
    if len(values) > 6:
        number_ticks(ax.xaxis)
        return
    texts = [short(value, 6) for value in values]
    points = 0.5 * figure_of(ax).get_figwidth() * 72 / (math.log(values[-1] / values[0]) + 2 * math.log(1.15))
    end = -math.inf
    for place, value in enumerate(values):
        middle, half = points * math.log(value), 0.33 * (len(texts[place]) + 1) * font(ax)
        if middle - half < end:
            texts[place] = ""
        else:
            end = middle + half
    ax.set_xticks([float(value) for value in values], texts, fontsize=font(ax) - 0.5)
    ax.xaxis.set_minor_locator(NullLocator())
    ax.xaxis.set_minor_formatter(NullFormatter())
