"""Labels that stay readable: shortened where they are long, and moved apart where lines end together."""

from __future__ import annotations

import re
from collections.abc import Sequence
from typing import TYPE_CHECKING, NamedTuple

import numpy as np

from armtriage.kernels.record import Floats
from armtriage.plots.style import figure_of, font

if TYPE_CHECKING:
    from matplotlib.axes import Axes

_LEADING = 1.3  # lines, as a multiple of the text's size
_LEAST = 1.5  # points
_BOLD = 0.66  # width of a letter, as a share of the text's size


class End(NamedTuple):
    """A line's end, and what is written beside it."""

    value: float
    text: str
    colour: str


def shorten(labels: Sequence[str], limit: int) -> list[str]:
    """Return labels of at most `limit` letters, their middle left out, or of more where two would become the same.

    Examples
    --------
    >>> shorten(["ucb", "elimination:delta=0.1,variant=paper"], 20)
    ['ucb', 'elimination:…t=paper']
    """
    longest = max(map(len, labels), default=0)
    while limit < longest:
        tail = (limit - 1) * 2 // 5
        short = [one if len(one) <= limit else f"{one[: limit - 1 - tail]}…{one[-tail:]}" for one in labels]
        if len(set(short)) == len(set(labels)):
            return short
        limit += 4
    return list(labels)


def fold(label: str, width: int) -> list[str]:
    """Return the label in lines of at most `width` letters, broken after words where it can be.

    Examples
    --------
    >>> fold("elimination:delta=0.1,variant=paper", 18)
    ['elimination:', 'delta=0.1,', 'variant=paper']
    >>> fold("vacuous below 16,000", 16)
    ['vacuous below', '16,000']
    """
    lines = [""]
    for piece in re.findall(r"(?:[^,:;_… ]|(?<=\d),(?=\d{3}\b))*[,:;_… ]*", label):
        if lines[-1] and len((lines[-1] + piece).rstrip(",:; ")) > width:
            lines.append("")
        lines[-1] += piece
        while len(lines[-1].rstrip(",:; ")) > width:
            lines[-1:] = [lines[-1][:width], lines[-1][width:]]
    return [line.rstrip() for line in lines]


def label_ends(ax: Axes, ends: Sequence[End], *, grow: bool) -> None:
    """Write each text beside the axes at the height of its line's end, moved apart where they overlap.

    Texts that do not fit make the figure taller if it may grow, and are written smaller otherwise.
    """
    from matplotlib.patches import ConnectionPatch
    from matplotlib.transforms import offset_copy

    figure = figure_of(ax)
    ends = sorted(ends, key=lambda end: end.value)
    bottom, top = ax.get_ylim()
    ax.set_ylim(bottom, top)
    points = [(1.0, max(end.value, bottom)) for end in ends]
    at = np.clip((ax.transScale + ax.transLimits).transform(points)[:, 1], 0.0, 1.0)
    height, width = ax.get_window_extent().height / figure.dpi * 72, figure.get_figwidth() * 72
    size = font(ax)
    while True:
        texts = _folded([end.text for end in ends], max(8, int(0.34 * width / (_BOLD * size))))
        lines = np.array([text.count("\n") + 1 for text in texts])
        need = float(lines.sum() * _LEADING * size)
        if grow and need > height:
            figure.set_figheight(figure.get_figheight() + (need - height) / 72)
            height = need
        if size <= _LEAST or need <= height:
            break
        size -= 0.5
    tall = _LEADING * size / height * lines
    for end, text, start, place in zip(ends, texts, at, apart(at, tall), strict=True):
        beside = offset_copy(ax.transAxes, figure, x=9, units="points")
        ax.text(1, place, text, transform=beside, va="center", fontsize=size, color=end.colour, fontweight="bold",
                linespacing=1.05)  # fmt: skip
        near = offset_copy(ax.transAxes, figure, x=7, units="points")
        leader = ConnectionPatch(
            (1, start), (1, place), ax.transAxes, near, color=end.colour, linewidth=0.6, clip_on=False
        )
        leader.set_in_layout(False)
        ax.add_artist(leader)


def _folded(texts: Sequence[str], letters: int) -> list[str]:
    """Return the texts in lines of that many letters, at most three for the first line of each."""
    parts = [text.partition("\n") for text in texts]
    heads = shorten([head for head, _, _ in parts], 3 * letters - 4)
    return ["\n".join(fold(head, letters)) + gap + tail for head, (_, gap, tail) in zip(heads, parts, strict=True)]


def apart(places: Floats, tall: Floats) -> Floats:
    """Return ascending middles in [0, 1], moved as little as possible, in squares, so that boxes `tall` are apart.

    Boxes that are too many for [0, 1] fill it from the bottom and go beyond its top.

    Examples
    --------
    >>> apart(np.array([0.5, 0.5]), np.array([0.25, 0.25])).tolist()
    [0.375, 0.625]
    """
    from scipy.optimize import isotonic_regression

    offset = np.cumsum(tall) - tall / 2
    level = isotonic_regression(places - offset).x
    return np.asarray(np.clip(level, 0.0, max(0.0, 1.0 - float(tall.sum()))) + offset)
