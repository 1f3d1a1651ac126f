"""A replay pays what was recorded, with regret against the best fixed decision in hindsight."""

from __future__ import annotations

from itertools import combinations
from typing import Any

import numpy as np
import pytest

from armtriage import (
    CombinatorialElimination,
    CombUCB1,
    Explicit,
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
    (OUTCOMES * np.nan, ValueError, r"outcomes must have a number in every row and column, got none for arm 0"),
    (OUTCOMES + np.inf, ValueError, r"outcomes must lie in \[0, 1\], got inf in round 0 for arm 0"),
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


GAPPED = np.where(np.random.default_rng(9).random(OUTCOMES.shape) < 0.4, np.nan, OUTCOMES)
GAPPED[:, 2] = OUTCOMES[:, 2]


@pytest.mark.parametrize("resample", [False, True])
def test_an_arm_without_an_outcome_is_not_eligible(resample: bool) -> None:
    env = ReplayEnvironment(GAPPED, resample=resample, seed=3 if resample else None)
    means = np.nanmean(GAPPED, axis=0)
    for t in range(20):
        eligible = env.eligible(t, 1)
        told = env.rewards(t, eligible, 1)
        rows = [t] if not resample else range(300)
        same = [np.array_equal(np.flatnonzero(~np.isnan(GAPPED[row])), eligible) for row in rows]
        right = [np.allclose(GAPPED[row, eligible], told, rtol=0, atol=1e-12) for row in rows]
        assert any(a and b for a, b in zip(same, right, strict=True))
        lost = np.sort(means[eligible])[-1] - means[eligible[0]]
        assert env.regret(eligible[:1], t, 1) == pytest.approx(lost, abs=1e-12)
        for arm in np.setdiff1d(range(6), eligible)[:1]:
            with pytest.raises(ValueError, match=f"arms must be recorded in round {t}, got {arm}"):
                env.rewards(t, [arm], 1)


@pytest.mark.parametrize("outcomes", [OUTCOMES, GAPPED], ids=["whole", "gaps"])
@pytest.mark.parametrize("resample", [False, True])
@pytest.mark.parametrize("kind", [CombUCB1, ThompsonSampling])
def test_compiled_code_plays_a_record_as_ask_and_tell_do(kind: Any, resample: bool, outcomes: Any) -> None:
    env = ReplayEnvironment(outcomes, 6, resample=resample, seed=3 if resample else None)
    policy = kind(6, budget=2, seed=1)
    trace = simulate(policy, env, horizon=200, replications=2, record_decisions=True, checkpoints=[200])
    player, lost = policy.fresh(1, 1), 0.0
    for t in range(200):
        decision = player.ask(eligible=env.eligible(t, 1)) if env.gaps else player.ask()
        assert decision.arms.tolist() == [arm for arm in trace.decisions[1, t].tolist() if arm >= 0]
        lost += env.regret(decision.arms, t, 1)
        player.tell(decision, env.rewards(t, decision.revealed, 1))
    if resample or env.gaps:
        assert trace.regret[1, -1] == pytest.approx(lost, abs=1e-9)


def test_resampled_rounds_are_rows_each_as_often_and_differ_between_replications() -> None:
    env = ReplayEnvironment(np.arange(5)[:, None] / 4 * [1.0, 1.0], resample=True, seed=3)
    rows = np.array([[env.rewards(t, [0, 1], r) for t in range(400)] for r in range(2)])
    assert (rows[..., 0] == rows[..., 1]).all()  # a row is drawn for all arms
    counts = np.array([(rows[..., 0] == value / 4).sum() for value in range(5)])
    assert (abs(counts - 160) < 56).all()  # five standard deviations: 3 in 1,000,000
    assert (rows[0] != rows[1]).any()
    again = ReplayEnvironment(np.arange(5)[:, None] / 4 * [1.0, 1.0], resample=True, seed=3)
    assert np.array_equal(again.rewards(7, [0], 1), env.rewards(7, [0], 1))
    trace = simulate(CombUCB1(2, 1, seed=1), env, horizon=1000, replications=2, checkpoints=[1000], certificate=True)
    assert trace.certificate is not None


@pytest.mark.parametrize("resample", [False, True])
def test_a_record_of_routes_has_regret_against_the_best_route(resample: bool) -> None:
    routes = Explicit([[0, 1], [2, 3], [4, 5]])
    env = ReplayEnvironment(
        OUTCOMES, decisions=routes, direction="minimize", resample=resample, seed=3 if resample else None
    )
    totals = OUTCOMES.reshape(300, 3, 2).sum(axis=2)
    assert env.regret([2, 3]) == pytest.approx(totals.mean(axis=0)[1] - totals.mean(axis=0).min(), abs=1e-12)
    policy = ThompsonSampling(6, decisions=routes, direction="minimize", seed=1)
    trace = simulate(policy, env, horizon=200, record_decisions=True, checkpoints=[200])
    played = trace.decisions[0][:, 0] // 2
    if resample:
        lost = totals.mean(axis=0)[played].sum() - 200 * totals.mean(axis=0).min()
    else:
        lost = totals[np.arange(200), played].sum() - totals[:200].sum(axis=0).min()
    assert trace.regret[0, -1] == pytest.approx(lost, abs=1e-9)


@pytest.mark.parametrize("kind", ["pandas", "polars"])
def test_a_frame_is_a_table_whose_columns_name_the_arms(kind: str) -> None:
    frames = pytest.importorskip(kind)
    env = ReplayEnvironment(frames.DataFrame({"tea": [1, None, 0], "jam": [0.5, 1.0, 0.25]}), resample=True, seed=3)
    assert env.names == ("tea", "jam")
    assert env.gaps
    assert np.array_equal(env.outcomes, [[1, 0.5], [np.nan, 1.0], [0, 0.25]], equal_nan=True)
    with pytest.raises(TypeError, match=r"outcomes must have numbers in every column, got .* in 'jam'"):
        ReplayEnvironment(frames.DataFrame({"tea": [1, 0], "jam": ["a", "b"]}))


def test_what_a_record_cannot_do_is_refused() -> None:
    with pytest.raises(ValueError, match="seed is for resample=True and must be None here, got 3"):
        ReplayEnvironment(OUTCOMES, seed=3)
    with pytest.raises(ValueError, match="outcomes must have a number in every row and column, got none for round 1"):
        ReplayEnvironment([[1, 0], [np.nan, np.nan]])
    with pytest.raises(ValueError, match=r"outcomes must have shape \(rounds, arms\), one or more of each, got \(0,\)"):
        ReplayEnvironment([])
    for env in (ReplayEnvironment(GAPPED, resample=True), ReplayEnvironment(OUTCOMES)):
        with pytest.raises(ValueError, match="certificate must be False for recorded outcomes that are not resampled"):
            simulate(CombUCB1(6, 2), env, horizon=10, certificate=True)
    pairs = FeedbackGraph.cliques([2, 2, 2])
    with pytest.raises(ValueError, match="sleepers_seen must be False for recorded outcomes with gaps"):
        simulate(CombUCB1(pairs, 2, sleepers_seen=True), ReplayEnvironment(GAPPED, pairs), horizon=10)
