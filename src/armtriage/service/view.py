"""PolicyView: a policy at one time, in copies that can be read while the policy goes on."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from typing import Any

import numpy as np
from numpy.typing import NDArray

from armtriage.alarm import Health
from armtriage.certificate import Certificate
from armtriage.policies import ContextualPolicy, OldLog, Policy
from armtriage.policies.rewards import AboveCap
from armtriage.policies.sampling.places import Positions
from armtriage.service.timeline import Point, Timeline, certificate_if_any
from armtriage.service.trial import TrialView
from armtriage.service.watch import WatchView

ACTIVE, CONFIRMED, ELIMINATED, RETIRED = 0, 1, 2, 3
STATES = ("open", "confirmed", "eliminated", "retired")
"""What the state of an arm is called, each at the place of its number."""

RARE = 0.01
"""The share of the latest decisions below which an eliminated arm need not be explained."""


@dataclass(frozen=True)
class PolicyView:
    """A view of a policy; arrays have an entry for each arm, in the units of rewards."""

    kind: str
    budget: int
    direction: str
    decisions: int
    names: Sequence[str]
    certificate: Certificate | None
    states: NDArray[np.int8]
    pulls: NDArray[np.int64]
    counts: NDArray[np.int64]
    means: NDArray[np.float64]  # of arms that were never seen, not a number
    lower: NDArray[np.float64] | None  # None with contexts, where arms have no means
    upper: NDArray[np.float64] | None
    chosen: frozenset[int]  # the decision of largest means
    silent: frozenset[int]  # arms whose last rewards did not come
    weights: NDArray[np.float64] | None  # of contexts
    shares: NDArray[np.float64]  # of the latest decisions, in which each arm was
    latest: int  # how many those are
    waiting: NDArray[np.int64]  # open decisions in which each arm is; 0 unless it is eliminated and still shown
    points: Sequence[Point]  # how what is known came about
    health: Health
    above_cap: AboveCap | None  # None without a cap
    positions: Positions | None  # None where places are alike
    old_log: OldLog | None
    old_withdrawn: int | None  # after how many decisions
    # What a service knows besides.
    head: int = 0  # the last event of the log
    status: str = ""
    open: int = 0  # decisions
    oldest: int | None = None  # when the oldest of them was made
    trial: TrialView | None = None
    watch: WatchView | None = None
    alarms: Sequence[tuple[int, int, str, str]] = ()  # event, time, kind, and of which metric or arm

    @property
    def live(self) -> NDArray[np.int64]:
        """The arms that are not retired."""
        return np.flatnonzero(self.states != RETIRED)

    @property
    def family(self) -> str:
        """The class of the decision set; nothing for slates."""
        return "" if self.certificate is None else self.certificate.family

    @property
    def triage(self) -> tuple[int, int, int] | None:
        """How many arms are confirmed, open and eliminated; None where arms have no means of their own."""
        if self.lower is None:
            return None
        confirmed, active, eliminated = (int((self.states == one).sum()) for one in (CONFIRMED, ACTIVE, ELIMINATED))
        return confirmed, active, eliminated


def look(policy: Policy, timeline: Timeline | None = None, **of_service: Any) -> PolicyView:
    """Return a view of a policy, and, with its timeline, of its latest decisions and of how its certificate came about.

    Examples
    --------
    >>> from armtriage import GuardedThompson
    >>> policy = GuardedThompson(3, budget=1, names=["tea", "milk", "jam"], seed=7)
    >>> view = look(policy)
    >>> view.names, view.decisions, view.states.tolist(), view.triage
    (['tea', 'milk', 'jam'], 0, [0, 0, 0], (0, 3, 0))
    """
    certificate, known, tally = certificate_if_any(policy), policy.arms, policy.tally
    contextual = isinstance(policy, ContextualPolicy)
    n, numbers = known.retired.size, {name: arm for arm, name in enumerate(known.names)}
    states = np.full(n, ACTIVE, np.int8)
    lower = upper = None
    chosen: frozenset[int] = frozenset()
    silent: frozenset[int] = frozenset()
    if certificate is not None and certificate.triage is not None and certificate.intervals is not None:
        for state, arms in ((CONFIRMED, certificate.triage.confirmed), (ELIMINATED, certificate.triage.eliminated)):
            states[[numbers[name] for name in arms.tolist()]] = state
        chosen = frozenset(numbers[name] for name in certificate.next_decision.tolist())
        silent = frozenset(numbers[name] for name in certificate.silent)
        lower, upper = (one[:n].copy() for one in certificate.intervals)
    states[known.retired] = RETIRED
    low, high = policy.reward_range
    with np.errstate(invalid="ignore", divide="ignore"):
        unit = tally.sums / tally.counts
    positions: Positions | None = getattr(policy, "positions", None)
    if positions is not None:
        unit = np.minimum(tally.sums / policy._page().told, 1.0)  # type: ignore[attr-defined]
    means = high - (high - low) * unit if policy.direction == "minimize" else low + (high - low) * unit
    past = Timeline() if timeline is None else timeline
    shares, latest = past.lately(policy)
    return PolicyView(
        kind=type(policy).__name__,
        budget=policy.budget,
        direction=policy.direction,
        decisions=policy.asked,
        names=[str(name) for name in known.names],
        certificate=certificate,
        states=states,
        pulls=past.pulls(policy).copy(),
        counts=tally.counts.copy(),
        means=np.full(n, np.nan) if contextual else means,
        lower=lower,
        upper=upper,
        chosen=chosen,
        silent=silent,
        weights=getattr(policy, "weights", None) if contextual else None,
        shares=shares,
        latest=latest,
        waiting=_waiting(policy, (states == ELIMINATED) & (shares >= RARE)),
        points=list(past.points),
        health=policy.health(),
        above_cap=None if policy.cap is None else policy.above_cap,
        positions=positions,
        old_log=getattr(policy, "old_log", None),
        old_withdrawn=policy._about_old().get("old_withdrawn") if hasattr(policy, "_about_old") else None,
        **of_service,
    )


def _waiting(policy: Policy, wanted: NDArray[np.bool_]) -> NDArray[np.int64]:
    """Return in how many open decisions each of some arms is; there may be a million to count."""
    if not wanted.any():
        return np.zeros(wanted.size, np.int64)
    arms = [np.zeros(0, np.int64), *(one.arms for one in policy.open_decisions)]
    return np.bincount(np.concatenate(arms), minlength=wanted.size)[: wanted.size]
