"""ThompsonSampling: play what a draw from the posterior likes best."""

from __future__ import annotations

from typing import Any, NamedTuple, Unpack

import numpy as np
from numpy.typing import ArrayLike

from armtriage._arguments import check_choice
from armtriage.decisions import Decision
from armtriage.graphs.feedback import FeedbackGraph
from armtriage.kernels.beta import beta_draws
from armtriage.kernels.jit import kernel
from armtriage.kernels.random import uniform
from armtriage.kernels.record import Floats, Ints
from armtriage.policies.beliefs import FRACTIONAL, Prior, check_prior, starts_at
from armtriage.policies.changing import locked
from armtriage.policies.evidence import Evidence
from armtriage.policies.old_log import OldLog
from armtriage.policies.options import SetOptions
from armtriage.policies.request import Kernels, Request, luck_of
from armtriage.policies.sampling.cutoffs import Cutoffs, Params, bring_in_line, draw_best, new_cutoffs, posterior_of
from armtriage.policies.sampling.placed import PlacedPolicy
from armtriage.policies.sampling.places import KERNELS as PLACED
from armtriage.policies.sampling.places import PlaceParams, Places

MOST_ARMS = 1000
"""For how many arms marginals are computed."""


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


@kernel
def write_posteriors(params: Params, evidence: Evidence, among: Ints, laws: Floats) -> None:
    """Write the three numbers of the posteriors of some arms."""
    for i in range(among.size):
        laws[0, i], laws[1, i], laws[2, i] = posterior_of(params, evidence, among[i])


_KERNELS = Kernels(choose, bring_in_line, believe, weigh=weigh)


class ThompsonSampling(PlacedPolicy):
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
    forget : {"alarm"}, float or int, optional
        With ``"alarm"`` the policy watches for drift and, when a mean has changed, forgets what it knows of all arms;
        now and then it looks at an arm that it would not play. A float in (0, 1) is a discount of what was told with
        each decision, a whole number a window: only rewards of so many last decisions count. Nothing is then certified.
        See ``docs/when-the-world-changes.md``.
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

    @locked
    def marginals(self, eligible: Any = None) -> Floats:
        """Return the probability with which each arm will be in the next decision, over draws and `logging_floor`.

        It is exact, for slates of up to 1,000 arms and priors of which neither number is below 1; it takes some
        milliseconds, and a tenth of a second for the largest.

        Parameters
        ----------
        eligible : array_like, optional
            As for `ask`.

        Examples
        --------
        >>> policy = ThompsonSampling(3, budget=1, seed=7)
        >>> policy.tell(policy.record([2]), [1])
        >>> policy.marginals().round(4)  # a draw from Beta(2, 1), and two from Beta(1, 1)
        array([0.25, 0.25, 0.5 ])
        """
        mask = self._mask(eligible)
        among = np.flatnonzero(mask)
        self._check_any(among.size, eligible is None)
        found = np.zeros(self.n_arms)
        found[among] = self._proposed(among)
        if self.logging_floor:
            if self.floor_arms != "all":
                raise NotImplementedError(f'marginals are of floor_arms="all", got {self.floor_arms!r}')
            proposal = among[: min(self.budget, among.size)]
            found[among] = self._floored(self._asked, proposal, among).over(found[among])
        return found

    def _proposed(self, among: Ints) -> Floats:
        """Return with which probability each of some arms is among those of largest draw."""
        if self.decisions is not None:
            raise NotImplementedError(f"marginals are of slates, got {self.decisions!r}")
        if self._weights is not None:
            raise NotImplementedError("marginals are of places that are alike, and this policy has positions")
        if among.size > MOST_ARMS:
            raise ValueError(f"marginals are for up to {MOST_ARMS:,} arms, got {among.size:,}")
        if min(starts_at(self.prior)) < 1.0:
            raise ValueError(f"prior must have no number below 1 for marginals, got {self.prior!r}")
        from armtriage.policies.sampling.marginals import inclusion_by_draws  # its tables would slow down every import

        laws = np.empty((3, among.size))
        write_posteriors(self._params, self._evidence, among, laws)
        return inclusion_by_draws(laws[0], laws[1], laws[2], min(self.budget, among.size))

    def _ask_slowly(self, among: Ints | None, given: Ints | None) -> Decision:
        decision = super()._ask_slowly(among, given)
        if decision.proposal is not None and self.floor_arms == "all" and self.n_arms <= MOST_ARMS:
            vars(decision)["later"] = _Later(self, self._known_so_far())
        return decision

    def _known_so_far(self) -> tuple[float, ...]:
        """Return what differs whenever draws do."""
        evidence = self._evidence
        columns = evidence.counts, evidence.wins, evidence.credit, evidence.unheard
        return tuple(float(one.sum()) for one in columns)


class _Later(NamedTuple):
    """What finds the marginal probabilities of a decision, while its policy knows what it knew then; never saved."""

    policy: ThompsonSampling
    known: tuple[float, ...]

    def __reduce__(self) -> tuple[Any, ...]:
        return type(None), ()

    def __deepcopy__(self, memo: Any) -> None:
        return None

    def marginal(self, decision: Decision) -> Floats:
        """Return the probability of each arm of the decision."""
        policy, among = self.policy, decision.eligible
        if policy._known_so_far() != self.known:
            raise ValueError(f"marginal of decision {decision.number} must be asked for before more is told")
        everyone = np.arange(decision.n_arms) if among is None else among
        floored = vars(decision)["floored"]
        chances: Floats = floored.over(policy._proposed(everyone))
        return chances[np.searchsorted(everyone, decision.arms)]
