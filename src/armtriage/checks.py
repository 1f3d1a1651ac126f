"""check_policy: the contract of ask and tell, as a check for any policy.

The checks come first, then the problems that they are made on: graphs, decision sets, contexts.
"""

from __future__ import annotations

import inspect
import tempfile
import warnings
from abc import ABC, abstractmethod
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from functools import partial
from pathlib import Path
from typing import Any, NamedTuple

import numpy as np

from armtriage.decisions import Decision, DecisionSet, Explicit, PartitionMatroid, Paths, TopS
from armtriage.environments import LinearEnvironment, StochasticEnvironment
from armtriage.errors import AlreadyTold, UnknownDecision
from armtriage.graphs import FeedbackGraph
from armtriage.kernels.record import Floats, Ints
from armtriage.policies import ContextualPolicy, Policy
from armtriage.simulation import simulate

_IN_REWARD_UNITS = ("noise_scale", "scale")
"""Options of policies that grow with the rewards."""


def check_policy(policy_class: Callable[..., Policy], **options: Any) -> None:
    """Put a policy through the contract of ask and tell; raise `AssertionError` saying what it breaks.

    What the policy raises by itself is told the same way, with what it was doing.

    Parameters
    ----------
    policy_class : class, or callable
        Called as ``policy_class(graph, budget=..., seed=..., **options)``; if it has a parameter `dimension`, as
        ``policy_class(n_arms, dimension, budget=..., seed=..., **options)``, and asked with contexts. If its
        constructor has a parameter `decisions`, it is called with it instead of `budget` as well; only with it, if it
        has no default.
    **options
        Further arguments it needs.

    Examples
    --------
    >>> from armtriage import C2UCB, CombUCB1, check_policy
    >>> check_policy(CombUCB1)
    >>> check_policy(C2UCB, width=0.5)
    """
    if not callable(policy_class) or isinstance(policy_class, Policy):
        raise TypeError(f"policy_class must be a class, or a function that makes policies, got {policy_class!r:.100}")
    name = getattr(policy_class, "__name__", repr(policy_class))
    with tempfile.TemporaryDirectory() as folder:
        with _doing(name, "when its signature was read"):
            cases = _cases(policy_class, options)
        for number, case in enumerate(cases):
            with _doing(name, f"when it was made with {case.given} and a seed"):
                _check_making(case)
            with _doing(name, "while it was asked and told"):
                _check_decisions(case)
            with _doing(name, "while fresh() was called, and others were made with its seed"):
                _check_determinism(case)
            with _doing(name, "while it was told late and in part"):
                _check_late_tells(case)
            with _doing(name, "while it was told what it must refuse"):
                _check_refused_tells(case)
            with _doing(name, "while it was asked what it must refuse"):
                _check_refused_questions(case)
            with _doing(name, "while it was saved and loaded"):
                # A file differs from bytes by nothing that a policy does, and waits for the disk.
                _check_saving(case, Path(folder, "policy") if number == 0 else None)
            with _doing(name, "while it was simulated"):
                _check_simulation(case)
            with _doing(name, "while it played in other units"):
                for stretch in case.stretches(case.make()):
                    _check_units(case, stretch)
            if isinstance(case, _LinearCase):
                with _doing(name, "while it was asked with contexts"):
                    _check_contexts(case)


@contextmanager
def _doing(name: str, what: str) -> Iterator[None]:
    """Say in an AssertionError what the policy called `name` was doing when anything else was raised."""
    try:
        yield
    except AssertionError:
        raise
    except Exception as error:
        raise AssertionError(f"{name} raised {type(error).__name__} {what}: {error}") from error


def _step(case: _Case, policy: Policy, number: int) -> Decision:
    decision = case.ask(policy, number)
    policy.tell(decision, case.rewards(decision.revealed, number))
    return decision


def _future(case: _Case, policy: Policy, first: int = 0, rounds: int = 12) -> list[list[int]]:
    return [_step(case, policy, number).arms.tolist() for number in range(first, first + rounds)]


def _expect(condition: bool, policy: Policy, fact: str, *shown: object) -> None:
    if not condition:
        raise AssertionError(f"{policy!r}: {fact.format(*shown) if shown else fact}")


def _expect_refusal(error: type[Exception], policy: Policy, action: str, *given: Any) -> None:
    try:
        getattr(policy, action)(*given)
    except error:
        return
    raise AssertionError(f"{policy!r}: {action}({', '.join(map(repr, given))}) should raise {error.__name__}")


def _check_making(case: _Case) -> None:
    policy: Any = case.make()
    if not isinstance(policy, Policy):
        raise AssertionError(f"it must be a subclass of Policy, or return one, got {policy!r:.100}")
    try:
        policy.config  # noqa: B018 - it may raise
    except AttributeError as error:
        what = "each argument of its constructor in an attribute of the same name"
        raise AssertionError(f"{type(policy).__name__} must keep {what}: {error}") from error


def _check_decisions(case: _Case) -> None:
    policy = case.make()
    for number in range(40):
        decision = case.ask(policy, number)
        arms, budget, allowed = decision.arms, case.budget, policy.decisions
        _expect(decision.number == number, policy, f"decision {number} has the number {decision.number}")
        right = isinstance(arms, np.ndarray) and arms.dtype == np.int64 and arms.ndim == 1
        _expect(right, policy, "arms must be a 1-D array of int64, got {!r:.100}", arms)
        _expect(allowed is not None or arms.size == budget, policy, f"a decision must have {budget} arms")
        _expect(bool(np.all(np.diff(arms) > 0)), policy, "arms must rise, got {}", arms)
        _expect(bool(np.all((arms >= 0) & (arms < case.n_arms))), policy, "arms out of range: {}", arms)
        _expect(allowed is None or allowed.contains(arms), policy, "{} is no decision of the set", arms)
        policy.tell(decision, case.rewards(decision.revealed, number))


def _check_determinism(case: _Case) -> None:
    policy = case.make()
    first = _future(case, policy)
    _expect(_future(case, case.make()) == first, policy, "the same seed gave other decisions")
    _expect(_future(case, policy.fresh()) == first, policy, "fresh() did not forget what was learned")


def _check_late_tells(case: _Case) -> None:
    policy = case.make()
    decisions = [case.ask(policy, number) for number in range(9)]
    _expect(len(policy.open_decisions) == 9, policy, "nine decisions should be open")
    for place in (4, 0, 8, 2):
        policy.tell(decisions[place].number, case.rewards(decisions[place].revealed, place))
    part = decisions[6].revealed[::2]
    policy.tell(decisions[6], dict(zip(part.tolist(), case.rewards(part, 6).tolist(), strict=True)))
    policy.tell(decisions[5], {})
    _expect([d.number for d in policy.open_decisions] == [1, 3, 7], policy, "decisions 1, 3 and 7 should be open")
    _future(case, policy, 9, 30)


def _check_refused_tells(case: _Case) -> None:
    policy, twin = case.make(), case.make()
    told, twin_told = _step(case, policy, 0), _step(case, twin, 0)
    waiting, twin_waiting = case.ask(policy, 1), case.ask(twin, 1)
    for one, other in ((told, twin_told), (waiting, twin_waiting)):
        _expect(one.arms.tolist() == other.arms.tolist(), policy, "the same seed gave other decisions")
    good = case.rewards(waiting.revealed, 1)
    high = policy.reward_range[1]
    bad: list[tuple[type[Exception], Any, Any]] = [
        (AlreadyTold, told, good),
        (UnknownDecision, 99, good),
        (UnknownDecision, twin_waiting, good),
        (TypeError, "0", good),
        (TypeError, waiting, ["x"] * good.size),
        (TypeError, waiting, {"x": 0.5}),
        (ValueError, waiting, np.append(good, 0.5)),
        (ValueError, waiting, np.full(good.size, np.nan)),
        (ValueError, waiting, np.full(good.size, np.inf)),
        (ValueError, waiting, np.full(good.size, high + 0.5)),
        (ValueError, waiting, {int(waiting.arms[0]): high, case.n_arms: high}),
        (ValueError, waiting, {int(waiting.arms[0]): np.nan}),
    ]
    for error, decision, rewards in bad:
        _expect_refusal(error, policy, "tell", decision, rewards)
    policy.tell(waiting, good)
    # The twin is told the same by arm, in another order.
    twin.tell(twin_waiting, dict(zip(waiting.revealed.tolist()[::-1], good.tolist()[::-1], strict=True)))
    _expect(_future(case, policy, 2) == _future(case, twin, 2), policy, "a refused tell changed the future")


def _check_refused_questions(case: _Case) -> None:
    policy, twin = case.make(), case.make()
    _future(case, policy)
    _future(case, twin)
    for error, question in case.bad_questions(policy):
        _expect_refusal(error, policy, "ask", question)
    _expect(not policy.open_decisions, policy, "a refused ask left a decision open")
    _expect(_future(case, policy, 12) == _future(case, twin, 12), policy, "a refused ask changed the future")


def _check_saving(case: _Case, path: Path | None) -> None:
    policy = case.make()
    _future(case, policy)
    waiting = case.ask(policy, 12)
    if path is None:
        loaded = type(policy).from_bytes(policy.to_bytes())
    else:
        policy.save(path)
        loaded = type(policy).load(path)
    kept = loaded.open_decisions
    _expect([one.number for one in kept] == [waiting.number], policy, "load lost an open decision")
    _expect(np.array_equal(kept[0].arms, waiting.arms), policy, "load changed the arms of an open decision")
    if waiting.contexts is not None:
        same = kept[0].contexts is not None and np.array_equal(kept[0].contexts, waiting.contexts)
        _expect(same, policy, "load changed the contexts of an open decision")
    rewards = case.rewards(waiting.revealed, 12)
    policy.tell(waiting, rewards)
    loaded.tell(waiting, rewards)
    same = _future(case, loaded, 13) == _future(case, policy, 13)
    how = "_arrays must hand out all that it learns, _restore take it back, and chance come from seed and number"
    _expect(same, policy, f"the loaded policy went another way: {how}")


def _check_simulation(case: _Case) -> None:
    policy, reference = case.make(), case.make()
    with warnings.catch_warnings():
        warnings.simplefilter("ignore", UserWarning)
        trace = simulate(policy, case.environment, horizon=60, record_decisions=True)
    assert trace.decisions is not None
    for number in range(60):
        played = trace.decisions[0, number]
        same = _step(case, reference, number).arms.tolist() == played[played >= 0].tolist()
        _expect(same, policy, f"ask and tell differ from simulate in round {number}")
    same = _future(case, policy) == _future(case, case.make())
    _expect(same, policy, "simulate changed the policy that it was given")


def _check_units(case: _Case, stretch: _Stretch) -> None:
    plain, wide = case.make(), case.make(**stretch.arguments)
    for number in range(30):
        left, right = case.ask(plain, number), case.ask(wide, number, stretch.of_contexts)
        _expect(left.arms.tolist() == right.arms.tolist(), wide, f"{stretch.argument} changed the decisions")
        rewards = case.rewards(left.revealed, number)
        plain.tell(left, rewards)
        wide.tell(right, stretch.rewards(rewards))


def _check_contexts(case: _LinearCase) -> None:
    policy, twin = case.make(), case.make()
    for number in range(30):
        contexts = case.contexts(number)
        decision, other = policy.ask(contexts), case.ask(twin, number)
        _expect(np.array_equal(contexts, case.contexts(number)), policy, "ask wrote on the contexts")
        for one in (decision, policy.open_decisions[-1]):
            same = one.contexts is not None and np.array_equal(one.contexts, contexts[decision.arms])
            _expect(same, policy, "a decision must have the contexts of its arms as they were given")
        # What the caller does with its arrays afterwards is its own business; those of a decision are the policy's.
        contexts[:] = np.nan
        assert decision.contexts is not None
        _expect(not decision.contexts.flags.writeable, policy, "the contexts of a decision must be read-only")
        same = np.array_equal(decision.arms, other.arms)
        _expect(same, policy, "contexts that were written on after ask changed what was learned")
        rewards = case.rewards(other.arms, number)
        policy.tell(decision, rewards)
        twin.tell(other, rewards)


class _Stretch(NamedTuple):
    """Other units: the arguments that set them, and rewards and contexts in them; decisions must not change."""

    argument: str
    arguments: dict[str, Any]
    rewards: Callable[[Floats], Floats]
    of_contexts: float = 1.0


class _Case(ABC):
    """A problem, with contexts or without; the number of a round fixes what is asked and what is told."""

    environment: StochasticEnvironment | LinearEnvironment

    def __init__(self, policy_class: Callable[..., Policy], options: dict[str, Any], budget: int) -> None:
        self.policy_class, self.options, self.budget = policy_class, options, budget

    @property
    def n_arms(self) -> int:
        """Number of arms."""
        return self.environment.n_arms

    @property
    @abstractmethod
    def given(self) -> str:
        """What a policy is made with, besides a seed and the options."""

    @abstractmethod
    def make(self, seed: int = 7, **more: Any) -> Policy:
        """Return a policy for the problem."""

    @abstractmethod
    def ask(self, policy: Policy, number: int, stretch: float = 1.0) -> Decision:
        """Ask for the decision of a round."""

    def bad_questions(self, policy: Policy) -> Iterator[tuple[type[Exception], Any]]:
        """Yield what `ask` must refuse, and how: nothing, if there is only one question."""
        yield from ()

    @abstractmethod
    def stretches(self, policy: Policy) -> Iterator[_Stretch]:
        """Yield the problem in other units, as far as the policy has them."""

    def rewards(self, arms: Ints, number: int) -> Floats:
        """Return the rewards of a round."""
        return self.environment.rewards(number, arms)

    def accepts(self, argument: str) -> bool:
        """Whether the policy can be made with this argument."""
        return argument in inspect.signature(self.policy_class).parameters


class _GraphCase(_Case):
    """A feedback graph with a number of arms to choose or a decision set; the policy is asked without contexts."""

    environment: StochasticEnvironment

    def __init__(
        self,
        policy_class: Callable[..., Policy],
        options: dict[str, Any],
        graph: FeedbackGraph,
        within: int | DecisionSet,
    ) -> None:
        decisions = None if isinstance(within, int) else within
        super().__init__(policy_class, options, within if isinstance(within, int) else within.size)
        self.environment = StochasticEnvironment(
            np.linspace(0.1, 0.9, graph.n_arms), graph, seed=5, decisions=decisions
        )

    @property
    def given(self) -> str:
        """What a policy is made with, besides a seed and the options."""
        return f"a graph and {'budget' if self.environment.decisions is None else 'decisions'}"

    def make(self, seed: int = 7, **more: Any) -> Policy:
        decisions = self.environment.decisions
        within = {"budget": self.budget} if decisions is None else {"decisions": decisions}
        return self.policy_class(self.environment.graph, **within, seed=seed, **{**self.options, **more})

    def ask(self, policy: Policy, number: int, stretch: float = 1.0) -> Decision:
        return policy.ask()

    def stretches(self, policy: Policy) -> Iterator[_Stretch]:
        """Yield rewards that were stretched, and shifted if all decisions have the same size, so lose the same."""
        if self.accepts("reward_range"):
            low, high = policy.reward_range
            decisions = self.environment.decisions
            smallest = None if decisions is None else decisions.maximise(-np.ones(decisions.n_arms))
            shift = 4.0 if smallest is None or smallest.size == self.budget else 0.0
            wide = {"reward_range": (8.0 * low - shift, 8.0 * high - shift)}
            yield _Stretch("reward_range", wide, lambda rewards: 8.0 * rewards - shift)


class _LinearCase(_Case):
    """Contexts, and a policy that is asked with them."""

    environment: LinearEnvironment

    def __init__(
        self, policy_class: Callable[..., Policy], options: dict[str, Any], n_arms: int, dimension: int, budget: int
    ) -> None:
        super().__init__(policy_class, options, budget)
        theta = np.linspace(1.0, -0.5, dimension)
        self.environment = LinearEnvironment(0.9 * theta / np.linalg.norm(theta), "cube", n_arms, seed=5)

    @property
    def given(self) -> str:
        """What a policy is made with, besides a seed and the options."""
        return "n_arms, dimension, budget"

    def make(self, seed: int = 7, **more: Any) -> ContextualPolicy:
        sizes = self.n_arms, self.environment.dimension
        policy = self.policy_class(*sizes, budget=self.budget, seed=seed, **{**self.options, **more})
        if not isinstance(policy, ContextualPolicy):
            raise AssertionError(f"{policy!r}: a policy with a dimension must be a ContextualPolicy")
        return policy

    def contexts(self, number: int) -> Floats:
        """Return the contexts of a round."""
        return self.environment.contexts(number)

    def ask(self, policy: Policy, number: int, stretch: float = 1.0) -> Decision:
        assert isinstance(policy, ContextualPolicy)
        return policy.ask(stretch * self.contexts(number))

    def bad_questions(self, policy: Policy) -> Iterator[tuple[type[Exception], Any]]:
        """Yield contexts that are no numbers, not finite, too long, or of another shape."""
        assert isinstance(policy, ContextualPolicy)
        good = self.contexts(1)
        for value in (np.nan, np.inf, -np.inf, 1.01 * policy.context_bound, -1e300):
            bad = good.copy()
            bad[-1, -1] = value
            yield ValueError, bad
        for bad in (good[:-1], good[:, :-1], good[0], good[np.newaxis], np.vstack([good, good[:1]])):
            yield ValueError, bad
        yield ValueError, [*good[:-1].tolist(), [0.0] * (good.shape[1] + 1)]
        for none in (good.astype(str), good.astype(complex), good.astype(object), None, "contexts"):
            yield TypeError, none

    def stretches(self, policy: Policy) -> Iterator[_Stretch]:
        """Yield longer contexts, and larger rewards; a shift would not leave them linear."""
        assert isinstance(policy, ContextualPolicy)
        if self.accepts("reward_range"):
            low, high = policy.reward_range
            given = {name: self.options.get(name) for name in _IN_REWARD_UNITS}
            wide = {name: 4.0 * value for name, value in given.items() if value is not None}
            wide["reward_range"] = (4.0 * low, 4.0 * high)
            yield _Stretch("reward_range", wide, lambda rewards: 4.0 * rewards)
        if self.accepts("context_bound"):
            yield _Stretch("context_bound", {"context_bound": 4.0 * policy.context_bound}, lambda rewards: rewards, 4.0)


def _cases(policy_class: Callable[..., Policy], options: dict[str, Any]) -> list[_Case]:
    """Return the problems for a policy: with contexts if it takes a `dimension`, over sets if it takes `decisions`."""
    if "dimension" in inspect.signature(policy_class).parameters:
        sizes = [(1, 1, 1), (7, 3, 3), (5, 1, 2), (6, 2, 1), (8, 4, 8), (12, 5, 4)]
        return [_LinearCase(policy_class, options, *size) for size in sizes]
    choice = _decisions_of(policy_class)
    graphs: list[tuple[FeedbackGraph, int | DecisionSet]] = []
    if choice is None or choice.default is not choice.empty:
        graphs += _graphs()
    if choice is not None:
        graphs += _sets()
    return [_GraphCase(policy_class, options, graph, within) for graph, within in graphs]


def _decisions_of(policy_class: Callable[..., Policy]) -> inspect.Parameter | None:
    """Return the parameter `decisions`, unless it is that of `Policy` itself, which only passes it on."""
    kind = policy_class
    while isinstance(kind, partial):
        kind = kind.func
    if getattr(kind, "__init__", None) is Policy.__init__:
        return None
    return inspect.signature(policy_class).parameters.get("decisions")


def _graphs() -> list[tuple[FeedbackGraph, int | DecisionSet]]:
    return [
        (FeedbackGraph.semi_bandit(1), 1),
        (FeedbackGraph.semi_bandit(7), 3),
        (FeedbackGraph.full_information(6), 1),
        (FeedbackGraph.cliques([3, 1, 4]), 8),
        (FeedbackGraph.erdos_renyi(12, 0.2, seed=3), 4),
    ]


def _sets() -> list[tuple[FeedbackGraph, int | DecisionSet]]:
    """Return decision sets: one decision, unequal sizes, arms in no decision, groups, routes, and no constraint."""
    roads = [(0, 1), (0, 1), (0, 2), (1, 2), (1, 3), (2, 3), (3, 4)]
    return [
        (FeedbackGraph.semi_bandit(3), Explicit([[0, 2]], n_arms=3)),
        (FeedbackGraph.semi_bandit(7), Explicit([[0, 1], [2], [1, 2, 3], [0, 3, 4], [5]], n_arms=7)),
        (FeedbackGraph.erdos_renyi(9, 0.2, seed=3), PartitionMatroid([0, 0, 0, 1, 1, 2, 2, 2, 2], [1, 1, 2])),
        (FeedbackGraph.cliques([4, 3]), Paths(5, roads, source=0, target=3)),
        (FeedbackGraph.semi_bandit(6), TopS(6, budget=2)),
    ]
