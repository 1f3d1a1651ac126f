"""What names of instances and policies stand for, which options they take, and how they are made.

On the command line they are written as text, NAME:key=value,key=value.
"""

from __future__ import annotations

import inspect
import types
import typing
from collections.abc import Callable, Iterable, Iterator, Mapping
from contextlib import contextmanager
from functools import lru_cache
from typing import Any

from armtriage import policies
from armtriage.environments import Environment, LinearEnvironment, StochasticEnvironment
from armtriage.graphs.feedback import FeedbackGraph
from armtriage.instances import BUILDERS, FAMILIES, GRAPHS, random_constrained
from armtriage.policies.contextual import ContextualPolicy
from armtriage.policies.policy import Policy

POLICIES: Mapping[str, type[Policy]] = {
    "guarded_thompson": policies.GuardedThompson,
    "comb_ucb1": policies.CombUCB1,
    "elimination": policies.CombinatorialElimination,
    "greedy": policies.Greedy,
    "kl_ucb": policies.KLUCB,
    "random": policies.UniformRandom,
    "thompson": policies.ThompsonSampling,
    "ucb": policies.CombinatorialUCB,
    "guarded_index": policies.GuardedIndex,
    "constrained": policies.ConstrainedElimination,
    "guarded_linear": policies.GuardedLinear,
    "c2ucb": policies.C2UCB,
    "hierarchical": policies.HierarchicalElimination,
    "linear_thompson": policies.LinearThompsonSampling,
}
DEFAULT_POLICIES: Mapping[str, tuple[str, ...]] = {
    "budget": ("guarded_thompson", "elimination", "comb_ucb1", "thompson"),
    "decisions": ("guarded_thompson", "constrained", "comb_ucb1", "thompson"),
    "contexts": ("guarded_linear", "c2ucb", "linear_thompson", "hierarchical"),
}
"""The policies that play if none is named, by the kind of the instance: what a round is given, or decisions obey."""
# Made from the graph, the seed or by chance, so they are no options of an instance on a graph.
_FOUND = ("graph", "good", "independent", "seed")
INSTANCES: Mapping[str, str] = {name: kind for kind, builders in BUILDERS.items() for name in builders}
"""The names of instances, and their kinds."""
# Set by the instance or by the seed, or for people and services only, so they are no options of a policy here.
_GIVEN = (
    *("graph", "n_arms", "dimension", "budget", "decisions", "seed"),
    *("names", "direction", "sleepers_seen", "cap", "logging_floor", "floor_arms", "features", "expected", "spread"),
    *("old_log", "positions", "position_swaps"),
)
_BUDGET = inspect.Parameter("budget", inspect.Parameter.KEYWORD_ONLY, annotation=int)
_GRAPH = inspect.Parameter("graph", inspect.Parameter.KEYWORD_ONLY, default="semi_bandit", annotation=str)


class Refusal(ValueError):
    """Input that cannot be taken; the message says what can."""


def split(text: str) -> tuple[str, dict[str, str]]:
    """Split NAME:key=value,key=value."""
    name, _, rest = text.partition(":")
    options: dict[str, str] = {}
    for item in filter(None, rest.split(",")):
        key, equals, value = item.partition("=")
        if not equals:
            raise Refusal(f"options are written key=value and parted by commas, got {item!r}")
        if key in options:
            raise Refusal(f"{key} is given twice")
        options[key] = value
    return name, options


@lru_cache(maxsize=1024)
def parameters_of(function: Callable[..., Any], without: tuple[str, ...] = ()) -> dict[str, inspect.Parameter]:
    """Return the parameters of a function or class that can be given by name, with their types, where it says them."""
    try:
        hints = typing.get_type_hints(getattr(function, "__init__") if isinstance(function, type) else function)  # noqa: B009 - mypy
    except (AttributeError, NameError, TypeError):
        hints = {}
    return {
        key: one.replace(annotation=hints.get(key, Any if isinstance(one.annotation, str) else one.annotation))
        for key, one in inspect.signature(function).parameters.items()
        if key not in without and one.kind in (one.POSITIONAL_OR_KEYWORD, one.KEYWORD_ONLY)
    }


def from_text(options: Mapping[str, Any], parameters: Mapping[str, inspect.Parameter]) -> dict[str, Any]:
    """Return the options with what is given as text in the types that the signature asks for."""
    return {key: _read(key, value, parameters.get(key)) for key, value in options.items()}


def kinds_of_value(kind: Any) -> tuple[Any, ...]:
    """Return the types that a type stands for: more than one for a union."""
    union = isinstance(kind, types.UnionType) or typing.get_origin(kind) is typing.Union
    return typing.get_args(kind) if union else (kind,)


def _bare(kind: Any) -> tuple[Any, ...]:
    """Return the types that a type stands for, without what else is said about them."""
    if typing.get_origin(kind) is typing.Annotated:
        return _bare(typing.get_args(kind)[0])
    kinds = kinds_of_value(kind)
    return kinds if len(kinds) == 1 else tuple(one for part in kinds for one in _bare(part))


def _truth(value: str) -> bool:
    if value.lower() not in ("true", "false"):
        raise ValueError(value)
    return value.lower() == "true"


_READERS: tuple[tuple[Any, str, Callable[[str], Any]], ...] = (
    (bool, "true or false", _truth),
    (int, "a whole number", int),
    (float, "a number", float),
    (str, "text", str),
)


def _reader(parameter: inspect.Parameter) -> tuple[str, Callable[[str], Any]] | None:
    """Return what a value must be, and what reads it, if it can be written as text."""
    kinds = _bare(parameter.annotation)
    return next(((what, reader) for kind, what, reader in _READERS if kind in kinds), None)


def _read(key: str, value: Any, parameter: inspect.Parameter | None) -> Any:
    """Return the value that a text stands for; what no text can say, or no option asks for, is left as it is."""
    if parameter is None or not isinstance(value, str) or (found := _reader(parameter)) is None:
        return value
    what, reader = found
    if types.NoneType in _bare(parameter.annotation) and value.lower() == "none":
        return None
    try:
        return reader(value)
    except ValueError:
        raise Refusal(f"{key} must be {what}, got {value!r}") from None


def unknown(what: str, name: str, known: Iterable[str]) -> Refusal:
    """Return the refusal of a name that stands for nothing."""
    return Refusal(f"unknown {what} {name!r}; accepted are {', '.join(known)}")


def kind_of(environment: Environment | LinearEnvironment) -> str:
    """Return the kind of an instance."""
    if isinstance(environment, LinearEnvironment):
        return "contexts"
    return "budget" if getattr(environment, "decisions", None) is None else "decisions"


def names(kind: str) -> tuple[str, ...]:
    """Return the policies that can play instances of a kind."""
    return tuple(name for name, one in POLICIES.items() if kind in policy_kinds(one))


def policy_kinds(policy: str | type[Policy]) -> tuple[str, ...]:
    """Return the kinds of instances that a policy can play."""
    policy = _policy(policy)
    if issubclass(policy, ContextualPolicy):
        return ("contexts",)
    if policy.__init__ is Policy.__init__:
        return ("budget",)
    return tuple(kind for kind in ("budget", "decisions") if kind in parameters_of(policy))


def instance_parameters(instance: str | Callable[..., Any], options: Mapping[str, Any]) -> dict[str, inspect.Parameter]:
    """Return what an instance takes as options; a graph's own depend on which one the options name."""
    if not isinstance(instance, str):
        return {**parameters_of(instance, ("horizon", "seed")), "budget": _own_budget(instance)}
    if instance not in INSTANCES:
        raise unknown("instance", instance, INSTANCES)
    if _on_any_graph(instance):
        shown, rest = parameters_of(_graph_family(options)), parameters_of(BUILDERS["budget"][instance], _FOUND)
        return {"graph": _GRAPH, **shown, "budget": _BUDGET, **rest, **_apart(shown, ())}
    if instance in FAMILIES:
        shown, own = parameters_of(_graph_family(options), ("n_arms",)), parameters_of(FAMILIES[instance])
        rest = parameters_of(random_constrained, ("decisions", "graph", "seed"))
        return {"graph": _GRAPH, **shown, **own, **rest, **_apart(shown, own)}
    kind = INSTANCES[instance]
    own = parameters_of(BUILDERS[kind][instance], ("seed",))
    return {**own} if "budget" in own or kind == "decisions" else {**own, "budget": _BUDGET}


def _on_any_graph(instance: str) -> bool:
    """Whether an instance is built on a graph that is named besides."""
    return INSTANCES[instance] == "budget" and "graph" in parameters_of(BUILDERS["budget"][instance])


def _apart(shown: Mapping[str, inspect.Parameter], own: Iterable[str]) -> dict[str, inspect.Parameter]:
    """Return how a graph is given its own of those options that otherwise count for it and for the arms."""
    return {f"graph.{key}": one.replace(default=None) for key, one in shown.items() if key == "seed" or key in own}


def _own_budget(instance: Callable[..., Any]) -> inspect.Parameter:
    return parameters_of(instance).get("budget", _BUDGET.replace(annotation=int | None, default=None))


def _graph_family(options: Mapping[str, Any]) -> Callable[..., FeedbackGraph]:
    family = options.get("graph", _GRAPH.default)
    if family not in GRAPHS:
        raise unknown("graph", family, GRAPHS)
    return GRAPHS[family]


def build_instance(
    instance: str | Callable[..., Any], options: Mapping[str, Any], horizon: int, seed: int
) -> tuple[Environment | LinearEnvironment, int]:
    """Return the environment, and how many arms a decision has at most.

    The options are those of `instance_parameters`, in the types asked for. Users' functions get the horizon and the
    seed if they take them.
    """
    if not isinstance(instance, str):
        return _from_callable(instance, options, horizon, seed)
    if _on_any_graph(instance):
        return _on_graph(BUILDERS["budget"][instance], options, horizon, seed), options["budget"]
    if instance in FAMILIES:
        return _constrained(instance, options, seed)
    kind = INSTANCES[instance]
    build = BUILDERS[kind][instance]
    environment = build(**_some({"horizon": horizon, **options}, build, ("seed",)), seed=seed)
    return environment, environment.decisions.size if kind == "decisions" else options["budget"]


def _some(options: Mapping[str, Any], function: Callable[..., Any], without: tuple[str, ...] = ()) -> dict[str, Any]:
    """Return the options that a function takes."""
    return {key: options[key] for key in parameters_of(function, without) if key in options}


def _on_graph(
    build: Callable[..., StochasticEnvironment], options: Mapping[str, Any], horizon: int, seed: int
) -> StochasticEnvironment:
    """Return arms on a graph; those that must not reveal each other are found by structure or by greed."""
    graph = _graph({"seed": seed, **options})
    given = _some({"horizon": horizon, **options}, build, _FOUND)
    if "independent" in parameters_of(build):
        from armtriage.theory import independent_set

        # Without a search that a clock would end: the same instance on every machine.
        given["independent"] = independent_set(graph, time_limit=0.0)
    return build(graph, **given, seed=seed)


def _constrained(name: str, options: Mapping[str, Any], seed: int) -> tuple[Environment, int]:
    """Return random arms of a family of sets of decisions."""
    seeded = {"seed": seed, **options}
    decisions = FAMILIES[name](**_some(seeded, FAMILIES[name]))
    graph = _graph({**seeded, "n_arms": decisions.n_arms})
    rest = _some(options, random_constrained, ("graph", "seed"))
    return random_constrained(decisions, **rest, graph=graph, seed=seed), decisions.size


def _graph(options: Mapping[str, Any]) -> FeedbackGraph:
    own = {key.removeprefix("graph."): value for key, value in options.items() if key.startswith("graph.")}
    build = _graph_family(options)
    return build(**_some({**options, **own}, build))


def _from_callable(
    instance: Callable[..., Any], options: Mapping[str, Any], horizon: int, seed: int
) -> tuple[Environment | LinearEnvironment, int]:
    taken = parameters_of(instance)
    own = {key: value for key, value in options.items() if key != "budget" or key in taken}
    own |= {key: value for key, value in (("horizon", horizon), ("seed", seed)) if key in taken}
    environment = instance(**own)
    if not isinstance(environment, Environment | LinearEnvironment):
        raise TypeError(f"must return an environment, got {type(environment).__name__}")
    decisions = getattr(environment, "decisions", None)
    if decisions is not None:
        return environment, decisions.size
    budget = options.get("budget", _own_budget(instance).default)
    if budget is None:
        raise ValueError("budget must be given: how many arms a decision has")
    return environment, budget


def _policy(policy: str | type[Policy], known: Iterable[str] = POLICIES) -> type[Policy]:
    if not isinstance(policy, str):
        return policy
    if policy not in POLICIES:
        raise unknown("policy", policy, known)
    return POLICIES[policy]


def policy_parameters(policy: str | type[Policy]) -> dict[str, inspect.Parameter]:
    """Return what a policy takes as options."""
    own = parameters_of(_policy(policy), _GIVEN)
    # Left out, it is the horizon that is played, whatever the default.
    return {key: one.replace(default=one.empty) if key == "horizon" else one for key, one in own.items()}


def build_policy(
    policy: str | type[Policy],
    options: Mapping[str, Any],
    environment: Environment | LinearEnvironment,
    budget: int,
    horizon: int,
    seed: int,
) -> Policy:
    """Return the policy, if it can play that environment; the options are those of `policy_parameters`."""
    chosen, kind = _that_plays(policy, environment), kind_of(environment)
    given = {"horizon": horizon, **options, "seed": seed}
    made = {key: given[key] for key in parameters_of(chosen) if key in given}
    if issubclass(chosen, ContextualPolicy) and isinstance(environment, LinearEnvironment):
        return chosen(environment.n_arms, environment.dimension, budget, **{**_known(chosen, environment), **made})
    if kind == "decisions":
        return chosen(environment.graph, decisions=getattr(environment, "decisions", None), **made)
    return chosen(environment.graph, budget, **made)


def _known(policy: type[Policy], environment: LinearEnvironment) -> dict[str, Any]:
    """Return what a player would know of the environment, where it is not what policies assume."""
    about = {"reward_range": (environment.reward_range, (-1.0, 1.0)), "norm_bound": (environment.norm_bound, 1.0)}
    takes = parameters_of(policy)
    return {key: value for key, (value, usual) in about.items() if key in takes and value != usual}


def _that_plays(policy: str | type[Policy], environment: Environment | LinearEnvironment) -> type[Policy]:
    """Return the policy's class; refuse one that cannot play the environment."""
    kind = kind_of(environment)
    chosen = _policy(policy, names(kind))
    able = policy_kinds(chosen)
    if kind in able:
        return chosen
    what = "contexts" if "contexts" in (kind, *able) else "a set of decisions"
    wanted = "with" if able in (("contexts",), ("decisions",)) and kind != "contexts" else "without"
    fit = ", ".join(one for one, of in INSTANCES.items() if of in able)
    raise Refusal(f"needs an instance {wanted} {what} ({fit}); policies for this instance are {', '.join(names(kind))}")


def make_instance(text: str, horizon: int, seed: int) -> tuple[Environment | LinearEnvironment, int]:
    """Return the environment that NAME:key=value,... describes, and how many arms a decision has at most."""
    with _naming(text):
        name, options = split(text)
        return build_instance(name, _checked(options, instance_parameters(name, options)), horizon, seed)


def make_policy(
    text: str, environment: Environment | LinearEnvironment, budget: int, horizon: int, seed: int
) -> Policy:
    """Return the policy that NAME:key=value,... describes, if it can play that environment."""
    with _naming(text):
        name, options = split(text)
        chosen = _that_plays(name, environment)
        return build_policy(chosen, _checked(options, policy_parameters(chosen)), environment, budget, horizon, seed)


def _checked(options: Mapping[str, str], parameters: Mapping[str, inspect.Parameter]) -> dict[str, Any]:
    """Return the options, given as text, in their types; refuse what is unknown and what is missing."""
    accepted = ", ".join(key for key, one in parameters.items() if _reader(one)) or "none"
    for key in options:
        if key not in parameters or not _reader(parameters[key]):
            raise Refusal(f"unknown option {key!r}; accepted are {accepted}")
    for key, parameter in parameters.items():
        if parameter.default is parameter.empty and key not in options and key != "horizon":
            raise Refusal(f"{key} must be given; accepted are {accepted}")
    return from_text(options, parameters)


@contextmanager
def _naming(text: str) -> Iterator[None]:
    """Say in an error what was refused."""
    try:
        yield
    except (TypeError, ValueError) as error:
        raise Refusal(f"{text}: {error}") from error
