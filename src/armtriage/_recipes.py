"""What the names on the command line stand for: instances and policies, made from NAME:key=value,key=value."""

from __future__ import annotations

import inspect
from collections.abc import Callable, Mapping

from armtriage import policies
from armtriage._options import Refusal, convert, parameters_of, split, unknown
from armtriage.contextual import ContextualPolicy
from armtriage.environments import LinearEnvironment, StochasticEnvironment
from armtriage.instances import (
    GRAPHS,
    linear_blocks,
    linear_few_dimensions,
    linear_one_dimension,
    random_bernoulli,
    random_linear,
    ucb_failure,
)
from armtriage.policy import Policy

__all__ = ["INSTANCES", "POLICIES", "default_policies", "make_instance", "make_policy", "names"]

POLICIES: Mapping[str, type[Policy]] = {
    "comb_ucb1": policies.CombUCB1,
    "elimination": policies.CombinatorialElimination,
    "greedy": policies.Greedy,
    "kl_ucb": policies.KLUCB,
    "random": policies.UniformRandom,
    "thompson": policies.ThompsonSampling,
    "ucb": policies.CombinatorialUCB,
    "c2ucb": policies.C2UCB,
    "hierarchical": policies.HierarchicalElimination,
    "linear_thompson": policies.LinearThompsonSampling,
}
_LINEAR: Mapping[str, Callable[..., LinearEnvironment]] = {
    "linear": random_linear,
    "linear_blocks": linear_blocks,
    "linear_few_dimensions": linear_few_dimensions,
    "linear_one_dimension": linear_one_dimension,
}
INSTANCES = ("random", "ucb_failure", *_LINEAR)
# Set by the instance or by options of the command, so they are no options of a policy.
_GIVEN = ("self", "graph", "n_arms", "dimension", "budget", "decisions", "seed", "reward_range", "context_bound")
_BUDGET = inspect.Parameter("budget", inspect.Parameter.KEYWORD_ONLY, annotation=int)


def names(contextual: bool) -> tuple[str, ...]:
    """Return the policies that are asked with contexts, or those that are not."""
    return tuple(name for name, kind in POLICIES.items() if issubclass(kind, ContextualPolicy) == contextual)


def default_policies(contextual: bool) -> tuple[str, ...]:
    """Return the policies that play if none is named."""
    return ("hierarchical", "c2ucb", "linear_thompson") if contextual else ("elimination", "comb_ucb1", "thompson")


def make_instance(text: str, horizon: int, seed: int) -> tuple[StochasticEnvironment | LinearEnvironment, int]:
    """Return the environment that `text` describes, and its budget."""
    name, options = split(text)
    if name == "random":
        return _random(text, options, seed)
    if name not in INSTANCES:
        raise unknown("instance", name, INSTANCES)
    build = _LINEAR.get(name, ucb_failure)
    own = parameters_of(build, ("seed",))
    made = convert(text, options, own if "budget" in own else {**own, "budget": _BUDGET})
    if "horizon" in own:
        made = {"horizon": horizon, **made}
    return build(**{key: made[key] for key in own if key in made}, seed=seed), made["budget"]


def _random(text: str, options: dict[str, str], seed: int) -> tuple[StochasticEnvironment, int]:
    family = options.pop("graph", "semi_bandit")
    if family not in GRAPHS:
        raise unknown("graph", family, GRAPHS)
    build = GRAPHS[family]
    own = parameters_of(build, ())
    rest = parameters_of(random_bernoulli, ("graph", "seed"))
    made = convert(text, options, {**own, "budget": _BUDGET, **rest}, also=("graph",))
    if "seed" in own:
        made = {"seed": seed, **made}
    graph = build(**{key: made[key] for key in own if key in made})
    budget = made["budget"]
    return random_bernoulli(graph, **{key: made[key] for key in rest if key in made}, seed=seed), budget


def make_policy(
    text: str, environment: StochasticEnvironment | LinearEnvironment, budget: int, horizon: int, seed: int
) -> Policy:
    """Return the policy that `text` describes, if it can play that environment."""
    name, options = split(text)
    linear = isinstance(environment, LinearEnvironment)
    if name not in POLICIES:
        raise unknown("policy", name, names(linear))
    kind = POLICIES[name]
    if name not in names(linear):
        wanted = "without" if linear else "with"
        fit = ", ".join(one for one in INSTANCES if (one in _LINEAR) != linear)
        other = ", ".join(names(linear))
        raise Refusal(f"{text}: needs an instance {wanted} contexts ({fit}); policies for this instance are {other}")
    parameters = parameters_of(kind.__init__, _GIVEN)
    made = convert(text, options, parameters)
    if "horizon" in parameters:
        made = {"horizon": horizon, **made}
    try:
        if issubclass(kind, ContextualPolicy) and isinstance(environment, LinearEnvironment):
            return kind(environment.n_arms, environment.dimension, budget, **made, seed=seed)
        return kind(environment.graph, budget, **made, seed=seed)
    except (TypeError, ValueError) as error:
        raise Refusal(f"{text}: {error}") from error
