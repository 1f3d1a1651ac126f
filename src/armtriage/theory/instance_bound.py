"""The bound of Theorem 1 with all means put in: sharper, layer by layer."""

from __future__ import annotations

import numpy as np
from numpy.typing import ArrayLike

from armtriage._arguments import as_numbers
from armtriage.theory._bound import Bound, Bracketed, Floats, make_bound
from armtriage.theory.graph_bounds import BELOW, Elimination

__all__ = ["instance_upper"]

_ABOVE = {8.0: 6.0, 6.0: 4.0}
"""By how many widths an arm that is not confirmed can be better than the S-th best, by the spread of the benchmark."""
_SINGLE = 4096
_FINE = 1.001


def instance_upper(
    means: ArrayLike,
    budget: int,
    *,
    alpha: int | Bracketed,
    horizon: ArrayLike,
    rounds: ArrayLike | None = None,
    delta: float = 0.01,
    undirected: bool = False,
    benchmark: str = "reduced",
    interval: str = "mixture",
    anytime: bool = False,
) -> Bound:
    """Return what `CombinatorialElimination` can lose on these means with probability 1 - delta.

    The sum over layers n = 0, 1, ... of what a layer can lose: as many pulls as there are worse arms still active, at
    most `layer_size` + S - 1; each loses no more than 6 widths w(n), or 8 with the printed benchmark, and no more than
    there is between the arms that may still be active, which are within 4 widths of the S-th best mean.

    Parameters
    ----------
    means : array_like
        The mean of each arm, in [0, 1].
    budget : int
        S.
    alpha, horizon, rounds, delta, undirected, benchmark, interval, anytime
        See `gap_upper`.

    Examples
    --------
    >>> sizes = {"alpha": 20, "horizon": 10**6, "undirected": True}
    >>> means = [0.9] * 5 + [0.3] * 15
    >>> round(instance_upper(means, 5, **sizes).value)
    3853
    >>> from armtriage.theory import gap_upper
    >>> round(gap_upper(n_arms=20, budget=5, gap=0.6, **sizes).value)
    15227
    """
    values = as_numbers("means", means).astype(np.float64)
    if values.ndim != 1 or not values.size or not ((values >= 0.0) & (values <= 1.0)).all():
        raise ValueError(f"means must be a list of numbers in [0, 1], got {means!r:.100}")
    said = Elimination(
        values.size, budget, alpha, horizon, rounds, delta, undirected, benchmark, interval, anytime, "repaired"
    )
    order, pairs = np.sort(values)[::-1], zip(said.scale.flat, said.rounds.flat, strict=True)
    value = np.reshape([_sum(order, said, scale, times) for scale, times in pairs], said.rounds.shape)
    words = f"Theorem 1 with all gaps: {said.words}"
    return make_bound("instance_upper", "upper", "repaired", words, value, said.most, said.conditions)


def _sum(order: Floats, said: Elimination, scale: float, rounds: float) -> float:
    """Return the most that can be lost in so many rounds, for means in falling order."""
    if np.isnan(scale):
        return float("nan")
    best, rest = order[: said.budget], order[said.budget :]
    worse, better = best[-1] - rest, np.unique(best - best[-1])
    # Layers one by one, then in blocks that are charged at the price of their first one, which is the largest.
    many = max(int(np.log(rounds / _SINGLE) / np.log(_FINE)), 0) + 1
    first = np.append(np.arange(_SINGLE), np.ceil(_SINGLE * _FINE ** np.arange(many)))
    first = np.unique(first[first < rounds])
    length = np.diff(np.append(first, rounds))
    width = np.sqrt(np.divide(scale, first, out=np.full(first.size, np.inf), where=first > 0))
    active = np.searchsorted(worse, BELOW * width, side="right")
    excess = better[np.searchsorted(better, _ABOVE[said.spread] * width, side="right") - 1]
    total = np.append(0.0, np.cumsum(worse))
    picks, fill = np.minimum(said.layer, active).astype(np.int64), np.minimum(said.budget - 1, active)
    pulls = (picks + fill).astype(np.float64)
    furthest = np.where(active > 0, excess + np.append(0.0, worse)[active], 0.0)
    price = np.minimum(said.spread * width, furthest)
    layer = np.minimum(
        pulls * price, pulls * excess + 2.0 * total[active] - total[active - picks] - total[active - fill]
    )
    # No layer is skipped, or: the dearest pulls, as many as there are slots.
    slots = np.minimum(np.cumsum(pulls * length), said.budget * rounds)
    return float(min((layer * length).sum(), (np.diff(slots, prepend=0.0) * price).sum()))
