"""Bounds for constrained decisions: the theorem on Algorithm 5, and what it is worth."""

from __future__ import annotations

import math

import numpy as np
from numpy.typing import ArrayLike

from armtriage._arguments import check_choice, check_flag, check_probability
from armtriage.intervals import INTERVALS
from armtriage.theory.bounds.bound import (
    Bound,
    as_horizons,
    check_budget,
    check_constants,
    check_gap,
    divergence,
    log_term,
    make_bound,
    two_point_regret,
)
from armtriage.theory.bounds.graph import width_scale
from armtriage.theory.numbers import Bracket, at_most, layer_size

_SCALES = {"printed": 1.0, "hoeffding": 0.5}


def constrained_upper(
    *,
    n_arms: int,
    budget: int,
    cover: int | Bracket,
    horizon: ArrayLike,
    gap: float,
    delta: float = 0.01,
    interval: str = "printed",
    exact: bool = True,
    constants: str = "repaired",
) -> Bound:
    """Return the bound of Theorem 7 on the regret of `ConstrainedElimination`, of order S^2 kappa ln(KT) / gap.

    It is ``S kappa (1 + 32 L S / gap)`` with L = ln(2KT/delta), half of that with Hoeffding's interval, and holds with
    probability 1 - delta for ``variant="repaired"``. There kappa is `active_cover_number`. As printed, kappa is
    `cover_number`; that is false, because a cover by eliminated decisions can be arbitrarily bad.

    Parameters
    ----------
    n_arms, budget : int
        K, and the size S of the largest decision.
    cover : int or Bracket
        kappa, the one that `constants` asks for; of a bracket the upper end counts.
    horizon : int or array of int
        T; several give an array of values.
    gap : float
        From the best decision to the best of those that are worse; infinite if there is none.
    delta, interval
        Those of the policy.
    exact : bool
        Whether the policy finds smallest covers; a greedy one is at most 1 + ln(K) times as large.
    constants : {"repaired", "printed"}
        Whose theorem.

    Examples
    --------
    >>> bound = constrained_upper(n_arms=12, budget=3, cover=4, horizon=10**6, gap=0.9)
    >>> round(bound.value)
    27658
    """
    n_arms, budget = check_budget(n_arms, budget)
    times, gap = as_horizons(horizon), check_gap(gap)
    check_constants(constants)
    scale = _SCALES[check_choice("interval", interval, tuple(_SCALES))] * log_term(
        n_arms, times, check_probability("delta", delta)
    )
    most = at_most("cover", cover, 2**53) * (1.0 if check_flag("exact", exact) else 1.0 + math.log(n_arms))
    value = budget * most * (1.0 + 32.0 * scale * budget / gap)
    words = "Theorem 7: with probability 1 - delta, the regret of ConstrainedElimination, repaired, is at most this"
    if constants == "printed":
        words = "Theorem 7 as printed, which is false: kappa does not bound the regret of Algorithm 5"
    return make_bound("constrained_upper", "upper", constants, words, value, budget * times)


def oracle_upper(
    *,
    n_arms: int,
    budget: int,
    alpha: int | Bracket,
    horizon: ArrayLike,
    gap: float,
    delta: float = 0.01,
    undirected: bool = False,
    interval: str = "mixture",
    anytime: bool = False,
) -> Bound:
    """Return a bound on the regret of `ConstrainedElimination` by oracle, its default, of order S^2 B ln(KT) / gap.

    It is ``2 S B + 40 S^2 B L / gap`` with ``B = layer_size`` and, for the default interval,
    ``L = ln(2K/delta) + ln(T)/2``; it holds with probability 1 - delta. The page on elimination over decision sets has
    the proof. The algorithm is not the paper's.

    Parameters
    ----------
    n_arms, budget, horizon, gap
        See `constrained_upper`.
    alpha : int or Bracket
        The independence number of the graph; of a bracket the upper end counts.
    delta, interval
        Those of the policy.
    undirected : bool
        Whether every edge of the graph goes both ways.
    anytime : bool
        Whether the policy was made without a horizon.

    Examples
    --------
    >>> bound = oracle_upper(n_arms=12, budget=3, alpha=12, horizon=10**6, gap=0.9, undirected=True)
    >>> round(bound.value)
    70589
    """
    n_arms, budget = check_budget(n_arms, budget)
    times, gap = as_horizons(horizon), check_gap(gap)
    layer = layer_size(n_arms, alpha, undirected=undirected)
    check_choice("interval", interval, INTERVALS)
    scale = width_scale(interval, n_arms, times, check_probability("delta", delta), check_flag("anytime", anytime))
    asked = [(scale is not None, f"an interval of known width, which {interval} is not here")]
    value = budget * layer * (2.0 + 80.0 * budget * (np.nan if scale is None else scale) / gap)
    words = "elimination by oracle: with probability 1 - delta, the regret of ConstrainedElimination is at most this"
    return make_bound("oracle_upper", "upper", "repaired", words, value, budget * times, asked)


def constrained_lower(
    *, n_arms: int, budget: int, horizon: ArrayLike, gap: float, constants: str = "repaired"
) -> Bound:
    """Return what every policy loses on a `partition`, or on one with another best block, of order K S ln(T) / gap.

    Arms of a block share one draw in each round, so a block is one arm of a bandit with K / S arms, and rewards of 0 or
    S. The paper cites a bound that holds as T grows; this one holds for every T. It solves
    ``R = m ln(gap T / (8 R)) / kl(1/2 - g, 1/2 + g)`` with ``m = gap (K / S - 1)`` and ``g = gap / S``.

    Parameters
    ----------
    n_arms, budget : int
        K, a multiple of S from 2S on, and S.
    horizon : int or array of int
        T; several give an array of values.
    gap : float
        How much better the best block is, at most S / 2.
    constants : {"repaired", "printed"}
        The latter has no value.

    Examples
    --------
    >>> round(constrained_lower(n_arms=12, budget=3, horizon=10**6, gap=0.9).value)
    27
    """
    n_arms, budget = check_budget(n_arms, budget)
    times, gap = as_horizons(horizon), check_gap(gap)
    asked = [
        (n_arms % budget == 0 and n_arms > budget, "K a multiple of S, from 2 S on"),
        (gap < 0.5 * budget, "gap < S / 2"),
        (check_constants(constants) == "repaired", "a constant; none is printed"),
    ]
    half = min(gap / budget, 0.49)
    rate = gap * max(n_arms // budget - 1, 1)
    value = two_point_regret(rate, float(divergence(0.5 - half, 0.5 + half)), gap, times)
    words = "Theorem 7: on a partition, or one whose best block is another, the expected regret is at least this"
    return make_bound("constrained_lower", "lower", constants, words, value, budget * times, asked)
