"""Recorded contexts with recorded rewards are played as they stand or resampled, compiled as by ask and tell."""

from __future__ import annotations

from typing import Any

import numpy as np
import pytest

from armtriage import C2UCB, LinearEnvironment, simulate

RNG = np.random.default_rng(4)
CONTEXTS = RNG.uniform(-0.5, 0.5, (50, 4, 3))
OUTCOMES = RNG.integers(0, 2, (50, 4)).astype(float)


@pytest.mark.parametrize("resample", [False, True])
@pytest.mark.parametrize(("span", "direction"), [((0.0, 1.0), "maximize"), ((-3.0, 2.0), "minimize")])
def test_rewards_and_contexts_are_those_of_one_row(resample: bool, span: Any, direction: str) -> None:
    outcomes = span[0] + (span[1] - span[0]) * OUTCOMES
    env = LinearEnvironment.from_record(
        CONTEXTS, outcomes, resample=resample, reward_range=span, direction=direction, seed=3
    )
    drawn = set()
    for t in range(40):
        contexts = env.contexts(t, 2)
        (row,) = np.flatnonzero((contexts == CONTEXTS).all(axis=(1, 2)))
        drawn.add(int(row))
        assert env.rewards(t, [2, 0], 2) == pytest.approx(outcomes[row, [2, 0]])
        best = np.sort(outcomes[row])
        worth = best[-2:].sum() if direction == "maximize" else -best[:2].sum()
        own = outcomes[row, [1, 3]].sum() * (1 if direction == "maximize" else -1)
        assert env.regret(t, [1, 3], 2) == pytest.approx(worth - own)
    assert (drawn == set(range(40))) == (not resample)
    assert env.n_rounds == (None if resample else 50)


@pytest.mark.parametrize("resample", [False, True])
def test_compiled_code_plays_what_ask_and_tell_do(resample: bool) -> None:
    env = LinearEnvironment.from_record(CONTEXTS, OUTCOMES, resample=resample, seed=3)
    policy = C2UCB(4, 3, budget=2, reward_range=(0, 1), seed=1)
    trace = simulate(policy, env, horizon=50, replications=2, record_decisions=True, checkpoints=[50])
    player, lost = policy.fresh(1, 1), 0.0
    for t in range(50):
        decision = player.ask(env.contexts(t, 1))
        assert decision.arms.tolist() == trace.decisions[1, t].tolist()
        lost += env.regret(t, decision.arms, 1)
        player.tell(decision, env.rewards(t, decision.arms, 1))
    assert trace.regret[1, -1] == pytest.approx(lost)


@pytest.mark.parametrize(
    ("contexts", "outcomes", "options", "message"),
    [
        (CONTEXTS[0], OUTCOMES, {}, r"contexts must have shape \(rounds, K, d\), one or more of each, got \(4, 3\)"),
        (CONTEXTS, OUTCOMES[:, :3], {}, r"outcomes must have shape \(50, 4\) like contexts, got \(50, 3\)"),
        (CONTEXTS, OUTCOMES * 2, {}, r"outcomes must lie in \[0, 1\], got 2.0 in round 0 for arm"),
        (CONTEXTS, OUTCOMES * np.nan, {}, r"outcomes must "),
        (CONTEXTS * 9, OUTCOMES, {}, "contexts must be finite with norms at most context_bound = 1.0"),
        (CONTEXTS, OUTCOMES, {"direction": "up"}, "direction must be"),
    ],
)
def test_bad_records_are_refused(contexts: Any, outcomes: Any, options: dict[str, Any], message: str) -> None:
    with pytest.raises(ValueError, match=message):
        LinearEnvironment.from_record(contexts, outcomes, **options)


def test_rounds_beyond_the_record_are_refused() -> None:
    env = LinearEnvironment.from_record(CONTEXTS, OUTCOMES)
    with pytest.raises(ValueError, match="horizon must be at most the 50 rounds of contexts, got 51"):
        simulate(C2UCB(4, 3, budget=2, reward_range=(0, 1)), env, horizon=51)
