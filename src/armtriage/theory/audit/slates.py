"""What is claimed of Algorithms 1 and 2: sets, layers and regret of slates."""

from __future__ import annotations

import math
from functools import cached_property
from typing import Any, ClassVar

import numpy as np

from armtriage.decisions import Decision
from armtriage.kernels.record import Floats, Ints
from armtriage.theory.audit.ledger import Claim
from armtriage.theory.audit.watch import EVENT, HAIR, Mask, Watch, intervals_of, least_of
from armtriage.theory.bounds.bound import Bound
from armtriage.theory.bounds.for_environment import tie_gap
from armtriage.theory.bounds.graph import gap_upper, minimax_upper, ucb_full_information_upper
from armtriage.theory.numbers import Bracket, domination_number

_PICKS, _LEMMA = "layers have few picks", "the first layer obeys the greedy lemma"
_COUNTS, _REGRET = "confirmed arms have N observations", "regret is below the full-information bound"


class EliminationWatch(Watch):
    """Follows a `CombinatorialElimination`, printed or tight."""

    about: ClassVar[str] = "Algorithm 1"
    statements: ClassVar[tuple[Claim, ...]] = (
        Claim("no more than S arms are confirmed", "Lemma 2 (B); with the reduced benchmark always"),
        Claim(_COUNTS, "Lemma 2, proof; false by erratum G4", printed=True),
        Claim(_PICKS, "Theorem 1, proof, size of a layer, replaced by erratum G10; Theorem 3, erratum G9"),
        Claim(_LEMMA, "greedy lemma; false by erratum G10", printed=True),
        Claim("(A) best arms stay", "Lemma 2 (A); proof repaired by erratum G4", event=True),
        Claim("(B) confirmed arms are best", "Lemma 2 (B); proof repaired by erratum G4", event=True),
        Claim("(C) active arms are close", "Lemma 2 (C): 8w(N); reduced benchmark: 6 half-widths", event=True),
        Claim("active arms are close to rank S", "Theorem 1, proof; 4w by erratum G12", event=True),
        Claim("a round loses little", "Theorem 3, proof: S' times 8w, or 6w; erratum G6", event=True),
        Claim("losses end", "Theorem 1, proof: 4w below the gap, or S arms left; errata G2, G12", event=True),
        Claim("regret is below the gap bound", "Theorem 1; errata G10, G12", event=True),
        Claim("regret is below the minimax bound", "Theorem 3; errata G10, G13", event=True),
        Claim(EVENT, "Lemma 1; erratum G1"),
    )

    def begin(self, policy: Any, replication: int) -> None:
        """Begin a run of a fresh policy."""
        super().begin(policy, replication)
        self.sets, self.least = policy.triage, least_of(policy)
        self.width = math.inf  # the largest half-width at the last update of N
        self.layer, self.rounds = -1, 0  # the N of a layer, and its rounds before this one

    @property
    def reduced(self) -> bool:
        """Whether arms are compared by their own intervals, and not by one width for all."""
        return bool(self.recipe.benchmark == "reduced")

    @property
    def factor(self) -> float:
        """Half-widths by which active arms may differ."""
        return 6.0 if self.reduced else 8.0

    @cached_property
    def rank(self) -> float:
        """The mean of rank S."""
        assert self.means is not None
        return float(np.partition(self.means, -self.recipe.budget)[-self.recipe.budget])

    @cached_property
    def domination(self) -> Bracket:
        """The domination number of the graph."""
        return domination_number(self.recipe.graph)

    @cached_property
    def gap_bound(self) -> Bound:
        """Theorem 1."""
        assert self.means is not None
        ties = tie_gap(self.means, self.recipe.budget)
        return gap_upper(**self.by_graph, benchmark=self.recipe.benchmark, gap=self.gap, tie_gap=ties)

    @cached_property
    def minimax_bound(self) -> Bound:
        """Theorem 3."""
        return minimax_upper(**self.by_graph, benchmark=self.recipe.benchmark, rounds=self.horizon)

    @property
    def excluded(self) -> dict[str, str]:
        """Why which of the statements are not applicable."""
        policy, reasons = self.recipe, super().excluded
        if self.reduced:
            why = "a claim of the paper that the reduced benchmark does not need"
            reasons |= {one.name: why for one in self.statements if one.printed}
        if self.means is None:
            return reasons
        if policy.budget == policy.n_arms:
            reasons["losses end"] = "all arms are played, nothing is ever lost"
        elif np.partition(self.means, -policy.budget - 1)[-policy.budget - 1] == self.rank:
            reasons["losses end"] = "arms of equal mean stand on both sides of rank S"
        for name, bound in (("gap", self.gap_bound), ("minimax", self.minimax_bound)):
            if bound.value is None:
                reasons[f"regret is below the {name} bound"] = bound.reason
        return reasons

    def asked(self, number: int, decision: Decision) -> None:
        """Check the layer of a decision, and what it loses."""
        arms, active = decision.arms, self.sets.active.size
        free = self.policy.budget - self.sets.confirmed.size
        if 0 < free < active:
            self._check_layer(arms, free)
        if self.means is None:
            return
        loss = self.lose(number, arms)
        if math.isfinite(self.width) and free > 0:
            self.check_loss("a round loses little", arms, loss, self.factor * free * self.width)
        if 4.0 * self.width < self.gap or active == free:
            self.check_good("losses end", arms, f"lost {loss:.4g}", loss <= 0.0)
        for name, bound in (("gap", self.gap_bound), ("minimax", self.minimax_bound)):
            if bound.value is not None:
                self.check_bound(f"regret is below the {name} bound", arms, bound.value)

    def _check_layer(self, arms: Ints, free: int) -> None:
        """Count the picks of a layer, the rounds of equal N: all free slots of those before the last, and one more."""
        self.rounds = self.rounds + 1 if self.least == self.layer else 0
        self.layer = self.least
        picks, most = self.rounds * free + 1, self.layer_size
        self.ledger.check(_PICKS, arms, f"{picks}, at most {most:.4g}", picks <= most)
        if self.layer == 0 and self.ledger.applies(_LEMMA):
            most = (1.0 + math.log(self.policy.n_arms)) * self.domination.upper
            self.ledger.check(_LEMMA, arms, f"{picks} picks, the lemma says {most:.4g}", picks <= most)

    def told(self, number: int, decision: Decision) -> None:
        """Check the sets after an update."""
        self.note_intervals(decision.revealed)
        before, least, counts = self.sets, self.least, self.policy.tally.counts
        self.sets, self.least = self.policy.triage, least_of(self.policy)
        confirmed = self.sets.confirmed
        if confirmed.size and (self.reduced or self.good):
            new, fits = np.setdiff1d(confirmed, before.confirmed), confirmed.size <= self.policy.budget
            self.ledger.check("no more than S arms are confirmed", new, f"{confirmed.size} confirmed", fits)
        if confirmed.size:
            few = confirmed[counts[confirmed] < self.least]
            self.ledger.check(_COUNTS, few, f"observed {counts[few].tolist()}, N is {self.least}")
        if self.least > least:
            self.width = self._width(before.active)
        if self.means is not None:
            self._check_sets(self.means, self.least > least)

    def _width(self, active: Ints) -> float:
        """Return the largest half-width that arms were sorted by at an update of N."""
        if not self.reduced:
            return self.half_width(self.least)
        lower, upper = intervals_of(self.policy)
        return float((upper - lower)[active].max()) / 2.0

    def _check_sets(self, means: Floats, updated: bool) -> None:
        check, rank, (confirmed, active, eliminated) = self.check_good, self.rank, self.sets
        if eliminated.size:
            check("(A) best arms stay", eliminated[means[eliminated] >= rank])
        if confirmed.size:
            best: Mask = means >= rank if self.reduced else means > rank
            check("(B) confirmed arms are best", confirmed[~best[confirmed]])
        if updated and active.size:
            here, width = means[active], self.width
            far = active[here.max() - here > self.factor * width + HAIR]
            check("(C) active arms are close", far, f"further than {self.factor:g} times {width:.4g}")
            far = active[rank - here > 4.0 * width + HAIR]
            check("active arms are close to rank S", far, f"further than 4 times {width:.4g}")


class IndexWatch(Watch):
    """Follows a `CombinatorialUCB`: what it may lose while intervals hold."""

    about: ClassVar[str] = "Algorithm 2"
    statements: ClassVar[tuple[Claim, ...]] = (
        Claim("a round loses little", "Theorem 4 and appendix: twice the widths of what is played", event=True),
        Claim(_REGRET, "appendix, UCB with full information", event=True),
        Claim(EVENT, "Lemma 1"),
    )

    @cached_property
    def bound(self) -> Bound:
        """What is lost with full information, by the printed width."""
        return ucb_full_information_upper(**self.sizes(), constants="printed")

    @property
    def excluded(self) -> dict[str, str]:
        """Why which of the statements are not applicable."""
        policy, reasons = self.recipe, super().excluded
        if self.means is None:
            return reasons
        if policy.graph.n_edges < policy.n_arms**2:
            reasons[_REGRET] = "not every arm reveals all arms"
        asked = math.sqrt(math.log(2.0 * policy.n_arms * (policy.horizon or self.horizon) / policy.delta))
        if policy.width < asked * math.sqrt(0.5) - HAIR:
            reasons[EVENT] = "the width is smaller than delta and the horizon ask for"
        if not abs(policy.width - asked) <= HAIR:
            reasons.setdefault(_REGRET, "the width is not the one of the theorem")
        return reasons

    def bounds(self, counts: Ints, sums: Floats, squares: Floats) -> tuple[Floats, Floats]:
        """Return the intervals of the theorem, as wide as the policy's."""
        width = self.policy.width / np.sqrt(counts)
        return sums / counts - width, sums / counts + width

    def asked(self, number: int, decision: Decision) -> None:
        """Check what the decision loses."""
        counts, arms = self.policy.tally.counts, decision.arms
        if self.means is None:
            return
        loss = self.lose(number, arms)
        if counts.min() > 0:
            widths = self.policy.width / np.sqrt(counts[arms])
            self.check_loss("a round loses little", arms, loss, 2.0 * float(widths.sum()))
        self.check_bound(_REGRET, arms, self.bound.value)

    def told(self, number: int, decision: Decision) -> None:
        """Look whether intervals still hold."""
        self.note_intervals(decision.revealed)
