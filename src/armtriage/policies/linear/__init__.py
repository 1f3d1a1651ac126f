"""Policies for arms that come with contexts."""

from armtriage.policies.linear.bias import SuggestedBias, suggest_bias
from armtriage.policies.linear.c2ucb import C2UCB
from armtriage.policies.linear.contextual_guard import ContextualGuard
from armtriage.policies.linear.guarded_linear import GuardedLinear, LinearGuard
from armtriage.policies.linear.hierarchical import HierarchicalElimination, StageTriage
from armtriage.policies.linear.linear_thompson import LinearThompsonSampling

__all__ = [
    "C2UCB",
    "ContextualGuard",
    "GuardedLinear",
    "HierarchicalElimination",
    "LinearGuard",
    "LinearThompsonSampling",
    "StageTriage",
    "SuggestedBias",
    "suggest_bias",
]
