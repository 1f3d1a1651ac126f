"""One linear environment with every kind of contexts."""

from __future__ import annotations

from typing import Any

import numpy as np

from armtriage import LinearEnvironment

THETA = (0.5, -0.3, 0.2)
RECORD = np.random.default_rng(3).uniform(-0.5, 0.5, (30, 6, 3))


def recorded(round: int, replication: int) -> np.ndarray:
    """Contexts as a function, which differ between replications."""
    return np.roll(RECORD[round % 30], replication, axis=0)


KINDS: dict[str, Any] = {
    "sphere": "sphere",
    "cube": "cube",
    "fixed": RECORD[0],
    "given": RECORD,
    "function": recorded,
}


def environment(contexts: Any = "sphere", theta: Any = THETA, n_arms: int = 6, **more: Any) -> LinearEnvironment:
    return LinearEnvironment(theta, contexts, n_arms, **{"seed": 5, **more})
