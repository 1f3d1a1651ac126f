"""Plots: regret curves with their intervals, and the triage chart. The only place that imports matplotlib."""

from __future__ import annotations

import io
import os
from collections.abc import Mapping
from pathlib import Path
from typing import TYPE_CHECKING, Any

import numpy as np
from numpy.typing import ArrayLike, NDArray

from armtriage.trace import Trace, TriageLog

if TYPE_CHECKING:
    from matplotlib.axes import Axes

__all__ = [
    "CURVE_COLOURS",
    "INK",
    "STATE_COLOURS",
    "check_path",
    "regret_curves",
    "require",
    "save",
    "sign",
    "svg_text",
    "triage_chart",
]

# Okabe and Ito's palette, without the yellow and the black that vanish on white and on dark pages.
CURVE_COLOURS = ("#0072B2", "#E69F00", "#009E73", "#D55E00", "#CC79A7", "#56B4E9")
STATE_COLOURS = {"confirmed": "#0072B2", "active": "#E69F00", "eliminated": "#B9BEC5"}
INK = "#222222"

_SIZE = (5.6, 3.7)
_FONT = 9.5
_DASHES = ("solid", (0, (5, 1.5)), (0, (1.2, 1.2)))
_GAPS, _RASTER = 60, 500  # arms up to which rows have gaps, and from which they are pixels


def require() -> None:
    """Raise an ImportError that says what to do where matplotlib is missing."""
    try:
        import matplotlib.figure  # noqa: F401
    except ImportError as error:
        raise ImportError("plots need matplotlib, of the extra 'plots': pip install matplotlib") from error


def _new_axes() -> Axes:
    """Return the axes of a figure that belongs to nobody else: no backend and no global state is touched."""
    require()
    from matplotlib.figure import Figure

    return Figure(figsize=_SIZE, layout="constrained").add_subplot()


def sign(ax: Axes, text: str) -> None:
    """Write under the axes' figure where its numbers come from, and which version made it."""
    from armtriage import __version__

    figure = ax.get_figure(root=True)
    assert figure is not None
    figure.supxlabel(f"{text}; armtriage {__version__}", x=0.99, ha="right", fontsize=_FONT - 3, color=INK, alpha=0.75)


def _dress(ax: Axes, x: str, y: str) -> None:
    ax.set_xlabel(x, fontsize=_FONT, color=INK)
    ax.set_ylabel(y, fontsize=_FONT, color=INK)
    ax.tick_params(which="both", labelsize=_FONT - 0.5, colors=INK)
    ax.spines[["top", "right"]].set_visible(False)
    ax.spines[["left", "bottom"]].set_color(INK)


def regret_curves(traces: Mapping[str, Trace], ax: Axes | None = None, *, log: bool = True) -> Axes:
    """Draw the mean cumulative regret of each trace with its 95% band, labelled where the line ends.

    Parameters
    ----------
    traces : mapping of str to Trace
        The traces, by label.
    ax : Axes, optional
        Where to draw; by default a figure of its own, found at ``ax.figure``.
    log : bool
        Log scale for the regret, where it leaves out what is not positive; rounds always have one.

    Examples
    --------
    >>> from armtriage import FeedbackGraph, StochasticEnvironment, UniformRandom, simulate
    >>> graph = FeedbackGraph.semi_bandit(3)
    >>> env = StochasticEnvironment([0.9, 0.5, 0.1], graph, seed=7)
    >>> trace = simulate(UniformRandom(graph, 1, seed=7), env, horizon=100, replications=4)
    >>> ax = regret_curves({"random": trace})
    >>> [text.get_text() for text in ax.texts]
    ['random']
    """
    if not traces:
        raise ValueError("traces must hold one trace or more, got none")
    if ax is None:
        ax = _new_axes()
        origins = {trace.origin for trace in traces.values()}
        sign(ax, "95% bands; " + (origins.pop() if len(origins) == 1 else "several runs and seeds"))
    log = log and any(bool((trace.mean > 0).any()) for trace in traces.values())
    ends = []
    for number, (label, trace) in enumerate(traces.items()):
        colour = CURVE_COLOURS[number % len(CURVE_COLOURS)]
        dash = _DASHES[number // len(CURVE_COLOURS) % len(_DASHES)]
        mean = np.where(trace.mean > 0, trace.mean, np.nan) if log else trace.mean
        ax.plot(trace.rounds, mean, color=colour, linestyle=dash, linewidth=1.8, label=label)
        low, high = trace.interval()
        if np.isfinite(low[-1]):
            # On a log scale a band that reaches 0 has no lower edge to draw: it is cut far below the mean.
            low = np.maximum(low, 0.05 * trace.mean) if log else low
            shown = np.isfinite(mean)
            ax.fill_between(trace.rounds, low, high, where=shown, color=colour, alpha=0.2, linewidth=0)
        ends.append((float(trace.mean[-1]), label, colour))
    ax.set_xscale("log")
    ax.set_xlim(1, max(trace.rounds[-1] for trace in traces.values()))
    if log:
        ax.set_yscale("log")
    else:
        ax.set_ylim(bottom=0)
    ax.grid(True, color=INK, alpha=0.13, linewidth=0.6)
    ax.set_axisbelow(True)
    _dress(ax, "rounds", "cumulative regret")
    _label_ends(ax, ends)
    return ax


def _label_ends(ax: Axes, ends: list[tuple[float, str, str]]) -> None:
    """Write each label beside the axes at the height of its line's end, moved apart where they overlap."""
    ends = sorted(ends, key=lambda end: end[0])
    values = np.array([value for value, _, _ in ends])
    bottom, top = ax.get_ylim()
    ax.set_ylim(bottom, top)
    if ax.get_yscale() == "log":
        at = np.log(np.maximum(values, bottom) / bottom) / np.log(top / bottom)
    else:
        at = (values - bottom) / (top - bottom)
    height = ax.get_window_extent().height / ax.get_figure(root=True).dpi * 72  # type: ignore[union-attr]
    for place, (_, label, colour) in zip(_spread(at, 1.35 * _FONT / height), ends, strict=True):
        ax.annotate(
            label,
            (1.0, place),
            xycoords="axes fraction",
            xytext=(5, 0),
            textcoords="offset points",
            va="center",
            fontsize=_FONT,
            color=colour,
            fontweight="bold",
            annotation_clip=False,
        )


def _spread(places: NDArray[np.float64], gap: float) -> NDArray[np.float64]:
    """Return ascending places moved as little as possible, in squares, so that neighbours are `gap` apart."""
    shifted = places - gap * np.arange(places.size)
    groups: list[list[float]] = []
    for place in shifted.tolist():
        groups.append([place, 1.0])
        while len(groups) > 1 and groups[-2][0] > groups[-1][0]:
            mean, weight = groups.pop()
            other, count = groups[-1]
            groups[-1] = [(other * count + mean * weight) / (count + weight), count + weight]
    level = np.repeat([mean for mean, _ in groups], [int(count) for _, count in groups])
    return np.asarray(level + gap * np.arange(places.size))


def triage_chart(
    log: TriageLog, means: ArrayLike, horizon: int, ax: Axes | None = None, *, budget: int | None = None
) -> Axes:
    """Draw one row an arm, the best at the top, coloured by whether it is confirmed, active or eliminated.

    Parameters
    ----------
    log : TriageLog
        When arms were decided, from ``trace.triage`` or ``policy.triage_log()``.
    means : array_like
        True mean of each arm.
    horizon : int
        Rounds played.
    ax : Axes, optional
        Where to draw; by default a figure of its own, found at ``ax.figure``.
    budget : int, optional
        Draws a line under the best S arms.

    Examples
    --------
    >>> import numpy as np
    >>> log = TriageLog(np.array([1, 0]), np.array([10, 40]), np.array([False, True]))
    >>> ax = triage_chart(log, [0.9, 0.1], horizon=100)
    >>> [part.get_label() for part in ax.collections]
    ['confirmed', 'active', 'eliminated']
    """
    means = np.asarray(means, dtype=np.float64)
    if means.ndim != 1 or means.size == 0:
        raise ValueError(f"means must hold one number an arm, got shape {means.shape}")
    if log.arms.size and log.arms.max() >= means.size:
        raise ValueError(f"means must hold one number an arm, got {means.size} with arm {log.arms.max()} in the log")
    if horizon < 1:
        raise ValueError(f"horizon must be a whole number from 1, got {horizon!r}")
    ax = _new_axes() if ax is None else ax
    from matplotlib.collections import PolyCollection

    n = means.size
    order = np.argsort(-means, kind="stable")
    rank = np.empty(n, np.int64)
    rank[order] = np.arange(n)
    decided = np.full(n, float(max(horizon, 2)))
    decided[log.arms] = np.clip(log.rounds, 1, max(horizon, 2))
    margin = 0.08 if n <= _GAPS else 0.0
    end = np.full(n, float(max(horizon, 2)))
    spans = {
        "confirmed": (log.arms[log.confirmed], decided, end),
        "active": (np.arange(n), np.ones(n), decided),
        "eliminated": (log.arms[~log.confirmed], decided, end),
    }
    for state, (arms, left, right) in spans.items():
        x = np.stack([left[arms], left[arms], right[arms], right[arms]], axis=1)
        # Rows without gaps reach a little into the next, which is drawn over it: viewers would show seams.
        upper, lower = rank[arms] + margin, rank[arms] + 1 - (margin or -0.1)
        y = np.stack([lower, upper, upper, lower], axis=1)
        boxes = PolyCollection(
            np.stack([x, y], axis=2),  # type: ignore[arg-type]
            facecolors=STATE_COLOURS[state],
            linewidths=0,
            antialiaseds=n <= _GAPS,
            label=state,
            rasterized=n > _RASTER,
        )
        ax.add_collection(boxes, autolim=False)
    ax.set_xscale("log")
    ax.set_xlim(1, end[0])
    ax.set_ylim(n, 0)
    shown = np.unique(np.linspace(0, n - 1, min(n, 6)).round().astype(int))
    ax.set_yticks(shown + 0.5, [f"{means[order[row]]:.2f}" for row in shown])
    _dress(ax, "rounds", "true mean (a row an arm)")
    if budget is not None:
        ax.axhline(budget, color=INK, linewidth=1.0, linestyle=(0, (4, 3)), label=f"best {budget} above")
    legend = ax.legend(
        loc="lower left", bbox_to_anchor=(0, 1), ncols=4, frameon=False, fontsize=_FONT - 0.5, labelcolor=INK,
        handlelength=1.3, columnspacing=1.2, borderaxespad=0.2, handletextpad=0.5,
    )  # fmt: skip
    legend.set_in_layout(True)
    return ax


def svg_text(ax: Axes) -> str:
    """Return the axes' figure as the text of an SVG file; the same figure gives the same text."""
    buffer = io.StringIO()
    _write(ax, buffer, "svg")
    return buffer.getvalue()


def save(ax: Axes, *paths: str | os.PathLike[str]) -> None:
    """Write the axes' figure to files; their endings, such as .png or .svg, say how."""
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

    figure = ax.get_figure(root=True)
    assert figure is not None
    options: dict[str, Any] = {"svg": {"metadata": {"Date": None}, "transparent": True}}.get(kind, {})
    with matplotlib.rc_context({"svg.hashsalt": "armtriage"}):
        figure.savefig(target, format=kind, dpi=200, **options)
