"""Paired differences: what a policy lost more or less than a baseline that met the same luck."""

from __future__ import annotations

import math
from collections.abc import Mapping, Sequence
from typing import TYPE_CHECKING

import numpy as np

from armtriage.plots._rows import draw_rows, row_axes
from armtriage.plots._sources import check_traces, origin, table_rows, trace_rows
from armtriage.plots._style import short, sign
from armtriage.simulation.trace import Trace

if TYPE_CHECKING:
    import polars
    from matplotlib.axes import Axes

__all__ = ["paired_differences"]

_PLAIN = 50.0  # ratio of the largest to the least difference up to which a plain scale shows both


def paired_differences(
    source: Mapping[str, Trace] | polars.DataFrame,
    baseline: str,
    ax: Axes | None = None,
    *,
    log: bool | None = None,
    level: float = 0.95,
    order: Sequence[str] | None = None,
) -> Axes:
    """Draw how much more regret than the baseline each policy has at the end, replication by replication.

    An interval that does not reach the line at 0 tells the policy from the baseline; left of it is better.

    Parameters
    ----------
    source : mapping of str to Trace, or DataFrame
        Traces of the same replications, by label; or a table of one environment with the columns policy,
        difference, low and high, as ``Results.differences`` makes it.
    baseline : str
        Label of the policy that the others are held against.
    ax : Axes, optional
        Where to draw; by default a figure of its own, found at ``ax.figure``.
    log : bool, optional
        Log scale on both sides of 0, and a plain one close to it; by default where differences differ 50 times or more.
    level : float
        Level of the intervals: Student's for traces, and what the table was made with.
    order : sequence of str, optional
        Labels in the order in which colours are given out, so that a policy looks the same in several figures; by
        default that of the source.

    Examples
    --------
    >>> from armtriage import FeedbackGraph, Greedy, StochasticEnvironment, UniformRandom, simulate
    >>> graph = FeedbackGraph.semi_bandit(3)
    >>> env = StochasticEnvironment([0.9, 0.5, 0.1], graph, seed=7)
    >>> policies = {"greedy": Greedy(graph, 1, seed=7), "random": UniformRandom(graph, 1, seed=7)}
    >>> traces = {name: simulate(policy, env, horizon=100, replications=4) for name, policy in policies.items()}
    >>> ax = paired_differences(traces, "random")
    >>> ax.get_xlabel(), [text.get_text() for text in ax.get_yticklabels()]
    ('regret minus that of random', ['greedy'])
    """
    if isinstance(source, Mapping):
        rows = trace_rows(_against(source, baseline), level, order)
    else:
        rows = table_rows(source, "difference", order)
    rows = [row for row in rows if row.label != baseline]
    if not rows:
        raise ValueError(f"source must hold a policy other than the baseline {baseline!r}")
    if ax is None:
        ax = row_axes(rows)
        sign(ax, origin(source, level, "intervals, paired"))
    name = f"regret minus that of {baseline}"
    far = sorted(size for row in rows if (size := float(np.nanmax(np.abs([row.value, row.low, row.high])))) > 0)
    if far and (far[-1] > _PLAIN * far[0] if log is None else log):
        near = 10.0 ** math.floor(math.log10(far[0]))
        ax.set_xscale("symlog", linthresh=near, linscale=0.6)
        name += f"\n(log scale beyond ±{short(near)})"
    draw_rows(ax, rows, name, _signed, zero=True)
    return ax


def _signed(value: float) -> str:
    return f"+{short(value)}" if value > 0 else short(value)


def _runs(trace: Trace) -> tuple[int, int, int]:
    return trace.first_replication, trace.regret.shape[0], int(trace.rounds[-1])


def _against(traces: Mapping[str, Trace], baseline: str) -> dict[str, Trace]:
    """Return traces of the last checkpoint's differences, the baseline's among them to keep the others' colours."""
    from dataclasses import replace

    check_traces(traces)
    if baseline not in traces:
        raise ValueError(f"baseline must be one of {', '.join(traces)}, got {baseline!r}")
    base = traces[baseline]
    for label, trace in traces.items():
        if _runs(trace) != _runs(base):
            raise ValueError(
                f"traces must have the same replications and horizon to be paired, got others for {label!r}"
            )
    return {
        label: replace(trace, rounds=trace.rounds[-1:], regret=trace.regret[:, -1:] - base.regret[:, -1:])
        for label, trace in traces.items()
    }
