"""Upper bounds under graph feedback: Theorems 1 and 3, the sharper sum over layers, and UCB with full information."""

from __future__ import annotations

import math

import numpy as np
from numpy.typing import ArrayLike

from armtriage._arguments import as_numbers, check_choice, check_flag, check_probability
from armtriage.intervals import INTERVALS
from armtriage.kernels.record import Floats
from armtriage.theory.bounds.bound import (
    Bound,
    as_horizons,
    check_budget,
    check_constants,
    check_gap,
    log_term,
    make_bound,
)
from armtriage.theory.numbers import Bracket, layer_size

_BENCHMARKS = {"reduced": 6.0, "printed": 8.0}
"""By how many widths active arms can differ under each benchmark."""
_BELOW = 4.0
"""By how many widths an active arm can be worse than the S-th best, under either."""


_ABOVE = {8.0: 6.0, 6.0: 4.0}
"""By how many widths an arm that is not confirmed can be better than the S-th best, by the spread of the benchmark."""
_LAZY = 33.0 / 32.0
"""The reduced benchmark renews an interval when its count has grown by 1/32, so its width may be that much older."""
_SINGLE = 4096
_FINE = 1.001


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
    alpha: int | Bracket,
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
    c is 128 as printed, 64 by a closer look at the proof, 32 with Hoeffding's interval, and 24.75 with the reduced
    benchmark: 24, and 1/32 more because its intervals wait until counts have grown by as much. For the default interval
    L is smaller still, ``ln(2K/delta) + ln(T)/2``.

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
    83236
    >>> round(gap_upper(**sizes, benchmark="printed", interval="printed").value)
    303623
    >>> printed = gap_upper(**sizes, constants="printed")
    >>> round(printed.value), printed.vacuous
    (644194062, True)
    """
    said = _Elimination(
        n_arms, budget, alpha, horizon, rounds, delta, undirected, benchmark, interval, anytime, constants
    )
    gap = check_gap(gap)
    spread, below = said.spread, 8.0 if constants == "printed" else _BELOW
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
    alpha: int | Bracket,
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
    1 - delta; c is 16 with the printed benchmark and interval, 16 / sqrt(2) with Hoeffding's interval, and 8.62, which
    is 12 sqrt(33 / 64), with the reduced benchmark. The printed form is
    ``B (1 + 16 sqrt(L min(T, S + S T / (B - S))))`` with the printed layer size. No smaller form is printed, and it
    says nothing at any size that can be simulated.

    Parameters
    ----------
    n_arms, budget, alpha, horizon, rounds, delta, undirected, benchmark, interval, anytime, constants
        See `gap_upper`.

    Examples
    --------
    >>> sizes = {"n_arms": 100, "budget": 10, "alpha": 10, "undirected": True}
    >>> minimax_upper(**sizes, horizon=[10**4, 10**6]).value.round()
    array([ 46437., 499667.])
    >>> minimax_upper(**sizes, horizon=10**6, constants="printed").vacuous
    True
    """
    said = _Elimination(
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


def instance_upper(
    means: ArrayLike,
    budget: int,
    *,
    alpha: int | Bracket,
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
    3979
    >>> from armtriage.theory import gap_upper
    >>> round(gap_upper(n_arms=20, budget=5, gap=0.6, **sizes).value)
    15702
    """
    values = as_numbers("means", means).astype(np.float64)
    if values.ndim != 1 or not values.size or not ((values >= 0.0) & (values <= 1.0)).all():
        raise ValueError(f"means must be a list of numbers in [0, 1], got {means!r:.100}")
    said = _Elimination(
        values.size, budget, alpha, horizon, rounds, delta, undirected, benchmark, interval, anytime, "repaired"
    )
    order, pairs = np.sort(values)[::-1], zip(said.scale.flat, said.rounds.flat, strict=True)
    value = np.reshape([_sum(order, said, scale, times) for scale, times in pairs], said.rounds.shape)
    words = f"Theorem 1 with all gaps: {said.words}"
    return make_bound("instance_upper", "upper", "repaired", words, value, said.most, said.conditions)


def ucb_full_information_upper(
    *, n_arms: int, budget: int, horizon: ArrayLike, delta: float = 0.01, constants: str = "repaired"
) -> Bound:
    """Return the bound on the regret of `CombinatorialUCB` with full information, of order S sqrt(T ln(KT)).

    All arms have the same count, so the width does not matter: it plays the best averages, as `Greedy` does, and the
    bound holds for both. It is ``4 S sqrt(L T) + 2 S`` as printed, L being ln(2KT/delta), and
    ``S + 2 S sqrt(2 L T)`` with Hoeffding's inequality in full.

    Parameters
    ----------
    n_arms, budget, horizon, constants
        See `gap_upper`.
    delta : float
        Probability with which the bound may fail; no parameter of the policy.

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


class _Elimination:
    """What Theorems 1 and 3 are told, checked: pulls of a layer, widths that active arms differ by, and their scale."""

    def __init__(
        self,
        n_arms: int,
        budget: int,
        alpha: int | Bracket,
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
        check_choice("benchmark", benchmark, tuple(_BENCHMARKS))
        check_choice("interval", interval, INTERVALS)
        if constants == "printed":
            benchmark, interval, anytime = "printed", "printed", False
        self.spread = _BENCHMARKS[benchmark]
        self.pulls = self.layer + self.budget
        scale = width_scale(interval, n_arms, times, delta, check_flag("anytime", anytime))
        if scale is not None and benchmark == "reduced":
            scale = _LAZY * scale
        self.scale, self.rounds = np.broadcast_arrays(np.nan if scale is None else scale, self.rounds)
        self.most = self.budget * self.rounds
        self.conditions = [(scale is not None, f"an interval of known width, which {interval} is not here")]
        of = f"CombinatorialElimination with benchmark={benchmark!r} and interval={interval!r}"
        self.words = f"with probability 1 - delta, the regret of {of} is at most this"


def _sum(order: Floats, said: _Elimination, scale: float, rounds: float) -> float:
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
    active = np.searchsorted(worse, _BELOW * width, side="right")
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
