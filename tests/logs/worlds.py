"""Logs that a policy wrote while it learned, with a known share of slots given to others at random."""

from __future__ import annotations

from typing import NamedTuple

import numpy as np

from armtriage import SlateLog


class World(NamedTuple):
    """A log and the means behind it."""

    log: SlateLog
    means: np.ndarray
    arms: np.ndarray
    proposal: np.ndarray
    inclusion: np.ndarray


def learned(seed: int, rounds: int, n_arms: int = 12, slots: int = 3, floor: float = 0.2, only: int = 0) -> World:
    """Return a log of Thompson sampling; of its first decisions only, if so many are wanted."""
    rng = np.random.default_rng([7, seed])
    means = rng.uniform(0.05, 0.7, n_arms)
    wins, losses = np.ones((2, n_arms))
    arms, proposal = np.empty((2, rounds, slots), np.int64)
    rewards, inclusion = np.empty((2, rounds, slots))
    for t in range(rounds):
        proposed = np.argsort(-rng.beta(wins, losses))[:slots]
        others = np.setdiff1d(np.arange(n_arms), proposed)
        played, swap = proposed.copy(), rng.random(slots) < floor
        played[swap] = rng.choice(others, swap.sum(), replace=False)
        came = (rng.random(slots) < means[played]).astype(float)
        wins[played] += came
        losses[played] += 1 - came
        arms[t], proposal[t], rewards[t] = played, proposed, came
        inclusion[t] = np.where(np.isin(played, proposed), 1 - floor, floor * slots / others.size)
    some = slice(only or rounds)
    log = SlateLog.from_columns(
        arms=arms[some],
        rewards=rewards[some],
        inclusion=inclusion[some],
        proposal=proposal[some],
        floor=np.full(rounds, floor)[some],
        n_arms=n_arms,
    )
    return World(log, means, arms[some], proposal[some], inclusion[some])
