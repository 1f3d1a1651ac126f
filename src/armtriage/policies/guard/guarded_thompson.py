"""GuardedThompson: Thompson sampling that uses the graph, inside elimination's guarantee."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any, Self, Unpack

import numpy as np
from numpy.typing import NDArray

from armtriage._arguments import check_choice, check_flag
from armtriage.decisions import DecisionSet
from armtriage.graphs.feedback import FeedbackGraph, GraphArrays
from armtriage.kernels.jit import kernel
from armtriage.kernels.random import row_of
from armtriage.kernels.record import Record
from armtriage.policies.compiled import CompiledPolicy, Kernels, OraclePolicy
from armtriage.policies.eligible import Among, Rules
from armtriage.policies.eligible.choosing import believe_draws
from armtriage.policies.eligible.guarding import choose_guarded
from armtriage.policies.eligible.rows import Rows
from armtriage.policies.elimination import elimination
from armtriage.policies.elimination import sets as triage
from armtriage.policies.guard.account import GuardParams, admit, begin, note
from armtriage.policies.guard.coupled_draws import Draws, check_draws
from armtriage.policies.guard.decision_account import DecisionBook, DecisionParams
from armtriage.policies.guard.free_look import (
    Sampler,
    believe_of,
    forget,
    learn,
    new_sampler,
    propose,
    rebuild_sampler,
    refit,
)
from armtriage.policies.guard.guarded import GuardedPolicy, GuardState
from armtriage.policies.guard.over_decisions import KERNELS, DecisionState, decide, new_state
from armtriage.policies.guard.shared_looks import Looks, check_looks, new_looks, share_looks
from armtriage.policies.options import Options
from armtriage.policies.prior import Prior, check_prior, check_prior_of, drawn_share, starts_at
from armtriage.policies.sampler import FRACTIONAL

__all__ = ["GuardedThompson"]


class Params(Record, frozen=True):
    """Parameters of the kernels."""

    sets: triage.Params
    guard: GuardParams
    free_look: bool
    reveal: bool
    coin: bool  # whether rewards between 0 and 1 are made 0 or 1
    learned: bool  # whether the prior is


class State(Record):
    """The guard, the posteriors, and the looks that wait."""

    guard: GuardState
    sampler: Sampler
    looks: Looks


@kernel
def select(
    params: Params, state: State, graph: GraphArrays, number: int, luck: np.uint64, arms: NDArray[np.int64]
) -> bool:
    """Fill `arms` with what the sampler proposes and the guard admits; True if that can never change again."""
    if begin(params.guard, params.sets, state.guard.sets, state.guard.book, graph, number, arms):
        return True
    share = 1.0
    if params.learned:
        if number >= state.sampler.next_fit:
            refit(state.guard.sets, state.sampler, number)
        if params.free_look:
            cover = state.guard.sets.n_active if params.guard.plain else state.guard.book.cover
            share = drawn_share(arms.size - state.guard.sets.n_confirmed, cover)
    propose(state.guard.sets, state.sampler, graph, luck, params.free_look, share, arms)
    if params.reveal:
        share_looks(state.guard.sets, state.sampler, state.looks, graph, number, arms)
    admit(params.sets, state.guard.sets, state.guard.book, graph, number, luck, arms)
    return False


@kernel
def update(
    params: Params,
    state: State,
    graph: GraphArrays,
    number: int,
    luck: np.uint64,
    seen: NDArray[np.int64],
    rewards: NDArray[np.float64],
    n: int,
    scheduled: bool,
) -> None:
    """Record the rewards of the first n arms of `seen`."""
    note(params.sets, state.guard.sets, state.guard.book, seen, rewards, n, scheduled)
    learn(state.guard.sets, state.sampler, luck, seen, rewards, n, params.coin)


@kernel
def schedule(params: Params, state: State, graph: GraphArrays, arms: NDArray[np.int64]) -> None:
    """Note that rewards of these arms are on their way, so that elimination explores others."""
    elimination.schedule(params.sets, state.guard.sets, graph, arms)


@kernel
def release(params: Params, state: State, graph: GraphArrays, arms: NDArray[np.int64]) -> None:
    """Note that rewards of these arms will not come."""
    elimination.lose(state.guard.sets, arms)
    forget(state.guard.sets, state.sampler, arms)


@kernel
def believe(
    params: Params, state: State, number: int, luck: np.uint64, arms: NDArray[np.int64], beliefs: NDArray[np.float64]
) -> None:
    """Write what the draws of the arms chosen follow from."""
    believe_of(state.guard.sets, state.sampler, luck, arms, beliefs)


@kernel
def teach(
    params: Params,
    state: State,
    luck: np.uint64,
    arms: NDArray[np.int64],
    rewards: NDArray[np.float64],
    closing: bool,
) -> None:
    """Let the sampler know rewards of a decision that stays open, and the guard those of one that is closed."""
    sets, sampler = state.guard.sets, state.sampler
    for i in range(arms.size):
        sampler.early[arms[i]] += -1 if closing else 1
    if closing:
        note(params.sets, sets, state.guard.book, arms, rewards, arms.size, True)
    else:
        learn(sets, sampler, luck, arms, rewards, arms.size, params.coin)


_KERNELS = Kernels(select, update, schedule, release, believe=believe, teach=teach)


class GuardedThompson(GuardedPolicy, OraclePolicy):
    """Thompson sampling that uses the graph, inside twice the guarantee of elimination, with a certificate.

    Use it first. It needs no horizon. On ordinary instances it loses about what `ThompsonSampling` does, less
    where arms reveal each other, and far less where a bad arm reveals many. With probability 1 - delta its regret
    is at most ``1 + factor`` times the bound of `CombinatorialElimination`, O(ln(KT/delta) (alpha ln K + S) / gap)
    and O(sqrt(alpha S T) + S sqrt(T)) up to logarithms, whatever the noise that arms share, when means are constant and
    every reward is told before the next ask; a delay of tau rounds adds S tau. See `docs/what-must-be-true.md`.

    Over a set of decisions it plays coupled draws, and the guard asks the set's oracle: the regret is at most twice
    Q + 2.83 sqrt(b Q S T) and five times 2 Q + 8 b Q S / gap, with Q = K where arms reveal themselves alone and
    b = ln(2 K sqrt(T) / delta), while Thompson sampling can fail for ever there. See `docs/decision-sets.md`.

    Parameters
    ----------
    graph : FeedbackGraph or int
        Which arms a chosen arm reveals; a number of arms stands for arms that reveal themselves only.
    budget : int, optional
        How many arms a decision has (S in the paper), from 1 to ``graph.n_arms``; not given with `decisions`.
    decisions : DecisionSet, optional
        Which decisions are allowed, instead of all those of `budget` arms.
    names, seed, reward_range, direction, sleepers_seen
        See `armtriage.Policy`.
    prior : {"learned", "uniform"} or tuple of float, optional
        What is believed of an arm that nobody has seen: by default a Beta law that is learned from all arms, and then
        only a share of the arms is drawn in a round; or a uniform law of its mean; or Beta(a, b). Over `decisions` it
        is not learned, and uniform by default.
    fractional : {"exact", "coin"}
        What becomes of a reward r strictly between 0 and 1: draws follow mean and variance of such rewards, so that
        quiet ones are recognised, or it counts as 1 with probability r, and else as 0. Intervals always do the former.
    delta : float
        Probability with which the guarantee and the certificates may fail.
    mode : {"time", "shadow"}
        What the proposals may lose: what elimination could have lost in the same number of rounds, or, for a tighter
        certificate at a higher price, only in layers that this run has completed.
    factor : float
        How many times that.
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

    among = Among(choose_guarded, believe_draws, draws=True)
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
        patterns: int = 0,
        free_look: bool = True,
        reveal: bool | None = None,
        prior: Prior | None = None,
        fractional: str = "exact",
        **options: Unpack[Options],
    ) -> None:
        super().__init__(
            graph, budget, decisions=decisions, delta=delta, mode=mode, factor=factor, patterns=patterns, **options
        )
        self.free_look = check_flag("free_look", free_look)
        # Over a decision set, draws are coupled, and learn of a decision when it is closed.
        self.learns_at_once = self._over is None
        self.reveal = self._over is None if reveal is None else check_flag("reveal", reveal)
        usual = "learned" if self._over is None else "uniform"
        self.prior = check_prior("prior", usual if prior is None else prior, learned=self._over is None)
        self.fractional = check_choice("fractional", fractional, FRACTIONAL)

    @classmethod
    def _make(cls, graph: FeedbackGraph, config: Mapping[str, Any]) -> Self:
        # The files of before name no prior: it was uniform.
        return super()._make(graph, {"prior": "uniform", **config})

    @property
    def _looks(self) -> dict[str, Any]:
        wins, losses = starts_at(self.prior)
        beliefs = {"coin": self.fractional == "coin", "prior_wins": wins, "prior_losses": losses}
        return {"free_look": self.free_look, "reveal": self.reveal, **beliefs}

    def choose(self, params: Any, state: Any, number: int, luck: np.uint64) -> NDArray[np.int64]:
        """Return the decision of round `number` over a decision set, as `simulate` also asks for it."""
        assert self._over is not None
        return decide(params, state, self.graph.arrays, self._over, number, luck)

    def _select_among(
        self, number: int, among: NDArray[np.int64]
    ) -> tuple[NDArray[np.int64], NDArray[np.float64] | None]:
        if self._over is None:
            if self.decisions is not None and among.size < self.budget:
                raise ValueError(f"eligible must leave a decision of {self.decisions!r}, got {among.size} arms")
            return CompiledPolicy._select_among(self, number, among)
        graph, over, luck = self.graph.arrays, self._over, row_of(self._stream, number)

        def choose(params: DecisionParams, exclude: NDArray[np.int64]) -> NDArray[np.int64]:
            return decide(params, self._state, graph, over, number, luck, exclude)

        return self._choose_among(among, choose), None

    def _beliefs(self, number: int, arms: NDArray[np.int64]) -> NDArray[np.float64] | None:
        return super()._beliefs(number, arms) if self._over is None else None

    def _decision_book(self) -> DecisionBook:
        return self._state.book  # type: ignore[no-any-return]

    def _decision_draws(self) -> Draws:
        return self._state.draws  # type: ignore[no-any-return]

    def _arrays(self) -> dict[str, NDArray[Any]]:
        return super()._arrays() | self._set_arrays()

    def _restore(self, arrays: Mapping[str, NDArray[Any]]) -> None:
        of_sets = {name: array for name, array in arrays.items() if name.startswith(("pages.", "by_set."))}
        super()._restore({name: array for name, array in arrays.items() if name not in of_sets})
        self._restore_sets(of_sets, self._rebuild)

    def _proposer_calls(self) -> int:
        return int(self._state.draws.questions)

    def _guard(self, state: Any = None) -> GuardState:
        return (self._state if state is None else state).guard  # type: ignore[no-any-return]

    def _rules(self) -> Rules:
        rules = self._guard_rules(self._params, self.free_look)
        coin, learned = self.fractional == "coin", self.prior == "learned"
        return rules._replace(coin=coin, prior=starts_at(self.prior), learned=learned)

    def _fill(self, rows: Rows) -> None:
        self._fill_guard(rows)
        sampler, n = self._state.sampler, self._state.sampler.wins.size
        rows.wins[:n], rows.told_between[:n], rows.fractional = sampler.wins, sampler.between, sampler.fractional
        rows.prior_wins, rows.prior_losses = sampler.prior_wins, sampler.prior_losses
        rows.next_fit = sampler.next_fit

    def _rebuild(self) -> None:
        self._rebuild_guard()
        if self._over is not None:
            check_draws(self._state.draws, self.tally.counts, self._over, self.graph, self._asked)
            return
        sampler = self._state.sampler
        check_prior_of(self.prior, (float(sampler.prior_wins), float(sampler.prior_losses)))
        rebuild_sampler(sampler, self._state.guard.sets, self._early())
        check_looks(self._state.looks, self._asked)

    def _revealing_pulls(self) -> int:
        if self._cached_state is None:
            return 0
        return int(self._state.looks.shared if self._over is None else self._state.draws.shared)

    def params(self) -> Params | DecisionParams:
        """Return the parameters of the kernels."""
        if self._over is not None:
            return self._decision_params
        guard = self._guard_params()
        reveal, coin, learned = self.reveal and not guard.plain, self.fractional == "coin", self.prior == "learned"
        return Params(self._elimination.params(), guard, self.free_look, reveal, coin, learned)

    def new_state(self) -> State | DecisionState:
        """Return the state before the first round."""
        if self._over is not None:
            return new_state(self._decision_params)
        n, budget = self.n_arms, self.budget
        return State(self._new_guard(), new_sampler(n, budget, starts_at(self.prior)), new_looks(n, budget))
