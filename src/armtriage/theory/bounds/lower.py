"""Lower bounds under graph feedback: Theorem 2, the minimax rate, and the failure of UCB."""

from __future__ import annotations

import math

import numpy as np
from numpy.typing import ArrayLike

from armtriage._arguments import check_count, check_number, check_probability
from armtriage.kernels.record import Floats
from armtriage.theory.bounds.bound import (
    Bound,
    as_horizons,
    at_least,
    check_budget,
    check_constants,
    check_gap,
    divergence,
    log_term,
    make_bound,
    pair_regret,
    two_point_regret,
)
from armtriage.theory.numbers import Bracket

_BASE = 0.25  # mean of an arm that may hide a better one
_GRID = 96


def gap_lower(
    *,
    budget: int,
    alpha: int | Bracket,
    horizon: ArrayLike,
    gap: float,
    n_arms: int | None = None,
    constant: float | None = None,
    exponent: float = 0.0,
    constants: str = "repaired",
) -> Bound:
    """Return the bound (L1) of Theorem 2, of order min(alpha / gap, 1 / gap**2) ln(T), for the family of `hidden_arm`.

    Every policy loses as much on one of its instances. With ``m = min(gap (alpha - S), 1/4)`` and the divergence
    ``k = kl(1/4, 1/4 + 2 gap)``, it is the R that solves ``R = m ln(gap T / (8 R)) / k``. The paper asks for a policy
    that loses at most C T^p on all instances of the family, and then has ``m ln(gap T^(1-p) / (16 C)) / k``, which is
    returned if `constant` is given. As printed, the divergence is too small by a factor of 2 or so, and for
    gap > 1 / (4 alpha) a step has R / 4 where it should have 4 R, so that the value can be larger than what holds.

    Parameters
    ----------
    budget : int
        S.
    alpha : int or Bracket
        The independence number, from 2S; of a bracket the lower end counts.
    horizon : int or array of int
        T; several give an array of values.
    gap : float
        From the S-th best mean to the next, at most 1/4.
    n_arms : int, optional
        K. If it equals alpha, no arm reveals another, and m is gap (alpha - S): 1/4 is the price of an arm that does.
    constant, exponent : float
        C and p, if the policy is known to lose at most C T^p on each instance of the family.
    constants : {"repaired", "printed"}
        Whose proof; the printed one needs `constant`.

    Examples
    --------
    >>> sizes = {"budget": 2, "alpha": 20, "horizon": 10**6, "gap": 0.01}
    >>> round(gap_lower(**sizes).value)
    268
    >>> gap_lower(**sizes, constant=10.0, exponent=0.5).reason
    'needs gap T^(1 - p) > 16 C'
    >>> gap_lower(budget=2, alpha=3, horizon=10**6, gap=0.01).reason
    'needs alpha >= 2 S'
    """
    budget = check_count("budget", budget, 1)
    size, times, gap = at_least("alpha", alpha, 2**53), as_horizons(horizon), check_gap(gap)
    printed = check_constants(constants) == "printed"
    asked: list[tuple[object, str]] = [(size >= 2 * budget, "alpha >= 2 S"), (gap <= 0.25, "gap <= 1/4")]
    slope = gap * max(size - budget, 1)
    if n_arms is None or check_count("n_arms", n_arms, size) > size or printed:
        slope = min(slope, _BASE)
    information = float(divergence(_BASE, _BASE + 2.0 * min(gap, 0.25)))
    if constant is None:
        asked += [(not printed, "constant and exponent, if printed")]
        value = two_point_regret(slope, information, gap, times)
    else:
        rate = 1.0 - check_number("exponent", exponent)
        asked += [(rate > 0.0, "exponent < 1"), (gap > times**-rate, "gap > T^-(1 - p)")]
        logarithm = np.log(gap * times**rate / (16.0 * check_number("constant", constant, positive=True)))
        asked += [(logarithm > 0.0, "gap T^(1 - p) > 16 C")]
        flat = 3.0 * size / (32.0 * gap) if gap <= 0.25 / size else 3.0 / (136.0 * gap**2)
        value = logarithm * (flat if printed else slope / information)
    words = "Theorem 2 (L1): on one instance of the family of hidden_arm, the expected regret is at least this"
    return make_bound("gap_lower", "lower", constants, words, value, budget * times, asked)


def full_information_lower(
    *, n_arms: int, budget: int, horizon: ArrayLike, gap: float, constants: str = "repaired"
) -> Bound:
    """Return the bound (L2) of Theorem 2, of order min(S / gap, S gap T), for the family of `hidden_pairs`.

    Every policy loses as much on average over the family, whatever the graph reveals. It is
    ``(S gap / 4) (1 - q^T) / (1 - q)`` where ``-ln(q)`` is what a round tells of one pair. As printed, q is
    ``exp(-16 gap**2 / 3)``, which is a little smaller, and only the first ``min(T, gap**-2)`` rounds are summed.

    A step of the proof takes "the good arm is not played" for "the bad arm is played", pair by pair, which is
    wrong. Both happen equally often, and half the sum of the two gives the same constant.

    Parameters
    ----------
    n_arms, budget : int
        K, at least 2S, and S.
    horizon : int or array of int
        T; several give an array of values.
    gap : float
        How much better the good arm of a pair is, at most 1/2.
    constants : {"repaired", "printed"}
        Whose proof.

    Examples
    --------
    >>> sizes = {"n_arms": 20, "budget": 5, "gap": 0.1}
    >>> full_information_lower(**sizes, horizon=[10, 100, 1000]).value.round(2)
    array([1.02, 2.65, 2.67])
    """
    n_arms, budget = check_budget(n_arms, budget)
    times, gap = as_horizons(horizon), check_gap(gap)
    asked = [(n_arms >= 2 * budget, "K >= 2 S"), (gap <= 0.5, "gap <= 1/2")]
    if check_constants(constants) == "printed":
        value = 0.25 * budget * gap * math.exp(-16.0 / 3.0) * np.minimum(times, gap**-2.0)
    else:
        value = pair_regret(budget, min(gap, 0.5), _BASE, times)
    words = "Theorem 2 (L2): on average over the instances of hidden_pairs, the expected regret is at least this"
    return make_bound("full_information_lower", "lower", constants, words, value, budget * times, asked)


def minimax_lower(
    *,
    n_arms: int,
    budget: int,
    alpha: int | Bracket,
    horizon: ArrayLike,
    constants: str = "repaired",
) -> Bound:
    """Return a lower bound of order sqrt(alpha S T) + S sqrt(T): what every policy loses on some instance.

    The larger of two. One is `full_information_lower` for the gap that makes it largest, about 0.069 S sqrt(T). The
    other is for `hidden_parts`: S parts of n = alpha // S arms, in each of which one is better by e. For every e and
    every y > 1 it is

    ``e S T (1 - 1/y - (y + S/T) / n - sqrt(kl(1/4, 1/4 + e) ((y T + S) / n + Z + 1) / 2))``

    with ``Z = 4 e S T (1 - 1/y)``; for large T at most 0.055 sqrt(alpha S T). The paper cites this rate from elsewhere,
    without a constant. The proof is on the page on bounds.

    Parameters
    ----------
    n_arms, budget : int
        K, at least 2S, and S.
    alpha : int or Bracket
        The independence number; of a bracket the lower end counts.
    horizon : int or array of int
        T; several give an array of values.
    constants : {"repaired", "printed"}
        The latter has no value.

    Examples
    --------
    >>> minimax_lower(n_arms=1000, budget=5, alpha=500, horizon=[10**4, 10**6]).value.round()
    array([ 153., 2317.])
    """
    n_arms, budget = check_budget(n_arms, budget)
    times, size = as_horizons(horizon), at_least("alpha", alpha, n_arms)
    asked = [
        (n_arms >= 2 * budget, "K >= 2 S"),
        (check_constants(constants) == "repaired", "a constant; none is printed"),
    ]
    steps = np.geomspace(1e-3, 3.0, _GRID)
    gaps = np.minimum(steps / np.sqrt(times)[..., np.newaxis], 0.5)
    value = pair_regret(budget, gaps, _BASE, times[..., np.newaxis]).max(axis=-1)
    if size >= 5 * budget:
        value = np.maximum(value, _parts_regret(budget, size // budget, times))
    words = "Theorem 1.3 of Wen (2025): on some instance of hidden_parts or hidden_pairs the regret is at least this"
    return make_bound("minimax_lower", "lower", constants, words, value, budget * times, asked)


def _parts_regret(budget: int, size: int, times: Floats) -> Floats:
    """Return the largest value of the formula of `minimax_lower` over a grid of e and y."""
    horizon = times[..., np.newaxis, np.newaxis]
    gap = np.minimum(np.geomspace(1e-3, 2.0, _GRID)[:, np.newaxis] * np.sqrt(size / horizon), 0.5)
    share = np.linspace(1.05, min(size / 1.05, 12.0), _GRID)
    idle = 1.0 - 1.0 / share
    outside = 4.0 * gap * budget * horizon * idle
    seen = (share * horizon + budget) / size + outside + 1.0
    found = (share + budget / horizon) / size + np.sqrt(0.5 * divergence(_BASE, _BASE + gap) * seen)
    return np.asarray((gap * budget * horizon * (idle - found)).max(axis=(-2, -1)))


def ucb_lower(
    *,
    n_arms: int,
    budget: int,
    alpha: int | Bracket,
    horizon: ArrayLike,
    width: float | None = None,
    delta: float = 0.01,
    constants: str = "repaired",
) -> Bound:
    """Return what `CombinatorialUCB` loses on the instance of `ucb_failure`, of order S sqrt(alpha T) (Theorem 4).

    It is ``L S sqrt(alpha T)`` times 1/32 as printed, and times ``(alpha - 1) / (4 (alpha + 2))`` if the last steps of
    the proof are not rounded down. Rewards must be deterministic, or else equal inside a clique; with noise of its own
    in each arm UCB does not fail.

    Parameters
    ----------
    n_arms, budget : int
        K and S.
    alpha : int or Bracket
        The number of cliques, above 1 and at most K / S; of a bracket the lower end counts.
    horizon : int or array of int
        T, at least alpha L**2, so that means lie in [0, 1]; several give an array of values.
    width : float, optional
        L, the width of the policy; by default ``sqrt(ln(2 K T / delta))``, its own default.
    delta : float
        The delta of the policy.
    constants : {"repaired", "printed"}
        Whose constant.

    Examples
    --------
    >>> sizes = {"n_arms": 256, "budget": 16, "alpha": 16, "horizon": 10**5}
    >>> round(ucb_lower(**sizes).value), round(ucb_lower(**sizes, constants="printed").value)
    (19936, 2990)
    """
    n_arms, budget = check_budget(n_arms, budget)
    size, times = at_least("alpha", alpha, n_arms), as_horizons(horizon)
    squared = log_term(n_arms, times, check_probability("delta", delta))
    if width is not None:
        squared = np.full(times.shape, check_number("width", width) ** 2)
    share = 1.0 / 32.0 if check_constants(constants) == "printed" else (size - 1.0) / (4.0 * (size + 2.0))
    asked = [
        (budget * size <= n_arms, "S alpha <= K"),
        (size > 1, "alpha > 1"),
        (times >= size * squared, "T >= alpha L^2"),
    ]
    words = "Theorem 4: the regret of CombinatorialUCB on ucb_failure, with deterministic rewards, is at least this"
    value = share * budget * np.sqrt(size * squared * times)
    return make_bound("ucb_lower", "lower", constants, words, value, budget * times, asked)
