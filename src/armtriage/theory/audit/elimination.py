"""What is claimed of Algorithm 1: its sets, counts, layers and regret."""

from __future__ import annotations

import math
from typing import Any, ClassVar

import numpy as np

from armtriage.decisions import Decision
from armtriage.intervals import INTERVALS, half_width
from armtriage.policies import CombinatorialElimination
from armtriage.theory.audit.ledger import Ledger, Statement
from armtriage.theory.audit.problem import Floats, Problem
from armtriage.theory.audit.watch import (
    EVENT,
    HAIR,
    Books,
    Watch,
    counts_of,
    intervals_of,
    least_of,
    promised_intervals,
)

__all__ = ["EliminationWatch"]

_REDUCED = "a claim of the paper that the reduced benchmark does not need"
_PICKS, _LEMMA = "layers have few picks", "the first layer obeys the greedy lemma"


class EliminationWatch(Watch):
    """Follows a `CombinatorialElimination`, printed or tight."""

    about: ClassVar[str] = "Algorithm 1"
    statements: ClassVar[tuple[Statement, ...]] = (
        Statement("the sets part the arms", "Algorithm 1, sets"),
        Statement("confirmed and eliminated arms stay so", "Algorithm 1, sets"),
        Statement("enough arms are left", "Algorithm 1, sets; what the fill needs, erratum G2"),
        Statement("no more than S arms are confirmed", "Lemma 2 (B); with the reduced benchmark always"),
        Statement("confirmed arms are played", "Algorithm 1, the decision"),
        Statement("eliminated arms are not played", "Algorithm 1, the decision; for the fill erratum G2"),
        Statement("revealed arms are counted once", "Algorithm 1, feedback"),
        Statement("N never falls", "Algorithm 1, update of N"),
        Statement("active arms have N observations", "Algorithm 1, update of N"),
        Statement("confirmed arms have N observations", "Lemma 2, proof; false by erratum G4", printed=True),
        Statement("intervals are as wide as promised", "Lemma 1; erratum G1"),
        Statement(_PICKS, "Theorem 1, proof, size of a layer, replaced by erratum G10; Theorem 3, erratum G9"),
        Statement(_LEMMA, "greedy lemma; false by erratum G10", printed=True),
        Statement("(A) best arms stay", "Lemma 2 (A); proof repaired by erratum G4", event=True),
        Statement("(B) confirmed arms are best", "Lemma 2 (B); proof repaired by erratum G4", event=True),
        Statement("(C) active arms are close", "Lemma 2 (C): 8w(N); reduced benchmark: 6 half-widths", event=True),
        Statement("active arms are close to rank S", "Theorem 1, proof; 4w by erratum G12", event=True),
        Statement("a round loses little", "Theorem 3, proof: S' times 8w, or 6w; erratum G6", event=True),
        Statement("losses end", "Theorem 1, proof: 4w below the gap, or S arms left; erratum G12", event=True),
        Statement("regret is below the gap bound", "Theorem 1; errata G10, G12", event=True),
        Statement("regret is below the minimax bound", "Theorem 3; errata G10, G13", event=True),
        Statement(EVENT, "Lemma 1"),
    )
    policy: CombinatorialElimination

    def __init__(self, ledger: Ledger, problem: Problem, policy: Any, replication: int) -> None:
        super().__init__(ledger, problem, policy, replication)
        self.promise = policy.delta
        self.reduced = policy.benchmark == "reduced"
        self.factor = 6.0 if self.reduced else 8.0  # half-widths by which active arms may differ
        self.books = Books(problem.means, policy.n_arms, promised_intervals(policy))
        self.confirmed, self.active, self.eliminated = self.sets()
        self.least = least_of(policy)
        self.width = math.inf  # the largest half-width at the last update of N
        self.layer, self.rounds = -1, 0  # the N of a layer, and its rounds before this one

    @classmethod
    def excluded(cls, problem: Problem) -> dict[str, str]:
        """Return why which of the statements are not applicable."""
        policy: Any = problem.policy
        reasons = {}
        if policy.benchmark == "reduced":
            reasons = {one.name: _REDUCED for one in cls.statements if one.printed}
        else:
            reasons["intervals are as wide as promised"] = "with the printed benchmark the rule itself has the width"
        if problem.means is None:
            return reasons | cls.needing_means()
        if policy.budget == policy.n_arms:
            reasons["losses end"] = "all arms are played, nothing is ever lost"
        elif np.partition(problem.means, -policy.budget - 1)[-policy.budget - 1] == problem.rank:
            reasons["losses end"] = "arms of equal mean stand on both sides of rank S"
        for name, bound in (("gap", problem.gap_bound), ("minimax", problem.minimax_bound)):
            if bound.value is None:
                reasons[f"regret is below the {name} bound"] = bound.reason
        return reasons

    def asked(self, number: int, decision: Decision) -> None:
        """Check the decision against the sets that it was made with."""
        check, arms, free = self.ledger.check, decision.arms, self.policy.budget - int(self.confirmed.sum())
        if 0 <= free < self.policy.budget:
            check("confirmed arms are played", np.setdiff1d(np.flatnonzero(self.confirmed), arms))
        if self.eliminated.any():
            check("eliminated arms are not played", arms[self.eliminated[arms]])
        if 0 < free < int(self.active.sum()):
            self._check_layer(decision, free)
        if self.problem.means is None:
            return
        loss = self.lose(number, arms)
        if math.isfinite(self.width) and free > 0:
            self.check_loss("a round loses little", arms, loss, self.factor * free * self.width)
        if 4.0 * self.width < self.problem.gap or int(self.active.sum()) == free:
            self.check_good("losses end", arms, f"lost {loss:.4g}", loss <= 0.0)
        for name, bound in (("gap", self.problem.gap_bound), ("minimax", self.problem.minimax_bound)):
            if bound.value is not None:
                self.check_bound(f"regret is below the {name} bound", arms, bound.value)

    def _check_layer(self, decision: Decision, free: int) -> None:
        """Count the picks of a layer, the rounds of equal N: all free slots of those before the last, and one more."""
        self.rounds = self.rounds + 1 if self.least == self.layer else 0
        self.layer = self.least
        picks, most = self.rounds * free + 1, self.problem.layer_size
        self.ledger.check(_PICKS, decision.arms, f"{picks}, at most {most:.4g}", picks <= most)
        if self.layer == 0 and self.ledger.applies(_LEMMA):
            most = (1.0 + math.log(self.policy.n_arms)) * self.problem.domination.upper
            self.ledger.check(_LEMMA, decision.arms, f"{picks} picks, the lemma says {most:.4g}", picks <= most)

    def told(self, number: int, decision: Decision, rewards: Floats) -> None:
        """Check the sets and counts after an update."""
        missed = self.books.add(decision.revealed, rewards)
        self.good = self.good and not missed.size
        before, least = (self.confirmed, self.active, self.eliminated), self.least
        self.confirmed, self.active, self.eliminated = self.sets()
        self.least = least_of(self.policy)
        self._check_sets(before)
        self._check_counts(least)
        if self.reduced:
            lower, upper = intervals_of(self.policy)
            narrow = (lower > self.books.lower + HAIR) | (upper < self.books.upper - HAIR)
            self.ledger.check("intervals are as wide as promised", np.flatnonzero(before[1] & narrow))
        if self.least > least:
            self.width = self._width(before[1])
        if self.problem.means is not None:
            self._check_lemma(self.problem.means, self.least > least)

    def _width(self, active: Any) -> float:
        """Return the largest half-width that arms were sorted by at an update of N."""
        if self.reduced:
            lower, upper = intervals_of(self.policy)
            return float((upper - lower)[active].max()) / 2.0
        policy = self.policy
        kind, span = INTERVALS.index(policy.interval), float(policy.horizon or 0)
        return float(half_width(kind, self.least, policy.n_arms, span, policy.delta))

    def _check_sets(self, before: tuple[Any, Any, Any]) -> None:
        check, budget = self.ledger.check, self.policy.budget
        sets = np.stack([self.confirmed, self.active, self.eliminated])
        check("the sets part the arms", np.flatnonzero(sets.sum(axis=0) != 1))
        if before[0].any() or before[2].any():
            left = np.flatnonzero((before[0] & ~self.confirmed) | (before[2] & ~self.eliminated))
            check("confirmed and eliminated arms stay so", left)
        remain, sure = int((self.confirmed | self.active).sum()), int(self.confirmed.sum())
        if self.eliminated.any():
            gone = np.flatnonzero(before[1] & self.eliminated)
            check("enough arms are left", gone, f"{remain} left", remain >= budget)
        if sure and (self.reduced or self.good):
            new = np.flatnonzero(self.confirmed & ~before[0])
            check("no more than S arms are confirmed", new, f"{sure} confirmed", sure <= budget)

    def _check_counts(self, before: int) -> None:
        check, counts, least = self.ledger.check, self.books.counts, self.least
        check("revealed arms are counted once", np.flatnonzero(counts_of(self.policy) != counts))
        check("N never falls", (), f"from {before} to {least}", least >= before)
        for name, members in (("active", self.active), ("confirmed", self.confirmed)):
            if members.any():
                few = np.flatnonzero(members & (counts < least))
                check(f"{name} arms have N observations", few, f"observed {counts[few].tolist()}, N is {least}")

    def _check_lemma(self, means: Floats, updated: bool) -> None:
        check, rank = self.check_good, self.problem.rank
        if self.eliminated.any():
            check("(A) best arms stay", np.flatnonzero(self.eliminated & (means >= rank)))
        if self.confirmed.any():
            best = means >= rank if self.reduced else means > rank
            check("(B) confirmed arms are best", np.flatnonzero(self.confirmed & ~best))
        if updated and self.active.any():
            here, width = np.flatnonzero(self.active), self.width
            far = here[means[here].max() - means[here] > self.factor * width + HAIR]
            check("(C) active arms are close", far, f"further than {self.factor:g} times {width:.4g}")
            far = here[rank - means[here] > 4.0 * width + HAIR]
            check("active arms are close to rank S", far, f"further than 4 times {width:.4g}")
