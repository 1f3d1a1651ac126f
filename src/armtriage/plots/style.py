"""What all plots share: colours, sizes, axes, files, and the line that says where the numbers come from."""

from __future__ import annotations

import io
import os
import textwrap
from collections.abc import Iterable, Mapping, Sequence
from pathlib import Path
from typing import TYPE_CHECKING, Any, Literal, NamedTuple

from armtriage._numbers import counted, short
from armtriage.simulation import Trace

if TYPE_CHECKING:
    import polars
    from matplotlib.axes import Axes
    from matplotlib.axis import Axis
    from matplotlib.figure import Figure

# Okabe and Ito's palette, without the yellow and the black that vanish on white and on dark pages.
CURVE_COLOURS = ("#0072B2", "#E69F00", "#009E73", "#D55E00", "#CC79A7", "#56B4E9")
STATE_COLOURS = {"confirmed": "#0072B2", "active": "#E69F00", "eliminated": "#B9BEC5"}
INK = "#222222"

_WIDTH, _HEIGHT = 4.2, 2.9  # inches: text of 8 points, and still of 6.5 in a column of 3.4 inches
_DASHES = ("solid", (0, (5, 1.5)), (0, (1.2, 1.2)), (0, (5, 1.2, 1.2, 1.2)))
_MARKERS = ("o", "s", "^", "D")
# What a file says beside its drawing: never when it was made, so that the same figure is the same file.
_OPTIONS: dict[str, dict[str, Any]] = {
    "svg": {"metadata": {"Date": None}, "transparent": True},
    "pdf": {"metadata": {"CreationDate": None}},
}


class Look(NamedTuple):
    """How one series is drawn: beyond six, colours come again with other dashes and markers."""

    colour: str
    dash: Any
    marker: str


def looks(labels: Iterable[str], order: Sequence[str] | None = None) -> dict[str, Look]:
    """Return the look of each label: given out in that order, then in the labels' own."""
    made = {}
    for number, label in enumerate(dict.fromkeys([*(order or ()), *labels])):
        turn, place = divmod(number, len(CURVE_COLOURS))
        made[label] = Look(CURVE_COLOURS[place], _DASHES[turn % len(_DASHES)], _MARKERS[turn % len(_MARKERS)])
    return made


def require() -> None:
    """Raise an ImportError that says what to do where matplotlib is missing."""
    try:
        import matplotlib.figure  # noqa: F401
    except ImportError as error:
        raise ImportError("plots need matplotlib: pip install 'armtriage[plots]'") from error


def new_axes(width: float = _WIDTH, height: float = _HEIGHT) -> Axes:
    """Return the axes of a new figure of that many inches, 3.4 for a paper's column; text fits its width.

    The figure is independent of others: no backend and no global state is touched.

    Examples
    --------
    >>> new_axes(3.4, 2.4).figure.get_size_inches().tolist()
    [3.4, 2.4]
    """
    require()
    from matplotlib.figure import Figure

    return Figure(figsize=(width, height), layout="constrained").add_subplot()


def figure_of(ax: Axes) -> Figure:
    """Return the whole figure that the axes are part of."""
    figure = ax.get_figure(root=True)
    assert figure is not None
    return figure


def font(ax: Axes) -> float:
    """Return the size of the text in points: 7.5 in a column of 3.4 inches, at most 9.5."""
    return float(min(max(7.5 + 0.9 * (figure_of(ax).get_figwidth() - 3.4), 6.0), 9.5))


def sign(ax: Axes, text: str, version: str | None = None) -> None:
    """Write under the axes' figure where its numbers come from, and which version made them.

    Parameters
    ----------
    ax : Axes
        Axes of the figure; what was written there before is replaced.
    text : str
        Intervals, runs and seeds.
    version : str, optional
        Version that made the numbers; by default this one.

    Examples
    --------
    >>> ax = new_axes()
    >>> sign(ax, "95% bands; 16 runs, seed 7", version="0.2.0")
    >>> ax.figure.get_supxlabel()
    '95% bands; 16 runs, seed 7; armtriage 0.2.0'
    """
    from armtriage import __version__

    figure, size = figure_of(ax), font(ax) - 2
    whole = f"{text}; armtriage {version or __version__}"
    lines = textwrap.wrap(whole, max(20, int(figure.get_figwidth() * 72 / (0.53 * size))), break_on_hyphens=False)
    figure.supxlabel("\n".join(lines), x=0.99, ha="right", fontsize=size, color=INK, alpha=0.75)


def number_ticks(axis: Axis) -> None:
    """Write an axis' numbers in full; on a log scale at 1, 2 and 5 of few decades, and at powers alone of many."""
    from matplotlib.ticker import FuncFormatter, LogLocator, NullFormatter, NullLocator, SymmetricalLogLocator

    low, high = sorted(axis.get_view_interval())
    if axis.get_scale() == "symlog":
        locator = SymmetricalLogLocator(axis.get_transform())
        locator.set_params(numticks=5)
        axis.set_major_locator(locator)
    if axis.get_scale() == "log":
        axis.set_minor_formatter(NullFormatter())
        if high > 1000 * low:
            axis.set_minor_locator(NullLocator())
        if high > 200 * low:
            return
        axis.set_major_locator(LogLocator(subs=(1.0, 2.0, 5.0)))
    axis.set_major_formatter(FuncFormatter(lambda value, _: short(value, 6)))


def dress(ax: Axes, x: str, y: str, *, grid: Literal["both", "x"] | None = None) -> None:
    """Name the axes and give text, frame and grid their colour and size."""
    size = font(ax)
    if grid is not None:
        ax.grid(True, axis=grid, color=INK, alpha=0.13, linewidth=0.6)
        ax.set_axisbelow(True)
    ax.set_xlabel(x, fontsize=size, color=INK)
    ax.set_ylabel(y, fontsize=size, color=INK)
    ax.tick_params(which="both", labelsize=size - 0.5, colors=INK)
    ax.spines[["top", "right"]].set_visible(False)
    ax.spines[["left", "bottom"]].set_color(INK)


def svg_text(ax: Axes) -> str:
    """Return the axes' figure as the text of an SVG file; the same figure gives the same text."""
    buffer = io.StringIO()
    _write(ax, buffer, "svg")
    return buffer.getvalue()


def save(ax: Axes, *paths: str | os.PathLike[str]) -> None:
    """Write the axes' figure to files.

    Parameters
    ----------
    ax : Axes
        Axes of the figure.
    *paths : path
        The files; their endings, .png, .svg or .pdf, say how.
    """
    for path in paths:
        check_path(path)
    for path in map(Path, paths):
        _write(ax, path, path.suffix.lower()[1:])


def check_path(path: str | os.PathLike[str]) -> None:
    """Refuse a file that `save` could not write."""
    if Path(path).suffix.lower() not in (".png", ".svg", ".pdf"):
        raise ValueError(f"a plot's file must end in .png, .svg or .pdf, got {os.fspath(path)!r}")
    if not Path(path).absolute().parent.is_dir():
        raise ValueError(f"a plot's folder must exist, got {os.fspath(path)!r}")
    require()


def _write(ax: Axes, target: Any, kind: str) -> None:
    import matplotlib

    # Type 42 fonts are the ones that journals take.
    with matplotlib.rc_context({"svg.hashsalt": "armtriage", "pdf.fonttype": 42}):
        figure_of(ax).savefig(target, format=kind, dpi=200, **_OPTIONS.get(kind, {}))


def labelled(traces: Mapping[str, Trace] | Sequence[Trace] | Trace) -> dict[str, Trace]:
    """Return traces by label: those of a mapping, else the policies' names, numbered where several are the same."""
    if isinstance(traces, Mapping):
        labels, some = [*traces], [*traces.values()]
    else:
        some = [*traces] if isinstance(traces, Sequence) else [traces]
        names = [getattr(trace, "policy", "") for trace in some]
        nth = (names[:place].count(name) for place, name in enumerate(names, 1))
        labels = [f"{name} {n}" if names.count(name) > 1 else name for name, n in zip(names, nth, strict=True)]
    accepted = "traces must be a Trace, a list of them, or a mapping from labels to them"
    for trace in some:
        if not isinstance(trace, Trace):
            raise TypeError(f"{accepted}, got {trace!r:.100}")
    if not some:
        raise ValueError("traces must hold one trace or more, got none")
    return dict(zip(labels, some, strict=True))


def spoken(name: str) -> str:
    """Return the name of a table's column as an axis says it.

    Examples
    --------
    >>> spoken("environment.n_arms"), spoken("graph.size"), spoken("horizon"), spoken("mean")
    ('number of arms', 'size', 'horizon', 'regret at the end')
    """
    words = name.split(".", 1)[-1].replace("_", " ")
    return {"mean": "regret at the end"}.get(name, f"number of {words[2:]}" if words.startswith("n ") else words)


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


def check_columns(table: polars.DataFrame, *columns: str) -> None:
    """Refuse a table that is empty or lacks a column, and whatever is none."""
    if not hasattr(table, "columns"):
        raise TypeError(f"table must be a polars.DataFrame with columns {', '.join(columns)}, got {table!r:.100}")
    for column in columns:
        if column not in table.columns:
            raise ValueError(f"table must have a column {column!r}, got {', '.join(table.columns)}")
    if not table.height:
        raise ValueError("table must hold one row or more, got none")
