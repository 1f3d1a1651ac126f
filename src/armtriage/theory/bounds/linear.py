"""Bounds for linear contexts: Theorems 5 and 6, and those of guards."""

from __future__ import annotations

import math

import numpy as np
from numpy.typing import ArrayLike

from armtriage._arguments import check_choice, check_count, check_flag, check_number, check_probability
from armtriage.kernels.record import Floats
from armtriage.theory.bounds.bound import Bound, as_horizons, check_budget, check_constants, make_bound, pair_regret

_SPREAD = {"tight": 12.0, "repaired": 16.0}
"""By how many units 2^-h the arms of stage h can differ."""
_TWO_POINT = math.sqrt(3.0 / 32.0)  # the mean that is hidden best among so many rewards, times their root
_BASE = 0.25
_GRID = 96
_LOG_2 = math.log(2.0)
_ROUNDED = 0.75 * math.sqrt(2.0)  # (2^x + 2^-x) / 2 at the ends of an interval of length 1 around 0
_LEAST_RIDGE = 1e-8  # that of the policy


def linear_upper(
    *,
    n_arms: int,
    dimension: int,
    budget: int,
    horizon: ArrayLike,
    delta: float = 0.01,
    variant: str = "tight",
    noise_scale: float = 1.0,
    constants: str = "repaired",
) -> Bound:
    """Return the bound of Theorem 5 on the regret of `HierarchicalElimination`, of order sqrt(d S T) ln(K S T).

    It is ``s (2.55 m sqrt(L S T) + 1.45 L S + sqrt(S T))`` for L = d ln(1 + S T / d), a width that is m times the norm
    of a context, and s = 16, or 12 if tight: the arms of stage h differ by s units 2^-h, and a stage learns from at
    most L / ln 2 times m^2 4^h + S arms. No constant is printed. Counted in this way, neither the number of stages nor
    the logarithm of the lemma on the potential is a factor. The ``"paper"`` variant has no bound, because its benchmark
    can eliminate one of the best arms.

    Parameters
    ----------
    n_arms, dimension, budget : int
        K, d and S.
    horizon : int or array of int
        T; several give an array of values.
    delta, variant, noise_scale
        Those of the policy. If tight, the bound holds with probability 1 - delta, if repaired, with 1 - H / T.
    constants : {"repaired", "printed"}
        The latter has no value.

    Examples
    --------
    >>> sizes = {"n_arms": 100, "dimension": 10, "budget": 5, "horizon": 10**6}
    >>> bound = linear_upper(**sizes)
    >>> round(bound.value), bound.vacuous
    (6491129, False)
    """
    n_arms, budget = check_budget(n_arms, budget)
    d, times = check_count("dimension", dimension, 1), as_horizons(horizon)
    delta, noise = check_probability("delta", delta), check_number("noise_scale", noise_scale)
    spread = _SPREAD[check_choice("variant", variant, tuple(_SPREAD))]
    stages = np.maximum(1.0, np.ceil(0.5 * np.log2(budget * times)))
    union = np.log(2.0 * n_arms * times)
    if variant == "tight":
        multiple = noise * np.sqrt(2.0 * (union + np.log(stages) - math.log(delta))) + 1.0
    else:
        multiple = 2.0 * (1.0 + np.sqrt(union))
    value = spread * _staged(multiple, _potential(d, budget * times, 1.0), budget, times)
    asked = [(check_constants(constants) == "repaired", "a constant; none is printed")]
    chance = "1 - delta" if variant == "tight" else "1 - H / T"
    words = f"Theorem 5: with probability {chance}, the regret of HierarchicalElimination is at most this"
    return make_bound("linear_upper", "upper", constants, words, value, 2.0 * budget * times, asked)


def guarded_linear_upper(
    *,
    dimension: int,
    budget: int,
    horizon: ArrayLike,
    delta: float = 0.01,
    factor: float = 1.0,
    norm_bound: float = 1.0,
    noise_scale: float = 1.0,
    width: float = 2.0,
) -> Bound:
    """Return the bound on the regret of `GuardedLinear`, of order d sqrt(S T) ln(S T), for all T at once.

    It is 1 + `factor` times ``F = min(w S T, 2 b sqrt(L S T / ln 2) + w S L / ln 2)`` with L = d ln(1 + S T / (d r)),
    b^2 = sigma^2 (L + 2 ln(1 / delta)) + r B^2, r = sigma^2 d / B^2, and means in a range of width w. It asks nothing
    of how contexts are chosen, but rewards that are told before the next ask.

    Parameters
    ----------
    dimension, budget : int
        d and S.
    horizon : int or array of int
        T; several give an array of values.
    delta, factor, norm_bound, noise_scale
        Those of the policy.
    width : float
        The width of `reward_range`, in units of its largest absolute value: 2, or 1 for clicks.

    Examples
    --------
    >>> bound = guarded_linear_upper(dimension=5, budget=5, horizon=40_000, factor=0.0)
    >>> round(bound.value)
    56034
    """
    d, budget, times = check_count("dimension", dimension, 1), check_count("budget", budget, 1), as_horizons(horizon)
    words = "with probability 1 - delta, the regret of GuardedLinear is at most this, at all times"
    law = (delta, factor, norm_bound, noise_scale, width)
    limits = _guarded(d, 1, budget * times, 1, budget, times, *law)
    return make_bound("guarded_linear_upper", "upper", "repaired", words, *limits)


def guarded_by_arm_upper(
    *,
    n_arms: int,
    dimension: int,
    budget: int,
    horizon: ArrayLike,
    delta: float = 0.01,
    factor: float = 1.0,
    norm_bound: float = 1.0,
    noise_scale: float = 1.0,
    width: float = 2.0,
    coming: bool = False,
) -> Bound:
    """Return the bound that `GuardedLinear` keeps where each arm has a theta of its own, of order d sqrt(K S T).

    It is what ``model="disjoint"`` and ``"hybrid"`` promise: 1 + `factor` times ``F = min(w S T,
    2 b sqrt(L S T / ln 2) + w S L / ln 2)`` with L = K d ln(1 + S T / (K d r)), the potential of all arms together, and
    b^2 = sigma^2 (d ln(1 + T / (d r)) + 2 ln(K / delta)) + r B^2 for one that was played in every round,
    r = sigma^2 d / B^2.

    Parameters
    ----------
    n_arms, dimension, budget : int
        K, d and S.
    horizon : int or array of int
        T; several give an array of values.
    delta, factor, norm_bound, noise_scale, width
        As for `guarded_linear_upper`.
    coming : bool
        Whether arms come as they come, without `n_arms` in the policy: K (K + 1) then stands for K in b.

    Examples
    --------
    >>> sizes = {"dimension": 5, "budget": 5, "horizon": 400_000}
    >>> round(guarded_by_arm_upper(n_arms=50, **sizes).value / guarded_linear_upper(**sizes).value, 1)
    5.8
    """
    n_arms, budget = check_budget(n_arms, budget)
    d, times = check_count("dimension", dimension, 1), as_horizons(horizon)
    parts = n_arms * (n_arms + 1) if check_flag("coming", coming) else n_arms
    words = "with probability 1 - delta, GuardedLinear with a theta for each arm loses at most this, at all times"
    law = (delta, factor, norm_bound, noise_scale, width)
    limits = _guarded(d, n_arms, times, parts, budget, times, *law)
    return make_bound("guarded_by_arm_upper", "upper", "repaired", words, *limits)


def _potential(dimension: int, pulls: Floats, ridge: float) -> Floats:
    """Return the most that ln det(V / ridge) can be."""
    return np.asarray(dimension * np.log1p(pulls / (dimension * ridge)))


def _guarded(
    d: int,
    thetas: int,
    pulls: Floats,
    parts: int,
    budget: int,
    times: Floats,
    delta: float,
    factor: float,
    norm_bound: float,
    noise_scale: float,
    width: float,
) -> tuple[Floats, Floats]:
    """Return 1 + `factor` times what optimism over `thetas` parameters loses, and the most that can be lost.

    Each parameter has at most `pulls` rewards, and its interval fails with probability `delta` / `parts`.
    """
    delta, noise = check_probability("delta", delta), check_number("noise_scale", noise_scale)
    longest, width = check_number("norm_bound", norm_bound, positive=True), check_number("width", width, positive=True)
    share = 1.0 + check_number("factor", factor)
    ridge = max(noise**2 * d / longest**2, _LEAST_RIDGE)
    grown = _potential(thetas * d, budget * times, ridge)
    radius = np.sqrt(noise**2 * (_potential(d, pulls, ridge) + 2.0 * math.log(parts / delta)) + ridge * longest**2)
    most = width * budget * times
    optimism = 2.0 * radius * np.sqrt(grown / _LOG_2 * budget * times) + width * budget * grown / _LOG_2
    return share * np.minimum(most, optimism), most


def _staged(multiple: Floats, grown: Floats, budget: int, times: Floats) -> Floats:
    """Return what stages lose, in units of their spread.

    Of the pulls of stage h there are at most a (m^2 4^h + S), a = L / ln 2. Stages up to h0 then cost
    2 a m^2 2^h0 + a S units, and all that comes later 2^-h0 S T / 2; a whole number h0 costs 1.061 times the best.
    """
    pulls = budget * times
    first = 2.0 * _ROUNDED * multiple * np.sqrt(grown / _LOG_2 * pulls)
    return np.asarray(first + grown / _LOG_2 * budget + np.sqrt(pulls))


def linear_lower(*, n_arms: int, dimension: int, budget: int, horizon: ArrayLike, constants: str = "repaired") -> Bound:
    """Return the bound of Theorem 6 on what every policy loses on some instance, of order sqrt(d S T).

    The largest of three: ``sqrt(S T)`` times sqrt(3/32) / 4 = 0.0765, for `linear_one_dimension`; the same for groups
    of arms, up to 0.0765 sqrt(min(d, S) S T), for `linear_few_dimensions`; and for d > 2S the sum over the tasks of
    `linear_blocks` of what `full_information_lower` gives for its pairs, about 0.11 sqrt(d S T), with the gap that
    makes it largest. Printed are ``sqrt(S T) / 3`` for d = 1, by a slip, and no constant for others.

    Parameters
    ----------
    n_arms, dimension, budget : int
        K, at least 2S, d and S.
    horizon : int or array of int
        T, at least 4 d S and d^3 / S; several give an array of values.
    constants : {"repaired", "printed"}
        Whose proof.

    Examples
    --------
    >>> linear_lower(n_arms=20, dimension=41, budget=5, horizon=[10**4, 10**6]).value.round(1)
    array([   nan, 1543.9])
    """
    n_arms, budget = check_budget(n_arms, budget)
    d, times = check_count("dimension", dimension, 1), as_horizons(horizon)
    asked = [
        (n_arms >= 2 * budget, "K >= 2 S"),
        (times >= max(4 * d * budget, d**3 / budget), "T >= 4 d S and d^3 / S"),
    ]
    if check_constants(constants) == "printed":
        asked += [(d == 1, "d = 1; no other constant is printed")]
        value = np.sqrt(budget * times) / 3.0
    else:
        groups = min(d, budget)
        arms = groups * (budget // groups)
        few = 0.25 * _TWO_POINT * arms * np.sqrt(groups * times / budget)
        value = np.maximum(
            np.maximum(0.25 * _TWO_POINT * np.sqrt(budget * times), few), _blocks_regret(d, budget, times)
        )
    words = "Theorem 6: on some instance the expected regret is at least this"
    return make_bound("linear_lower", "lower", constants, words, value, 2.0 * budget * times, asked)


def _blocks_regret(dimension: int, budget: int, times: Floats) -> Floats:
    """Return the sum over blocks for the best of a grid of gaps; the norm of theta, 1/8 + 2 n S gap^2, is at most 1."""
    blocks = (dimension - 1) // (2 * budget)
    if not blocks:
        return np.zeros(times.shape)
    length = np.floor(times / blocks)[..., np.newaxis]
    gaps = np.geomspace(1e-2, 4.0, _GRID) / np.sqrt(np.maximum(length, 1.0))
    gaps = np.minimum(gaps, min(math.sqrt(7.0 / (16.0 * blocks * budget)), 0.5))
    return np.asarray(blocks * pair_regret(budget, gaps, _BASE, length, unit=0.5).max(axis=-1))
