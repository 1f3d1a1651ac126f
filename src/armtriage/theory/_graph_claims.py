"""What is claimed of Algorithm 1: its sets, counts, layers and regret."""

from __future__ import annotations

import math
from typing import Any, ClassVar

import numpy as np

from armtriage.decisions import Decision
from armtriage.intervals import INTERVALS, half_width
from armtriage.policies import CombinatorialElimination
from armtriage.policies.elimination.sets import LEAST
from armtriage.theory._claims import Ledger, Statement
from armtriage.theory._layer_claims import LAYERS, Layers
from armtriage.theory._watch import EVENT, HAIR, Books, Floats, Problem, Watch, intervals_of

__all__ = ["EliminationWatch"]

_REDUCED = "a claim of the paper that the reduced benchmark does not need"


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
        Statement("arms are confirmed by the rule", "Algorithm 1, the confirmed set"),
        Statement("arms are eliminated by the rule", "Algorithm 1, the active set"),
        *LAYERS,
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
        self.books = Books(problem.means, policy.n_arms, intervals_of(policy))
        self.layers = Layers(ledger, problem, policy)
        self.kind, self.span = INTERVALS.index(policy.interval), float(policy.horizon or 0)
        self.confirmed, self.active, self.eliminated = self._sets()
        self.least = 0  # N as the rule has it
        self.shown = self._shown_least()
        self.width = math.inf

    @classmethod
    def excluded(cls, problem: Problem) -> dict[str, str]:
        """Return why which of the statements are not applicable."""
        policy: Any = problem.policy
        reasons = Layers.excluded(problem)
        if policy.benchmark == "reduced":
            reasons |= {one.name: _REDUCED for one in cls.statements if one.printed}
        else:
            reasons["intervals are as wide as promised"] = "with the printed benchmark the rule itself has the width"
        if problem.means is None:
            return reasons | cls.needing_means()
        if policy.budget == policy.n_arms:
            reasons["losses end"] = "all arms are played, nothing is ever lost"
        elif np.partition(problem.means, -policy.budget - 1)[-policy.budget - 1] == _rank(problem):
            reasons["losses end"] = "arms of equal mean stand on both sides of rank S"
        for name, bound in (("gap", problem.gap_bound), ("minimax", problem.minimax_bound)):
            if bound.value is None:
                reasons[f"regret is below the {name} bound"] = bound.reason
        return reasons

    def _sets(self) -> tuple[Any, Any, Any]:
        """Return who is confirmed, active and eliminated, as masks."""
        masks = np.zeros((3, self.policy.n_arms), np.bool_)
        for mask, arms in zip(masks, self.policy.triage, strict=True):
            mask[arms] = True
        return masks[0], masks[1], masks[2]

    def _shown_least(self) -> int:
        return int(self.policy._state.whole[LEAST])

    def _half_width(self, count: int) -> float:
        return float(half_width(self.kind, count, self.policy.n_arms, self.span, self.policy.delta))

    def asked(self, number: int, decision: Decision) -> None:
        """Check the decision against the sets that it was made with."""
        check, arms, free = self.ledger.check, decision.arms, self.policy.budget - int(self.confirmed.sum())
        if 0 <= free < self.policy.budget:
            check("confirmed arms are played", np.setdiff1d(np.flatnonzero(self.confirmed), arms))
        if self.eliminated.any():
            check("eliminated arms are not played", arms[self.eliminated[arms]])
        self.layers.asked(decision, self.confirmed, self.active, self.books.counts, self.shown)
        if self.problem.means is None:
            return
        loss = self.problem.regret(number, arms, self.replication)
        self.lost += loss
        if math.isfinite(self.width) and free > 0:
            factor = 6.0 if self.reduced else 8.0
            most = factor * free * self.width
            self.check_good("a round loses little", arms, f"{loss:.4g}, allowed {most:.4g}", loss <= most + HAIR)
        if 4.0 * self.width < self.problem.gap or int(self.active.sum()) == free:
            self.check_good("losses end", arms, f"lost {loss:.4g}", loss <= 0.0)
        for name, bound in (("gap", self.problem.gap_bound), ("minimax", self.problem.minimax_bound)):
            if bound.value is not None:
                # An interval of the reduced benchmark may wait until its count has grown by 1/32.
                most = bound.value * (33.0 / 32.0 if self.reduced else 1.0)
                detail = f"{self.lost:.4g} lost, the bound is {most:.4g}"
                self.check_good(f"regret is below the {name} bound", arms, detail, self.lost <= most + HAIR)

    def told(self, number: int, decision: Decision, rewards: Floats) -> None:
        """Check the sets and counts after an update."""
        missed = self.books.add(decision.revealed, rewards)
        self.good = self.good and not missed.size
        before = self.confirmed, self.active, self.eliminated
        self.confirmed, self.active, self.eliminated = self._sets()
        self._check_sets(before)
        self._check_counts()
        updated = self._check_rule(before[0], before[1])
        if self.problem.means is not None:
            self._check_lemma(self.problem.means, updated)

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

    def _check_counts(self) -> None:
        check, counts, shown = self.ledger.check, self.books.counts, self._shown_least()
        wrong = np.flatnonzero(self.policy._state.counts[: counts.size] != counts)
        check("revealed arms are counted once", wrong)
        check("N never falls", (), f"from {self.shown} to {shown}", shown >= self.shown)
        self.shown = shown
        for name, members in (("active", self.active), ("confirmed", self.confirmed)):
            if members.any():
                few = np.flatnonzero(members & (counts < shown))
                check(f"{name} arms have N observations", few, f"observed {counts[few].tolist()}, N is {shown}")

    def _check_rule(self, confirmed: Any, active: Any) -> bool:
        """Sort the arms as the rule does, from books of our own; return whether there was an update."""
        if self.reduced:
            self._check_intervals(active)
            least, sure, out, unsure = self._sort_reduced(confirmed, active)
        else:
            least, sure, out, unsure = self._sort_printed(confirmed, active)
        for name, rule, now in (("confirmed", sure, self.confirmed), ("eliminated", out, self.eliminated)):
            old = confirmed if name == "confirmed" else ~(confirmed | active)
            wrong = np.flatnonzero(((now & ~old) != rule) & ~unsure)
            self.ledger.check(f"arms are {name} by the rule", wrong)
        updated = least > self.least
        self.least = least
        return updated

    def _sort_printed(self, confirmed: Any, active: Any) -> tuple[int, Any, Any, Any]:
        """Return N, who is to be confirmed and eliminated as printed, and whom rounding may put on either side."""
        nobody = np.zeros_like(active)
        if confirmed.sum() >= self.policy.budget or (confirmed | active).sum() < self.policy.budget:
            return self.least, nobody, nobody, nobody
        least = int(self.books.counts[active].min())
        if least <= self.least:
            return self.least, nobody, nobody, nobody
        self.width = width = self._half_width(least)
        averages = self.books.averages
        ranked = np.sort(averages[confirmed | active])[::-1]
        above = averages - ranked[self.policy.budget - 1]
        sure, out = active & (above > 4.0 * width), active & (above < -2.0 * width)
        unsure = active & ((np.abs(above - 4.0 * width) < HAIR) | (np.abs(above + 2.0 * width) < HAIR))
        return least, sure, out, unsure

    def _sort_reduced(self, confirmed: Any, active: Any) -> tuple[int, Any, Any, Any]:
        """Return the same for the reduced benchmark, which takes the policy's intervals, exactly as they are."""
        state, counts, least = self.policy._state, self.books.counts, self.least
        sure, out, left = np.zeros_like(active), np.zeros_like(active), active.copy()
        free = self.policy.budget - int(confirmed.sum())
        while int(left.sum()) > free and int(counts[left].min()) > least:
            least = int(counts[left].min())
            self.width = float((state.upper - state.lower)[active].max()) / 2.0
            low = np.sort(state.lower[left])[::-1][free - 1] if free else np.inf
            high = np.sort(state.upper[left])[::-1][free]
            now = left & (state.lower > high)
            gone = left & ~now & (state.upper < low)
            sure, out, left = sure | now, out | gone, left & ~now & ~gone
            free -= int(now.sum())
        return least, sure, out, np.zeros_like(active)

    def _check_intervals(self, active: Any) -> None:
        state, books = self.policy._state, self.books
        narrow = (state.lower > books.lower + HAIR) | (state.upper < books.upper - HAIR)
        self.ledger.check("intervals are as wide as promised", np.flatnonzero(active & narrow))

    def _check_lemma(self, means: Floats, updated: bool) -> None:
        check, rank = self.check_good, _rank(self.problem)
        if self.eliminated.any():
            check("(A) best arms stay", np.flatnonzero(self.eliminated & (means >= rank)))
        if self.confirmed.any():
            best = means >= rank if self.reduced else means > rank
            check("(B) confirmed arms are best", np.flatnonzero(self.confirmed & ~best))
        if updated and self.active.any():
            here, width = np.flatnonzero(self.active), self.width
            factor = 6.0 if self.reduced else 8.0
            far = here[means[here].max() - means[here] > factor * width + HAIR]
            check("(C) active arms are close", far, f"further than {factor:g} times {width:.4g}")
            far = here[rank - means[here] > 4.0 * width + HAIR]
            check("active arms are close to rank S", far, f"further than 4 times {width:.4g}")


def _rank(problem: Problem) -> float:
    """Return the mean of rank S."""
    assert problem.means is not None
    budget = problem.policy.budget
    return float(np.partition(problem.means, -budget)[-budget])
