"""What is claimed of Algorithms 3 and 4: the stages of a round, what they store, and what a round may lose."""

from __future__ import annotations

import math
from functools import cached_property
from typing import Any, ClassVar

import numpy as np

from armtriage.decisions import Decision
from armtriage.environments import LinearEnvironment
from armtriage.kernels.record import Floats, Ints
from armtriage.theory.audit.ledger import Claim
from armtriage.theory.audit.watch import EVENT, HAIR, Mask, Watch, fit_of, homes_of, mask_of
from armtriage.theory.bounds.bound import Bound
from armtriage.theory.bounds.linear import linear_upper

_A, _B, _C = "(A) best arms stay in question", "(B) confirmed arms are best", "(C) arms in question are close"
_STORED, _POTENTIAL = "stages store what was chosen without their rewards", "stored widths obey the potential bound"
_LITTLE, _REGRET = "a round loses little", "regret is below the bound"


class StagesWatch(Watch):
    """Follows a `HierarchicalElimination` through the stages of each round, as its triage says they went."""

    about: ClassVar[str] = "Algorithms 3 and 4"
    statements: ClassVar[tuple[Claim, ...]] = (
        Claim(_STORED, "width lemma, its condition; Algorithm 3 breaks it, erratum N2"),
        Claim(_POTENTIAL, "lemma on the elliptical potential of batches"),
        Claim(_A, "lemma of Algorithm 3, (A); repaired by erratum N1", event=True),
        Claim(_B, "lemma of Algorithm 3, (B)", event=True),
        Claim(_C, "lemma of Algorithm 3, (C): 16 times 2^-h; tight: 12", event=True),
        Claim(_LITTLE, "Theorem 5, proof: what explored and filled arms may lose", event=True),
        Claim(_REGRET, "Theorem 5; erratum N5", event=True),
        Claim(EVENT, "width lemma, for all rounds and stages; erratum N7"),
    )

    def begin(self, policy: Any, replication: int) -> None:
        """Begin a run of a fresh policy."""
        super().begin(policy, replication)
        self.batches, self.potential = np.zeros((2, policy.stages))

    @property
    def promise(self) -> float:
        """With which probability the widths may fail."""
        policy = self.recipe
        return float(policy.delta if policy.variant == "tight" else min(1.0, policy.stages / policy.horizon))

    @property
    def printed(self) -> tuple[str, ...]:
        """What the paper says of its own variant, though it can fail."""
        return (_A, _B, _C, _STORED, _LITTLE, _REGRET, EVENT) if self.recipe.variant == "paper" else ()

    @cached_property
    def bound(self) -> Bound:
        """Theorem 5; the print has no constants, and those of its proof are the repaired ones."""
        policy = self.recipe
        variant, noise = "tight" if policy.variant == "tight" else "repaired", policy.noise_in_units(policy.noise_scale)
        return linear_upper(**self.sizes("dimension"), variant=variant, noise_scale=noise)

    @property
    def excluded(self) -> dict[str, str]:
        """Why which of the statements are not applicable."""
        return {_REGRET: self.bound.reason} if self.bound.value is None else {}

    @property
    def factor(self) -> float:
        """How far apart arms in question may be, in units of 2^-h."""
        return 12.0 if self.recipe.variant == "tight" else 16.0

    def asked(self, number: int, decision: Decision) -> None:
        """Go through the stages of the round as the policy says they went."""
        environment, policy, triage = self.environment, self.policy, self.policy.triage
        assert isinstance(environment, LinearEnvironment)
        contexts = environment.contexts(number, self.replication) / policy.context_bound
        means = self.sign * environment.means(number, self.replication) / self.unit
        multiple = policy.params().multiple
        explored, confirmed, _, eliminated = (mask_of(policy.n_arms, arms) for arms in triage[:4])
        is_open, taken = np.ones_like(explored), np.zeros_like(explored)
        allowed = 0.5 ** (policy.stages + 1) * triage.filled.size
        for stage in range(1, policy.stages + 1):
            here = triage.stages == stage
            allowed += 0.5**stage * int((here & explored).sum())
            self._check_open(stage, means, is_open, taken)
            estimates, norms = fit_of(policy, stage - 1, contexts)
            wrong = np.abs(estimates - means) > multiple * norms + HAIR
            self.good = self.good and not (is_open & wrong).any()
            is_open, taken = is_open & ~(here & explored), taken | (here & explored)
            if (here & confirmed).any():
                rank = np.partition(means, -policy.budget)[-policy.budget]
                worse = here & confirmed & (means < rank - HAIR)
                self.check_good(_B, np.flatnonzero(worse), f"stage {stage}")
            is_open, taken = is_open & ~(here & (confirmed | eliminated)), taken | (here & confirmed)
            if taken.sum() >= policy.budget:
                break
        self._check_open(policy.stages + 1, means, is_open, taken)
        self.check_loss(_LITTLE, decision.arms, self.lose(number, decision.arms), self.factor * allowed)
        if self.bound.value is not None:
            self.check_bound(_REGRET, (), self.bound.value)
        self._check_stores(decision.arms, homes_of(policy, number), explored, contexts)

    def _check_open(self, stage: int, means: Floats, is_open: Mask, taken: Mask) -> None:
        """Check (A) and (C) for the arms in question when a stage begins."""
        free = self.policy.budget - int(taken.sum())
        if free <= 0 or not is_open.any():
            return
        # The best that are not taken are, whatever equal means there are, the `free` largest of the others.
        best, here = np.sort(means[~taken])[::-1][:free], np.sort(means[is_open])[::-1][:free]
        lost = here.size < free or bool((here < best - HAIR).any())
        gone = np.flatnonzero(~taken & ~is_open & (means >= best[-1] - HAIR))
        self.check_good(_A, gone, f"before stage {stage}", not lost)
        far = is_open & (means < means[is_open].max() - self.factor * 0.5**stage - HAIR)
        self.check_good(_C, np.flatnonzero(far), f"before stage {stage}")

    def _check_stores(self, chosen: Ints, homes: Ints, explored: Mask, contexts: Floats) -> None:
        """Check where rewards go: an explored arm to its stage, a confirmed one at most to a later one."""
        stages = self.policy.triage.stages[chosen]
        kept = homes >= 0
        fits = np.where(explored[chosen], homes == stages - 1, (homes >= stages) & (stages > 0))
        if kept.any():
            self.ledger.check(_STORED, chosen[kept & ~fits])
        d, budget = self.policy.dimension, self.policy.budget
        for model in np.unique(homes[kept]):
            norms = fit_of(self.policy, model, contexts[chosen[homes == model]])[1]
            self.potential[model] += math.sqrt(float((norms**2).sum()))
            self.batches[model] += 1
            n = float(self.batches[model])
            most = math.sqrt(10.0) * math.log(n + 1.0) * (math.sqrt(d * n) + d * math.sqrt(budget))
            holds = bool(self.potential[model] <= most + HAIR)
            self.ledger.check(_POTENTIAL, (), f"stage {model + 1}", holds)
