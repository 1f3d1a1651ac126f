"""Means that are not linear: what is certified holds by a stated bias, and fails without."""

from __future__ import annotations

from typing import Any

import numpy as np
import pytest

from armtriage import GuardedLinear, Policy, SuggestedBias, suggest_bias

OFF, ARMS, BUDGET = 0.25, 8, 2


class World:
    """Arms with contexts of their own, whose means are off from what is linear by `OFF`, one way or the other."""

    def __init__(self, seed: int) -> None:
        rng = np.random.default_rng([11, seed])
        rows = rng.normal(size=(ARMS, 3))
        self.contexts = rows / np.linalg.norm(rows, axis=1)[:, None]
        signs = rng.permutation(np.repeat([-1.0, 1.0], ARMS // 2))
        self.means = self.contexts @ np.array([0.4, 0.3, 0.1]) + OFF * signs
        self.rng = rng

    def play(self, policy: Any, rounds: int) -> float:
        lost, best = 0.0, np.sort(self.means)[-BUDGET:].sum()
        for _ in range(rounds):
            decision = policy.ask(self.contexts)
            lost += best - self.means[decision.arms].sum()
            policy.tell(decision, self.means[decision.arms] + self.rng.uniform(-0.02, 0.02, BUDGET))
        return float(lost)


def certified(model: str, bias: float | None, seed: int, rounds: int = 1500) -> tuple[float, Any]:
    """Return the true regret, and the certificate."""
    policy = GuardedLinear(ARMS, 3, BUDGET, noise_scale=0.02, bias=bias, model=model, seed=seed)
    world = World(seed)
    return world.play(policy, rounds), policy.certificate(world.contexts)


@pytest.mark.parametrize("model", ["shared", "disjoint"])
def test_certificates_hold_with_the_bias_that_there_is(model: str) -> None:
    """Six runs at delta 0.01: none may fail, which a right certificate would with probability 0.06 at most."""
    for seed in range(6):
        lost, found = certified(model, OFF, seed)
        assert found.contradictions == 0
        assert lost <= found.regret_bound < np.inf


def test_without_it_they_are_wrong_in_half_of_the_runs() -> None:
    """With one theta for all arms; the bias of an arm is no error where each has a theta of its own."""
    wrong = sum(lost > found.regret_bound for lost, found in (certified("shared", None, seed) for seed in range(6)))
    assert wrong == 3


def test_a_bias_widens_what_is_certified_and_changes_no_proposal() -> None:
    one, other = (GuardedLinear(ARMS, 3, BUDGET, factor=1e9, bias=bias, seed=7) for bias in (None, 0.1))
    worlds = World(1), World(1)
    assert worlds[0].play(one, 300) == worlds[1].play(other, 300)
    assert other.certificate().regret_bound > one.certificate().regret_bound
    assert "linear in the contexts up to 0.1, with" in str(other.certificate())
    assert other.account.allowed > one.account.allowed


def test_it_is_in_units_of_rewards_saved_and_shown() -> None:
    unit, ten = GuardedLinear(3, 2, 1, bias=0.1), GuardedLinear(3, 2, 1, reward_range=(-10.0, 10.0), bias=1.0)
    assert unit.params().bias == pytest.approx(ten.params().bias)
    assert Policy.from_bytes(ten.to_bytes()).config["bias"] == 1.0
    assert "bias=1.0" in repr(ten)
    assert "bias" not in repr(GuardedLinear(3, 2, 1))


@pytest.mark.parametrize("bias", [-0.1, np.nan, np.inf, "much"])
def test_what_is_no_bias_is_refused(bias: Any) -> None:
    with pytest.raises((TypeError, ValueError), match="bias"):
        GuardedLinear(3, 2, 1, bias=bias)


def test_a_bias_is_suggested_by_what_arms_show() -> None:
    """Of 40 logs at delta 0.05, seven or more fail with probability 0.003."""
    failed = 0
    for seed in range(40):
        world, rng = World(seed), np.random.default_rng(seed)
        arms = rng.integers(ARMS, size=4000)
        rewards = world.means[arms] + rng.uniform(-0.3, 0.3, arms.size)
        found = suggest_bias(world.contexts[arms], rewards, arms)
        fit = np.linalg.lstsq(world.contexts[arms], world.means[arms], rcond=None)[0]
        off = np.abs(world.means - world.contexts @ fit).max()
        failed += not found.least <= off <= found.safe
        assert found.safe < off + 0.05
    assert failed <= 6


def test_a_linear_log_suggests_none() -> None:
    world, rng = World(3), np.random.default_rng(3)
    arms = rng.integers(ARMS, size=4000)
    rewards = world.contexts[arms] @ [0.4, 0.3, 0.1] + rng.normal(0.0, 0.1, arms.size)
    found = suggest_bias(world.contexts[arms], rewards, [f"arm {arm}" for arm in arms])
    assert isinstance(found, SuggestedBias)
    assert found.least == 0.0
    assert found.safe < 0.03


@pytest.mark.parametrize(
    ("given", "says"),
    [
        (([[1.0]], [1.0, 0.0], [0]), "equally many"),
        (([1.0, 2.0], [1.0, 0.0], [0, 1]), "a row for each reward"),
        (([[np.nan]], [1.0], [0]), "finite"),
        (([[1.0]], ["a"], [0]), "rewards must be an array of numbers"),
    ],
)
def test_logs_that_are_none_are_refused(given: Any, says: str) -> None:
    with pytest.raises((TypeError, ValueError), match=says):
        suggest_bias(*given)
