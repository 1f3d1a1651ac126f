"""C2UCB: the S largest upper bounds of a ridge regression."""

from __future__ import annotations

import math
from typing import Unpack

import numpy as np

from armtriage._arguments import check_optional, check_probability, check_ridge
from armtriage.kernels.jit import kernel
from armtriage.kernels.order import best_arms
from armtriage.kernels.record import Floats, Ints, Record, fact
from armtriage.kernels.ridge import Ridge, add, forms, new_ridge, refit, shrink
from armtriage.policies.compiled import Kernels, RidgePolicy
from armtriage.policies.options import ContextOptions


class Params(Record, frozen=True):
    """Parameters of the kernels."""

    ridge: float
    width: float  # of the bound; NaN for the self-normalised one
    noise: float
    log_delta: float


class State(Record):
    """One regression, and scratch."""

    ridge: Ridge = fact()
    arms: Ints  # 0, ..., K - 1
    values: Floats  # (K,)
    squares: Floats  # (K,)


@kernel
def select(
    params: Params, state: State, contexts: Floats, number: int, luck: np.uint64, arms: Ints, notes: Ints
) -> None:
    """Choose the S arms of largest ``<theta, x> + w ||x||`` in the norm of the inverse; ties by arm number."""
    n = contexts.shape[0]
    ridge, values, squares = state.ridge, state.values[:n], state.squares[:n]
    refit(ridge, 0)
    forms(ridge, 0, contexts, state.arms, n, values, squares)
    width = params.width
    if math.isnan(width):
        width = math.sqrt(params.noise * params.noise * (ridge.log_det[0] - 2.0 * params.log_delta) + params.ridge)
    for arm in range(values.size):
        values[arm] += width * math.sqrt(squares[arm])
    best_arms(values, squares, arms)


@kernel
def update(params: Params, state: State, contexts: Floats, notes: Ints, rewards: Floats, n: int) -> None:
    """Add the rewards to the regression."""
    for i in range(n):
        add(state.ridge, 0, contexts[i], rewards[i])
        shrink(state.ridge, 0, contexts[i], params.ridge)


class C2UCB(RidgePolicy):
    """Play the S largest upper confidence bounds of a ridge regression; LinUCB at S = 1.

    What to use first when rewards are linear in the contexts and a guarantee is wanted. Its regret is of order
    d sqrt(S T) up to logarithms, with probability 1 - `delta`, for contexts chosen in any way and noise that is
    independent over the arms of a round. If arms share their noise in a round, multiply `noise_scale` by sqrt(S).

    Parameters
    ----------
    n_arms, dimension, budget
        See `armtriage.ContextualPolicy`.
    delta : float
        Probability that the self-normalised bound may ever fail; without meaning beside `width`.
    width : float, optional
        A constant multiple of the norm to use instead, such as 0.5, in units of the largest absolute reward: no
        guarantee, often less regret.
    ridge : float
        Weight of the penalty on the squared norm of theta.
    noise_scale : float, optional
        Sub-Gaussian scale of the noise; by default half the width of `reward_range`, which always holds.
    names, reward_range, direction, sleepers_seen, cap, logging_floor, floor_arms, context_bound, features
        See `armtriage.ContextualPolicy`.
    seed : int, optional
        Of no effect here: the policy draws nothing at random.

    References
    ----------
    Qin, Chen, Zhu (2014), Contextual combinatorial bandit and its application on diversified online recommendation.
    Abbasi-Yadkori, Pal, Szepesvari (2011), Improved algorithms for linear stochastic bandits, Theorem 2, whose radius
    is a sum of two roots where the root of the sum of their squares will do; see `docs/contextual-slates.md`.

    Examples
    --------
    >>> from armtriage import C2UCB
    >>> policy = C2UCB(3, dimension=2, budget=1)
    >>> decision = policy.ask([[0.5, 0.0], [0.0, 1.0], [0.6, 0.0]])
    >>> policy.tell(decision, [-1])
    >>> policy.ask([[0.5, 0.0], [0.0, 1.0], [0.6, 0.0]]).arms
    array([2])
    """

    kernels = Kernels(select, update)
    takes_any_number = True
    learns_from_chosen_only = True

    def __init__(
        self,
        n_arms: int | None,
        dimension: int,
        budget: int,
        *,
        delta: float = 0.01,
        width: float | None = None,
        ridge: float = 1.0,
        noise_scale: float | None = None,
        **options: Unpack[ContextOptions],
    ) -> None:
        super().__init__(n_arms, dimension, budget, **options)
        self.delta = check_probability("delta", delta)
        self.width = check_optional("width", width)
        self.ridge = check_ridge(ridge)
        self.noise_scale = check_optional("noise_scale", noise_scale)
        if width is not None and noise_scale is not None:
            raise ValueError(f"noise_scale is of no use beside width and must be None here, got {noise_scale!r}")

    def params(self) -> Params:
        """Return the parameters for the kernels."""
        width = float("nan") if self.width is None else self.width
        return Params(self.ridge, width, self.noise_in_units(self.noise_scale), math.log(self.delta))

    def new_state(self) -> State:
        """Return the state of a policy that has learned nothing."""
        n = self.n_arms
        return State(new_ridge(1, self.dimension, self.ridge), np.arange(n), np.zeros(n), np.zeros(n))
