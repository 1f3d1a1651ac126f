"""GuardedThompson: Thompson sampling that uses the graph, inside elimination's guarantee."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any, Self, Unpack

import numpy as np
from numpy.typing import ArrayLike

from armtriage._arguments import as_numbers, check_choice, check_each, check_flag, check_number, check_per_arm
from armtriage.decisions import DecisionSet
from armtriage.graphs.feedback import FeedbackGraph
from armtriage.kernels.jit import kernel
from armtriage.kernels.record import Floats, Ints, Record
from armtriage.policies.beliefs import FRACTIONAL, Prior, centred, check_prior, drawn_share, starts_at
from armtriage.policies.evidence import Evidence
from armtriage.policies.guard.account import Book, GuardParams, look, look_and_admit, renew_intervals, take_or_pay
from armtriage.policies.guard.free_look import (
    Sampler,
    believe_of,
    propose,
    refit,
)
from armtriage.policies.guard.free_look import learn as follow
from armtriage.policies.guard.guarded import ByBeliefs, GuardedPolicy, guard_params
from armtriage.policies.guard.over_decisions import CoupledDecisions
from armtriage.policies.guard.shared_looks import Looks, share_looks
from armtriage.policies.old_log import OldLog
from armtriage.policies.options import GuardOptions
from armtriage.policies.request import ALL, Kernels, Request
from armtriage.policies.views import take_confirmed


class Params(Record, frozen=True):
    """Parameters of the kernels."""

    guard: GuardParams
    free_look: bool
    reveal: bool
    learned: bool  # whether the prior is


class Own(Record):
    """The guard's book, what draws follow from, and the looks that wait."""

    book: Book
    sampler: Sampler
    looks: Looks


@kernel
def choose(params: Params, evidence: Evidence, own: Own, request: Request) -> bool:
    """Fill `arms` with what the sampler proposes and the guard admits; True if that can never change again."""
    book, sampler, guard = own.book, own.sampler, params.guard
    arms, number = request.arms[: request.size], request.number
    view = look(guard, evidence, book, request)
    if take_or_pay(guard, evidence, book, request, view, arms):
        return request.epoch == ALL
    take_confirmed(view, arms)
    share = 1.0
    if params.learned:
        if number >= sampler.next_fit:
            refit(evidence, sampler, number)
        # Arms that are not drawn are not proved to be bad, either.
        if params.free_look and guard.price == 0.0:
            cover = book.cover if request.epoch == ALL else book.cover_among
            share = drawn_share(arms.size - view.n_confirmed, min(view.n_open, cover))
    propose(evidence, sampler, book, request, view, guard.graph, params.free_look, share, arms)
    if params.reveal and request.epoch == ALL:
        share_looks(evidence, book, sampler, own.looks, guard.graph, number, arms)
    look_and_admit(guard, evidence, book, request, view, arms)
    return False


@kernel
def learn(
    params: Params, evidence: Evidence, own: Own, request: Request, seen: Ints, rewards: Floats, event: int
) -> None:
    """Let draws follow what was told, lost or weighed."""
    follow(evidence, own.sampler, own.book, request, seen, rewards, event)


@kernel
def settled(params: Params, evidence: Evidence, own: Own, request: Request, seen: Ints) -> None:
    """Let intervals follow what was settled."""
    renew_intervals(params.guard, evidence, own.book, seen)


@kernel
def believe(params: Params, evidence: Evidence, own: Own, request: Request) -> None:
    """Write what the draws of the arms chosen follow from."""
    believe_of(evidence, own.sampler, request)


class _Slates(ByBeliefs["GuardedThompson"]):
    """Draws that propose slates."""

    kernels = Kernels(choose, learn, believe, settled=settled)

    def params(self, policy: GuardedThompson) -> Params:
        reveal, learned = policy.reveal and not policy._plain, policy.prior == "learned"
        return Params(guard_params(policy), policy.free_look, reveal, learned)

    def own_of(self, book: Book, sampler: Sampler, looks: Looks) -> Own:
        return Own(book, sampler, looks)


class GuardedThompson(GuardedPolicy):
    """Thompson sampling that uses the graph, inside twice the guarantee of elimination, with a certificate.

    Use it first. It needs no horizon. On ordinary instances it loses about what `ThompsonSampling` does, less
    where arms reveal each other, and far less where a bad arm reveals many. With probability 1 - delta its regret
    is at most ``1 + factor`` times the bound of its rounds of elimination, O(ln(KT/delta) (alpha ln K + S) / gap)
    and O(sqrt(alpha S T) + S sqrt(T)) up to logarithms, whatever the noise that arms share, when means are constant and
    every reward is told before the next ask; a delay of tau rounds adds S tau. See `docs/what-must-be-true.md`.

    Over a set of decisions it plays coupled draws, and the guard asks the set's oracle: the regret is at most twice
    Q + 2.88 sqrt(b Q S T) and five times 2 Q + 8.25 b Q S / gap, with Q = K where arms reveal themselves alone and
    b = ln(2 K sqrt(T) / delta), while Thompson sampling can fail for ever there. See `docs/decision-sets.md`.

    Parameters
    ----------
    graph : FeedbackGraph or int
        Which arms a chosen arm reveals; a number of arms stands for arms that reveal themselves only.
    budget : int, optional
        How many arms a decision has (S in the paper), from 1 to ``graph.n_arms``; not given with `decisions`.
    decisions : DecisionSet, optional
        Which decisions are allowed, instead of all those of `budget` arms.
    names, seed, reward_range, direction, sleepers_seen, cap, logging_floor, floor_arms
        See `armtriage.Policy`.
    prior : {"learned", "uniform"} or tuple of float, optional
        What is believed of an arm that was never seen: by default a Beta law that is learned from all arms, and then
        only a share of the arms is drawn in a round; or a uniform law of its mean; or Beta(a, b). Over `decisions` the
        noise of rewards is learned with it, and all arms are drawn.
    expected : array_like or mapping, optional
        With `decisions` and a learned prior, what each arm is expected to earn or cost, such as a free-flow time or a
        list price: the centre of its prior, up to a factor on the odds that all arms share and that is learned. By
        name, or a number for each arm. Guarantee, account and certificate do not depend on it.
    spread : float, optional
        How far an arm's mean lies from `expected`, as a standard deviation; by default it is learned, with the factor.
    fractional : {"exact", "coin"}
        What becomes of a reward r strictly between 0 and 1: draws follow mean and variance of such rewards, so that
        quiet ones are recognised, or it counts as 1 with probability r, and else as 0. Intervals always do the former.
    old_log : OldLog, optional
        What an earlier log says of the arms, and how far it may be off: see `armtriage.OldLog`. For slates.
    delta : float
        Probability with which the guarantee and the certificates may fail.
    mode : {"time", "shadow", "certify"}
        What the proposals may lose: what elimination could have lost in the same number of rounds, or, to stop bad
        proposals sooner, only in layers that this run has completed. ``"certify"`` is the first, with looks for a
        tighter certificate: some slots go to the arms that leave most of it open. It is for slates.
    factor : float
        How many times that.
    price : float, optional
        With ``"certify"``, what looks may lose, in percent of what the decisions seem to have lost without them; by
        default 110. Proposals explore less where looks have been, so that regret grows by less: see `docs/guard.md`.
    patterns : int
        Where requests differ, for how many eligible sets the certificate keeps a book of its own, which is tighter if
        there are few; each ask then costs some 0.1 ms more. Over `decisions` there are 64 at least, and the account
        has a page for each.
    forget : {"alarm"}, optional
        With ``"alarm"`` the policy watches for drift and, when a mean has changed, begins again: nothing is known, the
        account is empty, and guarantee and certificate are about the decisions since then. For slates; see
        ``docs/when-the-world-changes.md``.
    free_look : bool
        Let arms that the incumbents reveal anyway compete with their means instead of draws.
    reveal : bool, optional
        Let looks at arms that nothing reveals wait, until they pay for one pull of a bad arm that reveals many. By
        default for slates, but not over `decisions`, where we found it to pay on a star only.

    Notes
    -----
    Each decision's certificate, the most that it can lose, is booked when it is asked. Proposals are admitted while the
    account stays within the budget, then the arms of largest upper bound, and else a round of elimination is played.
    The intervals that close in later lower the account. ``free_look`` and ``reveal`` carry no guarantee of their own.

    Examples
    --------
    >>> from armtriage import FeedbackGraph, StochasticEnvironment
    >>> graph = FeedbackGraph.cliques([2, 2])
    >>> env = StochasticEnvironment([0.9, 0.8, 0.1, 0.0], graph, seed=7)
    >>> policy = GuardedThompson(graph, budget=2, seed=7)
    >>> for t in range(200):
    ...     decision = policy.ask()
    ...     policy.tell(decision, env.rewards(t, decision.revealed))
    >>> decision.arms
    array([0, 1])
    >>> policy.account.forced_rounds
    0
    """

    _over_slates = _Slates()
    _over_set = CoupledDecisions["GuardedThompson"]()
    draws = True

    def __init__(
        self,
        graph: FeedbackGraph | int,
        budget: int | None = None,
        *,
        decisions: DecisionSet | None = None,
        free_look: bool = True,
        reveal: bool | None = None,
        prior: Prior | None = None,
        expected: ArrayLike | Mapping[Any, float] | None = None,
        spread: float | None = None,
        fractional: str = "exact",
        old_log: OldLog | None = None,
        **options: Unpack[GuardOptions],
    ) -> None:
        super().__init__(graph, budget, decisions=decisions, **options)
        self.free_look = check_flag("free_look", free_look)
        # Over a decision set, draws are coupled, and learn of a decision when it is closed.
        self.learns_at_once = self.in_loop
        self.reveal = self.in_loop if reveal is None else check_flag("reveal", reveal)
        self.prior = check_prior("prior", "learned" if prior is None else prior, learned=True)
        self.expected = self._check_expected(expected)
        self.spread = self._check_spread(spread)
        self.fractional = check_choice("fractional", fractional, FRACTIONAL)
        self.old_log = self._check_old_log(old_log)

    @classmethod
    def _make(cls, graph: FeedbackGraph, config: Mapping[str, Any]) -> Self:
        # The files of before name no prior: it was uniform.
        return super()._make(graph, {"prior": "uniform", **config})

    def _check_expected(self, expected: Any) -> tuple[float, ...] | None:
        if expected is None:
            return None
        if self.in_loop or self.prior != "learned":
            raise ValueError("expected must be None unless decisions are given and the prior is learned")
        if isinstance(expected, Mapping):
            numbers = [self._roster.number(name, "expected") for name in expected]
            if len(numbers) != self.n_arms:
                raise ValueError(f"expected must have a number for each of {self.n_arms} arms, got {len(numbers)}")
            values = as_numbers("expected", list(expected.values()))[np.argsort(numbers)]
        else:
            values = expected
        given = check_per_arm("expected", values, self.n_arms)
        low, high = self.reward_range
        check_each("expected", given, (given >= low) & (given <= high), f"lie in [{low:g}, {high:g}] (reward_range)")
        return tuple(given.tolist())

    def _check_spread(self, spread: float | None) -> float | None:
        if spread is not None and self.expected is None:
            raise ValueError(f"spread must be None without expected, got {spread!r}")
        return None if spread is None else check_number("spread", spread, positive=True)

    @property
    def _looks(self) -> dict[str, Any]:
        wins, losses = starts_at(self.prior)
        beliefs = {"coin": self.fractional == "coin", "prior_wins": wins, "prior_losses": losses}
        beliefs |= {"learned": self.prior == "learned", "stated": self.spread is not None}
        if self.expected is not None:
            width = self.reward_range[1] - self.reward_range[0]
            around = centred(self._to_unit(np.array(self.expected)), self.spread and self.spread / width)
            beliefs |= around._asdict()
        return {"free_look": self.free_look, "reveal": self.reveal, **beliefs}

    @property
    def throws_coins(self) -> bool:
        """Whether a reward between 0 and 1 counts in draws as 1 with that probability, and else as 0."""
        return self.in_loop and self.fractional == "coin"
