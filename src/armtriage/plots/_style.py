"""What all plots share: colours, sizes, the axes and the line that says where the numbers come from."""

from __future__ import annotations

import math
import textwrap
from collections.abc import Iterable, Sequence
from typing import TYPE_CHECKING, Any, NamedTuple

if TYPE_CHECKING:
    from matplotlib.axes import Axes
    from matplotlib.axis import Axis
    from matplotlib.figure import Figure

__all__ = [
    "CURVE_COLOURS",
    "INK",
    "STATE_COLOURS",
    "Look",
    "dress",
    "figure_of",
    "font",
    "looks",
    "new_axes",
    "number_ticks",
    "require",
    "short",
    "sign",
]

# Okabe and Ito's palette, without the yellow and the black that vanish on white and on dark pages.
CURVE_COLOURS = ("#0072B2", "#E69F00", "#009E73", "#D55E00", "#CC79A7", "#56B4E9")
STATE_COLOURS = {"confirmed": "#0072B2", "active": "#E69F00", "eliminated": "#B9BEC5"}
INK = "#222222"

_WIDTH, _HEIGHT = 4.2, 2.9  # inches: text of 8 points, and still of 6.5 in a column of 3.4 inches
_DASHES = ("solid", (0, (5, 1.5)), (0, (1.2, 1.2)), (0, (5, 1.2, 1.2, 1.2)))
_MARKERS = ("o", "s", "^", "D")


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
        raise ImportError("plots need matplotlib, of the extra 'plots': pip install matplotlib") from error


def new_axes(width: float = _WIDTH, height: float = _HEIGHT) -> Axes:
    """Return the axes of a new figure of that many inches, 3.4 for a paper's column; text fits its width.

    The figure belongs to nobody else: no backend and no global state is touched.

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
    >>> sign(ax, "95% bands; 16 runs, seed 7", version="0.1.0")
    >>> ax.figure.get_supxlabel()
    '95% bands; 16 runs, seed 7; armtriage 0.1.0'
    """
    from armtriage import __version__

    figure, size = figure_of(ax), font(ax) - 2
    whole = f"{text}; armtriage {version or __version__}"
    lines = textwrap.wrap(whole, max(20, int(figure.get_figwidth() * 72 / (0.53 * size))), break_on_hyphens=False)
    figure.supxlabel("\n".join(lines), x=0.99, ha="right", fontsize=size, color=INK, alpha=0.75)


def number_ticks(axis: Axis) -> None:
    """Write an axis' numbers in full; on a log scale at 1, 2 and 5 of few decades, and at powers alone of many."""
    from matplotlib.ticker import FuncFormatter, LogLocator, NullFormatter, NullLocator

    low, high = sorted(axis.get_view_interval())
    if axis.get_scale() == "symlog":
        axis.set_ticks(_symmetric(low, high, axis.get_transform().linthresh))  # type: ignore[attr-defined]
    if axis.get_scale() == "log":
        axis.set_minor_formatter(NullFormatter())
        if high > 1000 * low:
            axis.set_minor_locator(NullLocator())
        if high > 200 * low:
            return
        axis.set_major_locator(LogLocator(subs=(1.0, 2.0, 5.0)))
    axis.set_major_formatter(FuncFormatter(lambda value, _: short(value, 6)))


def _symmetric(low: float, high: float, near: float) -> list[float]:
    """Return 0 and powers of ten on both sides of it, as few as are told apart."""
    decades = [max(0, math.floor(math.log10(max(end, near) / near) + 1e-9)) for end in (-low, high)]
    step = -(-(sum(decades) + 1) // 5)
    ends = [
        sign * near * 10.0**power
        for sign, most in zip((-1, 1), decades, strict=True)
        for power in range(0, most + 1, step)
    ]
    return sorted([0.0, *(end for end in ends if low <= end <= high)])


def dress(ax: Axes, x: str, y: str) -> None:
    """Name the axes and give text and frame their colour and size."""
    size = font(ax)
    ax.set_xlabel(x, fontsize=size, color=INK)
    ax.set_ylabel(y, fontsize=size, color=INK)
    ax.tick_params(which="both", labelsize=size - 0.5, colors=INK)
    ax.spines[["top", "right"]].set_visible(False)
    ax.spines[["left", "bottom"]].set_color(INK)


def short(value: float, digits: int = 3) -> str:
    """Return a number in three digits or more, with a power of ten where it would be long.

    Examples
    --------
    >>> short(1234.6), short(0.0), short(6.54321), short(2.5e9), short(0.000021)
    ('1,235', '0', '6.54', '2.5e9', '2.1e-5')
    """
    if 10**digits - 0.5 <= abs(value) < 999_999.5:
        return f"{value:,.0f}"
    mantissa, _, power = f"{value:,.{digits}g}".partition("e")
    return f"{mantissa}e{int(power)}" if power else mantissa
