"""Guard: elimination's guarantee around anybody's policy, or any function that returns arms."""

from __future__ import annotations

import inspect
import warnings
from collections.abc import Callable, Mapping
from functools import cached_property
from typing import Any, Self, Unpack

import numpy as np
from numpy.typing import ArrayLike, NDArray

from armtriage._arguments import check_arms
from armtriage.decisions import DecisionSet
from armtriage.graphs.feedback import FeedbackGraph, GraphArrays
from armtriage.kernels.jit import kernel
from armtriage.kernels.random import row_of, stream
from armtriage.kernels.record import Record
from armtriage.policies.contextual import ContextualPolicy
from armtriage.policies.eligible import Among, Crowd
from armtriage.policies.eligible.choosing import believe_means
from armtriage.policies.eligible.guarding import choose_proposed
from armtriage.policies.elimination import elimination
from armtriage.policies.elimination import sets as triage
from armtriage.policies.facts import arrays_of, facts_of, require, restore_arrays, take_facts
from armtriage.policies.guard.account import GuardParams, admit, begin, note
from armtriage.policies.guard.decision_account import DecisionBook, DecisionParams, lose, note_rewards
from armtriage.policies.guard.guarded import GuardedPolicy, GuardState
from armtriage.policies.guard.over_decisions import DecisionGuard, judge, new_guard
from armtriage.policies.linear import ContextualGuard
from armtriage.policies.lock import locked
from armtriage.policies.options import Options
from armtriage.policies.policy import Policy, kinds_of
from armtriage.policies.proposals import Proposed, check_takes
from armtriage.policies.rewards import Told
from armtriage.policies.saved import part_of
from armtriage.policies.slate import SlatePolicy

__all__ = ["Guard"]

_NONE = np.empty(0, np.int64)
_AMONG = Among(choose_proposed, believe_means)
_OF_A_ROUND = {"context", "contexts", "feature", "features", "user", "users", "visitor", "visitors"}


class Post(Record):
    """Everything that the guard works on, which Python hands over as one object."""

    guard: GuardParams
    params: triage.Params
    state: GuardState
    graph: GraphArrays


@kernel
def _decide(post: Post, number: int, luck: np.uint64, arms: NDArray[np.int64]) -> None:
    """Replace the proposal in `arms` if the guard does not admit it."""
    sets, book = post.state.sets, post.state.book
    if not begin(post.guard, post.params, sets, book, post.graph, number, arms):
        admit(post.params, sets, book, post.graph, number, luck, arms)


@kernel
def _note(post: Post, arms: NDArray[np.int64], rewards: NDArray[np.float64]) -> None:
    note(post.params, post.state.sets, post.state.book, arms, rewards, arms.size, True)


@kernel
def _await(post: Post, arms: NDArray[np.int64], more: bool) -> None:
    """Note that rewards of these arms are on their way, or that they will not come."""
    if more:
        elimination.schedule(post.params, post.state.sets, post.graph, arms)
    else:
        elimination.lose(post.state.sets, arms)


class Guard(Proposed, GuardedPolicy):
    """Play what a proposer wants while it certainly loses little enough, and rounds of elimination otherwise.

    It assumes that an arm's mean is constant given all that the proposer sees: one that looks at the visitor of this
    round breaks it, and is warned of if its parameters tell. Then, when every reward is told before the next ask, the
    regret is at most ``1 + factor`` times the bound of `CombinatorialElimination` with probability 1 - delta, for any
    proposals: brilliant, stuck, or broken. `docs/what-must-be-true.md` has the rest, late and lost rewards too.

    Parameters
    ----------
    proposer : Policy or callable
        A policy with the same graph, budget and range, of which a fresh copy proposes and learns from all that is told.
        Or a function that is called with the
        number of the decision and returns `budget` different arms, or those of a decision of the set; it is not saved,
        so set `proposer` after `load`. If it raises or returns anything else, the guard chooses the arms of largest
        upper ends in its place, logs that (logger ``armtriage``) and counts it in `proposer_failures`.
    graph, budget, decisions, names, reward_range, direction, sleepers_seen
        See `armtriage.Policy`.
    seed : int, optional
        Fixes the guard's own randomness, and that of a policy that proposes; None draws a fresh one.
    dimension : int, optional
        Makes an `armtriage.ContextualGuard` instead, for a function that looks at the contexts of each request: then
        `graph` is the number of arms, if it is fixed, and all other arguments are those of `armtriage.GuardedLinear`.
    features : Features, optional
        The same, with contexts that are made of raw rows.
    delta, mode, factor, patterns
        See `armtriage.GuardedThompson`.

    Examples
    --------
    >>> from armtriage import FeedbackGraph, StochasticEnvironment
    >>> graph = FeedbackGraph.semi_bandit(4)
    >>> env = StochasticEnvironment([0.9, 0.5, 0.5, 0.1], graph, seed=7)
    >>> policy = Guard(lambda number: [3], graph, budget=1)
    >>> for t in range(2000):
    ...     decision = policy.ask()
    ...     policy.tell(decision, env.rewards(t, decision.revealed))
    >>> decision.arms
    array([0])
    """

    def __new__(cls, *given: Any, **options: Any) -> Any:
        """Return a guard that `__init__` is to fill or, for a problem with contexts, a whole `ContextualGuard`."""
        if cls is not Guard or {"dimension", "features"}.isdisjoint(options):
            return super().__new__(cls)
        about = dict(zip(("proposer", "graph", "budget"), given, strict=False)) | options
        return ContextualGuard(n_arms=about.pop("graph", None), **about)

    def __init__(
        self,
        proposer: Policy | Callable[..., ArrayLike] | None,
        graph: FeedbackGraph | int | None = None,
        budget: int | None = None,
        *,
        decisions: DecisionSet | None = None,
        delta: float = 0.01,
        mode: str = "time",
        factor: float = 1.0,
        patterns: int = 0,
        **options: Unpack[Options],
    ) -> None:
        if graph is None:
            raise TypeError("graph must be a FeedbackGraph or a number of arms without dimension, got None")
        super().__init__(
            graph, budget, decisions=decisions, delta=delta, mode=mode, factor=factor, patterns=patterns, **options
        )
        self.proposer = proposer
        self._stream = stream(self.seed, "policy")

    @property
    def proposer(self) -> Policy | Callable[[int], ArrayLike] | None:
        """Who proposes; after `load`, set the function that was not saved."""
        return self._proposer

    @proposer.setter
    def proposer(self, proposer: Policy | Callable[[int], ArrayLike] | None) -> None:
        inner = self._copy_of(proposer) if isinstance(proposer, Policy) else None
        if proposer is not None and not callable(proposer) and inner is None:
            raise TypeError(f"proposer must be a Policy or a function that returns arms, got {proposer!r}")
        if inner is None:
            check_takes(proposer, "the number of the decision")
        self._proposer, self._inner = proposer, inner
        self.learns_at_once = inner is not None and inner.learns_at_once
        if inner is not None:
            self._share()
            if self._crowd is None:
                for decision in self._open.values():
                    inner._schedule(decision.shown)
        if (asked := _beyond_the_number(proposer)) is not None:
            warnings.warn(
                f"proposer asks for {asked!r}, but the guard hands over the number of the decision only, and what "
                "depends on this round's visitor breaks its guarantee and its certificate: give dimension for a guard "
                "over contexts, or take a guard for each segment of visitors",
                UserWarning,
                stacklevel=3,
            )

    def _share(self) -> None:
        """Let a policy that proposes know what the guard has asked and been told: it is asked and told nothing else."""
        if self._inner is not None:
            mine = vars(self)
            same = ("_roster", "_own_tally", "_open", "_parts", "_complete", "_missed", "_asked", "_plain")
            # What new arms show is noted here only, and known when the graph is asked for.
            graph = self._graph if self._plain else self.graph
            vars(self._inner).update({name: mine[name] for name in same if name in mine}, _graph=graph)

    def _copy_of(self, proposer: Policy) -> Policy:
        if isinstance(proposer, ContextualPolicy | Guard):
            raise ValueError(f"proposer must choose arms without contexts and be no Guard itself, got {proposer!r}")
        for name in ("graph", "decisions", "budget", "reward_range"):
            if getattr(proposer, name) != getattr(self, name):
                had = f"{getattr(proposer, name)!r} and {getattr(self, name)!r}"
                raise ValueError(f"proposer must have the same {name} as the guard, got {had}")
        return proposer.fresh(self.seed)

    @cached_property
    def _post(self) -> Post:
        return Post(self._guard_params(), self._elimination.params(), self._guard(), self.graph.arrays)

    # As in `policies.compiled`: records are made anew, and filled.
    _of_this_process = GuardedPolicy._of_this_process | {"_book_state", "_post"}

    @locked
    def __getstate__(self) -> dict[str, Any]:
        state = super().__getstate__()
        return {**state, "_kept": {name: array.copy() for name, array in arrays_of(self._book_state).items()}}

    def __setstate__(self, state: dict[str, Any]) -> None:
        kept = state.pop("_kept")
        super().__setstate__(state)
        restore_arrays(arrays_of(self._book_state), kept)

    @cached_property
    def _book_state(self) -> GuardState | DecisionGuard:
        return self._new_guard() if self._over is None else new_guard(self._decision_params)

    def _guard(self, state: Any = None) -> GuardState:
        return self._book_state if state is None else state  # type: ignore[return-value]

    def _decision_book(self) -> DecisionBook:
        assert isinstance(self._book_state, DecisionGuard)
        return self._book_state.book

    def _select(self, number: int) -> NDArray[np.int64]:
        if isinstance(self._book_state, DecisionGuard):
            assert self._over is not None
            return self._judged(self._decision_params, number, None, _NONE)
        arms = np.arange(self.budget)
        sets = self._book_state.sets
        if sets.n_active + sets.n_confirmed > self.budget:
            arms = self._proposal(number)
        _decide(self._post, number, row_of(self._stream, number), arms)
        arms.sort()
        return arms

    def _judged(
        self, params: DecisionParams, number: int, among: NDArray[np.int64] | None, exclude: NDArray[np.int64]
    ) -> NDArray[np.int64]:
        """Return what is played over a decision set: what is certain, what is proposed, or another decision."""
        guard = self._book_state
        assert isinstance(guard, DecisionGuard)
        assert self._over is not None
        book = guard.book
        certain = book.n_committed >= 0
        arms = book.committed[: book.n_committed] if certain else self._proposal(number, among)
        return judge(params, guard, self._over, number, arms, exclude)

    def _proposal(self, number: int, among: NDArray[np.int64] | None = None) -> NDArray[np.int64]:
        """Return what the proposer wants, among eligible arms if they are given, checked."""
        if self._inner is None:
            return self._called_or_hopeful(number, among)
        return self._inner._select(number) if among is None else self._inner._select_among(number, among)[0]

    def _called_or_hopeful(self, number: int, among: NDArray[np.int64] | None) -> NDArray[np.int64]:
        """Return the arms that the function wants or, if it fails, those of largest upper ends; ascending."""
        if self.proposer is None:
            raise ValueError("proposer must be set again after load, since a function cannot be saved; got None")
        try:
            return self._called(number, among)
        except Exception as error:
            arms = self._hopeful(among)
            self._note_failure(number, error)
            return arms

    def _hopeful(self, among: NDArray[np.int64] | None) -> NDArray[np.int64]:
        """Return the decision of largest upper ends, of arms that are alike those with fewest pulls."""
        everybody = np.arange(self.n_arms)
        eligible = everybody if among is None else among
        if self._over is not None:
            asleep = np.setdiff1d(everybody, eligible, assume_unique=True)
            arms = self._over.maximise(self._decision_book().upper, (), asleep)
            if arms is None:
                raise ValueError(f"eligible must leave a decision of {self._over!r}, got {eligible.size} arms")
            return arms
        upper = (self._guard().sets if self._crowd is None else self._crowd.rows).upper
        order = np.lexsort((self.tally.pulls[eligible], -upper[eligible]))
        return np.sort(eligible[order[: self.budget]])

    def _called(self, number: int, among: NDArray[np.int64] | None) -> NDArray[np.int64]:
        """Return the arms that the function wants, ascending."""
        assert self.proposer is not None
        assert not isinstance(self.proposer, Policy)
        if among is None or "eligible" not in inspect.signature(self.proposer).parameters:
            given = self.proposer(number)
        else:
            given = self.proposer(number, eligible=self._roster.named(among))  # type: ignore[call-arg]
        if self._over is not None:
            arms = np.unique(check_arms(given, self.n_arms, "the arms that proposer returns"))
            if arms.size != np.size(given) or not self._over.contains(arms):
                raise ValueError(f"proposer must return a decision of {self._over!r}, got {given!r}")
            if among is not None and not np.isin(arms, among).all():
                raise ValueError(f"proposer must return eligible arms, got {given!r}")
            return arms
        size = self.budget if among is None else min(self.budget, among.size)
        wanted = "the arms that proposer returns"
        named = self._roster.names is not None
        arms = np.sort(self._roster.numbers(given, wanted) if named else check_arms(given, self.n_arms, wanted).ravel())
        if arms.size != size or np.any(np.diff(arms) == 0):
            raise ValueError(f"proposer must return {size} different arms, got {given!r}")
        if among is not None and not np.isin(arms, among).all():
            raise ValueError(f"proposer must return eligible arms, got {given!r}")
        return arms

    def _leave_fixed(self) -> None:
        for name in ("_book_state", "_post"):
            vars(self).pop(name, None)

    @property
    def _may_change(self) -> bool:
        return self._inner is None or self._inner._may_change

    def _new_crowd(self) -> Crowd:
        rules = self._guard_rules(self._elimination.params(), False)
        crowd = Crowd(_AMONG, rules, self._graph, self._stream)
        self._fill_guard(crowd.rows)
        return crowd

    def _gather(self) -> Crowd:
        if self._inner is not None:
            self._share()
            self._inner._take_in_arms()
        return super()._gather()

    def _select_among(
        self, number: int, among: NDArray[np.int64]
    ) -> tuple[NDArray[np.int64], NDArray[np.float64] | None]:
        if self._over is not None:
            return self._choose_among(among, lambda params, left: self._judged(params, number, among, left)), None
        if self.decisions is not None and among.size < self.budget:
            raise ValueError(f"eligible must leave a decision of {self.decisions!r}, got {among.size} arms")
        crowd = self._gather()
        if among.size <= self.budget:
            return crowd.choose(number, among)
        return crowd.choose(number, among, self._proposal(number, among))

    def _count_among(self, among: NDArray[np.int64], arms: NDArray[np.int64], shown: NDArray[np.int64]) -> None:
        super()._count_among(among, arms, shown)
        if self._inner is not None and self._crowd is not None:
            self._inner._count_among(among, arms, shown)

    def _close_among(self, told: Told) -> None:
        super()._close_among(told)
        if self._inner is not None:
            self._inner._close_among(told)

    def _weigh(self, arms: NDArray[np.int64], weights: NDArray[np.float64]) -> None:
        super()._weigh(arms, weights)
        if self._inner is not None:
            self._inner._weigh(arms, weights)

    def _forget(self, arms: list[int]) -> None:
        super()._forget(arms)
        if self._inner is not None:
            self._inner._forget(arms)

    def _share_again(self, arms: list[int]) -> None:
        super()._share_again(arms)
        if self._inner is not None:
            self._inner._share_again(arms)

    def _teach(self, number: int, arms: NDArray[np.int64], rewards: NDArray[np.float64]) -> None:
        assert self._inner is not None
        if self._crowd is not None:
            self._crowd.teach(number, arms, rewards)
        self._inner._teach(number, arms, rewards)

    def _catch_up(self, told: Told) -> None:
        if self._over is not None:
            note_rewards(self._decision_params, self._decision_book(), told.arms, told.rewards, told.arms.size)
        else:
            _note(self._post, told.arms, told.rewards)
        if self._inner is not None:
            self._inner._catch_up(told)

    def _update(self, number: int, arms: NDArray[np.int64], rewards: NDArray[np.float64]) -> None:
        self._catch_up(Told(number, arms, rewards))

    def _schedule(self, arms: NDArray[np.int64]) -> None:
        if self._over is None:
            _await(self._post, arms, True)
        if self._inner is not None:
            self._inner._schedule(arms)

    def _release(self, arms: NDArray[np.int64]) -> None:
        if self._over is not None:
            lose(self._decision_book(), arms)
        else:
            _await(self._post, arms, False)
        if self._inner is not None:
            self._inner._release(arms)

    @property
    def _format(self) -> int:  # type: ignore[override]
        return self._inner._format if self._inner is not None else GuardedPolicy._format

    def _inner_arrays(self) -> dict[str, NDArray[Any]]:
        """Return what a file keeps of a policy that proposes, beside what the guard knows."""
        inner, known = self._inner, dict[str, NDArray[Any]]()
        if isinstance(inner, SlatePolicy):
            known = inner._known()
        elif inner is not None:
            known = inner._arrays() if inner._crowd is None else inner._crowd.arrays()
        return {f"proposer.{name}": array for name, array in known.items()}

    def _arrays_among(self) -> dict[str, NDArray[Any]]:
        return super()._arrays_among() | self._inner_arrays()

    def _arrays(self) -> dict[str, NDArray[Any]]:
        return facts_of(self._book_state) | self._set_arrays() | self._inner_arrays()

    def _restore_inner(self, arrays: Mapping[str, NDArray[Any]]) -> None:
        """Take back what `_inner_arrays` returned: the policy has seen what the guard has, and must know the same."""
        inner, known = self._inner, part_of(arrays, "proposer.")
        if inner is None:
            require(not known, "a function that proposes has no state")
            return
        self._share()
        if isinstance(inner, SlatePolicy):
            parts = {name: part_of(known, f"{name}.") for name in ("evidence", "ghosts", "state", "tally", "rows")}
            if not parts["evidence"]:
                rows = self._crowd is not None
                parts |= {"rows": known} if rows else {"tally": self.tally._asdict(), "state": known}
            inner._restore(inner._restore_known(parts))
        elif self._crowd is None:
            inner._restore(known)
        else:
            crowd = inner._crowd = inner._new_crowd()
            crowd.share_all(self._roster, self.n_arms)
            early = self._early() if self.learns_at_once else np.zeros(self.n_arms, np.int64)
            crowd.restore(known, self._asked, self._awaited(), early)

    def _restore_among(self, arrays: Mapping[str, NDArray[Any]]) -> None:
        super()._restore_among({name: array for name, array in arrays.items() if not name.startswith("proposer.")})
        self._restore_inner(arrays)

    def _restore(self, arrays: Mapping[str, NDArray[Any]]) -> None:
        for name in ("_book_state", "_post"):
            vars(self).pop(name, None)
        own = {name: array for name, array in arrays.items() if not name.startswith("proposer.")}
        of_sets = {name: array for name, array in own.items() if name.startswith(("pages.", "by_set."))}
        take_facts(self._book_state, {name: array for name, array in own.items() if name not in of_sets})
        self._rebuild_guard()
        self._restore_sets(of_sets, self._rebuild_guard)
        self._restore_inner(arrays)

    def _saved_config(self) -> dict[str, Any]:
        recipe = None
        if isinstance(self.proposer, Policy):
            recipe = {"policy": type(self.proposer).__name__, "config": self.proposer._saved_config()}
        return {**super()._saved_config(), "proposer": recipe}

    @classmethod
    def _make(cls, graph: FeedbackGraph, config: Mapping[str, Any]) -> Self:
        given = dict(config)
        proposer = given.pop("proposer")
        if isinstance(proposer, Mapping):
            kinds, name = kinds_of(Policy), str(proposer["policy"])
            if name not in kinds or issubclass(kinds[name], ContextualPolicy | Guard):
                raise ValueError(f"proposer must be a policy that chooses budget arms, got {name}")
            own = {} if given.get("decisions") is None else {"decisions": given["decisions"]}
            proposer = kinds[name]._make(graph, {**proposer["config"], **own})
        return cls(proposer, graph, **given)


# What `help` shows is what `__init__` takes: of two constructors it would show the first.
vars(Guard.__new__)["__signature__"] = inspect.signature(Guard.__init__)


def _beyond_the_number(proposer: object) -> str | None:
    """Return the name of a parameter that the guard has nothing for: of this round, or without a default."""
    if isinstance(proposer, Policy) or not callable(proposer):
        return None
    try:
        parameters = list(inspect.signature(proposer).parameters.values())
    except (TypeError, ValueError):
        return None
    named = [one for one in parameters if one.kind not in (one.VAR_POSITIONAL, one.VAR_KEYWORD)]
    asks = (one.name for i, one in enumerate(named) if one.name in _OF_A_ROUND or (i > 0 and one.default is one.empty))
    return next(asks, None)
