"""What a drawn figure shows: traces to draw, and where the texts are."""

from __future__ import annotations

from itertools import combinations
from unittest.mock import patch

import numpy as np
from matplotlib.text import Text

from armtriage import Trace


def trace(*finals, points=(1, 10, 100)):
    rounds = np.array(points)
    regret = np.outer(finals, rounds / rounds[-1])
    n = len(finals)
    return Trace(rounds, regret, np.full(n, -1), None, None, "Some", 2, 7, 7)


def said(ax):
    """Return what the texts of the axes say."""
    return [text.get_text() for text in ax.texts]


def boxes(ax):
    """Return what the texts of the figure say, those that are drawn, and their boxes."""
    drawn, draw = [], Text.draw

    def note(self, renderer):
        drawn.append(self)
        draw(self, renderer)

    with patch.object(Text, "draw", note):
        ax.get_figure(root=True).draw_without_rendering()
    shown = [text for text in drawn if text.get_visible() and text.get_text().strip()]
    return [(text.get_text(), text.get_window_extent()) for text in shown]


def assert_readable(ax):
    """Every text is inside the figure, and none touches another."""
    found, whole = boxes(ax), ax.get_figure(root=True).bbox
    for said, box in found:
        assert box.x0 >= whole.x0 - 1, said
        assert box.x1 <= whole.x1 + 1, said
        assert box.y0 >= whole.y0 - 1, said
        assert box.y1 <= whole.y1 + 1, said
    for (one, first), (other, second) in combinations(found, 2):
        across = min(first.x1, second.x1) - max(first.x0, second.x0)
        along = min(first.y1, second.y1) - max(first.y0, second.y0)
        assert across <= 1 or along <= 1, (one, other)
