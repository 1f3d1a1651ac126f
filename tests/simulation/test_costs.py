"""Simulations in other units: costs play as rewards do, and what is asked and told is what is simulated."""

from __future__ import annotations

from typing import Any

import networkx as nx
import numpy as np
import pytest

from armtriage import (
    C2UCB,
    KLUCB,
    CombUCB1,
    ConstrainedElimination,
    Explicit,
    LinearEnvironment,
    Paths,
    Policy,
    ReplayEnvironment,
    StochasticEnvironment,
    ThompsonSampling,
    simulate,
)
from conftest import POLICIES, SIMPLE, play

COSTS: dict[str, Any] = {"reward_range": (2.0, 10.0), "direction": "minimize"}
LINEAR_COSTS: dict[str, Any] = {"reward_range": (-4.0, 4.0), "direction": "minimize"}


def mirrored(world: Any) -> Any:
    """Return the world of costs whose luck is that of a world of rewards."""
    if isinstance(world, LinearEnvironment):
        return LinearEnvironment(-4 * world.theta, "cube", world.n_arms, seed=world.seed, **LINEAR_COSTS)
    means, decisions = 10 - 8 * world.means, world.decisions
    return StochasticEnvironment(means, world.graph, seed=world.seed, decisions=decisions, **COSTS)


@pytest.mark.parametrize("name", [name for name in SIMPLE if name != "Guard"])
def test_costs_are_played_as_the_rewards_that_they_take_away(name: str) -> None:
    entry = POLICIES[name]
    world, options = entry.environment, LINEAR_COSTS if entry.face == "contexts" else COSTS
    horizon = 400 if entry.in_loop else 40
    gains = simulate(entry.make(), world, horizon=horizon, record_decisions=True)
    costs = simulate(entry.make(**options), mirrored(world), horizon=horizon, record_decisions=True)
    assert np.array_equal(gains.decisions, costs.decisions)
    width = 4.0 if entry.face == "contexts" else 8.0
    np.testing.assert_allclose(costs.regret, width * gains.regret, rtol=1e-9, atol=1e-9)


def streets(size: int = 4) -> tuple[Paths, StochasticEnvironment]:
    """Two-way streets, an arm for each direction, which take from one minute to eight."""
    grid = nx.grid_2d_graph(size, size, create_using=nx.DiGraph)
    routes = Paths.from_networkx(grid, (0, 0), (size - 1, size - 1))
    minutes = np.random.default_rng(5).uniform(1.5, 7.5, routes.n_arms)
    world = StochasticEnvironment(
        minutes, routes.n_arms, "beta", seed=5, decisions=routes, reward_range=(1, 8), direction="minimize"
    )
    return routes, world


@pytest.mark.parametrize("kind", [ThompsonSampling, CombUCB1, KLUCB])
def test_routes_with_cycles_are_learned(kind: type[Policy]) -> None:
    routes, world = streets()
    assert routes.needs_costs
    policy = kind(routes.n_arms, decisions=routes, seed=3, reward_range=(1, 8), direction="minimize")  # type: ignore[call-arg]
    trace = simulate(policy, world, horizon=600, checkpoints=[200, 400, 600], record_decisions=True)
    lost = np.diff(trace.regret[0], prepend=0.0)
    assert lost[2] < lost[0] / 1.5
    assert trace.decisions is not None
    for row in trace.decisions[0, ::60]:
        assert routes.contains(row[row >= 0])


@pytest.mark.parametrize("kind", [ThompsonSampling, CombUCB1])
@pytest.mark.parametrize("name", ["streets", "menus", "budget"])
def test_costs_mean_the_same_to_simulate_as_to_tell(kind: type[Any], name: str) -> None:
    routes, world = streets(3)
    allowed: dict[str, Any] = {"decisions": routes}
    if name != "streets":
        menus = Explicit([[0, 1, 2], [3], [1, 4], [2, 5], [0, 3, 4, 5]])
        allowed = {"decisions": menus} if name == "menus" else {"budget": 2}
        means = np.linspace(2.3, 7.9, 6)
        world = StochasticEnvironment(
            means, 6, "uniform", seed=1, decisions=allowed.get("decisions"), reward_range=(1, 8), direction="minimize"
        )
    # A range that holds the world's, and is no power of two.
    policy = kind(world.n_arms, **allowed, seed=3, reward_range=(0.3, 9.4), direction="minimize")
    trace = simulate(policy, world, horizon=80, record_decisions=True)
    assert trace.decisions is not None
    assert play(policy.fresh(), world, 80) == [[arm for arm in row if arm >= 0] for row in trace.decisions[0].tolist()]


def test_recorded_costs_are_played() -> None:
    outcomes = np.random.default_rng(4).uniform(5, 20, (300, 5)) + np.arange(5)
    record = ReplayEnvironment(outcomes, 5, reward_range=(5, 25), direction="minimize")
    policy = CombUCB1(5, budget=2, seed=1, reward_range=(5, 25), direction="minimize")
    trace = simulate(policy, record, horizon=300, checkpoints=[300], record_decisions=True)
    assert trace.decisions is not None
    paid = sum(outcomes[t, arms].sum() for t, arms in enumerate(trace.decisions[0]))
    assert trace.regret[0, 0] == pytest.approx(paid - np.sort(outcomes.sum(axis=0))[:2].sum())
    assert play(policy.fresh(), record, 300) == trace.decisions[0].tolist()


def test_certificates_of_a_simulation_are_in_the_units_of_the_costs() -> None:
    means = 10 - 8 * np.linspace(0.1, 0.9, 6)
    costs = StochasticEnvironment(means, 6, seed=2, **COSTS)
    gains = StochasticEnvironment(np.linspace(0.1, 0.9, 6), 6, seed=2)
    seen = simulate(ThompsonSampling(6, 2, seed=1), gains, horizon=500, certificate=True)
    told = simulate(ThompsonSampling(6, 2, seed=1, **COSTS), costs, horizon=500, certificate=True)
    assert seen.certificate is not None
    assert told.certificate is not None
    np.testing.assert_allclose(told.certificate, 8 * seen.certificate, rtol=1e-9)
    assert (told.certificate >= told.regret - 1e-9).all()


@pytest.mark.parametrize(
    ("policy", "world", "message"),
    [
        ({"direction": "minimize"}, {}, "direction must be 'maximize' like the environment's, got 'minimize'"),
        ({}, {"direction": "minimize"}, "direction must be 'minimize' like the environment's, got 'maximize'"),
        ({}, {"reward_range": (0, 2)}, r"reward_range must contain \[0, 2\], .* got \(0.0, 1.0\)"),
        ({"reward_range": (0.5, 3)}, {}, r"reward_range must contain \[0, 1\], the environment's rewards, got \(0.5"),
    ],
)
def test_policies_that_do_not_fit_the_world_are_refused(
    policy: dict[str, Any], world: dict[str, Any], message: str
) -> None:
    env = StochasticEnvironment([0.5, 0.5, 0.5], 3, **world)
    with pytest.raises(ValueError, match=message):
        simulate(CombUCB1(3, 1, **policy), env, horizon=5)


def test_an_own_world_says_itself_whether_it_tells_costs() -> None:
    class Own(StochasticEnvironment):
        pass

    class Foreign:
        def __init__(self) -> None:
            self.world = StochasticEnvironment([0.5, 0.5], 2)
            self.graph, self.n_arms = self.world.graph, 2
            self.rewards, self.regret = self.world.rewards, self.world.regret

    foreign = Foreign()
    with pytest.raises(ValueError, match="direction must be 'maximize'"):
        simulate(CombUCB1(2, 1, direction="minimize"), foreign, horizon=5)
    foreign.direction = "minimize"  # type: ignore[attr-defined]
    with pytest.warns(UserWarning, match="Foreign is not compiled"):
        simulate(CombUCB1(2, 1, direction="minimize"), foreign, horizon=5)


def test_a_contextual_policy_must_minimise_where_contexts_cost() -> None:
    env = LinearEnvironment([0.5, 0.1], "cube", 4, direction="minimize")
    with pytest.raises(ValueError, match="direction must be 'minimize'"):
        simulate(C2UCB(4, 2, 1), env, horizon=5)


def test_policies_over_networks_with_cycles_must_minimise() -> None:
    routes, _ = streets(3)
    for options in ({}, {"direction": "minimize", "reward_range": (-1, 1)}):
        with pytest.raises(ValueError, match="direction must be 'minimize' and reward_range from 0 for a network"):
            ThompsonSampling(routes.n_arms, decisions=routes, **options)
    with pytest.raises(ValueError, match="decisions must be a network without cycles, since variant='oracle'"):
        ConstrainedElimination(routes.n_arms, routes, direction="minimize")
    few = ConstrainedElimination(routes.n_arms, routes, direction="minimize", variant="repaired", horizon=100)
    assert routes.contains(few.ask().arms)


def test_routes_that_all_visit_everything_are_played() -> None:
    # The shortest route is as long as any could be, and the way back closes cycles.
    line = Paths(5, [(0, 1), (1, 2), (2, 3), (3, 4), (2, 1), (3, 2), (0, 1)], 0, 4)
    assert line.needs_costs
    policy = CombUCB1(7, decisions=line, direction="minimize")
    assert policy.ask().arms.tolist() == [0, 1, 2, 3]
