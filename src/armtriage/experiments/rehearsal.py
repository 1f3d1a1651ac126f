"""Before anything is played, every environment and every policy is built once; what goes wrong is told by its key."""

from __future__ import annotations

import math
from collections.abc import Mapping
from typing import Any

from armtriage.catalogue import INSTANCES, build_instance, build_policy, kind_of, names, policy_kinds
from armtriage.environments import Environment, LinearEnvironment
from armtriage.experiments.cells import Spec
from armtriage.experiments.definition import (
    ENVIRONMENT,
    POLICY,
    Entry,
    Problems,
    Settings,
    Wrong,
    at_its_key,
    check,
    counted,
    entries,
    in_json,
    specs,
)
from armtriage.experiments.identity import code_version
from armtriage.experiments.manifest import Manifest
from armtriage.kernels.random import check_seed
from armtriage.policies.policy import Policy
from armtriage.simulation.simulate import certificate_delta, check_certificate, check_match, check_points


def manifest_of(given: Mapping[str, Any], code: bool = True) -> Manifest:
    """Return the experiment that a definition stands for, or raise all that is wrong with it.

    `code` is that of `Experiment.from_file`.
    """
    problems = Problems()
    settings = _settings(given, problems)
    horizons = settings.horizon if settings else 1
    places = entries(ENVIRONMENT, given.get("environments"), problems, code, horizons)
    players = entries(POLICY, given.get("policies"), problems, code)
    if excess := _excess(settings or check(Settings, {"horizon": 1}, "", ()), places, players):
        problems.found[excess] = None
        raise problems.error()
    environments, policies = specs(ENVIRONMENT, places, problems), specs(POLICY, players, problems)
    for those in (environments, policies):
        _check_apart(those, problems)
    if settings is None:
        raise problems.error()
    seed = check_seed(settings.seed)
    for one in environments:
        with problems.noting():
            _check_settings(settings, one)
    pairs = _rehearse(environments, policies, settings, seed, problems)
    if problems.found:
        raise problems.error()
    return Manifest(
        name=settings.name,
        seed=seed,
        code=code_version(),
        environments=tuple(environments),
        policies=tuple(policies),
        pairs=tuple(pairs),
        replications=settings.replications,
        block=settings.block,
        checkpoints=settings.checkpoints if isinstance(settings.checkpoints, int) else tuple(settings.checkpoints),
        redraw=settings.redraw,
        definition={key: in_json(key, value) for key, value in given.items()},
        certificate=certificate_delta(settings.certificate),
    )


def _excess(settings: Settings, environments: list[Entry], policies: list[Entry]) -> str:
    """Say it if there are too many cells, before any grid is written out."""
    blocks = -(-settings.replications // settings.block)
    sizes = [counted(one.grid) for one in environments], [counted(one.grid) for one in policies]
    cells = sum(
        size * number
        for one, size in zip(environments, sizes[0], strict=True)
        for policy, number in zip(policies, sizes[1], strict=True)
        if not isinstance(one.what, str) or INSTANCES[one.what] in policy_kinds(policy.what)
    )
    # Each environment and each policy plays somewhere, or is refused.
    cells = blocks * max(cells, *map(sum, sizes))
    if cells <= settings.max_cells:
        return ""
    parts = zip((*map(sum, sizes), blocks), ("environments", "policies", "blocks of replications"), strict=True)
    what = ", ".join(f"{_many(number)} {name}" for number, name in parts)
    return f"max_cells: {what} make {_many(cells)} cells, more than {settings.max_cells:,}; raise it if you mean them"


def _many(number: int) -> str:
    return f"{number:,}" if number < 10**15 else f"about 10^{round(math.log10(number))}"


def _settings(given: Mapping[str, Any], problems: Problems) -> Settings | None:
    """Return what is right of the settings; None if without a horizon nothing can be built."""
    made: dict[str, Any] = {}
    parts = ("environments", "policies")
    for key in (key for key in given if key not in parts):
        with problems.noting(), at_its_key("", given):
            value = in_json(key, given[key])
            check(Settings, {"horizon": 1, key: value}, "", parts)
            made[key] = value
    with problems.noting():
        if "horizon" in made or "horizon" not in given:
            return check(Settings, made, "", parts)
    return None


def _check_settings(settings: Settings, environment: Spec) -> None:
    """Refuse settings that do not go with an environment."""
    with at_its_key("", ("checkpoints",)):
        check_points(settings.checkpoints, environment.horizon)
    if settings.redraw and "seed" in environment.options:
        raise Wrong.at(
            f"{environment.path}.seed", "must not be given with redraw, which draws one for each replication"
        )


def _check_apart(given: list[Spec], problems: Problems) -> None:
    """Refuse two that are the same, or are called the same."""
    keys: dict[str, str] = {}
    labels: dict[str, str] = {}
    for one in given:
        with problems.noting():
            if one.key in keys:
                raise Wrong.at(one.path, f"{one.label!r} is the same as {keys[one.key]}")
            if one.label in labels:
                raise Wrong.at(one.path, f"label {one.label!r} is that of {labels[one.label]}; give another one")
            keys[one.key], labels[one.label] = f"{one.path}, {one.label!r}", one.path


def _rehearse(
    environments: list[Spec], policies: list[Spec], settings: Settings, seed: int, problems: Problems
) -> list[tuple[int, int]]:
    """Return which policies play in which environments, by their positions; each plays in all of its kind."""
    pairs = []
    for place, one in enumerate(environments):
        with problems.noting():
            environment, budget = _environment(one, seed)
            kind = kind_of(environment)
            fit = [number for number, policy in enumerate(policies) if kind in policy_kinds(policy.what)]
            if policies and not fit:
                raise Wrong.at(one.path, f"no policy can play it; accepted are {', '.join(names(kind))}")
            for number in fit:
                pairs.append((place, number))
                with problems.noting(), at_its_key("", ("certificate",)):
                    made = _try_policy(policies[number], one, environment, budget, seed)
                    check_certificate(settings.certificate, made, environment)
    if not problems.found:
        idle = set(range(len(policies))) - {number for _, number in pairs}
        for number in sorted(idle):
            with problems.noting():
                raise _idle(policies[number])
    return pairs


def _environment(one: Spec, seed: int) -> tuple[Environment | LinearEnvironment, int]:
    seed = one.options.get("seed", seed)
    try:
        made = build_instance(one.what, one.options, one.horizon, seed)
        if not isinstance(one.what, str):
            again, _ = build_instance(one.what, one.options, one.horizon, seed)
            if getattr(again, "seed", None) != getattr(made[0], "seed", None):
                raise ValueError("seed must be an argument that fixes the rewards: two calls made two different ones")
        return made
    except (TypeError, ValueError) as error:
        raise Wrong.about(one.path, (*one.options, "budget", "horizon"), str(error)) from error
    except Exception as error:
        raise Wrong.at(one.path, f"its instance raised {type(error).__name__}: {error}") from error


def _try_policy(
    policy: Spec, where: Spec, environment: Environment | LinearEnvironment, budget: int, seed: int
) -> Policy:
    try:
        made = build_policy(policy.what, policy.options, environment, budget, where.horizon, seed)
        check_match(made, environment, where.horizon)
        return made
    except (TypeError, ValueError) as error:
        key = str(error).partition(" ")[0]
        if key in policy.options or key not in (*where.options, "horizon"):
            text = str(error) if key in policy.options else f"in {where.label}: {error}"
            raise Wrong.about(policy.path, policy.options, text) from error
        raise Wrong.about(where.path, (*where.options, "horizon"), str(error)) from error
    except Exception as error:
        raise Wrong.at(policy.path, f"in {where.label}: it raised {type(error).__name__}: {error}") from error


def _idle(policy: Spec) -> Wrong:
    able = policy_kinds(policy.what)
    if not able:
        return Wrong.at(policy.path, "its constructor must take budget or decisions by name")
    fit = ", ".join(name for name, kind in INSTANCES.items() if kind in able)
    return Wrong.at(policy.path, f"it can play in none of the environments; accepted are the instances {fit}")
