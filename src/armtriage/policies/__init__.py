"""The policies, one algorithm a file."""

from armtriage.policies.c2ucb import C2UCB
from armtriage.policies.comb_ucb1 import CombUCB1
from armtriage.policies.combinatorial_ucb import CombinatorialUCB
from armtriage.policies.constrained import ConstrainedElimination
from armtriage.policies.elimination import CombinatorialElimination
from armtriage.policies.greedy import Greedy
from armtriage.policies.guard import Guard
from armtriage.policies.guarded_thompson import GuardedThompson
from armtriage.policies.kl_ucb import KLUCB
from armtriage.policies.linear_elimination import HierarchicalElimination, StageTriage
from armtriage.policies.linear_thompson import LinearThompsonSampling
from armtriage.policies.thompson import ThompsonSampling
from armtriage.policies.uniform_random import UniformRandom

__all__ = [
    "C2UCB",
    "KLUCB",
    "CombUCB1",
    "CombinatorialElimination",
    "CombinatorialUCB",
    "ConstrainedElimination",
    "Greedy",
    "Guard",
    "GuardedThompson",
    "HierarchicalElimination",
    "LinearThompsonSampling",
    "StageTriage",
    "ThompsonSampling",
    "UniformRandom",
]
