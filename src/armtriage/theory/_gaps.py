"""How much worse than the best the next best is, for arms and for decisions."""

from __future__ import annotations

import numpy as np
from numpy.typing import NDArray

from armtriage.decisions import DecisionSet, PartitionMatroid

__all__ = ["gap_of_arms", "gap_of_decisions"]

Floats = NDArray[np.float64]

_TIES = 1000
_ROUNDING = 1e-12
"""By how much means or totals may differ that were meant to be equal."""


def gap_of_arms(means: Floats, budget: int) -> float:
    """Return the `budget`-th largest mean minus the next smaller one; infinite if there is none."""
    last = np.partition(means, means.size - budget)[means.size - budget]
    below = means[means < last - _ROUNDING]
    return float(last - below.max()) if below.size else np.inf


def gap_of_decisions(means: Floats, decisions: DecisionSet) -> float:
    """Return the largest total mean of a decision minus the next smaller one; infinite if there is none."""
    # Sums of such multiples are exact in floating point, so an oracle cannot mistake the best decision.
    bits = 50 - decisions.size.bit_length()
    weights = np.ldexp(np.rint(np.ldexp(means, bits)), -bits)
    rounding = max(_ROUNDING, decisions.size * 2.0**-bits)
    if isinstance(decisions, PartitionMatroid):
        return _gap_by_swaps(weights, decisions, rounding)
    return _gap_by_oracle(weights, decisions, rounding)


def _gap_by_swaps(weights: Floats, slates: PartitionMatroid, rounding: float) -> float:
    """Return the smallest loss of a swap inside a group: a worse slate differs by swaps, one of which loses no more."""
    best = slates.maximise(weights)
    chosen = np.zeros(slates.n_arms, np.bool_)
    chosen[best] = True
    gap = np.inf
    for group in range(slates.capacities.size):
        inside = np.unique(weights[chosen & (slates.groups == group)])
        outside = np.unique(weights[~chosen & (slates.groups == group)])
        below = np.searchsorted(outside, inside - rounding)
        losses = inside[below > 0] - outside[below[below > 0] - 1]
        gap = min(gap, float(losses.min(initial=np.inf)))
    return gap


def _gap_by_oracle(weights: Floats, decisions: DecisionSet, rounding: float) -> float:
    """Return the gap by questions with arms forced in and out.

    If every other decision is worse than the best, then the next best is the best with some arm more or less. Where one
    ties, the family is split by an arm on which the two differ; there are as many ends as decisions that tie.
    """
    best = decisions.maximise(weights)
    assert best is not None
    top = float(weights[best].sum())
    gap, ends = np.inf, 0
    parts: list[tuple[list[int], list[int]]] = [([], [])]
    while parts:
        include, exclude = parts.pop()
        inside = top - decisions.maximise_each_including(weights, include=include, exclude=exclude)
        outside = top - decisions.maximise_each_excluding(weights, include=include, exclude=exclude)
        losses = np.concatenate([inside, outside])
        gap = min(gap, float(losses[losses > rounding].min(initial=np.inf)))
        tied = np.flatnonzero((inside <= rounding) & (outside <= rounding))
        if tied.size:
            parts += [([*include, int(tied[0])], exclude), (include, [*exclude, int(tied[0])])]
        else:
            ends += 1
        if ends + len(parts) > _TIES:
            raise ValueError(f"at most {_TIES} decisions may tie for the best, got more in {decisions!r}")
    return gap
