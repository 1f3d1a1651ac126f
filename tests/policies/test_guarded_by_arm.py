"""GuardedLinear with a parameter for each arm: what the proofs rest on, arms that come and go, and mappings."""

from __future__ import annotations

import math
from typing import Any

import numpy as np
import pytest

from armtriage import GuardedLinear, LinearEnvironment, Policy, UnknownArm, simulate
from armtriage.policies.linear.pricing import radius


def play(policy: Any, thetas: np.ndarray, rounds: int, seed: int = 1) -> float:
    """Ask and tell with a theta for each arm, and noise of 0.1; return the regret of the second half."""
    rng, lost = np.random.default_rng(seed), 0.0
    n, d = thetas.shape
    for t in range(rounds):
        x = rng.uniform(-1.0, 1.0, (n, d)) / math.sqrt(d)
        means = np.einsum("ij,ij->i", x, thetas)
        decision = policy.ask(x)
        policy.tell(decision, np.clip(means[decision.arms] + rng.uniform(-0.1, 0.1, decision.arms.size), -1, 1))
        if 2 * t >= rounds:
            lost += np.sort(means)[-policy.budget :].sum() - means[decision.arms].sum()
    return lost


@pytest.mark.parametrize("model", ["disjoint", "hybrid"])
@pytest.mark.parametrize("factor", [1.0, 0.05])
def test_what_the_proofs_rest_on_holds_in_every_round(model: str, factor: float) -> None:
    rng = np.random.default_rng(5)
    n, d, size = 6, 2, 2
    thetas = rng.uniform(-0.6, 0.6, (n, d))
    policy = GuardedLinear(n, d, size, model=model, factor=factor, noise_scale=0.06, seed=7)
    state, price = policy._state, policy._params.price
    book, ridge, forced = state.book, state.ridge, 0.0
    for _ in range(400):
        x = rng.uniform(-0.7, 0.7, (n, d))
        means = np.einsum("ij,ij->i", x, thetas)
        total, steps = float(book.total), int(book.forced)
        decision = policy.ask(x)
        cost = float(book.total) - total
        regret = np.sort(means)[-size:].sum() - means[decision.arms].sum()
        assert regret <= cost + 1e-9  # the boxes held, in this run
        assert policy.account.spent <= policy.account.allowed + 1e-5
        forced += cost if book.forced > steps else 0.0
        policy.tell(decision, means[decision.arms] + rng.uniform(-0.1, 0.1, size))
        grown, widest = float(ridge.log_det.sum()), float(ridge.log_det.max())
        most = 2.0 * radius(price, widest + 2.0 * math.log(n)) * math.sqrt(grown / math.log(2.0) * size * book.forced)
        assert forced <= most + 2.0 * size * grown / math.log(2.0) + 1e-9
    for arm in range(n):
        gram = ridge.gram[arm] + ridge.carry[arm] + ridge.recent[arm]
        assert ridge.log_det[arm] == pytest.approx(np.linalg.slogdet(gram / price.ridge)[1], rel=1e-8, abs=1e-8)
    assert (policy.account.forced_rounds > 0) == (factor < 1.0)
    certificate = policy.certificate(x)
    assert certificate.regret_bound == certificate.sum_of_certificates
    assert certificate.next_bound == pytest.approx(sum(one.amount for one in certificate.exchanges))
    assert "for each arm" in str(certificate)


def test_a_parameter_for_each_arm_wins_where_arms_have_nothing_in_common() -> None:
    thetas = np.random.default_rng(2).normal(size=(5, 3)) * 0.4
    lost = {model: play(GuardedLinear(5, 3, 1, model=model, seed=7), thetas, 600) for model in ("shared", "disjoint")}
    assert lost["disjoint"] < 0.3 * lost["shared"]


def test_what_is_shared_is_learned_from_all_arms() -> None:
    """With 40 arms and 400 rounds there are 10 rewards for each."""
    rng = np.random.default_rng(3)
    thetas = rng.normal(size=4) * 0.4 + 0.05 * rng.normal(size=(40, 4))
    lost = {model: play(GuardedLinear(40, 4, 1, model=model, seed=7), thetas, 400) for model in ("disjoint", "hybrid")}
    assert lost["hybrid"] < 0.5 * lost["disjoint"]


def test_new_arms_start_from_what_is_shared_and_have_names() -> None:
    rng = np.random.default_rng(4)
    policies = {model: GuardedLinear(dimension=3, budget=1, model=model, seed=7) for model in ("disjoint", "hybrid")}
    theta = np.array([0.8, 0.0, 0.0])
    for policy in policies.values():
        for t in range(300):
            x = {f"article {i}": rng.uniform(-0.5, 0.5, 3) for i in range(t // 30, t // 30 + 6)}
            decision = policy.ask(x)
            policy.tell(decision, {name: float(np.clip(x[name] @ theta, -1, 1)) for name in decision.names})
        x = {"new": [0.5, 0.0, 0.0], "also new": [-0.5, 0.0, 0.0]}
        found = policy.certificate(x)
        assert policy.n_arms == 17  # asking for a certificate makes arms known, too
        assert found.next_bound is not None
        assert found.next_bound > 0.5  # they are certified by rewards of their own
    state = policies["hybrid"]._state.own
    shared = state.shared_inverse @ state.moment
    assert np.linalg.norm(shared - theta) < 0.2
    assert policies["hybrid"].certificate(x).next_decision == ("new",)


@pytest.mark.parametrize("model", ["shared", "disjoint", "hybrid"])
def test_names_that_come_as_they_come_are_saved(model: str) -> None:
    rng, policy = np.random.default_rng(4), GuardedLinear(dimension=2, budget=3, model=model, seed=7)
    for t in range(40):
        x = {f"arm {i}": rng.uniform(-0.5, 0.5, 2) for i in rng.permutation(1 + t // 4)[:6]}
        decision = policy.ask(x)
        assert set(decision.names) <= set(x)
        assert decision.arms.size == min(3, len(x))
        for name, row in zip(decision.names, decision.contexts, strict=True):
            assert row.tolist() == x[name].tolist()
        policy.tell(decision, {decision.names[0]: 0.5}, last=False)
        if t % 3 and decision.arms.size > 1:
            policy.close(decision, default=0.0)
        loaded = Policy.from_bytes(policy.to_bytes())
        assert loaded.digest() == policy.digest()
        if t % 5 == 0:
            policy = loaded
    policy.retire_arms(["arm 0"])
    with pytest.raises(ValueError, match="retired"):
        policy.ask({"arm 0": [0.1, 0.1], "arm 1": [0.1, 0.1]})
    before = policy.digest()
    with pytest.raises(ValueError, match="contexts must"):
        policy.ask({"another": [0.1, 0.1, 0.1]})
    with pytest.raises(TypeError, match="must be a mapping"):
        policy.ask([[0.1, 0.1]])
    assert policy.digest() == before


def test_arms_are_what_a_mapping_says_in_any_order() -> None:
    names = ["tea", "milk", "jam"]
    policy = GuardedLinear(3, 2, 1, names=names, seed=7)
    x = {"jam": [0.0, 0.3], "tea": [0.9, 0.0], "milk": [0.0, 0.1]}
    for _ in range(50):
        decision = policy.ask(x)
        (name,) = decision.names
        assert decision.contexts.tolist() == [x[name]]
        policy.tell(decision, {name: x[name][0]})
    assert decision.names == ("tea",)
    with pytest.raises(UnknownArm, match="'bread'"):
        policy.ask({"bread": [0.1, 0.1]})


def test_rows_and_mappings_do_not_mix() -> None:
    policy = GuardedLinear(dimension=2, budget=1, seed=7)
    policy.tell(policy.ask([[0.1, 0.1], [0.2, 0.1]]), [0.5])
    with pytest.raises(TypeError, match="must be rows"):
        policy.ask({"tea": [0.1, 0.1]})
    with pytest.raises(TypeError, match="parameter of its own"):
        GuardedLinear(dimension=2, budget=1, model="disjoint").ask([[0.1, 0.1]])
    with pytest.raises(ValueError, match="model must be"):
        GuardedLinear(3, 2, 1, model="separate")


def test_open_pulls_make_an_arm_less_interesting() -> None:
    policy = GuardedLinear(6, 1, 1, model="disjoint", seed=7)
    arms = [int(policy.ask(np.full((6, 1), 0.5)).arms[0]) for _ in range(12)]
    assert np.bincount(arms, minlength=6).min() >= 1
    for decision in policy.open_decisions:
        policy.tell(decision, {})
    assert not policy._state.own.pending.any()


def test_decisions_of_others_teach_the_arms_that_they_had() -> None:
    policy, rng = GuardedLinear(4, 2, 1, model="hybrid", seed=7), np.random.default_rng(1)
    for _ in range(40):
        policy.tell(policy.record([3], contexts=rng.uniform(-0.5, 0.5, (4, 2))), [0.2])
    assert policy._state.ridge.counts[:, 0].tolist() == [0, 0, 0, 40]
    assert policy.account.spent < policy.certificate().regret_bound  # now and then it would have chosen the same


def test_simulate_certifies_them_too() -> None:
    env = LinearEnvironment([0.6, 0.3], "cube", 5, seed=3)
    policy = GuardedLinear(5, 2, 2, model="disjoint", noise_scale=env.noise_scale, seed=7)
    trace = simulate(policy, env, horizon=200, replications=2, certificate=True)
    assert trace.certificate is not None
    assert np.all(trace.regret <= trace.certificate)
