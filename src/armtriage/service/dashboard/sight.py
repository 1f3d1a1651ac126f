"""Sight: what is known of a policy at one time, in copies that can be read while the policy goes on."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from typing import Any

import numpy as np
from numpy.typing import NDArray

from armtriage.certificate import DecisionCertificate
from armtriage.policies import ContextualPolicy, Policy
from armtriage.service.course import Course, certificate_of, finite

__all__ = ["ACTIVE", "CONFIRMED", "ELIMINATED", "RETIRED", "STATES", "Sight", "look", "summary"]

ACTIVE, CONFIRMED, ELIMINATED, RETIRED = 0, 1, 2, 3
STATES = ("open", "confirmed", "eliminated", "retired")
"""What the state of an arm is called, each at the place of its number."""

_NAMED = 12  # arms that a list names before it says how many more there are
_WEIGHTS = 12  # of contexts, the largest


@dataclass(frozen=True)
class Sight:
    """What is known of a policy; arrays have an entry for each arm, in the units of rewards."""

    kind: str
    budget: int
    direction: str
    decisions: int
    names: Sequence[str]
    certificate: Any
    states: NDArray[np.int8]
    pulls: NDArray[np.int64]
    counts: NDArray[np.int64]
    means: NDArray[np.float64]  # of arms that were never seen, not a number
    lower: NDArray[np.float64] | None  # None with contexts, where arms have no means
    upper: NDArray[np.float64] | None
    chosen: frozenset[int]  # the decision of largest means
    silent: frozenset[int]  # arms whose last rewards did not come
    family: str  # of allowed decisions; nothing for slates
    weights: NDArray[np.float64] | None
    shares: NDArray[np.float64]  # of the latest decisions, in which each arm was
    lately: int  # how many those are
    waiting: NDArray[np.int64]  # open decisions in which each arm is

    @property
    def live(self) -> NDArray[np.int64]:
        """The arms that are not retired."""
        return np.flatnonzero(self.states != RETIRED)


def look(policy: Policy, course: Course | None = None) -> Sight:
    """Return what is known of a policy, and, with its course, what it showed of late.

    Examples
    --------
    >>> from armtriage import GuardedThompson
    >>> policy = GuardedThompson(3, budget=1, names=["tea", "milk", "jam"], seed=7)
    >>> sight = look(policy)
    >>> sight.names, sight.decisions, sight.states.tolist()
    (['tea', 'milk', 'jam'], 0, [0, 0, 0])
    """
    certificate, known, tally = certificate_of(policy), policy.arms, policy.tally
    contextual = isinstance(policy, ContextualPolicy)
    n, called = known.retired.size, [str(name) for name in known.names]
    numbers = {name: arm for arm, name in enumerate(known.names)}
    states = np.full(n, ACTIVE, np.int8)
    lower = upper = None
    chosen: frozenset[int] = frozenset()
    silent: frozenset[int] = frozenset()
    if certificate is not None and not contextual:
        for state, arms in ((CONFIRMED, certificate.triage.confirmed), (ELIMINATED, certificate.triage.eliminated)):
            states[[numbers[name] for name in arms.tolist()]] = state
        chosen = frozenset(numbers[name] for name in certificate.next_decision.tolist())
        silent = frozenset(numbers[name] for name in certificate.silent)
        if certificate.intervals is not None:
            lower, upper = (one[:n].copy() for one in certificate.intervals)
    states[known.retired] = RETIRED
    low, high = policy.reward_range
    with np.errstate(invalid="ignore", divide="ignore"):
        unit = tally.sums / tally.counts
    means = high - (high - low) * unit if policy.direction == "minimize" else low + (high - low) * unit
    sets, known_course = policy.decisions, Course() if course is None else course
    shares, lately = known_course.lately(policy)
    return Sight(
        kind=type(policy).__name__,
        budget=policy.budget,
        direction=policy.direction,
        decisions=policy.asked,
        names=called,
        certificate=certificate,
        states=states,
        pulls=known_course.pulls(policy).copy(),
        counts=tally.counts.copy(),
        means=np.full(n, np.nan) if contextual else means,
        lower=lower,
        upper=upper,
        chosen=chosen,
        silent=silent,
        family="" if sets is None or not isinstance(certificate, DecisionCertificate) else type(sets).__name__,
        weights=getattr(policy, "weights", None) if contextual else None,
        shares=shares,
        lately=lately,
        waiting=_waiting(policy, n),
    )


def _waiting(policy: Policy, n_arms: int) -> NDArray[np.int64]:
    """Return in how many open decisions each arm is."""
    arms = [np.zeros(0, np.int64), *(one.arms for one in policy.open_decisions)]
    return np.bincount(np.concatenate(arms), minlength=n_arms)[:n_arms]


def summary(sight: Sight) -> dict[str, Any]:
    """Return what the page says of a policy in the large, as JSON knows it: its size does not grow with the arms.

    Examples
    --------
    >>> from armtriage import GuardedThompson
    >>> facts = summary(look(GuardedThompson(3, budget=1, seed=7)))
    >>> facts["triage"], facts["certificate"]["confidence"]
    ([0, 3, 0], 0.99)
    """
    return {
        "kind": sight.kind,
        "budget": sight.budget,
        "direction": sight.direction,
        "decisions": sight.decisions,
        "arms": len(sight.names),
        "live": int(sight.live.size),
        "triage": triage_of(sight),
        "certificate": _certificate(sight),
        "value": _value(sight),
        "contexts": _contexts(sight),
        "sets": _sets(sight),
    }


def triage_of(sight: Sight) -> list[int] | None:
    """Return how many arms are confirmed, open and eliminated; None where arms have no means of their own."""
    if sight.certificate is None or sight.lower is None:
        return None
    return [int((sight.states == one).sum()) for one in (CONFIRMED, ACTIVE, ELIMINATED)]


def _certificate(sight: Sight) -> dict[str, Any] | None:
    made = sight.certificate
    if made is None:
        return None
    bound, account = finite(made.regret_bound), made.account
    return {
        "text": cut(str(made), 1600),
        "confidence": made.confidence,
        "rounds": made.rounds,
        "total": bound,
        "each": None if bound is None or not made.rounds else bound / made.rounds,
        "estimate": finite(getattr(made, "estimate", None)),
        "next": finite(made.next_bound),
        "contradictions": made.contradictions,
        "informative": made.informative,
        "needed": made.needed,
        "account": None
        if account is None
        else {"spent": finite(account.spent), "allowed": finite(account.allowed), "forced": account.forced_rounds},
    }


def _value(sight: Sight) -> dict[str, float] | None:
    """Return what a decision seems to have been worth on average, and the best one, by the means so far."""
    seen = np.nan_to_num(sight.means)
    if sight.lower is None or not sight.decisions or sight.family:
        return None
    means = np.sort(seen[sight.live])
    best = means[: sight.budget] if sight.direction == "minimize" else means[::-1][: sight.budget]
    return {"each": float((sight.pulls * seen).sum()) / sight.decisions, "best": float(best.sum())}


def _contexts(sight: Sight) -> dict[str, Any] | None:
    if sight.weights is None:
        return None
    order = np.argsort(-np.abs(sight.weights), kind="stable")[:_WEIGHTS]
    return {
        "dimension": int(sight.weights.size),
        "weights": [[int(place), float(sight.weights[place])] for place in order],
    }


def _sets(sight: Sight) -> dict[str, Any] | None:
    made = sight.certificate
    if not sight.family:
        return None

    def names(arms: Any) -> dict[str, Any]:
        listed = [cut(str(one), 64) for one in arms.tolist()[:_NAMED]]
        return {"names": listed, "more": max(len(arms) - _NAMED, 0)}

    return {
        "family": sight.family,
        "incumbent": names(made.next_decision),
        "challenger": names(made.challenger),
        "entering": names(made.entering),
        "leaving": names(made.leaving),
        "bound": finite(made.next_bound),
    }


def cut(text: str, most: int) -> str:
    """Return a text that is no longer than it may be.

    Examples
    --------
    >>> cut("harbour-bridge-reopens", 12)
    'harbour-bri…'
    """
    return text if len(text) <= most else f"{text[: most - 1]}…"
