"""Kernels that numba compiles in its own way: the same decisions, and one line of warning."""

from __future__ import annotations

import json
import os
import subprocess
import sys
from pathlib import Path

import pytest

from armtriage.kernels import jit
from conftest import POLICIES, play

pytestmark = pytest.mark.skipif(not jit.JIT, reason="nothing is compiled")

PLAYED = """
import json, sys
from conftest import POLICIES, play
given = json.load(sys.stdin)
print(json.dumps({name: play(POLICIES[name].make(), POLICIES[name].environment, given["rounds"])
                  for name in given["names"]}))
"""

MISSING = 'import sys; sys.modules["armtriage.kernels.compiler"] = None\n'
DIFFERS = """
from numba.core.base import BaseContext
usual = BaseContext.get_abi_sizeof
BaseContext.get_abi_sizeof = lambda self, ty, alignment=None: usual(self, ty)
"""


def decisions(patched: str, names: list[str], rounds: int, cache: Path) -> tuple[dict[str, list[list[int]]], str]:
    path = os.pathsep.join([*sys.path, str(Path(__file__).parents[1])])
    done = subprocess.run(
        [sys.executable, "-c", patched + PLAYED],
        input=json.dumps({"names": names, "rounds": rounds}),
        env={**os.environ, "PYTHONPATH": path, "NUMBA_CACHE_DIR": str(cache)},
        capture_output=True,
        text=True,
    )
    assert done.returncode == 0, done.stderr
    return json.loads(done.stdout), done.stderr


def test_a_part_of_numba_that_differs_is_noticed_and_not_used(tmp_path: Path) -> None:
    entry = POLICIES["UniformRandom"]
    expected = {"UniformRandom": play(entry.make(), entry.environment, 20)}
    played, said = decisions(DIFFERS, list(expected), 20, tmp_path)
    assert played == expected
    (line,) = said.splitlines()
    assert "BaseContext.get_abi_sizeof of numba is not as it was" in line
    assert list(tmp_path.rglob("*.nbi"))
    assert not list(tmp_path.rglob("*.code"))


@pytest.mark.long
def test_every_policy_decides_the_same_with_nothing_of_numba_replaced(tmp_path: Path) -> None:
    expected = {name: play(entry.make(), entry.environment, 40) for name, entry in POLICIES.items()}
    for _ in ("compiled", "from numba's own cache"):
        played, said = decisions(MISSING, list(POLICIES), 40, tmp_path)
        assert len(said.splitlines()) == 1
        assert [name for name in POLICIES if played[name] != expected[name]] == []
