"""ContextualCertificate: what decisions with contexts can have lost."""

from __future__ import annotations

from dataclasses import dataclass, fields
from typing import Any

from armtriage._numbers import at_most
from armtriage.arms import Name
from armtriage.certificate import Account, Exchange, caveat, in_json, listed

__all__ = ["ContextualCertificate"]


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
    next_decision : tuple or None
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
    model : {"shared", "disjoint", "hybrid"}
        Whether theta is one for all arms, or each arm has its own.
    direction : {"maximize", "minimize"}
        Whether rewards or costs are told; with costs, what is lost is what was paid too much.
    informative : bool
        False while `regret_bound` is no smaller than `earned`.
    needed : int or None
        0 if it is informative, else None: with contexts it cannot be foreseen how many more decisions are needed.
    earned : float
        What the rewards so far, or costs, seem to sum up to at most, by the means that were fitted.

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
    next_decision: tuple[Name, ...] | None
    next_bound: float | None
    exchanges: tuple[Exchange, ...]
    noise_scale: float
    norm_bound: float
    contradictions: int
    account: Account
    model: str = "shared"
    direction: str = "maximize"
    informative: bool = False
    needed: int | None = None
    earned: float = 0.0

    def __str__(self) -> str:
        if self.contradictions:
            times = "once" if self.contradictions == 1 else f"{self.contradictions:,} times"
            return (
                f"Nothing can be certified: the rewards so far left an arm no mean, {times}, so rewards are not linear "
                "in the contexts, or their noise or theta is larger than assumed."
            )
        costs, sure = self.direction == "minimize", f"With {100 * self.confidence:.10g}% confidence"
        nothing, told = ("cost too much", "costs") if costs else ("lost anything", "rewards")
        parts = [f"{sure}: no decision has been made yet, so none has {nothing}."]
        if self.rounds:
            made = "the first decision has" if self.rounds == 1 else f"the {self.rounds:,} decisions so far have"
            best = f"the {'cheapest' if costs else 'best'} {'arm' if self.budget == 1 else f'{self.budget:,} arms'}"
            most, each = at_most(self.regret_bound), at_most(self.regret_bound / self.rounds)
            lost = (
                f"cost at most {most} more in all, {each} each, than"
                if costs
                else f"lost at most {most} in all, {each} each, against"
            )
            parts = [f"{sure}, {made} {lost} {best} of every round."]
            if not self.informative:
                parts.append(caveat(self.regret_bound, self.earned, self.needed, told))
        whose = "" if self.model == "shared" else " for each arm"
        assumed = (
            f"All this takes mean {told} to be linear in the contexts, with a theta of norm at most "
            f"{self.norm_bound:g}{whose} after scaling, noise of scale at most {self.noise_scale:g} that is "
            f"independent over the arms of a round, and {told} to be told whatever they are."
        )
        return " ".join([*parts, *self._of_next(costs), assumed])

    def _of_next(self, costs: bool) -> list[str]:
        if self.next_decision is None or self.next_bound is None:
            return []
        arms = f"Playing {listed(list(self.next_decision))} next, with these contexts,"
        if self.next_bound == 0.0:
            return [f"{arms} is a {'cheapest' if costs else 'best'} decision."]
        widest, most = max(self.exchanges, key=lambda one: one.amount), at_most(self.next_bound)
        loses = f"costs at most {most} more than need be" if costs else f"loses at most {most}"
        return [
            f"{arms} {loses}, mostly because arm {widest.outside!r} may still be {'cheaper' if costs else 'better'} "
            f"than arm {widest.inside!r}, by up to {at_most(widest.amount)}."
        ]

    def to_dict(self) -> dict[str, Any]:
        """Return the attributes as JSON knows them, with the sentences of `print` under ``"text"``."""
        return {**{one.name: in_json(getattr(self, one.name)) for one in fields(self)}, "text": str(self)}
