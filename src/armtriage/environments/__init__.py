"""Environments: what an arm pays in a round, as a pure function of (seed, replication, round, arm)."""

from armtriage.environments.availability import Arrivals, Availability, Patterns, RandomRounds
from armtriage.environments.drift import Drift, DriftingEnvironment, Jump, Season, Walk
from armtriage.environments.gym import gym_environment
from armtriage.environments.linear import LinearEnvironment
from armtriage.environments.page import PageEnvironment, check_weights
from armtriage.environments.protocol import Environment
from armtriage.environments.replay import ReplayEnvironment
from armtriage.environments.stochastic import StochasticEnvironment

__all__ = [
    "Arrivals",
    "Availability",
    "Drift",
    "DriftingEnvironment",
    "Environment",
    "Jump",
    "LinearEnvironment",
    "PageEnvironment",
    "Patterns",
    "RandomRounds",
    "ReplayEnvironment",
    "Season",
    "StochasticEnvironment",
    "Walk",
    "check_weights",
    "gym_environment",
]
