"""Timeline: how what is known of a policy came about, at a few hundred of its decisions."""

from __future__ import annotations

import contextlib
import time
from collections import deque
from collections.abc import Iterable
from typing import Any, NamedTuple

import numpy as np
from numpy.typing import NDArray

from armtriage.certificate import Certificate
from armtriage.policies import ContextualPolicy, Policy

MOST = 300
"""The most points that are kept."""

SHARE = 0.05
"""The part of the time that statistics may take."""

_STEP = 0.05  # a point whenever there are so many more decisions
_FEWEST = 5  # but not more often than this
_CHEAP = 0.005  # seconds of a look that need no pause after it, since points become ever rarer
_RECENT = 1000  # decisions after which the pulls are noted, for the shares of the latest


class Point(NamedTuple):
    """What was certain after so many decisions; nothing where a policy has no certificate, or it was withdrawn."""

    decisions: int
    at: int  # microseconds since 1970
    bound: float | None  # on what they had lost in all
    estimate: float | None
    confirmed: int | None
    active: int | None
    eliminated: int | None


def certificate_if_any(policy: Policy) -> Certificate | None:
    """Return the policy's certificate; None if its kind has none, or it was made without.

    Examples
    --------
    >>> from armtriage import C2UCB, GuardedThompson
    >>> certificate_if_any(GuardedThompson(3, budget=1)).rounds, certificate_if_any(C2UCB(3, dimension=2, budget=1))
    (0, None)
    """
    if getattr(policy, "certified", True) is False:
        return None
    try:
        return policy.glance()
    except NotImplementedError:
        return None


def finite(number: float | None) -> float | None:
    """Return a number, or None for one that is not finite."""
    return None if number is None or not np.isfinite(number) else float(number)


class Timeline:
    """Points at numbers of decisions that grow by a twentieth, so that any history has a few hundred.

    They are not part of the state: two servers with the same log may have looked at different times.

    Examples
    --------
    >>> from armtriage import GuardedThompson
    >>> policy, timeline = GuardedThompson(3, budget=1, seed=7), Timeline()
    >>> for _ in range(1000):
    ...     policy.tell(policy.ask(), [1])
    ...     if policy.asked >= timeline.next:
    ...         timeline.note(policy, at=0)
    >>> timeline.points[0].decisions, len(timeline.points) < 100
    (1, True)
    """

    def __init__(self, points: Iterable[Iterable[Any]] = (), pulls: Iterable[int] = ()) -> None:
        self.points = [Point._make(one) for one in points]
        self._pulls = np.array(list(pulls), np.int64)  # with contexts, where policies keep no tally
        self._recent: deque[tuple[int, NDArray[np.int64]]] = deque(maxlen=2)
        self._step, self._not_before = _STEP, 0.0
        self.cost = 0.0  # seconds that the last look took
        last = self.points[-1].decisions if self.points else 0
        self._next_point = self._after(last) if last else 1
        self._next_recent = 0
        self.next = 0  # decisions at which the next look is due

    def _after(self, decisions: int) -> int:
        return decisions + max(int(self._step * decisions), _FEWEST)

    @property
    def overdue(self) -> int:
        """Decisions at which the next look is overdue: the one after it would be due."""
        return self._after(self.next)

    def count(self, arms: NDArray[np.int64]) -> None:
        """Count the pulls of a decision with contexts."""
        if arms.size and arms[-1] >= self._pulls.size:
            self._pulls = np.append(self._pulls, np.zeros(2 * int(arms[-1]) + 1 - self._pulls.size, np.int64))
        self._pulls[arms] += 1

    def pulls(self, policy: Policy) -> NDArray[np.int64]:
        """Return how often each arm was in a decision."""
        if not isinstance(policy, ContextualPolicy):
            return policy.tally.pulls
        known = np.zeros(policy.n_arms, np.int64)
        known[: self._pulls.size] = self._pulls[: known.size]
        return known

    def to_row(self) -> list[Any]:
        """Return what a snapshot keeps: the arguments that make it again."""
        return [[list(one) for one in self.points], self._pulls.tolist()]

    def note(self, policy: Policy, at: int) -> None:
        """Look at the policy; the next time is `next`."""
        decisions = policy.asked
        if decisions >= self._next_recent:
            self._recent.append((decisions, self.pulls(policy).copy()))
            self._next_recent = decisions + _RECENT
        if decisions >= self._next_point:
            self._next_point = self._after(decisions)
            if time.monotonic() >= self._not_before:
                began = time.thread_time()
                # Numbers that cannot be stop no look: they are found when the state is stored.
                with contextlib.suppress(ValueError, ArithmeticError):
                    self._add(policy, at)
                cost = time.thread_time() - began
                if min(cost, self.cost) > _CHEAP:  # the first look may wait for a kernel
                    self._not_before = time.monotonic() + cost / SHARE
                self.cost = cost
        self.next = min(self._next_point, self._next_recent)

    def _add(self, policy: Policy, at: int) -> None:
        certificate = certificate_if_any(policy)
        if certificate is None:
            return
        sets = certificate.triage
        counts: tuple[int | None, ...] = (None, None, None) if sets is None else tuple(len(arms) for arms in sets)
        bound = finite(certificate.regret_bound)
        self.points.append(Point(certificate.rounds, at, bound, finite(certificate.estimate), *counts))
        if len(self.points) > MOST:
            self.points[:-1] = self.points[:-1:2]
            self._step = 2.0 * self._step

    def lately(self, policy: Policy) -> tuple[NDArray[np.float64], int]:
        """Return in which share of the latest decisions each arm was, and how many decisions those are."""
        decisions = policy.asked
        since, before = self._recent[0] if self._recent else (0, np.zeros(0, np.int64))
        if len(self._recent) < 2 or decisions <= since:
            since, before = 0, np.zeros(0, np.int64)
        new = self.pulls(policy).astype(np.float64)
        new[: before.size] -= before
        return new / max(decisions - since, 1), decisions - since
