"""The twins of the guarded policies where all arms are always eligible: those of any requests, asked with all arms."""

from __future__ import annotations

from types import SimpleNamespace
from typing import Any

from armtriage import FeedbackGraph
from twins import sets_differ
from twins.eligible import AllArms, Guarded, GuardedByIndex


class GuardedThompson(AllArms):
    """Proposes by draws, shares looks, and admits what the account allows."""

    kind: type[Guarded] = Guarded

    def __init__(self, graph: FeedbackGraph, budget: int, *, prior: Any = "learned", **options: Any) -> None:
        super().__init__(self.kind(graph, budget, prior=prior, **options))

    @property
    def guard(self) -> Guarded:
        guard: Guarded = self.inner
        return guard

    def __getattr__(self, name: str) -> Any:
        if name in ("inner", "guard"):
            raise AttributeError(name)
        found = {"forced": self.guard.forced, "second": self.guard.second, "failures": self.guard.failures}
        found |= {"confirmed": self.guard.view[0], "eliminated": [one for one in self.log if not one[2]]}
        looks = self.guard.looks
        found |= {"revealed": looks and looks.shared, "waited": looks and looks.waited}
        found |= {"impatient": looks and looks.impatient}
        found |= {"schedule": SimpleNamespace(credit=[row.credit for row in self.guard.rows])}
        if name in found:
            return found[name]
        raise AttributeError(name)

    @property
    def total(self) -> float:
        return self.guard.total

    @property
    def log(self) -> list[tuple[int, int, bool]]:
        return self.guard.log

    def differs(self, policy: Any) -> str | None:
        guard = self.guard
        spent, allowed, forced, factor, shared = policy.account
        if (policy.interval_failures, forced, factor) != (guard.failures, guard.forced, guard.factor):
            return f"{policy.interval_failures} failures, {forced} forced rounds, not {guard.failures, guard.forced}"
        if max(abs(spent - guard.spent), abs(allowed - guard.allowed)) > 1e-9 * max(1.0, guard.spent, guard.allowed):
            return f"an account of {spent, allowed} instead of {guard.spent, guard.allowed}"
        if guard.looks is not None and shared != guard.looks.shared:
            return f"{shared} shared looks instead of {guard.looks.shared}"
        confirmed, active = map(set, guard.view)
        return guard.differs(policy) or sets_differ(policy, confirmed, active, set(self.everybody) - confirmed - active)


class GuardedIndex(GuardedThompson):
    """The same with an index instead of draws."""

    kind = GuardedByIndex
