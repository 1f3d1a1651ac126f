"""Regret over the rounds, with the intervals of its mean and what it was certified to be at most."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import TYPE_CHECKING

import numpy as np

from armtriage.kernels.record import Floats
from armtriage.plots.labels import End, label_ends
from armtriage.plots.style import dress, labelled, looks, new_axes, number_ticks, origin, sign
from armtriage.simulation import Trace

if TYPE_CHECKING:
    from matplotlib.axes import Axes

_CERTIFIED = (0, (3, 1.5))


def regret_curves(
    traces: Mapping[str, Trace] | Sequence[Trace] | Trace,
    ax: Axes | None = None,
    *,
    log: bool = True,
    level: float = 0.95,
    order: Sequence[str] | None = None,
    certificate: bool = False,
) -> Axes:
    """Draw the mean cumulative regret of each trace with the band of its interval, labelled where the line ends.

    Parameters
    ----------
    traces : mapping of str to Trace, sequence of Trace, or Trace
        The traces, by label; without labels they are called by their policies.
    ax : Axes, optional
        Where to draw; by default a figure of its own, found at ``ax.figure``.
    log : bool
        Log scale for the regret, where it leaves out what is not positive; rounds always have one.
    level : float
        Level of Student's t intervals.
    order : sequence of str, optional
        Labels in the order in which colours are given out, so that a policy looks the same in several figures; by
        default that of the source.
    certificate : bool
        Draw above each regret, dashed, the mean of its certificates, which ``simulate(..., certificate=True)`` keeps.

    Examples
    --------
    >>> from armtriage import FeedbackGraph, StochasticEnvironment, UniformRandom, simulate
    >>> graph = FeedbackGraph.semi_bandit(3)
    >>> env = StochasticEnvironment([0.9, 0.5, 0.1], graph, seed=7)
    >>> trace = simulate(UniformRandom(graph, 1, seed=7), env, horizon=100, replications=4, certificate=True)
    >>> ax = regret_curves([trace])
    >>> [text.get_text() for text in ax.texts]
    ['UniformRandom']
    >>> ax = regret_curves({"random": trace}, certificate=True)
    >>> [line.get_label() for line in ax.lines]
    ['random', 'random: certificate']
    """
    traces = labelled(traces)
    bounds = _certificates(traces) if certificate else {}
    own = ax is None
    if ax is None:
        ax = new_axes()
        sign(ax, origin(traces, level, "bands") + ("; dashed: certificates" if certificate else ""))
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
        if label in bounds:
            bound = np.where(bounds[label] > 0, bounds[label], np.nan) if log else bounds[label]
            ax.plot(
                trace.rounds, bound, color=colour, linestyle=_CERTIFIED, linewidth=1.2, label=f"{label}: certificate"
            )
            ends.append(End(float(bounds[label][-1]), f"{label}: certificate", colour))
    ax.set_xscale("log")
    ax.set_xlim(1, max(2, *(int(trace.rounds[-1]) for trace in traces.values())))
    if log:
        ax.set_yscale("log")
    else:
        some = [*(trace.mean for trace in traces.values()), *bounds.values()]
        ax.set_ylim(bottom=0, top=None if any(bool(one.any()) for one in some) else 1)
    dress(ax, "rounds", "cumulative regret", grid="both")
    number_ticks(ax.xaxis)
    number_ticks(ax.yaxis)
    label_ends(ax, ends, grow=own)
    return ax


def _certificates(traces: Mapping[str, Trace]) -> dict[str, Floats]:
    """Return the mean certificate of each trace at its checkpoints."""
    means = {}
    for label, trace in traces.items():
        if trace.certificate is None:
            raise ValueError(f"traces must be simulated with certificate=True to draw it, got none for {label!r}")
        means[label] = np.asarray(trace.certificate.mean(axis=0))
    return means
