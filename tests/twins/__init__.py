"""Slow, obvious twins of the policies, written from their descriptions: no kernels, no shortcuts.

A twin follows a policy. ``judge(t, arms)``, with contexts ``judge(t, arms, contexts)``, says what is wrong with the
decision of round t (None if nothing is) and takes it as played; ``update(t, {arm: reward})`` closes that decision with
the rewards that came; ``differs(policy)`` says what the policy shows of its state that the twin sees otherwise.
The random numbers are armtriage's by definition; everything else is computed anew.

`twins.harness` plays a policy beside its twin, and `twins.cases` lists the problems that they play.
"""

from __future__ import annotations

import itertools
from typing import Any

import numpy as np

from armtriage import FeedbackGraph
from armtriage.policies.facts import arrays_of


class Twin:
    """A twin that knows the one right decision: ``select(t)`` returns its arms, sorted."""

    def select(self, t: int) -> list[int]:
        raise NotImplementedError

    def judge(self, t: int, arms: list[int]) -> str | None:
        expected = self.select(t)
        return None if arms == expected else f"{arms} instead of {expected}"

    def update(self, t: int, rewards: dict[int, float]) -> None:
        raise NotImplementedError

    def differs(self, policy: Any) -> str | None:
        return None


class Schedule:
    """How often each arm counts as tried: its rewards, those on their way, and what lost ones stand for."""

    def __init__(self, reveals: list[frozenset[int]]) -> None:
        self.reveals = reveals
        self.counts, self.credit, self.pending, self.missed = ([0] * len(reveals) for _ in range(4))
        self.shown: dict[int, set[int]] = {}

    def play(self, t: int, arms: list[int]) -> set[int]:
        """Await what these arms reveal, and return it."""
        self.shown[t] = set().union(*(self.reveals[a] for a in arms))
        for a in self.shown[t]:
            self.pending[a] += 1
        return self.shown[t]

    def take(self, t: int, rewards: dict[int, float]) -> None:
        for a in rewards:
            self.counts[a] += 1
            self.pending[a] -= 1
            self.missed[a] = 0

    def lose(self, t: int, rewards: dict[int, float]) -> set[int]:
        """Give up what is not among the rewards of a round: from the eighth in a row on, each is a try or more."""
        lost = self.shown.pop(t) - rewards.keys()
        for a in lost:
            self.pending[a] -= 1
            self.missed[a] += 1
            if self.missed[a] >= 8:
                self.credit[a] += 1 + (self.missed[a] - 8) // 2
        return lost

    def tries(self, a: int) -> int:
        return self.counts[a] + self.credit[a]

    def scheduled(self, a: int) -> int:
        return self.tries(a) + self.pending[a]

    def behind(self, arms: set[int]) -> set[int]:
        """Those of these arms that have been scheduled least often."""
        least = min(map(self.scheduled, arms))
        return {a for a in arms if self.scheduled(a) == least}


def sets_differ(policy: Any, confirmed: set[int], active: set[int], eliminated: set[int]) -> str | None:
    """What the triage of a policy has that these sets have not."""
    mine, theirs = [set(arms.tolist()) for arms in policy.triage], [confirmed, active, eliminated]
    return None if mine == theirs else f"triage {mine} instead of {theirs}"


def saved(policy: Any) -> dict[str, np.ndarray]:
    """What a policy holds, by name: its tally, the facts that a file keeps, and what follows from them."""
    held = {**policy.tally.columns, **policy._arrays()}
    for name in ("_state", "_own"):
        if hasattr(policy, name):
            held |= arrays_of(getattr(policy, name))
    if hasattr(policy, "_evidence"):
        held |= {name: array[: policy.n_arms] for name, array in arrays_of(policy._evidence).items()}
    return held


def reveals_of(graph: FeedbackGraph) -> list[frozenset[int]]:
    """What each arm reveals, from the matrix of the graph."""
    return [frozenset(np.flatnonzero(row).tolist()) for row in graph.to_sparse().toarray()]


def independence(graph: FeedbackGraph) -> int:
    """The largest number of arms without an edge either way, by trying all sets."""
    matrix = graph.to_sparse().toarray()
    joined = (matrix | matrix.T) & ~np.eye(graph.n_arms, dtype=bool)
    sizes = range(graph.n_arms, 0, -1)
    some = (arms for size in sizes for arms in itertools.combinations(range(graph.n_arms), size))
    return next(len(arms) for arms in some if not joined[np.ix_(arms, arms)].any())
