"""Shortcuts through numba: the same answers, and nothing of them is left when a kernel is compiled."""

from __future__ import annotations

import os
import subprocess
import sys
from pathlib import Path

import numba
import pytest
from numba.core import base, errors, ir, postproc
from numba.core.types import functions
from numba.core.typing import templates
from numba.np import arrayobj

from armtriage.kernels import jit
from armtriage.kernels.shortcuts import shortcuts

pytestmark = pytest.mark.skipif(not jit.JIT, reason="nothing is compiled")


def ways() -> list[object]:
    return [
        functions.BaseFunction.get_call_type,
        arrayobj.make_array,
        base.BaseContext.get_abi_sizeof,
        postproc.PostProcessor.run,
        templates._OverloadFunctionTemplate._build_impl,
        base._has_loc,
        ir.Inst._rec_list_vars,
        getattr(getattr(errors, "HighlightColorScheme", None), "_markup", None),
    ]


def test_numba_is_as_it_was_after_a_compilation_and_after_one_that_failed() -> None:
    before = ways()
    with shortcuts(numba.njit):
        assert all(now is not then for now, then in zip(ways(), before, strict=True) if then is not None)
    assert ways() == before
    with pytest.raises(ZeroDivisionError), shortcuts(numba.njit):
        raise ZeroDivisionError
    assert ways() == before


FIRST = """
import sys
import numba, numpy as np
from armtriage import FeedbackGraph, UniformRandom
from armtriage.kernels import jit

@numba.njit
def own(a, b):
    parts = np.zeros(3)
    parts[0] = min(a[0], b[0], 1.0)
    parts[1] = max(int(b[1]), 4)
    parts[2] = np.dot(a, b)
    return parts

policy = UniformRandom(FeedbackGraph.semi_bandit(5), 2, seed=1)
policy.tell(policy.ask(), [0, 1])
assert jit.compilations() > 0 and "scipy.linalg" not in sys.modules
print(own(np.array([2.0, 3.0]), np.array([5.0, 7.5])).tolist())
"""


def test_what_others_compile_after_a_kernel_is_right_and_has_its_linear_algebra(tmp_path: Path) -> None:
    environment = {**os.environ, "NUMBA_CACHE_DIR": str(tmp_path)}
    done = subprocess.run([sys.executable, "-c", FIRST], env=environment, capture_output=True, text=True)
    assert done.stdout.strip() == "[1.0, 7.0, 32.5]", done.stderr
