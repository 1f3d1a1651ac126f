"""What is claimed of Algorithm 5, printed and repaired: active decisions, covers and regret."""

from __future__ import annotations

import math
from functools import lru_cache
from typing import Any, ClassVar

import numpy as np
from numpy.typing import NDArray

from armtriage.decisions import Decision
from armtriage.intervals import INTERVALS, half_width
from armtriage.policies import ConstrainedElimination
from armtriage.theory._claims import Ledger, Statement
from armtriage.theory._watch import EVENT, HAIR, Books, Floats, Ints, Problem, Watch, intervals_of

__all__ = ["ListedWatch", "smallest_cover"]

Mask = NDArray[np.bool_]
_LARGEST = 10**6
"""Decisions times arms of a family whose smallest covers can be found again and again."""
_PLAYED, _LITTLE, _REGRET = "played decisions are active", "a round loses little", "regret is below the bound"


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
        Statement("decisions are eliminated by the rule", "Algorithm 5, last line: 2S w(N) below the best"),
        Statement("covers cover", "Algorithm 5, the cover"),
        Statement("covers are smallest", "Algorithm 5, the cover; minimum, not minimal, by erratum K3"),
        Statement("best decisions stay", "Theorem 7, proof, (1)", event=True),
        Statement("active decisions are close", "Theorem 7, proof, (2): 4S w(N)", event=True),
        Statement(_LITTLE, "Theorem 7, proof, regret of a layer: 4S w(N)", event=True),
        Statement("losses end", "Theorem 7, proof: 4S w(N) below the gap, or one decision left", event=True),
        Statement(_REGRET, "Theorem 7; with the right kappa, erratum K2", event=True),
        Statement(EVENT, "Lemma 1"),
    )
    policy: ConstrainedElimination

    def __init__(self, ledger: Ledger, problem: Problem, policy: Any, replication: int) -> None:
        super().__init__(ledger, problem, policy, replication)
        self.promise = policy.delta
        self.core: Any = policy._core
        self.family = list(policy.decisions)
        self.numbers = {one.tobytes(): i for i, one in enumerate(self.family)}
        # A row for each decision; where it is shorter than the longest, an arm that does not exist.
        self.members = np.full((len(self.family), policy.budget), policy.n_arms)
        for row, one in zip(self.members, self.family, strict=True):
            row[: one.size] = one
        self.books = Books(problem.means, policy.n_arms, intervals_of(policy))
        self.active, self.least, self.waiting = self.core.active.copy(), 0, False
        if problem.means is not None:
            values = self._values(problem.means)
            self.gaps = values.max() - values

    @classmethod
    def printed(cls, problem: Problem) -> tuple[str, ...]:
        """Return what the paper says of its own variant, though it can fail."""
        policy: Any = problem.policy
        return (_PLAYED, _LITTLE, "losses end", _REGRET) if policy.variant == "paper" else ()

    @classmethod
    def excluded(cls, problem: Problem) -> dict[str, str]:
        """Return why which of the statements are not applicable."""
        policy: Any = problem.policy
        reasons = {}
        if policy.decisions.count() * policy.n_arms > _LARGEST:
            reasons["covers are smallest"] = "the family is too large to find that out"
        return reasons | (cls.needing_means() if problem.means is None else {})

    def _values(self, numbers: Floats) -> Floats:
        """Return the sum over each decision, counted from a reward of 0 where they differ in size."""
        return np.asarray(np.append(numbers + self.core.limits.offset, 0.0)[self.members].sum(axis=1))

    def _observed(self) -> Ints:
        """Return how often the rarest arm of each decision was seen."""
        return np.asarray(np.append(self.books.counts, np.iinfo(np.int64).max)[self.members].min(axis=1))

    @property
    def _reach(self) -> float:
        """How far an active decision can be from the best: S widths count 4 times."""
        policy = self.policy
        width = half_width(
            INTERVALS.index(policy.interval), self.least, policy.n_arms, float(policy.horizon or 0), policy.delta
        )
        return 4.0 * policy.budget * float(width)

    def asked(self, number: int, decision: Decision) -> None:
        """Check the decision against the active ones, and the cover that it begins."""
        played, arms = self.numbers[decision.arms.tobytes()], decision.arms
        if not self.active.all():
            self.ledger.check(_PLAYED, arms, holds=bool(self.active[played]))
        if not self.waiting and (self.active.sum() > 1 or self.policy.variant == "paper"):
            self._check_cover([played, *self.core.queue.tolist()])
        self.waiting = bool(self.core.queue.size)
        if self.problem.means is None:
            return
        loss, reach, bound = float(self.gaps[played]), self._reach, self.problem.constrained_bound.value
        self.lost += loss
        if self.least > 0:
            self.check_good(_LITTLE, arms, f"{loss:.4g}, allowed {reach:.4g}", loss <= reach + HAIR)
        if reach < self.problem.gap or self.active.sum() == 1:
            self.check_good("losses end", arms, f"lost {loss:.4g}", loss <= HAIR)
        if bound is not None:
            detail = f"{self.lost:.4g} lost, the bound is {bound:.4g}"
            self.check_good(_REGRET, arms, detail, self.lost <= bound + HAIR)

    def _check_cover(self, cover: list[int]) -> None:
        printed, counts, observed = self.policy.variant == "paper", self.books.counts, self._observed()
        least = observed[self.active].min()
        behind = [self.family[i] for i in np.flatnonzero(self.active & (observed == least))]
        need = np.unique(np.concatenate(behind))
        if not printed:
            need = need[counts[need] == least]
        if not need.size:
            return
        shown = self.policy.graph.revealed_by(np.concatenate([self.family[i] for i in cover]))
        self.ledger.check("covers cover", np.setdiff1d(need, shown))
        if self.ledger.applies("covers are smallest"):
            pool = np.arange(len(self.family)) if printed else np.flatnonzero(self.active)
            fewest = smallest_cover(self.problem.shows[pool][:, need])
            most = float(fewest) if self.policy.cover == "exact" else fewest * (1.0 + math.log(need.size))
            detail = f"{len(cover)} decisions, {fewest} are enough"
            self.ledger.check("covers are smallest", need, detail, len(cover) <= most + HAIR)

    def told(self, number: int, decision: Decision, rewards: Floats) -> None:
        """Check the active decisions after an update."""
        missed = self.books.add(decision.revealed, rewards)
        self.good = self.good and not missed.size
        check, core, before = self.ledger.check, self.core, self.active
        self.active, least, observed = core.active.copy(), int(core.least[0]), self._observed()
        if not before.all():
            self._none("decisions leave for good", self.active & ~before)
            check("a decision is left", (), holds=bool(self.active.any()))
        check("revealed arms are counted once", np.flatnonzero(core.counts != self.books.counts))
        check("N never falls", (), f"from {self.least} to {least}", least >= self.least)
        self._none("active decisions have N observations", self.active & (observed < least))
        self._check_rule(before, observed)
        self.least, self.waiting = least, bool(core.queue.size)
        if self.problem.means is None or not self.good:
            return
        if not self.active.all():
            self._none("best decisions stay", (self.gaps <= HAIR) & ~self.active)
        if least > 0:
            self._none("active decisions are close", self.active & (self.gaps > self._reach + HAIR))

    def _check_rule(self, before: Mask, observed: Ints) -> None:
        """Eliminate as the rule does, from books of our own; as printed, only after a whole cover."""
        now, out, unsure = int(observed[before].min()), np.zeros_like(before), np.zeros_like(before)
        if now > self.least and before.sum() > 1 and not (self.policy.variant == "paper" and self.waiting):
            self.least = now
            averages = self._values(self.books.averages)
            above = averages - averages[before].max() + self._reach / 2.0
            out, unsure = before & (above < 0.0), np.abs(above) < HAIR
        self._none("decisions are eliminated by the rule", ((before & ~self.active) != out) & ~unsure)

    def _none(self, name: str, wrong: Mask) -> None:
        """Check that no decision is wrong; the arms of the first one that is are entered."""
        first = self.family[int(np.argmax(wrong))]
        self.ledger.check(name, first, f"{int(wrong.sum())} decisions", not wrong.any())


def smallest_cover(shown: Mask) -> int:
    """Return how few rows it takes to have every column.

    >>> smallest_cover(np.array([[True, True, False], [False, True, True], [True, False, False]]))
    2
    """
    rows = np.unique(shown[shown.any(axis=1)], axis=0)
    return _smallest_cover(rows.tobytes(), rows.shape)


@lru_cache(maxsize=4096)
def _smallest_cover(rows: bytes, shape: tuple[int, ...]) -> int:
    from scipy.optimize import LinearConstraint, milp

    matrix = np.frombuffer(rows, np.bool_).reshape(shape).T.astype(np.float64)
    covered, ones = LinearConstraint(matrix, 1.0, np.inf), np.ones(shape[0])
    answer = milp(ones, integrality=ones, bounds=(0.0, 1.0), constraints=covered)  # type: ignore[arg-type]
    assert answer.status == 0, answer.message
    return round(float(answer.fun))
