"""Guard: elimination's guarantee around any policy, or any function that returns arms."""

from __future__ import annotations

import inspect
import warnings
from collections.abc import Callable, Mapping
from functools import partial
from typing import Any, Self, Unpack

import numpy as np
from numpy.typing import ArrayLike, NDArray

from armtriage._arguments import check_arms
from armtriage.decisions import Decision, DecisionSet
from armtriage.graphs.feedback import FeedbackGraph
from armtriage.kernels.jit import kernel
from armtriage.kernels.record import Floats, Ints, Record
from armtriage.policies.contextual import ContextualPolicy
from armtriage.policies.evidence import Evidence
from armtriage.policies.facts import require
from armtriage.policies.guard.account import Book, GuardParams, look, look_and_admit, renew_intervals, take_or_pay
from armtriage.policies.guard.decision_account import DecisionParams
from armtriage.policies.guard.guarded import Chosen, GuardedPolicy, OverSlates, first_book, guard_params, renewed_book
from armtriage.policies.guard.over_decisions import KERNELS_OF_GUARD, DecisionGuard, OverDecisions, judge, new_guard
from armtriage.policies.linear import ContextualGuard
from armtriage.policies.options import GuardOptions
from armtriage.policies.policy import Policy, kinds_of
from armtriage.policies.proposals import Proposed, check_takes
from armtriage.policies.request import ALL, Kernels, Request, believe_means, learn_nothing
from armtriage.policies.rewards import Told
from armtriage.policies.saved import part_of
from armtriage.policies.slate import SlatePolicy

_NONE = np.empty(0, np.int64)
_WANTED = "the arms that proposer returns"
_OF_A_ROUND = {"context", "contexts", "feature", "features", "user", "users", "visitor", "visitors"}


class Own(Record):
    """The guard's book: what proposals follow from is the proposer's."""

    book: Book


@kernel
def choose(params: GuardParams, evidence: Evidence, own: Own, request: Request) -> bool:
    """Keep the proposal in `arms`, or put there what is certain, or what the guard plays instead."""
    arms, book = request.arms[: request.size], own.book
    view = look(params, evidence, book, request)
    if take_or_pay(params, evidence, book, request, view, arms):
        return request.epoch == ALL
    look_and_admit(params, evidence, book, request, view, arms)
    return False


@kernel
def settled(params: GuardParams, evidence: Evidence, own: Own, request: Request, seen: Ints) -> None:
    """Let intervals follow what was settled."""
    renew_intervals(params, evidence, own.book, seen)


class _Slates(OverSlates["Guard"]):
    """Slates that a function or another policy proposes."""

    kernels = Kernels(choose, learn_nothing, believe_means, settled=settled)

    def params(self, policy: Guard) -> GuardParams:
        return guard_params(policy)

    def new_own(self, policy: Guard, evidence: Evidence) -> Own:
        return Own(first_book(policy, evidence))

    def renewed_own(self, policy: Guard, old: Own) -> Own:
        return Own(renewed_book(policy, old.book))

    def chosen(self, policy: Guard, number: int, among: Ints | None) -> Chosen:
        n = policy.n_arms if among is None else among.size
        size, view = min(n, policy.budget), policy._book.everyone
        if n > size and (among is not None or view.n_open + view.n_confirmed > size):
            policy._request.arms[:size] = policy._proposal(number, among)
        return super().chosen(policy, number, among)

    def hopeful(self, policy: Guard, among: Ints | None) -> Ints:
        """Return the arms of largest upper ends, of those that are alike the ones with fewest pulls."""
        eligible = np.arange(policy.n_arms) if among is None else among
        order = np.lexsort((policy.tally.pulls[eligible], -policy._evidence.upper[eligible]))
        return np.sort(eligible[order[: policy.budget]])

    def checked(self, policy: Guard, given: Any, among: Ints | None) -> Ints:
        """Return the slate that the function returned, ascending."""
        size = policy.budget if among is None else min(policy.budget, among.size)
        named = policy._roster.names is not None
        arms = policy._roster.numbers(given, _WANTED) if named else check_arms(given, policy.n_arms, _WANTED).ravel()
        arms = np.sort(arms)
        if arms.size != size or np.any(np.diff(arms) == 0):
            raise ValueError(f"proposer must return {size} different arms, got {given!r}")
        return arms


class _Decisions(OverDecisions["Guard"]):
    """Decisions of a set that a function or another policy proposes."""

    kernels = KERNELS_OF_GUARD

    def new_own(self, policy: Guard, evidence: Evidence) -> DecisionGuard:
        return new_guard(policy._decision_params, evidence)

    def chosen(self, policy: Guard, number: int, among: Ints | None) -> Chosen:
        guard = policy._own

        def judged(params: DecisionParams, exclude: Ints) -> Ints:
            book = guard.book
            certain = book.n_committed >= 0
            arms = book.committed[: book.n_committed] if certain else policy._proposal(number, among)
            return judge(params, guard, policy._set, number, arms, exclude)

        return self.choose(policy, among, judged), None

    def hopeful(self, policy: Guard, among: Ints | None) -> Ints:
        """Return the decision of largest upper ends."""
        eligible = np.arange(policy.n_arms) if among is None else among
        asleep = np.setdiff1d(np.arange(policy.n_arms), eligible, assume_unique=True)
        arms = policy._set.maximise(policy._book.upper, (), asleep)
        if arms is None:
            raise ValueError(f"eligible must leave a decision of {policy._set!r}, got {eligible.size} arms")
        return arms

    def checked(self, policy: Guard, given: Any, among: Ints | None) -> Ints:
        """Return the decision that the function returned, ascending."""
        arms = np.unique(check_arms(given, policy.n_arms, _WANTED))
        if arms.size != np.size(given) or not policy._set.contains(arms):
            raise ValueError(f"proposer must return a decision of {policy._set!r}, got {given!r}")
        return arms


class Guard(Proposed, GuardedPolicy):
    """Play what a proposer wants while it certainly loses little enough, and rounds of elimination otherwise.

    It assumes that an arm's mean is constant given all that the proposer sees: one that looks at the visitor of this
    round breaks it, and is warned of if its parameters tell. Then, when every reward is told before the next ask, the
    regret is at most ``1 + factor`` times the bound of its rounds of elimination with probability 1 - delta, for any
    proposals: brilliant, stuck, or broken. `docs/what-must-be-true.md` has the rest, late and lost rewards too.

    Parameters
    ----------
    proposer : Policy or callable
        A policy with the same graph, budget and range, of which a fresh copy proposes and learns from all that is told.
        Or a function that is called with the
        number of the decision and returns `budget` different arms, or those of a decision of the set; it is not saved,
        so set `proposer` after `load`. If it raises or returns anything else, the guard chooses the arms of largest
        upper ends in its place, logs that (logger ``armtriage``) and counts it in `proposer_failures`.
    graph, budget, decisions, names, reward_range, direction, sleepers_seen, cap, logging_floor, floor_arms
        See `armtriage.Policy`.
    seed : int, optional
        Fixes the guard's own randomness, and that of a policy that proposes; None draws a fresh one.
    dimension : int, optional
        Makes an `armtriage.ContextualGuard` instead, for a function that looks at the contexts of each request: then
        `graph` is the number of arms, if it is fixed, and all other arguments are those of `armtriage.GuardedLinear`.
    features : Features, optional
        The same, with contexts that are made of raw rows.
    delta, mode, factor, price, patterns
        See `armtriage.GuardedThompson`.
    forget : {"alarm"}, optional
        As for `armtriage.GuardedThompson`; a policy that proposes begins again with the guard, and a function is told
        nothing of it.

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

    _over_slates = _Slates()
    _over_set = _Decisions()
    _problem: _Slates | _Decisions
    _proposer: Policy | Callable[[int], ArrayLike] | None

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
        **options: Unpack[GuardOptions],
    ) -> None:
        if graph is None:
            raise TypeError("graph must be a FeedbackGraph or a number of arms without dimension, got None")
        super().__init__(graph, budget, decisions=decisions, **options)
        self.proposer = proposer

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
            for decision in self._open.values():
                inner._note(None, _NONE, decision.shown)
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
            same = ("_roster", "_open", "_parts", "_complete", "_missed", "_asked", "_plain")
            # What new arms show is noted here only, and known when the graph is asked for.
            graph = self._graph if self._plain else self.graph
            vars(self._inner).update({name: mine[name] for name in same if name in mine}, _graph=graph)
            if not isinstance(self._inner, SlatePolicy):
                vars(self._inner)["_own_tally"] = self.tally

    def _copy_of(self, proposer: Policy) -> Policy:
        if isinstance(proposer, ContextualPolicy | Guard):
            raise ValueError(f"proposer must choose arms without contexts and be no Guard itself, got {proposer!r}")
        if getattr(proposer, "forget", None) is not None:
            raise ValueError(
                f"proposer must not forget by itself: the guard does, with forget and for both, got {proposer!r}"
            )
        for name in ("graph", "decisions", "budget", "reward_range"):
            if getattr(proposer, name) != getattr(self, name):
                had = f"{getattr(proposer, name)!r} and {getattr(self, name)!r}"
                raise ValueError(f"proposer must have the same {name} as the guard, got {had}")
        return proposer.fresh(self.seed)

    @property
    def in_simulation(self) -> bool:
        """Whether compiled code plays it alone: never, since it asks a function, or another policy."""
        return False

    def _ask_all(self, given: Ints | None = None) -> Decision:
        return self._ask_slowly(None, given)

    def _ask_some(self, mask: NDArray[np.bool_], live: bool) -> Decision:
        among = np.flatnonzero(mask)
        self._check_any(among.size, live)
        return self._ask_among(among)

    def _proposal(self, number: int, among: Ints | None = None) -> Ints:
        """Return what the proposer wants, among eligible arms if they are given, checked."""
        if self._inner is None:
            hopeful = partial(self._problem.hopeful, self, among)
            return self._wanted(number, partial(self._called, number, among), hopeful)
        return self._inner._chosen(number, among)[0]

    def _called(self, number: int, among: Ints | None) -> Ints:
        """Return the arms that the function wants, ascending."""
        assert self.proposer is not None
        assert not isinstance(self.proposer, Policy)
        wants = inspect.signature(self.proposer).parameters.get("eligible")
        if wants is None or (among is None and wants.default is not inspect.Parameter.empty):
            given = self.proposer(number)
        else:
            arms = self._roster.live if among is None else among
            given = self.proposer(number, eligible=self._roster.named(arms))  # type: ignore[call-arg]
        arms = self._problem.checked(self, given, among)
        if among is not None and not np.isin(arms, among).all():
            raise ValueError(f"proposer must return eligible arms, got {given!r}")
        return arms

    @property
    def _may_change(self) -> bool:  # type: ignore[override]
        return self._inner is None or self._inner._may_change

    def _take_in_arms(self) -> None:
        super()._take_in_arms()
        if self._inner is not None:
            self._share()
            self._inner._take_in_arms()

    def _note(self, among: Ints | None, arms: Ints, shown: Ints) -> None:
        super()._note(among, arms, shown)
        if isinstance(self._inner, SlatePolicy):
            self._inner._note(among, arms, shown)
        elif self._inner is not None:
            self._inner._schedule(shown)

    def _learn(self, number: int, arms: Ints, rewards: Floats, missing: Ints) -> None:
        if self._inner is None:
            super()._learn(number, arms, rewards, missing)
        else:
            Policy._learn(self, number, arms, rewards, missing)

    def _close_among(self, told: Told) -> None:
        super()._close_among(told)
        inner = self._inner
        if isinstance(inner, SlatePolicy):
            inner._close_among(told)
        elif inner is not None:
            inner._catch_up(told)
            inner._release(told.missing)

    def _teach(self, number: int, arms: Ints, rewards: Floats) -> None:
        super()._teach(number, arms, rewards)
        if self._inner is not None:
            self._inner._teach(number, arms, rewards)

    def _weigh(self, arms: Ints, weights: Floats) -> None:
        super()._weigh(arms, weights)
        if self._inner is not None:
            self._inner._weigh(arms, weights)

    def _forget(self, arms: list[int]) -> None:
        super()._forget(arms)
        if self._inner is not None:
            self._share()
            self._inner._forget(arms)

    def _begin_again(self) -> None:
        super()._begin_again()
        if isinstance(self._proposer, Policy):
            self._inner = self._copy_of(self._proposer)
            self._share()

    def _share_again(self, arms: list[int]) -> None:
        super()._share_again(arms)
        if self._inner is not None:
            self._inner._share_again(arms)

    def _known(self) -> dict[str, NDArray[Any]]:
        inner, known = self._inner, dict[str, NDArray[Any]]()
        if inner is not None:
            known = inner._known() if isinstance(inner, SlatePolicy) else inner._arrays()
        return super()._known() | {f"state.proposer.{name}": array for name, array in known.items()}

    def _restore(self, arrays: Mapping[str, NDArray[Any]]) -> None:
        own = {name: array for name, array in arrays.items() if not name.startswith("proposer.")}
        if "admitted" in own:
            # The files of before have the book's facts without its name.
            own = {name if self._problem.is_kept(name) else f"book.{name}": array for name, array in own.items()}
        super()._restore(own)
        inner, known = self._inner, part_of(arrays, "proposer.")
        if inner is None:
            require(not known, "a function that proposes has no state")
            return
        # The policy has seen what the guard has, and must know the same.
        self._share()
        if isinstance(inner, SlatePolicy):
            parts = {name: part_of(known, f"{name}.") for name in ("evidence", "ghosts", "state", "tally", "rows")}
            if not parts["evidence"]:
                parts |= {"rows": known} if "learned" in known else {"tally": self.tally.columns, "state": known}
            inner._restore(inner._restore_known(parts))
        else:
            inner._restore(known)

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
    several = inspect.Parameter.VAR_POSITIONAL, inspect.Parameter.VAR_KEYWORD
    named = [one for one in parameters if one.kind not in several and one.name != "eligible"]
    asks = (one.name for i, one in enumerate(named) if one.name in _OF_A_ROUND or (i > 0 and one.default is one.empty))
    return next(asks, None)
