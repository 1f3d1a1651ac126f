"""HierarchicalElimination: the paper's Algorithms 3 and 4, printed, repaired and tight."""

from __future__ import annotations

import math
from typing import NamedTuple

import numpy as np
from numpy.typing import NDArray

from armtriage._arguments import LONGEST, check_choice, check_count, check_optional, check_probability
from armtriage.kernels.ridge import new_ridge
from armtriage.policies.compiled import CompiledContextualPolicy, Kernels
from armtriage.policies.linear.stages import (
    CONFIRMED,
    ELIMINATED,
    EXPLORED,
    FILLED,
    VARIANTS,
    Params,
    State,
    select,
    update,
)

__all__ = ["HierarchicalElimination", "StageTriage"]


class StageTriage(NamedTuple):
    """How the last decision of a `HierarchicalElimination` came about; arms ascending.

    Examples
    --------
    >>> from armtriage import HierarchicalElimination
    >>> policy = HierarchicalElimination(3, dimension=1, budget=1, horizon=100)
    >>> policy.ask([[0.1], [0.9], [0.5]]).arms
    array([1])
    >>> policy.triage.explored, policy.triage.stages
    (array([1]), array([0, 1, 0]))
    """

    explored: NDArray[np.int64]  # chosen because little is known of them
    confirmed: NDArray[np.int64]  # chosen because they are surely among the best
    filled: NDArray[np.int64]  # chosen by estimate, after the last stage
    eliminated: NDArray[np.int64]  # surely not among the best
    stages: NDArray[np.int64]  # (K,) at which an arm was explored, confirmed or eliminated, from 1; else 0


class HierarchicalElimination(CompiledContextualPolicy):
    """Sort the arms anew each round, in stages of ever finer resolution that do not share rewards.

    The policy with the best known worst case for linear rewards: regret of order sqrt(d S T) up to logarithms, where
    `C2UCB` has d sqrt(S T). It needs noise that is independent over arms and rounds, and contexts that do not depend
    on past rewards. At ordinary sizes it explores for the whole horizon, and `C2UCB` and `LinearThompsonSampling` lose
    far less; see the page on contextual slates.

    Parameters
    ----------
    n_arms, dimension, budget : int
        See `ContextualPolicy`.
    horizon : int
        Rounds it will be asked for (T): it sets the number of stages, ceil(log2 sqrt(S T)), and the widths.
    delta : float
        Probability that a width may fail in any round or stage, if tight. The printed width has its own: at most H / T.
    variant : {"tight", "repaired", "paper"}
        ``"paper"``: Algorithms 3 and 4 to the letter. ``"repaired"``: the benchmark is the k-th largest estimate and a
        stage learns from width-selected pulls only, which the proof needs. ``"tight"``: repaired, with a tight
        width, own bounds of each arm in place of the slack 2^-h, and confirmed pulls that teach the next stage.
    noise_scale : float, optional
        Sub-Gaussian scale of the noise, if tight; by default half the width of `reward_range`, which always holds.
    seed, reward_range, context_bound
        See `ContextualPolicy`. The policy draws nothing at random.

    References
    ----------
    Wen, Han, Zhou (2025), Optimal arm elimination algorithms for combinatorial bandits, Algorithms 3 and 4.

    Examples
    --------
    >>> from armtriage import HierarchicalElimination, LinearEnvironment, simulate
    >>> env = LinearEnvironment([0.6, 0.3], "sphere", n_arms=10, reward="uniform", half_width=0.1, seed=7)
    >>> policy = HierarchicalElimination(10, 2, budget=2, horizon=5000, noise_scale=env.noise_scale)
    >>> bool(simulate(policy, env, horizon=5000).mean[-1] < 200)
    True
    """

    kernels = Kernels(select, update)

    def __init__(
        self,
        n_arms: int,
        dimension: int,
        budget: int,
        *,
        horizon: int,
        delta: float = 0.01,
        variant: str = "tight",
        noise_scale: float | None = None,
        seed: int | None = None,
        reward_range: tuple[float, float] = (-1.0, 1.0),
        context_bound: float = 1.0,
    ) -> None:
        super().__init__(n_arms, dimension, budget, seed=seed, reward_range=reward_range, context_bound=context_bound)
        self.horizon = check_count("horizon", horizon, 1, LONGEST)
        self.delta = check_probability("delta", delta)
        self.variant = check_choice("variant", variant, VARIANTS)
        self.noise_scale = check_optional("noise_scale", noise_scale)
        if noise_scale is not None and variant != "tight":
            raise ValueError(f"noise_scale is for variant='tight' and must be None here, got {noise_scale!r}")

    @property
    def stages(self) -> int:
        """Number of stages (H in the paper)."""
        return max(1, math.ceil(0.5 * math.log2(self.budget * self.horizon)))

    @property
    def triage(self) -> StageTriage:
        """How the last decision came about; nothing before the first."""
        explored, confirmed, filled, eliminated = (
            np.flatnonzero(self._state.fate == fate) for fate in (EXPLORED, CONFIRMED, FILLED, ELIMINATED)
        )
        return StageTriage(explored, confirmed, filled, eliminated, self._state.stage.copy())

    def params(self) -> Params:
        """Return the parameters for the kernels."""
        union = 2.0 * self.n_arms * self.horizon
        if self.variant == "tight":
            noise = self.noise_in_units(self.noise_scale)
            multiple = noise * math.sqrt(2.0 * (math.log(union * self.stages) - math.log(self.delta))) + 1.0
        else:
            multiple = 2.0 * (1.0 + math.sqrt(math.log(union)))
        return Params(VARIANTS.index(self.variant), self.stages, multiple)

    def new_state(self) -> State:
        """Return the state of a policy that has learned nothing."""
        ridge = new_ridge(self.stages + (self.variant == "tight"), self.dimension, 1.0)
        fate, stage, home, active, order = np.zeros((5, self.n_arms), np.int64)
        estimate, width, low, high, values = np.zeros((5, self.n_arms))
        places = np.zeros(self.budget, np.int64)
        return State(ridge, fate, stage, home, active, estimate, width, low, high, values, order, places)
