"""Compiled code sees the same contexts, rewards and losses as everybody else, whether kernels are compiled or not."""

from __future__ import annotations

import json
import os
import subprocess
import sys
from typing import Any

import numba
import numpy as np
import pytest

from armtriage import LinearEnvironment
from armtriage.environments.tables import contexts_in, draw_linear, loss_linear, means_in
from armtriage.kernels.random import row
from environments.linear_worlds import KINDS, RECORD, environment


@numba.njit
def play(table: Any, context_luck: Any, reward_luck: Any, first: int, stop: int, arms: Any, out: Any) -> Any:
    scratch, means, sorting = np.empty((6, 3)), np.empty(6), np.empty(6)
    lost = np.empty(stop - first)
    for number in range(first, stop):
        contexts = contexts_in(table, row(context_luck, number), number, scratch)
        means_in(table, number, contexts, means)
        for i in range(arms.size):
            out[number - first, i] = draw_linear(table, row(reward_luck, number), means[arms[i]], arms[i])
        lost[number - first] = loss_linear(means, arms, sorting)
    return lost


@pytest.mark.parametrize("noise", ["independent", "shared"])
@pytest.mark.parametrize("reward", ["binary", "uniform", "deterministic"])
@pytest.mark.parametrize("kind", KINDS)
def test_compiled_code_sees_the_same_floats(kind: str, reward: str, noise: str) -> None:
    env = environment(KINDS[kind], reward=reward, noise=noise)
    arms, rewards = np.array([4, 1]), np.empty((12, 2))
    table = env.table(2, 8, 20)
    lost = play(table, env.context_luck(2), env.luck(2), 8, 20, arms, rewards)
    assert rewards.tolist() == [env.rewards(t, arms, 2).tolist() for t in range(8, 20)]
    assert lost.tolist() == [env.regret(t, arms, 2) for t in range(8, 20)]


@pytest.mark.parametrize("kind", ["sphere", "cube", "fixed", "given"])
def test_table_of_all_rounds_is_made_once(kind: str) -> None:
    env = environment(KINDS[kind])
    assert env.table(0, 0, 5) is env.table(3, 5, 30)
    assert env.rounds_per_table == 2**53


@pytest.mark.parametrize(("n_arms", "dimension", "rounds"), [(6, 3, 116508), (2**20, 2, 1), (2**20, 3, 1)])
def test_rounds_that_a_function_s_table_holds(n_arms: int, dimension: int, rounds: int) -> None:
    env = LinearEnvironment(np.zeros(dimension), lambda t, r: np.zeros((n_arms, dimension)), n_arms)
    assert env.rounds_per_table == rounds


def test_table_beyond_the_given_rounds_is_refused() -> None:
    with pytest.raises(ValueError, match="horizon must be at most the 30 rounds of contexts, got 31"):
        environment(RECORD).table(0, 20, 31)


SAMPLE = """
import json
import numpy as np
from armtriage import LinearEnvironment
record = np.random.default_rng(3).uniform(-0.3, 0.3, (4, 5, 7))
kinds = {"sphere": "sphere", "cube": "cube", "fixed": record[0], "given": record, "function": lambda t, r: record[t]}
theta, seen = np.linspace(-0.3, 0.4, 7), {}
for kind, contexts in kinds.items():
    for reward in ("binary", "uniform", "deterministic"):
        for noise in ("independent", "shared"):
            env = LinearEnvironment(theta, contexts, 5, reward, noise=noise, seed=2**64 + 1)
            seen[f"{kind} {reward} {noise}"] = [
                [env.contexts(t, r).tolist(), env.means(t, r).tolist(), env.rewards(t, range(5), r).tolist(),
                 [env.regret(t, arms, r) for arms in ([0], [1, 3], [0, 2, 4], range(5))]]
                for t in range(4) for r in (0, 5)
            ]
print(json.dumps(seen))
"""


def sample(jit: bool) -> Any:
    flags = {**os.environ, "NUMBA_DISABLE_JIT": "0" if jit else "1"}
    command = [sys.executable, "-W", "error", "-c", SAMPLE]
    done = subprocess.run(command, env=flags, capture_output=True, text=True, check=True, timeout=300)
    return json.loads(done.stdout)


def test_floats_do_not_depend_on_compilation() -> None:
    assert sample(jit=False) == sample(jit=True)
