"""The policies, one algorithm a file."""

from armtriage.policies.comb_ucb1 import CombUCB1
from armtriage.policies.elimination import CombinatorialElimination, Triage

__all__ = ["CombUCB1", "CombinatorialElimination", "Triage"]
