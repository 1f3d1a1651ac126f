"""The linear policies against the dense work of a round, and against a NumPy loop."""

from __future__ import annotations

import os
import subprocess
import sys

import numpy as np
from numpy.typing import NDArray

__all__ = ["c2ucb_loop", "dense_seconds", "sphere"]


def sphere(rng: np.random.Generator, *shape: int) -> NDArray[np.float64]:
    """Return vectors of norm 1, but for rounding."""
    vectors = rng.standard_normal(shape)
    return np.asarray(vectors / (np.linalg.norm(vectors, axis=-1, keepdims=True) * (1 + 1e-12)))


def c2ucb_loop(
    theta: NDArray[np.float64],
    contexts: NDArray[np.float64],
    budget: int,
    horizon: int,
    seed: int,
    fresh: np.random.Generator | None = None,
) -> float:
    """Play C2UCB as one would in careful NumPy, with fixed contexts or fresh ones; return the regret."""
    d, rng = theta.size, np.random.default_rng(seed)
    inverse, moment, log_det = np.eye(d), np.zeros(d), 0.0
    means = contexts @ theta
    best, regret = np.sort(means)[-budget:].sum(), 0.0
    product, squares = np.empty_like(contexts), np.empty(len(contexts))
    log_delta = 2.0 * np.log(0.01)
    for _ in range(horizon):
        if fresh is not None:
            contexts = sphere(fresh, *contexts.shape)
            means = contexts @ theta
            best = np.partition(means, -budget)[-budget:].sum()
        np.matmul(contexts, inverse, out=product)
        np.einsum("ij,ij->i", product, contexts, out=squares)
        np.sqrt(squares, out=squares)
        squares *= np.sqrt(log_det - log_delta) + 1.0
        squares += contexts @ (inverse @ moment)
        arms = np.argpartition(squares, -budget)[-budget:]
        chosen = means[arms]
        rewards = np.where(2.0 * rng.random(budget) - 1.0 < chosen, 1.0, -1.0)
        regret += best - chosen.sum()
        rows = contexts[arms]
        moment += rewards @ rows
        for row in rows:
            image = inverse @ row
            norm = row @ image
            log_det += np.log1p(norm)
            inverse -= np.outer(image, image / (1.0 + norm))
    return float(regret)


_DENSE = """
import time
import numpy as np
rng = np.random.default_rng(0)
worlds, inverse = rng.standard_normal((20, {n}, {d})), np.eye({d})
product, squares = np.empty(({n}, {d})), np.empty({n})
best = 1e9
for number in range({repeats}):
    contexts = worlds[number % 20]
    began = time.{clock}()
    np.matmul(contexts, inverse, out=product)
    np.einsum("ij,ij->i", product, contexts, out=squares)
    best = min(best, time.{clock}() - began)
print(best)
"""


def dense_seconds(n_arms: int, dimension: int, threads: int, repeats: int = 200) -> float:
    """Return the least time of one (K x d)(d x d) product and a row-wise inner product with NumPy's BLAS."""
    # Processor time does not see other programs, but sees every thread.
    clock = "thread_time" if threads == 1 else "perf_counter"
    code = _DENSE.format(n=n_arms, d=dimension, repeats=repeats, clock=clock)
    # BLAS reads its number of threads when it is loaded, so it is loaded again.
    names = ("OPENBLAS_NUM_THREADS", "MKL_NUM_THREADS", "OMP_NUM_THREADS", "VECLIB_MAXIMUM_THREADS")
    environment = {**os.environ, **dict.fromkeys(names, str(threads))}
    done = subprocess.run([sys.executable, "-c", code], check=True, capture_output=True, env=environment)
    return float(done.stdout)
