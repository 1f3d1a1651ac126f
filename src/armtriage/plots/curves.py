"""Regret over the rounds, with the intervals of its mean."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import TYPE_CHECKING

import numpy as np

from armtriage.plots._labels import End, label_ends
from armtriage.plots._sources import check_traces, origin
from armtriage.plots._style import INK, dress, looks, new_axes, number_ticks, sign
from armtriage.trace import Trace

if TYPE_CHECKING:
    from matplotlib.axes import Axes

__all__ = ["regret_curves"]


def regret_curves(
    traces: Mapping[str, Trace],
    ax: Axes | None = None,
    *,
    log: bool = True,
    level: float = 0.95,
    order: Sequence[str] | None = None,
) -> Axes:
    """Draw the mean cumulative regret of each trace with the band of its interval, labelled where the line ends.

    Parameters
    ----------
    traces : mapping of str to Trace
        The traces, by label.
    ax : Axes, optional
        Where to draw; by default a figure of its own, found at ``ax.figure``.
    log : bool
        Log scale for the regret, where it leaves out what is not positive; rounds always have one.
    level : float
        Level of Student's t intervals.
    order : sequence of str, optional
        Labels in the order in which colours are given out, so that a policy looks the same in several figures; by
        default that of the source.

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
    check_traces(traces)
    own = ax is None
    if ax is None:
        ax = new_axes()
        sign(ax, origin(traces, level, "bands"))
    log = log and any(bool((trace.mean > 0).any()) for trace in traces.values())
    ends, look = [], looks(traces, order)
    for label, trace in traces.items():
        colour, dash, _ = look[label]
        mean = np.where(trace.mean > 0, trace.mean, np.nan) if log else trace.mean
        ax.plot(trace.rounds, mean, color=colour, linestyle=dash, linewidth=1.6, label=label)
        low, high = trace.interval(level)
        if np.isfinite(low[-1]):
            # On a log scale a band that reaches 0 has no lower edge to draw: it is cut far below the mean.
            low = np.maximum(low, 0.05 * trace.mean) if log else low
            shown = np.isfinite(mean)
            ax.fill_between(trace.rounds, low, high, where=shown, color=colour, alpha=0.2, linewidth=0)
        ends.append(End(float(trace.mean[-1]), label if trace.mean[-1] > 0 or not log else f"{label} (0)", colour))
    ax.set_xscale("log")
    ax.set_xlim(1, max(2, *(int(trace.rounds[-1]) for trace in traces.values())))
    if log:
        ax.set_yscale("log")
    else:
        ax.set_ylim(bottom=0, top=None if any(bool(trace.mean.any()) for trace in traces.values()) else 1)
    ax.grid(True, color=INK, alpha=0.13, linewidth=0.6)
    ax.set_axisbelow(True)
    dress(ax, "rounds", "cumulative regret")
    number_ticks(ax.xaxis)
    number_ticks(ax.yaxis)
    label_ends(ax, ends, grow=own)
    return ax
