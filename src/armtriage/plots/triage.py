"""The triage chart: when each arm was confirmed or eliminated."""

from __future__ import annotations

from typing import TYPE_CHECKING

import numpy as np
from numpy.typing import ArrayLike

from armtriage.plots.style import INK, STATE_COLOURS, dress, figure_of, font, new_axes, number_ticks
from armtriage.triage import TriageLog

if TYPE_CHECKING:
    from matplotlib.axes import Axes

_GAPS, _RASTER = 60, 500  # arms up to which rows have gaps, and from which they are pixels


def triage_chart(
    log: TriageLog, means: ArrayLike, horizon: int, ax: Axes | None = None, *, budget: int | None = None
) -> Axes:
    """Draw a row for each arm, the best at the top, coloured by whether it is confirmed, active or eliminated.

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
        raise ValueError(f"means must hold one number for each arm, got shape {means.shape}")
    if log.arms.size and log.arms.max() >= means.size:
        raise ValueError(
            f"means must hold one number for each arm, got {means.size} with arm {log.arms.max()} in the log"
        )
    if horizon < 1:
        raise ValueError(f"horizon must be a whole number from 1, got {horizon!r}")
    ax = new_axes() if ax is None else ax
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
    dress(ax, "rounds", "true mean (one row per arm)")
    number_ticks(ax.xaxis)
    if budget is not None:
        ax.axhline(budget, color=INK, linewidth=1.0, linestyle=(0, (4, 3)), label=f"best {budget} above")
    legend = ax.legend(
        loc="lower left", bbox_to_anchor=(0, 1), ncols=4 if figure_of(ax).get_figwidth() > 4 else 2, frameon=False,
        fontsize=font(ax) - 0.5, labelcolor=INK, handlelength=1.3, columnspacing=1.2, borderaxespad=0.2,
        handletextpad=0.5,
    )  # fmt: skip
    legend.set_in_layout(True)
    return ax
