"""Certificate: what the decisions so far, and one to come, can have lost, from pulls and rewards alone.

Which rule made the decisions does not matter, if it saw nothing that moves the rewards of the round.
"""

from __future__ import annotations

import math
from collections.abc import Sequence
from dataclasses import dataclass, fields, replace
from typing import Any, NamedTuple, TypeVar

import numpy as np
from numpy.typing import ArrayLike, NDArray

from armtriage._arguments import check_arms, check_probability
from armtriage._numbers import at_most
from armtriage.arms import Name
from armtriage.certificate.bounds import (
    Bounds,
    Tally,
    by_exposure,
    exchanges,
    gap_of,
    in_units,
    intervals_of,
    log_bound,
)
from armtriage.certificate.informative import Stake, caveat
from armtriage.triage import Triage, triage_among

__all__ = [
    "Account",
    "Certificate",
    "Exchange",
    "are",
    "certificate_of",
    "in_json",
    "listed",
    "name_all",
    "named",
    "withdrawn",
]

C = TypeVar("C", bound="Certificate")


class Exchange(NamedTuple):
    """An arm that may be better than one in the decision, and by how much at most."""

    outside: Name
    inside: Name
    amount: float


class Account(NamedTuple):
    """A guard's book: what its admitted decisions can have lost, what they may, and how often it had to step in.

    `revealing_pulls` counts arms that were proposed for what they show alone.
    """

    spent: float
    allowed: float
    forced_rounds: int
    factor: float
    revealing_pulls: int = 0


@dataclass(frozen=True, eq=False)
class Certificate:
    """What is known for certain, but for the stated confidence, about what was and will be lost.

    All statements hold together and at all times, so they may be read as often as one likes. They need rewards inside
    `reward_range`, a mean for each arm that is constant given all that whoever chose could see, and rewards that are
    told whatever their values. Where intervals contradict each other that is not so, and the certificate withdraws:
    bounds are infinite, so that no comparison with them succeeds, the gap may be anything, and every arm is open.

    Where arms have names, they are called by them. Arms that are retired count in what was lost, and nowhere else.

    Attributes
    ----------
    confidence : float
        Probability with which every certificate of the run holds.
    rounds, budget : int
        Decisions made so far, and arms in each.
    regret_bound : float
        Bound on what they lost in all, against always playing the best arms, or with `per_round` the best that were
        eligible in each round: the smallest of `retrospective`, `sum_of_certificates` and `by_pattern`.
    retrospective : float
        The bound by today's intervals.
    sum_of_certificates : float or None
        The bound by what was known at each decision, if the policy kept it.
    next_decision : ndarray
        A decision to come: by default the arms of largest mean so far, of those that are eligible.
    next_bound : float
        Bound on what playing it loses in a round; 0 says that it is a best one.
    exchanges : tuple of Exchange
        The pairs of arms that keep `next_bound` open; their amounts sum to it.
    triage : Triage
        Arms that certainly belong to the best, are open, and certainly do not.
    gap : tuple of float
        Bounds on the distance between the last of the best arms and the first of the others.
    contradictions : int
        Intervals that excluded their own past: if not 0, means are not constant, and the certificate is withdrawn.
    least_observed : int
        Observations of the arm that has fewest.
    account : Account or None
        The guard's book, for policies inside one.
    since : int
        The number of the first decision that counts; see `armtriage.Policy.start_window`.
    silent : tuple
        Arms whose last eight rewards or more did not come: they are hardly tried any more, and may stay open for ever.
    direction : str
        ``"minimize"`` if what is told are costs: all bounds are then on what was paid too much.
    per_round : bool
        Whether each round is compared with the best of the arms that were eligible in it.
    by_pattern : float or None
        The bound by today's intervals for each eligible set by itself, if the policy kept it.
    estimate : float or None
        What they seem to have lost in all, were each mean what it is so far: no bound, and nothing is promised of it.
    intervals : Bounds or None
        Lower and upper bounds on the mean of each arm, in the units of rewards: those that all of this is read from.
    informative : bool
        False while `regret_bound` is no smaller than what doing nothing would have lost: all that was earned, or what
        the best decision certainly would have earned; with costs, all that was paid above the least that is possible.
    needed : int or None
        About how many more decisions make it informative: 0 if it is, None if that cannot be foreseen.
    earned : float
        What the decisions seem to have earned in all, or with costs to have paid, by the means so far.

    Examples
    --------
    >>> from armtriage import certify
    >>> print(certify(pulls=[900, 80, 20], counts=[900, 80, 20], sums=[720.0, 24.0, 3.0], budget=1))
    With 95% confidence, the 1,000 decisions so far have lost at most 73.4 in all, 0.0734 each, against always playing
    the best arm. Playing arm 0 next is a best decision. The best arm is known for certain. All this takes an arm's mean
    to be constant, whatever was known when it was chosen, and rewards to be told whatever they are.
    """

    confidence: float
    rounds: int
    budget: int
    regret_bound: float
    retrospective: float
    sum_of_certificates: float | None
    next_decision: NDArray[Any]
    next_bound: float
    exchanges: tuple[Exchange, ...]
    triage: Triage
    gap: tuple[float, float]
    contradictions: int
    least_observed: int
    account: Account | None = None
    since: int = 0
    silent: tuple[Name, ...] = ()
    direction: str = "maximize"
    per_round: bool = False
    by_pattern: float | None = None
    estimate: float | None = None
    intervals: Bounds | None = None
    informative: bool = False
    needed: int | None = None
    earned: float = 0.0

    def __str__(self) -> str:
        if self.contradictions:
            times = "once" if self.contradictions == 1 else f"{self.contradictions:,} times"
            return (
                f"Nothing can be certified: new intervals contradicted earlier ones, {times}, so an arm's mean has "
                f"changed, or {self._told} are not what they are taken for. Decisions to come can be: see start_window."
            )
        assumed = (
            f"All this takes an arm's mean to be constant, whatever was known when it was chosen, and {self._told} to "
            "be told whatever they are."
        )
        empty = [] if self.informative or not self.rounds else [self._of_nothing()]
        return " ".join([self._of_past(), *empty, self._of_next(), self._of_arms(), *self._of_silent(), assumed])

    @property
    def _costs(self) -> bool:
        return self.direction == "minimize"

    @property
    def _told(self) -> str:
        return "costs" if self._costs else "rewards"

    def _best(self, which: str = "") -> str:
        best = f"the {'cheapest' if self._costs else 'best'}{which}"
        return f"{best} arm" if self.budget == 1 else f"{best} {self.budget:,} arms"

    def _of_past(self) -> str:
        sure = f"With {100 * self.confidence:.10g}% confidence"
        if not self.rounds:
            nothing = "cost too much" if self._costs else "lost anything"
            return f"{sure}: no decision has been made yet, so none has {nothing}."
        when = f"since number {self.since:,}" if self.since else "so far"
        made = "the first decision has" if self.rounds == 1 else f"the {self.rounds:,} decisions {when} have"
        most, each = at_most(self.regret_bound), at_most(self.regret_bound / self.rounds)
        best = f"{self._best(' eligible')} of every round" if self.per_round else f"always playing {self._best()}"
        if self._costs:
            return f"{sure}, {made} cost at most {most} more in all, {each} each, than {best}."
        return f"{sure}, {made} lost at most {most} in all, {each} each, against {best}."

    def _of_nothing(self) -> str:
        return caveat(self.regret_bound, self.earned, self.needed, self._told)

    def _of_silent(self) -> list[str]:
        if not self.silent:
            return []
        its = "its" if len(self.silent) == 1 else "their"
        arms = listed(list(self.silent))
        return [f"Nothing has been heard of {arms} for some time: {its} last {self._told} did not come."]

    def _of_next(self) -> str:
        if not self.next_decision.size:
            return "No arm may be played next."
        arms = listed(self.next_decision.tolist())
        if self.next_bound == 0.0:
            return f"Playing {arms} next is a {'cheapest' if self._costs else 'best'} decision."
        widest = max(self.exchanges, key=lambda one: one.amount)
        most = at_most(self.next_bound)
        loses = f"costs at most {most} more than need be" if self._costs else f"loses at most {most}"
        return (
            f"Playing {arms} next {loses}, mostly because arm {widest.outside!r} may still be "
            f"{'cheaper' if self._costs else 'better'} than arm {widest.inside!r}, by up to {at_most(widest.amount)}."
        )

    def _of_arms(self) -> str:
        confirmed, active, eliminated = (arms.size for arms in self.triage)
        best = self._best()
        if confirmed + active < self.budget:
            return "All arms that may be played fit into one decision."
        if confirmed + active == self.budget:
            return f"{best[0].upper()}{best[1:]} {'is' if self.budget == 1 else 'are'} known for certain."
        arms = f"Of the {confirmed + active + eliminated:,} arms, "
        if self.budget == 1:
            one = best.removesuffix(" arm")
            return f"{arms}{are(eliminated)} certain not to be {one}, and {are(active)} still open."
        return (
            f"{arms}{are(confirmed)} certain to be among {best}, {are(eliminated)} certain not to be, and "
            f"{are(active)} still open."
        )

    def to_dict(self) -> dict[str, Any]:
        """Return the attributes as JSON knows them, with the sentences of `print` under ``"text"``.

        What is not finite is None: JSON has no word for it. The intervals of the arms are left out.

        Examples
        --------
        >>> from armtriage import certify
        >>> log = certify(pulls=[60, 40], counts=[60, 40], sums=[30.0, 10.0], budget=1).to_dict()
        >>> log["rounds"], log["next_decision"], sorted(log["triage"])
        (100, [0], ['active', 'confirmed', 'eliminated'])
        """
        names = [one.name for one in fields(self) if one.name != "intervals"]
        return {**{name: in_json(getattr(self, name)) for name in names}, "text": str(self)}


def in_json(value: Any) -> Any:
    """Return a value as JSON knows it."""
    if isinstance(value, np.ndarray | np.generic):
        value = value.tolist()
    if isinstance(value, tuple) and hasattr(value, "_asdict"):
        return {name: in_json(one) for name, one in value._asdict().items()}
    if isinstance(value, tuple | list):
        return [in_json(one) for one in value]
    return None if isinstance(value, float) and not math.isfinite(value) else value


def are(number: int) -> str:
    """Return a number with the verb that follows it."""
    return "none is" if number == 0 else f"{number:,} {'is' if number == 1 else 'are'}"


def listed(arms: list[Name], most: int = 10) -> str:
    """Return arms as a sentence names them."""
    if len(arms) == 1:
        return f"arm {arms[0]!r}"
    if len(arms) > most:
        return f"arms {', '.join(map(repr, arms[:most]))} and {len(arms) - most:,} more"
    return f"arms {', '.join(map(repr, arms[:-1]))} and {arms[-1]!r}"


def certificate_of(
    tally: Tally,
    rounds: int,
    budget: int,
    *,
    delta: float,
    reward_range: tuple[float, float],
    next_decision: ArrayLike | None = None,
    bounds: Bounds | None = None,
    sum_of_certificates: float | None = None,
    by_pattern: float | None = None,
    contradictions: int = 0,
    account: Account | None = None,
    since: int = 0,
    silent: tuple[int, ...] = (),
    exposures: NDArray[np.int64] | None = None,
    slots: int | None = None,
    divisors: NDArray[np.float64] | None = None,
    later: bool = False,
    arms: NDArray[np.int64] | None = None,
    eligible: NDArray[np.int64] | None = None,
    names: Sequence[Name] | None = None,
    direction: str = "maximize",
) -> Certificate:
    """Return the certificate of a tally, with sums and `bounds`, if a policy has better ones, on the unit scale.

    All is computed there and mapped once: a range far from 0 would swallow its own width. There more is always better:
    with direction ``"minimize"`` it is the distance from the largest cost.

    The tally has a row for each arm that ever was, and one for what each forgotten arm was before. With `exposures`,
    rounds are compared with the best that was eligible, `slots` arms in all, by default as many as were pulled.
    `divisors` are 1 / share of delta of each row, and with `later` some have a share of a second delta. `arms` are
    those that are not retired, and `eligible` those of the next decision, both ascending; by default all.
    """
    width = reward_range[1] - reward_range[0]
    delta = check_probability("delta", delta)
    unit = np.clip(tally.sums, 0.0, tally.counts)
    shares = tally.counts.size if divisors is None else divisors
    if bounds is None:
        bounds = intervals_of(tally, shares, delta)
    live = np.arange(tally.counts.size) if arms is None else arms
    open_to = live if eligible is None else eligible
    means = np.where(tally.counts > 0, unit / np.maximum(tally.counts, 1), 0.0)
    if next_decision is None:
        chosen = np.sort(open_to[np.argsort(-means[open_to], kind="stable")[:budget]])
    else:
        chosen = np.sort(check_arms(next_decision, tally.counts.size, "next_decision"))
        size = min(budget, open_to.size)
        if chosen.size != size or np.any(np.diff(chosen) == 0):
            raise ValueError(f"next_decision must be {size} different arms, got {next_decision!r}")
        if not np.isin(chosen, open_to).all():
            raise ValueError(f"next_decision must be arms that may be played, got {next_decision!r}")
    outside, inside, amounts = exchanges(chosen, open_to, bounds)
    pulled = int(tally.pulls.sum())
    slots = budget * rounds if exposures is None else pulled if slots is None else slots
    places = slots

    def lost(pulls: NDArray[Any], times: float, by: Bounds) -> float:
        if exposures is None:
            return log_bound(pulls, times * rounds, budget, by)
        return by_exposure(by, pulls, times * exposures, times * places)

    past, seeming = (lost(tally.pulls, 1, one) for one in (bounds, Bounds(means, means)))
    past *= width
    if unplayed := slots - pulled:
        past += unplayed * (-reward_range[1] if direction == "minimize" else reward_range[0])
    past, gap = max(past, 0.0), gap_of(bounds, live, budget)
    most = min(one for one in (past, sum_of_certificates, by_pattern) if one is not None)
    stake = Stake(lost, rounds, slots, reward_range, direction)
    worth = stake.worth(tally, bounds)
    informative = most < worth.at_stake
    certificate = Certificate(
        confidence=max(1.0 - 2.0 * delta, 0.0) if later else 1.0 - delta,
        rounds=rounds,
        budget=budget,
        regret_bound=most,
        retrospective=past,
        sum_of_certificates=sum_of_certificates,
        next_decision=chosen,
        next_bound=float(sum((width * amounts).tolist())),
        exchanges=tuple(map(Exchange, outside.tolist(), inside.tolist(), (width * amounts).tolist())),
        triage=triage_among(*bounds, live, budget),
        gap=(width * gap[0], width * gap[1]),
        contradictions=contradictions,
        least_observed=int(tally.counts[live].min(initial=tally.counts.max())),
        account=account,
        since=since,
        silent=tuple(np.intersect1d(silent, live).tolist()) if silent else (),
        direction=direction,
        per_round=exposures is not None,
        by_pattern=by_pattern,
        estimate=width * max(seeming, 0.0),
        intervals=in_units(bounds, reward_range, direction),
        informative=informative,
        needed=0 if informative else stake.needed(tally, bounds, delta, shares),
        earned=worth.earned,
    )
    if contradictions:
        certificate = withdrawn(certificate)
    return certificate if names is None else named(certificate, names)


def withdrawn(certificate: C) -> C:
    """Return the certificate without what it can no longer promise."""
    none = np.empty(0, np.int64)
    return replace(
        certificate,
        regret_bound=np.inf,
        retrospective=np.inf,
        sum_of_certificates=None if certificate.sum_of_certificates is None else np.inf,
        by_pattern=None if certificate.by_pattern is None else np.inf,
        next_bound=np.inf,
        exchanges=(),
        triage=Triage(none, np.sort(np.concatenate(certificate.triage)), none),
        gap=(0.0, np.inf),
        informative=False,
        needed=None,
        account=None if certificate.account is None else certificate.account._replace(spent=np.inf),
    )


def name_all(arms: NDArray[np.int64], names: Sequence[Name]) -> NDArray[Any]:
    """Return the names of arms."""
    found = np.empty(arms.size, object)
    for place, arm in enumerate(arms.tolist()):
        found[place] = names[arm]
    return found


def named(certificate: C, names: Sequence[Name]) -> C:
    """Return the certificate with the names of arms instead of their numbers, which are what it has."""
    called: Any = names
    return replace(
        certificate,
        next_decision=name_all(certificate.next_decision, names),
        exchanges=tuple(Exchange(called[a], called[b], amount) for a, b, amount in certificate.exchanges),
        triage=Triage(*(name_all(arms, names) for arms in certificate.triage)),
        silent=tuple(called[arm] for arm in certificate.silent),
    )
