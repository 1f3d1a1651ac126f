"""armtriage: choose S of K arms each round, and lose as little as possible while learning."""

from armtriage.checks import check_policy
from armtriage.contextual import ContextualPolicy
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
from armtriage.environments import Environment, LinearEnvironment, ReplayEnvironment, StochasticEnvironment
from armtriage.errors import AlreadyTold, ArmtriageError, DamagedFile, UnknownDecision
from armtriage.feedback import FeedbackGraph
from armtriage.instances import (
    linear_blocks,
    linear_few_dimensions,
    linear_one_dimension,
    random_bernoulli,
    random_linear,
    ucb_failure,
)
from armtriage.intervals import confidence_interval
from armtriage.policies import (
    C2UCB,
    KLUCB,
    CombinatorialElimination,
    CombinatorialUCB,
    CombUCB1,
    Greedy,
    HierarchicalElimination,
    LinearThompsonSampling,
    StageTriage,
    ThompsonSampling,
    Triage,
    UniformRandom,
)
from armtriage.policy import Policy
from armtriage.simulator import simulate
from armtriage.trace import Trace, TriageLog

__all__ = [
    "C2UCB",
    "KLUCB",
    "AlreadyTold",
    "ArmtriageError",
    "CombUCB1",
    "CombinatorialElimination",
    "CombinatorialUCB",
    "Constraints",
    "ContextualPolicy",
    "DamagedFile",
    "Decision",
    "DecisionSet",
    "Environment",
    "Explicit",
    "FeedbackGraph",
    "Greedy",
    "HierarchicalElimination",
    "Knapsack",
    "LinearEnvironment",
    "LinearThompsonSampling",
    "Matchings",
    "PartitionMatroid",
    "Paths",
    "Policy",
    "ReplayEnvironment",
    "SpanningTrees",
    "StageTriage",
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
    "linear_blocks",
    "linear_few_dimensions",
    "linear_one_dimension",
    "random_bernoulli",
    "random_linear",
    "simulate",
    "ucb_failure",
]

__version__ = "0.1.0"
