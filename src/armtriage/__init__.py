"""armtriage: choose S of K arms each round, and lose as little as possible while learning."""

from armtriage.checks import check_policy
from armtriage.decisions import (
    Constraints,
    Decision,
    DecisionSet,
    Explicit,
    Knapsack,
    Matchings,
    PartitionMatroid,
    Paths,
    SpanningTrees,
    TopS,
)
from armtriage.environments import Environment, ReplayEnvironment, StochasticEnvironment
from armtriage.errors import AlreadyTold, ArmtriageError, DamagedFile, UnknownDecision
from armtriage.feedback import FeedbackGraph
from armtriage.instances import random_bernoulli, ucb_failure
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

__all__ = [
    "KLUCB",
    "AlreadyTold",
    "ArmtriageError",
    "CombUCB1",
    "CombinatorialElimination",
    "CombinatorialUCB",
    "Constraints",
    "DamagedFile",
    "Decision",
    "DecisionSet",
    "Environment",
    "Explicit",
    "FeedbackGraph",
    "Greedy",
    "Knapsack",
    "Matchings",
    "PartitionMatroid",
    "Paths",
    "Policy",
    "ReplayEnvironment",
    "SpanningTrees",
    "StochasticEnvironment",
    "ThompsonSampling",
    "TopS",
    "Trace",
    "Triage",
    "TriageLog",
    "UniformRandom",
    "UnknownDecision",
    "check_policy",
    "confidence_interval",
    "random_bernoulli",
    "simulate",
    "ucb_failure",
]

__version__ = "0.1.0"
