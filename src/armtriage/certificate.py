"""Certificate: what the decisions so far, and one to come, can have lost, from pulls and rewards alone.

With every mean inside its interval, no decision beats V by more than the largest sum of upper bounds outside V minus
lower bounds inside it that an exchange of arms can reach. The same exchange, weighted by how often each arm was
pulled, bounds the loss of a whole log, and today's intervals price yesterday's decisions. Which rule made the
decisions does not matter, if it saw nothing that moves the rewards of the round.
"""

from __future__ import annotations

import math
from dataclasses import dataclass, fields, replace
from typing import Any, NamedTuple

import numpy as np
from numpy.typing import ArrayLike, NDArray

from armtriage._arguments import as_numbers, check_arms, check_count, check_per_arm, check_probability, check_range
from armtriage._numbers import at_most
from armtriage.intervals import confidence_interval
from armtriage.triage import Triage

__all__ = [
    "Account",
    "Bounds",
    "Certificate",
    "ContextualCertificate",
    "Exchange",
    "Tally",
    "Watch",
    "certificate_of",
    "certify",
    "narrowed",
]


class Tally(NamedTuple):
    """How often each arm was pulled and observed, and the sum of its rewards."""

    pulls: NDArray[np.int64]
    counts: NDArray[np.int64]
    sums: NDArray[np.float64]


class Bounds(NamedTuple):
    """Lower and upper bounds on the mean of each arm, all of which hold together."""

    lower: NDArray[np.float64]
    upper: NDArray[np.float64]


class Exchange(NamedTuple):
    """An arm that may be better than one in the decision, and by how much at most."""

    outside: int
    inside: int
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

    Attributes
    ----------
    confidence : float
        Probability with which every certificate of the run holds.
    rounds, budget : int
        Decisions made so far, and arms in each.
    regret_bound : float
        Bound on what they lost in all, against always playing the best arms: the smaller of the next two.
    retrospective : float
        The bound by today's intervals.
    sum_of_certificates : float or None
        The bound by what was known at each decision, if the policy kept it.
    next_decision : ndarray
        A decision to come: by default the arms of largest mean so far.
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
    silent : tuple of int
        Arms whose last eight rewards or more did not come: they are hardly tried any more, and may stay open for ever.

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
    next_decision: NDArray[np.int64]
    next_bound: float
    exchanges: tuple[Exchange, ...]
    triage: Triage
    gap: tuple[float, float]
    contradictions: int
    least_observed: int
    account: Account | None = None
    since: int = 0
    silent: tuple[int, ...] = ()

    def __str__(self) -> str:
        if self.contradictions:
            times = "once" if self.contradictions == 1 else f"{self.contradictions:,} times"
            return (
                f"Nothing can be certified: new intervals contradicted earlier ones, {times}, so an arm's mean has "
                "changed, or rewards are not what they are taken for. Decisions to come can be: see start_window."
            )
        best = "the best arm" if self.budget == 1 else f"the best {self.budget:,} arms"
        past = (
            f"With {100 * self.confidence:.10g}% confidence: no decision has been made yet, so none has lost anything."
        )
        if self.rounds:
            when = f"since number {self.since:,}" if self.since else "so far"
            made = "the first decision has" if self.rounds == 1 else f"the {self.rounds:,} decisions {when} have"
            past = (
                f"With {100 * self.confidence:.10g}% confidence, {made} lost at most {at_most(self.regret_bound)} in "
                f"all, {at_most(self.regret_bound / self.rounds)} each, against always playing {best}."
            )
        return " ".join(
            [
                past,
                _of_next(self.next_decision, self.next_bound, self.exchanges),
                self._of_arms(best),
                *self._of_silent(),
                _ASSUMED,
            ]
        )

    def _of_silent(self) -> list[str]:
        if not self.silent:
            return []
        its = "its" if len(self.silent) == 1 else "their"
        arms = _listed(list(self.silent))
        return [f"Nothing has been heard of {arms} for some time: {its} last rewards did not come."]

    def _of_arms(self, best: str) -> str:
        confirmed, active, eliminated = (arms.size for arms in self.triage)
        if confirmed + active == self.budget:
            return f"{best[0].upper()}{best[1:]} {'is' if self.budget == 1 else 'are'} known for certain."
        arms = f"Of the {confirmed + active + eliminated:,} arms, "
        if self.budget == 1:
            return f"{arms}{_are(eliminated)} certain not to be the best, and {_are(active)} still open."
        return (
            f"{arms}{_are(confirmed)} certain to be among {best}, {_are(eliminated)} certain not to be, and "
            f"{_are(active)} still open."
        )

    def to_dict(self) -> dict[str, Any]:
        """Return the attributes as JSON knows them, with the sentences of `print` under ``"text"``.

        What is not finite is None: JSON has no word for it.

        Examples
        --------
        >>> log = certify(pulls=[60, 40], counts=[60, 40], sums=[30.0, 10.0], budget=1).to_dict()
        >>> log["rounds"], log["next_decision"], sorted(log["triage"])
        (100, [0], ['active', 'confirmed', 'eliminated'])
        """
        return {**{one.name: _in_json(getattr(self, one.name)) for one in fields(self)}, "text": str(self)}


@dataclass(frozen=True, eq=False)
class ContextualCertificate:
    """What is known for certain, but for the stated confidence, where arms come with contexts.

    All statements hold together and at all times, so they may be read as often as one likes. Contexts may have been
    chosen in any way. Mean rewards must be linear in them, with a theta and a noise that are no larger than stated.
    Where the contexts of a round leave an arm no mean at all, that is not so, and the certificate withdraws.

    Attributes
    ----------
    confidence : float
        Probability with which every certificate of the run holds.
    rounds, budget : int
        Decisions made so far, and arms in each, at most.
    regret_bound : float
        Bound on what they lost in all, against the best arms of each round: the smaller of the next two.
    joint : float
        The bound by all rewards so far, with one theta for all rounds.
    sum_of_certificates : float
        The bound by what was known at each decision.
    next_decision : ndarray or None
        A decision for the contexts that were given, by default the arms of largest estimate.
    next_bound : float or None
        Bound on what playing it loses in that round; 0 says that it is a best one.
    exchanges : tuple of Exchange
        The pairs of arms that keep `next_bound` open; their amounts sum to it.
    noise_scale, norm_bound : float
        What is assumed: the scale of the noise, in units of a reward, and the norm of theta after scaling.
    contradictions : int
        Arms whose contexts left them no mean: if not 0, an assumption is wrong, and the certificate is withdrawn.
    account : Account
        The guard's book.

    Examples
    --------
    >>> from armtriage import GuardedLinear
    >>> policy = GuardedLinear(3, dimension=2, budget=1, seed=7)
    >>> print(policy.certificate())
    With 99% confidence: no decision has been made yet, so none has lost anything. All this takes mean rewards to be
    linear in the contexts, with a theta of norm at most 1 after scaling, noise of scale at most 1 that is independent
    over the arms of a round, and rewards to be told whatever they are.
    """

    confidence: float
    rounds: int
    budget: int
    regret_bound: float
    joint: float
    sum_of_certificates: float
    next_decision: NDArray[np.int64] | None
    next_bound: float | None
    exchanges: tuple[Exchange, ...]
    noise_scale: float
    norm_bound: float
    contradictions: int
    account: Account

    def __str__(self) -> str:
        if self.contradictions:
            times = "once" if self.contradictions == 1 else f"{self.contradictions:,} times"
            return (
                f"Nothing can be certified: the rewards so far left an arm no mean, {times}, so rewards are not linear "
                "in the contexts, or their noise or theta is larger than assumed."
            )
        confidence = f"With {100 * self.confidence:.10g}% confidence"
        past = f"{confidence}: no decision has been made yet, so none has lost anything."
        if self.rounds:
            made = "the first decision has" if self.rounds == 1 else f"the {self.rounds:,} decisions so far have"
            best = "the best arm" if self.budget == 1 else f"the best {self.budget:,} arms"
            past = (
                f"{confidence}, {made} lost at most {at_most(self.regret_bound)} in all, "
                f"{at_most(self.regret_bound / self.rounds)} each, against playing {best} of each round."
            )
        parts = [past]
        if self.next_decision is not None and self.next_bound is not None:
            parts.append(_of_next(self.next_decision, self.next_bound, self.exchanges, "next, with these contexts,"))
        assumed = (
            f"All this takes mean rewards to be linear in the contexts, with a theta of norm at most "
            f"{self.norm_bound:g} after scaling, noise of scale at most {self.noise_scale:g} that is independent over "
            "the arms of a round, and rewards to be told whatever they are."
        )
        return " ".join([*parts, assumed])

    def to_dict(self) -> dict[str, Any]:
        """Return the attributes as JSON knows them, with the sentences of `print` under ``"text"``."""
        return {**{one.name: _in_json(getattr(self, one.name)) for one in fields(self)}, "text": str(self)}


def _of_next(arms: NDArray[np.int64], bound: float, exchanges: tuple[Exchange, ...], when: str = "next") -> str:
    """Return the sentence on a decision to come."""
    names = _listed(arms.tolist())
    if bound == 0.0:
        return f"Playing {names} {when} is a best decision."
    widest = max(exchanges, key=lambda one: one.amount)
    return (
        f"Playing {names} {when} loses at most {at_most(bound)}, mostly because arm {widest.outside} may "
        f"still be better than arm {widest.inside}, by up to {at_most(widest.amount)}."
    )


def _in_json(value: Any) -> Any:
    if isinstance(value, np.ndarray | np.generic):
        value = value.tolist()
    if isinstance(value, tuple) and hasattr(value, "_asdict"):
        return {name: _in_json(one) for name, one in value._asdict().items()}
    if isinstance(value, tuple | list):
        return [_in_json(one) for one in value]
    return None if isinstance(value, float) and not math.isfinite(value) else value


_ASSUMED = (
    "All this takes an arm's mean to be constant, whatever was known when it was chosen, and rewards to be told "
    "whatever they are."
)


def _are(number: int) -> str:
    return "none is" if number == 0 else f"{number:,} {'is' if number == 1 else 'are'}"


def _listed(arms: list[int], most: int = 10) -> str:
    if len(arms) == 1:
        return f"arm {arms[0]}"
    if len(arms) > most:
        return f"arms {', '.join(map(str, arms[:most]))} and {len(arms) - most:,} more"
    return f"arms {', '.join(map(str, arms[:-1]))} and {arms[-1]}"


def certify(
    pulls: ArrayLike,
    counts: ArrayLike,
    sums: ArrayLike,
    *,
    budget: int,
    delta: float = 0.05,
    reward_range: tuple[float, float] = (0.0, 1.0),
    rounds: int | None = None,
    next_decision: ArrayLike | None = None,
) -> Certificate:
    """Certify the decisions of a log against always playing the best `budget` arms.

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
    delta : float
        The probability with which any certificate of this log, now or later, may fail.
    reward_range : tuple of float
        Smallest and largest possible reward, from -1e100 to 1e100 and no farther from 0 than a million widths.
    rounds : int, optional
        Number of decisions; needed only if some had fewer than `budget` arms.
    next_decision : array_like of int, optional
        The arms of a decision to come, by default those of largest mean.

    Examples
    --------
    >>> log = certify(pulls=[60, 40], counts=[60, 40], sums=[30.0, 10.0], budget=1)
    >>> round(log.regret_bound, 1), log.next_decision
    (25.5, array([0]))
    """
    n_arms = as_numbers("pulls", pulls).size
    given = check_per_arm("pulls", pulls, n_arms, whole=True)
    size = check_count("budget", budget, 1, n_arms)
    observed = check_per_arm("counts", counts, n_arms, whole=True)
    tally = Tally(given, observed, check_per_arm("sums", sums, n_arms))
    made = _rounds(given, size, rounds)
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
    unit = tally._replace(sums=(tally.sums - low * tally.counts) / (high - low))
    return certificate_of(unit, made, size, delta=delta, reward_range=(low, high), next_decision=next_decision)


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
    contradictions: int = 0,
    account: Account | None = None,
    since: int = 0,
    silent: tuple[int, ...] = (),
) -> Certificate:
    """Return the certificate of a tally, with sums and `bounds`, if a policy has better ones, on the unit scale.

    All is computed there and mapped once: a range far from 0 would swallow its own width.
    """
    low, width = reward_range[0], reward_range[1] - reward_range[0]
    delta = check_probability("delta", delta)
    n_arms = tally.counts.size
    unit = np.clip(tally.sums, 0.0, tally.counts)
    if bounds is None:
        bounds = Bounds(*confidence_interval(tally.counts, unit, n_arms=n_arms, delta=delta))
    if next_decision is None:
        means = np.where(tally.counts > 0, unit / np.maximum(tally.counts, 1), 0.0)
        arms = np.sort(np.argsort(-means, kind="stable")[:budget])
    else:
        arms = np.sort(check_arms(next_decision, n_arms, "next_decision"))
        if arms.size != budget or np.any(np.diff(arms) == 0):
            raise ValueError(f"next_decision must be {budget} different arms, got {next_decision!r}")
    exchanges = tuple(one._replace(amount=width * one.amount) for one in _exchanges(arms, bounds))
    past = width * _log_bound(tally.pulls, rounds, budget, bounds)
    if unplayed := budget * rounds - int(tally.pulls.sum()):
        past += low * unplayed
    past, gap = max(past, 0.0), _gap(bounds, budget)
    certificate = Certificate(
        confidence=1.0 - delta,
        rounds=rounds,
        budget=budget,
        regret_bound=past if sum_of_certificates is None else min(past, sum_of_certificates),
        retrospective=past,
        sum_of_certificates=sum_of_certificates,
        next_decision=arms,
        next_bound=float(sum(one.amount for one in exchanges)),
        exchanges=exchanges,
        triage=_decided(bounds, budget),
        gap=(width * gap[0], width * gap[1]),
        contradictions=contradictions,
        least_observed=int(tally.counts.min()),
        account=account,
        since=since,
        silent=silent,
    )
    return _withdrawn(certificate) if contradictions else certificate


def _withdrawn(certificate: Certificate) -> Certificate:
    """Return the certificate without what it can no longer promise."""
    n_arms, none = sum(arms.size for arms in certificate.triage), np.empty(0, np.int64)
    return replace(
        certificate,
        regret_bound=np.inf,
        retrospective=np.inf,
        sum_of_certificates=None if certificate.sum_of_certificates is None else np.inf,
        next_bound=np.inf,
        exchanges=(),
        triage=Triage(none, np.arange(n_arms), none),
        gap=(0.0, np.inf),
        account=None if certificate.account is None else certificate.account._replace(spent=np.inf),
    )


# The guard has kernels for the next two sums (policies/guard/account), above this module in the layers: they look only
# at the arms that its sets leave open, every round. Here any tally is read once, and a line of NumPy is clearer.
def _exchanges(arms: NDArray[np.int64], bounds: Bounds) -> tuple[Exchange, ...]:
    """Return the exchanges of the best decision for V: the largest upper bound outside for the least lower inside."""
    inside = arms[np.argsort(bounds.lower[arms], kind="stable")]
    outside = np.setdiff1d(np.arange(bounds.upper.size), arms)
    if outside.size > arms.size:
        outside = outside[np.argpartition(-bounds.upper[outside], arms.size - 1)[: arms.size]]
    outside = outside[np.argsort(-bounds.upper[outside], kind="stable")]
    pairs = zip(outside.tolist(), inside.tolist(), strict=False)
    amounts = ((a, b, float(bounds.upper[a] - bounds.lower[b])) for a, b in pairs)
    return tuple(Exchange(a, b, amount) for a, b, amount in amounts if amount > 0.0)


def _log_bound(pulls: NDArray[np.int64], rounds: int, budget: int, bounds: Bounds) -> float:
    """Return the largest sum over V' of (R - m) U inside and -m L outside: the retrospective certificate."""
    kept = pulls * bounds.lower
    gains = (rounds - pulls) * bounds.upper + kept
    best = np.partition(gains, gains.size - budget)[gains.size - budget :]
    return float(best.sum() - kept.sum())


class Watch:
    """Bounds on the loss of a run as it goes on, with the intersection of each arm's intervals so far."""

    def __init__(self, n_arms: int, budget: int, delta: float) -> None:
        self.budget, self.delta = budget, delta
        self.bounds = Bounds(np.zeros(n_arms), np.ones(n_arms))

    def bound(self, tally: Tally, rounds: int) -> float:
        """Return what `rounds` decisions have lost at most, on the unit scale of the rewards."""
        self.bounds = narrowed(self.bounds, tally.counts, tally.sums, self.delta)[0]
        return max(_log_bound(tally.pulls, rounds, self.budget, self.bounds), 0.0)


def narrowed(
    bounds: Bounds, counts: NDArray[np.int64], sums: NDArray[np.float64], delta: float
) -> tuple[Bounds, NDArray[np.bool_]]:
    """Return the bounds inside both the old ones and new intervals, and which arms have none: the new ones stand."""
    lower, upper = confidence_interval(counts, sums, n_arms=counts.size, delta=delta)
    both = np.maximum(lower, bounds.lower), np.minimum(upper, bounds.upper)
    kept = both[0] <= both[1]
    return Bounds(np.where(kept, both[0], lower), np.where(kept, both[1], upper)), ~kept


def _decided(bounds: Bounds, budget: int) -> Triage:
    """Return the arms that intervals decide: rank bounds of the slots that are free, until nothing changes."""
    active = np.arange(bounds.lower.size)
    confirmed, eliminated = np.empty(0, np.int64), np.empty(0, np.int64)
    while active.size > budget - confirmed.size:
        free = budget - confirmed.size
        lower, upper = bounds.lower[active], bounds.upper[active]
        top = lower > np.partition(upper, active.size - free - 1)[active.size - free - 1]
        out = ~top
        if free:
            out &= upper < np.partition(lower, active.size - free)[active.size - free]
        if not np.any(top | out):
            break
        confirmed, eliminated = np.append(confirmed, active[top]), np.append(eliminated, active[out])
        active = active[~(top | out)]
    return Triage(np.sort(confirmed), active, np.sort(eliminated))


def _gap(bounds: Bounds, budget: int) -> tuple[float, float]:
    """Return bounds on the distance between the S-th and the next best mean; infinite if there is no next."""
    if budget == bounds.lower.size:
        return np.inf, np.inf
    lower, upper = np.sort(bounds.lower)[::-1], np.sort(bounds.upper)[::-1]
    return max(0.0, float(lower[budget - 1] - upper[budget])), max(0.0, float(upper[budget - 1] - lower[budget]))


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
