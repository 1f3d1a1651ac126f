"""The policies: what one is, then a room for each family."""

from armtriage.policies.constrained import ConstrainedElimination
from armtriage.policies.contextual import ContextualPolicy
from armtriage.policies.elimination import CombinatorialElimination
from armtriage.policies.guard import Guard, GuardedIndex, GuardedThompson
from armtriage.policies.index import KLUCB, CombinatorialUCB, CombUCB1, Greedy
from armtriage.policies.linear import (
    C2UCB,
    ContextualGuard,
    GuardedLinear,
    HierarchicalElimination,
    LinearThompsonSampling,
    StageTriage,
    SuggestedBias,
    suggest_bias,
)
from armtriage.policies.old_log import OldLog
from armtriage.policies.policy import Policy
from armtriage.policies.sampling import ThompsonSampling
from armtriage.policies.uniform_random import UniformRandom

__all__ = [
    "C2UCB",
    "KLUCB",
    "CombUCB1",
    "CombinatorialElimination",
    "CombinatorialUCB",
    "ConstrainedElimination",
    "ContextualGuard",
    "ContextualPolicy",
    "Greedy",
    "Guard",
    "GuardedIndex",
    "GuardedLinear",
    "GuardedThompson",
    "HierarchicalElimination",
    "LinearThompsonSampling",
    "OldLog",
    "Policy",
    "StageTriage",
    "SuggestedBias",
    "ThompsonSampling",
    "UniformRandom",
    "suggest_bias",
]
