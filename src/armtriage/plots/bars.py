"""Regret at the end, with the interval of its mean."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import TYPE_CHECKING

from armtriage.plots._rows import draw_rows, row_axes
from armtriage.plots._sources import origin, table_rows, trace_rows
from armtriage.plots._style import short, sign
from armtriage.simulation.trace import Trace

if TYPE_CHECKING:
    import polars
    from matplotlib.axes import Axes

__all__ = ["final_regret"]

_PLAIN = 50.0  # ratio of the largest to the least regret up to which a plain scale shows both


def final_regret(
    source: Mapping[str, Trace] | polars.DataFrame,
    ax: Axes | None = None,
    *,
    log: bool | None = None,
    level: float = 0.95,
    order: Sequence[str] | None = None,
) -> Axes:
    """Draw the mean regret at the end as a bar and a dot with its interval, the least at the top.

    Parameters
    ----------
    source : mapping of str to Trace, or DataFrame
        The traces, by label; or a table of one environment with the columns policy, mean, low and high, as
        ``Results.summary`` makes it.
    ax : Axes, optional
        Where to draw; by default a figure of its own, found at ``ax.figure``.
    log : bool, optional
        Log scale, which has dots and no bars; by default where the regrets differ 50 times or more.
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
    >>> ax = final_regret(traces)
    >>> [text.get_text() for text in ax.get_yticklabels()]
    ['greedy', 'random']
    """
    rows = trace_rows(source, level, order) if isinstance(source, Mapping) else table_rows(source, "mean", order)
    if ax is None:
        ax = row_axes(rows)
        sign(ax, origin(source, level))
    positive = [row.value for row in rows if row.value > 0]
    if log is None:
        log = bool(positive) and max(positive) > _PLAIN * min(positive)
    if log and positive:
        ax.set_xscale("log")
    draw_rows(ax, rows, "regret at the end", short, bars=not (log and positive))
    return ax
