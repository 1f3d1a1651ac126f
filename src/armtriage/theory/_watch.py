"""How an audit follows a run: books of its own, and what holds of any policy."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any, ClassVar

import numpy as np

from armtriage.decisions import Decision
from armtriage.intervals import confidence_interval
from armtriage.policies.policy import Policy
from armtriage.theory._claims import Ledger, Statement
from armtriage.theory._problem import Floats, Ints, Problem

__all__ = ["ANY_POLICY", "EVENT", "HAIR", "UNKNOWN", "Books", "Floats", "Ints", "Problem", "Watch", "intervals_of"]

HAIR = 1e-9
"""By how much two numbers that were computed in different orders may differ."""

EVENT = "intervals hold as often as promised"
UNKNOWN = "the environment does not tell its means"
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

    @property
    def averages(self) -> Floats:
        """The mean of what was told of each arm, 0 if nothing was."""
        return np.asarray(self.sums / np.maximum(self.counts, 1))


def intervals_of(policy: Any) -> Callable[[Ints, Floats, Floats], tuple[Any, Any]]:
    """Return the intervals that an elimination policy was told to use, as functions of counts, sums and squares."""
    kind, horizon = policy.interval, policy.horizon
    common = {"n_arms": policy.n_arms, "delta": policy.delta, "kind": kind, "horizon": horizon}

    def bounds(counts: Ints, sums: Floats, squares: Floats) -> tuple[Any, Any]:
        return confidence_interval(counts, sums, squares=squares if kind == "bernstein" else None, **common)

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
        return {one.name: UNKNOWN for one in cls.statements if one.event or one.name == EVENT}

    def allows(self, decision: Decision) -> bool:
        """Check a decision by itself; a run ends with one that is not allowed."""
        arms, policy = decision.arms, self.policy
        distinct = np.unique(arms).size == arms.size and bool(((arms >= 0) & (arms < policy.n_arms)).all())
        allowed = policy.decisions
        fits = arms.size == policy.budget if allowed is None else distinct and allowed.contains(arms)
        self.ledger.check("decisions are allowed", arms, holds=distinct and fits)
        return distinct and fits

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

    def check_good(self, name: str, wrong: Any = (), detail: str = "", holds: bool | None = None) -> None:
        """Check what is promised as long as all intervals have held."""
        if self.good:
            self.ledger.check(name, wrong, detail, holds)
