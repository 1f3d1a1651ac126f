"""What is claimed of Algorithm 2: which arms it plays, and what it may lose while intervals hold."""

from __future__ import annotations

import math
from typing import Any, ClassVar

import numpy as np

from armtriage.decisions import Decision
from armtriage.policies import CombinatorialUCB
from armtriage.theory.audit.ledger import Ledger, Statement
from armtriage.theory.audit.problem import Floats, Problem
from armtriage.theory.audit.watch import EVENT, HAIR, Books, Watch, counts_of

__all__ = ["IndexWatch"]

_REGRET = "regret is below the full-information bound"


class IndexWatch(Watch):
    """Follows a `CombinatorialUCB`."""

    about: ClassVar[str] = "Algorithm 2"
    statements: ClassVar[tuple[Statement, ...]] = (
        Statement("revealed arms are counted once", "Algorithm 2, feedback"),
        Statement("a round loses little", "Theorem 4 and appendix: twice the widths of what is played", event=True),
        Statement(_REGRET, "appendix, UCB with full information", event=True),
        Statement(EVENT, "Lemma 1"),
    )
    policy: CombinatorialUCB

    def __init__(self, ledger: Ledger, problem: Problem, policy: Any, replication: int) -> None:
        super().__init__(ledger, problem, policy, replication)
        self.promise = policy.delta
        self.books = Books(problem.means, policy.n_arms, self._bounds)

    @classmethod
    def excluded(cls, problem: Problem) -> dict[str, str]:
        """Return why which of the statements are not applicable."""
        policy: Any = problem.policy
        if problem.means is None:
            return cls.needing_means()
        reasons = {}
        if policy.graph.n_edges < policy.n_arms**2:
            reasons[_REGRET] = "not every arm reveals all arms"
        asked = math.sqrt(math.log(2.0 * policy.n_arms * (policy.horizon or problem.horizon) / policy.delta))
        if policy.width < asked * math.sqrt(0.5) - HAIR:
            reasons[EVENT] = "the width is smaller than delta and the horizon ask for"
        if not abs(policy.width - asked) <= HAIR:
            reasons.setdefault(_REGRET, "the width is not the one of the theorem")
        return reasons

    def _bounds(self, counts: Any, sums: Floats, squares: Floats) -> tuple[Floats, Floats]:
        width = self.policy.width / np.sqrt(counts)
        return sums / counts - width, sums / counts + width

    def asked(self, number: int, decision: Decision) -> None:
        """Check what the decision loses."""
        counts, arms = self.books.counts, decision.arms
        if self.problem.means is None:
            return
        loss = self.lose(number, arms)
        if counts.min() > 0:
            widths = self.policy.width / np.sqrt(counts[arms])
            self.check_loss("a round loses little", arms, loss, 2.0 * float(widths.sum()))
        self.check_bound(_REGRET, arms, self.problem.full_information_bound.value)

    def told(self, number: int, decision: Decision, rewards: Floats) -> None:
        """Check the counts after an update."""
        missed = self.books.add(decision.revealed, rewards)
        self.good = self.good and not missed.size
        wrong = np.flatnonzero(counts_of(self.policy) != self.books.counts)
        self.ledger.check("revealed arms are counted once", wrong)
