"""Routes through a network with cycles: closed streets, names, late costs, and files."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import numpy as np
import pytest

from armtriage import KLUCB, CombUCB1, Paths, Policy, StochasticEnvironment, ThompsonSampling

SPAN = (1.0, 9.0)


def streets(directed: bool) -> Paths:
    import networkx as nx

    grid = nx.grid_2d_graph(4, 4, create_using=nx.DiGraph if directed else nx.Graph)
    return Paths.from_networkx(grid, (0, 0), (3, 3))


def driver(kind: Any, routes: Paths) -> Any:
    return kind(routes.n_arms, decisions=routes, names=routes.names, seed=3, reward_range=SPAN, direction="minimize")


@pytest.mark.parametrize("directed", [True, pytest.param(False, marks=pytest.mark.thorough)])
@pytest.mark.parametrize("kind", [ThompsonSampling, CombUCB1, KLUCB])
def test_closed_streets_are_never_driven_and_a_saved_policy_goes_on(kind: Any, directed: bool, tmp_path: Path) -> None:
    routes = streets(directed)
    world = StochasticEnvironment(
        np.random.default_rng(1).uniform(2, 8, routes.n_arms),
        routes.n_arms,
        "uniform",
        decisions=routes,
        reward_range=SPAN,
        direction="minimize",
        seed=1,
    )
    policy = driver(kind, routes)
    rng = np.random.default_rng(2)
    copies: list[Policy] = [policy]
    for day in range(60):
        if day == 30:
            policy.save(tmp_path / "driver")
            copies.append(Policy.load(tmp_path / "driver"))
            assert copies[1].decisions == routes
            assert copies[1].names == routes.names
        open_ = np.ones(routes.n_arms, np.bool_)
        if day % 3:
            open_[rng.choice(routes.n_arms, 4, replace=False)] = False
        if routes.maximise(-np.ones(routes.n_arms), exclude=np.flatnonzero(~open_)) is None:
            continue
        decisions = [one.ask(eligible=open_ if day % 3 else None) for one in copies]
        arms = decisions[0].arms
        assert all(np.array_equal(one.arms, arms) for one in decisions)
        assert open_[arms].all()
        assert routes.contains(arms)
        assert decisions[0].names == tuple(routes.names[arm] for arm in arms)  # type: ignore[index]
        for one, decision in zip(copies, decisions, strict=True):
            one.tell(decision, dict(zip(decision.names, world.rewards(day, arms).tolist(), strict=True)))


def test_a_target_behind_closed_streets_is_an_error_that_changes_nothing() -> None:
    policy = driver(ThompsonSampling, streets(False))
    ends = [name for name in policy.names if (3, 3) not in name]
    with pytest.raises(ValueError, match="eligible must leave a decision of Paths"):
        policy.ask(eligible=ends)
    assert policy.ask().number == 0


@pytest.mark.parametrize("kind", [CombUCB1, KLUCB])
def test_indices_below_the_least_cost_count_as_the_least_cost(kind: Any) -> None:
    routes = streets(False)
    policy = driver(kind, routes)
    # Nothing is known, so that every street may take one minute, and the shortest routes come first.
    for _ in range(3):
        decision = policy.ask()
        assert decision.arms.size == 6
        policy.tell_revealed(decision, np.full(6, 1.0))
    assert policy.ask().arms.size == 6
