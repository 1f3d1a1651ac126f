"""What is claimed of Algorithms 3 and 4: the stages of a round, what they store, and what a round may lose."""

from __future__ import annotations

import math
from typing import Any, ClassVar

import numpy as np
from numpy.typing import NDArray

from armtriage.decisions import Decision
from armtriage.environments import LinearEnvironment
from armtriage.policies import HierarchicalElimination
from armtriage.theory.audit.ledger import Ledger, Statement
from armtriage.theory.audit.problem import Floats, Problem
from armtriage.theory.audit.watch import EVENT, HAIR, Watch, homes_of, stored_in

__all__ = ["StagesWatch", "slack_rule"]

Mask = NDArray[np.bool_]

_A, _B, _C = "(A) best arms stay in question", "(B) confirmed arms are best", "(C) arms in question are close"
_STORED = "stages store what was chosen without their rewards"
_LITTLE, _REGRET = "a round loses little", "regret is below the bound"


class StagesWatch(Watch):
    """Follows a `HierarchicalElimination`; regressions of its own tell estimates and widths."""

    about: ClassVar[str] = "Algorithms 3 and 4"
    statements: ClassVar[tuple[Statement, ...]] = (
        Statement("a decision is explored, confirmed and filled", "Algorithm 3, the decision"),
        Statement("explored arms are wide", "Algorithm 3, step (1)"),
        Statement("survivors are narrow", "Algorithm 3, after step (1): widths of at most 2^-h"),
        Statement("fewer arms are confirmed than slots are free", "Algorithm 3, step (2); tight: not more"),
        Statement("enough arms stay in question", "Algorithm 3, step (3)"),
        Statement("the fill was in question", "Algorithm 3, last lines"),
        Statement(_STORED, "width lemma, its condition; Algorithm 3 breaks it, erratum N2"),
        Statement("no reward is stored twice", "Algorithm 3, last line of a stage"),
        Statement("stored widths obey the potential bound", "lemma on the elliptical potential of batches"),
        Statement(_A, "lemma of Algorithm 3, (A); repaired by erratum N1", event=True),
        Statement(_B, "lemma of Algorithm 3, (B)", event=True),
        Statement(_C, "lemma of Algorithm 3, (C): 16 times 2^-h; tight: 12", event=True),
        Statement(_LITTLE, "Theorem 5, proof: what explored and filled arms may lose", event=True),
        Statement(_REGRET, "Theorem 5; erratum N5", event=True),
        Statement(EVENT, "width lemma, for all rounds and stages; erratum N7"),
    )
    policy: HierarchicalElimination

    def __init__(self, ledger: Ledger, problem: Problem, policy: Any, replication: int) -> None:
        super().__init__(ledger, problem, policy, replication)
        self.stages, self.tight = policy.stages, policy.variant == "tight"
        union, d = 2.0 * policy.n_arms * policy.horizon, policy.dimension
        self.promise = policy.delta if self.tight else min(1.0, self.stages / policy.horizon)
        self.multiple = 2.0 * (1.0 + math.sqrt(math.log(union)))
        if self.tight:
            noise = policy.noise_in_units(policy.noise_scale)
            self.multiple = noise * math.sqrt(2.0 * math.log(union * self.stages / policy.delta)) + 1.0
        self.factor = 12.0 if self.tight else 16.0
        self.grams, self.moments = np.tile(np.eye(d), (self.stages, 1, 1)), np.zeros((self.stages, d))
        self.inverses = self.grams.copy()
        self.batches, self.stored = np.zeros((2, self.stages), np.int64)
        self.potential = np.zeros(self.stages)
        self.homes = np.empty(0, np.int64)

    @classmethod
    def printed(cls, problem: Problem) -> tuple[str, ...]:
        """Return what the paper says of its own variant, though it can fail."""
        policy: Any = problem.policy
        return (_A, _B, _C, _STORED, _LITTLE, _REGRET, EVENT) if policy.variant == "paper" else ()

    @classmethod
    def excluded(cls, problem: Problem) -> dict[str, str]:
        """Return why which of the statements are not applicable."""
        bound = problem.linear_bound
        return {_REGRET: bound.reason} if bound.value is None else {}

    def asked(self, number: int, decision: Decision) -> None:
        """Go through the stages of the round as the policy says they went."""
        environment, policy, triage = self.problem.environment, self.policy, self.policy.triage
        assert isinstance(environment, LinearEnvironment)
        self.contexts = environment.contexts(number, self.replication) / policy.context_bound
        self.means = self.problem.sign * environment.means(number, self.replication) / self.problem.unit
        masks = np.zeros((5, policy.n_arms), np.bool_)
        for mask, arms in zip(masks, (*triage[:4], decision.arms), strict=True):
            mask[arms] = True
        explored, confirmed, filled, eliminated, played = masks
        wrong = np.flatnonzero(played != (explored | confirmed | filled))
        self.ledger.check("a decision is explored, confirmed and filled", wrong)
        self.open, self.taken = np.ones_like(played), np.zeros_like(played)
        allowed = 0.5 ** (self.stages + 1) * int(filled.sum())
        for stage in range(1, self.stages + 1):
            here = triage.stages == stage
            allowed += 0.5**stage * int((here & explored).sum())
            self._stage(stage, here & explored, here & confirmed, here & eliminated)
            if self._free <= 0:
                break
        else:
            self._check_open(self.stages + 1)
        self.ledger.check("the fill was in question", np.flatnonzero(filled & ~self.open))
        self._check_regret(number, decision, self.factor * allowed)
        self.homes = homes_of(policy, number)
        self._check_homes(decision, explored, triage.stages)

    @property
    def _free(self) -> int:
        return self.policy.budget - int(self.taken.sum())

    def _stage(self, stage: int, explored: Mask, confirmed: Mask, eliminated: Mask) -> None:
        """Check one stage, and go on to what it leaves."""
        check, unit, where = self.ledger.check, 0.5**stage, f"stage {stage}"
        self._check_open(stage)
        estimates, widths = self._fit(stage - 1)
        self.good = self.good and not (self.open & (np.abs(estimates - self.means) > widths + HAIR)).any()
        if explored.any():
            check("explored arms are wide", np.flatnonzero(explored & (widths <= unit - HAIR)), where)
        self.open, self.taken = self.open & ~explored, self.taken | explored
        free = self._free
        if free <= 0:
            return
        check("survivors are narrow", np.flatnonzero(self.open & (widths > unit + HAIR)), where)
        sure = int(confirmed.sum())
        few = sure <= free if self.tight else sure < free
        check("fewer arms are confirmed than slots are free", np.flatnonzero(confirmed), where, few)
        if int(self.open.sum()) < free:
            return
        if sure:
            rank = np.partition(self.means, -self.policy.budget)[-self.policy.budget]
            self.check_good(_B, np.flatnonzero(confirmed & (self.means < rank - HAIR)), where)
        self.open, self.taken = self.open & ~confirmed & ~eliminated, self.taken | confirmed
        left = int(self.open.sum())
        check("enough arms stay in question", np.flatnonzero(eliminated), where, left >= free - sure)

    def _fit(self, model: int) -> tuple[Floats, Floats]:
        """Return the estimates and widths of a stage."""
        x, inverse = self.contexts, self.inverses[model]
        squares = np.einsum("ij,jk,ik->i", x, inverse, x)
        return x @ (inverse @ self.moments[model]), self.multiple * np.sqrt(np.maximum(squares, 0.0))

    def _check_open(self, stage: int) -> None:
        """Check (A) and (C) for the arms in question when a stage begins."""
        means, free = self.means, self._free
        if free <= 0 or not self.open.any():
            return
        # The best that are not taken are, whatever equal means there are, the `free` largest of the others.
        best, here = np.sort(means[~self.taken])[::-1][:free], np.sort(means[self.open])[::-1][:free]
        lost = here.size < free or bool((here < best - HAIR).any())
        gone = np.flatnonzero(~self.taken & ~self.open & (means >= best[-1] - HAIR))
        self.check_good(_A, gone, f"before stage {stage}", not lost)
        far = self.open & (means < means[self.open].max() - self.factor * 0.5**stage - HAIR)
        self.check_good(_C, np.flatnonzero(far), f"before stage {stage}")

    def _check_regret(self, number: int, decision: Decision, allowed: float) -> None:
        bound = self.problem.linear_bound.value
        self.check_loss(_LITTLE, decision.arms, self.lose(number, decision.arms), allowed)
        if bound is not None:
            self.check_bound(_REGRET, (), bound)

    def _check_homes(self, decision: Decision, explored: Mask, stages: Any) -> None:
        """Check where rewards go: an explored arm to its stage, a confirmed one at most to a later one."""
        chosen, homes = decision.arms, self.homes
        kept = homes >= 0
        fits = np.where(explored[chosen], homes == stages[chosen] - 1, (homes >= stages[chosen]) & (stages[chosen] > 0))
        if kept.any():
            self.ledger.check(_STORED, chosen[kept & ~fits])

    def told(self, number: int, decision: Decision, rewards: Floats) -> None:
        """Store the rewards as the policy does, and compare."""
        x, d = self.contexts[decision.arms], self.policy.dimension
        for model in np.unique(self.homes[self.homes >= 0]):
            batch = self.homes == model
            norms = np.einsum("ij,jk,ik->i", x[batch], self.inverses[model], x[batch])
            self.potential[model] += math.sqrt(float(norms.sum()))
            self.batches[model] += 1
            self.stored[model] += int(batch.sum())
            self.grams[model] += x[batch].T @ x[batch]
            self.moments[model] += rewards[batch] @ x[batch]
            self.inverses[model] = np.linalg.inv(self.grams[model])
            n = float(self.batches[model])
            most = math.sqrt(10.0) * math.log(n + 1.0) * (math.sqrt(d * n) + d * math.sqrt(self.policy.budget))
            holds = bool(self.potential[model] <= most + HAIR)
            self.ledger.check("stored widths obey the potential bound", (), f"stage {model + 1}", holds)
        wrong = np.flatnonzero(stored_in(self.policy) != self.stored)
        self.ledger.check("no reward is stored twice", (), f"stages {(wrong + 1).tolist()}", not wrong.size)


def slack_rule(
    estimates: Floats, widths: Floats, budget: int, stage: int, *, printed: bool
) -> tuple[NDArray[np.bool_], NDArray[np.bool_]]:
    """Return which arms a stage of Algorithm 3 confirms and which it eliminates, if no width exceeds 2^-h.

    As printed, an arm is compared with the estimate of the arm whose upper end is S-th; repaired, with the S-th
    estimate. Erratum N1 shows three arms on which they differ.

    >>> from armtriage.instances import three_arms
    >>> state = three_arms()
    >>> for printed in (True, False):
    ...     slack_rule(state.estimates, state.widths, state.budget, state.stage, printed=printed)[1]
    array([False,  True, False])
    array([False, False, False])
    """
    by = estimates + widths if printed else estimates
    benchmark = estimates[np.argsort(-by, kind="stable")[budget - 1]]
    unit = 0.5**stage
    sure = estimates > benchmark + 4.0 * unit
    return sure, ~sure & (estimates < benchmark - 2.0 * unit)
