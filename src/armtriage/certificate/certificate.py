"""Certificate: what the decisions so far, and one to come, can have lost, and the one function that makes it.

Which rule made the decisions does not matter, if it saw nothing that moves the rewards of the round.
"""

from __future__ import annotations

import math
from collections.abc import Callable, Sequence
from dataclasses import dataclass, field, fields, replace
from typing import Any, NamedTuple

import numpy as np
from numpy.typing import NDArray

from armtriage._numbers import at_most, short
from armtriage._tables import html_facts
from armtriage.arms import Name
from armtriage.certificate.bounds import Bounds
from armtriage.certificate.slates import Exchange
from armtriage.triage import Triage

# Attributes that are read from other columns, and have names of their own in JSON, too.
_ALSO = (
    *("regret_bound", "retrospective", "sum_of_certificates", "by_pattern", "joint"),
    *("entering", "leaving", "noise_scale", "norm_bound", "model"),
)


class Account(NamedTuple):
    """A guard's book: what its admitted decisions can have lost, what they may, and how often it had to step in.

    `revealing_pulls` counts arms that were proposed for what they show alone.
    """

    spent: float
    allowed: float
    forced_rounds: int
    factor: float
    revealing_pulls: int = 0


class Assumptions(NamedTuple):
    """What a certificate takes to be true, beside rewards in `reward_range` that are told whatever they are.

    `means` are ``"constant"``, or ``"linear"`` in the contexts: then with a theta of norm at most `norm_bound` after
    scaling, one for all arms if `model` is ``"shared"``, and noise of scale at most `noise_scale`, in units of rewards.
    `independent` says that the rewards of different arms in a round are, given all that came before. With a `cap`,
    everything is about rewards that are cut there, and `above` is the share of all that was told which was cut off.
    With an old log, its means were constant and within `old_bias` of these; `old_withdrawn` is the decision at which it
    was withdrawn, since they were not. With `positions`, means are those at the top of a page, and in each place that
    times its weight, which was given or `learnt`. With a `bias`, mean rewards may be so far from what is linear. With
    `forget`, a discount or a window, means are taken to change all the time, and nothing is certified.
    """

    means: str = "constant"
    model: str | None = None
    norm_bound: float | None = None
    noise_scale: float | None = None
    reward_range: tuple[float, float] = (0.0, 1.0)
    independent: bool = False
    cap: float | None = None
    above: float = 0.0
    old_bias: float | None = None
    old_withdrawn: int | None = None
    positions: tuple[float, ...] | None = None
    learnt: bool = False
    bias: float | None = None
    forget: float | None = None

    def sentence(self, told: str) -> str:
        """Return what is assumed; `told` are rewards or costs."""
        if self.means == "constant":
            kept = f"an arm's mean to be constant, whatever was known when it was chosen, and {told}"
            apart = ", and those of different arms in a round to be independent: one luck for all arms breaks it"
            cut = (
                ""
                if self.cap is None
                else f"Each of the {told} counts up to {self.cap:g}, which left out {self.above:.1%}. "
            )
            before = cut + self._of_old() + self._of_positions()
            return f"{before}All this takes {kept} to be told whatever they are{apart if self.independent else ''}."
        whose = "" if self.model == "shared" else " for each arm"
        off = "" if self.bias is None else f" up to {self.bias:g}"
        return (
            f"All this takes mean {told} to be linear in the contexts{off}, with a theta of norm at most "
            f"{self.norm_bound:g}{whose} after scaling, noise of scale at most {self.noise_scale:g} that is "
            f"independent over the arms of a round, and {told} to be told whatever they are."
        )

    def _of_old(self) -> str:
        if self.old_bias is None:
            return ""
        if self.old_withdrawn is not None:
            off = f"its means were not within {self.old_bias:g} of today's"
            return f"The old log was withdrawn at decision {self.old_withdrawn:,}: {off}. "
        return f"Means of the old log are taken to have been constant, and within {self.old_bias:g} of today's. "

    def _of_positions(self) -> str:
        if self.positions is None:
            return ""
        return f"Places are taken to have the weights {', '.join(f'{one:g}' for one in self.positions)}. "

    def broken(self, contradictions: int, told: str) -> str:
        """Return what a contradiction says of the assumptions."""
        if self.learnt:
            return "Nothing can be certified: the weights of the places are estimated."
        if self.positions is not None:
            return "Nothing can be certified: swaps of neighbours contradict the weights of the places."
        if self.forget is not None:
            kept = f"count for {self.forget:,} decisions only" if self.forget >= 1 else "fade with each decision"
            return f"Nothing can be certified: with forget={self.forget}, {told} {kept}, as means are taken to change."
        times = "once" if contradictions == 1 else f"{contradictions:,} times"
        if self.means == "constant":
            return (
                f"Nothing can be certified: new {told} contradicted earlier ones, {times}, so an arm's mean has "
                f"changed, or {told} are not what they are taken for. Decisions to come can be: see start_window."
            )
        return (
            f"Nothing can be certified: the rewards so far left an arm no mean, {times}, so rewards are not linear "
            "in the contexts, or their noise or theta is larger than assumed."
        )


def _part(column: str, name: str, doc: str) -> Any:
    """Return an attribute that is part of a column; None where it has no such part."""

    def part(certificate: Certificate) -> Any:
        whole = getattr(certificate, column)
        return whole.get(name) if isinstance(whole, dict) else getattr(whole, name)

    return property(part, doc=doc)


@dataclass(frozen=True, eq=False)
class Certificate:
    """What is known for certain, but for the stated confidence, about what was and will be lost.

    All statements hold together and at all times, so they may be read as often as one likes. They need what
    `assumptions` says: rewards inside `reward_range` that are told whatever their values, and a mean for each arm that
    is constant given all that could be seen when it was chosen; or with contexts, which may have been chosen in any
    way, means that are linear in them. Where intervals contradict each other that is not so, and the certificate
    withdraws: bounds are infinite, so that no comparison with them succeeds, the gap may be anything, and every arm is
    open.

    Where arms have names, they are called by them. Arms that are retired count in what was lost, and nowhere else.

    Attributes
    ----------
    confidence : float
        Probability with which all certificates of the run hold: those of fixed arms, and those of eligible sets, each
        kind by itself.
    rounds, budget : int
        Decisions made so far, and arms in each, at most.
    bounds : dict
        Bounds on what they lost in all, by name: ``"retrospective"`` by today's intervals, ``"sum_of_certificates"`` by
        what was known at each decision, ``"by_pattern"`` by today's intervals for each eligible set by itself, and with
        contexts ``"joint"`` by all rewards so far and one theta. Those that the policy kept are there, and each is an
        attribute, too, which is None where there is none.
    next_decision : ndarray or None
        A decision to come: by default the arms of largest mean so far, of those that are eligible. With contexts one
        for those that were given, if any.
    next_bound : float or None
        Bound on what playing it loses in a round; 0 says that it is a best one.
    challenger : ndarray or None
        The decision that may be better than `next_decision` by most; the same one if none may.
    exchanges : tuple of Exchange
        The pairs of arms that keep `next_bound` open; their amounts sum to it. Empty over a decision set.
    triage : Triage or None
        Arms that certainly belong to the best, are open, and certainly do not; None with contexts.
    gap : tuple of float or None
        Bounds on the distance between the last of the best arms and the first of the others; over a decision set,
        between the best decision and the next.
    contradictions : int
        Intervals that excluded their own past, or with contexts left an arm no mean: if not 0, an assumption is wrong,
        and the certificate is withdrawn.
    least_observed : int or None
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
    estimate : float or None
        What they seem to have lost in all, were each mean what it is so far: no bound, and nothing is promised of it.
    intervals : Bounds or None
        Lower and upper bounds on the mean of each arm, in the units of rewards, which hold together with all else.
        Where arms are fixed, each arm needs one end only, and `bounds`, `next_bound` and `triage` are read from ends
        that are narrower.
    informative : bool
        False while `regret_bound` is no smaller than what doing nothing would have lost: all that was earned, or what
        the best decision certainly would have earned; with costs, all that was paid above the least that is possible.
    needed : int or None
        About how many more decisions make it informative: 0 if it is, None if that cannot be foreseen.
    earned : float
        What the decisions seem to have earned in all, or with costs to have paid, by the means so far; with contexts at
        most, by the means that were fitted.
    family : str
        The class of the decision set; empty for slates.
    assumptions : Assumptions
        What all of this takes to be true.

    Examples
    --------
    >>> from armtriage import Matchings, certify
    >>> print(certify(pulls=[900, 80, 20], counts=[900, 80, 20], sums=[720.0, 24.0, 3.0], budget=1))
    With 95% confidence, the 1,000 decisions so far have lost at most 73.5 in all, 0.0735 each, against always playing
    the best arm. Playing arm 0 next is a best decision. The best arm is known for certain. All this takes an arm's mean
    to be constant, whatever was known when it was chosen, and rewards to be told whatever they are.
    >>> jobs = Matchings(2, 2)
    >>> print(certify(pulls=[90, 10, 10, 90], counts=[90, 10, 10, 90], sums=[72.0, 5.0, 4.0, 63.0], decisions=jobs))
    With 95% confidence, the 100 decisions so far have lost at most 58.5 in all, 0.585 each, against always playing the
    best decision. Playing arms 0 and 3 next loses at most 0.65, because arms 1 and 2 may still be better than arms 0
    and 3. Of the 4 arms, none is certain to be in the best decision, none is certain not to be, and 4 are still open.
    All this takes an arm's mean to be constant, whatever was known when it was chosen, and rewards to be told whatever
    they are.
    """

    confidence: float
    rounds: int
    budget: int
    bounds: dict[str, float]
    # Not all kinds of problem have these; which they are stands above.
    next_decision: Any = None
    next_bound: Any = None
    challenger: Any = None
    triage: Any = None
    gap: Any = None
    least_observed: Any = None
    exchanges: tuple[Exchange, ...] = ()
    contradictions: int = 0
    account: Account | None = None
    since: int = 0
    silent: tuple[Name, ...] = ()
    direction: str = "maximize"
    per_round: bool = False
    estimate: float | None = None
    intervals: Bounds | None = None
    informative: bool = False
    needed: int | None = None
    earned: float = 0.0
    family: str = ""
    assumptions: Assumptions = field(default_factory=Assumptions)

    @property
    def regret_bound(self) -> float:
        """Bound on what the decisions lost in all: the smallest of `bounds`.

        They are compared with always playing the best arms, or with `per_round` the best that were eligible in each.
        """
        return min(self.bounds.values())

    retrospective = _part("bounds", "retrospective", "The bound by today's intervals.")
    sum_of_certificates = _part("bounds", "sum_of_certificates", "The bound by what was known at each decision.")
    by_pattern = _part("bounds", "by_pattern", "The bound by today's intervals for each eligible set by itself.")
    joint = _part("bounds", "joint", "With contexts, the bound by all rewards so far and one theta for all rounds.")
    model = _part("assumptions", "model", "With contexts, whether theta is one for all arms, or each has its own.")
    norm_bound = _part("assumptions", "norm_bound", "With contexts, the norm of theta after scaling, at most.")
    noise_scale = _part("assumptions", "noise_scale", "With contexts, the scale of the noise in units of a reward.")

    @property
    def entering(self) -> Any:
        """The arms of the challenger that are not in `next_decision`."""
        return _without(self.challenger, self.next_decision)

    @property
    def leaving(self) -> Any:
        """The arms of `next_decision` that are not in the challenger."""
        return _without(self.next_decision, self.challenger)

    def __str__(self) -> str:
        if self.contradictions:
            return self.assumptions.broken(self.contradictions, self._told)
        parts = [self._of_past(), *self._of_nothing(), *self._of_next(), *self._of_arms(), *self._of_silent()]
        return " ".join([*parts, self.assumptions.sentence(self._told)])

    @property
    def _costs(self) -> bool:
        return self.direction == "minimize"

    @property
    def _told(self) -> str:
        return "costs" if self._costs else "rewards"

    @property
    def _contextual(self) -> bool:
        return self.assumptions.means != "constant"

    def _best(self, which: str = "") -> str:
        best = f"the {'cheapest' if self._costs else 'best'}{which}"
        if self.family:
            return f"{best} decision"
        return f"{best} arm" if self.budget == 1 else f"{best} {self.budget:,} arms"

    def _of_past(self) -> str:
        sure = f"With {100 * self.confidence:.10g}% confidence"
        if not self.rounds:
            nothing = "cost too much" if self._costs else "lost anything"
            return f"{sure}: no decision has been made yet, so none has {nothing}."
        when = f"since number {self.since:,}" if self.since else "so far"
        made = "the first decision has" if self.rounds == 1 else f"the {self.rounds:,} decisions {when} have"
        most, each = at_most(self.regret_bound), at_most(self.regret_bound / self.rounds)
        which = "" if self._contextual else " eligible"
        best = f"{self._best(which)} of every round" if self.per_round else f"always playing {self._best()}"
        if self._costs:
            return f"{sure}, {made} cost at most {most} more in all, {each} each, than {best}."
        return f"{sure}, {made} lost at most {most} in all, {each} each, against {best}."

    def _of_nothing(self) -> list[str]:
        """Return the sentence for a bound that says nothing."""
        if self.informative or not self.rounds:
            return []
        within = 0.0 <= self.earned <= self.regret_bound
        less = f"more than all {self._told} so far" if within else "no less than all that can have been lost"
        more = "how many more decisions are needed cannot be foreseen"
        if self.needed is not None:
            more = f"about {short(self.needed)} more decisions are needed"
        return [f"This is {less}: nothing useful is certified yet; {more}."]

    def _of_next(self) -> list[str]:
        if self.next_decision is None:
            return []
        if not self.next_decision.size and not self.family:
            return ["No arm may be played next."]
        playing = f"Playing {_listed(self.next_decision)} next{', with these contexts,' if self._contextual else ''}"
        if self.next_bound == 0.0:
            return [f"{playing} is a {'cheapest' if self._costs else 'best'} decision."]
        most, better = at_most(self.next_bound), "cheaper" if self._costs else "better"
        loses = f"costs at most {most} more than need be" if self._costs else f"loses at most {most}"
        if self.exchanges:
            widest = max(self.exchanges, key=lambda one: one.amount)
            why = f"mostly because arm {widest.outside!r} may still be {better} than arm {widest.inside!r}"
            return [f"{playing} {loses}, {why}, by up to {at_most(widest.amount)}."]
        if not self.entering.size and not self.leaving.size:
            why = "another order may be better"
        elif not self.entering.size:
            why = f"it may be {better} without {_listed(self.leaving)}"
        elif not self.leaving.size:
            why = f"it may be {better} with {_listed(self.entering)}"
        else:
            why = f"{_listed(self.entering)} may still be {better} than {_listed(self.leaving)}"
        return [f"{playing} {loses}, because {why}."]

    def _of_arms(self) -> list[str]:
        if self.triage is None:
            return []
        confirmed, active, eliminated = (arms.size for arms in self.triage)
        best, arms = self._best(), f"Of the {sum(one.size for one in self.triage):,} arms, "
        if self.family:
            if not active:
                return [f"{best[0].upper()}{best[1:]} is known for certain."]
            return [
                f"{arms}{_are(confirmed)} certain to be in {best}, {_are(eliminated)} certain not to be, and "
                f"{_are(active)} still open."
            ]
        if confirmed + active < self.budget:
            return ["All arms that may be played fit into one decision."]
        if confirmed + active == self.budget:
            return [f"{best[0].upper()}{best[1:]} {'is' if self.budget == 1 else 'are'} known for certain."]
        if self.budget == 1:
            one = best.removesuffix(" arm")
            return [f"{arms}{_are(eliminated)} certain not to be {one}, and {_are(active)} still open."]
        return [
            f"{arms}{_are(confirmed)} certain to be among {best}, {_are(eliminated)} certain not to be, and "
            f"{_are(active)} still open."
        ]

    def _of_silent(self) -> list[str]:
        if not self.silent:
            return []
        its = "its" if len(self.silent) == 1 else "their"
        arms = _listed(_as_array(self.silent))
        return [f"Nothing has been heard of {arms} for some time: {its} last {self._told} did not come."]

    def _repr_html_(self) -> str:
        """Return a table, and the sentences below it, for notebooks."""
        facts = {"decisions": f"{self.rounds:,}", "confidence": f"{100 * self.confidence:.10g}%"}
        if self.rounds and not self.contradictions:
            more = "cost at most, beyond need" if self._costs else "lost at most"
            facts[more] = f"{at_most(self.regret_bound)} ({at_most(self.regret_bound / self.rounds)} each)"
        if self.next_decision is not None and not self.contradictions:
            facts["next decision"] = ", ".join(map(str, self.next_decision.tolist()))
            facts["can lose"] = at_most(self.next_bound)
        return html_facts(facts, str(self))

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
        return {**{name: _in_json(getattr(self, name)) for name in (*names, *_ALSO)}, "text": str(self)}

    def _withdrawn(self) -> Certificate:
        """Return the certificate without what it can no longer promise."""
        none, triage, account = np.empty(0, np.int64), self.triage, self.account
        return replace(
            self,
            bounds=dict.fromkeys(self.bounds, np.inf),
            next_bound=None if self.next_bound is None else np.inf,
            exchanges=(),
            triage=None if triage is None else Triage(none, np.sort(np.concatenate(triage)), none),
            gap=None if self.gap is None else (0.0, np.inf),
            informative=False,
            needed=None,
            account=None if account is None else account._replace(spent=np.inf),
        )

    def _named(self, names: Sequence[Name]) -> Certificate:
        """Return the certificate with the names of arms instead of their numbers, which are what it has."""
        called: Any = names

        def all_of(arms: NDArray[np.int64]) -> NDArray[Any]:
            return _as_array([names[arm] for arm in arms.tolist()])

        return replace(
            self,
            next_decision=None if self.next_decision is None else all_of(self.next_decision),
            challenger=None if self.challenger is None else all_of(self.challenger),
            exchanges=tuple(Exchange(called[a], called[b], amount) for a, b, amount in self.exchanges),
            triage=None if self.triage is None else Triage(*map(all_of, self.triage)),
            silent=tuple(called[arm] for arm in self.silent),
        )


def certificate_of(
    *,
    bounds: dict[str, float],
    at_stake: float,
    needed: Callable[[], int | None],
    names: Sequence[Name] | None = None,
    **columns: Any,
) -> Certificate:
    """Return a certificate: `bounds` say something if the least of them is below what was `at_stake`.

    The other columns are those of `armtriage.Certificate`, with numbers of arms, which become their `names`. Without a
    `challenger`, it is what all exchanges make of the next decision.

    Examples
    --------
    >>> pair = Exchange(outside=2, inside=0, amount=0.25)
    >>> given = {"confidence": 0.95, "rounds": 50, "budget": 2, "next_decision": np.array([0, 1]), "exchanges": (pair,)}
    >>> made = certificate_of(bounds={"retrospective": 4.0}, at_stake=9.0, needed=lambda: None, **given)
    >>> made.informative, made.challenger
    (True, array([1, 2]))
    """
    informative = min(bounds.values()) < at_stake
    made = Certificate(bounds=bounds, informative=informative, needed=0 if informative else needed(), **columns)
    if made.challenger is None and made.next_decision is not None:
        outside, inside = ([one[side] for one in made.exchanges] for side in (0, 1))
        rival = np.union1d(np.setdiff1d(made.next_decision, inside), outside).astype(np.int64)
        made = replace(made, challenger=rival)
    if made.contradictions:
        made = made._withdrawn()
    return made if names is None else made._named(names)


def _as_array(names: Sequence[Name]) -> NDArray[Any]:
    """Return names as an array of objects, tuples among them, too."""
    found = np.empty(len(names), object)
    for place, name in enumerate(names):
        found[place] = name
    return found


def _without(arms: Any, others: Any) -> Any:
    """Return the arms that are not among others; None if there are none of either."""
    if arms is None or others is None:
        return None
    left = set(others.tolist())
    return arms[np.array([one not in left for one in arms.tolist()], np.bool_)]


def _in_json(value: Any) -> Any:
    """Return a value as JSON knows it."""
    if isinstance(value, np.ndarray | np.generic):
        value = value.tolist()
    if isinstance(value, tuple) and hasattr(value, "_asdict"):
        value = value._asdict()
    if isinstance(value, dict):
        return {name: _in_json(one) for name, one in value.items()}
    if isinstance(value, tuple | list):
        return [_in_json(one) for one in value]
    return None if isinstance(value, float) and not math.isfinite(value) else value


def _are(number: int) -> str:
    """Return a number with the verb that follows it."""
    return "none is" if number == 0 else f"{number:,} {'is' if number == 1 else 'are'}"


def _listed(arms: NDArray[Any], most: int = 10) -> str:
    """Return arms as a sentence names them."""
    called = [repr(arm) for arm in arms.tolist()]
    if len(called) <= 1:
        return f"arm {called[0]}" if called else "no arm"
    if len(called) > most:
        return f"arms {', '.join(called[:most])} and {len(called) - most:,} more"
    return f"arms {', '.join(called[:-1])} and {called[-1]}"
