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
    rewards: np.ndarray
    floor: float

    def first(self, rounds: int) -> World:
        """The same of the first decisions only."""
        return made(self.means, self.floor, *(one[:rounds] for one in self[2:6]))


def made(
    means: np.ndarray, floor: float, arms: np.ndarray, proposal: np.ndarray, inclusion: np.ndarray, rewards: np.ndarray
) -> World:
    log = SlateLog.from_columns(
        arms=arms,
        rewards=rewards,
        inclusion=inclusion,
        proposal=proposal,
        floor=np.full(len(arms), floor),
        n_arms=means.size,
    )
    return World(log, means, arms, proposal, inclusion, rewards, floor)


def learned(seed: int, rounds: int, n_arms: int = 12, slots: int = 3, floor: float = 0.2) -> World:
    """Return a log of Thompson sampling."""
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
    return made(means, floor, arms, proposal, inclusion, rewards)
