"""With which probability arms are among the largest draws: of a decision to come, and of one that was made."""

from __future__ import annotations

from typing import Any, NamedTuple

import numpy as np

from armtriage.decisions import Decision
from armtriage.kernels.jit import kernel
from armtriage.kernels.record import Floats, Ints
from armtriage.policies.beliefs import starts_at
from armtriage.policies.changing import locked
from armtriage.policies.evidence import Evidence
from armtriage.policies.sampling.cutoffs import Params, posterior_of
from armtriage.policies.sampling.placed import PlacedPolicy

MOST_ARMS = 1000
"""For how many arms marginals are computed."""


@kernel
def write_posteriors(params: Params, evidence: Evidence, among: Ints, laws: Floats) -> None:
    """Write the three numbers of the posteriors of some arms."""
    for i in range(among.size):
        laws[0, i], laws[1, i], laws[2, i] = posterior_of(params, evidence, among[i])


class DrawnPolicy(PlacedPolicy):
    """The part of `armtriage.ThompsonSampling` that knows how likely draws were."""

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
        >>> from armtriage import ThompsonSampling
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

    policy: DrawnPolicy
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
