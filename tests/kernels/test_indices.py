"""No kernel counts from the end of an array: the compiler does not ask whether an index is negative."""

from __future__ import annotations

import ast
import os
import subprocess
import sys
from pathlib import Path

import pytest

import armtriage
from armtriage.kernels.jit import JIT

SOURCES = Path(armtriage.__file__).parent

TRIAL = """
import numpy as np
from armtriage.kernels.jit import Kernel

def last(values, place):
    return values[place]

last.__module__ = "armtriage.trial"
print(Kernel(last)(np.arange(3.0), int({place})))
"""


def is_kernel(function: ast.FunctionDef) -> bool:
    return any(isinstance(one, ast.Name) and one.id in ("kernel", "inlined") for one in function.decorator_list)


def negative_indices(module: ast.Module) -> list[int]:
    """Return the lines of kernels on which an index begins with a minus."""
    functions = [one for one in ast.walk(module) if isinstance(one, ast.FunctionDef) and is_kernel(one)]
    places = [one for function in functions for one in ast.walk(function) if isinstance(one, ast.Subscript)]
    parts = [(one, part) for one in places for part in getattr(one.slice, "elts", [one.slice])]
    return [one.lineno for one, part in parts if isinstance(part, ast.UnaryOp) and isinstance(part.op, ast.USub)]


def test_no_index_of_a_kernel_is_written_as_negative() -> None:
    found = {path: negative_indices(ast.parse(path.read_text())) for path in SOURCES.rglob("*.py")}
    assert len(found) > 100
    assert not {path: lines for path, lines in found.items() if lines}


def test_a_negative_index_would_be_found() -> None:
    assert negative_indices(ast.parse("@kernel\ndef f(x):\n    return x[0, -1]\n")) == [3]


@pytest.mark.skipif(not JIT, reason="nothing is compiled")
@pytest.mark.parametrize(("place", "answer"), [(2, "2.0"), (-1, None), (3, None)])
def test_bounds_can_be_checked(place: int, answer: str | None, tmp_path: Path) -> None:
    """`make test-long` plays all policies so: whatever is outside an array, before it or behind it, is an error."""
    environment = {**os.environ, "NUMBA_BOUNDSCHECK": "1", "XDG_CACHE_HOME": str(tmp_path)}
    command = [sys.executable, "-c", TRIAL.format(place=place)]
    done = subprocess.run(command, env=environment, capture_output=True, text=True, check=False)
    assert (done.stdout.strip() == answer) if answer else ("IndexError" in done.stderr)
