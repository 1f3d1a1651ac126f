"""What the names on the command line stand for: instances and policies, made from NAME:key=value,key=value."""

from __future__ import annotations

import inspect
from collections.abc import Callable, Mapping
from typing import Any

from armtriage import policies
from armtriage._options import Refusal, convert, parameters_of, split, unknown
from armtriage.contextual import ContextualPolicy
from armtriage.environments import LinearEnvironment, StochasticEnvironment
from armtriage.feedback import FeedbackGraph
from armtriage.instances import (
    FAMILIES,
    GRAPHS,
    hidden_arm,
    hidden_pairs,
    hidden_parts,
    hub_family,
    linear_blocks,
    linear_few_dimensions,
    linear_one_dimension,
    partition,
    random_bernoulli,
    random_constrained,
    random_linear,
    star,
    ucb_failure,
)
from armtriage.policy import Policy

__all__ = ["DEFAULT_POLICIES", "INSTANCES", "POLICIES", "kind_of", "make_instance", "make_policy", "names"]

POLICIES: Mapping[str, type[Policy]] = {
    "comb_ucb1": policies.CombUCB1,
    "elimination": policies.CombinatorialElimination,
    "greedy": policies.Greedy,
    "kl_ucb": policies.KLUCB,
    "random": policies.UniformRandom,
    "thompson": policies.ThompsonSampling,
    "ucb": policies.CombinatorialUCB,
    "constrained": policies.ConstrainedElimination,
    "c2ucb": policies.C2UCB,
    "hierarchical": policies.HierarchicalElimination,
    "linear_thompson": policies.LinearThompsonSampling,
}
DEFAULT_POLICIES: Mapping[str, tuple[str, ...]] = {
    "budget": ("elimination", "comb_ucb1", "thompson"),
    "decisions": ("constrained", "comb_ucb1", "thompson"),
    "contexts": ("hierarchical", "c2ucb", "linear_thompson"),
}
"""The policies that play if none is named, by the kind of the instance: what a round is given, or decisions obey."""
_BUILDERS: Mapping[str, Mapping[str, Callable[..., Any]]] = {
    "budget": {
        "random": random_bernoulli,
        "ucb_failure": ucb_failure,
        "hidden_arm": hidden_arm,
        "hidden_pairs": hidden_pairs,
        "hidden_parts": hidden_parts,
    },
    "contexts": {
        "linear": random_linear,
        "linear_blocks": linear_blocks,
        "linear_few_dimensions": linear_few_dimensions,
        "linear_one_dimension": linear_one_dimension,
    },
    "decisions": {**FAMILIES, "partition": partition, "hub_family": hub_family, "star": star},
}
_ON_GRAPHS = ("random", "hidden_arm", "hidden_pairs", "hidden_parts")
INSTANCES: Mapping[str, str] = {name: kind for kind, builders in _BUILDERS.items() for name in builders}
"""The names of instances, and their kinds."""
# Set by the instance or by options of the command, so they are no options of a policy.
_GIVEN = ("self", "graph", "n_arms", "dimension", "budget", "decisions", "seed", "reward_range", "context_bound")
_BUDGET = inspect.Parameter("budget", inspect.Parameter.KEYWORD_ONLY, annotation=int)


def kind_of(environment: StochasticEnvironment | LinearEnvironment) -> str:
    """Return the kind of an instance."""
    if isinstance(environment, LinearEnvironment):
        return "contexts"
    return "budget" if environment.decisions is None else "decisions"


def names(kind: str) -> tuple[str, ...]:
    """Return the policies that can play instances of a kind."""
    return tuple(name for name, one in POLICIES.items() if kind in _kinds(one))


def _kinds(policy: type[Policy]) -> tuple[str, ...]:
    """Return the kinds of instances that a policy can play."""
    if issubclass(policy, ContextualPolicy):
        return ("contexts",)
    if policy.__init__ is Policy.__init__:
        return ("budget",)
    return tuple(kind for kind in ("budget", "decisions") if kind in inspect.signature(policy).parameters)


def make_instance(text: str, horizon: int, seed: int) -> tuple[StochasticEnvironment | LinearEnvironment, int]:
    """Return the environment that `text` describes, and how many arms a decision has at most."""
    name, options = split(text)
    if name not in INSTANCES:
        raise unknown("instance", name, INSTANCES)
    if name in _ON_GRAPHS:
        return _on_graph(text, name, options, horizon, seed)
    if name in FAMILIES:
        return _constrained(text, name, options, seed)
    kind = INSTANCES[name]
    build = _BUILDERS[kind][name]
    own = parameters_of(build, ("seed",))
    made = convert(text, options, own if "budget" in own or kind == "decisions" else {**own, "budget": _BUDGET})
    if "horizon" in own:
        made = {"horizon": horizon, **made}
    environment = build(**_some(made, own), seed=seed)
    return environment, environment.decisions.size if kind == "decisions" else made["budget"]


def _some(made: Mapping[str, Any], wanted: Mapping[str, Any]) -> dict[str, Any]:
    return {key: made[key] for key in wanted if key in made}


def _graph_family(options: dict[str, str]) -> Callable[..., FeedbackGraph]:
    """Take the graph's name out of the options, and return what builds it."""
    family = options.pop("graph", "semi_bandit")
    if family not in GRAPHS:
        raise unknown("graph", family, GRAPHS)
    return GRAPHS[family]


def _on_graph(
    text: str, name: str, options: dict[str, str], horizon: int, seed: int
) -> tuple[StochasticEnvironment, int]:
    build_graph, build = _graph_family(options), _BUILDERS["budget"][name]
    shown, own = parameters_of(build_graph, ()), parameters_of(build, ("graph", "good", "independent", "seed"))
    made = convert(text, options, {**shown, "budget": _BUDGET, **own}, also=("graph",))
    graph = build_graph(**_some({"seed": seed, **made}, shown))
    given = _some({"horizon": horizon, **made}, own)
    if "independent" in parameters_of(build, ()):
        from armtriage.theory import independent_set

        given["independent"] = independent_set(graph)
    return build(graph, **given, seed=seed), made["budget"]


def _constrained(text: str, name: str, options: dict[str, str], seed: int) -> tuple[StochasticEnvironment, int]:
    """Return random arms of a family; options of the same name count for family and graph."""
    build_graph = _graph_family(options)
    own, shown = parameters_of(FAMILIES[name], ()), parameters_of(build_graph, ("n_arms",))
    rest = parameters_of(random_constrained, ("decisions", "graph", "seed"))
    made = {"seed": seed, **convert(text, options, {**shown, **own, **rest}, also=("graph",))}
    decisions = FAMILIES[name](**_some(made, own))
    graph = build_graph(n_arms=decisions.n_arms, **_some(made, shown))
    return random_constrained(decisions, **_some(made, rest), graph=graph, seed=seed), decisions.size


def make_policy(
    text: str, environment: StochasticEnvironment | LinearEnvironment, budget: int, horizon: int, seed: int
) -> Policy:
    """Return the policy that `text` describes, if it can play that environment."""
    name, options = split(text)
    kind = kind_of(environment)
    if name not in POLICIES:
        raise unknown("policy", name, names(kind))
    policy = POLICIES[name]
    if kind not in _kinds(policy):
        raise _no_match(text, policy, kind)
    parameters = parameters_of(policy.__init__, _GIVEN)
    made = convert(text, options, parameters)
    if "horizon" in parameters:
        made = {"horizon": horizon, **made}
    try:
        if issubclass(policy, ContextualPolicy) and isinstance(environment, LinearEnvironment):
            return policy(environment.n_arms, environment.dimension, budget, **made, seed=seed)
        if isinstance(environment, StochasticEnvironment) and environment.decisions is not None:
            return policy(environment.graph, decisions=environment.decisions, **made, seed=seed)
        return policy(environment.graph, budget, **made, seed=seed)
    except (TypeError, ValueError) as error:
        raise Refusal(f"{text}: {error}") from error


def _no_match(text: str, policy: type[Policy], kind: str) -> Refusal:
    able = _kinds(policy)
    what = "contexts" if "contexts" in (kind, *able) else "a set of decisions"
    wanted = "with" if able in (("contexts",), ("decisions",)) and kind != "contexts" else "without"
    fit = ", ".join(one for one, of in INSTANCES.items() if of in able)
    return Refusal(
        f"{text}: needs an instance {wanted} {what} ({fit}); policies for this instance are {', '.join(names(kind))}"
    )
