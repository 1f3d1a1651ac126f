"""ConstrainedElimination: elimination over any set of decisions, and Algorithm 5 of the paper."""

from __future__ import annotations

from collections.abc import Mapping
from functools import cached_property
from typing import Any, Unpack

import numpy as np
from numpy.typing import NDArray

from armtriage._arguments import check_choice, check_horizon, check_probability
from armtriage.decisions import DecisionSet
from armtriage.graphs.feedback import FeedbackGraph
from armtriage.intervals import INTERVALS
from armtriage.kernels.record import Floats, Ints
from armtriage.policies.changing import locked
from armtriage.policies.constrained.by_list import ListedElimination
from armtriage.policies.constrained.by_oracle import (
    CONFIRMED,
    ELIMINATED,
    UNDECIDED,
    Limits,
    OracleElimination,
    Progress,
)
from armtriage.policies.options import Options
from armtriage.policies.policy import Policy
from armtriage.triage import Triage

VARIANTS = {"oracle": INTERVALS, "repaired": ("printed", "hoeffding"), "paper": ("printed", "hoeffding")}
"""The intervals that each variant can use."""


class ConstrainedElimination(Policy):
    """Elimination where not every set of arms may be played: routes, assignments, slates, or any `DecisionSet`.

    Use it where a worst-case guarantee counts, or a commitment that can be explained. On ordinary instances `CombUCB1`
    and `ThompsonSampling`, which take `decisions` as well, lose less.

    By default it asks the set's oracle, so the family may be far too large to list. An arm is eliminated when no
    decision with it, and confirmed when none without it, can be as good as the best one found. Regret is
    O(S^2 B ln(KT/delta) / gap) with probability 1 - delta, where B decisions show every arm once; no horizon is needed.
    ``variant="paper"`` is the printed Algorithm 5 for families of at most 100,000 decisions, which can lose linearly,
    and ``"repaired"`` the same with covers from the active decisions.

    Parameters
    ----------
    graph, names, seed, reward_range, direction, sleepers_seen, cap, logging_floor, floor_arms
        See `armtriage.Policy`.
    decisions : DecisionSet
        Which decisions are allowed. If they differ in size, what counts is the sum of rewards in their own units.
        Networks with cycles are for the listed variants, and for the policies above.
    horizon : int, optional
        Number of rounds, for intervals that hold for a horizon; without one the time-uniform form is used.
        ``"printed"`` needs it, ``"mixture"`` has no use for it.
    delta : float
        Probability with which the guarantee may fail.
    variant : {"oracle", "repaired", "paper"}
        Which algorithm; see above.
    cover : {"exact", "greedy"}
        Whether the listed variants find the fewest decisions that show what is needed, by integer programming.
    interval : {"mixture", "kl", "hoeffding", "bernstein", "printed"}, optional
        See `armtriage.confidence_interval`. By default mixture, and printed for the listed variants, which take that
        and hoeffding only.

    References
    ----------
    Wen, Han, Zhou (2025), Optimal arm elimination algorithms for combinatorial bandits, Algorithm 5.

    Examples
    --------
    >>> from armtriage import FeedbackGraph, Matchings, StochasticEnvironment
    >>> jobs, graph = Matchings(2, 2), FeedbackGraph.semi_bandit(4)
    >>> env = StochasticEnvironment([0.9, 0.5, 0.4, 0.7], graph, decisions=jobs, seed=7)
    >>> policy = ConstrainedElimination(graph, jobs)
    >>> for t in range(200):
    ...     decision = policy.ask()
    ...     policy.tell(decision, env.rewards(t, decision.revealed))
    >>> policy.triage.confirmed
    array([0, 3])
    >>> policy.oracle_calls
    245
    """

    decisions: DecisionSet

    def __init__(
        self,
        graph: FeedbackGraph | int,
        decisions: DecisionSet,
        *,
        horizon: int | None = None,
        delta: float = 0.01,
        variant: str = "oracle",
        cover: str = "exact",
        interval: str | None = None,
        **options: Unpack[Options],
    ) -> None:
        super().__init__(graph, decisions=decisions, **options)
        self.horizon = check_horizon(horizon)
        self.delta = check_probability("delta", delta)
        self.variant = check_choice("variant", variant, tuple(VARIANTS))
        self.cover = check_choice("cover", cover, ("exact", "greedy"))
        if self.variant == "oracle" and decisions.needs_costs:
            reason = (
                "variant='oracle' asks for the best path by way of each arm, which is too hard where there are cycles"
            )
            raise ValueError(f"decisions must be a network without cycles, since {reason}; got {decisions!r}")
        default = "mixture" if variant == "oracle" else "printed"
        self.interval = check_choice("interval", default if interval is None else interval, VARIANTS[variant])
        if self.interval == "printed" and self.horizon is None:
            raise ValueError("horizon must be given with the printed interval, got None")

    @cached_property
    def _core(self) -> OracleElimination | ListedElimination:
        # Made when first needed: a policy that is only copied lists no family.
        horizon = float(self.horizon or 0)
        limits = Limits(INTERVALS.index(self.interval), self.n_arms, horizon, self.delta, self._offset)
        if self.variant == "oracle":
            return OracleElimination(self.graph, self.decisions, limits)
        exact, printed = self.cover == "exact", self.variant == "paper"
        return ListedElimination(self.graph, self.decisions, limits, printed=printed, exact=exact)

    @property
    @locked
    def triage(self) -> Triage:
        """The confirmed, active and eliminated arms as of what has been told; arms in no decision are eliminated."""
        status = self._core.status_of_arms
        return Triage(*(np.flatnonzero(status == kind) for kind in (CONFIRMED, UNDECIDED, ELIMINATED)))

    @property
    def oracle_calls(self) -> int:
        """How many best decisions were asked for; a question about many arms counts as one for each of them."""
        return int(self._progress.calls)

    @property
    def oracle_batches(self) -> int:
        """How many questions were asked; one about many arms counts once."""
        return int(self._progress.batches)

    @property
    def interval_failures(self) -> int:
        """How often an arm's new interval contradicted its old ones: a sign of drift, or of bad luck."""
        return int(self._progress.failures)

    @property
    def _progress(self) -> Progress:
        """What elimination by oracle counts; nothing of it where decisions are listed."""
        return self._core.progress if isinstance(self._core, OracleElimination) else Progress(*[0] * 6)

    def _select(self, number: int) -> Ints:
        return self._core.select()

    def _check_eligible_allowed(self) -> None:
        if self.variant != "oracle":
            raise ValueError(
                f"variant={self.variant!r} eliminates decisions of one list, so it cannot be asked with eligible arms; "
                "use variant='oracle'"
            )

    def _chosen(self, number: int, among: Ints | None) -> tuple[Ints, Floats | None]:
        if among is None:
            return super()._chosen(number, among)
        # What is eliminated may be the best of what is left, so in such a round the most hopeful decision is played.
        assert isinstance(self._core, OracleElimination)
        exclude = np.setdiff1d(np.arange(self.n_arms), among, assume_unique=True)
        arms = self.decisions.maximise(self._core.evidence.upper, (), exclude)
        if arms is None:
            raise ValueError(f"eligible must leave a decision of {self.decisions!r}, got {among.size} arms")
        return arms, None

    def _update(self, number: int, arms: Ints, rewards: Floats) -> None:
        self._core.update(arms, rewards)

    def _schedule(self, arms: Ints) -> None:
        self._core.schedule(arms)

    def _release(self, arms: Ints) -> None:
        self._core.release(arms)

    def _arrays(self) -> dict[str, NDArray[Any]]:
        return self._core.arrays()

    def _restore(self, arrays: Mapping[str, NDArray[Any]]) -> None:
        vars(self).pop("_core", None)
        core = self._core
        core.restore(arrays, self._awaited())
        counted = core.evidence if isinstance(core, OracleElimination) else core
        self._check_tallied(counted.counts, counted.sums)
