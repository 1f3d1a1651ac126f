"""What targets would have earned as a picture: estimates with both of their intervals."""

from __future__ import annotations

from typing import TYPE_CHECKING

from armtriage.logs import Evaluation, LogComparison
from armtriage.plots.style import CURVE_COLOURS, INK, dress, font, new_axes, number_ticks, sign

if TYPE_CHECKING:
    from matplotlib.axes import Axes


def evaluation_chart(found: Evaluation | LogComparison, ax: Axes | None = None) -> Axes:
    """Draw estimates with their intervals, and thinner below each the bracket, which needs no probabilities.

    Parameters
    ----------
    found : Evaluation or LogComparison
        What `armtriage.evaluate` or `armtriage.compare` returned.
    ax : Axes, optional
        Where to draw; by default a figure of its own, found at ``ax.figure``.

    Examples
    --------
    >>> from armtriage import SlateLog, compare
    >>> log = SlateLog.from_columns(arms=[[0], [1]] * 50, rewards=[[1], [0]] * 50, inclusion=[[0.5]] * 100)
    >>> ax = evaluation_chart(compare(log, {"old": [0], "new": [1]}))
    >>> [text.get_text() for text in ax.get_yticklabels()]
    ['old', 'new']
    """
    if not isinstance(found, Evaluation | LogComparison):
        raise TypeError(f"found must be what evaluate or compare returned, got {type(found).__name__}")
    shown = {found.target: found} if isinstance(found, Evaluation) else found.evaluations
    one = next(iter(shown.values()))
    if ax is None:
        ax = new_axes(5.2, 1.4 + 0.4 * len(shown))
        when = "at any time" if one.anytime else "for this length"
        sure = (
            f"thick: {100 * one.confidence:.10g}% intervals {when}; thin: without probabilities, if means are constant"
        )
        sign(ax, f"{sure}; {one.rounds:,} decisions")
    for place, each in enumerate(shown.values()):
        ax.plot([each.low, each.high], [place, place], color=CURVE_COLOURS[0], linewidth=3.0, solid_capstyle="butt")
        ax.plot([*each.bracket], [place + 0.25] * 2, color=INK, linewidth=1.0, solid_capstyle="butt")
        if each.value is not None:
            ax.plot([each.value], [place], "o", color=CURVE_COLOURS[0], markeredgecolor="white", markersize=7)
    ax.set_ylim(len(shown) - 0.5, -0.5)
    ax.set_yticks(range(len(shown)), list(shown), fontsize=font(ax))
    dress(ax, "costs of a decision" if one.direction == "minimize" else "earned in a decision", "", grid="x")
    number_ticks(ax.xaxis)
    return ax
