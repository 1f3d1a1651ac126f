"""What the page says of a policy in the large, as JSON knows it: its size does not grow with the arms."""

from __future__ import annotations

from typing import Any

import numpy as np

from armtriage.service.timeline import finite
from armtriage.service.view import PolicyView

_NAMED = 12  # arms that a list names before it says how many more there are
_WEIGHTS = 12  # of contexts, the largest


def summary(view: PolicyView) -> dict[str, Any]:
    """Return the facts of a policy.

    Examples
    --------
    >>> from armtriage import GuardedThompson
    >>> from armtriage.service.view import look
    >>> facts = summary(look(GuardedThompson(3, budget=1, seed=7)))
    >>> facts["triage"], facts["certificate"]["confidence"]
    ([0, 3, 0], 0.99)
    """
    return {
        "kind": view.kind,
        "budget": view.budget,
        "direction": view.direction,
        "decisions": view.decisions,
        "arms": len(view.names),
        "live": int(view.live.size),
        "triage": None if view.triage is None else list(view.triage),
        "certificate": _certificate(view),
        "value": _value(view),
        "contexts": _contexts(view),
        "sets": _sets(view),
    }


def _certificate(view: PolicyView) -> dict[str, Any] | None:
    made = view.certificate
    if made is None:
        return None
    bound, account = finite(made.regret_bound), made.account
    return {
        "text": cut(str(made), 1600),
        "confidence": made.confidence,
        "rounds": made.rounds,
        "total": bound,
        "each": None if bound is None or not made.rounds else bound / made.rounds,
        "estimate": finite(made.estimate),
        "next": finite(made.next_bound),
        "contradictions": made.contradictions,
        "informative": made.informative,
        "needed": made.needed,
        "account": None
        if account is None
        else {"spent": finite(account.spent), "allowed": finite(account.allowed), "forced": account.forced_rounds},
    }


def _value(view: PolicyView) -> dict[str, float] | None:
    """Return what a decision seems to have been worth on average, and the best one, by the means so far."""
    seen = np.nan_to_num(view.means)
    if view.lower is None or not view.decisions or view.family:
        return None
    means = np.sort(seen[view.live])
    best = means[: view.budget] if view.direction == "minimize" else means[::-1][: view.budget]
    return {"each": float((view.pulls * seen).sum()) / view.decisions, "best": float(best.sum())}


def _contexts(view: PolicyView) -> dict[str, Any] | None:
    if view.weights is None:
        return None
    order = np.argsort(-np.abs(view.weights), kind="stable")[:_WEIGHTS]
    return {
        "dimension": int(view.weights.size),
        "weights": [[int(place), float(view.weights[place])] for place in order],
    }


def _sets(view: PolicyView) -> dict[str, Any] | None:
    made = view.certificate
    if made is None or not made.family:
        return None

    def names(arms: Any) -> dict[str, Any]:
        listed = [cut(str(one), 64) for one in arms.tolist()[:_NAMED]]
        return {"names": listed, "more": max(len(arms) - _NAMED, 0)}

    return {
        "family": made.family,
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
