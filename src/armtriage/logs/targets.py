"""Targets: what a log is asked about. A slate, weights of arms, a policy, or the difference of two of these."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any, NamedTuple, Protocol

import numpy as np
from numpy.typing import NDArray

from armtriage.arms import Roster
from armtriage.logs.batch import Batch
from armtriage.policies import Policy

_OPEN = 10_000  # decisions of a policy that are left open before it is taken again


class Weights(NamedTuple):
    """How often a target plays each arm, in every decision of a batch; decisions may share a row."""

    rows: NDArray[np.int64]  # of each decision
    starts: NDArray[np.int64]
    arms: NDArray[np.int64]
    weights: NDArray[np.float64]


class Target(Protocol):
    """What is asked about: `size` bounds the sum of absolute weights, `label` says what it is."""

    size: float
    label: str

    def weights(self, batch: Batch) -> Weights:
        """Return the weights of each decision, which follow from what was known before it."""
        ...

    def most(self, arms: int) -> float:
        """Return a bound on the sum of absolute weights of so many arms."""
        ...


def target_of(target: Any, roster: Roster, *, restrict: bool = False) -> Target:
    """Return what is asked about.

    Examples
    --------
    >>> target_of(["tea", "jam"], Roster(3, ["tea", "milk", "jam"])).label
    "arms 'tea' and 'jam'"
    """
    if isinstance(target, Policy):
        return _Asked(target, roster)
    if isinstance(target, Mapping):
        arms = roster.numbers(list(target), "target")
        weights = np.zeros(roster.n_arms)
        weights[arms] = [float(one) for one in target.values()]
        return Fixed(_checked(weights), roster, restrict, f"the weights of {arms.size:,} arms")
    if isinstance(target, str | bytes) or not hasattr(target, "__len__"):
        raise TypeError(f"target must be a list of arms, weights of arms, or a policy for slates, got {target!r:.100}")
    if not len(target):
        raise ValueError("target must have an arm or more, got none")
    given = np.asarray(target) if not isinstance(target, list | tuple) or roster.names is None else None
    if given is not None and given.dtype.kind == "f":
        if given.shape != (roster.n_arms,):
            raise ValueError(f"target must have a weight for each of {roster.n_arms} arms, got shape {given.shape}")
        return Fixed(_checked(given.astype(np.float64)), roster, restrict, f"the weights of {given.size:,} arms")
    arms = roster.numbers(list(target), "target")
    weights = np.zeros(roster.n_arms)
    weights[arms] = 1.0
    return Fixed(weights, roster, restrict, _listed([roster.name(arm) for arm in arms]))


def _checked(weights: NDArray[np.float64]) -> NDArray[np.float64]:
    if not ((weights >= 0.0) & (weights <= 1.0 + 1e-9)).all() or not weights.any():
        wrong = weights[~((weights >= 0.0) & (weights <= 1.0 + 1e-9))]
        shown = float(wrong[0]) if wrong.size else "none above 0"
        raise ValueError(f"target must have probabilities from 0 to 1 of playing each arm, got {shown}")
    return weights


def _listed(names: list[Any], most: int = 10) -> str:
    called = [repr(one) for one in names]
    if len(called) == 1:
        return f"arm {called[0]}"
    if len(called) > most:
        return f"arms {', '.join(called[:most])} and {len(called) - most:,} more"
    return f"arms {', '.join(called[:-1])} and {called[-1]}"


class Fixed:
    """The same weights in every decision."""

    def __init__(self, weights: NDArray[np.float64], roster: Roster, restrict: bool, label: str) -> None:
        self._all, self._roster, self._restrict, self.label = weights, roster, restrict, label
        self._arms = np.flatnonzero(weights)
        self.size = float(np.abs(weights).sum())

    def most(self, arms: int) -> float:
        """Return the sum of the largest weights."""
        return float(np.sort(self._all)[::-1][:arms].sum())

    def weights(self, batch: Batch) -> Weights:
        """Return a row for each set of eligible arms."""
        found = []
        for place, arms in enumerate(batch.sets):
            absent = self._arms[:0] if arms is None else np.setdiff1d(self._arms, arms)
            if absent.size and not self._restrict:
                number = batch.numbers[np.argmax(batch.which == place)]
                what = f"{self._roster.said(int(absent[0]))}, which was not eligible in decision {number}"
                raise ValueError(f"target has {what}: say restrict=True to leave such arms out where they were not")
            found.append(np.setdiff1d(self._arms, absent, assume_unique=True))
        arms = np.concatenate([*found, np.zeros(0, np.int64)])
        starts = np.concatenate([[0], np.cumsum([one.size for one in found])]).astype(np.int64)
        return Weights(batch.which, starts, arms, self._all[arms])


class _Asked:
    """What a policy would have played in each decision, as it stands: it is told nothing, and does not learn."""

    def __init__(self, policy: Policy, roster: Roster) -> None:
        names = None if policy.names is None else list(policy.names)
        if policy.n_arms != roster.n_arms or (roster.names is not None and names != roster.names):
            raise ValueError(f"target must have the {roster.n_arms} arms of the log, got a policy of {policy.n_arms}")
        self._policy, self._bytes = policy, policy.to_bytes()
        self._copy, self._asked = policy, _OPEN
        self.size, self.label = float(policy.budget), f"{type(policy).__name__} as it stands"

    def most(self, arms: int) -> float:
        """Return how many arms there may be: each has the weight 1."""
        return min(self.size, float(arms))

    def weights(self, batch: Batch) -> Weights:
        """Return a row for each decision: the policy is asked."""
        found = []
        for which in batch.which.tolist():
            if self._asked >= _OPEN:
                self._copy, self._asked = type(self._policy).from_bytes(self._bytes), 0
            among = batch.sets[which]
            mask = None
            if among is not None:
                mask = np.zeros(self._copy.n_arms, np.bool_)
                mask[among] = True
            found.append(self._copy.ask(eligible=mask).arms)
            self._asked += 1
        starts = np.concatenate([[0], np.cumsum([one.size for one in found])]).astype(np.int64)
        arms = np.concatenate([*found, np.zeros(0, np.int64)])
        return Weights(np.arange(len(found)), starts, arms, np.ones(arms.size))


class Difference:
    """By how much more one target earns than another."""

    def __init__(self, first: Target, second: Target) -> None:
        self._first, self._second = first, second
        self.size, self.label = first.size + second.size, f"{first.label} rather than {second.label}"

    def most(self, arms: int) -> float:
        """Return a bound by those of both targets."""
        return self._first.most(arms) + self._second.most(arms)

    def weights(self, batch: Batch) -> Weights:
        """Return the weights of one less those of the other, a row for each pair of rows that occurs."""
        one, two = self._first.weights(batch), self._second.weights(batch)
        pairs, rows = np.unique(np.stack([one.rows, two.rows], axis=1), axis=0, return_inverse=True)
        arms, weights, starts = [], [], [0]
        for a, b in pairs.tolist():
            both: dict[int, float] = {}
            for sign, side, row in ((1.0, one, a), (-1.0, two, b)):
                part = slice(side.starts[row], side.starts[row + 1])
                for arm, weight in zip(side.arms[part].tolist(), side.weights[part].tolist(), strict=True):
                    both[arm] = both.get(arm, 0.0) + sign * weight
            kept = {arm: weight for arm, weight in both.items() if weight}
            arms += list(kept)
            weights += list(kept.values())
            starts.append(len(arms))
        return Weights(rows.ravel(), np.array(starts), np.array(arms, np.int64), np.array(weights, np.float64))
