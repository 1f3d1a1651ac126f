"""armtriage: choose S of K arms each round, and lose as little as possible while learning."""

from armtriage.decisions import Decision
from armtriage.environments import Environment, ReplayEnvironment, StochasticEnvironment
from armtriage.errors import AlreadyTold, ArmtriageError, DamagedFile, UnknownDecision
from armtriage.feedback import FeedbackGraph
from armtriage.intervals import confidence_interval
from armtriage.policies import (
    KLUCB,
    CombinatorialElimination,
    CombinatorialUCB,
    CombUCB1,
    Greedy,
    ThompsonSampling,
    Triage,
    UniformRandom,
)
from armtriage.policy import Policy
from armtriage.simulator import simulate
from armtriage.trace import Trace, TriageLog

__version__ = "0.1.0"
