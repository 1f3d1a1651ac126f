"""The yardstick: CombUCB1 in C, compiled on the spot for this machine and called through ctypes."""

from __future__ import annotations

import ctypes
import functools
import shutil
import subprocess
import tempfile
from collections.abc import Callable
from pathlib import Path

import numpy as np
from numpy.typing import NDArray

SOURCE = Path(__file__).with_name("yardstick.c")


@functools.cache
def _compiled() -> Callable[..., float]:
    """Compile the C source once per process; the library stays loaded after its folder is gone."""
    compiler = shutil.which("cc") or shutil.which("gcc") or shutil.which("clang")
    if compiler is None:
        raise RuntimeError("the yardstick needs a C compiler: none of cc, gcc and clang was found on the path")
    with tempfile.TemporaryDirectory(prefix="armtriage-", ignore_cleanup_errors=True) as folder:
        library = Path(folder, "yardstick.so")
        command = [
            compiler,
            "-O3",
            "-march=native",
            "-shared",
            "-fPIC",
            str(SOURCE),
            "-o",
            str(library),
            "-lm",
        ]
        done = subprocess.run(command, capture_output=True, text=True, check=False)
        if done.returncode:
            raise RuntimeError(f"the yardstick did not compile ({' '.join(command)}):\n{done.stderr}")
        function = ctypes.CDLL(str(library)).comb_ucb1
    whole, vector = ctypes.c_int64, np.ctypeslib.ndpointer
    floats, wholes = vector(np.float64, 1, flags="C"), vector(np.int64, 1, flags="C")
    function.argtypes = [whole, whole, whole, floats, ctypes.c_uint64, wholes]
    function.restype = ctypes.c_double
    return function


def comb_ucb1(means: NDArray[np.float64], budget: int, horizon: int, start: int) -> tuple[float, NDArray[np.int64]]:
    """Return the cumulative pseudo-regret and the sorted arms of the last round; compiles at the first call.

    The reward of an arm in a round, from 1, is ``uniform(row(start, round), arm) < means[arm]`` in the
    functions of ``armtriage.kernels.random``.
    """
    means = np.ascontiguousarray(means, dtype=np.float64)
    if means.ndim != 1 or not np.all((means >= 0) & (means <= 1)):
        raise ValueError("means must be a vector of numbers from 0 to 1")
    if not 1 <= budget <= means.size:
        raise ValueError(f"budget must be from 1 to {means.size}, got {budget}")
    if not 1 <= horizon < 2**32:
        raise ValueError(f"horizon must be from 1 to 2**32 - 1, got {horizon}")
    last = np.empty(budget, dtype=np.int64)
    regret = _compiled()(means.size, budget, horizon, means, int(start), last)
    return regret, last
