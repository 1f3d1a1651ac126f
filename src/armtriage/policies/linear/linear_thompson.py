"""LinearThompsonSampling: play what a draw from the posterior of a linear regression likes best."""

from __future__ import annotations

from typing import Unpack

import numpy as np

from armtriage._arguments import check_optional, check_ridge
from armtriage.kernels.jit import kernel
from armtriage.kernels.normal import normal
from armtriage.kernels.order import best_arms, inner
from armtriage.kernels.record import Floats, Ints, Record, fact
from armtriage.kernels.ridge import Ridge, add, back, new_ridge, solve
from armtriage.policies.compiled import Kernels, RidgePolicy
from armtriage.policies.options import ContextOptions


class Params(Record, frozen=True):
    """Parameters of the kernels."""

    ridge: float
    scale: float


class State(Record):
    """One regression, and scratch."""

    ridge: Ridge = fact()
    values: Floats  # (K,)
    scratch: Floats  # (K,)


@kernel
def select(
    params: Params, state: State, contexts: Floats, number: int, luck: np.uint64, arms: Ints, notes: Ints
) -> None:
    """Draw theta from its posterior; choose the S arms of largest ``<theta, x>``, ties by arm number."""
    ridge, values = state.ridge, state.values[: contexts.shape[0]]
    solve(ridge, 0, params.ridge)
    theta = ridge.vector
    for j in range(theta.size):
        theta[j] = normal(luck, j)
    back(ridge.scratch, theta)
    for j in range(theta.size):
        theta[j] = ridge.weights[0, j] + params.scale * theta[j]
    for arm in range(values.size):
        values[arm] = inner(contexts[arm], theta)
    best_arms(values, state.scratch, arms)


@kernel
def update(params: Params, state: State, contexts: Floats, notes: Ints, rewards: Floats, n: int) -> None:
    """Add the rewards to the regression."""
    for i in range(n):
        add(state.ridge, 0, contexts[i], rewards[i])


class LinearThompsonSampling(RidgePolicy):
    """Draw theta from the posterior of a Gaussian linear regression, play the S best arms for it.

    What usually loses least when rewards are linear in the contexts. Its regret is that of an optimal policy up to
    constants on average over the prior; in the worst case only a wider posterior than the default has a bound.

    Parameters
    ----------
    n_arms, dimension, budget
        See `armtriage.ContextualPolicy`.
    scale : float, optional
        Multiple of the posterior's standard deviation, in units of a reward; by default `noise_scale`, which makes it
        the posterior under Gaussian noise. Less explores less.
    ridge : float
        Weight of the penalty on the squared norm of theta: the prior's variance is ``scale**2 / ridge``.
    noise_scale : float, optional
        Scale of the noise; by default half the width of `reward_range`. With 0 nothing is drawn: the policy is greedy.
    seed, names, reward_range, direction, sleepers_seen, cap, logging_floor, floor_arms, context_bound, features
        See `armtriage.ContextualPolicy`.

    References
    ----------
    Agrawal, Goyal (2013), Thompson sampling for contextual bandits with linear payoffs.

    Examples
    --------
    >>> from armtriage import LinearThompsonSampling
    >>> policy = LinearThompsonSampling(3, dimension=2, budget=1, seed=7)
    >>> for _ in range(50):
    ...     decision = policy.ask([[0.5, 0.0], [0.0, 0.5], [0.5, 0.5]])
    ...     policy.tell(decision, 0.5 * decision.contexts[:, 0])
    >>> decision.contexts[:, 0]
    array([0.5])
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
        scale: float | None = None,
        ridge: float = 1.0,
        noise_scale: float | None = None,
        **options: Unpack[ContextOptions],
    ) -> None:
        super().__init__(n_arms, dimension, budget, **options)
        self.scale = check_optional("scale", scale)
        self.ridge = check_ridge(ridge)
        self.noise_scale = check_optional("noise_scale", noise_scale)
        if scale is not None and noise_scale is not None:
            raise ValueError(f"noise_scale is of no use beside scale and must be None here, got {noise_scale!r}")

    def params(self) -> Params:
        """Return the parameters for the kernels."""
        return Params(self.ridge, self.noise_in_units(self.noise_scale if self.scale is None else self.scale))

    def new_state(self) -> State:
        """Return the state of a policy that has learned nothing."""
        return State(new_ridge(1, self.dimension, self.ridge), *np.zeros((2, self.n_arms)))
