"""ThompsonSampling: play what a draw from the posterior likes best."""

from __future__ import annotations

from typing import Unpack

import numpy as np
from numpy.typing import ArrayLike

from armtriage._arguments import check_choice
from armtriage.graphs.feedback import FeedbackGraph
from armtriage.kernels.beta import beta_draws
from armtriage.kernels.jit import kernel
from armtriage.kernels.random import uniform
from armtriage.kernels.record import Floats
from armtriage.policies.beliefs import FRACTIONAL, Prior, check_prior, starts_at
from armtriage.policies.evidence import Evidence
from armtriage.policies.old_log import OldLog
from armtriage.policies.options import SetOptions
from armtriage.policies.request import Kernels, Request, luck_of
from armtriage.policies.sampling.cutoffs import Cutoffs, Params, bring_in_line, draw_best, new_cutoffs, posterior_of
from armtriage.policies.sampling.drawn import DrawnPolicy
from armtriage.policies.sampling.places import KERNELS as PLACED
from armtriage.policies.sampling.places import PlaceParams, Places


@kernel
def choose(params: Params, evidence: Evidence, own: Cutoffs, request: Request) -> bool:
    """Fill `arms` with the candidates of largest draw; never committed."""
    draw_best(params, evidence, own, request)
    return False


@kernel
def weigh(params: Params, evidence: Evidence, own: Cutoffs, request: Request, offset: float, weights: Floats) -> None:
    """Draw every arm; where an oracle needs all of them, what a draw costs is what a round costs."""
    least, wins, losses = np.empty(weights.size), own.values[: weights.size], own.luck[: weights.size]
    for arm in range(weights.size):
        least[arm], wins[arm], losses[arm] = posterior_of(params, evidence, arm)
    beta_draws(luck_of(request), wins, losses, weights)
    for arm in range(weights.size):
        weights[arm] = least[arm] + (1.0 - least[arm]) * weights[arm] + offset


@kernel
def believe(params: Params, evidence: Evidence, own: Cutoffs, request: Request) -> None:
    """Write what the draws of the arms chosen follow from."""
    beliefs = request.beliefs
    for i in range(request.size):
        arm = request.arms[i]
        beliefs[0, i] = uniform(luck_of(request), arm)
        beliefs[1, i], beliefs[2, i], beliefs[3, i] = posterior_of(params, evidence, arm)


_KERNELS = Kernels(choose, bring_in_line, believe, weigh=weigh)


class ThompsonSampling(DrawnPolicy):
    """Draw each arm's mean from its Beta posterior, play the S largest draws or the decision of largest sum.

    Use it first on ordinary instances: no horizon, no tuning, and the least regret in practice. It has
    O(sum ln T / gap) regret for independent arms under semi-bandit feedback, but no worst-case guarantee under
    graph feedback, and it is blind to arms that are informative but bad.

    Parameters
    ----------
    graph, budget, decisions, names, seed, reward_range, direction, sleepers_seen, cap, logging_floor, floor_arms
        See `armtriage.Policy`.
    prior : {"uniform"} or tuple of float
        What is believed of an arm that was never seen: a uniform law of its mean, or Beta(a, b).
    fractional : {"exact", "coin"}
        What becomes of a reward r strictly between 0 and 1. By default the posterior follows mean and variance of such
        rewards, so that quiet ones are recognised. As published it counts as 1 with probability r, and else as 0. For
        rewards of 0 and 1 both are the same.
    forget
        See `armtriage.CombUCB1`.
    old_log : OldLog, optional
        What an earlier log says of the arms, and how far it may be off: see `armtriage.OldLog`. For slates.
    positions : array_like or {"learn"}, optional
        For a page whose places are not alike: the weights of its places from the top, from 1 falling, or that they are
        to be learnt. A decision is then shown in the order of ``decision.ranked``, in which lists of rewards are told.
        For slates of arms that reveal themselves alone; see ``docs/positions.md``.
    position_swaps : float, optional
        With `positions`, the probability with which a coin decides the order of two neighbours, by which given weights
        are checked, and learnt ones told apart from the items; by default 0.2.

    References
    ----------
    Wang, Chen (2018), Thompson sampling for combinatorial semi-bandits, Algorithm 1.

    Examples
    --------
    >>> from armtriage import FeedbackGraph
    >>> policy = ThompsonSampling(FeedbackGraph.semi_bandit(3), budget=1, seed=7)
    >>> for _ in range(100):
    ...     decision = policy.ask()
    ...     policy.tell(decision, decision.arms == 2)
    >>> policy.ask().arms
    array([2])
    """

    @property
    def kernels(self) -> Kernels:  # type: ignore[override]
        """The compiled functions, for places that are alike or have weights."""
        return _KERNELS if self._weights is None else PLACED

    draws = True
    learns_at_once = True

    def __init__(
        self,
        graph: FeedbackGraph | int,
        budget: int | None = None,
        *,
        prior: Prior = "uniform",
        fractional: str = "exact",
        forget: str | float | None = None,
        old_log: OldLog | None = None,
        positions: ArrayLike | str | None = None,
        position_swaps: float | None = None,
        **options: Unpack[SetOptions],
    ) -> None:
        super().__init__(graph, budget, **options)
        self.prior = check_prior("prior", prior, learned=False)
        self.fractional = check_choice("fractional", fractional, FRACTIONAL)
        self.forget = self._check_forget(forget)
        self.old_log = self._check_old_log(old_log)
        self._check_positions(positions, position_swaps)

    @property
    def throws_coins(self) -> bool:
        """Whether a reward between 0 and 1 counts in draws as 1 with that probability, and else as 0."""
        return self.fractional == "coin"

    def params(self) -> Params | PlaceParams:
        """Return the parameters of the kernels."""
        return Params(*starts_at(self.prior)) if self._weights is None else self._place_params()

    def new_own(self, evidence: Evidence) -> Cutoffs | Places:
        """Return the caches of some evidence."""
        return new_cutoffs(evidence) if self._weights is None else self._new_places(evidence)
