"""The kernel cache: never stale, never in the way."""

from __future__ import annotations

import os
import subprocess
import sys
from concurrent.futures import ThreadPoolExecutor
from pathlib import Path

from numba.core import config

from armtriage.kernels import jit as _jit

OWN_POLICY = """
from typing import NamedTuple
import numba, numpy as np
from armtriage import FeedbackGraph, StochasticEnvironment, simulate
from armtriage.policies.compiled import CompiledPolicy, Kernels

class Params(NamedTuple):
    first: int

class State(NamedTuple):
    nothing: np.ndarray

@numba.njit(nogil=True)
def select(params, state, graph, number, luck, arms):
    for i in range(arms.size):
        arms[i] = FIRST + i
    return False

@numba.njit(nogil=True)
def update(params, state, graph, number, luck, seen, rewards, n, scheduled):
    pass

class Fixed(CompiledPolicy):
    kernels = Kernels(select, update)
    def params(self):
        return Params(0)
    def new_state(self):
        return State(np.zeros(1))
"""
RUN = """
import own
graph = own.FeedbackGraph.semi_bandit(5)
env = own.StochasticEnvironment([0.5] * 5, graph, seed=1)
trace = own.simulate(own.Fixed(graph, 2, seed=1), env, horizon=3, record_decisions=True)
print(trace.decisions[0, 0].tolist())
"""


def test_a_changed_kernel_outside_the_package_is_played_as_changed(tmp_path: Path) -> None:
    said = []
    for first in (0, 3):
        (tmp_path / "own.py").write_text(OWN_POLICY.replace("FIRST", str(first)))
        done = subprocess.run([sys.executable, "-c", RUN], cwd=tmp_path, capture_output=True, text=True, check=True)
        said.append(done.stdout.strip())
    assert said == ["[0, 1]", "[3, 4]"]


def test_decorating_in_many_threads_leaves_numba_s_folder_as_it_was() -> None:
    before = config.CACHE_DIR

    def decorate(number: int) -> None:
        _jit.bind(_double, f"double_{number}")

    with ThreadPoolExecutor(8) as pool:
        list(pool.map(decorate, range(200)))
    assert before == config.CACHE_DIR


def test_decorating_in_many_threads_puts_no_cache_into_the_working_folder(tmp_path: Path) -> None:
    code = (
        "from concurrent.futures import ThreadPoolExecutor\n"
        "from armtriage import _jit, _random\n"
        "with ThreadPoolExecutor(8) as pool:\n"
        "    list(pool.map(lambda i: _jit.bind(_random.check_seed, f'name_{i}'), range(200)))\n"
    )
    subprocess.run([sys.executable, "-c", code], cwd=tmp_path, check=True)
    assert os.listdir(tmp_path) == []


def _double(x: int) -> int:
    return 2 * x
