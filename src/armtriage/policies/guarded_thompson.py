"""GuardedThompson: Thompson sampling that uses the graph, inside elimination's guarantee."""

from __future__ import annotations

from functools import cached_property
from typing import Any, NamedTuple

import numpy as np
from numpy.typing import ArrayLike, NDArray

from armtriage._arguments import check_choice, check_flag, check_number, check_probability
from armtriage._jit import inlined, kernel
from armtriage.certificate import Account, Bounds, Certificate, certificate_of
from armtriage.compiled import CompiledPolicy, Kernels
from armtriage.feedback import FeedbackGraph, GraphArrays
from armtriage.intervals import confidence_interval
from armtriage.policies import _triage as triage
from armtriage.policies import elimination
from armtriage.policies._free_look import Sampler, learn, new_sampler, propose
from armtriage.policies._guard import ALLOWED, FORCED, SPENT, TOTAL, Book, GuardParams, admit, begin, new_book, note
from armtriage.policies._revealing import Bills, new_bills, reveal_instead
from armtriage.policies._triage import ACTIVE, CONFIRMED, ELIMINATED, FAILED, LOGGED
from armtriage.trace import Triage, TriageLog

__all__ = ["GuardedThompson"]

MODES = ("time", "shadow")


class Params(NamedTuple):
    """Parameters of the kernels."""

    sets: triage.Params
    guard: GuardParams
    free_look: bool
    reveal: bool


class State(NamedTuple):
    """What is known of the arms, the guard's book, the posteriors, and the bills of direct looks."""

    sets: triage.State
    book: Book
    sampler: Sampler
    bills: Bills


@inlined
def select(
    params: Params, state: State, graph: GraphArrays, number: int, luck: np.uint64, arms: NDArray[np.int64]
) -> bool:
    """Fill `arms` with what the sampler proposes and the guard admits; True if that can never change again."""
    if begin(params.guard, params.sets, state.sets, state.book, graph, number, arms):
        return True
    propose(state.sets, state.sampler, graph, luck, params.free_look, arms)
    if params.reveal:
        reveal_instead(state.sets, state.sampler, state.bills, graph, arms)
    admit(params.sets, state.sets, state.book, graph, number, luck, arms)
    return False


@inlined
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
    note(params.sets, state.sets, state.book, seen, rewards, n, scheduled)
    learn(state.sets, state.sampler, luck, seen, rewards, n)


@kernel
def schedule(params: Params, state: State, graph: GraphArrays, arms: NDArray[np.int64]) -> None:
    """Note that rewards of these arms are on their way, so that elimination explores others."""
    elimination.schedule(params.sets, state.sets, graph, arms)


@kernel
def release(params: Params, state: State, graph: GraphArrays, arms: NDArray[np.int64]) -> None:
    """Note that rewards of these arms will not come."""
    elimination.release(params.sets, state.sets, graph, arms)


class GuardedThompson(CompiledPolicy):
    """Thompson sampling that uses the graph, inside twice the guarantee of elimination, with a certificate.

    Use it first. It needs no horizon. On ordinary instances it loses about what `ThompsonSampling` does, less
    where arms reveal each other, and far less where a bad arm reveals many. With probability 1 - delta its regret
    is at most ``1 + factor`` times the bound of `CombinatorialElimination`, O(ln(KT/delta) (alpha ln K + S) / gap)
    and O(sqrt(alpha S T) + S sqrt(T)) up to logarithms, whatever the noise that arms share.

    Parameters
    ----------
    graph, budget, seed, reward_range
        See `armtriage.Policy`. A reward r strictly between 0 and 1 counts as a win with probability r.
    delta : float
        Probability with which the guarantee and the certificates may fail.
    mode : {"time", "shadow"}
        What the proposals may lose: what elimination could have lost in the same number of rounds, or, for a tighter
        certificate at a higher price, only in layers that this run has completed.
    factor : float
        How many times that.
    free_look : bool
        Let arms that the incumbents reveal anyway compete with their means instead of draws.
    reveal : bool
        Pull a bad arm that reveals many once the direct looks that it could have spared cost as much.

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
    >>> policy.triage.eliminated
    array([2, 3])
    """

    kernels = Kernels(select, update, schedule, release)

    def __init__(
        self,
        graph: FeedbackGraph,
        budget: int,
        *,
        delta: float = 0.01,
        mode: str = "time",
        factor: float = 1.0,
        free_look: bool = True,
        reveal: bool = True,
        seed: int | None = None,
        reward_range: tuple[float, float] = (0.0, 1.0),
    ) -> None:
        super().__init__(graph, budget, seed=seed, reward_range=reward_range)
        self.delta = check_probability("delta", delta)
        self.mode = check_choice("mode", mode, MODES)
        self.factor = check_number("factor", factor)
        self.free_look = check_flag("free_look", free_look)
        self.reveal = check_flag("reveal", reveal)

    @cached_property
    def _elimination(self) -> elimination.CombinatorialElimination:
        return elimination.CombinatorialElimination(self.graph, self.budget, delta=self.delta, seed=self.seed)

    @property
    def triage(self) -> Triage:
        """The confirmed, active and eliminated arms, as of the last time that intervals were computed."""
        status = self._state.sets.status
        return Triage(*(np.flatnonzero(status == kind) for kind in (CONFIRMED, ACTIVE, ELIMINATED)))

    @property
    def interval_failures(self) -> int:
        """How often an arm's new interval contradicted its old ones: a sign of drift, or of bad luck."""
        return int(self._state.sets.whole[FAILED])

    @property
    def account(self) -> Account:
        """What admitted proposals can have lost, what they may, and how often elimination had to step in."""
        book, width = self._state.book, self.reward_range[1] - self.reward_range[0]
        return Account(
            width * float(book.real[SPENT]),
            width * float(book.real[ALLOWED]),
            int(book.whole[FORCED]),
            self.factor,
        )

    def triage_log(self, state: Any = None) -> TriageLog:
        """Return when arms were confirmed or eliminated, in order."""
        sets = (self._state if state is None else state).sets
        n = int(sets.whole[LOGGED])
        arms = sets.log_arms[:n].copy()
        return TriageLog(arms, sets.log_rounds[:n].copy(), sets.status[arms] == CONFIRMED)

    def certificate(self, *, delta: float | None = None, next_decision: ArrayLike | None = None) -> Certificate:
        """Return what the decisions so far, and one to come, can have lost, with the policy's own `delta` by default.

        Examples
        --------
        >>> policy = GuardedThompson(FeedbackGraph.semi_bandit(3), budget=1, seed=7)
        >>> policy.certificate().confidence
        0.99
        """
        if delta is not None and delta != self.delta:
            return super().certificate(delta=delta, next_decision=next_decision)
        sets, book = self._state.sets, self._state.book
        lower, upper = confidence_interval(sets.counts, sets.sums, n_arms=self.n_arms, delta=self.delta)
        kept = np.maximum(lower, sets.lower) <= np.minimum(upper, sets.upper)
        bounds = Bounds(
            np.where(kept, np.maximum(lower, sets.lower), lower), np.where(kept, np.minimum(upper, sets.upper), upper)
        )
        low, high = self.reward_range
        return certificate_of(
            self._record._replace(sums=(high - low) * sets.sums + low * sets.counts),
            self._asked,
            self.budget,
            delta=self.delta,
            reward_range=self.reward_range,
            next_decision=next_decision,
            bounds=bounds,
            sum_of_certificates=(high - low) * float(book.real[TOTAL]),
            contradictions=self.interval_failures + int(np.count_nonzero(~kept)),
            account=self.account,
        )

    def params(self) -> Params:
        """Return the parameters of the kernels."""
        plain = self.graph.n_edges == self.n_arms
        guard = GuardParams(self.factor, self.mode == "shadow", plain)
        return Params(self._elimination.params(), guard, self.free_look, self.reveal and not plain)

    def new_state(self) -> State:
        """Return the state before the first round."""
        n, budget = self.n_arms, self.budget
        sets = self._elimination.new_state()
        return State(sets, new_book(n, budget), new_sampler(n, budget), new_bills(n, budget))
