"""The problem of an audit, in the policy's own units, with the numbers and bounds that claims compare with."""

from __future__ import annotations

from functools import cached_property
from typing import Any

import numpy as np
from numpy.typing import NDArray

from armtriage.decisions import Decision
from armtriage.environments import Environment, LinearEnvironment, StochasticEnvironment
from armtriage.environments.tables import loss
from armtriage.policies.contextual import ContextualPolicy
from armtriage.policies.policy import Policy
from armtriage.theory.bounds import (
    Bound,
    constrained_upper,
    gap_upper,
    linear_upper,
    minimax_upper,
    oracle_upper,
    tie_gap,
    ucb_full_information_upper,
)
from armtriage.theory.bounds.graph import width_scale
from armtriage.theory.numbers import (
    Bracket,
    active_cover_number,
    cover_number,
    domination_number,
    gap,
    independence_number,
    layer_size,
)

__all__ = ["Problem"]

Ints = NDArray[np.int64]
Floats = NDArray[np.float64]


class Problem:
    """A policy, taken as a recipe, and an environment; means and regret are in units of the policy's rewards."""

    def __init__(self, policy: Policy, environment: Environment | LinearEnvironment, horizon: int) -> None:
        self.policy, self.environment, self.horizon = policy, environment, horizon
        low, high = policy.reward_range
        self.unit = high - low
        self.zero, self.sign = (low, 1.0) if policy.direction == "maximize" else (high, -1.0)
        if isinstance(policy, ContextualPolicy):
            self.zero, self.unit = 0.0, policy.reward_unit

    def ask(self, policy: Policy, number: int, replication: int) -> Decision:
        """Return a policy's decision for a round."""
        if isinstance(policy, ContextualPolicy):
            assert isinstance(self.environment, LinearEnvironment)
            return policy.ask(self.environment.contexts(number, replication))
        return policy.ask()

    def in_units(self, rewards: Floats) -> Floats:
        """Return rewards on the unit scale."""
        scaled = self.sign * (rewards - self.zero) / self.unit
        return scaled if isinstance(self.policy, ContextualPolicy) else np.clip(scaled, 0.0, 1.0)

    def regret(self, number: int, arms: Ints, replication: int) -> float:
        """Return what a decision loses in a round."""
        environment = self.environment
        if isinstance(environment, LinearEnvironment):
            return environment.regret(number, arms, replication) / self.unit
        if isinstance(environment, StochasticEnvironment):
            # The environment's own way asks its set whether it contains the arms, which may take long.
            return float(loss(environment.table(self.policy.budget), 0, arms)) / self.unit
        return environment.regret(arms) / self.unit

    @cached_property
    def means(self) -> Floats | None:
        """The mean of each arm on the unit scale; None if they are not known, or change with the round."""
        means = getattr(self.environment, "means", None)
        if means is None or callable(means):
            return None
        return np.asarray(self.sign * (np.asarray(means, np.float64) - self.zero) / self.unit)

    @cached_property
    def rank(self) -> float:
        """The mean of rank S."""
        assert self.means is not None
        return float(np.partition(self.means, -self.policy.budget)[-self.policy.budget])

    @cached_property
    def gap(self) -> float:
        """How much the arm of rank S, or the best decision, is above the next worse one."""
        environment: Any = self.environment
        return gap(environment, self.policy.budget if self.policy.decisions is None else None) / self.unit

    @cached_property
    def alpha(self) -> Bracket:
        """The independence number of the graph."""
        return independence_number(self.policy.graph)

    @cached_property
    def domination(self) -> Bracket:
        """The domination number of the graph."""
        return domination_number(self.policy.graph)

    @cached_property
    def layer_size(self) -> float:
        """How many picks the greedy needs at most for a layer."""
        graph = self.policy.graph
        return layer_size(graph.n_arms, self.alpha, undirected=graph.is_undirected)

    def _sizes(self, *names: str) -> dict[str, Any]:
        """Return arguments of a bound, those of the policy by name; widths are for the horizon it was made for."""
        policy: Any = self.policy
        horizon = getattr(policy, "horizon", None) or self.horizon
        own = {name: getattr(policy, name) for name in names}
        return {"n_arms": policy.n_arms, "budget": policy.budget, "horizon": horizon, "delta": policy.delta, **own}

    @property
    def _by_graph(self) -> dict[str, Any]:
        """Return the arguments that elimination has for graph and interval."""
        policy: Any = self.policy
        graph = {"alpha": self.alpha, "undirected": policy.graph.is_undirected}
        return {**self._sizes("interval"), **graph, "anytime": policy.horizon is None}

    @cached_property
    def gap_bound(self) -> Bound:
        """Theorem 1 for a `CombinatorialElimination`."""
        assert self.means is not None
        policy: Any = self.policy
        ties = tie_gap(self.means, policy.budget)
        return gap_upper(**self._by_graph, benchmark=policy.benchmark, gap=self.gap, tie_gap=ties)

    @cached_property
    def minimax_bound(self) -> Bound:
        """Theorem 3 for a `CombinatorialElimination`."""
        policy: Any = self.policy
        return minimax_upper(**self._by_graph, benchmark=policy.benchmark, rounds=self.horizon)

    @cached_property
    def full_information_bound(self) -> Bound:
        """What a `CombinatorialUCB` loses with full information, by its printed width."""
        return ucb_full_information_upper(**self._sizes(), constants="printed")

    @cached_property
    def linear_bound(self) -> Bound:
        """Theorem 5 for a `HierarchicalElimination`."""
        policy: Any = self.policy
        # The print has no constants; those of its proof are the repaired ones.
        variant, noise = "tight" if policy.variant == "tight" else "repaired", policy.noise_in_units(policy.noise_scale)
        return linear_upper(**self._sizes("dimension"), variant=variant, noise_scale=noise)

    @cached_property
    def constrained_bound(self) -> Bound:
        """Theorem 7 for a `ConstrainedElimination` that lists its family: as printed, or with the right kappa."""
        policy: Any = self.policy
        printed = policy.variant == "paper"
        cover = (cover_number if printed else active_cover_number)(policy.decisions, policy.graph)
        sizes = {**self._sizes("interval"), "exact": policy.cover == "exact", "gap": self.gap}
        return constrained_upper(**sizes, cover=cover, constants="printed" if printed else "repaired")

    @cached_property
    def oracle_bound(self) -> Bound:
        """What a `ConstrainedElimination` by oracle loses."""
        return oracle_upper(**self._by_graph, gap=self.gap)

    @cached_property
    def scale(self) -> float | None:
        """A number v such that no half-width after n rewards exceeds sqrt(v / n), if there is one."""
        policy: Any = self.policy
        horizon = np.asarray(policy.horizon or self.horizon, np.float64)
        found = width_scale(policy.interval, policy.n_arms, horizon, policy.delta, policy.horizon is None)
        return None if found is None else float(found)
