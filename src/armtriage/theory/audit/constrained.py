"""What is claimed of elimination over decision sets: of Algorithm 5, printed and repaired, and of our own by oracle."""

from __future__ import annotations

import math
from typing import Any, ClassVar

import numpy as np
from numpy.typing import NDArray

from armtriage.decisions import Decision
from armtriage.intervals import INTERVALS, half_width
from armtriage.policies import ConstrainedElimination
from armtriage.theory.audit.ledger import Ledger, Statement
from armtriage.theory.audit.problem import Floats, Ints, Problem
from armtriage.theory.audit.watch import (
    EVENT,
    HAIR,
    Books,
    Watch,
    active_decisions,
    counts_of,
    incumbent_of,
    intervals_of,
    least_of,
    offset_of,
    promised_intervals,
)

__all__ = ["ListedWatch", "OracleWatch"]

Mask = NDArray[np.bool_]
_PLAYED, _LITTLE, _REGRET = "played decisions are active", "a round loses little", "regret is below the bound"
_PAGE = "elimination over decision sets, step"
_CLOSE, _END = "played decisions are close", "losses end"


class ListedWatch(Watch):
    """Follows a `ConstrainedElimination` that lists its family."""

    about: ClassVar[str] = "Algorithm 5"
    statements: ClassVar[tuple[Statement, ...]] = (
        Statement("decisions leave for good", "Algorithm 5, the active set"),
        Statement("a decision is left", "Algorithm 5, the active set"),
        Statement(_PLAYED, "Theorem 7, proof, regret of a layer; Algorithm 5 breaks it, erratum K1"),
        Statement("revealed arms are counted once", "Algorithm 5, feedback"),
        Statement("N never falls", "Algorithm 5, update of N"),
        Statement("active decisions have N observations", "Algorithm 5, update of N"),
        Statement("best decisions stay", "Theorem 7, proof, (1)", event=True),
        Statement("active decisions are close", "Theorem 7, proof, (2): 4S w(N)", event=True),
        Statement(_LITTLE, "Theorem 7, proof, regret of a layer: 4S w(N)", event=True),
        Statement(_END, "Theorem 7, proof: 4S w(N) below the gap, or one decision left", event=True),
        Statement(_REGRET, "Theorem 7; with the right kappa, erratum K2", event=True),
        Statement(EVENT, "Lemma 1"),
    )
    policy: ConstrainedElimination

    def __init__(self, ledger: Ledger, problem: Problem, policy: Any, replication: int) -> None:
        super().__init__(ledger, problem, policy, replication)
        self.promise = policy.delta
        self.family = list(policy.decisions)
        self.numbers = {one.tobytes(): i for i, one in enumerate(self.family)}
        # A row for each decision; where it is shorter than the longest, an arm that does not exist.
        self.members = np.full((len(self.family), policy.budget), policy.n_arms)
        for row, one in zip(self.members, self.family, strict=True):
            row[: one.size] = one
        self.books = Books(problem.means, policy.n_arms, promised_intervals(policy))
        self.active, self.least = active_decisions(policy), 0
        if problem.means is not None:
            # Decisions may differ in size, so what counts is how much each arm is above a reward of 0.
            values = np.append(problem.means + offset_of(policy), 0.0)[self.members].sum(axis=1)
            self.gaps = values.max() - values

    @classmethod
    def printed(cls, problem: Problem) -> tuple[str, ...]:
        """Return what the paper says of its own variant, though it can fail."""
        policy: Any = problem.policy
        return (_PLAYED, _LITTLE, _END, _REGRET) if policy.variant == "paper" else ()

    @classmethod
    def excluded(cls, problem: Problem) -> dict[str, str]:
        """Return why which of the statements are not applicable."""
        return cls.needing_means() if problem.means is None else {}

    @property
    def _reach(self) -> float:
        """How far an active decision can be from the best: S widths count 4 times."""
        policy = self.policy
        kind, span = INTERVALS.index(policy.interval), float(policy.horizon or 0)
        return 4.0 * policy.budget * float(half_width(kind, self.least, policy.n_arms, span, policy.delta))

    def asked(self, number: int, decision: Decision) -> None:
        """Check the decision against the active ones, and what it loses."""
        played, arms = self.numbers[decision.arms.tobytes()], decision.arms
        if not self.active.all():
            self.ledger.check(_PLAYED, arms, holds=bool(self.active[played]))
        if self.problem.means is None:
            return
        loss, reach, bound = float(self.gaps[played]), self._reach, self.problem.constrained_bound.value
        self.lost += loss
        if self.least > 0:
            self.check_loss(_LITTLE, arms, loss, reach)
        if reach < self.problem.gap or self.active.sum() == 1:
            self.check_good(_END, arms, f"lost {loss:.4g}", loss <= HAIR)
        if bound is not None:
            self.check_bound(_REGRET, arms, bound)

    def told(self, number: int, decision: Decision, rewards: Floats) -> None:
        """Check the active decisions after an update."""
        missed = self.books.add(decision.revealed, rewards)
        self.good = self.good and not missed.size
        check, policy, before = self.ledger.check, self.policy, self.active
        self.active, least = active_decisions(policy), least_of(policy)
        # The rarest arm of each decision.
        observed = np.append(self.books.counts, np.iinfo(np.int64).max)[self.members].min(axis=1)
        if not before.all():
            self._none("decisions leave for good", self.active & ~before)
            check("a decision is left", (), holds=bool(self.active.any()))
        check("revealed arms are counted once", np.flatnonzero(counts_of(policy) != self.books.counts))
        check("N never falls", (), f"from {self.least} to {least}", least >= self.least)
        self._none("active decisions have N observations", self.active & (observed < least))
        self.least = least
        if self.problem.means is None or not self.good:
            return
        if not self.active.all():
            self._none("best decisions stay", (self.gaps <= HAIR) & ~self.active)
        if least > 0:
            self._none("active decisions are close", self.active & (self.gaps > self._reach + HAIR))

    def _none(self, name: str, wrong: Mask) -> None:
        """Check that no decision is wrong; the arms of the first one that is are entered."""
        first = self.family[int(np.argmax(wrong))]
        self.ledger.check(name, first, f"{int(wrong.sum())} decisions", not wrong.any())


class OracleWatch(Watch):
    """Follows a `ConstrainedElimination` that asks an oracle, step by step as its page of the documentation derives it.

    The weight of an arm is the lower end of its interval if the incumbent has it, else the upper end.
    """

    about: ClassVar[str] = "elimination by oracle"
    statements: ClassVar[tuple[Statement, ...]] = (
        Statement("confirmed and eliminated arms stay so", f"{_PAGE} 3"),
        Statement("the incumbent is left", f"{_PAGE} 3"),
        Statement("played decisions are left", f"{_PAGE} 6"),
        Statement("played decisions are plausible", f"{_PAGE} 6"),
        Statement("revealed arms are counted once", "Algorithm 5, feedback"),
        Statement("intervals are as wide as promised", "Lemma 1"),
        Statement("layers have few rounds", f"{_PAGE} 8; erratum G10"),
        Statement("weights bound differences", f"{_PAGE} 1", event=True),
        Statement("best decisions stay", f"{_PAGE} 2; Theorem 7, proof, (1)", event=True),
        Statement(_CLOSE, f"{_PAGE} 7; Theorem 7, proof, (2)", event=True),
        Statement(_END, f"{_PAGE} 9", event=True),
        Statement(_REGRET, f"{_PAGE} 10", event=True),
        Statement(EVENT, "Lemma 1"),
    )
    policy: ConstrainedElimination

    def __init__(self, ledger: Ledger, problem: Problem, policy: Any, replication: int) -> None:
        super().__init__(ledger, problem, policy, replication)
        self.promise, self.offset = policy.delta, offset_of(policy)
        self.books = Books(problem.means, policy.n_arms, promised_intervals(policy))
        self.confirmed, self.undecided, self.eliminated = self.sets()
        self.layer, self.rounds = -1, 0
        # When the incumbent was chosen: how long intervals were, and how often the rarest undecided arm had been seen.
        self.incumbent, self.lengths, self.seen = np.empty(0, np.int64), np.ones(policy.n_arms), 0
        if problem.means is not None:
            self.values = problem.means + self.offset
            self.best = policy.decisions.maximise(self.values)

    @classmethod
    def excluded(cls, problem: Problem) -> dict[str, str]:
        """Return why which of the statements are not applicable."""
        if problem.means is None:
            return cls.needing_means()
        return dict.fromkeys((_END, _REGRET), "the width has no bound that is known") if problem.scale is None else {}

    def _look(self) -> None:
        """Check what was decided since the last look, and note when the incumbent was chosen anew."""
        before = self.confirmed, self.eliminated
        self.confirmed, self.undecided, self.eliminated = self.sets()
        if (before[0] | before[1]).any():
            changed = np.flatnonzero((before[0] & ~self.confirmed) | (before[1] & ~self.eliminated))
            self.ledger.check("confirmed and eliminated arms stay so", changed)
        if self.problem.means is not None and not self.undecided.all():
            self.check_good("best decisions stay", self._strays(self.best))
        if incumbent_of(self.policy) is not self.incumbent:
            lower, upper = intervals_of(self.policy)
            self.incumbent, self.lengths = incumbent_of(self.policy), upper - lower
            self.seen = int(self.books.counts[self.undecided].min(initial=2**62))

    def _strays(self, arms: Ints) -> Ints:
        """Return the confirmed arms that these lack, and the eliminated ones among them."""
        return np.union1d(np.setdiff1d(np.flatnonzero(self.confirmed), arms), arms[self.eliminated[arms]])

    def asked(self, number: int, decision: Decision) -> None:
        """Check the decision against the incumbent, and what was decided while it was chosen."""
        check, arms = self.ledger.check, decision.arms
        self._look()
        check("the incumbent is left", self._strays(self.incumbent))
        check("played decisions are left", self._strays(arms))
        lower, upper = intervals_of(self.policy)
        weights = upper.copy()
        weights[self.incumbent] = lower[self.incumbent]
        benchmark, own = math.fsum(weights[self.incumbent]), math.fsum(weights[arms])
        detail = f"weight {own:.6g}, the incumbent has {benchmark:.6g}"
        # The policy itself lets sums differ by a share of 1e-9.
        room = 4.0 * HAIR * (1.0 + abs(benchmark))
        check("played decisions are plausible", arms, detail, own >= benchmark - room)
        if self.undecided.any():
            layer = int(self.books.counts[self.undecided].min())
            self.rounds = self.rounds + 1 if layer == self.layer else 1
            self.layer, most = layer, self.problem.layer_size
            check("layers have few rounds", arms, f"{self.rounds}, at most {most:.4g}", self.rounds <= most)
        if self.problem.means is not None:
            self._check_losses(number, arms, weights, upper - lower)

    def _check_losses(self, number: int, arms: Ints, weights: Floats, lengths: Floats) -> None:
        problem, values, incumbent = self.problem, self.values, self.incumbent
        for one in (arms, self.best):
            gain = math.fsum(values[one]) - math.fsum(values[incumbent])
            most = math.fsum(weights[one]) - math.fsum(weights[incumbent])
            self.check_good("weights bound differences", one, f"{gain:.4g}, allowed {most:.4g}", gain <= most + HAIR)
        loss = self.lose(number, arms)
        most = math.fsum(lengths[np.setxor1d(arms, incumbent)])
        most += math.fsum(self.lengths[np.setxor1d(self.best, incumbent)])
        self.check_loss(_CLOSE, arms, loss, most)
        if problem.scale is None:
            return
        # Everything is decided, or the undecided arms had narrow intervals when the incumbent was chosen.
        if 6.0 * self.policy.budget * math.sqrt(problem.scale / max(self.seen, 1)) < problem.gap:
            self.check_good(_END, arms, f"lost {loss:.4g}", loss <= HAIR)
        self.check_bound(_REGRET, arms, problem.oracle_bound.value)

    def told(self, number: int, decision: Decision, rewards: Floats) -> None:
        """Check the books and what was decided after an update."""
        missed = self.books.add(decision.revealed, rewards)
        self.good = self.good and not missed.size
        self.ledger.check("revealed arms are counted once", np.flatnonzero(counts_of(self.policy) != self.books.counts))
        lower, upper = intervals_of(self.policy)
        low, high = self.books.lower + self.offset + HAIR, self.books.upper + self.offset - HAIR
        self.ledger.check("intervals are as wide as promised", np.flatnonzero((lower > low) | (upper < high)))
        self._look()
