"""GuardedLinear with a parameter for each arm: what the proofs rest on, arms that come and go, and mappings."""

from __future__ import annotations

import math
from typing import Any

import numpy as np
import pytest
from scipy.special import bdtrc

from armtriage import GuardedLinear, LinearEnvironment, Policy, UnknownArm, random_linear, simulate
from armtriage.policies.linear.account import radius
from armtriage.theory import guarded_by_arm_upper


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
    state, price = policy._state, policy._params
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
        most = (
            2.0 * radius(price, widest + 2.0 * math.log(n), 0.0) * math.sqrt(grown / math.log(2.0) * size * book.forced)
        )
        assert forced <= most + 2.0 * size * grown / math.log(2.0) + 1e-9
    for arm in range(n):
        gram = ridge.gram[arm] + ridge.carry[arm] + ridge.recent[arm]
        assert ridge.log_det[arm] == pytest.approx(np.linalg.slogdet(gram / price.ridge)[1], rel=1e-8, abs=1e-8)
    assert (policy.account.forced_rounds > 0) == (factor < 1.0)
    certificate = policy.certificate(x)
    assert certificate.regret_bound == min(certificate.joint, certificate.sum_of_certificates)
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
    state = policies["hybrid"]._state.fit
    shared = state.shared_inverse @ state.moment
    assert np.linalg.norm(shared - theta) < 0.2
    assert policies["hybrid"].certificate(x).next_decision.tolist() == ["new"]


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
    assert not policy._state.fit.pending.any()


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


class Lifted:
    """All thetas as one of K d numbers, and the quadratic that bounds what slates lose, (K d)^2 coefficients of it."""

    def __init__(self, policy: Any) -> None:
        n, d = policy.n_arms, policy.dimension
        self.policy, self.shape = policy, (n, d)
        self.gram = policy._ridge * np.eye(n * d)
        self.moment = np.zeros(n * d)
        self.matrix, self.vector, self.constant = np.zeros((n * d, n * d)), np.zeros(n * d), 0.0

    def lift(self, x: np.ndarray) -> np.ndarray:
        n, d = self.shape
        rows = np.zeros((n, n * d))
        for arm in range(n):
            rows[arm, arm * d : (arm + 1) * d] = x[arm]
        return rows

    def block(self, arm: int) -> slice:
        return slice(arm * self.shape[1], (arm + 1) * self.shape[1])

    def reach(self, arm: int) -> float:
        price, part = self.policy._params, self.block(arm)
        grown = np.linalg.slogdet(self.gram[part, part] / price.ridge)[1]
        return float(radius(price, grown + 2.0 * math.log(self.shape[0]), 0.0))

    def book(self, x: np.ndarray, arms: np.ndarray, price: float) -> None:
        """Add the quadratic of a slate, or its price where that is smaller by what is known, in the first 64 rounds."""
        rows, theta = self.lift(x), np.linalg.solve(self.gram, self.moment)
        middles = rows @ theta
        reaches = np.array([self.reach(arm) for arm in range(len(x))])
        halves = reaches * np.sqrt(np.einsum("ij,ij->i", rows, np.linalg.solve(self.gram, rows.T).T))
        sign = np.ones(len(x))
        sign[arms] = -1.0
        middle = 0.5 * (middles[arms].min() + middles[sign > 0].max())
        product = sign * (middles - middle)
        bend = np.maximum(np.abs(product), 0.2 * halves)
        usual = 0.25 * ((product + bend) ** 2 + (self.policy.noise_scale / reaches * halves) ** 2) / bend
        may = product + halves > 0.0
        if price == 0.0:
            return
        if usual[may].sum() >= 2.0 * price:
            self.constant += price
            return
        for arm in np.flatnonzero(may):
            y, rest = sign[arm] * rows[arm], bend[arm] - sign[arm] * middle
            self.matrix += np.outer(y, y) / (4.0 * bend[arm])
            self.vector += rest * y / (2.0 * bend[arm])
            self.constant += rest**2 / (4.0 * bend[arm])

    def learn(self, x: np.ndarray, arms: np.ndarray, rewards: np.ndarray) -> None:
        rows = self.lift(x)[arms]
        self.gram += rows.T @ rows
        self.moment += rewards @ rows

    def largest(self) -> float:
        """Return the maximum of the quadratic while each theta is in its ellipsoid, by duality, without slack."""
        from scipy.optimize import minimize_scalar

        theta, total = np.linalg.solve(self.gram, self.moment), self.constant
        for arm in range(self.shape[0]):
            part = self.block(arm)
            matrix, centre = self.matrix[part, part], theta[part]
            values, basis = np.linalg.eigh(np.linalg.inv(self.gram[part, part]))
            root = (basis * np.sqrt(values)) @ basis.T
            eigen, turn = np.linalg.eigh(root @ matrix @ root)
            slope = turn.T @ root @ (matrix @ centre + 0.5 * self.vector[part])
            reach, low = self.reach(arm), max(eigen[-1], 1e-12)
            found = minimize_scalar(
                lambda ln, e=eigen, s=slope, r=reach, lo=low: (
                    (lo + math.exp(ln)) * r**2 + (s**2 / (lo + math.exp(ln) - e)).sum()
                ),
                bounds=(math.log(low) - 14.0, math.log(low) + 9.0),
                method="bounded",
                options={"xatol": 1e-10},
            )
            total += centre @ matrix @ centre + self.vector[part] @ centre + found.fun
        return float(total)


@pytest.mark.parametrize("model", ["disjoint", "hybrid"])
def test_joint_certificates_are_those_of_the_lifted_problem(model: str) -> None:
    """Quadratics are the diagonal blocks of the dense one, which has no others; bounds are within 2% of its maximum."""
    rng, n, d, size = np.random.default_rng(8), 5, 2, 2
    thetas = rng.uniform(-0.6, 0.6, (n, d))
    policy = GuardedLinear(n, d, size, model=model, noise_scale=0.06, seed=7)
    whole, joint, book = Lifted(policy), policy._state.joint, policy._state.book
    quadratics = 0
    for _ in range(60):
        x = rng.uniform(-0.7, 0.7, (n, d))
        before, known = float(book.total), whole.matrix.sum()
        decision = policy.ask(x)
        whole.book(x, decision.arms, float(book.total) - before)
        quadratics += whole.matrix.sum() != known
        rewards = np.einsum("ij,ij->i", x, thetas)[decision.arms] + rng.uniform(-0.1, 0.1, size)
        policy.tell(decision, rewards)
        whole.learn(x, decision.arms, rewards)
    assert quadratics > 30
    lower = np.tril(joint.matrices.sum(axis=0).reshape(n, d, d))
    dense = np.zeros((n * d, n * d))
    for arm in range(n):
        part = slice(arm * d, (arm + 1) * d)
        dense[part, part] = lower[arm] + np.tril(lower[arm], -1).T
    assert dense == pytest.approx(whole.matrix, rel=1e-6, abs=1e-9)
    assert joint.vectors.sum(axis=0) == pytest.approx(whole.vector, rel=1e-6, abs=1e-9)
    assert joint.constants.sum() == pytest.approx(whole.constant, rel=1e-6)
    # With one slot for all rounds there is nothing to choose from but the sum of all.
    joint.matrices[0], joint.vectors[0] = joint.matrices.sum(axis=0), joint.vectors.sum(axis=0)
    joint.constants[0], joint.prices[0], joint.used = joint.constants.sum(), 1e9, 1
    exact = whole.largest()
    assert exact * (1.0 - 1e-9) <= policy._joint_bound(policy._state) <= 1.02 * exact


@pytest.mark.parametrize("delta", [0.2, 0.05])
@pytest.mark.parametrize("model", ["disjoint", "hybrid"])
def test_certificates_are_hardly_ever_below_the_regret(delta: float, model: str) -> None:
    """If each of 150 runs failed with probability delta, so many failures had a probability of at least 1e-6."""
    env, runs = random_linear(6, 2, seed=11), 150
    policy = GuardedLinear(6, 2, 2, model=model, delta=delta, noise_scale=env.noise_scale, factor=0.2, seed=3)
    trace = simulate(policy, env, horizon=120, replications=runs, checkpoints=6, certificate=delta, workers=1)
    assert trace.certificate is not None
    failed = int((trace.regret > trace.certificate + 1e-9).any(axis=1).sum())
    assert (bdtrc(failed - 1, runs, delta) if failed else 1.0) >= 1e-6


def test_joint_certificates_are_tighter_where_contexts_are_fresh() -> None:
    """With ten arms and d=3 over 2,000 rounds they were 53 against a sum of 234 and a regret of 7."""
    rng, thetas = np.random.default_rng(3), np.random.default_rng(1).uniform(-0.5, 0.5, (6, 2))
    policy = GuardedLinear(6, 2, 2, model="disjoint", noise_scale=0.06, seed=7)
    for _ in range(600):
        x = rng.uniform(-0.7, 0.7, (6, 2))
        decision = policy.ask(x)
        means = np.einsum("ij,ij->i", x, thetas)[decision.arms]
        policy.tell(decision, means + rng.uniform(-0.1, 0.1, 2))
    found = policy.certificate()
    assert found.joint < 0.5 * found.sum_of_certificates


@pytest.mark.parametrize("model", ["disjoint", "hybrid"])
def test_contexts_that_come_again_are_recognised_and_change_nothing(model: str) -> None:
    rng, x = np.random.default_rng(4), np.random.default_rng(5).uniform(-0.5, 0.5, (6, 3))
    keen, plain = (GuardedLinear(6, 3, 2, model=model, noise_scale=0.06, seed=7) for _ in range(2))
    for t in range(120):
        plain._state.repeated.rows = 0  # it has never seen them
        decision, other = keen.ask(x), plain.ask(x)
        assert decision.arms.tolist() == other.arms.tolist()
        assert np.array_equal(keen._state.values, plain._state.values)
        assert keen._state.book.total == plain._state.book.total
        rewards = x[decision.arms] @ [0.5, 0.2, -0.3] + rng.uniform(-0.1, 0.1, 2)
        assert not keen._state.kept.changed.any()
        keen.tell(decision, rewards)
        plain.tell(other, rewards)
        if t == 60:
            keen = Policy.from_bytes(keen.to_bytes())
        elif t == 118:
            # Whatever has not learned will not be computed again.
            assert keen._state.kept.changed.sum() == 2
    # What is played again teaches nothing of the rest, so prices stand for themselves.
    joint = keen._state.joint
    assert joint.constants[-1] == joint.prices[-1]


def test_the_same_rows_for_other_arms_are_other_contexts() -> None:
    rows = [[0.5, 0.1], [0.1, 0.5], [0.3, 0.3]]
    policy = GuardedLinear(dimension=2, budget=1, model="disjoint", seed=7)
    for names in (("tea", "milk", "jam"), ("jam", "tea", "milk")) * 4:
        policy.tell_revealed(policy.ask(dict(zip(names, rows, strict=True))), [0.1])
    again = policy._state.kept
    order = np.array([policy.names.index(name) for name in ("tea", "milk", "jam")])
    assert policy.names is not None
    assert sorted(again.seats[:3].tolist()) == sorted(order.tolist())


@pytest.mark.parametrize("coming", [False, True])
def test_the_bound_of_theory_is_what_the_account_allows(coming: bool) -> None:
    about = {"delta": 0.05, "norm_bound": 2.0, "noise_scale": 0.3}
    policy = GuardedLinear(None if coming else 4, 2, 2, model="disjoint", factor=0.5, **about)
    for _ in range(50):
        policy.tell_revealed(
            policy.ask({arm: [0.1, 0.2] for arm in "abcd"} if coming else [[0.1, 0.2]] * 4), [0.0, 0.0]
        )
    whole = guarded_by_arm_upper(n_arms=4, dimension=2, budget=2, horizon=50, coming=coming, factor=0.5, **about)
    assert policy.account.allowed == pytest.approx(whole.value / 3.0)
