"""How an audit follows a run: books of its own, what holds of any policy, and what it reads of a policy's state.

Everything that an audit takes from inside a policy goes through the functions at the end of this module.
"""

from __future__ import annotations

from collections.abc import Callable
from typing import Any, ClassVar

import numpy as np

from armtriage.decisions import Decision
from armtriage.intervals import confidence_interval
from armtriage.policies.policy import Policy
from armtriage.theory.audit.ledger import Ledger, Statement
from armtriage.theory.audit.problem import Floats, Ints, Problem

__all__ = [
    "ANY_POLICY",
    "EVENT",
    "HAIR",
    "Books",
    "Watch",
    "active_decisions",
    "counts_of",
    "homes_of",
    "incumbent_of",
    "intervals_of",
    "least_of",
    "offset_of",
    "promised_intervals",
    "stored_in",
]

HAIR = 1e-9
"""By how much two numbers that were computed in different orders may differ."""

EVENT = "intervals hold as often as promised"
_UNKNOWN = "the environment does not tell its means"
ANY_POLICY = (
    Statement("decisions are allowed", "the setting: S different arms, or a decision of the set"),
    Statement("rewards lie in their range", "the setting: reward_range"),
)


class Books:
    """Counts and sums of what was told, apart from the policy's own, and the intervals that they give."""

    def __init__(self, means: Floats | None, n_arms: int, bounds: Callable[..., tuple[Any, Any]]) -> None:
        self.means, self.bounds = means, bounds
        self.counts = np.zeros(n_arms, np.int64)
        self.sums, self.squares = np.zeros((2, n_arms))
        self.lower, self.upper = np.zeros(n_arms), np.ones(n_arms)  # what all intervals so far leave

    def add(self, arms: Ints, rewards: Floats) -> Ints:
        """Enter rewards; return the arms whose new interval misses their mean."""
        self.counts[arms] += 1
        self.sums[arms] += rewards
        self.squares[arms] += rewards * rewards
        low, high = self.bounds(self.counts[arms], self.sums[arms], self.squares[arms])
        both = np.maximum(low, self.lower[arms]), np.minimum(high, self.upper[arms])
        crossed = both[0] > both[1]
        self.lower[arms], self.upper[arms] = np.where(crossed, low, both[0]), np.where(crossed, high, both[1])
        if self.means is None:
            return arms[:0]
        return np.asarray(arms[(low > self.means[arms] + HAIR) | (high < self.means[arms] - HAIR)])


def promised_intervals(policy: Any) -> Callable[[Ints, Floats, Floats], tuple[Any, Any]]:
    """Return the intervals that an elimination policy was told to use, as functions of counts, sums and squares."""
    kind, horizon = policy.interval, policy.horizon
    common = {"n_arms": policy.n_arms, "delta": policy.delta, "kind": kind, "horizon": horizon}

    def bounds(counts: Ints, sums: Floats, squares: Floats) -> tuple[Any, Any]:
        return confidence_interval(counts, sums, squares=squares, **common)

    return bounds


class Watch:
    """Follows one run of a policy, and enters into a ledger what it sees; this one works for any policy."""

    about: ClassVar[str] = ""  # whose claims these are
    statements: ClassVar[tuple[Statement, ...]] = ()
    promise: float | None = None  # with which probability the intervals may fail

    def __init__(self, ledger: Ledger, problem: Problem, policy: Policy, replication: int) -> None:
        self.ledger, self.problem, self.policy, self.replication = ledger, problem, policy, replication
        self.good = True  # whether all intervals have held so far
        self.lost = 0.0

    @classmethod
    def printed(cls, problem: Problem) -> tuple[str, ...]:
        """Return what the paper says of its own variant, though it can fail."""
        return ()

    @classmethod
    def excluded(cls, problem: Problem) -> dict[str, str]:
        """Return why which of the statements are not applicable."""
        return {}

    @classmethod
    def needing_means(cls) -> dict[str, str]:
        """Return the statements that nobody can check without the means."""
        return {one.name: _UNKNOWN for one in cls.statements if one.event or one.name == EVENT}

    def allows(self, decision: Decision) -> bool:
        """Check a decision by itself; a run ends with one that is not allowed."""
        arms, policy = decision.arms, self.policy
        distinct = np.unique(arms).size == arms.size and bool(((arms >= 0) & (arms < policy.n_arms)).all())
        allowed = policy.decisions
        fits = arms.size == policy.budget if allowed is None else distinct and allowed.contains(arms)
        self.ledger.check("decisions are allowed", arms, holds=distinct and fits)
        return distinct and fits

    def sets(self) -> tuple[Any, Any, Any]:
        """Return which arms are confirmed, active and eliminated, as masks."""
        policy: Any = self.policy
        masks = np.zeros((3, policy.n_arms), np.bool_)
        for mask, arms in zip(masks, policy.triage, strict=True):
            mask[arms] = True
        return masks[0], masks[1], masks[2]

    def lose(self, number: int, arms: Ints) -> float:
        """Return what a decision loses, and add it to what was lost before."""
        loss = self.problem.regret(number, arms, self.replication)
        self.lost += loss
        return loss

    def takes(self, decision: Decision, rewards: Floats) -> bool:
        """Check rewards by themselves; a run ends with one that the policy would refuse."""
        low, high = self.policy.reward_range
        bad = ~((rewards >= low) & (rewards <= high))
        self.ledger.check("rewards lie in their range", decision.revealed[bad], f"{rewards[bad][:3]}")
        return not bad.any()

    def asked(self, number: int, decision: Decision) -> None:
        """Look at a decision, before its rewards are told."""

    def told(self, number: int, decision: Decision, rewards: Floats) -> None:
        """Look at the policy after it was told the rewards, which are on the unit scale."""

    def check_loss(self, name: str, arms: Ints, loss: float, allowed: float) -> None:
        """Check that no more is lost than allowed, as long as all intervals have held."""
        self.check_good(name, arms, f"{loss:.4g}, allowed {allowed:.4g}", loss <= allowed + HAIR)

    def check_bound(self, name: str, arms: Any, bound: float) -> None:
        """Check that no more was lost so far than a bound has it, as long as all intervals have held."""
        self.check_good(name, arms, f"{self.lost:.4g} lost, the bound is {bound:.4g}", self.lost <= bound + HAIR)

    def check_good(self, name: str, wrong: Any = (), detail: str = "", holds: bool | None = None) -> None:
        """Check what is promised as long as all intervals have held."""
        if self.good:
            self.ledger.check(name, wrong, detail, holds)


def counts_of(policy: Any) -> Ints:
    """Return how many rewards of each arm a policy has counted."""
    core = getattr(policy, "_core", None)
    counts = policy._state.counts if core is None else getattr(core, "evidence", core).counts
    return np.asarray(counts[: policy.n_arms])


def least_of(policy: Any) -> int:
    """Return a policy's N, the observations that every active arm, or decision, has."""
    core = getattr(policy, "_core", None)
    return int(policy._state.least if core is None else core.least[0])


def intervals_of(policy: Any) -> tuple[Floats, Floats]:
    """Return the lower and upper ends of the intervals that a policy goes by."""
    core = getattr(policy, "_core", None)
    known = policy._state if core is None else core.evidence
    return known.lower, known.upper


def active_decisions(policy: Any) -> Any:
    """Return which decisions of a listed family are active."""
    return policy._core.active.copy()


def incumbent_of(policy: Any) -> Ints:
    """Return the incumbent of elimination by oracle; a new array whenever it is chosen anew."""
    incumbent: Ints = policy._core.incumbent
    return incumbent


def homes_of(policy: Any, number: int) -> Ints:
    """Return the model, from 0, that stores the reward of each arm of an open decision; -1 where none does."""
    return np.array(policy._notes[number])


def stored_in(policy: Any) -> Ints:
    """Return how many rewards each stage has stored."""
    return np.asarray(policy._state.ridge.counts[: policy.stages, 0])


def offset_of(policy: Policy) -> float:
    """Return what a reward of 0 is worth on the unit scale."""
    return policy._offset
