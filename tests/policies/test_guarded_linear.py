"""GuardedLinear: the account, the certificates and the facts that their proofs rest on, on runs; numbers that last."""

from __future__ import annotations

import math
from itertools import pairwise
from pathlib import Path
from typing import Any

import numpy as np
import pytest
from scipy.special import bdtrc

from armtriage import (
    C2UCB,
    GuardedLinear,
    LinearEnvironment,
    Policy,
    check_policy,
    random_linear,
    random_slates,
    simulate,
)
from armtriage.kernels.jit import kernel
from armtriage.policies.linear.account import radius
from armtriage.policies.linear.regression import Fit, Params, adapt, learn, new_fit
from armtriage.policies.linear.widths import find_widths

RARE = 1e-6


def inside(policy: GuardedLinear, theta: np.ndarray) -> bool:
    """Whether theta lies in the ellipsoid."""
    ridge = policy._state.ridge
    centre = ridge.inverse[0] @ (ridge.moment[0] + ridge.moment_carry[0])
    gram = ridge.gram[0] + ridge.carry[0] + ridge.recent[0]
    reach = radius(policy._params, ridge.log_det[0], 0.0)
    return bool((theta - centre) @ gram @ (theta - centre) <= reach**2)


@pytest.mark.parametrize(
    ("env", "factor"),
    [
        (random_linear(15, 4, seed=1), 1.0),
        (random_linear(15, 4, seed=2), 0.05),
        (random_linear(15, 4, norm=0.9, reward="uniform", half_width=0.1, seed=3), 0.01),
        (random_slates("fixed", 20, 5, seed=4), 0.1),
        (random_slates("clicks", 20, 5, seed=5), 0.2),
    ],
    ids=["sphere", "strict", "quiet", "fixed", "clicks"],
)
def test_what_the_proofs_rest_on_holds_in_every_round(env: LinearEnvironment, factor: float) -> None:
    size, d, rounds = 3, env.dimension, 300
    about = {"noise_scale": env.noise_scale, "reward_range": env.reward_range}
    policy = GuardedLinear(env.n_arms, d, size, factor=factor, seed=7, **about)
    price, book, ridge = policy._params, policy._state.book, policy._state.ridge
    lost = forced = 0.0
    for t in range(rounds):
        x, before, steps = env.contexts(t), float(book.total), int(book.forced)
        certified = inside(policy, env.theta)
        decision = policy.ask(x)
        own = env.regret(t, decision.arms)
        cost = float(book.total) - before
        if certified:
            assert own <= cost + 1e-9
        forced += cost if book.forced > steps else 0.0
        lost += own
        account = policy.account
        assert account.spent <= account.allowed + 1e-5
        policy.tell(decision, env.rewards(t, decision.arms))
        gram = ridge.gram[0] + ridge.carry[0] + ridge.recent[0]
        assert ridge.log_det[0] == pytest.approx(np.linalg.slogdet(gram / price.ridge)[1], rel=1e-8, abs=1e-8)
        # Theorem: what forced rounds can lose, by the potential of all rewards.
        grown, width = float(ridge.log_det[0]), price.high - price.low
        most = 2.0 * radius(price, grown, 0.0) * math.sqrt(grown / math.log(2.0) * size * book.forced)
        assert forced <= most + width * size * grown / math.log(2.0) + 1e-9
    certificate = policy.certificate()
    if inside(policy, env.theta):
        assert lost <= certificate.joint + 1e-9
    assert lost <= certificate.sum_of_certificates
    assert certificate.regret_bound == min(certificate.joint, certificate.sum_of_certificates)
    assert (policy.account.forced_rounds > 0) == (factor < 1.0)


@pytest.mark.parametrize("delta", [0.2, 0.05])
@pytest.mark.parametrize("noise", ["independent", "shared"])
def test_certificates_are_hardly_ever_below_the_regret(delta: float, noise: str) -> None:
    """If each of 150 runs failed with probability delta, so many failures had a probability of at least 1e-6."""
    failed, runs, size = 0, 150, 3
    env = random_linear(8, 2, noise=noise, seed=11)
    scale = env.noise_scale * (math.sqrt(size) if noise == "shared" else 1.0)
    policy = GuardedLinear(8, 2, size, delta=delta, noise_scale=scale, factor=0.2, seed=3)
    trace = simulate(policy, env, horizon=120, replications=runs, checkpoints=6, certificate=delta, workers=1)
    assert trace.certificate is not None
    failed = int((trace.regret > trace.certificate + 1e-9).any(axis=1).sum())
    assert (bdtrc(failed - 1, runs, delta) if failed else 1.0) >= RARE


def test_certificates_of_simulate_are_those_of_ask_and_tell() -> None:
    env = random_linear(12, 3, seed=5)
    policy = GuardedLinear(12, 3, 2, seed=7)
    trace = simulate(policy, env, horizon=100, checkpoints=[10, 64, 100], certificate=True)
    own, found = policy.fresh(), []
    for t in range(100):
        decision = own.ask(env.contexts(t))
        own.tell(decision, env.rewards(t, decision.arms))
        if t + 1 in (10, 64, 100):
            found.append(own.certificate().regret_bound)
    assert trace.certificate is not None
    assert trace.certificate[0] == pytest.approx(found, rel=1e-12)


def test_certificates_need_a_policy_that_keeps_them_and_its_delta() -> None:
    env = random_linear(5, 2, seed=5)
    with pytest.raises(ValueError, match=r"certificate must be at least delta = 0\.1"):
        simulate(GuardedLinear(5, 2, 1, delta=0.1), env, horizon=10, certificate=True)
    for policy in (C2UCB(5, 2, 1), GuardedLinear(5, 2, 1, certificate=False)):
        with pytest.raises(ValueError, match="certificate must be False"):
            simulate(policy, env, horizon=10, certificate=True)
    with pytest.raises(ValueError, match="certificate must be True in the constructor"):
        GuardedLinear(5, 2, 1, certificate=False).certificate()


def test_joint_certificates_are_tighter_where_contexts_are_fresh() -> None:
    """At d=10, K=50, S=5, T=8,000 they were 2,551 against a sum of 12,125 and a regret of 159."""
    env = random_linear(30, 5, seed=1)
    policy = GuardedLinear(30, 5, 5, seed=7)
    for t in range(1500):
        decision = policy.ask(env.contexts(t))
        policy.tell(decision, env.rewards(t, decision.arms))
    found = policy.certificate()
    assert found.joint < 0.5 * found.sum_of_certificates


def test_next_slates_are_priced_by_pairs_and_named() -> None:
    env = LinearEnvironment([0.8, 0.1], np.eye(2)[[0, 1, 0]] * [[1.0], [1.0], [0.5]], reward="uniform", half_width=0.05)
    policy = GuardedLinear(3, 2, 1, noise_scale=env.noise_scale, names=["tea", "milk", "jam"], seed=7)
    x = env.contexts(0)
    first = policy.certificate(x)
    assert first.rounds == 0
    assert first.next_bound == pytest.approx(sum(one.amount for one in first.exchanges))
    assert "Playing arm 'tea' next" in str(policy.certificate(x, next_decision=["tea"]))
    for t in range(400):
        decision = policy.ask(x)
        policy.tell_revealed(decision, env.rewards(t, decision.arms))
    assert policy.certificate(x).next_decision.tolist() == ["tea"]
    assert policy.certificate(x).next_bound == 0.0
    worse = policy.certificate(x, next_decision=["milk"])
    assert worse.next_bound is not None
    assert worse.next_bound >= 0.7
    assert worse.exchanges[0].outside == "tea"
    assert worse.exchanges[0].inside == "milk"
    assert str(worse).startswith("With 99% confidence, the 400 decisions so far have lost at most")
    assert worse.to_dict()["text"] == str(worse)
    among = policy.certificate(x[:2], eligible=["tea", "milk"])
    assert among.next_decision.tolist() == ["tea"]


def test_costs_are_certified_as_rewards_are() -> None:
    rewarded, costly = (GuardedLinear(4, 2, 2, seed=7, direction=one) for one in ("maximize", "minimize"))
    rng = np.random.default_rng(1)
    for _ in range(50):
        x = rng.uniform(-0.6, 0.6, (4, 2))
        one, other = rewarded.ask(x), costly.ask(x)
        assert one.arms.tolist() == other.arms.tolist()
        rewards = np.clip(x[one.arms] @ [0.5, 0.2] + rng.uniform(-0.2, 0.2, 2), -1.0, 1.0)
        rewarded.tell(one, rewards)
        costly.tell(other, -rewards)
    mine, theirs = rewarded.certificate(), costly.certificate()
    assert mine.regret_bound == pytest.approx(theirs.regret_bound)
    assert "cost at most" in str(theirs)


def test_what_is_not_linear_is_noticed_and_the_certificate_withdraws() -> None:
    policy = GuardedLinear(2, 1, 1, noise_scale=0.01, seed=7)
    for t in range(300):
        decision = policy.ask([[1.0], [0.5]] if t % 2 else [[0.05], [0.04]])
        policy.tell(decision, [1.0])
    found = policy.certificate([[1.0], [0.5]])
    assert found.contradictions > 0
    assert found.regret_bound == found.next_bound == math.inf
    assert str(found).startswith("Nothing can be certified")


def test_open_decisions_look_at_different_things() -> None:
    policy, x = GuardedLinear(6, 3, 1, seed=7), np.vstack([np.eye(3), 0.9 * np.eye(3)])
    arms = [int(policy.ask(x).arms[0]) % 3 for _ in range(9)]
    assert np.bincount(arms, minlength=3).min() >= 2
    for decision in policy.open_decisions:
        policy.tell(decision, {})
    assert policy._state.fit.pending[0] == 0
    assert np.array_equal(policy._state.fit.open_gram, np.zeros((3, 3)))


def test_rewards_in_parts_and_lost_ones_close_what_was_open() -> None:
    policy = GuardedLinear(4, 2, 3, seed=7)
    decision = policy.ask(np.array([[0.5, 0.1], [0.3, 0.3], [0.0, 0.9], [0.2, 0.1]]))
    first, second, last = decision.arms.tolist()
    policy.tell(decision, {first: 0.5}, last=False)
    assert policy._state.fit.pending[0] == 2
    policy.tell(decision, {last: 0.1})
    assert policy._state.fit.pending[0] == 0
    assert policy._state.ridge.counts[0, 0] == 2
    assert second not in (first, last)


def test_decisions_of_others_count_at_their_own_price(tmp_path: Path) -> None:
    env = random_linear(8, 3, seed=3)
    own, other, same = (GuardedLinear(8, 3, 2, seed=5) for _ in range(3))
    for t in range(40):
        x = env.contexts(t)
        decision = own.ask(x)
        rewards = env.rewards(t, decision.arms)
        own.tell(decision, rewards)
        same.tell(same.record(decision.arms, contexts=x), rewards)
        worst = np.sort(np.argsort(env.means(t))[:2])
        other.tell(other.record(worst, contexts=x), env.rewards(t, worst))
    assert same.digest() == own.digest()
    assert other.account.spent == 0.0
    lost = sum(env.regret(t, np.argsort(env.means(t))[:2]) for t in range(40))
    assert other.certificate().regret_bound >= lost
    other.save(tmp_path / "policy")
    assert Policy.load(tmp_path / "policy").digest() == other.digest()


@kernel
def _drive(params: Params, fit: Fit, ridge: Any, x: np.ndarray, r: np.ndarray, order: np.ndarray) -> None:
    for i in range(order.size):
        learn(params, fit, ridge, 0, x[order[i]], r[order[i]])
        adapt(params, fit, ridge)


def test_a_million_rewards_agree_with_a_batch_solution() -> None:
    """With contexts that are collinear, repeated and zero."""
    from armtriage.kernels.ridge import new_ridge

    rng = np.random.default_rng(3)
    x = rng.normal(size=(40, 6))
    x /= np.linalg.norm(x, axis=1, keepdims=True)
    x[1], x[2:6], x[6:20], x[:, 5] = 0.0, x[6], x[0] * rng.uniform(-1, 1, (14, 1)), 0.0
    r, n = rng.uniform(-1.0, 1.0, 40), 10**6
    order = np.where(rng.random(n) < 0.5, 0, rng.integers(0, 40, n))
    params = GuardedLinear(40, 6, 1, noise_scale=1.0).params()
    assert (params.noise, params.ridge, params.norm_bound) == (1.0, 6.0, 1.0)
    fit, ridge = new_fit(1, 6, 1.0, 6.0, open_rows=1, shares=False), new_ridge(1, 6, 6.0)
    for first, last in pairwise((0, 300, 5000, n)):  # between two times at which the inverse is computed anew
        _drive(params, fit, ridge, x, r, order[first:last])
        counts = np.bincount(order[:last], minlength=40)
        gram = (x * counts[:, None]).T @ x + fit.ridge * np.eye(6)
        expected = np.linalg.inv(gram)
        np.testing.assert_allclose(fit.inverse[0], expected, rtol=1e-9, atol=1e-12 * expected.max())
    theta = expected @ (x * counts[:, None]).T @ r
    residual = float(counts @ (r - x @ theta) ** 2)
    assert fit.noise == pytest.approx(math.sqrt(residual / n), rel=0.05)


@pytest.mark.parametrize(
    ("n_arms", "dimension", "budget", "scale"),
    [(4, 3, 2, 1e-200), (4, 1, 2, 1.0), (3, 500, 1, 1.0), (1, 3, 1, 1.0), (3, 3, 3, 1.0), (3, 2, 2, 0.0)],
)
@pytest.mark.parametrize("model", ["shared", "disjoint", "hybrid"])
def test_ask_is_healthy_at_the_ends(n_arms: int, dimension: int, budget: int, scale: float, model: str) -> None:
    policy = GuardedLinear(n_arms, dimension, budget, model=model, seed=7)
    rng = np.random.default_rng(1)
    for _ in range(6):
        x = rng.normal(size=(n_arms, dimension))
        x *= scale / (np.linalg.norm(x, axis=1, keepdims=True) * (1 + 1e-9))
        decision = policy.ask(x)
        assert decision.arms.size == min(budget, n_arms)
        policy.tell(decision, rng.uniform(-1, 1, decision.arms.size))
    found = policy.certificate(x)
    assert np.isfinite([found.regret_bound, found.sum_of_certificates, found.next_bound]).all()
    assert np.isfinite(found.joint)
    if budget == n_arms:
        assert found.regret_bound == 0.0


def test_quadratics_are_finite_where_arms_are_alike_or_zero() -> None:
    rng, theta, lost = np.random.default_rng(3), np.array([-0.5, -0.4, 0.3]), 0.0
    policy = GuardedLinear(9, 3, 2, noise_scale=0.1, seed=7)
    joint, boxes = policy._state.joint, policy._state.boxes
    for _ in range(200):
        x = rng.normal(size=(9, 3))
        x /= 1.01 * np.linalg.norm(x, axis=1, keepdims=True)
        x[:4], x[5:7], x[7] = 0.0, x[4], x[4] * (1.0 + 1e-14)  # what is best is nothing, or like all others
        decision = policy.ask(x)
        assert np.isfinite(boxes.upper).all()
        policy.tell(decision, decision.contexts @ theta + rng.uniform(-0.1, 0.1, 2))
        lost += np.sort(x @ theta)[-2:].sum() - (decision.contexts @ theta).sum()
    for sums in (joint.matrices, joint.vectors, joint.constants):
        assert np.isfinite(sums).all()
        assert sums.any()
    assert lost <= policy.certificate().joint < np.inf


def test_units_change_nothing() -> None:
    check_policy(GuardedLinear, factor=0.05, delta=0.3, norm_bound=2.0)


def decisions(scale: float, model: str, **options: Any) -> list[list[int]]:
    """What is played where contexts are so much shorter, and the world takes no notice of that."""
    env = random_slates("cube", 8, 6, seed=3)  # no two contexts are equally long, so that rounding decides nothing
    policy = GuardedLinear(8, 6, 2, model=model, certificate=False, seed=7, **options)
    played = []
    for t in range(150):
        decision = policy.ask(scale * env.contexts(t))
        policy.tell(decision, env.rewards(t, decision.arms))
        played.append(decision.arms.tolist())
    return played


@pytest.mark.parametrize("model", ["shared", "disjoint", "hybrid"])
def test_proposals_do_not_go_by_the_bound_on_theta_nor_by_the_length_of_contexts(model: str) -> None:
    wanted = decisions(1.0, model)
    assert decisions(1.0, model, norm_bound=0.02) == wanted
    assert decisions(1.0, model, norm_bound=50.0) == wanted
    assert decisions(1 / 32, model) == wanted


@pytest.mark.parametrize(
    ("option", "value", "says"),
    [
        ("factor", -1.0, "factor must be"),
        ("norm_bound", 0.0, "norm_bound must be"),
        ("norm_bound", 1e9, "norm_bound must lie in"),
        ("noise_scale", 1e9, "noise_scale must be at most"),
        ("certificate", 1, "certificate must be"),
    ],
)
def test_options_out_of_range_are_refused(option: str, value: Any, says: str) -> None:
    with pytest.raises((TypeError, ValueError), match=says):
        GuardedLinear(3, 2, 1, **{option: value})


def test_widths_with_open_pulls_are_those_of_all_pulls() -> None:
    policy, x = GuardedLinear(5, 3, 2, seed=7), np.random.default_rng(2).uniform(-0.5, 0.5, (5, 3))
    asked = [policy.ask(x) for _ in range(4)]
    state = policy._state
    squares = state.squares
    find_widths(policy._params, state, x)
    pulled = np.vstack([one.contexts for one in asked])
    gram = state.fit.ridge * np.eye(3) + pulled.T @ pulled
    np.testing.assert_allclose(squares, np.einsum("ij,ij->i", x @ np.linalg.inv(gram), x), rtol=1e-10)
