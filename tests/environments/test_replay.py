"""A replay pays what was recorded, with regret against the best fixed decision in hindsight."""

from __future__ import annotations

from itertools import combinations
from typing import Any

import numpy as np
import pytest

from armtriage import (
    CombinatorialElimination,
    CombUCB1,
    FeedbackGraph,
    ReplayEnvironment,
    StochasticEnvironment,
    ThompsonSampling,
    simulate,
)

OUTCOMES = np.random.default_rng(8).integers(0, 5, (300, 6)) / 4
SIX = FeedbackGraph.cliques([2, 1, 3])


def test_replay_pays_what_was_recorded() -> None:
    assert ReplayEnvironment(OUTCOMES, SIX).rewards(7, [4, 0]).tolist() == OUTCOMES[7, [4, 0]].tolist()


def test_replay_pays_the_same_in_every_replication() -> None:
    env = ReplayEnvironment(OUTCOMES, SIX)
    assert env.rewards(7, [4, 0], 9).tolist() == env.rewards(7, [4, 0]).tolist()


@pytest.mark.parametrize("size", [1, 2, 6])
def test_replay_regret_is_the_mean_loss_against_the_best_fixed_decision(size: int) -> None:
    env, sums = ReplayEnvironment(OUTCOMES, SIX), OUTCOMES.sum(axis=0)
    totals = {arms: sums[list(arms)].sum() for arms in combinations(range(6), size)}
    expected = {arms: (max(totals.values()) - total) / 300 for arms, total in totals.items()}
    assert {arms: env.regret(arms) for arms in expected} == pytest.approx(expected, abs=1e-12)


@pytest.mark.parametrize("horizon", [1, 50, 300])
@pytest.mark.parametrize("kind", [CombUCB1, ThompsonSampling, CombinatorialElimination])
def test_replay_regret_of_a_run_is_that_against_hindsight(kind: Any, horizon: int) -> None:
    policy = kind(SIX, budget=2, seed=1)
    trace = simulate(policy, ReplayEnvironment(OUTCOMES, SIX), horizon=horizon, record_decisions=True)
    played = OUTCOMES[:horizon]
    best = max(played[:, list(arms)].sum() for arms in combinations(range(6), 2))
    own = np.take_along_axis(played, trace.decisions[0].astype(np.int64), axis=1).sum()
    assert trace.regret[0, -1] == pytest.approx(best - own, abs=1e-9)


def test_replay_regret_at_a_checkpoint_is_against_the_best_of_the_whole_horizon() -> None:
    policy = CombUCB1(SIX, budget=2, seed=1)
    env = ReplayEnvironment(OUTCOMES, SIX)
    trace = simulate(policy, env, horizon=200, checkpoints=[50, 200], record_decisions=True)
    best = max(combinations(range(6), 2), key=lambda arms: OUTCOMES[:200, list(arms)].sum())
    own = np.take_along_axis(OUTCOMES[:50], trace.decisions[0, :50].astype(np.int64), axis=1).sum()
    assert trace.regret[0, 0] == pytest.approx(OUTCOMES[:50, list(best)].sum() - own, abs=1e-9)


def test_replay_of_what_a_stochastic_environment_pays_gives_the_same_decisions() -> None:
    env = StochasticEnvironment(np.linspace(0.1, 0.9, 6), SIX, seed=2)
    replay = ReplayEnvironment([env.rewards(t, np.arange(6)) for t in range(400)], SIX)
    policy = CombinatorialElimination(SIX, budget=2, seed=1)
    traces = [simulate(policy, one, horizon=400, record_decisions=True) for one in (env, replay)]
    assert np.array_equal(traces[0].decisions, traces[1].decisions)


def test_horizon_beyond_the_recorded_rounds_is_refused() -> None:
    with pytest.raises(ValueError, match="horizon must be at most the 300 recorded rounds, got 301"):
        simulate(CombUCB1(SIX, budget=2), ReplayEnvironment(OUTCOMES, SIX), horizon=301)


BAD_REPLAYS: list[tuple[Any, type[Exception], str]] = [
    (OUTCOMES[:, :5], ValueError, r"outcomes must have shape \(rounds, 6\) with a round or more, got \(300, 5\)"),
    (OUTCOMES[:0], ValueError, r"got \(0, 6\)"),
    (OUTCOMES[0], ValueError, r"got \(6,\)"),
    (OUTCOMES * 2, ValueError, r"outcomes must lie in \[0, 1\], got .* in round 0 for arm"),
    (OUTCOMES * np.nan, ValueError, r"outcomes must lie in \[0, 1\], got nan in round 0 for arm 0"),
]


@pytest.mark.parametrize(("outcomes", "error", "message"), BAD_REPLAYS, ids=range(len(BAD_REPLAYS)))
def test_bad_outcomes_are_refused(outcomes: Any, error: type[Exception], message: str) -> None:
    with pytest.raises(error, match=message):
        ReplayEnvironment(outcomes, SIX)


@pytest.mark.parametrize("round_", [300, -1])
def test_round_that_was_not_recorded_is_refused(round_: int) -> None:
    with pytest.raises(ValueError, match=f"round must .*got {round_}"):
        ReplayEnvironment(OUTCOMES, SIX).rewards(round_, [0])


def test_outcomes_of_a_replay_are_its_own() -> None:
    outcomes = OUTCOMES.copy()
    env = ReplayEnvironment(outcomes, SIX)
    outcomes[7, 4] = 1.0 - outcomes[7, 4] / 2
    assert env.rewards(7, [4])[0] == OUTCOMES[7, 4]
