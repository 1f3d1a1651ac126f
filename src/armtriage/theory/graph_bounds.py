"""Upper bounds under graph feedback: Theorems 1 and 3, and UCB with full information."""

from __future__ import annotations

import math

import numpy as np
from numpy.typing import ArrayLike

from armtriage._arguments import check_choice, check_flag, check_probability
from armtriage.intervals import INTERVALS
from armtriage.theory._bound import (
    Bound,
    Bracketed,
    Floats,
    as_horizons,
    at_most,
    check_budget,
    check_constants,
    check_gap,
    log_term,
    make_bound,
)

__all__ = [
    "BELOW",
    "BENCHMARKS",
    "Elimination",
    "gap_upper",
    "layer_size",
    "minimax_upper",
    "ucb_full_information_upper",
    "width_scale",
]

BENCHMARKS = {"reduced": 6.0, "printed": 8.0}
"""By how many widths active arms can differ under each benchmark."""
BELOW = 4.0
"""By how many widths an active arm can be worse than the S-th best, under either."""


def layer_size(n_arms: int, alpha: int | Bracketed, *, undirected: bool = False, constants: str = "repaired") -> float:
    """Return how many arms the greedy of Algorithm 1 picks at most to see every active arm once.

    That is alpha on undirected graphs, ``alpha + ceil(2 alpha ln(K / alpha))`` on directed ones. The printed
    ``100 alpha ln(K)**2`` follows from a lemma that is false for this greedy, and is far larger.

    Parameters
    ----------
    n_arms : int
        K.
    alpha : int or Bracket
        The independence number; of a bracket the upper end counts.
    undirected : bool
        Whether every edge goes both ways.
    constants : {"repaired", "printed"}
        Which of the two.

    Examples
    --------
    >>> layer_size(100, 10), layer_size(100, 10, undirected=True)
    (57.0, 10.0)
    >>> round(layer_size(100, 10, constants="printed"))
    21208
    """
    n_arms, _ = check_budget(n_arms, 1)
    size = at_most("alpha", alpha, n_arms)
    if check_constants(constants) == "printed":
        return 100.0 * size * math.log(n_arms) ** 2
    if check_flag("undirected", undirected):
        return float(size)
    # Never more than all arms: a pick is never picked again in a layer.
    return float(min(size + math.ceil(2.0 * size * math.log(n_arms / size)), n_arms))


def width_scale(interval: str, n_arms: int, horizon: Floats, delta: float, anytime: bool) -> Floats | None:
    """Return v such that the half-width after n <= T rewards is at most sqrt(v / n); None if there is no such number.

    For kl and mixture this is Pinsker's inequality.
    """
    if interval == "mixture":
        return 0.5 * (math.log(2.0 * n_arms / delta) + 0.5 * np.log(horizon))
    if anytime and interval == "hoeffding":
        return 0.85**2 * (np.log(np.log(2.0 * horizon)) + 0.72 * math.log(10.4 * n_arms / delta))
    if anytime and interval == "kl":
        octave = np.frexp(horizon)[1]
        return 0.55 * np.log(16.0 * n_arms * octave * (octave + 1.0) / delta)
    share = {"printed": 1.0, "hoeffding": 0.5, "kl": 0.5}.get(interval)
    return None if share is None or anytime else share * log_term(n_arms, horizon, delta)


def gap_upper(
    *,
    n_arms: int,
    budget: int,
    alpha: int | Bracketed,
    horizon: ArrayLike,
    gap: float,
    tie_gap: float | None = None,
    rounds: ArrayLike | None = None,
    delta: float = 0.01,
    undirected: bool = False,
    benchmark: str = "reduced",
    interval: str = "mixture",
    anytime: bool = False,
    constants: str = "repaired",
) -> Bound:
    """Return the bound of Theorem 1 on the regret of `CombinatorialElimination`, of order (alpha + S) ln(KT) / gap.

    It is ``B (1 + c L / gap)`` with ``B = layer_size + S``, and holds with probability 1 - delta. L is ln(2KT/delta);
    c is 128 as printed, 64 by a closer look at the proof, 32 with Hoeffding's interval, and 24 with the reduced
    benchmark. For the default interval L is smaller still, ``ln(2K/delta) + ln(T)/2``.

    Parameters
    ----------
    n_arms, budget : int
        K and S.
    alpha : int or Bracket
        The independence number of the graph.
    horizon : int or array of int
        T; several give an array of values.
    gap : float
        From the S-th best mean to the next smaller one; infinite if there is none.
    tie_gap : float, optional
        If the S-th best mean is not larger than the next: from it to the next larger mean, infinite if there is none.
        The paper says that ties change nothing, but then better arms must still be told apart from the tied ones.
    rounds : int or array of int, optional
        After how many rounds of a policy that was made for `horizon`; by default after all.
    delta : float
        The policy's failure probability.
    undirected : bool
        Whether every edge of the graph goes both ways.
    benchmark : {"reduced", "printed"}
        That of the policy; with ``constants="printed"`` it is printed.
    interval : str
        That of the policy, printed with printed constants; see `armtriage.confidence_interval`.
    anytime : bool
        Whether the policy was made without a horizon.
    constants : {"repaired", "printed"}
        Whose proof.

    Examples
    --------
    >>> sizes = {"n_arms": 100, "budget": 10, "alpha": 10, "horizon": 10**6, "gap": 0.1, "undirected": True}
    >>> round(gap_upper(**sizes).value)
    80714
    >>> round(gap_upper(**sizes, benchmark="printed", interval="printed").value)
    303623
    >>> printed = gap_upper(**sizes, constants="printed")
    >>> round(printed.value), printed.vacuous
    (644194062, True)
    """
    said = Elimination(
        n_arms, budget, alpha, horizon, rounds, delta, undirected, benchmark, interval, anytime, constants
    )
    gap = check_gap(gap)
    spread, below = said.spread, 8.0 if constants == "printed" else BELOW
    rate = below / gap
    tied = tie_gap is not None
    if tie_gap is not None:
        rate = max(rate, spread / check_gap(tie_gap, "tie_gap"))
    asked = [*said.conditions, (constants == "repaired" or not tied, "means that do not tie at rank S")]
    value = said.pulls * (1.0 + 2.0 * spread * said.scale * rate)
    return make_bound("gap_upper", "upper", constants, f"Theorem 1: {said.words}", value, said.most, asked)


def minimax_upper(
    *,
    n_arms: int,
    budget: int,
    alpha: int | Bracketed,
    horizon: ArrayLike,
    rounds: ArrayLike | None = None,
    delta: float = 0.01,
    undirected: bool = False,
    benchmark: str = "reduced",
    interval: str = "mixture",
    anytime: bool = False,
    constants: str = "repaired",
) -> Bound:
    """Return the bound of Theorem 3 on the regret of `CombinatorialElimination`, of order sqrt(alpha S T) + S sqrt(T).

    It is ``B + c sqrt(L B S T)`` with ``B = layer_size + S`` and L as for `gap_upper`, and holds with probability
    1 - delta; c is 16 with the printed benchmark and interval, 16 / sqrt(2) with Hoeffding's interval, and 12 / sqrt(2)
    with the reduced benchmark. The printed form is ``B (1 + 16 sqrt(L min(T, S + S T / (B - S))))`` with the printed
    layer size. No smaller form is printed, and it says nothing at any size that can be simulated.

    Parameters
    ----------
    n_arms, budget, alpha, horizon, rounds, delta, undirected, benchmark, interval, anytime, constants
        See `gap_upper`.

    Examples
    --------
    >>> sizes = {"n_arms": 100, "budget": 10, "alpha": 10, "undirected": True}
    >>> minimax_upper(**sizes, horizon=[10**4, 10**6]).value.round()
    array([ 45728., 492038.])
    >>> minimax_upper(**sizes, horizon=10**6, constants="printed").vacuous
    True
    """
    said = Elimination(
        n_arms, budget, alpha, horizon, rounds, delta, undirected, benchmark, interval, anytime, constants
    )
    if constants == "printed":
        layer = said.pulls - said.budget
        layers = np.minimum(said.rounds, said.budget * (1.0 + said.rounds / layer)) if layer else said.rounds
        value = said.pulls * (1.0 + 2.0 * said.spread * np.sqrt(said.scale * layers))
    else:
        value = said.pulls + 2.0 * said.spread * np.sqrt(said.scale * said.pulls * said.budget * said.rounds)
    words = f"Theorem 3: {said.words}"
    return make_bound("minimax_upper", "upper", constants, words, value, said.most, said.conditions)


def ucb_full_information_upper(
    *, n_arms: int, budget: int, horizon: ArrayLike, delta: float = 0.01, constants: str = "repaired"
) -> Bound:
    """Return the bound on the regret of `CombinatorialUCB` with full information, of order S sqrt(T ln(KT)).

    All arms have the same count, so the width does not matter: it plays the best averages, as `Greedy` does, and the
    bound holds for both. It is ``4 S sqrt(L T) + 2 S`` as printed, L being ln(2KT/delta), and
    ``S + 2 S sqrt(2 L T)`` with Hoeffding's inequality in full.

    Parameters
    ----------
    n_arms, budget, horizon, delta, constants
        See `gap_upper`. Here delta is no parameter of the policy.

    Examples
    --------
    >>> round(ucb_full_information_upper(n_arms=100, budget=10, horizon=10**6).value)
    137760
    """
    n_arms, budget = check_budget(n_arms, budget)
    check_constants(constants)
    times = as_horizons(horizon)
    root = np.sqrt(log_term(n_arms, times, check_probability("delta", delta)) * times)
    value = budget * (4.0 * root + 2.0 if constants == "printed" else 1.0 + math.sqrt(8.0) * root)
    words = "appendix, UCB with full information: with probability 1 - delta, the regret is at most this"
    return make_bound("ucb_full_information_upper", "upper", constants, words, value, budget * times)


class Elimination:
    """What Theorems 1 and 3 are told, checked: pulls of a layer, widths that active arms differ by, and their scale."""

    def __init__(
        self,
        n_arms: int,
        budget: int,
        alpha: int | Bracketed,
        horizon: ArrayLike,
        rounds: ArrayLike | None,
        delta: float,
        undirected: bool,
        benchmark: str,
        interval: str,
        anytime: bool,
        constants: str,
    ) -> None:
        n_arms, self.budget = check_budget(n_arms, budget)
        self.layer = layer_size(n_arms, alpha, undirected=undirected, constants=constants)
        times = as_horizons(horizon)
        self.rounds = times if rounds is None else as_horizons(rounds, "rounds")
        check_probability("delta", delta)
        check_choice("benchmark", benchmark, tuple(BENCHMARKS))
        check_choice("interval", interval, INTERVALS)
        if constants == "printed":
            benchmark, interval, anytime = "printed", "printed", False
        self.spread = BENCHMARKS[benchmark]
        self.pulls = self.layer + self.budget
        scale = width_scale(interval, n_arms, times, delta, check_flag("anytime", anytime))
        self.scale, self.rounds = np.broadcast_arrays(np.nan if scale is None else scale, self.rounds)
        self.most = self.budget * self.rounds
        self.conditions = [(scale is not None, f"an interval of known width, which {interval} is not here")]
        of = f"CombinatorialElimination with benchmark={benchmark!r} and interval={interval!r}"
        self.words = f"with probability 1 - delta, the regret of {of} is at most this"
