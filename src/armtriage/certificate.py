"""Certificate: what the decisions so far, and one to come, can have lost, from pulls and rewards alone.

With every mean inside its interval, no decision beats V by more than the largest sum of upper bounds outside V minus
lower bounds inside it that an exchange of arms can reach. The same exchange, weighted by how often each arm was
pulled, bounds the loss of a whole log, and today's intervals price yesterday's decisions. Which rule made the
decisions does not matter, if it saw nothing that moves the rewards of the round.
"""

from __future__ import annotations

import math
from collections.abc import Sequence
from dataclasses import dataclass, fields, replace
from typing import Any, NamedTuple, TypeVar

import numpy as np
from numpy.typing import ArrayLike, NDArray

from armtriage._arguments import (
    DIRECTIONS,
    LONGEST,
    as_numbers,
    check_arms,
    check_choice,
    check_count,
    check_per_arm,
    check_probability,
    check_range,
)
from armtriage._numbers import at_most
from armtriage.arms import Name, Roster
from armtriage.decisions import DecisionSet
from armtriage.intervals import confidence_interval
from armtriage.triage import Triage, triage_among

__all__ = [
    "Account",
    "Bounds",
    "Certificate",
    "Exchange",
    "Tally",
    "Watch",
    "by_exposure",
    "cert_among",
    "certificate_of",
    "certify",
    "in_json",
    "in_units",
    "intervals_of",
    "listed",
    "narrowed",
]

C = TypeVar("C", bound="Certificate")


class Tally(NamedTuple):
    """How often each arm was pulled and observed, the sum of its rewards r, and that of r (1 - r) on the unit scale.

    The latter is 0 for rewards of 0 and 1. Where it is not known 0 is valid, and certificates are wider.
    """

    pulls: NDArray[np.int64]
    counts: NDArray[np.int64]
    sums: NDArray[np.float64]
    between: NDArray[np.float64]


class Bounds(NamedTuple):
    """Lower and upper bounds on the mean of each arm, all of which hold together."""

    lower: NDArray[np.float64]
    upper: NDArray[np.float64]


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

    Examples
    --------
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
        return " ".join([self._of_past(), self._of_next(), self._of_arms(), *self._of_silent(), assumed])

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
            return f"{arms}{_are(eliminated)} certain not to be {one}, and {_are(active)} still open."
        return (
            f"{arms}{_are(confirmed)} certain to be among {best}, {_are(eliminated)} certain not to be, and "
            f"{_are(active)} still open."
        )

    def to_dict(self) -> dict[str, Any]:
        """Return the attributes as JSON knows them, with the sentences of `print` under ``"text"``.

        What is not finite is None: JSON has no word for it. The intervals of the arms are left out.

        Examples
        --------
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


def _are(number: int) -> str:
    return "none is" if number == 0 else f"{number:,} {'is' if number == 1 else 'are'}"


def listed(arms: list[Name], most: int = 10) -> str:
    """Return arms as a sentence names them."""
    if len(arms) == 1:
        return f"arm {arms[0]!r}"
    if len(arms) > most:
        return f"arms {', '.join(map(repr, arms[:most]))} and {len(arms) - most:,} more"
    return f"arms {', '.join(map(repr, arms[:-1]))} and {arms[-1]!r}"


def certify(
    pulls: ArrayLike,
    counts: ArrayLike,
    sums: ArrayLike,
    *,
    budget: int | None = None,
    decisions: DecisionSet | None = None,
    squares: ArrayLike | None = None,
    delta: float = 0.05,
    reward_range: tuple[float, float] = (0.0, 1.0),
    rounds: int | None = None,
    next_decision: ArrayLike | None = None,
    exposures: ArrayLike | None = None,
    slots: int | None = None,
    names: Sequence[Name] | None = None,
    direction: str = "maximize",
) -> Certificate:
    """Certify the decisions of a log against always playing the best `budget` arms, or the best one of `decisions`.

    Where not all arms could be played in all rounds, `exposures` says how often each could, and every round is compared
    with the best `budget` of the arms that were eligible in it.

    It assumes that an arm's mean is constant given all that whoever chose could see: a recommender that personalises
    breaks it, and its log must be certified for each segment of visitors by itself. When a reward was recorded, and
    whether, must not depend on its value. See `docs/what-must-be-true.md`.

    Parameters
    ----------
    pulls : array_like of int
        How often each arm was in a decision.
    counts : array_like of int
        How many rewards of each arm were observed, whether it was pulled or revealed by another.
    sums : array_like of float
        Their sums.
    budget : int
        How many arms a decision has.
    decisions : DecisionSet
        Which decisions are allowed, instead of `budget`; the answer then is an `armtriage.DecisionCertificate`.
    squares : array_like of float, optional
        The sums of the squared rewards: the certificate is narrower then, the more the smaller their variance is. Where
        all rewards are ends of `reward_range` it is the same.
    delta : float
        The probability with which any certificate of this log, now or later, may fail.
    reward_range : tuple of float
        Smallest and largest possible reward, from -1e100 to 1e100 and no farther from 0 than a million widths.
    rounds : int, optional
        Number of decisions; needed only if some had fewer than `budget` arms, or decisions may differ in size.
    next_decision : array_like, optional
        The arms of a decision to come, by default those of largest mean. By their names, if they have some.
    exposures : array_like of int, optional
        In how many rounds each arm was eligible, by default in all. Eligibility may depend on all that came before,
        and not on the rewards of the round.
    slots : int, optional
        With `exposures`, how many arms the decisions could have had in all: `budget` of each round, or as many as were
        eligible. Needed only if some had fewer, by default the sum of the pulls.
    names : sequence, optional
        The name of each arm: text, a whole number, or a tuple of such.
    direction : str
        ``"minimize"`` if `sums` are those of costs, ``"maximize"`` for rewards.

    Examples
    --------
    >>> log = certify(pulls=[60, 40], counts=[60, 40], sums=[30.0, 10.0], budget=1)
    >>> round(log.regret_bound, 1), log.next_decision
    (25.5, array([0]))
    >>> print(certify([60, 40], [60, 40], [30.0, 10.0], budget=1, exposures=[60, 100], names=["tea", "milk"]))
    With 95% confidence, the 100 decisions so far have lost at most 13.6 in all, 0.136 each, against the best eligible
    arm of every round. Playing arm 'tea' next loses at most 0.226, ...
    """
    n_arms = as_numbers("pulls", pulls).size
    given = check_per_arm("pulls", pulls, n_arms, whole=True)
    size = _check_size(budget, decisions, n_arms)
    observed = check_per_arm("counts", counts, n_arms, whole=True)
    _countable("pulls", given)
    totals = check_per_arm("sums", sums, n_arms)
    tally = Tally(given, observed, totals, np.zeros(n_arms))
    if decisions is not None and rounds is None and not decisions.same_size:
        raise ValueError("rounds must be given for decisions of different sizes, got None")
    made = _rounds(given, size, rounds)
    shown = None if exposures is None else _exposures(exposures, given, made)
    units = _slots(slots, given, shown, size * made)
    check_choice("direction", direction, DIRECTIONS)
    roster = Roster(n_arms, names)
    if names is not None and next_decision is not None:
        next_decision = roster.numbers(next_decision, "next_decision")
    low, high = check_range(reward_range)
    if max(-low, high) > 1e6 * (high - low):
        accepted = "reward_range must not lie 1e6 widths from 0, where sums are too coarse: take off the same number"
        raise ValueError(f"{accepted} from every reward, got {reward_range!r}")
    slack = 1e-9 * (1.0 + tally.counts) * max(abs(low), abs(high))
    short, long = tally.sums < low * tally.counts - slack, tally.sums > high * tally.counts + slack
    for arm in np.flatnonzero(short | long)[:1]:
        most = f"[{low * tally.counts[arm]:g}, {high * tally.counts[arm]:g}]"
        raise ValueError(
            f"sums must lie in {most} for the {tally.counts[arm]} rewards of arm {arm}, got {tally.sums[arm]!r}"
        )
    gained = high * tally.counts - tally.sums if direction == "minimize" else tally.sums - low * tally.counts
    unit = tally._replace(sums=gained / (high - low))
    if squares is not None:
        unit = unit._replace(between=_between(check_per_arm("squares", squares, n_arms), tally, unit.sums, low, high))
    if decisions is not None:
        from armtriage.decision_certificate import certificate_of_decisions

        return certificate_of_decisions(
            unit,
            made,
            decisions,
            delta=delta,
            reward_range=(low, high),
            next_decision=next_decision,
            names=roster.names,
            direction=direction,
        )
    return certificate_of(
        unit,
        made,
        size,
        delta=delta,
        reward_range=(low, high),
        next_decision=next_decision,
        exposures=shown,
        slots=units,
        names=roster.names,
        direction=direction,
    )


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
    if bounds is None:
        shares = tally.counts.size if divisors is None else divisors
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
    outside, inside, amounts = _exchanges(chosen, open_to, bounds)
    pulled = int(tally.pulls.sum())
    exact = Bounds(means, means)
    if exposures is None:
        slots = budget * rounds
        past, seeming = (log_bound(tally.pulls, rounds, budget, one) for one in (bounds, exact))
    else:
        slots = pulled if slots is None else slots
        past, seeming = (by_exposure(one, tally.pulls, exposures, slots) for one in (bounds, exact))
    past *= width
    if unplayed := slots - pulled:
        past += unplayed * (-reward_range[1] if direction == "minimize" else reward_range[0])
    past, gap = max(past, 0.0), _gap(bounds, live, budget)
    certificate = Certificate(
        confidence=max(1.0 - 2.0 * delta, 0.0) if later else 1.0 - delta,
        rounds=rounds,
        budget=budget,
        regret_bound=min(one for one in (past, sum_of_certificates, by_pattern) if one is not None),
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
    )
    if contradictions:
        certificate = _withdrawn(certificate)
    return certificate if names is None else _named(certificate, names)


def in_units(bounds: Bounds, reward_range: tuple[float, float], direction: str) -> Bounds:
    """Return bounds on the unit scale in the units of rewards, or of costs.

    Examples
    --------
    >>> in_units(Bounds(np.array([0.25]), np.array([0.5])), (0.0, 4.0), "minimize")
    Bounds(lower=array([2.]), upper=array([3.]))
    """
    low, high = reward_range
    if direction == "minimize":
        return Bounds(high - (high - low) * bounds.upper, high - (high - low) * bounds.lower)
    return Bounds(low + (high - low) * bounds.lower, low + (high - low) * bounds.upper)


def _withdrawn(certificate: C) -> C:
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
        account=None if certificate.account is None else certificate.account._replace(spent=np.inf),
    )


def name_all(arms: NDArray[np.int64], names: Sequence[Name]) -> NDArray[Any]:
    """Return the names of arms."""
    found = np.empty(arms.size, object)
    for place, arm in enumerate(arms.tolist()):
        found[place] = names[arm]
    return found


def _named(certificate: C, names: Sequence[Name]) -> C:
    """Return the certificate with the names of arms instead of their numbers, which are what it has."""
    called: Any = names
    return replace(
        certificate,
        next_decision=name_all(certificate.next_decision, names),
        exchanges=tuple(Exchange(called[a], called[b], amount) for a, b, amount in certificate.exchanges),
        triage=Triage(*(name_all(arms, names) for arms in certificate.triage)),
        silent=tuple(called[arm] for arm in certificate.silent),
    )


# The guard has kernels for the next two sums (policies/guard/account), above this module in the layers: they look only
# at the arms that its sets leave open, every round. Here any tally is read once, and a line of NumPy is clearer.
def _exchanges(
    arms: NDArray[np.int64], eligible: NDArray[np.int64], bounds: Bounds
) -> tuple[NDArray[np.int64], NDArray[np.int64], NDArray[np.float64]]:
    """Return who enters V, who leaves it, and the gain: the largest upper bound outside for the least lower inside."""
    outside = np.setdiff1d(eligible, arms, assume_unique=True)
    size = min(outside.size, arms.size)
    if outside.size > size > 0:
        outside = outside[np.argpartition(-bounds.upper[outside], size - 1)[:size]]
    outside = outside[np.argsort(-bounds.upper[outside], kind="stable")]
    inside = arms[np.argsort(bounds.lower[arms], kind="stable")][:size]
    gains = bounds.upper[outside] - bounds.lower[inside]
    pays = gains > 0.0
    return outside[pays], inside[pays], gains[pays]


def cert_among(
    lower: NDArray[np.float64], upper: NDArray[np.float64], arms: NDArray[np.int64], eligible: NDArray[np.int64]
) -> float:
    """Return what a decision among eligible arms can lose at most against the best of its size among them.

    Examples
    --------
    >>> lower, upper = np.array([0.4, 0.3, 0.2]), np.array([0.6, 0.7, 0.5])
    >>> round(cert_among(lower, upper, np.array([0]), np.array([0, 2])), 3)
    0.1
    """
    return float(_exchanges(arms, eligible, Bounds(lower, upper))[2].sum())


def log_bound(pulls: NDArray[np.int64], rounds: int, budget: int, bounds: Bounds) -> float:
    """Return the largest sum over V' of (R - m) U inside and -m L outside: the retrospective certificate."""
    kept = pulls * bounds.lower
    gains = (rounds - pulls) * bounds.upper + kept
    best = np.partition(gains, gains.size - budget)[gains.size - budget :]
    return float(best.sum() - kept.sum())


def by_exposure(bounds: Bounds, pulls: NDArray[np.int64], exposures: NDArray[np.int64], slots: int) -> float:
    """Return what decisions among eligible arms have lost at most: the best use of `slots` places, by today's bounds.

    An arm that was to be played x times gains at most the share x / e of what it gains if it is played in all the
    rounds in which it was eligible: the gain is convex in x. So the largest gains per round are taken, whole but for
    the last.

    Examples
    --------
    >>> bounds = Bounds(np.array([0.4, 0.3]), np.array([0.6, 0.7]))
    >>> by_exposure(bounds, np.array([5, 5]), np.array([10, 5]), slots=10)  # in five rounds there was a choice
    1.5
    """
    shown = np.flatnonzero(exposures)
    most, kept = ((exposures - pulls) * bounds.upper)[shown], (pulls * bounds.lower)[shown]
    order = np.argsort(-(most + kept) / exposures[shown], kind="stable")
    units = exposures[shown[order]]
    before = np.cumsum(units) - units
    # Gains of what is taken less what is left of the others: sums of all gains would cancel, and lose digits.
    taken = np.clip((slots - before) / units, 0.0, 1.0)
    return max(float(taken @ most[order] - (1.0 - taken) @ kept[order]), 0.0)


class Watch:
    """Bounds on the loss of a run as it goes on, with the intersection of each arm's intervals so far."""

    def __init__(self, n_arms: int, budget: int, delta: float, divisors: NDArray[np.float64] | None = None) -> None:
        self.budget, self.delta, self.divisors = budget, delta, divisors
        self.bounds = Bounds(np.zeros(n_arms), np.ones(n_arms))

    def bound(
        self, tally: Tally, rounds: int, exposures: NDArray[np.int64] | None = None, slots: int | None = None
    ) -> float:
        """Return what `rounds` decisions have lost at most, on the unit scale of the rewards.

        With `exposures`, against the best arms that were eligible in each round, `slots` in all.
        """
        self.bounds = narrowed(self.bounds, tally, self.delta, self.divisors)[0]
        if exposures is not None:
            return by_exposure(self.bounds, tally.pulls, exposures, int(tally.pulls.sum()) if slots is None else slots)
        return max(log_bound(tally.pulls, rounds, self.budget, self.bounds), 0.0)


def intervals_of(tally: Tally, divisors: int | NDArray[np.float64], delta: float) -> Bounds:
    """Return the intervals of a tally on the unit scale; `divisors` are 1 / share of `delta` of each arm."""
    sums = np.clip(tally.sums, 0.0, tally.counts)
    most = sums * (tally.counts - sums) / np.maximum(tally.counts, 1)
    squares = sums - np.clip(tally.between, 0.0, most)
    return Bounds(*confidence_interval(tally.counts, sums, n_arms=divisors, delta=delta, squares=squares))


def narrowed(
    bounds: Bounds, tally: Tally, delta: float, divisors: NDArray[np.float64] | None = None
) -> tuple[Bounds, NDArray[np.bool_]]:
    """Return the bounds inside both the old ones and new intervals, and which arms have none: the new ones stand.

    `divisors` are 1 / share of `delta` of each arm, by default the number of arms.
    """
    lower, upper = intervals_of(tally, tally.counts.size if divisors is None else divisors, delta)
    both = np.maximum(lower, bounds.lower), np.minimum(upper, bounds.upper)
    kept = both[0] <= both[1]
    return Bounds(np.where(kept, both[0], lower), np.where(kept, both[1], upper)), ~kept


def _gap(bounds: Bounds, arms: NDArray[np.int64], budget: int) -> tuple[float, float]:
    """Return bounds on the distance between the S-th and the next best mean; infinite if there is no next."""
    if arms.size <= budget:
        return np.inf, np.inf
    lower, upper = np.sort(bounds.lower[arms])[::-1], np.sort(bounds.upper[arms])[::-1]
    return max(0.0, float(lower[budget - 1] - upper[budget])), max(0.0, float(upper[budget - 1] - lower[budget]))


def _check_size(budget: int | None, decisions: DecisionSet | None, n_arms: int) -> int:
    """Return how many arms a decision has, at most."""
    if (budget is None) == (decisions is None):
        raise ValueError(f"either budget or decisions must be given, got budget={budget!r} and decisions={decisions!r}")
    if budget is not None:
        return check_count("budget", budget, 1, n_arms)
    if not isinstance(decisions, DecisionSet):
        raise TypeError(f"decisions must be a DecisionSet, got {type(decisions).__name__}")
    if decisions.n_arms != n_arms:
        raise ValueError(f"decisions must have the {n_arms} arms of pulls, got {decisions.n_arms}")
    return decisions.size


def _rounds(pulls: NDArray[np.int64], budget: int, rounds: int | None) -> int:
    """Return how many decisions there were."""
    total = int(pulls.sum())
    if rounds is None:
        if total % budget or pulls.max() > total // budget:
            accepted = f"pulls must be those of whole decisions of {budget} different arms, unless rounds is given"
            raise ValueError(f"{accepted}, got {total} pulls, up to {pulls.max()} of an arm")
        return total // budget
    made = check_count("rounds", rounds)
    if total > budget * made or pulls.max() > made:
        most = f"{made} decisions of at most {budget} different arms"
        raise ValueError(
            f"rounds must allow for all pulls, got {total} pulls, up to {pulls.max()} of an arm, for {most}"
        )
    return made


def _countable(name: str, values: NDArray[np.int64]) -> None:
    """Refuse what has a sum that is no longer exact."""
    if values.sum(dtype=np.float64) >= LONGEST:
        raise ValueError(f"{name} must sum to less than {LONGEST}, got {values.sum(dtype=np.float64):g}")


def _between(
    squares: NDArray[np.float64], tally: Tally, unit: NDArray[np.float64], low: float, high: float
) -> NDArray[np.float64]:
    """Return the sums of r (1 - r) on the unit scale, from those of squares of rewards in their own units."""
    width, n = high - low, tally.counts
    between = (tally.sums * (low + high) - low * high * n - squares) / width**2
    slack = 1e-9 * (1.0 + n) * max(low * low, high * high, 1.0) / width**2
    most = np.clip(unit * (n - unit) / np.maximum(n, 1), 0.0, None)
    for arm in np.flatnonzero(~((between >= -slack) & (between <= most + slack)))[:1]:
        least = tally.sums[arm] ** 2 / max(n[arm], 1)
        ends = f"[{least:g}, {tally.sums[arm] * (low + high) - low * high * n[arm]:g}]"
        raise ValueError(f"squares must lie in {ends} for the sum of arm {arm}, got {squares[arm]!r}")
    return np.clip(between, 0.0, most)


def _exposures(exposures: ArrayLike, pulls: NDArray[np.int64], rounds: int) -> NDArray[np.int64]:
    """Return in how many rounds each arm was eligible."""
    found = check_per_arm("exposures", exposures, pulls.size, whole=True)
    _countable("exposures", found)
    for arm in np.flatnonzero((found < pulls) | (found > rounds))[:1]:
        most = f"from its {pulls[arm]} pulls to the {rounds} rounds"
        raise ValueError(f"exposures must be {most} for arm {arm}, got {found[arm]}")
    return found


def _slots(slots: int | None, pulls: NDArray[np.int64], exposures: NDArray[np.int64] | None, most: int) -> int | None:
    """Return how many places there were."""
    if slots is None:
        return None
    if exposures is None:
        raise ValueError(f"slots must be None without exposures, got {slots!r}")
    places, least = check_count("slots", slots), int(pulls.sum())
    most = min(most, int(exposures.sum()))
    if not least <= places <= most:
        raise ValueError(f"slots must be from the {least} pulls to {most}, got {slots!r}")
    return places
