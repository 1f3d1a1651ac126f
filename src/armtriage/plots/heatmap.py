"""A value over two parameters, as coloured cells."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

import numpy as np

from armtriage._numbers import counted, short
from armtriage.kernels.record import Floats
from armtriage.plots.labels import fold, shorten
from armtriage.plots.style import (
    INK,
    check_columns,
    dress,
    figure_of,
    font,
    new_axes,
    number_ticks,
    sign,
    spoken,
)

if TYPE_CHECKING:
    import polars
    from matplotlib.axes import Axes
    from matplotlib.collections import QuadMesh

_MAP = "viridis"  # even in lightness, and safe for every eye
_TICKS = 12
_SLANTED = 14  # letters of a slanted word
_FOLDED = 7  # letters that a column must have for words in several lines


def heat_map(
    table: polars.DataFrame,
    x: str,
    y: str,
    value: str = "mean",
    ax: Axes | None = None,
    *,
    log: bool = False,
    title: str | None = None,
) -> Axes:
    """Draw a value over two parameters as coloured cells, with the numbers in them where they fit.

    Parameters
    ----------
    table : DataFrame
        One row for each pair of the parameters, such as ``Results.summary()`` filtered to one policy.
    x, y : str
        Columns of the parameters, numbers or words.
    value : str
        Column of the value; a pair without one stays empty.
    ax : Axes, optional
        Where to draw; by default a figure of its own, found at ``ax.figure``.
    log : bool
        Log scale for the colours, where what is not positive stays empty.
    title : str, optional
        What the colours mean; by default the name of the value.

    Examples
    --------
    >>> import polars
    >>> table = polars.DataFrame({"arms": [10, 10, 20], "budget": [1, 2, 1], "mean": [3.0, 4.0, 5.5]})
    >>> ax = heat_map(table, "arms", "budget")
    >>> [text.get_text() for text in ax.texts]
    ['3', '5.5', '4']
    """
    check_columns(table, x, y, value)
    if table.select(x, y).is_duplicated().any():
        raise ValueError(f"table must hold each pair of {x} and {y} once; filter it to one policy")
    columns, rows = (table[name].unique().drop_nulls().sort().to_list() for name in (x, y))
    grid = np.full((len(rows), len(columns)), np.nan)
    for across, up, number in table.select(x, y, value).iter_rows():
        if across is not None and up is not None and number is not None:
            grid[rows.index(up), columns.index(across)] = number
    if log:
        grid[~(grid > 0)] = np.nan
    if not np.isfinite(grid).any():
        raise ValueError(f"table must hold a value of {value} to be drawn" + (" above 0" if log else ""))
    if ax is None:
        ax = new_axes()
        sign(ax, "means" + (f" of {counted(table['runs'].to_list())}" if "runs" in table.columns else ""))
    mesh = _cells(ax, grid, log)
    dress(ax, spoken(x), spoken(y))
    _name_columns(ax, columns)
    _name_rows(ax, rows)
    ax.tick_params(length=0)
    ax.spines[:].set_visible(False)
    bar = figure_of(ax).colorbar(mesh, ax=ax, pad=0.02, fraction=0.07)
    bar.outline.set_visible(False)
    bar.ax.tick_params(which="both", labelsize=font(ax) - 0.5, colors=INK)
    number_ticks(bar.ax.yaxis)
    bar.set_label(title or spoken(value), fontsize=font(ax), color=INK)
    _write(ax, mesh, grid)
    return ax


def _name_columns(ax: Axes, values: list[Any]) -> None:
    """Put a tick at each value; at fewer numbers, in several lines or at slanted words, where they would touch."""
    named, words = _named(values, _SLANTED)
    step = -(-len(values) // _TICKS)
    room = 0.74 * figure_of(ax).get_figwidth() * 72 / len(values) / (0.62 * font(ax)) - 0.4  # letters a column
    while not words and max(map(len, named[::step])) > room * step:
        step += 1
    lines = [fold(str(one), int(room)) for one in values] if words and room > _FOLDED else []
    if lines and all(" ".join(some) == str(one) for some, one in zip(lines, values, strict=True)):  # no word is broken
        named = ["\n".join(some) for some in lines]
    slanted = words and max(len(line) for name in named for line in name.split("\n")) > room * step
    ax.xaxis.set_ticks(list(range(0, len(values), step)), named[::step])
    if slanted:
        ax.tick_params(axis="x", rotation=30)
        for label in ax.get_xticklabels():
            label.set(ha="right", rotation_mode="anchor")


def _name_rows(ax: Axes, values: list[Any]) -> None:
    """Put a tick at each value, and at fewer where lines would touch; words may take a third of the figure."""
    inches, letter = figure_of(ax).get_size_inches(), font(ax) / 72
    named, words = _named(values, max(_SLANTED, int(inches[0] / 3 / (0.55 * letter))))
    fitting = max(int(0.8 * inches[1] / (1.25 * letter)), 1)
    step = -(-len(values) // (fitting if words else min(fitting, _TICKS)))
    ax.yaxis.set_ticks(list(range(0, len(values), step)), named[::step])


def _named(values: list[Any], limit: int) -> tuple[list[str], bool]:
    """Return what to write at the ticks, words in at most so many letters, and whether they are words."""
    if not isinstance(values[0], int | float) or isinstance(values[0], bool):
        return shorten([str(one) for one in values], limit), True
    return [short(one, 6 if abs(one) < 1e6 else 3) for one in values], False


def _cells(ax: Axes, grid: Floats, log: bool) -> QuadMesh:
    from matplotlib.colors import LogNorm, Normalize

    low, high = float(np.nanmin(grid)), float(np.nanmax(grid))
    if low == high:
        low, high = (low / 2, high * 2) if log else (low - 0.5, high + 0.5)
    norm = LogNorm(low, high) if log else Normalize(low, high)
    edges = np.arange(grid.shape[1] + 1) - 0.5, np.arange(grid.shape[0] + 1) - 0.5
    lines = 0.8 if max(grid.shape) <= 2 * _TICKS else 0.0
    return ax.pcolormesh(*edges, np.ma.masked_invalid(grid), cmap=_MAP, norm=norm, edgecolors="white", linewidth=lines)


def _write(ax: Axes, mesh: QuadMesh, grid: Floats) -> None:
    """Write the numbers in the cells if all of them fit."""
    box, dpi = ax.get_window_extent(), figure_of(ax).dpi
    wide, tall = 72 / dpi * box.width / grid.shape[1], 72 / dpi * box.height / grid.shape[0]
    texts = {place: short(float(number)) for place, number in np.ndenumerate(grid) if np.isfinite(number)}
    size = min(font(ax) - 0.5, 0.85 * wide / (0.6 * max(map(len, texts.values()))), 0.6 * tall)
    if size < 5:
        return
    for (row, column), text in texts.items():
        red, green, blue, _ = mesh.cmap(mesh.norm(grid[row, column]))
        ink: Any = "white" if 0.299 * red + 0.587 * green + 0.114 * blue < 0.5 else "black"
        ax.text(column, row, text, ha="center", va="center", fontsize=size, color=ink)
