"""What the guard does in one way over slates and in another over a decision set."""

from __future__ import annotations

from abc import ABC, abstractmethod
from collections.abc import Mapping
from typing import TYPE_CHECKING, Any, ClassVar, Generic, TypeVar

import numpy as np
from numpy.typing import NDArray

from armtriage.certificate import Bounds, Certificate, narrowed
from armtriage.decisions import ArmSet, Decision
from armtriage.policies.evidence import Evidence
from armtriage.policies.request import Kernels, Request
from armtriage.triage import Triage, TriageLog

if TYPE_CHECKING:
    from armtriage.policies.guard.guarded import GuardedPolicy

P = TypeVar("P", bound="GuardedPolicy")
Arrays = Mapping[str, NDArray[Any]]
Chosen = tuple[NDArray[np.int64], NDArray[np.float64] | None]


class Problem(ABC, Generic[P]):
    """A kind of problem, together with what proposes in it: all that a guarded policy asks of the two.

    It has no state: what changes is the policy's, whose caches `own` have the guard's `book`.
    """

    kernels: ClassVar[Kernels]
    over_slates: ClassVar[bool]

    @abstractmethod
    def params(self, policy: P) -> Any:
        """Return the parameters of the kernels."""

    @abstractmethod
    def new_own(self, policy: P, evidence: Evidence) -> Any:
        """Return the account, and what proposals follow from, before the first round."""

    def renewed_own(self, policy: P, old: Any) -> Any:
        """Return them after arms were added, or have begun again."""
        raise NotImplementedError("a decision set has the arms that it was made with")

    @abstractmethod
    def chosen(self, policy: P, number: int, among: NDArray[np.int64] | None) -> Chosen:
        """Return the arms of round `number`, ascending, and what is believed of them."""

    def decision_of_set(self, policy: P, params: Any, own: Any, request: Request, number: int) -> NDArray[np.int64]:
        """Return the decision of round `number` of a set, as `simulate` asks for it."""
        raise NotImplementedError("slates are chosen by kernels")

    @abstractmethod
    def check_own(self, policy: P) -> None:
        """Refuse facts that were loaded and cannot be."""

    @abstractmethod
    def to_arrays(self, policy: P) -> dict[str, NDArray[Any]]:
        """Return what a file keeps beside the facts of `own`."""

    @abstractmethod
    def restore(self, policy: P, arrays: Arrays) -> None:
        """Take back what `to_arrays` returned, all of which has a name that `is_kept`."""

    @staticmethod
    def is_kept(name: str) -> bool:
        """Whether an array of a file is one of `to_arrays`."""
        return name == "patterns" or name.startswith(("by_pattern.", "pages.", "by_set."))

    @abstractmethod
    def book_set(self, policy: P, decision: Decision, among: ArmSet | None) -> None:
        """Book a decision by the set of arms that were eligible."""

    def follow_ends(self, policy: P) -> None:
        """Bring what is kept of the evidence's intervals in line with them."""

    def narrowed_ends(self, policy: P) -> Bounds:
        """Return the intervals, with all that is known by now."""
        evidence, n = policy._evidence, policy.n_arms
        lower, upper = evidence.lower[:n], evidence.upper[:n]
        bounds, empty = narrowed(Bounds(lower, upper), policy.tally, policy._live * policy.delta, evidence.divisors[:n])
        if empty.any():
            # Looking may be the first to find a contradiction. It is kept, so that it does not vanish again.
            lower[empty], upper[empty] = bounds.lower[empty], bounds.upper[empty]
            evidence.failures += int(empty.sum())
            self.follow_ends(policy)
        return bounds

    @abstractmethod
    def triage(self, policy: P) -> Triage:
        """Return the confirmed, active and eliminated arms, by number."""

    def triage_log(self, own: Any) -> TriageLog | None:
        """Return when arms were confirmed or eliminated, if that is noted."""
        return None

    @abstractmethod
    def certificate(self, policy: P, eligible: Any, next_decision: Any, independent: bool) -> Certificate:
        """Return the certificate with the policy's own delta."""

    def spent_elsewhere(self, policy: P) -> float:
        """Return what was booked among other eligible arms, beside what the book says."""
        return 0.0

    def oracle_calls(self, policy: P) -> int:
        """Return how many questions were asked about a decision set."""
        return 0

    def revealing_pulls(self, policy: P) -> int:
        """Return how many pulls were for what the arm reveals."""
        return 0
