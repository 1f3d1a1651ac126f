"""GuardedThompson: Thompson sampling that uses the graph, inside elimination's guarantee."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any, Self, Unpack

import numpy as np
from numpy.typing import NDArray

from armtriage._arguments import check_choice, check_flag
from armtriage.decisions import DecisionSet
from armtriage.graphs.feedback import FeedbackGraph
from armtriage.kernels.jit import kernel
from armtriage.kernels.random import row_of
from armtriage.kernels.record import Record
from armtriage.policies.evidence import Evidence
from armtriage.policies.guard.account import Book, GuardParams, look, renew_intervals, take_or_pay
from armtriage.policies.guard.coupled_draws import Draws, check_draws
from armtriage.policies.guard.decision_account import DecisionBook, DecisionParams
from armtriage.policies.guard.free_look import (
    Sampler,
    believe_of,
    check_sampler,
    new_sampler,
    propose,
    refit,
    renewed_sampler,
)
from armtriage.policies.guard.free_look import learn as follow
from armtriage.policies.guard.guarded import GuardedPolicy
from armtriage.policies.guard.open_looks import look_and_admit
from armtriage.policies.guard.over_decisions import KERNELS, DecisionState, decide, new_state
from armtriage.policies.guard.shared_looks import Looks, check_looks, new_looks, share_looks
from armtriage.policies.old_log import OldLog
from armtriage.policies.options import Options
from armtriage.policies.prior import Prior, check_prior, check_prior_of, drawn_share, starts_at
from armtriage.policies.request import ALL, Request
from armtriage.policies.sampler import FRACTIONAL
from armtriage.policies.slate import Kernels
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
    params: Params,
    evidence: Evidence,
    own: Own,
    request: Request,
    seen: NDArray[np.int64],
    rewards: NDArray[np.float64],
    event: int,
) -> None:
    """Let draws follow what was told, lost or weighed."""
    follow(evidence, own.sampler, own.book, request, seen, rewards, event)


@kernel
def settled(params: Params, evidence: Evidence, own: Own, request: Request, seen: NDArray[np.int64]) -> None:
    """Let intervals follow what was settled."""
    renew_intervals(params.guard, evidence, own.book, seen)


@kernel
def believe(params: Params, evidence: Evidence, own: Own, request: Request) -> None:
    """Write what the draws of the arms chosen follow from."""
    believe_of(evidence, own.sampler, request)


_KERNELS = Kernels(choose, learn, believe, settled=settled)


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
        What is believed of an arm that nobody has seen: by default a Beta law that is learned from all arms, and then
        only a share of the arms is drawn in a round; or a uniform law of its mean; or Beta(a, b). Over `decisions` it
        is not learned, and uniform by default.
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
        default 100. Proposals explore less where looks have been, so that regret grows by less: see `docs/guard.md`.
    patterns : int
        Where requests differ, for how many eligible sets the certificate keeps a book of its own, which is tighter if
        there are few; each ask then costs some 0.1 ms more. Over `decisions` there are 64 at least, and the account
        has a page for each.
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

    @property
    def kernels(self) -> Kernels:  # type: ignore[override]
        """The compiled functions, for slates or for a decision set."""
        return _KERNELS if self._over is None else KERNELS

    draws = True

    def __init__(
        self,
        graph: FeedbackGraph | int,
        budget: int | None = None,
        *,
        decisions: DecisionSet | None = None,
        delta: float = 0.01,
        mode: str = "time",
        factor: float = 1.0,
        price: float | None = None,
        patterns: int = 0,
        free_look: bool = True,
        reveal: bool | None = None,
        prior: Prior | None = None,
        fractional: str = "exact",
        old_log: OldLog | None = None,
        **options: Unpack[Options],
    ) -> None:
        super().__init__(
            graph,
            budget,
            decisions=decisions,
            delta=delta,
            mode=mode,
            factor=factor,
            price=price,
            patterns=patterns,
            **options,
        )
        self.free_look = check_flag("free_look", free_look)
        # Over a decision set, draws are coupled, and learn of a decision when it is closed.
        self.learns_at_once = self._over is None
        self.reveal = self._over is None if reveal is None else check_flag("reveal", reveal)
        usual = "learned" if self._over is None else "uniform"
        self.prior = check_prior("prior", usual if prior is None else prior, learned=self._over is None)
        self.fractional = check_choice("fractional", fractional, FRACTIONAL)
        self.old_log = self._check_old_log(old_log)

    @classmethod
    def _make(cls, graph: FeedbackGraph, config: Mapping[str, Any]) -> Self:
        # The files of before name no prior: it was uniform.
        return super()._make(graph, {"prior": "uniform", **config})

    @property
    def _looks(self) -> dict[str, Any]:
        wins, losses = starts_at(self.prior)
        beliefs = {"coin": self.fractional == "coin", "prior_wins": wins, "prior_losses": losses}
        return {"free_look": self.free_look, "reveal": self.reveal, **beliefs}

    @property
    def throws_coins(self) -> bool:
        """Whether a reward between 0 and 1 counts in draws as 1 with that probability, and else as 0."""
        return self._over is None and self.fractional == "coin"

    def decision_of_set(  # noqa: D102 - as in every policy
        self, params: Any, evidence: Evidence, own: Any, request: Request, number: int
    ) -> NDArray[np.int64]:
        assert self._over is not None
        return decide(params, own, self.graph.arrays, self._over, number, row_of(request.stream[0], number))

    def _chosen(
        self, number: int, among: NDArray[np.int64] | None
    ) -> tuple[NDArray[np.int64], NDArray[np.float64] | None]:
        if self._over is None:
            if self.decisions is not None and among is not None and among.size < self.budget:
                raise ValueError(f"eligible must leave a decision of {self.decisions!r}, got {among.size} arms")
            return self._by_kernel(number, among)
        graph, over, luck = self.graph.arrays, self._over, row_of(self._stream, number)

        def choose(params: DecisionParams, exclude: NDArray[np.int64]) -> NDArray[np.int64]:
            return decide(params, self._own, graph, over, number, luck, exclude)

        return self._choose_among(among, choose), None

    def _decision_book(self) -> DecisionBook:
        return self._own.book  # type: ignore[no-any-return]

    def _decision_draws(self) -> Draws:
        return self._own.draws  # type: ignore[no-any-return]

    def _proposer_calls(self) -> int:
        return int(self._own.draws.questions)

    def _book(self, own: Any = None) -> Book:
        return (self._own if own is None else own).book  # type: ignore[no-any-return]

    def _check_own(self) -> None:
        super()._check_own()
        if self._over is not None:
            check_draws(self._own.draws, self.tally.counts, self._over, self.graph, self._asked)
            return
        sampler = self._own.sampler
        check_prior_of(self.prior, (float(sampler.prior_wins), float(sampler.prior_losses)))
        check_sampler(sampler)
        check_looks(self._own.looks, self._asked)

    def _revealing_pulls(self) -> int:
        if "_own" not in vars(self):
            return 0
        return int(self._own.looks.shared if self._over is None else self._own.draws.shared)

    def params(self) -> Params | DecisionParams:
        """Return the parameters of the kernels."""
        if self._over is not None:
            return self._decision_params
        reveal, learned = self.reveal and not self._plain, self.prior == "learned"
        return Params(self._guard_params(), self.free_look, reveal, learned)

    def new_own(self, evidence: Evidence) -> Own | DecisionState:
        """Return the account, beliefs and looks before the first round."""
        if self._over is not None:
            return new_state(self._decision_params)
        n, budget = int(evidence.n_arms), self.budget
        sampler = new_sampler(n, budget, starts_at(self.prior), found=evidence.warm == 0)
        return Own(self._new_book(evidence), sampler, new_looks(n, budget))

    def renewed_own(self, old: Own) -> Own:
        """Return them after arms were added, or have begun again."""
        n = self.n_arms
        looks = new_looks(n, self.budget)
        looks.shared = old.looks.shared
        return Own(self._renewed_book(old.book), renewed_sampler(old.sampler, n, self.budget), looks)
