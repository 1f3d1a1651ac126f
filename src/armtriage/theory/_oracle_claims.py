"""What is claimed of elimination by an oracle, step by step as its page of the documentation derives it."""

from __future__ import annotations

import math
from typing import Any, ClassVar

import numpy as np

from armtriage.decisions import Decision
from armtriage.policies import ConstrainedElimination
from armtriage.policies.constrained.by_oracle import CONFIRMED, ELIMINATED, GUARD, UNDECIDED
from armtriage.theory._claims import Ledger, Statement
from armtriage.theory._watch import EVENT, HAIR, Books, Floats, Ints, Problem, Watch, intervals_of

__all__ = ["OracleWatch"]

_PAGE = "elimination over decision sets, step"
_CLOSE, _END, _REGRET = "played decisions are close", "losses end", "regret is below the bound"


class OracleWatch(Watch):
    """Follows a `ConstrainedElimination` that asks an oracle."""

    about: ClassVar[str] = "elimination by oracle"
    statements: ClassVar[tuple[Statement, ...]] = (
        Statement("confirmed and eliminated arms stay so", f"{_PAGE} 3"),
        Statement("the incumbent is left", f"{_PAGE} 3"),
        Statement("arms are decided by the rule", f"{_PAGE} 4"),
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
        self.promise = policy.delta
        self.core: Any = policy._core
        self.books = Books(problem.means, policy.n_arms, intervals_of(policy))
        self.status, self.best = self.core.status.copy(), np.empty(0, np.int64)
        self.layer, self.rounds = -1, 0
        self.lengths, self.checked_at = np.ones(policy.n_arms), 0  # when the incumbent was chosen
        self._watch_checks()
        if problem.means is not None:
            self.values = problem.means + self.core.limits.offset
            self.best = policy.decisions.maximise(self.values)

    @classmethod
    def excluded(cls, problem: Problem) -> dict[str, str]:
        """Return why which of the statements are not applicable."""
        if problem.means is None:
            return cls.needing_means()
        return dict.fromkeys((_END, _REGRET), "the width has no bound that is known") if problem.scale is None else {}

    def _watch_checks(self) -> None:
        """Have the policy tell when it chooses an incumbent, and when it decides arms."""
        core, check, eliminate = self.core, self.core._check, self.core._eliminate

        def checked() -> None:
            before = core.status.copy()
            check()
            self._check_rule(before, core.status, before == UNDECIDED)
            self.lengths = core.evidence.upper - core.evidence.lower
            self.checked_at = int(core.evidence.counts[core.status == UNDECIDED].min(initial=2**62))

        def eliminated(arm: int) -> None:
            after = core.status.copy()
            after[arm] = ELIMINATED
            self._check_rule(core.status, after, after != core.status)
            eliminate(arm)

        core._check, core._eliminate = checked, eliminated

    def _weights(self) -> tuple[Floats, float]:
        """Return the weight of each arm, and that of the incumbent."""
        known, inside = self.core.evidence, np.zeros(self.policy.n_arms, np.bool_)
        inside[self.core.incumbent] = True
        weights = np.where(inside, known.lower, known.upper)
        return weights, math.fsum(weights[self.core.incumbent])

    def _check_rule(self, before: Any, after: Any, judged: Any) -> None:
        """Ask, for one arm after the other, whether a plausible decision differs from the incumbent in it."""
        weights, benchmark = self._weights()
        sure, out = np.flatnonzero(before == CONFIRMED), np.flatnonzero(before == ELIMINATED)
        members, wrong = set(self.core.incumbent.tolist()), []
        for arm in np.flatnonzero(judged).tolist():
            inside = arm in members
            other = self.policy.decisions.maximise(
                weights, sure if inside else np.append(sure, arm), np.append(out, arm) if inside else out
            )
            excess = -math.inf if other is None else math.fsum(weights[other]) - benchmark
            decided = after[arm] == (CONFIRMED if inside else ELIMINATED)
            room = 4.0 * GUARD * (1.0 + abs(benchmark))
            if (decided and excess > room) or (not decided and excess < -room):
                wrong.append(arm)
        self.ledger.check("arms are decided by the rule", wrong)

    def asked(self, number: int, decision: Decision) -> None:
        """Check the decision against the incumbent, and what was decided while it was chosen."""
        check, core, arms, counts = self.ledger.check, self.core, decision.arms, self.books.counts
        self._check_status()
        check("the incumbent is left", self._strays(core.incumbent))
        check("played decisions are left", self._strays(arms))
        weights, benchmark = self._weights()
        own, room = math.fsum(weights[arms]), 4.0 * GUARD * (1.0 + abs(benchmark))
        detail = f"weight {own:.6g}, the incumbent has {benchmark:.6g}"
        check("played decisions are plausible", arms, detail, own >= benchmark - room)
        undecided = core.status == UNDECIDED
        if undecided.any():
            layer = int(counts[undecided].min())
            self.rounds = self.rounds + 1 if layer == self.layer else 1
            self.layer, most = layer, self.problem.layer_size
            check("layers have few rounds", arms, f"{self.rounds}, at most {most:.4g}", self.rounds <= most)
        if self.problem.means is not None:
            self._check_losses(number, arms, weights, benchmark)

    def _check_losses(self, number: int, arms: Ints, weights: Floats, benchmark: float) -> None:
        problem, core, values, budget = self.problem, self.core, self.values, self.policy.budget
        now = core.evidence.upper - core.evidence.lower
        base = math.fsum(values[core.incumbent])
        for one in (arms, self.best):
            gain, most = math.fsum(values[one]) - base, math.fsum(weights[one]) - benchmark
            self.check_good("weights bound differences", one, f"{gain:.4g}, allowed {most:.4g}", gain <= most + HAIR)
        loss = problem.regret(number, arms, self.replication)
        self.lost += loss
        most = math.fsum(now[np.setxor1d(arms, core.incumbent)])
        most += math.fsum(self.lengths[np.setxor1d(self.best, core.incumbent)])
        self.check_good(_CLOSE, arms, f"{loss:.4g}, allowed {most:.4g}", loss <= most + HAIR)
        if problem.scale is None:
            return
        # Everything is decided, or the undecided arms had narrow intervals at the last check.
        if 6.0 * budget * math.sqrt(problem.scale / max(self.checked_at, 1)) < problem.gap:
            self.check_good(_END, arms, f"lost {loss:.4g}", loss <= HAIR)
        bound = problem.oracle_bound.value
        detail = f"{self.lost:.4g} lost, the bound is {bound:.4g}"
        self.check_good(_REGRET, arms, detail, self.lost <= bound + HAIR)

    def _strays(self, arms: Ints) -> Ints:
        """Return the confirmed arms that these lack, and the eliminated ones among them."""
        missing = np.setdiff1d(np.flatnonzero(self.core.status == CONFIRMED), arms)
        return np.union1d(missing, arms[self.core.status[arms] == ELIMINATED])

    def _check_status(self) -> None:
        if (self.status != UNDECIDED).any():
            changed = np.flatnonzero((self.status != UNDECIDED) & (self.core.status != self.status))
            self.ledger.check("confirmed and eliminated arms stay so", changed)
        self.status = self.core.status.copy()
        if self.problem.means is not None and (self.status != UNDECIDED).any():
            self.check_good("best decisions stay", self._strays(self.best))

    def told(self, number: int, decision: Decision, rewards: Floats) -> None:
        """Check the books and what was decided after an update."""
        missed = self.books.add(decision.revealed, rewards)
        self.good = self.good and not missed.size
        known, offset = self.core.evidence, self.core.limits.offset
        self.ledger.check("revealed arms are counted once", np.flatnonzero(known.counts != self.books.counts))
        low, high = self.books.lower + offset + HAIR, self.books.upper + offset - HAIR
        narrow = np.flatnonzero((known.lower > low) | (known.upper < high))
        self.ledger.check("intervals are as wide as promised", narrow)
        self._check_status()
