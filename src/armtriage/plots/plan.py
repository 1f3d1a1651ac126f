"""A plan as a picture: what is certified, and what is lost, while decisions are made."""

from __future__ import annotations

from typing import TYPE_CHECKING

import numpy as np

from armtriage._numbers import counted
from armtriage.plan import Plan
from armtriage.plots.labels import End, label_ends
from armtriage.plots.style import dress, looks, new_axes, number_ticks, sign

if TYPE_CHECKING:
    from matplotlib.axes import Axes

_LOST = (0, (1.2, 1.2))


def plan_chart(plan: Plan, ax: Axes | None = None) -> Axes:
    """Draw what each strategy is certified to have lost at most, and dotted what it lost, beside the best reward.

    Both are shares of what the best decisions would have earned; lines are medians, bands the range of the runs. A
    circle stands where the certificate begins to speak, a square where the best arms are known for certain.

    Parameters
    ----------
    plan : Plan
        What `armtriage.plan` returned.
    ax : Axes, optional
        Where to draw; by default a figure of its own, found at ``ax.figure``.

    Examples
    --------
    >>> from armtriage import plan
    >>> ax = plan_chart(plan(4, budget=1, rate=0.3, gap=0.4, horizon=2000, replications=2, seed=7))
    >>> [text.get_text() for text in ax.texts]
    ['thompson', 'guarded', 'equal shares']
    """
    own = ax is None
    if ax is None:
        ax = new_axes(5.2, 3.4)
        about = f"{plan.n_arms:,} arms, {plan.budget:,} in a decision, means {plan.rate:g} and {plan.rate + plan.gap:g}"
        lines = f"solid: lost at most, with {100 * plan.confidence:g}% confidence; dotted: lost; medians and ranges"
        sign(ax, f"{about}; {lines} of {counted(plan.replications)}, seed {plan.seed}")
    ends, look, earned = [], looks(one.name for one in plan.strategies), plan.best * plan.rounds
    ax.axhline(1.0, color="0.5", linewidth=0.8)
    for one in plan.strategies:
        colour = look[one.name].colour
        whole = ~np.isnan(one.bounds).any(axis=0)  # until the first run ends
        rounds, least = plan.rounds[whole], 1e-4
        for values, dash, width in ((one.bounds, "solid", 1.6), (one.regret, _LOST, 1.2)):
            share = np.maximum(values[:, whole] / earned[whole], least)
            middle = np.median(share, axis=0)
            ax.plot(rounds, middle, color=colour, linestyle=dash, linewidth=width, label=one.name)
            ax.fill_between(rounds, share.min(axis=0), share.max(axis=0), color=colour, alpha=0.15, linewidth=0)
            if values is one.bounds:
                certified = middle
        ends.append(End(float(certified[-1]), one.name, colour))
        for milestone, marker in ((one.informative, "o"), (one.known, "s")):
            when = milestone.spread()[0]
            if np.isfinite(when) and when <= rounds[-1]:
                level = float(np.exp(np.interp(np.log(when), np.log(rounds), np.log(certified))))
                ax.plot([when], [level], marker, color=colour, markersize=5, markeredgecolor="white")
    ax.set_xscale("log")
    ax.set_yscale("log")
    ax.set_xlim(plan.rounds[0], plan.horizon)
    dress(ax, "decisions", "loss / what the best would have earned", grid="both")
    number_ticks(ax.xaxis)
    number_ticks(ax.yaxis)
    label_ends(ax, ends, grow=own)
    return ax
