"""What an environment is, and what the kinds of them share."""

from __future__ import annotations

from functools import lru_cache
from typing import Any, Protocol, runtime_checkable

import numpy as np

from armtriage.graphs import FeedbackGraph
from armtriage.kernels.random import stream
from armtriage.kernels.record import Floats, Ints


@runtime_checkable
class Environment(Protocol):
    """What `simulate` needs of an environment; any object with these members will do.

    For policies over a decision set it has one more, `decisions`, with an equal set. It may have a `reward_range`, that
    the policy's must contain, and a `direction`; without it, what it pays is not taken for costs. A world whose arms
    are not always there has an `availability` other than None, a method ``eligible(round, replication=0)``, and
    ``regret(arms, round, replication)``.

    Examples
    --------
    >>> from armtriage import Environment, FeedbackGraph, StochasticEnvironment
    >>> isinstance(StochasticEnvironment([0.5], FeedbackGraph.semi_bandit(1)), Environment)
    True
    """

    @property
    def n_arms(self) -> int:
        """Number of arms."""

    @property
    def graph(self) -> FeedbackGraph:
        """Which arms a decision reveals."""

    def rewards(self, round: int, arms: Ints, replication: int = 0) -> Floats:
        """Return the reward of each of `arms` in that round of that replication."""

    def regret(self, arms: Ints) -> float:
        """Return the expected loss of one decision against the best one that is allowed."""


@lru_cache(maxsize=256)
def cached_stream(seed: int, role: str, replication: int) -> np.uint64:
    """Return `stream` of the arguments, of which a run asks for the same again and again."""
    return stream(seed, role, replication)


def units_of(environment: Any) -> str:
    """Return how a representation says the range and direction, if they are not the usual ones."""
    usual = {"reward_range": (0.0, 1.0), "direction": "maximize"}
    own = {name: getattr(environment, name) for name in usual}
    return "".join(f"{name}={value!r}, " for name, value in own.items() if value != usual[name])
