"""Instances with contexts on which every policy must lose: the three cases of Theorem 6."""

from __future__ import annotations

import math

import numpy as np

from armtriage._arguments import LONGEST, check_choice, check_count, check_number
from armtriage.environments import LinearEnvironment
from armtriage.environments.tables import LinearTable
from armtriage.kernels.random import check_seed
from armtriage.kernels.record import Floats, Ints

_VARIANTS = ("repaired", "printed")
_HALF = math.sqrt(0.5)
_BASE = 0.25  # mean of an informative arm that is not good


def linear_blocks(
    dimension: int,
    budget: int,
    *,
    horizon: int,
    n_arms: int | None = None,
    gap: float | None = None,
    seed: int | None = None,
) -> LinearEnvironment:
    """Return n tasks one after the other that share nothing, for which d > 2S dimensions are needed.

    Of the lower bound Omega(sqrt(d S T)) of Theorem 6, this is the case d > 2S. In block j = 0, 1, ... of
    ``L = T // n`` rounds, arm a < 2S has the context ``(e_0 + e_(1 + 2 S j + a)) / sqrt(2)`` and the others have 0.
    The arms come in pairs 2i, 2i + 1. In each block a random one of each pair has mean ``1/4 + gap`` and the other
    1/4, with ``gap = sqrt(2 / L) / 64``; what a block teaches is of no use in the next one.

    Three things differ from the print, where the contexts of arms beyond 2S run into the next block, theta holds the
    gaps themselves, not sqrt(2) times them, and the gap is that of all T rounds. The pairs and the 1/64 are our reading
    of the construction that the proof cites. Rewards are -1 or 1 in place of 0 or 1, with the same means; this makes
    the arms harder to tell apart, and the bound holds all the more.

    Parameters
    ----------
    dimension : int
        d, above 2S; rounded down to the next 2nS + 1.
    budget : int
        S, the number of arms in a decision.
    horizon : int
        T, the rounds that the instance is made for, at least 4dS; what is left over after n blocks, or played beyond
        T, belongs to the last block.
    n_arms : int, optional
        K, at least 2S, which is the default.
    gap : float, optional
        How much better the good arms are. The default is what the proof uses, so small that a policy which learns is
        hardly parted from one that guesses; 64 times that shows the difference.
    seed : int, optional
        Fixes the good arms and the rewards; None draws a fresh one.

    References
    ----------
    Wen, Han, Zhou (2025), Optimal arm elimination algorithms for combinatorial bandits, Theorem 6.

    Examples
    --------
    >>> env = linear_blocks(11, 2, horizon=200, seed=8)
    >>> env.dimension, env.theta.shape
    (9, (9,))
    >>> env.means(0).round(4), env.means(100).round(4)
    (array([0.25  , 0.2522, 0.2522, 0.25  ]), array([0.2522, 0.25  , 0.25  , 0.2522]))
    """
    budget = check_count("budget", budget, 1)
    size = 2 * budget
    dimension = check_count("dimension", dimension)
    if dimension <= size:
        raise ValueError(f"dimension must exceed 2 * budget = {size} (or see linear_few_dimensions), got {dimension}")
    n_blocks = (dimension - 1) // size
    dimension = n_blocks * size + 1
    horizon, n_arms = _check_room(dimension, budget, horizon, n_arms)
    seed = check_seed(seed)
    length = horizon // n_blocks
    gaps = np.zeros((n_blocks, budget, 2))
    good = np.random.default_rng(seed).integers(2, size=(n_blocks, budget, 1))
    gap = math.sqrt(2.0 / length) / 64.0 if gap is None else check_number("gap", gap)
    most = math.sqrt((1.0 - 2.0 * _BASE**2) / (2.0 * n_blocks * budget))
    if gap > most:
        raise ValueError(f"gap must be at most {most} for a theta of norm 1, got {gap!r}")
    np.put_along_axis(gaps, good, gap, axis=2)
    return _Blocks(_theta(gaps.ravel()), n_arms, size, length, seed)


def linear_few_dimensions(
    dimension: int,
    budget: int,
    *,
    horizon: int,
    n_arms: int | None = None,
    seed: int | None = None,
    variant: str = "repaired",
) -> LinearEnvironment:
    """Return groups of look-alikes of which it must be found out whether they are worth playing, for 1 < d <= 2S.

    Of the lower bound Omega(sqrt(d S T)) of Theorem 6, this is the case 1 < d <= 2S. Contexts stay as they are.

    ``"repaired"``: with m = min(d, S), group j = 0, ..., m - 1 is the S // m arms from j (S // m) on, all with context
    ``e_j`` and mean theta_j; the other arms, S or more, have context 0. Each theta_j for j < m is
    ``sqrt(3 m / (32 S T))``, with a random sign. Every policy has a regret of at least 0.038 sqrt(m S T) on average
    over the signs.

    ``"printed"``: arm a < d - 1 has the context ``(e_0 + e_(1 + a)) / sqrt(2)`` and the others have 0. The d - 1
    informative arms are cut into min(S, d - 1) parts of one or two; a random one of each has mean ``1/4 + gap``, the
    others 1/4, with ``gap = sqrt((d - 1) / (S T)) / 64``. The bound does not follow: for d <= S + 1 all informative
    arms fit into a decision, and always playing them has regret 0; for d a little above, only d - 1 - S parts have
    anything to be found out. The parts are our reading of the construction that the proof cites.

    Rewards are -1 or 1 in both.

    Parameters
    ----------
    dimension : int
        d, from 2 to 2S.
    budget : int
        S, the number of arms in a decision.
    horizon : int
        T, the rounds that the instance is made for, at least 4dS.
    n_arms : int, optional
        K, at least 2S, which is the default.
    seed : int, optional
        Fixes the signs or the good arms, and the rewards; None draws a fresh one.
    variant : {"repaired", "printed"}
        Which of the two.

    References
    ----------
    Wen, Han, Zhou (2025), Optimal arm elimination algorithms for combinatorial bandits, Theorem 6.

    Examples
    --------
    >>> env = linear_few_dimensions(2, 4, horizon=300, seed=1)
    >>> env.means(0).round(4)
    array([-0.0125, -0.0125,  0.0125,  0.0125,  0.    ,  0.    ,  0.    ,  0.    ])
    """
    budget = check_count("budget", budget, 1)
    dimension = check_count("dimension", dimension)
    if not 2 <= dimension <= 2 * budget:
        other = "linear_blocks" if dimension > 1 else "linear_one_dimension"
        raise ValueError(f"dimension must be from 2 to 2 * budget = {2 * budget} (or see {other}), got {dimension}")
    horizon, n_arms = _check_room(dimension, budget, horizon, n_arms)
    check_choice("variant", variant, _VARIANTS)
    seed = check_seed(seed)
    rng = np.random.default_rng(seed)
    if variant == "printed":
        size = dimension - 1
        gaps = np.zeros(size)
        parts = np.array_split(np.arange(size), min(budget, size))
        gaps[[rng.choice(part) for part in parts]] = math.sqrt(size / (budget * horizon)) / 64.0
        contexts = _one_hot(np.zeros(1, np.int64), n_arms, dimension, size)[0]
        return LinearEnvironment(_theta(gaps), contexts, seed=seed)
    groups = min(dimension, budget)
    theta, contexts = np.zeros(dimension), np.zeros((n_arms, dimension))
    theta[:groups] = rng.choice([-1.0, 1.0], groups) * _two_point(budget * horizon / groups)
    each = budget // groups
    contexts[np.arange(groups * each), np.repeat(np.arange(groups), each)] = 1.0
    return LinearEnvironment(theta, contexts, seed=seed)


def linear_one_dimension(
    budget: int, *, horizon: int, n_arms: int | None = None, sign: int = 1, seed: int | None = None
) -> LinearEnvironment:
    """Return S arms that are all a little better, or all a little worse, than the rest.

    Of the lower bound Omega(sqrt(d S T)) of Theorem 6, this is the case d = 1. The first S arms have the context
    ``D = sqrt(3 / (32 S T))`` and the others 0; theta is 1 or -1, and rewards are -1 or 1. With this D, in place of the
    printed one, every policy has a regret of at least 0.0765 sqrt(S T) for one of the two signs.

    Parameters
    ----------
    budget : int
        S, the number of arms in a decision.
    horizon : int
        T, the rounds that the instance is made for, at least 4S.
    n_arms : int, optional
        K, at least 2S, which is the default.
    sign : {1, -1}
        Whether the first S arms are the better or the worse ones.
    seed : int, optional
        Fixes the rewards; None draws a fresh one.

    References
    ----------
    Wen, Han, Zhou (2025), Optimal arm elimination algorithms for combinatorial bandits, Theorem 6.

    Examples
    --------
    >>> env = linear_one_dimension(2, horizon=300, sign=-1)
    >>> env.means(0).round(4)
    array([-0.0125, -0.0125,  0.    ,  0.    ])
    """
    budget = check_count("budget", budget, 1)
    horizon, n_arms = _check_room(1, budget, horizon, n_arms)
    if sign not in (1, -1):
        raise ValueError(f"sign must be 1 or -1, got {sign!r}")
    contexts = np.zeros((n_arms, 1))
    contexts[:budget] = _two_point(budget * horizon)
    return LinearEnvironment([float(sign)], contexts, seed=seed)


class _Blocks(LinearEnvironment):
    """Contexts that change with the block of rounds alone: the rounds of a table are made all at once."""

    def __init__(self, theta: Floats, n_arms: int, size: int, length: int, seed: int) -> None:
        self._size, self._length = size, length
        super().__init__(theta, self._contexts_of, n_arms, seed=seed)

    def _contexts_of(self, number: int, replication: int) -> Floats:
        return self._stack(number, number + 1).reshape(self.n_arms, self.dimension)

    def _stack(self, first: int, stop: int) -> Floats:
        block = np.minimum(np.arange(first, stop) // self._length, (self.dimension - 1) // self._size - 1)
        return _one_hot(block * self._size, self.n_arms, self.dimension, self._size)

    def table(self, replication: int, first: int, stop: int) -> LinearTable:
        return self._table._replace(given=self._stack(first, stop), first=first)


def _one_hot(shift: Ints, n_arms: int, dimension: int, size: int) -> Floats:
    """Return for each shift contexts (K, d): (e_0 + e_(1 + shift + a)) / sqrt(2) for arms a < size, 0 for the rest."""
    contexts, arms = np.zeros((shift.size, n_arms, dimension)), np.arange(size)
    contexts[:, :size, 0] = _HALF
    contexts[np.arange(shift.size)[:, None], arms, 1 + shift[:, None] + arms] = _HALF
    return contexts


def _theta(gaps: Floats) -> Floats:
    """Return the theta that gives arms of `_one_hot` the means 1/4 + gap."""
    return np.append(_BASE, gaps) / _HALF


def _two_point(observations: float) -> float:
    """Return how far from 0 a mean may be for its sign to stay as good as hidden after so many rewards of -1 or 1."""
    return math.sqrt(3.0 / (32.0 * observations))


def _check_room(dimension: int, budget: int, horizon: int, n_arms: int | None) -> tuple[int, int]:
    """Return horizon and number of arms, which Theorem 6 asks to be at least 4dS and 2S."""
    horizon = check_count("horizon", horizon, 1, LONGEST)
    if horizon < 4 * dimension * budget:
        least = f"4 * dimension * budget = {4 * dimension * budget}"
        raise ValueError(f"horizon must be at least {least}, as the lower bound asks, got {horizon}")
    n_arms = 2 * budget if n_arms is None else check_count("n_arms", n_arms, 1)
    if n_arms < 2 * budget:
        raise ValueError(f"n_arms must be at least 2 * budget = {2 * budget}, got {n_arms}")
    return horizon, n_arms
