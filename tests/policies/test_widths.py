"""Contexts that come again: recognised to the bit, widths that follow rewards, and files that lose nothing."""

from __future__ import annotations

from pathlib import Path

import numpy as np
import pytest

from armtriage import GuardedLinear, Policy
from armtriage.policies.linear.widths import find_widths, new_repeated, repeats


def contexts(n_arms: int, dimension: int, seed: int = 3) -> np.ndarray:
    x = np.random.default_rng(seed).normal(size=(n_arms, dimension))
    return np.asarray(x / (1.01 * np.linalg.norm(x, axis=1, keepdims=True)))


def told(policy: GuardedLinear, x: np.ndarray, rounds: int, seed: int = 1) -> list[list[int]]:
    rng, decisions = np.random.default_rng(seed), []
    for _ in range(rounds):
        decision = policy.ask(x)
        policy.tell(decision, rng.uniform(-1.0, 1.0, decision.arms.size))
        decisions.append(decision.arms.tolist())
    return decisions


def squares(x: np.ndarray, inverse: np.ndarray) -> np.ndarray:
    return np.asarray(np.einsum("ij,ij->i", x @ inverse, x))


@pytest.mark.parametrize(("dimension", "budget"), [(1, 2), (6, 1), (9, 2), (40, 3)])
def test_widths_that_follow_are_those_of_the_inverse(dimension: int, budget: int) -> None:
    policy, x = GuardedLinear(50, dimension, budget, seed=7), contexts(50, dimension)
    state, followed = policy._state, 0
    for _ in range(120):
        told(policy, x, 1, seed=int(policy._asked))
        followed += int(state.kept.sure.waiting) >= 0
        find_widths(policy._params, state, x)
        np.testing.assert_allclose(state.squares, squares(x, state.fit.inverse[0]), rtol=1e-9, atol=1e-13)
        np.testing.assert_allclose(state.boxes.squares, squares(x, state.ridge.inverse[0]), rtol=1e-9, atol=1e-13)
    assert (followed > 50) == (dimension >= 3 * budget)


def test_contexts_come_again_when_every_bit_of_them_does() -> None:
    kept, x = new_repeated(6, 3), contexts(6, 3)
    assert [repeats(kept, x.copy()) for _ in range(4)] == [False, False, True, True]
    other = x.copy()
    other[5, 2] = np.nextafter(other[5, 2], 1.0)
    assert [repeats(kept, one) for one in (other, x, other, other, other)] == [False, False, False, False, True]
    assert not repeats(kept, other[:5])


def test_a_loaded_policy_goes_on_to_the_bit_where_contexts_come_again(tmp_path: Path) -> None:
    policy, x, rng = GuardedLinear(dimension=8, budget=2, seed=7), contexts(30, 8), np.random.default_rng(5)
    for t in range(60):
        decision = policy.ask(x if t % 20 else x[:20])
        policy.tell(decision, rng.uniform(-1.0, 1.0, 2))
        if t % 7 == 0:
            policy.save(tmp_path / "policy")
            loaded = Policy.load(tmp_path / "policy")
            assert isinstance(loaded, GuardedLinear)
            assert told(loaded, x, 3) == told(policy, x, 3)
            assert loaded.digest() == policy.digest()


def test_open_decisions_are_counted_where_contexts_come_again() -> None:
    policy, x = GuardedLinear(12, 6, 1, seed=7), contexts(12, 6)
    told(policy, x, 5)
    asked = [policy.ask(x) for _ in range(4)]
    find_widths(policy._params, policy._state, x)
    pulled = np.vstack([one.contexts for one in asked])
    gram = np.linalg.inv(policy._state.fit.inverse[0]) + pulled.T @ pulled
    np.testing.assert_allclose(policy._state.squares, squares(x, np.linalg.inv(gram)), rtol=1e-9)
    for decision in asked:
        policy.tell(decision, [0.5])
    find_widths(policy._params, policy._state, x)
    np.testing.assert_allclose(policy._state.squares, squares(x, policy._state.fit.inverse[0]), rtol=1e-9)
