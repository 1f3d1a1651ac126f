"""The guard over decision sets where what is told are costs: the same decisions, bounds in the same units."""

from __future__ import annotations

from typing import Any

import numpy as np
import pytest

from armtriage import (
    Certificate,
    Explicit,
    Guard,
    GuardedThompson,
    Knapsack,
    Matchings,
    PartitionMatroid,
    Paths,
    StochasticEnvironment,
    ThompsonSampling,
    simulate,
)

STREETS = [(node, node + 1) for node in range(9) if node % 3 < 2] + [(node, node + 3) for node in range(6)]
ROADS = [(0, 1), (0, 2), (1, 3), (2, 3), (1, 4), (3, 5), (4, 5), (0, 5)]
SETS: dict[str, Any] = {
    "slates": PartitionMatroid(np.repeat(np.arange(3), 4), 1),
    "routes": Paths(6, ROADS, source=0, target=5),
    "matchings": Matchings(3, 3),
    "menus": Explicit([[0, 1], [2], [1, 2, 3]]),
    "two-way": Paths(9, STREETS, source=0, target=8, directed=False),
}
MINUTES = (2.0, 30.0)


def world(name: str, **more: Any) -> StochasticEnvironment:
    decisions = SETS[name]
    means = np.random.default_rng(4).uniform(4.0, 28.0, decisions.n_arms)
    given: dict[str, Any] = {"decisions": decisions, "reward_range": MINUTES, "direction": "minimize", "seed": 4}
    return StochasticEnvironment(means, decisions.n_arms, "beta", **(given | more))


def policy(name: str, **more: Any) -> GuardedThompson:
    given: dict[str, Any] = {"decisions": SETS[name], "reward_range": MINUTES, "direction": "minimize", "seed": 4}
    return GuardedThompson(SETS[name].n_arms, **(given | more))


@pytest.mark.parametrize("mode", ["time", "shadow"])
@pytest.mark.parametrize("name", [one for one in SETS if one != "two-way"])
def test_costs_are_negative_rewards(name: str, mode: str) -> None:
    env = world(name)
    costs = policy(name, mode=mode, factor=0.02, delta=0.5)
    gains = policy(name, mode=mode, factor=0.02, delta=0.5, reward_range=(-30.0, -2.0), direction="maximize")
    for number in range(150):
        one, two = costs.ask(), gains.ask()
        np.testing.assert_array_equal(one.arms, two.arms)
        paid = env.rewards(number, one.revealed)
        costs.tell(one, paid)
        gains.tell(two, -paid)
    assert costs.account == pytest.approx(gains.account)
    assert costs.account.forced_rounds > 0
    mine, theirs = costs.certificate(), gains.certificate()
    assert mine.regret_bound == pytest.approx(theirs.regret_bound)
    assert mine.next_bound == pytest.approx(theirs.next_bound)
    assert "more in all" in str(mine)


@pytest.mark.parametrize("mode", ["time", "shadow"])
@pytest.mark.parametrize("name", SETS)
def test_what_is_promised_of_costs_holds_in_their_units(name: str, mode: str) -> None:
    """Each of these ten runs may fail with probability 0.01."""
    env, one = world(name), policy(name, mode=mode)
    paid = 0.0
    for number in range(300):
        decision = one.ask()
        paid += env.regret(decision.arms)
        one.tell(decision, env.rewards(number, decision.revealed))
    found = one.certificate()
    assert isinstance(found, Certificate)
    assert paid <= found.regret_bound
    assert env.regret(found.next_decision) <= found.next_bound + 1e-9
    worst = max(env.regret(one) for one in SETS[name])
    assert paid < 300 * worst / 4
    np.testing.assert_array_equal(simulate(one, env, horizon=300, checkpoints=[300]).regret, [[pytest.approx(paid)]])


def test_forced_rounds_on_a_two_way_network_ask_for_costs_only() -> None:
    """With costs from 0 the most hopeful street costs nothing, and ties must not be broken above that."""
    env = world("two-way", reward_range=(0.0, 30.0))
    for mode in ("time", "shadow"):
        one = policy("two-way", reward_range=(0.0, 30.0), mode=mode, factor=0.0)
        for number in range(40):
            decision = one.ask()
            one.tell(decision, env.rewards(number, decision.revealed))
        assert one.account.forced_rounds > 5


def test_a_solver_of_dear_routes_is_stopped() -> None:
    """A hostile solver that always takes the dearest way, inside the shadow budget."""
    env = world("routes")
    dearest = SETS["routes"].maximise(env.means)
    guard = Guard(
        lambda number: dearest,
        env.n_arms,
        decisions=SETS["routes"],
        reward_range=MINUTES,
        direction="minimize",
        mode="shadow",
    )
    trace = simulate(guard, env, horizon=1500, checkpoints=[750, 1500], certificate=0.01)
    assert trace.certificate is not None
    assert (trace.regret <= trace.certificate).all()
    assert trace.regret[0, 1] < 0.4 * 1500 * env.regret(dearest)


def test_a_budget_of_campaigns_pays_for_itself() -> None:
    """Campaigns may lose money, so that the empty bag is a decision, and rewards lie on both sides of 0."""
    bag = Knapsack([40, 30, 25, 50, 10, 15], capacity=80)
    env = StochasticEnvironment(
        [12.0, 5.0, -8.0, 20.0, -3.0, 4.0], 6, "uniform", decisions=bag, reward_range=(-20.0, 40.0), seed=3
    )
    given: dict[str, Any] = {"decisions": bag, "reward_range": (-20.0, 40.0), "seed": 3}
    guarded = GuardedThompson(6, **given)
    lost = 0.0
    for day in range(800):
        decision = guarded.ask()
        lost += env.regret(decision.arms)
        guarded.tell(decision, env.rewards(day, decision.revealed))
    assert lost <= guarded.certificate().regret_bound
    np.testing.assert_array_equal(guarded.certificate().next_decision, bag.maximise(env.means))
    sampled = simulate(ThompsonSampling(6, **given), env, horizon=800, checkpoints=[800]).regret[0, 0]
    assert lost < 3 * sampled + 800
