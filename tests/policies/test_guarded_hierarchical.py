"""GuardedLinear with elimination where the account is full: who may learn from what, and the bound."""

from __future__ import annotations

from typing import Any

import numpy as np
import pytest

from armtriage import GuardedLinear, LinearEnvironment, random_linear, simulate
from armtriage.policies.facts import arrays_of
from armtriage.policies.linear.guarded_hierarchical import allowance_of_stages
from armtriage.theory import guarded_hierarchical_upper


def make(env: LinearEnvironment, budget: int, factor: float, **more: Any) -> GuardedLinear:
    about = {"noise_scale": env.noise_scale, "seed": 7, **more}
    return GuardedLinear(env.n_arms, env.dimension, budget, fallback="hierarchical", factor=factor, **about)


def known_before_forced_rounds(policy: GuardedLinear) -> dict[str, np.ndarray]:
    """All that the proposer, the ellipsoid and the account go by."""
    state = policy._state
    return {
        f"{name}.{part}": array
        for name in ("ridge", "fit")
        for part, array in arrays_of(getattr(state, name)).items()
        if part not in ("scratch", "vector", "block")
    } | {"spent": np.array([state.book.spent, state.book.forced])}


def test_what_forced_rounds_show_never_reaches_the_account() -> None:
    """The proof's independence: other rewards in forced rounds change no admitted round, and not which are forced."""
    env = random_linear(12, 3, norm=0.9, reward="uniform", half_width=0.1, seed=4)
    one, other = make(env, 3, 0.01), make(env, 3, 0.01)
    forced = 0
    for t in range(300):
        mine, theirs = one.ask(env.contexts(t)), other.ask(env.contexts(t))
        admitted = not one._notes[t].any()
        assert admitted == (not other._notes[t].any())
        forced += not admitted
        if admitted:
            assert mine.arms.tolist() == theirs.arms.tolist()
        one.tell(mine, env.rewards(t, mine.arms))
        other.tell(theirs, env.rewards(t, theirs.arms) if admitted else -env.rewards(t, theirs.arms))
        left, right = known_before_forced_rounds(one), known_before_forced_rounds(other)
        assert all(np.array_equal(left[name], right[name]) for name in left)
    assert 20 < forced < 290
    assert one._state.staged.ridge.counts[:, 0].sum() > 0


def test_stages_learn_from_forced_rounds_alone() -> None:
    env = random_linear(12, 3, norm=0.9, reward="uniform", half_width=0.1, seed=4)
    policy = make(env, 3, 0.01)
    admitted = staged = 0
    for t in range(200):
        decision = policy.ask(env.contexts(t))
        notes = policy._notes[t]
        admitted += int((notes == 0).sum())
        staged += int((notes > 0).sum())
        policy.tell(decision, env.rewards(t, decision.arms))
    assert policy._state.ridge.counts[0, 0] == admitted
    assert policy._state.staged.ridge.counts[:, 0].sum() == staged
    assert admitted > 0 < staged


@pytest.mark.parametrize("factor", [1.0, 0.001])
def test_regret_stays_within_the_bound(factor: float) -> None:
    env, rounds = random_linear(10, 2, norm=0.9, reward="uniform", half_width=0.1, seed=3), 3000
    policy = make(env, 2, factor)
    trace = simulate(policy, env, horizon=rounds, replications=2, certificate=True, workers=1)
    sizes = {"n_arms": 10, "dimension": 2, "budget": 2, "horizon": rounds, "noise_scale": env.noise_scale}
    bound = guarded_hierarchical_upper(**sizes, factor=factor).value
    assert isinstance(bound, float)
    assert trace.certificate is not None
    assert np.all(trace.regret[:, -1] <= min(bound, float(trace.certificate[:, -1].min())))
    price = policy._params.price
    own = allowance_of_stages(price, 10, rounds)
    assert own == pytest.approx(min(guarded_hierarchical_upper(**sizes, factor=0.0).value, 4.0 * rounds), rel=2e-3)


def test_decisions_of_others_teach_nobody() -> None:
    env = random_linear(8, 3, seed=3)
    policy = make(env, 2, 1.0)
    for t in range(20):
        x = env.contexts(t)
        worst = np.sort(np.argsort(env.means(t))[:2])
        policy.tell(policy.record(worst, contexts=x), env.rewards(t, worst))
    assert policy._state.ridge.counts[0, 0] == policy._state.fit.pending == 0
    assert policy.account.spent == 0.0


@pytest.mark.parametrize("more", [{"model": "hybrid"}, {"certificate": False}])
def test_it_needs_one_theta_and_a_certificate(more: dict[str, Any]) -> None:
    with pytest.raises(ValueError, match="fallback must be 'optimistic'"):
        GuardedLinear(3, 2, 1, fallback="hierarchical", **more)
    with pytest.raises(ValueError, match="fallback must be"):
        GuardedLinear(3, 2, 1, fallback="none")
