"""Worlds that drift: their means, that luck stays the same, and that `simulate` plays them as one does by hand."""

from __future__ import annotations

import math
import warnings
from typing import Any

import numpy as np
import pytest

from armtriage import (
    CombUCB1,
    DriftingEnvironment,
    Explicit,
    FeedbackGraph,
    GuardedThompson,
    Jump,
    Matchings,
    RandomRounds,
    Season,
    StochasticEnvironment,
    ThompsonSampling,
    Walk,
    simulate,
)
from armtriage.environments import Drift
from armtriage.environments.protocol import cached_stream
from armtriage.kernels.normal import normal
from armtriage.kernels.random import row_of
from armtriage.simulation.players import by_ask_and_tell, player_for
from armtriage.theory import bounds_for

MEANS = np.linspace(0.1, 0.8, 8)
DRIFTS: dict[str, Drift] = {
    "jump": Jump({20: MEANS[::-1], 61: np.full(8, 0.5), 62: MEANS}),
    "walk": Walk(0.2, every=7),
    "season": Season(0.3, period=50, every=3),
}
ROUNDS = 120


def still(**more: Any) -> StochasticEnvironment:
    return StochasticEnvironment(MEANS, more.pop("graph", 8), seed=5, **more)


def reference_walk(world: DriftingEnvironment, rounds: int, replication: int) -> np.ndarray:
    """The path of a walk, arm by arm and step by step."""
    drift, (low, high) = world.drift, world.reward_range
    assert isinstance(drift, Walk)
    means, luck = world.world.means.copy(), cached_stream(world.seed, "drift", replication)
    for t in range(1, rounds + 1):
        if t % drift.every == 0:
            for arm in range(means.size):
                moved = means[arm] + drift.step * normal(row_of(luck, t // drift.every), arm)
                while not low <= moved <= high:
                    moved = 2 * low - moved if moved < low else 2 * high - moved
                means[arm] = moved
    return means


@pytest.mark.parametrize("span", [(0.0, 1.0), (-2.0, 3.0)])
def test_a_walk_takes_steps_and_is_thrown_back(span: tuple[float, float]) -> None:
    world = DriftingEnvironment(still(reward_range=span), Walk(0.9, every=3))
    for t in (0, 2, 3, 29, 30, 200, 31):
        for replication in (0, 3):
            assert world.means(t, replication) == pytest.approx(reference_walk(world, t, replication), abs=1e-9)
            assert ((world.means(t, replication) >= span[0]) & (world.means(t, replication) <= span[1])).all()


def test_a_season_is_a_sine_that_comes_back() -> None:
    world = DriftingEnvironment(still(), Season(0.3, period=50, every=3))
    for t in range(0, 160, 7):
        start = t % 50 // 3 * 3
        sine = [0.3 * math.sin(2 * math.pi * (start / 50 + arm / 8)) for arm in range(8)]
        assert world.means(t) == pytest.approx(np.clip(MEANS + sine, 0, 1))
    one = DriftingEnvironment(still(), Season(np.eye(8)[2] * 0.1, period=4, phase=np.zeros(8)))
    assert one.means(1) == pytest.approx(MEANS + np.eye(8)[2] * 0.1)


def test_a_jump_holds_from_its_round_on() -> None:
    world = DriftingEnvironment(still(), DRIFTS["jump"])
    got = [world.means(t) for t in (19, 20, 60, 61, 62, 10_000)]
    wanted = [MEANS, MEANS[::-1], MEANS[::-1], np.full(8, 0.5), MEANS, MEANS]
    assert np.array_equal(got, wanted)


@pytest.mark.parametrize("name", DRIFTS)
def test_stretches_end_where_means_change(name: str) -> None:
    drift = DRIFTS[name]
    world = DriftingEnvironment(still(), drift)
    t = 0
    while t < 200:
        end = min(drift.end(t), 300)
        assert end > t
        assert all(np.array_equal(world.means(t), world.means(one)) for one in range(t, end))
        assert end == 300 or not np.array_equal(world.means(t), world.means(end))
        t = end


@pytest.mark.parametrize("name", DRIFTS)
def test_luck_is_that_of_the_still_world(name: str) -> None:
    world = DriftingEnvironment(still(), DRIFTS[name])
    for t in range(0, 90, 11):
        here = StochasticEnvironment(world.means(t, 2), 8, seed=5)
        assert np.array_equal(world.rewards(t, range(8), 2), here.rewards(t, range(8), 2))
        best = np.sort(world.means(t, 2))[::-1]
        assert world.regret([0, 3], t, 2) == pytest.approx(best[:2].sum() - world.means(t, 2)[[0, 3]].sum())


def test_means_are_met_by_rewards() -> None:
    # 4,000 coins: the mean is within 4.5 standard errors but for 7 in a million.
    world = DriftingEnvironment(still(), Jump({100: MEANS[::-1]}))
    got = np.mean([world.rewards(120, range(8), replication) for replication in range(4000)], axis=0)
    assert (np.abs(got - MEANS[::-1]) <= 4.5 * np.sqrt(0.25 / 4000)).all()


CASES: dict[str, tuple[Any, dict[str, Any]]] = {
    "thompson": (lambda **more: ThompsonSampling(8, budget=3, seed=3, **more), {}),
    "guarded": (
        lambda **more: GuardedThompson(FeedbackGraph.cliques([4, 4]), budget=2, seed=3, **more),
        {
            "graph": FeedbackGraph.cliques([4, 4]),
        },
    ),
    "some": (lambda **more: CombUCB1(8, budget=3, seed=3, **more), {"availability": RandomRounds(0.6)}),
    "matchings": (
        lambda **more: ThompsonSampling(8, decisions=Matchings(2, 4), seed=3),
        {"decisions": Matchings(2, 4)},
    ),
    "listed": (
        lambda **more: CombUCB1(8, decisions=Explicit([[0, 1], [2, 3], [1, 6, 7]]), seed=3),
        {"decisions": Explicit([[0, 1], [2, 3], [1, 6, 7]])},
    ),
    "costs": (
        lambda **more: CombUCB1(8, budget=3, seed=3, reward_range=(-1, 2), direction="minimize"),
        {"reward_range": (-1.0, 2.0), "direction": "minimize", "reward": "beta"},
    ),
}


@pytest.mark.plain
@pytest.mark.parametrize("drift", DRIFTS)
@pytest.mark.parametrize("case", CASES)
def test_simulate_plays_as_ask_and_tell(case: str, drift: str) -> None:
    make, given = CASES[case]
    policy, world = make(), DriftingEnvironment(still(**given), DRIFTS[drift])
    assert player_for(policy, world) is not by_ask_and_tell
    with warnings.catch_warnings():
        warnings.simplefilter("ignore")
        trace = simulate(
            policy, world, horizon=ROUNDS, replications=2, checkpoints=range(1, ROUNDS + 1), record_decisions=True
        )
    for replication in range(2):
        one, lost = policy.fresh(replication=replication), 0.0
        for t in range(ROUNDS):
            decision = one.ask(eligible=world.eligible(t, replication)) if world.availability else one.ask()
            lost += world.regret(decision.arms, t, replication)
            one.tell(decision, world.rewards(t, decision.revealed, replication))
            played = trace.decisions[replication][t]
            assert played[played >= 0].tolist() == decision.arms.tolist()
            assert trace.regret[replication][t] == pytest.approx(lost, abs=1e-9)


def test_replications_do_not_depend_on_threads_or_order() -> None:
    world = DriftingEnvironment(still(), Walk(0.1, every=10))
    policy = ThompsonSampling(8, budget=2, seed=3)
    many = simulate(policy, world, horizon=300, replications=6, workers=3)
    fresh = DriftingEnvironment(still(), Walk(0.1, every=10))
    some = simulate(policy, fresh, horizon=300, replications=2, first_replication=4, workers=1)
    assert np.array_equal(many.regret[4:], some.regret)


@pytest.mark.parametrize(
    ("make", "message"),
    [
        (lambda: DriftingEnvironment(3, Walk(0.1)), "world must be a StochasticEnvironment, got int"),
        (lambda: DriftingEnvironment(still(), 3), "drift must be Jump, Walk or Season, got int"),
        (lambda: DriftingEnvironment(still(), Jump({5: [0.1]})), "means must have a mean for each of 8 arms"),
        (lambda: DriftingEnvironment(still(), Jump({5: MEANS + 0.5})), "means must lie in"),
        (lambda: DriftingEnvironment(still(), Season([0.1, 0.2], 10)), "swing must have a number for each of 8 arms"),
        (lambda: DriftingEnvironment(still(), Season(0.1, 10, phase=[1])), "phase must have a number for each of 8"),
        (lambda: Season(math.inf, 10), "swing must be a number, or one for each arm, got inf"),
        (lambda: Season(0.1, 10, every=11), "every must be at most 10, got 11"),
        (lambda: Jump({}), "means must be {round: means of all arms}"),
        (lambda: Jump({0: MEANS}), "means must be a whole number from 1, got 0"),
        (lambda: Walk(0.0), "step must be a positive number, got 0"),
        (lambda: Walk(0.1, every=0), "every must be a whole number from 1, got 0"),
        (
            lambda: DriftingEnvironment(StochasticEnvironment.from_outcomes(np.ones((2, 3)), 3), Walk(0.1)),
            "world must have a law of rewards that follows from the mean",
        ),
        (lambda: DriftingEnvironment(still(), DRIFTS["jump"]).regret([0]), "round must be given"),
    ],
)
def test_what_makes_no_sense_is_refused(make: Any, message: str) -> None:
    with pytest.raises((TypeError, ValueError), match=message):
        make()


def test_certificates_and_bounds_are_refused() -> None:
    world = DriftingEnvironment(still(), DRIFTS["jump"])
    with pytest.raises(ValueError, match="certificate must be False for means that change"):
        simulate(ThompsonSampling(8, budget=2), world, horizon=10, certificate=True)
    with pytest.raises(TypeError, match="environment must be one with known means, got DriftingEnvironment"):
        bounds_for(world, 2, horizon=10)
