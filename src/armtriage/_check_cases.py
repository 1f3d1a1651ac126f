"""The problems that `check_policy` sets: how a policy is made for each, asked, and what it plays against."""

from __future__ import annotations

import inspect
from abc import ABC, abstractmethod
from collections.abc import Callable, Iterator
from functools import partial
from typing import Any, NamedTuple

import numpy as np
from numpy.typing import NDArray

from armtriage.decisions import Decision, DecisionSet, Explicit, PartitionMatroid, Paths, TopS
from armtriage.environments import LinearEnvironment, StochasticEnvironment
from armtriage.graphs.feedback import FeedbackGraph
from armtriage.policies.contextual import ContextualPolicy
from armtriage.policies.policy import Policy

__all__ = ["Case", "LinearCase", "Stretch", "cases"]

_IN_REWARD_UNITS = ("noise_scale", "scale")


class Stretch(NamedTuple):
    """Other units: arguments that name them, and rewards and contexts in them; decisions may not change."""

    argument: str
    arguments: dict[str, Any]
    rewards: Callable[[NDArray[np.float64]], NDArray[np.float64]]
    of_contexts: float = 1.0


class Case(ABC):
    """A problem without contexts or with them; a round's number fixes what is asked and what is told."""

    environment: StochasticEnvironment | LinearEnvironment

    def __init__(self, policy_class: Callable[..., Policy], options: dict[str, Any], budget: int) -> None:
        self.policy_class, self.options, self.budget = policy_class, options, budget

    @property
    def n_arms(self) -> int:
        """Number of arms."""
        return self.environment.n_arms

    @abstractmethod
    def make(self, seed: int = 7, **more: Any) -> Policy:
        """Return a policy for the problem."""

    @abstractmethod
    def ask(self, policy: Policy, number: int, stretch: float = 1.0) -> Decision:
        """Ask for the decision of a round."""

    @abstractmethod
    def bad_questions(self, policy: Policy) -> Iterator[tuple[type[Exception], Any]]:
        """Yield what `ask` must refuse, and how."""

    @abstractmethod
    def stretches(self, policy: Policy) -> Iterator[Stretch]:
        """Yield the problem in other units, as far as the policy has them."""

    def rewards(self, arms: NDArray[np.int64], number: int) -> NDArray[np.float64]:
        """Return the rewards of a round."""
        return self.environment.rewards(number, arms)

    def accepts(self, argument: str) -> bool:
        """Whether the policy can be made with this argument."""
        return argument in inspect.signature(self.policy_class).parameters


class GraphCase(Case):
    """A feedback graph, so many arms or a decision set, and a policy that is asked for nothing."""

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

    def make(self, seed: int = 7, **more: Any) -> Policy:
        """Return a policy for the graph."""
        decisions = self.environment.decisions
        within = {"budget": self.budget} if decisions is None else {"decisions": decisions}
        return self.policy_class(self.environment.graph, **within, seed=seed, **{**self.options, **more})

    def ask(self, policy: Policy, number: int, stretch: float = 1.0) -> Decision:
        """Ask for the next decision."""
        return policy.ask()

    def bad_questions(self, policy: Policy) -> Iterator[tuple[type[Exception], Any]]:
        """Yield nothing: there is only one question."""
        yield from ()

    def stretches(self, policy: Policy) -> Iterator[Stretch]:
        """Yield rewards that were stretched, and shifted if all decisions have the same size, so lose the same."""
        if self.accepts("reward_range"):
            low, high = policy.reward_range
            decisions = self.environment.decisions
            smallest = None if decisions is None else decisions.maximise(-np.ones(decisions.n_arms))
            shift = 4.0 if smallest is None or smallest.size == self.budget else 0.0
            wide = {"reward_range": (8.0 * low - shift, 8.0 * high - shift)}
            yield Stretch("reward_range", wide, lambda rewards: 8.0 * rewards - shift)


class LinearCase(Case):
    """Contexts, and a policy that is asked with them."""

    environment: LinearEnvironment

    def __init__(
        self, policy_class: Callable[..., Policy], options: dict[str, Any], n_arms: int, dimension: int, budget: int
    ) -> None:
        super().__init__(policy_class, options, budget)
        theta = np.linspace(1.0, -0.5, dimension)
        self.environment = LinearEnvironment(0.9 * theta / np.linalg.norm(theta), "cube", n_arms, seed=5)

    def make(self, seed: int = 7, **more: Any) -> ContextualPolicy:
        """Return a policy for contexts of these sizes."""
        sizes = self.n_arms, self.environment.dimension
        policy = self.policy_class(*sizes, budget=self.budget, seed=seed, **{**self.options, **more})
        if not isinstance(policy, ContextualPolicy):
            raise AssertionError(f"{policy!r}: a policy with a dimension must be a ContextualPolicy")
        return policy

    def contexts(self, number: int) -> NDArray[np.float64]:
        """Return the contexts of a round."""
        return self.environment.contexts(number)

    def ask(self, policy: Policy, number: int, stretch: float = 1.0) -> Decision:
        """Ask with the contexts of a round, multiplied by `stretch`."""
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

    def stretches(self, policy: Policy) -> Iterator[Stretch]:
        """Yield longer contexts, and larger rewards; a shift would not leave them linear."""
        assert isinstance(policy, ContextualPolicy)
        if self.accepts("reward_range"):
            low, high = policy.reward_range
            given = {name: self.options.get(name) for name in _IN_REWARD_UNITS}
            wide = {name: 4.0 * value for name, value in given.items() if value is not None}
            wide["reward_range"] = (4.0 * low, 4.0 * high)
            yield Stretch("reward_range", wide, lambda rewards: 4.0 * rewards)
        if self.accepts("context_bound"):
            yield Stretch("context_bound", {"context_bound": 4.0 * policy.context_bound}, lambda rewards: rewards, 4.0)


def cases(policy_class: Callable[..., Policy], options: dict[str, Any]) -> list[Case]:
    """Return the problems for a policy: with contexts if it takes a `dimension`, over sets if it takes `decisions`."""
    if "dimension" in inspect.signature(policy_class).parameters:
        sizes = [(1, 1, 1), (7, 3, 3), (5, 1, 2), (6, 2, 1), (8, 4, 8), (12, 5, 4)]
        return [LinearCase(policy_class, options, *size) for size in sizes]
    choice = _decisions_of(policy_class)
    graphs: list[tuple[FeedbackGraph, int | DecisionSet]] = []
    if choice is None or choice.default is not choice.empty:
        graphs += _graphs()
    if choice is not None:
        graphs += _sets()
    return [GraphCase(policy_class, options, graph, within) for graph, within in graphs]


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
