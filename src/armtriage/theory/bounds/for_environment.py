"""The bounds that concern one environment."""

from __future__ import annotations

from typing import Any

import numpy as np
from numpy.typing import ArrayLike

from armtriage.environments import LinearEnvironment, StochasticEnvironment
from armtriage.policies import (
    CombinatorialElimination,
    CombinatorialUCB,
    ConstrainedElimination,
    Greedy,
    HierarchicalElimination,
)
from armtriage.policies.linear import LinearGuard
from armtriage.policies.policy import Policy
from armtriage.theory.bounds.bound import Bound
from armtriage.theory.bounds.constrained import constrained_lower, constrained_upper, oracle_upper
from armtriage.theory.bounds.graph import gap_upper, instance_upper, minimax_upper, ucb_full_information_upper
from armtriage.theory.bounds.linear import guarded_linear_upper, linear_lower, linear_upper
from armtriage.theory.bounds.lower import full_information_lower, gap_lower, minimax_lower, ucb_lower
from armtriage.theory.numbers import CONSTANTS, Bracket, active_cover_number, cover_number, gap, independence_number

Options = dict[str, Any]


def bounds_for(
    environment: StochasticEnvironment | LinearEnvironment,
    budget: int | None = None,
    *,
    horizon: ArrayLike,
    delta: float = 0.01,
    alpha: int | Bracket | None = None,
    policy: Policy | None = None,
) -> list[Bound]:
    """Return all bounds that concern an environment, upper ones first.

    Upper bounds are for this environment and the policies that the paper speaks of. Lower bounds are for the worst
    member of a family of the same sizes, of which this environment need not be one. Bounds whose conditions fail are
    listed without a value, and say why.

    Parameters
    ----------
    environment : StochasticEnvironment or LinearEnvironment
        What is played. If it has a set of decisions, the bounds are those for such sets.
    budget : int, optional
        S; not needed if there is a set of decisions.
    horizon : int or array of int
        T; several give arrays of values.
    delta : float
        The failure probability of the policies, unless one is given.
    alpha : int or Bracket, optional
        The independence number of the graph, if it is known; else it is searched for.
    policy : Policy, optional
        A policy that plays here. Upper bounds are then those for it, if there are any, with its variant and delta. On
        arms with constant means it must have the reward range (0, 1), which its widths are proportional to.

    Examples
    --------
    >>> from armtriage import FeedbackGraph, random_bernoulli
    >>> env = random_bernoulli(FeedbackGraph.cliques([5] * 4), seed=7)
    >>> for bound in bounds_for(env, 3, horizon=10**5):
    ...     shown = bound.reason if bound.value is None else f"{bound.value:.0f}"
    ...     print(f"{bound.name:26} {bound.constants:8} {shown}")
    gap_upper                  repaired 102890
    gap_upper                  printed  384981350
    minimax_upper              repaired 46813
    minimax_upper              printed  2383960
    instance_upper             repaired 21738
    gap_lower                  repaired needs alpha >= 2 S
    full_information_lower     repaired 6
    minimax_lower              repaired 66
    ucb_lower                  repaired 1056
    """
    if not isinstance(environment, StochasticEnvironment | LinearEnvironment):
        raise TypeError(f"environment must be one with known means, got {type(environment).__name__}")
    usual = (-1.0, 1.0) if isinstance(environment, LinearEnvironment) else (0.0, 1.0)
    if (environment.reward_range, environment.direction) != (usual, "maximize"):
        have = f"{environment.reward_range} and {environment.direction!r}"
        raise ValueError(f"environment must have rewards in {usual} to maximize, as the bounds, got {have}")
    if policy is not None and isinstance(environment, StochasticEnvironment) and policy.reward_range != (0.0, 1.0):
        raise ValueError(f"policy must have the reward_range (0, 1) of the bounds, got {policy.reward_range}")
    if isinstance(environment, StochasticEnvironment) and environment.decisions is not None:
        alpha = independence_number(environment.graph) if alpha is None else alpha
        return _constrained(environment, horizon, delta, alpha, policy)
    if budget is None:
        raise ValueError("budget must be given for an environment without a set of decisions, got None")
    if isinstance(environment, LinearEnvironment):
        return _linear(environment, budget, horizon, delta, policy)
    alpha = independence_number(environment.graph) if alpha is None else alpha
    return _graph(environment, budget, horizon, delta, alpha, policy)


def tie_gap(means: ArrayLike, budget: int) -> float | None:
    """Return how much the next larger mean is above the S-th best, if that is not larger than the one after it.

    None if the S-th best mean is larger than the next; infinite if it ties with the next and none is larger. See
    `gap_upper`, which needs it.

    Parameters
    ----------
    means : array_like
        The mean of each arm.
    budget : int
        S.

    Examples
    --------
    >>> tie_gap([0.9, 0.5, 0.5], 2), tie_gap([0.9, 0.5, 0.4], 2), tie_gap([0.5, 0.5], 1)
    (0.4, None, inf)
    """
    order = np.sort(np.asarray(means, np.float64))[::-1]
    if budget >= order.size or order[budget - 1] > order[budget]:
        return None
    larger = order[order > order[budget]]
    return float(larger[-1] - order[budget]) if larger.size else np.inf


def _graph(
    environment: StochasticEnvironment,
    budget: int,
    horizon: ArrayLike,
    delta: float,
    alpha: int | Bracket,
    policy: Policy | None,
) -> list[Bound]:
    graph, means = environment.graph, environment.means
    sizes: Options = {"n_arms": graph.n_arms, "budget": budget}
    apart = gap(means, budget)
    made: list[Bound] = []
    if policy is None or isinstance(policy, CombinatorialElimination):
        rule: Options = {"alpha": alpha, "undirected": graph.is_undirected, "horizon": horizon, "delta": delta}
        whose = CONSTANTS
        if policy is not None:
            rule |= {name: getattr(policy, name) for name in ("delta", "benchmark", "interval")}
            # Widths are for the horizon that the policy was made for.
            rule |= {"horizon": policy.horizon or horizon, "rounds": horizon, "anytime": policy.horizon is None}
            whose = CONSTANTS if policy.benchmark == policy.interval == "printed" else ("repaired",)
        gaps: Options = {"gap": apart, "tie_gap": tie_gap(means, budget)}
        made += [gap_upper(**sizes, **rule, **gaps, constants=one) for one in whose]
        made += [minimax_upper(**sizes, **rule, constants=one) for one in whose]
        made += [instance_upper(means, budget, **rule)]
    if graph.n_edges == graph.n_arms**2 and (policy is None or isinstance(policy, CombinatorialUCB | Greedy)):
        made += [ucb_full_information_upper(**sizes, horizon=horizon, delta=delta, constants=one) for one in CONSTANTS]
    if np.isfinite(apart):
        made += [gap_lower(**sizes, alpha=alpha, horizon=horizon, gap=apart)]
        made += [full_information_lower(**sizes, horizon=horizon, gap=apart)]
    made += [minimax_lower(**sizes, alpha=alpha, horizon=horizon)]
    if policy is None or isinstance(policy, CombinatorialUCB):
        width = None if policy is None else policy.width
        made += [ucb_lower(**sizes, alpha=alpha, horizon=horizon, width=width, delta=delta)]
    return made


def _constrained(
    environment: StochasticEnvironment,
    horizon: ArrayLike,
    delta: float,
    alpha: int | Bracket,
    policy: Policy | None,
) -> list[Bound]:
    decisions, graph = environment.decisions, environment.graph
    assert decisions is not None
    sizes: Options = {"n_arms": graph.n_arms, "budget": decisions.size, "gap": gap(environment)}
    made: list[Bound] = []
    if policy is None or isinstance(policy, ConstrainedElimination):
        rule: Options = {**sizes, "horizon": horizon, "delta": delta}
        listed: Options = {}
        oracle: Options = {"alpha": alpha, "undirected": graph.is_undirected}
        variant = None
        if policy is not None:
            variant = policy.variant
            rule |= {"horizon": policy.horizon or horizon, "delta": policy.delta, "interval": policy.interval}
            listed["exact"], oracle["anytime"] = policy.cover == "exact", policy.horizon is None
        if variant in (None, "paper"):
            cover = cover_number(decisions, graph)
            made += [constrained_upper(**rule, **listed, cover=cover, constants="printed")]
        if variant in (None, "repaired"):
            made += [constrained_upper(**rule, **listed, cover=active_cover_number(decisions, graph))]
        if variant in (None, "oracle"):
            made += [oracle_upper(**rule, **oracle)]
    if np.isfinite(sizes["gap"]):
        made += [constrained_lower(**sizes, horizon=horizon)]
    return made


def _linear(
    environment: LinearEnvironment, budget: int, horizon: ArrayLike, delta: float, policy: Policy | None
) -> list[Bound]:
    sizes: Options = {"n_arms": environment.n_arms, "dimension": environment.dimension, "budget": budget}
    made: list[Bound] = []
    if policy is None:
        made += [linear_upper(**sizes, horizon=horizon, delta=delta, variant=one) for one in ("repaired", "tight")]
    elif isinstance(policy, HierarchicalElimination) and policy.variant != "paper":
        noise = policy.noise_in_units(policy.noise_scale)
        rule: Options = {"delta": policy.delta, "variant": policy.variant, "noise_scale": noise}
        made += [linear_upper(**sizes, **rule, horizon=policy.horizon)]
    elif isinstance(policy, LinearGuard) and policy.certified:
        low, high = policy.reward_range
        made += [
            guarded_linear_upper(
                dimension=environment.dimension,
                budget=budget,
                horizon=horizon,
                delta=policy.delta,
                factor=policy.factor,
                norm_bound=policy.norm_bound,
                noise_scale=policy.noise_in_units(policy.noise_scale),
                width=(high - low) / policy.reward_unit,
            )
        ]
    return [*made, linear_lower(**sizes, horizon=horizon)]
