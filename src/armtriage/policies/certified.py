"""What is certain of a policy's arms and decisions: tally, triage, windows, certificates."""

from __future__ import annotations

from abc import ABC
from collections.abc import Iterable
from dataclasses import replace
from functools import cached_property
from typing import Any, ClassVar

import numpy as np
from numpy.typing import ArrayLike, NDArray

from armtriage._arguments import check_probability
from armtriage.alarm import DriftAlarm, Health
from armtriage.certificate import (
    Account,
    Bounds,
    Certificate,
    Log,
    Sets,
    Slates,
    Tally,
    intervals_of,
    within_old,
)
from armtriage.decisions import TopS
from armtriage.kernels.record import Floats, Ints
from armtriage.policies.changing import ChangingPolicy, locked
from armtriage.policies.evidence import PATIENCE
from armtriage.policies.rewards import AboveCap
from armtriage.triage import Triage, triage_among


class CertifiedPolicy(ChangingPolicy, ABC):
    """The part of every `armtriage.Policy` that says what is certain."""

    _watchable: ClassVar[bool] = False

    @property
    def tally(self) -> Tally:
        """How often each arm was pulled and observed, and sums of its rewards on the unit scale, for certificates."""
        return self._own_tally

    @property
    def _exposures(self) -> Ints | None:
        """How often each arm was eligible; None if every arm always was."""
        return None

    @cached_property
    def _own_tally(self) -> Tally:
        n = self._graph.n_arms
        return Tally(np.zeros(n, np.int64), np.zeros(n, np.int64), np.zeros(n), np.zeros(n))

    @property
    def interval_failures(self) -> int:
        """How often an arm's new interval contradicted its old ones: a sign of drift, or of bad luck.

        0 for policies that keep no intervals, which notice nothing.
        """
        return 0

    @locked
    def watch(self, false_alarm: float = 0.01) -> None:
        """Watch for drift from now on, by the rewards of decisions that are closed: see `health`, `DriftAlarm`.

        Once there is an alarm, certificates withdraw; those of a window that is started after it do not. For policies
        without contexts.

        Parameters
        ----------
        false_alarm : float
            The probability that there is ever an alarm though no mean has changed.

        Examples
        --------
        >>> from armtriage import ThompsonSampling
        >>> policy = ThompsonSampling(2, budget=1, seed=7)
        >>> policy.watch()
        >>> for t in range(1000):
        ...     policy.tell(policy.ask(), [t % 10 > 0 if t < 500 else t % 10 == 0])
        >>> policy.health().alarms
        (Alarm(arm=0, decision=519, change_near=501), Alarm(arm=1, decision=570, change_near=496))
        >>> policy.certificate().regret_bound
        inf
        """
        if not self._watchable:
            raise NotImplementedError(f"a {type(self).__name__} cannot be watched: it keeps no rewards by arm")
        if self._alarm is not None:
            raise ValueError(f"the policy is watched already, with a false_alarm of {self._alarm.delta}")
        self._alarm = DriftAlarm(self._roster.n_arms, check_probability("false_alarm", false_alarm))

    @locked
    def health(self) -> Health:
        """Return whether rewards are what certificates take them for, as far as they have been watched.

        Examples
        --------
        >>> from armtriage import ThompsonSampling
        >>> policy = ThompsonSampling(3, budget=1, forget="alarm", seed=7)
        >>> print(policy.health())
        No drift has been noticed, by a watch that is wrong with probability 0.01 at most.
        >>> print(ThompsonSampling(3, budget=1).health())
        This policy is not watched for drift.
        """
        alarm, name = self._alarm, self._roster.name
        if alarm is None:
            return Health((), None, None, self.interval_failures, None, self._began)
        found = tuple(one._replace(arm=name(one.arm)) for one in alarm.alarms)
        return Health(found, alarm.evidence, alarm.prices, self.interval_failures, alarm.delta, self._began)

    def _heed(self) -> None:
        """Do what follows from what was just told, where policies forget or have an old log."""
        raise NotImplementedError

    def _unheeded(self, since: int) -> int:
        """Return how many alarms there were since a decision after which nothing was forgotten."""
        return 0 if self._alarm is None else sum(one.decision > max(since, self._began) for one in self._alarm.alarms)

    @property
    def _silent(self) -> tuple[int, ...]:
        """The arms whose rewards have not come for some time."""
        return () if self._missed is None else tuple(np.flatnonzero(self._missed >= PATIENCE).tolist())

    @property
    def triage(self) -> Triage:
        """The arms that are certain to be among the best, still open, and certain not to be; see `triage_of`."""
        return self.triage_of()

    @locked
    def triage_of(self, eligible: ArrayLike | Iterable[Any] | None = None) -> Triage:
        """Return the triage of eligible arms, by default of all that are not retired.

        Policies that keep no intervals have them computed, with a `delta` of 0.05.

        Examples
        --------
        >>> from armtriage import ThompsonSampling
        >>> policy = ThompsonSampling(3, budget=1, names=["tea", "milk", "jam"])
        >>> policy.triage_of(["jam"]).confirmed
        array(['jam'], dtype=object)
        """
        if isinstance(self._rivals, Sets):
            found: Triage = self.certificate(eligible=eligible).triage
            return found
        among = self._eligible(eligible)
        lower, upper = self._ends(among)
        sorted_ = triage_among(lower, upper, self._roster.live if among is None else among, self.budget)
        return Triage(*(self._roster.named(arms) for arms in sorted_))

    def _ends(self, among: Ints | None) -> Bounds:
        """Return the bounds that arms are sorted by; one end for each arm is enough if all are, now and before."""
        fixed = among is None and self._exposures is None and not self._roster.retired
        if not fixed:
            return self._bounds()
        return within_old(self._rivals.ends_of(self.tally, 0.05 * self._live), self._old_bounds(0.05))

    def _bounds(self, delta: float = 0.05) -> Bounds:
        """Return bounds on the means of all arms, on the unit scale."""
        shares = self._roster.n_arms if self._exposures is None else self._divisors
        return within_old(intervals_of(self.tally, shares, self._live * delta), self._old_bounds(delta))

    @property
    def _live(self) -> float:
        """The share of delta of the intervals of live rewards."""
        return 1.0

    def _old_bounds(self, delta: float) -> Bounds | None:
        """Return what an old log says of all means, with the rest of delta; None without one."""
        return None

    def _live_bounds(self, delta: float) -> Bounds:
        """Return intervals of live rewards alone."""
        return intervals_of(self.tally, self._divisors, self._live * delta)

    def _off_old(self, old: Bounds, delta: float) -> int:
        """Return how many arms have live intervals outside of those of an old log."""
        lower, upper = self._live_bounds(delta)
        return int(((lower > old.upper) | (upper < old.lower)).sum())

    def _about_old(self) -> dict[str, Any]:
        """Return what a certificate says of an old log."""
        return {}

    @property
    def _divisors(self) -> Floats:
        """What delta is divided by for each arm, once arms have come or requests have differed."""
        return self._roster.divisors()

    def _forgotten(self) -> dict[str, NDArray[Any]]:
        """Return what was known of arms that have begun again, column by column."""
        return {}

    @property
    @locked
    def above_cap(self) -> AboveCap:
        """How many rewards were above the `cap`, by how much in all, and which share of all that was told that is.

        Examples
        --------
        >>> from armtriage import ThompsonSampling
        >>> shop = ThompsonSampling(2, budget=1, names=["tea", "wine"], cap=100.0, seed=7)
        >>> for euros in (20.0, 0.0, 480.0):
        ...     shop.tell(basket := shop.ask(), {basket.names[0]: euros})
        >>> shop.above_cap
        AboveCap(rewards=1, excess=380.0, share=0.76)
        """
        rewards, excess, _ = self._above
        (low, high), counts, sums = self.reward_range, float(self.tally.counts.sum()), float(self.tally.sums.sum())
        told = sums if self.direction == "maximize" else counts - sums
        total = low * counts + (high - low) * told + excess
        return AboveCap(rewards, excess, excess / total if total > 0.0 else 0.0)

    @locked
    def start_window(self) -> int:
        """Begin a window with a certificate of its own, and return the number of its first decision, the next one.

        ``certificate(since=number)`` then is that of the decisions from there on, by their own rewards alone: also
        after the whole run's has withdrawn. Given all that came before, it fails with probability at most `delta`;
        so n windows fail with probability at most n `delta`. It knows sums only, and notices no drift inside the
        window. The last window is kept, until an arm is forgotten; start it before you know what it will show.

        Examples
        --------
        >>> from armtriage import ThompsonSampling
        >>> policy = ThompsonSampling(3, budget=1, seed=7)
        >>> policy.tell(policy.ask(), [1])
        >>> policy.certificate(since=policy.start_window()).rounds
        0
        """
        now, exposures = self.tally, self._exposures
        self._since, self._before = self._asked, now.each(lambda _, one: one.copy())
        self._exposed_before = np.full(now.pulls.size, self._asked) if exposures is None else exposures.copy()
        return self._since

    @locked
    def certificate(
        self,
        *,
        eligible: ArrayLike | Iterable[Any] | None = None,
        delta: float = 0.05,
        next_decision: ArrayLike | None = None,
        since: int = 0,
        independent: bool = False,
    ) -> Certificate:
        """Return what the decisions so far, and one to come, can have lost; see `armtriage.certify`.

        Decisions that are still open count as made. When a reward is told, and whether, must not depend on its value.
        With `since`, the number that `start_window` returned, only the decisions from there on count. The decision to
        come is one among the `eligible` arms, as in `ask`. With `independent`, the arms of a round are taken to be
        independent, which is for slates among all arms only.

        Examples
        --------
        >>> from armtriage import ThompsonSampling
        >>> policy = ThompsonSampling(3, budget=1, seed=7)
        >>> for _ in range(1000):
        ...     decision = policy.ask()
        ...     policy.tell(decision, decision.arms == 2)
        >>> policy.certificate().next_bound
        0.0
        """
        return self._certified(
            eligible=eligible,
            delta=delta,
            next_decision=next_decision,
            since=since,
            independent=independent,
            contradictions=0 if since else self.interval_failures,
        )

    def glance(self) -> Certificate:
        """Return the certificate of all decisions, and change nothing.

        A guard keeps a contradiction that `certificate` is the first to find, so that it does not vanish again. Where a
        state must depend on decisions and rewards alone, and not on who looked when, look with this.

        Examples
        --------
        >>> from armtriage import GuardedThompson
        >>> policy = GuardedThompson(3, budget=1, seed=7)
        >>> policy.glance().rounds
        0
        """
        return self.certificate()

    def _certified(
        self,
        *,
        eligible: Any,
        delta: float,
        next_decision: Any,
        since: int = 0,
        independent: bool = False,
        bounds: Bounds | None = None,
        contradictions: int = 0,
        account: Account | None = None,
        **kept: float | None,
    ) -> Certificate:
        """Return the certificate of the tally, or of a window of it; `kept` are bounds on what was lost, by name."""
        among, roster, tally = self._eligible(eligible), self._roster, self.tally
        if among is None and eligible is not None:
            among = roster.live
        if since:
            if since != self._since or self._before is None:
                raise ValueError(f"since must be 0 or {self._since}, where the last window starts, got {since!r}")
            then = self._before.columns
            tally = tally.each(lambda name, now: _without(now, then[name]))
        exposures, divisors = self._exposures, None
        if exposures is not None:
            divisors = self._divisors
            if since:
                exposures = _without(exposures, self._exposed_before)
            else:
                # What forgotten arms were counts on: their pulls were part of what was lost.
                old = self._forgotten()
                tally = tally.each(lambda name, one: np.append(one, old[name]))
                exposures, divisors = np.append(exposures, old["exposures"]), np.append(divisors, old["divisors"])
                if bounds is not None:
                    bounds = Bounds(np.append(bounds.lower, old["lower"]), np.append(bounds.upper, old["upper"]))
        if next_decision is not None:
            next_decision = roster.numbers(next_decision, "next_decision")
        rivals = self._rivals
        if independent:
            others = among is not None or exposures is not None or roster.retired
            if others or not isinstance(rivals, Slates):
                raise ValueError("independent must be False unless decisions are slates among all arms, got True")
            rivals = Slates(rivals.size, independent)
        contradictions += self._unheeded(since)
        windowed, since = since > 0, since or self._began
        trusted = None if windowed else self._old_bounds(delta)
        if trusted is not None and not contradictions:
            contradictions = self._off_old(trusted, delta)
        log = Log(
            rivals,
            tally,
            self._asked - since,
            delta,
            self.reward_range,
            self.direction,
            bounds,
            exposures if isinstance(rivals, Slates) else None,
            divisors=divisors,
            later=roster.extra > 0,
            arms=None if self._exposures is None and not roster.retired else roster.live,
            eligible=among,
            next_decision=next_decision,
            silent=self._silent,
            kept=kept,
            live=self._live if not windowed else 1.0,
            old=trusted,
        )
        found = log.certificate(contradictions=contradictions, account=account, since=since, names=roster.names)
        said = {} if windowed else self._about_old()
        if self.cap is not None:
            said |= {"cap": self.cap, "above": self.above_cap.share}
        return replace(found, assumptions=found.assumptions._replace(**said)) if said else found

    @property
    def _rivals(self) -> Slates | Sets:
        """What decisions are compared with."""
        if self.decisions is None or isinstance(self.decisions, TopS):
            return Slates(self.budget)
        return Sets(self.decisions, self.reward_range, self.direction)


def _without(now: NDArray[Any], then: NDArray[Any]) -> NDArray[Any]:
    """Return what has come since; arms that were added in between had nothing before."""
    rest = now.copy()
    rest[: then.size] -= then
    return rest
